from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.fields import FieldInfo

from attribune import AttributeClassifier, AttributeRegressor, train
from attribune.backbones.untrained import UNTRAINED
from attribune.core.config import Settings, read_yaml, setting
from attribune.core.flags import FLAGS
from attribune.data.windows import HeadTail
from attribune.errors import ConfigError
from attribune.methods import METHODS
from attribune.runs.presets import preset_names, read_preset
from attribune.runs.recipe import RECIPE_END, Recipe, TrainingRecipe
from attribune.runs.settings_tree import SETTINGS, override, put
from attribune.schema import Categorical, MultiLabel, Numeric
from attribune.tasks import TASKS, Classification
from attribune.tasks.inputs import InputSettings, SingleText

DATA: dict[str, Any] = {"train": "a.csv", "text": "t", "label": "y", "attributes": [{"name": "u"}]}


def recipe(**parts: Any) -> Recipe:
    return Recipe.from_dict({"data": DATA, **parts})


def test_defaults() -> None:
    made = recipe()
    assert made.method["name"] == "injector"
    assert made.task_kind == "classification"
    assert recipe(data={**DATA, "label": ["look", "taste"]}).task_kind == "aspects"
    assert made.data.text == ("t",)
    assert made.data.kinds() == (Categorical("u"),)
    assert made.learner.tuning == "frozen"


def test_a_path_is_a_name() -> None:
    made = recipe(data={**DATA, "test": Path("tables", "b.csv")}, backbone={"name": Path("bert")})
    assert made.data.test == str(Path("tables", "b.csv"))
    assert made.learner.backbone.name == "bert"


@pytest.mark.parametrize("value", [1.5, "most"])
def test_a_setting_with_values_of_several_kinds_has_one_error(value: object) -> None:
    with pytest.raises(
        ConfigError, match=r"^the recipe has 1 error:\n  - backbone\.attention_dropout: .*, or 'auto', it"
    ):
        recipe(backbone={"attention_dropout": value})


def test_a_recipe_survives_its_yaml(tmp_path: Path) -> None:
    made = recipe(
        data={
            **DATA,
            "attributes": [
                {"name": "u", "min_count": 2},
                {"kind": "multi_label", "name": "tags", "separator": "|"},
                {"kind": "numeric", "name": "price"},
            ],
            "window": "head+tail:20+10",
            "split": {"by": "time", "column": "day", "fractions": [0.7, 0.2, 0.1]},
        },
        method={"name": "adapter", "bottleneck": 5},
        training={"evaluate_every": 7, "precision": "bf16"},
    )
    (tmp_path / "r.yaml").write_text(made.to_yaml(), encoding="utf-8")
    assert Recipe.from_dict(read_yaml(tmp_path / "r.yaml")) == made
    assert made.to_yaml().endswith(RECIPE_END)
    assert made.data.kinds() == (Categorical("u", min_count=2), MultiLabel("tags", separator="|"), Numeric("price"))
    assert made.data.text_input().window == HeadTail(20, 10)


def test_the_backbone_learns_more_slowly_when_all_of_it_learns() -> None:
    assert recipe(method={"name": "none"}).learner.rates["backbone_learning_rate"] == 5e-5
    assert recipe(training={"learning_rate": 0.1}).learner.rates["backbone_learning_rate"] == 0.1
    full = recipe(backbone={"tuning": "full"}, training={"backbone_learning_rate": 0.2})
    assert full.learner.rates["backbone_learning_rate"] == 0.2


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"data": {**DATA, "attributes": []}}, "method 'injector' needs attributes"),
        ({"data": {**DATA, "text": []}}, "data.text: "),
        ({"data": {**DATA, "text": "y"}}, "column y is the label and also a text"),
        ({"data": {**DATA, "label": "u"}}, "column u is the label and also a text or an attribute"),
        ({"data": {**DATA, "label": ["a", "b"]}, "task": {"kind": "rating"}}, "reads one label column, 2 are named"),
        ({"data": {**DATA, "attributes": [{"name": "u"}, {"name": "u"}]}}, "attribute u is named twice"),
        ({"data": {**DATA, "attributes": [{"kind": "word", "name": "u"}]}}, "unknown kind of attribute 'word'"),
        ({"data": {**DATA, "attributes": [{"kind": ["x"], "name": "u"}]}}, "unknown kind of attribute"),
        ({"data": {**DATA, "attributes": [{"name": "u", "sep": 1}]}}, "'u' has no option sep: as categorical it has"),
        ({"data": {**DATA, "attributes": [{"name": "u", "min_count": "x"}]}}, "attribute 'u'"),
        ({"data": {**DATA, "max_length": 3}}, "data.max_length"),
        ({"data": {**DATA, "split": {"seed": 2**32}}}, "data.split.seed"),
        ({"method": {"name": "linear", "C": 3}}, "method 'linear' has no option C"),
        ({"method": {"name": {}}}, "unknown method {}"),
        ({"task": {"kind": ["x"]}}, r"unknown task \['x'\]"),
        ({"training": {"evaluate_every": True}}, "it is True: write epoch"),
        ({"training": {"evaluate_every": "5"}}, "it is '5': write epoch"),
        ({"training": {"learning_rate": float("inf")}}, "finite number"),
    ],
)
def test_what_cannot_be(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(**parts)


def test_the_name_of_a_method_or_a_task_stands_for_its_tree() -> None:
    assert recipe(method="pln", task="rating") == recipe(method={"name": "pln"}, task={"kind": "rating"})
    settings: dict[str, Any] = {"method": {"name": "injector", "bottleneck": 8}}
    put(settings, "method", "pln")
    assert settings == {"method": {"name": "pln"}}
    override(settings, {"method": "injector", "task": "rating"})
    put(settings, "method.bottleneck", 4)
    assert settings == {"method": {"name": "injector", "bottleneck": 4}, "task": {"kind": "rating"}}
    described: dict[str, Any] = {"data": {"values": {"task": {"table": "old.csv"}, "method": {"table": "m.csv"}}}}
    override(described, {"data": {"values": {"task": "new.csv", "method": {"key": "name"}}}})
    values = {"task": "new.csv", "method": {"table": "m.csv", "key": "name"}}
    assert described == {"data": {"values": values}}, "an attribute may have these names"


@pytest.mark.parametrize("content", [b"- a", b"a: [", b"\xff\xfe", b"a\0: 1", b""])
def test_files_that_are_no_recipe(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"r\.yaml"):
        read_yaml(tmp_path / "r.yaml")
    with pytest.raises(ConfigError, match=r"other\.yaml cannot be read"):
        read_yaml(tmp_path / "other.yaml")


def test_a_file_that_is_too_large_for_settings_is_not_read(tmp_path: Path) -> None:
    """Such as a table that was given in the place of a recipe."""
    for size, message in ((2**20, "is not a tree of settings"), (2**20 + 1, "has 1,048,577 bytes, but settings have")):
        (tmp_path / "r.yaml").write_bytes(b"#" * size)
        with pytest.raises(ConfigError, match=message):
            read_yaml(tmp_path / "r.yaml")


@pytest.mark.parametrize("name", preset_names())
def test_the_recipes_of_the_papers_are_recipes(name: str) -> None:
    settings = read_preset(name)
    settings["data"] = {**DATA, "attributes": [{"name": "user"}, {"name": "product"}], **settings.get("data", {})}
    recipe = Recipe.from_dict(settings)
    assert recipe.backbone.name == "google-bert/bert-base-uncased"
    assert recipe.learner.name == settings["method"]["name"]


def test_old_names_of_settings_are_read_in_saved_folders_alone() -> None:
    settings = {"data": DATA, "transfer": {"run": "runs/a", "frozen": False, "everything": True}}
    recipe = Recipe.from_dict(settings, saved=True)
    assert recipe.transfer.full_model
    with pytest.raises(ConfigError, match=r"transfer\.everything: there is no such setting"):
        Recipe.from_dict(settings)


def test_a_task_of_ones_own_says_what_of_a_row_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneText(SingleText):
        def check(self, settings: InputSettings, *, task: str) -> None:
            if settings.pair:
                raise ConfigError(f"task {task!r} reads one text alone")
            super().check(settings, task=task)

        def label_columns(self, settings: InputSettings) -> tuple[str, ...]:
            return (*settings.label, *settings.text)

        def options(self, settings: InputSettings) -> dict[str, Any]:
            return {"classes": settings.attributes}

    class Odd(Classification):
        kind = "odd"
        input = OneText()

    monkeypatch.setitem(TASKS, "odd", Odd)
    made = recipe(task="odd")
    assert (made.label_columns, made.task_options["classes"]) == (("y", "t"), ("u",))
    with pytest.raises(ConfigError, match="task 'odd' reads one text alone"):
        recipe(task="odd", data={**DATA, "text_pair": "p"})
    with pytest.raises(ConfigError, match="task 'odd' reads one label column, 2 are named"):
        recipe(task="odd", data={**DATA, "label": ["y", "z"]})


def fields_of(group: type[Settings], start: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in group.model_fields.items():
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        groups = [kind for kind in kinds if issubclass(kind, Settings)]
        yield from fields_of(groups[0], f"{start}{name}.") if groups else [(f"{start}{name}", field)]


def test_every_setting_says_what_it_means() -> None:
    fields = dict(fields_of(Recipe))
    silent = [path for path, field in fields.items() if not field.description]
    assert silent == ["method", "task"], "which say so by their options"


def test_a_setting_that_has_a_flag_is_declared_by_it() -> None:
    fields = dict(fields_of(Recipe))
    for path, flag in FLAGS.items():
        if path.partition(".")[0] in ("method", "task"):
            continue
        field = fields[path]
        assert str(field.description).startswith(flag.meaning), path
        assert flag.default is ... or field.default == flag.default, path


def test_flags_name_what_there_is() -> None:
    assert all(kind in FLAGS["task.kind"].meaning for kind in TASKS)
    assert all(name in FLAGS["backbone.name"].meaning for name in UNTRAINED)
    assert FLAGS["method.name"].default in METHODS


def test_a_setting_has_one_default() -> None:
    message = "training.batch_size has two defaults, 32 and 7: leave the second out"
    with pytest.raises(ValueError, match=re.escape(message)):
        setting("training.batch_size", default=7)


@pytest.mark.parametrize(
    ("rows", "training", "epochs"),
    [
        (3_000, {}, 5),
        (641, {}, 5),  # 21 steps a pass
        (640, {}, 5),
        (608, {}, 6),  # 19
        (300, {}, 10),
        (1, {}, 100),
        (300, {"batch_size": 8}, 5),
        (300, {"gradient_accumulation": 5}, 50),
        (300, {"epochs": 2.5}, 2.5),
    ],
)
def test_few_rows_are_read_more_often(rows: int, training: dict[str, Any], epochs: float) -> None:
    assert TrainingRecipe.from_dict(training).epochs_of(rows) == epochs


def test_a_saved_recipe_keeps_its_epochs() -> None:
    """Earlier versions wrote none where there were five."""
    assert TrainingRecipe.from_dict({}, saved=True).epochs_of(10) == 5


def test_the_arguments_of_a_training_are_declared_as_settings() -> None:
    others = "output settings compare baselines budget resume tables reporter reading"
    parameters = inspect.signature(train).parameters
    assert parameters.keys() - SETTINGS.keys() == set(others.split())
    shared = parameters.keys() & SETTINGS.keys() - {"data"}
    assert all(parameters[name].default is None for name in shared), "which stands for the default of the setting"
    for estimator in (AttributeClassifier, AttributeRegressor):
        given = inspect.signature(estimator).parameters
        shared = given.keys() & SETTINGS.keys() - {"text", "attributes"}
        assert {"text_pair", "values", "method", "backbone", "tuning", "epochs", "max_length"} <= shared
        assert all(given[name].default is None for name in shared), "which stands for the default of the setting"
