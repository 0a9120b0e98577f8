"""Write to memory files: open one in an editor, or add a line typed after `#`."""

from pathlib import Path

from turnlog.agent.chat.assembly import memory_limits
from turnlog.agent.config.memory import MemoryFiles
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.agent.terminal.prompt_editor import editor_command
from turnlog.errors import UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import short_path

LARGEST = 1 << 20
NEXT_TIME = "it takes effect in the next session"


async def edit_memory(driver: ChatDriver, arguments: str) -> None:
    """Choose a memory file and open it in the editor."""
    path = await _choose(driver, "Edit which memory file?", _loaded(driver))
    if path is None:
        return
    await driver.screen.run_program([*editor_command(), str(path)])
    driver.display.note(f"{short_path(path)}: {NEXT_TIME}")


async def remember(driver: ChatDriver, text: str) -> None:
    """Add a line to a memory file that the user chooses."""
    path = await _choose(driver, f"Remember this where? {text}", _usual(driver))
    if path is None:
        driver.screen.type_in(f"# {text}")
        return
    add_line(path, text)
    driver.display.note(f"added to {short_path(path)}; {NEXT_TIME}")


def add_line(path: Path, text: str) -> None:
    """Append an item to a memory file; refuse a link, which a project could point anywhere."""
    if path.is_symlink() or path.parent.is_symlink():
        raise UsageError(f"{path} is a link, so nothing is added", "/memory")
    # Append bytes: decoding a file in another encoding would raise, or lose characters.
    before = read_regular(path, LARGEST) if path.exists() else b""
    separator = b"" if not before or before.endswith(b"\n") else b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, before + separator + f"- {' '.join(text.split())}\n".encode())


def _usual(driver: ChatDriver) -> dict[Path, str]:
    cwd, home = driver.options.cwd, driver.store.root
    return {
        cwd / "CLAUDE.md": "this project, shared",
        cwd / "CLAUDE.local.md": "this project, only you",
        home / "CLAUDE.md": "all projects",
    }


def _loaded(driver: ChatDriver) -> dict[Path, str]:
    """Return the usual memory files, and those that are loaded here."""
    may_read = driver.chat.parts.workspace.may_read
    limits = memory_limits(driver.store, driver.options, may_read)
    files = MemoryFiles(driver.options.cwd, driver.store.root, limits=limits)
    found = {each.path: str(each.kind) for each in files.at_start() if not each.needs_approval}
    return _usual(driver) | {
        path: kind for path, kind in found.items() if path not in _usual(driver)
    }


async def _choose(driver: ChatDriver, head: str, files: dict[Path, str]) -> Path | None:
    items = [
        Item(short_path(path, driver.options.cwd), path, note if path.exists() else f"{note}, new")
        for path, note in files.items()
    ]
    return await driver.screen.choose(Choices([head], items, "enter to choose · esc to cancel"))
