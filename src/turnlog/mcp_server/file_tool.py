"""The tool `files`: show a file at a point in time, and its history over all sessions."""

from typing import Any

from turnlog.errors import NotFound
from turnlog.format.timestamps import parse_until, seconds_of
from turnlog.index import service
from turnlog.index.reports.session_list import ListFilters
from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.citations import brief, cite, parse_reference
from turnlog.mcp_server.visible_sessions import History
from turnlog.store.paths import expand_user
from turnlog.text import plural
from turnlog.worktree.across_sessions import SessionStep, history_of
from turnlog.worktree.file_steps import TurnPlaces, diff_versions
from turnlog.worktree.moments import parse_moment, state_at
from turnlog.worktree.state_views import state_view, step_view
from turnlog.worktree.worktree import open_worktree

DIFF_LINES = 40
"""Lines of a diff in a history."""
COMMANDS = 'A command may have: search(query="its name", tool="Bash").'
FIRST_DIFF_LINES = 120
"""Lines of the newest diff, which most questions are about."""


def files(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Return a file's content at a point in time, or its changes, the newest first."""
    path, at, session = given["path"], given.get("at"), given.get("session")
    if session:
        return _content(history, parse_reference(session).session, path, at)
    steps = _steps(history, path)
    if at:
        return _at_time(history, steps, path, at)
    changes = [each for each in steps if _is_change(each)]
    head = f"{path} in {history.scope.label}: {plural(len(changes), 'change')}, newest first"
    if not changes:
        return ToolAnswer(head, [], f"No call changed it. {COMMANDS}")
    shown = list(reversed(changes))[: given.get("limit", 20)]
    blocks = [
        _step(each, FIRST_DIFF_LINES if n == 0 else DIFF_LINES) for n, each in enumerate(shown)
    ]
    return ToolAnswer(head, blocks, 'For the whole file: files(path, session="ID", at="TURN").')


def _is_change(each: SessionStep) -> bool:
    """Return whether a step changed the file, or a read shows that it had changed before."""
    step = each.step
    return step.version.is_change or bool(diff_versions(step.before, step.version))


def _steps(history: History, path: str) -> list[SessionStep]:
    """Return the changes of a file in the sessions in scope, the oldest first."""
    given = expand_user(path)
    full = str(given if given.is_absolute() else history.project / given)
    found = service.sessions_touching(history.stores, full, path)
    # The index finds sessions of all projects; only those in scope may be shown.
    allowed = {each.path for each in history.describe(history.numbers(ListFilters(file=path)))}
    # `ListFilters` matches any path with this ending; `found` tells different files apart.
    kept = {
        name: chosen
        for name, sessions in found.items()
        if (chosen := [each for each in sessions if str(each) in allowed])
    }
    return history_of(kept)


def _step(each: SessionStep, most: int) -> str:
    view = step_view(each.step, each.session.id, is_active=each.is_active)
    by = f"{view.tool}{f' of sub-agent {view.agent_id}' if view.agent_id else ''}"
    branch = "" if view.is_active else ", on an abandoned branch"
    where = cite(each.session.id, view.line, view.turn, view.time)
    lines = [f"{where} {by} {view.path} ({view.certainty}{branch})"]
    if view.prompt:
        lines.append(f"  asked: {brief(view.prompt, 240)}")
    if view.is_absent:
        lines.append("  deleted")
    if view.reason:
        lines.append(f"  {view.reason}")
    diff = view.diff[:most]
    if len(view.diff) > most:
        diff.append(f"… {len(view.diff) - most} more lines of this diff")
    return "\n".join([*lines, *(f"  {line}" for line in diff)])


def _at_time(history: History, steps: list[SessionStep], path: str, at: str) -> ToolAnswer:
    """Return the content after the last change before a time, in any session."""
    until = parse_until(at).timestamp()
    before = [each for each in steps if (seconds_of(each.step.version.time) or 0.0) <= until]
    if not before:
        raise NotFound(f"no change of {path} is recorded before {at}")
    version = before[-1].step.version
    # The line number of a sub-agent's change refers to the sub-agent's own file.
    moment = at if version.agent_id else f"line:{version.line}"
    return _content(history, before[-1].session.id, version.path, moment)


def _content(history: History, name: str, path: str, at: str | None) -> ToolAnswer:
    session = history.open(name)
    worktree = open_worktree(session)
    moment = parse_moment(worktree, at)
    state = state_at(worktree, worktree.find(path), moment)
    view = state_view(state, reveal=False)
    turn = TurnPlaces(worktree, moment.leaf).turn_at(state.place) if state.line else None
    where = cite(session.id, state.line or None, turn.n if turn else None, state.time)
    head = f"{path} as of {moment.label} of {session.id}: {view.certainty}"
    lines = [f"{where} {view.path}, last seen by {state.tool or 'nothing'}"]
    if view.is_absent:
        return ToolAnswer(head, [*lines, "The file did not exist."])
    if view.encoding == "base64":
        return ToolAnswer(head, [*lines, f"The file is not text ({view.size} bytes)."])
    if view.content is not None:
        return ToolAnswer(head, [*lines, view.content])
    known = [f"{number}  {text}" for number, text in sorted(view.known.items())]
    unknown = ", ".join(f"{first}-{last or 'end'}" for first, last in state.gaps)
    return ToolAnswer(head, [*lines, f"Unknown lines: {unknown}. {view.reason}", "\n".join(known)])
