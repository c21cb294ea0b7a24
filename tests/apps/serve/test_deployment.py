"""What is beside the service: the client of the documentation, and the file that starts a container."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import ROOT, blocks_of
from live_service import listening
from processors import needs_int8

from attribune.apps.cli import serve as serve_verb
from attribune.apps.serve import ServedModel, load_models
from attribune.apps.serve.settings import KEYS, VALUE_KEYS


@pytest.mark.slow
def test_the_client_of_the_page(models: dict[str, ServedModel]) -> None:
    """It is short, and says what the service says, errors too."""
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (code,) = (block.code for block in blocks_of(page) if "class Client" in block.code)
    assert len(code.splitlines()) <= 36
    namespace: dict[str, Any] = {}
    exec(compile(code, "serving.md", "exec", dont_inherit=True), namespace)
    with listening({"injector": models["injector"]}) as (host, port):
        client = namespace["Client"](f"http://{host}:{port}")
        found = client.predict(["a great film", "dull cast"], user=["u1", None], price=[3, 4])
        columns = {"text": ["a great film", "dull cast"], "user": ["u1", None], "tags": [None] * 2, "price": [3, 4]}
        for output, answer in zip(found, models["injector"].answer(columns), strict=True):
            assert output == pytest.approx(answer.output, abs=1e-6)
        assert len(client.predict(["one text"])) == 1
        with pytest.raises(ValueError, match="has no such attribute; did you mean 'user'\\? It has user, tags, price"):
            client.predict(["x"], usr=["u1"])
        with pytest.raises(ValueError, match="no model of this service writes text"):
            client.complete("x")


def test_the_compose_file_fits_the_service() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    (service,) = yaml.safe_load(text)["services"].values()
    assert {KEYS, VALUE_KEYS} <= set(service["environment"])
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    entry = yaml.safe_load(re.search(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)[1])
    home = re.search(r"^ENV HF_HOME=(.*)$", dockerfile, re.MULTILINE)[1]
    assert home in [volume.split(":")[-1] for volume in service["volumes"]]
    assert dockerfile.index(f"mkdir {home} && chown attribune {home}") < dockerfile.index(f"VOLUME {home}")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert f"{re.search('ARG BACKBONE=(.*)', dockerfile)[1]}==" in pinned
    parser = argparse.ArgumentParser()
    serve_verb.add_parser(parser.add_subparsers())
    options = parser.parse_args([*entry[1:], *map(str, service["command"])])
    name, _, folder = options.runs[0].partition("=")
    assert (name, options.host, entry[0]) == ("stars", "0.0.0.0", "attribune")
    assert any(volume.split(":")[-2] == folder for volume in service["volumes"] if volume.endswith(":ro"))
    assert service["ports"][0].endswith(f":{options.port}")
    probe = service["healthcheck"]["test"]
    compile(probe[-1], "probe", "exec")
    assert f"http://localhost:{options.port}/health" in probe[-1]
    assert probe[1:] == yaml.safe_load(re.search(r"HEALTHCHECK .*CMD (.*)$", dockerfile, re.MULTILINE)[1])
    assert shlex.split(text.splitlines()[0].partition("compose")[0])


@needs_int8
def test_a_service_computes_in_int8(runs: Path) -> None:
    served = load_models([str(runs / "injector")], quantise="int8")["injector"]
    assert served.predictor.model.quantised == "int8"
    assert served.predictor.task.answer_names
