"""Install and remove turnlog's commands as client hooks.

Every change of the settings is in `turnlog history`, and `turnlog undo` reverts it.
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
"""Content of a new settings file."""
EMPTIED = "{}\n"
"""Content of that file once all hooks are removed."""


class ClientHook:
    """A turnlog command and the events that trigger it."""

    def __init__(self, action: Sequence[str], events: Iterable[str]) -> None:
        self.action = tuple(action)
        """The arguments that identify the command."""
        self.events = tuple(events)

    def install(self, store: Store, arguments: Sequence[str] = ()) -> bool:
        """Install the hook with some arguments; return False if it is installed already."""
        command = shlex.join([*program(), *self.action, *arguments])
        return self._change(store, "installed", command)

    def uninstall(self, store: Store) -> bool:
        """Remove the hook; return False if it is not installed."""
        return store.settings.exists() and self._change(store, "removed", None)

    def installed(self, store: Store) -> dict[str, str]:
        """Return the installed command of each event."""
        try:
            text = store.settings.read_bytes().decode()
            return {hook.event: hook.command for hook in hooks_in(text, self.is_ours)}
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise not_valid(store.settings, error) from error

    def arguments(self, command: str) -> list[str]:
        """Return the arguments of an installed command."""
        words = shlex.split(command)
        return words[_program_length(words) + len(self.action) :]

    def _change(self, store: Store, verb: str, command: str | None) -> bool:
        path = store.settings
        state = FileState.of(path) if path.exists() else None
        try:
            text = path.read_bytes().decode() if state else EMPTY
            changed = remove_hooks(text, self.is_ours)
            if command is not None:
                changed = add_hooks(text, self.events, command, self.is_ours)
        except ValueError as error:
            raise not_valid(path, error) from error
        if changed == text:
            return False
        # Imported late to keep this module fast: the client waits for other commands that import
        # it.
        from turnlog.edit.apply import Change, apply_changes
        from turnlog.edit.journal import open_journal

        title = f"hook {verb}: turnlog {' '.join(self.action)}"
        # A settings file with nothing else, byte for byte as turnlog writes it, is deleted with its
        # last hook.
        content = None if command is None and changed == EMPTIED else [changed.encode()]
        apply_changes(open_journal(), title, [Change(path, content, state)])
        if content:
            os.utime(path)  # makes a running client reload it
        return True

    def is_ours(self, command: str) -> bool:
        """Return whether a command of the settings is this one, with any arguments."""
        try:
            words = shlex.split(command)
        except ValueError:
            return False
        length = _program_length(words)
        return length > 0 and tuple(words[length:])[: len(self.action)] == self.action


ARCHIVE_HOOK = ClientHook(("archive", "--background"), ("SessionStart", "SessionEnd"))
TRACE_HOOK = ClientHook(("hook", "run"), ("SessionStart", "Stop", "SubagentStop", "SessionEnd"))
LAKE_HOOK = ClientHook(("lake", "push", "--background"), ("SessionEnd",))
STATUS_LINE = ClientHook(("statusline",), ())
"""Recognizes the command of the status line."""


def program() -> list[str]:
    """Return the command that starts turnlog, with its full path: the client's PATH may differ.

    With -P, Python imports nothing from the directory that the client works in.
    """
    beside = Path(sys.executable).with_name("turnlog")
    if beside.is_file():
        return [str(beside)]
    # Ignore relative entries: in an untrusted repository, they could lead to a program there.
    places = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = shutil.which("turnlog", path=os.pathsep.join(places))
    return [found] if found else [sys.executable, "-P", "-m", "turnlog"]


def _program_length(words: Sequence[str]) -> int:
    """Return how many words of a command start turnlog; 0 if it does not."""
    if words and Path(words[0]).name == "turnlog":
        return 1
    # With -P, the command is one word longer: `python -P -m turnlog`.
    for length in (3, 4):
        if list(words[length - 2 : length]) == ["-m", "turnlog"]:
            return length
    return 0


def not_valid(path: Path, error: ValueError) -> TurnlogError:
    """Return the error for settings that cannot be parsed."""
    return TurnlogError(f"{path} is not valid: {error}", f"$EDITOR {path}")
