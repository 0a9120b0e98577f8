"""Do the picker, /cost and /rewind of the real client work on a session of `turnlog chat`?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/taken_over.py CLIENT [--show]

CLIENT is the path of an installed client's program. In a terminal, turnlog writes two files in two
turns and switches the model. The client then resumes the session from its picker, shows its cost,
and goes back to the first prompt. Prints a row for each step, and exits with 1 if one of them
fails. `--show` prints the screens.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from client import bring_up_loopback, environment_of
from side_by_side import READY, TURNLOG, settle
from terminal import introduce

from support.plays import play, text, use
from support.scripted_api import ScriptedApi, said, scripted_api
from support.tmux import Pane, terminal

FIRST, SECOND = "ALPHA write it", "BETA write it too"
COST = re.compile(r"Total cost:\s+\$([0-9.]+)")
MODE = ("--permission-mode", "acceptEdits")


def write(home: Path, environment: list[str], api: ScriptedApi) -> None:
    """Let turnlog record a session with two changes and a command of its own."""
    with terminal([*environment, *TURNLOG, *MODE], home / "work", 120, 40) as pane:
        pane.see(READY)
        for prompt, answer in ((FIRST, "Alpha is there."), (SECOND, "Beta is there.")):
            pane.say(prompt)
            pane.see(answer)
            settle(pane, api)
        pane.say("/model claude-sonnet-4-5")
        pane.see("the model is claude-sonnet-4-5")
        pane.say("/exit")
        pane.wait(lambda screen: pane.is_dead())


class Client:
    """The real client, resuming the session."""

    def __init__(self, pane: Pane, api: ScriptedApi, work: Path, is_shown: bool) -> None:
        self.pane, self.api, self.work, self.is_shown = pane, api, work, is_shown

    def press(self, *keys: str) -> str:
        """Press keys or type texts one after the other; return the last screen."""
        screen = ""
        for each in keys:
            if each.startswith("<"):
                self.pane.keys(each[1:-1])
            else:
                self.pane.type(each)
            screen = settle(self.pane, self.api)
        if self.is_shown:
            print(f"{' '.join(keys)}\n{screen}\n{'─' * 120}")
        return screen

    def picks(self) -> bool:
        """Whether the picker lists the session by its prompt, and opens it."""
        listed = settle(self.pane, self.api)
        if self.is_shown:
            print(listed)
        shown = self.press("<Enter>")
        return SECOND in listed and all(
            each in shown for each in ("Alpha is there.", "Beta is there.")
        )

    def counts(self, session: Path) -> bool:
        """Whether /cost goes on from what turnlog has counted."""
        lines = [json.loads(line) for line in session.read_text().splitlines()]
        states = [each["totalCostUSD"] for each in lines if each["type"] == "cost-state"]
        found = COST.search(self.press("/cost", "<Enter>"))
        self.press("<Escape>")
        return found is not None and found[1] == f"{states[-1]:.4f}" != "0.0000"

    def rewinds(self) -> bool:
        """Whether /rewind lists the prompts, and brings the files back."""
        listed = self.press("/rewind", "<Enter>")
        self.press("<Up>", "<Up>", "<Enter>", "<Enter>")
        left = sorted(path.name for path in self.work.iterdir() if path.is_file())
        return FIRST in listed and SECOND in listed and left == []


def script(api: ScriptedApi, work: Path) -> None:
    """Let the model write a file for each prompt."""
    api.choose = play(
        {
            name: [
                [use("Write", file_path=str(work / f"{name}.txt"), content=f"{name}\n")],
                [text(answer)],
            ]
            for name, answer in (("ALPHA", "Alpha is there."), ("BETA", "Beta is there."))
        }
    )


def main() -> int:
    """Run every step, print a row for each."""
    bring_up_loopback()
    os.environ.pop("TMUX", None)
    is_shown = "--show" in sys.argv
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        scripted_api(said("A title")) as api,
    ):
        home = Path(folder).resolve()
        work, store = home / "work", home / ".claude"
        work.mkdir()
        store.mkdir()
        script(api, work)
        variables = environment_of(home, api.url) | {
            "CLAUDE_CONFIG_DIR": str(store),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        introduce(store, work, variables["ANTHROPIC_API_KEY"])
        clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        write(home, clean, api)
        (session,) = store.glob("projects/*/*.jsonl")
        with terminal([*clean, sys.argv[1], "--resume"], work, 120, 40) as pane:
            client = Client(pane, api, work, is_shown)
            steps = {
                "the picker lists and opens it": client.picks,
                "/cost counts on": lambda: client.counts(session),
                "/rewind brings files back": client.rewinds,
            }
            outcomes = {name: step() for name, step in steps.items()}
    for name, is_right in outcomes.items():
        print(f"{name:40} {'fine' if is_right else 'WRONG'}")
    return 0 if all(outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
