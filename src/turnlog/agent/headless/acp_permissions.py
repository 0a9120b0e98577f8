"""Ask the user of an ACP client about calls."""

from typing import Protocol

from acp.exceptions import RequestError
from acp.helpers import text_block, tool_content
from acp.schema import AllowedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from turnlog.agent.headless.acp_calls import kind_of, locations_of, preview_of, title_of
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields
from turnlog.text import harmless

ONCE, ALWAYS, EDITS, REJECT = "allow_once", "allow_always", "allow_edits", "reject_once"
ACCEPT_EDITS: Fields = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
EDITORS = ("Edit", "Write", "NotebookEdit")
REFUSED = "The user does not allow this call."


class PermissionClient(Protocol):
    """The part of a connection that permissions need."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse: ...


async def ask_client(
    client: PermissionClient, session_id: str, question: Question, workspace: Workspace
) -> PermissionReply:
    """Return the user's answer; a client that fails to answer has not agreed."""
    call = describe_question(question, workspace)
    try:
        response = await client.request_permission(session_id, call, options_for(question))
    except (RequestError, ConnectionError, ValueError) as error:
        return PermissionReply("deny", feedback=f"Nobody could be asked: {error}", is_program=True)
    outcome = response.outcome
    if not isinstance(outcome, AllowedOutcome):
        # The turn is being cancelled: the model is not asked again.
        return PermissionReply("deny", feedback=REFUSED, is_program=True, ends_turn=True)
    return _reply(outcome.option_id, question)


def _reply(chosen: str, question: Question) -> PermissionReply:
    # Only what was offered counts: a rule, for example, is never offered for a firm verdict.
    offered = {option.option_id for option in options_for(question)} - {REJECT}
    if chosen not in offered:
        return PermissionReply("deny", feedback=REFUSED, is_program=True)
    remember = question.verdict.remember if chosen == ALWAYS else ()
    updates = (ACCEPT_EDITS,) if chosen == EDITS else ()
    return PermissionReply("allow", remember=remember, updates=updates)


def options_for(question: Question) -> list[PermissionOption]:
    """Return the answers to choose from."""
    options = [PermissionOption(option_id=ONCE, name="Allow", kind="allow_once")]
    if rules := question.verdict.remember:
        name = f"Always allow {', '.join(rules)}"
        options.append(PermissionOption(option_id=ALWAYS, name=name, kind="allow_always"))
    if question.tool in EDITORS and not question.verdict.is_firm:
        name = "Allow all edits in this session"
        options.append(PermissionOption(option_id=EDITS, name=name, kind="allow_always"))
    return [*options, PermissionOption(option_id=REJECT, name="Reject", kind="reject_once")]


def describe_question(question: Question, workspace: Workspace) -> ToolCallUpdate:
    """Return the call that a question is about, with every reason to ask."""
    reasons = question.verdict.reasons or (question.verdict.reason,)
    why = "\n".join(f"- {harmless(each)}" for each in reasons if each)
    preview = preview_of(question.tool, question.input, workspace)
    return ToolCallUpdate(
        tool_call_id=question.call_id,
        title=harmless(title_of(question.tool, question.input)),
        kind=kind_of(question.tool),
        status="pending",
        content=[*preview, *([tool_content(text_block(why))] if why else [])],
        locations=locations_of(question.input, workspace),
        raw_input=question.input,
    )
