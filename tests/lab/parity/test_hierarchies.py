"""Hierarchies of words and sentences against loops written from their equations, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from slow_layers import (
    Vector,
    added,
    cut_sentences,
    exact_logits,
    gap,
    matrix_times,
    mean,
    slow_attention,
    slow_states,
)
from slow_layers import slow_personal_pool as slow_pool
from torch import nn

import attribune.functional
from attribune.methods import La, MethodConfig, Plain, Upa
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Classification
from attribune_lab import functional
from attribune_lab.backbones.hierarchical import HierarchicalConfig, HierarchicalModel
from attribune_lab.methods import Huapa, Iaa

TOLERANCE = 1e-10


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


END, PAD = 9, 0
# Sentences end after a 9; empty ones are none, and padding may stand anywhere.
TEXTS = [
    [2, 3, 9, 4, 5, 6, 9, 9, 7],
    [2, 0, 0, 0, 0, 0, 0, 0, 0],
    [0, 8, 9, 0, 3, 4, 9, 0, 0],
    [9, 9, 5, 6, 7, 8, 2, 3, 9],
]
LONGEST = 3


def sentences_of(ids: list[int]) -> list[list[int]]:
    return cut_sentences(ids, end=END, longest=LONGEST)


def slow_bilinear(own: Any, states: list[Vector], a: Vector) -> Vector:
    v, c, product = own.v.tolist(), own.c.tolist(), matrix_times(own.W.T.tolist(), a)
    b = [[math.tanh(x * y) for x, y in zip(product, state, strict=True)] for state in states]
    scores = [sum(v[i] * math.tanh(x + c[i]) for i, x in enumerate(matrix_times(own.W_a.tolist(), one))) for one in b]
    return slow_attention([added(h, one) for h, one in zip(states, b, strict=True)], scores)


def slow_branch(model: AttributeModel, number: int, ids: list[int], pool_words: Any) -> list[Vector]:
    """Return the states of the sentences of a text."""
    branch, table = model.backbone.branches[number], model.backbone.embeddings.weight.tolist()
    words = [[table[word] for word in sentence] for sentence in sentences_of(ids)]
    pooled = [pool_words(slow_states(branch.words.directions(), sentence)) for sentence in words]
    return slow_states(branch.sentences.directions(), pooled)


def slow_linear(layer: nn.Linear, x: Vector) -> Vector:
    return added(matrix_times(layer.weight.tolist(), x), layer.bias.tolist())


def slow_head(model: AttributeModel, document: Vector) -> Vector:
    """The head of the model, with the layer in front of it if there is one."""
    if model.hidden_layer is not None:
        document = [math.tanh(x) for x in slow_linear(model.hidden_layer, document)]
    return slow_linear(model.head, document)


def slow_logits(model: AttributeModel, ids: list[int], vectors: list[Vector]) -> tuple[Vector, list[Vector]]:
    """Return the logits of a text, and those of the auxiliary losses."""
    method: Any = model.method
    name = model.method_config.name
    if name in ("none", "la", "upa"):
        a = [x for vector in vectors for x in vector] if name == "upa" else []
        if name == "none":
            return slow_head(model, mean(slow_branch(model, 0, ids, mean))), []
        states = slow_branch(model, 0, ids, lambda h: slow_pool(method.sites[0], h, a))
        return slow_head(model, slow_pool(method, states, a)), []
    if name == "huapa":
        documents = []
        for m, a in enumerate(vectors):
            states = slow_branch(model, m, ids, lambda h, m=m, a=a: slow_pool(method.sites[m], h, a))
            documents.append(slow_pool(method.attention[m], states, a))
        auxiliary = [slow_linear(method.heads[m], d) for m, d in enumerate(documents)]
        return slow_head(model, documents[0] + documents[1]), auxiliary
    text = slow_pool(method.text_attention, slow_branch(model, 0, ids, lambda h: slow_pool(method.sites[0], h, [])), [])
    parts = []
    for m, a in enumerate(vectors):
        own = method.sites[m + 1].attention
        states = slow_branch(model, m + 1, ids, lambda h, own=own, a=a: slow_bilinear(own, h, a))
        parts.append(slow_bilinear(method.attention[m], states, a))
    u, p = vectors
    one = matrix_times(method.W_1.T.tolist(), u)
    two = matrix_times(method.W_2.T.tolist(), p)
    m = [x * y + c for x, y, c in zip(one, p, method.c_1.tolist(), strict=True)]
    m += [x * y + c for x, y, c in zip(two, u, method.c_2.tolist(), strict=True)]
    auxiliary = []
    for head, part in zip(method.heads, [m, *parts, text], strict=True):
        if isinstance(head, nn.Linear):
            auxiliary.append(slow_linear(head, part))
        else:
            auxiliary.append(slow_linear(head[2], [math.tanh(x) for x in slow_linear(head[0], part)]))
    return slow_head(model, [*m, *parts[0], *parts[1], *text]), auxiliary


METHODS: dict[str, tuple[MethodConfig, int]] = {
    "none": (Plain(), 1),
    "la": (La(attention_size=5), 1),
    "upa": (Upa(attention_size=5, vector_size=3), 1),
    "huapa": (Huapa(attention_size=5, vector_size=3), 2),
    "iaa": (Iaa(attention_size=5, vector_size=3), 3),
}
SCHEMA = Schema.fit({"u": ["a", "b"], "p": ["x", "y"]}, [Categorical("u"), Categorical("p")])
IDS = torch.tensor([[1, 2], [2, 0], [0, 0], [2, 1]])
MASK = (torch.tensor(TEXTS) != PAD).long()
BATCH = {"input_ids": torch.tensor(TEXTS), "attention_mask": MASK, "attribute_ids": IDS}


def built(name: str, *, head_size: int | None = None, **options: Any) -> AttributeModel:
    method, branches = METHODS[name]
    settings = {"embedding_size": 4, "hidden_size": 6, "sentence_length": LONGEST, "branches": branches, **options}
    config = HierarchicalConfig(vocab_size=10, sentence_end_id=END, options=settings)
    torch.manual_seed(2)
    model = AttributeModel.build(
        HierarchicalModel(config),
        SCHEMA,
        task=Classification(classes=3),
        method=method,
        dropout=0.0,
        head_size=head_size,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
        for table in getattr(model.method, "tables", ()):
            table[0] = 0
    for module in model.modules():
        if hasattr(module, "attribute_dropout"):
            module.attribute_dropout = 0.0
    return model.double()


@pytest.mark.slow
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("head_size", [None, 7])
@pytest.mark.parametrize("name", METHODS)
def test_logits_and_loss(name: str, head_size: int | None, bidirectional: bool) -> None:
    model = built(name, head_size=head_size, bidirectional=bidirectional)
    labels = torch.tensor([0, 2, 1, 0])
    tables = [table.tolist() for table in getattr(model.method, "tables", ())]
    expected, losses = [], []
    main, *others = {"huapa": (0.4, 0.3, 0.3), "iaa": (0.35, 0.25, 0.25, 0.25, 0.25)}.get(name, (1.0,))
    for row, text in enumerate(TEXTS):
        vectors = [table[int(number)] for table, number in zip(tables, IDS[row], strict=False)]
        logits, auxiliary = slow_logits(model, text, vectors)
        expected.append(logits)
        weighted = zip([main, *others], [logits, *auxiliary], strict=True)
        losses.append(sum(w * (math.log(sum(map(math.exp, x))) - x[int(labels[row])]) for w, x in weighted))
    found = model.eval()(**BATCH, labels=labels)
    assert found.logits.shape == (4, 3)
    assert gap(found.logits, expected) < 1e-5  # logits are float32
    trained = model.train()(**BATCH, labels=labels)
    assert abs(float(trained.loss.detach()) - sum(losses) / 4) < 1e-5
    assert trained.logits.shape == ((4, 3) if len(others) == 0 else (4, 1 + len(others), 3))


@pytest.mark.parametrize("sentence_size", [None, 4])
@pytest.mark.parametrize("name", METHODS)
def test_to_the_last_digit(name: str, sentence_size: int | None) -> None:
    model = built(name, head_size=5, sentence_size=sentence_size).eval()
    tables = [table.tolist() for table in getattr(model.method, "tables", ())]
    expected = [
        slow_logits(model, text, [table[int(n)] for table, n in zip(tables, IDS[row], strict=False)])[0]
        for row, text in enumerate(TEXTS)
    ]
    assert gap(exact_logits(model, BATCH), expected) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_texts_beside_it_change_nothing(name: str) -> None:
    model = built(name).eval()
    together = model(**BATCH).logits
    for row in range(4):
        alone = model(**{key: value[row : row + 1] for key, value in BATCH.items()}).logits
        assert gap(alone[0], together[row]) < 1e-6


# How the last branch pools words, and the attributes that it reads.
POOLS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "none": (lambda method, states, a: mean(states), ()),
    "la": (lambda method, states, a: slow_pool(method.sites[0], states, a), ()),
    "upa": (lambda method, states, a: slow_pool(method.sites[0], states, a), (0, 1)),
    "huapa": (lambda method, states, a: slow_pool(method.sites[1], states, a), (1,)),
    "iaa": (lambda method, states, a: slow_bilinear(method.sites[2].attention, states, a), (1,)),
}


@pytest.mark.parametrize("name", METHODS)
def test_run_reads_padding_and_sentences_without_words(name: str) -> None:
    """As released code does: every row has as many sentences, all as long as the longest.

    A sentence without words is what pooling makes of each of its places alone, on average.
    """
    model, (pool, attributes) = built(name, padding="run").eval(), POOLS[name]
    method = model.method
    with method.holder.use(method.condition(IDS, 4)):
        found = model.backbone(BATCH["input_ids"], MASK)
    table, branch = model.backbone.embeddings.weight, model.backbone.branches[-1]
    sentences = [sentences_of(text) for text in TEXTS]
    S, W = max(map(len, sentences)), max(len(words) for text in sentences for words in text)
    for row, text in enumerate(sentences):
        a = [x for m in attributes for x in method.tables[m][IDS[row, m]].tolist()]
        pooled = []
        for words in text + [[]] * (S - len(text)):
            vectors = [table[word].tolist() for word in words] + [[0.0] * table.shape[1]] * (W - len(words))
            states = slow_states(branch.words.directions(), vectors)
            alone = [states[: len(words)]] if words else [[state] for state in states]
            pooled.append(mean([pool(method, one, a) for one in alone]))
        expected = slow_states(branch.sentences.directions(), pooled)
        assert gap(found.last_hidden_state[row, :, -6:], expected) < TOLERANCE
        assert found.attention_mask[row].tolist() == [1] * len(text) + [0] * (S - len(text))


def test_run_where_all_sentences_have_words() -> None:
    model = built("upa", padding="run").eval()
    ids = torch.tensor([[2, 3, 4, 9, 5, 6], [7, 8, 9, 2, 3, 4]])
    found, packed = model(ids, None, IDS[:2]).logits, built("upa").eval()(ids, None, IDS[:2]).logits
    assert gap(found, packed) > 1e-4  # a sentence of two words beside one of three


def test_bilinear_attention_over_scattered_words() -> None:
    hidden, a = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    mask = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    own = nn.Module()
    for name, shape in {"W": (2, 4), "W_a": (6, 4), "c": (6,), "v": (6,)}.items():
        setattr(own, name, torch.randn(shape, dtype=torch.float64))
    found = functional.bilinear_attention_pool(hidden, mask, a, own.W, own.W_a, own.c, own.v)
    for row in range(2):
        states = [hidden[row, t].tolist() for t in range(5) if mask[row, t]]
        assert gap(found[row], slow_bilinear(own, states, a[row].tolist())) < TOLERANCE
    assert not found[2].any()


def test_joint_loss() -> None:
    losses, weights = torch.randn(3, dtype=torch.float64), (0.4, 0.3, 0.3)
    expected = sum(weight * float(loss) for weight, loss in zip(weights, losses, strict=True))
    assert abs(float(attribune.functional.joint_loss(losses, weights)) - expected) < TOLERANCE
    assert abs(float(attribune.functional.joint_loss(losses.flip(0), weights)) - expected) > TOLERANCE


def test_merged_upa_is_attention_without_attributes() -> None:
    from attribune.export.export import merge_model, merged_model

    model = built("upa").float().eval()
    ids, values = BATCH["input_ids"], torch.tensor([2, 1])
    plain = merged_model(model, merge_model(model, values))
    assert plain.method_config.name == "la"
    assert gap(plain(ids, MASK).logits, model(ids, MASK, values.expand(4, 2)).logits) < 1e-5
