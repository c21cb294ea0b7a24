"""The playground: what it answers, and its page in a browser where one is installed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import browser
import httpx
import numpy as np
import pytest
from live_service import PATIENCE
from trained_runs import ROWS, TrainedRuns

from attribune import load_run
from attribune.apps.cli import main
from attribune.apps.playground import PanelAnswer, Session
from attribune.errors import ConfigError

pytest.importorskip("gradio")

from attribune.apps.playground.drawing import map_svg
from attribune.apps.playground.page import answer_html, panel_html

# gradio leaves sockets to the garbage collector, which is called here, so that it finds none of them in another file.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

ATTRIBUTES = ("--multi-label", "tags:;", "--numeric", "price")


@pytest.fixture(scope="module", autouse=True)
def _own_event_loop() -> Iterator[None]:
    """The event loop of this thread that gradio asks for; the one that it would make is never closed."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="module")
def run(trained_runs: TrainedRuns) -> Path:
    """A run with three kinds of attributes; what is typed for a price is a number of a bin."""
    return trained_runs("injector", *ATTRIBUTES, "--no-baselines")


@pytest.fixture(scope="module")
def session(run: Path) -> Session:
    return Session.open(run)


def test_a_text_is_answered_as_the_predictor_does(session: Session, run: Path) -> None:
    answer = session.ask("the film was great", {"user": ["u1"], "tags": ["war", "drama"]})
    assert answer.names == ["bad", "good"]
    assert answer.cases == ["as given", "attributes hidden", "user hidden", "tags hidden", "price hidden"]
    assert answer.probabilities
    assert answer.notes == []
    _, predictor = load_run(run)
    rows = [("u1", "war;drama"), (None, None), (None, "war;drama"), ("u1", None), ("u1", "war;drama")]
    table = {
        "text": ["the film was great"] * 5,
        "user": [user for user, _ in rows],
        "price": [None] * 5,
        "tags": [tags for _, tags in rows],
    }
    decoded = predictor.task.decode(predictor.logits(table)[0])
    np.testing.assert_allclose(answer.numbers, decoded.probabilities, atol=1e-6)
    assert answer.predictions == decoded.predictions["prediction"]


def test_what_the_model_does_not_know_is_read_as_unknown_and_said(session: Session) -> None:
    answer = session.ask("the film", {"user": ["stranger"]})
    np.testing.assert_allclose(answer.numbers[0], answer.numbers[1], atol=1e-6)
    assert answer.notes == ["user 'stranger' was in no training row: it is read as unknown"]


def test_two_values_differ_in_the_attribute_alone(session: Session) -> None:
    answer = session.compare("the film was great", {"user": ["u5"], "tags": ["war"]}, "user", ["u1", "u2"])
    assert answer.cases == ["user=u1", "user=u2", "without user"]
    for case, user in enumerate(("u1", "u2")):
        alone = session.ask("the film was great", {"user": [user], "tags": ["war"]})
        np.testing.assert_allclose(answer.numbers[case], alone.numbers[0], atol=1e-6)
    np.testing.assert_allclose(
        answer.numbers[2], session.ask("the film was great", {"tags": ["war"]}).numbers[0], atol=1e-6
    )
    with pytest.raises(ConfigError, match="has no value 'stranger'"):
        session.compare("the film", {}, "user", ["u1", "stranger"])


def test_a_panel_puts_the_answers_of_all_values_together(session: Session) -> None:
    answer = session.ask_panel("the film was great", {"user": ["u5"], "tags": ["war"]}, "user")
    values = list(session.predictor.schema["user"].values)
    each = np.stack(
        [session.ask("the film was great", {"user": [value], "tags": ["war"]}).numbers[0] for value in values]
    )
    assert answer.members == len(values) == 7
    assert answer.probabilities == pytest.approx(dict(zip(["bad", "good"], each.mean(axis=0), strict=True)), abs=1e-6)
    own = each.argmax(axis=1)
    assert answer.shares == pytest.approx({"bad": np.mean(own == 0), "good": np.mean(own == 1)})
    best = int(each.mean(axis=0).argmax())
    assert answer.prediction == ["bad", "good"][best]
    order = np.argsort(each[:, best], kind="stable")
    assert answer.dissenters == [values[place] for place in order if own[place] != best]
    doubt = np.mean([-(p * np.log(p)).sum() for p in each])
    mean = each.mean(axis=0)
    assert answer.figures == pytest.approx(
        {"disagreement": -(mean * np.log(mean)).sum() - doubt, "doubt": doubt}, abs=1e-6
    )
    assert answer.notes == []


def test_of_many_values_the_first_are_asked_and_the_others_counted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attribune.apps.playground.session._MAX_MEMBERS", 3)
    answer = session.ask_panel("the film was great", {}, "user")
    assert answer.members == 3
    assert answer.notes == ["3 of 7 values were asked, the first of the list"]
    each = [
        session.ask("the film was great", {"user": [value]}).numbers[0]
        for value in session.predictor.schema["user"].values[:3]
    ]
    assert list(answer.probabilities.values()) == pytest.approx(np.mean(each, axis=0), abs=1e-6)


def test_only_attributes_are_asked_and_never_a_table(session: Session, trained_runs: TrainedRuns) -> None:
    for name in (str(trained_runs.table(ROWS)), "all", "nobody", ""):
        with pytest.raises(ConfigError, match="there is no attribute"):
            session.ask_panel("the film", {}, name)


@pytest.mark.parametrize(("method", "more"), [("linear", ATTRIBUTES), ("none", ())])
def test_a_panel_of_a_model_without_vectors_is_asked_or_refused(
    method: str, more: tuple[str, ...], trained_runs: TrainedRuns
) -> None:
    session = Session.open(trained_runs(method, *more))
    if session.attributes:
        assert session.no_panel is None
        assert sum(session.ask_panel("the film was great", {}, "user").shares.values()) == pytest.approx(1)
    else:
        assert session.no_panel is not None
        assert "this one reads none" in session.no_panel


def test_a_map_has_the_vectors_and_the_mean_labels_of_training_rows(session: Session) -> None:
    found = session.values.map("user")
    assert found is not None
    rows = [row for row in ROWS if row["user"] == found.values[0]]
    place = 0
    held = session.training
    assert held is not None
    mine = [row["stars"] == "good" for row in rows]
    assert found.means["share of good"][place] == pytest.approx(np.mean(mine))
    assert found.means["share of good"] + found.means["share of bad"] == pytest.approx(np.ones(len(found.values)))
    assert len(found.values) == len(found.positions) == 7
    vectors = session.values._vectors("user")
    centred = vectors - vectors.mean(axis=0)
    assert found.explained_variance_ratio == pytest.approx((found.positions**2).sum() / (centred**2).sum())
    assert (found.positions[:, 0] ** 2).sum() >= (found.positions[:, 1] ** 2).sum()


def test_neighbours_are_those_of_the_smallest_angle(session: Session) -> None:
    vectors = session.values._vectors("user")
    values = list(session.predictor.schema["user"].values)
    me = values.index("u3")
    cosines = {
        value: vectors[me] @ vectors[other] / np.linalg.norm(vectors[me]) / np.linalg.norm(vectors[other])
        for other, value in enumerate(values)
        if other != me
    }
    found = session.values.neighbours("user", "u3", limit=3)
    assert [value for value, _ in found] == sorted(cosines, key=lambda value: -cosines[value])[:3]
    assert dict(found) == pytest.approx({value: cosines[value] for value, _ in found})
    with pytest.raises(ConfigError, match="no vector of 'stranger'"):
        session.values.neighbours("user", "stranger")


def test_values_are_found_by_a_part_of_their_name(session: Session) -> None:
    assert [value for value, _ in session.values.search("tags", " DRA ")] == ["drama"]
    assert session.values.rows("tags", "drama") == dict(session.values.search("tags", ""))["drama"]
    assert session.values.rows("tags", "DRA") is None
    assert session.values.search("user", "nobody") == []
    found = session.values.search("user", "")
    assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)
    assert len(found) == 7


def test_examples_are_training_rows_with_their_values_and_labels(session: Session) -> None:
    examples = session.examples()
    assert len(examples) == 40
    for one, row in zip(examples, ROWS, strict=False):
        assert (one.text, one.label, one.second) == (row["text"], row["stars"], "")
        assert one.values["user"] == [row["user"]]
        assert set(one.values["tags"]) == set(filter(None, row["tags"].split(";")))
        assert one.values["price"] == [row["price"]] * bool(row["price"])


def test_ratings_are_in_their_order_and_classes_by_probability(session: Session) -> None:
    answer = replace(
        session.ask("the film", {}), names=["1", "2", "3"], numbers=np.array([[0.2, 0.5, 0.3]]), cases=["as given"]
    )
    rows = r"<tr><th>(\d)</th>"
    assert re.findall(rows, answer_html(answer)) == ["2", "3", "1"]
    assert re.findall(rows, answer_html(replace(answer, is_ordered=True))) == ["1", "2", "3"]
    shares = {"1": 0.2, "2": 0.5, "3": 0.3}
    panel = replace(session.ask_panel("the film", {}, "user"), probabilities=shares, shares=shares)
    assert re.findall(rows, panel_html(panel, "user")) == ["2", "3", "1"]
    assert re.findall(rows, panel_html(replace(panel, is_ordered=True), "user")) == ["1", "2", "3"]


def test_a_map_names_the_values_at_its_edges_and_escapes_them() -> None:
    rng = np.random.default_rng(0)
    values = ["<img src=x>", *(f"v{number}" for number in range(1, 60))]
    positions = rng.normal(size=(60, 2))
    positions[0], positions[1] = [9, 0], [-9, 0]
    drawing = map_svg(values, positions, np.full(60, 10), np.append(np.nan, rng.random(59)), by="share of good")
    assert drawing.count("<circle") == 60
    assert "<img" not in drawing
    names = re.findall("<text[^>]*>([^<]*)</text>", drawing)
    assert {"&lt;img src=x&gt;", "v1", "share of good"} <= set(names)
    assert len(names) < 30, "names that would overlap are left out"
    x = {title: float(at) for at, title in re.findall(r'cx="([\d.]+)"[^>]*><title>([^:]*):', drawing)}
    assert max(x, key=x.__getitem__) == "&lt;img src=x&gt;"
    assert min(x, key=x.__getitem__) == "v1"


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("linear", ATTRIBUTES),
        pytest.param("automl", ("--no-baselines",), marks=pytest.mark.exhaustive),
        ("none", ()),
    ],
)
def test_models_without_vectors_are_played_with_too(
    method: str, more: tuple[str, ...], trained_runs: TrainedRuns
) -> None:
    session = Session.open(trained_runs(method, *more))
    answer = session.ask("the film was great", {name: ["x"] for name in (a.name for a in session.attributes)})
    assert answer.numbers.sum(axis=1) == pytest.approx(np.ones(len(answer.cases)))
    for attribute in session.attributes:
        assert session.values.map(attribute.name) is None


def test_without_the_training_table_only_examples_and_means_are_missing(
    run: Path, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    moved = trained_runs.copy(run, tmp_path / "run")
    recipe = (moved / "recipe.yaml").read_text(encoding="utf-8")
    table = str(trained_runs.table(ROWS))
    assert table in recipe
    (moved / "recipe.yaml").write_text(recipe.replace(table, str(tmp_path / "train.csv")), encoding="utf-8")
    session = Session.open(moved)
    assert session.examples() == []
    assert "train.csv" in session.notes[0]
    found = session.values.map("user")
    assert found is not None
    assert found.means == {}
    assert session.ask("the film", {}).cases[0] == "as given"


@pytest.mark.parametrize(
    ("text", "said"), [("", "no text"), ("  \n", "no text"), ("a " * 60_000, "120,000 characters")]
)
def test_texts_that_cannot_be_read_are_refused(text: str, said: str, session: Session) -> None:
    with pytest.raises(ConfigError, match=said):
        session.ask(text, {})


def test_names_are_escaped_in_the_answer(session: Session) -> None:
    answer = session.ask("<b>film</b>", {"user": ["<img src=x onerror=alert(1)>"]})
    assert "<img" not in answer_html(answer)
    panel = replace(session.ask_panel("<b>film</b>", {}, "user"), dissenters=["<img src=x>"], prediction="<img>")
    assert "<img" not in panel_html(panel, "<img>")


def test_a_panel_of_numbers_has_their_mean_and_spread_alone() -> None:
    answer = PanelAnswer(
        members=4,
        prediction="3.25",
        probabilities={},
        shares={},
        figures={"spread": 0.5},
        dissenters=[],
        notes=["3 of 4 were asked"],
    )
    shown = " ".join(re.sub("<[^>]*>", " ", panel_html(answer, "user")).split())
    assert shown == "4 values of user together: 3.25 spread 0.5 3 of 4 were asked."


# The page

ILL = {"GRADIO_ALLOWED_PATHS": "/", "GRADIO_SHARE": "true", "GRADIO_ROOT_PATH": "/other", "GRADIO_VIBE_MODE": "1"}
OWN = ("GRADIO_ANALYTICS_ENABLED", "GRADIO_RUN_HISTORY")  # what the command sets


@pytest.fixture(scope="module")
def address(run: Path) -> Iterator[str]:
    """Where the page of the command is, which does not wait for its end here."""
    import gradio

    pages: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ILL, **dict.fromkeys(OWN, "True")}.items():
            patch.setenv(name, value)
        patch.setattr(gradio.Blocks, "block_thread", lambda page: pages.append(page))
        assert main(["playground", str(run), "--port", "0"]) == 0
    gc.collect()
    yield pages[0].local_url.rstrip("/")
    pages.pop().close()
    gc.collect()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=PATIENCE) as client:
        yield client


@pytest.mark.exhaustive
def test_a_process_serves_the_page_until_it_is_interrupted(run: Path, client: httpx.Client) -> None:
    words = [sys.executable, "-m", "attribune", "playground", str(run), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | ILL) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            place = r"the playground is at (http://127\.0\.0\.1:\d+)"
            address = next(found[1] for line in lines if (found := re.search(place, line)))
            assert "no text" in call(client, address, "predict", " ", None, "", [])
            for path in ("other", "gradio_api/file=/etc/passwd", "gradio_api/vibe-edit"):
                assert client.get(f"{address}/{path}").status_code == 404
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()  # or the end of the block waits for one that does not stop


def call(client: httpx.Client, address: str, name: str, *given: Any) -> str:
    """What the page's own call gives."""
    began = client.post(f"{address}/gradio_api/call/{name}", json={"data": list(given)}).json()["event_id"]
    answer = client.get(f"{address}/gradio_api/call/{name}/{began}").text
    (data,) = re.findall(r"^event: complete\ndata: (.*)$", answer, re.MULTILINE)
    (found,) = json.loads(data)
    return str(found)


@pytest.mark.exhaustive
def test_the_page_answers_over_http(address: str, client: httpx.Client, session: Session) -> None:
    found = call(client, address, "predict", "the film was great", "u1", "3", ["war"])
    expected = session.ask("the film was great", {"user": ["u1"], "price": ["3"], "tags": ["war"]})
    assert re.findall(r"<td>(\d\.\d{3})", found) == [
        f"{number:.3f}" for place in np.argsort(-expected.numbers[0]) for number in expected.numbers[:, place]
    ]
    assert "no text" in call(client, address, "predict", " ", None, "", [])
    assert "read as unknown" in call(client, address, "predict", "the film", "stranger", "", [])
    assert "two different values" in call(client, address, "compare", "film", "user", "u1", "u1", None, "", [])
    assert "has no value" in call(client, address, "compare", "film", "user", "u1", "stranger", None, "", [])
    asked, panel = session.ask_panel("the film was great", {"tags": ["war"]}, "user"), ("the film was great", "user")
    found = call(client, address, "panel", *panel, None, "", ["war"])
    shown = [
        (asked.probabilities[name], asked.shares[name]) for name in sorted(asked.shares, key=asked.shares.get)[::-1]
    ]
    assert re.findall(r"<td>(\d\.\d{3})", found) == [f"{number:.3f}" for pair in shown for number in pair]
    assert "no text" in call(client, address, "panel", " ", "user", None, "", [])
    assert "Nearest vectors, by cosine" in call(
        client, address, "compare", "the film", "user", "u1", "u2", None, "", []
    )


# Ill will


@pytest.mark.exhaustive
def test_the_page_and_what_it_is_made_of_are_there(address: str, client: httpx.Client) -> None:
    page = client.get(address)
    assert page.status_code == 200
    made_of = {link for link in re.findall(r'(?:href|src)="([^"]+)"', page.text) if not link.startswith("http")}
    assert made_of
    for link in ("config", "gradio_api/info", "theme.css", *(made_of - {"./"})):
        assert client.get(f"{address}/{link.removeprefix('.').removeprefix('/')}").status_code == 200, link


HOSTS = ["evil.example", "evil.example:7860", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "192.0.2.1"]
HOSTS += ["", "localhost@evil.example", "evil.example@localhost", "[::ffff:7f00:1]", "localhost:x", "local host"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("host", HOSTS)
def test_another_host_is_refused(host: str, address: str, client: httpx.Client) -> None:
    for path in ("/", "/config", "/gradio_api/info", "/assets/x.js", "/gradio_api/upload"):
        assert client.get(f"{address}{path}", headers={"host": host}).status_code in (400, 421)
    assert (
        client.post(f"{address}/gradio_api/call/search", json={"data": []}, headers={"host": host}).status_code != 200
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://{host}", "http://localhost:1", ""])
def test_another_origin_is_refused(origin: str, address: str, client: httpx.Client) -> None:
    headers = {"origin": origin.format(host=address.removeprefix("http://"))}
    body = {"data": ["the film", "u1", "", []]}
    assert client.post(f"{address}/gradio_api/call/predict", json=body, headers=headers).status_code == 403
    headers["content-type"] = "text/plain"
    body = json.dumps(body)  # type: ignore[assignment]
    assert client.post(f"{address}/gradio_api/queue/join", content=body, headers=headers).status_code == 403  # type: ignore[arg-type]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", ["/etc/passwd", "{run}/recipe.yaml", "/proc/self/environ", "{tmp}"])
@pytest.mark.parametrize("by", ["file=", "file/", "stream/", "proxy=http://127.0.0.1:1/", "custom_component/0/client/"])
def test_no_file_is_opened(by: str, path: str, address: str, client: httpx.Client, run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = path.format(run=run, tmp=tmp_path / "secret")
    for prefix in ("/gradio_api/", "/"):
        assert client.get(f"{address}{prefix}{by}{path}").status_code == 404
    for known in ("/assets/", "/static/", "/svelte/"):
        for up in ("../" * 12, "..%2f" * 12, "/"):
            assert client.get(f"{address}{known}{up}{path}").status_code in (403, 404)


OTHER = ["upload", "upload/", "component_server", "process_recording", "vibe-edit", "run/predict", "api/predict"]
OTHER += ["call/v2/predict", "stream/x", "run-history/connect", "login", "profiling/clear", "../upload", "%75pload"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", OTHER)
def test_nothing_is_uploaded(path: str, address: str, client: httpx.Client) -> None:
    for prefix in ("/gradio_api/", "/"):
        files = {"files": ("a.txt", b"x" * 1000)}
        assert client.post(f"{address}{prefix}{path}", files=files).status_code == 404
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            assert client.request(method, f"{address}{prefix}{path}").status_code == 404


FILE = {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
DATA = [[FILE], [[FILE]], [[[FILE]]], {"0": FILE}, FILE, "text", 1, None, ["film", {"path": "http://127.0.0.1:1/x"}]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("data", DATA, ids=range(len(DATA)))
def test_objects_are_refused(data: Any, address: str, client: httpx.Client) -> None:
    for path in ("call/predict", "queue/join"):
        answer = client.post(f"{address}/gradio_api/{path}", json={"data": data, "session_hash": "x"})
        assert (answer.status_code, "texts alone" in answer.text) == (400, True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b"\xff", b'{"data": [' + b"1" * 5000 + b"]}"])
def test_bodies_that_are_no_calls_are_refused(body: bytes, address: str, client: httpx.Client) -> None:
    assert client.post(f"{address}/gradio_api/call/predict", content=body).status_code == 400


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [2**21 + 1, 2**24])
def test_large_bodies_are_refused(size: int, address: str, client: httpx.Client) -> None:
    def parts() -> Iterator[bytes]:
        yield from [b"x" * 2**16] * (size // 2**16 + 1)

    with contextlib.suppress(httpx.TransportError):  # it is closed before all has been sent
        assert client.post(f"{address}/gradio_api/call/predict", content=parts()).status_code == 413
    assert client.get(f"{address}/config").status_code == 200


@pytest.mark.exhaustive
def test_a_taken_port_is_told(
    run: Path, address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OWN:
        monkeypatch.setenv(name, "True")
    port = address.rpartition(":")[2]
    assert main(["playground", str(run), "--port", port]) == 1
    gc.collect()
    error = capsys.readouterr().err
    assert port in error
    assert "Traceback" not in error


@pytest.mark.parametrize("words", [["nowhere"], ["{run}", "--port", "70000"], ["{run}", "--port", "-1"]])
def test_mistakes_are_told(
    words: list[str], run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OWN:
        monkeypatch.setenv(name, "True")
    assert main(["playground", *(word.format(run=run) for word in words)]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.exhaustive
@browser.needs_browser
@pytest.mark.parametrize("size", browser.SIZES)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(size: str, dark: bool, address: str, client: httpx.Client, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with browser.open_browser(tmp_path, size=size, dark=dark) as driver:
        driver.get(address)
        answer = WebDriverWait(driver, PATIENCE).until(lambda d: d.find_element(By.CSS_SELECTOR, "#answer table"))
        assert driver.find_element(By.ID, "label").text == f"Its label: {ROWS[0]['stars']}"
        assert driver.find_element(By.CSS_SELECTOR, "#value-user input").get_attribute("value") == ROWS[0]["user"]
        assert "as given" in answer.text
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= browser.SIZES[size][0], "nothing lies beyond the edge of the screen"
        asked = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
        urls = [one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"]
        assert urls
        assert [url for url in urls if not url.startswith((address.rstrip("/"), "data:", "blob:", "chrome"))] == []
        assert browser.serious_findings(driver) == []
