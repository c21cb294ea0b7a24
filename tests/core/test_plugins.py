"""What other packages offer under `attribune.*` is found by entry points, and what is broken stops nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attribune.core import plugins
from attribune.errors import AttribuneWarning
from attribune.methods.config import MethodConfig

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Factory: a package of one module, with its entry points, on the path of this process."""

    def write(code: str, entry_points: str) -> None:
        (tmp_path / "wine_plugin.py").write_text(code, encoding="utf-8")
        notes = tmp_path / "wine_plugin-1.0.dist-info"
        notes.mkdir()
        (notes / "METADATA").write_text("Metadata-Version: 2.1\nName: wine-plugin\nVersion: 1.0\n", encoding="utf-8")
        (notes / "entry_points.txt").write_text(entry_points, encoding="utf-8")

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wine_plugin", raising=False)
    plugins._entry_points.cache_clear()
    yield write
    plugins._entry_points.cache_clear()


def test_what_a_package_offers_is_loaded_by_its_name(install: Install) -> None:
    install(
        "from attribune.methods.config import MethodConfig\nclass Gate(MethodConfig):\n    name = 'gate'\n",
        "[attribune.methods]\ngate = wine_plugin:Gate\n[attribune.tasks]\nother = wine_plugin:Gate\n",
    )
    loaded = plugins.load_plugins("methods", MethodConfig)
    assert loaded["gate"].name == "gate"
    assert "other" not in loaded


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('no driver')", "RuntimeError: no driver"),
        ("Other = 1", "AttributeError"),
        ("class Gate: pass", "is not a MethodConfig"),
        ("Gate = 3", "TypeError: 3 is not a MethodConfig"),
    ],
)
def test_what_is_broken_is_named_and_left_out(install: Install, code: str, message: str) -> None:
    install(code, "[attribune.methods]\ngate = wine_plugin:Gate\n")
    with pytest.warns(AttribuneWarning, match=r"'gate' of attribune\.methods is left out.*wine-plugin") as caught:
        assert "gate" not in plugins.load_plugins("methods", MethodConfig)
    assert message in str(caught[0].message)


MODULES = {
    "gate": "from attribune.methods import METHODS, Injector\nclass Gate(Injector):\n    name = 'gate'\n",
    "count": "from attribune.tasks import TASKS, Regression\nclass Count(Regression):\n    kind = 'count'\n",
    "domain": "from attribune.schema import Categorical\nclass Domain(Categorical):\n    kind = 'domain'\n",
    "family": "from dataclasses import replace\nfrom attribune.backbones.families import placement_for\n"
    "row = replace(placement_for('bert'), model_types=('ernie',))\n",
    "wine": "from dataclasses import replace\nfrom attribune_lab.datasets.sets import find_card\n"
    "card = replace(find_card('critics'), name='wine-notes')\n",
}
ENTRIES = """
[attribune.methods]
gate = wine_plugin.gate:Gate
adapter = wine_plugin.gate:Gate
[attribune.tasks]
count = wine_plugin.count:Count
[attribune.attributes]
domain = wine_plugin.domain:Domain
[attribune.backbones]
ernie = wine_plugin.family:row
[attribune.datasets]
wine-notes = wine_plugin.wine:card
"""
CHECK = """
import attribune.apps.cli.train
from attribune.backbones.families import placement_for
from attribune_lab.datasets.sets import find_card
from attribune.methods import METHODS, Adapter
from attribune.schema.kinds import KINDS
from attribune.tasks import TASKS
assert METHODS["gate"].name == "gate" and METHODS["adapter"] is Adapter
assert TASKS["count"].kind == "count" and KINDS["domain"].kind == "domain"
assert placement_for("ernie").layers == "encoder.layer.*" and find_card("wine-notes").title
"""


ROOMS = (
    "attribune.methods",
    "attribune.tasks",
    "attribune.schema",
    "attribune.backbones.families",
    "attribune_lab.datasets.sets",
)
# Each room is imported first in a fork of its own, of a process that has the libraries below loaded, but no room.
FORKS = """
import os, sys
import torch, transformers
from transformers import AutoModel, PreTrainedModel
sys.path.insert(0, sys.argv[1])
for room in sys.argv[2:]:
    assert not any(name.startswith("attribune") for name in sys.modules)
    child = os.fork()
    if not child:
        exec(f"import {room}")
        exec(CHECK)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, f"{room} came first"
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("rooms", [ROOMS[:1], ROOMS[1:]])
def test_every_room_is_extended_whichever_is_loaded_first(
    rooms: tuple[str, ...], install: Install, tmp_path: Path
) -> None:
    install("", ENTRIES)
    (tmp_path / "wine_plugin.py").unlink()
    (tmp_path / "wine_plugin").mkdir()
    for name, code in MODULES.items():
        (tmp_path / "wine_plugin" / f"{name}.py").write_text(code, encoding="utf-8")
    program = f"CHECK = {CHECK!r}\n{FORKS}"
    command = [sys.executable, "-c", program, tmp_path, *rooms]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
