"""The seventeen data sets that Houlsby et al. 2019 add to GLUE: texts with a class, many with attributes."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from attribune.data.text_files import csv_header, readable
from attribune.errors import DataError
from attribune_lab.datasets.card import Given, Hashed, SourceFile
from attribune_lab.datasets.duplicates import without_duplicates
from attribune_lab.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv, read_tsv, separated
from attribune_lab.datasets.sets.crowdflower import CROWDFLOWER
from attribune_lab.datasets.sets.text_tables import AT_RANDOM, CLEANED, TextTable, read_table, table_3, text_card

__all__ = ["ADDITIONAL", "NEWS_TITLES"]


def _read_posts(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    yield from without_duplicates(_posts(files, log), log, label="group")


def _posts(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    for role in ("test", "train"):
        for names, content in _entries(files[role], f"20news-bydate-{role}"):
            if len(names) != 2 or not names[1].isdigit():
                log.remarks["files that are no posts, and not read"] += 1
                continue
            log.read[role] += 1
            if text := content.decode("latin-1").replace("\0", " ").strip():
                yield "test" if role == "test" else None, {"text": text, "group": names[0]}
            else:
                log.leave_out("posts without a text")


def _entries(path: Path, folder: str) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield the files of a folder, or of the folder of this name in an archive: their names from there, and content."""
    if path.is_dir():
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            with readable(file):
                yield file.relative_to(path).parts, file.read_bytes()
        return
    try:
        with readable(path), tarfile.open(path) as archive:
            for member in archive:
                names = PurePosixPath(member.name).parts
                if member.isfile() and folder in names and (content := archive.extractfile(member)) is not None:
                    yield names[names.index(folder) + 1 :], content.read()
    except tarfile.TarError as error:
        raise DataError(f"{path}: truncated, or not an archive ({error}): {GET_AGAIN}") from error


def _news_files(role: str) -> tuple[str, ...]:
    names = (f"20news-bydate-{role}", f"20news-bydate/20news-bydate-{role}")
    return ("20news-bydate.tar", "news20/20news-bydate.tar", *names)


_NEWSGROUPS = text_card(
    name="20-newsgroups",
    title="20 Newsgroups, by date",
    label="group",
    published=table_3(15_076, 1_885, 1_885, classes=20, characters=1_903),
    source="Ken Lang; sorted by date by Jason Rennie (qwone.com/~jason/20Newsgroups)",
    obtain=(
        "Download 20news-bydate.tar.gz from http://qwone.com/~jason/20Newsgroups; the archive need not be unpacked "
        "(its name without the ending is 20news-bydate.tar)."
    ),
    terms="Posts of Usenet from 1993, gathered for research.",
    citation="Lang 1995, NewsWeeder: Learning to Filter Netnews, ICML",
    files=(
        SourceFile(
            role="train",
            names=_news_files("train"),
            rows=11_314,
            folder=True,
            sha256="b020a80062ecdd199d8928405073f4ecce8e94996b478da3ae909da48a51fb53",
        ),
        SourceFile(role="test", names=_news_files("test"), rows=7_532, folder=True),
    ),
    read=_read_posts,
    split=Hashed(validation=0.1, test=0.0),
    preparation=(
        f"Posts are whole, with the lines of their heads that the archive has. {CLEANED} The later posts are the "
        "test part, as published; a hash of the text draws a tenth of the others for validation. The paper shares "
        "all rows out at random instead, which is easier."
    ),
)


def _read_messages(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    yield from without_duplicates(_messages(files["rows"], log), log, label="label")


def _messages(path: Path, log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    for place, (label, text) in separated(path, role="rows", columns=("label", "text"), log=log, separator="\t"):
        if label in ("ham", "spam"):
            yield None, {"text": text, "label": label}
        else:
            log.broken(place, "the label is not one of ham, spam", GET_AGAIN, found=repr(label[:30]))


_SMS = text_card(
    name="sms-spam",
    title="SMS spam collection",
    label="label",
    published=table_3(4_459, 557, 558, classes=2, characters=81),
    source=(
        "Tiago A. Almeida and Jose Maria Gomez Hidalgo; UCI Machine Learning Repository "
        "(archive.ics.uci.edu/dataset/228)"
    ),
    obtain="Get sms+spam+collection.zip of the UCI repository; the file in it is SMSSpamCollection.",
    licence="CC BY 4.0",
    terms="With attribution; messages of people who gave them, and of a forum.",
    citation="Almeida, Gomez Hidalgo and Yamakami 2011, Contributions to the Study of SMS Spam Filtering, DocEng",
    files=(
        SourceFile(
            role="rows",
            names=("SMSSpamCollection", "sms/SMSSpamCollection"),
            rows=5_574,
            sha256="55341228082b25b832a5868a5ab4b038142a57f70c676c123280af6ff457fe46",
        ),
    ),
    read=_read_messages,
    preparation=f"{CLEANED} {AT_RANDOM}",
    notes="Many messages stand in the file several times, so that there are fewer rows than the paper has.",
)

_COMPLAINT_TABLE = TextTable(
    text=("Consumer complaint narrative", "consumer_complaint_narrative"),
    label=("Issue", "issue"),
    named="issue",
    attributes={"company": ("Company", "company"), "state": ("State", "state")},
)
_COMPLAINTS = text_card(
    name="complaints",
    title="Customer complaint database",
    label="issue",
    attributes=tuple(_COMPLAINT_TABLE.attributes),
    published=table_3(146_667, 18_333, 18_334, classes=157, characters=1_046),
    source="Consumer Financial Protection Bureau (consumerfinance.gov/data-research/consumer-complaints)",
    obtain=(
        "Download complaints.csv from https://catalog.data.gov/dataset/consumer-complaint-database; Kaggle has one "
        "of 2016 as consumer_complaints.csv. The file grows every day."
    ),
    licence="Public domain",
    terms="A work of the United States government; names in the narratives are masked as XXXX.",
    citation="Consumer Financial Protection Bureau 2012, Consumer Complaint Database",
    files=(
        SourceFile(
            role="rows",
            names=(
                "complaints.csv",
                "Consumer_Complaints.csv",
                "consumer_complaints.csv",
                "complaints_part.csv",
                "consumer_complaints/complaints_part.csv",
            ),
        ),
    ),
    read=partial(read_table, table=_COMPLAINT_TABLE),
    preparation=f"Complaints without a narrative are left out. {CLEANED} {AT_RANDOM}",
    notes=(
        "The paper does not name its 157 classes. The label is the issue, of which the database had that many at "
        "about that time; it has about ten products. The number of rows is that of a day in 2017."
    ),
)

_CATEGORIES = {"b": "business", "e": "entertainment", "m": "health", "t": "technology"}
_NEWS_COLUMNS = ("ID", "TITLE", "URL", "PUBLISHER", "CATEGORY", "STORY", "HOSTNAME", "TIMESTAMP")
_NEWS_TEXTS: dict[str, Any] = {
    "label": "category",
    "source": "Fabio Gasparetti; UCI Machine Learning Repository (archive.ics.uci.edu/dataset/359)",
    "licence": "CC BY 4.0",
    "terms": "With attribution; headlines of news sites.",
    "citation": "Lichman 2013, UCI Machine Learning Repository",
}


def _read_news(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    yield from without_duplicates(_news(files["rows"], log), log, label="category")


def _news(path: Path, log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    """Yield the rows of newsCorpora.csv, which is divided by tabs and has no header, or of a CSV file with one."""
    needs = ("TITLE", "CATEGORY", "PUBLISHER", "STORY")
    if set(needs) <= set(csv_header(path, encoding=None, delimiter=",")):
        rows = read_csv(path, role="rows", log=log, needs=needs)
    else:
        rows = read_tsv(path, role="rows", log=log, needs=needs, layouts=(_NEWS_COLUMNS,))
    for place, row in rows:
        if (kept := _titled(place, row, log)) is not None:
            yield None, kept | {"publisher": row["PUBLISHER"].strip(), "story": row["STORY"].strip()}


def _titled(place: str, row: Mapping[str, str], log: RowLog) -> Row | None:
    title, category = row["TITLE"].strip(), row["CATEGORY"].strip()
    if category not in _CATEGORIES:
        log.broken(place, f"the category is not one of {', '.join(_CATEGORIES)}", GET_AGAIN, found=repr(category[:30]))
    elif not title:
        log.leave_out("rows without a title")
    else:
        return {"text": title, "category": _CATEGORIES[category]}
    return None


_NEWS = text_card(
    name="news-aggregator",
    title="News aggregator",
    attributes=("publisher",),
    published=table_3(338_349, 42_294, 42_294, classes=4, characters=57),
    obtain="Get NewsAggregatorDataset.zip of the UCI repository; the file in it is newsCorpora.csv.",
    files=(
        SourceFile(
            role="rows",
            names=(
                "newsCorpora.csv",
                "NewsAggregatorDataset/newsCorpora.csv",
                "uci-news-aggregator.csv",
                "uci-news-aggregator-first.csv",
                "news_aggregator/uci-news-aggregator-first.csv",
            ),
            rows=422_937,
            other_rows=(422_419,),
        ),
    ),
    read=_read_news,
    split=Hashed(group="story"),
    preparation=(
        f"{CLEANED} A hash of the story draws a tenth of the stories for validation and for test each, since many "
        "headlines of a story say the same; the paper shares rows out at random, which is easier."
    ),
    notes=(
        "uci-news-aggregator.csv, of Kaggle, has a header and lacks some rows; it, or its first rows, is read instead."
    ),
    **_NEWS_TEXTS,
)


def _read_titles(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    yield from without_duplicates(_titles(files, log), log, label="category")


def _titles(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
    parts: tuple[SplitName, ...] = ("test", "validation", "train")
    for part in parts:
        columns = ("TITLE", "CATEGORY")
        for place, row in read_tsv(files[part], role=part, log=log, needs=columns, layouts=(columns,)):
            if (kept := _titled(place, row, log)) is not None:
                yield part, kept


NEWS_TITLES = replace(
    _NEWS,
    name="news-aggregator-five",
    title="News aggregator, five publishers",
    obtain=(
        "Make them as 'NLP 100 Exercise' (nlp100.github.io) says, exercise 50: titles and categories of Reuters, "
        "Huffington Post, Businessweek, Contactmusic.com and Daily Mail, split at random; the files are "
        "five_publishers_train.tsv, five_publishers_valid.tsv and five_publishers_test.tsv."
    ),
    files=tuple(
        SourceFile(
            role=role,
            names=(f"five_publishers_{word}.tsv", f"news_aggregator/five_publishers_{word}.tsv", f"{word}.txt"),
            rows=rows,
        )
        for role, word, rows in (
            ("train", "train", 10_684),
            ("validation", "valid", 1_336),
            ("test", "test", 1_336),
        )
    ),
    read=_read_titles,
    split=Given(),
    attributes=(),
    published={},
    preparation=f"{CLEANED} So no title is in two parts; the parts are those of the files.",
    notes="A part of the set news-aggregator, without publishers and stories: do not use them together.",
)

ADDITIONAL = (_NEWSGROUPS, *CROWDFLOWER, _COMPLAINTS, _NEWS, _SMS)
"""The sets of table 3 of Houlsby et al. 2019, in its order."""
