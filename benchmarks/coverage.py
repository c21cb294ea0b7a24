"""How often 95 % intervals hold the truth where several people judge a text: over rows, texts, judges, and both.

    python benchmarks/coverage.py [--times 400]

Judgements are simulated: a prediction is right with the probability `sigmoid(1 + t + j)`, where t is the text's own
difficulty and j the judge's, both normal with the standard deviations of a case; two models that are compared share
half of each. The truth is the mean over texts and judges that might have been drawn, by quadrature. Each case draws
data sets of 200 texts with 5 judgements each; judges are many or few. Writes benchmarks/results/coverage.json.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from harness import arguments, write_result

from attribune.metrics.bootstrap import interval, paired
from attribune.metrics.formulas import accuracy
from attribune.metrics.metric import Metric

TEXTS, EACH, RESAMPLES = 200, 5, 800
CASES = {
    "no effects, 50 judges": (0.0, 0.0, 50),
    "texts differ, 50 judges": (1.5, 0.0, 50),
    "judges differ, 50 judges": (0.0, 1.0, 50),
    "both differ, 50 judges": (1.5, 1.0, 50),
    "both differ, 12 judges": (1.5, 1.0, 12),
    "both differ, 6 judges": (1.5, 1.0, 6),
}
WAYS = {"rows": (), "texts": (0,), "judges": (1,), "both": (0, 1)}
EASY, HARDER = 1.0, 0.8  # of the first model and of the second


def truth(offset: float, spread: float) -> float:
    """The mean of sigmoid(offset + spread z) over a normal z."""
    places, weights = np.polynomial.hermite_e.hermegauss(80)
    return float((weights / (1 + np.exp(-offset - spread * places))).sum() / weights.sum())


def judgements(rng: np.random.Generator, case: tuple[float, float, int]) -> tuple[list[Metric], tuple[Any, Any]]:
    """The accuracies of two models on the same judgements, and text and judge of each."""
    of_texts, of_judges, judges = case
    text = np.repeat(np.arange(TEXTS), EACH)
    judge = np.concatenate([rng.choice(judges, EACH, replace=False) for _ in range(TEXTS)])

    def effects(spread: float, number: int) -> tuple[Any, Any]:
        shared, *own = rng.normal(size=(3, number)) * spread / 2**0.5
        return shared + own[0], shared + own[1]

    found = []
    for offset, hard, harsh in zip((EASY, HARDER), effects(of_texts, TEXTS), effects(of_judges, judges), strict=True):
        chance = 1 / (1 + np.exp(-offset - hard[text] - harsh[judge]))
        wrong = rng.random(len(text)) >= chance
        found.append(accuracy(np.zeros(len(text), dtype=int), wrong.astype(int)))
    return found, (text, judge)


def covered(case: tuple[float, float, int], *, times: int) -> dict[str, dict[str, float]]:
    """The share of data sets whose interval holds the truth, for each way to draw."""
    spread = (case[0] ** 2 + case[1] ** 2) ** 0.5
    true = truth(EASY, spread)
    gap = true - truth(HARDER, spread)
    hits = {way: {"accuracy": 0, "difference": 0} for way in WAYS}
    for seed in range(times):
        models, clusters = judgements(np.random.default_rng(seed), case)
        for way, kinds in WAYS.items():
            first, second = (replace(model, clusters=tuple(clusters[kind] for kind in kinds)) for model in models)
            alone = interval(first, resamples=RESAMPLES, seed=seed)
            both = paired(first, second, resamples=RESAMPLES, seed=seed)
            hits[way]["accuracy"] += alone.low <= true <= alone.high
            hits[way]["difference"] += both.low <= gap <= both.high
    return {way: {name: round(count / times, 4) for name, count in counts.items()} for way, counts in hits.items()}


if __name__ == "__main__":
    parser = arguments(__doc__, "coverage")
    parser.add_argument("--times", type=int, default=400, metavar="N", help="data sets of each case; 400")
    words = parser.parse_args()
    cases = {name: covered(case, times=words.times) for name, case in CASES.items()}
    write_result(words.output, {"times": words.times, "cases": cases})
