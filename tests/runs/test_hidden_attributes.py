"""Attributes that show no gain alone are hidden together, and the verdict says what follows, by a model made up here.

Its scores come from what each attribute adds where it is not hidden, so that each case is known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from attribune.apps.cli import build_parser
from attribune.apps.cli.door import CommandLine
from attribune.core.door import opened_command_line
from attribune.findings import Finding
from attribune.metrics.bootstrap import PairedResult
from attribune.metrics.results import HiddenAttributes
from attribune.runs.attribute_gains import AttributeGain, AttributesTogether, attribute_gains
from attribune.runs.hidden_attributes import HidingRows, known_values
from attribune.runs.verdict import AttributeEffect, GivenAway, Verdict
from attribune.schema import Categorical, Schema
from attribune.tasks.classification import Classification

ROWS = 200


class World:
    """Rows of two classes with the attributes agent, a and b.

    Args:
        agent: what its value adds to the margin of the true class; `a` and `b` likewise.
        either: what is added where `a` or `b` is not hidden, as if both said the same.
        filled: rows with a value of `a` and `b`.
    """

    def __init__(
        self, *, agent: float = 2.0, a: float = 0.0, b: float = 0.0, either: float = 0.0, filled: int = ROWS
    ) -> None:
        rng = np.random.default_rng(5)
        self.asked: list[list[str]] = []
        self._adds, self._either = {"agent": agent, "a": a, "b": b}, either
        self._labels = rng.integers(0, 2, ROWS)
        self._noise = {name: rng.normal(scale=0.1, size=ROWS) for name in ("text", "agent", "a", "b")}
        values = ["x", "y"] * (ROWS // 2)
        table = {"agent": values, **{name: [*values[:filled], *[""] * (ROWS - filled)] for name in "ab"}}
        self._schema = Schema.fit(table, [Categorical(name) for name in table])
        self._ids = self._schema.encode(table)[0]

    def _logits(self, hidden: Sequence[str]) -> np.ndarray:
        margin = 0.2 + self._noise["text"]
        for number, (name, added) in enumerate(self._adds.items()):
            if name not in hidden:
                margin = margin + (added + self._noise[name]) * (self._ids[:, number] != 0)
        if not {"a", "b"} <= set(hidden):
            margin = margin + self._either
        signs = np.where(self._labels == 1, margin, -margin)
        return np.stack([-signs / 2, signs / 2], axis=1)

    def _hide(self, names: Sequence[str]) -> np.ndarray:
        self.asked.append(list(names))
        return self._logits(names)

    def effects(self) -> HiddenAttributes:
        return HidingRows(
            task=Classification(classes=("no", "yes")),
            known=known_values(self._schema, self._ids),
            labels=self._labels,
            clusters={},
            logits=self._logits(()),
            hide=self._hide,
        ).effects()


def verdict_of(effects: HiddenAttributes, **parts: Any) -> Verdict:
    together = AttributesTogether.of(effects.together)
    return Verdict(metric="accuracy", by_attribute=attribute_gains(effects.alone), together=together, **parts)


def effect(answer: str) -> AttributeEffect:
    pair = {"difference": 0.0, "low": -0.1, "high": 0.1, "p_value": 0.9, "resamples": 9, "smallest": 0.1}
    named = {"a": "injector", "b": "hidden", "part": "test", "metric": "log_loss"}
    return AttributeEffect.model_validate({"answer": answer, "against": "hidden", "comparison": {**named, **pair}})


@pytest.mark.parametrize(
    ("world", "asked", "codes", "names"),
    [
        ({}, [["a", "b"]], ["attributes-to-leave-out"], ["a", "b"]),
        ({"either": 2.0}, [["a", "b"]], ["attributes-missed-together"], ["a", "b"]),
        ({"b": 2.0}, [], ["attributes-to-leave-out"], ["a"]),
        ({"b": -2.0}, [["b", "a"]], ["attributes-to-leave-out"], ["a"]),
        ({"b": -2.0, "either": 2.0}, [["b", "a"]], ["attributes-missed-together"], ["a"]),
        ({"filled": 12}, [["a", "b"]], ["too-few-to-leave-out"], ["a", "b"]),
        ({"agent": 0.0}, [], [], []),
        ({"a": 2.0, "b": 2.0}, [], [], []),
    ],
)
def test_what_several_attributes_are_worth_together(
    world: dict[str, Any], asked: list[list[str]], codes: list[str], names: list[str]
) -> None:
    made = World(**world)
    found = verdict_of(made.effects()).leave_out_findings()
    assert made.asked == [["agent"], ["a"], ["b"], *asked], "each set of attributes is hidden once"
    assert [one.code for one in found] == codes
    assert [one.values["attributes"] for one in found] == ([names] if names else [])
    assert [one.text for one in found] == [Finding(one.code, json.loads(json.dumps(one.values))).text for one in found]


def test_one_that_is_missed_beside_another_is_not_left_out_with_it() -> None:
    """Hidden with an attribute that hurts, the model is better than with both; without that one, it is worse."""
    effects = World(b=-2.0, either=2.0).effects()
    assert effects.together is not None
    assert (effects.together.attributes, effects.together.hurting) == (("a",), ("b",))
    (found,) = verdict_of(effects).leave_out_findings()
    assert found.text.startswith("Keep a: without b, the model is better with it: log loss -")


@pytest.mark.parametrize(
    ("answer", "code"),
    [("yes", "attributes-together"), ("not shown", "all-attributes-to-leave-out"), ("no", None)],
)
def test_where_no_attribute_shows_anything_all_of_them_together_decide(answer: str, code: str | None) -> None:
    effects = World(agent=0.0).effects()
    found = verdict_of(effects, attributes=effect(answer))
    assert [one.code for one in found.leave_out_findings()] == ([] if code is None else [code])
    assert ("leave-out-all" in [one.code for one in found.findings()]) == (answer == "no")


def test_nothing_is_left_out_where_something_else_comes_first() -> None:
    effects = World().effects()
    given_away = GivenAway(metric="accuracy", value=1.0, majority=0.5, columns=["agent"])
    assert verdict_of(effects, given_away=given_away).leave_out_findings() == []
    assert verdict_of(effects, attributes=effect("no")).leave_out_findings() == []
    single = HiddenAttributes(alone=effects.alone[:1])
    assert verdict_of(single, attributes=effect("not shown")).leave_out_findings() == []


def test_a_verdict_of_an_earlier_version_says_what_it_said() -> None:
    found = verdict_of(World(agent=0.0).effects(), attributes=effect("not shown"))
    assert Verdict.model_validate(json.loads(found.model_dump_json())) == found
    record = found.model_dump(mode="json")
    del record["together"]
    for gain in record["by_attribute"]:
        del gain["with_value"]
    early = Verdict.model_validate(record)
    assert (early.together, early.leave_out_findings()) == (None, [])


@pytest.mark.parametrize(("metric", "ends"), [("log_loss", (-0.2, -0.1)), ("accuracy", (0.1, 0.2))])
def test_a_loss_by_either_metric_keeps_them(metric: str, ends: tuple[float, float]) -> None:
    same = PairedResult(difference=0.0, low=-0.1, high=0.1, p_value=0.9, resamples=9)
    low, high = ends
    missed = PairedResult(difference=low, low=low, high=high, p_value=0.001, resamples=9)
    by = {"log_loss": same, "accuracy": same, metric: missed}
    figures = {"metric": "log_loss", "gain": by["log_loss"], "readable_metric": "accuracy", "readable": by["accuracy"]}
    part = AttributesTogether(attributes=["a", "b"], rows=ROWS, with_value=ROWS, **figures)
    assert [one.code for one in part.findings()] == ["attributes-missed-together"]


def test_the_command_line_names_the_flags_without_them() -> None:
    kept = [{"kind": "categorical", "name": "agent"}, {"kind": "multi_label", "name": "tags", "separator": ";"}]
    part = AttributesTogether.of(World().effects().together)
    assert part is not None
    (found,) = part.model_copy(update={"kept": kept}).findings()
    assert "fewer columns (attributes=['agent', MultiLabel('tags', separator=';')])." in found.text
    parser = build_parser()
    with opened_command_line(CommandLine(parser, parser.parse_args(["explain", "r"]))):
        assert "fewer columns (--attributes agent --multi-label 'tags:;')." in found.text


@pytest.mark.parametrize(
    ("low", "high", "p_value", "candidate"),
    [(-0.02, 0.01, 0.4, True), (-0.03, -0.01, 0.03, False), (0.01, 0.03, 0.03, True)],
)
def test_a_gain_that_only_the_correction_takes_away_keeps_an_attribute(
    low: float, high: float, p_value: float, candidate: bool
) -> None:
    shown = PairedResult(difference=(low + high) / 2, low=low, high=high, p_value=p_value, resamples=9)
    gain = AttributeGain(attribute="a", metric="log_loss", answer="not shown", gain=shown, p_value=0.09, rows=ROWS)
    assert gain.shows_no_gain == candidate


def test_attributes_of_which_some_can_go_are_not_all_kept() -> None:
    """All of them help together and none alone: those that can be left out are named, and not that all are to stay."""
    effects = World().effects()
    gains = [gain.model_copy(update={"answer": "not shown"}) for gain in attribute_gains(effects.alone)]
    found = verdict_of(effects, attributes=effect("yes")).model_copy(update={"by_attribute": gains})
    assert [one.code for one in found.leave_out_findings()] == ["attributes-to-leave-out"]
