"""Models whose backbones compute in int8: close to float32, with every attribute, and for prediction alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from families import FAMILIES, KIN, WORD_FAMILIES, tiny_backbone
from processors import needs_int8
from tiny_models import at_random, make_batch, make_model, make_schema
from trained_runs import TrainedRuns
from transformers import AutoTokenizer

from attribune.backbones.families import placement_for
from attribune.backbones.int8 import Int8Linear, check_int8
from attribune.data.texts import TextInput
from attribune.data.windows import Head
from attribune.errors import ConfigError
from attribune.methods import Adapter, Combined, Injector, MethodConfig, Plain, Pln, Plora, Upa
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor, quantised
from attribune.models.predictor_group import PredictorGroup
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

pytestmark = needs_int8

ROWS = small_runs.reviews(40)
TABLE: dict[str, list[Any]] = {name: [row[name] for row in ROWS] for name in ("text", "user", "tags")}
INJECTOR = Injector(bottleneck=5, vector_size=13)
RUNS: dict[str, tuple[MethodConfig, str]] = {
    "injector": (INJECTOR, "frozen"),
    "adapter": (Adapter(bottleneck=5), "frozen"),
    "lora": (Combined(parts=(Pln(vector_size=7), Upa(vector_size=7, attention_size=5))), "lora:o:3"),
    "top": (Plain(), "top_1"),
}


@pytest.fixture(scope="module")
def folder(trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved models over one backbone, all of whose learned parameters are far from zero."""
    folder = tmp_path_factory.mktemp("models")
    backbone = trained_runs.backbone()
    schema = Schema.fit(TABLE, [Categorical("user"), MultiLabel("tags", separator=";")])
    options = {"task": Classification(classes=3), "text_input": TextInput.of("text", window=Head(20))}
    options["tokenizer"] = AutoTokenizer.from_pretrained(backbone)
    for name, (method, tuning) in RUNS.items():
        model = AttributeModel.build(str(backbone), schema, method=method, tuning=tuning, **options)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(folder / name)
    return folder


def probabilities(predictor: Predictor, table: Any = TABLE) -> np.ndarray:
    columns = predictor.predict(table)
    return np.stack([columns[name] for name in columns if name.startswith("probability")], axis=1)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in KIN])
def test_every_family(family: str) -> None:
    """Each row has its own values, and its own result whatever else is in the batch."""
    placement = placement_for(family)
    method = INJECTOR if INJECTOR.refusal(placement) is None else Upa(vector_size=7, attention_size=5)
    model = make_model(family, method)
    at_random(model.method, size=0.3)
    batch = make_batch(2)
    with torch.inference_mode():
        expected = model(**batch).logits.softmax(dim=1)
        rounded = quantised(model, "int8")
        found = rounded(**batch).logits.softmax(dim=1)
        alone = torch.cat([rounded(**make_batch(2, rows=[row])).logits for row in range(4)]).softmax(dim=1)
        torch.testing.assert_close(model(**batch).logits.softmax(dim=1), expected, rtol=0, atol=0)
    assert 0 < float((found - expected).abs().max()) < 0.02
    assert float((found - alone).abs().max()) < 0.01
    assert float((found - found.roll(1, dims=0)).abs().max()) > 0.02, "rows differ by more than they are rounded"


@pytest.mark.parametrize("name", RUNS)
def test_predictions_stay_what_they_were(folder: Path, name: str) -> None:
    exact, rounded = (Predictor.from_pretrained(folder / name, device="cpu", quantise=q) for q in (None, "int8"))
    difference = np.abs(probabilities(rounded) - probabilities(exact))
    assert 0 < difference.max() < 0.02
    if exact.reads_attributes:
        hidden = exact.task.decode(exact.logits(TABLE, hide_attributes=True)[0]).columns()
        own = np.stack([hidden[key] for key in hidden if key.startswith("probability")], axis=1)
        assert np.abs(probabilities(exact) - own).max() > 5 * difference.max(), "the attributes matter"
    assert rounded.model.describe(precision=rounded.precision)["precision"] == "int8"
    assert exact.model.describe(precision=exact.precision)["precision"] == "float32"
    kinds = {type(module) for module in rounded.model.method.modules()}
    assert Int8Linear not in kinds, "what a method has learned stays in float32"
    half = Predictor.from_pretrained(folder / name, device="cpu", precision="bf16", quantise="int8")
    assert np.abs(probabilities(half) - probabilities(exact)).max() < 0.05
    np.testing.assert_allclose(probabilities(rounded.twin()), probabilities(rounded), atol=1e-6)


def test_models_together(folder: Path) -> None:
    """Over one backbone, whose rounded weights they share."""
    runs = {name: folder / name for name in RUNS}
    group = PredictorGroup.from_pretrained(runs, device="cpu", quantise="int8")
    assert set(group.together_with("injector")) == set(RUNS)
    found = group.score({name: group[name].encode_rows(TABLE) for name in RUNS})
    for name in RUNS:
        expected = Predictor.from_pretrained(runs[name], device="cpu", quantise="int8").logits(TABLE)[0]
        np.testing.assert_allclose(found[name], expected, atol=0.02, err_msg=name)
    layers = [group[name].model.backbone.encoder.layer[0].output.dense for name in ("injector", "adapter")]
    assert len({layer.weight.data_ptr() for layer in layers}) == len({layer.scales.data_ptr() for layer in layers}) == 1


def test_it_is_for_prediction_on_cpus_alone(folder: Path, tmp_path: Path) -> None:
    predictor = Predictor.from_pretrained(folder / "injector", device="cpu", quantise="int8")
    options = {"task": Classification(classes=3), "method": Plora(rank=2)}
    half = AttributeModel.build(tiny_backbone("bert").bfloat16(), make_schema(2), **options)
    for call, message in (
        (lambda: predictor.model.save_pretrained(tmp_path / "saved"), "int8: save the model from which this was made"),
        (lambda: quantised(predictor.model, "int8"), "in int8 already"),
        (lambda: predictor.model.train(), "rounded to int8 and cannot be trained"),
        (lambda: predictor.use("meta"), "the device is meta"),
        (lambda: Predictor.from_pretrained(folder / "injector", quantise="int-8"), r"'int-8'; did you mean 'int8'\?"),
        (lambda: Predictor.from_pretrained(folder / "injector", quantise=4), "quantise is 4, of the type int"),
        (lambda: quantised(half, "int8"), "these are in bfloat16: load float32"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("family", WORD_FAMILIES)
def test_backbones_that_are_no_transformers(family: str) -> None:
    with pytest.raises(ConfigError, match="is for Transformers"):
        quantised(make_model(family, Plain()), "int8")


def test_processors_without_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": "x86_64", "avx2": True})
    with pytest.raises(ConfigError, match="needs a processor with VNNI"):
        check_int8(torch.device("cpu"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": "aarch64"})
    check_int8(torch.device("cpu"))
