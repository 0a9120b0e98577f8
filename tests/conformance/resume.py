"""Does turnlog's context equal what the real client sends when it resumes a session?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/resume.py CLIENT FILE ...

CLIENT is the command of an installed client, such as `node …/cli.js` or the path of its binary.
Each session is copied into a home of its own, and the client talks to a scripted API on loopback:
in a network namespace (`unshare --net`) it can reach nothing else. Prints a row for each session
and how many of each verdict there are; exits with 1 if any is in capitals. A client drops the
thinking of models that it no longer offers, which is no difference of turnlog's.
"""

import json
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from uuid import NAMESPACE_OID, UUID, uuid5

from client import bring_up_loopback, environment_of, run_client

from support.scripted_api import answered, scripted_api
from turnlog.conversation.session import open_session
from turnlog.format.json_values import is_object
from turnlog.store.paths import folder_name, sidecar_folder

PROMPT = "CONFORMANCE what came before?"
DONE = answered({"type": "text", "text": "Done."})
REMINDER = "<system-reminder>"
UNCOMPACTED = {"DISABLE_COMPACT": "1", "DISABLE_MICROCOMPACT": "1"}
"""Let a client send what it reads: older ones clear images and results before they ask."""
Messages = list[tuple[str, list[dict[str, Any]]]]


def resume(
    client: list[str], session: Path, variables: Mapping[str, str] = UNCOMPACTED
) -> list[dict[str, Any]] | None:
    """Return the messages that the client sends when it resumes a session; None if it refuses."""
    with tempfile.TemporaryDirectory() as home, scripted_api(DONE) as api:
        work = Path(home, "work")
        folder = Path(home, ".claude", "projects", folder_name(str(work)))
        folder.mkdir(parents=True)
        work.mkdir()
        name = resumable_name(session)
        shutil.copy(session, folder / f"{name}.jsonl")
        if sidecar_folder(session).is_dir():
            shutil.copytree(sidecar_folder(session), folder / name)
        arguments = ["-p", PROMPT, "--resume", name]
        environment = environment_of(Path(home), api.url) | dict(variables)
        run_client([*client, *arguments], work, environment)
        asked = [request.body["messages"] for request in api.requests]
        return next((each for each in asked if PROMPT in json.dumps(each)), None)


def resumable_name(session: Path) -> str:
    """Return the id by which a client finds a session; it looks for UUIDs only."""
    try:
        return str(UUID(session.stem))
    except ValueError:
        return str(uuid5(NAMESPACE_OID, session.stem))


def said(messages: list[dict[str, Any]]) -> Messages:
    """Return messages without what the client adds: reminders, system notes, the new prompt."""
    found: Messages = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = [shorn(_as_object(block)) for block in blocks if not is_added(block)]
        if blocks and message["role"] != "system":
            found.append((message["role"], blocks))
    return found


def _as_object(block: object) -> dict[str, Any]:
    """Return a block; older clients send anything else unchanged."""
    return block if is_object(block) else {"type": "bare", "text": str(block)}


def is_added(block: object) -> bool:
    text = str(block.get("text") or "").lstrip() if is_object(block) else ""
    return text.startswith(REMINDER) or text == PROMPT


def shorn(block: dict[str, Any]) -> dict[str, Any]:
    """A block without cache marks, and without reminders appended to its result."""
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    content: Any = kept.get("content")
    if isinstance(content, list):
        kept["content"] = [part for part in cast("list[Any]", content) if not is_added(part)]
    elif isinstance(content, str):
        kept["content"] = content.partition(f"\n\n{REMINDER}")[0].rstrip()
    if isinstance(kept.get("text"), str):
        kept["text"] = kept["text"].removesuffix("\n")
    if kept.get("is_error") is False:
        del kept["is_error"]
    if kept.get("type") == "tool_use" and kept.get("name") == "Task":
        kept["name"] = "Agent"  # as the newest client calls it, in old sessions too
    return kept


def without_thinking(messages: Messages) -> Messages:
    """Leave out thinking, and answers that consist of nothing else."""
    kept = [
        (role, [block for block in blocks if "thinking" not in block["type"]])
        for role, blocks in messages
    ]
    return [(role, blocks) for role, blocks in kept if blocks]


def compare(sent: list[dict[str, Any]] | None, ours: Messages) -> str:
    """Return how what a client sent compares with turnlog's context."""
    if sent is None:
        return "refused"
    theirs = said(sent)
    if theirs == ours:
        return "equal"
    is_thoughtless = theirs == without_thinking(theirs) == without_thinking(ours)
    return "equal but for thinking" if is_thoughtless else "DIFFERENT"


def main() -> int:
    """Compare sessions, print a row for each and how many of each verdict."""
    client = shlex.split(sys.argv[1])
    bring_up_loopback()
    counts: Counter[str] = Counter()
    for path in map(Path, sys.argv[2:]):
        verdict = compare(resume(client, path), said(open_session(path).context()))
        counts[verdict] += 1
        print(f"{verdict:24} {path}", flush=True)
    for verdict, number in counts.most_common():
        print(f"{number:6}  {verdict}")
    return 1 if counts["DIFFERENT"] else 0


if __name__ == "__main__":
    sys.exit(main())
