"""A terminal that attaches to a background chat."""

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from tty import setraw

import pytest

from turnlog.agent.background import attachment
from turnlog.agent.background.background_jobs import Job, JobState
from turnlog.agent.background.job_wire import ATTACH, FrameReader


def test_keys_pressed_before_a_chat_is_shown_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    keyboard, terminal = os.openpty()
    received = bytearray()

    def hold_enter(descriptor: int) -> None:
        setraw(descriptor)  # which forgets what was typed before
        os.write(keyboard, b"\r\r\r")

    def serve() -> None:
        with theirs, suppress(TimeoutError):
            while content := theirs.recv(1 << 16):
                received.extend(content)
                theirs.settimeout(1.0)

    def connect(folder: Path) -> socket.socket:
        return ours

    monkeypatch.setattr(attachment, "connect_to", connect)
    monkeypatch.setattr("tty.setraw", hold_enter)
    host = Thread(target=serve)
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        host.start()
        state = JobState("1f0c2d3e", "a session", str(tmp_path))
        assert not attachment.attach_to(Job(tmp_path, state, is_running=True))
        host.join()
    os.close(keyboard)
    assert [kind for kind, _ in FrameReader().feed(bytes(received))] == [ATTACH]
