"""Weights of rows: one of weight k counts as if it stood there k times, and one of weight 0 as if it did not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from safetensors.numpy import load_file
from token_tables import questions, tagged_words, write_json_lines
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.data.selection import read_weights
from attribune.errors import DataError
from attribune.models.linear import LinearModel
from attribune.models.word_features import LinearFeatures
from attribune.runs.folder import RunFolder
from attribune.schema import Schema
from attribune.tasks import (
    UNSEEN,
    Aspects,
    Classification,
    Generation,
    Ordinal,
    Preference,
    Rating,
    Regression,
    Spans,
    Tags,
    Task,
)
from attribune.tasks.losses import weighted_mean

COUNTS = torch.tensor([1, 3, 0, 2, 1])


def ids(*shape: int, classes: int = 3) -> torch.Tensor:
    return torch.randint(classes, shape)


def tasks() -> list[tuple[Task, tuple[int, ...], torch.Tensor]]:
    """Each task with the shape of its logits of five rows, and labels of which some are unknown."""
    some_unseen = torch.tensor([0, UNSEEN, 2, 1, 2])
    several = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 0]])
    two = torch.tensor([[0, 1], [2, UNSEEN], [1, 1], [2, 0], [UNSEEN, 1]])
    words = ids(5, 7).masked_fill(torch.rand(5, 7) < 0.4, UNSEEN)
    marks = torch.zeros(5, 7, dtype=torch.int64)
    marks[:, 2], marks[:, 4] = 1, 2
    return [
        (Classification(classes=3), (3,), some_unseen),
        (Classification(classes=3, class_weights=(0.5, 1.0, 4.0)), (3,), some_unseen),
        (Classification(classes=3, multi_label=True, class_weights=(0.5, 1.0, 4.0)), (3,), several),
        (Rating(classes=("1", "2", "3")), (3,), some_unseen),
        (Ordinal(classes=("1", "2", "3")), (3,), some_unseen),
        (Regression(), (1,), torch.tensor([0.5, float("nan"), -1.0, 2.0, 0.1])),
        (Aspects(names=("look", "taste"), classes=(("1", "2", "3"), ("a", "b"))), (5,), two),
        (Preference(), (2,), torch.tensor([0, UNSEEN, 1, 1, 0])),
        (Tags(classes=("O", "B-X", "I-X")), (7, 3), words),
        (Spans(), (7, 2), marks),
        (Generation(), (7, 11), ids(5, 7, classes=11)),
    ]


@pytest.mark.parametrize("number", range(11))
def test_a_weight_is_a_number_of_repetitions_in_every_task(number: int) -> None:
    task, shape, labels = tasks()[number]
    logits = torch.randn(5, *shape, requires_grad=True)
    weights = COUNTS.float()
    loss = task.weighted_loss(logits, labels, weights)
    repeated = task.loss(logits.repeat_interleave(COUNTS, dim=0), labels.repeat_interleave(COUNTS, dim=0))
    torch.testing.assert_close(loss, repeated)
    gradients = [torch.autograd.grad(one, logits)[0] for one in (loss, repeated)]
    torch.testing.assert_close(*gradients)
    assert gradients[0][2].eq(0).all()  # of weight 0
    torch.testing.assert_close(task.weighted_loss(logits, labels, torch.ones(5)), task.loss(logits, labels))
    torch.testing.assert_close(task.weighted_loss(logits, labels, 1e6 * weights), loss)  # weights are relative
    assert task.weighted_loss(logits, labels, torch.zeros(5)).item() == 0


def test_the_weighted_mean_is_that_of_a_slow_loop() -> None:
    losses, counts, weights = torch.rand(3, 31, dtype=torch.float64)
    above = below = 0.0
    for row in range(31):
        above += float(weights[row]) * float(losses[row])
        below += float(weights[row]) * float(counts[row])
    assert float(weighted_mean(losses, counts, weights)) == pytest.approx(above / below, rel=1e-10)


CHANCE = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        (Classification(classes=3, class_weights=(1.0, 2.0, 0.5)), CHANCE.integers(0, 3, 40)),
        (Regression(), CHANCE.normal(size=40).astype(np.float32)),
        (Aspects(names=("a", "b"), classes=(("1", "2"), ("1", "2"))), CHANCE.integers(0, 2, (40, 2))),
        (Classification(classes=2, multi_label=True), CHANCE.integers(0, 2, (40, 3)).astype(np.float32)),
    ],
    ids=["classes", "numbers", "aspects", "several"],
)
def test_the_linear_baselines_weigh_rows_as_scikit_learn_does(task: Task, labels: np.ndarray) -> None:
    texts = [row["text"] for row in small_runs.reviews(40)]
    counts = np.random.default_rng(0).integers(0, 4, 40)
    ids, none = np.zeros((40, 0), dtype=np.int64), Schema.fit({"text": texts}, [])
    features = LinearFeatures.fit(texts, none, max_features=1_000)
    matrix, again = features.transform(texts, ids), np.repeat(np.arange(40), counts)
    weighted = LinearModel.from_matrix(features, matrix, labels=labels, task=task, C=1.0, weights=counts)
    repeated = LinearModel.from_matrix(features, matrix[again], labels=labels[again], task=task, C=1.0)
    np.testing.assert_allclose(weighted.weight, repeated.weight, atol=2e-4)
    np.testing.assert_allclose(weighted.bias, repeated.bias, atol=2e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trained_runs: TrainedRuns) -> Path:
    """Backbones without random numbers, and tables with a weight of every kind."""
    folder = tmp_path_factory.mktemp("weighted")
    for name, writes in (("reader", False), ("writer", True)):
        path = trained_runs.copy(
            trained_runs.backbone("gpt2" if writes else "bert", is_generative=writes), folder / name
        )
        config = json.loads((path / "config.json").read_text())
        config |= {key: 0.0 for key in config if "dropout" in key or key.endswith("pdrop")}
        (path / "config.json").write_text(json.dumps(config))
    rows = [row | {"weight": number % 4} for number, row in enumerate(small_runs.reviews(48))]
    small_runs.write_csv(folder / "train.csv", rows)
    small_runs.write_csv(folder / "repeated.csv", [row for row in rows for _ in range(row["weight"])])
    for seed, name in enumerate(("validation", "test"), start=1):
        small_runs.write_csv(folder / f"{name}.csv", small_runs.reviews(24, seed=seed))
    return folder


def command(folder: Path, output: str, *more: str, data: str = "train.csv", method: str = "adapter") -> list[str]:
    """A training with files of the other rows; ``more`` begins with settings."""
    writes = "task.kind=generation" in more
    backbone = folder / ("writer" if writes else "reader")
    words = small_runs.train_command(folder / data, folder / output, backbone=backbone, method=method)
    if writes:
        words = [word for word in words if word not in ("--label", "stars")]
    files = ["--validation", str(folder / "validation.csv"), "--test", str(folder / "test.csv")]
    return [*words, *more, *files, "--no-baselines"]


def train(folder: Path, output: str, *more: str, **options: str) -> int:
    return main(command(folder, output, *more, **options))


def learned(run: Path) -> dict[str, Any]:
    return load_file(str(run / "model" / "model.safetensors"))


def assert_as_repeated(weighted: dict[str, Any], repeated: dict[str, Any], plain: dict[str, Any]) -> None:
    for name, array in repeated.items():
        np.testing.assert_allclose(weighted[name], array, atol=2e-6, err_msg=name)
    assert any(np.abs(plain[name] - array).max() > 1e-4 for name, array in repeated.items())


ONE_STEP = (
    *("training.optimizer=sgd", "training.learning_rate=1", "training.warmup=0", "training.weight_decay=0"),
    *("training.max_grad_norm=0", "training.gradient_accumulation=99", "backbone.dropout=0"),
)
SETTINGS = {
    "classes": ("task.class_weights=[1, 2]",),
    "numbers": ("data.label=taste", "task.kind=ordinal", "task.cut_points=[-1, 0, 1]"),
    "aspects": ("data.label=[look, taste]",),
    "preferences": ("data.text_pair=price", "task.kind=preference", "task.labels=[good, bad]"),
    "text": ("task.kind=generation",),
}


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("classes", "text") else pytest.mark.exhaustive) for kind in SETTINGS],
)
def test_a_step_of_several_batches_is_that_of_repeated_rows_at_once(folder: Path, kind: str) -> None:
    """36 rows of weight 1 to 3 in batches of 7, in one step, and the 72 rows that they stand for in one batch."""
    common = (*SETTINGS[kind], *ONE_STEP)
    assert train(folder, f"{kind}-weighted", *common, "data.weight=weight", "training.batch_size=7") == 0
    assert train(folder, f"{kind}-repeated", *common, "training.batch_size=72", data="repeated.csv") == 0
    assert train(folder, f"{kind}-plain", *common, "training.batch_size=72") == 0
    weighted, repeated, plain = (learned(folder / f"{kind}-{name}") for name in ("weighted", "repeated", "plain"))
    assert_as_repeated(weighted, repeated, plain)
    left_out = 10 if kind == "preferences" else 12  # some have but one text
    notes = RunFolder(folder / f"{kind}-weighted").read_results().notes
    assert f"train: {left_out} rows of weight 0 left out" in notes


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("task", ["tags", pytest.param("spans", marks=pytest.mark.exhaustive)])
def test_all_windows_of_a_row_have_its_weight(folder: Path, task: str) -> None:
    rows = tagged_words(20) if task == "tags" else questions(20, unanswerable=0.3)
    columns = {
        "tags": ("data.text=words", "data.label=tags", "data.max_length=12"),
        "spans": ("data.text=question", "data.text_pair=context", "data.label=answers", "data.max_length=16"),
    }
    weighted = [row | {"weight": number % 3} for number, row in enumerate(rows)]
    tables = {"weighted": weighted, "repeated": [row for row in weighted for _ in range(row["weight"])], "plain": rows}
    found = {}
    write_json_lines(folder / f"{task}-plain.jsonl", rows)
    for name, table in tables.items():
        data = write_json_lines(folder / f"{task}-{name}.jsonl", table)
        words = small_runs.train_command(data, folder / f"{task}-{name}", backbone=folder / "reader", method="adapter")
        more = ["data.weight=weight", "training.batch_size=3"] if name == "weighted" else ["training.batch_size=999"]
        others = [f"data.{part}={folder / f'{task}-plain.jsonl'}" for part in ("validation", "test")]
        assert main([*words, *columns[task], f"task.kind={task}", *more, *others, *ONE_STEP, "--no-baselines"]) == 0
        found[name] = learned(folder / f"{task}-{name}")
    assert_as_repeated(**found)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adapter", "linear"])
def test_a_weight_that_is_none_is_named_with_its_row(
    tmp_path: Path, folder: Path, method: str, fails: Callable[..., str]
) -> None:
    rows = [row | {"weight": 1} for row in small_runs.reviews(48)]
    rows[1]["weight"] = ""
    data = small_runs.write_csv(tmp_path / "train.csv", rows)
    words = command(folder, "hostile", "data.weight=weight", data=str(data), method=method)
    assert "the weight (column 'weight') of row 2 is missing: give 0 for a row that is to be left out" in fails(*words)
    assert not (folder / "hostile").exists()


TEXTS_OF_NONE = ("", "much", "nan", "inf", "-1", "true", "[1]", "1e300", "1e-300")


@pytest.mark.parametrize(
    "cell", [*TEXTS_OF_NONE, True, float("nan"), -1.0, [1.0], None, {"a": 1}, np.float32("inf")], ids=repr
)
def test_cells_that_are_no_weights(cell: object) -> None:
    shown = re.escape(repr(cell)) if cell and isinstance(cell, str) else ".*"
    message = rf"^the weight \(column 'w'\) of row 1 is {shown}: give 0 for a row .*, or a number from 1e-09 to 1e\+09$"
    with pytest.raises(DataError, match=message):
        read_weights({"w": [cell]}, "w")


@pytest.mark.parametrize("column", [[2, 1], np.array([2.0, 1.0]), ["2", " 1.0 "], [2, 1.0]])
def test_weights_are_read_from_all_kinds_of_columns(column: Any) -> None:
    assert read_weights({"w": column}, "w").tolist() == [2, 1]


def test_settings_that_do_not_fit_are_refused(folder: Path, fails: Callable[..., str]) -> None:
    rows = [row | {"weight": 0} for row in small_runs.reviews(48)]
    nothing = str(small_runs.write_csv(folder / "none.csv", rows))
    shuffled = ("data.weight=price", "data.attributes=[{name: price}]", "data.shuffled=true")
    for words, message in (
        (command(folder, "lost", "data.weight=wight"), "train.csv has no column 'wight'; did you mean 'weight'?"),
        (command(folder, "lost", "data.weight=stars"), "column stars is the weight and also a text or the label"),
        (command(folder, "lost", "data.weight=text"), "column text is the weight and also a text or the label"),
        (
            command(folder, "lost", *shuffled, method="injector"),
            "column price is the weight and an attribute: it cannot be shuffled as one only",
        ),
        (
            command(folder, "lost", "data.weight=weight", data=nothing),
            "all weights in the column 'weight' are zero: nothing can be learned",
        ),
    ):
        assert message in fails(*words)


@pytest.mark.slow
def test_the_flag_and_a_resumed_run(folder: Path, fails: Callable[..., str]) -> None:
    """Rows that are split off count by their weights where they train; with others, a run does not go on."""
    rows = [row | {"weight": 1 + number % 3} for number, row in enumerate(small_runs.reviews(60))]
    data = small_runs.write_csv(folder / "own.csv", rows)
    words = small_runs.train_command(data, folder / "own", backbone=folder / "reader")
    assert main([*words, "--weight", "weight"]) == 0
    assert RunFolder(folder / "own").read_recipe().data.weight == "weight"
    (folder / "own" / "metrics.json").unlink()
    small_runs.write_csv(data, [row | {"weight": 2} for row in rows])
    assert "(texts, labels, attributes or weights differ)" in fails(*words, "--weight", "weight", "--resume")
    assert main(["evaluate", str(folder / "own"), str(folder / "test.csv")]) == 0  # which has no weights


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        *("linear", "attributes-only", "intercept", "heads"),
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("boosting", "automl")),
    ],
)
def test_the_baselines_count_weights(folder: Path, method: str) -> None:
    assert train(folder, f"{method}-weighted", "data.weight=weight", method=method) == 0
    assert train(folder, f"{method}-plain", method=method) == 0
    named = method if method in ("boosting", "automl") else "linear"
    weighted, plain = (load_file(str(path)) for path in sorted(folder.glob(f"{method}-*/model/{named}.safetensors")))
    assert any(
        array.shape != plain[name].shape or not np.allclose(array, plain[name]) for name, array in weighted.items()
    )
