"""Attribute parameters of one run in another: taken over by value, frozen or learned further."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
import torch
import yaml
from families import BERT_METHODS
from trained_runs import TrainedRuns

from attribune import AttribuneError, AttributeModel, Categorical, Classification, MultiLabel, Numeric, Schema, load_run
from attribune.apps.cli import main
from attribune.errors import ConfigError
from attribune.methods import METHODS
from attribune.models.transfer import AttributeSource
from attribune.runs.recipe import Recipe
from attribune.training.train import train

pytestmark = pytest.mark.slow

SMALL = {"bottleneck": 8, "vector_size": 8}
ATTRIBUTES = [{"name": "user"}, {"kind": "multi_label", "name": "tags", "separator": ";"}]


ROWS = small_runs.reviews(160, seed=1, users=10)


def recipe(runs: TrainedRuns, *, label: str = "stars", is_source: bool = False, **changes: Any) -> Recipe:
    """Users 0 to 6 for the source, 3 to 9 for what comes after it."""
    kept = range(7) if is_source else range(3, 10)
    table = runs.table([row for row in ROWS if int(row["user"][1:]) in kept])
    tree = {
        "data": {"train": str(table), "text": "text", "label": label, "attributes": ATTRIBUTES, "max_length": 32},
        "method": {"name": "injector", **SMALL},
        "backbone": {"name": str(runs.backbone())},
        "training": {"steps": 8, "batch_size": 16, "precision": "float32", "evaluate_every": 4},
    }
    return Recipe.from_dict({**tree, **changes})


@pytest.fixture
def source(trained_runs: TrainedRuns) -> Path:
    def make(folder: Path) -> None:
        train(recipe(trained_runs, is_source=True), folder, baselines=False)

    return trained_runs.once("transfer-source", [], make)


def model_of(run: Path) -> AttributeModel:
    return AttributeModel.from_pretrained(run / "model")


@pytest.mark.parametrize("method", [name for name in BERT_METHODS if METHODS[name]().uses_attributes])
def test_attribute_parameters_are_the_method_without_its_task_adapter(method: str, trained_runs: TrainedRuns) -> None:
    schema = Schema.fit({"user": ["a", "b"], "film": ["x", "y"]}, [Categorical("user"), Categorical("film")])
    model = AttributeModel.build(
        str(trained_runs.backbone()), schema, task=Classification(classes=2), method=METHODS[method](), dropout=0.0
    )
    names = model.values.parameters()
    of_method = {name for name, _ in model.named_parameters() if name.startswith("method.")}
    assert of_method - set(names) == {name for name in of_method if ".task." in name}
    assert model.values.tables() <= set(names)
    assert not any(name.startswith(("backbone.", "head.")) for name in names)


@pytest.mark.exhaustive
def test_frozen_parameters_stay_and_the_rest_learns(trained_runs: TrainedRuns, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "frozen"
    results = train(recipe(trained_runs, transfer={"run": str(source)}), target, baselines=False)
    before, after = model_of(source), model_of(target)
    kept = after.values.parameters()
    assert kept
    for name, parameter in before.named_parameters():
        same = torch.equal(parameter, after.get_parameter(name))
        assert same == (name in kept or name.startswith("backbone."))
    assert after.schema.to_dict() == before.schema.to_dict()
    learned = {name for name, _ in after.named_parameters() if ".task." in name or name.startswith("head.")}
    sizes = results["training"]["parameters"]
    assert sizes["trained"] == sum(after.get_parameter(name).numel() for name in learned)
    assert sizes["stored"] == sizes["trained"] + sum(parameter.numel() for parameter in kept.values())
    rows = pd.DataFrame({"text": ["a great plot"] * 2, "user": ["u9", None], "tags": ["", ""]})
    unknown, none = load_run(target)[1].logits(rows)[0]
    np.testing.assert_allclose(unknown, none, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
def test_parameters_that_learn_further_begin_at_the_sources(
    trained_runs: TrainedRuns, source: Path, tmp_path: Path
) -> None:
    given = AttributeSource.load(source)
    fitted = Schema.fit({"user": ["u8", "u8", "u4"], "tags": ["war;new", "", ""]}, recipe(trained_runs).data.kinds())
    schema = given.schema_with(fitted, frozen=False)
    users, tags = schema["user"], schema["tags"]
    old = given.schema["user"]
    assert users.values == (*old.values, "u8")
    assert tags.values == (*given.schema["tags"].values, "new")
    known = old.values.index("u4") + 1
    assert users.counts[known] == old.counts[known] + 1
    assert (users.counts[-1], tags.start) == (2, users.slots)
    options = {"task": Classification(classes=2), "method": recipe(trained_runs).learner.method}
    model = AttributeModel.build(str(trained_runs.backbone()), schema, **options)
    initial = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    given.load_into(model, frozen=False)
    for name, parameter in model.values.parameters().items():
        assert parameter.requires_grad
        rows = len(given.tensors[name])
        assert torch.equal(parameter[:rows], given.tensors[name])
        assert torch.equal(parameter[rows:], initial[name][rows:])
        assert (len(parameter) > rows) == (name in model.values.tables())
    assert torch.equal(model.head.weight, initial["head.weight"])
    learned = {"run": str(source), "frozen": False}
    train(recipe(trained_runs, transfer=learned), tmp_path / "learned", baselines=False)
    after = model_of(tmp_path / "learned")
    assert set(after.schema["user"].values) == {f"u{number}" for number in range(10)}
    for name in after.values.tables():
        assert not torch.equal(after.get_parameter(name)[: len(given.tensors[name])], given.tensors[name])


@pytest.mark.exhaustive
def test_by_flag_beside_other_methods(trained_runs: TrainedRuns, source: Path, tmp_path: Path) -> None:
    run, table = tmp_path / "run", recipe(trained_runs).data.train
    words = ["train", str(table), "--text", "text", "--label", "stars", "--attributes", "user"]
    words += ["--multi-label", "tags:;", "--backbone", str(trained_runs.backbone()), "--max-length", "32"]
    words += ["--init-attributes", str(source), "--compare", "none", "--no-baselines", "--output", str(run)]
    assert main([*words, "--set", "method.bottleneck=8", "method.vector_size=8", "training.steps=4"]) == 0
    own, other = (yaml.safe_load((place / "recipe.yaml").read_text()) for place in (run, run / "compare" / "none"))
    assert own["transfer"] == {"run": str(source), "frozen": True, "full_model": False}
    assert other["transfer"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tree: tree["data"].update(attributes=ATTRIBUTES[:1]),
            r"the attributes are user \(categorical\), but .* has user \(categorical\), tags",
        ),
        (lambda tree: tree["method"].update(vector_size=4), r"has one of shape .* of shape \(8, 4\)"),
        (
            lambda tree: tree["data"]["attributes"][1].update(separator="|"),
            r"attribute 'tags' has separator='\|', but .* has ';': its values would be read differently",
        ),
        (
            lambda tree: tree["data"].update(missing=("", "u3")),
            r"the texts that mean no value are \['', 'u3'\], but .*: give the same data.missing",
        ),
        (
            lambda tree: tree.update(method={"name": "upa"}),
            r"\(method injector\) has none where method 'upa' has method\.\S+ of shape",
        ),
        (lambda tree: tree.update(method={"name": "none"}), "method 'none' has no attribute parameters to take over"),
        (lambda tree: tree.update(transfer={"run": "nowhere"}), "nowhere"),
        (lambda tree: tree["backbone"].update(name="another"), "whose weights are not those of"),
    ],
)
def test_what_does_not_fit_is_refused(
    trained_runs: TrainedRuns,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[str, Any]], object],
    message: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # which is asked for what is no folder
    small_runs.save_backbone(tmp_path / "another", seed=1)
    monkeypatch.chdir(tmp_path)
    tree = recipe(trained_runs, transfer={"run": str(source)}).model_dump()
    change(tree)
    with pytest.raises(AttribuneError, match=message):
        train(Recipe.from_dict(tree), "run", baselines=False)
    assert not (tmp_path / "run").exists()


def test_a_grown_schema_reads_the_old_values_as_before() -> None:
    kinds = [Categorical("a", unseen="hash", buckets=8), MultiLabel("b", separator="|"), Numeric("c", bins=2)]
    first = Schema.fit({"a": ["x", "y"], "b": ["p|q", "q"], "c": [1, 2]}, kinds)
    second = Schema.fit({"a": ["z"] * 3, "b": ["r|q|p"] * 3, "c": [7, 8, 9]}, kinds)
    grown = first.grown(second)
    ids = grown.encode({"a": ["x"], "b": ["q|r"], "c": [1]})[0]
    old = first.encode({"a": ["x"], "b": ["q"], "c": [1]})[0]
    assert ids[0, 0] == old[0, 0]
    assert ids[0, 1] == old[0, 1]
    assert ids[0, 2] == 3, "the new value comes after the old ones"
    assert (first.slots, grown.slots) == (4, 5)
    assert grown["b"].counts.tolist() == [0, 5, 4, 3]
    assert grown["c"].edges == first["c"].edges
    assert grown["a"].counts.sum() == 5
    again = Schema.from_dict(grown.to_dict())
    assert again.to_dict() == grown.to_dict()
    other = Schema.fit({"a": ["x"]}, [Categorical("a", unseen="hash", buckets=16)])
    with pytest.raises(ConfigError, match="attribute 'a' is hashed in two ways"):
        Schema.fit({"a": ["x"]}, [kinds[0]]).grown(other)


FURTHER = {"full_model": True, "frozen": False}


def test_a_training_goes_on_where_it_ended(trained_runs: TrainedRuns, source: Path, tmp_path: Path) -> None:
    """Known rows are predicted as before, whatever their place in the grown vocabulary; then it learns."""
    still = {"steps": 1, "batch_size": 16, "precision": "float32", "learning_rate": 1e-12, "weight_decay": 0.0}
    transfer = {"run": str(source), **FURTHER}
    for name, training in (("still", still), ("moved", {**still, "steps": 4, "learning_rate": 0.01})):
        train(recipe(trained_runs, transfer=transfer, training=training), tmp_path / name, baselines=False)
    before, after, moved = (load_run(run)[1] for run in (source, tmp_path / "still", tmp_path / "moved"))
    assert set(after.schema["user"].values) > set(before.schema["user"].values)
    known = [row for row in ROWS if row["user"] in before.schema["user"].values]
    columns = {name: [row[name] for row in known] for name in before.columns}
    expected, same, other = (run.logits(columns)[0] * run.model.temperature for run in (before, after, moved))
    np.testing.assert_allclose(same, expected, atol=1e-5)
    assert np.abs(other - expected).max() > 1e-3


@pytest.mark.exhaustive
def test_the_command_takes_the_recipe_of_the_run(source: Path, tmp_path: Path) -> None:
    rows = [{**row, "user": f"new {row['user']}"} for row in ROWS[:40]]
    data = small_runs.write_csv(tmp_path / "more.csv", rows)
    output = tmp_path / "continued"
    assert main(["train", str(data), "--continue", str(source), "--no-baselines", "--output", str(output)]) == 0
    loaded, predictor = load_run(output)
    assert loaded.method == load_run(source)[0].method
    assert loaded.transfer.full_model
    users = list(predictor.schema["user"].values)
    old = list(load_run(source)[1].schema["user"].values)
    assert users[: len(old)] == old
    assert set(users[len(old) :]) <= {row["user"] for row in rows}
    assert len(users) > len(old)


@pytest.mark.exhaustive
def test_metrics_may_change_on_the_way(trained_runs: TrainedRuns, source: Path, tmp_path: Path) -> None:
    short = {"transfer": {"run": str(source), **FURTHER}, "training": {"steps": 1, "batch_size": 16}}
    train(recipe(trained_runs, **short, task={"score_by": "matthews"}), tmp_path / "scored", baselines=False)
    assert load_run(tmp_path / "scored")[1].task.main_metric == "matthews"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transfer": {"full_model": True}}, "set frozen to false"),
        ({"task": {"kind": "rating"}, "label": "look"}, "not rating: its head cannot"),
        (
            {"task": {"class_weights": "balanced"}},
            "the task's class_weights is 'balanced', but None in .*: give the same options and columns, or begin",
        ),
        ({"method": {"name": "pln"}}, r"has none where method 'pln' has"),
    ],
)
def test_what_cannot_go_on_is_refused(
    changes: dict[str, Any], message: str, trained_runs: TrainedRuns, source: Path, tmp_path: Path
) -> None:
    transfer = {"run": str(source), **changes.get("transfer", FURTHER)}
    with pytest.raises(ConfigError, match=message):
        train(recipe(trained_runs, **{**changes, "transfer": transfer}), tmp_path / "refused", baselines=False)
    assert not (tmp_path / "refused").exists()


def test_continue_leaves_no_room_for_other_beginnings(source: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["train", str(small_runs.write_csv(tmp_path / "x.csv", [{"text": "x"}])), "--continue", str(source)]
    assert main([*words, "--output", str(tmp_path / "no"), "--init-attributes", str(source)]) == 1
    assert "leave out --preset and --init-attributes" in capsys.readouterr().err


def test_a_run_goes_on_with_its_classes_alone(
    trained_runs: TrainedRuns, source: Path, tmp_path: Path, capsys: Any
) -> None:
    rows = [row | {"stars": "maybe"} for row in small_runs.reviews(40, seed=8)]
    words = ["train", str(trained_runs.table(rows)), "--continue", str(source), "--no-baselines"]
    assert main([*words, "--output", str(tmp_path / "on")]) == 1
    said = capsys.readouterr().err
    assert f"none of its training rows has a class of {source}, which is trained further ('bad', 'good')" in said
    assert "their labels are maybe: 32: write them as these classes" in said
    rows[::2] = small_runs.reviews(40, seed=8)[::2]
    words[1] = str(trained_runs.table(rows))
    assert main([*words, "--output", str(tmp_path / "on")]) == 0
    said = r"train: \d+ rows have a label that is none of its classes .*: 'maybe' \("
    assert re.search(said, capsys.readouterr().err)
