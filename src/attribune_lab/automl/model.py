"""The baseline ``automl`` after its search: a small network over word vectors, without a pretrained transformer.

Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", section 3.3 and table 5; `training.automl`
searches.

Shapes: n rows of a table, B of a batch, O outputs of the task, T words of the longest text, E numbers of a word vector,
F filters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from attribune.core.arrays import Array
from attribune.core.config import Settings
from attribune.data.batching import length_cuts
from attribune.data.readers.base import EncodedRows, Reader
from attribune.data.texts import TextInput
from attribune.models.baseline_model import Baseline, StoredBaseline
from attribune.models.sizes import Sizes
from attribune.models.word_features import LinearFeatures
from attribune.schema.schema import Revision
from attribune.tasks import Task
from attribune_lab.backbones.words import PADDING, WordVocabulary, split_words

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "leaky_relu": partial(functional.leaky_relu, negative_slope=0.2),
    "swish": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
Activation = Literal["relu", "relu6", "leaky_relu", "swish", "sigmoid", "tanh"]
Share = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]


class NetworkSettings(Settings):
    """One point of the search space of Houlsby et al. 2019, table 5, in its order.

    Args:
        vectors: name of the file of word vectors, or ``random-E`` for E random numbers.
        fine_tune: train the word vectors.
        lowercase: lower-case the text.
        alphanumeric: leave out all but letters and digits.
        convolution: filters over n-grams of words; otherwise the word vectors are pooled as they are.
        max_ngram: filters are 1 to `max_ngram` words long.
        convolution_dropout: of the pooled filters.
        filters: number of filters of each length.
        embedding_dropout: of the word vectors that filters read.
        deep_regularization: squared norm of the weights of the deep tower, without the word vectors.
        wide_regularization: sum of the absolute weights of the wide tower.
        samples: rows that are trained on, each as often as it comes.
    """

    what: ClassVar[str] = "the network"

    vectors: str
    fine_tune: bool
    lowercase: bool
    alphanumeric: bool
    convolution: bool
    convolution_activation: Activation
    convolution_batch_norm: bool
    max_ngram: Annotated[int, Field(ge=1, le=10)]
    convolution_dropout: Share
    filters: Annotated[int, Field(ge=1, le=10_000)]
    embedding_dropout: Share
    hidden_layers: Annotated[int, Field(ge=0, le=100)]
    hidden_size: Annotated[int, Field(ge=1, le=10_000)]
    activation: Activation
    normalization: Literal["none", "batch_norm", "layer_norm"]
    dropout: Share
    deep_learning_rate: Rate
    deep_regularization: Weight
    wide_learning_rate: Rate
    wide_regularization: Weight
    samples: Annotated[int, Field(ge=1)]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The features of B rows that are not 0.

    Args:
        columns: (N,) int64, the features of the first row, then those of the second, ...
        starts: (B,) int64, where the features of each row begin.
        values: (N,).
    """

    columns: Tensor
    starts: Tensor
    values: Tensor


class NGramConvolution(nn.Module):
    """Filters over all n-grams of words, 1 <= n <= N, and the largest value of each filter in a text.

    A window begins at each word. Beyond the end of a text its words are zero vectors:

        c_n[t] = f(norm(b_n + sum_{k<n} W_{n,k} x[t + k])),  output = [max_t c_1[t]; ...; max_t c_N[t]]

    The maximum is over the windows that begin at a word; a text without words gives zeros. Batch norm, if any, counts
    these windows alone.

    Args:
        size: E.
        filters: F.
        longest: N.
        activation: f.
    """

    def __init__(
        self, size: int, *, filters: int, longest: int, activation: Callable[[Tensor], Tensor], batch_norm: bool
    ) -> None:
        super().__init__()
        self.longest, self.activation = longest, activation
        # One product makes the terms of all filters: W_{1,0}, W_{2,0}, W_{2,1}, W_{3,0}, ...
        self.weight = nn.Parameter(torch.empty(longest * (longest + 1) // 2, filters, size))
        self.bias = nn.Parameter(torch.empty(longest, filters))
        self.norms = nn.ModuleList(nn.BatchNorm1d(filters) for _ in range(longest if batch_norm else 0))
        for n, block in enumerate(self._blocks(), start=1):
            bound = 1 / math.sqrt(n * size)
            nn.init.uniform_(self.weight[block], -bound, bound)
            nn.init.uniform_(self.bias[n - 1], -bound, bound)

    def _blocks(self) -> list[slice]:
        """Return the rows of `weight` of each n."""
        return [slice(n * (n - 1) // 2, n * (n + 1) // 2) for n in range(1, self.longest + 1)]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return (B, N F).

        Args:
            x: (B, T, E), zeros where there is no word.
            mask: (B, T), True for words, which come first.
        """
        # Parts by unbind, whose gradients are written side by side; those of slices are whole tensors that add up.
        terms = functional.linear(x, self.weight.flatten(end_dim=1))
        parts = terms.view(*x.shape[:2], *self.weight.shape[:2]).unbind(2)
        pooled = []
        for n, block in enumerate(self._blocks(), start=1):
            first, *others = parts[block]
            windows = self.bias[n - 1] + first
            for k, term in enumerate(others[: x.shape[1] - 1], start=1):
                windows = windows + functional.pad(term[:, k:], (0, 0, 0, k))
            if self.norms:
                real = _normalized(self.norms[n - 1], windows[mask])
                windows = torch.zeros_like(windows).masked_scatter(mask.unsqueeze(-1), real)
            largest = self.activation(windows).masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)
            pooled.append(torch.where(mask.any(dim=1, keepdim=True), largest, 0.0))
        return torch.cat(pooled, dim=1)


def _normalized(norm: nn.Module, x: Tensor) -> Tensor:
    """Apply a norm to (rows, features); a single row, without variance, is normalised by the running statistics."""
    if not isinstance(norm, nn.BatchNorm1d) or not norm.training or len(x) > 1:
        return norm(x)  # type: ignore[no-any-return]
    return functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)


class WordNetwork(nn.Module):
    """Score rows: ``logits = deep(words) + wide(features)``.

    The logits of both towers add up, as in Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems",
    equation 3.

    The deep tower encodes a text by `NGramConvolution`, or by the sum of its T word vectors over sqrt(T). Of two texts,
    which share the encoder, it reads ``[u; v; |u - v|; u * v]`` (Conneau et al. 2017, "Supervised Learning of Universal
    Sentence Representations", figure 1). Hidden layers (linear, norm, activation, dropout) and a linear layer
    follow. The wide tower is linear.

    Args:
        vectors: (V, E), the initial word vectors; the first is that of padding, zeros.
        features: number of sparse features.
        outputs: O.
        is_pair: whether rows have two texts.
    """

    def __init__(
        self, settings: NetworkSettings, *, vectors: Tensor, features: int, outputs: int, is_pair: bool = False
    ) -> None:
        super().__init__()
        self.is_pair = is_pair
        count, size = vectors.shape
        self.embedding = nn.Embedding(count, size, padding_idx=PADDING, _weight=vectors.clone(), sparse=True)
        self.embedding.requires_grad_(settings.fine_tune)
        self.convolution: NGramConvolution | None = None
        if settings.convolution:
            self.convolution = NGramConvolution(
                size,
                filters=settings.filters,
                longest=settings.max_ngram,
                activation=ACTIVATIONS[settings.convolution_activation],
                batch_norm=settings.convolution_batch_norm,
            )
            size = settings.filters * settings.max_ngram
        self.embedding_dropout = nn.Dropout(settings.embedding_dropout)
        self.convolution_dropout = nn.Dropout(settings.convolution_dropout)
        self.activation = ACTIVATIONS[settings.activation]
        sizes = [size * (4 if is_pair else 1)] + [settings.hidden_size] * settings.hidden_layers
        self.hidden = nn.ModuleList(nn.Linear(n, settings.hidden_size) for n in sizes[:-1])
        self.norms = nn.ModuleList(_norm(settings.normalization, settings.hidden_size) for _ in self.hidden)
        self.dropout = nn.Dropout(settings.dropout)
        self.output = nn.Linear(sizes[-1], outputs)
        self.wide = nn.Parameter(torch.zeros(features, outputs))

    def forward(self, texts: tuple[Tensor, ...], rows: SparseRows) -> Tensor:
        """Return logits (B, O).

        Args:
            texts: ids (B, T) of the words of each text, 0 behind the last.
        """
        x = self.encode(texts[0])
        if self.is_pair:
            y = self.encode(texts[1])
            x = torch.cat([x, y, (x - y).abs(), x * y], dim=1)
        for layer, norm in zip(self.hidden, self.norms, strict=True):
            x = self.dropout(self.activation(_normalized(norm, layer(x))))
        wide = functional.embedding_bag(
            rows.columns, self.wide, rows.starts, mode="sum", per_sample_weights=rows.values, sparse=True
        )
        logits: Tensor = self.output(x) + wide
        return logits

    def encode(self, ids: Tensor) -> Tensor:
        """Return the vectors of texts, (B, N F) or (B, E)."""
        mask = ids != PADDING
        x: Tensor = self.embedding(ids)
        if self.convolution is not None:
            pooled: Tensor = self.convolution_dropout(self.convolution(self.embedding_dropout(x), mask))
            return pooled
        return x.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1).to(x.dtype).sqrt()


def _norm(name: str, size: int) -> nn.Module:
    return {"none": nn.Identity(), "batch_norm": nn.BatchNorm1d(size), "layer_norm": nn.LayerNorm(size)}[name]


_LONGEST = 1_000  # words of a text for the deep tower; the features are those of the whole text


def read_words(text: str, *, lowercase: bool, alphanumeric: bool) -> list[str]:
    """Return the words of a text that the deep tower reads."""
    return split_words(text, lowercase=lowercase, alphanumeric=alphanumeric)[:_LONGEST]


@dataclass(frozen=True, eq=False)
class WordRows:
    """Rows of words and features.

    Args:
        texts: for each text of a row, the ids of its words, one array for each row.
        features: (rows, features) in CSR form.
    """

    texts: tuple[list[npt.NDArray[np.int64]], ...]
    features: Any

    @classmethod
    def encode(cls, texts: Sequence[Sequence[Sequence[str]]], vocabulary: WordVocabulary, features: Any) -> Self:
        """Make rows of words; `texts` has, for each text of a row, the words of every row."""
        return cls(tuple([vocabulary.encode(words) for words in column] for column in texts), features)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of words of each row's longest text, (rows,)."""
        lengths = np.array([[len(ids) for ids in column] for column in self.texts], dtype=np.int64)
        return np.asarray(lengths.max(axis=0))

    def batch(self, rows: npt.NDArray[np.intp], *, dtype: torch.dtype) -> tuple[tuple[Tensor, ...], SparseRows]:
        """Return the arguments of `WordNetwork.forward` for some rows."""
        part = self.features[rows]
        features = SparseRows(
            columns=torch.from_numpy(part.indices.astype(np.int64)),
            starts=torch.from_numpy(part.indptr[:-1].astype(np.int64)),
            values=torch.from_numpy(part.data).to(dtype),
        )
        return tuple(_padded([column[row] for row in rows]) for column in self.texts), features


def _padded(texts: Sequence[npt.NDArray[np.int64]]) -> Tensor:
    """Return (rows, T), at least one column wide."""
    lengths = np.array([len(ids) for ids in texts])
    ids = np.full((len(texts), max(1, int(lengths.max(initial=0)))), PADDING, dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate([ids[0, :0], *texts])
    return torch.from_numpy(ids)


_BUSY = 4096  # words of a batch beyond which the CPU gets no faster
_WIDE, _IDF = "wide", "idf"


class _Batch(NamedTuple):
    texts: tuple[Tensor, ...]
    rows: SparseRows


class TextParts(NamedTuple):
    """What a row is read of: all of its text in one, and each text for itself."""

    joined: str
    parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PartRows(EncodedRows):
    """Rows with one or two texts."""

    inputs: Sequence[TextParts]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of characters of each row, (rows,)."""
        return np.array([len(text.joined) for text in self.inputs], dtype=np.int64)


class PartsReader(Reader):
    """Reads the one or two texts of rows as they are."""

    name: ClassVar[str] = "parts"

    def __init__(self, *, is_pair: bool) -> None:
        self.is_pair = is_pair

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedRows:
        """Read rows from columns given by name."""
        texts = [text.read(columns, first_row=first_row)]
        if self.is_pair:
            texts.append(text.read_pairs(columns, first_row=first_row))
        joined = text.read_all(columns, first_row=first_row)
        inputs = [TextParts(*row) for row in zip(joined, zip(*texts, strict=True), strict=True)]
        return PartRows.without_attributes(inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class AutoMLModel(Baseline):
    """The best network of a search.

    Args:
        features: of the wide tower, those of the baseline ``linear``: TF-IDF of words and word pairs, one column per
            attribute value.
        network: in evaluation mode, on the CPU.
    """

    kind: ClassVar[str] = "automl"
    settings: NetworkSettings
    vocabulary: WordVocabulary
    features: LinearFeatures
    network: WordNetwork

    def sizes(self) -> Sizes:
        """Count the parameters; word vectors that are not fine-tuned are stored, and not trained."""
        parameters = list(self.network.parameters())
        total = sum(parameter.numel() for parameter in parameters)
        trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        return Sizes(total=total, trained=trained, stored=total, stored_bytes=4 * total, outputs=self.task.outputs)

    def row_encoder(self, text_input: TextInput | None = None) -> Reader:
        """Return what reads the texts of rows."""
        return PartsReader(is_pair=self.network.is_pair)

    def batches(self, rows: EncodedRows, *, size: int) -> Iterator[tuple[npt.NDArray[np.intp], _Batch]]:
        """Cut rows into batches of similar length, each with the indices of its rows."""
        if not len(rows):
            return
        options = {"lowercase": self.settings.lowercase, "alphanumeric": self.settings.alphanumeric}
        columns = zip(*(row.parts for row in rows.inputs), strict=True)
        texts = [[read_words(text, **options) for text in column] for column in columns]
        features = self.features.transform([row.joined for row in rows.inputs], rows.attribute_ids)
        words = WordRows.encode(texts, self.vocabulary, features)
        order = np.argsort(-words.lengths, kind="stable")
        for cut in length_cuts(words.lengths[order].tolist(), size=size, busy=_BUSY):
            yield order[cut], _Batch(*words.batch(order[cut], dtype=self.network.wide.dtype))

    def score(self, batch: _Batch) -> npt.NDArray[np.float32]:
        """Return the logits of rows, (n, O), in float32 whatever the precision of other models."""
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            return self.network(batch.texts, batch.rows).float().numpy()  # type: ignore[no-any-return]

    def revised(self, revision: Revision) -> Self:
        """Return the model with values added to the schema, without weights, or taken away with theirs."""
        features, rows = self.features.revised(revision)
        tensors = dict(self.network.state_dict())
        wide = torch.cat([tensors[_WIDE], torch.zeros_like(tensors[_WIDE][:1])])  # the last row is that of new values
        tensors[_WIDE] = wide[torch.from_numpy(rows)]
        network = _network(self.settings, tensors, self.task, is_pair=self.network.is_pair)
        return replace(self, features=features, network=network)

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what is stored; see `Baseline.stored`."""
        settings = {
            "network": self.settings.model_dump(mode="json"),
            "is_pair": self.network.is_pair,
            "words": self.vocabulary.words,
            "features": self.features.words,
        }
        tensors = {name: tensor.numpy() for name, tensor in self.network.state_dict().items()}
        return settings, tensors | {_IDF: self.features.idf}

    @classmethod
    def from_stored(cls, stored: StoredBaseline, *, backbone: str | Path | None) -> Self:
        """Return the model of what `stored` returned; see `Baseline.from_stored`."""
        saved = stored.settings
        task, is_pair = stored.task, bool(saved["is_pair"])
        settings = NetworkSettings.from_dict(saved["network"], source=str(stored.path), saved=True)
        vocabulary = WordVocabulary(stored.texts("words"))
        words, idf = stored.texts("features"), stored.tensors[_IDF]
        features = LinearFeatures(words=words, idf=idf, schema=stored.schema)
        size = stored.tensors["embedding.weight"].shape[-1]
        with torch.device("meta"):
            vectors = torch.empty(len(vocabulary), size)
            network = WordNetwork(
                settings, vectors=vectors, features=features.width, outputs=task.outputs, is_pair=is_pair
            )
        expected = network.state_dict()
        shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
        stored.check_shapes(shapes | {_IDF: (len(words),)})
        tensors = {name: torch.from_numpy(stored.tensors[name]) for name in expected}
        network = _network(settings, tensors, task, is_pair=is_pair)
        return cls(
            task=task,
            settings=settings,
            vocabulary=vocabulary,
            features=features,
            network=network,
            text_input=stored.text_input,
        )


def _network(settings: NetworkSettings, tensors: Mapping[str, Tensor], task: Task, *, is_pair: bool) -> WordNetwork:
    vectors, features = tensors["embedding.weight"], len(tensors[_WIDE])
    network = WordNetwork(settings, vectors=vectors, features=features, outputs=task.outputs, is_pair=is_pair)
    network.load_state_dict(dict(tensors))
    return network.eval()
