"""A scripted model for chats, and a long session to go on with.

What is said counts as many tokens as a real model would count, about: so a long conversation is
compacted as it really is.
"""

import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from chain import ASSISTANT, USER

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.scripted_api import Fields, Reply, answered, said, scripted_api

CHARACTERS_PER_TOKEN = 4
BOUNDARY = (
    '{"parentUuid":null,"logicalParentUuid":%s,"isSidechain":false,"type":"system",'
    '"subtype":"compact_boundary","content":"Conversation compacted","level":"info",'
    '"compactMetadata":{"trigger":"auto","preTokens":167000},"userType":"external",'
    '"cwd":"/home/ada/shop","sessionId":"3f2a9c1e-0000-4000-8000-00000000000a",'
    '"version":"2.1.325","gitBranch":"main","uuid":"%s","timestamp":"%s"}\n'
)
SNAPSHOT = (
    '{"type":"file-history-snapshot","messageId":"%s","snapshot":{"messageId":"%s",'
    '"trackedFileBackups":{},"timestamp":"%s"},"isSnapshotUpdate":false}\n'
)
STAMP = "2026-01-01T00:00:00.000Z"
LAST_LINES = 400
_calls = count(1)


class Asked:
    """Where requests arrive, and when."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.times: SimpleQueue[float] = SimpleQueue()


@contextmanager
def model() -> Generator[Asked]:
    """A model that reads a file in each turn, and then says something."""
    with scripted_api(said("never")) as api:
        asked = Asked(api.url)

        def choose(body: Fields) -> Reply:
            asked.times.put(time.perf_counter())
            api.requests.clear()
            return answer_to(body["messages"])

        api.choose = choose
        yield asked


def answer_to(messages: list[Fields]) -> Reply:
    """A call first, then a text; a summary where one is wanted."""
    tokens = sum(map(_length, messages)) // CHARACTERS_PER_TOKEN
    last = _blocks(messages[-1])[-1]
    if last["type"] == "tool_result" or "Write the summary" in last.get("text", ""):
        block: Fields = {"type": "text", "text": "That is what the file says. " * 20}
        return answered(block, input_tokens=tokens)
    name = f"toolu_{next(_calls)}"
    block = {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": "a.txt"}}
    return answered(block, stop_reason="tool_use", input_tokens=tokens)


def _length(message: Fields) -> int:
    return sum(
        len(str(block.get("text") or block.get("content") or "")) for block in _blocks(message)
    )


def _blocks(message: Fields) -> list[Fields]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def write_long(path: Path, tokens: int) -> None:
    """Write a session that fills a context with about so many tokens: prompts, calls, results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    result, words = "The quick brown fox jumps over the lazy dog. " * 80, "word " * 100
    usage = {"input_tokens": tokens, "output_tokens": 1}
    parent: str | None = None
    written = 0
    with path.open("w") as file:
        for number in count():
            call = f"toolu_past_{number}"  # not an id that the model uses: such calls are dropped
            use = {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": "a.txt"}}
            answer = {"type": "tool_result", "tool_use_id": call, "content": result}
            for kind, content in (
                ("user", f"question {words}"),
                ("assistant", [use]),
                ("user", [answer]),
                ("assistant", [{"type": "text", "text": f"answer {words}"}]),
            ):
                place = f"{number:08x}-0000-4000-8000-{written % 10**12:012d}"
                message: Fields = {"role": kind, "content": content}
                if kind == "assistant":
                    message |= {"id": f"msg_{place}", "model": "claude-opus-5-5", "usage": usage}
                line = {"type": kind, "uuid": place, "parentUuid": parent, "message": message}
                file.write(json.dumps(line | {"timestamp": STAMP, "cwd": "/"}) + "\n")
                parent, written = place, written + len(str(content))
            if written // CHARACTERS_PER_TOKEN >= tokens:
                break


def write_compacted(path: Path, size: int) -> None:
    """Write a session of about so many bytes that was compacted near its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    padding = "word " * 800
    with path.open("w") as file:
        parent, number = "null", 0
        while file.tell() < size:
            parent, number = _write_line(file, parent, number, padding)
        name = f"{number:08x}-0000-4000-8000-000000000000"
        file.write(BOUNDARY % (parent, name, STAMP))
        parent, number = f'"{name}"', number + 1 + number % 2
        file.write(SNAPSHOT % (name, name, STAMP))
        for _ in range(LAST_LINES):
            parent, number = _write_line(file, parent, number, padding[:500])


def _write_line(file: TextIO, parent: str, number: int, padding: str) -> tuple[str, int]:
    name = f"{number:08x}-0000-4000-8000-000000000000"
    line = (ASSISTANT if number % 2 else USER) % (parent, number, name, STAMP)
    told = f"answer {padding}" if number % 2 else f"question {padding}"
    file.write(line.replace("answer" if number % 2 else "question", told, 1))
    return f'"{name}"', number + 1
