"""Ordered answers as a task: labels, first cut points, predictions, metrics, and models that learn them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from scipy.special import expit
from sklearn.metrics import cohen_kappa_score
from task_checks import figures
from trained_runs import TrainedRuns

from attribune import AttributeModel
from attribune.apps.cli import main
from attribune.errors import ConfigError, DataError
from attribune.functional import ordinal_log_probabilities
from attribune.metrics.formulas import kappa
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.tasks import UNSEEN, Ordinal, fit_task, task_from_dict
from attribune.tasks.losses import CutPoints

LABELS = ["1", "2.0", "2", "4", "4", "4", "5", "1", None]


def test_classes_and_first_cut_points_are_those_of_the_labels() -> None:
    task = fit_task("ordinal", [LABELS])
    assert isinstance(task, Ordinal)
    assert task.classes == ("1", "2", "4", "5")
    shares = np.cumsum([2.5, 2.5, 3.5, 1.5]) / 10
    assert task.cut_points == pytest.approx(np.log(shares[:3] / (1 - shares[:3])))
    assert task_from_dict(task.to_dict()) == task
    link = task.head.build_link()
    probabilities = link(torch.zeros(1, 1)).exp()[0].tolist()
    assert probabilities == pytest.approx([0.25, 0.25, 0.35, 0.15], abs=1e-6)  # before it learns, the frequencies
    labels, known = task.encode_labels([["5", "3", None]])
    assert (labels[:2].tolist(), known.tolist()) == ([3, UNSEEN], [True, True, False])


@pytest.mark.parametrize("kind", ["ordinal", "rating"])
def test_named_levels_are_numbered_in_their_order(kind: str) -> None:
    levels = ["none", "mild", "severe"]
    task = fit_task(kind, [["mild", "severe", "none", "none"]], classes=levels)
    assert task.classes == tuple(levels)
    assert task_from_dict(task.to_dict()) == task
    labels, known = task.encode_labels([["severe", "none", "fatal", None]])
    assert (labels[:3].tolist(), known.tolist()) == ([2, 0, UNSEEN], [True, True, True, False])
    assert task.codec.positions.tolist() == [1, 2, 3]
    decoded = task.decode(np.log([[0.5, 0.25, 0.25], [0.0001, 0.0999, 0.9]]))
    assert decoded.predictions["prediction"] == ["none", "severe"]
    assert decoded.predictions["expected"].round(2).tolist() == [1.75, 2.9]
    found = figures(task.metrics(np.log([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1]]), np.array([0, 2])))
    assert found["accuracy"] == 0.5
    with pytest.raises(DataError, match=r"name levels in their order with task.classes=\['low', 'high'\]"):
        fit_task(kind, [["mild", "severe"]])
    shares, _ = fit_task(kind, [['{"mild": 1}']], classes=levels, soft_labels=True).encode_labels([['{"none": 1}']])
    assert shares.tolist() == [[1, 0, 0]]


def test_a_higher_score_makes_higher_answers_likelier() -> None:
    link = CutPoints([-1.0, 0.5, 0.5, 3.0])
    with torch.no_grad():
        logits = link(torch.tensor([[-3.0], [0.0], [4.0]])).double().numpy()
    task = Ordinal(classes=("1", "2", "3", "4", "5"))
    assert np.exp(logits).sum(axis=1) == pytest.approx(1)
    decoded = task.decode(logits)
    numbers = decoded.predictions["expected"]
    assert numbers.tolist() == sorted(numbers.tolist())
    assert numbers == pytest.approx(np.exp(logits) @ np.arange(1, 6))
    assert decoded.predictions["prediction"] == [task.classes[one] for one in logits.argmax(axis=1)]
    assert decoded.probabilities == pytest.approx(np.exp(logits))
    below = 1 - expit(0.0 - np.array([-1.0, 0.5, 0.501, 3.001]))
    assert np.cumsum(np.exp(logits[1]))[:4] == pytest.approx(below, abs=1e-5)  # equal cut points are told apart


def test_metrics_are_of_the_expected_number_and_of_the_most_probable_class() -> None:
    generator = np.random.default_rng(0)
    task = Ordinal(classes=("-1", "0", "2"), score_by=("kappa", "spearman"))
    logits, labels = np.log(generator.dirichlet(np.ones(3), 50)), generator.integers(0, 3, 50)
    values = np.array([-1.0, 0.0, 2.0])
    expected, found = np.exp(logits) @ values, figures(task.metrics(logits, labels))
    assert list(found) == ["kappa", "spearman", "rmse", "mae", "accuracy"]
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((expected - values[labels]) ** 2)))
    assert found["accuracy"] == pytest.approx(np.mean(logits.argmax(axis=1) == labels))
    assert found["kappa"] == pytest.approx(cohen_kappa_score(labels, logits.argmax(axis=1), weights="quadratic"))
    assert task.main_metric == "kappa"
    assert task.higher_is_better
    assert not Ordinal(classes=("1", "2")).higher_is_better  # rmse
    unseen = figures(Ordinal(classes=("1", "2", "3")).metrics(np.log([[0.8, 0.1, 0.1]]), np.array([UNSEEN])))
    assert (unseen["mae"], unseen["accuracy"]) == (pytest.approx(3 - 1.3), 0)  # the farther end


def test_kappa_is_scikit_learns() -> None:
    generator = np.random.default_rng(1)
    for classes in (2, 5):
        true, predicted = generator.integers(0, classes, (2, 80))
        expected = cohen_kappa_score(true, predicted, weights="quadratic", labels=list(range(classes)))
        assert kappa(true, predicted).value() == pytest.approx(expected)
    assert kappa([2, 2], [2, 2]).value() == 0  # of one class chance agrees as well
    assert kappa([0, 1, 2], [0, 1, 2]).value() == 1


ANSWERS = {"classes": ("1", "2", "3")}


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Ordinal(classes=("1",)), ConfigError, "at least 2 are needed"),
        (lambda: Ordinal(**ANSWERS, cut_points=(0.0,)), ConfigError, "1 cut_points between 3 classes"),
        (lambda: Ordinal(**ANSWERS, cut_points=(1.0, 0.0)), ConfigError, "numbers in order"),
        (lambda: Ordinal(**ANSWERS, cut_points=(0.0, float("inf"))), ConfigError, "finite numbers in order"),
        (lambda: Ordinal(classes=("1", "2"), cut_points="0"), ConfigError, "numbers in order"),
        (lambda: Ordinal(classes=("1", "high")), ConfigError, "not numbers"),
        (lambda: Ordinal(**ANSWERS, score_by="f1"), ConfigError, "an ordinal task has the metrics rmse, mae, r2"),
        (lambda: fit_task("ordinal", [["1", "good"]]), DataError, "'good'"),
        (lambda: fit_task("ordinal", [["1", "1"]]), DataError, "the same label '1'"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Ordinal], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


Words = Callable[..., list[str]]


def exhaustive(*methods: str) -> list[Any]:
    """Methods that have a part in common with another one that is tried."""
    return [pytest.param(method, marks=pytest.mark.exhaustive) for method in methods]


@pytest.fixture
def words(trained_runs: TrainedRuns, tmp_path: Path) -> Words:
    """Factory: a training for four ratings."""

    def make(method: str, *more: str, backbone: str | None = None, baselines: bool = False) -> list[str]:
        table, place = trained_runs.table(small_runs.reviews(80, seed=2)), backbone or trained_runs.backbone()
        command = small_runs.train_command(table, tmp_path / "run", backbone=place, method=method, label=["look"])
        return [*command, *more, "--task", "ordinal", *(() if baselines else ("--no-baselines",))]

    return make


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize("method", ["injector", "upnn", "huapa", *exhaustive("chim", "hcsc")])
def test_every_kind_of_method_learns_cut_points(words: Words, tmp_path: Path, method: str) -> None:
    """Through a site, a classifier of its own, auxiliary losses, and after saving, to the same predictions."""
    backbone = {"upnn": "tang-cnn", "huapa": "hierarchical"}.get(method)
    assert main(words(method, backbone=backbone, baselines=method == "injector")) == 0
    results = RunFolder(tmp_path / "run").read_results()
    assert (results.task["kind"], results.main_metric) == ("ordinal", "rmse")
    assert list(results.models[0].parts["test"]) == ["rmse", "log_loss", "mae", "kappa", "accuracy"]
    predictor = Predictor.from_pretrained(tmp_path / "run" / "model")
    assert predictor.model.head.out_features == 1
    start = CutPoints(results.task["cut_points"])
    assert not torch.equal(predictor.model.link.first, start.first)  # it learned
    rows = {"text": ["great film", "awful"], "user": ["u1", "nobody"]}
    logits, _ = predictor.logits(rows)
    assert np.exp(logits * predictor.model.temperature).sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert set(predictor.task.decode(logits).columns()) >= {"prediction", "expected", "probability_1", "probability_4"}


@pytest.mark.slow
@pytest.mark.parametrize("form", [pytest.param("torch", marks=pytest.mark.exhaustive), "adapter"])
def test_cut_points_are_exported_but_to_a_folder_of_peft(
    form: str, words: Words, trained_runs: TrainedRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A graph is checked against the model when it is written."""
    export = ["export", str(trained_runs.trained(words("plora"))), "--for", "user=u1", "--format", form]
    assert main([*export, "--output", str(tmp_path / "out.pt2")]) == (form == "adapter")
    refused = "the task 'ordinal' has cut points, which a folder of peft does not hold" in capsys.readouterr().err
    assert refused == (form == "adapter")


PERSONAL = ["--set", "task.personal_cut_points=user"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["injector", *exhaustive("e2ln", "hcsc", "injector+plora")])
def test_values_learn_cut_points_of_their_own(words: Words, tmp_path: Path, method: str) -> None:
    """Shifts and scales are products with the vectors of the values; a row without one has the cut points of all."""
    assert main(words(method, *PERSONAL)) == 0
    model = AttributeModel.from_pretrained(tmp_path / "run" / "model").eval()
    assert model.task.to_dict()["personal_cut_points"] == ["user"]
    v_a, v_b = model.link.v_a[0], model.link.v_b[0]
    assert min(v_a.abs().max(), v_b.abs().max()) > 0  # they learned
    with torch.no_grad():
        v_a += 0.5
        v_b -= 1.0
        ids, _ = model.schema.encode({"user": ["u1", "nobody"], "tags": [None, None]})
        condition = model.condition(torch.from_numpy(ids), rows=2)
        vectors = next(part.values for part in condition.each() if part.values)[0]
        scores = torch.tensor([[0.3], [0.3]])
        found = model._linked(scores, condition)
        known = int(vectors.ids.argmax())
        a, b = ((vectors.vectors[known] @ v).unsqueeze(0) for v in (v_a, v_b))
        own = ordinal_log_probabilities(scores[:1, 0], model.link.first, model.link.delta, a=a, b=b)
        common = ordinal_log_probabilities(scores[1:, 0], model.link.first, model.link.delta)
    torch.testing.assert_close(found, torch.cat([own, common]))
    assert not torch.allclose(own, common, atol=1e-3)


@pytest.mark.slow
def test_personal_cut_points_are_merged_for_a_value(words: Words, tmp_path: Path) -> None:
    assert main(words("injector", *PERSONAL, "task.expected=true", "--compare", "adapter")) == 0
    compared = AttributeModel.from_pretrained(tmp_path / "run" / "compare" / "adapter" / "model")
    assert not compared.link.attributes  # a model without attributes has none
    model = AttributeModel.from_pretrained(tmp_path / "run" / "model").eval()
    with torch.no_grad():
        for vector in (*model.link.v_a, *model.link.v_b):
            vector += 0.7
        condition = model.condition(torch.from_numpy(model.schema.encode({"user": ["u1"], "tags": [None]})[0]), rows=1)
        merged = CutPoints(np.zeros(model.task.outputs - 1))
        tensors, scale = model.link.merge(model.linked_vectors(condition))
        merged.load_state_dict(tensors)
        scores = torch.tensor([[-2.0], [0.1], [5.0]])
        expected = torch.cat([model._linked(one.unsqueeze(0), condition) for one in scores])
        torch.testing.assert_close(merged(scale * scores, []), expected)
    export = ["export", str(tmp_path / "run"), "--for", "user=u1", "--format", "adapter"]
    assert main([*export, "--output", str(tmp_path / "merged")]) == 0  # which compares its logits with the model's
    alone = AttributeModel.from_pretrained(tmp_path / "merged")
    assert alone.task.to_dict().get("personal_cut_points") is None


@pytest.mark.parametrize(
    ("method", "name", "is_known"),
    [("injector", "nobody", False), pytest.param("plora", "user", True, marks=pytest.mark.slow)],
)
def test_cut_points_of_unknown_attributes_are_refused(
    words: Words, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, name: str, is_known: bool
) -> None:
    assert main(words(method, "--set", f"task.personal_cut_points={name}")) == (not is_known)
    said = f"personal_cut_points names '{name}', of which the method has no vectors: it has those of"
    assert (said in capsys.readouterr().err) != is_known
    assert (tmp_path / "run").exists() == is_known
