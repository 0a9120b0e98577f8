"""All faults that turnlog checks for, each with severity, message and fix.

Each was observed by resuming a faulty file with real clients (1.0.60 to 2.1.325). Content that the
API refuses is known from its error messages instead (reported). docs/check.md says which is which.
"""

from typing import NamedTuple

from turnlog.edit.check.findings import Severity
from turnlog.errors import UsageError

FATAL, LOSS, OLD, NOTE = Severity
REPAIR = "turnlog edit {session} --repair"
STRAIGHTEN = "turnlog edit {session} --straighten"
CLONE = "turnlog clone {session}"
MOVE = "turnlog mv {session} {cwd}"
BRIDGED_SINCE = "2.1.150"
"""The first version observed to replace a missing parent by an entry that is near in time."""


class CheckRule(NamedTuple):
    """Severity, message and fix of a fault."""

    kind: str
    severity: Severity
    message: str
    fix: str | None = REPAIR
    """The command that fixes it."""
    fixed_in: str | None = None
    """The first client version observed to lose nothing, for faults of older clients."""
    refused_before: str | None = None
    """The first version that resumes such a session; before it, the client or the API fails."""

    def severity_for(self, version: str | None) -> Severity | None:
        """Return the severity for a client version; None if that client is not affected.

        Without a version, return the severity for the newest client. Versions between the last one
        observed with a fault and the first one without it count as affected.
        """
        if version is None:
            return self.severity
        # Checked first, as both limits may be the same version: a failure is worse than a loss.
        if _is_before(version, self.refused_before):
            return FATAL
        if _is_before(version, self.fixed_in):
            return LOSS
        return None if self.severity is OLD else self.severity


def _is_before(version: str, limit: str | None) -> bool:
    return limit is not None and numbers_of(version) < numbers_of(limit)


def cuts_at_gaps(version: str | None) -> bool:
    """Return whether a client omits everything before a missing parent, whatever is near it."""
    return version is not None and _is_before(version, BRIDGED_SINCE)


def numbers_of(version: str) -> tuple[int, ...]:
    """Return a client version as numbers, for comparison; raise `UsageError` for anything else.

    >>> numbers_of("2.1.45") < numbers_of("2.1.150")
    True
    """
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError:
        raise UsageError(
            f"{version!r} is not a client version", "turnlog check --for 2.1.45"
        ) from None


# The key names a case, `kind` the fault that users see. Cases of one fault differ in what clients
# do about it, and so in severity, message or fix.
RULES: dict[str, CheckRule] = {
    "no-conversation": CheckRule(
        "no-conversation",
        FATAL,
        "the file contains no conversation",
        None,
    ),
    "not-a-uuid": CheckRule(
        "not-a-uuid",
        FATAL,
        "the name {name} is not a UUID: the client does not find the session",
        CLONE,
    ),
    "not-a-uuid-note": CheckRule(
        "not-a-uuid",
        NOTE,
        "the name {name} is not a UUID: the client opens it by its path only",
        CLONE,
    ),
    "no-timestamp": CheckRule(
        "no-timestamp",
        FATAL,
        "the last line of the conversation has no valid timestamp: the client refuses the session",
    ),
    "no-timestamp-old": CheckRule(
        "no-timestamp",
        OLD,
        "a line has no valid timestamp: clients up to 2.1.45 may lose lines or crash",
        fixed_in="2.1.150",
    ),
    "no-uuid": CheckRule(
        "no-uuid", LOSS, "a line has no uuid: the client keeps only the last of such lines"
    ),
    "no-uuid-cut": CheckRule(
        "no-uuid", LOSS, "a line has no uuid: the client omits everything before the next line"
    ),
    "no-uuid-old": CheckRule(
        "no-uuid",
        OLD,
        "a line has no uuid: clients up to 2.1.45 cut the history there",
        fixed_in="2.1.150",
    ),
    "no-parent": CheckRule(
        "no-parent", LOSS, "a line has no parentUuid: the client omits everything before it"
    ),
    "no-type": CheckRule("no-type", LOSS, "a line has no type: the client does not read it"),
    "no-message": CheckRule(
        "no-message",
        OLD,
        "a line has no content: clients up to 2.1.150 fail to resume the session",
        fixed_in="2.1.325",
        refused_before="2.1.325",
    ),
    "flat-message": CheckRule(
        "no-message",
        LOSS,
        "the content of a line is in a field that the client does not read",
        refused_before="2.1.325",
    ),
    "dangling-parent": CheckRule(
        "dangling-parent",
        LOSS,
        "a parent is not in the file: the client omits everything before it",
    ),
    "unknown-parent": CheckRule(
        "unknown-parent",
        LOSS,
        "a parent has a type that clients do not know: the client omits everything before it",
    ),
    "unknown-parent-old": CheckRule(
        "unknown-parent",
        OLD,
        "a parent has a type that clients do not know: those up to 2.1.45 cut the history there",
        fixed_in="2.1.150",
    ),
    "dangling-parent-old": CheckRule(
        "dangling-parent",
        OLD,
        "a parent is not in the file: clients up to 2.1.45 cut the history there",
        fixed_in="2.1.150",
    ),
    "progress-parent": CheckRule(
        "progress-parent",
        OLD,
        "a progress entry is part of the chain: clients up to 2.0.76 omit everything before it",
        STRAIGHTEN,
        fixed_in="2.1.29",
    ),
    "circular-parents-cut": CheckRule(
        "circular-parents",
        LOSS,
        "parents form a cycle: the client omits everything before it",
    ),
    "circular-parents": CheckRule(
        "circular-parents",
        OLD,
        "parents form a cycle: clients 2.0.76 and 1.0.60 hang",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "duplicate-uuid": CheckRule(
        "duplicate-uuid", LOSS, "two different lines have the same uuid: only the last one is sent"
    ),
    "duplicate-uuid-note": CheckRule("duplicate-uuid", NOTE, "a line occurs twice"),
    "second-root": CheckRule(
        "second-root",
        LOSS,
        "a line without a parent restarts the history: the client omits everything before it",
    ),
    "stray-tip": CheckRule(
        "stray-tip",
        LOSS,
        "the last line has an old entry as parent: the client omits everything that followed it",
    ),
    "parallel-results": CheckRule(
        "parallel-results",
        OLD,
        "clients up to 2.1.45 lose {lines} of parallel calls, with {results}",
        STRAIGHTEN,
        fixed_in="2.1.150",
    ),
    "late-time": CheckRule(
        "late-time",
        OLD,
        "the latest timestamp is not at the tip: clients up to 2.1.45 resume here, without {lost}",
        fixed_in="2.1.150",
    ),
    "gone-preserved": CheckRule(
        "gone-preserved",
        LOSS,
        "{gone} of the messages that the compaction preserved are missing: none of them is sent",
    ),
    "gone-anchor": CheckRule(
        "gone-preserved",
        LOSS,
        "the anchor of the messages that the compaction preserved is missing: none of them is sent",
    ),
    "unanswered-call": CheckRule(
        "unanswered-call", LOSS, "a call has no result: the client omits it"
    ),
    "open-call": CheckRule(
        "open-call",
        NOTE,
        "the session ends with a call without a result: 2.1.325 closes it, older clients drop it",
        fixed_in="2.1.325",
    ),
    "orphan-result": CheckRule(
        "orphan-result",
        OLD,
        "a result has no call: clients 2.0.76 and 1.0.60 send it, and the API refuses it",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "duplicate-call": CheckRule(
        "duplicate-call",
        LOSS,
        "two calls have the same id: the second one is not sent",
        refused_before="2.1.150",
    ),
    "torn-line": CheckRule(
        "torn-line",
        OLD,
        "the last line is torn: clients up to 2.1.45 append their next line to it",
        fixed_in="2.1.150",
    ),
    "no-newline": CheckRule(
        "no-newline",
        OLD,
        "the last line has no newline: clients up to 2.1.45 append their next line to it",
        fixed_in="2.1.150",
    ),
    "several-values": CheckRule(
        "several-values", LOSS, "several entries are on one line: the client reads only the first"
    ),
    "several-values-old": CheckRule(
        "several-values",
        OLD,
        "an entry is followed by more text on its line: clients up to 2.1.45 read none of it",
        fixed_in="2.1.150",
    ),
    "several-values-note": CheckRule(
        "several-values", NOTE, "several values are on one line, none of them a message"
    ),
    "unreadable-line": CheckRule(
        "unreadable-line", LOSS, "the client cannot read this line: it is not JSON"
    ),
    "unreadable-messages": CheckRule(
        "unreadable-line", FATAL, "the client cannot read any message of the file"
    ),
    "unreadable-note": CheckRule(
        "unreadable-line", NOTE, "the client cannot read this line, which is not a message"
    ),
    "nul-line": CheckRule("nul-line", NOTE, "a line of NUL bytes: the client skips it"),
    "invalid-utf-8": CheckRule(
        "invalid-utf-8", NOTE, "bytes that are not UTF-8: the client replaces them"
    ),
    "byte-order-mark": CheckRule("byte-order-mark", NOTE, "the line starts with a byte order mark"),
    "empty-prompt": CheckRule(
        "empty-text", FATAL, "an empty prompt is sent: the API refuses every request"
    ),
    "empty-text": CheckRule(
        "empty-text",
        OLD,
        "an empty text in a user line: clients up to 2.1.150 send it, and the API refuses it",
        fixed_in="2.1.325",
        refused_before="2.1.325",
    ),
    "empty-answer": CheckRule(
        "empty-answer",
        OLD,
        "an empty text in an answer: clients up to 2.0.76 send it, and the API refuses it",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "blank-answer": CheckRule(
        "empty-answer",
        OLD,
        "an answer is only whitespace: clients up to 2.0.76 send it, and the API refuses it",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "text-answer": CheckRule(
        "text-answer",
        OLD,
        "an answer is a string, not a list of blocks: clients up to 2.1.150 fail to resume",
        fixed_in="2.1.325",
        refused_before="2.1.325",
    ),
    "text-error": CheckRule(
        "text-answer",
        OLD,
        "an API error is a string, not a list of blocks: clients up to 2.0.76 fail to resume",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    # Not `old`: 2.1.325 still merges such answers for some models (observed: claude-opus-5-5).
    "no-message-id": CheckRule(
        "no-message-id",
        NOTE,
        "answers have no message id: clients merge them, since 2.1.325 only for some models",
        fixed_in="2.1.325",
    ),
    "bare-block": CheckRule(
        "bare-block",
        LOSS,
        "a block is not an object: the client omits it",
        refused_before="2.1.325",
    ),
    "unsigned-thinking": CheckRule(
        "unsigned-thinking",
        FATAL,
        "thinking without a signature is sent: the API refuses every request",
    ),
    "thinking-only": CheckRule(
        "thinking-only",
        OLD,
        "an answer is nothing but thinking: clients up to 2.0.76 send it",
        fixed_in="2.1.29",
    ),
    "image-size": CheckRule(
        "image-size",
        FATAL,
        "an image of {size} MB in base64: client and API refuse more than 5 MB",
    ),
    "image-pixels": CheckRule(
        "image-pixels",
        FATAL,
        "an image is {side} pixels long: the API refuses more than 8000",
    ),
    "image-pixels-many": CheckRule(
        "image-pixels",
        FATAL,
        "one of {images} images is {side} pixels long: with more than 20 images, the API refuses "
        "any over 2000",
    ),
    "image-count": CheckRule(
        "image-count",
        FATAL,
        "{images} images would be sent: the API refuses more than 100",
    ),
    "large-result": CheckRule(
        "large-result", NOTE, "a result of {size} kB is sent with every request"
    ),
    "lone-surrogate": CheckRule(
        "lone-surrogate",
        OLD,
        "half a character (a lone surrogate): clients up to 2.1.45 send it, and the API refuses it",
        fixed_in="2.1.150",
        refused_before="2.1.150",
    ),
    "other-id": CheckRule("other-id", NOTE, "lines name another session, {id}: a copy, or a fork"),
    "other-folder": CheckRule(
        "other-folder",
        OLD,
        "the session ran in {cwd}, but is stored in {folder}: clients up to 2.1.150 do not find it",
        MOVE,
        fixed_in="2.1.325",
        refused_before="2.1.325",
    ),
    "hidden": CheckRule(
        "hidden", NOTE, "a program (sdk-cli) made the session: the client's picker does not list it"
    ),
    "lost-output": CheckRule("lost-output", NOTE, "the saved output {name} is missing", None),
    "lost-subagent": CheckRule(
        "lost-subagent", NOTE, "the sub-agent's file {name} is missing", None
    ),
}
