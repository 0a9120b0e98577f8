"""Does the real client send the same after a session moved to another home in a bundle?

    sudo unshare --net env PYTHONPATH=src:tests python tests/conformance/bundles.py CLIENT FILE ...

Each session is placed in one home, resumed there, bundled, unbundled in the home of another user
with another project directory, and resumed again. Messages must be the same except for paths and
placeholders. Prints a row for each session, and exits with 1 if any differs.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from client import bring_up_loopback, environment_of, run_client
from resume import DONE, PROMPT, UNCOMPACTED, said

from support.scripted_api import scripted_api
from turnlog.edit.move import directory_of
from turnlog.secrets import MASKED
from turnlog.store.paths import folder_name, sidecar_folder

BY_SESSION = ("file-history", "todos", "plans", "tasks")


class Machine(NamedTuple):
    """A home and a project in it."""

    home: Path
    work: Path

    @property
    def store(self) -> Path:
        return self.home / ".claude"

    @property
    def spellings(self) -> list[tuple[str, str]]:
        """The paths that differ between machines, the longest first, with a common name."""
        work, home = str(self.work), str(self.home)
        return [(work, "<work>"), (folder_name(work), "<folder>"), (home, "<home>")]


def set_up(root: Path, user: str, project: str) -> Machine:
    """Create a home with a project."""
    machine = Machine(root / user, root / user / project)
    machine.work.mkdir(parents=True)
    return machine


def place(machine: Machine, session: Path) -> None:
    """Copy a session as if it had been recorded in the project of a machine."""
    folder = machine.store / "projects" / folder_name(str(machine.work))
    folder.mkdir(parents=True)
    old = directory_of(session)
    root = session.parent.parent.parent
    others = [root / kind for kind in BY_SESSION]
    files = [session, *sidecar_folder(session).rglob("*"), *session.parent.glob("agent-*.jsonl")]
    pairs = [(path, folder / path.relative_to(session.parent)) for path in files]
    below = (path for other in others if other.is_dir() for path in other.rglob("*"))
    pairs += [(path, machine.store / path.relative_to(root)) for path in below]
    for source, target in pairs:
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            raw = source.read_bytes()
            if old:
                raw = raw.replace(old.encode(), str(machine.work).encode())
                raw = raw.replace(folder_name(old).encode(), folder.name.encode())
            target.write_bytes(raw)


def sent(client: list[str], machine: Machine, name: str) -> list[dict[str, Any]] | None:
    """Return what the client sends when it resumes a session in a copy of a home."""
    before = machine.store.with_name("before")
    shutil.copytree(machine.store, before)
    try:
        with scripted_api(DONE) as api:
            arguments = ["-p", PROMPT, "--resume", name]
            environment = environment_of(machine.home, api.url) | dict(UNCOMPACTED)
            run_client([*client, *arguments], machine.work, environment)
            asked = [request.body["messages"] for request in api.requests]
        return next((each for each in asked if PROMPT in json.dumps(each)), None)
    finally:
        shutil.rmtree(machine.store)
        before.rename(machine.store)


def turnlog(machine: Machine, *arguments: str) -> str:
    """Run turnlog in a home; return an error, or nothing."""
    keep = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "turnlog", *arguments],
        cwd=machine.work,
        env=keep | {"HOME": str(machine.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""


def normalized(machine: Machine, messages: list[dict[str, Any]]) -> str:
    """Return messages as JSON, with common names for the paths of a machine."""
    text = json.dumps(said(messages), ensure_ascii=False, sort_keys=True)
    for path, name in machine.spellings:
        text = text.replace(path, name)
    return text


def are_equal(one: str, other: str) -> bool:
    """Return whether messages are equal, apart from placeholders in the second."""
    if one == other:
        return True
    pieces = re.split(f"({MASKED})", other)
    return re.fullmatch(".+?".join(map(re.escape, pieces[::2])), one, re.DOTALL) is not None


def compare(client: list[str], session: Path, root: Path) -> str:
    """Return the verdict on a session."""
    ada, bob = set_up(root / "one", "ada", "work/shop"), set_up(root / "two", "bob", "src/the-shop")
    place(ada, session)
    bundle = str(root / "x.turnlog")
    if error := turnlog(ada, "bundle", session.stem, "-o", bundle):
        return f"NOT BUNDLED {error}"
    if error := turnlog(bob, "unbundle", bundle, "--into", str(bob.work)):
        return f"NOT IMPORTED {error}"
    first, second = sent(client, ada, session.stem), sent(client, bob, session.stem)
    if first is None or second is None:
        return "refused" if first is second else "DIFFERENT: refused in one home only"
    one, other = normalized(ada, first), normalized(bob, second)
    if str(ada.home) in other or not are_equal(one, other):
        return "DIFFERENT"
    return f"equal      {len(first):3} messages{', with placeholders' if one != other else ''}"


def main() -> int:
    """Compare sessions, print a row for each."""
    client = shlex.split(sys.argv[1])
    bring_up_loopback()
    bad = 0
    for path in map(Path, sys.argv[2:]):
        with tempfile.TemporaryDirectory() as root:
            verdict = compare(client, path.absolute(), Path(root))
        bad += verdict.isupper() or verdict.startswith(("DIFFERENT", "NOT"))
        print(f"{verdict}  {path}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
