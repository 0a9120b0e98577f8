"""Print lines with secrets masked; all output of commands goes through here.

Text must be masked (`masked`) before it is truncated, as half a token is not recognized; `echo`
masks everything else. Colours are escape sequences in the text, and are stripped where they are
not wanted. click's own `echo` is not used, because importing click takes longer than printing.
"""

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TextIO

from turnlog.text import SGR, guarded, harmless

Look = Literal["bold", "dim", "italic", "underline", "red", "green", "yellow", "cyan", "grey"]
LOOKS: dict[Look, int] = {
    "bold": 1,
    "dim": 2,
    "italic": 3,
    "underline": 4,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "cyan": 36,
    "grey": 90,
}


def style(text: str, *looks: Look | None) -> str:
    """Return a text in a colour, bold, dim, italic or underlined; None changes nothing.

    >>> style("no", "red", "bold")
    '\\x1b[31;1mno\\x1b[0m'
    """
    start = _start(looks)
    return f"{start}{text}\x1b[0m" if start else text


@cache
def _start(looks: tuple[Look | None, ...]) -> str:
    """Return the escape sequence that starts a look."""
    codes = ";".join(str(LOOKS[look]) for look in looks if look)
    return f"\x1b[{codes}m" if codes else ""


class _Reveal:
    is_wanted = False


def reveal_secrets(is_wanted: bool) -> None:
    """Print secrets from here on, or mask them again."""
    _Reveal.is_wanted = is_wanted


def masked(text: str) -> str:
    """Mask the secrets of a text, unless --reveal was given."""
    if _Reveal.is_wanted or not text:
        return text
    from turnlog.secrets import mask

    return mask(text)


def masked_start(text: str, limit: int) -> str:
    """Return the first `limit` characters of a text, masked before it is cut."""
    if _Reveal.is_wanted:
        return text[:limit]
    from turnlog.secrets import mask_start

    return mask_start(text, limit)


def masked_value(value: Any, name: str = "") -> Any:
    """Mask the secrets of a JSON value, also those recognized only by a field's name."""
    if _Reveal.is_wanted:
        return value
    from turnlog.secrets import mask_value

    return mask_value(value, name)


def dim(text: str) -> str:
    return style(text, "dim")


def echo(text: object = "", err: bool = False, coloured: bool | None = None) -> None:
    """Print a masked line and flush; `coloured` overrides the detection of colours.

    It is text for people, so that no control sequence but colours gets into a pipe either: a name
    of a session may contain any.
    """
    echo_masked(guarded(masked(str(text))), err, coloured)


def echo_plain(text: str, err: bool = False, keep: str = r"\n\t") -> None:
    """Print a text from elsewhere: masked, then with all control sequences spelled out.

    Masked first: a secret that a sequence splits is not recognized once that is spelled out.
    """
    echo_masked(harmless(masked(text), keep), err)


def echo_masked(text: str, err: bool = False, coloured: bool | None = None) -> None:
    """Print a text that is already masked, without scanning it again.

    A pipe gets data unchanged; on a terminal, all control sequences but colours are removed.
    """
    stream = sys.stderr if err else sys.stdout
    line = f"{text}\n"
    if err or stream.isatty():
        line = guarded(line)
    if "\x1b" in line and not (is_coloured(stream) if coloured is None else coloured):
        line = re.sub(SGR, "", line)
    stream.write(line)
    stream.flush()


def is_coloured(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to colour a stream: a terminal, unless the environment overrides it."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"
