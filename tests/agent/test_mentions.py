"""Files that prompts mention."""

import asyncio
from pathlib import Path

import pytest

from turnlog.agent.chat.consent import Consent
from turnlog.agent.chat.mentions import mention_blocks, mentioned_paths
from turnlog.agent.permissions import Mode
from turnlog.agent.settings import Settings
from turnlog.agent.tool import Fields
from turnlog.agent.workspace import Workspace


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("print(1)\n")
    (folder / "my notes.md").write_text("notes\n")
    return folder


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see @src/a.py.", ["src/a.py"]),
        ('see @"my notes.md" and @my\\ notes.md', ["my notes.md"]),
        ("(not@src/a.py) @nowhere @src", ["src"]),
        ("@src/a.py, @src/a.py", ["src/a.py"]),
    ],
)
def test_a_text_mentions_what_there_is(shop: Path, text: str, names: list[str]) -> None:
    assert mentioned_paths(text, shop) == [shop / name for name in names]


def blocks(shop: Path, text: str, *denied: str) -> list[Fields]:
    rules = Consent(Settings(shop, ()), Mode.DEFAULT, deny=denied)
    workspace = Workspace(shop, shop / "session", shop)
    return asyncio.run(mention_blocks(text, workspace, rules))


def test_the_content_of_mentioned_files_goes_along(shop: Path) -> None:
    (block,) = blocks(shop, "look at @src/a.py")
    assert "print(1)" in block["text"]
    assert block["text"].startswith("<system-reminder>")


def test_of_a_mentioned_directory_the_names_are_told(shop: Path) -> None:
    (block,) = blocks(shop, f"look at @{shop}")
    assert "my notes.md\nsrc/" in block["text"]


def test_a_forbidden_file_is_not_told(shop: Path) -> None:
    assert blocks(shop, "look at @src/a.py", "Read(src/**)") == []


def test_an_image_goes_along_as_one(shop: Path) -> None:
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
    (shop / "dot.png").write_bytes(png)
    assert [block["type"] for block in blocks(shop, "@dot.png")] == ["text", "image"]
