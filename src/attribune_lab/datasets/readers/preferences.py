"""Readers of answers to prompts, of which people or simulated users prefer one to another: a row for each two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from attribune.core.hashing import text_digest
from attribune.errors import ConfigError
from attribune_lab.datasets.row_log import (
    Row,
    RowLog,
    Rows,
    SplitName,
    cell_text,
    read_csv_or_parquet,
    read_json_lines,
    whole_number,
)

_UTTERANCE = ("utterance_id", "conversation_id", "user_id", "turn", "within_turn_id", "conversation_type")
_SAID = ("user_prompt", "model_response", "score", "if_chosen")
_EMPTY = "EMPTY STRING"  # what the files of PRISM have for an empty response
_PLAIN = ("age", "gender", "education", "employment_status", "marital_status", "english_proficiency", "lm_familiarity")
_NESTED = {
    "religion": ("religion", "simplified"),
    "ethnicity": ("ethnicity", "simplified"),
    "region": ("location", "special_region"),
}
_UNSAID = "prefer not to say"
_MOST_TURNS = 1_000


@dataclass(frozen=True, kw_only=True)
class _Response:
    """A response of a model, with the score that the participant gave it."""

    number: int
    text: str
    score: int
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """A prompt with the responses to it."""

    prompt: str
    responses: list[_Response] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Conversation:
    """The turns of a conversation by their numbers, from 0."""

    user: str
    kind: str
    turns: dict[int, _Turn] = field(default_factory=dict)


def prism(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield a row for each two responses of a turn of PRISM, with what its participant said of themselves.

    The prompt is the conversation so far, a line for each turn of a speaker, with the responses that were chosen.
    """
    people = _participants(files["survey"], log)
    for conversation in _conversations(files["utterances"], log):
        known = conversation.user in people
        about = people.get(conversation.user, dict.fromkeys((*_PLAIN, *_NESTED), ""))
        for compared in _compared(conversation, log):
            log.remarks["rows of participants who are not in the survey"] += not known
            yield None, compared | {"user": conversation.user, "conversation_type": conversation.kind} | about


def _participants(path: Path, log: RowLog) -> dict[str, Row]:
    """Return what each participant said of themselves, by their ids; "" for what they preferred not to say."""
    people = {}
    for place, item in read_json_lines(path, role="survey", log=log):
        nested = tuple(outer for outer, _ in _NESTED.values())
        if not _has_fields(item, ("user_id", *_PLAIN, *nested), place, log):
            continue
        user = cell_text(item["user_id"])
        if log.leave_out_if({"no participant": not user}) or not log.first("user_id", user, place):
            continue
        said = {name: cell_text(item[name]) for name in _PLAIN}
        for name, (outer, inner) in _NESTED.items():
            said[name] = cell_text(item[outer].get(inner)) if isinstance(item[outer], dict) else ""
        if log.writable(place, said):
            people[user] = {name: "" if text.casefold() == _UNSAID else text for name, text in said.items()}
    return people


def _conversations(path: Path, log: RowLog) -> list[_Conversation]:
    """Return all conversations, in memory, since nobody says that the lines of one stand together."""
    found: dict[str, _Conversation] = {}
    for place, item in read_json_lines(path, role="utterances", log=log):
        if not _has_fields(item, (*_UTTERANCE, *_SAID), place, log):
            continue
        names = ("utterance_id", "conversation_id", "user_id", "conversation_type", "user_prompt", "model_response")
        said = {name: cell_text(item[name]) for name in names}
        turn, number = (whole_number(item[name], low=0, high=_MOST_TURNS) for name in ("turn", "within_turn_id"))
        score = whole_number(item["score"], low=1, high=100)
        missing = {"no conversation": not said["conversation_id"], "no participant": not said["user_id"]}
        if log.leave_out_if(missing | {"no prompt": not said["user_prompt"]}):
            continue
        if turn is None or number is None:
            seen = f"{item['turn']!r:.20} and {item['within_turn_id']!r:.20}"
            log.broken(place, "turn and within_turn_id are not whole numbers from 0 on", found=seen)
        elif score is None or isinstance(item["score"], bool):
            reason = "the score is not a whole number from 1 to 100"
            log.broken(place, reason, found=repr(str(item["score"])[:30]))
        elif not isinstance(item["if_chosen"], bool):
            reason = "if_chosen is neither true nor false"
            log.broken(place, reason, found=repr(str(item["if_chosen"])[:30]))
        elif log.writable(place, said) and log.first("utterance_id", said["utterance_id"], place):
            opened = _Conversation(user=said["user_id"], kind=said["conversation_type"])
            conversation = found.setdefault(said["conversation_id"], opened)
            talk = conversation.turns.setdefault(turn, _Turn(prompt=said["user_prompt"]))
            text = "" if said["model_response"] == _EMPTY else said["model_response"]
            if conversation.user != said["user_id"]:
                log.broken(place, "another participant than earlier in the conversation")
            elif talk.prompt != said["user_prompt"]:
                log.broken(place, "another prompt than earlier in the turn")
            else:
                talk.responses.append(_Response(number=number, text=text, score=score, is_chosen=item["if_chosen"]))
    return list(found.values())


def _compared(conversation: _Conversation, log: RowLog) -> Iterator[Row]:
    """Yield each two responses of each turn, in the order of within_turn_id, which the source draws at random."""
    lines: list[str] = []
    is_whole = True
    for place, (number, turn) in enumerate(sorted(conversation.turns.items())):
        is_whole = is_whole and number == place
        lines.append(f"user: {turn.prompt}")
        seen: set[frozenset[str]] = set()
        with_text = [one for one in turn.responses if not log.leave_out_if({"no text": not one.text})]
        for first, second in combinations(sorted(with_text, key=lambda one: one.number), 2):
            texts = frozenset((first.text, second.text))
            repeated = {
                "the same text twice": len(texts) == 1,
                "two texts that stand earlier in the turn": texts in seen,
            }
            if log.leave_out_if({"a turn before it is not known": not is_whole} | repeated):
                continue
            seen.add(texts)
            yield {
                "prompt": "\n".join(lines),
                "opening prompt": conversation.turns[0].prompt,
                "text": first.text,
                "text_pair": second.text,
                "preferred": _preferred(first.score, second.score),
            }
        chosen = {response.text for response in turn.responses if response.is_chosen}
        is_whole = is_whole and len(chosen) == 1
        lines += [f"model: {text}" for text in chosen]


def _preferred(first: float, second: float) -> str:
    """Return which of two has the higher score."""
    return "tie" if first == second else "first" if first > second else "second"


def _has_fields(item: Mapping[str, Any], names: Sequence[str], place: str, log: RowLog) -> bool:
    """Return whether an object has all fields of the format; one without is broken."""
    missing = [name for name in names if name not in item]
    if missing:
        log.broken(place, "not all fields of the format", found=f"there is no {', '.join(missing)}")
    return not missing


@dataclass(frozen=True, kw_only=True)
class PersonalLLM:
    """Preferences of simulated users of PersonalLLM between eight responses to a prompt.

    User u has weights ``w_u`` of the reward models, drawn from a symmetric Dirichlet distribution, and prefers the
    response with the higher ``Σ_m w_um (r_m - mean_m) / sd_m``. Users and the two responses that each is asked about
    are drawn for each prompt by its text, so that they do not depend on other rows.

    Source: Zollo et al. 2024, section 3.

    Args:
        models: the mean and the standard deviation of the rewards of each reward model, by its name in the columns.
        users: number of users.
        concentration: of the Dirichlet distribution: the smaller, the more a user follows one model.
        asked: number of users who are asked about each prompt.
        seed: of the weights and the draws.
    """

    models: Mapping[str, tuple[float, float]]
    users: int
    concentration: float
    asked: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check that there are users who can prefer anything."""
        if not self.models:
            raise ConfigError("there is no reward model: name those of the columns in models")
        for name, (_, deviation) in self.models.items():
            if not deviation > 0:
                raise ConfigError(f"the rewards of {name} have the standard deviation {deviation}: give one above 0")
        for name in ("users", "asked", "concentration"):
            if not 0 < (value := getattr(self, name)) < math.inf:
                raise ConfigError(f"{name} is {value}: give a number above 0")

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the preferences, those of the test part first; no prompt of it trains."""
        weights = self.weights()
        responses = [f"response_{number}" for number in _RESPONSES]
        needs = ["prompt", *responses, *(f"{name}_{model}" for name in responses for model in self.models)]
        seen: set[str] = set()
        parts: tuple[tuple[str, SplitName | None], ...] = (("test", "test"), ("train", None))
        for role, part in parts:
            for place, cells in read_csv_or_parquet(files[role], role=role, log=log, needs=needs):
                prompt = cells["prompt"].strip()
                if log.leave_out_if({"no prompt": not prompt, "prompts that stand earlier": prompt in seen}):
                    continue
                seen.add(prompt)
                for row in self._rows(place, prompt, cells, weights, log):
                    yield part, row

    def weights(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the weights of the reward models of each user, (users, models)."""
        drawn = np.random.default_rng(self.seed)
        return drawn.dirichlet(np.full(len(self.models), self.concentration), size=self.users)

    def _rows(
        self,
        place: str,
        prompt: str,
        cells: Mapping[str, str],
        weights: np.ndarray[Any, np.dtype[np.float64]],
        log: RowLog,
    ) -> Iterator[Row]:
        texts = {number: cells[f"response_{number}"].strip() for number in _RESPONSES}
        numbers = [number for number in texts if not log.leave_out_if({"no text": not texts[number]})]
        if len(numbers) < 2 or not log.writable(place, {"prompt": prompt, **{str(n): texts[n] for n in numbers}}):
            return
        rewards = {
            number: [_number(cells[f"response_{number}_{model}"]) for model in self.models] for number in numbers
        }
        if not np.isfinite([*rewards.values()]).all():
            log.broken(place, "a reward is not a number")
            return
        means, deviations = np.array([*self.models.values()]).T
        drawn = np.random.default_rng([self.seed, int.from_bytes(text_digest(prompt)[:8], "big")])
        for user in drawn.choice(self.users, size=min(self.asked, self.users), replace=False):
            first, second = (numbers[which] for which in drawn.choice(len(numbers), size=2, replace=False))
            liked = [float(weights[user] @ ((rewards[one] - means) / deviations)) for one in (first, second)]
            if not log.leave_out_if({"the same text twice": texts[first] == texts[second]}):
                yield {
                    "prompt": prompt,
                    "text": texts[first],
                    "text_pair": texts[second],
                    "preferred": _preferred(*liked),
                    "user": f"u{user}",
                }


_RESPONSES = range(1, 9)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
