"""A pseudo-terminal whose output is read to the last byte."""

import fcntl
import os
import pty
import struct
import termios
from threading import Thread

END = b"<end of output>"


class Terminal:
    """A terminal for a child process: pass `follower` as its stdin, stdout or stderr.

    The follower stays open until the output is read: Linux may drop the last lines of a terminal
    when the last process that has it open exits.
    """

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._output = bytearray()
        # A terminal holds 4 KiB, so a child that prints more waits for a reader.
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while not self._output.endswith(END):
            self._output += os.read(self._leader, 65536)

    def close(self) -> str:
        """Return the whole output and close the terminal; call it once the child has exited."""
        os.write(self.follower, END)
        self._reader.join()
        os.close(self.follower)
        os.close(self._leader)
        return self._output.removesuffix(END).decode()
