"""Startup files of shells, sessions, editors and agents: changing one always asks."""

from pathlib import Path

import pytest

from turnlog.agent.config.settings import Settings
from turnlog.agent.permissions import (
    ApprovalMode,
    Policy,
    VerdictKind,
    decide,
    parse_rule,
    path_access,
)
from turnlog.agent.permissions.consent import Consent
from turnlog.agent.workspace.access import Runs, Writes
from turnlog.agent.workspace.workspace import Workspace

NAMES = """
    .cshrc .tcshrc .login .logout .kshrc .mkshrc .xprofile .xsessionrc .xinitrc .tmux.conf .screenrc
    .curlrc .wgetrc .pam_environment .config/fish/config.fish .config/autostart/x.desktop
    .config/environment.d/x.conf .config/systemd/user/x.service .Config/Fish/conf.d/x.fish
    .config/nvim/init.lua .vim/plugin/x.vim .config/git/config dotfiles/.cshrc
    .hg/hgrc vendor/.hg/hgrc .hgrc .jj/repo/config.toml .direnvrc .helix/languages.toml
    .codex/config.toml .gemini/settings.json .kiro/settings/mcp.json .opencode/plugin/x.ts
    opencode.json .aider.conf.yml
    mise.local.toml .mise/config.toml app/lefthook-local.yml .bash_completion .ghci .pryrc
    .config/emacs/init.el .doom.d/config.el .config/helix/config.toml .config/zed/tasks.json
    .config/jj/config.toml .config/bspwm/bspwmrc .config/awesome/rc.lua .config/qtile/config.py
    .config/openbox/rc.xml .config/kitty/kitty.conf .config/alacritty/a.toml .config/ghostty/config
    .config/wezterm/wezterm.lua .config/starship.toml .config/gh/config.yml .selected_editor
    .xbindkeysrc .oh-my-zsh/custom/x.zsh .aws/config .kube/config .docker/config.json .jq
    .gradle/init.gradle .gradle/init.d/x.gradle Library/LaunchAgents/x.plist
    .local/share/systemd/user/x.service .mcp.json/x .npmrc/x/y.txt dotfiles/.kube/config
    .ocamlinit .latexmkrc .nvimrc .ipython/profile_default/startup/x.py .bundle/config .forward
    """.split()


def kind_of(command: str, root: Path, *allow: str, mode: str = "default") -> VerdictKind:
    rules = tuple(parse_rule(text, root, "test") for text in allow)
    policy = Policy((), (), rules, ApprovalMode(mode), root, (root,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("name", NAMES)
def test_a_startup_file_is_written_only_after_a_question(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    assert kind_of(f"echo x > {name}", tmp_path, mode="acceptEdits") is VerdictKind.ASK
    assert kind_of(f"cp a.txt {name}", tmp_path, "Bash", "Edit") is VerdictKind.ASK
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, tmp_path, (tmp_path,))
    assert decide("Write", [Writes(tmp_path / name)], policy).kind is VerdictKind.ASK


@pytest.mark.parametrize("name", ["fish", "autostart", "git"])
def test_a_directory_with_startup_files_is_removed_only_after_a_question(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".config" / name).mkdir(parents=True)
    for command in ("rm -r home", "rm -r home/.config", "mv home other"):
        assert kind_of(command, tmp_path, mode="acceptEdits") is VerdictKind.ASK


@pytest.mark.parametrize(
    "command", ["curl -o .cshrc file:///x", "any-program --to=.config/fish/config.fish"]
)
def test_a_program_that_names_a_startup_file_asks(command: str, tmp_path: Path) -> None:
    assert kind_of(command, tmp_path, "Bash") is VerdictKind.ASK


def test_other_settings_and_fields_of_json_are_no_startup_files(tmp_path: Path) -> None:
    assert kind_of("gh api user --jq .login", tmp_path, "Bash(gh:*)") is VerdictKind.ALLOW
    assert kind_of("echo x > .config/app.toml", tmp_path, mode="acceptEdits") is VerdictKind.ALLOW
    assert kind_of("mkdir fish", tmp_path, mode="acceptEdits") is VerdictKind.ALLOW
    assert kind_of("touch src/git", tmp_path, mode="acceptEdits") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "cp bin/tool bin/git",
        "cp bin/tool bin/git-remote-foo",
        "cp -r more/bin .",
        "mv tool bin/git",
        "mv tools bin",
        "cp -r new .venv",
        "echo x > bin/git",
        "tee bin/../bin/git",
        "touch linked/git",
    ],
)
def test_a_program_in_the_path_is_not_replaced_without_a_question(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    for name in ("bin/tool", "tool", "tools/git", "new/bin/git", "more/bin/git-merge-foo"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "linked").symlink_to(folder)
    places = (str(folder), f"{tmp_path}/.venv/bin", "/usr/bin", "/bin")
    monkeypatch.setattr(path_access, "search_path", lambda: ":".join(places))
    assert kind_of(command, tmp_path, mode="acceptEdits") is VerdictKind.ASK
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, tmp_path, (tmp_path,))
    assert decide("Write", [Writes(folder / "git")], policy).kind is VerdictKind.ASK


def test_the_path_that_hooks_leave_counts_as_well(tmp_path: Path) -> None:
    rules = Consent(Settings(tmp_path, ()), ApprovalMode.ACCEPT_EDITS)
    workspace = Workspace(tmp_path, tmp_path / "session", tmp_path)
    (tmp_path / "x").write_text("")
    for path, expected in (("", VerdictKind.ALLOW), (f"{tmp_path}/bin:/bin", VerdictKind.ASK)):
        workspace.environment = {"PATH": path}
        written = rules.decide("Write", [Writes(tmp_path / "bin" / "ls")], workspace)
        copied = rules.decide("Bash", [Runs("cp x bin/ls")], workspace)
        assert written.kind is copied.kind is expected


def test_other_files_beside_programs_are_ordinary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "deploy").write_text("")
    monkeypatch.setattr(path_access, "search_path", lambda: f"{tmp_path}/bin:/usr/bin:/bin")
    for command in ("cp bin/deploy bin/deploy-2", "touch src/git git src/git-x", "rm -r bin"):
        (tmp_path / "src").mkdir(exist_ok=True)
        assert kind_of(command, tmp_path, mode="acceptEdits") is VerdictKind.ALLOW


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("CLAUDE_CONFIG_DIR", "own/settings.json"),
        ("CLAUDE_CONFIG_DIR", "own/skills/x/SKILL.md"),
        ("TURNLOG_HOME", "own/trusted.json"),
        ("TURNLOG_HOME", "own/config.toml"),
        ("XDG_DATA_HOME", "own/turnlog/servers.json"),
        ("XDG_CONFIG_HOME", "own/turnlog/config.toml"),
    ],
)
def test_the_users_own_configuration_is_protected_under_any_name(
    variable: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "x").write_text("")
    monkeypatch.delenv("TURNLOG_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    for command in (f"cp x {name}", f"echo x > {name}", "mv new own"):
        assert kind_of(command, tmp_path, mode="acceptEdits") is VerdictKind.ASK
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, tmp_path, (tmp_path,))
    assert decide("Write", [Writes(tmp_path / name)], policy).kind is VerdictKind.ASK
    assert decide("Write", [Writes(tmp_path / "y" / name)], policy).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    ("link", "target", "name"),
    [
        (".bashrc", "bash/rc", "bash/rc"),
        (".gitconfig", "gitconfig", "gitconfig"),
        (".Rprofile", "R/profile", "R/profile"),
        (".ssh/config", "ssh-config", "ssh-config"),
        (".config/fish", "fish", "fish/config.fish"),
        (".config", "config", "config/git/config"),
        (".vim", "vim", "vim/plugin/x.vim"),
    ],
)
def test_a_startup_file_is_protected_where_links_of_the_home_lead(
    link: str, target: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "dotfiles"
    for path in (project / name, project / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (home / link).parent.mkdir(parents=True)
    (home / link).symlink_to(project / target)
    (home / ".hgrc").symlink_to(".hgrc")  # leads nowhere
    monkeypatch.setenv("HOME", str(home))
    for command in (f"cp x {name}", f"echo x >> {name}", f"sed -i s/a/b/ {name}"):
        assert kind_of(command, project, mode="acceptEdits") is VerdictKind.ASK
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, project, (project,))
    assert decide("Write", [Writes(project / name)], policy).kind is VerdictKind.ASK
    for other in ("README.md", "config/htop/htoprc", "x"):
        assert decide("Write", [Writes(project / other)], policy).kind is VerdictKind.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "cp tool .venv/bin/rg",
        "echo x > .venv/lib/PIL.py",
        "echo x > .venv/lib/PIL/__init__.py",
        "sed -i s/a/b/ .venv/lib/pypdfium2.py",
        "cp -r new/bin .venv",
        "cp -r new .venv",
        "mv new .venv",
        "touch linked/bin/rg",
    ],
)
def test_the_code_that_turnlog_runs_is_protected_in_a_project(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tool", "new/bin/rg", ".venv/bin/rg", ".venv/lib/pypdfium2.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "linked").symlink_to(".venv")
    installed(tmp_path / ".venv", monkeypatch)
    assert kind_of(command, tmp_path, mode="acceptEdits") is VerdictKind.ASK
    policy = Policy((), (), (), ApprovalMode.ACCEPT_EDITS, tmp_path, (tmp_path,))
    assert decide("Write", [Writes(tmp_path / ".venv/bin/rg")], policy).kind is VerdictKind.ASK


def test_other_environments_and_a_project_inside_of_one_are_ordinary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/.venv/bin", "b/.venv/bin", "own/lib/src/project"):
        (tmp_path / name).mkdir(parents=True)
    installed(tmp_path / "a/.venv", monkeypatch)
    assert kind_of("touch .venv/bin/x", tmp_path / "b", mode="acceptEdits") is VerdictKind.ALLOW
    assert kind_of("touch .venv/x", tmp_path / "a", mode="acceptEdits") is VerdictKind.ALLOW
    installed(tmp_path / "own", monkeypatch)
    inner = tmp_path / "own/lib/src/project"
    assert kind_of("touch x", inner, mode="acceptEdits") is VerdictKind.ALLOW


def installed(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let turnlog be installed in a directory."""

    def get_path(kind: str, scheme: str) -> str:
        return str(prefix / ("bin" if kind == "scripts" else "lib"))

    monkeypatch.setattr("sysconfig.get_path", get_path)


@pytest.mark.parametrize(
    "command", ["mkdir -p .mcp.json/x", "mkdir .gitmodules/x", "mv src .bashrc/x", "rm -r home"]
)
def test_a_directory_counts_as_a_protected_file(command: str, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "home/.local/share/systemd").mkdir(parents=True)
    assert kind_of(command, tmp_path, mode="acceptEdits") is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        "touch .kube/cache .aws/cli .docker/x share/systemd .local/share/x .gradle/x.lock",
        *("touch config.json", "mkdir -p init.d/x", "gh api x --jq .jq > a.txt", "mkdir .config/x"),
    ],
)
def test_other_names_are_written_without_a_question(command: str, tmp_path: Path) -> None:
    assert kind_of(command, tmp_path, "Bash", mode="acceptEdits") is VerdictKind.ALLOW
