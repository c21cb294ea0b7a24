"""How far training moved the backbone: the change of terms of Zhang et al. 2024 (E2LN, figure 4)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attribune.backbones.added_tokens import is_added
from attribune.backbones.fingerprint import check_fingerprint, fingerprint
from attribune.backbones.loading import load_backbone
from attribune.backbones.sites import find_layers
from attribune.errors import ConfigError
from attribune.models.auto import is_baseline
from attribune.models.folder import ModelFolder

__all__ = ["TermChange", "term_changes"]


@dataclass(frozen=True, kw_only=True)
class TermChange:
    """One tensor of the backbone before and after training.

    Args:
        layer: its number, from 0; None outside the layers.
        term: the tensor's name inside the layer, or its full name.
        change: ``||before - after||_1 / numbers``, the mean absolute change of its numbers.
    """

    layer: int | None
    term: str
    change: float
    numbers: int


def term_changes(run: str | Path, *, backbone: str | Path | None = None) -> list[TermChange]:
    """Measure the change of every trained tensor of the backbone, in the backbone's order, without those of LoRA.

    Args:
        run: folder of a run or a model.
        backbone: where the pretrained weights are, if no longer where they were.

    Raises:
        ConfigError: where nothing of the backbone was trained, or its pretrained weights cannot be found.
        ModelFolderError: for a folder without a complete model, or other weights than those of the training.
    """
    if is_baseline(run):
        raise ConfigError(
            f"{run} is a run of a baseline, whose backbone, if it has one, is not trained: nothing changed"
        )
    folder = ModelFolder.find(run)
    config, tensors = folder.read()
    source = backbone or config.backbone
    trained = {
        name.removeprefix("backbone.").replace(".base_layer.", "."): tensor  # peft renames what LoRA stands beside
        for name, tensor in tensors.items()
        if name.startswith("backbone.") and ".lora_" not in name and not is_added(name)
    }
    if not trained:
        raise ConfigError(f"{run}: the backbone was not trained (tuning {config.tuning}), so no term of it changed")
    architecture, placement = config.architecture, config.architecture.placement(config.text_config.model_type)
    if not placement.is_pretrained:
        raise ConfigError(f"{run}: its backbone was not pretrained, so there is nothing to compare it with")
    revision = config.revision if backbone is None else None
    pretrained = load_backbone(str(source), revision=revision, architecture=architecture)
    if config.backbone_fingerprint:
        check_fingerprint(fingerprint(pretrained), config.backbone_fingerprint, name=str(source), folder=folder.path)
    stack = architecture.stack_path(pretrained)
    layers = [f"{stack}.{name}".strip(".") for name in find_layers(pretrained.get_submodule(stack), placement)]
    layer_numbers = {f"{path}.": number for number, path in enumerate(layers)}
    changes = []
    for name, before in pretrained.named_parameters():
        if name in trained:
            path = next((path for path in layer_numbers if name.startswith(path)), "")
            change = (before.detach().double() - trained[name].double()).abs().mean().item()
            term, layer = name.removeprefix(path), layer_numbers.get(path)
            changes.append(TermChange(layer=layer, term=term, change=change, numbers=before.numel()))
    return changes
