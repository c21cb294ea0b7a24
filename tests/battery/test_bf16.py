"""Every option of every method in bf16, with vectors of size one, as a model has them once it has learned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import lab_methods
import pytest
import torch
from families import HIDDEN, WORD_FAMILIES, tiny_backbone
from tiny_models import CLASSES, make_batch, make_schema

from attribune import functional
from attribune.backbones.families import placement_for
from attribune.functional import recurrent
from attribune.functional.recurrent import LSTMWeights
from attribune.methods import METHODS, MethodConfig
from attribune.methods.attribute_method import AttributeMethod
from attribune.models.half import HalfBackbone
from attribune.models.model import AttributeModel
from attribune.tasks import Classification

FAMILIES = ("bert", *WORD_FAMILIES)
SMALL: dict[str, Any] = {"bottleneck": 5, "attribute_dropout": 0.0, "dropout": 0.0, "size": HIDDEN, "inner": 59}
ONE_STACK = {"layers": 2}  # of the methods that have a stack of layers of their own, which can begin as the backbone's
BESIDE: dict[str, dict[str, Any]] = {
    "pln fusion=addition": {"vector_size": HIDDEN},
    "pln fusion=weighted": {"vector_size": HIDDEN},
    "pln norms=none": {"bias_terms": "both"},
    "e2ln fusion=addition": {"vector_size": HIDDEN},
    "e2ln fusion=weighted": {"vector_size": HIDDEN},
}
"""What further options a value of an option needs."""
NEEDS: dict[str, dict[str, Any]] = lab_methods.NEEDS | {"chim": {"projection": True}}
"""What methods need of backbones without pretraining."""


def values_of(annotation: Any) -> tuple[Any, ...]:
    """The values of an option that has few; nothing for numbers and names."""
    if annotation is bool:
        return (False, True)
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        return tuple(value for one in get_args(annotation) for value in values_of(one))
    if get_origin(annotation) is tuple:
        return tuple((value,) for value in values_of(get_args(annotation)[0]))
    return ()


def cases() -> Iterator[tuple[str, MethodConfig]]:
    """Each method as it is, then with each value of each option, and the Injectors of table 3 of their paper."""
    for name, kind in METHODS.items():
        known = kind.model_fields
        own = {option: value for option, value in SMALL.items() if option in known}
        own |= ONE_STACK if "layers" in known and known["layers"].annotation is int else {}
        yield name, kind(**own)
        for option, field in known.items():
            for value in values_of(field.annotation):
                case = f"{name} {option}={value[0] if isinstance(value, tuple) else value}"
                if value != field.default:
                    yield case, kind(**own, **{option: value}, **BESIDE.get(case, {}))
    for low_rank, phm, aggregation in product((True, False), (True, False), ("pre", "post")):
        case = f"injector table 3: low_rank={low_rank} phm={phm} {aggregation}"
        yield case, METHODS["injector"](bottleneck=5, low_rank=low_rank, phm=phm, aggregation=aggregation)


CASES = {
    name: config for name, config in cases() if any(config.refusal(placement_for(one)) is None for one in FAMILIES)
}


def model_of(config: MethodConfig, family: str | None = None) -> AttributeModel:
    """A model of the first family that the method acts in, whose attribute vectors are of size one."""
    family = family or next(one for one in FAMILIES if config.refusal(placement_for(one)) is None)
    options = {"chunk": 4} if config.name == "e2ln" else {}
    backbone = tiny_backbone(family, options=NEEDS.get(config.name, {}) if family in WORD_FAMILIES else {})
    torch.manual_seed(0)
    model = AttributeModel.build(
        backbone, make_schema(2), task=Classification(classes=CLASSES), method=config, dropout=0.0, **options
    )
    with torch.no_grad():
        for method in model.modules():
            for table in method.tables if isinstance(method, AttributeMethod) else ():
                table[1:].normal_()
    return model


def learn(model: AttributeModel, given: dict[str, Any]) -> None:
    """Take a few steps under autocast, after which no parameter of the method is zero that was not to stay it."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(learning, lr=0.01)
    model.train()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**given).loss
        loss.backward()
        assert all(bool(p.grad.isfinite().all()) for p in learning if p.grad is not None)
        optimizer.step()


def check(model: AttributeModel) -> None:
    """It learns in bf16, and its logits are float32 ones near those of float32.

    With gradients and without, under autocast and with the weights of the backbone in bf16.
    """
    given = make_batch(2) | {"labels": torch.tensor([0, 1, 2, 1])}
    learn(model, given)
    model.eval()
    with torch.no_grad():
        exact = model(**given).logits
    for has_gradients in (True, False):
        with torch.set_grad_enabled(has_gradients), torch.autocast("cpu", dtype=torch.bfloat16):
            found = model(**given).logits
        torch.testing.assert_close(found.detach(), exact, rtol=0.1, atol=0.2)
        assert found.dtype == torch.float32
    if HalfBackbone.is_possible(model):
        with torch.inference_mode(), HalfBackbone(model).in_place():
            found = model(**given).logits
        torch.testing.assert_close(found, exact, rtol=0.1, atol=0.2)
        assert found.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_option_learns_and_predicts_in_bf16(case: str) -> None:
    check(model_of(CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("family", WORD_FAMILIES)
def test_backbones_without_pretraining_learn_and_predict_in_bf16(family: str) -> None:
    check(model_of(METHODS["none"](), family))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_model_that_is_cast_whole_predicts(name: str) -> None:
    """As `half` and `bfloat16` of transformers leave it, without autocast; what is generated in float32 is cast."""
    given = make_batch(2)
    with torch.no_grad():
        model = model_of(CASES[name]).eval()
        exact = model(**given).logits
        for dtype in (torch.bfloat16, torch.float16):
            found = model.to(dtype)(**given).logits
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, exact, rtol=0.1, atol=0.2)


def test_every_kind_of_option_is_among_the_cases() -> None:
    assert {case.split()[0] for case in CASES} == set(METHODS)
    table_3 = {"aggregation=pre", "low_rank=False", "phm=False", "task_adapter=False", "arrangement=parallel"}
    assert {f"injector {option}" for option in table_3} | {
        "chim places=attention",
        "pln norms=none",
        "adapter inner_norm=batch",
    } <= set(CASES)


@pytest.mark.parametrize("padding", ["packed", "run"])
def test_where_there_is_no_bf16_lstm_autocast_computes_it_in_float32(
    padding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "_has_autocast_lstm", lambda: False)
    x, mask = torch.randn(3, 4, 5), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    shapes = ((12, 5), (12, 3), (12,), (12,))
    forward, backward = (LSTMWeights(*(torch.randn(shape, requires_grad=True) for shape in shapes)) for _ in range(2))
    expected = functional.bilstm(x, mask, forward, backward, padding=padding)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = functional.bilstm(x, mask, forward, backward, padding=padding)
        rounded = functional.bilstm(x.bfloat16(), mask, forward, backward, padding=padding)
    assert torch.equal(found, expected)
    assert rounded.dtype == torch.float32
    rounded.sum().backward()
    assert all(own.grad is not None and bool(own.grad.any()) for own in (*forward, *backward))
