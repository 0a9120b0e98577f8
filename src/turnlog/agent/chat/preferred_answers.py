"""Apply preferences to a chat: output style, language, attribution and `apiKeyHelper`."""

import os
from collections.abc import Mapping
from pathlib import Path

from turnlog.agent.config.output_styles import DEFAULT, OutputStyle, with_style
from turnlog.agent.config.preferences import Preferences
from turnlog.agent.hooks.command_hooks import HookCommand, run_command
from turnlog.errors import UsageError

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
PATIENCE = 60.0
"""Seconds for the command that prints the key: it may ask a person."""
LANGUAGE = "Answer the user in this language, whatever they write in: {language}."
COMMITS = "End the messages of commits that you make with:\n{line}"
REQUESTS = "End the descriptions of pull requests that you make with:\n{line}"
NO_LINE = "Add no line to {what} that says who or what made them."
UNKNOWN = "the output style {name!r} is not defined, so the usual one is used (try: /output-style)"


def preferred_prompts(preferences: Preferences) -> list[str]:
    """Return the parts of the system prompt that preferences add."""
    parts: list[str] = []
    if preferences.language:
        parts.append(LANGUAGE.format(language=preferences.language))
    for line, wish, what in (
        (preferences.commit_line, COMMITS, "commits"),
        (preferences.request_line, REQUESTS, "pull requests"),
    ):
        if line is not None:
            parts.append(wish.format(line=line) if line else NO_LINE.format(what=what))
    return parts


def styled_system(
    system: list[str], styles: Mapping[str, OutputStyle], name: str | None
) -> tuple[list[str], list[str]]:
    """Return the system prompt in a style, and a note if the style is unknown."""
    if name is None or name == DEFAULT:
        return system, []
    if name not in styles:
        return system, [UNKNOWN.format(name=name)]
    return with_style(system, styles[name]), []


async def take_key(preferences: Preferences, cwd: Path, own_place: Path) -> None:
    """Run the command that prints the API key, unless the environment has a key.

    The key is put into this process's environment, as if the user had set it there. The usual rules
    decide if tools inherit it.
    """
    command = preferences.key_command
    if not command or not command.text or any(os.environ.get(name) for name in KEYS):
        return
    argv = ("/bin/sh", "-c", command.text)
    # `python3 -m keyring` loads modules from the current directory, which must not be a stranger's.
    place = cwd if command.is_project else own_place
    wanted = HookCommand(argv, command.text, place, command.environment, b"", PATIENCE)
    run = await run_command("SessionStart", "apiKeyHelper", wanted)
    key = run.stdout.strip()
    if run.exit_code != 0 or not key:
        why = run.stderr.strip().splitlines()[-1:] or ["it printed no key"]
        raise UsageError(f"apiKeyHelper failed: {why[0]}", "export ANTHROPIC_API_KEY=KEY")
    # An HTTP header allows no other characters, and its error would not mention apiKeyHelper.
    if not key.isascii() or not key.isprintable():
        what = "it printed more than a key"
        raise UsageError(f"apiKeyHelper failed: {what}", "export ANTHROPIC_API_KEY=KEY")
    os.environ[KEYS[0]] = key
