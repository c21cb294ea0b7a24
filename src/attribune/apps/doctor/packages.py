"""Packages: which are required, which are installed, which can be imported."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from attribune.apps.doctor.findings import Problem, summary

__all__ = [
    "EXTRAS",
    "Extra",
    "Package",
    "inspect_packages",
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
    "sentences": "models as modules of sentence-transformers",
    "serve": "a prediction service",
    "tables": "spreadsheets as tables",
    "docs": "building these pages",
}
"""What each extra is for; those for the development of the library itself are left out."""

_MODULES = {
    "mkdocs-material": "material",
    "mkdocstrings-python": "mkdocstrings_handlers.python",
    "pyyaml": "yaml",
    "python-calamine": "python_calamine",
    "scikit-learn": "sklearn",
}
"""Packages whose module has another name."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package that is required, or that an extra brings, by its name for pip.

    Args:
        specifier: versions that are supported, such as ``>=2.8``; empty for any.
        version: the installed one; None where the package is missing.
        error: what importing it raised; None where it can be imported.
    """

    name: str
    specifier: str
    version: str | None
    error: str | None

    @property
    def state(self) -> str:
        """``ok``, ``missing``, ``broken`` or ``too old``."""
        if self.version is None:
            return "missing"
        if self.error is not None:
            return "broken"
        return "ok" if SpecifierSet(self.specifier).contains(self.version, prereleases=True) else "too old"

    @property
    def requirement(self) -> str:
        """The requirement as an argument of pip."""
        return f"'{self.name}{self.specifier}'" if self.specifier else self.name


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


def inspect_packages() -> tuple[tuple[Package, ...], tuple[Extra, ...]]:
    """Import the packages that the installed library requires, and those of its extras, one by one."""
    requirements = [Requirement(line) for line in metadata.requires("attribune") or ()]

    def select(extra: str) -> dict[str, str]:
        """Select what is required with an extra, or with the empty one always."""
        return {
            requirement.name: str(requirement.specifier)
            for requirement in requirements
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        }

    required = select("")
    extras = []
    for name, purpose in EXTRAS.items():
        added = {package: specifier for package, specifier in select(name).items() if package not in required}
        extras.append(Extra(name=name, purpose=purpose, packages=tuple(map(_inspect_package, added, added.values()))))
    return tuple(map(_inspect_package, required, required.values())), tuple(extras)


def _inspect_package(name: str, specifier: str) -> Package:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name=name, specifier=specifier, version=None, error=None)
    try:
        importlib.import_module(_MODULES.get(name.lower(), name.replace("-", "_")))
        error = None
    except (Exception, SystemExit) as failure:  # a broken package raises whatever it likes
        error = summary(failure)
    return Package(name=name, specifier=specifier, version=version, error=error)


def problems_of_packages(packages: Sequence[Package]) -> Iterator[Problem]:
    """Find required packages that are missing, broken or too old; without the first two nothing works."""
    for package in packages:
        if package.state == "missing":
            yield Problem(what=f"{package.name} is missing", cure=f"pip install {package.requirement}", fatal=True)
        else:
            yield from _problems_of(package, fatal=True)


def problems_of_extras(extras: Sequence[Extra]) -> Iterator[Problem]:
    """Find optional packages that are broken or too old."""
    for package in dict.fromkeys(package for extra in extras for package in extra.packages):
        yield from _problems_of(package, fatal=False)


def _problems_of(package: Package, *, fatal: bool) -> Iterator[Problem]:
    """Say that an installed package is broken, which may be fatal, or too old."""
    if package.state == "broken":
        what = f"{package.name} {package.version} is installed and cannot be imported ({package.error})"
        yield Problem(what=what, cure=f"pip install --force-reinstall {package.requirement}", fatal=fatal)
    elif package.state == "too old":
        what = f"{package.name} {package.version} is not {package.specifier}"
        yield Problem(what=what, cure=f"pip install -U {package.requirement}")


def problems_of_own_modules() -> Iterator[Problem]:
    """Import the library: packages may be installed and incompatible."""
    try:
        importlib.import_module("attribune.training.train")
    except (Exception, SystemExit) as error:  # incompatible packages raise whatever they like
        yield Problem(
            what=f"attribune itself cannot be imported ({summary(error)})",
            cure="install Attribune again, in an environment of its own",
            fatal=True,
        )
