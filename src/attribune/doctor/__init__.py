"""What this machine offers, what a training would use of it, and what stands in the way.

At the top only the standard library is imported, and every other package is tried under guard: a broken installation is
what this is for.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from attribune.doctor.findings import Problem
from attribune.doctor.folders import Folder, look_into_folders, problems_of_folders
from attribune.doctor.machine import look_at_machine, look_at_use, problems_of_machine
from attribune.doctor.packages import (
    Extra,
    Package,
    look_at_packages,
    problems_of_extras,
    problems_of_own_modules,
    problems_of_packages,
)

__all__ = ["Examination", "examine"]

_VARIABLES = (
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TOKENIZERS_PARALLELISM", "TMPDIR"),
    *("WORLD_SIZE", "RANK", "RAY_ADDRESS", "ATTRIBUNE_LOG", "ATTRIBUNE_FUSED"),
)


@dataclass(frozen=True, kw_only=True)
class Examination:
    """What was found.

    Args:
        versions: of Attribune and Python, and where this Python is.
        packages: that the library needs.
        extras: optional packages.
        machine: operating system, cores, memory in gigabytes, GPUs.
        used: what a training would take: device, threads, precision, backbone.
        folders: that are written to.
        environment: variables that are set and change what the library does.
        problems: with their cures, the fatal ones first.
    """

    versions: dict[str, str]
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    machine: dict[str, Any]
    used: dict[str, Any]
    folders: tuple[Folder, ...]
    environment: dict[str, str]
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the library can be used."""
        return not any(problem.fatal for problem in self.problems)


def examine() -> Examination:
    """Look at packages, hardware, folders and variables; nothing found raises an error."""
    with _without_remarks():
        packages, extras = look_at_packages()
        problems = [*problems_of_packages(packages), *problems_of_extras(extras)]
        if not any(problem.fatal for problem in problems):
            problems += problems_of_own_modules()
        machine = look_at_machine()
        used = look_at_use(machine)
        folders = look_into_folders()
    problems += [*problems_of_machine(machine, used), *problems_of_folders(folders)]
    return Examination(
        versions={
            "attribune": metadata.version("attribune"),
            "python": platform.python_version(),
            "interpreter": sys.executable,
        },
        packages=packages,
        extras=extras,
        machine=machine,
        used=used,
        folders=folders,
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        problems=tuple(sorted(problems, key=lambda problem: not problem.fatal)),
    )


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Keep what packages say while they are imported out of the result, and their warnings off the screen."""
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield
