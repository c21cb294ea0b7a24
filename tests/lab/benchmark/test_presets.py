"""The experiments that come with the library fit their data sets and the shape of their backbones."""

from __future__ import annotations

from pathlib import PurePath

import pytest
import yaml

from attribune.runs.recipe import Recipe
from attribune_lab.backbones.options import WORD_MODELS
from attribune_lab.benchmark.experiment import Experiment, experiment_names, read_experiment
from attribune_lab.datasets.sets import CARDS

EXPERIMENTS = {
    f"{name}{', small' if small else ''}": read_experiment(name, small=small)
    for small in (False, True)
    for name in experiment_names(small=small)
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_has_a_recipe(name: str) -> None:
    experiment = EXPERIMENTS[name]
    for cell in experiment.cells():
        card = CARDS[PurePath(str(cell.set.prepared)).name]
        data = {"train": "x", "text": "text", "label": list(card.labels), "attributes": list(card.attributes)}
        if card.pair:
            data["text_pair"] = "text_pair"
        recipe = Recipe.from_dict(experiment.recipe(cell, data=data, task=dict(card.task)), source=cell.path)
        assert recipe.training.seed == cell.fold
        if not recipe.learner.has_settings:
            continue
        sizes = recipe.method.get("vector_sizes")
        assert sizes is None or len(sizes) == len(recipe.data.attributes), cell.path


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_systems_without_pretraining_train_as_they_say(name: str) -> None:
    """And not with the learning rate of pretrained weights, or for the steps of other settings."""
    experiment = EXPERIMENTS[name]
    for cell in experiment.cells():
        own, backbone = cell.setting.training, {**experiment.backbone, **cell.setting.backbone}
        if backbone.get("name") not in WORD_MODELS:
            continue
        data = {"train": "x", "text": "text", "label": "label", "attributes": [{"name": "user"}, {"name": "product"}]}
        recipe = Recipe.from_dict(experiment.recipe(cell, data=data, task={"kind": "classification"}))
        assert set(recipe.learner.rates.values()) == {own["learning_rate"]}
        assert (recipe.training.steps is None) == ("epochs" in own)
        assert recipe.training.evaluate_every == "epoch" or "epochs" not in own


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_is_written_as_it_is_read(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert Experiment.from_dict(yaml.safe_load(experiment.to_yaml())) == experiment
