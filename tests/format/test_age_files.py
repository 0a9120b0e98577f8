"""Files encrypted with a password."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from turnlog.errors import Damaged, Unavailable
from turnlog.format import age_files

Refuse = Callable[[int], None]


@pytest.fixture(scope="module")
def sealed() -> bytes:
    return age_files.encrypt_with_password(b"content", "password")


@pytest.fixture
def refusals(sealed: bytes, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Have pyrage refuse a number of times, as it does on a machine that is busy at that moment."""
    passphrase: Any = age_files.load_pyrage().passphrase
    harder = re.sub(rb"(-> scrypt \S+) \d+", rb"\1 50", sealed)

    def refuse(count: int) -> None:
        files = iter([harder] * count)

        def decrypt(raw: bytes, password: str) -> bytes:
            return passphrase.decrypt(next(files, raw), password)

        busy = SimpleNamespace(passphrase=SimpleNamespace(decrypt=decrypt))
        monkeypatch.setattr(age_files, "load_pyrage", lambda: busy)
        monkeypatch.setattr(age_files, "PAUSES", (0.0,) * len(age_files.PAUSES))

    return refuse


def test_a_busy_machine_tries_again(sealed: bytes, refusals: Refuse) -> None:
    refusals(3)
    assert age_files.decrypt_with_password(sealed, "password") == b"content"


def test_a_machine_that_stays_busy_does_not_blame_the_password(
    sealed: bytes, refusals: Refuse
) -> None:
    refusals(len(age_files.PAUSES))
    with pytest.raises(Unavailable, match="too busy") as raised:
        age_files.decrypt_with_password(sealed, "password")
    assert not isinstance(raised.value, Damaged)


def test_a_wrong_password_is_refused_at_once(sealed: bytes) -> None:
    with pytest.raises(Damaged, match="the password is wrong"):
        age_files.decrypt_with_password(sealed, "another")
