"""Values that are learned over HTTP: as `attribune enrol` learns them, stored with the run, and forgotten."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import httpx
import numpy as np
import pytest
import small_runs
from datasets import Dataset
from fastapi.testclient import TestClient
from live_service import PATIENCE, Clock, client_of, service_of, until
from trained_runs import TrainedRuns

from attribune.apps.cli import main
from attribune.apps.serve import ServedModel, load_models
from attribune.apps.serve.settings import Keys
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.values.enrol import enrol
from attribune.values.forget import forget
from attribune.values.learning import ValueLearner
from attribune.values.live_run import LiveRun
from attribune.values.record import enrolments

pytestmark = pytest.mark.slow

OLD = small_runs.reviews(30, seed=8)
NEW = [{**row, "user": "u 9/9"} for row in small_runs.reviews(12, seed=4)]
VALUE = "u 9/9"
PATH = "/v1/values/user/u%209%2F9"


def attributes_of(row: dict[str, Any], *, without: str = "") -> dict[str, Any]:
    tags = row["tags"].split(";") if row["tags"] else None
    found = {"user": row["user"], "tags": tags, "price": float(row["price"]) if row["price"] else None}
    return {name: value for name, value in found.items() if name != without}


def body(rows: list[dict[str, Any]] = NEW, *, value: Any = VALUE, **more: Any) -> dict[str, Any]:
    """A request that adds a user."""
    labelled = [
        {"text": row["text"], "attributes": attributes_of(row, without="user"), "label": row["stars"]} for row in rows
    ]
    return {"attribute": "user", "value": value, "rows": labelled, **more}


def outputs(client: TestClient, rows: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    given = [{"text": row["text"], "attributes": attributes_of(row)} for row in rows]
    answer = client.post("/v1/predict", json={"rows": given, **more})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["predictions"])


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one["unknown"] == other["unknown"]
        assert one["output"] == pytest.approx(other["output"], abs=1e-6)


def learned(client: TestClient, rows: list[dict[str, Any]] = NEW, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/enrol", json=body(rows, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """A run that may change."""
    return Path(shutil.copytree(runs / "injector", tmp_path / "injector"))


@pytest.fixture
def other(runs: Path, tmp_path: Path) -> Path:
    """The same run, for commands."""
    return Path(shutil.copytree(runs / "injector", tmp_path / "other"))


@contextmanager
def serving(*runs: Path, **settings: Any) -> Iterator[TestClient]:
    models = load_models([str(run) for run in runs], enrol=True)
    with client_of(models, enrol=True, **settings) as client:
        client.models = models
        yield client


@pytest.fixture
def client(run: Path) -> Iterator[TestClient]:
    """A service of the run alone, to which values can be added."""
    with serving(run) as client:
        yield client


def fault(answer: httpx.Response, status: int) -> tuple[str, str]:
    assert answer.status_code == status, answer.text
    found = answer.json()["errors"][0]
    return found["field"], found["reason"]


def vectors(run: Path, value: str = VALUE) -> dict[str, Any]:
    model: Any = load_run(run)[1].model
    number = model.schema["user"].values.ids([value])[0]
    assert number
    owners = model.values.owners().items()
    return {name: model.get_parameter(name).detach()[number].numpy() for name, owner in owners if owner == "user"}


def test_it_is_learned_as_the_command_learns_it(run: Path, other: Path, client: TestClient, tmp_path: Path) -> None:
    (expected,) = enrol(other, str(small_runs.write_csv(tmp_path / "new.csv", NEW)), attributes=["user"]).values
    answer = learned(client)
    assert answer.pop("seconds") > 0
    said = {"model": "injector", "attribute": "user", "value": VALUE, "rows": 12, "stored": True}
    said |= {name: pytest.approx(getattr(expected, name), abs=1e-6) for name in ("loss_before", "loss_after")}
    assert answer == said
    for name, vector in vectors(other).items():
        np.testing.assert_allclose(vectors(run)[name], vector, atol=1e-6)
    probabilities = load_run(other)[1].predict(Dataset.from_list(NEW))["probability_good"]
    served = outputs(client, NEW)
    assert all(not one["unknown"] for one in served)
    np.testing.assert_allclose([one["output"]["probability_good"] for one in served], probabilities, atol=1e-6)
    assert served != outputs(client, [{**row, "user": "nobody"} for row in NEW])
    metrics = client.get("/metrics").text
    assert 'attribune_enrolments_total{model="injector"} 1.0' in metrics
    assert 'attribune_requests_total{path="/v1/enrol",status="200"} 1.0' in metrics


def test_it_is_there_after_a_restart_and_can_be_undone(run: Path, tmp_path: Path) -> None:
    def known() -> Any:
        return load_run(run)[1].predict(Dataset.from_list(OLD))["probability_good"]

    def steps() -> list[list[str]]:
        return [[value.value for value in step] for step in enrolments(run)]

    before = known()
    with serving(run) as client:
        for number in range(2):
            learned(client, NEW[number::2], value=f"new{number}")
        rows = [{**row, "user": f"new{number % 2}"} for number, row in enumerate(NEW)]
        served = outputs(client, rows)
    with serving(run) as client:
        same(outputs(client, rows), served)
    assert steps() == [["new0"], ["new1"]]
    data = small_runs.write_csv(tmp_path / "rows.csv", rows)
    assert main(["predict", str(run), str(data), "--output", str(tmp_path / "found.csv")]) == 0
    assert main(["enrol", str(run), "--undo"]) == 0
    assert steps() == [["new0"]]
    np.testing.assert_array_equal(before, known())


def test_what_is_known_stays_to_the_bit_and_other_models_do_not_grow(runs: Path, run: Path, tmp_path: Path) -> None:
    pln = Path(shutil.copytree(runs / "pln", tmp_path / "pln"))
    with serving(run, pln) as client:

        def ask() -> dict[str, Any]:
            alone = [outputs(client, [row], model=model) for row in OLD[:6] for model in ("injector", "pln")]
            return {"all": [outputs(client, OLD, model=model) for model in ("injector", "pln")], "alone": alone}

        def sizes() -> list[int]:
            return [model["attributes"][0]["values"] for model in client.get("/v1/models").json()["models"]]

        before, others = ask(), outputs(client, NEW, model="pln")
        assert sizes() == [7, 7]
        learned(client, model="injector")
        assert (sizes(), ask()) == ([8, 7], before)
        assert outputs(client, NEW, model="pln") == others
        assert outputs(client, NEW, model="injector")[0]["unknown"] == {}
        learned(client, model="pln")
        assert sizes() == [8, 8]


def test_forgetting_is_that_of_the_command(run: Path, other: Path, client: TestClient) -> None:
    more = [{**row, "user": "more"} for row in NEW]
    learned(client)
    learned(client, value="more")
    everybody = outputs(client, more)
    found = client.delete(PATH).json()
    assert (found["value"], found["models"], found["remaining"]) == (VALUE, 1, [])
    assert outputs(client, NEW)[0]["unknown"] == {"user": [VALUE]}
    assert outputs(client, more) == everybody
    assert client.delete("/v1/values/user/u3").json()["predictions"] == forget(other, "user", ["u3"]).predictions
    assert outputs(client, [{**OLD[0], "user": "u3"}])[0]["unknown"] == {"user": ["u3"]}
    assert client.delete("/v1/values/user/more").status_code == 200
    (_, mine), (_, theirs) = load_run(run), load_run(other)
    assert mine.schema["user"].values == theirs.schema["user"].values
    np.testing.assert_array_equal(*(one.logits(Dataset.from_list(OLD))[0] for one in (mine, theirs)))
    assert fault(client.delete(PATH), 404)[0] == "value"
    assert 'attribune_removals_total{model="injector"} 3.0' in client.get("/metrics").text
    learned(client, value="u3")  # it can be learned anew
    with serving(run) as again:
        same(outputs(again, OLD), outputs(client, OLD))


def test_those_who_come_together_are_written_together(
    run: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, free, writes, replace_model = threading.Event(), threading.Event(), list[int](), RunFolder.replace_model

    def slow(self: RunFolder, save: Callable[[Path], Any]) -> None:
        writes.append(len(enrolments(self.path)))
        begun.set()
        assert free.wait(PATIENCE)
        replace_model(self, save)

    monkeypatch.setattr(RunFolder, "replace_model", slow)
    before = outputs(client, OLD)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(client.post, "/v1/enrol", json=body(value="first"))
        assert begun.wait(PATIENCE)
        same(outputs(client, OLD), before)  # predictions do not wait for the disk
        assert outputs(client, [{**OLD[0], "user": "first"}])[0]["unknown"], "nor does anyone know it before"
        twice = fault(client.post("/v1/enrol", json=body(value="first")), 409)
        assert twice == ("value", "another request is adding it now: try again later")
        more = [pool.submit(client.post, "/v1/enrol", json=body(value=f"more{number}")) for number in range(4)]
        writer = client.app.state.values.writer
        until(lambda: sum(map(len, writer._waiting.values())) == 4)
        free.set()
        assert [one.result().status_code for one in (first, *more)] == [200] * 5
    assert writes == [0, 1]
    assert sorted(step[0].value for step in enrolments(run)) == ["first", "more0", "more1", "more2", "more3"]
    rows = [{**OLD[0], "user": value} for value in ("first", "more0", "more3")]
    served = outputs(client, rows)
    assert not any(one["unknown"] for one in served)
    with serving(run) as again:
        same(outputs(again, rows), served)


def test_predictions_go_on_between_the_passes_over_the_rows(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a value is learned, callers are answered as before."""
    before, passes, answered = outputs(client, OLD), list[int](), threading.Event()
    losses = ValueLearner._losses

    def waiting(self: ValueLearner, *, learn: bool) -> Any:
        passes.append(len(passes))
        if len(passes) == 2:
            until(lambda: service_of(client.app).batcher.waiting > 0)
        if len(passes) > 2:
            assert answered.wait(PATIENCE), "who came before the second pass has the answer before the third"
        return losses(self, learn=learn)

    monkeypatch.setattr(ValueLearner, "_losses", waiting)
    with ThreadPoolExecutor(1) as pool:
        learned = pool.submit(client.post, "/v1/enrol", json=body())
        until(lambda: len(passes) >= 2)
        same(outputs(client, OLD), before)
        answered.set()
        assert learned.result().status_code == 200
    same(outputs(client, OLD), before)


# What goes wrong


@pytest.mark.exhaustive
def test_a_full_disk_keeps_the_value_out(run: Path, client: TestClient) -> None:
    def state() -> tuple[Any, ...]:
        files = {path.name: path.read_bytes() for path in (run / "model").iterdir() if path.is_file()}
        return files, outputs(client, [*OLD, *NEW])

    before = state()
    for error in (OSError(errno.ENOSPC, "No space left on device"), ModelFolderError("it is full")):
        with mock.patch("attribune.models.folder.ModelSnapshot.save_pretrained", side_effect=error):
            field, reason = fault(client.post("/v1/enrol", json=body()), 503)
            assert (field, "full" in reason or "No space left" in reason) == ("model", True)
            assert fault(client.delete("/v1/values/user/u3"), 503)[0] == "model"
        assert state() == before
    learned(client)
    assert client.delete(PATH).status_code == 200


def test_a_run_that_another_command_works_in(run: Path, client: TestClient) -> None:
    with RunFolder(run).held():
        field, reason = fault(client.post("/v1/enrol", json=body()), 503)
        assert (field, "works in" in reason) == ("model", True)
        assert fault(client.delete("/v1/values/user/u3"), 503)[0] == "model"
        assert outputs(client, NEW)[0]["unknown"] == {"user": [VALUE]}
    learned(client)


@pytest.mark.exhaustive
def test_a_run_that_another_command_changed(run: Path, client: TestClient, tmp_path: Path) -> None:
    """Its values are not lost: the service must be started again before it adds more."""
    before = outputs(client, OLD)
    enrol(run, str(small_runs.write_csv(tmp_path / "new.csv", [{**row, "user": "theirs"} for row in NEW])))
    paths = [f"/v1/values/user/{name}" for name in ("u3", "nobody")]
    for answer in (client.post("/v1/enrol", json=body()), *map(client.delete, paths)):
        field, reason = fault(answer, 503)
        assert (field, "was changed since it was loaded" in reason) == ("model", True)
    same(outputs(client, OLD), before)
    assert "theirs" in load_run(run)[1].schema["user"].values


@pytest.mark.exhaustive
def test_files_that_are_mapped(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its own changes nor those of others stop the service, which reads on from the files that it had."""
    monkeypatch.setattr("attribune.apps.serve.models._LARGEST_COPY", 0)
    with serving(run) as client:
        before = outputs(client, OLD)

        def reads_on() -> None:
            same(outputs(client, OLD), before)
            assert client.get("/health").status_code == 200

        assert any("model.safetensors" in path for path in client.models["injector"].files.stamps)
        learned(client)
        reads_on()
        assert client.delete(PATH).status_code == 200
        reads_on()
        file = run / "model" / "model.safetensors"
        shutil.copy(file, file.with_suffix(".copy"))
        file.with_suffix(".copy").replace(file)
        reads_on()


def test_learning_that_takes_too_long_is_given_up(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes, begun, free, losses = list[int](), threading.Event(), threading.Event(), ValueLearner._losses

    def slow(self: ValueLearner, *, learn: bool) -> Any:
        passes.append(1)
        begun.set()
        assert free.wait(PATIENCE)
        return losses(self, learn=learn)

    with serving(run) as client, ThreadPoolExecutor(1) as pool:
        before = outputs(client, OLD)
        with monkeypatch.context() as patch:
            patch.setattr(ValueLearner, "_losses", slow)
            asked = pool.submit(client.post, "/v1/enrol", json=body())
            assert begun.wait(PATIENCE)
            clock = Clock.of(client)
            clock.pass_time(PATIENCE + 1)
            assert f"no answer within {PATIENCE} seconds" in fault(asked.result(PATIENCE), 503)[1]
            clock.run()
            free.set()
            same(outputs(client, OLD), before)
        assert len(passes) == 1
        assert not enrolments(run)
        learned(client)


ROW = {"text": "a great film", "label": "good"}


def asked(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"attribute": "user", "value": "new", "rows": list(rows), **more}


WRONG: list[tuple[Any, int, str, str]] = [
    # the body
    (b"{", 400, "body", "not JSON"),
    ([], 422, "body", "valid dictionary"),
    ({}, 422, "attribute", "Field required"),
    (asked(ROW, stars=1), 422, "stars", "there is no such field"),
    (asked(ROW, model="nobody"), 404, "model", "there is no such model"),
    (asked(ROW, model=1), 422, "model", "valid string"),
    # the attribute
    (asked(ROW, attribute="nobody"), 422, "attribute", "has no attribute 'nobody': it has user, tags, price"),
    (asked(ROW, attribute="\ud800"), 422, "attribute", "has no attribute"),
    (asked(ROW, attribute="price"), 422, "attribute", "no list of values"),
    (asked(ROW, attribute=["user"]), 422, "attribute", "valid string"),
    # the value
    (asked(ROW, value="u3"), 409, "value", "has the value 'u3' already"),
    (asked(ROW, attribute="tags", value="war"), 409, "value", "has the value 'war' already"),
    *(
        (asked(ROW, value=value), 422, "value", "means that there is no value")
        for value in ("", "  ", None, "NaN", "null", float("nan"))
    ),
    (asked(ROW, value=["a"]), 422, "value", "valid"),
    (asked(ROW, value={"a": 1}), 422, "value", "valid"),
    (asked(ROW, value="\ud800"), 422, "value", "half of a surrogate pair"),
    (asked(ROW, value="x" * 1001), 422, "value", "1,001 characters"),
    *((asked(ROW, value=value), 422, "value", "could not be named in a path") for value in (".", "..")),
    (asked(ROW, attribute="tags", value="noir;opera"), 422, "value", "has ';' in it"),
    # the rows
    (asked(), 422, "rows", "the list is empty"),
    (asked(*[ROW] * 257), 422, "rows", "257 rows, but at most 256"),
    ({"attribute": "user", "value": "new"}, 422, "rows", "Field required"),
    (asked() | {"rows": None}, 422, "rows", "valid list"),
    (asked() | {"rows": "many"}, 422, "rows", "valid list"),
    (asked(ROW, None), 422, "rows[1]", "valid dictionary"),
    (asked(ROW, {"label": "good"}), 422, "rows[1].text", "Field required"),
    (asked(ROW, {**ROW, "text": "  "}), 422, "rows[1].text", "it is blank"),
    (asked(ROW, {**ROW, "text": None}), 422, "rows[1].text", "valid"),
    (asked(ROW, {**ROW, "text": ["a", "film"]}), 422, "rows[1].text", "reads a text"),
    (asked({**ROW, "text": "x" * 100_001}), 422, "rows[0].text", "at most 100,000"),
    (asked({**ROW, "stars": 3}), 422, "rows[0].stars", "there is no such field"),
    (asked({**ROW, "attributes": {"user": "u1"}}), 422, "rows[0].attributes.user", "leave it out"),
    (asked({**ROW, "attributes": {"price": "dear"}}), 422, "rows[0].attributes.price", "not a finite number"),
    (asked({**ROW, "attributes": {"x": 1}}), 422, "rows[0].attributes.x", "has no such attribute"),
    # the labels
    (asked(ROW, ROW, ROW, {"text": "x"}), 422, "rows[3].label", "there is no label"),
    *((asked(ROW, {**ROW, "label": label}), 422, "rows[1].label", "no label") for label in (None, "", "nan")),
    *((asked(ROW, {**ROW, "label": label}), 422, "rows[1].label", "not a label of the") for label in ("fine", 3, True)),
    (asked({**ROW, "label": "GOOD"}), 422, "rows[0].label", "give one of bad, good"),
    (asked({**ROW, "label": ["good"]}), 422, "rows[0].label", "is the list"),
    (asked({**ROW, "label": [["good"]]}), 422, "rows[0].label", "lists or objects"),
    (asked({**ROW, "label": {"good": 1}}), 422, "rows[0].label", "not shares"),
    (asked({**ROW, "label": "\ud800"}), 422, "rows[0].label", "half of a surrogate pair"),
]


@pytest.fixture(scope="module")
def unchanged(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service that refuses whatever it is asked: its run stays as it is."""
    run = Path(shutil.copytree(runs / "injector", tmp_path_factory.mktemp("unchanged") / "injector"))
    mark = RunFolder(run).model_mark
    with serving(run) as client:
        yield client
    assert RunFolder(run).model_mark == mark


def test_requests_that_cannot_be_used(unchanged: TestClient) -> None:
    for given, status, field, reason in WRONG:
        content = given if isinstance(given, bytes) else json.dumps(given).encode()
        answer = unchanged.post("/v1/enrol", content=content, headers={"content-type": "application/json"})
        found = fault(answer, status)
        assert (found[0], reason in found[1], found[1].isascii()) == (field, True, True), (given, found)


@pytest.mark.parametrize(
    ("path", "status", "field", "reason"),
    [
        ("/v1/values/user/nobody", 404, "value", "has no value 'nobody'"),
        ("/v1/values/nobody/u3", 404, "attribute", "has no attribute 'nobody'"),
        ("/v1/values/price/3", 422, "attribute", "no list of values"),
        ("/v1/values/user/a/b", 422, "path", "write a slash in a name as %2F"),
        ("/v1/values/user/", 422, "value", "it is empty"),
        ("/v1/values/user/%20", 422, "value", "it is empty"),
        ("/v1/values/user/%ff", 422, "path", "percent-encoded UTF-8"),
        ("/v1/values", 404, "path", "no such path"),
        ("/v1/values/user/u3?model=stars", 404, "model", "there is no such model"),
    ],
)
def test_paths_that_name_no_value(path: str, status: int, field: str, reason: str, unchanged: TestClient) -> None:
    found = fault(unchanged.delete(path), status)
    assert (found[0], reason in found[1]) == (field, True), found


@pytest.mark.exhaustive
def test_values_of_every_kind(client: TestClient) -> None:
    """Numbers are their canonical text; a value of several in a row stands beside others."""
    noir = asked({**ROW, "attributes": {"tags": ["war", "mime"], "user": 3}}, attribute="tags", value="noir")
    assert client.post("/v1/enrol", json=noir).json()["value"] == "noir"
    answer = client.post("/v1/predict", json={"text": "x", "attributes": {"tags": ["noir", "mime"]}}).json()
    assert answer["predictions"][0]["unknown"] == {"tags": ["mime"]}
    assert client.post("/v1/enrol", json=asked(ROW, value=17.0)).json()["value"] == "17"
    assert fault(client.post("/v1/enrol", json=asked(ROW, value="17")), 409)[0] == "value"
    assert client.post("/v1/enrol", json=asked({"text": "a", "label": "good"}, value="Zoë")).status_code == 200
    assert client.delete("/v1/values/user/Zo%C3%AB").json()["value"] == "Zoë"


def test_a_service_that_was_not_told_to(runs: Path, models: dict[str, ServedModel]) -> None:
    cure = "this service changes no run: start it with `attribune serve --enrol`"
    with client_of(models) as client:
        for answer in (client.post("/v1/enrol", json=body(model="injector")), client.delete("/v1/values/user/u1")):
            assert fault(answer, 403) == ("path", cure)
        described = client.get("/openapi.json").json()
        assert {"/v1/enrol", "/v1/values/{attribute}/{value}"} <= described["paths"].keys()
    with client_of(models, enrol=True) as client:
        found = fault(client.post("/v1/enrol", json=body(model="injector")), 422)
        assert found == ("model", "the values of model 'injector' cannot change: it was loaded without `enrol`")
    with pytest.raises(ConfigError, match="--dtype bfloat16 with --enrol"):
        load_models([str(runs / "injector")], dtype="bfloat16", enrol=True)
    with pytest.raises(ConfigError, match="one run under two names"):
        load_models([f"a={runs / 'injector'}", f"b={runs / 'injector'}"], enrol=True)


CALLER, OWNER = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize("own", [(), (OWNER,)], ids=["without a key for values", "with one"])
def test_the_key_of_every_caller_changes_no_values(own: tuple[str, ...], run: Path) -> None:
    foreign, caller, owner, longer = (
        {"authorization": f"Bearer {key}"} if key else {} for key in ("", CALLER, OWNER, f"{OWNER} ")
    )
    mark = RunFolder(run).model_mark
    with client_of(load_models([str(run)], enrol=True), enrol=True, keys=Keys(callers=(CALLER,), values=own)) as client:
        for headers in (foreign, caller, longer):
            for end in ("", "%0A"):  # which routes ignore
                for answer in (
                    client.post(f"/v1/enrol{end}", json=body(), headers=headers),
                    client.delete(f"/v1/values/user/u1{end}", headers=headers),
                    client.delete(f"/v1//values/../values/user/u1{end}", headers=headers),
                ):
                    assert answer.status_code in (401, 403, 404)
        assert RunFolder(run).model_mark == mark
        answer = client.post("/v1/enrol", json=body(), headers=owner)
        assert fault(answer, 403)[0] == "path" if not own else answer.status_code == 200
        assert [client.get("/v1/models", headers=one).status_code for one in (caller, owner)] == [200, 401]


@pytest.mark.parametrize(
    "value", ["a\nb", "a\n", "\na", "a\r\nb", "a\u2028b", "a\x00b", "a/b", "a//b/", "%2F", "?a#b", "../a"]
)
def test_what_can_be_enrolled_can_be_forgotten(value: str, client: TestClient) -> None:
    found = client.post("/v1/enrol", json=asked({"text": "a", "label": "good"}, value=value))
    assert found.status_code == 200, found.text
    stored = found.json()["value"]
    assert client.delete(f"/v1/values/user/{quote(stored, safe='')}").json()["value"] == stored


def test_a_run_with_a_link_in_it_keeps_its_values(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear")
    (run / ".lock.holder").symlink_to(tmp_path / "mine")
    with serving(run) as client:
        assert f"is a link to {tmp_path / 'mine'}" in fault(client.post("/v1/enrol", json=body()), 422)[1]
        assert outputs(client, OLD[:1])
    assert (tmp_path / "mine").read_text() == "dear"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bare", "is a model without its run: serve the folder of the run"),
        ("linear", "method 'linear' has no vector for each value that could change in memory"),
        ("none", "method 'none' has no vector for each value: train again with the new values, or with"),
    ],
)
def test_models_that_cannot_learn(name: str, reason: str, runs: Path, tmp_path: Path) -> None:
    source = runs / "injector" / "model" if name == "bare" else runs / name
    with serving(Path(shutil.copytree(source, tmp_path / name))) as client:
        field, found = fault(client.post("/v1/enrol", json=body()), 422)
        assert (field, reason in found) == ("model", True), found
        assert client.post("/v1/predict", json={"text": "x"}).status_code == 200
        assert client.delete("/v1/values/user/u3").status_code in (404, 422)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("flag", "words", "reason"),
    [
        ("--label", ["look", "taste", "--task", "aspects"], "more than one cell"),
        ("--label", ["taste", "--task", "rating"], ""),
        ("--label", ["taste", "--task", "regression"], ""),
        ("--method", ["history"], "has no vector for each value that could change in memory"),
        ("--method", ["hcsc"], "would change what is predicted for the others"),
        ("--method", ["poly"], ""),
        ("--set", ["evaluation.cluster=look"], ""),
    ],
)
def test_methods_and_tasks(flag: str, words: list[str], reason: str, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    method = words[0] if flag == "--method" else "injector"
    label = words[-3] if flag == "--label" else "stars"
    data = trained_runs.table(small_runs.reviews(60, seed=3))
    command = small_runs.train_command(data, tmp_path, backbone=trained_runs.backbone(), method=method)
    if flag == "--label":
        place = command.index(flag)
        command[place : place + 2] = [flag, *words]
    elif flag == "--set":
        command += words  # behind others
    trained_runs.copy(trained_runs.trained([*command, "--no-baselines"]), tmp_path / "run")
    rows = [{"text": row["text"], "label": row[label]} for row in NEW]
    with serving(tmp_path / "run") as client:
        answer = client.post("/v1/enrol", json=asked(*rows))
        if reason:
            assert reason in fault(answer, 422)[1]
        else:
            assert answer.status_code == 200, answer.text
            assert answer.json()["loss_after"] <= answer.json()["loss_before"] + 1e-6
            wrong = client.post("/v1/enrol", json=asked({**rows[0], "label": "dear"}, value="other"))
            assert fault(wrong, 422)[0] == "rows[0].label"
        if method != "history":
            assert client.delete("/v1/values/user/u3").json()["models"] == 1

            def predicted(user: str) -> dict[str, Any]:
                answer = client.post("/v1/predict", json={"text": "x", "attributes": {"user": user}})
                return answer.json()["predictions"][0]

            assert predicted("u3")["unknown"] == {"user": ["u3"]}
            expected = load_run(tmp_path / "run")[1].predict([{"text": "x", "user": "u1"}])
            for name, (value,) in expected.items():
                found = predicted("u1")["output"][name]
                assert found == (value if isinstance(value, str) else pytest.approx(value, abs=1e-5))


# Without a service


@pytest.mark.exhaustive
def test_a_run_in_memory(run: Path) -> None:
    live, rows = LiveRun.open(run), Dataset.from_list(NEW)

    def good(predictor: Predictor) -> Any:
        return predictor.predict(rows)["probability_good"]

    before = good(live.predictor)
    found = live.learn("user", VALUE, rows)
    np.testing.assert_array_equal(good(live.predictor), before)
    live.add([found])
    after = good(live.predictor)
    assert np.abs(after - before).min() > 0
    with pytest.raises(DataError, match="has the value 'u 9/9' already"):
        live.learn("user", VALUE, rows)
    with pytest.raises(ConfigError, match="has the value 'u 9/9' already"):
        live.add([found])
    np.testing.assert_array_equal(good(load_run(run)[1]), after)
    with pytest.raises(DataError, match="its rows have not the value 'u77'"):
        live.learn("user", "u77", rows)
    with pytest.raises(ConfigError, match="attribute 'price' is of the kind numeric"):
        live.learn("price", "3", rows)
    assert live.remove("user", VALUE).models == [str(run)]
    with pytest.raises(ConfigError, match="given twice"):
        live.add([found, found])
    with pytest.raises(DataError, match="no row has a label that a training row had"):
        live.learn("user", VALUE, Dataset.from_list([row | {"stars": "splendid"} for row in NEW]))
    np.testing.assert_allclose(good(live.predictor), before, atol=1e-6)


def test_what_is_learned_does_not_depend_on_the_precision_of_predictions(run: Path) -> None:
    """In bfloat16 the losses of near vectors differ by rounding alone."""
    (recipe, predictor), mark, rows = load_run(run), RunFolder(run).model_mark, Dataset.from_list(NEW)
    rounded = Predictor(predictor.model, text_input=predictor.text_input, precision="bf16")
    lives = [LiveRun(run, recipe, one, mark=mark) for one in (predictor, rounded)]
    exact, other = (live.learn("user", VALUE, rows) for live in lives)
    assert exact.enrolled == other.enrolled
    for name, vector in exact.vectors.items():
        np.testing.assert_array_equal(vector, other.vectors[name])


def test_a_twin_has_no_tensors_of_its_own(runs: Path, run: Path) -> None:
    predictor = load_run(run)[1]
    pairs = list(zip(predictor.model.parameters(), predictor.twin().model.parameters(), strict=True))
    assert all(one is not other and one.data_ptr() == other.data_ptr() for one, other in pairs)
    with pytest.raises(ConfigError, match="the model is a baseline"):
        load_run(runs / "linear")[1].twin()
