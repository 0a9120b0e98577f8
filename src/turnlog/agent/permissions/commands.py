"""Whether a shell command may run: what each rule, each program and each file has to say.

A command runs unprompted only if every word of it is understood. Whatever is not, asks.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.access import Mode
from turnlog.agent.permissions.bash import Part, Script, Unknown, Word, parse_script
from turnlog.agent.permissions.directories import (
    MOVES,
    arguments_in,
    entries_below,
    path_in,
    possible_directories,
)
from turnlog.agent.permissions.files import (
    WRITING,
    judge_read,
    judge_write,
    restricted_names,
)
from turnlog.agent.permissions.git_guards import guard_repositories
from turnlog.agent.permissions.git_repository import find_problem, find_repository
from turnlog.agent.permissions.guards import guard, written_paths
from turnlog.agent.permissions.launchers import (
    Inner,
    commands_in,
    needs_whole_rule,
    without_wrappers,
)
from turnlog.agent.permissions.offers import is_program_input, offers_for
from turnlog.agent.permissions.paths import (
    has_protected_name,
    has_protected_part,
    is_inside,
    names_of,
)
from turnlog.agent.permissions.policy import ALLOWED, Finding, Kind, Policy
from turnlog.agent.permissions.programs import (
    READERS,
    WRITERS,
    Effect,
    change_files,
    enters_submodules,
    is_plain_condition,
    read_files,
)
from turnlog.agent.permissions.removals import Places
from turnlog.agent.permissions.restrictions import is_safe_assignment, reach
from turnlog.agent.permissions.rules import COMMANDS, Match, Rule, matches_command
from turnlog.agent.permissions.wildcards import command_text

MOST_WORDS = 500
"""Words and parts of a command that is analyzed part by part."""
STATUS = re.compile(r"\"?[\w .,:=()%/-]*\$\?[\w .,:=()%/-]*\"?", re.ASCII)
"""A text with the exit code of the last command, which echo may print."""
NOT_FILES = frozenset(("/dev/null",))
CHANGES_DIRECTORY = frozenset("env find git make sudo tar".split())
"""Programs with an option that makes another directory the current one."""
DIRECTORY_OPTION = re.compile(r"-C.*|-D.*|--chdir.*|--directory.*|-execdir|-okdir")
FILE_TOOLS = ("Read", "Edit")
Judge = Callable[[Path, Policy], Finding]


class Command(Struct, frozen=True):
    """A command, with what the analysis of all its parts needs."""

    text: str
    script: Script
    inner: tuple[Inner, ...]
    """Every program that would run, including those that other programs start."""
    places: Places
    """Where its parts may run."""
    policy: Policy

    @property
    def is_open(self) -> bool:
        """Whether a rule allows all commands."""
        rules = self.policy.allow if self.policy.mode is not Mode.PLAN else ()
        return any(rule.tool == COMMANDS and rule.about is None for rule in rules)

    @property
    def writes(self) -> bool:
        """Whether a part of it may create or change files."""
        return any(_may_write(inner.part) for inner in self.inner)


def _may_write(part: Part) -> bool:
    words = without_wrappers(part.words)
    targets = {each.target.text for each in part.redirects if each.is_write}
    if targets - NOT_FILES or not words:
        return bool(targets - NOT_FILES)
    if words[0].text == "sed":
        return any(word.text.startswith(("-i", "--in-place")) for word in words)
    return words[0].text in WRITERS


class PartFindings(Struct, frozen=True):
    """What is decided about one part of a command."""

    part: Part
    findings: tuple[Finding, ...]


class CommandFindings(Struct, frozen=True):
    """What is decided about a command: as a whole, and part by part."""

    command: Command
    general: tuple[Finding, ...]
    parts: tuple[PartFindings, ...]

    @property
    def all(self) -> list[Finding]:
        found = [*self.general, *(each for part in self.parts for each in part.findings)]
        return found or [ALLOWED]


def judge_command(text: str, policy: Policy) -> list[Finding]:
    """Decide about a shell command."""
    return analyze_command(text, policy).all


def analyze_command(text: str, policy: Policy) -> CommandFindings:
    """Decide about a shell command, and keep what was decided about each part."""
    script = parse_script(text)
    if sum(1 + len(part.words) for part in script.parts) > MOST_WORDS:
        script = Script(unclear=[f"it has more than {MOST_WORDS:,} words"])
    try:
        inner = tuple(each for part in script.parts for each in commands_in(part))
    except RecursionError:
        script.unclear.append("it runs programs through too many others")
        inner = tuple(map(Inner, script.parts))
    places = _places(script, inner, policy.cwd)
    command = Command(text.strip(), script, inner, places, policy)
    general = [*_restrictions(command), *_guards(command)]
    if any(rule.tool == COMMANDS for rule in policy.allow):
        general += guard_repositories(script, inner, policy.cwd)
    if script.unclear:
        general.append(Finding(Kind.ASK, f"the command is unclear: {'; '.join(script.unclear)}"))
    is_named = _is_named_whole(command)
    parts = tuple(
        PartFindings(part, () if is_named else tuple(_judge_part(part, command)))
        for part in script.parts
    )
    return CommandFindings(command, (*general, *_redirections(command)), parts)


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


def _restrictions(command: Command) -> Iterator[Finding]:
    """Yield what deny and ask rules say about anything that would run."""
    policy = command.policy
    for rules, kind, verb in (
        (policy.deny, Kind.DENY, "denies"),
        (policy.ask, Kind.ASK, "asks for"),
    ):
        for rule in rules:
            match = reach(rule, command.text, command.script, command.inner)
            if match is Match.YES:
                yield Finding(kind, f"{rule.text} {verb} it", is_firm=True)
            elif match is Match.MAYBE:
                yield Finding(Kind.ASK, f"{rule.text} may be about it", is_firm=True)


def _guards(command: Command) -> Iterator[Finding]:
    for inner in command.inner:
        yield from guard(inner.part, command.text, command.places, command.policy)


def _is_named_whole(command: Command) -> bool:
    """Whether a rule allows exactly this command, whatever is in it."""
    if command.policy.mode is Mode.PLAN:
        return False
    rules = [rule for rule in command.policy.allow if rule.tool == COMMANDS]
    return any(rule.is_exact and rule.about == command.text for rule in rules)


def _judge_part(part: Part, command: Command) -> Iterator[Finding]:
    if command.is_open or not (part.words or part.assignments):
        return
    # Without a program, a variable counts for the rest of the command, and for bash itself.
    unsafe = [
        each.name for each in part.assignments if not (part.words and is_safe_assignment(each))
    ]
    if rule := _allowing(part, bool(unsafe), command.policy):
        yield Finding(Kind.ALLOW, f"{rule.text} allows it")
    elif unsafe:
        yield Finding(Kind.ASK, f"it sets {', '.join(unsafe)}")
    elif part.words:
        yield from _judge_program(part, command)


def _allowing(part: Part, is_unsafe: bool, policy: Policy) -> Rule | None:
    """Return the rule that allows a part, if each word that decides what runs is plain."""
    words = without_wrappers(part.words)
    if policy.mode is Mode.PLAN or not words or not words[0].is_known or part.is_test:
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
        texts = (whole,) if is_unsafe else (whole, command_text(part.words), command_text(words))
        if any(matches_command(rule, text) is Match.YES for text in texts):
            return rule
    return None


def _names(rule: Rule, set_first: tuple[Word, ...]) -> bool:
    """Whether a rule names a whole command, or the variables that are set before it."""
    if set_first:
        return all(f"{word.text} " in f"{rule.patterns[0]} " for word in set_first)
    return rule.is_exact


def _judge_program(part: Part, command: Command) -> Iterator[Finding]:
    if part.is_test:
        if not is_plain_condition(tuple(word.text for word in part.words)):
            yield _lacking(part)
        return
    words = without_wrappers(part.words)
    if not words[0].is_known:
        yield Finding(Kind.ASK, "which program runs is only known when it runs")
        return
    for place in command.places:
        try:
            arguments = arguments_in(_without_status(words), place)
        except Unknown as unknown:
            if words[0].text not in READERS:
                yield _lacking(part)
                return
            yield Finding(Kind.ASK, f"what {unknown} stands for is only known when it runs")
            return
        effect = _effect(words[0].text, arguments, command.policy.mode)
        if effect is None:
            yield _lacking(part)
            return
        if effect.reads:
            yield from _judge_globs(words, place, command)
        yield from _judge_effect(effect, place, part, command)


def _without_status(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The arguments of a program; for echo, without those that only contain `$?`."""
    if words[0].text != "echo":
        return words[1:]
    return tuple(word for word in words[1:] if not STATUS.fullmatch(word.source))


def _effect(name: str, arguments: tuple[str, ...], mode: Mode) -> Effect | None:
    """Return what a program does, if it may do that unprompted in some directory."""
    if effect := read_files(name, arguments):
        return effect
    # Whatever the mode, what tee writes is decided like any other file that is written.
    return change_files(name, arguments) if mode is Mode.ACCEPT_EDITS or name == "tee" else None


def _lacking(part: Part) -> Finding:
    return Finding(Kind.ASK, f"no rule allows {part.source or 'it'}", remember=offers_for(part))


def _judge_globs(
    words: tuple[Word, ...], place: Path | None, command: Command
) -> Iterator[Finding]:
    """Decide about all files that patterns match: their order depends on the locale.

    In a command that changes files, a pattern may also match what the command creates.
    """
    globs = [word for word in words if word.has_glob]
    if globs and command.writes:
        yield Finding(Kind.ASK, f"{globs[0].source} may match files that the command creates")
    for text in arguments_in(tuple(globs), place):
        yield judge_read(path_in(text, place), command.policy)


def _judge_effect(
    effect: Effect, place: Path | None, part: Part, command: Command
) -> Iterator[Finding]:
    policy = command.policy
    try:
        reads = [path_in(text, place) for text in effect.reads]
        writes = written_paths(effect, place)
    except Unknown:
        yield Finding(Kind.ASK, f"which files {part.source} touches is only known when it runs")
        return
    if effect.needs_files and any(os.path.isdir(path) for path in reads):
        yield _lacking(part)
    if effect.uses_git:
        yield from _judge_repository(effect, place, command)
    yield from (judge_read(path, policy) for path in reads)
    yield from (judge_write(path, policy) for path in writes)
    if effect.moved:
        yield from _judge_copies(effect, place, policy)


def _judge_repository(effect: Effect, place: Path | None, command: Command) -> Iterator[Finding]:
    if place is None:
        yield Finding(Kind.ASK, "git runs in a directory that is only known when it runs")
        return
    if command.writes:
        yield Finding(Kind.ASK, "git runs in a directory that the command changes")
    try:
        repository = find_repository(place)
    except (OSError, ValueError) as error:
        yield Finding(Kind.ASK, f"its repository cannot be checked: {error}")
        return
    if not repository:
        return
    if effect.shows_content and not is_inside(repository.top, command.policy.directories):
        yield Finding(Kind.ASK, f"it may show files of {repository.top}, which is outside")
    enters = enters_submodules(effect.uses_git)
    if problem := find_problem(repository, enters_submodules=enters):
        yield Finding(Kind.ASK, problem, is_confinable=True)


def _judge_copies(effect: Effect, place: Path | None, policy: Policy) -> Iterator[Finding]:
    """Check what is below the directories that are copied or moved, where it lands.

    A relative link leads somewhere else from another directory, so links are asked about.
    """
    target = path_in(effect.writes[-1], place)
    for source in (path_in(text, place) for text in effect.moved):
        if not os.path.lexists(source):
            yield Finding(Kind.ASK, f"{source} does not exist yet, so its content is not known")
        if os.path.islink(source):
            yield Finding(Kind.ASK, f"{source} is a link")
        if os.path.isdir(source):
            landing = (target, target / source.name)
            try:
                yield from _judge_landing(source, landing, policy)
            except Unknown:
                yield Finding(Kind.ASK, f"{source} holds too much to be checked")


def _judge_landing(source: Path, landing: tuple[Path, ...], policy: Policy) -> Iterator[Finding]:
    """Check where each file below a directory would land, under all names of the target."""
    targets = [names_of(folder) for folder in landing]
    for entry in entries_below(source):
        below = Path(entry.path).relative_to(source)
        if entry.is_symlink():
            yield Finding(Kind.ASK, f"{entry.path} is a link")
        if has_protected_name(entry.name) or any(has_protected_part(p / below) for p in landing):
            yield Finding(Kind.ASK, f"{landing[-1] / below} is protected", is_guarded=True)
        for names in targets:
            found = tuple(name / below for name in names)
            if os.path.islink(found[0]):
                yield judge_write(found[0], policy)
            elif restriction := restricted_names(found, policy, WRITING, "Edit"):
                yield restriction


def _redirections(command: Command) -> Iterator[Finding]:
    """Decide about the files that input and output are redirected to."""
    for inner in command.inner:
        for redirect in inner.part.redirects:
            judge = judge_write if redirect.is_write else judge_read
            for finding in _judge_target(redirect.target, judge, command):
                lacks_rule = finding.kind is Kind.ASK and not finding.is_firm
                if finding.is_guarded or not (command.is_open and lacks_rule):
                    yield finding


def _judge_target(target: Word, judge: Judge, command: Command) -> Iterator[Finding]:
    policy = command.policy
    for place in command.places:
        try:
            for text in arguments_in((target,), place):
                yield judge(path_in(text, place), command.policy)
        except Unknown:
            reason = f"which file {target.source} is, is only known when it runs"
            is_ruled = any(rule.tool in FILE_TOOLS for rule in (*policy.deny, *policy.ask))
            # It may be a protected file, or one that a rule denies.
            yield Finding(Kind.ASK, reason, is_firm=is_ruled, is_guarded=judge is judge_write)
