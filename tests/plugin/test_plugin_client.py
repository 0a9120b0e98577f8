"""The client is called for the store that its plugins belong to."""

from pathlib import Path

import pytest

from support.plugin_host import write_client
from turnlog.plugin.plugin_client import PluginClient
from turnlog.store.paths import Store
from turnlog.store.plugin_settings import PLUGIN

CLIENT = f"""#!/bin/sh
if [ "$1" = --version ]; then echo "2.1.325 (Claude Code)"; exit; fi
printf '[{{"id": "{PLUGIN}", "store": "%s"}}]' "${{CLAUDE_CONFIG_DIR-usual}}"
"""


def test_a_client_works_on_the_store_that_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    program = tmp_path / "claude"
    program.write_text(CLIENT)
    program.chmod(0o755)
    seen: list[str] = []
    for name in (".claude", "other"):
        (tmp_path / name).mkdir()
        entry = PluginClient(Store(tmp_path / name), str(program)).plugin()
        assert entry
        seen.append(entry["store"])
    assert seen == ["usual", str(tmp_path / "other")]


@pytest.mark.parametrize(
    ("version", "expected"), [("2.1.228", False), ("2.1.229", True), ("3.0.0", True)]
)
def test_marketplaces_name_a_command_since_2_1_229(
    store: Store, tmp_path: Path, version: str, expected: bool
) -> None:
    client = PluginClient(store, str(write_client(tmp_path / "bin", version)))
    assert client.has_command_source is expected
