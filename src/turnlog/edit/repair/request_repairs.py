"""Repair content that the API would refuse, and wrong session ids and entrypoints."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from turnlog.conversation.drafts import NO_CONTENT, text_block
from turnlog.conversation.nodes import ChainNode, Node, UserNode
from turnlog.edit.check.checked_session import Case, Fault
from turnlog.edit.check.line_checks import image_data, is_blank, is_unsigned
from turnlog.edit.check.request_checks import (
    BY_PROGRAM,
    IMAGE_BYTES,
    IMAGE_SIDE,
    MANY_IMAGES,
    MOST_IMAGES,
    SIDE_OF_MANY,
)
from turnlog.edit.plan import Plan
from turnlog.edit.repair.repair_types import Repair, marked_nodes, set_fields, take_blocks
from turnlog.edit.transforms import TransformOptions, with_short_results
from turnlog.format.blocks import THINKING
from turnlog.format.image_size import pixels_of
from turnlog.format.json_values import Fields, is_array, is_object

Unwanted = Callable[[Fields], bool]
TooMuch = Callable[[int, str], bool]
"""Decides whether an image is removed, by its position in the entry and its data."""

UNWANTED: dict[str, Unwanted] = {
    "empty-text": is_blank,
    "empty-answer": lambda block: block.get("type") == "text" and not block.get("text"),
    "blank-answer": is_blank,
    "unsigned-thinking": is_unsigned,
    "thinking-only": lambda block: block.get("type") in THINKING,
}
"""Blocks to remove, for each fault."""


def fill_prompts(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Replace empty prompts with the placeholder that the client uses for empty blocks."""
    for node in marked_nodes(marks):
        set_fields(plan, node, message={"role": "user", "content": NO_CONTENT})


def drop_blocks(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Remove blocks that must not be sent, and answers that would be empty without them."""
    faults: dict[int, list[Unwanted]] = {}
    for mark in marks:
        if mark.node:
            faults.setdefault(mark.node.index, []).append(UNWANTED[mark.rule])
    for node in marked_nodes(marks):
        instead = text_block(NO_CONTENT) if isinstance(node, UserNode) else None
        take_blocks(case, plan, node, partial(_is_any, faults=faults[node.index]), instead)


def name_answers(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Assign message ids to answers without one."""
    for node in marked_nodes(marks):
        # Derived, not random: repairing the same session twice writes the same bytes.
        name = uuid5(NAMESPACE_OID, f"{case.session.id} {node.index}").hex
        plan.rewrite(node, partial(_with_message_id, name=f"msg_{name[:24]}"))


def make_blocks(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Wrap bare strings in text blocks."""
    for node in marked_nodes(marks):
        plan.rewrite(node, _in_blocks)


def drop_large_images(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Remove images that exceed a limit."""
    # The API's limit per image is lower if a request has many of them.
    side = SIDE_OF_MANY if len(case.facts.images) > MANY_IMAGES else IMAGE_SIDE
    for node in marked_nodes(marks):
        _drop_images(plan, node, lambda _, data: _is_large(data, side))


def drop_old_images(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Remove the oldest images until their number is within the limit."""
    # Recent images are the ones that the conversation is about.
    surplus = case.facts.images[:-MOST_IMAGES]
    for index, number in Counter(image.node.index for image in surplus).items():
        node = case.session.nodes[index]
        _drop_images(plan, node, lambda rank, _, number=number: rank < number)


def shorten_results(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Shorten results that are too large to be sent with every request."""
    for node in marked_nodes(marks):
        plan.rewrite(node, lambda value: with_short_results(value, TransformOptions().larger_than))


def own_lines(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Set this session's id in all entries; the first entry records the original id."""
    name = case.session.id
    first = next((node for node in case.session.nodes if isinstance(node, ChainNode)), None)
    if first:
        plan.rewrite(first, partial(_with_origin, name=name))
    plan.everywhere.append(partial(_owned, name=name))


def list_in_picker(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Mark all entries as typed by a person, so that the client's picker lists the session."""
    plan.everywhere.append(_by_person)


def _with_message_id(value: Fields, name: str) -> Fields:
    message = value.get("message")
    return value | {"message": message | {"id": name}} if is_object(message) else value


def _in_blocks(value: Fields) -> Fields:
    """Return an entry whose content is a list of blocks, dropping values that cannot be blocks."""
    message = value["message"]
    content = message["content"]
    parts: list[Any] = content if is_array(content) else [content]
    texts = [text_block(part) if isinstance(part, str) else part for part in parts]
    blocks = [block for block in texts if is_object(block) and block != text_block("")]
    return value | {"message": message | {"content": blocks or [text_block(NO_CONTENT)]}}


def _is_any(block: Fields, faults: list[Unwanted]) -> bool:
    return any(is_unwanted(block) for is_unwanted in faults)


def _is_large(data: str, side: int) -> bool:
    return len(data) > IMAGE_BYTES or max(pixels_of(data) or (0,)) > side


def _drop_images(plan: Plan, node: Node, is_too_much: TooMuch) -> None:
    if isinstance(node, UserNode):
        plan.rewrite(node, partial(_without_images, is_too_much=is_too_much))
    else:
        plan.drop(node)  # an attachment consists only of its image


def _without_images(value: Fields, is_too_much: TooMuch) -> Fields:
    content = value["message"]["content"]
    kept = list(_replaced(content, count(), is_too_much))
    return value | {"message": value["message"] | {"content": kept}}


def _replaced(content: list[Any], ranks: Iterator[int], is_too_much: TooMuch) -> Iterator[Any]:
    """Yield blocks with placeholders for removed images."""
    for block in content:
        inner = block.get("content") if is_object(block) else None
        data = image_data(block) if is_object(block) else None
        if is_array(inner):
            yield block | {"content": list(_replaced(inner, ranks, is_too_much))}
        elif data is not None and is_too_much(next(ranks), data):
            yield text_block("[image removed]")
        else:
            yield block


def _with_origin(value: Fields, name: str) -> Fields:
    other = value.get("sessionId")
    # Only the first origin counts: a fork of a fork keeps the session where it began.
    if other in (None, name) or "forkedFrom" in value:
        return value
    return value | {"forkedFrom": {"sessionId": other, "messageUuid": value.get("uuid")}}


def _owned(value: Fields, name: str) -> Fields:
    if not isinstance(value.get("sessionId"), str) or value["sessionId"] == name:
        return value
    return value | {key: name for key in ("sessionId", "session_id") if key in value}


def _by_person(value: Fields) -> Fields:
    return value | {"entrypoint": "cli"} if value.get("entrypoint") == BY_PROGRAM else value


BLOCKS: dict[str, Repair] = {
    "empty-prompt": fill_prompts,
    "empty-text": drop_blocks,
    "empty-answer": drop_blocks,
    "blank-answer": drop_blocks,
    "unsigned-thinking": drop_blocks,
    "thinking-only": drop_blocks,
    "image-size": drop_large_images,
    "image-pixels": drop_large_images,
    "image-pixels-many": drop_large_images,
    "large-result": shorten_results,
    "other-id": own_lines,
    "hidden": list_in_picker,
}
FORMS: dict[str, Repair] = {
    "no-message-id": name_answers,
    "text-answer": make_blocks,
    "text-error": make_blocks,
    "bare-block": make_blocks,
}
NUMBER: dict[str, Repair] = {"image-count": drop_old_images}
