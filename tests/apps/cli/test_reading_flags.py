"""The flags that say how tables are read: the same for all verbs, and repeated by the command that `check` prints."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_runs
from commands import Outcome
from trained_runs import TrainedRuns

from attribune import check, read_table
from attribune.apps.cli import build_parser
from attribune.apps.cli.arguments import add_reading, reading_of, table_of
from attribune.apps.cli.recipe_flags import recipe_of
from attribune.data.file_options import FileOptions, Reading
from attribune.data.tables import TableFile
from attribune.errors import ConfigError
from attribune.runs.recipe import ValuesRecipe
from attribune.values.reading import read_value_table

Run = Callable[..., Outcome]
FLAGS = ["--encoding", "--delimiter", "--quoting", "--decimal", "--columns", "--file-format", "--rows"]
VERBS = (
    *("check", "train", "search", "predict", "evaluate", "explain", "ablate", "report", "enrol", "generate"),
    *("next", "export", "data distributions", "data judgements"),
)


def parsed(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_reading(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_that_reads_a_table_has_the_flags(verb: str, attribune: Run) -> None:
    shown = attribune(*verb.split(), "--help")[1]
    assert [flag for flag in FLAGS if f"  {flag} " not in shown] == []


def test_arguments_flags_and_options_have_the_same_names() -> None:
    assert list(FileOptions.flags()) == FLAGS
    assert [f"--{name.replace('_', '-')}" for name in Reading.__annotations__] == FLAGS


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoding": "cp1252", "delimiter": ";", "quoting": False, "decimal": ",", "file_format": "csv", "rows": 9},
        {"delimiter": "tab", "quoting": True, "columns": ["a", "b"]},
        {"delimiter": "-", "columns": ["-a", "b c", "--text"]},
        {"columns": ["b", "-a", "'", "é"]},
    ],
)
def test_the_words_of_options_give_the_same_options(options: dict[str, Any]) -> None:
    wanted = FileOptions(**options)
    words = [f"{flag}={value}" for flag, values in wanted.words().items() for value in values]
    assert reading_of(parsed(words)) == wanted
    assert FileOptions(**wanted.given()) == FileOptions.of(wanted) == wanted


def test_a_tab_is_printed_as_a_word() -> None:
    assert FileOptions(delimiter="\t").words() == FileOptions(delimiter="\\t").words() == {"--delimiter": ["tab"]}


@pytest.mark.parametrize("word", [name for name in FLAGS if name not in ("--quoting", "--decimal", "--rows")])
def test_flags_without_a_table_are_refused(word: str) -> None:
    given = parsed([word, "csv" if word == "--file-format" else ";"])
    given.data = given.check = None
    with pytest.raises(ConfigError, match=f"{word} says how a table is read, and there is none: add DATA, or leave"):
        table_of(given)
    with pytest.raises(ConfigError, match="add --check, or"):
        table_of(given, "check")
    given = parsed([])
    given.data = None
    assert table_of(given) is None


def test_another_table_shares_what_text_is_written_in() -> None:
    written = {"encoding": "cp1252", "delimiter": "~", "quoting": False, "decimal": ","}
    rows = FileOptions(**written, columns=["a"], file_format="csv", rows=3)
    assert rows.beside("users.csv.gz") == FileOptions(**written)
    assert rows.beside(Path("users.parquet")) == FileOptions(encoding="cp1252")
    assert rows.beside({"user": ["a"]}) == rows.beside(TableFile("a.csv", FileOptions())) == FileOptions()


# Printed commands


def odd_table(folder: Path, delimiter: str = "~") -> Path:
    """A table that is read as something else without the flags."""
    rows = small_runs.reviews(90, seed=5)
    lines = [delimiter.join((f"{row['text']} \xe9", f"film {row['stars']}", row["user"] or "u1")) for row in rows]
    path = folder / "odd.txt"
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return path


GIVEN = {
    "all": ("~", ["--delimiter", "~", "--quoting", "none", "--columns", "text", "label", "user", "--rows", "80"]),
    "dashes": ("-", ["--delimiter=-", "--columns=-text", "--columns=-label", "--columns=user", "--label=-label"]),
    "tab": ("\t", ["--delimiter", "tab", "--columns", "text", "label", "user"]),
}


@pytest.mark.parametrize("name", GIVEN)
def test_the_printed_command_reads_the_same_table(name: str, tmp_path: Path, attribune: Run) -> None:
    delimiter, words = GIVEN[name]
    path = odd_table(tmp_path, delimiter)
    words = [*words, "--file-format", "csv", "--encoding", "latin-1"]
    command = shlex.split(attribune("check", path, *words)[1].splitlines()[-1])
    assert command[:3] == ["attribune", "train", str(path)]
    recipe = recipe_of(build_parser().parse_args(command[1:]))
    flags = [word for word in words if not word.startswith("--label")]
    assert FileOptions.of(recipe.data) == reading_of(parsed(flags))
    table = read_table(recipe.data.train, **recipe.data.reading)
    columns = [*recipe.data.text, *recipe.data.label, *(kind["name"] for kind in recipe.data.attributes)]
    assert set(columns) <= set(table.column_names)
    assert recipe.data.text == (("-text",) if name == "dashes" else ("text",))


def test_the_command_of_python_has_the_arguments(tmp_path: Path) -> None:
    path = odd_table(tmp_path)
    arguments: dict[str, Any] = {"file_format": "csv", "delimiter": "~", "columns": ["text", "label", "user"]}
    by_arguments = check(str(path), encoding="latin-1", **arguments)
    by_file = check(TableFile(path, FileOptions(**arguments)), encoding="latin-1")
    assert by_arguments.reading == by_file.reading == FileOptions(encoding="latin-1", **arguments)
    assert "--delimiter '~' --columns text label user --file-format csv" in by_arguments.command
    assert by_arguments.command == by_file.command


@pytest.mark.slow
def test_the_printed_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribune: Run) -> None:
    monkeypatch.chdir(tmp_path)
    odd_table(tmp_path)
    _, out, _ = attribune("check", "odd.txt", *GIVEN["all"][1], "--file-format", "csv", "--encoding", "latin-1")
    assert attribune(*shlex.split(out.splitlines()[-1])[1:], "--method", "linear")[0] == 0
    assert Path("runs/odd/metrics.json").is_file()


# Other tables than that of the rows


def test_distributions_read_a_table_as_the_flags_say(tmp_path: Path, attribune: Run) -> None:
    path = tmp_path / "judgements.txt"
    path.write_text("a film~yes\na film~no\nb~yes\n")
    words = ["--text", "text", "--label", "answer", "--output", str(tmp_path / "out.csv")]
    flags = ["--delimiter", "~", "--columns", "text", "answer", "--file-format", "csv"]
    assert attribune("data", "distributions", path, *words, *flags)[0] == 0
    assert read_table(tmp_path / "out.csv")["text"] == ["a film", "b"]


def test_values_are_read_as_the_rows_are_written(tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("user~age\nu1~31\n")
    recipe = ValuesRecipe.from_dict({"table": str(path), "fields": ["age"]})
    reading = FileOptions(delimiter="~", columns=["text", "label"], rows=1)
    found = read_value_table(recipe, attribute="user", encoder=None, reading=reading)
    assert found.table["user"] == ["u1"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["export", "panel"])
def test_tables_beside_the_rows(verb: str, trained_runs: TrainedRuns, tmp_path: Path, attribune: Run) -> None:
    run, rows = trained_runs("injector"), small_runs.reviews(9, seed=5)
    lines = [list(rows[0]), *(row.values() for row in rows)]
    table, members, opinions = (tmp_path / f"{name}.csv" for name in ("rows", "members", "opinions"))
    table.write_text("\n".join("~".join(map(str, line)) for line in lines))
    members.write_text("name~user\nAnn~u1\nBob~u2\n")
    if verb == "export":
        output = ("--for", "user=u1", "--output", tmp_path / "exported")
        code, out, _ = attribune("export", run, *output, "--check", table, "--delimiter", "~", "--rows", "5")
        assert (code, "on 5 rows of the table" in out) == (0, True)
    else:
        words = ("--panel", members, "--output", opinions, "--delimiter", "~")
        assert attribune("predict", run, table, *words)[0] == 0
        assert len(read_table(opinions)) == 9
