"""Yelp 2013, Yelp 2014 and IMDB as Tang, Qin and Liu (2015) published them, and the cold-start sets made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from attribune_lab.datasets.card import NOT_STATED, Card, Given, SourceFile, categorical, table_1
from attribune_lab.datasets.row_log import Row, RowLog, SplitName, lines, separated, whole_number

__all__ = ["COLD", "TANG", "read_pairs"]

_SENTENCE = "<sssss>"
_LIST_SHA256 = {
    ("yelp-2013", 20): "58ed486959ef53adc6c0a6b04a3170a5d9ed0c0d3b83de4663c063b3c91b75e3",
    ("yelp-2013", 50): "61cf76722d188bde5e67aa1edb4a6ef27cdfcdfbbe4e661b5a6839b5cb8a91f4",
    ("yelp-2013", 80): "e68b8826411b929f29924bf91b25c9625802e593f2c890ecab04249992f8fc67",
    ("imdb", 20): "07028471e3e19a62f8d37587abaafdea905ba72b7a60efd9795f38c5c33bc601",
    ("imdb", 50): "34bb9a0c011458535c8234cceb034fc44f47b6bda48e78020da30a1b13a59b1c",
    ("imdb", 80): "bdd712c4b6a20aed2aca5ffdf39645728dd39bdde2a2f0c79560f1e1576b9db7",
}
_ARCHIVE = "dataset.7z of the ACL 2015 paper"
_PAIRS = "github.com/rktamplayo/HCSC at 41e4e54feee5af028006dcff9a25b758c4769e21"
_COLUMNS = ("user", "product", "rating", "text")
_PARTS: dict[SplitName, str] = {"train": "train", "validation": "dev", "test": "test"}
_OBTAIN = (
    "Download dataset.7z of the ACL 2015 paper (http://ir.hit.edu.cn/~dytang/paper/acl2015/dataset.7z) and unpack it; "
    "the files are {names}. The authors' emnlp-2015-data.7z holds other reviews."
)
_TERMS = "Reviews of Yelp and IMDB: for research, under the terms of their sites; may not be redistributed."
_TANG_CITATION = (
    "Tang, Qin and Liu 2015, Learning Semantic Representations of Users and Products for Document Level Sentiment "
    "Classification, ACL"
)
_COLD_CITATION = (
    "Amplayo, Kim, Sung and Hwang 2018, Cold-Start Aware User and Product Attention for Sentiment Classification, ACL"
)


def _read(files: Mapping[str, Path], log: RowLog, *, ratings: int) -> Iterator[tuple[SplitName | None, Row]]:
    for part in _PARTS:
        for place, fields in separated(files[part], role=part, columns=_COLUMNS, log=log):
            row = _row(place, fields, ratings, log)
            if row is not None:
                yield part, row


def _row(place: str, fields: list[str], ratings: int, log: RowLog) -> Row | None:
    user, product, rating, text = fields
    number = whole_number(rating, low=1, high=ratings)
    if number is None:
        log.broken(
            place,
            f"the third field is not a rating from 1 to {ratings}",
            "get the file as published, with the columns user, product, rating and text",
            found=repr(rating[:30]),
        )
        return None
    return {
        "text": " ".join(text.replace(_SENTENCE, " ").split()),
        "rating": str(number),
        "user": user,
        "product": product,
    }


def _files(name: str, sizes: tuple[int, int, int]) -> tuple[SourceFile, ...]:
    """Return the files as the archive names them, or as others have renamed them."""
    ours = "imdb.{}.txt.ss" if name == "imdb" else f"{name}-seg-20-20.{{}}.ss"
    return tuple(
        SourceFile(role=part, names=(ours.format(word), f"{name}-{word}.txt.ss", f"{name}-{word}.txt"), rows=rows)
        for (part, word), rows in zip(_PARTS.items(), sizes, strict=True)
    )


def _card(
    name: str,
    title: str,
    ratings: int,
    sizes: tuple[int, int, int],
    published: Mapping[str, float],
    divergence: dict[str, float],
) -> Card:
    files = _files(name, sizes)
    return Card(
        name=name,
        title=title,
        source="Duyu Tang, Harbin Institute of Technology",
        obtain=_OBTAIN.format(names=", ".join(file.names[0] for file in files)),
        revision=_ARCHIVE,
        licence=NOT_STATED,
        terms=_TERMS,
        citation=_TANG_CITATION,
        files=files,
        read=partial(_read, ratings=ratings),
        split=Given(),
        attributes=categorical("user", "product"),
        labels=("rating",),
        task={"kind": "rating", "expected": False},  # the papers' RMSE is of the predicted class
        classes=ratings,
        metric="accuracy",
        preparation=f"The marks {_SENTENCE} between sentences are taken out; nothing is filtered.",
        published=published,
        divergence=divergence,
    )


TANG = (
    _card(
        "yelp-2013",
        "Yelp 2013",
        5,
        (62_522, 7_773, 8_671),
        table_1(train=62_500, validation=7_800, test=8_700, words=(210, 166), values=3_300, sparse=0),
        {"random": 1.608, "majority": 1.358, "user": 1.406, "product": 1.419, "all": 1.265},
    ),
    _card(
        "yelp-2014",
        "Yelp 2014",
        5,
        (183_019, 22_745, 25_399),
        table_1(train=183_000, validation=22_700, test=25_400, words=(218, 175), values=9_000, sparse=0),
        {"random": 1.608, "majority": 1.379, "user": 1.425, "product": 1.415, "all": 1.279},
    ),
    _card(
        "imdb",
        "IMDB",
        10,
        (67_426, 8_381, 9_112),
        table_1(train=67_400, validation=8_400, test=9_100, words=(425, 278), values=2_900, sparse=0),
        {"random": 2.300, "majority": 2.087, "user": 2.132, "product": 2.314, "all": 1.873},
    ),
)


def read_pairs(path: Path, *, log: RowLog) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the (user, product) pairs of a cold-start list, in file order, each with its place."""
    for place, line in lines(path, role="pairs", log=log):
        fields = [part.strip() for part in line.split("\t\t")]
        if len(fields) != 2 or not all(fields):
            log.broken(place, "not a user and a product", "get the list of pairs again", found=f"{len(fields)} fields")
            continue
        yield place, (fields[0], fields[1])


def _read_cold(files: Mapping[str, Path], log: RowLog, *, ratings: int) -> Iterator[tuple[SplitName | None, Row]]:
    """Yield the rows, of training those whose pairs are listed; a pair listed k times takes its first k rows."""
    wanted = Counter(pair for _, pair in read_pairs(files["pairs"], log=log))
    listed, seen = wanted.copy(), Counter[tuple[str, str]]()
    for part, row in _read(files, log, ratings=ratings):
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


def _cold(base: Card, percent: int, published: Mapping[str, float]) -> Card:
    short = "yelp2013" if base.name.startswith("yelp") else base.name
    file = f"train_zero{percent // 10}.txt.ids"
    names = (f"{short}/{file}", f"cold_ids/{short}/{file}", file)
    sha256 = _LIST_SHA256[base.name, percent]
    return replace(
        base,
        name=f"{base.name}-cold-{percent}",
        title=f"{base.title}, {percent} % cold start",
        source=f"Reinald Kim Amplayo (github.com/rktamplayo/HCSC); the texts: {base.source}",
        obtain=f"{base.obtain} The list of training pairs is {names[0]}(.gz) of the HCSC repository.",
        revision=f"{_PAIRS}; the texts: {base.revision}",
        citation=f"{_COLD_CITATION}; {base.citation}",
        files=(*base.files, SourceFile(role="pairs", names=names, rows=int(published["pairs"]), sha256=sha256)),
        read=partial(_read_cold, ratings=base.classes),
        preparation=(
            "The training rows whose (user, product) pair is listed, in the order of the file; where a pair has more "
            "rows than the list has it, the first ones are taken and counted as ambiguous. Validation and test rows "
            f"are those of {base.name}."
        ),
        published=published,
        divergence={},
    )


COLD = (
    _cold(TANG[0], 20, {"pairs": 38_687, "train": 38_700, "values": 2_600, "cold": 20.5}),
    _cold(TANG[0], 50, {"pairs": 16_058, "train": 16_100, "values": 1_600, "cold": 49.4}),
    _cold(TANG[0], 80, {"pairs": 2_406, "train": 2_400, "values": 700, "cold": 79.6}),
    _cold(TANG[2], 20, {"pairs": 44_261, "train": 44_300, "values": 2_400}),
    _cold(TANG[2], 50, {"pairs": 17_963, "train": 18_000, "values": 1_500}),
    _cold(TANG[2], 80, {"pairs": 2_450, "train": 2_500, "values": 600}),
)
