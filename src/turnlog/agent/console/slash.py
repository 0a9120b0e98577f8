"""Commands of turnlog's own: one table from names to functions."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from turnlog.agent.console import listings
from turnlog.agent.console.menu import Choices, Item, Menu
from turnlog.agent.console.picker import session_items, sessions_in
from turnlog.agent.console.rewinding import rewind
from turnlog.agent.console.talk import Talk
from turnlog.agent.turn.models import NEWEST, choose, model_named
from turnlog.conversation.session import open_session
from turnlog.edit.plan import encoded
from turnlog.edit.title import clean_title
from turnlog.errors import UsageError
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import ViewOptions, rows_of
from turnlog.store.catalog import live_sessions
from turnlog.store.find import find_session
from turnlog.store.paths import title_file

Run = Callable[[Talk, str], Awaitable[None]]
BATCH = 20
"""Sessions that are described at once."""


async def clear(talk: Talk, arguments: str) -> None:
    """Start a new conversation."""
    last = talk.chat.parts.recorder
    await talk.switch("clear")
    kept = f"; the one before stays as {last.facts.session_id[:8]}" if last.chain else ""
    talk.telling.note(f"a new conversation{kept}")


async def compact(talk: Talk, arguments: str) -> None:
    """Put a summary in the place of the conversation so far."""
    await talk.send(f"/compact {arguments}".strip(), "typed")


async def resume(talk: Talk, arguments: str) -> None:
    """Go on with another session."""
    path = find_session(talk.store, arguments).path if arguments else await _pick(talk)
    if path is None or path == talk.chat.parts.recorder.path:
        return
    if path.stem in live_sessions(talk.store):
        talk.telling.note(
            "this session is open elsewhere, too: both would write to it", is_error=True
        )
    await talk.switch("resume", resume=path)


async def _pick(talk: Talk) -> Path | None:
    """Let the user choose a session; their descriptions come in while that is done."""
    menu = Menu(["Go on with which session?"], [], "enter to go on · esc to stay", is_narrowed=True)
    own = talk.chat.parts.recorder.path
    paths = [path for path in sessions_in(talk.store, talk.options.cwd) if path != own]
    filling = asyncio.create_task(_fill(talk, menu, paths))
    try:
        return await talk.face.choose(menu)
    finally:
        filling.cancel()
        with suppress(asyncio.CancelledError):
            await filling


async def _fill(talk: Talk, menu: Menu, paths: list[Path]) -> None:
    for start in range(0, len(paths), BATCH):
        batch = paths[start : start + BATCH]
        menu.items += await asyncio.to_thread(session_items, batch)
        talk.face.redraw()


async def export(talk: Talk, arguments: str) -> None:
    """Write the conversation to a file, as Markdown."""
    recorder = talk.chat.parts.recorder
    if not recorder.path.exists():
        raise UsageError("nothing was said yet")
    named = arguments or f"{datetime.now():%Y-%m-%d-%H%M%S}-{recorder.facts.slug}.md"
    path = talk.options.cwd / Path(named).expanduser()
    lines = to_markdown(rows_of(open_session(recorder.path), ViewOptions()))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    talk.telling.note(f"written to {path}")


async def model(talk: Talk, arguments: str) -> None:
    """Show or change the model."""
    parts = talk.chat.parts
    named = arguments
    if not named:
        known = {name: model_named(name, os.environ) for name in NEWEST}
        items = [Item(name, name, model) for name, model in known.items()]
        menu = Choices(["Which model?", f"now {parts.choice.model}"], items, "or /model ID")
        named = await talk.face.choose(menu)
    if named:
        parts.choice = choose(named, os.environ)
        talk.telling.note(f"the model is {parts.choice.model}")


async def rename(talk: Talk, arguments: str) -> None:
    """Give the session a name, in its lines and in the file beside it, as the client does."""
    recorder = talk.chat.parts.recorder
    title = clean_title(arguments)
    about = {"sessionId": recorder.facts.session_id}
    recorder.aside({"type": "custom-title", "customTitle": title} | about)
    recorder.aside({"type": "agent-name", "agentName": title} | about)
    saved = title_file(recorder.path)
    saved.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    saved.write_bytes(encoded({"customTitle": title}))
    talk.telling.note(f"the session is called {title}")


async def add_folder(talk: Talk, arguments: str) -> None:
    """Work in a further directory too."""
    path = talk.chat.parts.workspace.path_of(arguments).resolve()
    if not arguments or not path.is_dir():
        raise UsageError(f"{arguments or 'nothing'} is not a directory")
    talk.chat.parts.workspace.directories.append(path)
    talk.telling.note(f"{path} may be worked in, too")


async def leave(talk: Talk, arguments: str) -> None:
    """Leave."""
    talk.face.leave()


COMMANDS: dict[str, Run] = {
    "help": listings.show_help,
    "clear": clear,
    "compact": compact,
    "context": listings.show_context,
    "cost": listings.show_cost,
    "export": export,
    "model": model,
    "rename": rename,
    "resume": resume,
    "rewind": rewind,
    "permissions": listings.show_permissions,
    "add-dir": add_folder,
    "memory": listings.show_memory,
    "agents": listings.show_agents,
    "skills": listings.show_skills,
    "hooks": listings.show_hooks,
    "mcp": listings.show_servers,
    "tasks": listings.show_tasks,
    "exit": leave,
}
