"""How often 95 % intervals hold the truth where rows are not independent, and how wide they are.

    python benchmarks/coverage.py [--times 300]

Judgements are simulated: five of each text, by judges drawn at random. A prediction is right with the probability
`sigmoid(1 + t + j)`, where t is the text's own difficulty and j the judge's, both normal with the standard deviations
of a case; a predicted number is wrong by `(t + j) / 2` and normal noise. Two models that are compared share half of
each difficulty. The truth is the mean over texts and judges that might have been drawn, by quadrature. Intervals are
over rows, texts, judges, both, and over both drawn at once (the pigeonhole bootstrap, Owen 2007, by its variance).
Speakers have their texts for themselves. Writes benchmarks/results/coverage.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from harness import arguments, write_result

from attribune.metrics.bootstrap import effective_rows, interval, paired, paired_wilson, wilson
from attribune.metrics.formulas import accuracy, rmse
from attribune.metrics.metric import Metric

EACH, RESAMPLES = 5, 600
LARGE = 2_000  # texts, of which half as many data sets are drawn
LEVEL, Z = 0.95, 1.959964
EFFECTS = {
    "no effects": (0.0, 0.0),
    "texts differ": (1.5, 0.0),
    "judges differ": (0.0, 1.0),
    "both differ": (1.5, 1.0),
}
EASY, HARDER = 1.0, 0.8  # of the first model and of the second
NOISE, MORE_NOISE = 1.0, 1.1
Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Which data sets are drawn.

    Args:
        uneven: the k-th judge is drawn k^-0.8 times as often as the first.
        alone: a text has one judge, its speaker, and `texts` is the number of texts.
    """

    effects: str
    texts: int
    judges: int
    uneven: bool = False
    alone: bool = False


def every_case() -> Iterator[Case]:
    """The cases; large ones with fewer effects, since they take long."""
    for texts in (100, 500, LARGE):
        for judges in (20, 50, 200):
            for effects in EFFECTS if texts < LARGE else ("no effects", "both differ"):
                yield Case(effects=effects, texts=texts, judges=judges)
    for judges in (6, 12):
        yield Case(effects="both differ", texts=500, judges=judges)
    for judges in (20, 50, 200):
        yield Case(effects="both differ", texts=500, judges=judges, uneven=True)
    for judges in (6, 12, 20, 50, 200):
        yield Case(effects="judges differ", texts=LARGE, judges=judges, alone=True)


def truth(offset: float, spread: float) -> float:
    """The mean of sigmoid(offset + spread z) over a normal z."""
    places, weights = np.polynomial.hermite_e.hermegauss(80)
    return float((weights / (1 + np.exp(-offset - spread * places))).sum() / weights.sum())


def truths(case: Case) -> dict[str, float]:
    """What intervals should hold."""
    spread = sum(size**2 for size in EFFECTS[case.effects]) ** 0.5
    right = [truth(offset, spread) for offset in (EASY, HARDER)]
    error = [(noise**2 + spread**2 / 4) ** 0.5 for noise in (NOISE, MORE_NOISE)]
    return {
        "accuracy": right[0],
        "accuracy, difference": right[0] - right[1],
        "rmse": error[0],
        "rmse, difference": error[0] - error[1],
    }


def drawn_judges(rng: np.random.Generator, case: Case) -> tuple[Any, Any]:
    """Text and judge of each row."""
    if case.alone:
        return np.arange(case.texts), rng.integers(case.judges, size=case.texts)
    weights = np.arange(1, case.judges + 1) ** (-0.8 if case.uneven else 0.0)
    keys = np.log(weights) + rng.gumbel(size=(case.texts, case.judges))
    return np.repeat(np.arange(case.texts), EACH), np.argsort(-keys, axis=1)[:, :EACH].reshape(-1)


def judgements(rng: np.random.Generator, case: Case) -> tuple[dict[str, list[Metric]], tuple[Any, Any]]:
    """The metrics of two models on the same judgements, and text and judge of each."""
    text, judge = drawn_judges(rng, case)

    def difficulties(spread: float, number: int) -> tuple[Any, Any]:
        shared, *own = rng.normal(size=(3, number)) * spread / 2**0.5
        return shared + own[0], shared + own[1]

    of_texts, of_judges = EFFECTS[case.effects]
    hard = difficulties(of_texts, case.texts), difficulties(of_judges, case.judges)
    found: dict[str, list[Metric]] = {"accuracy": [], "rmse": []}
    nothing = np.zeros(len(text))
    for offset, noise, of_text, of_judge in zip((EASY, HARDER), (NOISE, MORE_NOISE), *hard, strict=True):
        difficulty = of_text[text] + of_judge[judge]
        wrong = rng.random(len(text)) >= 1 / (1 + np.exp(difficulty - offset))
        found["accuracy"].append(accuracy(nothing.astype(int), wrong.astype(int)))
        found["rmse"].append(rmse(nothing, difficulty / 2 + noise * rng.normal(size=len(text))))
    return found, (text, judge)


def at_once(first: Metric, second: Metric, clusters: tuple[Any, ...]) -> tuple[Ends, Ends]:
    """The intervals of a metric and of a difference if texts and judges are drawn at once."""
    values = [model.statistics[model.rows, 0] for model in (first, second)]
    cells = np.arange(len(first))

    def variance(scores: Any) -> float:
        sums = [np.bincount(numbers, weights=scores - scores.mean()) for numbers in (*clusters, cells)]
        return float(sum((one**2).sum() for one in sums)) / len(scores) ** 2

    if first.name == "accuracy":
        share, gaps = first.value(), values[0] - values[1]
        up, down = float((gaps > 0).mean()), float((gaps < 0).mean())
        rows = effective_rows(up + down - (up - down) ** 2, variance(gaps), units=len(first))
        alone = wilson(share, effective_rows(share * (1 - share), variance(values[0]), units=len(first)), level=LEVEL)
        return alone, paired_wilson(up, down, rows, level=LEVEL)
    errors = [value / (2 * model.value()) for value, model in zip(values, (first, second), strict=True)]
    value, gap = first.value(), first.value() - second.value()
    halves = Z * variance(errors[0]) ** 0.5, Z * variance(errors[0] - errors[1]) ** 0.5
    return (value - halves[0], value + halves[0]), (gap - halves[1], gap + halves[1])


def intervals(case: Case, seed: int) -> Iterator[tuple[str, str, Ends]]:
    """The way, the figure and the ends of each interval of a data set."""
    models, clusters = judgements(np.random.default_rng(seed), case)
    ways = {"rows": (), "speakers": (1,)} if case.alone else {"rows": (), "texts": (0,), "judges": (1,), "both": (0, 1)}
    for name, pair in models.items():
        for way, kinds in ways.items():
            first, second = (replace(model, clusters=tuple(clusters[kind] for kind in kinds)) for model in pair)
            alone = interval(first, resamples=RESAMPLES, seed=seed)
            difference = paired(first, second, resamples=RESAMPLES, seed=seed)
            yield way, name, (alone.low, alone.high)
            yield way, f"{name}, difference", (difference.low, difference.high)
        if not case.alone:
            of_one, of_two = at_once(*pair, clusters)
            yield "both at once", name, of_one
            yield "both at once", f"{name}, difference", of_two


def covered(case: Case, *, times: int) -> dict[str, dict[str, dict[str, float]]]:
    """The share of data sets whose interval holds the truth, and the mean width, for each way to draw."""
    true = truths(case)
    found: dict[str, dict[str, list[Ends]]] = {}
    for seed in range(times):
        for way, figure, ends in intervals(case, seed):
            found.setdefault(way, {}).setdefault(figure, []).append(ends)
    return {
        way: {
            figure: {
                "coverage": round(float(np.mean([low <= true[figure] <= high for low, high in ends])), 4),
                "width": round(float(np.mean([high - low for low, high in ends])), 4),
            }
            for figure, ends in figures.items()
        }
        for way, figures in found.items()
    }


if __name__ == "__main__":
    parser = arguments(__doc__, "coverage")
    parser.add_argument("--times", type=int, default=300, metavar="N", help="data sets of each case; 300")
    words = parser.parse_args()
    cases = []
    for case in every_case():
        times = words.times if case.alone or case.texts < LARGE else words.times // 2
        cases.append(asdict(case) | {"times": times, "ways": covered(case, times=times)})
    write_result(words.output, {"cases": cases})
