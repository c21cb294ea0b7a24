"""The parser of a verb: short errors that name what was meant, and help that fits the terminal."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, NoReturn, TypeVar

from attribune.apps.cli.verbosity import add_verbosity
from attribune.core.flags import as_flag
from attribune.core.wording import did_you_mean

N = TypeVar("N")
_FLAGS = re.compile(r" (?=--)")
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"
_HEADING = re.compile(r"^(usage|[a-z][\w ,]*):(?=$| )", re.MULTILINE)
_NAME = re.compile(r"^  (-{1,2}[\w-]+(?:, --[\w-]+)?|[a-z][a-z-]*)(?=\s|$)", re.MULTILINE)


class VerbParser(argparse.ArgumentParser):
    """A parser whose verbs, and their verbs, all have ``--verbose`` and ``--quiet``.

    Without a verb it prints its help. `verb_groups` has a title for each verb, under which the help lists it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _HelpFormatter} | options)
        self.verb_groups: dict[str, str] = {}
        add_verbosity(self)

    def add_verbs(self, *, dest: str, metavar: str) -> Any:
        """Add verbs, and return that to which each is added."""
        self.set_defaults(run=lambda _: self.print_help(), after_interrupt="")
        return self.add_subparsers(dest=dest, metavar=metavar)

    def parse_args(self, args: Sequence[str] | None = None, namespace: N | None = None) -> Any:  # type: ignore[override]
        """Parse all words; an unknown one is an error of its verb."""
        options: Any
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self.parser_of(options)
            flags = [flag for flag, action in parser._option_string_actions.items() if _is_shown(action)]
            wrong = next((word for word in unknown if word.startswith("-")), "")
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{did_you_mean(wrong.partition('=')[0], flags)}")
        return options

    def error(self, message: str) -> NoReturn:
        """Exit with a short message instead of the usage of all flags."""
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")

    def format_help(self) -> str:
        """Return the help: usage, verbs by their groups, flags by theirs, examples."""
        formatter = self._get_formatter()
        formatter.add_usage(self._short_usage(), [], [])
        formatter.add_text(self.description)
        for title, actions in self._sections():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def print_help(self, file: IO[str] | None = None) -> None:  # type: ignore[override]
        """Print the help, with colours on a terminal unless NO_COLOR is set."""
        stream = sys.stdout if file is None else file
        text = self.format_help()
        stream.write(_coloured(text) if _shows_colours(stream) else text)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), known) or f" (choose from {', '.join(known)})"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")

    def parser_of(self, options: argparse.Namespace) -> VerbParser:
        """Return the parser of the verb that was given, and of its verb."""
        chosen: Any = None
        if (verbs := self.verbs) is not None:
            chosen = verbs.choices.get(getattr(options, verbs.dest, None) or "")
        found: VerbParser = self if chosen is None else chosen.parser_of(options)
        return found

    def parser_of_words(self, verb: Sequence[str]) -> VerbParser:
        """Return the parser of a verb, such as ``data judgements``, by its words."""
        found: Any = self
        for word in verb:
            found = found.verbs.choices[word]
        parser: VerbParser = found
        return parser

    def flag_of(self, name: str) -> str | None:
        """Return the flag that stands for an argument, such as ``--text-pair``; None where the verb has none."""
        flag = as_flag(name)
        known = self._option_string_actions
        if flag in known and _is_shown(known[flag]):
            return flag
        return next((one.option_strings[-1] for one in self._actions if one.dest == name and one.option_strings), None)

    @property
    def verbs(self) -> Any:
        """That to which verbs are added; None where there are none."""
        return next((one for one in self._actions if isinstance(one, argparse._SubParsersAction)), None)

    def _short_usage(self) -> str:
        """Return the usage with what has to be given, and the rest as options."""
        words = [self.prog]
        formatter = self._get_formatter()
        for action in sorted(self._actions, key=lambda action: bool(action.option_strings)):
            if isinstance(action, argparse._SubParsersAction):
                words.append(str(action.metavar))
            elif action.required or not action.option_strings:
                shown = formatter._format_args(action, action.dest.upper())
                words.append(" ".join([*action.option_strings[-1:], shown]))
        return " ".join([*words, "[options]"]).replace("%", "%%")

    def _sections(self) -> Iterable[tuple[str | None, list[argparse.Action]]]:
        """Return titles with verbs or flags, those that every parser has at the end."""
        sections: dict[str | None, list[argparse.Action]] = {}
        last: dict[str | None, list[argparse.Action]] = {}
        for group in self._action_groups:
            for action in group._group_actions:
                if isinstance(action, argparse._SubParsersAction):
                    for verb in action._choices_actions:
                        sections.setdefault(self.verb_groups.get(verb.dest, "actions"), []).append(verb)
                elif isinstance(action, argparse._HelpAction | argparse._VersionAction) or group.title == "messages":
                    last.setdefault("messages and help", []).append(action)
                else:
                    sections.setdefault(group.title, []).append(action)
        return [*sections.items(), *last.items()]


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps descriptions, notes and examples to the terminal; an example goes on in the next line after a backslash."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"max_help_position": 26} | options)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join("\n".join(_filled(paragraph, width)) for paragraph in text.split("\n\n"))


def _filled(paragraph: str, width: int) -> Iterable[str]:
    """Wrap sentences as text, and indented lines as commands."""
    sentence: list[str] = []
    for line in paragraph.splitlines():
        if not line.startswith(" "):
            sentence.append(line)
            continue
        yield from textwrap.wrap(" ".join(sentence), width, break_on_hyphens=False)
        sentence.clear()
        yield from [line] if len(line) <= width else _wrapped_command(line, width)
    yield from textwrap.wrap(" ".join(sentence), width, break_on_hyphens=False)


def _wrapped_command(line: str, width: int) -> Iterable[str]:
    """Break a command before its flags."""
    shown = " "
    for flag in _FLAGS.split(line.strip()):
        if len(shown) + len(flag) + 3 > width and shown.strip():
            yield f"{shown} \\"
            shown = "     "
        shown = f"{shown} {flag}"
    yield shown


def _is_shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS


def _shows_colours(stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream is a terminal that shows colours, for a user who wants them (no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def _coloured(text: str) -> str:
    text = _NAME.sub(rf"  {_CYAN}\1{_PLAIN}", text)
    return _HEADING.sub(rf"{_BOLD}\1:{_PLAIN}", text)
