"""A trained run loaded: its recipe, and a predictor of its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attribune.backbones.sharing import SharedBackbones
from attribune.core.arguments import checked_arguments
from attribune.core.door import as_argument
from attribune.core.logs import show_note
from attribune.core.process import keep_freed_memory
from attribune.errors import ModelFolderError
from attribune.models.auto import Scorer, load_scorer
from attribune.models.predictor import Predictor, Quantisation, quantised
from attribune.runs.folder import RunFolder
from attribune.runs.recipe import Recipe


@checked_arguments
def load_run(
    path: str | Path,
    *,
    backbone: str | Path | None = None,
    dtype: str = "float32",
    precision: str | None = None,
    shared: SharedBackbones | None = None,
    quantise: Quantisation | None = None,
) -> tuple[Recipe, Predictor]:
    """Load the recipe and the predictor of a trained run.

    Args:
        path: the run's folder, or its model's.
        backbone: new location of the backbone's weights, if they were moved.
        dtype: of the backbone's weights.
        precision: ``float32`` or ``bf16``; by default that of the training.
        shared: cache of backbones whose weights several models share.
        quantise: ``int8`` for prediction on CPUs; see `attribune.models.predictor.quantised`.

    Raises:
        ModelFolderError: for a folder that is not a run, or whose model is missing or damaged.
        ConfigError: for a model or a processor that has no int8.
    """
    folder = RunFolder.of(path)
    recipe = folder.read_recipe()
    folder.complete_model()
    if not folder.outcome.is_file():
        raise ModelFolderError(
            f"{path} is an interrupted run without a model: repeat its training with "
            f"{as_argument('resume', True, at='train')}"
        )
    if not folder.is_finished:
        show_note(
            f"{path} is an interrupted run: its model may be neither calibrated nor have simple models beside it until "
            f"its training is repeated with {as_argument('resume', True, at='train')}"
        )
    model = folder.read_from_model(lambda: load_scorer(folder.model, backbone=backbone, dtype=dtype, shared=shared))
    return recipe, predictor_of(recipe, quantised(model, quantise, shared=shared), precision=precision)


def load_predictor(
    path: str | Path,
    *,
    backbone: str | Path | None = None,
    dtype: str = "float32",
    precision: str | None = None,
    shared: SharedBackbones | None = None,
    quantise: Quantisation | None = None,
) -> Predictor:
    """Load the predictor of a run, as `load_run` does, or of a model alone, such as an exported one."""
    if not RunFolder.of(path).is_model_alone:
        options: dict[str, Any] = {"backbone": backbone, "dtype": dtype, "shared": shared, "quantise": quantise}
        return load_run(path, precision=precision, **options)[1]
    keep_freed_memory()
    model = load_scorer(Path(path), backbone=backbone, dtype=dtype, shared=shared)
    precision = precision or (None if dtype == "float32" else "bf16")
    return Predictor(quantised(model, quantise, shared=shared), precision=precision)


def predictor_of(recipe: Recipe, model: Scorer, *, precision: str | None = None) -> Predictor:
    """Return the predictor of a model trained with a recipe, by default in the precision of the training."""
    trained_in = None if recipe.training.precision == "auto" else recipe.training.precision
    keep_freed_memory()
    return Predictor(
        model,
        text_input=recipe.data.text_input(),
        batch_size=recipe.training.batch_size * 2,
        precision=precision or trained_in,
    )
