"""The per-project on/off switch for live traces.

The log of switch events is kept with turnlog's configuration and never in a project, so that a
repository cannot switch itself on. The log records times: turns made while a project was off are
never sent live. The client waits for the hook: this module imports only modules that Python has
already loaded.
"""

import os
import time

from turnlog.trace.note import write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAME = "hook-switches"
WORDS = {"on": True, "off": False}


class Switches:
    """The history of switches: the nearest directory with an entry decides; the default is on."""

    def __init__(self, path: str, content: bytes = b"", is_readable: bool = True) -> None:
        self.path = path
        self.is_readable = is_readable
        self.events: dict[str, list[tuple[float, bool]]] = {}
        """Time and state of each switch by directory, the oldest first."""
        for moment, is_on, folder in _parsed(content):
            self.events.setdefault(folder, []).append((moment, is_on))

    @property
    def has_off(self) -> bool:
        """True if any directory is or was off, or if the log cannot be read."""
        states = (is_on for events in self.events.values() for _, is_on in events)
        return not self.is_readable or not all(states)

    def is_on(self, project: str, at: float | None = None) -> bool:
        """Return whether a project's traces are sent, now or at a time in the past."""
        # Fail closed: a log that exists but cannot be read may contain this project.
        if not self.is_readable:
            return False
        moment = time.time() if at is None else at
        for folder in ancestors(project):
            past = [is_on for then, is_on in self.events.get(folder, ()) if then <= moment]
            if past:
                return past[-1]
        return True

    def was_on(self, project: str, start: float, end: float) -> bool:
        """Return whether a project was on during all of a period."""
        changes = [then for folder in ancestors(project) for then, _ in self.events.get(folder, ())]
        moments = [start, *(then for then in changes if start < then <= end)]
        return all(self.is_on(project, moment) for moment in moments)

    def turn(self, project: str, is_on: bool) -> None:
        """Switch a project, and everything below it, on or off."""
        # Sessions record times in milliseconds: a turn that starts right after the switch must not
        # seem to have started before it.
        moment = int(time.time() * 1000) / 1000
        self.events.setdefault(project, []).append((moment, is_on))
        lines = (
            f"{moment:.6f} {'on' if is_on else 'off'} {_escaped(folder)}\n"
            for folder, events in self.events.items()
            for moment, is_on in events
        )
        write_private(self.path, "".join(lines).encode("utf-8", "surrogateescape"))


def read_switches(config: str) -> Switches:
    """Read the switches in the folder of a configuration file."""
    path = os.path.join(os.path.dirname(config), NAME)
    try:
        with open(path, "rb") as file:
            return Switches(path, file.read())
    except FileNotFoundError:
        return Switches(path)
    except OSError:
        return Switches(path, is_readable=False)


def ancestors(folder: str) -> "Iterator[str]":
    """Yield a directory and its parents, the nearest first."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def nearest(folder: str, roots: "Iterable[str]") -> str | None:
    """Return the folder or its nearest parent that is one of `roots`; None if there is none."""
    known = set(roots)
    return next((parent for parent in ancestors(folder) if parent in known), None)


def _parsed(content: bytes) -> "Iterator[tuple[float, bool, str]]":
    for line in content.decode("utf-8", "surrogateescape").split("\n"):
        moment, _, rest = line.partition(" ")
        word, _, folder = rest.partition(" ")
        try:
            found = float(moment), WORDS[word], folder
        except (ValueError, KeyError):
            continue
        yield found[0], found[1], _unescaped(found[2])


def _escaped(folder: str) -> str:
    return folder.replace("\\", "\\\\").replace("\n", "\\n")


def _unescaped(text: str) -> str:
    return "\\".join(part.replace("\\n", "\n") for part in text.split("\\\\"))
