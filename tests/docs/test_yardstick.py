"""The bare model that benchmarks are compared with, its arithmetic, and the tables that show shares of it."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from families import HIDDEN, tiny_backbone

ROOT = Path(__file__).parents[2]
B, T, CLASSES = 3, 7, 5


@pytest.fixture
def yardstick(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("yardstick")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module


@pytest.fixture
def given() -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 100, (B, T))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "attribute_ids": torch.ones(B, 1)}


def test_operations_are_those_of_all_matrix_products(yardstick: Any, given: dict[str, torch.Tensor]) -> None:
    bare = yardstick.bare_model(tiny_backbone("bert"), CLASSES)
    H, inner, layers = HIDDEN, bare.config.intermediate_size, bare.config.num_hidden_layers
    layer = T * (4 * H * H + 2 * H * inner) + 2 * T * T * H
    expected = 2 * B * (layers * layer + H * H + H * CLASSES)  # the last two: the pooler and the classifier
    assert yardstick.operations(bare, yardstick.bare_inputs(given)) == expected


@pytest.mark.parametrize("family", ["bert", "qwen3"])
def test_the_bare_model_is_the_stock_class(yardstick: Any, family: str, given: dict[str, torch.Tensor]) -> None:
    bare = yardstick.bare_model(tiny_backbone(family), CLASSES)
    assert type(bare).__module__.startswith("transformers.models.")
    assert not bare.training
    assert bare(**yardstick.bare_inputs(given)).logits.shape == (B, CLASSES)


def test_a_share_is_the_median_over_the_rounds(yardstick: Any) -> None:
    times = {"bare": [1.0, 2.0, 30.0], "ours": [2.0, 2.5, 50.0], "eager": [4.0, 8.0, 120.0]}
    found = yardstick.shares_of_bare(times, {"bare": 90, "ours": 100})
    assert found == {"of_bare": {"ours": 0.6, "eager": 0.25}, "floor_of_bare": {"ours": 0.9}}


def test_the_table_of_predictions_shows_the_shares_of_each_shape(pages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    performance = pages("pages.performance")
    shapes = [
        {"shape": shape, "of_bare": {"injector": share, "eager": 0.4}}
        for shape, share in zip(performance.SHAPES, (0.8, 0.7, 0.6, 0.5), strict=False)
    ]
    found = {"machine": {"processor": "none", "threads": 1, "torch": "2"}, "measured": shapes}
    monkeypatch.setattr(performance, "measured", {"prediction": found}.__getitem__)
    assert performance.prediction()[-2:] == [
        "| injector | 0.80 | 0.70 | 0.60 | 0.50 |",
        "| eager | 0.40 | 0.40 | 0.40 | 0.40 |",
    ]


def test_the_table_of_the_service_shows_users(pages: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = pages("pages.service")
    old = json.loads((ROOT / "benchmarks" / "results" / "serving.json").read_text(encoding="utf-8"))
    new = old | {"users": 10_000, "milliseconds": {"one text": {"p50": 1000.0, "p99": 3000.0}}, "of_predict": 0.71}
    (tmp_path / "serving.json").touch()
    (tmp_path / "serving_users.json").touch()
    monkeypatch.setattr(service, "RESULTS", tmp_path)
    monkeypatch.setattr(service, "measured", {"serving": old, "serving_users": new}.__getitem__)
    text = "\n".join(service.serving())
    assert f"| float32 | {old['of_predict']:.2f} |" in text
    assert re.search(r"\| float32, 10,000 users \| 0\.71 \| 0\.\d\d \| 1\.0 / 3\.0 \|", text)


@pytest.mark.slow
def test_the_steps_that_benchmarks_measure_are_made(yardstick: Any) -> None:
    models = importlib.import_module("models")
    training = models.Training(models.Point(rows=2, tokens=4, attributes=1, values=8), rows_alone=True)
    assert training.step() > 0
