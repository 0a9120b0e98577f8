"""turnlog sync-with: output and refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.build import SESSION, session, user
from support.machines import SyncedMachine, machines

START = session(user("hi"))


def start(machine: SyncedMachine, *options: str) -> None:
    """Sync with a new DEST."""
    assert turnlog(machine, machine.dest, "--init", *options).returncode == 0


def turnlog(machine: SyncedMachine, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own, with the machine's home."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    environment = kept | {"HOME": str(machine.home), "XDG_DATA_HOME": str(machine.home / "data")}
    return subprocess.run(
        [sys.executable, "-m", "turnlog", "sync-with", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def two(tmp_path: Path) -> list[SyncedMachine]:
    found = machines(tmp_path, 2)
    found[0].write(START)
    os.utime(found[0].path(), (1, 1))
    return found


def test_it_tells_what_was_sent_and_received(two: list[SyncedMachine]) -> None:
    a, b = two
    preview = turnlog(a, a.dest, "--dry-run", "--init")
    assert preview.stdout.startswith("1 session would be sent, ")
    assert preview.stderr.startswith(f"turnlog: would create {a.dest}\n")
    assert not Path(a.dest).exists()
    assert not a.state_folder.exists()
    sent = turnlog(a, a.dest, "--init")
    assert sent.returncode == 0
    assert sent.stderr.startswith(f"turnlog: creating {a.dest}\n")
    assert sent.stdout.startswith("1 session sent, ")
    again = turnlog(a, a.dest)
    assert again.stdout.startswith("nothing has changed\n")
    assert (again.returncode, again.stderr) == (0, "")
    preview = turnlog(b, b.dest, "--dry-run")
    assert " sent, " not in preview.stdout
    assert "1 session would be new here" in preview.stdout
    assert not b.path().exists()
    received = turnlog(b, b.dest)
    assert "1 session new here" in received.stdout
    assert " sent, " not in received.stdout
    assert f"{b.dest}: 1 session here, 1 other machine" in received.stdout


def test_json_has_every_session(two: list[SyncedMachine]) -> None:
    a, b = two
    start(a, "--quiet")
    report = json.loads(turnlog(b, b.dest, "--json").stdout)
    assert report["created"] == [SESSION]
    assert report["problems"] == []
    assert len(report["changes"]) == 1


def test_sessions_that_come_back_are_named_with_a_way_to_avoid_it(
    two: list[SyncedMachine],
) -> None:
    a, _ = two
    start(a)
    a.path().unlink()
    done = turnlog(a, a.dest)
    assert "1 removed session came back (try: turnlog sync-with " in done.stderr
    assert "--leave-removed" in done.stderr


def test_deleting_needs_consent(two: list[SyncedMachine]) -> None:
    a, _ = two
    start(a)
    a.path().unlink()
    refused = turnlog(a, a.dest, "--delete")
    assert refused.returncode == 2
    assert f"turnlog sync-with {a.dest} --delete --yes" in refused.stderr
    done = turnlog(a, a.dest, "--delete", "--yes")
    assert f"1 session marked as deleted\n  {SESSION}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ssh:desk"], "is not ssh:HOST:PATH"),
        (["rclone:x"], "is not rclone:REMOTE:PATH"),
        (["git:"], "is not git:URL"),
        (["/tmp", "--map", "x"], "is not LOCAL=SHARED"),
    ],
)
def test_a_mistake_is_one_line_with_a_command_to_type(
    two: list[SyncedMachine], arguments: list[str], message: str
) -> None:
    done = turnlog(two[0], *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "(try: turnlog sync-with " in done.stderr


def test_a_destination_that_is_a_file_is_an_error(two: list[SyncedMachine]) -> None:
    path = two[0].home / "file"
    path.write_text("x")
    done = turnlog(two[0], str(path))
    assert done.returncode == 1
    assert f"{path} is not a directory" in done.stderr


def test_a_failing_program_is_quoted(two: list[SyncedMachine]) -> None:
    done = turnlog(two[0], f"git:{two[0].home}/nowhere")
    assert done.returncode == 1
    assert "git failed: " in done.stderr
    assert f"(try: git ls-remote {two[0].home}/nowhere)" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_password_file_encrypts(two: list[SyncedMachine]) -> None:
    a, b = two
    secret = a.home / "secret"
    secret.write_text("correct horse\n")
    start(a, "--password-file", str(secret))
    done = turnlog(b, b.dest)
    assert done.returncode == 2
    assert f"(try: turnlog sync-with {b.dest} --password)" in done.stderr
    empty = turnlog(b, b.dest, "--password-file", os.devnull)
    assert f"the password is empty (try: turnlog sync-with {b.dest} --password-file" in empty.stderr
    gone = turnlog(b, b.dest, "--password-file", "gone")
    assert gone.stderr.endswith("from gone: No such file or directory (try: ls -l gone)\n")
    assert turnlog(b, b.dest, "--password-file", str(secret)).returncode == 0
    assert b.path().exists()


def test_a_session_in_use_is_named_with_the_command_to_repeat(two: list[SyncedMachine]) -> None:
    a, b = two
    start(a)
    b.write(START + session(user("on", uuid="on")))
    done = turnlog(b, b.dest)
    assert "it was written to a moment ago" in done.stderr
    assert done.stderr.endswith(f"(try: turnlog sync-with {b.dest})\n")


def test_two_stores_are_refused(two: list[SyncedMachine]) -> None:
    a, b = two
    stores = ["--store", str(a.store.root), "--store", str(b.store.root)]
    done = turnlog(a, a.dest, *stores)
    assert done.returncode == 2
    assert "sync-with takes one store, not 2" in done.stderr


def test_a_machine_without_a_store_gets_one(two: list[SyncedMachine]) -> None:
    a, b = two
    start(a)
    b.store.projects.rmdir()
    b.store.root.rmdir()
    assert turnlog(b, b.dest).returncode == 0
    assert b.path().read_bytes() == START


def test_a_typo_creates_no_directory(two: list[SyncedMachine]) -> None:
    a, _ = two
    done = turnlog(a, a.dest)
    assert done.returncode == 1
    assert done.stderr == (
        f"turnlog: {a.dest} does not exist (try: turnlog sync-with {a.dest} --init)\n"
    )
    assert not Path(a.dest).exists()
    below = f"{a.dest}/x/y"
    done = turnlog(a, below, "--init")
    assert f"{a.dest}/x does not exist (try: mkdir -p {a.dest}/x)" in done.stderr
    assert not Path(a.dest).exists()


def test_an_unmounted_share_is_not_filled(two: list[SyncedMachine]) -> None:
    a, _ = two
    Path(a.dest).mkdir()
    done = turnlog(a, a.dest)
    assert done.returncode == 1
    assert "has no sessions of turnlog yet" in done.stderr
    assert list(Path(a.dest).iterdir()) == []


def test_a_directory_with_other_files_is_refused(two: list[SyncedMachine]) -> None:
    a, _ = two
    project = Path(a.dest)
    project.mkdir()
    (project / "main.py").write_text("")
    done = turnlog(a, a.dest, "--init")
    assert done.returncode == 1
    assert f"(try: turnlog sync-with {a.dest}/turnlog --init)" in done.stderr
    assert [path.name for path in project.iterdir()] == ["main.py"]


def test_a_directory_in_a_repository_is_named(two: list[SyncedMachine]) -> None:
    a, _ = two
    repository = Path(a.dest)
    (repository / ".git" / "info").mkdir(parents=True)
    done = turnlog(a, f"{repository}/synced", "--init")
    assert done.returncode == 0
    assert f"(try: echo /synced/ >> {repository}/.git/info/exclude)" in done.stderr


def git(folder: Path, *words: str) -> None:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    environment = {**os.environ, **dict.fromkeys(names, "ada")}
    subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a linked worktree beside it, `linked`."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(folder, "worktree", "add", "-q", str(tmp_path / "linked"))
    return folder


def test_a_linked_worktree_is_the_repository_itself(
    two: list[SyncedMachine], repository: Path
) -> None:
    a, b = two
    linked = repository.with_name("linked")
    assert turnlog(a, f"git:{linked}", "--init").returncode == 0
    received = turnlog(b, f"git:{repository}")
    assert (received.returncode, b.path().read_bytes()) == (0, START)
    assert not list(linked.glob("p*"))


def test_a_directory_in_a_linked_worktree_is_ignored_as_suggested(
    two: list[SyncedMachine], repository: Path
) -> None:
    a, _ = two
    linked = repository.with_name("linked")
    done = turnlog(a, f"{linked}/synced", "--init")
    hint = f"echo /synced/ >> {repository}/.git/info/exclude"
    assert f"(try: {hint})" in done.stderr
    subprocess.run(["sh", "-c", hint], check=True)
    status = ["git", "-C", str(linked), "status", "--porcelain"]
    assert subprocess.check_output(status) == b""


@pytest.mark.parametrize("is_bare", [False, True])
def test_a_branch_that_is_checked_out_is_named(
    two: list[SyncedMachine], repository: Path, is_bare: bool
) -> None:
    a, _ = two
    if is_bare:
        repository = repository.with_name("bare.git")
        git(repository.parent, "init", "-q", "--bare", str(repository))
    dest, looked_at = f"git:{repository}", repository.with_name("looked at")
    assert turnlog(a, dest, "--init").returncode == 0
    git(repository, "worktree", "add", "-q", str(looked_at), "turnlog")
    a.write(session(user("hi"), user("more")))
    os.utime(a.path(), (1, 1))
    done = turnlog(a, dest)
    hint = f"git -C '{looked_at}' switch --detach"
    if is_bare:
        hint = f"git -C {repository} worktree list"
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "its branch turnlog is checked out" in done.stderr
    assert f"(try: {hint})" in done.stderr
    # Files that are written to its worktree would reach no other machine.
    done = turnlog(a, str(looked_at))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    detach, _, sync = done.stderr.partition("(try: ")[2].removesuffix(")\n").partition(" && ")
    assert sync == f"turnlog sync-with git:'{looked_at}'"
    subprocess.run(["sh", "-c", detach], check=True, capture_output=True)
    assert turnlog(a, f"git:{looked_at}").returncode == 0


def test_a_first_dry_run_with_a_repository_clones_nothing(two: list[SyncedMachine]) -> None:
    a, _ = two
    bare = a.home.parent / "sessions.git"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    a.dest = f"git:{bare}"
    preview = turnlog(a, a.dest, "--dry-run", "--init")
    assert preview.stderr == f"turnlog: would start at git:{bare}\n"
    assert not (a.home / "data").exists()


def test_a_session_in_a_linked_folder_is_sent_but_not_changed(two: list[SyncedMachine]) -> None:
    a, b = two
    folder = a.path().parent
    elsewhere = a.home.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    start(a)
    b.sync()
    assert b.path().read_bytes() == START
    b.append(session(user("on", uuid="on")))
    b.sync()
    for _ in range(2):
        done = turnlog(a, a.dest)
        assert done.returncode == 0
        reason = "is a symbolic link, which turnlog reads but never writes through"
        assert done.stderr == f"turnlog: not changed here: {SESSION}: {folder} {reason}\n"
    assert a.path().read_bytes() == START
    folder.unlink()
    elsewhere.rename(folder)
    assert turnlog(a, a.dest).returncode == 0
    assert a.lines() == b.lines()


def test_a_linked_folder_of_a_session_is_named_once(two: list[SyncedMachine]) -> None:
    a, _ = two
    results = a.path().with_suffix("") / "tool-results"
    results.parent.mkdir()
    results.symlink_to(a.home)
    done = turnlog(a, a.dest, "--init")
    reason = "a symbolic link to a directory, which is not followed"
    assert f"turnlog: skipped {results}: {reason}\n" in done.stderr
    assert done.stderr.count(str(results)) == 1
