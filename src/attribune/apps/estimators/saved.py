"""A model in memory, as estimators are pickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from attribune.models.predictor import Predictor

__all__ = ["PackedPredictor", "saved_model"]


@contextmanager
def saved_model(predictor: Predictor) -> Iterator[Path]:
    """Save the model of a predictor into a folder that lasts as long as the block."""
    with TemporaryDirectory(prefix="attribune-") as name:
        folder = Path(name)
        predictor.model.save_pretrained(folder)
        yield folder


@dataclass(frozen=True, kw_only=True)
class PackedPredictor:
    """What a predictor is made of again.

    Attributes:
        files: the content of the model's files by their paths; the backbone's own weights are not among them.
        options: further arguments of `Predictor.from_pretrained`.
    """

    files: Mapping[str, bytes]
    options: Mapping[str, Any]

    @classmethod
    def of(cls, predictor: Predictor) -> Self:
        """Pack a predictor."""
        with saved_model(predictor) as folder:
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        names = ("precision", "batch_size", "text_input")
        return cls(files=files, options={name: getattr(predictor, name) for name in names})

    def unpack(self, *, backbone: str | Path | None) -> Predictor:
        """Return the predictor; ConfigError where its backbone cannot be loaded, ModelFolderError for another one."""
        with TemporaryDirectory(prefix="attribune-") as name:
            for path, content in self.files.items():
                file = Path(name, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            return Predictor.from_pretrained(name, backbone=backbone, **self.options)
