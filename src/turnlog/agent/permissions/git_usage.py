"""Which calls of git only read."""

from turnlog.agent.permissions.operands import Usage, read_operands
from turnlog.agent.permissions.words import Word

SHOWN = tuple(
    f"--{name}"
    for name in """
    abbrev abbrev-commit after all author before branches cached cc check cherry-pick color
    color-words committer count date date-order decorate decorate-refs diff-filter dirstat
    exit-code find-renames first-parent follow format full-index function-context graph grep
    histogram ignore-all-space ignore-blank-lines ignore-space-change invert-grep left-right
    max-count merge-base merges minimal name-only name-status no-color no-decorate no-ext-diff
    no-merges no-patch no-renames no-textconv no-walk not numstat oneline patch patch-with-stat
    patience pretty quiet raw regexp-ignore-case relative remotes reverse shortstat
    show-signature since skip staged stat stat-count stat-width submodule summary tags text
    topo-order unified until walk-reflogs word-diff
    """.split()
)
REVISIONS = Usage("abBcCDgimMpPqrRstuvwzE", "GLnSU", SHOWN, takes_numbers=True, allows_globs=False)


def _names(names: str) -> tuple[str, ...]:
    return tuple(f"--{name}" for name in names.split())


def _usage(
    flags: str, names: str, valued: str = "", others: int = 0, most: int | None = None
) -> Usage:
    return Usage(flags, valued, _names(names), others, most, takes_numbers=True, allows_globs=False)


READING = {
    "blame": _usage("bcCefklMnpstw", "date line-porcelain porcelain show-email since", "L"),
    "branch": _usage("arv", "all color no-color remotes show-current verbose", most=0),
    "cat-file": _usage("epst", ""),
    "count-objects": _usage("Hv", ""),
    "describe": _usage("", "abbrev all always dirty exact-match first-parent long match tags"),
    "diff": REVISIONS,
    "for-each-ref": _usage("", "contains count format merged no-merged sort"),
    "grep": _usage(
        "abcEFGhHiIlLnopPqvwWz",
        """
        after-context all-match and before-context break cached color column context count
        extended-regexp files-with-matches fixed-strings function-context heading ignore-case
        line-number max-depth name-only not only-matching or perl-regexp quiet regexp
        show-function untracked word-regexp
        """,
        "ABCem",
        others=1,
    ),
    "log": REVISIONS,
    "ls-files": _usage(
        "cdikmostuvz",
        """
        abbrev cached deleted directory eol error-unmatch exclude exclude-standard full-name
        ignored modified others stage unmerged
        """,
        "x",
    ),
    "ls-tree": _usage("dlrtz", "abbrev full-name full-tree long name-only name-status"),
    "merge-base": _usage("a", "all fork-point independent is-ancestor octopus"),
    "name-rev": _usage("", "all always name-only refs tags"),
    "reflog": _usage("", "all date format max-count oneline pretty", "n", most=0),
    "remote": _usage("v", "verbose", most=0),
    "remote get-url": _usage("", "all push"),
    "rev-list": REVISIONS,
    "rev-parse": _usage(
        "q",
        """
        abbrev-ref absolute-git-dir all branches git-common-dir git-dir is-bare-repository
        is-inside-git-dir is-inside-work-tree quiet remotes short show-cdup show-prefix
        show-superproject-working-tree show-toplevel symbolic symbolic-full-name tags verify
        """,
    ),
    "shortlog": _usage("ens", "all email no-merges numbered since summary until"),
    "show": REVISIONS,
    "show-ref": _usage("dqs", "abbrev branches dereference hash head heads quiet tags verify"),
    "stash list": REVISIONS,
    "stash show": REVISIONS,
    "status": _usage(
        "bsvz",
        """
        ahead-behind branch column ignored long porcelain short show-stash untracked-files verbose
        """,
    ),
    "submodule status": _usage("", "cached recursive"),
    "tag": _usage("", "column", most=0),
    "tag --list": _usage(
        "in", "column contains format ignore-case merged no-merged points-at sort"
    ),
    "tag -l": _usage("in", "column contains format ignore-case merged no-merged points-at sort"),
    "version": _usage("", "build-options"),
    "--version": _usage("", "", most=0),
    "worktree list": _usage("vz", "porcelain verbose"),
}


def read_git(arguments: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """The paths and revisions of a call that only reads; None for any other call.

    A revision is a path that is not there, below where git runs: it does no harm among paths.
    """
    if arguments and arguments[0].text in ("--no-pager", "-P"):
        arguments = arguments[1:]
    for width in (2, 1):
        usage = READING.get(" ".join(word.text for word in arguments[:width]))
        if usage and len(arguments) >= width:
            found = read_operands(arguments[width:], usage)
            return found.paths if found else None
    return None
