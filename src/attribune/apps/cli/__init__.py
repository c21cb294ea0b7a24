"""The command line: one file per verb; messages on stderr, results on stdout, exit code 0 only on success."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Any, NoReturn

from attribune.apps.cli.door import CommandLine
from attribune.apps.cli.early import refuse_early
from attribune.apps.cli.parser import VerbParser
from attribune.apps.cli.verbosity import level_of
from attribune.core.door import opened_command_line
from attribune.core.logs import logging_to_stderr
from attribune.core.plugins import load_plugins
from attribune.core.process import OrderlyEnd, is_out_of_memory, require_addresses
from attribune.core.processes import is_main, refuse_processes
from attribune.core.threads import wait_passively
from attribune.core.wording import cure_of, one_line
from attribune.errors import AttribuneError

__all__ = ["build_parser", "main", "run"]

# Named as their verbs, but for words of Python, which a module of this package would hide here.
_MODULES = {
    "train and measure": ("check", "train", "search", "evaluate", "compare", "report"),
    "use a model": ("predict", "generate", "serve", "playground", "export"),
    "look into a run": ("describe", "explain", "ablate"),
    "new and removed values": ("enrol", "forget", "next_texts"),
    "methods, data and experiments": ("methods", "data"),
    "this installation": ("doctor", "completion"),
}
"""The modules of the verbs, under the titles of the help."""
_OF_PACKAGES = "methods, data and experiments"
"""The title of the verbs that packages bring."""
_IN_PROCESSES = ("train", "doctor")
"""The verbs that may be started in several processes."""
_INTERRUPTED = 130  # what a shell reports for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``attribune`` with the arguments, by default those of the process, and return its exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    with opened_command_line(CommandLine(parser, options)):
        return _run(options, parser.parser_of(options).prog)


def _run(options: argparse.Namespace, name: str) -> int:
    """Run a verb, whose errors begin with its name, and return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal may not be able to show a value
    try:
        with logging_to_stderr(level_of(options)):
            try:
                wait_passively()
                require_addresses()
                if options.verb not in _IN_PROCESSES:
                    refuse_processes(options.verb)
                refuse_early(options)
                options.run(options)
                sys.stdout.flush()
            finally:
                _leave_group()
    except AttribuneError as error:
        _write_error(f"{name}: error: {_items(str(error))}\n")
        return 1
    except KeyboardInterrupt:
        after = options.after_interrupt
        after = after.format(**vars(options)) if isinstance(after, str) else after(options)
        _write_error(f"\n{name}: interrupted{one_line(after)}\n")
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has exited; without this, Python raises again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        failure = _failure_of_the_system(error)
        if failure is None:
            raise
        _write_error(f"{name}: error: {one_line(failure)}\n")
        return 1
    return 0


def run() -> NoReturn:
    """Do what `main` does, and end this process with its exit code: the command ``attribune``."""
    end = OrderlyEnd()
    try:
        code = main()
    except SystemExit as error:  # of the parser of arguments
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        end.cancel()
        raise
    end.exit(code)


def build_parser() -> VerbParser:
    """Build the parser of all verbs."""
    parser = VerbParser(
        prog="attribune",
        description="Condition pretrained language models on the metadata of a text.",
        epilog="`attribune VERB --help` explains a verb, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"attribune {metadata.version('attribune')}")
    verbs = parser.add_verbs(dest="verb", metavar="VERB")
    for title, modules in _MODULES.items():
        for module in modules:
            import_module(f"attribune.apps.cli.{module}").add_parser(verbs)
            parser.verb_groups[next(reversed(verbs.choices))] = title
    for name, add in load_plugins("verbs", Callable).items():
        _add_verb_of_package(parser, name, add)
    return parser


def _add_verb_of_package(parser: VerbParser, name: str, add: Callable[[Any], None]) -> None:
    """Add what a package brings under ``attribune.verbs``: a verb, or by ``VERB.NAME`` actions of one of ours."""
    verb, _, actions = name.partition(".")
    verbs = parser.parser_of_words([verb] if actions else []).verbs
    if actions or verb not in verbs.choices:  # a package replaces none of ours
        add(verbs)
        parser.verb_groups.setdefault(verb, _OF_PACKAGES)


def _items(message: str) -> str:
    """Return a message for the terminal: one line, or one for each item of a list of errors."""
    return "\n  - ".join(map(one_line, message.split("\n  - ")))


def _write_error(text: str) -> None:
    """Write to stderr, in the first process alone of those that train together."""
    if is_main():
        sys.stderr.write(text)


def _leave_group() -> None:
    """Leave the group of processes that trained together; otherwise the interpreter aborts when it exits."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _failure_of_the_system(error: Exception) -> str | None:
    """Say what memory, disk or limit ran out; None for any other error."""
    # The tokenizers library raises a bare Exception for an error of the system, PyTorch a RuntimeError.
    is_bare = type(error) is Exception and re.search(r"\(os error \d+\)", str(error))
    if "Too many open files" in str(error):
        return (
            "too many files are open. Finished work is kept; raise the limit (ulimit -n 4096), or close other "
            "programs, and run again"
        )
    if isinstance(error, OSError) or is_bare:
        name = f"{error.filename}: " if isinstance(error, OSError) and error.filename else ""
        reason = (isinstance(error, OSError) and error.strerror) or error
        return f"{name}{reason}. Finished work is kept; {cure_of(error)}, then run again"
    if is_out_of_memory(error):
        reason = next(iter(str(error).strip().splitlines()), "")
        return (
            f"there is not enough memory{f' ({reason:.300})' if reason else ''}. Finished work is kept; lower "
            "batch_size, max_length or the sizes of the method, or use a machine with more memory"
        )
    return None
