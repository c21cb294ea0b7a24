"""Verbs that write, as often as wanted from the same files, and what they leave behind.

``ATTRIBUNE_ATTACKS`` says how often tests attack; with 1000, for an hour or more.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import small_runs
import yaml
from lab_methods import HAS_LAB
from tally import Outcome, tell
from troubles import FileFault, Trouble

from attribune.core.checksums import CHECKSUMS, CheckedFiles
from attribune.errors import ModelFolderError

__all__ = ["ATTACKS", "NEW", "VERBS", "Attacks", "Verb", "contents", "write_experiment"]

ATTACKS = int(os.environ.get("ATTRIBUNE_ATTACKS", "1"))
NEW = small_runs.reviews(40, seed=9, users=12)  # users 7 to 11 are new
# What differs from one undisturbed run to the next.
TIMED = (
    "seconds",
    "train_seconds",
    "eval_runtime",
    "eval_samples_per_second",
    "eval_steps_per_second",
    "peak_mb",
    "finished",
)
TIMED_FILES = ("bake_off.json", "cell.json", "log.jsonl", "metrics.json", "training.json")


@dataclass(frozen=True)
class Verb:
    """A command that writes.

    Attributes:
        words: of the command.
        again: more words with which it goes on.
    """

    words: Callable[[Path], list[str]]
    again: tuple[str, ...] = ()


VERBS = {
    "train": Verb(lambda folder: [*_small_training(folder), "training.evaluate_every=2", "--resume"]),
    "train linear": Verb(
        lambda folder: [
            *small_runs.train_command(
                folder / "data.csv", folder / "new", backbone=folder / "backbone", method="linear"
            ),
            "--resume",
        ]
    ),
    "predict": Verb(
        lambda folder: ["predict", *_run_and_rows(folder), "--output", str(folder / "predictions.parquet")]
    ),
    "predict to a folder": Verb(lambda folder: ["predict", *_run_and_rows(folder), "--output", str(folder / "parts")]),
    "enrol": Verb(lambda folder: ["enrol", *_run_and_rows(folder)]),
    "forget": Verb(lambda folder: ["forget", str(folder / "run"), "--attribute", "user", "--value", "u3"]),
    "report": Verb(lambda folder: ["report", str(folder / "run")]),
    "explain": Verb(lambda folder: ["explain", *_run_and_rows(folder), "--output", str(folder / "explain.html")]),
    "export": Verb(
        lambda folder: ["export", str(folder / "run"), "--for", "user=u1", "--output", str(folder / "exported")]
    ),
    "search": Verb(lambda folder: ["search", *_small_training(folder)[1:], "--trials", "2"]),
    "train with others": Verb(
        lambda folder: [*_small_training(folder), "--compare", "none", "--resume"],
    ),
    "train tags": Verb(lambda folder: [*_token_training(folder, "tags"), "--resume"]),
    "train spans": Verb(lambda folder: [*_token_training(folder, "spans"), "--resume"]),
}
VERBS_OF_THE_LAB = {
    "data prepare": Verb(
        lambda folder: [
            *("data", "prepare", "critics", "--partial"),
            *("--source", str(folder / "source"), "--output", str(folder / "set")),
        ]
    ),
    "benchmark": Verb(
        lambda folder: ["benchmark", "run", str(folder / "experiment.yaml"), "--output", str(folder / "cells")]
    ),
}
if HAS_LAB:
    VERBS |= VERBS_OF_THE_LAB


def write_experiment(folder: Path, file: Path) -> None:
    """Write an experiment of two cells on the table of a folder."""
    data = {"train": str(folder / "data.csv"), "text": "text", "label": "stars", "attributes": [{"name": "user"}]}
    experiment = {
        "name": "small",
        "sets": [{"name": "reviews", "data": {**data, "max_length": 32}, "folds": [0]}],
        "settings": ["none", "linear"],
        "backbone": {"name": str(folder / "backbone")},
        "training": {"steps": 4, "batch_size": 16, "evaluate_every": 2, "precision": "float32"},
    }
    file.write_text(yaml.safe_dump(experiment))


def _small_training(folder: Path) -> list[str]:
    return small_runs.train_command(folder / "data.csv", folder / "new", backbone=folder / "backbone")


def _token_training(folder: Path, task: str) -> list[str]:
    words = small_runs.train_command(folder / f"{task}.jsonl", folder / "new", backbone=folder / "backbone")
    columns = {
        "tags": ["words", "--label", "tags"],
        "spans": ["question", "--text-pair", "context", "--label", "answers"],
    }
    words[words.index("--text") + 1 : words.index("--label") + 2] = columns[task]
    words[words.index("--max-length") + 1] = "16"  # so that rows have several windows
    return ["train", words[1], "--task", task, *words[2:]]


def _run_and_rows(folder: Path) -> tuple[str, str]:
    return str(folder / "run"), str(folder / "new.csv")


@dataclass(frozen=True)
class End:
    """How an undisturbed command ends.

    Attributes:
        changes: how many changes of files led there.
        grown: bytes by which the folder grew.
    """

    contents: dict[str, Any]
    changes: int
    grown: int


class Attacks:
    """One verb, begun from the same files as often as wanted, always at the same place."""

    def __init__(self, name: str, base: Path, folder: Path) -> None:
        self.name, verb = name, VERBS[name]
        self.base, self.place, self.log, self.count = base, folder / "work", folder / "log.txt", folder / "count"
        self.words = verb.words(self.place)
        self.again = [*self.words, *verb.again]

    @cached_property
    def end(self) -> End:
        """How an undisturbed command ends."""
        self.begin()
        before = _size(self.place)
        assert self.run(self.words, self.fault()) == 0, self.log.read_text()
        return End(contents(self.place), int(self.count.read_text()), _size(self.place) - before)

    def begin(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.base, self.place)
        self.log.unlink(missing_ok=True)

    def take(self, folder: Path) -> None:
        """Put a folder in place of what the command worked on."""
        shutil.rmtree(self.place)
        folder.rename(self.place)

    def run(self, words: list[str], trouble: Trouble | None = None) -> int | None:
        return small_runs.Command(words, log=self.log, trouble=trouble or self.fault()).wait()

    def fault(self, at: int = 0, kind: Literal["kill", "full"] = "kill") -> FileFault:
        return FileFault(str(self.place), at=at, kind=kind, count=str(self.count))

    def differing(self) -> list[str]:
        """Files that are not as an undisturbed command leaves them."""
        found, expected = contents(self.place), self.end.contents
        names = {key for key in {*found, *expected} if found.get(key) != expected.get(key)}
        return sorted(names | refused_files(self.place))

    def check(self, *what: object, told: bool = False, same_end: bool = True) -> None:
        """Fail where something was lost or a traceback was seen, and count the attack."""
        log = self.log.read_text() if self.log.exists() else ""
        differing = self.differing() if same_end else []
        outcome: Outcome = "traceback" if "Traceback" in log else "lost" if differing else "survived"
        tell("refused" if told and outcome == "survived" else outcome)
        assert outcome == "survived", (what, differing, log)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def contents(folder: Path) -> dict[str, Any]:
    """All files but locks, without times."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".lock" not in path.name
    }


def refused_files(folder: Path) -> set[str]:
    """Files below a folder that are not those of which the checksums are."""
    refused: set[str] = set()
    for path in folder.rglob(CHECKSUMS):
        for name in json.loads(path.read_text())["files"]:
            try:
                CheckedFiles(path.parent).check(name)
            except ModelFolderError:
                refused.add(str((path.parent / name).relative_to(folder)))
    return refused


def _content(path: Path) -> Any:
    if path.name == CHECKSUMS:
        return _without_timed_files(json.loads(path.read_text()))
    if path.suffix == ".json":
        return _without_times(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_without_times(json.loads(line)) for line in path.read_text().splitlines()]
    if path.name == "README.md":
        return re.sub(r"(; |, in )[\d,]+ s( for all)?$", "", path.read_text(), flags=re.MULTILINE)
    return path.read_bytes()


def _without_timed_files(checksums: dict[str, Any]) -> dict[str, Any]:
    """Leave out the checksums of files with times in them."""
    return checksums | {"files": {n: one for n, one in checksums["files"].items() if n not in TIMED_FILES}}


def _without_times(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_times(value) for key, value in tree.items() if key not in TIMED}
    return [_without_times(value) for value in tree] if isinstance(tree, list) else tree
