"""Patterns of sandbox settings are looked up within bounds, whoever wrote them."""

import json
import os
from pathlib import Path
from time import monotonic

import pytest

from support.chat_process import ChatProcess
from support.scripted_api import called, said, scripted_api
from turnlog.agent.config.settings import load
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.shell.bubblewrap import wrapper_of
from turnlog.agent.workspace.shell.sandbox_settings import Confinement
from turnlog.errors import UsageError
from turnlog.store.paths import Store

SECONDS = 5.0
CLIMBING = "/*/../*/../*/../*/../*/../*/../x"


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Stands for bubblewrap, which need not be installed to make its command line."""
    path = tmp_path / "bwrap"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def hidden_by(program: str, root: Path, *patterns: str) -> list[str]:
    options = Confinement(is_on=True, program=program, hidden=patterns)
    wrapper = wrapper_of(Basis.USER, options, [], root)
    nothing = [place for place, part in enumerate(wrapper) if part == "/dev/null"]
    folders = [place for place, part in enumerate(wrapper) if part == "--tmpfs"]
    return sorted(wrapper[place + 1] for place in (*nothing, *folders))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.env", ["b.env"]),
        ("**/*.env", ["b.env", "web/.env", "web/in/a.env"]),
        ("*/.env", ["web/.env"]),
        ("web/*/a.env", ["web/in/a.env"]),
        ("w?b/[.]env", ["web/.env"]),
        ("*/in", ["web/in"]),
        ("*/in/**", ["web/in"]),
        ("*/in/../.env", ["web/.env"]),
        ("no*/x", []),
        ("b.env/*", []),
    ],
)
def test_patterns_name_files(tmp_path: Path, program: str, pattern: str, found: list[str]) -> None:
    root = tmp_path / "shop"
    (root / "web" / "in").mkdir(parents=True)
    for name in ("b.env", "web/.env", "web/in/a.env"):
        (root / name).write_text("x")
    assert hidden_by(program, root, f"{root}/{pattern}") == [f"{root}/{name}" for name in found]


@pytest.mark.parametrize(
    "patterns",
    [
        (CLIMBING,),
        ("/**/x*y*z",),
        ("/**/**/**/**/a*/**/b*/**/c*",),
        tuple(f"/*/*{number}" for number in range(20_000)),
        ("/*/*/*/*/*/*/*/*",),
        ("/proc/*/root/*/root/*/x",),
    ],
    ids=["climbing", "everywhere", "depths", "many", "broad", "proc"],
)
def test_no_pattern_takes_long(tmp_path: Path, program: str, patterns: tuple[str, ...]) -> None:
    started = monotonic()
    try:
        hidden_by(program, tmp_path, *patterns)
    except UsageError as error:
        assert "matches too many files" in str(error)  # noqa: PT017
    assert monotonic() - started < SECONDS


def test_what_cannot_be_read_matches_nothing(tmp_path: Path, program: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    patterns = (f"{tmp_path}/*/x", f"{tmp_path}/loop", f"{tmp_path}/{'a' * 300}", f"{tmp_path}/l*")
    assert hidden_by(program, tmp_path, *patterns) == []


def test_too_many_matches_let_no_command_run(tmp_path: Path, program: str) -> None:
    for number in range(1_100):
        (tmp_path / f"{number}.key").touch()
    with pytest.raises(UsageError, match="too many files"):
        hidden_by(program, tmp_path, f"{tmp_path}/*.key")


def untrusted(store: Store, root: Path, sandbox: object) -> Confinement:
    path = root / ".claude" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"sandbox": sandbox}))
    return load(store, root, is_trusted=lambda path: False).sandbox


def test_patterns_of_an_untrusted_project_stay_inside(store: Store, tmp_path: Path) -> None:
    denied = [
        "/secret",
        "keys/*.pem",
        CLIMBING,
        "../*/x",
        "~/*",
        "//**/x",
        "a/*/../../*/b",
        "~/.ssh/**",
    ]
    said = {"filesystem": {"denyRead": denied, "denyWrite": denied}}
    said |= {"credentials": {"files": [{"path": path} for path in denied]}}
    rules = untrusted(store, tmp_path, said)
    kept = ("/secret", f"{tmp_path}/keys/*.pem", os.path.expanduser("~/.ssh"))  # noqa: PTH111
    assert (rules.unwritable, rules.hidden) == (kept, kept + kept)
    (told,) = load(store, tmp_path, is_trusted=lambda path: False).ignored
    assert told.endswith("settings.json (sandbox.filesystem, sandbox.credentials)")


def test_an_untrusted_project_cannot_name_thousands(store: Store, tmp_path: Path) -> None:
    names = [f"x{number}" for number in range(5_000)]
    said = {
        "filesystem": {"denyRead": names},
        "credentials": {"envVars": [{"name": name} for name in names]},
    }
    rules = untrusted(store, tmp_path, said)
    assert (len(rules.hidden), len(rules.variables)) == (200, 200)


def test_a_path_that_cannot_be_is_left_out(store: Store, tmp_path: Path) -> None:
    said = {"filesystem": {"denyRead": ["a\0b", "c"]}}
    assert untrusted(store, tmp_path, said).hidden == (f"{tmp_path}/c",)


def test_an_untrusted_project_lets_commands_run_in_time(tmp_path: Path) -> None:
    with scripted_api(called(("t1", "Bash", {"command": "ls"})), said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        (chat.work / ".claude").mkdir()
        said_there = {"filesystem": {"denyRead": [CLIMBING, "/**/x*y*z"]}}
        said_there |= {"credentials": {"envVars": [{"name": "A=B"}]}}
        (chat.work / ".claude" / "settings.json").write_text(json.dumps({"sandbox": said_there}))
        (chat.work / "seen.txt").touch()
        told = chat.run("-p", "hello")
    assert (told.code, told.out) == (0, "Done.\n")
    assert "seen.txt" in json.dumps(api.requests[-1].body["messages"][-1])
