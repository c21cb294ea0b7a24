"""Exports of annotation tools: how each is read as one row for each judgement, and what is said of the rest."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attribune import check, read_table
from attribune.apps.cli import main
from attribune.data.annotation_exports import Judgements, read_judgements, write_judgements
from attribune.data.judgement_layouts import parsed_cell
from attribune.data.span_tags import are_spans, tagged_text
from attribune.errors import ConfigError, DataError
from attribune.tasks.tokens import word_list

ROWS = 12


def texts(number: int) -> str:
    return f"the text of number {number} is here"


def written(folder: Path, rows: Sequence[Any], name: str = "export.jsonl") -> str:
    path = folder / name
    if name.endswith(".csv"):
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        whole = json.dumps(list(rows)) if name.endswith(".json") else "".join(f"{json.dumps(row)}\n" for row in rows)
        path.write_text(whole, encoding="utf-8")
    return str(path)


def triples(found: Judgements, *columns: str) -> list[tuple[Any, ...]]:
    names = columns or (*found.text, "judge", found.label)
    return list(zip(*(found.table[name] for name in names), strict=True))


def task(number: int, *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": number, "data": {"text": texts(number), "source": "web"}, "annotations": list(annotations), **more}


def annotation(judge: Any, *results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"completed_by": judge, "result": list(results), **more}


def result(kind: str, value: Any, name: str = "mood") -> dict[str, Any]:
    return {"from_name": name, "to_name": "text", "type": kind, "value": {kind: value}}


def by_two(kind: str, one: Any, other: Any) -> dict[str, Any]:
    judge = {"id": 1, "email": "a"}
    return task(0, annotation(judge, result(kind, one)), annotation("b", result(kind, other)))


def argilla(labels: Any, users: Any, states: Any = None, name: str = "mood") -> dict[str, Any]:
    status = {} if states is None else {f"{name}.responses.status": states}
    return {f"{name}.responses": labels, f"{name}.responses.users": users, **status}


TEXT = {"text": texts(0)}
ANSWERS = [{"user_id": "a", "value": "pos"}, {"user_id": "b", "value": "neg"}]
COLUMNS = {"user_id": ["a", "b"], "value": ["pos", "neg"], "status": ["submitted"] * 2}
OLD = [{"label": "pos", "user": "a"}, {"label": "neg", "user": "b"}]
EXPORTS: dict[str, tuple[list[dict[str, Any]], tuple[str, str]]] = {  # with the answers of a and b to one text
    "doccano": ([{**TEXT, "label": ["pos"], "username": one} for one in "ab"], ("pos", "pos")),
    "doccano labels": ([{**TEXT, "labels": ["pos"], "annotator": one} for one in "ab"], ("pos", "pos")),
    "doccano cats": ([{**TEXT, "cats": {"pos": 1, "neg": 0}, "user": one} for one in "ab"], ("pos", "pos")),
    "old doccano": ([{**TEXT, "annotations": OLD}], ("pos", "neg")),
    "label studio": ([by_two("choices", ["pos"], ["neg"])], ("pos", "neg")),
    "rating": ([by_two("rating", 4, 2)], ("4", "2")),
    "number": ([by_two("number", 4, 2)], ("4", "2")),
    "textarea": ([by_two("textarea", ["4"], ["2"])], ("4", "2")),
    "argilla": ([{**TEXT, **argilla(["pos", "neg"], ["a", "b"])}], ("pos", "neg")),
    "argilla 1": ([{**TEXT, "mood": [one | {"status": "submitted"} for one in ANSWERS]}], ("pos", "neg")),
    "argilla of datasets": ([{**TEXT, "mood": COLUMNS}], ("pos", "neg")),
    "argilla nested": ([{"fields": TEXT, "responses": {"mood": ANSWERS}}], ("pos", "neg")),
    "lewidi": ([{**TEXT, "annotations": "pos,neg", "annotators": "a,b"}], ("pos", "neg")),
    "lists": ([{**TEXT, "annotations": ["pos", "neg"], "annotators": ["a", "b"]}], ("pos", "neg")),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_each_tool_gives_a_row_for_each_judgement(name: str, tmp_path: Path) -> None:
    rows, labels = EXPORTS[name]
    found = read_judgements(written(tmp_path, rows))
    assert triples(found) == [(texts(0), judge, label) for judge, label in zip("ab", labels, strict=True)]
    assert (found.texts, found.judges, found.text) == (1, 2, ("text",))
    assert found.lines() == [f"{found.source} is read as {found.words}: 1 text, 2 judgements by 2 judges"]


def test_answers_of_people_without_telling_names_are_found() -> None:
    """Lists of one length: nobody is in one twice, and a few classes repeat."""
    table = pd.DataFrame(
        {
            "text": [texts(number) for number in range(ROWS)],
            "who": [["u1", "u2", f"u{3 + number % 3}"] for number in range(ROWS)],
            "mood": [["yes", "yes", "no"]] * ROWS,
            "topics": [["sport", "city"]] * ROWS,
        }
    )
    found = read_judgements(table)
    assert triples(found)[:3] == [(texts(0), "u1", "yes"), (texts(0), "u2", "yes"), (texts(0), "u3", "no")]
    assert found.table["topics"][0] == ["sport", "city"]


def test_what_lewidi_tells_of_each_judge_and_text_is_kept(tmp_path: Path) -> None:
    rows = {
        str(number): {
            "text": texts(number),
            "annotations": "0,1,1",
            "annotators": "Ann1,Ann2,Ann3",
            "soft_label": {"0": 0.33, "1": 0.67},
            "hard_label": "1",
            "other_info": {"other": {"rude": "1,0,0"}, "group": "g1,g1,g2", "bot": "x", "pair": "one,two"},
        }
        for number in range(3)
    }
    path = tmp_path / "HS.json"
    path.write_text(json.dumps(rows))
    found = read_judgements(str(path))
    assert found.table.column_names == ["id", "text", "bot", "pair", "rude", "group", "judge", "label"]
    assert triples(found, "judge", "label", "group", "rude", "bot")[:3] == [
        ("Ann1", "0", "g1", "1", "x"),
        ("Ann2", "1", "g1", "0", "x"),
        ("Ann3", "1", "g2", "0", "x"),
    ]
    assert "made of the judgements: soft_label, hard_label" in "\n".join(found.lines())
    rude = read_judgements(str(path), label="rude")
    assert rude.table["label"][:3] == ["1", "0", "0"]
    assert "the answers to 'rude'" in rude.words


POS = result("choices", ["pos"])
LEFT_OUT: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], int]] = {  # what is said, and how many rows stay
    "cancelled": (
        [task(0, annotation(1, POS), annotation(2, POS, was_cancelled=True), annotation(3), predictions=[{}]), task(1)],
        (
            "left out, cancelled annotations: 1",
            "left out, judgements without an answer: 1",
            "left out, predictions of a model: 1",
            "left out, texts without a judgement: 1",
        ),
        1,
    ),
    "drafts": (
        [{**TEXT, **argilla(["pos", "neg", None], ["a", "b", "c"], ["submitted", "draft", "discarded"])}],
        ("left out, responses that are draft: 1", "left out, responses that are discarded: 1"),
        1,
    ),
    "doubts": (
        [{"text": texts(number % 2), "label": ["pos"], "username": "a" if number else None} for number in range(4)],
        ("1 judgement without a judge, such as of row 1", "1 judgement by a judge who has judged the text before"),
        4,
    ),
    "several": (
        [{"text": texts(number), "label": ["pos", "neg"][: number + 1], "username": "a"} for number in range(2)],
        ("1 judgement with several answers, such as 'pos|neg', joined by '|'", "'task.separator': '|'"),
        2,
    ),
}


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_what_is_left_out_or_odd_is_said(kind: str, tmp_path: Path) -> None:
    rows, said, kept = LEFT_OUT[kind]
    found = read_judgements(written(tmp_path, rows))
    assert [line for line in said if line not in "\n".join(found.lines())] == []
    assert len(found.table) == kept


def test_the_data_of_a_task_are_columns_and_the_rest_is_named(tmp_path: Path) -> None:
    rows = [task(7, annotation(1, result("choices", ["pos"])), project=3)]
    rows[0]["data"] |= {"id": "own", "tags": ["a", "b"], "more": {"c": 1}}
    found = read_judgements(written(tmp_path, rows, "tasks.json"))
    expected = {"id": 7, "data.id": "own", "source": "web", "tags": ["a", "b"], "more": '{"c": 1}'}
    assert {name: found.table[0][name] for name in expected} == expected
    assert "left out, columns about the work or made of the judgements: project" in found.lines()


@pytest.mark.parametrize(
    "rows",
    [
        [task(0, annotation(1, POS, result("rating", 3, "stars")))],
        [{"text": texts(0), **argilla(["pos"], ["a"]), **argilla([3], ["a"], name="stars")}],
        [{"text": texts(0), "mood": [{"user": 1, "value": "pos"}], "stars": [{"user": 1, "value": 3}]}],
        [{"text": texts(0), "annotators": ["a", "b"], "mood": ["pos", "pos"], "stars": [3, 3]}],
    ],
    ids=["label studio", "argilla", "objects", "lists"],
)
def test_one_of_several_questions_is_chosen(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = written(tmp_path, rows)
    with pytest.raises(ConfigError, match=r"answers to 2 questions \('mood', 'stars'\): choose one with label="):
        read_judgements(path)
    with pytest.raises(ConfigError, match=r"no answers to 'starz' .*: choose one of 'mood', 'stars'"):
        read_judgements(path, label="starz")
    assert {read_judgements(path, label=name).table[0]["label"] for name in ("mood", "stars")} == {"pos", "3"}


FLAT = [
    {"annotation_id": 1, "annotator": 7, "id": 0, "lead_time": 2.5, "mood": "pos", "text": texts(0)},
    {"annotation_id": 2, "annotator": 8, "id": 0, "lead_time": 3.5, "mood": "neg", "text": texts(0)},
    {"annotation_id": 3, "annotator": 7, "id": 1, "lead_time": 4.5, "mood": "pos", "text": texts(1)},
]
FLAT.append(FLAT[2] | {"annotation_id": 4, "annotator": 8, "mood": '{"choices": ["pos", "neg"]}'})


@pytest.mark.parametrize("name", ["flat.csv", "flat.json"])
def test_flat_exports_of_label_studio_are_read(name: str, tmp_path: Path) -> None:
    found = read_judgements(written(tmp_path, FLAT, name))
    assert [row[1:] for row in triples(found)] == [("7", "pos"), ("8", "neg"), ("7", "pos"), ("8", "pos|neg")]
    assert "lead_time" in found.table.column_names
    assert found.words == "an export of Label Studio"


def test_names_of_files_are_judges_where_no_column_tells(tmp_path: Path) -> None:
    files = [
        written(tmp_path, [{"text": texts(0), "label": [label]}], f"{name}.jsonl")
        for name, label in (("anna", "pos"), ("bob", "neg"))
    ]
    found = read_judgements(files)
    assert triples(found) == [(texts(0), "anna", "pos"), (texts(0), "bob", "neg")]
    assert "taken from the name of the file (anna, bob)" in found.lines()[1]
    assert triples(read_judgements(str(tmp_path))) == triples(found)
    with pytest.raises(DataError, match="unlike"):
        read_judgements([files[0], written(tmp_path, [{"text": "a", "labels": ["x"]}], "other.jsonl")])
    with pytest.raises(ConfigError, match="no column tells who gave the answers"):
        read_judgements(pd.DataFrame({"text": ["a"], "label": [["x"]]}))


WIDE = [
    {"text": texts(row), "place": f"p{row}", "anna": row % 2, "bob": 1 - row % 3 // 2, "cem": "" if row % 3 else 0}
    for row in range(ROWS)
]


def test_columns_of_judges_become_rows(tmp_path: Path) -> None:
    path = written(tmp_path, WIDE, "wide.csv")
    found, named = read_judgements(path), read_judgements(path, judges=["bob", "anna"])
    assert len(found.table) == 2 * ROWS + ROWS // 3
    assert triples(found)[:3] == [(texts(0), "anna", "0"), (texts(0), "bob", "1"), (texts(0), "cem", "0")]
    assert found.table.column_names == ["text", "place", "judge", "label"]
    assert triples(named)[:2] == [(texts(0), "bob", "1"), (texts(0), "anna", "0")]
    assert "cem" in named.table.column_names
    assert check(path, label="bob").export is None


LEWIDI = [{"text": "a", "annotations": "0,1"[: 3 - 2 * (number == 19)], "annotators": "x,y"} for number in range(20)]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (LEWIDI, {}, r"export\.jsonl: row 20: the lists are not of one length \(annotators 2: .*, annotations 1"),
        ([{"text": "a", **argilla(["pos"], ["a", "b"])}], {}, "row 1: the lists are not of one length"),
        ([{"text": "a", "b": "c"}], {}, "not recognised as judgements: name the columns"),
        ([task(0)] * 2 + [task(1, annotation(1))], {"label": None}, "without any answer: export it once"),
        ([{"text": "a", **argilla(["pos"], ["a"], ["draft"])}], {}, "no judgement .*that are draft: 1"),
        ([{"text": "a", "judge": 1, **argilla(["pos"], ["a"])}], {}, "has a column 'judge' of its own.*judge_column="),
        ([{"text": "a", "label": ["x"], "user": "b"}], {"judge_column": "label"}, "has a column 'label' of its own"),
        ([{"text": "a", "label": {"x": 0.4}, "user": "b"}], {"label": "label"}, "row 1: {'x': 0.4} is an object, not"),
        ([{"text": "a", "label": ["x"], "user": "b"}], {"judges": ["anna"]}, "no column 'anna'"),
        ([{"text": "a", "label": ["x"], "user": "b"}], {"text": "txt"}, "no column 'txt'; did you mean 'text'"),
        ([{"text": "a", "label": ["x"], "user": "b"}], {"judge": "user", "judges": ["text"]}, "name them in one way"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(
    rows: list[dict[str, Any]], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        read_judgements(written(tmp_path, rows), **options)


@pytest.mark.parametrize(
    ("spans", "tags"),
    [
        ([[0, 3, "PER"], [8, 11, "PER"]], "B-PER O B-PER O"),
        ([[0, 7, "X"]], "B-X I-X O O"),
        ([{"start": 9, "end": 10, "labels": ["LOC"]}], "O O B-LOC O"),
        ([{"start_offset": 0, "end_offset": 3, "label": 2}], "B-2 O O O"),
        ([[0, 7, "X"], [4, 11, "Y"]], "B-X I-X O O"),
        ([], "O O O O"),
    ],
)
def test_marked_parts_are_tags_of_words(spans: list[Any], tags: str) -> None:
    tagged = tagged_text("Ann saw Bob.", spans)
    assert tagged.words == ["Ann", "saw", "Bob", "."]
    assert tagged.tags == tags.split()
    assert tagged.widened == (tags == "O O B-LOC O")
    assert tagged.overlapping == (len(spans) == 2 and "Y" in spans[1])


@pytest.mark.parametrize(
    "span", [[0, 99, "X"], [3, 3, "X"], [3, 4, "X"], [0, 3, ""], {"start": 0, "end": 3, "labels": []}]
)
def test_parts_that_are_not_in_the_text_are_named(span: Any) -> None:
    assert are_spans([span])
    with pytest.raises(DataError, match=r"give its start|has no word"):
        tagged_text("Ann saw Bob.", [span])


PART = {"label": "PER", "start_offset": 0, "end_offset": 3, "user": "a"}
PARTS: dict[str, dict[str, Any]] = {
    "doccano": {"label": [[0, 3, "PER"]], "username": "a"},
    "entities": {"entities": [PART | {"id": 1}], "username": "a"},
    "old doccano": {"annotations": [PART]},
    "label studio": {
        "data": {"text": "Ann saw Bob"},
        "annotations": [
            annotation("a", result("labels", ["PER"]) | {"value": {"start": 0, "end": 3, "labels": ["PER"]}})
        ],
    },
}


@pytest.mark.parametrize("tool", PARTS)
def test_exports_of_marked_parts_become_words_and_tags(tool: str, tmp_path: Path) -> None:
    row = PARTS[tool] if "data" in PARTS[tool] else {"text": "Ann saw Bob", **PARTS[tool]}
    output = tmp_path / "rows.csv"
    found = write_judgements(written(tmp_path, [row]), output)
    table = read_table(str(output))
    assert [word_list(table[0][name]) for name in ("words", "tags")] == [["Ann", "saw", "Bob"], ["B-PER", "O", "O"]]
    assert table[0]["judge"] == "a"
    assert "--text words --label tags --task tags" in found.next_command(output)


@pytest.mark.parametrize("name", [*EXPORTS, "wide"])
def test_check_says_first_what_a_table_is(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raters = {"anna": "rater1", "bob": "rater2", "cem": "rater3"}
    wide = [{raters.get(column, column): cell for column, cell in row.items()} for row in WIDE]
    rows = wide if name == "wide" else EXPORTS[name][0] * ROWS
    path = written(tmp_path, rows, "wide.csv" if name == "wide" else "export.jsonl")
    checked = check(path)
    assert checked.text().startswith(checked.export)
    assert checked.command.startswith(f"attribune data judgements {path} ")
    assert {one.code for one in checked.findings} <= ({"few-rows"} if checked.is_doubtful else set())
    output = str(tmp_path / "rows.csv")
    assert main([*shlex.split(checked.command)[1:-1], output]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{output}\n"
    assert f"go on with: attribune check {output} --text text --label label" in shown.err
    assert len(read_table(output)) >= 2 * ROWS
    assert main(["train", path, "--output", str(tmp_path / "run"), "--yes"]) == 1
    assert "attribune data judgements" in capsys.readouterr().err


@pytest.mark.parametrize(
    "columns",
    [
        {"user": ["a", "b"] * ROWS, "label": ["x", "y", "y", "x"] * (ROWS // 2)},
        {"labels": [["x", "y"], ["y"]] * ROWS, "user": ["a", "b"] * ROWS},
        {
            "user": ["Smith, John", "Doe, Ann"] * ROWS,
            "place": ["Paris, France", "Rome, Italy"] * ROWS,
            "stars": [1, 2] * ROWS,
        },
        {"users": [["a", "b"]] * 2 * ROWS, "tags": [["x"], ["y", "z", "x"]] * ROWS, "label": [0, 1] * ROWS},
        {"is_a": [0, 1] * ROWS, "is_b": [1, 0] * ROWS, "is_c": [1, 0] * ROWS},
        {"a": [0, 1] * ROWS, "b": [1, 0] * ROWS, "c": [1, 0] * ROWS, "label": [0, 1] * ROWS},
        {"a": [0, 1] * ROWS, "b": [1, 0] * ROWS, "c": [2, 3] * ROWS},
        {"answers": [{"text": ["a"], "answer_start": [one]} for one in range(2 * ROWS)], "user": ["a", "b"] * ROWS},
        {"answers": [[f"word {one}"] for one in range(2 * ROWS)], "user": ["a", "b"] * ROWS},
        {"label": ['{"no": 0.75, "yes": 0.25}', '{"no": 1.0}'] * ROWS, "user": ["a", "b"] * ROWS},
        {"labels": [[[1, 2, 3]], [[4, 5, 6]]] * ROWS},
        {"blob": [b"\xff", b"\xfe"] * ROWS, "note": ["[a \\d", "{b"] * ROWS},
    ],
)
def test_other_tables_are_no_exports(columns: dict[str, Any]) -> None:
    table = pd.DataFrame({"text": [texts(number) for number in range(2 * ROWS)], **columns})
    assert check(table).export is None


def test_cells_are_parsed() -> None:
    lists: dict[str | None, Any] = {'["a"]': ["a"], "['a', 'b']": ["a", "b"], '{"a": 1}': {"a": 1}, "['\\d']": ["\\d"]}
    values = lists | {text: text for text in ("[a", " text [1]", None)}
    assert {cell: parsed_cell(cell) for cell in values} == values


@pytest.mark.skipif("ATTRIBUNE_DATA" not in os.environ, reason="the data sets are not here")
@pytest.mark.parametrize(("name", "rows", "judges"), [("HS-Brexit_dev", 1008, 6), ("ConvAbuse_dev", 2414, 8)])
def test_published_sets_are_read(name: str, rows: int, judges: int) -> None:
    found = read_judgements(f"{os.environ['ATTRIBUNE_DATA']}/lewidi/{name}.json.gz")
    assert (len(found.table), found.judges) == (rows, judges)
    assert set(found.table["judge"]) == {f"Ann{number + 1}" for number in range(judges)}


@pytest.mark.parametrize(("answer", "person"), [("Score", "TurkId"), ("score_", "worker_"), ("a", "rater")])
def test_answers_beside_their_judges_are_paired_by_their_numbers(answer: str, person: str, tmp_path: Path) -> None:
    numbers = range(1, 6)
    rows = [
        {"premise": f"a sentence about thing {row}", "hypothesis": f"another one about thing {row}"}
        | {f"{person}{number}": f"T{(7 * row + number) % 11}" for number in numbers}
        | {f"{answer}{number}": (row + number) % 5 for number in numbers}
        for row in range(40)
    ]
    found = read_judgements(written(tmp_path, rows))
    assert "each beside a column with its judge" in found.words
    assert found.judges == 11
    first = found.table[0]
    assert (first["judge"], first["label"]) == ("T1", "1")
    assert not {f"{person}1", f"{answer}1"} & set(found.table.column_names)
    assert "looks like answers" in check(pd.DataFrame(rows)).export
