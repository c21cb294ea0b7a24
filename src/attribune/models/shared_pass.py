"""One pass of several models through the backbone that they share: rows of all of them in one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, pad
from transformers import PreTrainedModel

from attribune.backbones.int8 import quantise_backbone
from attribune.backbones.sharing import SharedBackbones
from attribune.methods.base import GroupedSites, Method, SiteModule
from attribune.methods.condition import Condition
from attribune.models.model import AttributeModel, TextStates

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class SharedPass:
    """A forward pass for rows of several models over one backbone.

    A module of the backbone runs once for all rows whose models share its weights, and apart for a model that has
    learned its own, such as norms. At their sites the methods change the rows of their models, and after the backbone
    each model reads its own rows.

    Args:
        models: without a `batch_refusal`, over the same pretrained weights.
        trunk: a backbone with these weights in which no method acts; it is changed, and used by nothing else.
    """

    def __init__(self, models: Sequence[AttributeModel], trunk: PreTrainedModel) -> None:
        self.models = tuple(models)
        self.trunk = trunk.eval()
        # Of the batch under way: the numbers of models with their rows, and the number of each row's model.
        self._parts: list[tuple[int, slice]] = []
        self._owners = torch.zeros(0, dtype=torch.long)
        if self.models[0].placement.has_pooler:
            trunk.pooler = None
        apart: list[str] = []
        for path, module in list(trunk.named_modules()):
            if path.startswith(tuple(apart)):
                continue
            place = _Place(path, module, self.models)
            if place.has_own_weights:
                module.forward = partial(self._run_apart, place, module.forward)
                apart.append(f"{path}.")
            if place.is_changed:
                module.register_forward_hook(partial(self._change, place))

    @torch.inference_mode()
    def logits(self, batches: Mapping[int, Mapping[str, Tensor]]) -> dict[int, Tensor]:
        """Compute the logits (rows, outputs) of a batch for each of some models, by their numbers."""
        length = max(batch["input_ids"].shape[1] for batch in batches.values())
        inputs = [self._padded(number, batches[number], length) for number in sorted(batches)]
        conditions: dict[int, Condition] = {}
        start = 0
        self._parts = []
        for number, batch in zip(sorted(batches), inputs, strict=True):
            rows = batch["input_ids"].shape[0]
            self._parts.append((number, slice(start, start + rows)))
            start += rows
            condition = self.models[number].condition(batches[number].get("attribute_ids"), rows=rows)
            conditions[number] = condition.with_token_mask(batch["attention_mask"])
        sizes = torch.tensor([rows.stop - rows.start for _, rows in self._parts])
        owners = torch.tensor([number for number, _ in self._parts]).repeat_interleave(sizes)
        self._owners = owners.to(self.trunk.device)
        names = [name for name in _INPUTS if any(name in batch for batch in inputs)]
        joined = {name: torch.cat([b.get(name, torch.zeros_like(b["input_ids"])) for b in inputs]) for name in names}
        with ExitStack() as stack:
            for number, condition in conditions.items():
                stack.enter_context(self.models[number].method.holder.use(condition))
            hidden = self.trunk(**joined).last_hidden_state
        mask = joined["attention_mask"]
        return {
            number: self.models[number].logits_of(TextStates(hidden[rows], mask[rows], conditions[number]))
            for number, rows in self._parts
        }

    def _padded(self, number: int, batch: Mapping[str, Tensor], length: int) -> dict[str, Tensor]:
        """Pad a batch of a model to a common length."""
        collator = self.models[number].collator()
        missing = length - batch["input_ids"].shape[1]
        sides = (missing, 0) if collator.left else (0, missing)
        fillers = {"input_ids": collator.pad_id}
        return {name: pad(batch[name], sides, value=fillers.get(name, 0)) for name in _INPUTS if name in batch}

    def _run_apart(self, place: _Place, shared: Callable[..., Tensor], states: Tensor) -> Tensor:
        """Run a module for the rows of each set of weights."""
        if place.norms is not None:
            return place.normed(states, self._owners)
        outputs = []
        for own, parts in groupby(self._parts, key=lambda part: place.own_module(part[0])):
            rows = [rows for _, rows in parts]
            outputs.append((shared if own is None else own.forward)(states[rows[0].start : rows[-1].stop]))
        return torch.cat(outputs)

    def _change(self, place: _Place, _module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        """Let models change the output of a module, each for its own rows."""
        if place.grouped_sites is not None:
            return place.grouped_sites(output, self._parts)
        changed = [
            place.changed(number, tuple(states[rows] for states in args), output[rows]) for number, rows in self._parts
        ]
        return torch.cat(changed)


def shared_passes(
    models: Mapping[str, AttributeModel], shared: SharedBackbones, *, int8: bool
) -> list[tuple[SharedPass, list[str]]]:
    """Return a pass for each backbone that several models have, with their names.

    Args:
        shared: the backbones over which the models were loaded.
        int8: whether the models compute in int8.
    """
    passes = []
    for trunk, names in shared.shared_by({name: model.backbone for name, model in models.items()}):
        if len(names) > 1:
            if int8:
                quantise_backbone(trunk, shared.int8)
            passes.append((SharedPass([models[name] for name in names], trunk), names))
    return passes


class _Place:
    """A module of the trunk, and the same of each model."""

    def __init__(self, path: str, module: nn.Module, models: Sequence[AttributeModel]) -> None:
        modules = [model.backbone.get_submodule(path) for model in models]
        self._module, self._modules = module, modules
        low_rank = [_have_same_weights(getattr(other, "base_layer", None), module) for other in modules]
        self._products = [_Product.of(other) if low else None for other, low in zip(modules, low_rank, strict=True)]
        self._own = [
            not low and not _have_same_weights(other, module) for other, low in zip(modules, low_rank, strict=True)
        ]
        self.norms = self._joined_norms() if self.has_own_weights else None
        is_alike = not self.has_own_weights and not any(self._products)
        self.grouped_sites = _grouped_sites(path, modules, models) if is_alike else None

    @property
    def has_own_weights(self) -> bool:
        """Whether a model has learned weights of its own here."""
        return any(self._own)

    @property
    def is_changed(self) -> bool:
        """Whether a method, or low-rank maps, change the output here."""
        return any(self._products) or any(module._forward_hooks for module in self._modules)

    def _joined_norms(self) -> tuple[Tensor, Tensor] | None:
        """Return the gains and biases of all models, if all modules are LayerNorms with both."""
        if not all(type(one) is nn.LayerNorm and one.bias is not None for one in (self._module, *self._modules)):
            return None
        norms = [cast(nn.LayerNorm, module) for module in self._modules]
        return torch.stack([norm.weight for norm in norms]), torch.stack([norm.bias for norm in norms])

    def normed(self, states: Tensor, owners: Tensor) -> Tensor:
        """Return the states, normalised at once, with the gain and the bias of the model of each row."""
        assert self.norms is not None
        norm = cast(nn.LayerNorm, self._module)
        gain, bias = (vectors[owners].unsqueeze(1) for vectors in self.norms)
        standard = layer_norm(states, norm.normalized_shape, eps=norm.eps)
        return torch.addcmul(bias, standard, gain, out=standard)

    def own_module(self, number: int) -> nn.Module | None:
        """Return the module of a model that has learned weights of its own here."""
        return self._modules[number] if self._own[number] else None

    def changed(self, number: int, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        """Return the output of a model's module, given that with the shared weights."""
        module, product = self._modules[number], self._products[number]
        if product is not None:
            with product.known(output):
                output = module.forward(*args)
        for hook in module._forward_hooks.values():
            output = hook(module, args, output)
        return output


def _grouped_sites(path: str, modules: Sequence[nn.Module], models: Sequence[AttributeModel]) -> GroupedSites | None:
    """Return what the methods of all models do to rows at a module; None where they must act in turn."""
    methods = [model.method for model in models]
    sites = [method.module_at(path) for method in methods]
    is_all = all(
        len(module._forward_hooks) == 1 and type(site) is type(sites[0])
        for module, site in zip(modules, sites, strict=True)
    )
    if not is_all or sites[0] is None or any(type(method) is not Method for method in methods):
        return None
    return type(sites[0]).grouped([cast(SiteModule, site) for site in sites])


class _Product:
    """The product of a layer beside which low-rank maps are; it may be known already."""

    def __init__(self, forward: Callable[..., Tensor]) -> None:
        self._forward = forward
        self._known: Tensor | None = None

    @classmethod
    def of(cls, module: nn.Module) -> _Product:
        """Put a product in the place of that of a peft layer."""
        layer = cast(nn.Module, module.base_layer)
        product = layer.forward if isinstance(layer.forward, cls) else cls(layer.forward)
        layer.forward = product
        return product

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._forward(*args, **kwargs) if self._known is None else self._known

    @contextmanager
    def known(self, output: Tensor) -> Iterator[None]:
        """Return this output within a block."""
        self._known = output
        try:
            yield
        finally:
            self._known = None


def _have_same_weights(module: nn.Module | None, other: nn.Module) -> bool:
    """Return whether two modules are of one kind, and have the same parameters beside those of modules in them."""
    if type(module) is not type(other):
        return False
    mine, theirs = dict(module.named_parameters(recurse=False)), dict(other.named_parameters(recurse=False))
    return mine.keys() == theirs.keys() and all(p.data_ptr() == theirs[name].data_ptr() for name, p in mine.items())
