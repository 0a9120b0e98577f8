"""Offer rules to save: as narrow as possible while still useful."""

import re
from fnmatch import fnmatchcase
from itertools import takewhile

from turnlog.agent.permissions.bash import HOLE, SimpleCommand, Word
from turnlog.agent.permissions.launchers import (
    CONSOLES,
    LAUNCHERS,
    OTHERS,
    PLAIN_TEXT,
    VERSION,
    may_become_option,
    name_of,
    runs_given_text,
    without_wrappers,
)
from turnlog.agent.permissions.restrictions import SCRIPT_RUNNERS, SHELL_TEXT

WIDE = {
    "git": frozenset(
        """
        add am apply branch checkout cherry-pick clean commit merge mv reset restore revert rm
        stash switch tag
        """.split()
    ),
}
"""Subcommands that run none of their arguments: a rule for all their uses is offered.

An allowlist, because most tools have subcommands or options that run any program:
`git submodule foreach`, `git fetch --upload-pack`, `go build -toolexec`, `make --eval`.
"""
STEERED = {
    **dict.fromkeys(
        SCRIPT_RUNNERS,
        frozenset("build lint restart run run-script start stop t test tst".split()),
    ),
    "cargo": frozenset("build check clippy doc fmt test".split()),
}
"""Subcommands with an option that runs a program: `npm test --script-shell=./x`.

The offered rule allows one exact command, or any arguments after `--`, which go to the script.
"""
WITHOUT_SCRIPT = frozenset("check clippy doc fmt".split())
"""STEERED subcommands that pass what follows `--` to a tool: `cargo clippy -- -C linker=./x`."""
STEERING = frozenset(
    """
    browser call config cwd dir editor git globalconfig init-module lockfile-path manifest-path
    modules-folder node-gyp node-options node-path npm-path onload-script prefix require
    script-shell scripts-prepend-node-path shell shell-emulator shell-mode target-dir
    use-node-version use-yarnrc userconfig viewer
    """.split()
)
"""Options of STEERED programs that name a program, or a place to find one."""
STEERING_LETTERS = frozenset("cCrZ")
CLUSTERED = STEERING_LETTERS | frozenset("?BDEHLOPSadfghlmnpqsvwy")
"""Single-letter options of npm (11), which it accepts joined, after any number of dashes."""
OUTSIDE = {
    "apply": ("build-fake-ancestor", "unsafe-paths"),
    "cherry-pick": ("strategy",),
    "clone": ("config", "separate-git-dir", "template"),
    "init": ("separate-git-dir", "template"),
    "pull": ("strategy",),
    "rebase": ("strategy",),
}
"""Options with which a subcommand of git writes files outside the work tree or runs a program.

`git apply --unsafe-paths x` creates `.git/hooks/pre-commit` and `../y` if the patch says so.
`git cherry-pick --strategy=x/y` runs `git-merge-x/y`, which git looks for in the work tree.
`git clone --template=x` installs the hooks in `x`, and runs one of them.
"""
REACHING = (
    *("exec", "extcmd", "open-files-in-pager", "receive-pack", "upload-pack"),
    *("output", "pathspec-from-file"),
)
"""Options of many git subcommands that run a program, or that use any file.

`git fetch --upload-pack=./x .` runs `./x`, and `git log --output=../x` writes a file elsewhere.
With `--pathspec-from-file`, git quotes lines of the file in its errors.
"""
REACHING_LETTERS = {
    "clone": re.compile(r"-[^-bjo]*[cu].*", re.S),
    "difftool": re.compile(r"-[^-t]*x.*", re.S),
    "grep": re.compile(r"-[^-ABCefm]*O.*", re.S),
    "pull": re.compile(r"-[^-SXjo]*s.*", re.S),
    "rebase": re.compile(r"-[^-CSX]*[sx].*", re.S),
}
"""The same options as letters, alone or joined with others: `git grep -nO./x y`."""
RUNNING = {"bisect": "run", "submodule": "foreach"}
"""Actions of git subcommands that run any command."""
PACKING = frozenset(("archive", "format-patch"))
"""Subcommands whose purpose is to write a file."""
REMOTE = frozenset(("fetch", "pull", "push"))
SCRIPTS = frozenset("run run-script".split())
"""Subcommands whose next argument names the script."""
TOOLS = frozenset(
    "bundle cargo composer conda dotnet gradle kubectl mix npm pnpm rustup yarn".split()
)
"""Programs other than launchers that may run one of their arguments."""
INPUT = frozenset("- /dev/stdin /dev/fd/0 -f- --file=-".split())
"""Arguments that stand for a program's input."""
NEVER = frozenset("sudo doas su eval exec".split())
"""Programs for which no rule is offered."""


def offers_for(part: SimpleCommand) -> tuple[str, ...]:
    """Return rules that would allow a part; none if a rule would allow too much."""
    words = without_wrappers(part.words)
    if not words or words[0].text in NEVER or not words[0].is_known:
        return ()
    if wide := _wide_offer(words):
        return (wide,)
    if is_program_input(part) or not _names_its_program(words):
        return ()
    source = part.source.strip()
    # With a variable in it, a saved rule would allow whatever the variable holds next time.
    is_fixed = all(word.is_known for word in words) and not part.assignments
    return (f"Bash({source})",) if is_fixed and source and _is_writable(source) else ()


def is_program_input(part: SimpleCommand) -> bool:
    """Return whether a part may run its input, so that its words do not show what it does.

    A rule for exactly `python3` must not allow `echo 'any program' | python3`, nor one for
    `make -f -` any makefile.
    """
    if not part.is_fed:
        return False
    names = [name_of(word) for word in part.words]
    return any(map(runs_given_text, names)) or any(each.text in INPUT for each in part.words)


def _names_its_program(words: tuple[Word, ...]) -> bool:
    """Return whether the first interpreter in a command is given a file to run.

    True for `python3 x.py` and `npm exec node x.js`. False for `python3`, `sh -s`, `node -e …` and
    `sqlite3 x.db`, which get their program from somewhere else.
    """
    name = name_of(words[0])
    if name not in TOOLS and not runs_given_text(name):
        return True
    for rank, word in enumerate(words):
        # Every word is checked, because launchers nest: `npm exec -- node -e …`.
        name, behind = name_of(word), next(iter(words[rank + 1 :]), None)
        if _is_console(name):
            return False
        if name in LAUNCHERS or name in OTHERS:
            if behind is None:
                return False
        elif runs_given_text(name):
            is_module = name.startswith("python") and behind is not None and behind.text == "-m"
            is_script = behind is not None and not behind.text.startswith(("-", "+"))
            return is_module or is_script
    return True


def _is_console(name: str) -> bool:
    return name in CONSOLES or VERSION.sub("", name) in CONSOLES


def is_steered(words: tuple[Word, ...]) -> bool:
    """Return whether an option may make a script run another program, or git use files elsewhere.

    A rule for all uses of the subcommand does not allow such a call.
    """
    if words[0].text == "git":
        return _reaches_outside(words[1:])
    # Any subcommand may be a script, or short for one: `npm start`, `npm t`, `yarn lint`.
    if words[0].text in SCRIPT_RUNNERS and any(map(_may_be_run, words)):
        return True
    if len(words) < 2 or words[1].text not in STEERED.get(words[0].text, ()):
        return False
    # What follows `--` goes to the script, not to npm or cargo.
    own = takewhile(lambda word: word.text != "--", words[2:])
    return any(not word.is_known or _is_steering(word.text) for word in own)


def _may_be_run(word: Word) -> bool:
    """Return whether a shell may run an argument that npm appends to a script."""
    is_known = HOLE not in word.text or PLAIN_TEXT.fullmatch(word.source)
    return not is_known or SHELL_TEXT.search(word.text) is not None


def _reaches_outside(words: tuple[Word, ...]) -> bool:
    """Return whether an option makes a git subcommand use files elsewhere, or run a program.

    For most subcommands, `guard` asks about arguments that are only known when they run.
    """
    subcommand = " ".join(word.text for word in words[:1])
    options = [*REACHING, *OUTSIDE.get(subcommand, ())]
    if subcommand in PACKING:
        options.remove("output")
    letters, running = REACHING_LETTERS.get(subcommand), RUNNING.get(subcommand)
    return any(
        (running and (word.text == running or not word.is_known))
        or (letters and letters.fullmatch(word.text))
        or (subcommand in REMOTE and may_become_option(word))
        or any(_may_be_option(word, option) for option in options)
        for word in words[1:]
    )


def _may_be_option(word: Word, option: str) -> bool:
    """Return whether a word is, or may expand to, a long option or an abbreviation of it."""
    spellings = [f"--{option[:length]}" for length in range(1, len(option) + 1)]
    # `git apply --unsafe-p*` becomes the option if a file has that name.
    if word.has_glob:
        return any(fnmatchcase(each, word.text) for each in spellings)
    return word.text.partition("=")[0] in spellings


def _is_steering(text: str) -> bool:
    """Return whether an option of npm or cargo names a program.

    npm takes the value of an option without values for an argument of its own: `--json=-C`.

    >>> [_is_steering(each) for each in ("--script-shell=x", "-script-sh=x", "--fix", "-s")]
    [True, True, False, False]
    >>> [_is_steering(each) for each in ("--no-script-shell=x", "--json=--shell=x", "-sC")]
    [True, True, True]
    """
    pieces = text.split("=")
    return any(map(_is_steering_option, (text, *pieces[1:])))


def _is_steering_option(text: str) -> bool:
    """Return whether a text is an option in STEERING, in any spelling that npm accepts.

    Any number of dashes and `no-` may precede it, and it may be abbreviated. In a script, npm
    finds `--Script_Shell` as the variable `npm_config_Script_Shell`, and ignores its case.
    """
    name = re.split(r"[=.]", text.lstrip("-"), maxsplit=1)[0]
    if not text.startswith("-") or not name:
        return False
    if text[1] in STEERING_LETTERS:
        return True
    if set(name) <= CLUSTERED and not STEERING_LETTERS.isdisjoint(name):
        return True
    hyphened = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().replace("_", "-")
    plain = re.sub(r"^(?:no-)+", "", hyphened)
    return len(plain) > 1 and any(each.startswith(plain) for each in STEERING)


def _wide_offer(words: tuple[Word, ...]) -> str | None:
    """Return a rule for several commands, or for one without its wrappers; None if unsafe."""
    name, subcommand = words[0].text, words[1].text if len(words) > 1 else ""
    width = 3 if subcommand in SCRIPTS else 2
    start, rest = words[:width], words[width:]
    if len(start) < width or not all(map(_is_simple, start)):
        return None
    named = " ".join(word.text for word in start)
    if subcommand in WIDE.get(name, ()):
        return None if is_steered(words) else f"Bash({named} *)"
    if subcommand not in STEERED.get(name, ()):
        return None
    if not rest:
        return f"Bash({named})"
    is_passed = rest[0].text == "--" and subcommand not in WITHOUT_SCRIPT and not is_steered(words)
    return f"Bash({named} -- *)" if is_passed else None


def _is_simple(word: Word) -> bool:
    return (
        word.is_known
        and not word.is_option
        and word.text.replace("-", "").replace(":", "").isalnum()
    )


def _is_writable(source: str) -> bool:
    """Return whether a rule can contain a text: one line, without pattern characters."""
    return not any(char in source for char in f"*\n{HOLE}") and not source.endswith(":")
