"""A store with a secret in every field that a client may write, and in names of files."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    encode,
    line,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.format.kinds import KINDS
from turnlog.format.schema import schema_of_kinds
from turnlog.store.paths import Store

ALNUM = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"
STRUCTURAL = frozenset(
    """type subtype uuid parentUuid logicalParentUuid timestamp sessionId role id tool_use_id
    leafUuid messageId requestId isSidechain""".split()
)
"""Fields that identify a session; a secret there would make it another session."""
DIRECTORY = "/home/ada/AKIA"
CUTS = (80, 100, 120, 160, 200, 240, 300, 400, 1000, 4096)
"""Where something is cut; a secret stands across each."""
PLANTED_FILE = "/x/needle.py"
SEQUENCE = "\x1b[31m"


class Planter:
    """Makes secrets, each once, and knows where each was put."""

    def __init__(self, seed: int = 7) -> None:
        self._random = Random(seed)
        self.is_split = False
        """True if a terminal sequence, which nobody sees, splits each token."""
        self.places: dict[str, str] = {}
        """The place of each planted secret, by its first characters."""

    def token(self, place: str) -> str:
        """Return a token that is known by its form."""
        body = "".join(self._random.choices(ALNUM, k=33))
        self.places[body[:12]] = place
        self.places[body[-12:]] = place
        return f"gh{SEQUENCE if self.is_split else ''}p_{body}7aZ"

    def word(self, place: str) -> str:
        """Return a password that can only be recognized by the name of its field."""
        body = "".join(self._random.choices(ALNUM, k=14)) + "4x"
        self.places[body] = place
        return body

    def leaked(self, printed: str) -> list[str]:
        """Return the places whose secrets are printed."""
        return sorted({place for piece, place in self.places.items() if piece in printed})


def plant_everywhere(store: Store, planter: Planter) -> Path:
    """Write a session with secrets in all fields of all kinds of entries; return its file."""
    folder = store.projects / f"-home-ada-{planter.token('project folder')}"
    path = folder / f"{SESSION}.jsonl"
    cwd = f"{DIRECTORY}/{planter.token('cwd')}"
    shared = {
        "cwd": cwd,
        "git_branch": planter.token("git branch"),
        "version": planter.token("version"),
        "slug": planter.token("slug"),
        "own_field": planter.token("unknown field"),
    }
    lines = [*_conversation(planter, shared), *_kinds(planter), *_titles(planter)]
    _write(path, session(*lines))
    agent = user(f"sub-agent {planter.token('prompt of a sub-agent')}", **shared)
    _write(folder / SESSION / "subagents" / "agent-a1.jsonl", session(agent, agent_id="a1"))
    meta = {
        "agentType": planter.token("agent type"),
        "description": planter.token("agent description"),
    }
    _write(folder / SESSION / "subagents" / "agent-a1.meta.json", json.dumps(meta).encode())
    _write(folder / SESSION / "tool-results" / "b1.txt", planter.token("tool result file").encode())
    _write(store.file_history / SESSION / "0123456789abcdef@v1", planter.token("backup").encode())
    todo = {"content": planter.token("todo"), "status": "pending", "activeForm": "x"}
    _write(store.todos / f"{SESSION}-agent-{SESSION}.json", json.dumps([todo]).encode())
    prompt: dict[str, Any] = {
        "display": planter.token("history"),
        "pastedContents": {},
        "timestamp": 1,
    }
    _write(store.history, encode(prompt | {"project": cwd, "sessionId": SESSION}))
    return path


def _conversation(planter: Planter, shared: dict[str, Any]) -> Iterator[bytes]:
    token, word = planter.token, planter.word
    yield user(f"first {token('first prompt')} needle", **shared)
    # A search for the word shows what stands next to it.
    given = {
        "host": "needle",
        "api_key": word("tool input by name"),
        "headers": {"password": word("nested tool input by name")},
        "env": [{"name": "DB_PASSWORD", "value": word("name and value")}],
        "args": ["--token", word("flag and value")],
        token("key of tool input"): "x",
        "text": json.dumps({"client_secret": word("JSON in a string")}),
    }
    yield assistant(
        thinking(f"needle {token('thinking')}"),
        text(f"needle {token('answer')}"),
        call("mcp__x__call", given, "toolu_A"),
        call(f"mcp__x__{token('tool name')}", {"description": token("description")}, "toolu_B"),
        call("Bash", {"command": f"PGPASSWORD={word('command')} psql needle"}, "toolu_C"),
        call(
            "Write",
            {"file_path": f"/x/{token('file name')}", "content": token("file content")},
            "toolu_D",
        ),
        call(
            "Task",
            {"description": token("agent title"), "prompt": token("agent prompt")},
            "toolu_E",
        ),
        message={"model": token("model")},
        **shared,
    )
    yield result(
        "toolu_A",
        f"needle {token('result')}",
        tool_use_result={"host": "needle", "password": word("structured result")},
    )
    yield result(
        "toolu_B", f"needle {token('error')}", is_error=True, tool_use_result=token("error text")
    )
    yield result(
        "toolu_C", [text(token("block of a result"))], tool_use_result={"stdout": token("stdout")}
    )
    yield result("toolu_D", "ok", tool_use_result={"type": token("result type"), "filePath": "/x"})
    yield result(
        "toolu_E", "done", tool_use_result={"agentId": "a1", "content": token("agent answer")}
    )
    yield from _file_calls(planter)
    yield from compaction(f"Summary {token('summary')}")
    for cut in CUTS:
        yield user(
            f"{'filler ' * (cut // 7)}{'x' * (cut % 7)}"[: cut - 9] + f" {token(f'cut at {cut}')}"
        )
        yield assistant(text("ok"), message={"content": [text("done")]})


def _file_calls(planter: Planter) -> Iterator[bytes]:
    """Yield calls on a file whose name is no secret, but whose contents are."""
    whole = f"one\n{planter.token('written file')}\n"
    after = whole.replace("one", planter.token("new text of an edit"))
    for call_id, tool, given, done in (
        ("toolu_F", "Write", {"content": whole}, {"type": "create", "content": whole}),
        (
            "toolu_G",
            "Edit",
            {"old_string": "one", "new_string": after.split("\n")[0]},
            {"originalFile": whole, "oldString": "one", "newString": after.split("\n")[0]},
        ),
        (
            "toolu_H",
            "Read",
            {"offset": 7},
            {"type": "text", "file": {"content": planter.token("part of a file"), "startLine": 7}},
        ),
    ):
        yield assistant(call(tool, {"file_path": PLANTED_FILE} | given, call_id))
        yield result(call_id, "ok", tool_use_result={"filePath": PLANTED_FILE} | done)


def _kinds(planter: Planter) -> Iterator[bytes]:
    """Yield an entry of each kind with a secret in each text, and one of an unknown kind."""
    for kind in KINDS:
        if kind in ("user", "assistant", "fork-context-ref", "continued-in", "relocated"):
            continue  # those stand in the conversation, or say where it goes on
        schema = schema_of_kinds([kind])
        name, _, subtype = kind.partition("/")
        known = {"type": name} | ({"subtype": subtype} if subtype else {})
        if kind == "system/compact_boundary":
            continue
        yield encode(_filled(schema, schema["$defs"], kind, planter) | known)
    yield line(
        f"new-{planter.token('unknown kind')}",
        text=planter.token("unknown entry"),
        host="needle",
        api_key=planter.word("unknown entry by name"),
    )


def _filled(schema: dict[str, Any], types: dict[str, Any], place: str, planter: Planter) -> Any:
    """Return a value that fits a schema, with a secret in each text."""
    if "$ref" in schema:
        return _filled(types[schema["$ref"].rpartition("/")[2]], types, place, planter)
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return _filled(option, types, place, planter)
    match schema.get("type"):
        case "string":
            return planter.token(place)
        case "object" if "properties" in schema:
            fields = {
                name: each for name, each in schema["properties"].items() if name not in STRUCTURAL
            }
            return {
                name: _filled(each, types, f"{place}.{name}", planter)
                for name, each in fields.items()
            }
        case "object":
            return {
                "host": "needle",
                "password": planter.word(place),
                planter.token(f"{place} key"): planter.token(place),
            }
        case "array":
            return [_filled(schema.get("items") or {}, types, place, planter)]
        case "integer" | "number":
            return 1
        case "boolean":
            return False
        case _:
            return schema["enum"][0] if "enum" in schema else planter.token(place)


def _titles(planter: Planter) -> Iterator[bytes]:
    yield line("summary", summary=planter.token("title by summary"), leaf_uuid="x")
    yield line("ai-title", ai_title=planter.token("title by the client"))
    yield line("custom-title", custom_title=f"My {planter.token('name of the session')}")
    yield line("last-prompt", last_prompt=planter.token("last prompt"))
    yield line("queue-operation", operation="enqueue", content=planter.token("queued prompt"))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (0, 0))
