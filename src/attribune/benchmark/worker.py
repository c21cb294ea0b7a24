"""One process of several that run the cells of a benchmark: ``python -m attribune.benchmark.worker FOLDER SET ...``."""

from __future__ import annotations

import sys
from pathlib import Path

from attribune.benchmark.experiment import Cell
from attribune.benchmark.results import BenchmarkFolder
from attribune.benchmark.runner import Progress, run_cells
from attribune.cli.console import quiet_libraries
from attribune.training.progress import Reporter


def main() -> int:
    """Run cells until none is left; 1 if one failed."""
    quiet_libraries()
    folder = BenchmarkFolder(Path(sys.argv[1]))
    failed = run_cells(folder.experiment().on(sys.argv[2:]), folder, progress=Progress(cell=_tell, reporter=Reporter()))
    return 1 if failed else 0


def _tell(cell: Cell, word: str) -> None:
    sys.stderr.write(f"{cell.path}: {word}\n")


if __name__ == "__main__":
    sys.exit(main())
