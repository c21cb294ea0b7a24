"""How like the texts of reference written texts are: ROUGE, chrF and exact match."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np

from attribune.errors import ConfigError, DataError
from attribune.metrics.formulas import mean_of
from attribune.metrics.metric import Metric

_ROUGE = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}


class _Words:
    """Cuts a text into words for ROUGE: as `rouge-score` does in English, and also in other alphabets."""

    def __init__(self) -> None:
        import regex

        self._word = regex.compile(r"[\p{L}\p{M}\p{N}]+")

    def tokenize(self, text: str) -> list[str]:
        """Return the words in lower case."""
        return list(self._word.findall(text.lower()))


def require_text_metrics() -> None:
    """Raise a ConfigError without the packages that score texts."""
    if any(importlib.util.find_spec(name) is None for name in ("rouge_score", "sacrebleu")):
        raise ConfigError("scoring written texts needs rouge-score and sacrebleu: pip install 'attribune[generation]'")


def text_metrics(written: Sequence[Sequence[str]], references: Sequence[str]) -> dict[str, Metric]:
    """Return the means over rows of ROUGE-1, -2 and -L (F1, without stemming), chrF and exact match, from 0 to 1.

    Args:
        written: one text or several of each row; the score of a row is the mean over its texts.
        references: (n,), the text of each row.

    Raises:
        ConfigError: without the packages of the extra ``generation``.
        DataError: for another number of references than of rows, or a row without a text.
    """
    require_text_metrics()
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.chrf import CHRF

    if len(written) != len(references) or not all(written):
        raise DataError(
            f"{len(written)} rows of written texts for {len(references)} references: give at least one text for each "
            "reference"
        )
    rouge, chrf = RougeScorer(list(_ROUGE.values()), tokenizer=_Words()), CHRF()

    def scores(text: str, reference: str) -> list[float]:
        found = rouge.score(reference, text)
        similar = min(chrf.sentence_score(text, [reference]).score / 100, 1.0)
        return [*(found[name].fmeasure for name in _ROUGE.values()), similar, float(text.split() == reference.split())]

    rows = [
        np.mean([scores(text, reference) for text in texts], axis=0)
        for texts, reference in zip(written, references, strict=True)
    ]
    names = (*_ROUGE, "chrf", "exact_match")
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), len(names)).T
    return {name: mean_of(name, values) for name, values in zip(names, columns, strict=True)}
