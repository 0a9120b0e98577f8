"""What the client writes into texts between tags of its own."""

import re

COMMAND = re.compile(r"<command-name>([^<]*)</command-name>(?:.*<command-args>([^<]*))?", re.DOTALL)


def command_text(text: str) -> str | None:
    """A slash command as it was typed, where a line is the record of one.

    >>> command_text("<command-name>/model</command-name><command-args>opus</command-args>")
    '/model opus'
    """
    found = COMMAND.search(text)
    return " ".join(part.strip() for part in found.groups() if part).strip() if found else None
