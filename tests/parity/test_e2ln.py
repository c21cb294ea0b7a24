"""E2LN against a slow encoder written from Zhang et al. 2024, equations 1 to 8, in float64.

The slow encoder reads one document at a time and token by token; its chunks hold real tokens alone, so that it knows no
padding, no mask and no chunk without a token. It takes weights and embeddings from the backbone and nothing else.

Where the paper is silent: layer numbers count from the second for summaries, whose keys and values come from the
layer's own projections, with its personalised biases where there are any; a rotary family gives them position 0, a
family with relative biases the bias 0, and local attention never hides them. Pooling reads the last norm's input and
plain output, with its own gain and bias (pre-norm families: those of the norm that reads the layer's output next).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from documents import assert_read_alike, exact, make_documents, padded  # noqa: F401  a fixture
from families import tiny_backbone, tiny_config
from layer_parts import BIASES, NORMS, PARTS
from slow_layers import assert_apart, assert_same, draw
from tiny_models import exactly, make_batch, make_schema, still
from torch import Tensor, nn
from transformers import PreTrainedModel

from attribune import functional
from attribune.backbones.loading import build_backbone
from attribune.methods import Adapter, Combined, E2ln, MethodConfig, Tokens
from attribune.models.model import AttributeModel
from attribune.tasks import Classification

pytestmark = pytest.mark.slow

LAYERS = 3
WINDOW = 5
LENGTHS = (13, 2, 10)  # chunks: 2 and a partly padded one; a partly padded one and 2 empty ones; 2 and an empty one

SIZES = (5, 3, 2, 4)


# The paper, slowly


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def relu(x: Tensor) -> Tensor:
    return x * (x > 0)


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def softmax(scores: Sequence[Tensor]) -> list[Tensor]:
    largest = max(float(score.detach()) for score in scores)
    powers = [torch.exp(score - largest) for score in scores]
    total = sum(powers[1:], powers[0])
    return [power / total for power in powers]


def weighted(weights: Sequence[Tensor], vectors: Sequence[Tensor]) -> Tensor:
    """Sum of vectors, each with its weight."""
    terms = [weight * vector for weight, vector in zip(weights, vectors, strict=True)]
    return sum(terms[1:], terms[0])


@dataclass(frozen=True)
class Family:
    """What a family has beside the parts of its layers."""

    activation: Callable[[Tensor], Tensor] = gelu
    embeddings: str = "embeddings"
    project: str | None = None


FAMILIES = {
    "bert": Family(),
    "roberta": Family(),
    "electra": Family(project="embeddings_project"),
    "distilbert": Family(),
    "albert": Family(activation=gelu_tanh, project="encoder.embedding_hidden_mapping_in"),
    "modernbert": Family(),
    "t5": Family(activation=relu, embeddings="encoder.embed_tokens"),
    "eurobert": Family(activation=silu, embeddings="embed_tokens"),
}


class Slow:
    """The encoder of E2LN over the weights of a model."""

    def __init__(self, model: AttributeModel) -> None:
        self.model, self.backbone = model, model.backbone
        self.config: Any = model.method_config
        self.kind = self.backbone.config.model_type
        self.family, self.parts = FAMILIES[self.kind], PARTS[self.kind]
        self.pre_norm, self.shared = self.parts.final_norm is not None, self.kind == "albert"
        self.heads = self.backbone.config.num_attention_heads
        self.sites: dict[tuple[str, str], Any] = {}
        if (personal := model.method.personal) is not None:
            for place, module in zip(personal.acts_at, personal.sites, strict=True):
                self.sites[place.path, place.kind] = module

    def document(self, ids: list[int], attributes: list[int]) -> tuple[Tensor, Tensor]:
        """The last states (tokens, H) of a document, and its vector (H,)."""
        self.vectors = self.attribute_vectors(attributes)
        W = self.model.config.chunk or len(ids)
        streams = [self.embedded(ids[i : i + W]) for i in range(0, len(ids), W)]
        read = [[self.first_norm(x) for x in chunk] for chunk in streams]
        summaries: list[Tensor] = []
        for run in range(LAYERS):
            layer = 0 if self.shared else run
            f = [self.layer(layer, *chunk, summaries) for chunk in zip(streams, read, strict=True)]
            if self.config.structured_text and run + 1 < LAYERS:
                pool = self.model.method.summary_pools[layer]
                summaries = [self.pool(self.config.summary_pooling, layer, chunk, pool) for chunk in f]
            read = [[self.norm(layer, "feed_forward_norm", x) for x in chunk] for chunk in f]
            streams = f if self.pre_norm else read
        tokens = [x for chunk in f for x in chunk]
        vector = self.pool(self.config.document_pooling, layer, tokens, self.model.method.document_pool)
        return torch.stack([x for chunk in read for x in chunk]), vector

    def attribute_vectors(self, ids: list[int]) -> list[Tensor]:
        """One vector per attribute: the sum over its values, id 0 being none."""
        if not self.sites:
            return []
        found = []
        for slots, table in zip(self.model.slots, self.model.method.personal.tables, strict=True):
            vector = torch.zeros(table.shape[1], dtype=table.dtype)
            for value in ids[slots.start : slots.start + slots.count]:
                vector = vector + (table[value] if value != 0 else 0)
            found.append(vector)
        return found

    def fused(self, fusion: Any) -> Tensor:
        """A change of gain or bias, made of the attributes' vectors."""
        e = torch.cat(self.vectors)
        if self.config.fusion == "linear":
            return fusion.L @ e
        if self.config.fusion == "mlp":
            return fusion.L_2 @ torch.tanh(fusion.L_1 @ e)
        if self.config.fusion == "addition":
            return sum(self.vectors[1:], self.vectors[0])
        return weighted(list(fusion.w), self.vectors)

    def embedded(self, ids: list[int]) -> list[Tensor]:
        """What goes into the first layer, positions counted from the chunk's beginning."""
        states = self.backbone.get_submodule(self.family.embeddings)(torch.tensor([ids]))[0]
        if self.family.project is None:
            return list(states)
        project = self.backbone.get_submodule(self.family.project)
        return [project.weight @ x + project.bias for x in states]

    def part(self, layer: int, part: str) -> tuple[Any, Any]:
        """The backbone's module, and what personalises it; None where the settings do not ask for it."""
        path = self.parts.path(layer, part, layers=LAYERS)
        site = self.sites.get((path, "up_proj" if part == "gate" else part))
        chosen = part in (*NORMS[self.config.norms], *BIASES[self.config.bias_terms])
        assert (site is not None) == (chosen and (self.config.layers is None or layer + 1 in self.config.layers))
        return self.backbone.get_submodule(path), site

    def first_norm(self, x: Tensor) -> Tensor:
        """What the first layer's attention reads: in pre-norm families after a norm that follows no sub-layer."""
        module = (
            self.backbone.get_submodule(self.parts.path(-1, "feed_forward_norm", layers=LAYERS))
            if self.pre_norm
            else None
        )
        return x if module is None or isinstance(module, nn.Identity) else self.normalised(module, x)

    def standardised(self, module: Any, x: Tensor) -> Tensor:
        """(x - mean) / std; an RMSNorm divides by the root mean square alone."""
        if hasattr(module, "variance_epsilon"):
            return x / torch.sqrt((x**2).sum() / len(x) + module.variance_epsilon)
        mean = x.sum() / len(x)
        return (x - mean) / torch.sqrt(((x - mean) ** 2).sum() / len(x) + module.eps)

    def normalised(self, module: Any, x: Tensor, g: Tensor | float = 0.0, b: Tensor | float = 0.0) -> Tensor:
        """Eq. 4 and 6: a norm with its gain and bias, and the change of both."""
        bias = getattr(module, "bias", None)
        return self.standardised(module, x) * ((1 + g) * module.weight) + (0 if bias is None else bias) + b

    def norm(self, layer: int, part: str, x: Tensor) -> Tensor:
        """Eq. 5 and 6, where the norm is personalised."""
        module, site = self.part(layer, part)
        if site is None:
            return self.normalised(module, x)
        return self.normalised(module, x, self.fused(site.gain), self.fused(site.bias))

    def linear(self, layer: int, part: str, x: Tensor) -> Tensor:
        """One of the layer's linear maps, with its personalised bias if it has one."""
        module, site = self.part(layer, part)
        y = module.weight @ x
        if getattr(module, "bias", None) is not None:
            y = y + module.bias
        if self.kind == "modernbert" and part in ("q_proj", "k_proj", "v_proj"):
            y = y.view(3, -1)[("q_proj", "k_proj", "v_proj").index(part)]
        return y if site is None else y + self.fused(site.bias)

    def layer(self, layer: int, stream: list[Tensor], read: list[Tensor], summaries: list[Tensor]) -> list[Tensor]:
        """One layer over one chunk, up to the input of its last norm."""
        found = []
        for x, attended in zip(stream, self.attention(layer, read, summaries), strict=True):
            r = x + attended
            normed = self.norm(layer, "attention_norm", r)
            found.append((r if self.pre_norm else normed) + self.feed_forward(layer, normed))
        return found

    def feed_forward(self, layer: int, x: Tensor) -> Tensor:
        inner = self.linear(layer, "up_proj", x)
        if self.kind == "modernbert":
            inner, gate = inner.view(2, -1)
            return self.linear(layer, "down_proj", self.family.activation(inner) * gate)
        if self.parts.gate is not None:
            return self.linear(layer, "down_proj", self.family.activation(self.linear(layer, "gate", x)) * inner)
        return self.linear(layer, "down_proj", self.family.activation(inner))

    def attention(self, layer: int, read: list[Tensor], summaries: list[Tensor]) -> list[Tensor]:
        """Eq. 1 to 3: every token of a chunk attends to the chunk's tokens and to all summaries."""
        T = len(read)
        query = [self.split(self.linear(layer, "q_proj", x)) for x in read]
        key, value = ([self.split(self.linear(layer, p, x)) for x in [*read, *summaries]] for p in ("k_proj", "v_proj"))
        query = [[self.rotated(layer, part, i) for part in x] for i, x in enumerate(query)]
        key = [[self.rotated(layer, part, j if j < T else 0) for part in x] for j, x in enumerate(key)]
        found = []
        for i in range(T):
            reached = [j for j in range(len(key)) if j >= T or self.reaches(layer, i, j)]
            heads = []
            for head in range(self.heads):
                shared = head * len(key[0]) // self.heads  # several heads may read the same keys
                scale = 1.0 if self.kind == "t5" else 1 / math.sqrt(len(query[i][head]))
                scores = [
                    query[i][head] @ key[j][shared] * scale + (self.relative_bias(i, j, head) if j < T else 0.0)
                    for j in reached
                ]
                heads.append(weighted(softmax(scores), [value[j][shared] for j in reached]))
            found.append(self.linear(layer, "o_proj", torch.cat(heads)))
        return found

    def split(self, x: Tensor) -> list[Tensor]:
        """Heads side by side, all of one size."""
        return list(x.view(-1, self.backbone.config.hidden_size // self.heads))

    def reaches(self, layer: int, i: int, j: int) -> bool:
        """Whether token i sees token j; summaries are seen by all."""
        if self.kind != "modernbert" or self.backbone.config.layer_types[layer] == "full_attention":
            return True
        return abs(i - j) <= self.backbone.config.local_attention // 2

    def rotated(self, layer: int, x: Tensor, position: int) -> Tensor:
        """Queries and keys turned by their position, in rotary families."""
        rotary = getattr(self.backbone, "rotary_emb", None)
        if rotary is None:
            return x
        own = f"{self.backbone.config.layer_types[layer]}_inv_freq" if self.kind == "modernbert" else "inv_freq"
        angle = position * getattr(rotary, own)
        a, b = x.view(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()])

    def relative_bias(self, i: int, j: int, head: int) -> Tensor | float:
        """T5's bias of the distance between two tokens, from the first layer's table; nothing elsewhere."""
        if self.kind != "t5":
            return 0.0
        config = self.backbone.config
        half = config.relative_attention_num_buckets // 2
        alone, distance = half // 2, abs(j - i)  # so many near distances have a bucket each
        bucket = distance
        if distance >= alone:
            share = math.log(distance / alone) / math.log(config.relative_attention_max_distance / alone)
            bucket = min(alone + int(share * (half - alone)), half - 1)
        table = self.backbone.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        return table[bucket + (half if j > i else 0), head]

    def pool(self, kind: str, layer: int, f: list[Tensor], learned: Any) -> Tensor:
        """Eq. 8 and what stands in its place: tokens before the layer's last norm become one vector."""
        module, site = self.part(layer, "feed_forward_norm")
        gain = module.weight if site is None else (1 + self.fused(site.gain)) * module.weight
        normed = [self.norm(layer, "feed_forward_norm", x) for x in f]
        if kind == "average":
            return sum(normed[1:], normed[0]) / len(normed)
        if kind == "max":
            return torch.stack([max(column) for column in torch.stack(normed).T])
        if kind == "lnap":
            scores = [self.standardised(module, x) @ gain for x in f]
        else:
            scores = [learned.v @ torch.tanh(learned.W_h @ x + learned.b) for x in normed]
        return weighted(softmax(scores), normed)


# Models and batches


def make_backbone(family: str) -> PreTrainedModel:
    """Three layers, so that summaries are handed on twice, and weights large enough to matter."""
    config = tiny_config(family)
    config.num_hidden_layers = LAYERS
    if family == "modernbert":
        config.layer_types = ["full_attention", "sliding_attention", "full_attention"]
    backbone = build_backbone(config)
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return backbone


def make_model(config: MethodConfig, *, family: str = "bert", M: int = 2, chunk: int | None = WINDOW) -> AttributeModel:
    """A model in float64 whose method has random numbers in every parameter, row 0 of the tables among them."""
    task = Classification(classes=3)
    model = AttributeModel.build(make_backbone(family), make_schema(M), task=task, method=config, chunk=chunk)
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter))
    return exactly(model.eval())


def attributes(M: int = 2) -> Tensor:
    """Of three documents: several values, none at all, several of which some are missing."""
    return make_batch(M, rows=(0, 1, 2))["attribute_ids"]


def observe(model: AttributeModel, **batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Last states (B, T, H), document vectors (B, H) and logits."""
    seen: dict[str, Tensor] = {}
    hooks = [
        model.backbone.register_forward_hook(lambda _m, _a, out: seen.update(states=out.last_hidden_state)),
        model.head.register_forward_pre_hook(lambda _m, args: seen.update(vectors=args[0])),
    ]
    logits = model(**batch).logits
    for hook in hooks:
        hook.remove()
    return seen["states"].reshape(len(logits), -1, seen["states"].shape[-1]), seen["vectors"], logits


def check(
    config: MethodConfig,
    *,
    family: str = "bert",
    M: int = 2,
    chunk: int | None = WINDOW,
    lengths: Sequence[int] = LENGTHS,
    compare: Callable[[Tensor, Tensor], None] = assert_same,
) -> None:
    """Last states, document vectors and logits are those of the slow encoder."""
    model, documents, ids = make_model(config, family=family, M=M, chunk=chunk), make_documents(lengths), attributes(M)
    with torch.no_grad():
        states, vectors, logits = observe(model, attribute_ids=ids, **padded(documents))
        slow, found, expected = Slow(model), [], []
        for row, document in enumerate(documents):
            wanted, vector = slow.document(document, ids[row].tolist())
            found += [*states[row, : len(document)], vectors[row], logits[row]]
            expected += [*wanted, vector, model.head.weight @ vector + model.head.bias]
        compare(torch.cat(found), torch.cat(expected))


# The functions


def slow_norm_and_score(
    f: list[float], gain: list[float], bias: list[float], *, centred: bool
) -> tuple[list[float], float]:
    """Eq. 4 and the score of eq. 8 for one token."""
    mean = sum(f) / len(f) if centred else 0.0
    std = math.sqrt(sum((x - mean) ** 2 for x in f) / len(f))
    score = sum((x - mean) / std * g for x, g in zip(f, gain, strict=True))
    return [(x - mean) / std * g + b for x, g, b in zip(f, gain, bias, strict=True)], score


MASK = [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1], [1, 0, 1, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize("centred", [True, False])
def test_layer_norm_pool(centred: bool) -> None:
    """With a bias as in LayerNorm, and without mean and bias as in RMSNorm."""
    H, mask = 9, torch.tensor(MASK)
    B, T = mask.shape
    f, gain, bias = draw(B, T, H).tolist(), draw(H).tolist(), draw(H).tolist() if centred else [0.0] * H
    expected, normed = torch.zeros(B, H, dtype=torch.float64), torch.empty(B, T, H, dtype=torch.float64)
    for b in range(B):
        powers = []
        for t in range(T):
            state, score = slow_norm_and_score(f[b][t], gain, bias, centred=centred)
            normed[b, t] = torch.tensor(state, dtype=torch.float64)
            powers.append(math.exp(score) * MASK[b][t])
        for t, h in itertools.product(range(T), range(H)):
            expected[b, h] += powers[t] / (sum(powers) or 1) * float(normed[b, t, h])
    found = functional.layer_norm_pool(normed, mask)
    assert_same(found, expected)
    assert torch.equal(found, functional.layer_norm_pool(normed, mask.bool()))
    assert not found[5].any()


def test_attention_of_chunks_and_summaries() -> None:
    """Equations 1 to 3 with structured text: a token reads the tokens of its chunk and the summaries of all chunks."""
    C, W, heads, d = 3, 4, 2, 5
    Q, K, V = draw(3, C, heads, W, d)
    K_s, V_s = draw(2, C, heads * d)

    def attention(share: Callable[[Tensor], Tensor]) -> Tensor:
        keys, values = (functional.structure_enhanced(h, share(s)) for h, s in ((K, K_s), (V, V_s)))
        return nn.functional.scaled_dot_product_attention(Q, keys, values)

    found = attention(partial(functional.shared_summaries, C=C))
    for c, head, w in itertools.product(range(C), range(heads), range(W)):
        of_head = slice(head * d, (head + 1) * d)
        read = [*K[c, head], *(summary[of_head] for summary in K_s)]
        summed = [*V[c, head], *(summary[of_head] for summary in V_s)]
        a = softmax([Q[c, head, w] @ key / math.sqrt(d) for key in read])
        assert_same(found[c, head, w], weighted(a, summed))
    assert_apart(found, attention(lambda s: s.unsqueeze(1).expand(-1, C, -1)))


def test_max_tokens() -> None:
    hidden = draw(6, 5, 4) - 3
    found = functional.max_tokens(hidden, torch.tensor(MASK))
    for b, h in itertools.product(range(6), range(4)):
        assert float(found[b, h]) == max((float(hidden[b, t, h]) for t in range(5) if MASK[b][t]), default=0.0)


# The whole path on BERT

POOLINGS = ("lnap", "average", "max", "attention")


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("document", POOLINGS)
@pytest.mark.parametrize("summary", POOLINGS)
def test_poolings(summary: Any, document: Any) -> None:
    check(E2ln(vector_sizes=SIZES[:2], summary_pooling=summary, document_pooling=document))


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("document", POOLINGS)
def test_without_structured_text(document: Any) -> None:
    check(E2ln(vector_sizes=SIZES[:2], structured_text=False, document_pooling=document))


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("bias_terms", NORMS)
@pytest.mark.parametrize("norms", NORMS)
def test_places(norms: Any, bias_terms: Any) -> None:
    check(E2ln(vector_sizes=SIZES[:2], norms=norms, bias_terms=bias_terms))


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("layers", [(1,), (3,), (1, 3)])
def test_some_layers(layers: tuple[int, ...]) -> None:
    check(E2ln(vector_size=5, norms="both", bias_terms="both", layers=layers))


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("fusion", ["linear", "mlp", "addition", "weighted"])
@pytest.mark.parametrize("M", [1, 2, 4])
def test_fusions(M: int, fusion: Any) -> None:
    sizes = SIZES[:M] if fusion in ("linear", "mlp") else (48,) * M
    check(E2ln(vector_sizes=sizes, norms="both", fusion=fusion), M=M)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize(
    ("chunk", "lengths"),
    [
        (None, (17, 3, 14)),
        (30, (17, 3, 14)),
        (17, (17, 3, 14)),
        (16, (17, 3, 14)),
        (5, (1, 21, 6)),
        (7, (7, 7, 7)),
        (7, (21, 7, 1)),
        (1, (4, 2, 1)),
    ],
)
def test_chunks(chunk: int | None, lengths: tuple[int, ...]) -> None:
    """One chunk and many, whole and partly padded ones, and chunks without a token."""
    config = E2ln(vector_sizes=SIZES[:2], summary_pooling="lnap", norms="both", bias_terms="both")
    check(config, chunk=chunk, lengths=lengths)


@pytest.mark.usefixtures("exact")
def test_gradients() -> None:
    """Of a sum over all document vectors, for every parameter; id 0 contributes nothing, so it learns nothing."""
    model = make_model(E2ln(vector_sizes=SIZES[:2], norms="both", bias_terms="both", summary_pooling="attention"))
    documents, ids, weights = make_documents(LENGTHS), attributes(), draw(3, 48)

    def gradients(vectors: Tensor) -> dict[str, Tensor]:
        model.zero_grad()
        (weights * vectors).sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}

    slow = Slow(model)
    expected = gradients(torch.stack([slow.document(*row)[1] for row in zip(documents, ids.tolist(), strict=True)]))
    found = gradients(observe(model, attribute_ids=ids, **padded(documents))[1])
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert not any(found[f"method.personal.tables.{j}"][0].any() for j in range(2))


# Other families


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("settings", [{}, {"norms": "both", "bias_terms": "both"}, {"structured_text": False}])
@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "bert"])
def test_families(family: str, settings: dict[str, Any]) -> None:
    check(E2ln(vector_sizes=SIZES[:2], **settings), family=family)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("family", ["modernbert", "t5", "eurobert"])
def test_pre_norm_families(family: str, pooling: Any) -> None:
    """Chunks longer than the local window, the last ones with padding far from any token."""
    config = E2ln(vector_sizes=SIZES[:2], norms="feed_forward", summary_pooling=pooling, document_pooling=pooling)
    check(config, family=family, chunk=11, lengths=(13, 11, 1))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_norms_after_the_last_feed_forward_matter(family: str, pooling: Any) -> None:
    model = make_model(E2ln(vector_size=5, norms="feed_forward", document_pooling=pooling), family=family)
    batch = padded(make_documents(LENGTHS)) | {"attribute_ids": attributes()}
    model(**batch, labels=torch.tensor([0, 1, 2])).loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize("settings", [{"num_hidden_groups": 3}, {"inner_group_num": 2}])
def test_several_groups_of_shared_layers(settings: dict[str, int]) -> None:
    config = tiny_config("albert")
    config.update(settings)
    options: dict[str, Any] = {"task": Classification(classes=3), "method": E2ln(vector_size=5), "chunk": WINDOW}
    model = AttributeModel.build(build_backbone(config), make_schema(2), **options)
    assert model(attribute_ids=attributes(), **padded(make_documents(LENGTHS))).logits.isfinite().all()


# Planted mistakes


RIGHT = functional.layer_norm_pool
PLANTED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "the gain is missing in the scores": functional.mean_tokens,
    "padding has a weight": lambda normed, mask: RIGHT(normed, torch.ones_like(mask)),
    "the scores are twice as sharp": lambda normed, mask: RIGHT(2 * normed, mask) / 2,
}


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "layer_norm_pool", PLANTED[mistake])
    check(E2ln(vector_sizes=SIZES[:2]), compare=assert_apart)


@pytest.mark.usefixtures("exact")
def test_summaries_reach_the_layers() -> None:
    """In every document, that of one chunk reading its own; not so in published code, which clears them too early."""
    model, without = (make_model(E2ln(vector_sizes=SIZES[:2], structured_text=on)) for on in (True, False))
    without.load_state_dict(model.state_dict())
    batch = padded(make_documents(LENGTHS)) | {"attribute_ids": attributes()}
    found, separate = observe(model, **batch)[1], observe(without, **batch)[1]
    for row in range(3):
        assert_apart(found[row], separate[row])
    for layer in model.backbone.encoder.layer:
        layer.register_forward_pre_hook(lambda *_: model.method.holder.current.memory.clear())
    assert_same(observe(model, **batch)[1], separate)


# What chunks read, the start, checkpointing, batches


def test_a_chunk_reads_the_others() -> None:
    """A word at the end of a document changes the states at its beginning, of this document alone."""
    model = make_model(E2ln(vector_sizes=SIZES[:2]))
    documents, ids = make_documents(LENGTHS), attributes()
    before = observe(model, attribute_ids=ids, **padded(documents))[0]
    documents[0][-1] = 6 if documents[0][-1] == 5 else 5
    after = observe(model, attribute_ids=ids, **padded(documents))[0]
    assert bool((after[0, :WINDOW] != before[0, :WINDOW]).any(dim=-1).all())
    assert torch.equal(after[1, : LENGTHS[1]], before[1, : LENGTHS[1]])
    assert torch.equal(after[2, : LENGTHS[2]], before[2, : LENGTHS[2]])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("family", ["bert", "albert", "modernbert", "eurobert", "t5"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norms": "feed_forward"},
        {"norms": "both", "bias_terms": "both"},
        {"norms": "none", "bias_terms": "attention", "fusion": "mlp"},
        {"norms": "both", "fusion": "addition", "vector_size": 48},
        {"norms": "both", "fusion": "weighted", "vector_size": 48},
    ],
)
def test_starts_as_the_model_without_attributes(family: str, settings: dict[str, Any]) -> None:
    """To the last bit, so that the first step of training has the same loss."""
    model, without = (
        AttributeModel.build(
            tiny_backbone(family), make_schema(2), method=method, task=Classification(classes=3), chunk=WINDOW
        )
        for method in (E2ln(**{"vector_size": 5, **settings}), E2ln(norms="none", bias_terms="none"))
    )
    without.head.load_state_dict(model.head.state_dict())
    batch = padded(make_documents(LENGTHS)) | {"labels": torch.tensor([0, 2, 1])}
    for passes in (AttributeModel.eval, still):
        expected, found = passes(without)(**batch), passes(model)(**batch, attribute_ids=attributes())
        assert torch.equal(found.logits, expected.logits)
        assert torch.equal(found.loss, expected.loss)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "modernbert", "eurobert", "t5"])
def test_checkpointing_gives_the_same_gradients(family: str) -> None:
    """Over several chunks, also with two forward passes before one backward pass."""
    config = E2ln(vector_sizes=SIZES[:2], norms="both", bias_terms="attention", summary_pooling="attention")
    model, ids = still(make_model(config, family=family)), attributes()
    first = padded(make_documents(LENGTHS)) | {"attribute_ids": ids, "labels": torch.tensor([0, 1, 2])}
    other = padded(make_documents((9, 20, 5))) | {"attribute_ids": ids.flip(0), "labels": torch.tensor([2, 2, 0])}

    def gradients(*batches: dict[str, Tensor]) -> dict[str, Tensor]:
        model.zero_grad()
        sum(number * model(**batch).loss for number, batch in enumerate(batches, 1)).backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected = gradients(first), gradients(first, other)
    model.activation_checkpointing_enable()
    # Logits, and states inside some backbones, are in float32.
    torch.testing.assert_close((gradients(first), gradients(first, other)), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_document_is_read_alike_in_every_batch(family: str) -> None:
    """Documents of several chunks, and of one."""
    config = E2ln(vector_sizes=SIZES[:2], norms="both", summary_pooling="lnap", document_pooling="attention")
    model = make_model(config, family=family)
    for lengths in ((17, 3, 14), (5, 3, 1)):
        assert_read_alike(lambda **batch: observe(model, **batch)[1], make_documents(lengths), attributes())


# In a sum


def test_in_a_sum_with_an_adapter() -> None:
    """Beside an adapter that does nothing it is itself."""
    alone = make_model(E2ln(vector_sizes=SIZES[:2]))
    both = make_model(Combined(parts=(E2ln(vector_sizes=SIZES[:2]), Adapter(bottleneck=5))))
    method, adapter = both.method.parts
    adapter.load_state_dict({name: torch.zeros_like(x) for name, x in adapter.state_dict().items()})
    for mine, other in ((method, alone.method), (both.backbone, alone.backbone)):
        mine.load_state_dict(other.state_dict())
    batch = padded(make_documents(LENGTHS)) | {"attribute_ids": attributes()}
    assert_same(observe(both, **batch)[1], observe(alone, **batch)[1])


@pytest.mark.parametrize("structured_text", [True, False])
def test_in_a_sum_with_tokens(structured_text: bool) -> None:
    """Padding that makes one chunk more, without a token of the text, changes nothing."""
    e2ln = E2ln(vector_sizes=SIZES[:2], structured_text=structured_text)
    model, documents = make_model(Combined(parts=(e2ln, Tokens()))), make_documents(LENGTHS)
    expected = observe(model, attribute_ids=attributes(), **padded(documents))[1]
    assert_same(observe(model, attribute_ids=attributes(), **padded(documents, more=WINDOW))[1], expected)
