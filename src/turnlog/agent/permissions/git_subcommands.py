"""Find the subcommand of a git call, behind options and aliases.

In place of a subcommand, git accepts other words: it runs a program `git-WORD`, an alias of any
configuration file, or, with `help.autocorrect`, the subcommand whose name is most similar.
"""

import re
import shlex
import shutil
from collections.abc import Iterator

from turnlog.agent.permissions.bash import UNKNOWN, UnknownValue, Word
from turnlog.agent.permissions.git_reader import GitReader

BRINGING = frozenset(
    """
    checkout checkout-index cherry-pick merge merge-octopus merge-ort merge-recursive
    merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree read-tree rebase reset
    restore revert sparse-checkout stash switch
    """.split()
)
"""Subcommands that change tracked files without naming them."""
ADDING = frozenset(("add", "stage"))
"""Subcommands that copy files into the repository."""
BUILTINS = (
    BRINGING
    | ADDING
    | frozenset(
        """
        am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr
        check-ignore check-mailmap check-ref-format cherry clean clone column commit commit-graph
        commit-tree config count-objects credential describe diagnose diff diff-files diff-index
        diff-tree difftool fast-export fast-import fetch fetch-pack fmt-merge-msg for-each-ref
        for-each-repo format-patch fsck gc get-tar-commit-id grep hash-object help hook index-pack
        init interpret-trailers lfs log ls-files ls-remote ls-tree maintenance merge-base merge-file
        merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs
        patch-id prune pull push range-diff reflog remote repack replace request-pull rerere
        rev-list rev-parse rm send-pack shortlog show show-branch show-index show-ref status
        stripspace submodule symbolic-ref tag unpack-file unpack-objects update-index update-ref
        update-server-info upload-pack var verify-commit verify-pack verify-tag version worktree
        write-tree
        """.split()
    )
)
"""Subcommands that no alias can replace, and `lfs`.

Subcommands of git's newest versions are left out: an older git takes them for an alias.
"""
PLAIN_GLOBALS = frozenset(
    "--literal-pathspecs --no-lazy-fetch --no-optional-locks --no-pager -P".split()
)
"""Options in front of a subcommand that change neither the repository nor the programs that run."""
SWITCHES = PLAIN_GLOBALS | frozenset(
    """
    -p --bare --glob-pathspecs --icase-pathspecs --no-advice --no-replace-objects
    --noglob-pathspecs --paginate
    """.split()
)
"""Options in front of a subcommand without a value."""
VALUED = frozenset(
    """
    -C -c --attr-source --config-env --git-dir --namespace --shallow-file --super-prefix --work-tree
    """.split()
)
"""Options in front of a subcommand whose value may be the next argument."""
ENTERING = re.compile(r"submodule\.", re.IGNORECASE)
"""Settings that make git enter submodules."""
HARMLESS_SETTING = re.compile(
    r"(?:advice|color|committer|author|user|gpg)\.[\w.]+|(?:commit|tag)\.gpgsign"
    r"|core\.(?:editor|pager|quotepath)|sequence\.editor|init\.defaultbranch",
    re.IGNORECASE | re.ASCII,
)
"""Settings that decide neither which files git changes nor where it pushes them."""
STEERED = BRINGING | ADDING | frozenset(("commit", "push"))
"""Subcommands about which other settings of `-c` leave a doubt."""
ALIAS = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
DEEPEST = 5
"""Maximum number of aliases that stand for each other."""


def folder_of(words: tuple[Word, ...]) -> Word:
    """Return the value of `-C`; raise `UnknownValue` for options that name another repository."""
    folder, waiting = Word("."), iter(words[1:])
    subcommand = without_options(words)[1:2]
    is_steered = not subcommand or subcommand[0].text in STEERED or not is_builtin(subcommand[0])
    for word in waiting:
        if not word.is_option and word.is_known:
            break
        if word.text in PLAIN_GLOBALS:
            continue
        if not word.is_known or word.text not in ("-C", "-c"):
            raise UnknownValue(word.source)
        value = next(waiting, UNKNOWN)
        if word.text == "-C":
            if folder.text != ".":
                raise UnknownValue(value.source)
            folder = value
        # `-c submodule.recurse=true` makes git check out other repositories as well.
        elif ENTERING.match(value.text) or (
            is_steered and not HARMLESS_SETTING.fullmatch(value.text.partition("=")[0])
        ):
            raise UnknownValue(value.source)
    return folder


def without_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return a git call without the options in front of its subcommand."""
    waiting = iter(words[1:])
    for word in waiting:
        if word.text in VALUED:
            next(waiting, None)
        elif not word.is_option:
            return (words[0], word, *waiting)
    return words[:1]


def may_be(words: tuple[Word, ...], subcommands: frozenset[str]) -> bool:
    """Return whether a call may be one of some subcommands, or of those that are not known."""
    waiting = iter(words[1:])
    for word in waiting:
        name, has_value, _ = word.text.partition("=")
        if not word.is_option:
            return not is_builtin(word) or word.text in subcommands
        if word.text in VALUED:
            next(waiting, None)
        elif not (word.is_known and (word.text in SWITCHES or (has_value and name in VALUED))):
            # Behind an option that is not known, any argument may be the subcommand.
            return any(not is_builtin(each) or each.text in subcommands for each in waiting)
    return False


def is_builtin(word: Word) -> bool:
    """Return whether a word is a subcommand that no alias can replace."""
    return word.is_known and word.text in BUILTINS


def is_program(word: Word) -> bool:
    """Return whether git runs a program of its own name for a word: `git-flow` for `flow`."""
    return word.is_known and shutil.which(f"git-{word.text}") is not None


def expand_alias(words: tuple[Word, ...], git: GitReader) -> tuple[Word, ...]:
    """Return a call with its alias replaced; raise `UnknownValue` unless it is a plain one."""
    for _ in range(DEEPEST):
        word, given = words[1], words[2:]
        if not word.is_known or not ALIAS.fullmatch(word.text):
            raise UnknownValue(word.source)
        found = git.aliases(word.text)
        if len(found) != 1 or not re.match(r"[a-z]", found[0]):
            raise UnknownValue(word.source)
        words = (words[0], *_words_of(found[0]), *given)
        if is_builtin(words[1]):
            return words
    raise UnknownValue(words[1].source)


def _words_of(text: str) -> Iterator[Word]:
    try:
        yield from map(Word, shlex.split(text))
    except ValueError as error:
        raise UnknownValue(text) from error
