"""Themes: the colours of each kind of text, with the client's names for the themes.

The 16-colour themes leave the shades to the terminal; the others use colours that are legible on
their background. The daltonized themes do not rely on telling red from green.
"""

from collections.abc import Mapping

from msgspec import Struct

DARK, LIGHT, AUTO = "dark", "light", "auto"
BACKGROUND = "COLORFGBG"
"""The variable in which some terminals name their colours: `15;0` is white on black."""
PALE = ("7", "9", "10", "11", "12", "13", "14", "15")
"""Background colours that call for dark text."""

ATTRIBUTES = {
    "prompt": "1",
    "thought": "2;3",
    "tool": "1",
    "output": "2",
    "dim": "2",
    "heading": "1;4",
    "bold": "1",
    "chosen": "1",
}
"""SGR attributes of each kind of text, in all themes and without colours."""


class Theme(Struct, frozen=True):
    """The colours of each kind of text."""

    is_light: bool
    """True if it is for a light background."""
    colours: Mapping[str, str]
    """SGR parameters by role."""


ON_DARK = {
    "prompt": "32",
    "note": "33",
    "error": "31",
    "ok": "36",
    "added": "32",
    "removed": "31",
    "code": "36",
    "chosen": "36",
    "mode": "35",
}
ON_LIGHT = {
    "prompt": "38;5;28",
    "note": "38;5;130",
    "error": "38;5;124",
    "ok": "38;5;30",
    "added": "38;5;28",
    "removed": "38;5;124",
    "code": "38;5;25",
    "chosen": "38;5;25",
    "mode": "38;5;90",
}
APART_ON_DARK = {
    "prompt": "38;5;75",
    "added": "38;5;75",
    "removed": "38;5;208",
    "error": "38;5;208",
}
APART_ON_LIGHT = {
    "prompt": "38;5;26",
    "added": "38;5;26",
    "removed": "38;5;166",
    "error": "38;5;166",
}
PLAIN_ON_LIGHT = ON_DARK | {"note": "35", "ok": "34", "code": "34", "chosen": "34"}

THEMES = {
    AUTO: Theme(is_light=False, colours=ON_DARK),
    DARK: Theme(is_light=False, colours=ON_DARK),
    LIGHT: Theme(is_light=True, colours=ON_LIGHT),
    "dark-daltonized": Theme(is_light=False, colours=ON_DARK | APART_ON_DARK),
    "light-daltonized": Theme(is_light=True, colours=ON_LIGHT | APART_ON_LIGHT),
    "dark-ansi": Theme(is_light=False, colours=ON_DARK),
    "light-ansi": Theme(is_light=True, colours=PLAIN_ON_LIGHT),
}


def theme_named(name: str | None, environment: Mapping[str, str]) -> Theme:
    """Return a theme by name; `auto` follows the terminal's background, an unknown name is dark."""
    if name in THEMES and name != AUTO:
        return THEMES[name]
    background = environment.get(BACKGROUND, "").rpartition(";")[2]
    return THEMES[LIGHT if name == AUTO and background in PALE else DARK]
