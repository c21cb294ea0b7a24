"""A run of which one bit is another: each verb refuses it, or says exactly what it said before."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import mutations
import pytest
import tally
from attacks import ATTACKS
from commands import Attribune, Outcome

pytestmark = pytest.mark.slow

READERS: dict[str, Callable[[Path, Path, Path], list[object]]] = {
    "describe": lambda run, other, rows: ["describe", run],
    "compare": lambda run, other, rows: ["compare", run, other],
    "predict": lambda run, other, rows: ["predict", run, rows, "--output", run.parent / "out.csv"],
    "forget": lambda run, other, rows: ["forget", run, "--attribute", "user", "--value", "u3"],
}
# Each file of a run, with the verbs to whose answer it contributes.
FILES = {
    "recipe.yaml": ("describe", "predict", "forget"),
    "metrics.json": ("describe", "compare"),
    "test_logits.safetensors": ("compare", "forget"),
    "test_predictions.parquet": ("forget",),
    "model/schema.json": ("describe", "predict", "forget"),
    "model/model.safetensors": ("predict",),
    "checksums.json": ("describe", "compare", "predict", "forget"),
}


def said(attribune: Attribune, words: list[object], run: Path) -> tuple[Outcome, dict[str, bytes]]:
    """What a verb said, and what it left: all files but those with times in them."""
    found = attribune(*words)
    files = [run.parent / "out.csv", *sorted(run.rglob("*"))]
    left = {str(path): path.read_bytes() for path in files if path.is_file() and "lock" not in path.name}
    return found, left


@pytest.mark.parametrize("file", FILES)
def test_a_flipped_bit_is_refused_or_changes_nothing(
    file: str, attribune: Attribune, runs: Path, tmp_path: Path
) -> None:
    run, chance = tmp_path / "run", random.Random(file)
    rows, content = runs / "data.csv", (runs / "injector" / file).read_bytes()
    for verb in FILES[file]:
        words = READERS[verb](run, runs / "none", rows)
        shutil.copytree(runs / "injector", run)
        (tmp_path / "out.csv").unlink(missing_ok=True)
        expected, left = said(attribune, words, run)
        assert expected[0] == 0, expected
        for _ in range(ATTACKS):
            shutil.rmtree(run)
            shutil.copytree(runs / "injector", run)
            (tmp_path / "out.csv").unlink(missing_ok=True)
            damaged = mutations.flipped(content, seed=chance.randrange(10**6))
            (run / file).write_bytes(damaged)
            found, after = said(attribune, words, run)
            outcome: tally.Outcome = "wrong"
            if "Traceback" in found[2]:
                outcome = "traceback"
            elif found[0] and found[2].count("error: ") == 1 and (run / file).read_bytes() == damaged:
                outcome = "refused"
            elif found == expected and {**after, str(run / file): b""} == {**left, str(run / file): b""}:
                outcome = "survived"
            tally.tell(outcome)
            assert outcome in ("refused", "survived"), (verb, found)
        shutil.rmtree(run)
