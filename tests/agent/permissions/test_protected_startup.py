"""Startup files of shells, sessions and terminals: changing one always asks."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs, Writes

NAMES = """
    .cshrc .tcshrc .login .logout .kshrc .mkshrc .xprofile .xsessionrc .xinitrc .tmux.conf .screenrc
    .curlrc .wgetrc .pam_environment .config/fish/config.fish .config/autostart/x.desktop
    .config/environment.d/x.conf .config/systemd/user/x.service .Config/Fish/conf.d/x.fish
    .config/nvim/init.lua .vim/plugin/x.vim .config/git/config dotfiles/.cshrc
    .hg/hgrc vendor/.hg/hgrc .hgrc .jj/repo/config.toml .direnvrc
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
