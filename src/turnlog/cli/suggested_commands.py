"""Adapt suggested commands to the stores and session files that this command line names.

`turnlog --store DIR search x` suggests `turnlog --store DIR show ID`, because `turnlog show ID`
would look in another store. A session given by its path is suggested by its path. Every printed
hint goes through `to_type`.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from turnlog.store.stores import AnyStores, each_store, store_argument
from turnlog.text import typeable

PROGRAM = "turnlog"
SUFFIX = ".jsonl"
SHORT = 8
"""Characters of an id that commands show."""
CALL = re.compile(rf"(?:^|(?<=&& )|(?<=; )){PROGRAM} (?=([a-z-]+))")
"""The program at the start of a command, and the name of the subcommand."""
SELECTS = re.compile(r"(?:^| )(?:--store|--samples|--help|-h)(?: |=|$)")
"""Options of a command that already names its stores, or that reads none."""
WITHOUT_STORE = frozenset(("agents", "completion", "forget", "history", "schema", "undo", "where"))
"""Subcommands that do not depend on the chosen store; all stores share one journal, for example."""


class _Chosen:
    options: tuple[str, ...] = ()
    paths: Mapping[str, str] = {}
    """The session files of this command line, by their names."""


def choose(options: Iterable[str] = ()) -> None:
    """Remember the options that name the stores of this command line; none if it names none."""
    _Chosen.options = tuple(options)


def name_files(words: Iterable[str]) -> None:
    """Remember the session files that a command line names by path; they may be in no store."""
    files = [word for word in words if word.endswith(SUFFIX) and Path(word).is_file()]
    _Chosen.paths = {Path(word).stem: word for word in files}


def to_type(command: str) -> str:
    """Return a suggested command with the options that name the stores of this command line.

    >>> choose(["--store", "/mnt/old claude"])
    >>> to_type("turnlog show 5e55")
    "turnlog --store '/mnt/old claude' show 5e55"
    >>> to_type("turnlog undo c1"), to_type("turnlog show --help"), to_type("git init")
    ('turnlog undo c1', 'turnlog show --help', 'git init')
    >>> choose()
    """
    command = typeable(command)
    if not CALL.search(command) or SELECTS.search(command):
        return command
    for name, path in _Chosen.paths.items():
        forms = "|".join(re.escape(shlex.quote(form)) for form in (name, name[:SHORT]))
        word = rf"(?<= )(?:{forms})(?= |$)"
        command = re.sub(word, lambda _, path=path: shlex.quote(path), command)
    return typeable(CALL.sub(_with_stores, command) if _Chosen.options else command)


def store_of(stores: AnyStores, path: Path) -> str:
    """Return the arguments that select the store of a file; empty if there is only one store."""
    # Several stores may have a session with the same id.
    return store_argument(stores, path) if len(each_store(stores)) > 1 else ""


def _with_stores(call: re.Match[str]) -> str:
    if call[1] in WITHOUT_STORE:
        return call[0]
    return f"{PROGRAM} {shlex.join(_Chosen.options)} "
