"""Export a session as a git repository: a commit for each turn that changed files.

Branches of the conversation become branches, the work of sub-agents is merged in. Everything in a
commit comes from the session, so exporting again gives the same hashes.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.turn_figures import cost_of_messages, models_of
from turnlog.conversation.turns import Turn
from turnlog.errors import Conflict, NotFound
from turnlog.format.timestamps import seconds_of
from turnlog.secrets import mask
from turnlog.text import drop_unsafe, one_line
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.fast_import import IMPORT_REF, FastImportStream, branch_names, run_git
from turnlog.worktree.file_names import keys_above
from turnlog.worktree.file_steps import TurnPlaces, branch_leaves
from turnlog.worktree.safe_paths import SPECIAL_IN_GIT, safe_paths
from turnlog.worktree.worktree import FileRevision, Worktree

SUBJECT = 72
Tree = dict[str, bytes]
"""Contents of files, by file key."""


@dataclass
class GitExport:
    """The outcome of an export."""

    path: Path
    commits: int = 0
    branches: dict[str, str] = field(default_factory=dict[str, str])
    """The commit of each branch."""
    files: int = 0
    gaps: list[str] = field(default_factory=list[str])
    """Files that have a gap in some turn: there, the repository keeps the last known content."""


@dataclass
class _Commit:
    mark: int
    tree: Tree


class _Exporter:
    """Writes the commits of all branches to a stream."""

    def __init__(self, worktree: Worktree, stream: FastImportStream) -> None:
        self.worktree = worktree
        self.stream = stream
        self.names = worktree.changed_files
        self.paths = safe_paths(self.names, worktree.root_of, SPECIAL_IN_GIT)
        self.gaps: set[str] = set()
        self.commits = 0
        self._made: dict[tuple[int, int, int], _Commit] = {}
        self._agents = {
            source.agent.id: source.agent for source in worktree.sources if source.agent
        }

    def start(self) -> _Commit:
        """Write the commit with the files as they were before the session changed them."""
        tree: Tree = {}
        for name in self.names:
            for leaf in branch_leaves(self.worktree.session):
                base = self.worktree.base(name, leaf)
                if base.content is not None:
                    tree.setdefault(name.key, base.content)
        # On one branch, `x` may have been a file, and on another one, `x/y`.
        tree = {key: tree[key] for key in tree if tree.keys().isdisjoint(keys_above(key))}
        seconds = _first_time(self.worktree)
        message = f"Before the session\n\nSession: {self.worktree.session.id}\n"
        return self._write(message, seconds, [], {}, tree)

    def branch(self, leaf: int | None, start: _Commit) -> _Commit:
        """Write the commits of a branch that are not written yet; return the last one."""
        places = TurnPlaces(self.worktree, leaf)
        versions = sorted(self._versions(leaf), key=lambda each: each.place)
        commit, done, seconds = start, 0, 0
        for turn in places.turns:
            end = self.worktree.place_of_turn(turn.nodes)
            first = done
            while done < len(versions) and versions[done].place <= end:
                done += 1
            seconds = int(seconds_of(turn.ended) or seconds)
            new = versions[first:done]
            key = (commit.mark, turn.nodes[0].index, turn.nodes[-1].index)
            if key not in self._made:
                prompt = places.prompts.get(turn.n, "")
                self._made[key] = self._turn(turn, prompt, seconds, commit, new)
            commit = self._made[key]
        return commit

    def _versions(self, leaf: int | None) -> Iterator[FileRevision]:
        for name in self.names:
            yield from self.worktree.versions(name, leaf)

    def _turn(
        self, turn: Turn, prompt: str, seconds: int, parent: _Commit, new: list[FileRevision]
    ) -> _Commit:
        """Write the commits of a turn and its sub-agents; return `parent` if nothing changed."""
        tree = self._applied(parent.tree, new)
        if tree == parent.tree:
            return parent
        sides = [self._side(agent, seconds, parent, new) for agent in _agents_in(new)]
        merged = [side.mark for side in sides if side is not None]
        message = self._message(turn, prompt, new)
        return self._write(message, seconds, [parent.mark, *merged], parent.tree, tree)

    def _side(
        self, agent_id: str, seconds: int, parent: _Commit, new: list[FileRevision]
    ) -> _Commit | None:
        own = [version for version in new if version.agent_id == agent_id]
        tree = self._applied(parent.tree, own)
        if tree == parent.tree:
            return None
        last = int(seconds_of(own[-1].time) or seconds)
        return self._write(self._agent_message(agent_id), last, [parent.mark], parent.tree, tree)

    def _applied(self, tree: Tree, new: list[FileRevision]) -> Tree:
        found = dict(tree)
        for version in new:
            key = version.name.key
            if version.is_absent:
                found.pop(key, None)
            elif version.content is not None:
                found[key] = version.content
            else:
                # The content is not known: keep the last one rather than make one up.
                self.gaps.add(version.path)
        return found

    def _write(
        self, message: str, seconds: int, parents: list[int], before: Tree, tree: Tree
    ) -> _Commit:
        changes: dict[str, int | None] = {}
        for key in sorted(before.keys() | tree.keys()):
            path = "/".join(self.paths[key])
            if key not in tree:
                changes[path] = None
            elif before.get(key) != tree[key]:
                changes[path] = self.stream.blob(tree[key])
        self.commits += 1
        return _Commit(self.stream.commit(message, seconds, parents, changes), tree)

    def _message(self, turn: Turn, prompt: str, new: list[FileRevision]) -> str:
        cost = cost_of_messages([each for each in turn.messages if not each.is_synthetic])[0]
        states = [version.certainty for version in new if version.is_change]
        counts = [f"{states.count(each)} {each}" for each in Certainty if each in states]
        trailers = {
            "Session": self.worktree.session.id,
            "Turn": str(turn.n),
            "Lines": f"{turn.nodes[0].line}-{turn.nodes[-1].line}",
            "Model": ", ".join(models_of([turn])),
            "Cost": "" if cost is None else f"{cost:.6f} USD",
            "States": ", ".join(counts),
            "Gap": ", ".join(sorted({v.path for v in new if v.certainty is Certainty.GAP})),
        }
        return _commit_message(prompt or f"Turn {turn.n}", trailers)

    def _agent_message(self, agent_id: str) -> str:
        agent: SubAgent | None = self._agents.get(agent_id)
        title = agent.description if agent else agent_id
        trailers = {"Session": self.worktree.session.id, "Agent": agent_id}
        return _commit_message(title, trailers)


def export_git(worktree: Worktree, target: Path, bare: bool = False) -> GitExport:
    """Create a git repository from a session in a directory that is new or empty.

    The active branch is `main`. File contents are not masked; commit messages are.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Conflict(f"{target} exists and is not empty", "turnlog git SESSION -o OTHER_DIR")
    if not worktree.changed_files:
        session = worktree.session.id
        raise NotFound(f"{session} changed no files", f"turnlog files {quote(session)}")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Built in a temporary folder and moved into place: an interrupted export leaves nothing behind.
    building = Path(tempfile.mkdtemp(prefix=".turnlog-git-", dir=target.parent))
    try:
        export = _build(worktree, building / "repository", bare)
        if target.exists():
            target.rmdir()
        (building / "repository").rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    export.path = target
    return export


def _build(worktree: Worktree, folder: Path, bare: bool) -> GitExport:
    folder.mkdir()
    where = ["--bare"] if bare else []
    run_git(folder, "init", "--quiet", "--template=", "--initial-branch=main", *where)
    stream = folder.parent / "stream"
    with stream.open("wb") as output:
        exporter, tips = _write_stream(worktree, FastImportStream(output))
    options = ("--quiet", "--done", "--date-format=raw", "--force")
    run_git(folder, "fast-import", *options, source=stream)
    stream.unlink()
    run_git(folder, "update-ref", "-d", IMPORT_REF.decode())
    if not bare:
        run_git(folder, "reset", "--quiet", "--hard", "main")
    hashes = run_git(
        folder, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"
    )
    branches = dict(line.rsplit(" ", 1) for line in hashes.splitlines())
    gaps = sorted(mask(path) for path in exporter.gaps)
    files = len(set(exporter.paths))
    return GitExport(folder, exporter.commits, {tip: branches[tip] for tip in tips}, files, gaps)


def _write_stream(worktree: Worktree, stream: FastImportStream) -> tuple[_Exporter, list[str]]:
    exporter = _Exporter(worktree, stream)
    leaves = branch_leaves(worktree.session)
    start = exporter.start()
    tips = [exporter.branch(leaf, start) for leaf in leaves]
    names = ["main", *branch_names(_suffix(worktree, leaf) for leaf in leaves[1:])]
    for name, tip in zip(names, tips, strict=True):
        stream.branch(name, tip.mark)
    stream.finish()
    return exporter, names


def _suffix(worktree: Worktree, leaf: int | None) -> str:
    """Return the characters at the start of a leaf's uuid that are valid in a branch name."""
    uuid = "" if leaf is None else worktree.session.tree.chain[leaf].uuid or ""
    return "".join(char for char in uuid[:8] if char.isascii() and char.isalnum()) or "x"


def _agents_in(versions: list[FileRevision]) -> list[str]:
    return list(dict.fromkeys(v.agent_id for v in versions if v.agent_id))


def _first_time(worktree: Worktree) -> int:
    # Not the first line's: a forked session starts with lines that are newer than its first turn.
    times = (seconds_of(node.time) for node in worktree.session.nodes)
    return int(min((seconds for seconds in times if seconds), default=0))


def _commit_message(text: str, trailers: dict[str, str]) -> str:
    # Masked before it is cut: the start of a secret would not be recognized as one.
    shown = drop_unsafe(mask(text)).strip() or "(empty prompt)"
    subject = one_line(shown.split("\n", 1)[0]).strip()
    if len(subject) > SUBJECT:
        subject = subject[: SUBJECT - 1] + "…"
    body = "" if subject == shown else f"{shown}\n\n"
    # One line each: a file name with a newline must not add a trailer.
    lines = [f"{name}: {one_line(mask(value))}" for name, value in trailers.items() if value]
    return f"{subject}\n\n{body}" + "\n".join(lines) + "\n"
