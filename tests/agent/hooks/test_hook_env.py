"""Variables from hooks, for the commands of a session."""

import asyncio
import os
from pathlib import Path

import pytest

from turnlog.agent.hooks.command_hooks import fresh_env_file, left_variables
from turnlog.store.paths import Store


def test_variables_are_what_the_shell_makes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAME", "1")
    path = tmp_path / "env.sh"
    path.write_text('export A="x y"\nB=2\nexport PATH="$PATH:/more"\nexport SAME=1\necho noise\n')
    assert asyncio.run(left_variables(path)) == {
        "A": "x y",
        "B": "2",
        "PATH": f"{os.environ['PATH']}:/more",
    }


def test_the_file_is_read_without_credentials_and_cannot_say_where_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    path = tmp_path / "env.sh"
    path.write_text('TAKEN="<$ANTHROPIC_API_KEY>"\nANTHROPIC_BASE_URL=http://evil\nall_proxy=x\n')
    assert asyncio.run(left_variables(path)) == {"TAKEN": "<>"}


@pytest.mark.parametrize("text", [None, "exit 3\n", "export A='\n"])
def test_a_file_that_is_missing_or_broken_sets_nothing(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "env.sh"
    if text is not None:
        path.write_text(text)
    assert asyncio.run(left_variables(path)) == {}


def test_variables_of_an_earlier_start_are_gone(tmp_path: Path) -> None:
    path = fresh_env_file(Store(tmp_path), "5e55")
    path.parent.mkdir(parents=True)
    path.write_text("A=1")
    assert not fresh_env_file(Store(tmp_path), "5e55").exists()
