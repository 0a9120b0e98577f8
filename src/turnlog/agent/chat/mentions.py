"""Files that a prompt mentions with an at sign: their content goes along with it."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from turnlog.agent.access import Reads
from turnlog.agent.custom.markdown_text import PUNCTUATION
from turnlog.agent.files.pdf import count_pages
from turnlog.agent.permissions import Kind
from turnlog.agent.tool import ToolError
from turnlog.agent.tools.read import READ
from turnlog.agent.turn.parts import Rules
from turnlog.agent.workspace import Workspace
from turnlog.format.values import Fields

MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|((?:\\ |[^\s\\])+))')
MOST_NAMES = 1_000
"""Names of a mentioned directory that are told."""
SHORT_PDF = 10
"""Pages of a PDF that go along; of a longer one the model reads what it needs."""


def mentioned_paths(text: str, cwd: Path) -> list[Path]:
    """The files and directories that a text mentions, each once."""
    return list(dict.fromkeys(_found(text, cwd)))


async def mention_blocks(text: str, workspace: Workspace, rules: Rules) -> list[Fields]:
    """What the mentioned files hold, as blocks of the prompt; none that a rule forbids."""
    blocks: list[Fields] = []
    for path in mentioned_paths(text, workspace.cwd):
        if rules.decide("Read", [Reads(path)], workspace).kind is not Kind.DENY:
            blocks += await _told(path, workspace)
    return blocks


def _found(text: str, cwd: Path) -> Iterator[Path]:
    for quoted, plain in MENTION.findall(text):
        name = quoted or plain.replace("\\ ", " ")
        for each in (name, name.rstrip(PUNCTUATION)):
            path = cwd / Path(each).expanduser()
            if each and path.exists():
                yield path
                break


async def _told(path: Path, workspace: Workspace) -> list[Fields]:
    if path.is_dir():
        names = sorted(each.name + "/" * each.is_dir() for each in path.iterdir())
        return [_reminder(f"What is in {path}:", "\n".join(names[:MOST_NAMES]))]
    try:
        content = await _content(path, workspace)
    except (OSError, ToolError) as error:
        content = str(error)
    if isinstance(content, str):
        return [_reminder(f"What {path} holds, as Read tells it:", content)]
    return [_reminder(f"{path} follows.", ""), *content]


async def _content(path: Path, workspace: Workspace) -> str | list[Fields]:
    if path.suffix.lower() == ".pdf":
        pages = await asyncio.to_thread(count_pages, path)
        if pages > SHORT_PDF:
            return f"It has {pages} pages: read those that you need, by their numbers."
    given = READ.read({"file_path": str(path)})
    return (await READ.run(given, workspace, lambda text: None)).content


def _reminder(head: str, text: str) -> Fields:
    told = "\n".join(filter(None, (head, text)))
    return {"type": "text", "text": f"<system-reminder>\n{told}\n</system-reminder>"}
