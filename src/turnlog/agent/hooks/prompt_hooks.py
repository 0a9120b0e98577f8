"""Prompt and agent hooks: a model decides whether an action may proceed."""

import re
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from turnlog.agent.hooks.runs import Failed, Firing, HookReply, decode_output, encode_payload
from turnlog.format.json_values import Fields, is_object

PLACE = re.compile(r"\\\$|\$ARGUMENTS\b")
STOPS = frozenset({"Stop", "SubagentStop"})
GOES_ON = STOPS | {"PostToolUseFailure"}
"""Events where a refusal is fed back to the model, which continues."""
NO_EFFECT = frozenset({"PermissionRequest"})
"""Events where the decision has no effect."""


class Judgement(Struct, frozen=True):
    """A model's decision."""

    ok: bool
    reason: str = ""
    impossible: bool = False
    """True if the condition can never become true."""


class HookResources(Protocol):
    """Access to the model and MCP tools that a conversation gives its hooks.

    All methods raise `Failed` on failure.
    """

    @property
    def effort(self) -> str | None:
        """The effort of the conversation's model; None if the model has no such setting."""
        ...

    async def ask(self, question: str, model: str, is_about_conversation: bool) -> str:
        """Return a model's answer to one prompt."""
        ...

    async def examine(self, question: str, model: str) -> str:
        """Return the answer of a model that may use tools."""
        ...

    async def call(self, server: str, tool: str, given: Fields) -> str:
        """Return the result of an MCP tool."""
        ...


async def judge(firing: Firing, resources: HookResources) -> HookReply:
    """Let a model decide; return the output a command hook would have printed."""
    question, model = question_of(firing), firing.text("model")
    if firing.kind == "agent":
        reply = await resources.examine(question, model)
    else:
        reply = await resources.ask(question, model, firing.event in STOPS)
    judgement = read_judgement(reply)
    if judgement is None:
        raise Failed("the model gave no decision", HookReply(reply))
    return HookReply(_answer(firing, judgement))


def question_of(firing: Firing) -> str:
    """Return the prompt of a hook with the payload inserted or appended."""
    prompt, payload = firing.text("prompt"), encode_payload(firing.payload).decode()
    places = {"$ARGUMENTS": payload, "\\$": "$"}
    # Replaced in one pass: `$ARGUMENTS` in the payload itself is left alone.
    question = PLACE.sub(lambda found: places[found[0]], prompt)
    has_place = any(found[0] == "$ARGUMENTS" for found in PLACE.finditer(prompt))
    return question if has_place else f"{question}\n\nARGUMENTS: {payload}"


def read_judgement(text: str) -> Judgement | None:
    """Parse a model's decision; text around the JSON is ignored.

    >>> read_judgement('```json\\n{"ok": false, "reason": "no tests"}\\n```')
    Judgement(ok=False, reason='no tests', impossible=False)
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        value: Any = decode_output(text[start : end + 1]) if 0 <= start < end else None
        return msgspec.convert(value, Judgement) if is_object(value) else None
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _answer(firing: Firing, judgement: Judgement) -> str:
    """Return the equivalent command output; empty if the action may proceed."""
    is_agent = firing.kind == "agent"
    is_hopeless = judgement.impossible and firing.event in STOPS and not is_agent
    if judgement.ok or is_hopeless or firing.event in NO_EFFECT:
        return ""
    # The client's wording, which models may know.
    met = "Agent hook condition was not met: " if is_agent else f"[{firing.text('prompt')}]: "
    answer: Fields = {"decision": "block", "reason": met + judgement.reason}
    if not (is_agent or firing.event in GOES_ON or firing.handler.get("continueOnBlock")):
        answer |= {"continue": False, "stopReason": judgement.reason}
    return msgspec.json.encode(answer).decode()
