"""`attribune export` as a user runs it, and what others load of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import small_runs
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from scipy.special import softmax
from transformers import AutoModel

from attribune import AttributeModel, Predictor, load_run
from attribune.apps.cli import main
from attribune.core.checksums import CHECKSUMS
from attribune.errors import ConfigError
from attribune.export import check, graph
from attribune.export.export import export
from attribune.tasks import Classification

pytestmark = pytest.mark.slow

Outcome = tuple[int, str, str]
RUNS = {"injector": "bert", "plora": "roberta", "tokens": "llama", "linear": "bert", "automl": "bert", "poly": "bert"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def data(place: Path) -> Path:
    return small_runs.write_csv(place / "data.csv", small_runs.reviews(90, seed=3))


@pytest.fixture(scope="module")
def run_of(place: Path, data: Path) -> Callable[[str], Path]:
    """The finished run of a method, with attributes that have been given random vectors: a short training moves few."""

    def make(method: str) -> Path:
        run = place / method
        if not run.exists():
            backbone = small_runs.save_backbone(place / f"{method}-backbone", model_type=RUNS[method])
            words = small_runs.train_command(data, run, backbone=backbone, method=method)
            assert main([*words, "--multi-label", "tags:;"]) == 0
            if method not in ("linear", "automl"):
                _randomise(run / "model" / "model.safetensors")
        return run

    return make


def _randomise(path: Path) -> None:
    tensors = load_file(str(path))
    chance = torch.Generator().manual_seed(5)
    for name, tensor in tensors.items():
        if name.startswith("method."):
            tensor.copy_(0.3 * torch.randn(tensor.shape, generator=chance))
    save_file(tensors, str(path), metadata={"format": "pt"})
    path.with_name(CHECKSUMS).unlink()


@pytest.fixture
def attribune(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return (code, *capsys.readouterr())

    return run


def rows(data: Path, **values: Any) -> pd.DataFrame:
    return pd.read_csv(data, keep_default_na=False).assign(**values)


def test_an_adapter_folder_for_given_values(
    run_of: Callable[[str], Path], data: Path, tmp_path: Path, attribune: Callable[..., Outcome]
) -> None:
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
    files = b"".join(
        file.read_bytes() for file in output.iterdir() if file.name in ("schema.json", "config.json", "README.md")
    )
    assert not any(f"u{number}".encode() in files for number in range(7)), "nobody's name is in the folder"
    assert attribune(*words)[0] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["u3"]


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
@pytest.mark.parametrize("method", ["plora", "poly"])
def test_low_rank_methods_become_a_folder_of_peft(
    run_of: Callable[[str], Path], data: Path, tmp_path: Path, attribune: Callable[..., Outcome], method: str
) -> None:
    run, output = run_of(method), tmp_path / "folder"
    code, out, err = attribune("export", run, "--for", "user=u2", "--output", output)
    assert code == 0, err
    assert "LoRA with biases for user=u2, which peft loads" in out
    _, predictor = load_run(run)
    model = predictor.model
    assert isinstance(model, AttributeModel)
    encoded = predictor.encode_rows(rows(data)).take(slice(9))
    ids = torch.from_numpy(predictor.schema.encode({"user": ["u2"], "tags": [None]})[0])
    batch = predictor.model.batch(encoded.with_attribute_ids(np.repeat(ids.numpy(), 9, axis=0)))
    names = ("input_ids", "attention_mask")
    untouched, backbone = (AutoModel.from_pretrained(str(model.config.backbone)) for _ in range(2))
    other = PeftModel.from_pretrained(backbone, str(output)).eval()
    with torch.no_grad():
        states = other(**{name: batch[name] for name in names}).last_hidden_state
        with model.method.holder.use(model.method.condition(batch["attribute_ids"], 9)):
            expected = model.backbone(**{name: batch[name] for name in names}).last_hidden_state
        before = untouched.eval()(**{name: batch[name] for name in names}).last_hidden_state
        head = load_file(str(output / "head.safetensors"))
        logits = states[:, 0] @ head["weight"].T + head["bias"]
        wanted = model(**batch).logits
    real = batch["attention_mask"].bool()
    assert (states - expected)[real].abs().max() < 1e-5
    assert (states - before)[real].abs().max() > 1e-3
    torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", ["injector", "tokens"])
def test_the_whole_model_in_onnx(
    run_of: Callable[[str], Path], data: Path, tmp_path: Path, attribune: Callable[..., Outcome], method: str
) -> None:
    run, output = run_of(method), tmp_path / "whole.onnx"
    code, out, err = attribune("export", run, "--format", "onnx", "--output", output, "--check", data)
    assert code == 0, err
    assert "the whole model, with attribute_ids as an input" in out
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    shapes = {given.name: given.shape for given in session.get_inputs()}
    assert shapes == {
        "input_ids": ["batch", "length"],
        "attention_mask": ["batch", "length"],
        "attribute_ids": ["batch", 4],
    }
    note = session.get_modelmeta().custom_metadata_map
    assert json.loads(note["task"])["classes"] == ["bad", "good"]
    assert note["attributes"] == "user, tags"
    _, predictor = load_run(run)
    encoded = predictor.encode_rows(rows(data))
    for part in (slice(0, 1), slice(1, 30), slice(30, 37)):
        batch = predictor.model.batch(encoded.take(part))
        with torch.no_grad():
            expected = predictor.model(**batch).logits
        given = {name: batch[name].numpy() for name in shapes}
        (found,) = session.run(None, given)
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
    hidden = given | {"attribute_ids": np.zeros((7, 4), np.int64)}
    assert np.abs(session.run(None, hidden)[0] - found).max() > 1e-3, "the attributes are read"


@pytest.mark.parametrize("method", ["injector", "tokens"])
def test_the_whole_model_in_int8(
    run_of: Callable[[str], Path], data: Path, tmp_path: Path, attribune: Callable[..., Outcome], method: str
) -> None:
    """Its attributes are an input, and its probabilities those of the run but for the rounding."""
    run, sizes = run_of(method), {}
    for name, more in (("exact.onnx", ()), ("int8.onnx", ("--quantise", "int8"))):
        output = tmp_path / name
        code, out, err = attribune("export", run, "--format", "onnx", "--output", output, "--check", data, *more)
        assert code == 0, err
        assert f"largest difference of a {'probability' if more else 'logit'} on 90 rows of the table: " in out
        assert not err
        sizes[name] = output.stat().st_size
    session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["task"])["classes"] == ["bad", "good"]
    nodes = [node.op_type for node in onnx.load(str(output)).graph.node]
    assert nodes.count("MatMulInteger") >= 12, "the six linear maps of both layers"
    _, predictor = load_run(run)
    batch = predictor.model.batch(predictor.encode_rows(rows(data)).take(slice(40)))
    given = {entry.name: batch[entry.name].numpy() for entry in session.get_inputs()}
    found, hidden = (
        softmax(session.run(None, given | {"attribute_ids": ids})[0], axis=1)
        for ids in (given["attribute_ids"], np.zeros_like(given["attribute_ids"]))
    )
    with torch.no_grad():
        expected = predictor.model(**batch).logits.softmax(dim=1).numpy()
    assert 0 < np.abs(found - expected).max() < 0.02
    assert np.abs(hidden - found).max() > 2 * np.abs(found - expected).max(), "the attributes are read"


def test_what_int8_is_not_for(run_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, output = run_of("injector"), tmp_path / "x.onnx"
    with pytest.raises(ConfigError, match="--quantise int8 is for --format onnx, and this is torch"):
        export(run, tmp_path / "x.pt2", kind="torch", quantise="int8")
    with pytest.raises(ConfigError, match=r"quantise is 'INT8'; did you mean 'int8'\?"):
        export(run, output, kind="onnx", quantise="INT8")  # type: ignore[arg-type]
    monkeypatch.setattr(check, "ROUNDED_TOLERANCE", 1e-9)
    with pytest.raises(ConfigError, match="in a probability, more than 1e-09: nothing was written; leave --quantise"):
        export(run, output, kind="onnx", quantise="int8")
    monkeypatch.setattr(Classification, "answer_names", [])
    with pytest.raises(ConfigError, match="checked by probabilities, and the task 'classification' has none"):
        export(run, output, kind="onnx", quantise="int8")
    assert not output.exists()


@pytest.mark.parametrize(("method", "inside"), [("injector", False), ("tokens", True)])
def test_a_torch_program_for_given_values(
    run_of: Callable[[str], Path], data: Path, tmp_path: Path, method: str, inside: bool
) -> None:
    done = export(run_of(method), tmp_path / "u3.pt2", kind="torch", assignments={"user": ["u3"]}, check=data)
    assert ("ids of user=u3 inside" in done.description) == inside
    assert done.difference < 1e-5
    extra = {"task": "", "for": ""}
    program = torch.export.load(tmp_path / "u3.pt2", extra_files=extra).module()
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
    run_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph with another head, a folder with another weight: named, and nothing is left."""
    scorer = graph.torch_scorer
    monkeypatch.setattr(graph, "torch_scorer", lambda data: lambda batch: scorer(data)(batch) + 2e-4)
    with pytest.raises(ConfigError, match=r"differs from the run by up to 0\.0002 in a logit"):
        export(run_of("injector"), tmp_path / "one.pt2", kind="torch", assignments={"user": ["u3"]})
    monkeypatch.setattr(check, "TOLERANCE", -1.0)
    with pytest.raises(ConfigError, match="nothing was written"):
        export(run_of("injector"), tmp_path / "folder", assignments={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("method", "words", "message"),
    [
        ("injector", ("--for", "user=u33"), "attribute 'user' has no value 'u33' in training; the closest: 'u3'"),
        (
            "injector",
            ("--for", "usr=u3"),
            "the model has no attribute 'usr'; the closest: 'user' (attributes: user, tags)",
        ),
        ("injector", ("--for", "user=u3", "user=u4"), "'user' has one value for each row, but 2 are given"),
        ("injector", ("--for", "user"), "'user' does not name a value: write it as user=u17"),
        ("injector", ("--for", "user=N/A"), "attribute 'user': 'N/A' means that there is no value"),
        ("injector", (), "--format adapter is for fixed values: give them with --for, such as --for user=VALUE"),
        ("injector", ("--format", "onnx", "--output", "x.pt2"), "x.pt2 is not the name of a file of --format onnx"),
        ("injector", ("--for", "--output", "nowhere/at/all"), "the folder nowhere/at does not exist"),
        ("injector", ("--for", "--check", "nowhere.csv"), "nowhere.csv"),
        ("tokens", ("--for", "user=u3"), "--format adapter: method 'tokens' acts at the point 'embed'"),
        ("poly", ("--format", "torch"), "method 'poly': the layers of peft ask in Python"),
        ("linear", ("--for", "user=u3"), "method 'linear' has no backbone"),
        ("automl", ("--format", "onnx"), "method 'automl' has no backbone"),
    ],
)
def test_what_cannot_be_exported_says_why(
    run_of: Callable[[str], Path], attribune: Callable[..., Outcome], method: str, words: tuple[str, ...], message: str
) -> None:
    run = run_of(method)
    before = sorted(run.iterdir())
    code, out, err = attribune("export", run, *words)
    assert (code, out) == (1, "")
    assert message in err
    assert "Traceback" not in err
    assert sorted(run.iterdir()) == before
