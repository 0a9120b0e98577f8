"""Read the figures of a session file: prompts, messages, calls, pull requests and commits.

A fact depends only on its own line and on the carried state, never on later lines. Reading a file
in parts as it grows therefore produces the same facts as reading it at once.
"""

import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnlog.conversation.cost import split_advice
from turnlog.conversation.messages import larger_usage
from turnlog.conversation.nodes import LONGEST, SYNTHETIC
from turnlog.conversation.prompts import (
    ASKING,
    LOCAL,
    WORK,
    PromptKind,
    is_rejection,
    prompt_kind,
    prompt_label,
)
from turnlog.format.blocks import ToolResultBlock, ToolUseBlock, Usage
from turnlog.format.decode import decode_line, decode_sound
from turnlog.format.entries import (
    AgentProgress,
    Assistant,
    ChainEntry,
    Entry,
    ForkedFrom,
    Progress,
    User,
)
from turnlog.format.fields import given
from turnlog.format.fit import fit
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line, Trail
from turnlog.format.state import PrLink
from turnlog.format.system import CompactBoundary, TurnDuration
from turnlog.format.timestamps import seconds_of
from turnlog.format.tools import CHANGING
from turnlog.index.ingest.facts import (
    HEAD,
    LARGEST,
    CallFact,
    Carry,
    Commit,
    Compaction,
    FileFacts,
    MessageFact,
    PromptFact,
    Pull,
    ResultFact,
    figures_of,
    patched_lines,
    requested_lines,
)
from turnlog.index.ingest.partial_decode import (
    CHAINED,
    Glance,
    GlanceBlock,
    GlanceBody,
    ResultRecord,
    answer_glance,
    call_glance,
    glance,
    read_record,
)
from turnlog.secrets import before_cut, cut_whole

NO_USAGE = Usage()
NO_FIELDS: dict[str, Any] = {}
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")
"""Escaped backslashes, surrogate pairs and, as group 1, unpaired surrogates."""


def read_facts(
    name: str,
    raws: Iterable[bytes],
    carry: Carry,
    owner: str | None,
    limit: int,
    look: Callable[[bytes], Glance | None] = glance,
) -> FileFacts:
    """Read a part of a file, at most `limit` bytes plus one line, without changing `carry`.

    `raws` are the lines from the carried offset on.
    `owner` is the session that the file belongs to, if known; `look` is the fast decoder.
    """
    # A copy, so that the same part can be read again from the same state.
    carry = replace(carry, pending=dict(carry.pending))
    reader = _Reader(carry, name, owner)
    end = carry.bookmark.offset + limit
    trail = Trail(carry.bookmark)
    for raw in raws:
        # Whole lines only, and at least one, however long: the next part starts at a line again.
        if trail.offset >= end:
            reader.facts.is_last = False
            break
        carry.lines += 1
        view = look(raw)
        if view is not None:
            reader.read_glance(view)
        else:
            reader.read_whole(Line(raw, trail.offset, carry.lines))
        trail.add(raw)
    carry.bookmark = trail.bookmark
    reader.count_requested_lines()
    reader.set_advice_apart()
    for said in reader.facts.said.values():
        said.figures = figures_of(said.model, said.at, said.usage)
    return reader.facts


class _Reader:
    """Collects the figures of lines."""

    def __init__(self, carry: Carry, name: str, owner: str | None) -> None:
        self.facts = FileFacts(carry)
        self.name = name
        self.owner = owner
        self.prompt: int | None = None
        """Position of the last prompt."""
        self.requests: dict[str, dict[str, Any]] = {}
        """Inputs of calls that change files, until their results say what they changed."""

    def read_whole(self, line: Line) -> None:
        """Read a line by decoding all of it."""
        if line.is_blank:
            return
        # SQLite stores no lone surrogates, so the slow path replaces them.
        decoded = decode_sound(line) or decode_line(storable(line))
        self.facts.malformed += len(decoded.entries) != 1
        for entry in decoded.entries:
            self._read_entry(_LinePlace(self.facts.carry.lines), entry)

    def read_glance(self, view: Glance) -> None:
        """Read a line from its glance; nearly every line takes this path, so it makes few calls."""
        facts, kind = self.facts, view.type
        if facts.session is None:
            facts.session = view.session_id or None
        if view.slug:
            facts.slug = view.slug
        if facts.cwd is None and CHAINED.get(kind or "", True):
            facts.cwd = view.cwd
        facts.carry.is_clone |= bool(view.forked_from and _is_cloned(view.uuid, view.forked_from))
        place = _LinePlace(facts.carry.lines, seconds_of(view.timestamp or view.when))
        if kind == "assistant" and view.message:
            self._read_answer(place, view)
            for block in view.message.content or ():
                if not isinstance(block, str) and block.type == "tool_use":
                    self._add_use(place, view, block)
        else:
            # Answers without an id belong together only if no other line comes between them.
            facts.carry.loose = None
            if kind == "user":
                place.is_work = True
                self._read_results(place, view)
            elif answer := view.repeated:
                answer.git_branch, answer.version = view.git_branch, view.version
                self._read_repeated(place, answer)
            elif view.subtype == "turn_duration" and kind == "system":
                self._add_working(view.duration_ms)
        self._note_time(place)

    def _read_results(self, place: "_LinePlace", view: Glance) -> None:
        content = view.message.content if view.message else None
        told = view.tool_use_result
        record = told if isinstance(told, ResultRecord) else None
        for block in content or ():
            if not isinstance(block, str):
                result = Result(block.tool_use_id or "")
                self._read_result(place, result, view.git_branch, record)

    def _read_entry(self, place: "_LinePlace", entry: Entry) -> None:
        facts = self.facts
        facts.session = facts.session or given(entry.session_id) or None
        place.at = seconds_of(entry.when)
        if isinstance(entry, ChainEntry):
            facts.slug = given(entry.slug) or facts.slug
            # A session's project is the directory in which it began; later lines may name others.
            facts.cwd = given(entry.cwd) if facts.cwd is None else facts.cwd
            origin = given(entry.forked_from)
            facts.carry.is_clone |= bool(origin and _is_cloned(given(entry.uuid), origin))
        if not isinstance(entry, Assistant):
            facts.carry.loose = None
        match entry:
            case User():
                self._read_user(place, entry)
            case Assistant():
                self._read_assistant(place, entry)
            case Progress():
                self._read_progress(place, entry)
            case PrLink():
                facts.pulls.append(_pull(place, entry))
            case TurnDuration():
                self._add_working(given(entry.duration_ms))
            case CompactBoundary():
                facts.compactions.append(_compaction(place, entry))
            case _:
                pass
        self._note_time(place)

    def _read_assistant(self, place: "_LinePlace", entry: Assistant) -> None:
        view = answer_glance(entry)
        self._read_answer(place, view)
        for block in entry.content:
            if isinstance(block, ToolUseBlock):
                self._add_use(place, view, call_glance(block))

    def _note_time(self, place: "_LinePlace") -> None:
        facts, at = self.facts, place.at
        if at is None:
            return
        # Compare times instead of using the first and last line: clients write some lines late.
        if facts.started is None or at < facts.started:
            facts.started = at
        if facts.ended is None or at > facts.ended:
            facts.ended = at
        if not place.is_work:
            return
        if facts.prompts:
            last = facts.prompts[-1]
            if last.ended is None or at > last.ended:
                last.ended = at
        elif facts.ended_before is None or at > facts.ended_before:
            facts.ended_before = at

    def _add_working(self, lasted: float | None) -> None:
        """Add the client's measured working time, in milliseconds, to the turn that ends here."""
        if not lasted or not 0 < lasted < LONGEST:
            return
        facts = self.facts
        if facts.prompts:
            facts.prompts[-1].working = (facts.prompts[-1].working or 0) + lasted / 1000
        else:
            facts.working_before = (facts.working_before or 0) + lasted / 1000

    def _read_user(self, place: "_LinePlace", entry: User) -> None:
        kind = prompt_kind(entry)
        place.is_work = kind in WORK
        if kind is PromptKind.TOOL_RESULT:
            record = read_record(given(entry.raw_tool_use_result))
            for block in entry.content:
                if isinstance(block, ToolResultBlock):
                    result = _result(entry, block)
                    self._read_result(place, result, given(entry.git_branch), record)
        elif begins_turn(entry, kind):
            self._add_prompt(place, entry, kind)

    def _add_prompt(self, place: "_LinePlace", entry: User, kind: PromptKind) -> None:
        text = prompt_label(entry)
        self.prompt = len(self.facts.prompts)
        self.facts.prompts.append(
            PromptFact(
                line=place.line,
                key=self._prompt_key(place, entry, text),
                kind=kind.value,
                at=place.at,
                ended=place.at,
                branch=given(entry.git_branch),
                text=before_cut(text, HEAD),
                is_copy=self._is_copy(given(entry.session_id), given(entry.forked_from)),
                permission_mode=given(entry.permission_mode),
            )
        )

    def _prompt_key(self, place: "_LinePlace", entry: User, text: str) -> str:
        """Return a key that copies share, also after an edit changed texts or directories."""
        at = seconds_of(given(entry.recorded_at)) or place.at
        uuid = _first_uuid(given(entry.uuid), given(entry.forked_from))
        if at is None:
            return uuid or f"{self.name}:{place.line}"
        # The checksum tells prompts of the same millisecond apart: two agents may be started at
        # once.
        content = (uuid or f"{given(entry.cwd)} {text}").encode(errors="replace")
        return f"{at:.3f} {zlib.crc32(content):08x}"

    def _read_result(
        self, place: "_LinePlace", result: "Result", branch: str | None, record: ResultRecord | None
    ) -> None:
        """Record the result of a call."""
        facts, is_error = self.facts, result.is_error
        # Popped, because only the first result of a call counts.
        key = result.call_id
        tool = facts.carry.pending.pop(key, None)
        if tool is None:
            return
        if tool == "Bash" and record and (name := record.commit):
            facts.commits.append(Commit(place.line, place.at, branch, name))
        patch = record.structured_patch if record and tool in CHANGING else None
        changed = (0, 0) if is_error else patched_lines(patch)
        use = facts.uses.get(key)
        if use is None:
            # The call is in an earlier part of the file: the writer updates its row.
            error, lines = result.error, changed or (None, None)
            facts.answers[key] = ResultFact(
                key, place.line, place.at, is_error, error, *lines, result.is_rejected
            )
            return
        use.result_line, use.ended = place.line, place.at
        use.is_error, use.error, use.is_rejected = is_error, result.error, result.is_rejected
        if changed:
            use.added, use.removed = changed
            self.requests.pop(key, None)

    def count_requested_lines(self) -> None:
        """Count the changed lines of calls without a patch from the inputs of the calls."""
        for key, fields in self.requests.items():
            use = self.facts.uses[key]
            use.added, use.removed = requested_lines(fields)

    def _read_answer(self, place: "_LinePlace", view: Glance) -> None:
        body = view.message
        is_error = bool(view.is_api_error_message)
        is_said = body is not None and not is_error and body.model != SYNTHETIC
        place.is_work = is_said or is_error
        if body and is_said:
            self._add_said(place, view, body)
            self._note_model(body.model)

    def _note_model(self, model: str | None) -> None:
        facts = self.facts
        if facts.prompts:
            facts.prompts[-1].model = facts.prompts[-1].model or model
        else:
            facts.model_before = facts.model_before or model

    def _add_said(self, place: "_LinePlace", view: Glance, body: GlanceBody) -> None:
        facts, name, usage = self.facts, body.id, body.usage
        # The id of the API is the same in all copies and lines of a message, so it counts once.
        key = name or facts.carry.loose or _first_uuid(view.uuid, view.forked_from)
        key = key or f"{self.name}:{place.line}"
        facts.carry.loose = None if name else key
        # A message is written as one line per block, each with its id and usage.
        if known := facts.said.get(key):
            known.request = known.request or view.request_id
            known.stop_reason = body.stop_reason or known.stop_reason
            if usage != known.usage:
                # Each line of a streamed answer repeats the usage so far: the largest is final.
                known.usage = larger_usage(known.usage, usage or NO_USAGE)
            return
        facts.said[key] = MessageFact(
            line=place.line,
            prompt=self.prompt,
            key=key,
            request=view.request_id,
            model=body.model,
            at=place.at,
            branch=view.git_branch,
            version=view.version,
            is_copy=self._is_copy(view.session_id, view.forked_from),
            is_subagent=bool(view.is_sidechain),
            usage=usage or NO_USAGE,
            stop_reason=body.stop_reason,
        )

    def _read_progress(self, place: "_LinePlace", entry: Progress) -> None:
        data = given(entry.data)
        message = given(data.message) if isinstance(data, AgentProgress) else None
        if not message or message.get("type") != "assistant":
            return
        inner = fit(Assistant, message, [])
        answer = answer_glance(inner)
        answer.timestamp = inner.when
        answer.git_branch, answer.version = given(entry.git_branch), given(entry.version)
        self._read_repeated(place, answer)

    def _read_repeated(self, place: "_LinePlace", view: Glance) -> None:
        """Add the message of a sub-agent that its session's file repeats as progress.

        Clients 2.1.12 to 2.1.81 wrote such lines. If the sub-agent's own file has the message too,
        the message there counts.
        """
        body = view.message
        if body is None or not body.id:
            return
        is_error = view.is_api_error_message or body.model == SYNTHETIC
        if is_error or body.id in self.facts.said:
            self._enlarge(body)
            return
        self._add_said(_LinePlace(place.line, seconds_of(view.when) or place.at), view, body)
        added = self.facts.said[body.id]
        added.is_copy, added.is_subagent = True, True

    def _enlarge(self, body: GlanceBody) -> None:
        known = self.facts.said.get(body.id or "")
        if known:
            known.usage = larger_usage(known.usage, body.usage or NO_USAGE)

    def set_advice_apart(self) -> None:
        """Split the usage of advisors, which are other models, into messages of their own."""
        said = self.facts.said
        for message in list(said.values()):
            if given(message.usage.iterations) is None:
                continue
            message.usage, advice = split_advice(message.usage)
            for rank, (model, usage) in enumerate(advice, 1):
                key = f"{message.key}/{rank}"
                said[key] = replace(message, key=key, model=model, usage=usage)

    def _add_use(self, place: "_LinePlace", view: Glance, block: GlanceBlock) -> None:
        key, tool = block.id or f"{self.name}:{place.line}", block.name or ""
        fields = block.input if is_object(block.input) else NO_FIELDS
        self.facts.carry.pending[key] = tool
        # A resumed or forked session repeats earlier calls; the first line counts.
        if key in self.facts.uses:
            return
        if tool in CHANGING:
            self.requests[key] = fields
        path = fields.get("file_path") or fields.get("notebook_path")
        command = fields.get("command")
        self.facts.uses[key] = CallFact(
            line=place.line,
            prompt=self.prompt,
            key=key,
            tool=tool,
            at=place.at,
            branch=view.git_branch,
            path=path if isinstance(path, str) else None,
            command=before_cut(command, HEAD) if isinstance(command, str) else None,
            model=view.message.model if view.message else None,
            is_copy=self._is_copy(view.session_id, view.forked_from),
            is_subagent=bool(view.is_sidechain),
        )

    def _is_copy(self, session: str | None, forked_from: ForkedFrom | None) -> bool:
        """Return whether an entry was first written in another session."""
        # Only the first entry of a clone names its origin. A straightened clone has other times,
        # and would change reports if it were the copy that counts.
        is_marked = forked_from is not None or self.facts.carry.is_clone
        return is_marked or bool(self.owner and session and session != self.owner)


class Result(Struct):
    """The result of a call, with the start of its text if it failed."""

    call_id: str
    is_error: bool = False
    error: str | None = None
    is_rejected: bool = False


def _result(entry: User, block: ToolResultBlock) -> Result:
    call_id, is_error = given(block.tool_use_id) or "", bool(given(block.is_error))
    error = cut_whole(block.text, HEAD) if is_error else None
    return Result(call_id, is_error, error, is_rejection(entry, block))


def begins_turn(entry: User, kind: PromptKind) -> bool:
    """Return whether a line begins a turn; prompts of sub-agents do not."""
    return kind in BEGINNING and not given(entry.is_sidechain)


class _LinePlace(Struct):
    """The position and time of the line being read."""

    line: int
    at: float | None = None
    is_work: bool = False
    """True if the line counts as activity in its turn."""


def storable(line: Line) -> Line:
    """Replace unpaired surrogates in a line: SQLite stores UTF-8, which cannot encode them."""
    raw = _SURROGATES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line.raw)
    return replace(line, raw=raw)


def _pull(place: _LinePlace, entry: PrLink) -> Pull:
    number = given(entry.pr_number)
    is_sound = number is not None and 0 <= number <= LARGEST
    where = given(entry.pr_url), given(entry.pr_repository)
    return Pull(place.line, number if is_sound else None, *where)


def _compaction(place: _LinePlace, entry: CompactBoundary) -> Compaction:
    metadata = given(entry.compact_metadata)
    tokens = given(metadata.pre_tokens) if metadata else None
    # SQLite stores integers of 64 bits, but a line may hold any number of digits.
    is_sound = tokens is not None and 0 <= tokens <= LARGEST
    trigger = given(metadata.trigger) if metadata else None
    return Compaction(place.line, place.at, trigger, tokens if is_sound else None)


BEGINNING = ASKING | LOCAL


def _first_uuid(uuid: str | None, origin: ForkedFrom | None) -> str | None:
    """Return the uuid that an entry had before it was cloned."""
    return (given(origin.message_uuid) if origin else None) or uuid


def _is_cloned(uuid: str | None, origin: ForkedFrom) -> bool:
    """Return whether an entry was cloned: clones have new uuids, forks keep the original ones."""
    return given(origin.message_uuid) not in (None, uuid)
