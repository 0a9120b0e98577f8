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
    from turnlog.agent.permissions.explanation import Explanation, FindingView, PartExplanation
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
    verdict = explanation.verdict
    yield f"{style(verdict, LOOKS[verdict], 'bold')}  {_shown(explanation.command)}"
    yield dim(f"mode {explanation.mode}, in {explanation.cwd}")
    for finding in explanation.general:
        yield f"  {_finding(finding)}"
    for part in explanation.parts:
        yield ""
        yield from _part(part)
    if explanation.runs:
        yield ""
        yield f"Runs as: {_shown(explanation.runs)}"
    if explanation.rules_to_allow:
        yield ""
        yield "Rules that would allow it: " + ", ".join(map(_shown, explanation.rules_to_allow))


def _part(part: "PartExplanation") -> Iterator[str]:
    yield style(_shown(part.source), "bold")
    for word in part.words:
        expanded = f"  → {' '.join(map(_shown, word.expands_to))}" if word.expands_to else ""
        yield f"  {_shown(word.source):<24} {word.meaning}{expanded}"
    for verb, paths in (("reads", part.reads), ("writes", part.writes)):
        if paths:
            yield f"  {verb} {', '.join(map(_shown, paths))}"
    for finding in part.findings:
        yield f"  {_finding(finding)}"
    if not part.findings:
        yield f"  {style('allow', 'green')}"


def _finding(finding: "FindingView") -> str:
    firm = " (in every mode)" if finding.holds_in_every_mode else ""
    verdict = finding.verdict
    return f"{style(verdict, LOOKS[verdict])} {_shown(finding.reason)}{firm}".rstrip()


def _shown(text: str) -> str:
    return visible(text, keep="")
