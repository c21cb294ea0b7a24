"""How far training moved the backbone."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_runs
from trained_runs import TrainedRuns
from transformers import AutoModel

from attribune import AttributeModel
from attribune.analysis.weight_change import term_changes
from attribune.apps.cli import main
from attribune.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture
def trained(trained_runs: TrainedRuns) -> Path:
    return trained_runs("injector", "--tuning", "lora:q,v+layernorm", "--no-baselines")


@pytest.fixture
def frozen(trained_runs: TrainedRuns) -> Path:
    return trained_runs("injector", "--tuning", "frozen", "--no-baselines")


def test_changes_are_those_of_the_terms_that_learned(trained: Path, trained_runs: TrainedRuns) -> None:
    after = AttributeModel.from_pretrained(trained / "model").backbone.state_dict()
    before = AutoModel.from_pretrained(trained_runs.backbone()).state_dict()
    found = {(change.layer, change.term): change for change in term_changes(trained)}
    names = [f"{part}.LayerNorm.{kind}" for part in ("attention.output", "output") for kind in ("weight", "bias")]
    assert {key for key in found if key[0] is not None} == {(layer, name) for layer in (0, 1) for name in names}
    for (layer, term), change in found.items():
        name = term if layer is None else f"encoder.layer.{layer}.{term}"
        expected = (before[name] - after[name]).abs().sum() / before[name].numel()
        assert change.change == pytest.approx(expected.item())
        assert change.change > 0
        assert change.numbers == before[name].numel()


def test_the_command(trained: Path, frozen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["describe", str(trained), "--changes"]) == 0
    shown = capsys.readouterr().out
    (first,) = [
        change for change in term_changes(trained) if change.term == "output.LayerNorm.bias" and change.layer == 1
    ]
    assert f"{1000 * first.change:.3f}" in shown
    assert "layer 1" in shown
    assert main(["describe", str(frozen), "--changes"]) == 1
    assert "the backbone was not trained (tuning frozen)" in capsys.readouterr().err


def test_other_weights_are_refused(trained: Path, frozen: Path, tmp_path: Path) -> None:
    other = small_runs.save_backbone(tmp_path / "other", seed=3)
    with pytest.raises(Exception, match="weights") as raised:
        term_changes(trained, backbone=str(other))
    assert type(raised.value).__module__.startswith("attribune")
    with pytest.raises(ConfigError, match="the backbone was not trained"):
        term_changes(frozen)


@pytest.mark.parametrize("part", ["", "model"])
def test_a_baseline_has_no_change(part: str, trained_runs: TrainedRuns) -> None:
    with pytest.raises(ConfigError, match=r"is a run of a baseline.* is not trained"):
        term_changes(trained_runs("linear") / part)
