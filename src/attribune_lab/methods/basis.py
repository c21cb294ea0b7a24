"""``basis``: a parameter of the model as a mixture of a few, chosen by the attributes (Kim et al. 2019)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal, Self, cast

import torch
from jaxtyping import Float
from pydantic import PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from attribune.backbones.placement import Placement
from attribune.backbones.recurrent import Recurrent
from attribune.errors import ConfigError
from attribune.functional.recurrent import RowLSTMWeights
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Embedded, Method, Pool, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import AttributeMethodConfig, Point
from attribune.methods.host import Host
from attribune.methods.shapes import Documents, InputIds, Logits, Mask, States
from attribune_lab import functional

_POINTS: dict[str, tuple[Point, ...]] = {
    "word": ("embed", "pool"),
    "encoder": ("pool",),
    "attention": ("pool",),
    "linear": ("pool", "classify"),
    "bias": ("pool", "classify"),
}


class Basis(AttributeMethodConfig):
    """One parameter of the model as a mixture of a few, with shares by the attributes (Kim, Amplayo et al. 2019).

    The parameter is ``theta = sum_n s_n B_n + B_0``, with shares s.
    Kim, Amplayo et al. 2019, *Categorical Metadata Representation for Customized Text Classification*. The shares are
    the softmax of ``K tanh(W_q [a_1; ...; a_M] + b_q)``. The states are pooled by the softmax of ``z^T h_t``. The
    parameter is at one `place`: ``word``, words become ``x_t + tanh(x_t theta)``; ``encoder``, all weights of the
    recurrent layer of the backbone ``bilstm``, without B_0; ``attention``, z; ``linear``, the classifier's weight;
    ``bias``, its bias, ``Y theta``. The backbone is fine-tuned by default.

    Args:
        place: place of the parameter: ``word``, ``encoder``, ``attention``, ``linear`` or ``bias``.
        bases: N.
        direct: the paper's ``cust`` models, in which a value's own vector is the parameter; those of several
            attributes add up, or stand side by side for ``attention`` and ``bias``.
        vector_size: Z, the size of the attributes' vectors, where they are not the parameter; also that of K.
        initial_vector: r of the initial vectors, drawn from U(-r, r).
    """

    name: ClassVar[str] = "basis"
    points: ClassVar[tuple[Point, ...]] = ("pool", "classify")
    weighs_states: ClassVar[bool] = True
    default_tuning: ClassVar[str] = "full"

    attribute_dropout: float = 0.0
    place: Literal["word", "encoder", "attention", "linear", "bias"] = "linear"
    bases: PositiveInt = 4
    direct: bool = False
    vector_size: PositiveInt = 64
    initial_vector: PositiveFloat = 0.01

    @model_validator(mode="after")
    def _place_by_place(self) -> Self:
        if self.direct and self.place == "encoder":
            raise ConfigError("basis: a value's vector cannot be the whole encoder: leave direct out")
        self.__dict__["points"] = _POINTS[self.place]
        return self

    def refusal(self, placement: Placement) -> str | None:
        """Return why the place is not in a family; None if it is."""
        if self.place == "encoder" and placement.recurrent is None:
            return (
                "basis: the place encoder is a recurrent layer, but backbones of type "
                f"{' or '.join(placement.model_types)} have none: choose another place, or the backbone bilstm"
            )
        return super().refusal(placement)

    def build(self, host: Host) -> Method:
        """Build the bases and their shares, or the vectors of values."""
        kinds = {"word": _WordBasis, "linear": _ClassifyingBasis, "bias": _ClassifyingBasis}
        return kinds.get(self.place, _BasisMethod)(self, host)


class _BasisMethod(AttributeMethod):
    def __init__(self, config: Basis, host: Host) -> None:
        self.place, self.direct = config.place, config.direct
        H, L, E, M = host.hidden, host.outputs, host.embedding, len(host.slots)
        shape = {"word": (E, E), "linear": (host.classified, L), "attention": (H,), "bias": (H,), "encoder": ()}[
            config.place
        ]
        sizes = [config.vector_size] * M if not config.direct else _own_sizes(config.place, shape, M)
        initial = partial(nn.init.uniform_, a=-config.initial_vector, b=config.initial_vector)
        super().__init__(config, host, sizes=sizes, initial=initial)
        if self.place != "attention" or not self.direct:
            self.z = nn.Parameter(torch.randn(H) * H**-0.5)
        if self.place == "linear" and self.direct:
            self.unused = ("head.weight",)
        if self.place == "bias":
            self.unused = ("head.bias",)
            self.Y = nn.Parameter(_xavier(L, H * M if self.direct else H))
        if self.direct:
            return
        self.shares = _Shares(config, M)
        if self.place == "encoder":
            (site,) = host.at("recurrent")
            assert host.backbone is not None
            layer = cast(Recurrent, host.backbone.get_submodule(site.path))
            self.add_site(site, _EncoderSite(config.bases, layer, self.shares))
            self.unused = tuple(f"backbone.{site.path}.{name}" for name, _ in layer.named_parameters())
            return
        self.B_n = nn.Parameter(torch.stack([_xavier(*shape) for _ in range(config.bases)]))
        if self.place in ("word", "bias"):
            self.B_0 = nn.Parameter(_xavier(*shape))

    def _theta(self, condition: Condition, B_0: Tensor | None) -> Tensor:
        return functional.mixed_bases(self.shares(condition), self.B_n, B_0)

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        states = self.in_own_precision(hidden)
        if self.place != "attention":
            z = self.z.expand(states.shape[0], -1)
        else:
            z = condition.vectors() if self.direct else self._theta(condition, self.z)
        return functional.context_attention_pool(states, attention_mask, z)


class _WordBasis(_BasisMethod):
    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        given = embeddings(input_ids)
        x = self.in_own_precision(given)
        if self.direct:
            vectors = cast(Tensor, sum(condition.vectors_per_attribute()))
            theta = vectors.view(x.shape[0], x.shape[-1], -1)
        else:
            theta = self._theta(condition, self.B_0)
        places = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        return Embedded(functional.customised_words(x, theta).to(given.dtype), attention_mask, places)


class _ClassifyingBasis(_BasisMethod):
    def classify(self, document: Documents, condition: Condition, head: nn.Linear) -> Logits:
        if self.place == "linear":
            if self.direct:
                vectors = cast(Tensor, sum(condition.vectors_per_attribute()))
                theta = vectors.view(*document.shape, -1)
            else:
                theta = self._theta(condition, head.weight.T)
            return (document.unsqueeze(1) @ theta).squeeze(1) + head.bias
        theta = condition.vectors() if self.direct else self._theta(condition, self.B_0)
        return document @ head.weight.T + theta @ self.Y.T


class _Shares(nn.Module):
    """The shares of the bases for each row."""

    def __init__(self, config: Basis, attributes: int) -> None:
        super().__init__()
        A = config.vector_size
        self.W_q = nn.Parameter(_xavier(A, attributes * A))
        self.b_q = nn.Parameter(torch.zeros(A))
        self.K = nn.Parameter(_xavier(config.bases, A))

    def forward(self, condition: Condition) -> Float[Tensor, "B N"]:
        return functional.basis_coefficients(condition.vectors(), self.W_q, self.b_q, self.K)


class _EncoderSite(SiteModule):
    """A recurrent layer whose weights are mixed for each row; its own ones are not used."""

    def __init__(self, bases: int, layer: Recurrent, shares: _Shares) -> None:
        super().__init__()
        self.__dict__["shares"] = shares  # a part of the method
        E, (H4, H) = layer.lstm.input_size, layer.directions()[0].W_hh.shape
        self.shapes = ((E, H4), (H, H4), (H4,))
        self.B_n = nn.ParameterList(
            nn.Parameter(torch.stack([_xavier(*shape) for _ in range(bases)]))
            for _ in layer.directions()
            for shape in self.shapes
        )

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T H"], condition: Condition
    ) -> Float[Tensor, "B T H"]:
        x, mask = inputs
        s = self.__dict__["shares"](condition)
        mixed = [functional.mixed_bases(s, B_n) for B_n in self.B_n]
        weights = [RowLSTMWeights(*mixed[start : start + 3]) for start in range(0, len(mixed), 3)]
        return cast(Recurrent, module).run_rows(x.to(output.dtype), mask, weights)


def _own_sizes(place: str, shape: tuple[int, ...], attributes: int) -> list[int]:
    """Return the sizes of values' vectors that are the parameter."""
    if place == "attention":
        if shape[0] % attributes:
            raise ConfigError(
                f"basis: the hidden size {shape[0]} is not divisible by the {attributes} attributes, whose vectors "
                "stand side by side: choose another hidden size, or leave direct out"
            )
        return [shape[0] // attributes] * attributes
    return [torch.Size(shape).numel()] * attributes


def _xavier(*shape: int) -> Tensor:
    """Draw a matrix as Glorot and Bengio 2010 do, or a vector as one of its columns."""
    bound = (6 / (sum(shape) if len(shape) > 1 else 1 + shape[0])) ** 0.5
    return torch.empty(shape).uniform_(-bound, bound)
