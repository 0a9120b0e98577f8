"""Find the programs that launchers such as `env` or `xargs` run, as far as their arguments show."""

import re
from collections.abc import Iterator
from itertools import dropwhile, pairwise

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.permissions.bash import (
    HOLE,
    UNKNOWN,
    Assignment,
    SimpleCommand,
    Word,
    parse_script,
)
from turnlog.agent.permissions.program_options import PROGRAM_OPTIONS, names_program
from turnlog.agent.permissions.programs import may_run_program

DEEPEST = 6
"""Maximum nesting of commands inside of commands."""
MOST_ARGUMENTS = 50
"""Maximum number of arguments of an unknown launcher that are analyzed one by one."""
NUMBER = re.compile(r"[0-9]+")


class Launcher(Struct, frozen=True):
    """The options and operands of a launcher in front of the program that it runs."""

    flags: str = ""
    """Single-letter options without a value."""
    valued: str = ""
    """Single-letter options with a value."""
    names: tuple[str, ...] = ()
    named_values: tuple[str, ...] = ()
    """Long options with a value."""
    operands: int = 0
    """Number of operands before the program."""
    takes_variables: bool = False
    takes_numbers: bool = False
    """True if a number may be an option, as in `nice -10`."""


WRAPPERS = {
    "timeout": Launcher(
        "v",
        "ks",
        ("--foreground", "--preserve-status", "--verbose"),
        ("--kill-after", "--signal"),
        operands=1,
    ),
    "time": Launcher("p"),
    "nice": Launcher(valued="n", named_values=("--adjustment",), takes_numbers=True),
    "nohup": Launcher(),
    "stdbuf": Launcher(valued="ioe", named_values=("--input", "--output", "--error")),
    "command": Launcher("p"),
    "builtin": Launcher(),
    "xargs": Launcher(),
}
"""Launchers that are skipped before rules are compared: they do not change what runs."""
LAUNCHERS = {
    **WRAPPERS,
    "time": Launcher("p", takes_variables=True),
    "xargs": Launcher(
        "0prtxo",
        "aEInPsd",
        ("--null", "--no-run-if-empty", "--verbose", "--exit"),
        ("--arg-file", "--delimiter", "--max-args", "--max-procs"),
    ),
    "sudo": Launcher("AbEHiknPSsBN", "aCcDghpRrTtuU", takes_variables=True),
    "doas": Launcher("Lns", "aCu"),
    "env": Launcher(
        "i0v",
        "uCa",
        ("--ignore-environment", "--null", "--debug"),
        ("--unset", "--chdir", "--argv0"),
        takes_variables=True,
    ),
    "exec": Launcher("cl", "a"),
    "watch": Launcher("bcdeghprtwx", "nq"),
    "setsid": Launcher("cfw", names=("--ctty", "--fork", "--wait")),
    "ionice": Launcher("t", "cnpPu", named_values=("--class", "--classdata")),
    "flock": Launcher("sxunoeF", "wE", operands=1),
    "linux32": Launcher(),
    "linux64": Launcher(),
    "setarch": Launcher("RvBFILSTXZ3"),
    "prlimit": Launcher(),
    "chroot": Launcher(operands=1, named_values=("--userspec", "--groups")),
    "taskset": Launcher("a", operands=1),
    "chrt": Launcher("abfior", operands=1),
    "strace": Launcher("cCdfFhiqrtTvVwxyYzZ", "aAbeEIopPsSuUX"),
    "unshare": Launcher("muinpUCTrfc"),
    "coproc": Launcher(takes_variables=True),
    "nocorrect": Launcher(),
    "busybox": Launcher(),
}
OTHERS = frozenset(
    """
    su runuser script parallel systemd-run xvfb-run caffeinate entr gdb ltrace nsenter proot
    fakeroot dbus-run-session ssh docker podman npx bunx uvx pipx direnv devbox mise poetry uv
    hatch rlwrap unbuffer expect torsocks proxychains firejail bwrap numactl cpulimit cgexec
    mapfile readarray hash enable bind complete compgen fc jobs setpriv sg perf valgrind at batch
    capsh runcon screen start-stop-daemon tmux
    """.split()
)
"""Programs that may run any of their arguments; their options are not analyzed."""
QUIET_SUBCOMMANDS = {
    **dict.fromkeys(
        ("docker", "podman"),
        frozenset("build images inspect kill logs network port ps rm rmi stop tag volume".split()),
    ),
    "kubectl": frozenset("annotate delete describe get label logs rollout scale top wait".split()),
    "gh": frozenset(("api", "issue", "pr", "release", "run", "search")),
}
"""Subcommands that run no program, whatever their arguments are."""
STARTING_SHELLS = frozenset("linux32 linux64 setarch unshare sudo su chroot nsenter".split())
"""Launchers that start a shell when no program is given."""
SHELLS = frozenset("bash sh zsh dash ksh ash fish csh tcsh mksh rbash".split())
READERS = frozenset("source .".split())
"""Builtins that run the commands in a file."""
INTERPRETERS = frozenset(
    """
    awk bpython bun clojure crystal deno elixir erl fennel gawk gdb ghci groovy guile iex
    ipython irb janet jjs jrunscript jshell julia kotlin lldb lua luajit m4 mawk nawk node
    nodejs ocaml osascript perl php powershell pry pwsh pypy python r racket raku rscript ruby
    runghc runhaskell sbcl scala scheme swift tclsh ts-node tsx wish xonsh
    """.split()
)
"""Programs, named without version, that run code from a file, an argument or their input."""
CONSOLES = frozenset(
    """
    at batch bc crontab dc ed emacs ex ftp isql mongo mongosh mysql mariadb nvim psql
    redis-cli sftp socat sqlite sqlplus ssh telnet vi view vim
    """.split()
)
"""Programs that take commands from their input, whatever their operands are."""
VERSION = re.compile(r"[-.]?[0-9][0-9.]*\Z")
GIT_PROGRAM = re.compile(
    r".*/git-[^/]+|git-(?:receive-pack|shell|upload-archive|upload-pack)", re.I
)
"""A git subcommand called as a program: `/usr/lib/git-core/git-log` is `git log`.

Only some of them are in `PATH`. Others in `PATH`, such as git-lfs, are not part of git.
"""
RESERVED = frozenset("! { if then elif else while until do".split())
"""Reserved words that are followed by a command."""
UNBOUND = frozenset("watch setsid ionice flock".split())
"""Launchers that only a rule for the whole command allows."""
RUNNERS = LAUNCHERS.keys() | OTHERS | SHELLS | READERS | INTERPRETERS | CONSOLES
ACTIONS = frozenset("-exec -execdir -ok -okdir".split())
CHANGES = ACTIONS | frozenset("-delete -fprint -fprint0 -fprintf -fls".split())
PLAIN_TEXT = re.compile(
    r"(?:[\w./:@^~+\"-]"
    r"|\$\{?(?!BASH|(?:OLD)?PWD|DIRSTACK|MAPFILE|OPTARG|REPLY)[A-Za-z]\w*\}?"
    r"|\$\(git (?:branch --show-current|rev-parse (?:--abbrev-ref |--short )?HEAD"
    r"|symbolic-ref --short HEAD|describe --tags(?: --abbrev=0)?)\))+"
)
"""A word that no other part of a command can turn into an option.

It may contain variables, and substitutions that print the name of a branch, tag or commit.
Variables that bash sets itself are excluded: `[[ --exec=x =~ .* ]]` sets BASH_REMATCH, and
`: --exec=x` sets `$_`.
"""


class Inner(Struct, frozen=True):
    """A command that another one runs."""

    part: SimpleCommand
    is_sure: bool = True
    """True if it would run; False if it might."""


def name_of(word: Word) -> str:
    """Return the name of a program without its directory, in lower case."""
    return word.text.rsplit("/", 1)[-1].lower().removesuffix(".exe")


def runs_given_text(name: str) -> bool:
    """Return whether a program runs text it is given: a shell, interpreter or launcher.

    >>> [runs_given_text(name) for name in ("python3.12", "sqlite3", "xargs", "pytest")]
    [True, True, True, False]
    """
    return any(each in RUNNERS for each in (name, VERSION.sub("", name)))


def without_wrappers(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Strip the wrappers that do not change what runs."""
    while words and (wrapper := WRAPPERS.get(words[0].text)):
        inner = _behind(words, wrapper)
        if not inner:
            return words
        # xargs appends arguments from its input, which a rule for `rm x` must not cover.
        words = (*inner, UNKNOWN) if words[0].text == "xargs" else inner
    return words


def needs_whole_rule(words: tuple[Word, ...]) -> bool:
    """Return whether only a rule that names the whole command may allow it."""
    name = name_of(words[0])
    if name in UNBOUND or (name == "find" and any(word.text in CHANGES for word in words)):
        return True
    if name in ("sed", "gsed"):
        # A glob may match a file whose name is a script that runs a program.
        return may_run_program(tuple("e" if each.has_glob else each.text for each in words[1:]))
    if name not in PROGRAM_OPTIONS:
        return False
    is_unsure = any(map(may_become_option, words[1:]))
    return is_unsure or names_program(name, [word.text for word in words[1:]])


def may_become_option(word: Word) -> bool:
    """Return whether a command can turn a word into an option: `rg $(echo --pre=./x) y`.

    Words that xargs adds have no source text, so they count. A variable in the user's environment
    is trusted not to hold an option; if a part of the command sets it, the user is asked anyway.
    """
    may_be_option = word.may_split or word.text.startswith(HOLE)
    return may_be_option and not PLAIN_TEXT.fullmatch(word.source)


def commands_in(part: SimpleCommand, depth: int = 0) -> Iterator[Inner]:
    """Yield a part and, recursively, all commands that it runs."""
    yield Inner(part)
    if not part.words or part.is_test:
        return
    if depth == DEEPEST:
        raise RecursionError("it nests too many launchers such as env or xargs")
    for each in _direct(part.words):
        # In `X=1 env Y=2 cp a b`, cp gets both variables.
        variables = (*part.assignments, *each.part.assignments)
        inner = Inner(replace(each.part, assignments=variables), each.is_sure)
        if not inner.is_sure:
            # Every argument already counts as the start of a command, so no recursion is needed.
            yield inner
            continue
        for deeper in commands_in(inner.part, depth + 1):
            yield Inner(deeper.part, deeper.is_sure)


def _direct(words: tuple[Word, ...]) -> Iterator[Inner]:
    program = words[0]
    name = name_of(program)
    if name in SHELLS:
        yield from _of_shell(words)
    elif name in ("alias", "eval", "trap"):
        for text in _texts_run_by(name, words):
            yield from _of_text(text)
    elif name in RESERVED and len(words) > 1:
        yield Inner(SimpleCommand(words[1:]))
    elif name in READERS:
        yield Inner(SimpleCommand((UNKNOWN,)), is_sure=False)
    elif name == "find":
        yield from _of_find(words)
    elif GIT_PROGRAM.fullmatch(program.text):
        given = (Word("git"), Word(name.removeprefix("git-")), *words[1:])
        yield Inner(SimpleCommand(given))
    elif any(word.text in QUIET_SUBCOMMANDS.get(name, ()) for word in words[1:2]):
        return  # `docker rm $(docker ps -q)` is no `rm`
    elif name in LAUNCHERS or name in OTHERS:
        yield from _of_launcher(name, words)


def _texts_run_by(name: str, words: tuple[Word, ...]) -> list[str]:
    """Return the commands that a builtin is given as text."""
    if name == "alias":
        return [word.text.partition("=")[2] for word in words[1:]]
    given = [word.text for word in _operands(words)]
    return [" ".join(given) if name == "eval" else "".join(given[:1])]


def _operands(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the arguments after the options."""
    return tuple(dropwhile(lambda word: word.is_option, words[1:]))


def _of_launcher(name: str, words: tuple[Word, ...]) -> Iterator[Inner]:
    launcher = LAUNCHERS.get(name)
    # The shell reads commands from its input, which the arguments do not show.
    if name in STARTING_SHELLS and not any(not word.is_option for word in words[1:]):
        yield Inner(SimpleCommand((UNKNOWN,)), is_sure=False)
        return
    inner = _behind(words, launcher) if launcher else None
    own = words[1 : len(words) - len(inner)] if inner else words[1:]
    given = _variables(own) if launcher and launcher.takes_variables else ()
    if inner:
        behind = _with_input(words, inner) if name == "xargs" else inner
        yield Inner(SimpleCommand(behind, given))
        if name == "watch":
            yield from _of_text(" ".join(word.text for word in inner))
        return
    if name in ("xargs", "parallel"):
        words = (*words, UNKNOWN)
    if len(words) > MOST_ARGUMENTS:
        yield Inner(SimpleCommand((UNKNOWN,)), is_sure=False)
        return
    for rank, word in enumerate(words[1:], 1):
        yield Inner(SimpleCommand(words[rank:], given), is_sure=False)
        if " " in word.text:
            yield from _of_text(word.text)


def _variables(words: tuple[Word, ...]) -> tuple[Assignment, ...]:
    """Return the variables that arguments of a launcher set: `X` in `env X=1 npm test`."""
    pairs = (word.text.partition("=") for word in words)
    return tuple(
        Assignment(name, Word(value)) for name, sign, value in pairs if sign and name.isidentifier()
    )


def _with_input(words: tuple[Word, ...], inner: tuple[Word, ...]) -> tuple[Word, ...]:
    """Add the arguments that xargs takes from its input, at the end or in place of `{}`."""
    options = [word.text for word in words[: len(words) - len(inner)]]
    marks = {"{}", *(text for before, text in pairwise(options) if before == "-I")}
    marks |= {text[2:] for text in options if text.startswith("-I")} - {""}
    return (*(_replaced(word, marks) for word in inner), UNKNOWN)


def _replaced(word: Word, marks: set[str]) -> Word:
    """Replace the marks of xargs in a word with holes, and keep the text around them."""
    found = [mark for mark in marks if mark in word.text]
    pattern = "|".join(map(re.escape, sorted(found, key=len, reverse=True)))
    text = re.sub(pattern, HOLE, word.text)
    return Word(text, may_split=True) if found else word


def _behind(words: tuple[Word, ...], launcher: Launcher) -> tuple[Word, ...] | None:
    """Return the command after a launcher's own arguments, if each of those is known."""
    rank, operands = 1, launcher.operands
    while rank < len(words):
        text = words[rank].text
        if text == "--":
            rank += 1
            break
        if text.startswith("-") and len(text) > 1:
            width = _width(text, launcher)
            if not width:
                return None
            rank += width
        elif launcher.takes_variables and "=" in text:
            rank += 1
        else:
            break
    own, inner = words[1 : rank + operands], words[rank + operands :]
    # `timeout $x ls` runs something other than ls if `$x` holds two words, and `flock x -c ls` has
    # options after its operand.
    is_plain = inner and not inner[0].is_option and all(word.is_known for word in own)
    return inner if is_plain else None


def _width(option: str, launcher: Launcher) -> int:
    """Return how many words an option takes; 0 if it is not known."""
    name, has_value, _ = option.partition("=")
    if option.startswith("--"):
        if name in launcher.named_values:
            return 1 if has_value else 2
        return int(option in launcher.names)
    if launcher.takes_numbers and NUMBER.fullmatch(option[1:]):
        return 1
    for place, letter in enumerate(option[1:], 2):
        if letter in launcher.valued:
            return 1 if place < len(option) else 2
        if letter not in launcher.flags:
            return 0
    return 1


def _of_shell(words: tuple[Word, ...]) -> Iterator[Inner]:
    for rank, word in enumerate(words[1:], 1):
        if not word.text.startswith(("-", "+")):
            break
        # Letters are often joined: `bash -euxc 'rm x'`.
        if not word.text.startswith("--") and "c" in word.text:
            scripts = [each for each in words[rank + 1 :] if not each.is_option]
            yield from _of_text(scripts[0].text if scripts else HOLE)
            return
    yield Inner(SimpleCommand((UNKNOWN,)), is_sure=False)


def _of_text(text: str) -> Iterator[Inner]:
    """Yield the commands in a text that a shell would run."""
    # A hole becomes a variable: unknown to the parser, and any number of words to bash.
    script = parse_script(text.replace(HOLE, "$_"))
    if sum(len(part.words) for part in script.parts) > MOST_ARGUMENTS:
        yield Inner(SimpleCommand((UNKNOWN,)), is_sure=False)
        return
    for part in script.parts:
        yield Inner(part)
    if script.unclear:
        yield Inner(SimpleCommand((UNKNOWN,)), is_sure=False)


def _of_find(words: tuple[Word, ...]) -> Iterator[Inner]:
    for rank, word in enumerate(words):
        if word.text in ACTIONS:
            behind = words[rank + 1 :]
            ends = [place for place, each in enumerate(behind) if each.text in (";", "+")]
            inner = behind[: ends[0]] if ends else behind
            if inner:
                yield Inner(SimpleCommand(tuple(_filled(each) for each in inner)))


def _filled(word: Word) -> Word:
    """Replace `{}` in a word of find's `-exec` with a hole for the file name."""
    text = word.text.replace("{}", HOLE)
    if HOLE in word.text:  # something else may be filled in as well
        return Word(text, word.glob, word.has_tilde, word.source, may_split=word.may_split)
    return Word(text, word.glob, word.has_tilde)
