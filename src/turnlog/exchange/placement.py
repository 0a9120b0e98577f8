"""Decide where the files of another machine's version belong in this store.

Nothing in a version is trusted: a file is accepted only if its path is on the allowlist and its
size is plausible.
"""

import os
from pathlib import Path

from turnlog.errors import Damaged
from turnlog.exchange.editions import MAIN, OwnFile, OwnSession, own_version
from turnlog.exchange.machine_manifest import FileVersion, SessionVersion
from turnlog.exchange.options import Exchanged, NotExchanged
from turnlog.exchange.packs import PieceReader
from turnlog.exchange.shared_paths import (
    Places,
    folder_problem,
    is_loose,
    nested_role,
    path_of,
    role_problem,
)
from turnlog.store.archive.allowed_paths import collisions


class Placement:
    """Gives each file of a version its role and its path here, and refuses foreign ones."""

    def __init__(self, root: Path, places: Places, reader: PieceReader, report: Exchanged) -> None:
        self.root, self.places = root, places
        self._reader, self._report = reader, report
        self._refused: set[NotExchanged] = set()

    def accepted(self, own: OwnSession, version: SessionVersion) -> list[FileVersion]:
        """Return the files of a version that may be written, one for each role."""
        roles = {file.role for file in version.files}
        project = next((file.project for file in version.files if file.role == MAIN), "")
        found: dict[str, FileVersion] = {}
        named: dict[str, str] = {}
        for each in version.files:
            file = own_version(each)
            # A session is in one project, whatever the version says about its other files.
            file.project = project if project and each.project else each.project
            file.role = own.role_of(each.role, roles)
            if file.role not in own.files and self.is_taken(own, file):
                file.role = nested_role(file.role)
            path = self.path_of(own, file)
            if path is None or not self._is_bounded(path, file):
                continue
            if (other := found.get(file.role)) and file.is_log:
                # A sub-agent may be next to the session and in its folder: both are one log here.
                file.former += [other.pieces, *other.former]
            found[file.role], named[path] = file, file.role
        # Names that differ only in case, or by how accents are encoded, are one file on some
        # systems.
        for path in collisions(named):
            self._refuse(path, "would overwrite another file")
            found.pop(named[path], None)
        return list(found.values())

    def path_of(self, own: OwnSession, file: FileVersion) -> str | None:
        """Return where a file belongs in the store; None if it is refused."""
        folder = self._folder(own, file)
        local = own.local or ""
        problem = folder_problem(folder) if file.project else None
        if not file.project and file.role.startswith("projects/"):
            problem = "names no project"
        if problem := problem or role_problem(file.role, folder, local):
            self._refuse(f"{own.session} {file.role}", problem)
            return None
        return path_of(file.role, folder, local)

    def is_taken(self, own: OwnSession, file: FileVersion) -> bool:
        """Return whether a file is where a sub-agent next to its session would be.

        It may be empty, or another session's: it stays as it is.
        """
        path = self.path_of(own, file) if is_loose(file.role) else None
        return path is not None and os.path.lexists(self.root / path)

    def path_for(self, own: OwnSession, file: OwnFile) -> Path:
        """Return where a file is, or is to be written."""
        if file.path is not None:
            return file.path
        found = self.path_of(own, file.version)
        if found is None:
            raise Damaged(f"{own.session} {file.version.role} cannot be written")
        return self.root / found

    def _folder(self, own: OwnSession, file: FileVersion) -> str:
        if not file.project:
            return ""
        main = own.files.get(MAIN)
        # If the session was moved to another project here, new files go there too.
        if main is not None and main.path is not None:
            return main.path.parent.name
        project = main.version.project if main is not None else ""
        return self.places.local_folder(project or file.project)

    def _is_bounded(self, path: str, file: FileVersion) -> bool:
        for pieces in (file.pieces, *file.former):
            if problem := self._reader.size_problem(pieces):
                self._refuse(path, problem)
                return False
        return True

    def _refuse(self, name: str, reason: str) -> None:
        problem = NotExchanged(name, reason)
        if problem not in self._refused:
            self._refused.add(problem)
            self._report.problems.append(problem)
