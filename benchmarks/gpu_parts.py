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
from harness import ROOT, by_turns, milliseconds, ratio, seconds, snippets, write_csv
from models import SHAPES, Shape, batch, build, inputs_of
from snippets_run import COLUMNS, train
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from yardstick import AUTOCAST, BARE, Context, operations, pass_of, shares_of_bare

from attribune import AttributeModel, Categorical, Classification, Injector, Plain, Predictor, Schema
from attribune.backbones.loading import DEFAULT_BACKBONE, load_tokenizer, locate_backbone
from attribune.core import overlap

TESTS = ROOT.parent / "tests"
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L4": 121e12, "L40S": 362e12}  # bf16, dense; the maker's
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
    which = ["-k", "another_device and injector" if small else "another_device"]
    words = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", *which]
    environment = os.environ | {"COLUMNS": "300"} | ({} if device == "cpu" else {"ATTRIBUNE_SECOND_DEVICE": device})
    file = str(TESTS / "battery" / "test_second_device.py")
    ended = subprocess.run([*words, file], cwd=ROOT.parent, env=environment, capture_output=True, text=True)
    last = [*ended.stderr.strip().splitlines(), *ended.stdout.strip().splitlines()][-1]
    found = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)}
    lines = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {"tests": found, "not passed": lines} | ({"failed": last} if ended.returncode else {})


# How fast


def product_rate(device: str, small: bool) -> float:
    """Multiplications and additions per second of a large matrix product in bf16."""
    size = 512 if small or device == "cpu" else 8192
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / min(timed(lambda: a @ a, device) for _ in range(8))


def decoder(case: str, shape: Shape, small: bool) -> nn.Module:
    """An Injector, or a backbone tuned in full, of Qwen2-0.5B's size, in training mode."""
    config = transformers.Qwen2Config(**(TINY_QWEN if small else QWEN))
    backbone = transformers.AutoModel.from_config(config)
    method, tuning = (Injector(), "frozen") if case == "injector" else (Plain(), "full")
    model = AttributeModel.build(backbone, shape.schema(), task=Classification(classes=5), method=method, tuning=tuning)
    return model.train()


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


METHODS = ("injector", "tokens", "pln", "plora", "modulated")
PREDICTED = {
    "minilm, 8 x 32": replace(SHAPES["minilm"], rows=8, tokens=32, distinct=(8, 8)),
    "minilm, 256 x 64": replace(SHAPES["minilm"], rows=256, distinct=(256, 256)),
    "bert-base, 256 x 64": replace(BERT, rows=256, tokens=64, distinct=(256, 256)),
    "bert-base, 256 x 508": replace(BERT, rows=256, tokens=508, distinct=(256, 256)),  # two are of `tokens`
}


def prediction(device: str, small: bool) -> dict[str, Any]:
    """Shares of bare throughput with as many users as rows, in bf16."""
    return each({name: partial(shares, TINY if small else shape, device) for name, shape in PREDICTED.items()})


def in_bf16(case: str, shape: Shape, device: str) -> tuple[nn.Module, Context]:
    """The model of a case and the context of its passes in bf16; stock models are cast, but for autocast."""
    model = build(case, shape).eval().to(device)
    return model, partial(half, device) if case == AUTOCAST else pass_of(model, "bf16")


def shares(shape: Shape, device: str) -> dict[str, Any]:
    """The methods and the stock class by turns on one batch."""
    cases = {case: in_bf16(case, shape, device) for case in (BARE, AUTOCAST, *METHODS)}
    given = {name: x for name, x in placed(batch(shape), device).items() if name != "labels"}

    def predict(case: str) -> None:
        model, context = cases[case]
        with torch.inference_mode(), context():
            model(**inputs_of(case, given))

    times = by_turns({case: lambda case=case: timed(lambda: predict(case), device) for case in cases}, 15, warm=3)
    counts = {case: operations(model, inputs_of(case, given), context()) for case, (model, context) in cases.items()}
    return {"milliseconds": milliseconds(times), **shares_of_bare(times, counts)}


def graphs(device: str, small: bool) -> dict[str, Any]:
    """A batch as it is launched and as a CUDA graph, whose share is of the stock class in a graph."""
    if device == "cpu":
        return {"left out": "a processor has no CUDA graphs"}
    shapes = {name: TINY if small else shape for name, shape in PREDICTED.items() if name != "bert-base, 256 x 508"}
    return each({name: partial(captured_cases, shape) for name, shape in shapes.items()})


def captured_cases(shape: Shape) -> dict[str, Any]:
    """What `captured` finds of each case of a shape."""
    found: dict[str, Any] = {}
    for case in (BARE, *METHODS):
        model, context = in_bf16(case, shape, "cuda")
        given = {k: x for k, x in placed(inputs_of(case, batch(shape)), "cuda").items() if k != "labels"}
        keeping = model.keeping_plans() if isinstance(model, AttributeModel) else nullcontext()
        try:
            with context(), keeping:
                found[case] = captured(model, given)
        except RuntimeError as error:
            found[case] = {"not captured": str(error).splitlines()[0]}
            torch.cuda.synchronize()
        if "graph" in found[BARE] and "graph" in found[case]:
            found[case]["of_bare"] = found[BARE]["graph"] / found[case]["graph"]
    return found


def captured(model: nn.Module, given: dict[str, Tensor]) -> dict[str, float]:
    """Milliseconds of both ways, MB that the graph takes, and how far their answers are apart."""

    def predict() -> Tensor:
        with torch.inference_mode():
            logits: Tensor = model(**given).logits
        return logits

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            predict()
    torch.cuda.current_stream().wait_stream(side)
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.memory_reserved()
    with torch.cuda.graph(graph):
        kept = predict()
    taken = (torch.cuda.memory_reserved() - before) / 2**20
    jobs = {"launched": predict, "graph": graph.replay}
    times = by_turns({name: lambda job=job: timed(job, "cuda") for name, job in jobs.items()}, 50, warm=5)
    middle = milliseconds(times)
    return {
        **middle,
        "graph_megabytes": taken,
        "speed_up": middle["launched"] / middle["graph"],
        "difference": float((kept - predict()).abs().max()),
    }


def compiled(device: str, small: bool) -> dict[str, Any]:
    """Training steps and predictions by `torch.compile`, beside the same without it, in bf16."""
    shape = TINY if small else replace(SHAPES["minilm, all distinct"], rows=256, distinct=(256,) * 4)
    cases = ("full",) if device == "cpu" else ("full", "injector")
    return each({f"minilm, 256 x 64, {case}": partial(beside_compiled, case, shape, device) for case in cases})


def beside_compiled(case: str, shape: Shape, device: str) -> dict[str, Any]:
    """Both ways by turns, and the seconds of the first compiled step and prediction."""
    model, given = build(case, shape).to(device), placed(inputs_of(case, batch(shape)), device)
    ways = {"eager": model, "compiled": torch.compile(model, dynamic=False)}

    def step(way: str) -> None:
        with half(device):
            loss = ways[way](**given).loss
        loss.backward()
        model.zero_grad()

    def predict(way: str) -> None:
        with torch.inference_mode(), half(device):
            ways[way](**given)

    found: dict[str, Any] = {}
    for name, job in {"step": step, "prediction": predict}.items():
        model.train(name == "step")
        first = timed(lambda job=job: job("compiled"), device)
        times = by_turns({way: lambda way=way, job=job: timed(lambda: job(way), device) for way in ways}, 15, warm=3)
        found[name] = {"seconds_to_compile": first, "milliseconds": milliseconds(times)}
    return found


# The whole way


def texts(device: str, small: bool) -> dict[str, Any]:
    """Rows a second of a `Predictor` from texts to scores, and what takes the time.

    `busy` is the share of the time that passes of batches which lie on the device take alone; where `tokenised` is the
    slower one, the device waits for tokens.
    """
    rows = (snippets() * 100)[: 40 if small else 40_000]
    table = {name: [row[name] for row in rows] for name in (COLUMNS[0], COLUMNS[2])}
    backbone = str(locate_backbone(DEFAULT_BACKBONE))
    schema, task = Schema.fit(table, [Categorical(COLUMNS[2])]), Classification(classes=2)
    settings: dict[str, Any] = {"tokenizer": load_tokenizer(backbone), "text_input": COLUMNS[0]}
    model = AttributeModel.build(backbone, schema, task=task, method=Injector(), **settings)
    predictor = Predictor(model, batch_size=256, precision="bf16", device=device)
    encoded = predictor.encode_rows(table)
    placed_batches = [given for _, given in model.batches(encoded, size=256)]

    def passes() -> None:
        for given in placed_batches:
            with predictor._pass():
                model(**given)

    def apart() -> None:
        with mock.patch.object(overlap, "has_overlap", return_value=False):
            predictor.logits(table)

    jobs = {
        "overlap": lambda: predictor.logits(table),
        "without": apart,
        "passes": passes,
        "tokenised": lambda: predictor.encode_rows(table),
    }
    times = by_turns(
        {name: lambda job=job: timed(job, device) for name, job in jobs.items()}, 1 if small else 3, warm=1
    )
    rates = {f"{name}_rows_per_second": 1e3 * len(rows) / middle for name, middle in milliseconds(times).items()}
    return {"rows": len(rows), **rates, "busy": ratio(times["passes"], times["overlap"])}


def serving(device: str, small: bool) -> dict[str, Any]:
    """A service with 10,000 users under Zipf's law, by `serving.py`."""
    amount = ["--users", "100", "--minutes", "0.05", "--steps", "3", "--connections", "4", "--rounds", "1"]
    amount = amount if small else ["--users", "10000", "--minutes", "0.5", "--rounds", "2", "--steps", "100"]
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
