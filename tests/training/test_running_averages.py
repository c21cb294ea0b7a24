"""What a batch normalization counts in training: stored, continued after an interruption, taken over, kept whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_runs
import torch
from resumed import assert_resumes_exactly
from tiny_models import at_random, make_batch, make_model
from trained_runs import TrainedRuns

from attribune.errors import ConfigError
from attribune.export.export import merge_model, merged_model
from attribune.methods import Adapter, Chim, Combined
from attribune.models.auto import load_model
from attribune.models.model import AttributeModel
from attribune.models.transfer import AttributeSource

ADAPTER = Adapter(bottleneck=5, inner_norm="batch")
ROWS = small_runs.reviews(96, seed=1)


def averages(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer for name, buffer in model.named_buffers() if "running" in name}


def moved_model() -> AttributeModel:
    """A model whose running averages have been moved by two batches."""
    model = make_model("bert", ADAPTER)
    at_random(model.method, size=0.3)
    model.train()
    for size in (2, 3):
        model(**make_batch(size))
    return model.eval()


def test_a_saved_model_has_them(tmp_path: Path) -> None:
    model, batch = moved_model(), make_batch(2)
    assert set(averages(model)) <= set(model.learned_names())
    model.backbone.save_pretrained(tmp_path / "backbone")
    model.save_pretrained(tmp_path / "model")
    loaded = AttributeModel.from_pretrained(tmp_path / "model", backbone=tmp_path / "backbone")
    for name, average in averages(model).items():
        assert torch.equal(average, loaded.get_buffer(name))
        assert average.unique().numel() > 1
    torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits)


def test_the_next_training_begins_with_them(tmp_path: Path) -> None:
    model, other = moved_model(), make_model("bert", ADAPTER)
    model.save_pretrained(tmp_path / "model")
    AttributeSource.load(tmp_path / "model").load_into(other, frozen=False, full_model=True)
    assert averages(other).keys() == averages(model).keys()
    for name, average in averages(model).items():
        assert torch.equal(average, other.get_buffer(name))


@pytest.mark.parametrize("method", [ADAPTER, Combined(parts=(ADAPTER, Chim(vector_size=7)))], ids=str)
def test_a_model_with_fixed_values_has_them(method: Adapter | Combined) -> None:
    model, batch = make_model("bert", method), make_batch(2)
    at_random(model.method, size=0.3)
    for average in averages(model).values():
        average.uniform_(0.5, 2)
    ids = batch["attribute_ids"][0]
    batch["attribute_ids"] = ids.expand(len(batch["input_ids"]), -1)
    merged = merged_model(model, merge_model(model, ids))
    expected = model(**batch).logits
    del batch["attribute_ids"]
    torch.testing.assert_close(merged(**batch).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_interrupted_training_ends_with_the_same(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    data = small_runs.write_csv(tmp_path / "rows.csv", ROWS)

    def command(run: Path) -> list[str]:
        words = small_runs.train_command(data, run, backbone=trained_runs.backbone(), method="adapter", epochs=2)
        given = ["method.bottleneck=5", "method.inner_norm=batch", "training.evaluate_every=3"]
        return [*words, "--no-baselines", "--set", *given]

    assert_resumes_exactly(command, tmp_path)
    assert averages(load_model(tmp_path / "whole"))


def test_batches_are_not_shared_among_processes() -> None:
    assert ADAPTER.is_trained_alone
    assert Combined(parts=(Chim(), ADAPTER)).is_trained_alone
    assert not Adapter(inner_norm=True).is_trained_alone


def test_another_norm_is_refused() -> None:
    with pytest.raises(ConfigError, match="inner_norm is 'layer': give true, false or batch"):
        Adapter(inner_norm="layer")
