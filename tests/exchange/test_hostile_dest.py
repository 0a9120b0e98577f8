"""A DEST that anyone could have written to: refused content is reported and not written."""

import hashlib
import json
import time
from pathlib import Path

import pytest

from support.build import SESSION, session, user
from support.machines import SyncedMachine, machines
from turnlog.errors import Unavailable
from turnlog.exchange.machine_manifest import (
    FORMAT,
    FileVersion,
    MachineManifest,
    ManifestName,
    Piece,
    SessionVersion,
    encode_manifest,
)
from turnlog.format.age_files import load_pyrage

LINE = session(user("hostile"))
MAIN = "projects/{id}.jsonl"
HOSTILE = "f" * 32


class Attacker:
    """Writes files to DEST as a machine could that runs another program."""

    def __init__(self, dest: Path) -> None:
        self.dest = dest
        self.places: list[tuple[bytes, int, int]] = []
        self.packs: list[bytes] = []

    def put(self, folder: str, name: str, content: bytes) -> None:
        (self.dest / folder).mkdir(parents=True, exist_ok=True)
        (self.dest / folder / name).write_bytes(content)

    def piece(self, raw: bytes, size: int | None = None) -> Piece:
        """Put a piece into a pack of its own."""
        from backports import zstd

        packed = zstd.compress(raw)
        digest = hashlib.sha256(packed)
        self.put("packs", digest.hexdigest(), packed)
        self.packs.append(digest.digest())
        piece = Piece(hashlib.sha256(raw).digest(), len(raw) if size is None else size)
        self.places.append((piece.hash, len(self.packs) - 1, 0))
        return piece

    def publish(self, *sessions: SessionVersion, sequence: int = 1, machine: str = HOSTILE) -> None:
        manifest = MachineManifest(FORMAT, machine, self.packs, self.places, list(sessions))
        self.publish_raw(encode_manifest(manifest), sequence, machine=machine)

    def publish_raw(
        self,
        content: bytes,
        sequence: int = 1,
        digest: str | None = None,
        machine: str = HOSTILE,
    ) -> None:
        name = ManifestName(machine, sequence, digest or hashlib.sha256(content).hexdigest())
        self.put("manifests", str(name).removeprefix("manifests/"), content)


@pytest.fixture
def machine(tmp_path: Path) -> SyncedMachine:
    (found,) = machines(tmp_path, 1)
    found.write(session(user("mine")), "5e551011-0000-4000-8000-00000000000a")
    return found


@pytest.fixture
def attacker(machine: SyncedMachine) -> Attacker:
    return Attacker(Path(machine.dest))


def files(machine: SyncedMachine) -> set[str]:
    """All files below the machine's home, turnlog's own left out."""
    found = [path for path in machine.home.rglob("*") if path.is_file()]
    data = machine.home / "data"
    return {str(path.relative_to(machine.home)) for path in found if data not in path.parents}


PATHS = {
    "parent": ("projects/../../evil.jsonl", "=-p"),
    "absolute": ("/etc/evil.jsonl", "=-p"),
    "settings": ("settings.json", ""),
    "credentials": (".credentials.json", ""),
    "hook script": ("session-env/{id}/hook.sh", ""),
    "workflow script": ("projects/{id}/workflows/scripts/x.js", "=-p"),
    "workflow script in capitals": ("projects/{id}/Workflows/SCRIPTS/x.js", "=-p"),
    "memory": ("projects/memory/MEMORY.md", "=-p"),
    "memory as an id": ("projects/{id}/../memory/x.md", "=-p"),
    "other session": ("projects/5e551011-0000-4000-8000-00000000000a.jsonl", "=-p"),
    "hidden project": ("projects/{id}.jsonl", "=.ssh"),
    "project outside": ("projects/{id}.jsonl", "=../../evil"),
    "project with a slash": ("projects/{id}.jsonl", "=a/b"),
    "empty project": ("projects/{id}.jsonl", "="),
    "no project": ("projects/{id}.jsonl", ""),
    "control character": ("projects/{id}/tool-results/\x1b[2J", "=-p"),
    "device": ("projects/{id}/tool-results/NUL", "=-p"),
    "drive": ("projects/{id}/tool-results/C:x", "=-p"),
    "backslash": ("projects/{id}/tool-results/..\\..\\x", "=-p"),
    "too deep": ("projects/{id}/" + "a/" * 20 + "x", "=-p"),
    "agent notes": ("agent-memory/x/MEMORY.md", ""),
    "set aside": ("projects/{id}/tool-results/x.01234567.theirs.txt", "=-p"),
}


@pytest.mark.parametrize("case", PATHS)
def test_paths_outside_of_a_session_are_refused(
    machine: SyncedMachine, attacker: Attacker, case: str
) -> None:
    role, project = PATHS[case]
    before = files(machine)
    version = FileVersion(role, project, [attacker.piece(LINE)])
    attacker.publish(SessionVersion(SESSION, "", [version]))
    report = machine.sync()
    assert len(report.problems) == 1
    assert files(machine) == before


def test_shared_files_are_history_plans_and_pastes_only(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    before = files(machine)
    roles = ["settings.json", "plans/../settings.json", "plans/x.sh", "CLAUDE.md", "paste-cache/x"]
    versions = [FileVersion(role, "", [attacker.piece(LINE)]) for role in roles]
    attacker.publish(SessionVersion("", "", versions))
    assert len(machine.sync().problems) == len(roles)
    assert files(machine) == before


def test_names_that_are_one_file_elsewhere_are_refused(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    piece = attacker.piece(LINE)
    roles = [MAIN, "projects/{id}/tool-results/a", "projects/{id}/tool-results/A"]
    attacker.publish(SessionVersion(SESSION, "", [FileVersion(r, "=-p", [piece]) for r in roles]))
    report = machine.sync()
    assert [each.reason for each in report.problems] == ["would overwrite another file"]


@pytest.mark.parametrize("name", ["../{}", "tool-results/x/{}"])
def test_many_names_are_refused_in_seconds(
    machine: SyncedMachine, attacker: Attacker, name: str
) -> None:
    piece = attacker.piece(LINE)
    # Names that hardly compress: fewer files would be allowed otherwise.
    names = (hashlib.sha256(bytes([n >> 8, n & 255])).hexdigest() for n in range(15_000))
    roles = [f"projects/{{id}}/{name.format(each)}" for each in names]
    # Everything below `x` collides with `X`, which is a file.
    roles = ["projects/{id}/tool-results/X", *roles]
    attacker.publish(SessionVersion(SESSION, "", [FileVersion(r, "=-p", [piece]) for r in roles]))
    start = time.monotonic()
    assert len(machine.sync().problems) == 15_000
    assert time.monotonic() - start < 30


def test_a_session_id_that_is_a_path_is_refused(machine: SyncedMachine, attacker: Attacker) -> None:
    before = files(machine)
    version = FileVersion(MAIN, "=-p", [attacker.piece(LINE)])
    attacker.publish(SessionVersion("../../evil", "", [version]))
    assert machine.sync().problems
    assert files(machine) == before


def _bomb() -> bytes:
    from backports import zstd

    return zstd.compress(b"\0" * (600 << 20), 19)


MANIFESTS = {
    "not compressed": b"hello",
    "not a manifest": encode_manifest(MachineManifest(FORMAT, HOSTILE, [], [], []))[:-3],
    "newer format": encode_manifest(MachineManifest(FORMAT + 1, HOSTILE, [], [], [])),
    "other machine": encode_manifest(MachineManifest(FORMAT, "0" * 32, [], [], [])),
    "unknown pack": encode_manifest(MachineManifest(FORMAT, HOSTILE, [], [(bytes(32), 5, 0)], [])),
    "bad label": encode_manifest(
        MachineManifest(FORMAT, HOSTILE, [], [], [SessionVersion(SESSION, "../x", [])])
    ),
    "bad hash": encode_manifest(MachineManifest(FORMAT, HOSTILE, [b"short"], [], [])),
}


@pytest.mark.parametrize("case", [*MANIFESTS, "bomb"])
def test_a_malformed_manifest_is_reported_and_the_older_one_used(
    machine: SyncedMachine, attacker: Attacker, case: str
) -> None:
    version = FileVersion(MAIN, "=-p", [attacker.piece(LINE)])
    attacker.publish(SessionVersion(SESSION, "", [version]), sequence=1)
    attacker.publish_raw(_bomb() if case == "bomb" else MANIFESTS[case], sequence=2)
    report = machine.sync()
    assert len(report.problems) == 1
    assert report.created == [SESSION]


def test_a_manifest_that_does_not_match_its_name_is_not_used(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    attacker.publish_raw(MANIFESTS["other machine"], digest="0" * 64)
    assert [each.reason for each in machine.sync().problems] == [
        f"manifests/{HOSTILE}.000000000001.{'0' * 64} does not match its name"
    ]


def test_pieces_that_do_not_match_their_hash_are_not_written(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    before = files(machine)
    good = attacker.piece(LINE)
    bad = Piece(hashlib.sha256(b"other").digest(), good.size)
    attacker.places.append((bad.hash, 0, 0))
    attacker.publish(SessionVersion(SESSION, "", [FileVersion(MAIN, "=-p", [good, bad])]))
    report = machine.sync()
    assert len(report.problems) == 1
    assert "does not contain piece" in report.problems[0].reason
    assert (report.created, report.received_bytes) == ([], 0)
    assert files(machine) == before


def test_a_piece_without_a_newline_cannot_join_with_our_lines(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    machine.write(LINE)
    before = machine.snapshot()
    torn = attacker.piece(b'{"type":"us')
    attacker.publish(SessionVersion(SESSION, "", [FileVersion(MAIN, "=-p", [torn])]))
    assert len(machine.sync().problems) == 1
    assert machine.snapshot() == before


def test_a_piece_named_a_thousand_times_does_not_fill_the_disk(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    before = files(machine)
    piece = attacker.piece(b" " * 999_999 + b"\n")
    attacker.publish(SessionVersion(SESSION, "", [FileVersion(MAIN, "=-p", [piece] * 1000)]))
    report = machine.sync()
    assert "expands from" in report.problems[0].reason
    assert files(machine) == before


def test_links_in_the_store_are_not_written_through(
    machine: SyncedMachine, attacker: Attacker, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (machine.store.projects / "-p").symlink_to(outside)
    attacker.publish(
        SessionVersion(SESSION, "", [FileVersion(MAIN, "=-p", [attacker.piece(LINE)])])
    )
    (found,) = machine.sync().linked
    assert found.reason == str(machine.store.projects / "-p")
    assert list(outside.iterdir()) == []


def test_many_files_of_one_piece_do_not_fill_the_disk(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    before = files(machine)
    piece = attacker.piece(b" " * 999_999 + b"\n")
    roles = [f"projects/{{id}}/tool-results/{n}" for n in range(2000)]
    attacker.publish(SessionVersion(SESSION, "", [FileVersion(r, "=-p", [piece]) for r in roles]))
    (problem,) = machine.sync().problems
    assert "expands to" in problem.reason
    assert files(machine) == before


def test_former_versions_of_many_sessions_are_refused_but_others_exchanged(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    big = attacker.piece(b'{"uuid":"x"}' + b" " * 15_000_000 + b"\n")
    small = attacker.piece(LINE)
    ids = [f"5e551011-0000-4000-8000-{n:012d}" for n in range(100, 140)]
    bombs = [FileVersion(MAIN, "=-p", [small], [[big], [big, small]]) for _ in ids]
    honest = SessionVersion(SESSION, "", [FileVersion(MAIN, "=-p", [small])])
    listed = [SessionVersion(n, "", [each]) for n, each in zip(ids, bombs, strict=True)]
    attacker.publish(*listed, honest)
    start = time.monotonic()
    report = machine.sync()
    assert report.created == [SESSION]
    assert len(report.problems) == len(ids)
    assert time.monotonic() - start < 20


def test_a_piece_that_many_sessions_list_is_read_for_few_of_them(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    big = attacker.piece(b'{"uuid":"x"}' + b" " * 6_000_000 + b"\n")
    ids = [f"5e551011-0000-4000-8000-{n:012d}" for n in range(100, 140)]
    attacker.publish(*(SessionVersion(n, "", [FileVersion(MAIN, "=-p", [big])]) for n in ids))
    report = machine.sync()
    assert 0 < len(report.created) < 8
    assert len(report.problems) + len(report.created) == len(ids)


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_small_manifest_brings_few_sessions(
    machine: SyncedMachine, attacker: Attacker, is_empty: bool
) -> None:
    pieces = [] if is_empty else [attacker.piece(LINE)]
    ids = [f"5e551011-0000-4000-8000-{n:012d}" for n in range(100, 10_100)]
    attacker.publish(*(SessionVersion(n, "", [FileVersion(MAIN, "=-p", pieces)]) for n in ids))
    report = machine.sync()
    assert 0 < len(report.created) < 3000
    (problem,) = report.problems
    assert problem.name == f"machine {HOSTILE}"


def test_many_forks_with_many_files_are_refused(machine: SyncedMachine, attacker: Attacker) -> None:
    small = attacker.piece(b"{}\n")
    former = [[attacker.piece(b'{"uuid":"x","n":%d}\n' % n)] for n in range(60)]
    roles = [f"projects/{{id}}/tool-results/{n}" for n in range(60)]
    extra = [FileVersion(role, "=-p", [small]) for role in roles]
    main = FileVersion(MAIN, "=-p", former[0], former[1:])
    before = files(machine)
    attacker.publish(SessionVersion(SESSION, "", [main, *extra]))
    (problem,) = machine.sync().problems
    assert "too many new files" in problem.reason
    assert files(machine) == before


def test_lines_that_a_hostile_machine_lists_again_and_again_still_arrive_from_their_own(
    tmp_path: Path,
) -> None:
    here, good = machines(tmp_path, 2)
    lines = [user(f"{n} " + "so " * 2000) for n in range(40)]
    good.write(session(*lines))
    good.sync()
    attacker = Attacker(Path(good.dest))
    (pack,) = Path(good.dest, "packs").iterdir()
    raw = good.path().read_bytes()
    attacker.packs.append(bytes.fromhex(pack.name))
    piece = Piece(hashlib.sha256(raw).digest(), len(raw))
    attacker.places.append((piece.hash, 0, 0))
    ids = [f"00000000-0000-4000-8000-{n:012d}" for n in range(500)]
    attacker.publish(*(SessionVersion(n, "", [FileVersion(MAIN, "=-p", [piece])]) for n in ids))
    assert SESSION in here.sync().created


def test_many_machines_that_list_the_same_lines_are_all_read(
    machine: SyncedMachine, attacker: Attacker
) -> None:
    big = attacker.piece(b'{"uuid":"x"}' + b" " * 12_000_000 + b"\n")
    for number in range(12):
        attacker.publish(
            SessionVersion(SESSION, "", [FileVersion(MAIN, "=-p", [big])]), machine=f"{number:032x}"
        )
    report = machine.sync()
    assert (report.created, report.problems) == ([SESSION], [])


def test_a_session_file_that_is_a_link_is_not_sent(machine: SyncedMachine, tmp_path: Path) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_bytes(b"SECRET\n")
    machine.path().symlink_to(secret)
    report = machine.sync()
    assert [each.reason for each in report.problems] == ["is a symbolic link"]
    assert report.sessions == 1


def hard_key(work: int) -> bytes:
    """A key that takes 2**work rounds to open, and then turns out to be none."""
    return (
        b"age-encryption.org/v1\n-> scrypt " + b"A" * 22 + b" %d\n" % work + b"A" * 43
        + b"\n--- " + b"A" * 43 + b"\n" + b"x" * 32
    )  # fmt: skip


@pytest.mark.parametrize(("work", "count"), [(22, 1), (30, 1), (63, 3), (20, 40)])
def test_keys_that_take_for_ever_to_open_are_not_opened(
    machine: SyncedMachine,
    attacker: Attacker,
    monkeypatch: pytest.MonkeyPatch,
    work: int,
    count: int,
) -> None:
    machine.sync(password="correct horse")
    for number in range(count):
        attacker.put("keys", f"{number:064x}", hard_key(work))
    rounds = opened_rounds(monkeypatch)
    report = machine.sync(password="correct horse") if work > 21 else None
    if report is None:
        with pytest.raises(Unavailable, match="does not open"):
            machine.sync(password="correct horse")
    else:
        assert len(report.problems) == count
    assert sum(rounds) < 1 << 24


def opened_rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds of scrypt of each key that is opened; hard ones are not really derived."""
    pyrage = load_pyrage()
    rounds: list[int] = []
    really = pyrage.passphrase.decrypt

    def decrypt(sealed: bytes, password: str) -> bytes:
        rounds.append(1 << int(sealed.split(b"\n")[1].split()[-1]))
        if b"A" * 43 in sealed:
            raise pyrage.DecryptError("no key")
        return really(sealed, password)

    monkeypatch.setattr(pyrage.passphrase, "decrypt", decrypt)
    return rounds


def snapshot(path: Path | str) -> bytes:
    """A line by which /rewind restores a file."""
    backup = {"backupFileName": "0123456789abcdef@v1", "version": 1}
    tracked = {"trackedFileBackups": {str(path): backup}}
    return json.dumps({"type": "file-history-snapshot", "snapshot": tracked}).encode() + b"\n"


@pytest.mark.parametrize("is_known", [True, False])
def test_files_that_rewind_would_change_outside_of_the_project_are_named(
    machine: SyncedMachine, attacker: Attacker, is_known: bool
) -> None:
    (machine.home / "shop").mkdir()
    if is_known:
        there = f"{machine.home}/shop"
        begun = session(user("hostile", cwd=there))
        machine.write(begun + session(user("on", uuid="on")), directory=there)
    first = session(user("hostile", cwd=f"{machine.home}/shop"))
    lines = [first, *map(snapshot, ("src/app.py", "../.bashrc", "/nowhere/at/all", ".git/config"))]
    version = FileVersion(MAIN, "~/shop", [attacker.piece(b"".join(lines))])
    attacker.publish(SessionVersion(SESSION, "", [version]))
    (found,) = machine.sync().rewinding
    assert found.name == SESSION
    assert found.reason == f"{machine.home}/shop/../.bashrc"
    (machine.home / "shop" / ".git").mkdir()
    assert machine.sync().rewinding == [], "nothing new"
