"""Run the scenes of the ecosystem check with the `turnlog` that is first on the path.

`ecosystem.py` starts it once per version, with a plan. Only the entry point of the command line is
imported, so that modules may move between versions. Commands run in this process, where they take
a tenth of the time; each task has a process, a home and a directory of its own.
"""

import json
import os
import re
import shlex
import shutil
import signal
import stat
import sys
import time
import traceback
import zlib
from collections import Counter
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

SECONDS = 120
"""What a command may take."""
FAILED = "the check itself failed"
GONE = "--- removed "
MTIME = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
TIME = re.compile(r"\b(20\d\d)-?(\d\d)-?(\d\d)[T -](\d\d)[:-]?(\d\d)(?:[:-]?(\d\d)(?:\.\d+)?)?Z?")
EPOCH = re.compile(r"\b1\d{9}(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?\b")
HEX = "[0-9a-f]"
UUID = re.compile(rf"\b{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}\b")
ID = rf'": ?"({UUID.pattern[2:-2]})"'
UUID_FIELD, SESSION_FIELD = re.compile(f'"uuid{ID}'), re.compile(f'"sessionId{ID}')
PATH_FIELD = re.compile(r'"file_path": ?"([^"\\]+)"')
OWN = re.compile(
    rf'{UUID.pattern}|(?:(?<=\bagent-)|(?<="agentId":")|(?<="agentId": ")){HEX}{{5,17}}\b'
)
"""Ids of entries, sessions and sub-agents."""
NAME = re.compile(
    rf"(?P<change><now>-{HEX}{{4,}}\b)|(?P<file>turnlog-[a-z0-9_]{{8}}(?=/))"
    r'|(?P<port>127\.0\.0\.1:\d+)|(?P<machine>(?<="machine": ")\w+)|(?P<message>msg_\d{4,}\b)'
    rf"|(?P<request>\breq_\d+\b)|(?P<output>tool-results/b[0-9a-z]{{8}}\b)|(?P<key>\bh-{HEX}{{24}}\b)"
)
"""What else is drawn by chance or counted by a server."""
File = tuple[int, bytes]
Record = dict[str, str]
scenes: dict[str, Any] = {}
end_process, working = os._exit, [0]
"""Which process raises `Left` instead; one that a command forks really ends."""


class Left(BaseException):
    """The command has ended, where it would have ended its process."""


class Machine:
    """A home, the commands that run there, and what they do to its files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.names = {each: str(folder / each) for each in ("work", "out", "dest")}
        self.known: set[str] = set()
        self.record: Record = {}
        self.started = time.time()
        self._read: dict[str, tuple[os.stat_result, File]] = {}
        for each in self.names.values():
            Path(each).mkdir(parents=True)
        for name, content in scenes.get("project", {}).items():
            (self.work / name).parent.mkdir(exist_ok=True)
            (self.work / name).write_text(content)
        self.move_to("home")

    def move_to(self, home: str) -> None:
        """Continue as another user of the same directories."""
        self.store = self.folder / home / ".claude"
        (self.store / "projects").mkdir(parents=True, exist_ok=True)
        self.names["store"] = str(self.store)
        os.environ["HOME"] = str(self.folder / home)

    def do(self, command: str, note: str = "") -> bool:
        """Run a command in its first spelling that exists; return whether it changed files."""
        before = self.files()
        code, out, err = "2", "", ""
        for spelling in command.split(" | "):
            line, _, given = spelling.partition(" < ")
            words = [self._fill(word) for word in shlex.split(line)]
            code, out, err = run(words, self.work, self._fill(given).replace(r"\n", "\n"))
            if code != "2":
                break
        after = self.files()
        text = f"exit {code}\n" + "".join(
            f"--- {name}\n{shown}\n"
            for name, shown in (("stdout", _lay_out(out)), ("stderr", err))
            if shown.strip()
        )
        changes = [
            _change(path.removeprefix(f"{self.folder}/"), before.get(path), after.get(path))
            for path in {*before, *after}
            if before.get(path) != after.get(path)
        ]
        # Random names must not decide the order.
        text += "".join(sorted(changes, key=lambda each: NAME.sub("", OWN.sub("", each))))
        self.add(command + note, text)
        return before != after

    def add(self, label: str, text: str) -> None:
        lines = self._normalize(text).split("\n")
        text = "\n".join(sorted(lines, key=lambda line: line if line.startswith(GONE) else ""))
        for each in scenes.get("noise", []):
            if fnmatchcase(label, each["command"]):
                text = re.sub(each["pattern"], r'\1"<varies>"', text)
        number = sum(each.partition(" #")[0] == label for each in self.record) + 1
        self.record[f"{label} #{number}" if number > 1 else label] = text

    def files(self) -> dict[str, File]:
        """Return mode and content of each file in the store and in `out`."""
        found: dict[str, File] = {}
        for top in (self.store, self.names["out"]):
            for folder, _, names in os.walk(top):
                for path in (f"{folder}/{name}" for name in names):
                    now = os.lstat(path)
                    if path not in self._read or self._read[path][0] != now:
                        is_link = stat.S_ISLNK(now.st_mode)
                        raw = (
                            str(Path(path).readlink()).encode()
                            if is_link
                            else Path(path).read_bytes()
                        )
                        self._read[path] = now, (now.st_mode, raw)
                    found[path] = self._read[path][1]
        return found

    def age(self) -> None:
        """Date files back: some commands leave alone what was just written."""
        for number, path in enumerate(sorted(self.files())):
            os.utime(path, (MTIME + number, MTIME + number))

    def start(self) -> None:
        """Take the files that are there as the input, whose ids are not replaced."""
        self.age()
        for path, (_, raw) in self.files().items():
            text = f"{path} {raw.decode(errors='replace')}"
            self.known.update(OWN.findall(text), (found[0] for found in NAME.finditer(text)))

    def _fill(self, word: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda m: self.names.get(m[1], m[0]), word)

    def _normalize(self, text: str) -> str:
        """Replace paths, times and random names, which differ from run to run."""
        sources = os.environ["CHECKOUT"], str(Path(sys.prefix).parent)
        for path, shown in (
            (str(self.folder), "<root>"),
            *((each, "<turnlog>") for each in sources),
        ):
            text = text.replace(path, shown).replace(re.sub(r"[^A-Za-z0-9]", "-", path), shown)
        text = EPOCH.sub(self._epoch, TIME.sub(self._time, text))
        ids: dict[str, str] = {}
        for number, each in enumerate(dict.fromkeys(OWN.findall(text)), 1):
            if each not in self.known:
                ids[each] = ids[each[:8]] = f"<id {number}>"
        if ids:
            some = "|".join(sorted(ids, key=len, reverse=True))
            text = re.sub(rf"\b(?:{some})\b", lambda m: ids[m[0]], text)

        def numbered(found: re.Match[str]) -> str:
            if found[0] in self.known:
                return found[0]
            return ids.setdefault(found[0], f"<{found.lastgroup} {len(ids) + 1}>")

        return NAME.sub(numbered, text)

    def _time(self, found: re.Match[str]) -> str:
        year, month, day, *rest = (int(part or 0) for part in found.groups())
        try:
            moment = datetime(year, month, day, *rest, tzinfo=UTC).timestamp()
        except ValueError:
            return found[0]
        return "<now>" if self._is_now(moment) else found[0]

    def _epoch(self, found: re.Match[str]) -> str:
        return "1111111111" if self._is_now(float(found[0][:10])) else found[0]

    def _is_now(self, moment: float) -> bool:
        return self.started - 90 <= moment <= time.time() + 90


def run(arguments: list[str], folder: Path, given: str = "") -> tuple[str, str, str]:
    """Run a command line in this process; return its exit code, output and messages."""
    kept = [os.dup(number) for number in range(3)]
    before = sys.stdin, sys.stdout, sys.stderr, dict(os.environ)
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(given.encode())
        stdin.seek(0)
        for number, file in enumerate((stdin, stdout, stderr)):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (
            TextIOWrapper(os.fdopen(os.dup(number), mode), encoding="utf-8")
            for number, mode in enumerate(("rb", "wb", "wb"))
        )
        sys.argv = ["turnlog", *arguments]
        os.chdir(folder)
        signal.alarm(SECONDS)
        code = "0"
        try:
            sys.modules["turnlog.__main__"].main()
        except (Left, SystemExit) as left:
            code = str(left.args[0] if left.args else 0)
        except BaseException:
            code = traceback.format_exc()
        finally:
            signal.alarm(0)
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in enumerate(kept):
                os.dup2(descriptor, number)
                os.close(descriptor)
            sys.stdin, sys.stdout, sys.stderr, environment = before
            os.environ.clear()
            os.environ.update(environment)
        stdout.seek(0)
        stderr.seek(0)
        out, err = (file.read().decode(errors="backslashreplace") for file in (stdout, stderr))
        return code, out, err


def _lay_out(text: str) -> str:
    """Return text with JSON laid out, so that a diff shows fields."""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _change(name: str, old: File | None, new: File | None) -> str:
    """Return what became of a file, with the numbers of lines that it had before."""
    if new is None:
        return f"{GONE}{name}\n"
    head = f"--- {'changed' if old else 'new'} {name} {stat.filemode(new[0])}\n"
    if b"\0" in new[1] and not name.endswith(".jsonl"):
        return f"{head}{sha256(new[1]).hexdigest()}\n"
    lines = new[1].decode(errors="backslashreplace").split("\n")
    had = old[1].decode(errors="backslashreplace").split("\n") if old else []
    places = {line: number for number, line in enumerate(had, 1)}
    return head + "".join(f"(line {places[x]})\n" if x in places else f"{x}\n" for x in lines)


def play_session(machine: Machine, task: dict[str, Any]) -> None:
    """Run every command that reads a session, then every change and its undo."""
    root, file = Path(task["roots"][0]), Path(task["file"])
    is_agent = file.name.startswith("agent-")
    files = [file, file.with_suffix(""), *(() if is_agent else file.parent.glob("agent-*.jsonl"))]
    folder = _place(machine, root, file.parent, files)
    machine.start()
    text = file.read_text(errors="replace")
    answers = [line for line in text.split("\n") if '"assistant"' in line and '"uuid"' in line]
    middle = answers[len(answers) // 2] if answers else ""
    machine.names |= {
        "session": str(folder / _session_name(file)),
        "uuid": _first(UUID_FIELD, middle),
        "file": _first(PATH_FIELD, text),
    }
    for command in scenes["session"].splitlines():
        machine.do(command)
    pristine = machine.folder / "pristine"
    shutil.copytree(machine.store, pristine)
    changes: list[str] = [] if is_agent else scenes.get("change", "").splitlines()
    for command in changes:
        before = machine.files()
        if not machine.do(command):
            continue
        machine.do("undo --json", f" after {command}")
        if machine.files() != before:
            machine.add(f"undo after {command}", "the store is not as it was")
            shutil.rmtree(machine.store)
            shutil.copytree(pristine, machine.store)
        machine.age()


def play_store(machine: Machine, task: dict[str, Any]) -> None:
    """Run what concerns all sessions of a store, and take them to other stores."""
    for root in map(Path, task["roots"]):
        for folder in sorted({path.parent for path in root.rglob("*.jsonl")}):
            if folder.parent == root / "projects" or not (root / "projects").is_dir():
                _place(machine, root, folder, sorted(folder.iterdir()))
    machine.start()
    found = machine.store.glob("projects/*/*.jsonl")
    sessions = sorted(path for path in found if not path.name.startswith("agent-"))
    text = b"".join(path.read_bytes() for path in sessions).decode(errors="replace")
    words = Counter(re.findall(r"\b[a-z]{5,12}\b", text[:200_000]))
    rare = min(words, key=lambda word: (abs(words[word] - 5), word), default="none")
    machine.names |= {"file": _first(PATH_FIELD, text), "text": rare}
    machine.names["session"] = str(sessions[0]) if sessions else "none"
    for line in scenes["store"].splitlines():
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


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else "none"


def _session_name(path: Path) -> str:
    """Return the name that a client would have given to a session file, or a folder next to it."""
    file = path.with_suffix(".jsonl")
    if UUID.fullmatch(path.stem) or path.name.startswith("agent-") or not file.is_file():
        return path.name
    name = _first(SESSION_FIELD, file.read_text(errors="replace"))
    return path.name if name == "none" else name + path.suffix


def _place(machine: Machine, root: Path, folder: Path, files: list[Path]) -> Path:
    """Copy files of a project, and what a store has outside of it; return the new folder."""
    parts = folder.relative_to(root).parts
    is_store = "projects" in parts
    target = machine.store.joinpath(*parts if is_store else ("projects", "-home-ada-project"))
    others = [each for each in root.iterdir() if is_store and each.name != "projects"]
    pairs = [(each, target / _session_name(each)) for each in files]
    for source, copy in [*pairs, *((each, machine.store / each.name) for each in others)]:
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True)
        elif source.is_file() and not copy.exists():
            shutil.copyfile(source, copy)
    return target


def play_verdicts(machine: Machine, task: dict[str, Any]) -> None:
    """Ask for the verdicts about a list of commands."""
    for policy in scenes["policies"].splitlines():
        verdicts = ""
        for command in scenes["verdicts"]:
            words = ["chat", "--explain-permission", command, "--json", *shlex.split(policy)]
            code, out, err = run(words, machine.work)
            try:
                verdict = json.loads(out)["verdict"]
            except (ValueError, KeyError):
                verdict = f"exit {code} {out}{err}"
            verdicts += f"{verdict:5}  {json.dumps(command)}\n"
        machine.add(f"verdicts {policy}", verdicts)


def play_chats(machine: Machine, task: dict[str, Any]) -> None:
    """Hold the scripted chats, one after the other in one directory."""
    for scene in scenes["chat"]:
        prompt = scene.get("prompt", f"[scene: {scene['name']}] Go on.")
        machine.do(f"chat -p '{prompt}' {scene['arguments']}")


KINDS = {
    "session": play_session,
    "store": play_store,
    "verdicts": play_verdicts,
    "chat": play_chats,
}


def work(task: dict[str, Any]) -> Record:
    """Do a task; return what its commands did."""
    working[0] = os.getpid()
    folder = Path(task["folder"])
    shutil.rmtree(folder, ignore_errors=True)
    machine = Machine(folder)
    try:
        KINDS[task["kind"]](machine, task)
    except BaseException:
        machine.record[FAILED] = traceback.format_exc()
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)
    return machine.record


def _save(task: dict[str, Any], record: Record) -> None:
    new = Path(f"{task['result']}.new")
    new.write_bytes(zlib.compress(json.dumps(record).encode(), 1))
    new.replace(task["result"])


def _raise_left(code: int) -> NoReturn:
    if os.getpid() == working[0]:
        raise Left(code)
    end_process(code)


def _list_directory(folder: Any = ".", listing: Any = os.listdir) -> Any:
    """List a directory; processes of the machine are not shown, whose open files edits look up."""
    return [] if folder == "/proc" else listing(folder)


def _time_out(number: int, frame: object) -> NoReturn:
    raise TimeoutError(f"still running after {SECONDS} s")


def main() -> None:
    """Do the tasks of a plan, some at a time, each in a process."""
    import turnlog.__main__  # noqa: F401  # pyright: ignore[reportUnusedImport]

    plan = json.loads(Path(sys.argv[1]).read_text())
    scenes.update(plan["scenes"])
    os._exit = _raise_left
    os.fsync = os.fdatasync = lambda fd: None
    os.listdir = _list_directory
    signal.signal(signal.SIGALRM, _time_out)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is not a result
    work(plan["tasks"][-1])  # so that all processes find modules imported and patterns compiled
    running: dict[int, dict[str, Any]] = {}
    tasks = list(plan["tasks"])
    while tasks or running:
        if tasks and len(running) < plan["jobs"]:
            task = tasks.pop(0)
            if (pid := os.fork()) == 0:
                _save(task, work(task))
                end_process(0)
            running[pid] = task
            continue
        pid, status = os.wait()
        if (task := running.pop(pid, None)) and status:
            _save(task, {FAILED: f"its process ended with status {status}"})


if __name__ == "__main__":
    main()
