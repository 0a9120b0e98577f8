"""Check everything below directories that a command searches, packs, moves or removes."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import COMPARISONS, NAMES, UnknownValue, is_folder
from turnlog.agent.permissions.file_verdicts import restricted_names
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.name_mentions import folded
from turnlog.agent.permissions.path_access import has_protected_name, names_below
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind, may_apply
from turnlog.agent.permissions.working_directories import entries_below


def protected_below(folders: Iterable[Path]) -> Iterator[AccessDecision]:
    """Yield a finding for each directory that contains a protected file."""
    for folder in filter(may_be_folder, folders):
        try:
            entries = entries_below(folder, NAMES)
            found = next((entry.path for entry in entries if _is_protected_entry(entry)), None)
        except UnknownValue:
            found = f"something below {folder}"
        if found:
            yield AccessDecision(VerdictKind.ASK, f"{found} is protected", is_guarded=True)


def _is_protected_entry(entry: os.DirEntry[str]) -> bool:
    return has_protected_name(entry.name, entry.path.rpartition("/")[0])


def restrictions_below(
    folders: Iterable[Path],
    policy: Policy,
    denying: tuple[str, ...],
    asking: str,
    endings: tuple[str, ...] = (),
    *,
    are_folders: bool = False,
) -> Iterator[AccessDecision]:
    """Yield a finding for each directory that contains a file that a rule covers.

    With `endings`, only names that end like that count; with `are_folders`, only directories.
    """
    for folder in filter(may_be_folder, folders):
        try:
            entries = entries_below(folder, NAMES if endings or are_folders else COMPARISONS)
            chosen = (each for each in entries if _is_chosen(each, folder, endings))
            chosen = filter(_is_own_folder, chosen) if are_folders else chosen
            names = (names_below(folder, entry) for entry in chosen)
            checked = (restricted_names(each, policy, denying, asking) for each in names)
            found = next(filter(None, checked), None)
        except UnknownValue:
            yield doubt(policy, asking)
            continue
        if found:
            yield AccessDecision(VerdictKind.ASK, f"below {folder}: {found.reason}", is_firm=True)


def _is_own_folder(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False)


def _is_chosen(entry: "os.DirEntry[str]", folder: Path, endings: tuple[str, ...]) -> bool:
    """Return whether a search for files with certain endings reads an entry below a directory.

    Each part of the path is compared, because some programs compare the whole path.
    """
    if not endings:
        return True
    if entry.is_dir(follow_symlinks=False):
        return False  # its entries are checked one by one
    parts = Path(entry.path).relative_to(folder).parts
    wanted = tuple(map(folded, endings))
    return any(folded(part).endswith(wanted) for part in (folder.name, *parts))


def may_be_folder(path: Path) -> bool:
    try:
        return is_folder(path)
    except UnknownValue:
        return True


def with_linked(folder: Path) -> Iterator[Path]:
    """Yield a directory, and each directory that a symlink below it leads to.

    `zip -r`, `tar -h` and `cp -rL` follow them: with `src/top -> ..`, they pack all of the project.
    """
    pending, seen = [folder], list[Path]()
    while pending:
        place = pending.pop()
        real = real_path(place)
        # Links may form a cycle, or lead into a directory that was already visited.
        if any(map(real.is_relative_to, seen)):
            continue
        seen.append(real)
        yield place
        links = (Path(each.path) for each in entries_below(place, NAMES) if each.is_symlink())
        pending += filter(may_be_folder, links)


def doubt(policy: Policy, *tools: str) -> AccessDecision:
    """Return the decision about a call that may use a file of the first rule about files."""
    rule = next(rule for rule in (*policy.deny, *policy.ask) if rule.tool in (*tools, "Read"))
    return may_apply(rule)
