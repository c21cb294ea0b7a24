"""The sets of CrowdFlower's library Data for Everyone among those of Houlsby et al. 2019."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attribune_lab.datasets.card import Card, SourceFile
from attribune_lab.datasets.duplicates import without_duplicates
from attribune_lab.datasets.row_log import Row, RowLog, SplitName
from attribune_lab.datasets.sets.polmed import POLMED
from attribune_lab.datasets.sets.text_tables import AT_RANDOM, CLEANED, TextTable, read_table, same, table_3, text_card

__all__ = ["CROWDFLOWER", "STANCE"]

_SOURCE = "Figure Eight (CrowdFlower), Data for Everyone: {title}"
_EVERYONE = (
    "Get {file} (data set '{title}') from the Data for Everyone library or one of its mirrors, on data.world "
    "(crowdflower), Kaggle or GitHub."
)
_TERMS = "Published for everyone by CrowdFlower; the mirrors name CC BY 4.0, CC BY-NC-SA 4.0, CC0 or no licence."


def _crowdflower(
    *,
    name: str,
    title: str,
    files: tuple[str, ...],
    rows: int | None,
    table: TextTable,
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
    return text_card(
        name=name,
        title=title,
        source=_SOURCE.format(title=of),
        obtain=_EVERYONE.format(file=files[0], title=of),
        terms=_TERMS,
        citation=f"CrowdFlower {year}, {of}, Data for Everyone",
        files=(SourceFile(role="rows", names=paths, rows=rows, other_rows=other_rows, sha256=sha256),),
        read=partial(read_table, table=table),
        label=table.named,
        attributes=tuple(table.attributes),
        preparation=" ".join(filter(None, (preparation, CLEANED, AT_RANDOM))),
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
    table=TextTable(
        text=("text",),
        label=("airline_sentiment",),
        named="sentiment",
        classes=same("negative", "neutral", "positive"),
        attributes={"airline": ("airline",), "time_zone": ("user_timezone",)},
    ),
    published=table_3(11_712, 1_464, 1_464, classes=3, characters=104),
)
_CORPORATE = _crowdflower(
    name="corporate-messaging",
    title="Crowdflower corporate messaging",
    of="Corporate messaging",
    year=2015,
    files=("Corporate-messaging-DFE.csv",),
    rows=3_118,
    sha256="5fde669eaf2145d46f04bccc03ea69f3520dfc7ed4942be2feb5fc38b8101f88",
    table=TextTable(
        text=("text",),
        label=("category",),
        named="category",
        classes=same("Information", "Action", "Dialogue", "Exclude"),
        attributes={"account": ("screenname",)},
        encoding="latin-1",
    ),
    published=table_3(2_494, 312, 312, classes=4, characters=121),
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
    table=TextTable(
        text=("text",),
        label=("choose_one",),
        named="relevance",
        classes=same("Relevant", "Not Relevant"),
        dropped={"can't decide": "rows whose label is Can't Decide"},
        attributes={"keyword": ("keyword",), "location": ("location",)},
    ),
    published=table_3(8_688, 1_086, 1_086, classes=2, characters=101),
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
    table=TextTable(
        text=("text", "texts"),
        label=("relevance", "economy"),
        named="relevant",
        classes=same("yes", "no") | {"1": "yes", "0": "no"},
        dropped={"not sure": "rows whose label is not sure"},
        attributes={"paper": ("articleid", "wsj")},
        values={"paper": _paper},
        remarks={"economy": "labels of the column economy, in which 'no' may be 'not sure'"},
        line_ends="</br>",
    ),
    published=table_3(6_392, 799, 800, classes=2, characters=1_400),
    preparation="Rows whose label is not sure are left out, and the marks </br> of line ends are taken out.",
    notes=(
        "The articles of 1995 to 2014 alone, economic-news-relevance-1995-2014.csv with the columns of the R "
        "package sentometrics, are read instead: most punctuation is gone from them, and they have 'no' for 'not "
        "sure'."
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
    table=TextTable(
        text=("content",),
        label=("sentiment",),
        named="emotion",
        classes=same(
            *("anger", "boredom", "empty", "enthusiasm", "fun", "happiness", "hate", "love", "neutral", "relief"),
            *("sadness", "surprise", "worry"),
        ),
        attributes={"author": ("author",)},
    ),
    published=table_3(32_000, 4_000, 4_000, classes=13, characters=73),
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
    table=TextTable(
        text=("tweet",),
        label=("existence",),
        named="exists",
        classes=same("Yes", "No") | {"y": "Yes", "n": "No"},
        dropped=dict.fromkeys(("", "n/a", "na", "nan"), "rows whose label is N/A"),
    ),
    published=table_3(3_380, 422, 423, classes=2, characters=112),
    preparation="Rows without a judgement are left out, some of which mirrors have left out already.",
)


def _political(name: str, of: str, classes: int) -> Card:
    """Return one of the three sets of PolMed's messages; judgements by the same annotators are no attributes."""
    attributes = ("politician", "source")

    def read(files: Mapping[str, Path], log: RowLog) -> Iterator[tuple[SplitName | None, Row]]:
        rows = ((part, {key: row[key] for key in ("text", name, *attributes)}) for part, row in POLMED.read(files, log))
        yield from without_duplicates(rows, log, label=name)

    return text_card(
        name=f"political-{name}",
        title=f"Crowdflower political {name}",
        label=name,
        attributes=attributes,
        published=table_3(4_000, 500, 500, classes=classes, characters=205),
        source=POLMED.source,
        obtain=POLMED.obtain,
        terms=POLMED.terms,
        citation="CrowdFlower 2015, Political Social Media Posts, Data for Everyone",
        files=POLMED.files,
        read=read,
        preparation=f"{CLEANED} {AT_RANDOM}",
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
    table=TextTable(
        text=("sentence",),
        label=("emotion",),
        named="emotion",
        classes=same(
            *("Aggression", "Ambiguous", "Anger", "Anticipation", "Awe", "Contempt", "Disapproval", "Disgust", "Fear"),
            *("Joy", "Love", "Neutral", "Optimism", "Remorse", "Sadness", "Submission", "Surprise", "Trust"),
        ),
        attributes={"idiom": ("idiom_id",)},
    ),
    published=table_3(2_019, 252, 253, classes=18, characters=87),
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
        table=TextTable(
            text=("tweet",), label=(label,), named=named, classes=classes, attributes={"target": ("target",)}, cut=cut
        ),
        published=table_3(927, 116, 116, classes=len(classes), characters=102),
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
    table=TextTable(
        text=("text",),
        label=("relevance", "positivity"),
        named="relevant",
        classes=same("yes", "no") | dict.fromkeys(map(str, range(1, 10)), "yes") | {"": "no"},
        dropped={"not sure": "rows whose label is not sure"},
        remarks={"positivity": "labels that say whether there is a positivity, in which 'no' may be 'not sure'"},
        line_ends="</br>",
    ),
    published=table_3(3_961, 495, 496, classes=2, characters=305),
    preparation="Rows whose label is not sure are left out, and the marks </br> of line ends are taken out.",
    notes=(
        "Where the column relevance is missing, a row is relevant when it has a positivity. The 63 rows by which "
        "such a file has more than the paper's 4,952 are then among those that are not."
    ),
)

CROWDFLOWER = (
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
        classes=same("against", "for", "neutral") | {"none of the above": "none"},
    ),
    _US_ECONOMY,
)
"""The sets, in the order of the paper's table 3."""
