"""Check each line of a session in one pass.

A line is read twice: as strictly as the client's JSON parser reads it, and as leniently as turnlog
does.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from turnlog.conversation.calls import PERSISTED
from turnlog.conversation.node_log import is_sidechain
from turnlog.conversation.nodes import SYNTHETIC, AssistantNode, ChainNode, Node, UserNode
from turnlog.edit.check.checked_session import Case, Fault, SentImage, is_talk, mark_at, message_key
from turnlog.format.blocks import THINKING
from turnlog.format.decode import MARK, values_of
from turnlog.format.image_size import pixels_of
from turnlog.format.json_values import Fields, is_array, is_object, objects_in
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.paths import last_part, tool_results

LARGE_RESULT = 400_000
SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_facts(case: Case) -> None:
    """Read every line of a session once and collect facts for the checks."""
    nodes = iter(case.session.nodes)
    node = next(nodes, None)
    for line in read_lines(case.session.path):
        here: list[Node] = []
        # A line may hold several objects, and nodes are in the order of the file: one walk over
        # both.
        while node is not None and node.line == line.number:
            here.append(node)
            node = next(nodes, None)
        values = _read_line(case, line, here)
        for each in here:
            if each.position < len(values):
                _read_entry(case, each, values[each.position])


def _read_line(case: Case, line: Line, nodes: list[Node]) -> list[Fields]:
    """Return the objects on a line, and record the faults of the line itself."""
    if line.is_blank:
        case.facts.is_odd_line = True
        return []
    try:
        # msgspec accepts nothing that the client rejects: only lines that fail here need a closer
        # look.
        values = [msgspec.json.decode(line.raw)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        values = values_of(line)
        case.facts.is_odd_line = True
        case.facts.marks += _unsound(line, nodes, len(values))
    else:
        case.facts.is_odd_line = False
        if not line.is_whole:
            case.facts.marks.append(Fault("no-newline", line.number))
    return [value for value in values if is_object(value)]


def _unsound(line: Line, nodes: list[Node], count: int) -> Iterator[Fault]:
    """Yield the faults of a line that a strict parser rejects."""
    raw = line.raw.removeprefix(MARK).strip()
    is_talking = any(is_talk(node) for node in nodes)
    # The mark itself is the fault; what follows it is judged like any other line.
    if raw != line.raw.strip():
        yield Fault("byte-order-mark", line.number)
    if not raw.strip(b"\0"):
        if raw:
            yield Fault("nul-line", line.number)
    elif _is_json(raw):
        if not _is_utf8(raw):
            yield Fault("invalid-utf-8", line.number)
        if not line.is_whole:
            yield Fault("no-newline", line.number)
    # If nothing can be read of a last line without a newline, the client was killed while writing.
    elif not line.is_whole and not nodes:
        yield Fault("torn-line", line.number)
    elif count > 1:
        # Clients read at most the first object of a line, so the conversation loses what follows
        # it.
        lost = [node for node in nodes[1:] if isinstance(node, UserNode | AssistantNode)]
        rule = "several-values-old" if is_talking else "several-values-note"
        yield Fault("several-values" if lost else rule, line.number, lost=lost)
    elif nodes:
        yield Fault("unreadable-line" if is_talking else "unreadable-note", line.number)
    else:
        # A line of text, such as a comment that somebody added, was no message.
        yield Fault("unreadable-line", line.number, {"is_entry": raw.startswith(b"{")})


def _is_json(raw: bytes) -> bool:
    """Return whether the client's parser accepts a line; it replaces invalid UTF-8."""
    try:
        json.loads(raw.decode(errors="replace"), parse_constant=_refuse)
    except ValueError:
        return False
    except RecursionError:  # the client's parser allows deeper nesting
        return True
    return True


def _refuse(constant: str) -> None:
    """Reject NaN and Infinity, which Python accepts but JSON does not allow."""
    raise ValueError(constant)


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
    if not node.uuid:
        facts.nameless.append(node)
    if "parentUuid" not in value:
        facts.parentless.append(node)
    if is_talk(node):
        facts.marks += _missing_fields(case, node, value)
    # Only hashes of duplicates are kept: a session may be larger than memory, and most uuids are
    # unique.
    if node.uuid and node.uuid in case.repeated:
        content = [value.get(name) for name in ("type", "parentUuid", "message", "attachment")]
        hashes = facts.twins.setdefault(node.uuid, {})
        hashes[node.index] = hash(json.dumps(content, sort_keys=True))
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


def _missing_fields(case: Case, node: ChainNode, value: Fields) -> Iterator[Fault]:
    time = value.get("timestamp")
    if not isinstance(time, str) or parse_timestamp(time) is None:
        yield mark_at("no-timestamp" if node is case.last_said else "no-timestamp-old", node)
    if not isinstance(value.get("type"), str):
        yield mark_at("no-type", node)
    message = value.get("message")
    if not is_object(message) or not _has_text_or_block(message.get("content")):
        fault = mark_at("flat-message" if _is_flat(value) else "no-message", node)
        yield fault._replace(lost=[node])


def _is_flat(value: Fields) -> bool:
    content = flat_content(value)
    return bool(content) and _has_text_or_block(content)


def _has_text_or_block(content: object) -> bool:
    """Return whether content is a text, an empty list, or a list with a text or an object."""
    if is_array(content):
        return not content or any(isinstance(part, str) or is_object(part) for part in content)
    return isinstance(content, str)


def flat_content(value: Fields) -> str | list[Any] | None:
    """Return the content in the flat format of some exporters, which no client reads."""
    message = value.get("message")
    content = value.get("content") if message is None else message
    return content if isinstance(content, str) or is_array(content) else None


def _read_sent(case: Case, node: ChainNode, value: Fields) -> None:
    """Check the content that an entry adds to the request."""
    message = value.get("message")
    content = message.get("content") if is_object(message) else None
    if isinstance(node, UserNode):
        case.facts.marks += _user_marks(node, content)
        _read_results(case, node, content)
    elif isinstance(node, AssistantNode):
        # The client shows API errors to the user, but does not send them.
        is_omitted = node.is_error and node.model == SYNTHETIC
        if isinstance(content, str):
            case.facts.marks.append(mark_at("text-error" if is_omitted else "text-answer", node))
        if is_omitted:
            return
        _read_answer(case, node, content)
    else:
        content = _mentioned(value.get("attachment"))
    if _has_text_or_block(content) and is_array(content) and not all(map(is_object, content)):
        case.facts.marks.append(mark_at("bare-block", node))
    for data in _images(content):
        case.facts.images.append(SentImage(node, len(data), pixels_of(data)))
    if case.facts.is_odd_line and _has_surrogate(content):
        case.facts.marks.append(mark_at("lone-surrogate", node))


def _user_marks(node: UserNode, content: object) -> Iterator[Fault]:
    if isinstance(content, str):
        if not content.strip():
            yield mark_at("empty-prompt", node)
    elif any(is_blank(block) for block in objects_in(content)):
        yield mark_at("empty-text", node)


def _read_results(case: Case, node: UserNode, content: object) -> None:
    for block in objects_in(content):
        if block.get("type") != "tool_result":
            continue
        inner = block.get("content")
        parts = [inner] if isinstance(inner, str) else [p.get("text") for p in objects_in(inner)]
        texts = [text for text in parts if isinstance(text, str)]
        size = sum(map(len, texts))
        if size > LARGE_RESULT:
            case.facts.marks.append(mark_at("large-result", node, size=size // 1000))
        if texts and texts[0].startswith("<persisted-output>"):
            case.facts.marks += _lost_output(case, node, texts[0])


def _lost_output(case: Case, node: UserNode, text: str) -> Iterator[Fault]:
    named = PERSISTED.search(text)
    name = last_part(named[1].strip()) if named else ""
    if name and not (tool_results(case.place) / name).is_file():
        yield mark_at("lost-output", node, name=name)


def _read_answer(case: Case, node: AssistantNode, content: object) -> None:
    facts, key = case.facts, message_key(node)
    if isinstance(content, str):
        facts.speaking.add(key)
    blocks = objects_in(content)
    if blocks and all(map(is_blank, blocks)) and any(block.get("text") for block in blocks):
        facts.marks.append(mark_at("blank-answer", node))
    for block in blocks:
        kind = block.get("type")
        if kind == "text" and not block.get("text"):
            facts.marks.append(mark_at("empty-answer", node))
        elif is_blank(block):
            continue
        elif kind in THINKING:
            _note(facts.thinking.setdefault(key, []), node)
            if is_unsigned(block):
                _note(facts.unsigned, node)
        # A message whose calls are all omitted is left with its thinking, which the API refuses
        # alone.
        elif kind != "tool_use" or str(block.get("id")) not in case.dropped_calls:
            facts.speaking.add(key)


def _note(nodes: list[AssistantNode], node: AssistantNode) -> None:
    """Append a node unless it is already the last one."""
    if not nodes or nodes[-1] is not node:
        nodes.append(node)


def is_unsigned(block: Fields) -> bool:
    """Return whether a block is thinking that the API would reject."""
    return block.get("type") == "thinking" and not block.get("signature")


def is_blank(block: Fields) -> bool:
    """Return whether a block is a text without any visible character."""
    text = block.get("text")
    return block.get("type") == "text" and not (isinstance(text, str) and text.strip())


def _mentioned(attachment: object) -> list[Fields]:
    """Return the image of an attachment as the block that is sent for it."""
    content = attachment.get("content") if is_object(attachment) else None
    file = content.get("file") if is_object(content) and content.get("type") == "image" else None
    data = file.get("base64") if is_object(file) else None
    return [{"type": "image", "source": {"data": data}}] if isinstance(data, str) else []


def _images(content: object) -> Iterator[str]:
    for block in objects_in(content):
        if block.get("type") == "tool_result":
            yield from _images(block.get("content"))
        elif (data := image_data(block)) is not None:
            yield data


def image_data(block: Fields) -> str | None:
    """Return the base64 of an image; None for other blocks and for images by URL."""
    source = block.get("source") if block.get("type") == "image" else None
    data = source.get("data") if is_object(source) else None
    return data if isinstance(data, str) else None


def _has_surrogate(value: Any) -> bool:
    """Return whether a value contains a lone surrogate, which JSON can express but UTF-8 cannot."""
    # A stack instead of recursion: hostile content may nest thousands of levels deep.
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str) and SURROGATE.search(item):
            return True
        if is_object(item):
            stack += [*item.keys(), *item.values()]
        elif is_array(item):
            stack += item
    return False
