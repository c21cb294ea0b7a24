"""BEER: four aspects of a beer, from reviews of BeerAdvocate, in the two formats in which they were published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from attribune.data.encodings import find_encoding
from attribune.data.text_files import open_text, readable
from attribune_lab.datasets.card import NOT_STATED, Card, Shuffled, SourceFile, categorical, table_1
from attribune_lab.datasets.row_log import GET_AGAIN, REVIEW_WORDS, Row, RowLog, SplitName, read_json_lines, words

__all__ = ["ASPECTS", "BEER"]

ASPECTS = ("appearance", "aroma", "palate", "taste")
_RATINGS = {number / 2: f"{number / 2:g}" for number in range(2, 11)}


def _read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    path = files["reviews"]
    plain = ".txt" in path.name
    for place, review in _blocks(path, log) if plain else read_json_lines(path, role="reviews", log=log):
        row = _row(place, review, log)
        if row is not None and log.writable(place, row):
            yield None, row


def _blocks(path: Path, log: RowLog) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield reviews of lines ``key: value``, divided by blank lines."""
    with readable(path), open_text(path, find_encoding(path, encoding=None, cure=GET_AGAIN)) as file:
        block: dict[str, str] = {}
        start = 1
        for number, line in enumerate(chain(file, [""]), start=1):  # the last block ends with the file
            text = line.strip()
            if text:
                start = start if block else number
                key, colon, value = text.partition(":")
                if not colon or "/" not in key:
                    log.broken(f"{path}, line {number}", "not 'key: value'", GET_AGAIN, found=repr(text[:40]))
                    continue
                block[key.strip()] = value.strip()
            elif block:
                log.read["reviews"] += 1
                yield f"{path}, line {start}", block
                block = {}


def _row(place: str, review: Mapping[str, Any], log: RowLog) -> Row | None:
    rated = {name: review.get(f"review/{name}") for name in (*ASPECTS, "overall")}
    ratings = {name: _rating(value) for name, value in rated.items()}
    text = review.get("review/text")
    user, beer = (str(review.get(name) or "").strip() for name in (_user_key(review), "beer/beerId"))
    wrong = next((name for name, value in ratings.items() if value is None), None)
    if wrong is not None:
        log.broken(place, f"{wrong} is not a rating", GET_AGAIN, found=repr(str(rated[wrong])[:30]))
        return None
    if not isinstance(text, str) or not beer:
        log.broken(place, "no review/text or no beer/beerId", GET_AGAIN)
        return None
    if log.leave_out_if(
        {
            "a rating of 0, which stands for none": "0" in ratings.values(),
            "less than 32 or more than 256 words": words(text) not in REVIEW_WORDS,
            "no user": not user,
        }
    ):
        return None
    aspects = {name: ratings[name] for name in ASPECTS}
    return {"text": " ".join(text.split())} | aspects | {"user": user, "beer": beer, "overall": ratings["overall"]}


def _user_key(review: Mapping[str, Any]) -> str:
    """Return the name of the user's field, which is another one in each format."""
    return "user/profileName" if "user/profileName" in review else "review/profileName"


def _rating(value: Any) -> str | None:
    """Return a rating from 1 to 5 in halves, as text; "0" for none given; None for anything else."""
    try:
        number = float(str(value).partition("/")[0])
    except ValueError:
        return None
    return "0" if number == 0 else _RATINGS.get(number)


BEER = Card(
    name="beer",
    title="BEER",
    source="Julian McAuley, Jure Leskovec and Dan Jurafsky, Stanford: BeerAdvocate",
    obtain=(
        "Get the BeerAdvocate reviews from the authors (https://snap.stanford.edu/data/web-BeerAdvocate.html: the set "
        "was withdrawn from the page at the site's request; ask them), as beeradvocate.json (one object a line) or "
        "beeradvocate.txt (lines 'key: value')."
    ),
    revision=NOT_STATED,
    licence=NOT_STATED,
    terms="Withdrawn from public distribution at BeerAdvocate's request; may not be redistributed.",
    citation="McAuley, Leskovec and Jurafsky 2012, Learning Attitudes and Attributes from Multi-Aspect Reviews, ICDM",
    files=(
        SourceFile(
            role="reviews",
            names=("beeradvocate.json", "beeradvocate.jsonl", "beeradvocate.txt", "beer_head.jsonl"),
            rows=1_586_259,
        ),
    ),
    read=_read,
    split=Shuffled(rows=10_000),
    attributes=categorical("user", "beer", "overall"),
    labels=ASPECTS,
    task={"kind": "aspects", "names": list(ASPECTS)},
    classes=9,
    metric="mean_accuracy",
    preparation=(
        "Reviews of less than 32 or more than 256 words are left out, as for GOOD, and those with a rating of 0, "
        "which the site gave where none was."
    ),
    published=table_1(train=1_500_000, validation=10_000, test=10_000, words=(133, 56), values=98_000, sparse=75.3),
    divergence={"random": 2.195, "majority": 1.656, "user": 1.754, "beer": 1.769, "overall": 1.363, "all": 1.362},
)
