"""What the cards of GLUE and of the sets of Houlsby et al. 2019 make of the files that are there.

    python benchmarks/text_sets.py [--prepared FOLDER]

Prepares each set, also of a part of its files; those without files are passed over. The data are looked for in the
folder that ATTRIBUNE_DATA names. Writes benchmarks/results/text_sets.json.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from harness import DATA, arguments, write_result

from attribune_lab.datasets.card import Card
from attribune_lab.datasets.preparation import prepare
from attribune_lab.datasets.sets import TEXT_SETS
from attribune_lab.datasets.statistics import describe_set


def found(card: Card, source: Path, output: Path) -> dict[str, Any]:
    """Sizes of a set, what was left out, and what differs from its card."""
    done = prepare(card, source=source, output=output, partial=True)
    manifest = done.manifest
    figures = {figure.name: figure.value for figure in describe_set(done)}
    return {
        "files": [file["file"] for file in manifest["origin"]["sources"]],
        "read": manifest["rows_read"],
        "rows": {part: about["rows"] for part, about in manifest["parts"].items()},
        "classes": int(figures.get("classes", 0)),
        "characters": round(figures["characters"], 1),
        **{key: manifest[key] for key in ("left_out", "remarks", "differences")},
    }


def main() -> None:
    parser = arguments(__doc__, "text_sets")
    parser.add_argument("--prepared", type=Path, metavar="FOLDER", help="keep the prepared sets there")
    options = parser.parse_args()
    folders = [DATA, *sorted(entry for entry in DATA.glob("*") if entry.is_dir())]
    sets = {}
    with tempfile.TemporaryDirectory() as scratch:
        for card in TEXT_SETS:
            needed = [file for file in card.files if not file.optional]
            source = next((one for one in folders if all(file.find(one) for file in needed)), None)
            if source is not None:
                sets[card.name] = found(card, source, (options.prepared or Path(scratch)) / card.name)
    write_result(options.output, {"sets": sets})


if __name__ == "__main__":
    main()
