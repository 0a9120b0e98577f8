"""A chat of four turns and forty calls: files read and changed, commands, sub-agents.

What the model says follows from the conversation alone, so that any part of it can be asked for.
"""

import contextlib
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from support.chat_process import (
    ANYTHING,
    NEW,
    SECONDS,
    STREAM,
    ChatProcess,
    ProcessOutput,
    typed,
)
from support.going_on import GO_ON
from support.scripted_api import Reply, called, said

Fields = dict[str, Any]
Call = tuple[str, str, Fields]
TURNS = 4
PROMPTS = [f"TURN {turn}" for turn in range(1, TURNS + 1)]
BEFORE = {"a.txt": "state 0\n", "b.txt": "state 0\n", "src/c.txt": "state 0\n"}


def run_long(chat: ChatProcess) -> ProcessOutput:
    """Run the chat to its end."""
    lay_out(chat.work)
    with chat.start(*STREAM, *NEW, *ANYTHING, stderr=subprocess.STDOUT) as running:
        out = send_in_turn(running)
        return ProcessOutput(running.wait(SECONDS), out, "")


def kill_at(chat: ChatProcess, lines: int) -> None:
    """Start the chat, and kill it when its file has so many lines."""
    lay_out(chat.work)
    with chat.start(*STREAM, *NEW, *ANYTHING, stderr=subprocess.DEVNULL) as running:
        sender = threading.Thread(target=send_in_turn, args=(running,))
        sender.start()
        while count_lines(chat.session) < lines and running.poll() is None:
            time.sleep(0.0005)
        running.kill()
        sender.join()


def send_in_turn(running: "subprocess.Popen[str]") -> str:
    """Send each prompt after the result of the one before; return what the chat printed.

    A prompt that is sent earlier joins the running turn.
    """
    assert running.stdin
    assert running.stdout
    printed: list[str] = []
    with contextlib.suppress(BrokenPipeError), running.stdin as prompts:
        for prompt in PROMPTS:
            prompts.write(typed([prompt]))
            prompts.flush()
            for line in running.stdout:
                printed.append(line)
                if json.loads(line)["type"] == "result":
                    break
    return "".join([*printed, *running.stdout])


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def lay_out(work: Path) -> None:
    """Write the files that exist before the chat."""
    for name, content in BEFORE.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(content)


def files_in(work: Path) -> dict[str, str]:
    """All files of a folder, and what they hold; not those that were being written."""
    paths = [path for path in work.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    return {str(path.relative_to(work)): path.read_text() for path in paths}


def files_before(turn: int) -> dict[str, str]:
    """Return the files that exist when a turn starts."""
    made = {f"{kind}{each}.txt": f"{kind}\n" for each in range(1, turn) for kind in ("new", "sub")}
    done = f"state {turn - 1}\n"
    return BEFORE | made | {"a.txt": done, "b.txt": done}


def steps_of(turn: int) -> list[list[Call]]:
    """The calls of a turn, those of one answer together: ten."""
    change = {"old_string": f"state {turn - 1}", "new_string": f"state {turn}"}
    task = {"description": "Write it", "prompt": f"SUBTASK {turn}"}
    steps: list[list[tuple[str, Fields]]] = [
        [("Read", {"file_path": name}) for name in BEFORE],
        [("Edit", {"file_path": "a.txt"} | change)],
        [_bash("echo one; ls"), _bash("wc -c a.txt")],
        [
            ("Write", {"file_path": f"new{turn}.txt", "content": "new\n"}),
            ("Edit", {"file_path": "b.txt"} | change),
        ],
        [("Agent", task)],
        [_bash("cat a.txt b.txt")],
    ]
    return [
        [(f"toolu_{turn}_{rank}_{place}", *call) for place, call in enumerate(calls)]
        for rank, calls in enumerate(steps)
    ]


def answer_to(body: Fields) -> Reply | None:
    """Return the scripted answer to a request."""
    messages = body["messages"]
    first = json.dumps(messages[0])
    if "SUBTASK" in first:
        return _of_agent(int(first.split("SUBTASK ")[1][0]), len(messages) // 2)
    start, prompt = _last_prompt(messages)
    if prompt == GO_ON:
        return said("Gone on.")
    turn = int(prompt.split()[1])
    steps = steps_of(turn)
    place = sum(message["role"] == "assistant" for message in messages[start:])
    if place < len(steps):
        return called(*steps[place], text=f"Step {place} of turn {turn}.")
    return said(f"Turn {turn} is done.")


def _of_agent(turn: int, answers: int) -> Reply:
    write = {"file_path": f"sub{turn}.txt", "content": "sub\n"}
    if answers == 0:
        return called((f"toolu_s{turn}_0", "Write", write))
    if answers == 1:
        return called((f"toolu_s{turn}_1", *_bash(f"cat sub{turn}.txt")))
    return said("It is written.")


def _last_prompt(messages: list[Fields]) -> tuple[int, str]:
    for place in reversed(range(len(messages))):
        for block in messages[place]["content"]:
            text = str(block.get("text", "")).strip()
            if messages[place]["role"] == "user" and text in (*PROMPTS, GO_ON):
                return place, text
    raise AssertionError("nothing was asked")


def _bash(command: str) -> tuple[str, Fields]:
    return ("Bash", {"command": command, "description": "Run it"})
