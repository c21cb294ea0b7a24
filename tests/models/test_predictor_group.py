"""Rows of several models in one batch: each gets the scores that its own model gives it alone."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_runs
import torch
from families import FAMILIES, KIN
from trained_runs import TrainedRuns
from transformers import AutoTokenizer

from attribune import functional
from attribune.backbones.families import placement_for
from attribune.data.texts import TextInput
from attribune.data.windows import Chunks, Head
from attribune.errors import ConfigError, DataError
from attribune.methods import (
    Adapter,
    Chim,
    Combined,
    ConcatWord,
    E2ln,
    Injector,
    MethodConfig,
    Plain,
    Pln,
    Plora,
    Tokens,
    Upa,
)
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.models.predictor_group import PredictorGroup
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification, Regression, Task

ROWS = small_runs.reviews(60)
TABLE: dict[str, list[Any]] = {name: [row[name] for row in ROWS] for name in ("text", "user", "tags")}
WINDOW = Head(24)
# Their parameters are joined, and a product is made for the rows of each.
ADAPTERS: dict[str, tuple[MethodConfig, str | None, Task]] = {
    name: (Adapter(bottleneck=6, activation="tanh"), None, Classification(classes=3)) for name in ("a", "bb", "ccc")
}
# A model of each kind of change: at sites, to norms, beside projections, after the backbone, of whole layers.
MODELS: dict[str, tuple[MethodConfig, str | None, Task]] = {
    "adapter": (Adapter(bottleneck=5), None, Classification(classes=3)),
    "parallel": (Adapter(bottleneck=5, joined="parallel"), "frozen", Classification(classes=2)),
    "injector": (Injector(bottleneck=5, vector_size=7), None, Regression()),
    "lora": (Plain(), "lora:o:3+layernorm", Classification(classes=4)),
    "lora pln": (Combined(parts=(Adapter(bottleneck=3), Plora(rank=2, vector_size=5))), "lora:o:3", Regression()),
    "pln": (Pln(vector_size=7, norms="both", bias_terms="both"), "layernorm", Classification(classes=3)),
    "upa": (Upa(attention_size=5, vector_size=7), "frozen", Classification(classes=3)),
    "chim": (Chim(vector_size=7), "attention", Classification(classes=3)),
    "concat-word": (ConcatWord(vector_size=7, layers=1), "frozen", Regression()),
    "head": (Plain(), "frozen", Classification(classes=3)),
    "top": (Plain(), "top_1", Classification(classes=5)),
}
ALONE: dict[str, tuple[MethodConfig, str | None, Task]] = {
    "tokens": (Tokens(), "frozen", Classification(classes=3)),
    "e2ln": (E2ln(vector_size=7), "frozen", Classification(classes=3)),
    "full": (Adapter(bottleneck=5), "full", Classification(classes=3)),
}


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.fit(TABLE, [Categorical("user"), MultiLabel("tags", separator=";")])


def save(folder: Path, backbone: Path, schema: Schema, name: str, **options: Any) -> Path:
    """Save a model whose learned parameters are all far from their initial values."""
    method, tuning, task = (MODELS | ALONE | ADAPTERS)[name]
    options = {"text_input": TextInput.of("text", window=WINDOW), **options, "task": task, "method": method}
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    model = AttributeModel.build(str(backbone), schema, tuning=tuning, tokenizer=tokenizer, **options)
    generator = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    return folder


def save_all(folder: Path, backbone: Path, schema: Schema, names: Mapping[str, Any]) -> dict[str, Path]:
    return {name: save(folder / name, backbone, schema, name) for name in names}


def rows_of(number: int, count: int) -> dict[str, list[Any]]:
    order = np.random.default_rng(number).permutation(len(ROWS))[:count]
    return {name: [values[row] for row in order] for name, values in TABLE.items()}


def assert_as_alone(group: PredictorGroup, runs: Mapping[str, Path], *, atol: float = 2e-6) -> None:
    tables = {name: rows_of(number, 9 + 3 * number) for number, name in enumerate(runs)}
    scores = group.score({name: group[name].encode_rows(table) for name, table in tables.items()})
    for name, table in tables.items():
        expected = Predictor.from_pretrained(runs[name], device="cpu").logits(table)[0]
        np.testing.assert_allclose(scores[name], expected, atol=atol, rtol=1e-5, err_msg=name)
        assert scores[name].std() > 1e-4, name


EVERY_FAMILY = [
    pytest.param(family, marks=[] if family == "bert" else pytest.mark.exhaustive)
    for family in FAMILIES
    if family not in KIN
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_family(family: str, schema: Schema, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    backbone = trained_runs.backbone(family)
    names = [name for name, (method, _, _) in MODELS.items() if method.refusal(placement_for(family)) is None]
    runs = save_all(tmp_path, backbone, schema, dict.fromkeys(names))
    pairs = TextInput.of("text", pair="tags", window=WINDOW)  # in one batch with single texts
    if family != "qwen2":  # whose own tokenizer knows none of these words
        runs["injector"] = save(tmp_path / "pairs", backbone, schema, "injector", text_input=pairs)
    group = PredictorGroup.from_pretrained(runs, device="cpu", batch_size=16)
    row = placement_for(family)
    own_code = row.relative_attention or row.mixes_precisions or row.has_global_attention or row.is_block_sparse
    apart = set(names) if own_code else set() if row.experts is None else {"top"}
    assert set(group.refusals) == apart
    assert group.together_with("adapter") == [name for name in names if name == "adapter" or name not in apart]
    assert_as_alone(group, runs)


@pytest.fixture(scope="module")
def runs(backbone: Path, schema: Schema, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_all(tmp_path_factory.mktemp("runs"), backbone, schema, MODELS | ALONE)


@pytest.mark.slow
def test_what_all_share_is_computed_once(runs: dict[str, Path]) -> None:
    """For all rows of a batch, those of models with low-rank maps too; a model alone may have weights of its own."""
    names = ["adapter", "injector", "lora", "head", "top"]
    group = PredictorGroup.from_pretrained({name: runs[name] for name in names}, device="cpu", batch_size=100)
    ((together, _),) = group._passes
    trunk, seen = together.trunk, dict[str, list[int]]()
    for path in ("attention.output.dense", "attention.self.query", "output.dense"):
        for layer in (0, 1):
            linear = trunk.get_submodule(f"encoder.layer.{layer}.{path}")
            forward = torch.nn.functional.linear
            seen[f"{layer}.{path}"] = []
            linear.register_forward_hook(lambda m, args, out, n=f"{layer}.{path}": seen[n].append(len(out)))
    products: list[tuple[int, int]] = []

    def counted(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        products.append((states.shape[0], weight.data_ptr()))
        return forward(states, weight, bias)

    rows = {name: group[name].encode_rows(rows_of(3, 4)) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "linear", counted)
        group.score(rows)
    assert set(map(tuple, seen.values())) == {(20,)}
    for layer, times in ((0, [20]), (1, [16, 4])):  # `top` has learned the last layer
        weight = trunk.get_submodule(f"encoder.layer.{layer}.attention.output.dense").weight.data_ptr()
        assert [count for count, place in products if place == weight] == times[:1]
    query = trunk.get_submodule("encoder.layer.1.attention.self.query").weight
    assert group["top"].model.backbone.get_parameter("encoder.layer.1.attention.self.query.weight") is not query
    assert len({id(one.model.tokenizer) for one in group.values()}) == 1
    embeddings = {one.model.get_input_embeddings().weight.data_ptr() for one in group.values()}
    assert embeddings == {trunk.get_input_embeddings().weight.data_ptr()}


@pytest.mark.slow
def test_models_that_cannot_share_a_batch_are_asked_alone(runs: dict[str, Path]) -> None:
    names = ["adapter", *ALONE, "injector"]
    group = PredictorGroup.from_pretrained({name: runs[name] for name in names}, device="cpu")
    assert group.refusals == {
        "tokens": "tokens changes what the layers of the backbone attend to",
        "e2ln": "it reads texts in chunks",
        "full": "its backbone was tuned in full",
    }
    assert group.together_with("tokens") == ["tokens"]
    assert_as_alone(group, {name: runs[name] for name in names})


@pytest.mark.exhaustive
@pytest.mark.slow
def test_backbones_and_windows_of_several_kinds(
    runs: dict[str, Path], backbone: Path, schema: Schema, tmp_path: Path
) -> None:
    other = small_runs.save_backbone(tmp_path / "other", seed=4)
    mixed = {"a": runs["adapter"], "b": runs["pln"]}
    mixed |= {name: save(tmp_path / name, other, schema, name) for name in ("injector", "chim", "head")}
    chunks, short = (TextInput.of("text", window=window) for window in (Chunks(4), Head(4)))
    mixed["chunks"] = save(tmp_path / "chunks", backbone, schema, "adapter", text_input=chunks)
    mixed["short"] = save(tmp_path / "short", other, schema, "upa", text_input=short)
    group = PredictorGroup.from_pretrained(mixed, device="cpu", batch_size=7)
    assert group.together_with("a") == ["a", "b"]
    assert group.together_with("chim") == ["injector", "chim", "head", "short"]
    assert group.refusals == {"chunks": "it reads texts in chunks"}
    assert_as_alone(group, mixed)


@pytest.mark.exhaustive
def test_padding_on_the_left_and_half_precision(schema: Schema, tmp_path: Path) -> None:
    backbone = small_runs.save_backbone(tmp_path / "backbone", model_type="qwen3")
    config = backbone / "tokenizer_config.json"
    config.write_text(config.read_text().replace("{", '{"padding_side": "left",', 1))
    runs = save_all(tmp_path, backbone, schema, dict.fromkeys(["adapter", "lora", "pln"]))
    group = PredictorGroup.from_pretrained(runs, device="cpu")
    assert group["pln"].model.tokenizer.padding_side == "left"
    assert_as_alone(group, runs)
    assert_as_alone(PredictorGroup.from_pretrained(runs, device="cpu", precision="bf16"), runs, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [None, pytest.param("bf16", marks=pytest.mark.exhaustive)])
def test_adapters_of_one_size_are_joined(
    backbone: Path, schema: Schema, tmp_path: Path, precision: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = save_all(tmp_path, backbone, schema, ADAPTERS)
    options = {} if precision is None else {"precision": precision}
    group = PredictorGroup.from_pretrained(runs, device="cpu", **options)
    calls = []
    grouped = functional.grouped_bottleneck
    monkeypatch.setattr(functional, "grouped_bottleneck", lambda *a: calls.append(a[1]) or grouped(*a))
    for names in (list(runs), ["ccc", "a"]):  # of all models, and of some of them
        rows = {name: group[name].encode_rows(rows_of(len(name), 5 + len(name))) for name in names}
        for name, scores in group.score(rows).items():
            expected = Predictor.from_pretrained(runs[name], device="cpu").score(rows[name])
            np.testing.assert_allclose(scores, expected, atol=0.1 if precision == "bf16" else 2e-6, err_msg=name)
    assert {tuple(number for number, _ in groups) for groups in calls} == {(0, 1, 2), (0, 2)}
    storages = {one.model.method.sites[0].W_down.untyped_storage().data_ptr() for one in group.values()}
    assert len(storages) == 1, "the parameters of the models are parts of one tensor"


@pytest.mark.slow
def test_norms_of_their_own_in_half_precision(runs: dict[str, Path]) -> None:
    chosen = {name: runs[name] for name in ("adapter", "injector", "head", "pln")}
    group = PredictorGroup.from_pretrained(chosen, device="cpu", precision="bf16")
    assert group.together_with("head") == list(chosen)
    rows = {name: one.encode_rows(rows_of(4, 12)) for name, one in group.items()}
    for name, scores in group.score(rows).items():
        np.testing.assert_allclose(scores, group[name].score(rows[name]), atol=0.05, err_msg=name)


def test_predictions_by_name(runs: dict[str, Path]) -> None:
    group = PredictorGroup.from_pretrained([runs["adapter"], runs["injector"], runs["pln"]], device="cpu")
    assert list(group) == ["adapter", "injector", "pln"]
    assert len(group) == 3
    asked = {"injector": ROWS[:5], "pln": rows_of(1, 8), "adapter": []}
    found = group.predict(asked)
    assert list(found) == list(asked)
    assert len(found["adapter"]["prediction"]) == 0
    for name, rows in asked.items():
        for column, values in group[name].predict(rows).items():
            if len(values) and isinstance(values[0], float | np.floating):
                np.testing.assert_allclose(found[name][column], values, atol=1e-5)
            else:
                assert list(found[name][column]) == list(values)


@pytest.mark.slow
def test_threads_do_not_mix_the_attributes_of_their_batches(runs: dict[str, Path]) -> None:
    chosen = {name: runs[name] for name in ("injector", "pln", "lora")}
    group = PredictorGroup.from_pretrained(chosen, device="cpu", batch_size=5)
    rows = {name: one.encode_rows(rows_of(2, 20)) for name, one in group.items()}
    expected = group.score(rows)

    def ask(number: int) -> None:
        names = ["injector", "pln", "lora"][number % 3 :] if number % 2 else ["pln"]
        for name, scores in group.score({name: rows[name] for name in names}).items():
            np.testing.assert_allclose(scores, expected[name], atol=1e-5)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(9)))


def test_what_cannot_be(runs: dict[str, Path]) -> None:
    for given, message in (
        ([], r"the runs are .*give several folders"),
        (str(runs["adapter"]), r"the runs are '.*adapter': give several folders"),
        ([runs["adapter"], runs["adapter"]], "two of the runs are named 'adapter'"),
    ):
        with pytest.raises(ConfigError, match=message):
            PredictorGroup.from_pretrained(given)
    group = PredictorGroup.from_pretrained([runs["adapter"], runs["pln"]], device="cpu")
    with pytest.raises(ConfigError, match="there is no run 'stars': choose from adapter, pln"):
        group.predict({"stars": ROWS})
    with pytest.raises(DataError, match="'text'"):
        group.predict({"pln": [{"user": "u1"}], "adapter": ROWS})
