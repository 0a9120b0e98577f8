"""The `sandbox` settings: which files, hosts and sockets shell commands may use.

Names, scopes and path syntax follow the client (2.1.328, documented). A setting that turnlog cannot
apply exactly is applied more strictly, and named when a chat starts.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.workspace.sandbox.patterns import PathPattern, escaped
from turnlog.store.paths import expand_user

ANYWHERE = "*"
MAX_UNTRUSTED = 200
"""Maximum paths or variables in one list of an untrusted project's file."""
NO_HOSTS = (
    "sandbox.network names hosts or a proxy, but turnlog cannot filter hosts: commands in the "
    'sandbox have no network access (to allow it, set allowedDomains to ["*"] and deny nothing)'
)
NO_SOCKETS = (
    "sandbox.network.allowUnixSockets names sockets, but turnlog cannot tell them apart: commands "
    "in the sandbox reach none (to allow all, set allowAllUnixSockets)"
)
WEAKER = "sandbox.{} is not supported: the sandbox is never made weaker"


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
    allow_unix_sockets: list[str] | None = None
    allow_all_unix_sockets: bool | None = None


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
    auto_allow_bash_if_sandboxed: bool | None = None
    auto_run_reads: bool | None = None
    """turnlog's own: False to ask about commands as the client does, instead of running them
    read-only."""
    excluded_commands: list[str] | None = None
    allow_unsandboxed_commands: bool | None = None
    enable_weaker_nested_sandbox: bool | None = None
    enable_weaker_network_isolation: bool | None = None
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


Patterns = tuple[PathPattern, ...]


class Confinement(Struct, frozen=True):
    """The merged sandbox settings."""

    is_on: bool = False
    is_required: bool = False
    """True if a session must not start without a sandbox."""
    auto_allow: bool = True
    """True if commands in the sandbox run unasked."""
    auto_run_reads: bool = True
    allows_bare: bool = True
    """True if a command may ask to run without the sandbox."""
    excluded: tuple[str, ...] = ()
    """Patterns of commands that run without the sandbox."""
    program: str = "bwrap"
    writable: Patterns = ()
    """Writable paths besides the working directories."""
    unwritable: Patterns = ()
    hidden: Patterns = ()
    shown: Patterns = ()
    """Readable paths below hidden ones."""
    variables: tuple[str, ...] = ()
    """Environment variables to remove."""
    is_online: bool = False
    allows_sockets: bool = False
    notes: tuple[str, ...] = ()
    """What is not supported."""


def confine(entries: Iterable[SandboxEntry]) -> Confinement:
    """Merge the sandbox settings of all files, the lowest precedence first."""
    all_of = list(entries)
    managed = [each for each in all_of if each.is_managed]
    # Only managed settings may exclude the lists of other files: a project must not switch off the
    # user's paths.
    only_managed = any(each.files.allow_managed_read_paths_only for each in managed)
    secret = _paths(all_of, lambda each: [file.path for file in each.credentials.files or []])
    variables = [name.name for each in all_of for name in each.credentials.env_vars or []]
    is_open, filters = _hosts(all_of, managed)

    def last(name: str, default: bool = False) -> bool:
        given = [value for e in all_of if (value := getattr(e.sandbox, name)) is not None]
        return bool(given[-1]) if given else default

    sockets = [each.network.allow_all_unix_sockets for each in all_of]
    weaker = ("enable_weaker_nested_sandbox", "enable_weaker_network_isolation")
    return Confinement(
        is_on=last("enabled"),
        is_required=last("fail_if_unavailable"),
        auto_allow=last("auto_allow_bash_if_sandboxed", default=True),
        auto_run_reads=last("auto_run_reads", default=True),
        allows_bare=last("allow_unsandboxed_commands", default=True),
        excluded=tuple(e for each in all_of for e in each.sandbox.excluded_commands or []),
        # The sandbox itself is a program to run, so only an administrator may name another one.
        program=next(filter(None, map(_program, reversed(managed))), "bwrap"),
        writable=_paths(all_of, lambda each: each.files.allow_write),
        unwritable=_paths(all_of, lambda each: each.files.deny_write),
        hidden=_paths(all_of, lambda each: each.files.deny_read) + secret,
        shown=_paths(managed if only_managed else all_of, lambda each: each.files.allow_read),
        variables=tuple(filter(None, variables)),
        is_online=is_open and not filters,
        allows_sockets=any(sockets),
        notes=(
            *((NO_HOSTS,) if filters else ()),
            *((NO_SOCKETS,) if any(each.network.allow_unix_sockets for each in all_of) else ()),
            *(WEAKER.format(_camel(name)) for name in weaker if last(name)),
        ),
    )


def restricting(sandbox: Sandbox) -> Sandbox:
    """Return the settings that an untrusted project may set: denials, and turning it on."""
    files, network = sandbox.filesystem or SandboxFiles(), sandbox.network or SandboxNetwork()
    secret = sandbox.credentials
    return Sandbox(
        # `false` would switch off a sandbox that the user wants, and `true` lift all questions.
        enabled=sandbox.enabled or None,
        auto_allow_bash_if_sandboxed=False if sandbox.enabled else None,
        fail_if_unavailable=sandbox.fail_if_unavailable or None,
        filesystem=SandboxFiles(
            deny_write=_first(files.deny_write), deny_read=_first(files.deny_read)
        ),
        network=SandboxNetwork(denied_domains=network.denied_domains),
        credentials=secret and SandboxCredentials(_first(secret.files), _first(secret.env_vars)),
    )


def _first(given: list[Any] | None) -> list[Any] | None:
    return given and given[:MAX_UNTRUSTED]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


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
) -> Patterns:
    given = ((path, each.base) for each in entries for path in written(each) or [])
    return tuple(_pattern(path, base) for path, base in given if path and "\0" not in path)


def _pattern(written: str, base: Path) -> PathPattern:
    """Return a pattern as documented: relative to `base`, with `//` as `/`.

    >>> _pattern("//data/**", Path("/shop")).pattern, _pattern("./out/", Path("/shop")).pattern
    ('/data/**', '/out')
    """
    plain = written[1:] if written.startswith("//") else str(expand_user(written))
    if plain.startswith("/"):
        return PathPattern(Path("/"), plain.rstrip("/") or "/")
    if ".." in Path(plain).parts:
        return PathPattern(Path("/"), os.path.normpath(f"{escaped(base)}/{plain}"))
    # Unlike in rules, a name without a slash is that in the base itself.
    return PathPattern(base, f"/{plain.rstrip('/') if plain != '.' else ''}".replace("/./", "/"))


def _program(entry: SandboxEntry) -> str | None:
    named = entry.sandbox.bwrap_path
    return named if named and Path(named).is_absolute() else None
