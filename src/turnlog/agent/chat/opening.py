"""A chat, opened: a session that goes on or begins, with its tools, servers and commands."""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from turnlog.agent import settings as settings_files
from turnlog.agent.chat.assembly import Options, assemble
from turnlog.agent.chat.prompts import Prompts
from turnlog.agent.chat.trust import require_trust
from turnlog.agent.custom.commands import load_commands
from turnlog.agent.custom.definitions import load_agents
from turnlog.agent.custom.skills import for_model, listing
from turnlog.agent.events import Event
from turnlog.agent.loop import Loop
from turnlog.agent.servers.approval import ask_for, find_servers
from turnlog.agent.servers.connections import Connections
from turnlog.agent.session.resume import Resumed, fork, reopen
from turnlog.agent.subagents import Agents
from turnlog.agent.tool import Fields, Tool, ToolError
from turnlog.agent.toolbox import toolbox
from turnlog.agent.turn.asking import Ask
from turnlog.agent.turn.moments import Prompt, end_session, start_session
from turnlog.agent.turn.parts import Parts
from turnlog.agent.turn.spending import Spending
from turnlog.errors import UsageError
from turnlog.store.paths import Store

SKILLS = "The skills that you may take up with the Skill tool:\n"


@dataclass
class Chat:
    """An open chat."""

    loop: Loop
    prompts: Prompts
    servers: Connections
    server_states: list[Fields]
    """The MCP servers, and whether each runs."""
    notes: list[str]
    """What the user should know before it starts."""

    @property
    def parts(self) -> Parts:
        return self.loop.parts

    async def send(self, prompt: Prompt, source: str = "typed") -> AsyncGenerator[Event]:
        """Do what the user typed: a prompt, a command from a file, or /compact."""
        try:
            async with aclosing(await self._start(prompt, source)) as events:
                async for event in events:
                    yield event
        except ToolError as error:
            yield Spending().ended("blocked", str(error))

    async def _start(self, prompt: Prompt, source: str) -> AsyncGenerator[Event]:
        if isinstance(prompt, str):
            if prompt.split()[:1] == ["/compact"]:
                return self.loop.compact(prompt.partition("/compact")[2].strip())
            prompt = await self.prompts.read(prompt)
        return self.loop.run(prompt, source)

    async def close(self, reason: str = "other") -> None:
        """End it: hooks are told, servers and commands in the background stopped."""
        await end_session(self.parts, reason)
        await self.parts.workspace.shells.close()
        await self.servers.close()
        await self.parts.model.close()


async def open_chat(
    store: Store, options: Options, ask: Ask | None = None, approve: Ask | None = None
) -> Chat:
    """Open a chat; a session's file is made with its first prompt.

    `ask` is asked about calls, `approve` about what the project brings along: where nobody can be
    asked, its settings count (as documented of the client), but its servers do not start.
    """
    if approve:
        await require_trust(store, options.cwd, approve)
    settings = settings_files.load(store, options.cwd)
    os.environ.update(settings.env)
    path, resumed = _session_of(store, options)
    parts = assemble(store, options, settings, path, resumed)
    parts.ask = ask
    parts.model.prepare()
    found = await ask_for(find_servers(store, settings), settings, approve)
    loop = Loop(parts)
    prompts = Prompts(loop, load_commands(store, options.cwd))
    chat = Chat(loop, prompts, Connections(), [], found.problems)
    await chat.servers.start(found.configs, options.cwd)
    chat.notes += chat.servers.problems
    chat.server_states = [_state(name, chat.notes) for name in found.configs]
    chat.server_states += [{"name": name, "status": "pending"} for name in found.waiting]
    agents = Agents(path, parts, load_agents(store, options.cwd))
    parts.tools |= toolbox(agents.tool(), *_skills(chat), *chat.servers.tools)
    chat.loop.told += await start_session(parts, "resume" if options.resume else options.start)
    return chat


def _session_of(store: Store, options: Options) -> tuple[Path, Resumed]:
    """The file of the session, and what is in it already."""
    source = options.resume
    if source and not options.is_fork:
        return source, reopen(source)
    name = options.session_id or str(uuid4())
    path = store.project_of(str(options.cwd)) / f"{name}.jsonl"
    if path.exists():
        raise UsageError(f"session {name} exists already", f"--resume {name}")
    if source:
        fork(source, path)
        return path, reopen(path)
    return path, Resumed()


def _skills(chat: Chat) -> list[Tool]:
    """The tool that takes up skills, if there are any; the model is told which."""
    tool = chat.prompts.tool()
    if tool is None:
        return []
    chat.parts.system.append(SKILLS + listing(for_model(chat.prompts.commands).values()))
    return [tool]


def _state(server: str, problems: list[str]) -> Fields:
    has_failed = any(each.startswith(f"MCP server {server} ") for each in problems)
    return {"name": server, "status": "failed" if has_failed else "connected"}
