"""Does the real client resume what `turnlog chat` wrote, with exactly the same messages?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/chats.py CLIENT ...

CLIENT is the command of an installed client, such as `node …/cli.js` or the path of its binary.
`turnlog chat -p` writes a session for each case against a scripted API on loopback; each client
then resumes a copy of it. Prints a row for each case and client, and exits with 1 if any differs.
Clients before 2.1.325 send the summary of a compaction alone, without the answer before it.
"""

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from client import bring_up_loopback
from resume import Messages, resume
from resume import said as said_in

from support.scripted_api import Reply, ScriptedApi, answered, called, refused, said, scripted_api
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.store.paths import Store

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SESSION = "5e551011-0000-4000-8000-000000000000"
NO_RESPONSE = "No response requested."
CONTINUE = "Continue from where you left off."
SUMMARY_ALONE = "summary"
HARMLESS = "a program (sdk-cli) made the session"
Fields = dict[str, Any]


class Run(NamedTuple):
    """One run of `turnlog chat -p`: the model's answers, the prompt and the options."""

    replies: list[Reply]
    prompt: str = "Please go on."
    options: tuple[str, ...] = ()
    stop: Callable[[ScriptedApi, Path], bool] | None = None
    """When to interrupt it."""
    hooks: Fields | None = None


def read(call_id: str, name: str) -> tuple[str, str, Fields]:
    return (call_id, "Read", {"file_path": name})


def bash(call_id: str, command: str) -> tuple[str, str, Fields]:
    return (call_id, "Bash", {"command": command, "description": "Run it"})


def holds(api: ScriptedApi, session: Path) -> bool:
    return api.holding.is_set()


def has_called(api: ScriptedApi, session: Path) -> bool:
    return session.exists() and b'"tool_use"' in session.read_bytes()


def agent_reply(body: Fields) -> Reply | None:
    """Return a sub-agent's answer; its request identifies the sub-agent."""
    first = json.dumps(body["messages"][0])
    if "SUBTASK" not in first:
        return None
    if len(body["messages"]) > 1:
        return said("The file says one.")
    return called(read("toolu_sub" + str(len(first)), "one.txt"))


TASK = (
    "toolu_t1",
    "Agent",
    {"description": "Look", "prompt": "SUBTASK a", "subagent_type": "Explore"},
)
TASK_2 = ("toolu_t2", "Agent", {"description": "Look", "prompt": "SUBTASK bb"})
GO_ON = ("--resume", SESSION)
HOOKS = {
    "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "echo it rains"}]}],
    "PostToolUse": [{"hooks": [{"type": "command", "command": "echo lint it >&2; exit 2"}]}],
    "Stop": [
        {
            "hooks": [
                {
                    "type": "command",
                    "command": "[ -e stopped ] && exit; touch stopped; echo go on >&2; exit 2",
                }
            ]
        }
    ],
}
CASES: dict[str, list[Run]] = {
    "plain": [Run([said("Hello.")])],
    "parallel": [
        Run(
            [
                called(
                    read("toolu_1", "one.txt"),
                    read("toolu_2", "two.txt"),
                    bash("toolu_3", "ls"),
                    text="Look.",
                ),
                said("Done."),
            ]
        )
    ],
    "tool error": [
        Run([called(read("toolu_1", "none.txt"), ("toolu_2", "Nope", {})), said("Gone.")])
    ],
    "retried": [Run([refused(529, "Overloaded"), refused(500, "oh"), said("At last.")])],
    "broken off": [
        Run(
            [called(read("toolu_1", "one.txt"), text="Half.")._replace(cut_after=7), said("Whole.")]
        )
    ],
    "garbled": [Run([said("Half of it.")._replace(garbled_after=9), said("Whole.")])],
    "failed": [Run([refused(400, "no")]), Run([said("Better.")], options=GO_ON)],
    "interrupted answer": [
        Run([said("A long story, and more.")._replace(hold_after=8)], stop=holds),
        Run([said("Again.")], options=GO_ON),
    ],
    "interrupted, left": [
        Run([said("A long story, and more.")._replace(hold_after=8)], stop=holds)
    ],
    "interrupted call": [
        Run([called(read("toolu_1", "one.txt"), bash("toolu_2", "sleep 60"))], stop=has_called),
        Run([said("Again.")], options=GO_ON),
    ],
    "sub-agents": [Run([called(TASK, TASK_2, text="Two."), said("Both are done.")])],
    "compacted": [
        Run([said("Hello.")]),
        Run([answered({"type": "text", "text": "They said hello."})], "/compact", GO_ON),
        Run([said("And on.")], options=GO_ON),
    ],
    "compacted by itself": [
        Run(
            [
                answered(
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "Read",
                        "input": {"file_path": "one.txt"},
                    },
                    stop_reason="tool_use",
                    input_tokens=190_000,
                ),
                answered({"type": "text", "text": "A file was read."}),
                said("Done."),
            ]
        )
    ],
    "image": [Run([called(read("toolu_1", "pixel.png")), said("A pixel.")])],
    "resumed twice": [Run([said(f"Answer {n}.")], options=GO_ON if n else ()) for n in range(3)],
    "forked": [
        Run([called(read("toolu_1", "one.txt")), said("Read.")]),
        Run([said("Elsewhere.")], options=(*GO_ON, "--fork-session")),
    ],
    "hooked": [
        Run([called(bash("toolu_1", "ls")), said("Done."), said("More.")], hooks=HOOKS),
        Run([said("And on.")], options=GO_ON, hooks=HOOKS),
    ],
    "stopped early": [
        Run([called(bash("toolu_1", "ls")), said("never")], options=("--max-turns", "1"))
    ],
}


def write(home: Path, runs: list[Run]) -> Path:
    """Let `turnlog chat` write a session; return its file."""
    store, work = Store(home / "claude"), home / "work"
    work.mkdir()
    for name in ("one.txt", "two.txt"):
        (work / name).write_text(f"{name}\n")
    (work / "pixel.png").write_bytes(PIXEL)
    session = store.project_of(str(work)) / f"{SESSION}.jsonl"
    for number, run in enumerate(runs):
        store.root.mkdir(exist_ok=True)
        store.settings.write_text(json.dumps({"hooks": run.hooks or {}}))
        with scripted_api(*run.replies) as api:
            api.choose = agent_reply
            chat(
                home,
                api,
                run,
                session,
                run.options if number else ("--session-id", SESSION, *run.options),
            )
    return max(session.parent.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)


def chat(home: Path, api: ScriptedApi, run: Run, session: Path, options: tuple[str, ...]) -> None:
    environment = os.environ | {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "IS_SANDBOX": "1",  # whoever may cut off the network is root
    }
    mode = ("--permission-mode", "bypassPermissions", "--model", "claude-opus-5-5")
    running = subprocess.Popen(
        [sys.executable, "-m", "turnlog", "chat", "-p", run.prompt, *mode, *options],
        cwd=home / "work",
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while run.stop and running.poll() is None and not run.stop(api, session):
        time.sleep(0.05)
    if run.stop:
        running.send_signal(signal.SIGINT)
    running.wait(60)


def without_end(messages: Messages) -> Messages:
    """Messages without what each client in its own words adds to an end that nothing answers."""
    *before, (role, blocks) = messages
    if any(block.get("text") == NO_RESPONSE for block in blocks):
        return without_end(before)
    kept = [block for block in blocks if block.get("text") != CONTINUE]
    return [*before, (role, kept)]


def without_kept(session: Path) -> list[Fields]:
    """The context for clients that know no messages which a compaction has preserved."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / session.name
        lines = [json.loads(line) for line in session.read_bytes().splitlines()]
        for line in lines:
            for name in ("preservedMessages", "preservedSegment"):
                line.get("compactMetadata", {}).pop(name, None)
        copy.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return open_session(copy).context()


def verdict(client: list[str], session: Path) -> str:
    sent = resume(client, session)
    ours = said_in(open_session(session).context())
    if sent is None:
        return "refused"
    ours, theirs = without_end(ours), without_end(said_in(sent))
    if theirs == ours:
        return "equal"
    if theirs == without_end(said_in(without_kept(session))):
        return SUMMARY_ALONE
    if os.environ.get("SHOW"):
        print(json.dumps(ours, indent=1), json.dumps(theirs, indent=1), sep="\n--- sent:\n")
    return "DIFFERENT"


def main() -> int:
    """Write and compare, print a row for each."""
    bring_up_loopback()
    clients = [shlex.split(each) for each in sys.argv[1:]]
    wanted = os.environ.get("CASES", "").split(";") if os.environ.get("CASES") else list(CASES)
    bad = 0
    for name in wanted:
        with tempfile.TemporaryDirectory() as home:
            session = write(Path(home), CASES[name])
            found = [each.message for each in check_session(open_session(session))]
            amiss = [each for each in found if HARMLESS not in each]
            verdicts = [verdict(client, session) for client in clients]
        bad += any(each not in ("equal", SUMMARY_ALONE) for each in verdicts) or bool(amiss)
        print(f"{name:22} {' '.join(f'{each:10}' for each in verdicts)} {amiss or ''}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
