"""Verbs that write, as often as wanted from the same files, and what they leave behind.

``ATTRIBUNE_ATTACKS`` says how often tests attack; with 1000, for an hour or more.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import small_runs
import yaml
from lab_methods import HAS_LAB
from tally import Outcome, tell
from token_tables import spans_command, tags_command
from troubles import FileFault, Trouble

from attribune.core.checksums import CHECKSUMS, CheckedFiles
from attribune.errors import ModelFolderError

ATTACKS = int(os.environ.get("ATTRIBUNE_ATTACKS", "1"))
NEW = small_runs.reviews(40, seed=9, users=12)  # users 7 to 11 are new
# What differs from one undisturbed run to the next.
TIMED = {
    *("seconds", "train_seconds", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"),
    *("peak_mb", "finished"),
}
TIMED_FILES = ("bake_off.json", "cell.json", "log.jsonl", "metrics.json", "training.json")


def verbs(folder: Path) -> dict[str, list[str]]:
    """The words of each command that writes, of which those of a training go on with it, too."""
    run, rows = str(folder / "run"), str(folder / "new.csv")
    new = {"output": folder / "new", "backbone": folder / "backbone"}
    training = small_runs.train_command(folder / "data.csv", **new)
    found = {
        "train": [*training, "training.evaluate_every=2", "--resume"],
        "train linear": [*small_runs.train_command(folder / "data.csv", method="linear", **new), "--resume"],
        "predict": ["predict", run, rows, "--output", str(folder / "predictions.parquet")],
        "predict to a folder": ["predict", run, rows, "--output", str(folder / "parts")],
        "enrol": ["enrol", run, rows],
        "forget": ["forget", run, "--attribute", "user", "--value", "u3"],
        "report": ["report", run],
        "explain": ["explain", run, rows, "--output", str(folder / "explain.html")],
        "export": ["export", run, "--for", "user=u1", "--output", str(folder / "exported")],
        "search": ["search", *training[1:], "--trials", "2"],
        "train with others": [*training, "--compare", "none", "--resume"],
        "train tags": [*tags_command(folder / "tags.jsonl", **new), "--resume"],
        "train spans": [*spans_command(folder / "spans.jsonl", **new), "--resume"],
    }
    if HAS_LAB:
        source, prepared = str(folder / "source"), str(folder / "set")
        experiment, cells = str(folder / "experiment.yaml"), str(folder / "cells")
        found["data prepare"] = ["data", "prepare", "critics", "--partial", "--source", source, "--output", prepared]
        found["benchmark"] = ["benchmark", "run", experiment, "--output", cells]
    return found


VERBS = tuple(verbs(Path()))


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
        self.name = name
        self.base, self.place, self.log, self.count = base, folder / "work", folder / "log.txt", folder / "count"
        self.words = verbs(self.place)[name]

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
