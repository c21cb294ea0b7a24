"""Attention for values with few texts against loops written from Amplayo et al. 2018, in float64."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import pytest
import torch
from families import tiny_backbone
from slow_layers import (
    Vector,
    added,
    draw,
    gap,
    matrix_times,
    mean,
    sigmoid,
    slow_attention,
    slow_personal_pool,
    slow_states,
)
from tiny_models import at_random, make_batch, make_model
from torch import Tensor

from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification
from attribune_lab import functional
from attribune_lab.methods import Hcsc

TOLERANCE = 1e-10


def mixed(g: Vector, first: Vector, second: Vector) -> Vector:
    """``g ⊙ first + (1 - g) ⊙ second``."""
    return [w * x + (1 - w) * y for w, x, y in zip(g, first, second, strict=True)]


def slow_shared(state: Vector, W_m: list[Vector], b_m: Vector, values: list[Vector]) -> Vector:
    """The vectors of values, weighted by the softmax of their products with the map of the mean state."""
    query = added(matrix_times(W_m, state), b_m)
    return slow_attention(values, matrix_times(values, query))


def slow_frequency_gate(f: float, scale: Vector, shape: Vector) -> Vector:
    if f == 0:
        return [0.0] * len(scale)
    powers = [(f / max(x, 1e-6)) ** max(k, 0.0) for x, k in zip(scale, shape, strict=True)]
    return [1 - math.exp(-power) for power in powers]


def slow_attribute_gate(vectors: list[Vector], W_g: list[Vector], b_g: Vector) -> Vector:
    """One vector is taken as it is, two are gated, of more each feature has a softmax of its own."""
    M, H = len(vectors), len(vectors[0])
    if M == 1:
        return vectors[0]
    scores = added(matrix_times(W_g, [x for vector in vectors for x in vector]), b_g)
    if M == 2:
        return mixed([sigmoid(score) for score in scores], *vectors)
    columns = [[[vector[k]] for vector in vectors] for k in range(H)]
    return [slow_attention(columns[k], scores[k::H])[0] for k in range(H)]


@pytest.mark.parametrize(("U", "H", "Z"), [(7, 5, 3), (2, 3, 5), (1, 4, 2)])
def test_shared_vector(U: int, H: int, Z: int) -> None:
    states, W_m, b_m, E = draw(4, H), draw(Z, H), draw(Z), draw(U, Z)
    found = functional.shared_vector(states, W_m, b_m, E)
    for row in range(4):
        expected = slow_shared(states[row].tolist(), W_m.tolist(), b_m.tolist(), E.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)


def test_shared_vector_without_values_of_its_own() -> None:
    """A row reads the others alone; one that has all values reads none."""
    states, W_m, b_m, E = draw(4, 5), draw(3, 5), draw(3), draw(4, 3).requires_grad_()
    left_out = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [2, 0, 0, 1], [1, 1, 1, 1]])
    found = functional.shared_vector(states, W_m, b_m, E, left_out=left_out)
    for row in range(3):
        others = [vector for vector, own in zip(E.tolist(), left_out[row].tolist(), strict=True) if not own]
        expected = slow_shared(states[row].tolist(), W_m.tolist(), b_m.tolist(), others)
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)
    assert not found[3].any()
    found[1].sum().backward()
    assert (E.grad.abs().sum(dim=1) > 0).tolist() == [True, False, True, True]


def test_frequency_gate() -> None:
    f = torch.tensor([0.0, 0.03, 0.5, 1.0, 4.0], dtype=torch.float64)
    scale = torch.tensor([1.0, 0.4, 2.5, 1.0, 0.7, 3.0, 1.2], dtype=torch.float64)
    shape = torch.tensor([1.0, 0.3, 2.2, 0.0, -0.8, 0.9, 1.7], dtype=torch.float64)
    found = functional.frequency_gate(f, scale, shape)
    for row in range(5):
        expected = slow_frequency_gate(float(f[row]), scale.tolist(), shape.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)
    assert ((found >= 0) & (found <= 1)).all()


def test_a_scale_below_zero_counts_as_the_smallest_one() -> None:
    f, shape = torch.tensor([0.0, 2e-6, 1.0], dtype=torch.float64), torch.tensor([0.5, 1.5], dtype=torch.float64)
    found = functional.frequency_gate(f, torch.tensor([-1.0, 0.0], dtype=torch.float64), shape)
    for row in range(3):
        expected = slow_frequency_gate(float(f[row]), [1e-6, 1e-6], shape.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)


def test_a_value_without_texts_has_no_gate_and_finite_gradients() -> None:
    """Also where the gradient of the power is not finite."""
    f = torch.zeros(3, dtype=torch.float64)
    scale = torch.tensor([1.0, 0.2, 2.0], dtype=torch.float64, requires_grad=True)
    shape = torch.tensor([0.5, 0.1, 0.99], dtype=torch.float64, requires_grad=True)
    found = functional.frequency_gate(f, scale, shape)
    assert not found.any()
    found.sum().backward()
    for parameter in (scale, shape):
        assert parameter.grad is not None
        assert not parameter.grad.any()


def test_gradients_of_the_frequency_gate() -> None:
    f = torch.tensor([0.0, 0.3, 2.0], dtype=torch.float64)
    scale = torch.tensor([0.7, 1.9], dtype=torch.float64, requires_grad=True)
    shape = torch.tensor([0.4, 1.6], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *p: functional.frequency_gate(f, *p), (scale, shape))


@pytest.mark.parametrize("M", [1, 2, 3, 5])
def test_attribute_gate(M: int) -> None:
    H = 4
    rows = {1: 0, 2: H}.get(M, M * H)
    v, W_g, b_g = draw(3, M, H), draw(rows, M * H), draw(rows)
    found = functional.attribute_gate(v, W_g, b_g)
    for row in range(3):
        expected = slow_attribute_gate(v[row].tolist(), W_g.tolist(), b_g.tolist())
        assert found[row].tolist() == pytest.approx(expected, abs=TOLERANCE)


def test_a_gate_that_takes_the_other_one_is_another_method() -> None:
    v, W_g, b_g = draw(3, 2, 4), draw(4, 8), draw(4)
    found = functional.attribute_gate(v, W_g, b_g)
    assert gap(found, functional.attribute_gate(v, -W_g, -b_g)) > 1e-3


# Three values of each attribute, whose counts by their mean are rounded in float32.
COLUMNS: dict[str, list[Any]] = {
    "user": ["a", "a", "a", "a", "b", "b", "b", "c", None, "b"],
    "product": ["y", "x", "x", "x", "x", "x", "z", "y", "", "x"],
    "tags": [["m", "n"], ["m"], ["n"], ["m"], [], [], ["o"], ["n"], ["m"], ["m"]],
}
KINDS = (Categorical("user"), Categorical("product"), MultiLabel("tags"))
# In the order of their ids: most frequent first.
COUNTS = {"user": {"a": 4, "b": 4, "c": 1}, "product": {"x": 6, "y": 2, "z": 1}, "tags": {"m": 5, "n": 3, "o": 1}}
ROWS: dict[str, list[Any]] = {  # values that are unknown, missing, and several
    "user": ["a", "c", "nobody", "b", None],
    "product": ["z", "x", "y", "nothing", None],
    "tags": [["m"], ["o", "n"], [], ["n", "unheard of"], []],
}
TEXTS = [[7, 3, 8, 9, 2, 4], [5, 3, 2], [9], [4, 4, 6, 8], [2, 8]]
LABELS = torch.tensor([0, 2, 1, 1, 0])


def built(M: int, **options: Any) -> AttributeModel:
    """A small model with random parameters, those of the gates above and below zero."""
    torch.manual_seed(2)
    widths = {"embedding_size": 5, "hidden_size": 6, "widths": [3, 4], "filters": 2}
    model = AttributeModel.build(
        tiny_backbone("word-bilstm-cnn", options=widths),
        Schema.fit({kind.name: COLUMNS[kind.name] for kind in KINDS[:M]}, KINDS[:M]),
        task=Classification(classes=3),
        method=Hcsc(attention_size=3, vector_size=7, **options),
        dropout=0.0,
    )
    at_random(model)
    with torch.no_grad():
        for attribute in model.method.attributes:
            attribute.scale.copy_(attribute.scale.abs() + 0.2)
            attribute.scale[0] = -0.1
    return model.double()


def batch(model: AttributeModel, *, more: int = 0) -> dict[str, Tensor]:
    """The texts with a number of further places of padding, at which words stand that do not count."""
    longest = max(map(len, TEXTS)) + more
    ids, mask = torch.full((len(TEXTS), longest), 7), torch.zeros(len(TEXTS), longest, dtype=torch.long)
    for row, text in enumerate(TEXTS):
        ids[row, : len(text)], mask[row, : len(text)] = torch.tensor(text), 1
    encoded = model.schema.encode({name: ROWS[name] for name in model.schema.names})[0]
    return {"input_ids": ids, "attention_mask": mask, "attribute_ids": torch.from_numpy(encoded)}


def exact(model: AttributeModel, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Document vectors and logits in float64, which the model casts at its end, and the auxiliary logits."""
    classify = model.method.classify
    with torch.no_grad(), patch.object(model.method, "classify", wraps=classify) as called:
        model(**inputs)
        first, *others = (call.args for call in called.call_args_list)
        return first[0], classify(*first), [classify(*other) for other in others]


def slow_features(model: AttributeModel, text: list[int]) -> list[Vector]:
    """The states of both directions, and filters around each word: of four, one before it and two behind it."""
    backbone: Any = model.backbone
    table = backbone.embeddings.weight.tolist()
    words = [table[word] for word in text]
    result = slow_states(backbone.recurrent.directions(), words)
    for W, b in zip(backbone.filters.W, backbone.filters.b, strict=True):
        width, zeros = W.shape[1], [0.0] * len(words[0])
        before = (width - 1) // 2
        padded = [*[zeros] * before, *words, *[zeros] * (width - 1 - before)]
        for t in range(len(words)):
            window = [x for word in padded[t : t + width] for x in word]
            maps = added(matrix_times(W.flatten(1).tolist(), window), b.tolist())
            result[t] = result[t] + [max(0.0, x) for x in maps]
    return result


def slow_parts(model: AttributeModel, row: int, number: int, *, table: int | None = None) -> list[Vector]:
    """Return s, t and v of one attribute of a row.

    Args:
        table: number of the attribute whose values the shared vector is made of; by default its own.
    """
    method: Any = model.method
    own, name = method.attributes[number], model.schema.names[number]
    states = slow_features(model, TEXTS[row])
    given, counts = ROWS[name][row], COUNTS[name]
    values = [value for value in (given if isinstance(given, list) else [given]) if value in counts]
    vectors, numbers = method.tables[number].tolist(), [1 + list(counts).index(value) for value in values]
    everyone = method.tables[number if table is None else table].tolist()[1:]
    if not method.reads_own:
        everyone = [vector for place, vector in enumerate(everyone, start=1) if place not in numbers]
    s = slow_personal_pool(own.specific, states, added([0.0] * len(vectors[0]), *(vectors[n] for n in numbers)))
    t = slow_personal_pool(own.shared, states, slow_shared(mean(states), own.W_m.tolist(), own.b_m.tolist(), everyone))
    of_each = [counts[value] * len(counts) / sum(counts.values()) for value in values]
    f = sum(of_each) / len(of_each) if values else 0.0
    return [s, t, mixed(slow_frequency_gate(f, own.scale.tolist(), own.shape.tolist()), s, t)]


def slow_head(model: AttributeModel, document: Vector) -> Vector:
    return added(matrix_times(model.head.weight.tolist(), document), model.head.bias.tolist())


def slow_document(model: AttributeModel, parts: list[list[Vector]]) -> Vector:
    method: Any = model.method
    return slow_attribute_gate([v for _, _, v in parts], method.W_g.tolist(), method.b_g.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("reads_own", [True, False])
@pytest.mark.parametrize("M", [1, 2, 3])
def test_documents_logits_and_losses(M: int, reads_own: bool) -> None:
    """The same head reads the document and, each with a loss of weight 1, s, t and v of every attribute."""
    model = built(M, reads_own=reads_own).train()
    documents, logits, auxiliary, losses = [], [], [], []
    for row in range(len(TEXTS)):
        parts = [slow_parts(model, row, number) for number in range(M)]
        documents.append(slow_document(model, parts))
        logits.append(slow_head(model, documents[-1]))
        auxiliary.append([slow_head(model, vector) for part in parts for vector in part])
        label = int(LABELS[row])
        each = [logits[-1], *auxiliary[-1]]
        losses.append(sum(math.log(sum(map(math.exp, one))) - one[label] for one in each))
    found_documents, found_logits, found_auxiliary = exact(model, batch(model))
    assert gap(found_documents, documents) < TOLERANCE
    assert gap(found_logits, logits) < TOLERANCE
    assert len(found_auxiliary) == 3 * M
    assert gap(torch.stack(found_auxiliary, dim=1), auxiliary) < TOLERANCE
    trained = model(**batch(model), labels=LABELS)
    assert trained.logits.shape == (5, 1 + 3 * M, 3)
    assert abs(trained.loss.item() - sum(losses) / 5) < 1e-5  # of logits in float32
    predicted = model.eval()(**batch(model), labels=LABELS)
    assert predicted.logits.shape == (5, 3)
    alone = [math.log(sum(map(math.exp, one))) - one[int(label)] for one, label in zip(logits, LABELS, strict=True)]
    assert abs(predicted.loss.item() - sum(alone) / 5) < 1e-5


def test_the_users_do_not_make_up_the_shared_vector_of_products() -> None:
    """As they do in the released code, whose slip would be seen here."""
    model = built(2).eval()
    found = exact(model, batch(model))[0]
    for row in (0, 1, 3, 4):  # the text between is of one word, whose weight is 1
        slip = [slow_parts(model, row, 0), slow_parts(model, row, 1, table=0)]
        assert gap(found[row], slow_document(model, slip)) > 1e-3


def test_where_nothing_is_known_the_shared_vectors_are_read_alone() -> None:
    model = built(2).eval()
    found = exact(model, batch(model))[0][4]
    shared = [slow_parts(model, 4, number)[1] for number in range(2)]
    method: Any = model.method
    assert gap(found, slow_attribute_gate(shared, method.W_g.tolist(), method.b_g.tolist())) < TOLERANCE


def test_padding_counts_nowhere() -> None:
    """Neither in the mean of the states nor in a softmax."""
    model = built(2).train()
    found, again = exact(model, batch(model)), exact(model, batch(model, more=3))
    assert gap(found[0], again[0]) < TOLERANCE
    assert gap(torch.stack(found[2]), torch.stack(again[2])) < TOLERANCE


def test_a_text_without_words_has_no_document() -> None:
    model = built(2).train()
    inputs = batch(model)
    inputs["attention_mask"][1] = 0
    document, logits, auxiliary = exact(model, inputs)
    assert not document[1].any()
    assert document[0].any()
    for found in (logits, *auxiliary):
        assert found[1].tolist() == model.head.bias.tolist()


def test_every_parameter_learns() -> None:
    model = built(2).train()
    model(**batch(model), labels=LABELS).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name
    assert all(not table.grad[0].any() for table in model.method.tables)


def test_the_layer_in_front_of_the_head_reads_every_vector() -> None:
    """The auxiliary losses are those of the model's own classifier, whatever it consists of."""
    model = make_model("word-bilstm-cnn", Hcsc(vector_size=3, attention_size=5), head_size=7, dropout=0.0).train()
    found = model(**make_batch(2), labels=torch.tensor([0, 1, 2, 0]))
    assert found.logits.shape == (4, 1 + 3 * 2, 3)
    found.loss.backward()
    assert model.hidden_layer.weight.grad.any()


@pytest.mark.parametrize(
    ("f", "scale", "shape"), [(1.0, -1.0, 7.0), (9.0, 1e-9, 50.0), (1e-3, 2.0, 40.0), (0.0, 1.0, 0.3)]
)
def test_the_gate_has_finite_gradients(f: float, scale: float, shape: float) -> None:
    leaves = [torch.tensor([value], requires_grad=True) for value in (f, scale, shape)]
    gate = functional.frequency_gate(*leaves)
    gate.sum().backward()
    assert torch.isfinite(gate).all()
    assert all(torch.isfinite(leaf.grad).all() for leaf in leaves)
