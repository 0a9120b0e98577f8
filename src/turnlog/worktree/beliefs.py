"""Knowledge about a file's content, and the rules by which observations change it.

`exact` means that the recorded lines prove every byte. Anything that rests on an assumption is
`derived`, and content of which lines are missing is a `gap`. No rule here makes up bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from turnlog.format.fields import given
from turnlog.format.file_views import Hunk, ShellChange, hunks_of
from turnlog.worktree.patches import (
    Replacement,
    apply_hunks,
    created_text,
    edited_text,
    known_lines,
    reaches_ends,
)
from turnlog.worktree.text_style import (
    BOM,
    DEFAULT_STYLE,
    UNKNOWN_CHARACTER,
    StyledText,
    TextStyle,
    decode_file,
    encode_text,
    lines_of,
    without_mark,
)

UNRECORDED = "line endings and byte-order mark are not recorded"


class Certainty(StrEnum):
    """Degrees of certainty about a state of a file."""

    EXACT = "exact"
    DERIVED = "derived"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Belief:
    """The content of a file, as far as it is known."""

    certainty: Certainty = Certainty.GAP
    raw: bytes | None = None
    """The whole content; None for a gap and for a file that does not exist."""
    is_absent: bool = False
    known: Mapping[int, str] = field(default_factory=dict[int, str])
    """The known lines of a gap, by number."""
    total: int | None = None
    """The number of lines of a gap, if known."""
    reason: str = "nothing about it is recorded"

    @property
    def styled(self) -> StyledText | None:
        """The content decoded as text; None if it is incomplete or not text."""
        return None if self.raw is None else decode_file(self.raw)


NOTHING = Belief()


class WriteRule(StrEnum):
    """The line endings that a client writes."""

    VERBATIM = "verbatim"
    """As in the text: 2.1.100 on (observed: 2.1.100, 2.1.150, 2.1.209, 2.1.325)."""
    CONVERTING = "converting"
    """As in the old file, or in the project for a new file (observed: 2.0.76, 2.1.45)."""
    PRESERVING = "preserving"
    """As in the old file; LF for a new file (`turnlog chat`)."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WholeContent:
    """All bytes, as in a backup; None if the file does not exist."""

    raw: bytes | None
    doubt: str = ""
    """Why the file may have had another content at that moment, if it may."""
    is_likely: bool = False
    """True if such a content is nevertheless more likely than any that is derived otherwise."""


@dataclass(frozen=True, slots=True)
class WholeText:
    """All text, as a Read shows it."""

    text: str


@dataclass(frozen=True, slots=True)
class SomeLines:
    """Some lines, as a Read with an offset shows them."""

    lines: Mapping[int, str]
    total: int | None = None


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A file that was written as a whole."""

    text: str
    is_new: bool
    original: str | None
    rule: WriteRule
    is_modified: bool = False
    """True if the user changed the text before it was written."""
    shows_mark: bool = True
    """True if `original` would include a byte-order mark that the file has."""


@dataclass(frozen=True, slots=True)
class EditedPart:
    """Replacements in a file."""

    replacements: Sequence[Replacement]
    patch: Sequence[Hunk]
    original: str | None
    is_modified: bool = False
    shows_mark: bool = True
    is_as_asked: bool = False
    """True if the replacements are those that the model requested, as no result is recorded."""


@dataclass(frozen=True, slots=True)
class RewrittenText:
    """A file of which both the old and the new text may be recorded, as for a notebook."""

    original: str | None
    text: str | None
    shows_mark: bool = True


@dataclass(frozen=True, slots=True)
class ShellEdit:
    """A change that a shell command made, as the client noticed it."""

    change: ShellChange | None


@dataclass(frozen=True, slots=True)
class UnknownChange:
    """A change of which only some lines are recorded."""

    lines: Mapping[int, str]
    reason: str


Observation = (
    WholeContent
    | WholeText
    | SomeLines
    | WrittenText
    | EditedPart
    | RewrittenText
    | ShellEdit
    | UnknownChange
)
CHANGES = (WrittenText, EditedPart, RewrittenText, ShellEdit, UnknownChange)


def belief_before(belief: Belief, seen: Observation) -> Belief:
    """Return what is known, in hindsight, about the content just before an observation."""
    match seen:
        case WrittenText(is_new=True):
            return replace(NOTHING, certainty=Certainty.EXACT, is_absent=True, reason="")
        case WrittenText(original=str() as text, rule=WriteRule.CONVERTING):
            return _content_before_write(belief, text)
        case (
            WrittenText(original=str() as text)
            | RewrittenText(original=str() as text)
            | EditedPart(original=str() as text)
        ):
            return _seen_text(belief, text, seen.shows_mark)
        case WholeContent() | WholeText() | SomeLines():
            return belief_after(belief, seen)
        case _:
            return belief


def belief_after(belief: Belief, seen: Observation, earlier: Sequence[Belief] = ()) -> Belief:
    """Return what is known after an observation; `earlier` contains all beliefs before it."""
    if isinstance(seen, ShellEdit):
        return _after_shell(belief, seen.change, earlier)
    return RULES[type(seen)](belief, seen)


def shows_file(seen: Observation | None) -> bool:
    """Return whether an observation proves that there is a file."""
    match seen:
        case None | WholeContent(raw=None):
            return False
        case WholeContent(doubt=doubt):
            return not doubt
        case ShellEdit(change=change):
            return change is not None and not given(change.deleted)
        case UnknownChange(lines=lines):
            return bool(lines)
        case _:
            return True


def doubted(belief: Belief, reason: str) -> Belief:
    """Downgrade an exact belief, because something may have changed the file unobserved."""
    if belief.certainty is not Certainty.EXACT:
        return belief
    return replace(belief, certainty=Certainty.DERIVED, reason=reason)


def gaps_of(belief: Belief) -> list[tuple[int, int | None]]:
    """Return the first and last line of each unknown range; None stands for the end of the file.

    >>> gaps_of(Belief(known={1: "a", 2: "b", 5: "e"}, total=7))
    [(3, 4), (6, 7)]
    """
    if belief.certainty is not Certainty.GAP:
        return []
    found: list[tuple[int, int | None]] = []
    after = 0
    for number in sorted(belief.known):
        if number > after + 1:
            found.append((after + 1, number - 1))
        after = number
    if belief.total is None:
        return [*found, (after + 1, None)]
    return [*found, (after + 1, belief.total)] if after < belief.total else found


def _whole(raw: bytes | None, certainty: Certainty, reason: str) -> Belief:
    if raw is None:
        return replace(NOTHING, reason="the text has characters that cannot be encoded")
    return Belief(certainty, raw, reason=reason)


def _after_content(belief: Belief, seen: WholeContent) -> Belief:
    # A doubtful content counts if nothing better is known.
    replaced = (Certainty.GAP, Certainty.DERIVED) if seen.is_likely else (Certainty.GAP,)
    if seen.doubt and belief.certainty not in replaced:
        return belief
    certainty = Certainty.DERIVED if seen.doubt else Certainty.EXACT
    return Belief(certainty, seen.raw, is_absent=seen.raw is None, reason=seen.doubt)


def _after_text(belief: Belief, seen: WholeText) -> Belief:
    return _seen_text(belief, seen.text, shows_mark=False)


def _seen_text(belief: Belief, text: str, shows_mark: bool) -> Belief:
    """Return what is known once a file's whole text was seen, with LF line endings."""
    plain = without_mark(text)
    if UNKNOWN_CHARACTER in plain:
        # One character stands for any number of bytes: those lines are unknown.
        lines = dict(enumerate(lines_of(plain), 1))
        known = {n: line for n, line in lines.items() if UNKNOWN_CHARACTER not in line}
        return Belief(known=known, total=len(lines), reason="it has bytes that are not UTF-8")
    styled = belief.styled
    is_marked = text.startswith(BOM) if shows_mark else None
    if styled and styled.text == plain and is_marked in (None, bool(styled.style.mark)):
        if belief.certainty is Certainty.EXACT:
            return belief
        reason = f"the text is known; {UNRECORDED}"
        return replace(belief, certainty=Certainty.DERIVED, reason=reason)
    if shows_mark and not text:
        return Belief(Certainty.DERIVED, b"", reason="it was empty or did not exist")
    if shows_mark and "\n" not in text and not is_marked:
        # Every byte is certain: there are no line endings, and an Edit would show a byte-order
        # mark, without which the file cannot be UTF-16.
        return _whole(encode_text(text), Certainty.EXACT, "")
    style = styled.style if styled else DEFAULT_STYLE
    if is_marked is not None and bool(style.mark) != is_marked:
        style = TextStyle(mark=BOM) if is_marked else DEFAULT_STYLE
    return _whole(encode_text(plain, style), Certainty.DERIVED, UNRECORDED)


def _after_lines(belief: Belief, seen: SomeLines) -> Belief:
    styled = belief.styled
    if styled:
        if _has_lines(belief, seen.lines) and seen.total in (None, len(lines_of(styled.text))):
            return belief
        known, total = dict(seen.lines), seen.total
    else:
        is_same_size = belief.total in (None, seen.total) or seen.total is None
        known = {**(belief.known if is_same_size else {}), **seen.lines}
        total = seen.total if seen.total is not None else belief.total
    if total is not None and all(n in known for n in range(1, total + 1)):
        text = "\n".join(known[n] for n in range(1, total + 1))
        return _seen_text(NOTHING, text, shows_mark=False)
    return Belief(known=known, total=total, reason="only part of it was read")


def _has_lines(belief: Belief, known: Mapping[int, str]) -> bool:
    styled = belief.styled
    lines = lines_of(styled.text) if styled else []
    return all(n <= len(lines) and lines[n - 1] == line for n, line in known.items())


def _content_before_write(belief: Belief, original: str) -> Belief:
    """Return the content before a Write, if the client recorded it with its line endings."""
    if original.startswith(BOM) or UNKNOWN_CHARACTER in original:
        return _seen_text(belief, original.replace("\r\n", "\n"), shows_mark=True)
    return _whole(encode_text(original), Certainty.EXACT, "")


def _after_write(belief: Belief, seen: WrittenText) -> Belief:
    before = belief_before(belief, seen)
    raw, reason = _written(before, seen)
    if seen.is_modified:
        reason = reason or "the user changed the text before it was written"
    certainty = Certainty.DERIVED if reason else Certainty.EXACT
    return _whole(raw, certainty, reason)


def _written(before: Belief, seen: WrittenText) -> tuple[bytes | None, str]:
    """Return the bytes of a written file, and the assumption behind them; "" if there is none."""
    is_sure = before.certainty is Certainty.EXACT
    styled = before.styled if is_sure else None
    style = styled.style if styled else None
    may_be_utf16 = not seen.is_new and (
        seen.original.startswith(BOM) if seen.original is not None else True
    )
    match seen.rule:
        case WriteRule.VERBATIM:
            # A file in UTF-16 stays in UTF-16, with a mark only if the text has one.
            if style:
                return encode_text(seen.text, TextStyle(style.encoding)), ""
            return encode_text(seen.text), "the encoding is not recorded" if may_be_utf16 else ""
        case WriteRule.PRESERVING:
            if seen.is_new:
                return encode_text(seen.text), ""
            if styled and styled.is_uniform:
                return encode_text(without_mark(seen.text), styled.style), ""
        case WriteRule.CONVERTING:
            if seen.is_new and "\n" not in seen.text:
                return encode_text(seen.text), ""
            is_plain = "\r" not in seen.text and not (styled and styled.style.mark)
            if is_plain and styled and styled.is_uniform and "\n" in styled.text:
                return encode_text(seen.text, styled.style), ""
        case WriteRule.UNKNOWN:
            pass
    return encode_text(seen.text), "the client may have converted line endings"


def _after_edit(belief: Belief, seen: EditedPart) -> Belief:
    before = belief_before(belief, seen)
    styled = before.styled
    if before.is_absent:
        styled = StyledText("", DEFAULT_STYLE)
    if styled is None:
        known = known_lines(seen.patch)
        return Belief(known=known, reason="it was edited, but its content before is unknown")
    text = styled.style.mark + styled.text
    edited = edited_text(text, seen.replacements, seen.patch)
    if edited is None:
        known = known_lines(seen.patch)
        return Belief(known=known, reason="the edit does not fit the content known before")
    raw = encode_text(without_mark(edited.text), styled.style)
    # A file without content is written with LF and without a mark (observed: 2.0.76 to 2.1.325).
    is_sure = before.certainty is Certainty.EXACT or (seen.original == "" and seen.shows_mark)
    reason = "" if is_sure else before.reason
    if not styled.is_uniform:
        reason = reason or "it had both LF and CRLF line endings"
    if not (edited.is_proven or _is_plain(text, seen)):
        reason = reason or "the recorded patch does not show the exact result"
    if any("\r" in each.new for each in seen.replacements):
        reason = reason or "the edit has line endings of its own, which the client may convert"
    if seen.is_modified:
        reason = reason or "the user changed the edit before it was made"
    return _whole(raw, Certainty.DERIVED if reason else Certainty.EXACT, reason)


def _is_plain(text: str, seen: EditedPart) -> bool:
    """Return whether an edit without a patch, as sub-agents record it, is unambiguous."""
    if seen.patch or not seen.is_as_asked:
        return False
    # A deletion may also remove the newline after it; everything else is replaced literally.
    return all(
        each.new and (each.old in text if each.old else not text) for each in seen.replacements
    )


def _after_rewrite(belief: Belief, seen: RewrittenText) -> Belief:
    if seen.text is None:
        return replace(NOTHING, reason="the notebook was edited; its bytes are not recorded")
    before = belief_before(belief, seen)
    styled = before.styled
    is_sure = before.certainty is Certainty.EXACT and styled is not None and styled.is_uniform
    raw = encode_text(without_mark(seen.text), styled.style if styled else DEFAULT_STYLE)
    return _whole(
        raw, Certainty.EXACT if is_sure else Certainty.DERIVED, "" if is_sure else UNRECORDED
    )


def _after_shell(belief: Belief, change: ShellChange | None, earlier: Sequence[Belief]) -> Belief:
    if change is None:
        return replace(NOTHING, reason="a command changed it; the change is not recorded")
    if given(change.deleted):
        return Belief(Certainty.EXACT, is_absent=True, reason="")
    patch = hunks_of(given(change.hunks))
    reason = "a command changed it, as the client noticed"
    if given(change.created):
        text = created_text(patch)
        if text is not None:
            return _whole(encode_text(text), Certainty.DERIVED, reason)
    # The old side of the patch is what the client last read or wrote, so try the present content
    # and then older ones: after `echo four >> f` and `sed -i s/two/2/ f`, the second patch adds
    # "four", too (observed: 2.1.325).
    for each in (belief, *reversed(earlier)):
        raw = _patched(each, patch)
        if raw is not None:
            return _whole(raw, Certainty.DERIVED, reason)
    known = {n: line for n, line in known_lines(patch).items() if not line.endswith("\r")}
    return Belief(known=known, reason="a command changed it; only part of the change is recorded")


def _patched(belief: Belief, patch: Sequence[Hunk]) -> bytes | None:
    """Return a content with the patch of a command applied; None if the patch does not fit."""
    styled = belief.styled
    if styled is None or not patch:
        return None
    # The new side shows carriage returns as part of the lines. The old side does so only for files
    # that the client never read.
    for newline in dict.fromkeys((styled.style.newline, "\n")):
        text = styled.text.replace("\n", newline)
        patched = apply_hunks(text, patch) if reaches_ends(text, patch) else None
        if patched is not None and patched != text:
            return encode_text(patched, styled.style._replace(newline="\n"))
    return None


def _after_unknown(belief: Belief, seen: UnknownChange) -> Belief:
    # The client also reports changes by commands, which may be known already.
    if seen.lines and belief.certainty is Certainty.DERIVED and _has_lines(belief, seen.lines):
        return belief
    return Belief(known=dict(seen.lines), reason=seen.reason)


RULES: dict[type, Callable[[Belief, Any], Belief]] = {
    WholeContent: _after_content,
    WholeText: _after_text,
    SomeLines: _after_lines,
    WrittenText: _after_write,
    EditedPart: _after_edit,
    RewrittenText: _after_rewrite,
    UnknownChange: _after_unknown,
}
