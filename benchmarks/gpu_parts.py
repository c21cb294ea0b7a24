"""The parts of `gpu.py`, each a function of the device and of whether shapes are tiny, that answers with figures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers
from fused import ROWS as FUSED_ROWS
from fused import SHAPES as FUSED_SHAPES
from fused import TOKENS as FUSED_TOKENS
from fused import measure as measure_fused
from harness import ROOT, by_turns, milliseconds, seconds, snippets, write_csv
from models import SHAPES, Shape, batch, build, inputs_of
from predict_engines import COLUMNS, train
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from yardstick import BARE, operations, shares_of_bare

from attribune import AttributeModel, Classification, Injector
from attribune.functional.fused import VARIABLE

TESTS = ROOT.parent / "tests"
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L4": 121e12, "L40S": 362e12}  # bf16, dense; the maker's
KERNEL = "injector, fused kernel"
TINY = Shape(hidden=32, layers=2, heads=2, rows=4, tokens=8, distinct=(4, 2))
BERT = replace(SHAPES["bert-base"], rows=64, distinct=(64, 64))
QWEN = {  # of Qwen2-0.5B
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
}
TINY_QWEN = QWEN | {"hidden_size": 224, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 30_000}


def timed(job: Callable[[], object], device: str) -> float:
    """Seconds until the device has done it."""
    if device == "cpu":
        return seconds(job)
    torch.cuda.synchronize()
    return seconds(lambda: (job(), torch.cuda.synchronize()))


def half(device: str) -> torch.autocast:
    """Autocast to bf16."""
    return torch.autocast(device, dtype=torch.bfloat16)


def placed(given: Mapping[str, Tensor], device: str) -> dict[str, Tensor]:
    """A batch on the device."""
    return {name: x.to(device) for name, x in given.items()}


# What agrees


def agreement(device: str, small: bool) -> dict[str, Any]:
    """Logits and gradients of every method on the device beside those on the CPU, by the tests of the battery."""
    which = ["-k", "injector"] if small else []
    words = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", *which]
    environment = os.environ | ({} if device == "cpu" else {"ATTRIBUNE_SECOND_DEVICE": device})
    file = str(TESTS / "battery" / "test_second_device.py")
    ended = subprocess.run([*words, file], cwd=ROOT.parent, env=environment, capture_output=True, text=True)
    last = [*ended.stderr.strip().splitlines(), *ended.stdout.strip().splitlines()][-1]
    found = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)}
    lines = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {"tests": found, "not passed": lines} | ({"failed": last} if ended.returncode else {})


def kernel(device: str, small: bool) -> dict[str, Any]:
    """The largest difference of the fused kernel to written weights in float64, of the result and of each gradient."""
    sys.path.append(str(TESTS / "helpers"))
    import fused_cases

    found = {}
    cases = list(fused_cases.CASES.items())
    for name, case in cases[:2] if small else cases:
        expected = fused_cases.run(case, "weights", torch.float64)
        with torch.device(device):
            seen = fused_cases.run(case, "fused", torch.float32)
        apart = {part: (seen[part].cpu().double() - x).abs().max() / x.abs().max() for part, x in expected.items()}
        found[name] = {part: float(difference) for part, difference in apart.items()}
    return {"largest difference": max(max(one.values()) for one in found.values()), "cases": found}


# How fast


def threshold(device: str, small: bool) -> dict[str, Any]:
    """From how many tokens on written weights are faster than the kernel."""
    if device == "cpu":
        return {"left out": "the kernel runs in an interpreter here, whose times say nothing"}
    rows, tokens = (FUSED_ROWS[:1], FUSED_TOKENS[:2]) if small else (FUSED_ROWS, FUSED_TOKENS)
    found = [measure_fused(name, B, T, 30) for name in FUSED_SHAPES for B in rows for T in tokens]
    faster = {
        f"{name}, {B} rows, {what}": max(
            (
                one["tokens"]
                for one in found
                if (one["shape"], one["rows"]) == (name, B) and one["weights_over_fused"][what] > 1
            ),
            default=0,
        )
        for name in FUSED_SHAPES
        for B in rows
        for what in ("forward", "both")
    }
    return {"fused is faster up to tokens": faster, "measured": found}


def product_rate(device: str, small: bool) -> float:
    """Multiplications and additions per second of a large matrix product in bf16."""
    size = 512 if small or device == "cpu" else 8192
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / min(timed(lambda: a @ a, device) for _ in range(8))


def decoder(case: str, shape: Shape, small: bool) -> nn.Module:
    """An Injector, or a backbone tuned in full, of Qwen2-0.5B's size, in training mode."""
    config = transformers.Qwen2Config(**(TINY_QWEN if small else QWEN))
    backbone = transformers.AutoModel.from_config(config)
    method = {"method": Injector()} if case == "injector" else {}
    return AttributeModel.build(backbone, shape.schema(), task=Classification(classes=5), **method).train()


def steps(device: str, small: bool) -> dict[str, Any]:
    """Training steps in bf16: time against the other cases, share of the device's rate, and peak memory."""
    rate = product_rate(device, small)
    maker = next((peak for name, peak in PEAKS.items() if device == "cuda" and name in torch.cuda.get_device_name()), 0)
    shapes = {
        "bert-base, 64 x 512": TINY if small else BERT,
        "minilm, 256 x 64": TINY if small else replace(SHAPES["minilm, all distinct"], rows=256, distinct=(256,) * 4),
    }
    cases = (BARE, "full", "adapter", "chain", "injector")
    jobs = {name: partial(of_shape, cases, shape, device, build, rate, maker) for name, shape in shapes.items()}
    shape, of_qwen = TINY if small else replace(BERT, rows=8), partial(decoder, small=small)
    jobs["decoder of half a billion, 8 x 512"] = partial(
        of_shape, ("full", "injector"), shape, device, of_qwen, rate, maker
    )
    return {"product_tflops": rate / 1e12, "maker_tflops": maker / 1e12, **each(jobs)}


def each(jobs: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each job answers, written as it comes; of one that fails, why, and the others go on."""
    found: dict[str, Any] = {}
    for name, job in jobs.items():
        try:
            found[name] = job()
        except Exception as error:  # whatever a device, a driver or a compiler raises
            found[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(f"{name}: {json.dumps(found[name])}", file=sys.stderr, flush=True)
    failed = [name for name, answer in found.items() if "failed" in answer]
    return {"shapes": found} | ({"failed": f"{', '.join(failed)}: see shapes"} if failed else {})


def of_shape(
    cases: tuple[str, ...],
    shape: Shape,
    device: str,
    make: Callable[[str, Shape], nn.Module],
    rate: float,
    maker: float,
) -> dict[str, Any]:
    """All cases of a shape by turns; then the memory and the operations of each."""
    models, given = {case: make(case, shape).to(device) for case in cases}, placed(batch(shape), device)

    def step(case: str) -> None:
        with half(device):
            loss = models[case](**inputs_of(case, given)).loss
        loss.backward()
        models[case].zero_grad()

    times = by_turns({case: lambda case=case: timed(lambda: step(case), device) for case in cases}, 10, warm=3)
    middle = milliseconds(times)
    return {
        case: {
            "milliseconds": middle[case],
            "of_full": middle[case] / middle["full"],
            "rows_per_second": 1e3 * shape.rows / middle[case],
            "peak_megabytes": peak(lambda case=case: step(case), device),
            **used(lambda case=case: step(case), middle[case], rate, maker),
        }
        for case in cases
    }


def peak(job: Callable[[], None], device: str) -> float | None:
    """MB that a job takes on a GPU beyond what is there before."""
    if device == "cpu":
        return None
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    job()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def used(job: Callable[[], None], took: float, rate: float, maker: float) -> dict[str, float]:
    """Operations of the matrix products per second, beside the rate of a large product and the maker's figure."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:  # products that can be counted, also of queries that share keys
        job()
    speed = 1e3 * counter.get_total_flops() / took
    return {"tflops": speed / 1e12, "of_product_rate": speed / rate} | ({"mfu": speed / maker} if maker else {})


def prediction(device: str, small: bool) -> dict[str, Any]:
    """Shares of bare throughput with as many users as rows, in bf16."""
    cases = (BARE, "injector", KERNEL, "tokens", "pln", "plora", "modulated")
    cases = cases if device == "cuda" else tuple(case for case in cases if case != KERNEL)
    shapes = {
        "minilm, 256 x 64": replace(SHAPES["minilm"], rows=256, distinct=(256, 256)),
        "bert-base, 256 x 64": replace(BERT, rows=256, tokens=64, distinct=(256, 256)),
        "bert-base, 256 x 508": replace(BERT, rows=256, tokens=508, distinct=(256, 256)),  # two are of `tokens`
    }
    return each({name: partial(shares, cases, TINY if small else shape, device) for name, shape in shapes.items()})


def method_of(case: str) -> str:
    """The method, whichever way it computes."""
    return "injector" if case == KERNEL else case


def shares(cases: tuple[str, ...], shape: Shape, device: str) -> dict[str, Any]:
    """The methods and the stock class by turns on one batch."""
    models = {case: build(method_of(case), shape).eval().to(device) for case in cases}
    given = {name: x for name, x in placed(batch(shape), device).items() if name != "labels"}

    def predict(case: str) -> None:
        with (
            torch.inference_mode(),
            half(device),
            mock.patch.dict(os.environ, {VARIABLE: "1" if case == KERNEL else ""}),
        ):
            models[case](**inputs_of(case, given))

    times = by_turns({case: lambda case=case: timed(lambda: predict(case), device) for case in cases}, 15, warm=3)
    counts = {case: operations(models[case], inputs_of(case, given), half(device)) for case in cases if case != KERNEL}
    return {"milliseconds": milliseconds(times), **shares_of_bare(times, counts)}


def graphs(device: str, small: bool) -> dict[str, Any]:
    """One batch of few short texts as it is launched and as a CUDA graph, where launching takes most of the time."""
    if device == "cpu":
        return {"left out": "a processor has no CUDA graphs"}
    shape = TINY if small else replace(SHAPES["minilm"], rows=8, tokens=32, distinct=(8, 8))
    found = {}
    for case in (BARE, "injector", "pln", "plora", "modulated"):
        model = build(case, shape).eval().to(device)
        given = {k: x for k, x in placed(inputs_of(case, batch(shape)), device).items() if k != "labels"}
        try:
            found[case] = captured(model, given)
        except RuntimeError as error:
            found[case] = {"not captured": str(error).splitlines()[0]}
            torch.cuda.synchronize()
    return found


def captured(model: nn.Module, given: dict[str, Tensor]) -> dict[str, float]:
    """Milliseconds of both ways, and how far their answers are apart."""

    def predict() -> Tensor:
        with torch.inference_mode(), half("cuda"):
            logits: Tensor = model(**given).logits
        return logits

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            predict()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = predict()
    jobs = {"launched": predict, "graph": graph.replay}
    times = by_turns({name: lambda job=job: timed(job, "cuda") for name, job in jobs.items()}, 50, warm=5)
    middle = milliseconds(times)
    return {
        **middle,
        "speed_up": middle["launched"] / middle["graph"],
        "difference": float((kept - predict()).abs().max()),
    }


# The whole way


def serving(device: str, small: bool) -> dict[str, Any]:
    """A service with 10,000 users under Zipf's law, by `serving.py`."""
    amount = ["--users", "100", "--minutes", "0.05", "--steps", "3", "--connections", "4"]
    amount = amount if small else ["--users", "10000", "--minutes", "0.5", "--steps", "100"]
    with tempfile.TemporaryDirectory() as folder, hidden(device):
        file = Path(folder) / "serving.json"
        words = [sys.executable, str(ROOT / "serving.py"), *amount, "--precision", "bf16", "--output", str(file)]
        subprocess.run(words, check=True, stdout=sys.stderr)
        return dict(json.loads(file.read_text(encoding="utf-8")))


def training(device: str, small: bool) -> dict[str, Any]:
    """The packaged MiniLM on film snippets with and without the film: seconds, rows a second, scores on test rows."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, hidden(device):
        data = write_csv(Path(folder) / "snippets.csv", COLUMNS, snippets()[: 300 if small else None])
        count = 3 if small else 1000
        for method in ("none", "injector"):
            run, started = Path(folder) / method, time.perf_counter()
            train(data, run, count, "--method", method, "--set", "training.precision=bf16")
            took = time.perf_counter() - started
            metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
            found[method] = {"seconds": took, "steps_per_second": count / took, "metrics": metrics}
    return found


def hidden(device: str) -> AbstractContextManager[Any]:
    """Where the CPU is asked for, commands see no GPU."""
    return mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""}) if device == "cpu" else nullcontext()
