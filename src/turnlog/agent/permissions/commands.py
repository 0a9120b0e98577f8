"""Whether a shell command may run: what each rule, each program and each file has to say.

A command runs unprompted only if every word of it is understood. Whatever is not, asks.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import (
    CLOCK,
    Script,
    SimpleCommand,
    TooComplex,
    UnknownValue,
    Word,
    expand_glob,
    find_disagreement,
    is_folder,
    parse_script,
)
from turnlog.agent.permissions.copies import judge_copies
from turnlog.agent.permissions.directories import (
    CONNECTION,
    MOVES,
    arguments_in,
    path_in,
    possible_directories,
)
from turnlog.agent.permissions.displacement import (
    FILE_RULES,
    Displacement,
    footprint_of,
    judge_displacement,
)
from turnlog.agent.permissions.exposure import judge_exposure
from turnlog.agent.permissions.files import READING, judge_read, judge_write, restricted
from turnlog.agent.permissions.git_guards import guard_repositories
from turnlog.agent.permissions.git_repository import find_problem, find_repository
from turnlog.agent.permissions.guards import guard, written_paths
from turnlog.agent.permissions.interference import (
    is_still,
    judge_interference,
    may_write,
    only_reads,
    waits,
    without_status,
)
from turnlog.agent.permissions.launchers import (
    Inner,
    commands_in,
    needs_whole_rule,
    without_wrappers,
)
from turnlog.agent.permissions.offers import is_program_input, is_steered, offers_for
from turnlog.agent.permissions.path_access import is_inside
from turnlog.agent.permissions.patterns import names_for, patterns_in, with_names
from turnlog.agent.permissions.policy import ALLOWED, AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.programs import (
    READERS,
    ProgramEffect,
    change_files,
    enters_submodules,
    is_plain_condition,
    read_files,
)
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.restrictions import is_safe_assignment, reach
from turnlog.agent.permissions.rules import COMMANDS, Match, Rule, matches_command
from turnlog.agent.permissions.wildcards import command_text
from turnlog.agent.workspace.access import ApprovalMode, DirectoryUse, Runs
from turnlog.agent.workspace.shell.command_environment import find_program

MOST_WORDS = 500
"""Words and parts of a command that is analyzed part by part."""
CHANGES_DIRECTORY = frozenset("env find git make sudo tar".split())
"""Programs with an option that makes another directory the current one."""
DIRECTORY_OPTION = re.compile(r"-C.*|-D.*|--chdir.*|--directory.*|-execdir|-okdir")
Judge = Callable[[Path, Policy], AccessDecision]


class ShellCommand(Struct, frozen=True):
    """A command, with what the analysis of all its parts needs."""

    text: str
    script: Script
    inner: tuple[Inner, ...]
    """Every program that would run, including those that other programs start."""
    places: Places
    """Where its parts may run."""
    policy: Policy
    runs: Runs
    """The command with what else runs at the same time."""

    @property
    def is_open(self) -> bool:
        """Whether a rule allows all commands."""
        rules = self.policy.allow if self.policy.mode is not ApprovalMode.PLAN else ()
        return any(rule.tool == COMMANDS and rule.about is None for rule in rules)

    @property
    def writes(self) -> bool:
        """Whether a part of it may create or change files."""
        return any(may_write(inner.part) for inner in self.inner)

    def others(self, part: SimpleCommand) -> Iterator[Inner]:
        """Yield everything that would run besides a part."""
        return (inner for inner in self.inner if inner.part is not part)

    @property
    def is_delayed(self) -> bool:
        """Whether a part may run long after the verdict, when other files are there."""
        is_waiting = any(waits(inner.part) for inner in self.inner)
        return self.runs.in_background or self.script.has_background or is_waiting

    @property
    def is_still(self) -> bool:
        """Whether it runs at once and alone, and changes nothing."""
        is_busy = self.is_delayed or self.runs.running or self.script.unclear
        return not is_busy and is_still((inner.part for inner in self.inner), self.places)

    @property
    def has_file_rules(self) -> bool:
        """Whether a rule denies or asks for files."""
        return any(r.tool in FILE_RULES for r in (*self.policy.deny, *self.policy.ask))


class PartFindings(Struct, frozen=True):
    """What is decided about one part of a command."""

    part: SimpleCommand
    findings: tuple[AccessDecision, ...]


class CommandFindings(Struct, frozen=True):
    """What is decided about a command: as a whole, and part by part."""

    general: tuple[AccessDecision, ...]
    parts: tuple[PartFindings, ...] = ()
    unclear: tuple[str, ...] = ()
    """What the parser is not certain about."""
    to_run: str | None = None
    """The command with the names that its patterns match; None if it runs as it was written."""
    footprint: DirectoryUse = DirectoryUse()
    guards_git: bool = False
    """Whether git runs in it that no rule allows."""

    @property
    def all(self) -> list[AccessDecision]:
        found = [*self.general, *(each for part in self.parts for each in part.findings)]
        return found or [ALLOWED]


def analyze_command(runs: Runs, policy: Policy) -> CommandFindings:
    """Decide about a shell command, and keep what was decided about each part.

    One that cannot be analyzed, or not in time, asks in every mode.
    """
    try:
        return _cross_checked(_parsed(runs, policy))
    except (OSError, ValueError, RecursionError, TooComplex) as error:
        reason = f"it cannot be analyzed: {error}"
        return CommandFindings((AccessDecision(VerdictKind.ASK, reason, is_firm=True),))


def _cross_checked(command: ShellCommand) -> CommandFindings:
    """Analyze a command; what would run unprompted must mean the same to bash."""
    found, script = _analyze(command), command.script
    if not _lets_pass(found, command.policy):
        return found
    bash = find_program("bash", command.policy.directories)
    difference = bash and find_disagreement(command.runs.command, script, bash)
    if not difference:
        return found
    script.unclear.append(difference)
    script.is_misread = True
    return _analyze(command)


def _lets_pass(found: CommandFindings, policy: Policy) -> bool:
    """Whether a command would run unprompted, at least confined."""
    if policy.mode is ApprovalMode.BYPASS:
        is_ruled = bool(policy.deny or policy.ask)
        return is_ruled and not any(each.is_firm for each in found.all)
    return all(each.kind is VerdictKind.ALLOW or each.is_confinable for each in found.all)


def _parsed(runs: Runs, policy: Policy) -> ShellCommand:
    script = parse_script(runs.command)
    if sum(1 + len(part.words) for part in script.parts) > MOST_WORDS:
        script = Script(unclear=[f"it has more than {MOST_WORDS:,} words"], is_misread=True)
    try:
        inner = tuple(each for part in script.parts for each in _inner_commands(part))
    except RecursionError:
        script.unclear.append("it runs programs through too many others")
        script.is_misread = True
        inner = tuple(map(Inner, script.parts))
    places = _places(script, inner, policy.cwd)
    return ShellCommand(runs.command.strip(), script, inner, places, policy, runs)


def _inner_commands(part: SimpleCommand) -> Iterator[Inner]:
    for inner in commands_in(part):
        CLOCK.check()
        yield inner


def _analyze(command: ShellCommand) -> CommandFindings:
    script, policy = command.script, command.policy
    displacement = Displacement(command.inner, command.places)
    footprint = footprint_of(displacement, command.places, policy)
    general = [*_restrictions(command), *_guards(command), *_listings(command)]
    is_alone = len(command.inner) == 1
    if not command.is_open or command.has_file_rules:
        general += judge_displacement(
            displacement, footprint, command.runs, policy, is_alone=is_alone
        )
    if any(rule.tool == COMMANDS for rule in policy.allow):
        general += guard_repositories(script, command.inner, policy.cwd)
    if script.unclear:
        reason = f"the command is unclear: {'; '.join(script.unclear)}"
        # Rules about files hold in every mode, but compare with what the parser has found.
        is_firm = script.is_misread and command.has_file_rules
        general.append(AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm))
    is_named = _is_named_whole(command)
    parts = tuple(
        PartFindings(part, () if is_named else tuple(_judge_part(part, command)))
        for part in script.parts
    )
    if not command.is_open or command.has_file_rules:
        asks = any(found.kind is not VerdictKind.ALLOW for part in parts for found in part.findings)
        # The user is shown the whole command where a part asks anyway. One more reason, which no
        # rule can lift, would only keep the offer from them to allow that part from now on.
        general += [each for each in _interference(command) if each.is_firm or not asks]
    general += _redirections(command)
    if not is_named and not command.is_open:
        found = CommandFindings(tuple(general), parts).all
        general += judge_exposure(
            script, command.text, found, lambda part: _is_ruled(part, command)
        )
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
    """Ask about changes of files that other parts, or other commands, may be reading."""

    def is_ruled(part: SimpleCommand) -> bool:
        return command.is_open or is_named or _is_ruled(part, command)

    is_named = _is_named_whole(command)
    script, places = command.script, command.places
    yield from judge_interference(script, places, command.policy, is_ruled)
    changing = [part for part in script.parts if not only_reads(part, places)]
    if command.runs.running and not all(map(is_ruled, changing)):
        yield AccessDecision(VerdictKind.ASK, "it changes files while another command runs")


def _guards_git(command: ShellCommand) -> bool:
    """Whether git runs unconfined beside a part that a rule allows, without one of its own."""
    git = [part for part in command.script.parts if _is_git(part)]
    return not command.is_open and not all(_is_ruled(part, command) for part in git)


def _is_git(part: SimpleCommand) -> bool:
    return [word.text for word in without_wrappers(part.words)[:1]] == ["git"]


def _to_run(command: ShellCommand) -> str | None:
    """Return the command with names in place of the patterns that were judged.

    A part that a rule allows runs as it was written. Raises `UnknownValue` if the command gets
    too long.
    """
    judged = [part for part in command.script.parts if not _is_ruled(part, command)]
    return with_names(command.runs.command, judged, command.places)


def _is_ruled(part: SimpleCommand, command: ShellCommand) -> bool:
    return _allowing(part, bool(_unsafe_variables(part)), command.policy) is not None


def _listings(command: ShellCommand) -> Iterator[AccessDecision]:
    """Yield what rules say about the directories that patterns list, in every mode."""
    for part in command.script.parts if command.has_file_rules else ():
        for word in patterns_in(part):
            for place in filter(None, command.places):
                try:
                    listed = expand_glob(word, place).listed
                except UnknownValue:
                    continue  # an operand that is not known is asked about by `guard`
                found = (restricted(folder, command.policy, READING) for folder in listed)
                yield from filter(None, found)


def _places(script: Script, inner: tuple[Inner, ...], cwd: Path) -> Places:
    """Return where parts may run; in a loop, `cd ..` leads further up each time."""
    parts = [without_wrappers(each.part.words) for each in inner if each.part.words]
    moves = any(words[0].text in MOVES for words in parts)
    if (script.has_loop and moves) or any(map(_changes_directory, parts)):
        return (None,)
    return possible_directories(parts, cwd) or (None,)


def _changes_directory(words: tuple[Word, ...]) -> bool:
    """Whether a program runs another in a directory of its own, as `env -C dir` does."""
    options = [word.text for word in words[1:]]
    return words[0].text in CHANGES_DIRECTORY and any(map(DIRECTORY_OPTION.fullmatch, options))


def _restrictions(command: ShellCommand) -> Iterator[AccessDecision]:
    """Yield what deny and ask rules say about anything that would run."""
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
            elif match is Match.MAYBE:
                yield AccessDecision(VerdictKind.ASK, f"{rule.text} may be about it", is_firm=True)


def _guards(command: ShellCommand) -> Iterator[AccessDecision]:
    is_still = command.has_file_rules and command.is_still
    for inner in command.inner:
        CLOCK.check()
        given = (inner.part, command.text, command.places, command.policy)
        yield from guard(*given, is_still=is_still)


def _is_named_whole(command: ShellCommand) -> bool:
    """Whether a rule allows exactly this command, whatever is in it."""
    if command.policy.mode is ApprovalMode.PLAN:
        return False
    rules = [rule for rule in command.policy.allow if rule.tool == COMMANDS]
    return any(rule.is_exact and rule.about == command.text for rule in rules)


def _judge_part(part: SimpleCommand, command: ShellCommand) -> Iterator[AccessDecision]:
    if command.is_open or not (part.words or part.assignments):
        return
    unsafe = _unsafe_variables(part)
    if rule := _allowing(part, bool(unsafe), command.policy):
        yield AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it")
    elif unsafe:
        yield AccessDecision(VerdictKind.ASK, f"it sets {', '.join(unsafe)}")
    elif part.words:
        yield from _judge_program(part, command)


def _unsafe_variables(part: SimpleCommand) -> list[str]:
    # Without a program, a variable counts for the rest of the command, and for bash itself.
    return [each.name for each in part.assignments if not (part.words and is_safe_assignment(each))]


def _allowing(part: SimpleCommand, is_unsafe: bool, policy: Policy) -> Rule | None:
    """Return the rule that allows a part, if each word that decides what runs is plain."""
    words = without_wrappers(part.words)
    if policy.mode is ApprovalMode.PLAN or not words or not words[0].is_known or part.is_test:
        return None
    set_first = tuple(Word(f"{each.name}={each.value.text}") for each in part.assignments)
    whole = command_text((*set_first, *part.words))
    for rule in policy.allow:
        if rule.tool != COMMANDS or rule.about is None:
            continue
        if (needs_whole_rule(words) or is_unsafe) and not _names(rule, set_first):
            continue
        if rule.is_exact and is_program_input(part):
            continue
        if not rule.is_exact and is_steered(words) and _names_start(rule, words):
            continue
        texts = (whole,) if is_unsafe else (whole, command_text(part.words), command_text(words))
        if any(matches_command(rule, text) is Match.YES for text in texts):
            return rule
    return None


def _names_start(rule: Rule, words: tuple[Word, ...]) -> bool:
    """Whether a rule is about a subcommand; `Bash(npm *)` is about all that npm can do."""
    return f"{words[0].text} {words[1].text}" in rule.patterns[0]


def _names(rule: Rule, set_first: tuple[Word, ...]) -> bool:
    """Whether a rule names a whole command, or the variables that are set before it."""
    if set_first:
        return all(f"{word.text} " in f"{rule.patterns[0]} " for word in set_first)
    return rule.is_exact


def _judge_program(part: SimpleCommand, command: ShellCommand) -> Iterator[AccessDecision]:
    if part.is_test:
        if not is_plain_condition(tuple(word.text for word in part.words)):
            yield _lacking(part)
        return
    words = without_wrappers(part.words)
    if not words[0].is_known:
        yield AccessDecision(VerdictKind.ASK, "which program runs is only known when it runs")
        return
    for place in command.places:
        try:
            arguments = arguments_in(without_status(words), place)
        except UnknownValue as unknown:
            if words[0].text not in READERS:
                yield _lacking(part)
                return
            yield AccessDecision(
                VerdictKind.ASK, f"what {unknown} stands for is only known when it runs"
            )
            return
        effect = _effect(words[0].text, arguments, command.policy.mode)
        if effect is None:
            yield _lacking(part)
            return
        yield from _judge_globs(effect, place, part, command)
        yield from _judge_effect(effect, place, part, command)


def _effect(name: str, arguments: tuple[str, ...], mode: ApprovalMode) -> ProgramEffect | None:
    """Return what a program does, if it may do that unprompted in some directory."""
    if effect := read_files(name, arguments):
        return effect
    # Whatever the mode, what tee writes is decided like any other file that is written.
    return (
        change_files(name, arguments)
        if mode is ApprovalMode.ACCEPT_EDITS or name == "tee"
        else None
    )


def _lacking(part: SimpleCommand) -> AccessDecision:
    return AccessDecision(
        VerdictKind.ASK, f"no rule allows {part.source or 'it'}", remember=offers_for(part)
    )


def _judge_globs(
    effect: ProgramEffect, place: Path | None, part: SimpleCommand, command: ShellCommand
) -> Iterator[AccessDecision]:
    """Decide about the directories that patterns list, and about all files that they match.

    The program receives the names that are found here, so they must not depend on what other
    parts of the command do.
    """
    globs = patterns_in(part)
    if not globs:
        return
    is_copy = bool(effect.reads and effect.writes)
    if is_copy or not all(only_reads(each.part, command.places) for each in command.others(part)):
        yield AccessDecision(
            VerdictKind.ASK, f"{globs[0].source} may match files that the command creates"
        )
    for word in globs:
        try:
            names_for(word, command.places)
            found = expand_glob(word, place or Path("/"))
            paths = [path_in(text, place) for text in found.arguments] if effect.reads else []
            paths += [path_in(str(folder), place) for folder in found.listed]
        except UnknownValue:
            yield AccessDecision(
                VerdictKind.ASK, f"which files {word.source} matches is not certain"
            )
            continue
        yield from (judge_read(path, command.policy) for path in paths)


def _judge_effect(
    effect: ProgramEffect, place: Path | None, part: SimpleCommand, command: ShellCommand
) -> Iterator[AccessDecision]:
    policy = command.policy
    try:
        reads = [path_in(text, place) for text in effect.reads]
        writes = written_paths(effect, place)
    except UnknownValue:
        yield AccessDecision(
            VerdictKind.ASK, f"which files {part.source} touches is only known when it runs"
        )
        return
    if command.is_delayed and _depends_on_time(effect, command):
        yield AccessDecision(
            VerdictKind.ASK, f"{part.source} runs later, when other files may be there"
        )
    if effect.needs_files and any(map(is_folder, reads)):
        yield _lacking(part)
    if effect.uses_git:
        yield from _judge_repository(effect, place, command)
    yield from (judge_read(path, policy) for path in reads)
    yield from (judge_write(path, policy) for path in writes)
    if effect.moved:
        yield from judge_copies(effect, place, policy)


def _depends_on_time(effect: ProgramEffect, command: ShellCommand) -> bool:
    """Whether other commands may change what a program does before it runs.

    What it copies may have grown a file that a rule is about; git may find another repository.
    """
    is_searched = effect.is_recursive and command.has_file_rules
    return bool(effect.writes or effect.uses_git or is_searched)


def _judge_repository(
    effect: ProgramEffect, place: Path | None, command: ShellCommand
) -> Iterator[AccessDecision]:
    if place is None:
        yield AccessDecision(
            VerdictKind.ASK, "git runs in a directory that is only known when it runs"
        )
        return
    if command.writes:
        yield AccessDecision(VerdictKind.ASK, "git runs in a directory that the command changes")
    try:
        repository = find_repository(place)
    except (OSError, ValueError) as error:
        yield AccessDecision(VerdictKind.ASK, f"its repository cannot be checked: {error}")
        return
    if not repository:
        return
    if effect.shows_content and not is_inside(repository.top, command.policy.directories):
        yield AccessDecision(
            VerdictKind.ASK, f"it may show files of {repository.top}, which is outside"
        )
    enters = enters_submodules(effect.uses_git)
    if problem := find_problem(repository, enters_submodules=enters):
        yield AccessDecision(VerdictKind.ASK, problem, is_confinable=True)


def _redirections(command: ShellCommand) -> Iterator[AccessDecision]:
    """Decide about the files that input and output are redirected to."""
    for inner in command.inner:
        for redirect in inner.part.redirects:
            judge = judge_write if redirect.is_write else judge_read
            for finding in _judge_target(redirect.target, judge, command):
                lacks_rule = finding.kind is VerdictKind.ASK and not finding.is_firm
                if finding.is_guarded or not (command.is_open and lacks_rule):
                    yield finding


def _judge_target(target: Word, judge: Judge, command: ShellCommand) -> Iterator[AccessDecision]:
    policy = command.policy
    for place in command.places:
        try:
            if target.has_glob:
                raise UnknownValue(target.source)  # bash would expand it again, later
            for text in arguments_in((target,), place):
                if CONNECTION.match(text):
                    # A rule for files says nothing about the network.
                    reason = f"{target.source} is a network connection"
                    yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)
                yield judge(path_in(text, place), command.policy)
        except UnknownValue:
            reason = f"which file {target.source} is, is only known when it runs"
            is_ruled = any(rule.tool in FILE_RULES for rule in (*policy.deny, *policy.ask))
            # It may be a protected file, or one that a rule denies.
            yield AccessDecision(
                VerdictKind.ASK, reason, is_firm=is_ruled, is_guarded=judge is judge_write
            )
