"""Patches that commands apply by a rule: the files that they change are checked."""

import subprocess
from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

PATCH = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-keep\n+PWNED\n"
APPLIED = (
    *("git apply x.patch", "git apply --index -p1 x.patch", "git apply --stat --apply x.patch"),
    *("git apply < x.patch", "git am x.patch", "git -C . apply x.patch", "git apply - < x.patch"),
    *("patch -p1 -i x.patch", "patch -p1 --input=x.patch", "patch -p1 < x.patch"),
    *(
        "patch docs/a.md x.patch",
        "patch -p1 -ix.patch",
        "git apply missing.patch",
        "any-program | git apply",
    ),
)


@pytest.fixture(autouse=True)
def _repository(tmp_path: Path) -> None:
    """A repository of its own: the folders of tests lie in that of turnlog."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)


@pytest.mark.parametrize("command", APPLIED)
@pytest.mark.parametrize("name", [".claude/settings.json", "docs/keep.md", ".envrc"])
def test_a_patch_changes_no_denied_or_protected_file(
    name: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / "x.patch").write_text(PATCH.format(name))
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ASK


MAIL = "From 1 Mon Sep 17 00:00:00 2001\nFrom: a <a@b.c>\nSubject: x\n{}\n\nx\n---\n"


@pytest.mark.parametrize(
    "text",
    [
        PATCH.format("x").replace("+++ b/x", '+++ "b/.env\\162c"'),
        "Content-Transfer-Encoding: base64\n\nZGlmZg==\n",
        # git joins the lines of a header, and looks for the word anywhere in it.
        MAIL.format("Content-Transfer-Encoding: 8bit\n base64") + "ZGlmZg==\n",
        # In UTF-7, `+AC4-` is a dot.
        MAIL.format("Content-Type: text/plain; charset=UTF-7") + PATCH.format("+AC4-envrc"),
        MAIL.format("Content-Type: multipart/mixed; boundary=x") + PATCH.format("x"),
        # A list of further files with patches.
        "# This series applies on GIT commit 0123456789\nother.patch\n",
    ],
)
def test_a_patch_that_cannot_be_read_with_certainty_asks(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text(text)
    assert _kind_of_patch("git am x.patch", tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("git apply --stat --appl x.patch", "git apply --stat --no-stat x.patch"),
        *("git apply --check --no-check x.patch", "git apply x.patch -- --stat"),
        *("git apply --exclude --stat x.patch", "git apply --directory=docs x.patch"),
        *("git am --exclude --skip x.patch", "git am x.patch -- --abort", "git am --skip x.patch"),
    ],
)
def test_an_option_only_counts_if_no_other_one_can_take_it_back(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "x.patch").write_text(PATCH.format(".envrc"))
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("start", ["X", "XX ", "- "])
def test_a_patch_that_only_the_program_patch_finds_asks(start: str, tmp_path: Path) -> None:
    lines = PATCH.format(".envrc").splitlines()
    (tmp_path / "x.patch").write_text("".join(f"{start}{line}\n" for line in lines))
    assert _kind_of_patch("patch -p1 -i x.patch", tmp_path) is VerdictKind.ASK


def test_a_mail_as_git_writes_it_is_applied_by_a_rule(tmp_path: Path) -> None:
    head = "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit"
    (tmp_path / "x.patch").write_text(MAIL.format(head) + PATCH.format("src/app.py"))
    for command in ("git am --signoff x.patch", "git apply --stat x.patch", "git am --quit"):
        assert _kind_of_patch(command, tmp_path) is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("git apply x.patch", "git apply --check y.patch", "git am --quit", "git am x.patch"),
        *("patch -p1 -i x.patch", "patch -Np0 < x.patch"),
    ],
)
def test_a_patch_of_other_files_is_applied_by_a_rule(command: str, tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text(PATCH.format("src/app.py"))
    (tmp_path / "y.patch").write_text(PATCH.format(".envrc"))
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ALLOW


@pytest.mark.parametrize("option", ["--skip", "--continue", "-r", "--abort", "--quit --skip"])
def test_an_interrupted_patch_asks(option: str, tmp_path: Path) -> None:
    assert _kind_of_patch(f"git am {option}", tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize(("folder", "name"), [(".claude", "settings.json"), ("docs/old", "x.md")])
def test_a_patch_is_judged_where_it_is_applied(folder: str, name: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "x.patch").write_text(PATCH.format(name))
    command = f"git apply {tmp_path}/x.patch"
    assert _kind_of_patch(command, tmp_path, folder) is VerdictKind.ASK
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ALLOW


@pytest.mark.parametrize("line", ["Binary files /dev/null and b/x differ", "GIT binary patch"])
def test_a_patch_copies_no_denied_file_that_git_has_stored(line: str, tmp_path: Path) -> None:
    index = f"index {'0' * 40}..{'1' * 40}"
    text = f"diff --git a/x b/x\nnew file mode 100644\n{index}\n{line}\n"
    (tmp_path / "x.patch").write_text(text)
    (tmp_path / "y.patch").write_text(PATCH.format("src/app.py"))
    for command in ("git apply x.patch", "git am x.patch", "git apply --3way y.patch"):
        assert _kind_of_patch(command, tmp_path, denied="Read(./.env)") is VerdictKind.ASK
        assert _kind_of_patch(command, tmp_path) is VerdictKind.ALLOW
    assert _kind_of_patch("git apply y.patch", tmp_path, denied="Read(./x)") is VerdictKind.ALLOW


def _kind_of_patch(
    command: str, root: Path, cwd: str = ".", denied: str = "Edit(/docs/keep.md)"
) -> VerdictKind:
    allow = tuple(parse_rule(f"Bash({each}:*)", root, "test") for each in ("git", "patch"))
    denials = (denied, "Edit(/docs/old/**)")
    deny = tuple(parse_rule(each, root, "test") for each in denials)
    policy = Policy(deny, (), allow, ApprovalMode.DEFAULT, root / cwd, (root,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize(
    "command", ["git am -3 x.patch", "git am --3way x.patch", "git am --abort"]
)
def test_git_am_asks_if_it_may_change_other_files(command: str, tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text(PATCH.format("x"))
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ASK


def test_git_am_applies_a_patch_from_the_top(tmp_path: Path) -> None:
    hooks = ["git", "-C", str(tmp_path), "config", "core.hooksPath", "tools/hooks"]
    subprocess.run(hooks, check=True)
    below = tmp_path / "src"
    below.mkdir()
    (below / "x.patch").write_text(PATCH.format("tools/hooks/post-applypatch"))
    assert _kind_of_patch("git am x.patch", tmp_path, "src") is VerdictKind.ASK
    (below / "x.patch").write_text(PATCH.format("tools/other"))
    assert _kind_of_patch("git am x.patch", tmp_path, "src") is VerdictKind.ALLOW


LINK = """diff --git a/l b/l
{}
--- /dev/null
+++ b/l
@@ -0,0 +1 @@
+.git/hooks
\\ No newline at end of file
"""


@pytest.mark.parametrize(
    "header",
    [
        *("new file mode 120000", "> new file mode 0120777", "old mode 100644\nnew mode 120000"),
        *("index 1111111..2222222 120000", "deleted file mode 120000"),
    ],
)
@pytest.mark.parametrize("command", ["patch -p1 -i x.patch", "git apply x.patch"])
def test_a_patch_with_a_link_asks(header: str, command: str, tmp_path: Path) -> None:
    content = LINK.format(header) + PATCH.format("l/post-commit")
    (tmp_path / "x.patch").write_text(content)
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ASK
    (tmp_path / "x.patch").write_text(content.replace("12", "10").replace("0777", "0644"))
    assert _kind_of_patch(command, tmp_path) is VerdictKind.ALLOW
