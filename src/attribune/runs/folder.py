"""The folder of a run: its files, and how it is created, resumed and read."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from attribune.core.checksums import CHECKSUMS, CheckedFiles, check_files
from attribune.core.config import checked_record, read_record, read_yaml
from attribune.core.door import as_argument, as_call
from attribune.core.files import json_bytes, move_into_place, read_json_lines, replace_file, writing
from attribune.core.job_folder import Inside, JobFolder
from attribune.errors import ConfigError, ModelFolderError
from attribune.models.folder import CARD, CONFIG, OLD_MODEL, SCHEMA, TENSORS, ModelFolder
from attribune.models.sizes import Sizes
from attribune.runs.recipe import RECIPE_END, Recipe
from attribune.runs.results import RunResults
from attribune.runs.training_record import TrainingRecord
from attribune.schema import Schema

SEARCH_PLAN = "search.json"
"""The plan of a search, whose folder has a recipe too, that of the best trial."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class RunFolder(JobFolder):
    """Paths inside the folder of a run; the plan is the recipe with resolved defaults, the summary are the results."""

    contents = "run"
    plan_name = "recipe.yaml"
    summary_name = "metrics.json"

    rows = Inside("rows.json")
    """The checksum of the rows of the run."""
    model = Inside("model")
    """The model's folder."""
    outcome = Inside("training.json")
    """How the training went; written after the model."""
    log = Inside("log.jsonl")
    """Losses and metrics during training, one JSON object per line."""
    checkpoints = Inside("checkpoints")
    """The checkpoints that an interrupted training resumes from; removed at the end."""
    trials = Inside("trials")
    """The records of the trials of a method that searches by itself."""
    bake_off = Inside("bake_off.json")
    """What came of the bake-off that chose the method, if one did."""
    bake_off_runs = Inside(".bake_off")
    """The trainings of a bake-off; removed at its end."""
    folds = Inside(".folds")
    """The trainings of a cross-validation; removed at its end."""
    page = Inside("report.html")
    """The HTML report, if there is one."""
    tensorboard = Inside("tensorboard")
    """The files of TensorBoard, if it was used."""
    _old_model = Inside(OLD_MODEL)
    _new_model = Inside(".model.new")

    @classmethod
    def of(cls, path: str | Path) -> RunFolder:
        """Return the run of a folder: its own, or that around the folder of its model."""
        folder = cls(Path(path))
        around = cls(folder.path.parent)
        is_model = folder.path.is_dir() and folder.path.name == around.model.name
        return around if is_model and not folder.is_begun and around.is_begun else folder

    @property
    def is_model_alone(self) -> bool:
        """Whether the folder is that of a saved or exported model, without a run."""
        return not self.is_begun and (self.path / CONFIG).is_file() and (self.path / TENSORS).is_file()

    def fold(self, number: int) -> RunFolder:
        """The training that scores the rows of a fold."""
        return RunFolder(self.folds / str(number))

    def predictions(self, part: str) -> Path:
        """Labels, predictions and probabilities of every row of a part."""
        return self.path / f"{part}_predictions.parquet"

    def logits(self, part: str) -> Path:
        """Rows, labels and logits of a part, for comparisons."""
        return self.path / f"{part}_logits.safetensors"

    @property
    def comparisons(self) -> list[RunFolder]:
        """The runs that were trained beside this one for comparison."""
        return [RunFolder(path) for path in sorted(self.path.glob("compare/*/"))]

    @contextmanager
    def held(self, *, wait: bool = False) -> Iterator[None]:
        """Hold the folder as `JobFolder.held` does, with what an interruption left half done brought to an end."""
        with super().held(wait=wait):
            for folder in (self, *self.comparisons):
                folder._files.settle()
            yield

    @property
    def _files(self) -> CheckedFiles:
        """The files of the run itself; those of the model have checksums of their own."""
        return CheckedFiles(self.path)

    def checked(self, file: Path) -> Path:
        """Return a file of the folder; ModelFolderError when it has changed since the run wrote it."""
        self._files.check(file.name)
        return file

    def check(self) -> None:
        """Check all files of the run itself; ModelFolderError when one has changed since the run wrote it."""
        self._files.check_all()

    def read_recipe(self) -> Recipe:
        """Read the recipe; ModelFolderError when there is none or it is damaged, ConfigError when it is invalid."""
        self._require_begun()
        if (self.path / SEARCH_PLAN).is_file() and not self.outcome.is_file():
            raise ModelFolderError(
                f"{self.path} is the folder of a search, not of a run: train the best settings, which are "
                f"in {self.plan_file}, and give the folder of that training"
            )
        settings = read_yaml(self.checked(self.plan_file))
        if not self.plan_file.read_text(encoding="utf-8").endswith(RECIPE_END):
            raise ModelFolderError(
                f"{self.plan_file} is truncated or not the recipe of a run, it does not end in {RECIPE_END.strip()!r}: "
                "restore the file"
            )
        return Recipe.from_dict(settings, source=str(self.plan_file), saved=True)

    def _require_begun(self) -> None:
        """Raise a ModelFolderError where there is no run."""
        if self.is_begun:
            return
        if self.is_model_alone:
            raise ModelFolderError(
                f"{self.path} is not the folder of a run, but a model alone, which has no recipe and no results: "
                "give the run's folder; models alone are for `Predictor` and for `attribune predict`, `generate` "
                "and `serve`"
            )
        if self.path.is_file():
            raise ModelFolderError(f"{self.path} is a file: give the folder of a run")
        names = sorted(os.listdir(self.path))[:8] if self.path.is_dir() else ["no such folder"]
        raise ModelFolderError(
            f"{self.path} is not the folder of a run, it has no recipe.yaml ({', '.join(names) or 'empty'}): "
            f"give a folder that {as_call('train')} wrote"
        )

    def read_results(self) -> RunResults:
        """Read ``metrics.json``; ModelFolderError when the run is not finished, or the file is damaged."""
        if not self.is_finished:
            self._require_begun()
            raise ModelFolderError(
                f"{self.path} is not a finished run, it has no metrics.json: repeat its training with "
                f"{as_argument('resume', True, at='train')}"
            )
        return RunResults.read(self.checked(self.summary_file))

    def write_results(self, results: RunResults) -> None:
        """Write ``metrics.json``, which marks the run as finished; from then on all files of the run have checksums."""
        others = (self.plan_file, self.rows, self.bake_off)
        self._files.add([file.name for file in others if file.is_file()])
        self._write({self.summary_file: json_bytes(results.to_dict(), indent=1)}, "the results cannot be written")

    def read_outcome(self, sizes: Sizes) -> TrainingRecord:
        """Read how the training went; ModelFolderError when the file is missing or damaged.

        Args:
            sizes: of the model, where the file does not have them.
        """
        outcome = read_record(self.checked(self.outcome), dict[str, Any], what="training record")
        record = {"parameters": asdict(sizes), **outcome}
        return checked_record(record, TrainingRecord, source=self.outcome, what="training record")

    def read_schema(self) -> Schema:
        """Read the schema of the run's model; ModelFolderError when it is missing or damaged."""
        path = self.model / SCHEMA

        def read() -> Schema:
            if not path.is_file():
                return Schema.load(ModelFolder.find(self.model).schema)
            check_files(self.model, {SCHEMA, *Schema.files_beside(path)})
            return Schema.load(path)

        return self.read_from_model(read)

    def read_log(self) -> list[dict[str, Any]]:
        """Read the losses and metrics of the steps; ModelFolderError for a log with anything but numbers."""
        lines = read_json_lines(self.checked(self.log))
        checked_record(lines, list[dict[str, float]], source=self.log, what="log of the training")
        return lines

    def compared(self) -> list[str]:
        """Methods whose comparison with this run is finished."""
        return sorted(path.parent.name for path in self.path.glob("compare/*/metrics.json"))

    def begin(self, recipe: Recipe, *, resume: bool) -> Recipe:
        """Create the folder and write the recipe, or check that of an interrupted run; returns the recipe.

        Raises:
            ConfigError: when the folder has a run already, or another recipe, naming what differs.
            ModelFolderError: when it cannot be written.
        """
        self.refuse_foreign()
        if self.is_begun:
            return self._continue(recipe, resume=resume)
        self.write_plan(recipe.to_yaml().encode())
        self._files.add([self.plan_name])
        return recipe

    def replace_recipe(self, recipe: Recipe) -> None:
        """Write what was found out about the rows into the recipe; ModelFolderError when it cannot be written."""
        self._write({self.plan_file: recipe.to_yaml().encode()}, "the recipe cannot be written")

    def _continue(self, recipe: Recipe, *, resume: bool) -> Recipe:
        if not resume:
            state = (
                "a finished run"
                if self.is_finished
                else f"an interrupted run, which {as_argument('resume', True)} continues"
            )
            raise ConfigError(f"{self.path} has {state}: choose another output folder, or remove this one first")
        saved, given = self.read_recipe(), recipe.model_dump()
        self._keep_before(saved, given)
        if Path(recipe.backbone.name).absolute() == Path(saved.backbone.name).absolute():
            given["backbone"]["name"] = saved.backbone.name
        different = [
            f"{key}: {old!r} in the run, {new!r} now" for key, old, new in _differences(saved.model_dump(), given)
        ]
        if different:
            raise ConfigError(
                f"{self.path} was started with other settings ({'; '.join(different[:5])}): give the same ones, or "
                "choose another output folder"
            )
        return saved

    @staticmethod
    def _keep_before(saved: Recipe, given: dict[str, Any]) -> None:
        """Leave as they were the settings that a run of an earlier version lacks, unless others are given."""
        for group, settings in (("data", saved.data), ("training", saved.training)):
            for name, value in settings.before.items():
                is_default = given[group][name] == type(settings).model_fields[name].default
                if is_default and getattr(settings, name) == value:
                    given[group][name] = value

    def discard(self) -> None:
        """Undo `begin` if nothing was trained, so that the folder can be used again."""
        trained = (self.checkpoints.glob("*/trainer_state.json"), self.trials.glob("*/result.json"))
        if self.outcome.is_file() or any(map(any, trained)):
            return
        for folder in (self.checkpoints, self.trials, self.model, self.tensorboard):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self._files.file, self.log, self.rows, self.plan_file):
            file.unlink(missing_ok=True)
        self.remove_lock()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def write_predictions(self, part: str, *, table: bytes, logits: bytes) -> None:
        """Write both files of predictions of a part; ModelFolderError when that fails."""
        files = {self.predictions(part): table, self.logits(part): logits}
        self._write(files, f"the predictions of the {part} rows cannot be written")

    def write_card(self, text: str) -> None:
        """Write the model's card; ModelFolderError when that fails."""
        with _writing(f"the model card cannot be written to {self.model}"):
            replace_file(self.model / CARD, text.encode())

    def write_outcome(self, outcome: dict[str, Any]) -> None:
        """Record that the model is complete, and when; the log of its training is complete too."""
        finished = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        log = {self.log: self.log.read_bytes()} if self.log.is_file() else {}
        record = json_bytes({**outcome, "finished": finished})
        self._write({**log, self.outcome: record}, "the training record cannot be written")

    def _write(self, files: Mapping[Path, bytes], failure: str) -> None:
        """Replace files of the folder and their checksums."""
        with _writing(f"{failure} to {self.path}"):
            self._files.write({file.name: content for file, content in files.items()})

    def replace_model(self, save: Callable[[Path], Any]) -> None:
        """Replace the run's model, in a run that is `held`; an interruption leaves the old or the new one.

        Args:
            save: writes the new model into a folder.

        Raises:
            ModelFolderError: when it cannot be written; the earlier model is still complete.
        """
        self.recover_model()
        try:
            with writing(f"the model of {self.path} cannot be replaced", then="; the earlier model is still whole"):
                save(self._new_model)
                self.model.rename(self._old_model)
                move_into_place(self._new_model, self.model)
        finally:
            self.recover_model()

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Hold a finished run, for a change of its model.

        Raises:
            HeldError: when another process works in the folder.
            ModelFolderError: for an interrupted run, whose checkpoints and scores are of the model as it is, or none.
        """
        self._require_begun()  # holding it would make a folder that is gone
        with self.held():
            self.require_finished()
            self.recover_model()
            yield

    def require_finished(self) -> None:
        """Raise a ModelFolderError for an interrupted run."""
        if not (self.is_finished and self.outcome.is_file()):
            raise ModelFolderError(
                f"{self.path} is an interrupted run, whose checkpoints have the values as they are: first repeat its "
                f"training with {as_argument('resume', True, at='train')}"
            )

    def recover_model(self) -> None:
        """Restore the model that an interrupted `replace_model` had moved, or remove it if the new one is in place.

        For a run that is `held`, or another process may be replacing the model just now.
        """
        shutil.rmtree(self._new_model, ignore_errors=True)
        if not self._old_model.is_dir():
            return
        if self.model.exists():
            shutil.rmtree(self._old_model, ignore_errors=True)
        else:
            self._old_model.rename(self.model)

    def read_from_model(self, read: Callable[[], Read]) -> Read:
        """Return what a function reads from the model's folder, once more if that was replaced in the meantime."""
        inode = self.model_inode
        try:
            return read()
        except ModelFolderError:
            if not self.is_held() and self.model_inode == inode:
                raise
            with self.held(wait=True):
                return read()

    def complete_model(self) -> None:
        """Restore the model after an interrupted `replace_model`; waits for a process that replaces it just now."""
        if self._old_model.is_dir() and not self.model.exists():
            with self.held(wait=True):
                self.recover_model()

    @property
    def model_inode(self) -> int | None:
        """The inode of the model folder, another one after `replace_model`; None between its two steps."""
        mark = _mark(self.model)
        return None if mark is None else mark[0]

    @property
    def model_mark(self) -> tuple[tuple[int, int, int] | None, ...]:
        """What is another after any change of the model's files: inode, size and time of each, None without one."""
        return tuple(_mark(self.model / name) for name in (CONFIG, SCHEMA, TENSORS, CHECKSUMS))


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _writing(failure: str) -> AbstractContextManager[None]:
    return writing(failure, then=f", then repeat the training with {as_argument('resume', True, at='train')}")


def _differences(old: Any, new: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """List the leaves in which two trees differ; a new setting left to its default (None, auto) agrees with any."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new or new in (None, "auto") else [(prefix, old, new)]
    return [
        difference
        for key in sorted({*old, *new})
        for difference in _differences(old.get(key), new.get(key), f"{prefix}.{key}".removeprefix("."))
    ]
