"""Parse hook output (exit codes and JSON) and merge the outcomes of several hooks.

Pure functions: a run goes in, an outcome comes out.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.runs import MOST_OUTPUT, HookRun, decode_output
from turnlog.format.fields import CamelView, given
from turnlog.format.json_values import Fields

Decision = Literal["allow", "deny", "ask"]
ElicitAction = Literal["accept", "decline", "cancel"]
STRICTEST_ACTIONS: tuple[ElicitAction, ...] = ("decline", "cancel", "accept")
STRICTEST: tuple[Decision, ...] = ("deny", "ask", "allow")
"""Decisions by precedence, the strictest first."""
DECISIONS: dict[str, Decision] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
    "defer": "ask",
}
"""Permission decisions; `defer` asks the user where a call cannot be deferred."""
DECIDING = ("PreToolUse", "PreModelSwitch")
"""Events whose hooks return a permission decision."""
ASKING = "PermissionRequest"
MORE = f"more than {MOST_OUTPUT >> 20} MiB"
TOO_MUCH = {"mcp_tool": "more than the limit of a tool result"}
"""How a message describes truncated output, by type of hook."""
REFUSING = re.compile(
    r"\"(?:permissionD|d)ecision\"\s*:\s*\"(?:block|deny|ask|defer)\""
    r"|\"behavior\"\s*:\s*\"deny\"|\"(?:continue|ok)\"\s*:\s*\"?false"
)
"""Matches fields that block an action, in output that cannot be parsed."""

SIGNALS = re.compile(r"(?:\x1b\](?:0|1|2|9|99|777);[^\x00-\x1f\x7f-\x9f]*(?:\x07|\x1b\\)|\x07)*")
"""Terminal sequences that a hook may request (documented)."""


class HookOutcome(Struct, frozen=True):
    """The merged outcome of the hooks of one event."""

    block: bool = False
    reason: str = ""
    """The reason to block, deny or ask."""
    context: list[str] = []
    """Context for the model."""
    decision: Decision | None = None
    is_deferred: bool = False
    """True if the call is deferred to a later run of the program."""
    updated_input: Fields | None = None
    permission_updates: list[Fields] = []
    """Changes to the permission rules that accompany an approval, as the hook wrote them."""
    updated_output: Any = UNSET
    """Replacement for the tool's result."""
    stop: bool = False
    """True if the turn ends here."""
    stop_reason: str = ""
    system_message: str | None = None
    """Message for the user."""
    signal: str = ""
    """Terminal sequences: titles, notifications and the bell, nothing else."""
    title: str = ""
    """New session title."""
    watched: list[str] | None = None
    """Files to watch, replacing the previous list."""
    may_retry: bool = False
    """True if the model may try a denied call again."""
    shown_text: str | None = None
    """The text to show instead of the original."""
    action: ElicitAction | None = None
    """The answer to a server's request for input."""
    content: Fields | None = None
    """The values to answer an accepted request with."""
    errors: list[str] = []
    """Messages of hooks that failed without blocking; shown to the user."""
    runs: list[HookRun] = []


class _PermissionAnswer(CamelView):
    behavior: Literal["allow", "deny"] | UnsetType = UNSET
    updated_input: dict[str, Any] | None | UnsetType = UNSET
    updated_permissions: list[dict[str, Any]] | None | UnsetType = UNSET
    message: str | None | UnsetType = UNSET
    interrupt: bool | None | UnsetType = UNSET


class _Specific(CamelView):
    """The event-specific part of hook output."""

    hook_event_name: str | None | UnsetType = UNSET
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None | UnsetType = UNSET
    permission_decision_reason: str | None | UnsetType = UNSET
    updated_input: dict[str, Any] | None | UnsetType = UNSET
    updated_tool_output: Any = UNSET
    updated_mcp_tool_output: Any = field(default=UNSET, name="updatedMCPToolOutput")
    additional_context: str | None | UnsetType = UNSET
    watch_paths: list[str] | None | UnsetType = UNSET
    session_title: str | None | UnsetType = UNSET
    decision: _PermissionAnswer | None | UnsetType = UNSET
    retry: bool | None | UnsetType = UNSET
    display_content: str | None | UnsetType = UNSET
    action: ElicitAction | None | UnsetType = UNSET
    content: dict[str, Any] | None | UnsetType = UNSET


class _Answer(CamelView):
    """Hook output as JSON."""

    go_on: bool | None | UnsetType = field(default=UNSET, name="continue")
    stop_reason: str | None | UnsetType = UNSET
    suppress_output: bool | None | UnsetType = UNSET
    system_message: str | None | UnsetType = UNSET
    terminal_sequence: str | None | UnsetType = UNSET
    decision: Literal["approve", "block"] | None | UnsetType = UNSET
    reason: str | None | UnsetType = UNSET
    hook_specific_output: _Specific | None | UnsetType = UNSET


def read_answer(run: HookRun) -> HookOutcome:
    """Return the outcome of one hook run."""
    if run.exit_code is None:
        return _late_outcome(run)
    # Only a command can block by exit code 2. An HTTP server that is down must not stop the agent.
    if run.exit_code and run.kind != "command":
        if why := _unreadable(run, run.stderr):
            return _refused(run, why)
        return HookOutcome(errors=[_failure(run, run.stderr)], runs=[run])
    answer, problem = _parse(run)
    if run.exit_code == 2:
        return _blocked(run, answer or _Answer())
    if answer is None and (why := _unreadable(run, problem)):
        return _refused(run, why)
    if problem:
        return HookOutcome(errors=[_failure(run, problem)], runs=[run])
    if answer:
        return _outcome(run, answer)
    if run.exit_code:
        first = run.stderr.strip().partition("\n")[0]
        return HookOutcome(errors=[_failure(run, first)], runs=[run])
    text = run.stdout.strip()
    is_context = text and EVENTS[run.event].plain_text_is_context
    return HookOutcome(context=[text] if is_context else [], runs=[run])


def _unreadable(run: HookRun, problem: str) -> str:
    """Return why output that seems to block cannot be parsed; empty for all other output.

    Hooks quote the call that they deny. A malicious call could be too long, or break the JSON that
    a shell script prints: `echo "{\\"reason\\": \\"$command\\"}"`.
    """
    if not EVENTS[run.event].is_guarded:
        return ""
    text = run.answer
    if run.is_cut and (text[:1] in ("", "{") or run.kind != "command"):
        return f"it printed {TOO_MUCH.get(run.kind, MORE)}"
    if text.startswith("{") and REFUSING.search(text):
        return problem or "its output is not JSON"
    return ""


def _refused(run: HookRun, why: str) -> HookOutcome:
    """Return the outcome of output that cannot be parsed: it blocks the action."""
    decision = "deny" if run.event in (*DECIDING, ASKING) else None
    reason = f"{_failure(run, why)}; a hook whose output cannot be parsed blocks"
    return HookOutcome(block=True, decision=decision, reason=reason, runs=[run])


def _late_outcome(run: HookRun) -> HookOutcome:
    late = f"{run.name} hook timed out after {run.timeout:g} s"
    if EVENTS[run.event].late_hooks_block:
        return HookOutcome(block=True, reason=f"{late}: {run.command}", runs=[run])
    return HookOutcome(errors=[f"{late} and was ignored: {run.command}"], runs=[run])


def merge_outcomes(outcomes: Sequence[HookOutcome]) -> HookOutcome:
    """Merge outcomes: the strictest decision wins, messages are concatenated."""
    made = {each.decision for each in outcomes}
    decision: Decision | None = next((each for each in STRICTEST if each in made), None)
    block = any(each.block for each in outcomes)
    # Only hooks that agree with the result explain it: the reason of an `allow` would mislead
    # beside a `deny`.
    counted = [each for each in outcomes if each.block == block and each.decision == decision]
    inputs = [each.updated_input for each in outcomes if each.updated_input is not None]
    outputs = [each.updated_output for each in outcomes if each.updated_output is not UNSET]
    messages = [each.system_message for each in outcomes if each.system_message]
    updates = [each.permission_updates for each in counted if each.permission_updates]
    return HookOutcome(
        block=block,
        reason=_joined(each.reason for each in counted),
        context=[text for each in outcomes for text in each.context],
        decision=decision,
        is_deferred=any(each.is_deferred for each in counted),
        updated_input=inputs[-1] if inputs else None,
        permission_updates=updates[0] if updates else [],
        updated_output=outputs[-1] if outputs else UNSET,
        stop=any(each.stop for each in outcomes),
        stop_reason=_joined(each.stop_reason for each in outcomes),
        system_message="\n".join(messages) or None,
        signal="".join(each.signal for each in outcomes),
        title=next((each.title for each in outcomes if each.title), ""),
        watched=_all_watched(outcomes),
        may_retry=any(each.may_retry for each in outcomes),
        shown_text=next(
            (each.shown_text for each in outcomes if each.shown_text is not None), None
        ),
        **_merged_answer(outcomes),
        errors=[error for each in outcomes for error in each.errors],
        runs=[run for each in outcomes for run in each.runs],
    )


def _merged_answer(outcomes: Sequence[HookOutcome]) -> Fields:
    """Return the strictest answer to a server's request, with its values."""
    given = {each.action: each.content for each in reversed(outcomes) if each.action}
    action = next((each for each in STRICTEST_ACTIONS if each in given), None)
    return {"action": action, "content": given[action] if action else None}


def _all_watched(outcomes: Sequence[HookOutcome]) -> list[str] | None:
    named = [each.watched for each in outcomes if each.watched is not None]
    return [path for paths in named for path in paths] if named else None


def _parse(run: HookRun) -> tuple[_Answer | None, str]:
    """Return the JSON that a hook printed, if any, and a message if it is invalid."""
    text = run.answer
    if not text.startswith("{") or run.is_cut:
        return None, ""
    try:
        value = decode_output(text)
    # Text that only starts like JSON is plain text.
    except ValueError:
        return None, ""
    except RecursionError:
        return None, "its output is nested too deeply"
    try:
        return msgspec.convert(value, _Answer), ""
    except msgspec.ValidationError as error:
        return None, f"its output is invalid: {error}"


def _blocked(run: HookRun, answer: _Answer) -> HookOutcome:
    """Return the outcome of exit code 2: it blocks, whatever the JSON contains."""
    outcome = _outcome(run, answer)
    if run.event == ASKING:
        return outcome
    if not EVENTS[run.event].can_block:
        return msgspec.structs.replace(outcome, errors=[_failure(run, run.stderr.strip())])
    reason = outcome.reason if outcome.block else run.stderr.strip()
    decision = "deny" if run.event in DECIDING else outcome.decision
    return msgspec.structs.replace(outcome, block=True, reason=reason, decision=decision)


def _outcome(run: HookRun, answer: _Answer) -> HookOutcome:
    rules = EVENTS[run.event]
    specific = given(answer.hook_specific_output) or _Specific()
    named = given(specific.hook_event_name)
    # One script may serve several events; fields for another event are ignored.
    if named and named != run.event:
        specific = _Specific()
    context = (given(specific.additional_context) or "").strip()
    stops = answer.go_on is False and not rules.is_mute
    outcome = HookOutcome(
        block=rules.can_block and answer.decision == "block",
        reason=given(answer.reason) or "",
        context=[context] if context else [],
        updated_output=_first_given(specific.updated_tool_output, specific.updated_mcp_tool_output),
        stop=stops,
        stop_reason=(given(answer.stop_reason) or "") if stops else "",
        system_message=None if rules.is_mute else given(answer.system_message),
        signal=_harmless(given(answer.terminal_sequence) or ""),
        title=(given(specific.session_title) or "").strip(),
        watched=given(specific.watch_paths),
        may_retry=given(specific.retry) is True,
        shown_text=given(specific.display_content),
        action=given(specific.action),
        content=given(specific.content),
        runs=[run],
    )
    if run.event in DECIDING:
        return _about_call(outcome, answer, specific)
    if run.event == ASKING:
        return _about_permission(outcome, given(specific.decision))
    return outcome


def _harmless(sequence: str) -> str:
    # All or nothing: a sequence that moves the cursor could overwrite a permission prompt.
    return sequence if SIGNALS.fullmatch(sequence) else ""


def _first_given(*values: Any) -> Any:
    return next((value for value in values if value is not UNSET), UNSET)


def _about_call(outcome: HookOutcome, answer: _Answer, specific: _Specific) -> HookOutcome:
    permission = given(specific.permission_decision) or given(answer.decision)
    decision = DECISIONS[permission] if permission else None
    return msgspec.structs.replace(
        outcome,
        block=decision == "deny",
        decision=decision,
        is_deferred=permission == "defer",
        reason=given(specific.permission_decision_reason) or outcome.reason,
        updated_input=given(specific.updated_input),
    )


def _about_permission(outcome: HookOutcome, answer: _PermissionAnswer | None) -> HookOutcome:
    behavior = given(answer.behavior) if answer else None
    if answer is None or behavior is None:
        return outcome
    denied = behavior == "deny"
    return msgspec.structs.replace(
        outcome,
        block=denied,
        decision=behavior,
        reason=(given(answer.message) or "") if denied else "",
        updated_input=None if denied else given(answer.updated_input),
        permission_updates=[] if denied else given(answer.updated_permissions) or [],
        stop=outcome.stop or (denied and bool(given(answer.interrupt))),
    )


def _failure(run: HookRun, why: str) -> str:
    has_code = run.kind == "command" and run.exit_code not in (0, 2)
    code = f" (exit code {run.exit_code})" if has_code else ""
    return f"{run.name} hook error{code}: {why or run.command}"


def _joined(texts: Any) -> str:
    return "\n".join(filter(None, texts))
