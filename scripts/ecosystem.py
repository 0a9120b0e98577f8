"""Show what a change does to sessions: run two versions on them and compare.

OLD and NEW are git refs; NEW is the working tree by default. `ecosystem_worker.py` runs the
commands of `ecosystem_scenes.toml` on copies of the sessions. Differences are grouped: one diff
stands for all sessions where the same lines changed, apart from their numbers and texts. Those
listed in `ecosystem_intended.toml` pass, any other one fails.

What is known of a commit is cached in `.cache/ecosystem`.
"""

import argparse
import difflib
import fcntl
import json
import os
import re
import subprocess
import sys
import tomllib
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "ecosystem"
WORKER = ROOT / "scripts" / "ecosystem_worker.py"
SCENES = ROOT / "scripts" / "ecosystem_scenes.toml"
INTENDED = ROOT / "scripts" / "ecosystem_intended.toml"
DEFAULT = (ROOT / "src" / "turnlog" / "samples", ROOT / "tests" / "data")
FAILED = "the check itself failed"
BATCH = 4_000_000
"""Bytes of sessions that share a store."""
FIXED = (
    "TZ=UTC LC_ALL=C.UTF-8 COLUMNS=100 USER=ada LOGNAME=ada PYTHONHASHSEED=0 IS_SANDBOX=1"
    f" PYTHONDONTWRITEBYTECODE=1 GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES={CACHE}/run"
    " ANTHROPIC_API_KEY=not-a-key"
)
LINES, GROUPS, WIDTH = 24, 40, 200
"""Lines of a diff, differences and characters of a line that are printed."""
SCENE = re.compile(r"\[scene: (\w+)\]")
VALUE = re.compile(r'(?<=: )"(?:[^"\\]|\\.)*"|<[a-z]+ ?\d*>|\b[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*')
Task = dict[str, Any]
Record = dict[str, str]


class Group(NamedTuple):
    """A difference, why it is intended if so, and in which commands and places it occurs."""

    diff: list[str]
    reason: str
    places: list[tuple[str, str]]


def main() -> int:
    """Compare; return 1 if there are differences that are not intended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="git ref to compare with")
    parser.add_argument("new", nargs="?", default="", help="git ref; the working tree by default")
    parser.add_argument("--sessions", type=Path, action="append", help="directory of sessions")
    parser.add_argument("--scenes", type=Path, default=SCENES, help="what to run")
    parser.add_argument("--intended", type=Path, default=INTENDED, help="what may differ")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--full", action="store_true", help="print all differences in full")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    scenes = tomllib.loads(options.scenes.read_text())
    tasks = [task for task in find_tasks(options.sessions or DEFAULT) if scenes.get(task["kind"])]
    with (CACHE / "lock").open("w") as lock, serve_model(scenes.get("chat", [])) as address:
        fcntl.flock(lock, fcntl.LOCK_EX)
        old, new = (
            results(ref, tasks, scenes, {"address": address, "jobs": options.jobs})
            for ref in (options.old, options.new)
        )
    intended = tomllib.loads(options.intended.read_text()).get("intended", [])
    groups = list(compare(old, new, intended))
    for text in report(groups, options.full):
        print(text.encode(errors="backslashreplace").decode())
    for reason in {entry["reason"] for entry in intended} - {group.reason for group in groups}:
        print(f"not seen: {reason}")
    failures = sum(not group.reason for group in groups)
    count = sum(map(len, new.values()))
    print(f"{count} commands: {failures} differences, {len(groups) - failures} intended")
    return 1 if failures else 0


def find_tasks(tops: Iterable[Path]) -> Iterator[Task]:
    """Yield tasks: verdicts, chats, one for each session, and one for each store or some stores."""
    for kind in ("verdicts", "chat"):
        yield {"kind": kind, "name": kind, "size": 0, "digest": ""}
    for top in map(Path.resolve, tops):
        roots: dict[Path, list[Path]] = {}
        for path in sorted(top.rglob("*.jsonl")):
            above = [each.parent for each in path.parents if each.name == "projects"]
            if path.name != "history.jsonl":
                roots.setdefault(above[-1] if above else path.parent, []).append(path)
        batch: Task = {"size": BATCH}
        for root, paths in roots.items():
            name = str(root.relative_to(top.parent))
            store: Task = {"kind": "store", "name": name, "roots": [str(root)]}
            store |= {"size": sum(path.stat().st_size for path in paths), "digest": digest_of(root)}
            # Sub-agents next to a session are read with it; one of them is read alone.
            agents = [path for path in paths if path.name.startswith("agent-")]
            for path in [each for each in paths if each not in agents[1:]]:
                inner = f"{name}/{path.relative_to(root)}"
                size = path.stat().st_size
                yield store | {"kind": "session", "name": inner, "file": str(path), "size": size}
            if batch["size"] + store["size"] <= BATCH:
                store["digest"] += batch["digest"]
                store["roots"] = [*batch["roots"], *store["roots"]]
                store |= {"name": batch["name"], "size": batch["size"] + store["size"]}
            elif "kind" in batch:
                yield batch
            batch = store
        if "kind" in batch:
            yield batch


def digest_of(*folders: Path) -> str:
    """Return a digest of the names and contents of files."""
    digest = sha256()
    for path in sorted(path for each in folders for path in (each, *each.rglob("*"))):
        if path.is_file():
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def results(
    ref: str, tasks: list[Task], scenes: dict[str, Any], plan: dict[str, Any]
) -> dict[str, Record]:
    """Return what the commands did in a version; those of a commit are cached."""
    version = _git("rev-parse", "--verify", f"{ref}^{{commit}}") if ref else "worktree"
    driver = sha256(WORKER.read_bytes() + json.dumps(scenes).encode()).hexdigest()[:12]
    folder = CACHE / "results" / f"{version}-{driver}"
    folder.mkdir(parents=True, exist_ok=True)
    todo: list[Task] = []
    for task in tasks:
        key = sha256(f"{task['kind']} {task['name']} {task['digest']}".encode()).hexdigest()[:12]
        task |= {"result": str(folder / key), "folder": str(CACHE / "run" / key)}
        if not ref or not (folder / key).exists() or FAILED in read_record(task):
            todo.append(task)
    if todo:
        print(f"{ref or 'working tree'}: {len(todo)} tasks", file=sys.stderr)
        todo.sort(key=lambda task: -task["size"])
        with checkout(version if ref else "") as source:
            _work(source, plan | {"tasks": todo, "scenes": scenes})
    return {f"{task['name']} ({task['kind']})": read_record(task) for task in tasks}


def read_record(task: Task) -> Record:
    """Return what each command of a task did."""
    return json.loads(zlib.decompress(Path(task["result"]).read_bytes()))


def _work(source: Path, plan: dict[str, Any]) -> None:
    path = CACHE / "plan.json"
    path.write_text(json.dumps(plan))
    environment = dict(each.split("=", 1) for each in FIXED.split()) | {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(source / "src"),
        "CHECKOUT": str(source),
        "ANTHROPIC_BASE_URL": plan["address"],
    }
    command = [sys.executable, "-P", str(WORKER), str(path)]
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.strip()


@contextmanager
def checkout(version: str) -> Generator[Path]:
    """Check a commit out for as long as a block runs; without one, use the working tree."""
    if not version:
        yield ROOT
        return
    folder = CACHE / "checkout"
    _git("worktree", "prune")
    if folder.exists():
        _git("worktree", "remove", "--force", str(folder))
    _git("worktree", "add", "--quiet", "--detach", str(folder), version)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


@contextmanager
def serve_model(scenes: list[dict[str, Any]]) -> Generator[str]:
    """Serve the replies of the chats: the prompt says which scene it is."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.scripted_api import Reply, called, said, scripted_api

    replies: dict[str, list[Any]] = {scene["name"]: scene["replies"] for scene in scenes}
    replies["inner"] = [reply for scene in scenes for reply in scene.get("inner", [])]

    def choose(body: dict[str, Any]) -> Reply:
        name, step = "", 0
        for message in body["messages"]:
            found = SCENE.search(json.dumps(message["content"]))
            if message["role"] == "assistant":
                step += 1
            elif found:
                name, step = found[1], 0
        script = replies.get(name) or ["What?"]
        reply = script[min(step, len(script) - 1)]
        if isinstance(reply, str):
            return said(reply)
        return called(*((f"toolu_{name}_{step}_{n}", *call) for n, call in enumerate(reply)))

    with scripted_api(said("What?")) as api:
        api.choose = choose
        yield api.url


def compare(
    old: dict[str, Record], new: dict[str, Record], intended: list[dict[str, str]]
) -> Iterator[Group]:
    """Yield each difference once, with all that have it."""
    found: dict[tuple[str, frozenset[str]], Group] = {}
    for place, after in new.items():
        before = old[place]
        for command in dict.fromkeys([*before, *after]):
            diff = diff_of(before.get(command, "not run"), after.get(command, "not run"))
            if command == FAILED:  # in both versions, perhaps
                diff = ["@@", *(f"+{line}" for line in after.get(FAILED, "no more").splitlines())]
            if diff:
                changed = [line for line in diff if line[0] in "+-"]
                reason = reason_of(command, changed, intended)
                group = found.setdefault((reason, shape_of(diff)), Group(diff, reason, []))
                group.places.append((command, place))
    yield from found.values()


def shape_of(diff: list[str]) -> frozenset[str]:
    """Return the lines that changed, without their numbers and texts."""
    return frozenset(VALUE.sub("#", line) for line in diff if line[0] in "+-")


def diff_of(before: str, after: str) -> list[str]:
    """Return the lines of a diff; none if the texts are equal to the byte."""
    old, new = _lay_out(before), _lay_out(after)
    if old == new and before != after:
        old, new = before.split("\n"), after.split("\n")
    return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:] if before != after else []


def _lay_out(text: str) -> list[str]:
    """Return lines, with a line per field of those that are JSON."""
    lines: list[str] = []
    for line in text.split("\n"):
        try:
            value = json.loads(line.removesuffix(",")) if line.startswith('{"') else None
        except (ValueError, RecursionError):
            value = None
        lines += json.dumps(value, indent=1, ensure_ascii=False).split("\n") if value else [line]
    return lines


def reason_of(command: str, changed: list[str], intended: list[dict[str, str]]) -> str:
    """Return the reason of the first entry that allows every changed line, or nothing."""
    for entry in intended:
        is_meant = all(re.search(entry["lines"], line) for line in changed)
        if is_meant and fnmatchcase(command, entry["command"]):
            return entry["reason"]
    return ""


def report(groups: list[Group], is_full: bool) -> Iterator[str]:
    """Yield a text for each difference, the most frequent ones first."""
    for number, group in enumerate(sorted(groups, key=lambda group: -len(group.places)), 1):
        commands = Counter(command for command, _ in group.places)
        if group.reason:
            yield f"intended: {group.reason} ({', '.join(commands)})"
            continue
        if number > GROUPS and not is_full:
            yield f"\n=== {next(iter(commands))} and {len(commands) - 1} others: see --full"
            continue
        yield "\n" + "\n".join(f"=== {each} ({count})" for each, count in commands.items())
        yield f"    for example in {group.places[0][1]}"
        lines = group.diff if is_full else list(_first_of_each(group.diff))
        yield "\n".join(
            line if is_full else line[:WIDTH] for line in lines[: None if is_full else LINES]
        )
        if len(lines) > LINES and not is_full:
            yield f"… {len(lines) - LINES} more lines"


def _first_of_each(diff: list[str]) -> Iterator[str]:
    """Yield the first of the hunks that change the same lines."""
    seen: set[frozenset[str]] = set()
    starts = [number for number, line in enumerate(diff) if line.startswith("@@")]
    for start, end in pairwise([*starts, len(diff)]):
        if (shape := shape_of(diff[start:end])) not in seen:
            yield from diff[start:end]
        seen.add(shape)


if __name__ == "__main__":
    sys.exit(main())
