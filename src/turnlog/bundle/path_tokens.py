"""Replace the sender's directories by tokens, and tokens by directories of the receiver.

Replacing a directory and expanding its token again with the same directory restores every byte:
the prefix of tokens is chosen so that it occurs in no file of the bundle.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from turnlog.store.paths import folder_name

PREFIX = re.compile(r"\{turnlog(-[1-9][0-9]{0,5})?:")
NAME = r"home|store|(?:project|folder)-(?:0|[1-9][0-9]{0,5})"
NAMED_TOKEN = re.compile(rf"(\{{turnlog(?:-[1-9][0-9]{{0,5}})?:)({NAME})\}}")
BEFORE = re.compile(rb"(?:^|[^A-Za-z0-9_.\-/\\]|\\[nrtbf]|\\u[0-9a-f]{4}|://)\Z")
"""A path starts here: not within `/mnt/home/ada`, but after the escape in `"\\n/home/ada"`."""
BEFORE_FOLDER = re.compile(rb"[/\\]\Z")
LOOK_BACK = 6
"""Bytes before a match that decide whether it counts."""
AFTER = rb"(?!\.?[A-Za-z0-9_\-])"
"""A directory ends here: `/home/ada` is neither in `/home/adam` nor in `/home/ada.old`."""


def first_free_prefix(found: set[int]) -> str:
    """Return a token prefix that no file contains; `found` are the numbers of prefixes in use.

    >>> first_free_prefix(set()), first_free_prefix({0, 1})
    ('{turnlog:', '{turnlog-2:')
    """
    number = next(number for number in range(len(found) + 1) if number not in found)
    return f"{{turnlog-{number}:" if number else "{turnlog:"


def prefixes_in(raw: bytes) -> set[int]:
    """Return the numbers of the token prefixes in a text.

    >>> prefixes_in(b"{turnlog:home} {turnlog-3:")
    {0, 3}
    """
    if b"{turnlog" not in raw:
        return set()
    text = raw.decode("utf-8", "replace")
    return {int((found[1] or "-0")[1:]) for found in PREFIX.finditer(text)}


@dataclass(frozen=True)
class PathTokens:
    """The directories that tokens stand for, on one machine."""

    prefix: str
    home: str | None
    store: str
    projects: Mapping[int, str]

    def replace(self, raw: bytes) -> bytes:
        """Replace directories by tokens.

        >>> tokens = PathTokens("{turnlog:", "/home/ada", "/home/ada/.claude", {0: "/home/ada/x"})
        >>> tokens.replace(b"/home/ada/x/y, /home/ada/xz, /home/adam").decode()
        '{turnlog:project-0}/y, {turnlog:home}/xz, /home/adam'
        >>> tokens.replace(b"projects/-home-ada-x/a.jsonl").decode()
        'projects/{turnlog:folder-0}/a.jsonl'
        """
        if not any(needle in raw for needle in self._needles):
            return raw
        return self._pattern.sub(self._token_for, raw)

    def expand(self, raw: bytes, is_json: bool) -> bytes:
        """Replace tokens by directories, spelled for JSON strings or as they are."""
        if self.prefix.encode() not in raw:
            return raw
        write = _spelled if is_json else os.fsencode
        spelled = {name: write(path) for name, path in self._named}
        return self._token_pattern.sub(lambda found: spelled[found[1].decode()], raw)

    def below_home(self, directory: str) -> str:
        """Return a directory with a token for the home directory; empty if it is elsewhere."""
        home = self.home
        if home and (directory == home or directory.startswith(f"{home.rstrip('/')}/")):
            return f"{self.prefix}home}}{directory[len(home) :]}"
        return ""

    @cached_property
    def _named(self) -> list[tuple[str, str]]:
        """The names of tokens with the paths that they replace; the first of equal paths wins."""
        named = [(f"project-{number}", path) for number, path in self.projects.items()]
        named += [(f"folder-{number}", folder_name(path)) for number, path in self.projects.items()]
        return [*named, ("store", self.store), *([("home", self.home)] if self.home else [])]

    @cached_property
    def _tokens(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for name, path in self._named:
            # Not `/`, where a session may have started: every absolute path begins with it.
            if path.strip("/\\-") and len(path) > 1:
                token = f"{self.prefix}{name}}}".encode()
                found.setdefault(_spelled(path), token)
                found.setdefault(path.encode("utf-8", "surrogateescape"), token)
        return found

    def _token_for(self, found: re.Match[bytes]) -> bytes:
        # Checked here instead of in a lookbehind: a pattern that starts with literals is ten times
        # as fast.
        start = found.start()
        before = BEFORE if found[0] not in self._folders else BEFORE_FOLDER
        is_path = before.search(found.string[max(0, start - LOOK_BACK) : start])
        return self._tokens[found[0]] if is_path else found[0]

    @cached_property
    def _folders(self) -> set[bytes]:
        return {folder_name(path).encode() for path in self.projects.values()}

    @cached_property
    def _needles(self) -> list[bytes]:
        return list(self._tokens)

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        # The longest first, so that all of `/home/ada/shop` is replaced, and not only `/home/ada`.
        paths = sorted(self._tokens, key=lambda path: (-len(path), path))
        choices = b"|".join(map(re.escape, paths))
        return re.compile(b"(?:" + choices + b")" + AFTER if choices else b"(?!)")

    @cached_property
    def _token_pattern(self) -> re.Pattern[bytes]:
        names = "|".join(re.escape(name) for name, _ in self._named)
        return re.compile((re.escape(self.prefix) + rf"({names})\}}").encode())


def _spelled(path: str) -> bytes:
    """Return a path as JSON spells it, without quotes."""
    try:
        return json.dumps(path, ensure_ascii=False)[1:-1].encode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return json.dumps(path)[1:-1].encode()
