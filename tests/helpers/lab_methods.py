"""Settings of the lab's methods for tests that every method takes; none where the lab is hidden."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from attribune.methods import Chim, MethodConfig

HAS_LAB = sys.modules.get("attribune_lab", ...) is not None
needs_lab = pytest.mark.skipif(not HAS_LAB, reason="attribune_lab is hidden")


def require_lab(why: str) -> None:
    """Skip what depends on a fixture where the lab is hidden."""
    if not HAS_LAB:
        pytest.skip(f"attribune_lab is hidden: {why}")


SETTINGS: dict[str, MethodConfig] = {}
VARIANTS: dict[str, MethodConfig] = {}
# What methods need of backbones without pretraining.
NEEDS: dict[str, dict[str, Any]] = {}
if HAS_LAB:
    from attribune_lab.history.method import History
    from attribune_lab.methods import Basis, Hcsc, Huapa, Iaa, OnePerValue, Upnn

    SETTINGS = {
        "hcsc": Hcsc(attention_size=7, vector_size=13, attribute_dropout=0.2),
        "basis": Basis(vector_size=13, initial_vector=0.1, attribute_dropout=0.2),
        "upnn": Upnn(rank=2, vector_size=7, attribute_dropout=0.2),
        "huapa": Huapa(attention_size=7, vector_size=13, initial_vector=0.1, attribute_dropout=0.2),
        "iaa": Iaa(attention_size=7, vector_size=13, initial_vector=0.1, attribute_dropout=0.2),
        "history": History(k=3, tokens=20),
        "one-per-value": OnePerValue(rank=3),
    }
    VARIANTS = {
        "basis word": Basis(place="word", vector_size=13, initial_vector=0.1),
        "basis encoder": Basis(place="encoder", vector_size=13, initial_vector=0.1, bases=2),
        "basis attention": Basis(place="attention", vector_size=13, initial_vector=0.1),
        "basis bias": Basis(place="bias", vector_size=13, initial_vector=0.1),
        "basis direct": Basis(place="linear", direct=True, initial_vector=0.1),
        "basis direct attention": Basis(place="attention", direct=True, initial_vector=0.1),
        # These act where backbones without pretraining alone can be acted in.
        "chim everywhere": Chim(vector_size=13, places=("embedding", "encoder", "attention", "classifier"), repeats=1),
        "chim bias": Chim(vector_size=13, places=("encoder", "classifier"), representation="bias"),
        "upnn fused": Upnn(rank=2, vector_size=7, fused=True),
    }
    NEEDS = {
        "huapa": {"branches": 2, "hidden_size": 24},
        "iaa": {"branches": 3, "hidden_size": 16},
        "upnn": {"input_vectors": 2},
        "chim everywhere": {"projection": True},
    }
