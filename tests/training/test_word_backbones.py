"""Backbones without pretraining, from a table to a prediction."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
import yaml
from transformers import AutoTokenizer

from attribune.apps.cli import main
from attribune.data.word_tokenizer import word_tokenizer
from attribune.data.words import WordVocabulary, split_words
from attribune.models.auto import load_model
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.training import trainer

ROWS = small_runs.reviews(160)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("words")
    small_runs.write_csv(root / "rows.csv", ROWS)
    words = sorted({word for row in ROWS for word in split_words(row["text"])})
    numbers = np.random.default_rng(0).normal(size=(len(words), 6)).round(4)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words[::2], numbers[::2].tolist(), strict=True)]
    (root / "vectors.txt").write_text("\n".join(lines) + "\n")
    return root


def command(folder: Path, run: Path, *more: str, backbone: str = "bilstm", method: str = "upa") -> list[str]:
    words = small_runs.train_command(folder / "rows.csv", run, backbone=Path(backbone), method=method)
    return [*words, *more]


@pytest.mark.parametrize(
    ("backbone", "method", "options"),
    [
        ("cnn", "none", {"widths": [1, 2], "filters": 9}),
        ("cnn", "upa", {"embedding_size": 12}),
        ("bilstm", "upa", {"hidden_size": 14}),
        ("bilstm", "chim", {"padding": "run"}),
        ("bilstm", "concat-word", {"dropout": 0.3}),
    ],
)
def test_what_is_trained_predicts_the_same_again(
    folder: Path, tmp_path: Path, backbone: str, method: str, options: dict[str, Any]
) -> None:
    given = [f"backbone.options.{name}={json.dumps(value)}" for name, value in options.items()]
    run = tmp_path / "run"
    assert main(command(folder, run, "--set", *given, backbone=backbone, method=method)) == 0
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    assert recipe["backbone"]["options"] == options
    model = load_model(run)
    assert {name: getattr(model.config.text_config, name) for name in options} == options
    assert model.config.tuning == "full"
    assert model.config.pooling == "max"
    assert all(parameter.requires_grad for parameter in model.backbone.parameters())
    assert RunFolder(run).read_results().models[0].parts["test"]
    first, again = (Predictor.from_pretrained(run, device="cpu").predict(ROWS[:9]) for _ in range(2))
    assert list(first["prediction"]) == list(again["prediction"])
    assert main(["evaluate", str(run), str(folder / "rows.csv")]) == 0


def test_word_vectors_are_the_first_ones(folder: Path, tmp_path: Path, capsys: Any) -> None:
    vectors = folder / "vectors.txt"
    rate = "training.learning_rate=1e-12"
    assert main(command(folder, tmp_path / "run", "--set", rate, "--word-vectors", str(vectors))) == 0
    assert "word vectors of 6 numbers for" in capsys.readouterr().err
    model = load_model(tmp_path / "run")
    tokenizer, weight = model.tokenizer, model.backbone.get_input_embeddings().weight
    known = 0
    for line in vectors.read_text().splitlines():
        word, *numbers = line.split(" ")
        number = tokenizer.convert_tokens_to_ids(word)
        if number != tokenizer.unk_token_id:
            known += 1
            torch.testing.assert_close(weight[number], torch.tensor([float(x) for x in numbers]), atol=1e-5, rtol=0)
    assert known > 3
    assert not weight[0].any()


def test_an_interrupted_training_goes_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(command(folder, tmp_path / "whole")) == 0
    saved = trainer.AttributeTrainer._save_checkpoint
    count = 0

    def broken(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        saved(self, *given, **more)
        if count == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trainer.AttributeTrainer, "_save_checkpoint", broken)
        main(command(folder, tmp_path / "broken"))
    assert main([*command(folder, tmp_path / "broken"), "--resume"]) == 0
    one, other = (load_model(tmp_path / name).state_dict() for name in ("whole", "broken"))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("more", "method", "message"),
    [
        ([], "injector", r"injector: it acts inside Transformer layers, of which backbones of type word-bilstm have"),
        (["--tuning", "frozen"], "upa", r"tuning is not for the backbone 'bilstm', which is not pretrained"),
        (["--set", "backbone.revision=main"], "upa", r"revision is not for the backbone 'bilstm'"),
        (["--set", "backbone.options.depth=3"], "upa", r"the backbone 'bilstm' has no option 'depth': it has dropout"),
        (["--set", "backbone.options.hidden_size=7"], "upa", r"hidden_size is 7: give an even number"),
        (["--word-vectors", "nothing.txt"], "upa", r"nothing\.txt: cannot be read"),
        (["--word-vectors", "one.txt", "other.txt"], "upa", r"names 2 files, and a backbone begins with one"),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path, tmp_path: Path, capsys: Any, more: list[str], method: str, message: str
) -> None:
    assert main(command(folder, tmp_path / "run", *more, method=method)) == 1
    told = capsys.readouterr().err
    assert re.search(message, told), told
    assert "Traceback" not in told


def test_options_are_for_backbones_without_pretraining(folder: Path, tmp_path: Path, capsys: Any) -> None:
    given = command(folder, tmp_path / "run", "--set", "backbone.options.filters=3", backbone="some/model")
    assert main(given) == 1
    assert "options are for backbones without pretraining (cnn, bilstm): leave it out" in capsys.readouterr().err


def test_the_tokenizer_splits_as_the_vocabulary_was_counted(tmp_path: Path) -> None:
    texts = ["Great, GREAT book_s!", "naïve 3.5 stars… don't", "", "  \t ", "日本 語", "x" * 5000]
    vocabulary = WordVocabulary.fit([split_words(text) for text in texts] * 2, limit=100)
    tokenizer = word_tokenizer(vocabulary)
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        for text in texts:
            assert one(text)["input_ids"] == vocabulary.encode(split_words(text)).tolist()
        assert one("unheard of")["input_ids"] == [1, 1]
        assert one.pad_token_id == 0
