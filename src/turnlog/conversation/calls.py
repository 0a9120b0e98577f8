"""Tool calls paired with their results by call id, however the lines are linked."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import AssistantNode, CallRef, Node, ResultRef, UserNode
from turnlog.conversation.prompts import INTERRUPTION, REFUSED, REJECTED
from turnlog.format.blocks import ToolResultBlock, ToolUseBlock
from turnlog.format.entries import Assistant, User
from turnlog.format.fields import given
from turnlog.format.json_values import is_object
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.paths import last_part, tool_results

PERSISTED = re.compile(r"saved to: (\S.*)")
LONGEST_MS = 1e15
"""Maximum plausible duration of a call, in milliseconds (30,000 years)."""
INTERRUPTED = (INTERRUPTION, "[Tool call interrupted")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool_use and its result."""

    id: str
    name: str
    use: AssistantNode
    result: UserNode | None
    is_error: bool = False
    agent_id: str | None = None
    """The sub-agent that the call started, if its result names one."""
    is_rejected: bool = False
    """True if the user denied it: it is an error for the model, but nothing failed."""

    @property
    def has_failed(self) -> bool:
        """Return whether the call ran and failed."""
        return self.is_error and not self.is_rejected


@dataclass(frozen=True, slots=True)
class Orphan:
    """A result whose call is not in the file."""

    call_id: str
    result: UserNode


@dataclass(frozen=True, slots=True)
class Detail:
    """The contents of a call's lines, read on demand."""

    input: Any
    result: str | None = None
    """The text sent to the model; None if there is no result."""
    structured: Any = None
    """The tool's structured result, if the client recorded it."""
    duration_ms: int | None = None
    denial: str | None = None
    """The reason why the call was not allowed to run."""
    is_interrupted: bool = False
    persisted: Path | None = None
    """The file with the full output, if it was too large for the session file."""

    @property
    def output(self) -> str | None:
        """The full result: the persisted output if it still exists, else the recorded text."""
        if self.persisted and self.persisted.is_file():
            return self.persisted.read_text("utf-8", "replace")
        return self.result


def pair_calls(nodes: Iterable[Node]) -> tuple[list[Call], list[Orphan]]:
    """Return every tool_use of a file with its result, and the results without a call.

    A line that appears twice in the file counts once.
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
    # `_call` takes each result it uses out of `results`: those that remain have no call.
    orphans = [Orphan(name, node) for name, rest in results.items() for _, node in rest]
    return calls, orphans


def read_call(log: NodeLog, call: Call) -> Detail:
    """Read the contents of a call's lines."""
    entry, *answers = log.entries([call.use, call.result] if call.result else [call.use])
    blocks = entry.content if isinstance(entry, Assistant) else []
    uses = [b for b in blocks if isinstance(b, ToolUseBlock) and given(b.id) == call.id]
    given_input = given(uses[0].input) if uses else None
    answer = answers[0] if answers else None
    if not isinstance(answer, User):
        return Detail(given_input)
    text = result_text(answer, call.id)
    structured = given(answer.tool_use_result)
    denial = given(answer.tool_denial_kind) or (REJECTED if REFUSED in text[:80] else None)
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
    """Return the text of a call's result in a user line."""
    for block in entry.content:
        if isinstance(block, ToolResultBlock) and given(block.tool_use_id) == call_id:
            return block.text
    return ""


def _call(ref: CallRef, node: AssistantNode, found: list[tuple[ResultRef, UserNode]]) -> Call:
    if not found:
        return Call(ref.id, ref.name, node, None)
    result, holder = found.pop(0)
    return Call(
        ref.id, ref.name, node, holder, result.is_error, result.agent_id, result.is_rejected
    )


def _duration(call: Call, structured: Any) -> int | None:
    """Return the duration the tool measured, else the time from call to result."""
    if is_object(structured):
        for name in ("totalDurationMs", "durationMs"):
            took = structured.get(name)
            # Lenient JSON readers accept NaN, and read 1e999 as infinity.
            if isinstance(took, int | float) and -LONGEST_MS < took < LONGEST_MS:
                return int(took)
    start = parse_timestamp(call.use.time)
    end = parse_timestamp(call.result.time) if call.result else None
    return max(0, int((end - start).total_seconds() * 1000)) if start and end else None


def _is_interrupted(text: str, structured: Any) -> bool:
    is_recorded = is_object(structured) and structured.get("interrupted") is True
    return is_recorded or text.startswith(INTERRUPTED)


def _persisted(path: Path, text: str) -> Path | None:
    """Return the file that a shortened output refers to."""
    if not text.startswith("<persisted-output>"):
        return None
    # The recorded path is absolute and goes stale when the session is copied or moved; only its
    # last part is used, so a crafted session cannot point to a file elsewhere either.
    named = PERSISTED.search(text)
    return tool_results(path) / last_part(named[1].strip()) if named else None
