"""The contract of a method: a module that lives beside the backbone and acts at its points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from attribune.backbones.sites import Site
from attribune.methods.condition import Condition, ConditionHolder
from attribune.methods.config import MethodConfig
from attribune.methods.merging import MergedMethod, MergeTarget, merge_refusal, own_tensors
from attribune.methods.shapes import AttributeIds, Documents, DropoutDraw, InputIds, Logits, Mask, States

Pool = Callable[[Tensor, Tensor], Tensor]
"""Document vectors (B, H) of last states (B, T, H) and their attention mask (B, T)."""


class Embedded(NamedTuple):
    """Embeddings of S positions, which a method at the embed point puts in place of the ids of the text's T tokens.

    Attributes:
        attention_mask: 1 for positions that count.
        positions: the position of each token of the text.
    """

    states: Float[Tensor, "B S E"]
    attention_mask: Shaped[Tensor, "B S"]
    positions: Int[Tensor, "B T"]

    def text_states(self, hidden: Float[Tensor, "B S H"]) -> States:
        """Select the states of the text's own tokens."""
        return hidden.gather(1, self.positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))

    def text_values(self, values: Shaped[Tensor, "B S"]) -> Shaped[Tensor, "B T"]:
        """Select the values of the text's own tokens."""
        return values.gather(1, self.positions)

    def position_ids(self, attention_mask: Mask, *, first: int) -> Shaped[Tensor, "B S"]:
        """Number the positions from `first`: those of the text's real tokens and all that the method inserted."""
        taken = self.scatter(attention_mask) + 1 - self.scatter(torch.ones_like(attention_mask))
        return taken.cumsum(dim=1) * taken + first - 1

    def scatter(self, values: Shaped[Tensor, "B T"]) -> Shaped[Tensor, "B S"]:
        """Spread values of the text's tokens over all positions, with 0 elsewhere."""
        return values.new_zeros(self.attention_mask.shape).scatter(1, self.positions, values)


@dataclass(frozen=True)
class Ablation:
    """Layers in which a method is switched off, or hides an attribute, to see what they contribute.

    Args:
        layers: numbers from 0; layers that share their weights count once.
        columns: the slots of the attribute that is hidden there; None leaves the states there as the backbone has them.
    """

    layers: Collection[int]
    columns: slice | None = None


GroupedSites: TypeAlias = Callable[[States, Sequence[tuple[int, slice]]], States]
"""Changes the states (B, T, features) of groups of rows, each by the module of the group's number."""


class SiteModule(nn.Module):
    """A module at one site: ``forward(output, condition)`` changes the output of the backbone's module there.

    ``reads_attributes`` is whether it depends on attributes; otherwise it belongs to the task.
    """

    reads_attributes: ClassVar[bool] = True

    def act(
        self, module: nn.Module, inputs: tuple[Any, ...], output: Float[Tensor, "B *T features"], condition: Condition
    ) -> Float[Tensor, "B *T features"]:
        """Change the output of a module of the backbone; override it to use that module's parameters or inputs too."""
        return cast(Tensor, self(output, condition))

    @classmethod
    def grouped(cls, modules: Sequence[Self]) -> GroupedSites | None:
        """Return what several such modules at one site do to rows of a batch; None where they must act in turn.

        The parameters become parts of tensors that hold those of all modules.
        """
        return None


def joined(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return a tensor (n, ...) with n parameters of one shape, which become parts of it."""
    together = torch.stack([parameter.data for parameter in parameters])
    for parameter, part in zip(parameters, together, strict=True):
        parameter.data = part
    return together


class Method(nn.Module):
    """The module of a method, which acts on a backbone at the method's points.

    Inside the backbone it acts by forward hooks: subclasses call `add_site`. Around it they override `embed`, `encode`,
    `pool` or `classify`. ``extra_positions`` is the number of positions needed besides the text's, ``extra_inputs``
    that of the ids that encoding may put in front of a text, ``pads_right`` whether padding must be on the right,
    ``extends_attention`` whether layers attend to states beside those of the text,
    ``document_size`` the number of features of its document vectors, if not H, ``unused`` the names of parameters of
    the model that no step of the Trainer changes, and ``loss_weights`` the weights of the model's own loss and of the
    further ones of a `Condition`.
    """

    extra_positions: int = 0
    extra_inputs: int = 0
    pads_right: bool = False
    extends_attention: bool = False
    document_size: int | None = None
    unused: tuple[str, ...] = ()
    loss_weights: tuple[float, ...] = (1.0,)

    ablation: Ablation | None = None

    def __init__(self) -> None:
        super().__init__()
        self.holder = ConditionHolder()
        self.acts_at: list[Site] = []
        self.sites = nn.ModuleList()
        self.modules_at: list[nn.Module] = []  # of the backbone
        self._precision: torch.dtype | None = None
        self._inputs: dict[str, Tensor] = {}  # of modules that call a projection twice, while they run

    def condition(self, attribute_ids: AttributeIds | None, rows: int, draw: DropoutDraw | None = None) -> Condition:
        """Collect the attributes of a batch of B rows; `draw` holds the random numbers of attribute dropout."""
        return Condition(rows=rows)

    def planned(self, attribute_ids: AttributeIds, rows: int) -> Condition | None:
        """Return the condition of a pass by plan, without gradients; None if the method, or this pass, has none."""
        return None

    def embed(
        self, input_ids: InputIds, attention_mask: Mask, condition: Condition, embeddings: nn.Module
    ) -> Embedded | None:
        """Return the input of the backbone in place of the ids; None for the ids themselves."""
        return None

    def encode(self, hidden: States, attention_mask: Mask, condition: Condition) -> States:
        """Change the backbone's last states; by default they stay."""
        return hidden

    def pool(self, hidden: States, attention_mask: Mask, condition: Condition, default: Pool) -> Documents:
        """Pool the last states to document vectors; by default in the model's own way."""
        return default(hidden, attention_mask)

    def classify(self, document: Documents, condition: Condition, head: nn.Linear) -> Logits:
        """Compute the logits of document vectors; by default with the plain head."""
        return cast(Tensor, head(document))

    @contextmanager
    def ablated(self, ablation: Ablation) -> Iterator[None]:
        """Switch layers off within a block, of this method and of those that it combines."""
        for method in self.methods():
            method.ablation = ablation
        try:
            yield
        finally:
            for method in self.methods():
                method.ablation = None

    def methods(self) -> list[Method]:
        """Return the method, and those that it combines or has inside."""
        return [module for module in self.modules() if isinstance(module, Method)]

    def site_layers(self) -> tuple[int, ...]:
        """Return the layers of the backbone in which the method, or one that it combines, has sites."""
        return tuple(sorted({site.layer for method in self.methods() for site in method.acts_at}))

    def first_layer(self) -> int | None:
        """Return the first layer of the backbone in which the method acts, 0 for hooks of its own; None for none."""
        if type(self).install is not Method.install:
            return 0
        return min(self.site_layers(), default=None)

    def merge(self, config: MethodConfig, condition: Condition, target: MergeTarget) -> MergedMethod:
        """Return the method merged for rows that all have the same values; unchanged if it reads no attributes.

        Args:
            config: the settings of the method.
            condition: of one row with these values.
            target: the backbone and the head.

        Raises:
            ConfigError: if a model without attributes cannot be equivalent; the message says why.
        """
        if config.uses_attributes:
            raise merge_refusal(config)
        return MergedMethod(config=config, tensors=own_tensors(self))

    def add_site(self, site: Site, module: nn.Module) -> None:
        """Add a module for a site; `install` hooks it."""
        self.acts_at.append(site)
        self.sites.append(module)

    def install(self, backbone: nn.Module) -> None:
        """Hook the site modules to the backbone. Must come before compilation and DDP, and after LoRA is added."""
        self.modules_at = [backbone.get_submodule(site.path) for site in self.acts_at]
        # A partial of a bound method can be copied and pickled, a closure cannot.
        for index, site in enumerate(self.acts_at):
            backbone.get_submodule(site.path).register_forward_hook(partial(self._at_site, index))
        for path in {site.relative_attention for site in self.acts_at if site.relative_attention is not None}:
            module = backbone.get_submodule(path)
            module.register_forward_pre_hook(partial(self._remember_input, path))
            module.register_forward_hook(partial(self._forget_input, path))

    def module_at(self, path: str) -> SiteModule | None:
        """Return the module that changes the whole output of a module of the backbone; None for none, or several."""
        found = [(site, module) for site, module in zip(self.acts_at, self.sites, strict=True) if site.path == path]
        if len(found) != 1 or found[0][0].start is not None or found[0][0].relative_attention is not None:
            return None
        if found[0][0].time_first:
            return None
        return cast(SiteModule, found[0][1])

    def _at_site(self, index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        site, condition = self.acts_at[index], self.holder.current
        if condition.is_bare:
            return output
        if site.relative_attention is not None and args[0] is not self._inputs[site.relative_attention]:
            return output  # the call on relative positions
        if site.time_first:
            args, output = (args[0].transpose(0, 1), *args[1:]), output.transpose(0, 1)
        changed = self._changed(index, module, args, output, condition)
        return changed.transpose(0, 1).contiguous() if site.time_first else changed  # a tensor of its own

    def _changed(
        self, index: int, module: nn.Module, args: tuple[Any, ...], output: Tensor, condition: Condition
    ) -> Tensor:
        """Return the output of a site for the rows of the batch, unless it is switched off."""
        site = self.acts_at[index]
        if site.kind != "word_pool" and (output.dim() != 3 or output.shape[0] != condition.rows):
            raise RuntimeError(
                f"site {index} saw a tensor of shape {tuple(output.shape)} in a batch of {condition.rows} rows: the "
                "backbone splits or folds its batch, which methods with sites cannot follow"
            )
        if self.ablation is not None and site.layer in self.ablation.layers:
            if self.ablation.columns is None:
                return output
            condition = condition.hidden()
        part, planned = site.part_of(output), condition.planned
        if planned is not None:
            return site.with_part(output, planned.plan.act(index, planned, args, part))
        act = cast(SiteModule, self.sites[index]).act
        return site.with_part(output, act(module, args, self.in_own_precision(part), condition).to(part.dtype))

    def _remember_input(self, path: str, _module: nn.Module, args: tuple[Any, ...]) -> None:
        self._inputs[path] = args[0]

    def _forget_input(self, path: str, _module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        del self._inputs[path]

    def in_own_precision(self, states: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Cast states of the backbone to the precision of the method's parameters, unless under autocast."""
        if torch.is_autocast_enabled(states.device.type):
            return states
        if self._precision is None:
            self._precision = next(self.parameters()).dtype
        return states.to(self._precision)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        self._precision = None  # it may be changed
        return cast(Self, super()._apply(fn, recurse))  # type: ignore[no-untyped-call]
