"""Access control for the pages: only this user can exchange a one-time URL for a cookie."""

import os
import secrets
import socket
import struct
from contextlib import suppress
from functools import cached_property
from pathlib import Path

LANDING = "/open/"
"""The prefix of the path of a one-time URL; the token follows."""
SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


Address = tuple[str, int]


class Peer:
    """The other end of a connection, looked up once: a busy machine has thousands of sockets."""

    def __init__(self, client: Address | None, server: Address | None) -> None:
        self.client = client
        self.server = server

    @cached_property
    def is_own(self) -> bool:
        """True if the other end belongs to this user or to root."""
        return is_own_peer(self.client, self.server)


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

    def redeem(self, token: str, peer: Peer) -> str | None:
        """Exchange an unused token for the value of the cookie; return None if it is not valid."""
        # Compared in constant time: a difference of microseconds would reveal a prefix. The peer is
        # checked last: a wrong guess must not make the server read tables of sockets.
        if self._token is None or not _equal(token, self._token) or not peer.is_own:
            return None
        self._token = None
        return self._secret

    def accepts(self, cookie: str | None) -> bool:
        """Return whether a cookie has the value that this server issued."""
        return cookie is not None and _equal(cookie, self._secret)


def _equal(given: str, expected: str) -> bool:
    # Encoded: compare_digest raises an error for text beyond ASCII.
    return secrets.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def is_own_peer(client: Address | None, server: Address | None) -> bool:
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
    return owner_of(client, server, "\n".join(tables)) in (0, os.getuid())


def owner_of(local: Address, remote: Address, table: str) -> int | None:
    """Return the user id that owns a connected socket, from a table of /proc/net; None if unknown.

    >>> table = " 0: 0100007F:A000 0100007F:1F90 01 00:00 00:00 0 1000 0 42"
    >>> owner_of(("127.0.0.1", 0xA000), ("127.0.0.1", 0x1F90), table)
    1000
    """
    # Ports alone are not enough. If another user connects from 127.0.0.2 and a port with the same
    # number as the server's, the server's own end of that connection would match as well.
    wanted = list(zip(_table_forms(local), _table_forms(remote), strict=True))
    for line in table.splitlines():
        fields = line.split()
        # 01 is ESTABLISHED. A socket that is being closed is reported as owned by root.
        if len(fields) > 7 and fields[3] == "01" and (fields[1], fields[2]) in wanted:
            return int(fields[7])
    return None


def _table_forms(address: Address) -> tuple[str, str]:
    """Return an IPv4 address as the tables for IPv4 and IPv6 show it."""
    host, port = address
    packed = socket.inet_pton(socket.AF_INET, host)
    mapped = bytes(10) + b"\xff\xff" + packed
    # The kernel prints words in the byte order of the machine.
    words = [f"{word:08X}" for word in struct.unpack("=4I", mapped)]
    return f"{words[3]}:{port:04X}", f"{''.join(words)}:{port:04X}"
