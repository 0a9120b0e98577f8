"""Settings about answers and the screen, merged from all sources.

`restrict` has already removed these settings from the files of an untrusted project.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from turnlog.agent.config.settings_content import SettingsContent
from turnlog.agent.workspace.project_environment import without_credentials
from turnlog.format.json_values import is_object

EFFORTS = ("low", "medium", "high", "xhigh", "max")
EDITOR_MODES = (USUAL_KEYS, VI_KEYS) = ("normal", "vim")
"""Key bindings of the prompt, as the client names them (observed: 2.1.325)."""
COMMAND = "command"

Value = TypeVar("Value")


class SettingsCommand(Struct, frozen=True):
    """A shell command that a settings file names."""

    text: str
    is_project: bool = False
    """True if it comes from a project's file: it then gets no credentials of turnlog."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the command."""
        return without_credentials(os.environ) if self.is_project else dict(os.environ)


class OwnedContent(Struct, frozen=True):
    """The content of a settings file, and its owner."""

    content: SettingsContent
    is_project: bool = False
    may_run: bool = True
    """False if settings turn off its hooks, and with them its status line."""

    def command(self, text: str | None) -> SettingsCommand | None:
        """Return a command that it names."""
        return SettingsCommand(text, self.is_project) if text is not None else None


class Preferences(Struct, frozen=True):
    """Settings about answers and the screen."""

    effort: str | None = None
    """low, medium, high, xhigh or max."""
    thinks: bool | None = None
    """False to turn thinking off for models that allow it."""
    shows_thinking: bool | None = None
    """True to request thinking summaries in non-interactive chats, too."""
    output_style: str | None = None
    theme: str | None = None
    editor_mode: str | None = None
    """`vim` for vi keys in the prompt."""
    language: str | None = None
    status_command: SettingsCommand | None = None
    """The shell command that prints the status line."""
    key_command: SettingsCommand | None = None
    """The shell command that prints the API key."""
    cleanup_days: int | None = None
    """Age at which Claude Code deletes sessions; turnlog never does."""
    fallback: str | None = None
    """The models to use while the usual one is overloaded, in order, separated by commas."""
    commit_line: str | None = None
    """Attribution for commits; empty for none."""
    request_line: str | None = None
    """Attribution for pull requests; empty for none."""
    excluded_memory: tuple[str, ...] = ()
    """Patterns of memory files that are not loaded."""

    @property
    def uses_vi(self) -> bool:
        """True if the prompt has vi keys."""
        return self.editor_mode == VI_KEYS


def preferences_of(owned: Sequence[OwnedContent]) -> Preferences:
    """Merge the preferences of settings files, the lowest precedence first."""
    contents = [each.content for each in owned]

    def last(select: Callable[[SettingsContent], Value | None]) -> Value | None:
        return _last(map(select, contents))

    effort = last(lambda each: each.effort_level)
    commit, request = _attribution(contents)
    return Preferences(
        effort=effort if effort in EFFORTS else None,
        thinks=last(lambda each: each.always_thinking_enabled),
        shows_thinking=last(lambda each: each.show_thinking_summaries),
        output_style=last(lambda each: each.output_style),
        theme=last(lambda each: each.theme),
        editor_mode=last(lambda each: each.editor_mode),
        language=last(lambda each: each.language),
        status_command=_last(
            each.command(_status_command(each.content)) for each in owned if each.may_run
        ),
        key_command=_last(each.command(each.content.api_key_helper) for each in owned),
        cleanup_days=last(lambda each: each.cleanup_period_days),
        fallback=last(_fallback),
        commit_line=commit,
        request_line=request,
        excluded_memory=tuple(one for each in contents for one in each.claude_md_excludes or ()),
    )


def _last(values: Iterable[Value | None]) -> Value | None:
    present = [value for value in values if value is not None]
    return present[-1] if present else None


def _status_command(content: SettingsContent) -> str | None:
    line = content.status_line or {}
    command = line.get("command")
    return command if line.get("type") == COMMAND and isinstance(command, str) else None


def _fallback(content: SettingsContent) -> str | None:
    named = content.fallback_model
    return (",".join(named) if isinstance(named, list) else named) or None


def _attribution(contents: Sequence[SettingsContent]) -> tuple[str | None, str | None]:
    """Return the lines for commits and pull requests; `includeCoAuthoredBy: false` means none."""
    lines: dict[str, str | None] = {"commit": None, "pr": None}
    for content in contents:
        if content.include_co_authored_by is False:
            lines = {"commit": "", "pr": ""}
        given = content.attribution
        for name in lines:
            text = given.get(name) if is_object(given) else None
            lines[name] = text if isinstance(text, str) else lines[name]
    return lines["commit"], lines["pr"]
