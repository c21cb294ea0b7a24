"""The scores of a table, for which a network runs once, are those of `Predictor.logits`, whatever changed since."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small_runs
from transformers import AutoTokenizer, PreTrainedModel

from attribune.data.tables import read_table
from attribune.data.texts import TextInput
from attribune.methods import Injector
from attribune.models.blend import Blend
from attribune.models.model import AttributeModel
from attribune.models.predictor import Predictor
from attribune.models.table_scores import TableScores
from attribune.models.word_features import LinearFeatures
from attribune.schema import Categorical, MultiLabel, Schema
from attribune.tasks import Classification

ROWS = small_runs.reviews(24)
TABLE = read_table(pd.DataFrame(ROWS)[["text", "user", "tags"]])
HIDDEN: list[bool | Collection[str]] = [False, True, ["user"], ["tags"], ["user", "tags"], ["tags", "user"]]


@pytest.fixture
def predictor(tiny_backbone: Callable[..., PreTrainedModel], backbone: Path) -> Predictor:
    """A calibrated network, with a linear model beside it."""
    schema = Schema.fit(TABLE, [Categorical("user"), MultiLabel("tags", separator=";")])
    method = Injector(bottleneck=8, vector_size=8, initial_weight=0.5, initial_scale=0.3)
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    task = Classification(classes=3)
    model = AttributeModel.build(tiny_backbone("bert"), schema, method=method, task=task, tokenizer=tokenizer)
    features = LinearFeatures.fit(TABLE["text"], schema, max_features=50)
    rng = np.random.default_rng(0)
    model.blend = Blend(
        features=features,
        weight=rng.normal(size=(features.width, 3)).astype("f4"),
        bias=rng.normal(size=3).astype("f4"),
        neural_weight=0.7,
        linear_weight=1.3,
        owners=np.zeros((0, 3), dtype=np.int32),
    )
    model.config.calibration_temperature = 1.7
    return Predictor(model, text_input=TextInput.of("text"), device="cpu")


def alike(scores: TableScores, predictor: Predictor) -> None:
    """They are what the predictor says now of the table, blended and alone."""
    for hidden in HIDDEN:
        for blend, judged in ((True, predictor), (False, predictor.without_blend())):
            expected = judged.logits(TABLE, hide_attributes=hidden)[0]
            found = scores.logits(hidden, blend=blend)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"{hidden}, {blend}")


def test_each_choice_of_hidden_attributes_has_scores_of_its_own(predictor: Predictor) -> None:
    scores = TableScores(predictor, TABLE)
    alike(scores, predictor)
    for blend in (True, False):
        found = [scores.logits(hidden, blend=blend) for hidden in HIDDEN[:4]]
        assert all(np.abs(one - other).max() > 1e-3 for one, other in combinations(found, 2))
    assert np.abs(scores.logits() - scores.logits(blend=False)).max() > 0.1


@pytest.mark.parametrize("temperature", [None, 0.6])
def test_what_is_fitted_later_counts(predictor: Predictor, temperature: float | None) -> None:
    scores = TableScores(predictor, TABLE)
    for hidden in HIDDEN:
        scores.logits(hidden)
    model = predictor.model.neural("")
    model.config.calibration_temperature = temperature
    model.blend = replace(model.blend, linear_weight=0.2)
    alike(scores, predictor)
    model.blend = None
    alike(scores, predictor)


def test_a_network_runs_once_for_each_choice(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, passes = TableScores(predictor, TABLE), []
    score = type(predictor.model).score
    monkeypatch.setattr(
        type(predictor.model), "score", lambda model, batch: passes.append(len(batch)) or score(model, batch)
    )
    for _ in range(2):
        for hidden in HIDDEN:
            for blend in (True, False):
                scores.logits(hidden, blend=blend)
    assert len(passes) == 4, "none hidden, all, and each of two"
