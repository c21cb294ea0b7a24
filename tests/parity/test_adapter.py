"""The adapter against loops written from Houlsby et al. 2019, section 2.1, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from families import tiny_backbone
from hosts import make_host
from layer_parts import states_of, states_of_backbone
from slow_layers import assert_apart, assert_same, draw, gelu, slow_norm
from tiny_models import at_random, exactly, make_batch, make_model
from torch import Tensor
from torch.nn.functional import relu

from attribune import functional
from attribune.methods import Adapter
from attribune.methods.adapter import AdapterSite
from attribune.methods.condition import Condition


def slow_adapter(
    h: Tensor, W_down: Tensor, b_down: Tensor, W_up: Tensor, b_up: Tensor, f: Callable[[float], float] = gelu
) -> Tensor:
    """Project d features to m, apply the non-linearity, project back, add the input: token by token."""
    d, m = W_down.shape
    h_, down, up = h.tolist(), W_down.tolist(), W_up.tolist()
    b_down_, b_up_ = b_down.tolist(), b_up.tolist()
    result = torch.empty_like(h)
    for b in range(h.shape[0]):
        for t in range(h.shape[1]):
            inner = [f(b_down_[a] + sum(h_[b][t][i] * down[i][a] for i in range(d))) for a in range(m)]
            for i in range(d):
                result[b, t, i] = h_[b][t][i] + b_up_[i] + sum(inner[a] * up[a][i] for a in range(m))
    return result


def parameters(H: int, A: int) -> dict[str, Tensor]:
    shapes = {"W_down": (H, A), "b_down": (A,), "W_up": (A, H), "b_up": (H,)}
    return {name: 0.7 * draw(*shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("groups", [[(0, 7)], [(2, 1), (0, 4), (1, 2)], [(1, 3), (0, 2), (1, 2)]])
def test_groups_of_rows_have_an_adapter_each(groups: list[tuple[int, int]]) -> None:
    h, weights = draw(7, 5, 13), [parameters(13, 4) for _ in range(3)]
    ends = [sum(size for _, size in groups[: place + 1]) for place in range(len(groups))]
    rows = [(number, slice(end - size, end)) for (number, size), end in zip(groups, ends, strict=True)]
    together = {name: torch.stack([one[name] for one in weights]) for name in weights[0]}
    found = h + functional.grouped_bottleneck(h, rows, **together)
    expected = torch.cat([slow_adapter(h[part], **weights[number]) for number, part in rows])
    assert_same(found, expected)


@pytest.mark.parametrize(("H", "A"), [(48, 8), (13, 5), (5, 13), (7, 7), (3, 1)])
def test_function(H: int, A: int) -> None:
    h, weights = draw(3, 5, H), parameters(H, A)
    assert_same(functional.adapter(h, **weights), slow_adapter(h, **weights))


def test_another_activation() -> None:
    h, weights = draw(2, 3, 11), parameters(11, 7)
    expected = slow_adapter(h, **weights, f=lambda x: max(x, 0.0))
    assert_same(functional.adapter(h, **weights, f=relu), expected)
    assert_apart(functional.adapter(h, **weights), expected)


# The extensions of section 3.6


def slow_linear(x: list[float], W: list[list[float]], b: list[float]) -> list[float]:
    return [b[j] + sum(x[i] * W[i][j] for i in range(len(x))) for j in range(len(b))]


def slow_bottleneck(x: list[float], parameters: dict[str, Any], f: Callable[[float], float]) -> list[float]:
    """Down, perhaps a LayerNorm, the non-linearity, perhaps further maps each with the non-linearity, up."""
    u = slow_linear(x, parameters["W_down"], parameters["b_down"])
    if "norm.weight" in parameters:
        u = slow_norm(u, parameters["norm.weight"], parameters["norm.bias"], eps=1e-5)
    u = [f(number) for number in u]
    for k in range(0, 10, 2):
        if f"inner.{k}" in parameters:
            u = [f(number) for number in slow_linear(u, parameters[f"inner.{k}"], parameters[f"inner.{k + 1}"])]
    return slow_linear(u, parameters["W_up"], parameters["b_up"])


SLOW: dict[str, Callable[[float], float]] = {
    "gelu": gelu,
    "relu": lambda x: max(x, 0.0),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "tanh": math.tanh,
}
EXTENSIONS = [
    Adapter(bottleneck=5, **options)
    for options in (
        *({"activation": name} for name in SLOW),
        {"inner_norm": True},
        {"layers": 2},
        {"layers": 3, "inner_norm": True, "activation": "tanh"},
        {"sites": "attention"},
        {"sites": "feed_forward", "layers": 2},
    )
]


@pytest.mark.parametrize("config", EXTENSIONS, ids=str)
def test_extensions(config: Adapter) -> None:
    method = at_random(config.build(make_host(hidden=7, sites=4, slots=(), outputs=2)).double())
    kinds = ("attention", "feed_forward") if config.sites == "both" else (config.sites,)
    assert [site.kind for site in method.acts_at] == [kind for kind in kinds for _ in range(2)]
    h = draw(2, 3, 7)
    for site in method.sites:
        parameters = {name: parameter.tolist() for name, parameter in site.named_parameters()}
        assert len(parameters) == 4 + 2 * config.inner_norm + 2 * (config.layers - 1)
        added = [[slow_bottleneck(x, parameters, SLOW[config.activation]) for x in row] for row in h.tolist()]
        assert_same(site(h), h + torch.tensor(added, dtype=torch.float64))


# Batch normalization, extension (i)


def slow_batch_norm(
    rows: list[list[float]], gain: list[float], bias: list[float], eps: float = 1e-5
) -> tuple[list[list[float]], list[float], list[float]]:
    """Each number less its mean over all tokens, by its standard deviation; also the mean and n/(n - 1) variance."""
    n, means, variances = len(rows), [], []
    result = [[0.0] * len(gain) for _ in rows]
    for a in range(len(gain)):
        column = [row[a] for row in rows]
        mean = sum(column) / n
        squares = sum((number - mean) ** 2 for number in column)
        for place, number in enumerate(column):
            result[place][a] = gain[a] * (number - mean) / math.sqrt(squares / n + eps) + bias[a]
        means.append(mean)
        variances.append(squares / max(n - 1, 1))
    return result, means, variances


def batch_norm_site(hidden: int, bottleneck: int) -> AdapterSite:
    config = Adapter(bottleneck=bottleneck, inner_norm="batch")
    method = config.build(make_host(hidden=hidden, sites=1, slots=(), outputs=2)).double()
    return at_random(method).sites[0]


@pytest.mark.parametrize(("H", "A"), [(7, 5), (5, 1), (6, 6)])
def test_batch_norm_in_training_counts_real_tokens_alone(H: int, A: int) -> None:
    site, h = batch_norm_site(H, A).train(), draw(2, 4, H)
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    found = site(h, Condition(rows=2, token_mask=mask))
    parameters = {name: parameter.tolist() for name, parameter in site.named_parameters()}
    real = h[mask.bool()]
    down = [slow_linear(x, parameters["W_down"], parameters["b_down"]) for x in real.tolist()]
    normed, means, variances = slow_batch_norm(down, parameters["norm.weight"], parameters["norm.bias"])
    added = [slow_linear([gelu(u) for u in row], parameters["W_up"], parameters["b_up"]) for row in normed]
    assert_same(found[mask.bool()], real + torch.tensor(added, dtype=torch.float64))
    assert_same(site.norm.running_mean, 0.1 * torch.tensor(means, dtype=torch.float64))
    assert_same(site.norm.running_variance, 0.9 + 0.1 * torch.tensor(variances, dtype=torch.float64))
    assert_apart(site(h)[mask.bool()], found[mask.bool()], by=1e-4)


def test_batch_norm_after_training_has_the_running_averages() -> None:
    site, h = batch_norm_site(7, 5), draw(3, 4, 7)
    site.norm.running_mean.copy_(draw(5))
    site.norm.running_variance.copy_(draw(5).abs())
    before = [buffer.clone() for buffer in site.buffers()]
    found = site.eval()(h, Condition(rows=3, token_mask=torch.ones(3, 4)))
    parameters = {name: tensor.tolist() for name, tensor in site.state_dict().items()}
    expected = []
    for x in h.flatten(0, 1).tolist():
        u = slow_linear(x, parameters["W_down"], parameters["b_down"])
        for a in range(5):
            scale = math.sqrt(parameters["norm.running_variance"][a] + 1e-5)
            shifted = (u[a] - parameters["norm.running_mean"][a]) / scale
            u[a] = gelu(parameters["norm.weight"][a] * shifted + parameters["norm.bias"][a])
        expected.append(slow_linear(u, parameters["W_up"], parameters["b_up"]))
    assert_same(found, h + torch.tensor(expected, dtype=torch.float64).view_as(h))
    assert all(torch.equal(buffer, old) for buffer, old in zip(site.buffers(), before, strict=True))
    assert_same(site(h[:1, :1]), found[:1, :1])


def test_batch_norm_of_one_token_is_its_bias() -> None:
    site, h = batch_norm_site(7, 5).train(), draw(1, 1, 7)
    expected = h + torch.nn.functional.gelu(site.norm.bias) @ site.W_up + site.b_up
    assert_same(site(h), expected)
    assert torch.isfinite(site.norm.running_variance).all()


def test_a_repeated_pass_does_not_move_the_running_averages() -> None:
    site, h = batch_norm_site(7, 5).train(), draw(2, 3, 7)
    condition = Condition(rows=2)
    first = site(h, condition)
    averages = [buffer.clone() for buffer in site.buffers()]
    assert_same(site(h, condition.again()), first)
    assert all(torch.equal(buffer, old) for buffer, old in zip(site.buffers(), averages, strict=True))


# Where the sub-layers of layer {} read, and the modules behind them; each written down here once more.
BESIDE = {
    "bert": {
        "encoder.layer.{}.attention.self.query": "encoder.layer.{}.attention.output.dropout",
        "encoder.layer.{}.intermediate.dense": "encoder.layer.{}.output.dropout",
    },
    "modernbert": {"layers.{}.attn.Wqkv": "layers.{}.attn.out_drop", "layers.{}.mlp.Wi": "layers.{}.mlp"},
    "gpt2": {"h.{}.attn.c_attn": "h.{}.attn.resid_dropout", "h.{}.mlp.c_fc": "h.{}.mlp.dropout"},
    "llama": {
        "layers.{}.self_attn.q_proj": "layers.{}.self_attn.o_proj",
        "layers.{}.mlp.gate_proj": "layers.{}.mlp",
    },
    "t5": {
        "encoder.block.{}.layer.0.SelfAttention.q": "encoder.block.{}.layer.0.dropout",
        "encoder.block.{}.layer.1.DenseReluDense.wi": "encoder.block.{}.layer.1.dropout",
    },
    "deberta-v2": {
        "encoder.layer.{}.attention.self.query_proj": "encoder.layer.{}.attention.output.dropout",
        "encoder.layer.{}.intermediate.dense": "encoder.layer.{}.output.dropout",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("joined", ["parallel", "multiplied"])
@pytest.mark.parametrize("family", BESIDE)
def test_beside_the_sub_layers(family: str, joined: str) -> None:
    """``h + d(x)`` or ``h (1 + d(x))``, where h is what the sub-layer makes of x."""
    model, batch = exactly(make_model(family, Adapter(bottleneck=3, joined=joined), tuning="frozen")), make_batch(2)
    at_random(model.method, size=0.3)
    backbone, read = exactly(tiny_backbone(family)), {}

    def remember(path: str, _module: Any, args: tuple[Any, ...]) -> None:
        if path not in read:  # DeBERTa calls its query again, on relative positions
            read[path] = args[0].tolist()

    def change(path: str, parameters: dict[str, Any], _module: Any, _args: Any, output: Tensor) -> Tensor:
        added = [[slow_bottleneck(x, parameters, gelu) for x in row] for row in read[path]]
        delta = torch.tensor(added, dtype=torch.float64)
        return output + delta if joined == "parallel" else output * (1 + delta)

    adapters = {site.path: module for site, module in zip(model.method.acts_at, model.method.sites, strict=True)}
    for layer in range(2):
        for source, place in BESIDE[family].items():
            path, behind = source.format(layer), place.format(layer)
            parameters = {name: parameter.tolist() for name, parameter in adapters[behind].named_parameters()}
            backbone.get_submodule(path).register_forward_pre_hook(partial(remember, path))
            backbone.get_submodule(behind).register_forward_hook(partial(change, path, parameters))
    real = batch["attention_mask"].bool()
    expected = states_of_backbone(backbone, batch)[real]
    assert_same(states_of(model, batch)[real], expected)
    assert_apart(states_of_backbone(exactly(tiny_backbone(family)), batch)[real], expected, by=1e-2)


def test_starts_near_the_identity() -> None:
    h = draw(4, 5, 48)
    for config in EXTENSIONS:
        site = config.build(make_host(hidden=48, sites=2, slots=(), outputs=2)).double().sites[0]
        assert 0 < float((site(h) - h).detach().abs().max()) < 0.2, config


@pytest.mark.parametrize(("H", "A"), [(48, 8), (13, 5), (11, 11)])
def test_module(H: int, A: int) -> None:
    """With A = H, so that a transposed weight passes every check of shapes; each site has parameters of its own."""
    method = at_random(Adapter(bottleneck=A).build(make_host(hidden=H, sites=3, slots=(), outputs=2)).double().eval())
    h = draw(2, 5, H)
    for site in method.sites:
        expected = slow_adapter(h, site.W_down, site.b_down, site.W_up, site.b_up)
        for found in (site(h), site(h, method.condition(None, rows=2))):
            assert_same(found, expected)
    assert len({site.W_down[0, 0].item() for site in method.sites}) == 3


PLANTED: dict[str, Callable[..., Tensor]] = {
    "no residual": lambda h, W_down, b_down, W_up, b_up, f: f(h @ W_down + b_down) @ W_up + b_up,
    "no bias down": lambda h, W_down, b_down, W_up, b_up, f: h + (f(h @ W_down) @ W_up + b_up),
    "no bias up": lambda h, W_down, b_down, W_up, b_up, f: h + f(h @ W_down + b_down) @ W_up,
    "no activation": lambda h, W_down, b_down, W_up, b_up, f: h + ((h @ W_down + b_down) @ W_up + b_up),
    "activation on the output": lambda h, W_down, b_down, W_up, b_up, f: h + f(f(h @ W_down + b_down) @ W_up + b_up),
    "transposed down": lambda h, W_down, b_down, W_up, b_up, f: h + (f(h @ W_down.T + b_down) @ W_up + b_up),
    "transposed up": lambda h, W_down, b_down, W_up, b_up, f: h + (f(h @ W_down + b_down) @ W_up.T + b_up),
    "tanh-approximated GELU": lambda h, W_down, b_down, W_up, b_up, f: (
        h + (torch.nn.functional.gelu(h @ W_down + b_down, approximate="tanh") @ W_up + b_up)
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_seen(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A = H, so that a transposed weight passes every check of shapes."""
    site = at_random(Adapter(bottleneck=11).build(make_host(hidden=11, sites=1, slots=(), outputs=2)).double()).sites[0]
    h = draw(3, 5, 11)
    monkeypatch.setattr(functional, "adapter", lambda *weights, **_: PLANTED[mistake](*weights))
    assert_apart(site(h), slow_adapter(h, site.W_down, site.b_down, site.W_up, site.b_up), by=1e-4)
