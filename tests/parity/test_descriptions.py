"""What a description says of a value, against slow loops over values and numbers, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attribune.functional import described_vectors
from attribune.methods.descriptions import DescribedValues
from attribune.schema import Categorical, MultiLabel, Number, Schema, Text, ValueTable, Vector

U, X, D, Z = 5, 7, 3, 2


def given() -> dict[str, torch.Tensor]:
    shapes = {"x": (U, X), "W_1": (X, D), "b_1": (D,), "W_2": (D, Z)}
    return {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}


def slow(x: list[float], W_1: list[list[float]], b_1: list[float], W_2: list[list[float]]) -> list[float]:
    """One value."""
    inner = [sum(x[i] * W_1[i][d] for i in range(len(x))) + b_1[d] for d in range(len(b_1))]
    return [
        sum((math.tanh(inner[d]) - math.tanh(b_1[d])) * W_2[d][z] for d in range(len(b_1))) for z in range(len(W_2[0]))
    ]


def test_vectors_are_those_of_a_slow_loop() -> None:
    p = given()
    found = described_vectors(**p)
    weights = [p[name].tolist() for name in ("W_1", "b_1", "W_2")]
    expected = torch.tensor([slow(row, *weights) for row in p["x"].tolist()], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    wrong = described_vectors(**{**p, "b_1": -p["b_1"]})
    assert (wrong - expected).abs().max() > 1e-2


def test_nothing_known_is_nothing_said() -> None:
    assert not described_vectors(**{**given(), "x": torch.zeros(U, X, dtype=torch.float64)}).any()


def test_the_module_reads_each_column_as_the_equations_have_it() -> None:
    """Embeddings of categories (several add up), figures with whether they are there, and projected texts."""
    rows = {"user": ["a", "b", "c", "d"]}
    table = {
        "user": ["a", "b", "c", "d"],
        "country": ["x", "y", "x", None],
        "tags": ["k;l", "l", "", "k;m;l"],
        "age": [20, None, 40, 60],
        "given": [[1.0, 2.0], [0.0, 5.0], None, [3.0, 3.0]],
        "bio": ["one", "two", None, "three"],
    }
    fields = (Categorical("country"), MultiLabel("tags", separator=";"), Number("age"), Vector("given"), Text("bio"))
    texts = {"one": [1.0, 0.0, 2.0], "two": [0.0, 1.0, 1.0], "three": [3.0, 1.0, 0.0]}
    values = ValueTable(
        table=table,
        key="user",
        fields=fields,
        text_vectors=lambda _, given: np.array([texts[text] for text in given], dtype=np.float32),
    )
    schema = Schema.fit(rows, [Categorical("user")], values={"user": values})
    description = schema["user"].description
    assert description is not None
    module = DescribedValues(description, schema["user"].counts, Z).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    # ids are in the order of the alphabet, and categories by how often they are there
    country, tags = ["x", "y"], ["l", "k", "m"]
    E_country, E_tags = module.embeddings["0"], module.embeddings["1"]
    assert (E_country.shape, E_tags.shape) == ((3, 2), (4, 2))
    ages, vectors = np.array([20.0, 40, 60]), np.array([[1.0, 2], [0, 5], [3, 3]])
    bios = np.array(list(texts.values()))
    for row, name in enumerate(table["user"]):
        place, listed = table["country"][row], (table["tags"][row] or "").split(";")
        parts = [E_country[country.index(place) + 1] if place else torch.zeros(2)]
        parts.append(sum((E_tags[tags.index(tag) + 1] for tag in listed if tag), torch.zeros(2)))
        age, vector, bio = table["age"][row], table["given"][row], table["bio"][row]
        parts.append(torch.tensor([0.0, 0] if age is None else [(age - ages.mean()) / ages.std(), 1]))
        scaled = [0.0] * 3 if vector is None else [*((np.array(vector) - vectors.mean(0)) / vectors.std(0)), 1]
        parts.append(torch.tensor(scaled))
        text = [0.0] * 4 if bio is None else [*((np.array(texts[str(bio)]) - bios.mean(0)) / bios.std(0)), 1]
        parts.append(torch.tensor(text, dtype=torch.float64) @ module.projections["4"])
        x = torch.cat([part.double() for part in parts])
        expected = slow(x.tolist(), module.W_1.tolist(), module.b_1.tolist(), module.W_2.tolist())
        found = module(torch.tensor([row + 1]))[0]
        assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6), name  # features are float32
    assert not module(torch.tensor([0])).any()
