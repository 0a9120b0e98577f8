"""Append entries to the session file as they occur.

Each append is one write of whole lines. Entries form one straight chain with increasing timestamps:
every client version reads such a file in the same way, even if a crash truncates it at any byte.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from turnlog.agent.hooks.hook_entries import DEFERRED
from turnlog.agent.session import entry_builders
from turnlog.agent.session.context_messages import ContextMessages
from turnlog.agent.session.entry_builders import EntryDefaults, Moment, PullRequest
from turnlog.agent.session.session_totals import SessionTotals
from turnlog.agent.workspace.repository import branch_of
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.context import INTERRUPTED_CALL, NO_RESPONSE, MissingEnd
from turnlog.edit.plan import encoded
from turnlog.format.blocks import THINKING
from turnlog.format.json_values import Fields, as_object, is_array, is_object, objects_in
from turnlog.format.jsonl import append_lines
from turnlog.format.private_files import create_private_folder, write_private
from turnlog.format.timestamps import TICK, stamp_of
from turnlog.store.paths import title_file
from turnlog.store.symlinks import find_link

INTERACTIVE = "cli"
"""The entrypoint of sessions in which a person types."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Recorder:
    """Writes one session, or one sub-agent."""

    def __init__(
        self,
        path: Path,
        facts: EntryDefaults,
        where: Callable[[], Path],
        session: "Recorder | None" = None,
        is_kept: bool = True,
    ) -> None:
        self.path = path
        self.facts = facts
        self.where = where
        """Returns the current working directory."""
        self.session = session or self
        """The session's recorder, if this one records a sub-agent."""
        self.is_kept = session.is_kept if session else is_kept
        """False if nothing is written: the conversation is in memory only."""
        self.chain: list[Fields] = []
        """Entries since the last compaction."""
        self.context = ContextMessages()
        self.leaf: str | None = None
        """The parent of the next entry."""
        self.last_time = LONG_AGO
        self.missing: MissingEnd | None = None
        """Entries that complete an interrupted session; written with the next prompt."""
        self.prompt_id: str | None = None
        self.next_prompt_id: str | None = None
        """Id of the next prompt, if hooks already know it."""
        self.next_uuid: str | None = None
        """Uuid of the next prompt, if the program that sends it has chosen one."""
        self.on_append: Callable[[Path, Fields], None] = lambda path, entry: None
        """Called with each appended entry of the session and its sub-agents."""
        self.totals = SessionTotals()
        """The session's totals; those of a sub-agent's recorder are not used."""
        self._mode = ""
        self._asked = ""
        self._callers: dict[str, str] = {}
        self._linked: set[str] = set()
        self._before_message: tuple[int, str | None] | None = None
        self._message_id: str | None = None

    @property
    def open_calls(self) -> list[str]:
        """Calls without a result."""
        return list(self._callers)

    @property
    def last_prompt_id(self) -> str | None:
        """Id of the last prompt of the conversation."""
        named = (entry.get("promptId") for entry in reversed(self.chain))
        return next((name for name in named if isinstance(name, str)), None)

    def take_deferred(self) -> Fields | None:
        """Return the call that a hook deferred at the end of the last run, so that it runs now."""
        last = list(takewhile(lambda entry: entry["type"] != "assistant", reversed(self.chain)))
        notes = [entry["attachment"] for entry in last if is_object(entry.get("attachment"))]
        ids = (note.get("toolUseID") for note in notes if note.get("type") == DEFERRED)
        named = {id_ for id_ in ids if isinstance(id_, str)}
        named -= _answered_calls(last)  # already answered by an earlier run
        place = len(self.chain) - len(last)
        for entry in reversed(self.chain[:place] if named else []):
            if entry["type"] == "user":  # the answer with the call begins after it
                break
            for block in objects_in(as_object(entry.get("message")).get("content")):
                if _is_call(block) and block["id"] in named:
                    self._callers.setdefault(block["id"], entry["uuid"])
                    self._leave_open(block["id"])
                    return block
        return None

    def _leave_open(self, call_id: str) -> None:
        """Complete the interrupted session now, except for one call that is about to run."""
        missing, self.missing = self.missing, None
        for call in missing.calls if missing else []:
            if call != call_id:
                self.result(call, ToolOutcome(INTERRUPTED_CALL, is_error=True))

    @property
    def ends_in_result(self) -> bool:
        """True if the last entry is a tool result."""
        message = self.chain[-1].get("message") if self.chain else None
        content = message.get("content") if is_object(message) else None
        return is_array(content) and bool(content) and content[0].get("type") == "tool_result"

    def prompt(self, content: str | list[Fields], mode: str, source: str, uuid: str = "") -> Fields:
        """Record a user prompt."""
        self._complete()
        return self._add(entry_builders.prompt(content, self._begin(), mode, source), uuid)

    def shell(self, texts: list[str], uuid: str = "") -> list[Fields]:
        """Record a shell command of the user and its output, one entry each."""
        self._complete()
        self.prompt_id = str(uuid4())
        own = [entry_builders.plain(text, self.prompt_id) for text in texts]
        return [self._add(each, "" if place else uuid) for place, each in enumerate(own)]

    def notice(self, text: str, mode: str) -> Fields:
        """Record a background notification."""
        self._complete()
        return self._add(entry_builders.notice(text, self._begin(), mode))

    def task(self, content: str | list[Fields]) -> Fields:
        """Record the task of a sub-agent."""
        self.prompt_id = str(uuid4())
        return self._add(entry_builders.plain(content, self.prompt_id))

    def meta(self, content: str | list[Fields]) -> Fields:
        """Record a meta entry: sent to the model, not typed by the user."""
        return self._add(entry_builders.meta(content, self.prompt_id))

    def block(
        self,
        message: Fields,
        block: Fields,
        index: int,
        request_id: str | None,
        about: Fields | None = None,
    ) -> Fields:
        """Record a finished block of an answer; `about` adds fields to the entry."""
        # Remember the state before the message, in case the answer breaks off: see `abandon`.
        if message["id"] != self._message_id:
            self._message_id = message["id"]
            self._before_message = (len(self.chain), self.leaf)
        own = entry_builders.block(message, block, index, request_id)
        entry = self._add(own | (about or {}))
        if block.get("type") == "tool_use":
            self._callers[block["id"]] = entry["uuid"]
        return entry

    def partial(self, message: Fields, text: str, index: int, request_id: str | None) -> Fields:
        """Record the partial text of an interrupted answer."""
        own = entry_builders.block(message, {"type": "text", "text": text}, index, request_id)
        return self._add(own | {"isAbortedMidStream": True})

    def abandon(self) -> None:
        """Drop an incomplete message from the chain; the next entry gets the message's parent.

        Its lines stay in the file as a dead branch, which no client sends to a model. In the chain,
        a call without a result, or thinking alone, would be handled differently by each client
        version.
        """
        if self._before_message is not None:
            length, self.leaf = self._before_message
            del self.chain[length:]
            self._callers = {}
        self._message_id = self._before_message = None

    def settle(self) -> None:
        """Finish the message, after which it can no longer be abandoned.

        A message with only thinking is left out of the chain, as clients up to 2.0.76 would send
        it.
        """
        start = self._before_message
        self._message_id = self._before_message = None
        if start and all(_is_thinking(entry) for entry in self.chain[start[0] :]):
            del self.chain[start[0] :]
            self.leaf = start[1]

    def result(self, call_id: str, outcome: ToolOutcome, **extra: Any) -> Fields:
        """Record the result of a call; `extra` adds fields to the entry."""
        source = self._callers.pop(call_id, None)
        if self.facts.agent_id:  # their files have no `toolUseResult` (observed: 2.1.29 to 2.1.325)
            outcome = replace(outcome, data=None)
        return self._add(entry_builders.result(call_id, outcome, self.prompt_id, source) | extra)

    def interruption(self, text: str) -> Fields:
        """Record an interruption by the user."""
        answers = (each for each in reversed(self.chain) if each["type"] == "assistant")
        last = next(answers, None)
        message_id = last["message"].get("id") if last else None
        return self._add(entry_builders.interruption(text, self.prompt_id, message_id))

    def failure(self, text: str, status: int | None, request_id: str | None) -> Fields:
        """Record an API error in place of an answer; no later entry has this line as its parent.

        Client 1.0.60 would otherwise send the error as the model's own words.
        """
        return self._write(entry_builders.failure(text, str(uuid4()), status, request_id))

    def api_error(self, error: Fields, wait: float, attempt: int, attempts: int) -> Fields:
        """Record a failed request that is retried."""
        return self._add(entry_builders.api_error(error, wait, attempt, attempts))

    def turn_duration(self, seconds: float) -> Fields:
        """Record the duration of a turn."""
        return self._add(entry_builders.turn_duration(seconds, len(self.chain)))

    def progress(self, data: Fields, tool_use_id: str, call_id: str) -> Fields:
        """Record progress of a running call; no entry uses it as a parent."""
        return self._write(entry_builders.progress(data, tool_use_id, call_id))

    def compaction(
        self, summary: str, title: str, trigger: str, about: Fields, kept: list[Fields]
    ) -> list[Fields]:
        """Record a compaction with `about` in its metadata; earlier entries stay in the file.

        `kept` are the entries at the end of the chain that follow the summary from now on.
        """
        tip, anchor = self.leaf, str(uuid4())
        about = about | entry_builders.preserved(kept, anchor)
        if tip:
            self.aside(entry_builders.title(title, tip))
        # The boundary has no parent; it refers to the history only by `logicalParentUuid`.
        self.chain, self.leaf = [], None
        self._callers = {}
        first = self._add(entry_builders.boundary(tip, trigger, about))
        second = self._add(entry_builders.compact_summary(summary), anchor)
        # The lines of the kept entries stay where they are. The next line has the summary as its
        # parent, and readers of the session insert them in between (2.1.325, observed).
        self.chain += kept
        return [first, second]

    def pull_request(self, made: PullRequest) -> None:
        """Link the session to a pull request, which a sub-agent may have created, only once."""
        session = self.session
        if made.url not in session._linked:
            session._linked.add(made.url)
            time = stamp_of(session._now())
            session.aside(entry_builders.pr_link(made, self.facts.session_id, time))

    def queue(self, operation: str, content: str | None = None) -> Fields:
        """Record that a prompt entered or left the queue."""
        time = stamp_of(self._now())
        return self.aside(entry_builders.queue(operation, content, self.facts.session_id, time))

    def tip(self, prompt: str) -> None:
        """Record the leaf of the conversation; an empty prompt repeats the last typed one."""
        self._asked = prompt or self._asked
        if self.leaf:
            self.aside(entry_builders.last_prompt(self._asked, self.leaf, self.facts.session_id))

    def mode(self, mode: str) -> None:
        """Record the permission mode if it has changed since it was last recorded.

        As in the client, only interactive sessions record it.
        """
        if mode == self._mode or self.facts.entrypoint != INTERACTIVE:
            return
        self._mode = mode
        for entry in entry_builders.modes(mode, self.facts.session_id):
            self.aside(entry)

    def cost(self) -> None:
        """Record the session's totals."""
        self.aside(self.totals.line(self.facts.session_id))

    def local_command(self, name: str, arguments: str, printed: str) -> list[Fields]:
        """Record a slash command that ran without the model, and its output."""
        own = entry_builders.local_command(name, arguments, printed)
        return [self._add(each) for each in own]

    def aside(self, entry: Fields) -> Fields:
        """Append an entry outside the conversation unchanged."""
        self._append(entry)
        return entry

    def follow(self, own: Fields) -> Fields:
        """Record an entry of any other type in the conversation."""
        return self._add(own)

    def _add(self, own: Fields, uuid: str = "") -> Fields:
        entry = self._write(own, uuid)
        self.chain.append(entry)
        self.leaf = entry["uuid"]
        return entry

    def _begin(self) -> str:
        """Start a prompt and return its id."""
        self.prompt_id = self.next_prompt_id or str(uuid4())
        self.next_prompt_id = None
        return self.prompt_id

    def _complete(self) -> None:
        """Complete an interrupted session the way clients do when they resume it."""
        missing, self.missing = self.missing, None
        for call in missing.calls if missing else []:
            self.result(call, ToolOutcome(INTERRUPTED_CALL, is_error=True))
        if missing and missing.is_open:
            self._add(entry_builders.synthetic(NO_RESPONSE, str(uuid4())))

    def _write(self, own: Fields, uuid: str = "") -> Fields:
        cwd = self.where()
        # The branch is read for each line, as commands, hooks or the user may switch it in a turn.
        moment = Moment(stamp_of(self._now()), str(cwd), branch_of(cwd))
        entry = entry_builders.chained(own, self.facts, moment, uuid or str(uuid4()), self.leaf)
        self._append(entry)
        return entry

    def _append(self, entry: Fields) -> None:
        if self.is_kept:
            self._append_line(encoded(entry))
        self.session.on_append(self.path, entry)

    def _append_line(self, line: bytes) -> None:
        try:
            append_lines(self.path, [line])
        # The folder is created with the first line, so that a chat without a prompt leaves nothing.
        except FileNotFoundError:
            create_private_folder(self.path.parent)
            append_lines(self.path, [line])

    def take_uuid(self) -> str:
        """Return the uuid of the next prompt."""
        uuid, self.next_uuid = self.next_uuid, None
        return uuid or str(uuid4())

    def _now(self) -> datetime:
        """Return the current time, or one just after the last timestamp if that is later."""
        now = datetime.now(UTC)
        # Timestamps have millisecond precision. Some clients take the latest line for the tip, so
        # no two lines may have the same time.
        now -= timedelta(microseconds=now.microsecond % 1000)
        self.last_time = max(now, self.last_time + TICK) if self.last_time > LONG_AGO else now
        return self.last_time


def _answered_calls(entries: list[Fields]) -> set[object]:
    """Return the ids of the calls whose results are in the entries."""
    messages = (as_object(entry.get("message")) for entry in entries)
    return {
        block.get("tool_use_id") for each in messages for block in objects_in(each.get("content"))
    }


def _is_thinking(entry: Fields) -> bool:
    return all(block.get("type") in THINKING for block in entry["message"]["content"])


def name_session(recorder: Recorder, text: str) -> str:
    """Rename a session, as the client's `/rename` does; return the title on one line."""
    from turnlog.edit.session_title import clean_title

    title = clean_title(text)
    about = {"sessionId": recorder.facts.session_id}
    recorder.aside({"type": "custom-title", "customTitle": title} | about)
    recorder.aside({"type": "agent-name", "agentName": title} | about)
    saved = title_file(recorder.path)
    # A link could lead to any file of the user.
    if recorder.is_kept and not find_link(recorder.path.parent, saved):
        create_private_folder(saved.parent)
        write_private(saved, encoded({"customTitle": title}))
    return title


def _is_call(block: Fields) -> bool:
    """Return whether a block is a well-formed call; a stranger may have written the session."""
    is_named = all(isinstance(block.get(key), str) for key in ("id", "name"))
    return block.get("type") == "tool_use" and is_named and is_object(block.get("input"))
