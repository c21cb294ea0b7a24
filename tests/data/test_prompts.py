"""Prompts and responses as ids, and batches of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trained_runs import TrainedRuns
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from attribune.data.encoding import encode
from attribune.data.readers.prompts import PromptCollator, PromptEncoder
from attribune.data.texts import TextInput
from attribune.data.windows import Chunks, Head
from attribune.errors import AttribuneWarning, ConfigError, DataError
from attribune.schema import Categorical, Schema

CHAT = (
    "{% for m in messages %}[CLS] {{ m['role'] }} {{ m['content'] }} [SEP] {% endfor %}"
    "{% if add_generation_prompt %}[CLS] assistant {% endif %}"
)
ROWS = {"ask": ["the film", "", "plot"], "answer": ["was great and very fine", "a dull cast", ""]}


@pytest.fixture(scope="module")
def tokenizer(trained_runs: TrainedRuns) -> PreTrainedTokenizerFast:
    """Begins a text with [CLS] and ends it with [SEP]."""
    return AutoTokenizer.from_pretrained(trained_runs.backbone("llama", is_generative=True))


def words(tokenizer: Any, ids: list[int]) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens(ids))


def encoded(
    tokenizer: Any, size: int = 12, *, rows: dict[str, list[str]] = ROWS, separate: bool = False, **options: Any
) -> list[tuple[str, str]]:
    """Of each row the words that are read, and those that are to be written with a point for every other."""
    text = TextInput.of("answer", window=Head(size), **{"prompt": "ask", "separator": " ", **options})
    found = PromptEncoder(tokenizer, text, separate=separate).rows(text, rows)
    assert found.labels is not None
    assert found.empty.tolist() == [not answer for answer in rows["answer"]]
    pad = tokenizer.convert_tokens_to_ids("[PAD]")
    labels = [[pad if place == -100 else place for place in row] for row in found.labels]
    shown = [words(tokenizer, row).replace("[PAD]", ".") for row in labels]
    return list(zip([words(tokenizer, ids) for ids in found.inputs], shown, strict=True))


def test_a_causal_model_reads_the_prompt_and_learns_the_response(tokenizer: Any) -> None:
    assert encoded(tokenizer) == [
        ("[CLS] the film was great and very fine [SEP]", ". . . was great and very fine [SEP]"),
        ("[CLS] a dull cast [SEP]", ". a dull cast [SEP]"),
        ("[CLS] plot [SEP]", ". . [SEP]"),
    ]


@pytest.mark.parametrize(
    ("size", "answer", "read", "written"),
    [
        (9, "fine", "[CLS] film was a plot and so fine [SEP]", ". . . . . . . fine [SEP]"),
        (8, "very dull so", "[CLS] plot and so very dull so [SEP]", ". . . . very dull so [SEP]"),
        # Half of the room for six is the prompt's: the response loses its end, and ends with no end token.
        (8, "very dull so the cast was", "[CLS] plot and so very dull so", ". . . . very dull so"),
    ],
)
def test_what_does_not_fit_is_cut_from_the_prompt_first(
    tokenizer: Any, size: int, answer: str, read: str, written: str
) -> None:
    rows = {"ask": ["the film was a plot and so"], "answer": [answer]}
    assert encoded(tokenizer, size, rows=rows) == [(read, written)]


def test_an_encoder_reads_the_prompt_alone(tokenizer: Any) -> None:
    assert encoded(tokenizer, separate=True) == [
        ("[CLS] the film [SEP]", "was great and very fine [SEP]"),
        ("[CLS] [SEP]", "a dull cast [SEP]"),
        ("[CLS] plot [SEP]", "[SEP]"),
    ]
    assert encoded(tokenizer, 3, separate=True)[0] == ("[CLS] film [SEP]", "was great and")


def test_a_chat_template_stands_around_both(tokenizer: Any) -> None:
    tokenizer.chat_template = CHAT
    try:
        assert encoded(tokenizer, 20, chat=True)[0] == (
            "[CLS] [UNK] the film [SEP] [CLS] [UNK] was great and very fine [SEP]",
            ". . . . . . . was great and very fine [SEP]",
        )
        text = TextInput.of("answer", prompt="ask", chat=True)
        ids, cut = PromptEncoder(tokenizer, text).prompts(["the film"])
        assert (words(tokenizer, ids[0]), cut) == ("[CLS] [UNK] the film [SEP] [CLS] [UNK]", 0)
        tokenizer.chat_template = "{{ messages | length }}"
        with pytest.raises(ConfigError, match="prompt and response cannot be distinguished"):
            PromptEncoder(tokenizer, text).rows(text, ROWS)
        tokenizer.chat_template = None
        with pytest.raises(ConfigError, match="the tokenizer has no chat template: leave chat out"):
            PromptEncoder(tokenizer, text)
        with pytest.raises(ConfigError, match="an encoder-decoder reads no chat"):
            PromptEncoder(tokenizer, text, separate=True)
    finally:
        tokenizer.chat_template = None


@pytest.mark.parametrize(("separate", "end"), [(False, ""), (True, " [SEP]")])
def test_prompts_are_as_in_training(separate: bool, end: str, tokenizer: Any) -> None:
    text = TextInput.of("answer", prompt="ask", separator=" ", window=Head(6))
    ids, cut = PromptEncoder(tokenizer, text, separate=separate).prompts(["the film", "the film was a plot"])
    assert [words(tokenizer, one) for one in ids] == [f"[CLS] the film{end}", f"[CLS] film was a plot{end}"]
    assert cut == 1


def test_a_text_without_a_prompt_goes_on_from_its_beginning(tokenizer: Any) -> None:
    text = TextInput.of("answer")
    assert words(tokenizer, PromptEncoder(tokenizer, text).prompts(["the film", ""])[0][0]) == "[CLS] the film"
    assert PromptEncoder(tokenizer, text).rows(text, ROWS).inputs[1] == [2, 8, 20, 11, 3]


def test_a_tokenizer_that_begins_no_text_begins_with_its_begin_or_end_token(tokenizer: Any) -> None:
    plain = AutoTokenizer.from_pretrained(tokenizer.name_or_path)
    plain.backend_tokenizer.post_processor = None
    text = TextInput.of("answer")
    assert PromptEncoder(plain, text).rows(text, ROWS).inputs[1] == [2, 8, 20, 11, 3]
    plain.bos_token = None
    assert PromptEncoder(plain, text).rows(text, ROWS).inputs[1] == [3, 8, 20, 11, 3]
    plain.eos_token = None
    with pytest.raises(ConfigError, match="has no end token: set"):
        PromptEncoder(plain, text)


def test_windows_that_are_not_for_writing_are_refused(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="the window 'chunks:8x2' cannot be used to write texts: choose head:N"):
        PromptEncoder(tokenizer, TextInput.of("answer", window=Chunks(8, 2)))
    with pytest.raises(ConfigError, match="but the backbone takes 10"):
        PromptEncoder(tokenizer, TextInput.of("answer", window=Head(11)), limit=10)


@pytest.mark.parametrize("separate", [False, True])
def test_batches_pad_labels_with_what_is_ignored(tokenizer: Any, separate: bool) -> None:
    schema = Schema.fit({"user": ["a", "b"]}, [Categorical("user")])
    table = {**ROWS, "user": ["a", "b", "a"]}
    text = TextInput.of("answer", prompt="ask", separator=" ", window=Head(12))
    encoder = PromptEncoder(tokenizer, text, separate=separate)
    with pytest.warns(AttribuneWarning, match="rows left out, without a text: 1 of 3"):
        data = encode(table, schema, tokenizer, text=text, encoder=encoder)
    assert len(data) == 2  # the row without a response is left out
    rows = [data[0], data[1]]
    assert [row["length"] for row in rows] == ([6, 4] if separate else [9, 5])
    for left in (False, True):
        batch = PromptCollator(tokenizer, schema, separate=separate, left=left)(rows)
        for number, row in enumerate(rows):
            kept = batch["attention_mask"][number].bool()
            assert batch["input_ids"][number][kept].tolist() == row["input_ids"]
            labels = batch["labels"][number]
            side = labels[len(labels) - len(row["labels"]) :] if left and not separate else labels[: len(row["labels"])]
            assert side.tolist() == row["labels"]
            assert int((labels != -100).sum()) == sum(label != -100 for label in row["labels"])
        assert (batch["input_ids"].shape == batch["labels"].shape) is not separate
        assert batch["attribute_ids"].tolist() == [[1], [2]]
        assert bool(batch["attention_mask"][1, -1]) is left
    for row in rows:
        del row["labels"]
    assert "labels" not in PromptCollator(tokenizer, schema)(rows)


def test_a_missing_prompt_column_is_named(tokenizer: Any) -> None:
    text = TextInput.of("answer", prompt="question")
    with pytest.raises(DataError, match="question"):
        encode(ROWS, Schema([]), tokenizer, text=text, encoder=PromptEncoder(tokenizer, text))


def test_a_text_input_comes_back_from_json() -> None:
    for text in (TextInput.of("a"), TextInput.of(["a", "b"], prompt=["c", "d"], chat=True, window=Head(9))):
        assert TextInput.from_dict(text.to_dict()) == text
    with pytest.raises(ConfigError, match="a chat template needs a prompt"):
        TextInput.of("a", chat=True)


def test_scores_and_loss_of_a_task() -> None:
    from attribune.tasks import Generation, task_from_dict

    task = Generation(missing=("", "none"))
    assert task_from_dict(task.to_dict()) == task
    marks, given = task.encode_labels([["good", None, "good", "none"]])
    assert given.tolist() == [True, False, True, False]
    assert marks[0] == marks[2] != marks[3]
    logits = torch.randn(2, 3, 5, dtype=torch.float64)
    labels = torch.tensor([[1, -100, 4], [-100, -100, -100]])
    nats = -logits.log_softmax(dim=2)
    expected = (nats[0, 0, 1] + nats[0, 2, 4]).item()
    scores = task.scores(logits, labels)
    assert scores[:, 1].tolist() == [2, 0]
    assert scores[:, 0].tolist() == pytest.approx([expected, 0], rel=1e-5)
    assert task.loss(logits, labels).item() == pytest.approx(expected / 2, rel=1e-5)
    assert task.loss(logits, labels[1:].expand(2, -1)).item() == 0
    found = task.metrics(scores.numpy(), marks[:2])["perplexity"]
    assert found.value() == pytest.approx(torch.tensor(expected / 2).exp().item(), rel=1e-5)
    assert task.decode(scores.numpy()).columns()["tokens"].tolist() == [2, 0]
    with pytest.raises(DataError, match="none of the 1 texts has a token"):
        task.metrics(scores[1:].numpy(), marks[:1])
