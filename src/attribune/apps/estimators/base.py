"""What the estimators share: a training on rows in memory, and the predictor that it leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, TypeVar

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from attribune.analysis.explain.run import Asked, check_explains, explain_rows
from attribune.apps.estimators.saved import (
    ESTIMATOR,
    PackedPredictor,
    plain_parameters,
    read_estimator,
    restored_parameters,
    saved_model,
    write_estimator,
)
from attribune.apps.report.explanation_page import shown_explanation
from attribune.core.arguments import as_list
from attribune.core.config import short_repr
from attribune.core.device import training_alone
from attribune.core.flags import ARGUMENTS
from attribune.core.progress import Reporter
from attribune.core.wording import counted
from attribune.data.clusters import ROWS
from attribune.data.tables import read_table
from attribune.errors import AttribuneError, ConfigError, DataError, ModelFolderError
from attribune.models.auto import load_saved, revised_model
from attribune.models.baselines import BASELINES, BaselineConfig
from attribune.models.predictor import Predictor
from attribune.models.row_inputs import Predictions, RowInput, RowNames
from attribune.runs.labelled import LabelledRows
from attribune.runs.loading import load_run, predictor_of
from attribune.runs.recipe import Recipe
from attribune.runs.results import RunResults
from attribune.schema.columns import as_array, column_names
from attribune.schema.kinds import Kind, as_kinds, nested_columns
from attribune.training.train import train
from attribune.values.enrol import Enrolment, learn_values
from attribune.values.learning import EnrolSettings

E = TypeVar("E", bound="AttributeEstimator")
_OF_DATA = ("train", "validation", "test", "text", "text_pair", "label", "attributes")
_DECIDED = {"task.classes", *(f"data.{name}" for name in _OF_DATA)}


class AttributeEstimator(BaseEstimator, ABC):
    """A scikit-learn estimator that reads texts and their attributes.

    Rows are a DataFrame, a table with the Arrow interface, columns by name, a list of mappings, a list of texts, or an
    array with the columns ``x0``, ``x1`` and so on. Arguments not described here are those of `attribune.train`,
    whose defaults None stands for.

    Args:
        text: text column, or several to join.
        text_pair: column of a second text, which is read with the first.
        attributes: columns with one value per row by their names, or `Categorical`, `MultiLabel`, `Hierarchy`,
            `Numeric`, `Number`, `Date`; None stands for no attributes.
        method: its name, or one with options such as ``Injector(bottleneck=8)``; None stands for ``injector``.
        settings: other settings of a recipe by their paths, such as ``{"training.weight_decay": 0.1}``, which
            override parameters.
        validation_fraction: share of the rows used to choose the best epoch; training stops early by them.
        warm_start: whether `fit` continues the last training and adds new values.
        random_state: seed of initialisation, batches and validation rows; None draws one.
        verbose: whether to show what is read, and a bar in a terminal or notebook.

    Attributes:
        predictor_: the `Predictor` of the trained model.
        results_: the results of the training, as `attribune.train` returns them; printed as tables.
        feature_names_in_: the columns of `fit`; an array has no names.
        n_features_in_: their number.
    """

    _kind: ClassVar[str]

    def __init__(
        self,
        text: str | Sequence[str] = "text",
        *,
        attributes: Sequence[str | Kind] | None = (),
        text_pair: str | Sequence[str] | None = None,
        values: Mapping[str, Any] | None = None,
        written: str | Sequence[str] | None = None,
        method: Any = None,
        backbone: str | Path | None = None,
        tuning: str | None = None,
        epochs: float | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        max_length: int | None = None,
        settings: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = True,
    ) -> None:
        self.text = text
        self.attributes = attributes
        self.text_pair = text_pair
        self.values = values
        self.written = written
        self.method = method
        self.backbone = backbone
        self.tuning = tuning
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_length = max_length
        self.settings = settings
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows and their labels.

        Args:
            X: rows, as described for the class.
            y: (n,) labels.
            sample_weight: (n,) how much each row counts in the loss; 0 leaves it out.

        Raises:
            AttribuneError: a `ValueError` with one message that names the cause, the value seen and what to do.
        """
        for name in ("warm_start", "verbose"):
            if not isinstance(given := getattr(self, name), bool | int):
                raise ConfigError(f"{name} is {short_repr(given)}: give True or False")
        continues = self.warm_start and self.__sklearn_is_fitted__()
        if continues and not can_continue(self):
            raise ConfigError(
                f"warm_start is True, and the baseline {short_repr(self.method)} learns all rows at once: set it to "
                "False"
            )
        return self._fit(X, y, sample_weight, continues=continues)

    @abstractmethod
    def _fit(self, X: Any, y: Any, weight: Any, *, continues: bool, epochs: float | None = None) -> Self:
        """Check the labels and train on them."""

    def _train(
        self,
        X: Any,
        labels: pa.Array,
        weight: Any,
        *,
        task: Mapping[str, Any],
        continues: bool,
        epochs: float | None,
    ) -> None:
        """Train in a folder that is removed afterwards, and keep the predictor."""
        table = self._read(X, is_fit=True, continues=continues)
        check_consistent_length(table, labels)
        if len(table) < 2:
            raise DataError(f"X has {counted(len(table), 'row')}: give at least 2, of which one is for validation")
        columns = {"label": labels}
        if weight is not None:
            weights = np.asarray(column_or_1d(weight), dtype=np.float64)
            check_consistent_length(table, weights)
            for place in np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))[:1]:
                raise DataError(f"sample_weight[{place}] is {weights[place]}: give finite numbers of at least 0")
            columns["weight"] = pa.array(weights)
        own: dict[str, Any] = {what: _free_name(what, table.column_names) for what in columns}
        for what, name in own.items():
            table = table.append_column(name, columns[what])
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        earlier = saved_model(self.predictor_) if continues else nullcontext()
        with training_alone(), earlier as folder, TemporaryDirectory(prefix="attribune-") as run:
            results = train(
                table,
                run,
                task={"kind": self._kind, **task},
                settings=self._settings(folder),
                baselines=False,
                reporter=None if self.verbose else Reporter(),
                seed=seed,
                **self._train_arguments(epochs),
                **own,
            )
            recipe, predictor = load_run(run)
        self.results_, self._recipe, self._predictor, self._packed = results, recipe, predictor, None

    def _read(self, X: Any, *, is_fit: bool, continues: bool = False) -> pa.Table:
        """Read a table, rows, or texts; the columns of an array are ``x0``, ``x1`` and so on, as in scikit-learn.

        Args:
            is_fit: whether ``n_features_in_`` and ``feature_names_in_`` are found. Later tables may have other columns
                beside those that are read, as for a `ColumnTransformer`; later arrays must have as many.
            continues: whether a training goes on, for which arrays count as later ones.

        Raises:
            DataError: naming the column that is missing, or column and row of a value that cannot be used.
            ValueError: of scikit-learn, for an array that is no matrix.
        """
        names, has_names = self._names, not _is_array(X)
        if not has_names:
            least = 2 if is_fit else 1  # one row is for validation
            array = validate_data(
                self, X, reset=is_fit and not continues, dtype=None, ensure_all_finite=False, ensure_min_samples=least
            )
            X = {f"x{number}": array[:, number] for number in range(array.shape[1])}
            if lacking := [name for name in names.columns(X) if name not in X]:
                raise DataError(
                    f"an array has no names: its columns are {', '.join(X)}, and the estimator reads "
                    f"{', '.join(lacking)}; give a table, or build the estimator for these columns, as in text='x0', "
                    "attributes=['x1'] (what bags or boosts estimators hands them an array)"
                )
        columns = RowInput.read(X, names, {}).columns
        if is_fit and has_names:
            given = [name for name in column_names(columns) if isinstance(name, str)]
            self.feature_names_in_, self.n_features_in_ = np.array(given, dtype=object), len(given)
        found = {name: as_array(columns[name], column=name) for name in names.columns(column_names(columns))}
        for name in column_names(columns):
            if isinstance(name, str) and name not in found:
                # What cannot be read is left out: perhaps nobody reads it.
                with suppress(AttribuneError, pa.ArrowException, KeyError, TypeError, ValueError):
                    found[name] = as_array(columns[name], column=name)
        return pa.table(found)

    def _settings(self, earlier: Path | None) -> dict[str, Any]:
        """Return the settings of the recipe; without rows for a test, whose scores nobody reads."""
        share = self.validation_fraction
        if not isinstance(share, Real) or not 0 < share < 1:
            raise ConfigError(f"validation_fraction is {share!r:.80}: give a number between 0 and 1")
        settings: dict[str, Any] = {"data.split.fractions": (1 - share, share, 0.0)}
        if earlier is not None:
            settings["transfer"] = {"run": str(earlier), "frozen": False, "full_model": True}
        if not isinstance(self.settings, Mapping | None):
            raise ConfigError(f"settings is {self.settings!r:.80}: give a mapping, such as {{'training.warmup': 0.2}}")
        given = dict(self.settings or {})
        for name, value in given.items():
            paths = [f"{name}.{key}" for key in value] if isinstance(value, Mapping) else [name]
            for path in _DECIDED.intersection(paths):
                raise ConfigError(f"settings has {path}, which the rows or a parameter decide: leave it out")
        return settings | given

    def _train_arguments(self, epochs: float | None) -> dict[str, Any]:
        """Return the arguments of `train` that have the names of parameters."""
        names = ARGUMENTS.keys() & self._get_param_names()
        given = {name: getattr(self, name) for name in names}
        return {**given, "attributes": self._kinds, "epochs": self.epochs if epochs is None else epochs}

    @property
    def _kinds(self) -> list[Kind]:
        """The attributes; for `train`, None would be those that it finds."""
        return [] if self.attributes is None else as_kinds(self.attributes)

    @property
    def _names(self) -> RowNames:
        """The columns that rows must have."""
        texts, kinds = self._columns("text"), self._kinds
        if not texts:
            raise ConfigError(f"text is {self.text!r}: give the name of a column, or a list of names")
        texts += self._columns("text_pair")
        needed = (*texts, *(kind.name for kind in kinds))
        return RowNames(texts=texts, needed=needed, nested=nested_columns(kinds))

    def _columns(self, what: str) -> tuple[str, ...]:
        """Return the names of columns that a parameter gives."""
        given = getattr(self, what)
        names = (given,) if isinstance(given, str) else () if given is None else given
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{what} is {given!r:.80}: give the name of a column, or a list of names")
        return tuple(names)

    @property
    def predictor_(self) -> Predictor:
        """The predictor of the trained model."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("there is no predictor_ before fit")
        if self._predictor is None:
            self._predictor = self._packed.unpack(backbone=self._moved_backbone)
        return self._predictor

    @property
    def _moved_backbone(self) -> str | None:
        """The folder of the backbone now; None where it is found by its name."""
        is_folder = self.backbone is not None and Path(self.backbone).is_dir()
        return str(self.backbone) if is_folder else None

    def _predict(self, X: Any) -> Predictions:
        """Return predictions and probabilities by column name."""
        check_is_fitted(self)
        table = self._read(X, is_fit=False)
        found: Predictions = self.predictor_.predict(table)
        return found

    def save(self, path: str | Path) -> None:
        """Write the trained estimator into a folder, which `load` and `Predictor.from_pretrained` read.

        The weights of a pretrained backbone are not among its files. An estimator saved there before is replaced.

        Raises:
            ConfigError: for a folder that holds something else, or a parameter that is no plain value, such as a
                `RandomState`.
            ModelFolderError: when the folder cannot be written.
        """
        check_is_fitted(self)
        record = {
            "class": type(self).__name__,
            "parameters": plain_parameters(self.get_params(deep=False)),
            "recipe": self._recipe.model_dump(mode="json"),
            "results": dict(self.results_),
            **self._own_record(),
        }
        if hasattr(self, "n_features_in_"):
            record["n_features_in"] = int(self.n_features_in_)
        if hasattr(self, "feature_names_in_"):
            record["feature_names_in"] = [str(name) for name in self.feature_names_in_]
        write_estimator(path, record, self.predictor_.model.save_pretrained)

    @classmethod
    def load(cls, path: str | Path, *, backbone: str | Path | None = None) -> Self:
        """Load an estimator that `save` wrote.

        Args:
            backbone: new location of the backbone's weights, if they were moved.

        Raises:
            ModelFolderError: for another folder, or one that is damaged.
            ConfigError: for an estimator of another class.
        """
        record = read_estimator(path)
        kinds: dict[str, type[Self]] = {one.__name__: one for one in (cls, *_subclasses(cls))}
        if record.get("class") not in kinds:
            raise ConfigError(
                f"{path} holds {record.get('class')!r}, and no {cls.__name__}: load it with {record.get('class')}.load"
            )
        try:
            estimator = kinds[record["class"]](**restored_parameters(record["parameters"]))
            recipe = Recipe.from_dict(record["recipe"], source=str(path), saved=True)
            results = RunResults.from_dict(record["results"], source=str(path)).to_dict()
            estimator._restore(record)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, AttribuneError):
                raise
            raise ModelFolderError(
                f"{Path(path) / ESTIMATOR} is no record of an estimator ({error!r:.200}): restore the file, or save "
                "the estimator again"
            ) from error
        if backbone is not None:
            estimator.set_params(backbone=backbone)
        estimator.results_, estimator._recipe, estimator._packed = results, recipe, None
        estimator._predictor = predictor_of(recipe, load_saved(path, backbone=backbone))
        return estimator

    def _own_record(self) -> dict[str, Any]:
        """Return what else was fitted, as plain values."""
        return {}

    def _restore(self, record: Mapping[str, Any]) -> None:
        """Take what was fitted from a record of `save`."""
        if "n_features_in" in record:
            self.n_features_in_ = int(record["n_features_in"])
        if "feature_names_in" in record:
            self.feature_names_in_ = np.array(record["feature_names_in"], dtype=object)

    def enrol(
        self,
        X: Any,
        y: Any,
        *,
        attributes: str | Sequence[str] | None = None,
        min_rows: int = 1,
        steps: int = 20,
        prior: float = 1.0,
    ) -> Enrolment:
        """Add values that the model has not seen, from a few rows; see `attribune.enrol`.

        Predictions for known values stay the same.

        Args:
            X: rows, as for `fit`; those without a new value are ignored.
            y: (n,) labels.
            attributes: whose values are added; by default all that have a vocabulary.
            min_rows: as for `attribune.enrol`, as are `steps` and `prior`.

        Raises:
            ConfigError: for a method that has no vectors of values, such as ``linear``.
            DataError: when there is no new value, or for rows that cannot be used.
        """
        table, recipe = self._labelled(X, y), self._recipe
        recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update={"cluster": ROWS})})
        settings = EnrolSettings(min_rows=min_rows, steps=steps, prior=prior)
        with training_alone(), saved_model(self.predictor_) as folder:
            model, done = learn_values(
                recipe,
                self.predictor_,
                table,
                lambda change: revised_model(folder, change, backbone=self._moved_backbone),
                attributes=None if attributes is None else as_list(attributes),
                settings=settings,
                reporter=Reporter(),
            )
            model.save_pretrained(folder)
            self._predictor = predictor_of(self._recipe, load_saved(folder, backbone=self._moved_backbone))
        self._packed = None
        return done

    def explain(
        self,
        X: Any,
        y: Any,
        *,
        row: int | None = None,
        instead: Sequence[Mapping[str, Any]] | Mapping[str, Any] = (),
        rare: int = 10,
        min_rows: int = 5,
        top: int = 10,
    ) -> dict[str, Any]:
        """Measure what each attribute contributes to the scores of rows; see `attribune.explain`, whose record it is.

        Args:
            X: rows, as for `fit`.
            y: (n,) labels.
            row: as for `attribune.explain`, as are the others.

        Raises:
            AttribuneError: for a method that reads no attributes, or rows that cannot be used.
        """
        asked = Asked(row=row, instead=instead, rare=rare, min_rows=min_rows, top=top)
        check_is_fitted(self)
        method = str(self._recipe.method["name"])
        check_explains(self.predictor_, method, type(self).__name__)
        table = read_table(self._labelled(X, y))
        labelled = LabelledRows.read(self._recipe, self.predictor_, table)
        record = explain_rows(
            self.predictor_, labelled, asked, table=table, run=type(self).__name__, recipe=self._recipe
        )
        return shown_explanation({**record, "data": "X"})

    def _labelled(self, X: Any, y: Any) -> pa.Table:
        """Return rows with their labels, as the training had them."""
        check_is_fitted(self)
        table = self._read(X, is_fit=False)
        labels, (name,) = self._label_column(y), self._recipe.label_columns
        check_consistent_length(table, labels)
        return table.drop_columns([name] if name in table.column_names else []).append_column(name, labels)

    @abstractmethod
    def _label_column(self, y: Any) -> pa.Array:
        """Return labels as the training had them."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "results_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with the files of the model, without the folder in which it was trained."""
        state = dict(super().__getstate__())
        if state.get("_predictor") is not None:
            state |= {"_predictor": None, "_packed": PackedPredictor.of(state["_predictor"])}
        return state


def can_continue(estimator: AttributeEstimator) -> bool:
    """Whether a training can be continued, which that of a baseline cannot."""
    method = estimator.method.get("name") if isinstance(estimator.method, Mapping) else estimator.method
    return not (isinstance(method, BaselineConfig) or (isinstance(method, str) and method in BASELINES))


def _subclasses(kind: type[E]) -> Iterator[type[E]]:
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _is_array(given: Any) -> bool:
    """Whether something is a matrix or is to be refused as one, rather than a table, rows or texts."""
    if issparse(given):  # some sparse matrices are mappings too
        return True
    if isinstance(given, str | Mapping | pd.Series | datasets.Dataset) or hasattr(given, "__arrow_c_stream__"):
        return False
    is_sequence = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1)
    return not is_sequence or (len(given) > 0 and not isinstance(given[0], str | Mapping | pd.Series | None))
