"""The sandbox of macOS: a profile for `sandbox-exec`.

Written after the public profiles of Codex and of Anthropic's sandbox-runtime, and never run on a
Mac. Later rules win, so denials come last. Paths are judged at every open: files that are replaced
or created later stay denied. There is no private `/tmp`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.workspace.sandbox.masks import Masks
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.store.paths import real_path

PROGRAM = "/usr/bin/sandbox-exec"
BASE = """
(version 1)
(deny default)
(allow process-exec process-fork process-info* signal sysctl-read mach-lookup ipc-posix*)
(allow file-read* file-ioctl)
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
""".strip()
TEMPORARY = ("/private/tmp", "/private/var/folders")


def command_line(profile: Profile, masks: Masks) -> tuple[str, ...]:
    """Return the prefix that runs a command in a profile; paths are passed as parameters."""
    lines, parameters = list[str](), list[str]()

    def named(path: Path | str) -> str:
        name = f"P{len(parameters)}"
        parameters.append(f"{name}={path}")
        return f'(param "{name}")'

    lines.append(BASE)
    if profile.is_online:
        lines.append("(allow network*)")
    if profile.is_open:
        lines.append("(allow file-write*)")
    else:
        lines += (f"(allow file-write* (subpath {named(p)}))" for p in _writable(profile))
    for path in masks.locked:
        lines.append(f"(deny file-write* (subpath {named(path)}))")
        lines += _keep_in_place(map(named, (path, *path.parents)))
    for path in masks.hidden:
        lines.append(f"(deny file-read* file-write* (subpath {named(path)}))")
        lines += _keep_in_place(map(named, (path, *path.parents)))
    if profile.hides_home:
        lines += _sealed_home(profile, named(real_path(Path.home())), map(named, profile.roots))
    given = (part for each in parameters for part in ("-D", each))
    return (PROGRAM, "-p", "\n".join(lines), *given, "--")


def _writable(profile: Profile) -> list[Path]:
    places = [*profile.roots, *(each.start for each in profile.settings.writable)]
    written = [real_path(each) for each in places] if profile.writes else []
    return [*written, *map(Path, TEMPORARY)]


def _keep_in_place(names: Iterable[str]) -> Iterator[str]:
    """Yield rules against moving a directory above a denied path away."""
    for name in names:
        yield f"(deny file-write-unlink (literal {name}))"


def _sealed_home(profile: Profile, home: str, roots: Iterable[str]) -> Iterator[str]:
    yield f"(deny file-read-data (require-all (subpath {home}) (require-not (require-any"
    yield from (f"  (subpath {root})" for root in roots)
    yield f"  (literal {home})))))"
