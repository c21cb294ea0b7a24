"""What the estimators share: a training on rows in memory, and the predictor that it leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from attribune.apps.estimators.inputs import read_columns
from attribune.apps.estimators.saved import PackedPredictor, saved_model
from attribune.core.config import short_repr
from attribune.core.process_state import training_alone
from attribune.core.progress import Reporter
from attribune.errors import ConfigError
from attribune.models.baselines import BASELINES
from attribune.models.predictor import Predictor
from attribune.models.row_inputs import Predictions, RowNames
from attribune.runs.loading import load_run
from attribune.schema.kinds import Kind, as_kinds
from attribune.training.train import train

__all__ = ["AttributeEstimator", "can_continue"]


class AttributeEstimator(BaseEstimator, ABC):
    """A scikit-learn estimator that reads texts and their attributes.

    Rows are a DataFrame, a table with the Arrow interface, columns by name, a list of mappings, a list of texts, or an
    array with the columns ``x0``, ``x1`` and so on. Arguments not described here are those of `attribune.train`,
    whose defaults None stands for.

    Args:
        text: text column, or several to join.
        text_pair: column of a second text, which is read with the first.
        attributes: columns with one value per row by their names, or `Categorical`, `MultiLabel`, `Numeric`, `Number`.
        method: its name, or one with options such as ``Injector(bottleneck=8)``.
        settings: any other setting of a recipe by its path, such as ``{"training.weight_decay": 0.1}``.
        validation_fraction: share of the rows used to choose the best epoch; training stops early by them.
        warm_start: whether `fit` continues the last training and adds new values.
        random_state: seed of initialisation, batches and validation rows.
        verbose: whether to show a bar, in a terminal or notebook.

    Attributes:
        predictor_: the `Predictor` of the trained model; ``predictor_.model.save_pretrained`` writes its folder.
        results_: the results of the training, as `attribune.train` returns them; printed as tables.
        feature_names_in_: the columns of a DataFrame.
        n_features_in_: their number, or that of an array's columns.
    """

    _kind: ClassVar[str]

    def __init__(
        self,
        text: str | Sequence[str] = "text",
        *,
        attributes: Sequence[str | Kind] = (),
        text_pair: str | Sequence[str] | None = None,
        values: Mapping[str, Any] | None = None,
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
        return self._fit(X, y, sample_weight, continues=self.warm_start and self.__sklearn_is_fitted__())

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
        table = read_columns(self, X, self._names, is_fit=True, continues=continues)
        check_consistent_length(table, labels)
        columns = {"label": labels}
        if weight is not None:
            columns["weight"] = pa.array(column_or_1d(weight), type=pa.float64())
            check_consistent_length(table, columns["weight"])
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
            predictor = load_run(run)[1]
        self.results_, self._predictor, self._packed = results, predictor, None

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
        return settings | dict(self.settings or {})

    def _train_arguments(self, epochs: float | None) -> dict[str, Any]:
        """Return the arguments of `train` that have the names of parameters."""
        names = ("text", "attributes", "text_pair", "values", "method", "backbone", "tuning", "batch_size")
        given = {name: getattr(self, name) for name in (*names, "learning_rate", "max_length")}
        return {**given, "epochs": self.epochs if epochs is None else epochs}

    @property
    def _names(self) -> RowNames:
        """The columns that rows must have."""
        texts = tuple(name for what in ("text", "text_pair") for name in self._columns(what))
        return RowNames(texts=texts, needed=(*texts, *(kind.name for kind in as_kinds(self.attributes))))

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
            is_folder = self.backbone is not None and Path(self.backbone).is_dir()
            self._predictor = self._packed.unpack(backbone=str(self.backbone) if is_folder else None)
        return self._predictor

    def _predict(self, X: Any) -> Predictions:
        """Return predictions and probabilities by column name."""
        check_is_fitted(self)
        table = read_columns(self, X, self._names, is_fit=False)
        found: Predictions = self.predictor_.predict(table)
        return found

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
    return not (isinstance(method, str) and method in BASELINES)


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
