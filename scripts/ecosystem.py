"""Show what a change does to real sessions: run two checkouts on them and compare.

OLD and NEW are git refs; NEW is the working tree by default. Every command of `ecosystem_scenes.toml` runs
on copies of the sessions (`ecosystem_worker.py`). Differences are grouped: one diff stands for
all sessions in which the same lines of a command's output changed, whatever their numbers and
texts. Those listed in `ecosystem_intended.toml` pass; any other one fails.

Results of a commit are cached in `.cache/ecosystem`.
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
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "ecosystem"
WORKER = ROOT / "scripts" / "ecosystem_worker.py"
SCENES = ROOT / "scripts" / "ecosystem_scenes.toml"
INTENDED = ROOT / "scripts" / "ecosystem_intended.toml"
DEFAULT = (ROOT / "src" / "turnlog" / "samples", ROOT / "tests" / "data")
FAILED = "the check itself failed"
LINES, GROUPS, WIDTH = 24, 8, 220
"""Lines of a diff, groups of a command and characters of a line that are printed."""
SCENE = re.compile(r"\[scene: (\w+)\]")
VALUE = re.compile(r'(?<=: )"(?:[^"\\]|\\.)*"|<[a-z]+ ?\d*>|\b[0-9a-f]{7,}\b|\d+(?:[.,:]\d+)*')
Task = dict[str, Any]
Record = dict[str, str]


class Group(NamedTuple):
    """A difference, and the sessions that have it."""

    command: str
    diff: list[str]
    places: list[str]
    reason: str


def main() -> int:
    """Compare; return 1 if there are differences that nobody listed."""
    options = _options()
    CACHE.mkdir(parents=True, exist_ok=True)
    scenes = tomllib.loads(SCENES.read_text())
    tasks = list(find_tasks(options.sessions or DEFAULT))
    with (CACHE / "lock").open("w") as lock, serve_model(scenes) as address:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = Run(scenes, tasks, address, options.jobs)
        old, new = (run.results(ref) for ref in (options.old, options.new))
    intended = tomllib.loads(options.intended.read_text()).get("intended", [])
    groups = list(compare(tasks, old, new, intended))
    failed = [group for group in groups if not group.reason]
    for text in report(groups, options.full):
        print(text)
    for entry in intended:
        if not any(group.reason == entry["reason"] for group in groups):
            print(f"not seen: {entry['reason']}")
    count = sum(len(record) for record in new.values())
    print(
        f"{count} commands in {len(tasks)} places: {len(failed)} differences, "
        f"{len(groups) - len(failed)} intended ones"
    )
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", help="git ref to compare with")
    parser.add_argument("new", nargs="?", default="", help="git ref; the working tree by default")
    parser.add_argument("--sessions", type=Path, action="append", help="directory of sessions")
    parser.add_argument("--intended", type=Path, default=INTENDED, help="list of differences")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--full", action="store_true", help="print every difference in full")
    return parser.parse_args()


def find_tasks(folders: Iterable[Path]) -> Iterator[Task]:
    """Yield a task for each session and each store below the folders, and those of turnlog."""
    for kind in ("verdicts", "chat"):
        yield {"kind": kind, "name": kind, "size": 0, "digest": ""}
    for top in folders:
        roots: dict[Path, list[Path]] = {}
        for path in sorted(top.resolve().rglob("*.jsonl")):
            above = [each for each in path.parents if each.name == "projects"]
            if path.name != "history.jsonl":
                roots.setdefault(above[-1].parent if above else path.parent, []).append(path)
        for root, paths in roots.items():
            mains = [path for path in paths if "subagents" not in path.parts]
            size = sum(path.stat().st_size for path in paths)
            name = str(root.relative_to(top.resolve().parent))
            digest = digest_of(root.rglob("*"))
            common = {"root": str(root), "digest": digest}
            yield common | {"kind": "store", "name": name, "size": size}
            for path in mains:
                short = f"{name}/{path.relative_to(root)}"
                one = {"kind": "session", "name": short, "file": str(path)}
                yield common | one | {"size": path.stat().st_size}


def digest_of(paths: Iterable[Path]) -> str:
    """Return a digest of the names and contents of files."""
    digest = sha256()
    for path in sorted(path for path in paths if path.is_file()):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class Run(NamedTuple):
    """What to run on a checkout."""

    scenes: dict[str, Any]
    tasks: list[Task]
    address: str
    jobs: int

    def results(self, ref: str) -> dict[str, Record]:
        """Run the tasks on a commit, or on the working tree; results of commits are cached."""
        version = _git("rev-parse", "--verify", f"{ref}^{{commit}}") if ref else "worktree"
        driver = digest_of((WORKER, SCENES))[:12]
        kept = CACHE / "results" / f"{version}-{driver}"
        kept.mkdir(parents=True, exist_ok=True)
        todo: list[Task] = []
        for task in self.tasks:
            key = sha256(f"{task['kind']}{task['name']}{task['digest']}".encode()).hexdigest()[:12]
            task |= {"result": f"{kept}/{key}", "folder": f"{CACHE}/run/{key}"}
            if not ref:
                Path(task["result"]).unlink(missing_ok=True)
            if not (path := Path(task["result"])).exists() or FAILED in read_record(path):
                todo.append(task)
        if todo:
            self._run(version, ref, sorted(todo, key=lambda task: -task["size"]))
        return {
            task["name"] + task["kind"]: read_record(Path(task["result"])) for task in self.tasks
        }

    def _run(self, version: str, ref: str, todo: list[Task]) -> None:
        print(f"running {len(todo)} tasks on {ref or 'the working tree'}", file=sys.stderr)
        plan = CACHE / "plan.json"
        plan.write_text(json.dumps({"tasks": todo, "scenes": self.scenes, "jobs": self.jobs}))
        with checkout(version) if ref else ExitStack() as stack:
            folder = stack if isinstance(stack, Path) else ROOT
            environment = {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(folder / "src"),
                "PYTHONHASHSEED": "0",
                "PYTHONDONTWRITEBYTECODE": "1",
                "ECOSYSTEM_CHECKOUT": str(folder),
                "GIT_CEILING_DIRECTORIES": str(CACHE / "run"),
                "GIT_CONFIG_NOSYSTEM": "1",
                "TZ": "UTC",
                "LC_ALL": "C.UTF-8",
                "COLUMNS": "100",
                "NO_COLOR": "1",
                "USER": "ada",
                "LOGNAME": "ada",
                "IS_SANDBOX": "1",
                "ANTHROPIC_BASE_URL": self.address,
                "ANTHROPIC_API_KEY": "not-a-key",
            }
            command = [sys.executable, "-P", str(WORKER), str(plan)]
            subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)


def read_record(path: Path) -> Record:
    return json.loads(zlib.decompress(path.read_bytes()))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return done.stdout.strip()


@contextmanager
def checkout(version: str) -> Generator[Path]:
    """Check a commit out for as long as a block runs."""
    folder = CACHE / "checkout"
    if folder.exists():
        _git("worktree", "remove", "--force", str(folder))
    _git("worktree", "prune")
    _git("worktree", "add", "--quiet", "--detach", str(folder), version)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


@contextmanager
def serve_model(scenes: dict[str, Any]) -> Generator[str]:
    """Serve the replies of the chats; the prompt names the scene, so that chats can repeat."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.scripted_api import Reply, called, said, scripted_api

    replies = {scene["name"]: scene["replies"] for scene in scenes["chat"]}
    replies |= {"inner": scene["inner"] for scene in scenes["chat"] if "inner" in scene}

    def choose(body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        name, step = "", 0
        for message in messages:
            if message["role"] == "user" and (
                found := SCENE.search(json.dumps(message["content"]))
            ):
                name, step = found[1], 0
            elif message["role"] == "assistant":
                step += 1
        script = replies.get(name, ["What?"])
        reply = script[min(step, len(script) - 1)]
        if isinstance(reply, str):
            return said(reply)
        return called(*((f"toolu_{name}_{step}_{n}", *call) for n, call in enumerate(reply)))

    with scripted_api(said("What?")) as api:
        api.choose = choose
        yield api.url


def compare(
    tasks: list[Task],
    old: dict[str, Record],
    new: dict[str, Record],
    intended: list[dict[str, str]],
) -> Iterator[Group]:
    """Yield each difference once, with the sessions that have it."""
    found: dict[tuple[str, frozenset[str]], Group] = {}
    for task in tasks:
        key = task["name"] + task["kind"]
        before, after = old[key], new[key]
        for command in dict.fromkeys([*before, *after]):
            diff = diff_of(before.get(command, "not run"), after.get(command, "not run"))
            if command == FAILED:
                diff = after.get(command, before.get(command, "")).split("\n")
            if not diff:
                continue
            changed = [line for line in diff if line[0] in "+-"]
            shape = frozenset(VALUE.sub("#", line) for line in changed)
            reason = reason_of(command, changed, intended)
            group = Group(command, diff, [], reason)
            found.setdefault((command + reason, shape), group).places.append(task["name"])
    yield from found.values()


def diff_of(before: str, after: str) -> list[str]:
    """Return the lines of a diff; empty if the texts are equal to the byte."""
    if before == after:
        return []
    old, new = laid_out(before), laid_out(after)
    if old == new:
        old, new = before.split("\n"), after.split("\n")
    return list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]


def laid_out(text: str) -> list[str]:
    """Return lines, those of session files as a line per field."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith('{"'):
            try:
                lines += json.dumps(json.loads(line), indent=1, ensure_ascii=False).split("\n")
                continue
            except ValueError:
                pass
        lines.append(line)
    return lines


def reason_of(command: str, changed: list[str], intended: list[dict[str, str]]) -> str:
    """Return why a difference is meant: every changed line is; else nothing."""
    entries = [each for each in intended if fnmatchcase(command, each["command"])]
    reasons = dict[str, None]()
    for line in changed:
        for entry in entries:
            if re.search(entry["lines"], line):
                reasons[entry["reason"]] = None
                break
        else:
            return ""
    return "; ".join(reasons)


def report(groups: list[Group], is_full: bool) -> Iterator[str]:
    """Yield a text for each command that differs."""
    commands: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: -len(group.places)):
        commands.setdefault(group.command, []).append(group)
    for command, those in sorted(commands.items()):
        failed = [group for group in those if not group.reason]
        for group in those:
            if group.reason:
                yield f"intended in {len(group.places)}: {command}: {group.reason}"
        for group in failed if is_full else failed[:GROUPS]:
            others = f" and {len(group.places) - 1} more" if group.places[1:] else ""
            yield f"\n=== {command}\n    {group.places[0]}{others}"
            shown = group.diff if is_full else [line[:WIDTH] for line in group.diff[:LINES]]
            yield "\n".join(shown)
            if len(shown) < len(group.diff):
                yield f"… {len(group.diff) - len(shown)} more lines"
        if len(failed) > GROUPS and not is_full:
            yield f"\n… {len(failed) - GROUPS} more differences of {command}"


if __name__ == "__main__":
    sys.exit(main())
