"""What the index wants to know of a session's lines, read from where it stopped.

A fact rests on its own line and on what the reading carries along, never on lines to come: so a
file that has grown gives what it would give if it were read anew.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.conversation.calls import Detail
from turnlog.conversation.cost import split_advice
from turnlog.conversation.diffs import diff_of
from turnlog.conversation.messages import larger_usage
from turnlog.conversation.nodes import SYNTHETIC
from turnlog.conversation.prompts import ASKING, LOCAL, PromptKind, prompt_kind, prompt_label
from turnlog.format.blocks import Message, ToolUseBlock, Usage
from turnlog.format.decode import decode_line, decode_sound
from turnlog.format.entries import Assistant, ChainEntry, Entry, User
from turnlog.format.fields import given
from turnlog.format.jsonl import PROBE, Bookmark, Line
from turnlog.format.state import PrLink
from turnlog.format.timestamps import parse_timestamp
from turnlog.format.tools import CHANGING
from turnlog.format.values import is_array, is_object
from turnlog.index.figures import LARGEST, Figures, figures_of, sound_usage
from turnlog.index.texts import Passage, passages_of
from turnlog.index.words import searchable
from turnlog.secrets import cut_whole

HEAD = 300
"""How many characters of a prompt, a command or an error the index keeps."""
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")
"""Pairs, or halves; an escaped backslash is none of them."""


class Carry(Struct):
    """What reading takes along from one part of a file to the next."""

    bookmark: Bookmark = Bookmark()
    lines: int = 0
    loose: str | None = None
    """The key of the message without an id that the last line was of."""
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """The tools of calls that have no result yet, by their ids."""


class Prompt(Struct):
    line: int
    key: str
    kind: str
    at: float | None
    ended: float | None
    branch: str | None
    text: str
    is_copy: bool
    model: str | None = None
    """Of the first answer."""


class Said(Struct):
    """A message, as far as this part tells."""

    line: int
    prompt: int | None
    key: str
    model: str | None
    at: float | None
    branch: str | None
    version: str | None
    is_copy: bool
    is_subagent: bool
    usage: Usage
    figures: Figures = ()
    """Of this part alone; worked out when it has been read."""


class Use(Struct):
    """A call, with what came back for it in the same part."""

    line: int
    prompt: int | None
    key: str
    tool: str
    at: float | None
    branch: str | None
    path: str | None
    command: str | None
    added: int
    removed: int
    model: str | None
    is_copy: bool
    is_subagent: bool
    result_line: int | None = None
    ended: float | None = None
    is_error: bool | None = None
    error: str | None = None


class Answer(NamedTuple):
    """What came back for a call."""

    key: str
    line: int
    at: float | None
    is_error: bool
    error: str | None
    added: int | None
    """Lines that it added: none if it failed, what it asked for if its result does not tell."""
    removed: int | None


class Doc(NamedTuple):
    """A text to search."""

    line: int
    offset: int
    size: int
    kind: str
    tool: str | None
    is_error: bool
    at: float | None
    prompt: int | None
    text: str


class Pull(NamedTuple):
    line: int
    number: int | None
    url: str | None
    repository: str | None


class Commit(NamedTuple):
    line: int
    at: float | None
    branch: str | None
    hash: str


class Facts(Struct):
    """What a part of a file tells. A prompt is named by its rank here; None is the one before."""

    carry: Carry
    prompts: list[Prompt] = field(default_factory=list[Prompt])
    said: dict[str, Said] = field(default_factory=dict[str, Said])
    uses: dict[str, Use] = field(default_factory=dict[str, Use])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    """For calls of earlier parts."""
    docs: list[Doc] = field(default_factory=list[Doc])
    pulls: list[Pull] = field(default_factory=list[Pull])
    commits: list[Commit] = field(default_factory=list[Commit])
    session: str | None = None
    """The session that the first entry names."""
    cwd: str | None = None
    started: float | None = None
    ended: float | None = None
    ended_before: float | None = None
    """The last time of work on the turn that began before this part."""
    model_before: str | None = None
    """The model that first answered in that turn, as far as this part tells."""
    is_last: bool = True
    """Whether the end of the file was reached."""


def read_facts(
    name: str, lines: Iterable[Line], carry: Carry, owner: str | None, limit: int
) -> Facts:
    """Read a part of a file, of so many bytes; `owner` is the session that it lies with, if known.

    What is carried on is a new value: the one that is given may still have to be written.
    """
    carry = replace(carry, pending=dict(carry.pending))
    reader = _Reader(carry, name, owner)
    start = carry.bookmark.offset
    passed: list[Line] = []
    for line in lines:
        if line.offset >= start + limit:
            reader.facts.is_last = False
            break
        reader.read(line)
        if len(line.raw) >= PROBE:
            passed.clear()  # a bookmark behind this one knows nothing of those before it
        passed.append(line)
    for line in passed:
        carry.bookmark = carry.bookmark.past(line)
    reader.set_advice_apart()
    for said in reader.facts.said.values():
        said.figures = figures_of(said.model, said.at, said.usage)
    return reader.facts


class _Reader:
    """Adds up what lines tell."""

    def __init__(self, carry: Carry, name: str, owner: str | None) -> None:
        self.facts = Facts(carry)
        self.name = name
        self.owner = owner

    def read(self, line: Line) -> None:
        carry = self.facts.carry
        carry.lines += 1
        decoded = decode_sound(line) or decode_line(_storable(line))
        for entry in decoded.entries:
            self._read_entry(_Place(carry.lines, line.offset, len(line.raw)), entry)

    def _read_entry(self, place: "_Place", entry: Entry) -> None:
        facts = self.facts
        facts.session = facts.session or given(entry.session_id)
        place.at = _seconds(entry.when)
        if facts.cwd is None and isinstance(entry, ChainEntry):
            facts.cwd = given(entry.cwd)
        if not isinstance(entry, Assistant):
            facts.carry.loose = None
        match entry:
            case User():
                self._read_user(place, entry)
            case Assistant():
                self._read_assistant(place, entry)
            case PrLink():
                facts.pulls.append(_pull(place, entry))
            case _:
                self._add_docs(place, passages_of(entry))
        self._note_time(place)

    def _note_time(self, place: "_Place") -> None:
        facts, at = self.facts, place.at
        if at is None:
            return
        facts.started = min(facts.started or at, at)
        facts.ended = max(facts.ended or at, at)
        if not place.is_work:
            return
        if facts.prompts:
            facts.prompts[-1].ended = max(facts.prompts[-1].ended or at, at)
        else:
            facts.ended_before = max(facts.ended_before or at, at)

    def _read_user(self, place: "_Place", entry: User) -> None:
        kind = prompt_kind(entry)
        place.is_work = kind in WORK
        passages = list(passages_of(entry))
        if kind is PromptKind.TOOL_RESULT:
            passages = [self._read_result(place, entry, each) for each in passages]
        elif kind in ASKING | LOCAL and not given(entry.is_sidechain):
            self._add_prompt(place, entry, kind)
        self._add_docs(place, passages)

    def _add_prompt(self, place: "_Place", entry: User, kind: PromptKind) -> None:
        self.facts.prompts.append(
            Prompt(
                line=place.line,
                key=given(entry.uuid) or f"{self.name}:{place.line}",
                kind=kind.value,
                at=place.at,
                ended=place.at,
                branch=given(entry.git_branch),
                text=cut_whole(prompt_label(entry), HEAD),
                is_copy=self._is_copy(entry),
            )
        )

    def _read_result(self, place: "_Place", entry: User, result: Passage) -> Passage:
        """Take note of what came back for a call; a result comes to know its tool."""
        facts, name, is_error = self.facts, result.call_id, result.is_error
        tool = facts.carry.pending.pop(name, None)
        facts.commits.extend(_commits(place, entry) if tool == "Bash" else ())
        if tool is not None:
            changed = (0, 0) if is_error else _patched(entry) if tool in CHANGING else None
            error = cut_whole(result.text, HEAD) if is_error else None
            where = name, place.line, place.at
            self._add_answer(Answer(*where, is_error, error, *(changed or (None, None))))
        return result._replace(tool=tool)

    def _add_answer(self, answer: Answer) -> None:
        use = self.facts.uses.get(answer.key)
        if use is None:
            self.facts.answers[answer.key] = answer
            return
        use.result_line, use.ended = answer.line, answer.at
        use.is_error, use.error = answer.is_error, answer.error
        use.added = use.added if answer.added is None else answer.added
        use.removed = use.removed if answer.removed is None else answer.removed

    def _read_assistant(self, place: "_Place", entry: Assistant) -> None:
        body = entry.body
        is_error = bool(given(entry.is_api_error_message))
        is_said = body is not None and not is_error and given(body.model) != SYNTHETIC
        place.is_work = is_said or is_error
        if body and is_said:
            self._add_said(place, entry, body)
            self._note_model(given(body.model))
        for block in entry.content:
            if isinstance(block, ToolUseBlock):
                self._add_use(place, entry, block)
        self._add_docs(place, passages_of(entry))

    def _note_model(self, model: str | None) -> None:
        facts = self.facts
        if facts.prompts:
            facts.prompts[-1].model = facts.prompts[-1].model or model
        else:
            facts.model_before = facts.model_before or model

    def _add_said(self, place: "_Place", entry: Assistant, body: Message) -> None:
        facts, name, told = self.facts, given(body.id), given(body.usage)
        key = name or facts.carry.loose or given(entry.uuid) or f"{self.name}:{place.line}"
        facts.carry.loose = None if name else key
        if known := facts.said.get(key):
            if told != known.usage:
                known.usage = larger_usage(known.usage, sound_usage(told))
            return
        facts.said[key] = Said(
            line=place.line,
            prompt=self._prompt,
            key=key,
            model=given(body.model),
            at=place.at,
            branch=given(entry.git_branch),
            version=given(entry.version),
            is_copy=self._is_copy(entry),
            is_subagent=bool(given(entry.is_sidechain)),
            usage=sound_usage(told),
        )

    def set_advice_apart(self) -> None:
        """Make messages of their own of what advisors took: theirs is another model."""
        said = self.facts.said
        for each in list(said.values()):
            each.usage, advice = split_advice(each.usage)
            for rank, (model, usage) in enumerate(advice, 1):
                key = f"{each.key}/{rank}"
                said[key] = replace(each, key=key, model=model, usage=usage)

    def _add_use(self, place: "_Place", entry: Assistant, block: ToolUseBlock) -> None:
        key, tool = given(block.id) or f"{self.name}:{place.line}", given(block.name) or ""
        held = given(block.input)
        fields: dict[str, Any] = held if is_object(held) else {}
        self.facts.carry.pending[key] = tool
        if key in self.facts.uses:
            return
        added, removed = _asked(fields) if tool in CHANGING else (0, 0)
        path = fields.get("file_path") or fields.get("notebook_path")
        command = fields.get("command")
        self.facts.uses[key] = Use(
            line=place.line,
            prompt=self._prompt,
            key=key,
            tool=tool,
            at=place.at,
            branch=given(entry.git_branch),
            path=path if isinstance(path, str) else None,
            command=cut_whole(command, HEAD) if isinstance(command, str) else None,
            added=added,
            removed=removed,
            model=given(entry.body.model) if entry.body else None,
            is_copy=self._is_copy(entry),
            is_subagent=bool(given(entry.is_sidechain)),
        )

    def _add_docs(self, place: "_Place", passages: Iterable[Passage]) -> None:
        for kind, text, tool, _, is_error in passages:
            if text and not text.isspace():
                where = (*place.where, kind, tool, is_error, place.at, self._prompt)
                self.facts.docs.append(Doc(*where, searchable(text)))

    @property
    def _prompt(self) -> int | None:
        return len(self.facts.prompts) - 1 if self.facts.prompts else None

    def _is_copy(self, entry: ChainEntry) -> bool:
        """Whether an entry was first written in another session."""
        told = given(entry.session_id)
        return given(entry.forked_from) is not None or bool(
            self.owner and told and told != self.owner
        )


class _Place(Struct):
    line: int
    offset: int
    size: int
    at: float | None = None
    is_work: bool = False
    """Whether the turn was going on at this time."""

    @property
    def where(self) -> tuple[int, int, int]:
        return self.line, self.offset, self.size


def _storable(line: Line) -> Line:
    """A line without halves of surrogate pairs: they have no UTF-8, and so no place in SQLite."""
    raw = _SURROGATES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line.raw)
    return replace(line, raw=raw)


def _seconds(when: str | None) -> float | None:
    moment = parse_timestamp(when)
    return moment.timestamp() if moment else None


def _pull(place: _Place, entry: PrLink) -> Pull:
    number = given(entry.pr_number)
    is_sound = number is not None and 0 <= number <= LARGEST
    where = given(entry.pr_url), given(entry.pr_repository)
    return Pull(place.line, number if is_sound else None, *where)


def _commits(place: _Place, entry: User) -> Iterator[Commit]:
    """The commit that a command made, where its result tells; most are not even decoded."""
    raw = given(entry.raw_tool_use_result)
    held = entry.tool_use_result if raw and b'"gitOperation"' in bytes(raw) else None
    done = held.get("gitOperation") if is_object(held) else None
    made = done.get("commit") if is_object(done) else None
    name = made.get("sha") if is_object(made) else None
    if isinstance(name, str) and name.isascii():
        yield Commit(place.line, place.at, given(entry.git_branch), name)


def _patched(entry: User) -> tuple[int, int] | None:
    """The lines that a result says were added and removed."""
    held = entry.tool_use_result
    patch = held.get("structuredPatch") if is_object(held) else None
    return _counted(diff_of(Detail(None, structured=held))) if is_array(patch) and patch else None


def _counted(diff: list[str]) -> tuple[int, int]:
    added = sum(line.startswith("+") for line in diff)
    return added, sum(line.startswith("-") for line in diff)


def _asked(fields: dict[str, Any]) -> tuple[int, int]:
    """The lines that a call wants to add and remove: what counts if its result does not tell."""
    edits = fields.get("edits") if is_array(fields.get("edits")) else [fields]
    pairs = [
        (_lines(e, "old_string"), _lines(e, "new_string", "content", "new_source"))
        for e in edits or []
        if is_object(e)
    ]
    return sum(len(new) for _, new in pairs), sum(len(old) for old, _ in pairs)


def _lines(edit: dict[str, Any], *names: str) -> list[str]:
    held = next((edit[name] for name in names if isinstance(edit.get(name), str)), "")
    return held.splitlines()


WORK = frozenset(
    {
        PromptKind.TOOL_RESULT,
        PromptKind.COMMAND_OUTPUT,
        PromptKind.BASH_OUTPUT,
        PromptKind.INTERRUPTION,
    }
)
"""User lines that belong to a turn that is going on; others may come before the next one."""
