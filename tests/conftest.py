"""Fixtures for all tests: an isolated store, and all session files to test against.

`TURNLOG_CORPUS` names a folder of further session files, `TURNLOG_EXAMPLES` how many examples each
property is tried with.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from data.files import session_files
from support.tmux import NO_TMUX
from turnlog.agent.permissions.consent import SANDBOX
from turnlog.agent.workspace.repository import CEILINGS
from turnlog.agent.workspace.sandbox.bubblewrap import why_unavailable
from turnlog.store.paths import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

collect_ignore_glob = ["conftest.py", "*/conftest.py"]
"""Of one name, they cannot be looked through for doctests."""

settings.register_profile(
    "turnlog", deadline=None, max_examples=int(os.environ.get("TURNLOG_EXAMPLES", "100"))
)
settings.load_profile("turnlog")


NEEDS_BWRAP = "needs_bwrap"
PERSONAL = (
    "CLAUDE_CONFIG_DIR",
    *(f"XDG_{name}_HOME" for name in ("CONFIG", "DATA", "CACHE", "STATE")),
    *("TURNLOG_HOME", "NO_COLOR", "FORCE_COLOR", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
)
"""Variables that would let the settings of whoever runs the tests decide their outcome."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{NEEDS_BWRAP}: runs commands in bubblewrap")
    # A shell starts `make test &` with SIGINT ignored, and every process that a test starts would
    # inherit that: Ctrl-C would do nothing, and the test would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need bubblewrap if it is missing; let screen tests run twice."""
    for item in filter(_has_screen, items):
        item.add_marker(pytest.mark.flaky(reruns=2))
    needing = [item for item in items if item.get_closest_marker(NEEDS_BWRAP)]
    if needing and (reason := why_unavailable()):
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=reason))


def _has_screen(item: pytest.Item) -> bool:
    """Return whether a test drives a real terminal or browser.

    Those share two processors with the other worker, and answer late when it is busy. What had to
    run again is listed at the end.
    """
    fixtures: list[str] = getattr(item, "fixturenames", [])
    is_in_tmux = any(mark.kwargs.get("reason") == NO_TMUX for mark in item.iter_markers("skipif"))
    return is_in_tmux or "browser" in fixtures


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List each test that ran again or not at all, and why: nothing is hidden."""
    again: list[pytest.TestReport] = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section(f"RAN AGAIN: {len(again)}")
    for report in sorted(again, key=lambda report: report.nodeid):
        terminalreporter.line(f"{report.nodeid}: {report.longreprtext.strip().splitlines()[-1]}")
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"NOT TESTED: {len(skipped)}")
    for report in sorted(skipped, key=lambda report: report.nodeid):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid}: {reason}")


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Restore the environment: a chat in this process applies the variables of its settings."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the repository, the home and the privileges of whoever runs the tests out of them.

    Folders of tests are in no repository, though they may lie in this one's, and tests may run as
    root.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("person")))
        for name in PERSONAL:
            patch.delenv(name, raising=False)
        patch.setenv(CEILINGS, str(tmp_path_factory.getbasetemp()))
        patch.setenv(SANDBOX, "1")
        yield


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, which `open_store` opens."""
    root = tmp_path / "home"
    (root / "projects").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(root))
    return Store(root)


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to write again for each example of a property."""
    return tmp_path_factory.mktemp("scratch") / "file.jsonl"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `session_file` for each of them."""
    if "session_file" in metafunc.fixturenames:
        files = session_files()
        metafunc.parametrize("session_file", files, ids=[_short(path) for path in files])


def _short(path: Path) -> str:
    return "/".join(path.parts[-4:])


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A real browser, closed after each module: while it is open, no event loop can be started."""
    from support.browser import open_browser

    with open_browser() as opened:
        yield opened
