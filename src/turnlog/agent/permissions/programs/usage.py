"""Parse the arguments of a program against an allowlist of options and operands.

Arguments are parsed as getopt does, from the exact list that bash passes. A single unlisted option
makes the whole call unknown.
"""

import re

from msgspec import Struct, field

NUMBER = re.compile(r"[-+][0-9]+", re.ASCII)
DASHED_VALUE = re.compile(r"-(?:[0-9].*)?", re.ASCII)
"""Values with a dash that cannot be options, as in `head -n -5`, `cut -f -3` and `cut -d -`."""
PATTERN_OPTIONS = frozenset(("-e", "--regexp"))
"""Options of grep and rg whose value may start with a dash."""
PLAIN_PATTERN = re.compile(r"\*?[\w.-]+")


class ProgramEffect(Struct, frozen=True):
    """The effect of a program call on files."""

    reads: tuple[str, ...] = ()
    """Files and directories that are read or listed."""
    writes: tuple[str, ...] = ()
    """Files and directories that are created, changed or removed."""
    moved: tuple[str, ...] = ()
    """Sources of a copy or move.

    They keep their names if the last path in `writes` is a directory.
    """
    is_recursive: bool = False
    """True if everything below a directory is read or written as well."""
    lists_below: bool = False
    """True if the names of everything below a directory are listed."""
    needs_files: bool = False
    """True if the effect is known only for files, not for directories."""
    removes: tuple[str, ...] = ()
    """The subset of `writes` that is removed, with everything below."""
    shows_content: bool = False
    """True if it shows the content of tracked files, including files that no argument names."""
    shows_tracked: bool = False
    """True if it shows only files in the index, provided that all paths exist."""
    uses_git: str = ""
    """The git subcommand, if any; the repository's configuration may make it run programs."""
    endings: tuple[str, ...] = ()
    """If given, only files whose names end with one of these are read below a directory."""
    roles: tuple[str, ...] = ()
    """The role of each argument, to explain a verdict."""


class ProgramUsage(Struct, frozen=True):
    """The accepted options and operands of a program."""

    flags: str = ""
    """Short options without a value, one letter each."""
    values: str = ""
    """Short options with a value that is not a path, one letter each."""
    long: str = ""
    """Long options without a value, or with an optional one after `=`."""
    long_values: str = ""
    """Long options with a required value that is not a path."""
    operands: str = "path..."
    """Names of the operands, such as `pattern` and `path`; `...` repeats the last one."""
    optional_first: frozenset[str] = frozenset()
    """Options that take the place of the first operand, as `-e` does for grep's pattern."""
    takes_numbers: bool = False
    """True if `-5` is an option."""
    default: tuple[str, ...] = ()
    """The paths that are read when none is given."""
    recursive: frozenset[str] = frozenset()
    """Options that make it read everything below a directory."""
    is_recursive: bool = False
    """True if it always reads everything below a directory."""
    listing: frozenset[str] | None = None
    """Options that make it list everything below a directory: empty if it always does, None if it
    never does."""
    needs_files: bool = False
    """True if a directory as an operand makes the call unknown."""
    values_stand_alone: bool = False
    """True if a short option with a value must not be clustered: `tree -Po x y` writes `y`."""
    selecting: str = ""
    """The long option that limits a recursive search to file names matching a pattern."""
    unselecting: str = ""
    """The long option that may cancel this limit: grep's `--exclude` does if it comes first."""
    attached: str = ""
    """Short options with an optional value in the same argument, as in `-uno`."""


class Arguments(Struct):
    """The arguments of a call: options, values and operands."""

    operands: list[str] = field(default_factory=list[str])
    options: set[str] = field(default_factory=set[str])
    roles: list[str] = field(default_factory=list[str])
    separate_values: list[str] = field(default_factory=list[str])
    """Values that another version of the program may parse as operands."""
    given: list[str] = field(default_factory=list[str])
    """The options as they were written, without separate values."""
    separated: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Pairs of an option and its value in the next argument."""
    late_options: list[str] = field(default_factory=list[str])
    """Options that follow an operand: GNU programs accept them, others read them as paths."""


def parse_arguments(arguments: tuple[str, ...], usage: ProgramUsage) -> Arguments | None:
    """Separate options from operands; return None if an option is not listed."""
    found = Arguments()
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            found.roles.append("end of options")
            found.late_options += [argument] if found.operands else []
            rest = list(remaining)
            found.operands += rest
            found.roles += ["operand"] * len(rest)
        elif not argument.startswith("-") or argument == "-":
            found.operands.append(argument)
            found.roles.append("operand")
        else:
            needs_value = _parse_option(argument, usage, found.options)
            if needs_value is None:
                return None
            found.given.append(argument)
            found.late_options += [argument] if found.operands else []
            found.roles.append("option")
            if needs_value:
                value = next(remaining, None)
                if value is None or not _is_value(value, argument):
                    return None
                found.separated.append((argument, value))
                found.roles.append(f"value of {argument}")
                # Some versions do not permute options, or make the value of a long one optional.
                if found.operands or argument.startswith("--"):
                    found.separate_values.append(value)
    return found


def _is_value(text: str, option: str) -> bool:
    """Return whether every parser treats `text` as the value of the preceding option.

    A value that looks like an option may be parsed as one: git's `--skip -q --skip --output=x`
    writes `x`, because a first pass removes `-q`.
    """
    is_dashed = text.startswith("-") and not DASHED_VALUE.fullmatch(text)
    return not is_dashed or option in PATTERN_OPTIONS


def _parse_option(argument: str, usage: ProgramUsage, given: set[str]) -> bool | None:
    """Record an option; return whether the next argument is its value, None if it is not listed."""
    if argument.startswith("--"):
        name, has_value, _ = argument[2:].partition("=")
        given.add(f"--{name}")
        if name in usage.long_values.split():
            return not has_value
        # Abbreviations are rejected on purpose: what `--out` stands for depends on the version.
        return False if name in usage.long.split() else None
    if usage.takes_numbers and NUMBER.fullmatch(argument):
        return False
    for rank, letter in enumerate(argument[1:], 1):
        given.add(f"-{letter}")
        # The rest of the word is its value: `-uno`.
        if letter in usage.attached:
            return False
        if letter in usage.values:
            if usage.values_stand_alone and len(argument) > 2:
                return None
            return rank == len(argument) - 1
        if letter not in usage.flags:
            return None
    return False


def effect_of(arguments: tuple[str, ...], usage: ProgramUsage) -> ProgramEffect | None:
    """Return what a program reads; None if `usage` does not accept the arguments."""
    found = parse_arguments(arguments, usage)
    if found is None:
        return None
    names = usage.operands.split()
    # With `grep -e x`, the first operand is a file and not the pattern.
    if found.options & usage.optional_first:
        names = names[1:]
    kinds = assign_operands(len(found.operands), names)
    if kinds is None or (found.late_options and not usage.operands.endswith("...")):
        return None
    paths = [each for each, kind in zip(found.operands, kinds, strict=True) if kind == "path"]
    named = iter(kinds)
    roles = tuple(next(named) if role == "operand" else role for role in found.roles)
    is_recursive = usage.is_recursive or bool(found.options & usage.recursive)
    default = usage.default or ((".",) if is_recursive else ())
    return ProgramEffect(
        reads=(*(tuple(paths) or default), *_doubtful(found)),
        is_recursive=is_recursive,
        lists_below=_lists_below(found, usage),
        needs_files=usage.needs_files,
        endings=_endings(found, usage),
        roles=roles,
    )


def _lists_below(found: Arguments, usage: ProgramUsage) -> bool:
    return usage.listing is not None and (not usage.listing or bool(found.options & usage.listing))


def _endings(found: Arguments, usage: ProgramUsage) -> tuple[str, ...]:
    """Return the suffixes that a search limits file names to; empty if it may read any file.

    Every pattern must mean the same in every version of a program: `*.py`, `go.mod`.
    """
    option = f"--{usage.selecting}"
    if option not in found.options or f"--{usage.unselecting}" in found.options:
        return ()
    chosen = [each for each in found.given if each.partition("=")[0] == option]
    patterns = [each.partition("=")[2] for each in chosen]
    is_plain = all(map(PLAIN_PATTERN.fullmatch, patterns))
    return tuple(each.removeprefix("*") for each in patterns) if is_plain else ()


def _doubtful(found: Arguments) -> tuple[str, ...]:
    """Return arguments that other versions of the program may read as paths.

    With `--context x y`, BSD's grep reads `y`. An option after an operand may be a path as well:
    `cut x -d/../../y`, if there is a directory named `-d`.
    """
    late = tuple(found.late_options)
    return (*found.separate_values, *found.operands, *late) if found.separate_values else late


def assign_operands(count: int, names: list[str]) -> list[str] | None:
    """Return the name of each operand; None if there are too many.

    >>> assign_operands(3, ["pattern", "path..."]), assign_operands(2, ["path"])
    (['pattern', 'path', 'path'], None)
    """
    kinds = [name.removesuffix("...") for name in names[:count]]
    if len(kinds) < count:
        if not names or not names[-1].endswith("..."):
            return None
        kinds += [names[-1].removesuffix("...")] * (count - len(kinds))
    return kinds
