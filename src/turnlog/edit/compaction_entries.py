"""Build the entries that replace older turns: a compact boundary, a summary and a title."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from turnlog.conversation.context import sound_text
from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.prompts import ASKING, SUMMARY_START, PromptKind, full_text, prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.edit.call_facts import both_ends, one_line
from turnlog.edit.transforms import TransformOptions
from turnlog.edit.turn_digest import EXTRACT, MATERIAL, Scale, digest_prompts, digest_turns
from turnlog.format.entries import User
from turnlog.format.fields import given
from turnlog.format.json_values import Fields
from turnlog.format.state import Summary
from turnlog.format.timestamps import stamp_of

HEAD = (
    f"{SUMMARY_START} that was compressed. The summary below covers the earlier portion of the "
    "conversation.\n\nSummary:\n"
)
TRANSCRIPT = (
    "\n\nIf you need specific details from before this point (like exact code snippets, error "
    "messages, or content you generated), read the full transcript at: {path}"
)
PROMPTS = "\n\nEverything the user said, verbatim:\n\n"
COMMON = (
    *("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "session_id", "version"),
    *("gitBranch", "slug", "agentId"),
)
"""Fields that all lines of a chain have in common."""
COUNTED = (
    *("input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)
TITLE_LENGTH = 100


def summary_text(
    session: Session, turns: Sequence[Turn], nodes: Iterable[ChainNode], choice: TransformOptions
) -> str | None:
    """Return the text that replaces turns; None if they consist only of an earlier summary.

    Prompts stay verbatim. An earlier summary stays whole, because it may hold prompts that exist
    nowhere else; it takes up at most half of the space for answers and calls.
    """
    earlier = "\n\n".join(_summaries(session, nodes))
    scale = MATERIAL if choice.summarise else EXTRACT
    room = scale.room - min(len(earlier), scale.room // 2)
    digest = digest_turns(session, turns, Scale(room, scale.extents))
    if not digest:
        return None
    if choice.summarise:
        digest = choice.summarise(_material(both_ends(earlier, scale.room // 2), digest))
        # A model paraphrases, so what the user asked for is added verbatim.
        if prompts := digest_prompts(session, turns):
            digest = f"{digest}{PROMPTS}{prompts}"
    text = HEAD + f"{earlier}\n\n{digest}".strip()
    if choice.transcript:
        text += TRANSCRIPT.format(path=choice.transcript)
    return sound_text(text)


def title_of(session: Session, leaf: int) -> str:
    """Return the conversation's title from a summary entry, else its first prompt."""
    titled = [node for node in session.nodes if node.kind == "summary"]
    for entry in session.entries(reversed(titled)):
        if isinstance(entry, Summary) and session.tree.rank_of(given(entry.leaf_uuid)) is not None:
            return given(entry.summary) or ""
    # Not `session.turns`: those are of the active branch, and the leaf may be on another one.
    for rank in session.tree.path_to(leaf):
        node = session.tree.chain[rank]
        if isinstance(node, UserNode) and node.prompt in ASKING:
            entry = session.entry(node)
            return one_line(prompt_label(entry), TITLE_LENGTH) if isinstance(entry, User) else ""
    return ""


def common_fields(session: Session, nodes: Iterable[ChainNode]) -> Fields:
    """Return the fields that all lines of a chain share, taken from its last message."""
    talk = [node for node in nodes if isinstance(node, UserNode | AssistantNode)]
    value = next(session.values(talk[-1:]), Fields())
    shared = {name: value[name] for name in COMMON if name in value}
    return {"isSidechain": False, "userType": "external", "sessionId": session.id} | shared


def boundary_entry(common: Fields, name: str, time: datetime, tokens: int) -> Fields:
    """Return a `compact_boundary` entry; `tokens` is the size of the context before it."""
    return {
        "parentUuid": None,
        "logicalParentUuid": None,
        **common,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "timestamp": stamp_of(time),
        "uuid": name,
        "level": "info",
        "compactMetadata": {"trigger": "manual", "preTokens": tokens},
    }


def summary_entry(common: Fields, name: str, time: datetime, boundary: str, text: str) -> Fields:
    """Return the summary that follows a boundary."""
    return {
        "parentUuid": boundary,
        **common,
        "type": "user",
        "message": {"role": "user", "content": text},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "uuid": name,
        "timestamp": stamp_of(time),
    }


def tokens_at(nodes: Iterable[ChainNode]) -> int:
    """Return the number of tokens in the conversation as of its last answer."""
    used = [node.usage for node in nodes if isinstance(node, AssistantNode) and node.usage]
    return sum(getattr(used[-1], name) or 0 for name in COUNTED) if used else 0


def _material(earlier: str, digest: str) -> str:
    before = f"<earlier-summary>\n{earlier}\n</earlier-summary>\n\n" if earlier else ""
    return f"{before}<conversation>\n{digest}\n</conversation>"


def _summaries(session: Session, nodes: Iterable[ChainNode]) -> Iterator[str]:
    """Yield the texts of earlier summaries, without the preamble that turnlog adds."""
    summaries = [
        node
        for node in nodes
        if isinstance(node, UserNode) and node.prompt is PromptKind.COMPACT_SUMMARY
    ]
    for entry in session.entries(summaries):
        if isinstance(entry, User):
            yield full_text(entry).removeprefix(HEAD).strip()
