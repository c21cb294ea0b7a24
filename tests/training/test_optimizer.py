"""RowAdamW: against torch's AdamW where the two are the same, and a slow loop; gradients of rows alone."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from families import BERT_METHODS
from lab_methods import needs_lab
from reporters import Notes
from tiny_models import at_random, make_batch, make_model
from torch import Tensor, nn
from trained_runs import ROWS, TrainedRuns

from attribune.core.progress import Reporter
from attribune.errors import ConfigError
from attribune.methods import METHODS
from attribune.models.auto import load_model
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe, TrainingRecipe
from attribune.training import neural, sharding
from attribune.training.optimizer import RowAdamW, build_optimizer, clip_gradients, update_rows_alone
from attribune.training.train import train

BATCHES = [[0, 3], [1], [3, 4], [0, 1, 2, 3, 4], [2], [2, 0], [0, 1, 2, 3, 4]]


def gradients(size: int) -> list[Tensor]:
    chance = torch.Generator().manual_seed(1)
    return [torch.randn(len(rows), size, generator=chance, dtype=torch.float64) for rows in BATCHES]


def sparse(table: Tensor, rows: list[int], values: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, table.shape, check_invariants=True)


def test_with_one_number_a_row_it_is_adamw_without_momentum() -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]) for _ in range(2))
    mine = RowAdamW([ours], lr=0.1, weight_decay=0.3)
    plain = torch.optim.AdamW([theirs], lr=0.1, betas=(0.0, 0.999), weight_decay=0.3)
    for rows, values in zip(BATCHES, gradients(1), strict=True):
        ours.grad = sparse(ours, rows, values)
        theirs.grad = ours.grad.to_dense()
        mine.step()
        plain.step()
        assert torch.allclose(ours[rows], theirs[rows], rtol=1e-12, atol=0), "rows are made up for when they are seen"
    assert torch.allclose(ours, theirs, rtol=1e-12, atol=0)


def test_a_row_has_one_second_moment() -> None:
    table = nn.Parameter(torch.randn(5, 3, dtype=torch.float64))
    expected = table.detach().clone()
    optimizer = RowAdamW([table], lr=0.05, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.0)
    square, seen = [0.0] * 5, [0] * 5
    for t, (rows, values) in enumerate(zip(BATCHES, gradients(3), strict=True), start=1):
        table.grad = sparse(table, rows, values)
        optimizer.step()
        for row, g in zip(rows, values.tolist(), strict=True):
            square[row] = square[row] * 0.99 ** (t - seen[row]) + 0.01 * sum(x * x for x in g) / 3
            seen[row] = t
            for z in range(3):
                expected[row, z] -= 0.05 * g[z] / (math.sqrt(square[row] / (1 - 0.99**t)) + 1e-6)
        assert torch.allclose(table, expected, rtol=1e-12, atol=1e-14)
    shapes = {name: tuple(value.shape) for name, value in optimizer.state[table].items()}
    assert shapes == {"step": (), "square": (5,), "seen": (5,)}


def test_a_row_named_twice_counts_with_the_sum_of_its_gradients() -> None:
    once, twice = (nn.Parameter(torch.ones(4, 2)) for _ in range(2))
    once.grad = sparse(once, [1], torch.tensor([[3.0, 4.0]]))
    twice.grad = sparse(twice, [1, 1], torch.tensor([[1.0, 1.0], [2.0, 3.0]]))
    for table in (once, twice):
        RowAdamW([table], lr=0.1).step()
    assert torch.equal(once, twice)
    assert torch.equal(once[[0, 2, 3]], torch.ones(3, 2))


def test_dense_parameters_are_updated_as_adamw_does() -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 6).view(2, 3)) for _ in range(2))
    table = nn.Parameter(torch.ones(3, 2))
    mine, plain = RowAdamW([ours, table], lr=0.1), torch.optim.AdamW([theirs], lr=0.1)
    for number in range(4):
        ours.grad = theirs.grad = torch.full((2, 3), 0.5 + number)
        table.grad = sparse(table, [number % 3], torch.ones(1, 2))
        kept = table.grad
        assert mine.step(lambda: 7.0) == 7.0
        plain.step()
        assert table.grad is kept
    assert torch.equal(ours, theirs)


def test_a_saved_state_goes_on() -> None:
    whole = nn.Parameter(torch.ones(5, 2))
    optimizer = RowAdamW([whole], lr=0.1)
    values = [one.float() for one in gradients(2)]
    for number, rows in enumerate(BATCHES):
        if number == 3:
            again = nn.Parameter(whole.detach().clone())
            second = RowAdamW([again], lr=0.1)
            second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        whole.grad = sparse(whole, rows, values[number])
        optimizer.step()
        if number >= 3:
            again.grad = sparse(again, rows, values[number])
            second.step()
            assert torch.equal(again, whole)


@pytest.mark.parametrize("limit", [0.1, 1.0, 100.0, math.inf])
def test_gradients_are_clipped_as_dense_ones_are(limit: float) -> None:
    table, weight = nn.Parameter(torch.ones(4, 2)), nn.Parameter(torch.ones(3))
    dense, other = copy.deepcopy(table), copy.deepcopy(weight)
    table.grad = sparse(table, [1, 3, 1], torch.tensor([[1.0, 1.0], [2.0, 3.0], [0.5, 1.0]]))
    dense.grad = table.grad.to_dense()
    weight.grad, other.grad = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([1.0, -2.0, 0.5])
    norm, expected = clip_gradients([table, weight], limit), nn.utils.clip_grad_norm_([dense, other], limit)
    assert float(norm) == pytest.approx(float(expected))
    assert torch.allclose(table.grad.to_dense(), dense.grad)
    assert torch.allclose(weight.grad, other.grad)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [name for name in BERT_METHODS if METHODS[name]().uses_attributes and name != "hcsc"],  # hcsc reads whole tables
)
def test_gradients_of_rows_alone_are_the_gradients(name: str) -> None:
    model = make_model("bert", METHODS[name]())
    at_random(model.method)
    batch = {**make_batch(2), "labels": torch.tensor([0, 1, 2, 0])}
    model(**batch).loss.backward()
    tables = {name: p for name, p in model.named_parameters() if name in model.values.tables()}
    expected = {name: p.grad.clone() for name, p in tables.items() if p.grad is not None}
    model.zero_grad()
    assert update_rows_alone(model) == bool(tables)
    model(**batch).loss.backward()
    assert {name for name, p in tables.items() if p.grad is not None and p.grad.is_sparse} == set(expected)
    for name, grad in expected.items():
        found = tables[name].grad
        assert torch.allclose(found.to_dense(), grad, atol=1e-6)
    before = {name: p.detach().clone() for name, p in tables.items()}
    optimizer = build_optimizer(model, TrainingRecipe(learning_rate=0.1, backbone_learning_rate=0.1, weight_decay=0.0))
    optimizer.step()
    for name, grad in expected.items():
        moved = (tables[name] != before[name]).any(dim=1)
        assert torch.equal(moved, grad.ne(0).any(dim=1))


def test_large_tables_are_updated_by_rows_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model("bert", METHODS["injector"](vector_size=4, bottleneck=4, hypercomplex=2))
    assert not update_rows_alone(model, "auto")
    monkeypatch.setattr("attribune.training.optimizer._LARGE", 40)
    assert update_rows_alone(model, "auto")
    assert model.method.sparse_gradients
    assert not update_rows_alone(model, "all")
    assert not model.method.sparse_gradients


def recipe(library: TrainedRuns, rows: list[dict[str, Any]], **training: Any) -> Recipe:
    columns = {"text": "text", "label": "stars", "attributes": [{"name": "user"}], "max_length": 32}
    return Recipe.from_dict(
        {
            "data": {"train": str(library.table(rows)), **columns},
            "method": {"name": "injector", "bottleneck": 4, "vector_size": 4},
            "backbone": {"name": str(library.backbone())},
            "training": {"steps": 6, "batch_size": 16, "precision": "float32", **training},
        }
    )


@pytest.mark.slow
def test_a_training_that_updates_rows_alone(
    trained_runs: TrainedRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes()
    made = recipe(trained_runs, small_runs.reviews(150, seed=5), table_updates="rows", gradient_accumulation=2)
    updated: list[int] = []
    update = RowAdamW._update_rows

    def recorded(self: RowAdamW, group: dict[str, Any], table: Tensor, grad: Tensor) -> None:
        updated.append(len(grad.values()))
        update(self, group, table, grad)

    monkeypatch.setattr(RowAdamW, "_update_rows", recorded)
    train(made, tmp_path / "run", baselines=False, reporter=notes)
    assert len(updated) == 6, "one step for two batches"
    assert max(updated) <= 8, "ids of the batch, that of hidden values among them"
    assert any("only the rows of the values in a batch" in note for note in notes.lines)
    assert not [note for note in notes.lines if "padding" in note or "raise max_length" in note], "there is no waste"


@pytest.mark.slow
def test_waste_is_said_with_its_figure(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    rows = small_runs.reviews(150, seed=5)
    for number, row in enumerate(rows[::12]):
        row["text"] = " ".join(["the", "film", f"n{number}"] * 20)
    notes = Notes()
    made = recipe(trained_runs, rows, steps=2, batch_size=64)
    results = train(made, tmp_path / "run", baselines=False, reporter=notes)
    padding = results["training"]["padding_share"]
    assert padding > 1 / 3
    (said,) = (note for note in notes.lines if "padding" in note)
    assert said.startswith(f"train: {padding:.0%} of the tokens")
    assert "the longest text has 32 ids" in said
    (cut,) = (note for note in notes.lines if "texts cut" in note and note.startswith("train"))
    assert "raise max_length" in cut


@pytest.mark.parametrize(
    ("name", "options", "kind", "own"),
    [
        ("adam", {"beta2": 0.98, "eps": 1e-9}, torch.optim.Adam, {"betas": (0.9, 0.98), "eps": 1e-9}),
        ("adadelta", {"rho": 0.95, "eps": 1e-6}, torch.optim.Adadelta, {"rho": 0.95, "eps": 1e-6}),
        ("sgd", {"momentum": 0.5}, torch.optim.SGD, {"momentum": 0.5}),
    ],
)
def test_other_optimizers_are_those_of_torch(name: str, options: dict[str, float], kind: Any, own: Any) -> None:
    """Their weight decay is the gradient of the L2 loss, and not that of tables, embeddings and biases."""
    model = make_model("bert", METHODS["upa"](vector_size=4), tuning="full")
    rates = {"learning_rate": 0.1, "backbone_learning_rate": 0.01, "weight_decay": 0.3}
    settings = TrainingRecipe(**rates, optimizer=name, optimizer_options=options)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer = build_optimizer(model, settings)
    assert type(optimizer) is kind
    optimizer.step()
    for parameter_name in ("head.weight", "head.bias", "method.tables.0", "backbone.embeddings.word_embeddings.weight"):
        expected = nn.Parameter(before[parameter_name])
        decays = parameter_name == "head.weight"
        rate = 0.01 if parameter_name.startswith("backbone") else 0.1
        single = kind([expected], lr=rate, weight_decay=0.3 if decays else 0.0, **own)
        expected.grad = torch.ones_like(expected)
        single.step()
        assert torch.allclose(model.get_parameter(parameter_name), expected, atol=1e-7), parameter_name


@needs_lab
@pytest.mark.slow
def test_a_run_with_another_optimizer(trained_runs: TrainedRuns) -> None:
    words = small_runs.train_command(trained_runs.table(ROWS), "", backbone="cnn", method="upa")
    given = ["optimizer=adadelta", "optimizer_options.rho=0.9", "schedule=constant", "max_head_norm=0.02"]
    run = trained_runs.trained([*words, *(f"training.{one}" for one in given), "--no-baselines"])
    model = load_model(run)
    assert float(model.head.weight.detach().norm(dim=1).max()) <= 0.02 + 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sgd", "optimizer_options": {"rho": 0.9}}, "sgd has no option rho: it has momentum"),
        ({"optimizer": "adam", "optimizer_options": {"beta1": 2.0}}, "beta1 is 2.0: give a number from 0 to 1"),
        ({"optimizer": "adam", "table_updates": "rows"}, "table_updates rows is for adamw"),
        ({"optimizer": "lion"}, "'adamw', 'adam', 'adadelta' or 'sgd'"),
        ({"max_head_norm": 0}, "greater than 0"),
    ],
)
def test_wrong_optimizers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrainingRecipe.from_dict(options)


def test_tables_are_sharded_on_the_device_that_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of GPUs exchange rows of tables that are there."""
    devices: list[str] = []

    def sharded(model: nn.Module) -> None:
        devices.extend(p.device.type for name, p in model.named_parameters() if "tables" in name)
        raise InterruptedError

    monkeypatch.setattr(neural, "default_device", lambda: "meta")
    monkeypatch.setattr(neural, "process_count", lambda: 2)
    monkeypatch.setattr(sharding, "ShardedTables", sharded)
    model, settings = make_model("bert", METHODS["pln"]()), TrainingRecipe(table_updates="rows")
    rows: Any = {"length": [3, 4]}
    with pytest.raises(InterruptedError):
        neural.fit(model, rows, rows, settings, RunFolder(tmp_path), Reporter())
    assert devices == ["meta", "meta"]
