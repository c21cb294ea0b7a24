"""Continuous numbers of rows: their levels, what the model is told of them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
from datasets import Dataset
from lab_methods import needs_lab
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.errors import AttribuneError, ConfigError, DataError
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.schema import Categorical, Number, Numeric, Schema, ValueTable
from attribune.schema.attributes import number_levels
from attribune.values.enrol import enrol


def fitted(numbers: list[Any], **options: Any) -> Schema:
    return Schema.fit({"age": numbers}, [Number("age", **options)])


def told(schema: Schema, numbers: list[Any]) -> Any:
    """What the map reads of numbers, and whether they are there."""
    return schema["age"].description.features[schema.encode({"age": numbers})[0][:, 0]]


def test_few_numbers_are_exact() -> None:
    numbers = [20, 35.5, 35.5, 90, None, "41"]
    schema, known = fitted(numbers), np.array([20, 35.5, 35.5, 90, 41])
    expected = (known - known.mean()) / known.std()
    np.testing.assert_allclose(told(schema, [20, 35.5, "35.5", 90, 41])[:, 0], expected, atol=1e-6)
    assert told(schema, [None, "", "41"])[:, 1].tolist() == [0, 0, 1]
    assert not schema["age"].layout.has_own_vectors


def test_the_report_says_what_is_counted() -> None:
    table = {"age": [20, 35.5, 90] * 4, "year": [1990, 1991, 1992] * 4, "user": ["a", "b", "c"] * 4}
    schema = Schema.fit(table, [Number("age", bins=50), Numeric("year", bins=2), Categorical("user")])
    said = ["numbers found: 3; levels on their scale: ", "numbers found: 3; bins: 2", "values found: 3; ids: 3"]
    assert all(part in line for part, line in zip(said, schema.fit_report.lines(), strict=True))


def test_numbers_between_and_beyond() -> None:
    """Numbers that no training row has are rounded to a step of the range, or are the smallest or largest."""
    schema, mean, scale = fitted([0, 100], bins=1_000), 50.0, 50.0
    numbers = np.random.default_rng(0).uniform(0, 100, 200)
    np.testing.assert_allclose(told(schema, numbers.tolist())[:, 0] * scale + mean, numbers, atol=100 / 998 / 2 + 1e-4)
    assert (told(schema, [-5, 1e300])[:, 0] * scale + mean).tolist() == pytest.approx([0, 100])


@pytest.mark.slow
@pytest.mark.parametrize("bins", [1, 2, 3, 10, 1_000])
@pytest.mark.parametrize("kind", ["one", "lognormal", "far", "integers", "tiny"])
def test_levels_are_ascending_and_near(bins: int, kind: str, tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    numbers = {
        "one": np.array([7.0]),
        "lognormal": np.exp(3 * chance.normal(size=3_000)),
        "far": 1e15 + np.arange(9) / 8,
        "integers": chance.integers(0, 90, 500).astype(float),
        "tiny": chance.normal(size=50) * 1e-300,
    }[kind]
    distinct, times = np.unique(numbers, return_counts=True)
    levels = number_levels(distinct, times, count=bins)
    assert 1 <= len(levels) <= max(bins, 2)
    assert (np.diff(levels) > 0).all()
    schema = fitted(numbers.tolist(), bins=bins)
    assert np.isfinite(schema["age"].description.features).all()
    ids = schema.encode({"age": numbers.tolist()})[0][:, 0]
    nearest = np.abs(numbers[:, None] - levels).min(axis=1)
    np.testing.assert_allclose(np.abs(numbers - levels[ids - 1]), nearest, rtol=1e-9, atol=1e-12 * np.abs(levels).max())
    schema.save(tmp_path / "schema.json")
    again = Schema.load(tmp_path / "schema.json")
    assert np.array_equal(again.encode({"age": numbers.tolist()})[0][:, 0], ids)
    assert again["age"].spec == Number("age", bins=bins)


def test_dense_numbers_have_levels_of_their_own() -> None:
    """Most of a skewed column lies in a small part of its range, where half of the levels are, too."""
    numbers = np.exp(3 * np.random.default_rng(1).normal(size=5_000))
    levels = number_levels(*np.unique(numbers, return_counts=True), count=1_000)
    assert np.median(np.abs(numbers[:, None] - levels).min(axis=1) / numbers) < 0.005


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (["old", 3], "row 1: 'old' is not a finite number"),
        ([1, float("inf")], "row 2: 'inf' is not a finite number"),
        ([1, 2e30], "has the number 2e\\+30, and continuous ones may have 1e\\+30: correct it, or take the bins"),
        ([None, ""], "has no value in any of the 2 training rows"),
        ([[1], [2]], "row 1"),
    ],
)
def test_what_is_no_number_is_refused(numbers: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fitted(numbers)


def test_settings_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match="bins"):
        Number("age", bins=0)
    table = ValueTable(table={"age": [1]}, key="age")
    with pytest.raises(ConfigError, match="'age' are not listed \\(it is number\\)"):
        Schema.fit({"age": [1, 2]}, [Number("age")], values={"age": table})
    assert Number("age") != Numeric("age", bins=1_000)


def test_other_rows_keep_the_levels() -> None:
    """As further training has it."""
    schema, more = fitted([1, 2, 3]), fitted([1, 50])
    grown = schema.grown(more)
    assert np.array_equal(told(grown, [1, 3, 50]), told(schema, [1, 3, 3]))


# Runs

Words = Callable[..., list[str]]


@pytest.fixture
def words(trained_runs: TrainedRuns, tmp_path: Path) -> Words:
    """Factory: a training in which labels depend on the number alone."""
    chance = np.random.default_rng(0)
    ages = chance.uniform(0, 100, 400).round(2).tolist()
    rows = [
        {"text": f"film n{number % 61}", "stars": "good" if age > 60 else "bad", "user": f"u{number % 5}", "age": age}
        for number, age in enumerate(ages)
    ]

    def make(method: str, *more: str, rows: list[dict[str, Any]] = rows, epochs: int = 6) -> list[str]:
        table, backbone = trained_runs.table(rows), trained_runs.backbone()
        command = small_runs.train_command(table, tmp_path / "run", backbone=backbone, method=method)
        command[command.index("--epochs") + 1] = str(epochs)
        rate = "training.learning_rate=0.01"
        sets = [rate, "method.attribute_dropout=0.0"] if method == "injector" else ["--set", rate]
        return [*command, *sets, *more, "--number", "age", "--tuning", "frozen"]

    return make


@pytest.mark.slow
def test_a_run_learns_of_numbers_and_knows_those_between(words: Words, tmp_path: Path) -> None:
    assert main(words("injector", "--no-baselines", epochs=4)) == 0
    predictor = load_run(tmp_path / "run")[1]
    ages = [3.33, 41.17, 77.77, 96.001, None]
    rows = Dataset.from_dict({"text": ["film"] * 5, "user": ["u1"] * 5, "age": ages})
    found = predictor.task.decode(predictor.logits(rows)[0]).columns()["prediction"]
    assert found[:4] == ["bad", "bad", "good", "good"]
    with pytest.raises(AttribuneError, match="values of 'age' were not described in training"):
        enrol(tmp_path / "run", values={"age": {"age": ["5"], "weight": [1.0]}})
    forget = ["forget", str(tmp_path / "run"), "--attribute", "user", "--value", "u2"]
    for verb in (["describe", str(tmp_path / "run")], forget):
        assert main(verb) == 0
    again = load_run(tmp_path / "run")[1]
    np.testing.assert_allclose(again.logits(rows)[0], predictor.logits(rows)[0], atol=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("method", ["linear", "attributes-only", "intercept", "boosting"])
def test_baselines_read_numbers(words: Words, tmp_path: Path, method: str) -> None:
    assert main(words(method)) == 0
    found = RunFolder(tmp_path / "run").read_results().models[0]
    assert found.name == method
    assert found.parts["test"]["accuracy"].value > 0.85


@needs_lab
@pytest.mark.slow
@pytest.mark.parametrize("method", ["poly", "upnn"])
def test_methods_without_vectors_refuse(words: Words, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(method)) == 1
    assert "take the bins, --numeric COLUMN" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_comparison_with_shuffled_attributes_and_ids(words: Words, tmp_path: Path) -> None:
    """Controls of described values leave numbers as they are."""
    table = tmp_path / "users.csv"
    table.write_text("user,size\n" + "\n".join(f"u{number},{number}" for number in range(5)), encoding="utf-8")
    rows = [{**row, "age": number} for number, row in enumerate(small_runs.reviews(40, users=5))]
    command = words("injector", "--no-baselines", "--values", f"user={table}", rows=rows, epochs=1)
    assert main([*command, "--compare", "ids", "shuffled"]) == 0
    ids = load_run(tmp_path / "run" / "compare" / "ids")[1].schema
    assert ids["user"].description is None
    assert ids["age"].description is not None


def test_plain_kinds_beside_it_are_as_they_were() -> None:
    rows = {"user": ["a", "b"], "age": [1, 2], "year": [1999, 2001]}
    schema = Schema.fit(rows, [Categorical("user"), Number("age"), Numeric("year")])
    assert [attribute.layout.has_own_vectors for attribute in schema] == [True, False, True]
