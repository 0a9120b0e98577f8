"""Does turnlog's context equal what the real client sends when it resumes a session?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/resume.py CLIENT FILE ...

CLIENT is the command of an installed client, such as `node …/cli.js` or the path of its binary.
Each session is copied into a home of its own, and the client talks to a scripted API on loopback:
in a network namespace (`unshare --net`) it can reach nothing else. Prints a row for each session,
and exits with 1 if any differs.
"""

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

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
        shutil.copy(session, folder)
        if sidecar_folder(session).is_dir():
            shutil.copytree(sidecar_folder(session), folder / session.stem)
        arguments = ["-p", PROMPT, "--resume", session.stem]
        environment = environment_of(Path(home), api.url) | dict(variables)
        run_client([*client, *arguments], work, environment)
        asked = [request.body["messages"] for request in api.requests]
        return next((each for each in asked if PROMPT in json.dumps(each)), None)


def said(messages: list[dict[str, Any]]) -> Messages:
    """Messages without what the client makes anew: reminders, system notes, the new prompt."""
    found: Messages = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        blocks = [shorn(_as_object(block)) for block in blocks if not is_added(block)]
        if blocks and message["role"] != "system":
            found.append((message["role"], blocks))
    return found


def _as_object(block: object) -> dict[str, Any]:
    """A block; what is none, older clients send as it is."""
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


def main() -> int:
    """Compare sessions, print a row for each."""
    client = shlex.split(sys.argv[1])
    bring_up_loopback()
    different = 0
    for path in map(Path, sys.argv[2:]):
        sent = resume(client, path)
        ours = said(open_session(path).context())
        verdict = "refused" if sent is None else "equal" if said(sent) == ours else "DIFFERENT"
        different += verdict == "DIFFERENT"
        print(f"{verdict:10} {path}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
