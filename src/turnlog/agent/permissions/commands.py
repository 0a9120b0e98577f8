"""Decide whether a shell command may run, by its rules, programs and files.

A command runs unprompted only if every word of it is understood; any other command asks.
"""

from collections.abc import Iterator

from msgspec import Struct

from turnlog.agent.permissions.bash import (
    CLOCK,
    SimpleCommand,
    TooComplex,
    UnknownValue,
    expand_glob,
    find_disagreement,
)
from turnlog.agent.permissions.displacement import (
    Displacement,
    footprint_of,
    judge_displacement,
)
from turnlog.agent.permissions.exposure import judge_exposure
from turnlog.agent.permissions.file_verdicts import READING, restricted
from turnlog.agent.permissions.git_guards import guard_repositories
from turnlog.agent.permissions.guards import guard
from turnlog.agent.permissions.interference import (
    judge_interference,
    only_reads,
)
from turnlog.agent.permissions.launchers import (
    without_wrappers,
)
from turnlog.agent.permissions.option_variables import judge_variables
from turnlog.agent.permissions.part_verdicts import has_rule, judge_part, judge_redirections
from turnlog.agent.permissions.patterns import patterns_in, with_names
from turnlog.agent.permissions.policy import ALLOWED, AccessDecision, Policy, VerdictKind, may_apply
from turnlog.agent.permissions.restrictions import reach
from turnlog.agent.permissions.rules import COMMANDS, Match
from turnlog.agent.permissions.shell_command import ShellCommand, parse_command
from turnlog.agent.permissions.stale_inputs import judge_inputs
from turnlog.agent.permissions.unknown_arguments import may_run
from turnlog.agent.permissions.variable_values import judge_values
from turnlog.agent.workspace.access import ApprovalMode, DirectoryUse, Runs
from turnlog.agent.workspace.shell.command_environment import find_program


class PartFindings(Struct, frozen=True):
    """The decisions about one part of a command."""

    part: SimpleCommand
    findings: tuple[AccessDecision, ...]


class CommandFindings(Struct, frozen=True):
    """The decisions about a command as a whole and about each part."""

    general: tuple[AccessDecision, ...]
    parts: tuple[PartFindings, ...] = ()
    unclear: tuple[str, ...] = ()
    """Reasons why the parser is not certain what would run."""
    to_run: str | None = None
    """The command with patterns replaced by the names they match; None if it runs as written."""
    footprint: DirectoryUse = DirectoryUse()
    guards_git: bool = False
    """True if it runs git without a rule that allows the call."""

    @property
    def all(self) -> list[AccessDecision]:
        found = [*self.general, *(each for part in self.parts for each in part.findings)]
        return found or [ALLOWED]


def analyze_command(runs: Runs, policy: Policy) -> CommandFindings:
    """Decide about a shell command as a whole, and about each of its parts.

    A command that cannot be analyzed, or not in time, asks in every mode.
    """
    try:
        return _cross_checked(parse_command(runs, policy))
    except (OSError, ValueError, RecursionError, TooComplex) as error:
        reason = f"it cannot be analyzed: {error}"
        return CommandFindings((AccessDecision(VerdictKind.ASK, reason, is_firm=True),))


def _cross_checked(command: ShellCommand) -> CommandFindings:
    """Analyze a command; if it would run unprompted, require that bash parses it alike."""
    found, script = _analyze(command), command.script
    if not _lets_pass(found, command.policy):
        return found
    bash = find_program("bash", command.policy.directories)
    # Without bash, /bin/sh runs it, which reads `[[ a || ./x ]]` as two commands.
    difference = (
        find_disagreement(command.runs.command, script, bash) if bash else "there is no bash"
    )
    if not difference:
        return found
    script.unclear.append(difference)
    script.is_misread = True
    return _analyze(command)


def _lets_pass(found: CommandFindings, policy: Policy) -> bool:
    """Return whether a command would run unprompted, possibly confined."""
    if policy.mode is ApprovalMode.BYPASS:
        is_ruled = bool(policy.deny or policy.ask)
        return is_ruled and not any(each.is_firm for each in found.all)
    return all(each.kind is VerdictKind.ALLOW or each.is_confinable for each in found.all)


def _analyze(command: ShellCommand) -> CommandFindings:
    script, policy = command.script, command.policy
    displacement = Displacement(command.inner, command.places)
    footprint = footprint_of(displacement, command.places, policy)
    general = [*_restrictions(command), *_guards(command), *_listings(command)]
    is_alone = len(command.inner) == 1
    if not command.is_open or command.policy.has_file_rules:
        general += judge_displacement(
            displacement, footprint, command.runs, policy, is_alone=is_alone
        )
    is_bypass = policy.mode is ApprovalMode.BYPASS and command.policy.has_file_rules
    if is_bypass or any(rule.tool == COMMANDS for rule in policy.allow):
        general += guard_repositories(script, command.inner, policy)
    if script.unclear:
        reason = f"the command is unclear: {'; '.join(script.unclear)}"
        # File rules hold in every mode, but only see files that the parser has found.
        is_firm = script.is_misread and command.policy.has_file_rules
        general.append(AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm))
    is_named = _is_named_whole(command)
    parts = tuple(
        PartFindings(part, () if is_named else tuple(judge_part(part, command)))
        for part in script.parts
    )
    if not command.is_open or command.policy.has_file_rules:
        asks = any(found.kind is not VerdictKind.ALLOW for part in parts for found in part.findings)
        # If a part asks, the user sees the whole command anyway. One more reason, which no rule can
        # lift, would only suppress the offer to always allow that part.
        general += [each for each in _interference(command) if each.is_firm or not asks]
    general += judge_redirections(command)
    if not is_named and not command.is_open:
        found = CommandFindings(tuple(general), parts).all
        general += judge_exposure(script, command.text, found, lambda part: has_rule(part, command))
    try:
        to_run = None if is_named or command.is_open else _to_run(command)
    except UnknownValue as unknown:
        general.append(
            AccessDecision(VerdictKind.ASK, f"its patterns cannot be replaced: {unknown}")
        )
        to_run = None
    return CommandFindings(
        tuple(general), parts, tuple(script.unclear), to_run, footprint, _guards_git(command)
    )


def _interference(command: ShellCommand) -> Iterator[AccessDecision]:
    """Ask about changes to files that other parts, or other commands, may be reading."""

    def is_ruled(part: SimpleCommand) -> bool:
        return command.is_open or is_named or has_rule(part, command)

    is_named = _is_named_whole(command)
    script, places = command.script, command.places
    yield from judge_interference(script, places, command.policy, is_ruled)
    changing = [part for part in script.parts if not only_reads(part, places)]
    if command.runs.running and not all(map(is_ruled, changing)):
        yield AccessDecision(VerdictKind.ASK, "it changes files while another command runs")


def _guards_git(command: ShellCommand) -> bool:
    """Return whether a part runs git without a rule that allows it."""
    git = [part for part in command.script.parts if _is_git(part)]
    return not command.is_open and not all(has_rule(part, command) for part in git)


def _is_git(part: SimpleCommand) -> bool:
    return [word.text for word in without_wrappers(part.words)[:1]] == ["git"]


def _to_run(command: ShellCommand) -> str | None:
    """Return the command with the judged patterns replaced by the names that they match.

    A part that a rule allows runs as written. Raises `UnknownValue` if the command gets
    too long.
    """
    judged = [part for part in command.script.parts if not has_rule(part, command)]
    return with_names(command.runs.command, judged, command.places)


def _listings(command: ShellCommand) -> Iterator[AccessDecision]:
    """Yield what deny and ask rules decide, in every mode, about directories that patterns list."""
    for part in command.script.parts if command.policy.has_file_rules else ():
        for word in patterns_in(part):
            for place in filter(None, command.places):
                try:
                    listed = expand_glob(word, place).listed
                except UnknownValue:
                    continue  # `guard` asks about unknown operands
                found = (restricted(folder, command.policy, READING) for folder in listed)
                yield from filter(None, found)


def _restrictions(command: ShellCommand) -> Iterator[AccessDecision]:
    """Yield the decisions of deny and ask rules about everything that would run."""
    policy = command.policy
    for rules, kind, verb in (
        (policy.deny, VerdictKind.DENY, "denies"),
        (policy.ask, VerdictKind.ASK, "asks for"),
    ):
        for rule in rules:
            CLOCK.check()
            match = reach(rule, command.text, command.script, command.inner)
            if match is Match.YES:
                yield AccessDecision(kind, f"{rule.text} {verb} it", is_firm=True)
            elif match is Match.MAYBE or may_run(rule, command):
                yield may_apply(rule)


def _guards(command: ShellCommand) -> Iterator[AccessDecision]:
    is_still = command.policy.has_file_rules and command.is_still
    text = command.all_text
    for inner in command.inner:
        CLOCK.check()
        given = (inner.part, text, command.places, command.policy)
        yield from guard(*given, is_still=is_still)
    yield from judge_inputs(command)
    yield from judge_variables(command)
    yield from judge_values(command)


def _is_named_whole(command: ShellCommand) -> bool:
    """Return whether a rule allows exactly this command, whatever is in it."""
    if command.policy.mode is ApprovalMode.PLAN:
        return False
    rules = [rule for rule in command.policy.allow if rule.tool == COMMANDS]
    return any(rule.is_exact and rule.about == command.text for rule in rules)
