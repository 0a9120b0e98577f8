"""Titles as the client's `/rename` writes them, and tags as the Agent SDK's `tag_session` does."""

import json
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.conversation.session import open_session
from turnlog.edit.apply import Change
from turnlog.errors import UsageError
from turnlog.format.jsonl import FileState, read_lines
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import title_file
from turnlog.store.symlinks import without_links
from turnlog.text import one_line

UNSEEN = frozenset({"Cf", "Cn", "Co", "Cs"})
"""Unicode categories of characters that the Agent SDK also removes from tags."""


def clean_title(text: str) -> str:
    """Return a title on one line.

    >>> clean_title("  Mend the" + chr(10) + "cart ")
    'Mend the cart'
    """
    encodable = text.encode("utf-8", "replace").decode()
    title = " ".join(one_line(encodable).split())
    if not title:
        raise UsageError("the title is empty", "turnlog rename --help")
    return title


def title_changes(session: Path, title: str) -> list[Change]:
    """Plan a new title, both in the session's lines and in the file that 2.1.325 also reads.

    That file is left alone if a symlink leads to it.
    """
    changes = [Change(session, _named(session, title), FileState.of(session))]
    for saved in without_links(session.parent, [title_file(session)]):
        state = FileState.of(saved) if saved.exists() else None
        changes.insert(0, Change(saved, [_encoded({"customTitle": title})], state))
    return changes


def clean_tag(text: str) -> str:
    """Return a tag on one line, without invisible characters.

    >>> clean_tag(" ﬁx" + chr(0x200B) + " me ")
    'fix me'
    """
    normalized = unicodedata.normalize("NFKC", text)
    visible = (char for char in normalized if unicodedata.category(char) not in UNSEEN)
    tag = " ".join(one_line("".join(visible)).split())
    if not tag:
        raise UsageError("the tag is empty", "turnlog tag SESSION --remove")
    return tag


def tag_changes(session: Path, tag: str) -> list[Change]:
    """Plan a new tag; an empty one removes it."""
    # The SDK recognizes a tag by the first bytes of its line, so `type` comes first.
    entry = {"type": "tag", "tag": tag, "sessionId": session.stem}
    return [Change(session, _with_entries(session, [entry]), FileState.of(session))]


def _named(session: Path, title: str) -> Iterator[bytes]:
    return _with_entries(session, _entries(session, title))


def _with_entries(session: Path, entries: Iterable[dict[str, str]]) -> Iterator[bytes]:
    for line in read_lines(session):
        yield line.raw if line.is_whole else line.raw + b"\n"
    for entry in entries:
        yield _encoded(entry) + b"\n"


def _entries(session: Path, title: str) -> Iterator[dict[str, str]]:
    """Yield the entries that 2.1.150 and later write for a title.

    Clients from 2.0.42 on show the first one (observed).
    """
    yield {"type": "custom-title", "customTitle": title, "sessionId": session.stem}
    yield {"type": "agent-name", "agentName": title, "sessionId": session.stem}
    if (describe(locate_session(session)).version or "").startswith("1."):
        # 1.0.60 shows only summaries, and finds them by the last entry of the conversation.
        tree = open_session(session).tree
        leaf = None if tree.active_leaf is None else tree.chain[tree.active_leaf].uuid
        if leaf:
            yield {"type": "summary", "summary": title, "leafUuid": leaf}


def _encoded(value: dict[str, str]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
