"""Match a command against deny and ask rules for Bash, however it is spelled.

A rule for `curl` also covers `sudo curl`, `bash -c 'curl x'` and `/usr/bin/curl`. If it is
uncertain whether the program would run, the result is `Match.MAYBE`, and the user is asked.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from turnlog.agent.permissions.bash import HOLE, Assignment, Script, SimpleCommand, Word
from turnlog.agent.permissions.git_transfers import HELPER
from turnlog.agent.permissions.launchers import Inner, name_of, without_wrappers
from turnlog.agent.permissions.programs import change_files, is_plain_condition, read_files
from turnlog.agent.permissions.rules import COMMANDS, Match, Rule, matches_command
from turnlog.agent.permissions.wildcards import ANY, BLANK, command_text

SAFE_VARIABLE = re.compile(
    r"""NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|NODE_ENV|RUST_BACKTRACE|RUST_LOG|CARGO_TERM_COLOR|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE
    |PY_COLORS|GOOS|GOARCH|CGO_ENABLED|DJANGO_COLORS""",
    re.X,
)
PLAIN_VALUE = re.compile(r"[\w.,:/@+=*-]*", re.ASCII)
ZONE = re.compile(
    r"(?:(?:[A-Za-z_][\w+-]*|<[\w+-]+>[0-9:+-]+)(?:/[\w+-]+)*"
    r"(?:,[JM]?[0-9.]+(?:/[0-9:+-]+)?){0,2})?",
    re.ASCII,
)
"""A time zone by its name, or by rules such as `CET-1CEST,M3.5.0,M10.5.0/3`.

Any other value of TZ may be a file, which programs open.
"""
LOCALE = re.compile(r"LANG|LC_[A-Z]+")
PLAIN_LOCALE = re.compile(r"C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-8|utf8)")
"""In other encodings, bash may take the last byte of a character for a backslash."""
STEERING_VARIABLE = re.compile(
    r"""PATH|CDPATH|IFS|ENV|BASH\w*|SHELLOPTS|PROMPT_COMMAND|PS[0-4]|GLOBIGNORE|LD_\w+|DYLD_\w+
    |GIT_\w+|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w*|\w*OPTS?|\w*OPTIONS|\w*SHELL|\w*COMMAND
    |PYTHON\w*|PERL\w*|RUBY\w*|NODE_\w+|HOME|HISTFILE""",
    re.X,
)
"""Variables that can make a program run other programs."""
DATA_SUBCOMMANDS = {
    "git": frozenset(
        """
        add am apply branch checkout cherry-pick clean commit describe diff fetch init log ls-files
        merge mv pull push remote reset restore rev-parse revert rm show stash status switch tag
        """.split()
    ),
    **dict.fromkeys(
        ("npm", "yarn", "pnpm"),
        frozenset("add build ci i install lint ls outdated run run-script start test".split()),
    ),
    **dict.fromkeys(
        ("cargo", "go", "pip", "pip3", "poetry"),
        frozenset("add build check clippy doc fmt get install list mod show test vet".split()),
    ),
    **dict.fromkeys(
        ("docker", "podman"),
        frozenset("images inspect kill logs network port ps rm rmi stop tag volume".split()),
    ),
}
"""Subcommands whose operands are names, not commands."""


SCRIPT_RUNNERS = frozenset("npm pnpm yarn".split())
SHELL_TEXT = re.compile(r"\$\(|`|\\(?:\"|\Z)")
"""Text that a shell runs even inside double quotes, or that closes the quotes.

Some versions of npm (6 to 8.5) and pnpm (7, 8) append arguments to a script in double quotes, so
`npm test -- '$(id)'` runs `id`.
"""
PLAIN_OPTIONS = frozenset(
    """
    - -- -a -A -am -aq -b -B -d -D -f -i -m -n -p -q -r -rf -s -u -v --all --amend --cached
    --dry-run --force --hard --name-only --name-status --no-edit --oneline --porcelain --quiet
    --short --soft --stat --verbose
    """.split()
)
"""Options of the `DATA_SUBCOMMANDS` that cannot name a program to run."""
REVISION = re.compile(
    r"\$\((git (?:branch --show-current|describe|rev-parse|merge-base)[\w @~^/-]*)\)"
)
SHORT_NAME = 3
"""Program names up to this length also occur inside many words."""
EVALUATORS = frozenset(
    """
    [ [[ alias compgen complete declare eval export getopts let local mapfile printf read readarray
    readonly test trap typeset unset wait
    """.split()
)
"""Builtins that evaluate some of their arguments a second time."""
DECLARATIONS = frozenset("declare local readonly typeset".split())
CONDITIONS = frozenset("[ [[ test".split())
NAMING = frozenset("getopts mapfile read readarray unset wait".split())
"""The subset of `EVALUATORS` whose arguments are names of variables."""
NUMERIC = frozenset("-eq -ne -lt -le -gt -ge".split())
PLAIN_NUMBER = re.compile(r"\"?(?:-?[0-9]+|\$[?#!$]|\$\{#\w+\})\"?")


def reach(rule: Rule, text: str, script: Script, inner: tuple[Inner, ...]) -> Match:
    """Return how certainly a rule matches anything that a command would run."""
    if rule.tool != COMMANDS:
        return Match.NO
    if rule.about is None or text == rule.about:
        return Match.YES
    # A deny rule must not be evaded by a command that cannot be parsed.
    is_doubtful = script.unclear or _is_in_text(rule, text, inner)
    found = Match.MAYBE if is_doubtful else Match.NO
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


def _spellings(part: SimpleCommand) -> Iterator[str]:
    """Yield every spelling of a command that a rule may match."""
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
    """Replace the glob characters of a word with holes: they may match anything."""
    return Word(re.sub(r"[*?\[\]]", HOLE, word.text)) if word.has_glob else word


def _mentions(rule: Rule, part: SimpleCommand) -> bool:
    """Return whether a rule's program is named where an unknown program could run it.

    No list of launchers is complete (`setpriv curl x`, `perf stat curl x`), so all arguments are
    searched unless the program is known to treat them as data.
    """
    if any(STEERING_VARIABLE.fullmatch(each.name) for each in part.assignments):
        return True
    names = programs_of(rule)
    if not names:
        return False
    # The text that is evaluated may be assembled at run time, so no name has to appear in it.
    if evaluates(part):
        return True
    suspects = [each.value for each in part.assignments]
    if part.words and not takes_data(part):
        suspects += part.words[not part.is_test :]
    texts = {
        text for word in suspects for text in (word.text, _without_revisions(rule, word.source))
    }
    if any(names_program(text, name) for text in texts for name in names):
        return True
    return any(
        _hides_subcommand(pattern, part) or _is_same_file(pattern, part)
        for pattern in rule.patterns
    )


def programs_of(rule: Rule) -> set[str]:
    """Return the programs that a rule for commands names."""
    first = [re.split(rf"[ {ANY}{BLANK}]", each, maxsplit=1)[0] for each in rule.patterns]
    return {word.rpartition("/")[2].lower() for word in first} - {""}


def names_program(text: str, name: str) -> bool:
    r"""Return whether a text names a program, even with quotes that a second evaluation removes.

    A long name counts anywhere. A short one is part of many words (`rm` is in `form`), so at most
    one letter may precede it: sed runs `rm` for `1erm x`. Any character but a letter may precede
    it, because some interpreters accept any as a quote: perl runs `rm` for `qx.rm x.`.

    >>> names_program("1ecurl", "curl"), names_program("-c/bin/rm x", "rm")
    (True, True)
    >>> [names_program(text, "rm") for text in ("1erm x", "qx.rm x.", "x:;-rm x", "erm x")]
    [True, True, True, True]
    >>> names_program("form", "rm"), names_program("farm.txt", "rm")
    (False, False)
    >>> [names_program(text, "curl") for text in (r"a[$(c\url x)]", "c${Z}url", "c$(:)url")]
    [True, True, True]
    """
    # A substitution may run the program, or print nothing in the middle of its name.
    whole = (text, re.sub(r"\$\([^()]*\)|`[^`]*`", "", text))
    unquoted = [re.sub(r"[\\'\"]|\$\{[^}$]*\}|\$[@*\w]+", "", each) for each in whole]
    if len(name) > SHORT_NAME:
        return any(name in each.lower() for each in (text, *unquoted))
    pattern = rf"(?:^|[^a-z]|(?:^|[^a-z])[a-z]|^-\w*){re.escape(name)}(?![a-z0-9]|-[a-z])"
    unescaped = re.sub(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|[0-7]{1,3}|[a-z_])", " ", text, flags=re.I)
    return any(re.search(pattern, each, re.I) for each in (text, *unquoted, unescaped))


def evaluates(part: SimpleCommand) -> bool:
    """Return whether a builtin evaluates an argument, such as the subscript in `let 'a[$(x)]'`.

    The subscript may also be in a variable: `[[ -v $y ]]`, `let x=y`.
    """
    if not part.words:
        return False
    name = "[[" if part.is_test else name_of(part.words[0])
    if name not in EVALUATORS:
        return False
    words = part.words[not part.is_test :]
    if takes_data(part):
        return name in CONDITIONS and _names_variable(words)
    is_text = any(sign in word.text for word in words for sign in ("$(", "`", "["))
    # In `[ $x -eq 0 ]`, the variable may also hold the operator `-v`.
    is_split = name in ("[", "test") and any(word.may_split for word in words)
    return is_text or is_split or _evaluates_variable(name, words)


def _evaluates_variable(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a builtin evaluates the value of a variable."""
    texts = [word.text for word in words]
    if name == "let":
        return True
    if name in DECLARATIONS:
        has_number = any(re.match(r"-\w*i", text) for text in texts)
        return has_number or any(HOLE in text.partition("=")[0] for text in texts)
    if name in CONDITIONS:
        is_number = name == "[[" and any(map(_calculates, words, words[1:], words[2:]))
        return is_number or _names_variable(words)
    if name == "printf":
        first = "".join(texts[: 1 + (texts[:1] == ["-v"])])
        return HOLE in first and first.startswith((HOLE, "-v"))
    if name == "wait" and "-p" not in texts:
        return False
    return name in NAMING and any(text.startswith(HOLE) for text in texts)


def _names_variable(words: tuple[Word, ...]) -> bool:
    """Return whether a condition may test a variable of unknown name: `-v $x`, `$x $y`."""
    return any(
        HOLE in after.text and (before.text in ("-v", "-R") or before.text.startswith(HOLE))
        for before, after in pairwise(words)
    )


def _calculates(left: Word, operator: Word, right: Word) -> bool:
    """Return whether `[[` compares numbers other than literals and plain values such as `$?`."""
    return operator.text in NUMERIC and not all(
        PLAIN_NUMBER.fullmatch(word.source) for word in (left, right)
    )


def _hides_subcommand(pattern: str, part: SimpleCommand) -> bool:
    """Return whether options stand between a program and the subcommand that a rule is about.

    `git -C . push`, `git remote -v add` and `git -c alias.p=push p` fall under rules for
    `git push` and `git remote add`.
    """
    program, *wanted = re.split(rf"[{ANY}{BLANK}]", pattern, maxsplit=1)[0].split()
    words = without_wrappers(part.words)
    if not wanted or len(words) < 2 or name_of(words[0]) != program:
        return False
    if words[1].is_option and any(names_program(word.text, wanted[0]) for word in words[1:]):
        return True
    is_value = False
    for word in words[1:]:
        if not wanted:
            return True
        if HOLE in word.text or word.text == wanted[0]:
            wanted.pop(0)
        elif not word.is_option and not is_value:
            return False
        is_value = word.is_option
    return not wanted


def _is_same_file(pattern: str, part: SimpleCommand) -> bool:
    """Return whether a command runs a file with the same base name as a path in a rule.

    `././deploy.sh` and `/abs/deploy.sh` may be the `./deploy.sh` that a rule denies.
    """
    program = re.split(rf"[ {ANY}{BLANK}]", pattern, maxsplit=1)[0]
    words = without_wrappers(part.words)
    if "/" not in program or not words or part.is_test:
        return False
    return name_of(words[0]) == program.rpartition("/")[2].lower()


def _is_in_text(rule: Rule, text: str, inner: tuple[Inner, ...]) -> bool:
    """Return whether a rule's program is named anywhere in a command that runs an unknown program.

    Text can reach an interpreter in many ways: by a pipe, a here-document, a file that the command
    writes, a loop variable, `$_`. So the whole command is searched.
    """
    parts = [each.part for each in inner if each.part.words]
    # A tool may run a file that the command wrote: a script in package.json, a git hook.
    writes = any(each.is_write for part in parts for each in part.redirects)
    has_tools = any(part.words[0].text in DATA_SUBCOMMANDS for part in parts)
    if all(map(takes_data, parts)) and not (writes and has_tools):
        return False
    for part in parts:
        text = _without_known(rule, part, text)
    text = _without_revisions(rule, text)
    return any(names_program(text, name) for name in programs_of(rule))


def _without_revisions(rule: Rule, text: str) -> str:
    """Drop substitutions such as `$(git rev-parse HEAD)` if the rule is not about them."""
    found = {each[0]: each[1] for each in REVISION.finditer(text)}
    for whole, inner in found.items():
        if matches_command(rule, inner) is Match.NO:
            text = text.replace(whole, "$()")
    return text


def _without_known(rule: Rule, part: SimpleCommand, text: str) -> str:
    """Drop the program of a part from a text if a rule is about another subcommand of it.

    For a rule for `git push`, the `git` in `git ls-files | xargs black` is known to push nothing.
    """
    program, _, rest = part.source.partition(" ")
    is_other = rest and program in DATA_SUBCOMMANDS and program in programs_of(rule)
    if is_other and takes_data(part) and _match(rule, Inner(part)) is Match.NO:
        return text.replace(part.source, rest)
    return text


def takes_data(part: SimpleCommand) -> bool:
    """Return whether a program is known not to run its arguments."""
    name, *arguments = (word.text for word in part.words)
    if part.is_test:
        return is_plain_condition((name, *arguments))
    subcommands = DATA_SUBCOMMANDS.get(name)
    if subcommands and arguments[:1] and arguments[0] in subcommands:
        if name in SCRIPT_RUNNERS and any(map(SHELL_TEXT.search, arguments)):
            return False
        if name == "git" and any(map(HELPER.match, arguments)):
            return False
        return all(text in PLAIN_OPTIONS for text in arguments if text.startswith("-"))
    given = tuple(arguments)
    return bool(read_files(name, given) or change_files(name, given))


def is_safe_assignment(assignment: Assignment) -> bool:
    """Return whether a variable can be set without changing which programs run."""
    name, value = assignment.name, assignment.value.text
    if LOCALE.fullmatch(name):
        return bool(PLAIN_LOCALE.fullmatch(value))
    if name == "TZ":
        return bool(ZONE.fullmatch(value))
    return bool(SAFE_VARIABLE.fullmatch(name) and PLAIN_VALUE.fullmatch(value))
