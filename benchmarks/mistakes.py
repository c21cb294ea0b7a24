"""Plant mistakes in the package and see which tests catch them.

    python benchmarks/mistakes.py --output benchmarks/results/mistakes.json

A seed draws the mistakes, two or three in each subpackage: a sign, an off-by-one, a swapped axis, a dropped condition,
a wrong default. Each is planted in a copy of the repository, where the tests of its subpackage run until one fails,
those of ``make check`` before the others of ``make test``; what survives them meets those of the other folders, and
then the tests that ``make test-all`` alone has. The table is written after each mistake, and a later call continues it.

Whole suites take long. With ``--touched FOLDER``, survivors meet only the tests that run the changed lines, as recorded
(but for lines that other processes run) with the package ``coverage`` by

    TOUCHED=FOLDER python -m pytest -p touched_lines --numprocesses auto --dist loadfile
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
        lines: first and last line of the statements whose tests can notice it.
    """

    kind: str
    file: str
    line: int
    was: str
    becomes: str
    start: int
    end: int
    lines: tuple[int, int]

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
        if isinstance(node.func, ast.Attribute) and node.func.attr in (
            "transpose",
            "sum",
            "mean",
            "softmax",
            "unsqueeze",
        ):
            for argument in node.args:
                value = _integer(argument)
                if value is not None:
                    self._replace("swapped axis", argument, str({-1: -2, -2: -1, 0: 1, 1: 0}.get(value, value - 1)))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]:
            value = default.value if isinstance(default, ast.Constant) else None
            if isinstance(value, bool):
                self._replace("wrong default", default, str(not value))
            elif isinstance(value, int):
                self._replace("wrong default", default, str(value + 1))
            elif isinstance(value, float):
                self._replace("wrong default", default, str(value / 2))
        for part in node.body:
            self.visit(part)

    def _swap(self, axis: ast.AST) -> None:
        value = _integer(axis)
        if value is not None:
            self._replace("swapped axis", axis, str({-1: -2, -2: -1, 0: 1, 1: 0}.get(value, value - 1)))

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
            lines = (around.body[0].lineno, around.end_lineno or around.lineno)
        elif isinstance(around, ast.If | ast.For | ast.While | ast.With):
            lines = (around.lineno, around.body[0].lineno - 1 or around.lineno)
        else:
            lines = (around.lineno, around.end_lineno or around.lineno)
        was = self.source[start:end].decode()
        mistake = Mistake(kind, self.file, node.lineno, was, becomes, start, end, (lines[0], max(lines)))
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


def touching(mistake: Mistake, folder: Path) -> list[str]:
    """The tests that run the lines of a mistake."""
    from coverage import CoverageData

    tests: set[str] = set()
    for file in sorted(folder.iterdir()):
        data = CoverageData(str(file))
        data.read()
        for measured in data.measured_files():
            if measured.endswith(mistake.file.removeprefix("src")):
                for line, contexts in data.contexts_by_lineno(measured).items():
                    if mistake.lines[0] <= line <= mistake.lines[1]:
                        tests.update(context for context in contexts if context)
    return sorted(tests)


class Suite:
    """The tests of a repository, with a mistake in its package."""

    def __init__(self, root: Path, touched: Path | None, workers: str) -> None:
        self.root, self.touched, self.workers = root, touched, workers

    def first_failure(self, mistake: Mistake) -> tuple[str, str]:
        """The speed that catches a mistake, and the first test that fails; "nothing" and "" where none does."""
        folders = [f"tests/{name}" for name in FOLDERS.get(mistake.subpackage, (mistake.subpackage,))]
        folders = [folder for folder in folders if (self.root / folder).is_dir()]
        tests = touching(mistake, self.touched) if self.touched else ["tests"]
        for chosen, speeds in ((folders, ("check", "test")), (tests, SPEEDS)):
            for speed in speeds:
                if chosen and (failed := self._run(chosen, SPEEDS[speed])):
                    return speed, failed
        return "nothing", ""

    def _run(self, tests: list[str], marks: str) -> str:
        """Run tests until one fails; returns its name, or "" where all pass."""
        given = self.root / "tests-to-run.txt"
        given.write_text("\n".join(tests))
        words = [sys.executable, "-m", "pytest", "-x", "-m", marks, "-p", "no:cacheprovider", "--tb=no"]
        words += ["--numprocesses", self.workers, "--dist", "loadfile"] if self.workers != "0" else ["-p", "no:xdist"]
        environment = os.environ | {"PYTHONPATH": str(self.root / "src"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*words, f"@{given}"], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode in (0, 5):  # all passed, or no test has these marks
            return ""
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return lines[0][:200] if lines else f"exit code {done.returncode}: {(done.stdout + done.stderr)[-200:]}"


def copies(mistakes: list[Mistake], done: set[tuple[str, int, str]]) -> Iterator[tuple[Mistake, Path]]:
    """A copy of the repository for each mistake that is not in the table yet, with the mistake in it."""
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for mistake in mistakes:
        if (mistake.file, mistake.start, mistake.becomes) in done:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for file in files:
                if (ROOT / file).is_file():
                    (Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / file, Path(folder) / file)
            mistake.plant(Path(folder))
            yield mistake, Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--touched", type=Path, help="folder with the lines that each test runs")
    parser.add_argument("--workers", default="auto", help="processes that run tests (default: auto)")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "mistakes.json")
    parser.add_argument("--list", action="store_true", help="show the mistakes and run nothing")
    options = parser.parse_args()
    mistakes = draw(options.count, options.seed)
    if options.list:
        for one in mistakes:
            print(f"{one.file}:{one.line}: {one.kind}: {one.was!r} becomes {one.becomes!r}")
        return
    table = (
        json.loads(options.output.read_text()) if options.output.exists() else {"seed": options.seed, "mistakes": []}
    )
    if table["seed"] != options.seed:
        sys.exit(f"{options.output} has the mistakes of seed {table['seed']}: name another --output")
    done = {(row["file"], row["start"], row["becomes"]) for row in table["mistakes"]}
    for mistake, root in copies(mistakes, done):
        began = time.monotonic()
        caught_by, failed = Suite(root, options.touched, options.workers).first_failure(mistake)
        table["mistakes"].append(
            {**asdict(mistake), "caught_by": caught_by, "first": failed, "seconds": round(time.monotonic() - began)}
        )
        options.output.write_text(json.dumps(table, indent=1) + "\n")
        print(f"{mistake.file}:{mistake.line} {mistake.kind}: {caught_by} {failed}", flush=True)


if __name__ == "__main__":
    main()
