"""Does a session that a client mirrors to the archive resume on an empty machine?

    sudo unshare --net env PYTHONPATH=src:tests python tests/conformance/session_store.py CLIENT

CLIENT is the path of an installed client. A program with the Agent SDK starts a session with a
sub-agent, mirrored to an archive and to a URL. Another home then resumes it from the archive, from
the URL, and, after `turnlog restore`, without any of this. The same is done with `turnlog-chat`.
Prints a row for each, and exits with 1 if any fails.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from claude_agent_sdk import AgentDefinition
from client import bring_up_loopback

import turnlog
from support.scripted_api import ScriptedApi, called, said, scripted_api
from support.sdk_rig import Rig, last, own_client
from turnlog.format.jsonl import read_lines
from turnlog.sdk import ArchiveSessionStore, FilesystemSessionStore
from turnlog.sdk.pull import pull_sessions
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.restore import restore_session
from turnlog.store.archive.verification import check_archive

AnyStore = ArchiveSessionStore | FilesystemSessionStore
SPY = AgentDefinition(description="Spies", prompt="You spy.", tools=["Bash"])
TASK = {
    "description": "Look",
    "prompt": "look around",
    "subagent_type": "spy",
    "run_in_background": False,
}


def machine(api: ScriptedApi, folder: Path, client: Path) -> Rig:
    """A machine with an empty home; all of them have the project in the same directory."""
    home = folder / "home"
    if home.exists():
        home.rename(folder / f"home-{len(list(folder.iterdir()))}")
    home.mkdir(parents=True)
    return Rig(api, home, client)


async def start(rig: Rig, store: AnyStore) -> str:
    """Have a conversation with a sub-agent; return the id of the session."""
    inner = ("s1", "Bash", {"command": "ls"})
    rig.script(called(("t1", "Agent", TASK)), called(inner), said("Seen."), said("Orchid."))
    messages = await rig.ask(
        "remember the flower",
        session_store=store,
        agents={"spy": SPY},
        permission_mode="bypassPermissions",
    )
    return last(messages).session_id


async def resume(rig: Rig, session: str, **given: Any) -> bool:
    """Return whether a resumed session sends what was said before."""
    rig.script(said("Again."))
    before = len(rig.bodies)
    await rig.ask("which flower?", resume=session, **given)
    sent = str([body["messages"] for body in rig.bodies[before:]])
    return all(text in sent for text in ("remember the flower", "Orchid.", "which flower?"))


def transcript(rig: Rig, session: str) -> list[Any]:
    """Return the entries on disk that a client mirrors: all but what it notes about requests."""
    (path,) = (rig.home / "claude" / "projects").rglob(f"{session}.jsonl")
    entries = [json.loads(line.raw) for line in read_lines(path)]
    return [entry for entry in entries if not entry["type"].startswith("api-request")]


def check(api: ScriptedApi, folder: Path, client: Path) -> Iterator[tuple[str, bool]]:
    """Yield the name of each check, and whether it holds."""
    archive = Archive(folder / "archive")
    store = ArchiveSessionStore(archive.folder)
    first = machine(api, folder, client)
    session = asyncio.run(start(first, store))
    (path,) = [
        file for file in archive.load(session).files if file.path.endswith(f"{session}.jsonl")
    ]
    mirrored = [json.loads(line.raw) for line in archive.lines(path)]
    yield "the archive has the lines on disk", mirrored == transcript(first, session)
    key: Any = {"project_key": path.path.split("/")[1], "session_id": session}
    yield "the sub-agent is mirrored", len(asyncio.run(store.list_subkeys(key))) == 1
    second = machine(api, folder, client)
    yield "resumes from the archive", asyncio.run(resume(second, session, session_store=store))
    yield "continues from the archive", asyncio.run(continued(machine(api, folder, client), store))
    yield "the archive has no damage", check_archive(archive).damages == []
    third = machine(api, folder, client)
    restore_session(archive, archive.load(session), third.home / "claude", True)  # noqa: FBT003
    yield "resumes after turnlog restore", asyncio.run(resume(third, session))
    log = turnlog.open(third.home / "claude")
    yield "turnlog reads it", log.session(session).turns[0]["prompt"] == "remember the flower"
    yield from check_url(api, folder, client)


async def continued(rig: Rig, store: AnyStore) -> bool:
    rig.script(said("Once more."))
    before = len(rig.bodies)
    await rig.ask("and now?", continue_conversation=True, session_store=store)
    return "Orchid." in str([body["messages"] for body in rig.bodies[before:]])


def check_url(api: ScriptedApi, folder: Path, client: Path) -> Iterator[tuple[str, bool]]:
    url = f"file://{folder}/remote"
    store = FilesystemSessionStore(url)
    session = asyncio.run(start(machine(api, folder, client), store))
    second = machine(api, folder, client)
    yield "resumes from a URL", asyncio.run(resume(second, session, session_store=store))
    archive = Archive(folder / "pulled")
    yield "is copied from a URL", pull_sessions(url, archive).changed == {session}
    third = machine(api, folder, client)
    restore_session(archive, archive.load(session), third.home / "claude", True)  # noqa: FBT003
    yield "resumes after copy and restore", asyncio.run(resume(third, session))


def report(name: str, client: Path, checks: Callable[..., Iterator[tuple[str, bool]]]) -> bool:
    """Run the checks with a client, print a row for each; return whether all hold."""
    is_sound = True
    with tempfile.TemporaryDirectory() as folder, scripted_api() as api:
        for title, holds in checks(api, Path(folder).resolve(), client):
            print(f"{name:14} {title:36} {'ok' if holds else 'FAILED'}", flush=True)
            is_sound = is_sound and holds
    return is_sound


def main() -> int:
    """Check the client that was named, and turnlog's own."""
    bring_up_loopback()
    with tempfile.TemporaryDirectory() as folder:
        clients = {"client": Path(sys.argv[1]), "turnlog-chat": own_client(Path(folder))}
        outcomes = [report(name, client, check) for name, client in clients.items()]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
