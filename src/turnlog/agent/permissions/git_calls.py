"""Parse the arguments of git calls that replace files, with an allowlist of options.

Git accepts abbreviated options, and new versions add some, so no denylist would be complete. A call
with an option that is not listed here is not understood, and asks.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from turnlog.agent.permissions.bash import UnknownValue

LIMITED = frozenset(("checkout", "checkout-index", "reset", "restore", "stash push"))
"""Subcommands whose arguments after `--` are paths; the others merge or switch to them."""
JOINING = ("-S", "-r", "-t")
"""Options whose value is optional, and joined if there is one."""
PREVIOUS = "@{-1}"
"""The branch that `-` stands for."""


class CallOptions(Struct, frozen=True):
    """The known options of a subcommand."""

    flags: frozenset[str]
    values: frozenset[str] = frozenset()
    """Options that take a value, joined or as the next argument."""


class GitArguments(Struct):
    """The arguments of a git call, as git parses them."""

    flags: set[str] = field(default_factory=set[str])
    values: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Options that take a value, with their values."""
    operands: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    """The arguments after `--`."""

    def values_of(self, *names: str) -> list[str]:
        """Return the values that some options are given."""
        return [value for name, value in self.values if name in names]


def parse_call(subcommand: str, texts: list[str]) -> GitArguments:
    """Return the arguments of a call; raise `UnknownValue` if one of them is not understood.

    >>> parse_call("switch", ["-qc", "new", "main"]).operands
    ['main']
    """
    known = OPTIONS.get(subcommand)
    if known is None:
        raise UnknownValue(subcommand)
    found, waiting = GitArguments(), iter(texts)
    for text in waiting:
        if text == "--":
            if subcommand not in LIMITED:
                raise UnknownValue(text)
            found.paths = list(waiting)
        elif text == "-":
            found.operands.append(PREVIOUS)
        elif text.startswith("--"):
            _add_long(text, known, waiting, found)
        elif text.startswith("-"):
            _add_short(text, known, waiting, found)
        else:
            found.operands.append(text)
    return found


def _add_long(text: str, known: CallOptions, waiting: Iterator[str], found: GitArguments) -> None:
    name, has_value, value = text.partition("=")
    if name in known.values:
        found.values.append((name, value if has_value else _next(text, waiting)))
    elif text in known.flags:
        found.flags.add(text)
    else:
        raise UnknownValue(text)


def _add_short(text: str, known: CallOptions, waiting: Iterator[str], found: GitArguments) -> None:
    """Add options such as `-q`, `-qc new` or `-Xours`; only the last one may take a value."""
    for place, letter in enumerate(text[1:], start=2):
        name = f"-{letter}"
        if name in known.values:
            found.values.append((name, text[place:] or _next(text, waiting)))
            return
        # Git takes what is joined to these for a value: in `-Sm`, `m` names a key.
        if name not in known.flags or (name in JOINING and text[place:]):
            raise UnknownValue(text)
        found.flags.add(name)


def _next(text: str, waiting: Iterator[str]) -> str:
    value = next(waiting, None)
    if value is None:
        raise UnknownValue(text)
    return value


def _options(flags: str, values: str = "") -> CallOptions:
    return CallOptions(frozenset(flags.split()), frozenset(values.split()))


_MOVING = "-d --detach --guess --no-guess --no-progress --no-track --progress -q --quiet -t --track"
_PICKING = _options(
    """
    --abort --allow-empty --allow-empty-message --commit --continue -e --edit --ff --gpg-sign
    --keep-redundant-commits -n --no-commit --no-edit --no-gpg-sign --no-rerere-autoupdate
    --no-signoff --quit --rerere-autoupdate -s -S --signoff --skip -x
    """,
    "--cleanup -m --mainline --strategy --strategy-option -X",
)
OPTIONS = {
    "checkout": _options(f"{_MOVING} -f --force", "-b -B"),
    "checkout-index": _options("-a --all -f --force --index -q --quiet -u"),
    "cherry-pick": _PICKING,
    "merge": _options(
        """
        --abort --allow-unrelated-histories --autostash --commit --continue -e --edit --ff --ff-only
        --gpg-sign --log -n --no-autostash --no-commit --no-edit --no-ff --no-gpg-sign --no-log
        --no-progress --no-rerere-autoupdate --no-signoff --no-squash --no-stat --no-verify
        --progress -q --quiet --quit --rerere-autoupdate -S --signoff --squash --stat -v --verbose
        --verify
        """,
        "--cleanup -m --message -s --strategy --strategy-option -X",
    ),
    "rebase": _options(
        """
        --abort --autosquash --autostash --committer-date-is-author-date --continue -f
        --force-rebase --gpg-sign -i --ignore-date --interactive --keep-base --keep-empty -m --merge
        -n --no-autosquash --no-autostash --no-ff --no-gpg-sign --no-keep-empty
        --no-reapply-cherry-picks --no-rerere-autoupdate --no-stat --no-update-refs --no-verify -q
        --quiet --quit -r --reapply-cherry-picks --rebase-merges --rerere-autoupdate -S --signoff
        --skip --stat --update-refs -v --verbose --verify
        """,
        "--empty --exec --onto -s --strategy --strategy-option -x -X",
    ),
    "reset": _options("--hard --mixed -N -q --quiet --soft"),
    "restore": _options("-q --quiet -S --staged -W --worktree", "-s --source"),
    "revert": _PICKING,
    "stash apply": _options("--index -q --quiet"),
    "stash branch": _options(""),
    "stash pop": _options("--index -q --quiet"),
    "stash push": _options(
        "--include-untracked -k --keep-index --no-keep-index -q --quiet -u",
        "-m --message",
    ),
    "switch": _options(_MOVING, "-c -C --create --force-create"),
}
"""The known options by subcommand."""
