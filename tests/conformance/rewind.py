"""Does the real client agree with turnlog about rewinding to before a prompt?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/rewind.py CLIENT

CLIENT is the command of an installed client. A session that changes files is recorded by turnlog;
the client brings its files back to each prompt (`--rewind-files`), and resumes the session after
turnlog went back in its conversation. Prints a row for each, and exits with 1 if any differs.
Clients before 2.0.76 lack the flag: of these, only conversations are compared.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from client import SECONDS, bring_up_loopback, environment_of, run_client
from resume import resume, said

from support.changed_files import Work
from turnlog.agent.session.rewind import RewindScope, apply_rewind, plan_rewind
from turnlog.conversation.session import open_session
from turnlog.edit.journal import Journal
from turnlog.store.paths import Store

NOWHERE = "http://127.0.0.1:9"
CHECKPOINTS = {"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
TURNS = (("a.txt", "one"), ("b.txt", "two"), ("a.txt", "three"))
STATES: tuple[dict[str, str], ...] = (
    {"a.txt": "zero"},
    {"a.txt": "one"},
    {"a.txt": "one", "b.txt": "two"},
)
"""The files at each prompt."""


def record(home: Path) -> tuple[Work, list[str]]:
    """Record a session of three turns, each of which writes a file."""
    (home / ".claude" / "projects").mkdir(parents=True)
    work = Work(Store(home / ".claude"), home / "work")
    (work.root / "a.txt").write_text("zero")
    prompts: list[str] = []
    for name, content in TURNS:
        prompts.append(work.prompt(f"write {content}"))
        work.write(name, content)
        work.say(f"wrote {content}")
    return work, prompts


def restores_files(client: list[str]) -> bool:
    """Return whether a client knows `--rewind-files`; an unknown flag is its first complaint."""
    with tempfile.TemporaryDirectory() as home:
        tried = subprocess.run(
            [*client, "-p", "--rewind-files", "a"],
            env=environment_of(Path(home), NOWHERE),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    return b"unknown option" not in tried.stderr


def files_agree(client: list[str], turn: int) -> bool:
    """Return whether the client restores the same files."""
    with tempfile.TemporaryDirectory() as home:
        work, prompts = record(Path(home))
        environment = environment_of(Path(home), NOWHERE) | CHECKPOINTS
        arguments = ["-p", "--resume", work.path.stem, "--rewind-files", prompts[turn]]
        run_client([*client, *arguments], work.root, environment)
        return {path.name: path.read_text() for path in work.root.iterdir()} == STATES[turn]


def talk_agrees(client: list[str], turn: int) -> bool:
    """Return whether the client continues where turnlog rewound to."""
    with tempfile.TemporaryDirectory() as home:
        work, prompts = record(Path(home))
        session = open_session(work.path)
        plan = plan_rewind(work.store, session, prompts[turn], work.root)
        apply_rewind(plan, RewindScope.CONVERSATION, session, Journal(Path(home, "journal")))
        sent = resume(client, work.path)
        # Clients but the newest answer what a conversation ends with, where nothing does.
        ours = said(session.context())
        return (
            sent is not None and said(sent)[: len(ours)] == ours and len(said(sent)) < len(ours) + 2
        )


def main() -> int:
    """Try each prompt, print a row for each."""
    client = shlex.split(sys.argv[1])
    bring_up_loopback()
    different = 0
    kinds = {"files": files_agree} if restores_files(client) else {}
    for what, agrees in (kinds | {"conversation": talk_agrees}).items():
        for turn in range(len(TURNS)):
            is_same = agrees(client, turn)
            different += not is_same
            print(
                f"{'equal' if is_same else 'DIFFERENT':10} {what} at prompt {turn + 1}", flush=True
            )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
