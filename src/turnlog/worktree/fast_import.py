"""Write the input of `git fast-import`, and run git isolated from the user's configuration."""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from turnlog.errors import NotFound, TurnlogError

IDENTITY = b"Claude Code <claude-code@turnlog.invalid>"
"""Author and committer of all commits: fixed, so that two exports have the same hashes."""
IMPORT_REF = b"refs/turnlog/import"
SETTINGS = (
    "core.autocrlf=false",
    # ~/.config/git/attributes is read even without a configuration, and may convert line endings.
    "core.attributesFile=/dev/null",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=false",
    "core.protectNTFS=true",
    "core.protectHFS=true",
    "gc.auto=0",
)
"""Settings that make git store and check out bytes unchanged, and run no other programs."""


@dataclass
class FastImportStream:
    """The input of fast-import; identical contents are written once."""

    output: BinaryIO
    marks: int = 0
    blobs: dict[bytes, int] = field(default_factory=dict[bytes, int])

    def blob(self, content: bytes) -> int:
        """Write a blob unless its content was written before; return its mark."""
        from hashlib import sha256

        digest = sha256(content).digest()
        if digest not in self.blobs:
            self.blobs[digest] = self._mark()
            self.output.write(b"blob\nmark :%d\n" % self.blobs[digest])
            self._data(content)
        return self.blobs[digest]

    def commit(
        self,
        message: str,
        seconds: int,
        parents: Sequence[int],
        changes: Mapping[str, int | None],
    ) -> int:
        """Write a commit and return its mark; a change without a blob deletes a file."""
        mark = self._mark()
        # The date is that of the session: exporting again gives the same hashes.
        stamp = b"%s %d +0000\n" % (IDENTITY, max(0, seconds))
        self.output.write(b"commit %s\nmark :%d\n" % (IMPORT_REF, mark))
        self.output.write(b"author " + stamp + b"committer " + stamp)
        self._data(message.encode("utf-8", "replace"))
        for word, parent in zip((b"from", *[b"merge"] * len(parents)), parents, strict=False):
            self.output.write(b"%s :%d\n" % (word, parent))
        for path, blob in sorted(changes.items()):
            name = quoted(path)
            if blob is None:
                self.output.write(b"D %s\n" % name)
            else:
                self.output.write(b"M 100644 :%d %s\n" % (blob, name))
        self.output.write(b"\n")
        return mark

    def branch(self, name: str, mark: int) -> None:
        """Point a branch to a commit."""
        self.output.write(b"reset refs/heads/%s\nfrom :%d\n\n" % (name.encode(), mark))

    def finish(self) -> None:
        """Write the `done` command, without which fast-import fails."""
        self.output.write(b"done\n")

    def _mark(self) -> int:
        self.marks += 1
        return self.marks

    def _data(self, content: bytes) -> None:
        self.output.write(b"data %d\n" % len(content))
        self.output.write(content)
        self.output.write(b"\n")


def quoted(path: str) -> bytes:
    """Return a path as fast-import reads it: in quotes, with everything unusual escaped.

    A path with a newline could otherwise smuggle in commands: `a\\nM 100755 inline .git/hooks/x`.

    >>> quoted('a"b')
    b'"a\\\\"b"'
    """
    escaped = bytearray()
    for byte in path.encode("utf-8", "surrogateescape"):
        if byte in b'"\\' or byte < 32 or byte == 127:
            escaped += b"\\%03o" % byte if byte not in b'"\\' else b"\\" + bytes([byte])
        else:
            escaped.append(byte)
    return b'"' + bytes(escaped) + b'"'


def run_git(folder: Path, *arguments: str, source: Path | None = None) -> str:
    """Run git in a folder without the user's settings, hooks and templates; return its output."""
    options = [word for setting in SETTINGS for word in ("-c", setting)]
    try:
        with open(source or os.devnull, "rb") as stdin:  # noqa: PTH123 - /dev/null has no Path
            done = subprocess.run(
                ["git", *options, *arguments],
                cwd=folder,
                env=_environment(),
                stdin=stdin,
                capture_output=True,
                check=False,
            )
    except FileNotFoundError as error:
        raise NotFound("git is not installed", "apt install git") from error
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise TurnlogError(
            f"git {arguments[0]} failed: {reason[-1] if reason else done.returncode}",
            "git --version && df -h .",
        )
    return done.stdout.decode("utf-8", "replace")


def branch_names(suffixes: Iterable[str]) -> list[str]:
    """Return a name for each branch but the active one, which is `main`."""
    return [f"branch-{number}-{suffix}" for number, suffix in enumerate(suffixes, 2)]


def _environment() -> dict[str, str]:
    # GIT_DIR and the like would point to another repository, and a global configuration could
    # name filters and hooks: everything that starts with GIT_ is left out.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    nothing = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return kept | nothing | {"GIT_ATTR_NOSYSTEM": "1", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
