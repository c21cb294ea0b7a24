"""Files of responses that somebody prefers in the formats in which their sources publish them, written by the tests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

MODELS = (
    *("beaver_7b", "gemma_2b", "gemma_7b", "llama3_sfairx", "mistral_raft", "mistral_ray", "mistral_weqweasdas"),
    *("oasst_deberta_v3", "oasst_pythia_1b", "oasst_pythia_7b"),
)
"""The reward models of PersonalLLM."""


def participant(user: str, **changes: Any) -> dict[str, Any]:
    """A line of PRISM's survey.jsonl, with the fields that describe the participant."""
    known: dict[str, Any] = {"user_id": user, "survey_only": False, "num_completed_conversations": 6}
    known |= {"lm_familiarity": "Very familiar", "self_description": "I am kind.", "system_string": "Be kind."}
    known |= {"age": "25-34 years old", "gender": "Female", "employment_status": "Student"}
    known |= {"education": "Vocational", "marital_status": "Married", "english_proficiency": "Fluent"}
    known |= {"religion": {"self_described": "none", "categorised": "Agnostic", "simplified": "No Affiliation"}}
    known |= {"ethnicity": {"self_described": "white", "categorised": "White", "simplified": "White"}}
    location = {"birth_country": "Chile", "reside_country": "Chile", "special_region": "Latin America"}
    return known | {"location": location, "stated_prefs": {"values": 54, "other_text": None}} | changes


def utterance(conversation: int, turn: int, number: int, **changes: Any) -> dict[str, Any]:
    """A line of PRISM's utterances.jsonl: one response to a prompt, with its score; the first one is chosen."""
    known = {"utterance_id": f"ut{conversation}-{turn}-{number}", "interaction_id": f"int{conversation}-{turn}"}
    known |= {"conversation_id": f"c{conversation}", "user_id": f"user{conversation % 7}"}
    said = {"turn": turn, "within_turn_id": number, "included_in_balanced_subset": True}
    said |= {"conversation_type": ("unguided", "values guided")[conversation % 2]}
    said |= {"user_prompt": f"Question {conversation}, {turn}?", "model_response": f"Answer {turn}, {number}."}
    said |= {"model_name": "command", "model_provider": "cohere"}
    return known | said | {"score": 90 - 10 * number, "if_chosen": number == 0} | changes


def conversation(number: int) -> list[dict[str, Any]]:
    """The utterances of a conversation of two turns, with three and two responses."""
    return [utterance(number, turn, response) for turn, count in ((0, 3), (1, 2)) for response in range(count)]


def json_lines(items: Iterable[Any]) -> str:
    """One JSON value a line."""
    return "".join(json.dumps(item) + "\n" for item in items)


def rewarded(number: int, **changes: Any) -> dict[str, Any]:
    """A row of PersonalLLM: a prompt, eight responses, and the reward of each by each model."""
    drawn = random.Random(number)
    row: dict[str, Any] = {"prompt": f"Prompt {number}", "subset": "hh", "prompt_id": number}
    for response in range(1, 9):
        row |= {f"response_{response}": f"Response {response} to {number}", f"response_{response}_model": "gpt-4"}
    row |= {f"response_{response}_{model}": drawn.gauss(4, 2) for model in MODELS for response in range(1, 9)}
    return row | changes


def preference_files(name: str, rows: int, csv_text: Callable[..., str]) -> dict[str, str] | None:
    """Files of a set with so many rows, by their names; None for other sets."""
    if name == "prism":
        utterances = [
            item | {"score": (item["score"], 100 - item["score"], 50)[number % 3]}
            for number in range(rows // 2)
            for item in conversation(number)
            if item["within_turn_id"] < 2
        ]
        people = [participant(f"user{number}") for number in range(7)]
        return {"utterances.jsonl": json_lines(utterances), "survey.jsonl": json_lines(people)}
    if name == "personalllm":
        given = [rewarded(number) for number in range(13, 13 + rows // 5)]  # the first prompt validates
        return {"train.csv": csv_text(given[: -len(given) // 4]), "test.csv": csv_text(given[-len(given) // 4 :])}
    return None
