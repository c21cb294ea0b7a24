"""Shapes are checked in every call of these tests, and the table of symbols says what the functions say."""

from __future__ import annotations

import copy
import inspect
import re
import subprocess
import sys

import pytest
import torch
from jaxtyping import TypeCheckError

from attribune import functional
from attribune.methods.condition import Values

U, B, Z, A, H = 2, 5, 3, 7, 11


def test_vectors_of_the_distinct_values_do_not_pass_for_those_of_the_rows() -> None:
    """One value in all would be broadcast over the rows in silence."""
    output, x = torch.randn(B, 13, 17), torch.randn(B, 13, 11)
    weights = torch.randn(2, 11), torch.randn(2, Z), torch.randn(17, 2)
    functional.personalised_low_rank(output, x, torch.randn(B, Z), *weights, scale=1.0)
    with pytest.raises(TypeCheckError, match="a: Float"):
        functional.personalised_low_rank(output, x, torch.randn(1, Z), *weights, scale=1.0)


def test_a_row_of_gains_does_not_pass_for_one_of_each_row() -> None:
    normed, change = torch.randn(B, 13, H), torch.randn(B, H)
    functional.personalised_norm(normed, None, change, change)
    with pytest.raises(TypeCheckError):
        functional.personalised_norm(normed, None, change, change[:1])


def test_a_transposed_matrix_is_refused_where_it_would_fit() -> None:
    with pytest.raises(TypeCheckError):
        functional.attribute_bias(torch.randn(U, Z), torch.ones(B, U), torch.randn(Z, A).T.unsqueeze(0), torch.zeros(A))


def test_values_of_another_batch_are_refused() -> None:
    vectors = torch.randn(U, Z)
    values = Values(ids=torch.arange(U), membership=torch.ones(B, U), vectors=vectors)
    assert copy.deepcopy(values).vectors.equal(vectors)
    with pytest.raises(TypeCheckError):
        Values(ids=torch.arange(U), membership=torch.ones(B, U), vectors=torch.randn(1, Z))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_programs_are_not_checked() -> None:
    program = (
        "import sys, torch; from attribune import functional; "
        "h = torch.ones(3, 2, 4); out = functional.personalised_norm(h, None, torch.ones(1, 4), torch.ones(1, 4)); "
        "print(out.shape[0], 'beartype' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["3", "False"]


def symbols() -> list[tuple[str, str, str]]:
    """Function, parameter and shape of each parameter in the table."""
    rows = []
    for line in (functional.__doc__ or "").splitlines():
        if line.startswith("| `"):
            functions, parameters, shapes, _ = (cell.strip() for cell in line.strip("|").split(" | "))
            names = re.findall(r"`(\w+)`", parameters)
            pairs = list(zip(names, shapes.split(", "), strict=True))
            rows += [(function, *pair) for function in re.findall(r"`(\w+)`", functions) for pair in pairs]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(("function", "parameter", "shape"), symbols())
def test_the_table_of_symbols_has_the_shapes_of_the_functions(function: str, parameter: str, shape: str) -> None:
    annotation = str(inspect.signature(getattr(functional, function)).parameters[parameter].annotation)
    found = re.search(r"Tensor, ['\"](.+?)['\"]", annotation)
    assert found is not None
    assert found[1].strip() == shape


def test_the_table_of_symbols_has_every_matrix() -> None:
    states = {"h", "x", "p", "g", "z", "membership", "output", "delta", "hidden", "normed", "attention_mask", "T"}
    states |= {"attention", "values", "present", "embeddings", "a", "c", "norm", "inner", "after_first"}
    states |= {"f", "hidden_mean", "left_out", "s", "u", "mask"}
    listed = {(function, parameter) for function, parameter, _ in symbols()}
    for name in set(functional.__all__) - {"Activation", "projected_adapter"}:
        for parameter, found in inspect.signature(getattr(functional, name)).parameters.items():
            if "Tensor" in str(found.annotation) and parameter not in states and parameter not in ("b_up", "W_up"):
                assert (name, parameter) in listed
