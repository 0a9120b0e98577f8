"""A real Chromium, driven by Playwright."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parents[2]
PATIENCE = 60_000
"""Milliseconds to wait for what a page should show; five seconds are few on a busy machine."""
AXE = ROOT / ".cache/chromium/axe/axe.min.js"


@cache
def chromium() -> Path:
    """Return the path of Chromium, set up if need be."""
    script = ROOT / "scripts/chromium.py"
    done = subprocess.run([sys.executable, script], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip())


@contextmanager
def open_browser() -> Generator[Browser]:
    """Start Chromium, without a sandbox of its own: tests run as root in containers."""
    program = chromium()
    expect.set_options(timeout=PATIENCE)
    beside = {
        "LD_LIBRARY_PATH": str(program.parent / "lib"),
        "FONTCONFIG_PATH": str(program.parent),
    }
    environment: dict[str, str | float | bool] = {**os.environ}
    environment |= beside if program.is_relative_to(ROOT) else {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            env=environment,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield browser
        browser.close()
