"""Turn typed text into prompts: expand custom commands and attach mentioned files."""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

from turnlog.agent.chat.built_in_prompts import BUILT_IN
from turnlog.agent.chat.mentions import mention_blocks
from turnlog.agent.chat.server_prompts import resource_context, resource_names, server_commands
from turnlog.agent.config.command_expansion import CommandContext, Expanded, expand, rules_of
from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.config.skills import NAME as SKILL
from turnlog.agent.config.skills import for_model, skill_text, skill_tool
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.lifecycle_hooks import Prompt, expand_command
from turnlog.agent.loop.loop import Loop
from turnlog.agent.loop.model_switch import fit_tracking
from turnlog.agent.mcp.connections import Connections
from turnlog.agent.model.model_names import choose
from turnlog.agent.permissions import VerdictKind
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Runs, Uses
from turnlog.agent.workspace.tool import Grant, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

TYPED = re.compile(r"/([\w.:-]+)(?:\s+(.*))?", re.DOTALL)
RECORDED = (
    "<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
    "<command-args>{arguments}</command-args>"
)
"""The form in which clients record a typed command."""


class PipedPrompt(str):
    """A prompt followed by piped text, in which `@` mentions are not expanded."""

    __slots__ = ("typed",)

    def __new__(cls, typed: str, piped: str) -> Self:
        made = super().__new__(cls, f"{typed}\n\n{piped}")
        made.typed = typed
        return made


class Prompts:
    """Expands the prompts of a conversation."""

    def __init__(self, loop: Loop, commands: Mapping[str, CustomCommand]) -> None:
        self.commands = dict(commands)
        self._loop = loop
        self._servers: Connections | None = None
        self._usual = self._lent = loop.parts.choice
        """The user's model, and the one that a command selects for its turn."""

    def take_servers(self, servers: Connections) -> None:
        """Offer the prompts and resources of the running servers."""
        self._servers = servers
        own = {name: each for name, each in self.commands.items() if not each.fetch}
        theirs = server_commands(servers, self._loop.parts)
        self.commands = own | {name: each for name, each in theirs.items() if name not in own}

    @property
    def resources(self) -> list[str]:
        """The MCP resources that can be mentioned, as `server:uri`."""
        return resource_names(self._servers) if self._servers else []

    def find(self, text: str) -> tuple[CustomCommand, str] | None:
        """Return the command that a text invokes, with its arguments, if users may invoke it."""
        found = TYPED.fullmatch(text.strip())
        command = self.commands.get(found[1]) if found else None
        return (command, found[2] or "") if found and command and command.for_user else None

    async def read(self, text: str) -> Prompt:
        """Return the prompt for the loop; the text of a command follows as context for the model.

        Raise `ToolError` if hooks block a command, or if a shell command in it fails or may not
        run.
        """
        self.begin_turn()
        typed = text.typed if isinstance(text, PipedPrompt) else text
        found = self.find(text)
        if not found:
            return await self._built_in(text, typed)
        command, arguments = found
        await self._run_hooks(command, arguments, text)
        if command.fetch:
            self._loop.pending_context.append(await command.fetch(arguments))
            await self._attach_files(typed)
            return RECORDED.format(name=command.name, arguments=arguments)
        # With `cat log | turnlog chat -p /fix`, paths in the log must not be attached as if they
        # were typed.
        named = self.find(typed)
        body = await self._expand(command, arguments, self._loop.parts, named[1] if named else "")
        if command.model:
            self._lend(command.model)
        self._loop.pending_context.append(skill_text(command, body.text))
        # A command's text is a prompt, in which `@` mentions files; a skill's text is not.
        await self._attach_files(typed, () if command.is_skill else body.written)
        return RECORDED.format(name=command.name, arguments=arguments)

    async def _built_in(self, text: str, typed: str) -> Prompt:
        """Return the prompt for a built-in command, or for text that is no command."""
        await self._attach_files(typed)
        found = TYPED.fullmatch(text.strip())
        command = BUILT_IN.get(found[1]) if found else None
        if not found or not command:
            return str(text)
        arguments = (found[2] or "").strip()
        self._loop.pending_context.append(command.write(arguments))
        return RECORDED.format(name=command.name, arguments=arguments)

    async def _expand(
        self, command: CustomCommand, arguments: str, parts: Parts, typed: str | None = None
    ) -> Expanded:
        place = _place_of(parts)
        parts.rules.for_turn += rules_of(command, place)
        self._loop.parts.hooks.add(command.hooks)
        return await expand(command, arguments, place, typed)

    async def _run_hooks(self, command: CustomCommand, arguments: str, text: str) -> None:
        """Run UserPromptExpansion hooks for a typed command."""
        about = {
            "expansion_type": "mcp_prompt" if command.fetch else "slash_command",
            "command_name": command.name,
            "command_args": arguments,
            "command_source": f"{command.origin.partition(':')[0]}Settings",
            "prompt": text,
        }
        why, context = await expand_command(self._loop.parts, about)
        if why:
            raise ToolError(why)
        self._loop.pending_context += context

    async def preload(self, name: str, parts: Parts) -> Prompt | None:
        """Return a skill's text for a sub-agent; None if the model may not use it."""
        command = for_model(self.commands).get(name)
        if command is None or _is_forbidden(name, parts):
            return None
        body = (await expand(command, "", _place_of(parts))).text
        head = f"<command-message>{name}</command-message>\n<command-name>{name}</command-name>"
        texts = (f"{head}\n<skill-format>true</skill-format>", skill_text(command, body))
        return [{"type": "text", "text": text} for text in texts]

    def tool(self, parts: Parts) -> Tool | None:
        """Return the tool with which a conversation or sub-agent invokes skills, if there are any.

        Commands in a skill run in the mode and directory of the conversation that invokes it; its
        rules apply until the turn ends.
        """
        known = for_model(self.commands)

        async def take_up(command: CustomCommand, arguments: str) -> str:
            return (await self._expand(command, arguments, parts)).text

        return skill_tool(known, take_up) if known else None

    async def _attach_files(self, typed: str, written: Sequence[str] = ()) -> None:
        """Attach the files mentioned in typed text or in a command's file."""
        parts = self._loop.parts
        blocks = await mention_blocks(typed, parts.workspace, parts.rules, parts.ask, written)
        if blocks:
            self._loop.pending_context.append(blocks)
        if self._servers:
            self._loop.pending_context += await resource_context(typed, self._servers, parts)

    def begin_turn(self) -> None:
        """Reset the model and rules that a command set for the previous turn."""
        parts = self._loop.parts
        parts.rules.for_turn = ()
        # Compared by identity: if the user has chosen another model since, that choice stays.
        if parts.choice is self._lent:
            parts.choice = self._usual
            fit_tracking(parts)

    def _lend(self, model: str) -> None:
        parts = self._loop.parts
        self._usual = parts.choice
        parts.choice = self._lent = choose(model, os.environ)
        fit_tracking(parts)


def _place_of(parts: Parts) -> CommandContext:
    run = partial(run_injected, workspace=parts.workspace, rules=parts.rules)
    return CommandContext(parts.recorder.facts.session_id, parts.workspace.root, run)


def _is_forbidden(name: str, parts: Parts) -> bool:
    """Return whether a rule denies a skill or asks about it; agents must not bypass such a rule."""
    verdict = parts.rules.decide(SKILL, [Uses(name)], parts.workspace)
    return verdict.kind is not VerdictKind.ALLOW and verdict.is_firm


async def run_injected(text: str, workspace: Workspace, rules: Rules) -> str:
    """Return the output of a shell command; raise `ToolError` if it is not allowed or fails."""
    outcome = await run_permitted(text, workspace, rules, "; see allowed-tools")
    if outcome.is_error:
        raise ToolError(f"`{text}` failed: {outcome.content}")
    return str(outcome.content)


async def run_permitted(
    text: str, workspace: Workspace, rules: Rules, advice: str = ""
) -> ToolOutcome:
    """Run a shell command that the permission rules allow without asking; raise otherwise."""
    directory = workspace.settle()
    access = Runs(text)
    # A verdict may take a second, in which the screen must not freeze.
    verdict = await asyncio.to_thread(rules.decide, "Bash", [access], workspace)
    if verdict.kind is not VerdictKind.ALLOW:
        raise ToolError(f"`{text}` may not run: {verdict.reason}{advice}")
    given = BASH.read({"command": text})
    grant = Grant(verdict.basis, {}, directory, rules.profile(verdict.basis, workspace))
    return await BASH.run(given, workspace, lambda printed: None, grant)
