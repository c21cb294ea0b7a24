"""GLUE and the sets of Houlsby et al. 2019: official files, versions of them that mirrors have, and damaged ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from published import csv_text, message, read_rows, source_files, write, write_source
from published_texts import COLUMNS, STANCE, archive, glue_row, table_row, tsv_text

from attribune.errors import DataError
from attribune_lab.benchmark.experiment import SetPlan
from attribune_lab.benchmark.source import SetSource
from attribune_lab.datasets.card import Hashed
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.prepared import PreparedSet
from attribune_lab.datasets.row_log import Row, RowLog, read_tsv
from attribune_lab.datasets.sets import ADDITIONAL, CARDS, GLUE
from attribune_lab.datasets.statistics import describe_set

Prepare = Callable[..., PreparedSet]


@pytest.fixture
def prepared(tmp_path: Path) -> Prepare:
    """Factory: a set of the files in `tmp_path`, whatever sizes they have."""
    return lambda name, **options: prepare(
        CARDS[name], source=tmp_path, output=tmp_path / "out", partial=True, **options
    )


def write_glue(folder: Path, name: str, **parts: list[dict[str, str]] | str | bytes) -> None:
    """Write files of a task by their names without an ending, of rows or as they are."""
    task = {"cola": "CoLA"}.get(name, name.upper())
    for part, rows in parts.items():
        content = tsv_text(rows, COLUMNS[name]) if isinstance(rows, list) else rows
        write(folder / task / f"{part}.tsv", content)


def glue_rows(name: str, *numbers: int, **changes: str) -> list[dict[str, str]]:
    return [glue_row(name, number) | changes for number in numbers]


def test_the_lists_are_those_of_the_papers() -> None:
    names = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "mnli-mismatched", "qnli", "rte", "wnli"]
    assert [card.name for card in GLUE] == names
    assert len(ADDITIONAL) == 17
    assert {card.name for card in (*GLUE, *ADDITIONAL) if card.pair} == {*names} - {"cola", "sst-2"}
    tasks = {card.name: dict(card.task) for card in GLUE}
    assert tasks["sts-b"] == {"kind": "regression", "score_by": ["spearman", "pearson"]}
    assert tasks["cola"] == {"kind": "classification", "score_by": ["matthews"]}
    assert tasks["mrpc"] == tasks["qqp"] == {"kind": "classification", "positive": "1"}
    assert tasks["rte"] == {"kind": "classification"}


class TestGlueFiles:
    @pytest.mark.parametrize("name", [name for name in COLUMNS if name != "mnli"])
    @pytest.mark.parametrize("header", [True, False])
    def test_a_header_is_recognised_and_may_be_missing(self, tmp_path: Path, name: str, header: bool) -> None:
        made = [glue_row(name, number) for number in range(6)]
        train, *tests = CARDS[name].files[0].names[0], *CARDS[name].files[1].names
        test = next(file for file in tests[::-1] if not file.endswith(".json"))
        for file, rows in ((train, made[:4]), (test, made[4:])):
            write(tmp_path / file, "\ufeff" + tsv_text(rows, COLUMNS[name], header=header))
        rows, log = read_rows(name, tmp_path)
        assert log.read == {"train": 4, "test": 2}
        assert [part for part, _ in rows] == ["test"] * 2 + [None] * 4  # the test part first, of which no row trains
        assert [row["text"] for _, row in rows] == [f'He said: "text {number}' for number in (4, 5, 0, 1, 2, 3)]
        assert all(not any("\ufeff" in value for value in row.values()) for _, row in rows)

    def test_columns_of_a_header_may_stand_in_any_order(self, tmp_path: Path) -> None:
        columns = ("label", "sentence2", "comment", "sentence1")
        train = tsv_text(glue_rows("rte", 0, 1, comment=""), columns)
        write_glue(tmp_path, "rte", train=train, dev=glue_rows("rte", 2, 3))
        found = [row for _, row in read_rows("rte", tmp_path)[0]]
        assert found[3] == {"text": 'He said: "text 1', "text_pair": "sentence2 1", "relation": "not_entailment"}

    def test_attributes_are_those_of_the_files(self, tmp_path: Path) -> None:
        rows = read_rows("sts-b", write_source(tmp_path, "sts-b"))[0]
        assert rows[0][1] == {
            "text": 'He said: "text 0',
            "text_pair": "sentence2 0",
            "score": "0.000",
            "genre": "news",
            "file": "filename 0",
            "year": "2012test",
        }
        assert read_rows("cola", write_source(tmp_path, "cola"))[0][0][1]["source"] == "gj04"
        assert read_rows("mnli", write_source(tmp_path, "mnli"))[0][0][1]["genre"] == "news"

    def test_what_continues_the_training_file_is_counted_with_it(self, tmp_path: Path, prepared: Prepare) -> None:
        write_source(tmp_path, "wnli")
        write_glue(tmp_path, "wnli", val=tsv_text(glue_rows("wnli", 98, 99), COLUMNS["wnli"], header=False))
        done = prepared("wnli")
        assert done.manifest["rows_read"] == {"test": 20, "train": 42}
        assert [file["role"] for file in done.manifest["origin"]["sources"]] == ["train", "test", "rest"]
        assert done.manifest["differences"] == [
            "train: 42 rows read, 635 are published",
            "test: 20 rows read, 71 are published",
        ]

    def test_the_test_file_of_the_sts_benchmark_has_seven_to_nine_fields(self, tmp_path: Path) -> None:
        columns = ("genre", "filename", "year", "old_index", "score", "sentence1", "sentence2")
        lines = tsv_text(glue_rows("sts-b", 90, 91, 92), columns, header=False).splitlines()
        write_source(tmp_path, "sts-b")
        write(tmp_path / "STS-B" / "sts-test.csv", f"{lines[0]}\n{lines[1]}\tCC BY\tand so on\n{lines[2]}\n")
        rows, log = read_rows("sts-b", tmp_path)
        assert log.read == {"test": 3, "train": 40}
        assert [row["text_pair"] for part, row in rows if part == "test"] == [f"sentence2 {n}" for n in (90, 91, 92)]

    def test_training_rows_with_the_texts_of_a_test_row_are_left_out(self, tmp_path: Path) -> None:
        other = glue_rows("rte", 0, sentence2="something else")
        write_glue(tmp_path, "rte", train=glue_rows("rte", 0, 7, 8) + other, dev=glue_rows("rte", 0, 1))
        kept, log = read_rows("rte", tmp_path)
        assert log.left_out == {"training rows with the texts of a test row": 1}
        assert len(kept) == 5
        assert "something else" in {row["text_pair"] for _, row in kept}  # one text is the same, the pair is not

    def test_glues_own_files_of_mrpc_are_read_where_the_corpus_is_not_there(self, tmp_path: Path) -> None:
        write_glue(tmp_path, "mrpc", train=glue_rows("mrpc", 0, 1, 2, 3), dev=glue_rows("mrpc", 4, 5))
        assert Counter(part for part, _ in read_rows("mrpc", tmp_path)[0]) == {None: 4, "test": 2}

    def test_fragments_of_qqp_are_left_out_and_other_lines_refused(self, tmp_path: Path) -> None:
        train, dev = (source_files("qqp")[f"QQP/{part}.tsv"] for part in ("train", "dev"))
        write_glue(tmp_path, "qqp", train=f"{train}a question\n", dev=dev)
        reason = "lines that are no whole row, of which the published file has some"
        assert read_rows("qqp", tmp_path)[1].left_out == {reason: 1}
        write_glue(tmp_path, "qqp", train=train + "x\t" * 6 + "1\n")
        with pytest.raises(DataError, match=r"train\.tsv, line 42: not the 6 fields that the file has \(7 fields\)"):
            read_rows("qqp", tmp_path)


PAIRS = {str(n): {"text_a": f"a {n}", "text_b": f"b {n}", "label": str(n % 2)} for n in range(40)}


class TestParts:
    def write(self, folder: Path, task: str, labels: tuple[str, str] = ("0", "1")) -> None:
        for word, numbers in (("a", range(30)), ("b", range(30, 40))):
            pairs = {str(n): PAIRS[str(n)] | {"label": labels[n % 2]} for n in numbers}
            write(folder / task / f"train_part_{word}.json.gz", json.dumps(pairs, indent=4))

    def test_part_b_of_qqp_is_the_test_part_without_a_dev_file(self, tmp_path: Path, prepared: Prepare) -> None:
        self.write(tmp_path, "QQP")
        done = prepared("qqp")
        assert done.manifest["rows_read"] == {"test": 10, "train": 30}
        assert done.parts()["test"]["text_pair"].to_pylist() == [f"b {n}" for n in range(30, 40)]
        assert "train: 30 rows read, 363,846 are published" in done.manifest["differences"]

    def test_both_parts_train_where_there_is_a_dev_file(self, tmp_path: Path) -> None:
        self.write(tmp_path, "QNLI", ("entailment", "not_entailment"))
        write_glue(tmp_path, "qnli", dev=glue_rows("qnli", 77))
        rows, log = read_rows("qnli", tmp_path)
        assert log.read == {"test": 1, "train": 40}
        assert rows[-1] == (None, {"text": "a 39", "text_pair": "b 39", "relation": "not_entailment"})

    def test_lines_of_premise_and_hypothesis_have_no_genre(self, tmp_path: Path, prepared: Prepare) -> None:
        self.write(tmp_path, "MNLI", ("neutral", "contradiction"))
        dev = [{"premise": f"p {n}", "hypothesis": f"h {n}", "label": "entailment"} for n in range(3)]
        write(tmp_path / "MNLI/dev_matched.jsonl", "".join(json.dumps(item) + "\n" for item in dev))
        done = prepared("mnli")
        assert done.manifest["attributes"] == []
        assert done.parts()["test"].column_names == ["text", "text_pair", "relation"]
        assert done.parts()["test"].to_pylist()[1] == {"text": "p 1", "text_pair": "h 1", "relation": "entailment"}
        assert done.manifest["differences"][-1] == "genre: no row has a value, so it is no attribute"
        recipe = (tmp_path / "out/recipe.yaml").read_text()
        assert "attributes: []" in recipe
        assert "name: adapter" in recipe

    @pytest.mark.parametrize("name", ["qqp", "qnli"])
    def test_a_part_beside_the_whole_file_is_refused(self, tmp_path: Path, name: str) -> None:
        write_source(tmp_path, name)
        self.write(tmp_path, name.upper())
        if name == "qqp":
            (tmp_path / "QQP/dev.tsv").unlink()
        with pytest.raises(DataError, match=r"holds the whole train\.tsv, and train_part_b\.json\.gz, which is a part"):
            read_rows(name, tmp_path)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ('{"0": {"text_a": "a"', r"part_a\.json: truncated, or not JSON \("),
            ("[1]", r"part_a\.json: a list, not an object of pairs by id: get the file again"),
            ('{"0": 1}', r"part_a\.json, pair 0: not an object \('1'\)"),
            ('{"0": {"text_a": "a", "label": "1"}}', r"pair 0: no text as text_pair \(None\)"),
            ('{"0": {"text_a": "a", "text_b": ["b"], "label": "1"}}', r"pair 0: no text as text_pair \(\['b'\]\)"),
            ('{"0": {"text_a": "a", "text_b": "b", "label": 1}}', r"pair 0: no text as duplicate \(1\)"),
            ('{"0": {"text_a": "\\ud800", "text_b": "b", "label": "1"}}', r"pair 0: half of a character pair"),
        ],
    )
    def test_damaged_parts_are_refused(self, tmp_path: Path, content: str, problem: str) -> None:
        write(tmp_path / "QQP/train_part_a.json", content)
        write_glue(tmp_path, "qqp", dev=glue_rows("qqp", 1))
        with pytest.raises(DataError, match=problem):
            read_rows("qqp", tmp_path)


class TestHostileGlue:
    GOOD = tsv_text(glue_rows("rte", *range(5)), COLUMNS["rte"])

    @pytest.mark.parametrize(
        ("train", "problem"),
        [
            (f"{GOOD}9\tonly\tthree\n", r"line 7: not the 4 fields that the file has \(3 fields\): get .* are index, "),
            (f"{GOOD}9\ta\tb\tc\tentailment\n", r"line 7: not the 4 fields that the file has \(5 fields\)"),
            (f"{GOOD}9\ta\tb\tmaybe\n", r"line 7: the label is not one of entailment, not_entailment \('maybe'\)"),
            (f"{GOOD}9\ta\tb\t\n", r"line 7: the label is not one of entailment, not_entailment \(''\)"),
            ("index\tsentence1\tsentence2\n1\ta\tb\n", r"line 1: 3 fields, .* are neither a header with the columns s"),
            ("index\tfirst\tsecond\tlabel\n1\ta\tb\tentailment\n", r"line 1: the label is not one of .* \('label'\)"),
            (GOOD.encode() + b"9\tcaf\xe9\tb\tentailment\n", r"train\.tsv, line 7: byte e9 at .* is not utf-8"),
            ("a\0b\tc\n", r"line 1: a NUL character"),
        ],
    )
    def test_a_damaged_file_is_refused_with_its_place(self, tmp_path: Path, train: str | bytes, problem: str) -> None:
        write_glue(tmp_path, "rte", train=train, dev=self.GOOD)
        with pytest.raises(DataError, match=problem):
            read_rows("rte", tmp_path)

    @pytest.mark.parametrize("score", ["5.1", "-0.1", "nan", "five", ""])
    def test_scores_are_numbers_from_0_to_5(self, tmp_path: Path, score: str) -> None:
        rows = glue_rows("sts-b", 0, 1, 2)
        write_glue(tmp_path, "sts-b", train=rows + glue_rows("sts-b", 0, score=score), dev=rows)
        with pytest.raises(DataError, match=rf"line 5: the label is not a number from 0 to 5 \('{score}'\)"):
            read_rows("sts-b", tmp_path)

    def test_broken_rows_can_be_skipped_and_empty_texts_are_left_out(self, tmp_path: Path) -> None:
        train = f"{self.GOOD}9\tone\n9\t \tb\tentailment\n9\ta\t\tentailment\n"
        write_glue(tmp_path, "rte", train=train, dev=glue_rows("rte", 50))
        rows, log = read_rows("rte", tmp_path, skip_bad=True)
        assert len(rows) == 6
        assert log.bad == {"not the 4 fields that the file has": 1}
        assert log.left_out == {"rows without a text": 2}
        assert log.read["train"] == 8

    def test_a_truncated_archive_is_refused(self, tmp_path: Path, prepared: Prepare) -> None:
        write_source(tmp_path, "rte", packed=".gz")
        path = tmp_path / "RTE/train.tsv.gz"
        path.write_bytes(path.read_bytes()[:-12])
        with pytest.raises(DataError, match=r"train\.tsv\.gz: the compressed file is truncated or damaged"):
            prepared("rte")


@pytest.mark.parametrize(("other_rows", "whole"), [((60,), True), ((59, 61), False)])
def test_other_versions_of_a_file_are_whole_too(tmp_path: Path, other_rows: tuple[int, ...], whole: bool) -> None:
    (file,) = CARDS["airline"].files
    card = replace(CARDS["airline"], files=(replace(file, rows=99, other_rows=other_rows),))
    paths = {"source": write_source(tmp_path / "in", "airline"), "output": tmp_path / "out"}
    if whole:
        assert prepare(card, **paths).manifest["differences"] == ["rows: 60 here, 14,640 in the paper"]
    else:
        with pytest.raises(DataError, match=r"Tweets\.csv: 60 of the 99 rows"):
            prepare(card, **paths)


def test_tab_separated_files_without_rows_yield_nothing(tmp_path: Path) -> None:
    log, path = RowLog(), write(tmp_path / "empty.tsv", "\n\n")
    assert list(read_tsv(path, role="rows", log=log, needs=("text",), layouts=())) == []
    assert log.read.total() == 0


class TestHashed:
    def test_shares_are_those_of_the_hashes(self) -> None:
        hashes = np.random.default_rng(0).integers(2**64, size=20_000, dtype=np.uint64).tolist()
        parts = Hashed(validation=0.1, test=0.2).parts([-1] * len(hashes), [], hashes)
        assert np.bincount(parts) / len(parts) == pytest.approx([0.7, 0.1, 0.2], abs=0.01)
        given = [2, -1] * 10_000
        parts = Hashed(validation=0.1, test=0.0).parts(given, [], hashes)
        assert (parts[::2] == 2).all()
        assert np.bincount(parts[1::2]) / 10_000 == pytest.approx([0.9, 0.1], abs=0.01)

    def test_the_ends_of_the_range_are_in_the_outer_parts(self) -> None:
        assert Hashed().parts([-1, -1], [], [0, 2**64 - 1]).tolist() == [2, 0]
        assert Hashed().parts([0, 1, 2], [], [0, 0, 2**64 - 1]).tolist() == [0, 1, 2]  # what the files say stays

    def test_a_row_keeps_its_part_when_others_are_gone(self, tmp_path: Path) -> None:
        rows = [table_row("airline", number) for number in range(200)]
        found = []
        for kept in (rows, rows[50:]):
            write(tmp_path / "Tweets.csv", csv_text(kept))
            parts = prepare(CARDS["airline"], source=tmp_path, output=tmp_path / f"{len(kept)}", partial=True).parts()
            found.append({text: part for part, table in parts.items() for text in table["text"].to_pylist()})
        assert found[1] == {text: found[0][text] for text in found[1]}
        assert len(found[1]) == 150
        # On every machine: of the blake2b hashes of these texts.
        assert Counter(found[0].values()) == {"train": 167, "validation": 16, "test": 17}

    def test_pairs_are_hashed_whole(self, tmp_path: Path, prepared: Prepare) -> None:
        rows = glue_rows("rte", *range(300), sentence1="the same")
        write_glue(tmp_path, "rte", train=rows[10:] + rows[10:], dev=rows[:10])
        pairs = {part: set(table["text_pair"].to_pylist()) for part, table in prepared("rte").parts().items()}
        assert len(pairs["test"]) == 10
        assert not pairs["train"] & pairs["validation"]  # a pair and its duplicate are together
        assert 15 < len(pairs["validation"]) < 45


class TestPairs:
    def test_both_texts_are_counted(self, tmp_path: Path, prepared: Prepare) -> None:
        rows = [glue_row("rte", n) | {"sentence1": f"one {n}", "sentence2": "two words more"} for n in range(60)]
        write_glue(tmp_path, "rte", train=rows[10:], dev=rows[:10])
        figures = {figure.name: figure.value for figure in describe_set(prepared("rte"))}
        assert figures["words"] == 5
        assert figures["characters"] == pytest.approx(14 + (10 * 5 + 50 * 6) / 60)

    @pytest.mark.parametrize(
        ("name", "pair", "task"),
        [
            ("rte", "text_pair", {"kind": "classification", "classes": ["entailment", "not_entailment"]}),
            ("sst-2", None, {"kind": "classification", "classes": ["0", "1"]}),
            ("sts-b", "text_pair", {"kind": "regression", "score_by": ["spearman", "pearson"]}),
        ],
    )
    def test_the_benchmark_reads_them(
        self, tmp_path: Path, prepared: Prepare, name: str, pair: str | None, task: dict[str, Any]
    ) -> None:
        write_source(tmp_path, name)
        has_classes = prepared(name).manifest["classes"] != {}
        data, found = SetSource(SetPlan(name=name, prepared=str(tmp_path / "out"))).recipe_parts()
        assert data.get("text_pair") == pair
        assert found == task
        assert has_classes == (task["kind"] == "classification")
        assert name == "sts-b" or data["attributes"] == []


def kept_of(name: str, folder: Path, rows: list[dict[str, Any]]) -> tuple[list[Row], RowLog]:
    write(folder / CARDS[name].files[0].names[0], csv_text(rows))
    found, log = read_rows(name, folder)
    return [row for _, row in found], log


def table_of(name: str) -> str:
    return "progressive" if name.startswith("progressive") else name


class TestTables:
    ROWS: ClassVar[dict[str, dict[str, str]]] = {
        "airline": {"text": "@Delta flight 1", "sentiment": "neutral", "airline": "Delta", "time_zone": "Quito"},
        "corporate-messaging": {"text": "We report 1", "category": "Action", "account": "Citi"},
        "disasters": {"text": "Fire 1", "relevance": "Not Relevant", "keyword": "ablaze", "location": "USA"},
        "economic-news": {"text": "Stocks rose 1. They fell.", "relevant": "no", "paper": "wapo"},
        "emotion": {"text": "oh 1", "emotion": "fun", "author": "a1"},
        "global-warming": {"text": "It is warm 1", "exists": "No"},
        "primary-emotions": {"text": "No bone to pick 1", "emotion": "Fear", "idiom": "1"},
        "progressive-opinion": {"text": "Vote 1", "opinion": "none", "target": "Atheism"},
        "progressive-stance": {"text": "Vote 1", "stance": "none", "target": "Atheism"},
        "us-economic-performance": {"text": "The index rose 1", "relevant": "yes"},
        "complaints": {"text": "They XXXX me 1", "issue": "Credit decision", "company": "Citibank", "state": "VA"},
    }

    @pytest.mark.parametrize("name", ROWS)
    def test_columns_get_their_names(self, tmp_path: Path, name: str) -> None:
        rows = [table_row(table_of(name), number) for number in range(3)]
        assert kept_of(name, tmp_path, rows)[0][1] == self.ROWS[name]

    @pytest.mark.parametrize(
        ("name", "label", "reason"),
        [
            ("disasters", {"choose_one": "Can't Decide"}, "rows whose label is Can't Decide"),
            ("economic-news", {"relevance": "not sure"}, "rows whose label is not sure"),
            ("us-economic-performance", {"relevance": "not sure"}, "rows whose label is not sure"),
            ("global-warming", {"existence": "N/A"}, "rows whose label is N/A"),
            ("global-warming", {"existence": ""}, "rows whose label is N/A"),
            ("complaints", {"Consumer complaint narrative": " "}, "rows without a text"),
        ],
    )
    def test_rows_that_do_not_belong_are_left_out(
        self, tmp_path: Path, name: str, label: dict[str, str], reason: str
    ) -> None:
        rows, log = kept_of(name, tmp_path, [table_row(name, 0), table_row(name, 1, **label)])
        assert len(rows) == 1
        assert log.left_out == {reason: 1}

    @pytest.mark.parametrize(
        ("name", "label"),
        [
            ("airline", {"airline_sentiment": "so so"}),
            ("emotion", {"sentiment": ""}),
            ("progressive-stance", {STANCE: "PERHAPS: not"}),
            ("complaints", {"Issue": ""}),
        ],
    )
    def test_other_labels_are_refused(self, tmp_path: Path, name: str, label: dict[str, str]) -> None:
        with pytest.raises(DataError, match=r"line 3: the label is not one of .*: get the file again"):
            kept_of(name, tmp_path, [table_row(table_of(name), 0), table_row(table_of(name), 1, **label)])

    def test_a_file_without_its_columns_is_refused(self, tmp_path: Path) -> None:
        message = r"has no column text, airline_sentiment \(it has: a, b\): it is another file"
        with pytest.raises(DataError, match=message):
            kept_of("airline", tmp_path, [{"a": 1, "b": 2}])

    def test_repeated_texts_are_kept_once_and_disputed_ones_not_at_all(self, tmp_path: Path) -> None:
        texts = ["twice", "twice", "disputed", "disputed", "disputed", "once", " twice "]
        labels = ["fun", "fun", "fun", "hate", "fun", "worry", "fun"]
        said = zip(texts, labels, strict=True)
        rows = [table_row("emotion", 0, content=text, sentiment=label) for text, label in said]
        kept, log = kept_of("emotion", tmp_path, rows)
        assert [(row["text"], row["emotion"]) for row in kept] == [("twice", "fun"), ("once", "worry")]
        assert log.left_out == {"texts that stand earlier in the files": 2, "texts with several labels": 3}

    @pytest.mark.parametrize("author", [{}, {"author": "N/A"}, {"author": " "}])
    def test_the_author_may_be_missing(self, tmp_path: Path, prepared: Prepare, author: dict[str, str]) -> None:
        rows = [{"sentiment": ("fun", "hate")[n % 2], "content": f"oh {n}", **author} for n in range(60)]
        write(tmp_path / "text_emotion.csv", csv_text(rows), encoding="latin-1")
        done = prepared("emotion")
        assert done.manifest["attributes"] == []
        assert done.manifest["differences"][-1] == "author: no row has a value, so it is no attribute"

    def test_the_news_of_twenty_years_have_other_columns(self, tmp_path: Path) -> None:
        columns = ("id", "texts", "wsj", "wapo", "economy", "noneconomy")
        cells = [(n, f"Stocks {n}", n % 2, 1 - n % 2, n // 2, 1 - n // 2) for n in range(4)]
        rows = [dict(zip(columns, row, strict=True)) for row in cells]
        write(tmp_path / "economic-news-relevance-1995-2014.csv", csv_text(rows))
        found, log = read_rows("economic-news", tmp_path)
        assert [(row["relevant"], row["paper"]) for _, row in found] == [
            *(("no", "wapo"), ("no", "wsj"), ("yes", "wapo"), ("yes", "wsj"))
        ]
        assert log.remarks == {"labels of the column economy, in which 'no' may be 'not sure'": 4}

    def test_a_paper_that_is_not_known_is_none(self, tmp_path: Path) -> None:
        rows, _ = kept_of("economic-news", tmp_path, [table_row("economic-news", 0, articleid="times_5")])
        assert [row["paper"] for row in rows] == [""]

    def test_a_positivity_stands_for_relevance(self, tmp_path: Path) -> None:
        rows = [{"_unit_id": n, "positivity": "7" if n else "", "text": f"Rose {n}</br>more"} for n in range(3)]
        kept, log = kept_of("us-economic-performance", tmp_path, rows)
        assert [row["relevant"] for row in kept] == ["no", "yes", "yes"]
        assert kept[0]["text"] == "Rose 0 more"
        assert log.remarks.total() == 3

    @pytest.mark.parametrize(("name", "other"), [("audience", "bias"), ("bias", "message"), ("message", "audience")])
    def test_one_judgement_of_a_political_message_is_no_attribute_of_another(
        self, tmp_path: Path, name: str, other: str
    ) -> None:
        posts = [message(), message(text="Vote", audience="constituency")]
        write(tmp_path / "political_social_media.csv", csv_text(posts))
        rows = [row for _, row in read_rows(f"political-{name}", tmp_path)[0]]
        assert [*rows[0]] == ["text", name, "politician", "source"]
        assert other not in CARDS[f"political-{name}"].names()


POSTS = {
    "20news-bydate-train/sci.med/1": b"Subject: caf\xe9\n\ntext",
    "20news-bydate-train/sci.med/1-o": b"not a post",
    "20news-bydate-train/rec.autos/2": b" \n",
    "20news-bydate-test/rec.autos/3": b"Subject: cars",
}


class TestOtherFormats:
    def test_messages_hold_quotes_and_tabs(self, tmp_path: Path) -> None:
        write(tmp_path / "SMSSpamCollection", 'ham\t"Ok\tlar\r\nspam\tWin!\r\nham\t"Ok\tlar\r\n')
        rows, log = read_rows("sms-spam", tmp_path)
        assert [row for _, row in rows] == [{"text": '"Ok\tlar', "label": "ham"}, {"text": "Win!", "label": "spam"}]
        assert log.left_out == {"texts that stand earlier in the files": 1}

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("ham\n", r"line 2: not the 2 filled fields .*\(1 of them\)"),
            ("ham\t \n", r"line 2: not the 2 filled fields"),
            ("eggs\tOk\n", r"line 2: the label is not one of ham, spam \('eggs'\)"),
            (b"ham\tcaf\xe9\n", r"line 2: byte e9"),
        ],
    )
    def test_damaged_messages_are_refused(self, tmp_path: Path, line: str | bytes, problem: str) -> None:
        write(tmp_path / "SMSSpamCollection", b"ham\tOk\n" + (line if isinstance(line, bytes) else line.encode()))
        with pytest.raises(DataError, match=problem):
            read_rows("sms-spam", tmp_path)

    def test_news_are_read_with_a_header_and_commas_too(self, tmp_path: Path) -> None:
        row = {"ID": 1, "TITLE": 'Fed, "slow"', "URL": "u", "PUBLISHER": "Reuters", "CATEGORY": "m", "STORY": "s1"}
        row |= {"HOSTNAME": "h", "TIMESTAMP": 1}
        write(tmp_path / "uci-news-aggregator.csv", csv_text([row, row | {"TITLE": "Two", "CATEGORY": "b"}]))
        found, log = read_rows("news-aggregator", tmp_path)
        assert found[0] == (None, {"text": 'Fed, "slow"', "category": "health", "publisher": "Reuters", "story": "s1"})
        assert log.read == {"rows": 2}

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("1\tFed\tu\tReuters\tx\ts\th\t1\n", r"the category is not one of b, e, m, t \('x'\)"),
            ("1\tFed\tu\tReuters\tb\ts\th\n", r"line 1: 7 fields, .* nor a row of 8 fields"),
        ],
    )
    def test_damaged_news_are_refused(self, tmp_path: Path, line: str, problem: str) -> None:
        write(tmp_path / "newsCorpora.csv", line)
        with pytest.raises(DataError, match=problem):
            read_rows("news-aggregator", tmp_path)

    def test_a_title_of_the_test_part_does_not_train(self, tmp_path: Path) -> None:
        parts = {"test": "A\tb\nB\tt\n", "valid": "B\tt\nC\tm\n", "train": "A\tb\nC\te\nD\te\n"}
        for word, titles in parts.items():
            write(tmp_path / f"five_publishers_{word}.tsv", titles)
        rows, log = read_rows("news-aggregator-five", tmp_path)
        assert [(part, row["text"]) for part, row in rows] == [("test", "A"), ("test", "B"), ("train", "D")]
        assert log.left_out == {"texts that stand earlier in the files": 2, "texts with several labels": 2}

    @pytest.mark.parametrize("unpacked", [True, False])
    def test_posts_are_read_of_the_archive_and_of_its_folders(self, tmp_path: Path, unpacked: bool) -> None:
        if unpacked:
            for path, content in POSTS.items():
                write(tmp_path / path, content)
        else:
            write(tmp_path / "20news-bydate.tar.gz", archive(POSTS))
        rows, log = read_rows("20-newsgroups", tmp_path)
        assert rows == [
            ("test", {"text": "Subject: cars", "group": "rec.autos"}),
            (None, {"text": "Subject: caf\u00e9\n\ntext", "group": "sci.med"}),
        ]
        assert (log.read, log.left_out) == ({"test": 1, "train": 2}, {"posts without a text": 1})
        assert log.remarks == {"files that are no posts, and not read": 1}

    def test_folders_have_checksums_of_their_files(self, tmp_path: Path, prepared: Prepare) -> None:
        for number in range(60):
            part = "test" if number < 10 else "train"
            write(tmp_path / f"20news-bydate-{part}/{('sci.med', 'rec.autos')[number % 2]}/{number}", f"Post {number}")
        assert not prepared("20-newsgroups").reused
        assert prepared("20-newsgroups").reused
        write(tmp_path / "20news-bydate-train/sci.med/50", "Post 5O")  # as long as before
        with pytest.raises(DataError, match="prepared from other files"):
            prepared("20-newsgroups")

    @pytest.mark.parametrize("cut", [700, 3000])
    def test_a_truncated_archive_is_refused(self, tmp_path: Path, cut: int) -> None:
        whole = archive({path: content * 200 for path, content in POSTS.items()})
        write(tmp_path / "20news-bydate.tar", whole[:cut])
        with pytest.raises(DataError, match=r"20news-bydate\.tar: truncated, or not an archive \(.*get the file again"):
            read_rows("20-newsgroups", tmp_path)
        packed = gzip.compress(np.random.default_rng(0).bytes(9_000))
        (tmp_path / "20news-bydate.tar").unlink()
        (tmp_path / "20news-bydate.tar.gz").write_bytes(packed[:cut])
        with pytest.raises(DataError, match=r"20news-bydate\.tar\.gz"):
            read_rows("20-newsgroups", tmp_path)
