"""Trust in a project's configuration: its settings, hooks and servers run commands on this machine,
and its memory files can import files from outside the project.

The user is asked once for each directory that configuration is loaded from. Trust recorded by the
client counts as well.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.permissions.policy import Ask, Question, Verdict, VerdictKind
from turnlog.agent.workspace.project_directories import ConfigDirectory, is_within, project_root
from turnlog.errors import UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import as_object, is_array, is_object, parse_json
from turnlog.format.regular_files import read_object
from turnlog.store.paths import Store, imports_file, real_path, trust_file

TRUST = "Trust"
"""Pseudo tool name of the question about trust."""
IMPORTS = "Imports"
APPROVED, ASKED = "hasClaudeMdExternalIncludesApproved", "hasClaudeMdExternalIncludesWarningShown"
APPROVED_HERE, REFUSED_HERE = "approved", "refused"
ACCEPTED = "hasTrustDialogAccepted"
WITHOUT = "turnlog chat --setting-sources user"
"""The command that starts a chat without the project's configuration."""


class Trust(Struct, frozen=True):
    """The trusted and the untrusted directories that configuration is loaded from."""

    trusted: tuple[ConfigDirectory, ...] = ()
    untrusted: tuple[ConfigDirectory, ...] = ()

    def covers(self, path: Path) -> bool:
        """Return whether a configuration file of the project may be used.

        Trust is not inherited: a directory below a trusted one needs the user's consent as well.
        """
        return any(directory.holds(path) for directory in self.trusted)

    def contains(self, path: Path, root: Path) -> bool:
        """Return whether a file's real path is in the project or in an approved link target."""
        links = [link for directory in self.trusted for link in directory.links]
        return is_within(path, [root, *links])


async def establish_trust(
    store: Store,
    directories: Sequence[ConfigDirectory],
    ask: Ask | None,
    environment: Mapping[str, str] = os.environ,
) -> Trust:
    """Ask about the directories that are not known to be trusted; refusing ends the chat.

    If nobody can be asked, they stay untrusted.
    """
    unknown = [each for each in directories if not is_trusted(store, each, environment)]
    # Nobody to ask: the chat goes on, and untrusted configuration can only restrict it.
    if not unknown or ask is None:
        known = tuple(each for each in directories if each not in unknown)
        return Trust(known, tuple(unknown))
    named = ", ".join(map(_described, unknown))
    verdict = Verdict(VerdictKind.ASK, f"what is loaded from there can run commands: {named}")
    places = ", ".join(str(each.path) for each in unknown)
    if (await ask(Question(TRUST, TRUST, {"description": places}, verdict))).kind != "allow":
        raise UsageError(f"not trusted: {places}", WITHOUT)
    path = trust_file(environment)
    known = {*_trusted_here(path), *(key for each in unknown for key in _keys(each))}
    write_atomic(path, json.dumps(sorted(known), indent=1).encode())
    return Trust(tuple(directories))


def is_trusted(
    store: Store, directory: ConfigDirectory, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether the user trusts a directory, and every target of its links outside of it.

    Trust in a parent directory does not count: a checkout below it may be somebody else's.
    """
    known = _trusted_here(trust_file(environment))
    projects = _client_projects(store, environment)
    # turnlog records the resolved path; the client may have recorded it unresolved.
    names = {str(directory.path), str(directory.path.resolve())}
    is_known = any(name in known or _is_accepted(projects.get(name)) for name in names)
    # The client asks only about the directory, so its answer does not cover links that lead
    # outside.
    return is_known and all(str(link) in known for link in directory.links)


def _keys(directory: ConfigDirectory) -> list[str]:
    return [str(each) for each in (directory.path.resolve(), *directory.links)]


def _described(directory: ConfigDirectory) -> str:
    files = ", ".join(map(str, directory.files))
    links = ", ".join(map(str, directory.links))
    return f"{files} (links to {links})" if links else files


class ImportChoices(Struct, frozen=True):
    """Files outside of a project that the user was asked about, by their real paths."""

    approved: frozenset[Path] = frozenset()
    refused: frozenset[Path] = frozenset()
    refuses_all: bool = False
    """True if the user refused all imports of this project in the client."""

    def is_known(self, path: Path) -> bool:
        """Return whether the user has decided about a file."""
        return self.refuses_all or real_path(path) in self.approved | self.refused


async def ask_for_imports(
    store: Store,
    root: Path,
    outside: Sequence[Path],
    ask: Ask,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Ask whether memory files may import files from outside the project, unless answered before.

    The answer covers only the files that the question names: if `git pull` adds
    `@~/.ssh/id_rsa`, the user is asked again.
    """
    choices = import_choices(store, root, environment)
    unknown = dict.fromkeys(real_path(path) for path in outside if not choices.is_known(path))
    if not unknown:
        return
    named = ", ".join(map(str, unknown))
    reason = "they are outside this project, and the model would see their content"
    reply = await ask(
        Question(IMPORTS, IMPORTS, {"description": named}, Verdict(VerdictKind.ASK, reason))
    )
    file, place = imports_file(environment), str(project_root(root))
    known = read_object(file)
    answer = APPROVED_HERE if reply.kind == "allow" else REFUSED_HERE
    answers = _lists(known.get(place))
    answers[answer] = sorted({*answers[answer], *map(str, unknown)})
    write_atomic(file, json.dumps(known | {place: answers}, indent=1).encode())


def import_choices(
    store: Store, root: Path, environment: Mapping[str, str] = os.environ
) -> ImportChoices:
    """Return the user's answers about files that a project's memory imports from outside.

    The client stores one answer per repository, for all files (observed). A refusal counts here; an
    approval does not, because it names no file.
    """
    place = str(project_root(root))
    answers = _lists(read_object(imports_file(environment)).get(place))
    value = _client_projects(store, environment).get(place)
    fields: dict[str, Any] = as_object(value)
    return ImportChoices(
        approved=frozenset(map(Path, answers[APPROVED_HERE])),
        refused=frozenset(map(Path, answers[REFUSED_HERE])),
        refuses_all=bool(fields.get(ASKED))
        and not fields.get(APPROVED)
        and not any(answers.values()),
    )


def _lists(held: Any) -> dict[str, list[str]]:
    """Return the user's answers for a project; ignore an older format that names no files."""
    value: dict[str, Any] = as_object(held)
    lists = {name: value.get(name) for name in (APPROVED_HERE, REFUSED_HERE)}
    return {
        name: [each for each in listed if isinstance(each, str)] if is_array(listed) else []
        for name, listed in lists.items()
    }


def _client_projects(store: Store, environment: Mapping[str, str]) -> dict[str, Any]:
    return as_object(read_object(store.client_state(environment)).get("projects"))


def _is_accepted(project: Any) -> bool:
    return is_object(project) and project.get(ACCEPTED) is True


def _trusted_here(path: Path) -> list[str]:
    # If the file is damaged, nothing is trusted.
    with suppress(OSError, ValueError):
        names = parse_json(path.read_bytes())
        return [each for each in names if isinstance(each, str)] if is_array(names) else []
    return []
