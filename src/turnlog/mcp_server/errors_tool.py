"""The tool `errors`: find earlier failures of a command or with a message, each with its fix."""

from typing import Any

from turnlog.errors import UsageError
from turnlog.index import service
from turnlog.index.reports.failures import FailedCall, FailureQuery, RecordedCall
from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.citations import brief, cite, local_time
from turnlog.mcp_server.visible_sessions import History, short_id
from turnlog.render.tool_views import body_of
from turnlog.secrets import cut_whole, mask

COMMAND, MESSAGE = 300, 400
CHANGE_LINES, CHANGE_LINE = 12, 200
"""Lines shown of a change to a file, and characters of each."""


def errors(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Return earlier failures of a similar command or with a similar message, each with its fix."""
    command, message = given.get("command", ""), given.get("message", "")
    if not command.strip() and not message.strip():
        raise UsageError("name a command, a message or both")
    query = FailureQuery(command, message, history.numbers(), given.get("limit", 5))
    found = service.failures(history.stores, query)
    fixed = sum(each.success is not None for each in found)
    asked = brief(f"{command} {message}".strip(), 200)
    head = f"errors like {asked!r} in {history.scope.label}: {len(found)}"
    if not found:
        return ToolAnswer(head, [], "No such failure is recorded. Try `search` with errors=true.")
    # Failures with a fix come first: they answer the question.
    ordered = sorted(found, key=lambda each: each.success is None)
    return ToolAnswer(
        f"{head}, {fixed} of them fixed", [_failure(history, each) for each in ordered]
    )


def _failure(history: History, failure: FailedCall) -> str:
    call = failure.call
    turn = history.turn_of(failure.file, call.line)
    lines = [
        f"{cite(failure.session, call.line, turn, call.at)} failed: {_call(call)}",
        f"  in {short_id(failure.session)} · {brief(failure.title, 100) or 'untitled'}",
        f"  error: {brief(call.error, MESSAGE)}",
    ]
    if failure.success is None:
        return "\n".join([*lines, "  never succeeded afterwards in that session"])
    if failure.between:
        lines.append("  in between:")
        for each in failure.between:
            lines.append(f"    {_mark(failure, each)} {_call(each)}{_failed(each)}")
            lines += [f"      {line}" for line in _change(history, failure, each)]
    success = failure.success
    return "\n".join(
        [
            *lines,
            f"  {_mark(failure, success)} {local_time(success.at)} then worked: {_call(success)}",
        ]
    )


def _mark(failure: FailedCall, call: RecordedCall) -> str:
    return cite(failure.session, call.line, None, None)


def _call(call: RecordedCall) -> str:
    return f"{call.tool} {brief(call.command or call.path, COMMAND)}".rstrip()


def _failed(call: RecordedCall) -> str:
    return f" → failed: {brief(call.error, 120)}" if call.is_error else ""


def _change(history: History, failure: FailedCall, recorded: RecordedCall) -> list[str]:
    """Return the start of the diff of a call that changed a file; nothing for other calls.

    The diff is the fix itself; a command, in contrast, already says what it did.
    """
    if recorded.command or not recorded.path:
        return []
    session = history.open_file(failure.file)
    calls = session.calls if session else ()
    made = [each for each in calls if each.use.line == recorded.line and each.name == recorded.tool]
    if not session or len(made) != 1:
        return []
    style, lines = body_of(made[0].name, session.detail(made[0]), made[0].is_error, has_text=False)
    if style != "diff":
        return []
    # Mask before cutting: a private key is recognized only with all its lines.
    shown = mask("\n".join(lines)).split("\n")
    hidden = len(shown) - CHANGE_LINES
    return [cut_whole(line, CHANGE_LINE) for line in shown[:CHANGE_LINES]] + (
        [f"… {hidden} more lines of this change"] if hidden > 0 else []
    )
