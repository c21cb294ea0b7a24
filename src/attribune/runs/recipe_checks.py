"""What a recipe cannot ask of a task, a method or a backbone, with the cure of each."""

from __future__ import annotations

from attribune.backbones.families import placement_for
from attribune.backbones.word_options import WORD_MODELS
from attribune.core.door import as_argument
from attribune.data.windows import Head, parse_window
from attribune.errors import ConfigError
from attribune.methods import check_compares, check_gives_vectors, check_reads_tokens
from attribune.methods.history import History
from attribune.runs.recipe_fields import RecipeFields
from attribune.tasks import TASKS

__all__ = ["check_backbone", "check_history", "check_task"]


def check_task(recipe: RecipeFields) -> None:
    """Refuse columns and settings that the task does not have, or that it lacks."""
    if recipe.is_generative:
        _check_generation(recipe)
    elif recipe.compares:
        _check_candidates(recipe)
    elif not recipe.data.label:
        raise ConfigError(
            f"no label column is named: name it with {as_argument('data.label')}, or choose the task generation, which "
            "needs none"
        )
    elif recipe.data.prompt or recipe.data.chat:
        raise ConfigError(f"task {recipe.task_kind!r} reads no prompt: name its columns as text, and leave chat out")
    if recipe.reads_tokens:
        _check_tokens(recipe)


def _refuse_baseline(recipe: RecipeFields, lacks: str) -> None:
    """Refuse a baseline for a task that it cannot do."""
    if recipe.is_baseline:
        raise ConfigError(
            f"method {recipe.method['name']!r} {lacks}, as the task {recipe.task_kind!r} does: choose one that acts in "
            "a backbone"
        )


def _check_tokens(recipe: RecipeFields) -> None:
    """Refuse settings that a task which scores tokens does not have."""
    _refuse_baseline(recipe, "scores no tokens")
    check_reads_tokens(recipe.method_config(), task=recipe.task_kind)
    if not isinstance(parse_window(recipe.data.window, max_length=recipe.data.max_length), Head):
        raise ConfigError(
            f"task {recipe.task_kind!r} reads a long text in windows of max_length tokens that overlap, not in "
            f"{recipe.data.window}: leave window out"
        )
    if recipe.backbone.pooling is not None:
        raise ConfigError(f"task {recipe.task_kind!r} has no document vector: leave backbone.pooling out")
    if recipe.data.partial_labels:
        raise ConfigError(f"task {recipe.task_kind!r} has one label for each row: leave partial_labels out")
    if TASKS[recipe.task_kind].reads_words:
        if len(recipe.data.text) > 1 or recipe.data.text_pair:
            raise ConfigError(
                f"task 'tags' reads one column of words: name one with {as_argument('data.text')}, and no second text"
            )
    elif len(recipe.data.text) != 1 or len(recipe.data.text_pair) != 1:
        raise ConfigError(
            f"task {recipe.task_kind!r} reads a question and a context: name one column of each, with "
            f"{as_argument('data.text')} and {as_argument('data.text_pair')}"
        )


def _check_candidates(recipe: RecipeFields) -> None:
    """Refuse settings that a task which compares texts does not have."""
    _refuse_baseline(recipe, "compares no texts")
    check_compares(recipe.method_config(), task=recipe.task_kind)
    if recipe.task_kind == "similarity":
        _check_similarity(recipe)
    elif len(recipe.data.text) != 1 or len(recipe.data.text_pair) != 1:
        raise ConfigError(
            f"task {recipe.task_kind!r} compares two texts: name one column of each, with "
            f"{as_argument('data.text')} and {as_argument('data.text_pair')}, the preferred one first where there is "
            f"no label, and what stands before both with {as_argument('data.prompt')}"
        )
    if both := sorted({*recipe.data.prompt, *recipe.attribute_names}.intersection(recipe.data.texts)):
        raise ConfigError(
            f"column {', '.join(both)} is a text that is compared and also the prompt or an attribute: name it once"
        )
    if recipe.data.chat or recipe.data.partial_labels:
        what = "chat" if recipe.data.chat else "partial_labels"
        raise ConfigError(f"task {recipe.task_kind!r} has no {what}: leave it out")


def _check_similarity(recipe: RecipeFields) -> None:
    """Refuse settings with which nothing is learned of the similarity of texts, or not what is meant."""
    if not recipe.data.text_pair:
        raise ConfigError(
            "task 'similarity' compares two texts: name the column of the second one with "
            f"{as_argument('data.text_pair')}, and with {as_argument('data.label')} that of scores, or with "
            f"{as_argument('data.text_negative')} that of a text that fits less, if there is one"
        )
    if any(len(names) > 1 for names in (recipe.data.text, recipe.data.text_pair, recipe.data.text_negative)):
        raise ConfigError(
            f"task 'similarity' compares one column with another: name one with {as_argument('data.text')}, one with "
            f"{as_argument('data.text_pair')} and at most one with {as_argument('data.text_negative')}, and join "
            "others beforehand"
        )
    if recipe.data.label and recipe.data.text_negative:
        raise ConfigError("task 'similarity' learns from scores or from triplets: leave label or text_negative out")
    if recipe.data.prompt:
        raise ConfigError("task 'similarity' reads no prompt: name its column with the text, and leave prompt out")
    if recipe.task.get("form", recipe.form) != recipe.form:
        raise ConfigError(
            f"task.form is {recipe.task['form']!r}, and the columns that are named make {recipe.form}: leave it out"
        )
    if recipe.form == "pairs" and recipe.training.batch_size < 2:
        raise ConfigError(
            "training.batch_size is 1, and pairs are learned from the other rows of a batch: give at least 2"
        )
    if recipe.backbone.head_size is not None:
        raise ConfigError("task 'similarity' has no head: leave backbone.head_size out")
    check_gives_vectors(recipe.method_config(), task=recipe.task_kind)
    recipe.similarity.check_attributes(recipe.attribute_names)


def _check_generation(recipe: RecipeFields) -> None:
    """Refuse settings that a model which writes text does not have."""
    if recipe.data.label or recipe.data.partial_labels:
        raise ConfigError("task 'generation' learns the text itself: leave label and partial_labels out")
    if recipe.data.text_pair:
        raise ConfigError(
            f"task 'generation' reads no pair of texts: name the second text with {as_argument('data.prompt')}"
        )
    if both := sorted({*recipe.data.prompt, *recipe.attribute_names}.intersection(recipe.data.text)):
        raise ConfigError(
            f"column {', '.join(both)} is the text that is written and also a prompt or an attribute: the model "
            "would read the answer; name it as the text only"
        )
    if recipe.data.chat and not recipe.data.prompt:
        raise ConfigError(
            f"a chat template needs a prompt: name its columns with {as_argument('data.prompt')}, or leave chat out"
        )
    if recipe.is_baseline or "text" in recipe.method_config().points:
        raise ConfigError(f"method {recipe.method['name']!r} writes no text: choose one that acts in a backbone")
    if recipe.backbone.pooling is not None:
        raise ConfigError("task 'generation' has no document vector: leave backbone.pooling out")


def check_history(recipe: RecipeFields, history: History) -> None:
    """Refuse settings with which no history can be read."""
    if (refusal := history.attribute_refusal(recipe.attribute_names)) is not None:
        raise ConfigError(refusal)
    if recipe.task.get("soft_labels"):
        raise ConfigError(
            "history puts labels in front of texts, but with soft_labels they are shares: leave soft_labels out"
        )
    if history.time in recipe.data.label:
        raise ConfigError(
            f"history: time is {history.time!r}, which is the label and would be read: name another column"
        )
    if history.time is None and not recipe.backbone.is_pretrained:
        raise ConfigError(
            f"history: similar texts are found by a pretrained backbone, but {recipe.backbone.name!r} is not "
            "pretrained: choose one that is, or name a column of times (method.time)"
        )
    if parse_window(recipe.data.window, max_length=recipe.data.max_length).chunk is not None:
        raise ConfigError(
            f"history: a text is read at once, behind its history, and the window is {recipe.data.window!r}: choose "
            "head or head+tail"
        )


def check_backbone(recipe: RecipeFields) -> None:
    """Refuse a backbone that the method or the task cannot read."""
    if recipe.baseline is not None and recipe.baseline.reads_vectors and not recipe.backbone.is_pretrained:
        raise ConfigError(
            f"method {recipe.method['name']!r} reads the vectors of a pretrained backbone, and "
            f"{recipe.backbone.name!r} is not pretrained: choose a pretrained one"
        )
    if recipe.backbone.added_tokens != "refuse" and (recipe.is_generative or recipe.is_baseline):
        what = "a model that writes text" if recipe.is_generative else f"method {recipe.method['name']!r}"
        raise ConfigError(
            f"backbone.added_tokens is {recipe.backbone.added_tokens}, which {what} does not have: add embeddings with "
            "transformers (resize_token_embeddings), or leave it out"
        )
    if recipe.backbone.is_pretrained or recipe.is_baseline:
        return
    if recipe.is_generative:
        raise ConfigError(f"the backbone {recipe.backbone.name!r} writes no text: choose a language model")
    method, name = recipe.method_config(), recipe.backbone.name
    placement = placement_for(WORD_MODELS[name].model_type)
    if (refusal := method.refusal(placement) or method.attribute_refusal(recipe.attribute_names)) is not None:
        raise ConfigError(refusal)
    if placement.states != "token" and (recipe.reads_tokens or recipe.data.window.startswith("chunks")):
        what = f"the task {recipe.task_kind!r} scores words" if recipe.reads_tokens else "chunks are cut by words"
        raise ConfigError(f"{what}, and the backbone {name!r} has a state for each {placement.states}")
    for option, value in method.word_options(name, attributes=len(recipe.data.attributes)).items():
        if (given := recipe.backbone.options.get(option, value)) != value:
            raise ConfigError(
                f"backbone.options.{option} is {given}, but the method {method.name!r} needs {value} for the "
                f"attributes {', '.join(recipe.attribute_names)}: leave it out"
            )
