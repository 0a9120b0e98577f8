"""The only place that prints errors: one line each, with a hint."""

import errno
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from turnlog.cli.signals import interrupted
from turnlog.cli.suggested_commands import choose, to_type
from turnlog.cli.terminal import echo_plain, reveal_secrets
from turnlog.errors import Ambiguous, TurnlogError, Unredacted, Unresumable, UsageError
from turnlog.format.regular_files import Skipped, collect_skipped

UNDECODABLE = re.compile("[\udc80-\udcff]")
"""Bytes of the command line or of a file name that Python could not decode."""
LONG_WORD = re.compile(r"(\S{200})\S{200,}(\S{100})")
"""A word, such as a name, whose middle is not printed."""
SEPARATORS = re.compile(r"[\s\0]+")
MOST_CANDIDATES = 10
"""Maximum number of candidates to print for an ambiguous name."""


def reported(work: Callable[[], int | None]) -> int:
    """Run a command, print errors and skipped files, return its exit code."""
    with collect_skipped() as skipped:
        code = _outcome(work)
    _report_skipped(skipped)
    return code or (1 if skipped else 0)


def _outcome(work: Callable[[], int | None]) -> int:
    reveal_secrets(is_wanted=False)
    choose()
    try:
        _handle_interrupts()
        code = work()
        sys.stdout.flush()
        return code or 0
    except TurnlogError as error:
        return _report(error)
    except KeyboardInterrupt:
        return interrupted()
    except ModuleNotFoundError as error:
        return _report_missing(error)
    except BrokenPipeError:
        # The reader, such as head, has seen enough: discard what Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UnicodeEncodeError as error:
        return _report_undecodable(error)
    except OSError as error:
        return _report(_as_error(error))


def _as_error(error: OSError) -> TurnlogError:
    """Return the error to print for one of the system, with a command that shows more."""
    name, reason = os.fsdecode(error.filename or ""), error.strerror or str(error)
    if not name:
        return _as_unnamed_error(error, reason)
    if error.errno == errno.ENAMETOOLONG:
        return TurnlogError(f"{name}: {reason}", "turnlog ls")
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    is_missing = error.errno == errno.ENOENT
    place = str(Path(name).absolute().parent) if is_full or is_missing else name
    verb = "df -h" if is_full else "ls -ld"
    return TurnlogError(f"{name}: {reason}", f"{verb} {shlex.quote(place)}")


def _as_unnamed_error(error: OSError, reason: str) -> TurnlogError:
    if error.errno == errno.EBADF:
        return TurnlogError(f"stdout: {reason}")
    # Some files can be opened but not read, such as /proc/self/mem: the error does not name them.
    named = next((word for word in sys.argv[1:] if _exists(word)), None)
    return TurnlogError(f"I/O: {reason}", f"ls -ld {shlex.quote(named)}" if named else "df -h .")


def _exists(word: str) -> bool:
    try:
        return os.path.exists(word)  # noqa: PTH110
    except ValueError:
        return False


def _report_missing(error: ModuleNotFoundError) -> int:
    """Print how to install a missing optional package; re-raise the error for other modules."""
    from turnlog.cli.extras import extra_of, missing_extra

    extra = extra_of(error.name)
    if extra is None:
        raise error
    return _report(missing_extra(extra, str(error.name)))


def _report_undecodable(error: UnicodeEncodeError) -> int:
    """Print which path has bytes that are not UTF-8; re-raise the error for other text."""
    word = next((each for each in SEPARATORS.split(error.object) if UNDECODABLE.search(each)), None)
    if word is None:
        raise error
    return _report(UsageError(f"{word} is not UTF-8, and cannot be looked up or recorded", "ls -b"))


def _handle_interrupts() -> None:
    """Raise KeyboardInterrupt on Ctrl-C from now on; until then, Ctrl-C exits at once."""
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "end_at_once":
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _report_skipped(skipped: Skipped) -> None:
    for path, reason in skipped.items():
        echo_plain(f"turnlog: skipped {path}: {reason}", keep=r"\t", err=True)


def _first(candidates: list[str]) -> list[str]:
    """Return the first candidates and how many more there are: a title may match hundreds."""
    more = len(candidates) - MOST_CANDIDATES
    return candidates if more <= 0 else [*candidates[:MOST_CANDIDATES], f"and {more:,} more"]


def _lines(error: TurnlogError) -> list[str]:
    """Return the message and its hint, on two lines if the terminal is too narrow for one."""
    message = LONG_WORD.sub(r"\1…\2", error.message)
    if not error.hint:
        return [f"turnlog: {message}"]
    # Nobody types a name of thousands of characters.
    command = "turnlog --help" if LONG_WORD.search(error.hint) else to_type(error.hint)
    hint = f"(try: {command})"
    line = f"turnlog: {message} {hint}"
    if not sys.stderr.isatty():
        return [line]
    from turnlog.cli.output import width
    from turnlog.render.text_layout import cells_of

    is_wide = cells_of(line) <= width()
    return [line] if is_wide else [f"turnlog: {message}", f"  {hint}"]


def _report(error: TurnlogError) -> int:
    for line in _lines(error):
        # Messages name files and titles, which may contain escape sequences and line breaks.
        echo_plain(line, keep=r"\t", err=True)
    rows = _first(error.candidates) if isinstance(error, Ambiguous) else []
    rows = error.findings if isinstance(error, Unresumable | Unredacted) else rows
    for row in rows:
        echo_plain(f"  {row}", err=True)
    return error.exit_code
