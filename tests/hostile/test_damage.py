"""Damaged folders and weights, and disks that fill: refused by name, and nothing lost."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from commands import Attribune, Fails, Words
from safetensors.torch import load_file, save_file

from attribune.core.checksums import CHECKSUMS
from attribune.training.distributed import last_checkpoint

pytestmark = pytest.mark.slow


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut by a line": lambda path: path.write_bytes(path.read_bytes().rstrip().rpartition(b"\n")[0]),
    "foreign": lambda path: path.write_bytes(b'{"a": 1}'),
    "a list": lambda path: path.write_bytes(b"[1]"),
    "binary": lambda path: path.write_bytes(b"\xff\xfe\x00\x01"),
}


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(runs / "injector", tmp_path / "run"))


@pytest.mark.parametrize(
    "file",
    ["recipe.yaml", "model/config.json", "model/schema.json", "model/model.safetensors", "model/tokenizer.json"],
)
@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "cut by a line"])
def test_a_damaged_model_folder_is_refused(fails: Fails, runs: Path, run: Path, file: str, damage: str) -> None:
    DAMAGES[damage](run / file)
    message = fails("evaluate", run, runs / "data.csv")
    assert str(run) in message
    assert file.rpartition("/")[2].partition(".")[0] in message  # the tokenizer's file is called by its name alone


def test_a_recipe_cut_at_the_end_of_a_line_is_not_filled_with_defaults(fails: Fails, run: Path) -> None:
    DAMAGES["cut by a line"](run / "recipe.yaml")
    assert "recipe.yaml was changed or damaged" in fails("describe", run)
    (run / CHECKSUMS).unlink()  # as a run of an earlier version
    assert "recipe.yaml is truncated" in fails("describe", run)


@pytest.mark.parametrize("file", ["model/tokenizer_config.json", "training.json"])
def test_a_missing_tokenizer_or_outcome_is_named(
    fails: Fails, runs: Path, run: Path, tmp_path: Path, file: str
) -> None:
    (run / file).unlink()
    message = fails("predict", run, runs / "data.csv", "--output", tmp_path / "p.csv")
    assert "tokenizer" in message if "tokenizer" in file else "interrupted run" in message
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in ("missing", "cut by a line")])
@pytest.mark.parametrize("verb", ["describe", "compare"])
def test_damaged_results_are_refused(fails: Fails, runs: Path, run: Path, verb: str, damage: str) -> None:
    DAMAGES[damage](run / "metrics.json")
    words = (verb, run, *([runs / "none"] if verb == "compare" else []))
    assert str(run / "metrics.json") in fails(*words)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "foreign"])
def test_damaged_logits_do_not_make_compare_take_other_rows(fails: Fails, runs: Path, run: Path, damage: str) -> None:
    DAMAGES[damage](run / "test_logits.safetensors")
    if damage != "missing":
        found = fails("compare", run, runs / "none")
        assert "test_logits.safetensors was changed or damaged after it was written" in found
    (run / CHECKSUMS).unlink()  # as a run of an earlier version
    assert "test_logits.safetensors is missing or damaged" in fails("compare", run, runs / "none")


def test_another_size_or_family_is_refused(fails: Fails, runs: Path, backbone: Path, tmp_path: Path) -> None:
    other = small_runs.save_backbone(tmp_path / "other", model_type="distilbert")
    assert "model_type bert" in fails("evaluate", runs / "injector", runs / "data.csv", "--backbone", other)
    smaller = shutil.copytree(backbone, tmp_path / "smaller")
    settings = json.loads((smaller / "config.json").read_text())
    (smaller / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 1}))
    assert "num_hidden_layers 2" in fails("evaluate", runs / "injector", runs / "data.csv", "--backbone", smaller)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "foreign", "a list", "binary"])
@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_weights_are_refused(
    fails: Fails, train: Words, backbone: Path, tmp_path: Path, file: str, damage: str
) -> None:
    broken = shutil.copytree(backbone, tmp_path / "broken")
    DAMAGES[damage](broken / file)
    assert str(broken) in fails(*train(None, "--backbone", broken))
    assert not (tmp_path / "run").exists()


def test_incomplete_weights_are_refused(fails: Fails, train: Words, backbone: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(backbone, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    name = next(name for name in tensors if "query" in name)
    del tensors[name]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    assert name in fails(*train(None, "--backbone", broken))


def test_a_disk_that_fills_later_lets_the_training_go_on(
    fails: Fails, attribune: Attribune, train: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = train(None, "training.evaluate_every=2")
    save, calls = torch.save, []

    def fill(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        if len(calls) > 4:
            raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")
        save(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fill)
        assert "free some space, then continue from the previous checkpoint with --resume" in fails(*words)
    code, _, err = attribune(*words, "--resume")
    assert code == 0
    assert "resuming from step 2 of 5" in err


def test_a_truncated_checkpoint_is_passed_over(tmp_path: Path, runs: Path) -> None:
    whole = tmp_path / "checkpoint-5"
    whole.mkdir()
    shutil.copy(runs / "injector" / "model" / "model.safetensors", whole)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"a": torch.zeros(99)}, whole / name)
    (whole / "trainer_state.json").write_text("{}")
    assert last_checkpoint(tmp_path) == whole
    newer = shutil.copytree(whole, tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path) == newer
    for file in os.listdir(newer):
        content = (newer / file).read_bytes()
        for damage in ("missing", "empty", "truncated"):
            DAMAGES[damage](newer / file)
            assert last_checkpoint(tmp_path) == whole, (file, damage)
            (newer / file).write_bytes(content)
    assert last_checkpoint(tmp_path) == newer
