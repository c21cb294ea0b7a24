"""Models that write: every method in every family, with and without cache, padding, beams; loss, saving, refusals."""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from families import tiny_backbone
from tiny_models import at_random, exactly, make_batch, make_schema
from torch import Tensor
from trained_runs import TrainedRuns
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from attribune.backbones.architecture import LANGUAGE_MODEL
from attribune.errors import ConfigError, DataError, ModelFolderError
from attribune.methods import (
    Adapter,
    Chim,
    Combined,
    Injector,
    MethodConfig,
    Plain,
    Pln,
    Plora,
    Poly,
    Prefix,
    Tokens,
    Upa,
)
from attribune.models.auto import load_model, model_class
from attribune.models.config import AttributeConfig
from attribune.models.generator import AttributeGenerator
from attribune.models.model import AttributeModel
from attribune.tasks import TASKS

pytestmark = pytest.mark.slow

ENCODER_DECODERS = ("t5", "umt5")
FAMILIES = (
    *("gpt2", "llama", "mistral", "qwen2", "qwen3", "gpt_neox", "olmo2", "modernbert-decoder", "glm4", "mixtral"),
    *ENCODER_DECODERS,
)
METHODS: dict[str, MethodConfig] = {
    "adapter": Adapter(bottleneck=5),
    "injector": Injector(bottleneck=5, vector_size=7),
    "injector pre": Injector(bottleneck=5, vector_size=7, aggregation="pre"),
    "pln": Pln(vector_size=7, norms="both", bias_terms="both"),
    "plora": Plora(rank=3, vector_size=7),
    "poly": Poly(rank=3),
    "prefix": Prefix(place="attention", length=3, vector_size=7),
    "prefix input": Prefix(length=3, vector_size=7),
    "tokens": Tokens(),
    "prefix input+injector": Combined(parts=(Prefix(length=3, vector_size=7), Injector(bottleneck=5, vector_size=7))),
    "plora+injector": Combined(parts=(Plora(rank=3, vector_size=7), Injector(bottleneck=5, vector_size=7))),
}
IN_FRONT = [name for name, method in METHODS.items() if "embed" in method.points]
EXACT = {"rtol": 1e-9, "atol": 1e-9}


def once_unless(is_kept: bool) -> list[pytest.MarkDecorator]:
    return [] if is_kept else [pytest.mark.exhaustive]


# One of each kind: learned positions, turned ones, and an encoder in front.
WRITERS = [pytest.param(family, marks=once_unless(family in ("gpt2", "llama", "t5"))) for family in FAMILIES]


def generator(family: str, method: MethodConfig | None = None, **options: Any) -> AttributeGenerator:
    """A model with random parameters in float64, so that what is compared may be compared exactly."""
    method = Injector(bottleneck=5, vector_size=7) if method is None else method
    model = AttributeGenerator.build(
        tiny_backbone(family, is_generative=True), make_schema(2), method=method, tuning="frozen", **options
    )
    if any(True for _ in model.method.parameters()):
        at_random(model.method, size=0.4)
    return exactly(model).eval()


def prompts(family: str, **options: Any) -> dict[str, Tensor]:
    """A batch whose prompts end where their rows end, as generation wants them."""
    return make_batch(2, padding="right" if family in ENCODER_DECODERS else "left", **options)


def read(model: AttributeGenerator, batch: dict[str, Tensor], written: Tensor, **options: Any) -> Tensor:
    """Logits for the ids that were written after a prompt, (B, written, V), all read at once."""
    if model.config.is_encoder_decoder:
        begun = torch.zeros_like(written[:, :1])
        decoder_ids = torch.cat([begun, written[:, :-1]], dim=1)
        return model(**batch, decoder_input_ids=decoder_ids, **options).logits
    ids = torch.cat([batch["input_ids"], written], dim=1)
    mask = torch.cat([batch["attention_mask"], torch.ones_like(written)], dim=1)
    logits = model(**{**batch, "input_ids": ids, "attention_mask": mask}, **options).logits
    return logits[:, batch["input_ids"].shape[1] - 1 : -1]


def step_by_step(model: AttributeGenerator, batch: dict[str, Tensor], written: Tensor) -> Tensor:
    """The same with a cache: after the first call every call reads one id."""
    found, cache, given = [], None, dict(batch)
    encoder_decoder = model.config.is_encoder_decoder
    for place in range(written.shape[1]):
        last = written[:, place - 1 : place] if place else None
        if encoder_decoder:
            given["decoder_input_ids"] = torch.zeros_like(written[:, :1]) if last is None else last
        elif last is not None:
            given["input_ids"] = last
            given["attention_mask"] = torch.cat([given["attention_mask"], torch.ones_like(last)], dim=1)
        output = model(**given, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        read_before = 1 if encoder_decoder else batch["input_ids"].shape[1] + model.method.extra_positions
        assert cache.get_seq_length() == place + read_before
        found.append(output.logits[:, -1])
    return torch.stack(found, dim=1)


CACHED = [
    pytest.param(family, method, marks=once_unless(family == "llama" or (method == "injector" and family != "umt5")))
    for family, method in product(["gpt2", "llama", "qwen2", "mixtral", *ENCODER_DECODERS], METHODS)
    # An encoder-decoder has nothing in front of what it writes, and experts have no maps for all tokens.
    if (family not in ENCODER_DECODERS or method not in IN_FRONT) and (family, method) != ("mixtral", "pln")
]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(("family", "method"), CACHED)
def test_a_cache_changes_nothing(family: str, method: str) -> None:
    model, batch = generator(family, METHODS[method]), prompts(family)
    written = torch.randint(5, 101, (4, 5))
    expected = read(model, batch, written)
    torch.testing.assert_close(step_by_step(model, batch, written), expected, **EXACT)
    if model.method_config.uses_attributes:
        others = {**batch, "attribute_ids": batch["attribute_ids"].flip(0)}
        assert (read(model, others, written) - expected).abs().max() > 1e-4
        with pytest.raises(AssertionError):
            torch.testing.assert_close(step_by_step(model, others, written), expected, **EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("family", WRITERS)
def test_greedy_writing_takes_the_likeliest_id_each_time(family: str) -> None:
    model, batch = generator(family), prompts(family)
    written = torch.zeros(4, 0, dtype=torch.int64)
    ends = model.generation_config.eos_token_id
    for _ in range(6):
        padded = torch.cat([written, torch.full((4, 1), 7)], dim=1)
        chosen = read(model, batch, padded)[:, -1]
        chosen[:, ends] = -torch.inf
        written = torch.cat([written, chosen.argmax(dim=1, keepdim=True)], dim=1)
    for cache in (True, False):
        found = model.generate(**batch, max_new_tokens=6, min_new_tokens=6, use_cache=cache)
        assert torch.equal(found[:, -6:], written)


@pytest.mark.slow
@pytest.mark.parametrize("family", WRITERS)
def test_beams_and_draws_read_the_attributes_of_their_own_row(family: str) -> None:
    model, batch = generator(family), prompts(family)
    options: dict[str, Any] = {"max_new_tokens": 5, "min_new_tokens": 5, "num_beams": 3, "num_return_sequences": 2}
    together = model.generate(**batch, **options)[:, -5:]
    alone = [model.generate(**{name: x[i : i + 1] for name, x in batch.items()}, **options)[:, -5:] for i in range(4)]
    assert torch.equal(together, torch.cat(alone))
    others = {**batch, "attribute_ids": batch["attribute_ids"].flip(0)}
    assert not torch.equal(model.generate(**others, **options)[:, -5:], together)
    drawn: dict[str, Any] = {"do_sample": True, "num_return_sequences": 3, "output_logits": True}
    output = model.generate(**batch, max_new_tokens=1, return_dict_in_generate=True, **drawn)
    expected = read(model, batch, torch.full((4, 1), 7))[:, 0].repeat_interleave(3, dim=0)
    torch.testing.assert_close(output.logits[0].double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_method_it_is_the_language_model(family: str) -> None:
    plain = exactly(tiny_backbone(family, is_generative=True)).eval()
    model, batch = generator(family, Plain()), prompts(family)
    rest = {name: batch[name] for name in ("input_ids", "attention_mask")}
    options: dict[str, Any] = {"max_new_tokens": 5, "num_beams": 2}
    assert torch.equal(model.generate(**batch, **options), plain.generate(**rest, **options))


@pytest.mark.parametrize("family", WRITERS)
def test_padding_does_not_matter(family: str) -> None:
    model = generator(family)
    written = torch.randint(5, 101, (4, 3))
    found = {side: read(model, make_batch(2, padding=side), written) for side in ("left", "right")}
    if family in ENCODER_DECODERS:
        batch = make_batch(2, padding="right")
        alone = {name: x[2:3] for name, x in batch.items()}
        alone = {**alone, "input_ids": alone["input_ids"][:, :3], "attention_mask": alone["attention_mask"][:, :3]}
        torch.testing.assert_close(read(model, alone, written[2:3]), found["right"][2:3], **EXACT)
        return
    left, right = make_batch(2, padding="left"), make_batch(2, padding="right")
    for row, length in enumerate((5, 2, 3, 1)):
        ids = torch.randint(5, 101, (length,))
        left["input_ids"][row, 5 - length :] = right["input_ids"][row, :length] = ids
    one, other = model(**left).logits, model(**right).logits
    for row, length in enumerate((5, 2, 3, 1)):
        torch.testing.assert_close(one[row, 5 - length :], other[row, :length], **EXACT)


@pytest.mark.parametrize("family", WRITERS)
def test_the_loss_is_that_of_the_labels_alone(family: str) -> None:
    model, batch = generator(family), make_batch(2)
    labels = torch.full((4, 5), -100)
    labels[0, 2:], labels[1, 1], labels[2, 1:3] = torch.tensor([7, 9, 11]), 13, torch.tensor([17, 19])
    output = model(**batch, labels=labels)
    shift = 0 if family in ENCODER_DECODERS else 1
    nats = [[0.0, 0] for _ in range(4)]
    for row, place in labels.ne(-100).nonzero().tolist():
        probabilities = output.logits[row, place - shift].softmax(dim=0)
        nats[row][0] -= probabilities[labels[row, place]].log().item()
        nats[row][1] += 1
    scores = model.row_scores(output.logits, labels)
    torch.testing.assert_close(scores.double(), torch.tensor(nats, dtype=torch.float64), rtol=1e-5, atol=1e-5)
    total = sum(row[0] for row in nats)
    assert output.loss.item() == pytest.approx(total / 6, rel=1e-5)
    assert model(**batch, labels=labels, num_items_in_batch=24).loss.item() == pytest.approx(total / 24, rel=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5"])
def test_checkpointing_gives_the_same_gradients(family: str) -> None:
    model, batch = generator(family).train(), make_batch(2)
    model.method.attribute_dropout = 0.0
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):  # of T5's attention
            module.dropout = 0.0
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    found = []
    for on in (False, True):
        if on:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(**batch, labels=labels).loss.backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert all(name.startswith("method.") for name in found[0])
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, **EXACT, msg=name)


SAVED = [
    pytest.param(family, tuning, marks=once_unless((family == "gpt2") == (tuning != "frozen")))
    for family, tuning in product(["gpt2", "llama", "t5"], ["frozen", "layernorm", "lora:q,k,v:2", "full"])
]


@pytest.mark.one_in(2)
@pytest.mark.slow
@pytest.mark.parametrize(("family", "tuning"), SAVED)
def test_saved_and_loaded_it_writes_the_same(family: str, tuning: str, tmp_path: Path) -> None:
    backbone = tiny_backbone(family, is_generative=True)
    backbone.save_pretrained(tmp_path / "backbone")
    model = AttributeGenerator.build(
        str(tmp_path / "backbone"), make_schema(2), method=Injector(bottleneck=5, vector_size=7), tuning=tuning
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.generation_config.repetition_penalty = 1.5
    batch = prompts(family)
    written = model.generate(**batch, max_new_tokens=6)
    model.save_pretrained(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, AttributeGenerator)
    assert loaded.generation_config.repetition_penalty == 1.5
    assert torch.equal(loaded.generate(**batch, max_new_tokens=6), written)
    expected, found = read(model, batch, written[:, -3:]), read(loaded, batch, written[:, -3:])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert loaded.sizes() == model.sizes()
    whole = sum(p.numel() for p in model.parameters())
    assert model.sizes().stored == whole if tuning == "full" else model.sizes().stored < whole / 2
    assert "task | generation" in (tmp_path / "model" / "README.md").read_text()


def test_a_tied_head_learns_with_the_embeddings_and_is_stored_once(tmp_path: Path) -> None:
    backbone = tiny_backbone("gpt2", is_generative=True)
    assert backbone.lm_head.weight is backbone.transformer.wte.weight
    model = AttributeGenerator.build(backbone, make_schema(2), method=Injector(bottleneck=5), tuning="full")
    names = [name for name in model.learned_names() if "lm_head" in name or "wte" in name]
    assert names == ["backbone.transformer.wte.weight"]
    with torch.no_grad():
        model.backbone.transformer.wte.weight.mul_(2)
    model.save_pretrained(tmp_path)
    loaded = AttributeGenerator.from_pretrained(tmp_path)
    assert torch.equal(loaded.backbone.lm_head.weight, model.backbone.transformer.wte.weight)
    assert loaded.backbone.lm_head.weight is loaded.backbone.transformer.wte.weight


def test_of_an_encoder_decoder_the_decoder_alone_is_conditioned() -> None:
    model, batch = generator("t5"), make_batch(2)
    others = {**batch, "attribute_ids": batch["attribute_ids"].flip(0)}
    begun = torch.zeros(4, 1, dtype=torch.int64)
    one, other = (model(**given, decoder_input_ids=begun) for given in (batch, others))
    assert torch.equal(one.encoder_last_hidden_state, other.encoder_last_hidden_state)
    assert not torch.allclose(one.logits, other.logits, atol=1e-4)
    assert {site.path.partition(".")[0] for site in model.method.acts_at} == {"block"}


@pytest.mark.parametrize("method", [Upa(), Chim(), Combined(parts=(Injector(bottleneck=4), Upa()))])
def test_methods_that_act_elsewhere_are_refused(method: MethodConfig) -> None:
    with pytest.raises(ConfigError, match=r"which a model that writes text does not have: choose one of none, adapter"):
        generator("llama", method)


@pytest.mark.parametrize("method", IN_FRONT)
def test_vectors_in_front_of_an_encoder_decoder_are_refused(method: str) -> None:
    with pytest.raises(ConfigError, match=r"'embed'|embed, which an encoder-decoder that writes text does not have"):
        generator("t5", METHODS[method])


@pytest.mark.parametrize(
    ("family", "method"),
    [*product(["gpt2", "llama", "qwen3"], ["prefix input", "tokens"]), ("gemma2", "prefix input")],
)
def test_vectors_in_front_are_embeddings_before_the_text(family: str, method: str) -> None:
    """Row by row, without padding: the language model over the vectors, then the embeddings of the ids."""
    # In float64, transformers' Gemma 2 computes NaN of positions that see no other, such as padding on the left.
    model, batch = generator(family, METHODS[method]), make_batch(2, padding="right" if family == "gemma2" else "left")
    logits, attributes = model(**batch).logits, batch["attribute_ids"]
    assert logits.shape[:2] == batch["input_ids"].shape
    within = {"rtol": 1e-5, "atol": 1e-6} if family == "gemma2" else EXACT  # its attention is rounded to float32
    if method == "tokens":
        front = torch.cat([model.method.look_up(i, slots.of(attributes)) for i, slots in enumerate(model.slots)], dim=1)
        present = attributes != 0
    else:
        front = model.method.prefix(model.method.condition(attributes, 4), rows=4)
        present = torch.ones(4, 3, dtype=torch.bool)
    for row, real in enumerate(batch["attention_mask"].bool()):
        words = model.get_input_embeddings()(batch["input_ids"][row, real])
        states = torch.cat([front[row][present[row]], words]).unsqueeze(0)
        places = [*present[row].nonzero().flatten(), *range(front.shape[1], front.shape[1] + len(words))]
        with torch.no_grad():
            expected = model.backbone(inputs_embeds=states, position_ids=torch.tensor([places])).logits[0]
        torch.testing.assert_close(logits[row, real], expected[-len(words) :], **within)


@pytest.mark.parametrize("method", IN_FRONT)
def test_vectors_in_front_are_written_behind_with_beams_and_draws(method: str) -> None:
    model, batch = generator("llama", METHODS[method]), prompts("llama")
    options: dict[str, Any] = {"max_new_tokens": 5, "min_new_tokens": 5, "num_beams": 3, "num_return_sequences": 2}
    together = model.generate(**batch, **options)
    assert torch.equal(model.generate(**batch, **options, use_cache=False), together)
    drawn: dict[str, Any] = {"do_sample": True, "output_logits": True, "return_dict_in_generate": True}
    output = model.generate(**batch, max_new_tokens=1, **drawn)
    torch.testing.assert_close(
        output.logits[0].double(), read(model, batch, torch.full((4, 1), 7))[:, 0], rtol=1e-5, atol=1e-5
    )
    alike = {name: x[:1] for name, x in batch.items()} | {"input_ids": torch.full((1, 5), 7)}
    greedy: dict[str, Any] = {"max_new_tokens": 8, "min_new_tokens": 8}
    drafted = model.generate(**alike, **greedy, prompt_lookup_num_tokens=2)
    assert torch.equal(drafted, model.generate(**alike, **greedy))
    hidden = model(**batch, output_hidden_states=True).hidden_states
    assert {states.shape[1] for states in hidden} == {batch["input_ids"].shape[1]}


def test_what_cannot_hold_vectors_in_front_is_refused() -> None:
    model, batch = generator("llama", METHODS["prefix input"]), prompts("llama")
    with pytest.raises(ConfigError, match="write with a dynamic cache that this model filled"):
        model.generate(**batch, max_new_tokens=4, cache_implementation="static")
    states = model.get_input_embeddings()(batch["input_ids"])
    with pytest.raises(DataError, match="give input_ids, not inputs_embeds"):
        model(inputs_embeds=states, attention_mask=batch["attention_mask"], attribute_ids=batch["attribute_ids"])
    model = generator("gpt2", METHODS["prefix input"])
    longest = torch.full((4, model.most_positions - 2), 7)
    with pytest.raises(DataError, match="a text of"):
        model(input_ids=longest, attribute_ids=batch["attribute_ids"])


@pytest.mark.parametrize("family", ["bert", "eurobert", "modernbert"])
def test_families_that_write_nothing_are_refused(family: str, tmp_path: Path) -> None:
    tiny_backbone(family).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=f"'{family}' write no text here.*hoose one of gemma, gemma2"):
        AttributeGenerator.build(str(tmp_path), make_schema(2))


def test_a_loaded_backbone_that_writes_nothing_is_refused_by_its_family() -> None:
    with pytest.raises(ConfigError, match="'bert' write no text here"):
        AttributeGenerator.build(tiny_backbone("bert"), make_schema(2))


def test_the_task_says_which_part_of_a_pretrained_model_is_loaded() -> None:
    configs = {kind: AttributeConfig(task={"kind": kind}) for kind in (*TASKS, "unknown")}
    assert [kind for kind, config in configs.items() if config.architecture is LANGUAGE_MODEL] == ["generation"]
    assert {model_class(config.architecture) for config in configs.values()} == {AttributeModel, AttributeGenerator}


def test_a_folder_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    tiny_backbone("llama", is_generative=True).save_pretrained(tmp_path / "backbone")
    model = AttributeGenerator.build(str(tmp_path / "backbone"), make_schema(2), method=Injector(bottleneck=4))
    assert model.batch_refusal() == "it writes text"
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(ConfigError, match="this model writes text: use AttributeGenerator, or load_model"):
        AttributeModel.from_pretrained(tmp_path / "model")
    tiny_backbone("llama", is_generative=True, seed=1).save_pretrained(tmp_path / "backbone")
    with pytest.raises(ModelFolderError, match="weights"):
        AttributeGenerator.from_pretrained(tmp_path / "model")


def test_attributes_that_do_not_fit_are_refused() -> None:
    model, batch = generator("llama"), prompts("llama")
    with pytest.raises(DataError, match="needs attribute_ids"):
        model.generate(batch["input_ids"], max_new_tokens=2)
    with pytest.raises(DataError, match=r"has shape \(4, 3\)"):
        model.generate(**{**batch, "attribute_ids": batch["attribute_ids"][:, :3]}, max_new_tokens=2)


def test_more_ids_than_positions_are_refused() -> None:
    model, batch = generator("gpt2"), prompts("gpt2", rows=[0])
    batch |= {name: batch[name].repeat(1, 13) for name in ("input_ids", "attention_mask")}
    with pytest.raises(DataError, match="a text of 68 ids is longer than the 67 that the backbone takes"):
        model.generate(**batch, max_new_tokens=9, min_new_tokens=9)


def test_texts_end_at_the_end_token_of_the_tokenizer(trained_runs: TrainedRuns) -> None:
    folder = trained_runs.backbone("llama", is_generative=True)
    tokenizer: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(folder)
    model = AttributeGenerator.build(
        tiny_backbone("llama", is_generative=True), make_schema(2), method=Plain(), tokenizer=tokenizer
    )
    assert model.generation_config.eos_token_id == [2, tokenizer.eos_token_id]


def test_a_copy_writes_by_its_own_attributes() -> None:
    model, batch = generator("llama"), prompts("llama")
    double = copy.deepcopy(model)
    at_random(double.method, size=0.7)
    written = torch.full((4, 2), 7)
    expected = read(model, batch, written)
    assert not torch.allclose(read(double, batch, written), expected, atol=1e-3)
    assert torch.equal(read(model, batch, written), expected)
