"""Which texts should be judged next: their information against slow loops and samples, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import small_runs
import torch
from commands import Attribune
from trained_runs import TrainedRuns

from attribune.errors import AttribuneError, ConfigError
from attribune.functional import prediction_gain, value_covariance_after
from attribune.models.model import AttributeModel
from attribune.runs.loading import load_run
from attribune.tasks import Classification, Ordinal, Preference, Rating, Regression, Task
from attribune.values.next_texts import NextText, _information_root, _Vector, next_texts

D, N = 5, 7


def vector(task: Task, *, seed: int = 0, width: float = 1.0) -> _Vector:
    generator = torch.Generator().manual_seed(seed)
    C = task.outputs
    logits, J = (torch.randn(shape, generator=generator).double() for shape in ((N, C), (N, C, D)))
    G = torch.einsum("ncd,nck->ndk", J, _information_root(task, logits))
    return _Vector(G=G, Sigma=width * torch.eye(D).double())


def test_the_covariance_after_rows_is_that_of_a_slow_inverse() -> None:
    A, G = torch.randn(D, D, dtype=torch.float64), torch.randn(D, 3, dtype=torch.float64)
    Sigma = A @ A.T + torch.eye(D)
    expected = np.linalg.inv(Sigma.numpy())
    for i in range(D):
        for j in range(D):
            for k in range(3):
                expected[i, j] += float(G[i, k]) * float(G[j, k])
    found = value_covariance_after(Sigma, G)
    torch.testing.assert_close(found, torch.from_numpy(np.linalg.inv(expected)), rtol=1e-10, atol=1e-12)
    assert (value_covariance_after(Sigma, -2 * G) - found).abs().max() > 1e-3


def test_the_information_of_classes_is_the_hessian_of_their_loss() -> None:
    logits = torch.randn(N, 3, dtype=torch.float64)
    root = _information_root(Classification(classes=3), logits)
    p = logits.softmax(dim=1)
    for row in range(N):
        hessian = torch.diag(p[row]) - torch.outer(p[row], p[row])
        torch.testing.assert_close(root[row] @ root[row].T, hessian, rtol=1e-6, atol=1e-8)


def test_the_gain_is_that_of_a_slow_loop() -> None:
    """Of each text the covariance after it, and the expected loss of each other text before and after."""
    A, G = torch.randn(D, D, dtype=torch.float64), torch.randn(N, D, 3, dtype=torch.float64)
    Sigma = A @ A.T + torch.eye(D)
    M = torch.einsum("ndk,nek->de", G, G) / N
    found = prediction_gain(Sigma, G, M)
    for text in range(N):
        change = Sigma - value_covariance_after(Sigma, G[text])
        expected = 0.0
        for other in range(N):
            for k in range(3):
                for i in range(D):
                    for j in range(D):
                        expected += float(G[other, i, k] * change[i, j] * G[other, j, k]) / (2 * N)
        assert float(found[text]) == pytest.approx(expected, rel=1e-10)
    assert (prediction_gain(Sigma, G, torch.eye(D).double()) - found).abs().max() > 1e-3


@pytest.mark.parametrize(
    "task",
    [
        Classification(classes=3),
        Classification(classes=2, soft_labels=True),
        Rating(classes=("1", "2", "3")),
        Ordinal(classes=("1", "2", "3", "4")),
        Preference(),
        Regression(),
    ],
)
def test_what_is_judged_is_known(task: Task) -> None:
    """No text is chosen twice, each tells something, and what is left to learn becomes less."""
    known = vector(task)
    before = float(torch.trace(known.Sigma))
    chosen = known.choose(N + 5)
    assert sorted(row for row, _ in chosen) == list(range(N))
    assert all(gain > 0 for _, gain in chosen)
    assert chosen[0][1] > chosen[-1][1]
    assert float(torch.trace(known.Sigma)) < before
    assert vector(task).choose(3) == chosen[:3]


def test_a_text_whose_answer_does_not_depend_on_the_vector_comes_last() -> None:
    known = vector(Classification(classes=2))
    known.G[4] = 0
    assert known.choose(N)[-1][0] == 4


def test_a_copy_of_what_was_judged_tells_less_than_another_text() -> None:
    known = vector(Classification(classes=2), width=4.0)
    known.G[1] = known.G[0]
    M = torch.einsum("ndk,nek->de", known.G, known.G) / N
    alone = prediction_gain(known.Sigma, known.G, M)
    after = prediction_gain(value_covariance_after(known.Sigma, known.G[0]), known.G, M)
    assert after[1] < 0.8 * alone[1]


def test_a_text_like_many_is_asked_before_one_that_tells_more_of_itself_alone() -> None:
    """The information about the vector alone would take the odd one."""
    G = torch.zeros(N, D, 1).double()
    G[:-1, 0], G[-1, 1] = 1.0, 1.3
    assert _Vector(G=G, Sigma=torch.eye(D).double()).choose(1)[0][0] < N - 1


def test_the_gain_is_what_answers_bring_in_a_simulation() -> None:
    """People and answers are drawn; the chosen texts leave less error than those that are drawn or tell least."""
    generator = torch.Generator().manual_seed(0)
    J = torch.randn(40, D, generator=generator).double() * torch.tensor([3.0, 1.0, 0.3, 0.1, 0.1])
    known = _Vector(G=2**0.5 * J.unsqueeze(2), Sigma=torch.eye(D).double())
    order = [row for row, _ in known.choose(40)]
    people = torch.randn(400, D, generator=generator).double()
    answers = people @ J.T + 0.5**0.5 * torch.randn(400, 40, generator=generator).double()

    def error(rows: list[int]) -> float:
        A = J[rows]
        found = torch.linalg.solve(torch.eye(D).double() + 2 * A.T @ A, 2 * A.T @ answers[:, rows].T).T
        return float(((found - people) @ J.T).square().mean())

    assert error(order[:2]) < error([0, 1]) < error(order[-2:])
    assert error(order[:5]) < error([0, 1, 2, 3, 4])


# The command


SHORT = small_runs.reviews(12, seed=5)
slow = pytest.mark.slow


@pytest.fixture
def texts(trained_runs: TrainedRuns) -> Path:
    """Twelve texts, of which the fourth is empty."""
    rows = [{"id": number, "text": row["text"]} for number, row in enumerate(SHORT)]
    rows[3]["text"] = " "
    return trained_runs.table(rows)


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    """With a small prior: a training this short knows little of how values differ."""

    def make(folder: Path) -> None:
        trained_runs.copy(trained_runs("injector"), folder)
        model = AttributeModel.from_pretrained(folder / "model")
        model.config.value_priors = {"user": 1e-5}
        model.save_pretrained(folder / "model")

    return trained_runs.once("run", "injector with a prior", make)


def all_of(run: Path, texts: Path, value: str = "new") -> list[NextText]:
    return next_texts(run, str(texts), attribute="user", value=value, count=99)


@slow
def test_the_command_lists_texts_in_order(attribune: Attribune, run: Path, texts: Path) -> None:
    command = ("next", run, texts, "--for", "user=new")
    before = (run / "model" / "model.safetensors").read_bytes()
    found = json.loads(attribune(*command, "--count", "4", "--json")[1])
    assert len({text["row"] for text in found}) == 4
    assert all(text["gain"] >= 0 for text in found)
    lines = attribune(*command, "--count", "2")[1].splitlines()
    assert lines[0].split() == ["row", "gain", "text"]
    assert lines[2].startswith(str(found[0]["row"]))
    assert (run / "model" / "model.safetensors").read_bytes() == before


@slow
def test_all_texts_are_listed_once_with_their_rows(run: Path, texts: Path) -> None:
    found = all_of(run, texts)
    assert sorted(text.row for text in found) == [row for row in range(1, 13) if row != 4], "row 4 has no text"
    assert all(SHORT[text.row - 1]["text"] == text.text for text in found)


@slow
def test_a_text_of_several_rows_is_listed_once(run: Path, tmp_path: Path) -> None:
    rows = SHORT[:6]
    path = small_runs.write_csv(tmp_path / "judged.csv", [*rows, *({**row, "user": "u9"} for row in rows), *rows])
    assert sorted(text.text for text in all_of(run, path)) == sorted(row["text"] for row in rows)
    assert len(next_texts(run, str(path), attribute="user", value="new", count=4)) == 4


@slow
def test_predictions_are_as_before(run: Path) -> None:
    """The slopes are computed in tables that are put back."""
    predictor = load_run(run)[1]
    table = {"text": ["a great film"] * 3, "user": ["u1", "u2", "new"]}
    before = predictor.logits(table)[0]
    attribute, rows = predictor.schema["user"], predictor.encode_rows(table)
    known = _Vector.of(predictor, attribute, rows, value=1)
    assert known.G.abs().max() > 0
    assert np.array_equal(predictor.logits(table)[0], before)


@slow
def test_a_value_with_rows_leaves_less_to_learn(run: Path, texts: Path) -> None:
    new, known = all_of(run, texts), all_of(run, texts, "u1")
    assert sum(text.gain for text in known) < sum(text.gain for text in new)


@slow
@pytest.mark.parametrize("content", ["", "id\n1\n", "text\n\n", 'text\n" "\n'])
def test_tables_without_texts_cost_one_message(run: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "texts.csv").write_text(content, encoding="utf-8")
    with pytest.raises(AttribuneError):
        next_texts(run, str(tmp_path / "texts.csv"), attribute="user", value="new")


@slow
def test_values_too_large_for_a_covariance_are_refused(run: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attribune.values.next_texts._NUMBERS", 7)
    with pytest.raises(ConfigError, match="a value of 'user' has 8 numbers in this model"):
        all_of(run, texts)
