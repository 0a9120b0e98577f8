"""Pools of made-up texts and tool calls, as JSON ready to be put into lines.

Sizes, escapes and characters beyond ASCII are as frequent as counted in public session files: 29
backslashes and 10 bytes beyond ASCII per kB, the latter mostly in the long texts.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

WORDS = """the of a to in is and that for it as with on be at by this from or an file line test
parse value result error return import class def self name path index list entry session branch
config request client server token cache update build check failed passed expected module schema
buffer thread handler commit merge review deploy query table column migration""".split()
ASIDE = (
    "",
    "",
    '"quoted"',
    'f"{value}\\n"',
    "call(argument)",
    "key: value,",
    "src/app/main.py:120",
    "{",
    "});",
)
FOREIGN = ("—", "→", "✓", "“so”", "│", "日本語", "naïve")
LONG = 4000
"""Texts of more characters than this often have some beyond ASCII."""


class Call(NamedTuple):
    """A call and its result; all but the name are JSON."""

    name: str
    input: str
    content: str
    result: str


@dataclass(frozen=True)
class Pools:
    """What lines are made of; each list is drawn from at random."""

    calls: list[Call]
    prompts: list[str]
    answers: list[str]
    thoughts: list[str]
    signatures: list[str]
    outputs: list[str]
    """What progress entries repeat of a command's output."""
    messages: list[str]
    """Messages of sub-agents, as progress entries of their parents repeat them."""
    attachments: list[str]


def make_pools(rng: Random, count: int = 1500) -> Pools:
    """Fill the pools; texts are repeated across sessions once `count` of a kind are used up."""
    writer = _Writer(rng)
    kinds, weights = zip(*CALLS, strict=True)
    return Pools(
        calls=[make(writer) for make in rng.choices(kinds, weights, k=2 * count)],
        prompts=writer.texts(count, 90, 1.3),
        answers=writer.texts(count, 150, 1.3),
        thoughts=writer.texts(count, 150, 1.2),
        signatures=[_signature(rng) for _ in range(count // 4)],
        outputs=writer.texts(count, 140, 1.5),
        messages=writer.texts(count, 2100, 1.3),
        attachments=writer.texts(count, 450, 1.5),
    )


def make_long_calls(rng: Random, count: int) -> list[Call]:
    """Commands with outputs of 2 to 50 kB."""
    writer = _Writer(rng)
    return [_command(writer, 2000 * 25 ** rng.random(), 0, 50_000) for _ in range(count)]


class _Writer:
    """Writes texts of code-like lines."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines = [self._line() for _ in range(4000)]
        self.foreign = [f"{line} {rng.choice(FOREIGN)}" for line in self.lines]

    def text(self, median: float, spread: float, limit: int = 60_000) -> str:
        """A text whose length has a log-normal distribution."""
        length = min(limit, self.rng.lognormvariate(math.log(median), spread))
        if length < 40:
            return " ".join(self.rng.choices(WORDS, k=1 + int(length / 6)))
        lines = self.rng.choices(self.lines, k=1 + int(length / 38))
        if self.rng.random() < (0.5 if length > LONG else 0.12):
            lines[::5] = self.rng.choices(self.foreign, k=len(lines[::5]))
        return "\n".join(lines)

    def texts(self, count: int, median: float, spread: float) -> list[str]:
        return [dump(self.text(median, spread)) for _ in range(count)]

    def path(self) -> str:
        return "/home/ada/work/src/" + "/".join(self.rng.choices(WORDS, k=3)) + ".py"

    def _line(self) -> str:
        words = self.rng.choices(WORDS, k=self.rng.randint(0, 8))
        return "    " * self.rng.randint(0, 3) + " ".join([*words, self.rng.choice(ASIDE)])


def dump(value: Any) -> str:
    """JSON as the client writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _signature(rng: Random) -> str:
    length = min(20_000, rng.lognormvariate(math.log(560), 1.1))
    return dump("".join(rng.choices("ABCDEFGHabcdefgh0123456789+/", k=int(length))))


def _bash(writer: _Writer) -> Call:
    return _command(writer, 400, 1.8, 30_000)


def _command(writer: _Writer, median: float, spread: float, limit: int) -> Call:
    command = {"command": writer.text(80, 0.9), "description": "Run the tests"}
    out = writer.text(median, spread, limit)
    result = {"stdout": out, "stderr": "", "interrupted": False, "isImage": False}
    return Call("Bash", dump(command), dump(out), dump(result))


def _read(writer: _Writer) -> Call:
    path, text = writer.path(), writer.text(3000, 1.4)
    lines = text.split("\n")
    numbered = "\n".join(f"{n:>6}→{line}" for n, line in enumerate(lines, 1))
    count = len(lines)
    file = {"filePath": path, "content": text, "numLines": count, "startLine": 1}
    result = {"type": "text", "file": file | {"totalLines": count}}
    # Line numbers were set off by an arrow or, later, by a tab.
    content = numbered if writer.rng.random() < 0.4 else numbered.replace("→", "\t")
    return Call("Read", dump({"file_path": path}), dump(content), dump(result))


def _edit(writer: _Writer) -> Call:
    path, old, new = writer.path(), writer.text(300, 1), writer.text(400, 1.1)
    change = {"filePath": path, "oldString": old, "newString": new}
    lines = [f"-{line}" for line in old.split("\n")] + [f"+{line}" for line in new.split("\n")]
    hunk = {"oldStart": 9, "oldLines": 9, "newStart": 9, "newLines": 9, "lines": lines}
    rest = {"structuredPatch": [hunk], "userModified": False, "replaceAll": False}
    original = None if writer.rng.random() < 0.18 else writer.text(8000, 1.2, 100_000)
    call = {"file_path": path, "old_string": old, "new_string": new, "replace_all": False}
    content = f"The file {path} has been updated successfully."
    return Call("Edit", dump(call), dump(content), dump(change | {"originalFile": original} | rest))


def _write(writer: _Writer) -> Call:
    path, text = writer.path(), writer.text(1500, 1.2)
    result: dict[str, Any] = {
        "type": "create",
        "filePath": path,
        "content": text,
        "structuredPatch": [],
    }
    call = {"file_path": path, "content": text}
    return Call("Write", dump(call), dump(f"File created at: {path}"), dump(result))


def _grep(writer: _Writer) -> Call:
    text = writer.text(700, 1.5, 20_000)
    result: dict[str, Any] = {"mode": "content", "numFiles": 0, "filenames": [], "numLines": 9}
    result["content"] = text
    call = {"pattern": "def .*session", "path": "src", "output_mode": "content", "-n": True}
    return Call("Grep", dump(call), dump(text), dump(result))


def _glob(writer: _Writer) -> Call:
    paths = [writer.path() for _ in range(writer.rng.randint(1, 40))]
    result = {"filenames": paths, "durationMs": 12, "numFiles": len(paths), "truncated": False}
    return Call("Glob", dump({"pattern": "**/*.py"}), dump("\n".join(paths)), dump(result))


def _todo(writer: _Writer) -> Call:
    todos = [
        {"content": writer.text(40, 0.5), "status": "pending", "activeForm": "Working"}
        for _ in range(writer.rng.randint(2, 8))
    ]
    result = {"oldTodos": todos, "newTodos": todos}
    return Call("TodoWrite", dump({"todos": todos}), dump("Todos have been modified"), dump(result))


def _failure(writer: _Writer) -> Call:
    text = "Error: " + writer.text(200, 1)
    return Call("Bash", dump({"command": writer.text(80, 0.9)}), dump(text), dump(text))


CALLS: tuple[tuple[Callable[[_Writer], Call], int], ...] = (
    (_bash, 38),
    (_read, 24),
    (_edit, 15),
    (_write, 5),
    (_grep, 7),
    (_glob, 3),
    (_todo, 4),
    (_failure, 4),
)
"""Each tool and its share of the calls; calls of sub-agents come on top."""
