"""Calls of curl and wget whose arguments do not say which files they read or write."""

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
NAMED_ELSEWHERE = {
    "curl": re.compile(rf"-{SINGLE}[JK].*|-[A-Za-z#]*J|--(?:remote-h|conf).*", re.S),
    "wget": re.compile(
        r"-(?!n)[bcdhkNqvxSKF46]*[irmpe].*"
        r"|--(?:content-d|trust|inp|rec|mir|page-r|exe|conf|use-a).*",
        re.S,
    ),
}
"""Options that let a server, or a list in a file, choose the names of downloaded files."""


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
    """Return whether a server may choose the name of a file: `curl -OJ`, `wget -i list`."""
    pattern = NAMED_ELSEWHERE.get(name)
    if pattern is None:
        return False
    first = words[:1]
    pairs = [("", word.text) for word in first] + [(a.text, b.text) for a, b in pairwise(words)]
    return any(pattern.fullmatch(text) and not DATA.fullmatch(option) for option, text in pairs)
