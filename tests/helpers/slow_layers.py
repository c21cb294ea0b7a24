"""Layers over the words of one text, number by number, from their equations; logits of models in float64.

`assert_same` compares what the library makes in float64 with such loops; `assert_apart` does so where a test has
planted a mistake, which the sizes, rows and values of the comparison have to show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from attribune.functional.recurrent import LSTMWeights
from attribune.models.model import AttributeModel

Vector = list[float]
Matrix = list[Vector]


def draw(*shape: int) -> Tensor:
    """Draw a tensor of float64 numbers."""
    return torch.randn(*shape, dtype=torch.float64)


def assert_same(found: Tensor, expected: Any) -> None:
    """Check that a tensor in float64 has the shape and, within 1e-10, the numbers of another one or of lists."""
    wanted = expected if isinstance(expected, Tensor) else torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.detach(), wanted.detach(), rtol=0, atol=1e-10)


def assert_apart(found: Tensor, expected: Any, *, by: float = 1e-3) -> None:
    """Check that a tensor in float64 has the shape of another one or of lists, and a number that is another by far."""
    wanted = expected if isinstance(expected, Tensor) else torch.tensor(expected, dtype=torch.float64)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype == torch.float64
    assert float((found - wanted).detach().abs().max()) > by


def added(*vectors: Vector) -> Vector:
    """Add vectors up."""
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def transposed(matrix: Matrix) -> Matrix:
    """Exchange rows and columns."""
    return [list(column) for column in zip(*matrix, strict=True)]


def mean(vectors: list[Vector]) -> Vector:
    """Average vectors."""
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def numbers(tensor: Tensor) -> Any:
    """The numbers of a tensor as lists."""
    return tensor.detach().tolist()


def gap(found: Tensor, expected: Any) -> float:
    """The largest difference of a tensor from another one, or from lists of as many numbers."""
    other = torch.as_tensor(expected, dtype=torch.float64)
    assert found.shape == other.shape
    return float((found - other).detach().abs().max())


def real_words(model: AttributeModel, inputs: dict[str, Tensor], row: int) -> list[Vector]:
    """The vectors of the words of a text, without padding."""
    table = numbers(model.backbone.embeddings.weight)
    ids, real = inputs["input_ids"][row].tolist(), inputs["attention_mask"][row].tolist()
    return [table[word] for word, counts in zip(ids, real, strict=True) if counts]


def cut_sentences(ids: list[int], *, end: int, longest: int = 3) -> list[list[int]]:
    """Cut a text at its ends of sentences, and after so many words; without padding, and sentences without words."""
    sentences: list[list[int]] = [[]]
    for word in ids:
        if word == end:
            sentences.append([])
        elif word != 0:
            if len(sentences[-1]) == longest:
                sentences.append([])
            sentences[-1].append(word)
    return [words for words in sentences if words]


def exact_logits(model: AttributeModel, inputs: dict[str, Tensor]) -> Tensor:
    """Return the logits in float64, which the model casts at its end."""
    classify = model.method.classify
    with torch.no_grad(), patch.object(model.method, "classify", wraps=classify) as called:
        model(**inputs)
        return classify(*called.call_args.args)


def random_lstm(E: int, H: int) -> LSTMWeights:
    """Draw the weights of one direction."""
    shapes = ((4 * H, E), (4 * H, H), (4 * H,), (4 * H,))
    return LSTMWeights(*(0.6 * torch.randn(shape, dtype=torch.float64) for shape in shapes))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def slow_lstm(words: list[list[float]], own: LSTMWeights) -> list[list[float]]:
    """One direction over words that are all real."""
    W_ih, W_hh, b_ih, b_hh = (one.tolist() for one in own)
    H = len(W_hh[0])
    h, c, states = [0.0] * H, [0.0] * H, []
    for word in words:
        gates = [
            sum(w * x for w, x in zip(W_ih[row], word, strict=True))
            + sum(w * x for w, x in zip(W_hh[row], h, strict=True))
            + b_ih[row]
            + b_hh[row]
            for row in range(4 * H)
        ]
        i, f, g, o = (gates[part * H : (part + 1) * H] for part in range(4))
        c = [sigmoid(f[k]) * c[k] + sigmoid(i[k]) * math.tanh(g[k]) for k in range(H)]
        h = [sigmoid(o[k]) * math.tanh(c[k]) for k in range(H)]
        states.append(h)
    return states


def slow_states(directions: Sequence[LSTMWeights], words: list[Vector]) -> list[Vector]:
    """The states of one direction, or of both side by side."""
    states = slow_lstm(words, directions[0])
    for own in directions[1:]:
        states = [x + y for x, y in zip(states, slow_lstm(words[::-1], own)[::-1], strict=True)]
    return states


def matrix_times(matrix: list[list[float]], vector: list[float]) -> list[float]:
    """Multiply a matrix by a vector."""
    return [sum(w * x for w, x in zip(row, vector, strict=True)) for row in matrix]


def from_right(vector: Vector, matrix: Matrix) -> Vector:
    """Multiply a vector by a matrix behind it."""
    return [sum(vector[i] * matrix[i][j] for i in range(len(vector))) for j in range(len(matrix[0]))]


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def slow_norm(x: Vector, gain: Vector, bias: Vector, *, eps: float) -> Vector:
    """Layer normalisation of one state."""
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((number - mean) ** 2 for number in x) / len(x) + eps)
    return [(number - mean) / deviation * g + b for number, g, b in zip(x, gain, bias, strict=True)]


def slow_heads(Q: Matrix, K: Matrix, V: Matrix, real: Sequence[int], heads: int) -> Matrix:
    """Attend with every query to the real tokens, softmax(Q K^T / sqrt(d)) V, the heads side by side."""
    d = len(Q[0]) // heads
    result = []
    for q in Q:
        row: Vector = []
        for head in range(heads):
            mine = range(head * d, (head + 1) * d)
            scores = {s: math.exp(sum(q[i] * K[s][i] for i in mine) / math.sqrt(d)) for s in range(len(K)) if real[s]}
            total = sum(scores.values())
            row += [sum(score / total * V[s][i] for s, score in scores.items()) for i in mine]
        result.append(row)
    return result


def slow_attention(states: list[list[float]], scores: list[float]) -> list[float]:
    """Add states up, weighted by the softmax of their scores."""
    total = sum(math.exp(score) for score in scores)
    weights = [math.exp(score) / total for score in scores]
    return [sum(w * state[k] for w, state in zip(weights, states, strict=True)) for k in range(len(states[0]))]


def slow_personal_pool(own: nn.Module, states: list[Vector], a: Vector) -> Vector:
    """``e_t = v^T tanh(W_h h_t + W a + b)``, the attention of Chen et al. 2016; without attributes where a is empty."""
    W_h, b, v = (own.get_parameter(name).tolist() for name in ("W_h", "b", "v"))
    personal = added(matrix_times(own.get_parameter("W").tolist(), a), b) if a else b
    inner = [[math.tanh(x) for x in added(matrix_times(W_h, state), personal)] for state in states]
    return slow_attention(states, matrix_times(inner, v))
