"""The results of a run: typed, in the format of the files of version 0.1."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from attribune.errors import ModelFolderError
from attribune.runs.folder import RunFolder
from attribune.runs.results import RunResults

ACCURACY = {"accuracy": {"value": 0.5, "low": 0.25, "high": 0.75, "level": 0.95, "resamples": 10}}
NAMES = {
    "injector, attributes shuffled": "shuffled",
    "injector, attributes shuffled, attributes hidden": "shuffled_hidden",
    "injector": "given",
    "injector, attributes hidden": "hidden",
    "majority": "given",
}
SIZES = {"total": 9, "trained": 8, "stored": 7, "stored_bytes": 28, "outputs": 2, "encoder": 0, "injected": 0}
PAIR = {"difference": 0.5, "low": 0.1, "high": 0.9, "p_value": 0.01, "level": 0.95, "resamples": 10}
RECORD: dict[str, Any] = {
    "method": "injector",
    "task": {"kind": "classification", "class_weights": None},
    "main_metric": "accuracy",
    "rows": {"train": 9, "test": 4},
    "results": [{"name": name, "parts": {"test": ACCURACY}} for name in NAMES],
    "comparisons": [{"a": "x", "b": "y", "part": "test", "metric": "accuracy", **PAIR}],
    "training": {"C": 3.0, "seconds": 0.5, "parameters": SIZES},
    "notes": ["a note"],
    "environment": {
        "versions": {"torch": "2"},
        "python": "3.11",
        "machine": "x86_64",
        "device": "cpu",
        "threads": 1,
        "precision": "float32",
    },
}


def test_results_of_version_0_1_load_and_are_written_with_the_condition_alone_added() -> None:
    results = RunResults.from_dict(RECORD, source="metrics.json")
    assert [model.condition for model in results.models] == list(NAMES.values())
    assert [model.attributes_hidden for model in results.models] == [False, True, False, True, False]
    assert results.models[0].parts["test"]["accuracy"].low == 0.25
    assert results.comparisons[0].difference == 0.5
    assert results.training.parameters.trained == 8
    written = results.to_dict()
    assert json.loads(json.dumps(written)) == written
    for result, condition in zip(written["results"], NAMES.values(), strict=True):
        assert result.pop("condition") == condition
    for pair in written["comparisons"]:
        assert (pair.pop("differing"), pair.pop("smallest")) == (None, None), "what early files do not tell"
    assert written == RECORD
    assert list(written) == list(RECORD)


def test_a_written_condition_is_taken_before_the_name_and_what_is_unknown_is_kept() -> None:
    record = copy.deepcopy(RECORD) | {"later": 1}
    record["results"][0] |= {"condition": "hidden"}
    results = RunResults.from_dict(record, source="metrics.json")
    assert results.models[0].condition == "hidden"
    assert results.to_dict()["later"] == 1


def test_rows_of_a_table_are_those_of_its_part() -> None:
    results = RunResults.from_dict(RECORD, source="metrics.json")
    assert [row.name for row in results.table("test")] == list(NAMES)
    assert results.table("validation") == []


def test_results_are_printed_as_tables() -> None:
    results = RunResults.from_dict(RECORD, source="metrics.json")
    assert str(results) == repr(results) == str(results.to_dict())
    assert "accuracy" in str(results)


@pytest.mark.parametrize(
    ("key", "value"), [("results", []), ("training", {"seconds": 1}), ("rows", 3), ("comparisons", [{"a": "x"}])]
)
def test_damaged_results_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    folder = RunFolder(tmp_path)
    folder.summary_file.write_text(json.dumps(RECORD | {key: value}))
    with pytest.raises(ModelFolderError, match=r"metrics\.json does not hold the results of a run"):
        folder.read_results()
