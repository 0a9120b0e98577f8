"""Hooks in the client's settings."""

import json

import pytest

from turnlog.store.client_settings import add_hooks, hooks_in, remove_hooks

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


@pytest.mark.parametrize("text", ["", "{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}'])
def test_settings_that_are_not_the_client_s_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        add_hooks(text, EVENTS, COMMAND, is_ours)


def test_the_hooks_of_ours_are_told() -> None:
    added = add_hooks(OTHERS, EVENTS, COMMAND, is_ours)
    assert {hook.event: hook.command for hook in hooks_in(added, is_ours)} == dict.fromkeys(
        EVENTS[::-1], COMMAND
    )
