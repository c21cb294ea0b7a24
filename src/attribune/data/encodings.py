"""The encoding of a text file: checked if it is given, else found, or refused where several are as likely.

Encodings of one alphabet differ only in the letters beyond ASCII, and a text read in the wrong one has letters that its
language lacks, in orders that no word has. What a decoded word is worth is therefore the sum of the logarithms of the
frequencies of its letters, which fall with their ranks as in Zipf's law.
"""

from __future__ import annotations

import codecs
import io
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from attribune.core.door import as_argument
from attribune.core.wording import counted
from attribune.data.text_files import known_encoding, marked_encoding, open_bytes, readable
from attribune.errors import AttribuneWarning, DataError

_FLOOR = -11.0  # the logarithm of the frequency of what a language does not have
_FOREIGN = -7.0  # that of a Latin letter of other languages, which names have
_UNFIT = (_FLOOR, _FOREIGN)
_CAPITAL = math.log(0.2)
_IN_A_ROW = math.log(0.1)  # two Latin letters beyond ASCII
_KNOWN_SIGNS, _OTHER_SIGNS = math.log(0.4), math.log(0.6)
_MARKS = "’“”–…‘—€£°«»„‚•·´\xa0¿¡®™©§×²"  # noqa: RUF001
_WIDE_MARKS = "，。、！？：（）「」；《》～“”…・ー【】『』　"  # noqa: RUF001
_WITHIN_WORDS = "’·´\xa0"  # noqa: RUF001
_APART = ("LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "THAI")  # scripts that no word mixes


@dataclass(frozen=True)
class Language:
    """A language, or a group of languages in whose texts the names of the others occur.

    Args:
        letters: those beyond ASCII, the most frequent first; of a script with thousands, the first ones alone.
        marks: the share of marks, such as quotes, among the characters beyond ASCII.
        signs: for such a script, says whether a character is one of the common ones, and their number.
    """

    letters: str
    marks: float = 0.2
    signs: tuple[Callable[[str], bool], int] | None = None
    _weights: dict[str, float] = field(default_factory=dict, repr=False, compare=False)

    _known: dict[tuple[str, str, str], float] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the logarithms of the frequencies."""
        share = math.log(1 - self.marks) + (0.0 if self.signs is None else _KNOWN_SIGNS)
        self._weights.update({one: share + value for one, value in _zipf(self.letters)})
        marks = _MARKS if self.signs is None else _WIDE_MARKS
        self._weights.update({one: math.log(self.marks) + value for one, value in _zipf(marks)})

    def rate(self, words: Iterable[str]) -> tuple[list[float], float]:
        """Return what each of some words is worth, and the share of their characters beyond ASCII that fit."""
        worths, count, fitting = [], 0, 0
        for word in words:
            worth = 0.0
            for place, one in enumerate(word):
                if not one.isascii():
                    here = (one, word[place - 1 : place] if place else "", word[place + 1 : place + 2])
                    if (value := self._known.get(here)) is None:
                        value = self._known[here] = self._value(*here)
                    worth, count, fitting = worth + value, count + 1, fitting + (value not in _UNFIT)
            worths.append(worth)
        return worths, fitting / count if count else 1.0

    def _value(self, one: str, before: str, after: str) -> float:
        if not _is_letter(one):
            is_inside = before.isalpha() and after.isalpha() and self.signs is None
            return _FLOOR if is_inside and one not in _WITHIN_WORDS else self._weights.get(one, _FLOOR)
        script = _script(one)
        if script in _APART and any(other.isalpha() and _script(other) != script for other in (before, after)):
            return _FLOOR
        if (one.isupper() and before.islower()) or (one.islower() and after.isupper()):
            return _FLOOR
        if (value := self._weights.get(one, self._weights.get(one.lower()))) is not None:
            is_second = script == "LATIN" and before.isalpha() and not before.isascii()
            return value + (_CAPITAL if one.isupper() else 0.0) + (_IN_A_ROW if is_second else 0.0)
        if self.signs is not None and self.signs[0](one):
            return math.log(1 - self.marks) + _OTHER_SIGNS - math.log(self.signs[1])
        return _FOREIGN if script == "LATIN" and _script(self.letters[0]) == "LATIN" else _FLOOR


def _zipf(ordered: str) -> Iterable[tuple[str, float]]:
    total = sum(1 / rank for rank in range(1, len(ordered) + 1))
    return ((one, -math.log(rank * total)) for rank, one in enumerate(ordered, start=1))


@cache
def _is_letter(one: str) -> bool:
    return one.isalpha() or unicodedata.category(one).startswith("M")


@cache
def _script(one: str) -> str:
    return unicodedata.name(one, "NONE").split()[0]


def _first_level(codec: str, first: int, last: int) -> Callable[[str], bool]:
    """Return whether a character is one of the common ones of a national standard, which come first there."""

    @cache
    def is_common(one: str) -> bool:
        try:
            return first <= int.from_bytes(one.encode(codec)) <= last
        except UnicodeEncodeError:
            return False

    return is_common


LANGUAGES: dict[str, Language] = {
    "English": Language("éñïöüèáçóíêâôàëåøäæ", marks=0.8),
    "western": Language("éäöüáíóñçèàßãêåøæôâúõîûëïìòùœýþðšž"),
    "French": Language("éèàêçùâîôûëïœüÿæ"),
    "German": Language("üäößé"),
    "Spanish": Language("óíáéñúü"),
    "Portuguese": Language("ãçáéíóêõúâàô"),
    "Italian": Language("èàùòìé"),
    "Dutch": Language("ëéïèöüçóáê"),
    "Scandinavian": Language("åäöøæéü"),
    "Icelandic": Language("íáðóþæéöúý"),
    "Polish": Language("łążęśćóńź"),
    "Czech": Language("íáéěřčžýšůúťňďó"),
    "Slovak": Language("áíčéžýúľšťôňóäďĺŕ"),
    "Hungarian": Language("áéöíóőüúű"),
    "Romanian": Language("ăîţşâșț"),
    "South Slavic": Language("čšžćđ"),
    "Turkish": Language("ıüşçğöİâîû"),
    "Lithuanian": Language("ėšžųįąčūę"),
    "Latvian": Language("āīēšūžļņčķģ"),
    "Estonian": Language("äõüöšž"),
    "Russian": Language("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"),
    "Ukrainian": Language("оанивіретсклудпзямьбгчйхжцюєїшщфґ"),
    "Bulgarian": Language("аоиетнрсвлдпкъмзугябчйшжхщцюфь"),
    "Serbian": Language("аоиенрсјтуксвдмпљзгбчњћшцжхђфџ"),
    "Belarusian": Language("аіенорстлдкпывўумзяьбгчёшцйхэжюф"),
    "Greek": Language("αοιτεσνηρπκυμςλίόάήέγδωχύθώφβξζψϊΐϋΰ", marks=0.03),
    "Hebrew": Language("יוהלארתבנמשעםדקחפגכסזטןץךףצ"),
    "Arabic": Language("اليمنوترسعبدهكفقحةجشصأخىذطضزثإغئءظؤآ"),
    "Persian": Language("ایرندوهمتسبلشکزفگعخقجآحپصطچضذغظثژءئ"),
    "Thai": Language("านรอกเงมยลวดทสตะปบคหแจพชขใไโผซถฟศณธญษภฉฮ่้ีัิ็์ืุูำึ"),
    "Vietnamese": Language("đàáạảãâăêôơưéèíìóòúùý"),
    "Chinese": Language(
        "的一是不了我在有人这大来上个国和们到说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实",
        signs=(_first_level("gb2312", 0xB0A1, 0xD7F9), 3755),
    ),
    "Traditional Chinese": Language(
        "的一是不了我在有人這大來上個國和們到說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實",
        signs=(_first_level("big5", 0xA440, 0xC67E), 5401),
    ),
    "Japanese": Language(
        "のにるたいをはしがとでてなれらりもかっすあこさまきくよそつうえせけおどめンスルトばみわやだじちねイアリクラシドタびろべほずげぐ",
        signs=(_first_level("shift_jis", 0x829F, 0x9872), 3200),
    ),
    "Korean": Language(
        "이다는에가의고을지하로한서은도를사기어리자아시나대인일정그라수있들것부해과보스게전제상원주면마조국장동여고구",
        signs=(_first_level("euc_kr", 0xB0A1, 0xC8FE), 2350),
    ),
}
"""Languages by name."""


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
    """What is beyond ASCII in a file: how many bytes and UTF-8 characters, and some of the words.

    Attributes:
        stray: bytes that are of no UTF-8 character, and `misfits` those that Windows-1252 has not.
    """

    size: int
    beyond: int
    utf8: int
    stray: int
    misfits: int
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
        misfits = counted(found.misfits, "byte fits", "bytes fit")
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
        known = by_words.setdefault(words, reading)
        if reading.worth > known.worth:
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
    size = beyond = utf8 = stray = misfits = sampled = 0
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
            misfits += len(block) - len(block.translate(None, _NOT_CP1252))
            without, characters = _UTF8.subn(b"", block)
            utf8, stray = utf8 + characters, stray + len(without.translate(None, _ASCII))
            for word in _WORD.findall(block):
                if word not in words and (sampled < _SAMPLE or not seen.issuperset(word.translate(None, _ASCII))):
                    words[word], sampled = None, sampled + len(word)
                    seen.update(word)
            if not chunk:
                return _Bytes(size=size, beyond=beyond, utf8=utf8, stray=stray, misfits=misfits, words=tuple(words))


def _checked(path: Path, encoding: str, cure: str | None) -> str:
    if (problem := _first_problem(path, encoding, cure)) is not None:
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
