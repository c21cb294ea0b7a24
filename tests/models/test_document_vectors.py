"""Vectors of texts by their attributes: what the head reads, whatever the batches and the form of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
import torch
from transformers import AutoTokenizer

from attribune.apps.sentence_module import AttributeModule
from attribune.data.encoding import encode
from attribune.data.readers.base import Collator
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.methods import Injector, MethodConfig, Plain, Upa
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.schema import Categorical, Schema
from attribune.schema.schema import Revision
from attribune.tasks import Classification, Preference, Regression, Similarity, Task

ROWS = small_runs.reviews(23)
TABLE = {name: [row[name] for row in ROWS] for name in ("text", "user")}
INJECTOR = Injector(bottleneck=5, vector_size=7, initial_weight=0.5, initial_scale=0.3)


def build(backbone: Path, method: MethodConfig = INJECTOR, task: Task | None = None, **options: Any) -> AttributeModel:
    torch.manual_seed(0)
    schema = Schema.fit(TABLE, [Categorical("user")])
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    settings = {"task": task or Classification(classes=2), "tokenizer": tokenizer, "text_input": "text", **options}
    return AttributeModel.build(str(backbone), schema, method=method, **settings)


def test_a_module_reads_the_values_that_the_model_knows_now(backbone: Path) -> None:
    model = build(backbone).eval()
    known, module = model.values.known(), AttributeModule(model)
    first, *_, last = known.schema["user"].values
    before = model.encode("a great film", user=last)
    model.values.use(known.revised(Revision.removing(known.schema, {"user": (first,)})))
    with torch.no_grad():
        found = module(module.preprocess(["a great film"], user=last))["sentence_embedding"][0]
    np.testing.assert_allclose(found.numpy(), before, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"), [(INJECTOR, {}), (Upa(vector_size=7), {"head_size": 11}), (Plain(), {})]
)
def test_vectors_are_what_the_head_reads(backbone: Path, method: MethodConfig, options: dict[str, Any]) -> None:
    model = build(backbone, method, **options)
    read: list[torch.Tensor] = []
    layer = model.head if model.hidden_layer is None else model.hidden_layer
    layer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].detach()))
    model.eval()
    rows = encode(TABLE, model.input_schema, model.tokenizer, text="text")
    for row in range(len(ROWS)):  # each alone, so that batches and padding have no part in it
        model(**Collator(model.tokenizer, model.input_schema)([rows[row]]))
    model.train()
    found = model.encode(TABLE, batch_size=4)
    assert model.training
    np.testing.assert_allclose(found, torch.cat(read[: len(ROWS)]).numpy(), atol=1e-5)
    assert found.shape == (len(ROWS), model.document_size)
    np.testing.assert_allclose(Predictor(model, device="cpu").encode(TABLE), found, atol=1e-5)


def test_rows_of_every_form(backbone: Path) -> None:
    model = build(backbone)
    expected = model.encode(TABLE)
    np.testing.assert_allclose(model.encode(pd.DataFrame(TABLE)), expected, atol=1e-6)
    single = model.encode(ROWS[3]["text"], user=ROWS[3]["user"])
    np.testing.assert_allclose(single, expected[3], atol=1e-5)
    lengths = np.linalg.norm(model.encode(TABLE, normalize=True), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    assert model.encode({"text": [], "user": []}).shape == (0, model.document_size)
    other = model.encode(ROWS[3]["text"], user="u1" if ROWS[3]["user"] != "u1" else "u2")
    assert abs(other - single).max() > 1e-4, "who reads decides"


def test_what_has_no_vectors_is_refused(backbone: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'user'"):
        build(backbone).encode("dull", usr="u1")
    with pytest.raises(ConfigError, match="'preference' compares texts"):
        build(backbone, task=Preference()).encode(TABLE)
    with pytest.raises(ConfigError, match="give text_input='text'"):
        build(backbone, text_input=None).encode(TABLE)


@pytest.mark.slow
def test_a_model_that_compares_has_vectors_of_both_texts(backbone: Path, tmp_path: Path) -> None:
    """The products of vectors of length 1 are the similarities that the model predicts."""
    text = TextInput.of("text", pair="found")
    model = build(backbone, task=Similarity(form="pairs"), text_input=text).eval()
    rows = [{**{name: row[name] for name in ("text", "user")}, "found": f"the film {row['text']}"} for row in ROWS]
    predictor = Predictor(model, device="cpu")
    queries, documents = (predictor.encode(rows, normalize=True, of=of) for of in ("text", "text_pair"))
    np.testing.assert_allclose((queries * documents).sum(axis=1), predictor.predict(rows)["prediction"], atol=1e-6)
    np.testing.assert_allclose(
        model.encode([row["found"] for row in rows], of="text_pair", normalize=True), documents, atol=1e-5
    )
    np.testing.assert_allclose(
        model.encode(rows[0]["text"], user=rows[0]["user"], normalize=True), queries[0], atol=1e-5
    )
    assert abs(model.encode(rows[0]["text"], user="nobody", normalize=True) - queries[0]).max() > 1e-4
    with pytest.raises(DataError, match="have 'user', which the model does not read"):
        model.encode("the film", of="text_pair", user="u1")
    with pytest.raises(ConfigError, match="of is 'pair': give text, or"):
        model.encode("the film", of="pair")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the task is 'regression'"):
        build(backbone, task=Regression()).encode("dull", of="text_pair")
    module = AttributeModule(model, of="text_pair")
    module.save(str(tmp_path))
    again = AttributeModule.load(str(tmp_path))
    with torch.inference_mode():
        found = again.forward(again.preprocess([row["found"] for row in rows]))["sentence_embedding"]
    np.testing.assert_allclose(found.numpy(), model.encode(rows, of="text_pair"), atol=1e-5)


def test_a_module_makes_the_batches_of_sentence_transformers(backbone: Path, tmp_path: Path) -> None:
    model = build(backbone).eval()
    module, rows = AttributeModule(model), [{name: row[name] for name in ("text", "user")} for row in ROWS[:5]]
    with torch.inference_mode():
        found = module.forward(module.preprocess(rows))["sentence_embedding"]
        texts = module.forward(module.preprocess(["dull", "great"], prompt="the film: ", user="u1"))
    np.testing.assert_allclose(found.numpy(), model.encode(rows), atol=1e-6)
    expected = model.encode(["the film: dull", "the film: great"], user="u1")
    np.testing.assert_allclose(texts["sentence_embedding"].numpy(), expected, atol=1e-6)
    module.save(str(tmp_path / "module"))
    again = AttributeModule.load(str(tmp_path), subfolder="module", local_files_only=True)
    np.testing.assert_allclose(again.model.encode(rows), model.encode(rows), atol=1e-6)
    assert again.get_embedding_dimension() == model.document_size


def test_sentence_transformers_search_by_attributes(backbone: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    model = build(backbone)
    rows = [{name: row[name] for name in ("text", "user")} for row in ROWS]
    searcher = library.SentenceTransformer(modules=[AttributeModule(model)], device="cpu")
    np.testing.assert_allclose(searcher.encode(rows, batch_size=4), model.encode(rows), atol=1e-5)
    np.testing.assert_allclose(searcher.encode(["dull"], user="u1"), model.encode(["dull"], user="u1"), atol=1e-5)
    searcher.save(str(tmp_path))
    again = library.SentenceTransformer(str(tmp_path), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(again.encode(rows), model.encode(rows), atol=1e-5)
