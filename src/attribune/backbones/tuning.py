"""What of a backbone learns: a sum of parts, such as ``attention+layernorm`` or ``lora:q,v+layernorm``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from torch import nn

from attribune.backbones.placement import Placement, SiteKind
from attribune.backbones.sites import find_layers, find_norms, find_sites
from attribune.core.wording import did_you_mean
from attribune.errors import ConfigError

Part = Literal["layernorm", "bias", "attention", "feed_forward"]
_PARTS: tuple[Part, ...] = get_args(Part)
_TARGETS: dict[str, SiteKind] = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}
_MAPS: dict[str, tuple[SiteKind, ...]] = {
    "attention": tuple(_TARGETS.values()),
    "feed_forward": ("up_proj", "down_proj"),
}
_OTHER_BIASES = ("q_bias", "v_bias")  # DeBERTa's
_DEFAULT_RANK = 8

TUNINGS = ("frozen", "full", *_PARTS, "top_N", "lora[:TARGETS[:RANK]]")
"""The forms of a tuning; all but the first two can be combined with ``+``."""


@dataclass(frozen=True, kw_only=True)
class Lora:
    """Low-rank adaptation of projections of the attention.

    Args:
        targets: among ``q``, ``k``, ``v``, ``o``; None for q and v, or all of a fused projection.
        rank: r; the scale is alpha / r = 2.
    """

    targets: tuple[str, ...] | None
    rank: int


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What of a backbone learns.

    Args:
        parts: the kinds of parameters that learn in every layer.
        top: the number of last layers that learn as a whole, with the norms after them.
        lora: maps that learn beside the backbone's own parameters.
    """

    full: bool = False
    parts: tuple[Part, ...] = ()
    top: int = 0
    lora: Lora | None = None

    @property
    def pretrained_matrices(self) -> bool:
        """Whether matrices of the backbone learn, which a large learning rate would damage."""
        return self.full or self.top > 0 or not {"attention", "feed_forward"}.isdisjoint(self.parts)

    @property
    def feed_forward_matrices(self) -> bool:
        """Whether matrices of the feed-forward parts learn, or the experts in their place."""
        return self.full or self.top > 0 or "feed_forward" in self.parts

    @classmethod
    def parse(cls, text: str) -> Tuning:
        """Read a tuning: one of `TUNINGS`, or a sum such as ``attention+layernorm``.

        Raises:
            ConfigError: for anything else; the message lists the forms.
        """
        if not isinstance(text, str):
            raise ConfigError(f"the tuning is {text!r}: give one of {', '.join(TUNINGS)}")
        words = [word.strip() for word in text.split("+")]
        if words in (["frozen"], ["full"]):
            return cls(full=words == ["full"])
        terms: dict[str, str] = {}
        for word in words:
            kind = _kind_of(word, text)
            if kind in terms:
                raise ConfigError(f"tuning {text!r} names {kind} twice: once is enough")
            terms[kind] = word
        return cls(
            parts=tuple(part for part in _PARTS if part in terms),
            top=int(terms["top_N"].removeprefix("top_")) if "top_N" in terms else 0,
            lora=_parse_lora(terms["lora"]) if "lora" in terms else None,
        )


def _kind_of(word: str, text: str) -> str:
    if word in _PARTS:
        return word
    if re.fullmatch(r"top_[1-9]\d*", word):
        return "top_N"
    if word.partition(":")[0] == "lora":
        return "lora"
    if word in ("frozen", "full"):
        raise ConfigError(f"tuning {text!r}: {word!r} cannot be combined; leave out either it or the rest")
    hint = did_you_mean(word, TUNINGS)
    raise ConfigError(
        f"unknown tuning {word!r}: choose one of {', '.join(TUNINGS)}, or a sum such as attention+layernorm{hint}"
    )


def _parse_lora(word: str) -> Lora:
    match = re.fullmatch(r"lora(?::([qkvo](?:,[qkvo])*))?(?::([1-9]\d*))?", word.replace(" ", ""))
    if match is None:
        raise ConfigError(
            f"tuning {word!r} cannot be read: write lora, lora:q,v or lora:q,v:16, with targets among "
            f"{', '.join(_TARGETS)} and a rank of at least 1"
        )
    targets = None if match[1] is None else tuple(dict.fromkeys(match[1].split(",")))
    return Lora(targets=targets, rank=int(match[2] or _DEFAULT_RANK))


def tune_backbone(backbone: nn.Module, placement: Placement, tuning: str) -> None:
    """Choose what of a backbone learns, by ``requires_grad``; LoRA adds parameters, by the peft library.

    LoRA must come after the backbone's weights are loaded and its sites found, since it renames parameters, and before
    a method's hooks, which belong on the modules with which it replaces projections.

    Args:
        tuning: for `Tuning.parse`. ``frozen``: nothing; ``full``: all; ``layernorm``: gains and biases of the layers'
            norms and of those after the last layer (Houlsby et al. 2019, section 3.4; E2LN's LNT); ``bias``: all biases
            (BitFit); ``attention`` and ``feed_forward``: the maps of these sub-layers, and with experts what chooses
            them; ``top_N``: the last N layers (Houlsby's variable fine-tuning); ``lora``: low-rank maps beside the
            projections.

    Raises:
        ConfigError: for a tuning that cannot be parsed or does not apply to the backbone.
    """
    parsed = Tuning.parse(tuning)
    parameters = [p for module in _trained_modules(backbone, placement, parsed) for p in module.parameters()]
    if "attention" in parsed.parts:  # DeBERTa has the biases of its fused projection beside it
        owners = {site.path.rpartition(".")[0] for site in find_sites(backbone, placement, ["q_proj"])}
        parameters += [p for owner in owners for p in backbone.get_submodule(owner).parameters(recurse=False)]
    if "bias" in parsed.parts:
        biases = [p for name, p in backbone.named_parameters() if name.rpartition(".")[2] in ("bias", *_OTHER_BIASES)]
        if not biases:
            raise ConfigError(f"tuning {tuning!r}: {type(backbone).__name__} has no biases: choose another tuning")
        parameters += biases
    if parsed.lora is not None:
        _add_lora(backbone, placement, parsed.lora)
    for name, parameter in backbone.named_parameters():
        if ".lora_" not in name:
            parameter.requires_grad_(parsed.full)
    for parameter in parameters:
        parameter.requires_grad_(True)


def _trained_modules(backbone: nn.Module, placement: Placement, tuning: Tuning) -> Iterator[nn.Module]:
    """Yield the modules that learn as a whole."""
    if "layernorm" in tuning.parts:
        yield from find_norms(backbone, placement)
    kinds = [kind for part in tuning.parts for kind in _MAPS.get(part, ())]
    for site in find_sites(backbone, placement, kinds):
        yield backbone.get_submodule(site.relative_attention or site.path)
    if "feed_forward" in tuning.parts and placement.experts is not None:
        for layer in find_layers(backbone, placement):
            yield backbone.get_submodule(f"{layer}.{placement.experts}")
    if tuning.top:
        layers = find_layers(backbone, placement)
        if tuning.top > len(layers):
            raise ConfigError(f"tuning top_{tuning.top}: the backbone has {len(layers)} layers; choose at most as many")
        for path in [*layers[-tuning.top :], *placement.final_norms]:
            yield backbone.get_submodule(path)


def _add_lora(backbone: nn.Module, placement: Placement, lora: Lora) -> None:
    from peft import LoraConfig, inject_adapter_in_model  # seconds to import, and rarely needed

    fused = placement.q_proj == placement.v_proj
    targets = lora.targets or (("q", "k", "v") if fused else ("q", "v"))
    fused_targets = {"q", "k", "v"}.intersection(targets)
    if fused and fused_targets and fused_targets != {"q", "k", "v"}:
        raise ConfigError(
            f"tuning lora:{','.join(targets)}: {type(backbone).__name__} makes queries, keys and values with one "
            "matrix; name all of q,k,v or none of them"
        )
    sites = find_sites(backbone, placement, [_TARGETS[target] for target in targets])
    paths = list(dict.fromkeys(site.path for site in sites))
    transposed = not isinstance(backbone.get_submodule(paths[0]), nn.Linear)
    config = LoraConfig(
        r=lora.rank, lora_alpha=2 * lora.rank, target_modules=paths, fan_in_fan_out=transposed, bias="none"
    )
    inject_adapter_in_model(config, backbone)
