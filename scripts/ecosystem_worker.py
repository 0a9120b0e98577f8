"""Run the ecosystem check's commands on sessions, with whatever `turnlog` is first on the path.

Started by `ecosystem.py` once per checkout, with a file of tasks. Only the command line's entry
point is used, so that a checkout may move its modules as it likes. Commands run in this process,
where a command takes a tenth of the time of a new one; each task has a process, a home and a
directory of its own, the same in both checkouts.
"""

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

SECONDS = 120
"""What a command may take."""
MTIME = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b(20\d\d)-?(\d\d)-?(\d\d)[T -](\d\d)[:-]?(\d\d)(?:[:-]?(\d\d)(?:\.\d+)?)?Z?")
EPOCH = re.compile(r"\b1\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b")
WORDS = re.compile(
    r"(?P<port>127\.0\.0\.1:\d+)|(?P<change><now>-[0-9a-f]{4,}\b)|(?P<machine>(?<=\"machine\": \")\w+)"
    r"|(?P<message>msg_\d{4,}\b)|(?P<request>\breq_\d+\b)|(?P<agent>\ba[0-9a-f]{16}\b)"
    r"|(?P<output>tool-results/b[0-9a-z]{8}\b)"
)
LOCAL = r"\ba[0-9a-f]{16}\b|tool-results/b[0-9a-z]{8}\b"
Effects = dict[str, tuple[int, int, int]]
Record = dict[str, str]
SCENES: dict[str, Any] = {}


class Left(BaseException):
    """The command line has ended, where a process of its own would."""


class Machine:
    """A home with a store, and the commands that were run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.out = folder / "work", folder / "out"
        self.names: dict[str, str] = {"out": str(self.out), "dest": str(folder / "dest")}
        self.known: set[str] = set()
        self.started = time.time()
        self.record: Record = {}
        for each in (self.work, self.out, folder / "dest"):
            each.mkdir(parents=True)
        self.move_to("home")

    def move_to(self, home: str) -> None:
        """Go on as another user of the same directories."""
        self.home = self.folder / home
        self.store = self.home / ".claude"
        (self.store / "projects").mkdir(parents=True, exist_ok=True)
        os.environ["HOME"] = str(self.home)

    def do(self, command: str, note: str = "", given: bytes = b"") -> bool:
        """Run a command in its first spelling that exists; record its output and its effects."""
        before = self.snapshot()
        contents = {path: Path(path).read_bytes() for path in before}
        for spelling in command.split(" | "):
            words = [self._fill(word) for word in shlex.split(spelling)]
            began = time.process_time()
            code, out, err = run(words, self.work, given)
            if TIMING:
                print(f"TIMING {time.process_time() - began:.3f} {code} {command}", file=sys.stderr)
            if code != "2":
                break
        text = "".join(
            f"--- {name}\n{shown}\n"
            for name, shown in (("stdout", _pretty(out)), ("stderr", err))
            if shown.strip()
        )
        after = self.snapshot()
        for path in sorted({*before, *after}):
            if before.get(path) != after.get(path):
                new = Path(path).read_bytes() if path in after else None
                text += _change(self._short(path), contents.get(path), new)
        self.add(command + note, f"exit {code}\n{text}")
        return before != after

    def add(self, label: str, text: str) -> None:
        number = sum(each.partition(" #")[0] == label for each in self.record)
        text = self._normalize(text)
        for each in SCENES["noise"]:
            if fnmatchcase(label, each["command"]):
                text = re.sub(each["pattern"], r'\1"<varies>"', text)
        self.record[f"{label} #{number + 1}" if number else label] = text

    def snapshot(self) -> Effects:
        """Return the state of each file in the store and in `out`."""
        found: Effects = {}
        for top in (self.store, self.out):
            for folder, _, names in os.walk(top):
                for name in names:
                    path = f"{folder}/{name}"
                    status = os.lstat(path)
                    found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found

    def age(self) -> None:
        """Date all files back: some commands leave alone what has just been written."""
        for number, path in enumerate(sorted(self.snapshot())):
            os.utime(path, (MTIME + number, MTIME + number))

    def learn(self, text: str) -> None:
        """Remember the ids that are in the input: they are not replaced."""
        self.known.update(UUID.findall(text), re.findall(LOCAL, text))

    def _fill(self, word: str) -> str:
        names = self.names | {"store": str(self.store), "work": str(self.work)}
        return re.sub(r"\{(\w+)\}", lambda found: names[found[1]], word)

    def _short(self, path: str) -> str:
        return path.removeprefix(f"{self.folder}/")

    def _normalize(self, text: str) -> str:
        """Replace paths, times, ids and ports that differ from run to run."""
        text = text.replace(str(self.folder), "<root>").replace(str(Path(CHECKOUT)), "<turnlog>")
        encoded = re.sub(r"[^A-Za-z0-9]", "-", str(self.folder))
        text = text.replace(encoded, "<root>")
        text = EPOCH.sub(self._epoch, TIME.sub(self._time, text))
        ids: dict[str, str] = {}
        for each in UUID.findall(text):
            if each not in self.known and each not in ids:
                ids[each] = f"<id {len(ids) + 1}>"
                ids.setdefault(each[:8], ids[each])
        if ids:
            text = re.sub("|".join(sorted(ids, key=len, reverse=True)), lambda m: ids[m[0]], text)
        numbers: dict[str, str] = {}

        def numbered(found: re.Match[str]) -> str:
            if found[0] in self.known:
                return found[0]
            return numbers.setdefault(found[0], f"<{found.lastgroup} {len(numbers) + 1}>")

        return WORDS.sub(numbered, text)

    def _time(self, found: re.Match[str]) -> str:
        try:
            when = datetime(*(int(part or 0) for part in found.groups()), tzinfo=UTC).timestamp()  # pyright: ignore
        except ValueError:
            return found[0]
        return "<now>" if self._is_now(when) else found[0]

    def _epoch(self, found: re.Match[str]) -> str:
        return "1111111111" if self._is_now(float(found[0][:10])) else found[0]

    def _is_now(self, when: float) -> bool:
        return self.started - 90 <= when <= time.time() + 90


def run(arguments: list[str], folder: Path, given: bytes) -> tuple[str, str, str]:
    """Run a command line in this process; return its exit code, output and messages."""
    main: Callable[[], None] = sys.modules["turnlog.__main__"].main
    kept = [os.dup(number) for number in range(3)]
    streams = sys.stdin, sys.stdout, sys.stderr
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        for number, file in enumerate((stdin, stdout, stderr)):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (
            TextIOWrapper(os.fdopen(os.dup(number), mode), encoding="utf-8")
            for number, mode in enumerate(("rb", "wb", "wb"))
        )
        sys.argv = ["turnlog", *arguments]
        os.chdir(folder)
        environment = dict(os.environ)
        signal.alarm(SECONDS)
        try:
            main()
            code = "0"
        except (Left, SystemExit) as left:
            code = str(left.args[0] if left.args else 0)
        except BaseException:
            code = traceback.format_exc()
        finally:
            signal.alarm(0)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            for number, descriptor in enumerate(kept):
                os.dup2(descriptor, number)
                os.close(descriptor)
            sys.stdin, sys.stdout, sys.stderr = streams
            os.environ.clear()
            os.environ.update(environment)
        stdout.seek(0)
        stderr.seek(0)
        return code, *(each.read().decode(errors="backslashreplace") for each in (stdout, stderr))  # pyright: ignore


def _pretty(text: str) -> str:
    """Return text with JSON laid out, so that a diff shows fields."""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except ValueError:
        return text


def _change(name: str, old: bytes | None, new: bytes | None) -> str:
    """Return what became of a file; unchanged lines are only counted."""
    if new is None:
        return f"--- removed {name}\n"
    try:
        lines = new.decode().split("\n")
    except ValueError:
        # An archive contains times; what is in it shows where it is unpacked.
        packed = name.endswith((".turnlog", ".gz", ".zip", ".zst"))
        return f"--- binary {name}\n{'' if packed else sha256(new).hexdigest()}\n"
    if old is None:
        return f"--- new {name}\n{new.decode()}\n"
    before = {
        line: number for number, line in enumerate(old.decode(errors="replace").split("\n"), 1)
    }
    shown = (f"(line {before[line]})" if line in before else line for line in lines)
    return f"--- changed {name}\n" + "\n".join(shown) + "\n"


def read_and_change(machine: Machine, task: dict[str, Any]) -> None:
    """Run every command that reads a session, then every change and its undo."""
    path = place_session(machine, Path(task["root"]), Path(task["file"]))
    lines = path.read_bytes().splitlines()
    uuids = [found for line in lines if (found := re.search(rb'"uuid": ?"([0-9a-f-]{36})"', line))]
    middle = uuids[len(uuids) // 2][1].decode() if uuids else "none"
    machine.names |= {"session": str(path), "uuid": middle, "id": path.stem}
    for command in SCENES["read"].splitlines():
        machine.do(command)
    if path.stem.startswith("agent-"):
        return
    pristine = machine.folder / "pristine"
    shutil.copytree(machine.store, pristine)
    for command in SCENES["change"].splitlines():
        before = {name: Path(name).read_bytes() for name in machine.snapshot()}
        if not machine.do(command):
            continue
        machine.do("undo --json", f" after {command}")
        machine.age()
        if before != {name: Path(name).read_bytes() for name in machine.snapshot()}:
            machine.add(f"undo --json after {command}", "the store is not as it was")
            shutil.rmtree(machine.store)
            shutil.copytree(pristine, machine.store)


def place_session(machine: Machine, root: Path, file: Path) -> Path:
    """Copy a session and what belongs to it into the store; return its new path."""
    agents = [
        each for each in file.parent.glob("agent-*.jsonl") if not file.stem.startswith("agent")
    ]
    is_store = "projects" in file.relative_to(root).parts
    for name in os.listdir(root) if is_store else ():
        if name != "projects":
            _copy(root / name, machine.store / name)
    parts = file.relative_to(root).parts[1:-1] if is_store else ("-home-ada-project",)
    folder = machine.store.joinpath("projects", *parts)
    for each in (file, file.with_suffix(""), *agents):
        _copy(each, folder / each.name)
    finish(machine)
    return folder / file.name


def finish(machine: Machine) -> None:
    machine.age()
    for path in machine.snapshot():
        machine.learn(f"{path} {Path(path).read_text(errors='replace')}")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def use_store(machine: Machine, task: dict[str, Any]) -> None:
    """Run what concerns all sessions of a store, and take them to other stores."""
    root = Path(task["root"])
    if (root / "projects").is_dir():
        _copy(root, machine.store)
    else:
        for each in root.iterdir():
            _copy(each, machine.store / "projects" / "-home-ada-project" / each.name)
    finish(machine)
    sessions = sorted(
        path for path in machine.store.glob("projects/*/*.jsonl") if path.name[:6] != "agent-"
    )
    text = b"".join(path.read_bytes() for path in sessions).decode(errors="replace")
    edited = re.search(r'"file_path": ?"([^"\\]+)"', text)
    machine.names |= {"file": edited[1] if edited else "none", "text": words_of(text)}
    machine.names["session"] = str(sessions[0]) if sessions else "none"
    for line in SCENES["store"].splitlines():
        word, _, rest = line.partition(" ")
        if word == "@home":
            machine.move_to(rest)
        elif word == "@age":
            machine.age()
        elif word == "@each":
            for path in sessions:
                machine.names["id"] = path.stem
                machine.do(rest, f" ({path.stem})")
        else:
            machine.do(line)


def words_of(text: str) -> str:
    """Return a word that occurs in a few places."""
    counts: dict[str, int] = {}
    for word in re.findall(r"\b[a-z]{5,12}\b", text[:200_000]):
        counts[word] = counts.get(word, 0) + 1
    return min(counts, key=lambda word: (abs(counts[word] - 5), word), default="none")


def decide(machine: Machine, task: dict[str, Any]) -> None:
    """Ask for the verdicts about a list of commands."""
    for name, content in SCENES["project"].items():
        path = machine.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for policy in SCENES["policy"]:
        options = shlex.split(policy["arguments"])
        verdicts = ""
        for command in SCENES["verdicts"]:
            words = ["chat", "--explain-permission", command, "--json", *options]
            code, out, err = run(words, machine.work, b"")
            try:
                verdict = json.loads(out)["verdict"]
            except (ValueError, KeyError):
                verdict = f"exit {code} {out}{err}"
            verdicts += f"{verdict:5}  {json.dumps(command)}\n"
        machine.add(f"verdicts {policy['arguments']}", verdicts)


def chat(machine: Machine, task: dict[str, Any]) -> None:
    """Hold the scripted chats, one after the other in one directory."""
    for name, content in SCENES["project"].items():
        path = machine.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for scene in SCENES["chat"]:
        prompt = scene.get("prompt", f"[scene: {scene['name']}] Go on.")
        command = f"chat -p {shlex.quote(prompt)} {scene.get('arguments', '')}"
        machine.do(command)


KINDS = {"session": read_and_change, "store": use_store, "verdicts": decide, "chat": chat}


@contextmanager
def task_folder(path: Path) -> Iterator[Path]:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def work(task: dict[str, Any]) -> Record:
    """Do a task; return what its commands did."""
    with task_folder(Path(task["folder"])) as folder:
        machine = Machine(folder)
        try:
            KINDS[task["kind"]](machine, task)
        except BaseException:
            machine.record["the check itself failed"] = traceback.format_exc()
            os.chdir("/")
        return machine.record


def main() -> None:
    """Do the tasks of a plan, the slowest first, some at a time."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    _prepare()
    SCENES.update(plan["scenes"])
    samples = [task for task in plan["tasks"] if task["kind"] == "session"] or plan["tasks"]
    work(samples[-1])  # so that each process finds its modules loaded
    running: dict[int, dict[str, Any]] = {}
    for number, task in enumerate(plan["tasks"], 1):
        while len(running) >= plan["jobs"]:
            _wait(running)
        pid = os.fork()
        if pid == 0:
            _leave(task)
        running[pid] = task
        if sys.stderr.isatty():
            print(f"\r{number} of {len(plan['tasks'])} ", end="", file=sys.stderr, flush=True)
    while running:
        _wait(running)


def _wait(running: dict[int, dict[str, Any]]) -> None:
    pid, status = os.wait()
    task = running.pop(pid, None)
    if task and status:
        _save(task, {"the check itself failed": f"its process ended with status {status}"})


def _prepare() -> None:
    """Let commands end by an exception, do without fsync, and be stopped when they hang."""
    import turnlog.__main__  # noqa: F401  # pyright: ignore[reportUnusedImport]

    def leave(code: int) -> NoReturn:
        if os.getpid() == working[0]:
            raise Left(code)
        end_process(code)

    def stop(number: int, frame: object) -> NoReturn:
        raise TimeoutError(f"still running after {SECONDS} s")

    os._exit = leave
    working[:] = [os.getpid()]
    os.fsync = os.fdatasync = lambda descriptor: None
    signal.signal(signal.SIGALRM, stop)


end_process = os._exit
TIMING = True
working: list[int] = []
"""The process in which commands run; a process that a command forks really ends."""
CHECKOUT = os.environ.get("ECOSYSTEM_CHECKOUT", "")


def _leave(task: dict[str, Any]) -> NoReturn:
    working[:] = [os.getpid()]
    _save(task, work(task))
    end_process(0)


def _save(task: dict[str, Any], record: Record) -> None:
    path = Path(task["result"])
    path.with_suffix(".new").write_bytes(zlib.compress(json.dumps(record).encode(), 1))
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    main()
