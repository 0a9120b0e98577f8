"""Hooks: commands of the user that run at certain moments, and may say what is to happen then.

All hooks that match run at once, each only once; what they answer counts together.
"""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from turnlog.agent.hooks.answers import HookOutcome, merge_outcomes, read_answer
from turnlog.agent.hooks.events import EVENTS
from turnlog.agent.hooks.runs import HookCommand, run_hook
from turnlog.agent.shell.output import fit_text
from turnlog.agent.tool import Fields
from turnlog.format.fields import is_array, is_object
from turnlog.store.paths import sidecar_folder

EXACT = re.compile(r"[\w\- ,|]*", re.ASCII)
"""A matcher of nothing but these is a list of names; any other is a pattern."""
LONGEST_TEXT = 10_000
"""Characters of a hook's text that the model is told; a longer one is kept in a file."""
MOST_AT_END = 60.0
"""Seconds that hooks at the end of a session may ask for."""
END_BUDGET = "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS"
PROJECT = "CLAUDE_PROJECT_DIR"

Groups = Mapping[str, Iterable[Fields]]
"""As the settings have them: for each event, objects with a `matcher` and `hooks`."""
Applies = Callable[[str, Fields], bool]
"""Whether a rule, as permissions have them, matches a call: its `tool_name` and `tool_input`."""


@dataclass
class SessionFacts:
    """What each hook is told of the session; whoever runs the session keeps it up to date."""

    session_id: str
    transcript: Path
    project: Path
    """The directory that the session was started in."""
    cwd: Path
    permission_mode: str = "default"
    prompt_id: str | None = None
    entrypoint: str = "cli"
    env_file: Path | None = None
    """Where a hook at the start may leave variables for the commands to come."""


class Hooks:
    """The hooks of a session."""

    def __init__(
        self, groups: Groups, facts: SessionFacts, applies: Applies = lambda rule, call: True
    ) -> None:
        self.facts = facts
        self._groups = groups
        self._applies = applies
        self._background: set[asyncio.Task[None]] = set()
        self._late: list[str] = []
        """What hooks in the background had to say, until the next prompt."""

    async def fire(self, event: str, matched: str | None, fields: Fields) -> HookOutcome:
        """Run the hooks of an event; `matched` is what their matchers look at."""
        name = f"{event}:{matched}" if matched else event
        outcomes: list[HookOutcome] = []
        waiting: list[HookCommand] = []
        for handler in self._chosen(event, matched, fields):
            if handler.get("type", "command") != "command":
                told = f"{name} hook of type {handler.get('type')} cannot be run here"
                outcomes.append(HookOutcome(errors=[told]))
                continue
            command = self._command(event, handler, fields)
            if handler.get("async") or handler.get("asyncRewake"):
                self._start(event, name, command)
            else:
                waiting.append(command)
        runs = await asyncio.gather(*(run_hook(event, name, each) for each in waiting))
        outcomes += [read_answer(run) for run in runs]
        if event == "UserPromptSubmit":
            outcomes.append(HookOutcome(context=self._late))
            self._late = []
        return self._capped(merge_outcomes(outcomes))

    async def close(self) -> None:
        """End the hooks that still run in the background."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _chosen(self, event: str, matched: str | None, fields: Fields) -> Iterator[Fields]:
        """The hooks that match, each once though several settings may name it."""
        seen: set[bytes] = set()
        for group in self._groups.get(event, ()):
            if not matches(group.get("matcher"), matched):
                continue
            for handler in _objects(group.get("hooks")):
                same = msgspec.json.encode([handler.get(n) for n in ("command", "args", "if")])
                if same not in seen and self._is_meant(event, handler, fields):
                    seen.add(same)
                    yield handler

    def _is_meant(self, event: str, handler: Fields, fields: Fields) -> bool:
        rule = handler.get("if")
        if not isinstance(rule, str):
            return True
        return EVENTS[event].is_tool and self._applies(rule, fields)

    def _start(self, event: str, name: str, command: HookCommand) -> None:
        task = asyncio.create_task(self._run_aside(event, name, command))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _run_aside(self, event: str, name: str, command: HookCommand) -> None:
        outcome = read_answer(await run_hook(event, name, command))
        self._late += [*outcome.context, *filter(None, [outcome.system_message])]

    def _command(self, event: str, handler: Fields, fields: Fields) -> HookCommand:
        text = str(handler.get("command") or "")
        arguments = handler.get("args")
        argv = ("/bin/sh", "-c", text)
        if is_array(arguments):
            argv = tuple(self._placed(str(each)) for each in (text, *arguments))
        return HookCommand(
            argv=argv,
            shown=text,
            cwd=self.facts.cwd,
            environment=self._environment(event),
            stdin=msgspec.json.encode(self._input(event, fields)) + b"\n",
            timeout=self._timeout(event, handler),
        )

    def _placed(self, text: str) -> str:
        """Without a shell, nothing else would put the project's path in its place."""
        return text.replace(f"${{{PROJECT}}}", str(self.facts.project))

    def _input(self, event: str, fields: Fields) -> Fields:
        """What a hook reads."""
        facts = self.facts
        common: Fields = {
            "session_id": facts.session_id,
            "transcript_path": str(facts.transcript),
            "cwd": str(facts.cwd),
        }
        if facts.prompt_id:
            common["prompt_id"] = facts.prompt_id
        if EVENTS[event].has_mode:
            common["permission_mode"] = facts.permission_mode
        return common | {"hook_event_name": event} | fields

    def _environment(self, event: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        added = {
            PROJECT: str(self.facts.project),
            "CLAUDE_CODE_SESSION_ID": self.facts.session_id,
            "CLAUDE_CODE_ENTRYPOINT": self.facts.entrypoint,
            "CLAUDECODE": "1",
        }
        if event == "SessionStart" and self.facts.env_file:
            self.facts.env_file.parent.mkdir(parents=True, exist_ok=True)
            added["CLAUDE_ENV_FILE"] = str(self.facts.env_file)
        return kept | added

    def _timeout(self, event: str, handler: Fields) -> float:
        """A hook's own time, else its event's; at the end of a session no more than a minute."""
        usual = EVENTS[event].timeout
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


def matches(matcher: object, value: str | None) -> bool:
    """Whether a matcher fits a value: a list of names, or a pattern that is found anywhere in it.

    >>> matches("Edit|Write", "Write"), matches("Edit", "NotebookEdit"), matches("^Note", "Notes")
    (True, False, True)
    """
    if not isinstance(matcher, str) or matcher in ("", "*") or value is None:
        return True
    if EXACT.fullmatch(matcher):
        return value in [name.strip() for name in re.split(r"[|,]", matcher)]
    try:
        return re.search(matcher, value) is not None
    except re.error:
        return False


def _objects(value: object) -> list[Fields]:
    return [each for each in value if is_object(each)] if is_array(value) else []
