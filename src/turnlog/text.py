"""Counts, money and durations as people read them, and terminal-safe text.

No function here lets a character control a terminal, hide others or reorder them.

`visible` is for questions to the user: it escapes every unusual character and loses nothing.
`harmless` is for transcripts: it keeps characters that prose needs, such as a zero-width joiner in
an emoji. `as_printed` is for the output of programs, `guarded` for text that turnlog has coloured.
"""

import re
import unicodedata

NAMES = dict(zip("\0\a\b\t\n\r\x1b\x7f", "NUL BEL BS TAB LF CR ESC DEL".split(), strict=True))
"""Control characters that people know by name; all others are shown as `<U+009B>`."""

# Patterns are strings: `re` compiles and caches them on first use, and few commands need them.
UNSAFE = (
    r"\x00-\x1f\x7f-\x9f"  # C0 and C1 controls; a terminal may take U+009B for ESC [
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks, overrides, isolates
    r"\u2028\u2029\u180e\u206a-\u206f\ufff9-\ufffb"  # separators, deprecated format characters
    r"\ud800-\udfff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # surrogates, tags, selectors
)
"""Characters that control a terminal, reorder text, or carry hidden data."""
INVISIBLE = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    r"\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
"""Characters that Python considers printable (marks, letters, symbols) but that are invisible."""
MARKS = r"\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
MOST_MARKS = 3
"""Maximum number of combining marks on a character; more would cover adjacent lines."""
SHORTENED = r"\n\[[0-9,]+ characters removed\]\Z"
SGR = r"\x1b\[[0-9;]*m"
"""The sequence that sets colours, the only one that turnlog itself puts into text."""
ESCAPE = rf"<(?=(?:U\+[0-9A-F]{{4,6}}|{'|'.join(NAMES.values())})>)"
"""The `<` of a text that looks like an escaped character, such as a literal `<ESC>`."""
SEQUENCE = (
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links
    r"|[PX^_][^\x1b\n]*\x1b\\"  # device control strings
    r"|[ -/]*[0-OQ-WYZ\\`-~])"
)
"""A complete escape sequence. A lone `ESC ]` does not match: it would hide the rest of the text."""


def shortened(text: str, kept: int) -> str:
    """Return the start of a text and how much of it is missing."""
    return f"{text[:kept]}\n[{len(text) - kept:,} characters removed]"


def is_shortened(text: str) -> bool:
    """Return whether a text ends with the mark of `shortened`.

    >>> is_shortened(shortened("abc" * 100, 2)), is_shortened("abc")
    (True, False)
    """
    return re.search(SHORTENED, text[-60:]) is not None


def plural(number: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "file"), plural(2000, "file")
    ('1 file', '2,000 files')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def file_size(count: float) -> str:
    """Return a number of bytes with a unit.

    >>> file_size(512), file_size(1536), file_size(3_400_000_000)
    ('512 B', '1.5 kB', '3.4 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"


def short_count(number: float | None) -> str:
    """Return a count in at most five characters.

    >>> [short_count(n) for n in (0, 999, 1234, 45_678, 999_960, 1_234_567_890)]
    ['0', '999', '1.2k', '46k', '1.0M', '1.2B']
    """
    if number is None:
        return ""
    for unit in ("", "k", "M", "B"):
        if number < 999.5 or unit == "B":
            break
        number /= 1000
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


def tokens_text(count: int) -> str:
    """Return a number of tokens as the client shows it.

    >>> tokens_text(950), tokens_text(12_340), tokens_text(200_000), tokens_text(1_000_000)
    ('950', '12.3k', '200k', '1M')
    """
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit
    return str(count)


def percent(share: float | None) -> str:
    """Return a fraction as a percentage; a small one is not rounded to zero.

    >>> percent(0.256), percent(0.001), percent(0)
    ('26%', '<1%', '0%')
    """
    if share is None:
        return ""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def money(amount: float | None) -> str:
    """Return an amount of dollars for a table: to the cent, from $1,000 on in whole dollars.

    >>> money(12.5), money(1234.5), money(0.001), money(None)
    ('$12.50', '$1,234', '<$0.01', '?')
    """
    if amount is None:
        return "?"
    if 0 < amount < 0.005:
        return "<$0.01"
    return f"${amount:.2f}" if amount < 999.995 else f"${amount:,.0f}"


def exact_money(amount: float | None) -> str:
    """Return an amount of dollars for one session or turn, where fractions of a cent matter.

    >>> exact_money(0.01234), exact_money(1), exact_money(1234.5), exact_money(None)
    ('$0.0123', '$1.00', '$1,234.50', '?')
    """
    return "?" if amount is None else f"${amount:,.4f}" if amount < 1 else f"${amount:,.2f}"


def running_money(amount: float | None) -> str:
    """Return an amount of dollars that grows while it is displayed.

    >>> running_money(0), running_money(0.0123), running_money(12.3), running_money(None)
    ('$0.00', '$0.012', '$12.30', '$?')
    """
    if amount is None:
        return "$?"
    return f"${amount:.3f}" if 0.0005 <= amount < 0.1 else f"${amount:,.2f}"


def short_duration(seconds: float | None) -> str:
    """Return a duration in at most five characters.

    >>> short_duration(0.25), short_duration(42), short_duration(125), short_duration(400_000)
    ('0.2s', '42s', '2m', '111h')
    >>> short_duration(7500), short_duration(359_940), short_duration(360_000)
    ('2h05', '99h59', '100h')
    """
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f}s" if seconds else "0s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60:02d}" if minutes < 6000 else f"{minutes // 60}h"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> duration(7.9), duration(75), duration(3700), duration(180_000)
    ('7s', '1m 15s', '1h 1m', '2d 2h')
    """
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f"{rest}s"
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}h {minutes}m" if hours else f"{minutes}m {rest}s"


def visible(text: str, keep: str = "\n") -> str:
    """Return a text with every control, format, blank or invisible character spelled out.

    No two texts look the same: literal text that looks like an escape is escaped, too.

    >>> visible("ls " + chr(13) + "; rm" + chr(0x202E) + " <CR>", keep="")
    'ls <CR>; rm<U+202E> <U+003C>CR>'
    """
    shown = re.sub(ESCAPE, "<U+003C>", text)
    return re.sub(rf"[^ -~{keep}]+", _spell_out, shown)


def escaped(char: str) -> str:
    """Return the spelled-out form of a character."""
    return f"<{NAMES[char]}>" if char in NAMES else f"<U+{ord(char):04X}>"


def harmless(text: str, keep: str = r"\n\t") -> str:
    """Return a text whose unsafe characters are spelled out; prose in any language stays as it is.

    >>> harmless("a" + chr(27) + "]0;title" + chr(7) + "b")
    'a<ESC>]0;title<BEL>b'
    """
    return re.sub(rf"(?![{keep}])[{UNSAFE}]", lambda found: escaped(found[0]), text)


def short_id(name: str) -> str:
    """Return the start of an id for a table; a file may be named with control characters.

    >>> short_id("5e551011-0000-4000-8000-000000000000"), short_id(chr(27) + "[2J")
    ('5e551011', '<ESC>[2J')
    """
    return visible(name[:8], keep="")


def typeable(command: str) -> str:
    r"""Return a command whose quoted words have no unsafe characters; bash and zsh read `$'…'`.

    >>> print(typeable("cd '/srv/a" + chr(10) + "b' && ls 'my file'"))
    cd $'/srv/a\x0ab' && ls 'my file'
    """
    # Words as `shlex.quote` writes them.
    return re.sub(r"""'[^']*'(?:"'"'[^']*')*""", _escaped_word, command)


def _escaped_word(word: re.Match[str]) -> str:
    if not re.search(rf"[{UNSAFE}]", word[0]):
        return word[0]
    text = word[0][1:-1].replace("""'"'"'""", "'")
    text = re.sub(r"['\\]", r"\\\g<0>", text)
    return f"$'{re.sub(rf'[{UNSAFE}]', _escaped_bytes, text)}'"


def _escaped_bytes(found: re.Match[str]) -> str:
    # A byte that is not UTF-8 is half of a surrogate pair in Python.
    errors = "surrogateescape" if "\udc80" <= found[0] <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{code:02x}" for code in found[0].encode("utf-8", errors))


def drop_unsafe(text: str, keep: str = r"\n\t") -> str:
    """Return a text without its unsafe characters.

    >>> drop_unsafe("a" + chr(27) + chr(0x202E) + "b")
    'ab'
    """
    return re.sub(rf"(?![{keep}])[{UNSAFE}]", "", text)


def one_line(text: str, mark: str = " ") -> str:
    """Return a text with a space in place of each run of unsafe characters and line breaks."""
    return re.sub(rf"[{UNSAFE}]+", mark, text)


def as_printed(text: str) -> str:
    """Return program output as a terminal would leave it: uncoloured, without overwritten text.

    >>> as_printed(chr(27) + "[31mred" + chr(27) + "[0m"), as_printed("10%" + chr(13) + "20%")
    ('red', '20%')
    """
    bare = re.sub(SEQUENCE, "", text).replace("\r\n", "\n")
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in bare.split("\n"))
    return re.sub(r"[\x00-\x08\x7f]", "", "\n".join(lines))


def guarded(text: str) -> str:
    """Return coloured text in which only the colours reach the terminal.

    >>> guarded(chr(27) + "[1mbold" + chr(27) + "[0m" + chr(27) + "[2J") == (
    ...     chr(27) + "[1mbold" + chr(27) + "[0m<ESC>[2J")
    True
    """
    return re.sub(
        rf"({SGR})|(?![\n\t])[{UNSAFE}]", lambda found: found[1] or escaped(found[0]), text
    )


def safe_json(text: str) -> str:
    r"""Return a JSON text with the same value and without unsafe characters.

    >>> safe_json('"' + chr(0x9B) + chr(0xE0041) + '"')
    '"\\u009b\\udb40\\udc41"'
    """
    return re.sub(rf"(?![\x00-\x1f])[{UNSAFE}]", _json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    pairs = (units[place : place + 2] for place in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair, 'big'):04x}" for pair in pairs)


def _spell_out(found: re.Match[str]) -> str:
    """Spell out the invisible characters in a run of characters outside printable ASCII."""
    run = found[0]
    # The fast path: nearly all text in other languages needs only this search.
    if run.isprintable() and not re.search(rf"[{INVISIBLE}]|[{MARKS}]{{{MOST_MARKS + 1}}}", run):
        return run
    shown: list[str] = []
    before, marks = "", 0
    for char in run:
        marks = marks + 1 if re.match(rf"[{MARKS}]", char) else 0
        is_shown = _is_visible(char, before) and marks <= MOST_MARKS
        shown.append(char if is_shown else escaped(char))
        before = char if is_shown else ""
    return "".join(shown)


def _is_visible(char: str, before: str) -> bool:
    """Return whether a character is visible at its position."""
    if char == "\ufe0f" and before:  # makes an emoji of a symbol, as in U+26A0 U+FE0F
        return unicodedata.category(before) in ("So", "Sm")
    return char.isprintable() and not re.match(rf"[{INVISIBLE}]", char)
