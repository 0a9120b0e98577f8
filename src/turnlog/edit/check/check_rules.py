"""Every fault that is looked for: how bad it is, what to tell of it, what mends it.

Each was seen with the real clients, resuming a file that has it (observed: 1.0.60 to 2.1.325);
what the API refuses is from its error messages (reported). docs/check.md says which is which.
"""

from typing import NamedTuple

from turnlog.edit.check.findings import Severity

FATAL, LOSS, OLD, NOTE = Severity
REPAIR = "turnlog edit {session} --repair"
STRAIGHTEN = "turnlog edit {session} --straighten"
CLONE = "turnlog clone {session}"
MOVE = "turnlog mv {session} {cwd}"


class CheckRule(NamedTuple):
    """What to say of a fault."""

    kind: str
    severity: Severity
    message: str
    fix: str | None = REPAIR
    """The command that mends it."""
    fixed_in: str | None = None
    """The first client version seen to lose nothing, for what only older clients lose."""
    refused_before: str | None = None
    """The first version that resumes such a session; older ones fail, or the API refuses theirs."""

    def severity_for(self, version: str | None) -> Severity | None:
        """Return how bad the fault is for a client version; None if that client is not affected.

        Without a version, the severity is that for the newest client. Versions between the last one
        seen with a fault and the first one seen without it count as affected.
        """
        if version is None:
            return self.severity
        if _is_before(version, self.refused_before):
            return FATAL
        if _is_before(version, self.fixed_in):
            return LOSS
        return None if self.severity is OLD else self.severity


def _is_before(version: str, limit: str | None) -> bool:
    return limit is not None and numbers_of(version) < numbers_of(limit)


def numbers_of(version: str) -> tuple[int, ...]:
    """The parts of a client version, to be compared.

    >>> numbers_of("2.1.45") < numbers_of("2.1.150")
    True
    """
    return tuple(int(part) for part in version.split("."))


RULES: dict[str, CheckRule] = {
    "no-conversation": CheckRule(
        "no-conversation",
        FATAL,
        "there is no conversation in the file: the client finds none",
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
        "no-uuid", LOSS, "a line has no uuid: of all such lines the client keeps only the last"
    ),
    "no-uuid-cut": CheckRule(
        "no-uuid", LOSS, "a line has no uuid: the client leaves out all that came before the next"
    ),
    "no-uuid-old": CheckRule(
        "no-uuid",
        OLD,
        "a line has no uuid: clients up to 2.1.45 cut the history behind it",
        fixed_in="2.1.150",
    ),
    "no-parent": CheckRule(
        "no-parent", LOSS, "a line has no parentUuid: what came before it is not sent"
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
        "what a line says stands where the client does not look for it",
        refused_before="2.1.325",
    ),
    "dangling-parent": CheckRule(
        "dangling-parent",
        LOSS,
        "a parent is not in the file: the client leaves out what came before",
    ),
    "unknown-parent": CheckRule(
        "unknown-parent",
        LOSS,
        "a parent is of a type that clients do not know: what came before it is not sent",
    ),
    "unknown-parent-old": CheckRule(
        "unknown-parent",
        OLD,
        "a parent is of a type that clients do not know: those up to 2.1.45 cut the history there",
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
        "a progress entry stands in the chain: clients up to 2.0.76 leave out what came before it",
        STRAIGHTEN,
        fixed_in="2.1.29",
    ),
    "circular-parents-cut": CheckRule(
        "circular-parents",
        LOSS,
        "parents run in a circle: the client leaves out what came before",
    ),
    "circular-parents": CheckRule(
        "circular-parents",
        OLD,
        "parents run in a circle: clients 2.0.76 and 1.0.60 hang",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "duplicate-uuid": CheckRule(
        "duplicate-uuid", LOSS, "two different lines have one uuid: only the later one is sent"
    ),
    "duplicate-uuid-note": CheckRule("duplicate-uuid", NOTE, "a line stands twice"),
    "second-root": CheckRule(
        "second-root",
        LOSS,
        "a line without a parent starts the history anew: the client leaves out {lost} before it",
    ),
    "stray-tip": CheckRule(
        "stray-tip",
        LOSS,
        "the last line hangs on an old entry: the client leaves out {lost} that followed on it",
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
        "the latest timestamp is not at the tip: clients up to 2.1.45 go on here, without {lost}",
        fixed_in="2.1.150",
    ),
    "gone-preserved": CheckRule(
        "gone-preserved",
        LOSS,
        "{gone} of the messages that the compaction preserved are gone: none of them is sent",
    ),
    "gone-anchor": CheckRule(
        "gone-preserved",
        LOSS,
        "what the messages that the compaction preserved follow on is gone: none of them is sent",
    ),
    "unanswered-call": CheckRule(
        "unanswered-call", LOSS, "a call has no result: the client leaves it out"
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
        "a second call has the same id: it is not sent",
        refused_before="2.1.150",
    ),
    "torn-line": CheckRule(
        "torn-line",
        OLD,
        "the last line is torn: clients up to 2.1.45 write their next line onto it",
        fixed_in="2.1.150",
    ),
    "no-newline": CheckRule(
        "no-newline",
        OLD,
        "the last line has no newline: clients up to 2.1.45 write their next line onto it",
        fixed_in="2.1.150",
    ),
    "several-values": CheckRule(
        "several-values", LOSS, "several entries stand on one line: the client reads only the first"
    ),
    "several-values-old": CheckRule(
        "several-values",
        OLD,
        "something stands behind an entry on its line: clients up to 2.1.45 read none of it",
        fixed_in="2.1.150",
    ),
    "several-values-note": CheckRule(
        "several-values", NOTE, "several values stand on one line, in which nobody says anything"
    ),
    "unreadable-line": CheckRule(
        "unreadable-line", LOSS, "the client cannot read this line: it is not JSON"
    ),
    "unreadable-note": CheckRule(
        "unreadable-line", NOTE, "the client cannot read this line, which says nothing"
    ),
    "nul-line": CheckRule("nul-line", NOTE, "a line of NUL bytes: the client skips it"),
    "invalid-utf-8": CheckRule(
        "invalid-utf-8", NOTE, "bytes that are not UTF-8: the client replaces them"
    ),
    "byte-order-mark": CheckRule("byte-order-mark", NOTE, "the line starts with a byte order mark"),
    "empty-prompt": CheckRule(
        "empty-text", FATAL, "an empty prompt is sent as it is: the API refuses every request"
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
        "an answer of white space: clients up to 2.0.76 send it, and the API refuses it",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "text-answer": CheckRule(
        "text-answer",
        OLD,
        "an answer is a text without a block: clients up to 2.1.150 fail to resume the session",
        fixed_in="2.1.325",
        refused_before="2.1.325",
    ),
    "text-error": CheckRule(
        "text-answer",
        OLD,
        "an API error is a text without a block: clients up to 2.0.76 fail to resume the session",
        fixed_in="2.1.45",
        refused_before="2.1.45",
    ),
    "no-message-id": CheckRule(
        "no-message-id",
        NOTE,
        "answers have no message id: clients join those of a turn, since 2.1.325 for some models",
        fixed_in="2.1.325",
    ),
    "bare-block": CheckRule(
        "bare-block",
        LOSS,
        "a block is not an object: the client leaves it out",
        refused_before="2.1.325",
    ),
    "unsigned-thinking": CheckRule(
        "unsigned-thinking",
        FATAL,
        "thinking without a signature is sent as it is: the API refuses every request",
    ),
    "thinking-only": CheckRule(
        "thinking-only",
        OLD,
        "an answer is nothing but thinking: clients up to 2.0.76 send it so",
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
        "one of {images} images is {side} pixels long: of more than 20, the API refuses any over "
        "2000",
    ),
    "image-count": CheckRule(
        "image-count",
        FATAL,
        "{images} images would be sent: the API refuses more than 100",
    ),
    "large-result": CheckRule(
        "large-result", NOTE, "a result is {size} kB long, and sent each time"
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
        "the session ran in {cwd}, but lies in {folder}: clients up to 2.1.150 do not find it",
        MOVE,
        fixed_in="2.1.325",
        refused_before="2.1.325",
    ),
    "hidden": CheckRule(
        "hidden", NOTE, "it was made by a program (sdk-cli): the client's picker does not list it"
    ),
    "lost-output": CheckRule("lost-output", NOTE, "the saved output {name} is gone", None),
    "lost-subagent": CheckRule("lost-subagent", NOTE, "the sub-agent's file {name} is gone", None),
}
