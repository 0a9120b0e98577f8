"""DEST as a branch of a git repository, without a work tree.

Nothing is checked out, so links, filters, hooks and attributes in the repository have no effect.
Machines never change each other's files, so a rejected push can be retried on top of the new tip.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from turnlog.errors import Conflict, Damaged, Unavailable
from turnlog.exchange.transports import is_valid, run_program
from turnlog.format.private_files import secure_folder
from turnlog.secrets import mask
from turnlog.store.worktrees import worktree_on

BRANCH_NAME = "turnlog"
BRANCH = f"refs/heads/{BRANCH_NAME}"
CHECKED_OUT = "branch is currently checked out"
"""Why git refuses a push to a branch of some worktree, linked or not."""
TIP = "refs/turnlog/dest"
ATTEMPTS = 20
ROW = re.compile(r"100644 blob ([0-9a-f]{40,64}) +([0-9]+)\t(.+)")
"""A regular file in the output of `git ls-tree -r -l`."""
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "turnlog"), ("EMAIL", "turnlog@localhost"))
}
SETTINGS = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "core.fsync=all")


class GitTransport:
    """The files of a branch; all writes up to `finish` become one commit."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._shown = mask(url)
        self._written: dict[str, tuple[str, int]] = {}
        self._removed: set[str] = set()
        self._tip: str | None = None
        self._listed: dict[str, tuple[str, int]] = {}
        """The files of the tip: hash and size by name."""
        secure_folder(folder)
        if not (folder / "HEAD").exists():
            self._git("init", "-q", "--bare")
        self._fetch()

    def list(self) -> dict[str, int]:
        return {name: size for name, (_, size) in self._blobs().items()}

    def read(self, name: str, limit: int) -> bytes:
        found = self._blobs().get(name)
        if found is None:
            raise Damaged(f"{name} is missing in {self._shown}")
        digest, size = found
        if size > limit:
            raise Damaged(f"{name} is larger than {limit:,} bytes")
        return self._git("cat-file", "blob", digest)

    def write(self, name: str, content: bytes) -> None:
        # Stored in the local clone at once, so that a retried push need not write it again.
        digest = self._git("hash-object", "-w", "--stdin", given=content).decode().strip()
        self._written[name] = digest, len(content)

    def remove(self, names: Iterable[str]) -> None:
        self._removed |= set(names)

    def finish(self) -> None:
        """Commit and push; if another machine pushed first, retry on top of its commit."""
        if not self._written and not self._removed:
            return
        for attempt in range(ATTEMPTS):
            commit = self._commit()
            try:
                self._git("push", "-q", "--", self._url, f"{commit}:{BRANCH}")
                break
            except Unavailable as error:
                if CHECKED_OUT in error.message:
                    raise self._checked_out() from error
                before = self._tip
                self._fetch()
                # Nobody else has pushed, so retrying cannot help: the network, the permissions or
                # the server are at fault.
                if self._tip == before and attempt > 2:
                    raise
        else:
            raise Unavailable(f"{self._shown}: other machines keep pushing", "sleep 60")
        self._git("update-ref", TIP, commit)
        self._written, self._removed = {}, set()
        self._look()

    def _checked_out(self) -> Conflict:
        path = Path(self._url.removeprefix("file://")).absolute()
        message = f"{self._shown}: its branch {BRANCH_NAME} is checked out"
        if worktree := worktree_on(path, BRANCH_NAME) if path.is_dir() else None:
            hint = f"git -C {quote(str(worktree))} switch --detach"
            return Conflict(f"{message} in {worktree}", hint)
        at = f"-C {quote(str(path))} " if path.is_dir() else ""
        return Conflict(message, f"git {at}worktree list")

    def _blobs(self) -> dict[str, tuple[str, int]]:
        kept = {name: at for name, at in self._listed.items() if name not in self._removed}
        return kept | self._written

    def _fetch(self) -> None:
        if self._git("ls-remote", "--", self._url, BRANCH).strip():
            self._git("fetch", "-q", "--no-tags", "--", self._url, f"+{BRANCH}:{TIP}")
        else:
            # The remote has no such branch (any more), so a local copy of it is stale.
            self._git("update-ref", "-d", TIP)
        self._look()

    def _look(self) -> None:
        """Read the tip and its list of files from the local clone."""
        found = self._git("for-each-ref", "--format=%(objectname)", TIP).decode().strip()
        self._tip = found or None
        listed = self._git("ls-tree", "-r", "-l", found).decode(errors="replace") if found else ""
        rows = [row for line in listed.split("\n") if (row := ROW.fullmatch(line))]
        self._listed = {row[3]: (row[1], int(row[2])) for row in rows if is_valid(row[3])}

    def _commit(self) -> str:
        tip = self._tip
        index = self._folder / "turnlog-index"
        # A killed sync may have left an index with files that were never pushed.
        index.unlink(missing_ok=True)
        self._git("read-tree", tip or "--empty", index=index)
        gone = [f"0 {'0' * 40}\t{name}\n" for name in sorted(self._removed)]
        new = [f"100644 {at[0]}\t{name}\n" for name, at in sorted(self._written.items())]
        given = "".join(gone + new).encode()
        self._git("update-index", "--index-info", given=given, index=index)
        tree = self._git("write-tree", index=index).decode().strip()
        parents = ["-p", tip] if tip else []
        return self._git("commit-tree", tree, *parents, "-m", "turnlog sync").decode().strip()

    def _git(self, *arguments: str, given: bytes = b"", index: Path | None = None) -> bytes:
        # Inside a git hook, `GIT_DIR` and others point to another repository, so they are dropped.
        # Protocols are limited because `ext::` URLs run programs.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        kept = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL")
        environment |= {name: os.environ[name] for name in kept if name in os.environ}
        environment |= AUTHOR | {
            "GIT_DIR": str(self._folder),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        }
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        command = ["git", *SETTINGS, *arguments]
        hint = f"git ls-remote {quote(self._shown)}"
        return run_program(command, given, environment=environment, hint=hint)
