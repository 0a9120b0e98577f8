"""The output of `turnlog chat -p` in docs/chat.md is what it prints."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.plays import play, text, use
from support.scripted_api import said, scripted_api

PAGE = Path(__file__).parent.parent / "docs" / "chat.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
CART = "def total(items, discount):\n    return sum(items) * (100 - discount) / 100\n"
READ = use("Read", file_path="cart.py")
EDIT = use("Edit", file_path="cart.py", old_string="sum(items)", new_string="round(sum(items))")
SCRIPTS = {
    "What does cart.py do?": [
        [READ],
        [text("It adds up the prices of a cart, less a discount.")],
    ],
    "And in what currency?": [[text("It does not say.")]],
    "Also name the currency.": [
        [text("It adds up the prices of a cart, less a discount, and names no currency.")]
    ],
    "Review this": [[text("Fine, but for the missing test.")]],
    "Round the total.": [[READ], [EDIT], [text("The total is rounded.")]],
}


def commands_in(block: str) -> str:
    """Return the commands of a block: lines after `$`, continued after `>`."""
    return "\n".join(line[2:] for line in block.splitlines() if line.startswith(("$ ", "> ")))


def printed_in(block: str) -> str:
    lines = block.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("$ ", "> ")))


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[2:60])
def test_commands_print_what_the_page_shows(block: str, tmp_path: Path) -> None:
    work = tmp_path / "shop"
    work.mkdir()
    (work / "cart.py").write_text(CART)
    with scripted_api(said("I do not know.")) as api:
        api.choose = play(SCRIPTS)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "ANTHROPIC_BASE_URL": api.url,
            "ANTHROPIC_API_KEY": "not-a-key",
        }
        done = subprocess.run(
            ["bash", "-c", commands_in(block)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stdout, done.stderr) == (printed_in(block), "")


def test_the_page_shows_commands() -> None:
    assert len(BLOCKS) >= 5
