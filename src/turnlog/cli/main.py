"""Entry point of the command line; imports only what the command needs."""

import gc
import os
import sys
from io import TextIOWrapper


def main() -> None:
    """Run the command line."""
    _open_standard_streams()
    if sys.argv[1:] in (["--help"], ["-h"]) and _is_wide():
        with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as stored:
            text = stored.read()
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            _leave(1)
        return
    if sys.argv[1:3] == ["hook", "run"] and not os.isatty(0) and "--help" not in sys.argv:
        from turnlog.trace.hook_run import run as run_hook

        run_hook(sys.argv[3:])
    # A command is short-lived: garbage collection would take 5% of the time of a search.
    gc.set_threshold(100_000)
    for stream in (sys.stdout, sys.stderr):
        # A session may contain text that cannot be encoded, such as half of a surrogate pair.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    from turnlog.cli.signals import unwind_on_signals

    unwind_on_signals()
    try:
        code = run(sys.argv[1:])
    except OSError:
        if _has_stderr():
            raise
        code = 1  # the terminal is gone, so the error could not be printed
    _leave(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    from turnlog.cli.direct import direct
    from turnlog.cli.reporting import reported

    if work := direct(arguments):
        return reported(work)
    from turnlog.cli.root import run as run_parsed

    return run_parsed(arguments)


def _open_standard_streams() -> None:
    """Open standard streams that are closed, so that no other file gets their descriptor.

    Otherwise `turnlog edit >&-` could print into the session file that it opens next. stdout is
    opened for reading, so that writing to it fails; messages to a closed stderr are dropped.
    """
    for descriptor, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def _leave(code: int) -> None:
    """Exit without tearing down modules, which can take as long as the command itself."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code)


def _has_stderr() -> bool:
    """Return whether stderr still takes text; after a hang-up, writing to a terminal fails."""
    try:
        sys.stderr.write("\n")
        sys.stderr.flush()
    except OSError:
        return False
    return True


def _is_wide() -> bool:
    """Return whether the stored help fits: it is formatted for 80 columns."""
    try:
        return os.get_terminal_size(1).columns >= 80
    except OSError:
        return True
