"""Prompts and responses as ids: what is read, what is to be written, and batches of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attribune.data.collator import Collator
from attribune.data.texts import DEFAULT_LENGTH, EncodedTexts, TextInput
from attribune.data.windows import Head, SpecialTokens, content_ids, longest_input
from attribune.errors import ConfigError
from attribune.schema import Schema

__all__ = ["PairCollator", "PairEncoder"]

_IGNORED = -100


class PairEncoder:
    """Makes ids of prompts and responses, and labels of the responses alone.

    A causal model reads one sequence: the begin token, the prompt, the separator, the response, the end token. Of a
    chat template the prompt is what stands before the answer and the response what follows. An encoder-decoder reads
    the prompt, and its labels are the response with the end token.

    Where both do not fit, the prompt loses its beginning, down to half of the window, then the response its end, and
    with it the end token.

    Args:
        tokenizer: of the backbone.
        text: which columns are the response and the prompt, and how they are fitted.
        limit: ids that the backbone takes; None asks the tokenizer.
        separate: whether an encoder reads the prompt.

    Raises:
        ConfigError: for a window that cannot be taken, or a tokenizer without begin or end token or chat template.
    """

    def __init__(self, tokenizer: Any, text: TextInput, *, limit: int | None = None, separate: bool = False) -> None:
        limit = limit if limit is not None else longest_input(tokenizer)
        window = text.window if text.window is not None else Head(min(DEFAULT_LENGTH, limit or DEFAULT_LENGTH))
        if not isinstance(window, Head):
            raise ConfigError(f"the window {str(window)!r} is not for texts that are written: choose head:N")
        self.tokenizer, self.text, self.separate = tokenizer, text, separate
        self.special = SpecialTokens.of(tokenizer)
        window.check(self.special, limit=limit)
        self.size = window.size
        if tokenizer.eos_token_id is None:
            raise ConfigError(f"{type(tokenizer).__name__} has no end token: set tokenizer.eos_token")
        self.end = int(tokenizer.eos_token_id)
        if text.chat and (separate or not tokenizer.chat_template):
            lacks = "an encoder-decoder reads no chat" if separate else "the tokenizer has no chat template"
            raise ConfigError(f"{lacks}: leave chat out, or choose a backbone trained for it")
        self.begin = () if text.chat else self._begin()

    def _begin(self) -> tuple[int, ...]:
        if self.separate or self.special.before:
            return () if self.separate else self.special.before
        named = (self.tokenizer.bos_token_id, self.end)
        return (next(int(token) for token in named if token is not None),)

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> EncodedTexts:
        """Encode the rows of some columns.

        Args:
            text: which of them are prompt and response.
            columns: by name.
            first_row: number of the first row, for messages.

        Raises:
            DataError: for a missing column, or one that holds lists.
        """
        responses = text.read(columns, first_row=first_row)
        prompts = text.read_prompts(columns, first_row=first_row) if text.prompt else [""] * len(responses)
        before = self._prompt_texts(prompts)
        after = self._endings(prompts, responses, before) if text.chat else responses
        pairs = list(zip(self._ids(before), self._ids(after), strict=True))
        encoded = [self._pair(prompt, response) for prompt, response in pairs]
        return EncodedTexts(
            input_ids=[ids for ids, _, _ in encoded],
            labels=[labels for _, labels, _ in encoded],
            empty=np.array([not response for response in responses], dtype=bool),
            shortened=sum(cut for _, _, cut in encoded),
        )

    def prompts(self, prompts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The ids that a response is to follow, and how many prompts did not fit.

        Without a prompt in training, they are what the response begins with, or what an encoder reads.
        """
        found = self._ids(self._prompt_texts(prompts) if self.text.prompt else list(prompts))
        room = self._room()
        cut = sum(len(ids) > room for ids in found)
        kept = [ids[max(0, len(ids) - room) :] for ids in found]
        return [self.special.wrap(ids) if self.separate else [*self.begin, *ids] for ids in kept], cut

    def _room(self) -> int:
        """Ids of prompt and response together, or of the prompt that an encoder reads."""
        return self.size - (len(self.special) if self.separate else len(self.begin) + 1)

    def _pair(self, prompt: list[int], response: list[int]) -> tuple[list[int], list[int], bool]:
        """Ids, labels, and whether something was cut off."""
        room = self._room()
        if self.separate:
            whole = [*response, self.end]
            ids = self.special.wrap(prompt[max(0, len(prompt) - room) :])
            return ids, whole[: self.size], len(prompt) > room or len(whole) > self.size
        fits = len(prompt) + len(response) <= room
        if not fits:
            prompt = prompt[max(0, len(prompt) - max(room // 2, room - len(response))) :]
        written = [*response, self.end] if len(prompt) + len(response) <= room else response[: room - len(prompt)]
        read = [*self.begin, *prompt]
        return [*read, *written], [_IGNORED] * len(read) + written, not fits

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return content_ids(self.tokenizer, texts) if texts else []

    def _prompt_texts(self, prompts: Sequence[str]) -> list[str]:
        """What stands before the responses."""
        if self.text.chat:
            return [self._chat([("user", prompt)], open_answer=True) for prompt in prompts]
        return [f"{prompt}{'' if self.separate else self.text.separator}" if prompt else "" for prompt in prompts]

    def _endings(self, prompts: Sequence[str], responses: Sequence[str], before: Sequence[str]) -> list[str]:
        """The responses as the chat template writes them, without its end token, which every response gets."""
        endings = []
        for prompt, response, start in zip(prompts, responses, before, strict=True):
            whole = self._chat([("user", prompt), ("assistant", response)], open_answer=False)
            if not whole.startswith(start):
                raise ConfigError(
                    "the tokenizer's chat template writes the question otherwise once it is answered, so that prompt "
                    "and response cannot be told apart: leave chat out"
                )
            endings.append(whole[len(start) :].partition(str(self.tokenizer.eos_token))[0])
        return endings

    def _chat(self, turns: Sequence[tuple[str, str]], *, open_answer: bool) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_answer))


class PairCollator(Collator):
    """Pads encoded prompts and responses to a batch; the `data_collator` of the stock Trainer.

    Args:
        tokenizer: says the padding id.
        schema: says the number of slots.
        separate: whether an encoder reads the prompt, so that labels are padded by themselves.
        left: pad on the left, as prompts must be from which a batch goes on writing.
        pad_to_multiple_of: round the length up, for hardware that likes it.

    Raises:
        ConfigError: for a tokenizer with neither padding nor end token.
    """

    def __init__(
        self,
        tokenizer: Any,
        schema: Schema,
        *,
        separate: bool = False,
        left: bool = False,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        super().__init__(tokenizer, schema, pad_to_multiple_of=pad_to_multiple_of)
        self.separate, self.left = separate, left

    def labels(self, rows: Sequence[Mapping[str, Any]], *, length: int) -> torch.Tensor | None:
        """The labels (B, length), or of an encoder-decoder (B, the longest), -100 where there is padding."""
        given = [row["labels"] for row in rows if row.get("labels") is not None]
        if not given:
            return None
        width = max(map(len, given)) if self.separate else length
        return self.padded(given, length=width, filler=_IGNORED, left=self.left and not self.separate)
