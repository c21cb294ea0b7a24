"""What the name of a column says it is for, in seven languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Literal

__all__ = ["NAMES", "ColumnName", "Language", "Meaning"]

Meaning = Literal["text", "label", "time", "id", "group"]
Language = Literal["en", "de", "fr", "es", "it", "nl", "pt"]

NAMES: Mapping[Meaning, Mapping[Language, str]] = {
    "text": {
        "en": "text review body comment content sentence message post tweet description document quote abstract title",
        "de": "kommentar rezension beschreibung nachricht meinung inhalt satz beitrag titel anmerkung bewertung",
        "fr": "texte commentaire avis critique contenu phrase titre remarque temoignage",
        "es": "texto comentario resena opinion mensaje descripcion contenido frase titulo critica",
        "it": "testo commento recensione messaggio descrizione contenuto frase opinione titolo",
        "nl": "tekst commentaar opmerking recensie bericht beschrijving inhoud zin titel reactie",
        "pt": "texto comentario resenha mensagem descricao conteudo frase opiniao titulo",
    },
    "label": {
        "en": "label target class classes y star rating score sentiment polarity verdict grade answer overall nps "
        "emotion intent diagnosis outcome stance",
        "de": "bewertung bewertungen note noten sterne klasse klassen punktzahl stimmung urteil einstufung",
        "fr": "note etoile classe etiquette appreciation evaluation notation",
        "es": "calificacion puntuacion valoracion estrella nota clase etiqueta puntaje sentimiento",
        "it": "valutazione voto voti punteggio stelle classe etichetta giudizio",
        "nl": "beoordeling waardering cijfer sterren klasse",
        "pt": "avaliacao nota classificacao pontuacao estrela classe etiqueta rotulo sentimento",
    },
    "time": {
        "en": "date time timestamp created day",
        "de": "datum zeit zeitpunkt uhrzeit erstellt",
        "fr": "heure jour",
        "es": "fecha hora",
        "it": "giorno",
        "nl": "tijd",
        "pt": "hora",
    },
    "id": {
        "en": "id index row number uuid guid key",
        "de": "nr nummer zeile",
        "fr": "numero num ligne identifiant",
        "es": "numero fila identificador",
        "it": "numero riga",
        "nl": "nummer rij",
        "pt": "numero linha identificador",
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
    },
}
"""Words, without accents, of the names of columns. A word may mean several things: the values decide between them."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_COMPOUNDS: tuple[Language, ...] = ("de", "nl")  # languages that write Kundenbewertung in one word
_LAST = ("text", "id")  # what the last word of a name alone says
_PLURALS = ("text", "label")
_ALSO: Mapping[Meaning, str] = {"label": r"(^|_)is_\w+", "time": r"(date|time|created|_at)$", "id": r"^unnamed"}


def _pattern(meaning: Meaning) -> re.Pattern[str]:
    by_language = {language: words.split() for language, words in NAMES[meaning].items()}
    alone = "|".join(dict.fromkeys(word for words in by_language.values() for word in words))
    joined = [word for language in _COMPOUNDS for word in by_language[language] if len(word) > 4 or word == "nr"]
    joined += by_language["en"] if meaning == "text" else []
    plural = "s?" if meaning in _PLURALS else ""
    end = "$" if meaning in _LAST else "(_|$)"
    also = [_ALSO[meaning]] if meaning in _ALSO else []
    return re.compile("|".join([f"(^|_)({alone}){plural}{end}", f"({'|'.join(joined)}){plural}$", *also]))


class ColumnName:
    """The name of a column, without capitals and accents.

    Args:
        name: as the table has it.
    """

    def __init__(self, name: str) -> None:
        parts = unicodedata.normalize("NFKD", _CAMEL.sub("_", name).casefold())
        plain = "".join(one for one in parts if not unicodedata.combining(one))
        self.plain = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")

    def means(self, meaning: Meaning) -> bool:
        """Whether it says that the column is one of these."""
        return _PATTERNS[meaning].search(self.plain) is not None

    def distance(self, meaning: Meaning) -> int:
        """How far it is from a meaning: 0 for the English word alone, 1 for another one, 2 for one beside others."""
        words = NAMES[meaning]
        if self.plain in _plurals(words["en"]):
            return 0
        return 1 if any(self.plain in _plurals(listed) for listed in words.values()) else 2


def _plurals(listed: str) -> set[str]:
    return {form for word in listed.split() for form in (word, f"{word}s")}


_PATTERNS: Mapping[Meaning, re.Pattern[str]] = {meaning: _pattern(meaning) for meaning in NAMES}
