"""Views of the inspector: a line, the context sent with it, and compacted entries."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.context import messages_of
from turnlog.conversation.messages import Message
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, Node
from turnlog.conversation.prompts import full_text
from turnlog.conversation.session import Session
from turnlog.conversation.tree import is_compaction
from turnlog.errors import NotFound
from turnlog.format.decode import values_of
from turnlog.format.entries import User
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.jsonl import Line
from turnlog.format.portable import read_at
from turnlog.format.regular_files import open_descriptor
from turnlog.render.html.page_rows import message_json
from turnlog.render.html.prose import prose_html
from turnlog.render.html.session_pages import LONGEST
from turnlog.secrets import cut_texts, mask, mask_start, mask_value

LONGEST_LINE = 2_000_000
"""Maximum bytes of a line to decode; only the start of a longer line is read."""
LONGEST_TEXT = 20_000
"""Maximum characters of a text inside a line."""
BLOCK_TEXT = 4_000
"""Characters of a block of a context."""


def raw_line(session: Session, line: int) -> Fields:
    """Return a line of the file, masked and indented, or the start of a very long line."""
    node = _node_at(session, line)
    is_whole = node.size <= LONGEST_LINE
    # Only the start of a very long line is read: a character takes up to four bytes.
    raw = _read(session, node.offset, node.size if is_whole else LONGEST_TEXT * 4)
    about: Fields = {"line": line, "kind": mask(node.kind), "offset": node.offset}
    about |= {"size": node.size, "is_whole": is_whole, **_place(session, node)}
    found = values_of(Line(raw, node.offset, line)) if is_whole else []
    if not found:
        text = raw.decode("utf-8", "backslashreplace")
        return about | {"text": mask_start(text, LONGEST_TEXT)}
    masked = [mask_value(value) for value in found]
    shown = [json.dumps(_shortened(value), indent=2, ensure_ascii=False) for value in masked]
    return about | {"text": "\n".join(shown)}


def _place(session: Session, node: Node) -> Fields:
    """Return the turn of a line, or the leaf of its branch if that is not the active one."""
    turn = session.turn_at(node.line)
    if turn is not None or not isinstance(node, ChainNode):
        return {"turn": turn, "leaf": None}
    tree = session.tree
    rank = tree.rank_of(node.uuid)
    # If several branches follow, choose the one that was written last.
    while rank in tree.children:
        rank = tree.children[rank][-1]
    return {"turn": None, "leaf": None if rank is None else tree.chain[rank].uuid}


def context_at_line(session: Session, line: int) -> Fields:
    """Return the messages that the client sent to get the answer at a line.

    For any other line, return the messages that it would send after that line.
    """
    rank = _rank_at(session, line)
    message = _message_at(session, line)
    leaf = rank
    if message:
        first = session.tree.rank_of(message.nodes[0].uuid)
        # An answer was requested before its first line, so the context ends with the entry above
        # it.
        leaf = session.tree.step_back(rank if first is None else first)
    nodes = since_compaction(session.tree, leaf) if leaf >= 0 else []
    own = {node.index for node in message.nodes} if message else set[int]()
    sent = messages_of(session.values(n for n in nodes if n.index not in own), is_open=True)
    return {
        "line": line,
        "messages": _messages_json(sent),
        "message": message_json(message) if message else None,
        "starts_at": nodes[0].line if nodes else None,
    }


def lost_at(session: Session, line: int) -> Fields:
    """Return the messages that a compaction replaced, and the summary that replaced them."""
    rank = _rank_at(session, line)
    tree = session.tree
    while rank >= 0 and not is_compaction(tree.chain[rank]):
        rank = tree.parents[rank]
    if rank < 0:
        raise NotFound(f"line {line} of {session.path.name} is not in a compaction")
    boundary = tree.chain[rank]
    before = tree.step_back(rank)
    nodes = since_compaction(tree, before) if before >= 0 else []
    summary = mask(_summary(session, rank))
    kept = boundary.preserved if isinstance(boundary, BoundaryNode) else None
    return {
        "line": boundary.line,
        "trigger": mask(boundary.trigger or "") if isinstance(boundary, BoundaryNode) else "",
        "pre_tokens": boundary.pre_tokens if isinstance(boundary, BoundaryNode) else None,
        "first_line": nodes[0].line if nodes else None,
        "last_line": nodes[-1].line if nodes else None,
        "before": _messages_json(messages_of(session.values(nodes), is_open=True)),
        "preserved": len(kept.uuids or []) if kept else 0,
        "summary": summary,
        "html": prose_html(summary),
    }


def _summary(session: Session, rank: int) -> str:
    """Return the summary at a compaction: the boundary's first child, or the entry itself."""
    tree = session.tree
    for candidate in (rank, *tree.children.get(rank, [])):
        entry = session.entry(tree.chain[candidate])
        if isinstance(entry, User):
            return full_text(entry)
    return ""


def _messages_json(messages: Iterable[Fields]) -> list[Fields]:
    return [
        {"role": message["role"], "blocks": [_block_json(block) for block in message["content"]]}
        for message in mask_value(cut_texts(list(messages), LONGEST))
    ]


def _block_json(block: Fields) -> Fields:
    kind = str(block.get("type"))
    text = BLOCK_TEXTS.get(kind, _any_text)(block)
    shown: Fields = {"type": kind, "text": text[:BLOCK_TEXT], "size": len(text)}
    return shown | {"name": str(block["name"])} if kind == "tool_use" and "name" in block else shown


def _any_text(block: Fields) -> str:
    return json.dumps(_shortened({k: v for k, v in block.items() if k != "type"}))


def _result_text(block: Fields) -> str:
    content = block.get("content")
    if not is_array(content):
        return str(content or "")
    return "\n".join(
        str(each.get("text") or f"({each.get('type')})") for each in content if is_object(each)
    )


BLOCK_TEXTS: dict[str, Callable[[Fields], str]] = {
    "text": lambda block: str(block.get("text") or ""),
    "thinking": lambda block: str(block.get("thinking") or ""),
    "redacted_thinking": lambda block: "",
    "tool_use": lambda block: json.dumps(block.get("input"), ensure_ascii=False),
    "tool_result": _result_text,
    "image": lambda block: "(image)",
}


def _shortened(value: Any) -> Any:
    """Return a value whose long strings, such as images, are cut."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]}… ({len(value):,} characters)"
    if is_object(value):
        return {name: _shortened(each) for name, each in value.items()}
    return [_shortened(each) for each in value] if is_array(value) else value


def _node_at(session: Session, line: int) -> Node:
    if node := session.node_at(line):
        return node
    for problem in session.problems:
        if problem.line == line:
            size = len(_read(session, problem.offset, LONGEST_LINE + 1))
            return Node(-1, line, problem.offset, size, 0, "malformed", None)
    raise NotFound(f"no entry at line {line} of {session.path.name}")


def _rank_at(session: Session, line: int) -> int:
    node = _node_at(session, line)
    rank = session.tree.rank_of(node.uuid) if isinstance(node, ChainNode) else None
    if rank is None:
        chain = session.tree.chain
        rank = next((rank for rank, each in enumerate(chain) if each.line == line), None)
    if rank is None:
        raise NotFound(f"line {line} of {session.path.name} is not part of the conversation")
    return rank


def _message_at(session: Session, line: int) -> Message | None:
    node = _node_at(session, line)
    if not isinstance(node, AssistantNode):
        return None
    return next((message for message in session.messages if node in message.nodes), None)


def _read(session: Session, offset: int, size: int) -> bytes:
    file = open_descriptor(session.path)
    try:
        return read_at(file, size, offset).partition(b"\n")[0]
    finally:
        os.close(file)
