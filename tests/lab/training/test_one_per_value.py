"""The method `one-per-value`: the second part of its training, its files, and the verbs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
import torch
from commands import assert_verbs_run
from safetensors.numpy import load_file
from trained_runs import TrainedRuns

from attribune import AttributeModel
from attribune.apps.cli import main
from attribune.core.progress import Reporter
from attribune.models.predictor import Predictor
from attribune.models.predictor_group import PredictorGroup
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.training.train import train
from attribune_lab.methods.one_per_value import OnePerValueMethod
from attribune_lab.training import own_values

pytestmark = pytest.mark.slow

QUICK = ("--epochs", "2", "--no-baselines", "--set", "training.learning_rate=0.02")
RARE = [{**row, "user": "rare"} for row in small_runs.reviews(4, seed=9)]
TRAINED = [*small_runs.reviews(150, seed=2), *RARE]
NEW = small_runs.reviews(40, seed=5, users=9)


def command(runs: TrainedRuns, run: Path = Path("run"), *more: str, rows: Sequence[Any] = TRAINED) -> list[str]:
    words = small_runs.train_command(runs.table(rows), run, backbone=runs.backbone(), method="one-per-value")
    return [*words, *QUICK, *more]


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    return trained_runs.trained(command(trained_runs))


@pytest.fixture
def new(trained_runs: TrainedRuns) -> Path:
    return trained_runs.table(NEW)


def method_of(run: Path) -> tuple[AttributeModel, OnePerValueMethod]:
    model = load_run(run)[1].model
    return model, model.method


@pytest.mark.exhaustive
def test_values_with_rows_have_factors_of_their_own(run: Path) -> None:
    model, method = method_of(run)
    attribute = model.schema["user"]
    for site in method.own_sites:
        moved = site.dA.detach().abs().amax(dim=1) + site.dB.detach().abs().amax(dim=1)
        assert ((moved > 0).numpy() == (attribute.counts >= 10) & (np.arange(attribute.size) > 0)).all()
    counts = dict(zip(attribute.values, attribute.counts[1:], strict=True))
    assert counts["rare"] < 10 < counts["u0"]
    rows = {"text": ["great film"] * 4, "user": ["u0", "rare", "nobody", None]}
    logits = Predictor(model).logits(rows)[0]
    assert np.abs(logits[0] - logits[1]).max() > 1e-4
    np.testing.assert_allclose(logits[1:3], logits[[3, 3]], atol=1e-6)
    sizes = RunFolder(run).read_results().training.parameters
    own = sum(site.dA.numel() + site.dB.numel() for site in method.own_sites)
    assert (sizes.stored - sizes.trained, sizes.stored) == (own, sum(p.numel() for p in _stored(model)))


def _stored(model: AttributeModel) -> list[torch.nn.Parameter]:
    return [model.get_parameter(name) for name in model.learned_names()]


@pytest.mark.parametrize(
    ("least", "some"),
    [("18", True), pytest.param("1000", False, marks=pytest.mark.exhaustive)],
)
def test_the_rest_is_as_without_the_second_part(
    run: Path, trained_runs: TrainedRuns, tmp_path: Path, least: str, some: bool
) -> None:
    """All that is shared is what the training for all rows made, and a value's copy depends on no other value."""
    assert main(command(trained_runs, tmp_path / "fewer", f"method.min_rows={least}")) == 0
    every, fewer = (load_file(path / "model" / "model.safetensors") for path in (run, tmp_path / "fewer"))
    counts = load_run(run)[1].schema["user"].counts
    own = counts >= int(least)
    own[0] = False
    assert own.any() == some
    assert own.sum() < (counts >= 10).sum()
    for name, tensor in every.items():
        if name.endswith(("dA", "dB")):
            np.testing.assert_array_equal(fewer[name][own], tensor[own])
            assert not fewer[name][~own].any()
        else:
            np.testing.assert_array_equal(fewer[name], tensor)


def test_own_rows_are_learned(run: Path) -> None:
    predictor = load_run(run)[1]
    rows = pd.DataFrame(TRAINED)
    rows = rows[rows["user"] != "rare"]
    labels = predictor.task.encode_labels([rows["stars"].tolist()])[0]
    losses = []
    for hidden in (False, True):
        logits = torch.from_numpy(predictor.logits(rows, hide_attributes=hidden)[0])
        losses.append(float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels))))
    assert losses[0] < losses[1]


@pytest.mark.exhaustive
def test_an_interrupted_training_goes_on(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, trained = RunFolder(run).read_recipe(), []

    def interrupted(*given: object) -> None:
        trained.append(1)
        if len(trained) == 3:
            raise KeyboardInterrupt
        _train(*given)

    _train = own_values._train
    with monkeypatch.context() as patch:
        patch.setattr(own_values, "_train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, tmp_path / "run", baselines=False)
    train(recipe, tmp_path / "run", resume=True, reporter=Reporter(), baselines=False)
    one, two = ((path / "model" / "model.safetensors").read_bytes() for path in (run, tmp_path / "run"))
    assert one == two


@pytest.mark.exhaustive
def test_verbs(run: Path, new: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    assert_verbs_run(
        run,
        new,
        tmp_path,
        ["export", str(run), "--for", "user=u1", "--output", str(tmp_path / "u1")],
        ["ablate", str(run), str(new), "--output", str(tmp_path / "layers.html")],
        ["export", str(run), "--format", "onnx", "--output", str(tmp_path / "model.onnx")],
        ["enrol", str(run), str(new)],
        ["enrol", str(run), "--undo"],
        ["forget", str(run), "--attribute", "user", "--value", "u1"],
    )
    assert (tmp_path / "u1" / "adapter_config.json").is_file()
    assert load_run(run)[1].schema["user"].size == len(method_of(run)[1].own_sites[0].dA)


def test_forgetting_leaves_others_as_they_are(run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    rows = pd.DataFrame(NEW)
    before, stranger = load_run(run)[1].logits(rows)[0], load_run(run)[1].logits(rows.assign(user="nobody"))[0]
    assert main(["forget", str(run), "--attribute", "user", "--value", "u2"]) == 0
    after, gone = load_run(run)[1].logits(rows)[0], (rows["user"] == "u2").to_numpy()
    assert 0 < gone.sum() < len(rows)
    np.testing.assert_allclose(after[~gone], before[~gone], atol=1e-6)
    np.testing.assert_allclose(after[gone], stranger[gone], atol=1e-6)


def test_runs_over_one_backbone_share_batches(run: Path, trained_runs: TrainedRuns) -> None:
    other = trained_runs("none", "--tuning", "frozen", "--no-baselines")
    group = PredictorGroup.from_pretrained({"own": run, "none": other})
    assert group.together_with("own") == ["own", "none"]
    rows = {"text": ["great film", "awful", "fine"], "user": ["u0", "u3", None]}
    found = group.predict({"own": rows, "none": rows})
    expected = load_run(run)[1].predict(rows)["probability_good"]
    assert found["own"]["probability_good"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.exhaustive
def test_a_training_that_continues_begins_with_the_factors(run: Path, new: Path, tmp_path: Path) -> None:
    words = ["train", str(new), "--continue", str(run), "--epochs", "1", "--no-baselines"]
    words += ["--output", str(tmp_path / "run")]
    assert main(words) == 0
    old, grown = load_run(run)[1].schema["user"], load_run(tmp_path / "run")[1].schema["user"]
    assert grown.values[: old.size - 1] == old.values
    assert grown.size > old.size
    for before, after in zip(method_of(run)[1].own_sites, method_of(tmp_path / "run")[1].own_sites, strict=True):
        assert torch.equal(after.dA[: old.size], before.dA)  # 40 rows are too few of any value
        assert not after.dA[old.size :].any()
        assert not torch.equal(after.A, before.A)


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["rating", "regression"])
def test_other_tasks_and_tunings(trained_runs: TrainedRuns, new: Path, tmp_path: Path, task: str) -> None:
    words = command(trained_runs, tmp_path / "run", "method.epochs=1", "--task", task, "--tuning", "full", "--shuffled")
    words[words.index("stars")] = "look"
    assert main(words) == 0
    assert main(["evaluate", str(tmp_path / "run"), str(new)]) == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["method.rank=0"], "one-per-value: rank is 0, it must be above 0"),
        (["method.rate=-1"], "one-per-value: rate is -1"),
        (["method.attribute=film"], "attribute is 'film', which is none of the attributes user: name one"),
        (["method.attribute=tags", "--multi-label", "tags:;"], "attribute 'tags' has several values in a row"),
        (["method.attribute=3"], "attribute is 3: give the name of an attribute, or null for the first one"),
        (["method.dropout=3"], "method 'one-per-value' has no option dropout"),
        (["--backbone", "bilstm"], "acts inside Transformer layers"),
        (["--method", "one-per-value+injector"], "'one-per-value' is for a plain model: leave the others out"),
        (["method.rate=1.0e+30"], "the loss of a value's own rows became infinite or not a number: lower method.rate"),
    ],
)
def test_settings_that_cannot_be(
    trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main([*command(trained_runs, tmp_path / "run"), *more]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.exhaustive
def test_weights_of_one_are_no_weights(run: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    rows = [{**row, "price": 1} for row in TRAINED]
    assert main(command(trained_runs, tmp_path / "run", "--weight", "price", rows=rows)) == 0
    plain, weighted = (load_file(str(one / "model" / "model.safetensors")) for one in (run, tmp_path / "run"))
    for name, values in plain.items():
        np.testing.assert_allclose(weighted[name], values, atol=1e-5, err_msg=name)
