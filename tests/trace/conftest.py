"""Sessions of the lines that a test states, and a backend to send their traces to."""

from collections.abc import Generator

import pytest

from conversation.conftest import Opened, opened
from otlp_receiver import Receiver, receiving

__all__ = ["Opened", "opened"]


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with receiving() as started:
        yield started
