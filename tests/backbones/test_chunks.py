"""Documents cut into chunks: the cutting itself, and what methods that know nothing of it make of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from documents import assert_read_alike, exact, make_documents, padded  # noqa: F401  a fixture
from families import tiny_backbone
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_layers import assert_same
from tiny_models import exactly, still
from torch import Tensor

from attribune.backbones.chunking import cut_chunks, without_empty_rows
from attribune.data.texts import TextInput
from attribune.data.windows import Chunks, Head
from attribune.errors import ConfigError
from attribune.methods import Adapter, Injector, MethodConfig, Plain
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

WINDOW = 5
LENGTHS = (13, 2, 10)
USERS, TAGS = ["u1", None, "u2"], [["a", "b"], ["b"], []]
SCHEMA = Schema.fit({"user": USERS, "tags": TAGS}, [Categorical("user"), MultiLabel("tags")])
TASK = Classification(classes=3)
METHODS: dict[str, MethodConfig] = {
    "none": Plain(),
    "adapter": Adapter(bottleneck=5),
    "injector": Injector(bottleneck=5, vector_size=7),
}
FAMILIES = ["bert", "roberta", "distilbert", "deberta-v2", "mpnet", "modernbert", "gpt2", "llama", "t5"]


def cases(families: Sequence[str]) -> list[Any]:
    """Every method in every family, of which each is there once without the exhaustive ones."""
    return [
        pytest.param(family, method, marks=[] if family == "bert" or method == "injector" else pytest.mark.exhaustive)
        for family, method in product(families, METHODS)
    ]


# Cutting


def test_documents_become_rows() -> None:
    ids = torch.tensor([[11, 12, 13, 14, 15], [21, 22, 0, 0, 0]])
    found = cut_chunks({"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": ids - 10}, 2)
    assert found["input_ids"].tolist() == [[11, 12], [13, 14], [15, 0], [21, 22], [0, 0], [0, 0]]
    assert found["attention_mask"].tolist() == [[1, 1], [1, 1], [1, 0], [1, 1], [0, 0], [0, 0]]
    assert found["token_type_ids"].tolist() == [[1, 2], [3, 4], [5, 0], [11, 12], [-10, -10], [-10, 0]]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=4),
    width=st.integers(1, 9),
    chunk=st.integers(1, 11),
)
def test_any_mask(rows: list[list[bool]], width: int, chunk: int) -> None:
    """Nothing is lost, nothing moves to another document, and the first token begins the first chunk.

    Padding in between stays, since it fills sentences up to a chunk.
    """
    mask = torch.tensor(rows)[:, :width].long()
    ids = torch.arange(1, mask.numel() + 1).view(mask.shape)
    found = cut_chunks({"input_ids": ids, "attention_mask": mask}, chunk)
    count = -(-width // chunk)
    assert found["input_ids"].shape == found["attention_mask"].shape == (len(rows) * count, chunk)
    for row in range(len(rows)):
        flat = {name: x.view(len(rows), -1)[row] for name, x in found.items()}
        first = max(0, *(place for place in range(width) if not mask[row, :place].any())) if mask[row].any() else 0
        kept = [token if real else 0 for token, real in zip(ids[row].tolist(), mask[row].tolist(), strict=True)]
        given = [token if real else 0 for token, real in zip(*(x.tolist() for x in flat.values()), strict=True)]
        assert given == kept[first:] + [0] * (count * chunk - width + first)


def test_rows_without_a_token_get_one() -> None:
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 1, 1], [0, 0, 0]])
    before = mask.clone()
    assert without_empty_rows(mask).tolist() == [[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 0]]
    assert torch.equal(mask, before), "what is masked afterwards is still known"
    assert torch.equal(without_empty_rows(mask[[0, 2]]), mask[[0, 2]])


# Methods over chunks


def make_model(family: str, method: str, *, chunk: int | None = WINDOW) -> AttributeModel:
    """A model in float64 whose method has random numbers in every parameter."""
    model = AttributeModel.build(tiny_backbone(family), SCHEMA, task=TASK, method=METHODS[method], chunk=chunk)
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter))
    return exactly(model.eval())


def attributes(rows: Sequence[int] = (0, 1, 2)) -> Tensor:
    ids, _ = SCHEMA.encode({"user": USERS, "tags": TAGS})
    return torch.as_tensor(ids)[list(rows)]


def document_vectors(model: AttributeModel, **batch: Tensor) -> Tensor:
    seen: list[Tensor] = []
    hook = model.head.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    model(**batch)
    hook.remove()
    return seen[0].detach()


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(("family", "method"), cases(FAMILIES))
def test_the_document_vector_is_the_mean_of_its_chunks(family: str, method: str) -> None:
    """Each chunk by itself, unpadded, from position 0, with its document's attributes; none without a token counts."""
    model, documents = make_model(family, method), make_documents(LENGTHS)
    found = document_vectors(model, attribute_ids=attributes(), **padded(documents))
    for row, document in enumerate(documents):
        vectors = []
        for start in range(0, len(document), WINDOW):
            ids = torch.tensor([document[start : start + WINDOW]])
            vectors.append(document_vectors(model, input_ids=ids, attribute_ids=attributes([row]))[0])
        assert_same(found[row], sum(vectors) / len(vectors))


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(("family", "method"), cases(["bert", "modernbert", "gpt2", "t5"]))
def test_a_document_is_read_alike_in_every_batch(family: str, method: str) -> None:
    model = make_model(family, method)
    assert_read_alike(lambda **batch: document_vectors(model, **batch), make_documents(LENGTHS), attributes())


def test_a_text_of_one_chunk_is_read_whole() -> None:
    """To the last bit as without chunks; one token of padding more makes a second chunk, which does not count."""
    whole, model = make_model("bert", "injector", chunk=None), make_model("bert", "injector", chunk=13)
    model.load_state_dict(whole.state_dict())
    batch = padded(make_documents(LENGTHS)) | {"attribute_ids": attributes(), "labels": torch.tensor([0, 1, 2])}
    assert torch.equal(model(**batch).logits, whole(**batch).logits)
    batch = padded(make_documents(LENGTHS), more=1) | {"attribute_ids": attributes()}
    torch.testing.assert_close(model(**batch).logits, whole(**batch).logits)


def test_token_types_are_cut_with_the_ids() -> None:
    model, documents = make_model("bert", "none"), make_documents(LENGTHS)
    batch = padded(documents) | {"attribute_ids": attributes()}
    types = torch.zeros_like(batch["input_ids"])
    expected = document_vectors(model, **batch)
    assert torch.equal(document_vectors(model, token_type_ids=types, **batch), expected)
    types[0, 7] = 1
    found = document_vectors(model, token_type_ids=types, **batch)
    assert not torch.equal(found[0], expected[0])
    assert torch.equal(found[1:], expected[1:])


@pytest.mark.parametrize("method", ["adapter", "injector"])
def test_gradients_are_the_same_with_checkpointing(method: str) -> None:
    model = still(make_model("bert", method))
    batch = padded(make_documents(LENGTHS)) | {"attribute_ids": attributes(), "labels": torch.tensor([0, 1, 2])}

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        model(**batch).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected = gradients()
    assert all(gradient.isfinite().all() for gradient in expected.values())
    model.activation_checkpointing_enable()
    torch.testing.assert_close(gradients(), expected, rtol=1e-6, atol=1e-9)


# Settings


def test_the_window_says_how_long_chunks_are(tmp_path: Path) -> None:
    options: dict[str, Any] = {"task": TASK, "method": Plain()}
    text = TextInput.of("text", window=Chunks(7, 3))
    model = AttributeModel.build(tiny_backbone("bert"), SCHEMA, text_input=text, **options)
    assert model.config.chunk == 7
    model.save_pretrained(tmp_path)
    loaded = AttributeModel.from_pretrained(tmp_path)
    assert loaded.config.chunk == 7
    assert loaded.text_input == text
    batch = padded(make_documents(LENGTHS)) | {"attribute_ids": attributes()}
    assert torch.equal(loaded(**batch).logits, model.eval()(**batch).logits)
    for window, chunk, expected in ((None, None, None), (Head(7), None, None), (None, 4, 4), (Chunks(7, 3), 4, 4)):
        assignments_text = None if window is None else TextInput.of("text", window=window)
        model = AttributeModel.build(tiny_backbone("bert"), SCHEMA, text_input=assignments_text, chunk=chunk, **options)
        assert model.config.chunk == expected


@pytest.mark.parametrize("chunk", [0, -3])
def test_chunks_need_a_token(chunk: int) -> None:
    with pytest.raises(ConfigError, match=rf"chunk is {chunk}: it must be at least 1"):
        AttributeModel.build(tiny_backbone("bert"), SCHEMA, task=TASK, method=Plain(), chunk=chunk)
