"""What every method's module is: it lives beside the backbone and acts at its points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn

from attribune.condition import Condition, ConditionHolder, Values, drop_attributes
from attribune.errors import ConfigError
from attribune.kept import KeptWeights
from attribune.methods.fixed import Around, Fixed, no_fixed_form, own_tensors
from attribune.methods.host import Host
from attribune.methods.settings import AttributeMethodConfig, MethodConfig, VectorMethodConfig
from attribune.sites import Site

if TYPE_CHECKING:
    from attribune.sharding import RowShard

__all__ = [
    "AttributeMethod",
    "Bottleneck",
    "Embedded",
    "Method",
    "Pool",
    "SiteModule",
    "VectorMethod",
    "tables_later",
    "truncated_normal_",
]

Pool = Callable[[Tensor, Tensor], Tensor]


class Embedded(NamedTuple):
    """What a method at the embed point puts into the backbone in place of the text's ids.

    Attributes:
        states: (B, S, E), embeddings.
        attention_mask: (B, S).
        places: (B, T), where each token of the text stands in the S positions.
    """

    states: Tensor
    attention_mask: Tensor
    places: Tensor

    def text_states(self, hidden: Tensor) -> Tensor:
        """The states (B, T, H) of the text's own tokens, of those (B, S, H) of all positions."""
        return hidden.gather(1, self.places.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))

    def positions(self, attention_mask: Tensor, *, first: int) -> Tensor:
        """Positions (B, S) counted from `first` over the text's real tokens (B, T) and all that the method put in."""
        taken = self.spread(attention_mask) + 1 - self.spread(torch.ones_like(attention_mask))
        return taken.cumsum(dim=1) * taken + first - 1

    def spread(self, values: Tensor) -> Tensor:
        """Values (B, T) of the text's tokens at their places among all positions (B, S), 0 elsewhere."""
        return values.new_zeros(self.attention_mask.shape).scatter(1, self.places, values)


class SiteModule(nn.Module):
    """A module that acts at one site: ``forward(output, condition)`` changes what the backbone's module there made.

    ``reads_attributes`` is whether it depends on them; what does not belongs to the task.
    """

    reads_attributes: ClassVar[bool] = True

    def act(self, module: nn.Module, inputs: tuple[Any, ...], output: Tensor, condition: Condition) -> Tensor:
        """Change the output; overridden where the module's own parameters or its input are needed too.

        Args:
            module: of the backbone, whose output this is.
            inputs: its positional inputs.
            output: (B, T, features).
            condition: the attributes of the batch.
        """
        return cast(Tensor, self(output, condition))


class Method(nn.Module):
    """The module of a method, living beside the backbone and acting at its points.

    Inside the backbone it acts by forward hooks: subclasses call `add_site`. Around it they override `embed`, `encode`,
    `pool` or `classify`. ``extra_positions`` says how many positions of the backbone they need beside the text's,
    ``pads_right`` whether texts must begin at the first.
    """

    extra_positions: int = 0
    pads_right: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.holder = ConditionHolder()
        self.acts_at: list[Site] = []
        self.sites = nn.ModuleList()
        self._read: dict[str, Tensor] = {}

    def condition(self, attribute_ids: Tensor | None, rows: int, draw: Tensor | None = None) -> Condition:
        """What the sites will read.

        Args:
            attribute_ids: (B, slots); not read by methods without attributes.
            rows: B.
            draw: (B, attributes), the random numbers of the attribute dropout; made when they are needed.
        """
        return Condition(rows=rows)

    def embed(
        self, input_ids: Tensor, attention_mask: Tensor, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        """What goes into the backbone in place of the ids (B, T); None where these go in themselves."""
        return None

    def encode(self, hidden: Tensor, attention_mask: Tensor, condition: Condition) -> Tensor:
        """The states (B, T, H) made of the backbone's last ones; these themselves unless overridden."""
        return hidden

    def pool(self, hidden: Tensor, attention_mask: Tensor, condition: Condition, default: Pool) -> Tensor:
        """The document vector (B, H) of the last states (B, T, H); the model's own pooling unless overridden."""
        return default(hidden, attention_mask)

    def classify(self, document: Tensor, condition: Condition, head: nn.Linear) -> Tensor:
        """The logits (B, L) of the document vectors (B, H); the plain head unless overridden."""
        return cast(Tensor, head(document))

    def keep_weights(self, megabytes: float) -> None:
        """Keep what is generated for the values seen last; methods that generate nothing have nothing to keep."""

    @property
    def kept_weights(self) -> Mapping[str, KeptWeights]:
        """What is kept of each attribute; nothing unless overridden."""
        return {}

    def fixed(self, config: MethodConfig, condition: Condition, around: Around) -> Fixed:
        """What is left of the method for rows that all have the same values; all of it where it reads none.

        Args:
            config: its settings.
            condition: of one row with these values.
            around: the backbone and the head.

        Raises:
            ConfigError: saying why a model without attributes cannot be the same.
        """
        if config.uses_attributes:
            raise no_fixed_form(config)
        return Fixed(config=config, tensors=dict(own_tensors(self)))

    def add_site(self, site: Site, module: nn.Module) -> None:
        """Let a module act at a site, from `install` on."""
        self.acts_at.append(site)
        self.sites.append(module)

    def install(self, backbone: nn.Module) -> None:
        """Hook the site modules to the backbone. Must come before compilation and DDP, and after LoRA is added."""
        # A partial of a bound method survives deepcopy and pickle, a closure does not.
        for index, site in enumerate(self.acts_at):
            backbone.get_submodule(site.path).register_forward_hook(partial(self._at_site, index))
        for path in {site.relative for site in self.acts_at if site.relative is not None}:
            module = backbone.get_submodule(path)
            module.register_forward_pre_hook(partial(self._remember, path))
            module.register_forward_hook(partial(self._forget, path))

    def _at_site(self, index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        site, condition = self.acts_at[index], self.holder.current
        if site.relative is not None and args[0] is not self._read[site.relative]:
            return output  # the call on relative positions
        if output.dim() != 3 or output.shape[0] != condition.rows:
            raise RuntimeError(
                f"site {index} saw a tensor of shape {tuple(output.shape)} in a batch of {condition.rows} rows: the "
                "backbone splits or folds its batch, which methods with sites cannot follow"
            )
        if site.start is None:
            return self._changed(index, module, args, output)
        end = site.start + site.features
        changed = self._changed(index, module, args, output[..., site.start : end])
        return torch.cat([output[..., : site.start], changed, output[..., end:]], dim=-1)

    def _changed(self, index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        act = cast(SiteModule, self.sites[index]).act
        changed = act(module, args, self.in_own_precision(output), self.holder.current)
        return changed.to(output.dtype)

    def _remember(self, path: str, _module: nn.Module, args: tuple[Any, ...]) -> None:
        self._read[path] = args[0]

    def _forget(self, path: str, _module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        del self._read[path]

    def in_own_precision(self, states: Tensor) -> Tensor:
        """States of the backbone in the precision of the method's parameters, which autocast takes care of itself."""
        if torch.is_autocast_enabled(states.device.type):
            return states
        return states.to(next(self.parameters()).dtype)


_tables_later: ContextVar[bool] = ContextVar("tables_later", default=False)


@contextmanager
def tables_later() -> Iterator[None]:
    """Let methods that are made in this block have tables without numbers, which `give_tables` gives them."""
    token = _tables_later.set(True)
    try:
        yield
    finally:
        _tables_later.reset(token)


class AttributeMethod(Method):
    """A method that reads attributes: one table of vectors (size, Z) for each.

    Id 0 adds nothing; where ``learns_unknown`` is set, it is a learned vector like every other, which stands for an
    attribute without a value and which attribute dropout trains. With ``sparse_gradients`` the tables' gradients have
    the rows of the batch alone, which not every optimiser takes. With ``shards`` each process has some of the rows of
    every table; see `attribune.sharding`.

    Args:
        config: the settings.
        host: the model.
        sizes: Z of each attribute; none for methods that read ids without vectors.
        initial: fills a table with its initial values, in place.

    Raises:
        ConfigError: for a schema without attributes.
    """

    learns_unknown: ClassVar[bool] = False
    sparse_gradients: bool = False

    def __init__(
        self,
        config: AttributeMethodConfig,
        host: Host,
        *,
        sizes: Sequence[int] | None = None,
        initial: Callable[[Tensor], Any] = nn.init.zeros_,
    ) -> None:
        super().__init__()
        if not host.slots:
            raise ConfigError(
                f"{config.name}: the schema has no attribute; name at least one, or use a method that reads none"
            )
        self.slots = tuple(host.slots)
        self.shards: list[RowShard] = []
        self.attribute_dropout = config.attribute_dropout
        self.tables = nn.ParameterList()
        for attribute, size in () if sizes is None else zip(self.slots, sizes, strict=True):
            table = nn.Parameter(torch.empty(attribute.size, size, device="meta" if _tables_later.get() else None))
            with torch.no_grad():
                initial(table)
                if not self.learns_unknown:
                    table[0] = 0
            self.tables.append(table)

    def rows_of_values(self) -> Iterator[tuple[nn.Parameter, str]]:
        """The parameters with a row for each id of an attribute, and the name of that attribute."""
        for slots, table in zip(self.slots, self.tables, strict=False):  # there may be no tables
            yield cast(nn.Parameter, table), slots.name

    def look_up(self, number: int, ids: Tensor) -> Tensor:
        """The vectors (..., Z) of ids (...) of one attribute, counted from 0."""
        table = self.tables[number]
        if self.shards:
            return self.shards[number].look_up(ids.reshape(-1), table).view(*ids.shape, -1)
        # A sparse gradient is more than compiled code can leave.
        sparse = self.sparse_gradients and not torch.compiler.is_compiling()
        return nn.functional.embedding(ids, table, sparse=sparse)

    def condition(self, attribute_ids: Tensor | None, rows: int, draw: Tensor | None = None) -> Condition:
        """The distinct values of the batch, after attribute dropout in training."""
        assert attribute_ids is not None
        if self.training and self.attribute_dropout > 0:
            attribute_ids = drop_attributes(attribute_ids, self.slots, self.attribute_dropout, draw)
        values = tuple(
            Values.collect(slots.of(attribute_ids), partial(self.look_up, number), unknown=self.learns_unknown)
            for number, slots in enumerate(self.slots[: len(self.tables)])
        )
        return Condition(rows=rows, ids=attribute_ids, values=values)


class VectorMethod(AttributeMethod):
    """A method whose vectors have one size, Z, and start as N(0, s²)."""

    def __init__(self, config: VectorMethodConfig, host: Host) -> None:
        super().__init__(
            config,
            host,
            sizes=[config.vector_size] * len(host.slots),
            initial=partial(nn.init.normal_, std=config.initial_vector),
        )


class Bottleneck(SiteModule):
    """The parameters of one adapter: down (H, A), up (A, H), both with bias.

    Args:
        hidden: H.
        bottleneck: A.
        scale: standard deviation of the initial weights, truncated at two of them (Houlsby 2019, section 2.1).
    """

    def __init__(self, *, hidden: int, bottleneck: int, scale: float) -> None:
        super().__init__()
        self.W_down = truncated_normal_(nn.Parameter(torch.empty(hidden, bottleneck)), scale)
        self.b_down = nn.Parameter(torch.zeros(bottleneck))
        self.W_up = truncated_normal_(nn.Parameter(torch.empty(bottleneck, hidden)), scale)
        self.b_up = nn.Parameter(torch.zeros(hidden))


def truncated_normal_(parameter: nn.Parameter, std: float) -> nn.Parameter:
    """Fill in place with N(0, std²) truncated at two standard deviations."""
    nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std)
    return parameter
