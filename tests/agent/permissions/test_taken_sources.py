"""Options that remove what a program packs or copies: they need the same question as `rm -r`."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

TAKING = (
    *("tar cf ../x.tar --remove-files {}", "tar cf ../x.tar --remove-f {}"),
    *("tar cf ../x.tar --rem --add-file={}", "gtar --remove-files -cf ../x.tar {}"),
    *("zip -rm ../x.zip {}", "zip -9mr ../x.zip {}", "zip -r --move ../x.zip {}"),
    *("7z a -sdel ../x.7z {}", "rar m ../x.rar {}", "rar a -df ../x.rar {}", "lha m ../x.lzh {}"),
    *("rsync -a --remove-source-files {} ../x", "rsync -a --delete new/ {}"),
    *("rclone move {} h:x", "aws s3 mv --recursive {} s3://x", "gio trash {}", "trash {}"),
    *("zstd -r --rm {}", "gzip -r {}", "any-program --delete-source-files {}", "stow --adopt {}"),
)
DIRECT = [each for each in TAKING if "zip -r {}" not in each and "zstd" not in each]
"""Those that do not ask anyway, as programs do that name the files that they create."""
KEEPING = (
    *("tar cf ../x.tar {}", "zip -r ../x.zip {}", "zip -r ../x.zip {} -x *.m", "7z a ../x.7z {}"),
    *("rsync -a {} ../x/y", "aws s3 sync {} s3://x", "rclone copy {} h:x", "docker run --rm {}"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a protected file in `sub`, a link to one in `linked`, and none in `new`."""
    root = tmp_path / "above" / "project"
    for name in (".git/hooks/pre-commit", "sub/.vscode/tasks.json", "new/a", "linked/b", "docs/k"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    (root / "linked/hooks").symlink_to("../.git/hooks")
    return root


def kind_of(
    command: str, place: Path, *, allow: str = "Bash", deny: str = "", mode: str = "default"
) -> VerdictKind:
    denied = (parse_rule(deny, place, "test"),) if deny else ()
    allowed = (parse_rule(allow, place, "test"),)
    policy = Policy(denied, (), allowed, ApprovalMode(mode), place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", TAKING)
@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
def test_a_protected_file_is_not_removed_with_its_directory(
    mode: str, command: str, project: Path
) -> None:
    text, program = command.format("sub"), command.split(maxsplit=1)[0]
    assert kind_of(text, project, allow=f"Bash({program}:*)", mode=mode) is VerdictKind.ASK
    assert kind_of(text, project, mode=mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", ["zip -rm ../x.zip linked", "tar chf ../x.tar --rem linked"])
def test_links_are_followed_to_protected_files(command: str, project: Path) -> None:
    assert kind_of(command, project) is VerdictKind.ASK


@pytest.mark.parametrize("command", TAKING)
def test_a_denied_file_is_not_removed_with_its_directory(command: str, project: Path) -> None:
    text = command.format("docs")
    for mode in ("default", "bypassPermissions"):
        assert kind_of(text, project, deny="Edit(/docs/k)", mode=mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", [*TAKING, "zip -rm ../x.zip $x", "tar cf x --remove-files $x"])
@pytest.mark.parametrize("removed", [".", "..", "~", "*"])
def test_no_mode_removes_a_critical_directory(command: str, removed: str, project: Path) -> None:
    text = command.format(removed)
    if "=" not in text or removed not in "~*":  # bash does not expand them behind a `=`
        assert kind_of(text, project, mode="bypassPermissions") is VerdictKind.ASK


@pytest.mark.parametrize("command", KEEPING)
def test_programs_that_keep_their_sources_do_not_ask(command: str, project: Path) -> None:
    assert kind_of(command.format("new"), project) is VerdictKind.ALLOW
    assert kind_of(command.format("sub"), project) is not VerdictKind.DENY


@pytest.mark.parametrize("command", DIRECT)
def test_other_directories_are_removed_without_a_question(command: str, project: Path) -> None:
    assert kind_of(command.format("new"), project) is VerdictKind.ALLOW
