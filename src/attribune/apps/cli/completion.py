"""Write a script that completes verbs, flags and files in your shell.

Write the script to stdout. A new shell that loads it completes verbs, flags, files and folders.

Examples:
  attribune completion bash > ~/.local/share/bash-completion/completions/attribune
  attribune completion zsh > ~/.zfunc/_attribune
  attribune completion fish > ~/.config/fish/completions/attribune.fish
  attribune completion tcsh > ~/.attribune.csh

zsh needs fpath+=~/.zfunc before compinit in ~/.zshrc, tcsh needs source ~/.attribune.csh in ~/.tcshrc.
"""

from __future__ import annotations

import argparse
from typing import Any

from attribune.apps.cli.arguments import add_verb
from attribune.apps.cli.output import show

_SHELLS = ("bash", "zsh", "fish", "tcsh")  # those of shtab, which is not imported to read the flags
_FOLDERS = ("DIR", "RUN", "RUN_A", "RUN_B")
_FILES = ("DATA", "FILE", "NAME_OR_DIR", "PATH", "RECIPE", "TABLE")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "completion", __doc__, run=_run)
    parser.add_argument("shell", choices=_SHELLS, help="shell that loads the script")


def _run(options: argparse.Namespace) -> None:
    import shtab

    from attribune.apps.cli import build_parser

    parser = build_parser()
    _complete_files(parser)
    show(shtab.complete(parser, shell=options.shell))


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Mark every argument that takes a file or a folder, by its metavar, in the parser and its verbs."""
    import shtab

    for action in parser._actions:
        metavar = str(action.metavar)
        if metavar in _FOLDERS or metavar in _FILES:
            action.complete = shtab.DIRECTORY if metavar in _FOLDERS else shtab.FILE  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                _complete_files(verb)
