"""The check of a table: what each column is taken for, what is wrong with it, and a command that trains."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from attribune import DataError, check, read_table, split_table
from attribune.apps.cli import build_parser, main
from attribune.apps.cli.recipe_flags import recipe_of
from attribune.data.checking.findings import leak_finding, shared_rows
from attribune.data.checking.profiles import column_codes, joint_codes
from attribune.schema.columns import MISSING
from attribune.tasks.classification import Classification
from attribune.tasks.labels import count_classes

WORDS = np.array("good,bad,film,plot,cast,great,dull,fine,odd,slow,and,was,a,the,very".split(","))  # noqa: SIM905


def frame(rows: int = 600, seed: int = 1) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    stars = chance.integers(1, 6, rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "review": [" ".join(line) for line in chance.choice(WORDS, (rows, 9))],
            "stars": stars,
            "user": [f"u{number}" for number in chance.integers(0, 40, rows)],
            "tags": [";".join(sorted(set(chance.choice(["drama", "war", "short"], 2)))) for _ in range(rows)],
            "price": chance.random(rows).round(3),
            "posted": [f"2024-01-{day:02}" for day in chance.integers(1, 29, rows)],
            "always": "x",
            "copy": stars,
            "session": [f"s{number}" for number in range(rows)],
            "verdict_code": np.where(stars > 3, "up", "down"),
            "rare": [None] * (rows - 5) + list("aaabb"),
            "reason": np.where(stars == 2, chance.choice(["rude", "late"], rows), None),
            "weight": 1.0,
        }
    )


ROLES = {
    "id": ["id", "session"],
    "text": ["review"],
    "label": ["stars"],
    "attribute": ["user", "tags", "price"],
    "time": ["posted"],
    "left out": ["always", "copy", "verdict_code", "rare", "reason"],
    "weight": ["weight"],
}


def test_roles_are_guessed_and_what_is_wrong_is_said() -> None:
    checked = check(frame())
    assert {role: checked.names(role) for role in {one.role for one in checked.columns}} == ROLES
    assert checked.task.kind == "ordinal"
    assert "ratings from 1 to 5: task='ordinal' or task='rating'" in repr(checked)
    assert sum(checked.classes.values()) == 600
    said = "\n".join(map(str, checked.findings))
    for part in (
        "'always' has one value",
        "'copy' is the label in 100.0%",
        "'rare' is missing in 99.2%",
        "'reason' has values nearly only in rows with the label '2'",
        "the label determines column 'verdict_code': 100.0% of the rows",
    ):
        assert part in said
    assert "user" not in said
    assert checked._repr_html_().count("<tr>") == len(checked.columns) + 1
    assert json.loads(json.dumps(checked.to_dict()))["command"] == checked.command


def test_rows_without_a_text_and_times_that_are_not_split_by_are_said() -> None:
    rows = frame()
    rows.loc[[2, 7], "review"] = ["  ", None]
    findings = [str(one) for one in check(rows).findings]
    assert "2 rows have no text (rows 3, 8), and are left out of a training" in findings
    by_time = "`train(..., settings={'data.split.by': 'time', 'data.split.column': 'posted'})`"
    said = [one for one in findings if "has times" in one]
    assert [one.partition("use ")[2] for one in said] == [by_time]
    assert not [one for one in check(rows[:400], test=rows[400:]).findings if one.code == "times-split-at-random"]


LABELS: list[list[Any]] = [
    ["1", "1.0", "2", " 2 ", "1.0", "3"],
    ["a", "a ", "1", "1.0", "b"],
    ["1", 1, 1.0, True, "x"],
    [True, False, None],
    ["none", "n/a", "NA", "a", "-", ""],
    [Decimal("1.0"), Decimal(1), Decimal("2.50")],
    [1.0, 2.0, float("nan"), 9.0],
    ["007", "7", "7.00", "8"],
    ["1e3", "1000", "1000.0", "2"],
    ["\u00a0x", "x", "y\u3000", "y"],
]


@pytest.mark.parametrize("cells", LABELS)
def test_classes_are_counted_as_a_training_counts_them(cells: list[Any]) -> None:
    texts = [f"the film number {number} was so very good" for number in range(20 * len(cells))]
    task = Classification.fit([cells * 20])
    ids, _ = task.codec.encode([cells * 20])
    table = pd.DataFrame({"text": texts, "label": pd.Series(cells * 20, dtype=object)})
    assert check(table, text="text", label="label").classes == count_classes(ids, task.class_names)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["12.5 %", "40 %", "41 %", "90 %"], "numbers from 12.5 to 90: task='regression' or task='classification'"),
        (["10%", "40%", "41%", "90%"], "numbers from 10 to 90: task='regression' or task='classification'"),
        (["1.5", "4", "4.2", "9"], "numbers from 1.5 to 9: task='regression' or task='classification'"),
        (
            ["1.1", "1.10", "2.1", "4"],
            "4 classes, or numbers from 1.1 to 4: task='classification' or task='regression'",
        ),
        (["10", "40", "41", "90"], "4 classes, or numbers from 10 to 90: task='classification' or task='regression'"),
        (["10.5", "40"], "2 classes"),
    ],
)
def test_few_numbers_that_are_no_scale_may_be_classes_or_amounts(cells: list[str], words: str) -> None:
    texts = [f"the film number {number} was so very good" for number in range(20 * len(cells))]
    assert f"labels in 'label': {words}" in repr(check(pd.DataFrame({"text": texts, "label": cells * 20})))


def test_titles_and_codes_are_attributes_and_judged_texts_are_texts() -> None:
    number = np.arange(600)
    table = pd.DataFrame(
        {
            "text": [f"not so bad {one // 5}" for one in number],
            "title": [f"The Film of {one % 50}" for one in number],
            "film": [f"{one % 49:07}" for one in number],
            "price": [f"0.{one % 90:02}" for one in number],
            "label": np.random.default_rng(0).integers(0, 2, 600),
        }
    )
    assert {one.name: (one.role, one.kind) for one in check(table).columns} == {
        "text": ("text", ""),
        "title": ("attribute", "categorical"),
        "film": ("attribute", "categorical"),
        "price": ("attribute", "number"),
        "label": ("label", ""),
    }


def test_the_share_of_known_values_is_that_of_the_default_split() -> None:
    rows = frame(300)
    rows["user"] = [f"u{number}" for number in np.random.default_rng(2).integers(0, 120, 300)]
    rows.loc[::7, "review"] = rows["review"].iloc[0]
    found = next(one for one in check(rows).columns if one.name == "user")
    splits = split_table(read_table(rows), text=["review"])
    known = np.isin(splits.test["user"][:], splits.train["user"][:]).mean()
    assert found.known_share == pytest.approx(known)
    assert 0 < known < 1
    counts = rows["user"].value_counts()
    assert found.once == (counts == 1).sum()
    assert (found.rows_per_value[0], found.rows_per_value[3]) == (counts.min(), counts.max())
    assert any("rows repeat the text of an earlier row" in str(line) for line in check(rows).findings)


def test_texts_that_test_rows_share_are_counted() -> None:
    rows, test = frame(200), frame(50, seed=9)
    test.loc[:9, "review"] = rows["review"][:10]
    test.loc[:9, "stars"] = [*rows["stars"][:4], *(rows["stars"][4:10] % 5 + 1)]
    findings = " ".join(map(str, check(rows, test=test).findings))
    assert "10 of 50 test rows have a text that training rows have, 4 of them" in findings
    texts, labels = joint_codes([np.array([0, 1, 0]), np.array([2, 2, 2])]), np.array([0, 0, 1])
    assert shared_rows(texts, labels, np.array([True, True, False])) == (1, 0)


@pytest.mark.parametrize("purity", [1.0, 0.9])
def test_an_attribute_determines_the_label_only_where_rows_agree(purity: float) -> None:
    chance = np.random.default_rng(4)
    users = chance.integers(0, 50, 1000)
    labels = np.where(chance.random(1000) < purity, users % 3, chance.integers(0, 3, 1000))
    of_labels = codes([f"c{number}" for number in labels])
    finding = leak_finding("user", codes([f"u{number}" for number in users]), of_labels)
    assert (finding is not None) == (purity == 1.0)
    assert leak_finding("row", codes([f"r{number}" for number in range(1000)]), of_labels) is None


@pytest.mark.parametrize(
    ("values", "found", "numbers"),
    [
        (["1", "1.0", "2", " 1 "], ["1", "2"], [0, 0, 1, 0]),
        ([1.0, 2.0, 1.5, None], ["1", "2", "1.5"], [0, 1, 2, -1]),
        (["-0.0", "0", "-1.00", "-1"], ["0", "-1"], [0, 0, 1, 1]),
        (["007", "7", "NA", ""], ["007", "7"], [0, 1, -1, -1]),
        ([True, False, None], ["true", "false"], [0, 1, -1]),
        ([10**16, 5], ["10000000000000000", "5"], [0, 1]),
        ([None, None], [], [-1, -1]),
        ([["a"], ["b"]], [], [-1, -1]),
        ([b"a", b"b"], [], [-1, -1]),
    ],
)
def test_values_are_those_of_the_schema(values: list[Any], found: list[str], numbers: list[int]) -> None:
    """As `canonical` writes them, whatever the type of the column."""
    numbered = codes(values)
    assert numbered.values.to_pylist() == found
    assert numbered.codes.tolist() == numbers


def test_columns_in_parts_and_of_numbered_values_are_read() -> None:
    parts = pa.chunked_array([pa.array(["b", "1.0"]).dictionary_encode(), pa.array(["1", "b"]).dictionary_encode()])
    assert column_codes(parts).codes.tolist() == [0, 1, 1, 0]
    assert column_codes(pa.chunked_array([pa.array(["a"]), pa.array(["b", "a"])])).codes.tolist() == [0, 1, 0]
    assert column_codes(pa.chunked_array([], pa.string())).codes.tolist() == []


def codes(values: list[Any]) -> Any:
    return column_codes(pa.chunked_array([pa.array(values)]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        {"text": ["one row alone with some words"], "label": ["a"]},
        {"text": [f"row {number} of several words" for number in range(30)], "label": ["a"] * 30},
        {"a": list("abcde") * 10, "b": list("vwxyz") * 10},
        {"a": [None] * 20, "b": [""] * 20},
        {"n": list(range(40))},
        {"texts": [["a", "b"], ["b"]] * 10, "deep": [{"a": 1}] * 20},
        {f"column {number}": [number, number, 1, 2] * 5 for number in range(2000)},
        {"--text": ["some words of a row here", "other words of a row here"] * 5, "-x": [1, 2] * 5, "y": [0, 1] * 5},
        {"when": pd.date_range("2024", periods=20), "text": ["five words in each row"] * 20, "y": [True, False] * 10},
        {"text": [f"row {number} is of words" for number in range(40)], "labels": ["a;b", "b"] * 20},
    ],
)
def test_hostile_tables_are_checked(rows: dict[str, Any]) -> None:
    checked = check(pd.DataFrame(rows))
    assert len(checked.columns) == len(rows)
    assert checked.call in repr(checked)
    parsed = build_parser().parse_args(shlex.split(checked.command)[1:])
    if checked.is_complete:
        assert parsed.text == checked.names("text")
        recipe = recipe_of(parsed)
        assert sorted(recipe.attribute_names) == sorted(checked.names("attribute"))
        assert recipe.task_kind == checked.task.kind


def test_labels_that_are_nearly_all_numbers_are_ratings() -> None:
    stars = ["1", "2", "3"] * 20 + ["three"]
    table = pd.DataFrame({"text": [f"a text of {number} words" for number in range(61)], "stars": stars})
    assert check(table).task.kind == "ordinal"


@pytest.mark.parametrize("content", ["", "text,label\n", "text,\na,b\n", "text,text\na,b\n"])
def test_tables_that_cannot_be_read_are_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=r"t\.csv"):
        check(str(path))


@pytest.mark.slow
def test_a_table_alone_is_trained_on_after_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "t.csv", tmp_path / "run"
    frame(200).to_csv(path, index=False)
    words = ["train", str(path), "--method", "linear", "--no-baselines", "--output", str(output)]
    assert main(words) == 1
    message = capsys.readouterr().err
    assert f"attribune train {path} --text review --label stars" in message.splitlines()[-1]
    assert not output.exists()
    assert main([*words, "--yes", "--task", "rating"]) == 0
    assert "task: rating" not in message
    recipe = (output / "recipe.yaml").read_text()
    assert "kind: rating" in recipe
    assert "name: tags" in recipe
    capsys.readouterr()
    assert main(["check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 200


YES = [pytest.param(answer, True, marks=pytest.mark.slow) for answer in ("y\n", "Yes \n")]


@pytest.mark.parametrize(("answer", "trains"), [*YES, ("n\n", False), ("\n", False), ("\x04", False)])
def test_a_terminal_is_asked(
    answer: str, trains: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "t.csv", tmp_path / "run"
    frame(60).to_csv(path, index=False)
    keyboard, terminal = pytest.importorskip("pty").openpty()  # \x04 is its end of file
    os.write(keyboard, answer.encode())
    with open(terminal, encoding="utf-8") as stdin, open(keyboard, "rb"):
        monkeypatch.setattr("sys.stdin", stdin)
        words = ["train", str(path), "--method", "linear", "--no-baselines", "--output", str(output)]
        with nullcontext() if trains else pytest.raises(SystemExit, match=r"^0$"):
            assert main(words) == 0
    message = capsys.readouterr().err
    assert "train with these? [y/N] " in message
    assert (output / "recipe.yaml").is_file() == trains
    refused = "nothing is trained; to train with other columns, change this command: attribune train"
    assert (refused in message) != trains
    assert "error" not in message


@pytest.mark.parametrize("has_negative", [False, True])
def test_anchors_and_positives_are_compared(has_negative: bool, tmp_path: Path) -> None:
    rows = frame(200)[["review", "user"]].rename(columns={"review": "Anchor"})
    rows["positive"] = [f"found {number % 20}" for number in range(200)]
    if has_negative:
        rows["negative"] = [f"found {number % 21}" for number in range(200)]
    checked = check(rows)
    assert checked.task.kind == "similarity"
    assert checked.is_complete
    assert not checked.findings
    negative = ["--text-negative", "negative"] * has_negative
    texts = ["--text", "Anchor", "--text-pair", "positive", *negative]
    assert checked.flags == [*texts, "--attributes", "user", "--task", "similarity"]
    assert "texts that are compared: Anchor, positive" in checked.text()
    recipe = recipe_of(build_parser().parse_args(["train", "rows.csv", *checked.flags, "--output", str(tmp_path)]))
    assert recipe.task_options["form"] == ("triplets" if has_negative else "pairs")
    assert check(rows, text="Anchor", label="user").task.kind == "classification", "what is named is not guessed"


@pytest.mark.parametrize(
    ("texts", "labels", "flags"),
    [
        (["chosen", "rejected"], None, "--text chosen --text-pair rejected"),
        (["Prompt", "Chosen", "Rejected"], None, "--prompt Prompt --text Chosen --text-pair Rejected"),
        (["answer_a", "answer_b"], ["a", "b", "tie"], "--text answer_a --text-pair answer_b --label said"),
        (
            ["question", "notes", "answer_a", "answer_b"],
            ["a", "b"],
            "--prompt question notes --text answer_a --text-pair answer_b --label said",
        ),
        (["question", "Answer 1", "Answer 2"], ["1", "2"], ""),
        (["first text", "second text"], ["first", "second"], "--text first text --text-pair second text --label said"),
        (["answer_a", "answer_b"], ["a", "c"], ""),
        (["answer_a", "answer_b"], ["a", "b", "tie", "c"], ""),
        (
            ["conversation_a", "conversation_b"],
            ["model_a", "model_b", "tie (bothbad)"],
            "--text conversation_a --text-pair conversation_b --label said --set task.ties=['tie (bothbad)']",
        ),
        (
            ["response_1", "response_2"],
            ["response_1", "response_2", "Tie"],
            "--text response_1 --text-pair response_2 --label said "
            "--set task.labels=['response_1', 'response_2'] task.ties=['Tie']",
        ),
        (["left text", "right text"], ["left", "right"], "--text left text --text-pair right text --label said"),
        (["answer", "remark"], ["a", "b"], ""),
    ],
)
def test_a_choice_between_two_texts_is_a_preference(texts: list[str], labels: list[str] | None, flags: str) -> None:
    rows = pd.DataFrame({name: [f"{name} {number} says this and that" for number in range(200)] for name in texts})
    rows["user"] = [f"u{number % 9}" for number in range(200)]
    if labels is not None:
        rows["said"] = [labels[number // 7 % len(labels)] for number in range(200)]
    checked = check(rows)
    assert checked.is_complete
    assert (checked.task.kind == "preference") == bool(flags)
    if flags:
        columns, _, settings = flags.replace("'", '"').partition(" --set ")
        given = [f"{columns} --attributes user --task preference", *([f"--set {settings}"] if settings else [])]
        assert " ".join(checked.flags) == " ".join(given)
    else:
        named = check(rows.rename(columns={"said": "winner"}))
        assert (named.task.kind == "preference") == (labels == ["1", "2"])


def test_the_cure_for_words_that_mean_nothing_is_one_list_that_the_call_has(tmp_path: Path) -> None:
    rows = frame()
    number = np.arange(len(rows))
    rows["shop"] = np.where(number % 9 == 0, "n/a", np.char.add("s", (number % 7).astype(str)))
    rows["place"] = np.where(number % 8 == 0, "-", np.char.add("p", (number % 6).astype(str)))
    path = tmp_path / "t.csv"
    rows.to_csv(path, index=False)
    (said,) = [one for one in check(path).findings if one.code == "value-words"]
    missing = [*MISSING, "n/a", "-"]
    assert f"missing={missing}" in said.text
    followed = check(path, missing=missing)
    assert not [one for one in followed.findings if one.code == "value-words"]
    assert f"data.missing={json.dumps(missing)}" in shlex.split(followed.command)
    assert f"settings={{'data.missing': {missing}}}" in followed.call
    assert next(one for one in followed.columns if one.name == "shop").missing == 67


def test_an_index_that_was_written_beside_the_table_is_no_attribute() -> None:
    rows = frame()
    rows.insert(0, "Unnamed: 0", [*range(500), *range(100)])
    checked = check(rows)
    assert next(one for one in checked.columns if one.name == "Unnamed: 0").role == "id"
    assert not [one for one in checked.findings if "Unnamed" in str(one)]


@pytest.mark.parametrize("wrong", [0, 4, 60])
def test_nested_columns_are_proposed_as_a_hierarchy(wrong: int) -> None:
    chance = np.random.default_rng(3)
    cities = chance.integers(0, 24, 600)
    states = cities // 4
    states[:wrong] = (states[:wrong] + 1) % 6
    table = frame().assign(city=[f"city {number}" for number in cities], state=[f"state {number}" for number in states])
    table["country"] = [f"country {number % 2}" for number in cities // 4]
    found = [finding for finding in check(table).findings if finding.code == "nested-columns"]
    chain = ["country", "state", "city"] if wrong < 10 else ["country", "city"]
    assert [finding.values["columns"] for finding in found] == [chain]
    assert f"Hierarchy('{' > '.join(chain)}')" in found[0].text
    assert found[0].values["examples"][0].startswith(chain[0])


def test_values_of_one_row_and_a_column_of_nearly_one_value_nest_nothing() -> None:
    chance = np.random.default_rng(4)
    table = frame().assign(
        once=[f"o{number // 2 if number < 8 else number}" for number in range(600)],
        country=np.where(np.arange(600) < 6, "FR", "US"),
        free=[f"f{number}" for number in chance.integers(0, 9, 600)],
    )
    assert not [finding for finding in check(table).findings if finding.code == "nested-columns"]


@pytest.mark.parametrize(("namesakes", "wrong"), [(0, 0), (1, 0), (9, 0), (0, 1)])
def test_of_columns_that_say_the_same_one_is_proposed(namesakes: int, wrong: int) -> None:
    numbers = np.arange(600) % 30
    names = [f"name {max(number, namesakes)}" for number in numbers]
    names[:wrong] = ["name 1"] * wrong
    table = frame().assign(person=names, person_id=1000 + numbers)
    checked = check(table)
    kept = {"person"} if namesakes + wrong == 0 else {"person_id"} if namesakes == 1 else {"person", "person_id"}
    assert kept == {"person_id", "person"} & set(checked.names("attribute"))
    said = [
        set(finding.values.values()) for finding in checked.findings if finding.code == "attribute-says-nothing-more"
    ]
    assert said == ([{"person", "person_id"}] if len(kept) == 1 else [])
