"""The examples in docs/library.md and in examples/ run, on a copy of the sample sessions."""

import os
import re
import shutil
import socketserver
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "library.md").read_text("utf-8")
LONG_AGO = 1_763_000_000
"""A modification time that no edit takes for a session in use."""


def code_in(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A directory with two copies of the samples, on different machines."""
    for machine in ("desktop", "laptop"):
        shutil.copytree(ROOT / "src/turnlog/samples", tmp_path / machine / ".claude")
    for path in tmp_path.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return tmp_path


def run_python(workplace: Path, *arguments: str) -> str:
    """Run Python in an environment of its own; return its output."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUTF8": "1",
        "HOME": str(workplace),
        "CLAUDE_CONFIG_DIR": str(workplace / "desktop" / ".claude"),
        "TZ": "UTC",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=workplace,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def test_the_examples_print_what_the_page_shows(workplace: Path) -> None:
    script = workplace / "page.txt"
    script.write_text("\n".join(code_in("pycon")), "utf-8")
    assert run_python(workplace, "-m", "doctest", "-o", "ELLIPSIS", str(script)) == ""


def test_rows_become_data_frames(workplace: Path) -> None:
    (block,) = code_in("python")
    run_python(workplace, "-c", f"import turnlog\nlog = turnlog.open()\n{block}")


def test_the_page_shows_every_public_method() -> None:
    from turnlog.api import Log, LoggedSession

    names = [name for each in (Log, LoggedSession) for name in vars(each) if name[0] != "_"]
    assert [name for name in names if name not in PAGE] == []


def test_where_the_money_went(workplace: Path) -> None:
    printed = run_python(workplace, str(ROOT / "examples/where_the_money_went.py"), "2026-10-01")
    assert "/home/ada/shop" in printed
    assert "Faster product search" in printed


def test_tool_errors_per_project(workplace: Path) -> None:
    printed = run_python(workplace, str(ROOT / "examples/tool_errors_per_project.py"))
    assert re.search(r"/home/ada/shop +Bash +1 of \d+", printed)


def test_weekly_email_report(workplace: Path) -> None:
    script = str(ROOT / "examples/weekly_email_report.py")
    printed = run_python(workplace, script, "ada@example.org", "--week", "2026-11-12")
    assert "To: ada@example.org" in printed
    assert "Subject: Claude Code, week of 2026-11-09: 2 sessions, $" in printed
    assert "Fix the rounding bug in invoices" in printed


class Mailbox(socketserver.StreamRequestHandler):
    """Receives one message by SMTP."""

    received: ClassVar[list[bytes]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self.received.extend(iter(self.rfile.readline, b".\r\n"))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")


def test_the_weekly_report_is_sent(workplace: Path) -> None:
    script = str(ROOT / "examples/weekly_email_report.py")
    with socketserver.TCPServer(("127.0.0.1", 0), Mailbox) as server:
        Thread(target=server.serve_forever).start()
        place = f"127.0.0.1:{server.server_address[1]}"
        week = ("--week", "2026-11-12", "--smtp", place)
        try:
            assert run_python(workplace, script, "ada@example.org", *week) == ""
        finally:
            server.shutdown()
    message = b"".join(Mailbox.received).decode()
    assert "To: ada@example.org" in message
    assert "Fix the rounding bug in invoices" in message


def test_the_weekly_report_of_an_idle_week_says_so(workplace: Path) -> None:
    script = str(ROOT / "examples/weekly_email_report.py")
    assert "No sessions" in run_python(workplace, script, "ada@example.org", "--week", "2020-01-01")
