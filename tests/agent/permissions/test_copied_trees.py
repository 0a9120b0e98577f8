"""Directories that commands copy by a rule: protected files in them are noticed."""

import subprocess
from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, Verdict, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

INTO_PROJECT = (
    *("cp -r new/. .", "cp -rT new .", "cp -r -t . new/.", "cp --target-directory=. -r new/."),
    *("cp -a new/./ .", "cp -rt. new/.", "cp -r --no-target-directory new .", "rsync -a new/ ."),
    *("cp -r src new/. .", "scp -r new/. ."),
)
ELSEWHERE = ("cp -r new copy", "cp -r new/inner .", "cp -r new/* .", "cp -rT new copy")
HARMLESS = (
    *("cp -r src copy", "cp -r src/. docs", "cp -rT src copy", "cp -rt docs src", "cp a.txt b.txt"),
    *("rsync -at src/ docs/", "cp -rL src copy", "cp -r --parents src copy", "cp -r src docs copy"),
    *("cp -r src/. .", "rsync -a src/ ."),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a directory that a stranger has filled."""
    place = tmp_path / "project"
    for name in ("src/app.py", "docs/a.md", "a.txt", ".git/HEAD", ".agents/skills/a/SKILL.md"):
        put(place, name)
    (place / ".claude").mkdir()
    (place / ".claude" / "skills").symlink_to("../.agents/skills")
    return place


def put(place: Path, name: str) -> None:
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n")


def verdict(command: str, place: Path, *allow: str, deny: tuple[str, ...] = ()) -> Verdict:
    denied, allowed = (
        tuple(parse_rule(text, place, "test") for text in texts) for texts in (deny, allow)
    )
    policy = Policy(denied, (), allowed, ApprovalMode.DEFAULT, place, (place,))
    return decide("Bash", [Runs(command)], policy)


RULES = ("Bash(cp:*)", "Bash(rsync:*)", "Bash(scp:*)")


@pytest.mark.parametrize("command", INTO_PROJECT)
@pytest.mark.parametrize("name", [".envrc", ".git/hooks/pre-commit", ".agents/skills/x/SKILL.md"])
def test_no_protected_file_lands_in_the_project(command: str, name: str, project: Path) -> None:
    put(project, f"new/{name}")
    assert verdict(command, project, *RULES).kind is VerdictKind.ASK
    assert verdict(command, project, "Bash").kind is VerdictKind.ASK


@pytest.mark.parametrize("command", ELSEWHERE)
@pytest.mark.parametrize("name", ["inner/.envrc", "inner/sub/.git/hooks/pre-commit"])
def test_no_protected_file_lands_elsewhere(command: str, name: str, project: Path) -> None:
    put(project, f"new/{name}")
    assert verdict(command, project, *RULES).kind is VerdictKind.ASK


@pytest.mark.parametrize("command", HARMLESS)
def test_other_directories_are_copied_without_a_question(command: str, project: Path) -> None:
    assert verdict(command, project, *RULES).kind is VerdictKind.ALLOW


def test_one_protected_file_is_named_not_thousands(project: Path) -> None:
    for number in range(50):
        put(project, f"new/.git/objects/{number}")
    assert len(verdict("cp -r new/. .", project, *RULES).reason.split("; ")) < 5


def test_a_rule_that_may_be_about_the_copy_asks(project: Path) -> None:
    put(project, "new/docs/a.md")
    found = verdict("cp -rT new .", project, *RULES, deny=("Edit(/docs/a.md)",))
    assert found.kind is VerdictKind.ASK


FOLLOWING = (
    *("rsync -rL new/ .", "rsync -rk new/ .", "rsync -a --copy-links new/ .", "cp -rL new/. ."),
    *("cp -r --dereference new/. .", "scp -r new/. .", "cp -aL new/inner .", "cp -rH new/app ."),
)
KEEPING = ("rsync -a new/ .", "cp -a new/. .", "cp -rP new/. .", "cp -r new/inner .")


@pytest.fixture
def linked(project: Path) -> Path:
    """The project, and links to a directory with a protected file."""
    put(project, "e/.claude/settings.json")
    (project / "new/inner").mkdir(parents=True)
    (project / "new/app").symlink_to("../e")
    (project / "new/inner/app").symlink_to("../../e")
    return project


@pytest.mark.parametrize("command", FOLLOWING)
def test_no_protected_file_lands_that_a_link_leads_to(command: str, linked: Path) -> None:
    assert verdict(command, linked, *RULES).kind is VerdictKind.ASK


@pytest.mark.parametrize("command", KEEPING)
def test_links_that_stay_links_do_not_ask(command: str, linked: Path) -> None:
    assert verdict(command, linked, *RULES).kind is VerdictKind.ALLOW


def test_a_denied_file_is_not_replaced_by_what_a_link_leads_to(project: Path) -> None:
    put(project, "e/a.md")
    (project / "new").mkdir()
    (project / "new/docs").symlink_to("../e")
    (project / "new/other").symlink_to("../e")
    deny = ("Edit(/docs/a.md)",)
    assert verdict("rsync -rL new/ .", project, *RULES, deny=deny).kind is VerdictKind.ASK
    assert verdict("rsync -rL new/ out/", project, *RULES, deny=deny).kind is VerdictKind.ALLOW


def test_a_cycle_of_links_asks(project: Path) -> None:
    put(project, "new/a.txt")
    (project / "new/up").symlink_to("..")
    assert verdict("rsync -rL new/ out/", project, *RULES).kind is VerdictKind.ASK
    assert verdict("rsync -a new/ out/", project, *RULES).kind is VerdictKind.ALLOW


def test_a_file_that_is_left_out_is_not_written(project: Path) -> None:
    rules = (*RULES, "Bash(tar:*)")
    for command in (
        "rsync -a --exclude=.git --exclude=.venv/ src/ out/",
        "tar cf x.tar --exclude=.git src",
    ):
        assert verdict(command, project, *rules).kind is VerdictKind.ALLOW
    # The value of `-T` may look like an option, and be a directory to write to.
    for command in (
        "rsync -aT --exclude=x/.git/hooks src/ out/",
        "rsync -a --exclude=.git src/ .git/",
    ):
        assert verdict(command, project, *rules).kind is VerdictKind.ASK


@pytest.mark.parametrize("command", ["cp -r new/deep .", "rsync -a new/ ."])
def test_hooks_of_a_nested_repository_are_not_overwritten(command: str, project: Path) -> None:
    nested = project / "deep/vendor"
    nested.mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=nested, check=True)
    subprocess.run(["git", "config", "core.hooksPath", "tools/hooks"], cwd=nested, check=True)
    put(project, "new/deep/vendor/tools/a.py")
    assert verdict(command, project, *RULES).kind is VerdictKind.ALLOW
    put(project, "new/deep/vendor/tools/hooks/pre-commit")
    assert verdict(command, project, *RULES).kind is VerdictKind.ASK


@pytest.mark.parametrize("option", ["--delete", "--del", "--delete-after"])
def test_rsync_deletes_no_protected_file(option: str, project: Path) -> None:
    (project / "empty").mkdir()
    assert verdict(f"rsync -a {option} empty/ .", project, *RULES).kind is VerdictKind.ASK
    assert verdict(f"rsync -a {option} empty/ docs/", project, *RULES).kind is VerdictKind.ALLOW
    assert verdict("rsync -a empty/ .", project, *RULES).kind is VerdictKind.ALLOW


FILLED = (
    *(
        "git checkout -q topic && cp -r new/. .",
        "mv new/inner n && cp -r n/. .",
        "make & cp -r n .",
    ),
    *("mkdir -p n/hooks && cp a.txt n/hooks/pre-commit && cp -r n/. .", "sleep 9; rsync -a n/ ."),
    *(
        "cp a.txt new/hooks && rsync -a new/ .",
        "cp -r src n && cp -r n/docs .",
        "tar xf x && cp -r n .",
    ),
    *("git pull && cp new/* docs", "git switch x && mv new/i* .", "mv new/inner n && ln -s n/* ."),
    *("curl -so new/x https://h/x; cp -rT new .", "echo x > new/x && cp -r new/. ."),
)
UNCHANGED = (
    *(
        "npm run build && cp -r src copy",
        "rm -rf copy && make && cp -r src copy",
        "ls; cp -r src x",
    ),
    *(
        "mkdir -p out && cp -r src out",
        "cp -r src out && cp -r docs out",
        "mv a.txt b && cp -r src x",
    ),
    *("cp -r src copy && npm test copy", "set -e; cp -r src copy", "cp a.txt b && mv b c"),
    *("export X=1; cp -r src copy", "make && cp src/* docs", "curl -so b https://h/x && mv b docs"),
)


@pytest.mark.parametrize("command", FILLED)
def test_a_directory_that_changes_before_it_is_copied_asks(command: str, project: Path) -> None:
    put(project, "new/inner/a.txt")
    programs = "cp curl git ln make mkdir mv rsync sleep tar".split()
    rules = (f"Bash({each}:*)" for each in programs)
    assert verdict(command, project, *rules).kind is VerdictKind.ASK
    assert verdict(command, project, "Bash").kind is VerdictKind.ASK


@pytest.mark.parametrize("command", UNCHANGED)
def test_a_directory_that_others_leave_alone_is_copied(command: str, project: Path) -> None:
    rules = (f"Bash({each}:*)" for each in "cp curl export git make mkdir mv npm rm set".split())
    assert verdict(command, project, *rules).kind is VerdictKind.ALLOW
