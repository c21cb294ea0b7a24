"""The check of a table that somebody else made: leaks of every form, times, names, lists and scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset

from attribune import MultiLabel, Schema, check, read_judgements, read_table
from attribune.data.checking.findings import attribute_finding
from attribune.data.checking.profiles import column_codes
from attribune.data.texts import listed_text
from attribune.errors import ConfigError, DataError, RowError
from attribune.schema.times import date_format_of, read_times
from attribune.tasks import Classification, fit_task

TEXTS = [f"the room was number {number} of ours" for number in range(300)]
PLACES = np.arange(300)
IS_LEFT = np.random.default_rng(0).random(300) < 0.4
DAYS = pd.Timestamp("2023-01-01") + pd.to_timedelta(PLACES, "D")
STARS = np.random.default_rng(1).integers(1, 6, 300)


def each(one: Callable[[int], Any], other: Callable[[int], Any]) -> list[Any]:
    """A cell for each row, by whether its label is `left`."""
    return [one(place) if left else other(place) for place, left in zip(PLACES.tolist(), IS_LEFT, strict=True)]


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (each(lambda place: place % 97, lambda _: None), "column-only-with-label"),
        (each(lambda place: 7.5 + place / 9, lambda _: 0.0), "number-tells-label"),
        (each(lambda place: 0.8 + place / 2000, lambda place: 0.2 + place / 2000), "number-tells-label"),
        (each(lambda _: "2024-05-06 07:08", lambda _: None), "column-only-with-label"),
        (each(lambda _: None, lambda place: f"we are glad to keep number {place}"), "column-only-with-label"),
        (each(lambda place: f"gone|{place % 3}", lambda place: f"here|{place % 3}"), "column-tells-label"),
        (each(lambda place: ["gone", f"t{place % 3}"], lambda place: [f"t{place % 3}", "here"]), "column-tells-label"),
    ],
)
@pytest.mark.parametrize("classes", [("left", "stayed"), (1, 0)])
def test_what_is_known_with_the_label_is_left_out_whatever_its_form(
    column: Any, code: str, classes: tuple[Any, Any]
) -> None:
    label = np.where(IS_LEFT, *classes)
    rows = pd.DataFrame({"text": TEXTS, "plan": PLACES % 3, "found": column, "label": label})
    checked = check(rows)
    assert [(one.code, one.values["column"]) for one in checked.findings] == [(code, "found")]
    assert checked.names("left out") == ["found"]
    assert checked.names("attribute") == ["plan"]


def test_texts_are_kept_of_which_every_one_is_of_one_label() -> None:
    texts = {
        "praise": each(lambda place: TEXTS[place], lambda _: None),
        "blame": each(lambda _: None, TEXTS.__getitem__),
    }
    rows = pd.DataFrame({**texts, "user": PLACES % 7, "label": IS_LEFT})
    checked = check(rows.assign(called=each(lambda _: "2024-05-06 07:08", lambda _: None)))
    assert (checked.names("text"), checked.names("left out")) == ([*texts], ["called"])


@pytest.mark.parametrize(
    ("name", "made", "left_out"),
    [
        ("clean_text", lambda text: text.replace("was ", ""), "clean_text"),
        ("embed", lambda text: f"<div class='one'><p>{text.upper()}</p></div>", "embed"),
        ("text_reply", lambda text: f"no, {text.replace('ours', 'yours, not his or hers')}", None),
        ("other", str.upper, None),
    ],
)
def test_texts_that_repeat_others_are_left_out(name: str, made: Callable[[str], str], left_out: str | None) -> None:
    checked = check(pd.DataFrame({name: list(map(made, TEXTS)), "text": TEXTS, "stars": STARS}))
    assert checked.names("text") == [one for one in (name, "text") if one != left_out]
    assert [one.values["column"] for one in checked.findings if one.code == "text-repeats"] == (
        [left_out] if left_out else []
    )


@pytest.mark.parametrize(
    ("name", "first", "kind"),
    [
        ("Class Index", 1, "classification"),
        ("label", 0, "classification"),
        ("label", 1, "ordinal"),
        ("grade", 0, "ordinal"),
    ],
)
def test_whole_numbers_are_classes_where_the_name_says_so(name: str, first: int, kind: str) -> None:
    assert check(pd.DataFrame({"text": TEXTS, name: PLACES % 4 + first})).task.kind == kind


def test_votes_tell_the_majority_and_a_text_may_have_its_label_in_it() -> None:
    votes = np.random.default_rng(0).multinomial(3, [0.2, 0.5, 0.3], 300)
    rows = pd.DataFrame({**dict(zip("abc", votes.T, strict=True)), "class": votes.argmax(1), "tweet": TEXTS})
    checked = check(rows)
    assert checked.names("attribute") == []
    assert checked.task.choices == ("classification", "ordinal", "rating"), "codes of classes, which may be ratings"
    written = rows.assign(tweet=[f"[{'GONE' if number % 2 else 'HERE'}] {text}" for number, text in enumerate(TEXTS)])
    written["class"] = np.where(PLACES % 2, "gone", "here")
    assert [one.code for one in check(written).findings] == ["label-in-text"]
    for one, other in (("c++", "java"), ("\u597d\u8bc4", "\u5dee\u8bc4")):
        named = rows[["tweet"]].assign(label=np.where(PLACES % 2, one, other))
        named["tweet"] = [f"{text} {label}." for text, label in zip(TEXTS, named["label"], strict=True)]
        assert [one.code for one in check(named).findings] == ["label-in-text"]


def test_honest_numbers_are_kept() -> None:
    """What a few rows agree on by chance is no leak, nor are ratings that nearly tell another."""
    for seed in range(3):
        chance = np.random.default_rng(seed)
        overall = chance.integers(1, 6, 400)
        parts = {f"part{one}": np.clip(overall + chance.integers(-1, 2, 400), 1, 5) for one in range(8)}
        rows = pd.DataFrame(
            {"text": [f"of the room {one} we say so" for one in range(400)], **parts, "overall": overall}
        )
        assert check(rows, label="overall").names("attribute") == [*parts]
    sizes = {name: chance.random(1_000) for name in ("mass", "height", "worth")}
    rows = pd.DataFrame({"text": [f"it was number {one} of ours" for one in range(1_000)], **sizes})
    rows["label"] = chance.choice(["a", "b"], 1_000)
    copies = rows[:25].assign(text=rows["text"][:25] + " !")
    assert check(pd.concat([rows, copies], ignore_index=True)).names("attribute") == [*sizes]
    rare = rows.assign(label=np.where(chance.random(1_000) < 0.12, "a", "b"))
    rare["extra"] = np.where((rare["label"] == "b") & (chance.random(1_000) < 0.024), "seen", None)
    assert "column-only-with-label" not in [one.code for one in check(rare, label="label").findings]


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("posted_by", [f"user{place % 40}" for place in PLACES], "attribute"),
        ("time_zone", [f"UTC+{place % 24}" for place in PLACES], "attribute"),
        ("version", [f"{place % 4}.{40 + place % 5}.{10 + place % 3}" for place in PLACES], "attribute"),
        ("candidate", [f"c {place % 40}" for place in PLACES], "attribute"),
        ("delivery_time", PLACES % 57, "attribute"),
        ("ts", 1_600_000_000 + PLACES * 977, "time"),
        ("day", DAYS.strftime("%Y%m%d"), "time"),
        ("posted", DAYS.strftime("%d %b %Y"), "time"),
        ("reviewTime", [f"{one:%m} {one.day}, {one:%Y}" for one in DAYS], "time"),
        ("tweeted", DAYS.strftime("%d-%m-%Y 11.35"), "time"),
        ("mailed", DAYS.strftime("%a, %d %b %Y 01:02:03 +0000"), "time"),
        ("gemacht", DAYS.strftime("%Y\u5e74%m\u6708%d\u65e5"), "time"),
    ],
)
def test_times_are_told_by_values_that_can_be_some(name: str, values: Any, role: str) -> None:
    checked = check(pd.DataFrame({"text": TEXTS, "stars": STARS, name: values}))
    assert checked.names(role) == [name]
    dates = [one for one in checked.findings if one.code == "dates-not-read"]
    assert [one.values["formats"] for one in dates] == ([[""]] if role == "time" else [])
    if role == "time":
        texts = list(map(str, values))
        assert date_format_of(texts, column=name)
        assert (np.diff(read_times(texts, column=name)) > 0).all()


@pytest.mark.parametrize(("name", "kind"), [("tweetid", "categorical"), ("user_id", "categorical"), ("days", "number")])
def test_the_name_decides_where_the_values_of_numbers_leave_it_open(name: str, kind: str) -> None:
    checked = check(pd.DataFrame({"text": TEXTS, "stars": STARS, name: 10 * (PLACES % 40)}))
    assert checked.names("attribute", kind) == [name]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ({"label": PLACES % 4}, "classification"),
        ({"stars": PLACES % 4}, "ordinal"),
        ({"rating": 1 + PLACES % 9 / 2}, "ordinal"),
        ({"score": 20 * (1 + PLACES % 5)}, "ordinal"),
        ({"score": np.array([1, 2, 4, 5])[PLACES % 4]}, "ordinal"),
        ({"score": np.array([1, 5, 100])[PLACES % 3]}, "classification"),
        ({"rating": STARS, "discount": [f"{place % 3} %" for place in PLACES]}, "ordinal"),
        ({"label": [f"class {place % 70}" for place in PLACES]}, "classification"),
        ({"评分": STARS}, "ordinal"),
    ],
)
def test_the_label_is_the_column_of_that_name_and_its_values_say_the_task(column: dict[str, Any], kind: str) -> None:
    checked = check(pd.DataFrame({"text": TEXTS, **column}))
    assert checked.names("label") == [next(iter(column))]
    assert checked.task.kind == kind
    assert "label-is-a-guess" not in [one.code for one in checked.findings]


@pytest.mark.parametrize(
    ("columns", "label", "said"),
    [
        ({"label": "x", "mood": PLACES % 2}, "mood", "'label' has one value: 'mood' is taken for it"),
        (
            {"label": [f"x{place}" for place in PLACES], "mood": PLACES % 2},
            "mood",
            "'label' has another value in each row: 'mood' is taken",
        ),
        ({"label": [None] * 300}, None, "no column looks like a label ('label' has no value)"),
        ({"label": [f"x{place}" for place in PLACES]}, None, "('label' has another value in each row)"),
        ({"Produkt": PLACES % 3, "Filiale": PLACES % 4}, "Produkt", "though its name is that of people or things"),
        ({"score": PLACES / 7, "spam": PLACES % 2, "shop": PLACES % 3}, "score", "the label may be 'spam': then name"),
        (
            {"often": np.resize(["never", "often", "always"], 300), "is": PLACES % 2},
            "often",
            "are the steps of a scale",
        ),
    ],
)
def test_why_a_column_is_not_the_label_is_said(columns: dict[str, Any], label: str | None, said: str) -> None:
    checked = check(pd.DataFrame({"comment": TEXTS, **columns}).astype(dict.fromkeys(columns, object)))
    assert checked.names("label") == ([] if label is None else [label])
    assert said in "\n".join(map(str, checked.findings))


def test_a_label_of_some_rows_is_one_where_no_other_is_fuller() -> None:
    rows = pd.DataFrame({"text": TEXTS, "speaker": PLACES % 2, "sentiment": np.where(PLACES % 3, None, PLACES % 4)})
    assert check(rows).names("label") == ["sentiment"]
    assert check(rows.assign(stars=STARS)).names("label") == ["stars"]


def test_a_name_that_ends_with_the_word_of_a_label_comes_before_one_that_begins_with_it() -> None:
    rows = pd.DataFrame({"essay": TEXTS, "grade_level": PLACES % 3, "holistic_score": PLACES % 5})
    assert check(rows).names("label") == ["holistic_score"]


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("build", ["1.1", "1.10", "1.2", "2.0"], "categorical"),
        ("app_version", ["1.1", "1.3", "1.2", "2.5"], "categorical"),
        ("build", ["1.1", *["1.5", "1.7", "1.8"] * 13, "1.10.2"], "categorical"),
        ("price", ["1.10", "1.20", "10.05", "1.1"], "number"),
        ("conversion", ["1.5", "2.5", "3.5"], "number"),
        ("Alter", [str(age) for age in range(18, 78)], "number"),
    ],
)
def test_versions_are_names_and_amounts_are_numbers(name: str, values: list[str], kind: str) -> None:
    rows = pd.DataFrame({"text": TEXTS, name: np.resize(values, 300), "stars": STARS})
    (column,) = (one for one in check(rows).columns if one.name == name)
    assert column.kind == kind
    assert column.reason


def test_ids_that_a_spreadsheet_has_rounded_are_no_attribute() -> None:
    rows = pd.DataFrame(
        {"text": TEXTS, "stars": STARS, "tweet_id": [f"{5.7 + place % 60 / 1000}E+17" for place in PLACES]}
    )
    checked = check(rows)
    assert (checked.names("attribute"), checked.names("left out")) == ([], ["tweet_id"])
    assert [said.values for said in checked.findings] == [{"column": "tweet_id", "example": "5.7E+17"}]
    assert check(rows.assign(tweet_id=[f"{570_000_000 + place % 60}" for place in PLACES])).names("attribute")


def test_a_version_that_was_created_is_no_time() -> None:
    rows = pd.DataFrame({"text": TEXTS, "createdVersion": [f"1.{place % 4}.{place % 9}" for place in PLACES]})
    assert check(rows.assign(stars=STARS)).names("attribute") == ["createdVersion"]


@pytest.mark.parametrize("size", [6, 10])
def test_columns_with_a_value_at_the_beginning_of_blocks_look_like_merged_cells(size: int) -> None:
    is_first = PLACES % size == 0
    shops = np.where(is_first, [f"shop{place // size % 7}" for place in PLACES], None)
    rows = pd.DataFrame({"text": TEXTS, "stars": STARS, "shop": shops, "row": np.where(is_first, PLACES, None)})
    rows["note"] = np.random.default_rng(3).permutation(shops)
    rows["speaker"] = np.where(PLACES % 2 == 0, PLACES % 3, None)
    checked = check(rows)
    found = [one.values["column"] for one in checked.findings if one.code == "merged-cells"]
    assert found == ["shop", "row"]
    assert checked.names("left out") == found
    assert check(rows.assign(shop=rows["shop"].ffill())[["text", "stars", "shop"]]).names("attribute") == ["shop"]


@pytest.mark.parametrize(
    ("names", "label", "answers", "labels"),
    [
        (("response_a", "response_b"), "label", ["0", "1"], ["0", "1"]),
        (("response_a", "response_b"), "label", ["1", "2"], None),
        (("response_0", "response_1"), "better_response_id", ["0", "1"], ["0", "1"]),
        (("answer_1", "answer_2"), "winner", ["a", "b"], None),
    ],
)
def test_numbers_beside_two_answers_say_which_is_better(
    names: tuple[str, str], label: str, answers: list[str], labels: list[str] | None
) -> None:
    rows = pd.DataFrame({"prompt": TEXTS, label: np.resize(answers, 300)})
    rows = rows.assign(**{name: [f"{name} says {text}" for text in TEXTS] for name in names})
    task = check(rows).task
    assert task.kind == "preference"
    assert task.options.get("labels") == labels
    assert ("turn task.labels around" in task.words) == (labels is not None)


def test_a_column_of_responses_is_a_text_beside_answers_about_it(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    aspects = {name: chance.integers(0, 5, 300) for name in ("helpful", "correct", "verbose", "complex")}
    rows = pd.DataFrame({"response": [f"{text} and of nobody else" for text in TEXTS], **aspects})
    checked = check(rows)
    assert checked.names("text") == ["response"]
    assert checked.names("label") == list(aspects)
    rows["annotator"], rows["rating"] = [f"a{place % 9}" for place in PLACES], STARS
    rows.to_csv(path := tmp_path / "judged.csv", index=False)
    assert read_judgements(path).table["label"][:3] == STARS[:3].astype(str).tolist()


@pytest.mark.parametrize("names", [("sentence1", "sentence2"), ("question_1", "question_2")])
def test_the_label_of_a_pair_of_sentences_is_no_preference(names: tuple[str, str]) -> None:
    rows = pd.DataFrame({name: [f"{name} says {text}" for text in TEXTS] for name in names} | {"label": PLACES % 2})
    assert check(rows).task.kind == "classification"


@pytest.mark.parametrize(
    "classes",
    [
        ["0-20%", "20-40%", "40-60%", "80-100%"],
        ["under $2.5", "$2.5 - $5", "$5 - $1,000", "over $1,000"],
        ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
        ["Very dissatisfied", "Dissatisfied", "Neither satisfied nor dissatisfied", "Satisfied", "Very satisfied"],
        ["Never", "Rarely", "Sometimes", "Often", "Always"],
        ["very bad", "bad", "ok", "good", "very good"],
        ["C", "B", "B+", "A-", "A"],
        ["low", "medium", "high", "urgent"],
        ["nie", "manchmal", "immer"],
        ["Nunca", "A veces", "Siempre"],
        ["Not at all clear", "Slightly clear", "Very clear"],
    ],
)
def test_classes_whose_names_tell_an_order_are_said_with_the_task_that_reads_it(classes: list[str]) -> None:
    rows = pd.DataFrame({"text": TEXTS, "answer": np.resize(classes[::-1], 300)})
    checked = check(rows)
    assert (checked.task.kind, checked.task.options) == ("classification", {})
    (said,) = checked.findings
    assert said.values == {"classes": classes}
    assert f"settings={{'task.kind': 'ordinal', 'task.classes': {classes!r}}}" in said.text
    assert fit_task("ordinal", [rows["answer"].tolist()], classes=classes).classes == tuple(classes)


@pytest.mark.parametrize(
    "classes", [["A", "B", "C"], ["yes", "no", "low"], ["good", "bad"], ["low", "low risk", "high"]]
)
def test_other_classes_have_no_order(classes: list[str]) -> None:
    assert not check(pd.DataFrame({"text": TEXTS, "answer": np.resize(classes, 300)})).findings


def test_a_label_without_a_name_and_texts_among_numbers_are_said() -> None:
    rows = pd.DataFrame({"text": TEXTS, "colour": PLACES % 2, "size": PLACES % 3, "user": PLACES % 7})
    (said,) = check(rows.astype(str)).findings
    assert said.code == "label-is-a-guess"
    assert "'colour' is taken for it" in said.text
    assert "(others are 'size')" in said.text
    odd = pd.DataFrame({"text": TEXTS, "amount": np.where(PLACES % 40, PLACES % 53 * 10, "unknown"), "stars": STARS})
    (said,) = check(odd).findings
    assert said.code == "odd-numbers"
    assert said.values["words"] == {"unknown": 8}
    assert "'<NA>', 'unknown']" in said.text


def test_classes_in_columns_of_their_own_are_named_so() -> None:
    rows = pd.DataFrame({"text": TEXTS, **{name: (place == STARS % 3) * 1 for place, name in enumerate("abc")}})
    assert check(rows).export.startswith("each row has a 1 in one of the columns a, b, c: if they are the classes of")
    assert check(rows.assign(a=1 - rows["a"])).export.startswith("the columns a, b, c share the same few values")


def test_columns_that_are_opposites_are_no_judges() -> None:
    first, second = PLACES % 2, np.random.default_rng(3).integers(0, 2, 300)
    rows = pd.DataFrame({"text": TEXTS, "wsj": first, "wapo": 1 - first, "economy": second, "noneconomy": 1 - second})
    checked = check(rows)
    assert (checked.export, checked.names("label"), len(checked.names("attribute"))) == (None, ["noneconomy"], 1)
    others = rows[["text", "wsj", "economy", "noneconomy"]].assign(noneconomy=first ^ second)
    assert check(others).names("label") == ["wsj", "economy", "noneconomy"]


def test_answers_of_judges_with_the_same_values_are_labels_of_their_own() -> None:
    chance = np.random.default_rng(4)
    texts = np.repeat(TEXTS, 3)
    judges = [f"a{place // 3 * 7 % 40 + place % 3}" for place in range(900)]
    answers = {name: chance.integers(0, 2, 900) for name in ("joy", "anger", "neutral")}
    rows = pd.DataFrame({"text": texts, "rater": judges, **answers, "place": chance.integers(5, 9, 900)})
    checked = check(rows)
    assert (checked.judge, checked.names("label")) == ("rater", ["joy", "anger", "neutral"])
    assert (checked.names("attribute"), checked.names("left out")) == (["rater"], ["place"])
    assert check(rows.rename(columns={"joy": "label"})).names("label") == ["label"]


def test_numbered_answers_beside_the_label_of_all_are_no_labels() -> None:
    classes = np.resize(["yes", "no", "perhaps"], 300)
    numbered = {f"label{number}": np.roll(classes, number) for number in range(1, 6)}
    assert check(pd.DataFrame({"text": TEXTS, "gold_label": classes, **numbered})).names("label") == ["gold_label"]


@pytest.mark.parametrize(
    ("names", "label"),
    [(["Average_Score", "Reviewer_Score"], "Reviewer_Score"), (["taster_handle", "points"], "points")],
)
def test_the_label_is_what_differs_between_rows_or_has_a_word_for_it(names: list[str], label: str) -> None:
    columns = {name: [f"{number + 80}" for number in PLACES * (place + 2) % 5] for place, name in enumerate(names)}
    assert check(pd.DataFrame({"text": TEXTS, **columns})).names("label") == [label]


def test_several_columns_that_are_named_are_labels_of_aspects() -> None:
    named = {"rater1": PLACES % 3, "rater2": PLACES % 4}
    rows = pd.DataFrame({"text": TEXTS, **named, "overall": PLACES % 5, "user": [f"u{place % 40}" for place in PLACES]})
    checked = check(rows, label=[*named])
    arguments = {"text": "text", "label": [*named], "attributes": ["overall", "user"], "task": "aspects"}
    assert checked.arguments == arguments
    assert "labels in 'rater1', 'rater2': each is one of its own: " in checked.text()
    texts = check(rows.assign(rater1=[f"{text} again" for text in TEXTS]), label=[*named])
    assert (texts.names("text"), texts.names("label")) == (["text"], [*named])
    with pytest.raises(ConfigError, match="column rater1 is named twice"):
        check(rows, text="rater1", label=[*named])


@pytest.mark.parametrize("marks", [(1, 0), ("yes", "no"), (True, False), (5, 2.5)])
def test_columns_with_the_same_values_are_labels_unless_their_names_are_those_of_judges(marks: tuple[Any, Any]) -> None:
    shares = {"toxic": 3, "insult": 8, "threat": 30}
    marked = {name: np.where(PLACES % one, marks[1], marks[0]) for name, one in shares.items()}
    rows = pd.DataFrame({"text": TEXTS} | marked)
    checked = check(rows)
    assert checked.arguments == {"text": "text", "label": [*shares], "task": "aspects", "method": "none"}
    assert not checked.findings
    assert checked.command.endswith("--label toxic insult threat --method none --task aspects --output runs/table")
    assert "labels in 'toxic', 'insult', 'threat': each is one of its own; if one of them" in checked.text()
    assert check(rows.set_axis(["text", "Q1", "Q2", "Q3"], axis=1)).names("label") == ["Q1", "Q2", "Q3"]
    by_user = check(rows.assign(user=[f"u{place % 40}" for place in PLACES]))
    assert (by_user.names("label"), by_user.names("attribute")) == ([*shares], ["user"])
    named = [f"{word}{number}" for word in ("coder", "critic") for number in (1, 2, 3)]
    for judges in (named[:3], named[3:], ["rater_anna", "rater_bob", "rater_cem"], ["A", "B", "C"]):
        assert check(rows.set_axis(["text", *judges], axis=1)).command.startswith("attribune data judgements")


def test_texts_in_scripts_without_spaces_are_texts() -> None:
    said = ["这家酒店非常干净。", "服务态度很差。", "快递很快就到了。"]
    rows = pd.DataFrame({"内容": [said[place % 3] + str(place) for place in PLACES], "标签": STARS > 3})
    assert check(rows).flags == ["--text", "内容", "--label", "标签", "--method", "none"]


def test_lists_are_profiled_and_objects_are_named(tmp_path: Path) -> None:
    rows = pd.DataFrame({"text": TEXTS, "stars": STARS})
    rows["tags"] = [[f"t{place % 3}", f"s{place % 2}"][:: 1 if place % 5 else -1] for place in PLACES]
    rows["vector"] = [[place / 7, 1.0] for place in PLACES]
    rows["about"] = [{"device": "phone", "place": place} for place in PLACES]
    rows.to_parquet(tmp_path / "rows.parquet")
    checked = check(tmp_path / "rows.parquet")
    assert checked.names("attribute", "multi_label") == ["tags"]
    assert next(one.values for one in checked.columns if one.name == "tags") == 6, "whatever their order"
    fields = {one.name for one in checked.columns if "several fields" in one.reason}
    assert fields == {"vector", "about"}
    labels = check(tmp_path / "rows.parquet", label="tags")
    assert labels.classes == {"s0": 150, "s1": 150, "t0": 100, "t1": 100, "t2": 100}
    joined = check(rows[["text"]].assign(tags=rows["tags"].map("|".join)), label="tags")
    assert joined.classes == labels.classes


@pytest.mark.parametrize("spell", [repr, json.dumps])
def test_lists_that_are_spelled_out_are_lists(spell: Callable[[list[str]], str]) -> None:
    chance = np.random.default_rng(5)
    lists = [
        chance.choice(["Action", "Sci-Fi", "Don't look"], 1 + place % 3, replace=False).tolist() for place in PLACES
    ]
    table = pd.DataFrame(
        {
            "text": TEXTS,
            "stars": STARS,
            "genres": list(map(spell, lists)),
            "steps": [spell([f"boil {place} eggs for a while", f"peel {place} of them"]) for place in PLACES],
            "measures": [str([place / 7, 1.0, place]) for place in PLACES.tolist()],
        }
    )
    checked = check(table)
    assert checked.arguments["attributes"] == [MultiLabel("genres")]
    assert checked.names("text") == ["text", "steps"]
    assert checked.names("left out") == ["measures"]
    fitted = Schema.fit(table, checked.arguments["attributes"])
    assert {*fitted["genres"].values} == {"Action", "Sci-Fi", "Don't look"}
    assert check(table, label="genres").arguments["task"] == {"kind": "classification", "multi_label": True}
    with pytest.raises(DataError, match=r"attribute 'genres'.*leave the separator out \(MultiLabel\('genres'\)\)"):
        Schema.fit(table, [MultiLabel("genres", separator=",")])
    with pytest.raises(DataError, match=r"the labels spell out lists.*leave task\.separator out"):
        Classification.fit([table["genres"].tolist()], multi_label=True, separator=",")
    split = Schema.fit({"genres": ["Action;Sci-Fi", "Action"]}, [MultiLabel("genres", separator=";")])
    with pytest.raises(DataError, match=r"'genres': the cells spell out lists.*write them with ';' between"):
        split.encode({"genres": table["genres"].tolist()})
    assert split.encode({"genres": ["Action;Drama", "'Action'"]})[0].tolist() == [[1, 0], [0, 0]]


def test_numbers_that_add_up_to_the_label_are_left_out() -> None:
    chance = np.random.default_rng(0)
    raters = {f"rater{number}": chance.integers(1, 6, 300) for number in (1, 2, 3)}
    rows = pd.DataFrame({"text": [f"words of text {number}, which go on" for number in range(300)], **raters})
    rows["age"] = chance.integers(18, 90, 300)
    rows["user"] = [f"u{number % 9}" for number in range(300)]
    rows["score"] = rows[[*raters]].mean(axis=1)
    checked = check(rows, label="score")
    (said,) = [one for one in checked.findings if one.code == "columns-tell-label"]
    assert said.values["columns"] == [*raters]
    assert "'rater1', 'rater2', 'rater3' together tell the label of 100.0% of the rows" in said.text
    assert checked.names("attribute") == ["age", "user"]
    assert check(rows.drop(columns="rater3"), label="score").names("attribute") == ["rater1", "rater2", "age", "user"]
    missing = rows.assign(rater2=rows["rater2"].where(rows.index % 3 > 0), score=rows["score"].where(rows.index > 9))
    assert check(missing, label="score").names("attribute") == ["age", "user"]
    rounded = rows.assign(score=rows["score"].round().astype(int))
    assert check(rounded, label="score").names("attribute") == ["age", "user"]
    rare = rows.assign(rare=rows["age"].where(rows.index < 20), high=rows["age"] * 1e305, low=rows["age"] * 1e-312)
    assert "rater1" not in check(rare, label="score").names("attribute")
    assert check(rows.assign(score=3), label="score").names("attribute") == [*raters, "age", "user"]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "frame", "dataset"])
def test_messages_of_chats_are_read_as_texts(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def answered(words: str | None) -> list[Any]:
        return [[{"role": "user", "content": text}, {"role": "assistant", "content": words}] for text in TEXTS[:30]]

    rows = pd.DataFrame({"prompt": TEXTS[:30], "chosen": answered("yes"), "rejected": [None, [], *answered(None)[2:]]})
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        rows.to_parquet(path)
    elif kind == "jsonl":
        rows.to_json(path, orient="records", lines=True)
    source = {"frame": rows, "dataset": Dataset.from_pandas(rows)}.get(kind, path)
    table = read_table(source)
    assert "the messages of 'chosen', 'rejected' are read as texts" in caplog.text
    assert table["chosen"][3] == f"{TEXTS[3]}\nyes"
    assert [text or "" for text in table["rejected"][:3]] == ["", "", f"{TEXTS[2]}\n"]
    columns = "--prompt prompt --text chosen --text-pair rejected"
    assert " ".join(check(source).flags) == f"{columns} --method none --task preference"
    assert listed_text(rows["chosen"], "chosen", 1)[3] == table["chosen"][3], "rows of Python are read alike"


@pytest.mark.parametrize(
    ("cells", "text", "is_said"),
    [
        ([[{"role": "user", "content": "a"}], "b", []], ["a", "b", ""], True),
        (
            [[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}, None], []],
            ["a\n\n", ""],
            True,
        ),
        ([[{"role": "user", "content": "a", "tool": {"x": 1}}], None], ["a", None], True),
        ([[{"role": "user", "content": 5}], None], ['[{"role": "user", "content": 5}]', None], False),
        ([[{"role": "user", "content": "a"}], {"b": 1}], ['[{"role": "user", "content": "a"}]', '{"b": 1}'], False),
        ([[{"content": "a"}], []], ['[{"content": "a"}]', "[]"], False),
    ],
)
def test_messages_in_lines_of_json_may_be_anything(
    cells: list[Any], text: list[str | None], is_said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rows.jsonl"
    for order in permutations(range(len(cells))):  # which decides nothing
        path.write_text("".join(json.dumps({"text": cells[one]}) + "\n" for one in order), encoding="utf-8")
        assert list(read_table(path)["text"]) == [text[one] for one in order]
    assert ("messages" in caplog.text) == is_said


def test_contents_in_parts_are_read_from_every_table(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"said": [[{"role": "user", "content": [{"type": "text", "text": text}]}] for text in TEXTS[:9]]}
    )
    rows.to_parquet(tmp_path / "rows.parquet")
    for source in (rows, Dataset.from_pandas(rows), tmp_path / "rows.parquet"):
        assert list(read_table(source)["said"]) == TEXTS[:9]
    assert listed_text(rows["said"], "said", 1) == TEXTS[:9]


@pytest.mark.parametrize("far", [np.inf, -np.inf, 2.0**63, 1e300, float(2**63 - 1)])
def test_numbers_may_be_infinite_or_very_large(far: float) -> None:
    rows = pd.DataFrame({"text": TEXTS, "stars": STARS, "age": 18 + PLACES % 70, "worth": PLACES / 7})
    rows["age"] = rows["age"].astype(float).where(PLACES != 5, far)
    assert check(rows).names("attribute", "number") == ["age", "worth"]
    assert check(rows.assign(worth=rows["worth"].where(PLACES != 5, far)), label="worth").task.kind == "regression"


def test_a_column_of_one_date_is_useless() -> None:
    rows = pd.DataFrame({"text": TEXTS, "stars": STARS, "sent": "2024-05-31"})
    codes = {one.code for one in check(rows).findings}
    assert codes >= {"column-with-one-value"}
    assert not codes & {"times-split-at-random", "dates-not-read"}


def test_an_attribute_of_objects_is_said_to_have_several_fields() -> None:
    cells = ['{"name": "ann", "age": 41}', "{'name': 'bob', 'age': 7}", None]
    found = attribute_finding("who", column_codes(pa.chunked_array([cells])))
    assert found is not None
    assert str(found).startswith('column \'who\' holds several fields, such as \'{"name": "ann", "age": 41}\'')
    assert attribute_finding("who", column_codes(pa.chunked_array([["{ann}", "bob", "bob"]]))) is None


def test_dates_with_years_of_two_digits_are_asked_for() -> None:
    rows = pd.DataFrame({"text": TEXTS, "stars": STARS, "sent": DAYS.strftime("%d.%m.%y")})
    (said,) = [one for one in check(rows).findings if one.code == "dates-not-read"]
    assert said.values["formats"] == ["%d.%m.%y", "%y.%m.%d"]
    assert not [one for one in check(rows).findings if one.code == "times-split-at-random"], "which would be refused"
    with pytest.raises(ConfigError, match="name their format"):
        date_format_of(list(rows["sent"]), column="sent")
    whole = ["5 May 2024", "6 August 2024", "7 Sept 2024", "8. Mai 2024"]
    assert (np.diff(read_times(whole[:3], column="when")) > 0).all(), "the first row does not tell the format alone"
    with pytest.raises(RowError, match="row 4"):
        read_times(whole, column="when")


def test_bytes_and_clocks_are_neither_texts_nor_dates_and_lists_may_be_the_label() -> None:
    emotions = [[f"t{place % 3}", f"s{place % 2}"] for place in PLACES]
    rows = pd.DataFrame({"text": TEXTS, "emotion": emotions, "user": PLACES % 7})
    rows["raw"] = [text.encode() for text in TEXTS]
    rows["clock"] = pd.to_timedelta(PLACES, "s")
    checked = check(rows)
    assert checked.names("label") == ["emotion"]
    assert checked.names("attribute") == ["user"]
    assert "bytes" in next(one.reason for one in checked.columns if one.name == "raw")
    assert not checked.findings
