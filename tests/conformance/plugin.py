"""Does the plugin work in the real client: installed, used, updated, broken and removed?

    python -m build --wheel --outdir DIST .
    sudo unshare --net env PYTHONPATH=tests python tests/conformance/plugin.py DIST/*.whl CLIENT ...

Each CLIENT is the command of an installed client. It gets a home of its own and a scripted API on
loopback; turnlog is installed from the wheel, into an environment that is then changed, broken and
deleted underneath it. Prints what was checked, and how long hooks took as the client measured it.
Exits with 1 if something is wrong.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from client import bring_up_loopback
from mcp_tools import earlier_session, servers_of
from plugin_rig import PluginRig
from terminal import RETURN

import turnlog.plugin
from support.mcp_peer import FIRST, put
from support.plays import Script, play, use
from support.plays import text as said
from support.scripted_api import ScriptedApi, scripted_api
from support.scripted_api import said as reply

LIMIT_MS = 50
LIMIT_TOKENS = 200
PATIENCE = 60.0
EMPTY_HOOK = ": nothing"
BEFORE = (
    '{ "model":"sonnet",\n\t"env": {"A":"1"},   "cleanupPeriodDays": 99,\n'
    f'"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "{EMPTY_HOOK}"}}]}}]}} }}'
)
SKILLS = ("turnlog:recall", "turnlog:handoff", "turnlog:session-doctor", "turnlog:historian")
SEARCH = "mcp__plugin_turnlog_history__search"
SCRIPTS: dict[str, Script] = {
    "PLAY:recall": [
        [use("Skill", skill="turnlog:recall", args="zeppelin")],
        [use(SEARCH, query="zeppelin")],
        [use("Bash", command="turnlog --version")],
        [
            use(
                "Agent|Task",
                subagent_type="turnlog:historian",
                description="look",
                prompt="PLAY:agent",
            )
        ],
        [said("Done.")],
    ],
    "PLAY:agent": [[use(SEARCH, query="zeppelin hydrogen")], [said("It was hydrogen.")]],
    "PLAY:ask": [[use("Bash", command="touch made.txt")], [said("Done.")]],
    "PLAY:say": [[said("Done.")]],
}


def wait_until(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def install(rig: PluginRig, api: ScriptedApi) -> None:
    """Install it; its manifests are valid, and it costs little."""
    rig.settings.write_text(BEFORE)
    rig.turnlog("plugin", "install")
    status = json.loads(rig.turnlog("plugin", "status", "--json"))
    rig.expect(status["is_enabled"] and not status["problems"], f"status: {status}")
    rig.expect(rig.settings.read_text().startswith(BEFORE[:-2]), "the settings lost their format")
    (marketplace,) = (rig.data / "plugin").iterdir()
    for place in (rig.turnlog("plugin", "path").strip(), str(marketplace)):
        said_ = rig.client("plugin", "validate", "--strict", place)
        rig.expect("Validation passed" in said_, f"validate {place}: {said_}")
    details = rig.client("plugin", "details", "turnlog")
    found = re.search(r"Always-on:\s+~(\d+) tok", details)
    tokens = int(found[1]) if found else 9999
    print(f"  source      {status['source']}")
    print(f"  always on   {tokens} tokens")
    rig.expect(tokens <= LIMIT_TOKENS, f"{tokens} tokens")


def use_it(rig: PluginRig, api: ScriptedApi) -> None:
    """Let a model use skill, server, agent and program; the session is archived when it ends."""
    put(rig.store, str(rig.work), earlier_session(rig.work), FIRST)
    rig.prompt("PLAY:recall")
    sent = json.dumps([each.body for each in api.requests], ensure_ascii=False)
    for name in SKILLS:
        rig.expect(name in sent, f"{name} is not listed")
    rig.expect(sent.count("We decided on hydrogen") >= 2, "search found nothing")
    rig.expect(
        "Find out what earlier sessions of this project say about: zeppelin" in sent, "skill"
    )
    rig.expect("turnlog 0.1.0" in sent, "a shell command does not find turnlog")
    rig.expect("You answer one question about earlier sessions" in sent, "no agent was started")
    sessions = rig.data / "archive" / "sessions"
    rig.expect(wait_until(lambda: len(list(sessions.glob("*.json"))) == 2), "not archived")


def type_in_terminal(rig: PluginRig, api: ScriptedApi) -> None:
    """Wait for a permission in a terminal, continue, and compact."""
    notes = rig.data / "notifications"
    archived = len(list((rig.data / "archive" / "sessions").glob("*.json")))
    with rig.terminal("--permission-mode", "default") as terminal:
        terminal.say("PLAY:ask")
        rig.expect(wait_until(lambda: list(notes.glob("*.json"))), "no notification")
        listed: list[dict[str, Any]] = json.loads(rig.turnlog("live", "--once", "--json"))
        states = [(each["state"], each["source"]) for each in listed]
        print(f"  live        {states}")
        rig.expect(states == [("waiting for permission", "reported")], f"live: {listed}")
        terminal.press(RETURN)
        rig.expect(wait_until((rig.work / "made.txt").exists), "the call was not permitted")
        for _ in range(5):
            terminal.say("PLAY:say")
        terminal.say("/compact")
        sessions = rig.data / "archive" / "sessions"
        is_kept = wait_until(lambda: len(list(sessions.glob("*.json"))) > archived)
        rig.expect(is_kept, "not archived before the compaction")
    rig.expect(wait_until(lambda: not list(notes.glob("*.json"))), "a notification was left")


def update(rig: PluginRig, api: ScriptedApi) -> None:
    """Upgrade turnlog: the next session of the client has the new plugin."""
    rig.upgrade("0.1.0", "0.2.0", "Look up what", "UPGRADED look up what")
    rig.prompt("PLAY:say", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="")
    by_itself = rig.installed_version()
    rig.turnlog("plugin", "install")
    api.requests.clear()
    rig.prompt("PLAY:say")
    sent = json.dumps([each.body for each in api.requests])
    rig.expect("UPGRADED look up what" in sent, "the client has the old skill")
    rig.expect(rig.installed_version().startswith("0.2.0"), rig.installed_version())
    print(f"  update      by itself {by_itself}, installed again {rig.installed_version()}")


def break_and_remove(rig: PluginRig, api: ScriptedApi) -> None:
    """Break, move and remove the environment: sessions continue, and hooks succeed."""
    moved = rig.environment.with_name("moved")
    for name, damage in {
        "broken": (rig.environment / "bin" / "python").unlink,
        "moved": lambda: rig.environment.rename(moved),
        "removed": lambda: subprocess.run(["rm", "-rf", str(moved)], check=True),
    }.items():
        damage()
        api.requests.clear()
        printed = rig.prompt("PLAY:say")
        asked = [each for each in api.requests if "PLAY:say" in json.dumps(each.body)]
        rig.expect(printed.strip() == "Done.", f"{name}: {printed}")
        # A hook that exits with 2 would make the model go on.
        rig.expect(len(asked) == 1, f"{name}: {len(asked)} requests")
        print(f"  {name:11} session ok")


def uninstall(rig: PluginRig, api: ScriptedApi) -> None:
    """Remove it with another turnlog, as the one that installed it is gone."""
    printed = rig.other_turnlog("plugin", "uninstall")
    rig.expect(rig.settings.read_text() == BEFORE, f"settings: {rig.settings.read_text()}")
    rig.expect(rig.installed_version() == "", "still installed")
    rig.expect(not (rig.data / "plugin").exists(), "the marketplace is left")
    api.requests.clear()
    rig.prompt("PLAY:say")
    sent = json.dumps([each.body for each in api.requests])
    rig.expect("turnlog:recall" not in sent, "the skill is left")
    print(f"  removed     {printed.strip()}")


def report_hooks(rig: PluginRig) -> None:
    """Print how long the client waited for hooks, by its own measure, and what they used of a CPU.

    The empty hook in the user's settings waits for a processor just as long, so its time is
    granted on top of the limit.
    """
    medians: dict[str, int] = {}
    for name, mark in {"hooks": "hooks/run.sh", "empty hook": EMPTY_HOOK}.items():
        times = rig.hook_times(mark) or [9999]
        medians[name] = times[len(times) // 2]
        print(f"  {name:11} median {medians[name]} ms of {times}")
        rig.expect(times != [9999], f"{name}: did not run")
    rig.expect(medians["hooks"] <= LIMIT_MS + medians["empty hook"], f"hooks take {medians} ms")
    used = sorted(hook_cpu_ms(rig.home) for _ in range(20))
    print(f"  CPU         median {used[10]:.1f} ms, most {used[-1]:.1f} ms")
    rig.expect(used[10] <= LIMIT_MS, f"hooks use {used} ms")
    rig.expect(not rig.hook_errors(), f"hook errors: {rig.hook_errors()}")


def hook_cpu_ms(home: Path) -> float:
    """Run a hook as the client does, and return the CPU time until it returns; turnlog is gone."""
    files = Path(turnlog.plugin.__file__).parent / "files"
    hooks = json.loads((files / "hooks" / "hooks.json").read_text())["hooks"]
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home), "CLAUDE_PLUGIN_ROOT": str(files)}
    process = subprocess.Popen(
        ["sh", "-c", hooks["Stop"][0]["hooks"][0]["command"]], stdin=subprocess.PIPE, env=variables
    )
    assert process.stdin
    process.stdin.write(b'{"hook_event_name": "Stop"}')
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (used.ru_utime + used.ru_stime) * 1000


STEPS = (install, use_it, type_in_terminal, update, break_and_remove, uninstall)


def main() -> int:
    bring_up_loopback()
    wheel, *clients = sys.argv[1:]
    wrong: list[str] = []
    for client in clients:
        print(client, flush=True)
        with tempfile.TemporaryDirectory() as folder, scripted_api(reply("Done.")) as api:
            api.choose = play(SCRIPTS)
            # Many homes have a space in their name.
            home = Path(folder).resolve() / "ada home"
            rig = PluginRig(shlex.split(client), home, Path(wheel), api)
            for step in STEPS:
                step(rig, api)
            report_hooks(rig)
            rig.expect(wait_until(lambda h=home: not servers_of(h)), f"left: {servers_of(home)}")
            print(f"  {'ok' if not rig.wrong else 'WRONG'}", flush=True)
            wrong += rig.wrong
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
