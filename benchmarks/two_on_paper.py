"""The case of two_processes.py that was measured, beside what cluster_model.py says of it.

Its step has a batch of 32 rows, 16 for each of two processes with a core each. Two processes that share nothing are
started here to find what the model needs: how long each takes for 16 rows while the other does the same, and how many
bytes a second go through an all-reduce of gloo between them. What two processes that train together take is then the
slower of two such steps, the all-reduce, and the table's vectors. Nothing of it is fitted to the measured step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from cluster_model import NUMBER, Profile, timed
from scaling import Point, Training

from attribune.process_memory import keep_freed_memory

TOKENS, WARM, STEPS = 64, 2, 12
NEEDED = ("batch_rows", "values", "vector_size", "table", "dense_gradient_megabytes")


def beside(path: Path) -> dict[str, Any]:
    """The measured step, the one on paper, and memory; a reason where there is none."""
    if not path.is_file():
        return {"skipped": f"{path.name} is not there"}
    found = json.loads(path.read_text())
    missing = [name for name in NEEDED if name not in found]
    if missing or not {"1", "2"} <= set(found["table"]):
        return {"skipped": f"{path.name} lacks {', '.join(missing) or 'table.1 and table.2'}"}
    rows, parameters = found["batch_rows"] // 2, round(found["dense_gradient_megabytes"] * 2**20 / NUMBER)
    return on_paper(found, **calibrated(rows, parameters), parameters=parameters)


def on_paper(
    found: dict[str, Any], *, seconds: list[list[float]], bytes_per_second: float, parameters: int
) -> dict[str, Any]:
    """What the model says, beside what was found.

    Args:
        found: the result file.
        seconds: steps of the two processes that share nothing.
        bytes_per_second: that one of them sends in an all-reduce.
        parameters: P.
    """
    rows, size, values = found["batch_rows"] // 2, found["vector_size"], found["values"]
    distinct = values * -np.expm1(rows * np.log1p(-1 / values))  # all values are as likely
    slower = float(np.mean([max(pair) for pair in zip(*seconds, strict=True)]))
    profile = Profile(
        name="two",
        rows=rows,
        tokens=TOKENS,
        step=slower,
        step_range=(slower, slower),
        parameters=parameters,
        bandwidth=bytes_per_second,
        latency=0.0,
        noise=0.0,
        pauses=0.0,
        cores=1,
        price=(0.0, 0.0),
        processes=(2,),
    )
    step = timed(
        profile,
        2,
        size,
        distinct=distinct,
        distinct_everywhere=values * -np.expm1(2 * rows * np.log1p(-1 / values)),
        most_distinct=distinct,
        imbalance={"contiguous": 1.0},
        compute=slower,
    )
    one, two = (found["table"][key] for key in ("1", "2"))
    return {
        "one_seconds": one["seconds"],
        "two_seconds": two["seconds"],
        "alone_seconds": slower,
        "bytes_per_second": bytes_per_second,
        "dense_bytes": step.dense_bytes,
        "gather_bytes": step.gather_bytes,
        "paper_seconds": step.compute + step.dense + step.gather,
        "measured_over_paper": two["seconds"] / (step.compute + step.dense + step.gather),
        "saved_megabytes": one["resident_megabytes"] - two["resident_megabytes"],
        "paper_saved_megabytes": values * size * NUMBER / 2 / 2**20,
    }


def calibrated(rows: int, parameters: int) -> dict[str, Any]:
    """Start two processes with a core each, and hear what the first one found."""
    many = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [*many, __file__, str(rows), str(parameters)]
    out = subprocess.run(words, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(out.splitlines()[-1]))


def calibrate(rows: int, parameters: int) -> None:
    """In each of two processes: steps without the other, then all-reduces with it."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training = Training(Point(rows=rows, tokens=TOKENS, attributes=1), "injector", rows_alone=True)
    keep_freed_memory()
    seconds: list[float] = []
    for _ in range(WARM + STEPS):
        dist.barrier()
        seconds.append(training.step())
    gradient, through = torch.ones(parameters), []
    for _ in range(WARM + STEPS):
        dist.barrier()
        started = time.perf_counter()
        dist.all_reduce(gradient)
        through.append(time.perf_counter() - started)
    both: list[list[float]] = [[], []]
    dist.all_gather_object(both, seconds[WARM:])
    if dist.get_rank() == 0:
        rate = parameters * NUMBER / float(np.median(through[WARM:]))
        print(json.dumps({"seconds": both, "bytes_per_second": rate}))
    dist.destroy_process_group()


if __name__ == "__main__":
    calibrate(int(sys.argv[1]), int(sys.argv[2]))
