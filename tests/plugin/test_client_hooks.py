"""turnlog's hooks in the client's settings: installed once, removed without a trace, undone."""

import json
from pathlib import Path

import pytest

from turnlog.edit.journal import open_journal
from turnlog.errors import TurnlogError
from turnlog.plugin.client_hooks import ClientHook, program
from turnlog.store.paths import Store

OTHERS = """\
{
    "model":   "opus",
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify done"}]}]}
}
"""
HOOK = ClientHook(("hook", "run"), ("Stop", "SessionEnd"))
ARCHIVE = ClientHook(("archive", "--background"), ("SessionEnd",))


@pytest.fixture(autouse=True)
def home(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))


def commands(store: Store, event: str) -> list[str]:
    groups = json.loads(store.settings.read_text("utf-8"))["hooks"].get(event, [])
    return [hook["command"] for group in groups for hook in group["hooks"]]


def test_settings_are_made_where_there_are_none(store: Store) -> None:
    assert not HOOK.uninstall(store)
    assert HOOK.installed(store) == {}
    assert HOOK.install(store, ["--to", "a b"])
    assert not HOOK.install(store, ["--to", "a b"])
    installed = HOOK.installed(store)
    assert list(installed) == ["Stop", "SessionEnd"]
    assert HOOK.arguments(installed["Stop"]) == ["--to", "a b"]
    assert HOOK.uninstall(store)
    assert not store.settings.exists()


def test_hooks_of_turnlog_and_of_others_do_not_know_each_other(store: Store) -> None:
    store.settings.write_text(OTHERS, "utf-8")
    HOOK.install(store)
    ARCHIVE.install(store, ["--to", "/x"])
    HOOK.install(store, ["--to", "y"])
    mine, other = commands(store, "SessionEnd")
    assert (mine.endswith("archive --background --to /x"), other.endswith("run --to y")) == (1, 1)
    assert commands(store, "Stop")[0] == "notify done"
    HOOK.uninstall(store)
    ARCHIVE.uninstall(store)
    assert store.settings.read_text("utf-8") == OTHERS


def test_a_change_can_be_undone(store: Store) -> None:
    store.settings.write_text(OTHERS, "utf-8")
    HOOK.install(store)
    assert store.settings.read_text("utf-8") != OTHERS
    assert open_journal().undo().title == "hook installed: turnlog hook run"
    assert store.settings.read_text("utf-8") == OTHERS


def test_a_link_to_settings_stays_one(store: Store, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(OTHERS, "utf-8")
    real.chmod(0o640)
    store.settings.symlink_to(real)
    HOOK.install(store)
    assert store.settings.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    HOOK.uninstall(store)
    assert real.read_text("utf-8") == OTHERS


def test_a_running_client_can_see_that_settings_changed(store: Store) -> None:
    store.settings.write_text(OTHERS, "utf-8")
    before = store.settings.stat().st_mtime_ns
    HOOK.install(store)
    assert store.settings.stat().st_mtime_ns > before


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b"// x\n{}", b"\xff{}"],
)
def test_settings_that_are_not_understood_are_left_alone(store: Store, content: bytes) -> None:
    store.settings.write_bytes(content)
    for change in (HOOK.install, HOOK.uninstall, HOOK.installed):
        with pytest.raises(TurnlogError) as raised:
            change(store)
        assert str(store.settings) in raised.value.message
        assert "\n" not in raised.value.message
    assert store.settings.read_bytes() == content


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("turnlog hook run", True),
        ("/a/bin/turnlog hook run --to x", True),
        ("'/a b/turnlog' hook run", True),
        ("/usr/bin/python3 -m turnlog hook run", True),
        ("/usr/bin/python3 -P -m turnlog hook run", True),
        ("turnlog hook send", False),
        ("turnlog archive --background", False),
        ("myturnlog hook run", False),
        ("echo turnlog hook run", False),
        ("turnlog 'hook", False),
        ("", False),
    ],
)
def test_a_command_is_known_as_ours(store: Store, command: str, is_ours: bool) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    store.settings.write_text(json.dumps({"hooks": hooks}), "utf-8")
    assert HOOK.installed(store) == ({"Stop": command} if is_ours else {})


def test_the_client_finds_turnlog_whatever_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path(program()[0]).is_absolute()
    monkeypatch.setattr("sys.executable", "/nowhere/python3")
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == ["/nowhere/python3", "-P", "-m", "turnlog"]


@pytest.mark.parametrize("command", ["hook run", "sh -c 'turnlog hook run'", "turnlog trace last"])
def test_commands_of_other_programs_are_not_ours(command: str) -> None:
    assert not HOOK.is_ours(command)
    assert HOOK.is_ours("/opt/bin/turnlog hook run --to phoenix")
