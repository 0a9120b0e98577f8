"""turnlog plugin: install and remove, with a client that reformats its settings."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.plugin_host import OUTDATED, PluginHost, write_client
from turnlog.plugin.plugin_client import PluginClient, write_marketplace
from turnlog.store.paths import Store

NEW, OLD = "2.1.325", "2.1.150"
OTHERS = """\
{
\t"model":   "sonnet", "env": {"A":"ü"},
\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify done"}]}]}
}
"""
TEXTS = {
    "none": None,
    "empty": "{}",
    "one line": '{"model":"sonnet",   "env": {}}',
    "tabs": OTHERS,
    "CRLF": OTHERS.replace("\n", "\r\n"),
    "no newline at the end": OTHERS.strip(),
    "other plugins": '{"enabledPlugins": {"a@b": false,  "c@d": true}}\n',
    "no plugins": '{"enabledPlugins": {},\n "extraKnownMarketplaces": {} }\n',
    "other marketplaces": '{"extraKnownMarketplaces": {"b": {"source": {"source": "x"}}}}\n',
    "a status line": '{"statusLine": {"type": "command", "command": "my-line"}}',
}


@pytest.fixture
def settings(project: Path) -> Path:
    return project.parent.parent / "settings.json"


@pytest.fixture(params=[NEW, OLD])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def host(
    tmp_path: Path, version: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> PluginHost:
    """The client of a version, first in PATH."""
    client = write_client(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", f"{client.parent}{os.pathsep}{os.environ['PATH']}")
    return PluginHost(project.parent.parent, version)


def change(settings: Path, **fields: Any) -> None:
    """Change settings as another program would, in its own format."""
    text = json.dumps(json.loads(settings.read_text("utf-8")) | fields, indent=3)
    settings.write_text(text, "utf-8")


@pytest.mark.parametrize("name", TEXTS)
def test_settings_are_restored_byte_for_byte(turnlog: Run, settings: Path, name: str) -> None:
    text = TEXTS[name]
    if text is not None:
        settings.write_bytes(text.encode())
        settings.chmod(0o640)
    assert turnlog("plugin", "install").code == 0
    assert json.loads(settings.read_bytes())["enabledPlugins"]["turnlog@turnlog"] is True
    done = turnlog("plugin", "uninstall")
    assert (done.code, done.err) == (0, "")
    assert (settings.read_bytes() if settings.exists() else None) == (text and text.encode())
    if text is not None:
        assert settings.stat().st_mode & 0o777 == 0o640


def test_an_installation_keeps_the_format_of_the_settings(turnlog: Run, settings: Path) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    text = settings.read_text("utf-8")
    assert text.startswith(OTHERS.rstrip("\n}"))
    assert json.loads(text)["statusLine"]["command"].endswith("turnlog statusline")


def test_a_status_line_of_another_program_stays(turnlog: Run, settings: Path) -> None:
    settings.write_text(str(TEXTS["a status line"]), "utf-8")
    turnlog("plugin", "install")
    assert json.loads(settings.read_text("utf-8"))["statusLine"]["command"] == "my-line"
    assert json.loads(turnlog("plugin", "status", "--json").out)["status_line"] == "another program"


def test_what_another_program_changed_is_kept_and_reported(turnlog: Run, settings: Path) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    change(settings, model="opus", theme="dark")
    done = turnlog("plugin", "uninstall")
    assert "meanwhile: model, theme" in done.err
    now = json.loads(settings.read_text("utf-8"))
    assert now == json.loads(OTHERS) | {"model": "opus", "theme": "dark"}


def test_a_change_of_format_alone_is_reverted(turnlog: Run, settings: Path) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    change(settings)
    assert turnlog("plugin", "uninstall").err == ""
    assert settings.read_text("utf-8") == OTHERS


def test_what_the_client_itself_drops_is_reported(turnlog: Run, settings: Path) -> None:
    text = OTHERS.replace("sonnet", OUTDATED)
    settings.write_text(text, "utf-8")
    assert "meanwhile: model" in turnlog("plugin", "install").err
    assert "meanwhile: model" in turnlog("plugin", "uninstall").err
    assert "model" not in json.loads(settings.read_text("utf-8"))


def test_a_link_to_the_settings_stays_one(turnlog: Run, settings: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text(OTHERS, "utf-8")
    settings.symlink_to(target)
    turnlog("plugin", "install")
    turnlog("plugin", "uninstall")
    assert settings.is_symlink()
    assert target.read_text("utf-8") == OTHERS


def test_a_refusal_of_the_client_changes_nothing(
    turnlog: Run,
    settings: Path,
    project: Path,
    host: PluginHost,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.write_text(OTHERS, "utf-8")
    monkeypatch.setenv("CLIENT_REFUSES", "1")
    done = turnlog("plugin", "install")
    assert done.code == 1
    assert "the client failed: ✘ Failed to install plugin" in done.err
    assert settings.read_text("utf-8") == OTHERS
    assert host.known.read_text() == "{}"
    assert not (project.parent.parent / "turnlog" / "plugin").exists()


def test_a_second_installation_updates(turnlog: Run, settings: Path, host: PluginHost) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    change(settings, statusLine={"type": "command", "command": "/old/venv/bin/turnlog statusline"})
    assert turnlog("plugin", "install").code == 0
    assert len(host.list()) == 1
    assert "/old" not in settings.read_text("utf-8")
    turnlog("plugin", "uninstall")
    assert settings.read_text("utf-8") == OTHERS


def test_without_the_copy_only_own_entries_are_removed(turnlog: Run, settings: Path) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    turnlog("forget", "--all", "--yes")
    assert "No copy of the earlier settings" in turnlog("plugin", "uninstall").err
    assert settings.read_text("utf-8") == OTHERS


@pytest.mark.parametrize("content", [None, OTHERS])
def test_a_removal_says_that_nothing_was_installed(
    turnlog: Run, settings: Path, content: str | None
) -> None:
    if content:
        settings.write_text(content, "utf-8")
    done = turnlog("plugin", "uninstall")
    assert (done.code, done.out, done.err) == (0, f"Not installed in {settings}\n", "")
    turnlog("plugin", "install")
    assert turnlog("plugin", "uninstall").out == f"Removed from {settings}\n"
    assert turnlog("plugin", "uninstall").out == f"Not installed in {settings}\n"


def test_settings_that_are_not_json_are_an_error(turnlog: Run, settings: Path) -> None:
    settings.write_text('{"a": 1,}', "utf-8")
    for name in ("install", "uninstall", "status"):
        done = turnlog("plugin", name)
        assert (done.code, len(done.err.splitlines())) == (1, 1)
        assert f"$EDITOR {settings}" in done.err
    assert settings.read_text("utf-8") == '{"a": 1,}'
    assert not (settings.parent / "turnlog" / "plugin").exists()


def test_no_client(
    turnlog: Run, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    (tmp_path / "bin" / "claude").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "no client is installed" in turnlog("plugin", "install").err
    assert json.loads(turnlog("plugin", "status", "--json").out)["client"] is None
    done = turnlog("plugin", "uninstall")
    assert (done.code, "its plugin cache was not changed" in done.err) == (0, True)
    assert settings.read_text("utf-8") == OTHERS


def test_a_client_that_never_ran_has_no_store_yet(
    turnlog: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "new"))
    assert turnlog("plugin", "install").code == 0
    assert json.loads(turnlog("plugin", "status", "--json").out)["is_enabled"] is True
    assert turnlog("plugin", "uninstall").code == 0
    assert not (tmp_path / "new" / "settings.json").exists()


def test_stores_have_their_own_plugin(
    turnlog: Run, tmp_path: Path, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turnlog("plugin", "install")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "second"))
    turnlog("plugin", "install")
    turnlog("plugin", "uninstall")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(settings.parent))
    assert json.loads(turnlog("plugin", "status", "--json").out)["problems"] == []


def test_an_undo_restores_the_settings(turnlog: Run, settings: Path) -> None:
    settings.write_text(OTHERS, "utf-8")
    turnlog("plugin", "install")
    assert "plugin installed" in turnlog("history").out
    turnlog("undo")
    assert settings.read_text("utf-8") == OTHERS


def test_nothing_of_turnlog_is_left_behind(turnlog: Run, host: PluginHost, project: Path) -> None:
    turnlog("plugin", "install")
    marketplace = project.parent.parent / "turnlog" / "plugin"
    assert len(list(marketplace.glob("*/program.sh"))) == 1
    turnlog("plugin", "uninstall")
    assert host.list() == []
    assert host.known.read_text() == "{}"
    assert not marketplace.exists()
    assert not (host.root / "plugins" / "data" / "turnlog-turnlog").exists()


def test_status_tells_what_is_wrong(turnlog: Run, settings: Path, host: PluginHost) -> None:
    assert "not installed (turnlog plugin install)" in turnlog("plugin", "status").out
    turnlog("plugin", "install")
    found = json.loads(turnlog("plugin", "status", "--json").out)
    assert (found["is_enabled"], found["problems"]) == (True, [])
    assert (found["archive"], found["trace"], found["status_line"]) == ("plugin", "off", "turnlog")
    turnlog("archive", "--install")
    assert json.loads(turnlog("plugin", "status", "--json").out)["archive"] == "settings"
    change(settings, enabledPlugins={"turnlog@turnlog": False}, disableAllHooks=True)
    host.installed.write_text(host.installed.read_text().replace("0.1.0", "0.0.1"))
    printed = turnlog("plugin", "status").out
    assert "problem      the client has another version of the plugin" in printed
    assert "problem      the plugin is disabled" in printed
    assert "problem      hooks are disabled" in printed


def test_status_tells_who_traces(turnlog: Run, tmp_path: Path) -> None:
    turnlog("plugin", "install")
    (tmp_path / "turnlog/config.toml").write_text("[plugin]\ntrace = true\n")
    assert json.loads(turnlog("plugin", "status", "--json").out)["trace"] == "plugin"
    turnlog("hook", "install", "--to", "http://127.0.0.1:9")
    assert json.loads(turnlog("plugin", "status", "--json").out)["trace"] == "settings"


def test_the_source_depends_on_the_client(
    version: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin" / "package.json").unlink()  # so that it has to be asked for its version
    client = PluginClient(store)
    assert (client.version, client.has_command_source) == (version, version == NEW)
    write_marketplace(tmp_path / "m", client.has_command_source)
    (entry,) = json.loads((tmp_path / "m/.claude-plugin/marketplace.json").read_text())["plugins"]
    if version == OLD:
        assert entry["source"] == "./turnlog"
        assert (tmp_path / "m/turnlog/.claude-plugin/plugin.json").is_file()
    else:
        assert entry["source"]["command"].endswith("turnlog plugin path")
    # Clients refuse a command that is not ASCII: users have to be able to read it.
    monkeypatch.setattr("turnlog.plugin.plugin_client.program", lambda: ["/home/zoë/bin/turnlog"])
    write_marketplace(tmp_path / "m", client.has_command_source)
    (entry,) = json.loads((tmp_path / "m/.claude-plugin/marketplace.json").read_text())["plugins"]
    assert entry["source"] == "./turnlog"
