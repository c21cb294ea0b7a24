"""The network of `automl` in float64 against loops written from its description, and FTRL against its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from attribune_lab.automl.model import NetworkSettings, SparseRows, WordNetwork
from attribune_lab.automl.search import FTRL, network_space

Array = npt.NDArray[np.float64]

WORDS, SIZE, FEATURES, OUTPUTS = 11, 5, 13, 3
TEXTS = [[2, 7, 3, 9, 4, 2, 8], [], [5], [10, 6], [3, 3, 1]]
OTHERS = [[4], [2, 9], [], [5, 6, 7, 8], [10, 2]]
ROWS = [{0: 0.5, 7: -1.25}, {}, {12: 2.0}, {1: 0.75, 7: 0.25, 11: -0.5}, {3: 1.0}]

FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.2 * x),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}
EPSILON = 1e-5


def settings_of(**changes: Any) -> NetworkSettings:
    values = {
        name: choices[0] if isinstance(choices, list) else choices.low for name, choices in network_space([]).items()
    }
    small = {"filters": 4, "hidden_layers": 2, "hidden_size": 7, "normalization": "batch_norm", "max_ngram": 3}
    return NetworkSettings.from_dict(values | small | changes)


def network_of(settings: NetworkSettings, *, is_pair: bool = False) -> WordNetwork:
    """A network in float64 whose every number is drawn, the statistics of batch norms too."""
    network = WordNetwork(
        settings, vectors=torch.zeros(WORDS, SIZE), features=FEATURES, outputs=OUTPUTS, is_pair=is_pair
    ).double()
    random = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                numbers = torch.randn(tensor.shape, generator=random, dtype=torch.float64)
                tensor.copy_(numbers.exp() if name.endswith("running_var") else numbers)
        network.embedding.weight[0] = 0
    return network.eval()


def ids_of(texts: list[list[int]]) -> Tensor:
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    return ids


def sparse_rows() -> SparseRows:
    return SparseRows(
        columns=torch.tensor([column for row in ROWS for column in row]),
        starts=torch.tensor(np.cumsum([0, *map(len, ROWS[:-1])])),
        values=torch.tensor([value for row in ROWS for value in row.values()], dtype=torch.float64),
    )


def batch_norm(x: Array, tensors: dict[str, Array], name: str) -> Array:
    scale = tensors[f"{name}.weight"] / np.sqrt(tensors[f"{name}.running_var"] + EPSILON)
    return (x - tensors[f"{name}.running_mean"]) * scale + tensors[f"{name}.bias"]


def layer_norm(x: Array, tensors: dict[str, Array], name: str) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + EPSILON) * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def encoded(text: list[int], settings: NetworkSettings, tensors: dict[str, Array]) -> Array:
    """The vector of one text."""
    words = [tensors["embedding.weight"][word] for word in text]
    if not settings.convolution:
        return sum(words, np.zeros(SIZE)) / math.sqrt(max(1, len(text)))
    f = FUNCTIONS[settings.convolution_activation]
    vector = np.zeros((settings.max_ngram, settings.filters))
    for n in range(1, settings.max_ngram + 1):
        for filter_ in range(settings.filters):
            values = []
            for start in range(len(text)):
                window = words[start : start + n] + [np.zeros(SIZE)] * (start + n - len(text))
                value = tensors["convolution.bias"][n - 1, filter_]
                for k in range(n):
                    value = value + tensors["convolution.weight"][n * (n - 1) // 2 + k, filter_] @ window[k]
                if settings.convolution_batch_norm:
                    one = {
                        name: array[..., filter_]
                        for name, array in tensors.items()
                        if name.startswith(f"convolution.norms.{n - 1}.") and array.ndim
                    }
                    value = batch_norm(value, one, f"convolution.norms.{n - 1}")
                values.append(f(value))
            vector[n - 1, filter_] = max(values, default=0.0)
    return vector.reshape(-1)


def expected(settings: NetworkSettings, tensors: dict[str, Array], *, is_pair: bool = False) -> Array:
    logits = np.zeros((len(TEXTS), OUTPUTS))
    for row, text in enumerate(TEXTS):
        x = encoded(text, settings, tensors)
        if is_pair:
            y = encoded(OTHERS[row], settings, tensors)
            x = np.concatenate([x, y, np.abs(x - y), x * y])
        for layer in range(settings.hidden_layers):
            x = tensors[f"hidden.{layer}.weight"] @ x + tensors[f"hidden.{layer}.bias"]
            if settings.normalization != "none":
                norm = batch_norm if settings.normalization == "batch_norm" else layer_norm
                x = norm(x, tensors, f"norms.{layer}")
            x = FUNCTIONS[settings.activation](x)
        logits[row] = tensors["output.weight"] @ x + tensors["output.bias"]
        for column, value in ROWS[row].items():
            logits[row] += value * tensors["wide"][column]
    return logits


CASES: dict[str, dict[str, Any]] = {
    "every norm": {"convolution_batch_norm": True},
    "no norm": {"convolution_batch_norm": False, "normalization": "none", "max_ngram": 2},
    "layer norm": {"normalization": "layer_norm", "hidden_layers": 1},
    "pooled words": {"convolution": False},
    "no hidden layer": {"convolution": False, "hidden_layers": 0},
    **{name: {"convolution_activation": name, "activation": name} for name in FUNCTIONS},
}


def logits_of(network: WordNetwork, *, padding: int = 0) -> Array:
    texts = [TEXTS, OTHERS] if network.is_pair else [TEXTS]
    ids = tuple(torch.nn.functional.pad(ids_of(text), (0, padding)) for text in texts)
    with torch.no_grad():
        return network(ids, sparse_rows()).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_network_is_that_of_the_description(case: str, is_pair: bool) -> None:
    settings = settings_of(**CASES[case])
    network = network_of(settings, is_pair=is_pair)
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    found = logits_of(network)
    np.testing.assert_allclose(found, expected(settings, tensors, is_pair=is_pair), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(logits_of(network, padding=4), found, rtol=1e-13)


def test_a_planted_mistake_is_found() -> None:
    settings = settings_of(**CASES["every norm"])
    network = network_of(settings)
    tensors = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
    right = expected(settings, tensors)
    weight = tensors["convolution.weight"].copy()
    for name, wrong in {
        "the order within a trigram": {"convolution.weight": weight[[0, 1, 2, 5, 4, 3]]},
        "the bias of another length": {"convolution.bias": tensors["convolution.bias"][::-1]},
        "mean and bias of a norm": {"norms.1.running_mean": tensors["norms.1.bias"]},
        "the features of another row": {"wide": tensors["wide"][::-1]},
    }.items():
        assert not np.allclose(expected(settings, tensors | wrong), right, rtol=1e-6), name


def test_batch_norm_in_training_counts_real_windows_alone() -> None:
    """Statistics, and with them logits, do not depend on the padding of a batch, and a lone window is no error."""
    settings = settings_of(convolution_batch_norm=True, convolution_dropout=0.0, embedding_dropout=0.0, dropout=0.0)
    networks = [network_of(settings).train() for _ in range(2)]
    logits = [logits_of(network, padding=padding) for network, padding in zip(networks, (0, 5), strict=True)]
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-12)
    states = [dict(network.named_buffers()) for network in networks]
    for name, buffer in states[0].items():
        torch.testing.assert_close(states[1][name], buffer, rtol=1e-12, atol=0)
    network = network_of(settings).train()
    network((torch.tensor([[2], [0]]),), SparseRows(torch.tensor([0]), torch.tensor([0, 1]), torch.ones(1).double()))


def test_ftrl_is_its_formula() -> None:
    """Against algorithm 1 of McMahan et al. 2013 number by number; rows without gradient are left alone."""
    random = np.random.default_rng(0)
    rate, l1, rows, columns = 0.3, 0.4, 5, 2
    weight = torch.zeros(rows, columns, dtype=torch.float64, requires_grad=True)
    optimizer = FTRL([weight], rate=rate, l1=l1)
    w, z, n = np.zeros((rows, columns)), np.zeros((rows, columns)), np.full((rows, columns), 0.1)
    zeros = 0
    for _ in range(40):
        seen = random.permutation(rows)[:3]
        g = random.normal(size=(3, columns))
        weight.grad = torch.sparse_coo_tensor(seen[None], g, (rows, columns), check_invariants=True)
        optimizer.step()
        for place, row in enumerate(seen):
            for column in range(columns):
                gradient = g[place, column]
                sigma = (math.sqrt(n[row, column] + gradient**2) - math.sqrt(n[row, column])) / rate
                z[row, column] += gradient - sigma * w[row, column]
                n[row, column] += gradient**2
                value = z[row, column]
                w[row, column] = 0.0
                if abs(value) > l1:
                    w[row, column] = -(value - math.copysign(l1, value)) / (math.sqrt(n[row, column]) / rate)
        np.testing.assert_allclose(weight.detach().numpy(), w, rtol=1e-12)
        zeros += int((w == 0).sum())
    assert 0 < zeros < 40 * rows * columns, "the penalty makes some weights 0"
