"""The search of the baseline ``automl``: networks over word vectors, compared on the validation rows.

Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", section 3.3 and tables 5 and 6. What they
leave open is decided in docs/decisions.md. Test rows are never read.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attribune.core.files import read_json, write_json
from attribune.core.hashing import checksum
from attribune.core.process import keep_freed_memory
from attribune.core.progress import Reporter
from attribune.data.batching import LengthGroupedBatches, length_cuts
from attribune.errors import ConfigError, DataError
from attribune.models.word_features import LinearFeatures
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import TrainingRecipe
from attribune.tasks import Task
from attribune.tasks.base import selection_score
from attribune.tasks.capabilities import LINEAR, require
from attribune.training.plan import TrainingPlan
from attribune.training.preparation import PreparedData
from attribune.training.study import Space, Study, Trial, read_space, require_optuna
from attribune_lab.automl.model import ACTIVATIONS, AutoMLModel, NetworkSettings, WordNetwork, WordRows, read_words
from attribune_lab.automl.options import AutoML
from attribune_lab.backbones.word_vectors import WordVectors, read_word_vectors
from attribune_lab.backbones.words import PADDING, WordVocabulary

RANDOM = ("random-50", "random-128")
"""Sizes of random word vectors."""
_RANGE = 0.1  # of random word vectors
_MOST_WORDS, _MOST_FEATURES = 100_000, 100_000


@dataclass(frozen=True, eq=False)
class NetworkTexts:
    """Training and validation rows, from which a trial makes its own.

    Attributes:
        raw: by split, for each text of a row the texts of all rows.
        vectors: by the name of the file.
        features: sparse features, and `matrices` those of the splits.
        weights: (n,) of the training rows; None if all count the same.
    """

    raw: Mapping[str, Sequence[Sequence[str]]]
    labels: Mapping[str, npt.NDArray[Any]]
    vectors: Mapping[str, WordVectors]
    features: LinearFeatures
    matrices: Mapping[str, Any]
    weights: npt.NDArray[np.float32] | None = None
    words: dict[tuple[str, bool, bool], Sequence[Sequence[list[str]]]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, config: AutoML, plan: TrainingPlan, data: PreparedData, folder: RunFolder, reporter: Reporter
    ) -> NetworkTexts:
        """Read texts and attributes of the rows, and the vectors of the words of training rows."""
        text = plan.data.text
        splits = {name: data.splits[name] for name in ("train", "validation")}
        raw = {
            name: [text.read(split.table), *([text.read_pairs(split.table)] if text.pair else [])]
            for name, split in splits.items()
        }
        joined = {name: text.read_all(split.table) for name, split in splits.items()}
        ids = {
            name: data.schema.encode(split.table)[0] if len(data.schema) else np.zeros((len(split.rows), 0), np.int64)
            for name, split in splits.items()
        }
        features = LinearFeatures.fit(joined["train"], data.schema, max_features=_MOST_FEATURES)
        texts = cls(
            raw=raw,
            labels={name: split.labels for name, split in splits.items()},
            vectors={},
            features=features,
            matrices={name: features.transform(joined[name], ids[name]) for name in splits},
            weights=splits["train"].weights,
        )
        return replace(texts, vectors=texts._read_vectors(config.word_vectors, folder, reporter))

    def _read_vectors(self, files: Sequence[str], folder: RunFolder, reporter: Reporter) -> dict[str, WordVectors]:
        """Read the vectors of all forms of the words of training rows."""
        if not files:
            return {}
        words = {
            word
            for options in ((True, False), (False, False))  # without marks there are no other words
            for column in self._words_of("train", *options)
            for row in column
            for word in row
        }
        vectors = {}
        for file in files:
            read = vectors[Path(file).name] = read_word_vectors(file, words)
            if not read.words:
                raise DataError(
                    f"{file}: has none of the {len(words):,} words of the training rows: give vectors of their language"
                )
            found = f"vectors of {read.size} numbers for {len(read.words):,} of {len(words):,} words"
            reporter.note(f"{Path(file).name}: {found}")
        _check_same_vectors(folder, vectors)
        return vectors

    def _words_of(self, split: str, lowercase: bool, alphanumeric: bool) -> Sequence[Sequence[list[str]]]:
        """Return the words of the texts of a split, which are found once."""
        key = (split, lowercase, alphanumeric)
        if key not in self.words:
            options = {"lowercase": lowercase, "alphanumeric": alphanumeric}
            self.words[key] = [[read_words(text, **options) for text in column] for column in self.raw[split]]
        return self.words[key]

    def rows(self, settings: NetworkSettings) -> tuple[WordVocabulary, dict[str, WordRows]]:
        """Return the vocabulary and the rows of a network."""
        words = {name: self._words_of(name, settings.lowercase, settings.alphanumeric) for name in self.raw}
        vectors = self.vectors.get(settings.vectors)
        known = frozenset(vectors.words) if vectors is not None else frozenset()
        every = (row for column in words["train"] for row in column)
        vocabulary = WordVocabulary.fit(every, known=known, limit=_MOST_WORDS)
        rows = {name: WordRows.encode(words[name], vocabulary, self.matrices[name]) for name in words}
        return vocabulary, rows

    def initial_vectors(self, settings: NetworkSettings, vocabulary: WordVocabulary, *, seed: int) -> Tensor:
        """Return (V, E): pretrained vectors, U(-0.1, 0.1) for words without one, zeros for padding."""
        vectors = self.vectors.get(settings.vectors)
        size = int(settings.vectors.removeprefix("random-")) if vectors is None else vectors.size
        matrix = np.random.default_rng(seed).uniform(-_RANGE, _RANGE, (len(vocabulary), size)).astype(np.float32)
        if vectors is not None:
            ids = vocabulary.encode(vectors.words)
            has_id = ids >= len(vocabulary) - len(vocabulary.words)
            matrix[ids[has_id]] = vectors.matrix[has_id]
        matrix[PADDING] = 0
        return torch.from_numpy(matrix)


def _check_same_vectors(folder: RunFolder, vectors: Mapping[str, WordVectors]) -> None:
    """Refuse to go on with other word vectors than those of earlier trials."""
    path = folder.trials / "word_vectors.json"
    marks = {
        name: checksum([repr(read.words).encode(), read.matrix.tobytes()], size=16) for name, read in vectors.items()
    }
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, marks, what="mark of the word vectors")
    elif read_json(path, what="mark of the word vectors") != marks:
        raise ConfigError(
            f"the word vectors are not those with which {folder.path} was started: restore the files, or choose "
            "another output folder"
        )


_CHECK = 2_000  # rows at least between two checks, however few the training rows are
_CLEAR_SCORE, _CLEAR_LOSS = 1e-3, 5e-2  # shares by which a check must be better for patience to begin anew
_MOST_EPOCHS = 200
_START = 0.1  # of the sums of AdaGrad, as in TensorFlow


class Check(NamedTuple):
    """The validation rows after `samples` training rows: score and loss, lower is better, and the metrics."""

    score: float
    loss: float
    selected_by: str
    metrics: dict[str, float]
    samples: int

    def is_clearly_better_than(self, other: Check) -> bool:
        """Whether the score is, or the same while the loss is, as before the first row that is predicted otherwise."""
        if self.score == other.score:
            return self.loss < (1 - _CLEAR_LOSS) * other.loss
        return self.score < other.score - _CLEAR_SCORE * abs(other.score)


class NetworkFit:
    """A network in training: AdaGrad for the deep tower, FTRL for the wide one (Cheng et al. 2016, section 3.2)."""

    def __init__(
        self,
        network: WordNetwork,
        settings: NetworkSettings,
        rows: Mapping[str, WordRows],
        labels: Mapping[str, npt.NDArray[Any]],
        task: Task,
        training: TrainingRecipe,
        *,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self.network, self.settings, self.rows, self.labels = network, settings, rows, labels
        self.weights = None if weights is None else torch.from_numpy(weights)
        self.task, self.training, self.samples = task, training, 0
        self.best: dict[str, Tensor] = {}
        self.is_finite = True  # logits and score
        self.optimizers = _optimizers(network, settings)

    def checks(self) -> Iterator[Check]:
        """Train, and yield the validation scores after every epoch, or after enough of them for small data.

        Ends when the rows of the settings are seen, or before numbers that are not finite.
        """
        count = len(self.rows["train"])
        samples, interval = min(self.settings.samples, _MOST_EPOCHS * count), max(count, _CHECK)
        next_check = interval
        for batch in self._batches():
            if self.samples >= next_check:
                next_check += interval
                check = self._check()
                if check is None:
                    return
                yield check
            if self.samples >= samples:
                break
            self._step(batch)
        if self.samples > next_check - interval and (check := self._check()) is not None:
            yield check

    def remember(self) -> None:
        """Copy the weights."""
        self.best = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}

    def _batches(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the rows of batches without end; none has a single row, of which there is no variance."""
        rows, size = self.rows["train"], self.training.batch_size
        order = LengthGroupedBatches(rows.lengths, batch_size=size, seed=self.training.seed)
        epoch = 0
        while True:
            order.set_epoch(epoch)
            index = order.order()
            cuts = list(range(size, len(index), size))
            if cuts and len(index) - cuts[-1] == 1:
                cuts.pop()
            yield from np.split(index, cuts)
            epoch += 1

    def _step(self, index: npt.NDArray[np.int64]) -> None:
        self.network.train()
        logits = self.network(*self.rows["train"].batch(index, dtype=torch.float32))
        labels = torch.from_numpy(self.labels["train"][index])
        if self.weights is None:
            loss = self.task.loss(logits, labels)
        else:
            loss = self.task.weighted_loss(logits, labels, self.weights[torch.from_numpy(index)])
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            # torch's own AdaGrad makes sparse tensors, and warns unless their checks are set.
            for optimizer in self.optimizers:
                optimizer.step()
        self.samples += len(index)

    def _check(self) -> Check | None:
        """Score the validation rows; None for logits or a score that are not finite."""
        labels = self.labels["validation"]
        logits = self._logits()
        self.is_finite = bool(np.isfinite(logits).all())
        if not self.is_finite:
            return None
        loss = float(self.task.loss(torch.from_numpy(logits), torch.from_numpy(labels)))
        metrics = {name: metric.value() for name, metric in self.task.metrics(logits, labels).items()}
        selected = selection_score(self.task, logits, labels, by=self.training.select_by)
        value = selected.value()
        self.is_finite = math.isfinite(value)
        if not self.is_finite:
            return None
        metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
        metrics = {selected.name: value, **metrics}
        return Check(-value if selected.higher_is_better else value, loss, selected.name, metrics, self.samples)

    @torch.inference_mode()
    def _logits(self) -> npt.NDArray[np.float32]:
        self.network.eval()
        rows = self.rows["validation"]
        logits = np.zeros((len(rows), self.task.outputs), dtype=np.float32)
        order = np.argsort(-rows.lengths, kind="stable")
        for cut in length_cuts(rows.lengths[order].tolist(), size=256, busy=4096):
            logits[order[cut]] = self.network(*rows.batch(order[cut], dtype=torch.float32)).numpy()
        return logits


class FTRL(torch.optim.Optimizer):
    """FTRL-Proximal with an L1 penalty for parameters with sparse gradients, which start at 0.

    Of a feature that a batch does not have nothing changes, which is exact: the penalty is part of the formula that
    makes the weight of the sums z and n, and not of the gradient.

        sigma = (sqrt(n + g²) - sqrt(n)) / rate;  z <- z + g - sigma w;  n <- n + g²
        w = 0 if |z| <= l1, else -rate (z - sign(z) l1) / sqrt(n)

    After McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches", algorithm 1, with beta = 0, which the
    wide tower of Cheng et al. 2016 is trained by.

    Args:
        rate: above 0.
        l1: at least 0.
    """

    def __init__(self, parameters: Iterable[Tensor], *, rate: float, l1: float) -> None:
        super().__init__(parameters, {"rate": rate, "l1": l1})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the rows that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad.coalesce(), group["rate"], group["l1"])
        return loss

    def _update(self, table: Tensor, grad: Tensor, rate: float, l1: float) -> None:
        state = self.state[table]
        if not state:
            state["z"], state["n"] = torch.zeros_like(table), torch.full_like(table, _START)
        rows, g = grad.indices()[0], grad.values()
        n = state["n"][rows]
        sums = n + g.square()
        z = state["z"][rows] + g - (sums.sqrt() - n.sqrt()) / rate * table[rows]
        state["z"][rows], state["n"][rows] = z, sums
        table[rows] = torch.where(z.abs() <= l1, 0.0, -rate * (z - z.sign() * l1) / sums.sqrt())


def _optimizers(network: WordNetwork, settings: NetworkSettings) -> list[torch.optim.Optimizer]:
    """Return those of the deep and the wide tower; the squared norm is that of matrices, without word vectors."""
    vectors = network.embedding.weight
    deep = [
        parameter
        for name, parameter in network.named_parameters()
        if parameter.requires_grad and parameter is not network.wide and parameter is not vectors
    ]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in deep if p.ndim > 1], "weight_decay": settings.deep_regularization},
        {"params": [p for p in deep if p.ndim == 1]},
    ]
    if isinstance(vectors, nn.Parameter) and vectors.requires_grad:
        groups.append({"params": [vectors]})
    adagrad = torch.optim.Adagrad(groups, lr=settings.deep_learning_rate, initial_accumulator_value=_START)
    return [adagrad, FTRL([network.wide], rate=settings.wide_learning_rate, l1=settings.wide_regularization)]


_PRUNE_AFTER = 5  # trials


def network_space(word_vectors: Sequence[str]) -> Space:
    """Return the search space of table 5 of the paper, in its order.

    Args:
        word_vectors: names of the files that are option 1; without any, option 1 is the size of random vectors, which
            are always trained.
    """
    rates, weights = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5], [0.0, 0.0001, 0.001, 0.01]
    either, activations = [True, False], list(ACTIVATIONS)
    return read_space(
        {
            "vectors": list(word_vectors) or list(RANDOM),
            "fine_tune": either if word_vectors else [True],
            "lowercase": either,
            "alphanumeric": either,
            "convolution": either,
            "convolution_activation": activations,
            "convolution_batch_norm": either,
            "max_ngram": [2, 3],
            "convolution_dropout": {"low": 0.0, "high": 0.4},
            "filters": {"low": 50, "high": 200, "integer": True},
            "embedding_dropout": {"low": 0.0, "high": 0.4},
            "hidden_layers": [0, 1, 2, 3, 5],
            "hidden_size": [64, 128, 256],
            "activation": activations,
            "normalization": ["none", "batch_norm", "layer_norm"],
            "dropout": [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5],
            "deep_learning_rate": rates,
            "deep_regularization": weights,
            "wide_learning_rate": rates,
            "wide_regularization": weights,
            "samples": [100_000, 200_000, 500_000, 1_000_000, 2_000_000],
        }
    )


@dataclass(frozen=True, kw_only=True)
class NetworkTrial(Trial):
    """One network.

    Args:
        selected_by: metric by which checks and trials are compared.
        checks: score after each check, lower is better.
        samples: rows that it was trained on.
        best_samples: rows after which it was best.
        ended: why: ``samples``, all of them seen; ``patience``, no check was better; ``pruned``, others were better by
            then; ``minutes``, the time was over; ``diverged``, the logits were no longer finite.
        seconds: without interrupted attempts.
    """

    selected_by: str = ""
    checks: list[float] = field(default_factory=list)
    samples: int = 0
    best_samples: int = 0
    ended: str = ""
    seconds: float = 0.0


def train_automl(
    config: AutoML, plan: TrainingPlan, folder: RunFolder, data: PreparedData, reporter: Reporter
) -> dict[str, Any]:
    """Search, and save the best network as the model of the run; an interrupted search continues.

    Returns:
        Fields of `TrainingRecord`.

    Raises:
        ConfigError: without Optuna, for a task that cannot be learned, or files of word vectors that have changed since
            the search began.
        DataError: when a file of word vectors cannot be read, or no trial succeeds.
    """
    require_optuna()
    require(data.task, LINEAR, what="the baseline automl")
    keep_freed_memory()
    texts = NetworkTexts.read(config, plan, data, folder, reporter)
    budget = None if config.minutes is None else 60 * config.minutes
    study = _study(config.trials, budget, texts, data, plan.training, folder, reporter)
    tried, best = study.tried, study.best
    if best is None:
        raise DataError(f"all {len(tried)} trials of automl failed, the first with: {tried[0].error}")
    model = AutoMLModel.load(_weights(folder, best.number))
    replace(model, text_input=plan.data.text).save_pretrained(folder.model)
    size = plan.training.batch_size
    return {
        "trials": len(tried),
        "best_trial": best.number + 1,
        "network": best.values,
        "steps": -(-best.samples // size),
        "epochs": best.samples / len(texts.labels["train"]),
        "best_step": -(-best.best_samples // size),
        "selected_by": _selected_by(best, data.task),
        "best_value": best.metrics[_selected_by(best, data.task)],
        "seconds": sum(trial.seconds for trial in tried),
        "stopped_early": best.ended == "patience",
    }


def _selected_by(trial: NetworkTrial, task: Task) -> str:
    """Return the metric by which a trial is compared; records of earlier releases do not name it."""
    return trial.selected_by or task.main_metric


def _study(
    count: int,
    budget: float | None,
    texts: NetworkTexts,
    data: PreparedData,
    training: TrainingRecipe,
    folder: RunFolder,
    reporter: Reporter,
) -> Study[NetworkTrial]:
    """Go on with the trials of earlier attempts until there are enough or the time is over.

    Of the weights those of the best trial are kept.
    """
    study = Study(folder.path, NetworkTrial, network_space(list(texts.vectors)), seed=training.seed)
    while len(study.tried) < count:
        is_new = not study.is_recorded
        left = math.inf if budget is None else budget - sum(one.seconds for one in study.tried)
        if is_new and study.tried and left <= 0:
            reporter.note(f"time is up after {len(study.tried)} of {count} trials")
            break

        def run(trial: NetworkTrial, _: Path, left: float = left) -> NetworkTrial:
            weights = _weights(folder, trial.number)
            return _try(trial, weights, texts, data.task, training, study.tried, left=left)

        trial = study.next(run)
        if is_new:
            reporter.note(_line(trial, count, study.best, data.task))
        for one in study.tried:
            if one is not study.best:
                shutil.rmtree(_weights(folder, one.number), ignore_errors=True)
    return study


def _weights(folder: RunFolder, number: int) -> Path:
    """Return where the model of a trial is, until the run has its own."""
    return folder.checkpoints / f"trial-{number:04d}"


def _line(trial: NetworkTrial, count: int, best: NetworkTrial | None, task: Task) -> str:
    start = f"trial {trial.number + 1} of {count}"
    if trial.score is None or best is None:
        return f"{start} failed: {trial.error}"
    metric = _selected_by(best, task)
    found = f"{metric} {trial.metrics[metric]:.4f} after {trial.samples:,} rows ({trial.ended}), {trial.seconds:.1f} s"
    return f"{start}: {found}; the best is {best.metrics[metric]:.4f} (trial {best.number + 1})"


def _try(
    trial: NetworkTrial,
    folder: Path,
    texts: NetworkTexts,
    task: Task,
    training: TrainingRecipe,
    tried: Sequence[NetworkTrial],
    *,
    left: float,
) -> NetworkTrial:
    """Train the network of a trial, save its best weights, and return its result."""
    started = time.perf_counter()
    settings = NetworkSettings.from_dict(trial.values)
    if settings.vectors not in (*texts.vectors, *RANDOM):
        raise ConfigError(f"trial {trial.number + 1} names word vectors {settings.vectors!r} that are not there")
    vocabulary, rows = texts.rows(settings)
    torch.manual_seed(training.seed + trial.number)
    network = WordNetwork(
        settings,
        vectors=texts.initial_vectors(settings, vocabulary, seed=training.seed),
        features=texts.features.width,
        outputs=task.outputs,
        is_pair=len(texts.raw["train"]) == 2,
    )
    fit = NetworkFit(network, settings, rows, texts.labels, task, training, weights=texts.weights)
    try:
        trial = _fit(trial, fit, tried, ends=started + left)
    except (RuntimeError, MemoryError) as error:  # no memory for a network of this size
        return replace(trial, error=str(error), seconds=time.perf_counter() - started)
    if trial.score is not None:
        network.load_state_dict(fit.best)
        model = AutoMLModel(
            task=task, settings=settings, vocabulary=vocabulary, features=texts.features, network=network.eval()
        )
        model.save_pretrained(folder)
    return replace(trial, seconds=time.perf_counter() - started)


def _fit(trial: NetworkTrial, fit: NetworkFit, tried: Sequence[NetworkTrial], *, ends: float) -> NetworkTrial:
    """Train until the rows of the settings are seen, patience runs out, others are better, or the time is over."""
    checks: list[float] = []
    best: Check | None = None
    clear: Check | None = None
    since = 0
    for check in fit.checks():
        checks.append(check.score)
        if best is None or (check.score, check.loss) < (best.score, best.loss):
            best = check
            fit.remember()
        if clear is None or check.is_clearly_better_than(clear):
            clear, since = check, 0
        else:
            since += 1
        if since >= fit.training.patience:
            ended = "patience"
        elif _is_behind(checks, tried):
            ended = "pruned"
        elif time.perf_counter() >= ends:
            ended = "minutes"
        else:
            continue
        break
    else:
        ended = "samples" if fit.is_finite else "diverged"
    if best is None:
        rates = f"{fit.settings.deep_learning_rate:g} and {fit.settings.wide_learning_rate:g}"
        return replace(trial, error=f"the logits became infinite or not a number with learning rates of {rates}")
    return replace(
        trial,
        score=best.score,
        metrics=best.metrics,
        selected_by=best.selected_by,
        checks=checks,
        samples=fit.samples,
        best_samples=best.samples,
        ended=ended,
    )


def _is_behind(checks: Sequence[float], tried: Sequence[NetworkTrial]) -> bool:
    """Whether the best score so far is worse than the median of other trials by the same check.

    The median stopping rule of Golovin et al. 2017, "Google Vizier", section 3.2, with best instead of mean scores.
    """
    others = [min(trial.checks[: len(checks)]) for trial in tried if len(trial.checks) >= len(checks)]
    return len(others) >= _PRUNE_AFTER and min(checks) > median(others)
