"""What the name of a column says it is for, in twelve languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal

Meaning = Literal["text", "label", "time", "id", "group", "judge"]
Language = Literal["en", "de", "fr", "es", "it", "nl", "pt", "ru", "zh", "ja", "ko", "ar"]

NAMES: Mapping[Meaning, Mapping[Language, str]] = {
    "text": {
        "en": "text review body comment content sentence message post tweet description document quote abstract title",
        "de": "kommentar rezension beschreibung nachricht meinung inhalt satz beitrag titel anmerkung bewertung",
        "fr": "texte commentaire avis critique contenu phrase titre remarque temoignage",
        "es": "texto comentario resena opinion mensaje descripcion contenido frase titulo critica",
        "it": "testo commento recensione messaggio descrizione contenuto frase opinione titolo",
        "nl": "tekst commentaar opmerking recensie bericht beschrijving inhoud zin titel reactie",
        "pt": "texto comentario resenha mensagem descricao conteudo frase opiniao titulo",
        "ru": "текст отзыв комментарий сообщение описание",
        "zh": "文本 评论 内容 正文 标题 评价内容",
        "ja": "テキスト レビュー コメント 本文 内容",
        "ko": "텍스트 리뷰 댓글 내용 본문",
        "ar": "النص نص تعليق مراجعة",
    },
    "label": {
        "en": "label target class classes y star rating score sentiment polarity verdict grade answer overall nps "
        "emotion intent diagnosis outcome stance winner points "
        "satisfaction",
        "de": "bewertung bewertungen note noten sterne klasse klassen punktzahl stimmung urteil einstufung",
        "fr": "note etoile classe etiquette appreciation evaluation notation",
        "es": "calificacion puntuacion valoracion estrella nota clase etiqueta puntaje sentimiento",
        "it": "valutazione voto voti punteggio stelle classe etichetta giudizio",
        "nl": "beoordeling waardering cijfer sterren klasse",
        "pt": "avaliacao nota classificacao pontuacao estrela classe etiqueta rotulo sentimento",
        "ru": "метка оценка рейтинг класс тональность",
        "zh": "标签 评分 类别 情感 星级 评级",
        "ja": "ラベル 評価 分類 感情 星",
        "ko": "라벨 레이블 평점 평가 감정",
        "ar": "التقييم تقييم تصنيف الفئة",
    },
    "time": {
        "en": "date time timestamp datetime unixtime ts created posted published day",
        "de": "datum zeit zeitpunkt uhrzeit erstellt",
        "fr": "heure jour",
        "es": "fecha hora",
        "it": "giorno",
        "nl": "tijd",
        "pt": "hora",
        "ru": "дата время",
        "zh": "日期 时间",
        "ja": "日付 日時",
        "ko": "날짜 시간",
        "ar": "التاريخ تاريخ",
    },
    "id": {
        "en": "id index row number uuid guid key",
        "de": "nr nummer zeile",
        "fr": "numero num ligne identifiant",
        "es": "numero fila identificador",
        "it": "numero riga",
        "nl": "nummer rij",
        "pt": "numero linha identificador",
        "ru": "номер",
        "zh": "编号 序号",
        "ja": "番号",
        "ko": "번호",
        "ar": "رقم",
    },
    "group": {
        "en": "user author customer reviewer judge annotator rater product item film movie shop store brand city agent "
        "speaker gender sex country region nationality language department publisher source platform device",
        "de": "nutzer benutzer kunde kunden autor produkt artikel filiale marke ort stadt laden geschlecht land "
        "sprache",
        "fr": "utilisateur client auteur produit article magasin marque ville sexe pays langue",
        "es": "usuario cliente autor producto articulo tienda marca ciudad sexo genero pais idioma",
        "it": "utente cliente autore prodotto articolo negozio marca citta sesso paese lingua",
        "nl": "gebruiker klant auteur product artikel winkel merk stad geslacht land taal",
        "pt": "usuario utilizador cliente autor produto artigo loja marca cidade sexo genero pais idioma",
        "ru": "пользователь клиент автор товар магазин город пол страна язык",
        "zh": "用户 客户 作者 产品 商品 店铺 城市 性别 国家 语言",
        "ja": "ユーザー 顧客 著者 商品 店舗 都市 性別 国 言語",
        "ko": "사용자 고객 저자 제품 상품 매장 도시 성별 국가 언어",
        "ar": "المستخدم العميل المؤلف المنتج المتجر المدينة مدينة الجنس البلد اللغة",
    },
    "judge": {
        "en": "annotator judge rater coder worker turker labeler labeller expert critic",
        "de": "bewerter gutachter kodierer codierer",
        "fr": "annotateur juge evaluateur codeur",
        "es": "anotador juez evaluador codificador",
        "it": "annotatore giudice valutatore",
        "nl": "beoordelaar",
        "pt": "anotador juiz avaliador",
        "ru": "аннотатор разметчик эксперт оценщик",
        "zh": "标注者 标注员 评审",
        "ja": "評価者 注釈者 アノテーター",
        "ko": "평가자 주석자",
        "ar": "المقيم المحكم",
    },
}
"""Words, without accents, of the names of columns. A word may mean several things: the values decide between them."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_COMPOUNDS: tuple[Language, ...] = ("de", "nl")  # languages that write Kundenbewertung in one word
_WITHOUT_SPACES: tuple[Language, ...] = ("zh", "ja")
_LAST = ("text", "id")  # what the last word of a name alone says
_PLURALS = ("text", "label", "judge")
_OWNERS = "|".join(f"{NAMES['text']['en']} {NAMES['group']['en']}".split())
_ID = rf"(^|_)({_OWNERS})?ids?$"  # also tweetid, and userid
_ALSO: Mapping[Meaning, str] = {
    "label": r"(^|_)is_\w+|^how_(likely|satisfied)_",
    "time": r"_at$",
    "id": rf"^unnamed|{_ID}",
}


def _by_language(meaning: Meaning) -> Mapping[Language, list[str]]:
    return {language: [_plain(word) for word in words.split()] for language, words in NAMES[meaning].items()}


def _any_of(by_language: Mapping[Language, list[str]]) -> str:
    return "|".join(dict.fromkeys(word for words in by_language.values() for word in words))


def _pattern(meaning: Meaning) -> re.Pattern[str]:
    by_language = _by_language(meaning)
    joined = [word for language in _COMPOUNDS for word in by_language[language] if len(word) > 4 or word == "nr"]
    joined += [word for language in _WITHOUT_SPACES for word in by_language[language] if len(word) > 1]
    joined += by_language["en"] if meaning == "text" else []
    plural = "s?" if meaning in _PLURALS else ""
    end = "$" if meaning in _LAST else "(_|$)"
    also = [_ALSO[meaning]] if meaning in _ALSO else []
    return re.compile(
        "|".join([f"(^|_)({_any_of(by_language)}){plural}{end}", f"({'|'.join(joined)}){plural}$", *also])
    )


class ColumnName:
    """The name of a column, without capitals and accents.

    Args:
        name: as the table has it.
    """

    def __init__(self, name: str) -> None:
        self.plain = _plain(name)
        self._words = re.sub(r"(?<=[^\W\d_])_?\d+$", "", self.plain)  # score1 is a score

    def means(self, meaning: Meaning) -> bool:
        """Whether it says that the column is one of these."""
        return _PATTERNS[meaning].search(self._words) is not None

    @property
    def is_of_person(self) -> bool:
        """Whether it ends with the word for one who judges or writes, as ``annotator`` and ``user_email`` do."""
        return _PERSON.search(self.plain) is not None

    @property
    def is_of_ids(self) -> bool:
        """Whether it ends with the word for an id, which names a thing, as numbers of rows do not."""
        return re.search(_ID, self._words) is not None

    def distance(self, meaning: Meaning) -> int:
        """How far it is from a meaning: 0 for the English word, 1 for another, 2 behind others, else 3."""
        words = NAMES[meaning]
        if self._words != self.plain:
            return 3
        if self.plain in _plurals(words["en"]):
            return 0
        if any(self.plain in _plurals(_plain(listed)) for listed in words.values()):
            return 1
        ends = [_PATTERNS[meaning].search(text) for text in (self.plain, self.plain.rpartition("_")[2])]
        return 2 if any(found is not None and found.string.endswith(found[0]) for found in ends) else 3


def _plurals(listed: str) -> set[str]:
    return {form for word in re.split("[ _]", listed) for form in (word, f"{word}s")}


def _plain(name: str) -> str:
    """Return a name in small letters without accents, with ``_`` for all other signs."""
    parts = unicodedata.normalize("NFKD", _CAMEL.sub("_", name).casefold())
    plain = "".join(one for one in parts if not unicodedata.combining(one))
    return re.sub(r"\W+", "_", plain).strip("_")


_PATTERNS: Mapping[Meaning, re.Pattern[str]] = {meaning: _pattern(meaning) for meaning in NAMES}
_PERSON = re.compile(
    rf"(^|_)({_any_of(_by_language('judge'))}|user|username|reviewer|completed_by)s?(_?(id|name|email)s?)?$"
)
