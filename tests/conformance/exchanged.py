"""Does the real client resume sessions that went through a sync, each machine its own branch?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/exchanged.py CLIENT FILE ...

For each session, the client continues it on two machines with different homes, each with a prompt
of its own. After an exchange the client resumes it on both: it must send what it would have sent
without the exchange. Prints a row for each session, and exits with 1 if any differs.
"""

import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from client import bring_up_loopback, environment_of, run_client
from resume import DONE, UNCOMPACTED, resume, said

from support.machines import SyncedMachine, all_sync
from support.scripted_api import scripted_api
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.store.paths import folder_name, sidecar_folder


def continue_session(client: list[str], machine: SyncedMachine, session: str, prompt: str) -> Path:
    """Let the client continue a session in `~/shop`; return its file."""
    work = machine.home / "shop"
    path = machine.store.projects / folder_name(str(work)) / f"{session}.jsonl"
    with scripted_api(DONE) as api:
        environment = environment_of(machine.home, api.url) | UNCOMPACTED
        run_client([*client, "-p", prompt, "--resume", session], work, environment)
    return path


def compare(client: list[str], session: Path, folder: Path) -> str:
    machines = [SyncedMachine(folder / name, str(folder / "dest")) for name in ("ada", "bob")]
    paths: list[Path] = []
    for machine in machines:
        work = machine.home / "shop"
        work.mkdir()
        project = machine.store.projects / folder_name(str(work))
        project.mkdir()
        shutil.copy(session, project)
        if sidecar_folder(session).is_dir():
            shutil.copytree(sidecar_folder(session), project / session.stem)
        prompt = f"Continue on {machine.home.name}"
        paths.append(continue_session(client, machine, session.stem, prompt))
    before = [(_sent(client, path), _kinds(path)) for path in paths]
    if any(sent is None for sent, _ in before):
        return "refused"
    # Each client recorded the directory of its machine, which both call `~/shop`.
    reports = all_sync(machines, rounds=2)
    after = [(_sent(client, path), _kinds(path)) for path in paths]
    if not any(report.merged for report in reports):
        return "UNMERGED"
    if [sent for sent, _ in before] != [sent for sent, _ in after]:
        return "DIFFERENT"
    pairs = zip(before, after, strict=True)
    found = set[str]().union(*(new - old for (_, old), (_, new) in pairs))
    # The other branch may be the newer one by its times, which clients up to 2.1.45 go by.
    found.discard("late-time")
    return f"FINDINGS {sorted(found)}" if found else "equal"


def _sent(client: list[str], path: Path) -> Any:
    sent = resume(client, path)
    return None if sent is None else said(sent)


def _kinds(path: Path) -> set[str]:
    return {finding.kind for finding in check_session(open_session(path))}


def main() -> int:
    """Compare sessions, print a row for each."""
    client = shlex.split(sys.argv[1])
    bring_up_loopback()
    failed = 0
    for path in map(Path, sys.argv[2:]):
        with tempfile.TemporaryDirectory() as folder:
            verdict = compare(client, path, Path(folder))
        failed += verdict not in ("equal", "refused")
        print(f"{verdict:10} {path}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
