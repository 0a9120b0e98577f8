"""Who may read the pages: a one-time URL is exchanged for a cookie, and by this user only."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

LANDING = "/open/"
"""The path that one-time tokens follow."""
SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class Access:
    """The one-time token of a server, and the cookie that it is exchanged for."""

    def __init__(self, port: int, target: str = "/") -> None:
        self.target = target
        """The page that the one-time URL opens."""
        # Cookies are shared by all ports of a host: two servers need two names.
        self.cookie = f"turnlog-{port}"
        self._token: str | None = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)

    @property
    def path(self) -> str:
        """The path of the one-time URL."""
        return f"{LANDING}{self._token}"

    def is_landing(self, path: str) -> bool:
        """Return whether a path belongs to a one-time URL, valid or not."""
        return path.startswith(LANDING)

    def redeem(self, token: str) -> str | None:
        """Return the value of the cookie for an unused token, which is used then."""
        # Comparing in constant time: a difference of microseconds would reveal a prefix.
        if self._token is None or not _equal(token, self._token):
            return None
        self._token = None
        return self._secret

    def accepts(self, cookie: str | None) -> bool:
        """Return whether the value of a cookie is that of this server."""
        return cookie is not None and _equal(cookie, self._secret)


def _equal(given: str, expected: str) -> bool:
    # Encoded: compare_digest raises an error for text beyond ASCII.
    return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def is_own_peer(client: tuple[str, int] | None, server: tuple[str, int] | None) -> bool:
    """Return whether the other end of a loopback connection belongs to this user or to root.

    Browsers get the one-time URL as an argument, and on Linux every user can read the arguments of
    every process. Other systems keep them private, and have no table of sockets.
    """
    tables: list[str] = []
    for path in SOCKETS:
        with suppress(OSError):
            tables.append(path.read_text())
    if not tables or not client or not server:
        return True
    return owner_of(client[1], server[1], "\n".join(tables)) in (0, os.getuid())


def owner_of(local: int, remote: int, table: str) -> int | None:
    """Return the user id of the connected socket with these ports in a table of /proc/net.

    >>> owner_of(0xA000, 0x1F90, " 0: 0100007F:A000 0100007F:1F90 01 00:00 00:00 0 1000 0 42")
    1000
    """
    for line in table.splitlines():
        fields = line.split()
        # 01 is ESTABLISHED. A socket that is being closed is reported as owned by root.
        if (
            len(fields) > 7
            and fields[3] == "01"
            and fields[1].endswith(f":{local:04X}")
            and fields[2].endswith(f":{remote:04X}")
        ):
            return int(fields[7])
    return None
