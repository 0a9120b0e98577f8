"""Entry point of `turnlog-chat`: `turnlog chat` for programs that expect a single executable."""

import sys

from turnlog.cli.main import main as run_command_line

VERSION_FLAGS = ("-v", "--version")


def main() -> None:
    """Run `turnlog chat` with the arguments of this program."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in VERSION_FLAGS:
        from turnlog import __version__
        from turnlog.agent.session.entry_builders import VERSION

        # Programs read the first word: the version of the client whose protocol turnlog speaks.
        sys.stdout.write(f"{VERSION} (turnlog {__version__})\n")
        return
    sys.argv[1:] = ["chat", *arguments]
    run_command_line()


if __name__ == "__main__":
    main()
