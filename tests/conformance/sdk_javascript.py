"""Do programs that use the TypeScript SDK get the same from `turnlog-chat` as from the client?

    npm install --ignore-scripts --prefix DIR @anthropic-ai/claude-agent-sdk zod
    sudo unshare --net env PYTHONPATH=src:tests \
        python tests/conformance/sdk_javascript.py CLIENT DIR/node_modules [PROGRAM ...]

CLIENT is the path of an installed client. Each program of `javascript/programs.mjs` runs against it
and against `turnlog-chat`, each with a home and a scripted API of its own. An outcome is what the
program prints and what the API was asked. Prints a row for each program, and exits with 1 if any
outcomes differ.

    --show      print outcomes that differ
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from client import bring_up_loopback

from support.scripted_api import Reply, ScriptedApi, answered, refused, scripted_api
from support.sdk_rig import own_client
from turnlog.format.json_values import Fields

PROGRAMS = Path(__file__).parent / "javascript" / "programs.mjs"
SECONDS = 120
SHORT = 16
"""Characters of the texts that programs and the scripted model say."""
MARKS = (
    *("Be brief.", "Remember the milk.", "Mend it thoroughly"),
    *("from the hook", "seen by the hook", "once more"),
)
"""Texts of the programs that may be anywhere in a request."""


def reply_of(given: Fields) -> Reply:
    """A reply of the API as a program describes it."""
    if given.get("status"):
        return refused(given["status"], "no such thing", "invalid_request_error")
    has_call = any(block["type"] == "tool_use" for block in given["content"])
    reply = answered(*given["content"], stop_reason="tool_use" if has_call else "end_turn")
    return reply._replace(hold_after=given.get("hold_after"))


def environment_of(home: Path, modules: Path, address: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "TURNLOG_HOME": str(home / "turnlog"),
        "MODULES": str(modules),
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }


def requests_of(api: ScriptedApi, home: Path) -> list[Any]:
    """Return model, short texts and marks of each request to the API."""
    # The client asks another model for a word before it switches to it.
    bodies = [each.body for each in api.requests if _exchanged(each.body) != ["user: Hi"]]
    found = [[body["model"], _exchanged(body), _marks(body)] for body in bodies]
    return json.loads(json.dumps(found).replace(str(home), "~"))


def _exchanged(body: Fields) -> list[str]:
    """The first lines of what users and the model said; clients add context below and around."""
    found: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        lines = [block["text"].partition("\n")[0] for block in blocks if block["type"] == "text"]
        short = [line for line in lines if len(line) < SHORT and not line.startswith("<")]
        found += [f"{message['role']}: {line}" for line in short if message["role"] != "system"]
    return found


def _marks(body: Fields) -> list[str]:
    text = json.dumps(body)
    return [mark for mark in MARKS if mark in text]


def outcome(name: str, replies: list[Fields], client: Path, modules: Path) -> Any:
    """Return the output of a program, and its requests to the API."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        (home / "work").mkdir()
        texts = json.dumps(replies).replace(str(Path.cwd()), str(home / "work"))
        with scripted_api(*map(reply_of, json.loads(texts))) as api:
            try:
                done = subprocess.run(
                    ["node", str(PROGRAMS), name, str(client)],
                    cwd=home / "work",
                    env=environment_of(home, modules, api.url),
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return {"failed": "timeout", "requests": requests_of(api, home)}
            if done.returncode or not done.stdout.strip():
                return {"failed": done.stderr.strip()[-400:] or done.returncode}
            said = json.loads(done.stdout.replace(str(home), "~").splitlines()[-1])
            # How often a request is repeated that fails is not compared.
            has_failed = any(reply.get("status") for reply in replies)
            return {"outcome": said, "requests": [] if has_failed else requests_of(api, home)}


def main() -> int:
    """Run and compare, print a row for each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("client", type=Path)
    parser.add_argument("modules", type=Path)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_intermixed_args()
    bring_up_loopback()
    modules = given.modules.resolve()
    listed = subprocess.run(["node", str(PROGRAMS)], capture_output=True, text=True, check=True)
    scripts: dict[str, list[Fields]] = json.loads(listed.stdout)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        own = own_client(Path(folder))
        for name in given.programs or scripts:
            real = outcome(name, scripts[name], given.client.resolve(), modules)
            ours = outcome(name, scripts[name], own, modules)
            is_same = ours == real and "failed" not in real
            bad += not is_same
            print(f"{name:36} {'equal' if is_same else 'DIFFERENT'}", flush=True)
            if given.show and not is_same:
                print(f"  client:  {json.dumps(real)}\n  turnlog: {json.dumps(ours)}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
