"""Texts that stand in a source more than once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attribune_lab.datasets.row_log import Row, RowLog, SplitName

__all__ = ["without_duplicates", "without_test_texts"]


def without_duplicates(
    rows: Iterable[tuple[SplitName | None, Row]], log: RowLog, *, label: str
) -> Iterator[tuple[SplitName | None, Row]]:
    """Yield the first row of each text; a text that has several labels is left out, all its rows.

    All rows are held in memory, since the last one may contradict the first.
    """
    kept: dict[str, tuple[SplitName | None, Row]] = {}
    disputed: set[str] = set()
    for part, row in rows:
        text = row["text"]
        if text in disputed:
            log.leave_out("texts with several labels")
        elif text not in kept:
            kept[text] = part, row
        elif kept[text][1][label] == row[label]:
            log.leave_out("texts that stand earlier in the files")
        else:
            disputed.add(text)
            del kept[text]
            log.left_out["texts with several labels"] += 2
    yield from kept.values()


def without_test_texts(
    rows: Iterable[tuple[SplitName | None, Row]], log: RowLog
) -> Iterator[tuple[SplitName | None, Row]]:
    """Yield rows, those of the test part first, but no others with the texts of a test row."""
    tested: set[tuple[str, str]] = set()
    for part, row in rows:
        texts = row["text"], row.get("text_pair", "")
        if part == "test":
            tested.add(texts)
        elif texts in tested:
            log.leave_out("training rows with the texts of a test row")
            continue
        yield part, row
