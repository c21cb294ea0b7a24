"""Files of predictions as GLUE's server takes them (Wang et al. 2019, gluebenchmark.com)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from attribune.core.files import make_folder, replace_file
from attribune.core.wording import counted
from attribune.errors import ConfigError, DataError
from attribune.models.predictor import Predictor
from attribune_lab.datasets.card import packed
from attribune_lab.datasets.readers.glue import Glue
from attribune_lab.datasets.row_log import GET_AGAIN, RowLog, read_tsv
from attribune_lab.datasets.sets import find_card

_BATCH = 5_000


@dataclass(frozen=True)
class ServerFile:
    """A file that the server takes.

    Args:
        name: as the server has it.
        rows: number of them that it takes.
        task: data set whose model predicts it.
        folder: of the test rows.
        tests: possible names of the file of the test rows, which has no labels.
    """

    name: str
    rows: int
    task: str
    folder: str
    tests: tuple[str, ...] = ("test.tsv",)

    def note(self, rows: int) -> str:
        """Say how many rows were written, and what to do if the server takes another number."""
        said = f"{self.name}: {counted(rows, 'row')}"
        if rows == self.rows:
            return said
        return f"{said}, where the server takes {self.rows:,}: get the file of its test rows again"

    def find(self, source: Path) -> Path:
        """Return the file of the test rows.

        Raises:
            DataError: if it is not there.
        """
        names = [f"{start}{name}" for start in (f"{self.folder}/", "") for name in self.tests]
        found = next(filter(Path.is_file, packed(source, names)), None)
        if found is None:
            raise DataError(
                f"{source} has no {self.folder}/{self.tests[0]}, whose rows the server's {self.name} is about: get "
                f"{self.folder}.zip of GLUE (https://gluebenchmark.com/tasks) and unpack it there"
            )
        return found


SERVER_FILES: tuple[ServerFile, ...] = (
    ServerFile("CoLA.tsv", 1_063, "cola", "CoLA"),
    ServerFile("SST-2.tsv", 1_821, "sst-2", "SST-2"),
    ServerFile("MRPC.tsv", 1_725, "mrpc", "MRPC", ("test.tsv", "msr_paraphrase_test.txt")),
    ServerFile("STS-B.tsv", 1_379, "sts-b", "STS-B", ("test.tsv", "test_unlabeled.tsv")),
    ServerFile("QQP.tsv", 390_965, "qqp", "QQP"),
    ServerFile("MNLI-m.tsv", 9_796, "mnli", "MNLI", ("test_matched.tsv",)),
    ServerFile("MNLI-mm.tsv", 9_847, "mnli", "MNLI", ("test_mismatched.tsv",)),
    ServerFile("AX.tsv", 1_104, "mnli", "diagnostic", ("diagnostic.tsv",)),
    ServerFile("QNLI.tsv", 5_463, "qnli", "QNLI"),
    ServerFile("RTE.tsv", 3_000, "rte", "RTE"),
    ServerFile("WNLI.tsv", 146, "wnli", "WNLI"),
)
"""Every file that the server asks for; MNLI's model predicts three."""


def write_server_files(runs: Mapping[str, str | Path], *, source: str | Path, output: str | Path) -> dict[str, int]:
    """Predict the test rows of tasks and write the files that the server takes.

    Args:
        runs: run or model folder of each task, by the name of its data set.
        source: folder with GLUE's files, unpacked.
        output: folder to write.

    Returns:
        Rows of each file written, by its name.

    Raises:
        ConfigError: for a name that is no task of GLUE, or a model that predicts something else.
        DataError: for test rows that are missing or broken.
    """
    tasks = dict.fromkeys(file.task for file in SERVER_FILES)
    if unknown := [name for name in runs if name not in tasks]:
        raise ConfigError(f"GLUE's server has no task {unknown[0]!r}: choose from {', '.join(tasks)}")
    predictors = {task: _predictor(task, run) for task, run in runs.items()}
    paths = {file: file.find(Path(source)) for file in SERVER_FILES if file.task in runs}
    folder = make_folder(output)
    written = {}
    for file, path in paths.items():
        labels: dict[str, str] = {}
        for index, label in _predictions(file.task, path, predictors[file.task]):
            if index in labels:
                raise DataError(f"{path}: two rows have the index {index!r}: {GET_AGAIN}")
            labels[index] = label
        if not labels:
            raise DataError(f"{path} has no rows: {GET_AGAIN}")
        lines = [f"{index}\t{label}" for index, label in labels.items()]
        replace_file(folder / file.name, "\n".join(["index\tprediction", *lines, ""]).encode())
        written[file.name] = len(lines)
    return written


def _predictor(task: str, run: str | Path) -> Predictor:
    predictor = Predictor.from_pretrained(run)
    card = find_card(task)
    assert isinstance(card.read, Glue)
    kind, classes = card.task["kind"], tuple(sorted(card.read.classes))
    found = predictor.task
    is_other = found.kind != kind or tuple(sorted(getattr(found, "classes", ()))) != classes
    if is_other or not {*card.texts} <= {*predictor.columns}:
        known = f"with the labels {', '.join(classes)}" if classes else "of numbers"
        known += f" that reads {' and '.join(card.texts)}"
        raise ConfigError(
            f"{run} is no run of {task}, a {kind} {known}: name one that was trained on the recipe that "
            f"`attribune data prepare {task}` writes"
        )
    return predictor


def _predictions(task: str, path: Path, predictor: Predictor) -> Iterator[tuple[str, str]]:
    """Yield the number of each test row and what the model predicts, as the server reads it."""
    card = find_card(task)
    assert isinstance(card.read, Glue)
    rows = _test_rows(card.read, path, texts=card.texts)
    while batch := list(islice(rows, _BATCH)):
        known = [{name: row[name] for name in predictor.columns if name in row} for _, row in batch]
        for (index, _), value in zip(batch, predictor.predict(known)["prediction"], strict=True):
            yield index, value if isinstance(value, str) else f"{min(max(value, 0.0), 5.0):.3f}"


def _test_rows(reader: Glue, path: Path, *, texts: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the number of each row, and its texts and attributes by our names."""
    log = RowLog(skip_bad=True)
    columns = {ours: theirs for ours, theirs in reader.columns.items() if ours != reader.label}
    rows = read_tsv(path, role="test", log=log, needs=[columns[text] for text in texts], layouts=())
    for number, (_, fields) in enumerate(rows):
        row = {ours: fields.get(theirs, "").strip() for ours, theirs in columns.items()}
        yield fields.get("index", fields.get("id", str(number))), row
    for reason, place in log.examples.items():
        raise DataError(f"{place}: {reason}: {GET_AGAIN}, since the server takes no file that lacks a row")
