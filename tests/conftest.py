"""What all tests share: tiny backbones of every family, and the same random numbers for each test."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

# On tensors this small, threads cost five times what they save; the processes that tests start read it, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# No test asks the hub, which is tried for minutes where there is no network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# What a shell starts in the background ignores interrupts, and so would all that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import pytest
from made_once import MadeOnce

# A process that gives tests to workers imports nothing large.
if "PYTEST_XDIST_WORKER" in os.environ or not any(word.startswith(("-n", "--numprocesses")) for word in sys.argv):
    import shape_checks  # noqa: F401  before another conftest.py imports the package, whose functions it checks

if TYPE_CHECKING:
    from trained_runs import TrainedRuns
    from transformers import PreTrainedConfig, PreTrainedModel

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")
# What is synced to a disk no test can see; that it is asked for is tested where files are written.
os.fsync = lambda _descriptor: None

if sys.modules.get("attribune_lab", ...) is None:  # hidden, see `make test-without-lab`
    collect_ignore = ["lab", "docs"]  # the pages tell of the lab, too

CHANGED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests of each, in random order")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave most cases to ``make test-all`` where a mark says so, before marks choose; then put all in their order."""
    _leave_cases_out(items)
    yield
    _put_in_order(config, items)


def _leave_cases_out(items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None and item.get_closest_marker("exhaustive") is None:
            function = item.nodeid.split("[")[0]
            if seen[function] % mark.args[0] != 0:
                item.add_marker("exhaustive")
            seen[function] += 1


def _put_in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that have slow tests, so that no worker is left with one at the end; or in any order."""
    seed = config.getoption("--shuffle")
    if seed is None:
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)
    else:
        chance = random.Random(seed)
        places = {path: chance.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (places[item.path], chance.random()))


def pytest_collection_finish() -> None:
    """Take what is loaded by now out of the garbage collector's rounds, and let trainings ask for none of their own."""
    gc.collect()
    gc.freeze()
    memory = sys.modules.get("accelerate.utils.memory")
    if memory is not None:
        memory.gc = SimpleNamespace(collect=lambda: 0)  # type: ignore[attr-defined]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a test changed what all tests read."""
    if not hasattr(session.config, "workerinput"):
        base: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        session.config.stash[CHANGED] = changed = MadeOnce(base / "trained").changed()
        if changed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the files that a test changed."""
    for file in config.stash.get(CHANGED, []):
        terminalreporter.write_line(f"FAILED: a test changed {file}, which others read: let it take a copy", red=True)


def pytest_unconfigure() -> None:
    """Give it back to the collector, for libraries that say at exit what was never freed."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    import shape_checks
    import torch

    shape_checks.CALLS.made = 0
    torch.manual_seed(17)
    torch.set_num_threads(1)  # where cores are busy, several threads of so small a model wait for each other


@pytest.fixture(scope="session")
def trained_runs(tmp_path_factory: pytest.TempPathFactory) -> TrainedRuns:
    """Runs, tables and backbones that are made once for all tests of all workers."""
    from trained_runs import TrainedRuns

    base = tmp_path_factory.getbasetemp()
    return TrainedRuns((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained")


@pytest.fixture(scope="session")
def backbone(trained_runs: TrainedRuns) -> Path:
    """The folder of a tiny BERT."""
    return trained_runs.backbone()


@pytest.fixture(scope="session")
def data(trained_runs: TrainedRuns) -> Path:
    """The rows with which most runs are trained, as a table."""
    from trained_runs import ROWS

    return trained_runs.table(ROWS)


@pytest.fixture
def tiny_config() -> Callable[[str], PreTrainedConfig]:
    """Factory: the configuration of a tiny backbone of a family."""
    import families

    return families.tiny_config


@pytest.fixture
def tiny_backbone() -> Callable[..., PreTrainedModel]:
    """Factory: a tiny backbone of a family with deterministic random weights."""
    import families

    return families.tiny_backbone
