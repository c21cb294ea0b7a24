"""The settings of a recipe that have a flag of `attribune train` and an argument of `train`: each is declared here.

Parsers, messages, arguments and the fields of a recipe take from `FLAGS` what they say and assume. It is read for every
``--help``, so nothing heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ARGUMENTS", "FLAGS", "Flag", "argument_of"]


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A setting of a recipe that is also an argument, and mostly a flag.

    Args:
        meaning: what it is, in one sentence.
        group: heading in the help; None for a flag that the verb adds itself.
        default: of the field in the recipe; ``...`` for one that is required, or that the field has itself.
        shown_default: what the help says in place of a default that is no number or name.
        argument: of `train`, and destination of the flag, if it is not the last part of the path.
        flag: if it is not the argument with hyphens.
        type: of the words.
        metavar: of the words in the help.
        several: whether it takes several words.
        switch: whether it takes none.
        also: paths that get the same value.
    """

    meaning: str
    group: str | None = None
    default: Any = None
    shown_default: str | None = None
    argument: str | None = None
    flag: str | None = None
    type: type[Any] | None = None
    metavar: str | None = None
    several: bool = False
    switch: bool = False
    also: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """The meaning, with the default."""
        shown = self.shown_default
        if shown is None and isinstance(self.default, str | int | float) and not self.switch:
            shown = self.default if isinstance(self.default, str) else f"{self.default:g}"
        return self.meaning if shown is None else f"{self.meaning} (default: {shown})"


FLAGS: dict[str, Flag] = {
    "data.train": Flag(meaning="table with the training rows, or with all rows", default=..., argument="data"),
    "data.text": Flag(
        meaning="text column, or several that are joined", group="rows", default=..., several=True, metavar="COL"
    ),
    "data.text_pair": Flag(
        meaning="column of a second text, read with the first or compared",
        group="rows",
        default=(),
        several=True,
        metavar="COL",
    ),
    "data.text_negative": Flag(
        meaning="column of a text that matches less, for the task similarity",
        group="rows",
        default=(),
        several=True,
        metavar="COL",
    ),
    "data.label": Flag(
        meaning="label column; several for the tasks aspects and spans",
        group="rows",
        default=(),
        several=True,
        metavar="COL",
    ),
    "data.weight": Flag(
        meaning="column with the weight of each training row in the loss, 0 or more", group="rows", metavar="COL"
    ),
    "data.missing": Flag(
        meaning="texts that mean no value",
        group="rows",
        default=...,
        shown_default="the usual ones",
        several=True,
        metavar="WORD",
    ),
    "data.prompt": Flag(
        meaning="columns read before the text, or before both texts of a pair",
        group="rows",
        default=(),
        several=True,
        metavar="COL",
    ),
    "data.chat": Flag(meaning="apply the chat template to prompt and text", group="rows", default=False, switch=True),
    "data.validation": Flag(meaning="validation rows", group="rows", shown_default="a tenth of DATA", metavar="FILE"),
    "data.test": Flag(meaning="test rows", group="rows", shown_default="a tenth of DATA", metavar="FILE"),
    "data.max_length": Flag(
        meaning="maximum number of tokens read per text", group="rows", default=256, type=int, metavar="N"
    ),
    "data.attributes": Flag(meaning="columns that condition the model", default=()),
    "data.values": Flag(meaning="tables that describe the values of attributes", default={}),
    "data.shuffled": Flag(
        meaning="control: shuffle the attributes over the rows", group="attributes", default=False, switch=True
    ),
    "task.kind": Flag(
        meaning="classification, rating, ordinal, regression, aspects, preference (which of two texts), similarity (of "
        "two texts), tags (of words), spans (answers in a text), or generation (learns to write the text)",
        group="model",
        shown_default="classification for one label column, aspects for several",
        argument="task",
    ),
    "method.name": Flag(
        meaning="a method, or a sum such as a+b; `attribune methods` lists them; train also takes `auto`, which "
        "compares several",
        group="model",
        default="injector",
        argument="method",
    ),
    "backbone.tuning": Flag(
        meaning="which part of the backbone is trained: frozen, full, layernorm, bias, attention, feed_forward, top_N, "
        "lora[:q,v[:RANK]], or a sum of these",
        group="model",
        shown_default="depends on the method",
    ),
    "backbone.name": Flag(
        meaning="pretrained model, or one without pretraining: cnn, tang-cnn, bilstm, bilstm-cnn, hierarchical",
        group="model",
        default="sentence-transformers/all-MiniLM-L6-v2",
        argument="backbone",
        metavar="NAME_OR_DIR",
    ),
    "transfer.run": Flag(
        meaning="start from the attribute parameters of this run, frozen (--set transfer.frozen=false trains them "
        "further)",
        group="model",
        default=...,
        argument="init_attributes",
        metavar="RUN",
    ),
    "training.epochs": Flag(meaning="number of epochs", group="training", default=5, type=float, metavar="N"),
    "training.batch_size": Flag(meaning="rows per batch", group="training", default=32, type=int, metavar="N"),
    "training.learning_rate": Flag(
        meaning="learning rate of method and classifier", group="training", default=5e-4, type=float, metavar="X"
    ),
    "training.seed": Flag(
        meaning="seed of initialisation, batches and split",
        group="training",
        default=0,
        type=int,
        metavar="N",
        also=("data.split.seed",),
    ),
    "training.report_to": Flag(
        meaning="experiment trackers: tensorboard, wandb, mlflow, ...",
        group="training",
        default=(),
        several=True,
        metavar="NAME",
    ),
    "method.trials": Flag(
        meaning="with --method automl: networks to try",
        group="networks and word vectors",
        argument="method_trials",
        flag="--trials",
        type=int,
        metavar="N",
    ),
    "method.minutes": Flag(
        meaning="with --method automl: time for the trials, in minutes",
        group="networks and word vectors",
        argument="method_minutes",
        flag="--minutes",
        type=float,
        metavar="N",
    ),
}
"""By the path of the setting, in the order of the help; a method stands before its options."""


def argument_of(path: str) -> str:
    """Return the argument that stands for a setting of a recipe, from which its flag has its name.

    The options of a task or a method have none, and are called by their path.
    """
    if path in FLAGS and (argument := FLAGS[path].argument) is not None:
        return argument
    return path if path.startswith(("task.", "method.")) else path.rpartition(".")[2]


ARGUMENTS: dict[str, tuple[str, ...]] = {argument_of(path): (path, *flag.also) for path, flag in FLAGS.items()}
"""The settings behind each argument."""
