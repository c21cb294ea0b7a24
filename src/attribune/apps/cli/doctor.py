"""Check the installation: versions, hardware, problems with their cures.

Show versions, extras, hardware, the device and precision that a training would use, the default backbone, the free
space of the folders that are written to, and problems with their cures. The exit code is 0 unless a problem makes the
library unusable.

Examples:
  attribune doctor
  attribune doctor --json > machine.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import show, show_json
from attribune.core.threads import find_busy_machine
from attribune.errors import ConfigError

if TYPE_CHECKING:
    from attribune.apps.doctor import Examination, Package

__all__ = ["add_parser"]


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "doctor", __doc__, run=_run)
    add_shared(parser, "--json")


def _run(options: argparse.Namespace) -> None:
    from attribune.apps.doctor import examine

    examination = examine()
    if options.json:
        show_json(_tree(examination))
    else:
        show("\n".join(_lines(examination)))
    if not examination.usable:
        fatal = sum(problem.fatal for problem in examination.problems)
        raise ConfigError(f"the library cannot be used here: {fatal} of the problems above must be fixed first")


def _tree(examination: Examination) -> dict[str, Any]:
    """Return the examination as JSON values, with what follows from them."""
    tree = asdict(examination) | {"usable": examination.usable}
    tree["packages"] = _with_states(examination.packages)
    for extra, branch in zip(examination.extras, tree["extras"], strict=True):
        branch |= {"packages": _with_states(extra.packages), "installed": extra.installed, "install": extra.install}
    return tree


def _with_states(packages: Sequence[Package]) -> list[dict[str, Any]]:
    return [asdict(package) | {"state": package.state} for package in packages]


def _lines(examination: Examination) -> Iterator[str]:
    versions = examination.versions
    yield f"attribune {versions['attribune']}, Python {versions['python']} ({versions['interpreter']})"
    machine, used = examination.machine, examination.used
    hardware = [
        ("system", machine["system"]),
        ("cores", _cores(machine)),
        *_load(machine),
        *_memory(machine),
        *_gpus(machine),
    ]
    yield from _block("machine", hardware)
    backbone = used["backbone"] or {"name": "not known", "path": None}
    yield from _block(
        "a training here uses",
        [
            ("device", used["device"]),
            ("threads", _threads(used["threads"])),
            ("precision", _PRECISIONS.get(used["precision"], "not known")),
            ("backbone", f"{backbone['name']}, unless another is named"),
            ("weights", backbone["path"] or "not on this machine: taken from the hub when they are first used"),
        ],
    )
    packages = {
        package.name: f"{package.version or '-'}{_unless_ok(package.state)}" for package in examination.packages
    }
    extras = {
        extra.name: f"{extra.purpose}: {'installed' if extra.installed else extra.install}"
        for extra in examination.extras
    }
    folders = {
        folder.use: f"{folder.path}, {folder.error or f'{folder.free:,.1f} GB free'}" for folder in examination.folders
    }
    yield from _block("packages", list(packages.items()))
    yield from _block("extras", list(extras.items()))
    yield from _block("folders", list(folders.items()))
    yield from _block("variables", list(examination.environment.items()) or [("none", "")])
    yield ""
    if not examination.problems:
        yield "no problem found"
    for problem in examination.problems:
        yield f"{'FATAL' if problem.fatal else 'problem'}: {problem.what}\n  cure: {problem.cure}"


def _threads(threads: int | None) -> str:
    if threads is None:
        return "not known"
    busy = find_busy_machine(threads)
    return str(threads) if busy is None or busy.cure is not None else f"{threads}: {busy}"


_PRECISIONS = {
    "bf16": "bf16, which this processor computes in",
    "float32": "float32; this processor does not compute in bf16",
}


def _block(title: str, lines: list[tuple[str, Any]]) -> Iterator[str]:
    width = max((len(name) for name, _ in lines), default=0)
    yield f"\n{title}"
    for name, value in lines:
        yield f"  {name:{width}}  {value}".rstrip()


def _cores(machine: dict[str, Any]) -> str:
    quota = machine["quota_cores"]
    return f"{machine['cores']}{'' if quota is None else f', with a quota of {quota:g}'}"


def _load(machine: dict[str, Any]) -> list[tuple[str, str]]:
    load = machine["load"]
    return [] if load is None else [("load", f"{load:.1f} cores busy")]


def _memory(machine: dict[str, Any]) -> list[tuple[str, str]]:
    shown = [
        f"{value:.1f} GB{word}"
        for key, word in (("total", ""), ("limit", " is the container's limit"), ("available", " available now"))
        if (value := machine["memory_gb"][key]) is not None
    ]
    return [("memory", ", ".join(shown) or "not known")]


def _gpus(machine: dict[str, Any]) -> list[tuple[str, str]]:
    shown = [
        (f"GPU {number}", f"{gpu['name']}, {gpu['memory_gb']:.1f} GB, compute capability {gpu['capability']}")
        for number, gpu in enumerate(machine["gpus"])
    ]
    return shown or [("GPU", "none that PyTorch can use")]


def _unless_ok(state: str) -> str:
    return "" if state == "ok" else f" ({state})"
