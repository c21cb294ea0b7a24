"""Methods that are switched off in some layers: as if they were not there, and attributes as if they were missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import browser
import numpy as np
import pytest
import torch
from commands import Attribune
from trained_runs import ROWS, TrainedRuns

from attribune.analysis.ablation import METHOD, ablate
from attribune.apps.cli import main
from attribune.apps.report.ablation_page import ablation_page, ablation_table
from attribune.errors import ConfigError
from attribune.methods.base import Ablation, Method
from attribune.metrics.bootstrap import PairedResult
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run

slow = pytest.mark.slow
SITES = ["injector", "pln", "plora", "adapter", "e2ln", "injector+chim"]
ONE_ATTRIBUTE = ("plora", "adapter")
LEARNING = ("--no-baselines", "--learning-rate", "0.05")
TOLD_OF_ATTRIBUTES, TOLD_OF_NONE = "injector", "adapter"
Runs = Callable[[str], Path]


@pytest.fixture
def run_of(trained_runs: TrainedRuns) -> Runs:
    """The run of a method with sites, which has learned enough that each of its layers changes something."""

    def make(method: str) -> Path:
        attributes = () if method in ONE_ATTRIBUTE else ("--multi-label", "tags:;")
        return trained_runs(method, *attributes, *LEARNING)

    return make


def columns_of(predictor: Predictor) -> dict[str, list[Any]]:
    table = {name: [row[name] for row in ROWS] for name in predictor.columns}
    return table | ({"tags": [row["tags"].split(";") for row in ROWS]} if "tags" in table else {})


def method_of(predictor: Predictor) -> Method:
    return cast(ConditionedModel, predictor.model).method


def logits(predictor: Predictor, ablation: Ablation | None = None) -> np.ndarray[Any, Any]:
    with nullcontext() if ablation is None else method_of(predictor).ablated(ablation):
        return predictor.logits(columns_of(predictor))[0]


@pytest.mark.one_in(3)
@slow
@pytest.mark.parametrize("method", SITES)
def test_a_layer_that_is_off_is_as_the_backbone_has_it(method: str, run_of: Runs) -> None:
    """Checked against a model whose hooks of that layer are gone."""
    _, predictor = load_run(run_of(method))
    layers = method_of(predictor).site_layers()
    assert layers == tuple(range(len(layers)))
    before = logits(predictor)
    for off in ([layers[0]], [layers[-1]], layers):
        found = logits(predictor, Ablation(off))
        assert np.abs(found - before).max() > 1e-3
        _, other = load_run(run_of(method))
        method_of(other).planned = lambda ids, rows: None  # a plan does not call what is taken away here
        owners = [part for part in method_of(other).modules() if hasattr(part, "acts_at")]
        for owner in owners:
            for index, site in enumerate(owner.acts_at):
                if site.layer in off:
                    owner.sites[index].act = lambda module, inputs, output, condition: output
        np.testing.assert_allclose(found, logits(other), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(logits(predictor), before)


@slow
@pytest.mark.parametrize("method", ["injector", "pln", "plora"])
def test_an_attribute_hidden_in_all_layers_is_a_missing_one(method: str, run_of: Runs) -> None:
    """These methods read attributes in their layers alone."""
    _, predictor = load_run(run_of(method))
    layers = method_of(predictor).site_layers()
    table = columns_of(predictor)
    for attribute in predictor.schema:
        hidden = table | {attribute.name: [[] if attribute.name == "tags" else None] * len(ROWS)}
        expected = predictor.logits(hidden)[0]
        found = logits(predictor, Ablation(layers, attribute.columns))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        part = logits(predictor, Ablation(layers[:1], attribute.columns))
        assert np.abs(part - expected).max() > 1e-3
        assert np.abs(part - logits(predictor)).max() > 1e-3


@pytest.mark.exhaustive
@slow
def test_chunks_hide_it_in_every_chunk(trained_runs: TrainedRuns) -> None:
    _, predictor = load_run(trained_runs("injector", "data.window=chunks:8x4", *LEARNING))
    layers = method_of(predictor).site_layers()
    expected = predictor.logits(columns_of(predictor), hide_attributes=True)[0]
    found = logits(predictor, Ablation(layers, predictor.schema["user"].columns))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(found - logits(predictor)).max() > 1e-3


@slow
def test_the_record_has_every_span_of_the_method_and_of_each_attribute(data: Path, run_of: Runs) -> None:
    told: list[str] = []
    record = ablate(run_of("injector"), data, tell=told.append)
    count = len(record["layers"])
    spans = count * (count + 1) // 2
    assert told == [f"{1 + 3 * spans} passes over 90 rows"]
    assert [span["what"] for span in record["spans"]] == [METHOD] * spans + ["user"] * spans + ["tags"] * spans
    assert len({(span["what"], span["first"], span["last"]) for span in record["spans"]}) == 3 * spans
    assert all(span["low"] <= span["difference"] <= span["high"] for span in record["spans"])
    assert json.loads(json.dumps(record)) == record
    assert ablate(run_of("injector"), data, rows=30)["rows"] == 30


@slow
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=[] if method in (TOLD_OF_ATTRIBUTES, TOLD_OF_NONE) else pytest.mark.exhaustive)
        for method in SITES
    ],
)
def test_the_command(attribune: Attribune, method: str, data: Path, run_of: Runs, tmp_path: Path) -> None:
    output = tmp_path / "layers.html"
    code, out, _ = attribune("ablate", run_of(method), data, "--rows", "30", "--output", output)
    page = output.read_text(encoding="utf-8")
    assert "<svg" in page
    assert "The whole method" in page
    assert ("Attribute user" in page) == (method != TOLD_OF_NONE)
    assert (code, out[:4]) == (0, "off ")


@slow
@pytest.mark.exhaustive
@browser.needs_browser
def test_the_page_in_a_browser(data: Path, run_of: Runs, tmp_path: Path) -> None:
    words = ["ablate", str(run_of("injector")), str(data), "--rows", "40"]
    assert main([*words, "--output", str(tmp_path / "page.html")]) == 0
    assert browser.page_findings(tmp_path / "page.html", tmp_path) == []


def span_of(first: int, last: int, difference: float, low: float, high: float) -> dict[str, Any]:
    p_value = 0.5 if low <= 0 <= high else 0.01
    pair = PairedResult(difference=difference, low=low, high=high, p_value=p_value, resamples=100)
    return {"what": METHOD, "first": first, "last": last, **asdict(pair)}


def record_of(spans: list[dict[str, Any]], metric: str = "accuracy") -> dict[str, Any]:
    head = {"run": "runs/one", "method": "injector", "data": "t.csv", "rows": 9, "metric": metric, "notes": []}
    return {**head, "layers": [0, 1], "spans": spans}


@pytest.mark.parametrize(
    ("metric", "sign", "lost", "undecided", "lost_above"),
    [
        (
            "accuracy",
            1,
            "falls by 19.2 points [10.0, 27.5]",
            "+0.8 points [-2.5, +4.2]",
            "falls by 2.5 points [1.0, 4.0]",
        ),
        ("rmse", -1, "rises by 0.192 [0.100, 0.275]", "-0.008 [-0.042, +0.025]", "rises by 0.025 [0.010, 0.040]"),
    ],
)
def test_the_page_says_what_is_worse_without_layers(
    metric: str, sign: int, lost: str, undecided: str, lost_above: str
) -> None:
    costs = {(0, 0): (-0.008, -0.042, 0.025), (0, 1): (0.192, 0.1, 0.275), (1, 1): (0.025, 0.01, 0.04)}
    spans = [
        span_of(*ends, sign * cost, *sorted((sign * low, sign * high))) for ends, (cost, low, high) in costs.items()
    ]
    page = ablation_page(record_of(spans, metric))
    for sentence in (
        f"With the method switched off in all layers, {metric} {lost}.",
        f"In the lower half (layer 0), no difference is shown: {metric} {undecided}.",
        f"In the upper half (layer 1), {metric} {lost_above}.",
        f"The single layer that matters most is layer 1: {metric} {lost_above}.",
    ):
        assert sentence in page
    table = ablation_table(record_of(spans, metric))
    assert table[0][2] == ("accuracy lost" if sign == 1 else "rmse added")
    assert float(table[-1][2]) > 0  # what is worse costs, whichever way the metric goes


def test_no_layer_is_named_when_none_is_shown_to_matter() -> None:
    page = ablation_page(record_of([span_of(*ends, 0.01, -0.02, 0.04) for ends in ((0, 0), (0, 1), (1, 1))]))
    assert "No single layer is shown to matter." in page
    assert "matters most" not in page


@slow
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("tokens", []),
        ("linear", []),
        pytest.param("none", [], marks=pytest.mark.exhaustive),
        pytest.param("automl", ["--no-baselines"], marks=pytest.mark.exhaustive),
    ],
)
def test_methods_without_sites_are_refused(method: str, more: list[str], data: Path, trained_runs: TrainedRuns) -> None:
    with pytest.raises(ConfigError, match=rf"method '{method}' acts in no layer of a backbone"):
        ablate(trained_runs(method, *more), data)


@slow
def test_no_rows_are_refused(data: Path, trained_runs: TrainedRuns) -> None:
    with pytest.raises(ConfigError, match="rows is 0"):
        ablate(trained_runs("injector"), data, rows=0)


@slow
def test_nothing_stays_switched_off_after_an_error(trained_runs: TrainedRuns) -> None:
    _, predictor = load_run(trained_runs("injector"))
    method = method_of(predictor)
    with pytest.raises(KeyboardInterrupt), method.ablated(Ablation([0])):
        raise KeyboardInterrupt
    assert all(getattr(part, "ablation", None) is None for part in method.modules())
    assert torch.is_grad_enabled()


@slow
def test_what_was_computed_is_shown_though_the_page_cannot_be_written(
    attribune: Attribune, data: Path, run_of: Runs, tmp_path: Path
) -> None:
    (tmp_path / "page.html").mkdir()
    code, out, err = attribune("ablate", run_of("injector"), data, "--rows", "30", "--output", tmp_path / "page.html")
    assert (code, "the page cannot be written" in err) == (1, True)
    shown = [line.split("  ")[0] for line in out.splitlines()[2:]]
    assert shown == sorted(shown, key=[METHOD, "user", "tags"].index)
    assert "0 to" in out.splitlines()[2 + len(shown) // 3 - 1]
