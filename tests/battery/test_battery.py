"""One battery, run over every method on every backbone family (tiny random models)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab_methods
import pytest
import shape_checks
import torch
from families import EACH_KIND, KIN, VOCABULARY, WORD_FAMILIES, tiny_backbone, tiny_config
from families import FAMILIES as TRANSFORMERS
from tiny_models import in_float64, still
from trained_runs import TrainedRuns
from transformers import AutoModel, PreTrainedModel

from attribune.backbones.families import placement_for
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.methods import (
    METHODS,
    Adapter,
    AttentionBias,
    Chim,
    Combined,
    ConcatText,
    ConcatWord,
    E2ln,
    Injector,
    InText,
    La,
    Maa,
    MethodConfig,
    Modulated,
    Plain,
    Pln,
    Plora,
    Poly,
    Prefix,
    TinyMaa,
    Tokens,
    Upa,
)
from attribune.methods.attribute_method import AttributeMethod
from attribune.models.half import HalfBackbone
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, MultiLabel, Schema, ValueTable
from attribune.tasks import Classification

pytestmark = pytest.mark.slow

Batch = dict[str, torch.Tensor]
Build = Callable[..., AttributeModel]

FAMILIES = (*TRANSFORMERS, *WORD_FAMILIES)
ROWS, LENGTH, CLASSES = 7, 11, 3
SETTINGS: dict[str, MethodConfig] = {
    "none": Plain(),
    "in-text": InText(),
    "adapter": Adapter(bottleneck=5),
    "injector": Injector(bottleneck=5, vector_size=13),
    "upa": Upa(attention_size=7, vector_size=13),
    "la": La(attention_size=7),
    "chim": Chim(vector_size=13),
    "tokens": Tokens(),
    "prefix": Prefix(length=2, vector_size=13),
    "concat-text": ConcatText(vector_size=13),
    "concat-word": ConcatWord(vector_size=13, layers=2),
    "attention-bias": AttentionBias(layers=2),
    "maa": Maa(layers=2),
    "tiny-maa": TinyMaa(size=12, heads=3, inner=29),
    "pln": Pln(vector_size=13),
    "e2ln": E2ln(vector_sizes=(13, 7), summary_pooling="attention"),
    "plora": Plora(rank=3, vector_size=13),
    "modulated": Modulated(rank=3, vector_size=13),
    "poly": Poly(rank=3),
    **lab_methods.SETTINGS,
    "injector+chim": Combined(parts=(Injector(bottleneck=5, vector_size=13), Chim(vector_size=7))),
}
SIZES = {"bottleneck": 5, "vector_size": 13}
VARIANTS: dict[str, MethodConfig] = {
    "adapter beside": Adapter(bottleneck=5, joined="parallel", inner_norm=True, layers=2, activation="tanh"),
    "adapter of batches": Adapter(bottleneck=5, inner_norm="batch", sites="feed_forward"),
    "adapter multiplied": Adapter(bottleneck=5, joined="multiplied", sites="attention"),
    "injector bias alone": Injector(**SIZES, weight_injection=False, task_adapter=False),
    "injector weight alone": Injector(**SIZES, bias_injection=False, aggregation="pre", low_rank=False),
    "injector outer": Injector(**SIZES, phm=False),
    "injector full": Injector(**SIZES, phm=False, low_rank=False),
    "injector parallel": Injector(**SIZES, arrangement="parallel"),
    "pln mlp": Pln(vector_sizes=(13, 7), norms="both", bias_terms="both", fusion="mlp"),
    "pln addition": Pln(vector_size=48, fusion="addition", layers=(2,)),
    "pln weighted": Pln(vector_size=48, fusion="weighted", norms="feed_forward"),
    "e2ln without attributes": E2ln(norms="none", summary_pooling="max", document_pooling="average"),
    "e2ln biases": E2ln(vector_size=13, norms="feed_forward", bias_terms="attention", document_pooling="attention"),
    "e2ln without summaries": E2ln(vector_size=13, structured_text=False, norms="both"),
    "maa from the backbone": Maa(layers=2, initial="backbone"),
    "concat-word small": ConcatWord(vector_size=13, layers=1, heads=2, inner=23),
    "poly splits": Poly(rank=3, skills=3, splits=2),
    "chim attention": Chim(vector_size=13, places=("attention",), repeats=4),
    "chim matrix": Chim(vector_size=13, places=("attention", "classifier"), representation="matrix"),
    **lab_methods.VARIANTS,
    "prefix attention": Prefix(place="attention", length=2, vector_size=13),
    "prefix of nobody": Prefix(length=2, personal=False),
    "prefix attention of nobody": Prefix(place="attention", length=2, personal=False),
    "pln+upa": Combined(parts=(Pln(vector_size=13), Upa(vector_size=7))),
    "plora+tokens": Combined(parts=(Plora(rank=3, vector_size=13), Tokens())),
}
VARIANT_FAMILIES = ("bert", "modernbert", "gpt2", "word-bilstm")
SETTINGS |= VARIANTS
OPTIONS: dict[str, dict[str, Any]] = {"e2ln": {"chunk": 4}, "adapter": {"tuning": "lora:q,k,v,o:3+layernorm"}} | {
    name: {"chunk": 4} for name in VARIANTS if name.startswith("e2ln")
}


NEEDS = lab_methods.NEEDS


# The last state of the first token depends on the global projections alone.
FAMILY_OPTIONS: dict[str, dict[str, Any]] = {"longformer": {"pooling": "mean"}}


def fits(method: str, family: str) -> bool:
    """Whether the method's points exist in the family."""
    return SETTINGS[method].refusal(placement_for(family)) is None


NEEDED = [(method, family) for method in NEEDS for family in WORD_FAMILIES if fits(method, family)]
PAIRS = [
    (method, family)
    for family in FAMILIES
    for method in SETTINGS
    if fits(method, family)
    and (method not in VARIANTS or family in VARIANT_FAMILIES)
    # The inner map of ModernBERT makes gates too, and a recurrent layer has none.
    and (method, family) not in (("maa from the backbone", "modernbert"), ("maa from the backbone", "word-bilstm"))
]
# On families that are kin to another one, a method for each point will do.
KIN_METHODS = ("none", "injector", "tokens", "pln", "plora", "maa", "e2ln", "upa")
# These act before the layers or behind them, where families do not differ.
OUTSIDE, OUTSIDE_FAMILIES = ("la", "basis", "hcsc", "upnn"), ("bert", "gpt2", *WORD_FAMILIES)


COMBINATIONS = [
    (method, family)
    for method, family in PAIRS
    if (family not in KIN or method in KIN_METHODS) and (method not in OUTSIDE or family in OUTSIDE_FAMILIES)
]
# One family of each method, which is BERT where that fits.
ONCE = {method: next(family for name, family in PAIRS if name == method) for method in SETTINGS}
# For what belongs to a method or to a family, but not to both.
FEWER = [
    (method, family)
    for method, family in COMBINATIONS
    if method in ("injector", "plora") or family in ("bert", "gpt2", "word-bilstm", ONCE[method])
]


def is_representative(method: str, family: str) -> bool:
    """Each method on one family, and each family with one method: what a mistake in either is found by.

    The names by which families differ from their kin are in the tests of backbones.
    """
    if method in METHODS and ONCE[method] == family:
        return True
    if family in KIN:
        return False
    personal = (name for name in ("injector", *METHODS) if fits(name, family) and SETTINGS[name].uses_attributes)
    return method == next(personal)


def once_unless(is_cheap: bool) -> list[pytest.MarkDecorator]:
    return [] if is_cheap else [pytest.mark.exhaustive]


CONTRACTS = [pytest.param(*pair, marks=once_unless(is_representative(*pair))) for pair in COMBINATIONS]
FULL_CONTRACTS = [
    pytest.param(*pair, marks=once_unless(is_representative(*pair) and pair[1] in (*EACH_KIND, ONCE[pair[0]])))
    for pair in FEWER
]
LEARNING_RATE = 2e-3


@pytest.fixture(scope="session")
def folder_of(trained_runs: TrainedRuns) -> Callable[[str, str], Path]:
    """Where the backbone of a family is saved, as a method needs it."""

    def saved(method: str, family: str) -> Path:
        options = NEEDS[method] if (method, family) in NEEDED else {}
        return trained_runs.once(
            "bare-backbone",
            [family, options],
            lambda folder: tiny_backbone(family, options=options).save_pretrained(folder),
        )

    return saved


@pytest.fixture(scope="session")
def schema() -> Schema:
    users = [f"u{i % 5}" for i in range(ROWS)]
    tags = [["a", "b", "c"], [], ["b"], ["c", "a"], ["a"], ["d", "b"], []]
    return Schema.fit({"user": users, "tags": tags}, [Categorical("user"), MultiLabel("tags")])


@pytest.fixture(scope="session")
def described(schema: Schema) -> dict[bool, Schema]:
    """Schemas whose users and tags are described, with vectors of their own and without."""
    rows = {"user": [f"u{i % 5}" for i in range(ROWS)], "tags": [["a", "b"], ["c"], ["d"], [], [], [], []]}
    users = {"user": ["u0", "u1", "u2", "u3", "u9"], "age": [1, 2, 4, 8, 16], "city": ["x", "y", "x", "y", "x"]}
    tags = {"tags": ["a", "b", "c"], "given": [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]}
    kinds = [Categorical("user"), MultiLabel("tags")]
    return {
        own: Schema.fit(
            rows,
            kinds,
            values={
                "user": ValueTable(table=users, key="user", own_vectors=own),
                "tags": ValueTable(table=tags, key="tags", own_vectors=own),
            },
        )
        for own in (True, False)
    }


@pytest.fixture
def batch(schema: Schema) -> Batch:
    generator = torch.Generator().manual_seed(3)
    input_ids = torch.randint(5, VOCABULARY, (ROWS, LENGTH), generator=generator)
    lengths = torch.tensor([11, 3, 7, 1, 11, 5, 9])
    attention_mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    attribute_ids, _ = schema.encode(
        {"user": [f"u{i % 5}" for i in range(ROWS)], "tags": [["a", "b", "c"], [], ["b"], ["c"], ["a"], ["d", "b"], []]}
    )
    return {
        "input_ids": input_ids * attention_mask,
        "attention_mask": attention_mask,
        "attribute_ids": torch.as_tensor(attribute_ids),
        "labels": torch.tensor([0, 1, 2, 0, 1, 2, 0]),
    }


@pytest.fixture(scope="session")
def build(folder_of: Callable[[str, str], Path], schema: Schema, described: dict[bool, Schema]) -> Build:
    def make(method: str, family: str, *, own_vectors: bool | None = None, **options: Any) -> AttributeModel:
        torch.manual_seed(0)
        return AttributeModel.build(
            str(folder_of(method, family)),
            schema if own_vectors is None else described[own_vectors],
            task=Classification(classes=CLASSES),
            method=SETTINGS[method],
            **{**OPTIONS.get(method, {}), **FAMILY_OPTIONS.get(family, {}), **options},
        )

    return make


def scatter(model: AttributeModel) -> AttributeModel:
    """Move every parameter of the method far from its initial value, so that the sites matter."""
    with torch.no_grad():
        generator = torch.Generator().manual_seed(5)
        for parameter in model.method.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        for module in model.modules():
            if isinstance(module, AttributeMethod) and not module.learns_unknown:
                for table in module.tables:
                    table[0] = 0
    return model


def test_every_method_is_in_the_battery() -> None:
    assert set(SETTINGS) == {*METHODS, "injector+chim", *VARIANTS}


# The contract of every method on every family


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("method", "family"), CONTRACTS)
def test_contract(build: Build, batch: Batch, method: str, family: str) -> None:
    """What a mistake where method and family meet would break, check by check."""
    built = build(method, family)
    model = scatter(copy.deepcopy(built)).eval()
    if method == "injector":
        check_building_changed_no_weight_of_the_backbone(built, family)
        check_attributes_matter_and_the_unknown_works(model, batch)
    if method in ("adapter", "injector"):
        check_switched_off_it_is_the_backbone(copy.deepcopy(model), build("none", family).eval(), batch)
    check_rows_do_not_see_each_other(model, batch)
    check_it_learns_with_the_head_frozen(still(built), batch)


@pytest.mark.parametrize(("method", "family"), FULL_CONTRACTS)
def test_contract_of_a_method_or_a_family(build: Build, batch: Batch, tmp_path: Path, method: str, family: str) -> None:
    """What belongs to a method or to a family, but not to both, check by check."""
    built = build(method, family)
    model = scatter(copy.deepcopy(built)).eval()
    check_saved_and_loaded_it_has_the_same_numbers(model, batch, tmp_path / "model")
    check_a_copy_is_a_model_of_its_own(model, batch)
    model = scatter(still(built))
    check_it_runs_under_bf16_autocast(model, batch)
    check_it_predicts_with_the_backbone_in_bf16(model.eval(), batch)
    model.train()
    check_checkpointing_gives_the_same_gradients(model, batch)
    check_a_bf16_backbone_keeps_the_method_in_float32(still(build(method, family, dtype=torch.bfloat16)), batch)


def check_building_changed_no_weight_of_the_backbone(model: AttributeModel, family: str) -> None:
    original = dict(tiny_backbone(family).named_parameters())
    for name, parameter in model.backbone.named_parameters():
        assert torch.equal(parameter, original[name]), name


@torch.no_grad()
def check_attributes_matter_and_the_unknown_works(model: AttributeModel, batch: Batch) -> None:
    expected = model(**batch).logits
    changed = batch["attribute_ids"].clone()
    changed[0] = torch.roll(changed[0], 1)
    changed[2, 0] = changed[2, 0] % 5 + 1
    other = model(**{**batch, "attribute_ids": changed}).logits
    assert (other[2] - expected[2]).abs().max() > 1e-5
    torch.testing.assert_close(other[4], expected[4])
    hidden = model(**{**batch, "attribute_ids": torch.zeros_like(changed)}).logits
    assert torch.isfinite(hidden).all()
    assert not torch.allclose(hidden[0], expected[0])
    # The row whose attributes are all missing is not touched by hiding them.
    missing = torch.zeros_like(changed)
    missing[0] = changed[0]
    torch.testing.assert_close(model(**{**batch, "attribute_ids": missing}).logits[5], hidden[5])


@torch.no_grad()
def check_switched_off_it_is_the_backbone(model: AttributeModel, plain: AttributeModel, batch: Batch) -> None:
    plain.head.load_state_dict(model.head.state_dict())
    expected = plain(**batch).logits
    assert not torch.allclose(model(**batch).logits, expected)
    for name, parameter in model.method.named_parameters():
        if name.rpartition(".")[2] in ("W_up", "b_up"):
            parameter.zero_()
    torch.testing.assert_close(model(**batch).logits, expected, rtol=0, atol=1e-6)


@torch.no_grad()
def check_saved_and_loaded_it_has_the_same_numbers(model: AttributeModel, batch: Batch, folder: Path) -> None:
    model.save_pretrained(folder)
    loaded = AttributeModel.from_pretrained(folder)
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)
    assert loaded.learned_names() == model.learned_names()
    names = [name for name, _ in model.named_parameters()]
    assert (len(model.learned_names()) == len(names)) == (model.config.tuning == "full")


@torch.no_grad()
def check_a_copy_is_a_model_of_its_own(model: AttributeModel, batch: Batch) -> None:
    expected, twin = model(**batch).logits, copy.deepcopy(model)
    for parameter in model.parameters():
        parameter.zero_()
    assert torch.equal(twin(**batch).logits, expected)


@torch.no_grad()
def check_rows_do_not_see_each_other(model: AttributeModel, batch: Batch) -> None:
    """The order of the batch, its padding and its other rows change no row's logits."""
    in_float64(model)
    expected = model(**batch).logits
    order = torch.tensor([3, 1, 6, 0, 2, 5, 4])
    shuffled = model(**{name: value[order] for name, value in batch.items()}).logits
    torch.testing.assert_close(shuffled, expected[order], rtol=0, atol=1e-6)
    for row in (1, 2):
        length = int(batch["attention_mask"][row].sum())
        alone = model(
            input_ids=batch["input_ids"][row : row + 1, :length],
            attribute_ids=batch["attribute_ids"][row : row + 1],
        ).logits
        torch.testing.assert_close(alone[0], expected[row], rtol=0, atol=1e-6)


def check_it_runs_under_bf16_autocast(model: AttributeModel, batch: Batch) -> None:
    torch.manual_seed(0)  # poly draws in training
    with torch.no_grad():
        exact = model(**batch).logits
    torch.manual_seed(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(**batch)
    out.loss.backward()
    torch.testing.assert_close(out.logits, exact, rtol=0.1, atol=0.2)


def check_it_predicts_with_the_backbone_in_bf16(model: AttributeModel, batch: Batch) -> None:
    if not HalfBackbone.is_possible(model):
        return
    with torch.inference_mode():
        exact = model(**batch).logits
        with HalfBackbone(model).in_place():
            found = model(**batch).logits
    torch.testing.assert_close(found, exact, rtol=0.1, atol=0.2)
    assert found.dtype == torch.float32


def check_checkpointing_gives_the_same_gradients(model: AttributeModel, batch: Batch) -> None:
    """Also with two forward passes before one backward pass, where a condition kept on the model would be wrong."""
    if not model.supports_gradient_checkpointing:
        with pytest.raises(ValueError, match="does not support"):
            model.activation_checkpointing_enable()
        return
    other = {**batch, "attribute_ids": batch["attribute_ids"].flip(0)}

    def gradients() -> dict[str, torch.Tensor]:
        model.zero_grad()
        torch.manual_seed(0)  # poly draws in training
        loss = model(**batch).loss + 3 * model(**other).loss
        loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected = gradients()
    model.activation_checkpointing_enable()
    found = gradients()
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-7, msg=name)


def check_a_bf16_backbone_keeps_the_method_in_float32(model: AttributeModel, batch: Batch) -> None:
    assert {p.dtype for p in model.method.parameters()} <= {torch.float32}
    loss = model(**batch).loss
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)


def check_it_learns_with_the_head_frozen(model: AttributeModel, batch: Batch) -> None:
    model.head.requires_grad_(False)
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.Adam(learning.values(), lr=LEARNING_RATE)
    moved: set[str] = set()
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        if step < 3:
            moved |= {n for n, p in learning.items() if p.grad is not None and bool((p.grad != 0).any())}
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    own = {name for name in learning if name.startswith("method.")}
    if model.placement.states == "text":  # whose only state has all the attention, whatever asks for it
        own = {name for name in own if not name.endswith((".W_q", ".W_k"))}
    assert own <= moved


# What is for a method or for a family alone


REFUSED = [(method, family) for family in FAMILIES for method in METHODS if not fits(method, family)]


@pytest.fixture(scope="module")
def refusing() -> dict[str, PreTrainedModel]:
    """A backbone of each family, in which no method is ever put."""
    return {family: tiny_backbone(family) for family in {family for _, family in REFUSED}}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("method", "family"), REFUSED)
def test_a_method_without_its_points_says_why(
    refusing: dict[str, PreTrainedModel], schema: Schema, method: str, family: str
) -> None:
    reasons = (
        r"upnn: it gives each word several vectors, but backbones of type .* read only one: choose",
        r"it weights the states of a text, but backbones of type word-tang-cnn have only one: choose",
        r"it reads the words of each sentence and then the sentences of the text, but backbones .* do not.*: choose",
        r"chunks are cut by words, and backbones of type word-.* have a state for each (sentence|text): choose",
        r"chunks cannot read summaries in backbones of type .*, because .*: choose",
        r"it acts inside Transformer layers, but backbones of type word-.* have none: choose",
        r"(history|in-text): backbones of type .* read the sentences of one text.*: choose",
        r"it puts the values before the text, but the states of backbones of type word-cnn do not depend.*: choose",
    )
    with pytest.raises(ConfigError, match="|".join(reasons)):
        AttributeModel.build(
            copy.deepcopy(refusing[family]),
            schema,
            task=Classification(classes=CLASSES),
            method=SETTINGS[method],
            **OPTIONS.get(method, {}),
        )


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("method", "family"), ONCE.items())
def test_in_float64_the_loss_has_the_slope_that_its_differences_show(
    build: Build, batch: Batch, method: str, family: str
) -> None:
    model = in_float64(scatter(build(method, family))).eval()
    output = model(**batch)
    assert (output.logits.dtype, output.loss.dtype) == (torch.float64, torch.float64)
    learning = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(output.loss, learning, allow_unused=True)
    way = [torch.zeros_like(p) if g is None else g for p, g in zip(learning, found, strict=True)]
    slope = torch.stack([x.square().sum() for x in way]).sum().sqrt()

    @torch.no_grad()
    def loss_at(step: float) -> float:
        for parameter, x in zip(learning, way, strict=True):
            parameter += step * x / slope
        loss = model(**batch).loss.item()
        for parameter, x in zip(learning, way, strict=True):
            parameter -= step * x / slope
        return loss

    # A rounding to float32 on the way, of 6e-8, would be an error of a hundredth.
    step = 3e-6
    assert (loss_at(step) - loss_at(-step)) / (2 * step) == pytest.approx(slope.item(), rel=1e-5)


READERS = [
    (method, "bert" if fits(method, "bert") else "word-hierarchical")
    for method in SETTINGS
    if SETTINGS[method].uses_attributes
]
# Vectors of their own beside those of the descriptions are the same code in every method.
DESCRIBED = [
    pytest.param(*pair, own, marks=once_unless(pair[0] in METHODS and (own or pair[0] == "injector")))
    for pair in READERS
    for own in (True, False)
    if pair in PAIRS
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("method", "family", "own_vectors"), DESCRIBED)
def test_values_may_be_described(
    build: Build,
    described: dict[bool, Schema],
    batch: Batch,
    tmp_path: Path,
    method: str,
    family: str,
    own_vectors: bool,
) -> None:
    """The map of descriptions learns, a value of no row is what its description says, and all of it is stored."""
    if SETTINGS[method].name in ("in-text", "poly", "history", "one-per-value", "upnn"):
        with pytest.raises(ConfigError, match="has no vectors of values, which the descriptions of 'user' could give"):
            build(method, family, own_vectors=own_vectors)
        return
    model = still(build(method, family, own_vectors=own_vectors))
    schema = described[own_vectors]
    rows = {
        "user": ["u0", "u4", "u9", "new", "u3", "u2", "u9"],
        "tags": [["a"], ["d"], [], ["b", "c"], [], ["c"], ["a"]],
    }
    batch["attribute_ids"] = torch.as_tensor(schema.encode(rows)[0])
    maps = [described for described, _ in model.values.described()]
    assert not any(one.W_2.any() for one in maps)
    scatter(model)(**batch).loss.backward()
    assert all(bool((p.grad != 0).any()) for one in maps for p in one.parameters())
    model.eval()
    logits = model(**batch).logits
    model.save_pretrained(tmp_path / "model")
    assert torch.equal(AttributeModel.from_pretrained(tmp_path / "model")(**batch).logits, logits)
    for one in maps:
        one.features = torch.zeros_like(one.features)
    silent = model(**batch).logits
    said = (silent - logits).abs().sum(dim=1) > 1e-6
    # The second row's values are not described, and the fourth has one state, which is all of any weighted mean.
    assert [*said[:3], *said[4:]] == [True, method == "hcsc", True, True, True, True]


@pytest.mark.parametrize(
    ("built", "loaded"), [("bfloat16", "float32"), ("float32", "bfloat16"), ("float32", "float16")]
)
def test_the_backbone_is_recognised_in_any_precision(build: Build, tmp_path: Path, built: str, loaded: str) -> None:
    build("injector", "bert", dtype=getattr(torch, built)).save_pretrained(tmp_path / "model")
    dtype = getattr(torch, loaded)
    model = AttributeModel.from_pretrained(tmp_path / "model", dtype=dtype)
    assert model.backbone.dtype == dtype
    tiny_backbone("bert", seed=1).save_pretrained(tmp_path / "other")
    with pytest.raises(ModelFolderError, match="other weights"):
        AttributeModel.from_pretrained(tmp_path / "model", dtype=dtype, backbone=str(tmp_path / "other"))


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "albert"])
def test_a_loaded_backbone_with_a_pooler_comes_back(schema: Schema, batch: Batch, tmp_path: Path, family: str) -> None:
    backbone = AutoModel.from_config(tiny_config(family), add_pooling_layer=True)
    backbone.save_pretrained(tmp_path / "backbone")
    loaded = AutoModel.from_pretrained(tmp_path / "backbone")
    assert loaded.pooler is not None
    model = AttributeModel.build(loaded, schema, task=Classification(classes=CLASSES), method=SETTINGS["injector"])
    scatter(model).eval().save_pretrained(tmp_path / "model")
    found = AttributeModel.from_pretrained(tmp_path / "model")
    assert torch.equal(found(**batch).logits, model(**batch).logits)


# The router of peft's Poly reads the largest id back from the device, where a graph ends.
COMPILED = (
    "none",
    "adapter",
    "injector",
    "upa",
    "chim",
    "tokens",
    "concat-word",
    "maa",
    "pln",
    "e2ln",
    "plora",
    *(["hcsc"] if lab_methods.HAS_LAB else []),
)


# torch's own compiler instantiates autograd functions, and warns of it.
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
@pytest.mark.exhaustive
@pytest.mark.parametrize("method", COMPILED)
def test_compiles_into_one_graph_with_the_same_result(
    build: Build, batch: Batch, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape_checks.leave_classes_alone(monkeypatch)
    torch.compiler.reset()  # or the graphs of other models count against the limit of recompilations
    model = scatter(still(build(method, "bert")))

    def run(called: Any) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        model.zero_grad()
        out = called(**batch)
        out.loss.backward()
        return out.logits.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    logits, gradients = run(model)
    found, changed = run(torch.compile(model, fullgraph=True, backend="aot_eager"))
    torch.testing.assert_close(found, logits, rtol=0, atol=1e-5)
    assert changed.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(changed[name], gradient, rtol=1e-3, atol=1e-5, msg=name)


def test_reentrant_checkpointing_is_refused(build: Build) -> None:
    with pytest.raises(ConfigError, match="reentrant"):
        build("injector", "bert").activation_checkpointing_enable({"use_reentrant": True})


def test_ids_that_are_no_integers_are_refused(build: Build, batch: Batch) -> None:
    with pytest.raises(DataError, match=r"attribute_ids are torch\.float32"):
        build("injector", "bert")(**{**batch, "attribute_ids": batch["attribute_ids"].float()})
