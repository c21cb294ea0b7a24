"""GLUE: nine tasks about one sentence or two (Wang et al. 2019)."""

from __future__ import annotations

from functools import partial
from typing import Any

from attribune_lab.datasets.card import NOT_STATED, Card, Hashed, SourceFile, categorical
from attribune_lab.datasets.glue_files import PART, GlueFormat, read_glue

__all__ = ["GLUE"]

_SENTENCES = ("index", "sentence1", "sentence2", "label")
_MNLI = (
    *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse"),
    *("sentence2_parse", "sentence1", "sentence2", "label1"),
)
_OBTAIN = (
    "Get {file} of GLUE (https://gluebenchmark.com/tasks) and unpack it; the files are {files}. The folder given is "
    "that of the task, or the one above."
)
_GLUE = (
    "Wang, Singh, Michael, Hill, Levy and Bowman 2019, GLUE: A Multi-Task Benchmark and Analysis Platform for NLU, ICLR"
)
_DEV = "GLUE keeps the labels of its test rows: its development rows are the test part"
_DRAWN = (
    "a hash of the texts draws a tenth of the training rows for validation. Training rows with the texts of a test row"
)

_SHA256 = {
    ("CoLA", "test"): "8c013e21dc39957cac37378d87bebe225b694a0d5fe13eded66c2856628833fd",
    ("SST-2", "train"): "48eac26399f8456935f81dd9e3a745c1430adb6c62e233ccfe22db4a0d15d1d1",
    ("SST-2", "test"): "54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0",
    ("MRPC", "train"): "61a88818ec384d8465297dda1883b469f1b22d442ab90183d13e06233b180591",
    ("MRPC", "test"): "0360d0d3427a0ae14882e2b3a799df0fab6cb5203d5e8ee481949283da62acb6",
    ("STS-B", "train"): "41c4d978b6162abdcada7e49a982211954cca5459c228db478af333124b257a2",
    ("QNLI", "test"): "763e95932dd3578251de71582e06829015f9c3815a518c751dc537219b159de4",
    ("RTE", "test"): "80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb",
    ("WNLI", "test"): "cba00490596dd14be8cf53b4f53bb744abe3a7b89f81ab210528d80225338ed5",
}


def _files(
    folder: str,
    train: tuple[int, *tuple[str, ...]],
    test: tuple[int, *tuple[str, ...]],
    *,
    rest: str | None = None,
    other_rows: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
) -> tuple[SourceFile, ...]:
    """Return the files of a task: rows and possible names of each, and what may continue the training rows."""
    found = []
    for role, (rows, *names), more in zip(("train", "test"), (train, test), other_rows, strict=True):
        paths = (*(f"{folder}/{name}" for name in names), *names)
        found.append(SourceFile(role=role, names=paths, rows=rows, other_rows=more, sha256=_SHA256.get((folder, role))))
    if rest is not None:
        found.append(SourceFile(role="rest", names=(f"{folder}/{rest}", rest), optional=True))
    return tuple(found)


def _card(
    *, name: str, title: str, folder: str, form: GlueFormat, files: tuple[SourceFile, ...], metric: str, **texts: Any
) -> Card:
    task: dict[str, Any] = {"kind": "classification" if form.classes else "regression"}
    if metric == "f1":
        task["positive"] = form.classes[-1]
    elif metric != "accuracy":
        task["score_by"] = ["spearman", "pearson"] if metric == "spearman" else [metric]
    shown = ", ".join(file.names[0] for file in files if not file.optional)
    texts = {"source": "GLUE (gluebenchmark.com)", "revision": NOT_STATED, "licence": NOT_STATED} | texts
    texts["citation"] = f"{texts['citation']}; {_GLUE}"
    texts.setdefault("obtain", _OBTAIN.format(file=f"{folder}.zip", files=shown))
    texts.setdefault("preparation", f"{_DEV}; {_DRAWN} are left out.")
    known = {"text", "text_pair", form.label}
    return Card(
        name=name,
        title=title,
        files=files,
        read=partial(read_glue, form=form),
        split=Hashed(validation=0.1, test=0.0),
        attributes=categorical(*(ours for ours in form.columns if ours not in known)),
        labels=(form.label,),
        task=task,
        classes=len(form.classes),
        metric=metric,
        pair="text_pair" in form.columns,
        window="head",
        recipe="houlsby",
        **texts,
    )


def _pairs(first: str, second: str, label: str, ours: str, **attributes: str) -> dict[str, str]:
    return {"text": first, "text_pair": second, ours: label, **attributes}


_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_RELATION = _pairs("sentence1", "sentence2", "label", "relation")
_MNLI_FORM = GlueFormat(
    columns=_pairs("sentence1", "sentence2", "gold_label", "relation", genre="genre"),
    label="relation",
    classes=("contradiction", "entailment", "neutral"),
    layouts=((*_MNLI, "gold_label"), (*_MNLI, "label2", "label3", "label4", "label5", "gold_label")),
)
_MNLI_TRAIN = (392_702, "train.tsv", f"{PART}a.json")
_MNLI_TEXTS: dict[str, Any] = {
    "terms": "Open American National Corpus and others: some parts CC BY, CC BY-SA 3.0, or for any use.",
    "citation": "Williams, Nangia and Bowman 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding, NAACL",
    "folder": "MNLI",
    "form": _MNLI_FORM,
    "metric": "accuracy",
}
_PART_NOTE = (
    f" {PART}a.json and {PART}b.json, random rows of the training file as an object of objects, are read instead"
)

GLUE = (
    _card(
        name="cola",
        title="CoLA",
        folder="CoLA",
        form=GlueFormat(
            columns={"text": "sentence", "acceptable": "label", "source": "source"},
            label="acceptable",
            classes=_BINARY,
            layouts=(("source", "label", "mark", "sentence"),),
        ),
        files=_files(
            "CoLA",
            (8_551, "train.tsv"),
            (1_043, "dev.tsv"),
            rest="val.tsv",
        ),
        metric="matthews",
        terms="Sentences of the linguistic literature, used as fair use for research.",
        citation="Warstadt, Singh and Bowman 2019, Neural Network Acceptability Judgments, TACL",
        notes=(
            "The source is the publication that a sentence comes from. A val.tsv beside train.tsv holds rows that "
            "were taken from it."
        ),
    ),
    _card(
        name="sst-2",
        title="SST-2",
        folder="SST-2",
        form=GlueFormat(
            columns={"text": "sentence", "sentiment": "label"},
            label="sentiment",
            classes=_BINARY,
            layouts=(("sentence", "label"),),
        ),
        files=_files("SST-2", (67_349, "train.tsv", "train_full.tsv"), (872, "dev.tsv")),
        metric="accuracy",
        terms="Snippets of Rotten Tomatoes, for research.",
        citation=(
            "Socher, Perelygin, Wu, Chuang, Manning, Ng and Potts 2013, Recursive Deep Models for Semantic "
            "Compositionality Over a Sentiment Treebank, EMNLP"
        ),
        notes="Training rows are phrases of which many are parts of one another; test rows are whole sentences.",
    ),
    _card(
        name="mrpc",
        title="MRPC",
        folder="MRPC",
        form=GlueFormat(
            columns=_pairs("#1 String", "#2 String", "Quality", "paraphrase"),
            label="paraphrase",
            classes=_BINARY,
            layouts=(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),),
        ),
        files=_files(
            "MRPC",
            (4_076, "msr_paraphrase_train.txt", "train.tsv"),
            (1_725, "msr_paraphrase_test.txt", "dev.tsv", "test.tsv"),
            other_rows=((3_668,), (408,)),
        ),
        metric="f1",
        source="Microsoft Research (microsoft.com/en-us/download/details.aspx?id=52398); GLUE (gluebenchmark.com)",
        obtain=(
            "Get the Microsoft Research Paraphrase Corpus, and put its MRPC/msr_paraphrase_train.txt and "
            "MRPC/msr_paraphrase_test.txt into a folder; or take train.tsv and dev.tsv of GLUE."
        ),
        terms="News sentences, for research; Microsoft names no licence.",
        citation="Dolan and Brockett 2005, Automatically Constructing a Corpus of Sentential Paraphrases, IWP",
        preparation=(
            "The test rows of the corpus, whose labels are public, are the test part, or GLUE's development rows "
            f"where they are not there; {_DRAWN} are left out, such as GLUE's development rows, which are in the "
            "file of the corpus."
        ),
    ),
    _card(
        name="sts-b",
        title="STS-B",
        folder="STS-B",
        form=GlueFormat(
            columns=_pairs("sentence1", "sentence2", "score", "score", genre="genre", file="filename", year="year"),
            label="score",
            classes=(),
            layouts=(
                (
                    *("index", "genre", "filename", "year", "old_index", "source1", "source2"),
                    "sentence1",
                    "sentence2",
                    "score",
                ),
                ("genre", "filename", "year", "old_index", "score", "sentence1", "sentence2", "", ""),
            ),
        ),
        files=_files(
            "STS-B",
            (5_749, "train.tsv", "sts-train.csv"),
            (1_379, "sts-test.csv", "sts-test-labeled.tsv", "dev.tsv"),
            other_rows=((), (1_500,)),
        ),
        metric="spearman",
        source="STS benchmark (ixa2.si.ehu.eus/stswiki); GLUE (gluebenchmark.com)",
        obtain=(
            "Get STS-B.zip of GLUE (https://gluebenchmark.com/tasks) and unpack it; its training file is "
            "STS-B/train.tsv. Put sts-test.csv of the STS benchmark beside it, or leave GLUE's dev.tsv there."
        ),
        terms="Sentences of news, captions and forums, each under terms of its own; for research.",
        citation=(
            "Cer, Diab, Agirre, Lopez-Gazpio and Specia 2017, SemEval-2017 Task 1: Semantic Textual Similarity, SemEval"
        ),
        preparation=(
            "The test rows of the STS benchmark, whose scores are public, are the test part, or GLUE's development "
            f"rows where they are not there; {_DRAWN} are left out."
        ),
        notes=(
            "Scores go from 0 to 5. Houlsby et al. 2019 report Spearman's correlation, GLUE the mean of Pearson's "
            "and Spearman's. Some mirrors have a dev.tsv that was drawn from train.tsv: the number of training rows "
            "left out tells it."
        ),
    ),
    _card(
        name="qqp",
        title="QQP",
        folder="QQP",
        form=GlueFormat(
            columns=_pairs("question1", "question2", "is_duplicate", "duplicate"),
            label="duplicate",
            classes=_BINARY,
            layouts=(("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),),
            fragment="lines that are no whole row, of which the published file has some",
        ),
        files=_files(
            "QQP",
            (363_846, "train.tsv", f"{PART}a.json"),
            (40_430, "dev.tsv", f"{PART}b.json"),
            other_rows=((363_849, 363_870), (40_431,)),
        ),
        metric="f1",
        terms="Questions of Quora, for uses that are not commercial, under the terms of its site.",
        citation="Iyer, Dandekar and Csernai 2017, First Quora Dataset Release: Question Pairs, Quora",
        preparation=f"{_DEV}; {_DRAWN} are left out, and lines that are no whole row, which some versions have.",
        notes=(
            f"Files of the versions in circulation differ by some rows.{_PART_NOTE}; where there is no dev.tsv, "
            f"{PART}b.json is the test part."
        ),
    ),
    _card(
        name="mnli",
        title="MNLI, matched",
        files=_files("MNLI", _MNLI_TRAIN, (9_815, "dev_matched.tsv", "dev_matched.jsonl"), rest=f"{PART}b.json"),
        notes=f"Each genre of the test part is one of the training rows' as well.{_PART_NOTE}.",
        **_MNLI_TEXTS,
    ),
    _card(
        name="mnli-mismatched",
        title="MNLI, mismatched",
        files=_files(
            "MNLI",
            _MNLI_TRAIN,
            (9_832, "dev_mismatched.tsv", "dev_mismatched_hard_tokenized.tsv"),
            rest=f"{PART}b.json",
        ),
        notes=(
            f"No genre of the test part is one of the training rows'.{_PART_NOTE}. "
            "dev_mismatched_hard_tokenized.tsv, read where the whole file is missing, has the 4,530 rows that a "
            "classifier of the hypothesis alone gets wrong, in tokens: scores on it are lower."
        ),
        **_MNLI_TEXTS,
    ),
    _card(
        name="qnli",
        title="QNLI",
        folder="QNLI",
        form=GlueFormat(
            columns=_pairs("question", "sentence", "label", "relation"),
            label="relation",
            classes=_ENTAILMENT,
            layouts=(("index", "question", "sentence", "label"),),
        ),
        files=_files(
            "QNLI",
            (104_743, "train.tsv", f"{PART}a.json"),
            (5_463, "dev.tsv"),
            rest=f"{PART}b.json",
        ),
        metric="accuracy",
        licence="CC BY-SA 4.0",
        terms="Made of SQuAD, whose paragraphs are those of Wikipedia.",
        citation=(
            "Rajpurkar, Zhang, Lopyrev and Liang 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text, "
            "EMNLP"
        ),
        notes=(
            "The second version, QNLIv2. Its rows are questions of SQuAD: do not tune on the one and test on the "
            f"other.{_PART_NOTE}."
        ),
    ),
    _card(
        name="rte",
        title="RTE",
        folder="RTE",
        form=GlueFormat(columns=_RELATION, label="relation", classes=_ENTAILMENT, layouts=(_SENTENCES,)),
        files=_files("RTE", (2_490, "train.tsv"), (277, "dev.tsv"), rest="val.tsv"),
        metric="accuracy",
        terms="News and Wikipedia sentences of the challenges RTE 1, 2, 3 and 5, for research.",
        citation="Dagan, Glickman and Magnini 2006, The PASCAL Recognising Textual Entailment Challenge, MLCW",
        notes="A val.tsv beside train.tsv holds rows that were taken from it.",
    ),
    _card(
        name="wnli",
        title="WNLI",
        folder="WNLI",
        form=GlueFormat(columns=_RELATION, label="relation", classes=_BINARY, layouts=(_SENTENCES,)),
        files=_files("WNLI", (635, "train.tsv"), (71, "dev.tsv"), rest="val.tsv"),
        metric="accuracy",
        licence="CC BY 4.0",
        terms="Made of the Winograd schemas, with attribution.",
        citation="Levesque, Davis and Morgenstern 2012, The Winograd Schema Challenge, KR",
        notes=(
            "Test rows have sentences of training rows with the other label, so that a model that learns sentences "
            "by heart is below chance. Houlsby et al. 2019 leave the task out. A val.tsv beside train.tsv holds "
            "rows taken from it."
        ),
    ),
)
"""The tasks of GLUE without its diagnostic set; MNLI is two, by its test part."""
