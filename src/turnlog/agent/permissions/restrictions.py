"""Which deny and ask rules for Bash a command falls under, however it is spelled.

A rule for `curl` is also about `sudo curl`, `bash -c 'curl x'` and `/usr/bin/curl`. Where it is
not certain whether the program would run, the rule counts as `Match.MAYBE`, and the call asks.
"""

import re
from collections.abc import Iterator

from turnlog.agent.permissions.bash import HOLE, Assignment, Part, Word
from turnlog.agent.permissions.launchers import Inner, name_of, without_wrappers
from turnlog.agent.permissions.programs import change_files, is_plain_condition, read_files
from turnlog.agent.permissions.rules import COMMANDS, Match, Rule, matches_command
from turnlog.agent.permissions.wildcards import ANY, BLANK, command_text

SAFE_VARIABLE = re.compile(
    r"""LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES
    |CI|NODE_ENV|RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE
    |PY_COLORS|GOOS|GOARCH|CGO_ENABLED|DJANGO_COLORS""",
    re.X,
)
PLAIN_VALUE = re.compile(r"[\w.,:/@+=*-]*", re.ASCII)
STEERING_VARIABLE = re.compile(
    r"""PATH|CDPATH|IFS|ENV|BASH\w*|SHELLOPTS|PROMPT_COMMAND|PS[0-4]|GLOBIGNORE|LD_\w+|DYLD_\w+
    |GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|\w*OPTS?|\w*OPTIONS|\w*SHELL|\w*COMMAND
    |PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w+|HOME|HISTFILE""",
    re.X,
)
"""Variables that make a program run others."""
DATA_SUBCOMMANDS = {
    "git": frozenset(
        """
        add am apply branch checkout cherry-pick clean commit describe diff fetch init log ls-files
        merge mv pull push remote reset restore rev-parse revert rm show stash status switch tag
        """.split()
    ),
    **dict.fromkeys(
        ("npm", "yarn", "pnpm", "bun"),
        frozenset("add build ci i install lint ls outdated run run-script start test".split()),
    ),
    **dict.fromkeys(
        ("cargo", "go", "pip", "pip3", "poetry"),
        frozenset("add build check clippy doc fmt get install list mod show test vet".split()),
    ),
}
"""Subcommands whose operands are names, not commands."""


def reach(rule: Rule, text: str, inner: tuple[Inner, ...], *, is_unclear: bool) -> Match:
    """Return whether a rule is about anything that a command would run."""
    if rule.tool != COMMANDS:
        return Match.NO
    if rule.about is None or text == rule.about:
        return Match.YES
    found = Match.MAYBE if is_unclear else Match.NO
    for each in inner:
        match = _match(rule, each)
        if match is Match.YES:
            return match
        found = max(found, match, key=lambda match: match.value)
    return found


def _match(rule: Rule, inner: Inner) -> Match:
    found = Match.NO
    for text in _spellings(inner.part):
        match = matches_command(rule, text)
        if match is Match.YES and inner.is_sure:
            return match
        if match is not Match.NO:
            found = Match.MAYBE
    is_mentioned = found is Match.NO and _mentions(rule, inner.part)
    return Match.MAYBE if is_mentioned else found


def _spellings(part: Part) -> Iterator[str]:
    """Yield every text under which a rule may know a command."""
    words = part.words
    if not words or part.is_test:
        return
    for known in dict.fromkeys((words, without_wrappers(words))):
        named = (Word(name_of(known[0]), known[0].glob), *known[1:])
        for each in (known, named, tuple(map(_with_holes, named))):
            text = command_text(each)
            yield text
            yield text.replace(BLANK, " ")
    if part.source:
        yield part.source


def _with_holes(word: Word) -> Word:
    """Replace the glob characters of a word by holes: they may match anything."""
    return Word(re.sub(r"[*?\[\]]", HOLE, word.text)) if word.has_glob else word


def _mentions(rule: Rule, part: Part) -> bool:
    """Whether a rule's program is named where an unknown program could run it.

    No list of launchers is complete (`setpriv curl x`, `perf stat curl x`), so every argument of a
    program counts that is not known to treat its arguments as data.
    """
    if any(STEERING_VARIABLE.fullmatch(each.name) for each in part.assignments):
        return True
    names = {_program_of(pattern) for pattern in rule.patterns} - {""}
    if not names:
        return False
    suspects = [each.value for each in part.assignments]
    if part.words and not _takes_data(part):
        suspects += part.words[not part.is_test :]
    texts = {text for word in suspects for text in (word.text, word.source)}
    return any(_names_program(text, name) for text in texts for name in names)


def _program_of(pattern: str) -> str:
    word = re.split(rf"[ {ANY}{BLANK}]", pattern, maxsplit=1)[0]
    return word.rpartition("/")[2].lower()


def _names_program(text: str, name: str) -> bool:
    """
    >>> _names_program("-c/bin/curl x", "curl"), _names_program("libcurl.so", "curl")
    (True, False)
    """
    pattern = rf"(?:^|[^\w.-]|^-\w*){re.escape(name)}(?:$|[^\w.-])"
    return bool(re.search(pattern, text, re.I))


def _takes_data(part: Part) -> bool:
    """Whether a program is known not to run its arguments."""
    name, *arguments = (word.text for word in part.words)
    if part.is_test:
        return is_plain_condition((name, *arguments))
    subcommands = DATA_SUBCOMMANDS.get(name)
    if subcommands and arguments[:1] and arguments[0] in subcommands:
        return not any(text.startswith("-") and "=" in text for text in arguments)
    given = tuple(arguments)
    return bool(read_files(name, given) or change_files(name, given))


def is_safe_assignment(assignment: Assignment) -> bool:
    """Whether a variable can be set without changing which programs run."""
    return bool(
        SAFE_VARIABLE.fullmatch(assignment.name) and PLAIN_VALUE.fullmatch(assignment.value.text)
    )
