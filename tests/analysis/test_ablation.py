"""Methods that are switched off in some layers: as if they were not there, and attributes as if they were missing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import browser
import numpy as np
import pytest
import small_runs
import torch

from attribune.analysis.ablation import METHOD, ablate
from attribune.apps.cli import main
from attribune.apps.report.ablation_page import ablation_page, ablation_table
from attribune.errors import ConfigError
from attribune.methods.base import Ablation
from attribune.metrics.bootstrap import PairedResult
from attribune.models.base import ConditionedModel
from attribune.models.predictor import Predictor
from attribune.runs.loading import load_run

pytestmark = pytest.mark.slow

ROWS = small_runs.reviews(90, seed=3)
SITES = ["injector", "pln", "plora", "adapter", "e2ln", "injector+chim"]
ONE_ATTRIBUTE = ("plora", "adapter")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.write_csv(tmp_path_factory.mktemp("data") / "data.csv", ROWS)


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    backbone = small_runs.save_backbone(folder / "backbone")
    for method in (*SITES, "none", "tokens"):
        words = small_runs.train_command(data, folder / method, backbone=backbone, method=method)
        if method not in ONE_ATTRIBUTE:
            words[words.index("user") + 1 : words.index("user") + 1] = ["--multi-label", "tags:;"]
        assert main([*words, "--epochs", "3", "--learning-rate", "0.05"]) == 0
    for method in ("linear", "automl"):
        assert main(small_runs.train_command(data, folder / method, backbone=backbone, method=method)) == 0
    return folder


def columns_of(predictor: Predictor) -> dict[str, list[Any]]:
    table = {name: [row[name] for row in ROWS] for name in predictor.columns}
    return table | ({"tags": [row["tags"].split(";") for row in ROWS]} if "tags" in table else {})


def logits(predictor: Predictor, ablation: Ablation | None = None) -> np.ndarray[Any, Any]:
    model = cast(ConditionedModel, predictor.model)
    if ablation is None:
        return predictor.logits(columns_of(predictor))[0]
    with model.method.ablated(ablation):
        return predictor.logits(columns_of(predictor))[0]


@pytest.mark.parametrize("method", SITES)
def test_a_layer_that_is_off_is_as_the_backbone_has_it(method: str, runs: Path) -> None:
    """Checked against a model whose hooks of that layer are gone."""
    _, predictor = load_run(runs / method)
    model = cast(ConditionedModel, predictor.model)
    layers = model.method.site_layers()
    assert layers == tuple(range(len(layers)))
    before = logits(predictor)
    for off in ([layers[0]], [layers[-1]], layers):
        found = logits(predictor, Ablation(off))
        assert np.abs(found - before).max() > 1e-6
        _, other = load_run(runs / method)
        owners = [part for part in cast(ConditionedModel, other.model).method.modules() if hasattr(part, "acts_at")]
        for owner in owners:
            for index, site in enumerate(owner.acts_at):
                if site.layer in off:
                    owner.sites[index].act = lambda module, inputs, output, condition: output
        np.testing.assert_allclose(found, logits(other), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(logits(predictor), before)


@pytest.mark.parametrize("method", ["injector", "pln", "plora"])
def test_an_attribute_hidden_in_all_layers_is_a_missing_one(method: str, runs: Path) -> None:
    """These methods read attributes in their layers alone."""
    _, predictor = load_run(runs / method)
    layers = cast(ConditionedModel, predictor.model).method.site_layers()
    table = columns_of(predictor)
    for attribute in predictor.schema:
        hidden = table | {attribute.name: [[] if attribute.name == "tags" else None] * len(ROWS)}
        expected = predictor.logits(hidden)[0]
        found = logits(predictor, Ablation(layers, attribute.columns))
        np.testing.assert_allclose(found, expected, atol=1e-6)
        part = logits(predictor, Ablation(layers[:1], attribute.columns))
        assert np.abs(part - expected).max() > 1e-7
        assert np.abs(part - logits(predictor)).max() > 1e-7


def test_chunks_hide_it_in_every_chunk(data: Path, runs: Path, tmp_path: Path) -> None:
    words = small_runs.train_command(data, tmp_path / "run", backbone=runs / "backbone")
    assert main([*words, "data.window=chunks:8x4"]) == 0
    _, predictor = load_run(tmp_path / "run")
    layers = cast(ConditionedModel, predictor.model).method.site_layers()
    expected = predictor.logits(columns_of(predictor), hide_attributes=True)[0]
    found = logits(predictor, Ablation(layers, predictor.schema["user"].columns))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_record_has_every_span_of_the_method_and_of_each_attribute(data: Path, runs: Path) -> None:
    told: list[str] = []
    record = ablate(runs / "injector", data, tell=told.append)
    count = len(record["layers"])
    spans = count * (count + 1) // 2
    assert told == [f"{1 + 3 * spans} passes over 90 rows"]
    assert [span["what"] for span in record["spans"]] == [METHOD] * spans + ["user"] * spans + ["tags"] * spans
    assert len({(span["what"], span["first"], span["last"]) for span in record["spans"]}) == 3 * spans
    assert all(span["low"] <= span["difference"] <= span["high"] for span in record["spans"])
    assert json.loads(json.dumps(record)) == record
    assert ablate(runs / "injector", data, rows=30)["rows"] == 30


@pytest.mark.parametrize("method", SITES)
def test_the_command(method: str, data: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "layers.html"
    assert main(["ablate", str(runs / method), str(data), "--rows", "40", "--output", str(output)]) == 0
    page = output.read_text(encoding="utf-8")
    assert "<svg" in page
    assert "The whole method" in page
    assert ("Attribute user" in page) == (method != "adapter")
    assert capsys.readouterr().out.startswith("off ")


@browser.needs_browser
def test_the_page_in_a_browser(data: Path, runs: Path, tmp_path: Path) -> None:
    words = ["ablate", str(runs / "injector"), str(data), "--rows", "40"]
    assert main([*words, "--output", str(tmp_path / "page.html")]) == 0
    assert browser.page_findings(tmp_path / "page.html", tmp_path) == []


def span_of(first: int, last: int, difference: float, low: float, high: float) -> dict[str, Any]:
    p_value = 0.5 if low <= 0 <= high else 0.01
    pair = PairedResult(difference=difference, low=low, high=high, p_value=p_value, resamples=100)
    return {"what": METHOD, "first": first, "last": last, **asdict(pair)}


@pytest.mark.parametrize(
    ("metric", "sign", "expected"),
    [
        (
            "accuracy",
            1,
            (
                "With the method switched off in all layers, accuracy falls by 19.2 points [10.0, 27.5].",
                "In the lower half (layer 0), no difference is shown: accuracy +0.8 points [-2.5, +4.2].",
                "In the upper half (layer 1), accuracy falls by 2.5 points [1.0, 4.0].",
                "The single layer that matters most is layer 1: accuracy falls by 2.5 points [1.0, 4.0].",
            ),
        ),
        (
            "rmse",
            -1,
            (
                "With the method switched off in all layers, rmse rises by 0.192 [0.100, 0.275].",
                "In the lower half (layer 0), no difference is shown: rmse -0.008 [-0.042, +0.025].",
                "In the upper half (layer 1), rmse rises by 0.025 [0.010, 0.040].",
                "The single layer that matters most is layer 1: rmse rises by 0.025 [0.010, 0.040].",
            ),
        ),
    ],
)
def test_the_page_says_what_is_worse_without_layers(metric: str, sign: int, expected: tuple[str, ...]) -> None:
    costs = {(0, 0): (-0.008, -0.042, 0.025), (0, 1): (0.192, 0.1, 0.275), (1, 1): (0.025, 0.01, 0.04)}
    spans = [
        span_of(*ends, sign * cost, *sorted((sign * low, sign * high))) for ends, (cost, low, high) in costs.items()
    ]
    record = {"run": "runs/one", "method": "injector", "data": "t.csv", "rows": 9, "metric": metric, "notes": []}
    page = ablation_page({**record, "layers": [0, 1], "spans": spans})
    assert [sentence for sentence in expected if sentence not in page] == []
    table = ablation_table({**record, "layers": [0, 1], "spans": spans})
    assert table[0][2] == ("accuracy lost" if sign == 1 else "rmse added")
    assert float(table[-1][2]) > 0  # what is worse costs, whichever way the metric goes


def test_no_layer_is_named_when_none_is_shown_to_matter() -> None:
    spans = [span_of(*ends, 0.01, -0.02, 0.04) for ends in ((0, 0), (0, 1), (1, 1))]
    record = {"run": "runs/one", "method": "injector", "data": "t.csv", "rows": 9, "metric": "accuracy", "notes": []}
    page = ablation_page({**record, "layers": [0, 1], "spans": spans})
    assert "No single layer is shown to matter." in page
    assert "matters most" not in page


@pytest.mark.parametrize("method", ["none", "tokens", "linear", "automl"])
def test_methods_without_sites_are_refused(method: str, data: Path, runs: Path) -> None:
    with pytest.raises(ConfigError, match=rf"method '{method}' acts in no layer of a backbone"):
        ablate(runs / method, data)
    with pytest.raises(ConfigError, match="rows is 0"):
        ablate(runs / "injector", data, rows=0)


def test_nothing_stays_switched_off_after_an_error(runs: Path) -> None:
    _, predictor = load_run(runs / "injector")
    method = cast(ConditionedModel, predictor.model).method
    with pytest.raises(KeyboardInterrupt), method.ablated(Ablation([0])):
        raise KeyboardInterrupt
    assert all(getattr(part, "ablation", None) is None for part in method.modules())
    assert torch.is_grad_enabled()


def test_what_was_computed_is_shown_though_the_page_cannot_be_written(
    data: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ablate", str(runs / "injector"), str(data), "--output", str(tmp_path / "no" / "page.html")]) == 1
    out, err = capsys.readouterr()
    assert "the page cannot be written" in err
    shown = [line.split("  ")[0] for line in out.splitlines()[2:]]
    assert shown == sorted(shown, key=[METHOD, "user", "tags"].index)
    assert "0 to" in out.splitlines()[2 + len(shown) // 3 - 1]
