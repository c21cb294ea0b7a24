"""Files of other types and sizes than ours: each is refused with one message or works; none raises or hangs.

``ATTRIBUNE_ATTACKS`` is the number of mutations of each file.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mutations
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_runs
import yaml
from attacks import NEW, verbs, write_experiment
from lab_methods import HAS_LAB
from trained_runs import TrainedRuns
from troubles import Limits

from attribune.apps.cli import main
from attribune.data import json_lines, table_files, tables
from attribune.data.tables import read_table
from attribune.errors import DataError

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("ATTRIBUNE_ATTACKS", "4"))
Words = Callable[[Path], list[object]]


def predict(run: str, *more: object) -> Words:
    return lambda base: ["predict", base / run, base / "new.csv", "--output", base / "out.jsonl", *more]


SEARCH: list[object] = [*verbs(Path())["search"]]  # in the folder itself, so that a copy goes on with it
# Each file with the commands that read it.
FILES: dict[str, list[Words]] = {
    "injector/model/config.json": [predict("injector")],
    "none/model/config.json": [predict("none")],
    "injector/model/schema.json": [predict("injector"), lambda base: ["describe", base / "injector"]],
    "linear/model/schema.json": [predict("linear")],
    "linear/model/linear.json": [predict("linear")],
    "injector/model/tokenizer_config.json": [predict("injector")],
    "injector/model/tokenizer.json": [predict("injector")],
    "injector/model/checksums.json": [predict("injector")],
    "injector/checksums.json": [
        predict("injector"),
        lambda base: ["forget", base / "injector", "--attribute", "user", "--value", "u3"],
    ],
    "injector/model/enrolments.json": [
        lambda base: ["enrol", base / "injector", "--undo"],
        lambda base: ["forget", base / "injector", "--attribute", "user", "--value", "u8"],
    ],
    "injector/metrics.json": [
        lambda base: ["describe", base / "injector"],
        lambda base: ["report", base / "injector"],
        lambda base: ["compare", base / "injector", base / "none"],
    ],
    "injector/log.jsonl": [lambda base: ["report", base / "injector"]],
    "injector/training.json": [predict("injector"), lambda base: _resumed(base)],
    "injector/rows.json": [lambda base: _resumed(base)],
    "injector/recipe.yaml": [predict("injector"), lambda base: ["describe", base / "injector"]],
    "parts/_manifest.json": [lambda base: _into_parts(base)],
    "parts/_summary.json": [lambda base: _into_parts(base)],
    "backbone/config.json": [predict("injector", "--backbone", "backbone")],
    "new/search.json": [lambda base: SEARCH],
    "new/trials/0000/values.json": [lambda base: _tried_again(base)],
    "new/trials/0000/result.json": [lambda base: SEARCH],
}
if HAS_LAB:
    FILES |= {
        "cells/cells/reviews/none/0/cell.json": [
            lambda base: ["benchmark", "table", base / "cells"],
            lambda base: ["benchmark", "status", base / "cells"],
        ],
        "cells/cells/reviews/none/0/metrics.json": [lambda base: ["benchmark", "report", base / "cells"]],
        "cells/experiment.yaml": [lambda base: ["benchmark", "table", base / "cells"]],
    }
SEARCHED: dict[str, list[Words]] = {
    "automl/model/automl.json": [predict("automl")],
    "automl/trials/0000/values.json": [lambda base: _searched_again(base, "0000")],
    "automl/trials/0000/result.json": [lambda base: _searched_again(base, "0001")],
}


def _resumed(base: Path) -> list[object]:
    (base / "injector" / "metrics.json").unlink(missing_ok=True)
    return ["train", "--config", base / "injector/recipe.yaml", "--output", base / "injector", "--resume"]


def _searched_again(base: Path, trial: str) -> list[object]:
    for file in ("metrics.json", "training.json", f"trials/{trial}/result.json"):
        (base / "automl" / file).unlink()
    return ["train", "--config", base / "automl/recipe.yaml", "--output", base / "automl", "--resume"]


def _into_parts(base: Path) -> list[object]:
    return ["predict", base / "injector", base / "new.csv", "--output", base / "parts"]


def _tried_again(base: Path) -> list[object]:
    (base / "new/trials/0000/result.json").unlink()
    return SEARCH


@pytest.fixture(scope="module")
def base(runs: Path, trained_runs: TrainedRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs, with values added to one of them, predictions in parts, a benchmark and a search."""
    folder = tmp_path_factory.mktemp("mutated")
    shutil.copytree(runs, folder, dirs_exist_ok=True)
    trained_runs.copy(trained_runs.backbone(), folder / "backbone")
    small_runs.write_csv(folder / "new.csv", NEW)
    assert main(["enrol", str(folder / "injector"), str(folder / "new.csv")]) == 0
    assert main([str(word) for word in _into_parts(folder)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if HAS_LAB:
            import finished_benchmarks

            write_experiment(folder, folder / "experiment.yaml")
            patch.setattr(finished_benchmarks.PROCESSES, finished_benchmarks.CellsHere)
            assert main(verbs(folder)["benchmark"]) == 0
        assert main([str(word) for word in SEARCH]) == 0
    return folder


def _tree(path: Path) -> Any:
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "some", [slice(1), pytest.param(slice(1, None), marks=pytest.mark.exhaustive)], ids=["one mutation", "more of them"]
)
@pytest.mark.parametrize("file", FILES)
def test_files_with_values_of_other_types(
    file: str, some: slice, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _try_mutations(file, FILES[file], some, base, tmp_path / "work", monkeypatch)


@pytest.mark.exhaustive
@pytest.mark.parametrize("file", SEARCHED)
def test_files_of_a_searched_baseline_with_values_of_other_types(
    file: str, base: Path, trained_runs: TrainedRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(base, tmp_path / "searched"))
    trained_runs.copy(trained_runs("automl", "--no-baselines"), folder / "automl")
    _try_mutations(file, SEARCHED[file], slice(None), folder, tmp_path / "work", monkeypatch)


def _try_mutations(
    file: str, commands: list[Words], some: slice, base: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Try each command on copies of a folder in which one file has a mutation, for some of the mutations."""
    attempts, chosen = mutations.Attempts(), mutations.sampled(_tree(base / file), COUNT)[some]
    for mutation in chosen:
        for words in commands:
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(base, work)
            monkeypatch.chdir(work)
            if "checksums" not in file and "parts" not in file:  # as folders of early releases, without checksums
                for path in work.rglob("checksums.json"):
                    path.unlink()
            command = words(work)
            mutations.write_tree(work / file, mutation.tree)
            attempts.command(f"{command[0]} {file}: {mutation.place}", *command)
    attempts.check()
    assert attempts.counts["tried"] == len(chosen) * len(commands)


def refused(name: str, *words: object) -> str:
    """The message of a command that is refused in little time and memory."""
    attempts = mutations.Attempts()
    message = attempts.command(name, *words)
    attempts.check()
    assert attempts.counts["refused"] == 1, message
    return message


SETTINGS = {
    "a date": "x: 2020-99-99\n",
    "lists in lists": "[" * 10_000 + "]" * 10_000,
    "digits": f"a: {'9' * 5000}\n",
    "hexadecimal digits": f"a: 0x{'f' * 9000}\n",
    "aliases": "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)),
    "itself": "a: &a [*a]\n",
    "a list as a key": "? [1]\n: 2\n",
    "an object": "!!python/object:os.system x\n",
    "half a pair": 'data: {train: "\\ud800", text: t, label: l}\n',
    "bytes": "a: !!binary '%'\n",
    "a time zone": "a: 2020-01-01T00:00:00+99:99\n",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SETTINGS)
def test_recipes_that_are_no_settings(name: str, base: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(SETTINGS[name])
    assert "recipe" in refused(name, "train", base / "data.csv", "--config", recipe, "--output", tmp_path / "r")


LARGE = (10**9, 10**12, 2**63, 10**30)
SIZES = [
    *(f"{name}={size}" for name in ("method.vector_size", "method.bottleneck", "task.classes") for size in LARGE),
    *(f"training.{name}={2**63}" for name in ("batch_size", "seed", "gradient_accumulation")),
    *("training.batch_size=0", "training.learning_rate=1.0e+38", "training.backbone_learning_rate=1.0e+300"),
]


@pytest.mark.parametrize("setting", SIZES)
def test_sizes_that_cannot_be_are_refused_before_anything_is_allocated(
    setting: str, base: Path, tmp_path: Path
) -> None:
    words = small_runs.train_command(base / "data.csv", tmp_path / "run", backbone=base / "backbone")
    message = refused(setting, *words, setting)
    assert setting.partition("=")[0].rpartition(".")[2] in message or "memory" in message


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_hidden_layers", "num_labels", "type_vocab_size"])
@pytest.mark.parametrize("size", [10**9, 10**30])
def test_a_foreign_configuration_of_any_size_is_refused(key: str, size: int, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base / "none", tmp_path / "none")
    (tmp_path / "none/model/checksums.json").unlink()
    path = tmp_path / "none/model/config.json"
    tree = _tree(path)
    tree["text_config"][key] = size
    mutations.write_tree(path, tree)
    refused(key, "predict", tmp_path / "none", base / "new.csv", "--output", tmp_path / "out.csv")


def test_memory_that_runs_out_is_said(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: object, **__: object) -> int:
        raise MemoryError

    monkeypatch.setattr("attribune.prediction.predict.predict", greedy)
    assert "there is not enough memory" in refused("predict", *predict("injector")(base))


@pytest.mark.parametrize(
    "encoding", ["hex", "rot13", "idna", "punycode", "zlib", "undefined", "a\0b", "unicode_escape"]
)
def test_codecs_that_are_not_of_text_files(encoding: str, base: Path) -> None:
    assert "encoding" in refused(encoding, *predict("injector", "--encoding", encoding)(base))


def _odd_tables() -> Iterator[tuple[str, pa.Table]]:
    far = (50_000 - 1970) * 365 * 86_400
    kinds = {
        "year 50,000": pa.array([far] * 3, pa.int64()).cast(pa.timestamp("s")),
        "year 300,000": pa.array([6 * far] * 3, pa.int64()).cast(pa.timestamp("s", "UTC")),
        "no such zone": pa.array([0] * 3, pa.int64()).cast(pa.timestamp("us", "Mars/Olympus")),
        "date": pa.array([2**30] * 3, pa.int32()).cast(pa.date32()),
        "duration": pa.array([2**62] * 3, pa.int64()).cast(pa.duration("s")),
        "map": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"a": 1}] * 3),
        "bytes": pa.array([b"\xff"] * 3),
        "view": pa.array(["a"] * 3, pa.string_view()),
    }
    for name, column in kinds.items():
        yield f"{name} as text", pa.table({"text": column, "user": ["u1"] * 3})
        yield f"{name} as user", pa.table({"text": ["a"] * 3, "user": column})
        yield f"{name} beside", pa.table({"text": ["a"] * 3, "user": ["u1"] * 3, "more": column})


@pytest.mark.exhaustive
@pytest.mark.parametrize("turn", range(3))
def test_parquet_columns_of_every_type(turn: int, base: Path, tmp_path: Path) -> None:
    """Each of the three tables of a type is written in one format, and in another one in the next turn."""
    attempts, outputs = mutations.Attempts(), [tmp_path / f"out.{ending}" for ending in ("csv", "jsonl", "parquet")]
    for number, (name, table) in enumerate(_odd_tables()):
        pq.write_table(table, tmp_path / "t.parquet")
        output = outputs[(number + number // 3 + turn) % 3]
        attempts.command(name, "predict", base / "injector", tmp_path / "t.parquet", "--output", output)
    attempts.check()
    assert set(tmp_path.iterdir()) <= {tmp_path / "t.parquet", *outputs}  # no draft is left


@pytest.mark.exhaustive
def test_parquet_with_flipped_bits(base: Path, tmp_path: Path) -> None:
    path, attempts = tmp_path / "t.parquet", mutations.Attempts()
    pq.write_table(pa.table({"text": ["a", "b"], "user": ["u1", "u2"], "n": [1, 2]}), path)
    content = path.read_bytes()
    for number in range(8 * COUNT):
        path.write_bytes(mutations.flipped(content, seed=number))
        attempts.command(f"flip {number}", "predict", base / "injector", path, "--output", tmp_path / "out.jsonl")
    attempts.check()


LINES = {
    "half a pair as a key": '{"text": "a", "user": "b", "\\ud800": 1}',
    "half a pair as a value": '{"text": "a\\ud800", "user": "b"}',
    "half a pair deeper": '{"text": "a", "user": {"\\ud800": 1}}',
    "digits": f'{{"text": "a", "user": {"9" * 5000}}}',
    "lists in lists": f'{{"text": "a", "user": {"[" * 100_000}{"]" * 100_000}}}',
    "no name": '{"text": "a", "user": "b", "": 1}',
}


def test_json_lines_that_no_table_can_hold(base: Path, tmp_path: Path) -> None:
    for name, line in LINES.items():
        (tmp_path / "t.jsonl").write_text(line + "\n")
        refused(name, "predict", base / "injector", tmp_path / "t.jsonl", "--output", tmp_path / "o.csv")


def test_names_that_are_not_utf_8(base: Path, tmp_path: Path) -> None:
    attempts, name = mutations.Attempts(), os.fsdecode(b"\xff.csv")
    shutil.copy(base / "new.csv", tmp_path / name)
    for output in (os.fsdecode(b"out\xff.jsonl"), os.fsdecode(b"out\xff"), "parts"):
        attempts.command(ascii(output), "predict", base / "injector", tmp_path / name, "--output", tmp_path / output)
    attempts.check()


def test_columns_named_twice_or_for_two_uses(base: Path, tmp_path: Path) -> None:
    words = small_runs.train_command(base / "data.csv", tmp_path / "run", backbone=base / "backbone")
    assert "named twice" in refused("a text twice", *words, "--text", "text")
    attempts = mutations.Attempts()
    attempts.command("the text as an attribute", *words, "--attributes", "text")
    attempts.check()


@pytest.mark.parametrize("prior", ["1e300", "1e38", "inf", "nan", "-1"])
def test_priors_that_cannot_be(prior: str, base: Path) -> None:
    assert "prior is" in refused(prior, "enrol", base / "injector", base / "data.csv", f"--prior={prior}")


@pytest.mark.parametrize("link", ["hard", "symbolic", "proc"])
def test_an_output_that_is_the_input_by_another_path(
    link: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(shutil.copy(base / "new.csv", tmp_path / "in.csv"))
    monkeypatch.chdir(tmp_path)
    output = Path("/proc/self/cwd/in.csv") if link == "proc" else tmp_path / "out.csv"
    if link == "hard":
        os.link(source, output)
    elif link == "symbolic":
        output.symlink_to(source)
    before = source.read_bytes()
    for verb in ("predict", "explain", "report"):
        assert "is the table that is read" in refused(verb, verb, base / "injector", source, "--output", output)
    assert source.read_bytes() == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("output", ["parts", "out.parquet", "out.jsonl"])
def test_a_disk_that_fills_while_predicting(output: str, base: Path, tmp_path: Path) -> None:
    words = ["predict", str(base / "injector"), str(base / "data.csv"), "--output", str(tmp_path / "to" / output)]
    (tmp_path / "to").mkdir()
    command = small_runs.Command(words, log=tmp_path / "log", trouble=Limits(file_size=1_000))
    assert command.wait() == 1
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log
    assert log.count("error: ") == 1
    assert not [path for path in (tmp_path / "to").rglob("*") if path.name.endswith((".tmp", ".parquet", ".jsonl"))]


@pytest.mark.parametrize(
    ("name", "before", "after", "module", "read", "at"),
    [
        ("t.csv", "a\nb\n", "a\nb\xff\n", table_files, "csv_batches", 1),
        ("t.jsonl", '{"a": 1}\n', '{"b": 1}\n', json_lines, "json_objects", 2),
        ("t.jsonl", '{"a": 1}\n', '{"a": "x"}\n', json_lines, "json_objects", 2),
    ],
)
def test_a_table_that_changes_while_it_is_read(
    name: str, before: str, after: str, module: Any, read: str, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At one of its readings, before the first row of it."""
    path, reader, readings = tmp_path / name, getattr(module, read), itertools.count(1)
    path.write_text(before)

    def changed(*args: Any, **options: Any) -> Any:
        rows = reader(*args, **options)
        if next(readings) == at:
            path.write_bytes(after.encode("latin-1"))
        return rows

    monkeypatch.setattr(module, read, changed)
    with pytest.raises(DataError, match="changed while it was read"):
        read_table(path, encoding="utf-8")


def test_a_cut_temporary_file_is_noticed(tmp_path: Path) -> None:
    rows = small_runs.write_csv(tmp_path / "t.csv", small_runs.reviews(200))
    table = read_table(rows, cache_dir=tmp_path, in_memory=10)
    tables.check_stored(table)
    os.truncate(table.cache_files[0]["filename"], 100)
    with pytest.raises(DataError, match="was changed by another program"):
        tables.check_stored(table)
