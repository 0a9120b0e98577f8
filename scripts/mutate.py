"""Mutation testing: change the code in a few random places and see whether a test notices.

A sample is drawn per package and by seed, so that it can be repeated and compared. Every mutant is
written into a copy of the tree, where the tests of its package run; the tree itself is never
changed. A survivor is a missing test, or code that makes no difference (an equivalent mutant).

Strings are not mutated: most are messages, whose wording tests do not repeat.
"""

import argparse
import ast
import difflib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = Path("src/turnlog")
COPIED = (
    "src",
    "tests",
    "docs",
    "scripts",
    "share",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
TESTS = {
    "errors": ["tests/cli/test_error_messages.py"],
    "text": ["tests/test_terminal_text.py", "tests/cli/test_output.py"],
    "secrets": ["tests/test_secrets.py", "tests/test_secret_recall.py"],
    "conversation": ["tests/conversation", "tests/laws/test_conversation.py"],
    "edit": ["tests/edit", "tests/laws/test_edits.py", "tests/laws/test_old_clients.py"],
    "trace": ["tests/trace", "tests/laws/test_traces.py"],
    "api": ["tests/test_api.py", "tests/test_library_page.py"],
    "session_health": ["tests/picker", "tests/web/test_page_figures.py"],
}
"""Tests of packages that have more, or other ones, than the directory of their name."""
WIDER = ["tests/cli", "tests/laws"]
"""Tests that a mutant has to survive as well with --wide."""
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
UNCHANGED: dict[type[ast.AST], tuple[str, ...]] = {
    ast.arg: ("annotation",),
    ast.AnnAssign: ("annotation",),
    ast.FunctionDef: ("returns", "decorator_list"),
    ast.AsyncFunctionDef: ("returns", "decorator_list"),
    ast.ClassDef: ("keywords", "decorator_list"),
    ast.JoinedStr: ("values",),
}
"""Fields of syntax nodes that are not mutated."""
SLOWEST = 5.0
"""Times the baseline that tests may take; a mutant that takes longer loops for ever."""


class ByteChange(NamedTuple):
    """A replacement of bytes in a file."""

    start: int
    end: int
    text: bytes


class Mutant(NamedTuple):
    """A file with one deliberate fault."""

    path: Path
    """Relative to the root, as are all paths here."""
    line: int
    kind: str
    changes: tuple[ByteChange, ...]

    def apply(self, source: bytes) -> bytes:
        for change in sorted(self.changes, reverse=True):
            source = source[: change.start] + change.text + source[change.end :]
        return source


class LocatedSource:
    """The source of a file with byte offsets of its syntax tree."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> ByteChange | None:
        """Replace an operator between two operands; parentheses may be there as well."""
        start = self.end(left)
        at = self.source.find(old.encode(), start, self.start(right))
        return ByteChange(at, at + len(old), new.encode()) if at >= 0 else None

    def replace(self, node: ast.expr, text: str) -> ByteChange:
        return ByteChange(self.start(node), self.end(node), text.encode())


def mutants_of(path: Path, source: bytes) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    located = LocatedSource(source)
    for node in _walk(ast.parse(source)):
        for kind, changes in _changes_of(node, located):
            if all(changes) and isinstance(node, ast.expr | ast.stmt):
                yield Mutant(path, node.lineno, kind, tuple(filter(None, changes)))


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes whose change makes a difference, with known positions.

    Annotations, options of classes such as `frozen=True` and imports for type checkers change
    nothing at run time. Before Python 3.12, positions inside f-strings are wrong.
    """
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in UNCHANGED.get(type(tree), ()):
            continue
        for node in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(node, ast.AST) and not _is_for_types(node):
                yield from _walk(node)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changes_of(node: ast.AST, at: LocatedSource) -> Iterator[tuple[str, list[ByteChange | None]]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            old, new = COMPARISONS[type(op)]
            yield "comparison", [at.between(left, right, old, new)]
        case ast.BoolOp(op=op, values=values):
            old, new = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            gaps = pairwise(values)
            yield "boolean", [at.between(left, right, old, new) for left, right in gaps]
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", [ByteChange(at.start(node), at.start(node) + len("not "), b"")]
        case ast.Constant(value=bool(value)):
            yield "constant", [at.replace(node, str(not value))]
        case ast.Constant(value=int(value)):
            yield "constant", [at.replace(node, str(value + 1))]
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return", [at.replace(value, "None")]
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", [at.replace(test, "True")]
            yield "condition", [at.replace(test, "False")]
        case _:
            pass


def package_names() -> list[str]:
    """Return what is sampled: the packages of turnlog, those of agent one by one."""
    tops = sorted(path for path in (ROOT / SOURCE).iterdir() if _is_sampled(path))
    names = [path.stem for path in tops if path.name != "agent"]
    inner = sorted(path for path in (ROOT / SOURCE / "agent").iterdir() if _is_sampled(path))
    return names + [f"agent/{path.stem}" for path in inner]


def _is_sampled(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").exists()
    return path.suffix == ".py" and not path.name.startswith("__")


def sample(package: str, count: int, seed: int) -> list[Mutant]:
    """Choose mutants of a package, the same ones for the same seed and source."""
    place = ROOT / SOURCE / package
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    found = [
        mutant for file in files for mutant in mutants_of(file.relative_to(ROOT), file.read_bytes())
    ]
    random.Random(f"{seed}:{package}").shuffle(found)
    chosen = islice(filter(_compiles, found), count)
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.line))


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.apply((ROOT / mutant.path).read_bytes()), str(mutant.path), "exec")
    except SyntaxError:
        return False
    return True


def tests_of(package: str) -> list[str]:
    """Return the tests of a package: its directory, and the doctests in its source."""
    tests = TESTS.get(package, [f"tests/{package}"])
    source = SOURCE / package
    doctests = source if (ROOT / source).is_dir() else source.with_suffix(".py")
    return [str(doctests), *(each for each in tests if (ROOT / each).exists())]


def copy_tree(folder: Path) -> None:
    """Copy everything that tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, folder / name)


def run_tests(folder: Path, tests: list[str], processes: int, limit: float | None) -> str | None:
    """Run tests in a copy of the tree; return how they failed, or None."""
    home = folder / ".cache"
    home.mkdir(exist_ok=True)
    # Two mutants of a file may have one size and be written in one second, which is all that
    # Python compares before it uses compiled code.
    environment = os.environ | {
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(home),
    }
    options = ["-q", "-x", "-n", str(processes), "-p", "no:randomly", "--no-header"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"no end after {limit:.0f} s"
    if process.returncode == 0:
        return None
    failures = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failures[0].split(" - ")[0] if failures else output.strip().rpartition("\n")[2]


def diff_of(mutant: Mutant) -> Iterator[str]:
    """Yield the lines that a mutant removes and adds."""
    old = (ROOT / mutant.path).read_bytes()
    lines = difflib.unified_diff(
        old.decode().splitlines(), mutant.apply(old).decode().splitlines(), lineterm="", n=0
    )
    yield from (line for line in lines if line[:1] in "+-" and line[:3] not in ("---", "+++"))


def run_package(package: str, options: argparse.Namespace) -> tuple[int, int]:
    """Run the tests of a package against its mutants; return how many there were and died."""
    tests = tests_of(package) + [test for test in WIDER if options.wide]
    mutants = sample(package, options.count, options.seed)
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        folder = Path(name)
        copy_tree(folder)
        started = time.monotonic()
        if failure := run_tests(folder, tests, options.processes, None):
            print(f"{package}: the tests fail without a mutant: {failure}")
            return 0, 0
        limit = max(60.0, SLOWEST * (time.monotonic() - started))
        killed = 0
        for mutant in mutants:
            source = (folder / mutant.path).read_bytes()
            (folder / mutant.path).write_bytes(mutant.apply(source))
            failure = run_tests(folder, tests, options.processes, limit)
            (folder / mutant.path).write_bytes(source)
            killed += failure is not None
            word = f"killed by {failure}" if failure else "SURVIVED"
            print(f"{mutant.path}:{mutant.line}  {mutant.kind}  {word}")
            print(*(f"    {line}" for line in diff_of(mutant)), sep="\n", flush=True)
    print(f"{package}: {killed} of {len(mutants)} killed\n", flush=True)
    return len(mutants), killed


def main() -> None:
    parser = argparse.ArgumentParser(description="Test the tests: plant faults and run them.")
    parser.add_argument("--count", type=int, default=3, help="mutants per package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", action="append", choices=package_names(), metavar="PACKAGE")
    parser.add_argument("--processes", type=int, default=2, help="of pytest")
    parser.add_argument("--wide", action="store_true", help="also run tests/cli and tests/laws")
    options = parser.parse_args()
    results = [run_package(each, options) for each in options.package or package_names()]
    total, killed = (sum(column) for column in zip(*results, strict=True))
    print(f"seed {options.seed}: {killed} of {total} mutants killed")


if __name__ == "__main__":
    main()
