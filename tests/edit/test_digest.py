"""Digests of turns within a length limit."""

from pathlib import Path
from typing import Protocol

import pytest

from support.build import (
    SESSION,
    Fields,
    assistant,
    attachment,
    call,
    image,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.conversation.session import open_session
from turnlog.edit.call_facts import first_part
from turnlog.edit.turn_digest import EXTRACT, MATERIAL, DigestLimits, Scale, digest_turns

SMALL = Scale(
    2000, (DigestLimits(400, 200, 0, 4), DigestLimits(100, 40, 0, 20), DigestLimits(30, 10, 0, 40))
)
NOTIFICATION = """<task-notification>
<task-id>1</task-id>
<summary>Agent "look" completed</summary>
<result>All is well.</result>
</task-notification>"""


class Tell(Protocol):
    def __call__(self, *lines: bytes, scale: Scale = EXTRACT) -> str: ...


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    def told(*lines: bytes, scale: Scale = EXTRACT) -> str:
        path = tmp_path / f"{SESSION}.jsonl"
        path.write_bytes(session(*lines))
        whole = open_session(path)
        return digest_turns(whole, whole.turns, scale)

    return told


def fact(tell: Tell, name: str, given: Fields, content: str = "ok", is_error: bool = False) -> str:
    """Return the digest of a call."""
    told = tell(user("q"), assistant(call(name, given, "A")), result("A", content, is_error))
    return told.splitlines()[1]


def test_a_call_is_a_fact_on_one_line(tell: Tell) -> None:
    assert fact(tell, "Bash", {"command": "npm test"}) == "- Bash: npm test"
    assert fact(tell, "Edit", {"file_path": "/home/ada/shop/src/a.py"}) == "- Edit: src/a.py"
    assert fact(tell, "Read", {"file_path": "/etc/hosts", "limit": 5}) == "- Read: /etc/hosts:1-5"
    assert fact(tell, "Bash", {"command": "cd /home/ada/shop/src\nmake"}) == "- Bash: cd src …"
    assert fact(tell, "Spell", {}) == "- Spell"


def test_a_fact_says_how_a_call_failed(tell: Tell) -> None:
    ran: Fields = {"command": "npm test"}
    failed = "- Bash: npm test → "
    assert fact(tell, "Bash", ran, "Exit code 1\nno", is_error=True) == f"{failed}failed (exit 1)"
    refused = "The user doesn't want to proceed with this tool use. STOP"
    assert fact(tell, "Bash", ran, refused, is_error=True) == f"{failed}refused by the user"
    told = "<tool_use_error>File does not exist.</tool_use_error>"
    assert fact(tell, "Read", {"file_path": "/x"}, told, is_error=True) == (
        "- Read: /x → failed (File does not exist.)"
    )
    large = "Exit code 1" + "x" * 2_000_000
    assert fact(tell, "Bash", ran, large, is_error=True) == f"{failed}failed"
    assert tell(user("q"), assistant(call("Bash", ran))).endswith(f"{failed}no result")


def test_the_same_fact_is_told_once_with_its_count(tell: Tell) -> None:
    lines = [user("q")]
    for name in "ABC":
        lines += [assistant(call("Bash", {"command": "make"}, name)), result(name)]
    lines += [assistant(call("Bash", {"command": "make"}, "D")), result("D", "no", is_error=True)]
    assert tell(*lines).splitlines()[1:] == ["- Bash: make ×3", "- Bash: make → failed (no)"]


def test_prompts_are_told_verbatim_however_long_they_are(tell: Tell) -> None:
    pasted = "\n".join(f"line {number} of a log" for number in range(20_000))
    assert len(pasted) > EXTRACT.room
    assert pasted in tell(user(pasted), assistant(text("a")))
    assert pasted in tell(user("first"), assistant(text("a. " * 90_000)), user(pasted))


def test_extracts_for_a_model_cut_very_long_prompts(tell: Tell) -> None:
    prompt = "\n".join(f"line {number} of a prompt" for number in range(200))
    pasted = f"What is this?\n{prompt * 9}\nAnswer in German."
    told = tell(user(pasted), assistant(text("a")), scale=MATERIAL)
    assert "USER: What is this?" in told
    assert "Answer in German." in told
    assert "characters left out" in told
    assert len(told) < 21_000


def test_answers_are_cut_at_the_end_of_a_sentence_or_line() -> None:
    assert first_part("One. Two three four. Five six.", 22) == "One. Two three four. […]"
    assert first_part("one\ntwo three four five", 12) == "one […]"
    assert first_part("onetwothreefour", 8) == "onetwoth […]"
    assert first_part("short", 8) == "short"


def test_thinking_errors_and_what_the_client_put_in_are_not_told(tell: Tell) -> None:
    told = tell(
        user("q"),
        user("<local-command-caveat>none</local-command-caveat>", is_meta=True),
        assistant(thinking("secret thoughts"), message_id="m1"),
        assistant(text("API Error"), is_api_error_message=True, message={"model": "<synthetic>"}),
        assistant(text("No response requested."), message={"model": "<synthetic>"}),
        attachment("date", {"content": "today"}),
    )
    assert told == "[2026-11-15 06:00] USER: q"


def test_prompts_of_all_kinds_are_told(tell: Tell) -> None:
    told = tell(
        user([text("look at this"), image()]),
        assistant(text("a picture")),
        attachment("queued_command", {"prompt": "wait", "commandMode": "prompt"}),
        attachment("queued_command", {"prompt": [text("stop")]}),
        assistant(text("I wait")),
        user("<bash-input>ls</bash-input>"),
        user("<bash-stdout>a.py</bash-stdout>"),
        user("[Request interrupted by user]"),
        user(NOTIFICATION, origin={"kind": "task-notification"}),
        assistant(text("good")),
        user("<command-name>/review</command-name><command-args>all</command-args>"),
        assistant(text("reviewed")),
    )
    stamp = "[2026-11-15 06:00] "
    assert told == (
        f"{stamp}USER: look at this [image]\nASSISTANT: a picture\n"
        "USER: wait\nUSER: stop\nASSISTANT: I wait\n"
        "USER: ! ls\nUSER: [Request interrupted by user]\n\n"
        f'{stamp}TASK: Agent "look" completed\nAll is well.\nASSISTANT: good\n\n'
        f"{stamp}USER: /review all\nASSISTANT: reviewed"
    )


def test_what_the_user_answered_to_a_question_is_told(tell: Tell) -> None:
    asked = call("AskUserQuestion", {"questions": [{"question": "Red?"}]}, "A")
    told = tell(user("q"), assistant(asked), result("A", "User has answered: no, blue"))
    assert told.endswith("USER: User has answered: no, blue")


def test_extracts_for_a_model_hold_results(tell: Tell) -> None:
    ran = call("Bash", {"command": "ls"}, "A")
    told = tell(user("q"), assistant(ran), result("A", "one\ntwo"), scale=MATERIAL)
    assert told.endswith("- Bash: ls\n  one\n  two")


def test_what_does_not_fit_is_shortened_from_the_oldest_on(tell: Tell) -> None:
    lines: list[bytes] = []
    for number in range(60):
        prompt = user(f"prompt {number} {'which is long ' * 10}")
        lines += [prompt, assistant(text(f"answer {number}. {'and more words ' * 20}"))]
    told = tell(*lines, scale=SMALL)
    assert len(told) <= SMALL.room
    first, left_out, *rest = told.split("\n\n")
    assert "USER: prompt 0 " in first
    assert left_out == f"[{60 - 1 - len(rest)} turns left out]"
    lengths = [len(turn) for turn in rest]
    assert lengths == sorted(lengths)
    assert "prompt 59" in rest[-1]


def test_of_a_turn_that_does_not_fit_the_last_steps_stay(tell: Tell) -> None:
    lines = [user("go")]
    for number in range(100):
        ran = call("Bash", {"command": f"step {number} {'x' * 40}"}, f"c{number}")
        lines += [assistant(ran), result(f"c{number}")]
    told = tell(*lines, assistant(text("all done")), scale=SMALL).splitlines()
    assert told[0].endswith("USER: go")
    assert told[1] == f"[{100 - (len(told) - 3)} steps left out]"
    assert told[-2].startswith("- Bash: step 99")
    assert told[-1] == "ASSISTANT: all done"


def long_session(turns: int) -> list[bytes]:
    lines: list[bytes] = []
    for number in range(turns):
        lines += [user(prompt_of(number)), assistant(text("a. " * 2000))]
    return lines


def prompt_of(number: int) -> str:
    return f"prompt {number} {'p ' * 2000}end of {number}"


def test_however_long_a_session_is_what_a_model_gets_is_bounded(tell: Tell) -> None:
    told = tell(*long_session(300), scale=MATERIAL)
    assert MATERIAL.room * 0.7 < len(told) <= MATERIAL.room


def test_however_long_a_session_is_answers_are_bounded_and_no_prompt_is_lost(tell: Tell) -> None:
    told = tell(*long_session(700))
    prompts = [prompt_of(number) for number in range(700)]
    assert [prompt for prompt in prompts if prompt not in told] == []
    rest = len(told) - sum(map(len, prompts))
    stamps = 700 * len("[2026-11-15 06:00] USER: \n\n")
    assert EXTRACT.room * 0.7 < rest <= EXTRACT.room + stamps
    assert "turns: prompts only]" in told


def test_a_prompt_queued_while_the_model_worked_outlives_the_steps_around_it(tell: Tell) -> None:
    lines = [user("go")]
    for number in range(100):
        ran = call("Bash", {"command": f"step {number} {'x' * 40}"}, f"c{number}")
        lines += [assistant(ran), result(f"c{number}")]
        if number == 5:
            lines.append(attachment("queued_command", {"prompt": "and mind the gap"}))
    whole = DigestLimits(None, 200, 0, 4)
    told = tell(*lines, scale=Scale(2000, (whole, whole, whole)))
    assert "USER: and mind the gap" in told
    assert "steps left out]" in told
