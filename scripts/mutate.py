"""Mutation testing: change the code in a few random places and see whether a test notices.

A sample is drawn per package and by seed, so that it can be repeated and compared. Every mutant is
written into a copy of the tree, where the tests nearest to it run, and more of them if it survives;
the tree itself is never changed. A test counts only if it passes without the mutant; tests that
never end count as well. A survivor is a missing test, or code that makes no difference (an
equivalent mutant).

Strings are not mutated: most are messages, whose wording tests do not repeat.
"""

import argparse
import ast
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatch
from itertools import islice, pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import pytest
from near_tests import rank_tests

ROOT = Path(__file__).parent.parent
SOURCE = Path("src/turnlog")
COPIED = (
    "src",
    "tests",
    "docs",
    "scripts",
    "share",
    "examples",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
LARGE = (".cache/chromium", ".cache/bwrap")
"""Downloads that tests need, and never change: linked instead of copied."""
SPLIT = ("agent", "index")
"""Packages whose sub-packages are sampled one by one."""
STAGES = (3, 8)
"""After how many of the nearest test files more of them run, if all have passed."""
LONGEST = 60
"""Seconds that a test may take; a mutant that lets one take longer loops for ever."""
HANGING = re.compile(r'File "[^"]*/(tests/[^"]+)", line \d+ in (test_\w+)')
"""A test in the traceback that pytest prints when the time is over."""
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
    """Return what is sampled: the packages of turnlog, and the sub-packages of large ones."""
    tops = sorted(path for path in (ROOT / SOURCE).iterdir() if _is_sampled(path))
    inner = [path for name in SPLIT for path in sorted((ROOT / SOURCE / name).iterdir())]
    parts = [f"{path.parent.name}/{path.name}" for path in inner if path.is_dir()]
    names = [path.stem for path in tops] + [each for each in parts if _is_sampled(_place(each))]
    return [name for name in names if next(_mutants_in(name), None)]


def _place(package: str) -> Path:
    place = ROOT / SOURCE / package
    return place if place.is_dir() else place.with_suffix(".py")


def _is_sampled(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").exists()
    return path.suffix == ".py" and not path.name.startswith("__")


def sample(package: str, count: int, seed: int, only: str = "*") -> list[Mutant]:
    """Choose mutants of a package, the same ones for the same seed and source."""
    found = [each for each in _mutants_in(package) if fnmatch(each.path.name, only)]
    random.Random(f"{seed}:{package}").shuffle(found)
    chosen = islice(filter(_compiles, found), count)
    return sorted(chosen, key=lambda mutant: (mutant.path, mutant.line))


def _mutants_in(package: str) -> Iterator[Mutant]:
    place = _place(package)
    files = place.glob("*.py") if package in SPLIT else place.rglob("*.py")
    for file in sorted(files) if place.is_dir() else [place]:
        yield from mutants_of(file.relative_to(ROOT), file.read_bytes())


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.apply((ROOT / mutant.path).read_bytes()), str(mutant.path), "exec")
    except SyntaxError:
        return False
    return True


def names_at(mutant: Mutant) -> frozenset[str]:
    """Return the names of the functions and classes that a mutant is in."""
    tree = ast.parse((ROOT / mutant.path).read_bytes())
    return frozenset(
        node.name.lstrip("_")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.lineno <= mutant.line <= (node.end_lineno or node.lineno)
    )


def stages_of(mutant: Mutant, most: int) -> Iterator[list[str]]:
    """Yield the test files for a mutant: the nearest ones first, more if it survives."""
    ranked = rank_tests(mutant.path, names_at(mutant))[:most]
    limits = [0, *(limit for limit in STAGES if limit < len(ranked)), len(ranked)]
    for start, end in pairwise(limits):
        yield ranked[start:end]


def diff_of(mutant: Mutant) -> Iterator[str]:
    """Yield the lines that a mutant removes and adds."""
    old = (ROOT / mutant.path).read_bytes()
    lines = difflib.unified_diff(
        old.decode().splitlines(), mutant.apply(old).decode().splitlines(), lineterm="", n=0
    )
    yield from (line for line in lines if line[:1] in "+-" and line[:3] not in ("---", "+++"))


class MutantRunner:
    """A copy of the tree, where the tests of one mutant after the other run."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self.most = most
        self.failing: set[str] = set()
        """Tests that fail without a mutant as well."""
        self.passing: set[str] = set()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name)
            elif source.exists():
                shutil.copy2(source, folder / name)
        (folder / ".cache/home").mkdir(parents=True)
        for name in LARGE:
            if (ROOT / name).exists():
                (folder / name).symlink_to(ROOT / name)

    def kill(self, mutant: Mutant) -> str | None:
        """Return which test notices a mutant, or None."""
        for tests in stages_of(mutant, self.most):
            while failure := self._try(mutant, tests):
                if self._is_sound(failure, tests):
                    return failure
        return None

    def _try(self, mutant: Mutant, tests: list[str]) -> str | None:
        target = self.folder / mutant.path
        target.write_bytes(mutant.apply(target.read_bytes()))
        try:
            return self._run([*tests, *(f"--deselect={each}" for each in sorted(self.failing))])
        finally:
            # With the old time, which is what compiled code is compared with.
            shutil.copy2(ROOT / mutant.path, target)

    def _is_sound(self, failure: str, tests: list[str]) -> bool:
        """Return whether what failed succeeds without the mutant."""
        if failure in self.passing:
            return True
        is_test = failure.startswith(("tests/", "src/"))
        only = [failure] if is_test else tests
        is_file = is_test and "::" not in failure
        if self._run([*only, *(["--collect-only"] if is_file else [])]):
            self.failing |= {failure} if is_test else set(tests)
            return False
        self.passing.add(failure)
        return True

    def _run(self, arguments: list[str]) -> str | None:
        """Run tests in the copy; return which one failed, or how, or None."""
        # Compiled code of the tree was copied and is still valid, but for the changed file.
        environment = os.environ | {
            "PYTHONPATH": str(self.folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / ".cache/home"),
            "PATH": f"{os.environ['PATH']}:{self.folder / '.cache/bwrap/usr/bin'}",
        }
        limits = (f"faulthandler_timeout={LONGEST}", "faulthandler_exit_on_timeout=true")
        options = ["-q", "-x", "-n", "0", "-p", "no:randomly", "--no-header"]
        options += [f"--override-ini={each}" for each in limits]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        # A file, not a pipe: processes that a mutant leaves behind would keep a pipe open.
        printed = self.folder / ".cache/output"
        with printed.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output = printed.read_text(errors="replace")
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return None
        if "Timeout (" in output and (found := HANGING.search(output)):
            return "::".join(found.groups())
        failures = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        shown = failures[0].partition(" ")[2] if failures else output.strip()
        return shown.partition(" - ")[0] if failures else shown.rpartition("\n")[2]


def report(mutant: Mutant, failure: str | None) -> None:
    """Print a mutant and what became of it."""
    lines = [
        f"{mutant.path}:{mutant.line}  {mutant.kind}  "
        + (f"killed by {failure}" if failure else "SURVIVED"),
        *(f"    {line}" for line in diff_of(mutant)),
    ]
    print("\n".join(lines), flush=True)


def run_all(mutants: list[Mutant], processes: int, most: int) -> list[bool]:
    """Run the tests of each mutant, and return which ones were killed."""
    with tempfile.TemporaryDirectory(prefix="mutate-", ignore_cleanup_errors=True) as name:
        free: SimpleQueue[MutantRunner] = SimpleQueue()
        for number in range(processes):
            free.put(MutantRunner(Path(name) / str(number), most))

        def run(mutant: Mutant) -> bool:
            runner = free.get()
            try:
                failure = runner.kill(mutant)
            finally:
                free.put(runner)
            report(mutant, failure)
            return failure is not None

        with ThreadPoolExecutor(processes) as pool:
            return list(pool.map(run, mutants))


def main() -> None:
    parser = argparse.ArgumentParser(description="Test the tests: plant faults and run them.")
    parser.add_argument("--count", type=int, default=3, help="mutants per package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--package", action="append", choices=package_names(), metavar="PACKAGE")
    parser.add_argument("--only", default="*", help="names of modules, such as 'rule_*.py'")
    parser.add_argument("--processes", type=int, default=2, help="mutants at a time")
    parser.add_argument("--files", type=int, default=40, help="test files to run at most")
    options = parser.parse_args()
    packages: list[str] = options.package or package_names()
    samples = {name: sample(name, options.count, options.seed, options.only) for name in packages}
    mutants = [mutant for chosen in samples.values() for mutant in chosen]
    killed = iter(run_all(mutants, options.processes, options.files))
    for name, chosen in samples.items():
        print(f"{name}: {sum(islice(killed, len(chosen)))} of {len(chosen)} killed")
    print(f"seed {options.seed}: {len(mutants)} mutants")


if __name__ == "__main__":
    main()
