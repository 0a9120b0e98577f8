"""Files under several names, and what a search must leave out."""

from pathlib import Path

import pytest

from agent.permissions.test_verdicts import Case, policy
from turnlog.agent.permissions import (
    ApprovalMode,
    Policy,
    VerdictKind,
    decide,
    is_readable,
    parse_rule,
)
from turnlog.agent.workspace.access import Reads, Writes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "project"
    for name in ("src/app.py", "secrets/key", ".env", "read.md", "../other/file.txt"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("text\n")
    (place / "out.txt").symlink_to("../other/file.txt")
    (place / "in.txt").symlink_to("src/app.py")
    return place


def test_a_search_leaves_out_what_rules_deny(project: Path) -> None:
    rules = policy(project, Case("", "", deny="Read(.env)\nRead(secrets/**)\nEdit(read.md)"))
    found = [".env", "secrets/key", "sub/secrets/key", "read.md", "src/app.py"]
    assert [is_readable(project / name, rules) for name in found] == [
        *(False, False, False),
        *(True, True),
    ]


def test_every_link_on_the_way_is_looked_at(project: Path) -> None:
    (project / "first").symlink_to("second")
    (project / "second").symlink_to("in.txt")
    for name in ("first", "second", "in.txt", "src/app.py"):
        rules = policy(project, Case("", "", deny=f"Read(/{name})"))
        assert decide("Read", [Reads(project / "first")], rules).kind is VerdictKind.DENY


def test_a_link_in_a_linked_folder_is_known_by_its_own_place(project: Path) -> None:
    (project / "linked").symlink_to("src")
    (project / "src" / "link").symlink_to(project / "read.md")
    for name in ("linked/link", "src/link", "read.md"):
        rules = policy(project, Case("", "", deny=f"Read(/{name})"))
        assert decide("Read", [Reads(project / "linked" / "link")], rules).kind is VerdictKind.DENY


@pytest.mark.parametrize(
    ("rule", "link", "target", "read"),
    [
        ("Read(~/.ssh/**)", "../home/.ssh", "{project}/ssh", "ssh/id"),
        ("Read(~/.ssh/*.pem)", "../home/.ssh", "{project}/ssh", "ssh/a.pem"),
        ("Read(~/.ssh)", "../home", "{project}/dotfiles", "dotfiles/.ssh/id"),
        ("Read(./.env)", ".env", "config/real.env", "config/real.env"),
        ("Read(.env)", ".env", "config/real.env", "config/real.env"),
        ("Edit(/keep/**)", "keep", "docs", "docs/x.md"),
    ],
)
def test_a_rule_about_a_link_is_about_the_files_that_it_leads_to(
    project: Path, rule: str, link: str, target: str, read: str
) -> None:
    file, place = project / read, project / link
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.rmdir() if place.is_dir() else place.unlink(missing_ok=True)
    place.symlink_to(target.format(project=project))
    rules = policy(project, Case("", "", deny=rule, mode="acceptEdits"))
    access = Writes(file) if rule.startswith("Edit") else Reads(file)
    assert decide("Write", [access], rules).kind is VerdictKind.DENY
    assert is_readable(file, rules) == rule.startswith("Edit")
    assert is_readable(project / "src" / "app.py", rules)


def test_a_project_that_is_opened_through_a_link_is_the_same_project(project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project)
    allowed = (parse_rule("Edit(/src/**)", link, "test"),)
    rules = Policy((), (), allowed, ApprovalMode.DEFAULT, link, (link,))
    for root in (link, project):
        assert decide("Read", [Reads(root / "read.md")], rules).kind is VerdictKind.ALLOW
        assert decide("Write", [Writes(root / "src" / "x")], rules).kind is VerdictKind.ALLOW
    assert decide("Read", [Reads(link / "out.txt")], rules).kind is VerdictKind.ASK


def test_a_call_that_touches_several_files_is_as_strict_as_the_strictest(project: Path) -> None:
    rules = policy(project, Case("", "", deny="Read(.env)", mode="acceptEdits"))
    inside, outside = Writes(project / "x"), Writes(project.parent / "x")
    assert decide("MultiEdit", [inside], rules).kind is VerdictKind.ALLOW
    assert decide("MultiEdit", [inside, outside], rules).kind is VerdictKind.ASK
    assert (
        decide("MultiEdit", [inside, outside, Reads(project / ".env")], rules).kind
        is VerdictKind.DENY
    )


def test_what_rules_ask_for_is_firm_and_what_only_lacks_a_rule_is_not(project: Path) -> None:
    asked = policy(project, Case("", "", ask="Edit(src/**)"))
    assert decide("Edit", [Writes(project / "src" / "x")], asked).is_firm
    assert not decide("Edit", [Writes(project / "x")], asked).is_firm
