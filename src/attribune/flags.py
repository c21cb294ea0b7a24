"""The settings of a recipe that have a flag, each declared here once.

Help and messages name them before anything heavy is loaded, so this imports nothing. From here come the flags of
``attribune train`` and ``search``, the default and the description of each field of the recipe, the setting behind each
argument of `train` and the estimators, and the words of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any

__all__ = ["FLAGS", "NETWORKS", "SETTINGS", "Flag"]


@dataclass(frozen=True)
class Flag:
    """A setting of a recipe, as one gives it at the command line and as an argument of a function.

    Args:
        path: of the setting, such as ``training.epochs``.
        group: under which the help lists its flag; empty for what is no flag at the command line.
        meaning: what it is.
        name: of the argument and of the flag; by default the end of the path.
        default: of the setting; ``...`` where one must give it.
        otherwise: what is taken if none is given, where the default does not tell.
        also: another setting that it gives.
        takes_several: whether several words follow the flag, which may be repeated.
        is_switch: whether no word follows it.
    """

    path: str
    group: str
    meaning: str
    _: KW_ONLY
    name: str = ""
    default: Any = None
    otherwise: str = ""
    also: str = ""
    metavar: str | None = None
    type: Callable[[str], Any] | None = None
    choices: tuple[str, ...] | None = None
    takes_several: bool = False
    is_switch: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.path.rpartition(".")[2])

    @property
    def words(self) -> str:
        """The flag, such as ``--text-pair``."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def help(self) -> str:
        """What the help says of it: the meaning, and the default."""
        known = isinstance(self.default, str | int | float) and self.default is not False
        otherwise = self.otherwise or (f"{self.default:g}" if isinstance(self.default, float) else str(self.default))
        return f"{self.meaning} (default: {otherwise})" if known or self.otherwise else self.meaning

    def options(self) -> dict[str, Any]:
        """Return its options for argparse; a flag that is not given is None."""
        if self.is_switch:
            return {"action": "store_true", "default": None, "help": self.help}
        given = {"metavar": self.metavar, "type": self.type, "choices": self.choices, "help": self.help}
        several = {"nargs": "+", "action": "extend"} if self.takes_several else {}
        return {name: value for name, value in given.items() if value is not None} | several


_ROWS, _ATTRIBUTES, _MODEL, _TRAINING = "rows", "attributes", "model", "training"
NETWORKS = "networks and word vectors"

_DECLARED = (
    Flag("data.train", "", "table with the training rows, or with all rows", name="data", default=...),
    Flag("data.text", _ROWS, "text column, or several that are joined", default=..., metavar="COL", takes_several=True),
    Flag(
        "data.text_pair",
        _ROWS,
        "column of a second text, read with the first or compared",
        default=(),
        metavar="COL",
        takes_several=True,
    ),
    Flag(
        "data.text_negative",
        _ROWS,
        "column of a text that matches less, for the task similarity",
        default=(),
        metavar="COL",
        takes_several=True,
    ),
    Flag(
        "data.label",
        _ROWS,
        "label column; several for the tasks aspects and spans",
        default=(),
        metavar="COL",
        takes_several=True,
    ),
    Flag("data.weight", _ROWS, "column with the weight of each training row in the loss, 0 or more", metavar="COL"),
    Flag(
        "data.missing",
        _ROWS,
        "texts that mean no value",
        otherwise="the usual ones",
        metavar="WORD",
        takes_several=True,
    ),
    Flag(
        "data.prompt",
        _ROWS,
        "columns read before the text, or before both texts of a pair",
        default=(),
        metavar="COL",
        takes_several=True,
    ),
    Flag("data.chat", _ROWS, "apply the chat template to prompt and text", default=False, is_switch=True),
    Flag("data.validation", _ROWS, "validation rows", otherwise="a tenth of the data", metavar="FILE"),
    Flag("data.test", _ROWS, "test rows", otherwise="a tenth of the data", metavar="FILE"),
    Flag("data.encoding", _ROWS, "encoding of the table; detected by default"),
    Flag("data.delimiter", _ROWS, "delimiter of CSV fields, or tab; detected by default", metavar="CHAR"),
    Flag(
        "data.quoting",
        _ROWS,
        "whether double quotes enclose CSV fields, or are plain characters (none)",
        choices=("double", "none"),
    ),
    Flag(
        "data.decimal",
        _ROWS,
        "what stands in front of decimals in CSV fields, a comma or a point; a comma is detected where "
        "semicolons separate fields",
        metavar="CHAR",
        choices=(",", "."),
    ),
    Flag(
        "data.columns",
        _ROWS,
        "names of the columns of a table without a header row",
        metavar="NAME",
        takes_several=True,
    ),
    Flag("data.file_format", _ROWS, "format of the table, such as csv or parquet, whatever its name ends in"),
    Flag("data.rows", _ROWS, "read only the first N rows of each table", metavar="N", type=int),
    Flag("data.max_length", _ROWS, "maximum number of tokens read per text", default=256, metavar="N", type=int),
    Flag(
        "data.attributes", _ATTRIBUTES, "columns with one value per row", default=(), metavar="COL", takes_several=True
    ),
    Flag(
        "data.values",
        _ATTRIBUTES,
        "tables that describe the values of attributes",
        default={},
        metavar="COL=FILE",
        takes_several=True,
    ),
    Flag("data.shuffled", _ATTRIBUTES, "control: shuffle the attributes over the rows", default=False, is_switch=True),
    Flag(
        "task.kind",
        _MODEL,
        "classification, rating, ordinal, regression, aspects, preference (which of two texts), similarity "
        "(of two texts), tags (of words), spans (answers in a text), or generation (learns to write the "
        "text)",
        name="task",
        otherwise="classification for one label column, aspects for several",
    ),
    Flag(
        "method.name",
        _MODEL,
        "a method, or a sum such as a+b; `attribune methods` lists them; train also takes `auto`, which "
        "compares several",
        name="method",
        default="injector",
    ),
    Flag(
        "backbone.tuning",
        _MODEL,
        "which part of the backbone is trained: frozen, full, layernorm, bias, attention, feed_forward, "
        "top_N, lora[:q,v[:RANK]], or a sum of these",
        otherwise="that of the method",
    ),
    Flag(
        "backbone.name",
        _MODEL,
        "pretrained model, or one without pretraining: cnn, tang-cnn, bilstm, bilstm-cnn, hierarchical",
        name="backbone",
        default="sentence-transformers/all-MiniLM-L6-v2",
        metavar="NAME_OR_DIR",
    ),
    Flag(
        "transfer.run",
        _MODEL,
        "run or model whose attribute parameters are taken, frozen unless transfer.frozen is false",
        name="init_attributes",
        default=...,
        metavar="RUN",
    ),
    Flag("training.epochs", _TRAINING, "maximum number of epochs", default=5, metavar="N", type=float),
    Flag("training.batch_size", _TRAINING, "rows per batch", default=32, metavar="N", type=int),
    Flag(
        "training.learning_rate",
        _TRAINING,
        "peak learning rate of the method and the classifier",
        default=0.0005,
        metavar="X",
        type=float,
    ),
    Flag(
        "training.seed",
        _TRAINING,
        "seed of initialisation, batches and split",
        default=0,
        also="data.split.seed",
        metavar="N",
        type=int,
    ),
    Flag(
        "training.report_to",
        _TRAINING,
        "experiment trackers: tensorboard, wandb, mlflow, ...",
        default=(),
        metavar="NAME",
        takes_several=True,
    ),
    Flag("method.trials", NETWORKS, "for the method automl: networks to try", metavar="N", type=int),
    Flag("method.minutes", NETWORKS, "for the method automl: time for the trials, in minutes", metavar="N", type=float),
)

FLAGS: Mapping[str, Flag] = MappingProxyType({flag.path: flag for flag in _DECLARED})
"""The settings by their paths, in the order of the help."""

SETTINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {flag.name: (flag.path, flag.also) if flag.also else (flag.path,) for flag in _DECLARED}
)
"""The settings behind each argument."""
