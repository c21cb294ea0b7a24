"""Packages: which are needed, which are installed, which can be imported."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from attribune.doctor.findings import Problem, said

__all__ = [
    "EXTRAS",
    "Extra",
    "Package",
    "look_at_packages",
    "problems_of_extras",
    "problems_of_own_modules",
    "problems_of_packages",
]

EXTRAS = {
    "explain": "why a prediction came out as it did",
    "export": "models for ONNX Runtime",
    "playground": "a page in the browser to try a model",
    "ray": "prediction and benchmarks on a cluster",
    "search": "search of hyperparameters",
    "serve": "a prediction service",
    "docs": "building these pages",
}
"""What each extra is for; those for the development of the library itself are left out."""

_MODULES = {
    "mkdocs-material": "material",
    "pyyaml": "yaml",
    "scikit-learn": "sklearn",
}  # named otherwise than the package
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[.*?\])?\s*(?:>=\s*(?P<least>[\w.]+))?[^;]*(?:;.*extra == .(?P<extra>[\w-]+).)?"
)


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that is needed, or that an extra brings.

    Args:
        name: as pip knows it.
        least: the oldest version that will do; empty where any does.
        version: that is installed; None where it is missing.
        error: what importing it led to; None where it can be imported.
    """

    name: str
    least: str
    version: str | None
    error: str | None

    @property
    def state(self) -> str:
        """``ok``, ``missing``, ``broken`` or ``too old``."""
        if self.version is None:
            return "missing"
        if self.error is not None:
            return "broken"
        return "too old" if _numbers(self.version) < _numbers(self.least) else "ok"

    @property
    def wanted(self) -> str:
        """What pip is to be asked for."""
        return f"'{self.name}>={self.least}'" if self.least else self.name


@dataclass(frozen=True, kw_only=True)
class Extra:
    """Optional packages, and what they are for."""

    name: str
    purpose: str
    packages: tuple[Package, ...]

    @property
    def installed(self) -> bool:
        """Whether all its packages can be used."""
        return all(package.state == "ok" for package in self.packages)

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'attribune[{self.name}]'"


def look_at_packages() -> tuple[tuple[Package, ...], tuple[Extra, ...]]:
    """What the installed library says it needs, tried one by one."""
    found = [match for line in metadata.requires("attribune") or () if (match := _REQUIREMENT.match(line))]
    needed = tuple(_look_at(match["name"], match["least"]) for match in found if match["extra"] is None)
    extras = tuple(
        Extra(
            name=name,
            purpose=purpose,
            packages=tuple(_look_at(match["name"], match["least"]) for match in found if match["extra"] == name),
        )
        for name, purpose in EXTRAS.items()
    )
    return needed, extras


def _look_at(name: str, least: str | None) -> Package:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name=name, least=least or "", version=None, error=None)
    try:
        importlib.import_module(_MODULES.get(name.lower(), name.replace("-", "_")))
        error = None
    except (Exception, SystemExit) as failure:  # a broken package raises whatever it likes
        error = said(failure)
    return Package(name=name, least=least or "", version=version, error=error)


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()


def problems_of_packages(packages: Sequence[Package]) -> Iterator[Problem]:
    """Needed packages that are missing, broken or too old; without the first two nothing works."""
    for package in packages:
        if package.state == "missing":
            yield Problem(what=f"{package.name} is missing", cure=f"pip install {package.wanted}", fatal=True)
        elif package.state == "broken":
            yield _broken(package, fatal=True)
        elif package.state == "too old":
            yield _too_old(package)


def problems_of_extras(extras: Sequence[Extra]) -> Iterator[Problem]:
    """Optional packages that are broken or too old."""
    for package in dict.fromkeys(package for extra in extras for package in extra.packages):
        if package.state == "broken":
            yield _broken(package, fatal=False)
        elif package.state == "too old":
            yield _too_old(package)


def _broken(package: Package, *, fatal: bool) -> Problem:
    return Problem(
        what=f"{package.name} {package.version} is installed and cannot be imported ({package.error})",
        cure=f"pip install --force-reinstall {package.wanted}",
        fatal=fatal,
    )


def _too_old(package: Package) -> Problem:
    return Problem(
        what=f"{package.name} {package.version} is older than {package.least}", cure=f"pip install -U {package.wanted}"
    )


def problems_of_own_modules() -> Iterator[Problem]:
    """Packages may be there and not go together."""
    try:
        importlib.import_module("attribune.training.run")
    except (Exception, SystemExit) as error:  # whatever an unfitting package leads to
        yield Problem(
            what=f"attribune itself cannot be imported ({said(error)})",
            cure="pip install -U attribune, in an environment of its own",
            fatal=True,
        )
