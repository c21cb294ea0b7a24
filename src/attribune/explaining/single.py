"""One row: what would be predicted had others written it, and which words matter with and without its attributes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attribune.errors import ConfigError, DataError
from attribune.explaining.scores import columns_of, numbers_of
from attribune.prediction import Predictor, ReadyRows
from attribune.schema.given import given_ids, given_text

__all__ = ["counterfactuals", "word_effects"]

_MOST_WORDS = 400
_AT_ONCE = 64
Ids = npt.NDArray[np.int64]


def counterfactuals(
    predictor: Predictor, text: str, ids: Ids, *, instead: Sequence[Mapping[str, Sequence[str]]], most: int
) -> list[dict[str, Any]]:
    """The prediction of a text as given, without attributes, and as if other values were its own.

    Args:
        predictor: that predicts.
        text: of the row.
        ids: (slots,), of the row.
        instead: values that take the place of the row's own, one set for each prediction, the other attributes staying
            as they are; the most frequent values of each attribute where there is none.
        most: how many of these.

    Returns:
        For each prediction ``as`` in words, ``prediction`` and ``numbers`` by name.
    """
    attributes = tuple(predictor.schema) if predictor.reads_attributes else ()
    cases = {"as given": ids}
    if attributes:
        cases["attributes hidden"] = np.zeros_like(ids)
    for attribute in attributes if len(attributes) > 1 else ():
        cases[f"{attribute.name} hidden"] = _replaced(ids, columns_of(attribute), 0)
    for given in instead:
        changed, values = ids.copy(), given_ids(predictor.schema, given)
        for name in given:
            changed[columns_of(predictor.schema[name])] = values[columns_of(predictor.schema[name])]
        cases[given_text(given)] = changed
    for attribute in () if instead else attributes:
        for place in np.argsort(-attribute.counts[1:], kind="stable")[: most if len(attribute.values) else 0].tolist():
            value = f"{attribute.name}={attribute.values[place]}"
            cases[value] = _replaced(ids, columns_of(attribute), place + 1)
    logits = predictor.score(rows_of(predictor, [text] * len(cases), np.stack(list(cases.values()))))
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
        for row, name in enumerate(cases)
    ]


def _replaced(ids: Ids, columns: slice, value: int) -> Ids:
    """The ids with one value, or none, of an attribute."""
    changed = ids.copy()
    changed[columns] = 0
    changed[columns.start] = value
    return changed


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def rows_of(predictor: Predictor, texts: Sequence[str], ids: Ids) -> ReadyRows:
    """Texts with ids (n, slots) of attributes, as the model reads them."""
    first, *others = predictor.text_input.columns
    empty = {
        name: [None] * len(texts) for name in (*others, *(predictor.schema.names if predictor.reads_attributes else ()))
    }
    return predictor.encode({first: list(texts), **empty}).with_ids(ids)


def word_effects(predictor: Predictor, text: str, ids: Ids) -> dict[str, Any]:
    """What each word of a text does to the predicted number that is largest: with its attributes, and without any.

    The effect of a word is that number less the one of the same text without the word (captum's feature ablation over
    words), so that it means the same for every backbone and for linear baselines.

    Args:
        predictor: that predicts.
        text: of the row.
        ids: (slots,), of the row.

    Returns:
        The number's name under ``of``, and for each word in the order of the text ``given`` and ``hidden``.

    Raises:
        ConfigError: without captum.
        DataError: for a text without words.
    """
    if importlib.util.find_spec("captum") is None:
        raise ConfigError("the words of a row are weighed with captum: pip install 'attribune[explain]'")
    words = text.split()[:_MOST_WORDS]
    if not words:
        raise DataError("the row has no text whose words could be weighed: choose another row")
    numbers, names = numbers_of(predictor, predictor.score(rows_of(predictor, [text], ids[None])))
    target = int(numbers[0].argmax())
    with_, without = (_ablated(predictor, words, one, target) for one in (ids, np.zeros_like(ids)))
    effects = [
        {"word": word, "given": float(a), "hidden": float(b)} for word, a, b in zip(words, with_, without, strict=True)
    ]
    return {"of": names[target], "words": effects, "left_out": len(text.split()) - len(words)}


def _ablated(predictor: Predictor, words: Sequence[str], ids: Ids, target: int) -> npt.NDArray[np.float32]:
    from captum.attr import FeatureAblation

    def score(present: Tensor) -> Tensor:
        texts = [" ".join(word for word, kept in zip(words, row, strict=True) if kept) for row in present.tolist()]
        logits = predictor.score(rows_of(predictor, texts, np.repeat(ids[None], len(texts), axis=0)))
        return torch.from_numpy(numbers_of(predictor, logits)[0][:, target])

    found = FeatureAblation(score).attribute(
        torch.ones(1, len(words)), baselines=torch.zeros(1, len(words)), perturbations_per_eval=_AT_ONCE
    )
    return np.asarray(found[0])
