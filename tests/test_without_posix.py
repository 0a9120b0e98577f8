"""Windows: sessions that were written there, and turnlog without what POSIX offers.

None of this runs on Windows: `without_posix` takes away from a process on Linux what Windows lacks.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Outcome
from support.build import SESSION, assistant, call, result, session, text, user
from support.without_posix import restricted
from turnlog.format import portable
from turnlog.format.jsonl import append_lines, read_lines
from turnlog.store.paths import folder_name

SOURCE = Path(__file__).parent.parent / "src"
SCRIPT = Path(__file__).parent / "support/without_posix.py"
LONG_AGO = (1.7e9, 1.7e9)
DIRECTORIES = [r"C:\Users\ada\proj", r"\\srv\share\proj", "e:/work/proj", r"D:\デスクトップ\a b"]
BOM = b"\xef\xbb\xbf"


def modules() -> list[str]:
    found = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")]
    names = [path.with_suffix("").parts for path in found if path.name != "__main__.py"]
    return sorted(
        ".".join(parts).removesuffix(".__init__") for parts in names if parts[1:2] != ("agent",)
    )


def run(root: Path, *arguments: str, is_windows: bool = True) -> Outcome:
    """Run turnlog in a process of its own, as on Windows or on this system."""
    command = [str(SCRIPT)] if is_windows else ["-m", "turnlog"]
    own = {"CLAUDE_CONFIG_DIR": root, "TURNLOG_HOME": root / "own", "XDG_CACHE_HOME": root / "c"}
    done = subprocess.run(
        [sys.executable, *command, *arguments],
        env=os.environ | {name: str(path) for name, path in own.items()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def written_in(cwd: str, end: bytes = b"\r\n", start: bytes = b"") -> bytes:
    """A session as it may lie on a disk of Windows."""
    file = f"{cwd}\\src\\main.py"
    change = {"file_path": file, "old_string": "a", "new_string": "b"}
    patch = [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}]
    lines = [
        user("Fix main"),
        assistant(call("Edit", change, "E"), message_id="m1"),
        result("E", "ok", tool_use_result={"filePath": file, "structuredPatch": patch}),
        assistant(call("Bash", {"command": r"C:\Git\bin\git.exe status"}, "B"), message_id="m2"),
        result("B", "x\r\n" * 1000, is_error=True),
        assistant(text("done"), message_id="m3"),
        user("More"),
        assistant(text("ok"), message_id="m4"),
    ]
    whole = session(*lines).replace(b'"/home/ada/shop"', json.dumps(cwd).encode())
    return start + whole.replace(b"\n", end)


def write(root: Path, cwd: str, start: bytes = b"") -> Path:
    folder = root / "projects" / folder_name(cwd)
    folder.mkdir(parents=True)
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(written_in(cwd, start=start))
    os.utime(path, LONG_AGO)
    return path


def test_every_module_but_the_agents_is_imported_without_posix() -> None:
    done = run(Path("/nowhere"), "import", *modules())
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("cwd", "start"), list(zip(DIRECTORIES, (b"", BOM, b"", BOM), strict=True))
)
def test_sessions_written_on_windows_are_read(tmp_path: Path, cwd: str, start: bytes) -> None:
    write(tmp_path, cwd, start)
    file = f"{cwd}\\src\\main.py"
    assert cwd in run(tmp_path, "ls").out
    assert json.loads(run(tmp_path, "files", "last", "--json").out)[0]["path"] == file
    assert file in run(tmp_path, "show", "last").out
    assert json.loads(run(tmp_path, "cost", "last", "--json").out)["models"][0]["messages"] == 4
    assert [each["id"] for each in json.loads(run(tmp_path, "check", "last", "--json").out)] == [
        SESSION
    ]
    row = json.loads(run(tmp_path, "stats", "project", "--json").out)["rows"][0]
    assert (row["project"], row["turns"], row["calls"]) == (cwd, 2, 2)
    assert SESSION in run(tmp_path, "ls", "--project", cwd, "--json").out
    errors = json.loads(run(tmp_path, "stats", "errors", "--json").out)["rows"]
    assert errors[0]["command"] == "git status"


@pytest.mark.parametrize(
    "options",
    [["--stub-results"], ["--strip-tools"], ["--strip-thinking"], ["--until", "1"]],
    ids=" ".join,
)
def test_edits_keep_line_ends(tmp_path: Path, options: list[str]) -> None:
    path = write(tmp_path, DIRECTORIES[1], BOM)
    before = path.read_bytes()
    assert run(tmp_path, "edit", "last", *options).code == 0
    after = path.read_bytes()
    assert after.count(b"\n") == after.count(b"\r\n") > 0
    assert after.startswith(BOM) == before.startswith(BOM)
    if after != before:
        assert run(tmp_path, "undo").code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("start", [b"", BOM], ids=["", "with a byte order mark"])
def test_a_clone_keeps_line_ends_and_can_be_read(tmp_path: Path, start: bytes) -> None:
    path = write(tmp_path, DIRECTORIES[0], start)
    assert run(tmp_path, "clone", "last").code == 0
    (copy,) = [each for each in path.parent.glob("*.jsonl") if each != path]
    raw = copy.read_bytes()
    assert raw.count(b"\n") == raw.count(b"\r\n") == 8
    assert run(tmp_path, "check", copy.stem).code == 0


def test_a_large_output_that_windows_kept_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "C--proj"
    (folder / SESSION / "tool-results").mkdir(parents=True)
    (folder / SESSION / "tool-results" / "b1.txt").write_text("the whole output")
    where = rf"C:\Users\ada\.claude\projects\C--proj\{SESSION}\tool-results\b1.txt"
    told = f"<persisted-output>\nOutput too large. Full output saved to: {where}\n"
    lines = [user("Go"), assistant(call("Bash", {"command": "x"}, "B")), result("B", told)]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines, assistant(text("ok"))))
    checked = run(tmp_path, "check", "last", is_windows=False)
    assert (checked.code, "lost" in checked.out) == (0, False)
    assert "the whole output" in run(tmp_path, "show", "last", "--full", is_windows=False).out


@pytest.mark.parametrize(
    "command",
    [
        *("", "turns last", "calls last", "entries last", "tree last", "context last"),
        *("search main", "stats daily", "inspect --all", "where", "history", "hook status"),
        *("trace last --dry-run", "sync", "rename last x", "archive", "mv last .", "redact --all"),
    ],
)
def test_commands_need_nothing_that_windows_lacks(tmp_path: Path, command: str) -> None:
    """Without what POSIX offers, a command prints and writes the same."""
    outcomes: list[object] = []
    for is_windows in (False, True):
        root = tmp_path / ("windows" if is_windows else "linux")
        write(root, r"C:\proj")
        done = run(root, *command.split(), is_windows=is_windows)
        files = [p.name for p in sorted(root.rglob("*.jsonl")) if "own" not in p.parts]
        outcomes.append((done.code, len(done.out.splitlines()), done.err, files))
    assert outcomes[0] == outcomes[1]
    assert outcomes[1][0] == 0  # pyright: ignore


def test_what_is_archived_and_removed_can_be_restored(tmp_path: Path) -> None:
    path = write(tmp_path, r"C:\proj")
    before = path.read_bytes()
    for command in ("archive", f"rm {SESSION}", f"restore {SESSION}", "archive --check"):
        done = run(tmp_path, *command.split())
        assert (done.code, done.err) == (0, "")
    assert path.read_bytes() == before
    assert not [each for each in tmp_path.rglob("*") if each.name.startswith(".turnlog-")]


def test_a_file_that_stays_open_elsewhere_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portable, "HAS_FOLDER_DESCRIPTORS", False)
    monkeypatch.setattr(portable, "PATIENCE", 0.1)
    monkeypatch.setattr(os, "replace", restricted(os.replace))
    ready, path = tmp_path / "ready", tmp_path / "file"
    ready.write_bytes(b"new")
    path.write_bytes(b"old")
    with path.open("rb"), pytest.raises(PermissionError, match="in use"):
        portable.move_over(ready, path, (), lambda: None)
    assert path.read_bytes() == b"old"
    portable.move_over(ready, path, (), lambda: None)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("arguments", [["chat"], ["chat", "-p", "hi"]], ids=" ".join)
def test_chat_says_that_it_needs_wsl(tmp_path: Path, arguments: list[str]) -> None:
    done = run(tmp_path, *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err == "turnlog: chat needs Linux, macOS or WSL (try: wsl turnlog chat)\n"


LOCKING = """
import os, sys
import without_posix
descriptor = os.open(sys.argv[1], os.O_RDWR)
without_posix.hide_posix()
from turnlog.format.locks import lock
lock(descriptor, wait=False)
print("held", flush=True)
sys.stdin.read()
"""


def test_locks_of_windows_exclude_each_other_and_end_with_their_process(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\r\n")
    words = [sys.executable, "-c", LOCKING, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=SCRIPT.parent, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused = subprocess.run(
            words, cwd=SCRIPT.parent, capture_output=True, text=True, check=False
        )
        assert "BlockingIOError" in refused.stderr
        holder.kill()
    append_lines(path, [b"[]"])
    assert [line.raw for line in read_lines(path)] == [b"{}\r\n", b"[]\n"]
