"""Attacks on the allowlist of programs: arguments that a program parses in another way.

A row of `ASKED` is a command that writes, runs or shows more than its arguments seem to say. What
each of them does was observed with GNU sed 4.9 and git 2.39.5, unless a comment says otherwise.
"""

from collections.abc import Iterator

import pytest

from agent.permissions.arena import Arena, Trial
from turnlog.agent.permissions.explanation import explain_command

DEFAULT = Trial("default")
EDITS = Trial("edits", mode="acceptEdits", may_write=True)
DENIES = Trial("denies", deny=("Read(config/**)", "Read(./.env)"))

SED = r"""
    sed '/[/s|]/e cat ../outside/secret.txt;#|x|' README.md
    sed '/[/s|]/w pwned|x|' README.md
    sed -n '/[/s,]/e touch pwned;#,x,p' README.md
    sed 's/[/|]/x/e;s|a/|b|' README.md
    sed 's/[^/]*$//' README.md
    sed '/[]/s|]/e touch pwned;#|x|' README.md
    sed '/[^]/s|]/e touch pwned;#|x|' README.md
    sed '/[[:alpha:]/s|]/e touch pwned;#|x|' README.md
    sed '/[[./.]s|]/e touch pwned;#|x|' README.md
    sed '/[\]/s|]/e touch pwned;#|x|' README.md
    sed 's:[[:alpha:]]:e:' README.md
    sed 's/x/[/' README.md
    sed 's/ä/a/' README.md
    sed 'w pwned' -e p
    sed '1e touch pwned' -n -e p
    sed p README.md -n
    """
PLAIN_SED = r"""
    sed -n 1,5p README.md
    sed -n '/import/,/x/p' src/app.py
    sed -n '$p' README.md
    sed -n '/def /,+3p;7q' src/app.py
    sed 's/a/b/g' README.md
    sed -e 's/a/b/' -e 's|/usr|/opt|' README.md
    sed 's/[[:space:]]*$//' README.md
    sed -E 's/[^a-z0-9]+/-/g' README.md
    sed 's/\(a\)\/b/<\1>/' README.md
    sed '/^#/d' README.md
    sed -n '/\[x\]/=' README.md
    """
GIT = r"""
    git log -1 --skip -q --skip --output=../pwned --format=x
    git show --skip -q --skip --output=.git/hooks-pwned --format=x
    git reflog -n -q -n --output=pwned
    git stash show --skip 0 --skip --output=pwned
    git stash list -- --output=pwned
    git stash list main -- --output=pwned
    git stash list --oneline -- --output=pwned
    git stash show -n 5
    git shortlog --since -- --output=pwned
    git shortlog --until -- --output=pwned main
    git blame --since -- --output=pwned README.md
    git blame -- -- --output=pwned
    git log --stat-count -- --output=pwned
    git diff --stat-width -- --output=pwned
    git reflog --max-count -- --output=pwned
    git describe --match -- --dirty
    git for-each-ref --format -- --shell
    git tag --list --contains -- --sort
    git log -n --output=pwned
    git log --author ada
    git reflog -n delete
    git log --outp=pwned
    git log -- -p
    """
PLAIN_GIT = r"""
    git status
    git log --oneline -5
    git log -n 5
    git log --since=yesterday --author=ada --skip=1
    git log -n5 --format=%h -- src
    git diff
    git diff --stat main -- src
    git show --stat
    git blame -L 1,2 README.md
    git blame -L1,+1 README.md
    git grep -n -A 1 import
    git reflog -n 3
    git stash list
    git tag --list --sort=-creatordate
    git for-each-ref --format='%(refname)' --count=3
    git describe --tags --always
    git shortlog -sn --since=yesterday main
    """
SHIFTED = r"""
    sort -k --output=pwned README.md
    sort -t -o pwned README.md
    head -n --version README.md
    tree -P -o pwned
    tree --timefmt -o pwned
    cut README.md -d/../../outside/secret.txt
    cat README.md --number=/../../outside/secret.txt
    find , -name x
    """
PLAIN_VALUES = r"""
    head -n -1 README.md
    tail -n 2 README.md
    cut -d - -f -2 README.md
    cut -c -80 README.md
    grep -e -x README.md
    grep -rn import src --include=*.py
    grep -A 2 import src/app.py
    ls src -la
    sort -t , -k 2 README.md
    find . -name '*.py' -type f
    """


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with pytest.MonkeyPatch.context() as patch:
        arena = Arena(tmp_path_factory.mktemp("arena"))
        patch.setenv("HOME", str(arena.world / "home"))
        (arena.project / "-d").mkdir()
        (arena.project / "--number=").mkdir()
        yield arena


@pytest.mark.parametrize("command", lines(SED) + lines(GIT) + lines(SHIFTED))
@pytest.mark.parametrize("trial", [DEFAULT, EDITS], ids=lambda trial: trial.name)
def test_arguments_that_can_be_parsed_differently_ask(
    command: str, trial: Trial, arena: Arena
) -> None:
    assert not arena.is_allowed(command, trial)


@pytest.mark.parametrize("command", lines(PLAIN_SED) + lines(PLAIN_GIT) + lines(PLAIN_VALUES))
def test_everyday_arguments_run_unprompted_and_only_read(command: str, arena: Arena) -> None:
    assert arena.is_allowed(command, DEFAULT)
    (arena.project / "-d").rmdir()
    (arena.project / "--number=").rmdir()
    try:
        assert not arena.breaches(command, DEFAULT)
    finally:
        (arena.project / "-d").mkdir()
        (arena.project / "--number=").mkdir()


@pytest.mark.parametrize("command", ["sed -i '/[/s|]/etouch pwned #|x|' README.md", "sed p f -i"])
def test_editing_in_place_asks_for_a_script_that_may_run_programs(
    command: str, arena: Arena
) -> None:
    assert not arena.is_allowed(command, EDITS)
    assert arena.is_allowed("sed -i 's/[a-z]/x/' README.md", EDITS)


@pytest.mark.parametrize(
    "command", ["mkdir new -m ../new", "touch x -d ../y", "cp src/b.py new -r", "rm docs/a.md -f"]
)
def test_changes_with_options_behind_operands_ask(command: str, arena: Arena) -> None:
    """Programs that do not permute their arguments take such options for files."""
    assert not arena.is_allowed(command, EDITS)


@pytest.mark.parametrize("command", ["rg --color never KEY", "rg KEY", "rg --color=never KEY"])
def test_a_search_with_a_separate_color_is_a_search_of_the_whole_directory(
    command: str, arena: Arena
) -> None:
    """rg takes `never` for the color and searches the current directory (from its manual)."""
    assert arena.is_allowed(command, DEFAULT)
    assert not arena.is_allowed(command, DENIES)


def test_rg_keeps_its_configuration(arena: Arena) -> None:
    assert not arena.is_allowed("rg --no-config x", DEFAULT)


def test_options_with_git_values_hide_no_patch_from_file_rules(arena: Arena) -> None:
    for command in (
        "git log -1 main --skip -q --skip -p",
        "git stash list --skip -q --skip -p main",
        "git rev-list -1 main --skip -q --skip -p",
    ):
        assert not arena.is_allowed(command, DENIES)
    assert arena.is_allowed("git log -1 --stat", DENIES)


def test_an_explanation_names_the_files_that_are_read_without_options(arena: Arena) -> None:
    explained = explain_command("grep -r x src -l --include=*.py", arena.policy(DEFAULT))
    assert [part.reads for part in explained.parts] == [("src",)]
