"""Freed memory stays with the process, in one of its own so that this one's settings do not matter."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "LD_PRE"))}
_FAULTS = """
import re, resource, torch
from attribune.core.process import keep_freed_memory, return_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(1 << 24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
left = faults()
kept = keep_freed_memory()
faults()
again = faults()
tensor = torch.ones(1 << 25)
small = [torch.ones(1 << 12) for _ in range(100)]
del tensor
held = resident()
print(left, kept, again, return_freed_memory(), held - resident())
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_memory_of_tensors_is_not_asked_for_again_and_given_back_when_asked() -> None:
    words = [sys.executable, "-c", _FAULTS]
    left, kept, again, given, less = subprocess.run(
        words, env=_CLEAN, check=True, capture_output=True, text=True
    ).stdout.split()
    assert int(left) > 200, "ten tensors of 64 MB begin with the system handing out pages, of 2 MB at most"
    assert (kept, int(again)) == ("True", pytest.approx(0, abs=100))
    assert given == "True"
    assert int(less) > 100_000, "a tensor has 131,072 kB"


def test_settings_of_the_user_are_left_alone() -> None:
    words = [sys.executable, "-c", "from attribune.core.process import keep_freed_memory; print(keep_freed_memory())"]
    environment = {**_CLEAN, "MALLOC_TOP_PAD_": "100000"}
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_too_few_addresses_are_said_before_libraries_are_loaded() -> None:
    """Some libraries abort the process, and one never ends."""
    code = "import resource as r, sys; r.setrlimit(r.RLIMIT_AS, (10**9, 10**9)); from attribune.apps.cli import main; "
    words = [sys.executable, "-c", f"{code}sys.exit(main(['describe', 'run']))"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("attribune describe: error: this process may use 1.0 GB of addresses (ulimit -v)")


_END = """
import atexit, io, os, sys, threading
from attribune.core.process import OrderlyEnd
end = OrderlyEnd()
import pyarrow as pa
from pyarrow import csv
waiting, awake = os.pipe()
class Table(io.RawIOBase):
    blocks = [b"a\\n" + b"1\\n" * 9999, b"1\\n" * 9999, b"1\\n" * 9999]
    def readable(self):
        return True
    def read(self, size=-1):
        return self.blocks.pop(0) if self.blocks else os.read(waiting, 1)  # on a thread of Arrow
class Torn:
    def __del__(self, wake=os.write):
        wake(awake, b"1")
kept, ended = Torn(), threading.Event()
atexit.register(print, "handler")
threading.Thread(target=lambda: (ended.wait(), print("thread"))).start()
reader = csv.open_csv(pa.PythonFile(Table()), read_options=csv.ReadOptions(block_size=9999))
print("buffered", end=" ")
ended.set()
end.exit(3)
"""


def test_a_process_ends_in_order_and_tears_nothing_down() -> None:
    """A thread of Arrow that goes on in Python while objects are torn down would abort it."""
    done = subprocess.run([sys.executable, "-c", _END], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "buffered thread\nhandler\n", "")


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--version"], 0), (["nonsense"], 2), (["methods", "nonsense"], 1), (["completion", "bash"], 0)],
)
def test_the_command_ends_with_the_code_of_its_verb(words: list[str], code: int) -> None:
    done = subprocess.run([sys.executable, "-m", "attribune", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, bool(done.stdout), bool(done.stderr)) == (code, code == 0, code != 0)
