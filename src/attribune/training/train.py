"""A training from top to bottom: data, model, Trainer, scores, results; every step can be interrupted."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self, Unpack

import torch

from attribune.backbones.loading import load_tokenizer
from attribune.core.arguments import as_list, checked_arguments
from attribune.core.device import default_device, training_alone
from attribune.core.door import as_argument
from attribune.core.files import read_json, write_json
from attribune.core.logs import show_note
from attribune.core.processes import is_main, process_count, refuse_processes
from attribune.core.progress import ProgressBar, Reporter
from attribune.core.threads import find_busy_machine, limit_threads
from attribune.data.checking.table_check import TableCheck
from attribune.data.file_options import Reading
from attribune.data.text_files import STDIN
from attribune.errors import AttribuneError, ConfigError
from attribune.findings import Finding
from attribune.metrics.results import Scored
from attribune.models.auto import Scorer, load_scorer
from attribune.models.linear import LinearModel
from attribune.models.predictor import Predictor
from attribune.models.table_scores import TableScores
from attribune.runs.card import run_card
from attribune.runs.folder import RunFolder
from attribune.runs.loading import predictor_of
from attribune.runs.recipe import Recipe
from attribune.runs.results import RunResults, run_results
from attribune.runs.settings_tree import SETTINGS
from attribune.runs.table_recipe import table_recipe
from attribune.runs.verdict import NOT_BLENDED
from attribune.tasks.capabilities import MAJORITY, PROCESSES, can, require
from attribune.training.bake_off import AUTO_METHOD, Choice, choose_method, read_budget
from attribune.training.blending import NoBlend
from attribune.training.callbacks import check_trackers
from attribune.training.distributed import from_main, refuse_split_models
from attribune.training.folds import (
    fit_out_of_fold,
    hidden_in_folds,
    join_predictions,
    pooled_scores,
    prepare_folds,
    scored_rows,
    without_validation,
)
from attribune.training.neural import FitBaselines, train_neural
from attribune.training.plan import TrainingPlan, comparison_recipes, settled
from attribune.training.preparation import PreparedData, describe_as, longer_window, prepare, rows_digest, shuffle
from attribune.training.scoring import check_selection, score, score_baselines

_log = logging.getLogger(__name__)
_BUDGET = "10m"
_MANY_ROWS = 1_000  # whose scoring takes long enough to be announced
_TABLE_ARGUMENTS = {*SETTINGS} - {"data"}
"""The arguments of `train` that stand for settings of a recipe."""


@checked_arguments
def train(
    data: Any,
    output: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    text_pair: str | Sequence[str] | None = None,
    text_negative: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = None,
    attributes: Sequence[Any] | str | None = None,
    values: Mapping[str, Any] | None = None,
    written: str | Sequence[str] | None = None,
    weight: str | None = None,
    missing: Sequence[str] | None = None,
    validation: Any = None,
    test: Any = None,
    task: str | Mapping[str, Any] | None = None,
    method: Any = None,
    backbone: str | Path | None = None,
    tuning: str | None = None,
    epochs: float | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    max_length: int | None = None,
    folds: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    compare: str | Sequence[str] = (),
    baselines: bool = True,
    budget: str | None = None,
    resume: bool = False,
    tables: Mapping[str, Any] | None = None,
    reporter: Reporter | None = None,
    **reading: Unpack[Reading],
) -> dict[str, Any]:
    """Train, evaluate and save; the same as ``attribune train``.

        train(df, "runs/stars", text="text", label="stars", attributes=["user", "product"])
        train(df, "runs/stars")  # takes the columns and the task from `check`, and says so

    Several processes, as `torchrun` starts them, train together with the same losses as one; they all read the data.
    The first one does the rest: it fits baselines, scores, writes the run's folder and notifies the reporter. Trainings
    in threads of one process take turns. The random numbers of the process are afterwards as they were.

    Args:
        data: a table, anything `read_table` takes; or a recipe, which replaces all arguments up to `settings`.
        output: folder of the run; see `RunFolder` for its files.
        text: text column, or several to join. If the text or the label is not named, `check` guesses what is not
            given: the columns, the attributes, the weight and the task; what it finds is shown.
        text_pair: column of a second text, which is read with the first or compared with it.
        text_negative: for the task ``similarity``, column of a text that matches less well than the second.
        label: label column; several for aspects and spans.
        attributes: columns with one value per row by their names, or `Categorical`, `MultiLabel`, `Hierarchy`,
            `Numeric`, `Number`, `Date`.
        values: tables (files) that describe the values of attributes, by attribute.
        written: attributes whose values are also written in front of the text, as words.
        weight: column with the weight of each training row in the loss.
        missing: texts that mean no value; by default `MISSING`.
        validation: rows for validation, and `test` those for testing; by default they are split off the data.
        task: its kind, by default classification, or a mapping with ``kind`` and options.
        method: its name, one with options such as ``Injector(bottleneck=8)``, a mapping with ``name`` and options, or
            ``auto``, the best of several in a bake-off on the validation rows, also beside a recipe.
        backbone: name or folder of the pretrained model, or a backbone without pretraining.
        tuning: which parameters of the backbone are trained.
        epochs: maximum number of epochs.
        batch_size: rows per batch.
        learning_rate: peak learning rate of the method and the classifier.
        max_length: maximum number of tokens read per text.
        folds: K-fold cross-validation: each row gets an out-of-fold prediction, and the model that is saved learns
            from all rows but a tenth, which validates.
        seed: seed of initialisation, batches and split.
        settings: any setting of the recipe by its path, such as ``{"training.weight_decay": 0.1}``, in place of what
            an argument says.
        compare: methods to train for comparison, with the same recipe, rows and budget; ``shuffled`` is the same method
            on shuffled attributes, ``ids`` and ``descriptions`` use only this part of the described values.
        baselines: whether to fit the cheap baselines and the majority class beside the model.
        budget: time for the bake-off of ``auto``, such as ``90s`` or ``2h``; by default ``10m``.
        resume: whether to continue an interrupted run in the folder.
        tables: with a recipe, ``train``, ``validation`` and ``test`` instead of its files.
        reporter: shows progress; by default a bar in a terminal or notebook.
        **reading: how files are read, as in `read_table`.

    Returns:
        The content of ``metrics.json`` as plain values, printed as its tables; `RunFolder.read_results` returns it with
        types.

    Raises:
        AttribuneError: with one message that names the cause, the value seen and what to do.
    """
    given = {name: value for name, value in {**locals(), **reading}.items() if name in _TABLE_ARGUMENTS}
    refuse_split_models()
    seconds = _auto_budget(method, budget)
    if seconds is not None:
        given["method"] = None
    recipe, tables = _recipe_of(data, given, settings, tables)
    reporter = (ProgressBar() if reporter is None else reporter) if is_main() else Reporter()
    others = as_list(compare)
    comparison_recipes(recipe, others)  # refuses wrong names before anything is written
    folder = RunFolder(Path(output))
    from_main(folder.refuse_foreign)
    with training_alone(), ExitStack() as stack:
        from_main(lambda: stack.enter_context(folder.held()))
        choice = None
        if seconds is not None:
            choice = _choose(recipe, folder, tables, reporter, budget=seconds, resume=resume)
            recipe = choice.recipe(recipe)
        return _train(recipe, folder, others, tables, reporter, baselines=baselines, resume=resume, choice=choice)


def _auto_budget(method: Any, budget: str | None) -> float | None:
    """Return the seconds of a bake-off; None for a method that is named."""
    if not (isinstance(method, str) and method == AUTO_METHOD):
        if budget is not None:
            raise ConfigError(f"budget {budget} is for method auto: choose that, or leave budget out")
        return None
    refuse_processes("method auto")
    return read_budget(_BUDGET if budget is None else budget)


def _choose(
    recipe: Recipe,
    folder: RunFolder,
    tables: Mapping[str, Any] | None,
    reporter: Reporter,
    *,
    budget: float,
    resume: bool,
) -> Choice:
    """Hold a bake-off, or read what came of it."""
    if folder.is_begun and not folder.bake_off.is_file():
        raise ConfigError(
            f"{folder.path} has a run that was not started with method auto: choose another output folder"
        )
    if folder.bake_off.is_file():
        return Choice.read(folder.checked(folder.bake_off))
    if folder.bake_off_runs.is_dir() and not resume:
        raise ConfigError(
            f"{folder.path} has an interrupted bake-off, which {as_argument('resume', True)} continues: choose another "
            "output folder, or remove this one first"
        )

    def train_one(other: Recipe, path: Path, parts: Mapping[str, Any]) -> object:
        run = RunFolder(path)
        resume = run.is_begun
        return _train(other, run, [], parts, Reporter(), baselines=False, resume=resume, is_candidate=True)

    recipe = settled(recipe)
    return choose_method(recipe, folder.bake_off_runs, tables=tables, budget=budget, train=train_one, reporter=reporter)


def _recipe_of(
    data: Any, arguments: Mapping[str, Any], settings: Mapping[str, Any] | None, tables: Mapping[str, Any] | None
) -> tuple[Recipe, Mapping[str, Any] | None]:
    """Return the recipe that was given, or that of a table and of arguments, and the tables in place of files."""
    if not isinstance(data, Recipe):
        if tables is not None:
            raise ConfigError("tables are for a recipe: give the rows as data, validation and test")
        return table_recipe({"data": data, **arguments}, settings or {}, say=_say_guesses)
    beside = [name for name, value in {**arguments, "settings": settings}.items() if value is not None]
    if beside:
        raise ConfigError(
            f"{', '.join(beside)} cannot be combined with a recipe, which already has it: change the recipe"
        )
    return data, tables


def _say_guesses(checked: TableCheck) -> None:
    """Say what the columns are taken for, as `attribune train` does.

    Raises:
        ConfigError: for a table without a text or a label.
    """
    if not checked.is_complete:
        words = checked.lacking_words(checked.source)
        raise ConfigError(f"{words} (attribune.check shows what its columns are taken for)")
    text = checked.text().splitlines()
    lines = ["text or label are not named, so this is what the columns are taken for:", *text]
    for line in lines if is_main() else ():
        show_note(line)


def _train(
    recipe: Recipe,
    folder: RunFolder,
    others: Sequence[str],
    tables: Mapping[str, Any] | None,
    reporter: Reporter,
    *,
    baselines: bool,
    resume: bool,
    choice: Choice | None = None,
    is_candidate: bool = False,
) -> dict[str, Any]:
    """Begin or continue the run, and train.

    Args:
        is_candidate: of a bake-off, see `TrainingPlan`.
    """
    is_new = from_main(lambda: not folder.is_begun)
    recipe = from_main(lambda: folder.begin(settled(recipe) if is_new else recipe, resume=resume))
    compared = from_main(folder.compared)
    if choice is not None:
        choice.write(folder.bake_off)
        shutil.rmtree(folder.bake_off_runs, ignore_errors=True)
    others = list(dict.fromkeys([*others, *compared]))
    if from_main(lambda: folder.is_finished) and set(compared).issuperset(others):
        reporter.note(f"{folder.path} is finished already; nothing to do")
        return from_main(folder.read_results).to_dict()
    try:
        mode, is_alone = recipe.training.blend, not (others or is_candidate or recipe.data.shuffled)
        blends = mode == "always" or (mode == "auto" and is_alone)
        plan = replace(TrainingPlan.of(recipe), is_candidate=is_candidate, blends=blends)
        comparisons = {
            name: replace(TrainingPlan.of(other, name), blends=mode == "always")
            for name, other in comparison_recipes(recipe, others).items()
        }
        chosen_by = () if choice is None else choice.lines
        results = _run(plan, comparisons, folder, tables, reporter, baselines=baselines, chosen_by=chosen_by)
        return from_main(lambda: results)
    except AttribuneError:
        if is_new and is_main():
            folder.discard()
        raise


def _run(
    plan: TrainingPlan,
    comparisons: Mapping[str, TrainingPlan],
    folder: RunFolder,
    tables: Mapping[str, Any] | None,
    reporter: Reporter,
    *,
    baselines: bool,
    chosen_by: Sequence[str],
) -> dict[str, Any]:
    """Read the rows, train every method on them, compare, and write the results."""
    _check(plan)
    limit_threads()
    busy = find_busy_machine(torch.get_num_threads())
    if busy is not None and default_device() == "cpu":
        reporter.note(str(busy))
    data = _prepared(plan, tables, reporter)
    if plan.model is not None and (longer := longer_window(plan.data, data)) is not None:
        data.notes.append(longer)
        reporter.note(longer.text)
        plan = plan.with_max_length(longer.values["size"])
        comparisons = {name: other.with_max_length(longer.values["size"]) for name, other in comparisons.items()}
        from_main(partial(folder.replace_recipe, plan.recipe))
    if data.folds:
        plan = plan.cross_validated(data.task)
        comparisons = {name: other.cross_validated(data.task) for name, other in comparisons.items()}
    training = _Training.of(plan, folder, data, reporter)
    from_main(lambda: _check_same_rows(folder, rows_digest(training.data, plan.data)))

    beside = _Baselines(training=training, exclude={plan.learner.name, *comparisons})
    trained = training.scored(fit_baselines=beside.fit if baselines else None)
    compared: list[Scored] = []
    for name, other in comparisons.items():
        reporter.note(f"training {name} for comparison")
        is_described = other.data.source.values == plan.data.source.values
        other_rows = data if is_described else describe_as(data, other.data.source.values)
        compared += _compare(_Training.of(other, RunFolder(folder.path / "compare" / name), other_rows, reporter))
    if trained is None:
        return {}
    scored, predictor = trained
    if baselines:
        beside.fit(predictor.model)
    return training.write_results([*scored, *compared, *beside.scored], predictor, chosen_by=chosen_by).to_dict()


def _prepared(plan: TrainingPlan, tables: Mapping[str, Any] | None, reporter: Reporter) -> PreparedData:
    """Read, split and count the rows, and say what was found."""
    started = time.perf_counter()
    data = prepare(plan.data, tables, may_choose_folds=plan.may_choose_folds and process_count() == 1)
    if data.fold_count:
        data = replace(data, folds=prepare_folds(plan.data, data))
        values = {"folds": data.fold_count, "rows": scored_rows(data)["test"]}
        is_chosen = plan.data.source.split.folds is None
        data.notes.append(Finding.of("scored-out-of-fold", **values, is_chosen=is_chosen))
    _log.info("rows read, split and counted in %.1f s", time.perf_counter() - started)
    check_selection(plan.training, data)
    for note in data.notes:
        reporter.note(note.text)
    return data


def _compare(training: _Training) -> list[Scored]:
    """Train another method; returns its scores in the first process, and none in the others."""
    from_main(partial(training.folder.begin, training.plan.recipe, resume=True))
    trained = training.scored()
    if trained is None:
        return []
    training.write_results(*trained)
    return trained[0][:1]


def _check(plan: TrainingPlan) -> None:
    """Check trackers and backbone before a long table is read."""
    check_trackers(plan.training.report_to)
    if plan.data.source.split.folds:
        refuse_processes("a training on folds")
    if plan.data.source.train == STDIN and process_count() > 1:
        raise ConfigError(f"the standard input is read by one process, and there are {process_count()}: name a file")
    if process_count() > 1:
        require(plan.data.task, PROCESSES, count=process_count())
    if plan.model is not None:
        if plan.model.options.is_trained_alone and process_count() > 1:
            name = plan.model.name
            raise ConfigError(f"method {name!r} is trained in one process, and there are {process_count()}: start one")
        if plan.model.backbone.is_pretrained:
            load_tokenizer(plan.model.backbone.name, revision=plan.model.backbone.revision)
    elif plan.training.report_to:
        raise ConfigError(
            f"the method {plan.learner.name!r} has no training steps to report to "
            f"{', '.join(plan.training.report_to)}: leave report_to out"
        )


def _check_same_rows(folder: RunFolder, digest: str) -> None:
    """Refuse to resume a run with other rows."""
    identity = {"digest": digest}
    if not folder.rows.is_file():
        write_json(folder.rows, identity, what="mark of the rows")
    elif read_json(folder.checked(folder.rows), what="mark of the rows") != identity:
        raise ConfigError(
            f"the data are not those with which {folder.path} was started (texts, labels, attributes or weights "
            "differ): restore the files, or choose another output folder"
        )


@dataclass(frozen=True, kw_only=True)
class _Training:
    """The training of one method in its folder; all processes train, and the first one has the results."""

    plan: TrainingPlan
    folder: RunFolder
    data: PreparedData
    reporter: Reporter

    @classmethod
    def of(cls, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter) -> Self:
        """Return the training on rows whose attributes are shuffled if the plan says so."""
        rows = shuffle(data, seed=plan.data.seed) if plan.is_shuffled else data
        return cls(plan=plan, folder=folder, data=rows, reporter=reporter)

    def scored(self, *, fit_baselines: FitBaselines | None = None) -> tuple[list[Scored], Predictor] | None:
        """Train, and score with and without the attributes, where there are folds on the rows of all.

        Args:
            fit_baselines: see `train_neural`.
        """
        is_fitted_later = bool(self.data.folds) and self.plan.model is not None
        first = replace(self, plan=self.plan.as_trained()) if is_fitted_later else self
        predictor = first.trained(fit_baselines=fit_baselines)
        if predictor is None:
            return None
        scored = self._cross_validated(predictor) if self.data.folds else self._scores(predictor)
        return scored, predictor

    def trained(self, *, fit_baselines: FitBaselines | None = None) -> Predictor | None:
        """Train, unless the model exists; returns its predictor."""
        plan, folder, data, reporter = self.plan, self.folder, self.data, self.reporter
        is_trained = from_main(folder.outcome.is_file)
        if plan.model is not None and not is_trained:
            train_neural(plan, plan.model, folder, data, reporter, fit_baselines=fit_baselines)
        if not is_main():
            return None
        if (baseline := plan.learner.baseline) is not None and not is_trained:
            outcome = resolve_name(baseline.trainer)(baseline, plan, folder, data, reporter)
            if plan.wants_blend:
                refused = NoBlend(reason="method", detail=plan.learner.name)
                outcome |= {"no_blend": refused.values}
                reporter.note(refused.text)
            folder.write_outcome(outcome)
        model = load_scorer(folder.model)
        if folder.checkpoints.exists():
            shutil.rmtree(folder.checkpoints)
        return predictor_of(plan.recipe, model)

    def _scores(self, predictor: Predictor, *, scores: Mapping[str, TableScores] | None = None) -> list[Scored]:
        """Score a model with and without its attributes, and without the simple models beside it, if there are some.

        Args:
            scores: of the rows of each part, where each attribute alone is judged elsewhere.
        """
        plan, data, hides_each = self.plan, self.data, scores is None
        scores = scores or {part: TableScores(predictor, split.table) for part, split in data.scored.items()}
        also_hidden = plan.hides_attributes and len(predictor.schema) > 0
        rows = sum(len(split.rows) for split in data.scored.values())
        if rows > _MANY_ROWS:
            hidden = ", with their attributes and without" if also_hidden else ""
            self.reporter.note(f"scoring {rows:,} validation and test rows{hidden}")
        options: dict[str, Any] = {"scores": scores, "also_hidden": also_hidden, "hides_each": hides_each}
        scored = score(plan.name, predictor, data, plan.data, folder=self.folder, **options)
        if predictor.blend is not None:
            scored += score(f"{plan.name}{NOT_BLENDED}", predictor, data, plan.data, scores=scores, blend=False)
        return scored

    def _cross_validated(self, predictor: Predictor) -> list[Scored]:
        """Train once for each fold; returns the scores over the rows of all.

        Args:
            predictor: of the model that is saved, which gets what is fitted on rows that no model has learned from.
        """
        plan, folder, data = self.plan, self.folder, self.data
        folds: list[_Training] = []
        scores: list[TableScores] = []
        plan_of_fold = replace(plan.as_trained(), is_candidate=True)
        for number, rows in enumerate(data.folds, start=1):
            self.reporter.note(f"{plan.name}: training on all rows but those of fold {number} of {len(data.folds)}")
            fold = replace(self, plan=plan_of_fold, folder=folder.fold(number), data=rows)
            fold.folder.begin(plan.recipe, resume=True)
            found = fold.trained()
            assert found is not None
            folds.append(replace(fold, plan=plan, data=without_validation(rows)))
            scores.append(TableScores(found, rows.splits["test"].table))
        if plan.model is not None:
            outcome = read_json(folder.checked(folder.outcome), what="training record")
            outcome |= fit_out_of_fold(plan, predictor, scores, data, self.reporter)
            predictor.model.save_pretrained(folder.model)
            folder.write_outcome(outcome)
        scored = [
            fold._scores(one.predictor, scores=dict.fromkeys(fold.data.scored, one))
            for fold, one in zip(folds, scores, strict=True)
        ]
        join_predictions(folder, [fold.folder for fold in folds], data, plan.data)
        first, *others = pooled_scores(scored)
        if plan.hides_attributes and len(data.schema) and not plan.is_shuffled:
            first = replace(first, hidden=hidden_in_folds(scores, data))
        return [first, *others]

    def write_results(
        self, scored: Sequence[Scored], predictor: Predictor, *, chosen_by: Sequence[str] = ()
    ) -> RunResults:
        """Write the card, then metrics.json, which marks the run as finished."""
        folder, recipe, data = self.folder, self.plan.recipe, self.data
        record = folder.read_outcome(predictor.model.sizes())
        counts = scored_rows(data)
        results = run_results(recipe, predictor.task, rows=counts, scored=scored, training=record, found=data.notes)
        if chosen_by:
            results = results.model_copy(update={"chosen_by": list(chosen_by)})
        folder.write_card(run_card(recipe, data.schema, results))
        folder.write_results(results)
        shutil.rmtree(folder.folds, ignore_errors=True)
        return results


@dataclass(frozen=True, kw_only=True)
class _Baselines:
    """The cheap baselines beside a model, which are fitted once: before it is trained, or beside a trained one.

    Attributes:
        exclude: methods that the run trains anyway.
    """

    training: _Training
    exclude: Set[str]
    scored: list[Scored] = field(default_factory=list)

    def fit(self, model: Scorer) -> Mapping[str, LinearModel]:
        """Fit and score them, unless that is done; returns the linear models by name, none of folds."""
        plan, data, reporter = self.training.plan, self.training.data, self.training.reporter
        linears: dict[str, LinearModel] = {}
        if self.scored or not (can(data.task, MAJORITY) and is_main()):
            return linears
        encoder = model.row_encoder(plan.data.text)
        fitted = partial(score_baselines, plan, encoder=encoder, exclude=self.exclude)
        if data.folds:
            reporter.note(f"fitting the baselines on {len(data.folds)} folds")
            self.scored.extend(pooled_scores([fitted(fold, Reporter(), linears={}) for fold in data.folds]))
        else:
            self.scored.extend(fitted(data, reporter, linears=linears))
        return linears
