"""The settings of a recipe that have a flag of `attribune train` and an argument of `train`: each is declared here.

Parsers, messages, arguments and the fields of a recipe take from `FLAGS` what they say and assume. It is read for every
``--help``, so nothing heavy is imported.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any


@dataclass(frozen=True)
class Flag:
    """A setting of a recipe that is also an argument, and mostly a flag.

    Args:
        meaning: what it is, in one sentence.
        default: of the field in the recipe; ``...`` for one that is required, or that the field has itself. A flag
            whose default is False takes no words.
        shown: what the help says in place of a default that is no number or name.
        argument: of `train`, and destination of the flag, if it is not the last part of the path.
        flag: if it is not the argument with hyphens.
        type: of the words.
        metavar: of the words in the help.
        several: whether it takes several words.
        also: paths that get the same value.
        off: the value that the flag's opposite, such as ``--no-blend``, stands for; None for a flag without one.
    """

    meaning: str
    default: Any = None
    _: KW_ONLY
    shown: str | None = None
    argument: str | None = None
    flag: str | None = None
    type: type[Any] | None = None
    metavar: str | None = None
    several: bool = False
    also: tuple[str, ...] = ()
    off: str | None = None

    @property
    def help(self) -> str:
        """The meaning, with the default."""
        shown = self.shown
        if shown is None and self.default is not False and isinstance(self.default, str | int | float):
            shown = self.default if isinstance(self.default, str) else f"{self.default:g}"
        return self.meaning if shown is None else f"{self.meaning} (default: {shown})"


def _columns(meaning: str, default: Any = ()) -> Flag:
    return Flag(meaning, default, several=True, metavar="COL")


USUAL_LENGTH, LONGEST_LENGTH = 256, 512
"""The tokens that are read of a text where no number is given, and the most where many texts are longer."""

GROUPS: dict[str, dict[str, Flag]] = {
    "": {
        "data.train": Flag("table with the training rows, or with all rows", ..., argument="data"),
        "data.attributes": Flag("columns that condition the model", ()),
        "data.values": Flag("tables that describe the values of attributes", {}),
    },
    "rows": {
        "data.text": _columns("text column, or several that are joined", ...),
        "data.text_pair": _columns("column of a second text, read with the first or compared"),
        "data.text_negative": _columns("column of a text that matches less, for the task similarity"),
        "data.label": _columns("label column; several for the tasks aspects and spans"),
        "data.weight": Flag("column with the weight of each training row in the loss, 0 or more", metavar="COL"),
        "data.missing": Flag("texts that mean no value", ..., shown="the usual ones", several=True, metavar="WORD"),
        "data.prompt": _columns("columns read before the text, or before both texts of a pair"),
        "data.chat": Flag("apply the chat template to prompt and text", False),
        "data.validation": Flag("validation rows", shown="a tenth of DATA", metavar="FILE"),
        "data.test": Flag("test rows", shown="a tenth of DATA", metavar="FILE"),
        "data.split.folds": Flag(
            "K-fold cross-validation: each row gets an out-of-fold prediction; the model that is saved learns from all "
            "rows but a tenth, which validates; 0 scores test rows alone",
            shown="5 for 200 to 999 rows, 0 for others",
            type=int,
            metavar="K",
        ),
        "data.max_length": Flag(
            "maximum number of tokens read per text",
            shown=f"{USUAL_LENGTH}, or up to {LONGEST_LENGTH} where many texts are longer",
            type=int,
            metavar="N",
        ),
    },
    "attributes": {
        "data.written": Flag(
            "attributes whose values are also written in front of the text, as words", (), several=True, metavar="NAME"
        ),
        "data.shuffled": Flag("control: shuffle the attributes over the rows", False),
    },
    "model": {
        "task.kind": Flag(
            "classification, rating, ordinal, regression, aspects, preference (which of two texts), similarity (of two "
            "texts), tags (of words), spans (answers in a text), or generation (learns to write the text)",
            shown="classification for one label column, aspects for several",
            argument="task",
        ),
        "method.name": Flag(
            "a method, or a sum such as a+b; `attribune methods` lists them; train also takes `auto`, which compares "
            "several",
            "injector",
            argument="method",
        ),
        "backbone.tuning": Flag(
            "which part of the backbone is trained: frozen, full, layernorm, bias, attention, feed_forward, top_N, "
            "lora[:q,v[:RANK]], or a sum of these",
            shown="depends on the method",
        ),
        "backbone.name": Flag(
            "pretrained model, or one without pretraining: cnn, tang-cnn, bilstm, bilstm-cnn, hierarchical",
            "sentence-transformers/all-MiniLM-L6-v2",
            argument="backbone",
            metavar="NAME_OR_DIR",
        ),
        "transfer.run": Flag(
            "start from the attribute parameters of this run, frozen (--set transfer.frozen=false trains them further)",
            ...,
            argument="init_attributes",
            metavar="RUN",
        ),
    },
    "training": {
        "training.epochs": Flag(
            "number of epochs", type=float, metavar="N", shown="5, or as many as make 100 steps of few rows"
        ),
        "training.batch_size": Flag("rows per batch", 32, type=int, metavar="N"),
        "training.learning_rate": Flag("learning rate of method and classifier", 5e-4, type=float, metavar="X"),
        "training.seed": Flag(
            "seed of initialisation, batches and split", 0, type=int, metavar="N", also=("data.split.seed",)
        ),
        "training.blend": Flag(
            "ensemble of the network with a linear model and boosted trees: auto (where cross-fitting on validation "
            "rows gives a lower loss, and no method is compared), always or never",
            "auto",
            metavar="{auto,always,never}",
            off="never",
        ),
        "training.report_to": Flag(
            "experiment trackers: tensorboard, wandb, mlflow, ...", (), several=True, metavar="NAME"
        ),
    },
    "networks and word vectors": {
        "method.trials": Flag(
            "with --method automl: networks to try", argument="method_trials", flag="--trials", type=int, metavar="N"
        ),
        "method.minutes": Flag(
            "with --method automl: time for the trials, in minutes",
            argument="method_minutes",
            flag="--minutes",
            type=float,
            metavar="N",
        ),
    },
}
"""By the heading in the help of `attribune train`, which adds those without one itself, and the path of the setting."""

FLAGS = {path: flag for group in GROUPS.values() for path, flag in group.items()}
"""By path; a method stands before its options."""


def argument_of(path: str) -> str:
    """Return the argument that stands for a setting of a recipe, from which its flag has its name.

    The options of a task or a method have none, and are called by their path.
    """
    if path in FLAGS and (argument := FLAGS[path].argument) is not None:
        return argument
    return path if path.startswith(("task.", "method.")) else path.rpartition(".")[2]


ARGUMENTS: dict[str, tuple[str, ...]] = {argument_of(path): (path, *flag.also) for path, flag in FLAGS.items()}
"""The settings behind each argument."""


def as_flag(name: str) -> str:
    """Return the flag of an argument, such as ``--text-pair``."""
    return f"--{name.replace('_', '-')}"
