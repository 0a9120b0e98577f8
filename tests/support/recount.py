"""Count usage a second time, line by line with json alone, by the documented rules.

Of a message with several lines, or with copies in several files, each count is the largest that
any of them tells; lines without an id are of one message if nothing stands between them. What the
client wrote itself is no message; what an advisor was asked is one. A call counts once, and failed
if its first result says so; one that the user denied did not.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
Counts = dict[str, int]


def recount(paths: Iterable[Path]) -> Counts:
    """The figures of some files together, by the names that reports have for them."""
    messages: dict[str, Counts] = {}
    errors: dict[str, bool] = {}
    for path in sorted(paths):
        loose: str | None = None
        open_calls: set[str] = set()
        for number, entry in enumerate(entries_of(path)):
            message = entry.get("message")
            content = message.get("content") if is_object(message) else message
            if entry.get("type") != "assistant":
                loose = None
            elif is_object(message) and not _is_the_clients(entry, message):
                name = message.get("id") or None
                key = name or loose or entry.get("uuid") or f"{path}:{number}"
                loose = None if name else key
                _enlarge(messages, key, _object(message.get("usage")))
            for block in _objects(content):
                if entry.get("type") == "assistant" and block.get("type") == "tool_use":
                    name = block.get("id") or f"{path}:{number}"
                    open_calls.add(name)
                    errors.setdefault(name, False)
                elif entry.get("type") == "user" and block.get("tool_use_id") in open_calls:
                    open_calls.remove(block["tool_use_id"])
                    has_failed = bool(block.get("is_error")) and not _is_denied(entry, block)
                    errors[block["tool_use_id"]] = has_failed
    return _added_up(messages.values()) | {"calls": len(errors), "errors": sum(errors.values())}


def _is_denied(entry: dict[str, Any], block: dict[str, Any]) -> bool:
    if kind := entry.get("toolDenialKind"):
        return kind == "user-rejected"
    content = block.get("content")
    said = content if isinstance(content, str) else json.dumps(content)
    denials = ("proceed with this tool use", "take this action right now")
    return any(f"The user doesn't want to {denial}" in said[:120] for denial in denials)


def entries_of(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file; a line may hold two of them, or be torn."""
    decoder = json.JSONDecoder(strict=False)
    for raw in path.read_bytes().split(b"\n"):
        text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"").decode(errors="replace")
        while text := text.strip(" \t\r"):
            try:
                value, end = decoder.raw_decode(text)
            except (ValueError, RecursionError):
                break
            if is_object(value):
                yield value
            text = text[end:]


def _is_the_clients(entry: dict[str, Any], message: dict[str, Any]) -> bool:
    return bool(entry.get("isApiErrorMessage")) or message.get("model") == "<synthetic>"


def _enlarge(messages: dict[str, Counts], key: str, usage: dict[str, Any]) -> None:
    split = _object(usage.get("cache_creation"))
    told = {name: usage.get(name) for name in COUNTS}
    told |= {"5m": split.get("ephemeral_5m_input_tokens")}
    told |= {"1h": split.get("ephemeral_1h_input_tokens")}
    counts = messages.setdefault(key, {})
    for name, value in told.items():
        counts[name] = max(counts.get(name, 0), value if isinstance(value, int) else 0)
    passes = _objects(usage.get("iterations"))
    advice = [each for each in passes if each.get("type") == "advisor_message"]
    for rank, each in enumerate(advice):
        _enlarge(messages, f"{key} asked {rank}", each)


def _added_up(messages: Iterable[Counts]) -> Counts:
    total: Counts = dict.fromkeys((*COUNTS, "5m", "1h", "short", "messages"), 0)
    for counts in messages:
        short = max(counts["5m"], counts["cache_creation_input_tokens"] - counts["1h"])
        for name, value in (counts | {"short": short, "messages": 1}).items():
            total[name] += value
    return {
        "messages": total["messages"],
        "input": total["input_tokens"],
        "output": total["output_tokens"],
        "cache_write_5m": total["short"],
        "cache_write_1h": total["1h"],
        "cache_read": total["cache_read_input_tokens"],
    }


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _object(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if is_object(each)] if is_array(value) else []
