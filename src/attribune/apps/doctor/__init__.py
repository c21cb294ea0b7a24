"""Examination of an installation: packages, hardware, what a training would use, and problems with their cures.

At their top, the modules of this folder import only the standard library and packaging, without which `import
attribune` fails already; every other package may be broken, and is imported under guard.
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

from attribune.apps.doctor.findings import Problem
from attribune.apps.doctor.folders import Folder, inspect_folders, problems_of_folders
from attribune.apps.doctor.machine import inspect_machine, inspect_use, problems_of_machine
from attribune.apps.doctor.packages import (
    Extra,
    Package,
    inspect_packages,
    problems_of_extras,
    problems_of_own_modules,
    problems_of_packages,
)

__all__ = ["Examination", "examine"]

_VARIABLES = (
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TOKENIZERS_PARALLELISM"),
    *("TMPDIR", "WORLD_SIZE", "RANK", "RAY_ADDRESS", "ATTRIBUNE_LOG"),
)


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The result of an examination.

    Args:
        versions: of Attribune and Python, and the path of this Python.
        packages: required ones.
        machine: operating system, cores, memory in gigabytes, GPUs.
        used: device, threads, precision and backbone of a training.
        environment: variables that are set and change what the library does.
        problems: the fatal ones first.
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
    """Inspect packages, hardware, folders and variables; no problem raises an error."""
    with _silence():
        packages, extras = inspect_packages()
        problems = [*problems_of_packages(packages), *problems_of_extras(extras)]
        if not any(problem.fatal for problem in problems):
            problems += problems_of_own_modules()
        machine = inspect_machine()
        used = inspect_use(machine)
        folders = inspect_folders()
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
def _silence() -> Iterator[None]:
    """Keep what packages print while they are imported out of the result, and hide their warnings."""
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield
