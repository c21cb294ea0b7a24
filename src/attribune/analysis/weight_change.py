"""How far training moved the backbone: the change of terms of Zhang et al. 2024 (E2LN, figure 4)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attribune.backbones.loading import check_fingerprint, fingerprint, load_backbone, stack_path
from attribune.backbones.placement import placement_for
from attribune.backbones.sites import find_layers
from attribune.errors import ConfigError
from attribune.models.files import find_model, read_model

__all__ = ["TermChange", "term_changes"]


@dataclass(frozen=True, kw_only=True)
class TermChange:
    """One tensor of the backbone before and after training.

    Args:
        layer: its number, from 0; None outside the layers.
        term: the tensor's name inside the layer, or its whole name.
        change: ``||before - after||_1 / numbers``, the mean absolute change of a number.
        numbers: how many numbers it has.
    """

    layer: int | None
    term: str
    change: float
    numbers: int


def term_changes(run: str | Path, *, backbone: str | None = None) -> list[TermChange]:
    """The changes of every tensor of the backbone that learned, in the backbone's order; those of LoRA are left out.

    Args:
        run: folder of a run or a model.
        backbone: where the pretrained weights are, if no longer where they were.

    Raises:
        ConfigError: where nothing of the backbone learned, or its pretrained weights cannot be found.
        ModelFolderError: for a folder without a whole model, or other weights than those of the training.
    """
    files = find_model(run)
    config, tensors = read_model(files)
    source = backbone or config.backbone
    learned = {
        name.removeprefix("backbone.").replace(".base_layer.", "."): tensor  # peft renames what LoRA stands beside
        for name, tensor in tensors.items()
        if name.startswith("backbone.") and ".lora_" not in name
    }
    if not learned:
        raise ConfigError(f"{run}: nothing of the backbone learned (tuning {config.tuning}), so that no term changed")
    pretrained = load_backbone(
        str(source), revision=config.revision if backbone is None else None, is_generative=config.is_generative
    )
    if config.backbone_fingerprint:
        check_fingerprint(fingerprint(pretrained), config.backbone_fingerprint, name=str(source), folder=files.folder)
    stack = stack_path(pretrained, is_generative=config.is_generative)
    placement = placement_for(pretrained.config.model_type, is_generative=config.is_generative)
    layers = [f"{stack}.{name}".strip(".") for name in find_layers(pretrained.get_submodule(stack), placement)]
    places = {f"{path}.": number for number, path in enumerate(layers)}
    changes = []
    for name, before in pretrained.named_parameters():
        if name in learned:
            path = next((path for path in places if name.startswith(path)), None)
            gap = (before.detach().double() - learned[name].double()).abs().mean().item()
            changes.append(
                TermChange(
                    layer=None if path is None else places[path],
                    term=name if path is None else name.removeprefix(path),
                    change=gap,
                    numbers=before.numel(),
                )
            )
    return changes
