"""Experiments: sets, settings and folds, and the cells that result; those of packages, and that for a user's table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import yaml
from pydantic import AfterValidator, Field, field_validator, model_validator

from attribune.core.config import Settings, read_yaml
from attribune.core.flags import USUAL_LENGTH
from attribune.core.plugins import load_plugins
from attribune.errors import ConfigError
from attribune.models.baselines import BASELINES
from attribune.runs.settings_tree import method_name, written_out

_Named = TypeVar("_Named")
SelectBy: TypeAlias = Literal["log_loss", "main_metric"]
"""What settings are compared by on validation rows."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ,.+=_-]*$"


class SetPlan(Settings):
    """One data set of an experiment.

    Args:
        name: for tables and folders.
        title: for tables; by default the name.
        prepared: folder that ``attribune data prepare`` wrote, instead of `data`.
        data: the data part of a recipe, for a user's table.
        task: the task part of a recipe.
        training: changes to the training part, such as `steps`; a setting's own go before them.
        series_training: changes for the settings of a series alone, such as the `epochs` of adapters.
        folds: test folds, for a set with folds; otherwise seeds of a random split, if any, and of the training.
        rows: maximum number of training rows; that of validation rows is a tenth of it.
        cold: share of the values of each categorical attribute whose training rows are left out, before `rows` caps
            them (Amplayo et al. 2018, cold start); which values is the same for every fold and setting.
        test_rows: maximum number of test rows, the same for all folds of a set whose test part is given.
        labels: the label columns that are predicted.
        disjoint: whether every training row has only one of the labels, so that different labels are learned from
            different rows.
        attributes_from: another set of the experiment, from which every setting takes the frozen attribute parameters
            that it learned there on the same fold.
    """

    name: str = Field(pattern=_NAME)
    title: str | None = None
    prepared: str | None = None
    data: dict[str, Any] | None = None
    task: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    series_training: dict[str, dict[str, Any]] = Field(default_factory=dict)
    folds: tuple[int, ...] = Field(default=(0,), min_length=1)
    rows: int | None = Field(default=None, ge=10)
    cold: float | None = Field(default=None, gt=0, lt=1)
    test_rows: int | None = Field(default=None, ge=1)
    labels: tuple[str, ...] | None = Field(default=None, min_length=1)
    disjoint: bool = False
    attributes_from: str | None = None

    @field_validator("folds")
    @classmethod
    def _folds_once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value) or min(value) < 0:
            raise ConfigError(f"folds are {list(value)}: name each once, from 0 on")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> SetPlan:
        if (self.prepared is None) == (self.data is None):
            raise ConfigError(f"the set {self.name!r} needs either prepared (a folder) or data (columns of a table)")
        return self

    @property
    def heading(self) -> str:
        """The title, or the name."""
        return self.title or self.name


class Setting(Settings):
    """One line of an experiment's table: a method, and changes to the recipe.

    Args:
        name: for tables and folders; by default that of the method.
        method: a name, or a tree of options with the name.
        attributes: names of the attributes; by default all.
        data: changes to the data part of the recipe, such as ``shuffled: true``.
        task: changes to the task part, such as ``kind: ordinal``; only settings with the same labels can be compared.
        backbone: changes to the backbone part, such as ``tuning: full``.
        training: changes to the training part; where they name `epochs`, common `steps` do not count, nor does a common
            `backbone_learning_rate` where the backbone is not pretrained.
        rates: whether the learning rates are tuned for this setting, or the factors of its own by which they are
            multiplied; the name of a setting takes its rates.
        series: settings of one series differ in size or in one option, and are joined by a line in plots.
        at: the place on the axis of such a plot, such as the value of the option; by default the number of trained
            parameters.
    """

    name: str = Field(pattern=_NAME)
    method: dict[str, Any]
    attributes: tuple[str, ...] | None = None
    data: dict[str, Any] = Field(default_factory=dict)
    task: dict[str, Any] = Field(default_factory=dict)
    backbone: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    rates: bool | str | tuple[float, ...] = True
    series: str | None = None
    at: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"method": value}
        if not isinstance(value, dict):
            return value
        value = written_out(value)
        return {"name": method_name(value), **value} if isinstance(value.get("method"), dict) else value

    @field_validator("method")
    @classmethod
    def _named(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value.get("name"), str):
            raise ConfigError(f"the method {value!r} has no name: give it, such as {{name: injector}}")
        return value

    @field_validator("rates")
    @classmethod
    def _factors_once(cls, value: bool | str | tuple[float, ...]) -> bool | str | tuple[float, ...]:
        return checked_factors(value) if isinstance(value, tuple) else value

    @property
    def is_baseline(self) -> bool:
        """Whether it is one of the baselines without a backbone, which choose their own settings."""
        return self.method["name"] in BASELINES


class Choice(Settings):
    """One line of the table that shows, for each set, the best of several settings on its validation rows.

    Args:
        of: the names of the settings.
        best_fold: whether only the best fold or seed of the chosen setting is shown, as of papers that take the best of
            several runs on validation rows; its difference is to the reference on the same fold or seed.
    """

    name: str = Field(pattern=_NAME)
    of: tuple[str, ...] = Field(min_length=1)
    best_fold: bool = False

    @model_validator(mode="after")
    def _has_a_choice(self) -> Choice:
        if len(self.of) < 2 and not self.best_fold:
            raise ConfigError(f"the choice {self.name!r} is of one setting: name several, or say best_fold: true")
        return self


def checked_factors(factors: tuple[float, ...]) -> tuple[float, ...]:
    """Return the factors of learning rates; ConfigError unless they are several that differ, above 0."""
    if len(factors) < 2 or len(set(factors)) < len(factors) or not min(factors) > 0:
        raise ConfigError(f"factors are {list(factors)}: name two or more, each once, above 0")
    return factors


class RateSearch(Settings):
    """Tuning of learning rates on validation rows, for each set and setting.

    Args:
        factors: by which the learning rates of the recipe are multiplied.
        fold: the fold on which they are tuned for all folds, or ``each``, on every fold separately. One fold costs
            less, but its trials see rows on which other folds or seeds are tested.
    """

    factors: Annotated[tuple[float, ...], AfterValidator(checked_factors)] = Field(
        default=(0.5, 1.0, 2.0), min_length=2
    )
    fold: Annotated[int, Field(ge=0)] | Literal["each"] = 0


class Cell(Settings):
    """One training: a set, a setting and a fold or seed; with a factor, a trial of learning rates."""

    set: SetPlan
    setting: Setting
    fold: int
    factor: float | None = None

    @property
    def path(self) -> str:
        """The path of its results in the folder of the cells."""
        trial = "" if self.factor is None else f"rate-x{self.factor:g}-"
        return f"{_slug(self.set.name)}/{_slug(self.setting.name)}/{trial}{self.fold}"


class Experiment(Settings):
    """Sets and settings that are run and compared.

    Args:
        title: for reports.
        settings: the lines of the table.
        methods: default options of methods by name.
        data: common settings of the data part of all recipes, as are `backbone` and `training`.
        rates: tuning of the learning rates; None disables it.
        select_by: what learning rates and choices are compared by on validation rows: the log loss, where there is one,
            or the main metric.
        reference: the setting that the others are compared with; by default the first.
        choices: lines that are made of the settings.
        axis: what `at` is, beside the axis of plots.
    """

    what: ClassVar[str] = "the experiment"

    name: str = Field(pattern=_NAME)
    title: str | None = None
    sets: tuple[SetPlan, ...] = Field(min_length=1)
    settings: tuple[Setting, ...] = Field(min_length=1)
    methods: dict[str, dict[str, Any]] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)
    backbone: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    rates: RateSearch | None = None
    select_by: SelectBy = "log_loss"
    reference: str | None = None
    choices: tuple[Choice, ...] = ()
    axis: str | None = None

    @field_validator("sets", "settings", "choices")
    @classmethod
    def _names_once(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        slugs = [_slug(item.name) for item in value]
        twice = sorted({item.name for item, slug in zip(value, slugs, strict=True) if slugs.count(slug) > 1})
        if twice:
            raise ConfigError(f"{twice[0]!r} is named twice: give each a name of its own")
        return value

    @model_validator(mode="after")
    def _known_names(self) -> Experiment:
        names = [setting.name for setting in self.settings]
        if twice := {choice.name for choice in self.choices}.intersection(names):
            raise ConfigError(f"{min(twice)!r} is the name of a setting and of a choice: give each a name of its own")
        chosen = (name for choice in self.choices for name in choice.of)
        for asked in (self.reference, *chosen, *(s.rates for s in self.settings if isinstance(s.rates, str))):
            if asked is not None and asked not in names:
                raise ConfigError(f"there is no setting {asked!r}: choose one of {', '.join(names)}")
        series = {setting.series for setting in self.settings if setting.series is not None}
        for plan in self.sets:
            if unknown := sorted(plan.series_training.keys() - series):
                known = ", ".join(sorted(series)) or "none"
                raise ConfigError(
                    f"no setting is of the series {unknown[0]!r} of the set {plan.name!r}: there is {known}"
                )
        sets = {plan.name: plan for plan in self.sets}
        for plan in self.sets:
            if plan.attributes_from is None:
                continue
            source = sets.get(plan.attributes_from)
            if source is None or source.attributes_from is not None:
                raise ConfigError(
                    f"the set {plan.name!r} takes its attributes from {plan.attributes_from!r}: name a set of the "
                    "experiment that takes none over itself"
                )
            probe = {self.rates.fold} if self.rates is not None and self.rates.fold != "each" else set()
            if lacking := sorted({*plan.folds, *probe} - set(source.folds)):
                raise ConfigError(f"the set {source.name!r} has no fold {lacking[0]}, on which {plan.name!r} builds")
        return self

    @classmethod
    def read(cls, path: str | Path) -> Experiment:
        """Read a YAML file; ConfigError naming the file, with every error at once."""
        return cls.from_dict(read_yaml(path, what=cls.what), source=str(path))

    def to_yaml(self) -> str:
        """Return the experiment as YAML, without defaults."""
        tree = self.model_dump(mode="json", exclude_defaults=True)
        return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)

    @property
    def first(self) -> str:
        """The name of the setting that others are compared with."""
        return self.reference or self.settings[0].name

    def only(self, *, sets: Sequence[str] = (), settings: Sequence[str] = (), folds: Sequence[int] = ()) -> Experiment:
        """Return the experiment of some sets, settings and folds, by default of all.

        A set from which a chosen one takes its attribute parameters comes along, as does a setting whose rates a chosen
        one takes.

        Raises:
            ConfigError: for an unknown set or setting, or a fold that a set does not have.
        """
        plans = {plan.name: plan for plan in self.sets}
        lines = {setting.name: setting for setting in self.settings}
        chosen = [_known("set", name, plans) for name in sets or plans]
        named = [_known("setting", name, lines) for name in settings or lines]
        chosen = [*(plans[plan.attributes_from] for plan in chosen if plan.attributes_from), *chosen]
        named = [*(lines[one.rates] for one in named if isinstance(one.rates, str)), *named]
        if folds:
            for plan in chosen:
                if lacking := sorted({*folds} - {*plan.folds}):
                    raise ConfigError(
                        f"the set {plan.name!r} has no fold or seed {lacking[0]}: choose from "
                        f"{', '.join(map(str, plan.folds))}"
                    )
            chosen = [self._on_folds(plan, folds) for plan in chosen]
        distinct = {plan.name: plan for plan in chosen}, {setting.name: setting for setting in named}
        return self.model_copy(update={"sets": (*distinct[0].values(),), "settings": (*distinct[1].values(),)})

    def _on_folds(self, plan: SetPlan, folds: Sequence[int]) -> SetPlan:
        """Return a set on some folds; one on which others build is also trained on that on which rates are tuned."""
        is_source = any(other.attributes_from == plan.name for other in self.sets)
        probe = [self.rates.fold] if is_source and self.rates is not None and self.rates.fold != "each" else []
        return plan.model_copy(update={"folds": tuple(dict.fromkeys([*folds, *probe]))})

    def with_steps(self, steps: int) -> Experiment:
        """Return the experiment with this number of steps in every training, and no fewer checks."""

        def trained(training: dict[str, Any]) -> dict[str, Any]:
            kept = {name: value for name, value in training.items() if name not in ("steps", "epochs")}
            every = kept.get("evaluate_every")
            return kept | ({"evaluate_every": min(every, steps)} if isinstance(every, int) else {})

        sets = (
            plan.model_copy(
                update={
                    "training": trained(plan.training),
                    "series_training": {name: trained(each) for name, each in plan.series_training.items()},
                }
            )
            for plan in self.sets
        )
        settings = (one.model_copy(update={"training": trained(one.training)}) for one in self.settings)
        common = trained(self.training) | {"steps": steps}
        return self.model_copy(update={"training": common, "sets": (*sets,), "settings": (*settings,)})

    def compared_with(self, reference: str | None) -> Experiment:
        """Return the experiment with another reference, if one is given; ConfigError for an unknown name."""
        if reference is None:
            return self
        lines = {setting.name: setting for setting in self.settings}
        return self.model_copy(update={"reference": _known("setting", reference, lines).name})

    def setting(self, name: str) -> Setting:
        """Return a setting by its name."""
        return next(setting for setting in self.settings if setting.name == name)

    def trials(self, cell: Cell) -> tuple[Cell, ...]:
        """Return the trials of learning rates that a cell needs."""
        setting = cell.setting
        if self.rates is None or cell.factor is not None or setting.is_baseline or not setting.rates:
            return ()
        probe = self.setting(setting.rates) if isinstance(setting.rates, str) else setting
        factors = probe.rates if isinstance(probe.rates, tuple) else self.rates.factors
        fold = cell.fold if self.rates.fold == "each" else self.rates.fold
        return tuple(Cell(set=cell.set, setting=probe, fold=fold, factor=factor) for factor in factors)

    def source(self, cell: Cell) -> Cell | None:
        """Return the cell from which a cell takes its attribute parameters."""
        plans = {plan.name: plan for plan in self.sets}
        if cell.set.attributes_from is None or cell.setting.is_baseline:
            return None
        return Cell(set=plans[cell.set.attributes_from], setting=cell.setting, fold=cell.fold)

    def needs(self, cell: Cell) -> tuple[Cell, ...]:
        """Return the cells that must be done before a cell."""
        source = self.source(cell)
        return self.trials(cell) if source is None else (*self.trials(cell), source)

    def is_source(self, cell: Cell) -> bool:
        """Whether other cells need the model of a cell."""
        return cell.factor is None and any(plan.attributes_from == cell.set.name for plan in self.sets)

    def cells(self) -> Iterator[Cell]:
        """Yield all cells in the order of running: for each set the trials, then fold by fold the settings."""
        for plan in self.sets:
            scored = [Cell(set=plan, setting=setting, fold=fold) for fold in plan.folds for setting in self.settings]
            yield from {trial.path: trial for cell in scored for trial in self.trials(cell)}.values()
            yield from scored

    def recipe(self, cell: Cell, *, data: Mapping[str, Any], task: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tree of a cell's recipe; `data` has the columns and files of the set.

        As in the papers, a method is alone, probabilities are not calibrated, and a window cuts the end of texts.
        """
        setting = cell.setting
        merged = {"share_window": False, "max_length": USUAL_LENGTH, **self.data, **data, **setting.data}
        evaluation: dict[str, Any] = {}
        if cell.set.labels is not None:
            merged["label"] = list(cell.set.labels)
        if cell.set.disjoint:
            merged["partial_labels"] = True
        if setting.attributes is not None:
            known = {str(attribute["name"]): attribute for attribute in data.get("attributes", ())}
            if missing := [name for name in setting.attributes if name not in known]:
                raise ConfigError(
                    f"the setting {setting.name!r} names the attribute {missing[0]!r}, which {cell.set.name} lacks: "
                    f"choose from {', '.join(known) or 'none'}"
                )
            merged["attributes"] = [known[name] for name in setting.attributes]
            described = merged.get("values", {}).items()
            merged["values"] = {name: values for name, values in described if name in setting.attributes}
            # All settings are compared over the same clusters.
            whole = {name: {"kind": "categorical", "unseen": "unknown"} | dict(each) for name, each in known.items()}
            named = [name for name, each in whole.items() if each["kind"] == "categorical"]
            evaluation["judges"] = [name for name in named if whole[name]["unseen"] != "hash"]
        return {
            "data": merged,
            "evaluation": evaluation,
            "task": {**task, **setting.task},
            "method": {**self.methods.get(setting.method["name"], {}), **setting.method},
            "backbone": {"attention_dropout": None, **self.backbone, **setting.backbone},
            "training": self.training_of(cell),
        }

    def training_of(self, cell: Cell) -> dict[str, Any]:
        """Return the training part of a cell's recipe."""
        from attribune.backbones.untrained import UNTRAINED  # torch, which tables do without

        own, backbone = cell.setting.training, {**self.backbone, **cell.setting.backbone}
        of_series = cell.set.series_training.get(cell.setting.series or "", {})
        common = {"calibration": False, "blend": "never", "surface": False, **self.training}
        common |= {**cell.set.training, **of_series}
        if "epochs" in own:
            common.pop("steps", None)
        if backbone.get("name") in UNTRAINED:
            common.pop("backbone_learning_rate", None)
        return {**common, **own, "seed": cell.fold}


def _known(what: str, name: str, known: Mapping[str, _Named]) -> _Named:
    """Return what has a name; ConfigError for an unknown one."""
    if name not in known:
        raise ConfigError(f"the experiment has no {what} {name!r}: choose from {', '.join(known)}")
    return known[name]


def _slug(name: str) -> str:
    """Turn a name into that of a folder."""
    return re.sub(r"[^A-Za-z0-9.+=-]+", "_", name).strip("_").lower()


_SMALL = "-small"


def experiment_names(*, small: bool = False) -> list[str]:
    """Return the names of the experiments, or of those of which there is a small version."""
    return sorted(name.removesuffix(_SMALL) for name in _files() if name.endswith(_SMALL) == small)


def read_experiment(name: str, *, small: bool = False) -> Experiment:
    """Read an experiment, or its small version; ConfigError for an unknown name, with the known ones."""
    known = experiment_names(small=small)
    if name not in known:
        what = "experiment with a small version" if small else "experiment"
        raise ConfigError(f"unknown {what} {name!r}: choose one of {', '.join(known)}, or give a file")
    text = _files()[f"{name}{_SMALL if small else ''}"].read_text(encoding="utf-8")
    return Experiment.from_dict(yaml.safe_load(text), source=f"the experiment {name}")


@cache
def _files() -> dict[str, Traversable]:
    """Return the YAML files of experiments by name: those of the packages under ``attribune.experiments``."""
    packages = load_plugins("experiments", ModuleType).values()
    items = [item for package in packages for item in resources.files(package).iterdir()]
    return {item.name.removesuffix(".yaml"): item for item in items if item.name.endswith(".yaml")}


def own_experiment(
    table: str | Path,
    *,
    text: Sequence[str],
    label: Sequence[str],
    attributes: Sequence[Mapping[str, Any]],
    text_pair: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
    task: str | None = None,
    seeds: int = 2,
    steps: int = 250,
) -> Experiment:
    """Make the experiment that compares methods, attributes and controls on a table.

    Args:
        attributes: as in a recipe.
        text_pair: columns of a second text that is read with the first.
        values: tables that describe the values of attributes.
        task: kind of the task; by default inferred from the label columns.
        seeds: number of splits, and of trainings of every setting.
        steps: of every training.

    Raises:
        ConfigError: without an attribute, or for names that are not valid for settings.
    """
    if not attributes:
        raise ConfigError("no attribute is named: name at least one column, since the question is whether it helps")
    given = [{key: value for key, value in attribute.items() if value is not None} for attribute in attributes]
    data = {"train": str(table), "text": list(text), "label": list(label), "attributes": given}
    tables = {name: {"table": table} for name, table in (values or {}).items()}
    plan = {
        "name": re.sub(r"[^A-Za-z0-9]+", "-", Path(table).stem).strip("-") or "table",
        "data": data | ({"text_pair": list(text_pair)} if text_pair else {}) | ({"values": tables} if tables else {}),
        "task": {} if task is None else {"kind": task},
        "folds": list(range(seeds)),
    }
    return Experiment.from_dict(
        {
            "name": "own",
            "title": f"Attributes of {Path(table).name}",
            "sets": [plan],
            "settings": _own_settings([str(attribute["name"]) for attribute in attributes], tables),
            "data": {"max_length": 128},
            "training": {"steps": steps, "evaluate_every": max(1, steps // 5), "patience": 5},
        }
    )


def _own_settings(names: Sequence[str], values: Mapping[str, Mapping[str, str]]) -> list[Any]:
    """Return the settings for attributes with these names: methods, controls, and each attribute alone.

    Where `values` are described, their vectors alone and their descriptions alone as well.
    """
    said = {name: {**table, "own_vectors": False} for name, table in values.items()}
    parts = {"injector, ids alone": {}, "injector, descriptions alone": said} if values else {}
    alone = [{"name": f"{name} alone", "method": "injector", "attributes": [name], "rates": False} for name in names]
    return [
        "none",
        "adapter",
        "injector",
        {"name": "injector, shuffled", "method": "injector", "data": {"shuffled": True}},
        *({"name": name, "method": "injector", "data": {"values": part}} for name, part in parts.items()),
        *(alone if len(names) > 1 else []),
        "upa",
        "pln",
        "linear",
        {"name": "linear, text alone", "method": "linear", "attributes": []},
        "attributes-only",
    ]
