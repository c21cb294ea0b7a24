"""Words mapped by a matrix of each value against loops written from Tang, Qin and Liu 2015, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from families import tiny_backbone
from slow_layers import Matrix, Vector, added, draw, exact_logits, gap, matrix_times, mean, real_words
from tiny_models import CLASSES, NUMBERS, at_random, make_batch, make_schema
from torch import Tensor

from attribune.models.model import AttributeModel
from attribune.tasks import Classification
from attribune_lab import functional
from attribune_lab.methods import Upnn

TOLERANCE = 1e-10
E, R, Z = 4, 2, 3
WIDTHS, FILTERS = (1, 2, 3), 5


def full_matrix(w: Vector, U_1: Matrix, U_2: Matrix) -> Matrix:
    """``U_1 U_2 + diag(w)``."""
    size = len(w)
    product = [[sum(U_1[i][r] * U_2[r][j] for r in range(len(U_2))) for j in range(size)] for i in range(size)]
    return [[product[i][j] + (w[i] if i == j else 0.0) for j in range(size)] for i in range(size)]


@pytest.mark.parametrize(("size", "rank"), [(5, 2), (3, 7), (4, 1)])
def test_words_are_mapped_by_the_full_matrix(size: int, rank: int) -> None:
    x, w, U_1, U_2 = draw(3, 6, size), draw(3, size), draw(3, size, rank), draw(3, rank, size)
    found = functional.value_matrix_words(x, w, U_1, U_2)
    for row in range(3):
        U = full_matrix(w[row].tolist(), U_1[row].tolist(), U_2[row].tolist())
        for t in range(6):
            assert found[row, t].tolist() == pytest.approx(matrix_times(U, x[row, t].tolist()), abs=TOLERANCE)


def test_the_transposed_matrix_is_another_method() -> None:
    x, w, U_1, U_2 = draw(3, 6, 5), draw(3, 5), draw(3, 5, 2), draw(3, 2, 5)
    wrong = functional.value_matrix_words(x, w, U_2.mT, U_1.mT)
    assert gap(wrong, functional.value_matrix_words(x, w, U_1, U_2)) > 1e-3


def built(M: int, *, fused: bool, **options: Any) -> AttributeModel:
    """A small model with random parameters; attributes have several values, one, or none."""
    method = Upnn(rank=R, vector_size=Z, fused=fused, attribute_dropout=0.0)
    sizes = {"embedding_size": E, "widths": WIDTHS, "filters": FILTERS}
    backbone = tiny_backbone(
        "word-tang-cnn", options={**sizes, **method.word_options("tang-cnn", attributes=M), **options}
    )
    schema, task = make_schema(M), Classification(classes=CLASSES)
    model = at_random(AttributeModel.build(backbone, schema, task=task, method=method, dropout=0.0))
    with torch.no_grad():
        for table in model.method.tables:
            table[0] = 0
    return model.double()


def values_of(model: AttributeModel, inputs: dict[str, Tensor], row: int, number: int) -> list[Vector]:
    """The rows of the table of an attribute that a text has, one for each of its values."""
    ids = model.slots[number].of(inputs["attribute_ids"])[row].tolist()
    return [model.method.tables[number][value].tolist() for value in ids if value]


def slow_matrix(values: list[Vector]) -> Matrix:
    """The sum of the matrices of an attribute's values; the identity without one."""
    if not values:
        return [[float(i == j) for j in range(E)] for i in range(E)]
    matrices = []
    for value in values:
        w, first, second = [1 + x for x in value[:E]], value[E : E + E * R], value[E + E * R : E + 2 * E * R]
        U_1, U_2 = ([part[i : i + size] for i in range(0, E * R, size)] for part, size in ((first, R), (second, E)))
        matrices.append(full_matrix(w, U_1, U_2))
    return [added(*rows) for rows in zip(*matrices, strict=True)]


def slow_tang(backbone: Any, words: list[Vector]) -> Vector:
    """The mean over the widths of tanh of the mean over the windows, to whose width a shorter text is padded."""
    outputs = []
    for W, b in zip(backbone.filters.W, backbone.filters.b, strict=True):
        width = W.shape[1]
        text = words + [[0.0] * len(words[0])] * (width - len(words))
        read = [[x for word in text[t : t + width] for x in word] for t in range(len(text) - width + 1)]
        windows = [added(matrix_times(W.flatten(1).tolist(), window), b.tolist()) for window in read]
        outputs.append([math.tanh(x) for x in mean(windows)])
    return mean(outputs)


def slow_logits(model: AttributeModel, inputs: dict[str, Tensor], row: int) -> Vector:
    """``[U x_t; P x_t; ...]``, the convolution, and a classifier that reads ``[d; u; p; ...]``."""
    method, backbone = model.method, model.backbone
    each = [values_of(model, inputs, row, number) for number in range(len(model.slots))]
    matrices = [slow_matrix(values) for values in each]
    words = []
    for word in real_words(model, inputs, row):
        mapped = [x for U in matrices for x in matrix_times(U, word)]
        if method.fusion is not None:
            W, b = method.fusion.weight.tolist(), method.fusion.bias.tolist()
            mapped = [math.tanh(x) for x in added(matrix_times(W, mapped), b)]
        words.append(mapped)
    read = slow_tang(backbone, words)
    for values in each:
        read = read + added([0.0] * Z, *(value[-Z:] for value in values))
    weight = torch.cat([model.head.weight.T, method.W_c]).T.tolist()  # of all that the classifier reads
    return added(matrix_times(weight, read), model.head.bias.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("M", NUMBERS)
def test_logits(M: int, fused: bool, padding: str) -> None:
    """The rows have several values of an attribute, one, and none; the third has none of the second attribute."""
    model, inputs = built(M, fused=fused).eval(), make_batch(M, padding=padding)
    assert model.backbone.input_size == (E if fused else M * E)
    found = exact_logits(model, inputs)
    for row in range(4):
        assert found[row].tolist() == pytest.approx(slow_logits(model, inputs, row), abs=TOLERANCE)


def test_without_a_value_words_stay_what_they_are() -> None:
    """The second row has no value at all: the matrices are the identity, and the classifier reads the document."""
    model, inputs = built(2, fused=False).eval(), make_batch(2)
    found = exact_logits(model, inputs)[1].tolist()
    words = model.backbone.embeddings.weight[inputs["input_ids"][1, :2]].tolist()
    document = slow_tang(model.backbone, [word + word for word in words])
    plain = added(matrix_times(model.head.weight.tolist(), document), model.head.bias.tolist())
    assert found == pytest.approx(plain, abs=TOLERANCE)


def test_a_value_of_which_nothing_is_learned_is_none() -> None:
    """As new values are before their rows are read: a row of zeros is the identity, and not a matrix of zeros."""
    model, inputs = built(2, fused=False).eval(), make_batch(2)
    with torch.no_grad():
        for table in model.method.tables:
            table[1] = 0
    one = {**inputs, "attribute_ids": torch.tensor([[1, 0, 0, 1]] * 4)}
    none = {**inputs, "attribute_ids": torch.zeros(4, 4, dtype=torch.long)}
    assert gap(exact_logits(model, one), exact_logits(model, none)) < TOLERANCE


def test_matrices_that_are_multiplied_are_another_method() -> None:
    """Those of several values add up."""
    model, inputs = built(1, fused=False).eval(), make_batch(1)
    found = exact_logits(model, inputs)[0]
    first, second, third = (slow_matrix([value]) for value in values_of(model, inputs, 0, 0))
    columns = [matrix_times(first, matrix_times(second, list(column))) for column in zip(*third, strict=True)]
    product = [list(row) for row in zip(*columns, strict=True)]
    words = model.backbone.embeddings.weight[inputs["input_ids"][0]].tolist()
    document = slow_tang(model.backbone, [matrix_times(product, word) for word in words])
    u = added(*(value[-Z:] for value in values_of(model, inputs, 0, 0)))
    weight = torch.cat([model.head.weight.T, model.method.W_c]).T.tolist()
    wrong = added(matrix_times(weight, document + u), model.head.bias.tolist())
    assert gap(found, wrong) > 1e-3


def test_they_begin_near_the_identity() -> None:
    task, sizes = Classification(classes=CLASSES), {"embedding_size": E, "input_vectors": 2, "filters": FILTERS}
    backbone = tiny_backbone("word-tang-cnn", options=sizes)
    model = AttributeModel.build(backbone, make_schema(2), task=task, method=Upnn(rank=R, vector_size=Z))
    for table in model.method.tables:
        assert not table[0].any()
        assert not table[1:, :E].any()
        assert (table[1:, E:].abs() <= 0.01).all()
        assert table[1:, E:].abs().max() > 0.005


def test_no_value_is_not_learned() -> None:
    """Its row of the tables stays zero: also where an attribute has fewer values than places."""
    model = built(2, fused=False).train()
    model(**make_batch(2), labels=torch.tensor([0, 2, 1, 0])).loss.backward()
    for table in model.method.tables:
        assert table.grad[1:].any()
        assert not table.grad[0].any()
