"""Files in which several people judge one text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from published import csv_text, read_rows, write, write_source
from published_judgements import (
    NEW,
    OLD,
    PARTS,
    convarg_files,
    convarg_judgement,
    judged_item,
    judged_request,
    tid8_folder,
    tid8_judgement,
)
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import DataError
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.prepared import load_prepared
from attribune_lab.datasets.row_log import Row, RowLog
from attribune_lab.datasets.sets import find_card

FILES = {name: file for name, (file, _, _) in (OLD | NEW).items()}


def rows_of(name: str, folder: Path, *items: Any, skip_bad: bool = False) -> tuple[list[Row], RowLog]:
    """What the reader makes of training items; the other parts have one item each."""
    given = {"train": items, **{part: (judged_item(name, 90),) for part in PARTS[1:]}}
    for part, members in given.items():
        write(folder / f"{FILES[name]}_{part}.json", json.dumps({str(i): item for i, item in enumerate(members)}))
    rows, log = read_rows(name, folder, skip_bad=skip_bad)
    return [row for part, row in rows if part == "train"], log


def judged(rows: list[Row], *names: str) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


class TestLewidi:
    def test_every_annotator_of_a_tweet_is_a_row(self, tmp_path: Path) -> None:
        item = judged_item("hs-brexit", 4)
        rows, _ = rows_of("hs-brexit", tmp_path, item)
        assert rows == [
            {"text": "Message 4", "hateful": "no", "annotator": "Ann1", "group": "group1"},
            {"text": "Message 4", "hateful": "yes", "annotator": "Ann3", "group": "group2"},
        ]

    def test_the_files_say_the_parts(self, tmp_path: Path) -> None:
        rows_of("armis", tmp_path, judged_item("armis", 0))
        parts = [part for part, _ in read_rows("armis", tmp_path)[0]]
        assert parts == ["train"] * 2 + ["validation"] * 2 + ["test"] * 2

    def test_a_dialogue_is_a_line_for_each_turn_and_severities_below_zero_are_abusive(self, tmp_path: Path) -> None:
        names = [f"Ann{number}" for number in range(5)]
        item = judged_item("convabuse", 7, annotators=",".join(names), annotations="1,0,-1,-2,-3")
        opening = {"prev_agent": "", "prev_user": "", "agent": "Hello", "user": "you there?"}
        rows, _ = rows_of("convabuse", tmp_path, item, judged_item("convabuse", 8, text=json.dumps(opening)))
        assert rows[0]["text"] == "agent: Hi.\nuser: hi\nagent: How are you?\nuser: fine 7"
        assert judged(rows[:5], "abusive", "annotator", "bot") == [
            (said, name, "CarbonBot") for said, name in zip(["no", "no", "yes", "yes", "yes"], names, strict=True)
        ]
        assert rows[5]["text"] == "agent: Hello\nuser: you there?"

    def test_answers_by_annotator_and_both_texts(self, tmp_path: Path) -> None:
        rows, _ = rows_of("multipico", tmp_path, judged_item("multipico", 1, annotations={"Ann8": "1.0", "Ann2": 0}))
        same = {"text": "post 1", "text_pair": "reply 1", "language": "en", "variety": "au", "source": "reddit"}
        assert rows == [same | {"ironic": "yes", "annotator": "Ann8"}, same | {"ironic": "no", "annotator": "Ann2"}]

    def test_several_answers_of_one_annotator(self, tmp_path: Path) -> None:
        rows, _ = rows_of("varierr-nli", tmp_path, judged_item("varierr-nli", 0))
        assert judged(rows, "entailment", "neutral", "contradiction") == [("yes", "yes", "no"), ("no", "no", "yes")]

    def test_scales(self, tmp_path: Path) -> None:
        for name, label, lowest, highest in (("csc", "sarcasm", "1", "6"), ("paraphrase", "score", "-5", "5")):
            rows, _ = rows_of(name, tmp_path / name, judged_item(name, 0))
            assert judged(rows, label) == [(lowest,), (highest,)]

    def test_what_is_not_there_is_left_out(self, tmp_path: Path) -> None:
        items = [
            judged_item("csc", 0, text={"context": "Where?", "response": " "}),
            judged_item("csc", 1, text="a text alone"),
            judged_item("csc", 2, annotations={"Ann1": "", "Ann2": None, "Ann3": "4"}),
        ]
        rows, log = rows_of("csc", tmp_path, *items)
        assert judged(rows, "annotator", "sarcasm") == [("Ann3", "4")]
        assert log.left_out == {"no text": 2, "no answer": 2}

    @pytest.mark.parametrize(
        ("name", "changes", "message"),
        [
            ("md-agreement", {"annotations": "0"}, r"not one annotation for each annotator \(annotators 'Ann0,Ann3'"),
            ("md-agreement", {"annotations": ""}, "not one annotation for each annotator"),
            ("md-agreement", {"annotators": "Ann0,", "annotations": "0,1"}, "not one annotation for each annotator"),
            ("md-agreement", {"annotators": 3}, "not one annotation for each annotator"),
            ("md-agreement", {"annotations": "0,2"}, r"the annotation is none of 0, 1 \('2'\)"),
            ("csc", {"annotations": {}}, "not one annotation for each annotator"),
            ("csc", {"annotations": {"Ann1": "7"}}, r"the annotation is none of 1, 2, 3, 4, 5, 6 \('7'\)"),
            ("csc", {"annotations": {"Ann1": "nan"}}, r"the annotation is none of"),
            ("varierr-nli", {"annotations": {"Ann1": "neutral, maybe"}}, r"none of .* \('maybe'\)"),
            ("hs-brexit", {"other_info": {}}, r"not one group for each annotator \(0 and 2\)"),
            ("hs-brexit", {"other_info": None}, r"not one group for each annotator \(0 and 2\)"),
            ("md-agreement", {"text": "half \ud800"}, "half of a character pair"),
        ],
    )
    def test_broken_items_are_refused_by_their_place(
        self, tmp_path: Path, name: str, changes: dict[str, Any], message: str
    ) -> None:
        items = judged_item(name, 0), judged_item(name, 0, **changes)
        with pytest.raises(DataError, match=rf"{FILES[name]}_train\.json, item 1: .*{message}"):
            rows_of(name, tmp_path, *items)
        rows, log = rows_of(name, tmp_path, *items, skip_bad=True)
        assert len(rows) >= 2
        assert log.bad.total() >= 1

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"1": {"text"', r"truncated, or not JSON .*: get the file again"),
            ("[1]", "a list, not an object of items by id: get the file again"),
            ('{"1": 5}', r"item 1: not an object \('5'\)"),
        ],
    )
    def test_another_file_is_refused(self, tmp_path: Path, content: str, message: str) -> None:
        rows_of("armis", tmp_path, judged_item("armis", 0))
        write(tmp_path / "ArMIS_test.json", content)
        with pytest.raises(DataError, match=rf"ArMIS_test\.json.*{message}"):
            read_rows("armis", tmp_path)


class TestPoliteness:
    def read(self, folder: Path, *requests: dict[str, Any]) -> tuple[list[Row], RowLog]:
        write(folder / "wikipedia.annotated.csv", csv_text(list(requests)))
        write(folder / "stack-exchange.annotated.csv", csv_text([judged_request(9, Community="Cooking")]))
        rows, log = read_rows("politeness", folder)
        return [row for _, row in rows], log

    def test_every_judgement_is_a_row(self, tmp_path: Path) -> None:
        rows, log = self.read(tmp_path, judged_request(1, Score2=" ", TurkId3=""), judged_request(2, Request=" "))
        assert rows[:3] == [
            {"text": "Could you do 1?", "score": score, "judge": judge, "community": "Wikipedia"}
            for score, judge in (("3", "A2"), ("6", "A5"), ("7", "A6"))
        ]
        assert {row["community"] for row in rows[3:]} == {"Cooking"}
        assert log.left_out == {"no judgement": 2, "no text": 1}

    @pytest.mark.parametrize("score", ["0", "26", "7.5", "x", "nan", "inf"])
    def test_other_scores_are_refused(self, tmp_path: Path, score: str) -> None:
        with pytest.raises(DataError, match=r"line 2: the score is not a whole number from 1 to 25 \("):
            self.read(tmp_path, judged_request(1, Score4=score))

    def test_another_table_is_refused(self, tmp_path: Path) -> None:
        other = {key: value for key, value in judged_request(1).items() if key not in ("Request", "Score5")}
        with pytest.raises(DataError, match="has no column Request, Score5"):
            self.read(tmp_path, other)


class TestConvarg:
    def read(self, folder: Path, *judgements: dict[str, Any], **options: Any) -> tuple[list[Row], RowLog]:
        for file, content in convarg_files(list(judgements), csv_text).items():
            if not (folder / file).is_file():
                write(folder / file, content)
        rows, log = read_rows("ukpconvarg1", folder, **options)
        assert {part for part, _ in rows} <= {None}
        return [row for _, row in rows], log

    def test_every_judgement_is_a_row_with_both_arguments(self, tmp_path: Path) -> None:
        rows, _ = self.read(tmp_path, *(convarg_judgement(number) for number in (0, 1, 14)))
        assert judged(rows, "text", "text_pair", "preferred", "judge") == [
            ("debate-0_no says arg1.", "debate-0_no says arg2.", "first", "A0"),
            ("debate-1_yes says arg1.", "debate-1_yes says arg3.", "second", "A1"),
            ("debate-14_no says arg1.", "debate-14_no says arg16.", "tie", "A4"),
        ]
        assert judged(rows, "topic", "debate")[1] == ("debate-1_yes", "debate-1")

    def test_what_cannot_be_compared_is_left_out(self, tmp_path: Path) -> None:
        arguments = [("arg1", "Same."), ("arg2", " Same. "), ("arg3", " "), ("arg4", "Other.")]
        known = [{"topic": "debate-0_no", "argument_id": name, "text": text} for name, text in arguments]
        write(tmp_path / "ukpconvarg1_arguments.csv", csv_text(known))
        pairs = [convarg_judgement(0, a2=name) for name in ("arg2", "arg3", "arg4")]
        rows, log = self.read(tmp_path, *pairs, convarg_judgement(0, a2="arg4", turkerid=" "))
        assert judged(rows, "text_pair") == [("Other.",)]
        assert log.left_out == {"the same text twice": 1, "no text": 1, "no judge": 1}

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"label": "a3"}, r"line 3: the label is none of a1, a2, equal \('a3'\)"),
            ({"label": ""}, r"line 3: the label is none of a1, a2, equal \(''\)"),
            ({"topic": "debate-7_no"}, r"line 3: an argument is not among those of its topic \(arg1, arg9\)"),
        ],
    )
    def test_others_are_refused(self, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
        known = convarg_judgement(0), convarg_judgement(0, a2="arg9")
        write(tmp_path / "ukpconvarg1_arguments.csv", convarg_files(list(known), csv_text)["ukpconvarg1_arguments.csv"])
        with pytest.raises(DataError, match=message):
            self.read(tmp_path, known[0], known[1] | changes)
        rows, log = self.read(tmp_path, *known, skip_bad=True)
        assert (len(rows), log.bad.total()) == (1, 1)


ABOUT = {"gender": "Woman", "race": "White", "age": "50-54", "occupation": "Student", "education": "College degree"}


class TestPopquorn:
    def write(self, folder: Path, judged: list[dict[str, Any]]) -> None:
        rows = [
            {"instance_id": str(n), "user_id": "7", "text": f"Text {n}"} | ABOUT | row for n, row in enumerate(judged)
        ]
        write(folder / "offensiveness" / "raw_data.csv", csv_text(rows))

    def test_every_judgement_is_a_row_with_what_is_known_of_the_annotator(self, tmp_path: Path) -> None:
        others = {"user_id": "0", "gender": "Prefer not to disclose", "offensiveness": "5"}
        empty = [{"text": " ", "offensiveness": "2"}, {"user_id": "", "offensiveness": "2"}]
        self.write(tmp_path, [{"offensiveness": "1.0"}, others, *empty])
        rows, log = read_rows("popquorn-offensiveness", tmp_path)
        assert [row for _, row in rows] == [
            {"text": "Text 0", "offensiveness": "1", "annotator": "7"} | ABOUT,
            {"text": "Text 1", "offensiveness": "5", "annotator": "0"} | ABOUT | {"gender": ""},
        ]
        assert log.left_out == {"no text": 1, "no annotator": 1}

    @pytest.mark.parametrize("answer", ["0", "6", "2.5", "", "very"])
    def test_other_answers_are_refused(self, answer: str, tmp_path: Path) -> None:
        self.write(tmp_path, [{"offensiveness": answer}])
        with pytest.raises(DataError, match="line 2: the offensiveness is not a whole number from 1 to 5"):
            read_rows("popquorn-offensiveness", tmp_path)

    @pytest.mark.slow
    def test_annotators_are_a_table_with_which_it_trains(self, tmp_path: Path, trained_runs: TrainedRuns) -> None:
        judged = [
            {"user_id": str(n % 6), "offensiveness": str(1 + n % 5), "age": f"{20 + n % 6}-", "gender": gender}
            for n, gender in enumerate(["Woman", "Man"] * 60)
        ]
        judged[30] |= {"age": "99"}  # the annotator said something else before
        self.write(tmp_path, judged)
        prepared = prepare(find_card("popquorn-offensiveness"), source=tmp_path, output=tmp_path / "prepared")
        table = pq.read_table(tmp_path / "prepared" / "annotator-values.parquet").to_pylist()
        assert table[1] == ABOUT | {"annotator": "1", "age": "21-", "gender": "Man"}
        assert len(table) == prepared.manifest["values"]["annotator"]["values"] == 6
        remark = "rows that describe their annotator in other words than an earlier row"
        assert prepared.manifest["remarks"] == {remark: 1}
        config = tmp_path / "prepared" / "recipe.yaml"
        recipe = Recipe.from_dict(yaml.safe_load(config.read_text()))
        assert [field["name"] for field in recipe.data.values["annotator"].fields or ()] == list(ABOUT)
        assert "age" not in pq.read_table(prepared.file("train")).column_names
        words = ["train", "--config", str(config), "--output", str(tmp_path / "run"), "--no-baselines"]
        words += ["--backbone", str(trained_runs.backbone()), "--max-length", "32", "--set", "training.steps=2"]
        assert main(words) == 0
        description = load_run(tmp_path / "run")[1].schema["annotator"].description
        assert [one.spec.name for one in description.fields] == list(ABOUT)
        (tmp_path / "prepared" / "annotator-values.parquet").unlink()
        with pytest.raises(DataError, match=r"annotator-values\.parquet is missing"):
            load_prepared(tmp_path / "prepared")


class TestTid8:
    def rows(self, folder: Path, name: str, *items: dict[str, Any], ending: str = "csv") -> tuple[list[Any], RowLog]:
        """What the reader makes of training rows; one row tests."""
        for part, members in (("train", items), ("test", (tid8_judgement(name, 0),))):
            path = folder / tid8_folder(name) / f"{part}.{ending}"
            if ending == "csv":
                write(path, csv_text(list(members)))
                continue
            path = path.parent / part / "0000.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(list(members)), path)
        return read_rows(name, folder)

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_judgement_is_a_row_and_the_parts_of_its_text_are_lines(self, tmp_path: Path, ending: str) -> None:
        items = [tid8_judgement("tid8-humor", 4), tid8_judgement("tid8-humor", 5, question="One alone")]
        rows, log = self.rows(tmp_path, "tid8-humor", *items, ending=ending)
        assert rows == [
            (None, {"text": "First 4\nSecond 4", "funnier": "B", "annotator": "w4"}),
            (None, {"text": "One alone", "funnier": "X", "annotator": "w5"}),
            ("test", {"text": "First 0\nSecond 0", "funnier": "A", "annotator": "w0"}),
        ]
        assert log.read == {"train": 2, "test": 1}

    def test_what_is_empty_is_left_out(self, tmp_path: Path) -> None:
        given: list[dict[str, Any]] = [{"question": "</s> "}, {"annotator_id": None}, {"answer": None}, {}]
        items = [tid8_judgement("tid8-humor", 1, **changes) for changes in given]
        rows, log = self.rows(tmp_path, "tid8-humor", *items, ending="parquet")
        assert len(rows) == 2
        assert log.left_out == {"no text": 1, "no annotator": 1, "no answer": 1}

    def test_another_answer_or_another_file_is_refused(self, tmp_path: Path) -> None:
        odd = tid8_judgement("tid8-humor", 1, answer="C")
        with pytest.raises(DataError, match=r"0000\.parquet, row 2: the answer is none of A, B, X \('C'\)"):
            self.rows(tmp_path / "a", "tid8-humor", tid8_judgement("tid8-humor", 1), odd, ending="parquet")
        other = {"text": "a", "answer": "A"}
        with pytest.raises(DataError, match=r"has no column question, annotator_id \(it has: text, answer\)"):
            self.rows(tmp_path / "b", "tid8-humor", other, ending="parquet")
        path = tmp_path / "a" / "humor-ann" / "train" / "0000.parquet"
        path.write_bytes(path.read_bytes()[:90])
        with pytest.raises(DataError, match=r"0000\.parquet: truncated, or not a Parquet file .*: get the file again"):
            read_rows("tid8-humor", tmp_path / "a")

    def test_any_answer_is_taken_where_they_are_not_known(self, tmp_path: Path) -> None:
        items = tid8_judgement("tid8-sentiment", 1, answer="Very negative"), tid8_judgement("tid8-sentiment", 2)
        rows, _ = self.rows(tmp_path, "tid8-sentiment", *items)
        assert [row["sentiment"] for _, row in rows] == ["Very negative", "Neutral", "Neutral"]

    def test_new_annotators_are_in_no_other_part(self, tmp_path: Path) -> None:
        source = write_source(tmp_path / "source", "tid8-goemotions-annotators", 120)
        prepare(find_card("tid8-goemotions-annotators"), source=source, output=tmp_path / "out")
        parts = load_prepared(tmp_path / "out").parts().values()
        people = [set(table["annotator"].to_pylist()) for table in parts]
        assert all(people)
        assert sum(map(len, people)) == len(set.union(*people))
        assert "person" not in next(iter(parts)).column_names
