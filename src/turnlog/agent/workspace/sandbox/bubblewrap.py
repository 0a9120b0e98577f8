"""Turn a profile into a bubblewrap sandbox, and find out whether one works here.

Mounts are ordered by depth, parents first; of mounts at the same path the strictest comes last.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.programs import find_program
from turnlog.agent.workspace.project_directories import project_root
from turnlog.agent.workspace.sandbox.masks import Masks, find_masks
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.seccomp import MACHINES, filtered
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.errors import UsageError
from turnlog.store.paths import real_path

MISSING = "the settings require a sandbox, but {why}"
HINT = "apt install bubblewrap"
MAX_SECONDS = 5.0
SYSTEM = frozenset(
    """
    bin boot dev etc gnu lib lib32 lib64 libx32 nix opt proc run sbin snap sys tmp usr var
    """.split()
)
"""Top-level directories without files of people."""
SECRET_PLACES = tuple(
    map(
        Path,
        """
        /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d
        /etc/krb5.keytab /etc/ssl/private /etc/NetworkManager/system-connections /var/spool/cron
        /var/lib/docker /var/lib/mysql /var/lib/postgresql /var/mail /var/spool/mail /var/backups
        """.split(),
    )
)
"""Files of the system that root could read."""
TOOLCHAINS = tuple(
    """
    .asdf .bun .cache/Cypress .cache/go-build .cache/ms-playwright .cache/pip .cache/pnpm
    .cache/pre-commit .cache/pypoetry .cache/uv .cache/yarn .cargo/bin .cargo/env .cargo/git
    .cargo/registry .config/git .deno .gem/ruby .gitconfig .gradle/caches .gradle/wrapper .julia
    .local/lib .local/share/mise .local/share/pnpm .local/share/uv .local/share/virtualenvs
    .m2/repository .npm/_cacache .nvm .opam .pyenv .rbenv .rustup .sdkman .stack .volta go/pkg
    """.split()
)
"""Languages and caches in the home that commands need; no credentials are kept there."""
WRITTEN_BY_RULE = tuple(
    """
    .bun/install/cache .cache .cargo/git .cargo/registry .gradle/caches .local/share/pnpm
    .m2/repository .npm go/pkg
    """.split()
)
"""Caches that package managers write when a rule allows them."""
RESOLVING = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
"""Where `/etc/resolv.conf` may lead."""
# Root keeps the capabilities to read or write files of other users. Without CAP_SYS_ADMIN it
# cannot change mounts.
ROOT_READS = ("CAP_DAC_READ_SEARCH",)
ROOT_WRITES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")


class NoSandbox(Exception):
    """No sandbox can enforce the profile here."""


class Enclosure(Struct, frozen=True):
    """A command line that runs another one in a sandbox."""

    argv: tuple[str, ...] = ()
    """Empty if nothing is to be enforced."""
    has_sockets: bool = True
    covered: tuple[Path, ...] = ()
    """Mounted paths: if one of these mounts is lost, the command must end."""


class _Mount(Struct, frozen=True, order=True):
    depth: int
    rank: int
    options: tuple[str, ...]

    def is_below(self, path: Path) -> bool:
        return Path(self.options[-1]).is_relative_to(path)


def enclose(profile: Profile) -> Enclosure:
    """Return the sandbox of a profile; raise `NoSandbox` if none works here.

    Where the user has confirmed a command that can be enclosed only in part, it is not enclosed.
    """
    if not profile.is_needed:
        return Enclosure()
    if why := why_unavailable(profile.settings.program):
        if profile.is_unasked or (profile.settings.is_on and profile.settings.is_required):
            raise NoSandbox(why)
        return Enclosure()
    if sys.platform == "darwin":
        from turnlog.agent.workspace.sandbox.seatbelt import command_line

        return Enclosure(command_line(profile, find_masks(profile)))
    masks = find_masks(profile)
    if not profile.is_open:
        # Nothing else can be written; mounting it would show what is hidden, such as `~/.claude`.
        places = _writable(profile)
        locked = (p for p in masks.locked if any(p.is_relative_to(place) for place in places))
        masks = replace(masks, locked=tuple(locked))
    if profile.is_open and not masks.hidden and not masks.locked:
        return Enclosure()
    program = find_program(profile.settings.program, profile.roots)
    options = [program or "bwrap", *_options(profile, masks)]
    covered = (*masks.hidden, *masks.locked)
    return Enclosure((*options, "--"), profile.has_sockets, covered)


@lru_cache(maxsize=8)
def why_unavailable(name: str = "bwrap") -> str:
    """Return why no sandbox works here; empty if one does.

    It is tried with the options of a profile: containers often forbid some of the namespaces. If
    one is forbidden, there is no sandbox; a retry with fewer options could be online.
    """
    if sys.platform == "darwin":
        return "" if os.access("/usr/bin/sandbox-exec", os.X_OK) else "sandbox-exec is missing"
    if os.uname().machine not in MACHINES:
        return f"the sandbox does not support {os.uname().machine} processors"
    program = find_program(name, (project_root(Path.cwd()),))
    if program is None:
        return f"{name} is not installed (try: {HINT})"
    profile = Profile(Basis.WRITE, (Path("/usr"),))
    options = [program, *_options(profile, Masks())]
    try:
        with filtered(options) as (argv, passed):
            done = subprocess.run(
                [*argv, "--", "/bin/sh", "-c", ":"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=MAX_SECONDS,
                pass_fds=passed,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} cannot start a sandbox here: {error}"
    if done.returncode == 0:
        return ""
    said = os.fsdecode(done.stderr).strip().split("\n")[0].removeprefix("bwrap: ")
    return f"{program} cannot start a sandbox here: {said}"


def sandbox_notes(rules: Confinement) -> list[str]:
    """Return messages about the sandbox at the start of a chat; raise if it is required."""
    why = why_unavailable(rules.program)
    if not rules.is_on:
        return [f"commands ask before they run, because {why}"] if why else []
    if why and rules.is_required:
        raise UsageError(MISSING.format(why=why), HINT)
    return [*([f"commands run without a sandbox: {why}"] if why else []), *rules.notes]


def is_hidden(profile: Profile, path: Path) -> bool:
    """Return whether a path exists that a command with a profile cannot see."""
    real = real_path(path)
    if not os.path.lexists(real) or not profile.hides_home:
        return False
    if any(real.is_relative_to(each) for each in _visible(profile)):
        return False
    in_system = len(real.parts) < 2 or real.parts[1] in SYSTEM - {"tmp", "run"}
    in_home = any(real.is_relative_to(each) and real != each for each in _homes())
    is_parent = any(each.is_relative_to(real) for each in _visible(profile))
    return not is_parent and (in_home or not in_system or real in SECRET_PLACES)


def _options(profile: Profile, masks: Masks) -> list[str]:
    shown = (m for m in _mounts(profile) if not any(m.is_below(each) for each in masks.hidden))
    mounts = [*shown, *_covers(profile, masks)]
    sealed = [path for path in _sealed(profile) if not any(_is_root(path, profile))]
    return [
        *"--die-with-parent --new-session --unshare-pid --unshare-ipc --unshare-uts".split(),
        *([] if profile.is_online else ["--unshare-net"]),
        *_capabilities(profile),
        *(("--dev-bind" if profile.is_open else "--ro-bind"), "/", "/"),
        *([] if profile.is_open else ["--dev", "/dev"]),
        # Otherwise root could write /proc/sys: `core_pattern` names a program of the host.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *(option for mount in sorted(mounts) for option in mount.options),
        *(part for path in sealed for part in ("--remount-ro", str(path))),
        *(part for p in masks.hidden if p.is_dir() for part in ("--remount-ro", str(p))),
    ]


def _is_root(path: Path, profile: Profile) -> Iterator[bool]:
    return (path == real_path(root) for root in profile.roots)


def _capabilities(profile: Profile) -> Iterator[str]:
    yield from ("--cap-drop", "ALL")
    kept = ROOT_WRITES if profile.writes else ROOT_READS
    for name in kept if os.geteuid() == 0 else ():
        yield from ("--cap-add", name)


def _mounts(profile: Profile) -> Iterator[_Mount]:
    """Yield what hides the files of people, and what commands may use of them."""
    if profile.is_open:
        return
    if profile.is_unasked:
        yield _mount(Path("/tmp"), 0, "--tmpfs")
        yield _mount(Path("/run"), 0, "--tmpfs")
        if profile.is_online:
            for place in filter(Path.is_dir, map(Path, RESOLVING)):
                yield _mount(place, 1, "--ro-bind", place)
    sealed = _sealed(profile)
    for place in sealed:
        yield _mount(place, 0, "--tmpfs")
    for place in _uncovered(_visible(profile), sealed):
        yield _mount(place, 1, "--ro-bind-try", place)
    for place in _writable(profile):
        yield _mount(place, 2, "--bind-try", place)
    for place in (path for path in SECRET_PLACES if os.access(path, os.R_OK)):
        if profile.is_unasked:
            yield _cover(place)


def _sealed(profile: Profile) -> list[Path]:
    """Return the directories that hold files of people: homes, and unusual ones at the top."""
    if not profile.hides_home:
        return []
    top = (Path("/", name) for name in os.listdir("/") if name not in SYSTEM)
    found = [*top, *_homes()]
    real = [real_path(each) for each in found if each.is_dir() and not each.is_symlink()]
    return [each for each in dict.fromkeys(real) if not any(p in real for p in each.parents)]


def _uncovered(visible: list[Path], sealed: list[Path]) -> Iterator[Path]:
    """Yield what must be mounted to be seen: each mount costs time."""
    covers = {*sealed, Path("/tmp"), Path("/run"), *SECRET_PLACES}
    for place in visible:
        above = next((up for up in (place, *place.parents) if up in covers), None)
        between = (up for up in place.parents if up in visible)
        if above and not any(up.is_relative_to(above) for up in between):
            yield place


def _homes() -> list[Path]:
    return [
        path for path in (real_path(Path.home()), Path("/root"), Path("/home")) if path.is_dir()
    ]


def _visible(profile: Profile) -> list[Path]:
    """Return what commands can read of the sealed directories."""
    if not profile.hides_home:
        return []
    home = Path.home()
    found = [home / name for name in TOOLCHAINS]
    for entry in map(Path, os.environ.get("PATH", "").split(os.pathsep)):
        above = entry.parent
        # With `~/miniconda3/bin` in PATH, its programs need all of `~/miniconda3`.
        is_own = above in (home, home / ".local", *home.parents)
        is_prefix = entry.name in ("bin", "sbin", "shims") and not is_own
        found += [above if is_prefix else entry, entry.resolve()] if entry.is_absolute() else []
    found += [Path(sys.prefix), Path(sys.base_prefix)]
    found += [each.start for each in (*profile.shown, *profile.settings.shown)]
    critical = {Path("/"), home, *home.parents}
    # Unlike `Path.exists`, this does not raise for entries of PATH in the home of another user.
    there = (each for each in found if os.path.exists(each))  # noqa: PTH110
    real = (real_path(each) for each in there if each not in critical)
    narrow = (each for each in real if each not in critical)
    return list(dict.fromkeys((*narrow, *map(real_path, profile.roots))))


def _writable(profile: Profile) -> list[Path]:
    if not profile.writes:
        return []
    found = [*profile.roots, *(each.start for each in profile.settings.writable)]
    if profile.basis is Basis.RULE and not profile.settings.is_on:
        found += [Path.home() / name for name in WRITTEN_BY_RULE]
        found += [Path("/tmp"), Path("/var/tmp")]
    return [real_path(each) for each in found if os.path.exists(each)]  # noqa: PTH110


def _covers(profile: Profile, masks: Masks) -> Iterator[_Mount]:
    for path in masks.hidden:
        yield _cover(path)
    roots = [real_path(root) for root in profile.roots]
    for path in masks.locked:
        yield _mount(path, 3, "--ro-bind", path)
    # A mount point cannot be moved away: nothing else can take the place of a parent, and no hidden
    # file can get another name.
    covered = (*masks.hidden, *masks.locked) if profile.writes else ()
    above = dict.fromkeys(parent for path in covered for parent in path.parents)
    for parent in above:
        # Below a read-only directory, a mount of its own would make the parent writable.
        is_locked = any(parent.is_relative_to(each) for each in masks.locked)
        if not is_locked and any(root in parent.parents for root in roots):
            yield _mount(parent, 2, "--bind-try", parent)


def _cover(path: Path) -> _Mount:
    """Return the mount that hides a path; the directory stays read-only and empty."""
    if path.is_dir():
        return _mount(path, 4, "--tmpfs")
    return _mount(path, 4, "--ro-bind", "/dev/null")


def _mount(path: Path, rank: int, option: str, source: Path | str = "") -> _Mount:
    given = (str(source), str(path)) if source else (str(path),)
    return _Mount(len(path.parts), rank, (option, *given))
