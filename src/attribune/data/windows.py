"""Windows: how a text longer than the backbone takes is fitted.

A window works on *content* ids, those of the text without special tokens, and puts the special tokens back.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate, islice, pairwise
from typing import Annotated, Any, Literal

import sentencex
from pydantic import BeforeValidator, ValidationInfo

from attribune.core.config import checked_dataclass
from attribune.core.door import as_argument
from attribune.errors import ConfigError

_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")  # such as a no-break space


def split_sentences(text: str, *, language: str = "en") -> list[str]:
    """Split a text into sentences, which together are the text; an empty text has none.

    Args:
        language: ISO 639 code of the language by whose rules sentences end; English if sentencex does not know it.
    """
    if not text:
        return []
    # sentencex panics at a space of several bytes between a capital letter and a full stop, such as "B\xa0."
    sentences = sentencex.segment(language, _WIDE_SPACE.sub(" ", text))
    return [text[start:end] for start, end in pairwise(accumulate(map(len, sentences), initial=0))]


FILLER = -1
"""Stands for padding inside the ids of a text, up to the next chunk; the collator masks it."""

_PROBES = ("a", "1", ".", "the")
_UNLIMITED = 10**6  # tokenizers without a limit state a huge number
_TEXT = re.compile(
    r"head(?::(\d+))?|head\+tail(?::(\d+)\+(\d+)(:special)?)?|chunks(?::(\d+)(?:x(\d+)(?::(\d+))?)?)?"
    r"|sentences(?::(\d+)(?:x(\d+)(?::([a-z]+))?)?)?"
)
_CHUNKS, _SENTENCES = 8, 32  # maxima of a document, when no number is given
_SENTENCE = 50  # ids of a sentence, when no number is given


@dataclass(frozen=True)
class SpecialTokens:
    """The ids that a tokenizer puts before and after a text, such as [CLS] and [SEP]; none for most decoders.

    `filler` stands for an empty text if there are no special tokens; None when the tokenizer has no such id.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    filler: int | None = None

    @classmethod
    def of(cls, tokenizer: Any) -> SpecialTokens:
        """Find the special tokens by tokenizing a short text with and without them.

        Raises:
            ConfigError: when the tokenizer does not keep the text's ids together.
        """
        named = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        filler = next((token for token in named if token is not None), None)
        for probe in _PROBES:
            content = content_ids(tokenizer, [probe])[0]
            wrapped = list(tokenizer(probe)["input_ids"])
            if content and (start := _place(wrapped, content)) is not None:
                return cls(tuple(wrapped[:start]), tuple(wrapped[start + len(content) :]), filler)
        raise ConfigError(
            f"{type(tokenizer).__name__} changes a text's ids when it adds special tokens, so no window can be cut: "
            "use another tokenizer"
        )

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def wrap(self, content: Sequence[int]) -> list[int]:
        """Put the special tokens around content ids; an empty result becomes the filler.

        Raises:
            ConfigError: for an empty text when the tokenizer has neither special tokens nor a filler.
        """
        ids = [*self.before, *content, *self.after]
        if ids:
            return ids
        if self.filler is None:
            raise ConfigError(
                "a text without tokens needs a token to stand for it, but the tokenizer has no bos, eos or pad token: "
                "set tokenizer.eos_token"
            )
        return [self.filler]


class Window(ABC):
    """How a long text is fitted; a text that fits stays whole.

    `str(window)` is what `parse_window` reads. A size below 1 raises a ConfigError.
    """

    chunk: int | None = None
    """Tokens that the backbone reads at once; None if these are all."""

    @abstractmethod
    def length(self, special: SpecialTokens) -> int:
        """Return the largest number of ids that comes out, special tokens included."""

    def capacity(self, special: SpecialTokens) -> int:
        """Return the number of content ids of a text that stays whole."""
        return self.length(special) - len(special)

    def cut(self, content: list[int], special: SpecialTokens) -> list[int]:
        """Return the part of content ids to keep when they are too many: by default the first ones."""
        return content[: self.capacity(special)]

    def keep(self, content: list[int], size: int) -> list[int]:
        """Return `size` content ids of one of two texts that share the window: by default the first ones."""
        return content[:size]

    def fit(self, content: list[int], special: SpecialTokens) -> list[int]:
        """Turn content ids, without special tokens, into the final ids, with them."""
        if len(content) > self.capacity(special):
            content = self.cut(content, special)
        return special.wrap(content)

    def check(self, special: SpecialTokens, *, limit: int | None) -> None:
        """Check the window.

        Args:
            limit: ids that the backbone takes; None when it has no limit.

        Raises:
            ConfigError: for a window that the backbone cannot take, or in which no token of the text fits.
        """
        at_once = self.chunk or self.length(special)
        if limit is not None and at_once > limit:
            raise ConfigError(
                f"the window {str(self)!r} is {at_once} tokens with special tokens, but the backbone "
                f"takes {limit}: make it smaller by {as_argument('data.max_length')} or {as_argument('data.window')}"
            )
        self._check_room(special)

    def _check_room(self, special: SpecialTokens) -> None:
        if self.length(special) <= len(special):
            raise ConfigError(
                f"the window {str(self)!r} leaves no room beside {len(special)} special tokens: enlarge it"
            )


def _at_least_one(size: object, info: ValidationInfo) -> object:
    if type(size) is not int or size < 1:
        raise ConfigError(f"window: {info.field_name}={size!r} must be a whole number of at least 1")
    return size


Size = Annotated[int, BeforeValidator(_at_least_one)]


@checked_dataclass()
class Head(Window):
    """Keep the first ids of a text.

    Args:
        size: maximum number of ids, special tokens included (the tokenizer's `max_length`).
    """

    size: Size

    def __str__(self) -> str:
        return f"head:{self.size}"

    def length(self, special: SpecialTokens) -> int:
        """Return `size`."""
        return self.size


@checked_dataclass()
class HeadTail(Window):
    """Keep the first `head` ids and the last `tail` ids of a text.

    Args:
        count_special: whether the special tokens count. Without them, 250 + 250 is 502 ids with [CLS] and [SEP]; with
            them, 128 + 384 is 512 ids, of which 510 are of the text.
    """

    head: Size
    tail: Size
    _: KW_ONLY
    count_special: bool = False

    def __str__(self) -> str:
        return f"head+tail:{self.head}+{self.tail}" + (":special" if self.count_special else "")

    def length(self, special: SpecialTokens) -> int:
        """Return head and tail, plus the special tokens if these are not counted in."""
        return self.head + self.tail + (0 if self.count_special else len(special))

    def cut(self, content: list[int], special: SpecialTokens) -> list[int]:
        """Return the first and the last ids."""
        head, tail = self._content_sizes(special)
        return content[:head] + content[len(content) - tail :]

    def keep(self, content: list[int], size: int) -> list[int]:
        """Return the first and the last ids, in the proportion of head and tail."""
        head = min(size, round(size * self.head / (self.head + self.tail)))
        return content if len(content) <= size else content[:head] + content[len(content) - (size - head) :]

    def _content_sizes(self, special: SpecialTokens) -> tuple[int, int]:
        if not self.count_special:
            return self.head, self.tail
        return self.head - len(special.before), self.tail - len(special.after)

    def _check_room(self, special: SpecialTokens) -> None:
        if min(self._content_sizes(special)) < 1:
            raise ConfigError(
                f"the window {str(self)!r} leaves no room beside {len(special.before)} special tokens at the beginning "
                f"and {len(special.after)} at the end: enlarge it"
            )


@checked_dataclass()
class Chunks(Window):
    """Keep the beginning of a document that is longer than the backbone takes, and read it chunk by chunk.

    The document has its special tokens once, and is cut into chunks by the model; the last one is padded. With a
    `stride` every chunk has special tokens of its own, and chunks overlap.

    Args:
        chunk: number of ids of a chunk.
        count: maximum number of chunks per document.
        stride: content ids between the starts of two chunks; None for chunks side by side.
    """

    chunk: Size
    count: Size = _CHUNKS
    stride: Size | None = None

    def __str__(self) -> str:
        return f"chunks:{self.chunk}x{self.count}" + ("" if self.stride is None else f":{self.stride}")

    def length(self, special: SpecialTokens) -> int:
        """Return the ids of all chunks."""
        return self.chunk * self.count

    def capacity(self, special: SpecialTokens) -> int:
        """Return the number of content ids of a text that stays whole."""
        if self.stride is None:
            return super().capacity(special)
        return self.chunk - len(special) + (self.count - 1) * self.stride

    def fit(self, content: list[int], special: SpecialTokens) -> list[int]:
        """Turn content ids into those of the chunks, all of one length but the last."""
        if self.stride is None:
            return super().fit(content, special)
        size, content = self.chunk - len(special), self.cut(content, special)
        starts = range(0, max(len(content) - size, 0) + self.stride, self.stride)
        chunks = [special.wrap(content[start : start + size]) for start in starts]
        return [token for chunk in chunks for token in chunk]

    def _check_room(self, special: SpecialTokens) -> None:
        super()._check_room(special)
        if self.stride is not None and not 1 <= self.stride <= self.chunk - len(special):
            raise ConfigError(
                f"the window {str(self)!r} has {self.chunk - len(special)} ids of the text in a chunk, so that chunks "
                f"{self.stride} ids apart would leave some out: choose a smaller stride"
            )


@checked_dataclass()
class SentenceChunks(Window):
    """Read a text sentence by sentence: each is a chunk with special tokens of its own, filled up to its size.

    What a sentence has beyond a chunk is cut off.

    Args:
        chunk: ids of a sentence, special tokens included.
        count: maximum number of sentences of a text.
        language: ISO 639 code of the language by whose rules sentences end.
    """

    chunk: Size = _SENTENCE
    count: Size = _SENTENCES
    language: str = "en"

    def __str__(self) -> str:
        return f"sentences:{self.chunk}x{self.count}" + ("" if self.language == "en" else f":{self.language}")

    def length(self, special: SpecialTokens) -> int:
        """Return the ids of all chunks."""
        return self.chunk * self.count

    def split(self, text: str) -> list[str]:
        """Return the sentences of a text that are not empty; an empty one for a text that has no others."""
        return [one for one in split_sentences(text, language=self.language) if one.strip()] or [""]

    def shortens(self, sentences: Sequence[Sequence[int]], special: SpecialTokens) -> bool:
        """Return whether sentences, or parts of them, do not fit."""
        return len(sentences) > self.count or any(len(one) > self.chunk - len(special) for one in sentences)

    def join(self, sentences: Sequence[list[int]], special: SpecialTokens) -> list[int]:
        """Turn the content ids of sentences into those of the chunks, filled up with `FILLER` but for the last."""
        chunks = [special.wrap(one[: self.chunk - len(special)]) for one in sentences[: self.count]]
        filled = [[*chunk, *[FILLER] * (self.chunk - len(chunk))] for chunk in chunks[:-1]]
        return [token for chunk in [*filled, chunks[-1]] for token in chunk]

    def _check_room(self, special: SpecialTokens) -> None:
        if self.chunk <= len(special):
            raise ConfigError(
                f"the window {str(self)!r} leaves no room beside {len(special)} special tokens: enlarge it"
            )


def parse_window(text: str, *, max_length: int) -> Window:
    """Read a window, such as `head:256`, `head+tail:250+250`, `head+tail:128+384:special` or `chunks:512x4`.

    A third number of chunks is their stride, as in `chunks:202x8:150`. `sentences:50x32` reads a text sentence by
    sentence, `sentences:50x32:de` by the rules of another language than English.

    `head`, `head+tail` and `chunks` without sizes have the size `max_length`, special tokens included.

    Raises:
        ConfigError: for any other text.
    """
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(
            f"unknown window {text!r}: write head, head:256, head+tail, head+tail:250+250, "
            "head+tail:128+384:special to count the special tokens in, chunks:512x4, chunks:202x8:150 for chunks "
            "that overlap, or sentences:50x32"
        )
    length, head, tail, special, chunk, count, stride, sentence, sentences, language = match.groups()
    if match[0].startswith("sentences"):
        return SentenceChunks(int(sentence or _SENTENCE), int(sentences or _SENTENCES), language or "en")
    if match[0].startswith("chunks"):
        return Chunks(int(chunk or max_length), int(count or _CHUNKS), None if stride is None else int(stride))
    if head is not None:
        return HeadTail(int(head), int(tail), count_special=special is not None)
    if match[0].startswith("head+tail"):
        return HeadTail(max_length // 2, max_length - max_length // 2, count_special=True)
    return Head(int(length or max_length))


_OFF = ("add_special_tokens", "truncation", "padding", "return_attention_mask", "return_token_type_ids", "verbose")
_WHOLE = dict.fromkeys(_OFF, False)
"""The options of tokenizers for whole texts, of which nothing but the ids is asked."""


def content_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Tokenize whole texts, without special tokens and without warnings about their length.

    A text that is there several times, such as one with several judges, is tokenized once.
    """
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    distinct = _distinct_ids(tokenizer, list(places)) if texts else []
    return [distinct[places[text]] for text in texts]


def ids_of_lists(tokenizer: Any, lists: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """Tokenize the texts of several lists, as `content_ids` does."""
    ids = iter(content_ids(tokenizer, [text for texts in lists for text in texts]))
    return [list(islice(ids, len(texts))) for texts in lists]


def _distinct_ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    direct = _encodes_plainly(tokenizer)
    encoded = tokenizer(texts[:1] if direct else texts, **_WHOLE)
    ids = [list(ids) for ids in encoded["input_ids"]]
    if direct:
        # The call has configured the Rust engine, which takes half the time without offsets and masks.
        encodings = tokenizer.backend_tokenizer.encode_batch_fast(texts[1:], add_special_tokens=False)
        ids.extend(encoding.ids for encoding in encodings)
    return ids


def ids_and_places(tokenizer: Any, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Return the content ids of each text, and where in it each of them begins and ends; for fast tokenizers."""
    if not texts:
        return []
    encoded = tokenizer(list(texts), return_offsets_mapping=True, **_WHOLE)
    return list(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))


def _encodes_plainly(tokenizer: Any) -> bool:
    """Whether a text's ids are those of the Rust engine, with nothing done in Python before or after."""
    from transformers import TokenizersBackend  # takes seconds, which tables of stored results do without

    return isinstance(tokenizer, TokenizersBackend) and all(
        getattr(type(tokenizer), name, None) is getattr(TokenizersBackend, name, None)
        for name in ("__call__", "_encode_plus", "_batch_encode_plus", "_convert_encoding")
    )


def longest_input(tokenizer: Any) -> int | None:
    """Return the number of ids that the tokenizer says its backbone takes; None when it says nothing."""
    limit = tokenizer.model_max_length
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1):
        raise ConfigError(
            f"the tokenizer says that texts have at most {limit!r} ids: write a number as model_max_length in its "
            "tokenizer_config.json, or leave it out"
        )
    return int(limit) if limit is not None and limit < _UNLIMITED else None


Truncation = Literal["longest_first", "only_first", "only_second"]
"""Which of two texts is cut when they do not fit, as in transformers."""

_PAIRS = (("a", "1"), ("1", "."), (".", "the"), ("the", "a"))


@dataclass(frozen=True)
class PairTokens:
    """The ids that a tokenizer puts before, between and after two texts, such as [CLS] a [SEP] b [SEP].

    Attributes:
        second: how many of the ids between belong to the second segment; None without segments.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second: int | None = None

    @classmethod
    def of(cls, tokenizer: Any, *, segments: bool, separator: str) -> PairTokens:
        """Find the special tokens by tokenizing a short pair with and without them.

        Args:
            segments: whether the backbone tells segments apart (`token_type_ids`).
            separator: stands between the texts where the tokenizer puts nothing, as most decoders' do.

        Raises:
            ConfigError: when the tokenizer does not keep the texts' ids together.
        """
        for pair in _PAIRS:
            first, second = content_ids(tokenizer, list(pair))
            encoded = tokenizer(*pair, return_token_type_ids=True)
            ids, kinds = list(encoded["input_ids"]), list(encoded["token_type_ids"])
            begin = _place(ids, first) if first and second else None
            start = 0 if begin is None else begin + len(first)
            end = None if begin is None else _place(ids, second, start)
            if end is not None:
                boundary = _boundary(kinds, start, end) if segments else None
                between = tuple(ids[start:end]) or tuple(content_ids(tokenizer, [separator])[0] if separator else ())
                return cls(tuple(ids[:begin]), between, tuple(ids[end + len(second) :]), boundary)
        raise ConfigError(
            f"{type(tokenizer).__name__} changes the ids of two texts when it joins them, so no window can be cut: use "
            "another tokenizer, or name both columns as the text, which joins them"
        )

    def __len__(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def room(self, window: Window, special: SpecialTokens) -> int:
        """Return how many ids of both texts a window has."""
        return window.length(special) - len(self)

    def check_room(self, window: Window, special: SpecialTokens, *, of: str) -> None:
        """Refuse a window without room for both texts, which are called so, with a ConfigError."""
        if (room := self.room(window, special)) < 2:
            raise ConfigError(
                f"the window {str(window)!r} leaves room for {max(room, 0)} ids of {of} beside {len(self)} special "
                "tokens: enlarge it"
            )

    def join(self, first: Sequence[int], second: Sequence[int]) -> tuple[list[int], int]:
        """Put the special tokens around two texts; returns the ids, and where the second segment begins."""
        ids = [*self.before, *first, *self.between]
        return [*ids, *second, *self.after], len(ids) - (self.second or 0)

    def fit(
        self, first: list[int], second: list[int], *, window: Window, size: int, truncation: Truncation
    ) -> tuple[list[int], int]:
        """Cut two texts to a window of `size` ids and join them, as `join` does."""
        if len(first) + len(second) + len(self) > size:
            one, two = shares(len(first), len(second), size - len(self), truncation=truncation)
            first, second = window.keep(first, one), window.keep(second, two)
        return self.join(first, second)


def fair_shares(lengths: Sequence[int], room: int) -> list[int]:
    """Return how many ids of each text are kept of several that are too long for the room together.

    The shortest are kept whole, and the others get the same number, of which the first ones have one more where the
    room is no multiple.
    """
    kept, left = [0] * len(lengths), room
    order = sorted(range(len(lengths)), key=lambda place: (lengths[place], -place))
    for done, place in enumerate(order):
        kept[place] = min(lengths[place], left // (len(order) - done))
        left -= kept[place]
    return kept


def shares(first: int, second: int, room: int, *, truncation: Truncation) -> tuple[int, int]:
    """Return how many ids of two texts are kept, of which there are too many for the room.

    ``longest_first`` takes from the longer one until both are equally long, as the tokenizers library does. The other
    two take from one text alone; the rest is taken from the other where that does not suffice.
    """
    if truncation == "only_first":
        second = min(second, room)
        return min(first, room - second), second
    if truncation == "only_second":
        first = min(first, room)
        return first, min(second, room - first)
    shorter = min(first, second, room // 2)
    longer = room - shorter
    return (longer, shorter) if first > second else (shorter, longer)


def _place(ids: list[int], part: list[int], start: int = 0) -> int | None:
    """Return where a part of ids first begins, from a place on; None where it is not there."""
    return next((place for place in range(start, len(ids)) if ids[place : place + len(part)] == part), None)


def _boundary(kinds: list[int], start: int, end: int) -> int | None:
    """Return how many ids from `start` to `end` have the kind of the second segment."""
    begins = kinds.index(1) if 1 in kinds else None
    if begins is None or not start <= begins <= end or kinds != [0] * begins + [1] * (len(kinds) - begins):
        return None
    return end - begins
