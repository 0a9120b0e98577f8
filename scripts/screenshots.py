"""Take the screenshots of docs/web: every page of the web app, light and dark, wide and narrow.

Run from the project's folder: PYTHONPATH=tests .venv/bin/python scripts/screenshots.py
A sample is in Japanese: without a font for it (Debian: fonts-droid-fallback), its names are blank.
With Chromium from npm, copying the font to .cache/chromium/fonts is enough.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Page

from support.browser import open_browser
from support.build import assistant, call, result, text, user
from support.live_store import RunningSession, running_sessions
from support.web_server import WebServer, running_command

OUTPUT = Path("docs/web")
SAMPLES = Path("src/turnlog/samples")
SESSION = "4f5f8720-af70-53dc-8f4b-be57158123ef"
OTHER = "b01df9ba-d2e0-5f8c-9bd4-9f550629f164"
LOOKS = ("light", "dark")
SIZES = {"wide": (1280, 800), "narrow": (375, 700)}
COLOURS = 64
"""Colours of a picture: pages have few, and a palette makes files three times smaller."""


class Scene(NamedTuple):
    """A page to take a picture of."""

    name: str
    path: str
    click: str | None = None
    """Element to click first."""


SCENES = (
    Scene("overview", "/"),
    Scene("sessions", "/sessions?q=search"),
    Scene("session", f"/sessions/{SESSION}?turn=3"),
    Scene("compaction", f"/sessions/{SESSION}?turn=4", ".tl-compaction button"),
    Scene("compare", f"/compare?a={SESSION}&b={OTHER}"),
    Scene("cost", "/cost?carrying=1"),
    Scene("tools", "/tools"),
    Scene("files", "/files"),
    Scene("live", "/live"),
)


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, at_work(Path(scratch)) as store:
        # Below a home directory, so that commands on the pages name no path of this machine.
        samples = Path(scratch) / "home" / ".claude"
        shutil.copytree(SAMPLES, samples)
        os.environ |= {"HOME": str(samples.parent), "XDG_CACHE_HOME": f"{scratch}/cache"}
        os.environ.pop("CLAUDE_CONFIG_DIR", None)
        with running_command("--store", str(samples), "--store", str(store)) as server:
            take_all(server)


def take_all(server: WebServer) -> None:
    with open_browser() as browser:
        first = browser.new_context()
        first.new_page().goto(server.url)
        cookies = first.storage_state()
        for look in LOOKS:
            for size, (width, height) in SIZES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if look == "dark" else "light",
                    storage_state=cookies,
                )
                page = context.new_page()
                for scene in SCENES:
                    take(page, server.origin, scene, OUTPUT / f"{scene.name}-{look}-{size}.png")
                context.close()


def take(page: Page, origin: str, scene: Scene, file: Path) -> None:
    page.goto(origin + scene.path)
    page.wait_for_timeout(1500)
    if scene.click and page.locator(scene.click).count():
        page.locator(scene.click).first.click()
        page.wait_for_timeout(500)
    picture = Image.open(BytesIO(page.screenshot()))
    # The other methods average colours that few pixels have, such as those of a state.
    palette = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    palette.save(file, optimize=True)


@contextmanager
def at_work(root: Path) -> Generator[Path]:
    """A store with three running sessions: one works, one asks, one is done."""
    with running_sessions(root, 3) as (working, asking, done):
        begin(working, "Make the checkout page accessible")
        for number, ago in enumerate((900, 700, 420, 60)):
            edit = call("Edit", {"file_path": f"src/page{number}.ts"}, f"e{number}")
            working.write(assistant(edit, message=answer(30_000 + 20_000 * number)), ago=ago)
            working.write(result(f"e{number}", "done"), ago=ago - 20)
        task = call("Agent", {"description": "Check contrast"}, "a1")
        working.write(assistant(task, message=answer(112_000)), ago=40)
        working.describe_agent("a1b2", agentType="Explore", description="Check contrast")
        working.write(user("Check contrast"), ago=38, agent="a1b2")
        working.report("busy", ago=60)
        begin(asking, "Upgrade the payment library")
        install = call("Bash", {"command": "npm i pay@4"}, "b1")
        asking.write(assistant(install, message=answer(61_000)))
        asking.report("waiting", "permission prompt", ago=25)
        begin(done, "Why is the build slow?")
        done.write(assistant(text("It type-checks twice."), message=answer(18_000)), ago=180)
        done.report("idle", ago=180)
        yield root


def begin(session: RunningSession, prompt: str) -> None:
    session.write(user(prompt), ago=1200)


def answer(tokens: int) -> dict[str, object]:
    usage = {"input_tokens": 12, "output_tokens": 900, "cache_read_input_tokens": tokens}
    return {"model": "claude-opus-5", "usage": usage, "stop_reason": "tool_use"}


if __name__ == "__main__":
    main()
