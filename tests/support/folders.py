"""Files on disk: written for a test, and compared with what they were."""

from hashlib import sha256
from pathlib import Path


def write(path: Path, content: bytes = b"x") -> Path:
    """Write a file, and make the folders that lead to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def tree(root: Path) -> dict[str, tuple[int, int, str]]:
    """Everything below a folder: modes, and the times and contents of files."""
    found: dict[str, tuple[int, int, str]] = {}
    for path in root.rglob("*"):
        status = path.stat()
        is_file = path.is_file()
        held = sha256(path.read_bytes()).hexdigest() if is_file else ""
        found[str(path)] = (status.st_mode, status.st_mtime_ns if is_file else 0, held)
    return found
