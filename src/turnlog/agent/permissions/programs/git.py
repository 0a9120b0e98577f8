"""Read-only calls of git, and which of them show file content."""

import re

from msgspec import Struct

from turnlog.agent.permissions.programs.usage import (
    Arguments,
    ProgramEffect,
    ProgramUsage,
    parse_arguments,
)

PATCH = frozenset(
    """
    -c -L -m -p -u -U -W --binary --cc --check --color-words --function-context --patch
    --patch-with-raw --patch-with-stat --unified --word-diff
    """.split()
)
"""Options that make git log show the content of files."""
PICKAXE = frozenset(("-G", "-S"))
"""Options that select commits by content. Even without a patch, they allow guessing a secret letter
by letter: `git log -G '^KEY=a'`."""
SUMMARY = frozenset(
    """
    -s --dirstat --name-only --name-status --no-patch --numstat --quiet --raw --shortstat --stat
    --summary
    """.split()
)
"""Options that make git diff show names or statistics instead of content."""
# Left out: --output writes a file, --ext-diff and --textconv run programs, and -O reads another
# file.
REVISIONS = ProgramUsage(
    "abBcCDgimMpPqrRstuvwWzE",
    "GLnS",
    """
    abbrev abbrev-commit all ancestry-path author-date-order binary boundary branches cached cc
    check cherry-mark cherry-pick color color-words compact-summary count date-order decorate
    dirstat exit-code find-renames first-parent follow full-index function-context graph histogram
    ignore-all-space ignore-blank-lines ignore-space-change ignore-submodules invert-grep left-only
    left-right merge-base merges minimal name-only name-status no-color no-decorate no-ext-diff
    no-merges no-patch no-renames no-textconv no-walk not numstat oneline patch patch-with-raw
    patch-with-stat patience pretty quiet raw regexp-ignore-case relative remotes reverse right-only
    shortstat source staged stat summary tags text topo-order unified
    walk-reflogs word-diff format
    """,
    """
    after author before committer date decorate-refs diff-filter grep max-count since skip
    stat-count stat-width until
    """,
    operands="revision or path...",
    takes_numbers=True,
    attached="U",
)
WORKTREE_OPTIONS = frozenset(
    """
    -a -b -C -M -p -R -u -U -w -W -z --color --color-words --exit-code --find-renames
    --function-context --histogram --ignore-all-space --ignore-blank-lines --ignore-space-change
    --minimal --name-only --name-status --no-color --no-ext-diff --no-renames --numstat --patch
    --patience --shortstat --stat --summary --text --unified --word-diff
    """.split()
)
"""Options with which git diff still compares the work tree with the index; not `--cached`."""
PLAIN_PATH = re.compile(r"(?!.*(?:\A|/)\.\.(?:/|\Z))[\w.][\w./-]*")
"""A relative path without `..`.

Given two paths of which one is outside the repository, git diff compares any two files.
"""
PLAIN_VALUE = re.compile(r"[0-9]+(?:,\+?[0-9]+)?", re.ASCII)
"""Values that are accepted as a separate argument, as in `-n 5` and `-L 10,+5`."""
SIGNATURE = re.compile(r"%[-+ ]?G|signature")
"""Placeholders for which git runs gpg, which creates files in the home directory."""
OBJECT_CONTENT = re.compile(r"%\(\*?(?:raw|contents|body|subject)")
"""Placeholders that show the content of an object; a tag can point to the content of any file."""


class Subcommand(Struct, frozen=True):
    """The accepted usage of a git subcommand."""

    usage: ProgramUsage
    content: str = "never"
    """When it shows file content: `never`, `always`, `patch` (only with a patch option) or `unless
    summary` (unless a summary option is given)."""
    checks_worktree: bool = False
    """True if it compares files with the index, for which git enters submodules."""


def _names(
    flags: str, long: str, values: str = "", operands: str = "", long_values: str = ""
) -> ProgramUsage:
    return ProgramUsage(flags, values, long, long_values, operands=operands)


REVISION = "revision or path..."
SUBCOMMANDS: dict[str, Subcommand] = {
    "blame": Subcommand(
        _names(
            "bcCefklMnpstw",
            "line-porcelain porcelain show-email",
            "L",
            REVISION,
            long_values="date since",
        ),
        "always",
    ),
    # No operands: a name would create a branch. With --list, it is a pattern. Likewise for tag.
    "branch": Subcommand(_names("arv", "all color no-color remotes show-current verbose")),
    "branch --list": Subcommand(
        _names("arvi", "all color no-color remotes verbose", operands="pattern...")
    ),
    "check-ignore": Subcommand(
        _names("nqv", "non-matching no-index quiet verbose", operands="path...")
    ),
    # Not --textconv and --filters, which run programs that the repository names.
    "cat-file": Subcommand(_names("epst", "", operands="object..."), "always"),
    "count-objects": Subcommand(_names("Hv", "")),
    "describe": Subcommand(
        _names(
            "",
            "abbrev all always dirty exact-match first-parent long tags",
            operands="revision...",
            long_values="match",
        ),
        checks_worktree=True,
    ),
    "diff": Subcommand(REVISIONS, "unless summary", checks_worktree=True),
    "for-each-ref": Subcommand(
        _names(
            "",
            "",
            operands="pattern...",
            long_values="contains count format merged no-merged sort",
        )
    ),
    # Not -O, which runs a pager, -f, which reads another file, or --textconv.
    "grep": Subcommand(
        ProgramUsage(
            "abcEFGhHiIlLnopPqvwWz",
            "ABCem",
            """
            all-match and break cached color column count extended-regexp files-with-matches
            fixed-strings function-context heading ignore-case line-number name-only not
            only-matching or perl-regexp quiet show-function untracked word-regexp
            """,
            "after-context before-context context max-depth",
            operands="pattern revision...",
            optional_first=frozenset(("-e",)),
            takes_numbers=True,
        ),
        "always",
    ),
    "log": Subcommand(REVISIONS, "patch"),
    "ls-files": Subcommand(
        _names(
            "cdikmostuvz",
            """
            abbrev cached deleted directory eol error-unmatch exclude-standard full-name ignored
            modified others stage unmerged
            """,
            "x",
            "path...",
        )
    ),
    "ls-tree": Subcommand(
        _names("dlrtz", "abbrev full-name full-tree long name-only name-status", "", REVISION)
    ),
    "merge-base": Subcommand(
        _names("a", "all fork-point independent is-ancestor octopus", operands="revision...")
    ),
    "name-rev": Subcommand(
        _names("", "all always name-only tags", operands="revision...", long_values="refs")
    ),
    # No operands: `expire` and `delete` change the log.
    "reflog": Subcommand(
        ProgramUsage(
            "",
            "n",
            "all format oneline pretty",
            "date max-count",
            operands="",
            takes_numbers=True,
        )
    ),
    # No operands: `add` and others change the configuration, and `show` asks the server.
    "remote": Subcommand(_names("v", "verbose")),
    "remote get-url": Subcommand(_names("", "all push", operands="name")),
    "rev-list": Subcommand(REVISIONS, "patch"),
    "rev-parse": Subcommand(
        _names(
            "q",
            """
            abbrev-ref absolute-git-dir all branches git-common-dir git-dir is-bare-repository
            is-inside-git-dir is-inside-work-tree quiet remotes short show-cdup show-prefix
            show-superproject-working-tree show-toplevel symbolic symbolic-full-name tags verify
            """,
            operands="revision...",
        )
    ),
    "shortlog": Subcommand(
        _names(
            "ens",
            "all email no-merges numbered summary",
            operands="revision...",
            long_values="since until",
        )
    ),
    "show": Subcommand(REVISIONS, "always"),
    "show-ref": Subcommand(
        _names(
            "dqs",
            "abbrev branches dereference hash head heads quiet tags verify",
            operands="pattern...",
        )
    ),
    "stash list": Subcommand(REVISIONS, "patch"),
    "stash show": Subcommand(REVISIONS, "always"),
    "status": Subcommand(
        ProgramUsage(
            "bsz",
            "",
            """
            ahead-behind branch column ignored ignore-submodules long porcelain short show-stash
            untracked-files
            """,
            operands="path...",
            attached="u",
        ),
        checks_worktree=True,
    ),
    "tag": Subcommand(_names("", "column")),
    "tag --list": Subcommand(
        _names(
            "in",
            "column ignore-case",
            operands="pattern...",
            long_values="contains format merged no-merged points-at sort",
        )
    ),
    "version": Subcommand(_names("", "build-options")),
    "--version": Subcommand(_names("", "")),
    "worktree list": Subcommand(_names("vz", "porcelain verbose")),
}
SUBCOMMANDS["tag -l"] = SUBCOMMANDS["tag --list"]
# Not -C and --git-dir, which select another repository, or -c, which can name a program to run.
GLOBAL_OPTIONS = frozenset(("--no-pager", "-P", "--no-optional-locks"))


def find_subcommand(arguments: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Return the name of the subcommand and its arguments; None if it is not listed."""
    while arguments and arguments[0] in GLOBAL_OPTIONS:
        arguments = arguments[1:]
    # The longer name first: `git stash list` only reads, plain `git stash` does not.
    for width in (2, 1):
        name = " ".join(arguments[:width])
        if len(arguments) >= width and name in SUBCOMMANDS:
            return name, arguments[width:]
    return None


def read_git(arguments: tuple[str, ...]) -> ProgramEffect | None:
    """Return what a call reads; None if it might have other effects.

    A revision counts as a path, which is harmless: it names a path below git's working directory.
    """
    found = find_subcommand(arguments)
    if not found:
        return None
    name, rest = found
    subcommand = SUBCOMMANDS[name]
    parsed = parse_arguments(rest, subcommand.usage)
    if parsed is None or (parsed.operands and not subcommand.usage.operands):
        return None
    if not _is_certain(name, parsed):
        return None
    # Checking a signature runs gpg, which the repository may configure.
    if any(SIGNATURE.search(each) or OBJECT_CONTENT.search(each) for each in rest):
        return None
    # This option would override the settings that keep git out of submodules.
    if any(re.match(r"--ignore-submodules=(?!all\Z)", each) for each in rest):
        return None
    if name == "remote get-url" and len(parsed.operands) > 1:
        return None
    is_version = name in ("version", "--version")
    front = ("subcommand",) * (len(arguments) - len(rest))
    return ProgramEffect(
        reads=_paths_of([*parsed.operands, *(value for _, value in parsed.separated)]),
        shows_content=_shows_content(subcommand, parsed.options),
        shows_tracked=name == "diff" and _is_of_worktree(parsed, rest),
        uses_git="" if is_version else name,
        roles=front + tuple(parsed.roles),
    )


def _is_certain(name: str, parsed: Arguments) -> bool:
    """Return whether git is certain to parse every argument as what it looks like.

    Subcommands parse their arguments in several passes, and each pass may drop or reorder some:
    `git stash list -- --output=x` drops the `--`, `git stash show` moves all options to one side,
    and `git shortlog --since -- --output=x` takes the `--` for a date. So values must be joined to
    their options, except for numbers, and no operand may look like an option.
    """
    if any(each.startswith("-") for each in parsed.operands):
        return False
    if name.startswith("stash") and parsed.separated:
        return False
    return all(PLAIN_VALUE.fullmatch(value) for _, value in parsed.separated)


def _paths_of(operands: list[str]) -> tuple[str, ...]:
    """Return the operands and the paths after a colon, as in `HEAD:.env` and `:0:.env`."""
    named = [each.rpartition(":")[2] for each in operands if ":" in each]
    return tuple(dict.fromkeys((*operands, *filter(None, named))))


def _shows_content(subcommand: Subcommand, options: set[str]) -> bool:
    match subcommand.content:
        case "always":
            return True
        case "patch":
            return bool(options & (PATCH | PICKAXE))
        case "unless summary":
            return not options & SUMMARY or bool(options & (PATCH | PICKAXE))
        case _:
            return False


def _is_of_worktree(parsed: Arguments, rest: tuple[str, ...]) -> bool:
    """Return whether git diff compares the work tree with the index, if its operands are files.

    Git rejects an operand that is both a revision and a file, unless it precedes `--`.
    """
    front = rest[: rest.index("--")] if "--" in rest else ()
    return (
        parsed.options <= WORKTREE_OPTIONS
        and not parsed.separate_values
        and all(each.startswith("-") for each in front)
        and all(map(PLAIN_PATH.fullmatch, parsed.operands))
    )


def enters_submodules(name: str) -> bool:
    """Return whether a subcommand enters submodules, which have their own configuration."""
    return SUBCOMMANDS[name].checks_worktree
