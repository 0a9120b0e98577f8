"""Secrets are replaced everywhere, and nothing else is."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import (
    SESSION,
    assistant,
    call,
    encode,
    image,
    result,
    session,
    text,
    thinking,
    user,
)
from support.planted import BARE, PASTE, SECRETS, TELLING, contents, plant, prompt, write
from test_secrets import PEM
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import open_session
from turnlog.edit.journal import Journal
from turnlog.edit.redact.json_strings import decode_string, decoded_strings, written_strings
from turnlog.edit.redact.redaction import (
    _require_sound,
    earlier_changes,
    find_all,
    find_remaining,
    fixed_matches,
    replace_all,
    session_group,
    store_groups,
)
from turnlog.edit.redact.replacement import RedactedPart, RedactionFinds, redact_json, redact_part
from turnlog.edit.redact.secret_finder import Finder, settle_kinds
from turnlog.errors import Unresumable
from turnlog.format.json_values import is_array, is_object
from turnlog.secrets import find_secrets, placeholder_for
from turnlog.store.paths import Store

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
PASSWORD = "tr0ub4dor&3"
HIDDEN = placeholder_for("github-token", TOKEN)

Redact = Callable[..., RedactionFinds]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def path(store: Store) -> Path:
    return store.projects / "-home-ada-shop" / f"{SESSION}.jsonl"


@pytest.fixture
def redact(store: Store, journal: Journal) -> Redact:
    """Redact a session, or all; return the findings."""

    def call(session: Path | None = None, *also: str) -> RedactionFinds:
        groups = [session_group(store, session)] if session else store_groups(store)
        parts = [part for group in groups for part in group.parts]
        noted, finder = find_all(parts, [re.compile(each) for each in also], progress)
        for group in groups:
            replace_all(journal, store, group, finder, {find.path for find in noted.finds})
        assert find_remaining(parts, finder, progress) == []
        return noted

    return call


def progress(count: int) -> None:
    """Nobody watches."""


def redacted_line(raw: bytes, *also: str, known: dict[str, str] | None = None) -> bytes:
    finder = Finder(tuple(map(re.compile, also)), known or {})
    return redact_json(raw.decode(), finder, lambda at, span: None).encode()


def written_in(folder: Path, value: str) -> list[str]:
    """The files that another program finds a value in, on one line of it at least."""
    lines = [each for each in value.replace("\\n", "\n").splitlines() if not each.startswith("---")]
    found = [
        subprocess.run(
            ["grep", "-rlF", "--", each, folder], capture_output=True, text=True, check=False
        )
        for each in lines
    ]
    return [name for each in found for name in each.stdout.splitlines()]


# The whole footprint


def test_every_secret_is_found_in_every_place_and_none_is_left(
    store: Store, journal: Journal, redact: Redact, path: Path
) -> None:
    assert len({secret.kind for secret in SECRETS}) >= 40
    files = plant(store, [secret.text for secret in SECRETS])
    before = contents(store.root)
    assert all(written_in(store.root, secret.value) for secret in SECRETS)
    noted = redact(path)
    assert {find.path for find in noted.finds} == set(files.values())
    assert {find.value for find in noted.finds} == {secret.value for secret in SECRETS}
    assert [each for each in SECRETS if written_in(store.root, each.value)] == []
    after = contents(store.root)
    assert redact(path).finds == []
    assert contents(store.root) == after
    journal.undo()
    assert contents(store.root) == before


def test_a_session_is_one_change_and_what_sessions_share_another(
    store: Store, journal: Journal, redact: Redact
) -> None:
    plant(store, [secret.text for secret in SECRETS])
    write(store.projects / "-home-ada-shop" / "other.jsonl", session(user(f"x {TOKEN}")))
    redact()
    titles = sorted(record.title for record in journal.records())
    assert titles == [
        "redact of " + name for name in (SESSION, "files that sessions share", "other")
    ]
    assert [each for each in SECRETS if written_in(store.root, each.value)] == []


@pytest.mark.parametrize(
    "place",
    [
        "projects/-home-ada-shop/agent-b2.jsonl",
        f"projects/-home-ada-shop/{SESSION}/subagents/workflows/wf_1/agent-c3.jsonl",
        f"projects/-home-ada-shop/{SESSION}/workflows/wf_1.json",
        f"projects/-home-ada-shop/{SESSION}/custom-title.json",
        f"debug/{SESSION}.txt",
        f"tasks/{SESSION}/1.json",
    ],
)
def test_further_places_are_looked_through(
    place: str, store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user("hi")))
    file = write(store.root / place, session(user(f"it is {TOKEN}")))
    redact(path)
    assert HIDDEN in file.read_text()


def test_what_is_left_of_sessions_that_are_gone_is_redacted_with_all(
    store: Store, redact: Redact
) -> None:
    gone = write(store.file_history / "gone" / "0123@v1", f"x {TOKEN}".encode())
    redact()
    assert gone.read_text() == f"x {HIDDEN}"


def test_prompts_of_other_sessions_stay_as_they_are(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user("hi")))
    lines = [
        prompt(f"mine {TOKEN}"),
        prompt(f"other {TOKEN}", sessionId="other"),
        prompt(f"old, here {TOKEN}", sessionId=None),
        prompt(f"old, elsewhere {TOKEN}", sessionId=None, project="/x"),
    ]
    write(store.history, b"".join(lines))
    redact(path)
    new = store.history.read_bytes().splitlines(keepends=True)
    assert [HIDDEN.encode() in line for line in new] == [True, False, True, False]
    assert [new[1], new[3]] == [lines[1], lines[3]]


def test_only_pasted_texts_of_the_session_are_redacted(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user("hi")))
    write(store.history, prompt("mine"))
    mine = write(store.pastes / f"{PASTE}.txt", TOKEN.encode())
    other = write(store.pastes / "fedcba9876543210.txt", TOKEN.encode())
    redact(path)
    assert (mine.read_text(), other.read_text()) == (HIDDEN, TOKEN)


def test_a_paste_cannot_name_a_file_elsewhere(store: Store, redact: Redact, path: Path) -> None:
    write(path, session(user("hi")))
    other = write(store.root / "settings.txt", TOKEN.encode())
    store.pastes.mkdir()
    write(store.history, prompt("hi").replace(PASTE.encode(), b"../settings"))
    redact(path)
    assert other.read_text() == TOKEN


def test_notes_of_the_project_lose_what_the_session_holds_and_nothing_else(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user(f"it is {TOKEN}; ada77@shop.example")))
    notes = path.parent / "memory"
    same = write(notes / "MEMORY.md", f"{TOKEN} ada77@shop.example".encode())
    other = write(notes / "other.md", f"password = '{PASSWORD}'".encode())
    redact(path, r"\w+@[\w.]+")
    assert same.read_text() == f"{HIDDEN} ada77@shop.example"
    assert PASSWORD in other.read_text()


def test_an_undo_keeps_prompts_that_were_typed_since(
    store: Store, journal: Journal, redact: Redact, path: Path
) -> None:
    write(path, session(user("hi")))
    write(store.history, prompt(f"first {TOKEN}"))
    redact(path)
    with store.history.open("ab") as file:
        file.write(prompt("second"))
    journal.undo()
    assert store.history.read_bytes() == prompt(f"first {TOKEN}") + prompt("second")


def test_a_secret_in_a_picture_is_told_and_left(store: Store, path: Path) -> None:
    write(path, session(user(f"it is {TOKEN}")))
    picture = write(store.root / "image-cache" / SESSION / "1.png", b"\x89PNG\0" + TOKEN.encode())
    noted, _ = find_all(session_group(store, path).parts, [], progress)
    assert [find.path for find in noted.stuck] == [picture]


def test_a_text_that_is_not_utf_8_keeps_its_other_bytes(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user("hi")))
    file = write(store.file_history / SESSION / "1@v1", b"caf\xe9 " + TOKEN.encode() + b" \xff")
    redact(path)
    assert file.read_bytes() == b"caf\xe9 " + HIDDEN.encode() + b" \xff"


def test_a_result_that_would_not_resume_is_refused(path: Path, tmp_path: Path) -> None:
    write(path, session(user("hi"), assistant(call("Bash", {}, "toolu_A")), result("toolu_A")))
    empty = write(tmp_path / path.name, b'{"type":"mode","mode":"normal"}\n')
    _require_sound([path], {path: path})
    with pytest.raises(Unresumable):
        _require_sound([path], {path: empty})


def test_earlier_changes_of_the_same_session_are_named(
    store: Store, journal: Journal, redact: Redact, path: Path
) -> None:
    write(path, session(user(f"it is {TOKEN}")))
    group = session_group(store, path)
    assert earlier_changes(journal, [group]) == []
    redact(path)
    other = write(path.with_name("other.jsonl"), session(user(f"it is {TOKEN}")))
    redact(other)
    named = [record.title for record in earlier_changes(journal, [group])]
    assert named == [f"redact of {SESSION}"]


# Values known from elsewhere


def test_a_value_that_one_place_tells_is_replaced_where_it_stands_bare(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user(f"export DB_PASSWORD='{PASSWORD}'")))
    bare = write(path.with_suffix("") / "tool-results" / "b1.txt", f"got {PASSWORD}x".encode())
    redact(path)
    assert bare.read_text() == f"got {placeholder_for('password', PASSWORD)}x"


def test_a_known_value_is_found_in_json_within_a_text() -> None:
    value = 'tr0"ub4\\dor'
    inner = json.dumps({"key": value})
    line = encode({"text": inner, "deeper": json.dumps({"output": inner})})
    new = redacted_line(line, known={value: "password"})
    expected = placeholder_for("password", value)
    assert json.loads(json.loads(new)["text"]) == {"key": expected}
    assert json.loads(json.loads(json.loads(new)["deeper"])["output"]) == {"key": expected}


def test_a_word_that_is_a_password_somewhere_stays_elsewhere(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user("redis://:letmeinplease@host and letmeinplease")))
    redact(path)
    assert "] and letmeinplease" not in path.read_text()
    assert "and letmeinplease" in path.read_text()


def test_a_value_has_one_placeholder_whatever_tells_it(
    store: Store, redact: Redact, path: Path
) -> None:
    value = "k7Hq92mmZ-kkq81"
    texts = (f"a://b:{value}@c", f"password = '{value}'", f"db_password: {value}\n")
    write(path, session(*map(user, texts)))
    redact(path)
    assert path.read_text().count(placeholder_for("password", value)) == 3


def test_the_kind_that_says_most_is_kept() -> None:
    found = [("v", "password"), ("v", "url-password"), ("v", "aws-secret-key"), ("w", "redacted")]
    assert (
        settle_kinds(found) == settle_kinds(found[::-1]) == {"v": "aws-secret-key", "w": "redacted"}
    )


# Lines


def test_only_the_secret_changes_on_a_line() -> None:
    raw = '{ "b":1.50, "a":"\\u00e9\\/%s\\n\\ud800é" ,"a":1e5}\n'
    assert redacted_line((raw % TOKEN).encode()) == (raw % HIDDEN).encode()


def test_a_private_key_is_found_behind_its_escapes() -> None:
    raw = encode({"text": f"it is\n{PEM}\n"})
    expected = encode({"text": f"it is\n{placeholder_for('private-key', PEM)}\n"})
    assert redacted_line(raw) == expected
    hidden = raw.replace(b"-----BEGIN", b"\\u002d----BEGIN").replace(b"KEY", b"\\u004bEY")
    assert redacted_line(hidden) == expected


def test_a_name_and_what_a_name_tells_are_redacted() -> None:
    given_ = {"input": {TOKEN: 1, "password": PASSWORD, "nested": [{"api_key": TOKEN}]}}
    password = placeholder_for("password", PASSWORD)
    expected = {"input": {HIDDEN: 1, "password": password, "nested": [{"api_key": HIDDEN}]}}
    assert json.loads(redacted_line(encode(given_))) == expected


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"user","message":{"content":"it is %b',
        b'{"a":"it is %b"}{"b":"it is %b"}\n',
        b"it is %b, and no JSON\n",
        b'{"a":"\xff it is %b"}\n',
        b'{"a":' * 3000 + b'"it is %b"' + b"}" * 3000 + b"\n",
    ],
    ids=["torn", "two", "none", "broken", "deep"],
)
def test_a_line_that_is_no_json_is_redacted_too(raw: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", raw.replace(b"%b", TOKEN.encode()))
    new = b"".join(redact_part(RedactedPart(path), Finder(), RedactionFinds()))
    assert new == raw.replace(b"%b", HIDDEN.encode())


SIGNED = "Er" + "c2lnbmVk" * 40 + "=="
KEPT = session(
    user([text("see ghost"), image("iVBOR" + "w0KGgo" * 60)]),
    assistant(thinking("", SIGNED), call("Bash", {"command": "ls"}, "toolu_ghost"), message_id="g"),
    result("toolu_ghost", "out"),
)


def test_ids_names_and_encoded_data_are_left_alone() -> None:
    known = {"c2lnbmVkc2lnbmVk": "password", "w0KGgow0KGgo": "password"}
    for raw in KEPT.splitlines(keepends=True):
        new = redacted_line(raw, "[0-9a-f]{4}", "tool", "Bash", "user", "[gG]", known=known)
        before, after = json.loads(raw), json.loads(new)
        assert outline(after) == outline(before)
    assert "signature" in str(outline(json.loads(KEPT.splitlines()[1])))


FIXED = ("uuid", "parentUuid", "sessionId", "id", "tool_use_id", "type", "name", "role")


def outline(value: Any) -> Any:
    """Return the fields of an entry that link the session, and those that are encoded."""
    if is_array(value):
        return [outline(each) for each in value]
    if not is_object(value):
        return None
    kept = (*FIXED, "signature", "data", "timestamp", "cwd")
    return {name: held if name in kept else outline(held) for name, held in value.items()}


def test_encoded_data_by_name_is_looked_at_if_it_is_none() -> None:
    new = json.loads(redacted_line(encode({"data": f"it is {TOKEN}", "signature": TOKEN})))
    assert new == {"data": f"it is {HIDDEN}", "signature": HIDDEN}


# Patterns of the user


def test_a_pattern_is_replaced_by_its_first_group_or_whole() -> None:
    raw = encode({"text": "ada@shop.example, user: ada"})
    new = json.loads(redacted_line(raw, r"\w+@[\w.]+", r"user: (\w+)"))
    mail, name = (placeholder_for("redacted", each) for each in ("ada@shop.example", "ada"))
    assert new == {"text": f"{mail}, user: {name}"}


def test_a_pattern_leaves_names_of_fields_and_takes_other_names() -> None:
    raw = encode({"message": {"content": "message"}, "input": {"/home/ada": 1, "home": 2}})
    new = json.loads(redacted_line(raw, "message", "home"))
    assert new["message"] == {"content": placeholder_for("redacted", "message")}
    assert list(new["input"]) == [f"/{placeholder_for('redacted', 'home')}/ada", "home"]


def test_a_pattern_that_matches_placeholders_comes_to_an_end(
    store: Store, redact: Redact, path: Path
) -> None:
    write(path, session(user(f"a: {TOKEN} b: c")))
    redact(path, r"\w+: .*", "[a-z]+")
    once = path.read_bytes()
    redact(path, r"\w+: .*", "[a-z]+")
    assert path.read_bytes() == once


def test_what_a_pattern_finds_in_a_text_stays_in_ids_and_names() -> None:
    name, tool = "cache_creation_input_tokens", "toolu_01ABCdef"
    raw = encode({"text": f"{name} {tool}", name: 1, "id": tool, "tool_use_id": tool})
    new = json.loads(
        redacted_line(raw, name, r"toolu_\w+", known={name: "redacted", tool: "redacted"})
    )
    assert [*new, new["id"], new["tool_use_id"]] == ["text", name, "id", "tool_use_id", tool, tool]
    assert new["text"].count("[redacted:") == 2


def test_matches_in_fields_that_stay_are_counted(store: Store, path: Path) -> None:
    write(path, session(user("/home/ada/shop/x.py")))
    finder = Finder((re.compile("/home/ada"),))
    assert fixed_matches([RedactedPart(path)], finder) == {"cwd": 1}


@pytest.mark.parametrize("pattern", [r"\w+", "[0-9a-f]{3,}", ".{3}"])
def test_no_pattern_changes_what_holds_a_session_together(
    session_file: Path, pattern: str, tmp_path: Path
) -> None:
    finder = Finder((re.compile(pattern),))
    new = write(
        tmp_path / "new.jsonl",
        b"".join(redact_part(RedactedPart(session_file), finder, RedactionFinds())),
    )
    before, after = open_session(session_file), open_session(new)
    assert [node.kind for node in after.nodes] == [node.kind for node in before.nodes]
    assert [link(node) for node in after.tree.chain] == [link(node) for node in before.tree.chain]
    assert [call.id for call in after.calls] == [call.id for call in before.calls]


def link(node: ChainNode) -> tuple[str | None, str | None, str | None]:
    return node.uuid, node.parent, node.time


# The fast way and the slow one

NAMES = ["text", "password", "token", "input", "toolUseResult", "id", "data", TOKEN, "a b"]
STRINGS = st.one_of(
    st.text(max_size=8), st.sampled_from([each.text for each in [*TELLING, *BARE]] + ["x4Jq0Zb8mT"])
)
VALUES = st.recursive(
    st.one_of(STRINGS, st.integers(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)


def escaped(text: str, every: int) -> str:
    """The JSON of a text, with every so many of its letters as escapes."""
    plain = (json.dumps(letter, ensure_ascii=False)[1:-1] for letter in text)
    coded = (
        json.dumps(letter) if ord(letter) > 126 else f'"\\u{ord(letter):04x}"' for letter in text
    )
    both = enumerate(zip(plain, coded, strict=True))
    return '"' + "".join(hard[1:-1] if at % every == 0 else easy for at, (easy, hard) in both) + '"'


@given(VALUES, st.booleans())
def test_strings_are_the_same_decoded_and_as_they_are_written(value: Any, is_ascii: bool) -> None:
    written = json.dumps(value, ensure_ascii=is_ascii)
    spelled = [
        (place, decode_string(written[start:end]).text)
        for place, start, end in written_strings(written)
    ]
    assert spelled == decoded_strings(value, lambda place: True)


@given(STRINGS, st.integers(1, 5), st.data())
def test_a_place_in_a_text_is_found_in_what_is_written(
    value: str, every: int, data: st.DataObject
) -> None:
    written = escaped(value, every)[1:-1]
    meant = decode_string(written)
    start = data.draw(st.integers(0, len(value)))
    end = data.draw(st.integers(start, len(value)))
    assert meant.text == value
    assert decode_string(written[meant.where(start) : meant.where(end)]).text == value[start:end]


@given(VALUES, st.sampled_from([(), ("[a-f]+",)]), st.integers(1, 40))
def test_the_fast_way_suspects_every_line_in_which_the_slow_one_finds_something(
    value: Any, also: tuple[str, ...], every: int
) -> None:
    finder = Finder(tuple(map(re.compile, also)))
    written = re.sub(
        r'"(?:[^"\\]|\\.)*"', lambda s: escaped(json.loads(s[0]), every), json.dumps(value)
    )
    found: list[str] = []
    redact_json(written, finder, lambda at, span: found.append(span.value))
    assert finder.suspects(written.encode()) == bool(found)


@given(st.lists(st.sampled_from([each.text for each in SECRETS]), max_size=3), st.integers(1, 40))
def test_a_line_with_a_known_value_is_always_suspected(texts: list[str], every: int) -> None:
    value = 'x4Jq0Zb8mT/"k'
    finder = Finder((), {value: "password"})
    raw = escaped("".join([*texts, value, *texts]), every).encode()
    assert finder.knows(raw)
    assert find_secrets(value) == []


def test_without_known_values_no_line_is_suspected() -> None:
    assert not Finder().knows(b'{"text":"\\u0077ord"}')
    assert Finder((), {"a-word-77-of-mine": "password"}).knows(b'{"text":"\\u0077ord"}')


def test_a_private_key_is_replaced_in_the_lines_of_a_diff(
    store: Store, redact: Redact, path: Path
) -> None:
    lines = [f"+{line}" for line in ["before", *PEM.splitlines(), "after"]]
    diff = {"filePath": "/k.pem", "structuredPatch": [{"oldStart": 1, "lines": lines}]}
    written = call("Write", {"file_path": "/k.pem", "content": PEM}, "t1")
    write(path, session(user("hi"), assistant(written), result("t1", tool_use_result=diff)))
    redact(path)
    left = path.read_text("utf-8")
    assert "+before" in left
    assert not [line for line in PEM.splitlines()[1:-1] if line in left]
