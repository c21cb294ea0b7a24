"""Settings and calls in the words of the door."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_methods import needs_lab

import attribune
from attribune.apps.cli import build_parser
from attribune.apps.cli.door import CommandLine
from attribune.core.door import as_argument, as_attribute, as_call, called, opened_command_line
from attribune.runs.recipe import Recipe

SOURCE = Path(attribune.__file__).parent
FLAG = re.compile(r"(^|[^\w-])--[a-z]")
WORDS_OF_A_COMMAND = re.compile(r"--[a-z-]+")
NO_MESSAGES = (
    *("pip install --no-deps", "# attribune train --config", " --output RUN\n"),
    *("`attribune ", "`--method auto`"),
)
"""Of another program, of a comment in a file, and of a table of the documentation."""
OF_PYTHON_ALONE = {"part_rows"}


@contextmanager
def at(verb: str) -> Iterator[None]:
    parser = build_parser()
    with opened_command_line(CommandLine(parser, parser.parse_args(verb.split()))):
        yield


CASES: list[tuple[str, tuple[Any, ...], str]] = [
    ("check t.csv", ("data.encoding", "latin-1"), "--encoding latin-1"),
    ("check t.csv", ("data.quoting", False), "--quoting none"),
    ("check t.csv", ("data.missing", ["", "n/a"]), "--missing '' n/a"),
    ("train t.csv --output r", ("task.missing", ["", "n/a"]), '--set \'task.missing=["", "n/a"]\''),
    ("train t.csv --output r", ("data.text_pair",), "--text-pair"),
    ("train t.csv --output r", ("task.kind", "rating"), "--task rating"),
    ("train t.csv --output r", ("backbone.name", "a folder"), "--backbone 'a folder'"),
    ("train t.csv --output r", ("training.precision", "float32"), "--set training.precision=float32"),
    ("train t.csv --output r", ("resume", True), "--resume"),
    ("train t.csv --output r", ("transfer.run", "runs/a"), "--init-attributes runs/a"),
    ("train t.csv --output r", ("method.trials", 3), "--trials 3"),
    ("train t.csv --output r", ("method.name", "none"), "--method none"),
    ("check t.csv", ("transfer.run", "runs/a"), "`attribune train --init-attributes runs/a`"),
    ("evaluate r", ("data.bad_labels", "drop"), "`attribune train --set data.bad_labels=drop`"),
    ("export r", ("kind", "onnx"), "--format onnx"),
    ("export r", ("assignments",), "--for"),
    ("data judgements t.csv --output o.csv", ("judge",), "--judge"),
]


@pytest.mark.parametrize(("verb", "given", "words"), CASES)
def test_a_command_has_its_own_flags_and_else_names_the_command_that_has_one(
    verb: str, given: tuple[Any, ...], words: str
) -> None:
    with at(verb):
        assert as_argument(*given) == words
    assert "--" not in as_argument(*given)


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["encoding"], ("data.encoding", "latin-1"), "encoding='latin-1'"),
        (["settings"], ("data.encoding", "latin-1"), "settings={'data.encoding': 'latin-1'}"),
        (["settings"], ("data.encoding",), "settings={'data.encoding': ...}"),
        (["task", "settings"], ("task.kind", "rating"), "task='rating'"),
        (["run"], ("data.bad_labels", "drop"), "`train(..., settings={'data.bad_labels': 'drop'})`"),
        (["run"], ("resume", True), "resume=True"),
    ],
)
def test_a_function_has_its_own_arguments_and_else_names_the_function_that_has_one(
    arguments: list[str], given: tuple[Any, ...], words: str
) -> None:
    with called(arguments), called(["another", "that", "is", "called", "inside"]):
        assert as_argument(*given) == words


def test_calls_and_kinds_of_attributes() -> None:
    assert as_call("train", resume=True) == "`train(..., resume=True)`"
    both = {"task.multi_label": True, "task.separator": "|"}
    assert as_call("train", **both) == "`train(..., settings={'task.multi_label': True, 'task.separator': '|'})`"
    assert as_call("train", label=...) == "`train(..., label=...)`"
    assert as_attribute("multi_label", "tags", ";") == "MultiLabel('tags', separator=';')"
    with at("check t.csv"):
        assert as_call("train", resume=True) == "`attribune train --resume`"
        assert as_call("read_judgements", label="mood") == "`attribune data judgements --label mood`"
        assert as_attribute("multi_label", "tags", ";") == "--multi-label 'tags:;'"
        assert as_attribute("categorical", "user") == "--attributes user"


def test_a_command_is_the_door_of_its_threads_too() -> None:
    found: list[str] = []
    with at("check t.csv"):
        thread = threading.Thread(target=lambda: found.append(as_argument("data.encoding")))
        thread.start()
        thread.join()
    assert found == ["--encoding"]


def texts_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string, but for docstrings and words of a command that is put together."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def test_no_message_outside_the_apps_names_a_flag() -> None:
    """What stands at the command line alone is said by `as_argument`, which knows where the user stands."""
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if "apps" not in path.relative_to(SOURCE).parts[:1] and path != SOURCE / "core" / "flags.py"
        for line, text in texts_of(ast.parse(path.read_text(encoding="utf-8")))
        if FLAG.search(text) and not WORDS_OF_A_COMMAND.fullmatch(text) and not any(one in text for one in NO_MESSAGES)
    ]
    assert found == []


def named_settings() -> set[str]:
    """Return the names that the source gives to `as_argument` as they stand."""
    return {
        node.args[0].value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "as_argument"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


@needs_lab
def test_the_names_in_messages_are_settings_or_flags() -> None:
    fields = {
        f"{group}.{name}"
        for group in ("data", "backbone", "training")
        for name in Recipe.model_fields[group].annotation.model_fields  # type: ignore[union-attr]
    } | {"data.split.folds", "task.classes", "task.kind", "task.missing", "task.multi_label", "task.separator"}
    parser = build_parser()
    verbs = [*parser.verb_groups, "data judgements", "data prepare"]
    flags = [parser.parser_of_words(verb.split()) for verb in verbs]
    names = named_settings()
    assert len(names) > 20
    for name in names - OF_PYTHON_ALONE:
        assert name in fields if "." in name else any(one.flag_of(name) for one in flags), name
