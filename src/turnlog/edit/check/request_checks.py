"""Check for content that the API would refuse, and for a wrong name or folder of the session."""

from collections.abc import Iterator
from pathlib import Path

from turnlog.edit.check.checked_session import Case, Check, Fault, is_talk, mark_at, message_key
from turnlog.store.paths import NAME_LIMIT, adjacent_subagents, folder_name, nested_subagents
from turnlog.store.resume_command import UUID

IMAGE_BYTES = 5 << 20
IMAGE_SIDE = 8000
MANY_IMAGES = 20
SIDE_OF_MANY = 2000
MOST_IMAGES = 100
BY_PROGRAM = "sdk-cli"
"""The entrypoint of sessions started by a program rather than a person."""


def unsigned_thinking(case: Case) -> Iterator[Fault]:
    """Yield thinking blocks without a signature, except those the client does not send."""
    for node in case.facts.unsigned:
        if message_key(node) in case.facts.speaking:
            yield mark_at("unsigned-thinking", node)


def thinking_only(case: Case) -> Iterator[Fault]:
    """Yield the lines of messages that contain nothing but thinking."""
    for key, nodes in case.facts.thinking.items():
        if key not in case.facts.speaking:
            yield from (mark_at("thinking-only", node) for node in nodes)


def images(case: Case) -> Iterator[Fault]:
    """Yield images that exceed the API's limits for size, pixels or number."""
    found = case.facts.images
    for image in found:
        side = max(image.pixels or (0,))
        if image.size > IMAGE_BYTES:
            yield mark_at("image-size", image.node, size=f"{image.size / (1 << 20):.1f}")
        if side > IMAGE_SIDE:
            yield mark_at("image-pixels", image.node, side=side)
        elif side > SIDE_OF_MANY and len(found) > MANY_IMAGES:
            yield mark_at("image-pixels-many", image.node, side=side, images=len(found))
    if len(found) > MOST_IMAGES:
        yield mark_at("image-count", found[MOST_IMAGES].node, images=len(found))


def no_conversation(case: Case) -> Iterator[Fault]:
    """Yield a fault if the client finds no conversation, or only that of sub-agents."""
    tree = case.session.tree
    # Clients up to 2.0 kept sub-agents in the session's own file, which may hold nothing else.
    is_side = all(node.is_sidechain for node in tree.chain) and not case.is_subagent
    if not tree.leaves or is_side:
        yield Fault("no-conversation")
        return
    # turnlog reads more than the client, such as a raw control character in a string.
    broken = {mark.line for mark in case.facts.marks if mark.rule == "unreadable-line"}
    messages = {node.line for node in tree.chain if is_talk(node)} if broken else set[int]()
    if messages and messages <= broken:
        yield Fault("unreadable-messages", min(messages))


def name(case: Case) -> Iterator[Fault]:
    """Yield a fault if the file's name is not a UUID."""
    if not case.is_subagent and not UUID.fullmatch(case.session.id):
        rule = "not-a-uuid" if _project(case) else "not-a-uuid-note"
        yield Fault(rule, None, {"name": case.place.name})


def other_id(case: Case) -> Iterator[Fault]:
    """Yield the first line that names another session."""
    if case.facts.other_id and UUID.fullmatch(case.session.id):
        line, found = case.facts.other_id
        yield Fault("other-id", line, {"id": found})


def other_folder(case: Case) -> Iterator[Fault]:
    """Yield a fault if no directory of the session matches its project folder."""
    folder = _project(case)
    if case.is_subagent or not folder or not case.facts.directories:
        return
    names = {_cut(folder_name(cwd)) for cwd in case.facts.directories}
    if _cut(folder.name) not in names:
        # The shortest is most likely where the client was started; others are subdirectories it
        # changed to.
        cwd = min(case.facts.directories, key=len)
        yield Fault("other-folder", None, {"folder": folder.name, "cwd": cwd})


def hidden(case: Case) -> Iterator[Fault]:
    """Yield a fault if the client's session picker hides the session."""
    if case.facts.entrypoint == BY_PROGRAM and not case.is_subagent:
        yield Fault("hidden")


def lost_subagents(case: Case) -> Iterator[Fault]:
    """Yield calls whose sub-agent's file is missing."""
    named = [call for call in case.session.calls if call.agent_id and call.result]
    if not named:
        return
    files = [*nested_subagents(case.place), *adjacent_subagents(case.place.parent)]
    known = {file.stem.removeprefix("agent-") for file in files}
    for call in named:
        if call.agent_id not in known and call.result:
            yield Fault("lost-subagent", call.result.line, {"name": f"agent-{call.agent_id}.jsonl"})


def _project(case: Case) -> Path | None:
    """Return the project folder of a session; None outside of a store."""
    folder = case.place.absolute().parent
    return folder if folder.parent.name == "projects" else None


def _cut(folder: str) -> str:
    """Return a folder name without the hash that newer clients append to long ones."""
    return folder[:NAME_LIMIT]


CHECKS: tuple[Check, ...] = (
    unsigned_thinking,
    thinking_only,
    images,
    no_conversation,
    name,
    other_id,
    other_folder,
    hidden,
    lost_subagents,
)
