"""Explain whether a shell command may run in `turnlog chat`."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from turnlog.cli.output import echo_json
from turnlog.cli.terminal import Look, dim, echo, echo_plain, style
from turnlog.text import visible

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.permissions.explanation import Explanation
    from turnlog.store.paths import Store

LOOKS: dict[str, Look] = {"allow": "green", "ask": "yellow", "deny": "red"}


def explain(store: "Store", options: "ChatOptions", command: str, as_json: bool) -> None:
    """Print how a command is parsed, which rules match, and the verdict."""
    from turnlog.agent.chat.chat_configuration import (
        rule_problems,
        starting_policy,
        starting_settings,
        untrusted_notes,
    )
    from turnlog.agent.permissions.explanation import explain_command

    settings, _ = asyncio.run(starting_settings(store, options))
    # Without these notes, an untrusted or invalid rule would seem to have no effect.
    for note in [*rule_problems(options), *settings.problems, *untrusted_notes(settings.ignored)]:
        echo_plain(f"turnlog: {note}", err=True)
    explanation = explain_command(command, starting_policy(settings, options))
    if as_json:
        echo_json(msgspec.to_builtins(explanation))
        return
    for line in _lines(explanation):
        echo(line)


def _lines(explanation: "Explanation") -> Iterator[str]:
    verdict, shown = explanation.verdict, explanation
    yield f"{style(verdict, LOOKS[verdict], 'bold')}  {_shown(shown.command)}"
    yield dim(f"mode {shown.mode}, in {shown.cwd}")
    rows = [
        ("reason", shown.reason),
        ("rule", shown.rule),
        ("sandbox", shown.sandbox),
        ("denied files", ", ".join(shown.denied_files)),
        ("commands", " · ".join(shown.parts) if len(shown.parts) > 1 else ""),
        ("to allow it", ", ".join(shown.rules_to_allow)),
    ]
    for name, text in rows:
        if text:
            yield f"{name:<13}{_shown(text)}"


def _shown(text: str) -> str:
    return visible(text, keep="")
