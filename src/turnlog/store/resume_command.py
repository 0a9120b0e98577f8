"""The command that resumes a session, and the installed client that would run it.

The client looks a session up by the directory that it is started in, so the command begins with
`cd`. Every command that prints it, and `turnlog resume`, which runs it, call `resume_command`;
those that print it for any file call `file_command`.
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from turnlog.format.decode import decode_line
from turnlog.format.entries import Assistant, User
from turnlog.format.fields import given
from turnlog.format.json_values import parse_json
from turnlog.format.jsonl import read_lines
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import Store
from turnlog.text import drop_unsafe, typeable

CLIENT = "claude"
VARIABLE = "CLAUDE_CONFIG_DIR"
VERSION = re.compile(r"\d+\.\d+\.\d+")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
MESSAGE_MARKS = (b'"user"', b'"assistant"')
"""Every line with a message contains one of these."""
LARGEST = 1 << 20
"""Maximum bytes of a package.json; the client's has a few kilobytes."""


def resume_command(session_id: str, directory: str | None, store: Store | None = None) -> str:
    """Return the shell command that resumes a session in its directory.

    Pass the session's `store` if it may differ from the one that the client uses.

    >>> resume_command("5e55", "/home/ada/my shop")
    "cd '/home/ada/my shop' && claude --resume 5e55"
    """
    command = shlex.join([CLIENT, *resume_arguments(session_id)])
    return in_directory(directory, with_store(command, store) if store else command)


def file_command(path: Path, directory: str | None, store: Store | None = None) -> str | None:
    """Return the shell command that resumes a session file; None if no client resumes it."""
    return resume_command(path.stem, directory, store) if is_resumable(path) else None


def is_resumable(path: Path) -> bool:
    """Return whether a client finds a conversation in a file that it looks up by its id.

    Stops at the first message, so it cannot know whether all of the session would be resumed.
    """
    if not UUID.fullmatch(path.stem):
        return False
    try:
        return any(
            isinstance(entry, User | Assistant) and not given(entry.is_sidechain)
            for line in read_lines(path)
            if any(mark in line.raw for mark in MESSAGE_MARKS)
            for entry in decode_line(line).entries
        )
    except OSError:
        return False


def with_store(command: str, store: Store) -> str:
    """Return a command that runs the client or `turnlog chat` on a store."""
    if is_clients_store(store):
        return command
    return f"{VARIABLE}={shlex.quote(str(store.root))} {command}"


def pasteable_command(session_id: str, directory: str | None, store: Store) -> str | None:
    """Return a command that resumes a session and is safe to paste; None if there is none.

    In a shell without bracketed paste, a Ctrl-C in the name of a directory cancels the command,
    even inside quotes, and the text after it runs as another command. Not every shell reads `$'…'`.
    """
    named = f"turnlog --store {shlex.quote(str(store.root))} resume {shlex.quote(session_id)}"
    if is_clients_store(store):
        named = f"turnlog resume {shlex.quote(session_id)}"
    resuming = resume_command(session_id, directory, store)
    for words, command in ((f"{session_id}{directory}{store.root}", resuming), (named, named)):
        if drop_unsafe(words, keep=" ") == words:
            return command
    return None


def is_clients_store(store: Store, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a client that is started now uses a store.

    The client takes the variable for one directory; turnlog accepts several, such as `a,b`.
    """
    used = environment.get(VARIABLE) or Path.home() / ".claude"
    return os.path.realpath(used) == os.path.realpath(store.root)


def in_directory(directory: str | None, command: str) -> str:
    """Return a shell command that runs another one in a directory."""
    if not directory:
        return typeable(command)
    # `cd -x` would be an option and `cd -` the previous directory, so a relative path gets a `./`.
    place = directory if directory.startswith(("/", "\\")) or directory[1:2] == ":" else None
    return typeable(f"cd {shlex.quote(place or f'./{directory}')} && {command}")


def resume_arguments(session_id: str) -> list[str]:
    """Return the client's arguments that resume a session.

    >>> resume_arguments("5e55"), resume_arguments("--version")
    (['--resume', '5e55'], ['--resume=--version'])
    """
    # Anyone can name a file `--dangerously-skip-permissions.jsonl`: its name must not become an
    # option of the client.
    if session_id.startswith("-"):
        return [f"--resume={session_id}"]
    return ["--resume", session_id]


def find_client(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the absolute path of the installed client; None if there is none."""
    # Absolute, because the session's directory becomes the current one: with `.` in PATH, a program
    # of that name in a stranger's repository would run instead.
    found = shutil.which(CLIENT, path=environment.get("PATH"))
    return str(Path(found).absolute()) if found else None


def client_version(program: str) -> str | None:
    """Return the version of an installed client without starting it; None if it is unknown.

    Native clients are files named by their version; npm installs them with a package.json.
    """
    path = Path(os.path.realpath(program))
    if VERSION.fullmatch(path.name):
        return path.name
    for folder in path.parents[:2]:
        try:
            package = parse_json(read_regular(folder / "package.json", LARGEST))
            version = package["version"] if "claude-code" in package["name"] else None
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(version, str) and VERSION.fullmatch(version):
            return version
    return None


def client_command(program: Sequence[str], session_id: str, further: Sequence[str]) -> list[str]:
    """Return the argument list of the command that resumes a session, with further arguments."""
    return [*program, *resume_arguments(session_id), *further]
