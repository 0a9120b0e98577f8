"""Whether a call may run: what hooks, rules and the user say of it, in that order."""

from typing import Any

from msgspec import Struct

from turnlog.agent.hooks.answers import HookOutcome
from turnlog.agent.permissions.policy import Kind
from turnlog.agent.tool import Fields, Tool, ToolError
from turnlog.agent.turn.asking import Question
from turnlog.agent.turn.parts import Parts

RULE, REJECTED = "permission-rule", "user-rejected"
"""How the session names a refusal."""
NO_TOOL = "Error: No such tool available: {name}"


class Refused(Exception):
    """A call that may not run."""

    def __init__(self, text: str, kind: str, ends_turn: bool = False) -> None:
        super().__init__(text)
        self.text = text
        """What the model is told."""
        self.kind = kind
        self.ends_turn = ends_turn


class Invalid(ToolError):
    """A call of a tool that there is not, or with an input that does not fit."""


class Admitted(Struct, frozen=True):
    """A call that may run."""

    tool: Tool
    input: Fields
    value: Any
    """The input as the tool reads it."""
    said: HookOutcome
    """What hooks had to say before it."""


async def admit(parts: Parts, call: Fields) -> Admitted:
    """Let a call pass, or raise why not."""
    tool = parts.tools.get(call["name"])
    if tool is None:
        raise Invalid(NO_TOOL.format(name=call["name"]))
    about = {"tool_name": tool.name, "tool_input": call["input"], "tool_use_id": call["id"]}
    said = await parts.hooks.fire("PreToolUse", tool.name, about | parts.about_agent)
    if said.decision == "deny" or said.block or said.stop:
        why = said.reason or said.stop_reason or "a hook does not allow it"
        raise Refused(f"{tool.name} was not allowed: {why}", RULE, said.stop)
    wanted = said.updated_input or call["input"]
    value = _read(tool, wanted)
    verdict = parts.rules.decide(tool.name, tool.touches(value, parts.workspace), parts.workspace)
    if verdict.kind is Kind.DENY:
        raise Refused(f"{tool.name} is not allowed: {verdict.reason}", RULE)
    is_lifted = said.decision == "allow" and not verdict.is_firm
    if said.decision == "ask" or (verdict.kind is Kind.ASK and not is_lifted):
        agent = parts.recorder.facts.agent_id
        allowed = await _ask(parts, Question(call["id"], tool.name, wanted, verdict, agent))
        value = value if allowed is wanted else _read(tool, allowed)
        wanted = allowed
    return Admitted(tool, wanted, value, said)


async def _ask(parts: Parts, question: Question) -> Fields:
    """Ask whoever can be asked; gives the input as it may run."""
    about = {"tool_name": question.tool, "tool_input": question.input} | parts.about_agent
    said = await parts.hooks.fire("PermissionRequest", question.tool, about)
    if said.decision == "allow":
        return said.updated_input or question.input
    if said.decision == "deny":
        why = said.reason or "a hook does not allow it"
        raise Refused(f"{question.tool} was not allowed: {why}", RULE, said.stop)
    if parts.ask is None:
        why = f"{question.tool} needs a permission that nobody is here to give"
        raise Refused(f"{why}: {question.verdict.reason}", RULE)
    async with parts.asking:
        reply = await parts.ask(question)
    if reply.kind == "deny":
        # A sub-agent goes on without the call: the user has said nothing about its task.
        ends_turn = not reply.feedback and question.agent_id is None
        raise Refused(reply.feedback, REJECTED, ends_turn)
    if reply.remember:
        parts.rules.remember(reply.remember)
    return question.input


def _read(tool: Tool, wanted: Fields) -> Any:
    try:
        return tool.read(wanted)
    except ToolError as error:
        raise Invalid(str(error)) from error
