"""The network of the method ``automl``: a deep tower over word vectors and a wide one over sparse features.

After Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems", equation 3: the logits of both towers add up.

Shapes: B rows, T words of the longest text, E numbers of a word vector, F filters, O outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from attribune.core.config import Settings
from attribune.data.words import PADDING

__all__ = ["ACTIVATIONS", "NGramConvolution", "NetworkSettings", "SparseRows", "WordNetwork"]

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
