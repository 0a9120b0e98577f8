"""Modules loaded before the prompt appears: none that takes long."""

import json
import subprocess
import sys

SLOW = {"anthropic", "mcp", "pydantic", "rich", "tree_sitter", "markdown_it", "pygments"}


def test_the_prompt_does_not_wait_for_what_is_needed_later() -> None:
    code = "import turnlog.agent.terminal.screen, sys, json; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not {name.partition(".")[0] for name in loaded} & SLOW
    assert not loaded & {"turnlog.agent.chat.opening", "turnlog.conversation.session"}
