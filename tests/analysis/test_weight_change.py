"""How far training moved the backbone."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_runs
from transformers import AutoModel

from attribune import AttributeModel
from attribune.analysis.weight_change import term_changes
from attribune.apps.cli import main
from attribune.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("terms")
    backbone = small_runs.save_backbone(place / "backbone")
    table = small_runs.write_csv(place / "train.csv", small_runs.reviews(60))
    for tuning in ("lora:q,v+layernorm", "frozen"):
        words = small_runs.train_command(table, place / tuning.split(":")[0], backbone=backbone, method="injector")
        assert main([*words, "--tuning", tuning, "--no-baselines"]) == 0
    return place


def test_changes_are_those_of_the_terms_that_learned(run: Path) -> None:
    after = AttributeModel.from_pretrained(run / "lora" / "model").backbone.state_dict()
    before = AutoModel.from_pretrained(run / "backbone").state_dict()
    found = {(change.layer, change.term): change for change in term_changes(run / "lora")}
    names = [f"{part}.LayerNorm.{kind}" for part in ("attention.output", "output") for kind in ("weight", "bias")]
    assert {key for key in found if key[0] is not None} == {(layer, name) for layer in (0, 1) for name in names}
    for (layer, term), change in found.items():
        name = term if layer is None else f"encoder.layer.{layer}.{term}"
        expected = (before[name] - after[name]).abs().sum() / before[name].numel()
        assert change.change == pytest.approx(expected.item())
        assert change.change > 0
        assert change.numbers == before[name].numel()


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(run / "lora"), "--changes"]) == 0
    shown = capsys.readouterr().out
    (first,) = [
        change for change in term_changes(run / "lora") if change.term == "output.LayerNorm.bias" and change.layer == 1
    ]
    assert f"{1000 * first.change:.3f}" in shown
    assert "layer 1" in shown
    assert main(["describe", str(run / "frozen"), "--changes"]) == 1
    assert "the backbone was not trained (tuning frozen)" in capsys.readouterr().err


def test_other_weights_are_refused(run: Path, tmp_path: Path) -> None:
    other = small_runs.save_backbone(tmp_path / "other", seed=3)
    with pytest.raises(Exception, match="weights") as raised:
        term_changes(run / "lora", backbone=str(other))
    assert type(raised.value).__module__.startswith("attribune")
    with pytest.raises(ConfigError, match="the backbone was not trained"):
        term_changes(run / "frozen")
