"""How far the gains and biases of norms are from those of the pretrained backbone, after E2LN is trained on critics.

    python benchmarks/changed_terms.py     # in the folder in which `attribune data prepare` made data/critics

That is figure 4 of Zhang et al. 2024, with its measure: the mean absolute difference of the numbers of a term. The
setting is that of the preset `e2ln --small` which tunes LoRA of queries and values, and the norms. For each layer, the
norm after the attention, which is personalised: as it is tuned, and as the critics and films of the test rows change
it. Two minutes on two cores.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from harness import arguments, write_result
from torch import Tensor

from attribune.backbones.families import placement_for
from attribune.backbones.loading import load_backbone
from attribune.backbones.sites import find_sites
from attribune.methods.pln import NormSite
from attribune.runs.loading import load_predictor
from attribune.training.train import train
from attribune_lab.benchmark.experiment import Cell, read_experiment
from attribune_lab.benchmark.runner import recipe_of
from attribune_lab.benchmark.source import SetSource

SETTING = "LoRA of queries and values and LNT"
TERMS = ("gain", "bias")


def far(term: Tensor, initial: Tensor) -> float:
    """The mean absolute difference of a term (..., H) to that of the backbone (H,)."""
    return round((term - initial).abs().mean().item(), 5)


def measure() -> list[dict[str, Any]]:
    """The differences, a line for each layer."""
    experiment = read_experiment("e2ln", small=True)
    (plan,) = experiment.sets
    cell, source = Cell(set=plan, setting=experiment.setting(SETTING), fold=0), SetSource(plan)
    recipe, tables = source.tables(recipe_of(experiment, cell, source), cell.fold, trial=False)
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, Path(folder) / "run", tables=tables, baselines=False)
        model = cast(Any, load_predictor(Path(folder) / "run").model)
    placement = placement_for(model.stack.config.model_type)
    norms = [one for one in find_sites(model.stack, placement, ("attention_norm",)) if one.layer is not None]
    pretrained = load_backbone(recipe.backbone.name)
    ids, _ = model.input_schema.encode(tables["test"].to_pandas())
    lines = []
    with torch.no_grad():
        condition = model.method.condition(torch.from_numpy(ids), len(ids))
        for norm, module in zip(norms, (one for one in model.modules() if isinstance(one, NormSite)), strict=True):
            initial, tuned = (
                {"gain": one.get_submodule(norm.path).weight, "bias": one.get_submodule(norm.path).bias}
                for one in (pretrained, model.stack)
            )
            personal = {
                "gain": tuned["gain"] * (1 + module.gain(condition)),
                "bias": tuned["bias"] + module.bias(condition),
            }
            lines.append(
                {"layer": norm.layer + 1}
                | {f"{term}, tuned": far(tuned[term], initial[term]) for term in TERMS}
                | {f"{term}, with attributes": far(personal[term], initial[term]) for term in TERMS}
            )
    return lines


def main() -> None:
    parser = arguments(__doc__, "changed_terms")
    options = parser.parse_args()
    write_result(options.output, {"setting": SETTING, "layers": measure()})


if __name__ == "__main__":
    main()
