"""Merged settings of the user, the project and the system."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from turnlog.agent.config.settings import Settings, load
from turnlog.agent.config.settings_in_force import settings_in_force
from turnlog.agent.permissions import ApprovalMode, Rule, VerdictKind, decide, sound_rules
from turnlog.agent.workspace.access import Reads, Runs, Writes
from turnlog.agent.workspace.sandbox.patterns import PathPattern, restricts
from turnlog.errors import UsageError
from turnlog.store.paths import Store


class Places:
    """The directories that settings come from in a test."""

    def __init__(self, place: Path, store: Store) -> None:
        self.store = store
        self.root = place / "project"
        self.managed = place / "etc" / "managed-settings.json"
        # A repository of its own: a verdict on git looks for nested ones in all of its repository,
        # which would be that of turnlog with the files of all running tests.
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)

    def write(self, name: str, **content: Any) -> None:
        path = {
            "user": self.store.settings,
            "project": self.root / ".claude" / "settings.json",
            "local": self.root / ".claude" / "settings.local.json",
            "managed": self.managed,
        }.get(name, self.managed.with_suffix(".d") / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def load(self) -> Settings:
        return load(self.store, self.root, self.managed)


@pytest.fixture
def places(tmp_path: Path, store: Store) -> Places:
    return Places(tmp_path, store)


def decided(
    settings: Settings, command: str, mode: ApprovalMode = ApprovalMode.DEFAULT
) -> VerdictKind:
    return decide("Bash", [Runs(command)], settings.policy(mode, settings.root)).kind


def given(*rules: str) -> list[Rule]:
    return list(sound_rules(rules, Path("/"), "given"))


def test_without_files_there_are_no_settings(places: Places) -> None:
    settings = places.load()
    assert (settings.model, settings.env, settings.hooks) == (None, {}, {})
    assert settings.mode() is ApprovalMode.DEFAULT
    assert settings.directories == (places.root,)
    assert not settings.sandbox.is_on


def test_of_single_values_the_highest_counts(places: Places) -> None:
    for name in ("user", "project", "local", "managed"):
        places.write(name, model=name, env={"ANTHROPIC_MODEL": name, name: "x"})
        assert places.load().model == name
        assert places.load().env["ANTHROPIC_MODEL"] == name
    assert places.load().env.keys() == {"ANTHROPIC_MODEL", "user", "managed"}
    assert places.load().command_env.keys() == {"project", "local"}


def test_lists_are_joined_and_a_denial_anywhere_counts(places: Places) -> None:
    places.write("user", permissions={"deny": ["Bash(git push:*)"]})
    places.write("project", permissions={"allow": ["Bash(git:*)"], "ask": ["Bash(git fetch:*)"]})
    places.write("local", permissions={"allow": ["Bash(npm test)"]})
    places.write("managed", permissions={"deny": ["Bash(npm publish:*)"]})
    settings = places.load()
    assert decided(settings, "git commit") is VerdictKind.ALLOW
    assert decided(settings, "git fetch") is VerdictKind.ASK
    assert decided(settings, "git push") is VerdictKind.DENY
    assert decided(settings, "npm test") is VerdictKind.ALLOW
    policy = settings.policy(
        ApprovalMode.BYPASS, places.root, extra_allow=given("Bash(npm publish)")
    )
    assert decide("Bash", [Runs("npm publish")], policy).kind is VerdictKind.DENY


def test_managed_files_are_read_in_their_order(places: Places) -> None:
    places.write("managed", model="first", permissions={"deny": ["Bash(a)"]})
    places.write("20-b.json", model="third", permissions={"deny": ["Bash(c)"]})
    places.write("10-a.json", model="second", permissions={"deny": ["Bash(b)"]})
    places.write(".hidden.json", model="hidden")
    places.write("notes.txt", model="notes")
    settings = places.load()
    assert settings.model == "third"
    assert [rule.text for rule in settings.policy(ApprovalMode.DEFAULT, places.root).deny] == [
        "Bash(a)",
        "Bash(b)",
        "Bash(c)",
    ]


def test_managed_rules_can_be_the_only_ones(places: Places) -> None:
    places.write("project", permissions={"allow": ["Bash"], "additionalDirectories": ["../x"]})
    places.write(
        "managed", permissions={"allow": ["Bash(a)"]}, allowManagedPermissionRulesOnly=True
    )
    settings = places.load()
    assert decided(settings, "b") is VerdictKind.ASK
    assert settings.directories == (places.root,)
    policy = settings.policy(
        ApprovalMode.DEFAULT, places.root, (), given("Bash(b)"), given("Bash(a)")
    )
    assert decide("Bash", [Runs("b")], policy).kind is VerdictKind.ASK
    assert decide("Bash", [Runs("a")], policy).kind is VerdictKind.DENY


def test_hooks_of_all_files_run_and_tell_their_source(places: Places) -> None:
    places.write("user", hooks={"Stop": [{"hooks": [{"command": "a"}]}]})
    places.write("project", hooks={"Stop": [{"hooks": [{"command": "b"}]}], "X": []})
    hooks = places.load().hooks
    assert [group["hooks"][0]["command"] for group in hooks["Stop"]] == ["a", "b"]
    assert [Path(group["source"]).parent.name for group in hooks["Stop"]] == ["home", ".claude"]


@pytest.mark.parametrize(
    ("project", "managed", "left"),
    [
        ({"disableAllHooks": True}, {}, ["managed"]),
        ({}, {"allowManagedHooksOnly": True}, ["managed"]),
        ({}, {"disableAllHooks": True}, []),
        ({"disableAllHooks": False}, {}, ["user", "managed"]),
    ],
)
def test_hooks_can_be_turned_off(
    project: dict[str, bool], managed: dict[str, bool], left: list[str], places: Places
) -> None:
    places.write("user", hooks={"Stop": [{"name": "user"}]})
    places.write("project", **project)
    places.write("managed", hooks={"Stop": [{"name": "managed"}]}, **managed)
    assert [group["name"] for group in places.load().hooks.get("Stop", [])] == left


@pytest.mark.parametrize(
    ("named", "mode"),
    [
        ("acceptEdits", ApprovalMode.ACCEPT_EDITS),
        ("manual", ApprovalMode.DEFAULT),
        ("auto", ApprovalMode.DEFAULT),
    ],
)
def test_a_session_starts_in_the_mode_of_the_settings(
    named: str, mode: ApprovalMode, places: Places
) -> None:
    places.write("project", permissions={"defaultMode": named})
    assert places.load().mode() is mode
    assert places.load().mode(ApprovalMode.PLAN) is ApprovalMode.PLAN


def test_the_mode_without_questions_can_be_forbidden(places: Places) -> None:
    places.write("local", permissions={"defaultMode": "bypassPermissions"})
    assert places.load().mode() is ApprovalMode.BYPASS
    places.write("user", permissions={"disableBypassPermissionsMode": "disable"})
    assert places.load().mode() is ApprovalMode.DEFAULT
    with pytest.raises(UsageError, match="disable the mode"):
        places.load().mode(ApprovalMode.BYPASS)


def test_a_leading_slash_is_where_the_settings_are_for(places: Places) -> None:
    places.write("user", permissions={"deny": ["Read(/private/**)"]})
    places.write("project", permissions={"allow": ["Edit(/src/**)"]})
    policy = places.load().policy(ApprovalMode.DEFAULT, places.root / "sub")
    assert decide("Write", [Writes(places.root / "src" / "x")], policy).kind is VerdictKind.ALLOW
    assert (
        decide("Write", [Writes(places.root / "sub" / "src" / "x")], policy).kind is VerdictKind.ASK
    )
    assert decide("Read", [Reads(places.root / "private" / "x")], policy).kind is VerdictKind.ALLOW
    hidden = places.store.root / "private" / "x"
    assert decide("Read", [Reads(hidden)], policy).kind is VerdictKind.DENY


def test_where_commands_run_does_not_move_rules_nor_widen_what_may_be_read(places: Places) -> None:
    places.write("project", permissions={"deny": ["Read(.env)"]})
    settings = places.load()
    moved = settings.policy(ApprovalMode.DEFAULT, places.root.parent)
    assert decide("Read", [Reads(places.root / ".env")], moved).kind is VerdictKind.DENY
    assert decide("Read", [Reads(places.root.parent / "x")], moved).kind is VerdictKind.ASK


def test_further_directories_come_from_settings_and_the_command_line(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(places.root.parent))
    places.write("local", permissions={"additionalDirectories": ["../docs/", "~/notes"]})
    policy = places.load().policy(ApprovalMode.DEFAULT, places.root, [places.root.parent / "more"])
    for name in ("docs", "notes", "more"):
        read = [Reads(places.root.parent / name / "x")]
        assert decide("Read", read, policy).kind is VerdictKind.ALLOW


def test_what_the_files_say_of_the_sandbox_is_taken_together(places: Places) -> None:
    places.write("user", sandbox={"enabled": True, "filesystem": {"allowWrite": ["/a"]}})
    places.write("project", sandbox={"filesystem": {"allowWrite": ["b"]}, "network": {}})
    sandbox = places.load().sandbox
    assert sandbox.is_on
    assert sandbox.writable == (PathPattern(Path("/"), "/a"), PathPattern(places.root, "/b"))


def test_paths_of_the_sandbox_are_relative_to_whose_file_it_is(places: Places) -> None:
    places.write("user", sandbox={"filesystem": {"denyRead": ["keys", "~/.aws/**", "//etc/ssh/"]}})
    places.write("project", sandbox={"credentials": {"files": [{"path": ".", "mode": "deny"}]}})
    hidden = places.load().sandbox.hidden
    for path in (places.store.root / "keys", Path.home() / ".aws" / "x", "/etc/ssh", "project/x"):
        assert restricts(hidden, [places.root.parent / path]), path
    assert not restricts(hidden, [places.root.parent / "other", Path("/etc/passwd")])


@pytest.mark.parametrize(
    ("network", "is_online", "is_noted"),
    [
        ({}, False, False),
        ({"allowedDomains": ["*"]}, True, False),
        ({"allowedDomains": ["example.com"]}, False, True),
        ({"allowedDomains": ["*", "example.com"]}, True, False),
        ({"allowedDomains": ["*"], "deniedDomains": ["example.com"]}, False, True),
        ({"allowedDomains": ["*"], "httpProxyPort": 8080}, False, True),
    ],
)
def test_the_network_is_open_only_where_nothing_is_kept_from_it(
    places: Places, network: dict[str, Any], is_online: bool, is_noted: bool
) -> None:
    places.write("user", sandbox={"enabled": True, "network": network})
    sandbox = places.load().sandbox
    assert (sandbox.is_online, bool(sandbox.notes)) == (is_online, is_noted)


def test_managed_settings_can_keep_others_from_widening_the_sandbox(places: Places) -> None:
    own = {"network": {"allowedDomains": ["*"]}, "filesystem": {"allowRead": ["/data"]}}
    places.write("user", sandbox={"bwrapPath": "/mine/bwrap", **own})
    assert places.load().sandbox.is_online
    assert places.load().sandbox.program == "bwrap"
    places.write(
        "managed",
        sandbox={
            "bwrapPath": "/opt/bwrap",
            "network": {"allowManagedDomainsOnly": True},
            "filesystem": {"allowManagedReadPathsOnly": True, "allowRead": ["/work"]},
        },
    )
    sandbox = places.load().sandbox
    assert (sandbox.is_online, sandbox.program) == (False, "/opt/bwrap")
    assert sandbox.shown == (PathPattern(Path("/"), "/work"),)


def test_unknown_keys_are_left_alone(places: Places) -> None:
    places.write("user", theme="dark", permissions={"allow": [], "new": 1}, model="x")
    assert places.load().model == "x"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"model": "x",}', "malformed"),
        ('{"model": 1}', r"\$\.model"),
        ('{"permissions": {"allow": ["Bash", 1]}}', r"\$\.permissions\.allow\[1\]"),
        ("\xff", "codec"),
    ],
)
def test_a_broken_file_is_named_with_the_place(content: str, told: str, places: Places) -> None:
    places.write("project")
    path = places.root / ".claude" / "settings.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=f"{path}.*{told}"):
        places.load()


def test_a_rule_that_makes_no_sense_is_skipped_and_told(places: Places) -> None:
    rules = {"allow": ["Bash()", "Edit"], "ask": ["read"], "deny": ["Bash(rm", "Bash(mv *)"]}
    places.write("project", permissions=rules)
    settings = places.load()
    policy = settings.policy(ApprovalMode.DEFAULT, places.root, (), given("Bash("))
    kept = [[rule.text for rule in each] for each in (policy.allow, policy.ask, policy.deny)]
    assert kept == [["Edit"], [], ["Bash(mv *)"]]
    path = places.root / ".claude" / "settings.json"
    assert settings.problems == [
        f"{path}: 'Bash()' is not a permission rule; it is skipped",
        f"{path}: 'read' is not a permission rule; it is skipped,"
        " so it does NOT ask about any call",
        f"{path}: 'Bash(rm' is not a permission rule; it is skipped, so it does NOT deny any call",
    ]


def git(*arguments: str, cwd: Path) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


def test_rules_are_saved_at_the_root_of_the_repository(tmp_path: Path, store: Store) -> None:
    main, inner = tmp_path / "main", tmp_path / "main" / "a" / "b"
    inner.mkdir(parents=True)
    git("init", "-q", cwd=main)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=main)
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=main)
    expected = main / ".claude" / "settings.local.json"
    for root in (main, inner, tmp_path / "tree"):
        assert load(store, root, tmp_path / "none.json").local_file == expected
    outside = tmp_path / "outside"
    assert load(store, outside, tmp_path / "none.json").local_file.parent.parent == outside


def test_local_settings_of_the_repository_and_of_the_directory_both_count(
    tmp_path: Path, store: Store
) -> None:
    inner = tmp_path / "repository" / "inner"
    for folder, rule in ((inner.parent, "Bash(a)"), (inner, "Bash(b)")):
        (folder / ".claude").mkdir(parents=True)
        content = {"permissions": {"allow": [rule]}}
        (folder / ".claude" / "settings.local.json").write_text(json.dumps(content))
    git("init", "-q", cwd=inner.parent)
    settings = load(store, inner, tmp_path / "none.json")
    assert [decided(settings, command) for command in ("a", "b", "c")] == [
        VerdictKind.ALLOW,
        VerdictKind.ALLOW,
        VerdictKind.ASK,
    ]


@pytest.mark.parametrize("rule", ["Read(/app/.env)", "Read(app/.env)", "Read(./app/**)"])
@pytest.mark.parametrize("tree", ["main", "tree"])
def test_rules_of_the_repository_hold_for_a_session_in_a_directory_of_it(
    tmp_path: Path, store: Store, rule: str, tree: str
) -> None:
    main = tmp_path / "main"
    main.mkdir()
    git("init", "-q", cwd=main)
    git("commit", "-q", "--allow-empty", "-m", "one", cwd=main)
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=main)
    (main / ".claude").mkdir()
    content = {"permissions": {"deny": [rule]}}
    (main / ".claude" / "settings.local.json").write_text(json.dumps(content))
    root = tmp_path / tree / "app"
    root.mkdir()
    policy = load(store, root, tmp_path / "none.json").policy(ApprovalMode.DEFAULT, root)
    assert decide("Read", [Reads(root / ".env")], policy).kind is VerdictKind.DENY


def test_settings_are_shown_in_short_and_without_secrets(places: Places) -> None:
    key = "hunter2-hunter2"
    hooks: dict[str, list[dict[str, list[str]]]] = {"Stop": [{"hooks": []}, {"hooks": []}]}
    places.write("user", env={"API_KEY": key, "LANG": "C"}, hooks=hooks, model="opus")
    shown = {name: each.shown for name, each in settings_in_force(places.load()).items()}
    assert (shown["model"], shown["hooks"]) == ("opus", "Stop (2)")
    assert shown["env"].endswith(", LANG=C")
    assert key not in shown["env"]
