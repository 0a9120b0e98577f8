"""Files under several names, and what a search must leave out."""

from pathlib import Path

import pytest

from agent.permissions.cases import Case
from agent.permissions.trial import make_project, policy_for
from turnlog.agent.permissions import (
    ApprovalMode,
    Policy,
    VerdictKind,
    decide,
    is_readable,
    parse_rule,
)
from turnlog.agent.workspace.access import Reads, Runs, Writes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return make_project(tmp_path)


def test_a_search_leaves_out_what_rules_deny(project: Path) -> None:
    policy = policy_for(Case("", "", deny="Read(.env)\nRead(secrets/**)\nEdit(read.md)"), project)
    found = [".env", "secrets/key", "sub/secrets/key", "read.md", "src/app.py"]
    assert [is_readable(project / name, policy) for name in found] == [
        *(False, False, False),
        *(True, True),
    ]


def test_every_link_on_the_way_is_looked_at(project: Path) -> None:
    (project / "first").symlink_to("second")
    (project / "second").symlink_to("in.txt")
    for name in ("first", "second", "in.txt", "src/app.py"):
        policy = policy_for(Case("", "", deny=f"Read(/{name})"), project)
        assert decide("Read", [Reads(project / "first")], policy).kind is VerdictKind.DENY


def test_a_link_in_a_linked_folder_is_known_by_its_own_place(project: Path) -> None:
    (project / "linked").symlink_to("src")
    (project / "src" / "link").symlink_to(project / "read.md")
    for name in ("linked/link", "src/link", "read.md"):
        policy = policy_for(Case("", "", deny=f"Read(/{name})"), project)
        assert decide("Read", [Reads(project / "linked" / "link")], policy).kind is VerdictKind.DENY


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
    policy = policy_for(Case("", "", deny=rule, mode="acceptEdits"), project)
    access = Writes(file) if rule.startswith("Edit") else Reads(file)
    assert decide("Write", [access], policy).kind is VerdictKind.DENY
    assert is_readable(file, policy) == rule.startswith("Edit")
    assert is_readable(project / "src" / "app.py", policy)


def test_links_that_go_in_a_circle_ask(project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    policy = policy_for(Case("", ""), project)
    assert decide("Read", [Reads(project / "a")], policy).kind is VerdictKind.ASK


def test_a_project_that_is_opened_through_a_link_is_the_same_project(project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project)
    rules = (parse_rule("Edit(/src/**)", link, "test"),)
    policy = Policy((), (), rules, ApprovalMode.DEFAULT, link, (link,))
    for root in (link, project):
        assert decide("Read", [Reads(root / "read.md")], policy).kind is VerdictKind.ALLOW
        assert decide("Write", [Writes(root / "src" / "x")], policy).kind is VerdictKind.ALLOW
    assert decide("Read", [Reads(link / "out.txt")], policy).kind is VerdictKind.ASK


def test_a_call_that_touches_several_files_is_as_strict_as_the_strictest(project: Path) -> None:
    policy = policy_for(Case("", "", deny="Read(.env)", mode="acceptEdits"), project)
    inside, outside = Writes(project / "x"), Writes(project.parent / "x")
    assert decide("MultiEdit", [inside], policy).kind is VerdictKind.ALLOW
    assert decide("MultiEdit", [inside, outside], policy).kind is VerdictKind.ASK
    assert (
        decide("MultiEdit", [inside, outside, Reads(project / ".env")], policy).kind
        is VerdictKind.DENY
    )


def test_what_rules_ask_for_is_firm_and_what_only_lacks_a_rule_is_not(project: Path) -> None:
    asked = policy_for(Case("", "", ask="Edit(src/**)"), project)
    assert decide("Edit", [Writes(project / "src" / "x")], asked).is_firm
    assert not decide("Edit", [Writes(project / "x")], asked).is_firm


@pytest.mark.parametrize(
    "command", ["ls -R .", "ls -l --recursive .", "tree .", "find . -type f", "du ."]
)
def test_names_below_a_denied_directory_are_not_listed(project: Path, command: str) -> None:
    (project / "keys" / "prod").mkdir(parents=True)

    def verdict(denied: str, command: str = command) -> VerdictKind:
        rule = parse_rule(denied, project, "test")
        policy = Policy((rule,), (), (), ApprovalMode.DEFAULT, project, (project,))
        return decide("Bash", [Runs(command)], policy).kind

    assert verdict("Read(./keys/**)") is VerdictKind.ASK
    assert verdict("Read(./keys/**)", command.replace(".", "src")) is VerdictKind.ALLOW
    assert verdict("Read(./.env)") is VerdictKind.ALLOW
