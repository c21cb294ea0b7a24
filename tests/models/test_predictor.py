from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import small_runs
import torch
from datasets import Dataset
from huggingface_hub import ModelCard
from trained_runs import TrainedRuns
from transformers import AutoTokenizer, PreTrainedModel

from attribune.core import overlap
from attribune.data.tables import read_table
from attribune.data.texts import TextInput
from attribune.data.windows import Head
from attribune.errors import ConfigError, DataError
from attribune.methods import Injector, MethodConfig, Plain
from attribune.models import predictor as predictor_module
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

ROWS = small_runs.reviews(40)
TABLE: dict[str, list[Any]] = {name: [row[name] for row in ROWS] for name in ("text", "user", "tags")}
METHOD = Injector(bottleneck=8, vector_size=8, initial_weight=0.5, initial_scale=0.3)


SCHEMA = Schema.fit(TABLE, [Categorical("user"), MultiLabel("tags", separator=";")])
TEXT = TextInput.of("text", window=Head(20))
CUDA = torch.device("cuda")


@pytest.fixture
def predictor_of(tiny_backbone: Callable[..., PreTrainedModel], backbone: Path) -> Callable[..., Predictor]:
    settings = {"task": Classification(classes=3), "tokenizer": AutoTokenizer.from_pretrained(backbone)}

    def make(method: MethodConfig = METHOD, **options: Any) -> Predictor:
        model = AttributeModel.build(tiny_backbone("bert"), SCHEMA, method=method, **settings)
        return Predictor(model, **{"text_input": TEXT, "batch_size": 7, "device": "cpu", **options})

    return make


@pytest.mark.slow
def test_the_batches_and_their_order_do_not_matter(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of()
    logits, report = predictor.logits(TABLE)
    assert logits.shape == (40, 3)
    assert np.isfinite(logits).all()
    assert report.attributes["user"].rows == 40
    order = np.random.default_rng(0).permutation(40)
    shuffled = {name: [values[row] for row in order] for name, values in TABLE.items()}
    predictor.batch_size = 3
    np.testing.assert_allclose(predictor.logits(shuffled)[0], logits[order], atol=1e-5)


def test_a_batch_ends_where_texts_become_much_shorter(predictor_of: Callable[..., Predictor]) -> None:
    texts = ["good " * 18] * 5 + ["bad"] * 90 + ["good " * 18] * 30
    rows = predictor_of().encode_rows({"text": texts, "user": ["u1"] * 125, "tags": [None] * 125})
    found = list(predictor_of().model.batches(rows, size=64))
    assert [batch["input_ids"].shape for _, batch in found] == [(35, 20), (64, 3), (26, 3)]
    assert sorted(np.concatenate([index for index, _ in found])) == list(range(125))
    few = list(predictor_of().model.batches(rows.take(np.array([0, 1, 10])), size=64))
    assert [batch["input_ids"].shape for _, batch in few] == [(3, 20)], "too few to be worth two passes"


@pytest.mark.slow
def test_hiding_the_attributes_is_leaving_them_empty(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of()
    empty = {"text": TABLE["text"], "user": [None] * 40, "tags": [""] * 40}
    hidden, _ = predictor.logits(TABLE, hide_attributes=True)
    np.testing.assert_allclose(predictor.logits(empty)[0], hidden, atol=1e-6)
    assert np.abs(hidden - predictor.logits(TABLE)[0]).max() > 1e-3


def test_a_method_without_attributes_reads_the_text_alone(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of(Plain())
    assert predictor.columns == ("text",)
    logits, _ = predictor.logits({"text": TABLE["text"]})
    np.testing.assert_array_equal(predictor.logits(TABLE)[0], logits)


def test_missing_columns(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of()
    predictor.check_columns(["tags", "user", "text", "more"], source="t.csv")
    with pytest.raises(DataError, match=r"t\.csv has no column 'text'; did you mean 'texts'\? .*\)$"):
        predictor.check_columns(["texts", "user", "tags"], source="t.csv")
    with pytest.raises(DataError, match=r"no column 'user' .*; where its values are not known, add it with empty"):
        predictor.check_columns(["text", "tags"], source="t.csv")


def test_messages_count_rows_from_the_one_given(predictor_of: Callable[..., Predictor]) -> None:
    broken = {"text": ["a", "b"], "user": [None, ["u2"]], "tags": ["a", "b"]}
    with pytest.raises(DataError, match="column 'user', row 102"):
        predictor_of().logits(broken, first_row=101)


def test_a_model_without_a_tokenizer_is_refused(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of()
    predictor.model.tokenizer = None
    with pytest.raises(ConfigError, match="has no tokenizer"):
        Predictor(predictor.model, text_input=TextInput.of("text"))


@pytest.mark.slow
def test_threads_do_not_see_each_others_attributes(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of()
    tables = [{"text": ["good"] * 5, "user": [f"user {i}"] * 5, "tags": [""] * 5} for i in range(6)]
    expected = [predictor.logits(table)[0] for table in tables]
    with ThreadPoolExecutor(6) as pool:
        found = pool.map(lambda i: predictor.logits(tables[i % 6])[0], range(24))
        np.testing.assert_allclose(list(found), expected * 4, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_rows_as_mappings_as_columns_and_as_a_frame(predictor_of: Callable[..., Predictor]) -> None:
    predictor = predictor_of()
    expected = predictor.task.decode(predictor.logits(TABLE)[0]).columns()
    rows = [{name: values[i] for name, values in TABLE.items()} for i in range(40)]
    for given in (TABLE, rows, pd.DataFrame(TABLE), Dataset.from_dict(TABLE)):
        found = predictor.predict(given)
        assert list(found) == ["prediction", *(f"probability_{i}" for i in range(3))]
        for name, values in found.items():
            np.testing.assert_array_equal(values, expected[name])
    lacking = predictor.predict([{"text": "good"}, {"text": "good", "user": None, "tags": ""}])
    assert lacking["probability_0"][0] == lacking["probability_0"][1]
    assert len(predictor.predict([])["prediction"]) == 0
    with pytest.raises(DataError, match="the input has no column 'text'"):
        predictor.predict([{"text": "good"}, {"user": "u1"}])
    with pytest.raises(DataError, match="different numbers of rows"):
        predictor.predict({"text": ["a", "b"], "user": ["u"], "tags": ["", ""]})


@pytest.fixture
def whole_model(backbone: Path) -> AttributeModel:
    settings = {"task": Classification(classes=3), "method": METHOD, "text_input": TEXT}
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    return AttributeModel.build(str(backbone), SCHEMA, tokenizer=tokenizer, **settings)


@pytest.mark.slow
def test_a_saved_model_is_all_that_a_predictor_needs(
    whole_model: AttributeModel, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    whole_model.save_pretrained(tmp_path / "model")
    again = Predictor.from_pretrained(tmp_path / "model", device="cpu")
    assert again.text_input == TEXT
    np.testing.assert_array_equal(again.logits(TABLE)[0], Predictor(whole_model, device="cpu").logits(TABLE)[0])
    card = (tmp_path / "model" / "README.md").read_text()
    assert 'predictor.predict([{"text": "...", "user": "...", "tags": "..."}])' in card
    assert str(trained_runs.folder) not in card
    assert str(tmp_path) not in card
    assert ModelCard(card).data.tags == ["attribune", "injector", "text-classification"]
    assert "## Results" not in card


def test_the_hub_gets_the_card_of_this_library(whole_model: AttributeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict[str, Any] = {}

    class Hub:
        def __init__(self, token: str | None) -> None:
            sent["token"] = token

        def create_repo(self, name: str, *, private: bool | None, exist_ok: bool) -> SimpleNamespace:
            return SimpleNamespace(repo_id=f"me/{name}")

        def upload_folder(self, *, repo_id: str, folder_path: str, **_: Any) -> str:
            sent["repo"], sent["card"] = repo_id, (Path(folder_path) / "README.md").read_text()
            sent["files"] = {path.name for path in Path(folder_path).iterdir()}
            return "address"

    monkeypatch.setattr("attribune.models.base.HfApi", Hub)
    assert whole_model.push_to_hub("stars", token="secret") == "address"
    assert (sent["repo"], sent["token"]) == ("me/stars", "secret")
    assert "library_name: attribune" in sent["card"]
    assert {"config.json", "schema.json", "model.safetensors", "tokenizer.json"} <= sent["files"]


def test_a_model_that_does_not_know_its_text_columns_asks_for_them(predictor_of: Callable[..., Predictor]) -> None:
    model = predictor_of().model
    with pytest.raises(ConfigError, match=r"which column is its text: give text_input='text'"):
        Predictor(model)


@pytest.mark.parametrize("damage", [{}, {"columns": []}, {"columns": [], "separator": "", "window": None}, [1]])
def test_a_damaged_text_input_is_refused(damage: Any) -> None:
    with pytest.raises(ConfigError, match="text"):
        TextInput.from_dict(damage)


def test_a_row_of_a_data_frame_is_a_row(predictor_of: Callable[..., Predictor]) -> None:
    predictor, frame = predictor_of(), pd.DataFrame(TABLE)
    expected = predictor.predict(frame)
    alone = predictor.predict(frame.iloc[3])
    assert alone["prediction"] == expected["prediction"][3]
    several = predictor.predict([frame.iloc[3], frame.iloc[5]])
    assert list(several["prediction"]) == [expected["prediction"][3], expected["prediction"][5]]
    for missing in (float("nan"), pd.NA, np.nan):
        assert predictor.predict({"text": missing, "user": "u1"}) == predictor.predict({"text": None, "user": "u1"})


@pytest.mark.parametrize(
    ("precision", "hint"), [("bfloat16", "did you mean 'bf16'"), ("float64", "choose from float32, bf16")]
)
def test_a_precision_in_which_nothing_is_predicted(
    predictor_of: Callable[..., Predictor], precision: str, hint: str
) -> None:
    with pytest.raises(ConfigError, match=hint):
        predictor_of(precision=precision)


def test_in_bf16_passes_read_the_backbone_in_bf16(predictor_of: Callable[..., Predictor]) -> None:
    predictor, seen = predictor_of(precision="bf16"), set()
    layer = predictor.model.neural().backbone.get_input_embeddings()
    with layer.register_forward_hook(lambda _module, _inputs, output: seen.add(output.dtype)):
        rounded = predictor.logits(TABLE)[0]
    assert seen == {torch.bfloat16}
    exact = Predictor(predictor.model, text_input=TEXT, device="cpu").logits(TABLE)[0]
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.1)
    assert not np.array_equal(rounded, exact)


def test_what_a_thread_prepares_gives_the_same(
    predictor_of: Callable[..., Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside a GPU: texts and batches are made in advance."""
    predictor = predictor_of()
    expected = predictor.logits(TABLE)[0]
    monkeypatch.setattr(predictor_module, "_ROWS", 16)
    monkeypatch.setattr(predictor_module, "ahead", lambda items, device: overlap.ahead(items, device=CUDA))
    np.testing.assert_allclose(predictor.logits(TABLE)[0], expected, rtol=0, atol=1e-6)
    damaged = TABLE | {"user": [*TABLE["user"][:-1], {"name": "u1"}]}
    with pytest.raises(DataError, match="row 40"):
        predictor.logits(damaged)


@pytest.mark.slow
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_is_copied_and_pickled(
    predictor_of: Callable[..., Predictor], copied: Callable[[Predictor], Predictor]
) -> None:
    predictor = predictor_of()
    expected = predictor.logits(TABLE)[0]
    with predictor.held():  # a copy does not wait for the passes of the other
        twin = copied(predictor)
        np.testing.assert_array_equal(twin.logits(TABLE)[0], expected)
    assert (twin.batch_size, twin.precision, twin.text_input) == (7, "float32", predictor.text_input)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"load it with Predictor.from_pretrained"):
        Predictor("runs/stars")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"of the type Linear, which reads no rows: give an AttributeModel"):
        Predictor(torch.nn.Linear(2, 2))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("index", [pa.uint32(), pa.int8()])
@pytest.mark.parametrize("kind", [pa.string_view(), pa.string()])
def test_categories_of_any_arrow_type(predictor_of: Callable[..., Predictor], index: Any, kind: Any) -> None:
    """As polars hands them over."""
    predictor, names = predictor_of(), list(dict.fromkeys(TABLE["user"]))
    codes = pa.array([names.index(name) for name in TABLE["user"]], index)
    users = pa.DictionaryArray.from_arrays(codes, pa.array(names, kind))
    given = pa.table({"text": TABLE["text"], "user": users, "tags": TABLE["tags"]})
    expected = predictor.logits(TABLE)[0]
    np.testing.assert_array_equal(predictor.logits(read_table(given))[0], expected)
    np.testing.assert_array_equal(predictor.logits(given)[0], expected)


@pytest.mark.parametrize("wrote", [("True", "False"), ("TRUE", "FALSE"), (True, False)], ids=str)
@pytest.mark.parametrize("reads", [("True", "False"), ("TRUE", "FALSE"), (True, False)], ids=str)
def test_a_boolean_is_the_same_value_in_a_file_and_in_a_table(wrote: tuple[Any, Any], reads: tuple[Any, Any]) -> None:
    schema = Schema.fit({"paid": [*wrote] * 3}, [Categorical("paid")])
    ids, report = schema.encode({"paid": [*reads, None]})
    assert ids[:, 0].tolist() == [*schema.encode({"paid": [*wrote]})[0][:, 0], 0]
    assert ids[0, 0] != ids[1, 0]
    assert report.attributes["paid"].unseen == 0
    task = Classification.fit([[*wrote] * 3])
    labels, known = task.encode_labels([[*reads]])
    assert [task.class_names[label].lower() for label in labels] == ["true", "false"]
    assert known.all()
    assert not task.unseen_labels([[*reads]])
