"""Attach the content of files that a prompt mentions with `@`.

Only text that a person typed, or wrote into a custom command, can mention files: `@/etc/passwd` in
the output of a program or in another file attaches nothing.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnlog.agent.config.memory_text import PUNCTUATION
from turnlog.agent.permissions import Verdict, VerdictKind
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.permissions.policy import Ask, Question
from turnlog.agent.tools.files.pdf import count_pages
from turnlog.agent.tools.files.pinned_files import Pinned, open_place, pin
from turnlog.agent.tools.read import READ
from turnlog.agent.workspace.access import Basis, Reads, targets_of, with_targets
from turnlog.agent.workspace.tool import Grant, ToolError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.conversation.quoted_text import escape_tags
from turnlog.format.json_values import Fields
from turnlog.store.paths import expand_user, is_there

MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|((?:\\ |[^\s\\])+))')
READ_FILE = "What {path} holds, as Read tells it:"
LISTED = "What is in {path}:"
FOLLOWS = "{path} follows."
NOT_READ = "{path} was mentioned, but not read: {why}"
REMINDER = "<system-reminder>\n{content}\n</system-reminder>"
SHOWN = (
    (re.compile(r"<system-reminder>\nWhat (.+) holds, as Read tells it:\n"), "read"),
    (re.compile(r"<system-reminder>\nWhat is in (.+):\n"), "listed"),
    (re.compile(r"<system-reminder>\n(.+) follows\.\n"), "read"),
    (re.compile(r"<system-reminder>\n(.+) was mentioned, but not read: "), "did not read"),
)
"""Patterns of the attached blocks, each with the verb shown to the user."""
MOST_NAMES = 1_000
"""Maximum number of names listed for a mentioned directory."""
SHORT_PDF = 10
"""Maximum pages of an attached PDF; the model reads longer ones with Read."""


def mentioned_paths(text: str, cwd: Path) -> list[Path]:
    """Return the paths that a text mentions, each once."""
    return list(dict.fromkeys(_found(text, cwd)))


async def mention_blocks(
    typed: str,
    workspace: Workspace,
    rules: Rules,
    ask: Ask | None = None,
    written: Sequence[str] = (),
) -> list[Fields]:
    """Return the mentioned files that Read is allowed to read as blocks of the prompt.

    The user may be asked about files mentioned in `typed` text. Files mentioned in `written` text,
    which comes from a command's file, are attached only if they may be read without asking.
    """
    named = {path: None for text in written for path in mentioned_paths(text, workspace.cwd)}
    # Typed paths come last: the user is asked about one that is both written and typed.
    named |= dict.fromkeys(mentioned_paths(typed, workspace.cwd), ask)
    blocks: list[Fields] = []
    for mentioned, asked in named.items():
        path = workspace.path_of(str(mentioned))
        # Resolved before the verdict: while the user is asked, the file may become a link.
        accesses = [Reads(path)]
        targets = targets_of(accesses)
        verdict = rules.decide(READ.name, with_targets(accesses, targets), workspace)
        if verdict.kind is VerdictKind.ASK and await _is_agreed(path, verdict, rules, asked):
            verdict = Verdict(VerdictKind.ALLOW, "the user agreed", basis=Basis.USER)
        if verdict.kind is VerdictKind.ALLOW:
            blocks += await _blocks_of(path, workspace, Grant(verdict.basis, targets))
        elif verdict.kind is VerdictKind.ASK:
            blocks.append(_reminder(NOT_READ.format(path=path, why=verdict.reason), ""))
    return blocks


def describe_mention(text: str) -> tuple[str, str] | None:
    """Return the verb and the path to show for a mention block; None for any other text.

    >>> describe_mention("<system-reminder>\\nWhat a.py holds, as Read tells it:\\n     1\\tx")
    ('read', 'a.py')
    """
    found = ((done, shape.match(text)) for shape, done in SHOWN)
    return next(((done, match[1]) for done, match in found if match), None)


async def _is_agreed(path: Path, verdict: Verdict, rules: Rules, ask: Ask | None) -> bool:
    if ask is None:
        return False
    reply = await ask(Question(READ.name, READ.name, {"file_path": str(path)}, verdict))
    if reply.kind == "allow" and reply.remember:
        rules.remember(reply.remember)
    return reply.kind == "allow"


def _found(text: str, cwd: Path) -> Iterator[Path]:
    for quoted, plain in MENTION.findall(text):
        name = quoted or plain.replace("\\ ", " ")
        # In `look at @a.py.` the dot ends the sentence, but a file may also be called `a.`.
        for each in (name, name.rstrip(PUNCTUATION)):
            path = cwd / expand_user(each)
            if each and is_there(path):
                yield path
                break


async def _blocks_of(path: Path, workspace: Workspace, grant: Grant) -> list[Fields]:
    pinned = pin(path, grant)
    try:
        if pinned.target.is_dir():
            names = "\n".join(_names_in(pinned)[:MOST_NAMES])
            return [_reminder(LISTED.format(path=path), names)]
        content = await _content(pinned, workspace, grant)
    except (OSError, ToolError) as error:
        content = str(error)
    if isinstance(content, str):
        return [_reminder(READ_FILE.format(path=path), content)]
    return [_reminder(FOLLOWS.format(path=path), ""), *content]


def _names_in(pinned: Pinned) -> list[str]:
    with open_place(pinned) as place:
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    try:
        with os.scandir(listed) as entries:
            return sorted(entry.name + "/" * entry.is_dir() for entry in entries)
    finally:
        os.close(listed)


async def _content(pinned: Pinned, workspace: Workspace, grant: Grant) -> str | list[Fields]:
    if pinned.path.suffix.lower() == ".pdf":
        pages = await asyncio.to_thread(count_pages, pinned.target)
        if pages > SHORT_PDF:
            return f"It has {pages} pages: read those that you need, by their numbers."
    given = READ.read({"file_path": str(pinned.path)})
    return (await READ.run(given, workspace, lambda text: None, grant)).content


def _reminder(head: str, text: str) -> Fields:
    # A stranger's file must not be able to close the reminder tag around it.
    content = escape_tags("\n".join(filter(None, (head, text))))
    return {"type": "text", "text": REMINDER.format(content=content)}
