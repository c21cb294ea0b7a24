"""What a user gets on ten small tables, three larger ones and four others, with the defaults of `attribune.train`.

    python benchmarks/ten_tables.py [--table films amazon] [--setting linear injector] [--seeds 0 1 2]
    python benchmarks/ten_tables.py --rows 300 --setting alone "20 epochs"     # a trial, in a file of its own

Each table is prepared from its raw file: rows without a text or a label and duplicates are left out, tables of long
texts are cut to 3,000 rows, and 70 % of the texts train, 10 % validate and 20 % test, drawn by the seed; of headlines
it is so many stories. All settings of a seed have the same rows. `linear` has the cheap baselines beside it; `adapter`
reads the text alone; `default` is what `train` does, and `injector` the network of the same run without the simple
models that may count beside it; `written` is an Injector that also reads the values as words in front of the text. Each
cell (table, setting, seed) is a run in benchmarks/runs/ without its weights; what is done is not done again, also where
only its results are left, but for what others are compared with row by row; an interrupted one goes on, and several
calls at once share the cells. Every cell is written to benchmarks/results/ten_tables.json as it finishes, with the
paired differences to `linear`, and of `default` to the others, over the test rows of all seeds that both have; where
the rows of earlier seeds are gone, differences and intervals are means over the seeds, which are the wider ones. With
`--rows N`, so many rows train, a seventh as many validate, and at most 1,000 test; differences of numbers of epochs are
to `alone`, the network after at most five without a simple model beside it, and those of other trials to the default
number. The data are looked for in the folder that ATTRIBUNE_DATA names.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from datasets import Dataset, concatenate_datasets
from harness import DATA, RESULTS, RUNS, arguments
from scipy.special import softmax

from attribune.core.arrays import Array
from attribune.core.files import replace_file
from attribune.core.job_folder import locked
from attribune.core.progress import ConsoleReporter, quiet_libraries
from attribune.data.clusters import TEXT, ClusterSettings, clustered, find_clusters, unpacked_clusters
from attribune.data.splits import fold_numbers, split_table
from attribune.data.tables import read_table
from attribune.errors import AttribuneError
from attribune.metrics.bootstrap import Interval, paired
from attribune.metrics.formulas import pooled
from attribune.metrics.metric import Metric
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_predictor
from attribune.runs.stored_scores import StoredScores
from attribune.tasks.base import scored_metrics
from attribune.tasks.calibration import fit_temperature
from attribune.training.train import train
from attribune_lab.benchmark.tables import readable_json

REFERENCE, DEFAULT, NETWORK = "linear", "default", "alone"
FOLDS = 5
MEANS = ("mean of five", "mean of last weights")
"""The mean probabilities of models of which each leaves out, and validates on, a fifth of the rows.

Those with the last weights share the temperature that fits the rows of all fifths, as in a run on folds.
"""
TEN_EPOCHS, _FEW = "10 epochs", 600
"""Of so few rows, ten epochs are the 100 steps that `train` makes by default."""
_TRIAL_TESTS = 1_000  # rows that test a trial, at most
_LONG = 3_000  # rows of a table of long texts, on which training takes about an hour
SETTINGS: dict[str, dict[str, Any]] = {
    REFERENCE: {"method": "linear", "baselines": True},
    "boosting": {"method": "boosting"},
    DEFAULT: {},
    "injector": {},
    "adapter": {"method": "adapter", "settings": {"training.blend": "never"}},
    "plora": {"method": "plora", "settings": {"training.blend": "never"}},
    "in-text": {"method": "in-text", "settings": {"training.blend": "never"}},
    "written": {"settings": {"training.blend": "never"}},
}
"""Arguments of `train`; `written` also writes the values of all attributes in front of the text."""
_EPOCHS: dict[str, dict[str, Any]] = {
    NETWORK: {"training.epochs": 5.0},
    "10 epochs": {"training.epochs": 10.0},
    "20 epochs": {"training.epochs": 20.0},
}
_CHANGES: dict[str, dict[str, Any]] = {
    "half the rate": {"training.learning_rate": 2.5e-4},
    "twice the rate": {"training.learning_rate": 1e-3},
    "dropout 0.3": {"backbone.dropout": 0.3},
    "attribute dropout 0": {"method.attribute_dropout": 0.0},
    "attribute dropout 0.4": {"method.attribute_dropout": 0.4},
    "weight decay 0.1": {"training.weight_decay": 0.1},
    "vectors from 0.002": {"method.initial_vector": 0.002},
    "last weights": {"training.select_by": "last"},
    "mean of five": {"training.select_by": "loss"},
    "mean of last weights": {"training.select_by": "last"},
    "five folds": {},
    "folds by the loss": {"training.select_by": "loss"},
    "folds at twice the rate": {"training.learning_rate": 1e-3},
    "folds of 20 epochs": {"training.epochs": 20.0},
}
FOLDED = ("five folds", "folds by the loss", "folds at twice the rate", "folds of 20 epochs")
"""Cross-validated runs of the training and the validation rows; their saved network is tested."""
TRIALS = {name: {"settings": {"training.blend": "never", **one}} for name, one in (_EPOCHS | _CHANGES).items()}
"""Arguments of `train` that are tried on few rows, where they change its default: five epochs, or 100 steps."""
COMPARED = {REFERENCE, "boosting", NETWORK, TEN_EPOCHS}
"""What others are compared with: it is trained again where its rows are gone, which takes seconds to minutes."""
ALONE = {"injector": DEFAULT}
"""The network alone, and the setting in whose run it is."""


# Tables


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows with a text and labels.

    Args:
        rows: with the columns `text`, the labels, the attributes and `group`.
        task: its kind.
        judge: the attribute that says who judged a text; without one, a text has one row.
        group: column of what is split in place of texts.
        most: rows that are taken, those of texts drawn at random; all by default.
    """

    rows: pd.DataFrame
    label: Sequence[str]
    attributes: Sequence[str]
    task: str = "classification"
    judge: str | None = None
    group: str | None = None
    most: int | None = None

    def cleaned(self) -> Dataset:
        """The rows without duplicates, those that are taken of the table."""
        columns = dict.fromkeys(("text", *self.label, *self.attributes, *filter(None, [self.group])))
        rows = self.rows[list(columns)].assign(text=self.rows["text"].str.strip())
        rows = rows[rows["text"].fillna("") != ""].dropna(subset=list(self.label))
        rows = rows.drop_duplicates(["text", *filter(None, [self.judge])])
        if self.most is not None and self.most < len(rows):
            texts = pd.factorize(rows["text"])[0]
            places = np.random.default_rng(0).permutation(texts.max() + 1)[texts]
            rows = rows.iloc[np.argsort(places, kind="stable")[: self.most]].sort_index()
        return read_table(rows.reset_index(drop=True))

    def parts(self, seed: int, most: int | None = None) -> dict[str, Dataset]:
        """Training, validation and test rows; of a trial at most so many for training."""
        rule: dict[str, Any] = {} if self.group is None else {"by": "group", "column": self.group}
        split = split_table(self.cleaned(), text=["text"], seed=seed, fractions=(0.7, 0.1, 0.2), **rule)
        parts = {"train": split.train, "validation": split.validation, "test": split.test}
        if most is None:
            return parts
        sizes = {"train": most, "validation": most // 7, "test": _TRIAL_TESTS}
        drawn = {name: np.random.default_rng(seed).permutation(len(part)) for name, part in parts.items()}
        return {name: part.select(np.sort(drawn[name][: sizes[name]])) for name, part in parts.items()}


def from_csv(*file: str, text: str, encoding: str = "utf-8") -> pd.DataFrame:
    return pd.read_csv(DATA.joinpath(*file), encoding=encoding).rename(columns={text: "text"})


def progressive() -> Table:
    """Stance of tweets towards a target; the class is the first word of its description."""
    rows = from_csv("crowdflower", "progressive-tweet-sentiment.csv", text="tweet")
    question = next(name for name in rows.columns if name.startswith("q1_"))
    stance = rows[question].str.partition(":")[0]
    return Table(rows=rows.assign(stance=stance), label=["stance"], attributes=["target"])


def beer() -> Table:
    """Four aspects of beers; style, brewery, strength and the overall rating of the same user are left out."""
    rows = pd.read_json(DATA / "beeradvocate" / "beer_head.jsonl", lines=True, dtype=False)
    return Table(
        rows=rows.rename(columns={"review/text": "text"}),
        label=[f"review/{name}" for name in ("appearance", "aroma", "palate", "taste")],
        attributes=["user/profileName", "beer/beerId"],
        task="aspects",
    )


def emotions() -> Table:
    """Emotion of a sentence with an idiom."""
    rows = from_csv("crowdflower", "primary-plutchik-wheel-DFE.csv", text="sentence")
    return Table(rows=rows, label=["emotion"], attributes=["idiom_id"])


def corporate() -> Table:
    """What messages of companies are for; of a text that stands several times, the first row is taken."""
    rows = from_csv("crowdflower", "Corporate-messaging-DFE.csv", text="text", encoding="latin-1")
    return Table(rows=rows, label=["category"], attributes=["screenname"])


def economic() -> Table:
    """Whether articles are about the economy; their date is left out."""
    rows = from_csv("crowdflower", "economic-news-relevance-1995-2014.csv.gz", text="texts")
    rows = rows.assign(paper=rows["wsj"].map({1: "wsj", 0: "wapo"}))
    return Table(rows=rows, label=["economy"], attributes=["paper"], most=_LONG)


def polmed() -> Table:
    """What messages of politicians are about."""
    rows = from_csv("polmed", "political_social_media.csv", text="text", encoding="latin-1")
    rows = rows.rename(columns={"label": "politician"})
    return Table(rows=rows, label=["message"], attributes=["politician", "source", "audience", "bias"])


def complaints() -> Table:
    """Product that a complaint is about; dates, the issue, which tells it, and what came of it are left out."""
    rows = from_csv("consumer_complaints", "complaints_part.csv.gz", text="consumer_complaint_narrative")
    return Table(rows=rows, label=["product"], attributes=["company", "state"], most=_LONG)


def news() -> Table:
    """Category of headlines, all of one story in one part; address and time are left out."""
    rows = from_csv("news_aggregator", "uci-news-aggregator-first.csv.gz", text="TITLE")
    return Table(rows=rows, label=["CATEGORY"], attributes=["PUBLISHER", "HOSTNAME"], group="STORY")


def lewidi_items(name: str) -> Iterator[dict[str, Any]]:
    """The items of a set of LeWiDi, of which several people judged each."""
    for part in ("train", "dev", "test"):
        with gzip.open(DATA / "lewidi" / f"{name}_{part}.json.gz", "rt", encoding="utf-8") as file:
            yield from json.load(file).values()


def hate() -> Table:
    """Whether single annotators find tweets hateful; what else they said of them is left out."""
    rows = []
    for item in lewidi_items("HS-Brexit"):
        lists = (item["annotators"], item["other_info"]["annotators group"], item["annotations"])
        for annotator, group, hateful in zip(*(words.split(",") for words in lists), strict=True):
            rows.append({"text": item["text"], "annotator": annotator, "group": group, "hateful": hateful})
    attributes = ["annotator", "group"]
    return Table(rows=pd.DataFrame(rows), label=["hateful"], attributes=attributes, judge="annotator")


def valence() -> Table:
    """How positive annotators find reviews, of whom nothing else is known; their other answers are left out."""
    judgements = pd.read_csv(DATA / "studemo" / "annotation_data.csv.gz")
    rows = judgements.merge(pd.read_csv(DATA / "studemo" / "text_data.csv.gz"), on="text_id")
    judge = "annotator_id"
    return Table(rows=rows, label=["valence"], attributes=[judge], task="regression", judge=judge, most=_LONG)


def amazon() -> Table:
    """Stars of reviews; their summaries and dates are left out."""
    rows = from_csv("amazon_musical_instruments", "Musical_instruments_reviews.csv", text="reviewText")
    return Table(rows=rows, label=["overall"], attributes=["reviewerID", "asin"], task="rating")


def films() -> Table:
    """Verdicts of critics; those without one, and dates, are left out."""
    rows = from_csv("rt_critics", "critics.csv", text="quote")
    rows = rows[rows["fresh"] != "none"]
    return Table(rows=rows, label=["fresh"], attributes=["critic", "title", "publication"])


def politeness() -> Table:
    """Politeness of requests, of which five people judged each; the community is left out."""
    files = [DATA / "politeness" / f"{name}.annotated.csv.gz" for name in ("wikipedia", "stack-exchange")]
    requests = pd.concat([pd.read_csv(file) for file in files])
    judged = [
        pd.DataFrame({"text": requests["Request"], "judge": requests[f"TurkId{i}"], "score": requests[f"Score{i}"]})
        for i in range(1, 6)
    ]
    rows = pd.concat(judged, ignore_index=True)
    return Table(rows=rows, label=["score"], attributes=["judge"], task="regression", judge="judge")


def airlines() -> Table:
    """Sentiment of tweets to airlines; why it is negative, and who wrote them, are left out."""
    rows = from_csv("crowdflower", "airline_tweets.csv", text="text")
    return Table(rows=rows, label=["airline_sentiment"], attributes=["airline", "user_timezone"], most=_LONG)


def disasters() -> Table:
    """Whether tweets with a keyword are about a disaster; those of which nobody could tell are left out."""
    rows = from_csv("crowdflower", "socialmedia-disaster-tweets-DFE.csv.gz", text="text", encoding="latin-1")
    rows = rows[rows["choose_one"] != "Can't Decide"]
    return Table(rows=rows, label=["choose_one"], attributes=["keyword", "location"], most=_LONG)


def chatbots() -> Table:
    """How abusive single annotators find the last turn of dialogues with chatbots, from 1, not at all, to -3."""
    rows = []
    for item in lewidi_items("ConvAbuse"):
        turns = json.loads(item["text"])
        text = "\n".join(str(turns[name] or "") for name in ("prev_agent", "prev_user", "agent", "user"))
        for annotator, answer in zip(item["annotators"].split(","), item["annotations"].split(","), strict=True):
            rows.append({"text": text, "annotator": annotator, "bot": item["other_info"]["bot"], "abuse": answer})
    table = pd.DataFrame(rows)
    who = ["annotator", "bot"]
    return Table(rows=table, label=["abuse"], attributes=who, task="rating", judge="annotator", most=_LONG)


def recipes() -> Table:
    """Stars of reviews of recipes; 0 stands for none given, and is left out, as are dates."""
    rows = from_csv("foodcom", "dishcovery_interactions_small.csv", text="review")
    rows = rows[rows["rating"] > 0]
    return Table(rows=rows, label=["rating"], attributes=["user_id", "recipe_id"], task="rating", most=_LONG)


TABLES: dict[str, Callable[[], Table]] = {
    "progressive stance": progressive,
    "beer aspects": beer,
    "primary emotions": emotions,
    "corporate messaging": corporate,
    "economic news": economic,
    "PolMed": polmed,
    "consumer complaints": complaints,
    "news": news,
    "HS-Brexit": hate,
    "StudEmo": valence,
    "amazon": amazon,
    "films": films,
    "politeness": politeness,
    "airlines": airlines,
    "disasters": disasters,
    "chatbots": chatbots,
    "recipes": recipes,
}
"""Ten from the smallest to the largest, three larger ones, and four that were measured when nearly all was chosen."""


@cache
def table_of(name: str) -> Table:
    return TABLES[name]()


# Cells


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training."""

    table: str
    setting: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.table}, {self.setting}, {self.seed}"

    def beside(self, setting: str) -> Cell:
        """The same table and seed with another setting."""
        return replace(self, setting=setting)

    def run(self, folder: Path) -> RunFolder:
        """Where it is."""
        setting = ALONE.get(self.setting, self.setting)
        return RunFolder(folder / self.table.replace(" ", "_") / f"{setting.replace(' ', '_')}.{self.seed}")

    def own_logits(self, folder: Path) -> Path:
        """The file with the logits of the test rows, if they are others than those of the run."""
        return self.run(folder).path / f"{self.setting}.npy"

    def labels(self, folder: Path) -> RunFolder:
        """The run with the labels of its test rows; of a cross-validated cell that is another one."""
        path = self.run(folder).path
        return RunFolder(path.with_name(f"{path.name}.labels")) if self.setting in FOLDED else self.run(folder)

    def is_done(self, folder: Path) -> bool:
        """Whether its run is finished, or what is written after its runs is there."""
        is_alone = self.setting not in MEANS + FOLDED
        return self.run(folder).is_finished if is_alone else self.own_logits(folder).is_file()

    def has_scores(self, folder: Path) -> bool:
        """Whether its test rows have scores, and not its results alone."""
        return self.own_logits(folder).is_file() or self.is_done(folder)

    def scores(self, folder: Path) -> StoredScores:
        """What is stored of the test rows, by another run where that of the cell is gone or has other rows."""
        runs = (self.labels(folder), self.beside(REFERENCE).run(folder))
        return StoredScores.read(next(run for run in runs if run.is_finished).path)

    def metrics(self, folder: Path, most: int | None) -> dict[str, Metric]:
        """The metrics over the test rows.

        What is drawn for an interval is what they share: stories, texts and who judged them, or speakers.
        """
        table, scores = table_of(self.table), self.scores(folder)
        found, own = scores.parts["test"], self.own_logits(folder)
        kinds = [table.group] if table.group else list(unpacked_clusters(found))
        settings = ClusterSettings(cluster=tuple(kinds or [TEXT]), texts=("text",), judges=())
        logits = np.load(own) if own.is_file() else found["logits"]
        rows = table.parts(self.seed, most)["test"]
        return clustered(scored_metrics(scores.task, logits, found["labels"]), find_clusters(rows, settings))

    def train(self, folder: Path, *, rows: int | None) -> None:
        """Do it, unless it is done or another process is about it."""
        run, table = self.run(folder), table_of(self.table)
        with locked(run.path.with_name(f"{run.path.name}.lock")) as is_free:
            if not is_free or self.is_done(folder):
                return
            print(f"\n{self.key}", file=sys.stderr, flush=True)
            parts = table.parts(self.seed, rows)
            options: dict[str, Any] = {
                "text": "text",
                "label": table.label,
                "attributes": table.attributes,
                "task": table.task,
                "seed": self.seed,
                "baselines": False,
            }
            options |= {"validation": parts["validation"], "test": parts["test"]} | (SETTINGS | TRIALS)[self.setting]
            if self.setting == "written":
                options["written"] = table.attributes
            if self.setting in MEANS + FOLDED:
                rows = concatenate_datasets([parts["train"], parts["validation"]])
                classes = sorted(set(rows[table.label[0]]))  # of which a fold may lack some
                options["settings"] = {**options["settings"], "task.classes": classes}
                scored = self._mean if self.setting in MEANS else self._folded
                np.save(self.own_logits(folder), scored(folder, rows, parts, options))
                return
            train(parts["train"], run.path, resume=True, reporter=ConsoleReporter(), **options)
            predictor = load_predictor(run.path)
            if predictor.blend is not None:
                alone = predictor.without_blend().logits(parts["test"])[0]
                np.save(self.beside("injector").own_logits(folder), alone)
            shutil.rmtree(run.model)

    def _folded(self, folder: Path, rows: Dataset, parts: Mapping[str, Dataset], options: Mapping[str, Any]) -> Array:
        """The logits by the network that a run on folds saves."""
        run = self.run(folder)
        alike = {name: one for name, one in options.items() if name not in ("validation", "test")}
        train(rows, run.path, folds=FOLDS, resume=True, reporter=ConsoleReporter(), **alike)
        logits = load_predictor(run.path).logits(parts["test"])[0]
        linear = {**options, "method": REFERENCE, "settings": {"task.classes": options["settings"]["task.classes"]}}
        train(parts["train"], self.labels(folder).path, resume=True, **linear)
        shutil.rmtree(run.model)
        return logits

    def _mean(self, folder: Path, rows: Dataset, parts: Mapping[str, Dataset], options: Mapping[str, Any]) -> Array:
        """The logits of the mean probabilities of the models of all folds, the last of which is the run of the cell."""
        folds, last, runs = fold_numbers(rows, FOLDS, text=["text"], seed=self.seed), self.run(folder).path, []
        for number in range(FOLDS):
            path = last if number == FOLDS - 1 else last.with_name(f"{last.name}.{number}")
            chosen = {"validation": rows.select(np.flatnonzero(folds == number))}
            train(rows.select(np.flatnonzero(folds != number)), path, **{**options, **chosen}, resume=True)
            shutil.rmtree(RunFolder(path).model, ignore_errors=True)
            runs.append(RunFolder(path))
        stored = [StoredScores.read(run.path) for run in runs]
        logits = np.stack([one.parts["test"]["logits"] for one in stored])
        if self.setting == MEANS[1]:
            own = [run.read_results().training.temperature or 1.0 for run in runs]
            raw = [one.parts["validation"]["logits"] * each for one, each in zip(stored, own, strict=True)]
            labels = np.concatenate([one.parts["validation"]["labels"] for one in stored])
            shared = fit_temperature(stored[0].task, np.concatenate(raw), labels)
            logits = logits * np.reshape(own, (-1, 1, 1)) / shared
        return np.log(np.mean(softmax(logits, axis=-1), axis=0))


def record(cell: Cell, folder: Path) -> dict[str, Any]:
    """What a finished run says of its rows, or a file of other logits of its test rows."""
    results, scores, own = cell.run(folder).read_results(), cell.scores(folder), cell.own_logits(folder)
    arrays = scores.parts["test"]
    proper = scores.task.proper_score(arrays["logits"], arrays["labels"])
    assert proper is not None
    model, *others = results.models
    found: dict[str, Any] = {
        "proper": proper.name,
        "main": "r2" if results.main_metric == proper.name else results.main_metric,
        "rows": results.rows,
        "seconds": round(results.training.seconds, 1),
        "epochs": round(results.training.epochs, 2),
        "device": results.environment.device,
        "threads": results.environment.threads,
    }
    if own.is_file():
        found["test"] = values_of(scored_metrics(scores.task, np.load(own), arrays["labels"]))
    else:
        found |= {part: values_of(metrics) for part, metrics in model.parts.items()}
    if others:
        found["beside"] = {other.name: values_of(other.parts["test"]) for other in others}
    return found


def values_of(metrics: Mapping[str, Metric | Interval]) -> dict[str, float]:
    return {name: round(one.value if isinstance(one, Interval) else one.value(), 5) for name, one in metrics.items()}


# Results


def read_results(output: Path) -> dict[str, dict[str, Any]]:
    """The cells that are done, by their keys, and the differences of settings."""
    found = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else {}
    return {"cells": {}, "differences": {}, **found}


def add_result(output: Path, folder: Path, kind: str, key: str, found: Mapping[str, Any]) -> None:
    """Add to the file, also while other processes add to it."""
    with locked(folder / "results.lock", timeout=-1):
        results = read_results(output)
        results[kind][key] = found
        output.parent.mkdir(parents=True, exist_ok=True)
        replace_file(output, f"{readable_json(results)}\n".encode())


def compare(output: Path, folder: Path, table: str, most: int | None) -> None:
    """Add the differences of settings over the test rows of all seeds that have the scores of both."""
    results = read_results(output)
    seeds: dict[str, list[int]] = {}
    for name, setting, seed in (key.split(", ") for key in results["cells"]):
        if name == table and Cell(table=table, setting=setting, seed=int(seed)).has_scores(folder):
            seeds.setdefault(setting, []).append(int(seed))
    usual = NETWORK if most is None or most > _FEW else TEN_EPOCHS
    theirs_of = dict.fromkeys(_EPOCHS, NETWORK) | dict.fromkeys(_CHANGES, usual)
    theirs_of |= {FOLDED[0]: FOLDED[1], FOLDED[1]: REFERENCE} | dict.fromkeys((*FOLDED[2:], MEANS[1]), FOLDED[0])
    pairs = [(name, theirs_of.get(name, REFERENCE)) for name in seeds]
    for mine, theirs in [*pairs, *((DEFAULT, name) for name in seeds)]:
        both = {*seeds.get(mine, [])} & {*seeds.get(theirs, [])}
        key = f"{table}: {mine} less {theirs}"
        earlier = results["differences"].get(key, {"seeds": []})
        is_gone = not both >= {*earlier["seeds"]}
        if is_gone:
            both -= {*earlier["seeds"]}
        if mine == theirs or both <= {*earlier["seeds"]}:
            continue
        cells = [Cell(table=table, setting=mine, seed=seed) for seed in sorted(both)]
        one, other = ([cell.beside(name).metrics(folder, most) for cell in cells] for name in (mine, theirs))
        known = results["cells"][cells[0].key]
        found: dict[str, Any] = {"seeds": sorted(both)}
        for name in dict.fromkeys([known["proper"], known["main"]]):
            pair = paired(pooled([metrics[name] for metrics in one]), pooled([metrics[name] for metrics in other]))
            found[name] = {field: value for field, value in asdict(pair).items() if field != "level"}
        if is_gone:
            found = over_seeds(earlier, found)
        add_result(output, folder, "differences", key, found)


def over_seeds(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The differences of two groups of seeds in one, by the number of seeds.

    As their test rows are of one table, the groups are taken to err alike: the limits are means of theirs.
    """
    shares = np.array([len(one["seeds"]), len(other["seeds"])]) / (len(one["seeds"]) + len(other["seeds"]))
    found: dict[str, Any] = {"seeds": sorted([*one["seeds"], *other["seeds"]])}
    for name in other.keys() - {"seeds"}:
        both = (one[name], other[name])
        gap, low, high = (float(shares @ [part[key] for part in both]) for key in ("difference", "low", "high"))
        deviations = abs(gap) / (high - low) * 2 * NormalDist().inv_cdf(0.975) if high > low else np.inf
        found[name] = {
            "difference": gap,
            "low": low,
            "high": high,
            "p_value": 2 * NormalDist().cdf(-deviations),
            "resamples": min(part["resamples"] for part in both),
            "differing": sum(part["differing"] for part in both),
        }
    return found


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, with the folder of the runs and the file of results: those of a trial are apart."""
    parser.set_defaults(output=None)
    parser.add_argument("--table", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="N")
    parser.add_argument("--rows", type=int, metavar="N", help="for training, at most: a trial")
    options = parser.parse_args()
    name = "ten_tables" if options.rows is None else f"few_rows_{options.rows}"
    options.folder = RUNS / name
    options.output = options.output or RESULTS / f"{name}.json"
    return options


def main() -> None:
    parser = arguments(__doc__, "ten_tables")
    parser.add_argument("--setting", nargs="+", metavar="NAME", help="as the file names them; all, or those of a trial")
    options = options_of(parser)
    known = list(SETTINGS if options.rows is None else TRIALS)
    if unknown := sorted(set(options.setting or ()) - set(known)):
        parser.error(f"--setting {', '.join(unknown)}: choose from {', '.join(known)}")
    quiet_libraries()
    cells = [
        Cell(table=table, setting=setting, seed=seed)
        for seed in options.seeds
        for table in options.table
        for setting in options.setting or known
    ]
    for cell in cells:
        run, done = cell.run(options.folder), read_results(options.output)["cells"]
        try:
            if cell.key not in done or cell.setting in COMPARED:
                cell.train(options.folder, rows=options.rows)
        except AttribuneError as error:
            print(f"{cell.key} failed: {error}", file=sys.stderr, flush=True)
        if run.is_finished and cell.key not in read_results(options.output)["cells"]:
            found = record(cell, options.folder)
            add_result(options.output, options.folder, "cells", cell.key, found)
        compare(options.output, options.folder, cell.table, options.rows)
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
