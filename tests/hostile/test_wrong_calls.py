"""Wrong arguments of every public function: one error of ours that names what is wrong, and none from the inside."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from trained_runs import ROWS, TrainedRuns

import attribune
from attribune import AttribuneError, Predictor
from attribune.data.file_options import Reading
from attribune.errors import ConfigError
from attribune.training import train as training

pytestmark = pytest.mark.slow

WRONG: dict[str, Any] = {
    "none": None,
    "a negative number": -1,
    "a fraction": 2.5,
    "nan": float("nan"),
    "an empty text": "",
    "bytes": b"x",
    "an empty list": [],
    "a list of nothing": [None],
    "a list of numbers": [1, 2],
    "an empty dict": {},
    "a dict": {"nonsense": 1},
    "an object": object(),
    "a set": {"a"},
    "an array": np.array([1.5, 2]),
    "a frame": pd.DataFrame({"a": [1]}),
    "a path": Path("/nowhere/x"),
    "a function": len,
    "a class": int,
    "a tuple": (1, "a"),
    "nul": "a\0b",
    "lists of lists": [["a"], ["b", None]],
}
OTHERS = ("self", "cls", "options", "args", "kwargs", "reporter", "tell", "shared")  # not of a user's call
SOME = 2  # wrong values that each parameter is given in every suite
SEEDS = ("random_state",)  # which scikit-learn checks, and names


class _ReachedError(AttribuneError):
    pass


@pytest.fixture(scope="module")
def folder(trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, the table that it learned and its backbone."""
    folder = tmp_path_factory.mktemp("called")
    (folder / "backbone").symlink_to(trained_runs.backbone())
    (folder / "data.csv").symlink_to(trained_runs.table(ROWS))
    trained_runs.copy(trained_runs("injector"), folder / "run")
    return folder


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    return Predictor.from_pretrained(folder / "run")


def generate(**arguments: Any) -> list[dict[str, Any]]:
    """Write the texts, which `attribune.generate` does when they are asked for."""
    return list(attribune.generate(**arguments))


def classify(**arguments: Any) -> Any:
    frame = arguments.pop("frame")
    return attribune.AttributeClassifier(**arguments).fit(frame, frame["stars"])


Call = tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]


def calls(folder: Path, output: Path, predictor: Predictor) -> dict[str, Call]:
    """Each function, the one whose parameters it has, and arguments that are right."""
    run, data, frame = folder / "run", folder / "data.csv", pd.read_csv(folder / "data.csv", dtype=str)
    table, backbone, schema = attribune.read_table(data), str(folder / "backbone"), predictor.schema
    own: dict[Callable[..., Any], dict[str, Any]] = {
        attribune.read_table: {"source": data},
        attribune.split_table: {"table": table, "text": ["text"]},
        attribune.train: {
            "data": frame,
            "output": output,
            "text": "text",
            "label": "stars",
            "attributes": ["user"],
            "backbone": backbone,
            "baselines": False,
        },
        attribune.evaluate: {"run": run, "data": frame},
        attribune.compare_runs: {"first": run, "second": run},
        attribune.explain: {"run": run, "data": frame, "row": 1},
        attribune.next_texts: {"run": run, "data": frame, "attribute": "user", "value": "u1"},
        attribune.predict: {"run": run, "data": frame, "output": output.with_suffix(".csv")},
        attribune.export: {"run": run, "output": output, "assignments": {"user": ["u1"]}},
        attribune.load_run: {"path": run},
        attribune.load_model: {"name": run},
        attribune.ablate: {"run": run, "data": frame.head(12)},
        attribune.encode_with_report: {
            "table": table,
            "schema": schema,
            "tokenizer": predictor.model.tokenizer,
            "text": "text",
        },
        attribune.Predictor.from_pretrained: {"name": run},
        attribune.AttributeModel.build: {"backbone": backbone, "schema": schema, "task": predictor.task},
        attribune.Schema.fit: {"table": {"user": ["a", "b"]}, "attributes": ["user"]},
        attribune.TextInput.of: {"columns": "text"},
        attribune.Categorical: {"name": "user"},
        attribune.MultiLabel: {"name": "user"},
        attribune.Numeric: {"name": "user"},
        attribune.Number: {"name": "user"},
        attribune.Injector: {},
        attribune.Decoding: {},
    }
    found: dict[str, Call] = {function.__qualname__: (function, function, given) for function, given in own.items()}
    classifier = {"text": "text", "attributes": ["user"], "backbone": backbone, "verbose": False, "frame": frame}
    return found | {
        "generate": (generate, attribune.generate, {"run": run, "prompt": "x"}),
        "classifier": (classify, attribune.AttributeClassifier, classifier),
        "predictor": (
            lambda rows, **values: predictor.predict(rows, **values),
            lambda rows, user, nonsense: None,
            {"rows": ["a fine film"], "user": "u1"},
        ),
    }


NAMES = [
    *("read_table", "split_table", "train", "evaluate", "compare_runs", "explain", "next_texts", "predict", "export"),
    *("load_run", "load_model", "ablate", "encode_with_report", "Predictor.from_pretrained", "Schema.fit"),
    "AttributeModel.build",
    *("TextInput.of", "Categorical", "MultiLabel", "Numeric", "Number", "Injector", "Decoding"),
    *("generate", "classifier", "predictor"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("are_next", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["some", "others"])
@pytest.mark.parametrize("name", NAMES)
def test_every_wrong_argument_is_refused_or_taken(
    name: str, are_next: bool, folder: Path, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each parameter is given some of the wrong values, the next one those that follow; or it is given the others."""

    def reached(*_: Any, **__: Any) -> Any:
        raise _ReachedError("the training begins")

    monkeypatch.setattr(training._Training, "scored", reached)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = calls(folder, tmp_path / "out", predictor)
    assert set(found) == set(NAMES)
    function, documented, given = found[name]
    tried, refused, raw = 0, 0, []
    parameters = [name for name in inspect.signature(documented).parameters if name not in (*OTHERS, *SEEDS)]
    if "reading" in parameters:
        parameters = [name for name in parameters if name != "reading"] + list(Reading.__annotations__)
    for number, parameter in enumerate(parameters):
        for place, (kind, value) in enumerate(WRONG.items()):
            if ((place - number * SOME) % len(WRONG) < SOME) is not are_next:
                continue
            tried += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(**(given | {parameter: value}))
            except _ReachedError:
                pass
            except AttribuneError:
                refused += 1
            except Exception as error:  # whatever it is
                raw.append(f"{parameter} is {kind}: {type(error).__name__}: {error}")
    assert not raw, "\n".join(raw)
    assert tried == len(parameters) * (SOME if are_next else len(WRONG) - SOME)
    assert refused >= (1 if are_next else min(tried, len(WRONG)) // 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attribune.load_run(None), r"load_run: path is None, of the type NoneType: give a text or Path"),
        (lambda: attribune.predict("run", "x.csv", "y.csv", part_rows="many"), "predict: part_rows is 'many'"),
        (lambda: attribune.Schema.fit({"user": ["a"]}, [3]), "an attribute is 3: give the name of a column, or a kind"),
    ],
)
def test_the_message_has_the_argument_and_the_cure(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()
