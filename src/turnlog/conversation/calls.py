"""Tool calls, each with its result, whichever way the lines hang together."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import AssistantNode, CallRef, Node, ResultRef, UserNode
from turnlog.conversation.prompts import INTERRUPTION
from turnlog.format.blocks import ToolResultBlock, ToolUseBlock
from turnlog.format.entries import Assistant, User
from turnlog.format.fields import given
from turnlog.format.json_values import is_object
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.paths import last_part, tool_results

PERSISTED = re.compile(r"saved to: (\S.*)")
REFUSED = "The user doesn't want to proceed with this tool use"
INTERRUPTED = (INTERRUPTION, "[Tool call interrupted")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool_use and what came back for it."""

    id: str
    name: str
    use: AssistantNode
    result: UserNode | None
    is_error: bool = False
    agent_id: str | None = None
    """The sub-agent that the call started, where its result names one."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A result whose call is not in the file."""

    call_id: str
    result: UserNode


@dataclass(frozen=True, slots=True)
class Detail:
    """What is in a call's lines: read when it is wanted."""

    input: Any
    result: str | None = None
    """The text that the model was given; None where there is no result."""
    structured: Any = None
    """The result as the tool gave it, where the client kept it."""
    duration_ms: int | None = None
    denial: str | None = None
    """Why the call was not allowed to run."""
    is_interrupted: bool = False
    persisted: Path | None = None
    """Where the whole of an output too large for the session file lies."""

    @property
    def output(self) -> str | None:
        """The whole result: of a shortened one, what was saved, if it is still there."""
        if self.persisted and self.persisted.is_file():
            return self.persisted.read_text("utf-8", "replace")
        return self.result


def pair_calls(nodes: Iterable[Node]) -> tuple[list[Call], list[Orphan]]:
    """Pair every tool_use of a file with its result, in the order of the uses.

    A line that stands twice in the file makes one call, and gives one result.
    """
    uses: dict[tuple[str | int, str], tuple[CallRef, AssistantNode]] = {}
    answers: set[tuple[str, str]] = set()
    results: dict[str, list[tuple[ResultRef, UserNode]]] = {}
    for node in nodes:
        if isinstance(node, AssistantNode):
            uses |= {(node.uuid or node.index, ref.id): (ref, node) for ref in node.calls}
        elif isinstance(node, UserNode):
            for ref in node.results:
                if (node.uuid or "", ref.call_id) not in answers:
                    results.setdefault(ref.call_id, []).append((ref, node))
                if node.uuid:
                    answers.add((node.uuid, ref.call_id))
    calls = [_call(ref, node, results.get(ref.id, [])) for ref, node in uses.values()]
    orphans = [Orphan(name, node) for name, left in results.items() for _, node in left]
    return calls, orphans


def read_call(log: NodeLog, call: Call) -> Detail:
    """Read what is in the lines of a call."""
    entry, *answers = log.entries([call.use, call.result] if call.result else [call.use])
    blocks = entry.content if isinstance(entry, Assistant) else []
    held = [b for b in blocks if isinstance(b, ToolUseBlock) and given(b.id) == call.id]
    given_input = given(held[0].input) if held else None
    answer = answers[0] if answers else None
    if not isinstance(answer, User):
        return Detail(given_input)
    text = result_text(answer, call.id)
    structured = given(answer.tool_use_result)
    denial = given(answer.tool_denial_kind) or ("user-rejected" if REFUSED in text[:80] else None)
    return Detail(
        input=given_input,
        result=text,
        structured=structured,
        duration_ms=_duration(call, structured),
        denial=denial,
        is_interrupted=_is_interrupted(text, structured),
        persisted=_persisted(log.path, text),
    )


def result_text(entry: User, call_id: str) -> str:
    """The text of the result for a call in a user line."""
    for block in entry.content:
        if isinstance(block, ToolResultBlock) and given(block.tool_use_id) == call_id:
            return block.text
    return ""


def _call(ref: CallRef, node: AssistantNode, found: list[tuple[ResultRef, UserNode]]) -> Call:
    if not found:
        return Call(ref.id, ref.name, node, None)
    result, holder = found.pop(0)
    return Call(ref.id, ref.name, node, holder, result.is_error, result.agent_id)


def _duration(call: Call, structured: Any) -> int | None:
    """By the tool's own clock where it has one, else from call to result."""
    if is_object(structured):
        for name in ("totalDurationMs", "durationMs"):
            if isinstance(structured.get(name), int | float):
                return int(structured[name])
    start = parse_timestamp(call.use.time)
    end = parse_timestamp(call.result.time) if call.result else None
    return max(0, int((end - start).total_seconds() * 1000)) if start and end else None


def _is_interrupted(text: str, structured: Any) -> bool:
    told = is_object(structured) and structured.get("interrupted") is True
    return told or text.startswith(INTERRUPTED)


def _persisted(path: Path, text: str) -> Path | None:
    """The file that a shortened output names; it moves along with its session."""
    if not text.startswith("<persisted-output>"):
        return None
    named = PERSISTED.search(text)
    return tool_results(path) / last_part(named[1].strip()) if named else None
