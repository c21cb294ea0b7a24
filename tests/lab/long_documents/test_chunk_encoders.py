"""Recurrence and attention over the chunks of a document, against torch's own layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_tokenizers
import torch
from families import tiny_backbone
from tiny_models import CLASSES, make_batch, make_model, make_schema
from torch import Tensor, nn
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main
from attribune.data.readers.base import Collator
from attribune.data.readers.text import TextEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import Chunks, parse_window
from attribune.errors import ConfigError, DataError
from attribune.methods import METHODS
from attribune.models.auto import load_model
from attribune.models.chunk_encoders import chunk_encoder_from_dict
from attribune.models.model import AttributeModel
from attribune.tasks import Classification
from attribune_lab.long_documents.chunk_encoders import RobertConfig, TobertConfig

TASK = Classification(classes=CLASSES)
MASK = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]])


def scattered(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return module.double().eval()


def build(settings: Any, **options: Any) -> AttributeModel:
    return make_model(
        "bert", METHODS["injector"](vector_size=4, bottleneck=4), chunk=2, chunk_encoder=settings, **options
    )


def test_robert_is_the_last_state_and_a_layer() -> None:
    encoder: Any = scattered(build({"name": "robert", "size": 7, "dense": 5}).chunk_encoder)
    chunks = torch.randn(3, 3, 48, dtype=torch.float64)
    found = encoder(chunks, MASK)
    for row in range(3):
        states, _ = encoder.recurrent.lstm(chunks[row : row + 1, : int(MASK[row].sum())])
        expected = (states[0, -1] @ encoder.dense.weight.T + encoder.dense.bias).clamp(min=0)
        assert torch.allclose(found[row], expected, atol=1e-12)
    assert encoder.features == 5


@pytest.mark.parametrize("positions", [0, 4])
def test_tobert_is_transformer_layers_and_a_mean(positions: int) -> None:
    encoder: Any = scattered(build({"name": "tobert", "layers": 2, "positions": positions}).chunk_encoder)
    chunks = torch.randn(3, 3, 48, dtype=torch.float64)
    found = encoder(chunks, MASK)
    for row in range(3):
        count = int(MASK[row].sum())
        states = chunks[row : row + 1, :count]
        if positions:
            states = states + encoder.positions[:count]
        for layer in encoder.layers:
            states = slow_layer(layer, states)
        assert torch.allclose(found[row], states[0].mean(dim=0), atol=1e-10)


def slow_layer(layer: Any, states: Tensor) -> Tensor:
    """Post-norm attention and feed-forward of one document, head by head."""
    heads, H = layer.heads, states.shape[-1]
    q, k, v = (states @ W[0] for W in (layer.W_q, layer.W_k, layer.W_v))
    size = q.shape[-1] // heads
    outputs = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = q[0, :, part] @ k[0, :, part].T / size**0.5
        outputs.append(scores.softmax(dim=-1) @ v[0, :, part])
    attended = torch.cat(outputs, dim=-1) @ layer.W_o
    states = nn.functional.layer_norm(states + attended, (H,), layer.gain_1, layer.bias_1, 1e-12)
    inner = (states @ layer.W_1 + layer.b_1).clamp(min=0) @ layer.W_2 + layer.b_2
    return nn.functional.layer_norm(states + inner, (H,), layer.gain_2, layer.bias_2, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["robert", "tobert", "hibert"])
def test_texts_beside_it_change_nothing(name: str, tmp_path: Path) -> None:
    model = build(name)
    batch = make_batch(2)
    together = model(**batch).logits
    for row in range(len(together)):
        length = int(batch["attention_mask"][row].sum())
        cut = {"attribute_ids": None}
        alone = {key: value[row : row + 1, : cut.get(key, length)] for key, value in batch.items()}
        assert torch.allclose(model(**alone).logits[0], together[row], atol=1e-5)
    model.save_pretrained(tmp_path / "model")
    tiny_backbone("bert").save_pretrained(tmp_path / "backbone")
    again = AttributeModel.from_pretrained(tmp_path / "model", backbone=str(tmp_path / "backbone"))
    assert torch.equal(again.eval()(**batch).logits, together)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [None, "robert", "tobert"])
@pytest.mark.parametrize("family", ["word-cnn", "word-bilstm", "word-bilstm-cnn"])
def test_chunks_without_words_do_not_count(family: str, settings: str | None) -> None:
    """A text beside a longer one is padded to more chunks, also where the backbone says which words count."""
    model = make_model(family, METHODS["concat-word"](layers=1), chunk=2, chunk_encoder=settings)
    batch = make_batch(2)
    with torch.no_grad():
        together = model(**batch).logits
        for row, length in enumerate(batch["attention_mask"].sum(dim=1).tolist()):
            alone = {name: x[row : row + 1] for name, x in batch.items()}
            alone |= {name: alone[name][:, :length] for name in ("input_ids", "attention_mask")}
            assert float((model(**alone).logits[0] - together[row]).abs().max()) < 1e-5


@pytest.mark.slow
def test_they_are_trained_from_a_recipe(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    given = ["--no-baselines", "--set", "data.window=chunks:8x4:4", "backbone.chunk_encoder=tobert"]
    run = trained_runs("injector", *given)
    model = load_model(run)
    assert model.config.chunk_encoder == TobertConfig().model_dump()
    assert model.config.chunk == 8
    assert main(["predict", str(run), str(trained_runs.table(ROWS)), "--output", str(tmp_path / "out.csv")]) == 0


def test_hibert_is_tobert_with_positions() -> None:
    encoder: Any = build("hibert").chunk_encoder
    assert encoder.positions.shape == (512, 48)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_hibert_is_trained_over_sentences(trained_runs: TrainedRuns, tmp_path: Path) -> None:
    rows = [{**row, "text": f"{row['text']} It was good. No. " * (number % 4)} for number, row in enumerate(ROWS)]
    given = ["--no-baselines", "--set", "data.window=sentences:7x6", "backbone.chunk_encoder=hibert"]
    run, table = trained_runs("injector", *given, rows=rows), str(trained_runs.table(rows))
    model = load_model(run)
    assert str(model.text_input.window) == "sentences:7x6"
    assert main(["predict", str(run), table, "--output", str(tmp_path / "out.csv")]) == 0
    assert main(["explain", str(run), table, "--row", "2", "--output", str(tmp_path / "page.html")]) == 0


@pytest.mark.parametrize("padding_side", ["right", "left"])
def test_sentences_are_read_as_texts_of_their_own(padding_side: str) -> None:
    """Whatever the side of padding, each is what it would be alone, and the document is their mean."""
    schema, tokenizer = make_schema(1), small_tokenizers.pieces()
    tokenizer.padding_side = padding_side
    backbone, window = tiny_backbone("bert"), parse_window("sentences:6x4", max_length=512)
    model = AttributeModel.build(backbone, schema, method=METHODS["none"](), task=TASK, pooling="mean", chunk=6).eval()
    sentences = [["Ab cd. ", "Ef gh? ", "Fghijk."], ["Ab."], ["Ab. ", "Bc. ", "De fg. ", "Ed. ", "Fa."], [""]]
    texts = ["".join(ones) for ones in sentences]
    rows = TextEncoder(tokenizer, window=window).rows(TextInput.of("text", window=window), {"text": texts})
    assert rows.shortened.tolist() == [True, False, True, False]
    assert rows.empty.tolist() == [False, False, False, True]
    none = [0] * schema.slots
    batch = Collator(tokenizer, schema)([{"input_ids": ids, "attribute_ids": none} for ids in rows.inputs])
    with torch.no_grad():
        found = model(**batch).logits
        for row, ones in enumerate(sentences):
            ids = [torch.tensor([tokenizer(one, truncation=True, max_length=6)["input_ids"]]) for one in ones[:4]]
            vectors = [model.backbone(input_ids=one).last_hidden_state.mean(dim=1) for one in ids]
            assert torch.allclose(found[row], model.head(torch.cat(vectors).mean(dim=0)), atol=1e-5)


def test_pairs_have_no_window_of_sentences() -> None:
    window = parse_window("sentences", max_length=512)
    assert str(window) == "sentences:50x32"
    encoder = TextEncoder(small_tokenizers.pieces(), window=window)
    with pytest.raises(ConfigError, match="'sentences:50x32' has the sentences of one text: choose chunks for pairs"):
        encoder.rows(TextInput.of("a", pair="b", window=window), {"a": ["x"], "b": ["y"]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("longbert", "chunk_encoder is {'name': 'longbert'}"),
        ({"name": "hibert", "positions": 0}, "positions"),
        ({"name": "robert", "size": 0}, "size"),
        ({"name": "tobert", "size": 3}, "there is no such setting"),
        (7, "chunk_encoder is 7"),
    ],
)
def test_wrong_settings(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        chunk_encoder_from_dict(settings)


def test_what_does_not_go_together() -> None:
    with pytest.raises(ConfigError, match="a chunk encoder joins chunks: give a window of them"):
        make_model("bert", METHODS["none"](), chunk_encoder="robert")
    with pytest.raises(ConfigError, match="method 'upa' pools the states of all chunks"):
        make_model("bert", METHODS["upa"](), chunk=2, chunk_encoder="robert")
    with pytest.raises(DataError, match="a text has 3 chunks, but the chunk encoder has 2 positions"):
        build({"name": "tobert", "positions": 2})(**make_batch(2))
    text = TextInput.of("text", window=parse_window("sentences:2x513", max_length=512))
    with pytest.raises(ConfigError, match=r"'sentences:2x513' has up to 513 chunks, but .* 512 positions"):
        build("hibert", text_input=text)


def test_the_head_fits_the_document() -> None:
    config = RobertConfig(size=9, dense=6)
    assert make_model("bert", METHODS["chim"](), chunk=2, chunk_encoder=config.model_dump()).head.in_features == 6
    assert build({"name": "robert", "dense": 6}, head_size=4).head.in_features == 4
    assert Chunks(8, 4, 4).stride == 4
