"""Folders of strangers with links in them: no verb writes through one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import small_runs
from commands import Attribune, Fails
from tally import tell

pytestmark = pytest.mark.slow

VERBS: dict[str, Callable[[Path, Path], list[object]]] = {
    "forget": lambda run, base: ["forget", run, "--attribute", "user", "--value", "u3"],
    "enrol": lambda run, base: ["enrol", run, base / "new.csv"],
    "undo": lambda run, base: ["enrol", run, "--undo"],
    "report": lambda run, base: ["report", run],
    "export": lambda run, base: ["export", run, "--for", "user=u1"],
    "train": lambda run, base: [
        *small_runs.train_command(base / "data.csv", run, backbone=base / "backbone"),
        *("--resume", "--compare", "none"),
    ],
}
LINKS = (
    *(".lock", ".lock.holder", ".model.new", ".model.old", "recipe.yaml", "metrics.json", "checksums.json"),
    *("report.html", "model", "checkpoints", "compare", "compare/none", "model/README.md", "deep/down"),
)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_writes_through_no_link(verb: str, fails: Fails, attacked: Path, tmp_path: Path) -> None:
    for number, name in enumerate(LINKS):
        place = tmp_path / str(number)
        shutil.copytree(attacked / "run", place / "run")
        mine, link = place / "mine" / "dear", place / "run" / name
        mine.parent.mkdir()
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.exists():
            link.rename(mine)
        else:
            mine.write_text("dear")
        before = small_runs.file_bytes(mine.parent)
        link.symlink_to(mine)
        assert f"{link} is a link to {mine}" in fails(*VERBS[verb](place / "run", attacked))
        is_lost = small_runs.file_bytes(mine.parent) != before
        tell("lost" if is_lost else "refused")
        assert not is_lost, name


def test_a_run_whose_folder_is_a_link_is_changed(attribune: Attribune, attacked: Path, tmp_path: Path) -> None:
    shutil.copytree(attacked / "run", tmp_path / "disk")
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    code, _, err = attribune("forget", tmp_path / "run", "--attribute", "user", "--value", "u3")
    assert code == 0, err
    assert '"u3"' not in (tmp_path / "disk" / "model" / "schema.json").read_text()
