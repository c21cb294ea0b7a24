"""`Writer`: texts written by a trained model for given prompts and attributes."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from attribune.data.texts import TextInput
from attribune.errors import ConfigError, DataError
from attribune.generation.model import AttributeGenerator
from attribune.schema import EncodingReport, Schema
from attribune.schema.columns import missing_column

__all__ = ["Decoding", "Writer"]

_NO_ATTRIBUTES = Schema([])


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How the next tokens are chosen; the likeliest each time unless told otherwise.

    Args:
        sample: draw them at random, by their probabilities.
        temperature: of the draw; below 1 prefers likely tokens.
        top_p: draw among the likeliest tokens that have this probability together.
        beams: of a beam search, which looks for the likeliest text as a whole.
        max_new_tokens: at most so many.
        n: texts for each row.
        seed: of the draw.

    Raises:
        ConfigError: for a value out of range, or settings that do not go together.
    """

    sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    beams: int = 1
    max_new_tokens: int = 64
    n: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("beams", "max_new_tokens", "n"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give at least 1")
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise ConfigError(f"temperature is {self.temperature}: give a number above 0")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}: give a number above 0, at most 1")
        if not 0 <= self.seed < 2**32:
            raise ConfigError(f"seed is {self.seed}: give a number from 0 to {2**32 - 1}")
        if not self.sample and (self.temperature, self.top_p) != (1.0, 1.0):
            raise ConfigError("temperature and top_p are of random draws: add sample, or leave them out")
        if not self.sample and self.n > self.beams:
            raise ConfigError(
                f"n is {self.n}, but without sample there are {self.beams} different texts for a row: add sample, or "
                f"set beams to at least {self.n}"
            )

    def options(self) -> dict[str, Any]:
        """As `generate` of transformers takes them."""
        drawn = {"temperature": self.temperature, "top_p": self.top_p, "top_k": 0} if self.sample else {}
        return {
            "do_sample": self.sample,
            "num_beams": self.beams,
            "max_new_tokens": self.max_new_tokens,
            "num_return_sequences": self.n,
            **drawn,
        }


class Writer:
    """Writes texts with a trained model; threads may share it, their passes follow one another.

    Args:
        model: with a tokenizer.
        text_input: which columns are the prompt; what the model was saved with unless given.
        batch_size: rows at once.
        precision: ``float32`` or ``bf16``.
        device: where the model runs; a GPU when there is one.
        kept_megabytes: of weights generated for the values seen last, see `ConditionedModel.keep_weights`.

    Raises:
        ConfigError: for a model without a tokenizer, or of which nobody says what its text is.
    """

    def __init__(
        self,
        model: AttributeGenerator,
        *,
        text_input: TextInput | None = None,
        batch_size: int = 16,
        precision: str = "float32",
        device: str | None = None,
        kept_megabytes: float = 256,
    ) -> None:
        self.model, self.batch_size, self.precision = model, batch_size, precision
        self._encoder = model.row_encoder(text_input)
        self.text_input = self._encoder.text
        self._schema = model.schema if model.method_config.uses_attributes else _NO_ATTRIBUTES
        self._collator = model.collator(self._schema)
        self._collator.left = True
        self._lock = threading.Lock()
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model.to(self.device).eval()
        model.keep_weights(kept_megabytes)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the model reads."""
        return self._schema.names

    def prompts(self, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> list[str]:
        """The prompts of rows whose columns are given by name.

        Raises:
            DataError: for a column that is missing, or that holds lists.
        """
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
        """Write ``n`` texts for each row.

        Args:
            prompts: of each row. Of a causal model that was trained without a prompt it is the beginning of the text.
            attributes: values of each row by attribute; those left out are missing.
            decoding: how tokens are chosen.
            first_row: number of the first row, for messages.

        Returns:
            For each row its texts, without the prompt, and what happened to the attributes.

        Raises:
            DataError: for attributes that the model does not have, or a value that cannot be used.
            ConfigError: for more new tokens than the backbone has positions.
        """
        decoding = Decoding() if decoding is None else decoding
        if foreign := sorted(set(attributes) - set(self.model.schema.names)):
            known = ", ".join(self.model.schema.names) or "none"
            raise DataError(f"the model has no attribute {', '.join(foreign)}: it has {known}")
        columns = {name: attributes.get(name, [None] * len(prompts)) for name in self.attributes}
        attribute_ids, report = self._schema.encode(columns or {"prompt": prompts}, first_row=first_row)
        input_ids, _ = self._encoder.prompts(prompts)
        self._check_room(input_ids, decoding)
        texts: list[list[str]] = []
        rows = [{"input_ids": i, "attribute_ids": a} for i, a in zip(input_ids, attribute_ids, strict=True)]
        with torch.random.fork_rng():
            torch.manual_seed(decoding.seed + first_row - 1)  # of a table written in parts, each has draws of its own
            for start in range(0, len(rows), self.batch_size):
                texts += self._write(rows[start : start + self.batch_size], decoding)
        return texts, report

    def _check_room(self, input_ids: Sequence[Sequence[int]], decoding: Decoding) -> None:
        most, longest = self.model.most_positions, max(map(len, input_ids), default=0)
        longest = 1 if self.model.config.is_encoder_decoder else longest
        if most is not None and longest + decoding.max_new_tokens > most:
            raise ConfigError(
                f"a prompt of {longest} ids and {decoding.max_new_tokens} new ones are more than the {most} that the "
                "backbone takes: lower max_new_tokens, or shorten the prompt"
            )

    def _write(self, rows: Sequence[Mapping[str, Any]], decoding: Decoding) -> list[list[str]]:
        batch = {name: tensor.to(self.device) for name, tensor in self._collator(rows).items()}
        half = self.precision == "bf16"
        context = torch.autocast(self.device.type, dtype=torch.bfloat16) if half else nullcontext()
        # One pass at a time: the layers read the attributes of the pass under way.
        with self._lock, torch.inference_mode(), context:
            ids = self.model.generate(**batch, **decoding.options(), pad_token_id=self._collator.pad_id)
        begun = 1 if self.model.config.is_encoder_decoder else batch["input_ids"].shape[1]
        decoded = self._encoder.tokenizer.batch_decode(ids[:, begun:], skip_special_tokens=True)
        texts = [text.strip() for text in decoded]
        return [texts[place : place + decoding.n] for place in range(0, len(texts), decoding.n)]
