"""The vectors of an attribute's values, by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from tiny_models import make_batch, make_model

from attribune import AttribuneError, AttributeModel, Injector, Plain, Upa
from attribune.models.value_tables import AttributeVectors


@pytest.fixture
def model() -> AttributeModel:
    model = make_model("bert", Injector(bottleneck=8, vector_size=8), attributes=2)
    with torch.no_grad():
        for parameter in model.method.parameters():
            parameter.normal_(std=0.3)
    return model


def logits(model: AttributeModel) -> torch.Tensor:
    with torch.no_grad():
        return model(**make_batch(2)).logits


def test_a_value_with_the_vector_of_another_is_read_as_it(model: AttributeModel) -> None:
    vectors = model.attribute_vectors("user")
    assert list(vectors) == list(model.schema["user"].values)
    assert len(vectors) == 5
    assert vectors["v0"].shape == (vectors.size,)
    np.testing.assert_array_equal(vectors["v3"], model.values.vectors("user", count=5)[list(vectors).index("v3")])

    before, batch = logits(model), make_batch(2)
    column = model.schema["user"].columns
    swap = {1: 2, 2: 1}
    batch["attribute_ids"][:, column].apply_(lambda id_: swap.get(id_, id_))
    with torch.no_grad():
        swapped = model(**batch).logits
    first, second = list(vectors)[:2]
    vectors.load(pd.DataFrame([vectors[second], vectors[first]], index=[first, second]))
    torch.testing.assert_close(logits(model), swapped)
    assert not torch.allclose(before, swapped, atol=1e-4)


def test_they_go_through_a_frame_and_a_file(model: AttributeModel, tmp_path: Any) -> None:
    vectors = model.attribute_vectors("tags")
    frame = vectors.to_pandas()
    assert frame.index.name == "tags"
    assert frame.shape == (5, vectors.size)
    assert repr(vectors) == f"<vectors of 5 values of 'tags', {vectors.size} numbers each>"
    vectors["v1"] = np.zeros(vectors.size)
    assert not vectors["v1"].any()
    assert vectors.get("v1") is not None
    assert vectors.get("none") is None
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    tables = [stored[name] for name, of in model.values.owners().items() if of == "tags"]
    assert not any(table[model.schema["tags"].values.ids(["v1"])[0]].any() for table in tables)
    vectors.load(frame[::-1])
    np.testing.assert_array_equal(vectors.to_pandas(), frame)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda v: v["nobody"], "does not know the value 'nobody' of 'user'"),
        (lambda v: v[None], "does not know the value None"),
        (lambda v: v.__setitem__("v0", [1.0]), "the vector of 'v0' has the shape"),
        (lambda v: v.__setitem__("v0", "x"), "not a number"),
        (lambda v: v.__setitem__("v0", [np.nan] * v.size), "finite numbers"),
        (lambda v: v.load(5), "give a DataFrame"),
        (lambda v: v.load(pd.concat([v.to_pandas()] * 2)), "has several rows"),
        (lambda v: v.load(v.to_pandas().iloc[:2].set_axis(["v3 ", "v3"])), "the value 'v3' has several rows"),
        (lambda v: v.load(v.to_pandas().rename({"v0": "w"})), "does not know the value 'w'"),
        (lambda v: v.load(v.to_pandas()[[0]]), "numbers for a value"),
    ],
)
def test_what_is_no_vector_is_refused(
    model: AttributeModel, call: Callable[[AttributeVectors], Any], message: str
) -> None:
    vectors = model.attribute_vectors("user")
    before = vectors.to_pandas()
    with pytest.raises(AttribuneError, match=message):
        call(vectors)
    pd.testing.assert_frame_equal(vectors.to_pandas(), before)


def test_an_attribute_without_vectors_is_refused(model: AttributeModel) -> None:
    with pytest.raises(AttribuneError, match="no attribute 'usr'"):
        model.attribute_vectors("usr")
    with pytest.raises(AttribuneError, match="no vectors of their own under the method 'none'"):
        make_model("bert", Plain()).attribute_vectors("user")
    assert len(make_model("bert", Upa()).attribute_vectors("user")) == 5
