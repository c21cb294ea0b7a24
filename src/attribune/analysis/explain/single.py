"""Explanation of one row: counterfactual predictions, and the occlusion of each word with and without attributes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.analysis.explain.scores import numbers_of
from attribune.core.arrays import IntArray
from attribune.data.readers.base import EncodedRows
from attribune.errors import ConfigError, DataError
from attribune.models.predictor import Predictor
from attribune.schema.schema import assigned_ids, assignments_text

__all__ = ["counterfactuals", "word_occlusion"]

_WORD_LIMIT = 400
_BATCH_SIZE = 64


def counterfactuals(
    predictor: Predictor,
    text: str,
    ids: IntArray,
    *,
    instead: Sequence[Mapping[str, Sequence[str]]],
    top: int,
    second: str = "",
) -> list[dict[str, Any]]:
    """Predict a text with its own attributes, without them, and with other values in their place.

    Args:
        second: the second text, for models that read pairs.
        ids: (slots,), the attributes of the row.
        instead: values that replace the row's own, one set for each prediction, the other attributes staying as they
            are; without any set, the `top` most frequent values of each attribute.

    Returns:
        For each prediction ``as`` in words, ``prediction`` and ``numbers`` by name.
    """
    attributes = tuple(predictor.schema) if predictor.reads_attributes else ()
    cases = [("as given", ids)]  # names may be equal: that of an attribute may be "attributes"
    if attributes:
        cases.append(("attributes hidden", np.zeros_like(ids)))
    if len(attributes) > 1:
        cases += [(f"{one.name} hidden", _replaced(ids, one.columns, 0)) for one in attributes]
    for assignments in instead:
        changed, assigned = ids.copy(), assigned_ids(predictor.schema, assignments)
        for name in assignments:
            columns = predictor.schema[name].columns
            changed[columns] = assigned[columns]
        cases.append((assignments_text(assignments), changed))
    for attribute in () if instead else attributes:
        for index in np.argsort(-attribute.counts[1:], kind="stable")[: top if len(attribute.values) else 0].tolist():
            value = f"{attribute.name}={attribute.values[index]}"
            cases.append((value, _replaced(ids, attribute.columns, index + 1)))
    logits = predictor.score(rows_of(predictor, [(text, second)] * len(cases), np.stack([ids for _, ids in cases])))
    numbers, names = numbers_of(predictor, logits)
    predictions = predictor.task.decode(logits).predictions
    return [
        {
            "as": name,
            "prediction": {
                column.removeprefix("prediction_"): _plain(values[row]) for column, values in predictions.items()
            },
            "numbers": dict(zip(names, numbers[row].tolist(), strict=True)),
        }
        for row, (name, _) in enumerate(cases)
    ]


def _replaced(ids: IntArray, columns: slice, value: int) -> IntArray:
    """Return the ids with one value of an attribute; 0 hides it."""
    changed = ids.copy()
    changed[columns] = 0
    changed[columns.start] = value
    return changed


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def rows_of(predictor: Predictor, texts: Sequence[tuple[str, str]], ids: IntArray) -> EncodedRows:
    """Encode texts, each with a second one that models without pairs do not read, with ids (n, slots) of attributes."""
    columns: dict[str, list[str | None]] = {name: [None] * len(texts) for name in predictor.columns}
    columns[predictor.text_input.columns[0]] = [text for text, _ in texts]
    for name in predictor.text_input.pair[:1]:
        columns[name] = [second for _, second in texts]
    return predictor.encode_rows(columns).with_attribute_ids(ids)


def word_occlusion(predictor: Predictor, text: str, ids: IntArray, *, second: str = "") -> dict[str, Any]:
    """Measure the effect of each word on the largest predicted number, with the attributes and without any.

    The effect of a word is that number less the one of the same text without the word (captum's feature ablation over
    words), so that it means the same for every backbone and for linear baselines.

    Args:
        ids: (slots,), the attributes of the row.
        second: the second text, for models that read pairs; its words are weighed, too.

    Returns:
        The number's name under ``of``, and for each word in the order of the text ``given`` and ``hidden``.

    Raises:
        ConfigError: without captum.
        DataError: for a text without words.
    """
    if importlib.util.find_spec("captum") is None:
        raise ConfigError("the words of a row are weighed with captum: pip install 'attribune[explain]'")
    words = [*((word, 0) for word in text.split()), *((word, 1) for word in second.split())]
    left_out, words = len(words[_WORD_LIMIT:]), words[:_WORD_LIMIT]
    if not words:
        raise DataError("the row has no text whose words could be weighed: choose another row")
    numbers, names = numbers_of(predictor, predictor.score(rows_of(predictor, [(text, second)], ids[None])))
    target = int(numbers[0].argmax())
    given, hidden = (_word_effects(predictor, words, shown, target) for shown in (ids, np.zeros_like(ids)))
    effects = [
        {"word": word, "given": float(a), "hidden": float(b)}
        for (word, _), a, b in zip(words, given, hidden, strict=True)
    ]
    return {"of": names[target], "words": effects, "left_out": left_out}


def _word_effects(
    predictor: Predictor, words: Sequence[tuple[str, int]], ids: IntArray, target: int
) -> npt.NDArray[np.float32]:
    from captum.attr import FeatureAblation

    def score(present: Tensor) -> Tensor:
        texts = [_joined([word for word, shown in zip(words, mask, strict=True) if shown]) for mask in present.tolist()]
        logits = predictor.score(rows_of(predictor, texts, np.repeat(ids[None], len(texts), axis=0)))
        return torch.from_numpy(numbers_of(predictor, logits)[0][:, target])

    effects = FeatureAblation(score).attribute(
        torch.ones(1, len(words)), baselines=torch.zeros(1, len(words)), perturbations_per_eval=_BATCH_SIZE
    )
    return np.asarray(effects[0])


def _joined(words: Sequence[tuple[str, int]]) -> tuple[str, str]:
    first, second = (" ".join(word for word, of in words if of == text) for text in (0, 1))
    return first, second
