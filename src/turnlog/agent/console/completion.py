"""What may be meant by what is being typed: commands after a slash, files after an at sign."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.agent.custom.built_in import BUILT_IN, BuiltIn

if TYPE_CHECKING:
    from turnlog.agent.custom.commands import Command

COMMAND = re.compile(r"/(\S*)$")
FILE = re.compile(r'(?<!\S)@("?)([^"\n]*|\S*)$')
MOST = 50
MOST_FILES = 50_000


class Offer(Struct, frozen=True):
    """Something that may be meant."""

    text: str
    """What takes the place of what is typed."""
    length: int
    """How many characters that is."""
    shown: str
    note: str = ""


def offers(before: str, commands: "Mapping[str, Command]", files: Sequence[str]) -> list[Offer]:
    """What may be meant, by the text before the cursor."""
    if found := COMMAND.fullmatch(before):
        return command_offers(found[1], commands)
    found = FILE.search(before)
    if found and (found[1] or " " not in found[2]):
        return [_file_offer(name, len(found[0])) for name in matching(files, found[2])]
    return []


def command_offers(typed: str, commands: "Mapping[str, Command]") -> list[Offer]:
    """Commands whose name starts with what is typed, then those that hold it."""
    own = {each.name: (each.usage, each.help) for each in BUILT_IN}
    given = {
        name: (each.hint, each.description) for name, each in commands.items() if each.for_user
    }
    known = given | own
    aliases = {alias: each.name for each in BUILT_IN for alias in each.aliases}
    starts = [name for name in known if name.startswith(typed)]
    starts += [aliases[alias] for alias in aliases if typed and alias.startswith(typed)]
    holds = [name for name in known if typed and typed in name]
    names = list(dict.fromkeys([*starts, *holds]))[:MOST]
    return [
        Offer(f"/{name}", len(typed) + 1, f"/{name} {known[name][0]}".rstrip(), known[name][1])
        for name in names
    ]


def needs_arguments(command: BuiltIn | None) -> bool:
    """Whether a command of the client's own does nothing by itself."""
    return bool(command and command.usage.startswith("<"))


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
    from turnlog.agent.files.ripgrep import pieces
    from turnlog.agent.tool import ToolError

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
