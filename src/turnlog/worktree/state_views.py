"""JSON views of files at a moment, for commands, the library and the web app."""

from base64 import b64encode
from collections.abc import Iterable

from msgspec import Struct

from turnlog.secrets import mask
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.blame import BlamedLine
from turnlog.worktree.file_steps import FileStep, diff_change
from turnlog.worktree.text_style import decode_file
from turnlog.worktree.worktree import FileRevision

MASKED = "[masked]"


class LineRange(Struct):
    """A range of lines; `last` is null if it extends to the end of the file."""

    first: int
    last: int | None


class FileStateView(Struct, kw_only=True):
    """A file at a moment."""

    path: str
    certainty: Certainty
    reason: str
    """Why the state is not exact; empty if it is."""
    is_absent: bool
    """True if there was no such file."""
    tool: str
    """The source that showed it: a tool, `file history`, `attachment`, `edited outside`, or `file
    below` or `file above`: of a file whose existence excludes this one."""
    line: int
    """The line that showed it; in the sub-agent's file if there is one."""
    time: str | None
    agent_id: str | None
    size: int | None
    gaps: list[LineRange]
    """Unknown lines."""
    encoding: str | None = None
    """`utf-8`, or `base64` if the content is not text."""
    content: str | None = None
    known: dict[int, str] = {}
    """The known lines of a gap, by number."""


class FileStepView(Struct, kw_only=True):
    """A change of a file in a session."""

    session: str
    path: str
    turn: int | None
    prompt: str
    time: str | None
    tool: str
    line: int
    agent_id: str | None
    certainty: Certainty
    reason: str
    is_absent: bool
    is_active: bool
    """True if the change is on the active branch."""
    diff: list[str]


class BlameView(Struct):
    """A line of a file and what wrote it; `turn` and `line` are null for older lines."""

    number: int
    text: str
    turn: int | None
    line: int | None
    tool: str | None


def state_view(
    version: FileRevision, reveal: bool = False, with_content: bool = True
) -> FileStateView:
    """Return the view of a state, masked unless `reveal` is set."""
    shown = _unmasked if reveal else mask
    raw = version.content
    view = FileStateView(
        path=shown(version.path),
        certainty=version.certainty,
        reason=shown(_reason(version)),
        is_absent=version.is_absent,
        tool=version.tool,
        line=version.line,
        time=version.time,
        agent_id=version.agent_id,
        size=None if raw is None else len(raw),
        gaps=[LineRange(*each) for each in version.gaps],
    )
    if not with_content:
        return view
    if raw is not None:
        text = text_of(raw)
        view.encoding = "base64" if text is None else "utf-8"
        view.content = b64encode(raw).decode() if text is None else shown(text)
    known = version.belief.known
    view.known = dict(zip(known, mask_lines(list(known.values()), reveal), strict=True))
    return view


def step_view(
    step: FileStep, session_id: str, reveal: bool = False, is_active: bool = True
) -> FileStepView:
    """Return the view of a change, masked unless `reveal` is set."""
    shown = _unmasked if reveal else mask
    version = step.version
    diff = diff_change(step.before, version)
    return FileStepView(
        session=session_id,
        path=shown(version.path),
        turn=step.turn,
        prompt=shown(step.prompt),
        time=version.time,
        tool=version.tool,
        line=version.line,
        agent_id=version.agent_id,
        certainty=version.certainty,
        reason=shown(_reason(version)),
        is_absent=version.is_absent,
        is_active=is_active,
        diff=shown("\n".join(diff)).split("\n") if diff else [],
    )


def blame_views(
    lines: Iterable[BlamedLine], turns: dict[int, int | None], reveal: bool = False
) -> list[BlameView]:
    """Return the views of blamed lines; `turns` maps the `id()` of a version to its turn."""
    found = list(lines)
    texts = mask_lines([line.text for line in found], reveal)
    return [
        BlameView(
            number,
            text,
            turns.get(id(line.version)) if line.version else None,
            line.version.line if line.version else None,
            line.version.tool if line.version else None,
        )
        for number, (line, text) in enumerate(zip(found, texts, strict=True), 1)
    ]


def mask_lines(lines: list[str], reveal: bool = False) -> list[str]:
    """Mask lines together, as a private key spans many of them; return as many lines as before.

    >>> mask_lines(["a", "b"])
    ['a', 'b']
    """
    if reveal or not lines:
        return lines
    whole = mask("\n".join(lines)).split("\n")
    if len(whole) == len(lines):
        return whole
    # The masked text has fewer lines. Lines that it still contains are not secret.
    kept = set(whole)
    return [line if line in kept else MASKED for line in lines]


def text_of(raw: bytes) -> str | None:
    """Return the content of a text file; None if it is not text."""
    styled = decode_file(raw)
    if styled is None or "\0" in styled.text:
        return None
    return raw.decode() if styled.style.encoding == "utf-8" else styled.text


def _reason(version: FileRevision) -> str:
    """Return why a state is not exact, "" if it is; the text may name another file."""
    return version.belief.reason if version.certainty is not Certainty.EXACT else ""


def _unmasked(text: str) -> str:
    return text
