"""``attribune data``: list, info, prepare and stats as a user gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from published import csv_text, message, write, write_source

from attribune.apps.cli import main
from attribune_lab.datasets.sets import CARDS

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``attribune data`` in an empty folder; gives stdout, or with `code` 1 the message on stderr."""
    monkeypatch.chdir(tmp_path)

    def words(*given: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(["data", *given]) == code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert (out == "") == bool(code)
        return err[err.index("attribune data ") :] if code else out

    return words


def test_the_list_has_every_set_and_says_which_are_prepared(run: Run, tmp_path: Path) -> None:
    before = run("list").splitlines()
    assert [line.split()[0] for line in before[2:]] == list(CARDS)
    assert not [line for line in before if line.endswith("prepared")]
    for name, classes, rows in (("beer", "4 x 9", "1,500,000"), ("food", "16", "162,400"), ("sts-b", "numbers", "")):
        (line,) = (line for line in before if line.startswith(f"{name} "))
        assert re.search(rf"  +{classes} *{rows}$", line)
    write_source(tmp_path / "in", "critics")
    run("prepare", "critics", "--source", "in", "--partial")
    assert [line.split()[0] for line in run("list").splitlines() if line.endswith("prepared")] == ["critics"]


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CARDS)
def test_info_says_what_the_card_says(run: Run, name: str) -> None:
    lines, card = run("info", name).splitlines(), CARDS[name]
    assert lines[0] == f"{name}: {card.title}"
    assert max(map(len, lines)) <= 110
    text = " ".join(" ".join(lines).split())
    blocks = {"source": card.source, "how to get it": card.obtain, "terms": card.terms, "citation": card.citation}
    blocks |= {"revision": card.revision, "licence": card.licence}
    for block, content in (blocks | {"preparation": card.preparation, "metric": card.metric}).items():
        assert f" {block}: {content} " in text
    for file in card.files:
        assert file.names[0] + ("" if file.rows is None else f", {file.rows:,} rows") in text
    assert ("notes:" in text) == bool(card.notes)
    for address in re.findall(r"http\S+\w", card.obtain):
        assert any(address in line for line in lines)  # it can be copied


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("imdb", "as published"),
        ("polmed", "10 folds, seed 0"),
        ("good", "at random, seed 0: 10,000 rows each for validation and test"),
        ("food", "at random, seed 0: 10 % of the rows each for validation and test"),
        ("critics", "at random, seed 0: 10 % of the rows each for validation and test; equal texts stay together"),
        ("airline", "by a hash of the text: 10 % of the rows each for validation and test"),
        ("news-aggregator", "by a hash of the story: 10 % of the rows each for validation and test"),
        ("sts-b", "by a hash of the texts: 10 % of the rows for validation; test as published"),
    ],
)
def test_info_says_how_rows_are_shared_out(run: Run, name: str, split: str) -> None:
    assert f"\n  split: {split}\n" in run("info", name)


def test_prepare_shows_the_folder_the_terms_and_what_was_left_out(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_source(tmp_path / "in", "imdb-cold-50")
    with (tmp_path / "in" / "imdb" / "train_zero5.txt.ids").open("a") as file:
        file.write("u9\t\tp9\nu9\n")
    words = ["data", "prepare", "imdb-cold-50", "--source", "in", "--partial", "--skip-bad"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out == "data/imdb-cold-50\n"
    assert err.splitlines() == [
        f"imdb-cold-50: terms: {CARDS['imdb'].terms}",
        "prepared, rows: train 10, validation 20, test 20",
        "left out, training rows that are not in the list: 10",
        "broken and skipped, not a user and a product: 1, first in in/imdb/train_zero5.txt.ids, line 12",
        "broken and skipped, a listed pair has no training row: 1, first in in/imdb/train_zero5.txt.ids",
        "train: 20 rows read, 67,426 are published",
        "validation: 20 rows read, 8,381 are published",
        "test: 20 rows read, 9,112 are published",
        "pairs: 12 rows read, 17,963 are published",
        "rows: 10 here, 18,000 in the paper",
    ]
    assert main(words) == 0
    terms, rows, *rest = err.splitlines()
    again = capsys.readouterr().err.splitlines()
    assert again == [terms, rows.replace("prepared", "already prepared"), *rest]


class TestStats:
    @pytest.fixture
    def prepared(self, run: Run, tmp_path: Path) -> Path:
        posts = [{"text": f"one two n{i}", "source": "st"[i % 2], "label": f"P{i % 3}"} for i in range(40)]
        rows = [message(message="ab"[i % 2], **post) for i, post in enumerate(posts)]
        write(tmp_path / "in" / "political_social_media.csv", csv_text(rows))
        run("prepare", "polmed", "--source", "in", "--partial")
        return tmp_path / "data" / "polmed"

    @pytest.mark.slow
    def test_tables_stand_beside_the_papers(self, run: Run, prepared: Path) -> None:
        out = run("stats", "polmed")
        assert out.startswith("PolMed, mean over 10 folds\n\n")
        lines = {line.split("  ")[0]: line.split()[len(line.split("  ")[0].split()) :] for line in out.splitlines()}
        assert lines["train"] == ["36", "0", "4,500", "differs"]
        assert lines["words"] == ["3", "0", "38", "differs"]
        assert lines["values of politician"] == ["3", "0"]
        assert lines["random"] == ["0.693", "0.000", "2.195", "differs"]
        assert lines["source"][-1] == "differs"
        assert float(lines["source"][0]) == pytest.approx(0, abs=0.001)
        assert lines["best subset: source"][2:] == ["1.726", "differs"]
        assert out == run("stats", "polmed", "--prepared", str(prepared))

    def test_json_has_the_same_figures(self, run: Run, prepared: Path) -> None:
        found = json.loads(run("stats", "polmed", "--json"))
        assert list(found) == ["name", "figures", "divergences", "best_subset"]
        figures = {figure["name"]: figure for figure in [*found["figures"], *found["divergences"]]}
        assert figures["train"] == {"name": "train", "value": 36, "spread": 0, "published": 4500}
        assert figures["words_most"]["published"] is None
        assert figures["random"]["value"] == pytest.approx(0.6929, abs=1e-4)
        assert found["best_subset"]["attributes"] == ["source"]
        assert found["best_subset"]["published"] == 1.726

    @pytest.mark.parametrize(("name", "divergences"), [("sms-spam", {"random", "majority"}), ("sts-b", set())])
    def test_a_set_without_attributes_and_one_of_numbers_have_fewer_figures(
        self, run: Run, tmp_path: Path, name: str, divergences: set[str]
    ) -> None:
        write_source(tmp_path / "in", name)
        run("prepare", name, "--source", "in", "--partial")
        found = json.loads(run("stats", name, "--json"))
        assert {figure["name"] for figure in found["divergences"]} == divergences
        assert found["best_subset"] == {"attributes": []}
        figures = {figure["name"]: figure["value"] for figure in found["figures"]}
        assert ("classes" in figures) == (name == "sms-spam")
        assert ("values" in figures) == (name == "sts-b")
        assert 10 < figures["characters"] < 100
        out = run("stats", name)
        assert ("divergence" in out) == bool(divergences)
        assert "best subset" not in out

    def test_a_set_without_folds_has_no_spread(self, run: Run, tmp_path: Path) -> None:
        write_source(tmp_path / "in", "aapr")
        run("prepare", "aapr", "--source", "in", "--output", "papers", "--partial")
        out = run("stats", "aapr", "--prepared", "papers")
        assert out.startswith("AAPR\n\n")
        assert "sd over folds" not in out
        assert json.loads(run("stats", "aapr", "--prepared", "papers", "--json"))["figures"][0]["spread"] is None

    def test_the_folder_of_another_set_is_refused(self, run: Run, prepared: Path) -> None:
        message = run("stats", "critics", "--prepared", str(prepared), code=1)
        assert f"{prepared} holds polmed, not critics: name its folder" in message

    def test_a_set_that_is_not_prepared_is_refused(self, run: Run) -> None:
        message = run("stats", "critics", code=1)
        assert "holds no prepared data set (no manifest.json): make one of the files of its source with" in message


@pytest.mark.parametrize(
    "words", [["info", "yelp2013"], ["prepare", "yelp2013", "--source", "."], ["stats", "yelp2013"]]
)
def test_an_unknown_set_is_refused_with_the_nearest(run: Run, words: list[str]) -> None:
    error = run(*words, code=1)
    assert "unknown data set 'yelp2013': choose one of yelp-2013, yelp-2014, " in error
    assert "did you mean 'yelp-2013'?" in error


@pytest.mark.parametrize("words", [["list", "all"], ["prepare", "polmed"], ["info"]])
def test_wrong_words_are_short_errors(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["data", *words])
    action = f"attribune data {words[0]}"
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{action}: error: ")
    assert second == f"See `{action} --help`."
