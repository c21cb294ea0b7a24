"""The verdicts of ten runs as their readers see them, from the figures that a run stores.

`python tests/runs/test_golden_verdicts.py` writes the texts again: review the difference.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from attribune.findings import Finding
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.results import AttributeUse, Comparison, HiddenEffect
from attribune.models.sizes import Sizes
from attribune.runs.attribute_gains import AttributeGain, AttributesTogether, holm
from attribune.runs.recipe import Recipe
from attribune.runs.training_record import TrainingRecord
from attribune.runs.verdict import Verdict, run_verdict

FOLDER = Path(__file__).with_name("golden_verdicts")
SIZES = Sizes(total=9, trained=8, stored=7, stored_bytes=28, outputs=2, encoder=0, injected=0)
HIDDEN = "injector, attributes hidden"

Figures = tuple[float, float, float, float]
"""A difference, the ends of its interval, and its p-value."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run as its results are stored.

    Args:
        main: by the main metric, the figures against each other model.
        proper: the same by the proper score.
        alone: by the proper score, those of each attribute hidden alone.
        together: by metric, those of the attributes that show no gain alone, hidden together.
        best: the best check of how many, each after an epoch.
        could: the smallest difference that could have been shown, and in how many rows the models differ.
    """

    main: dict[str, Figures]
    proper: dict[str, Figures]
    metric: str = "accuracy"
    score: str = "log_loss"
    alone: dict[str, Figures] = field(default_factory=dict)
    together: dict[str, Figures] = field(default_factory=dict)
    best: tuple[int, int] = (2, 3)
    task: str = "classification"
    could: tuple[float | None, int] = (0.031, 80)


CASES = {
    "won": Case(
        main={
            HIDDEN: (0.033, 0.020, 0.046, 0.0001),
            "adapter": (0.028, 0.015, 0.041, 0.0001),
            "linear": (0.033, 0.017, 0.049, 0.0002),
            "linear, text only": (0.051, 0.034, 0.068, 0.0001),
            "majority": (0.254, 0.231, 0.278, 0.0001),
        },
        proper={
            HIDDEN: (-0.071, -0.092, -0.050, 0.0001),
            "adapter": (-0.058, -0.079, -0.037, 0.0001),
            "linear": (-0.066, -0.094, -0.039, 0.0001),
            "linear, text only": (-0.101, -0.131, -0.072, 0.0001),
            "majority": (-0.318, -0.352, -0.284, 0.0001),
        },
        alone={"user": (-0.064, -0.085, -0.044, 0.0001), "film": (-0.012, -0.021, -0.003, 0.012)},
        best=(3, 3),
    ),
    "lost": Case(
        main={HIDDEN: (-0.010, -0.031, 0.011, 0.36), "linear": (0.021, -0.004, 0.046, 0.10)}
        | {"linear, text only": (-0.018, -0.043, 0.007, 0.16), "majority": (0.22, 0.19, 0.25, 0.0001)},
        proper={HIDDEN: (0.061, 0.020, 0.102, 0.003), "linear": (-0.031, -0.075, 0.013, 0.17)}
        | {"linear, text only": (0.078, 0.032, 0.123, 0.0009), "majority": (-0.30, -0.36, -0.24, 0.0001)},
        alone={"drug": (0.058, 0.019, 0.097, 0.004), "condition": (0.004, -0.011, 0.019, 0.6)},
        together={"log_loss": (0.003, -0.010, 0.016, 0.66), "accuracy": (0.002, -0.012, 0.016, 0.80)},
    ),
    "too few rows": Case(
        main={HIDDEN: (1.0, -0.315, 1.0, 0.5), "linear": (0.5, -0.5, 1.0, 1.0), "majority": (1.0, -0.315, 1.0, 0.5)},
        proper={HIDDEN: (-0.9, -1.2, 0.0, 0.5), "linear": (-0.4, -0.8, 0.1, 0.5), "majority": (-0.7, -0.9, 0.0, 0.5)},
        could=(None, 2),
    ),
    "one attribute of four matters": Case(
        main={HIDDEN: (0.088, 0.058, 0.118, 0.0001), "linear": (0.041, 0.012, 0.070, 0.006)},
        proper={HIDDEN: (-0.190, -0.231, -0.149, 0.0001), "linear": (-0.083, -0.121, -0.046, 0.0001)},
        alone={
            "customer": (-0.002, -0.012, 0.008, 0.70),
            "agent": (-0.184, -0.224, -0.143, 0.0001),
            "channel": (-0.009, -0.018, -0.001, 0.031),
            "shift": (0.003, -0.006, 0.012, 0.52),
        },
        together={"log_loss": (0.001, -0.012, 0.014, 0.88), "accuracy": (0.004, -0.006, 0.014, 0.50)},
    ),
    "two attributes are missed together": Case(
        main={HIDDEN: (0.088, 0.058, 0.118, 0.0001), "linear": (0.041, 0.012, 0.070, 0.006)},
        proper={HIDDEN: (-0.190, -0.231, -0.149, 0.0001), "linear": (-0.083, -0.121, -0.046, 0.0001)},
        alone={
            "agent": (-0.084, -0.124, -0.043, 0.0001),
            "customer": (-0.006, -0.015, 0.003, 0.19),
            "account": (-0.004, -0.013, 0.005, 0.38),
        },
        together={"log_loss": (-0.071, -0.098, -0.044, 0.0001), "accuracy": (0.021, -0.001, 0.043, 0.06)},
    ),
    "no attribute shows anything": Case(
        main={HIDDEN: (0.004, -0.011, 0.019, 0.60), "linear": (0.041, 0.012, 0.070, 0.006)},
        proper={HIDDEN: (-0.006, -0.020, 0.008, 0.41), "linear": (-0.083, -0.121, -0.046, 0.0001)},
        alone={"customer": (-0.006, -0.015, 0.003, 0.19), "channel": (0.001, -0.008, 0.010, 0.82)},
    ),
    "first epoch best": Case(
        metric="macro_f1",
        main={HIDDEN: (0.004, -0.021, 0.030, 0.77), "linear": (0.002, -0.030, 0.033, 0.91)},
        proper={HIDDEN: (-0.006, -0.020, 0.008, 0.41), "linear": (0.011, -0.020, 0.043, 0.49)},
        best=(1, 3),
    ),
    "rating": Case(
        main={HIDDEN: (0.012, -0.010, 0.034, 0.29), "linear": (0.008, -0.020, 0.036, 0.58)},
        proper={HIDDEN: (-0.041, -0.066, -0.016, 0.0015), "linear": (-0.075, -0.119, -0.028, 0.001)},
        task="rating",
    ),
    "ordinal": Case(
        metric="rmse",
        main={HIDDEN: (0.021, -0.004, 0.046, 0.10), "linear": (-0.086, -0.131, -0.041, 0.0004)},
        proper={HIDDEN: (-0.019, -0.036, -0.002, 0.027), "linear": (0.012, -0.018, 0.042, 0.43)},
        task="ordinal",
    ),
    "judges": Case(
        main={HIDDEN: (0.023, -0.004, 0.049, 0.09), "linear": (-0.019, -0.035, -0.004, 0.014)},
        proper={HIDDEN: (-0.023, -0.043, -0.003, 0.024), "linear": (-0.037, -0.062, -0.012, 0.004)},
        alone={"judge": (-0.020, -0.040, -0.001, 0.04), "age": (-0.005, -0.011, 0.001, 0.10)},
        together={"log_loss": (-0.005, -0.011, 0.001, 0.10), "accuracy": (0.0, -0.009, 0.009, 1.0)},
    ),
}


def _paired(figures: Figures, could: tuple[float | None, int]) -> dict[str, Any]:
    difference, low, high, p_value = figures
    ends = {"difference": difference, "low": low, "high": high, "p_value": p_value, "resamples": 10_000}
    return {**ends, "smallest": could[0], "differing": could[1]}


def verdict_of(case: Case) -> Verdict:
    """Judge a case as the end of its training does."""

    def comparisons(metric: str, by: dict[str, Figures]) -> list[Comparison]:
        named = {"a": "injector", "part": "test", "metric": metric}
        return [Comparison(b=other, **named, **_paired(figures, case.could)) for other, figures in by.items()]

    corrected = holm([figures[3] for figures in case.alone.values()])
    gains = [
        AttributeGain(
            attribute=name,
            metric=case.score,
            answer="not shown" if p_value >= 0.05 else "yes" if figures[0] < 0 else "no",
            gain=PairedResult(**_paired(figures, case.could)),
            p_value=p_value,
            rows=400,
            with_value=400,
        )
        for (name, figures), p_value in zip(case.alone.items(), corrected, strict=True)
    ]
    together = HiddenEffect(
        attributes=tuple(gain.attribute for gain in gains if gain.shows_no_gain),
        pairs={metric: PairedResult(**_paired(figures, case.could)) for metric, figures in case.together.items()},
        rows=400,
        with_value=400,
        hurting=tuple(gain.attribute for gain in gains if gain.answer == "no"),
    )
    best, checks = case.best
    steps = {"steps": 10 * checks, "epochs": float(checks), "best_step": 10 * best, "checks": checks}
    training = TrainingRecord(seconds=1.0, parameters=SIZES, selected_by="loss", best_value=0.5123, **steps)
    data = {"train": "rows.csv", "text": "text", "label": "label", "attributes": list(case.alone) or ["user"]}
    more = {"method": {"name": "injector"}, "task": {"kind": case.task}, "training": {"epochs": checks}}
    conditions: dict[str, AttributeUse] = {HIDDEN: "hidden"}
    return run_verdict(
        Recipe.from_dict({"data": data, **more}),
        training,
        metric=case.metric,
        comparisons=comparisons(case.metric, case.main),
        conditions=conditions,
        proper=comparisons(case.score, case.proper),
        by_attribute=gains,
        together=AttributesTogether.of(together if case.together else None),
    )


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_reads_as_before_with_the_answers_first_and_the_weights_last(name: str) -> None:
    found = verdict_of(CASES[name])
    assert found.text() + "\n" == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    sentences = found.sentences()
    assert "attributes" in sentences[0]
    assert any("The weights are those" in sentence for sentence in sentences[-2:])
    assert not any("The weights are those" in sentence for sentence in sentences[:-2])


@pytest.mark.parametrize("name", CASES)
def test_a_finding_of_a_file_is_said_as_the_verdict_says_it(name: str) -> None:
    found = verdict_of(CASES[name])
    read = json.loads(json.dumps([finding.to_dict() for finding in found.findings()]))
    assert [Finding(one["code"], one["values"]).text for one in read] == found.sentences()
    assert [one["text"] for one in read] == found.sentences()


if __name__ == "__main__":
    for name, case in CASES.items():
        (FOLDER / f"{name}.txt").write_text(verdict_of(case).text() + "\n", encoding="utf-8")
