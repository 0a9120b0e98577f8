"""How a program may be called so that its effect is known: an allowlist of options and operands.

Arguments are parsed as getopt does, from the exact list that bash passes. One option that is not
listed makes the whole call unknown.
"""

import re

from msgspec import Struct, field

NUMBER = re.compile(r"[-+][0-9]+", re.ASCII)


class ProgramEffect(Struct, frozen=True):
    """What a program does with the arguments it is called with."""

    reads: tuple[str, ...] = ()
    """Files and directories whose content, or whose list of names, is read."""
    writes: tuple[str, ...] = ()
    """Files and directories that are created, changed or removed."""
    moved: tuple[str, ...] = ()
    """Sources that keep their name where they land, if the last of `writes` is a directory."""
    is_recursive: bool = False
    """Whether everything below a directory is read or written as well."""
    needs_files: bool = False
    """Whether the effect is only known if no path is a directory."""
    removes: tuple[str, ...] = ()
    """Those of `writes` that are gone afterwards, with everything below them."""
    shows_content: bool = False
    """Whether it shows files that git tracks, also under names that are not given."""
    uses_git: str = ""
    """The subcommand that runs in a repository, whose configuration may name programs."""
    roles: tuple[str, ...] = ()
    """What each argument means, for the explanation of a verdict."""


class ProgramUsage(Struct, frozen=True):
    """The options and operands of a program that are understood."""

    flags: str = ""
    """Single letters without a value."""
    values: str = ""
    """Single letters with a value that is not a path."""
    long: str = ""
    """Names without a value, or with an optional one after `=`."""
    long_values: str = ""
    """Names with a required value that is not a path."""
    operands: str = "path..."
    """What the operands are: names such as `pattern`, and `path`; `...` repeats the last one."""
    optional_first: frozenset[str] = frozenset()
    """Options that take the place of the first operand, as `-e` does for grep's pattern."""
    takes_numbers: bool = False
    """Whether `-5` is an option."""
    default: tuple[str, ...] = ()
    """The paths that are read when none is given."""
    recursive: frozenset[str] = frozenset()
    """Options that make it read everything below a directory."""
    is_recursive: bool = False
    """Whether it always reads everything below a directory."""
    needs_files: bool = False
    """Whether a directory as an operand makes the call unknown."""
    values_stand_alone: bool = False
    """Whether a letter with a value cannot be joined with others: tree's `-Po x y` writes `y`."""
    attached: str = ""
    """Single letters whose value, if any, follows in the same argument."""


class Arguments(Struct):
    """The arguments of a call, told apart."""

    operands: list[str] = field(default_factory=list[str])
    options: set[str] = field(default_factory=set[str])
    roles: list[str] = field(default_factory=list[str])
    separate_values: list[str] = field(default_factory=list[str])
    """Values that another version of the program may take for operands."""
    has_late_options: bool = False
    """Whether an option follows an operand: GNU programs accept it, others read it as a path."""


def parse_arguments(arguments: tuple[str, ...], usage: ProgramUsage) -> Arguments | None:
    """Tell options from operands; return None if an option is not listed."""
    found = Arguments()
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            found.roles.append("end of options")
            rest = list(waiting)
            found.operands += rest
            found.roles += ["operand"] * len(rest)
        elif not argument.startswith("-") or argument == "-":
            found.operands.append(argument)
            found.roles.append("operand")
        else:
            needs_value = _parse_option(argument, usage, found.options)
            if needs_value is None:
                return None
            found.has_late_options |= bool(found.operands)
            found.roles.append("option")
            if needs_value:
                value = next(waiting, None)
                if value is None:
                    return None
                found.roles.append(f"value of {argument}")
                # Some versions do not permute options, or make the value of a long one optional.
                if found.operands or argument.startswith("--"):
                    found.separate_values.append(value)
    return found


def _parse_option(argument: str, usage: ProgramUsage, given: set[str]) -> bool | None:
    """Note an option; return whether the next argument is its value, None if it is not listed."""
    if argument.startswith("--"):
        name, has_value, _ = argument[2:].partition("=")
        given.add(f"--{name}")
        if name in usage.long_values.split():
            return not has_value
        return False if name in usage.long.split() else None
    if usage.takes_numbers and NUMBER.fullmatch(argument):
        return False
    for rank, letter in enumerate(argument[1:], 1):
        given.add(f"-{letter}")
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
    """Return what a program reads; None if an option or the number of operands is not known."""
    found = parse_arguments(arguments, usage)
    if found is None:
        return None
    names = usage.operands.split()
    if found.options & usage.optional_first:
        names = names[1:]
    kinds = assign_operands(len(found.operands), names)
    if kinds is None or (found.has_late_options and not usage.operands.endswith("...")):
        return None
    paths = [each for each, kind in zip(found.operands, kinds, strict=True) if kind == "path"]
    named = iter(kinds)
    roles = tuple(next(named) if role == "operand" else role for role in found.roles)
    is_recursive = usage.is_recursive or bool(found.options & usage.recursive)
    default = usage.default or ((".",) if is_recursive else ())
    return ProgramEffect(
        reads=(*(tuple(paths) or default), *_doubtful(found)),
        is_recursive=is_recursive,
        needs_files=usage.needs_files,
        roles=roles,
    )


def _doubtful(found: Arguments) -> tuple[str, ...]:
    """Arguments that other versions read as paths: with `--context x y`, BSD's grep reads `y`."""
    return (*found.separate_values, *found.operands) if found.separate_values else ()


def assign_operands(count: int, names: list[str]) -> list[str] | None:
    """Return what each operand is; None if there are more than the program may have.

    >>> assign_operands(3, ["pattern", "path..."]), assign_operands(2, ["path"])
    (['pattern', 'path', 'path'], None)
    """
    kinds = [name.removesuffix("...") for name in names[:count]]
    if len(kinds) < count:
        if not names or not names[-1].endswith("..."):
            return None
        kinds += [names[-1].removesuffix("...")] * (count - len(kinds))
    return kinds
