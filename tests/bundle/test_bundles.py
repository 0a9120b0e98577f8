"""Sessions bundled in one home and imported in another."""

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.build import SESSION, assistant, encode, session, text, user
from support.planted import PASTE, SECRETS, plant, write
from support.two_homes import User, create_users, lines_of, record_session
from turnlog.bundle.container import read_container
from turnlog.bundle.manifest import BundleManifest, encode_manifest
from turnlog.bundle.members import gather
from turnlog.bundle.merge import Relation
from turnlog.edit.journal import open_journal
from turnlog.edit.tracked_files import without_foreign_files
from turnlog.errors import Conflict, NotFound, Unavailable, Unredacted, Unresumable, UsageError
from turnlog.format.decode import values_of
from turnlog.format.jsonl import Line

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[User, User]:
    return create_users(tmp_path, monkeypatch)


@pytest.fixture
def ada(users: tuple[User, User]) -> User:
    record_session(users[0])
    return users[0]


@pytest.fixture
def bob(users: tuple[User, User]) -> User:
    return users[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.turnlog"


def unpacked(path: Path) -> tuple[BundleManifest, dict[str, bytes]]:
    """Everything in a bundle that is not encrypted."""
    found: list[bytes] = []
    with path.open("rb") as file:
        manifest = read_container(
            file, lambda _: None, lambda _, chunks: found.append(b"".join(chunks))
        )
    return manifest, dict(zip((each.path for each in manifest.files), found, strict=True))


def continued(owner: User, words: str, start: str) -> None:
    """Append a prompt to a session."""
    prompt = encode(
        json.loads(user(words, cwd=str(owner.work), sessionId=SESSION))
        | {"uuid": f"{start}-0000-4000-8000-000000000000", "parentUuid": None}
        | {"timestamp": "2026-11-15T07:00:00.000Z", "version": "2.1.325"}
    )
    entries = map(json.loads, owner.session.read_bytes().splitlines())
    last = [entry["uuid"] for entry in entries if "uuid" in entry][-1]
    write(owner.session, owner.session.read_bytes() + prompt.replace(b"null", f'"{last}"'.encode()))


def test_an_imported_session_is_the_same_with_the_receivers_paths(
    ada: User, bob: User, path: Path
) -> None:
    ada.bundle(path)
    plan = bob.unbundle(path)
    assert [each.relation for each in plan.sessions] == [Relation.NEW]
    found = bob.files()
    record_session(bob)  # what the session would be, had Bob recorded it
    expected = bob.files()
    backup = f"file-history/{SESSION}/0123456789abcdef@v1"
    assert found.pop(backup) == f"{ada.work} stays\n".encode()
    expected.pop(backup)
    expected["history.jsonl"] = expected["history.jsonl"].splitlines(keepends=True)[1]
    assert found == expected


def test_a_bundle_names_nothing_of_the_senders_machine(ada: User, path: Path) -> None:
    (ada.store.file_history / SESSION / "0123456789abcdef@v1").unlink()
    ada.bundle(path)
    manifest, files = unpacked(path)
    whole = encode_manifest(manifest) + b"".join(files.values())
    at = whole.find(str(ada.home).encode())
    assert at < 0, whole[max(0, at - 80) : at + 150]
    assert ada.session.parent.name.encode() not in whole
    assert [project.path for project in manifest.projects] == ["{turnlog:home}/work/shop"]


def test_the_same_sessions_yield_the_same_bytes(ada: User, path: Path, tmp_path: Path) -> None:
    ada.bundle(path)
    for file in ada.store.root.rglob("*"):
        file.touch()
    ada.bundle(tmp_path / "again.turnlog")
    assert path.read_bytes() == (tmp_path / "again.turnlog").read_bytes()


def test_a_bundle_is_an_ordinary_archive(ada: User, path: Path) -> None:
    ada.bundle(path)
    tar = subprocess.run(
        ["sh", "-c", f"zstd -dc {path} | tar tvf -"], capture_output=True, text=True, check=True
    )
    rows = [row.split() for row in tar.stdout.splitlines()]
    assert {row[0] for row in rows} == {"-rw-------"}
    assert {row[1] for row in rows} == {"0/0"}
    assert [row[-1] for row in rows][:2] == ["manifest.json", f"{SESSION}/session.jsonl"]


def test_only_files_of_the_session_are_bundled(ada: User, path: Path) -> None:
    own = ada.session.with_suffix("")
    unwanted = {
        ada.store.settings: b'{"env":{}}',
        ada.store.root / ".credentials.json": b"{}",
        ada.session.parent / "memory" / "MEMORY.md": b"notes",
        ada.store.root / "session-env" / SESSION / "hook.sh": b"rm -rf /",
        own / "workflows" / "scripts" / "run.js": b"evil()",
        own / "tool-results" / ".hidden": b"x",
        ada.store.logs / f"{SESSION}.txt": b"log",
        ada.store.root / "hooks" / "a.sh": b"x",
    }
    for place, content in unwanted.items():
        write(place, content)
    program = write(own / "tool-results" / "tool.txt", b"#!/bin/sh\n")
    program.chmod(0o700)
    report = ada.bundle(path)
    manifest, files = unpacked(path)
    assert sorted(files) == sorted(
        f"{SESSION}/{name}"
        for name in (
            "session.jsonl",
            "prompts.jsonl",
            "sidecars/subagents/agent-a1.jsonl",
            "sidecars/subagents/agent-a1.meta.json",
            "sidecars/tool-results/b1.txt",
            "file-history/0123456789abcdef@v1",
            f"todos/{SESSION}-agent-{SESSION}.json",
            "plans/calm-old-fox.md",
            f"pastes/{PASTE}.txt",
        )
    )
    assert {each.path.rpartition("/")[2]: each.reason for each in report.manifest.omitted} == {
        "hook.sh": "is not a file of a session",
        "run.js": "is not a file of a session",
        ".hidden": "is not a file of a session",
        "tool.txt": "is executable",
        f"{SESSION}.txt": "a debug log of the client",
    }
    assert b"secret plans" not in files[f"{SESSION}/prompts.jsonl"]
    assert manifest.sessions[0].client_versions == ["2.1.325"]


def test_a_link_in_the_store_leads_nowhere(ada: User, tmp_path: Path) -> None:
    write(tmp_path / "private" / "0123456789abcdef@v2", b"private")
    folder = ada.store.root / "uploads" / SESSION
    folder.parent.mkdir(parents=True)
    folder.symlink_to(tmp_path / "private")
    (ada.store.file_history / SESSION / "0123456789abcdef@v2").symlink_to(
        tmp_path / "private" / "0123456789abcdef@v2"
    )
    gathered = gather(ada.store, ada.session)
    assert not [each for each in gathered.members if b"private" in each.path.read_bytes()]


def test_secrets_are_replaced_everywhere(users: tuple[User, User], path: Path) -> None:
    ada, _ = users
    chosen = SECRETS[:: max(1, len(SECRETS) // 40)][:40]
    assert len(chosen) == 40
    plant(ada.store, [secret.text for secret in chosen])
    session_file = ada.store.projects / "-home-ada-shop" / f"{SESSION}.jsonl"
    report = ada.bundle(path, session_file)
    manifest, files = unpacked(path)
    whole = path.read_bytes() + encode_manifest(manifest) + b"".join(files.values())
    assert [secret.kind for secret in chosen if secret.value.encode() in whole] == []
    assert sum(report.manifest.masked.values()) >= 40
    assert manifest.is_redacted


def test_as_is_keeps_every_byte(ada: User, bob: User, path: Path) -> None:
    write(ada.session, lines_of(ada, user(f"token {TOKEN}")))
    ada.bundle(path, is_redacted=False)
    bob.unbundle(path)
    assert TOKEN.encode() in bob.session.read_bytes()


def test_secrets_in_names_are_left_out(ada: User, path: Path) -> None:
    write(ada.session.with_suffix("") / "tool-results" / f"{TOKEN}.txt", b"x")
    report = ada.bundle(path)
    assert [each.reason for each in report.manifest.omitted] == ["its name contains a secret"]
    manifest, files = unpacked(path)
    assert TOKEN.encode() not in encode_manifest(manifest) + b"".join(map(str.encode, files))


def test_a_password_in_a_name_is_left_out(ada: User, path: Path) -> None:
    write(ada.session, lines_of(ada, user("export DB_PASSWORD=tr0ub4dor-and-3\n")))
    write(ada.session.with_suffix("") / "tool-results" / "tr0ub4dor-and-3.txt", b"x")
    write(ada.store.root / "uploads" / SESSION / "tr0ub4dor-and-3.bin", b"x")
    assert len(ada.bundle(path).manifest.omitted) == 2
    manifest, files = unpacked(path)
    assert b"tr0ub4dor" not in encode_manifest(manifest) + b"".join(files.values())


def test_what_cannot_be_searched_is_left_out(ada: User, path: Path) -> None:
    import gzip

    backup = ada.store.file_history / SESSION / "fedcba9876543210@v1"
    write(backup, gzip.compress(TOKEN.encode()))
    report = ada.bundle(path)
    assert [each.path for each in report.manifest.omitted] == [
        f"{SESSION}/file-history/fedcba9876543210@v1"
    ]


def test_encoded_secrets_are_replaced_in_texts(ada: User, path: Path) -> None:
    import gzip

    plain = base64.b64encode(f"the token is {TOKEN}, please do not share it at all".encode())
    packed = base64.b64encode(gzip.compress(f"key {TOKEN}\n".encode() * 3))
    said = f"decode {plain.decode()} and {packed.decode()}"
    write(ada.session, lines_of(ada, user(said)))
    ada.bundle(path)
    _, files = unpacked(path)
    whole = b"".join(files.values())
    assert plain not in whole
    assert packed not in whole


def _tar(content: bytes) -> bytes:
    import io
    import tarfile

    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        info = tarfile.TarInfo(".env")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def _zip(content: bytes, method: int = 8) -> bytes:
    import io
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("a.txt", b"some text " * 20)
        archive.writestr(".env", content)
    return file.getvalue()


def _encrypted_first(raw: bytes) -> bytes:
    """Set the flag of an encrypted member on the first one."""
    directory = raw.index(b"PK\x01\x02")
    return raw[:6] + b"\1" + raw[7 : directory + 8] + b"\1" + raw[directory + 9 :]


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "short": base64.b64encode,
    "wrapped": lambda raw: base64.encodebytes(b"a line before it, of some length\n" + raw + b"\n!"),
    "archive": lambda raw: base64.b64encode(_tar(b"TOKEN=" + raw)),
    "zip with an encrypted file": lambda raw: base64.b64encode(
        _encrypted_first(_zip(b"TOKEN=" + raw))
    ),
    "UTF-16": lambda raw: base64.b64encode(raw.decode().encode("utf-16-le")),
    "twice": lambda raw: base64.b64encode(base64.b64encode(raw)),
    "binary": lambda raw: base64.b64encode(bytes(range(99)) + raw + b"\xff\0" * 9),
    "below a path": lambda raw: b"a/" + base64.b64encode(b"the token is " + raw + b"." * 60),
    "hexadecimal": lambda raw: raw.hex().encode(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_encoding_hides_a_secret(ada: User, path: Path, encoding: str) -> None:
    said = ENCODINGS[encoding](TOKEN.encode()).decode()
    write(ada.session, lines_of(ada, user(f"decode this:\n{said}\nplease")))
    ada.bundle(path)
    _, files = unpacked(path)
    whole = b"".join(files.values())
    assert [line for line in said.split() if line.encode() in whole] == []
    assert b"please" in whole


WRAPPED = base64.encodebytes(b"lorem ipsum dolor sit amet, " + TOKEN.encode() + b"." * 60)
LAYOUTS = {
    "a line of a diff": f"@@ -0,0 +1 @@\n+{base64.b64encode(TOKEN.encode()).decode()}\n",
    "wrapped, in a diff": "+".join(["+", *WRAPPED.decode().splitlines(keepends=True)]),
    "wrapped, with numbers": "".join(
        f"{n:6}→{line}" for n, line in enumerate(WRAPPED.decode().splitlines(keepends=True), 1)
    ),
    "wrapped, quoted": "".join(f"> {line}" for line in WRAPPED.decode().splitlines(keepends=True)),
    **{
        f"wrapped, after {prefix}": "".join(
            f"{prefix}{line}" for line in WRAPPED.decode().splitlines(keepends=True)
        )
        for prefix in (
            "k8s/tls.b64:",
            "k8s/tls.b64-",
            "// ",
            " * ",
            "2026-11-01T10:00:00Z ",
            "Nov 01 10:00:00 host app[123]: ",
            "^1a2b3c4 (Ada 2026-11-01 10:00:00 +0000 7) ",
        )
    },
    "literals": "".join(f'    "{line}"\n' for line in WRAPPED.decode().split()),
    "JSON": json.dumps({"data": WRAPPED.decode()}),
    "hexadecimal with a prefix": f"0x{TOKEN.encode().hex()}",
    "mixed hexadecimal": TOKEN.encode().hex().replace("a", "A", 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_known", [False, True])
def test_no_layout_hides_an_encoded_secret(
    ada: User, path: Path, layout: str, is_known: bool
) -> None:
    said = LAYOUTS[layout]
    shown = [user(f"the token is {TOKEN}")] if is_known else []
    write(ada.session, lines_of(ada, *shown, user(f"decode this:\n{said}\nplease")))
    write(ada.session.with_suffix("") / "tool-results" / "b3.txt", f"{said}\nplease".encode())
    ada.bundle(path)
    _, files = unpacked(path)
    whole = b"".join(files.values())
    encoded = re.findall(r"[A-Za-z0-9+/]{30,}", said)
    assert [part for part in encoded if part[4:-4].encode() in whole] == []
    assert whole.count(b"please") == 2


def test_a_dump_of_a_known_secret_is_replaced(ada: User, path: Path) -> None:
    rows = [TOKEN.encode()[at : at + 16] for at in range(0, len(TOKEN), 16)]
    dump = "".join(
        f"{16 * n:08x}: {row.hex(' ', 2):<39}  {row.decode()}\n" for n, row in enumerate(rows)
    )
    write(ada.session, lines_of(ada, user(f"the token is {TOKEN}"), user(f"{dump}please")))
    ada.bundle(path)
    whole = b"".join(unpacked(path)[1].values())
    assert b"please" in whole
    assert [row for row in rows if row.hex(" ", 2).encode() in whole or row in whole] == []


@pytest.mark.parametrize("method", [0, 8, 12, 14])
def test_damaged_zips_stop_no_bundle(ada: User, path: Path, method: int) -> None:
    sound = _zip(b"more text " * 20, method)
    damaged = [
        base64.b64encode(sound[:place] + bytes((sound[place] ^ 0x81,)) + sound[place + 1 :])
        for place in range(4, len(sound), 3)
    ]
    write(ada.session, lines_of(ada, user(b"\n\n".join(damaged).decode())))
    assert ada.bundle(path).manifest.sessions


def test_nothing_is_written_if_a_secret_cannot_be_replaced(ada: User, path: Path) -> None:
    data = base64.b64encode(f"the token is {TOKEN}, and it is in a document".encode() * 3).decode()
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    write(ada.session, lines_of(ada, user([{"type": "document", "source": source}])))
    with pytest.raises(Unredacted) as caught:
        ada.bundle(path)
    assert TOKEN not in str(caught.value.findings)
    assert f"{SESSION}/session.jsonl:6" in caught.value.findings[0]
    assert not path.exists()


def test_tokens_that_a_session_mentions_stay_what_they_are(
    ada: User, bob: User, path: Path
) -> None:
    said = "the token {turnlog:home} and {turnlog-1:project-0}"
    write(ada.session, lines_of(ada, user(said)))
    report = ada.bundle(path)
    bob.unbundle(path)
    assert report.manifest.tokens == "{turnlog-2:"
    assert said.encode() in bob.session.read_bytes()


def test_a_session_that_is_there_already_is_skipped(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    before = bob.files()
    plan = bob.unbundle(path)
    assert [each.relation for each in plan.sessions] == [Relation.SAME]
    assert (plan.record, bob.files()) == (None, before)
    continued(bob, "and now?", "11111111")
    longer = bob.files()
    assert [each.relation for each in bob.unbundle(path).sessions] == [Relation.BEHIND]
    assert bob.files() == longer


def test_a_continued_session_is_appended_and_keeps_its_secrets(
    ada: User, bob: User, path: Path
) -> None:
    write(ada.session, lines_of(ada, user(f"token {TOKEN}", cwd=str(ada.work))))
    ada.bundle(path)
    bob.unbundle(path)
    assert TOKEN.encode() not in bob.session.read_bytes()
    continued(bob, f"fixed in {bob.work}/a.py", "11111111")
    bob.bundle(path)
    before = ada.session.read_bytes()
    plan = ada.unbundle(path)
    assert [(each.relation, each.added_lines) for each in plan.sessions] == [(Relation.AHEAD, 1)]
    after = ada.session.read_bytes()
    assert after.startswith(before)
    assert f"fixed in {ada.work}/a.py".encode() in after
    open_journal().undo()
    assert ada.session.read_bytes() == before


def test_a_continued_session_keeps_the_outputs_that_are_there(
    ada: User, bob: User, path: Path
) -> None:
    output = ada.session.with_suffix("") / "tool-results" / "b2.json"
    write(output, f'["{TOKEN}"]'.encode())
    ada.bundle(path)
    bob.unbundle(path)
    continued(bob, "go on", "11111111")
    bob.bundle(path)
    plan = ada.unbundle(path)
    assert [each.relation for each in plan.sessions] == [Relation.AHEAD]
    assert output.read_bytes() == f'["{TOKEN}"]'.encode()
    assert output in plan.kept


def test_a_backup_of_another_content_is_imported_next_to_ours(
    ada: User, bob: User, path: Path
) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    name = "0123456789abcdef@v1"
    ours = write(ada.store.file_history / SESSION / name, b"before the rewind\n")
    write(bob.store.file_history / SESSION / name, b"after the rewind\n")
    continued(bob, "go on", "11111111")
    bob.bundle(path)
    before = ada.files()
    plan = ada.unbundle(path)
    digest = hashlib.sha256(b"after the rewind\n").hexdigest()
    aside = ours.with_name(f"{name}.{digest[:8]}.theirs")
    assert (plan.kept, plan.asides) == ([ours], [aside])
    assert ours.read_bytes() == b"before the rewind\n"
    assert aside.read_bytes() == b"after the rewind\n"
    again = ada.unbundle(path)
    assert (again.asides, again.record) == ([], None)
    open_journal().undo()
    assert ada.files() == before


def test_a_backup_that_was_set_aside_comes_along(ada: User, bob: User, path: Path) -> None:
    name = "0123456789abcdef@v1"
    for end in ("", ".1a2b3c4d.theirs"):
        write(ada.store.file_history / SESSION / f"{name}{end}", f"content{end}\n".encode())
    ada.bundle(path)
    bob.unbundle(path)
    copies = bob.store.file_history / SESSION
    assert sorted(each.name for each in copies.iterdir()) == [name, f"{name}.1a2b3c4d.theirs"]
    assert bob.unbundle(path).record is None
    write(copies / f"{name}.1a2b3c4d.theirs", b"changed\n")
    continued(ada, "go on", "11111111")
    ada.bundle(path)
    assert bob.unbundle(path).asides == []


def test_a_redacted_backup_is_no_other_version(ada: User, bob: User, path: Path) -> None:
    backup = ada.store.file_history / SESSION / "0123456789abcdef@v1"
    write(backup, f"export TOKEN={TOKEN}\n".encode())
    ada.bundle(path)
    bob.unbundle(path)
    continued(bob, "go on", "11111111")
    bob.bundle(path)
    plan = ada.unbundle(path)
    assert [each.relation for each in plan.sessions] == [Relation.AHEAD]
    assert (plan.kept, plan.asides) == ([], [])


def test_a_bundle_that_is_behind_leaves_backups_alone(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    continued(ada, "go on", "11111111")
    ours = write(ada.store.file_history / SESSION / "0123456789abcdef@v1", b"newer\n")
    plan = ada.unbundle(path)
    assert [each.relation for each in plan.sessions] == [Relation.BEHIND]
    assert (plan.kept, plan.asides, plan.record) == ([ours], [], None)


def test_sessions_that_both_continued_are_kept_as_a_fork(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    continued(ada, "mine", "22222222")
    continued(bob, "his", "33333333")
    bob.bundle(path)
    before = ada.files()
    plan = ada.unbundle(path)
    (found,) = plan.sessions
    assert found.relation is Relation.DIVERGED
    assert found.is_fork
    fork = ada.session.with_name(f"{found.new_id}.jsonl").read_bytes()
    assert b"his" in fork
    origin = f'"forkedFrom":{{"sessionId":"{SESSION}"'.encode()
    assert fork.count(SESSION.encode()) == fork.count(origin) > 0, "only as the origin"
    after = ada.files()
    assert {name: after[name] for name in before if name != "history.jsonl"} == {
        name: content for name, content in before.items() if name != "history.jsonl"
    }
    open_journal().undo()
    assert ada.files() == before


def test_a_session_is_a_fork_if_files_of_its_id_are_left(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    left = write(bob.store.todos / f"{SESSION}-agent-{SESSION}.json", b"[]")
    (found,) = bob.unbundle(path).sessions
    assert found.relation is Relation.NEW
    assert found.is_fork
    assert left.read_bytes() == b"[]"


def test_an_import_is_undone_completely(ada: User, bob: User, path: Path) -> None:
    write(bob.store.history, encode({"display": "mine", "project": "/x", "sessionId": "y"}))
    before = bob.files()
    ada.bundle(path)
    bob.unbundle(path, dry_run=True)
    assert bob.files() == before
    bob.unbundle(path)
    assert bob.files()["history.jsonl"].startswith(before["history.jsonl"])
    open_journal().undo()
    assert bob.files() == before


def test_a_project_is_found_at_the_same_place_below_home(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    (found,) = bob.unbundle(path, into=None).sessions
    assert found.directory == str(bob.work)  # the current directory
    open_journal().undo()
    (bob.home / "work" / "shop").mkdir(parents=True)
    (found,) = bob.unbundle(path, into=None).sessions
    assert found.directory == str(bob.home / "work" / "shop")


def test_several_projects_need_a_directory_for_each(ada: User, bob: User, path: Path) -> None:
    other = User(ada.home, ada.home / "work" / "tools")
    name = "77777777-0000-4000-8000-000000000000"
    second = other.session.with_name(f"{name}.jsonl")
    words = f"in {other.work}, not in {ada.work}"
    write(second, session(user(words, cwd=str(other.work)), session_id=name))
    ada.bundle(path, ada.session, second)
    with pytest.raises(UsageError):
        bob.unbundle(path, into=None)
    with pytest.raises(NotFound):
        bob.unbundle(path, into=bob.work)
    for folder in ("shop", "tools"):
        (bob.work / folder).mkdir()
    plan = bob.unbundle(path, into=bob.work)
    assert {each.directory for each in plan.sessions} == {
        str(bob.work / "shop"),
        str(bob.work / "tools"),
    }
    written = bob.store.project_of(str(bob.work / "tools")) / f"{name}.jsonl"
    assert f"in {bob.work}/tools, not in {bob.work}/shop".encode() in written.read_bytes()


def test_a_session_that_no_client_resumes_is_imported_only_on_request(
    users: tuple[User, User], path: Path
) -> None:
    ada, bob = users
    write(ada.session, b'{"type":"user"}\n')
    ada.bundle(path)
    before = bob.files()
    with pytest.raises(Unresumable):
        bob.unbundle(path)
    assert bob.files() == before
    bob.unbundle(path, allow_broken=True)
    assert bob.session.is_file()


def test_a_session_in_use_is_not_continued(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    continued(bob, "more", "11111111")
    bob.bundle(path)
    ada.session.touch()
    with pytest.raises(Conflict):
        ada.unbundle(path)


def test_a_session_without_a_uuid_is_refused(ada: User, path: Path) -> None:
    named = write(ada.session.with_name("notes.jsonl"), session(user("hi")))
    with pytest.raises(UsageError):
        ada.bundle(path, named)


def test_links_in_the_receivers_store_are_not_followed(
    ada: User, bob: User, path: Path, tmp_path: Path
) -> None:
    ada.bundle(path)
    (tmp_path / "elsewhere").mkdir()
    bob.store.todos.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        bob.unbundle(path)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not bob.session.exists()


def test_a_fork_keeps_its_own_answer(ada: User, bob: User, path: Path) -> None:
    write(ada.session, lines_of(ada, assistant(text("ours"), message_id="m3")))
    ada.bundle(path)
    write(bob.session, lines_of(bob, assistant(text("theirs"), message_id="m4")))
    (found,) = bob.unbundle(path).sessions
    assert b"ours" in bob.session.with_name(f"{found.new_id}.jsonl").read_bytes()
    assert b"theirs" in bob.session.read_bytes()


def test_a_fork_is_imported_once(ada: User, bob: User, path: Path) -> None:
    write(ada.session, lines_of(ada, user("hers")))
    ada.bundle(path)
    write(bob.session, lines_of(bob, user("mine")))
    (first,) = bob.unbundle(path).sessions
    before = bob.files()
    (second,) = bob.unbundle(path).sessions
    assert (second.new_id, second.relation) == (first.new_id, Relation.SAME)
    assert bob.files() == before


def test_sessions_may_share_a_plan(ada: User, bob: User, path: Path) -> None:
    name = "77777777-0000-4000-8000-000000000000"
    second = write(
        ada.session.with_name(f"{name}.jsonl"),
        session(user("hi", cwd=str(ada.work), slug="calm-old-fox"), session_id=name),
    )
    ada.bundle(path, ada.session, second)
    assert len(bob.unbundle(path).sessions) == 2
    assert (bob.store.plans / "calm-old-fox.md").read_bytes() == f"plan for {bob.work}\n".encode()


def test_a_line_that_is_being_written_is_left_out(ada: User, bob: User, path: Path) -> None:
    whole = ada.session.read_bytes()
    write(ada.session, whole + b'{"type":"user","mess')
    report = ada.bundle(path)
    assert [each.reason for each in report.manifest.omitted] == ["its last line is incomplete"]
    bob.unbundle(path)
    write(ada.session, whole)
    continued(ada, "and now?", "11111111")
    ada.bundle(path)
    write(bob.session, bob.session.read_bytes())  # long ago
    assert [each.relation for each in bob.unbundle(path).sessions] == [Relation.AHEAD]


def test_prompts_typed_elsewhere_are_not_imported(ada: User, bob: User, path: Path) -> None:
    elsewhere = {"display": "!rm -rf /", "project": "/elsewhere", "sessionId": SESSION}
    write(ada.store.history, ada.store.history.read_bytes() + encode(elsewhere))
    ada.bundle(path)
    assert bob.unbundle(path).prompts == 1
    assert b"rm -rf" not in bob.files()["history.jsonl"]


def test_without_a_signature_there_is_no_bundle(ada: User, path: Path, tmp_path: Path) -> None:
    key = write(tmp_path / "not-a-key", b"hello")
    with pytest.raises(Unavailable):
        ada.bundle(path, key=key)
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["/home/victim/.bashrc", "../../.bashrc", ".git/hooks/pre-commit", ".claude/x.json"]
)
def test_a_foreign_session_restores_no_file_outside_of_its_project(
    ada: User, bob: User, path: Path, name: str
) -> None:
    backup = {"backupFileName": "0123456789abcdef@v1", "version": 1}
    snapshot = {"messageId": "n", "trackedFileBackups": {name: backup, "b.py": backup}}
    first = encode({"type": "file-history-snapshot", "messageId": "n", "snapshot": snapshot})
    second = encode({"type": "file-history-delta", "trackingPath": name, "backup": backup})
    write(ada.session, lines_of(ada, first, second))
    before = ada.files()
    ada.bundle(path)
    plan = bob.unbundle(path)
    assert plan.untracked == {name}
    *_, one, two = map(json.loads, bob.session.read_bytes().splitlines())
    assert list(one["snapshot"]["trackedFileBackups"]) == ["b.py"]
    assert two["type"] == "foreign-file-history-delta"
    assert [each.relation for each in ada.unbundle(path).sessions] == [Relation.SAME]
    assert ada.files() == before
    continued(bob, "go on", "11111111")
    bob.bundle(path)
    assert [each.relation for each in ada.unbundle(path).sessions] == [Relation.AHEAD]


@pytest.mark.parametrize(
    "line",
    [
        rb'{"type":"file-history-delta","tracking\u0050ath":"../../.bashrc"}',
        rb'{"type":"file-history-delta","trackingPath":"../../.bashrc","x":"\ud800"}',
        rb'{"type":"file-history-delta","trackingPath":"../../.bashrc","x":1e999}',
        b'{"type":"file-history-delta","trackingPath":"../../.bashrc","x":"\xff"}',
        b'{"type":"mode"}{"type":"file-history-delta","trackingPath":"../../.bashrc"}',
        rb'{"snapshot":{"tracked\u0046ileBackups":{"../../.bashrc":{}}}}',
        b'{"type":"file-history-delta","trackingPath":"a.py",'
        b'"backup":{"backupFileName":"../../../.ssh/id_rsa"}}',
    ],
)
def test_no_spelling_hides_a_tracked_file(line: bytes) -> None:
    kept, foreign = without_foreign_files(line + b"\n", "/home/bob/shop")
    assert foreign
    assert kept.endswith(b"}\n")
    assert without_foreign_files(kept, "/home/bob/shop")[0] == kept
    values = values_of(Line(kept, 0, 0))
    assert values
    assert not [each for each in values if each.get("type") == "file-history-delta"]


def test_names_that_are_not_utf_8_are_left_out(ada: User, path: Path) -> None:
    folder = ada.session.with_suffix("") / "tool-results"
    write(Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")), b"x")
    report = ada.bundle(path)
    assert [each.path for each in report.manifest.omitted] == [
        f"{SESSION}/sidecars/tool-results/?.txt"
    ]


def test_a_project_may_have_a_name_that_is_not_utf_8(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    odd = Path(os.fsdecode(os.fsencode(bob.home) + b"/sh\xffop"))
    odd.mkdir()
    (found,) = bob.unbundle(path, into=odd).sessions
    assert found.directory == str(odd)


def test_an_image_with_a_secret_in_its_bytes_is_left_out(ada: User, path: Path) -> None:
    folder = ada.session.with_suffix("") / "tool-results"
    start = b"\x89PNG\r\n\x1a\n" + bytes(20)
    write(folder / "bad.png", start + TOKEN.encode() + bytes(5))
    write(folder / "good.png", start + bytes(range(256)))
    report = ada.bundle(path)
    assert [(each.path.rpartition("/")[2], each.reason) for each in report.manifest.omitted] == [
        ("bad.png", "is an image that contains a secret")
    ]
    assert TOKEN.encode() not in b"".join(unpacked(path)[1].values())


def continued_agent(owner: User, words: str, name: str = "a1") -> Path:
    """Append a prompt to a sub-agent of the session."""
    log = owner.session.with_suffix("") / "subagents" / f"agent-{name}.jsonl"
    prompt = session(user(words, cwd=str(owner.work)), agent_id=name)
    return write(log, (log.read_bytes() if log.exists() else b"") + prompt)


def test_a_subagent_that_both_continued_makes_a_fork(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    continued_agent(ada, "mine")
    continued_agent(bob, "his")
    continued(bob, "go on", "33333333")  # only Bob continued the transcript
    bob.bundle(path)
    before = ada.files()
    assert ada.unbundle(path, dry_run=True).sessions[0].relation is Relation.DIVERGED
    (found,) = ada.unbundle(path).sessions
    assert found.relation is Relation.DIVERGED
    fork = ada.session.with_name(found.new_id) / "subagents" / "agent-a1.jsonl"
    assert b"his" in fork.read_bytes()
    assert {name: ada.files()[name] for name in before if name != "history.jsonl"} == {
        name: content for name, content in before.items() if name != "history.jsonl"
    }
    open_journal().undo()
    assert ada.files() == before


@pytest.mark.parametrize("name", ["a1", "a2"])
def test_a_longer_or_new_subagent_is_taken_over(
    ada: User, bob: User, path: Path, name: str
) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    continued_agent(bob, "his", name)
    bob.bundle(path)
    before = ada.files()
    (found,) = ada.unbundle(path).sessions
    assert (found.relation, found.added_lines, found.files) == (Relation.AHEAD, 0, 1)
    log = f"{ada.session.relative_to(ada.store.root).with_suffix('')}/subagents/agent-{name}.jsonl"
    after = ada.files()
    assert b"his" in after.pop(log)
    assert after == {path: content for path, content in before.items() if path != log}
    open_journal().undo()
    assert ada.files() == before


def test_a_session_that_is_longer_here_with_a_shorter_subagent_makes_a_fork(
    ada: User, bob: User, path: Path
) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    continued(ada, "mine", "22222222")
    continued_agent(bob, "his")
    bob.bundle(path)
    assert ada.unbundle(path).sessions[0].relation is Relation.DIVERGED


def test_bundles_that_differ_in_a_subagent_make_two_forks(ada: User, bob: User, path: Path) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    continued(ada, "mine", "22222222")
    forks: set[str] = set()
    for words in ("his", "more"):
        continued_agent(bob, words)
        bob.bundle(path)
        forks |= {each.new_id for each in ada.unbundle(path).sessions}
    assert len(forks) == 2
    (again,) = ada.unbundle(path).sessions
    assert (again.relation, again.new_id in forks) == (Relation.SAME, True)


def test_files_that_a_session_lacks_are_added_though_it_is_there_already(
    ada: User, bob: User, path: Path
) -> None:
    ada.bundle(path)
    bob.unbundle(path)
    output = bob.session.with_suffix("") / "tool-results" / "b1.txt"
    content = output.read_bytes()
    output.unlink()
    (found,) = bob.unbundle(path).sessions
    assert (found.relation, found.files) == (Relation.SAME, 1)
    assert output.read_bytes() == content


def test_another_title_of_the_same_session_is_kept_and_reported(
    ada: User, bob: User, path: Path
) -> None:
    title = Path(SESSION, "custom-title.json")
    write(ada.session.parent / title, b'{"customTitle":"hers"}')
    ada.bundle(path)
    bob.unbundle(path)
    own = write(bob.session.parent / title, b'{"customTitle":"his"}')
    assert bob.unbundle(path).kept == [own]
    assert own.read_bytes() == b'{"customTitle":"his"}'
