"""Describe calls in one line, and shorten texts at natural boundaries."""

import re

from turnlog.conversation.call_titles import call_title
from turnlog.conversation.calls import Call, result_text
from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.prompts import REFUSED
from turnlog.format.entries import User

TITLE = 160
"""Maximum characters of a call's title."""
REASON = 100
LARGEST = 1 << 20
"""Maximum bytes of a result that is read to find the reason of a failure."""
EXIT = re.compile(r"Exit code (\d+)")
TAGS = re.compile(r"</?tool_use_error>")
ENDS = re.compile(r"[.!?:](?=\s)|[。！？]|\n")


def fact_of(log: NodeLog, call: Call, given: object, cwd: str | None) -> str:
    """Return a call in one line: the tool, its main argument and, if it failed, the reason.

    Paths are relative to the working directory.
    """
    title = call_title(call.name, given)
    if cwd and len(cwd) > 1:
        title = re.sub(rf"(?<![\w/]){re.escape(cwd.rstrip('/'))}/", "", title)
    outcome = _outcome(log, call)
    title = one_line(title, TITLE)
    return f"{call.name}{f': {title}' if title else ''}{f' → {outcome}' if outcome else ''}"


def result_of(log: NodeLog, call: Call) -> str:
    """Return the text of a call's result; empty if there is none."""
    entry = log.entry(call.result) if call.result else None
    return result_text(entry, call.id).strip() if isinstance(entry, User) else ""


def one_line(text: str, limit: int) -> str:
    """Return the first line of a text, cut to a limit.

    >>> one_line("make\\nmake test", 20), one_line("a long command", 8)
    ('make …', 'a long …')
    """
    text = text.strip()
    first = text.split("\n", 1)[0].rstrip()
    cut = first if len(first) <= limit else first[: limit - 1].rstrip()
    return f"{cut} …" if cut != text else cut


def first_part(text: str, limit: int) -> str:
    """Return the start of a text, cut at the end of a sentence or line.

    >>> first_part("It works. All of it, and more.", 20)
    'It works. […]'
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    ends = [found.end() for found in ENDS.finditer(text, 0, limit)]
    space = text.rfind(" ", limit // 2, limit)
    cut = ends[-1] if ends and ends[-1] > limit // 4 else space if space > 0 else limit
    return f"{text[:cut].rstrip()} […]"


def both_ends(text: str, limit: int) -> str:
    """Return a text without its middle if it is too long: prompts often end with the question.

    >>> both_ends("one\\ntwo\\nthree\\nfour\\nfive\\nsix", 20)
    'one\\ntwo\\nthree\\n[… 11 characters left out …]\\nsix'
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    start, end = limit * 3 // 4, len(text) - limit // 4
    start = max(text.rfind("\n", start // 2, start), 0) or start
    line = text.find("\n", end, end + limit // 8) + 1
    end = line or end
    left_out = f"[… {end - start:,} characters left out …]"
    return f"{text[:start].rstrip()}\n{left_out}\n{text[end:].lstrip()}"


def _outcome(log: NodeLog, call: Call) -> str:
    if call.result is None:
        return "no result"
    if not call.is_error:
        return ""
    text = result_of(log, call) if call.result.size <= LARGEST else ""
    text = TAGS.sub("", text).strip()
    if text.startswith(REFUSED):
        return "refused by the user"
    code = EXIT.match(text)
    reason = f"exit {code[1]}" if code else one_line(text, REASON)
    return f"failed ({reason})" if reason else "failed"
