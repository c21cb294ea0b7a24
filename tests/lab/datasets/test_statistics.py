"""Figures of the papers' tables, by hand on tiny tables and against slow loops."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import entropy

from attribune_lab.datasets.prepared import PreparedSet, load_prepared
from attribune_lab.datasets.statistics import (
    SMOOTHING,
    Figure,
    best_subset,
    class_divergence,
    describe_set,
    divergences,
    values_of,
)

Rows = Sequence[Mapping[str, Any]]
Make = Callable[..., PreparedSet]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """Factory: a prepared set of the given rows; the column ``tags`` has several values, those of `labels` classes."""

    def make(parts: Mapping[str, Rows], *, labels: Sequence[str] = ("y",), folds: int = 0) -> PreparedSet:
        sizes: dict[str, Any] = {}
        names = [name for name in next(iter(parts.values()))[0] if name not in ("text", "fold", *labels)]
        for part, rows in parts.items():
            types = {
                name: pa.list_(pa.string()) if name == "tags" else pa.string() for name in [*names, "text", *labels]
            }
            types |= {"fold": pa.int8()} if folds else {}
            columns = {name: pa.array([row.get(name, "a") for row in rows], kind) for name, kind in types.items()}
            pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
            sizes[part] = {"file": f"{part}.parquet", "bytes": (tmp_path / f"{part}.parquet").stat().st_size}
        kinds = [{"kind": "multi_label" if name == "tags" else "categorical", "name": name} for name in names]
        manifest = {"name": "made", "origin": {}, "folds": folds, "parts": sizes, "attributes": kinds}
        (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "labels": list(labels)}))
        return load_prepared(tmp_path)

    return make


def values(figures: Sequence[Figure]) -> dict[str, float]:
    return {figure.name: figure.value for figure in figures}


class TestDescription:
    def test_words_are_those_of_all_rows(self, made: Make) -> None:
        parts = {"train": ["one", "one two ."], "validation": ["one two three four five six"], "test": ["two, three"]}
        rows = {part: [{"text": text, "y": "a", "user": "u"} for text in texts] for part, texts in parts.items()}
        found = values(describe_set(made(rows)))
        assert (found["train"], found["validation"], found["test"]) == (2, 1, 1)
        assert found["words"] == pytest.approx((1 + 3 + 6 + 3) / 4)
        assert found["words_sd"] == pytest.approx(math.sqrt((1 + 9 + 36 + 9) / 4 - 3.25**2))
        assert found["words_most"] == 6

    def test_classes_are_those_of_the_label_with_most(self, made: Make) -> None:
        rows = [{"y": "a", "z": str(number % 3), "user": "u"} for number in range(6)]
        assert (
            values(describe_set(made(dict.fromkeys(["train", "validation", "test"], rows), labels=["y", "z"])))[
                "classes"
            ]
            == 3
        )

    def test_values_are_counted_in_training_rows_rare_ones_below_ten(self, made: Make) -> None:
        train = [
            {"y": "a", "user": "often", "tags": ["x", "x"]} for _ in range(9)
        ]  # a value twice in a row counts once
        train += [{"y": "a", "user": "often", "tags": ["z", ""]}, {"y": "b", "user": None, "tags": None}]
        train += [{"y": "b", "user": "seldom", "tags": ["z"]}] * 9 + [{"y": "b", "user": "", "tags": []}]
        held = [{"y": "a", "user": "often", "tags": ["new", "z"]}, {"y": "a", "user": "cold", "tags": ["x"]}]
        found = values(describe_set(made({"train": train, "validation": held, "test": held[:1]})))
        assert found["values of user"] == 2
        assert found["values of tags"] == 2
        assert found["values"] == 4
        assert found["sparse"] == 50  # seldom has 9 rows and x has 9, often and z have 10
        assert found["cold"] == 40  # cold and new, of often, cold, new, z and x
        assert found["rows per user"] == pytest.approx((len(train) + 3) / 3)
        assert found["rows per tags"] == pytest.approx((len(train) + 3) / 3)

    def test_folds_train_on_all_other_rows_and_have_a_spread(self, made: Make) -> None:
        rows = [{"y": "a", "user": f"u{fold}", "fold": fold} for fold in range(3) for _ in range(fold + 1)]
        figures = {figure.name: figure for figure in describe_set(made({"all": rows}, folds=3))}
        assert "validation" not in figures
        assert figures["train"].value == pytest.approx((5 + 4 + 3) / 3)
        assert figures["test"].value == pytest.approx(2)
        assert figures["test"].spread == pytest.approx(1)  # of 1, 2 and 3, with two degrees of freedom
        assert figures["values"].value == 2
        assert figures["cold"].value == 100

    def test_published_figures_stand_beside_their_own(self, made: Make) -> None:
        rows = [{"text": "one two", "y": "a", "user": "u"}]
        parts = dict.fromkeys(["train", "validation", "test"], rows)
        figures = {figure.name: figure for figure in describe_set(made(parts), published={"words": 2, "no such": 1})}
        assert figures["words"].published == 2
        assert figures["train"].published is figures["train"].spread is None
        assert "no such" not in figures

    @pytest.mark.parametrize(
        ("value", "spread", "published", "agrees"),
        [
            (1.0, None, None, None),
            (110.0, None, 100.0, True),
            (90.0, None, 100.0, True),
            (110.2, None, 100.0, False),
            (120.0, 10.0, 100.0, True),
            (120.2, 10.0, 100.0, False),
            (0.0, None, 0.0, True),
        ],
    )
    def test_a_figure_agrees_within_a_tenth_or_two_spreads(
        self, value: float, spread: float | None, published: float | None, agrees: bool | None
    ) -> None:
        assert Figure(name="x", value=value, spread=spread, published=published).agrees() is agrees


def test_values_come_with_their_rows_and_missing_ones_are_left_out() -> None:
    flat = pa.chunked_array([["a", None], ["", "b", "a"]])
    assert [part.tolist() for part in values_of(flat)] == [[0, 3, 4], ["a", "b", "a"]]
    lists = pa.chunked_array([[["a", "", "b"], None], [[], [None, "c"]]], pa.list_(pa.string()))
    assert [part.tolist() for part in values_of(lists)] == [[0, 0, 3], ["a", "b", "c"]]
    assert [part.tolist() for part in values_of(lists.slice(2))] == [[1], ["c"]]
    empty = pa.chunked_array([], pa.string())
    assert [len(part) for part in values_of(empty)] == [0, 0]


class TestClassDivergence:
    @pytest.mark.parametrize("smoothing", [SMOOTHING, 1e-3, 0.1])
    def test_it_is_the_relative_entropy_of_smoothed_distributions(self, smoothing: float) -> None:
        chance = np.random.default_rng(5)
        p, q = chance.dirichlet([0.3] * 7, size=11), chance.dirichlet([0.3] * 7, size=11)
        p[0], q[0] = np.eye(7)[2], np.eye(7)[3]  # without smoothing, infinite
        found = class_divergence(p, q, smoothing)
        assert found.shape == (11,)
        assert found == pytest.approx(entropy(p + smoothing, q + smoothing, axis=1), rel=1e-9)  # scipy brings to sum 1

    def test_it_is_zero_for_equal_and_not_symmetric(self) -> None:
        p, q = np.array([[0.7, 0.2, 0.1]]), np.array([[0.1, 0.1, 0.8]])
        assert class_divergence(p, p) == pytest.approx(0, abs=1e-12)
        assert class_divergence(p, q) != pytest.approx(class_divergence(q, p), rel=0.01)

    @pytest.mark.parametrize(("classes", "published"), [(2, 0.693), (5, 1.608), (9, 2.195), (10, 2.300), (16, 2.769)])
    def test_a_random_guess_has_the_published_divergence(self, classes: int, published: float) -> None:
        found = class_divergence(np.eye(classes), np.full((classes, classes), 1 / classes))
        assert found == pytest.approx(published, abs=1e-3)


def slow_distribution(
    row: Mapping[str, Any], name: str, train: Rows, label: str, classes: Sequence[str]
) -> list[float]:
    """Equation 12, with the classes of all training rows for a value without any."""

    def listed(of: Mapping[str, Any]) -> list[str]:
        cell = of[name]
        return [value for value in (cell if isinstance(cell, list) else [cell]) if value]

    def shares(rows: Rows) -> list[float]:
        return [sum(other[label] == each for other in rows) / len(rows) for each in classes]

    found = []
    for value in listed(row):
        having = [other for other in train if value in listed(other)]
        found.append(shares(having or train))
    return [sum(column) / len(found) for column in zip(*found, strict=True)] if found else shares(train)


def slow_divergences(train: Rows, held: Rows, label: str, names: Sequence[str], smoothing: float) -> dict[str, float]:
    """The docstring's words as loops."""
    classes = sorted({row[label] for row in [*train, *held]})

    def divergence(own: str, guess: Sequence[float]) -> float:
        p = [(float(each == own) + smoothing) / (1 + len(classes) * smoothing) for each in classes]
        q = [(share + smoothing) / (1 + len(classes) * smoothing) for share in guess]
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))

    sums: dict[str, float] = {}
    for row in held:
        guesses = {name: slow_distribution(row, name, train, label, classes) for name in names}
        for size in range(1, len(names) + 1):
            for chosen in combinations(names, size):
                mean = [sum(column) / size for column in zip(*(guesses[name] for name in chosen), strict=True)]
                guesses["+".join(chosen)] = mean
        guesses["all"] = guesses["+".join(names)]
        guesses["random"] = [1 / len(classes)] * len(classes)
        guesses["majority"] = [sum(other[label] == each for other in train) / len(train) for each in classes]
        for name, guess in guesses.items():
            sums[name] = sums.get(name, 0) + divergence(row[label], guess) / len(held)
    return sums


def chance_rows(rows: int, seed: int, *, users: int = 5) -> list[dict[str, Any]]:
    """Rows with missing values, several values and values that are in few rows."""
    chance = np.random.default_rng(seed)
    return [
        {
            "y": "abc"[chance.choice(3, p=[0.6, 0.3, 0.1])],
            "z": "vw"[chance.integers(2)],
            "user": [None, "", *(f"u{number}" for number in range(users))][chance.integers(users + 2)],
            "tags": [
                None,
                [],
                *([f"t{value}" for value in chance.choice(9, size=1 + number, replace=False)] for number in range(3)),
            ][chance.integers(5)],
            "source": "st"[chance.integers(2)],
        }
        for _ in range(rows)
    ]


class TestDivergences:
    NAMES = ("user", "tags", "source")

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("smoothing", [SMOOTHING, 0.01])
    def test_they_are_those_of_a_slow_loop(self, made: Make, seed: int, smoothing: float) -> None:
        train, validation = chance_rows(37, seed), chance_rows(23, seed + 10, users=9)
        parts = {"train": train, "validation": validation, "test": chance_rows(5, 99)}
        found = values(divergences(made(parts, labels=["y", "z"]), smoothing=smoothing))
        slow = [slow_divergences(train, validation, label, self.NAMES, smoothing) for label in ("y", "z")]
        expected = {name: sum(one[name] for one in slow) / 2 for name in slow[0]}  # the mean over the labels
        assert set(found) == {"random", "majority", "all", *self.NAMES}
        for name, value in found.items():
            assert value == pytest.approx(expected[name], rel=1e-9), name
        subset, least = best_subset(made(parts, labels=["y", "z"]), smoothing=smoothing)
        subsets = {name: value for name, value in expected.items() if name not in ("random", "majority", "all")}
        assert least.value == pytest.approx(min(subsets.values()), rel=1e-9)
        assert least.value == pytest.approx(expected["+".join(subset)], rel=1e-9)

    def test_over_folds_the_rows_that_do_not_test_train(self, made: Make) -> None:
        rows = [{**row, "fold": number % 3} for number, row in enumerate(chance_rows(60, 7))]
        slow = [
            slow_divergences(
                [row for row in rows if row["fold"] != fold],
                [row for row in rows if row["fold"] == fold],
                *("y", self.NAMES, SMOOTHING),
            )
            for fold in range(3)
        ]
        for row in rows:
            del row["z"]
        for figure in divergences(made({"all": rows}, folds=3), published={"user": 0.5}):
            each = [one[figure.name] for one in slow]
            assert figure.value == pytest.approx(np.mean(each), rel=1e-9)
            assert figure.spread == pytest.approx(np.std(each, ddof=1), rel=1e-6)
            assert figure.published == (0.5 if figure.name == "user" else None)

    def test_equation_12_by_hand(self, made: Make) -> None:
        train = [{"y": "a", "user": "u"}] * 3 + [{"y": "b", "user": "u"}] + [{"y": "b", "user": "w"}] * 4
        held = [{"y": "a", "user": "u"}, {"y": "b", "user": "w"}, {"y": "a", "user": "new"}, {"y": "b", "user": None}]
        found = values(divergences(made({"train": train, "validation": held, "test": held}), smoothing=1e-12))
        assert found["random"] == pytest.approx(math.log(2))
        assert found["majority"] == pytest.approx((2 * math.log(8 / 3) + 2 * math.log(8 / 5)) / 4)
        # u is three quarters a; w is b alone; new and missing take the classes of all rows.
        expected = (math.log(4 / 3) + 0 + math.log(8 / 3) + math.log(8 / 5)) / 4
        assert found["user"] == found["all"] == pytest.approx(expected)

    def test_an_attribute_that_tells_the_class_is_the_best_subset(self, made: Make) -> None:
        rows = [{"y": "ab"[i % 2], "noise": f"n{i % 3}", "told": f"t{i % 2}", "same": "s"} for i in range(30)]
        parts = {"train": rows, "validation": rows[:7], "test": rows[7:12]}
        subset, figure = best_subset(made(parts), published=0.25)
        assert subset == ("told",)
        assert figure.name == "best subset: told"
        assert figure.value == pytest.approx(0, abs=1e-6)
        assert figure.published == 0.25

    def test_two_attributes_that_often_tell_the_class_are_better_together(self, made: Make) -> None:
        chance = np.random.default_rng(1)
        truth = chance.integers(2, size=600)
        told = {name: np.where(chance.random(600) < 0.7, truth, 1 - truth) for name in ("one", "two")}
        rows = [{"y": "ab"[truth[i]]} | {name: f"v{told[name][i]}" for name in told} for i in range(600)]
        parts = {"train": rows[:400], "validation": rows[400:], "test": rows[:1]}
        found = values(divergences(made(parts)))
        subset, figure = best_subset(made(parts))
        assert subset == ("one", "two")
        assert figure.value == pytest.approx(found["all"])
        assert figure.value < min(found["one"], found["two"])
