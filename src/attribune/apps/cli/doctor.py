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
from collections.abc import Iterator, Mapping
from typing import Any

from attribune.apps.cli.arguments import add_shared, add_verb
from attribune.apps.cli.output import show, show_json
from attribune.core.threads import find_busy_machine
from attribune.errors import ConfigError

_PRECISIONS = {
    "bf16": "bf16, which this processor computes in",
    "float32": "float32; this processor does not compute in bf16",
}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "doctor", __doc__, run=_run)
    add_shared(parser, "--json")


def _run(options: argparse.Namespace) -> None:
    from attribune.apps.doctor import examine

    found = examine()
    if options.json:
        show_json(found)
    else:
        show("\n".join(_lines(found)))
    if not found["usable"]:
        fatal = sum(problem["fatal"] for problem in found["problems"])
        raise ConfigError(f"the library cannot be used here: {fatal} of the problems above must be fixed first")


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    versions, used = found["versions"], found["used"]
    yield f"attribune {versions['attribune']}, Python {versions['python']} ({versions['interpreter']})"
    backbone = used["backbone"] or {"name": "not known", "path": None}
    blocks = {
        "machine": _machine(found["machine"]),
        "a training here uses": {
            "device": used["device"],
            "threads": _threads(used["threads"]),
            "precision": _PRECISIONS.get(used["precision"], "not known"),
            "backbone": f"{backbone['name']}, unless another is named",
            "weights": backbone["path"] or "not on this machine: taken from the hub when they are first used",
        },
        "packages": {
            one["name"]: (one["version"] or "-") + ("" if one["state"] == "ok" else f" ({one['state']})")
            for one in found["packages"]
        },
        "extras": {
            one["name"]: f"{one['purpose']}: {'installed' if one['installed'] else one['install']}"
            for one in found["extras"]
        },
        "folders": {
            one["use"]: f"{one['path']}, " + (one["error"] or f"{one['free']:,.1f} GB free") for one in found["folders"]
        },
        "variables": found["environment"] or {"none": ""},
    }
    for title, values in blocks.items():
        yield f"\n{title}"
        width = max(map(len, values), default=0)
        yield from (f"  {name:{width}}  {value}".rstrip() for name, value in values.items())
    yield ""
    if not found["problems"]:
        yield "no problem found"
    for problem in found["problems"]:
        yield f"{'FATAL' if problem['fatal'] else 'problem'}: {problem['what']}\n  cure: {problem['cure']}"


def _machine(machine: Mapping[str, Any]) -> dict[str, str]:
    quota, load = machine["quota_cores"], machine["load"]
    memory = [
        f"{value:.1f} GB{word}"
        for key, word in (("total", ""), ("limit", " is the container's limit"), ("available", " available now"))
        if (value := machine["memory_gb"][key]) is not None
    ]
    gpus = {
        f"GPU {number}": f"{gpu['name']}, {gpu['memory_gb']:.1f} GB, compute capability {gpu['capability']}"
        for number, gpu in enumerate(machine["gpus"])
    }
    return {
        "system": machine["system"],
        "cores": f"{machine['cores']}{'' if quota is None else f', with a quota of {quota:g}'}",
        **({} if load is None else {"load": f"{load:.1f} cores busy"}),
        "memory": ", ".join(memory) or "not known",
        **(gpus or {"GPU": "none that PyTorch can use"}),
    }


def _threads(threads: int | None) -> str:
    if threads is None:
        return "not known"
    busy = find_busy_machine(threads)
    return str(threads) if busy is None or busy.cure is not None else f"{threads}: {busy}"
