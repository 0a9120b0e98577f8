"""Complete commands after `/` and files after `@`."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

COMMAND = re.compile(r"/(\S*)$")
FILE = re.compile(r'(?<!\S)@("?)([^"\n]*|\S*)$')
MOST = 50
MOST_FILES = 50_000


class KnownCommand(Struct, frozen=True):
    """A command that the user can type."""

    name: str
    usage: str
    """Its arguments; required ones are in angle brackets."""
    help: str
    aliases: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"/{self.name} {self.usage}".rstrip()


class Offer(Struct, frozen=True):
    """A completion."""

    text: str
    """The text to insert."""
    length: int
    """Number of typed characters that it replaces."""
    shown: str
    note: str = ""
    is_begun: bool = False
    """True if it is a command that needs an argument."""


def offers(before: str, commands: Sequence[KnownCommand], files: Sequence[str]) -> list[Offer]:
    """Return completions for the text before the cursor."""
    if found := COMMAND.fullmatch(before):
        return command_offers(found[1], commands)
    found = FILE.search(before)
    # Without an opening quote, a space ends the name.
    if found and (found[1] or " " not in found[2]):
        return [_file_offer(name, len(found[0])) for name in matching(files, found[2])]
    return []


def command_offers(typed: str, commands: Sequence[KnownCommand]) -> list[Offer]:
    """Return matching commands: exact matches, then prefixes, substrings and subsequences."""
    ranked = [(rank, each) for each in commands if (rank := _command_rank(each, typed)) is not None]
    ranked.sort(key=lambda pair: pair[0])
    return [_command_offer(each, typed) for _, each in ranked[:MOST]]


def _command_offer(command: KnownCommand, typed: str) -> Offer:
    """Return the completion for a command; an alias typed in full is kept."""
    name = typed if typed in command.aliases else command.name
    is_begun = command.usage.startswith("<")
    return Offer(f"/{name}", len(typed) + 1, command.shown, command.help, is_begun)


def _command_rank(command: KnownCommand, typed: str) -> int | None:
    """Rank a command by its distance from the typed text; None if it does not match."""
    names = (command.name, *command.aliases) if typed else (command.name,)
    if typed in names:
        return 0
    if command.name.startswith(typed):
        return 1
    if any(name.startswith(typed) for name in names):
        return 2
    if typed in command.name:
        return 3
    # `in` consumes the iterator, so the characters have to occur in this order: /cpct for /compact.
    # Two letters would match half of all commands.
    rest = iter(command.name)
    is_found = len(typed) > 2 and all(character in rest for character in typed)
    return 4 if is_found else None


def matching(names: Sequence[str], typed: str) -> list[str]:
    """Return the names that contain the typed characters in order, the best match first.

    >>> matching(["src/app.py", "docs/apple.md", "a/pp.txt"], "app")
    ['src/app.py', 'docs/apple.md', 'a/pp.txt']
    """
    wanted = typed.lower()
    ranked = [
        (rank, len(name), name) for name in names if (rank := _rank(name, wanted)) is not None
    ]
    return [name for *_, name in sorted(ranked)[:MOST]]


def _rank(name: str, wanted: str) -> int | None:
    """Rank a name by its distance from the typed text; None if it does not match."""
    lower = name.lower()
    last = lower.rstrip("/").rpartition("/")[2]
    if last.startswith(wanted) or lower.startswith(wanted):
        return 0
    if wanted in last:
        return 1
    if wanted in lower:
        return 2
    # `in` consumes the iterator, so the characters have to occur in this order.
    rest = iter(lower)
    return 3 if all(character in rest for character in wanted) else None


def with_folders(names: Iterable[str]) -> list[str]:
    """Return files together with their directories.

    >>> with_folders(["a/b/c.txt"])
    ['a/', 'a/b/', 'a/b/c.txt']
    """
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            found["/".join(parts[:depth]) + "/"] = None
        found[name] = None
    return sorted(found)


async def files_in(folder: Path) -> list[str]:
    """Return the files below a directory that git does not ignore."""
    from turnlog.agent.tools.files.ripgrep import pieces
    from turnlog.agent.workspace.tool import ToolError

    found: list[str] = []
    with suppress(ToolError, OSError):
        listed = pieces(["--files", "--null"], folder, b"\0")
        try:
            async for name in listed:
                found.append(name)
                if len(found) == MOST_FILES:
                    break
        finally:
            await listed.aclose()
    return await asyncio.to_thread(with_folders, found)


def _file_offer(name: str, length: int) -> Offer:
    text = f'@"{name}"' if " " in name else f"@{name}"
    return Offer(text, length, name)
