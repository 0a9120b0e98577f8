"""Small files that are read whole, or appear whole when they are written."""

import errno
import json
import os
from pathlib import Path

from turnlog.errors import Unavailable
from turnlog.format.json_values import Fields, is_object
from turnlog.format.portable import CREATE
from turnlog.format.private_files import create_private_folder
from turnlog.format.regular_files import read_regular

UNFINISHED = ".new"
"""How a file ends that is still being written."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_whole(path: Path, content: bytes) -> None:
    """Write a private file, which appears when all of it is on the disk."""
    create_private_folder(path.parent)
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}{UNFINISHED}")
    try:
        descriptor = os.open(beside, CREATE, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            raise Unavailable(f"no room for {path}", "free some disk space") from error
        raise


def read_object(path: Path) -> Fields:
    """The JSON object that a file holds; an empty one where it holds none."""
    try:
        held = json.loads(read_regular(path))
    except (OSError, ValueError):
        return {}
    return held if is_object(held) else {}
