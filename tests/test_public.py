"""What `import attribune` offers."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import attribune

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there_and_explained() -> None:
    assert list(attribune.__all__) == sorted(set(attribune.__all__))
    for name in attribune.__all__:
        value = getattr(attribune, name)
        assert value.__module__.startswith("attribune."), name
        assert (inspect.getdoc(value) or "").strip(), name
        assert name in dir(attribune)


def test_public_names_are_those_of_their_modules() -> None:
    from attribune.methods import Injector
    from attribune.training.train import train

    assert attribune.Injector is Injector
    assert attribune.train is train


def test_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert attribune.__version__ == metadata.version("attribune") == version
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(AttributeError, match="Injectr"):
        attribune.Injectr  # noqa: B018


def test_a_name_of_the_lab_says_where_it_is() -> None:
    with pytest.raises(AttributeError, match=r"attribune has no 'Hcsc', which is attribune_lab\.methods\.hcsc\.Hcsc"):
        attribune.Hcsc  # noqa: B018


def test_every_error_is_an_attribune_error() -> None:
    for name in ("ConfigError", "DataError", "ModelFolderError"):
        assert issubclass(getattr(attribune, name), attribune.AttribuneError)
    assert issubclass(attribune.AttribuneError, ValueError)
    assert issubclass(attribune.AttribuneWarning, UserWarning)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import attribune", "import attribune.apps.cli"])
def test_importing_does_not_load_torch(statement: str) -> None:
    """`attribune --help` answers at once."""
    code = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0
