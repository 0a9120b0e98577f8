"""One reading of a session's lines, which gathers what is wrong with them one by one.

A line is read twice: as the client's JSON parser reads it, and as turnlog does, which saves more.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from turnlog.conversation.calls import PERSISTED
from turnlog.conversation.log import is_sidechain
from turnlog.conversation.nodes import SYNTHETIC, AssistantNode, ChainNode, Node, UserNode
from turnlog.edit.check_case import Case, Mark, SentImage, is_talk, message_key
from turnlog.edit.images import pixels_of
from turnlog.format.decode import MARK, values_of
from turnlog.format.fields import is_array, is_object
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.paths import tool_results

LARGE_RESULT = 400_000
SURROGATE = re.compile(r"[\ud800-\udfff]")
THINKING = ("thinking", "redacted_thinking")

Fields = dict[str, Any]


def read_facts(case: Case) -> None:
    """Read every line of a session once, and gather what the checks want to know."""
    nodes = iter(case.session.nodes)
    node = next(nodes, None)
    for line in read_lines(case.session.path):
        here: list[Node] = []
        while node is not None and node.line == line.number:
            here.append(node)
            node = next(nodes, None)
        values = _read_line(case, line, here)
        for each in here:
            if each.position < len(values):
                _read_entry(case, each, values[each.position])


def _read_line(case: Case, line: Line, nodes: list[Node]) -> list[Fields]:
    """The objects on a line; what is wrong with it as a line is marked."""
    try:
        values = [msgspec.json.decode(line.raw)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        values = values_of(line)
        case.facts.is_odd_line = True
        case.facts.marks += _unsound(line, nodes, len(values))
    else:
        case.facts.is_odd_line = False
        if not line.is_whole:
            case.facts.marks.append(Mark("no-newline", line.number))
    return [value for value in values if is_object(value)]


def _unsound(line: Line, nodes: list[Node], count: int) -> Iterator[Mark]:
    """What is wrong with a line that a strict parser refuses."""
    raw = line.raw.removeprefix(MARK).strip()
    is_talking = any(is_talk(node) for node in nodes)
    if raw != line.raw.strip():
        yield Mark("byte-order-mark", line.number)
    if not raw.strip(b"\0"):
        if raw:
            yield Mark("nul-line", line.number)
    elif _is_json(raw):
        if not _is_utf8(raw):
            yield Mark("invalid-utf-8", line.number)
        if not line.is_whole:
            yield Mark("no-newline", line.number)
    elif not line.is_whole and not nodes:
        yield Mark("torn-line", line.number)
    elif count > 1:
        lost = any(is_talk(node) for node in nodes[1:])
        yield Mark("several-values" if lost else "several-values-note", line.number)
    elif nodes:
        yield Mark("unreadable-line" if is_talking else "unreadable-note", line.number)
    else:
        yield Mark("unreadable-line", line.number)


def _is_json(raw: bytes) -> bool:
    """Whether the client's parser takes a line; it replaces what is not UTF-8."""
    try:
        json.loads(raw.decode(errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read_entry(case: Case, node: Node, value: Fields) -> None:
    if not isinstance(node, ChainNode) or (is_sidechain(node) and not case.is_subagent):
        return
    facts = case.facts
    _read_place(case, node, value)
    if is_talk(node):
        facts.marks += _missing_fields(case, node, value)
    if node.uuid and node.uuid in case.repeated:
        held = [value.get(name) for name in ("type", "parentUuid", "message", "attachment")]
        facts.twins.setdefault(node.uuid, set()).add(hash(json.dumps(held, sort_keys=True)))
    if node.index in case.sent_indexes:
        _read_sent(case, node, value)


def _read_place(case: Case, node: ChainNode, value: Fields) -> None:
    facts = case.facts
    name, cwd, entrypoint = value.get("sessionId"), value.get("cwd"), value.get("entrypoint")
    if isinstance(name, str) and name != case.session.id and not facts.other_id:
        facts.other_id = node.line, name
    if isinstance(cwd, str) and cwd:
        facts.directories.add(cwd)
    if isinstance(entrypoint, str) and facts.entrypoint is None:
        facts.entrypoint = entrypoint


def _missing_fields(case: Case, node: ChainNode, value: Fields) -> Iterator[Mark]:
    time = value.get("timestamp")
    if not isinstance(time, str) or parse_timestamp(time) is None:
        yield Mark("no-timestamp" if node is case.last_said else "no-timestamp-old", node.line)
    message = value.get("message")
    if not is_object(message) or "content" not in message:
        yield Mark("no-message", node.line)
    if not isinstance(value.get("uuid"), str):
        case.facts.nameless.append(node.line)
    if "parentUuid" not in value and node.index in case.sent_indexes:
        is_first = not case.session.tree.chain or node is case.session.tree.chain[0]
        if not is_first:
            yield Mark("no-parent", node.line)


def _read_sent(case: Case, node: ChainNode, value: Fields) -> None:
    """Look at what an entry adds to the request."""
    message = value.get("message")
    content = message.get("content") if is_object(message) else None
    if isinstance(node, UserNode):
        case.facts.marks += _user_marks(node, content)
        _read_results(case, node, content)
    elif isinstance(node, AssistantNode):
        if node.is_error and node.model == SYNTHETIC:
            return
        _read_answer(case, node, content)
    else:
        content = _mentioned(value.get("attachment"))
    for data in _images(content):
        case.facts.images.append(SentImage(node.line, len(data), pixels_of(data)))
    if case.facts.is_odd_line and _has_surrogate(content):
        case.facts.marks.append(Mark("lone-surrogate", node.line))


def _user_marks(node: UserNode, content: object) -> Iterator[Mark]:
    if isinstance(content, str):
        if not content.strip():
            yield Mark("empty-prompt", node.line)
    elif any(_is_blank(block) for block in _objects(content)):
        yield Mark("empty-text", node.line)


def _read_results(case: Case, node: UserNode, content: object) -> None:
    for block in _objects(content):
        if block.get("type") != "tool_result":
            continue
        held = block.get("content")
        parts = [held] if isinstance(held, str) else [p.get("text") for p in _objects(held)]
        texts = [text for text in parts if isinstance(text, str)]
        size = sum(map(len, texts))
        if size > LARGE_RESULT:
            case.facts.marks.append(Mark("large-result", node.line, {"size": size // 1000}))
        if texts and texts[0].startswith("<persisted-output>"):
            case.facts.marks += _lost_output(case, node, texts[0])


def _lost_output(case: Case, node: UserNode, text: str) -> Iterator[Mark]:
    named = PERSISTED.search(text)
    name = named[1].strip().rpartition("/")[2] if named else ""
    if name and not (tool_results(case.session.path) / name).is_file():
        yield Mark("lost-output", node.line, {"name": name})


def _read_answer(case: Case, node: AssistantNode, content: object) -> None:
    facts, key = case.facts, message_key(node)
    if isinstance(content, str):
        facts.speaking.add(key)
    for block in _objects(content):
        kind = block.get("type")
        if kind == "text" and not block.get("text"):
            facts.marks.append(Mark("empty-answer", node.line))
        elif _is_blank(block):
            continue
        elif kind in THINKING:
            facts.thinking.setdefault(key, node.line)
            if kind == "thinking" and not block.get("signature"):
                facts.unsigned.setdefault(key, node.line)
        elif kind != "tool_use" or str(block.get("id")) not in case.dropped_calls:
            facts.speaking.add(key)


def _objects(content: object) -> list[Fields]:
    return [block for block in content if is_object(block)] if is_array(content) else []


def _is_blank(block: Fields) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and not (isinstance(text, str) and text.strip())


def _mentioned(attachment: object) -> list[Fields]:
    """The image that a prompt mentions, as the block that is sent for it."""
    content = attachment.get("content") if is_object(attachment) else None
    file = content.get("file") if is_object(content) and content.get("type") == "image" else None
    data = file.get("base64") if is_object(file) else None
    return [{"type": "image", "source": {"data": data}}] if isinstance(data, str) else []


def _images(content: object) -> Iterator[str]:
    for block in _objects(content):
        if block.get("type") == "tool_result":
            yield from _images(block.get("content"))
        source = block.get("source") if block.get("type") == "image" else None
        data = source.get("data") if is_object(source) else None
        if isinstance(data, str):
            yield data


def _has_surrogate(value: Any) -> bool:
    """Whether a text in a value has half a character: JSON can hold it, UTF-8 cannot."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str) and SURROGATE.search(each):
            return True
        if is_object(each):
            waiting += [*each.keys(), *each.values()]
        elif is_array(each):
            waiting += each
    return False
