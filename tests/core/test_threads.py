"""Cores of a container's quota, and threads on a busy machine: what the user has set stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from live_service import until

from attribune.core import threads

V1, V2 = {"cpu.cfs_quota_us": "250000", "cpu.cfs_period_us": "100000"}, {"cpu.max": "150000 100000"}
NONE_1, NONE_2 = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, {"cpu.max": "max 100000"}
FREE = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_", "MKL_"))}


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {"": V2}, 1.5),
        ("0::/\n", {"": NONE_2}, None),
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"": NONE_2, "a": {"cpu.max": "400000 100000"}, "a/b": NONE_2}, 4),
        ("0::/a/b\n", {"a": {"cpu.max": "400000 100000"}, "a/b": {"cpu.max": "50000 100000"}}, 0.5),
        ("2:memory:/m\n1:cpu,cpuacct:/c\n", {"cpu,cpuacct/c": V1, "memory/m": V2}, 2.5),
        ("1:cpu:/out/of/sight\n", {"cpu": V1}, 2.5),
        ("1:cpu:/\n", {"cpu": NONE_1}, None),
        ("1:cpu:/\n", {"cpu": {"cpu.cfs_quota_us": "none"}}, None),
    ],
)
def test_quotas_of_both_versions(
    own: str, files: dict[str, dict[str, str]], quota: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").write_text(own)
    for folder, contents in files.items():
        (tmp_path / "groups" / folder).mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (tmp_path / "groups" / folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(threads, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(threads, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(threads, "_allowed_cores", lambda: 3)
    assert threads.quota_cores() == quota
    assert threads.core_count() == (3 if quota is None else max(1, min(3, int(quota))))


@pytest.mark.parametrize(
    ("given", "variables", "limited"), [(4, {}, 2), (3, {}, 3), (4, {"OMP_NUM_THREADS": "4"}, 4), (1, {}, 1)]
)
def test_threads_are_no_more_than_the_quota(
    given: int, variables: dict[str, str], limited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that differs from the default of PyTorch, as many as there are cores, is the user's own."""
    monkeypatch.setattr(os, "environ", {**FREE, **variables})
    monkeypatch.setattr(threads, "_allowed_cores", lambda: 4)
    monkeypatch.setattr(threads, "quota_cores", lambda: 2.5)
    torch.set_num_threads(given)
    threads.limit_threads()
    assert torch.get_num_threads() == limited


def test_what_is_said_of_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(threads, "busy_cores", lambda: 0.9)
    monkeypatch.setattr(os, "environ", FREE.copy())
    assert threads.find_busy_machine(4) is None
    monkeypatch.setattr(threads, "busy_cores", lambda: 1.0)
    assert threads.find_busy_machine(1) is None
    found = threads.find_busy_machine(4)
    assert str(found).startswith("this machine is busy (load 1.0 on 4 cores), and 4 threads keep their cores")
    assert str(found).endswith("times slower: set OMP_WAIT_POLICY=PASSIVE before Python starts, or OMP_NUM_THREADS=1")
    for policy, said in (("passive", "4 threads leave their cores to others"), ("ACTIVE", "as the environment says")):
        os.environ["OMP_WAIT_POLICY"] = policy
        found = threads.find_busy_machine(4)
        assert (said in found.what, found.cure) == (True, None)


@pytest.mark.parametrize(
    ("after", "cores"),
    [
        ("cpu 1 1 1 9 1 1 1 1 0 0", 0.0),
        ("cpu 3 2 2 3 2 1 1 1 0 0", 16 / 7),
        ("cpu 1 1 1 3 2 1 1 2 0 0", 0.0),
        ("cpu 1 1 1 1 1 1 1 1 0 0", 0.0),
        ("cpu 1 1 1", None),
    ],
)
def test_busy_cores_are_those_that_neither_idle_nor_wait(
    after: str, cores: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "stat"
    file.write_text("cpu 1 1 1 1 1 1 1 1 0 0\ncpu0 9 9\n")
    monkeypatch.setattr(threads, "_TIMES", file)
    monkeypatch.setattr(threads.time, "sleep", lambda _: file.write_text(f"{after}\n"))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert threads.busy_cores() == (None if cores is None else pytest.approx(cores))
    monkeypatch.setattr(threads, "_TIMES", tmp_path / "none")
    assert threads.busy_cores() is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts the time of its cores")
def test_a_process_of_another_makes_the_machine_busy() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            until(lambda: (threads.busy_cores() or 0.0) > 0.5)
        finally:
            other.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("load", "variables", "policy"),
    [
        (9.0, {}, "PASSIVE"),
        (0.0, {}, None),
        (9.0, {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"),
        (9.0, {"GOMP_SPINCOUNT": "100"}, None),
    ],
)
def test_the_policy_is_set_before_torch_is_loaded(load: float, variables: dict[str, str], policy: str | None) -> None:
    code = (
        f"import os, sys; from attribune.core import threads; threads.busy_cores = lambda: {load}; "
        "from attribune.apps.cli import main; main([]); "
        "print('torch' in sys.modules, os.environ.get('OMP_WAIT_POLICY'))"
    )
    environment = {**FREE, **variables}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == f"False {policy}"


def test_a_policy_after_torch_would_do_nothing_and_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "busy_cores", lambda: 99.0)
    environment: dict[str, str] = {}
    assert not threads.wait_passively(environment)
    assert environment == {}
