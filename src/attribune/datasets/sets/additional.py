"""The seventeen data sets that Houlsby et al. 2019 add to GLUE: texts with a class, many with attributes."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from attribune.data.text_files import csv_header, readable
from attribune.datasets.card import NOT_STATED, Card, Given, Hashed, SourceFile, categorical
from attribune.datasets.duplicates import without_duplicates
from attribune.datasets.row_log import GET_AGAIN, Row, RowLog, SplitName, read_csv, read_tsv, separated
from attribune.datasets.sets.polmed import POLMED
from attribune.errors import DataError

__all__ = ["ADDITIONAL", "NEWS_TITLES", "STANCE"]

_HOULSBY = "Houlsby et al. 2019, Parameter-Efficient Transfer Learning for NLP, ICML"
_CLEANED = (
    "A text that stands several times is kept once, its first row; where such rows have several labels, none is kept."
)
_AT_RANDOM = "The paper shares rows out at random, 80 % for training; a hash of the text does here."
_CROWDFLOWER = "Figure Eight (CrowdFlower), Data for Everyone: {title}"
_EVERYONE = (
    "Get {file} (data set '{title}') from the Data for Everyone library or one of its mirrors, on data.world "
    "(crowdflower), "
    "Kaggle or GitHub."
)
_TERMS = "Published for everyone by CrowdFlower; the mirrors name CC BY 4.0, CC BY-NC-SA 4.0, CC0 or no licence."


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The columns of a CSV file.

    Args:
        text: the names that the column has in the versions of the file; so are `label` and `attributes`, by our names.
        named: our name of the label.
        classes: the labels by those of the file, which are compared without regard to case.
        dropped: reasons by which rows are left out, by their label.
        values: what becomes of an attribute's cells; by our names.
        remarks: what is to be known of labels that come from a column.
        cut: the label of the file ends before this mark.
        line_ends: what stands in the text for the end of a line.
        encoding: of the file; None finds it.
    """

    text: tuple[str, ...]
    label: tuple[str, ...]
    named: str
    classes: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    cut: str = ""
    line_ends: str = ""
    encoding: str | None = None

    def columns(self, path: Path) -> dict[str, str]:
        """Return the columns of a file by our names, without attributes that it lacks."""
        present = csv_header(path, encoding=None, delimiter=",")
        wanted = {"text": self.text, self.named: self.label, **self.attributes}
        found = {ours: next((name for name in names if name in present), names[0]) for ours, names in wanted.items()}
        return {ours: name for ours, name in found.items() if name in present or ours not in self.attributes}

    def name_of(self, label: str) -> str | None:
        """Return our name of a class; None for a label that is no class."""
        return self.classes.get(label.casefold()) if self.classes else label or None


def _read_table(files: Mapping[str, Path], log: RowLog, *, table: _Table) -> Iterator[tuple[SplitName | None, Row]]:
    yield from without_duplicates(
        ((None, row) for row in _table_rows(files["rows"], log, table)), log, label=table.named
    )


def _table_rows(path: Path, log: RowLog, table: _Table) -> Iterator[Row]:
    columns = table.columns(path)
    needs = tuple(columns.values())
    for place, cells in read_csv(path, role="rows", log=log, needs=needs, encoding=table.encoding):
        cell = cells[columns[table.named]].strip()
        label = cell.partition(table.cut)[0].strip() if table.cut else cell
        text = cells[columns["text"]]
        text = " ".join(text.replace(table.line_ends, " ").split()) if table.line_ends else text.strip()
        if reason := table.dropped.get(label.casefold()):
            log.leave_out(reason)
        elif (name := table.name_of(label)) is None:
            known = ", ".join(dict.fromkeys(table.classes.values())) or "filled"
            log.broken(place, f"the label is not one of {known}", GET_AGAIN, found=repr(label[:30]))
        elif not text:
            log.leave_out("rows without a text")
        else:
            if remark := table.remarks.get(columns[table.named]):
                log.remarks[remark] += 1
            values = {ours: cells[columns[ours]].strip() if ours in columns else "" for ours in table.attributes}
            values |= {ours: change(values[ours]) for ours, change in table.values.items()}
            yield {"text": text, table.named: name, **values}


def _same(*names: str) -> dict[str, str]:
    """Return classes whose names are those of the file."""
    return {name.casefold(): name for name in names}


def _figures(train: int, validation: int, test: int, *, classes: int, characters: int) -> dict[str, float]:
    """Return a row of table 3 of Houlsby et al. 2019."""
    return {"train": train, "validation": validation, "test": test, "classes": classes, "characters": characters}


def _card(*, label: str, attributes: tuple[str, ...] = (), published: Mapping[str, float], **texts: Any) -> Card:
    """Return a set of the paper, by default of one label whose metric is the accuracy."""
    texts = {"revision": NOT_STATED, "licence": NOT_STATED, "split": Hashed(), **texts}
    texts["citation"] = f"{texts['citation']}; {_HOULSBY}"
    return Card(
        attributes=categorical(*attributes),
        labels=(label,),
        task={"kind": "classification"},
        classes=int(published["classes"]),
        metric="accuracy",
        window="head",
        recipe="houlsby",
        published=published,
        **texts,
    )


def _crowdflower(
    *,
    name: str,
    title: str,
    files: tuple[str, ...],
    rows: int | None,
    table: _Table,
    published: Mapping[str, float],
    of: str,
    year: int,
    other_rows: tuple[int, ...] = (),
    sha256: str | None = None,
    preparation: str = "",
    notes: str = "",
    **more: Any,
) -> Card:
    """Return a set of the library Data for Everyone, whose name there is `of`."""
    paths = (*files, *(f"crowdflower/{file}" for file in files))
    return _card(
        name=name,
        title=title,
        source=_CROWDFLOWER.format(title=of),
        obtain=_EVERYONE.format(file=files[0], title=of),
        terms=_TERMS,
        citation=f"CrowdFlower {year}, {of}, Data for Everyone",
        files=(SourceFile(role="rows", names=paths, rows=rows, other_rows=other_rows, sha256=sha256),),
        read=partial(_read_table, table=table),
        label=table.named,
        attributes=tuple(table.attributes),
        preparation=" ".join(filter(None, (preparation, _CLEANED, _AT_RANDOM))),
        published=published,
        notes=notes,
        **more,
    )


_AIRLINE = _crowdflower(
    name="airline",
    title="Crowdflower airline",
    of="Twitter US Airline Sentiment",
    year=2015,
    files=("Tweets.csv", "Airline-Sentiment-2-w-AA.csv", "airline_tweets.csv"),
    rows=14_640,
    sha256="4224f422a6aad17e89e898f5484ebcbc460d1df7a4896e107f61ba045bf589d2",
    table=_Table(
        text=("text",),
        label=("airline_sentiment",),
        named="sentiment",
        classes=_same("negative", "neutral", "positive"),
        attributes={"airline": ("airline",), "time_zone": ("user_timezone",)},
    ),
    published=_figures(11_712, 1_464, 1_464, classes=3, characters=104),
)
_CORPORATE = _crowdflower(
    name="corporate-messaging",
    title="Crowdflower corporate messaging",
    of="Corporate messaging",
    year=2015,
    files=("Corporate-messaging-DFE.csv",),
    rows=3_118,
    sha256="5fde669eaf2145d46f04bccc03ea69f3520dfc7ed4942be2feb5fc38b8101f88",
    table=_Table(
        text=("text",),
        label=("category",),
        named="category",
        classes=_same("Information", "Action", "Dialogue", "Exclude"),
        attributes={"account": ("screenname",)},
        encoding="latin-1",
    ),
    published=_figures(2_494, 312, 312, classes=4, characters=121),
    notes="Exclude is one of the paper's four classes.",
)
_DISASTERS = _crowdflower(
    name="disasters",
    title="Crowdflower disasters",
    of="Disasters on social media",
    year=2015,
    files=("socialmedia-disaster-tweets-DFE.csv",),
    rows=10_876,
    sha256="2b949bc238e73481c0a9d0da940a4baeb4bed69b23d6747c8e1ab7e88ee2b4cd",
    table=_Table(
        text=("text",),
        label=("choose_one",),
        named="relevance",
        classes=_same("Relevant", "Not Relevant"),
        dropped={"can't decide": "rows whose label is Can't Decide"},
        attributes={"keyword": ("keyword",), "location": ("location",)},
    ),
    published=_figures(8_688, 1_086, 1_086, classes=2, characters=101),
    preparation="Rows that the annotators could not decide are left out.",
    notes="The location is free text of the user. Some characters were wrongly decoded before publication.",
)


def _paper(cell: str) -> str:
    """Return the newspaper, by the beginning of an article's id, or by whether it is the Wall Street Journal."""
    return {"wsj": "wsj", "wapo": "wapo", "1": "wsj", "0": "wapo"}.get(cell.partition("_")[0].casefold(), "")


_ECONOMIC_NEWS = _crowdflower(
    name="economic-news",
    title="Crowdflower economic news relevance",
    of="Economic News Article Tone and Relevance",
    year=2015,
    files=("Full-Economic-News-DFE-839861.csv", "economic-news-relevance-1995-2014.csv"),
    rows=8_000,
    table=_Table(
        text=("text", "texts"),
        label=("relevance", "economy"),
        named="relevant",
        classes=_same("yes", "no") | {"1": "yes", "0": "no"},
        dropped={"not sure": "rows whose label is not sure"},
        attributes={"paper": ("articleid", "wsj")},
        values={"paper": _paper},
        remarks={"economy": "labels of the column economy, in which 'no' may be 'not sure'"},
        line_ends="</br>",
    ),
    published=_figures(6_392, 799, 800, classes=2, characters=1_400),
    preparation="Rows whose label is not sure are left out, and the marks </br> of line ends are taken out.",
    notes=(
        "The articles of 1995 to 2014 alone, economic-news-relevance-1995-2014.csv with the columns of the R package "
        "sentometrics, are read instead: most punctuation is gone from them, and they have 'no' for 'not sure'."
    ),
)
_EMOTION = _crowdflower(
    name="emotion",
    title="Crowdflower emotion",
    of="Sentiment Analysis: Emotion in Text",
    year=2016,
    files=("text_emotion.csv",),
    rows=40_000,
    sha256="ac105c89b4d1eec753e05b06b0b6421a88476a2798e17b95291f513cae613a4a",
    table=_Table(
        text=("content",),
        label=("sentiment",),
        named="emotion",
        classes=_same(
            *("anger", "boredom", "empty", "enthusiasm", "fun", "happiness", "hate", "love", "neutral", "relief"),
            *("sadness", "surprise", "worry"),
        ),
        attributes={"author": ("author",)},
    ),
    published=_figures(32_000, 4_000, 4_000, classes=13, characters=73),
    notes="Some mirrors lack the column of the author, which is then no attribute.",
)
_GLOBAL_WARMING = _crowdflower(
    name="global-warming",
    title="Crowdflower global warming",
    of="Sentiment of Climate Change",
    year=2015,
    files=("1377884570_tweet_global_warming.csv", "tweet_global_warming.csv"),
    rows=6_090,
    other_rows=(4_225,),
    sha256="d155586076ed62b8cba833d6e8f9fb1597c6db4bbb6d76e009c82a2a281462b4",
    table=_Table(
        text=("tweet",),
        label=("existence",),
        named="exists",
        classes=_same("Yes", "No") | {"y": "Yes", "n": "No"},
        dropped=dict.fromkeys(("", "n/a", "na", "nan"), "rows whose label is N/A"),
    ),
    published=_figures(3_380, 422, 423, classes=2, characters=112),
    preparation="Rows without a judgement are left out, some of which mirrors have left out already.",
)


def _political(name: str, of: str, classes: int) -> Card:
    """Return one of the three sets of PolMed's messages; judgements by the same annotators are no attributes."""
    attributes = ("politician", "source")

    def read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
        rows = ((part, {key: row[key] for key in ("text", name, *attributes)}) for part, row in POLMED.read(files, log))
        yield from without_duplicates(rows, log, label=name)

    return _card(
        name=f"political-{name}",
        title=f"Crowdflower political {name}",
        label=name,
        attributes=attributes,
        published=_figures(4_000, 500, 500, classes=classes, characters=205),
        source=POLMED.source,
        obtain=POLMED.obtain,
        terms=POLMED.terms,
        citation="CrowdFlower 2015, Political Social Media Posts, Data for Everyone",
        files=POLMED.files,
        read=read,
        preparation=f"{_CLEANED} {_AT_RANDOM}",
        notes=f"The messages of the set polmed, by {of}. What else the annotators judged is no attribute here.",
    )


_PRIMARY_EMOTIONS = _crowdflower(
    name="primary-emotions",
    title="Crowdflower primary emotions",
    of="Primary emotions of statements",
    year=2015,
    files=("primary-plutchik-wheel-DFE.csv",),
    rows=2_524,
    sha256="19efb07c7ead7db527a15498ac7f797ae56df43b9c82043e471cc5bd552eb8f1",
    table=_Table(
        text=("sentence",),
        label=("emotion",),
        named="emotion",
        classes=_same(
            *("Aggression", "Ambiguous", "Anger", "Anticipation", "Awe", "Contempt", "Disapproval", "Disgust", "Fear"),
            *("Joy", "Love", "Neutral", "Optimism", "Remorse", "Sadness", "Submission", "Surprise", "Trust"),
        ),
        attributes={"idiom": ("idiom_id",)},
    ),
    published=_figures(2_019, 252, 253, classes=18, characters=87),
    notes="The annotators agree little: the mean of the published confidences is 0.49.",
)


def _progressive(named: str, *, label: str, cut: str, classes: Mapping[str, str]) -> Card:
    """Return one of the two sets of tweets about progressive issues; a label is a sentence, known by its beginning."""
    return _crowdflower(
        name=f"progressive-{named}",
        title=f"Crowdflower progressive {named}",
        of="Progressive issues sentiment analysis",
        year=2015,
        files=("progressive-tweet-sentiment.csv",),
        rows=1_159,
        sha256="730d7ac3937c31c633bb9411fad7ac685b0b9506f0520727d75e16d0dec5018e",
        table=_Table(
            text=("tweet",), label=(label,), named=named, classes=classes, attributes={"target": ("target",)}, cut=cut
        ),
        published=_figures(927, 116, 116, classes=len(classes), characters=102),
    )


STANCE = (
    "q1_from_reading_the_tweet_which_of_the_options_below_is_most_likely_to_be_true_about_the_stance_or_outlook_of_the_"
    "tweeter_towards_the_target"
)
"""The column of the stance; the file's columns have the questions' names."""

_US_ECONOMY = _crowdflower(
    name="us-economic-performance",
    title="Crowdflower US economic performance",
    of="U.S. economic performance based on news articles",
    year=2015,
    files=("us-economic-newspaper.csv",),
    rows=5_015,
    sha256="5d970185e37a20b51cb53aa9801955c14523a2af351091d7f77745c1af74faf5",
    table=_Table(
        text=("text",),
        label=("relevance", "positivity"),
        named="relevant",
        classes=_same("yes", "no") | dict.fromkeys(map(str, range(1, 10)), "yes") | {"": "no"},
        dropped={"not sure": "rows whose label is not sure"},
        remarks={"positivity": "labels that say whether there is a positivity, in which 'no' may be 'not sure'"},
        line_ends="</br>",
    ),
    published=_figures(3_961, 495, 496, classes=2, characters=305),
    preparation="Rows whose label is not sure are left out, and the marks </br> of line ends are taken out.",
    notes=(
        "Where the column relevance is missing, a row is relevant when it has a positivity. The 63 rows by which "
        "such a "
        "file has more than the paper's 4,952 are then among those that are not."
    ),
)


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
        raise DataError(f"{path}: truncated, or no archive ({error}): {GET_AGAIN}") from error


def _news_files(role: str) -> tuple[str, ...]:
    names = (f"20news-bydate-{role}", f"20news-bydate/20news-bydate-{role}")
    return ("20news-bydate.tar", "news20/20news-bydate.tar", *names)


_NEWSGROUPS = _card(
    name="20-newsgroups",
    title="20 Newsgroups, by date",
    label="group",
    published=_figures(15_076, 1_885, 1_885, classes=20, characters=1_903),
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
        f"Posts are whole, with the lines of their heads that the archive has. {_CLEANED} The later posts are the "
        "test part, "
        "as published; a hash of the text draws a tenth of the others for validation. The paper shares all rows out at "
        "random instead, which is easier."
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


_SMS = _card(
    name="sms-spam",
    title="SMS spam collection",
    label="label",
    published=_figures(4_459, 557, 558, classes=2, characters=81),
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
    preparation=f"{_CLEANED} {_AT_RANDOM}",
    notes="Many messages stand in the file several times, so that there are fewer rows than the paper has.",
)

_COMPLAINT_TABLE = _Table(
    text=("Consumer complaint narrative", "consumer_complaint_narrative"),
    label=("Issue", "issue"),
    named="issue",
    attributes={"company": ("Company", "company"), "state": ("State", "state")},
)
_COMPLAINTS = _card(
    name="complaints",
    title="Customer complaint database",
    label="issue",
    attributes=tuple(_COMPLAINT_TABLE.attributes),
    published=_figures(146_667, 18_333, 18_334, classes=157, characters=1_046),
    source="Consumer Financial Protection Bureau (consumerfinance.gov/data-research/consumer-complaints)",
    obtain=(
        "Download complaints.csv from https://catalog.data.gov/dataset/consumer-complaint-database; Kaggle has one "
        "of 2016 "
        "as consumer_complaints.csv. The file grows every day."
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
    read=partial(_read_table, table=_COMPLAINT_TABLE),
    preparation=f"Complaints without a narrative are left out. {_CLEANED} {_AT_RANDOM}",
    notes=(
        "The paper does not name its 157 classes. The label is the issue, of which the database had that many at "
        "about that "
        "time; it has about ten products. The number of rows is that of a day in 2017."
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


_NEWS = _card(
    name="news-aggregator",
    title="News aggregator",
    attributes=("publisher",),
    published=_figures(338_349, 42_294, 42_294, classes=4, characters=57),
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
        f"{_CLEANED} A hash of the story draws a tenth of the stories for validation and for test each, since many "
        "headlines "
        "of a story say the same; the paper shares rows out at random, which is easier."
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
        "Huffington "
        "Post, Businessweek, Contactmusic.com and Daily Mail, shared out at random; the files are "
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
    preparation=f"{_CLEANED} So no title is in two parts; the parts are those of the files.",
    notes="A part of the set news-aggregator, without publishers and stories: do not use them together.",
)

ADDITIONAL = (
    _NEWSGROUPS,
    _AIRLINE,
    _CORPORATE,
    _DISASTERS,
    _ECONOMIC_NEWS,
    _EMOTION,
    _GLOBAL_WARMING,
    _political("audience", "whom they address", 2),
    _political("bias", "whether they are partisan", 2),
    _political("message", "what they are about", 9),
    _PRIMARY_EMOTIONS,
    _progressive(
        "opinion",
        label="q2_which_of_the_options_below_is_true_about_the_opinion_in_the_tweet",
        cut=".",
        classes={"1": "about the target", "2": "about something else", "3": "none"},
    ),
    _progressive(
        "stance",
        label=STANCE,
        cut=":",
        classes=_same("against", "for", "neutral") | {"none of the above": "none"},
    ),
    _US_ECONOMY,
    _COMPLAINTS,
    _NEWS,
    _SMS,
)
"""The sets of table 3 of Houlsby et al. 2019, in its order."""
