"""Merge the sandbox settings: which files and hosts commands may use.

Names, scopes and path syntax follow the client's documentation. A setting that turnlog
cannot apply exactly is applied more strictly, and reported.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.store.paths import expand_user

ANYWHERE = "*"
WILDCARDS = "*?["
MOST_UNTRUSTED = 200
"""Maximum paths or variables in one list of an untrusted project's file."""
NO_HOSTS = (
    "sandbox.network names hosts or a proxy, but turnlog cannot filter hosts: commands in the "
    'sandbox have no network access (to allow it, set allowedDomains to ["*"] and deny nothing)'
)


class SandboxFiles(Struct, rename="camel"):
    """File access of commands in the sandbox."""

    allow_write: list[str] | None = None
    deny_write: list[str] | None = None
    allow_read: list[str] | None = None
    deny_read: list[str] | None = None
    allow_managed_read_paths_only: bool | None = None


class SandboxNetwork(Struct, rename="camel"):
    """Network access of commands in the sandbox."""

    allowed_domains: list[str] | None = None
    denied_domains: list[str] | None = None
    allow_managed_domains_only: bool | None = None
    http_proxy_port: int | None = None
    socks_proxy_port: int | None = None


class Guarded(Struct):
    """A file or variable hidden from commands."""

    path: str = ""
    name: str = ""


class SandboxCredentials(Struct, rename="camel"):
    """Files and variables hidden from commands because they hold secrets."""

    files: list[Guarded] | None = None
    env_vars: list[Guarded] | None = None


class Sandbox(Struct, rename="camel"):
    """The `sandbox` section of a settings file."""

    enabled: bool | None = None
    fail_if_unavailable: bool | None = None
    bwrap_path: str | None = None
    filesystem: SandboxFiles | None = None
    network: SandboxNetwork | None = None
    credentials: SandboxCredentials | None = None


class SandboxEntry(Struct, frozen=True):
    """The sandbox settings of one file."""

    sandbox: Sandbox
    base: Path
    """The directory that relative paths refer to."""
    is_managed: bool = False

    @property
    def files(self) -> SandboxFiles:
        return self.sandbox.filesystem or SandboxFiles()

    @property
    def network(self) -> SandboxNetwork:
        return self.sandbox.network or SandboxNetwork()

    @property
    def credentials(self) -> SandboxCredentials:
        return self.sandbox.credentials or SandboxCredentials()


class Confinement(Struct, frozen=True):
    """The merged restrictions of shell commands; paths are absolute and may be patterns."""

    is_on: bool = False
    is_required: bool = False
    """True if a session must not start without a sandbox."""
    program: str = "bwrap"
    writable: tuple[str, ...] = ()
    """Writable paths besides the working directories."""
    unwritable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Readable paths below hidden ones."""
    variables: tuple[str, ...] = ()
    """Environment variables to remove."""
    is_online: bool = False
    filters_hosts: bool = False

    @property
    def guards(self) -> bool:
        """True if it restricts more than writing outside of the working directories."""
        return bool(self.unwritable or self.hidden or self.variables or self.filters_hosts)


def confine(entries: Iterable[SandboxEntry]) -> Confinement:
    """Merge the sandbox settings of all files, the lowest precedence first."""
    all_of = list(entries)
    managed = [each for each in all_of if each.is_managed]
    # Only managed settings may exclude the lists of other files: a project must not switch off the
    # user's paths.
    only_managed = any(each.files.allow_managed_read_paths_only for each in managed)
    secret = _paths(all_of, lambda each: [file.path for file in each.credentials.files or []])
    variables = (name.name for each in all_of for name in each.credentials.env_vars or [])
    is_open, filters = _hosts(all_of, managed)
    return Confinement(
        is_on=bool(_last(each.sandbox.enabled for each in all_of)),
        is_required=bool(_last(each.sandbox.fail_if_unavailable for each in all_of)),
        # The sandbox itself is a program to run, so only an administrator may name another one.
        program=_last(_program(each) for each in managed) or "bwrap",
        writable=_paths(all_of, lambda each: each.files.allow_write),
        unwritable=_paths(all_of, lambda each: each.files.deny_write),
        hidden=_paths(all_of, lambda each: each.files.deny_read) + secret,
        shown=_paths(managed if only_managed else all_of, lambda each: each.files.allow_read),
        variables=tuple(variables),
        is_online=is_open and not filters,
        filters_hosts=filters,
    )


def restricting(sandbox: Sandbox) -> Sandbox:
    """Return the settings that an untrusted project may set: denials, and turning the sandbox on.

    Patterns are expanded on disk for each command. `/*/../*/../x` would never end, so patterns
    are accepted only below the project.
    """
    files, network = sandbox.filesystem or SandboxFiles(), sandbox.network or SandboxNetwork()
    secret = sandbox.credentials
    if secret:
        named = [each for each in secret.files or [] if _is_cheap(each.path)]
        variables = secret.env_vars and secret.env_vars[:MOST_UNTRUSTED]
        secret = SandboxCredentials(secret.files and named[:MOST_UNTRUSTED], variables)
    return Sandbox(
        # `false` would switch off a sandbox that the user wants.
        enabled=sandbox.enabled or None,
        fail_if_unavailable=sandbox.fail_if_unavailable or None,
        filesystem=SandboxFiles(
            deny_write=_cheap(files.deny_write), deny_read=_cheap(files.deny_read)
        ),
        network=SandboxNetwork(denied_domains=network.denied_domains),
        credentials=secret,
    )


def _cheap(written: list[str] | None) -> list[str] | None:
    return written and [each for each in written if _is_cheap(each)][:MOST_UNTRUSTED]


def _is_cheap(written: str) -> bool:
    """Return whether a path is plain, or a pattern below its base directory."""
    if not is_pattern(written.removesuffix("/**")):
        return True
    return not written.startswith(("/", "~")) and ".." not in Path(written).parts


def is_pattern(path: str) -> bool:
    """Return whether a path contains wildcards."""
    return any(mark in path for mark in WILDCARDS)


def _hosts(entries: list[SandboxEntry], managed: list[SandboxEntry]) -> tuple[bool, bool]:
    """Return whether all hosts are allowed, and whether hosts would have to be filtered."""
    only_managed = any(each.network.allow_managed_domains_only for each in managed)
    counted = managed if only_managed else entries
    allowed = {host for each in counted for host in each.network.allowed_domains or []}
    # Denials count from every file, even where only managed hosts are allowed.
    denied = any(each.network.denied_domains for each in entries)
    proxied = any(each.network.http_proxy_port or each.network.socks_proxy_port for each in entries)
    is_open = ANYWHERE in allowed
    return is_open, denied or proxied or bool(allowed and not is_open)


def _paths(
    entries: list[SandboxEntry], written: Callable[[SandboxEntry], list[str] | None]
) -> tuple[str, ...]:
    return tuple(
        _absolute(path, each.base)
        for each in entries
        for path in written(each) or []
        if path and "\0" not in path  # no file has such a name
    )


def _absolute(written: str, base: Path) -> str:
    """Return a normalized path as documented: without a final `/**`, with `//` as `/`.

    >>> _absolute("//data/**", Path("/shop")), _absolute("./out/", Path("/shop"))
    ('/data', '/shop/out')
    """
    plain = written.removesuffix("/**") or "/"
    plain = plain[1:] if plain.startswith("//") else plain
    return str(base / expand_user(plain))


def _program(entry: SandboxEntry) -> str | None:
    named = entry.sandbox.bwrap_path
    return named if named and Path(named).is_absolute() else None


def _last(values: Iterable[Any]) -> Any:
    given = [value for value in values if value is not None]
    return given[-1] if given else None
