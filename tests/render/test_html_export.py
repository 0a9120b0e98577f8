"""Sessions as HTML files: what they contain, and what they never contain."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import assistant, call, nth, result, text, thinking, user
from support.planted_fields import Planter, plant_everywhere
from turnlog.conversation.session import Session, open_session
from turnlog.errors import Unavailable, UsageError
from turnlog.render.depth import Depth
from turnlog.render.export import FORMATS, ExportOptions, export_session, json_lines
from turnlog.render.html import session_file
from turnlog.render.html.encryption import PageCipher, PageKey, derive_key
from turnlog.render.html.page_file import CHUNK, MARK, ExportedPage, read_export
from turnlog.render.rows import ViewOptions
from turnlog.store import helper_process
from turnlog.store.paths import Store

ROOT = Path(__file__).parents[2]
SESSIONS = [
    path
    for folder in (ROOT / "src/turnlog/samples/projects", ROOT / "tests/data")
    for path in sorted(folder.rglob("*.jsonl"))
]
QUICK = 1000
"""Iterations for tests: the number for pages takes a quarter of a second each time."""
SECRET = "ghp_x7QaR2mN8vK4pL9sT3wY6zB1cD5eF0gH2jK4"


def exported(session: Session, folder: Path, **choices: Any) -> Path:
    path = folder / f"x.{choices.get('format', 'html')}"
    export_session(session, path, ExportOptions(**choices))
    return path


def read(session: Session, folder: Path, **choices: Any) -> ExportedPage:
    return read_export(exported(session, folder, **choices))


def shown_json(session: Session, depth: Depth = Depth.FULL, **view: Any) -> list[dict[str, Any]]:
    return json.loads("\n".join(json_lines(session, ViewOptions(**view), depth)))


def talk(opened: Opened) -> Session:
    return opened(
        user("Fix the <b>total</b>"),
        assistant(thinking("hmm"), text("# Plan\n\nI'll *look*."), message_id="m1"),
        assistant(call("Bash", {"command": "pytest"}, "A"), message_id="m1"),
        result("A", "1 failed\nbadly", is_error=True),
        assistant(call("Read", {"file_path": "cart.py"}, "B"), message_id="m2"),
        result("B", "def total(): ..."),
        assistant(text("Fixed."), message_id="m3"),
        user("Thanks"),
        assistant(text("You're welcome."), message_id="m4"),
    )


@pytest.mark.parametrize(
    "choices", [{}, {"is_static": True}, *({"format": form} for form in ("md", "txt", "json"))]
)
def test_an_export_names_no_folder_and_no_command_of_the_senders_machine(
    opened: Opened, tmp_path: Path, choices: dict[str, Any]
) -> None:
    place = "/home/ada/walrus/shop"
    mentioned = call("Read", {"file_path": "/srv/app/cart.py"}, "A")
    session = opened(user("q", cwd=place), assistant(mentioned, cwd=place), result("A", cwd=place))
    path = exported(session, tmp_path, **choices)
    written = path.read_text()
    if not choices:
        page = read_export(path)
        written += json.dumps([page.head, page.pages, page.turns])
        assert page.head["head"]["session"]["project"] == "shop"
    assert "walrus" not in written
    assert "claude --resume" not in written
    assert "/srv/app/cart.py" in written


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem[:40])
def test_two_processes_write_the_same_page_as_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(path)
    alone = exported(session, tmp_path).read_bytes()
    monkeypatch.setattr(session_file, "SHARED", 0)
    monkeypatch.setattr(helper_process, "can_fork", lambda: True)
    assert exported(session, tmp_path).read_bytes() == alone


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem[:40])
def test_every_session_is_exported_in_every_format(path: Path, tmp_path: Path) -> None:
    session = open_session(path)
    for form in FORMATS:
        for depth in Depth:
            assert exported(session, tmp_path, format=form, depth=depth).is_file()
    assert exported(session, tmp_path, is_static=True).is_file()


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem[:40])
def test_the_turns_in_the_page_equal_the_json_of_show(path: Path, tmp_path: Path) -> None:
    session = open_session(path)
    for depth in Depth:
        assert read(session, tmp_path, depth=depth).turns == shown_json(session, depth)


def test_a_turn_or_a_branch_can_be_exported_alone(opened: Opened, tmp_path: Path) -> None:
    session = opened(
        user("q1"),
        assistant(text("a1")),
        user("q2"),
        assistant(text("old")),
        user("q3", parent=nth(2)),
        assistant(text("latest")),
    )
    whole = read(session, tmp_path)
    assert len(whole.head["branches"]) == len(whole.head["head"]["branches"]) - 1 == 1
    old = read(session, tmp_path, leaf=3)
    assert (old.head["branches"], old.head["head"]["branches"]) == ({}, [])
    assert "old" in str(old.pages)
    assert "latest" not in str(old.pages)
    assert old.turns == shown_json(session, leaf=3)
    only = read(talk(opened), tmp_path, turn=2)
    assert (only.head["head"]["outline"]["n"], len(only.pages)) == ([2], 1)
    assert "Fix the" not in str(only.pages) + str(only.turns) + str(only.head["head"]["outline"])


def test_depths_contain_less_and_less(opened: Opened, tmp_path: Path) -> None:
    session = talk(opened)
    inside = {depth: str(read(session, tmp_path, depth=depth)) for depth in Depth}
    for depth, found in inside.items():
        is_deep = depth in (Depth.CALLS, Depth.FULL)
        assert "Fix the" in found
        assert ("Fixed." in found) == (depth is not Depth.PROMPTS)
        assert ("pytest" in found, "hmm" in found, "1 failed" in found) == (is_deep,) * 3
        assert ("def total()" in found) == (depth is Depth.FULL)


def test_large_turns_are_chunks_of_their_own(opened: Opened, tmp_path: Path) -> None:
    entries = [
        entry
        for n in range(6)
        for entry in (user(f"q{n}"), assistant(text(f"{n} " * CHUNK), message_id=f"m{n}"))
    ]
    page = read(opened(*entries), tmp_path)
    assert page.head["starts"]["pages"] == [0, 1, 2, 3, 4, 5]
    assert (tmp_path / "x.html").stat().st_size < CHUNK


def test_the_policy_admits_only_the_scripts_and_styles_of_the_page(
    opened: Opened, tmp_path: Path
) -> None:
    for is_static in (False, True):
        html = exported(talk(opened), tmp_path, is_static=is_static).read_text()
        assert html.startswith(MARK)
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
        assert policy
        parted = (rule.partition(" ") for rule in policy[1].split("; "))
        rules = {name: value for name, _, value in parted}
        assert (rules["default-src"], rules["img-src"]) == ("&#x27;none&#x27;", "data:")
        parts = {"style-src": re.findall(r"<style>(.*?)</style>", html, re.S)}
        if not is_static:
            parts["script-src"] = re.findall(r'<script type="module">(.*?)</script>', html, re.S)
            assert rules["require-trusted-types-for"] == "&#x27;script&#x27;"
        assert ("script-src" in rules) != is_static
        for name, (source,) in parts.items():
            digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
            assert rules[name] == f"&#x27;sha256-{digest}&#x27;"
        assert not re.findall(r"""(?:src|href)=["'](?!data:|#)|@import|url\(""", html)


def test_no_field_reveals_a_secret(tmp_path: Path) -> None:
    planter = Planter()
    path = plant_everywhere(Store(tmp_path / "home"), planter)
    session = open_session(path)
    page = read(session, tmp_path)
    assert page.turns
    assert planter.leaked(json.dumps([page.head, page.pages, page.turns], ensure_ascii=False)) == []
    assert planter.leaked((tmp_path / "x.html").read_text()) == []
    for form in ("md", "json", "txt"):
        written = exported(session, tmp_path, format=form, depth=Depth.FULL)
        assert planter.leaked(written.read_text()) == []
    assert planter.leaked(exported(session, tmp_path, is_static=True).read_text()) == []


def test_ids_and_reasons_are_masked(opened: Opened, tmp_path: Path) -> None:
    session = opened(
        user("hi"),
        assistant(
            call("Bash", {"command": "ls"}, f"toolu_{SECRET}"),
            message_id=f"msg_{SECRET}",
            message={"stop_reason": f"because {SECRET}"},
        ),
        result(f"toolu_{SECRET}", "a.py"),
    )
    page = read(session, tmp_path)
    assert SECRET not in str(page)
    assert page.turns == shown_json(session)


def test_the_page_says_how_many_secrets_are_masked(opened: Opened, tmp_path: Path) -> None:
    session = opened(user(f"use {SECRET}"), assistant(text(f"{SECRET}, then {SECRET}")))
    page = read(session, tmp_path)
    assert SECRET not in str(page)
    # The prompt also appears as recorded; equal texts are stored once.
    assert page.head["head"]["masked"] == 3
    static = exported(session, tmp_path, is_static=True).read_text()
    assert "3 secrets are masked" in static


def test_an_encrypted_page_reveals_nothing(opened: Opened, tmp_path: Path) -> None:
    session = talk(opened)
    key = derive_key("correct horse", iterations=QUICK)
    path = exported(session, tmp_path, key=key)
    html = path.read_text()
    outside = re.sub(r"<(style|script type=.module.)>.*?</(style|script)>", "", html, flags=re.S)
    # Long words only: among random letters, a short one occurs by chance.
    for word in ("Thanks", session.id, "/home/ada/shop"):
        assert word not in outside
        assert base64.b64encode(word.encode()[: len(word) // 3 * 3]).decode() not in outside
    assert "<title>Encrypted session · turnlog</title>" in html
    assert read_export(path, "correct horse").turns == shown_json(session)
    with pytest.raises(Unavailable, match="password is wrong"):
        read_export(path, "wrong")
    with pytest.raises(UsageError, match="is encrypted"):
        read_export(path)


def test_parts_of_an_encrypted_page_cannot_be_swapped() -> None:
    key = derive_key("x", iterations=QUICK)
    sealed = PageCipher(key, b"page 1").encrypt(b"text", "pages 0")
    assert PageCipher(key, b"page 1").decrypt(sealed, "pages 0") == b"text"
    for page, part in ((b"page 2", "pages 0"), (b"page 1", "pages 1")):
        with pytest.raises(Unavailable):
            PageCipher(key, page).decrypt(sealed, part)


def test_keys_take_many_iterations_and_a_salt_of_their_own() -> None:
    one, other = derive_key("x"), derive_key("x")
    assert one.iterations >= 600_000
    assert one.salt != other.salt
    assert one.key != other.key
    assert PageKey(b"s", b"a" * 32).check != PageKey(b"s", b"b" * 32).check


def test_half_a_surrogate_pair_is_exported(opened: Opened, tmp_path: Path) -> None:
    entries = user("broken ?? emoji") + assistant(text("also ??"))
    path = tmp_path / "broken.jsonl"
    path.write_bytes(entries.replace(b"??", b"\\ud83d"))
    session = open_session(path)
    assert read(session, tmp_path).turns == shown_json(session)
    for form in FORMATS:
        assert exported(session, tmp_path, format=form).is_file()
    assert exported(session, tmp_path, is_static=True).is_file()


def test_a_page_without_scripts_is_complete(opened: Opened, tmp_path: Path) -> None:
    html = exported(talk(opened), tmp_path, is_static=True).read_text()
    for part in ("Fix the &lt;b&gt;total&lt;/b&gt;", "<em>look</em>", "1 failed\nbadly", "hmm"):
        assert part in html
    assert "def total()" in html
    assert "<script" not in html
    assert html.count("<section") == 2


def test_a_page_without_scripts_cannot_be_encrypted(opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be encrypted"):
        exported(talk(opened), tmp_path, is_static=True, key=derive_key("x", iterations=QUICK))
    assert list(tmp_path.glob("*.html")) == []


def test_a_page_has_texts_that_the_client_injected_only_in_full(
    opened: Opened, tmp_path: Path
) -> None:
    reminder = user("<system-reminder>INJECTED</system-reminder>", is_meta=True)
    session = opened(user("hi"), reminder, assistant(text("so")))
    usual = exported(session, tmp_path, is_static=True).read_text()
    full = exported(session, tmp_path, is_static=True, depth=Depth.FULL).read_text()
    assert ("INJECTED" in usual, "INJECTED" in full) == (False, True)


def test_a_static_page_has_times_and_long_commands_in_full(opened: Opened, tmp_path: Path) -> None:
    session = opened(
        user("hi", timestamp="2026-11-15T06:00:01.000Z"),
        assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
        result("A"),
        assistant(call("Bash", {"command": "cd shop\nmake"}, "B"), message_id="m2"),
        result("B"),
    )
    page = exported(session, tmp_path, is_static=True).read_text()
    assert re.search(r"<time>2026-11-1\d \d\d:\d\d</time> · new session<", page)
    assert "<pre>cd shop\nmake</pre>" in page
    assert "<pre>ls</pre>" not in page
