"""A property: whatever happens on the disk, an exact state is what was there."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import assistant, session, text, user
from support.file_calls import Calls, full_path, patch, recorded, state_of
from turnlog.conversation.session import open_session
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.text_style import decode_file, encode_text
from turnlog.worktree.worktree import open_worktree

NAMES = ("a.txt", "b.txt")
TEXTS = ("one\ntwo\n", "one", "", "\tone\n\n", "one\r\ntwo\r\n", "\ufeffone\n", "one\r\ntwo\n")
ODD: tuple[Any, ...] = (None, -1, 10**30, "", "\0", "../x", [], {}, [None], {"a": 1}, 1.5)


class Disk:
    """Imitates client 2.1.325 on a disk of its own, and keeps the state after each line."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.calls = Calls()
        self.lines = [user("start")]
        self.after: list[dict[str, bytes]] = [{}]
        self.read: set[str] = set()

    def add(self, lines: list[bytes]) -> None:
        """Record lines; the disk changed before the last of them."""
        self.lines += lines
        self.after += [self.after[-1]] * (len(lines) - 1) + [dict(self.files)]

    def write(self, name: str, content: str) -> None:
        old = self.files.get(name)
        styled = decode_file(old) if old is not None else None
        self.files[name] = content.encode()
        original = None if styled is None else styled.style.mark + styled.text
        self.add(self.calls.write(name, content, original))

    def edit(self, name: str, content: str) -> None:
        styled = decode_file(self.files[name]) if name in self.files else None
        if styled is None or not styled.text:
            return
        before = styled.style.mark + styled.text
        new = content.replace("\r\n", "\n").replace("\ufeff", "") or "x"
        old = styled.text.split("\n")[0] or styled.text
        if styled.text.count(old) != 1:
            return
        changed = encode_text(styled.text.replace(old, new), styled.style)
        assert changed is not None
        self.files[name] = changed
        self.add(self.calls.edit(name, old, new, before, structuredPatch=patch(before, old, new)))

    def look(self, name: str, _: str) -> None:
        if name in self.files and (styled := decode_file(self.files[name])):
            self.add(self.calls.read(name, styled.text))

    def run(self, name: str, content: str) -> None:
        if content:
            self.files[name] = content.encode()
        else:
            self.files.pop(name, None)
        self.add(self.calls.bash(f"generate > {name}"))

    def idle(self, name: str, content: str) -> None:
        self.add([assistant(text("done"))])
        self.files[name] = content.encode()
        self.add([user("go on")])

    def list(self, name: str, _: str) -> None:
        self.add(self.calls.bash(f"ls {name}"))


ACTIONS = (Disk.write, Disk.edit, Disk.edit, Disk.look, Disk.run, Disk.idle, Disk.list)


@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
        max_size=14,
    )
)
def test_an_exact_state_is_what_was_on_the_disk(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any]
) -> None:
    disk = Disk()
    for action, name, content in steps:
        action(disk, name, content)
    path = recorded(tmp_path_factory.mktemp("session"))
    path.write_bytes(session(*disk.lines))
    worktree = open_worktree(open_session(path))
    known = {each.path for each in worktree.files.values()}
    for number, files in enumerate(disk.after, 1):
        for name in NAMES:
            if full_path(name) in known:
                state = state_of(worktree, name, f"line:{number}")
                if state.certainty is Certainty.EXACT:
                    assert state.content == files.get(name), (number, state)


def mutated(value: Any, random: Random) -> Any:
    """A value with some of its parts replaced by odd ones."""
    if random.random() < 0.03:
        return random.choice(ODD)
    if isinstance(value, dict):
        return {key: mutated(each, random) for key, each in value.items()}  # pyright: ignore
    return [mutated(each, random) for each in value] if isinstance(value, list) else value  # pyright: ignore


@pytest.mark.parametrize("seed", range(40))
def test_lines_that_are_not_as_expected_break_nothing(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    disk = Disk()
    for _ in range(12):
        random.choice(ACTIONS)(disk, random.choice(NAMES), random.choice(TEXTS))
    values = [json.loads(line) for line in session(*disk.lines).splitlines()]
    odd = [mutated(value, random) for value in values]
    path = recorded(tmp_path)
    path.write_text("".join(json.dumps(value) + "\n" for value in odd))
    worktree = open_worktree(open_session(path))
    for name in worktree.files.values():
        worktree.versions(name)
        worktree.base(name)
