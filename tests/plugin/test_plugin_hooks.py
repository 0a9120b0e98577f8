"""The plugin's hooks, run by a real shell: quick and harmless, even if turnlog is broken."""

import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from turnlog.plugin.plugin_client import plugin_folder, write_launcher

PATIENCE = 30.0
HOOKS = json.loads((plugin_folder() / "hooks" / "hooks.json").read_text("utf-8"))["hooks"]
PAYLOAD = json.dumps({"session_id": "s", "text": "a 'b' \"c\" %s \\n $HOME `id` ü\n" * 9000})
"""Larger than a pipe, with everything that a shell could stumble over."""


class InstalledPlugin(NamedTuple):
    """A copy of the plugin, as a client has it, and the program that it finds."""

    root: Path
    data: Path
    program: Path
    out: Path

    @property
    def environment(self) -> dict[str, str]:
        places = {"CLAUDE_PLUGIN_ROOT": str(self.root), "CLAUDE_PLUGIN_DATA": str(self.data)}
        return {"PATH": "/usr/bin:/bin", "OUT": str(self.out), **places}

    def write_program(self, script: str) -> None:
        self.program.parent.mkdir(parents=True, exist_ok=True)
        self.program.write_text(script)
        self.program.chmod(0o755)

    def hook(self, event: str, payload: str = PAYLOAD) -> "subprocess.CompletedProcess[str]":
        command = HOOKS[event][0]["hooks"][0]["command"]
        return subprocess.run(
            ["sh", "-c", command],
            input=payload,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstalledPlugin:
    # Homes may have any name.
    home = tmp_path / 'it\'s a $HOME `id` "x" & y'
    made = InstalledPlugin(
        home / "plugins/cache/turnlog/turnlog/0.1.0",
        home / "plugins/data/turnlog-turnlog",
        home / "venv/bin/turnlog",
        tmp_path / "out",
    )
    shutil.copytree(plugin_folder(), made.root)
    monkeypatch.setattr("turnlog.plugin.plugin_client.program", lambda: [str(made.program)])
    write_launcher(made.data)
    return made


def wait_for(path: Path) -> str:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, "the program was not started"
        time.sleep(0.01)
    return path.read_text("utf-8")


def assert_silent(done: "subprocess.CompletedProcess[str]") -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("event", HOOKS)
def test_the_program_gets_event_and_payload(plugin: InstalledPlugin, event: str) -> None:
    plugin.write_program('#!/bin/sh\necho "$*" >"$OUT.1"; cat >>"$OUT.1"; mv "$OUT.1" "$OUT"\n')
    assert_silent(plugin.hook(event))
    assert wait_for(plugin.out) == f"plugin run {event}\n{PAYLOAD}"


def damage_nothing(plugin: InstalledPlugin) -> None:
    """Leave everything but the program, which was never written."""


def remove_root(plugin: InstalledPlugin) -> None:
    shutil.rmtree(plugin.root)


def remove_scripts(plugin: InstalledPlugin) -> None:
    shutil.rmtree(plugin.root / "bin")


def remove_interpreter(plugin: InstalledPlugin) -> None:
    plugin.write_program("#!/nowhere/python\n")


def block(plugin: InstalledPlugin) -> None:
    plugin.write_program('#!/bin/sh\necho blocked >&2; echo "{}"; exit 2\n')


def break_launcher(plugin: InstalledPlugin) -> None:
    (plugin.data / "program.sh").write_text("if (")


DAMAGES = (damage_nothing, remove_root, remove_scripts, remove_interpreter, block, break_launcher)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_hook_succeeds_whatever_is_broken(
    plugin: InstalledPlugin, damage: Callable[[InstalledPlugin], None]
) -> None:
    damage(plugin)
    for event in HOOKS:
        assert_silent(plugin.hook(event))


def test_the_client_does_not_wait_for_the_program(plugin: InstalledPlugin) -> None:
    plugin.write_program('#!/bin/sh\necho $$ >"$OUT.1"; mv "$OUT.1" "$OUT"; exec sleep 600\n')
    assert_silent(plugin.hook("Stop"))
    process = int(wait_for(plugin.out))
    # It left the client's session, and so the signals that the terminal sends to that.
    assert os.getsid(process) != os.getsid(0)
    os.kill(process, 9)


def test_a_hook_takes_little_of_the_50_milliseconds(plugin: InstalledPlugin) -> None:
    used: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        plugin.hook("Stop", "{}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(used) < 0.025


def launch(plugin: InstalledPlugin, path: str) -> tuple[int, str]:
    script = plugin.root / "bin" / "turnlog"
    done = subprocess.run(
        [script, "a b", "c"], env={"PATH": path}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout or done.stderr


def test_a_shell_command_finds_the_program_without_the_clients_variables(
    plugin: InstalledPlugin,
) -> None:
    plugin.write_program("#!/bin/sh\nprintf '[%s]' own \"$@\"\n")
    assert launch(plugin, f"/usr/bin:/bin:{plugin.root}/bin") == (0, "[own][a b][c]")


def test_a_program_that_moved_is_looked_up_in_path(plugin: InstalledPlugin, tmp_path: Path) -> None:
    other = plugin._replace(program=tmp_path / "other" / "turnlog")
    other.write_program("#!/bin/sh\nprintf '[%s]' other \"$@\"\n")
    path = f"{plugin.root}/bin:/usr/bin:/bin:{other.program.parent}"
    assert launch(plugin, path) == (0, "[other][a b][c]")


def test_launchers_do_not_start_each_other_forever(plugin: InstalledPlugin, tmp_path: Path) -> None:
    shutil.copytree(plugin.root, tmp_path / "second")
    code, said = launch(plugin, f"{tmp_path}/second/bin:{plugin.root}/bin:/usr/bin:/bin")
    assert (code, "pipx install turnlog" in said) == (127, True)


def test_a_relative_path_is_not_searched(
    plugin: InstalledPlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = plugin._replace(program=tmp_path / "repository" / "turnlog")
    hostile.write_program("#!/bin/sh\necho hostile\n")
    monkeypatch.chdir(hostile.program.parent)
    assert launch(plugin, ".:/usr/bin:/bin")[0] == 127
