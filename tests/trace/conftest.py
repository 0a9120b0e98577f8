"""Sessions of the lines that a test states, and a backend to send their traces to."""

from collections.abc import Generator
from pathlib import Path

import pytest

from conversation.conftest import Opened, opened
from support.hooked_client import PROJECT, Client, Clock, Names
from support.otlp_receiver import Receiver, receiving
from turnlog.store.paths import folder_name
from turnlog.trace.spool import Spool

__all__ = ["Opened", "opened"]


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(tmp_path / "trace" / "spool")
    made.begin()
    return made


@pytest.fixture
def client(tmp_path: Path, spool: Spool, receiver: Receiver) -> Client:
    folder = tmp_path / "projects" / folder_name(PROJECT)
    folder.mkdir(parents=True)
    return Client(spool.folder, receiver.url, folder, (Clock(), Names()))
