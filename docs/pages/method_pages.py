"""What the pages of methods/ say that follows from the code: what each method does, where it acts, and its options.

A page may have several methods; of the later ones, it shows what differs from the first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import attribune
from attribune.apps.cli.methods import described
from attribune.backbones.families import PLACEMENTS
from attribune.backbones.placement import Placement
from attribune.errors import ConfigError
from attribune.methods import METHODS, MethodConfig, check_gives_vectors
from attribune.models.baselines import BASELINES, BaselineConfig
from attribune.tasks import Task
from attribune.tasks.capabilities import LINEAR, can
from pages.capabilities import TASKS
from pages.cells import table
from pages.counts import count_of
from pages.equations import FUNCTIONS, callers

Settings = type[MethodConfig] | type[BaselineConfig]

PAGES = sorted((Path(__file__).parents[1] / "methods").glob("*.md"))
ALL: dict[str, Settings] = {**METHODS, **BASELINES}
LIBRARY = [name for name, settings in ALL.items() if settings.__module__.startswith("attribune.")]
LAB = [name for name in ALL if name not in LIBRARY]
ON_PAGE = {
    page.name: [name for name in re.findall(r"^<!-- (\S+) -->$", page.read_text(encoding="utf-8"), re.M) if name in ALL]
    for page in PAGES
}
POINTS = {
    "text": "the text, before it is split into tokens",
    "embed": "the embeddings of the tokens",
    "sites": "sites inside the layers of the backbone",
    "encode": "the last states of the backbone",
    "pool": "the pooling of the states into the document vector",
    "classify": "the classifier",
}
TUNINGS = {"full": "fine-tuned", "frozen": "frozen", "layernorm": "frozen except for its norms"}
SHORT = {"first_layer": "the first layer in which the method acts, from 0"}  # of options that many methods have
PLAIN = [name.removeprefix("word-") for row in PLACEMENTS for name in row.model_types if name.startswith("word-")]
WRITING = {"sites", "embed"}  # the points that a model that writes has


def block(name: str, first: str) -> list[str]:
    """What a page says of a method, after that of the first one of the page."""
    about = described(ALL[name])
    facts = list(_facts(ALL[name]))
    rows = [
        [f"`{option}`", f"`{default}`", SHORT.get(option, meaning.rstrip("."))]
        for option, default, meaning in about.options
    ]
    if name != first:
        others = list(_facts(ALL[first]))
        facts = [fact for fact in facts if fact not in others]
        shared = [[f"`{option}`", f"`{default}`"] for option, default, _ in described(ALL[first]).options]
        if rows and {row[0] for row in rows} == {row[0] for row in shared}:
            rows = [row for row in rows if row[:2] not in shared]
            facts.append(f"**Options**: those of `{first}`, with {'these' if rows else 'its'} defaults.")
    parts = [about.text.splitlines(), [f"- {fact}" for fact in facts]]
    parts.append(table(["option", "default", "meaning"], rows, words=range(3)) if rows else [])
    lines = [line for part in parts if part for line in ("", *part)]
    return lines[1:]


def _facts(settings: Settings) -> Iterator[str]:
    """Where a method acts, what learns, what refuses it, its class and its functions."""
    if issubclass(settings, MethodConfig):
        if settings.points:
            yield f"**Acts at**: {' and '.join(POINTS[point] for point in settings.points)}."
        yield f"**Backbone**: {TUNINGS[settings.default_tuning]} by default."
        if not settings.uses_attributes:
            yield "**Attributes**: not read."
        elif not settings.reads_descriptions:
            yield "**Attributes**: read without their [descriptions](../new_values.md#described-values)."
        yield from _limits(settings)
    if tasks := dict.fromkeys(f"`{task.kind}`" for task in TASKS.values() if not _can_learn(settings, task)):
        yield f"**Not for the tasks**: {', '.join(tasks)}."
    if (count := count_of(settings.name)) is not None:
        yield f"**Parameters** on BERT-base with two attributes: {count}."
    if settings.__name__ in attribune.__all__:
        yield f"**Class**: [`attribune.{settings.__name__}`](../api/methods.md)."
    if functions := _functions(settings):
        yield f"**[Equations](../equations.md)**: {', '.join(f'`{name}`' for name in functions)}."


def _limits(settings: type[MethodConfig]) -> Iterator[str]:
    """The backbones on which a method cannot act, or, where these are most, those on which it can."""
    refused: dict[str | None, list[str]] = {}
    for row in PLACEMENTS:
        names = [name.removeprefix("word-") for name in row.model_types]
        refused.setdefault(_refusal(settings(), row), []).extend(names)
    able = refused.pop(None)
    for reason, families in refused.items():
        if len(families) > len(able):
            yield f"**Only on** {_named(able)}: {str(reason).replace('these backbones', 'others')}."
        else:
            yield f"**Not on** {_named(families)}: {reason}."
    if settings.stands_alone:
        yield "**Not in sums** of methods."


def _named(families: list[str]) -> str:
    """The families, those without pretraining in one phrase where all of them are meant."""
    others = [f"`{name}`" for name in families if name not in PLAIN]
    if set(PLAIN) <= set(families):
        return ", ".join([*others, "[backbones without pretraining](../backbones.md#without-pretraining)"])
    return ", ".join(f"`{name}`" for name in families)


def _refusal(method: MethodConfig, row: Placement) -> str | None:
    """Why a method cannot act in a family, without its name and the cure."""
    refusal = method.refusal(row)
    if refusal is None:
        return None
    reason = refusal.partition(": ")[2].rpartition(": ")[0]
    if row.no_extra_attention is not None and row.no_extra_attention in reason:
        return row.no_extra_attention
    return re.sub(r"backbones of type [\w-]+(?: or [\w-]+)*", "these backbones", reason)


def _can_learn(settings: Settings, task: Task) -> bool:
    """Whether a method can be trained for a task."""
    if issubclass(settings, BaselineConfig):
        return can(task, LINEAR)
    if task.kind == "generation":
        return WRITING.issuperset(settings.points)
    try:
        task.input.check_method(settings(), task=task.kind)
        if not task.head.outputs:
            check_gives_vectors(settings(), task=task.kind)
    except ConfigError:
        return False
    return True


def _functions(settings: Settings) -> list[str]:
    """The functions that the file of a method calls, and those of its base classes and parts."""
    source = inspect.getsource(inspect.getmodule(settings))  # type: ignore[arg-type]
    parts = set(re.findall(r"^from (attribune(?:_lab)?\.methods\.\w+) import", source, re.M))
    parts -= {other.__module__ for other in METHODS.values()}
    places = {module.removeprefix("attribune.") for module in parts | {base.__module__ for base in settings.__mro__}}
    return [
        name for name in FUNCTIONS if any(caller.strip("`").rpartition(".")[0] in places for caller in callers(name))
    ]


def overview(names: list[str], folder: str) -> list[str]:
    """Methods with links to their pages, what they do, and what of the backbone learns."""
    rows = [
        [f"[`{name}`]({folder}{_place(name)})", described(ALL[name]).text.split("\n\n")[0], _backbone(ALL[name])]
        for name in names
    ]
    return table(["`--method`", "what it does", "backbone"], rows, words=range(3))


def _backbone(settings: Settings) -> str:
    if issubclass(settings, MethodConfig):
        return TUNINGS[settings.default_tuning]
    return "frozen" if settings.reads_vectors else "none"


def _place(name: str) -> str:
    """The page of a method, and its heading if it is not alone there."""
    for page, names in ON_PAGE.items():
        if name in names:
            return page if names == [name] else f"{page}#{name}"
    raise ValueError(f"no page in docs/methods has the method {name!r}: write one with the lines '<!-- {name} -->'")
