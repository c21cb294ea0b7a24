"""Methods with vectors that also read the values of attributes in front of the text, by ``--written``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small_runs
from families import tiny_backbone
from lab_methods import needs_lab
from trained_runs import TrainedRuns, randomised

from attribune import AttributeModel, ConfigError, InText, Plain, TextInput, enrol, forget, next_texts
from attribune.data.readers.in_text import InTextRows
from attribune.models.predictor import Predictor
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe
from attribune.schema import Categorical, Schema
from attribune.tasks import Classification
from attribune.training.plan import comparison_recipes

# The tokenizer of the tiny backbone knows these names.
ROWS = [{**row, "user": f"n{row['user'][1:]}", "tags": row["tags"][:5]} for row in small_runs.reviews(90, seed=3)]
TEXTS = pd.DataFrame(
    {
        "text": ["the film was great", "a dull plot", "so fine", "n7"],
        "user": ["n0", "n3", "n50", ""],
        "tags": ["drama", "", "war", ""],
    }
)
DATA: dict[str, Any] = {"train": "t.csv", "text": "text", "label": "stars", "attributes": ["user", "tags"]}


def recipe(**more: Any) -> Recipe:
    """A recipe that writes users; more are other parts of it."""
    data = {**DATA, "written": ["user"], **more.pop("data", {})}
    return Recipe.from_dict({"data": data, **more})


@pytest.fixture
def run(trained_runs: TrainedRuns) -> Path:
    more = ["method.vector_size=1", "training.precision=bf16", "--attributes", "tags", "--written", "user"]
    return trained_runs("injector", *more, "--no-baselines", "--compare", "none", "shuffled", rows=ROWS)


@pytest.mark.slow
def test_a_saved_model_writes_what_it_learned_with(run: Path, tmp_path: Path) -> None:
    recipe, predictor = load_run(run)
    assert recipe.data.written == recipe.written == ("user",)
    given = predictor.logits(TEXTS)[0]
    model = AttributeModel.from_pretrained(shutil.copytree(run / "model", tmp_path / "model"))
    np.testing.assert_array_equal(Predictor(model).logits(TEXTS)[0], given)
    exact = Predictor(model, precision="float32")
    rows, given = exact.encode_rows(TEXTS), exact.logits(TEXTS)[0]
    assert isinstance(rows, InTextRows)
    differs = np.abs(given - exact.logits(TEXTS, hide_attributes=True)[0]).max(axis=1) > 1e-5
    assert differs.tolist() == [True, True, True, False]  # the name n50 is in no training row
    without_user = exact.logits(TEXTS.assign(user=None))[0]
    np.testing.assert_allclose(exact.logits(TEXTS, hide_attributes=["user"])[0], without_user, atol=1e-6)
    alone = exact.logits(TEXTS.assign(user=None, tags=None))[0]
    np.testing.assert_allclose(exact.score(rows.hide_attributes()), alone, atol=1e-6)


@pytest.mark.slow
def test_comparisons_keep_what_is_written_where_they_can(run: Path) -> None:
    texts = {name: RunFolder(run / "compare" / name).read_recipe().written for name in ("none", "shuffled")}
    assert texts == {"none": (), "shuffled": ("user",)}
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert "behind the values of `user` as words" in card
    assert "as words" not in (run / "compare" / "none" / "model" / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_new_value_is_learned_with_its_name_written(run: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    copy = trained_runs.copy(randomised(trained_runs, run, size=0.5), tmp_path / "run")
    before = load_run(copy)[1].logits(TEXTS)[0]
    new = pd.DataFrame([{**row, "user": "n50"} for row in ROWS[:6]])
    done = enrol(copy, new, attributes="user")
    assert [(value.value, value.rows) for value in done.values] == [("n50", 6)]
    assert done.values[0].loss_after < done.values[0].loss_before
    predictor = load_run(copy)[1]
    after = predictor.logits(TEXTS)[0]
    np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])
    assert np.abs(after[2] - before[2]).max() > 1e-6
    rows = predictor.encode_rows(TEXTS)
    ids = rows.attribute_ids.copy()
    ids[:, predictor.schema["user"].columns] = predictor.schema["user"].values.ids(["n50"])
    expected = predictor.logits(TEXTS.assign(user="n50"))[0]
    np.testing.assert_array_equal(predictor.score(rows.with_attribute_ids(ids)), expected)
    assert any("reads values as they are written" in note for note in forget(copy, "user", "n50").notes)


@pytest.mark.slow
def test_the_next_texts_of_a_value_are_read_behind_its_name(
    run: Path, trained_runs: TrainedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []
    pieces = InTextRows.pieces
    monkeypatch.setattr(InTextRows, "pieces", lambda rows: read.extend(pieces(rows).rows.inputs) or pieces(rows))
    copy = randomised(trained_runs, run, size=0.5)
    texts = pd.DataFrame({"text": ["a dull plot", "a dull plot", "so fine"], "tags": None})
    found = next_texts(copy, texts, attribute="user", value="n50")
    assert len({one.text for one in found}) == len(found) == 2
    assert {tuple(ids[:4]) for ids in read} == {tuple(load_run(copy)[1].model.tokenizer("user: n50")["input_ids"][:4])}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"data": {"written": ["usr"]}}, "'usr' is not an attribute.*did you mean 'user'"),
        ({"data": {"written": ["user", "user"]}}, "user is named twice"),
        ({"data": {"window": "chunks"}}, "read at once, behind its values.*choose head"),
        pytest.param({"backbone": {"name": "bilstm"}}, "'bilstm'.*choose a pretrained backbone", marks=needs_lab),
        ({"method": "in-text"}, "in-text.*writes the values of all attributes.*leave written"),
        ({"method": "none"}, "none.*reads no attributes"),
        ({"method": "linear"}, "'linear' is a baseline"),
        pytest.param({"method": "history"}, "history.*puts rows of its own in front", marks=needs_lab),
        ({"task": "tags", "method": "injector"}, "the task 'tags' scores tokens"),
        ({"task": "similarity", "method": "injector", "data": {"text_pair": "more"}}, "'similarity' compares texts"),
        ({"task": "preference", "method": "injector", "data": {"text_pair": "more"}}, "'preference' compares texts"),
        ({"task": "generation", "method": "injector", "data": {"label": []}}, "'generation' writes text"),
    ],
    ids=lambda one: str(one) if isinstance(one, dict) else "",
)
def test_what_cannot_be_written_is_refused_at_once(more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){said}"):
        recipe(**more)


def test_methods_to_compare_with_write_what_they_can() -> None:
    found = comparison_recipes(recipe(), ["none", "in-text", "linear", "plora", "shuffled"])
    written = {name: (other.data.written, other.written) for name, other in found.items()}
    assert written == {
        "none": ((), ()),
        "in-text": ((), ("user", "tags")),
        "linear": ((), ()),
        "plora": (("user",), ("user",)),
        "shuffled": (("user",), ("user",)),
    }


def test_a_model_of_python_code_writes_what_its_text_says() -> None:
    schema, text = Schema.fit({"user": ["a", "b"]}, [Categorical("user")]), TextInput.of("text", written="user")
    assert TextInput.from_dict(text.to_dict()) == text

    def built(**options: Any) -> AttributeModel:
        given = {"text_input": text, "task": Classification(classes=2), **options}
        return AttributeModel.build(tiny_backbone("bert"), schema, **given)

    assert built().written == ("user",)
    assert built(text_input="text").written == ()
    assert built(text_input="text", method=InText()).written == ("user",)
    for wrong, said in (
        ({"method": Plain()}, "'none' reads no attributes"),
        ({"text_input": TextInput.of("text", written="usr")}, "no attribute 'usr'; did you mean 'user'"),
        ({"chunk": 8}, "chunk is 8"),
    ):
        with pytest.raises(ConfigError, match=said):
            built(**wrong)
