"""Two users with homes, stores and projects of their own, who send each other bundles."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from support.build import SESSION, assistant, call, encode, result, session, text, user
from support.planted import PASTE, write
from turnlog.bundle.bundler import BundleOptions, BundleReport, write_bundle
from turnlog.bundle.importer import ImportOptions, ImportPlan, import_bundle
from turnlog.store.paths import Store


@dataclass(frozen=True)
class User:
    """Someone's home, and a project in it."""

    home: Path
    work: Path

    @property
    def store(self) -> Store:
        return Store(self.home / ".claude")

    @property
    def session(self) -> Path:
        return self.store.project_of(str(self.work)) / f"{SESSION}.jsonl"

    def bundle(self, path: Path, *sessions: Path, **options: object) -> BundleReport:
        """Write a bundle of sessions, by default of the only one."""
        chosen = BundleOptions(home=str(self.home), **options)  # pyright: ignore[reportArgumentType]
        return write_bundle(self.store, sessions or [self.session], path, chosen)

    def unbundle(self, path: Path, dry_run: bool = False, **options: object) -> ImportPlan:
        """Import a bundle; the project is this user's."""
        given = {"into": self.work, "home": str(self.home), "here": self.work} | options
        chosen = ImportOptions(**given)  # pyright: ignore[reportArgumentType]
        return import_bundle(self.store, path, chosen, dry_run=dry_run)

    def files(self) -> dict[str, bytes]:
        """Every file of the store, by its path in it."""
        root = self.store.root
        found = sorted(path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def create_users(tmp_path: Path, patch: pytest.MonkeyPatch) -> tuple[User, User]:
    """Ada, and Bob, whose paths differ in everything."""
    patch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    patch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ada = User(tmp_path / "one" / "ada", tmp_path / "one" / "ada" / "work" / "shop")
    bob = User(tmp_path / "two" / "users" / "bob", tmp_path / "two" / "users" / "bob" / "my-shop")
    for each in (ada, bob):
        each.work.mkdir(parents=True)
        each.store.projects.mkdir(parents=True)
    return ada, bob


def lines_of(owner: User, *more: bytes) -> bytes:
    """A session that names the directories of its owner in many places."""
    work, home, store = owner.work, owner.home, owner.store.root
    folder = owner.session.parent.name
    spilled = f"{store}/projects/{folder}/{SESSION}/tool-results/b1.txt"
    backups = {"backupFileName": "0123456789abcdef@v1", "version": 1}
    snapshot = {"messageId": "m", "trackedFileBackups": {f"{work}/a.py": backups}}
    return session(
        encode({"type": "file-history-snapshot", "messageId": "m", "snapshot": snapshot}),
        user(
            f"look at {work}/a.py, {home}/notes and file://{home}",
            cwd=str(work),
            slug="calm-old-fox",
        ),
        assistant(
            call("Read", {"file_path": f"{work}/a.py"}, "toolu_A"), message_id="m1", cwd=str(work)
        ),
        result("toolu_A", f"saved to {spilled}\nsee {home}\n", cwd=f"{work}/sub"),
        assistant(text("done"), message_id="m2", cwd=str(work)),
        *more,
    )


def record_session(owner: User, *more: bytes) -> Path:
    """Write a session with files of every kind to a user's store."""
    store, work = owner.store, owner.work
    write(owner.session, lines_of(owner, *more))
    own = owner.session.with_suffix("")
    write(own / "subagents" / "agent-a1.jsonl", session(user(f"in {work}"), agent_id="a1"))
    write(own / "subagents" / "agent-a1.meta.json", encode({"worktreePath": f"{work}/tree"}))
    write(own / "tool-results" / "b1.txt", f"all of {work}\n".encode())
    write(store.file_history / SESSION / "0123456789abcdef@v1", f"{work} stays\n".encode())
    write(store.todos / f"{SESSION}-agent-{SESSION}.json", b'[{"content":"x"}]')
    write(store.plans / "calm-old-fox.md", f"plan for {work}\n".encode())
    pasted = {"2": {"id": 2, "type": "text", "contentHash": PASTE}}
    mine = {"display": "look", "pastedContents": pasted, "timestamp": 1, "project": str(work)}
    other = {"display": "secret plans", "project": "/elsewhere", "sessionId": "other"}
    history = encode(other) + encode(mine | {"sessionId": SESSION})
    write(store.history, history)
    write(store.pastes / f"{PASTE}.txt", b"a long text")
    return owner.session
