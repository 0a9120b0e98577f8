"""Record the start and end of a turn, and the pull requests that its commands create."""

import re
from collections.abc import Sequence
from typing import Any

from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.lifecycle_hooks import SHELL, ContextForModel, Prompt
from turnlog.agent.loop.notifications import NOTICE
from turnlog.agent.loop.system_prompt import PLAN, PLAN_TOOL
from turnlog.agent.model.answer import StreamedMessage
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.session.entry_builders import PullRequest, text_of
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.git_operations import PULL_REQUEST_URL
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.prompts import label_of
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields, is_object

CREATES_PULL_REQUEST = re.compile(r"(?:^|[\s;&|(/])gh\s+pr\s+create\b")


def record_prompt(
    turn: RunningTurn, prompt: Prompt, source: str, context: Sequence[ContextForModel]
) -> None:
    """Record a prompt, followed by the context that goes along with it."""
    parts, recorder = turn.parts, turn.parts.recorder
    # The prompt is not a notification, so hooks may wake the model again: see `Hooks._wake`.
    if source != NOTICE:
        parts.hooks.wakes = 0
    if source == NOTICE:
        turn.record(recorder.notice(text_of(prompt), parts.rules.mode.value))
    elif parts.agent_type:
        turn.record(recorder.task(prompt))
    else:
        for entry in _asked(parts, prompt, source):
            turn.record(entry)
    if not parts.agent_type:
        parts.hooks.facts.prompt_id = recorder.prompt_id
    how = PLAN_TOOL if "ExitPlanMode" in parts.tools else ""
    plan = [f"<system-reminder>\n{PLAN}{how}\n</system-reminder>"]
    for content in [*context, *(plan if parts.rules.mode is ApprovalMode.PLAN else [])]:
        turn.record(
            recorder.follow(content) if isinstance(content, dict) else recorder.meta(content)
        )


def _asked(parts: Parts, prompt: Prompt, source: str) -> list[Fields]:
    """Record the user's prompt after a snapshot of the changed files; return its entries."""
    uuid = parts.recorder.take_uuid()
    parts.recorder.mode(parts.rules.mode.value)
    # The snapshot precedes the prompt, so that a rewind restores the files as of the prompt.
    if parts.backups:
        parts.recorder.aside(parts.backups.snapshot_line(uuid))
    if source == SHELL and not isinstance(prompt, str):
        return parts.recorder.shell([block["text"] for block in prompt], uuid)
    return [parts.recorder.prompt(prompt, parts.rules.mode.value, source, uuid)]


class ModelRefusal(ModelError):
    """The model, or a safety filter, refused to answer."""


def refusal_of(answer: StreamedMessage) -> ModelRefusal:
    """Return the error for an answer that was refused, with the reason if there is one."""
    given = answer.message.get("stop_details")
    details: Fields = given if is_object(given) else {}
    named = [details.get("explanation"), details.get("category"), answer.text]
    why = next((each for each in named if isinstance(each, str) and each), "it gives no reason")
    message = f"{answer.model} refused to answer: {why}"
    return ModelRefusal(message, "another prompt, or --model NAME", request_id=answer.request_id)


def record_failure(turn: RunningTurn, error: ModelError) -> str:
    """Record an API error; return the message for the user."""
    # As in the client, the status directly follows the prefix, where programs look for it.
    status = f"{error.status} " if error.status else ""
    message = f"API Error: {status}{error.line}"
    recorder = turn.parts.recorder
    if recorder.prompt_id:
        turn.record(recorder.failure(message, error.status, error.request_id))
    return message


def record_end(turn: RunningTurn, prompt: Prompt, source: str) -> None:
    """Record the duration, tip, mode and cost of a turn; like the client, not in sub-agents."""
    recorder = turn.parts.recorder
    if recorder.prompt_id and not turn.parts.agent_type:
        turn.record(recorder.turn_duration(turn.spent.seconds))
        # After every turn, as the client does: some readers look only at the end of a file.
        recorder.tip("" if source == NOTICE else label_of(text_of(prompt)))
        recorder.mode(turn.parts.rules.mode.value)
        record_cost(turn)


def record_cost(turn: RunningTurn) -> None:
    """Add the cost of a turn to the session's totals, and record the totals."""
    recorder, spent = turn.parts.recorder, turn.spent
    recorder.totals.add_turn(spent.cost, spent.api_seconds, spent.models)
    recorder.cost()


def not_written(parts: Parts, error: OSError, answer: str) -> str:
    """Return the answer followed by the reason why the session could not be written."""
    place = error.filename or parts.recorder.path
    return f"{answer}\n{place}: {error.strerror or error}".strip()


def link_pull_request(recorder: Recorder, tool: str, given: Fields, outcome: ToolOutcome) -> None:
    """Record the pull request that a call created, if any, as a `pr-link` entry.

    A command counts if it contains `gh pr create` and succeeds; the last URL it prints is used.
    """
    command: Any = given.get("command")
    if tool != BASH.name or outcome.is_error or not isinstance(command, str):
        return
    if made := find_pull_request(command, text_of(outcome.content)):
        recorder.pull_request(made)


def find_pull_request(command: str, printed: str) -> PullRequest | None:
    """Return the pull request that a command created, according to its output.

    >>> find_pull_request("gh pr create --fill", "https://github.com/octo/shop/pull/7").number
    7
    >>> find_pull_request("gh pr view", "https://github.com/octo/shop/pull/7")
    """
    if not CREATES_PULL_REQUEST.search(command.replace("\\\n", " ")):
        return None
    # `gh` prints the URL last; the pull request's body may contain other URLs before it.
    found = [*PULL_REQUEST_URL.finditer(printed)][-1:]
    return next((PullRequest(int(each[2]), each[0], each[1]) for each in found), None)
