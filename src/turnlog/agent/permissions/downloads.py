"""Detect downloads whose arguments do not name the files that are read or written."""

import re
from itertools import pairwise

from turnlog.agent.permissions.bash import Word

SINGLE = "[sSfLkivgGNORIJaBjlpqZn#:0-9]*"
"""Short options of curl that take no value."""
DATA = re.compile(
    rf"-{SINGLE}[dHFAbweuXm]"
    r"|--(?:data(?:-(?:ascii|binary|raw|urlencode))?|json|header|form|form-string|user-agent|cookie"
    r"|write-out|referer|user|request|max-time|url-query|variable|proxy-header)"
)
"""An option of curl whose value is the next argument and not a URL."""
JOINED_DATA = re.compile(rf"-{SINGLE}[dHFAbweuXm].")
"""The same option joined with its value: `-d'{"a": 1}'`."""
ADDRESS_START = re.compile(r"\w+://\[[0-9a-fA-F:.%]+\]")
"""The start of a URL with an IPv6 host, whose brackets do not denote a range."""
COMPLETE = re.compile(
    rf"-{SINGLE}(?:[cdeoryztumwxACbDEFHKPQTUXY].+)?"
    r"|--(?:compressed|fail(?:-early|-with-body)?|get|globoff|head|http[0-9.]+|include|insecure"
    r"|ipv[46]|location|no-[a-z-]+|progress-bar|remote-name|show-error|silent|tlsv[0-9.]+|verbose)",
    re.S,
)
"""An option of curl that does not take the next argument as its value."""
NO_RANGES = frozenset(("-g", "--globoff"))
NEXT = re.compile(r"-[A-Za-z0-9#]*:.*|--nex.*|--no-g.*", re.S)
"""Options of curl that reset or negate others: `--next`, `--no-globoff`."""
PRINTING = re.compile(
    r"-[sSfLkivgGI46#]*[HXmAd]?"
    r"|--(?:compressed|fail|get|globoff|head|include|insecure|location|show-error|silent|verbose)"
)
"""An option of curl that writes no file, possibly with a value in the next argument."""
WEB_ADDRESS = re.compile(r"https?://", re.I)
WRITE_OUT = re.compile(rf"-{SINGLE}w|--wr.*")
"""The option of curl for a format, which may be read from a file and name files: `%output{x}`."""
CHOOSING = {
    # A server, a torrent or a metalink names the files, whatever the options are.
    "aria2c": re.compile(r".*", re.S),
    "curl": re.compile(rf"-{SINGLE}(?:[JK].*|w@.*)|-[A-Za-z#]*J|--(?:remote-h|conf).*", re.S),
    # wget accepts unambiguous abbreviations of its options.
    "wget": re.compile(
        r"-(?!n)[bcdEFhHkKLNqSvVx46]*[irmpe].*"
        r"|--(?:content-d|tru|inp|rec|mi|pag|exe|conf|use-a|metalink-o).*"
        r"|(?i:ftps?)://.*[*?\[].*",
        re.S,
    ),
}
"""Arguments that let a server, or a list in a file, choose the names of downloaded files."""
STORE = r"(?:s3|gs)://\S+"
CONTAINER_FILE = r"[\w][\w./-]*:\S+"
FETCHING = {
    **dict.fromkeys(("docker", "podman"), r"(?:buildx |image )?build (?:.* )?(?:-o|--out).*"),
    "gh": r"(?:pr (?:checkout|co)|release download(?!.* (?:-O|--output))|run download)(?: .*)?",
    "hg": r"(?:(?:checkout|co|up|update)(?: .*)?|pull (?=.*(?:-[a-z]*u|--up)).*)",
    "lftp": r".*\b(?:mget|mirror)\b.*",
    "svn": r"(?:checkout|co|export|switch|update|up).*",
    "sftp": r"(?:.* )?(?:-[^- ]*r.*|.*:\S*[*?\[].*)",
    "oras": r"pull .*",
    "azcopy": r"(?:c|copy|cp|sync) .*",
    "adb": r"(?:.* )?pull .*",
}
"""Calls that copy a directory, or whatever a remote name stands for, to this machine."""
COPIES = {
    **dict.fromkeys(("docker", "kubectl", "podman"), (("cp",), CONTAINER_FILE)),
    "oc": (("cp", "rsync"), CONTAINER_FILE),
    **dict.fromkeys(("aws", "gsutil"), (("cp", "mv", "rsync", "sync"), STORE)),
    "rclone": (("copy", "move", "sync"), r"[\w.-]+:.*"),
}
"""Subcommands that copy from a source to a target, and what a file elsewhere looks like."""
OF_TREES = re.compile(r"-[a-zA-Z]*[rRI]|--rec.*|.*[*?\[].*")
"""An argument with which `aws s3 cp` and `gsutil cp` copy more than one file."""
REPLAYED = re.compile(r"--(?:read-batch|iconv|remote-option)(?:=.*)?|-[^-@BTef]*M.*", re.S)
"""Options of rsync that take names from a file, convert them, or pass options to its other end."""
REMOTE = re.compile(r"[^/]*:.*|rsync://.*", re.S)
"""A file or directory on another machine."""
RECURSIVE = re.compile(r"-[^-]*r.*")


def expands_addresses(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether curl expands sets and ranges in an address: `file:///x/.e{n}v`, `.en[v-v]`."""
    if name != "curl":
        return False
    texts = [word.text for word in words]
    kept = _without_data(texts)
    if any(text.startswith("--expand-") for text in texts):  # variables in braces, also with -g
        return True
    is_literal = any(is_option and text in NO_RANGES for text, is_option in kept)
    if is_literal and not any(map(NEXT.fullmatch, texts)):
        return False
    addresses = [text for text, _ in kept if not JOINED_DATA.match(text)]
    if all(map(_prints, words)):
        # Without an output file, a web address names no file, whatever it expands to.
        addresses = [text for text in addresses if not WEB_ADDRESS.match(text)]
    return any(re.search(r"[\[{]", ADDRESS_START.sub("", text)) for text in addresses)


def _prints(word: Word) -> bool:
    """Return whether an argument of curl does not make it write a file."""
    return word.is_known and (not word.is_option or PRINTING.fullmatch(word.text) is not None)


def is_named_elsewhere(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a server may choose the name of a file: `curl -OJ`, `rsync h:x .`.

    >>> is_named_elsewhere("wget", (Word("-d"), Word("-i"), Word("list")))
    True
    """
    texts = [word.text for word in words]
    if name in ("rsync", "scp"):
        return _fetches_tree(name, texts)
    if name in COPIES and _copies_here(name, texts):
        return True
    if call := FETCHING.get(name):
        return re.fullmatch(call, " ".join(texts), re.S) is not None
    pattern = CHOOSING.get(name)
    if pattern is None:
        return False
    if name != "curl":
        return any(map(pattern.fullmatch, texts))
    # `DATA` does not match abbreviated options such as `--write-o`, whose value may be `@x`.
    return any(_is_format_file(option, text) for option, text in pairwise(texts)) or any(
        pattern.fullmatch(text) for text, _ in _without_data(texts)
    )


def _without_data(texts: list[str]) -> list[tuple[str, bool]]:
    """Return all arguments but the values of `DATA` options, each with a flag.

    The flag is False for an argument that may be the value of another option, or that follows `--`.
    In `curl -A -d x`, the value of `-A` is `-d`, and `x` is a URL.
    """
    kept: list[tuple[str, bool]] = []
    is_value, is_sure = False, True
    for rank, text in enumerate(texts):
        if is_value:
            is_value = False
            continue
        if text == "--":  # only addresses follow
            return [*kept, *((each, False) for each in texts[rank:])]
        kept.append((text, is_sure))
        is_value = is_sure and DATA.fullmatch(text) is not None
        # What follows any other option may be its value, even if it looks like an option.
        is_whole = is_value or COMPLETE.fullmatch(text) is not None
        is_sure = not text.startswith("-") or (is_sure and is_whole)
    return kept


def _is_format_file(option: str, value: str) -> bool:
    return value.startswith("@") and WRITE_OUT.fullmatch(option) is not None


def _fetches_tree(name: str, texts: list[str]) -> bool:
    """Return whether a call writes files that no argument names: a remote tree, a batch."""
    if name == "rsync" and any(map(REPLAYED.fullmatch, texts)):
        return True
    *sources, _ = [text for text in texts if not text.startswith("-")] or [""]
    remote = list(filter(REMOTE.fullmatch, sources))
    if name == "rsync":
        return bool(remote)
    is_whole = any(map(RECURSIVE.fullmatch, texts))
    return any(is_whole or re.search(r"[*?\[]", text) for text in remote)


def _copies_here(name: str, texts: list[str]) -> bool:
    """Return whether a call copies from elsewhere: `docker cp x:/a .`, not `docker cp a x:/`."""
    verbs, remote = COPIES[name]
    start = next((rank for rank, text in enumerate(texts) if text in verbs), len(texts))
    given = texts[start:]
    places = [rank for rank, text in enumerate(given) if rank and re.fullmatch(remote, text)]
    if not places or (given[0] in ("cp", "mv") and remote == STORE and not _has_tree(given)):
        return False
    first = places[0]
    # A source in front of it may also be the value of an option: `--region x s3://b .`.
    front = [text.startswith("-") for text in given[1:first]]
    is_upload = bool(front) and not any(front[-2:])
    behind = [text for text in given[first + 1 :] if not re.fullmatch(rf"-.*|{remote}", text)]
    return bool(behind) and not is_upload


def _has_tree(texts: list[str]) -> bool:
    return any(map(OF_TREES.fullmatch, texts))
