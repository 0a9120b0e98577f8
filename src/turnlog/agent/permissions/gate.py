"""Decide whether a call may run: ask hooks, then rules, then the user."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.permissions.commands import command_offers, is_excluded
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.permissions.grants import suggestions
from turnlog.agent.permissions.policy import Ask, Question, Verdict, VerdictKind
from turnlog.agent.workspace.access import ApprovalMode, Basis, Runs, targets_of, with_targets
from turnlog.agent.workspace.sandbox.profile import UNASKED
from turnlog.agent.workspace.tool import Grant, Tool, ToolError
from turnlog.agent.workspace.workspace import DirectoryIdentity, Workspace
from turnlog.format.json_values import Fields

LOG = logging.getLogger("turnlog.permissions")
RULE, REJECTED, ANSWERED = "permission-rule", "user-rejected", "permission-prompt"
"""`toolDenialKind` values of refusals."""
PATHS = ("file_path", "notebook_path")
ANSWERS = {"AskUserQuestion": frozenset({"answers", "annotations"})}
"""Input fields that only the user's reply may fill: the model must not answer its own questions."""
DENIED = "{tool} is not allowed: {why}"
NOT_ASKED = "{tool} needs permission, and the mode dontAsk denies calls instead of asking"
MAY_RETRY = "The PermissionDenied hook says that you may try this call again."
DECIDED = ("plan", "auto")
"""Modes in which PermissionDenied hooks run if a call is denied because nobody can be asked."""
NO_TOOL = "Error: No such tool available: {name}"


class Conversation(Protocol):
    """The parts of a conversation that decide about its calls."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def accepted(self) -> Mapping[str, Tool]: ...
    @property
    def workspace(self) -> Workspace: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def ask(self) -> Ask | None: ...
    @property
    def asking(self) -> asyncio.Lock: ...
    @property
    def can_defer(self) -> bool: ...
    @property
    def about_agent(self) -> Fields: ...


class Refused(Exception):
    """A call that may not run."""

    def __init__(
        self, text: str, kind: str, ends_turn: bool = False, hook_outcome: HookOutcome | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        """The result for the model."""
        self.kind = kind
        self.ends_turn = ends_turn
        """True if the refusal ends the turn like an interruption."""
        self.hook_outcome = hook_outcome
        """The outcome of the hooks, if they denied the call."""


class Deferred(Exception):
    """A call that a hook defers to a later run of the program."""

    def __init__(self, hook_outcome: HookOutcome) -> None:
        super().__init__(hook_outcome.reason)
        self.hook_outcome = hook_outcome


class Invalid(ToolError):
    """A call of an unknown tool, or with invalid input."""


class Admitted(Struct, frozen=True):
    """A call that may run."""

    tool: Tool
    input: Fields
    value: Any
    """The input, parsed by the tool."""
    hook_outcome: HookOutcome
    """The outcome of PreToolUse hooks."""
    grant: Grant


class _Judged(Struct, frozen=True):
    """A verdict, and the files that it is about."""

    verdict: Verdict
    targets: dict[Path, Path]
    """Maps each path of the call to the path that it resolves to."""
    directory: DirectoryIdentity | None
    """The working directory that the verdict assumes."""
    runs: Runs | None
    """The command, if the call is one."""

    def grant(self, basis: Basis, parts: Conversation, call_id: str) -> Grant:
        """Return the grant for the call, allowed on the given basis."""
        runs, profile = self.runs, None
        if runs is not None:
            is_bare = is_unsandboxed(runs, parts)
            profile = parts.rules.profile(basis, parts.workspace, is_bare)
        return Grant(basis, self.targets, self.directory, profile, call_id)


class _Consented(Struct, frozen=True):
    """A call that someone was asked about and allowed."""

    input: Fields
    """The input to run the call with."""
    basis: Basis


async def admit(parts: Conversation, call: Fields) -> Admitted:
    """Admit a call; raise `Refused`, `Deferred` or `Invalid` if it may not run."""
    tool = parts.tools.get(call["name"]) or parts.accepted.get(call["name"])
    if tool is None:
        raise Invalid(NO_TOOL.format(name=call["name"]))
    given = _unanswered(tool.name, call["input"])
    value = _read(tool, given)
    tool_input = plain_input(given, parts)
    about = {"tool_name": tool.name, "tool_input": tool_input, "tool_use_id": call["id"]}
    outcome = await parts.hooks.fire("PreToolUse", tool.name, about | parts.about_agent)
    if outcome.decision == "deny" or outcome.block or outcome.stop:
        why = outcome.reason or outcome.stop_reason or "a hook does not allow it"
        raise Refused(f"{tool.name} was not allowed: {why}", RULE, hook_outcome=outcome)
    if outcome.is_deferred and parts.can_defer:
        raise Deferred(outcome)
    wanted = outcome.updated_input or given
    value = _read(tool, wanted) if outcome.updated_input else value
    judged = await _judge(parts, tool, value)
    verdict = judged.verdict
    basis = verdict.basis if verdict.kind is VerdictKind.ALLOW else Basis.HOOK
    # A hook may answer for the user unless the verdict is firm, as that of an `ask` rule is.
    is_lifted = outcome.decision == "allow" and not verdict.is_firm
    if outcome.decision == "ask" or (verdict.kind is VerdictKind.ASK and not is_lifted):
        about = parts.about_agent
        agent, kind = about.get("agent_id"), about.get("agent_type") or ""
        place = parts.workspace.cwd
        if tool.check:
            await _check(tool.check(value, parts.workspace, judged.grant(basis, parts, call["id"])))
        shown = _with_words(verdict, outcome)
        question = Question(call["id"], tool.name, wanted, shown, agent, kind, place)
        allowed = await _ask(parts, question)
        basis = allowed.basis
        if allowed.input is not wanted:
            value, wanted = _read(tool, allowed.input), allowed.input
            judged = await _judge(parts, tool, value)  # rules may still deny the changed input
    elif outcome.decision == "allow" and basis in UNASKED:
        basis = Basis.HOOK
    return Admitted(tool, wanted, value, outcome, judged.grant(basis, parts, call["id"]))


async def admit_again(parts: Conversation, call: Fields, admitted: Admitted, why: str) -> Grant:
    """Ask about a command that its sandbox was too narrow for; raise `Refused` if it may not run.

    Running it twice is safe: so far it could change nothing but its private `/tmp`.
    """
    judged = await _judge(parts, admitted.tool, admitted.value)
    remember = command_offers(judged.runs.command) if judged.runs else ()
    verdict = Verdict(VerdictKind.ASK, why, remember, reasons=(why,))
    about = parts.about_agent
    agent, kind = about.get("agent_id"), about.get("agent_type") or ""
    place = parts.workspace.cwd
    question = Question(call["id"], admitted.tool.name, admitted.input, verdict, agent, kind, place)
    allowed = await _ask(parts, question)
    return judged.grant(allowed.basis, parts, call["id"])


def _with_words(verdict: Verdict, outcome: HookOutcome) -> Verdict:
    """Return a verdict whose reasons begin with what hooks tell the user.

    Each line names its origin, so that no hook can speak for turnlog.
    """
    asked = (outcome.reason or "for your permission") if outcome.decision == "ask" else ""
    words = [f"a hook asks: {line}" for line in asked.split("\n") if line.strip()]
    told = (outcome.system_message or "").split("\n")
    words += [f"a hook says: {line}" for line in told if line.strip()]
    if not words:
        return verdict
    # "Bash(ls) allows it" is no reason to ask.
    own = (verdict.reason,) if verdict.kind is VerdictKind.ASK and verdict.reason else ()
    reasons = (*words, *(verdict.reasons or own))
    return replace(verdict, reasons=reasons, reason="; ".join(reasons))


async def _judge(parts: Conversation, tool: Tool, value: Any) -> _Judged:
    """Return the rules' verdict about a call; raise `Refused` if they deny it.

    Paths are resolved first, so that the verdict covers each path as written and its target. The
    tool opens only the target: a symlink that is swapped in later is not followed.
    """
    directory = parts.workspace.settle()
    accesses = tool.touches(value, parts.workspace)
    targets = targets_of(accesses)
    touched = with_targets(accesses, targets)
    # A verdict may take a second. In a thread it does not hold up the console or an interrupt.
    verdict = await asyncio.to_thread(parts.rules.decide, tool.name, touched, parts.workspace)
    LOG.debug("%s: %s: %s", tool.name, verdict.kind, verdict.reason or verdict.basis)
    runs = next((each for each in accesses if isinstance(each, Runs)), None)
    if verdict.kind is VerdictKind.DENY:
        raise Refused(DENIED.format(tool=tool.name, why=verdict.reason), RULE)
    return _Judged(verdict, targets, directory, runs)


def is_unsandboxed(runs: Runs, parts: Conversation) -> bool:
    """Return whether an allowed command runs without a sandbox, by its input or the settings."""
    return runs.is_bare or is_excluded(runs.command, parts.rules.standing(parts.workspace))


def plain_input(given: Fields, parts: Conversation) -> Fields:
    """Return an input with absolute paths, for the hook payload.

    Otherwise the model could evade a hook that checks paths by spelling a path differently.
    """
    named = {name: given[name] for name in PATHS if isinstance(given.get(name), str)}
    return given | {name: str(parts.workspace.path_of(path)) for name, path in named.items()}


async def _ask(parts: Conversation, question: Question) -> _Consented:
    """Ask PermissionRequest hooks, then the user; raise `Refused` if the answer is no."""
    tool_input = plain_input(question.input, parts)
    about = {"tool_name": question.tool, "tool_input": tool_input} | parts.about_agent
    if offered := suggestions(question.verdict.remember):
        about["permission_suggestions"] = offered
    outcome = await parts.hooks.fire("PermissionRequest", question.tool, about)
    if outcome.decision == "allow":
        _take(parts, outcome.permission_updates)
        return _Consented(outcome.updated_input or question.input, Basis.HOOK)
    if outcome.decision == "deny":
        why = outcome.reason or "a hook does not allow it"
        raise Refused(f"{question.tool} was not allowed: {why}", RULE, outcome.stop)
    question = replace(question, verdict=_with_words(question.verdict, outcome))
    if parts.rules.mode is ApprovalMode.DONT_ASK:
        raise await _unasked(parts, question, NOT_ASKED.format(tool=question.tool))
    if parts.ask is None:
        why = f"{question.tool} needs permission, and nobody can be asked"
        raise await _unasked(parts, question, f"{why}: {question.verdict.reason}")
    async with parts.asking:
        reply = await parts.ask(question)
    if reply.kind == "deny" and reply.is_program:
        # The program's message is the result, as in the client (2.1.325, observed).
        raise Refused(reply.feedback, REJECTED if reply.ends_turn else ANSWERED, reply.ends_turn)
    if reply.kind == "deny":
        # A sub-agent continues without the call: the user has said nothing about its task.
        ends_turn = not reply.feedback and question.agent_id is None
        raise Refused(reply.feedback, REJECTED, ends_turn)
    if reply.remember:
        parts.rules.remember(reply.remember)
    _take(parts, reply.updates)
    changed = reply.updated_input if reply.updated_input != question.input else None
    return _Consented(changed or question.input, Basis.USER)


async def _unasked(parts: Conversation, question: Question, why: str) -> Refused:
    """Run PermissionDenied hooks for a call that nobody was asked about, and return its refusal.

    The hooks run only in modes in which the client itself decides (2.1.325, observed), so not in
    `default` and `dontAsk`.
    """
    if parts.rules.mode.value not in DECIDED:
        return Refused(why, RULE)
    about = {"tool_name": question.tool, "tool_input": plain_input(question.input, parts)}
    about |= {"tool_use_id": question.call_id, "reason": why} | parts.about_agent
    outcome = await parts.hooks.fire("PermissionDenied", question.tool, about)
    return Refused(f"{why}\n\n{MAY_RETRY}" if outcome.may_retry else why, RULE)


def _take(parts: Conversation, updates: Sequence[Fields]) -> None:
    """Apply the permission changes that come with an approval."""
    if updates:
        parts.rules.update(updates, parts.workspace)
        parts.hooks.facts.permission_mode = parts.rules.mode.value


def _unanswered(tool: str, given: Fields) -> Fields:
    answers = ANSWERS.get(tool)
    return {name: each for name, each in given.items() if name not in answers} if answers else given


async def _check(checking: Awaitable[None]) -> None:
    """Raise `Invalid` if a call would fail anyway, before the user is asked (2.1.325, observed)."""
    try:
        await checking
    except ToolError as error:
        raise Invalid(str(error)) from error


def _read(tool: Tool, wanted: Fields) -> Any:
    try:
        return tool.read(wanted)
    except ToolError as error:
        raise Invalid(str(error)) from error
