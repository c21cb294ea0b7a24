"""``chim``: chunk-wise importance matrices (Amplayo 2019)."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from attribune import functional
from attribune.backbones.placement import Placement, SiteKind
from attribune.backbones.recurrent import Recurrent
from attribune.backbones.sites import Site
from attribune.errors import ConfigError
from attribune.functional.recurrent import LSTMWeights, RowLSTMWeights
from attribune.methods.attribute_method import VectorMethod
from attribune.methods.base import Method, Pool, SiteModule
from attribune.methods.condition import Condition
from attribune.methods.config import MethodConfig, Point, VectorMethodConfig
from attribune.methods.host import Host
from attribune.methods.merging import MergedMethod, MergeTarget
from attribune.methods.plain import Plain
from attribune.methods.shapes import Documents, Logits, Mask, States

_PAPER = 15
Place = Literal["embedding", "encoder", "attention", "classifier"]
Representation = Literal["chim", "matrix", "bias"]
_POINTS: dict[Place, Point] = {"attention": "pool", "classifier": "classify"}


class Chim(VectorMethodConfig):
    """Importance matrices at the classifier, the attention, the words or a recurrent layer (Amplayo 2019).

    Maps ``y = x (I ⊙ W) + b``: the attributes determine the importance of each weight.
    Amplayo 2019, *Rethinking Attribute Representation and Injection for Sentiment Classification*. The importance I is
    a chunk, ``sigmoid(reshape(Q c + b_q))`` of the attributes' vectors c, of an r-th of the rows and, except at the
    classifier, of the columns of W, which is tiled over W. The maps are at one or several places: the ``classifier``;
    the attention that pools the states, ``e_t = v^T tanh(h_t (I ⊙ W_h) + b)``; and on the backbone ``bilstm`` the
    ``embedding``, a layer ``tanh(W_e x_t + b_e)`` of the words, and the ``encoder``, the recurrent layer. The backbone
    is fine-tuned by default.

    Args:
        places: of the maps: one or several of ``embedding``, ``encoder``, ``attention``, ``classifier``.
        representation: ``chim``; or, to compare with, ``matrix``, whose whole W is made of c, or ``bias``, a bias made
            of c in place of b.
        repeats: r, a divisor of both sizes of all maps (at the classifier, only of the number of features); by default
            the one nearest to the paper's 15.
        attention_size: A, the inner size of the attention; by default half the hidden size, as in the paper.
    """

    name: ClassVar[str] = "chim"
    points: ClassVar[tuple[Point, ...]] = ("classify",)
    default_tuning: ClassVar[str] = "full"

    # Not strict, since JSON has lists and no tuples.
    places: Annotated[tuple[Place, ...], Field(strict=False)] = Field(
        default=("classifier",), min_length=1, description="one or several of embedding, encoder, attention, classifier"
    )
    representation: Representation = "chim"
    repeats: PositiveInt | None = None
    attention_size: PositiveInt | None = None

    @model_validator(mode="after")
    def _points_of_places(self) -> Self:
        if len(set(self.places)) < len(self.places):
            raise ConfigError(f"chim: places is {list(self.places)}: name each once")
        points = tuple(_POINTS[place] for place in self.places if place in _POINTS)
        self.__dict__["points"] = points or ("sites",)
        self.__dict__["weighs_states"] = self.places == ("attention",)
        return self

    def refusal(self, placement: Placement) -> str | None:
        """Return why a place is not in a family; None if all are."""
        found = {"embedding": placement.word_proj, "encoder": placement.recurrent}
        if missing := [place for place in self.places if place in found and found[place] is None]:
            return (
                f"chim: {placement.family} have no {missing[0]} whose weights it "
                "could weigh: choose the place attention or classifier, or the backbone bilstm"
            )
        return None if self.points == ("sites",) else super().refusal(placement)

    def word_options(self, backbone: str, *, attributes: int) -> dict[str, Any]:
        """Return whether words have a layer of their own."""
        return {"projection": True} if "embedding" in self.places else {}

    def build(self, host: Host) -> Method:
        """Build one map from the attributes to the chunk of each place."""
        pools, classifies = "attention" in self.places, "classifier" in self.places
        if pools and classifies:
            return _PoolingAndClassifyingChim(self, host)
        return (_PoolingChim if pools else _ClassifyingChim if classifies else _ChimMethod)(self, host)


class _Weights(nn.Module):
    """The weights of a map ``x W + b`` for each row, made of the attributes' vectors.

    Args:
        shape: of W, (in, out).
    """

    def __init__(self, config: Chim, shape: tuple[int, int], width: int, *, repeats: int) -> None:
        super().__init__()
        rows, columns = shape
        self.representation, self.shape, self.repeats = config.representation, shape, repeats
        chunk = (rows // repeats) * (columns // repeats)
        size = {"chim": chunk, "matrix": rows * columns, "bias": columns}[config.representation]
        self.Q = nn.Parameter(torch.randn(size, width) * (2 / width) ** 0.5)
        self.b_q = nn.Parameter(torch.zeros(size))

    def forward(
        self, c: Float[Tensor, "B MZ"], W: Float[Tensor, "inputs features"], b: Float[Tensor, " features"]
    ) -> tuple[Float[Tensor, "B inputs features"], Float[Tensor, "B features"]]:
        W, b = W.to(self.Q.dtype), b.to(self.Q.dtype)
        return row_weights(self.representation, c, self.Q, self.b_q, W, b, repeats=self.repeats)


def row_weights(
    representation: Representation, c: Tensor, Q: Tensor, b_q: Tensor, W: Tensor, b: Tensor, *, repeats: int
) -> tuple[Tensor, Tensor]:
    """Return weight (B, in, out) and bias (B, out) of each row."""
    if representation == "chim":
        return functional.chunk_importance_weight(c, Q, b_q, W, repeats=repeats), b.expand(c.shape[0], -1)
    made = c @ Q.T + b_q
    if representation == "matrix":
        return made.view(c.shape[0], *W.shape), b.expand(c.shape[0], -1)
    return W.expand(c.shape[0], -1, -1), made


class _EmbeddingSite(SiteModule):
    """The linear map of the words, with weights of each row."""

    def __init__(self, weights: _Weights) -> None:
        super().__init__()
        self.weights = weights

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T E"], condition: Condition
    ) -> Float[Tensor, "B T E"]:
        layer = cast(nn.Linear, module)
        W, b = self.weights(condition.vectors(), layer.weight.T, layer.bias)
        return cast(Tensor, inputs[0].to(output.dtype) @ W + b.unsqueeze(1))


class _EncoderSite(SiteModule):
    """The recurrent layer, each of whose directions has one matrix on ``[x_t; h_{t-1}]``, gates f, i, o, g."""

    def __init__(self, directions: list[_Weights], inputs: int) -> None:
        super().__init__()
        self.directions, self.inputs = nn.ModuleList(directions), inputs

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B T H"], condition: Condition
    ) -> Float[Tensor, "B T H"]:
        x, mask = inputs
        layer, c = cast(Recurrent, module), condition.vectors()
        weights = [
            self._of_rows(cast(_Weights, own), c, direction)
            for own, direction in zip(self.directions, layer.directions(), strict=True)
        ]
        return layer.run_rows(x.to(output.dtype), mask, weights)

    def _of_rows(self, own: _Weights, c: Tensor, direction: LSTMWeights) -> RowLSTMWeights:
        W = _reordered(torch.cat([direction.W_ih, direction.W_hh], dim=1).T)
        weight, bias = own(c, W, _reordered(direction.b_ih + direction.b_hh))
        weight, bias = _reordered(weight, back=True), _reordered(bias, back=True)
        return RowLSTMWeights(weight[:, : self.inputs], weight[:, self.inputs :], bias)


def _reordered(gates: Tensor, *, back: bool = False) -> Tensor:
    """Put gates i, f, g, o, side by side, in the order f, i, o, g, or `back`."""
    one, two, three, four = gates.chunk(4, dim=-1)
    return torch.cat([two, one, four, three], dim=-1)


class _Attention(nn.Module):
    def __init__(self, H: int, A: int, weights: _Weights) -> None:
        super().__init__()
        # What the representation makes of the attributes alone is not learned.
        made = {"matrix": "W_h", "bias": "b"}.get(weights.representation)
        for name, initial in {"W_h": torch.randn(H, A) * (2 / H) ** 0.5, "b": torch.zeros(A)}.items():
            if name == made:
                self.register_buffer(name, initial, persistent=False)
            else:
                self.register_parameter(name, nn.Parameter(initial))
        self.v = nn.Parameter(torch.randn(A) * A**-0.5)
        self.weights = weights

    def forward(self, hidden: Tensor, mask: Tensor, c: Tensor) -> Tensor:
        W, b = self.weights(c, cast(Tensor, self.W_h), cast(Tensor, self.b))
        return functional.personal_attention_pool(hidden, mask, W, b, self.v)


class _ChimMethod(VectorMethod):
    def __init__(self, config: Chim, host: Host) -> None:
        super().__init__(config, host)
        self.config = config
        H, width = host.hidden, len(host.slots) * config.vector_size
        A = config.attention_size or max(H // 2, 1)
        shapes: dict[str, tuple[int, int]] = {"attention": (H, A), "classifier": (host.classified, host.outputs)}
        for site in host.at("word_proj"):
            shapes["embedding"] = (site.inputs, site.features)
        for site in host.at("recurrent"):
            h = _hidden_size(host, site)
            shapes["encoder"] = (site.inputs + h, 4 * h)
        if missing := [place for place in config.places if place not in shapes]:
            option = "the option projection: true" if missing == ["embedding"] else "a recurrent layer"
            raise ConfigError(f"chim: the backbone has no {missing[0]} whose weights it could weigh: give it {option}")
        tiled = [size for place in config.places for size in shapes[place][: 1 if place == "classifier" else 2]]
        self.repeats = divisor(math.gcd(*tiled), config.repeats)
        if "embedding" in config.places:
            (site,) = host.at("word_proj")
            self.add_site(site, _EmbeddingSite(self._weights(shapes["embedding"], width)))
        if "encoder" in config.places:
            (site,) = host.at("recurrent")
            count = site.features // _hidden_size(host, site)
            directions = [self._weights(shapes["encoder"], width) for _ in range(count)]
            self.add_site(site, _EncoderSite(directions, site.inputs))
        self.attention = None
        if "attention" in config.places:
            self.attention = _Attention(H, A, self._weights(shapes["attention"], width))
        self.unused = _not_learned(config, host)
        if "classifier" in config.places:
            rows, labels = shapes["classifier"]
            size = {"chim": rows // self.repeats * labels, "matrix": rows * labels, "bias": labels}[
                config.representation
            ]
            self.Q = nn.Parameter(torch.randn(size, width))
            self.b_q = nn.Parameter(torch.zeros(size))

    def _weights(self, shape: tuple[int, int], width: int) -> _Weights:
        return _Weights(self.config, shape, width, repeats=self.repeats)


def _not_learned(config: Chim, host: Host) -> tuple[str, ...]:
    """Return the names of the model's own weights or biases in whose place those made of the attributes are read."""
    made = {"matrix": "weight", "bias": "bias"}.get(config.representation)
    if made is None:
        return ()
    kinds: dict[str, SiteKind] = {"embedding": "word_proj", "encoder": "recurrent"}
    sites = [site for place in config.places if place in kinds for site in host.at(kinds[place])]
    names = [f"{site.path}.{name}" for site in sites for name, _ in host.module_at(site).named_parameters()]
    inside = tuple(f"backbone.{name}" for name in names if name.rpartition(".")[2].startswith(made))
    return (*inside, f"head.{made}") if "classifier" in config.places else inside


class _PoolingChim(_ChimMethod):
    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        assert self.attention is not None
        return cast(Tensor, self.attention(self.in_own_precision(hidden), attention_mask, condition.vectors()))


class _ClassifyingChim(_ChimMethod):
    def classify(self, document: Documents, condition: Condition, head: nn.Linear) -> Logits:
        c = condition.vectors()
        if self.config.representation == "chim":
            return functional.chunk_importance_logits(document, c, self.Q, self.b_q, head.weight.T, head.bias)
        weight, bias = row_weights(
            self.config.representation, c, self.Q, self.b_q, head.weight.T, head.bias, repeats=self.repeats
        )
        return (document.unsqueeze(1) @ weight).squeeze(1) + bias

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Merge into the weight of the head: its rows are the logits of each feature alone, without the bias."""
        if self.config.places != ("classifier",) or self.config.representation != "chim":
            return super().merge(config, condition, target)
        assert target.head is not None
        W, no_bias = target.head.weight, torch.zeros_like(target.head.bias)
        features = torch.eye(W.shape[1], dtype=W.dtype, device=W.device)
        c = condition.vectors().expand(len(features), -1)
        weight = functional.chunk_importance_logits(features, c, self.Q, self.b_q, W.T, no_bias)
        return MergedMethod(config=Plain(), head=weight.T)


class _PoolingAndClassifyingChim(_PoolingChim, _ClassifyingChim):
    pass


def _hidden_size(host: Host, site: Site) -> int:
    """Return the size of the states of one direction of a recurrent layer."""
    return int(cast(Recurrent, host.module_at(site)).lstm.hidden_size)


def divisor(size: int, repeats: int | None) -> int:
    """Return the number of repeats; for None the divisor of the size nearest to the paper's 15.

    Args:
        size: the greatest common divisor of the sizes over which a chunk is tiled.

    Raises:
        ConfigError: if `repeats` does not divide the size.
    """
    divisors = [r for r in range(1, size + 1) if size % r == 0]
    if repeats is None:
        return min(divisors, key=lambda r: (abs(r - _PAPER), r))
    if repeats not in divisors:
        raise ConfigError(
            f"chim: repeats is {repeats}, but the size {size} is not divisible by it: choose one of "
            f"{', '.join(map(str, divisors))}"
        )
    return repeats
