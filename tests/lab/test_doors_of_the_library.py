"""The lab's methods at the library's doors: readers, tokenizers with tokens of their own, merged forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_models import make_batch, make_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from attribune.backbones.added_tokens import known_embeddings
from attribune.data.readers import reader_of
from attribune.data.readers.in_text import InTextReader
from attribune.errors import ConfigError
from attribune.export.export import merge_model, merged_model
from attribune.methods import METHODS, Injector, MethodConfig
from attribune.models.model import AttributeModel
from attribune.schema import Categorical, Schema
from attribune.tasks import Classification
from attribune_lab.history.reader import HistoryEncoder
from attribune_lab.history.vectors import FrozenVectors
from attribune_lab.methods import Basis, Hcsc, Upnn


def test_histories_have_a_reader_of_their_own() -> None:
    assert {name: reader_of(Classification, kind()) for name, kind in METHODS.items() if kind.reader} == {
        "history": HistoryEncoder
    }
    names = {name: kind().written(["user"], []) for name, kind in METHODS.items()}
    assert [name for name, written in names.items() if written] == ["in-text"]
    assert reader_of(Classification, METHODS["in-text"](), written=names["in-text"]) is InTextReader


def test_histories_are_compared_by_added_tokens_too(
    tiny_backbone: Callable[..., PreTrainedModel], tmp_path: Path
) -> None:
    backbone = tiny_backbone("bert")
    words = WordLevel({f"w{number}": number for number in range(known_embeddings(backbone))}, unk_token="w0")
    inner = Tokenizer(words)
    inner.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="w1", unk_token="w0")
    tokenizer.add_tokens(["<title>"])
    backbone.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = AttributeModel.build(
        str(tmp_path),
        Schema.fit({"user": ["a", "b", "a"]}, [Categorical("user")]),
        task=Classification(classes=2),
        method=Injector(bottleneck=8, vector_size=8),
        tokenizer=tokenizer,
        text_input="text",
        added_tokens="train",
    )
    assert FrozenVectors(model.eval()).of_texts(["w5 <title>", "w5"]).shape == (2, 48)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (Upnn(fused=True), "'upnn' acts at the point 'embed' and 'classify'"),
        (Hcsc(), "'hcsc' acts at the point 'pool'"),
        (Basis(), "'basis' acts at the point 'pool' and 'classify'"),
        (Basis(place="word"), "'basis' acts at the point 'embed' and 'pool'"),
    ],
)
def test_what_has_no_merged_form_says_why(method: MethodConfig, reason: str) -> None:
    model = make_model("bert", method)
    with pytest.raises(ConfigError, match=reason):
        merged_model(model, merge_model(model, make_batch(2)["attribute_ids"][0]))
