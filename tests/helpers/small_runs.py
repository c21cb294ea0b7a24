"""Small tables and a tiny saved backbone, for tests that run the commands as a user does."""

from __future__ import annotations

import contextlib
import csv
import gc
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import families
import pyarrow.parquet as pq
from safetensors.numpy import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast
from troubles import Trouble

from attribune.apps.cli import main

COLUMNS = ("text", "stars", "user", "tags", "price", "look", "taste")
# A fork server has the imports done, so that a process is stopped while it works and not while it starts.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        *("small_runs", "transformers.models.bert.modeling_bert", "matplotlib.pyplot"),
        *("attribune.apps.cli.train", "attribune.training.train", "attribune.core.progress"),
        *("attribune.prediction.predict", "attribune.values.enrol", "attribune.values.traces"),
        *("attribune.apps.report.run_page", "attribune.apps.report.explanation_page"),
    ]
)
SMALL = {
    "injector": ("method.bottleneck=8", "method.vector_size=8"),
    "automl": ("method.trials=2",),
    "history": ("method.k=3", "method.tokens=30"),
}
_MOODS = {"good": ["great", "lovely", "fine"], "bad": ["awful", "poor", "dull"]}
_FILLER = ["the", "film", "was", "a", "plot", "and", "cast", "very", "quite", "so"]
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def reviews(rows: int, *, seed: int = 0, users: int = 7) -> list[dict[str, Any]]:
    """Rows with a text, three kinds of attributes, and labels that depend on the words and on the user."""
    chance = random.Random(seed)
    table = []
    for number in range(rows):
        user = chance.randrange(users)
        mood = chance.choice(["good", "bad"])
        words = [*chance.choices(_FILLER, k=chance.randint(2, 12)), chance.choice(_MOODS[mood]), f"n{number % 61}"]
        chance.shuffle(words)
        seen = mood if user % 3 else "bad"
        table.append(
            {
                "text": " ".join(words),
                "stars": seen if chance.random() < 0.9 else chance.choice(["good", "bad"]),
                "user": f"u{user}",
                "tags": ";".join(sorted(chance.sample(["drama", "comedy", "war", "short"], k=chance.randint(0, 3)))),
                "price": chance.choice(["", "3", "4.5", "10", "22"]),
                "look": 4 if mood == "good" else chance.randint(1, 3),
                "taste": chance.randint(1, 4),
            }
        )
    return table


def write_csv(path: Path, rows: list[dict[str, Any]], *, delimiter: str = ",") -> Path:
    """Write the rows with a header; returns the path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def file_bytes(folder: Path) -> dict[str, bytes]:
    """What is in every file below a folder, but for locks."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".lock")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def scored_rows(run: Path, part: str) -> list[int]:
    """Numbers of the rows of a part of a run whose predictions are stored, and their logits too."""
    rows: list[int] = pq.read_table(run / f"{part}_predictions.parquet")["row"].to_pylist()
    assert rows == load_file(run / f"{part}_logits.safetensors")["rows"].tolist()
    return rows


def train_command(
    data: Path | str,
    output: Path | str,
    *,
    backbone: Path | str,
    method: str = "injector",
    text: Sequence[str] = ("text",),
    label: Sequence[str] = ("stars",),
    max_length: int = 32,
    epochs: int = 1,
    batch_size: int = 16,
) -> list[str]:
    """The words of a short training; more can be added, those of ``--set`` first.

    Args:
        text: what follows ``--text``: a column, or several, and other flags behind them.
        label: columns; without any, there is no such flag.
    """
    words = ["train", str(data), "--text", *text, *(["--label", *label] if label else []), "--attributes", "user"]
    words += ["--output", str(output), "--method", method, "--backbone", str(backbone)]
    words += ["--max-length", str(max_length), "--epochs", str(epochs), "--batch-size", str(batch_size)]
    return [*words, "--set", "training.precision=float32", *SMALL.get(method, ())]


class Command:
    """The command line in a process of its own, so that it can be killed, interrupted or denied room on the disk."""

    def __init__(
        self,
        words: list[str],
        *,
        log: Path,
        out: Path | None = None,
        environment: dict[str, str] | None = None,
        trouble: Trouble | None = None,
    ) -> None:
        given = (words, str(log), str(out or log), environment or {}, trouble)
        self.process = PROCESSES.Process(target=_run, args=given)
        self.process.start()

    def wait(self) -> int | None:
        """Wait for the end; returns the exit code, negative for a signal."""
        self.process.join(900)
        return self.process.exitcode

    def has_ended(self) -> bool:
        """Whether the process is no more."""
        return self.process.exitcode is not None


def _run(
    words: list[str],
    log: str,
    out: str,
    environment: dict[str, str],
    trouble: Trouble | None,
) -> None:
    """In the child: messages and results go to files."""
    gc.freeze()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for path, stream in ((out, 1), (log, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    if trouble is not None and words[0] == "benchmark":
        import finished_benchmarks

        finished_benchmarks.engines.Processes = finished_benchmarks.CellsHere  # type: ignore[assignment, misc]
    with trouble or contextlib.nullcontext():
        code = main(words)
    sys.exit(code)


def save_backbone(folder: Path, *, model_type: str = "bert", seed: int = 0, is_generative: bool = False) -> Path:
    """Save a tiny backbone with a word-level tokenizer; returns the folder.

    One that writes begins texts with [CLS] and ends them with [SEP].
    """
    words = [*_SPECIAL, *_FILLER, *(word for group in _MOODS.values() for word in group)]
    words += [f"n{number}" for number in range(61)]
    assert len(words) <= families.VOCABULARY
    core = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    if is_generative:
        tokenizer.bos_token, tokenizer.eos_token = "[CLS]", "[SEP]"
    families.tiny_backbone(model_type, seed=seed, is_generative=is_generative).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder
