"""Notes: what the client told its hook, on disk until all that follows from it is sent.

Loads only what Python has loaded anyway: the client waits for the hook.
"""

import os
import time

from turnlog.format.private_files import create_private_folder

# Type checkers take this name as true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUFFIX = ".note"


def spool_folder(environment: "Mapping[str, str]" = os.environ) -> str:
    """Where notes wait for the sender."""
    if home := environment.get("TURNLOG_HOME"):
        return os.path.join(home, "trace", "spool")
    data = environment.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "turnlog", "trace", "spool")


def leave_note(folder: str, arguments: "Sequence[str]", told: bytes) -> None:
    """Write down what the hook was told, and with which arguments; the name tells when."""
    create_private_folder(folder)
    name = f"{time.time_ns():020}-{os.getpid()}"
    beside = os.path.join(folder, f".{name}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write("\0".join(arguments).encode("utf-8", "surrogateescape") + b"\n" + told)
    os.rename(beside, os.path.join(folder, name + SUFFIX))
