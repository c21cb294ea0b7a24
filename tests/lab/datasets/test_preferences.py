"""Files in which somebody prefers one of several responses to a prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from published import csv_text, read_rows, write, write_source
from published_preferences import MODELS, conversation, json_lines, participant, rewarded, utterance
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import ConfigError, DataError
from attribune.runs.recipe import Recipe
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.readers.preferences import PersonalLLM
from attribune_lab.datasets.row_log import Row, RowLog
from attribune_lab.datasets.sets import CARDS, find_card

SAID = {
    "age": "25-34 years old",
    "gender": "Female",
    "education": "Vocational",
    "employment_status": "Student",
    "marital_status": "Married",
    "english_proficiency": "Fluent",
    "lm_familiarity": "Very familiar",
    "religion": "No Affiliation",
    "ethnicity": "White",
    "region": "Latin America",
}


def compared(rows: list[Row]) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in ("text", "text_pair", "preferred")) for row in rows]


class TestPrism:
    def read(
        self, folder: Path, *utterances: dict[str, Any], people: list[dict[str, Any]] | None = None, **options: Any
    ) -> tuple[list[Row], RowLog]:
        write(folder / "utterances.jsonl", json_lines(utterances))
        write(folder / "survey.jsonl", json_lines([participant("user1")] if people is None else people))
        rows, log = read_rows("prism", folder, **options)
        assert {part for part, _ in rows} <= {None}
        return [row for _, row in rows], log

    def test_each_two_responses_of_a_turn_are_a_row_after_the_conversation_so_far(self, tmp_path: Path) -> None:
        rows, log = self.read(tmp_path, *reversed(conversation(1)))
        assert compared(rows) == [
            ("Answer 0, 0.", "Answer 0, 1.", "first"),
            ("Answer 0, 0.", "Answer 0, 2.", "first"),
            ("Answer 0, 1.", "Answer 0, 2.", "first"),
            ("Answer 1, 0.", "Answer 1, 1.", "first"),
        ]
        known = {"user": "user1", "conversation_type": "values guided", "opening prompt": "Question 1, 0?"} | SAID
        assert all({name: row[name] for name in known} == known for row in rows)
        assert {row["prompt"] for row in rows[:3]} == {"user: Question 1, 0?"}
        assert rows[3]["prompt"] == "user: Question 1, 0?\nmodel: Answer 0, 0.\nuser: Question 1, 1?"
        assert not log.left_out
        assert not log.bad

    def test_the_higher_score_is_preferred_and_equal_ones_are_a_tie(self, tmp_path: Path) -> None:
        given = [utterance(1, 0, number, score=score) for number, score in enumerate((1, 50, 50, "100"))]
        rows, _ = self.read(tmp_path, *given)
        assert [row["preferred"] for row in rows] == ["second"] * 3 + ["tie", "second", "second"]

    def test_what_cannot_be_compared_is_left_out_and_counted(self, tmp_path: Path) -> None:
        texts = ["Same.", " Same. ", "Other.", None, "EMPTY STRING", " "]
        given = [utterance(1, 0, number, model_response=text) for number, text in enumerate(texts)]
        rows, log = self.read(tmp_path, *given, utterance(2, 0, 0, user_prompt=None), utterance(2, 0, 1, user_id=""))
        assert compared(rows) == [("Same.", "Other.", "first")]
        left_out = {"no text": 3, "the same text twice": 1, "two texts that stand earlier in the turn": 1}
        assert log.left_out == left_out | {"no prompt": 1, "no participant": 1}

    @pytest.mark.parametrize(
        "first_turn",
        [
            [],
            [utterance(1, 0, 0, if_chosen=False), utterance(1, 0, 1)],
            [utterance(1, 0, 0), utterance(1, 0, 1, if_chosen=True)],
        ],
    )
    def test_later_turns_need_one_chosen_response_in_each_earlier_one(
        self, tmp_path: Path, first_turn: list[dict[str, Any]]
    ) -> None:
        later = [utterance(1, turn, number) for turn in (1, 2) for number in (0, 1)]
        rows, log = self.read(tmp_path, *first_turn, *later)
        assert len(rows) == len(first_turn) // 2
        assert log.left_out == {"a turn before it is not known": 2}

    def test_one_response_may_be_chosen_twice(self, tmp_path: Path) -> None:
        same = [utterance(1, 0, number, model_response="Same.", if_chosen=True) for number in (0, 1)]
        rows, _ = self.read(tmp_path, *same, utterance(1, 1, 0), utterance(1, 1, 1))
        assert [row["prompt"].count("Same.") for row in rows] == [1]

    def test_participants_without_a_survey_are_counted(self, tmp_path: Path) -> None:
        rows, log = self.read(tmp_path, *conversation(1), *conversation(2))
        assert [row["age"] for row in rows] == ["25-34 years old"] * 4 + [""] * 4
        assert {row["user"] for row in rows[4:]} == {"user2"}
        assert log.remarks == {"rows of participants who are not in the survey": 4}

    def test_what_is_not_said_of_participants_is_empty(self, tmp_path: Path) -> None:
        silent = {"age": "Prefer not to say", "lm_familiarity": None, "religion": None, "ethnicity": {}}
        rows, _ = self.read(tmp_path, *conversation(1), people=[participant("user1", **silent)])
        assert [name for name in SAID if not rows[0][name]] == ["age", "lm_familiarity", "religion", "ethnicity"]

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"score": 0}, r"the score is not a whole number from 1 to 100 \('0'\)"),
            ({"score": 101}, "the score is not a whole number"),
            ({"score": 7.5}, "the score is not a whole number"),
            ({"score": None}, "the score is not a whole number"),
            ({"score": True}, "the score is not a whole number"),
            ({"if_chosen": "true"}, r"if_chosen is neither true nor false \('true'\)"),
            ({"turn": -1}, "turn and within_turn_id are not whole numbers from 0 on"),
            ({"within_turn_id": "x"}, r"turn and within_turn_id are not whole numbers from 0 on \(0 and 'x'\)"),
            ({"user_id": "user9"}, "another participant than earlier in the conversation"),
            ({"user_prompt": "Another?"}, "another prompt than earlier in the turn"),
            ({"utterance_id": "ut1-0-0"}, r"the same utterance_id stands twice \('ut1-0-0', first in"),
            ({"model_response": "half \ud800"}, "half of a character pair"),
        ],
    )
    def test_broken_utterances_are_refused_by_their_place(
        self, tmp_path: Path, changes: dict[str, Any], message: str
    ) -> None:
        given = [utterance(1, 0, 0), utterance(1, 0, 1), utterance(1, 0, 2) | changes]
        with pytest.raises(DataError, match=rf"utterances\.jsonl, line 3: {message}"):
            self.read(tmp_path, *given)
        rows, log = self.read(tmp_path, *given, skip_bad=True)
        assert (len(rows), log.bad.total()) == (1, 1)

    def test_lines_without_a_field_are_refused(self, tmp_path: Path) -> None:
        short = {name: value for name, value in utterance(1, 0, 1).items() if name not in ("score", "if_chosen")}
        with pytest.raises(DataError, match=r"line 2: not all fields of the format \(there is no score, if_chosen\)"):
            self.read(tmp_path, utterance(1, 0, 0), short)
        unnamed = {name: value for name, value in participant("user1").items() if name != "religion"}
        with pytest.raises(DataError, match=r"survey\.jsonl, line 1: not all fields .*there is no religion"):
            self.read(tmp_path, *conversation(1), people=[unnamed])
        twice = [participant("user1"), participant("user1", age="65+ years old")]
        with pytest.raises(DataError, match=r"survey\.jsonl, line 2: the same user_id stands twice"):
            self.read(tmp_path, *conversation(1), people=twice)

    def test_participants_are_a_table(self, tmp_path: Path) -> None:
        source = write_source(tmp_path / "source", "prism", 60)
        prepare(find_card("prism"), source=source, output=tmp_path / "out", partial=True)
        table = pq.read_table(tmp_path / "out" / "user-values.parquet").to_pylist()
        assert [row.pop("user") for row in sorted(table, key=lambda row: str(row["user"]))] == [
            f"user{number}" for number in range(7)
        ]
        assert table[0] == SAID

    @pytest.mark.slow
    def test_it_trains_after_the_prompt(self, tmp_path: Path, trained_runs: TrainedRuns) -> None:
        source = write_source(tmp_path / "source", "prism", 300)
        prepare(find_card("prism"), source=source, output=tmp_path / "out", partial=True)
        config = tmp_path / "out" / "recipe.yaml"
        recipe = Recipe.from_dict(yaml.safe_load(config.read_text()))
        assert (recipe.data.prompt, recipe.data.text_pair) == (("prompt",), ("text_pair",))
        assert [field["name"] for field in recipe.data.values["user"].fields or ()] == list(SAID)
        words = ["train", "--config", str(config), "--output", str(tmp_path / "run"), "--no-baselines"]
        words += ["--backbone", str(trained_runs.backbone()), "--max-length", "32", "--set", "training.steps=2"]
        assert main(words) == 0


class TestPersonalLLM:
    def read(
        self, folder: Path, *rows: dict[str, Any], ending: str = "csv", **options: Any
    ) -> tuple[list[tuple[Any, Row]], RowLog]:
        """What the reader makes of training rows; one prompt tests."""
        for part, members in (("train", [*rows]), ("test", [rewarded(900)])):
            if ending == "csv":
                write(folder / f"{part}.csv", csv_text(members))
            else:
                (folder / "data").mkdir(exist_ok=True, parents=True)
                pq.write_table(pa.Table.from_pylist(members), folder / "data" / f"{part}-00000-of-00001.parquet")
        return read_rows("personalllm", folder, **options)

    def test_five_users_are_asked_about_each_prompt(self, tmp_path: Path) -> None:
        rows, log = self.read(tmp_path / "a", rewarded(1), rewarded(2))
        assert [part for part, _ in rows] == ["test"] * 5 + [None] * 10
        assert log.read == {"train": 2, "test": 1}
        assert len({row["user"] for part, row in rows if part == "test"}) == 5
        assert all(row["text"] != row["text_pair"] for _, row in rows)
        assert self.read(tmp_path / "b", rewarded(1), rewarded(2), ending="parquet")[0] == rows
        assert self.read(tmp_path / "c", rewarded(2))[0][5:] == rows[10:]  # whatever other rows there are

    def test_users_prefer_the_response_with_the_higher_weighted_sum_of_standardised_rewards(
        self, tmp_path: Path
    ) -> None:
        """The same by a slow loop over reward models."""
        card = CARDS["personalllm"]
        assert isinstance(card.read, PersonalLLM)
        assert tuple(sorted(card.read.models)) == MODELS
        weights = card.read.weights()
        assert weights.shape == (1_000, 10)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
        given = rewarded(3)
        for _, row in self.read(tmp_path, given)[0][5:]:
            sums = []
            for text in (row["text"], row["text_pair"]):
                response, total = text.split()[1], 0.0
                for weight, (model, (mean, deviation)) in zip(
                    weights[int(row["user"][1:])], card.read.models.items(), strict=True
                ):
                    total += weight * (given[f"response_{response}_{model}"] - mean) / deviation
                sums.append(total)
            assert row["preferred"] == ("first" if sums[0] > sums[1] else "second")

    def test_equal_rewards_are_ties(self, tmp_path: Path) -> None:
        equal = {name: 1.5 for name in rewarded(1) if name.endswith(MODELS)}
        rows, _ = self.read(tmp_path, rewarded(1, **equal))
        assert {row["preferred"] for part, row in rows if part is None} == {"tie"}

    def test_what_cannot_be_compared_is_left_out_and_counted(self, tmp_path: Path) -> None:
        alike = {f"response_{number}": "Same." for number in range(1, 9)}
        alone = {f"response_{number}": None for number in range(2, 9)}
        missing = {"response_8": None} | {f"response_8_{model}": None for model in MODELS}
        given = [rewarded(1, **alike), rewarded(2, **alone), rewarded(3, **missing), rewarded(4, prompt=" ")]
        rows, log = self.read(tmp_path, *given, rewarded(3), rewarded(900))
        assert [row["prompt"] for part, row in rows if part is None] == ["Prompt 3"] * 5
        assert not any("Response 8 to 3" in (row["text"], row["text_pair"]) for _, row in rows)
        left_out = {"the same text twice": 5, "no text": 8, "no prompt": 1}
        assert log.left_out == left_out | {"prompts that stand earlier": 2}

    @pytest.mark.parametrize("reward", ["", "high", "nan", "inf"])
    def test_rewards_that_are_no_numbers_are_refused(self, tmp_path: Path, reward: str) -> None:
        broken = rewarded(2, response_5_gemma_7b=reward)
        with pytest.raises(DataError, match=r"train\.csv, line 3: a reward is not a number"):
            self.read(tmp_path, rewarded(1), broken)
        rows, log = self.read(tmp_path, rewarded(1), broken, skip_bad=True)
        assert len(rows) == 10
        assert log.bad == {"a reward is not a number": 1}

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        other = {name: value for name, value in rewarded(1).items() if name != "response_3_beaver_7b"}
        with pytest.raises(DataError, match=r"the file has no column response_3_beaver_7b"):
            self.read(tmp_path, other)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"users": 0}, "users is 0"),
            ({"asked": 0}, "asked is 0"),
            ({"concentration": 0.0}, "concentration is 0.0"),
            ({"concentration": float("nan")}, "concentration is nan"),
            ({"models": {}}, "there is no reward model"),
            ({"models": {"a": (0.0, 0.0)}}, "the rewards of a have the standard deviation 0.0"),
        ],
    )
    def test_options_without_users_are_refused(self, changes: dict[str, Any], message: str) -> None:
        known: dict[str, Any] = {"models": {"a": (0.0, 1.0)}, "users": 2, "concentration": 0.1, "asked": 1}
        with pytest.raises(ConfigError, match=message):
            PersonalLLM(**(known | changes))
