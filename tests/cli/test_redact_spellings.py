"""Secrets that a JSON decoder, or another way to write JSON, would hide are found and replaced."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import SESSION, session, user
from support.planted import write
from turnlog.edit.redact.json_strings import hides_strings
from turnlog.store.paths import Store

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
PASSWORDS = [
    "Tr0ub&dor<77>x",
    "pässwörd-77x",
    "s3cr/et/pa55xyz",
    'q"uo\\te/ö-55',
    "ключ-от-дома-77",
]


def twice(first: str, second: str) -> Callable[[bytes], bytes]:
    """Write a field twice."""
    return lambda raw: raw.replace(
        b'"content":"X"', f'"content":{first},"content":{second}'.encode()
    )


LINES: dict[str, Callable[[bytes], bytes]] = {
    "first": twice(json.dumps(f"token {TOKEN}"), '"hello"'),
    "second": twice('"hello"', json.dumps(f"token {TOKEN}")),
    "blocks": twice(json.dumps([{"type": "text", "text": TOKEN}]), '"hello"'),
    "field that is left alone": lambda raw: raw.replace(
        b'"cwd":', f'"cwd":"/home/{TOKEN}","cwd":'.encode()
    ),
    "name": lambda raw: raw.replace(
        b'"userType":', f'"userType":{{"{TOKEN}":1}},"userType":'.encode()
    ),
    "with escapes": twice(json.dumps(f'a\\" \\ "{TOKEN}" \\\\'), r'"\\\" \\"'),
    "nested": twice(json.dumps({"a": 1, "b": {"c": [TOKEN]}}), "null"),
}


@pytest.mark.parametrize("change", LINES.values(), ids=LINES.keys())
def test_a_field_that_is_written_twice_hides_nothing(
    project: Path, turnlog: Run, change: Callable[[bytes], bytes]
) -> None:
    path = write(project / f"{SESSION}.jsonl", change(session(user("X"))))
    assert TOKEN.encode() in path.read_bytes()
    done = turnlog("redact", SESSION)
    is_left = TOKEN.encode() in path.read_bytes()
    assert is_left == (done.code == 1), "what cannot be replaced is told"
    assert "no secrets found" not in done.out


@pytest.mark.parametrize("text", ["", "\\", '"', '\\"', 'a\\\\"b', '\\\\\\"', "\x00\u2028ä"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_strings_are_counted_as_they_are_decoded(text: str, is_ascii: bool) -> None:
    value: Any = {text: [text, 1, None, {text: text}], "b" + text: {}}
    assert not hides_strings(json.dumps(value, ensure_ascii=is_ascii).encode(), value)


def go(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return written.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


WRITERS: dict[str, Callable[[str], str]] = {
    "Python": json.dumps,
    "Python, upper case": lambda text: json.dumps(text).replace(r"\u00e", r"\u00E"),
    "Go": go,
    "PHP": lambda text: json.dumps(text).replace("/", r"\/"),
    "every letter": lambda text: '"' + "".join(f"\\u{ord(c):04x}" for c in text) + '"',
    "JSON in JSON": lambda text: json.dumps(json.dumps({"v": text}).replace("/", r"\/")),
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(json.dumps([text]))),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())
@pytest.mark.parametrize("value", PASSWORDS)
def test_known_values_are_found_however_json_in_a_text_escapes_them(
    store: Store, project: Path, turnlog: Run, value: str, writer: Callable[[str], str]
) -> None:
    written = writer(value)
    notes = store.root / "projects" / "-home-ada-shop" / SESSION / "tool-results" / "a.txt"
    lines = session(user(json.dumps({"password": value})), user(f'got {{"value": {written}}} here'))
    path = write(project / f"{SESSION}.jsonl", lines)
    write(notes, f'{{"value": {written}}}'.encode())
    done = turnlog("redact", SESSION)
    assert (done.code, done.err) == (0, "")
    assert written[1:-1] not in json.loads(path.read_bytes().splitlines()[1])["message"]["content"]
    assert written[1:-1] not in notes.read_text("utf-8")
    assert turnlog("redact", SESSION).out == "no secrets found\n"


@pytest.mark.parametrize("writer", [WRITERS["every letter"], WRITERS["JSON in JSON in JSON"]])
def test_a_token_that_is_only_written_in_escapes_is_found(
    project: Path, turnlog: Run, writer: Callable[[str], str]
) -> None:
    path = write(project / f"{SESSION}.jsonl", session(user(f"got {writer(TOKEN)} here")))
    before = path.read_bytes()
    assert turnlog("redact", SESSION).code == 0
    assert path.read_bytes() != before
    assert b"github-token" in path.read_bytes()


def test_texts_without_secrets_stay_as_they_are(project: Path, turnlog: Run) -> None:
    text = r"C:\users\ada, \/ and \u0041, \ud83d\ude00, \ud83d, \u00e"
    path = write(project / f"{SESSION}.jsonl", session(user(text), user(json.dumps(text))))
    before = path.read_bytes()
    assert turnlog("redact", SESSION).out == "no secrets found\n"
    assert path.read_bytes() == before


@pytest.fixture
def store(project: Path) -> Store:
    return Store(project.parent.parent)
