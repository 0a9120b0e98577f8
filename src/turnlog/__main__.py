"""The entry point of `turnlog` and `python -m turnlog`; not for importing.

Ctrl-C ends the process at once while modules are imported; afterwards `cli.reporting` handles it.
"""

import os
import sys

try:
    # `python -m` searches the working directory first, and a project may contain a `click.py`.
    here = os.getcwd()  # noqa: PTH109 (pathlib would be imported from there)
    if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [here]:
        del sys.path[0]
except OSError:  # a removed directory contains no modules
    pass

try:
    # `_signal` is the C module behind `signal`, whose import takes long enough to be interrupted.
    import _signal  # pyright: ignore[reportMissingImports]

    def end_at_once(number: int, frame: object) -> None:
        """Exit with the status that shells expect of an interrupted program."""
        os._exit(130)

    # Not SIG_DFL: Python prints a warning if the signal arrives just before the handler is removed.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # pyright: ignore
        _signal.signal(_signal.SIGINT, end_at_once)  # pyright: ignore
except KeyboardInterrupt:
    os._exit(130)

from turnlog.cli.main import main

if __name__ == "__main__":
    main()
