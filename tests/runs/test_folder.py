from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attribune.core.checksums import CHECKSUMS
from attribune.core.files import draft_of
from attribune.errors import ConfigError, ModelFolderError
from attribune.runs.folder import RunFolder
from attribune.runs.loading import load_run
from attribune.runs.recipe import Recipe


def recipe(**training: Any) -> Recipe:
    data = {"train": "a.csv", "text": "t", "label": "y"}
    return Recipe.from_dict({"data": data, "method": {"name": "none"}, "training": training})


def test_begin_writes_the_recipe_and_refuses_a_second_time(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    assert folder.begin(recipe(), resume=False) == recipe()
    assert folder.read_recipe() == recipe()
    with pytest.raises(ConfigError, match="has an interrupted run, which resume=True continues"):
        folder.begin(recipe(), resume=False)
    assert folder.begin(recipe(), resume=True) == recipe()


def test_changed_settings_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(recipe(epochs=3, seed=1), resume=False)
    with pytest.raises(ConfigError, match=r"training\.epochs: 3\.0 in the run, 4\.0 now; training\.seed: 1 in the run"):
        folder.begin(recipe(epochs=4, seed=2), resume=True)


def test_what_is_left_to_its_default_agrees_with_what_it_became(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(recipe(precision="float32", backbone_learning_rate=0.1), resume=False)
    assert folder.begin(recipe(precision="auto"), resume=True).training.backbone_learning_rate == 0.1


def test_a_recipe_cut_short_by_an_interruption_does_not_block_the_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    draft_of(folder.plan_file).write_text("data: ")
    folder.begin(recipe(), resume=False)
    assert [path.name for path in tmp_path.iterdir() if path.name != CHECKSUMS] == ["recipe.yaml"]


@pytest.mark.parametrize("kept", ["training.json", "checkpoints/checkpoint-5/trainer_state.json"])
def test_discard_takes_nothing_that_was_trained(tmp_path: Path, kept: str) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(recipe(), resume=False)
    folder.model.mkdir()
    (folder.model / "config.json").write_text("{")
    (folder.checkpoints / "checkpoint-5").mkdir(parents=True)
    (folder.path / kept).write_text("{}")
    folder.discard()
    assert folder.is_begun
    assert folder.model.is_dir()
    (folder.path / kept).unlink()
    folder.discard()
    assert not folder.path.exists()


def test_discard_leaves_what_it_does_not_know(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(recipe(), resume=False)
    (folder.path / "letter").write_text("dear")
    folder.discard()
    assert [path.name for path in folder.path.iterdir()] == ["letter"]


def test_folders_without_a_run_say_what_they_hold(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"has no recipe\.yaml \(empty\)"):
        load_run(tmp_path)
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(ModelFolderError, match=r"has no recipe\.yaml \(letter\)"):
        load_run(tmp_path)
    with pytest.raises(ModelFolderError, match="no such folder"):
        load_run(tmp_path / "none")


def test_a_run_that_is_gone_is_neither_changed_nor_made(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "moved")
    with pytest.raises(ModelFolderError, match="no such folder"), folder.changed():
        pass
    assert not folder.path.exists()
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(ModelFolderError, match="letter is a file"):
        RunFolder(tmp_path / "letter").read_results()


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"results": []}', "{"])
def test_results_of_something_else_are_refused(tmp_path: Path, content: str) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(ModelFolderError, match="is not the folder of a run"):
        folder.read_results()
    folder.summary_file.write_text(content)
    with pytest.raises(ModelFolderError, match=r"metrics\.json"):
        folder.read_results()


def test_the_folder_of_a_search_is_named(tmp_path: Path) -> None:
    """Its recipe is that of the best trial, and no run can be resumed there."""
    for name in ("search.json", "recipe.yaml"):
        (tmp_path / name).write_text("")
    with pytest.raises(ModelFolderError, match=r"the folder of a search, .* which are in .*recipe.yaml"):
        RunFolder(tmp_path).read_recipe()
