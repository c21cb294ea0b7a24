"""``attribune train``: from a table to a trained, evaluated and saved model."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attribune.errors import ConfigError

if TYPE_CHECKING:
    from attribune.recipe import Recipe

__all__ = ["add_parser", "add_recipe_flags", "attribute_list", "recipe_of"]

_EXAMPLES = """examples:
  attribune train reviews.csv --text text --label stars --attributes user product --output runs/stars
  attribune train papers.jsonl --text title abstract --label accepted --multi-label authors areas:; --output runs/p
  attribune train reviews.csv --text text --label stars --attributes user --output runs/u --compare adapter none
  attribune train quotes.csv --task generation --text quote --attributes critic --backbone DIR --output runs/quotes
  attribune train --config runs/stars/recipe.yaml --set training.seed=1 --output runs/stars-1
  attribune train reviews.csv --text text --label stars --attributes user --output runs/stars --resume

The run folder holds recipe.yaml, model/, metrics.json, the predictions of the validation and test rows, and log.jsonl.
Every setting of the recipe can be given with --set, such as --set method.vector_size=128 data.split.by=time."""

_SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "train",
        help="train a model on a table of texts with attributes",
        description="Train a pretrained language model that reads the attributes of each text, see what the attributes "
        "bought, and save a few megabytes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_recipe_flags(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument(
        "--compare",
        **_SEVERAL,
        metavar="METHOD",
        default=[],
        help="methods to train as well; `shuffled` is the same on shuffled attributes",
    )
    parser.add_argument(
        "--no-baselines", dest="baselines", action="store_false", help="leave linear, attributes-only and majority out"
    )
    parser.add_argument("--profile", action="store_true", help="write where the time of some steps went to DIR/profile")
    parser.set_defaults(run=_run, after_interrupt=_after_interrupt)


def add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    """Add what `recipe_of` reads."""
    parser.add_argument("data", nargs="?", metavar="DATA", help="CSV, TSV, JSONL or Parquet file, or a name on the hub")
    parser.add_argument("--text", **_SEVERAL, metavar="COL", help="text column, or several that are joined")
    parser.add_argument("--label", **_SEVERAL, metavar="COL", help="label column; several with --task aspects")
    parser.add_argument("--prompt", **_SEVERAL, metavar="COL", help="columns read before the text that is written")
    parser.add_argument("--chat", action="store_true", default=None, help="prompt and text in the chat template")
    parser.add_argument("--attributes", **_SEVERAL, metavar="COL", help="columns with one value per row")
    parser.add_argument("--multi-label", **_SEVERAL, metavar="COL[:SEP]", help="columns with several values per row")
    parser.add_argument("--numeric", **_SEVERAL, metavar="COL", help="columns with numbers, cut into quantile bins")
    parser.add_argument("--validation", metavar="FILE", help="validation rows; cut from DATA unless given")
    parser.add_argument("--test", metavar="FILE", help="test rows; cut from DATA unless given")
    parser.add_argument("--encoding", help="of the files; found out unless given")
    parser.add_argument(
        "--task",
        help="classification, rating, regression, aspects, or generation, which learns to write the text (unless "
        "given: classification for one label column, aspects for several)",
    )
    parser.add_argument("--method", help="by name, or a sum such as a+b; `attribune methods` lists them")
    parser.add_argument(
        "--tuning",
        help="what of the backbone learns: frozen, full, layernorm, bias, attention, feed_forward, top_N, "
        "lora[:q,v[:RANK]], or a sum of these",
    )
    parser.add_argument("--backbone", metavar="NAME_OR_DIR", help="pretrained model (default: all-MiniLM-L6-v2)")
    parser.add_argument(
        "--init-attributes",
        metavar="RUN",
        help="attribute parameters of this run, kept as they are (--set transfer.frozen=false learns them further)",
    )
    parser.add_argument(
        "--continue",
        dest="goes_on",
        metavar="RUN",
        help="go on with the training of this run on other rows, with its recipe; new values and their rows are added",
    )
    parser.add_argument("--epochs", type=float, metavar="N")
    parser.add_argument("--batch-size", type=int, metavar="N")
    parser.add_argument("--learning-rate", type=float, metavar="X")
    parser.add_argument("--max-length", type=int, metavar="N", help="tokens of a text that are read")
    parser.add_argument("--seed", type=int, metavar="N", help="of initial values, batches and split")
    parser.add_argument("--recipe", metavar="NAME", help="settings of a paper: injectors-2022, ma-bert, e2ln, houlsby")
    parser.add_argument("--config", metavar="FILE", help="recipe in YAML, over which the flags are laid")
    parser.add_argument("--report-to", **_SEVERAL, metavar="NAME", help="trackers: tensorboard, wandb, mlflow, ...")
    parser.add_argument("--shuffled", action="store_true", default=None, help="control: deal the attributes out anew")
    parser.add_argument("--set", **_SEVERAL, metavar="KEY=VALUE", default=[], help="any setting of the recipe")


def recipe_of(options: argparse.Namespace) -> Recipe:
    """The recipe that the flags describe, over that of ``--config`` if there is one.

    Raises:
        ConfigError: with every error at once.
    """
    from attribune.recipe import Recipe, read_preset
    from attribune.settings import read_yaml

    settings: dict[str, Any] = {} if options.recipe is None else read_preset(options.recipe)
    if options.goes_on is not None:
        if options.recipe is not None or options.init_attributes is not None:
            raise ConfigError(
                "--continue takes the recipe and all that the run learned: leave --recipe and --init-attributes out"
            )
        _lay_over(settings, _recipe_to_go_on_with(options.goes_on))
    if options.config is not None:
        _lay_over(settings, read_yaml(options.config))
    flags = {
        "data.train": options.data,
        "data.text": options.text,
        "data.label": options.label,
        "data.prompt": options.prompt,
        "data.chat": options.chat,
        "data.attributes": attribute_list(options.attributes, options.multi_label, options.numeric) or None,
        "data.validation": options.validation,
        "data.test": options.test,
        "data.encoding": options.encoding,
        "data.max_length": options.max_length,
        "data.split.seed": options.seed,
        "data.shuffled": options.shuffled,
        "task.kind": options.task,
        "method.name": options.method,
        "backbone.name": options.backbone,
        "backbone.tuning": options.tuning,
        "transfer.run": options.init_attributes,
        "training.epochs": options.epochs,
        "training.batch_size": options.batch_size,
        "training.learning_rate": options.learning_rate,
        "training.seed": options.seed,
        "training.report_to": options.report_to,
    }
    if options.epochs is not None and isinstance(settings.get("training"), dict):
        settings["training"].pop("steps", None)
    data = settings.get("data")
    window = str(data.get("window", "")) if isinstance(data, dict) else ""
    if options.max_length is not None and ":" in window:
        raise ConfigError(
            f"--max-length {options.max_length}: the recipe's window {window!r} has sizes of its own; set another "
            "with --set data.window=..., or leave --max-length out"
        )
    for key, value in flags.items():
        if value is not None:
            _put(settings, key, value)
    for item in sorted(options.set, key=lambda item: not item.startswith("method.name=")):
        key, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write KEY=VALUE, such as training.weight_decay=0.1")
        _put(settings, key, _value(item, value))
    return Recipe.from_dict(settings)


def _run(options: argparse.Namespace) -> None:
    from attribune.cli.console import ConsoleReporter, quiet_libraries, results_text
    from attribune.cli.output import show
    from attribune.training.processes import is_main
    from attribune.training.run import train

    quiet_libraries()
    recipe = recipe_of(options)
    reporter = ConsoleReporter()
    results = train(
        recipe,
        options.output,
        others=options.compare,
        baselines=options.baselines,
        resume=options.resume,
        reporter=reporter,
        profile=options.profile,
    )
    if not is_main():
        return
    show(results_text(results))
    reporter.note(f"the run is in {options.output}")
    if options.profile:
        reporter.note(f"where the time went: {options.output}/profile/summary.md")


def _after_interrupt(options: argparse.Namespace) -> str:
    return f"; nothing finished is lost: the same command with --resume goes on in {options.output}"


def _recipe_to_go_on_with(run: str) -> dict[str, Any]:
    """The recipe of a run, for other rows."""
    from attribune.training.folder import RunFolder

    settings: dict[str, Any] = RunFolder(Path(run)).read_recipe().model_dump(mode="json")
    settings["data"] |= {"train": None, "validation": None, "test": None}
    settings["data"] = {key: value for key, value in settings["data"].items() if value is not None}
    return {**settings, "transfer": {"run": run, "frozen": False, "everything": True}}


def attribute_list(
    categorical: Sequence[str] | None, multi_label: Sequence[str] | None, numeric: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Attributes as a recipe has them, from the words after the flags."""
    listed: list[dict[str, Any]] = [{"kind": "categorical", "name": name} for name in categorical or ()]
    for item in multi_label or ():
        name, _, separator = item.partition(":")
        listed.append({"kind": "multi_label", "name": name, "separator": separator or None})
    return listed + [{"kind": "numeric", "name": name} for name in numeric or ()]


def _lay_over(settings: dict[str, Any], others: dict[str, Any]) -> None:
    """Put a tree of settings over another; the options of another method are not kept."""
    if _method_of(others) is not None and not _same_method(_method_of(settings), _method_of(others)):
        settings.pop("method", None)
    for key, value in others.items():
        if isinstance(value, dict) and isinstance(settings.get(key), dict):
            _lay_over(settings[key], value)
        else:
            settings[key] = value


def _put(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set one value; the options of another method are not kept."""
    if key == "method.name" and not _same_method(_method_of(settings), value):
        settings["method"] = {}
    tree = settings
    *path, last = key.split(".")
    for step in path:
        if step == "transfer" and tree.get(step) is None:
            tree[step] = {}  # the one group that a recipe may leave empty
        tree = tree.setdefault(step, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"{key}: {step!r} is not a group of settings: give it as a tree, see any recipe.yaml")
    tree[last] = value


def _value(item: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"--set {item}: the value is not YAML ({reason}): put text with special characters in quotes"
        ) from error


def _same_method(one: Any, other: Any) -> bool:
    from attribune.methods import DEFAULT_METHOD

    names = [[word.strip() for word in str(name or DEFAULT_METHOD).split("+")] for name in (one, other)]
    return names[0] == names[1]


def _method_of(settings: dict[str, Any]) -> Any:
    method = settings.get("method")
    return method.get("name") if isinstance(method, dict) else None
