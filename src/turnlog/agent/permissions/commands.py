"""What is decided about a shell command: about each program and each file in it."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.changers import REMOVERS, Change, change_of
from turnlog.agent.permissions.files import READING, WRITING, judge_read, judge_write, restricted
from turnlog.agent.permissions.launchers import (
    Inner,
    commands_in,
    name_of,
    needs_whole_rule,
    without_wrappers,
)
from turnlog.agent.permissions.offers import offers_for
from turnlog.agent.permissions.paths import is_critical, is_protected
from turnlog.agent.permissions.places import Unknown, paths_of, starting_places
from turnlog.agent.permissions.policy import ALLOWED, Finding, Kind, Mode, Policy
from turnlog.agent.permissions.readers import (
    guess_paths,
    is_harmless_test,
    read_paths,
    searches_folders,
)
from turnlog.agent.permissions.rules import COMMANDS, Match, Rule, matches_command
from turnlog.agent.permissions.shell import Part, Script, parse_script
from turnlog.agent.permissions.wildcards import BLANK, HOLE
from turnlog.agent.permissions.words import Word, command_text

SAFE_VARIABLES = re.compile(
    r"""LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES
    |CI|NODE_ENV|RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE
    |PY_COLORS|GOOS|GOARCH|CGO_ENABLED|DJANGO_COLORS""",
    re.X,
)
PLAIN_VALUE = re.compile(r"[\w.,:/@+=*-]*", re.ASCII)


class _Command(Struct, frozen=True):
    """A command that is being decided about."""

    text: str
    script: Script
    inner: tuple[Inner, ...]
    """All that would run, commands inside of commands included."""
    spellings: dict[str, bool]
    """Texts by which rules that deny or ask may know what runs, and whether that is sure to run."""
    places: tuple[Path, ...] | None
    """Where its parts may run."""
    policy: Policy

    @property
    def is_open(self) -> bool:
        """Whether all commands are allowed."""
        rules = self.policy.allow if self.policy.mode is not Mode.PLAN else ()
        return any(rule.tool == COMMANDS and rule.about is None for rule in rules)


def judge_command(text: str, policy: Policy) -> list[Finding]:
    """Decide about a shell command: what each rule, each part and each file has to say."""
    script = parse_script(text)
    inner = tuple(each for part in script.parts for each in commands_in(part))
    places = starting_places([each.part for each in inner], policy.cwd)
    command = _Command(text.strip(), script, inner, _all_spellings(inner), places, policy)
    found = [*_restrictions(command), *_guards(command)]
    if script.unclear:
        found.append(Finding(Kind.ASK, f"the command is unclear: {script.unclear[0]}"))
    elif not script.parts and text.strip():
        found.append(ALLOWED)
    if not _is_named_whole(command):
        for part in script.parts:
            found += _judge_part(part, command)
    return [*found, *_redirections(command)] or [ALLOWED]


def _restrictions(command: _Command) -> Iterator[Finding]:
    """What rules that deny or ask say of anything that would run."""
    policy = command.policy
    for rules, kind, verb in (
        (policy.deny, Kind.DENY, "denies"),
        (policy.ask, Kind.ASK, "asks for"),
    ):
        for rule in rules:
            match = _reach(rule, command)
            if match is Match.YES:
                yield Finding(kind, f"{rule.text} {verb} it", is_firm=True)
            elif match is Match.MAYBE:
                yield Finding(Kind.ASK, f"{rule.text} may be about it", is_firm=True)


def _reach(rule: Rule, command: _Command) -> Match:
    """Whether a rule is about anything that would run; what is unclear may be anything."""
    if rule.tool != COMMANDS:
        return Match.NO
    if rule.about is None or command.text == rule.about:
        return Match.YES
    found = Match.MAYBE if command.script.unclear else Match.NO
    for text, is_sure in command.spellings.items():
        match = matches_command(rule, text)
        if match is Match.YES and is_sure:
            return match
        if match is not Match.NO:
            found = Match.MAYBE
    return found


def _all_spellings(inner: Iterable[Inner]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for each in inner:
        for text in _spellings(each.part):
            found[text] = each.is_sure or found.get(text, False)
    return found


def _spellings(part: Part) -> Iterator[str]:
    """All texts by which a rule that denies or asks may know a command."""
    words = part.words
    if not words:
        return
    for known in dict.fromkeys((words, without_wrappers(words))):
        named = (Word(name_of(known[0]), known[0].has_glob), *known[1:])
        for each in (known, named, tuple(map(_globbed, named))):
            text = command_text(each)
            yield text
            yield text.replace(BLANK, " ")
    if part.source:
        yield part.source


def _globbed(word: Word) -> Word:
    """A word as what its patterns may find."""
    return Word(re.sub(r"[*?\[\]]", HOLE, word.text)) if word.has_glob else word


def _guards(command: _Command) -> Iterator[Finding]:
    """What no rule allows: removals that take much along, and rules about files."""
    for inner in command.inner:
        words = without_wrappers(inner.part.words)
        if not words or inner.part.is_test:
            continue
        plain = (Word(name_of(words[0])), *words[1:])
        if plain[0].text in REMOVERS and any(_is_far(word, command) for word in plain[1:]):
            yield Finding(Kind.ASK, "it removes what much depends on", is_firm=True)
        change = change_of(plain)
        written = _written(change, command) if change else []
        reads = _known_paths(change.reads if change else guess_paths(plain), command)
        yield from _about_files(written, command, WRITING, "Edit")
        yield from _about_files(reads, command, READING, "Read")
        if not change and _may_find_denied(plain, command):
            yield Finding(Kind.ASK, "it may find what is not to be read", is_firm=True)
        for path in filter(is_protected, written):
            yield Finding(Kind.ASK, f"{path} is protected", is_guarded=True)


def _may_find_denied(words: tuple[Word, ...], command: _Command) -> bool:
    denied = any(rule.tool == "Read" for rule in command.policy.deny)
    return denied and searches_folders(words)


def _is_far(word: Word, command: _Command) -> bool:
    """Whether to remove this would take much along."""
    if word.is_option:
        return False
    if re.search(rf"{HOLE}/[*./]*$", word.text):
        return True
    folder, _, name = word.text.rpartition("/")
    if word.has_glob and re.search(r"[*?\[]", name):
        start = Word(
            folder or ("/" if word.text.startswith("/") else "."), has_tilde=word.has_tilde
        )
    else:
        start = word
    directories = (*command.policy.directories, *(command.places or ()))
    return any(is_critical(path, directories) for path in _known_paths((start,), command))


def _written(change: Change, command: _Command) -> list[Path]:
    """What a command writes, and where in a folder its files would land."""
    written = list(_known_paths(change.writes, command))
    if not change.moved:
        return written
    targets = list(_known_paths(change.writes[-1:], command))
    moved = _known_paths(change.moved, command)
    return [*written, *(target / path.name for path in moved for target in targets)]


def _about_files(
    paths: Iterable[Path], command: _Command, denying: tuple[str, ...], asking: str
) -> Iterator[Finding]:
    for path in paths:
        if found := restricted(path, command.policy, denying, asking):
            yield found


def _known_paths(words: tuple[Word, ...], command: _Command) -> Iterator[Path]:
    for word in dict.fromkeys(words):
        try:
            yield from paths_of(word, command.places)
        except Unknown:
            continue


def _is_named_whole(command: _Command) -> bool:
    """Whether a rule allows just this command, whatever is in it."""
    if command.policy.mode is Mode.PLAN:
        return False
    rules = [rule for rule in command.policy.allow if rule.tool == COMMANDS]
    return any(rule.is_exact and rule.about == command.text for rule in rules)


def _judge_part(part: Part, command: _Command) -> Iterator[Finding]:
    if command.is_open or not (part.words or part.assigned):
        return
    unsafe = [each.name for each in part.assigned if not _is_safe(each.name, each.value)]
    if rule := _allowing(part, bool(unsafe), command.policy):
        yield Finding(Kind.ALLOW, f"{rule.text} allows it")
    elif unsafe:
        yield Finding(Kind.ASK, f"it sets {', '.join(unsafe)}")
    elif part.words:
        yield from _judge_program(part, command)


def _is_safe(name: str, value: Word) -> bool:
    return bool(SAFE_VARIABLES.fullmatch(name) and PLAIN_VALUE.fullmatch(value.text))


def _allowing(part: Part, is_unsafe: bool, policy: Policy) -> Rule | None:
    """The rule that allows a part, if each word that decides what runs is plain."""
    words = without_wrappers(part.words)
    if policy.mode is Mode.PLAN or not words or not words[0].is_known or words[0].has_tilde:
        return None
    set_first = tuple(Word(f"{each.name}={each.value.text}") for each in part.assigned)
    whole = command_text((*set_first, *part.words))
    for rule in policy.allow:
        if rule.tool != COMMANDS or rule.about is None:
            continue
        if (needs_whole_rule(words) or is_unsafe) and not _names(rule, part, set_first):
            continue
        texts = (whole,) if is_unsafe else (whole, command_text(part.words), command_text(words))
        if any(matches_command(rule, text) is Match.YES for text in texts):
            return rule
    return None


def _names(rule: Rule, part: Part, set_first: tuple[Word, ...]) -> bool:
    """Whether a rule names a whole command, or the variables that are set before it."""
    if set_first:
        return all(f"{word.text} " in f"{rule.patterns[0]} " for word in set_first)
    return rule.is_exact


def _judge_program(part: Part, command: _Command) -> Iterator[Finding]:
    words = without_wrappers(part.words)
    name = words[0].text
    offers = offers_for(part)
    if not words[0].is_known or words[0].has_tilde:
        yield Finding(Kind.ASK, "which program runs is not known before")
    elif part.is_test:
        if not is_harmless_test(part.source):
            yield Finding(Kind.ASK, f"no rule allows {part.source}")
    elif (paths := read_paths(words)) is not None and not _is_elsewhere(name, command):
        yield from _judge_files(paths, command, is_written=False, part=part)
    else:
        yield from _judge_change(words, command, part) or [_lacking(part, offers)]


def _lacking(part: Part, offers: tuple[str, ...]) -> Finding:
    return Finding(Kind.ASK, f"no rule allows {part.source or 'it'}", remember=offers)


def _is_elsewhere(name: str, command: _Command) -> bool:
    """Whether git may run in another directory, whose own programs it would run."""
    return name == "git" and command.places != (command.policy.cwd,)


def _judge_change(words: tuple[Word, ...], command: _Command, part: Part) -> list[Finding]:
    change = change_of(words)
    accepted = command.policy.mode is Mode.ACCEPT_EDITS or words[0].text == "tee"
    if not change or not change.is_understood or not accepted:
        return []
    return [
        *_judge_files(change.reads, command, is_written=False, part=part),
        *_judge_files(change.writes, command, is_written=True, part=part),
    ] or [ALLOWED]


def _judge_files(
    words: tuple[Word, ...], command: _Command, *, is_written: bool, part: Part
) -> Iterator[Finding]:
    judge = judge_write if is_written else judge_read
    for word in dict.fromkeys(words):
        try:
            for path in paths_of(word, command.places):
                yield judge(path, command.policy)
        except Unknown:
            yield Finding(Kind.ASK, f"which files {part.source} touches is not known before")


def _redirections(command: _Command) -> Iterator[Finding]:
    """What is decided about the files that input and output are redirected to."""
    for inner in command.inner:
        part = inner.part
        for words, is_written in ((part.writes, True), (part.reads, False)):
            for finding in _judge_files(words, command, is_written=is_written, part=part):
                lacks_rule = finding.kind is Kind.ASK and not finding.is_firm
                if finding.is_guarded or not (command.is_open and lacks_rule):
                    yield finding
