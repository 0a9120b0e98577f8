"""Downloads whose arguments do not say which files are read or written."""

import re
from itertools import pairwise

from turnlog.agent.permissions.bash import Word

SINGLE = "[sSfLkivGNORIJaBjlpqZn#0-9]*"
"""Letters of curl without a value."""
DATA = re.compile(
    rf"-{SINGLE}[dHFAbweuXm]"
    r"|--(?:data(?:-(?:ascii|binary|raw|urlencode))?|json|header|form|form-string|user-agent|cookie"
    r"|write-out|referer|user|request|max-time|url-query|variable|proxy-header)"
)
"""An option of curl whose value, in the next argument, is no address."""
JOINED_DATA = re.compile(rf"-{SINGLE}[dHFAbweuXm].")
"""The same with its value in one argument: `-d'{"a": 1}'`."""
ADDRESS_START = re.compile(r"\w+://\[[0-9a-fA-F:.%]+\]")
"""The start of an address with an IPv6 host, whose brackets are no range."""
NO_RANGES = frozenset(("-g", "--globoff"))
NEXT = frozenset(("-:", "--next", "--no-globoff"))
"""Options of curl that end, or take back, what other options say."""
WRITE_OUT = re.compile(rf"-{SINGLE}w|--wr.*")
"""The option of curl for a format, which can be in a file and name files: `%output{x}`."""
CHOOSING = {
    "curl": re.compile(rf"-{SINGLE}(?:[JK].*|w@.*)|-[A-Za-z#]*J|--(?:remote-h|conf).*", re.S),
    # wget takes any beginning of a name that fits no other option.
    "wget": re.compile(
        r"-(?!n)[bcdEFhHkKLNqSvVx46]*[irmpe].*"
        r"|--(?:content-d|tru|inp|rec|mi|pag|exe|conf|use-a|metalink-o).*"
        r"|(?i:ftps?)://.*[*?\[].*",
        re.S,
    ),
}
"""Arguments that let a server, or a list in a file, choose the names of downloaded files."""
REMOTE = re.compile(r"[^/]*:.*|rsync://.*", re.S)
"""A file or directory on another machine."""
RECURSIVE = re.compile(r"-[^-]*r.*")


def expands_addresses(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether curl expands sets and ranges in an address: `file:///x/.e{n}v`, `.en[v-v]`."""
    if name != "curl":
        return False
    options = {word.text for word in words}
    if options & NO_RANGES and not options & NEXT:
        return False
    before = ("", *(word.text for word in words))
    pairs = zip(before, words, strict=False)
    addresses = [
        word.text
        for option, word in pairs
        if not DATA.fullmatch(option) and not JOINED_DATA.match(word.text)
    ]
    return any(re.search(r"[\[{]", ADDRESS_START.sub("", text)) for text in addresses)


def is_named_elsewhere(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a server may choose the name of a file: `curl -OJ`, `wget -r`, `rsync h:x .`.

    >>> is_named_elsewhere("wget", (Word("-d"), Word("-i"), Word("list")))
    True
    """
    texts = [word.text for word in words]
    if name in ("rsync", "scp"):
        return _fetches_tree(name, texts)
    pattern = CHOOSING.get(name)
    if pattern is None:
        return False
    pairs = list(pairwise(("", *texts)))
    if name == "wget":
        return any(map(pattern.fullmatch, texts))
    # Options may be abbreviated: `DATA` does not know `--write-o`, of which `@x` is the value.
    return any(
        _is_format_file(option, text) or (pattern.fullmatch(text) and not DATA.fullmatch(option))
        for option, text in pairs
    )


def _is_format_file(option: str, value: str) -> bool:
    return value.startswith("@") and WRITE_OUT.fullmatch(option) is not None


def _fetches_tree(name: str, texts: list[str]) -> bool:
    """Return whether a call copies more than one named file from another machine."""
    *sources, _ = [text for text in texts if not text.startswith("-")] or [""]
    remote = list(filter(REMOTE.fullmatch, sources))
    if name == "rsync":
        return bool(remote)
    is_whole = any(map(RECURSIVE.fullmatch, texts))
    return any(is_whole or re.search(r"[*?\[]", text) for text in remote)
