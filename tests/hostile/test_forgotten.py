"""People with names of any kind are forgotten: what is left of them is said, and nothing of others is lost."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
import small_runs
import yaml
from commands import Attribune
from tally import Outcome, tell
from trained_runs import ROWS, TrainedRuns

pytestmark = pytest.mark.slow

NAMES = ("Ann\nLee", "Jose\u0301", "1234567", "Zo\u00eb 1/2", '<b>"Bo"</b>', "\u5c71\u7530\u592a\u90ce", "=1+cmd|'x'")
OWNERS = {f"u{number}": name for number, name in enumerate(NAMES)}
PEOPLE = [{**row, "user": OWNERS[row["user"]]} for row in ROWS]


@pytest.fixture(scope="module")
def people(trained_runs: TrainedRuns) -> Path:
    return trained_runs("injector", "--no-baselines", rows=PEOPLE)


def traces(run: Path, name: str) -> list[str]:
    """The files in which a name is, as it is written in text, JSON, YAML or HTML."""
    written = {name, json.dumps(name)[1:-1], json.dumps(name, ensure_ascii=False)[1:-1], html.escape(name)}
    written |= {yaml.safe_dump(name, allow_unicode=True).strip().removesuffix("...").strip("'\"\n")}
    files = [path for path in run.rglob("*") if path.is_file() and path.name != "tokenizer.json"]
    return [str(path) for path in files if any(one.encode() in path.read_bytes() for one in written)]


def owners(run: Path) -> list[str]:
    return [PEOPLE[row]["user"] for part in ("validation", "test") for row in small_runs.scored_rows(run, part)]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_of_any_kind_is_forgotten(
    name: str, people: Path, attribune: Attribune, trained_runs: TrainedRuns, tmp_path: Path
) -> None:
    run = trained_runs.copy(people, tmp_path / "run")
    assert traces(run, name)
    expected = [owner for owner in owners(run) if owner != name]
    code, out, err = attribune("forget", run, "--attribute", "user", "--value", name)
    left = [path for path in traces(run, name) if path not in out + err]
    outcome: Outcome = "wrong" if left else "lost" if owners(run) != expected else "refused" if code else "survived"
    tell("traceback" if "Traceback" in err else outcome)
    assert outcome in ("survived", "refused"), (left, out, err)
    assert attribune("describe", run)[0] == 0
