"""Do everyday interactions look alike, and end alike, in the real client and `turnlog chat`?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/side_by_side.py \
        CLIENT DIRECTORY [NAME ...]

CLIENT is the path of an installed client's program. Each interaction is typed into both programs,
in terminals of 80×24 and 120×40, against a scripted API. DIRECTORY gets a file for each of them
with both screens after each step, to be looked at. Prints a row for each, and exits with 1 unless
both sent the same calls, results and prompts to the API and left the same files behind.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from client import bring_up_loopback, environment_of
from terminal import introduce

from support.plays import Script, play, text, use
from support.scripted_api import Reply, Request, ScriptedApi, called, said, scripted_api
from support.tmux import Pane, terminal

TURNLOG = (sys.executable, "-P", "-m", "turnlog", "chat")
SIZES = ((80, 24), (120, 40))
READY = "❯"
"""The mark before a prompt, in both programs."""
QUIET = 2.5
"""Seconds without a change after which a screen is finished."""
PATIENCE = 60.0
STEP = 0.1
FILE = "<FILE "
WORKING = "esc to interrupt"
"""Shown in both programs while the model works."""
MOVING = re.compile(r"[·✢✳✶✻✽*\d]")
"""Spinners and clocks, which never rest."""
SPEECH = "one two three four five six seven eight nine ten"
PLAN_FILE = re.compile(r"/[\w./-]+/plans/[\w-]+\.md")
REMINDER = "<system-reminder>"
TABLE = """# Plan

First *this*:

- one
- 日本語

| file | lines |
|---|---|
| cart.py | 120 |
| 在庫.py | 7 |

```python
total = 1
```
"""
ASKED = {
    "question": "Which database?",
    "header": "Database",
    "multiSelect": False,
    "options": [
        {"label": "SQLite", "description": "One file"},
        {"label": "Postgres", "description": "A server"},
    ],
}
DONE: Script = [[text("Done.")]]
PLAN = "# Plan\n\n1. Read cart.py\n2. Round the total\n"


class Interaction(NamedTuple):
    """Keys that are pressed one after the other, and what the model says to them."""

    keys: tuple[str, ...]
    """Texts to type, and keys in tmux's names, such as `<Enter>`, or several that belong together,
    such as `<Escape Escape>`; `<HOLD>` waits for the model, `<FILE name>` for a file that a
    command makes while it runs."""
    script: Script = DONE
    options: tuple[str, ...] = ("--permission-mode", "default")
    held: bool = False
    """Whether the model stops in the middle of its first answer."""
    compared: bool = True
    """True if the requests have to be the same; menus send none."""
    told: str = ""
    """What the model has to be told, or the keys had no effect."""


def run(command: str) -> dict[str, Any]:
    return use("Bash", command=command, description="Run it")


def ask(*keys: str) -> tuple[str, ...]:
    """A prompt that chooses the script, and then more keys."""
    return ("PLAY please", "<Enter>", *keys)


EDIT = [
    [use("Read", file_path="cart.py")],
    [use("Edit", file_path="cart.py", old_string="total = 0", new_string="total = 1")],
    [text("Changed.")],
]
INTERACTIONS = {
    "prompt and answer": Interaction(ask(), [[text("Hello there.")]]),
    "formatted answer": Interaction(ask(), [[text(TABLE)]]),
    "command allowed": Interaction(ask("<Enter>"), [[run("touch made")], [text("Made.")]]),
    "command refused": Interaction(ask("<Escape>"), [[run("touch made")], [text("Never.")]]),
    "rule saved": Interaction(
        ask("<Down>", "<Enter>"), [[run("make all")], [run("make all")], [text("Asked once.")]]
    ),
    "edit accepted": Interaction(ask("<Enter>"), EDIT),
    "edits accepted from now on": Interaction(ask("<Down>", "<Enter>"), EDIT),
    "edits accepted by shift-tab": Interaction(ask("<BTab>"), EDIT),
    "edit that fails": Interaction(
        ask(),
        [
            [use("Read", file_path="cart.py")],
            [use("Edit", file_path="cart.py", old_string="sum = 0", new_string="sum = 1")],
            [text("Not found.")],
        ],
    ),
    "new file": Interaction(
        ask("<Enter>"),
        [[use("Write", file_path="new.py", content="x = 1\ny = 2\n")], [text("Written.")]],
    ),
    "answer interrupted": Interaction(
        ask("<HOLD>", "<Escape>"), [[text(SPEECH)]], held=True, compared=False
    ),
    "prompt queued": Interaction(
        ask("<HOLD>", "and then this", "<Enter>"), held=True, compared=False
    ),
    "slash menu": Interaction(("/mod",), compared=False),
    "help": Interaction(("/help", "<Enter>"), compared=False),
    "models": Interaction(("/model", "<Enter>"), compared=False),
    "file mentioned": Interaction(("PLAY look at @car", "<Tab>", "<Enter>"), [[text("Seen.")]]),
    "shell command": Interaction(("!", "echo hi from the shell", "<Enter>"), compared=False),
    "modes": Interaction(("<BTab>", "<BTab>", "<BTab>"), compared=False),
    "plan approved": Interaction(
        ask("<Down>", "<Enter>"),
        [[use("ExitPlanMode", plan=PLAN)], [text("On it.")]],
        ("--permission-mode", "plan"),
        compared=False,
    ),
    "plan refused": Interaction(
        ask("<Escape>"),
        [[use("ExitPlanMode", plan=PLAN)], [text("On it.")]],
        ("--permission-mode", "plan"),
        compared=False,
    ),
    "question answered": Interaction(
        ask("<Down>", "<Enter>"),
        [[use("AskUserQuestion", questions=[ASKED])], [text("Postgres it is.")]],
        told="Postgres",
    ),
    "background command": Interaction(
        ask(),
        [
            [use("Bash", command="sleep 60", description="Wait", run_in_background=True)],
            [text("It runs.")],
        ],
        compared=False,
    ),
    "command moved to the background": Interaction(
        ask("<Enter>", "<FILE started>", "<C-b>"),
        # The client takes the key once a command has run for some seconds (2.1.325, observed).
        [[run("sleep 5; touch started; sleep 60")], [text("It runs.")]],
        told="background",
    ),
    "rewind menu": Interaction(ask("<Escape Escape>"), compared=False),
    "conversation rewound": Interaction(
        (*ask("<Escape Escape>", "<Up>", "<Enter>", "<Enter>"), " once more", "<Enter>"),
    ),
    "keys": Interaction(("?",), compared=False),
    "history searched": Interaction(ask("<C-r>", "plea", "<Enter>"), compared=False),
    "output in full": Interaction(ask("<C-o>"), [[run("seq 30")], [text("Counted.")]]),
    "context": Interaction(ask("/context", "<Enter>"), compared=False),
}


class Outcome(NamedTuple):
    """A finished interaction."""

    screens: list[tuple[str, str]]
    """What was typed, and the screen after it."""
    sent: list[tuple[str, ...]]
    results: str
    """The results of calls, as the model was told them."""
    files: dict[str, str]


def perform(
    program: tuple[str, ...], interaction: Interaction, size: tuple[int, int], home: Path
) -> Outcome:
    """Type an interaction into a program in a home of its own."""
    work = home / "work"
    work.mkdir()
    (work / "cart.py").write_text("total = 0\n")
    (home / ".claude").mkdir()
    with scripted_api(said("A title")) as api:
        api.choose = play({"PLAY": interaction.script})
        if interaction.held:
            hold_first(api)
        save_plans(api)
        environment = environment_of(home, api.url) | {
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
        }
        introduce(home / ".claude", work, environment["ANTHROPIC_API_KEY"])
        clean = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        with terminal([*clean, *program, *interaction.options], work, *size) as pane:
            pane.see(READY)
            screens = [("", settle(pane, api))]
            for keys, following in pairwise([*interaction.keys, ""]):
                press(pane, api, keys, work)
                is_running = FILE in (keys[: len(FILE)], following[: len(FILE)])
                screens.append((keys, pane.screen() if is_running else settle(pane, api)))
        messages = longest(api.requests)
        return Outcome(screens, sent(messages), results_in(messages), contents(work))


def hold_first(api: ScriptedApi) -> None:
    """Let the first answer of a script stop after some words."""
    choose, held = api.choose, list[Reply]()

    def first_held(body: dict[str, Any]) -> Reply | None:
        reply = choose(body)
        if reply is None or held:
            return reply
        held.append(reply._replace(hold_after=6))
        return held[0]

    api.choose = first_held


def save_plans(api: ScriptedApi) -> None:
    """Let the model write a plan to the file that the client names, before it calls ExitPlanMode.

    The client (2.1.325, observed) shows the plan of that file, turnlog that of the call.
    """
    choose, postponed, shown = api.choose, list[Reply](), list[Reply]()

    def plan_saved(body: dict[str, Any]) -> Reply | None:
        if postponed and body.get("tools"):
            shown.append(postponed.pop())
            return shown[-1]
        reply = choose(body)
        content: list[dict[str, Any]] = reply.body["content"] if reply else []
        plan = next((block for block in content if block.get("name") == "ExitPlanMode"), None)
        found = PLAN_FILE.search(json.dumps(body["messages"]))
        if not reply or not plan or not found or shown:
            return reply
        postponed.append(reply)
        given = {"file_path": found[0], "content": plan["input"]["plan"]}
        return called(("toolu_plan", "Write", given))

    api.choose = plan_saved


def press(pane: Pane, api: ScriptedApi, keys: str, work: Path) -> None:
    """Type a text or a key, and wait for its effect."""
    before = pane.screen()
    if keys == "<HOLD>":
        assert api.holding.wait(PATIENCE)
        return
    if keys.startswith(FILE):
        wait_for(work.joinpath(keys[len(FILE) : -1]).exists)
        return
    if keys.startswith("<"):
        for key in keys[1:-1].split():
            pane.keys(key)
            time.sleep(STEP)  # an escape character and a key at once would be another key
    else:
        pane.type(keys)
    # On a busy machine a program may take longer to react than a finished screen stays as it is.
    wait_for(lambda: pane.screen() != before, PATIENCE / 4)


def wait_for(is_so: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something is so, or no longer: a key may also change nothing."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(STEP)


def settle(pane: Pane, api: ScriptedApi) -> str:
    """Wait until the program waits for a key, or for a model that is held; return its screen."""
    end = time.monotonic() + PATIENCE
    screen, since = "", time.monotonic()
    while time.monotonic() < min(since + QUIET, end):
        time.sleep(STEP)
        now = pane.screen()
        is_working = WORKING in now and not api.holding.is_set()
        if is_working or not now or MOVING.sub("", now) != MOVING.sub("", screen):
            screen, since = now, time.monotonic()
    return screen


def longest(requests: list[Request]) -> list[dict[str, Any]]:
    """Return the messages of the longest request."""
    asked: list[list[dict[str, Any]]] = [
        request.body["messages"] for request in requests if request.body.get("tools")
    ]
    return max(asked, key=len, default=list[dict[str, Any]]())


def sent(messages: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a conversation: prompts, texts, calls and outcomes."""
    return [
        step
        for message in messages
        if message["role"] != "system"
        for block in blocks_of(message)
        if (step := describe(message["role"], block))
    ]


def results_in(messages: list[dict[str, Any]]) -> str:
    """Return the results of calls as one text."""
    blocks = [block for message in messages for block in blocks_of(message)]
    return json.dumps([block for block in blocks if block["type"] == "tool_result"])


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def describe(role: str, block: dict[str, Any]) -> tuple[str, ...]:
    """Return the part of a block that both programs have in common; empty for what each adds."""
    match block["type"]:
        case "text" if REMINDER not in block["text"]:
            return (role, "text", block["text"].strip())
        case "tool_use":
            # The client adds the defaults of its tools, such as `"replace_all": false`.
            given = {name: value for name, value in block["input"].items() if value is not False}
            return (role, "call", block["name"], json.dumps(given, sort_keys=True))
        case "tool_result":
            return (role, "result", "error" if block.get("is_error") else "right")
        case _:
            return ()


def contents(folder: Path) -> dict[str, str]:
    """Return the files below a directory, without settings: each program words them its own way."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".claude" not in path.parts
    }


def compare(interaction: Interaction, outcomes: Mapping[str, Outcome]) -> str:
    client, own = outcomes.values()
    if client.files != own.files:
        return f"DIFFERENT FILES: {client.files} {own.files}"
    if silent := [
        label for label, each in outcomes.items() if interaction.told not in each.results
    ]:
        return f"DIFFERENT EFFECT: {interaction.told!r} is not in the results of {silent}"
    if interaction.compared and client.sent != own.sent:
        return f"DIFFERENT MESSAGES:\n  {client.sent}\n  {own.sent}"
    return "equal" if interaction.compared else "looked at"


def main() -> int:
    """Perform and compare, print a row for each."""
    bring_up_loopback()
    client, folder, *names = sys.argv[1:]
    programs = {"client": (client,), "turnlog chat": TURNLOG}
    Path(folder).mkdir(parents=True, exist_ok=True)
    os.environ.pop("TMUX", None)
    bad = 0
    for name in names or INTERACTIONS:
        try:
            outcomes = perform_all(INTERACTIONS[name], programs)
        except AssertionError as error:  # the others are still worth a look
            print(f"{name:28} NOT PERFORMED: {error}", flush=True)
            bad += 1
            continue
        for size in SIZES:
            columns, rows = size
            shown = {label: outcomes[size, label] for label in programs}
            path = Path(folder, f"{name.replace(' ', '-')}-{columns}x{rows}.txt")
            path.write_text("\n".join(pages(shown, columns)))
            verdict = compare(INTERACTIONS[name], shown)
            bad += verdict.startswith("DIFFERENT")
            print(f"{name:28} {columns}×{rows}  {verdict}", flush=True)
    return 1 if bad else 0


def perform_all(
    interaction: Interaction, programs: Mapping[str, tuple[str, ...]]
) -> dict[tuple[tuple[int, int], str], Outcome]:
    """Perform an interaction with each program in each size, each in a new home, all at once."""

    def perform_alone(run: tuple[tuple[int, int], str]) -> Outcome:
        size, label = run
        # A client may still be writing when its terminal is gone.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            return perform(programs[label], interaction, size, Path(home))

    runs = list(product(SIZES, programs))
    with ThreadPoolExecutor(len(runs)) as pool:
        return dict(zip(runs, pool.map(perform_alone, runs), strict=True))


def pages(outcomes: Mapping[str, Outcome], columns: int) -> Iterator[str]:
    """Yield the screens of both programs after each step."""
    for steps in zip(*(each.screens for each in outcomes.values()), strict=True):
        for label, (keys, screen) in zip(outcomes, steps, strict=True):
            head = f" {label}: {keys or 'started'} "
            yield f"{head:═^{columns}}\n{screen}\n"


if __name__ == "__main__":
    sys.exit(main())
