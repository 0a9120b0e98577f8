"""Repositories that bring their own git settings, index and archives: nothing leaves the sandbox.

What a command runs in its sandbox is contained. So each attack tries what counts: to leave a mark
outside of the project, and to show a secret.
"""

import asyncio
import gzip
import hashlib
import io
import shutil
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator

import pytest

from agent.permissions.arena import AT_HOME, DENIED, OUTSIDE, READ, RULE, WRITE, Arena, Trial
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox.masks import find_masks
from turnlog.agent.workspace.sandbox.patterns import PathPattern
from turnlog.agent.workspace.sandbox.profile import Profile

pytestmark = pytest.mark.needs_bwrap
BLOB = "ce013625030ba8dba906f756967f9e9ca394464a"
STEAL = (
    "sh -c 'cat ../outside/secret.txt .env config/prod.key >&2;"
    " touch ../MARK ../outside/MARK ~/MARK'"
)
SETTINGS = (
    *(
        '[core]\n\tfsmonitor = "{}"',
        '[core]\n\tpager = "{}"',
        '[core]\n\teditor = "{}"',
        '[core]\n\tsshCommand = "{}"',
    ),
    *('[diff]\n\texternal = "{}"', '[diff ""]\n\tcommand = "{}"', '[diff "x"]\n\ttextconv = "{}"'),
    *(
        '[filter ""]\n\tclean = "{}"',
        '[filter "x"]\n\tclean = "{}; cat"\n\tsmudge = "{}; cat"\n\trequired = true',
    ),
    *(
        '[alias]\n\tst = "!{}"',
        '[gpg]\n\tprogram = "{}"\n[commit]\n\tgpgSign = true',
        '[credential]\n\thelper = "!{}"',
    ),
    *(
        '[merge "x"]\n\tdriver = "{}"',
        '[uploadpack]\n\tpackObjectsHook = "{}"',
        "[core]\n\thooksPath = evil-hooks",
    ),
    *(
        "[core]\n\texcludesFile = ../outside/secret.txt",
        "[include]\n\tpath = ../../outside/secret.txt",
    ),
    *("[core]\n\tworktree = ../..", "[blame]\n\tignoreRevsFile = ../outside/secret.txt"),
    *("[mailmap]\n\tfile = ../outside/secret.txt", "[http]\n\tcookieFile = ../outside/secret.txt"),
)
COMMANDS = (
    "git status; git diff HEAD; git -p log -p -1; git blame README.md; git add -A; git st",
    "git commit -qm x; git stash; git checkout -q -b y; git merge main; git fetch .; git shortlog",
)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("hostile") / "a", is_committed=False)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        yield made
    made.server.close()


@pytest.fixture(autouse=True)
def _renewed(arena: Arena) -> Iterator[None]:
    yield
    arena.renew()


def attempt(arena: Arena, command: str, *trials: Trial) -> None:
    """Run a command in the prepared project, in several tiers; it must neither mark nor show."""
    prepared = arena.world.with_name("prepared")
    shutil.copytree(arena.world, prepared, symlinks=True)
    try:
        for trial in trials:
            outcome = asyncio.run(arena.run(command, trial, is_renewed=False))
            assert outcome.has_run, outcome.verdict.reason
            marks = [*arena.world.glob("MARK"), *arena.world.glob("*/MARK")]
            marks = [mark for mark in marks if mark.parent != arena.project]
            assert not marks, (trial.name, command)
            secrets = (DENIED, AT_HOME, *((OUTSIDE,) if trial.is_contained else ()))
            assert not any(each in outcome.output for each in secrets), (trial.name, outcome.output)
            arena.renew(prepared)
    finally:
        shutil.rmtree(prepared)


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda text: text.replace("\n\t", " ")[:40])
def test_settings_of_a_repository_leave_no_mark_and_show_no_secret(
    settings: str, arena: Arena
) -> None:
    project = arena.project
    with (project / ".git/config").open("a") as file:
        file.write(settings.replace("{}", STEAL.replace('"', '\\"')) + "\n")
    (project / ".gitattributes").write_text("*.md diff=x filter=x merge=x\n*.py diff= filter=\n")
    (project / "README.md").write_text("changed\n")
    hook = project / "evil-hooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\n{STEAL}\n")
    hook.chmod(0o755)
    attempt(arena, COMMANDS[0], READ, RULE)
    attempt(arena, COMMANDS[1], WRITE)


def entry(name: str, *, length: int | None = None, mode: int = 0o100644) -> bytes:
    flags = len(name.encode()) if length is None else length
    packed = struct.pack(">10I", 1, 0, 1, 0, 1, 1, mode, 0, 0, 1) + bytes.fromhex(BLOB)
    packed += struct.pack(">H", flags) + name.encode()
    return packed + b"\0" * (8 - len(packed) % 8)


def hidden_entry() -> tuple[list[bytes], bytes]:
    """An entry that git takes for a longer one, so that it finds the next one in an extension."""
    real = entry(".env")
    return [entry("$", length=70), entry("b")], b"ZZZZ" + struct.pack(">I", len(real)) + real


@pytest.mark.parametrize(
    ("entries", "extensions"),
    [
        ([entry("../outside/secret.txt"), entry("README.md")], b""),
        ([entry("{root}/../outside/secret.txt")], b""),
        ([entry("docs/../../outside/secret.txt")], b""),
        ([entry("out/secret.txt")], b""),
        ([entry(".env"), entry("config/prod.key"), entry("deep/key")], b""),
        ([entry("vendor/lib", mode=0o160000)], b""),
        hidden_entry(),
    ],
    ids=range(7),
)
def test_an_index_shows_no_file_that_the_sandbox_hides(
    entries: list[bytes], extensions: bytes, arena: Arena
) -> None:
    data = struct.pack(">4sII", b"DIRC", 2, len(entries)) + b"".join(entries) + extensions
    (arena.project / ".git/index").write_bytes(data + hashlib.sha1(data).digest())
    with (arena.project / "vendor/lib/.git/config").open("a") as file:
        file.write(f'[core]\n\tfsmonitor = "{STEAL}"\n')
    command = "git diff; git grep canary; git diff HEAD; git status; git stash; git diff HEAD -- ."
    attempt(arena, command, READ, WRITE, RULE)


@pytest.mark.parametrize(
    "command",
    [
        *("git add -A && git commit -qm x && git show", "git add -f .env && git diff --cached"),
        *("rm -f .gitignore && git add . && git diff --cached", "git commit -qam x; git show HEAD"),
        *("git stash -u; git stash show -p", "git hash-object -w .env | xargs git cat-file -p"),
        *(
            "git update-index --add .env; git show :.env",
            "git diff --no-index /dev/null config/prod.key",
        ),
        "git config core.excludesFile x; git add -A; git show :config/prod.key",
    ],
)
def test_git_stages_no_denied_file(command: str, arena: Arena) -> None:
    identity = "git config user.name a; git config user.email a@b; "
    attempt(arena, identity + command, WRITE, RULE)
    env = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    outcome = arena.try_one(
        f"{' '.join(f'{k}={v}' for k, v in env.items())}; {identity}{command}", RULE
    )
    assert not [each for each in outcome.breaches if "denied" in each]


def tar_of(*names: str, links: dict[str, str] | None = None) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return sink.getvalue()


KEPT = (".git/hooks/pre-commit", ".claude/settings.json", "docs/keep.md", ".envrc", "src/.mcp.json")
ARCHIVES = {
    "members": tar_of("src/app.py", *KEPT),
    "above": tar_of("../outside/secret.txt", "../pwned"),
    "links": tar_of(
        "a/settings.json", "b", "c/x", links={"a": ".claude", "b": ".envrc", "c": "../outside"}
    ),
    "streams": gzip.compress(tar_of("a")[:512]) + gzip.compress(tar_of(".envrc")),
    "damaged": tar_of("a")[:512] + b"x" * 512 + tar_of(".envrc"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_replaces_nothing_that_the_sandbox_keeps(name: str, arena: Arena) -> None:
    (arena.project / "x.tar").write_bytes(ARCHIVES[name])
    with zipfile.ZipFile(arena.project / "x.zip", "w") as archive:
        for member in (*KEPT, "../pwned", ".envrc;1", "a\\.envrc"):
            archive.writestr(member, "x")
    before = _kept(arena)
    for command in (
        "tar xf x.tar; tar xzf x.tar; tar xif x.tar",
        "tar xPf x.tar --overwrite --unlink-first --recursive-unlink",
        "tar xf x.tar -C docs; tar xf x.tar --strip-components=1; cd deep; tar xPf ../x.tar",
        "python3 -m zipfile -e x.zip .; python3 -m tarfile -e x.tar .",
        "unzip -o x.zip; unzip -:o x.zip; bsdtar -xPf x.tar",
    ):
        for trial in (READ, WRITE, RULE):
            asyncio.run(arena.run(command, trial, is_renewed=False))
            found = _kept(arena)
            assert {key: found.get(key) for key in before} == before, (trial.name, command)
            assert not (arena.world / "pwned").exists()
            if trial is WRITE:
                assert found == before, command
            for new in found.keys() - before.keys():
                (arena.project / new).unlink()


def _kept(arena: Arena) -> dict[str, str]:
    names = (*KEPT, "../outside/secret.txt", "a/.envrc", ".git/config")
    files = {name: arena.project / name for name in names}
    return {name: path.read_text() for name, path in files.items() if path.is_file()}


PATCH = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-{1}\n+PWNED\n"
MAIL = "From 1 Mon Sep 17 00:00:00 2001\nFrom: a <a@b.c>\nSubject: x\n{}\n\nx\n---\n"


@pytest.mark.parametrize(
    "patch",
    [
        *(
            PATCH.format(name, text)
            for name, text in (("docs/keep.md", "keep"), (".envrc", "export A=1"))
        ),
        *(PATCH.format(name, "{}") for name in (".claude/settings.json", ".mcp.json")),
        PATCH.format("x", "export A=1").replace("+++ b/x", '+++ "b/.env\\162c"'),
        PATCH.format("../outside/secret.txt", OUTSIDE),
        MAIL.format("Content-Type: text/plain; charset=UTF-7")
        + PATCH.format("+AC4-envrc", "export A=1"),
        "Index: .envrc\n" + PATCH.format("x", "export A=1"),
    ],
    ids=range(8),
)
def test_a_patch_changes_nothing_that_the_sandbox_keeps(patch: str, arena: Arena) -> None:
    (arena.project / "x.patch").write_text(patch)
    before = _kept(arena)
    command = (
        "git apply x.patch; git apply --unsafe-paths x.patch; patch -p1 -f < x.patch;"
        " patch -p0 -f -i x.patch;"
        " git -c user.name=a -c user.email=a@b am x.patch; cd docs; patch -f < ../x.patch"
    )
    for trial in (READ, WRITE, RULE):
        asyncio.run(arena.run(command, trial, is_renewed=False))
        assert _kept(arena) == before, trial.name


def test_a_repository_that_poses_as_another_hides_its_objects(arena: Arena) -> None:
    """Whatever HEAD, `commondir` or the settings say, the objects are hidden in doubt."""
    project = arena.project
    subprocess.run(["git", "add", "-f", ".env"], cwd=project, check=True)
    wanted = Profile(Basis.RULE, (project,), (PathPattern(project, ".env"),))
    for name, text in (("HEAD", "garbage\n"), ("commondir", "../nowhere\n"), ("config", "[x\n")):
        before = (
            (project / ".git" / name).read_text() if (project / ".git" / name).exists() else None
        )
        (project / ".git" / name).write_text(text)
        assert project / ".git/objects" in find_masks(wanted).hidden, name
        if before is None:
            (project / ".git" / name).unlink()
        else:
            (project / ".git" / name).write_text(before)
