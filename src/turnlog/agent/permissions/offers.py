"""Rules that are offered to be saved: as narrow as they can be and still of use."""

from turnlog.agent.permissions.bash import HOLE, SimpleCommand, Word
from turnlog.agent.permissions.launchers import (
    CONSOLES,
    LAUNCHERS,
    OTHERS,
    VERSION,
    name_of,
    runs_given_text,
    without_wrappers,
)

WIDE = {
    "git": frozenset(
        """
        add am apply branch checkout cherry-pick clean commit merge mv reset restore revert rm
        stash switch tag
        """.split()
    ),
    **dict.fromkeys(("npm", "pnpm", "yarn"), frozenset("build lint run run-script test".split())),
    "cargo": frozenset("build check clippy doc fmt test".split()),
}
"""Subcommands that run none of their arguments: a rule for all their uses is offered.

An allowlist, because most tools have subcommands or options that run any program:
`git submodule foreach`, `git fetch --upload-pack`, `go build -toolexec`, `make --eval`.
"""
SCRIPTS = frozenset("run run-script".split())
"""Subcommands that leave it to the next argument."""
TOOLS = frozenset(
    "bundle cargo composer conda dotnet gradle kubectl mix npm pnpm rustup yarn".split()
)
"""Programs other than launchers that may run one of their arguments."""
INPUT = frozenset("- /dev/stdin /dev/fd/0 -f- --file=-".split())
"""Arguments that stand for a program's input."""
NEVER = frozenset("sudo doas su eval exec".split())
"""For which no rule is offered at all."""


def offers_for(part: SimpleCommand) -> tuple[str, ...]:
    """The rules that would let a part pass; none where a rule would let too much pass."""
    words = without_wrappers(part.words)
    if not words or words[0].text in NEVER or not words[0].is_known:
        return ()
    start = _start(words)
    if start and all(_is_simple(word) for word in start):
        return (f"Bash({' '.join(word.text for word in start)} *)",)
    if is_program_input(part) or not _names_its_program(words):
        return ()
    source = part.source.strip()
    is_fixed = all(word.is_known for word in words) and not part.assignments
    return (f"Bash({source})",) if is_fixed and source and _is_writable(source) else ()


def is_program_input(part: SimpleCommand) -> bool:
    """Whether a part may run what its input says, so that its words do not tell what it does.

    A rule for exactly `python3` must not allow `echo 'any program' | python3`, nor one for
    `make -f -` any makefile.
    """
    if not part.is_fed:
        return False
    names = [name_of(word) for word in part.words]
    return any(map(runs_given_text, names)) or any(each.text in INPUT for each in part.words)


def _names_its_program(words: tuple[Word, ...]) -> bool:
    """Whether the first interpreter in a command is given a file to run.

    `python3 x.py` and `npm exec node x.js` are; `python3`, `sh -s`, `node -e …` and `sqlite3 x.db`
    take their program from somewhere else.
    """
    name = name_of(words[0])
    if name not in TOOLS and not runs_given_text(name):
        return True
    for rank, word in enumerate(words):
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


def _start(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words that say what a command does; none if only all of them do."""
    if len(words) < 2 or words[1].text not in WIDE.get(words[0].text, ()):
        return ()
    width = 3 if words[1].text in SCRIPTS else 2
    return words[:width] if len(words) >= width else ()


def _is_simple(word: Word) -> bool:
    return (
        word.is_known
        and not word.is_option
        and word.text.replace("-", "").replace(":", "").isalnum()
    )


def _is_writable(source: str) -> bool:
    """Whether a rule can say it: on one line, and without what a rule reads as a pattern."""
    return not any(char in source for char in f"*\n{HOLE}") and not source.endswith(":")
