"""The vectors of sets of labelled rows, against slow loops over rows and numbers, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attribune.functional import residual_features, set_encoding
from attribune.models.set_encoder import LabelledDocuments, SetEncoder
from attribune.tasks import fit_task

V, N, H, C, Y, G, D, A = 4, 5, 3, 2, 2, 6, 4, 3
COUNTS = [5, 1, 0, 3]


def drawn(**shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    return {name: torch.randn(shape, dtype=torch.float64) for name, shape in shapes.items()}


def rows() -> dict[str, torch.Tensor]:
    return drawn(h=(V, N, H), y=(V, N, C), r=(V, N, C), E=(C, Y), W_1=(H + Y + C, G), b_1=(G,), W_2=(C, G, D))


def slow_features(h: Any, y: Any, r: Any, E: Any, W_1: Any, b_1: Any, W_2: Any) -> list[float]:
    """One row."""
    embedded = [sum(y[c] * E[c][i] for c in range(len(y))) for i in range(len(E[0]))]
    x = [*h, *embedded, *r]
    inner = [math.tanh(sum(x[i] * W_1[i][g] for i in range(len(x))) + b_1[g]) for g in range(len(b_1))]
    return [
        sum(r[c] * inner[g] * W_2[c][g][d] for c in range(len(r)) for g in range(len(inner)))
        for d in range(len(W_2[0][0]))
    ]


def slow_encoding(g: Any, U: Any, q: Any, kappa: float) -> list[float]:
    """One set."""
    scores = [
        math.exp(sum(q[a] * math.tanh(sum(row[d] * U[d][a] for d in range(D))) for a in range(len(q)))) for row in g
    ]
    share = len(g) / (len(g) + kappa)
    return [share * sum(s * row[d] for s, row in zip(scores, g, strict=True)) / (sum(scores) or 1) for d in range(D)]


def test_what_a_row_says_is_that_of_a_slow_loop() -> None:
    p = rows()
    found = residual_features(**p)
    weights = [p[name].tolist() for name in ("E", "W_1", "b_1", "W_2")]
    for v in range(V):
        for n in range(N):
            expected = slow_features(*(p[name][v, n].tolist() for name in "hyr"), *weights)
            assert found[v, n].tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert (residual_features(**{**p, "y": -p["y"]}) - found).abs().max() > 1e-2
    assert not residual_features(**{**p, "r": torch.zeros_like(p["r"])}).any()


def test_the_vector_of_a_set_is_that_of_a_slow_loop() -> None:
    p, kappa = drawn(g=(V, N, D), U=(D, A), q=(A,)), torch.tensor([2.5], dtype=torch.float64)
    mask = torch.arange(N) < torch.tensor(COUNTS)[:, None]
    found = set_encoding(p["g"], mask, U=p["U"], q=p["q"], kappa=kappa)
    for v, count in enumerate(COUNTS):
        expected = slow_encoding(p["g"][v, :count].tolist(), p["U"].tolist(), p["q"].tolist(), 2.5)
        assert found[v].tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert not found[2].any()
    everything = set_encoding(p["g"], torch.ones_like(mask), U=p["U"], q=p["q"], kappa=kappa)
    assert (everything - found).abs().max() > 1e-2  # rows that are not there count


def test_the_order_of_rows_does_not_matter() -> None:
    p, kappa = drawn(g=(V, N, D), U=(D, A), q=(A,)), torch.tensor([1.0], dtype=torch.float64)
    mask = torch.arange(N) < torch.tensor(COUNTS)[:, None]
    order = torch.randperm(N)
    found, mixed = (
        set_encoding(g, m, U=p["U"], q=p["q"], kappa=kappa)
        for g, m in ((p["g"], mask), (p["g"][:, order], mask[:, order]))
    )
    torch.testing.assert_close(found, mixed, rtol=1e-12, atol=1e-12)


def test_the_module_pads_sets_as_the_equations_have_it() -> None:
    encoder = SetEncoder(features=H, outputs=C, numbers=D).double()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn_like(parameter))
    p = drawn(h=(7, H), y=(7, C), r=(7, C))
    documents = LabelledDocuments(**p)
    sets = [torch.tensor(one).numpy() for one in ([0, 3, 5], [6], [])]
    with torch.no_grad():
        found = encoder.of_sets(documents, [one.astype(int) for one in sets])
        weights = [getattr(encoder, name).tolist() for name in ("E", "W_1", "b_1", "W_2")]
        kappa = float(torch.nn.functional.softplus(encoder.kappa))
        for vector, one in zip(found, sets, strict=True):
            g = [slow_features(*(p[name][int(row)].tolist() for name in "hyr"), *weights) for row in one]
            expected = slow_encoding(g, encoder.U.tolist(), encoder.q.tolist(), kappa)
            assert vector.tolist() == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_labels_and_residuals_are_gradients_of_the_loss() -> None:
    """Of classes ``p - y``, of numbers twice the error; documents have the length 1."""
    logits, documents = torch.randn(3, 3), torch.randn(3, 4)
    task = fit_task("classification", [["a", "b", "c"]])
    labels = torch.tensor([2, 0, 1])
    found = LabelledDocuments.of(task, documents, logits, labels)
    one_hot = torch.nn.functional.one_hot(labels, 3).float()
    torch.testing.assert_close(found.r, logits.softmax(dim=1) - one_hot)
    torch.testing.assert_close(found.y, one_hot - 1 / 3)
    torch.testing.assert_close(found.h.norm(dim=1), torch.ones(3))
    numbers = torch.tensor([0.5, -1.0, 2.0])
    found = LabelledDocuments.of(fit_task("regression", [["0", "1", "2"]]), documents, logits[:, :1], numbers)
    torch.testing.assert_close(found.r, 2 * (logits[:, :1] - numbers[:, None]))
    torch.testing.assert_close(found.y, 2 * numbers[:, None])
