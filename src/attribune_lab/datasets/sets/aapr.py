"""AAPR: arXiv papers, accepted or not (Yang et al. 2018)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, table_1
from attribune_lab.datasets.row_log import Row, RowLog, SplitName, read_json_object

__all__ = ["AAPR"]

_REJECTED = {"corr", "no"}  # venues of papers that appeared nowhere but on arXiv
_FILES = ("data1", "data2", "data3", "data4")
_AUTHORS = ("authors", "author", "author_id")


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    for role in _FILES:
        # Some copies of the archive hold more beside the papers.
        papers = read_json_object(files[role], role=role, log=log, what="paper", beside="data")
        for place, paper in papers:
            row = _row(paper, log)
            if (
                row is not None
                and log.first("paper", place.removeprefix(f"{files[role]}, paper "), place)
                and log.writable(place, row)
            ):
                yield None, row


def _row(paper: Mapping[str, Any], log: RowLog) -> Row | None:
    texts = {name: str(paper.get(name) or "").strip() for name in ("title", "abstract", "category", "venue")}
    authors = _listed(next((paper[name] for name in _AUTHORS if paper.get(name)), None))
    missing = [name for name in ("abstract", "category", "venue") if not texts[name]] + ["authors"] * (not authors)
    if missing:
        log.leave_out(f"papers without {missing[0]}")
        return None
    return {
        "text": "\n".join(filter(None, (texts["title"], texts["abstract"]))),
        "accepted": "no" if texts["venue"].lower() in _REJECTED else "yes",
        "author": authors,
        "research_area": _listed(texts["category"]),
    }


def _listed(value: Any) -> list[str]:
    """Return a list of names, or the names of a text divided by commas, semicolons or bars."""
    parts = value if isinstance(value, list) else re.split(r"[,;|]", str(value or ""))
    names = (" ".join(str(part).split()) for part in parts)
    return list(dict.fromkeys(name for name in names if name))


AAPR = Card(
    name="aapr",
    title="AAPR",
    source="Pengcheng Yang et al., Peking University (github.com/lancopku/AAPR)",
    obtain=(
        "Download the archive that the repository's page links to and unpack it; the files are AAPR_Dataset/data1 to "
        "AAPR_Dataset/data4."
    ),
    revision=NOT_STATED,
    licence=NOT_STATED,
    terms="arXiv metadata and sources gathered for research; the repository names no licence.",
    citation=(
        "Yang, Sun, Li and Ma 2018, Automatic Academic Paper Rating Based on Modularized Hierarchical Convolutional "
        "Neural Network, ACL"
    ),
    files=tuple(SourceFile(role=name, names=(name, f"AAPR_Dataset/{name}")) for name in _FILES),
    read=_read,
    split=Shuffled(rows=2_000),
    attributes=({"kind": "multi_label", "name": "author"}, {"kind": "multi_label", "name": "research_area"}),
    labels=("accepted",),
    task={"kind": "classification"},
    classes=2,
    metric="accuracy",
    preparation=(
        "Text: title and abstract. A paper whose venue is CoRR or No is not accepted. Papers without abstract, area, "
        "venue or authors are left out."
    ),
    published=table_1(train=33_500, validation=2_000, test=2_000, words=(97, 36), values=51_600, sparse=97.8),
    divergence={"random": 0.693, "majority": 0.693, "author": 1.357, "research_area": 0.665, "all": 0.664},
    notes=(
        "The paper takes the split of Kim et al. 2019 (TACL), which is an archive of its own; this one is drawn anew "
        "with the same sizes. The name of the authors' field differs between descriptions of the files: authors, "
        "author and author_id are read."
    ),
)
