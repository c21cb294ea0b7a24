"""Doors that people know: a training on a table, predictions for whatever is at hand, results as tables."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import small_runs
from lab_methods import require_lab

from attribune import (
    AttribuneError,
    ConfigError,
    MultiLabel,
    Predictor,
    Recipe,
    Schema,
    compare_runs,
    enrol,
    evaluate,
    explain,
    forget,
    report,
    train,
)
from attribune.apps.cli import main
from attribune.core.files import read_json
from attribune.models.row_inputs import Predictions
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow

ROWS = small_runs.reviews(60)
FRAME = pd.DataFrame(ROWS, index=[f"r{number}" for number in range(60)])
NAMES = ("text", "user", "tags")
SETTINGS = {"training.steps": 1, "training.precision": "float32"}


class Stream:
    """A table of another library: nothing but the Arrow interface, with texts as views, as polars has them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        kinds = [
            pa.string_view() if pa.types.is_large_string(f.type) or f.type == pa.string() else f.type
            for f in table.schema
        ]
        self._table = table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def results_and_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    require_lab("a backbone without pretraining is the quickest to train")
    run = tmp_path_factory.mktemp("doors") / "run"
    columns = {"text": "text", "label": "stars", "attributes": ["user", MultiLabel("tags", separator=";")]}
    options = {"method": "upa", "backbone": "cnn", "max_length": 16, "seed": 3, "settings": SETTINGS}
    return train(FRAME, run, **columns, **options), run


@pytest.fixture
def run(results_and_run: tuple[Any, Path]) -> Path:
    return results_and_run[1]


@pytest.fixture
def predictor(run: Path) -> Predictor:
    return Predictor.from_pretrained(run, device="cpu")


def test_a_training_on_a_table_is_that_of_its_recipe(results_and_run: tuple[Any, Path]) -> None:
    results, run = results_and_run
    recipe = load_run(run)[0]
    assert recipe.data.train == "the DataFrame"
    assert [item["kind"] for item in recipe.data.attributes] == ["categorical", "multi_label"]
    assert (recipe.training.seed, recipe.data.split.seed, recipe.training.steps) == (3, 3, 1)
    assert results["rows"] == {"train": 48, "validation": 6, "test": 6}
    assert "validation, 6 rows" in repr(results)
    assert "array" not in repr(results)
    assert results._repr_html_().count("<table>") == 2


def test_settings_name_files_beside_a_table(tmp_path: Path) -> None:
    FRAME.head(20).to_csv(tmp_path / "test.csv")
    columns: dict[str, Any] = {"text": "text", "label": "stars", "method": "linear", "baselines": False}
    results = train(FRAME, tmp_path / "run", **columns, settings={"data.test": tmp_path / "test.csv"})
    assert results["rows"]["test"] == 20
    with pytest.raises(AttribuneError, match=r"nowhere\.csv: there is no such file"):
        train(FRAME, tmp_path / "other", **columns, settings={"data": {"test": "nowhere.csv"}})


@pytest.mark.parametrize(("name", "part"), [("data", "train"), ("validation", "validation"), ("test", "test")])
def test_a_table_is_not_replaced_by_a_file_of_the_settings(name: str, part: str, tmp_path: Path) -> None:
    given = {"data": FRAME, name: FRAME}
    with pytest.raises(ConfigError, match=f"{name} is given, and settings has data.{part}"):
        train(
            **given,
            output=tmp_path / "run",
            text="text",
            label="stars",
            method="linear",
            settings={f"data.{part}": "x"},
        )


def test_every_form_of_rows_has_the_same_predictions(predictor: Predictor) -> None:
    expected = predictor.predict(FRAME)
    assert list(expected.index) == list(FRAME.index)
    probabilities = expected["probability_good"].to_numpy()
    assert np.ptp(probabilities) > 0
    plain = FRAME.reset_index(drop=True)
    for given in (ROWS, {name: list(FRAME[name]) for name in NAMES}, pa.Table.from_pandas(plain), Stream(FRAME)):
        found = predictor.predict(given)
        assert isinstance(found, Predictions)
        np.testing.assert_allclose(found["probability_good"], probabilities, atol=1e-6)
    row = {name: ROWS[5][name] for name in NAMES}
    own = {name: row[name] for name in ("user", "tags")}
    for one in (predictor.predict(row), predictor.predict(row["text"], **own)):
        assert one["probability_good"] == pytest.approx(probabilities[5], abs=1e-6)
        assert one["prediction"] == expected["prediction"].iloc[5]
    texts = [ROWS[5]["text"], ROWS[6]["text"]]
    for several in (texts, pd.Series(texts), np.array(texts)):
        assert predictor.predict(several, **own)["probability_good"][0] == pytest.approx(probabilities[5], abs=1e-6)
    assert len(predictor.predict([])["prediction"]) == 0


def test_predictions_and_schemas_are_printed_as_tables(predictor: Predictor, run: Path) -> None:
    lines = repr(predictor.predict(ROWS)).splitlines()
    assert lines[0].split() == ["prediction", "probability_bad", "probability_good"]
    assert (len(lines), lines[-1]) == (13, "60 rows")
    assert "<table" in predictor.predict(ROWS)._repr_html_()
    assert repr(predictor.schema).splitlines()[2].split()[:2] == ["user", "categorical"]
    shown = evaluate(run, FRAME)
    assert "\n\n60 rows" in repr(shown)
    assert "<table>" in shown._repr_html_()
    pairs = compare_runs(run, run)
    assert pairs[0]["difference"] == 0
    assert "+0.0 [+0.0, +0.0]" in repr(pairs)
    hostile = Schema.fit({"a<b>": ["<script>", "x"]}, ["a<b>"])
    assert "<script>" not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.predict("x", usr="u1"), "'usr', .* did you mean 'user'"),
        (lambda p: p.predict("x", text="y"), "'text', which the model does not read"),
        (lambda p: p.predict([{"text": "x", "usr": "u1"}]), "columns of row 1 have 'usr', .* did you mean 'user'"),
        (lambda p: p.predict({"text": "x", "usr": "u1"}), "did you mean 'user'"),
        (lambda p: p.predict({"txt": "x", "user": "u1"}), "no column 'text'; did you mean 'txt'"),
        (lambda p: p.predict(ROWS, user="u1"), "cannot be combined with rows or a table"),
        (lambda p: p.predict(FRAME.drop(columns="user")), "no column 'user'"),
        (lambda p: p.predict(pd.concat([FRAME, FRAME[["user"]]], axis=1)), "several columns 'user'"),
        (lambda p: p.predict({"text": ["x"], "user": 5, "tags": [None]}), "column 'user' is int"),
        (lambda p: p.predict("x", user=["u1", "u2"]), "is not one value"),
        (lambda p: p.predict([5]), "row 1 is int"),
        (lambda p: p.predict(["x", 5, {"text": "y"}]), "row 1 is str"),
        (lambda p: Schema.fit(FRAME, 5), "the attributes are 5"),
        (lambda p: Recipe.from_dict({"data": {"train": "x", "text": "t", "label": "l", "attributes": [5]}}), "is 5"),
    ],
)
def test_mistakes_are_named(predictor: Predictor, call: Callable[[Predictor], Any], message: str) -> None:
    with pytest.raises(AttribuneError, match=message):
        call(predictor)


@pytest.mark.parametrize("wrong", [None, 5, 2.5, b"x", object(), {1: 2}, [[None]], [[]], {"text": object()}, int])
def test_no_error_comes_from_inside(predictor: Predictor, tmp_path: Path, wrong: Any) -> None:
    columns: dict[str, Any] = {"text": "text", "label": "stars", "backbone": "cnn", "method": "upa"}
    names = [] if wrong is None else ["label", "text"]  # what is not given is guessed
    if not isinstance(wrong, int | float) and wrong is not None:  # which some arguments may be
        names += ["text_pair", "weight", "task", "method", "tuning", "epochs", "seed", "values", "attributes", "test"]
    calls: list[Callable[[], Any]] = [
        lambda: predictor.predict(wrong),
        lambda: predictor.predict("x", user=wrong, usr=wrong),
        lambda: train(wrong, tmp_path / "run", attributes="user", **columns),
        lambda: train(FRAME, tmp_path / "run", attributes="user", settings=[wrong], **columns),
        *(partial(train, FRAME, tmp_path / "run", **{"attributes": "user", **columns, name: wrong}) for name in names),
    ]
    for call in calls:
        with pytest.raises(AttribuneError):
            call()
    assert not (tmp_path / "run").exists()


def test_texts_have_a_value_each(predictor: Predictor) -> None:
    texts, expected = list(FRAME["text"]), predictor.predict(FRAME)["probability_good"].to_numpy()
    own: dict[str, Any] = {name: FRAME[name].to_numpy() for name in ("user", "tags")}
    found = predictor.predict(texts, **own)
    np.testing.assert_allclose(found["probability_good"], expected, atol=1e-6)
    listed = predictor.predict(texts, user=own["user"], tags=[cell.split(";") for cell in own["tags"]])
    np.testing.assert_allclose(listed["probability_good"], expected, atol=1e-6)
    vectors = predictor.encode(texts[:3], user=list(own["user"][:3]))
    alone = [predictor.encode(text, user=user) for text, user in zip(texts[:3], own["user"], strict=False)]
    np.testing.assert_allclose(vectors, alone, atol=1e-5)


def test_values_are_added_and_removed(run: Path, predictor: Predictor, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    rows = pd.DataFrame(ROWS[:8]).assign(user=["new", "other"] * 4)
    added = enrol(copy, rows, attributes="user", min_rows=3)
    table = added.to_pandas()
    assert set(table["value"]) == {"new", "other"}
    assert table["rows"].tolist() == [4, 4]
    assert repr(added).splitlines()[1].split()[:3] == ["user", "new", "4"]
    known = Predictor.from_pretrained(copy, device="cpu").predict(FRAME)
    pd.testing.assert_frame_equal(known, predictor.predict(FRAME))
    gone = forget(copy, "user", "new")
    assert gone.faults == []
    assert f"{copy}: the name, and what was learned of it, removed from the model" in repr(gone)
    assert [one.value for one in enrol(copy, undo=True).removed] == ["other"]
    enrol(copy, rows[:1], attributes=["user"], prior=2, steps=1)
    assert "1 value removed; the model is as it was before" in repr(enrol(copy, undo=True))
    assert Predictor.from_pretrained(copy).schema["user"].values == predictor.schema["user"].values


def test_files_of_verbs_are_read_with_their_options(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    table = tmp_path / "new.txt"
    pd.DataFrame(ROWS[:8]).assign(user="new").to_csv(table, index=False, sep="~")
    reading: dict[str, Any] = {"delimiter": "~", "file_format": "csv"}
    assert enrol(copy, table, **reading).values[0].rows == 8
    page = report(copy, table, output=tmp_path / "page.html", **reading)
    assert (page, "<html" in page.read_text()) == (tmp_path / "page.html", True)
    assert report(copy) == copy / "report.html"
    found = explain(copy, table, output=tmp_path / "explained.html", row=2, instead={"user": "u1"}, **reading)
    assert (found["rows"], found["row"]["number"]) == (8, 2)
    assert any("user" in str(one["as"]) for one in found["row"]["predictions"])
    assert "What is lost without an attribute" in repr(found)
    assert "<table>" in found._repr_html_()
    assert "<html" in (tmp_path / "explained.html").read_text()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: enrol(run), "neither a table of rows nor one that describes values"),
        (lambda run: enrol(run, FRAME, undo=True), "undo removes the values that were added last: leave out data"),
        (lambda run: enrol(run, FRAME, min_rows=0), "min_rows is 0: give at least 1"),
        (lambda run: enrol(run, FRAME, min_rows="2"), "min_rows is '2'"),
        (lambda run: forget(run, "user", "nobody"), "attribute 'user' has no value 'nobody'"),
        (lambda run: forget(run, "user", []), "no value is given to forget"),
        (lambda run: report(run, delimiter=";"), "delimiter says how a table is read, and there is none: give data"),
        (lambda run: explain(run, FRAME, instead={"user": "u1"}), "instead is for one row: choose it with row"),
        (lambda run: explain(run, FRAME, top=0), "top is 0: give at least 1"),
    ],
)
def test_mistakes_with_runs_are_named(run: Path, call: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(run)


def test_a_text_on_the_command_line(
    run: Path, predictor: Predictor, tmp_path: Path, capsys: pytest.CaptureFixture[str], fails: Callable[..., str]
) -> None:
    expected = predictor.predict("great film", user="u1", tags=["war", "drama"])
    words = ["--attribute", "user=u1", "--attribute", "tags=war", "--attribute", "tags=drama"]
    for folder in (run, run / "model"):
        assert main(["predict", str(folder), "--text", "great film", *words]) == 0
        assert f"prediction: {expected['prediction']}\nprobability_bad: " in capsys.readouterr().out
    table = tmp_path / "x.csv"
    table.write_text("text\nx\n")
    for wrong, message in (
        (["--text", "x", "--attribute", "usr=1"], "did you mean 'user'"),
        (["--text", "x", "--output", "o.csv"], "--output and --text cannot be combined"),
        ([], "there is nothing to predict"),
        ([str(table)], "no output is named"),
        ([str(table), "--output", "o.csv", "--attribute", "user=u1"], "--attribute is only for --text"),
    ):
        assert message in fails("predict", run, *wrong)


def test_a_model_alone(run: Path, predictor: Predictor, tmp_path: Path, fails: Callable[..., str]) -> None:
    alone = shutil.copytree(run / "model", tmp_path / "alone")
    data = small_runs.write_csv(tmp_path / "data.csv", ROWS)
    assert main(["predict", str(alone), str(data), "--output", str(tmp_path / "found.csv")]) == 0
    found = pd.read_csv(tmp_path / "found.csv")["probability_good"]
    np.testing.assert_allclose(found, predictor.predict(ROWS)["probability_good"], atol=1e-5)
    assert main(["predict", str(alone), str(data), "--output", str(tmp_path / "parts")]) == 0
    assert "a model alone" in fails("evaluate", alone, data)


def test_the_standard_input_is_predicted(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = FRAME.to_csv(index=False, sep=";").encode()
    expected, found = tmp_path / "expected.csv", tmp_path / "found.csv"
    FRAME[:7].to_csv(tmp_path / "rows.csv", index=False, sep=";")
    assert main(["predict", str(run), str(tmp_path / "rows.csv"), "--output", str(expected)]) == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main(["predict", str(run), "-", "--rows", "7", "--output", str(found)]) == 0
    assert found.read_text() == expected.read_text()
    assert main(["predict", str(run), "-", "--output", str(tmp_path / "folder")]) == 1


def test_the_first_rows_of_the_standard_input_are_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FRAME.to_json(orient="records").encode())))
    words = ["--text", "text", "--label", "stars", "--attributes", "user", "--method", "linear", "--no-baselines"]
    assert main(["train", "-", "--rows", "40", *words, "--output", str(tmp_path / "run")]) == 0
    recipe, results = load_run(tmp_path / "run")[0], read_json(tmp_path / "run" / "metrics.json", what="metrics")
    assert (recipe.data.train, recipe.data.rows) == ("-", 40)
    assert sum(results["rows"].values()) == 40
    assert any("at most its first 40" in note for note in results["notes"])
