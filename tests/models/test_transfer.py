"""Attribute parameters of one run in another: taken over by value, frozen or learned further."""

from __future__ import annotations

import re
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

from attribune import AttributeModel, Categorical, Classification, MultiLabel, Numeric, Schema, load_run
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
    model = AttributeModel.build(
        str(trained_runs.backbone()),
        schema,
        task=Classification(classes=2),
        method=recipe(trained_runs).learner.method,
    )
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
    tables = after.values.tables()
    assert all(
        not torch.equal(after.get_parameter(name)[: len(given.tensors[name])], given.tensors[name]) for name in tables
    )


@pytest.mark.exhaustive
def test_by_flag_beside_other_methods(
    trained_runs: TrainedRuns, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, table = tmp_path / "run", recipe(trained_runs).data.train
    words = [
        "train",
        str(table),
        "--text",
        "text",
        "--label",
        "stars",
        "--attributes",
        "user",
        "--multi-label",
        "tags:;",
    ]
    words += ["--backbone", str(trained_runs.backbone()), "--max-length", "32", "--init-attributes", str(source)]
    words += ["--compare", "none", "--no-baselines", "--output", str(run)]
    words += ["--set", "method.bottleneck=8", "method.vector_size=8", "training.steps=4"]
    assert main(words) == 0, capsys.readouterr().err
    written = yaml.safe_load((run / "recipe.yaml").read_text())
    assert written["transfer"] == {"run": str(source), "frozen": True, "full_model": False}
    other = yaml.safe_load((run / "compare" / "none" / "recipe.yaml").read_text())
    assert other["transfer"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": ["user"]}, r"the attributes are user \(categorical\), but .* has user \(categorical\), tags"),
        ({"method": {"name": "injector", **SMALL, "vector_size": 4}}, r"has one of shape .* of shape \(8, 4\)"),
        (
            {"separator": "|"},
            r"attribute 'tags' has separator='\|', but .* has ';': its values would be read differently",
        ),
        ({"missing": ("", "u3")}, r"the texts that mean no value are \['', 'u3'\], but .*: give the same data.missing"),
        ({"method": {"name": "upa"}}, r"\(method injector\) has none where method 'upa' has method\.\S+ of shape"),
        ({"method": {"name": "none"}}, "method 'none' has no attribute parameters to take over"),
        ({"transfer": {"run": "nowhere"}}, "nowhere"),
        ({"backbone": "another"}, "whose weights are not those of"),
    ],
)
def test_what_does_not_fit_is_refused(
    trained_runs: TrainedRuns,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # which is asked for what is no folder
    tree = recipe(trained_runs).model_dump()
    tree["transfer"] = {"run": str(source)}
    if "data" in changes:
        tree["data"]["attributes"] = [{"name": "user"}]
    elif "separator" in changes:
        tree["data"]["attributes"][1]["separator"] = "|"
    elif "missing" in changes:
        tree["data"]["missing"] = changes["missing"]
    elif "backbone" in changes:
        tree["backbone"]["name"] = str(small_runs.save_backbone(tmp_path / "another", seed=1))
    else:
        tree |= changes
    with pytest.raises(Exception, match=message) as raised:
        train(Recipe.from_dict(tree), tmp_path / "run", baselines=False)
    assert "attribune" in type(raised.value).__module__
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


# Going on


def test_a_training_goes_on_where_it_ended(trained_runs: TrainedRuns, source: Path, tmp_path: Path) -> None:
    """Known rows are predicted as before, whatever their place in the grown vocabulary; then it learns."""
    still = {"steps": 1, "batch_size": 16, "precision": "float32", "learning_rate": 1e-12, "weight_decay": 0.0}
    transfer = {"run": str(source), "frozen": False, "full_model": True}
    train(recipe(trained_runs, transfer=transfer, training=still), tmp_path / "still", baselines=False)
    before, after = (load_run(run)[1] for run in (source, tmp_path / "still"))
    assert set(after.schema["user"].values) > set(before.schema["user"].values)
    known = [row for row in ROWS if row["user"] in before.schema["user"].values]
    columns = {name: [row[name] for row in known] for name in before.columns}
    np.testing.assert_allclose(after.logits(columns)[0], before.logits(columns)[0], atol=1e-5)
    learned = {**still, "steps": 4, "learning_rate": 0.01}
    train(recipe(trained_runs, transfer=transfer, training=learned), tmp_path / "moved", baselines=False)
    moved = load_run(tmp_path / "moved")[1].logits(columns)[0] - before.logits(columns)[0]
    assert np.abs(moved).max() > 1e-3


@pytest.mark.exhaustive
def test_the_command_takes_the_recipe_of_the_run(source: Path, tmp_path: Path) -> None:
    rows = [{**row, "user": f"new {row['user']}"} for row in ROWS[:40]]
    data = small_runs.write_csv(tmp_path / "more.csv", rows)
    output = tmp_path / "continued"
    assert main(["train", str(data), "--continue", str(source), "--no-baselines", "--output", str(output)]) == 0
    loaded, predictor = load_run(output)
    assert loaded.method == load_run(source)[0].method
    assert loaded.transfer is not None
    assert loaded.transfer.full_model
    users = list(predictor.schema["user"].values)
    old = list(load_run(source)[1].schema["user"].values)
    assert users[: len(old)] == old
    assert set(users[len(old) :]) <= {row["user"] for row in rows}
    assert len(users) > len(old)


@pytest.mark.exhaustive
def test_metrics_may_change_on_the_way(trained_runs: TrainedRuns, source: Path, tmp_path: Path) -> None:
    transfer = {"run": str(source), "frozen": False, "full_model": True}
    short = {"steps": 1, "batch_size": 16}
    changed = recipe(trained_runs, transfer=transfer, training=short, task={"score_by": "matthews"})
    train(changed, tmp_path / "scored", baselines=False)
    assert load_run(tmp_path / "scored")[1].task.main_metric == "matthews"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transfer": {"full_model": True}}, "set frozen to false"),
        (
            {"transfer": {"full_model": True, "frozen": False}, "task": {"kind": "rating"}, "label": "look"},
            "not rating: its head cannot",
        ),
        (
            {"transfer": {"full_model": True, "frozen": False}, "task": {"class_weights": "balanced"}},
            "the task's class_weights is 'balanced', but None in .*: give the same options and columns, or begin",
        ),
        (
            {"transfer": {"full_model": True, "frozen": False}, "method": {"name": "pln"}},
            r"has none where method 'pln' has",
        ),
    ],
)
def test_what_cannot_go_on_is_refused(
    changes: dict[str, Any], message: str, trained_runs: TrainedRuns, source: Path, tmp_path: Path
) -> None:
    changes = {**changes, "transfer": {"run": str(source), **changes["transfer"]}}
    with pytest.raises(ConfigError, match=message):
        train(recipe(trained_runs, **changes), tmp_path / "refused", baselines=False)
    assert not (tmp_path / "refused").exists()


def test_continue_leaves_no_room_for_other_beginnings(source: Path, tmp_path: Path, capsys: Any) -> None:
    table = tmp_path / "x.csv"
    table.write_text("text\nx\n")
    words = ["train", str(table), "--continue", str(source), "--output", str(tmp_path / "no")]
    assert main([*words, "--init-attributes", str(source)]) == 1
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
    assert re.search(
        r"train: \d+ rows have a label that is none of its classes .*: 'maybe' \(", capsys.readouterr().err
    )
