"""The wheel that users install: what is in it, and that it works without the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from trained_runs import TrainedRuns

import attribune

ROOT = Path(__file__).parents[1]
PACKAGE = Path(attribune.__file__).parent
SKIPPED = shutil.ignore_patterns("__pycache__", "*.egg-info")

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy, so that nothing is left in the repository, and nothing of an earlier build gets in."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(PACKAGE.parent, folder / "source" / "src", ignore=SKIPPED)
    for name in ("tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    words = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, folder / "source"]
    run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that has the wheel, and otherwise what is installed here."""
    folder = tmp_path_factory.mktemp("environment")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    programs = folder / "bin"
    python = programs / "python"
    words = ["--python", python, "install", "--no-deps", "--no-index", wheel]
    run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], folder)
    # A plain path: .pth files in it, such as that of an editable installation, are not read.
    packages = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
    (Path(packages) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return programs


def run(command: list[str | Path], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        notes = {name.partition(".dist-info/")[2] for name in archive.namelist() if ".dist-info/" in name}
    expected = {
        path.relative_to(PACKAGE.parent).as_posix()
        for package in (PACKAGE, PACKAGE.with_name("attribune_lab"))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files == expected
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= notes
    for name in ("py.typed", "__init__.pyi", "runs/presets/injectors-2022.yaml"):
        assert f"attribune/{name}" in files
    assert {"attribune_lab/benchmark/experiments/small.yaml", "attribune_lab/datasets/cards/glue.toml"} <= files
    assert {"attribune/models/templates/card.md.j2", "attribune/runs/templates/run_card.md.j2"} <= files
    assert not [name for name in files if "test" in Path(name).stem.split("_") or name.startswith("benchmarks/")]


def test_the_command_works(installed: Path, tmp_path: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert run([installed / "attribune", "--version"], tmp_path).split() == ["attribune", version]
    assert "injector" in run([installed / "attribune", "methods"], tmp_path)
    assert run([installed / "python", "-m", "attribune", "data", "list"], tmp_path).startswith("name")


def test_every_public_name_is_there(installed: Path, tmp_path: Path) -> None:
    code = """
import attribune
from attribune_lab.benchmark.experiment import experiment_names, read_experiment
from attribune.runs.presets import preset_names, read_preset

print(attribune.__file__)
print(*(getattr(attribune, name).__name__ for name in attribune.__all__))
print(*(name for name in preset_names() if read_preset(name)))
for small, end in ((False, ""), (True, "-small")):
    print(*(f"{name}{end}" for name in experiment_names(small=small) if read_experiment(name, small=small)))
"""
    file, names, presets, *experiments = run([installed / "python", "-c", code], tmp_path).splitlines()
    assert Path(file).is_relative_to(installed.parent)
    assert names.split() == [getattr(attribune, name).__name__ for name in attribune.__all__]
    assert presets.split() == sorted(path.stem for path in (PACKAGE / "runs" / "presets").glob("*.yaml"))
    written = {path.stem for path in (PACKAGE.with_name("attribune_lab") / "benchmark" / "experiments").glob("*.yaml")}
    assert set(" ".join(experiments).split()) == written


def test_three_lines_make_a_model(installed: Path, trained_runs: TrainedRuns, tmp_path: Path) -> None:
    (tmp_path / "backbone").symlink_to(trained_runs.backbone())
    code = """
import pandas as pd
from attribune import AttributeClassifier

df = pd.DataFrame({"review": ["great plot", "dull cast"] * 20, "user": ["u1", "u2", "u3", "u4"] * 10})
y = ["good", "bad"] * 20
model = AttributeClassifier("review", attributes=["user"], backbone="backbone", max_length=16, epochs=1, verbose=False)
print(*model.fit(df, y).predict_proba(df).sum(axis=1).round(5))
print(*model.classes_)
"""
    sums, classes = run([installed / "python", "-c", code], tmp_path).splitlines()
    assert sums.split() == ["1.0"] * 40
    assert classes == "bad good"
