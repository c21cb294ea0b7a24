"""Backbones without pretraining, from a table to a prediction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
import yaml
from families import tiny_backbone
from resumed import assert_resumes_exactly
from tiny_models import make_model
from transformers import AutoTokenizer

from attribune.apps.cli import main
from attribune.backbones.loading import load_backbone
from attribune.errors import ConfigError
from attribune.methods import METHODS
from attribune.models.auto import load_model
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune_lab.backbones.words import WordVocabulary, tokenized_words, word_tokenizer

ROWS = small_runs.reviews(160)
Fails = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("words")
    small_runs.write_csv(root / "rows.csv", ROWS)
    words = sorted({word for words in tokenized_words([row["text"] for row in ROWS]) for word in words})
    numbers = np.random.default_rng(0).normal(size=(len(words), 6)).round(4)
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words[::2], numbers[::2].tolist(), strict=True)]
    (root / "vectors.txt").write_text("\n".join(lines) + "\n")
    return root


def command(folder: Path, run: Path, *more: str, backbone: str = "bilstm", method: str = "upa") -> list[str]:
    words = small_runs.train_command(folder / "rows.csv", run, backbone=Path(backbone), method=method)
    return [*words, *more, "--no-baselines"]


REST = [
    ("cnn", "upa", {"embedding_size": 12}),
    ("bilstm", "upa", {"hidden_size": 14}),
    ("bilstm", "concat-word", {"dropout": 0.3}),
    ("hierarchical", "none", {"bidirectional": False, "forget_bias": 1.0}),
    ("hierarchical", "upa", {"hidden_size": 14, "sentence_length": 2}),
    ("hierarchical", "concat-word", {"unknown_words": "drop", "language": "de"}),
]
"""Other methods and options of the same backbones."""


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("backbone", "method", "options"),
    [
        ("cnn", "none", {"widths": [1, 2], "filters": 9, "unknown_words": "drop", "min_count": 3}),
        ("bilstm", "chim", {"padding": "run"}),
        ("hierarchical", "huapa", {"initial_range": 0.1, "padding": "run"}),
        *(pytest.param(*given, marks=pytest.mark.exhaustive) for given in REST),
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
    assert options.items() <= model.config.text_config.options.items()
    assert model.config.tuning == "full"
    assert model.config.pooling == ("mean" if backbone == "hierarchical" else "max")
    assert all(parameter.requires_grad for parameter in model.backbone.parameters())
    assert RunFolder(run).read_results().models[0].parts["test"]
    first, again = (Predictor.from_pretrained(run, device="cpu").predict(ROWS[:9]) for _ in range(2))
    assert list(first["prediction"]) == list(again["prediction"])
    assert main(["evaluate", str(run), str(folder / "rows.csv")]) == 0


@pytest.mark.slow
def test_word_vectors_are_the_first_ones(folder: Path, tmp_path: Path, capsys: Any) -> None:
    vectors = folder / "vectors.txt"
    rate = "training.learning_rate=1e-12"
    assert main(command(folder, tmp_path / "run", "--set", rate, "--word-vectors", str(vectors))) == 0
    assert re.search(
        r"words: \d+ of \d+ have a vector of their own, \d+ of them from .*vectors\.txt", capsys.readouterr().err
    )
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


@pytest.mark.exhaustive
@pytest.mark.slow
def test_random_vectors_that_do_not_learn_are_told(folder: Path, tmp_path: Path, capsys: Any) -> None:
    frozen = ["--set", "backbone.options.train_vectors=false"]
    assert main(command(folder, tmp_path / "random", *frozen)) == 0
    assert "word vectors: random, and not trained" in capsys.readouterr().err
    assert main(command(folder, tmp_path / "file", *frozen, "--word-vectors", str(folder / "vectors.txt"))) == 0
    assert "not trained" not in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_interrupted_training_goes_on(folder: Path, tmp_path: Path) -> None:
    assert_resumes_exactly(partial(command, folder), tmp_path)


HERE = "injector: it acts inside Transformer layers, but backbones of type word-bilstm have"
KNOWN = r"\(bilstm, bilstm-cnn, cnn, hierarchical, tang-cnn\)"
SET = "backbone.options"


@pytest.mark.parametrize(
    ("backbone", "method", "more", "message"),
    [
        ("bilstm", "injector", [], HERE),
        ("bilstm", "upa", ["--tuning", "frozen"], "tuning is not for the backbone 'bilstm', which is not pretrained"),
        ("bilstm", "upa", ["--set", "backbone.revision=main"], "revision is not for the backbone 'bilstm'"),
        ("bilstm", "upa", ["--compare", "injector"], "injector: it acts inside Transformer layers"),
        ("bilstm", "upa", ["--word-vectors", "nothing.txt"], r"nothing\.txt: cannot be read"),
        ("bilstm", "upa", ["--word-vectors", "1.txt", "2.txt"], "names 2 files, but a backbone takes one"),
        ("some/model", "upa", ["--set", f"{SET}.filters=3"], f"options are for .* pretraining {KNOWN}: leave it out"),
        ("cnn", "none", ["--set", f"{SET}.input_vectors=3"], "leave the option input_vectors to the method"),
        (
            "hierarchical",
            "huapa",
            ["--set", f"{SET}.branches=2"],
            r"options\.branches is 2, but the method 'huapa' needs 1 for the attributes user: leave it out",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    folder: Path, tmp_path: Path, fails: Fails, backbone: str, method: str, more: list[str], message: str
) -> None:
    told = fails(*command(folder, tmp_path / "run", *more, backbone=backbone, method=method))
    assert re.search(message, told), told


@pytest.mark.parametrize(
    ("backbone", "option", "message"),
    [
        ("bilstm", "depth=3", "depth"),
        ("bilstm", "hidden_size=7", "hidden_size is 7: give an even number"),
        ("bilstm", 'hidden_size="abc"', "hidden_size: .*valid integer"),
        ("bilstm", "hidden_size=2000000000", "less than or equal to 100000"),
        ("bilstm", "padding=foo", "padding: .*'packed' or 'run'"),
        ("bilstm", "dropout=2", "dropout: .*less than 1"),
        ("bilstm", "embedding_size=-3", "embedding_size: .*greater than or equal to 1"),
        ("cnn", "widths=3", "widths: give a list, such as \\[3\\]; it is 3"),
        ("cnn", "widths=[]", "widths: .*at least 1 item"),
        ("cnn", 'widths=["a"]', "widths.*valid integer"),
        ("cnn", "filters=null", "filters: .*valid integer"),
    ],
)
def test_options_are_checked_before_the_table_is_read(
    folder: Path, tmp_path: Path, capsys: Any, backbone: str, option: str, message: str
) -> None:
    assert main(command(folder, tmp_path / "run", "--set", f"{SET}.{option}", backbone=backbone)) == 1
    told = capsys.readouterr().err
    assert re.search(message, told), told
    assert "backbone.options has" in told
    assert "rows read" not in told


def test_they_write_no_text(folder: Path, tmp_path: Path, fails: Fails) -> None:
    given = ["train", folder / "rows.csv", "--text", "text", "--task", "generation", "--method", "none"]
    told = fails(*given, "--backbone", "bilstm", "--output", tmp_path / "run")
    assert "the backbone 'bilstm' writes no text: choose a language model" in told


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_continued_training_keeps_the_words_of_its_vectors(folder: Path, tmp_path: Path) -> None:
    """The other table has a word of its own in place of a frequent one: as many words, of other meanings."""
    assert main(command(folder, tmp_path / "first")) == 0
    words = load_model(tmp_path / "first").tokenizer.get_vocab()
    word = next(word for word in words if word.isalpha() and len(word) > 2)
    rows = [row | {"text": row["text"].lower().replace(word, "zebra")} for row in ROWS]
    small_runs.write_csv(tmp_path / "other.csv", rows)
    given = ["train", str(tmp_path / "other.csv"), "--continue", str(tmp_path / "first"), "--seed", "5"]
    assert main([*given, "--output", str(tmp_path / "second")]) == 0
    assert load_model(tmp_path / "second").tokenizer.get_vocab() == words
    assert "zebra" not in words


def test_a_table_whose_words_never_repeat_is_refused(tmp_path: Path, fails: Fails) -> None:
    small_runs.write_csv(tmp_path / "rows.csv", [row | {"text": f"w{n} x{n}"} for n, row in enumerate(ROWS)])
    assert "occurs twice" in fails(*command(tmp_path, tmp_path / "run"))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_tags_of_words(tmp_path: Path) -> None:
    rows = [row | {"words": row["text"].split()} for row in ROWS]
    rows = [row | {"tags": ["B-X" if len(word) > 4 else "O" for word in row["words"]]} for row in rows]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = ["train", str(tmp_path / "rows.jsonl"), "--text", "words", "--label", "tags", "--task", "tags"]
    given += ["--backbone", "bilstm", "--method", "none", "--epochs", "6", "--learning-rate", "0.01"]
    assert main([*given, "--output", str(tmp_path / "run")]) == 0
    assert RunFolder(tmp_path / "run").read_results().models[0].parts["test"]["f1"].value > 0.8


def test_a_name_without_weights_is_refused_in_python() -> None:
    with pytest.raises(ConfigError, match="the backbone 'bilstm' has no pretrained weights: train it with"):
        load_backbone("bilstm")


SCRIPTS = {
    "hindi": "नमस्ते दुनिया यह अच्छी किताब है",
    "greek": "ΟΔΥΣΣΕΥΣ Οδυσσεύς",
    "turkish": "İstanbul'da IŞIK",
    "arabic": "كِتَابٌ جَمِيلٌ",
    "thai": "ภาษาไทยนี้ดี",
    "composed": "caf\u00e9 cafe\u0301",
    "other": "日本語です 👍🏽 a_b 3.5 [PAD] [UNK]",
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_words_are_counted_as_they_are_read(text: str, tmp_path: Path) -> None:
    words = list(tokenized_words([text] * 2))
    tokenizer = word_tokenizer(WordVocabulary.fit(words, limit=100))
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        ids = one(text)["input_ids"]
        assert len(ids) == len(words[0])
        assert not {0, 1}.intersection(ids), "a word of the training rows is padding, or unknown"


def test_the_tokenizer_is_that_of_the_vocabulary() -> None:
    texts = ["Great, GREAT book_s!", "naïve 3.5 stars… don't", "", "  \t ", "x" * 5000]
    words = list(tokenized_words(texts))
    vocabulary = WordVocabulary.fit([*words, *words], limit=100)
    assert words[0] == ["great", ",", "great", "book", "_", "s", "!"]
    tokenizer = word_tokenizer(vocabulary)
    assert [tokenizer(text)["input_ids"] for text in texts] == [vocabulary.encode(one).tolist() for one in words]
    assert tokenizer("unheard of")["input_ids"] == [1, 1]
    assert tokenizer.pad_token_id == 0


@pytest.mark.slow
def test_a_method_that_needs_options_of_the_backbone_sets_them(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(command(folder, run, backbone="tang-cnn", method="upnn")) == 0
    assert load_model(run).config.text_config.options["input_vectors"] == 1  # there is one attribute


def test_the_mark_of_tokenized_sentences_is_no_word(tmp_path: Path) -> None:
    """Flat backbones leave it out, hierarchical ones end a sentence there."""
    vocabulary = WordVocabulary(("a", "film", "good", "."))
    flat = word_tokenizer(vocabulary, tokenization="whitespace")
    whole = flat("A good . film .")["input_ids"]
    assert flat("A good . <sssss> film .")["input_ids"] == flat("A good .<sssss>film .")["input_ids"] == whole
    flat.save_pretrained(tmp_path / "flat")
    assert AutoTokenizer.from_pretrained(tmp_path / "flat")("A good . <sssss> film .")["input_ids"] == whole
    tree = word_tokenizer(vocabulary, tokenization="whitespace", language="en")
    end = tree.convert_tokens_to_ids("␞")
    assert tree("A good . <sssss> film .")["input_ids"] == [*whole[:3], end, *whole[3:]]
    assert [*tokenized_words(["a <sssss> film"], tokenization="whitespace")] == [["a", "film"]]


@pytest.mark.parametrize("tokenization", ["words", "whitespace"])
def test_marks_that_texts_have_themselves_are_no_words(tokenization: str) -> None:
    texts = ["A good ␞ film , ␞", "A ␞ ␞ film"]
    vocabulary = WordVocabulary.fit(tokenized_words(texts, tokenization=tokenization), limit=9, min_count=1)
    assert set(vocabulary.words) == {"a", "good", "film", ","}
    tree = word_tokenizer(vocabulary, tokenization=tokenization, language="en")
    end = tree.convert_tokens_to_ids("␞")
    assert end == len(vocabulary) == len(tree) - 1
    assert [tree(text)["input_ids"].count(end) for text in texts] == [2, 2]
    assert 1 not in tree(texts)["input_ids"][0]


def test_sentences_are_read_without_their_mark_too() -> None:
    ids = torch.tensor([[5, 6, 7, 8]])
    for options in ({"sentences": "mean"}, {"sentences": "gru"}, {}):
        states = tiny_backbone("word-tang-cnn", options=options)(ids).last_hidden_state
        assert states.shape == (1, 1, 48)


@pytest.mark.parametrize(
    ("backbone", "more", "message"),
    [
        ("hierarchical", ["--set", "data.window=chunks:8x2"], "chunks are cut by words, and the backbone"),
        ("hierarchical", ["--method", "iaa"], "name two of them, not user"),
        ("hirarchical", [], "did you mean 'hierarchical', which is not pretrained?"),
        (
            "bilstm",
            ["--method", "chim", "--set", "method.places=[embedding]", "backbone.options.projection=false"],
            "needs",
        ),
    ],
)
def test_a_wrong_recipe_is_refused(
    folder: Path, tmp_path: Path, capsys: Any, backbone: str, more: list[str], message: str
) -> None:
    assert main(command(folder, tmp_path / "run", *more, backbone=backbone)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "model").exists()


def test_a_place_that_a_loaded_backbone_lacks_is_named() -> None:
    with pytest.raises(ConfigError, match="no embedding whose weights it could weigh: give it the option"):
        make_model("word-bilstm", METHODS["chim"](places=("embedding",)))


@pytest.mark.slow
def test_sentences_have_no_graph(folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(command(folder, tmp_path / "run", backbone="hierarchical")) == 0
    assert main(["export", str(tmp_path / "run"), "--format", "torch", "--output", str(tmp_path / "graph.pt2")]) == 1
    told = capsys.readouterr().err
    assert "find the sentences of each batch, whose number a graph would fix" in told
