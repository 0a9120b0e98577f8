"""The tools `sessions`, `read` and `context`: lists, overviews, transcripts and context."""

from collections.abc import Iterator, Sequence
from json import dumps
from typing import Any

from turnlog.conversation.prompts import prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.errors import NotFound, UsageError
from turnlog.format.entries import User
from turnlog.format.timestamps import parse_since, parse_until
from turnlog.index import service
from turnlog.index.reports.session_list import MARK_NOTES, ListedSession, ListFilters
from turnlog.mcp_server.answers import ToolAnswer, estimate_tokens
from turnlog.mcp_server.citations import brief, cite, local_time, parse_reference
from turnlog.mcp_server.transcript import rows_around, transcript_rows
from turnlog.mcp_server.visible_sessions import History, short_id
from turnlog.render.rows import ViewOptions
from turnlog.secrets import cut_texts, mask_value
from turnlog.text import exact_money, plural

MOST_FILES = 40
OUTCOME = 1_500
MOST_TURNS = 30
"""Maximum turns in one answer: more than fit, unless most are short."""
LONGEST_MASKED = 4_000
"""Characters of a text to mask when only its start is shown."""
LONGEST_ROW = 1 << 20
"""Maximum characters of an output, spread over several answers."""
CONTEXT_TEXT = 400
"""Maximum characters of a block of the context."""


def list_sessions(history: History, given: dict[str, Any]) -> ToolAnswer:
    """List sessions, or give an overview of one."""
    if name := given.get("session"):
        return overview(history, parse_reference(name).session)
    since, until = given.get("since"), given.get("until")
    filters = ListFilters(
        branch=given.get("branch"),
        model=given.get("model"),
        tool=given.get("tool"),
        file=given.get("file"),
        since=parse_since(since).timestamp() if since else None,
        until=parse_until(until).timestamp() if until else None,
    )
    numbers = history.numbers(filters)
    limit = given.get("limit", 30)
    shown = history.describe(numbers[:limit])
    head = f"sessions in {history.scope.label}: {len(shown)} of {len(numbers)}, newest first"
    blocks = [_listed(session) for session in shown]
    advice = f'For prompts, files and outcome: sessions(session="ID").{_mark_notes(shown)}'
    return ToolAnswer(head, blocks, advice)


def _mark_notes(sessions: Sequence[ListedSession]) -> str:
    """Explain the marks of costs that occur in some sessions."""
    used = {mark for session in sessions for mark in session.marks}
    return "".join(f" {mark} {note}." for mark, note in MARK_NOTES.items() if mark in used)


def _listed(session: ListedSession) -> str:
    figures = f"{plural(session.turns, 'turn')}, {plural(session.errors, 'failed call')}"
    cost = f"{exact_money(session.cost_usd)}{session.marks}"
    branch = f" · branch {session.branch}" if session.branch else ""
    title = brief(session.title, 120) or "untitled"
    title += f" [{brief(session.tag, 40)}]" if session.tag else ""
    when = local_time(session.last_active)
    parts = [short_id(session.id), when, title, figures, f"{cost}{branch}", session.project or "?"]
    return " · ".join(parts)


def overview(history: History, name: str) -> ToolAnswer:
    """Describe a session: figures, prompts, files and how it ended."""
    id_, path = history.find(name)
    numbers = service.match_sessions(history.stores, ListFilters(ids=(id_,))).rows
    listed = history.describe([number for _, number in numbers])
    session = history.open(name)
    calls = service.call_summary(history.stores, path)
    outcome = service.outcome_of_session(history.stores, path)
    head = f"session {id_} in {history.scope.label}"
    blocks = [_figures(each) for each in listed if each.path == str(path)]
    blocks += [_prompt(session, turn) for turn in session.turns]
    if calls.files:
        files = [f"- {file} ({count})" for file, count in list(calls.files.items())[:MOST_FILES]]
        blocks.append("\n".join(["Files (calls):", *files]))
    if calls.tools:
        tools = ", ".join(f"{tool} {count}" for tool, count in calls.tools.items())
        blocks.append(f"Calls: {tools}")
    if outcome:
        where = cite(id_, outcome.line, session.turn_at(outcome.line), outcome.at)
        # The outcome comes before the prompts: it is what most questions are about.
        blocks.insert(1, f"Ended with {where}: {brief(outcome.text, OUTCOME)}")
    advice = f'To read a turn: read(ref="{short_id(id_)}", turn=N).{_mark_notes(listed)}'
    return ToolAnswer(head, blocks, advice)


def _figures(session: ListedSession) -> str:
    models = ", ".join(session.models)
    started = local_time(session.started)
    return (
        f"{_listed(session)}\nStarted {started} · {plural(session.calls, 'call')} ·"
        f" {plural(session.tokens, 'token')} · {plural(session.subagents, 'sub-agent')} · {models}"
    )


def _prompt(session: Session, turn: Turn) -> str:
    entry = session.entry(turn.prompt) if turn.prompt else None
    text = prompt_label(entry) if isinstance(entry, User) else ""
    where = cite(session.id, turn.prompt.line if turn.prompt else None, turn.n, turn.started)
    return f"{where} {brief(text, 200)}"


def read(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Return the transcript around a reference, or of a turn or a range of turns."""
    reference = parse_reference(given["ref"])
    session = history.open(reference.session)
    turns = session.turns
    if not turns:
        raise NotFound(f"{session.id} has no turns")
    first, wanted = _range(session, reference.line, given)
    # The advice names the call that reads the remaining turns.
    last = min(wanted, first + MOST_TURNS - 1)
    options = ViewOptions(
        line=reference.line,
        full=given.get("full", False),
        thinking=given.get("thinking", False),
        longest=LONGEST_ROW,
    )
    rows = list(transcript_rows(session, first, last, options))
    is_around = reference.line is not None and not given.keys() & {"turn", "to_turn"}
    shown = rows_around(rows, reference.line or 0) if is_around else rows
    scope = history.scope.label
    head = f"session {session.id}, {_turns_text(first, last)} of {len(turns)}, {scope}"
    advice = "" if options.full else "Outputs are folded: pass full=true for whole ones."
    if hidden := len(rows) - len(shown):
        advice += f" {plural(hidden, 'row')} after the prompt left out: turn={first} shows them."
    if last < wanted:
        advice += f" Later turns: turn={last + 1}, to_turn={wanted}."
    return ToolAnswer(head, [row.text for row in shown], advice.strip())


def _range(session: Session, line: int | None, given: dict[str, Any]) -> tuple[int, int]:
    """Return the first and last turn to show."""
    count = len(session.turns)
    first, last = given.get("turn"), given.get("to_turn")
    if first is None and line is not None:
        first = session.turn_at(line)
        if first is None:
            hint = f"it has {plural(session.last_line, 'line')} and {plural(count, 'turn')}"
            raise NotFound(
                f"line {line} of {session.id} is in no turn of the active branch: {hint}"
            )
    if first is None:
        return 1, min(last or count, count)
    if not 1 <= first <= count:
        raise NotFound(f"{session.id} has {plural(count, 'turn')}, not {first}")
    last = min(last or first, count)
    if last < first:
        raise UsageError("to_turn comes before turn")
    return first, last


def _turns_text(first: int, last: int) -> str:
    return f"turn {first}" if first == last else f"turns {first}-{last}"


def context(history: History, given: dict[str, Any]) -> ToolAnswer:
    """Return the messages that a client would send on resuming a session."""
    session = history.open(parse_reference(given["session"]).session)
    messages = session.context()
    # Only the starts of texts are shown: masking a context of megabytes would take seconds.
    lines = list(_context_lines(messages, mask_value(cut_texts(messages, LONGEST_MASKED))))
    tokens = sum(count for count, _ in lines)
    whole = plural(len(session.turns), "turn")
    cut = session.late_start()
    head = (
        f"context of {session.id} on resume, {history.scope.label}:"
        f" {plural(len(messages), 'message')}, about {plural(tokens, 'token')}, from {whole}"
    )
    note = f"The client starts at line {cut.line}: a parent is missing." if cut else ""
    return ToolAnswer(head, [text for _, text in lines], note)


def _context_lines(
    messages: list[dict[str, Any]], masked: list[dict[str, Any]]
) -> Iterator[tuple[int, str]]:
    """Yield the size of each block, and its start from the masked messages."""
    for number, (whole, shown) in enumerate(zip(messages, masked, strict=True), 1):
        for block, start in zip(_blocks(whole), _blocks(shown), strict=True):
            # Count the whole block, as the client would send it, although only its start is shown.
            tokens = estimate_tokens(_block_text(block))
            kind = str(start.get("type"))
            name = f" {start.get('name')}" if kind == "tool_use" else ""
            label = f"{number}. {shown['role']} {kind}{name}, ~{tokens} tokens"
            yield tokens, f"{label}: {brief(_block_text(start), CONTEXT_TEXT)}"


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block_text(block: dict[str, Any]) -> str:
    found = block.get("text") or block.get("thinking") or block.get("content") or block.get("input")
    if not found:  # an image, or thinking of which only the signature is recorded
        return "(not text)"
    return found if isinstance(found, str) else dumps(found, ensure_ascii=False)
