"""What the client writes into texts between tags of its own."""

import re

COMMAND = re.compile(r"<command-name>([^<]*)</command-name>(?:.*<command-args>([^<]*))?", re.DOTALL)


COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OUTPUT = re.compile(r"<(local-command-stdout|local-command-stderr)>(.*?)</\1>", re.DOTALL)


def local_command_text(text: str) -> str:
    """Return what a local command was, or what it printed, without the client's tags.

    >>> local_command_text("<local-command-stdout>10% used</local-command-stdout>")
    '10% used'
    """
    text = COLOUR.sub("", text)
    printed = "\n".join(found[2].strip() for found in OUTPUT.finditer(text))
    return command_text(text) or printed or OUTPUT.sub("", text).strip()


def command_text(text: str) -> str | None:
    """A slash command as it was typed, where a line is the record of one.

    >>> command_text("<command-name>/model</command-name><command-args>opus</command-args>")
    '/model opus'
    """
    found = COMMAND.search(text)
    return " ".join(part.strip() for part in found.groups() if part).strip() if found else None
