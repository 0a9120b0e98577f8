"""Files that a password opens."""

import re
from collections.abc import Callable
from types import SimpleNamespace

import pyrage  # pyright: ignore[reportMissingTypeStubs]
import pytest

from turnlog.errors import Damaged, Unavailable
from turnlog.format import age_files

SEALED = pyrage.passphrase.encrypt(b"content", "password")


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have pyrage refuse a number of times, as it does on a machine that is busy at that moment."""
    harder = re.sub(rb"(-> scrypt \S+) \d+", rb"\1 50", SEALED)

    def refuse(count: int) -> None:
        files = iter([harder] * count)
        decrypt = SimpleNamespace(
            decrypt=lambda raw, password: pyrage.passphrase.decrypt(next(files, raw), password)
        )
        monkeypatch.setattr(age_files, "load_pyrage", lambda: SimpleNamespace(passphrase=decrypt))
        monkeypatch.setattr(age_files, "PAUSES", (0.0,) * len(age_files.PAUSES))

    return refuse


def test_a_busy_machine_tries_again(refusals: Callable[[int], None]) -> None:
    refusals(3)
    assert age_files.decrypt_with_password(SEALED, "password") == b"content"


def test_a_machine_that_stays_busy_does_not_blame_the_password(
    refusals: Callable[[int], None],
) -> None:
    refusals(len(age_files.PAUSES))
    with pytest.raises(Unavailable, match="too busy") as raised:
        age_files.decrypt_with_password(SEALED, "password")
    assert not isinstance(raised.value, Damaged)


def test_a_wrong_password_is_refused_at_once() -> None:
    with pytest.raises(Damaged, match="the password is wrong"):
        age_files.decrypt_with_password(SEALED, "another")
