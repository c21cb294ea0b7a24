"""What a service answers: the same as `attribune predict`, with what is unknown said."""

from __future__ import annotations

import csv
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small_runs
import torch
from fastapi.testclient import TestClient
from live_service import client_of
from trained_runs import TrainedRuns

from attribune import Date, train
from attribune.apps.cli import main
from attribune.apps.serve import ServedModel, load_models
from attribune.models.predictor import Predictor

pytestmark = pytest.mark.slow

NEW = small_runs.reviews(40, seed=8, users=11)  # users 7 to 10 are new
METHODS = ("injector", "pln", "linear", "none")


def asked(row: dict[str, Any], method: str) -> dict[str, Any]:
    """A row of the table as a caller writes it."""
    attributes = {"user": row["user"], "tags": row["tags"].split(";") if row["tags"] else None}
    attributes["price"] = float(row["price"]) if row["price"] else None
    return {"text": row["text"], "attributes": {} if method == "none" else attributes}


@pytest.fixture(scope="session")
def predicted(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    """What the command line says of the new rows."""
    folder = tmp_path_factory.mktemp("predicted")
    data = small_runs.write_csv(folder / "new.csv", NEW)
    found = {}
    for method in METHODS:
        assert main(["predict", str(runs / method), str(data), "--output", str(folder / f"{method}.csv")]) == 0
        with (folder / f"{method}.csv").open() as file:
            found[method] = list(csv.DictReader(file))
    return found


def same(output: dict[str, Any], row: dict[str, str]) -> bool:
    numbers = [abs(value - float(row[name])) < 1e-5 for name, value in output.items() if name.startswith("prob")]
    return output["prediction"] == row["prediction"] and len(numbers) == 2 and all(numbers)


@pytest.mark.parametrize("method", METHODS)
def test_answers_equal_predictions_of_the_command_line(
    method: str, client: TestClient, predicted: dict[str, list[dict[str, str]]]
) -> None:
    answer = client.post("/v1/predict", json={"model": method, "rows": [asked(row, method) for row in NEW]}).json()
    assert answer["model"] == method
    assert all(same(found["output"], row) for found, row in zip(answer["predictions"], predicted[method], strict=True))


def test_requests_at_once_get_their_own_answers(client: TestClient, predicted: dict[str, list[dict[str, str]]]) -> None:
    jobs = [(method, place) for place in range(len(NEW)) for method in METHODS]

    def ask(job: tuple[str, int]) -> bool:
        method, place = job
        answer = client.post("/v1/predict", json={"model": method, **asked(NEW[place], method)}).json()
        return same(answer["predictions"][0]["output"], predicted[method][place])

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, jobs))


def test_one_thread_loads_and_asks(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one that computes would take a third of the throughput."""
    threads, score = set(), Predictor.score

    def seen(self: Predictor, rows: Any) -> Any:
        threads.add(threading.current_thread().name)
        return score(self, rows)

    monkeypatch.setattr(Predictor, "score", seen)
    models = load_models([str(runs / "injector"), str(runs / "pln")])
    assert len(threads) == 1, "models are asked once when they are loaded"
    with client_of(models) as client, ThreadPoolExecutor(4) as callers:
        bodies = [{"model": name, **asked(NEW[0], name)} for name in ("injector", "pln") * 4]
        answers = list(callers.map(lambda body: client.post("/v1/predict", json=body), bodies))
    assert {answer.status_code for answer in answers} == {200}
    assert len(threads) == 1
    assert threads != {threading.current_thread().name}


def ask(client: TestClient, **attributes: Any) -> dict[str, Any]:
    body = {"model": "injector", "text": "a great film", "attributes": attributes}
    return client.post("/v1/predict", json=body).json()["predictions"][0]


def test_unknown_values_are_named_and_count_as_missing(client: TestClient) -> None:
    nobody, somebody = ask(client), ask(client, user="u1", tags=["war"], price=3)
    new = ask(client, user="u77", tags=["war", "opera", "mime"], price=1e9)
    assert nobody["unknown"] == somebody["unknown"] == {}
    assert new["unknown"] == {"user": ["u77"], "tags": ["opera", "mime"]}
    assert ask(client, user="u77")["output"] == nobody["output"] != somebody["output"]
    assert ask(client, user=None, tags=[], price=None)["output"] == nobody["output"]
    assert ask(client, user="", tags=[None, "null"], price="NaN") == nobody


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("user", [" u1 ", "u1"]),
        ("tags", ["war;drama", ["war", "drama"], ["drama", "war", "war"]]),
        ("tags", ["war", ["war"]]),
        ("price", ["4.50", 4.5]),
    ],
)
def test_values_are_read_as_in_tables(name: str, values: list[Any], client: TestClient) -> None:
    first, *others = (ask(client, **{name: value})["output"] for value in values)
    assert all(other == first for other in others)


def test_models_are_described(client: TestClient) -> None:
    first, *_, last = listed = client.get("/v1/models").json()["models"]
    assert [model["name"] for model in listed] == list(METHODS)
    assert first["output"] == ["prediction", "probability_bad", "probability_good"]
    assert [attribute["name"] for attribute in first["attributes"]] == ["user", "tags", "price"]
    user = {"name": "user", "kind": "categorical", "values": 7, "several": False, "unseen": "unknown"}
    assert (first["attributes"][0], last["attributes"]) == (user, [])


def test_a_date_is_described_as_a_request_names_it(tmp_path: Path) -> None:
    texts, labels = [f"text number {row}" for row in range(60)], ["good", "bad"] * 30
    table = {"text": texts, "label": labels, "posted": [f"2024-05-{1 + row % 28:02}" for row in range(60)]}
    given: dict[str, Any] = {"text": "text", "label": "label", "attributes": [Date("posted")], "method": "linear"}
    train(pd.DataFrame(table), tmp_path / "run", baselines=False, **given)
    (served,) = load_models([str(tmp_path / "run")]).values()
    described = [(one["name"], one["kind"], one["values"]) for one in served.describe()["attributes"]]
    assert described == [("posted", "date", None)]


# Shared weights


def weights(served: ServedModel) -> dict[str, int]:
    """Where the parameters of the backbone lie."""
    return {name: parameter.data_ptr() for name, parameter in served.predictor.model.backbone.named_parameters()}


def test_runs_of_one_backbone_share_its_weights(models: dict[str, ServedModel]) -> None:
    assert weights(models["injector"]) == weights(models["pln"])


def test_what_a_run_learned_in_the_backbone_is_its_own(runs: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    """A run that tuned the norms leaves those of the other as they are."""
    tuned = ("--tuning", "layernorm", "--set", "training.learning_rate=0.05", "training.backbone_learning_rate=0.05")
    trained_runs.copy(trained_runs("pln", "--no-baselines", *tuned), tmp_path / "norms")
    text = {"text": ["a great film", "dull cast"], "user": ["u1", "u2"]}
    alone = [load_models([str(path)]) for path in (runs / "injector", tmp_path / "norms")]
    both = load_models([str(tmp_path / "norms"), str(runs / "injector")])
    for name, single in zip(("injector", "norms"), alone, strict=True):
        columns = {key: text.get(key, [None, None]) for key in both[name].predictor.columns}
        expected = single[name].answer(columns)
        assert both[name].answer(columns) == expected
    mine, theirs = weights(both["norms"]), weights(both["injector"])
    own = {name for name in theirs if mine[name] != theirs[name]}
    learned = both["norms"].predictor.model.config.learned
    assert own == {name.removeprefix("backbone.") for name in learned if name.startswith("backbone.")} < set(theirs)


def test_half_the_memory_for_a_bfloat16_backbone(runs: Path) -> None:
    half = load_models([str(runs / "injector")], dtype="bfloat16")["injector"]
    assert {parameter.dtype for parameter in half.predictor.model.backbone.parameters()} == {torch.bfloat16}
    assert half.describe()["precision"] == "bfloat16"
    with client_of({"injector": half}) as client:
        output = ask(client, user="u1")["output"]
    assert output["probability_bad"] + output["probability_good"] == pytest.approx(1)


def test_a_saved_model_without_its_run(runs: Path) -> None:
    served = load_models([f"stars={runs / 'injector' / 'model'}", str(runs / "injector")])
    columns = {"text": ["a great film"], "user": ["u1"], "tags": [None], "price": [None]}
    assert served["stars"].answer(columns) == served["injector"].answer(columns)


# Figures


def test_figures_say_what_was_asked(models: dict[str, ServedModel]) -> None:
    with client_of(models) as client:
        for user in ("u1", "u2", "u77", None):
            ask(client, user=user)
        client.post("/v1/predict", json={"model": "injector"})
        client.get("/nowhere")
        lines = client.get("/metrics").text.splitlines()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    status = 'attribune_attribute_values_total{attribute="user",model="injector",status='
    expected = {
        'attribune_requests_total{path="/v1/predict",status="200"}': "4.0",
        'attribune_requests_total{path="/v1/predict",status="422"}': "1.0",
        'attribune_requests_total{path="other",status="404"}': "1.0",
        'attribune_texts_total{model="injector"}': "4.0",
        'attribune_request_duration_seconds_count{path="/v1/predict"}': "5.0",
        "attribune_batch_size_count": "4.0",
        "attribune_queue_size": "0.0",
        **{f'{status}"{name}"}}': count for name, count in (("known", "2.0"), ("unknown", "1.0"), ("missing", "1.0"))},
    }
    assert {name: figures[name] for name in expected} == expected


def test_a_service_can_keep_who_is_known_to_itself(models: dict[str, ServedModel]) -> None:
    with client_of(models, hide_unknown=True) as client:
        for user in ("u1", "nobody"):
            assert set(ask(client, user=user)) == {"output"}
        described, figures = (client.get(path).text for path in ("/openapi.json", "/metrics"))
    schema = models["injector"].predictor.schema
    assert not [value for name in ("user", "tags") for value in schema[name].values if f'"{value}"' in described]
    assert 'values_total{attribute="user",model="injector",status="unknown"} 1.0' in figures
