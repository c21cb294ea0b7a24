"""The precision that `auto` stands for."""

from __future__ import annotations

import pytest
import torch

from attribune.core.device import resolve_precision


@pytest.mark.parametrize(
    ("has", "precision"),
    [
        ({"amx_bf16", "avx512_bf16", "avx512_fp16"}, "bf16"),  # Sapphire Rapids and later
        ({"avx512_bf16", "avx512_fp16"}, "float32"),  # the same with AMX hidden
        ({"avx512_bf16"}, "bf16"),  # Zen 4, Cooper Lake
        ({"avx2"}, "float32"),
        (set(), "float32"),
    ],
)
def test_it_is_the_faster_one(monkeypatch: pytest.MonkeyPatch, has: set[str], precision: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: dict.fromkeys(has, True))
    assert resolve_precision("auto") == precision


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_what_is_given_stays(precision: str) -> None:
    assert resolve_precision(precision) == precision
