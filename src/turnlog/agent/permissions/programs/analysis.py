"""Determine what read-only programs read, and guess which paths other programs may open."""

import re
from itertools import pairwise
from urllib.parse import unquote

from turnlog.agent.permissions.programs.expressions import DESCRIPTIONS, EXPRESSIONS
from turnlog.agent.permissions.programs.git import (
    GLOBAL_OPTIONS,
    OBJECT_CONTENT,
    SUBCOMMANDS,
    read_git,
)
from turnlog.agent.permissions.programs.readers import FILES, TEXTS
from turnlog.agent.permissions.programs.usage import ProgramEffect, ProgramUsage, effect_of

COPYING = frozenset(
    """
    7z 7za 7zr 7zz ar aws az bsdtar cp cpio dar gcloud gpg-zip gpgtar gsutil gtar install jar ln
    mkisofs mksquashfs mv pax ptar rar rclone rsync scp star tar zip
    """.split()
)
"""Programs that may copy or pack everything below a directory."""
RECURSING = frozenset(
    """
    colordiff ditto file-rename gio gunzip gzcat gzip lz4 lz4c lz4cat lzop mmv pcre2grep pcregrep
    pigz prename pzstd rename rename.ul rip rmtrash safe-rm shar srm trash trash-put uncompress
    unlz4 unpigz unzstd wipe zcat zstd zstdcat zstdmt
    """.split()
)
"""Programs that may search, compare, compress, rename or remove everything below a directory."""
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
"""Programs that print or copy the content of the files they are given."""
READERS = FILES.keys() | TEXTS.keys() | EXPRESSIONS.keys()
"""Programs other than git that are allowed to run with read-only options."""
QUIET_GIT = frozenset(
    """
    add am apply branch check-attr check-ignore checkout cherry cherry-pick clean clone commit
    config count-objects describe fetch for-each-ref fsck gc help init lfs ls-files ls-remote
    ls-tree maintenance merge merge-base mv name-rev pack-refs prune pull push rebase remote repack
    reset restore rev-list rev-parse revert rm shortlog show-branch show-ref sparse-checkout status
    submodule switch symbolic-ref tag update-ref version worktree
    """.split()
)
"""Subcommands of git that show no file content, except with `SHOWING_OPTIONS`.

This is an allowlist because many other subcommands show content: `git fast-export`,
`git reflog -p`, `git bundle create -`. Some show it under another name: after
`git update-index --cacheinfo 100644,…,x` with the object of an old `.env`, `git diff` shows that
file as `x`.
"""
SHOWING_OPTIONS = {
    "add": re.compile(r"-[^-]*[eip].*|--(?:ed|inter|patc).*"),
    "am": re.compile(r"--sh.*"),
    **dict.fromkeys(
        ("checkout", "reset", "restore", "switch"), re.compile(r"-[^-bBcCsU]*p.*|--patc.*")
    ),
    **dict.fromkeys(("cherry-pick", "revert"), re.compile(r"-[^-mSX]*e.*|--e.*")),
    "commit": re.compile(r"-[^-mFCctSu]*[cepv].*|--(?:dr|e|inter|lo|patc|ree|sq|verb).*"),
    # `--blob` prints any object that looks like a configuration file.
    "config": re.compile(r"--b.*"),
    "fsck": re.compile(r"--l.*"),
    "rebase": re.compile(r"--sh.*"),
    "status": re.compile(r"-[^-u]*v.*|--v.*"),
}
"""Options that make a `QUIET_GIT` subcommand show content: `git status -vv`, `git add -p`.

`git commit` also shows the diff if `commit.verbose` is set in any configuration file: a dry run
prints it, and the editor's text, which stays in `.git/COMMIT_EDITMSG`, contains it.
"""
COPYING_GIT = re.compile(
    r"worktree add\b.*|submodule .*\badd\b.*"
    r"|(?:cherry-pick|merge|pull|rebase|revert) .*-\S*[ =]?subtree.*",
    re.S,
)
"""Calls that copy tracked files to other paths, which rules for the original paths do not match.

After `git worktree add x`, a file that `Read(/config/key)` denies is also at `x/config/key`.
"""
REMOTE_SOURCE = re.compile(r"(?!file:)(?:[a-z+]+://|[\w.-]+@)[\w.@:~/%+-]+", re.I)
"""The address of a repository on another machine."""
CLONE_VALUES = frozenset("-b --branch --depth -j --jobs -o --origin".split())
"""Options of `git clone` with a value in the next argument."""
MESSAGE = re.compile(r"-[^-CFSUctu]*[mFC].*|--(?:fi[lx]|m|no-ed|reu).*")
"""Options of `git commit` that supply a message, so that it opens no editor."""
VALUED = re.compile(r"-[^-]*t|--t[^=]*")
"""Options of `git commit` whose value, in the next argument, may look like a message option."""
GLOBAL_GIT = frozenset("-p -P --bare --no-optional-locks --no-pager --paginate".split())
"""Global options of git that take no value and do not affect which content it shows."""

PATHLESS = TEXTS.keys() | frozenset(
    """
    [ cd declare echo exit export kill local popd printf pushd readonly return set shift test
    typeset ulimit umask unset wait
    """.split()
)
"""Programs that never open a file named by an argument."""
NEVER_WRITING = PATHLESS | frozenset(
    """
    cat cmp cut df du egrep fgrep grep head ls md5sum nl readlink realpath rev sha1sum sha256sum
    sha512sum stat tac tail wc
    """.split()
)
"""Programs without an option that writes a file."""
CLUSTER = re.compile(r"-[A-Za-z0-9]{1,1000}")
"""Clustered short options; a path may follow any letter."""
PIECE = re.compile(r"[^\s=@:;,'\"<>(){}|&!`$\\]+")
"""A possible path inside a longer text: `f=@.env;type=x` has three."""
MARKED = re.compile(r"[@<]\"?([^;,\"]+)")
"""A possible path after `@` or `<`, which may contain spaces: `f=@a b.txt;type=x`."""
BEHIND = re.compile(r"[@<](?:\"([^\"]+)|(.+))", re.S)
"""A possible path after `@` or `<`, with any signs in it: `f=@"a;b";type=x`, `x@a,b`."""
ADDRESS = re.compile(r"file:(?://[^/]*)?(/[^?#]*)", re.I)
"""A `file:` URL; the group is its path."""


def read_files(name: str, arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Return what a program reads; None if it is not listed or might do more than read."""
    if name == "git":
        return read_git(arguments)
    if name in EXPRESSIONS:
        return EXPRESSIONS[name](arguments)
    usage = FILES.get(name) or TEXTS.get(name)
    return effect_of(arguments, usage) if usage else None


def shows_files(name: str, arguments: tuple[str, ...], *, is_known: bool) -> bool:
    """Return whether a call that the allowlist does not cover may show file content.

    `is_known` is False if an argument is only known when the command runs, as in `cat $x`.
    """
    if name == "git":
        return _git_shows_files(arguments)
    return name in CONTENT_READERS and (name in FILES or not is_known)


def _git_shows_files(arguments: tuple[str, ...]) -> bool:
    """Return whether a call of git may show the content of files.

    >>> _git_shows_files(("-C", "x", "add", ".")), _git_shows_files(("commit", "-qam", "x"))
    (False, False)
    >>> _git_shows_files(("status", "-vv")), _git_shows_files(("fast-export", "HEAD"))
    (True, True)
    """
    while arguments and arguments[0].startswith("-"):
        # `-c commit.verbose=true` shows content, too.
        is_plain = arguments[0] == "-C" or (
            arguments[0] == "-c" and "".join(arguments[1:2]).lower().startswith("user.")
        )
        if not is_plain and arguments[0] not in GLOBAL_GIT:
            return True
        arguments = arguments[2 if is_plain else 1 :]
    if not arguments:
        return False
    name, *rest = arguments
    if name == "stash" and rest[:1] in (["clear"], ["drop"]):
        return False
    if (name == "commit" and not _has_message(rest)) or _copies_tracked_files(name, rest):
        return True
    showing = SHOWING_OPTIONS.get(name)
    return name not in QUIET_GIT or any(
        OBJECT_CONTENT.search(each) or (showing and showing.fullmatch(each)) for each in rest
    )


def _copies_tracked_files(name: str, rest: list[str]) -> bool:
    """Return whether a call of git may make copies of the files that it tracks.

    >>> _copies_tracked_files("worktree", ["add", "x"]), _copies_tracked_files("worktree", ["list"])
    (True, False)
    >>> [_copies_tracked_files("clone", [each, "git@x"]) for each in (".", "https://host/x")]
    [True, False]
    """
    if name == "clone":
        pairs = pairwise(("", *rest))
        named = (text for before, text in pairs if before not in CLONE_VALUES and text[:1] != "-")
        return not REMOTE_SOURCE.fullmatch(next(named, ""))
    return COPYING_GIT.fullmatch(" ".join((name, *rest))) is not None


def _has_message(options: list[str]) -> bool:
    """Return whether the options of `git commit` supply a message, so that it opens no editor.

    >>> _has_message(["-am", "x"]), _has_message(["-a", "--trailer", "-mx"])
    (True, False)
    """
    pairs = pairwise(("", *options))
    return any(MESSAGE.fullmatch(each) and not VALUED.fullmatch(before) for before, each in pairs)


def guess_paths(argument: str) -> tuple[str, ...]:
    """Return the paths that one argument of an unknown call may contain.

    >>> guess_paths("--file=.env"), guess_paths("-f.env"), guess_paths("f=@.env;type=x")[-4:]
    (('--file=.env', '.env', '--file'), ('-f.env', 'f.env', '.env'), ('f', '.env', 'type', 'x'))
    >>> "a;b" in guess_paths('x=@"a;b"'), "a,b" in guess_paths("x@a,b")
    (True, True)
    """
    found = [argument]
    if "=" in argument:
        found.append(argument.partition("=")[2])
    if letters := CLUSTER.match(argument):
        # `-abf.env` may be the options a, b and f with a value, or any other split.
        found += [argument[place:] for place in range(1, letters.end() + 1)]
    found += [each[1:] for each in found if each.startswith(("@", ":"))]
    found += [each.rpartition(":")[2] for each in found]
    found += PIECE.findall(argument)
    found += [*MARKED.findall(argument), *ADDRESS.findall(argument)]
    found += [text for pair in BEHIND.findall(argument) for text in pair]
    # `file:///shop/l%69nk` is `/shop/link`, which may lead to a file that a rule denies.
    found += map(unquote, tuple(found)) if "%" in argument else ()
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
