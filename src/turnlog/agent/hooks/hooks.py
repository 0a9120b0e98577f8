"""Fire hooks: select those that match an event, run them, and merge their outcomes.

All matching hooks run in parallel, each once even if several settings files name it.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from copy import copy
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from turnlog.agent.hooks.command_hooks import command_of, run_command
from turnlog.agent.hooks.hook_entries import news_text
from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.http_hooks import ANYTHING, Allowed, post
from turnlog.agent.hooks.matchers import (
    Applies,
    Groups,
    HandlerKey,
    key_of,
    matches,
    shown,
)
from turnlog.agent.hooks.outputs import HookOutcome, merge_outcomes, read_answer
from turnlog.agent.hooks.payload import SessionFacts, fill_placeholders
from turnlog.agent.hooks.prompt_hooks import HookResources, judge
from turnlog.agent.hooks.runs import Failed, Firing, HookReply, HookRun, timed
from turnlog.agent.workspace.spilled_results import fit_text, is_extract
from turnlog.format.json_values import Fields, is_object, objects_in
from turnlog.store.paths import sidecar_folder

LOG = logging.getLogger("turnlog.hooks")
LONGEST_TEXT = 10_000
"""Maximum characters of hook output sent to the model; longer output is saved to a file."""
TIMEOUTS = {"prompt": 30.0, "agent": 60.0}
"""Timeout in seconds of hooks that ask a model."""
MOST_AT_END = 60.0
"""Maximum timeout in seconds of SessionEnd hooks."""
END_BUDGET = "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS"
INTERACTIVE = "cli"
CALLBACK = "callback"
PLUGIN_VARIABLES = ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA")
MOST_WAKES = 8
"""Maximum number of times in a row that hooks wake the model."""

CallBack = Callable[[Firing], Awaitable[HookReply]]
Observe = Callable[[str, Firing, HookRun | None], None]
"""Takes the id of a run, the hook, and its result once it has ended."""


class Hooks:
    """The hooks of a conversation."""

    def __init__(
        self,
        groups: Groups,
        facts: SessionFacts,
        applies: Applies = lambda rule, call: True,
        allowed: Allowed = ANYTHING,
    ) -> None:
        self.facts = facts
        self.resources: HookResources | None = None
        """Model and MCP access for prompt, agent and MCP hooks."""
        self.news: list[str] = []
        """Messages of background hooks that wake the model."""
        self.wake: Callable[[], None] = lambda: None
        """Called when a message is queued."""
        self.wakes = 0
        """Number of times hooks woke the model since the user's last prompt."""
        self.show: Callable[[str], None] = lambda text: None
        """Called with the status message of a running hook."""
        self.ring: Callable[[str], None] = lambda sequence: None
        """Called with a terminal sequence that a hook requests."""
        self.call_back: CallBack | None = None
        """Calls a function of the host program."""
        self.observe: Observe = lambda run_id, firing, run: None
        """Called before and after each hook that is not a callback."""
        self.watched: list[Path] = []
        """Files that hooks asked to watch, besides those named by matchers."""
        self._groups = {event: list(each) for event, each in groups.items()}
        self._applies = applies
        self._allowed = allowed
        self._background: set[asyncio.Task[None]] = set()
        self._late: list[str] = []
        """Output of background hooks that was not delivered yet."""
        self._used: set[HandlerKey] = set()
        """Hooks with `once` that have run."""

    def groups(self, event: str) -> list[Fields]:
        """Return the hook groups of an event."""
        return self._groups.get(event, [])

    def add(self, groups: Groups) -> None:
        """Add hook groups, skipping those that are present."""
        for event, more in groups.items():
            present = self._groups.get(event, [])
            self._groups[event] = [*present, *(each for each in more if each not in present)]

    def within(self, resources: HookResources, more: Groups) -> "Hooks":
        """Return the hooks of a nested conversation, with groups of its own added."""
        # A shallow copy: `_background` and `_used` stay shared, so that closing the session also
        # ends the hooks of sub-agents, and a hook with `once` runs once in all conversations
        # together.
        inner = copy(self)
        inner.resources, inner._groups = resources, dict(self._groups)
        inner.news, inner._late = [], []
        inner.add(more)
        return inner

    def of_calls(self) -> "Hooks":
        """Return the hooks for calls made by a model that an agent hook asks.

        Hooks that ask a model are left out, as they could recurse without end.
        """
        inner = copy(self)
        inner.news, inner._late = [], []
        inner._groups = {
            event: [_without_models(group) for group in groups]
            for event, groups in self._groups.items()
            if event in EVENTS and EVENTS[event].is_tool
        }
        return inner

    async def fire(self, event: str, matched: str | None, fields: Fields) -> HookOutcome:
        """Run the hooks of an event whose matcher fits `matched`, and merge their outcomes."""
        name = f"{event}:{matched}" if matched else event
        effort = self.resources.effort if self.resources else None
        payload = self.facts.payload(event, fields, effort)
        awaited: list[Firing] = []
        for handler, group in self._chosen(event, matched, fields):
            limit = self._timeout(event, handler)
            is_project = bool(group.get("is_project"))
            firing = Firing(event, name, handler, payload, limit, is_project, _variables_of(group))
            if self._runs_in_background(firing):
                self.keep(self._run_aside(firing))
            else:
                awaited.append(firing)
        runs = await asyncio.gather(*map(self._run, awaited))
        outcomes = [self._outcome_of(run, each) for run, each in zip(runs, awaited, strict=True)]
        if EVENTS[event].delivers_late:
            # Merged like the output of a hook, so that the length limit applies here, too.
            outcomes.append(HookOutcome(context=[*self._late, *self.news]))
            self._late, self.news = [], []
        outcome = merge_outcomes(outcomes)
        if outcome.watched is not None:
            self.watched = [Path(each) for each in outcome.watched]
        return self._capped(outcome)

    def announce(self, event: str, matched: str, fields: Fields) -> None:
        """Run the hooks of an event in the background; the model sees their messages later."""
        if self._groups.get(event):
            self.keep(self._announce(event, matched, fields))

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Keep a task running in the background until the session ends."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """Cancel background hooks."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _chosen(
        self, event: str, matched: str | None, fields: Fields
    ) -> Iterator[tuple[Fields, Fields]]:
        """Yield the matching hooks, each once, with the group that it belongs to."""
        seen: set[HandlerKey] = set()
        for group in self._groups.get(event, ()):
            if not matches(group.get("matcher"), matched):
                continue
            for handler in objects_in(group.get("hooks")):
                key = key_of(group, handler)
                if key in seen | self._used or not self._is_meant(event, handler, fields):
                    continue
                seen.add(key)
                # `once` applies only to hooks of skills (documented).
                if handler.get("once") and "skill" in group:
                    self._used.add(key)
                yield handler, group

    def _is_meant(self, event: str, handler: Fields, fields: Fields) -> bool:
        # At events without a tool call there is nothing to match: the hook never runs (documented).
        rule = handler.get("if")
        if not isinstance(rule, str):
            return True
        return EVENTS[event].is_tool and self._applies(rule, fields)

    def _runs_in_background(self, firing: Firing) -> bool:
        """Return whether a hook runs in the background.

        In a non-interactive chat, a hook that may wake the model is awaited (2.1.325, observed).
        """
        wakes = firing.handler.get("asyncRewake") and self.facts.entrypoint == INTERACTIVE
        return firing.kind == "command" and bool(wakes or firing.handler.get("async"))

    async def _run(self, firing: Firing) -> HookRun:
        if firing.kind == CALLBACK:
            return await self._start(firing)
        run_id = str(uuid4())
        self.observe(run_id, firing, None)
        run = await self._start(firing)
        self.observe(run_id, firing, run)
        LOG.debug(
            "%s: %s: exit %s, %.0f ms", run.name, run.command, run.exit_code, 1e3 * run.seconds
        )
        return run

    async def _start(self, firing: Firing) -> HookRun:
        if message := firing.text("statusMessage"):
            self.show(message)
        if firing.kind == "command":
            command = command_of(firing, self.facts)
            return await run_command(firing.event, firing.name, command)
        return await timed(firing, shown(firing.handler), self._reply(firing))

    async def _reply(self, firing: Firing) -> HookReply:
        """Return the reply of a hook that is not a command."""
        if firing.kind not in EVENTS[firing.event].kinds:
            raise Failed(f"hooks of type {firing.kind} are not supported at {firing.event}")
        if firing.kind == "http":
            return await post(firing, self._allowed)
        if firing.kind == CALLBACK:
            if self.call_back is None:
                raise Failed("no program has registered this hook")
            return await self.call_back(firing)
        return await (self._call(firing) if firing.kind == "mcp_tool" else self._judge(firing))

    async def _call(self, firing: Firing) -> HookReply:
        if self.resources is None:
            raise Failed(f"MCP server {firing.text('server')} is not connected")
        given: Fields = fill_placeholders(firing.handler.get("input") or {}, firing.payload)
        text = await self.resources.call(firing.text("server"), firing.text("tool"), given)
        return HookReply(text, is_cut=is_extract(text))

    async def _judge(self, firing: Firing) -> HookReply:
        if self.resources is None:
            raise Failed("there is no model to ask")
        return await judge(firing, self.resources)

    def _outcome_of(self, run: HookRun, firing: Firing) -> HookOutcome:
        outcome = read_answer(run)
        if outcome.signal:
            self.ring(outcome.signal)
        # The hook's origin decides what it may change; its output must not override the origin.
        marked = [each | {"is_project": firing.is_project} for each in outcome.permission_updates]
        return msgspec.structs.replace(outcome, permission_updates=marked)

    async def _announce(self, event: str, matched: str, fields: Fields) -> None:
        outcome = await self.fire(event, matched, fields)
        context = outcome.context if EVENTS[event].plain_text_is_context else []
        self._late += [*context, *filter(None, [outcome.system_message])]

    async def _run_aside(self, firing: Firing) -> None:
        run = await self._run(firing)
        outcome = self._outcome_of(run, firing)
        self._late += [*outcome.context, *filter(None, [outcome.system_message])]
        if run.exit_code == 2 and firing.handler.get("asyncRewake"):
            self._wake(news_text(run))

    def _wake(self, text: str) -> None:
        """Wake the model with a message; after too many times in a row, deliver it later.

        Otherwise a hook that complains about every answer would keep the model running forever.
        """
        if self.wakes == MOST_WAKES:
            self._late.append(text)
            return
        self.wakes += 1
        self.news.append(text)
        self.wake()

    def _timeout(self, event: str, handler: Fields) -> float:
        """Return a hook's timeout: its own, or its type's or event's; capped for SessionEnd."""
        usual = TIMEOUTS.get(str(handler.get("type")), EVENTS[event].timeout)
        if event == "SessionEnd" and os.environ.get(END_BUDGET, "").isdigit():
            usual = int(os.environ[END_BUDGET]) / 1000
        asked = handler.get("timeout")
        if not isinstance(asked, int | float) or asked <= 0:
            return usual
        return min(float(asked), MOST_AT_END) if event == "SessionEnd" else float(asked)

    def _capped(self, outcome: HookOutcome) -> HookOutcome:
        folder = sidecar_folder(self.facts.transcript)
        context = [fit_text(text, folder, LONGEST_TEXT) for text in outcome.context]
        return msgspec.structs.replace(outcome, context=context)


def _variables_of(group: Fields) -> dict[str, str]:
    """Return the variables for a plugin's hooks, which name its directories; empty for others."""
    given = group.get("variables")
    known = given if is_object(given) and group.get("plugin") else {}
    return {name: str(known[name]) for name in PLUGIN_VARIABLES if name in known}


def _without_models(group: Fields) -> Fields:
    handlers = [each for each in objects_in(group.get("hooks")) if each.get("type") not in TIMEOUTS]
    return group | {"hooks": handlers}
