"""Hypothesis strategies: whole sessions, as clients write them and as accidents leave them.

A session is drawn step by step, each step a few lines that follow on the tip: turns with parallel
calls, sub-agents, compactions, rewinds, notes of every kind. Damage comes last, line by line.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support.build import (
    SESSION,
    Fields,
    assistant,
    attachment,
    call,
    compaction,
    image,
    line,
    moment,
    nth,
    result,
    result_block,
    session,
    system,
    text,
    thinking,
    user,
)
from support.strategies import spell
from turnlog.format.decode import split_values
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line

LONG = "wörd " * 99
ZEROS = "00000000-0000-0000-0000-000000000000"
MENTIONED = b"/pictured.png"
GONE = "deadbeef-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Files:
    """A session file and what lies beside it, by its path as seen from the session's folder."""

    content: bytes
    beside: dict[str, bytes] = field(default_factory=dict[str, bytes])
    is_damaged: bool = False
    is_wild: bool = False
    """Damaged as no accident would."""

    def __repr__(self) -> str:
        """Short enough to be read where a law fails."""
        lines = self.content.splitlines(keepends=True)
        return "\n".join(["", *(f"  {_digest(raw)}" for raw in lines), *self.beside])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def write(self, folder: Path) -> Path:
        """Write the files to a project's folder; return the path of the session."""
        path = folder / f"{SESSION}.jsonl"
        for name, content in {path.name: self.content, **self.beside}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return path


def _digest(raw: bytes) -> str:
    """A line without what all lines have in common."""
    pieces, rest = split_values(Line(raw, 0, 0))
    values = [piece.value for piece in pieces]
    common = {"userType", "cwd", "version", "gitBranch", "sessionId", "requestId"}
    shown: list[str] = []
    for value in values:
        kept = value
        if is_object(value):
            kept = {key: held for key, held in value.items() if key not in common}
            kept["message"] = _only_said(kept.get("message"))
        shown.append(json.dumps(kept).replace("00000000-0000-4000-8000-", ""))
    told = " & ".join([*shown, repr(rest)] if rest or not values else shown)
    return told.replace(json.dumps(LONG)[1:-1], "LONG").replace("A" * 400, "AAA")


def _only_said(message: Any) -> Any:
    return [message.get("id"), message.get("content")] if is_object(message) else message


@dataclass
class Growing:
    """A session in the making: its lines so far, and the entry that the next one follows on."""

    lines: list[bytes] = field(default_factory=list[bytes])
    beside: dict[str, bytes] = field(default_factory=dict[str, bytes])
    tip: str | None = None
    chain: list[str] = field(default_factory=list[str])
    """The uuids since the last compaction, of all branches."""
    ends: list[str] = field(default_factory=list[str])
    """Those of them that a step ended with: the client goes back to no others."""
    count: int = 0
    """Of messages, calls and sub-agents: each has a name of its own."""

    def add(self, make: Callable[..., bytes], *values: Any, **fields: Any) -> str:
        """Add an entry that follows on the tip, and becomes it."""
        self.lines.append(make(*values, **{"parent": self.tip} | fields))
        self.tip = nth(len(self.lines))
        self.chain.append(self.tip)
        return self.tip

    def note(self, kind: str, **fields: Any) -> None:
        """Add an entry that is no part of the tree."""
        self.lines.append(line(kind, **fields))

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


Step = Callable[[DrawFn, Growing], None]

words = st.sampled_from(["a", "bé", "two words", "  \n", "x\ny", "“q”", '{"uuid":null}', "\\"])
said = words.filter(str.strip)
signatures = st.sampled_from(["c2lnbmVk", "c2lnbmVk", "s" * 300])
pictures = st.sampled_from([image(), image("A" * 400)])
prompts: SearchStrategy[Any] = st.one_of(
    said,
    st.lists(said.map(text), min_size=1, max_size=2),
    st.tuples(said.map(text), pictures).map(list),
    pictures.map(lambda each: [each]),
)
prompt_fields = st.sampled_from(
    [
        *[{}] * 6,
        {"is_meta": True},
        {"prompt_source": "queued"},
        {"slug": "brave-fox"},
    ]
)
thoughts: SearchStrategy[Fields] = st.one_of(
    st.builds(thinking, words, signatures),
    st.just({"type": "redacted_thinking", "data": "cmVk"}),
)
answers = words.map(text)
unknown_blocks: SearchStrategy[Fields] = st.just(
    {"type": "server_tool_use", "id": "srv_1", "name": "web", "input": {}}
)
contents: SearchStrategy[Any] = st.one_of(
    words,
    st.just(LONG),
    st.lists(words.map(text) | pictures | st.just(text(LONG)), max_size=2),
)
own_results: SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"stdout": words | st.just(LONG), "interrupted": st.just(value=False)}),
    st.sampled_from(["Error: no", {"type": "image", "file": {"base64": "aGk="}}, [text(LONG)]]),
)
times = st.none() | st.none() | st.none() | st.integers(0, 60).map(moment)


def turn(draw: DrawFn, grown: Growing) -> None:
    """A prompt, and what the model does for it."""
    grown.add(user, draw(prompts), **_timed(draw), **draw(prompt_fields))
    for _ in range(draw(st.integers(0, 3))):
        answer(draw, grown)


def answer(draw: DrawFn, grown: Growing) -> None:
    """A message of the model, and the results of its calls."""
    name = grown.name("msg_")
    told = draw(st.lists(thoughts | answers | answers | unknown_blocks, max_size=2))
    calls = [_call(draw, grown) for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3])))]
    blocks = [*told, *calls] or [text("fine")]
    style = draw(
        st.sampled_from(["own", "own", "chained", "interleaved", "one line", "one result"])
    )
    if style == "one line":
        grown.add(assistant, *blocks, message_id=name)
    held: dict[str, str | None] = {}
    for block in blocks if style != "one line" else []:
        held[block.get("id", "")] = grown.add(assistant, block, message_id=name, **_timed(draw))
        if style == "interleaved" and block in calls:
            _answer_call(draw, grown, block, grown.tip)
    if style == "one result" and calls:
        results = [result_block(each["id"], draw(contents)) for each in calls]
        grown.add(user, results + draw(st.lists(said.map(text), max_size=1)))
    elif style != "interleaved":
        for each in draw(st.permutations(calls)):
            source = held[each["id"]] if style == "own" else grown.tip
            _answer_call(draw, grown, each, source)


def _call(draw: DrawFn, grown: Growing) -> Fields:
    name = draw(st.sampled_from(["Bash", "Read", "Bash", "Read", "Task"]))
    asked = {"prompt": grown.name("look into ")} if name == "Task" else {"command": draw(words)}
    return call(name, asked, grown.name("toolu_"))


def _answer_call(draw: DrawFn, grown: Growing, asked: Fields, parent: str | None) -> None:
    fields: Fields = {"source_tool_assistant_uuid": parent} if draw(st.booleans()) else {}
    if asked["name"] == "Task" and (agent := draw(st.sampled_from([*AGENTS, None]))):
        fields["tool_use_result"] = {"agentId": AGENTS[agent](draw, grown, asked), "prompt": "x"}
    elif own := draw(st.none() | own_results):
        fields["tool_use_result"] = own
    content = draw(contents)
    grown.add(result, asked["id"], content, parent=parent, **fields, **_timed(draw))


def _agent_lines(draw: DrawFn, grown: Growing, asked: Fields) -> list[bytes]:
    name = grown.name("toolu_")
    lines = [user(asked["input"]["prompt"]), assistant(call("Read", {}, name), message_id=name)]
    lines += [result(name, draw(contents)), assistant(text("found"), message_id=f"{name}_")]
    return lines[draw(st.integers(0, 1)) :]


def _agent_beneath(draw: DrawFn, grown: Growing, asked: Fields) -> str:
    """A sub-agent in the session's own folder (2.1.29 on)."""
    name = f"a{grown.count:016x}"
    content = session(*_agent_lines(draw, grown, asked), agent_id=name)
    grown.beside[f"{SESSION}/subagents/agent-{name}.jsonl"] = _renumbered(content, grown.count)
    if draw(st.booleans()):
        meta = json.dumps({"agentType": "Explore", "toolUseId": asked["id"]}).encode()
        grown.beside[f"{SESSION}/subagents/agent-{name}.meta.json"] = meta
    return name


def _agent_among_sessions(draw: DrawFn, grown: Growing, asked: Fields) -> str:
    """A sub-agent whose file lies among the sessions (2.0.x)."""
    name = f"{grown.count:08x}"
    content = session(*_agent_lines(draw, grown, asked), agent_id=name)
    grown.beside[f"agent-{name}.jsonl"] = _renumbered(content, grown.count)
    return name


def _agent_inside(draw: DrawFn, grown: Growing, asked: Fields) -> str:
    """A sub-agent as a sidechain of the session's file (before 2.0)."""
    tip, chain = grown.tip, list(grown.chain)
    grown.tip = None
    for each in _agent_lines(draw, grown, asked):
        fields = json.loads(each)
        grown.add(line, fields.pop("type"), **fields, is_sidechain=True)
    grown.tip, grown.chain = tip, chain
    return f"inside-{grown.count}"


AGENTS: dict[str, Callable[[DrawFn, Growing, Fields], str]] = {
    "beneath": _agent_beneath,
    "among": _agent_among_sessions,
    "inside": _agent_inside,
}


def _renumbered(content: bytes, number: int) -> bytes:
    """Lines with uuids of their own, as every file has."""
    return content.replace(b"00000000-0000-4000", f"00000000-{number:04x}-4000".encode())


def _timed(draw: DrawFn) -> Fields:
    """Entries need not be in the order of their times."""
    time = draw(times)
    return {"timestamp": time} if time else {}


def aside(draw: DrawFn, grown: Growing) -> None:
    """An entry of the tree that nobody said."""
    make, values, fields = draw(st.sampled_from(ASIDES))
    grown.add(make, *values, **fields)


ASIDES: list[tuple[Callable[..., bytes], list[Any], Fields]] = [
    (attachment, ["hook_success", {"content": "fine"}], {}),
    (attachment, ["new_kind"], {}),
    (attachment, ["file", {"filename": "/a", "content": {"type": "text"}}], {}),
    (system, ["turn_duration"], {"duration_ms": 12}),
    (system, ["local_command"], {"content": "<command-name>/cost</command-name>"}),
    (system, ["new_subtype"], {}),
    (user, ["<task-notification>done"], {"origin": {"kind": "task-notification"}}),
    (user, ["<command-name>/model</command-name>"], {}),
    (user, ["<local-command-stdout>done</local-command-stdout>"], {}),
    (line, ["progress"], {"data": {"type": "hook_progress", "hookEvent": "Stop"}}),
]


def mention(draw: DrawFn, grown: Growing) -> None:
    """A prompt that mentions a picture, which the client attaches."""
    grown.add(user, draw(said))
    file = {"base64": "A" * 400, "type": "image/png"}
    held = {"filename": MENTIONED.decode(), "content": {"type": "image", "file": file}}
    grown.add(attachment, "file", held)
    answer(draw, grown)


def dead_end(draw: DrawFn, grown: Growing) -> None:
    """News of a running call, which nothing follows on."""
    tip = grown.tip
    grown.add(line, "progress", data={"type": "bash_progress", "output": "..."})
    grown.tip = tip


def note(draw: DrawFn, grown: Growing) -> None:
    """Something that the client keeps beside the conversation."""
    about = draw(st.sampled_from(grown.ends))
    kind, fields = draw(st.sampled_from(_notes_about(about)))
    grown.note(kind, **fields)


def _notes_about(uuid: str) -> list[tuple[str, Fields]]:
    return [
        ("last-prompt", {"last_prompt": "q", "leaf_uuid": uuid}),
        ("last-prompt", {"leaf_uuid": uuid, "explicit": True}),
        ("last-prompt", {"leaf_uuid": ZEROS, "explicit": True}),
        ("queue-operation", {"operation": "dequeue"}),
        ("file-history-snapshot", {"message_id": uuid, "snapshot": {"messageId": uuid}}),
        ("custom-title", {"custom_title": "Shop"}),
        ("api-request", {"id": "r", "tail": []}),
        ("sparkle", {"about": uuid, "deep": {"er": [1.50, None, "x"]}}),
    ]


def compact(draw: DrawFn, grown: Growing) -> None:
    """Older turns replaced by a summary; the last lines before it may be preserved."""
    fields: Fields = {"logical_parent_uuid": grown.tip}
    kept = _last_words(grown)[-draw(st.integers(0, 3)) or len(grown.lines) :]
    if kept:
        anchor = nth(len(grown.lines) + 2)
        segment = {"headUuid": kept[0], "anchorUuid": anchor, "tailUuid": kept[-1]}
        messages = {"anchorUuid": anchor, "uuids": kept, "allUuids": kept}
        told = {"trigger": "auto", "preservedSegment": segment, "preservedMessages": messages}
        fields["compact_metadata"] = told
    boundary, summary = compaction(f"see /x/{SESSION}.jsonl", **fields)
    grown.lines += [boundary, summary]
    grown.tip = nth(len(grown.lines))
    grown.chain, grown.ends = [grown.tip], []


def _last_words(grown: Growing) -> list[str]:
    """The last entries of a branch without calls or results: a compaction tears no pair apart."""
    found: list[str] = []
    at = grown.tip
    while at in grown.chain:
        raw = grown.lines[int(at[-12:]) - 1]
        if b'"tool_' in raw or b'"progress"' in raw:
            break
        found.insert(0, at)
        at = json.loads(raw).get("parentUuid")
    return found


def rewind(draw: DrawFn, grown: Growing) -> None:
    """Go on from an earlier entry."""
    grown.tip = draw(st.sampled_from(grown.ends))
    if draw(st.booleans()):
        grown.note("last-prompt", leaf_uuid=ZEROS, explicit=True)
    turn(draw, grown)


STEPS: tuple[Step, ...] = (turn, turn, turn, aside, mention, dead_end, note, compact, rewind)


@st.composite
def sessions(draw: DrawFn) -> Files:
    """A session without damage, and the files beside it."""
    grown = Growing()
    for step in (turn, *draw(st.lists(st.sampled_from(STEPS), max_size=5))):
        step(draw, grown)
        grown.ends.append(grown.tip or ZEROS)
    return Files(session(*grown.lines), grown.beside)


# Damage

Damage = Callable[[DrawFn, list[bytes]], None]
"""Changes a list of lines in place; there is at least one."""


@st.composite
def damaged_sessions(draw: DrawFn, wildly: bool = False) -> Files:
    """A session to which something happened; wildly: as no accident leaves it."""
    whole = draw(sessions())
    lines = whole.content.splitlines(keepends=True)
    damages = (*ACCIDENTS, *WILD, *WILD) if wildly else ACCIDENTS
    for damage in draw(st.lists(st.sampled_from(damages), min_size=1, max_size=2)):
        damage(draw, lines)
    return Files(b"".join(lines), whole.beside, is_damaged=True, is_wild=wildly)


def _place(draw: DrawFn, lines: list[bytes]) -> int:
    return draw(st.integers(0, len(lines) - 1))


def _tear(draw: DrawFn, lines: list[bytes]) -> None:
    lines[-1] = lines[-1][: draw(st.integers(1, len(lines[-1])))]


def _lose_newline(draw: DrawFn, lines: list[bytes]) -> None:
    lines[-1] = lines[-1].rstrip(b"\n")


def _repeat(draw: DrawFn, lines: list[bytes]) -> None:
    lines.insert(_place(draw, lines), lines[_place(draw, lines)])


def _lose(draw: DrawFn, lines: list[bytes]) -> None:
    if len(lines) > 1:
        lines.pop(_place(draw, lines))


def _swap(draw: DrawFn, lines: list[bytes]) -> None:
    one, other = _place(draw, lines), _place(draw, lines)
    lines[one], lines[other] = lines[other], lines[one]


def _join(draw: DrawFn, lines: list[bytes]) -> None:
    place = _place(draw, lines)
    if place + 1 < len(lines):
        gap = draw(st.sampled_from([b"", b" ", b"\r"]))
        lines[place : place + 2] = [lines[place].rstrip(b"\n") + gap + lines[place + 1]]


def _garble(draw: DrawFn, lines: list[bytes]) -> None:
    dirt = [b"\0\0\0\n", b"not json\n", b"\n", b"[1]\n", b'{"type":"user","mess\n', b"\xff\xfe\n"]
    lines.insert(_place(draw, lines), draw(st.sampled_from(dirt)))


def _trail(draw: DrawFn, lines: list[bytes]) -> None:
    place = _place(draw, lines)
    dirt = draw(st.sampled_from([b'{"type":"us', b" ]", b"\0"]))
    lines[place] = lines[place].rstrip(b"\n") + dirt + b"\n"


def _mark(draw: DrawFn, lines: list[bytes]) -> None:
    lines[0] = b"\xef\xbb\xbf" + lines[0]


def _orphan(draw: DrawFn, lines: list[bytes]) -> None:
    fields: Fields = {"uuid": "0badf00d-0000-4000-8000-000000000000", "timestamp": moment(70)}
    place = _place(draw, lines)
    name = draw(st.sampled_from(["toolu_none", "toolu_2", "toolu_3"]))
    whole = result(name, "x", parent=nth(place + 1), **fields)
    lines.insert(draw(st.integers(place + 1, len(lines))), whole)


def _change_field(draw: DrawFn, lines: list[bytes]) -> None:
    place = _place(draw, lines)
    try:
        fields = json.loads(lines[place])
    except ValueError:
        return
    name, value = draw(st.sampled_from(CHANGES))
    if is_object(fields):
        kept = {key: each for key, each in fields.items() if key != name}
        kept |= {} if value is ABSENT else {name: value}
        lines[place] = json.dumps(kept).encode() + b"\n"


def _spell(draw: DrawFn, lines: list[bytes]) -> None:
    place = _place(draw, lines)
    try:
        fields = json.loads(lines[place])
    except ValueError:
        return
    # No client spells ids with escapes, which is the third way.
    style = draw(st.integers(0, 31).filter(lambda number: number % 3 != 2))
    with suppress(UnicodeEncodeError):  # half of a surrogate pair has no UTF-8
        lines[place] = spell(fields, style).encode() + b"\n"


def _halve(draw: DrawFn, lines: list[bytes]) -> None:
    place = _place(draw, lines)
    lines[place] = lines[place].replace(b"words", b"\\ud83d")


def _dangle(draw: DrawFn, lines: list[bytes]) -> None:
    place = _place(draw, lines)
    lines[place] = re.sub(rb'"parentUuid":"[^"]+"', f'"parentUuid":"{GONE}"'.encode(), lines[place])


ABSENT = object()
CHANGES: list[tuple[str, Any]] = [
    ("parentUuid", None),
    ("parentUuid", nth(2)),
    ("parentUuid", ABSENT),
    ("uuid", ABSENT),
    ("uuid", nth(1)),
    ("uuid", "short"),
    ("timestamp", ABSENT),
    ("timestamp", "yesterday"),
    ("sessionId", GONE),
    ("message", ABSENT),
    ("message", {"role": "user", "content": ""}),
    ("isSidechain", True),
    ("type", "user"),
]
ACCIDENTS: tuple[Damage, ...] = (
    _tear,
    _lose_newline,
    _repeat,
    _lose,
    _lose,
    _dangle,
    _join,
    _garble,
    _trail,
    _mark,
    _orphan,
    _spell,
    _halve,
)
WILD: tuple[Damage, ...] = (_swap, _change_field)
