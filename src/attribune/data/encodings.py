"""The encoding of a text file: checked if it is given, else found, or refused where several are as likely."""

from __future__ import annotations

import codecs
import io
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from attribune.core.door import as_argument
from attribune.core.wording import counted
from attribune.data.letters import LANGUAGES
from attribune.data.text_files import known_encoding, marked_encoding, open_bytes, readable
from attribune.errors import AttribuneWarning, DataError

__all__ = ["FoundEncoding", "detect_encoding", "find_encoding"]

_CHUNK = 2**20
_NOT_CP1252 = b"\x81\x8d\x8f\x90\x9d"
_SAMPLE = 8_000  # bytes of the words of a file by which encodings are compared
_CLEAR = 3.0  # the least logarithm of the odds of the best against the next
_FITTING = 0.9  # the least share of characters that the languages of an encoding have
_RARE = 0.02  # the largest share of bytes beyond ASCII of which a few damaged characters are made
_SHOWN = 40
# A letter may be of two bytes, whose second is any from 0x40 on, so that words are told apart by what is below alone.
_WORD = re.compile(rb"[\x40-\xff']*[\x80-\xff][\x40-\xff']*")
_UTF8 = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_ASCII = bytes(range(0x80))

_WEST = (
    "English",
    "western",
    "French",
    "German",
    "Spanish",
    "Portuguese",
    "Italian",
    "Dutch",
    "Scandinavian",
    "Icelandic",
)
_CENTRE = ("Polish", "Czech", "Slovak", "Hungarian", "Romanian", "South Slavic", "German")
_CYRILLIC = ("Russian", "Ukrainian", "Bulgarian", "Serbian", "Belarusian")
_BALTIC = ("Lithuanian", "Latvian", "Estonian")
_ENCODINGS: dict[str, tuple[float, tuple[str, ...]]] = {
    "cp1252": (0, _WEST),
    "cp1250": (3, _CENTRE),
    "cp1251": (3, _CYRILLIC),
    "gb18030": (3, ("Chinese",)),
    "cp932": (3, ("Japanese",)),
    "cp949": (3, ("Korean",)),
    "cp1253": (3, ("Greek",)),
    "cp1254": (3, ("Turkish",)),
    "big5hkscs": (3, ("Traditional Chinese",)),
    "cp1255": (3, ("Hebrew",)),
    "cp1256": (3, ("Arabic", "Persian")),
    "cp1257": (4, _BALTIC),
    "cp1258": (4, ("Vietnamese",)),
    "cp874": (4, ("Thai",)),
    "mac_roman": (4, _WEST),
    "euc_jp": (4, ("Japanese",)),
    "iso8859_2": (4, _CENTRE),
    "iso8859_15": (4, _WEST),
    "koi8_r": (4, ("Russian", "Bulgarian")),
    "koi8_u": (5, ("Ukrainian",)),
    "iso8859_5": (5, _CYRILLIC),
    "iso8859_7": (8, ("Greek",)),
    "cp866": (5, _CYRILLIC),
    "mac_cyrillic": (8, _CYRILLIC),
    "cp850": (4, _WEST),
    "cp437": (5, _WEST),
    "cp852": (5, _CENTRE),
}
"""Encodings, the more usual one first, each with how much rarer than the first it is, and languages written in it."""


@dataclass(frozen=True)
class FoundEncoding:
    """The encoding of a file.

    Args:
        name: as Python calls it.
        sample: a word with letters beyond ASCII, if the encoding was guessed.
    """

    name: str
    sample: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Bytes:
    """What is beyond ASCII in a file: how many bytes and UTF-8 characters, and some of the words."""

    size: int
    beyond: int
    utf8: int
    stray: int
    words: tuple[bytes, ...]


def _named() -> str:
    return as_argument("data.encoding")


def find_encoding(path: Path, *, encoding: str | None, cure: str | None = None) -> str:
    """Return the name of what `detect_encoding` finds."""
    return detect_encoding(path, encoding=encoding, cure=cure).name


def detect_encoding(path: Path, *, encoding: str | None, cure: str | None = None) -> FoundEncoding:
    """Read the whole file to find its encoding, or to check the one given; the file is never loaded whole.

    A byte order mark decides; else UTF-8, where every byte fits. Of other encodings one is taken only if the words
    with letters beyond ASCII are much likelier in it than in any other. Where the words are of no language, and few,
    it is Windows-1252, and the last resort is Latin-1, with a warning that counts the bytes which are not Windows-1252.

    Args:
        encoding: that the file must have; None detects it.
        cure: the advice of messages; by default to give the encoding.

    Raises:
        DataError: for a file that is not in the given encoding, contains a NUL character, is UTF-8 but for some bytes,
            or may be in several encodings.
        ConfigError: for an unknown encoding.
    """
    with readable(path):
        if encoding is not None:
            return FoundEncoding(_checked(path, known_encoding(encoding), cure))
        if (marked := marked_encoding(path)) is not None:
            return FoundEncoding(_checked(path, marked, cure))
        if (problem := _first_problem(path, "utf-8", cure)) is None:
            return FoundEncoding("utf-8")
        found = _read_bytes(path)
        if found.utf8 >= max(1, found.stray):
            raise DataError(
                f"{path}, {problem}, though the other {found.utf8:,} characters beyond ASCII are UTF-8 (bytes that are "
                f"not: {found.stray:,}): {cure or f'correct the file, or name the encoding with {_named()}'}"
            )
        return _guessed(path, found, cure)


def _guessed(path: Path, found: _Bytes, cure: str | None) -> FoundEncoding:
    """Return the encoding in which the words are likelier than in any other, if they are so by far."""
    readings = _readings(path, found, cure)
    for one in readings:
        is_clear = all(one.odds(other) >= _CLEAR for other in readings if other is not one)
        if is_clear and (one.fitting >= _FITTING or one.name == "cp1252"):
            return FoundEncoding(one.name, one.words[0])
    best = readings[0]
    if best.fitting >= _FITTING or found.beyond > _RARE * found.size:
        samples = ", ".join(f"{one.name} {one.words[_apart(readings)]!r:.{_SHOWN}}" for one in readings[:4])
        raise DataError(
            f"{path} is not UTF-8, and may be in several encodings ({samples}): "
            f"{cure or f'name the right one with {_named()}'}"
        )
    name = "cp1252"
    if _first_problem(path, name, cure) is not None:
        name = "latin-1"
        _first_problem(path, name, cure)
        misfits = counted(_count(path, _NOT_CP1252), "byte fits", "bytes fit")
        warnings.warn(
            f"{path} is neither UTF-8 nor Windows-1252 ({misfits} neither): it is read as Latin-1, and some "
            "characters may be wrong; "
            f"{cure or f'name the encoding with {_named()} if you know it'}",
            AttribuneWarning,
            stacklevel=2,
        )
    return FoundEncoding(name, found.words[0].decode(name))


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """The words of a file in an encoding.

    Args:
        worths: of each word in the language that fits best.
        rarity: of the encoding.
        fitting: share of characters that the language has.
    """

    name: str
    words: tuple[str, ...]
    worths: list[float]
    rarity: float
    fitting: float

    @property
    def worth(self) -> float:
        """What all words are worth."""
        return sum(self.worths) - self.rarity

    def odds(self, other: _Reading) -> float:
        """Return the logarithm of how much likelier this reading is than another.

        It is the mean of that of all words and that of the words which the two read differently: words that are the
        same in both tell the language, but count for little where there are many of them and the language is neither.
        """
        pairs = zip(self.words, other.words, self.worths, other.worths, strict=True)
        different = sum(one - two for word, read, one, two in pairs if word != read) - self.rarity + other.rarity
        return (self.worth - other.worth + different) / 2


def _readings(path: Path, found: _Bytes, cure: str | None) -> list[_Reading]:
    """Return the different readings of the words, the likeliest first, each in its most usual encoding."""
    by_words: dict[tuple[str, ...], _Reading] = {}
    for name, (rarity, languages) in _ENCODINGS.items():
        try:
            words = tuple(word.decode(name) for word in found.words)
        except UnicodeDecodeError:
            continue
        rated = [LANGUAGES[language].rate(words) for language in languages]
        worths, fitting = max(rated, key=lambda one: sum(one[0]))
        reading = _Reading(name=name, words=words, worths=worths, rarity=rarity, fitting=fitting)
        known = by_words.get(words)
        if known is None:
            by_words[words] = reading
        elif reading.worth > known.worth:
            by_words[words] = replace(reading, name=known.name)
    ordered = sorted(by_words.values(), key=lambda one: -one.worth)
    while ordered and _first_problem(path, ordered[0].name, cure) is not None:  # a word that is not among these
        ordered.pop(0)
    latin = tuple(word.decode("latin-1") for word in found.words)
    unknown = _Reading(name="latin-1", words=latin, worths=[0.0] * len(latin), rarity=0.0, fitting=0.0)
    return ordered or [unknown]


def _apart(readings: list[_Reading]) -> int:
    """Return the number of the first word that the two likeliest readings differ in."""
    pairs = zip(readings[0].words, readings[min(1, len(readings) - 1)].words, strict=True)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), 0)


def _read_bytes(path: Path) -> _Bytes:
    """Count what is beyond ASCII, and take the first words of it, and those with bytes that no earlier one has."""
    size = beyond = utf8 = stray = sampled = 0
    words: dict[bytes, None] = {}
    seen: set[int] = set()
    rest = b""
    with open_bytes(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            block, size = rest + chunk, size + len(chunk)
            end = len(block) if not chunk else max(block.rfind(b"\n"), block.rfind(b" "), len(block) - _CHUNK) + 1
            block, rest = block[:end], block[end:]
            beyond += len(block.translate(None, _ASCII))
            without, characters = _UTF8.subn(b"", block)
            utf8, stray = utf8 + characters, stray + len(without.translate(None, _ASCII))
            for word in _WORD.findall(block):
                if word not in words and (sampled < _SAMPLE or not seen.issuperset(word.translate(None, _ASCII))):
                    words[word], sampled = None, sampled + len(word)
                    seen.update(word)
            if not chunk:
                return _Bytes(size=size, beyond=beyond, utf8=utf8, stray=stray, words=tuple(words))


def _checked(path: Path, encoding: str, cure: str | None) -> str:
    problem = _first_problem(path, encoding, cure)
    if problem is not None:
        raise DataError(
            f"{path}, {problem}, so the file is not {encoding}: "
            f"{cure or f'name the right encoding with {_named()}, or leave it out to have it found'}"
        )
    return encoding


def _first_problem(path: Path, encoding: str, cure: str | None) -> str | None:
    """Say where the file is first not in this encoding; None when it is. A NUL is an error in every encoding."""
    bytes_decoder = codecs.getincrementaldecoder(encoding)("strict")
    decoder = io.IncrementalNewlineDecoder(bytes_decoder, translate=True)
    read, lines = 0, 1
    with open_bytes(path) as file:
        while True:
            chunk = file.read(_CHUNK)
            pending = len(bytes_decoder.getstate()[0])
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeError as error:
                return _describe(error, read - pending, lines)
            if "\0" in text:
                line = lines + text[: text.index("\0")].count("\n")
                raise DataError(
                    f"{path}, line {line}: a NUL character, which no text holds: "
                    f"{cure or f'remove it, or name the encoding with {_named()} if the file is UTF-16'}"
                )
            if not chunk:
                return None
            read += len(chunk)
            lines += text.count("\n")


def _describe(error: UnicodeError, offset: int, lines: int) -> str:
    if not isinstance(error, UnicodeDecodeError):
        return f"line {lines}: {error}"
    before = error.object[: error.start].decode(error.encoding, "replace")
    line = lines + before.count("\n") + before.replace("\r\n", "").count("\r")
    shown = error.object[error.start : error.start + 1].hex()
    return f"line {line}: byte {shown} at position {offset + error.start:,} cannot be decoded"


def _count(path: Path, unwanted: bytes) -> int:
    total = 0
    with open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            total += len(chunk) - len(chunk.translate(None, unwanted))
    return total
