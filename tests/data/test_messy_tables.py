"""Tables as strangers have them: what is guessed of them, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from attribune import check
from attribune.data.checking.table_check import TableCheck
from attribune.data.column_names import NAMES, ColumnName
from attribune.data.selection import placeholder_texts
from attribune.errors import DataError
from attribune.runs.table_recipe import table_recipe
from attribune.tasks.rating import Rating
from attribune.training.plan import DataPlan
from attribune.training.preparation import usable_rows

ROWS = 240
WORDS = np.array("der die Küche gut schlecht schnell laut neu alt kalt warm fade".split())  # noqa: SIM905
CHANCE = np.random.default_rng(5)
TEXTS = [" ".join(line) for line in CHANCE.choice(WORDS, (ROWS, 9))]
STARS = CHANCE.integers(1, 6, ROWS)
SIGNS = [f"{n} stars" if row % 3 else "★" * n + "☆" * (5 - n) for row, n in enumerate(STARS.tolist())]
ACTIONS = [["Beschwerde", "Rückruf", "nichts", "Dank", "Gutschein"][n - 1] for n in STARS.tolist()]
PEOPLE = [str(10_000 + 37 * one) for one in CHANCE.integers(0, 20, ROWS)]


def german() -> pd.DataFrame:
    """Stars in two spellings, a clean column that says the same, whole numbers as ids, and words for no value."""
    table = pd.DataFrame(
        {
            "Unnamed: 0": np.arange(ROWS),
            "Kundennr": PEOPLE,
            "Datum": [f"{1 + row % 28:02}.{1 + row % 12:02}.2023" for row in range(ROWS)],
            "Preis": [f"{row % 90},{row % 7}5" for row in range(ROWS)],
            "Kommentar": TEXTS,
            "Bewertung": SIGNS,
            "Maßnahme": ACTIONS,
        }
    )
    table.loc[3:6, "Bewertung"] = ["n/a", "-", None, "?"]
    table.loc[10:12, "Kundennr"] = "n/a"
    table.loc[20:22, "Kommentar"] = ["-", "n/a", "?"]
    table.loc[30:31, "Preis"] = "-"
    return table


def french() -> pd.DataFrame:
    answers = {"Marque préférée": CHANCE.choice(["a", "b"], ROWS), "Été": CHANCE.choice(["oui", "non"], ROWS)}
    return pd.DataFrame({"Numéro": np.arange(1, ROWS + 1) * 3, "Commentaire": TEXTS, "Évaluation": STARS, **answers})


def two_labels() -> pd.DataFrame:
    mood = np.where(STARS > 3, "pos", np.where(STARS < 3, "neg", "mixed"))
    store = CHANCE.choice(["north", "south", "west"], ROWS)
    return pd.DataFrame({"content": TEXTS, "overall rating": STARS, "sentiment": mood, "store": store})


def codes() -> pd.DataFrame:
    """Ids such as 00123, and a label whose name says nothing."""
    ids = {"filiale": CHANCE.integers(100, 112, ROWS), "kunde": CHANCE.integers(0, 60, ROWS)}
    padded = {name: [f"{one:05}" for one in numbers] for name, numbers in ids.items()}
    return pd.DataFrame({**padded, "notiz": TEXTS, "ergebnis": CHANCE.choice(["ja", "nein"], ROWS)})


NOES = ["No", "no"] * (ROWS // 4)


def dates() -> pd.DataFrame:
    """Dates in three formats, and columns of nothing."""
    forms = ["%d.%m.%Y", "%Y-%m-%d", "%d/%m/%Y"]
    days = pd.date_range("2024-01-01", periods=ROWS)
    return pd.DataFrame(
        {
            "posted": [day.strftime(forms[row % 3]) for row, day in enumerate(days)],
            "message": TEXTS,
            "answer": [*("Yes" if row % 5 else "yes" if row % 2 else "YES" for row in range(ROWS // 2)), *NOES],
            "empty": [""] * ROWS,
            "always": ["x"] * ROWS,
            "dash": ["-"] * ROWS,
        }
    )


def survey() -> pd.DataFrame:
    """A label whose name says nothing behind what people are, and amounts with signs."""
    return pd.DataFrame(
        {
            "gender": [["f", "m", "x"][row % 3] for row in range(ROWS)],
            "spent": [f"{row}.50 €" for row in range(ROWS)],
            "share": [f"{row % 30} %" for row in range(ROWS)],
            "Split": [["train", "Train", "dev", "test"][row % 4] for row in range(ROWS)],
            "open_answer": TEXTS,
            "agree": [["no", "partly", "yes"][row // 3 % 3] for row in range(ROWS)],
        }
    )


def export() -> pd.DataFrame:
    """Scores of a scale, and cells with fields of their own as JSON text."""
    people = [f'{{"name": "u{row % 9}", "land": "de"}}' for row in range(ROWS)]
    scores = [f"{n}/5" for n in STARS]
    return pd.DataFrame({"user": people, "tags": [f"[{one}]" for one in people], "body": TEXTS, "note": scores})


def crowd() -> pd.DataFrame:
    """Answers and how sure they are, what the tool wrote beside them, and a sentence that many rows share."""
    topics = [f"From a person of the party number {row % 11} of this country" for row in range(ROWS)]
    return pd.DataFrame(
        {
            "_unit_id": np.arange(7_000, 7_000 + ROWS),
            "_state": [["golden", "finalized"][row % 2] for row in range(ROWS)],
            "topic": [["dogs are better than cats here", "cats are better", "neither"][row % 3] for row in range(ROWS)],
            "topic:confidence": CHANCE.random(ROWS).round(2),
            "topic_gold": [None] * (ROWS - 5) + ["neither"] * 5,
            "who": topics,
            "yes": [["y", "n"][row % 2] for row in range(ROWS)],
            "_body": TEXTS,
            "post_id": [500_000_000_000 + 10_000 * (row // 4) for row in range(ROWS)],
        }
    )


OF_FRENCH, RATING = "Marque préférée, Été", "overall rating"
GUESSES: dict[str, tuple[Callable[[], pd.DataFrame], dict[str, str]]] = {  # with the columns of each role
    "german": (
        german,
        {"id": "Unnamed: 0", "text": "Kommentar", "label": "Bewertung", "time": "Datum", "attribute": "Kundennr"}
        | {"left out": "Preis, Maßnahme"},
    ),
    "french": (french, {"id": "Numéro", "text": "Commentaire", "label": "Évaluation", "attribute": OF_FRENCH}),
    "two labels": (two_labels, {"text": "content", "label": "sentiment", "attribute": "store", "left out": RATING}),
    "codes": (codes, {"text": "notiz", "label": "ergebnis", "attribute": "filiale, kunde"}),
    "survey": (
        survey,
        {"text": "open_answer", "label": "agree", "attribute": "gender, share", "left out": "spent, Split"},
    ),
    "crowd": (
        crowd,
        {"text": "_body", "label": "topic", "attribute": "who, yes, post_id"}
        | {"left out": "_unit_id, _state, topic:confidence, topic_gold"},
    ),
    "export": (export, {"text": "body", "label": "note", "left out": "user, tags"}),
    "dates": (dates, {"time": "posted", "text": "message", "label": "answer", "left out": "empty, always, dash"}),
}


def findings(checked: TableCheck) -> str:
    return "\n".join(map(str, checked.findings))


def test_amounts_with_signs_and_scores_of_a_scale_are_said() -> None:
    said = findings(check(survey()))
    assert "column 'spent' has numbers with a sign, such as '0.50 €', which are read as names" in said
    assert "column 'share' has numbers with a sign, such as '0 %'" in said
    assert "column 'Split' says in which part a row is" in said
    found = check(export())
    assert found.task is not None
    assert found.task.words.startswith("ratings from 1 to 5, read from texts such as ")
    mixed = export().assign(note=[f"{n}/{5 + 5 * (row % 2)}" for row, n in enumerate(STARS)])
    assert check(mixed).task.kind == "classification"
    with pytest.raises(DataError, match=r"the labels are of several scales \('\d/5', '\d/10'\): write them as numbers"):
        Rating.fit([mixed["note"].tolist()])


@pytest.mark.parametrize("name", GUESSES)
def test_columns_are_taken_for_what_they_are(name: str) -> None:
    make, roles = GUESSES[name]
    checked = check(make())
    assert {role: ", ".join(checked.names(role)) for role in {one.role for one in checked.columns}} == roles


@pytest.mark.parametrize(
    ("make", "label", "said"),
    [
        (german, None, "'Bewertung' is taken for the label, and 'Maßnahme' is left out"),
        (german, "Bewertung", "column 'Maßnahme' determines the label: 100.0% of the rows"),
        (german, "Maßnahme", "column 'Bewertung' determines the label: 100.0% of the rows"),
        (german, None, "column 'Preis' is left out: its numbers have decimal commas, such as '0,05'"),
        (german, None, "3 texts that look like none are learned from: '-' (1), 'n/a' (1), '?' (1)"),
        (two_labels, None, "if it is the label itself, name it (label)"),
        (lambda: two_labels().assign(score=STARS[::-1]), None, "column 'score' has the name of a label"),
        (dates, None, "'Yes' (96), 'YES' (12), 'yes' (12); 'No' (60), 'no' (60)"),
        (lambda: codes().assign(ergebnis=["ja", "nein", "-"] * (ROWS // 3)), None, "label 'ergebnis': '-' in 80 rows"),
    ],
)
def test_what_is_wrong_is_said(make: Callable[[], pd.DataFrame], label: str | None, said: str) -> None:
    assert said in findings(check(make(), label=label))


@pytest.mark.parametrize(
    "labels",
    [
        [*SIGNS[:-3], "n/a", "-", ""],
        [str(n) for n in STARS[:-3]] + ["?", "none", "NA"],
        ["0", "1", "-"] * (ROWS // 3),
        ["ja", "nein", "n/a"] * (ROWS // 3),
    ],
)
def test_a_check_counts_what_a_training_does(labels: list[str]) -> None:
    """The rows without a label and those of each class, and the values of ids among which ``n/a`` is one."""
    table = pd.DataFrame({"text": TEXTS, "label": labels, "who": [*PEOPLE[:-2], "n/a", "-"]})
    checked = check(table)
    plan = DataPlan.of(table_recipe({"data": table}, {})[0])
    usable = usable_rows(plan, table, "train", [])
    column = next(one for one in checked.columns if one.name == "label")
    assert column.missing == ROWS - len(usable.rows)
    assert sum(checked.classes.values()) == len(usable.rows)
    ids = next(one for one in checked.columns if one.name == "who")
    assert (ids.missing, ids.values) == (0, len({*PEOPLE[:-2], "n/a", "-"}))


def test_reasons_for_what_is_left_out_are_shown() -> None:
    names = codes().assign(note=[f"a{row} b{row}" for row in range(ROWS - 20)] + ["a0 b0"] * 20)
    for table, said in (
        (dates(), "left out: 'empty' (no row has a value)"),
        (german(), "column 'Preis' is left out"),
        (names, "'note' (nearly all values differ, such as 'a0 b0')"),
    ):
        assert said in check(table).text()


def test_copies_and_contradictions_are_said_with_a_row() -> None:
    table = german()[["Unnamed: 0", "Kundennr", "Kommentar", "Bewertung"]][40:200].reset_index(drop=True)
    assert "cop" not in findings(check(table))
    copies = table.iloc[[5, 5, 9]].assign(**{"Unnamed: 0": [900, 901, 902]})
    others = table.iloc[[7]].assign(Bewertung="1 star" if table["Bewertung"][7] != "1 star" else "5 stars")
    said = findings(check(pd.concat([table, copies, others])))
    assert "3 rows are copies of an earlier row in all columns but 'Unnamed: 0', such as row 161 (of row 6)" in said
    assert "1 row has the text and the attributes of an earlier row and another label, such as row 164 (of row " in said


def test_lists_are_told_apart_among_copies() -> None:
    lists = {"text": TEXTS[:60] * 2, "tags": [["a"]] * 60 + [["b"]] * 60, "label": [0, 1] * 60}
    assert "copies" not in findings(check(pd.DataFrame(lists)))
    assert "60 rows are copies" in findings(check(pd.DataFrame(lists | {"tags": [["a"]] * 120})))


@pytest.mark.parametrize(
    ("texts", "counts"),
    [
        (["-", "N/A", "none", ". ", "?", "- -", "…"], True),
        (["no", "0", "★", "x", "", "?" * 9, "ok -"], False),
    ],
)
def test_texts_that_stand_for_none_are_counted(texts: list[str], counts: bool) -> None:
    for text in texts:
        assert placeholder_texts({"a": [text, "some words"], "b": ["", ""]}, ["a", "b"]).total() == counts, text


@pytest.mark.parametrize(("meaning", "languages"), NAMES.items())
def test_names_are_known_in_each_language(meaning: Any, languages: dict[str, str]) -> None:
    for words in languages.values():
        assert all(ColumnName(word.title()).means(meaning) for word in words.split())


@pytest.mark.parametrize(
    ("meaning", "says", "does_not"),
    [
        (
            "label",
            [
                "Kundenbewertung",
                "Étiquettes",
                "Valoración del cliente",
                "is_spam",
                "isSpam",
                "How likely is it that ...?",
            ],
            ["yearly", "denoted"],
        ),
        ("label", ["Score1", "label_2"], ["1"]),
        ("id", ["KundenNr", "Auftragsnummer", "TurkId3"], []),
        ("text", ["Bewertungstext", "Reseñas", "comment2"], ["title_length"]),
        ("time", [], ["days"]),
        ("judge", ["rater2", "annotator_anna", "Gutachter 1", "juges"], ["judged", "decoder", "expertise"]),
    ],
)
def test_accents_compounds_and_plurals_are_read(meaning: Any, says: list[str], does_not: list[str]) -> None:
    assert [name for name in (*says, *does_not) if ColumnName(name).means(meaning)] == says


def test_names_that_end_with_the_word_for_a_person_name_one() -> None:
    people = ["annotator", "user_email", "annotatorId", "Reviewers", "workerid", "Gutachter", "completed_by"]
    others = ["user_agent", "judge_score", "rater2", "decoder"]
    assert [name for name in (*people, *others) if ColumnName(name).is_of_person] == people


def test_a_numbered_name_is_the_last_to_be_the_label() -> None:
    scores = np.random.default_rng(0).integers(1, 6, (200, 3)) * [1, 1, 2]
    table = pd.DataFrame(scores, columns=["score1", "score2", "mean_score"])
    checked = check(table.assign(text=[f"this is the text of number {row}" for row in range(200)]))
    assert checked.names("label") == ["mean_score"]
    assert {one.values["column"] for one in checked.findings if one.code == "named-as-label"} == {"score1", "score2"}


@pytest.mark.parametrize("columns", [["product", "sentiment"], ["product", "zz"], ["zz", "product"]])
def test_things_are_no_labels_where_there_is_another_column(columns: list[str]) -> None:
    values = {"product": CHANCE.choice(["a", "b"], ROWS), columns[columns[0] == "product"]: STARS % 4}
    table = pd.DataFrame({"text": TEXTS} | {name: values[name] for name in columns})
    assert check(table).names("label") == [next(name for name in columns if name != "product")]
