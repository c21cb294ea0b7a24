"""Files of GLUE, of SQuAD and of the sets of Houlsby et al. 2019 in the formats in which they were published."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

STANCE = (
    "q1_from_reading_the_tweet_which_of_the_options_below_is_most_likely_to_be_true_about_the_stance_or_outlook_of_the_"
    "tweeter_towards_the_target"
)
MNLI_BEFORE = ("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse")
MNLI = (*MNLI_BEFORE, "sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1")
RELATION = ("index", "sentence1", "sentence2", "label")
COLUMNS: dict[str, tuple[str, ...]] = {
    "cola": ("source", "label", "mark", "sentence"),
    "sst-2": ("sentence", "label"),
    "mrpc": ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
    "sts-b": (
        *("index", "genre", "filename", "year", "old_index", "source1", "source2"),
        *("sentence1", "sentence2", "score"),
    ),
    "qqp": ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
    "mnli": (*MNLI, "gold_label"),
    "qnli": ("index", "question", "sentence", "label"),
    "rte": RELATION,
    "wnli": RELATION,
}
MNLI_DEV = (*MNLI, "label2", "label3", "label4", "label5", "gold_label")
FILES = {
    "cola": ("CoLA/train.tsv", "CoLA/dev.tsv"),
    "sst-2": ("SST-2/train.tsv", "SST-2/dev.tsv"),
    "mrpc": ("MRPC/msr_paraphrase_train.txt", "MRPC/msr_paraphrase_test.txt"),
    "sts-b": ("STS-B/train.tsv", "STS-B/dev.tsv"),
    "qqp": ("QQP/train.tsv", "QQP/dev.tsv"),
    "mnli": ("MNLI/train.tsv", "MNLI/dev_matched.tsv"),
    "mnli-mismatched": ("MNLI/train.tsv", "MNLI/dev_mismatched.tsv"),
    "qnli": ("QNLI/train.tsv", "QNLI/dev.tsv"),
    "rte": ("RTE/train.tsv", "RTE/dev.tsv"),
    "wnli": ("WNLI/train.tsv", "WNLI/dev.tsv"),
}
SQUAD_FILES = {
    "squad": ("train-v1.1.json", "dev-v1.1.json"),
    "squad-v2": ("train-v2.0.json", "dev-v2.0.json"),
}
LABELS: dict[str, Sequence[str]] = {
    "sts-b": ("0.000", "2.500", "5.000"),
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
}


def squad_question(number: int, *, is_impossible: bool = False, **changes: Any) -> dict[str, Any]:
    """A question, its paragraph and its answer, in the format of SQuAD."""
    answers = [{"text": f"a{number}", "answer_start": 4}]
    question: dict[str, Any] = {
        "id": f"q{number}",
        "question": f"What is {number}?",
        "context": f"It: a{number} . And so on.",
        "title": f"Article {number % 20}",
        "answers": [] if is_impossible else answers,
    }
    return question | ({"is_impossible": True} if is_impossible else {}) | changes


def squad_text(questions: Iterable[Mapping[str, Any]]) -> str:
    """A file in the format of SQuAD, of one paragraph for each question."""
    articles: dict[str, list[dict[str, Any]]] = {}
    for question in questions:
        entry = {key: value for key, value in question.items() if key not in ("context", "title")}
        articles.setdefault(question["title"], []).append({"context": question["context"], "qas": [entry]})
    return json.dumps({"data": [{"title": title, "paragraphs": listed} for title, listed in articles.items()]})


def glue_row(name: str, number: int, **changes: str) -> dict[str, str]:
    """A row of a task, by its columns, none of which is the same in two rows."""
    name = name.removesuffix("-mismatched")
    columns = MNLI_DEV if name == "mnli" else COLUMNS[name]
    row = {column: f"{column} {number}" for column in columns}
    label = next(column for column in ("gold_label", "is_duplicate", "Quality", "score", "label") if column in row)
    labels = LABELS.get(name, ("0", "1"))
    row |= {label: labels[number % len(labels)]}
    row |= {key: value for key, value in (("genre", "news"), ("year", "2012test"), ("source", "gj04")) if key in row}
    for text in ("sentence", "sentence1", "question", "question1", "#1 String"):
        if text in row:
            row[text] = f'He said: "text {number}'
    return row | changes


def tsv_text(rows: Iterable[dict[str, str]], columns: Sequence[str], *, header: bool = True) -> str:
    """Rows divided by tabs, with quotes as they are."""
    lines = ["\t".join(columns)] * header
    return "".join(f"{line}\n" for line in [*lines, *("\t".join(row[name] for name in columns) for row in rows)])


def table_row(name: str, number: int, **changes: Any) -> dict[str, Any]:
    """A row of a CSV file, every column that the published file has and a reader might take for another."""
    known: dict[str, dict[str, Any]] = {
        "airline": {
            "tweet_id": number,
            "airline_sentiment": ("negative", "neutral", "positive")[number % 3],
            "airline": "Delta",
            "name": "ann",
            "text": f"@Delta flight {number}",
            "user_timezone": "Quito",
        },
        "corporate-messaging": {
            "_unit_id": number,
            "category": ("Information", "Action", "Dialogue", "Exclude")[number % 4],
            "screenname": "Citi",
            "text": f"We report {number}",
        },
        "disasters": {
            "choose_one": ("Relevant", "Not Relevant")[number % 2],
            "choose_one:confidence": "1.0",
            "keyword": "ablaze",
            "location": "USA",
            "text": f"Fire {number}",
        },
        "economic-news": {
            "_unit_id": number,
            "relevance": ("yes", "no")[number % 2],
            "articleid": ("wsj_12", "wapo_34")[number % 2],
            "headline": "Stocks",
            "text": f"Stocks rose {number}.</br></br>They fell.",
        },
        "emotion": {
            "tweet_id": number,
            "sentiment": ("worry", "fun", "hate")[number % 3],
            "author": f"a{number % 5}",
            "content": f"oh {number}",
        },
        "global-warming": {
            "tweet": f"It is warm {number}",
            "existence": ("Yes", "N", "Y", "No")[number % 4],
            "existence.confidence": "1",
        },
        "primary-emotions": {
            "_unit_id": number,
            "emotion": ("Joy", "Fear", "Awe")[number % 3],
            "idiom_id": number % 7,
            "sentence": f"No bone to pick {number}",
        },
        "progressive": {
            STANCE: ("AGAINST: We can infer", "NONE OF THE ABOVE: There is")[number % 2],
            f"{STANCE}:confidence": "1",
            "q2_which_of_the_options_below_is_true_about_the_opinion_in_the_tweet": ("1.  The tweet", "3. It")[
                number % 2
            ],
            "target": "Atheism",
            "tweet": f"Vote {number}",
        },
        "us-economic-performance": {
            "_unit_id": number,
            "positivity": "3" if number % 2 else "",
            "relevance": ("no", "yes")[number % 2],
            "text": f"The index rose {number}",
        },
        "complaints": {
            "Date received": "10/17/2015",
            "Product": "Mortgage",
            "Issue": ("Loan servicing", "Credit decision")[number % 2],
            "Consumer complaint narrative": f"They XXXX me {number}",
            "Company": "Citibank",
            "State": "VA",
        },
    }
    return known[name] | changes


TABLES = {
    "airline": "Tweets.csv",
    "corporate-messaging": "Corporate-messaging-DFE.csv",
    "disasters": "socialmedia-disaster-tweets-DFE.csv",
    "economic-news": "Full-Economic-News-DFE-839861.csv",
    "emotion": "text_emotion.csv",
    "global-warming": "1377884570_tweet_global_warming.csv",
    "primary-emotions": "primary-plutchik-wheel-DFE.csv",
    "progressive-opinion": "progressive-tweet-sentiment.csv",
    "progressive-stance": "progressive-tweet-sentiment.csv",
    "us-economic-performance": "us-economic-newspaper.csv",
    "complaints": "complaints.csv",
}


def archive(posts: dict[str, bytes]) -> bytes:
    """An archive of posts by their paths."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        for path, content in posts.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return file.getvalue()


def text_files(name: str, rows: int, csv_text: Callable[[list[dict[str, Any]]], str]) -> dict[str, str | bytes] | None:
    """Files of a set by their names, with so many rows that are kept, all different; None for other sets."""
    numbers, held = range(rows), rows // 3
    if name in FILES:
        train, test = FILES[name]
        columns = COLUMNS[name.removesuffix("-mismatched")]
        test_columns = MNLI_DEV if name.startswith("mnli") else columns
        made = [glue_row(name, number) for number in numbers]
        header = name != "cola"
        return {
            train: tsv_text(made[held:], columns, header=header),
            test: tsv_text(made[:held], test_columns, header=header),
        }
    if name in TABLES:
        table = "progressive" if name.startswith("progressive") else name
        return {TABLES[name]: csv_text([table_row(table, number) for number in numbers])}
    if name == "sms-spam":
        return {"SMSSpamCollection": "".join(f'{("ham", "spam")[n % 2]}\tWin "{n} now\r\n' for n in numbers)}
    if name == "news-aggregator":
        lines = (
            f'{n}\tFed "says {n}\thttp://a.b/{n}\tReuters\t{"betm"[n % 4]}\ts{n % 30}\ta.b\t13944\n' for n in numbers
        )
        return {"newsCorpora.csv": "".join(lines)}
    if name == "news-aggregator-five":
        titles = [f"Fed says {n}\t{'betm'[n % 4]}\n" for n in numbers]
        return {
            f"five_publishers_{word}.tsv": "".join(titles[n::3]) for n, word in enumerate(("test", "valid", "train"))
        }
    if name in SQUAD_FILES:
        train, test = SQUAD_FILES[name]
        questions = [squad_question(number, is_impossible=name == "squad-v2" and not number % 3) for number in numbers]
        return {train: squad_text(questions[held:]), test: squad_text(questions[:held])}
    if name == "20-newsgroups":
        places = [
            f"20news-bydate-{'test' if n < held else 'train'}/{('sci.med', 'rec.autos')[n % 2]}/{n}" for n in numbers
        ]
        return {"20news-bydate.tar": archive({place: f"Subject: {place}\n\nText".encode() for place in places})}
    return None
