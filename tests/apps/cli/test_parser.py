"""The parser: short errors with what was meant, help without a verb, colours on terminals alone, true defaults."""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from commands import Outcome

from attribune.apps.cli import build_parser
from attribune.apps.cli.parser import VerbParser, _shows_colours
from attribune.errors import ConfigError
from attribune.runs.recipe import Recipe
from attribune.runs.settings_tree import SETTINGS

DATA = {"train": "rows.csv", "text": "text", "label": "stars", "attributes": ["user"]}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["trian"], "attribune: error: argument VERB: invalid choice: 'trian'; did you mean 'train'?"),
        (["data", "judgments"], "error: argument ACTION: invalid choice: 'judgments'; did you mean 'judgements'?"),
        (["train", "--output", "o", "--txt=a"], "error: unrecognized arguments: --txt=a; did you mean '--text'?"),
        (["train", "--output", "o", "--presset", "a"], "unrecognized arguments: --presset; did you mean '--preset'?"),
        (["methods", "-zzz"], "attribune methods: error: unrecognized arguments: -zzz"),
        (["train"], "attribune train: error: the following arguments are required: --output"),
        (["predict", "r", "d", "--quantise", "int9"], "invalid choice: 'int9'; did you mean 'int8'?"),
        (["completion", "dash"], "invalid choice: 'dash'; did you mean 'bash'?"),
        (["completion", "x"], "invalid choice: 'x' (choose from bash, zsh, fish, tcsh)"),
    ],
)  # fmt: skip
def test_wrong_words_are_two_lines(words: list[str], error: str, attribune: Callable[..., Outcome]) -> None:
    code, out, err = attribune(*words)
    first, second = err.splitlines()
    assert (code, out, first.endswith(error)) == (2, "", True), first
    assert re.fullmatch(r"See `attribune[\w ]* --help`\.", second)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"trainng": {"epochs": 3}}, "trainng: there is no such setting; did you mean 'training'?"),
        ({"training": {"epoch": 3}}, "training.epoch: there is no such setting; did you mean 'training.epochs'?"),
        ({"epochs": 3}, "epochs: there is no such setting; did you mean 'training.epochs'?"),
        ({"data": {**DATA, "zzz": 3}}, "data.zzz: there is no such setting\n"),
        ({"method": {"name": "injector", "bottlenek": 3}}, "did you mean 'bottleneck'?"),
        ({"method": {"name": "injecter"}}, "'injecter'; did you mean 'injector'? Choose one of none, adapter"),
        ({"task": {"kind": "clasification"}}, "did you mean 'classification'?"),
    ],
)  # fmt: skip
def test_settings_methods_and_tasks_are_suggested(settings: dict[str, object], hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Recipe.from_dict({"data": DATA, **settings})
    assert hint in f"{caught.value}\n"


def test_without_a_verb_there_is_help(attribune: Callable[..., Outcome]) -> None:
    for words, usage in (([], "attribune VERB"), (["data"], "attribune data ACTION"), (["-q"], "attribune VERB")):
        code, out, err = attribune(*words)
        assert (code, out.startswith(f"usage: {usage} [options]\n"), err) == (0, True, "")


def test_every_verb_is_under_a_title() -> None:
    parser = build_parser()
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    assert list(parser.verb_groups) == list(verbs.choices)
    assert "\nactions:" not in parser.format_help()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_of_users_who_want_them() -> None:
    assert _shows_colours(Terminal(), {"TERM": "xterm"})
    assert not _shows_colours(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"})
    assert not _shows_colours(Terminal(), {"TERM": "dumb"})
    assert not _shows_colours(io.StringIO(), {"TERM": "xterm"})


def test_colours_change_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    parser = build_parser()
    parser.print_help(screen := Terminal())
    text = screen.getvalue()
    assert "\x1b[1mtrain and measure:\x1b[0m" in text
    assert "  \x1b[36mtrain\x1b[0m  " in text
    assert re.sub("\x1b\\[[0-9;]*m", "", text) == parser.format_help()


def test_a_setting_is_switched_off_by_a_word_of_its_own() -> None:
    words = ["train", "x.csv", "--output", "o"]
    for more, value in ([], None), (["--no-blend"], "never"), (["--blend", "auto"], "auto"):
        assert build_parser().parse_args([*words, *more]).blend == value
    with pytest.raises(SystemExit):
        build_parser().parse_args([*words, "--blend", "always", "--no-blend"])


def test_the_defaults_in_the_help_are_those_of_a_recipe() -> None:
    recipe = Recipe.from_dict({"data": DATA})
    (verbs,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    train: VerbParser = verbs.choices["train"]
    named = {
        action.dest: match[1]
        for action in train._actions
        if (match := re.search(r"\(default: ([^ ]+)\)$", action.help or "")) and action.dest in SETTINGS
    }
    assert set(named) == {"method", "backbone", "batch_size", "learning_rate", "seed", "blend"}
    settings = recipe.model_dump()
    for dest, default in named.items():
        value: Any = settings
        for step in SETTINGS[dest][0].split("."):
            value = value[step]
        assert default == (value if isinstance(value, str) else f"{value:g}")
