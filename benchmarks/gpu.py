"""Everything that only a GPU can tell, in under ten minutes: what agrees there, and how fast it is.

    python benchmarks/gpu.py [--parts steps graphs] [--minutes 10]
    python benchmarks/gpu.py --device cpu --small --output cpu.json

It needs one GPU, the packaged data and no network (`make gpu`). Each part of `gpu_parts` runs in a process of its own,
and the file is written after each: a part that fails or runs out of time says so in its place, and the others go on.
Parts that this device has given before are not run again unless they are named. With `--device cpu --small` the same
code runs at tiny shapes, to see that it works; its times say nothing. Writes benchmarks/results/gpu.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gpu_parts
import torch
from harness import arguments, child, write_result

LIMITS = {
    "agreement": 100,
    "steps": 120,
    "prediction": 80,
    "graphs": 40,
    "texts": 60,
    "compiled": 150,
    "serving": 170,
    "training": 120,
}  # seconds, in the order in which they run: more than ten minutes in all, since few parts should need theirs
SLOWER = 4  # times as many on a processor


def device_name(device: str) -> str:
    """What the figures depend on."""
    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def run(part: str, device: str, small: bool, limit: float) -> dict[str, Any]:
    """What a part finds in a process of its own, or why there is nothing."""
    started = time.perf_counter()
    try:
        found = child(getattr(gpu_parts, part), device, small, timeout=limit)
    except subprocess.TimeoutExpired:
        found = {"failed": f"not done in {limit:.0f} s"}
    except (subprocess.CalledProcessError, json.JSONDecodeError, IndexError) as error:
        found = {"failed": f"{error}; what it wrote is above"}
    return {"seconds": time.perf_counter() - started, **found}


def measured_before(file: Path, name: str) -> dict[str, Any]:
    """The parts that this device has given."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if known.get("device") != name or known["machine"]["torch"] != torch.__version__:
        return {}
    return {part: found for part, found in known["parts"].items() if "failed" not in found}


def main() -> None:
    parser = arguments(__doc__, "gpu")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to see that everything runs")
    parser.add_argument("--parts", nargs="+", choices=LIMITS, metavar="PART", help=", ".join(LIMITS))
    parser.add_argument("--minutes", type=float, default=10, metavar="N", help="that all parts may take; 10")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no GPU: run this where torch.cuda.is_available() is true, or with --device cpu --small")
    name, end = device_name(options.device), time.perf_counter() + 60 * options.minutes
    parts = measured_before(options.output, name)
    missing = [part for part in LIMITS if part not in parts]
    for part in options.parts or missing:
        left = end - time.perf_counter()
        if left < 1:
            parts[part] = {"failed": f"no time left of {options.minutes:g} minutes: run this again, it goes on"}
        else:
            limit = LIMITS[part] * (SLOWER if options.device == "cpu" else 1)
            print(f"{part}: begins", flush=True)
            parts[part] = run(part, options.device, options.small, min(limit, left))
        ordered = {part: parts[part] for part in LIMITS if part in parts}
        write_result(options.output, {"device": name, "small": options.small, "parts": ordered})
    failed = [part for part, found in parts.items() if "failed" in found]
    if failed:
        sys.exit(f"no figures of {', '.join(failed)}: see 'failed' in {options.output}")


if __name__ == "__main__":
    main()
