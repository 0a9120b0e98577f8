"""Completions for typed text, the prompt history, and pasted content."""

import asyncio
import json
from pathlib import Path

from support.media import picture
from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.terminal.completer import files_in, offers
from turnlog.agent.terminal.pastes import Pastes, image_path
from turnlog.agent.terminal.slash_commands import known
from turnlog.agent.terminal.typed_prompts import add_typed, typed_in
from turnlog.format.image_size import pixels_of
from turnlog.store.paths import Store
from turnlog.store.prompt_history import read_history

PNG = picture(2_200, 11)
OWN = {"commit": CustomCommand("commit", "Commit it", "…", Path("x.md"), "project", hint="[what]")}


def meant(text: str, *files: str) -> list[str]:
    return [offer.text for offer in offers(text, known(OWN), files)]


def test_commands_are_offered_by_their_start_then_by_what_they_hold() -> None:
    assert meant("/co") == ["/commit", "/compact", "/context", "/cost", "/config", "/resume"]
    assert meant("/mm") == ["/commit"]
    (offer,) = offers("/commit", known(OWN), [])
    assert (offer.shown, offer.note) == ("/commit [what]", "Commit it")


def test_nothing_is_offered_for_what_is_no_command() -> None:
    assert meant("/cost now") == meant("see /co") == meant("") == meant("a@b") == []


def test_files_are_offered_after_an_at_sign() -> None:
    files = ("src/", "src/app.py", "docs/my notes.md")
    assert meant("look at @app", *files) == ["@src/app.py"]
    assert meant("@notes", *files) == ['@"docs/my notes.md"']
    assert meant("@", *files)[0] == "@src/"


def test_files_that_git_ignores_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("build/x.o", "src/a.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    assert asyncio.run(files_in(tmp_path)) == [".gitignore", "src/", "src/a.py"]


def test_prompts_are_kept_as_the_client_keeps_them(store: Store, tmp_path: Path) -> None:
    add_typed(store, "hello", {}, tmp_path, "s1")
    (line,) = store.history.read_text().splitlines()
    kept = json.loads(line)
    assert list(kept) == ["display", "pastedContents", "timestamp", "project", "sessionId"]
    assert [(prompt.session, prompt.project) for prompt in read_history(store)] == [
        ("s1", str(tmp_path))
    ]


def test_prompts_of_this_directory_come_last_first_and_once_in_a_row(
    store: Store, tmp_path: Path
) -> None:
    for text in ("one", "two", "two"):
        add_typed(store, text, {}, tmp_path, "s1")
    add_typed(store, "elsewhere", {}, tmp_path / "other", "s1")
    with store.history.open("a") as file:
        file.write('{"torn')
    assert list(typed_in(store, tmp_path)) == ["two", "one"]
    assert list(typed_in(store, tmp_path, most=1)) == ["two"]


def test_a_short_paste_is_typed_and_a_long_one_named() -> None:
    pastes = Pastes()
    assert pastes.take("a\nb") == "a\nb"
    name = pastes.take("line\n" * 12)
    assert name == "[Pasted text #1 +12 lines]"
    assert pastes.prompt(f"see {name}") == "see " + "line\n" * 12


def test_pastes_come_back_with_the_prompts_of_before(store: Store, tmp_path: Path) -> None:
    pastes = Pastes()
    for text in ("short\n" * 11, "long " * 400):
        shown = pastes.take(text)
        add_typed(store, shown, pastes.contents(shown, store), tmp_path, "s1")
    assert list(typed_in(store, tmp_path)) == ["long " * 400, "short\n" * 11]
    (file,) = store.pastes.iterdir()
    assert file.read_text() == "long " * 400


def test_a_pasted_image_goes_along_with_the_prompt(tmp_path: Path) -> None:
    image = tmp_path / "a picture.png"
    image.write_bytes(PNG)
    pastes = Pastes()
    name = pastes.take(f"{tmp_path}/a\\ picture.png ")
    assert name == "[Image #1] "
    text, block = pastes.prompt(f"{name}what is it?")
    assert text == {"type": "text", "text": "[Image #1] what is it?"}
    assert isinstance(block, dict)
    assert block["source"]["media_type"] == "image/png"
    assert pixels_of(block["source"]["data"]) == (2_000, 10)


def test_an_image_is_named_in_the_ways_of_terminals(tmp_path: Path) -> None:
    image = tmp_path / "a b.png"
    image.write_bytes(PNG)
    for text in (str(image), f"'{image}'", f"file://{image}", str(image).replace(" ", "\\ ")):
        assert image_path(text) == image
    assert image_path("no.png") is None
    assert image_path(f"{image}\nand more.png") is None


def test_what_only_looks_like_an_image_stays_text(tmp_path: Path) -> None:
    fake = tmp_path / "fake.png"
    fake.write_text("text")
    assert Pastes().take(str(fake)) == str(fake)
