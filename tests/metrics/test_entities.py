"""Entities as conlleval finds them, against its rules written out, and against counts made by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from attribune.tasks import Tags
from attribune.tasks.tags import split_tag
from attribune.tasks.tokens import object_array

CLASSES = ["O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"]


def entities(tags: list[str]) -> set[tuple[str, int, int]]:
    """The rules of endOfChunk and startOfChunk in conlleval, with S as its successors have it, word by word."""
    found, start, before, kind_before = set(), None, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        position, _, kind = tag.partition("-")
        ends = (
            before in ("E", "S")
            or (before in ("B", "I") and position in ("B", "S", "O"))
            or (before != "O" and kind_before != kind)
        )
        if ends and start is not None:
            found.add((kind_before, start, place))
            start = None
        begins = (
            position in ("B", "S")
            or (before in ("E", "S", "O") and position in ("E", "I"))
            or (position != "O" and kind_before != kind)
        )
        if begins:
            start = place
        before, kind_before = position, kind
    return found


def score(task: Tags, true: list[list[str]], predicted: list[list[str]]) -> dict[str, float]:
    labels, _ = task.encode_labels([true])
    logits = object_array([np.eye(task.outputs)[[task.classes.index(tag) for tag in row]] for row in predicted])
    return {name: metric.value() for name, metric in task.metrics(logits, labels).items()}


def test_f1_is_that_of_conlleval() -> None:
    chance, task = random.Random(5), Tags(classes=CLASSES, scheme="conll")
    for _ in range(60):
        sizes = [chance.randrange(9) for _ in range(6)] + [3]
        true, predicted = ([chance.choices(CLASSES, k=size) for size in sizes] for _ in range(2))
        for row, own in zip(true, predicted, strict=True):
            own[: len(row) // 2] = row[: len(row) // 2]  # so that some entities are the same
        pairs = [(entities(a), entities(b)) for a, b in zip(true, predicted, strict=True)]
        hits, wanted, given = (
            sum(map(len, sets)) for sets in ([a & b for a, b in pairs], [a for a, _ in pairs], [b for _, b in pairs])
        )
        figures = score(task, true, predicted)
        assert figures["precision"] == pytest.approx(hits / given)
        assert figures["recall"] == pytest.approx(hits / wanted)
        assert figures["f1"] == pytest.approx(2 * hits / (given + wanted))
        words = [a == b for one, two in zip(true, predicted, strict=True) for a, b in zip(one, two, strict=True)]
        assert figures["accuracy"] == pytest.approx(np.mean(words))


@pytest.mark.parametrize(
    ("true", "predicted", "hits", "given", "wanted"),
    [
        ("B-PER I-PER O", "I-PER I-PER O", 1, 1, 1),  # inside without a beginning begins one
        ("B-PER B-PER", "I-PER I-PER", 0, 1, 2),
        ("I-PER I-LOC", "B-PER B-LOC", 2, 2, 2),  # another type is another entity
        ("B-PER I-PER E-PER", "B-PER I-PER I-PER", 1, 1, 1),
        ("S-PER S-PER", "B-PER B-PER", 2, 2, 2),
        ("E-PER I-PER", "S-PER B-PER", 2, 2, 2),
        ("B-PER I-PER | I-PER", "B-PER I-PER | I-PER", 2, 2, 2),  # no entity goes on in the next row
        ("B-PER I-PER I-PER", "B-PER I-PER O", 0, 1, 1),
        ("B-PER I-PER", "B-LOC I-LOC", 0, 1, 1),
        ("O O", "O O", 0, 0, 0),
    ],
)
def test_counts_by_hand(true: str, predicted: str, hits: int, given: int, wanted: int) -> None:
    rows = [[part.split() for part in text.split("|")] for text in (true, predicted)]
    figures = score(Tags(classes=CLASSES, scheme="conll"), *rows)
    assert figures["precision"] == (hits / given if given else 0)
    assert figures["recall"] == (hits / wanted if wanted else 0)
    assert figures["f1"] == pytest.approx(2 * hits / (given + wanted) if given else 0)


def test_tags_that_training_lacks_are_entities_of_their_own() -> None:
    """Also with a known type: B-PER and an unseen I-PER are one entity, which B-PER alone is not."""
    task = Tags(classes=["O", "B-PER", "B-LOC"], scheme="conll")
    true = [["B-PER", "I-PER", "O", "B-NEW", "I-NEW", "I-NEWER", "odd", "odd"]]
    figures = score(task, true, [["B-PER", "O", "O", "O", "O", "O", "O", "B-PER"]])
    assert (figures["precision"], figures["recall"]) == (0, 0)
    assert figures["accuracy"] == 2 / 8
    labels, _ = task.encode_labels([true])
    rows = np.zeros(8, dtype=np.int64)
    from attribune.tasks.tags import count_entities

    positions = task.codec.parts_of(np.array(labels[0]))
    assert [int(counts[0]) for counts in count_entities(positions, positions, rows, count=1)] == [5, 5, 5]


def test_tags_are_told_apart() -> None:
    assert split_tag("B-per-son") == (1, "per-son")
    assert split_tag("U-X") == split_tag("S-X")
    assert split_tag("L-X") == split_tag("E-X")
    assert split_tag("NOUN") is None
    assert Tags.fit([[["NN", "VB"], ["NN"]]]).scheme == "none"
    assert Tags.fit([[["O", "B-X"], ["I-X"]]]).scheme == "conll"
    assert Tags.fit([[["B", "I", "O"]]]).scheme == "conll"
    assert Tags.fit([[["O", "I"], ["S"]]]).scheme == "none"  # letters alone may be anything
    assert Tags.fit([[["O", "B-X", "?"]]]).scheme == "none"
