"""Ask the user of an ACP client to permit calls, and to answer questions of the model."""

import json
import re
from typing import Protocol

from acp.exceptions import RequestError
from acp.helpers import ToolCallContentVariant, text_block, tool_content
from acp.schema import AllowedOutcome, PermissionOption, RequestPermissionResponse, ToolCallUpdate

from turnlog.agent.headless.acp_calls import fenced, kind_of, locations_of, preview_of, title_of
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.tools.ask_user_question import ASK_USER_QUESTION, AskInput, UserQuestion
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields
from turnlog.text import harmless, visible

ONCE, ALWAYS, EDITS, REJECT = "allow_once", "allow_always", "allow_edits", "reject_once"
ACCEPT_EDITS: Fields = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
EDITORS = ("Edit", "Write", "NotebookEdit")
REFUSED = "The user does not allow this call."
SHOWN = {
    "Edit": ("file_path", "old_string", "new_string"),
    "Write": ("file_path", "content"),
    "ExitPlanMode": ("plan",),
}
"""Input fields that the preview shows, by tool; for a call with others, the raw input is added."""
TOLD = ("command", "description")
"""Input fields of a command that are shown elsewhere or need not be shown."""
LONGEST = 400
"""Maximum characters of rules to offer: the user must be able to read a permanent approval."""
BLANKS = re.compile(" {20,}")


class PermissionClient(Protocol):
    """The part of a connection that permissions need."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse: ...


async def ask_client(
    client: PermissionClient, session_id: str, question: Question, workspace: Workspace
) -> PermissionReply:
    """Return the user's answer; a failure of the client counts as a denial."""
    if question.tool == ASK_USER_QUESTION.name:
        return await _ask_questions(client, session_id, question, workspace)
    call = describe_question(question, workspace)
    chosen = await _choose(client, session_id, call, options_for(question))
    return chosen if isinstance(chosen, PermissionReply) else _reply(chosen, question)


async def _choose(
    client: PermissionClient, session_id: str, call: ToolCallUpdate, options: list[PermissionOption]
) -> str | PermissionReply:
    """Return the id of the option that the user chose, or the refusal if there is none."""
    try:
        response = await client.request_permission(session_id, call, options)
    except (RequestError, ConnectionError, ValueError) as error:
        return PermissionReply("deny", feedback=f"Nobody could be asked: {error}", is_program=True)
    if isinstance(response.outcome, AllowedOutcome):
        return response.outcome.option_id
    # The turn is being cancelled: the model is not asked again.
    return PermissionReply("deny", feedback=REFUSED, is_program=True, ends_turn=True)


async def _ask_questions(
    client: PermissionClient, session_id: str, question: Question, workspace: Workspace
) -> PermissionReply:
    """Ask the questions of a call one by one; return its approval with the answers."""
    given: AskInput = ASK_USER_QUESTION.read(question.input)
    answers: dict[str, str] = {}
    for each in given.questions:
        labels = {f"option_{number}": one.label for number, one in enumerate(each.options)}
        call = describe_question(question, workspace)
        call.title, call.content = harmless(each.question), [_described(each)]
        chosen = await _choose(client, session_id, call, _answers(labels))
        if isinstance(chosen, PermissionReply):
            return chosen
        # REJECT, or an option that was not offered.
        if chosen not in labels:
            return PermissionReply("deny", feedback=REFUSED, is_program=True)
        answers[each.question] = labels[chosen]
    return PermissionReply("allow", updated_input=question.input | {"answers": answers})


def _answers(labels: dict[str, str]) -> list[PermissionOption]:
    options = [
        PermissionOption(option_id=name, name=visible(label, keep=""), kind="allow_once")
        for name, label in labels.items()
    ]
    return [*options, PermissionOption(option_id=REJECT, name="Reject", kind="reject_once")]


def _described(question: UserQuestion) -> ToolCallContentVariant:
    rows = [f"- {harmless(one.label)}: {harmless(one.description)}" for one in question.options]
    return tool_content(text_block("\n".join([harmless(question.question), "", *rows])))


def _reply(chosen: str, question: Question) -> PermissionReply:
    # Accept only offered options: a firm verdict, for example, never offers a permanent rule.
    offered = {option.option_id for option in options_for(question)} - {REJECT}
    if chosen not in offered:
        return PermissionReply("deny", feedback=REFUSED, is_program=True)
    remember = question.verdict.remember if chosen == ALWAYS else ()
    updates = (ACCEPT_EDITS,) if chosen == EDITS else ()
    return PermissionReply("allow", remember=remember, updates=updates)


def options_for(question: Question) -> list[PermissionOption]:
    """Return the answers to choose from."""
    options = [PermissionOption(option_id=ONCE, name="Allow", kind="allow_once")]
    name = visible(f"Always allow {', '.join(question.verdict.remember)}", keep="")
    if question.verdict.remember and len(name) <= LONGEST:
        options.append(PermissionOption(option_id=ALWAYS, name=name, kind="allow_always"))
    if question.tool in EDITORS and not question.verdict.is_firm:
        name = "Allow all edits in this session"
        options.append(PermissionOption(option_id=EDITS, name=name, kind="allow_always"))
    return [*options, PermissionOption(option_id=REJECT, name="Reject", kind="reject_once")]


def describe_question(question: Question, workspace: Workspace) -> ToolCallUpdate:
    """Describe the call that a question is about: its caller, its input and the reasons to ask."""
    agent = _agent(question)
    title = harmless(title_of(question.tool, question.input))
    preview = preview_of(question.tool, question.input, workspace)
    # Clients cut titles, and not all of them show the raw input.
    whole = [] if _is_shown(question) else [tool_content(text_block(_whole(question, workspace)))]
    return ToolCallUpdate(
        tool_call_id=question.call_id,
        title=f"{title} ({agent})" if agent else title,
        kind=kind_of(question.tool),
        status="pending",
        content=[*preview, *whole, *_reasons(question, agent)],
        locations=locations_of(question.input, workspace),
        raw_input=question.input,
    )


def _agent(question: Question) -> str:
    """Return which sub-agent makes a call; empty for the conversation itself."""
    named = ", ".join(filter(None, (question.agent_type, question.agent_id)))
    return f"sub-agent {visible(named, keep='')}" if named else ""


def _reasons(question: Question, agent: str) -> list[ToolCallContentVariant]:
    reasons = [*(question.verdict.reasons or (question.verdict.reason,))]
    reasons += [f"asked by {agent}"] if agent else []
    why = "\n".join(f"- {harmless(each)}" for each in reasons if each)
    return [tool_content(text_block(why))] if why else []


def _is_shown(question: Question) -> bool:
    """Return whether the preview shows all input of a call, and no character of it is invisible."""
    known = SHOWN.get(question.tool)
    return known is not None and all(
        name in known and isinstance(value, str) and visible(value, keep="\n\t") == value
        for name, value in question.input.items()
        if value  # `replace_all: false` is the default
    )


def _whole(question: Question, workspace: Workspace) -> str:
    """Return the input of a call as a code block, with nothing hidden."""
    given = question.input
    command = given.get("command") if question.tool == "Bash" else None
    if not isinstance(command, str):
        return _spelled(json.dumps(given, indent=1, ensure_ascii=False))
    others = {name: value for name, value in given.items() if name not in TOLD}
    more = [json.dumps(others, ensure_ascii=False)] if others else []
    more += [f"in {question.place}"] if question.place != workspace.root else []
    return "\n".join(map(_spelled, (command, *more)))


def _spelled(text: str) -> str:
    return fenced(BLANKS.sub(lambda found: f"<{len(found[0])} spaces>", visible(text)))
