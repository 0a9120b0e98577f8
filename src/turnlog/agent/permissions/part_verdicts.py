"""Decide about each program of a shell command and each redirection.

A part runs unprompted if a rule allows it, or if every word of it is understood and it touches only
what the mode allows. `cat src/*.py` needs both: `cat` with known options, and every file it reads.
"""

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

from turnlog.agent.permissions.bash import (
    SimpleCommand,
    UnknownValue,
    Word,
    expand_glob,
    find_option,
    is_folder,
)
from turnlog.agent.permissions.copies import judge_copies
from turnlog.agent.permissions.file_verdicts import judge_output, judge_read, judge_write
from turnlog.agent.permissions.git_index import doubt_index
from turnlog.agent.permissions.git_repository import GitCall, find_problem, find_repository
from turnlog.agent.permissions.guards import written_paths
from turnlog.agent.permissions.interference import effective_words, only_reads
from turnlog.agent.permissions.launchers import (
    needs_whole_rule,
    without_wrappers,
)
from turnlog.agent.permissions.offers import is_program_input, is_steered, offers_for
from turnlog.agent.permissions.path_access import is_inside
from turnlog.agent.permissions.patterns import names_for, patterns_in
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.program_calls import files_quoted
from turnlog.agent.permissions.programs import (
    READERS,
    ProgramEffect,
    change_files,
    enters_submodules,
    is_plain_condition,
    read_files,
)
from turnlog.agent.permissions.restrictions import is_safe_assignment
from turnlog.agent.permissions.rules import COMMANDS, Match, Rule, matches_command
from turnlog.agent.permissions.shell_command import ShellCommand
from turnlog.agent.permissions.wildcards import command_text
from turnlog.agent.permissions.working_directories import (
    CONNECTION,
    arguments_in,
    path_in,
)
from turnlog.agent.workspace.access import ApprovalMode

Judge = Callable[[Path, Policy], AccessDecision]


def judge_part(part: SimpleCommand, command: ShellCommand) -> Iterator[AccessDecision]:
    # If a rule allows all commands, only guards and deny rules still apply; they are checked
    # elsewhere.
    if command.is_open or not (part.words or part.assignments):
        return
    unsafe = _unsafe_variables(part)
    if rule := _allowing(part, bool(unsafe), command.policy):
        yield AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it")
        yield from _judge_quoted(part, rule, command)
        yield from _judge_names(part, rule, command)
    elif unsafe:
        yield AccessDecision(VerdictKind.ASK, f"it sets {', '.join(unsafe)}")
    elif part.words:
        yield from _judge_program(part, command)


def _judge_quoted(
    part: SimpleCommand, rule: Rule, command: ShellCommand
) -> Iterator[AccessDecision]:
    """Decide about files that git copies into a message: a rule for `git commit` covers none."""
    words = without_wrappers(part.words)
    if rule.is_exact or len(words) < 2 or words[0].text != "git" or not _names_start(rule, words):
        return
    for place in command.places:
        try:
            for text in arguments_in(tuple(files_quoted(words)), place):
                yield judge_read(path_in(text, place), command.policy)
        except UnknownValue:
            reason = f"which file {part.source} quotes is only known when it runs"
            yield AccessDecision(VerdictKind.ASK, reason)


def _judge_names(
    part: SimpleCommand, rule: Rule, command: ShellCommand
) -> Iterator[AccessDecision]:
    """Ask if a glob matches a file whose name is an option.

    If a project has a file `--pre=sh`, `rg foo *` runs each file, which a rule for `rg` does not
    cover.
    """
    patterns = () if rule.is_exact else patterns_in(part)
    for word, place in product(patterns, command.places):
        try:
            option = find_option(word, place)
        except UnknownValue:
            yield AccessDecision(
                VerdictKind.ASK, f"which files {word.source} matches is not certain"
            )
            continue
        if option:
            yield AccessDecision(VerdictKind.ASK, f"{word.source} matches {option}")


def _unsafe_variables(part: SimpleCommand) -> list[str]:
    # Without a program, an assignment affects the rest of the command, and bash itself.
    return [each.name for each in part.assignments if not (part.words and is_safe_assignment(each))]


def _allowing(part: SimpleCommand, is_unsafe: bool, policy: Policy) -> Rule | None:
    """Return the rule that allows a part; None if none does, or if the program is unknown."""
    words = without_wrappers(part.words)
    if policy.mode is ApprovalMode.PLAN or not words or not words[0].is_known or part.is_test:
        return None
    set_first = tuple(Word(f"{each.name}={each.value.text}") for each in part.assignments)
    whole = command_text((*set_first, *part.words))
    for rule in policy.allow:
        if rule.tool != COMMANDS or rule.about is None:
            continue
        # `Bash(watch *)` would allow everything. Such launchers need a rule that names the whole
        # command.
        if (needs_whole_rule(words) or is_unsafe) and not _names(rule, set_first):
            continue
        # `echo x | sh` is not the `sh` that somebody allowed: what runs comes through the pipe.
        if rule.is_exact and is_program_input(part):
            continue
        if not rule.is_exact and is_steered(words) and _names_start(rule, words):
            continue
        # With a variable that may run other programs, the rule has to name the variable too.
        texts = (whole,) if is_unsafe else (whole, command_text(part.words), command_text(words))
        if any(matches_command(rule, text) is Match.YES for text in texts):
            return rule
    return None


def _names_start(rule: Rule, words: tuple[Word, ...]) -> bool:
    """Return whether a rule names the subcommand; `Bash(npm *)` covers all of npm instead."""
    return f"{words[0].text} {words[1].text}" in rule.patterns[0]


def _names(rule: Rule, set_first: tuple[Word, ...]) -> bool:
    """Return whether a rule names a whole command, or the variables that are set before it."""
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
    name = words[0].text
    for place in command.places:
        try:
            arguments = arguments_in(effective_words(words), place)
        except UnknownValue as unknown:
            if name not in READERS:
                yield _lacking(part)
                return
            # Arguments that `xargs` adds have no text in the command.
            what = f"what {unknown} stands for" if str(unknown) else f"which files {name} gets"
            yield AccessDecision(VerdictKind.ASK, f"{what} is only known when it runs")
            return
        effect = _effect(name, arguments, command.policy.mode)
        if effect is None:
            yield _lacking(part)
            return
        yield from _judge_globs(effect, place, part, command)
        yield from _judge_effect(effect, place, part, command)


def _effect(name: str, arguments: tuple[str, ...], mode: ApprovalMode) -> ProgramEffect | None:
    """Return what a program does, if it may do that unprompted in some directory."""
    if effect := read_files(name, arguments):
        return effect
    # In every mode, files that tee writes are judged like any other written file.
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
    """Return whether other commands may change what a program does before it runs.

    A directory may then contain a file that a rule covers; git may find another repository.
    """
    is_searched = effect.is_recursive and command.policy.has_file_rules
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
    if doubt := doubt_index(effect.uses_git, repository.directory / "index", repository.top):
        yield AccessDecision(VerdictKind.ASK, doubt)
    call = GitCall(enters_submodules=enters_submodules(effect.uses_git))
    if problem := find_problem(repository, call):
        yield AccessDecision(VerdictKind.ASK, problem.reason, is_confinable=problem.is_confinable)


def judge_redirections(command: ShellCommand) -> Iterator[AccessDecision]:
    """Decide about the files that input and output are redirected to."""
    for inner in command.inner:
        for redirect in inner.part.redirects:
            judge = judge_output if redirect.is_write else judge_read
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
            reason = f"which file {target.source} names is only known when it runs"
            # It may be a protected file, or one that a rule denies.
            yield AccessDecision(
                VerdictKind.ASK,
                reason,
                is_firm=policy.has_file_rules,
                is_guarded=judge is judge_output,
            )


def has_rule(part: SimpleCommand, command: ShellCommand) -> bool:
    return _allowing(part, bool(_unsafe_variables(part)), command.policy) is not None
