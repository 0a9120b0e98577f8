"""Bundles encrypted with a password and signed with a real key."""

import subprocess
from pathlib import Path

import pytest

from support.two_homes import User, create_users, record_session
from turnlog.bundle.sealing import sign, signature_of, verify
from turnlog.bundle.validation import needs_password
from turnlog.errors import Damaged, NotFound, Unavailable, UsageError


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[User, User]:
    users = create_users(tmp_path, monkeypatch)
    record_session(users[0])
    return users


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.turnlog"


def make_key(folder: Path, name: str) -> Path:
    key = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(command, check=True)
    return key


def allow(folder: Path, **keys: Path) -> Path:
    signers = folder / "allowed_signers"
    rows = [f"{name} {key.with_suffix('.pub').read_text()}" for name, key in keys.items()]
    signers.write_text("".join(rows))
    return signers


def test_an_encrypted_bundle_needs_its_password(users: tuple[User, User], path: Path) -> None:
    ada, bob = users
    ada.bundle(path, password="correct horse")
    assert needs_password(path)
    assert b"session.jsonl" not in path.read_bytes()
    for password, error in ((None, UsageError), ("wrong", Damaged)):
        with pytest.raises(error):
            bob.unbundle(path, password=password)
        assert bob.files() == {}
    assert bob.unbundle(path, password="correct horse").record


def test_a_changed_bundle_cannot_be_decrypted(users: tuple[User, User], path: Path) -> None:
    ada, bob = users
    ada.bundle(path, password="x")
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)
    with pytest.raises(Damaged):
        bob.unbundle(path, password="x")
    assert bob.files() == {}


def test_a_signature_tells_who_made_a_bundle(
    users: tuple[User, User], path: Path, tmp_path: Path
) -> None:
    key = make_key(tmp_path, "ada")
    report = users[0].bundle(path, key=key)
    assert report.signature == signature_of(path)
    signers = allow(tmp_path, **{"ada@example.com": key})
    assert verify(path, signers) == "ada@example.com"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(Damaged):
        verify(path, signers)


def test_a_signature_of_someone_else_or_for_something_else_is_refused(
    users: tuple[User, User], path: Path, tmp_path: Path
) -> None:
    ada, mallory = make_key(tmp_path, "ada"), make_key(tmp_path, "mallory")
    users[0].bundle(path, key=mallory)
    signers = allow(tmp_path, **{"ada@example.com": ada})
    with pytest.raises(Damaged):
        verify(path, signers)
    signature_of(path).unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(ada), "-n", "git", str(path)], check=True
    )
    with pytest.raises(Damaged):
        verify(path, signers)


def test_missing_keys_and_signatures_are_reported(
    users: tuple[User, User], path: Path, tmp_path: Path
) -> None:
    users[0].bundle(path)
    with pytest.raises(NotFound):
        sign(path, tmp_path / "no-key")
    signers = allow(tmp_path, **{"ada@example.com": make_key(tmp_path, "ada")})
    with pytest.raises(NotFound):
        verify(path, signers)
    with pytest.raises(NotFound):
        verify(path, tmp_path / "nobody")
    not_a_key = tmp_path / "not-a-key"
    not_a_key.write_text("hello")
    with pytest.raises(Unavailable):
        sign(path, not_a_key)
