"""Whether a call may run: what hooks, rules and the user say of it, in that order."""

from typing import Any

from msgspec import Struct

from turnlog.agent.hooks.answers import HookOutcome
from turnlog.agent.hooks.grants import Grants, suggestions
from turnlog.agent.permissions.asking import Question
from turnlog.agent.permissions.policy import Kind, Mode
from turnlog.agent.tool import Tool, ToolError
from turnlog.agent.turn.parts import Parts
from turnlog.format.values import Fields

RULE, REJECTED = "permission-rule", "user-rejected"
"""How the session names a refusal."""
PATHS = ("file_path", "notebook_path")
SETTABLE = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN)
DENIED = "{tool} is not allowed: {why}"
NO_TOOL = "Error: No such tool available: {name}"


class Refused(Exception):
    """A call that may not run."""

    def __init__(
        self, text: str, kind: str, ends_turn: bool = False, said: HookOutcome | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        """What the model is told."""
        self.kind = kind
        self.ends_turn = ends_turn
        """Whether it is as if the user had interrupted."""
        self.said = said
        """What the hooks say that do not allow it."""


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
    value = _read(tool, call["input"])
    told = plain_input(call["input"], parts)
    about = {"tool_name": tool.name, "tool_input": told, "tool_use_id": call["id"]}
    said = await parts.hooks.fire("PreToolUse", tool.name, about | parts.about_agent)
    if said.decision == "deny" or said.block or said.stop:
        why = said.reason or said.stop_reason or "a hook does not allow it"
        raise Refused(f"{tool.name} was not allowed: {why}", RULE, said=said)
    wanted = said.updated_input or call["input"]
    value = _read(tool, wanted) if said.updated_input else value
    verdict = parts.rules.decide(tool.name, tool.touches(value, parts.workspace), parts.workspace)
    if verdict.kind is Kind.DENY:
        raise Refused(DENIED.format(tool=tool.name, why=verdict.reason), RULE)
    is_lifted = said.decision == "allow" and not verdict.is_firm
    if said.decision == "ask" or (verdict.kind is Kind.ASK and not is_lifted):
        agent, kind = parts.recorder.facts.agent_id, parts.agent_type or ""
        place = parts.workspace.cwd
        question = Question(call["id"], tool.name, wanted, verdict, agent, kind, place)
        allowed = await _ask(parts, question)
        if allowed is not wanted:
            value, wanted = _read(tool, allowed), allowed
            _require_no_denial(parts, tool, value)
    return Admitted(tool, wanted, value, said)


def plain_input(given: Fields, parts: Parts) -> Fields:
    """An input as hooks are told it: files by their whole paths, however the model names them, so
    that no hook that looks at paths is got around."""
    named = {name: given[name] for name in PATHS if isinstance(given.get(name), str)}
    return given | {name: str(parts.workspace.path_of(path)) for name, path in named.items()}


async def _ask(parts: Parts, question: Question) -> Fields:
    """Ask whoever can be asked; gives the input as it may run."""
    told = plain_input(question.input, parts)
    about = {"tool_name": question.tool, "tool_input": told} | parts.about_agent
    if offered := suggestions(question.verdict.remember):
        about["permission_suggestions"] = offered
    said = await parts.hooks.fire("PermissionRequest", question.tool, about)
    if said.decision == "allow":
        _take(parts, said.grants)
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


def _require_no_denial(parts: Parts, tool: Tool, value: Any) -> None:
    """What a hook makes of an input is still for the rules to deny."""
    verdict = parts.rules.decide(tool.name, tool.touches(value, parts.workspace), parts.workspace)
    if verdict.kind is Kind.DENY:
        raise Refused(DENIED.format(tool=tool.name, why=verdict.reason), RULE)


def _take(parts: Parts, grants: Grants) -> None:
    """Allow what a hook allows for the user; never that nothing is asked any more."""
    if grants.kept:
        parts.rules.remember(grants.kept)
    if grants.passing:
        parts.rules.remember(grants.passing, is_kept=False)
    if grants.mode in SETTABLE:
        parts.rules.mode = Mode(grants.mode)
        parts.hooks.facts.permission_mode = parts.rules.mode.value


def _read(tool: Tool, wanted: Fields) -> Any:
    try:
        return tool.read(wanted)
    except ToolError as error:
        raise Invalid(str(error)) from error
