"""``attribune doctor``: what is installed, what would be used, and what is wrong."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from attribune.cli.output import show

if TYPE_CHECKING:
    from attribune.doctor import Examination

__all__ = ["add_parser"]

_EXAMPLES = """examples:
  attribune doctor
  attribune doctor --json > machine.json"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "doctor",
        help="what is installed, what would be used, and what is wrong",
        description="Versions, extras, hardware, the device and precision that a training would use, the default "
        "backbone, folders with their room, and problems with their cures. The exit code is 0 unless a problem makes "
        "the library unusable.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    parser.set_defaults(run=_run, after_interrupt=lambda _: "")


def _run(options: argparse.Namespace) -> None:
    from attribune.doctor import examine
    from attribune.errors import ConfigError

    found = examine()
    show(json.dumps(_tree(found), indent=1) if options.json else "\n".join(_lines(found)))
    if not found.usable:
        fatal = sum(problem.fatal for problem in found.problems)
        raise ConfigError(f"the library cannot be used here: {fatal} of the problems above must be cured first")


def _tree(found: Examination) -> dict[str, Any]:
    tree = asdict(found)
    tree["packages"] = [asdict(package) | {"state": package.state} for package in found.packages]
    tree["extras"] = [
        {
            **asdict(extra),
            "packages": [asdict(package) | {"state": package.state} for package in extra.packages],
            "installed": extra.installed,
            "install": extra.install,
        }
        for extra in found.extras
    ]
    return tree | {"usable": found.usable}


def _lines(found: Examination) -> Iterator[str]:
    versions = found.versions
    yield f"attribune {versions['attribune']}, Python {versions['python']} ({versions['interpreter']})"
    machine, used = found.machine, found.used
    yield from _block(
        "machine", [("system", machine["system"]), ("cores", machine["cores"]), *_memory(machine), *_gpus(machine)]
    )
    backbone = used["backbone"] or {"name": "not known", "found": None}
    yield from _block(
        "a training here uses",
        [
            ("device", used["device"]),
            ("threads", used["threads"] or "not known"),
            ("precision", _PRECISIONS.get(used["precision"], "not known")),
            ("backbone", f"{backbone['name']}, unless another is named"),
            ("weights", backbone["found"] or "not on this machine: taken from the hub when they are first used"),
        ],
    )
    yield from _block(
        "packages",
        [(package.name, f"{package.version or '-'}{_unless_ok(package.state)}") for package in found.packages],
    )
    yield from _block(
        "extras",
        [
            (extra.name, f"{extra.purpose}: {'installed' if extra.installed else extra.install}")
            for extra in found.extras
        ],
    )
    yield from _block(
        "folders",
        [(folder.use, f"{folder.path}, {folder.error or f'{folder.free:,.1f} GB free'}") for folder in found.folders],
    )
    yield from _block("variables", list(found.environment.items()) or [("none", "")])
    yield ""
    if not found.problems:
        yield "no problem found"
    for problem in found.problems:
        yield f"{'FATAL' if problem.fatal else 'problem'}: {problem.what}\n  cure: {problem.cure}"


_PRECISIONS = {
    "bf16": "bf16, which this processor computes in",
    "float32": "float32; this processor does not compute in bf16",
}


def _block(title: str, lines: list[tuple[str, Any]]) -> Iterator[str]:
    width = max(len(name) for name, _ in lines)
    yield f"\n{title}"
    for name, value in lines:
        yield f"  {name:{width}}  {value}".rstrip()


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
