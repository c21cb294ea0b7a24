"""Folders of strangers: no code of theirs runs, whatever is typed, and pickled weights are not read."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from tally import tell

from attribune.backbones.architecture import LANGUAGE_MODEL
from attribune.backbones.loading import load_backbone, load_tokenizer
from attribune.core.checksums import CHECKSUMS
from attribune.errors import AttribuneError, ConfigError
from attribune.models.auto import load_model

CODE = """
from pathlib import Path
Path({marker!r}).write_text("this code has run")
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
class Config(BertConfig): model_type = "stranger"
class Model(BertModel): config_class = Config
class Tokenizer(PreTrainedTokenizerFast): pass
"""
MAP = {
    "AutoConfig": "stranger.Config",
    "AutoModel": "stranger.Model",
    "AutoModelForCausalLM": "stranger.Model",
    "AutoTokenizer": [None, "stranger.Tokenizer"],
}


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a stranger's code would write; every question is answered with yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 50))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    return tmp_path / "ran"


def with_code(folder: Path, marker: Path, *files: str, **changes: Any) -> Path:
    """Put code into a folder, to which some of its JSON files point."""
    (folder / "stranger.py").write_text(CODE.format(marker=str(marker)))
    for name in files:
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"auto_map": MAP} | changes))
    return folder


LOADERS: dict[str, Callable[[Path], Any]] = {
    "backbone": lambda folder: load_backbone(str(folder)),
    "backbone that writes": lambda folder: load_backbone(str(folder), architecture=LANGUAGE_MODEL),
    "tokenizer": lambda folder: load_tokenizer(str(folder)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"model_type": "stranger", "tokenizer_class": "Tokenizer"}], ids=["known", "new"]
)
@pytest.mark.parametrize("loader", LOADERS)
def test_a_backbone_runs_no_code(loader: str, changes: dict[str, Any], marker: Path, tmp_path: Path) -> None:
    is_generative = loader == "backbone that writes"
    kind = "llama" if is_generative else "bert"
    folder = small_runs.save_backbone(tmp_path / "backbone", model_type=kind, is_generative=is_generative)
    with_code(folder, marker, "config.json", "tokenizer_config.json", **changes)
    with contextlib.suppress(AttribuneError):
        LOADERS[loader](folder)
    assert not marker.exists()
    tell("refused")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("changes", [{}, {"tokenizer_class": "Tokenizer"}], ids=["known", "new"])
def test_a_run_runs_no_code(
    file: str, changes: dict[str, Any], attacked: Path, attribune: Callable[..., Any], marker: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(attacked / "run", tmp_path / "run"))
    with_code(run / "model", marker, file, **changes)
    (run / "model" / CHECKSUMS).unlink()  # a stranger writes other ones
    for verb in ("evaluate", "describe"):
        code, _, err = attribune(verb, run, *([attacked / "data.csv"] if verb == "evaluate" else []))
        assert code in (0, 1)
        assert "Traceback" not in err
    with contextlib.suppress(AttribuneError):
        load_model(run)
    assert not marker.exists()
    tell("refused", 3)


def test_pickled_weights_are_refused_with_the_cure(tmp_path: Path) -> None:
    folder = small_runs.save_backbone(tmp_path / "backbone")
    torch.save(load_backbone(str(folder)).state_dict(), folder / "pytorch_model.bin")
    load_backbone(str(folder))  # the tensors beside them are read
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"are pickled \(pytorch_model\.bin\).*save_pretrained"):
        load_backbone(str(folder))
