"""A store with secrets in every place where a client leaves something of a session."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from support.build import SESSION, assistant, call, encode, result, session, text, user
from test_secrets import IN_CONTEXT, TOKENS
from turnlog.store.paths import Store

CWD = "/home/ada/shop"
PASTE = "0123456789abcdef"


class Planted(NamedTuple):
    """A secret, and a text that it stands in."""

    kind: str
    value: str
    text: str


TELLING = [Planted(kind, value, frame.format(value)) for kind, frame, value in IN_CONTEXT]
BARE = [Planted(kind, value, f"this is {value} here") for kind, value in TOKENS.values()]
SECRETS = list({secret.value: secret for secret in [*TELLING, *BARE]}.values())
"""Secrets of all kinds, each value once."""


def plant(store: Store, texts: list[str]) -> dict[str, Path]:
    """Spread texts over all places of a session; return the file of each place."""
    shares = iter([texts[number::8] for number in range(8)])
    project = store.projects / "-home-ada-shop"
    files = {
        "prompt and result": project / f"{SESSION}.jsonl",
        "sub-agent": project / SESSION / "subagents" / "agent-a1.jsonl",
        "tool result": project / SESSION / "tool-results" / "b1.txt",
        "backup": store.file_history / SESSION / "0123456789abcdef@v1",
        "history": store.history,
        "paste": store.pastes / f"{PASTE}.txt",
        "todos": store.todos / f"{SESSION}-agent-{SESSION}.json",
        "plan": store.plans / "calm-old-fox.md",
    }
    prompts, results = next(shares), next(shares)
    write(
        files["prompt and result"],
        session(
            user("\n".join(prompts), slug="calm-old-fox"),
            assistant(call("Bash", {"command": "env"}, "toolu_A"), message_id="m1"),
            result("toolu_A", "\n".join(results), tool_use_result={"stdout": "\n".join(results)}),
            assistant(text("done"), message_id="m2"),
        ),
    )
    write(files["sub-agent"], session(*map(user, next(shares)), agent_id="a1"))
    write(files["tool result"], "\n".join(next(shares)).encode())
    write(files["backup"], "\n".join(next(shares)).encode())
    typed = next(shares)
    write(files["history"], b"".join(prompt(each, typed[-1]) for each in typed[:-2]))
    write(files["paste"], typed[-2].encode())
    todos = [{"content": each, "status": "pending", "activeForm": each} for each in next(shares)]
    write(files["todos"], json.dumps(todos, indent=2).encode())
    write(files["plan"], "\n\n".join(next(shares)).encode())
    return files


def prompt(display: str, pasted: str = "", **fields: Any) -> bytes:
    """A line of the history, with a short pasted text in it and a long one beside it."""
    held = {
        "1": {"id": 1, "type": "text", "content": pasted},
        "2": {"id": 2, "type": "text", "contentHash": PASTE},
    }
    known = {"display": display, "pastedContents": held, "timestamp": 1, "project": CWD}
    return encode(known | {"sessionId": SESSION} | fields)


def write(path: Path, content: bytes) -> Path:
    """Write a file that no client has touched lately."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (0, 0))
    return path


def contents(folder: Path) -> dict[Path, bytes]:
    """Return every file in a folder with its content."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
