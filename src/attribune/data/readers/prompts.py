"""Prompts and responses as ids, and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from jinja2 import TemplateError

from attribune.core.arrays import Array
from attribune.data.id_lists import IdLists
from attribune.data.readers.base import Collator, Reader, Reading, TextRows
from attribune.data.texts import TextInput
from attribune.data.windows import content_ids
from attribune.errors import ConfigError
from attribune.schema import Schema

_IGNORED = -100


class PromptEncoder(Reader):
    """Makes ids of prompts and responses, and labels of the responses alone.

    A causal model reads one sequence: the begin token, the prompt, the separator, the response, the end token. In a
    chat template, the prompt is the part before the answer. An encoder-decoder reads the prompt, and its labels are the
    response with the end token.

    If both do not fit, the prompt loses its beginning, down to half of the window, then the response its end, including
    the end token.

    Args:
        text: which columns are the response and the prompt, and how they are fitted.
        limit: ids that the backbone takes; None asks the tokenizer.
        separate: whether an encoder reads the prompt.

    Raises:
        ConfigError: for a window that cannot be taken, or a tokenizer without begin or end token or chat template.
    """

    name: ClassVar[str] = "written"
    makes_labels: ClassVar[bool] = True
    stores_texts: ClassVar[bool] = False

    def __init__(self, tokenizer: Any, text: TextInput, *, limit: int | None = None, separate: bool = False) -> None:
        if text.pair:
            raise ConfigError("a model that writes cannot read a pair of texts: name the second text as a prompt")
        self._take_window(tokenizer, text.window, limit, no_other="cannot be used to write texts")
        self.text, self.separate, self.size = text, separate, self.window.length(self.special)
        if tokenizer.eos_token_id is None:
            raise ConfigError(f"{type(tokenizer).__name__} has no end token: set tokenizer.eos_token")
        self.end = int(tokenizer.eos_token_id)
        if text.chat and (separate or not tokenizer.chat_template):
            lacks = "an encoder-decoder reads no chat" if separate else "the tokenizer has no chat template"
            raise ConfigError(f"{lacks}: leave chat out, or choose a backbone trained for it")
        first = tokenizer.bos_token_id
        begin = self.special.before or (self.end if first is None else int(first),)
        self.begin = () if text.chat or separate else begin

    @classmethod
    def of(cls, reading: Reading, text: TextInput | None) -> Self:
        """Return the reader of a model; see `Reader.of`."""
        if text is None:
            raise ConfigError(
                "the model does not say which columns are its text and its prompt: give "
                "text_input=TextInput.of('text', prompt='prompt')"
            )
        return cls(reading.tokenizer, text, limit=reading.limit, separate=reading.is_encoder_decoder)

    @classmethod
    def collator(cls, reading: Reading, schema: Schema) -> Collator:
        """Return a `PromptCollator`, which pads on the right."""
        return PromptCollator(reading.tokenizer, schema, separate=reading.is_encoder_decoder)

    def rows(self, text: TextInput, columns: Mapping[str, Sequence[Any]], *, first_row: int = 1) -> TextRows:
        """Encode the rows of some columns, as `TextEncoder` does."""
        responses = text.read(columns, first_row=first_row)
        prompts = text.read_prompts(columns, first_row=first_row) if text.prompt else [""] * len(responses)
        before = self._prompt_texts(prompts)
        after = self._endings(prompts, responses, before) if text.chat else responses
        pairs = zip(content_ids(self.tokenizer, before), content_ids(self.tokenizer, after), strict=True)
        encoded = [self._pair(prompt, response) for prompt, response in pairs]
        return TextRows.without_attributes(
            [ids for ids, _, _ in encoded],
            labels=[labels for _, labels, _ in encoded],
            empty=[not response for response in responses],
            shortened=[cut for _, _, cut in encoded],
        )

    def prompts(self, prompts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Return the ids before a response, and how many prompts did not fit.

        Without a prompt in training, they are the beginning of the response, or the input of an encoder.
        """
        return self._before(self._prompt_texts(prompts) if self.text.prompt else list(prompts))

    def conversations(self, conversations: Sequence[Sequence[tuple[str, str]]]) -> tuple[list[list[int]], int]:
        """Return the ids before the answer to conversations, as `prompts` does.

        Args:
            conversations: the turns of each, as pairs of role and text.

        Raises:
            ConfigError: for turns that the chat template does not take.
        """
        try:
            texts = [self._chat(turns, open_answer=True) for turns in conversations]
        except TemplateError as error:
            raise ConfigError(f"the chat template of the model does not take these messages: {error}") from None
        return self._before(texts)

    def _before(self, texts: list[str]) -> tuple[list[list[int]], int]:
        """Return the ids before a response, from the texts before it, and how many did not fit."""
        encoded, room = content_ids(self.tokenizer, texts), self._room()
        cut = sum(len(ids) > room for ids in encoded)
        fitted = [ids[max(0, len(ids) - room) :] for ids in encoded]
        return [self.special.wrap(ids) if self.separate else [*self.begin, *ids] for ids in fitted], cut

    def _cut_cure(self) -> str:
        return "raise max_length"

    def _room(self) -> int:
        """Return the maximum number of ids of prompt and response together, or of the prompt that an encoder reads."""
        return self.size - (len(self.special) if self.separate else len(self.begin) + 1)

    def _pair(self, prompt: list[int], response: list[int]) -> tuple[list[int], list[int], bool]:
        """Return ids, labels, and whether something was cut off."""
        room = self._room()
        if self.separate:
            labels = [*response, self.end]
            ids = self.special.wrap(prompt[max(0, len(prompt) - room) :])
            return ids, labels[: self.size], len(prompt) > room or len(labels) > self.size
        fits = len(prompt) + len(response) <= room
        if not fits:
            prompt = prompt[max(0, len(prompt) - max(room // 2, room - len(response))) :]
        written = [*response, self.end] if len(prompt) + len(response) <= room else response[: room - len(prompt)]
        read = [*self.begin, *prompt]
        return [*read, *written], [_IGNORED] * len(read) + written, not fits

    def _prompt_texts(self, prompts: Sequence[str]) -> list[str]:
        """Return what stands before the responses."""
        if self.text.chat:
            return [self._chat([("user", prompt)], open_answer=True) for prompt in prompts]
        return [f"{prompt}{'' if self.separate else self.text.separator}" if prompt else "" for prompt in prompts]

    def _endings(self, prompts: Sequence[str], responses: Sequence[str], before: Sequence[str]) -> list[str]:
        """Return the responses in the chat template, without its end token, which is added to every response."""
        endings = []
        for prompt, response, start in zip(prompts, responses, before, strict=True):
            answered = self._chat([("user", prompt), ("assistant", response)], open_answer=False)
            if not answered.startswith(start):
                raise ConfigError(
                    "the tokenizer's chat template changes the question once it is answered, so that prompt "
                    "and response cannot be distinguished: leave chat out"
                )
            endings.append(answered[len(start) :].partition(str(self.tokenizer.eos_token))[0])
        return endings

    def _chat(self, turns: Sequence[tuple[str, str]], *, open_answer: bool) -> str:
        messages = [{"role": role, "content": content} for role, content in turns]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_answer))


class PromptCollator(Collator):
    """Pads encoded prompts and responses to a batch; the `data_collator` of the stock Trainer.

    Args:
        separate: whether an encoder reads the prompt, so that labels are padded separately.
        left: pad on the left, as generation from prompts requires.

    The other arguments, and the errors, are those of `Collator`.
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

    def _texts(self, columns: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Pad the texts of rows, without `text_keys`: the ids of a row are its prompt and its response."""
        batch = super()._texts(columns)
        del batch["text_keys"]
        return batch

    def labels(self, labels: Sequence[Any] | Array, *, length: int) -> torch.Tensor:
        """Return the labels (B, length), or of an encoder-decoder (B, the longest), -100 where there is padding."""
        lists = IdLists.of(labels)
        width = int(lists.lengths.max()) if self.separate else length
        return torch.from_numpy(lists.padded(width, filler=_IGNORED, left=self.left and not self.separate))
