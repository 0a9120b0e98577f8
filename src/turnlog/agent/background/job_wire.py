"""The connection between a background chat and the terminals attached to it.

A request is a frame: a letter, the length of the payload, and the payload. The response is the raw
output of the chat's terminal. The socket is in a folder of mode 0700, and the peer has to be the
same user.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from turnlog.agent.background.background_jobs import SOCKET

HEAD = struct.Struct("!cI")
LARGEST = 1 << 20
TYPED, SIZED, STOP, ATTACH, DETACH, ROWS = b"t", b"w", b"s", b"a", b"d", b"r"
"""Frame types: typed keys, terminal size, stop the chat, attach, detach, and send the rows."""
SIZE = struct.Struct("!HH")
CREDENTIALS = struct.Struct("3i")
Frame = tuple[bytes, bytes]


def encode_frame(kind: bytes, content: bytes = b"") -> bytes:
    """Encode a request as a frame."""
    return HEAD.pack(kind, len(content)) + content


class FrameReader:
    """Splits received bytes into requests."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, content: bytes) -> Iterator[Frame]:
        """Yield the requests that are complete; raise `ValueError` for an invalid one."""
        self._held += content
        while len(self._held) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._held)
            if length > LARGEST:
                raise ValueError("a frame is too long")
            if len(self._held) < HEAD.size + length:
                return
            frame = bytes(self._held[HEAD.size : HEAD.size + length])
            del self._held[: HEAD.size + length]
            yield kind, frame


def listen_in(folder: Path) -> socket.socket:
    """Listen on the socket of a background chat."""
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        # Bind by name only: a socket path is limited to 108 bytes, and the folder's may be longer.
        with chdir(folder):
            listener.bind(SOCKET)
    finally:
        os.umask(before)
    listener.listen(8)
    listener.settimeout(0)
    return listener


def connect_to(folder: Path, seconds: float = 5.0) -> socket.socket:
    """Connect to a background chat; raise `OSError` if nothing listens there."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        with chdir(folder):
            connection.connect(SOCKET)
    except BaseException:
        connection.close()
        raise
    return connection


def is_same_user(connection: socket.socket) -> bool:
    """Return whether the peer is this user or root; True where the system cannot tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    found = connection.getsockopt(socket.SOL_SOCKET, option, CREDENTIALS.size)
    return CREDENTIALS.unpack(found)[1] in (os.geteuid(), 0)
