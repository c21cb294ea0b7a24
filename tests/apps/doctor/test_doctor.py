"""`attribune doctor`: what it finds, and that nothing broken breaks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Outcome
from lab_methods import needs_lab
from packaging.requirements import Requirement

from attribune.apps import doctor
from attribune.apps.doctor import state_of
from attribune.backbones.loading import DEFAULT_BACKBONE
from attribune.core import threads

Run = Callable[..., Outcome]
SRC = Path(doctor.__file__).parents[2]


@pytest.fixture
def few_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One needed package and none of the extras: importing all of them takes seconds."""
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: ["torch>=2.8", 'optuna>=4; extra == "search"'])


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process that keeps the machine busy while the tests run."""
    monkeypatch.setattr(threads, "busy_cores", lambda: 0.0)


def in_a_process(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command where the modules in a folder go before those that are installed."""
    paths = os.pathsep.join([str(folder), str(SRC)])
    command = [sys.executable, "-m", "attribune", "doctor", *words]
    variables = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_every_extra_for_users_is_explained() -> None:
    project = tomllib.loads((SRC.parent / "pyproject.toml").read_text())["project"]
    assert set(doctor.EXTRAS) == set(project["optional-dependencies"]) - {"test", "lint"}


@pytest.mark.usefixtures("few_packages")
def test_what_is_said_here(attribune: Run) -> None:
    code, out, err = attribune("doctor")
    assert (code, err) == (0, "")
    said = [f"attribune {metadata.version('attribune')}, Python ", f"\n  torch  {torch.__version__}\n"]
    said += [f"{DEFAULT_BACKBONE}, unless another is named", "search of hyperparameters: installed"]
    assert [part for part in said if part not in out] == []


@pytest.mark.usefixtures("few_packages")
def test_json_holds_what_the_lines_say(attribune: Run) -> None:
    code, out, _ = attribune("doctor", "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    assert found["packages"] == [
        {"name": "torch", "specifier": ">=2.8", "version": torch.__version__, "error": None, "state": "ok"}
    ]
    assert found["used"]["threads"] == torch.get_num_threads() == 1
    assert found["used"]["precision"] in ("bf16", "float32")
    assert found["machine"]["memory_gb"]["total"] > 0.1
    assert {extra["name"] for extra in found["extras"]} == set(doctor.EXTRAS)
    assert found["usable"] is True


@needs_lab
@pytest.mark.slow
@pytest.mark.parametrize("form", ["lines", "json"])
def test_it_runs_where_nothing_can_be_imported(form: str, tmp_path: Path) -> None:
    for line in metadata.requires("attribune") or ():
        name = Requirement(line).name
        module = doctor._MODULES.get(name.lower(), name.replace("-", "_"))
        (tmp_path / f"{module}.py").write_text("raise SystemExit('no')\n")
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")
    (tmp_path / "attribune.py").unlink()  # extras may name each other
    for module in ("lazy_loader", "packaging"):  # without which `import attribune` fails
        (tmp_path / f"{module}.py").unlink()
    ended = in_a_process(tmp_path, *(["--json"] if form == "json" else []), HF_HUB_OFFLINE="1")
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    assert "attribune doctor: error: the library cannot be used here" in ended.stderr
    if form == "json":
        examined = json.loads(ended.stdout)
        working = {package["name"] for package in examined["packages"] if package["state"] != "broken"}
        assert working == {"lazy-loader", "packaging"}
        assert examined["used"] == {"device": "cpu", "threads": None, "precision": None, "backbone": None}
        assert not examined["usable"]
    else:
        what = "and cannot be imported (OSError: libcudart.so.12: cannot open shared object file)\n"
        assert f"{what}  cure: pip install --force-reinstall 'torch>=" in ended.stdout
        assert "threads    not known" in ended.stdout


@pytest.mark.parametrize(
    ("version", "specifier", "error", "state"),
    [
        (None, ">=2.8", None, "missing"),
        ("2.13.0+cpu", ">=2.8", None, "ok"),
        ("2.9.0rc1", ">=2.8", None, "ok"),
        ("2.7.1", ">=2.8", None, "too old"),
        ("2.8", ">=2.8", None, "ok"),
        ("3.0", ">=2.8", "ImportError", "broken"),
        ("3.0", "", None, "ok"),
    ],
)
def test_states_of_a_package(version: str | None, specifier: str, error: str | None, state: str) -> None:
    assert state_of(version, specifier, error) == state


def test_requirements_are_read_whatever_their_form(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["torch>=2.8", "x.y", 'optuna[all]>=4.5,!=4.6; extra == "search"', 'a-b; extra == "serve"']
    lines += ['c; sys_platform == "none" and extra == "serve"', 'd>1; extra == "test"', 'e; python_version > "3"']
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: lines)
    monkeypatch.setattr(doctor, "_inspect_package", lambda name, specifier: {"is": (name, specifier), "state": "ok"})
    needed, extras = doctor.inspect_packages()
    assert [one["is"] for one in needed] == [("torch", ">=2.8"), ("x.y", ""), ("e", "")]
    found = {extra["name"]: [one["is"] for one in extra["packages"]] for extra in extras if extra["packages"]}
    assert found == {"search": [("optuna", "!=4.6,>=4.5")], "serve": [("a-b", "")]}


def test_missing_and_old_packages_have_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["torch>=99", "no-such-package>=1.2", 'optuna>=99; extra == "search"']
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: lines)
    needed, extras = doctor.inspect_packages()
    found = doctor.problems_of_packages(needed, extras)
    assert [(problem["cure"], problem["fatal"]) for problem in found] == [
        ("pip install -U 'torch>=99'", False),
        ("pip install 'no-such-package>=1.2'", True),
        ("pip install -U 'optuna>=99'", False),
    ]
    assert not next(extra for extra in extras if extra["name"] == "search")["installed"]


def test_packages_that_do_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise AttributeError("module 'transformers' has no attribute 'Trainer'")

    monkeypatch.setattr(doctor.importlib, "import_module", fail)
    (problem,) = doctor.problems_of_own_modules()
    assert (problem["fatal"], "has no attribute 'Trainer'" in problem["what"]) == (True, True)


USED: dict[str, Any] = {"device": "cpu", "threads": 1, "precision": "float32", "backbone": None}


def problems(*, cores: int = 2, gpus: Sequence[str] = (), **used: Any) -> list[dict[str, Any]]:
    return [*doctor.problems_of_machine({"cores": cores, "gpus": [*gpus]}, {**USED, **used})]


def test_one_thread_on_many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (problem,) = problems(cores=16)
    assert problem["what"] == "PyTorch uses 1 thread of 16 cores, since OMP_NUM_THREADS is 1"
    assert problem["cure"] == "unset OMP_NUM_THREADS"
    assert problems(cores=2) == problems(cores=16, threads=16) == []


@pytest.mark.usefixtures("few_packages")
def test_a_busy_machine(monkeypatch: pytest.MonkeyPatch, attribune: Run) -> None:
    monkeypatch.setattr(threads, "busy_cores", lambda: 99.0)
    monkeypatch.setattr(doctor, "quota_cores", lambda: 1.5)
    monkeypatch.setattr(doctor, "busy_cores", lambda: 7.25)
    monkeypatch.setattr(doctor, "_threads", lambda: 2)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)
    out = attribune("doctor")[1]
    said = [", with a quota of 1.5\n", "\n  load    7.2 cores busy\n"]
    said += ["\n  cure: set OMP_WAIT_POLICY=PASSIVE before Python starts, or OMP_NUM_THREADS=1\n"]
    assert [part for part in said if part not in out] == []
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert "2 threads leave their cores to others while they wait" in attribune("doctor")[1]


def test_a_gpu_that_pytorch_does_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(torch.version, "cuda", None)
    (problem,) = problems()
    assert problem["what"] == "there is an NVIDIA driver, but PyTorch was built without CUDA"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    (problem,) = problems()
    assert "with CUDA 13.0, which finds no device" in problem["what"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert problems() == []


@pytest.mark.usefixtures("few_packages")
def test_gpus_are_listed(monkeypatch: pytest.MonkeyPatch, attribune: Run) -> None:
    gpu = {"name": "NVIDIA Something", "memory_gb": 24.0, "capability": "8.9"}
    monkeypatch.setattr(doctor, "_gpus", lambda: [gpu])
    out = attribune("doctor")[1]
    assert "GPU 0   NVIDIA Something, 24.0 GB, compute capability 8.9" in out
    assert "device     NVIDIA Something" in out


def test_the_default_backbone_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("attribune.backbones.loading.locate_backbone", lambda name: name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: None)
    backbone = doctor._backbone()
    assert backbone == {"name": DEFAULT_BACKBONE, "path": None}
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    assert problems(gpus=["one"], threads=2, backbone=backbone) == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (problem,) = problems(gpus=["one"], threads=2, backbone=backbone)
    assert "is not here, and HF_HUB_OFFLINE forbids the network" in problem["what"]
    assert "--backbone" in problem["cure"]


def test_folders_that_cannot_be_written_or_are_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "file" / "hub"))
    found = doctor.inspect_folders()
    (problem,) = [problem for problem in doctor.problems_of_folders(found) if str(tmp_path) in problem["what"]]
    assert problem["what"].startswith(f"{tmp_path}/file/hub cannot be written (")
    assert problem["cure"] == "set HF_HOME to a folder that you may write to, on a disk with free space"
    assert not (tmp_path / "file" / "hub").exists()
    assert sorted(os.listdir(tmp_path)) == ["file"]

    monkeypatch.setattr(doctor, "_MIN_FREE", 1e9)
    full = list(doctor.problems_of_folders(found))
    assert len(full) == len(found) == 4
    assert any("GB free; it is for runs" in problem["what"] for problem in full)


def test_the_page_names_every_extra() -> None:
    page = (SRC.parent / "docs" / "install.md").read_text(encoding="utf-8")
    for name, purpose in doctor.EXTRAS.items():
        assert f"| `{name}` | {purpose} |" in page
