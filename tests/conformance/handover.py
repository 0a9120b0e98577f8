"""Does `turnlog resume` open sessions in the real client that it could not resume itself?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/handover.py CLIENT ...

Each CLIENT is the path of an installed client's program. For each of them and each case, a session
of three turns is put into a home of its own: sound, in a directory that is gone, under another
directory's folder, damaged, or only in the archive. turnlog follows the hints that it prints, then
resumes the session. Prints a row for each case, and exits with 1 unless the client sent all turns,
from the right directory.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from client import SECONDS, bring_up_loopback, environment_of
from resume import DONE, PROMPT, UNCOMPACTED

from support.build import SESSION, assistant, moment, session, text, user
from support.scripted_api import ScriptedApi, scripted_api
from turnlog.store.paths import folder_name
from turnlog.store.resume_command import client_version

TURNS = ("alpha", "beta", "gamma")
TURNLOG = [sys.executable, "-P", "-m", "turnlog"]


class Lab(NamedTuple):
    """A home with one session."""

    home: Path
    work: Path
    """The session's directory."""
    path: Path
    environment: dict[str, str]

    def turnlog(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TURNLOG, *words],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def make_lab(home: Path, program: Path, api: ScriptedApi, version: str) -> Lab:
    """Put a session of three turns into a home, where `claude` is the program."""
    work, programs = home / "work", home / "programs"
    folder = home / ".claude/projects" / folder_name(str(work))
    for each in (work, programs, folder):
        each.mkdir(parents=True)
    (programs / "claude").symlink_to(program)
    common: dict[str, Any] = {"cwd": str(work), "version": version}
    lines = [
        line
        for turn in TURNS
        for line in (
            user(f"prompt {turn}", **common),
            assistant(text(f"answer {turn}"), message_id=f"msg_{turn}", **common),
        )
    ]
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(session(*lines))
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    environment = environment_of(home, api.url) | UNCOMPACTED
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    return Lab(home, work, path, environment)


def follow_hint(lab: Lab, failed: subprocess.CompletedProcess[str], place: Path) -> None:
    """Run the command that turnlog printed, from a directory."""
    hint = failed.stderr.partition("(try: ")[2].partition(")")[0]
    words = shlex.split(hint)
    assert words[:1] == ["turnlog"], failed.stderr
    subprocess.run(
        [*TURNLOG, *words[1:]],
        cwd=place,
        env=lab.environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )


# Each case changes the session, and returns the directory that it should be resumed in.


def leave_sound(lab: Lab) -> Path:
    return lab.work


def lose_directory(lab: Lab) -> Path:
    elsewhere = lab.home / "elsewhere"
    lab.work.rename(elsewhere)
    follow_hint(lab, lab.turnlog("resume", SESSION, "--", "-p", PROMPT), elsewhere)
    return elsewhere


def misplace(lab: Lab) -> Path:
    other = lab.path.parent.with_name("-another-machine")
    lab.path.parent.rename(other)
    follow_hint(lab, lab.turnlog("resume", SESSION, "--", "-p", PROMPT), lab.home)
    return lab.work


def tear(lab: Lab) -> Path:
    """Lose the time at the end, without which clients refuse or forget the session."""
    last = f'"timestamp":"{moment(2 * len(TURNS))}",'.encode()
    assert last in lab.path.read_bytes()
    lab.path.write_bytes(lab.path.read_bytes().replace(last, b""))
    hour_ago = time.time() - 3600
    os.utime(lab.path, (hour_ago, hour_ago))
    return lab.work


def archive(lab: Lab) -> Path:
    assert lab.turnlog("archive").returncode == 0
    shutil.rmtree(lab.path.parent)
    follow_hint(lab, lab.turnlog("resume", SESSION, "--", "-p", PROMPT), lab.home)
    return lab.work


def expire(lab: Lab) -> Path:
    """Make a session so old that the client deletes it when it starts."""
    os.utime(lab.path, (0, 0))
    return lab.work


CASES: dict[str, Callable[[Lab], Path]] = {
    "sound": leave_sound,
    "directory gone": lose_directory,
    "moved": misplace,
    "broken": tear,
    "missing": archive,
    "due for clean-up": expire,
}


def judge(program: Path, case: str) -> str:
    """Resume one session; return what is wrong, or `resumed`."""
    version = client_version(str(program)) or "2.1.325"
    with tempfile.TemporaryDirectory() as home, scripted_api(DONE) as api:
        lab = make_lab(Path(home).resolve(), program, api, version)
        place = CASES[case](lab)
        done = lab.turnlog("resume", SESSION, "--repair", "--", "-p", PROMPT)
        asked = [json.dumps(request.body["messages"]) for request in api.requests]
        sent = next((each for each in asked if PROMPT in each), None)
        if sent is None:
            return f"nothing was sent: {done.stderr.strip()[-300:]}"
        texts = [f"{kind} {turn}" for turn in TURNS for kind in ("prompt", "answer")]
        if missing := [each for each in texts if each not in sent]:
            return f"lost {', '.join(missing)}"
        folders = {path.parent.name for path in lab.path.parent.parent.rglob("*.jsonl")}
        wanted = folder_name(str(place))
        return "resumed" if wanted in folders else f"not in {wanted}"


def main() -> int:
    """Judge every case with every client, print a row for each."""
    bring_up_loopback()
    wrong = 0
    for program in map(Path, sys.argv[1:]):
        version = client_version(str(program)) or "unknown"
        for case in CASES:
            verdict = judge(program, case)
            wrong += verdict != "resumed"
            print(f"{version:10} {case:15} {verdict}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
