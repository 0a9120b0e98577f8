"""`-o FILE`: collect what a command prints to stdout and write it to a file.

The file is replaced only if the command succeeds, so a failed export keeps the previous one. The
journal keeps a file that is replaced.
"""

import os
import re
import shlex
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click

from turnlog.cli.store_options import stores_in
from turnlog.errors import NotFound, UsageError
from turnlog.store.paths import real_path

STDOUT = "-"
DESCRIPTOR = re.compile(r"/dev/(stdout|stderr|fd/\d+)|/proc/(self|\d+)/fd/\d+")
"""Paths of files that are already open."""


def redirect_output(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Send stdout to a file until the command ends; `-` and None change nothing."""
    if value is None or value == STDOUT or ctx.resilient_parsing:
        return None
    path = Path(value)
    if not path.absolute().parent.is_dir():
        raise NotFound(
            f"{path.parent} is not a directory", f"mkdir -p {shlex.quote(str(path.parent))}"
        )
    if not _is_written_in_place(path):
        require_outside_store(ctx, path)
        roots = (store.root for store in stores_in(ctx))
        _require_outside(ctx, path, roots, param.opts[0])
        # A link in a repository could lead to any file of the user's, such as ~/.bashrc.
        if path.is_symlink():
            target = real_path(path)
            hint = f"{ctx.command_path} {param.opts[0]} {shlex.quote(str(target))}"
            raise UsageError(f"{path} is a symbolic link to {target}", hint)
    ctx.with_resource(_stdout_to(path))
    return value


def outside_store(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Return the directory that an option names; raise UsageError if it is among sessions."""
    if path is not None and not ctx.resilient_parsing:
        _require_outside(ctx, path, (store.projects for store in stores_in(ctx)), param.opts[0])
    return path


def require_outside_store(ctx: click.Context, path: Path, option: str = "-o") -> None:
    """Raise UsageError if a file to write is among sessions or turnlog's own files."""
    # A typo such as `export last -o SESSION.jsonl` would destroy a conversation, and a file of the
    # archive or the journal is what others are restored from.
    from turnlog.store.directories import cache_directory, config_directory, data_directory
    from turnlog.store.paths import archive_folder

    own = [each(os.environ) for each in (data_directory, config_directory, cache_directory)]
    projects = [store.projects for store in stores_in(ctx)]
    _require_outside(ctx, path, [*projects, *map(Path, own), archive_folder()], option)


def _require_outside(ctx: click.Context, path: Path, folders: Iterable[Path], option: str) -> None:
    real = real_path(path)
    if real.is_symlink():
        raise UsageError(f"{path} is a loop of symbolic links", f"ls -l {shlex.quote(str(path))}")
    for folder in map(real_path, folders):
        if real.is_relative_to(folder):
            here = "~" if Path.cwd().is_relative_to(folder) else "."
            hint = f"{ctx.command_path} {option} {here}/{shlex.quote(path.name)}"
            raise UsageError(f"{path} is in {folder}", hint)


def _is_written_in_place(path: Path) -> bool:
    """Return whether a path leads to a device, a pipe or an open file, which are not replaced."""
    return bool(DESCRIPTOR.fullmatch(str(path))) or (path.exists() and not path.is_file())


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
    stream.flush()
    content = collected.getvalue()
    # Renaming a file over /dev/stdout or a named pipe would replace the device itself. Appended,
    # because `-o /dev/stdout >> FILE` must not truncate FILE.
    if _is_written_in_place(path):
        with path.open("ab") as file:
            file.write(content)
    elif _is_filled(path):
        _replace(path, content)
    else:
        from turnlog.format.atomic import write_atomic

        write_atomic(path, content)


def _is_filled(path: Path) -> bool:
    return os.path.lexists(path) and path.lstat().st_size > 0


def _replace(path: Path, content: bytes) -> None:
    from turnlog.cli.output import plain
    from turnlog.cli.terminal import echo
    from turnlog.edit.outputs import replace_output

    if record := replace_output(path, content):
        named = plain(str(path))
        echo(f"turnlog: replaced {named}; to restore it: turnlog undo {record.id}", err=True)
