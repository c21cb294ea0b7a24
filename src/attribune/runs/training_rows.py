"""Rows on whose texts a run was trained, so that its figures of them are too high."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from datasets import Dataset

from attribune.data.tables import read_table
from attribune.data.texts import share_texts
from attribune.errors import AttribuneError
from attribune.runs.folder import RunFolder
from attribune.runs.stored_scores import StoredScores

__all__ = ["rows_of_training"]


def rows_of_training(folder: RunFolder, rows: Dataset) -> int:
    """Count rows whose text is among those of the training rows of a run; 0 where these cannot be read any more.

    Rows whose predictions were removed with a value are not told from training rows: so many are not counted.
    """
    try:
        data, parts = folder.read_recipe().data, StoredScores.read(folder.path).parts
        counts = folder.read_results().rows
        if not Path(data.train).exists():  # nor is the standard input read, or the hub asked
            return 0
        table = read_table(data.train, **data.reading)
    except (AttribuneError, OSError):
        return 0
    is_training, removed = np.ones(len(table), dtype=bool), 0
    for part, arrays in parts.items():
        if getattr(data, part) is None:  # it was cut from the training file
            if int(arrays["rows"].max(initial=-1)) >= len(table):
                return 0
            is_training[arrays["rows"]] = False
            removed += max(counts.get(part, 0) - len(arrays["rows"]), 0)
    if any(name not in table.column_names for name in data.texts):
        return 0
    shared = share_texts(table.select(np.flatnonzero(is_training)), rows, text=data.texts)
    return max(shared - removed, 0)
