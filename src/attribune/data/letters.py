"""The letters of languages, by which the encodings of a text that could be in several are told apart.

Encodings of one alphabet differ only in the letters beyond ASCII, and a text read in the wrong one has letters that its
language lacks, in orders that no word has. What a decoded word is worth is therefore the sum of the logarithms of the
frequencies of its letters, which fall with their ranks as in Zipf's law.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

__all__ = ["LANGUAGES", "Language"]

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
