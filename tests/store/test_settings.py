"""Hooks in the client's settings."""

import json
from pathlib import Path

import pytest

from turnlog.errors import TurnlogError
from turnlog.store.settings import add_hooks, install_hooks, remove_hooks, uninstall_hooks

EVENTS = ("SessionStart", "SessionEnd")
COMMAND = "turnlog archive --background"
OTHERS = """\
{
    "model":   "opus",
    "permissions": {"allow": ["Bash(ls:*)", "Read"], "deny": []},
    "hooks": {
        "SessionEnd": [
            {"matcher": "", "hooks": [{"type": "command", "command": "notify \\"done\\""}]}
        ],
        "Stop": [ { "hooks": [] } ]
    },
    "env": {"N": "\\u00e9", "big": 1e3}
}
"""


def is_ours(command: str) -> bool:
    return command.startswith("turnlog archive")


def commands(text: str, event: str) -> list[str]:
    groups = json.loads(text)["hooks"].get(event, [])
    return [hook["command"] for group in groups for hook in group["hooks"]]


@pytest.mark.parametrize(
    "text", [OTHERS, OTHERS.replace("\n", "\r\n"), '{"a": 1}', '{"a":1,"hooks":{"Stop":[]}}\n']
)
def test_hooks_come_and_go_and_leave_every_other_byte(text: str) -> None:
    added = add_hooks(text, EVENTS, COMMAND, is_ours)
    assert [commands(added, event)[-1] for event in EVENTS] == [COMMAND, COMMAND]
    kept = [line for line in added.splitlines() if line in text.splitlines()]
    assert len(kept) >= len(text.splitlines()) - 4
    assert add_hooks(added, EVENTS, COMMAND, is_ours) == added
    assert remove_hooks(added, is_ours) == text


def test_hooks_of_others_at_the_same_event_stay() -> None:
    added = add_hooks(OTHERS, EVENTS, COMMAND, is_ours)
    assert commands(added, "SessionEnd") == ['notify "done"', COMMAND]
    assert commands(added, "Stop") == []


def test_a_hook_that_shares_a_group_is_taken_out_alone() -> None:
    hooks = [{"type": "command", "command": name} for name in ("a", COMMAND, "b")]
    text = json.dumps({"hooks": {"Stop": [{"hooks": hooks}]}}, indent=2)
    assert commands(remove_hooks(text, is_ours), "Stop") == ["a", "b"]


def test_another_command_of_ours_is_replaced() -> None:
    added = add_hooks(OTHERS, EVENTS, "turnlog archive --old", is_ours)
    changed = add_hooks(added, EVENTS, COMMAND, is_ours)
    assert commands(changed, "SessionStart") == [COMMAND]
    assert remove_hooks(changed, is_ours) == OTHERS


def test_settings_are_made_where_there_are_none(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    assert not uninstall_hooks(path, is_ours)
    assert install_hooks(path, EVENTS, COMMAND, is_ours)
    assert not install_hooks(path, EVENTS, COMMAND, is_ours)
    assert [commands(path.read_text(), event) for event in EVENTS] == [[COMMAND], [COMMAND]]
    assert uninstall_hooks(path, is_ours)
    assert json.loads(path.read_text()) == {}


def test_a_link_to_settings_stays_one(tmp_path: Path) -> None:
    real, path = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text(OTHERS)
    real.chmod(0o640)
    path.symlink_to(real)
    install_hooks(path, EVENTS, COMMAND, is_ours)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    uninstall_hooks(path, is_ours)
    assert real.read_text() == OTHERS


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b"// x\n{}", b"\xff{}"],
)
def test_settings_that_are_not_understood_are_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(TurnlogError) as raised:
        install_hooks(path, EVENTS, COMMAND, is_ours)
    assert str(path) in raised.value.message
    assert "\n" not in raised.value.message
    assert path.read_bytes() == content
