"""Does the real client resume edited and cloned sessions, and send what was promised?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/edits.py CLIENT FILE ...

Each session is cloned, plainly and with each transform. A clone must have no fault that its source
lacks, say what the transform promises of the source's own conversation, and reach the API so.
With `--straighten` every clone is made straight as well: what clients up to 2.1.45 want.
"""

import json
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from client import bring_up_loopback
from resume import resume, said

from turnlog.conversation.session import Session, open_session
from turnlog.edit.apply import create_session
from turnlog.edit.clone import plan_clone
from turnlog.edit.journal import Journal
from turnlog.edit.plan_builder import EditOptions, prepared
from turnlog.edit.transforms import PREVIEW, TransformOptions
from turnlog.errors import TurnlogError
from turnlog.store.paths import Store

Piece = tuple[str, str, str]
"""Role, block type and content of a block."""
Promise = Callable[[list[Piece]], list[Piece]]

FILLERS = {
    "Continue from where you left off.",
    "No response requested.",
    "(no content)",
    "[Tool use interrupted]",
    "Tool loaded.",
}
NEWS = "<task-notification>"
KEPT_TURNS = 1
IMAGE = "<image>"
AGENT = re.compile(r"agentId: \w+")
CONTINUED = "This session is being continued from a previous conversation"


def pieces(messages: list[dict[str, Any]], session: str) -> list[Piece]:
    """Return the content, block by block, without ids and the client's own fillers."""
    found: list[Piece] = []
    for role, blocks in said(messages):
        for block in blocks:
            told = AGENT.sub("agentId: …", _told(block).replace(session, "…"))
            is_news = told.startswith(NEWS)  # newer clients wrap it in a reminder
            if told.strip() and told not in FILLERS and not is_news:
                found.append((role, block["type"], told))
    return found


def _told(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return block["text"].strip()
        case "thinking":
            return block.get("thinking") or block.get("signature") or ""
        case "tool_use":
            return f"{block['id']} {json.dumps(block['input'], sort_keys=True)}"
        case "tool_result":
            return f"{block['tool_use_id']} {_text_of(block.get('content'))}"
        case _:
            return json.dumps(block, sort_keys=True)


def _text_of(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text") or f"<{part['type']}>") for part in content or [])


def without(*types: str) -> Promise:
    return lambda found: [piece for piece in found if piece[1] not in types]


def same(found: list[Piece]) -> list[Piece]:
    return found


def short(found: list[Piece]) -> list[Piece]:
    """Results by their starts."""
    return [(r, t, told[:PREVIEW] if t == "tool_result" else told) for r, t, told in found]


def unpictured(found: list[Piece]) -> list[Piece]:
    """A word in the place of every image."""
    return [
        (role, "text", "[image removed]")
        if kind == "image"
        else (role, kind, told.replace(IMAGE, "[image removed]"))
        for role, kind, told in found
    ]


PROMISES: dict[str, Promise] = {
    "": same,
    "strip_tools": without("tool_use", "tool_result", "thinking"),
    "stub_results": short,
    "strip_thinking": without("thinking"),
    "strip_images": unpictured,
    "strip_progress": same,
    "straighten": same,
    "repair": same,
    "compress": same,
    "strip_tools strip_thinking strip_images strip_progress compress straighten repair": without(
        "tool_use", "tool_result", "thinking"
    ),
}
"""What each set of transforms keeps of a conversation."""


def is_kept(names: str, source: list[Piece], result: list[Piece]) -> bool:
    """Return whether a result keeps what was promised of its source."""
    promise = PROMISES[names]
    wanted, found = promise(source), promise(result)
    if "compress" in names and wanted != found:
        summary, *found = found or [("", "", "")]
        is_summary = summary[2].startswith(CONTINUED) or not wanted
        return is_summary and wanted[len(wanted) - len(found) :] == found
    if "repair" in names:
        rest = iter(found)
        return all(piece in rest for piece in wanted)
    return wanted == found


def verdict(sent: list[Piece] | None, ours: list[Piece]) -> str:
    if sent is None:
        return "refused"
    if sent == ours:
        return "equal"
    drop = without("thinking")
    if drop(sent) == drop(ours):
        return "equal but for thinking"
    return "equal in another order" if sorted(sent) == sorted(ours) else "DIFFERENT"


def clone_of(store: Store, source: Session, names: list[str]) -> Session:
    wanted = EditOptions(
        names, TransformOptions(keep_last=KEPT_TURNS if "compress" in names else 0)
    )
    with prepared(source, wanted) as made:
        clone = plan_clone(store, source, made.plan, made.tally)
        create_session(Journal(store.root / "journal"), "clone", source, clone.files)
    return open_session(clone.path)


def judge(client: list[str], path: Path, names: str, is_straight: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "projects", path.parent.name)
        shutil.copytree(path.parent, project)
        source = open_session(project / path.name)
        added = ["straighten"] if is_straight and "straighten" not in names else []
        try:
            clone = clone_of(Store(Path(folder)), source, [*names.split(), *added])
        except TurnlogError as error:
            return f"REFUSED BY TURNLOG: {error.message}"
        ours = pieces(clone.context(), clone.id)
        if not is_kept(names, pieces(source.context(), source.id), ours):
            return "NOT AS PROMISED"
        sent = resume(client, clone.path)
        return verdict(None if sent is None else pieces(sent, clone.id), ours)


def main() -> int:
    """Clone and resume sessions, print a row for each, and how many of each verdict."""
    arguments = [each for each in sys.argv[1:] if each != "--straighten"]
    client, paths = shlex.split(arguments[0]), map(Path, arguments[1:])
    bring_up_loopback()
    counts: Counter[tuple[str, str]] = Counter()
    for path in paths:
        for names in PROMISES:
            found = judge(client, path, names, "--straighten" in sys.argv)
            counts[names or "clone", found] += 1
            print(f"{found:24} {names or 'clone':40} {path}", flush=True)
    for (names, found), count in sorted(counts.items()):
        print(f"{count:6}  {found:24} {names}")
    return 1 if any(found.isupper() for _, found in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
