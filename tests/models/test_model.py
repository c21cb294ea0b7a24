"""What an AttributeModel refuses, and what comes back from a pickle in another process."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from families import tiny_backbone
from tiny_models import make_batch, make_model, make_schema
from trained_runs import TrainedRuns

from attribune.backbones.loading import load_tokenizer
from attribune.data.texts import TextInput
from attribune.data.windows import Head
from attribune.errors import ConfigError, DataError
from attribune.methods import Chim, E2ln, Injector, MethodConfig, Tokens, Upa
from attribune.models.auto import load_model
from attribune.models.model import AttributeModel
from attribune.tasks import Classification

TASK = Classification(classes=3)
UNPICKLE = """
import sys, torch
import attribune.models.model
for model, batch, expected in torch.load(sys.argv[1], weights_only=False):
    torch.testing.assert_close(model(**batch).logits, expected, rtol=0, atol=1e-6)
"""


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    """Two models, each with a batch and its logits."""
    batch, made = make_batch(2), []
    for method in (E2ln(vector_size=5), Injector(bottleneck=4)):
        model = make_model("bert", method)
        made.append((model, batch, model(**batch).logits))
    torch.save(made, tmp_path / "models.pt")
    return tmp_path / "models.pt"


def test_pickled_models_work(pickled: Path) -> None:
    for model, batch, expected in torch.load(pickled, weights_only=False):
        torch.testing.assert_close(model(**batch).logits, expected, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_pickled_models_work_in_another_process(pickled: Path) -> None:
    subprocess.run([sys.executable, "-c", UNPICKLE, str(pickled)], check=True, timeout=600)


def test_a_backbone_in_which_a_method_acts_is_not_shared() -> None:
    backbone = tiny_backbone("bert")
    spare = copy.deepcopy(backbone)
    AttributeModel.build(backbone, make_schema(2), task=TASK, method=Injector(bottleneck=4))
    for method in (Injector(bottleneck=4), Upa()):
        with pytest.raises(ConfigError, match="this backbone belongs to another AttributeModel"):
            AttributeModel.build(backbone, make_schema(2), task=TASK, method=method)
    AttributeModel.build(spare, make_schema(2), task=TASK, method=Upa())
    AttributeModel.build(spare, make_schema(2), task=TASK, method=Chim())


@pytest.mark.parametrize("method", [Upa(), Tokens()], ids=lambda method: method.name)
def test_a_text_longer_than_the_backbone_takes(method: MethodConfig) -> None:
    model = make_model("bert", method)
    attributes = make_batch(2)["attribute_ids"][:1]
    limit = 67 - (attributes.shape[1] if method.name == "tokens" else 0)
    model(input_ids=torch.full((1, limit), 7), attribute_ids=attributes)
    ids = torch.full((1, limit + 1), 7)
    with pytest.raises(DataError, match=f"a text of {limit + 1} ids is longer than the {limit} that"):
        model(input_ids=ids, attribute_ids=attributes)
    chunked = make_model("bert", method, chunk=20)
    assert chunked(input_ids=ids, attribute_ids=attributes).logits.isfinite().all()
    with pytest.raises(DataError, match="chunks of 68 ids are longer than"):
        make_model("bert", method, chunk=68)(input_ids=torch.full((1, 70), 7), attribute_ids=attributes)


def test_the_output_as_a_tuple() -> None:
    model, batch = make_model("bert", Injector(bottleneck=4)), {**make_batch(2), "labels": torch.tensor([0, 1, 2, 0])}
    loss, logits = model(**batch, return_dict=False)
    expected = model(**batch)
    assert torch.equal(loss, expected.loss)
    assert torch.equal(logits, expected.logits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "tuning", "injected"),
    [
        (Injector(bottleneck=4, vector_size=5), "frozen", "all"),
        (Injector(bottleneck=4, vector_size=5), "lora:q:2", "all"),
        (Upa(), "full", "encoder"),
        (Chim(), "layernorm", "norms"),
    ],
)
def test_sizes_as_the_papers_count_them(method: MethodConfig, tuning: str, injected: str) -> None:
    """TP is what learns in the layers and the method, without tables, head and embeddings, over the layers."""
    model = make_model("bert", method, tuning=tuning)
    sizes = model.sizes()
    layers = [p for name, p in tiny_backbone("bert").named_parameters() if name.startswith("encoder.")]
    assert sizes.encoder == sum(p.numel() for p in layers)
    tables = sum(table.numel() for table in model.method.tables)
    learned = sum(p.numel() for p in model.method.parameters()) - tables
    lora = sum(p.numel() for name, p in model.named_parameters() if "lora_" in name)
    norms = sum(p.numel() for name, p in model.backbone.encoder.named_parameters() if "LayerNorm" in name)
    assert sizes.injected == learned + {"all": lora, "encoder": sizes.encoder, "norms": norms}[injected]


def test_a_loaded_model_has_the_attention_and_the_length_of_the_saved_one(
    trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    """Sparse attention is read as it was in training."""
    backbone = str(trained_runs.backbone("big_bird"))
    options = {"task": TASK, "method": Tokens(), "tokenizer": load_tokenizer(backbone)}
    for size, kind in ((8, "original_full"), (40, "block_sparse")):
        text = TextInput.of("text", window=Head(size))
        model = AttributeModel.build(backbone, make_schema(1), text_input=text, **options).eval()
        model.save_pretrained(str(tmp_path / f"model-{size}"))
        loaded = load_model(tmp_path / f"model-{size}")
        assert (model.backbone.attention_type, loaded.backbone.attention_type) == (kind, kind)
        assert loaded.padded_length == model.padded_length
        batch = {"input_ids": torch.randint(5, 60, (2, size)), "attribute_ids": torch.tensor([[1, 2, 0], [3, 0, 0]])}
        torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits, rtol=0, atol=1e-6)
