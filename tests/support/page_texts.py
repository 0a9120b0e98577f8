"""The texts of a session as its pages have them, and as `show --format json` prints them.

That JSON names the lines of each answer but does not repeat their texts: those are read from the
session file, and rendered here without any code of turnlog's pages.
"""

import json
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from turnlog.format.json_values import is_array, is_object
from turnlog.secrets import mask
from turnlog.text import harmless

Fields = dict[str, Any]
LONGEST = 100_000
"""Characters of an answer up to which its Markdown is rendered."""


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
    has_failed = row["is_error"] or row["is_rejected"]
    ok = None if row["result_line"] is None else not has_failed
    facts = {name: row[name] for name in ("id", "name", "input", "result", "result_line", "line")}
    return facts | {"ok": ok, "duration_ms": row["duration_ms"]}


def _printed_call(call: Fields) -> Fields:
    names = ("id", "name", "input", "result", "result_line", "line", "ok", "duration_ms")
    return {name: call[name] for name in names}


def answers_of_page(page: Fields) -> list[tuple[int, str]]:
    """The answers of a turn's page, each with its line, in the order of lines.

    The page has them in the order of the branch, in which lines may be swapped.
    """
    found = [(row["line"], row["text"]) for row in page["rows"] if row["type"] == "answer"]
    return sorted(found, key=lambda answer: answer[0])


def answers_of_turn(turn: Fields, path: Path) -> list[tuple[int, str]]:
    """The texts of the model in the lines of a turn, read from the session file."""
    numbers = sorted(
        line
        for message in turn["messages"]
        if not message["synthetic"]
        for line in _distinct_lines(message)
    )
    return [(number, mask(text)) for number in numbers for text in _said(_lines(path)[number - 1])]


def _distinct_lines(message: Fields) -> list[int]:
    """The lines of a message; of an entry that was written twice, the later one counts."""
    pairs = list(zip(message["lines"], message["uuids"], strict=True))
    last = {uuid: line for line, uuid in pairs}
    return [line for line, uuid in pairs if uuid is None or last[uuid] == line]


def _said(line: bytes) -> list[str]:
    return [text for value in _values(line.decode("utf-8", "replace")) for text in _texts(value)]


def _values(line: str) -> Iterator[Any]:
    """Yield the JSON values of a line: a write that was cut off leaves several."""
    at = 0
    while line[at:].strip():
        try:
            value, at = json.JSONDecoder(strict=False).raw_decode(line, at)
        except ValueError:
            return
        yield value
        at += len(line[at:]) - len(line[at:].lstrip())


def _texts(value: Any) -> list[str]:
    """The texts of an answer's blocks; fields of other types than usual count as absent."""
    message = value.get("message") if is_object(value) else None
    content = message.get("content") if is_object(message) else message
    if isinstance(content, str):
        return [content] if content.strip() else []
    objects = filter(is_object, content if is_array(content) else [])
    texts = [block.get("text") for block in objects if block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str) and text.strip()]


@cache
def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")


def shown_text(markdown: str) -> str:
    """The text that a reader sees of an answer, without white space."""
    if len(markdown) > LONGEST:
        return unspaced(harmless(markdown))
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    content = _Content()
    content.feed(parser.render(harmless(markdown)))
    content.close()
    return unspaced("".join(content.parts))


def unspaced(text: str) -> str:
    """A text without white space, which between blocks is up to the browser."""
    return "".join(text.split())


class _Content(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.parts.append(f"[image: {dict(attrs).get('alt') or 'without a description'}]")
