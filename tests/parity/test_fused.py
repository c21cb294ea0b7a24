"""The kernel that multiplies with generated weights without writing them, in Triton's interpreter and compiler.

It is compared with the path of PyTorch in float64, which `test_injector.py` compares with loops written from the paper.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import fused_cases
import pytest
import torch
from torch import Tensor

from attribune.errors import ConfigError
from attribune.functional import fused

needs_triton = pytest.mark.skipif(not fused.triton_is_installed(), reason="triton is not installed")


def run_alone(*words: str, **variables: str) -> str:
    """What a Python process of its own prints."""
    environment = os.environ | variables
    ended = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Tensor]]:
    file = tmp_path_factory.mktemp("fused") / "seen.pt"
    run_alone(fused_cases.__file__, str(file), TRITON_INTERPRET="1")
    found: dict[str, dict[str, Tensor]] = torch.load(file)
    return found


@needs_triton
@pytest.mark.parametrize("name", fused_cases.CASES)
def test_the_kernel_gives_what_the_weights_give(name: str, seen: dict[str, dict[str, Tensor]]) -> None:
    case = fused_cases.CASES[name]
    dtype = case.get("dtype", torch.float32)
    assert seen[name]["out"].dtype == dtype
    within = {torch.float32: 2e-6, torch.float16: 2e-3}[dtype]
    for part, expected in fused_cases.run(case, "weights", torch.float64).items():
        difference = (seen[name][part].double() - expected).abs().max() / expected.abs().max()
        assert float(difference) < within, part


COMPILE = """
import itertools, pathlib, re, subprocess, sys
import triton
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from attribune.functional.fused_kernel import options, project

tool, file = pathlib.Path(nvidia.__file__).parent / "bin" / "cuobjdump", pathlib.Path(sys.argv[1])
for processor, dtype, (tokens, bottleneck, values) in itertools.product(
    (80, 90), ("bf16", "fp16", "fp32"), ((1, 64, 1), (64, 64, 32), (64, 64, 4096), (64, 8, 32), (64, 256, 32))
):
    given = options(tokens, values, bottleneck)
    fixed = {name: number for name, number in given.items() if name in project.arg_names}
    fixed |= {"O": 4, "PRECISION": "tf32"}
    types = dict.fromkeys("TUHA", "i32") | dict.fromkeys(("z_hat", "K", "membership", "C"), "*fp32")
    types |= {"h": "*" + dtype, "out": "*" + dtype}
    signature = {name: types.get(name, "constexpr") for name in project.arg_names}
    made = triton.compile(
        ASTSource(fn=project, signature=signature, constexprs=fixed),
        target=GPUTarget("cuda", processor, 32),
        options={name: given[name] for name in given.keys() - fixed.keys()},
    )
    file.write_bytes(made.asm["cubin"])
    said = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    print(processor, dtype, tokens, bottleneck, values, "spilled", re.search(r"STACK:(\\d+)", said)[1])
"""


@pytest.mark.slow
@needs_triton
def test_the_kernel_compiles_for_processors_that_are_not_here_and_stays_in_registers(tmp_path: Path) -> None:
    """What the vendor's own compiler makes of it for two generations has nothing to spill into memory."""
    lines = run_alone("-c", COMPILE, str(tmp_path / "kernel.cubin"), TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert len(lines) == 2 * 3 * 5
    assert [line for line in lines if not line.endswith("spilled 0")] == []


@needs_triton
def test_the_kernel_runs_on_the_device_of_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton takes the current device, which is another one where a model is on the second of several."""
    from attribune.functional import fused_kernel

    current: list[Tensor] = []

    class Kernel:
        def __getitem__(self, grid: object) -> Callable[..., None]:
            return lambda h, *_, **__: seen.append([h is x for x in current])

    @contextmanager
    def device_of(x: Tensor) -> Iterator[None]:
        current.append(x)
        yield
        current.clear()

    seen: list[list[bool]] = []
    monkeypatch.setattr(fused_kernel, "project", Kernel())
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    h, z_hat, K, membership, C = (torch.zeros(*shape) for shape in ((2, 3, 8), (1, 2, 4), (2, 8), (2, 1), (8, 4)))
    fused_kernel.launch(h, z_hat, K, membership, C, tf32=False)
    assert seen == [[True]]


# What is chosen


class OnDevice(Tensor):
    """Numbers that say they are on a GPU."""

    device = torch.device("cuda")  # type: ignore[assignment]


def on_device(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(*shape, dtype=dtype).as_subclass(OnDevice)


@pytest.mark.parametrize(
    ("said", "tokens", "values", "dtype", "chosen"),
    [
        (None, 256, 8, torch.bfloat16, True),
        (None, 257, 8, torch.bfloat16, False),
        ("1", 129, 8, torch.float32, True),
        ("0", 1, 8, torch.float32, False),
        ("1", 1, 8, torch.float64, False),
        (None, 1, 5000, torch.float16, False),
        ("1", 1, 5000, torch.float16, True),
        (None, 0, 8, torch.float32, False),
        ("1", 1, 0, torch.float32, False),
    ],
)
def test_the_kernel_is_for_few_tokens_and_the_variable_decides(
    said: str | None, tokens: int, values: int, dtype: torch.dtype, chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused, "_works", lambda device, dtype: True)
    monkeypatch.delenv(fused.VARIABLE, raising=False)
    if said is not None:
        monkeypatch.setenv(fused.VARIABLE, said)
    h, membership = on_device(2, tokens, 16, dtype=dtype), on_device(2, values)
    with torch.no_grad():
        assert fused.is_better_fused(h, membership) is chosen
        assert not fused.is_better_fused(torch.zeros(2, tokens, 16), torch.zeros(2, values)), "there is no GPU"
    assert fused.is_better_fused(h, membership) is (chosen and said == "1"), "a backward pass writes the weights"


def test_a_variable_that_says_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fused.VARIABLE, "yes")
    with pytest.raises(ConfigError, match="ATTRIBUNE_FUSED is 'yes': give 0 for never, 1 for always"):
        fused.is_better_fused(on_device(2, 1, 16), on_device(2, 2))


@pytest.mark.parametrize(
    ("mistake", "reason"),
    [
        (
            lambda **given: given["h"][..., :16] * 0 + 1,
            "the fused kernel is .* off on cpu, weights are written instead",
        ),
        (lambda **given: given["h"][..., :16] * float("nan"), "the fused kernel is nan off on cpu"),
        (mock.Mock(side_effect=RuntimeError("no compiler")), "cannot be used on cpu, weights .* instead: no compiler"),
    ],
)
def test_a_kernel_that_fails_or_gives_other_numbers_is_not_taken(
    mistake: object, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fused, "fused_projection", mistake)
    monkeypatch.setattr(fused, "triton_is_installed", lambda: True)
    with caplog.at_level(logging.WARNING):
        assert not fused._works.__wrapped__(torch.device("cpu"), torch.float32)
    assert re.search(reason, caplog.text)


@pytest.mark.slow
@needs_triton
def test_a_kernel_that_gives_the_right_numbers_is_taken() -> None:
    for dtype in ("float32", "float16"):  # the interpreter cannot multiply bfloat16
        said = run_alone(
            "-c",
            "import torch; from attribune.functional import fused; "
            f"print(fused._works(torch.device('cpu'), torch.{dtype}))",
            TRITON_INTERPRET="1",
        )
        assert said.strip() == "True"
