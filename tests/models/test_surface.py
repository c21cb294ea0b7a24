"""How texts look, as features of the linear model: figures, choice, files, and the blend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from attribune import Classification
from attribune.models.blend import Blend, owners_of_words
from attribune.models.linear import LinearModel, choose_c
from attribune.models.surface import SURFACE, ScaledSurface, surface
from attribune.models.word_features import LinearFeatures
from attribune.runs.recipe import Recipe, TrainingRecipe
from attribune.schema import Categorical, Schema
from attribune.schema.schema import Revision
from attribune.training.train import train

CHANCE = np.random.default_rng(5)
WORDS = ["film", "plot", "cast", "story", "scene"]


def texts_of(count: int, *, looks: bool) -> tuple[list[str], np.ndarray]:
    """Texts of random words, with a label that marks tell or nothing does."""
    labels = CHANCE.integers(2, size=count)
    texts = [" ".join(CHANCE.choice(WORDS, 6)) for _ in labels]
    return [f"{text}!!!" if looks and label else text for text, label in zip(texts, labels, strict=True)], labels


USERS = ["a", "b", "c"]
SCHEMA = Schema.fit({"user": USERS}, [Categorical("user")])


def chosen(*, looks: bool, **options: Any) -> tuple[LinearModel, dict[float, float]]:
    (texts, labels), (validation, known) = texts_of(120, looks=looks), texts_of(60, looks=looks)
    ids = [CHANCE.integers(4, size=(len(some), 1)) for some in (texts, validation)]
    data = {"labels": labels, "validation_texts": validation, "validation_ids": ids[1], "validation_labels": known}
    return choose_c(texts, ids[0], schema=SCHEMA, task=Classification(classes=("no", "yes")), **data, **options)


@pytest.fixture(scope="module")
def looking() -> LinearModel:
    return chosen(looks=True, surface=True)[0]


def test_figures_of_a_text() -> None:
    assert surface(["Ab 1!?? x", ""]).tolist() == [[9, 3, 1 / 9, 1 / 9, 3 / 9, 1, 2], [0] * SURFACE]


def test_scaled_figures_are_standardised_and_constant_ones_are_zero() -> None:
    texts = ["one two", "ONE! Two?", "three"]
    scaled = ScaledSurface.fit(texts).of_texts(texts)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 1, 0, 1, 1, 1], atol=1e-12)


@pytest.mark.parametrize(("looks", "wanted"), [(True, True), (True, False), (False, False)])
def test_validation_rows_choose(looks: bool, wanted: bool) -> None:
    plain, scores = chosen(looks=looks)
    assert not plain.reads_surface
    assert len(scores) == 5
    if wanted:
        model, best = chosen(looks=looks, surface=True)
        assert model.reads_surface
        assert min(best.values()) < 0.5 * min(scores.values())
        assert set(best) <= set(scores)


def test_a_stored_model_is_the_same_and_one_of_before_has_no_surface(looking: LinearModel, tmp_path: Path) -> None:
    texts, ids = ["film plot!!!", "film plot"], np.array([[1], [0]])
    looking.save_pretrained(tmp_path / "new")
    np.testing.assert_array_equal(LinearModel.load(tmp_path / "new").logits(texts, ids), looking.logits(texts, ids))
    assert (
        np.ptp(looking.logits(texts, np.zeros((2, 1), int))[:, 1] - looking.logits(texts, np.zeros((2, 1), int))[:, 0])
        > 1
    )
    plain = chosen(looks=True)[0]
    plain.save_pretrained(tmp_path / "plain")
    assert "surface" not in load_file(tmp_path / "plain" / "linear.safetensors")
    assert LinearModel.load(tmp_path / "plain").features.width == len(plain.features.words or ()) + 3


def test_values_come_and_go_beside_the_figures(looking: LinearModel) -> None:
    texts, ids = ["film plot!!!", "cast"], np.array([[1], [3]])
    names = list(SCHEMA["user"].values)
    less = looking.revised(Revision.removing(SCHEMA, {"user": (names[1],)}))
    kept = less.schema.encode({"user": [names[0], names[2]]})[0]
    np.testing.assert_allclose(less.logits(texts, kept), looking.logits(texts, ids))


def test_a_blend_counts_the_figures(looking: LinearModel, tmp_path: Path) -> None:
    texts, ids = ["film plot!!!", "cast", "film plot!!!"], np.array([[1], [3], [0]])
    features = looking.features
    assert isinstance(features, LinearFeatures)
    blend = Blend(
        features=features,
        weight=looking.weight,
        bias=looking.bias,
        neural_weight=0.5,
        linear_weight=2.0,
        owners=owners_of_words(features, texts, ids),
    )
    expected = 2 * looking.logits(texts, ids)
    blend.save(tmp_path)
    loaded = Blend.load(tmp_path, schema=SCHEMA, task=looking.task)
    assert loaded is not None
    for one in (blend, loaded):
        np.testing.assert_allclose(one.logits(np.zeros((3, 2)), texts, ids), expected, rtol=1e-5, atol=1e-5)
    less = Revision.removing(SCHEMA, {"user": (SCHEMA["user"].values[1],)}).schema
    moved = less.encode({"user": [SCHEMA["user"].values[0], SCHEMA["user"].values[2], None]})[0]
    np.testing.assert_allclose(
        loaded.under(less).logits(np.zeros((3, 2)), texts, moved), expected, rtol=1e-5, atol=1e-5
    )


def test_recipes_have_no_surface_unless_it_is_said() -> None:
    assert not TrainingRecipe().surface
    assert not TrainingRecipe.from_dict({}, source="recipe", saved=True).surface


@pytest.mark.parametrize("is_on", [True, False])
def test_a_training_says_that_it_reads_how_texts_look(
    is_on: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts, labels = texts_of(120, looks=True)
    table = pd.DataFrame({"text": texts, "label": labels, "user": CHANCE.choice(USERS, 120)})
    recipe = {
        "data": {"text": "text", "label": "label", "attributes": ["user"], "train": "t"},
        "method": {"name": "linear"},
    }
    recipe["training"] = {"surface": is_on}
    train(Recipe.from_dict(recipe), tmp_path / "run", tables={"train": table}, baselines=False)
    assert ("also reads how texts look" in caplog.text) == is_on
    assert LinearModel.load(tmp_path / "run" / "model").reads_surface == is_on
