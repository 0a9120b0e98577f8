"""The effect of a program that only reads, and the paths that any other program may mean."""

import re

from turnlog.agent.permissions.bash import HOLE
from turnlog.agent.permissions.programs.expressions import DESCRIPTIONS, EXPRESSIONS
from turnlog.agent.permissions.programs.git import GLOBAL_OPTIONS, SUBCOMMANDS, read_git
from turnlog.agent.permissions.programs.readers import FILES, TEXTS
from turnlog.agent.permissions.programs.usage import ProgramEffect, ProgramUsage, effect_of

COPYING = frozenset(
    """
    7z 7za 7zz ar aws az bsdtar cp cpio gcloud gsutil gtar install ln mv pax rclone rsync scp tar
    zip
    """.split()
)
"""Programs that may copy or pack everything below a directory."""
CONTENT_READERS = (FILES.keys() - set("df du ls readlink realpath stat tree".split())) | {
    *COPYING,
    *"""
    . awk b2sum base32 base64 basenc bat batcat bzcat cksum colordiff column comm cpp csplit
    curl dd ed ex expand fmt fold gawk gzip head hexdump iconv join jq less look m4 mapfile mawk
    more nano nawk nc nl od openssl paste perl php pr ptx python python3 read readarray ruby
    sdiff sed shuf source split strings sum tee tr unexpand vi view vim vimdiff wget xargs xxd
    xz xzcat yq zcat zgrep
    """.split(),
}
"""Programs that show, or copy, what is in the files they are given."""
READERS = FILES.keys() | TEXTS.keys() | EXPRESSIONS.keys()
"""Programs that only read with some of their options, apart from git."""
GIT_CONTENT = frozenset(
    """
    annotate archive blame cat-file checkout-index diff diff-files diff-index diff-tree difftool
    format-patch grep log range-diff read-tree replace show stash update-index whatchanged
    """.split()
)
"""Subcommands of git that can show the content of files, or track it under another name.

After `git update-index --cacheinfo 100644,…,x`, with the object of an old `.env`, `git diff` shows
that file as `x`.
"""

PATHLESS = TEXTS.keys() | frozenset(
    """
    [ cd declare echo exit export kill local popd printf pushd readonly return set shift test
    typeset ulimit umask unset wait
    """.split()
)
"""Programs that open no file that an argument names, whatever their arguments are."""
NEVER_WRITING = PATHLESS | frozenset(
    """
    cat cmp cut df du egrep fgrep grep head ls md5sum nl readlink realpath rev sha1sum sha256sum
    sha512sum stat tac tail wc
    """.split()
)
"""Programs without an option that writes a file."""
CLUSTER = re.compile(r"-[A-Za-z0-9]{1,16}")
"""Joined options; a path may follow any of them."""
PIECE = re.compile(r"[^\s=@:;,'\"<>(){}|&!`$\\]+")
"""What may be a path inside of a longer text: `f=@.env;type=x` has three."""


def read_files(name: str, arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Return what a program reads; None if it is not listed or might do more than read."""
    if name == "git":
        return read_git(arguments)
    if name in EXPRESSIONS:
        return EXPRESSIONS[name](arguments)
    usage = FILES.get(name) or TEXTS.get(name)
    return effect_of(arguments, usage) if usage else None


def shows_files(name: str, arguments: tuple[str, ...], *, is_known: bool) -> bool:
    """Return whether a call that is not understood may show the content of files.

    Arguments that are not known contain a hole, or a pattern.
    """
    if name == "git":
        subcommand = arguments[:1]
        if subcommand and subcommand[0].startswith("-"):
            subcommand = arguments  # behind options, any argument may be the subcommand
        return any(each in GIT_CONTENT or HOLE in each for each in subcommand)
    return name in CONTENT_READERS and (name in FILES or not is_known)


def guess_paths(argument: str) -> tuple[str, ...]:
    """Return the paths that one argument of an unknown call may contain.

    >>> guess_paths("--file=.env"), guess_paths("-f.env"), guess_paths("f=@.env;type=x")[-4:]
    (('--file=.env', '.env', '--file'), ('-f.env', 'f.env', '.env'), ('f', '.env', 'type', 'x'))
    """
    found = [argument]
    if "=" in argument:
        found.append(argument.partition("=")[2])
    if letters := CLUSTER.match(argument):
        found += [argument[place:] for place in range(1, letters.end() + 1)]
    found += [each[1:] for each in found if each.startswith(("@", ":"))]
    found += [each.rpartition(":")[2] for each in found]
    found += PIECE.findall(argument)
    return tuple(dict.fromkeys(filter(None, found)))


def describe_programs() -> list[tuple[str, str, str]]:
    """Return every program that runs unprompted, with options and operands, for the docs."""
    rows = [(name, *_described(usage)) for name, usage in (FILES | TEXTS).items()]
    rows += [(name, *described) for name, described in DESCRIPTIONS.items()]
    for name, subcommand in SUBCOMMANDS.items():
        rows.append((f"git {name}", *_described(subcommand.usage)))
    rows.append(("git", " ".join(f"`{each}`" for each in sorted(GLOBAL_OPTIONS)), "a subcommand"))
    return sorted(rows)


def _described(usage: ProgramUsage) -> tuple[str, str]:
    letters = "".join(sorted(usage.flags, key=str.lower))
    shown = [f"`-{letters}`"] if letters else []
    shown += [f"`-{letter} value`" for letter in usage.values]
    shown += [f"`--{name}`" for name in usage.long.split()]
    shown += [f"`--{name}=value`" for name in usage.long_values.split()]
    if usage.takes_numbers:
        shown.append("`-5`")
    return " ".join(shown) or "none", usage.operands or "none"
