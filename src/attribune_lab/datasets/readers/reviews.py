"""Readers of reviews: of restaurants, films, beers, books, goods and recipes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from attribune.data.encodings import find_encoding
from attribune.data.text_files import open_text, readable
from attribune_lab.datasets.row_log import (
    GET_AGAIN,
    PARTS,
    Row,
    RowLog,
    Rows,
    lines,
    read_csv,
    read_json_lines,
    separated,
    whole_number,
    words,
)

_LENGTHS = range(32, 257)  # in words, of the reviews that the papers keep of GOOD and BEER


@dataclass(frozen=True, kw_only=True)
class Tang:
    """Reviews in the format of Tang, Qin and Liu.

    Args:
        ratings: the best rating; the worst is 1.
    """

    ratings: int

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the reviews of the three files."""
        columns = ("user", "product", "rating", "text")
        for part in PARTS:
            for place, fields in separated(files[part], role=part, columns=columns, log=log):
                row = self._row(place, fields, log)
                if row is not None:
                    yield part, row

    def _row(self, place: str, fields: list[str], log: RowLog) -> Row | None:
        user, product, rating, text = fields
        number = whole_number(rating, low=1, high=self.ratings)
        if number is None:
            log.broken(
                place,
                f"the third field is not a rating from 1 to {self.ratings}",
                "get the file as published, with the columns user, product, rating and text",
                found=repr(rating[:30]),
            )
            return None
        text = " ".join(text.replace("<sssss>", " ").split())  # the mark between sentences
        return {"text": text, "rating": str(number), "user": user, "product": product}


class ColdStart(Tang):
    """The same reviews, of training those whose pairs of user and product are listed."""

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the rows; a pair listed k times takes its first k training rows."""
        wanted = Counter(pair for _, pair in read_pairs(files["pairs"], log=log))
        listed, seen = wanted.copy(), Counter[tuple[str, str]]()
        for part, row in super().__call__(files, log):
            if part == "train":
                pair = (row["user"], row["product"])
                seen[pair] += 1
                if not wanted[pair]:
                    log.leave_out("training rows that are not in the list")
                    continue
                wanted[pair] -= 1
            yield part, row
        missing = +wanted
        for user, product in missing.elements():
            log.broken(
                str(files["pairs"]),
                "a listed pair has no training row",
                "give the training file from which the list was made",
                found=f"user {user!r}, product {product!r}; {missing.total():,} such pairs",
            )
        ambiguous = sum(count for pair, count in listed.items() if seen[pair] > count)
        log.remarks["rows of pairs that stand more often in the training file than in the list"] += ambiguous


def read_pairs(path: Path, *, log: RowLog) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the (user, product) pairs of a cold-start list, in file order, each with its place."""
    for place, line in lines(path, role="pairs", log=log):
        fields = [part.strip() for part in line.split("\t\t")]
        if len(fields) != 2 or not all(fields):
            log.broken(place, "not a user and a product", "get the list of pairs again", found=f"{len(fields)} fields")
            continue
        yield place, (fields[0], fields[1])


ASPECTS = ("appearance", "aroma", "palate", "taste")
_RATINGS = {number / 2: f"{number / 2:g}" for number in range(2, 11)}


def beer(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the reviews of BeerAdvocate, in either of the two formats in which they were published."""
    path = files["reviews"]
    plain = ".txt" in path.name
    for place, review in _blocks(path, log) if plain else read_json_lines(path, role="reviews", log=log):
        row = _beer_review(place, review, log)
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
                    log.broken(f"{path}, line {number}", "not 'key: value'", found=repr(text[:40]))
                    continue
                block[key.strip()] = value.strip()
            elif block:
                log.read["reviews"] += 1
                yield f"{path}, line {start}", block
                block = {}


def _beer_review(place: str, review: Mapping[str, Any], log: RowLog) -> Row | None:
    rated = {name: review.get(f"review/{name}") for name in (*ASPECTS, "overall")}
    ratings = {name: _rating(value) for name, value in rated.items()}
    text = review.get("review/text")
    by = "user/profileName" if "user/profileName" in review else "review/profileName"  # another one in each format
    user, beer = (str(review.get(name) or "").strip() for name in (by, "beer/beerId"))
    wrong = next((name for name, value in ratings.items() if value is None), None)
    if wrong is not None:
        log.broken(place, f"{wrong} is not a rating", found=repr(str(rated[wrong])[:30]))
        return None
    if not isinstance(text, str) or not beer:
        log.broken(place, "no review/text or no beer/beerId")
        return None
    if log.leave_out_if(
        {
            "a rating of 0, which stands for none": "0" in ratings.values(),
            "less than 32 or more than 256 words": words(text) not in _LENGTHS,
            "no user": not user,
        }
    ):
        return None
    aspects = {name: ratings[name] for name in ASPECTS}
    return {"text": " ".join(text.split())} | aspects | {"user": user, "beer": beer, "overall": ratings["overall"]}


def _rating(value: Any) -> str | None:
    """Return a rating from 1 to 5 in halves, as text; "0" for none given; None for anything else."""
    try:
        number = float(str(value).partition("/")[0])
    except ValueError:
        return None
    return "0" if number == 0 else _RATINGS.get(number)


def goodreads(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the reviews of Goodreads, with whether they give away the plot."""
    for place, review in read_json_lines(files["reviews"], role="reviews", log=log):
        row = _book_review(place, review, log)
        identifier = str(review.get("review_id") or place)
        if row is not None and log.first("review", identifier, place) and log.writable(place, row):
            yield None, row


def _book_review(place: str, review: dict[str, Any], log: RowLog) -> Row | None:
    text = _joined(review.get("review_sentences"))
    rating = whole_number(review.get("rating"), low=0, high=5)
    problems = {
        "has_spoiler": not isinstance(review.get("has_spoiler"), bool),
        "review_sentences": text is None,
        "rating": rating is None,
        "user_id": not review.get("user_id"),
        "book_id": not review.get("book_id"),
    }
    wrong = next((name for name, holds in problems.items() if holds), None)
    if wrong is not None:
        log.broken(
            place,
            f"{wrong} is missing or of another kind",
            "get goodreads_reviews_spoiler.json.gz again; the file with the ending _raw has other fields",
            found=repr(str(review.get(wrong))[:40]),
        )
        return None
    assert text is not None
    if words(text) not in _LENGTHS:
        log.leave_out("less than 32 or more than 256 words")
        return None
    return {
        "text": text,
        "spoiler": "yes" if review["has_spoiler"] else "no",
        "user": str(review["user_id"]),
        "book": str(review["book_id"]),
        "rating": str(rating),
    }


def _joined(sentences: Any) -> str | None:
    """Join sentences, pairs of a mark and a text in the file; None for anything else."""
    if not isinstance(sentences, list):
        return None
    parts = []
    for pair in sentences:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
            return None
        parts.append(pair[1].strip())
    return " ".join(part for part in parts if part)


def critics(files: Mapping[str, Path], log: RowLog) -> Rows:
    """Yield the quotes of Rotten Tomatoes, with whether the critic likes the film."""
    needs = ("critic", "fresh", "publication", "quote", "title")
    for place, row in read_csv(files["quotes"], role="quotes", log=log, needs=needs):
        verdict = row["fresh"].strip()
        if verdict not in ("fresh", "rotten", "none", ""):
            log.broken(place, "the verdict is not fresh, rotten or none", found=repr(verdict[:30]))
        elif verdict in ("none", ""):
            log.leave_out("no verdict")
        elif not row["quote"].strip():
            log.leave_out("no quote")
        else:
            names = ("critic", "title", "publication")
            yield None, {"text": row["quote"].strip(), "fresh": verdict} | {name: row[name].strip() for name in names}


@dataclass(frozen=True, kw_only=True)
class Reviews:
    """Reviews of a CSV file with a rating of at most 5; those without a text, or rated 0, are left out.

    Args:
        lowest: the lowest rating in the file; 0 stands for none.
        columns: those of the file, by the names ``text``, ``rating`` and the attributes; each pair of attributes has
            one review.
    """

    lowest: int
    columns: Mapping[str, str]

    def __call__(self, files: Mapping[str, Path], log: RowLog) -> Rows:
        """Yield the reviews of the file with the role ``reviews``."""
        columns = self.columns
        attributes = [name for name in columns if name not in ("text", "rating")]
        for place, row in read_csv(files["reviews"], role="reviews", log=log, needs=tuple(columns.values())):
            text, cell = row[columns["text"]].strip(), row[columns["rating"]]
            rating = whole_number(cell, low=self.lowest, high=5)
            values = {name: row[columns[name]] for name in attributes}
            if rating is None:
                reason = f"{columns['rating']} is not a rating from {self.lowest} to 5"
                log.broken(place, reason, found=repr(cell[:30]))
            elif not rating:
                log.leave_out("reviews without a rating (0)")
            elif not text:
                log.leave_out("reviews without a text")
            elif log.first("review", tuple(values.values()), place):
                yield None, {"text": text, "rating": str(rating), **values}
