"""What a command can read, write and reach in each sandbox, run by the Bash tool."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox.patterns import PathPattern
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.agent.workspace.tool import Grant, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

pytestmark = pytest.mark.needs_bwrap
PYTHON = "/usr/bin/python3"
ON = Confinement(is_on=True)


class Place:
    """A project in a home, with files of the user around it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = self.home / "project"
        for name in ("project/src/a.py", ".ssh/id", ".cargo/registry/x", ".gitconfig", "notes/n"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text("" if name == ".gitconfig" else f"canary {name}\n")
        self.workspace = Workspace(self.root, folder / "session", self.root)

    def outcome(self, command: str, profile: Profile, timeout: int = 20_000) -> ToolOutcome:
        async def go() -> ToolOutcome:
            value = BASH.read({"command": command, "timeout": timeout})
            grant = Grant(profile.basis, profile=profile)
            return await BASH.run(value, self.workspace, lambda text: None, grant)

        return asyncio.run(go())

    def run(self, command: str, basis: Basis = Basis.WRITE, **options: object) -> str:
        profile = replace(Profile(basis, (self.root,)), **options)
        return str(self.outcome(command, profile).content)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("TURNLOG_HOME", str(made.home / ".turnlog"))
    return made


@pytest.mark.parametrize("basis", [Basis.READ, Basis.WRITE])
def test_the_home_is_hidden_except_what_commands_need(place: Place, basis: Basis) -> None:
    shown = place.run(
        f"cd ..; cat .ssh/id notes/n; cat .cargo/registry/x .gitconfig; ls -A {place.home}", basis
    )
    assert "canary .cargo/registry/x" in shown
    assert "canary .ssh" not in shown
    assert "canary notes" not in shown
    shown = place.run("cat ../notes/n", basis, shown=(PathPattern(place.home, "/notes/**"),))
    assert shown == "canary notes/n"
    allowed = replace(ON, shown=(PathPattern(place.home, "/notes"),))
    assert place.run("cat ../notes/n", basis, settings=allowed) == "canary notes/n"


@pytest.mark.parametrize("basis", [Basis.READ, Basis.WRITE])
def test_protected_files_outside_of_the_project_stay_hidden(place: Place, basis: Basis) -> None:
    """turnlog's own data holds copies of other projects' sessions."""
    for name in (".local/share/turnlog", ".config/turnlog", ".turnlog", "dotfiles"):
        (place.home / name).mkdir(parents=True)
        (place.home / name / "rc").write_text(f"canary {name}\n")
    (place.home / ".bashrc").symlink_to("dotfiles/rc")
    for name in (".local/share/turnlog", ".config/turnlog", ".turnlog", "dotfiles"):
        assert "canary" not in place.run(f"cat ~/{name}/rc ~/.bashrc", basis)


@pytest.mark.parametrize("basis", [Basis.READ, Basis.WRITE, Basis.RULE])
def test_the_home_as_working_directory_keeps_its_secrets(place: Place, basis: Basis) -> None:
    place.workspace.root = place.workspace.cwd = place.home
    hidden = (PathPattern(place.home, "/.ssh/**"),)
    profile = Profile(basis, (place.home,), hidden)
    shown = str(
        place.outcome("cat .ssh/id; cat notes/n; echo x > new; echo x > .bashrc", profile).content
    )
    assert "canary .ssh" not in shown
    assert "canary notes/n" in shown
    assert (place.home / "new").exists() == (basis is not Basis.READ)
    assert (place.home / ".bashrc").exists() == (basis is Basis.RULE)


def test_temporary_directories_are_private_and_discarded(place: Place) -> None:
    for basis in (Basis.READ, Basis.WRITE):
        name = f"turnlog-{os.getpid()}-{basis}"
        assert place.run(f"echo x > /tmp/{name}; cat $TMPDIR/{name}; ls /run", basis) == "x"
        assert not Path("/tmp", name).exists()


def test_the_rule_sandbox_writes_caches_and_nothing_else_outside(place: Place) -> None:
    for name in (".npm", ".cache"):
        (place.home / name).mkdir()
    place.run(
        "echo x > ../.npm/x; echo x > ../.cache/x; echo x > ../.ssh/x; echo x > ../new", Basis.RULE
    )
    assert sorted(p.name for p in place.home.rglob("x") if p.is_file()) == ["x", "x", "x"]
    assert not (place.home / ".ssh/x").exists()
    assert not (place.home / "new").exists()


@pytest.mark.parametrize(
    ("command", "wants"),
    [
        ("mkdir made", "it writes: "),
        ("mkdir made 2>&1 | tail -1", "it writes: "),
        ("mkdir made; echo done", "it writes: "),
        ("echo 'ENOENT: no such file or directory, mkdir made'; exit 1", "it writes: ENOENT"),
        ("echo 'could not resolve host'; exit 1", "it needs the network"),
        ("echo 'could not resolve host' | cat", ""),
        ("echo 'Read-only file system'", ""),
    ],
)
def test_what_the_read_sandbox_refused_is_asked_about(
    command: str, wants: str, place: Place
) -> None:
    outcome = place.outcome(command, Profile(Basis.READ, (place.root,)))
    assert outcome.wants.startswith(wants)
    assert bool(outcome.wants) is bool(wants)


def test_tools_with_caches_work_in_the_read_sandbox(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:randomly")
    (place.root / "src/test_a.py").write_text("def test_a():\n    assert True\n")
    assert "1 passed in" in place.run("pytest -q src", Basis.READ)
    assert "All checks passed" in place.run("ruff check src/test_a.py", Basis.READ)


def test_settings_widen_and_narrow_the_sandbox(place: Place) -> None:
    for name in ("out", "keep"):
        (place.home / name).mkdir()
    (place.root / "locked").mkdir()
    settings = replace(
        ON,
        writable=(PathPattern(place.home, "/out"), PathPattern(place.home, "/none")),
        unwritable=(PathPattern(place.root, "/locked"),),
        hidden=(PathPattern(place.root, "/src"),),
        variables=("SHOP_TOKEN",),
    )
    place.run("echo x > ../out/x; echo x > locked/x; echo x > here", settings=settings)
    assert (place.home / "out/x").exists()
    assert (place.root / "here").exists()
    assert not (place.root / "locked/x").exists()
    # Confirming a command does not lift what the settings say.
    for basis in (Basis.WRITE, Basis.RULE, Basis.USER):
        assert "canary" not in place.run("cat src/a.py", basis, settings=settings)
    assert "canary" in place.run("cat src/a.py", Basis.USER, settings=settings, is_bare=True)


def test_variables_that_look_like_secrets_are_removed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "sk-ant-api03-" + "a1B2" * 20)
    command = "env; tr '\\0' '\\n' < /proc/1/environ; tr '\\0' '\\n' < /proc/self/environ"
    for basis in (Basis.READ, Basis.WRITE):
        assert "SHOP_API_KEY" not in place.run(command, basis)
    assert "SHOP_API_KEY" in place.run(command, Basis.RULE)
    hiding = replace(ON, variables=("SHOP_API_KEY", "A=B", ""))
    assert "SHOP_API_KEY" not in place.run(command, Basis.RULE, settings=hiding)


def test_the_network_is_reached_only_where_a_rule_or_the_settings_say_so(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"
        reached = {
            basis: "reached" in place.run(command, basis)
            for basis in (Basis.READ, Basis.WRITE, Basis.RULE)
        }
        assert reached == {Basis.READ: False, Basis.WRITE: False, Basis.RULE: True}
        assert "reached" not in place.run(command, Basis.RULE, settings=ON)
        assert "reached" in place.run(command, settings=replace(ON, is_online=True))


def test_sockets_of_services_are_out_of_reach(place: Place) -> None:
    path = place.root / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        program = 'import socket; socket.socket(socket.AF_UNIX).connect("socket")'
        command = f"{PYTHON} -c '{program}' && echo reached"
        for basis in (Basis.READ, Basis.WRITE):
            assert "reached" not in place.run(command, basis)
        assert "reached" in place.run(command, Basis.RULE)
        assert "reached" in place.run(command, settings=replace(ON, allows_sockets=True))


@pytest.mark.parametrize("basis", [Basis.READ, Basis.WRITE, Basis.RULE, Basis.USER])
def test_settings_of_the_kernel_stay_as_they_are(place: Place, basis: Basis) -> None:
    path = "/proc/sys/kernel/core_pattern"
    hidden = (PathPattern(place.root, "src"),)
    shown = place.run(f"cat {path} && cat {path} > {path} && echo written", basis, hidden=hidden)
    assert "written" not in shown


@pytest.mark.parametrize("basis", [Basis.READ, Basis.WRITE, Basis.RULE])
def test_nothing_survives_a_command(place: Place, basis: Basis) -> None:
    survivor = "(setsid sh -c 'trap \"\" TERM HUP; sleep 1; echo x > late' >/dev/null 2>&1 &)"
    assert place.run(f"{survivor}; echo done", basis) == "done"
    time.sleep(1.3)
    assert not (place.root / "late").exists()


def test_a_command_sees_no_other_process_and_no_open_files(place: Place) -> None:
    assert int(place.run("ls -d /proc/[0-9]* | wc -l", Basis.READ)) < 8
    listed = place.run("ls -l /proc/self/fd", Basis.READ)
    assert str(place.root) not in listed
    assert " -> pipe:" in listed


def test_a_fifo_of_the_host_carries_nothing_out(place: Place) -> None:
    """A mount that is read-only does not keep one from being written; it holds no file."""
    os.mkfifo(place.root / "pipe")
    place.run("timeout 1 sh -c 'echo x > pipe'", Basis.READ)
    assert sorted(path.name for path in place.root.iterdir()) == ["pipe", "src"]


CREATED = (
    *("echo x > .envrc", "mkdir .vscode && echo x > .vscode/tasks.json", "ln -s src .claude"),
    *("mkdir -p src/.claude && echo x > src/.claude/settings.json", "echo x > src/.mcp.json"),
    *("echo x > new; mv new .bashrc", "mkdir -m 500 .husky", "mkdir -p .config/fish"),
    "git init -q x && printf '#!/bin/sh\\n' > x/.git/hooks/post-checkout",
    "git init -q x && git -C x config core.fsmonitor evil",
    "git init -q x && printf '[submodule \"a\"][core]fsmonitor=evil #]\\n' >> x/.git/config",
    "git init -q x; cd x/.git; yes '' | head -c 2M > config; echo '[core]fsmonitor=x' >> config",
    "mkdir -p x/.git && mkfifo x/.git/config",
    "touch -r src /tmp/t && echo x > src/.mcp.json && touch -r /tmp/t src",
)


@pytest.mark.parametrize("command", CREATED)
def test_what_would_run_later_is_moved_away_and_named(command: str, place: Place) -> None:
    text = place.run(command)
    moved = [line for line in text.splitlines() if "programs take commands from it" in line]
    assert len(moved) == 1
    source, target = moved[0].split(" was created")[0], moved[0].rpartition(" moved to ")[2]
    assert not os.path.lexists(source)
    assert os.path.lexists(target)
    assert place.root not in Path(target).parents
    assert place.run("true") == ""


@pytest.mark.parametrize("name", ["config", "objects/info/alternates"])
def test_no_special_file_in_a_git_directory_holds_commands_up(name: str, place: Place) -> None:
    place.run(f"git init -q x && rm -f x/.git/{name} && mkfifo x/.git/{name}", Basis.RULE)
    hidden = (PathPattern(place.root, "/.env"),)
    assert place.run("echo ok", hidden=hidden).splitlines()[0] == "ok"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_git_directory_that_cannot_be_read_stops_no_command(place: Place) -> None:
    place.run("mkdir -p src/.git/hooks && chmod 000 src/.git")
    hidden = (PathPattern(place.root, "/.env"),)
    assert place.run("echo ok", hidden=hidden) == "ok"
    assert "programs take commands from it" in place.run("echo x > .envrc")
    (place.root / "src/.git").chmod(0o700)


@pytest.mark.parametrize("way", ["background", "interrupted", "killed"])
def test_what_a_command_leaves_is_moved_away_however_it_ends(way: str, place: Place) -> None:
    async def go() -> None:
        rest = "" if way == "background" else "; sleep 60"
        given = {"command": f"echo x > .envrc; echo made{rest}"}
        value = BASH.read(given | {"run_in_background": way != "interrupted"})
        grant = Grant(Basis.WRITE, profile=Profile(Basis.WRITE, (place.root,)))
        printed = asyncio.Event()
        call = BASH.run(value, place.workspace, lambda text: printed.set(), grant)
        if way == "interrupted":
            task = asyncio.ensure_future(call)
            await printed.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return
        await call
        (job,) = place.workspace.shells.jobs.values()
        while way == "killed" and not (place.root / ".envrc").exists():
            await asyncio.sleep(0.01)
        if way == "killed":
            await place.workspace.shells.close()
        await job.watch
        assert "programs take commands from it" in job.output_file.read_text()

    asyncio.run(go())
    assert not (place.root / ".envrc").exists()
    (moved,) = place.home.rglob("quarantine/*/.envrc")
    assert moved.read_text() == "x\n"


def test_what_another_program_writes_meanwhile_stays(place: Place) -> None:
    """Editors and forges write to `.git/config` on their own, also while a command runs."""
    place.run("git init -q .")

    async def go() -> str:
        value = BASH.read({"command": "echo started; sleep 20", "timeout": 20_000})
        grant = Grant(Basis.WRITE, profile=Profile(Basis.WRITE, (place.root,)))
        printed = asyncio.Event()
        call = BASH.run(value, place.workspace, lambda text: printed.set(), grant)
        task = asyncio.ensure_future(call)
        await printed.wait()
        wanted = ("git", "config", "branch.main.vscode-merge-base", "origin/main")
        await asyncio.to_thread(subprocess.run, wanted, cwd=place.root, check=True)
        return str((await task).content)

    assert ".git/config, which its sandbox covers, was replaced" in asyncio.run(go())
    assert "vscode-merge-base" in (place.root / ".git/config").read_text()


def test_a_plain_repository_and_what_was_there_before_stay(place: Place) -> None:
    (place.root / ".envrc").write_text("own")
    (place.root / "src/.mcp.json").write_text("own")
    assert place.run("git init -q x; git init -q .; mkdir -p x/.github .config/htop") == ""
    assert (place.root / "x/.git/config").exists()
    for name in (".envrc", "src/.mcp.json"):
        assert "Read-only" in place.run(f"echo x > {name}")
        assert (place.root / name).read_text() == "own"
    place.run("echo x > .bashrc", Basis.RULE)
    assert (place.root / ".bashrc").exists()


@pytest.mark.parametrize(
    "command",
    [
        "mv .git old && cp -r evil .git",
        "mv .git old; mkdir .git; rmdir .git",
        "echo 'gitdir: evil' > .git",
        "echo ../../evil > .git/commondir",
        "git config core.hooksPath evil",
        "git config core.fsmonitor evil",
        "echo x > .git/hooks/pre-commit",
        "mv .git/hooks x; cp -r evil .git/hooks",
        "echo x > .git/info/attributes",
        "echo x > .git/worktrees/tree/gitdir",
        "echo evil > .git/worktrees/tree/commondir",
        "echo '[core]' > .git/worktrees/tree/config.worktree",
        "echo x > .githooks/pre-commit",
        "echo x > scripts/check.sh",
        "git -C sub config core.fsmonitor evil",
        "echo x > .git/modules/sub/config",
        "echo x > .git/modules/sub/hooks/x",
    ],
)
def test_git_runs_nothing_that_a_command_in_the_write_sandbox_planted(
    command: str, place: Place
) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    other = place.home / "other"
    for folder, arguments in (
        (other, ("init", "-q", ".")),
        (other, ("commit", "-q", "--allow-empty", "-m", "x")),
        (place.root, ("init", "-q", ".")),
        (place.root, ("submodule", "--quiet", "add", str(other), "sub")),
        (place.root, ("commit", "-qm", "x")),
        (place.root, ("worktree", "add", "-q", "../tree")),
        (place.root, ("config", "core.hooksPath", ".githooks")),
    ):
        folder.mkdir(exist_ok=True)
        subprocess.run([*git, *arguments], cwd=folder, check=True, capture_output=True)
    (place.root / ".githooks").mkdir()
    (place.root / "scripts").mkdir()
    (place.root / "scripts/check.sh").write_text("own")
    (place.root / ".githooks/commit-msg").symlink_to("../scripts/check.sh")
    (place.root / "evil").mkdir()
    before = _running(place.root)
    place.run(command)
    assert _running(place.root) == before
    assert "A  y" in place.run("ls -d .git && echo x > y; git add y; git status --short")


def _running(root: Path) -> dict[str, str]:
    """Return what git takes commands from."""
    found = [*root.glob(".git/hooks/*"), *root.glob(".githooks/*"), *root.rglob(".git/**/config*")]
    found += [
        root / ".git/info/attributes",
        root / "scripts/check.sh",
        root / ".git/commondir",
        root / "sub/.git",
    ]
    found += [*root.glob(".git/worktrees/*/*dir"), *root.glob(".git/modules/**/hooks/*")]
    return {str(path): path.read_text() for path in found if path.is_file()}


def test_a_linked_work_tree_is_led_to_no_other_repository(place: Place) -> None:
    shutil.rmtree(place.root / ".git", ignore_errors=True)
    (place.root / ".git").write_text("gitdir: ../main/.git/worktrees/work\n")
    for command in ("echo 'gitdir: evil' > .git", "rm .git", "mv .git old", "ln -sf evil .git"):
        place.run(command)
        assert (place.root / ".git").read_text() == "gitdir: ../main/.git/worktrees/work\n"
