"""turnlog's commands among the client's hooks: put into its settings, and taken out again.

A change of the settings is one that `turnlog history` lists and `turnlog undo` takes back.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from turnlog.errors import TurnlogError
from turnlog.format.jsonl import FileState
from turnlog.store.client_settings import add_hooks, hooks_in, remove_hooks
from turnlog.store.paths import Store

EMPTY = "{\n}\n"
"""What new settings start from."""
EMPTIED = "{}\n"
"""What is left of them when all hooks are taken out."""


class ClientHook:
    """A command of turnlog's, and the events that it is to run at."""

    def __init__(self, action: Sequence[str], events: Iterable[str]) -> None:
        self.action = tuple(action)
        """The words that tell it from turnlog's other commands."""
        self.events = tuple(events)

    def install(self, store: Store, arguments: Sequence[str] = ()) -> bool:
        """Have the client run it, with some arguments; False if it does already."""
        command = shlex.join([*program(), *self.action, *arguments])
        return self._change(store, "installed", command)

    def uninstall(self, store: Store) -> bool:
        """Have the client run it no longer; False if it does not."""
        return store.settings.exists() and self._change(store, "removed", None)

    def installed(self, store: Store) -> dict[str, str]:
        """The command at each event where the client runs it."""
        try:
            text = store.settings.read_bytes().decode()
            return {hook.event: hook.command for hook in hooks_in(text, self._is_ours)}
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise _not_valid(store.settings, error) from error

    def arguments(self, command: str) -> list[str]:
        """What a command of ours is called with beyond the words that tell it."""
        words = shlex.split(command)
        return words[_program_length(words) + len(self.action) :]

    def _change(self, store: Store, verb: str, command: str | None) -> bool:
        path = store.settings
        state = FileState.of(path) if path.exists() else None
        try:
            text = path.read_bytes().decode() if state else EMPTY
            changed = remove_hooks(text, self._is_ours)
            if command is not None:
                changed = add_hooks(text, self.events, command, self._is_ours)
        except ValueError as error:
            raise _not_valid(path, error) from error
        if changed == text:
            return False
        # Late, as the client waits for other commands of ours that this module is loaded with.
        from turnlog.edit.apply import Change, apply_changes
        from turnlog.edit.journal import open_journal

        title = f"hook {verb}: turnlog {' '.join(self.action)}"
        # Settings that turnlog made itself, byte for byte, go with the last hook in them.
        content = None if command is None and changed == EMPTIED else [changed.encode()]
        apply_changes(open_journal(), title, [Change(path, content, state)])
        if content:
            os.utime(path)  # a running client looks at it again
        return True

    def _is_ours(self, command: str) -> bool:
        try:
            words = shlex.split(command)
        except ValueError:
            return False
        length = _program_length(words)
        return length > 0 and tuple(words[length:])[: len(self.action)] == self.action


def program() -> list[str]:
    """How the client calls turnlog: in full, as its PATH need not be that of this shell.

    As a module, Python is told not to load anything from the directory that the client works in.
    """
    beside = Path(sys.executable).with_name("turnlog")
    found = str(beside) if beside.is_file() else shutil.which("turnlog")
    return [found] if found else [sys.executable, "-P", "-m", "turnlog"]


def _program_length(words: Sequence[str]) -> int:
    """How many words call turnlog; 0 if they do not."""
    if words and Path(words[0]).name == "turnlog":
        return 1
    for length in (3, 4):
        if list(words[length - 2 : length]) == ["-m", "turnlog"]:
            return length
    return 0


def _not_valid(path: Path, error: ValueError) -> TurnlogError:
    return TurnlogError(f"{path} is not valid: {error}", "correct it by hand")
