"""Does the hook send each turn once, while the real client works?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/hooks.py CLIENT ...

Each CLIENT is the command of an installed client, such as `node …/cli.js` or the path of its
binary. `turnlog hook install` puts the hook into the settings of a store of its own; the client
talks to a scripted API on loopback, and the hook to a backend there. What the backend got is
compared with what `turnlog trace --dry-run` makes of the same files, and with the scripts that were
played. Prints a row for each case, and exits with 1 if a span is missing, is there twice, or
differs.
"""

import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from uuid import uuid4

from client import bring_up_loopback
from hook_judge import AGENT, Play, faults
from hook_rig import Rig
from terminal import ESCAPE

from support.plays import play, text, use
from support.scripted_api import MODEL, said, scripted_api

READ = use("Read", file_path="a.txt")
ASK = {"description": "Look", "prompt": "PLAY:look at a.txt", "subagent_type": "general-purpose"}
WAIT = "perl -e 'sleep 60'"
OF_AGENT = [AGENT, "general-purpose", MODEL, "Read", MODEL]

PLAYS = {
    "tools": Play(
        [
            [text("Look."), READ, use("Bash", command="echo hi", description="Say hi")],
            [text("The tools are done.")],
        ],
        "The tools are done.",
        [MODEL, "Read", "Bash", MODEL],
    ),
    "agent": Play(
        [
            [text("Ask."), use(AGENT, run_in_background=False, **ASK)],
            [text("The agent is done.")],
        ],
        "The agent is done.",
        [MODEL, *OF_AGENT, MODEL],
    ),
    "aside": Play(
        [
            [text("Ask aside."), use(AGENT, run_in_background=True, **ASK)],
            [text("The agent is asked.")],
        ],
        "The agent is asked.",
        [MODEL, *OF_AGENT, MODEL],
    ),
    "plain": Play([[text("Nothing to do.")]], "Nothing to do.", [MODEL]),
    "slow": Play(
        [[text("Wait."), use("Bash", command=WAIT, description="Wait")], [text("Waited.")]],
        "Wait.",
        [MODEL, "Bash"],
    ),
}
SCRIPTS = {f"PLAY:{name}": each.script for name, each in PLAYS.items()} | {
    "PLAY:look": [[READ], [text("It says alpha.")]]
}
NOTHING = said("Nothing to play.")
ALL = ("tools", "agent", "plain")


def in_one_process(rig: Rig) -> None:
    """Three prompts in one client."""
    with rig.backend():
        rig.talk(*ALL)
        rig.settle()


def resumed_and_forked(rig: Rig) -> None:
    """A client for each prompt: a resumed session, and a fork that holds a copy of it."""
    name = str(uuid4())
    with rig.backend():
        rig.ask("tools", "--session-id", name)
        rig.ask("agent", "--resume", name)
        rig.ask("plain", "--resume", name)
        rig.settle()
        rig.ask("plain", "--resume", name, "--fork-session")
        rig.ask("tools", "--resume", name)
        rig.settle()


def two_at_once(rig: Rig) -> None:
    """Two clients in the same directory."""
    with rig.backend():
        clients = [Thread(target=rig.talk, args=ALL) for _ in range(2)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        rig.settle()


def backend_down(rig: Rig) -> None:
    """Nothing listens during the second prompt."""
    name = str(uuid4())
    with rig.backend():
        rig.ask("tools", "--session-id", name)
        rig.settle()
    rig.ask("agent", "--resume", name)
    with rig.backend():
        rig.ask("plain", "--resume", name)
        rig.settle()


def in_background(rig: Rig) -> None:
    """A sub-agent that outlasts its turn."""
    with rig.backend():
        rig.talk("aside", "plain")
        rig.settle()


def typed(rig: Rig) -> None:
    """A client in a terminal, and a turn that is interrupted."""
    with rig.backend():
        with rig.terminal() as screen:
            screen.say("PLAY:tools")
            rig.wait_for(PLAYS["tools"].output)
            screen.say("PLAY:slow")
            rig.wait_for(WAIT)
            screen.press(ESCAPE)
            screen.say("PLAY:plain")
            rig.wait_for(PLAYS["plain"].output)
        rig.settle()


def ended(rig: Rig) -> None:
    """Run a client that is asked to end while a tool runs."""
    with rig.backend():
        rig.break_off("slow", signal.SIGTERM)
        rig.settle()


def killed(rig: Rig) -> None:
    """A client that is killed while a tool runs, and another that is started an hour later."""
    with rig.backend():
        rig.break_off("slow", signal.SIGKILL)
        rig.let_pass(3600)
        rig.ask("plain")
        rig.settle()


CASES: dict[str, tuple[Callable[[Rig], None], tuple[str, ...]]] = {
    "three prompts": (in_one_process, ALL),
    "resumed, forked": (resumed_and_forked, (*ALL, "plain", "tools")),
    "two at once": (two_at_once, ALL * 2),
    "backend down": (backend_down, ALL),
    "in the background": (in_background, ("aside", "plain")),
    "typed, interrupted": (typed, ("tools", "slow", "plain")),
    "told to end": (ended, ("slow",)),
    "killed": (killed, ("slow", "plain")),
}
"""The actions, and the scripts whose traces should result."""


def judge(client: list[str], name: str) -> list[str]:
    case, played = CASES[name]
    with tempfile.TemporaryDirectory() as folder, scripted_api(NOTHING) as api:
        api.choose = play(SCRIPTS)
        rig = Rig(client, Path(folder), api.url)
        case(rig)
        return [*rig.complaints, *faults(rig.wanted(), rig.received, played, PLAYS)]


def main() -> int:
    """Try every case with every client, and report failures."""
    bring_up_loopback()
    is_wrong = False
    for command in sys.argv[1:]:
        for name in CASES:
            found = judge(shlex.split(command), name)
            is_wrong |= bool(found)
            print(f"{'WRONG' if found else 'right':6} {name:20} {command}", flush=True)
            for fault in found:
                print(f"         {fault}", flush=True)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
