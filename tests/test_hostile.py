"""Input that cannot be used, damaged folders, full disks: one clear message each, an exit code, nothing lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_runs
import torch
from safetensors.torch import load_file, save_file

from attribune.cli import main
from attribune.training.trainer import last_checkpoint

Outcome = tuple[int, str, str]
ROWS = small_runs.reviews(90, seed=3)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.save_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, backbone: Path) -> Path:
    """A folder with the table data.csv and finished runs on it: injector, none and linear."""
    folder = tmp_path_factory.mktemp("runs")
    data = small_runs.write_csv(folder / "data.csv", ROWS)
    torch.set_num_threads(1)
    for method in ("injector", "none", "linear"):
        assert main(small_runs.train_command(data, folder / method, backbone=backbone, method=method)) == 0
    return folder


@pytest.fixture
def attribune(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def run(*words: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = int(str(end.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def fails(attribune: Callable[..., Outcome]) -> Callable[..., str]:
    """Run a command that must fail with a message on stderr, nothing on stdout and no traceback; gives the message."""

    def run(*words: object, code: int = 1) -> str:
        found, out, err = attribune(*words)
        assert (found, out) == (code, "")
        assert "Traceback" not in err
        message = err[err.index("error: ") :]
        assert len(message) < 900
        return message

    return run


@pytest.fixture
def train(tmp_path: Path, backbone: Path) -> Callable[..., list[str]]:
    """The words of a training on rows, or on a file with the given content."""

    def words(table: Any = None, *more: object, name: str = "data.csv", method: str = "injector") -> list[str]:
        path = tmp_path / name
        if isinstance(table, str | bytes):
            path.write_bytes(table if isinstance(table, bytes) else table.encode())
        else:
            small_runs.write_csv(path, ROWS if table is None else table)
        given = small_runs.train_command(path, tmp_path / "run", backbone=backbone, method=method)
        return _with(given, [str(word) for word in more])

    return words


def _with(given: list[str], more: list[str]) -> list[str]:
    """Add words; a column flag among them takes the place of the same flag, to which it would add columns."""
    for flag in {"--text", "--label", "--attributes"}.intersection(more):
        place = given.index(flag)
        del given[place : place + 2]
    return [*given, *more]


def changed(column: str, value: Any, *, every: int = 1) -> list[dict[str, Any]]:
    return [{**row, column: value} if number % every == 0 else row for number, row in enumerate(ROWS)]


TEXT = "text,stars,user\n" + "".join(f"{row['text']},{row['stars']},{row['user']}\n" for row in ROWS)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["data.csv", "empty", "give a file with rows"]),
        (b"text,stars,user\n", ["data.csv", "no rows", "give a file with rows"]),
        (TEXT + "one,two\n", ["data.csv", "line 92 (row 91)", "2 fields", "3", "double quotes"]),
        (TEXT.replace("film", "fi\0lm", 1), ["data.csv, line ", "NUL", "remove it"]),
        (TEXT.replace("user", "author"), ["data.csv", "no column 'user'", "'author'"]),
        (TEXT.replace("stars", "star"), ["data.csv", "no column 'stars'", "did you mean 'star'?"]),
        (TEXT.replace("text,", "stars,", 1), ["data.csv", "two columns are named 'stars'"]),
    ],
)
def test_unusable_files_are_named(
    fails: Callable[..., str], train: Callable[..., list[str]], tmp_path: Path, content: Any, parts: list[str]
) -> None:
    message = fails(*train(content))
    for part in parts:
        assert part in message
    assert not (tmp_path / "run").exists()  # the next attempt finds nothing in its way


def test_a_wrong_encoding_is_named_with_its_line(fails: Callable[..., str], train: Callable[..., list[str]]) -> None:
    content = TEXT.replace("film", "fil\xe9", 1).encode("latin-1")
    message = fails(*train(content, "--encoding", "utf-8"))
    assert "data.csv, line " in message
    assert "byte e9" in message
    assert "unknown encoding 'utf-99'" in fails(*train(content, "--encoding", "utf-99"))


def test_mixed_line_ends_change_nothing(attribune: Callable[..., Outcome], train: Callable[..., list[str]]) -> None:
    mixed = TEXT.replace("\n", "\r", 9).replace("\n", "\r\n", 9)
    code, out, err = attribune(*train(mixed, method="none"))
    assert code == 0
    assert "90 rows read" in err
    assert out.startswith("validation, 9 rows\n")


@pytest.mark.parametrize(
    ("rows", "more", "parts"),
    [
        (changed("text", "  "), (), ["none of its 90 rows has both a text in text and a label in stars"]),
        (changed("stars", "NaN"), (), ["none of its 90 rows has both a text in text and a label in stars"]),
        (changed("stars", "good"), (), ["same label 'good'", "at least two"]),
        (ROWS[:2], (), ["2 rows with 2 different texts cannot make three parts"]),
        (ROWS, ("--task", "regression"), ["the label of row ", "'good'", "classification"]),
        (ROWS, ("--numeric", "stars", "--label", "look"), ["column 'stars', row 1", "good"]),
        (ROWS, ("--multi-label", "tags"), ["column 'tags', row 1", "not a list", "separator=';'"]),
        (ROWS, ("--label", "user"), ["column user is the label and also"]),
        (ROWS, ("--test", "missing.csv"), ["missing.csv", "no such file"]),
        (ROWS, ("--max-length", "99"), ["99 tokens", "takes 67", "smaller"]),
        (ROWS, ("--set", "method.hypercomplex=7"), ["48 is not divisible by 7² = 49", "choose one of 1, 2, 4"]),
        (ROWS, ("--learning-rate", "1e30"), ["not finite", "lower the learning rate"]),
        (ROWS, ("--set", "data.split.by=time", "data.split.column=user"), ["column 'user', row 1", "time"]),
        (ROWS, ("--set", "data.split.by=group"), ["name the column"]),
    ],
)
def test_unusable_rows_and_settings_are_named(
    fails: Callable[..., str], train: Callable[..., list[str]], tmp_path: Path, rows: Any, more: Any, parts: list[str]
) -> None:
    message = fails(*train(rows, *more))
    for part in parts:
        assert part in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (
            [{**row, "tags": row["tags"].split(";")} for row in ROWS],
            ("--attributes", "tags"),
            "column 'tags', row 1: ['drama', 'short', 'war'] is not one value",
        ),
        (
            [{**row, "tags": 3 if number == 4 else ["a"]} for number, row in enumerate(ROWS)],
            ("--multi-label", "tags"),
            "not a list",
        ),
        (
            [{**row, "tags": row["tags"].split(";")} for row in ROWS],
            ("--text", "tags"),
            "the text column 'tags' holds lists",
        ),
        ([{**row, "tags": ["a"]} for row in ROWS], ("--label", "tags"), "is the list ['a']"),
    ],
)
def test_lists_where_none_belong(
    fails: Callable[..., str], train: Callable[..., list[str]], rows: list[Any], more: Any, message: str
) -> None:
    assert message in fails(*train("\n".join(map(json.dumps, rows)), *more, name="data.jsonl"))


def test_an_unknown_backbone_is_named(
    fails: Callable[..., str], train: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = fails(*train(None, "--backbone", "no/such-model"))
    assert "'no/such-model' could not be loaded" in message
    assert "give a name on the hub, or a folder" in message


def test_rows_without_text_or_label_are_counted(
    attribune: Callable[..., Outcome], train: Callable[..., list[str]], tmp_path: Path
) -> None:
    rows = [dict(row) for row in ROWS]
    for number, text in ((0, ""), (5, "   "), (9, "NaN")):
        rows[number]["text"] = text
    for number in (5, 11, 12):
        rows[number]["stars"] = ""
    code, _, err = attribune(*train(rows, method="none"))
    assert code == 0
    assert "2 rows without a text left out" in err or "3 rows without a text left out" in err
    assert "2 rows without a label left out" in err
    assert sum(json.loads((tmp_path / "run" / "metrics.json").read_text())["rows"].values()) in (85, 86)


def test_a_label_only_in_the_test_rows_counts_as_wrong(
    attribune: Callable[..., Outcome], train: Callable[..., list[str]], tmp_path: Path
) -> None:
    test = small_runs.write_csv(tmp_path / "test.csv", [{**row, "stars": "ugly"} for row in small_runs.reviews(20)])
    code, _, err = attribune(*train(None, "--test", test, method="none"))
    assert code == 0
    assert "test: 20 rows have a label that no training row has: 'ugly' (20)" in err
    results = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert results["results"][0]["parts"]["test"]["accuracy"]["value"] == 0
    assert results["rows"] == {"train": 81, "validation": 9, "test": 20}


def test_all_errors_of_a_recipe_come_at_once(
    fails: Callable[..., str], train: Callable[..., list[str]], tmp_path: Path
) -> None:
    wrong = ["data.foo=1", "training.epoch=2", "training.batch_size=0", "backbone.tuning=odd", "method.bottlneck=3"]
    wrong += ["task.kind=sorting", "training.evaluate_every=0", "training.seed=-1", "training.warmup=.nan"]
    message = fails(*train(None, "--set", *wrong))
    assert "the recipe has 9 errors" in message
    for key in (
        "data.foo",
        "training.epoch:",
        "batch_size",
        "tuning",
        "bottlneck",
        "sorting",
        "every",
        "seed",
        "warmup",
    ):
        assert key in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "data.foo=["), "--set data.foo=[: the value is not YAML"),
        (("--set", "data.foo"), "write KEY=VALUE"),
        (("--set", "data.train.x=1"), "data.train.x: 'train' is not a group of settings"),
        (("--set", "method=adapter"), "method: Input should be a valid dictionary, it is 'adapter'"),
        (("--set", "method.name=[1]"), "unknown method [1]"),
        (("--set", "data.attributes=[{name: user, min_cnt: 3}]"), "attribute 'user' has no option min_cnt"),
        (("--set", "data.attributes=[{kind: numeric}]"), "of kind numeric has no name"),
        (("--method", "injektor"), "unknown method 'injektor': choose one of none, adapter, injector"),
        (("--task", "sorting"), "unknown task 'sorting': choose one of classification, rating"),
        (("--tuning", "some"), "backbone.tuning"),
        (("--epochs", "inf"), "training.epochs: Input should be a finite number"),
        (("--attributes", "user", "user"), "attribute user is named twice"),
        (("--label", "look", "taste", "--task", "rating"), "task 'rating' reads one label column"),
        (("--config", "missing.yaml"), "the recipe missing.yaml cannot be read"),
        (("--compare", "sorting"), "unknown method 'sorting'"),
        (("--compare", "none", "none"), "name every method once"),
        (("--compare", "injector"), "trained anyway"),
        (("--text", ""), "data.text.0"),
    ],
)
def test_unusable_settings(
    fails: Callable[..., str], train: Callable[..., list[str]], tmp_path: Path, words: Any, message: str
) -> None:
    assert message in fails(*train(None, *words))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", ["method: injector\n", "data:\n", "data: x.csv\n", "- a\n", "a: [", "1: 2\n"])
def test_unusable_recipe_files(
    fails: Callable[..., str], train: Callable[..., list[str]], tmp_path: Path, content: str
) -> None:
    (tmp_path / "recipe.yaml").write_text(content)
    words = train(None, "--config", tmp_path / "recipe.yaml")
    if content.startswith("method"):
        words = [word for word in words if word not in ("--method", "injector")]
    fails(*words)


def test_unknown_options_and_verbs_are_usage_errors(fails: Callable[..., str]) -> None:
    assert "unrecognized arguments: --txt" in fails("train", "x.csv", "--output", "o", "--txt", "a", code=2)
    assert "invalid choice: 'trian'" in fails("trian", code=2)
    assert "required: --output" in fails("train", "x.csv", code=2)


def test_an_empty_path_is_not_the_current_folder(
    fails: Callable[..., str], train: Callable[..., list[str]], runs: Path
) -> None:
    words = train()
    words[1] = ""
    assert "data.train" in fails(*words)
    assert "no recipe.yaml" in fails("evaluate", "", runs / "data.csv")


class TestOutputFolder:
    def test_a_run_is_never_overwritten(self, fails: Callable[..., str], runs: Path, backbone: Path) -> None:
        before = (runs / "injector" / "metrics.json").read_bytes()
        words = small_runs.train_command(runs / "data.csv", runs / "injector", backbone=backbone)
        assert "has a finished run: choose another output folder" in fails(*words)
        message = fails(*words, "training.weight_decay=0.5", "--resume", "--epochs", "3")
        assert "training.epochs: 1.0 in the run, 3.0 now" in message
        assert "training.weight_decay: 0.01 in the run, 0.5 now" in message
        assert (runs / "injector" / "metrics.json").read_bytes() == before

    def test_a_finished_run_is_shown_again(self, attribune: Callable[..., Outcome], runs: Path, backbone: Path) -> None:
        words = small_runs.train_command(runs / "data.csv", runs / "injector", backbone=backbone)
        code, out, err = attribune(*words, "--resume")
        assert code == 0
        assert "finished already" in err
        assert out.startswith("validation, 9 rows")

    def test_methods_can_be_added_to_a_finished_run(
        self, attribune: Callable[..., Outcome], runs: Path, backbone: Path, tmp_path: Path
    ) -> None:
        shutil.copytree(runs / "injector", tmp_path / "run")
        words = small_runs.train_command(runs / "data.csv", tmp_path / "run", backbone=backbone)
        code, out, err = attribune(*words, "--resume", "--compare", "adapter")
        assert code == 0
        assert "finished already" not in err
        assert "injector against adapter, test accuracy" in out
        assert (tmp_path / "run" / "compare" / "adapter" / "metrics.json").is_file()

    def test_resume_without_a_run_begins_one(
        self, attribune: Callable[..., Outcome], train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        assert attribune(*train(None, "--resume", method="linear"))[0] == 0
        assert (tmp_path / "run" / "metrics.json").is_file()

    def test_foreign_folders_and_files_are_left_alone(
        self, fails: Callable[..., str], train: Callable[..., list[str]], tmp_path: Path
    ) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "letter").write_text("dear")
        assert "is not empty and holds no run" in fails(*train())
        assert (tmp_path / "run" / "letter").read_text() == "dear"
        (tmp_path / "file").write_text("dear")
        assert "is a file" in fails(*train(None, "--output", tmp_path / "file"))
        assert "cannot be written" in fails(*train(None, "--output", tmp_path / "file" / "run"))

    def test_changed_data_are_noticed_on_resume(
        self, fails: Callable[..., str], runs: Path, backbone: Path, tmp_path: Path
    ) -> None:
        data = shutil.copy(runs / "data.csv", tmp_path / "data.csv")
        words = small_runs.train_command(data, tmp_path / "run", backbone=backbone, method="linear")
        assert main(words) == 0
        (tmp_path / "run" / "metrics.json").unlink()
        Path(data).write_text(Path(data).read_text().replace("great", "grand", 1))
        assert "the data are not those with which" in fails(*words, "--resume")
        assert (tmp_path / "run" / "recipe.yaml").is_file()


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut by a line": lambda path: path.write_bytes(path.read_bytes().rstrip().rpartition(b"\n")[0]),
    "foreign": lambda path: path.write_bytes(b'{"a": 1}'),
    "a list": lambda path: path.write_bytes(b"[1]"),
    "binary": lambda path: path.write_bytes(b"\xff\xfe\x00\x01"),
}


@pytest.mark.parametrize(
    "file",
    ["recipe.yaml", "model/config.json", "model/schema.json", "model/model.safetensors", "model/tokenizer.json"],
)
@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "cut by a line"])
def test_a_damaged_model_folder_is_refused(
    fails: Callable[..., str], runs: Path, tmp_path: Path, file: str, damage: str
) -> None:
    shutil.copytree(runs / "injector", tmp_path / "run")
    DAMAGES[damage](tmp_path / "run" / file)
    message = fails("evaluate", tmp_path / "run", runs / "data.csv")
    assert str(tmp_path / "run") in message
    assert file.rpartition("/")[2].partition(".")[0] in message  # the tokenizer's file is called by its name alone


def test_a_recipe_cut_at_the_end_of_a_line_is_not_filled_with_defaults(
    fails: Callable[..., str], runs: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs / "injector", tmp_path / "run")
    DAMAGES["cut by a line"](tmp_path / "run" / "recipe.yaml")
    assert "recipe.yaml is truncated" in fails("describe", tmp_path / "run")


@pytest.mark.parametrize("file", ["model/tokenizer_config.json", "training.json"])
def test_a_missing_tokenizer_or_outcome_is_named(
    fails: Callable[..., str], runs: Path, tmp_path: Path, file: str
) -> None:
    shutil.copytree(runs / "injector", tmp_path / "run")
    (tmp_path / "run" / file).unlink()
    message = fails("predict", tmp_path / "run", runs / "data.csv", "--output", tmp_path / "p.csv")
    assert "tokenizer" in message if "tokenizer" in file else "interrupted run" in message
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name not in ("missing", "cut by a line")])
@pytest.mark.parametrize("verb", ["describe", "compare"])
def test_damaged_results_are_refused(
    fails: Callable[..., str], runs: Path, tmp_path: Path, verb: str, damage: str
) -> None:
    shutil.copytree(runs / "injector", tmp_path / "run")
    DAMAGES[damage](tmp_path / "run" / "metrics.json")
    words = (verb, tmp_path / "run", *([runs / "none"] if verb == "compare" else []))
    assert str(tmp_path / "run" / "metrics.json") in fails(*words)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "foreign"])
def test_damaged_logits_do_not_make_compare_take_other_rows(
    fails: Callable[..., str], runs: Path, tmp_path: Path, damage: str
) -> None:
    shutil.copytree(runs / "injector", tmp_path / "run")
    DAMAGES[damage](tmp_path / "run" / "test_logits.safetensors")
    assert "test_logits.safetensors is missing or damaged" in fails("compare", tmp_path / "run", runs / "none")


def test_tensors_of_another_save_are_refused(fails: Callable[..., str], runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "injector", tmp_path / "run")
    shutil.copy(runs / "none" / "model" / "model.safetensors", tmp_path / "run" / "model" / "model.safetensors")
    assert "come from two different saves" in fails("evaluate", tmp_path / "run", runs / "data.csv")


class TestBackbone:
    def test_other_weights_of_the_same_shape_are_refused(
        self, fails: Callable[..., str], runs: Path, tmp_path: Path
    ) -> None:
        other = small_runs.save_backbone(tmp_path / "other", seed=1)
        message = fails("evaluate", runs / "injector", runs / "data.csv", "--backbone", other)
        assert "was trained on other weights" in message
        assert str(other) in message

    def test_another_size_or_family_is_refused(
        self, fails: Callable[..., str], runs: Path, backbone: Path, tmp_path: Path
    ) -> None:
        other = small_runs.save_backbone(tmp_path / "other", model_type="distilbert")
        assert "model_type bert" in fails("evaluate", runs / "injector", runs / "data.csv", "--backbone", other)
        smaller = shutil.copytree(backbone, tmp_path / "smaller")
        settings = json.loads((smaller / "config.json").read_text())
        (smaller / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 1}))
        assert "num_hidden_layers 2" in fails("evaluate", runs / "injector", runs / "data.csv", "--backbone", smaller)

    @pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "foreign", "a list", "binary"])
    @pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json"])
    def test_damaged_weights_are_refused(
        self,
        fails: Callable[..., str],
        train: Callable[..., list[str]],
        backbone: Path,
        tmp_path: Path,
        file: str,
        damage: str,
    ) -> None:
        broken = shutil.copytree(backbone, tmp_path / "broken")
        DAMAGES[damage](broken / file)
        assert str(broken) in fails(*train(None, "--backbone", broken))
        assert not (tmp_path / "run").exists()

    def test_incomplete_weights_are_refused(
        self, fails: Callable[..., str], train: Callable[..., list[str]], backbone: Path, tmp_path: Path
    ) -> None:
        broken = shutil.copytree(backbone, tmp_path / "broken")
        tensors = load_file(broken / "model.safetensors")
        name = next(name for name in tensors if "query" in name)
        del tensors[name]
        save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
        assert name in fails(*train(None, "--backbone", broken))


class TestEvaluateAndPredict:
    @pytest.mark.parametrize("verb", ["evaluate", "predict"])
    def test_a_missing_column_is_named_with_the_cure(
        self, fails: Callable[..., str], runs: Path, tmp_path: Path, verb: str
    ) -> None:
        data = small_runs.write_csv(tmp_path / "d.csv", [{"text": row["text"], "stars": row["stars"]} for row in ROWS])
        output = ("--output", tmp_path / "p.csv") if verb == "predict" else ()
        message = fails(verb, runs / "injector", data, *output)
        assert "d.csv has no column 'user'" in message
        assert "add it with empty cells" in message
        assert not (tmp_path / "p.csv").exists()

    def test_a_method_that_reads_no_attributes_needs_no_attribute_columns(
        self, attribune: Callable[..., Outcome], runs: Path, tmp_path: Path
    ) -> None:
        data = small_runs.write_csv(tmp_path / "d.csv", [{"text": row["text"], "stars": row["stars"]} for row in ROWS])
        with_columns = attribune("evaluate", runs / "none", runs / "data.csv", "--json")
        assert attribune("evaluate", runs / "none", data, "--json") == with_columns
        assert attribune("predict", runs / "none", data, "--output", tmp_path / "p.csv")[0] == 0

    def test_no_usable_row(self, fails: Callable[..., str], runs: Path, tmp_path: Path) -> None:
        data = small_runs.write_csv(tmp_path / "d.csv", changed("stars", ""))
        assert "no row has both a text and a label" in fails("evaluate", runs / "injector", data)

    def test_values_never_seen_are_counted(self, attribune: Callable[..., Outcome], runs: Path, tmp_path: Path) -> None:
        data = small_runs.write_csv(tmp_path / "d.csv", changed("user", "nobody"))
        code, out, err = attribune("evaluate", runs / "injector", data)
        assert code == 0
        assert "values not in the vocabulary: 90" in err
        given, hidden = (line.split()[2:] for line in out.splitlines() if line.startswith(("as given", "attributes")))
        assert given == hidden  # what nobody has seen is as good as hidden

    def test_what_is_no_run_is_named(self, fails: Callable[..., str], runs: Path) -> None:
        for verb in (("evaluate", runs, runs / "data.csv"), ("describe", runs), ("compare", runs / "none", runs)):
            assert str(runs) in fails(*verb)
        assert "no such folder" in fails("describe", runs / "nothing")

    @pytest.mark.parametrize(
        ("output", "message"),
        [
            ("p.xls", "the ending '.xls' is not one of .csv"),
            ("p", "the ending '' is not one of"),
            ("", "the ending '' is not one of"),
            ("nowhere/p.csv", "cannot be written (No such file or directory)"),
            ("d.csv/p.csv", "cannot be written (Not a directory)"),
            ("folder.csv", "cannot be written (Is a directory)"),
            ("d.csv", "is the table that is read"),
        ],
    )
    def test_unusable_outputs(
        self,
        fails: Callable[..., str],
        runs: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        output: str,
        message: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder.csv").mkdir()
        before = shutil.copy(runs / "data.csv", tmp_path / "d.csv")
        content = Path(before).read_bytes()
        assert message in fails("predict", runs / "none", "d.csv", "--output", output)
        assert Path(before).read_bytes() == content
        assert sorted(os.listdir(tmp_path)) == ["d.csv", "folder.csv"]

    def test_a_column_called_prediction_is_not_replaced(
        self, fails: Callable[..., str], attribune: Callable[..., Outcome], runs: Path, tmp_path: Path
    ) -> None:
        assert attribune("predict", runs / "none", runs / "data.csv", "--output", tmp_path / "p.csv")[0] == 0
        message = fails("predict", runs / "none", tmp_path / "p.csv", "--output", tmp_path / "q.csv")
        assert "column 'prediction' already" in message
        assert os.listdir(tmp_path) == ["p.csv"]

    def test_an_earlier_output_stays_when_prediction_fails(
        self, fails: Callable[..., str], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "p.csv").write_text("dear")

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("attribune.data.writing._Csv.write", full)
        message = fails("predict", runs / "none", runs / "data.csv", "--output", tmp_path / "p.csv")
        assert "p.csv cannot be written (No space left on device)" in message
        assert os.listdir(tmp_path) == ["p.csv"]
        assert (tmp_path / "p.csv").read_text() == "dear"


@pytest.mark.parametrize(("room", "message"), [(1_000, "cannot be written"), (40_000, "could not be written")])
def test_a_disk_that_fills_while_training_loses_nothing(
    attribune: Callable[..., Outcome], train: Callable[..., list[str]], tmp_path: Path, room: int, message: str
) -> None:
    words = train(None, "--epochs", "2")
    command = small_runs.Command(words, log=tmp_path / "log.txt", file_limit=room)
    assert command.wait() == 1
    messages = (tmp_path / "log.txt").read_text()
    assert "Traceback" not in messages
    assert message in messages.splitlines()[-1]
    assert attribune(*words)[0] == 0  # nothing was trained, so nothing is in the way
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_disk_that_fills_later_lets_the_training_go_on(
    fails: Callable[..., str],
    attribune: Callable[..., Outcome],
    train: Callable[..., list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = train(None, "training.evaluate_every=2")
    save, calls = torch.save, []

    def fill(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        if len(calls) > 4:
            raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")
        save(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", fill)
        assert "make room; the training then goes on" in fails(*words)
    code, _, err = attribune(*words, "--resume")
    assert code == 0
    assert "going on from step 2 of 5" in err


def test_a_truncated_checkpoint_is_passed_over(tmp_path: Path, runs: Path) -> None:
    whole = tmp_path / "checkpoint-5"
    whole.mkdir()
    shutil.copy(runs / "injector" / "model" / "model.safetensors", whole)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"a": torch.zeros(99)}, whole / name)
    (whole / "trainer_state.json").write_text("{}")
    assert last_checkpoint(tmp_path) == whole
    newer = shutil.copytree(whole, tmp_path / "checkpoint-10")
    assert last_checkpoint(tmp_path) == newer
    for file in os.listdir(newer):
        content = (newer / file).read_bytes()
        for damage in ("missing", "empty", "truncated"):
            DAMAGES[damage](newer / file)
            assert last_checkpoint(tmp_path) == whole, (file, damage)
            (newer / file).write_bytes(content)
    assert last_checkpoint(tmp_path) == newer
