"""The user's status line: a command that reads the state of the session and prints a line."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from turnlog.agent.chat.opening import Chat
from turnlog.agent.config.output_styles import DEFAULT
from turnlog.agent.config.preferences import SettingsCommand
from turnlog.agent.hooks.command_hooks import HookCommand, run_command
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.session.entry_builders import VERSION
from turnlog.agent.terminal.styled_text import one_line, printable
from turnlog.format.json_values import Fields
from turnlog.text import as_printed

CALM = 0.3
"""Debounce delay in seconds, as in the client: several changes run the command once."""
PATIENCE = 5.0
LONG = 200_000


def session_state(chat: Chat, cost: float, seconds: float) -> Fields:
    """Return the payload of the command, with the fields that the client documents."""
    parts = chat.parts
    window, tokens = parts.choice.window, context_tokens(parts.recorder.chain)
    used = min(100, round(100 * tokens / window))
    model, place = parts.choice.model, parts.workspace
    return parts.hooks.facts.common() | {
        "hook_event_name": "Status",
        "model": {"id": model, "display_name": model},
        "workspace": {
            "current_dir": str(place.cwd),
            "project_dir": str(place.root),
            "added_dirs": list(map(str, place.directories)),
        },
        "version": VERSION,
        "output_style": {"name": chat.preferences.output_style or DEFAULT},
        "effort": {"level": parts.choice.effort},
        "cost": {"total_cost_usd": cost, "total_duration_ms": round(seconds * 1000)},
        "context_window": {
            "context_window_size": window,
            "used_percentage": used,
            "remaining_percentage": 100 - used,
        },
        "exceeds_200k_tokens": tokens > LONG,
    }


class StatusCommand:
    """Runs the command after changes; a new change cancels the run before."""

    def __init__(
        self,
        command: SettingsCommand,
        cwd: Path,
        facts: Callable[[], Fields],
        redraw: Callable[[], None],
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._facts = facts
        self._redraw = redraw
        self._running: asyncio.Task[None] | None = None
        self.text = ""
        """The line that the command printed last."""

    def refresh(self) -> None:
        """Schedule a run of the command; cancel a pending one."""
        self.stop()
        self._running = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Cancel the running or scheduled command."""
        if self._running:
            self._running.cancel()

    async def _run(self) -> None:
        await asyncio.sleep(CALM)
        given = msgspec.json.encode(self._facts())
        text, environment = self._command.text, self._command.environment
        argv = ("/bin/sh", "-c", text)
        wanted = HookCommand(argv, text, self._cwd, environment, given, PATIENCE)
        run = await run_command("Status", "statusLine", wanted)
        if run.exit_code == 0:
            first = as_printed(run.stdout).strip().split("\n")[0]
            # The output is untrusted: a branch name, for example, may contain escape sequences.
            self.text = one_line(printable(first))
            self._redraw()
