"""Do the examples of the Agent SDK run unchanged with `turnlog-chat` in place of the client?

    pip download --no-deps --no-binary claude-agent-sdk claude-agent-sdk
    tar xzf claude_agent_sdk-*.tar.gz
    PYTHONPATH=src:tests python tests/conformance/sdk_examples.py EXAMPLES [CLIENT]

The examples look for `claude` in PATH: that is `turnlog-chat` here, or CLIENT. A scripted API
answers every prompt with the same words. Prints a row for each example: its exit code and its last
line.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from client import bring_up_loopback

from support.scripted_api import said, scripted_api
from support.sdk_rig import own_client

SECONDS = 400
OTHERS = {"streaming_mode_ipython": "snippets for a notebook", "session_stores": "need servers"}
ARGUMENTS = {"streaming_mode": ["all"], "hooks": ["all"], "setting_sources": ["all"]}


def run(example: Path, client: Path, home: Path, address: str) -> tuple[int, str]:
    """The exit code of an example, and the last line that it printed."""
    programs = home / "bin"
    programs.mkdir()
    (programs / "claude").symlink_to(client)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(home),
        "TMPDIR": str(home),
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    command = [sys.executable, str(example), *ARGUMENTS.get(example.stem, [])]
    try:
        done = subprocess.run(
            command,
            cwd=example.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, "timeout"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return done.returncode, lines[-1] if lines else ""


def main() -> int:
    """Run all examples; print a row for each."""
    bring_up_loopback()
    folder = Path(sys.argv[1])
    bad = 0
    for example in sorted(folder.glob("*.py")):
        if example.stem in OTHERS:
            print(f"{example.stem:30} left out: {OTHERS[example.stem]}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as place, scripted_api(said("Hello.")) as api:
            own = own_client(Path(place))
            client = Path(sys.argv[2]) if len(sys.argv) > 2 else own
            code, line = run(example.resolve(), client.resolve(), Path(place), api.url)
        bad += code != 0
        print(f"{example.stem:30} exit {code:3}  {line[:80]}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
