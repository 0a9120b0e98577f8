"""The texts of a session as its pages have them, and as `show --format json` prints them."""

from typing import Any

Fields = dict[str, Any]


def texts_of_page(page: Fields) -> Fields:
    """The prompt and the calls of a turn's page; the page must be whole."""
    prompts = [row for row in page["rows"] if row["type"] == "prompt"]
    return {
        "n": page["n"],
        "prompt": [row.get("prompt", row["text"]) for row in prompts],
        "label": [row["text"] for row in prompts],
        "calls": [_call(row) for row in page["rows"] if row["type"] == "call"],
    }


def texts_of_turn(turn: Fields) -> Fields:
    """The same of a turn that `show --format json` printed."""
    is_prompted = turn["prompt_uuid"] is not None or turn["kind"] is not None
    return {
        "n": turn["n"],
        "prompt": [turn["prompt"]] if is_prompted else [],
        "label": [turn["label"]] if is_prompted else [],
        "calls": [_printed_call(call) for call in turn["calls"]],
    }


def _call(row: Fields) -> Fields:
    ok = None if row["result_line"] is None else not row["is_error"]
    facts = {name: row[name] for name in ("id", "name", "input", "result", "result_line", "line")}
    return facts | {"ok": ok, "duration_ms": row["duration_ms"]}


def _printed_call(call: Fields) -> Fields:
    names = ("id", "name", "input", "result", "result_line", "line", "ok", "duration_ms")
    return {name: call[name] for name in names}
