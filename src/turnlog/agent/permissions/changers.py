"""Commands that change files and nothing else: what `acceptEdits` lets pass in the directories."""

from msgspec import Struct

from turnlog.agent.permissions.operands import Usage, loose_paths, read_operands
from turnlog.agent.permissions.sed_script import read_sed
from turnlog.agent.permissions.words import Word

USAGES = {
    "cp": Usage("aRrfinpuvdPx", names=("--force", "--no-clobber", "--recursive", "--verbose")),
    "mkdir": Usage("pv", "m", ("--mode", "--parents", "--verbose")),
    "mv": Usage("finuv", names=("--force", "--no-clobber", "--verbose")),
    "rm": Usage("dfiIrRv", names=("--dir", "--force", "--recursive", "--verbose")),
    "rmdir": Usage("v", names=("--verbose",)),
    "touch": Usage("acm", "dt", ("--date", "--no-create")),
    "tee": Usage("ai", names=("--append",)),
}
MOVERS = frozenset(("cp", "mv"))
DOTS = frozenset(("", ".", ".."))
REMOVERS = frozenset(("rm", "rmdir"))


class Change(Struct, frozen=True):
    """What a command changes."""

    writes: tuple[Word, ...]
    reads: tuple[Word, ...] = ()
    moved: tuple[Word, ...] = ()
    """What keeps its name where it lands, if the last of `writes` is a folder."""
    is_understood: bool = True
    """Whether it does nothing besides."""


def change_of(words: tuple[Word, ...]) -> Change | None:
    """What a command changes; None if it is not one of those that are known here."""
    name, arguments = words[0].text, words[1:]
    if name == "sed":
        found = read_sed(arguments)
        return Change(found.paths) if found and found.in_place else None
    usage = USAGES.get(name)
    if not usage:
        return None
    operands = read_operands(arguments, usage)
    if not operands:
        return Change(loose_paths(arguments, usage), is_understood=False)
    if name not in MOVERS:
        return Change(operands.paths)
    sources = operands.paths[:-1]
    # With a dot at its end, a folder's content lands there under names of its own.
    is_whole = all(word.text.rstrip("/").rsplit("/", 1)[-1] not in DOTS for word in sources)
    writes = operands.paths if name == "mv" else operands.paths[-1:]
    return Change(writes, sources, sources, is_understood=is_whole)
