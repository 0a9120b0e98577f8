"""What may be meant by what is being typed: commands after a slash, files after an at sign."""

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
    """A command that can be typed."""

    name: str
    usage: str
    """What it takes; in angle brackets if it does nothing without that."""
    help: str
    aliases: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"/{self.name} {self.usage}".rstrip()


class Offer(Struct, frozen=True):
    """Something that may be meant."""

    text: str
    """What takes the place of what is typed."""
    length: int
    """How many characters that is."""
    shown: str
    note: str = ""
    is_begun: bool = False
    """Whether it is a command that does nothing by itself."""


def offers(before: str, commands: Sequence[KnownCommand], files: Sequence[str]) -> list[Offer]:
    """What may be meant, by the text before the cursor."""
    if found := COMMAND.fullmatch(before):
        return command_offers(found[1], commands)
    found = FILE.search(before)
    if found and (found[1] or " " not in found[2]):
        return [_file_offer(name, len(found[0])) for name in matching(files, found[2])]
    return []


def command_offers(typed: str, commands: Sequence[KnownCommand]) -> list[Offer]:
    """Commands by any name that is what is typed, then that starts with it, then that holds it."""
    ranked = [(rank, each) for each in commands if (rank := _command_rank(each, typed)) is not None]
    ranked.sort(key=lambda pair: pair[0])
    return [_command_offer(each, typed) for _, each in ranked[:MOST]]


def _command_offer(command: KnownCommand, typed: str) -> Offer:
    """A command by its name, unless all of another one is typed."""
    name = typed if typed in command.aliases else command.name
    is_begun = command.usage.startswith("<")
    return Offer(f"/{name}", len(typed) + 1, command.shown, command.help, is_begun)


def _command_rank(command: KnownCommand, typed: str) -> int | None:
    """How far a command is from what is typed; None if it cannot be meant."""
    names = (command.name, *command.aliases) if typed else (command.name,)
    if typed in names:
        return 0
    if command.name.startswith(typed):
        return 1
    if any(name.startswith(typed) for name in names):
        return 2
    return 3 if typed in command.name else None


def matching(names: Sequence[str], typed: str) -> list[str]:
    """The names that hold the characters in their order, the closest first.

    >>> matching(["src/app.py", "docs/apple.md", "a/pp.txt"], "app")
    ['src/app.py', 'docs/apple.md', 'a/pp.txt']
    """
    wanted = typed.lower()
    ranked = [
        (rank, len(name), name) for name in names if (rank := _rank(name, wanted)) is not None
    ]
    return [name for *_, name in sorted(ranked)[:MOST]]


def _rank(name: str, wanted: str) -> int | None:
    """How far a name is from what is typed; None if it cannot be meant."""
    lower = name.lower()
    last = lower.rstrip("/").rpartition("/")[2]
    if last.startswith(wanted) or lower.startswith(wanted):
        return 0
    if wanted in last:
        return 1
    if wanted in lower:
        return 2
    rest = iter(lower)
    return 3 if all(character in rest for character in wanted) else None


def with_folders(names: Iterable[str]) -> list[str]:
    """Files, and the folders that they are in.

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
    """The files below a folder that git would not ignore."""
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
