"""Check the files that a command would unpack from an archive.

A rule that allows `tar` does not say which files are written: the archive does. It may come from an
untrusted source and contain `.git/hooks/pre-commit`, a file that a rule denies, or a link to a
directory and a file below that link.
"""

import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from turnlog.agent.permissions.archive_members import (
    ArchiveMember,
    NotUnderstood,
    list_members,
)
from turnlog.agent.permissions.bash import UnknownValue, Word
from turnlog.agent.permissions.file_verdicts import (
    WRITING,
    judge_read,
    restricted,
    unknown_files,
)
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import arguments_in, path_in
from turnlog.format.regular_files import read_regular

LARGEST = 8 << 20
"""Maximum size of an archive that is inspected, in bytes."""
MOST_NAMES = 2_000
TAR = frozenset("bsdtar gtar star tar".split())
OTHERS = {
    **dict.fromkeys("7z 7za 7zr 7zz 7zzs rar unrar".split(), re.compile(r"[ex]", re.I)),
    **dict.fromkeys("gunzip gzip pigz unpigz".split(), re.compile(r"-[^-]*N.*|--na.*", re.S)),
    "lzop": re.compile(r"-[^-]*[NPx].*|--(?:ex|na|pa).*", re.S),
    "ar": re.compile(r"-?[a-zA-Z]*x[a-zA-Z]*"),
    "bsdcpio": re.compile(r"-[^-]*i.*|--e.*"),
    "cpio": re.compile(r"-[^-]*i.*|--e.*"),
    "jar": re.compile(r"-?[^-]*x.*|--extract"),
    "pax": re.compile(r"-[^-]*r.*"),
    "unar": re.compile(r".*", re.S),
    "uudecode": re.compile(r".*", re.S),
}
"""Programs whose archives are not inspected, with the argument that makes them write members."""
EXTRACT = re.compile(r"-[^-]*x.*|--(?:e|ex|ext|extr|extra|extrac|extract|g|ge|get)", re.S)
SHOWING = re.compile(r"-[lvtzZ]+q*")
"""An option that makes unzip list or test an archive instead of unpacking it."""
LISTING = re.compile(r"-?[jJvz]*t[jJvz]*f")
OLD_STYLE = re.compile(r"[a-zA-Z]+")
FLAGS = "xvzjJapokmn"
"""Options of tar that take no value and do not change file names."""
STRIP = re.compile(r"--strip-components=[0-9]")
UNKNOWN = "which files the archive has is only known when it is unpacked"
DAMAGED = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


class Unpacking(NamedTuple):
    """An archive, and the directory that it is unpacked to."""

    archive: str
    folder: str = "."


def guard_archives(
    name: str, words: tuple[Word, ...], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about an archive that holds a protected or denied file, or cannot be inspected."""
    if not _unpacks(name, words):
        return
    try:
        given = PARSERS[name](arguments_in(words, place)) if name in PARSERS else None
        if given is None:
            raise NotUnderstood
        archive, folder = path_in(given.archive, place), path_in(given.folder, place)
        members = list_members(read_regular(archive, LARGEST), is_zip=name == "unzip")
    except (NotUnderstood, UnknownValue, *DAMAGED):
        yield unknown_files(UNKNOWN, policy)
        return
    yield from _judge(members, folder, policy)


def find_archive(name: str, words: tuple[Word, ...], place: Path | None) -> list[Path]:
    """Return the archive that a call unpacks, if its arguments are understood."""
    if name not in PARSERS or not _unpacks(name, words):
        return []
    try:
        return [path_in(PARSERS[name](arguments_in(words, place)).archive, place)]
    except NotUnderstood:
        return []


def only_lists(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a call only lists an archive, such as `tar tf x.tar` or `unzip -l x.zip`."""
    if name == "unzip":
        return not _unpacks(name, words)
    return name in TAR and bool(words) and LISTING.fullmatch(words[0].text) is not None


def _judge(members: list[ArchiveMember], folder: Path, policy: Policy) -> Iterator[AccessDecision]:
    shared = {end for member in members for end in _ends(member.shared)}
    names = sorted({*shared, *(end for member in members for end in _ends(member.name))})
    if _has_hidden_targets(members) or len(names) > MOST_NAMES:
        yield unknown_files(UNKNOWN, policy)
        return
    for name in names:
        try:
            path = path_in(name, folder)
        except UnknownValue:
            yield unknown_files(UNKNOWN, policy)
            return
        if found := restricted(path, policy, WRITING, "Edit"):
            yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)
        if is_guarded(path, policy.directories, policy.added_path):
            yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
        # Through the hard link, the file could be read without asking.
        if name in shared and judge_read(path, policy).kind is not VerdictKind.ALLOW:
            yield AccessDecision(VerdictKind.ASK, f"it adds a hard link to {path}", is_guarded=True)


def _has_hidden_targets(members: list[ArchiveMember]) -> bool:
    """Return whether a link or `..` may make a member land outside of the path that it names."""
    counts = Counter(member.name for member in members)
    links = {member.name for member in members if member.is_link}
    paths = [PurePosixPath(each) for member in members for each in (member.name, member.shared)]
    return any(
        ".." in path.parts or not links.isdisjoint(map(str, path.parents)) for path in paths
    ) or any(member.is_link and counts[member.name] > 1 for member in members)


def _ends(name: str) -> Iterator[str]:
    """Yield every name under which a member may be unpacked.

    `--strip-components` removes leading directories, and programs strip different prefixes.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    yield from ("/".join(parts[rank:]) for rank in range(len(parts)))


def _tar(arguments: tuple[str, ...]) -> Unpacking:
    """Return the archive that tar unpacks; raise `NotUnderstood` for all but a few options."""
    rest = list(arguments)
    archives: list[str] = []
    if rest and OLD_STYLE.fullmatch(rest[0]):
        # Without a dash, the value of `f` is the next argument, whatever letters follow: `xfv x`.
        letters, has_file, others = rest.pop(0).partition("f")
        _require(not (letters + others).strip(FLAGS) and (rest or not has_file))
        archives += [rest.pop(0)] if has_file else []
    while rest:
        word = rest.pop(0)
        if word.startswith("--file="):
            archives.append(word.partition("=")[2])
        elif word.startswith("--"):
            _require(STRIP.fullmatch(word) or EXTRACT.fullmatch(word))
        elif word.startswith("-"):
            flags, has_file, value = word[1:].partition("f")
            _require(not flags.strip(FLAGS) and (value or rest or not has_file))
            archives += [value or rest.pop(0)] if has_file else []
    # GNU tar takes a name with a colon for a file on another machine.
    _require(len(archives) == 1 and archives[0] not in ("", "-") and ":" not in archives[0])
    return Unpacking(archives[0])


def _unzip(arguments: tuple[str, ...]) -> Unpacking:
    options, archive, rest = _split_unzip(arguments)
    # If `x` does not exist, unzip tries `x.zip`. It also expands patterns itself.
    _require(archive and not any(sign in archive for sign in "*?["))
    _require(all(re.fullmatch(r"-[noq]+", word) for word in options))
    if "-d" not in rest:
        _require(not any(word.startswith("-") for word in rest))
        return Unpacking(archive)
    rank = rest.index("-d")
    _require(len(rest) == rank + 2 and not any(word.startswith("-") for word in rest[:rank]))
    return Unpacking(archive, rest[rank + 1])


def _split_unzip(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Return the options of unzip, the archive, and the arguments after it: members and `-d`."""
    count = next((n for n, word in enumerate(words) if not word.startswith("-")), len(words))
    return list(words[:count]), next(iter(words[count:]), ""), list(words[count + 1 :])


def _require(is_plain: object) -> None:
    if not is_plain:
        raise NotUnderstood


def _unpacks(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a call may unpack an archive; with an unknown argument, it always may."""
    if name == "unzip":
        # After the archive, `-l` is the name of a member; `--l` cancels `-l`.
        options, *_ = _split_unzip([word.text for word in words])
        is_known = all(word.is_known for word in words)
        return not (is_known and options and all(map(SHOWING.fullmatch, options)))
    if name in TAR and words and OLD_STYLE.fullmatch(words[0].text) and "x" in words[0].text:
        return True
    pattern = EXTRACT if name in TAR else OTHERS.get(name)
    return pattern is not None and any(
        not word.is_known or pattern.fullmatch(word.text) for word in words
    )


PARSERS = {**dict.fromkeys(TAR, _tar), "unzip": _unzip}
