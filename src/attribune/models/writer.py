"""`Writer`: generate texts for prompts and attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, cast

import torch
from pydantic import AfterValidator, ValidationInfo
from torch import Tensor
from transformers import StoppingCriteria

from attribune.core.config import checked_dataclass
from attribune.core.device import check_batch_size, check_precision, computing_in, named_device
from attribune.data.readers.prompts import PromptEncoder
from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.models.generator import AttributeGenerator
from attribune.models.predictor import Locked, Predictor
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import missing_column

_INCOMPLETE = "\ufffd"  # of a character of which only the first bytes are written


@dataclass(kw_only=True)
class WrittenText:
    """A text and how it ended.

    Attributes:
        text: without the prompt, and without the stop text that ended it.
        tokens: how many were written, with the end token.
        is_whole: whether it ended by itself or by a stop text, not at the limit of new tokens.
    """

    text: str = ""
    tokens: int = 0
    is_whole: bool = False
    _ids: list[int] = field(default_factory=list, repr=False)


class TextStream(StoppingCriteria):
    """Watches a generation: passes on what is written, and ends a text at its end token or at a stop text.

    What may be the beginning of a stop text, and characters of which only the first bytes are there, are held back.

    Args:
        count: texts that are written at once, N.
        ends: ids of end tokens.
        stop: texts that end a text, which is cut before them.
        on_text: called with the number of a text, from 0, and what was added to it.
        on_token: called after every step; what it raises ends the generation.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        count: int,
        ends: Collection[int],
        stop: Sequence[str] = (),
        on_text: Callable[[int, str], None] = lambda *_: None,
        on_token: Callable[[], None] = lambda: None,
    ) -> None:
        self._tokenizer, self._ends, self._stop = tokenizer, frozenset(ends), tuple(stop)
        self._on_text, self._on_token = on_text, on_token
        self.texts = [WrittenText() for _ in range(count)]

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Read the last id of each text, of (N, T); return which texts have ended, (N,)."""
        for number, token in enumerate(input_ids[:, -1].tolist()):
            if not self.texts[number].is_whole:
                self._add(number, token)
        self._on_token()
        return torch.tensor([text.is_whole for text in self.texts], device=input_ids.device)

    def finish(self) -> list[WrittenText]:
        """Pass on what was held back of texts that ended at the limit; returns all texts."""
        for number, text in enumerate(self.texts):
            if not text.is_whole:
                self._pass_on(number, self._decoded(text))
        return self.texts

    def _add(self, number: int, token: int) -> None:
        text = self.texts[number]
        text.tokens += 1
        if token in self._ends:
            text.is_whole = True
            self._pass_on(number, self._decoded(text))
            return
        text._ids.append(token)
        decoded = self._decoded(text)
        found = [place for stop in self._stop if (place := decoded.find(stop)) >= 0]
        if found:
            text.is_whole = True
            self._pass_on(number, decoded[: min(found)])
        else:
            self._pass_on(number, decoded[: self._certain(decoded)])

    def _decoded(self, text: WrittenText) -> str:
        return str(self._tokenizer.decode(text._ids, skip_special_tokens=True))

    def _certain(self, decoded: str) -> int:
        """Return how many characters are neither incomplete nor the beginning of a stop text."""
        length = len(decoded.rstrip(_INCOMPLETE))
        for stop in self._stop:
            for size in range(1, min(len(stop), len(decoded)) + 1):
                if decoded.endswith(stop[:size]):
                    length = min(length, len(decoded) - size)
        return length

    def _pass_on(self, number: int, whole: str) -> None:
        text = self.texts[number]
        added = whole[len(text.text) :]
        if added:
            text.text += added
            self._on_text(number, added)


_COLDEST = 1e-4  # at which the likeliest token is drawn; divided by less, logits would be infinite


def _in_range(value: float, info: ValidationInfo) -> float:
    good, cure = {
        "temperature": (value > 0 and math.isfinite(value), "a number above 0"),
        "top_p": (0 < value <= 1, "a number above 0, at most 1"),
        "seed": (0 <= value < 2**32, f"a number from 0 to {2**32 - 1}"),
    }.get(str(info.field_name), (value >= 1, "at least 1"))
    if not good:
        raise ConfigError(f"{info.field_name} is {value}: give {cure}")
    return value


Integer = Annotated[int, AfterValidator(_in_range)]
Real = Annotated[float, AfterValidator(_in_range)]


@checked_dataclass(kw_only=True)
class Decoding:
    """How the next tokens are chosen: by default greedily.

    Args:
        sample: draw tokens at random, by their probabilities.
        temperature: temperature of the draw; below 1 prefers likely tokens.
        top_p: draw among the most likely tokens whose probabilities sum to this.
        beams: width of a beam search.
        n: number of texts per row.

    Raises:
        ConfigError: for a value out of range, or settings that do not go together.
    """

    sample: bool = False
    temperature: Real = 1.0
    top_p: Real = 1.0
    beams: Integer = 1
    max_new_tokens: Integer = 64
    n: Integer = 1
    seed: Integer = 0

    def __post_init__(self) -> None:
        if not self.sample and (self.temperature, self.top_p) != (1.0, 1.0):
            raise ConfigError("temperature and top_p need random sampling: add sample, or leave them out")
        if not self.sample and self.n > self.beams:
            raise ConfigError(
                f"n is {self.n}, but without sample there are {self.beams} different texts for a row: add sample, or "
                f"set beams to at least {self.n}"
            )

    def options(self) -> dict[str, Any]:
        """Return them as `generate` of transformers takes them."""
        drawn = {"temperature": max(self.temperature, _COLDEST), "top_p": self.top_p, "top_k": 0} if self.sample else {}
        return {
            "do_sample": self.sample,
            "num_beams": self.beams,
            "max_new_tokens": self.max_new_tokens,
            "num_return_sequences": self.n,
            **drawn,
        }


class Writer(Locked):
    """Generate texts with a trained model. Arguments, errors and use by threads are those of `Predictor`."""

    def __init__(
        self,
        model: AttributeGenerator,
        *,
        text_input: TextInput | None = None,
        batch_size: int = 16,
        precision: str | None = None,
        device: str | None = None,
    ) -> None:
        check_batch_size(batch_size)
        self.model, self.batch_size = model, batch_size
        self.precision = precision or model.precision or "float32"
        check_precision(self.precision)
        self._encoder = cast(PromptEncoder, model.row_encoder(text_input))
        self.text_input = self._encoder.text
        self._collator = model.collator(model.input_schema)
        self._collator.left = True
        super().__init__()
        self.device = named_device(device)
        model.prepare(self.device)

    @classmethod
    def of(cls, predictor: Predictor) -> Self:
        """Return a writer with the model of a predictor, its text columns, its precision and its device."""
        return cls(
            predictor.model.neural(),
            text_input=predictor.text_input,
            precision=predictor.precision,
            device=str(predictor.device),
        )

    @property
    def _schema(self) -> Schema:
        """The attributes that the model reads, with the values that it knows now."""
        return self.model.input_schema

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the model reads."""
        return self._schema.sources

    def prompts(self, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> list[str]:
        """Return the prompts of rows; DataError for a column that is missing, or that holds lists."""
        for name in self.text_input.prompt:
            if name not in columns:
                raise missing_column(list(columns), name)
        return self.text_input.read_prompts(columns, first_row=first_row)

    def write(
        self,
        prompts: Sequence[str],
        attributes: Mapping[str, Sequence[Any]],
        decoding: Decoding | None = None,
        *,
        first_row: int = 1,
    ) -> tuple[list[list[str]], EncodingReport]:
        """Return ``n`` texts for each row, without the prompt, and the report on the attributes.

        Args:
            prompts: one per row; for a causal model trained without a prompt, the beginning of the text.
            attributes: values of each row by attribute; those left out are missing.

        Raises:
            DataError: for attributes that the model does not have, or a value that cannot be used.
            ConfigError: for more new tokens than the backbone has positions.
        """
        decoding = Decoding() if decoding is None else decoding
        if foreign := sorted(set(attributes) - set(self.model.schema.sources)):
            known = ", ".join(self.model.schema.sources) or "none"
            raise DataError(f"the model has no attribute {', '.join(foreign)}: it has {known}")
        columns = {name: attributes.get(name, [None] * len(prompts)) for name in self.attributes}
        attribute_ids, report = self._schema.encode(columns or {"prompt": prompts}, first_row=first_row)
        input_ids, _ = self._encoder.prompts(prompts)
        self._check_room(input_ids, decoding)
        texts: list[list[str]] = []
        rows = [{"input_ids": i, "attribute_ids": a} for i, a in zip(input_ids, attribute_ids, strict=True)]
        with torch.random.fork_rng():
            torch.manual_seed(decoding.seed + first_row - 1)  # each part of a table has its own draws
            for start in range(0, len(rows), self.batch_size):
                texts += self._write(rows[start : start + self.batch_size], decoding)
        return texts, report

    def write_one(
        self,
        input_ids: Sequence[int],
        attributes: Mapping[str, Any],
        decoding: Decoding,
        *,
        stop: Sequence[str] = (),
        on_text: Callable[[int, str], None] = lambda *_: None,
        on_token: Callable[[], None] = lambda: None,
    ) -> list[WrittenText]:
        """Return ``n`` texts for one prompt, and pass on what is written as it comes.

        Args:
            input_ids: of the prompt, as `prompt_ids` or `chat_ids` returns them.
            attributes: a value for each attribute; those left out are missing.
            decoding: without a beam search, which writes no text before its end.
            stop, on_text, on_token: see `TextStream`.

        Raises:
            DataError: for a value that cannot be used.
            ConfigError: for a beam search, or more new tokens than the backbone has positions.
        """
        if decoding.beams > 1:
            raise ConfigError(f"beams is {decoding.beams}: a streamed text cannot use beam search; set it to 1")
        columns = {name: [attributes.get(name)] for name in self.attributes} or {"prompt": [""]}
        attribute_ids, _ = self._schema.encode(columns)
        self._check_room([input_ids], decoding)
        ends = self.model.generation_config.eos_token_id
        stream = TextStream(
            self._encoder.tokenizer,
            count=decoding.n,
            ends=ends if isinstance(ends, list) else [ends],
            stop=stop,
            on_text=on_text,
            on_token=on_token,
        )
        with torch.random.fork_rng():
            torch.manual_seed(decoding.seed)
            self._generate([{"input_ids": list(input_ids), "attribute_ids": attribute_ids[0]}], decoding, stream)
        return stream.finish()

    def prompt_ids(self, prompt: str) -> list[int]:
        """Return the ids of a prompt; DataError where it does not fit into the window."""
        return self._whole(self._encoder.prompts([prompt]))

    def chat_ids(self, turns: Sequence[tuple[str, str]]) -> list[int]:
        """Return the ids of a conversation, as pairs of role and text, in the tokenizer's chat template.

        Raises:
            ConfigError: for a model that was trained without it, or turns that it does not take.
            DataError: where it does not fit into the window.
        """
        if not self.text_input.chat:
            raise ConfigError(
                "the model was trained without a chat template: train one with the setting data.chat, or send one "
                "prompt"
            )
        return self._whole(self._encoder.conversations([turns]))

    def _whole(self, encoded: tuple[list[list[int]], int]) -> list[int]:
        (ids,), cut = encoded
        if cut:
            raise DataError(f"the prompt does not fit into the window of {self._encoder.size} ids: shorten it")
        return ids

    def room(self, input_ids: Sequence[int]) -> int | None:
        """Return how many new tokens the backbone has positions for behind a prompt; None where there is no limit."""
        limit = self.model.most_positions
        return None if limit is None else limit - self._taken(len(input_ids))

    def _taken(self, ids: int) -> int:
        """Return how many positions of the backbone that writes a prompt of so many ids takes."""
        return 1 if self.model.config.is_encoder_decoder else ids + self.model.method.extra_positions

    def _check_room(self, input_ids: Sequence[Sequence[int]], decoding: Decoding) -> None:
        limit, longest = self.model.most_positions, self._taken(max(map(len, input_ids), default=0))
        if limit is not None and longest + decoding.max_new_tokens > limit:
            raise ConfigError(
                f"a prompt of {longest} ids and {decoding.max_new_tokens} new ones are more than the {limit} that the "
                "backbone takes: lower max_new_tokens, or shorten the prompt"
            )

    def _write(self, rows: Sequence[Mapping[str, Any]], decoding: Decoding) -> list[list[str]]:
        decoded = self._encoder.tokenizer.batch_decode(self._generate(rows, decoding), skip_special_tokens=True)
        texts = [text.strip() for text in decoded]
        return [texts[first : first + decoding.n] for first in range(0, len(texts), decoding.n)]

    def _generate(
        self, rows: Sequence[Mapping[str, Any]], decoding: Decoding, stream: TextStream | None = None
    ) -> Tensor:
        """Return the new ids of each text, (rows · n, T)."""
        batch = {name: tensor.to(self.device) for name, tensor in self._collator(rows).items()}
        autocast = computing_in(self.precision, self.device.type)
        # One pass at a time: the layers read the attributes of the current pass.
        with self._lock, torch.inference_mode(), autocast:
            ids: Tensor = self.model.generate(
                **batch,
                **decoding.options(),
                pad_token_id=self._collator.pad_id,
                stopping_criteria=None if stream is None else [stream],
            )
        return ids[:, 1 if self.model.config.is_encoder_decoder else batch["input_ids"].shape[1] :]
