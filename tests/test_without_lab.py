"""The library where the lab has been taken away: it works, and says what is missing of what the lab would bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import make_model

pytestmark = pytest.mark.slow

HIDDEN = "import sys; sys.modules['attribune_lab'] = None\n"


def run_without_lab(code: str, *words: str | Path) -> str:
    """What a program prints that finds no lab, where every warning is an error."""
    command = [sys.executable, "-W", "error", "-c", HIDDEN + code, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_methods_and_verbs_are_those_of_the_library() -> None:
    said = run_without_lab(
        "from attribune.apps.cli import main\nmain(['methods', '--all'])\n"
        "try:\n    main(['data', '--help'])\nexcept SystemExit:\n    pass\n"
        "import attribune.training.train, attribune.analysis.evaluate, attribune.apps.estimators\n"
    )
    assert "injector" in said
    assert "hcsc" not in said
    assert "automl" not in said
    assert "judgements" in said
    assert "describe a data set" not in said
    assert "turn the files of the source" not in said


def test_what_is_asked_of_the_lab_is_named(tmp_path: Path) -> None:
    model = tmp_path / "automl"
    model.mkdir()
    (model / "automl.json").write_text("{}", encoding="utf-8")
    lab = pytest.importorskip("attribune_lab.methods")
    make_model("bert", lab.Hcsc(attention_size=3, vector_size=5)).save_pretrained(tmp_path / "hcsc")
    said = run_without_lab(
        "from attribune.errors import AttribuneError\nfrom attribune.models.auto import load_saved\n"
        "from attribune.runs.learner import read_method\n"
        "for call in [lambda: load_saved(sys.argv[1]), lambda: load_saved(sys.argv[2]),"
        " lambda: read_method({'name': 'hcsc'}),"
        " lambda: read_method({'name': 'automl'})]:\n"
        "    try:\n        call()\n    except AttribuneError as error:\n        print(error)\n",
        model,
        tmp_path / "hcsc",
    )
    one, saved, two, three = said.splitlines()
    cure = "is in the package attribune_lab, which is not there: install attribune again, as a whole"
    assert one == f"{model}: the method 'automl' of this model {cure}"
    assert f"the method 'hcsc' {cure}" in saved
    assert two == f"the method 'hcsc' {cure}"
    assert three == f"the method 'automl' {cure}"
