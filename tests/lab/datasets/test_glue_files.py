"""``attribune data glue-files``: predictions of test rows without labels, as GLUE's server takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Outcome
from published import write, write_source
from published_texts import COLUMNS, glue_row, tsv_text
from small_runs import train_command
from trained_runs import TrainedRuns

_SERVER = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI-m", "MNLI-mm", "AX", "QNLI", "RTE", "WNLI")


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory, trained_runs: TrainedRuns, backbone: Path) -> Path:
    """A folder with the files of RTE and STS-B, those of their test rows among them, and a run on each."""
    from attribune.apps.cli import main

    folder = tmp_path_factory.mktemp("glue")
    for name, task in (("rte", "RTE"), ("sts-b", "STS-B")):
        write_source(folder, name, 60)
        columns = ["index", *(column for column in COLUMNS[name] if column not in ("index", "label", "score"))]
        rows = [glue_row(name, 900 + number, index=str(number)) for number in range(7)]
        write(folder / task / "test.tsv", tsv_text(rows, columns))
        prepared = folder / "data" / name
        assert main(["data", "prepare", name, "--source", str(folder), "--output", str(prepared), "--partial"]) == 0
        words = train_command("", folder / "runs" / name, backbone=backbone, method="adapter", label=(), text=())
        place = words.index("--attributes")
        assert main(["train", "--config", str(prepared / "recipe.yaml"), *words[place + 2 :]]) == 0
    return folder


def test_every_test_row_is_predicted(glue: Path, attribune: Callable[..., Outcome], tmp_path: Path) -> None:
    runs = [f"{name}={glue / 'runs' / name}" for name in ("rte", "sts-b")]
    output = tmp_path / "deep" / "out"
    code, text, messages = attribune("data", "glue-files", *runs, "--source", str(glue), "--output", str(output))
    assert (code, text.strip()) == (0, str(output))
    assert "RTE.tsv: 7 rows, where the server takes 3,000: get the file of its test rows again" in messages
    rest = ", ".join(f"{name}.tsv" for name in _SERVER if name not in ("RTE", "STS-B"))
    assert f"the server also asks for {rest}" in messages
    assert sorted(path.name for path in output.iterdir()) == ["RTE.tsv", "STS-B.tsv"]
    for name, known in (("RTE", {"entailment", "not_entailment"}), ("STS-B", None)):
        head, *lines = (output / f"{name}.tsv").read_text().splitlines()
        assert head == "index\tprediction"
        indexes, labels = zip(*(line.split("\t") for line in lines), strict=True)
        assert indexes == tuple("0123456")
        assert set(labels) <= known if known else all(0 <= float(label) <= 5 for label in labels)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rte"], "rte: write TASK=RUN, such as rte=runs/rte"),
        (["rte=a", "rte=b"], "rte=b: rte has a already: name one"),
        (["rte2={runs}/rte"], "GLUE's server has no task 'rte2': choose from cola, sst-2"),
        (["rte={runs}/sts-b"], "runs/sts-b is no run of rte, a classification with the labels entailment, not_"),
        (["sts-b={runs}/rte"], "runs/rte is no run of sts-b, a regression of numbers that reads text and text_pair"),
        (["qnli={runs}/rte"], "has no QNLI/test.tsv, whose rows the server's QNLI.tsv is about"),
    ],
)
def test_what_cannot_be_written(
    glue: Path, attribune: Callable[..., Outcome], tmp_path: Path, words: list[str], message: str
) -> None:
    runs = [word.format(runs=glue / "runs") for word in words]
    code, _, messages = attribune("data", "glue-files", *runs, "--source", str(glue), "--output", str(tmp_path / "out"))
    assert code == 1
    assert message in messages
    assert not (tmp_path / "out").exists()


def test_a_row_that_is_broken_stops_it(glue: Path, attribune: Callable[..., Outcome], tmp_path: Path) -> None:
    whole = (glue / "RTE" / "test.tsv").read_text()
    words = [f"rte={glue / 'runs' / 'rte'}", "--source", str(tmp_path), "--output", str(tmp_path / "out")]
    for content, message in (
        (whole + "7\tonly a text\n", "test.tsv, line 9: not the 3 fields that the file has: get the file again"),
        (whole + whole.splitlines()[-1] + "\n", "test.tsv: two rows have the index '6': get the file again"),
        (whole.splitlines()[0] + "\n", "test.tsv has no rows: get the file again"),
    ):
        write(tmp_path / "RTE" / "test.tsv", content)
        code, _, messages = attribune("data", "glue-files", *words)
        assert code == 1
        assert message in messages
        assert not (tmp_path / "out" / "RTE.tsv").exists()
