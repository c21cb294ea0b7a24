"""Rows and files of the data sets in the formats in which their sources publish them, written by the tests."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from published_judgements import judged_files
from published_preferences import preference_files
from published_texts import text_files

from attribune_lab.datasets.row_log import Row, RowLog, SplitName
from attribune_lab.datasets.sets import CARDS

ROWS = 60
PARTS = ("train", "dev", "test")
TANG = {
    "yelp-2013": "yelp-2013-seg-20-20.{}.ss",
    "yelp-2014": "yelp-2014-seg-20-20.{}.ss",
    "imdb": "imdb.{}.txt.ss",
}


def text_of(words: int, *first: object) -> str:
    """A text of so many words."""
    return " ".join([*map(str, first), *(f"w{number}" for number in range(words - len(first)))])


def write(path: Path, content: str | bytes, *, encoding: str = "utf-8") -> Path:
    """Write a file, compressed where its name ends so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else content.encode(encoding)
    packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(packed(raw))
    return path


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """A CSV file with a header."""
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def json_text(items: Iterable[Any]) -> str:
    """One JSON value a line, with slashes escaped as BeerAdvocate's file has them."""
    return "".join(json.dumps(item).replace("/", "\\/") + "\n" for item in items)


def read_rows(name: str, folder: Path, *, skip_bad: bool = False) -> tuple[list[tuple[SplitName | None, Row]], RowLog]:
    """What a set's reader makes of the files in a folder."""
    log = RowLog(skip_bad=skip_bad)
    files = {file.role: file.find(folder) for file in CARDS[name].files}
    return list(CARDS[name].read({role: path for role, path in files.items() if path is not None}, log)), log


def tang_line(user: str, product: str, rating: object, text: str) -> str:
    """A line of Tang, Qin and Liu."""
    return f"{user}\t\t{product}\t\t{rating}\t\t{text}\n"


def paper(**changes: Any) -> dict[str, Any]:
    """A paper of AAPR."""
    known = {"title": "On beer", "abstract": "We drink it.", "authors": "Ann Lee, Bo Chu", "category": "cs.CL, cs.LG"}
    return known | {"venue": "ACL", "tex_data": "\\section{Introduction}"} | changes


def message(**changes: Any) -> dict[str, Any]:
    """A row of PolMed, every column as the file has it."""
    before = ["_unit_id", "_golden", "_unit_state", "_trusted_judgments", "_last_judgment_at", "audience"]
    after = ["audience:confidence", "bias", "bias:confidence", "message", "message:confidence", "orig__golden"]
    more = ["audience_gold", "bias_gold", "bioid", "embed", "id", "label", "message_gold", "source", "text"]
    known = dict.fromkeys([*before, *after, *more], "")
    known |= {"audience": "national", "bias": "partisan", "message": "policy", "source": "twitter"}
    return known | {"label": "From: Trey Radel (Representative from Florida)", "text": "Read the bill"} | changes


def recipe(**changes: Any) -> dict[str, Any]:
    """A row of RAW_recipes.csv; lists are written as Python writes them."""
    known: dict[str, Any] = {"name": "winter squash", "id": 1, "minutes": 55, "contributor_id": 47892}
    known |= {"submitted": "2005-09-16", "tags": ["60-minutes-or-less", "time-to-make", "mexican"]}
    known |= {"nutrition": [51.5, 0.0], "n_steps": 1, "steps": [text_of(12, "bake")]}
    return known | {"description": "autumn\nit is", "ingredients": ["squash", "honey"], "n_ingredients": 2} | changes


def interaction(**changes: Any) -> dict[str, Any]:
    """A row of RAW_interactions.csv."""
    known = {"user_id": 60989, "recipe_id": 30081, "date": "2003-07-10", "rating": 5, "review": 'Oh my, "good"!'}
    return known | changes


def book_review(**changes: Any) -> dict[str, Any]:
    """A line of goodreads_reviews_spoiler.json."""
    known = {"user_id": "8842281e", "timestamp": "2017-08-30", "review_sentences": [[0, text_of(20)], [1, text_of(20)]]}
    return known | {"rating": 5, "has_spoiler": True, "book_id": "18245960", "review_id": "dfdbb7b0"} | changes


def beer_review(**changes: Any) -> dict[str, Any]:
    """A review of beeradvocate.json; underscores in the changes stand for its slashes."""
    known = {"review/appearance": 2.5, "beer/style": "Hefeweizen", "review/palate": 1.5, "review/taste": 1.5}
    known |= {"beer/name": "Sausa Weizen", "beer/ABV": 5.0, "beer/beerId": "47986", "review/timeUnix": 1234817823}
    known |= {"review/timeStruct": {"isdst": 0, "mday": 16}, "review/overall": 1.5, "review/text": text_of(40)}
    known |= {"user/profileName": "stcules", "review/aroma": 2.0, "user/gender": None}
    return known | {key.replace("_", "/"): value for key, value in changes.items()}


def beer_block(review: dict[str, Any]) -> str:
    """The same review as beeradvocate.txt has it, where two fields have other names."""
    names = {"user/profileName": "review/profileName", "review/timeUnix": "review/time"}
    shown = [name for name in review if review[name] is not None and name != "review/timeStruct"]
    return "".join(f"{names.get(name, name)}: {review[name]}\n" for name in shown) + "\n"


def quote(**changes: Any) -> dict[str, Any]:
    """A row of critics.csv."""
    known = {"critic": "Owen Gleiberman", "fresh": "fresh", "imdb": "0114709", "publication": "Entertainment Weekly"}
    known |= {"quote": "So ingenious.", "review_date": "2011-09-07", "rtid": 9559, "title": "Toy Story"}
    return known | changes


def shop_review(**changes: Any) -> dict[str, Any]:
    """A row of Musical_instruments_reviews.csv."""
    known = {"reviewerID": "A2IBPI20UZIR0U", "asin": "1384719342", "reviewerName": 'cassandra "tu"', "helpful": [0, 0]}
    known |= {"reviewText": "Not much to write.", "overall": 5.0, "summary": "good", "unixReviewTime": 1393545600}
    return known | {"reviewTime": "02 28, 2014"} | changes


def source_files(name: str, rows: int = ROWS) -> dict[str, str | bytes]:
    """Files of a set, by the names that its source gives them, with so many rows that are kept, all different."""
    if (texts := text_files(name, rows, csv_text)) is not None:
        return texts
    if (judged := judged_files(name, rows, csv_text)) is not None:
        return dict(judged)
    if (preferred := preference_files(name, rows, csv_text)) is not None:
        return dict(preferred)
    base = name.partition("-cold-")[0]
    if base in TANG:
        return _tang(base, name, rows)
    if name == "aapr":
        venues = ["ACL", "CoRR", "No"]
        papers = {f"18{i:05}": paper(abstract=f"Idea {i}.", venue=venues[i % 3]) for i in range(rows)}
        return {f"data{part + 1}": json.dumps(dict(list(papers.items())[part::4])) for part in range(4)}
    return _tables(name, rows)


def _tang(base: str, name: str, rows: int) -> dict[str, str | bytes]:
    best = CARDS[base].classes
    lines = [
        tang_line(f"u{i % 5}", f"p{i // 5 % 7}", 1 + i % best, f"it was <sssss> number {i} . <sssss>")
        for i in range(rows)
    ]
    files: dict[str, str | bytes] = {
        TANG[base].format(part): "".join(lines[place::3]) for place, part in enumerate(PARTS)
    }
    if name != base:
        short, digit = base.replace("yelp-", "yelp"), name[-2]
        pairs = ["\t\t".join(line.split("\t\t")[:2]) for line in lines[::6]]
        files[f"{short}/train_zero{digit}.txt.ids"] = "\n".join(pairs) + "\n"
    return files


def _tables(name: str, rows: int) -> dict[str, str | bytes]:
    if name.startswith("political-"):
        kinds = {
            "audience": ("national", "constituency"),
            "bias": ("partisan", "neutral"),
            "message": ("policy", "attack"),
        }
        pairs = [{kind: names[number % 2] for kind, names in kinds.items()} for number in range(rows)]
        posts = [message(text=f"Vote {i}", label=f"P{i % 7}", **labels) for i, labels in enumerate(pairs)]
        return {"political_social_media.csv": csv_text(posts)}
    numbers = range(rows)
    tastes = [text_of(40, "beer", number) for number in numbers]
    if name.startswith("studemo"):
        said = [{"valence": f"{i % 7 - 3}.0", "arousal": f"{i % 4}.0"} for i in numbers]
        judged = [{"text_id": i, "annotator_id": f"{i % 5}.0"} | levels for i, levels in enumerate(said)]
        written = [{"text_id": i, "text": f"Visit number {i}"} for i in numbers]
        return {"text_data.csv": csv_text(written), "annotation_data.csv": csv_text(judged)}
    made: dict[str, tuple[str, Any]] = {
        "popquorn-offensiveness": (
            "raw_data.csv",
            [
                {"user_id": i % 5, "text": f"Comment {i}", "offensiveness": f"{1 + i % 5}.0"}
                | dict.fromkeys(("gender", "race", "age", "occupation", "education"), f"of {i % 5}")
                for i in numbers
            ],
        ),
        "polmed": (
            "political_social_media.csv",
            [message(text=f"Vote {i}", message="policy" if i % 2 else "attack", label=f"P{i % 7}") for i in numbers],
        ),
        "food": (
            "RAW_recipes.csv",
            [recipe(id=i, minutes=5 + i % 140, steps=[text_of(12, "bake", i)]) for i in numbers],
        ),
        "foodcom-reviews": (
            "RAW_interactions.csv",
            [interaction(user_id=i % 7, recipe_id=i, rating=1 + i % 5, review=f"Made it, {i}") for i in numbers],
        ),
        "good": (
            "goodreads_reviews_spoiler.json",
            [
                book_review(review_id=f"r{i}", has_spoiler=i % 3 == 0, review_sentences=[[0, text_of(40, "book", i)]])
                for i in numbers
            ],
        ),
        "beer": (
            "beeradvocate.json",
            [beer_review(review_text=tastes[i], beer_beerId=str(i % 7), **aspects(i)) for i in numbers],
        ),
        "critics": (
            "critics.csv",
            [
                quote(quote=f"Film number {i}", fresh="fresh" if i % 2 else "rotten", critic=f"C{i % 7}")
                for i in numbers
            ],
        ),
        "amazon-instruments": (
            "Musical_instruments_reviews.csv",
            [shop_review(asin=f"{i:010}", overall=1.0 + i % 5, reviewText=f"Guitar {i}") for i in numbers],
        ),
    }
    file, items = made[name]
    return {file: csv_text(items) if file.endswith(".csv") else json_text(items)}


def aspects(number: int) -> dict[str, float]:
    """Ratings of the aspects that differ from number to number, as changes of a review."""
    names = ("appearance", "aroma", "palate", "taste")
    return {f"review_{name}": 1 + (number + place) % 9 / 2 for place, name in enumerate(names)}


def write_source(folder: Path, name: str, rows: int = ROWS, *, packed: str = "") -> Path:
    """Write the files of a set; returns the folder."""
    for file, content in source_files(name, rows).items():
        write(folder / f"{file}{packed}", content)
    return folder
