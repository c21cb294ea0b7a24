"""Freed memory stays with the process, in one of its own so that this one's settings do not matter."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_FAULTS = """
import resource, sys, torch
from attribune.core.process import keep_freed_memory
done = keep_freed_memory() if sys.argv[1] == "keep" else None
for _ in range(30):
    torch.ones(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(1 << 24)
print(done, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(word: str, **settings: str) -> tuple[str, int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "LD_PRE"))}
    words = [sys.executable, "-c", _FAULTS, word]
    done, count = subprocess.run(
        words, env={**clean, **settings}, check=True, capture_output=True, text=True
    ).stdout.split()
    return done, int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_memory_of_tensors_is_not_asked_for_again() -> None:
    assert faults("leave")[1] > 1000, "ten tensors of 64 MB begin with the system handing out pages"
    assert faults("keep") == ("True", pytest.approx(0, abs=100))


def test_settings_of_the_user_are_left_alone() -> None:
    assert faults("keep", MALLOC_TOP_PAD_="100000")[0] == "False"


_RETURNED = """
import re, torch
from attribune.core.process import keep_freed_memory, return_freed_memory
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
keep_freed_memory()
tensor = torch.ones(1 << 25)
small = [torch.ones(1 << 12) for _ in range(100)]
del tensor
held = resident()
print(return_freed_memory(), held - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_kept_memory_is_given_back_when_asked() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "LD_PRE"))}
    words = [sys.executable, "-c", _RETURNED]
    done, less = subprocess.run(words, env=clean, check=True, capture_output=True, text=True).stdout.split()
    assert done == "True"
    assert int(less) > 100_000, "of 131,072 kB"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_too_few_addresses_are_said_before_libraries_are_loaded() -> None:
    """Some libraries abort the process, and one never ends."""
    code = "import resource as r, sys; r.setrlimit(r.RLIMIT_AS, (10**9, 10**9)); from attribune.apps.cli import main; "
    words = [sys.executable, "-c", f"{code}sys.exit(main(['describe', 'run']))"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("attribune describe: error: this process may use 1.0 GB of addresses (ulimit -v)")
