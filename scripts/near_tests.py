"""Rank test files by how likely they are to notice a change in a module.

Nothing runs for this: a test file is near if it imports the module or one of its importers, names
the changed function or the command, lies in the directory of the package, or is called like the
module.
"""

import re
from functools import cache
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = Path("src/turnlog")
MODULE = re.compile(r"\bturnlog(?:\.\w+)+")
FROM = re.compile(r"^\s*from (turnlog[\w.]*) import (\(.*?\)|.*?$)", re.MULTILINE | re.DOTALL)
PUBLIC_NAME = 6
"""Letters of a name that is more than a common word."""


def rank_tests(path: Path, names: frozenset[str]) -> list[str]:
    """Return test files, nearest first, for a change in functions or classes of a module."""
    module = _dotted(path)
    importers = frozenset(each for each, used in _imports(SOURCE).items() if module in used)
    scores = {
        test: _score(test, path, names, importers | {module}) for test in _texts(Path("tests"))
    }
    near = sorted((test for test in scores if scores[test]), key=lambda test: (-scores[test], test))
    doctests = [str(path)] if ">>>" in (ROOT / path).read_text() else []
    return doctests + [str(test) for test in near]


def _score(test: Path, path: Path, names: frozenset[str], users: frozenset[str]) -> int:
    module = _dotted(path)
    used = _imports(Path("tests"))[_dotted(test)]
    text = _texts(Path("tests"))[test]
    named = sum(bool(re.search(rf"\b{name}\b", text)) for name in names if len(name) >= PUBLIC_NAME)
    alike = len(_words(path.stem) & _words(test.stem))
    # Tests of commands import nothing: `test_archive_command` runs what `cli.archive` imports.
    command = any(_words(user.rpartition(".")[2]) & _words(test.stem) for user in users)
    # They name the command instead, as in `turnlog("history-of", …)`.
    run = max((4 + 8 * (user == module) for user in users if _is_run(user, text)), default=0)
    package = path.relative_to(SOURCE).parent.parts
    folder = test.relative_to("tests").parent.parts
    pairs = zip(package, folder, strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    reach = min(3, len(used & users - {module}))
    is_namesake = test.stem == f"test_{path.stem}"
    near = 8 * shared + 6 * is_namesake + 3 * (alike + command) + 4 * reach + run
    # A common word such as `detach` occurs anywhere.
    return 10 * (module in used) + near + (6 if near else 1) * named


def _is_run(module: str, text: str) -> bool:
    """Return whether a test names the command of a module."""
    package, _, name = module.rpartition(".")
    return package == "turnlog.cli" and f'"{name.replace("_", "-")}"' in text


def _words(stem: str) -> frozenset[str]:
    words = stem.removeprefix("test_").split("_")
    return frozenset(word.removesuffix("s") for word in words if len(word) > 2)


@cache
def _texts(folder: Path) -> dict[Path, str]:
    pattern = "test_*.py" if folder.name == "tests" else "*.py"
    files = sorted((ROOT / folder).rglob(pattern))
    return {file.relative_to(ROOT): file.read_text() for file in files}


@cache
def _imports(folder: Path) -> dict[str, frozenset[str]]:
    return {_dotted(path): _modules_in(text) for path, text in _texts(folder).items()}


def _modules_in(text: str) -> frozenset[str]:
    found = set(MODULE.findall(text))
    for package, imported in FROM.findall(text):
        found |= {f"{package}.{name}" for name in re.findall(r"\w+", imported)}
    return frozenset(found)


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts).removesuffix(".__init__")
