"""The lines of nasty.jsonl, each with the expected result of reading it.

Run this file to write nasty.jsonl again.
"""

from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_suffix(".jsonl")


class Case(NamedTuple):
    """A line without its newline, how many entries are read from it, and what is said about it."""

    raw: bytes
    entries: int = 1
    problems: tuple[str, ...] = ()


def prompt(text: bytes) -> bytes:
    """A user line."""
    return b'{"type":"user","uuid":"u1","message":{"role":"user","content":"' + text + b'"}}'


def deep(opening: bytes, closing: bytes, depth: int) -> bytes:
    """A user line whose content is nested."""
    return b'{"type":"user","content":' + opening * depth + b"1" + closing * depth + b"}"


SOUND = prompt(b"hi")
DEEP = "nested too deeply"
CASES: dict[str, Case] = {
    "byte order mark": Case(b"\xef\xbb\xbf" + SOUND, 1, ("a byte order mark",)),
    "sound": Case(SOUND),
    "blank": Case(b"", 0),
    "spaces": Case(b" \t ", 0),
    "carriage return": Case(SOUND + b"\r"),
    "carriage return alone": Case(b"\r", 0),
    "spaces around": Case(b"  " + SOUND + b"  "),
    "NULs before": Case(b"\0" * 64 + SOUND, 1, ("NUL bytes",)),
    "NULs within": Case(prompt(b"h\0i"), 1, ("NUL bytes",)),
    "NULs alone": Case(b"\0" * 64, 0, ("NUL bytes",)),
    "invalid UTF-8": Case(prompt(b"caf\xe9"), 1, ("invalid UTF-8",)),
    "encoded surrogate": Case(prompt(b"\xed\xa0\xbd"), 1, ("invalid UTF-8",)),
    "lone surrogate": Case(prompt(rb"half \ud83d of it")),
    "reversed surrogates": Case(prompt(rb"\ude00\ud83d")),
    "control characters": Case(prompt(b"tab\tand\x01more")),
    "two objects": Case(SOUND + SOUND, 2, ("2 values on one line",)),
    "three objects": Case(SOUND + b" " + SOUND + b"\r" + SOUND, 3, ("3 values on one line",)),
    "object and number": Case(SOUND + b"7", 1, ("JSON, but not an object", "2 values on one line")),
    "a string": Case(b'"user"', 0, ("JSON, but not an object",)),
    "an array": Case(b"[" + SOUND + b"]", 0, ("JSON, but not an object",)),
    "null": Case(b"null", 0, ("JSON, but not an object",)),
    "not a number": Case(b"NaN", 0, ("JSON, but not an object",)),
    "torn and sealed": Case(
        b'{"type":"us', 0, ("not JSON: Unterminated string starting at column 9",)
    ),
    "object after a torn one": Case(
        b'{"type":' + SOUND, 0, ("not JSON: Expecting ',' delimiter at column 78",)
    ),
    "torn after an object": Case(
        SOUND + b'{"type', 1, ("not JSON: Unterminated string starting at column 70",)
    ),
    "not JSON at all": Case(b"Segmentation fault", 0, ("not JSON: Expecting value at column 1",)),
    "binary": Case(
        b"\x80\x00\xff", 0, ("NUL bytes", "invalid UTF-8", "not JSON: Expecting value at column 1")
    ),
    "deep arrays": Case(deep(b"[", b"", 12_000), 0, (DEEP,)),
    "deep results": Case(deep(b'[{"type":"tool_result","content":', b"}]", 450), 0, (DEEP,)),
    "not finite": Case(b'{"type":"user","a":NaN,"b":Infinity,"c":-Infinity,"d":1e999}'),
    "huge integer": Case(b'{"type":"pr-link","prNumber":' + b"7" * 400 + b"}"),
    "integer beyond conversion": Case(b'{"type":"user","newField":' + b"7" * 5000 + b"}"),
    "odd numbers": Case(
        b'{"type":"system","subtype":"turn_duration","durationMs":1e5,"messageCount":-0,"n":1.0}'
    ),
    "odd escapes": Case(rb'{"\u0074ype":"us\u0065r","a":"\/\b\f\n\r\t\"\\ \uD83D\uDE00 \u0000"}'),
    "key given twice": Case(b'{"type":"summary","type":"user","uuid":"u1","uuid":"u2"}'),
    "unknown type": Case(b'{"type":"sparkle","uuid":"x1","glitter":[1,{"a":null}]}'),
    "no type": Case(b'{"uuid":"x1"}'),
    "empty object": Case(b"{}"),
    "unknown block": Case(
        b'{"type":"assistant","message":{"content":[{"type":"hologram","z":1},7,"x"]}}'
    ),
    "unknown progress": Case(b'{"type":"progress","data":{"type":"warp_progress","speed":9}}'),
    "misfits": Case(b'{"type":"user","uuid":7,"isMeta":"yes","message":{"role":[],"content":5}}'),
    "torn": Case(
        b'{"type":"assistant","message":{"content":[{"type":"te', 0, ("the last line is torn",)
    ),
}


def nasty() -> bytes:
    """The content of nasty.jsonl."""
    return b"\n".join(case.raw for case in CASES.values())


if __name__ == "__main__":
    PATH.write_bytes(nasty())
