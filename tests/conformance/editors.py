"""Can the real client resume sessions that an editor begins with `--acp`, and the reverse?

    npm install --ignore-scripts --prefix DIR @agentclientprotocol/claude-agent-acp
    sudo unshare --net env PYTHONPATH=src:tests \
        python tests/conformance/editors.py CLIENT [DIR/node_modules]

CLIENT is the path of an installed client. An editor, made with the protocol's own library, begins a
session with a call, a change, a plan and an image. The client resumes it with `-p`, then an editor
loads it again. With node_modules, claude-agent-acp runs the same session with CLIENT and with
`turnlog-chat` as its executable, and the updates are compared. Prints a row for each step, and
exits with 1 if any of them fails.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from acp.client.connection import ClientSideConnection
from acp.helpers import image_block
from client import SECONDS, bring_up_loopback

from support.acp_client import AcpRig, Editor, ask, opened, play
from support.media import picture
from support.scripted_api import ScriptedApi, called, said, scripted_api
from support.sdk_rig import own_client
from turnlog.conversation.session import open_session
from turnlog.format.json_values import is_object

ADAPTER = "@agentclientprotocol/claude-agent-acp/dist/index.js"
STEPS = [{"content": "Do A", "status": "in_progress", "activeForm": "Doing A"}]


def script(api: ScriptedApi, work: Path) -> None:
    """Let the model look, change a file, plan and answer."""
    api.requests.clear()
    api.replies[:] = [
        called(("c1", "Bash", {"command": "touch made"}), text="I make it."),
        called(("c2", "Write", {"file_path": str(work / "b.txt"), "content": "beta\n"})),
        called(("c3", "TodoWrite", {"todos": STEPS})),
        said("All done."),
        said("An image."),
        said("Resumed."),
    ]


async def converse(connection: ClientSideConnection, rig: AcpRig) -> str:
    """Two turns of a new session; returns its id."""
    session = await opened(connection, rig)
    await ask(connection, session, "do it")
    image = image_block(base64.b64encode(picture(4, 4)).decode(), "image/png")
    await ask(connection, session, "look", image)
    return session


def begin(rig: AcpRig) -> str:
    """Begin a session in an editor; return its id."""
    made: list[str] = []

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: options[0].option_id
        made.append(await converse(connection, rig))

    play(rig, scene)
    return made[0]


def resume(rig: AcpRig, client: Path, session: str, api: ScriptedApi) -> list[str]:
    """Resume a session in the client; return what is wrong."""
    before = rig.sessions()[0].read_bytes()
    own = open_session(rig.sessions()[0]).context()
    done = subprocess.run(
        [str(client), "-p", "--resume", session, "and now?"],
        cwd=rig.work,
        env=rig.environment | {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    sent = json.dumps(api.requests[-1].body["messages"])
    expected = ("do it", "I make it.", "touch made", "All done.", "An image.", "and now?")
    problems = [f"{text!r} was not sent" for text in expected if text not in sent]
    problems += [] if done.returncode == 0 else [f"exit {done.returncode}: {done.stderr[-200:]}"]
    problems += [] if '"media_type": "image/png"' in sent else ["the image was not sent"]
    calls = [block for each in own for block in each["content"] if _is_call(block)]
    problems += [f"{each['id']} was not sent" for each in calls if f'"{each["id"]}"' not in sent]
    after = rig.sessions()[0].read_bytes()
    return problems + ([] if after.startswith(before) else ["lines were changed"])


def _is_call(block: Any) -> bool:
    return is_object(block) and block.get("type") == "tool_use"


def load(rig: AcpRig, session: str) -> list[str]:
    """Load the session in an editor again; return what is wrong."""
    problems: list[str] = []

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        await connection.load_session(cwd=str(rig.work), session_id=session, mcp_servers=[])
        asked, told = editor.text("user_message_chunk"), editor.text()
        problems.extend(f"{each} is missing" for each in ("do it", "and now?") if each not in asked)
        problems.extend(
            f"{each} is missing" for each in ("All done.", "Resumed.") if each not in told
        )
        await ask(connection, session, "once more")

    play(rig, scene)
    return problems


class AdapterRig(AcpRig):
    """Starts claude-agent-acp, which starts an executable through the TypeScript SDK."""

    def __init__(self, modules: Path, executable: Path, home: Path, address: str) -> None:
        home.mkdir()
        command = home / "adapter"
        node = shutil.which("node")
        # The adapter takes no arguments; `--acp` is for turnlog.
        command.write_text(f'#!/bin/sh\nexec "{node}" "{modules / ADAPTER}"\n')
        command.chmod(0o755)
        super().__init__(command, home, address)
        self.environment["CLAUDE_CODE_EXECUTABLE"] = str(executable)
        self.environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"


def adapted(rig: AdapterRig, api: ScriptedApi) -> Any:
    """Return what an editor sees of the session through the adapter."""
    script(api, rig.work)
    found: dict[str, Any] = {}

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: next(
            each.option_id for each in options if each.kind == "allow_once"
        )
        session = await opened(connection, rig)
        found["stop"] = await ask(connection, session, "do it")
        await connection.set_session_mode(session_id=session, mode_id="plan")
        listed = await connection.list_sessions(cwd=str(rig.work))
        found["listed"] = [each.session_id == session for each in listed.sessions]

    editor = play(rig, scene)
    found["text"] = editor.text()
    found["asked"] = [each["call"]["toolCallId"] for each in editor.questions]
    for call in ("c1", "c2"):
        found[call] = editor.statuses(call)[-1:]
    found["plan"] = [each["content"] for plan in editor.of("plan") for each in plan["entries"]]
    found["files"] = sorted(each.name for each in rig.work.iterdir())
    return found


def report(step: str, problems: list[str]) -> bool:
    print(f"{step:44} {'; '.join(problems) or 'fine'}", flush=True)
    return bool(problems)


def main() -> int:
    """Run every step."""
    client = Path(sys.argv[1]).resolve()
    modules = Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    bring_up_loopback()
    bad = 0
    with tempfile.TemporaryDirectory() as folder, scripted_api(said("never")) as api:
        place = Path(folder).resolve()
        own = own_client(place)
        rig = AcpRig(own, place / "home", api.url)
        script(api, rig.work)
        session = begin(rig)
        bad += report(
            "a session of an editor resumes in the client", resume(rig, client, session, api)
        )
        bad += report("what the client added is loaded again", load(rig, session))
        if modules:
            theirs, ours = (
                adapted(AdapterRig(modules, each, place / name, api.url), api)
                for name, each in (("theirs", client), ("ours", own))
            )
            is_same = theirs == ours and theirs["files"] == ["b.txt", "made"]
            differing = [] if is_same else [f"client {theirs}, turnlog {ours}"]
            bad += report("claude-agent-acp with both executables", differing)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
