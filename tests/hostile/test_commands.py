"""Malformed input to every command that works with a trained run: one message, no traceback, the run as it was.

Each case has a class of fault. Tables go to every command that reads labelled rows, damaged runs to every command that
opens one, and settings to the command that has them.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
from commands import Fails
from trained_runs import ROWS, TrainedRuns

from attribune.apps.cli import main

pytestmark = pytest.mark.slow

Make = Callable[[Path], str]


def text(content: str | bytes, name: str = "t.csv") -> Make:
    """A file with some content."""

    def make(folder: Path) -> str:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(folder / name)

    return make


def rows(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Make:
    """The good table with every row changed."""

    def make(folder: Path) -> str:
        return str(small_runs.write_csv(folder / "t.csv", [change(dict(row)) for row in ROWS]))

    return make


def without(column: str) -> Make:
    return rows(lambda row: {name: value for name, value in row.items() if name != column})


def parquet(columns: dict[str, Any], *, end: int | None = None) -> Make:
    def make(folder: Path) -> str:
        pq.write_table(pa.table(columns), folder / "whole.parquet")
        whole = (folder / "whole.parquet").read_bytes()
        (folder / "t.parquet").write_bytes(whole[:end])
        return str(folder / "t.parquet")

    return make


def made(do: Callable[[Path], Any], name: str = "t.csv") -> Make:
    def make(folder: Path) -> str:
        do(folder / name)
        return str(folder / name)

    return make


GOOD = "text,stars,user\ngreat film,good,u1\ndull film,bad,u2\n"
LINES = [json.dumps({"text": "a film", "stars": "good", "user": "u1"})] * 3

# What a table can be, and a part of the message.
TABLES: dict[str, tuple[Make, str]] = {
    "no such file": (made(lambda path: None), "t.csv"),
    "a folder in place of a file": (made(Path.mkdir), "t.csv"),
    "an empty file": (text(""), "t.csv"),
    "only a header": (text("text,stars,user\n"), "t.csv"),
    "only blank lines": (text("\n\n\n"), "t.csv"),
    "no text column": (without("text"), "'text'"),
    "no label column": (without("stars"), "'stars'"),
    "no attribute column": (without("user"), "'user'"),
    "every text empty": (rows(lambda row: {**row, "text": "  "}), "has both a text"),
    "every label empty": (rows(lambda row: {**row, "stars": ""}), "has both a text"),
    "noise in place of a table": (text(bytes(range(256)) * 4), "t.csv"),
    "noise in place of Parquet": (text(b"PAR1" + bytes(range(256)), "t.parquet"), "t.parquet"),
    "truncated Parquet": (parquet({"text": ["a"] * 50, "stars": ["good"] * 50}, end=120), "t.parquet"),
    "a table under another format's name": (text(GOOD, "t.parquet"), "t.parquet"),
    "compressed and cut": (text(gzip.compress(GOOD.encode() * 50)[:60], "t.csv.gz"), "t.csv.gz"),
    "broken JSON": (text("\n".join([*LINES, '{"text": "a']), "t.jsonl"), "t.jsonl"),
    "numbers in place of JSON objects": (text("1\n2\n3\n", "t.jsonl"), "t.jsonl"),
    "a list in a text cell": (text('{"text": ["a"], "stars": "good", "user": "u1"}\n', "t.jsonl"), "text"),
    "a row with a cell too many": (text(GOOD + "a,b,c,d\n"), "t.csv"),
    "a row with a cell too few": (text(GOOD + "a\n"), "t.csv"),
    "a quote that is never closed": (text(GOOD + '"a,good,u1\n' * 3), "t.csv"),
    "a column twice": (text("text,stars,user,user\na,good,u1,u2\n"), "user"),
    "bytes of no encoding": (text(GOOD.encode() + b"\xff\xfe\xfa,good,u1\n"), "t.csv"),
    "an ending of no format": (text(GOOD, "t.docx"), "t.docx"),
    "a link that goes in circles": (made(lambda path: path.symlink_to(path)), "t.csv"),
}
READERS = {
    "explain": ("explain", "{run}", "{table}"),
    "report": ("report", "{run}", "{table}", "--output", "{folder}/page.html"),
    "enrol": ("enrol", "{run}", "{table}"),
    "continue": ("train", "{table}", "--continue", "{run}", "--output", "{folder}/next"),
}
# Bytes that another reader takes for a text: they are read with a note, which is right for a table.
READ_ALL_THE_SAME = {("bytes of no encoding", verb) for verb in READERS}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replaced(content: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(content)


# What can be wrong with a run: the file, and what happens to it.
RUNS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a run without its recipe": ("recipe.yaml", Path.unlink),
    "a recipe cut short": ("recipe.yaml", cut),
    "a recipe of noise": ("recipe.yaml", replaced(b"\xff\xfe\x00")),
    "a recipe of another program": ("recipe.yaml", replaced(b"a: 1\n")),
    "a model that is gone": ("model", shutil.rmtree),
    "a configuration cut short": ("model/config.json", cut),
    "a configuration of another kind": ("model/config.json", replaced(b"[1]")),
    "a schema cut short": ("model/schema.json", cut),
    "a schema of another kind": ("model/schema.json", replaced(b'{"a": 1}')),
    "tensors cut short": ("model/model.safetensors", cut),
    "tensors of noise": ("model/model.safetensors", replaced(b"\x00" * 64)),
    "a tokenizer of noise": ("model/tokenizer.json", replaced(b"\xff\x00")),
    "a training that was interrupted": ("training.json", Path.unlink),
}
OPENERS = {
    "explain": ("explain", "{run}", "{good}"),
    "enrol": ("enrol", "{run}", "{good}"),
    "export": ("export", "{run}", "--for", "user=u1", "--output", "{folder}/out"),
    "serve": ("serve", "{run}", "--port", "0"),
    "playground": ("playground", "{run}", "--port", "0"),
    "continue": ("train", "{good}", "--continue", "{run}", "--output", "{folder}/next"),
}
# Forgetting, and the page, do not need every file.
OTHER_OPENERS = {
    "forget": ("forget", "{run}", "--attribute", "user", "--value", "u1"),
    "report": ("report", "{run}", "--output", "{folder}/page.html"),
}
NOT_NEEDED = {
    "forget": {"a tokenizer of noise"},
    "report": {
        "a configuration cut short",
        "a configuration of another kind",
        "a tokenizer of noise",
        "tensors cut short",
        "tensors of noise",
        "a training that was interrupted",
    },
    "continue": {"a tokenizer of noise", "a training that was interrupted"},  # the model is whole
}

# Words that cannot be, and what is said of them.
SETTINGS = {
    "explain {good} {good}": "data.csv",
    "report {good}": "data.csv",
    "export {good}": "data.csv",
    "serve {good}": "data.csv",
    "explain {folder} {good}": "recipe.yaml",
    "enrol {folder} {good}": "recipe.yaml",
    "playground {folder}": "recipe.yaml",
    "explain {run} {good} --row 0": "row is 0: give at least 1",
    "explain {run} {good} --row -3": "row",
    "explain {run} {good} --rare 0": "rare is 0",
    "explain {run} {good} --rare -1": "rare",
    "explain {run} {good} --top 0": "0",
    "enrol {run} {new} --steps 0": "steps is 0: give at least 1",
    "enrol {run} {new} --min-rows 0": "min_rows is 0: give at least 1",
    "serve {run} --timeout 0": "timeout",
    "playground {run} --port -1": "--port",
    "explain {run} {good} --row 91": "data.csv has 90 rows, so there is no row 91",
    "serve {run} --port 65536": "--port",
    "playground {run} --port 70000": "--port",
    "explain {run} {good} --row 1 --as nobody=u1": "nobody",
    "enrol {run} {new} --attributes nobody": "the schema has no attribute 'nobody'",
    "enrol {priced} {new} --attributes price": "attribute 'price' is of the kind numeric",
    "forget {run} --attribute nobody --value u1": "the schema has no attribute 'nobody'",
    "forget {priced} --attribute price --value 3": "attribute 'price' is of the kind numeric",
    "export {run} --for nobody=u1 --output {folder}/out": "nobody",
    "next {run} {good} --for nobody=new": "the schema has no attribute 'nobody'",
    "explain {run} {good} --row 1 --as user=stranger": "stranger",
    "explain {run} {good} --row 1 --as user=u11": "attribute 'user' has no value 'u11' in training; did you mean 'u1'?",
    "forget {run} --attribute user --value stranger": "stranger",
    "forget {run} --attribute user --value u33": "attribute 'user' has no value 'u33'; did you mean 'u3'?",
    "export {run} --for user=stranger --output {folder}/out": "stranger",
    "forget {run} --attribute user --value {nothing}": "'' means that there is no value",
    "export {run} --for user= --output {folder}/out": "user=",
    "explain {run} {good} --row 1 --as user=": "user=",
    "next {run} {good} --for user=NA": "'NA' means that there is no value of 'user'",
    "explain {run} {good} --row 1 --as user": "user=u17",
    "export {run} --for user --output {folder}/out": "user=u17",
    "next {run} {good} --for user": "does not name a value",
    "export {run} --for user=u1 user=u2 --output {folder}/out": "one value",
    "explain {run} {good} --row 1 --as user=u1 user=u2": "one value",
    "explain {run} {good} --as user=u1": "other values (--as) need a row: choose one with --row",
    "enrol {run} --undo --steps 3": "--undo removes the values that were added last",
    "train {good} --continue {run} --init-attributes {run} --output {folder}/n": "--continue",
    "enrol {run} --undo": "there is nothing to undo",
    "enrol {run} {good}": "its 90 rows with labels have no new value",
    "enrol {priced} {dear}": "'dear' is not a finite number",
    "enrol {run} {new} --min-rows 1000": "no new value with 1000 rows (3 have fewer)",
    "generate {run}": "writes no text",
    "explain {none} {good}": "method 'none' of {none} reads no attributes",
    "enrol {none} {new}": "method 'none' has no vector for each value",
    "enrol {linear} {new}": "method 'linear' has no vector for each value",
    "next {none} {good} --for user=new": "this one reads none",
    "next {linear} {good} --for user=new": (
        "no vector for each value of 'user' that could be learned: train with a method that has"
    ),
    "train {good} --text text --label stars --output {folder}/n --init-attributes {none}": "attributes",
    "export {run} --for user=u1 --output {run}": "{run}",
    "train {good} --continue {run} --output {run}": "{run}",
    "predict {none} {good} --output p.xls": "the ending '.xls' is not one of .csv",
    "predict {none} {good} --output {nothing}": "the ending '' is not one of",
    "predict {none} {good} --output nowhere/p.csv": "cannot be written: there is no folder nowhere",
    "predict {none} {good} --output {good}/p.csv": "cannot be written: there is no folder {good}",
    "predict {none} {good} --output {directory}": "cannot be written (Is a directory)",
    "report {run} --output {folder}": "cannot be written",
    "report {run} --output {good}/page.html": "cannot be written",
    "export {run} --for user=u1 --output {good}/out": "{good}",
    "serve {run} --host not-an-address --port 0": "not-an-address",
    "explain {run} {good} --backbone {other}": "other weights",
    "serve {run} --port 0 --backbone {other}": "other weights",
    "export {run} --for user=u1 --output {folder}/out --backbone {other}": "other weights",
    "enrol {run} {new} --backbone {other}": "other weights",
    "playground {run} --port 0 --backbone {other}": "other weights",
    "explain {run} {good} --backbone {folder}/gone": "gone",
    "serve {run} --port 0 --backbone {folder}/gone": "gone",
    "playground {run} --port 0 --backbone {folder}/gone": "gone",
    "export {run} --for user=u1 --output {folder}/out --backbone {folder}/gone": "gone",
    "explain {run} {good} --encoding martian": "martian",
    "report {run} {good} --encoding martian --output {folder}/p.html": "martian",
    "enrol {run} {new} --encoding martian": "martian",
    "explain {run} {accents} --encoding ascii": "ascii",
    "enrol {run} {accents} --encoding ascii": "ascii",
    "explain {run} a\0b.csv": "a",
    "report {run} a\0b.csv": "a",
}
USAGE = {
    "explain": "RUN",
    "report": "RUN",
    "serve": "RUN",
    "forget {run} --attribute user": "--value",
    "report {run} --pages 3": "--pages",
    "doctor --fix": "--fix",
    "explain {run} {good} --row one": "--row",
    "serve {run} --port http": "--port",
    "playground {run} --port http": "--port",
    "enrol {run} {good} --prior much": "--prior",
    "generate {run} --n many": "--n",
    "export {run} --format pickle": "--format",
    "completion powershell": "powershell",
}


@dataclass(frozen=True)
class Case:
    """A command that must fail.

    Attributes:
        said: a part of the message.
        prepare: makes what is wrong in a folder; gives the paths to it that the words name.
        is_next: whether it is the command's turn; of a fault that many commands meet, one meets it in each suite.
    """

    name: str
    words: Sequence[str]
    said: str
    code: int = 1
    prepare: Callable[[Path, dict[str, str]], dict[str, str]] = lambda folder, names: {}
    is_next: bool = True


def cases() -> Iterator[Case]:
    for number, (fault, (make, said)) in enumerate(TABLES.items()):
        verbs = [verb for verb in READERS if (fault, verb) not in READ_ALL_THE_SAME]
        for place, verb in enumerate(verbs):
            is_next = place == number % len(verbs)
            yield Case(f"{fault}: {verb}", READERS[verb], said, prepare=_table(make), is_next=is_next)
    openers = OPENERS | OTHER_OPENERS
    for number, (fault, (file, damage)) in enumerate(RUNS.items()):
        verbs = [verb for verb in openers if fault not in NOT_NEEDED.get(verb, set())]
        for place, verb in enumerate(verbs):
            is_next = place == number % len(verbs)
            yield Case(f"{fault}: {verb}", openers[verb], "{run}", prepare=_damaged(file, damage), is_next=is_next)
    for code, lines in ((1, SETTINGS), (2, USAGE)):
        for line, said in lines.items():
            yield Case(line, line.split(" "), said, code)


def _table(make: Make) -> Callable[[Path, dict[str, str]], dict[str, str]]:
    return lambda folder, names: {"table": make(folder)}


def _damaged(file: str, damage: Callable[[Path], Any]) -> Callable[[Path, dict[str, str]], dict[str, str]]:
    def prepare(folder: Path, names: dict[str, str]) -> dict[str, str]:
        run = Path(shutil.copytree(names["run"], folder / "damaged"))
        damage(run / file)
        return {"run": str(run)}

    return prepare


CASES = list(cases())


@pytest.fixture(scope="module")
def places(runs: Path, trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths that the cases name."""
    folder = tmp_path_factory.mktemp("places")
    new = [{**row, "user": f"new{place % 3}"} for place, row in enumerate(ROWS[:12])]
    directory = folder / "folder.csv"
    directory.mkdir()
    accents = [{**row, "user": "Zoë"} for row in ROWS[:12]]
    return {
        "run": str(runs / "injector"),
        "none": str(runs / "none"),
        "linear": str(runs / "linear"),
        "priced": str(trained_runs("injector", "--numeric", "price", "--no-baselines")),
        "good": str(runs / "data.csv"),
        "new": str(small_runs.write_csv(folder / "new.csv", new)),
        "dear": str(small_runs.write_csv(folder / "dear.csv", [{**row, "price": "dear"} for row in new])),
        "accents": str(small_runs.write_csv(folder / "accents.csv", accents)),
        "other": str(small_runs.save_backbone(folder / "other", seed=1)),
        "nothing": "",
        "directory": str(directory),
    }


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 240
    assert {case.words[0] for case in CASES if case.is_next} >= {
        "explain", "report", "playground", "serve", "enrol", "forget", "export", "generate", "train", "completion"
    }  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[] if case.is_next else pytest.mark.exhaustive) for case in CASES],
)
def test_one_message_no_traceback_and_the_run_as_it_was(
    case: Case, fails: Fails, places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attribune.apps.serve.server.Server.run", _must_not_begin)
    monkeypatch.setattr("attribune.apps.playground.page.launch", _must_not_begin)
    monkeypatch.delenv("ATTRIBUNE_API_KEYS", raising=False)
    monkeypatch.chdir(tmp_path)
    names = {**places, "folder": str(tmp_path)}
    names |= case.prepare(tmp_path, names)
    watched = [tmp_path, *(Path(places[name]) for name in ("run", "none", "linear", "priced", "directory"))]
    before = {path: small_runs.file_bytes(path) for path in watched}
    message = fails(*(word.format(**names) for word in case.words), code=case.code)
    assert case.said.format(**names) in message
    assert len(message.strip()) > 20
    assert {path: small_runs.file_bytes(path) for path in watched} == before
    assert not (tmp_path / "out").exists()


def _must_not_begin(*_: object, **__: object) -> None:
    raise AssertionError("it was let in")


@pytest.mark.exhaustive
def test_the_cases_would_pass_with_good_input(places: dict[str, str], tmp_path: Path) -> None:
    """The words themselves are right: with a good table and a whole run they do what they say."""
    run = tmp_path / "run"
    shutil.copytree(places["run"], run)
    names = {**places, "run": str(run), "folder": str(tmp_path), "table": places["good"]}
    for words in (READERS["explain"], READERS["report"], OPENERS["export"], OTHER_OPENERS["forget"]):
        assert main([word.format(**names) for word in words]) == 0
