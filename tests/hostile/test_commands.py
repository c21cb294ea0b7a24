"""Malformed input to every command that works with a trained run: one message, no traceback, the run as it was.

Each case has a class of fault. Tables go to every command that reads labelled rows, damaged runs to every command that
opens one, and settings to the command that has them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
from trained_runs import ROWS

from attribune.apps.cli import main

pytestmark = pytest.mark.slow

Fails = Callable[..., str]
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

# Settings: the class of fault, the words, the exit code, and a part of the message.
SETTINGS: list[tuple[str, str, int, str]] = [
    ("no run is there", "explain {folder}/none {good}", 1, "none"),
    ("no run is there", "report {folder}/none", 1, "none"),
    ("no run is there", "enrol {folder}/none {good}", 1, "none"),
    ("no run is there", "forget {folder}/none --attribute user --value u1", 1, "none"),
    ("no run is there", "export {folder}/none", 1, "none"),
    ("no run is there", "generate {folder}/none", 1, "none"),
    ("no run is there", "serve {folder}/none", 1, "none"),
    ("no run is there", "playground {folder}/none", 1, "none"),
    ("no run is there", "train {good} --continue {folder}/none --output {folder}/next", 1, "none"),
    ("a file in place of a run", "explain {good} {good}", 1, "data.csv"),
    ("a file in place of a run", "report {good}", 1, "data.csv"),
    ("a file in place of a run", "export {good}", 1, "data.csv"),
    ("a file in place of a run", "serve {good}", 1, "data.csv"),
    ("a folder with something else", "explain {folder} {good}", 1, "recipe.yaml"),
    ("a folder with something else", "enrol {folder} {good}", 1, "recipe.yaml"),
    ("a folder with something else", "playground {folder}", 1, "recipe.yaml"),
    ("a word is missing", "explain", 2, "RUN"),
    ("a word is missing", "report", 2, "RUN"),
    ("a word is missing", "serve", 2, "RUN"),
    ("a word is missing", "forget {run} --attribute user", 2, "--value"),
    ("a word is missing", "enrol {run}", 1, "name a table"),
    ("an option that is not there", "report {run} --pages 3", 2, "--pages"),
    ("an option that is not there", "doctor --fix", 2, "--fix"),
    ("a number that is none", "explain {run} {good} --row one", 2, "--row"),
    ("a number that is none", "serve {run} --port http", 2, "--port"),
    ("a number that is none", "playground {run} --port http", 2, "--port"),
    ("a number that is none", "enrol {run} {good} --prior much", 2, "--prior"),
    ("a number that is none", "generate {run} --n many", 2, "--n"),
    ("a number below its range", "explain {run} {good} --row 0", 1, "row"),
    ("a number below its range", "explain {run} {good} --row -3", 1, "row"),
    ("a number below its range", "explain {run} {good} --rare -1", 1, "rare"),
    ("a number below its range", "explain {run} {good} --top 0", 1, "0"),
    ("a number below its range", "enrol {run} {new} --steps 0", 1, "steps"),
    ("a number below its range", "enrol {run} {new} --min-rows 0", 1, "min_rows"),
    ("a number below its range", "enrol {run} {new} --prior -1", 1, "prior"),
    ("a number below its range", "serve {run} --port -1", 1, "--port"),
    ("a number below its range", "serve {run} --max-rows 0", 1, "max_rows"),
    ("a number below its range", "serve {run} --timeout 0", 1, "timeout"),
    ("a number below its range", "serve {run} --cache-mb -1", 1, "cache_mb"),
    ("a number below its range", "playground {run} --port -1", 1, "--port"),
    ("a number above its range", "explain {run} {good} --row 91", 1, "90 rows"),
    ("a number above its range", "serve {run} --port 65536", 1, "--port"),
    ("a number above its range", "playground {run} --port 70000", 1, "--port"),
    ("a number that is infinite or NaN", "enrol {run} {new} --prior nan", 1, "prior"),
    ("a number that is infinite or NaN", "enrol {run} {new} --prior inf", 1, "prior"),
    ("a number that is infinite or NaN", "serve {run} --timeout nan", 1, "timeout"),
    ("a number that is infinite or NaN", "serve {run} --cache-mb inf", 1, "cache_mb"),
    ("an attribute that is not there", "explain {run} {good} --row 1 --as nobody=u1", 1, "nobody"),
    ("an attribute that is not there", "enrol {run} {new} --attributes nobody", 1, "nobody"),
    ("an attribute that is not there", "forget {run} --attribute nobody --value u1", 1, "nobody"),
    ("an attribute that is not there", "export {run} --for nobody=u1 --output {folder}/out", 1, "nobody"),
    ("a value that is not there", "explain {run} {good} --row 1 --as user=stranger", 1, "stranger"),
    ("a value that is not there", "forget {run} --attribute user --value stranger", 1, "stranger"),
    ("a value that is not there", "export {run} --for user=stranger --output {folder}/out", 1, "stranger"),
    ("a value that is empty", "forget {run} --attribute user --value {nothing}", 1, "no value"),
    ("a value that is empty", "export {run} --for user= --output {folder}/out", 1, "user="),
    ("a value that is empty", "explain {run} {good} --row 1 --as user=", 1, "user="),
    ("a name without a value", "explain {run} {good} --row 1 --as user", 1, "user=u17"),
    ("a name without a value", "export {run} --for user --output {folder}/out", 1, "user=u17"),
    ("two values where one belongs", "export {run} --for user=u1 user=u2 --output {folder}/out", 1, "one value"),
    ("two values where one belongs", "explain {run} {good} --row 1 --as user=u1 user=u2", 1, "one value"),
    ("an option that needs another", "explain {run} {good} --as user=u1", 1, "--row"),
    ("options that exclude each other", "enrol {run} {new} --undo", 1, "--undo"),
    (
        "options that exclude each other",
        "train {good} --continue {run} --init-attributes {run} --output {folder}/n",
        1,
        "--continue",
    ),
    ("a choice that is not there", "export {run} --format pickle", 2, "--format"),
    ("a choice that is not there", "completion powershell", 2, "powershell"),
    ("a choice that is not there", "serve {run} --dtype int3", 1, "int3"),
    ("nothing to take back", "enrol {run} --undo", 1, "nothing to undo"),
    ("rows of known values alone", "enrol {run} {good}", 1, "no new value"),
    ("too few rows of each new value", "enrol {run} {new} --min-rows 1000", 1, "1000"),
    ("a run of another task", "generate {run}", 1, "writes no text"),
    ("a run without attributes", "explain {none} {good}", 1, "reads no attributes"),
    ("a run without attributes", "enrol {none} {new}", 1, "no vector"),
    (
        "a run without attributes",
        "train {good} --text text --label stars --output {folder}/n --init-attributes {none}",
        1,
        "attributes",
    ),
    ("an output that is there already", "export {run} --for user=u1 --output {run}", 1, "{run}"),
    ("an output that is there already", "train {good} --continue {run} --output {run}", 1, "{run}"),
    ("an output that cannot be written", "report {run} --output {folder}", 1, "cannot be written"),
    ("an output that cannot be written", "report {run} --output {good}/page.html", 1, "cannot be written"),
    ("an output that cannot be written", "explain {run} {good} --output {folder}/no/page.html", 1, "cannot be written"),
    ("an output that cannot be written", "export {run} --for user=u1 --output {good}/out", 1, "{good}"),
    ("two runs of one name", "serve {run} {run}", 1, "two runs"),
    ("a name without a run", "serve =x", 1, "NAME=FOLDER"),
    ("open to others without a key", "serve {run} --host 0.0.0.0", 1, "key"),
    ("an address that is none", "serve {run} --host not-an-address --port 0", 1, "not-an-address"),
    ("weights of another backbone", "explain {run} {good} --backbone {other}", 1, "other weights"),
    ("weights of another backbone", "serve {run} --port 0 --backbone {other}", 1, "other weights"),
    (
        "weights of another backbone",
        "export {run} --for user=u1 --output {folder}/out --backbone {other}",
        1,
        "other weights",
    ),
    ("weights of another backbone", "enrol {run} {new} --backbone {other}", 1, "other weights"),
    ("weights of another backbone", "playground {run} --port 0 --backbone {other}", 1, "other weights"),
    ("weights that are not there", "explain {run} {good} --backbone {folder}/gone", 1, "gone"),
    ("weights that are not there", "serve {run} --port 0 --backbone {folder}/gone", 1, "gone"),
    ("weights that are not there", "playground {run} --port 0 --backbone {folder}/gone", 1, "gone"),
    (
        "weights that are not there",
        "export {run} --for user=u1 --output {folder}/out --backbone {folder}/gone",
        1,
        "gone",
    ),
    ("an encoding that is not there", "explain {run} {good} --encoding martian", 1, "martian"),
    ("an encoding that is not there", "report {run} {good} --encoding martian --output {folder}/p.html", 1, "martian"),
    ("an encoding that is not there", "enrol {run} {new} --encoding martian", 1, "martian"),
    ("an encoding that does not fit", "explain {run} {accents} --encoding ascii", 1, "ascii"),
    ("an encoding that does not fit", "enrol {run} {accents} --encoding ascii", 1, "ascii"),
    ("a path with a zero byte", "explain {run} a\0b.csv", 1, "a"),
    ("a path with a zero byte", "report {run} a\0b.csv", 1, "a"),
]


Prepare = Callable[[Path, dict[str, str]], tuple[list[str], int, str]]


@dataclass(frozen=True)
class Case:
    """A class of fault, a command, and what makes its words, exit code and a part of the message.

    Attributes:
        is_next: whether it is the command's turn; of a fault that many commands meet, one meets it in each suite.
    """

    fault: str
    verb: str
    prepare: Prepare
    is_next: bool = True


def cases() -> Iterator[Case]:
    for number, (fault, (make, said)) in enumerate(TABLES.items()):
        verbs = [verb for verb in READERS if (fault, verb) not in READ_ALL_THE_SAME]
        for place, verb in enumerate(verbs):
            yield Case(fault, verb, _with_table(READERS[verb], make, said), place == number % len(verbs))
    openers = OPENERS | OTHER_OPENERS
    for number, (fault, (file, damage)) in enumerate(RUNS.items()):
        verbs = [verb for verb in openers if fault not in NOT_NEEDED.get(verb, set())]
        for place, verb in enumerate(verbs):
            yield Case(fault, verb, _with_damage(openers[verb], file, damage), place == number % len(verbs))
    for fault, line, code, said in SETTINGS:
        yield Case(fault, line.partition(" ")[0], _with_words(line, code, said))


def _with_table(words: tuple[str, ...], make: Make, said: str) -> Prepare:
    def prepare(folder: Path, names: dict[str, str]) -> tuple[list[str], int, str]:
        table = make(folder)
        return [word.format(**{**names, "table": table}) for word in words], 1, said

    return prepare


def _with_damage(words: tuple[str, ...], file: str, damage: Callable[[Path], Any]) -> Prepare:
    def prepare(folder: Path, names: dict[str, str]) -> tuple[list[str], int, str]:
        run = folder / "damaged"
        shutil.copytree(names["run"], run)
        damage(run / file)
        return [word.format(**{**names, "run": str(run)}) for word in words], 1, str(run)

    return prepare


def _with_words(line: str, code: int, said: str) -> Prepare:
    def prepare(folder: Path, names: dict[str, str]) -> tuple[list[str], int, str]:
        return [word.format(**names) for word in line.split(" ")], code, said.format(**names)

    return prepare


CASES = list(cases())


@pytest.fixture(scope="module")
def places(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths that the cases name."""
    folder = tmp_path_factory.mktemp("places")
    new = [{**row, "user": f"new{place % 3}"} for place, row in enumerate(ROWS[:12])]
    accents = [{**row, "user": "Zoë"} for row in ROWS[:12]]
    return {
        "run": str(runs / "injector"),
        "none": str(runs / "none"),
        "good": str(runs / "data.csv"),
        "new": str(small_runs.write_csv(folder / "new.csv", new)),
        "accents": str(small_runs.write_csv(folder / "accents.csv", accents)),
        "other": str(small_runs.save_backbone(folder / "other", seed=1)),
        "nothing": "",
    }


def digest(folder: Path) -> dict[str, str]:
    """What is in every file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 200
    assert len({case.fault for case in CASES}) >= 40
    assert {case.verb for case in CASES if case.is_next} >= {
        "explain", "report", "playground", "serve", "enrol", "forget", "export", "generate", "continue", "completion"
    }  # fmt: skip


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(
            case.prepare, id=f"{case.fault}: {case.verb}", marks=[] if case.is_next else pytest.mark.exhaustive
        )
        for case in CASES
    ],
)
def test_one_message_no_traceback_and_the_run_as_it_was(
    prepare: Prepare,
    fails: Fails,
    runs: Path,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("attribune.apps.serve.serve", _must_not_begin)
    monkeypatch.setattr("attribune.apps.playground.page.launch", _must_not_begin)
    monkeypatch.delenv("ATTRIBUNE_API_KEYS", raising=False)
    monkeypatch.chdir(tmp_path)
    words, code, said = prepare(tmp_path, {**places, "folder": str(tmp_path)})
    before = {path: digest(Path(path)) for path in (places["run"], places["none"], str(tmp_path))}
    message = fails(*words, code=code)
    assert said in message
    assert len(message.strip()) > 20
    for path, files in before.items():
        found = digest(Path(path))
        assert {name: found.get(name) for name in files} == files
    assert not (tmp_path / "next").exists() or not any((tmp_path / "next").iterdir())
    assert os.listdir(tmp_path).count("out") == 0


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
