"""Plant mistakes in the package and see which tests catch them.

    python benchmarks/mistakes.py --output benchmarks/results/mistakes.json

A seed draws the mistakes, two or three in each subpackage: a sign, an off-by-one, a swapped axis, a dropped condition,
a wrong default. Each is planted in a copy of the repository, where the tests of its subpackage run until one fails,
those of ``make check`` before the others of ``make test``; what survives them meets those of the other folders, and
then the tests that ``make test-all`` alone has. The table is written after each mistake, and a later call continues it.

Whole suites take long. ``--record FOLDER`` runs all tests once, without mistakes, and notes for each mistake which
tests run its statement, also in other processes. With ``--touched FOLDER``, mistakes meet only these.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src") / "attribune"
FOLDERS = {"functional": ("functional", "parity")}
"""Folders of tests of a subpackage, where they are more than the one of its name."""
AXES = ("transpose", "sum", "mean", "softmax", "unsqueeze")
"""Functions whose whole numbers are axes."""
SPEEDS = {"check": "not slow and not exhaustive", "test": "slow and not exhaustive", "test-all": "exhaustive"}
"""The tests that each of make's targets has beyond those of the one before it."""
KINDS = ("sign", "off by one", "swapped axis", "dropped condition", "wrong default")


@dataclass(frozen=True)
class Mistake:
    """One change of one place.

    Attributes:
        noted: line before which it can be noted that a test runs the statement.
    """

    kind: str
    file: str
    line: int
    was: str
    becomes: str
    start: int
    end: int
    noted: int

    @property
    def subpackage(self) -> str:
        return Path(self.file).relative_to(PACKAGE).parts[0].removesuffix(".py")

    def plant(self, root: Path) -> None:
        """Change the file below a root."""
        path = root / self.file
        path.write_bytes(self.planted_in(path.read_bytes()))

    def planted_in(self, source: bytes) -> bytes:
        """The changed text of the file."""
        return source[: self.start] + self.becomes.encode() + source[self.end :]


class Places(ast.NodeVisitor):
    """All mistakes that a file has room for."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source.encode()
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.statements: list[ast.stmt] = []
        self.found: list[Mistake] = []
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        """Visit a node, and remember the statements around it."""
        if _is_about_types(node):
            return
        is_statement = isinstance(node, ast.stmt)
        if is_statement:
            self.statements.append(node)  # type: ignore[arg-type]
        super().visit(node)
        if is_statement:
            self.statements.pop()

    def visit_BinOp(self, node: ast.BinOp) -> None:
        signs: dict[type, tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
        texts = (ast.JoinedStr, ast.List, ast.Tuple)
        is_text = any(
            isinstance(side, texts) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if type(node.op) in signs and not is_text:
            was, becomes = signs[type(node.op)]
            self._between("sign", node.left, node.right, was, becomes)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._replace("sign", node, self._text(node.operand))
        if isinstance(node.op, ast.Not):
            self._replace("dropped condition", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        others: dict[type, tuple[str, str]] = {
            ast.Lt: ("<", "<="),
            ast.LtE: ("<=", "<"),
            ast.Gt: (">", ">="),
            ast.GtE: (">=", ">"),
        }
        for operator, left, right in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
            if type(operator) in others:
                self._between("off by one", left, right, *others[type(operator)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            self._replace("off by one", node, str(node.value + 1))

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_span("dropped condition", left, node, self._text(left), right)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._replace("dropped condition", node.test, "True")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._replace("dropped condition", node.test, "True")
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg in ("dim", "axis") and _integer(node.value) is not None:
            self._swap(node.value)
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in AXES:
            for argument in node.args:
                self._swap(argument)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]:
            value = default.value if isinstance(default, ast.Constant) else None
            if isinstance(value, bool):
                self._replace("wrong default", default, str(not value))
            elif isinstance(value, int):
                self._replace("wrong default", default, str(value + 1))
            elif isinstance(value, float):
                self._replace("wrong default", default, str(value / 2 or 0.5))
        for part in node.body:
            self.visit(part)

    def _swap(self, axis: ast.AST) -> None:
        value = _integer(axis)
        if value is not None:
            self._replace("swapped axis", axis, str({-1: -2, -2: -1, 0: 1, 1: 0}.get(value, value - 1)))

    def _line(self, number: int) -> str:
        return self.source[self.starts[number - 1] : self.starts[number]].decode()

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _span(self, node: Any) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _replace(self, kind: str, node: ast.AST, becomes: str) -> None:
        self._add(kind, node, *self._span(node), becomes)

    def _replace_span(self, kind: str, first: ast.AST, whole: ast.AST, becomes: str, last: ast.AST) -> None:
        self._add(kind, whole, self._span(first)[0], self._span(last)[1], becomes)

    def _between(self, kind: str, left: ast.AST, right: ast.AST, was: str, becomes: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        place = self.source[start:end].decode().find(was)
        self._add(kind, right, start + place, start + place + len(was), becomes)

    def _add(self, kind: str, node: Any, start: int, end: int, becomes: str) -> None:
        if not self.statements:
            return
        around = self.statements[-1]
        if isinstance(around, ast.FunctionDef):  # a default: whoever runs the body can notice it
            noted = around.body[bool(ast.get_docstring(around)) and len(around.body) > 1].lineno
        else:
            beginnings = [one.lineno for one in self.statements]
            noted = next(line for line in reversed(beginnings) if not self._line(line).lstrip().startswith("elif"))
        was = self.source[start:end].decode()
        mistake = Mistake(kind, self.file, node.lineno, was, becomes, start, end, noted)
        self.found.append(mistake)


def _integer(node: ast.AST) -> int | None:
    """The value of a whole number, also of a negative one."""
    try:
        value = ast.literal_eval(node)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return None
    return value if type(value) is int else None


def _is_about_types(node: ast.AST) -> bool:
    """Whether a branch is read by type checkers alone."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def draw(count: int, seed: int) -> list[Mistake]:
    """Mistakes, equally many in each subpackage, one more in those with most code."""
    chance = random.Random(seed)
    places: dict[str, list[Mistake]] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")
        found = Places(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")).found
        if found and not name.startswith("_"):
            places.setdefault(name, []).extend(found)
    each, more = divmod(count, len(places))
    largest = sorted(places, key=lambda name: -len(places[name]))[:more]
    drawn = []
    for name in sorted(places):
        for kind in chance.sample(KINDS, each + (name in largest)):
            fitting = [one for one in places[name] if one.kind == kind] or places[name]
            mistake = chance.choice(fitting)
            while mistake in drawn or not _parses(mistake):  # half of something in parentheses
                mistake = chance.choice(fitting)
            drawn.append(mistake)
    return drawn


def _parses(mistake: Mistake) -> bool:
    try:
        ast.parse(mistake.planted_in((ROOT / mistake.file).read_bytes()))
    except SyntaxError:
        return False
    return True


SEEN = """
import os

FOLDER, KNOWN = {folder!r}, set()


def seen(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if (number, test) not in KNOWN:
        KNOWN.add((number, test))
        with open(os.path.join(FOLDER, str(number)), "a") as file:
            file.write(test + "\\n")
"""
"""A module that notes which tests run a statement; what is imported before the first test runs for all of them."""


def with_notes(source: str, places: list[tuple[int, int]]) -> str:
    """A file in which each line, given with the number of a mistake, is noted before it runs."""
    lines = source.splitlines(keepends=True)
    for line, number in sorted(places, reverse=True):
        indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
        lines.insert(line - 1, f'{indent}__import__("seen_mistakes").seen({number})\n')
    return "".join(lines)


def record(mistakes: list[Mistake], folder: Path, workers: str) -> None:
    """Run all tests in a copy without mistakes, and note in a file for each mistake which of them run its statement."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        copy_to(root)
        for file in sorted({one.file for one in mistakes}):
            places = [(one.noted, number) for number, one in enumerate(mistakes) if one.file == file]
            text = (root / file).read_text(encoding="utf-8")
            (root / file).write_text(with_notes(text, places), encoding="utf-8")
        (root / "src" / "seen_mistakes.py").write_text(SEEN.format(folder=str(folder.resolve())))
        print(Suite(root, None, workers).run(["tests"], stops=False))


def touching(number: int, folder: Path) -> list[str]:
    """The tests that run the statement of a mistake: all where it runs when a module is imported."""
    file = folder / str(number)
    tests = set(file.read_text().splitlines()) if file.exists() else set()
    return ["tests"] if "" in tests else sorted(tests)


class Suite:
    """The tests of a repository, with a mistake in its package."""

    def __init__(self, root: Path, touched: Path | None, workers: str) -> None:
        self.root, self.touched, self.workers = root, touched, workers

    def first_failure(self, mistake: Mistake, number: int) -> tuple[str, str]:
        """The speed that catches a mistake, and the first test that fails; "nothing" and "" where none does."""
        folders = [f"tests/{name}" for name in FOLDERS.get(mistake.subpackage, (mistake.subpackage,))]
        folders = [folder for folder in folders if (self.root / folder).is_dir()]
        tests = touching(number, self.touched) if self.touched else ["tests"]
        if tests != ["tests"]:
            folders = [test for test in tests if test.startswith(tuple(f"{folder}/" for folder in folders))]
        for chosen, speeds in ((folders, ("check", "test")), (tests, SPEEDS)):
            for speed in speeds:
                if chosen and (failed := self.run(chosen, SPEEDS[speed])):
                    return speed, failed
        return "nothing", ""

    def run(self, tests: list[str], marks: str = "", *, stops: bool = True) -> str:
        """Run tests, until one fails where it stops; returns the name of the first, or "" where all pass."""
        given = self.root / "tests-to-run.txt"
        given.write_text("\n".join(tests))
        words = [sys.executable, "-m", "pytest", "-m", marks, "-p", "no:cacheprovider", "--tb=no"]
        words += ["-x"] if stops else []
        words += ["--numprocesses", self.workers, "--dist", "loadfile"] if self.workers != "0" else ["-p", "no:xdist"]
        environment = os.environ | {"PYTHONPATH": str(self.root / "src"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*words, f"@{given}"], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode in (0, 5):  # all passed, or no test has these marks
            return ""
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return lines[0][:200] if lines else f"exit code {done.returncode}: {(done.stdout + done.stderr)[-200:]}"


def copy_to(root: Path) -> None:
    """Copy what is under version control."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for file in listed.stdout.splitlines():
        if (ROOT / file).is_file():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, root / file)


def copies(mistakes: list[Mistake], done: set[tuple[str, int, str]]) -> Iterator[tuple[int, Mistake, Path]]:
    """A copy of the repository for each mistake that is not in the table yet, with the mistake in it."""
    for number, mistake in enumerate(mistakes):
        if (mistake.file, mistake.start, mistake.becomes) in done:
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy_to(Path(folder))
            mistake.plant(Path(folder))
            yield number, mistake, Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="new folder for the tests that run each mistake's statement")
    parser.add_argument("--touched", type=Path, help="a folder that --record has filled")
    parser.add_argument("--workers", default="auto", help="processes that run tests (default: auto)")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "mistakes.json")
    parser.add_argument("--list", action="store_true", help="show the mistakes and run nothing")
    options = parser.parse_args()
    mistakes = draw(options.count, options.seed)
    if options.list:
        for one in mistakes:
            print(f"{one.file}:{one.line}: {one.kind}: {one.was!r} becomes {one.becomes!r}")
        return
    if options.record is not None:
        record(mistakes, options.record, options.workers)
        return
    table = (
        json.loads(options.output.read_text()) if options.output.exists() else {"seed": options.seed, "mistakes": []}
    )
    if table["seed"] != options.seed:
        sys.exit(f"{options.output} has the mistakes of seed {table['seed']}: name another --output")
    done = {(row["file"], row["start"], row["becomes"]) for row in table["mistakes"]}
    for number, mistake, root in copies(mistakes, done):
        began = time.monotonic()
        caught_by, failed = Suite(root, options.touched, options.workers).first_failure(mistake, number)
        table["mistakes"].append(
            {**asdict(mistake), "caught_by": caught_by, "first": failed, "seconds": round(time.monotonic() - began)}
        )
        options.output.write_text(json.dumps(table, indent=1) + "\n")
        print(f"{mistake.file}:{mistake.line} {mistake.kind}: {caught_by} {failed}", flush=True)


if __name__ == "__main__":
    main()
