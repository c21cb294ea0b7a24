"""Prepared data sets in their folders, and the checksums of what they were made of."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attribune.core.files import read_json, replace_file, write_json
from attribune.core.hashing import file_sha256, sha256
from attribune.core.job_folder import JobFolder
from attribune.data.text_files import readable
from attribune.errors import DataError, ModelFolderError
from attribune_lab.datasets.row_log import PARTS, SplitName

MANIFEST = "manifest.json"
RECIPE = "recipe.yaml"
ALL = "all"
"""The part of a set with folds."""


@dataclass(frozen=True, kw_only=True)
class PreparedSet:
    """A prepared data set in its folder.

    Args:
        manifest: counts, checksums, columns, what was left out.
        reused: whether it was prepared before.
    """

    folder: Path
    manifest: Mapping[str, Any]
    reused: bool = False

    @property
    def folds(self) -> int:
        """Number of folds for cross-validation; 0 for a set with given parts."""
        return int(self.manifest["folds"])

    @property
    def pair(self) -> bool:
        """Whether a row has a second text, the column ``text_pair``."""
        return bool(self.manifest.get("pair", False))

    @property
    def prompt(self) -> bool:
        """Whether a row has what its texts answer, the column ``prompt``."""
        return bool(self.manifest.get("prompt", False))

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes, and not numbers or answers."""
        return self.manifest.get("task", {}).get("kind") not in ("regression", "spans")

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of the texts that are read together."""
        return (*(["prompt"] if self.prompt else []), "text", *(["text_pair"] if self.pair else []))

    def file(self, part: str) -> Path:
        """Return the Parquet file of a part; ``all`` for a set with folds."""
        return self.folder / str(self.manifest["parts"][part]["file"])

    def parts(self, fold: int = 0) -> dict[SplitName, pa.Table]:
        """Return the rows of each part; with folds, `fold` is the test part, the next one the validation part."""
        if not self.folds:
            return {part: pq.read_table(self.file(part)) for part in PARTS}
        table = pq.read_table(self.file(ALL))
        folds = table["fold"].to_numpy()
        table = table.drop_columns(["fold"])
        masks = {"test": folds == fold % self.folds, "validation": folds == (fold + 1) % self.folds}
        masks["train"] = ~(masks["test"] | masks["validation"])
        return {part: table.filter(pa.array(masks[part])) for part in PARTS}


def load_prepared(folder: str | Path) -> PreparedSet:
    """Open a set that `prepare` wrote.

    Raises:
        DataError: for a folder without a manifest, or with a part that is missing or of another size.
    """
    prepared = PreparedFolder(Path(folder))
    if not prepared.is_finished:
        raise DataError(
            f"{folder} holds no prepared data set (no {MANIFEST}): make one of the files of its "
            f"source with `attribune data prepare`"
        )
    manifest = prepared.read_manifest()
    if (damaged := prepared.damaged_file(manifest)) is not None:
        raise DataError(f"{damaged} is missing or not as it was prepared: prepare the set again")
    return PreparedSet(folder=prepared.path, manifest=manifest, reused=True)


@dataclass(frozen=True)
class PreparedFolder(JobFolder):
    """The folder of a prepared set; the plan, its origin, is removed once the manifest, the summary, is written."""

    contents = "prepared data set"
    plan_name = ".unfinished"  # earlier releases left it empty
    summary_name = MANIFEST

    @property
    def is_begun(self) -> bool:
        """Whether files in the folder are those of a preparation, finished or interrupted."""
        return super().is_begun or self.is_finished

    def finished(self, origin: Mapping[str, Any]) -> PreparedSet | None:
        """Return the set if all its files are there.

        Raises:
            ConfigError: for a folder of something else.
            DataError: for a set of another origin, or a damaged manifest.
        """
        self.refuse_foreign()
        if not self.is_finished:
            return None
        manifest = self.read_manifest()
        if manifest["origin"] != origin:
            raise DataError(
                f"{self.path} holds {manifest['name']}, prepared from other files or with other settings: choose "
                "another folder, or remove that one"
            )
        if self.damaged_file(manifest) is not None:
            return None
        return PreparedSet(folder=self.path, manifest=manifest, reused=True)

    def begin(self, origin: Mapping[str, Any]) -> None:
        """Write the plan, and remove the manifest of a damaged set and drafts left by an interruption."""
        self.write_plan(json.dumps(origin).encode())
        for path in (self.summary_file, *self.path.glob(".*.parquet.*.tmp")):
            path.unlink(missing_ok=True)

    def finish(self, manifest: Mapping[str, Any], recipe: str) -> None:
        """Write the recipe and the manifest, and remove the plan."""
        replace_file(self.path / RECIPE, recipe.encode())
        write_json(self.summary_file, manifest, what="manifest", indent=1)
        self.plan_file.unlink(missing_ok=True)

    def read_manifest(self) -> dict[str, Any]:
        """Read the manifest; a DataError for the file of something else."""
        manifest = None
        with contextlib.suppress(ModelFolderError):
            manifest = read_json(self.summary_file, what="manifest")
        if not isinstance(manifest, dict) or not {"name", "folds", "origin", "parts"} <= manifest.keys():
            raise DataError(
                f"{self.summary_file} is damaged, or no manifest of a prepared data set: choose another folder, or "
                "remove that file and prepare the set again"
            )
        return manifest

    def damaged_file(self, manifest: Mapping[str, Any]) -> Path | None:
        """Return the first file that is missing or of another size; None if there is none."""
        files = (*manifest["parts"].values(), *manifest.get("values", {}).values())
        sizes = {self.path / str(file["file"]): file["bytes"] for file in files}
        return next((path for path, size in sizes.items() if not path.is_file() or path.stat().st_size != size), None)


def sha256_of(path: Path) -> str:
    """Return the checksum of a file, or that of the names and checksums of the files in a folder."""
    if path.is_dir():
        listed = (f"{file.relative_to(path).as_posix()}\0{sha256_of(file)}\n" for file in _files_in(path))
        return sha256(map(str.encode, listed))
    with readable(path):
        return file_sha256(path)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder."""
    return sum(file.stat().st_size for file in _files_in(path)) if path.is_dir() else path.stat().st_size


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())
