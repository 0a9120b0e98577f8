"""`-o FILE`: collect what a command prints to stdout and write it to a file.

The file is replaced only if the command succeeds, so a failed export keeps the previous one.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click

from turnlog.cli.store_options import stores_in
from turnlog.errors import NotFound, UsageError

STDOUT = "-"


def redirect_output(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Send stdout to a file until the command ends; `-` and None change nothing."""
    if value is None or value == STDOUT or ctx.resilient_parsing:
        return None
    path = Path(value)
    if not path.absolute().parent.is_dir():
        raise NotFound(f"{path.parent} is not a directory", f"mkdir -p {path.parent}")
    require_outside_store(ctx, path)
    ctx.with_resource(_stdout_to(path))
    return value


def outside_store(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Return the directory that an option names; raise UsageError if it is in a store."""
    if path is not None and not ctx.resilient_parsing:
        require_outside_store(ctx, path, param.opts[0])
    return path


def require_outside_store(ctx: click.Context, path: Path, option: str = "-o") -> None:
    """Raise UsageError if a file to write is among the sessions of a store."""
    # A typo such as `show last -o SESSION.jsonl` would destroy a conversation, without an undo.
    for projects in (store.projects for store in stores_in(ctx)):
        if path.resolve().is_relative_to(projects.resolve()):
            raise UsageError(
                f"{path} is in {projects}", f"{ctx.command_path} {option} ./{path.name}"
            )


@contextmanager
def _stdout_to(path: Path) -> Generator[None]:
    collected = BytesIO()
    # As for the real stdout: sessions may contain lone surrogates, which UTF-8 cannot encode.
    stream = TextIOWrapper(collected, "utf-8", "backslashreplace", newline="\n")
    before, sys.stdout = sys.stdout, stream
    try:
        yield
    except click.exceptions.Exit:
        # `check` exits with 1 after printing its report: that is a result, not a failure.
        _save(path, stream, collected)
        raise
    else:
        _save(path, stream, collected)
    finally:
        sys.stdout = before


def _save(path: Path, stream: TextIOWrapper, collected: BytesIO) -> None:
    from turnlog.format.atomic import write_atomic

    stream.flush()
    content = collected.getvalue()
    # Renaming a file over /dev/stdout or a named pipe would replace the device itself.
    if path.exists() and not path.is_file():
        path.write_bytes(content)
    else:
        write_atomic(path.resolve(), content)
