"""Does the real client send the whole conversation of a session that was repaired?

    sudo unshare --net env PYTHONPATH=tests python tests/conformance/repair.py CLIENT [FAULT ...]

Each fault that `turnlog check` finds and a repair can mend is planted in a session. The client
resumes it as it is, repaired, and as it would be had it never been broken. Prints a row for each
fault, and exits with 1 if what was repaired says other things than what was never broken.
"""

import json
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from client import bring_up_loopback
from resume import Messages, resume, said

from support.build import SESSION
from support.faults import PLANTED
from turnlog.conversation.session import open_session
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import EditOptions, prepared

HOPELESS = ("no-conversation", "lost-output", "lost-subagent")


@cache
def sent_for(client: str, content: bytes) -> Messages | None:
    """Return what the client sends for a session; None if it refuses or fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{SESSION}.jsonl")
        path.write_bytes(content)
        try:
            sent = resume(shlex.split(client), path)
        except subprocess.TimeoutExpired:
            return None
    return None if sent is None else said(sent)


def repaired(content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{SESSION}.jsonl")
        path.write_bytes(content)
        with prepared(open_session(path), EditOptions(["repair"])) as ready:
            return b"".join(carry_out(ready.plan, ready.tally))


def verdict(sent: Messages | None, whole: Messages) -> str:
    """Return how the messages sent differ from those of a sound conversation."""
    if sent is None:
        return "refused"
    found, wanted = _blocks(sent), _blocks(whole)
    if found == wanted:
        return "equal"
    missing = sum(block not in found for block in wanted)
    return f"{missing} of {len(wanted)} blocks lost" if missing else "more"


def _blocks(messages: Messages) -> list[str]:
    """Return roles and blocks; calls are named by their order."""
    told = json.dumps(messages)
    calls = [block["id"] for _, blocks in messages for block in blocks if "id" in block]
    for number, name in enumerate(dict.fromkeys(calls)):
        told = told.replace(json.dumps(name), f'"call {number}"')
    return [
        json.dumps([role, block], sort_keys=True)
        for role, blocks in json.loads(told)
        for block in blocks
    ]


def main() -> int:
    """Break, repair and resume sessions, print a row for each."""
    client, *names = sys.argv[1:]
    bring_up_loopback()
    faults = {name: fault for name, fault in PLANTED.items() if fault.kind not in HOPELESS}
    wrong = 0
    for name in names or faults:
        fault = faults[name]
        whole = sent_for(client, fault.whole)
        if whole is None:
            print(f"{name:40} not even whole", flush=True)
            continue
        broken = verdict(sent_for(client, fault.content), whole)
        after = verdict(sent_for(client, repaired(fault.content)), whole)
        wrong += after != "equal"
        print(f"{name:40} {fault.kind:18} {fault.severity:6} {broken:22} {after}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
