"""Passes without gradients act by plan: the same numbers from few operations, and every change is noticed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import shape_checks
import torch
from families import FAMILIES, KIN, tiny_backbone, tiny_config
from tiny_models import at_random, exactly, make_batch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attribune.backbones.families import placement_for
from attribune.backbones.loading import build_backbone
from attribune.export.graph import make_program
from attribune.methods import Combined, E2ln, Injector, MethodConfig, Modulated, Plain, Pln, Plora, Prefix, generators
from attribune.methods.attribute_method import AttributeMethod
from attribune.methods.base import Ablation
from attribune.models import base
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

NAMES = ("user", "film", "genre", "day")
IDS = torch.tensor([[3, 1, 2, 1], [0, 2, 1, 5], [5, 0, 4, 0], [0, 0, 0, 0]])
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
LINEAR: dict[str, MethodConfig] = {
    "pln": Pln(vector_size=5),
    "pln everywhere": Pln(norms="both", bias_terms="both", vector_sizes=(5, 3)),
    "pln of one number": Pln(vector_size=1),
    "plora": Plora(rank=3, vector_size=5),
    "plora everywhere": Plora(rank=2, vector_size=4, target_modules=PROJECTIONS),
    "modulated": Modulated(rank=3, vector_size=5, first_layer=1),
    "modulated of one number": Modulated(rank=1, vector_size=1, target_modules=PROJECTIONS),
    "e2ln": E2ln(vector_size=6),
}
INJECTORS: dict[str, MethodConfig] = {
    "injector": Injector(bottleneck=6, vector_size=5, hypercomplex=2),
    "injector of one number": Injector(bottleneck=1, vector_size=1, hypercomplex=1),
    "injector without": Injector(bottleneck=3, vector_size=5, task_adapter=False, bias_injection=False),
    "injector in parallel": Injector(bottleneck=6, vector_size=5, hypercomplex=2, arrangement="parallel"),
    "parallel without": Injector(bottleneck=6, vector_size=5, arrangement="parallel", task_adapter=False),
    "injector in part": Injector(bottleneck=6, vector_size=5, hypercomplex=2, first_layer=1, aggregation="pre"),
}


def schema_of(attributes: int, *, values: int = 5) -> Schema:
    values = [f"v{i}" for i in range(values)]
    return Schema.fit(dict.fromkeys(NAMES, values), [Categorical(name) for name in NAMES[:attributes]])


def model_of(method: MethodConfig, *, family: str = "bert", attributes: int = 2, **options: Any) -> AttributeModel:
    """A model with random parameters, in which a missing value has the vector zero."""
    task = Classification(classes=3)
    model = AttributeModel.build(tiny_backbone(family), schema_of(attributes), task=task, method=method, **options)
    at_random(model.eval().method, size=0.5)
    for part in model.method.modules():
        if isinstance(part, AttributeMethod):
            with torch.no_grad():
                for table in part.tables:
                    table[0] = 0
    return model


def batch_of(attributes: int = 2, **options: Any) -> dict[str, Tensor]:
    return make_batch(2, **options) | {"attribute_ids": IDS[:, :attributes]}


def both(model: AttributeModel, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The logits by plan, and those of the same pass with gradients, which has none."""
    with torch.no_grad():
        assert model.method.planned(batch["attribute_ids"], len(batch["attribute_ids"])) is not None
        planned: Tensor = model(**batch).logits
    return planned, model(**batch).logits.detach()


SOME = ("pln", "plora", "modulated", "injector")


def is_kept(family: str, name: str) -> bool:
    """Each method in one family, and each family with one method of each kind; one that is kin, with one method."""
    return family == "bert" or name == "injector" or (name in SOME and family not in KIN)


CASES = [
    pytest.param(family, name, marks=[] if is_kept(family, name) else pytest.mark.exhaustive)
    for family, name in product(FAMILIES, (*LINEAR, *INJECTORS))
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "name"), CASES)
def test_a_plan_gives_the_same_numbers(family: str, name: str) -> None:
    """In float64 those of linear maps are equal; weights by powers are within the rounding of float32."""
    method = {**LINEAR, **INJECTORS}[name]
    placement = placement_for(tiny_backbone(family).config.model_type)
    if method.refusal(placement) is not None or (placement.shared_layers and getattr(method, "first_layer", 0)):
        pytest.skip(f"{family} has no {name}")
    model, batch = model_of(method, family=family), batch_of(padding="left" if family == "llama" else "right")
    planned, expected = both(exactly(model) if name in LINEAR else model, batch)
    torch.testing.assert_close(planned, expected, rtol=0, atol=1e-12 if name in LINEAR else 2e-6)
    hidden = batch | {"attribute_ids": torch.zeros_like(batch["attribute_ids"])}
    assert not torch.allclose(planned, both(model, hidden)[0], atol=1e-4), "attributes count"


@pytest.mark.parametrize("attributes", [1, 4])
@pytest.mark.parametrize("name", SOME)
def test_any_number_of_attributes(name: str, attributes: int) -> None:
    model = model_of({**LINEAR, **INJECTORS}[name], attributes=attributes)
    planned, expected = both(model, batch_of(attributes))
    torch.testing.assert_close(planned, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", [*LINEAR, *INJECTORS])
def test_in_bf16(name: str) -> None:
    """Both ways round differently, by as much as bf16 does."""
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    exact = both(model, batch)[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        planned, expected = both(model, batch)
    slack = 0.02 + 2 * float((expected - exact).abs().max())
    torch.testing.assert_close(planned, exact, rtol=0, atol=slack)


def test_one_method_of_two_has_a_plan() -> None:
    method = Combined(parts=(Pln(vector_size=5), Prefix(length=2, vector_size=5)))
    torch.testing.assert_close(*both(exactly(model_of(method)), batch_of()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SOME)
def test_chunks_of_a_text_have_its_attributes(name: str) -> None:
    model = model_of({**LINEAR, **INJECTORS}[name], chunk=3)
    torch.testing.assert_close(*both(model, batch_of()), rtol=0, atol=2e-6)


# When there is none


def is_planned(model: AttributeModel, batch: Mapping[str, Tensor]) -> bool:
    with torch.no_grad():
        return model.condition(batch["attribute_ids"], rows=len(batch["attribute_ids"])).planned is not None


@pytest.mark.parametrize("name", SOME)
def test_passes_that_have_no_plan(name: str) -> None:
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    assert is_planned(model, batch)
    with model.method.ablated(Ablation(layers=[0])):
        assert not is_planned(model, batch)
    assert not is_planned(model.train(), batch)
    assert is_planned(model.eval(), batch)
    assert model.condition(batch["attribute_ids"], rows=4).planned is None, "with gradients"
    with torch.no_grad():
        cast_table(model)[0] = 0.1
    assert not is_planned(model, batch), "the vector of a missing value is not zero"


def cast_table(model: AttributeModel) -> Tensor:
    assert isinstance(model.method, AttributeMethod)
    return model.method.tables[0]


def test_several_values_have_no_plan() -> None:
    schema = Schema.fit({"tags": [["a", "b"], ["c"]]}, [MultiLabel("tags")])
    task = Classification(classes=3)
    for method in (Pln(), Injector(bottleneck=3, hypercomplex=1, vector_size=5)):
        model = AttributeModel.build(tiny_backbone("bert"), schema, task=task, method=method).eval()
        with torch.no_grad():
            assert model.method.planned(torch.tensor([[1, 2]]), 1) is None


@pytest.mark.parametrize(
    "method",
    [
        Injector(bottleneck=3, vector_size=5, low_rank=False),
        Injector(bottleneck=3, vector_size=5, weight_injection=False),
        Pln(fusion="mlp", vector_size=5),
    ],
)
def test_options_without_a_plan_act_as_before(method: MethodConfig) -> None:
    model, batch = model_of(method), batch_of()
    assert not is_planned(model, batch)
    with torch.no_grad():
        planned = model(**batch).logits
    torch.testing.assert_close(planned, model(**batch).logits, rtol=0, atol=1e-6)


def test_values_too_large_for_powers_have_no_plan() -> None:
    model, batch = model_of(INJECTORS["injector"]), batch_of()
    with torch.no_grad():
        cast_table(model)[4] = 1000.0  # no row has it, and one may
    assert not is_planned(model, batch)


# Changes


@pytest.mark.parametrize(("vector", "stays"), [(0.1, True), (3.0, False), (1000.0, None)])
def test_added_values_keep_the_plan_that_serves_them(
    vector: float, stays: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks at the others again; one that needs more powers has a plan of more, or none."""
    model, batch = model_of(INJECTORS["injector"]), batch_of()
    before = both(model, batch)[0]
    schema = schema_of(2, values=6)
    known = model.values.known()
    tables = {name: torch.cat([x, torch.full_like(x[:1], vector)]) for name, x in known.tables.items()}
    looked_at: list[int] = []
    real = generators._terms_of_table
    monkeypatch.setattr(generators, "_terms_of_table", lambda reach, x: [looked_at.append(len(x)), real(reach, x)][1])
    model.values.use(replace(known, schema=schema, tables=tables), adds=True)
    assert is_planned(model, batch) is (stays is not None)
    assert set(looked_at) == ({1} if stays else {1, 7})
    if stays:
        assert torch.equal(both(model, batch)[0], before)
    new = batch | {"attribute_ids": torch.full_like(batch["attribute_ids"], 6)}
    with torch.no_grad():
        found = model(**new).logits
    torch.testing.assert_close(found, model(**new).logits, rtol=0, atol=2e-6)


def changed_by(model: AttributeModel, batch: Mapping[str, Tensor], change: Any) -> None:
    """A change counts in the pass after it, as it does with gradients."""
    before = both(model, batch)[0]
    with torch.no_grad():
        change()
    planned, expected = both(model, batch)
    assert not torch.equal(planned, before)
    torch.testing.assert_close(planned, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", SOME)
def test_changed_parameters_count_at_once(name: str) -> None:
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    table, (site, *_) = cast_table(model), list(model.method.sites)
    changed_by(model, batch, lambda: table[3].add_(0.3))
    changed_by(model, batch, lambda: next(site.parameters()).mul_(1.5))

    def replace() -> None:
        first, parameter = next(iter(site.named_parameters()))
        owner = site.get_submodule(first.rpartition(".")[0])
        setattr(owner, first.rpartition(".")[2], torch.nn.Parameter(parameter * 1.5))

    changed_by(model, batch, replace)
    changed_by(model, batch, lambda: setattr(table, "data", table.data * 1.5))
    changed_by(
        model, batch, lambda: model.method.load_state_dict({k: v * 0.9 for k, v in model.method.state_dict().items()})
    )


@pytest.mark.parametrize("name", SOME)
def test_what_training_changes_counts(name: str) -> None:
    """Also by a fused optimiser, which leaves the versions of parameters as they were."""
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    optimizer = torch.optim.AdamW(model.method.parameters(), lr=0.1, fused=True)
    before = both(model, batch)[0]
    model.train()(**batch, labels=torch.tensor([0, 1, 2, 1])).loss.backward()
    optimizer.step()
    planned, expected = both(model.eval(), batch)
    assert not torch.allclose(planned, before, atol=1e-4)
    torch.testing.assert_close(planned, expected, rtol=0, atol=2e-6)


def test_a_changed_norm_of_the_backbone_counts() -> None:
    model = model_of(Pln(vector_size=5))
    norm = model.backbone.get_submodule(model.method.acts_at[0].path)
    changed_by(model, batch_of(), lambda: norm.bias.add_(0.5))


@pytest.mark.parametrize("name", SOME)
def test_models_are_copied_and_cast_with_what_they_read(name: str) -> None:
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    expected = both(model, batch)[0]
    copied = copy.deepcopy(model)
    changed_by(copied, batch, lambda: cast_table(copied)[3].add_(0.3))
    assert torch.equal(both(model, batch)[0], expected)
    half = model.to(torch.bfloat16)
    with torch.no_grad():
        half(**batch)


# Recorded passes


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_recorded_passes_act_by_the_plan_that_is_kept(name: str) -> None:
    """Of any number of rows, without a tanh; a plan that no one keeps is not recorded, nor are its tensors."""
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    planned = both(model, batch)[0]
    run = make_program(model, batch, ids=None).module()
    inputs = [batch[key] for key in ("input_ids", "attention_mask", "attribute_ids")]
    torch.testing.assert_close(run(*inputs), planned, rtol=0, atol=2e-6)
    torch.testing.assert_close(run(*(x[1:] for x in inputs)), planned[1:], rtol=0, atol=2e-6)
    assert not [node for node in run.graph.nodes if "tanh" in str(node.target)]
    assert model.method._kept is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(pytest.param(one, marks=pytest.mark.exhaustive) for one in SOME[:-1]), SOME[-1]])
def test_plans_are_compiled_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape_checks.leave_classes_alone(monkeypatch)
    torch.compiler.reset()
    model, batch = model_of({**LINEAR, **INJECTORS}[name]), batch_of()
    planned = both(model, batch)[0]
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad(), model.keeping_plans():
        torch.testing.assert_close(compiled(**batch).logits, planned, rtol=0, atol=2e-6)


# How many operations there are


class Operations(TorchDispatchMode):
    """Counts the operations that are more than another view of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        aliases = any(alias.alias_info is not None and not alias.alias_info.is_write for alias in func._schema.returns)
        if not aliases:
            self.counts[func.overloadpacket.__name__] += 1
        return result


def operations(model: AttributeModel, batch: Mapping[str, Tensor]) -> Counter[str]:
    with torch.inference_mode():
        model(**batch)
        with Operations() as found:
            model(**batch)
    return found.counts


def operations_of_a_layer(method: MethodConfig) -> int:
    """How many there are in one more layer, in bf16, none of which waits for the device."""
    counts = []
    for layers in (2, 3):
        config = tiny_config("bert")
        config.num_hidden_layers = layers
        task = Classification(classes=3)
        model = AttributeModel.build(build_backbone(config), schema_of(2), task=task, method=method).eval()
        model.backbone.to(torch.bfloat16)
        found = operations(model, batch_of())
        assert not {"_local_scalar_dense", "_unique2", "unique_dim", "nonzero", "equal"} & set(found)
        counts.append(found.total())
    return counts[1] - counts[0]


@pytest.mark.parametrize(("name", "most"), [("pln", 1), ("plora", 4), ("modulated", 4), ("injector", 34)])
def test_operations_of_a_layer(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond the bare model's."""
    monkeypatch.setattr(base, "check_attribute_ids", lambda *_: None)  # which is for the CPU alone
    method = {**LINEAR, **INJECTORS}[name].model_copy(update={"first_layer": 0})
    assert operations_of_a_layer(method) - operations_of_a_layer(Plain()) == most
