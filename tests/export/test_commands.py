"""`attribune export` as a user runs it, and what others load of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from commands import Outcome
from peft import PeftModel
from safetensors.torch import load_file
from scipy.special import softmax
from small_runs import train_command
from trained_runs import ROWS, TrainedRuns, randomised
from transformers import AutoModel

from attribune import Predictor, load_run
from attribune.apps.cli import main
from attribune.errors import ConfigError, ModelFolderError
from attribune.export import check, graph
from attribune.export.export import _writing, export
from attribune.tasks import Classification

pytestmark = pytest.mark.slow

Runs = Callable[[str], Path]
Exported = Callable[..., Path]
Run = Callable[..., Outcome]
TAGS = ("--multi-label", "tags:;")
RUNS = {
    "injector": ("bert", *TAGS, "--no-baselines"),
    "plora": ("roberta", *TAGS, "--no-baselines"),
    "tokens": ("llama", *TAGS, "--no-baselines"),
    "linear": ("bert",),
    "automl": ("bert",),
    "poly": ("bert", *TAGS, "--no-baselines"),
}
OF_ONE_LAYER = ("injector", "tokens")  # a graph takes long to trace and to convert, for each layer
OTHER = pytest.mark.exhaustive  # what decides knows nothing of methods


@pytest.fixture
def run_of(trained_runs: TrainedRuns) -> Runs:
    """The finished run of a method, with attributes that have been given random vectors: a short training moves few."""

    def make(method: str) -> Path:
        family, *more = RUNS[method]
        if method in ("linear", "automl"):
            return trained_runs(method, *more)
        backbone = trained_runs.backbone(family)

        def save_one_layer(folder: Path) -> None:
            trained_runs.copy(backbone, folder)
            AutoModel.from_pretrained(backbone, num_hidden_layers=1).save_pretrained(folder)

        if method in OF_ONE_LAYER:
            backbone = trained_runs.once("backbone", [family, "one layer"], save_one_layer)
        words = train_command(trained_runs.table(ROWS), "", backbone=backbone, method=method)
        run = trained_runs.trained([*words, *more])

        return randomised(trained_runs, run, size=0.3)

    return make


@pytest.fixture
def exported(trained_runs: TrainedRuns, run_of: Runs, data: Path) -> Exported:
    """The file of a run's model as a graph; what the command said is beside it."""

    def make(method: str, kind: str, *words: str) -> Path:
        name = {"onnx": "model.onnx", "torch": "model.pt2"}[kind]

        def export_it(folder: Path) -> None:
            folder.mkdir()
            command = ["export", str(run_of(method)), "--format", kind, "--output", str(folder / name), *words]
            with (folder / "said.txt").open("w") as said, contextlib.redirect_stdout(said):
                assert main([*command, "--check", str(data)]) == 0

        return trained_runs.once("export", [method, kind, *words], export_it) / name

    return make


def rows(data: Path, **values: Any) -> pd.DataFrame:
    return pd.read_csv(data, keep_default_na=False).assign(**values)


def test_an_adapter_folder_for_given_values(run_of: Runs, data: Path, tmp_path: Path, attribune: Run) -> None:
    run, output = run_of("injector"), tmp_path / "u3"
    words = ("export", run, "--for", "user=u3", "tags=war", "tags=drama", "--output", output, "--check", data)
    code, out, err = attribune(*words)
    assert code == 0, err
    assert "method 'adapter' without attributes for user=u3 tags=war tags=drama" in out
    assert "largest difference of a logit on 90 rows of the table: " in out
    mine = rows(data, user="u3", tags="war;drama")
    expected = load_run(run)[1].logits(mine)[0]
    loaded = Predictor.from_pretrained(output)
    assert not loaded.reads_attributes
    np.testing.assert_allclose(loaded.logits(mine[["text"]])[0], expected, atol=1e-5)
    assert np.abs(load_run(run)[1].logits(rows(data))[0] - expected).max() > 1e-3
    files = b"".join((output / name).read_bytes() for name in ("schema.json", "config.json", "README.md"))
    assert not any(f"u{number}".encode() in files for number in range(7)), "nobody's name is in the folder"
    assert attribune(*words)[0] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["u3"]


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
@pytest.mark.parametrize("method", ["plora", "poly"])
def test_low_rank_methods_become_a_folder_of_peft(
    run_of: Runs, data: Path, tmp_path: Path, attribune: Run, method: str
) -> None:
    run, output = run_of(method), tmp_path / "folder"
    code, out, err = attribune("export", run, "--for", "user=u2", "--output", output)
    assert code == 0, err
    assert "LoRA with biases for user=u2, which peft loads" in out
    _, predictor = load_run(run)
    model = predictor.model
    encoded = predictor.encode_rows(rows(data)).take(slice(9))
    ids = predictor.schema.encode({"user": ["u2"], "tags": [None]})[0]
    batch = model.batch(encoded.with_attribute_ids(np.repeat(ids, 9, axis=0)))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    untouched, backbone = (AutoModel.from_pretrained(str(model.config.backbone)) for _ in range(2))
    other = PeftModel.from_pretrained(backbone, str(output)).eval()
    with torch.no_grad():
        states = other(**inputs).last_hidden_state
        with model.method.holder.use(model.method.condition(batch["attribute_ids"], 9)):
            expected = model.backbone(**inputs).last_hidden_state
        before = untouched.eval()(**inputs).last_hidden_state
        head = load_file(str(output / "head.safetensors"))
        logits = states[:, 0] @ head["weight"].T + head["bias"]
        wanted = model.calibrated(model(**batch).logits)
    real = batch["attention_mask"].bool()
    assert (states - expected)[real].abs().max() < 1e-5
    assert (states - before)[real].abs().max() > 1e-3
    torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["injector", pytest.param("tokens", marks=OTHER)])
def test_the_whole_model_in_onnx(run_of: Runs, exported: Exported, data: Path, method: str) -> None:
    file = exported(method, "onnx")
    said = file.with_name("said.txt").read_text()
    assert "the whole model, with attribute_ids as an input" in said
    assert "largest difference of a logit on 90 rows of the table: " in said
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    _, predictor = load_run(run_of(method))
    shapes = {given.name: given.shape for given in session.get_inputs()}
    assert shapes == {
        "input_ids": ["batch", "length"],
        "attention_mask": ["batch", "length"],
        "attribute_ids": ["batch", predictor.schema.slots],
    }
    note = session.get_modelmeta().custom_metadata_map
    assert json.loads(note["task"])["classes"] == ["bad", "good"]
    assert note["attributes"] == ", ".join(predictor.schema.names)
    encoded = predictor.encode_rows(rows(data))
    for part in (slice(0, 1), slice(1, 30), slice(30, 37)):
        batch = predictor.model.batch(encoded.take(part))
        with torch.no_grad():
            expected = predictor.model.calibrated(predictor.model(**batch).logits)
        given = {name: batch[name].numpy() for name in shapes}
        (found,) = session.run(None, given)
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
    hidden = given | {"attribute_ids": np.zeros_like(given["attribute_ids"])}
    assert np.abs(session.run(None, hidden)[0] - found).max() > 1e-3, "the attributes are read"


@pytest.fixture
def converted(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the conversion to ONNX give the graph that a method's model was converted to."""

    def use(method: str) -> None:
        data = exported(method, "onnx").read_bytes()
        monkeypatch.setattr(graph, "make_program", lambda *_, **__: None)
        monkeypatch.setattr(graph, "onnx_bytes", lambda *_, **__: data)

    return use


# What rounding changes of so small a model depends on its weights and on the processor.
@pytest.mark.exhaustive
@pytest.mark.parametrize(("method", "limit"), [("injector", 0.03), pytest.param("tokens", 0.15, marks=OTHER)])
def test_the_whole_model_in_int8(
    run_of: Runs,
    converted: Callable[[str], None],
    data: Path,
    tmp_path: Path,
    attribune: Run,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    limit: float,
) -> None:
    """Its attributes are an input, and its probabilities those of the run but for the rounding."""
    run, output = run_of(method), tmp_path / "int8.onnx"
    converted(method)
    monkeypatch.setattr(check, "ROUNDED_TOLERANCE", limit)
    words = ("export", run, "--format", "onnx", "--output", output, "--check", data, "--quantise", "int8")
    code, out, err = attribune(*words)
    assert code == 0, err
    assert "largest difference of a probability on 90 rows of the table: " in out
    assert not err
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["task"])["classes"] == ["bad", "good"]
    nodes = [node.op_type for node in onnx.load(str(output)).graph.node]
    assert nodes.count("MatMulInteger") >= 6, "the six linear maps of a layer"
    found, hidden, expected = _probabilities(run, output, data)
    assert 0 < np.abs(found - expected).max() < limit
    assert np.abs(hidden - found).max() > np.abs(found - expected).max(), "the attributes are read"


def _probabilities(run: Path, file: Path, data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of 40 rows: those of an exported graph, the same without attributes, and those of the run."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    _, predictor = load_run(run)
    batch = predictor.model.batch(predictor.encode_rows(rows(data)).take(slice(40)))
    given = {entry.name: batch[entry.name].numpy() for entry in session.get_inputs()}
    found, hidden = (
        softmax(session.run(None, given | ids)[0], axis=1)
        for ids in ({}, {"attribute_ids": np.zeros_like(given["attribute_ids"])})
    )
    with torch.no_grad():
        return found, hidden, predictor.model.calibrated(predictor.model(**batch).logits).softmax(dim=1).numpy()


@pytest.mark.exhaustive
def test_what_int8_is_not_for(
    run_of: Runs, converted: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, output = run_of("injector"), tmp_path / "x.onnx"
    with pytest.raises(ConfigError, match="quantise='int8' is for kind='onnx', and this is torch"):
        export(run, tmp_path / "x.pt2", kind="torch", quantise="int8")
    with pytest.raises(ConfigError, match=r"quantise is 'INT8'; did you mean 'int8'\?"):
        export(run, output, kind="onnx", quantise="INT8")
    converted("injector")
    monkeypatch.setattr(check, "ROUNDED_TOLERANCE", 1e-9)
    with pytest.raises(ConfigError, match="in a probability, more than 1e-09: nothing was written; leave quantise="):
        export(run, output, kind="onnx", quantise="int8")
    monkeypatch.setattr(Classification, "answer_names", [])
    with pytest.raises(ConfigError, match="checked by probabilities, and the task 'classification' has none"):
        export(run, output, kind="onnx", quantise="int8")
    assert not output.exists()


@pytest.mark.parametrize(("method", "inside"), [pytest.param("injector", False, marks=OTHER), ("tokens", True)])
def test_a_torch_program_for_given_values(
    run_of: Runs, exported: Exported, data: Path, method: str, inside: bool
) -> None:
    file = exported(method, "torch", "--for", "user=u3")
    said = file.with_name("said.txt").read_text()
    assert ("ids of user=u3 inside" in said) == inside
    assert float(said.rpartition(" on 90 rows of the table: ")[2]) < 1e-5
    extra = {"task": "", "for": ""}
    program = torch.export.load(file, extra_files=extra).module()
    assert extra["for"] == "user=u3"
    _, predictor = load_run(run_of(method))
    mine = rows(data, user="u3", tags="")
    expected = predictor.logits(mine)[0]
    encoded = predictor.encode_rows(mine)
    for part in (slice(0, 1), slice(1, 30)):
        batch = predictor.model.batch(encoded.take(part))
        with torch.no_grad():
            found = program(batch["input_ids"], batch["attention_mask"])
        np.testing.assert_allclose(found.numpy(), expected[part], atol=1e-4)


def test_an_export_that_differs_is_not_written(
    run_of: Runs, exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph with another head, a folder with another weight: named, and nothing is left."""
    data = exported("tokens", "torch", "--for", "user=u3").read_bytes()
    monkeypatch.setattr(graph, "make_program", lambda *_, **__: None)
    monkeypatch.setattr(graph, "torch_bytes", lambda *_, **__: data)
    score = graph.torch_scorer(data)
    monkeypatch.setattr(graph, "torch_scorer", lambda _: lambda batch: score(batch) + 2e-4)
    with pytest.raises(ConfigError, match=r"differs from the run by up to 0\.0002 in a logit"):
        export(run_of("tokens"), tmp_path / "one.pt2", kind="torch", assignments={"user": ["u3"]})
    monkeypatch.setattr(check, "TOLERANCE", -1.0)
    with pytest.raises(ConfigError, match="nothing was written"):
        export(run_of("injector"), tmp_path / "folder", assignments={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "words", "message"),
    [
        ("injector", "--for user=u33", "attribute 'user' has no value 'u33' in training; did you mean 'u3'?"),
        ("injector", "--for usr=u3", "the model has no attribute 'usr'; did you mean 'user'? (attributes: user, tags)"),
        ("injector", "--for user=u3 user=u4", "'user' has one value for each row, but 2 are given"),
        ("injector", "--for user", "'user' does not name a value: write it as user=u17"),
        ("injector", "--for user=N/A", "attribute 'user': 'N/A' means that there is no value"),
        ("injector", "", "--format adapter is for fixed values: name those of attributes such as 'user' with --for"),
        ("injector", "--format onnx --output x.pt2", "x.pt2 is not the name of a file of --format onnx"),
        ("injector", "--for --output nowhere/at/all", "the folder nowhere/at does not exist"),
        ("injector", "--for --check nowhere.csv", "nowhere.csv"),
        ("tokens", "--for user=u3", "--format adapter: method 'tokens' acts at the point 'embed'"),
        ("poly", "--format torch", "method 'poly': the layers of peft ask in Python"),
        ("linear", "--for user=u3", "method 'linear' has no backbone"),
        pytest.param("automl", "--format onnx", "method 'automl' has no backbone", marks=OTHER),
    ],
)
def test_what_cannot_be_exported_says_why(
    run_of: Runs, fails: Callable[..., str], method: str, words: str, message: str
) -> None:
    run = run_of(method)
    before = sorted(run.iterdir())
    assert message in fails("export", run, *words.split())
    assert sorted(run.iterdir()) == before


def test_an_export_that_another_process_wrote_meanwhile_stays(tmp_path: Path) -> None:
    output = tmp_path / "adapter"
    output.mkdir()
    (output / "theirs").write_text("whole")
    with pytest.raises(ModelFolderError, match=f"another process has written to {output}"), _writing(output):
        output.rmdir()
    assert (output / "theirs").read_text() == "whole"
