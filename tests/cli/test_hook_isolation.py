"""Two projects, two backends, one spool: real hooks and senders never mix them up."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.conftest import Run
from support.hook_projects import (
    COMMAND,
    Project,
    leaks,
    make_spool,
    roots_at,
    run_hook,
    send_from,
    texts_at,
    turns_at,
    without_senders,
)
from support.hooked_client import Clock, Names
from support.otlp_receiver import receiving
from turnlog.store.paths import folder_name
from turnlog.trace.spool import Spool
from turnlog.trace.switch import Switches

Make = Callable[..., Project]
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """turnlog's own files."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "turnlog"


@pytest.fixture
def spool(home: Path) -> Spool:
    return make_spool(home)


@pytest.fixture
def make(tmp_path: Path, spool: Spool) -> Generator[Make]:
    world = (Clock(), Names())
    with ExitStack() as stack:

        def made(name: str, content: str, **more: str) -> Project:
            folder = tmp_path / name
            folder.mkdir(parents=True)
            receiver = stack.enter_context(receiving())
            return Project(folder, tmp_path / "claude", receiver, content, world, more)

        yield made


@pytest.fixture
def alpha(make: Make) -> Project:
    return make("alpha", "full")


@pytest.fixture
def beta(make: Make) -> Project:
    return make("beta", "none")


def wait_until_idle(spool: Spool) -> None:
    limit = time.time() + 30
    while spool.paths() and time.time() < limit:
        time.sleep(0.02)
    assert spool.paths() == []


def note_bytes(spool: Spool) -> bytes:
    return b"".join(path.read_bytes() for path in spool.paths())


def test_a_sender_of_one_project_delivers_another_s_notes_with_that_one_s_settings(
    alpha: Project, beta: Project, spool: Spool
) -> None:
    one, other = alpha.session(), beta.session()
    with without_senders(spool):
        for _ in range(2):
            for each in (one, other):
                each.turn()
                each.hook()
    done = send_from(beta.environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert (leaks(alpha), leaks(beta)) == ([], [])
    assert (turns_at(alpha), turns_at(beta)) == (2, 2)
    assert "content-of-alpha" in texts_at(alpha)


def test_a_backend_that_was_down_gets_its_spans_from_another_project_s_hook(
    alpha: Project, beta: Project, spool: Spool
) -> None:
    alpha.receiver.always = 503
    alpha.more["TURNLOG_TRACE_TIMEOUT"] = "0.2"
    one, other = alpha.session(), beta.session()
    one.turn()
    one.hook()
    other.turn()
    other.hook()
    limit = time.time() + 30
    while turns_at(beta) < 1 and time.time() < limit:
        time.sleep(0.02)
    with spool.lock(30):
        assert len(spool.paths()) == 1
    alpha.receiver.always = 200
    other.turn()
    other.hook()
    wait_until_idle(spool)
    assert (leaks(alpha), leaks(beta)) == ([], [])
    assert (turns_at(alpha), turns_at(beta)) == (1, 2)


def test_hooks_of_two_projects_at_once_keep_them_apart(
    alpha: Project, beta: Project, spool: Spool
) -> None:
    sessions = [project.session() for project in (alpha, beta, alpha, beta)]
    for each in sessions:
        each.turn()
    hooks = [
        subprocess.Popen([*COMMAND, "run"], env=each.project.environment, stdin=subprocess.PIPE)
        for each in sessions
    ]
    for hook, each in zip(hooks, sessions, strict=True):
        hook.communicate(each.payload("Stop"))
    wait_until_idle(spool)
    assert (leaks(alpha), leaks(beta)) == ([], [])
    assert (turns_at(alpha), turns_at(beta)) == (2, 2)


def test_nothing_of_the_sender_s_environment_reaches_a_backend(
    alpha: Project, spool: Spool, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login foreign password foreign\n", "utf-8")
    netrc.chmod(0o600)
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        session.hook()
    foreign = {
        "NETRC": str(netrc),
        "http_proxy": CLOSED,
        "ALL_PROXY": CLOSED,
        "REQUESTS_CA_BUNDLE": "/nowhere",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-foreign=foreign",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-foreign=foreign",
        "OTEL_EXPORTER_OTLP_ENDPOINT": CLOSED,
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/nowhere",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "/nowhere",
        "OTEL_RESOURCE_ATTRIBUTES": "foreign=foreign",
        "OTEL_SERVICE_NAME": "foreign",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "1",
        "LANGFUSE_SECRET_KEY": "foreign",
        "TURNLOG_TRACE_TO": CLOSED,
        "TURNLOG_TRACE_CONTENT": "none",
        "TURNLOG_TRACE_HEADERS": "x-foreign=foreign",
        "TURNLOG_TRACE_USER": "foreign",
    }
    done = send_from(os.environ | foreign)
    assert (done.returncode, done.stderr) == (0, "")
    assert (leaks(alpha), turns_at(alpha)) == ([], 1)
    (request,) = alpha.receiver.requests
    assert "foreign" not in repr((request.headers, request.resource))
    assert "content-of-alpha" in texts_at(alpha)


def test_a_proxy_of_the_hook_s_own_environment_is_used(make: Make, spool: Spool) -> None:
    proxy = make("proxy", "full")
    alpha = make("alpha", "full", http_proxy=proxy.receiver.url, no_proxy="localhost")
    session = alpha.session()
    session.turn()
    session.hook()
    wait_until_idle(spool)
    assert not alpha.receiver.requests
    (request,) = proxy.receiver.requests
    assert request.path == f"{alpha.receiver.url}/v1/traces"


def test_a_redirect_carries_nothing_elsewhere(alpha: Project, beta: Project, spool: Spool) -> None:
    alpha.receiver.always = 307
    alpha.receiver.headers["location"] = f"{beta.receiver.url}/v1/traces"
    session = alpha.session()
    session.turn()
    session.hook()
    limit = time.time() + 10
    while not send_from(alpha.environment).returncode and time.time() < limit:
        time.sleep(0.1)
    assert not beta.receiver.requests
    assert len(spool.paths()) == 1


def test_a_note_of_an_older_version_is_dropped_and_reported(
    alpha: Project, beta: Project, spool: Spool, turnlog: Run
) -> None:
    session = alpha.session()
    session.turn()
    session.abandon()
    (spool.folder / "1-1.note").write_bytes(b"\n" + session.payload("Stop"))
    send_from(beta.environment)
    assert not beta.receiver.requests
    assert spool.paths() == []
    assert "left by an older turnlog" in turnlog("hook", "status").out
    alpha.session().hook("SessionStart", source="startup")
    wait_until_idle(spool)
    assert (leaks(alpha), turns_at(alpha)) == ([], 1), "backfill along the project's own route"


def test_a_note_of_a_newer_version_is_left_alone(spool: Spool, alpha: Project) -> None:
    note = spool.folder / "1-1.note"
    note.write_bytes(b"turnlog-note 3\0whatever")
    assert send_from(alpha.environment).returncode == 0
    assert note.exists()


@pytest.mark.parametrize(
    "path",
    ["{folder}/*.jsonl", "{folder}/../*/*.jsonl", "relative.jsonl", "{folder}/..", "/etc/passwd"],
)
def test_a_note_cannot_name_a_file_that_is_no_session(
    alpha: Project, beta: Project, spool: Spool, path: str
) -> None:
    victim = alpha.session()
    victim.turn()
    named = path.format(folder=victim.path.parent)
    payload = {"hook_event_name": "Stop", "session_id": "x", "transcript_path": named}
    run_hook(beta.environment, json.dumps(payload).encode())
    wait_until_idle(spool)
    assert not beta.receiver.requests
    assert len(spool.failures) == 1


def test_a_note_cannot_claim_a_session_of_another_project(
    alpha: Project, beta: Project, spool: Spool
) -> None:
    victim = alpha.session()
    victim.turn()
    run_hook(beta.environment, victim.payload("Stop"))
    wait_until_idle(spool)
    assert not beta.receiver.requests


def test_of_a_session_that_moves_each_project_gets_its_own_turns(
    alpha: Project, beta: Project, spool: Spool
) -> None:
    there = alpha.session()
    there.turn()
    there.hook()
    wait_until_idle(spool)
    moved = there.continued_by(beta)
    moved.hook("SessionStart", source="resume")
    moved.turn()
    moved.hook()
    wait_until_idle(spool)
    back = moved.continued_by(alpha)
    back.turn()
    back.hook()
    back.hook("SessionEnd")
    wait_until_idle(spool)
    assert (leaks(alpha), leaks(beta)) == ([], [])
    assert (turns_at(alpha), turns_at(beta)) == (2, 1)


def test_each_turn_is_sent_at_the_level_that_applied_when_it_was_made(
    alpha: Project, spool: Spool
) -> None:
    alpha.content = "none"
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        session.hook()
    alpha.content = "full"
    session.turn()
    session.hook()
    wait_until_idle(spool)
    levels = {span.trace_id: "content-of-alpha" in str(span) for span in roots_at(alpha)}
    assert sorted(levels.values()) == [False, True]


def test_a_turn_that_another_level_announces_does_not_hold_the_note_before_it(
    alpha: Project, spool: Spool
) -> None:
    alpha.content = "none"
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        session.hook()
    session.turn()
    assert send_from(alpha.environment).returncode == 0
    assert (turns_at(alpha), len(spool.paths())) == (1, 1), "nothing has announced the second turn"
    alpha.content = "full"
    session.hook()
    wait_until_idle(spool)
    assert turns_at(alpha) == 2


def test_turns_from_before_a_session_moved_stay_behind_though_no_hook_announced_them(
    alpha: Project, beta: Project, spool: Spool
) -> None:
    there = alpha.session()
    there.turn()
    moved = there.continued_by(beta)
    moved.hook("SessionStart", source="resume")
    moved.hook("SessionEnd")
    moved.turn()
    moved.hook()
    wait_until_idle(spool)
    assert (leaks(beta), turns_at(beta)) == ([], 1)


def test_a_turn_in_an_added_directory_belongs_to_the_project_that_announced_it(
    alpha: Project, spool: Spool, tmp_path: Path
) -> None:
    session = alpha.session()
    session.turn(cwd=tmp_path / "elsewhere")
    session.hook()
    wait_until_idle(spool)
    assert turns_at(alpha) == 1


def test_backfill_takes_no_session_of_a_project_whose_folder_has_the_same_name(
    make: Make, spool: Spool
) -> None:
    dashed, nested = make("shop-web", "full"), make("shop/web", "full")
    assert folder_name(str(dashed.folder)) == folder_name(str(nested.folder))
    missed, own = dashed.session(), nested.session()
    for each in (missed, own):
        each.turn()
        each.abandon()
    nested.session().hook("SessionStart", source="startup")
    wait_until_idle(spool)
    assert "content-of-shop-web" not in texts_at(nested)
    assert turns_at(nested) == 1


def test_a_project_that_is_off_leaves_no_notes_and_holds_those_that_wait(
    alpha: Project, spool: Spool, turnlog: Run
) -> None:
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        session.hook()
        # Inside, because the hook's own sender may come late, and would find the project on.
        off = turnlog("hook", "off", "--project", str(alpha.folder))
    assert off.out == f"off  {alpha.folder}; 1 note held\n"
    session.turn()
    session.hook()
    assert len(spool.paths()) == 1
    held = send_from(alpha.environment)
    assert f"held: 1 note of {alpha.folder}" in held.stderr
    assert not alpha.receiver.requests
    shown = turnlog("hook", "status").out
    assert f"off      {alpha.folder}\n" in shown
    assert "1 note held" in shown
    on = turnlog("hook", "on", "--project", str(alpha.folder))
    assert on.out.startswith(f"on  {alpha.folder}; 1 note waiting")
    assert send_from(alpha.environment).returncode == 0
    assert turns_at(alpha) == 1, "what was done while it was off is not sent"
    session.turn()
    session.hook()
    wait_until_idle(spool)
    assert turns_at(alpha) == 2


def test_the_nearest_switch_decides(make: Make, spool: Spool, turnlog: Run, tmp_path: Path) -> None:
    inner = make("repository/package", "full")
    turnlog("hook", "off", "--project", str(tmp_path / "repository"))
    turnlog("hook", "on", "--project", str(inner.folder))
    session = inner.session()
    session.turn()
    session.hook()
    wait_until_idle(spool)
    assert turns_at(inner) == 1
    projects = json.loads(turnlog("hook", "status", "--json").out)["projects"]
    states = {Path(each["project"]).name: each["is_on"] for each in projects}
    assert states == {"repository": False, "package": True}


def test_a_turn_of_the_millisecond_after_the_switch_is_on(tmp_path: Path) -> None:
    switches = Switches(str(tmp_path / "hook-switches"))
    for _ in range(50):
        switches.turn("/work", is_on=False)
        switches.turn("/work", is_on=True)
        begun = int(time.time() * 1000) / 1000  # as lines have it
        assert switches.was_on("/work", begun, begun)


def test_a_switch_that_cannot_be_read_counts_as_off(
    alpha: Project, home: Path, spool: Spool
) -> None:
    (home / "hook-switches").mkdir()
    session = alpha.session()
    session.turn()
    session.hook()
    assert spool.paths() == []


def test_status_shows_each_project_with_its_target_and_level(
    alpha: Project, beta: Project, spool: Spool, turnlog: Run
) -> None:
    beta.receiver.always = 401
    for project in (alpha, beta):
        session = project.session()
        session.turn()
        with without_senders(spool):
            session.hook()
    send_from(alpha.environment)
    shown = turnlog("hook", "status").out
    sent = f"{alpha.receiver.url}/v1/traces  content full  0 notes waiting\n"
    waits = f"{beta.receiver.url}/v1/traces  content none  1 note waiting\n"
    assert f"on       {alpha.folder}\n         {sent}         last sent " in shown
    assert f"on       {beta.folder}\n         {waits}         last error " in shown
    assert "401" in shown
    assert "key-of-" not in shown


def test_a_key_that_a_settings_file_has_is_not_written_to_the_spool(
    alpha: Project, spool: Spool
) -> None:
    settings = alpha.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": alpha.settings}), "utf-8")
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        session.hook()
    assert b"key-of-alpha" not in note_bytes(spool)
    assert send_from({**os.environ}).returncode == 0
    assert (leaks(alpha), turns_at(alpha)) == ([], 1)


def test_a_key_that_changed_after_the_hook_is_used_once_a_hook_brings_it(
    alpha: Project, spool: Spool
) -> None:
    settings = alpha.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"env": alpha.settings}), "utf-8")
    first, second = alpha.session(), alpha.session()
    first.turn()
    with without_senders(spool):
        first.hook()
        alpha.more["TURNLOG_TRACE_HEADERS"] = "x-project-key=rotated"
        settings.write_text(json.dumps({"env": alpha.settings}), "utf-8")
    waits = send_from({**os.environ})
    assert waits.returncode == 1
    assert "changed since the hook ran" in waits.stderr
    assert not alpha.receiver.requests
    second.turn()
    second.hook()
    wait_until_idle(spool)
    assert turns_at(alpha) == 2
    assert {each.headers["x-project-key"] for each in alpha.receiver.requests} == {"rotated"}


def test_a_key_that_only_the_environment_has_waits_in_a_private_note(
    alpha: Project, spool: Spool
) -> None:
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        session.hook()
        assert b"key-of-alpha" in note_bytes(spool)
    assert send_from({**os.environ}).returncode == 0
    assert (leaks(alpha), turns_at(alpha), note_bytes(spool)) == ([], 1, b"")


def test_the_configuration_s_key_is_read_when_it_is_needed(
    alpha: Project, spool: Spool, home: Path
) -> None:
    config = home / "config.toml"
    config.write_text(f'[trace]\nto = "{alpha.receiver.url}"\nheaders = {{ x-key = "old" }}\n')
    environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(alpha.folder)}
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        run_hook(environment, session.payload("Stop"))
        assert b"old" not in note_bytes(spool)
        config.write_text(f'[trace]\nto = "{alpha.receiver.url}"\nheaders = {{ x-key = "new" }}\n')
    assert send_from({**os.environ}).returncode == 0
    (request,) = alpha.receiver.requests
    assert request.headers["x-key"] == "new"


def test_the_configuration_s_key_for_another_address_is_not_used(
    alpha: Project, beta: Project, spool: Spool, home: Path
) -> None:
    config = home / "config.toml"
    config.write_text(f'[trace]\nto = "{alpha.receiver.url}"\nheaders = {{ x-key = "a" }}\n')
    environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(alpha.folder)}
    session = alpha.session()
    session.turn()
    with without_senders(spool):
        run_hook(environment, session.payload("Stop"))
        config.write_text(f'[trace]\nto = "{beta.receiver.url}"\nheaders = {{ x-key = "b" }}\n')
    assert send_from({**os.environ}).returncode == 1
    assert not alpha.receiver.requests
    assert not beta.receiver.requests


def test_the_configuration_s_key_is_not_sent_to_an_address_that_only_a_project_names(
    alpha: Project, beta: Project, spool: Spool, home: Path
) -> None:
    config = home / "config.toml"
    config.write_text(f'[trace]\nto = "{alpha.receiver.url}"\nheaders = {{ x-key = "mine" }}\n')
    environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(beta.folder)}
    environment["TURNLOG_TRACE_TO"] = beta.receiver.url
    session = beta.session()
    session.turn()
    run_hook(environment, session.payload("Stop"))
    wait_until_idle(spool)
    assert turns_at(beta) == 1
    assert "mine" not in repr([each.headers for each in beta.receiver.requests])


def test_only_the_user_can_read_what_waits(alpha: Project, tmp_path: Path) -> None:
    home = tmp_path / "fresh" / "turnlog"
    alpha.more["TURNLOG_HOME"] = str(home)
    alpha.receiver.always = 503
    session = alpha.session()
    session.turn()
    before = os.umask(0)
    try:
        session.hook()
        send_from(alpha.environment)
    finally:
        os.umask(before)
    with Spool(home / "trace" / "spool").lock(30) as is_quiet:  # no sender writes meanwhile
        assert is_quiet
        found = [tmp_path / "fresh", home, *home.rglob("*")]
        modes = {str(path): path.stat().st_mode for path in found}
    assert any(path.suffix == ".note" for path in found)
    assert {path: oct(mode & 0o077) for path, mode in modes.items() if mode & 0o077} == {}


def test_a_spool_that_an_older_version_left_open_is_closed(alpha: Project, spool: Spool) -> None:
    spool.folder.chmod(0o755)
    alpha.session().hook()
    assert spool.folder.stat().st_mode & 0o077 == 0
