"""DEST on another host, reached with `ssh`: needs only a POSIX shell there."""

import os
import re
from collections.abc import Iterable
from shlex import quote

from turnlog.errors import Damaged
from turnlog.exchange.transports import FOLDERS, is_valid, run_program

ROW = re.compile(rb"\s*([0-9]{1,15})\s+(\S+)")
"""A line of `wc -c`."""
OPTIONS = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=20")
"""Never prompt: a sync may run unattended."""


class SshTransport:
    """Files in a directory of a host; a relative path starts at the user's home there."""

    def __init__(self, host: str, path: str) -> None:
        self._host = host
        # `./` keeps the path from being empty (`~/` would turn into `/packs`) or an option (`-x`).
        below = "" if path == "~" else path.removeprefix("~/")
        self._path = quote(below if below.startswith("/") else f"./{below}".rstrip("/"))

    def list(self) -> dict[str, int]:
        # `-type f` skips links, which could point to any file on that host.
        look = "[ -d $d ] && [ ! -h $d ] && find $d -type f -exec wc -c {} +"
        loop = f"for d in {' '.join(FOLDERS)}; do {look}; done"
        script = f"cd {self._path} 2>/dev/null || exit 0; {loop}; :"
        found: dict[str, int] = {}
        for line in self._run(script).splitlines():
            row = ROW.fullmatch(line)
            name = row[2].decode(errors="replace") if row else ""
            if row and is_valid(name):
                found[name] = int(row[1])
        return found

    def read(self, name: str, limit: int) -> bytes:
        content = self._run(f"cd {self._path} && head -c {limit + 1} {name}", limit=limit + 1)
        if len(content) > limit:
            raise Damaged(f"{self._host}: {name} is larger than {limit:,} bytes")
        return content

    def write(self, name: str, content: bytes) -> None:
        folder, _, base = name.partition("/")
        temporary = f"{folder}/.{base}.{os.urandom(4).hex()}.tmp"
        # If the connection drops, `cat` still succeeds with a truncated file: compare sizes.
        script = (
            f"umask 077; mkdir -p {self._path}/{folder} && cd {self._path} && cat > {temporary} && "
            f'if [ "$(($(wc -c < {temporary})))" -eq {len(content)} ]; then mv {temporary} {name}; '
            f"else rm -f {temporary}; exit 1; fi"
        )
        self._run(script, content)

    def remove(self, names: Iterable[str]) -> None:
        if listed := " ".join(names):
            self._run(f"cd {self._path} && rm -f {listed}")

    def finish(self) -> None:
        """Nothing to do: files are visible as soon as they are written."""

    def _run(self, script: str, given: bytes = b"", limit: int | None = None) -> bytes:
        # The login shell may be fish or csh, so the script runs in a shell that is known.
        remote = f"exec sh -c {quote(script)}"
        command = ["ssh", *OPTIONS, "--", self._host, remote]
        return run_program(command, given, limit=limit, hint=f"ssh {quote(self._host)} true")
