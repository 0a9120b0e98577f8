"""Explain a verdict: the parse of a command, the meaning of each word, and the findings.

The same analysis that decides about a call produces the explanation, so the two cannot disagree.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import HOLE, SimpleCommand, UnknownValue, Word
from turnlog.agent.permissions.commands import CommandFindings, PartFindings, analyze_command
from turnlog.agent.permissions.interference import effective_words
from turnlog.agent.permissions.launchers import without_wrappers
from turnlog.agent.permissions.policy import AccessDecision, Policy, Verdict, VerdictKind, strictest
from turnlog.agent.permissions.programs import ProgramEffect, change_files, read_files
from turnlog.agent.permissions.verdict import new_verdict
from turnlog.agent.permissions.working_directories import arguments_in
from turnlog.agent.workspace.access import ApprovalMode, Runs

OPTION = re.compile(r"-.")


class WordMeaning(Struct, frozen=True, omit_defaults=True):
    """A word as it was typed, and what the program receives for it."""

    source: str
    meaning: str
    expands_to: tuple[str, ...] = ()


class FindingView(Struct, frozen=True, omit_defaults=True):
    """One reason for a verdict."""

    verdict: str
    reason: str = ""
    holds_in_every_mode: bool = False


class PartExplanation(Struct, frozen=True, omit_defaults=True):
    """One program of a command."""

    source: str
    words: tuple[WordMeaning, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    findings: tuple[FindingView, ...] = ()


class Explanation(Struct, frozen=True, omit_defaults=True):
    """The verdict about a command, with its parse and all findings."""

    command: str
    mode: str
    cwd: str
    verdict: str
    reason: str
    parts: tuple[PartExplanation, ...]
    unclear: tuple[str, ...] = ()
    """Reasons why the parser is not certain what would run."""
    general: tuple[FindingView, ...] = ()
    """Findings about the command as a whole, its redirections and its files."""
    rules_to_allow: tuple[str, ...] = ()
    """Rules that would allow the command from now on."""
    runs: str = ""
    """The command passed to bash, with names in place of its patterns; empty if it is unchanged."""


def explain_command(text: str, policy: Policy) -> Explanation:
    """Explain the verdict about a shell command."""
    with new_verdict():
        return _explain(text, policy)


def _explain(text: str, policy: Policy) -> Explanation:
    found = analyze_command(Runs(text), policy)
    verdict = _verdict(found, policy.mode)
    is_changed = verdict.kind is VerdictKind.ALLOW and found.to_run not in (None, text)
    return Explanation(
        command=text,
        mode=policy.mode.value,
        cwd=str(policy.cwd),
        verdict=verdict.kind.value,
        reason=verdict.reason,
        parts=tuple(_explain_part(each, policy.cwd) for each in found.parts),
        unclear=found.unclear,
        general=tuple(_views(found.general)),
        rules_to_allow=verdict.remember,
        runs=(found.to_run or "") if is_changed else "",
    )


def _verdict(found: CommandFindings, mode: ApprovalMode) -> Verdict:
    findings = found.all
    # In bypass mode, only firm findings count: denials, and questions that a rule demands.
    if mode is ApprovalMode.BYPASS:
        findings = [each for each in findings if each.is_firm]
    return strictest(findings)


def _views(findings: tuple[AccessDecision, ...]) -> Iterator[FindingView]:
    for each in dict.fromkeys(findings):
        if each.reason or each.kind is not VerdictKind.ALLOW:
            yield FindingView(each.kind.value, each.reason, each.is_firm)


def _explain_part(found: PartFindings, cwd: Path) -> PartExplanation:
    part = found.part
    words = without_wrappers(part.words)
    effect = _effect(words, cwd)
    return PartExplanation(
        source=part.source,
        words=tuple(_meanings(part, len(part.words) - len(words), effect, cwd)),
        # Options after operands are checked as paths, but hardly any program reads them as such.
        reads=tuple(each for each in effect.reads if not OPTION.match(each)) if effect else (),
        writes=effect.writes if effect else (),
        findings=tuple(_views(found.findings)),
    )


def _effect(words: tuple[Word, ...], cwd: Path) -> ProgramEffect | None:
    if not words:
        return None
    try:
        arguments = arguments_in(effective_words(words), cwd)
    except UnknownValue:
        return None
    return read_files(words[0].text, arguments) or change_files(words[0].text, arguments)


def _meanings(
    part: SimpleCommand, wrapped: int, effect: ProgramEffect | None, cwd: Path
) -> Iterator[WordMeaning]:
    for assignment in part.assignments:
        yield WordMeaning(f"{assignment.name}={_shown(assignment.value)}", "sets a variable")
    roles = list(effect.roles) if effect else []
    for rank, word in enumerate(part.words):
        expanded = _expanded(word, cwd)
        if part.is_test:
            meaning = "condition"
        elif rank < wrapped:
            meaning = "wrapper"
        elif rank == wrapped:
            meaning = "program"
        elif word.is_input:
            meaning = "output of a command"
            del roles[:1]
        elif HOLE in word.text or expanded is None:
            meaning = "only known when it runs"
        else:
            meaning = roles.pop(0) if roles else "argument"
            # A pattern stands for several arguments, each with a role; the word gets the role of
            # the first.
            del roles[: len(expanded) - 1]
        is_changed = expanded and expanded != (word.source or word.text,)
        yield WordMeaning(_shown(word), meaning, expanded if expanded and is_changed else ())
    for redirect in part.redirects:
        yield WordMeaning(_shown(redirect.target), "written" if redirect.is_write else "read")


def _expanded(word: Word, cwd: Path) -> tuple[str, ...] | None:
    try:
        return arguments_in((word,), cwd)
    except UnknownValue:
        return None


def _shown(word: Word) -> str:
    return word.source or word.text.replace(HOLE, "…")
