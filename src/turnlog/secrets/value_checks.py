"""Decide whether a value is a secret: not a sample, a variable, code or an ordinary word."""

import re
from binascii import Error, a2b_base64
from collections.abc import Callable
from functools import cache
from itertools import pairwise

MASKED = r"\[[a-z0-9-]+:[0-9a-f]{6}\]"
"""A regex for placeholders."""
# Strings, not compiled patterns: `re` compiles each on first use and caches it, so that importing
# this module stays fast.
SAMPLE = (
    r"(?i)x{6}|\*{3}|\.{3}|…|(?:^|[-_./:])(?:your|my)[-_]|example|placeholder|change_?me|dummy"
    r"|redacted|insert|123456789|abcdefgh|a-z0-9|0-9a-z|(?-i:a-zA-Z)|(?-i:([^A])\1{7}|^A+$)|^[0-9a-z]*0{12}"
)
VARIABLE = (
    r"\$\{|\$\([A-Za-z]|\{\{|\{[A-Za-z_][\w.\[\]'\"]*\}|\{\}|^\$[A-Za-z_]\w*$|^\$env:|^%\w+%$"
    r"|<[A-Za-z][\w -]{2,}>|^%(?:\(\w+\))?[sdv]$|\(\)?$|^\$\d$|^\{\w*\}$|^@\w+@$|^!\w+ "
)
CODE = (
    r"(?:os\.environ|process\.env|import\.meta|getenv|ENV\[|env\.)|\([a-z_]\w*\."
    r"|[A-Za-z_][\w.:>-]*(?:\(|\[|<|\{)|(?:[A-Za-z_]\w{0,24}\.)+[A-Za-z_]\w{0,24}\(?$"
    r"|(?:[A-Za-z_]\w{0,30}(?:->|::|\?\.|\.))+\w{0,30}\(?$|\w+\s+(?:==|!=|\|\||&&|\?\?)\s|[\w.]+\)+[;,:{]*$"
)
ORDINARY = (
    r"(?i)(?:my|your|the|test|some|new|old|user|db|admin|super|wrong|bad|invalid|fake|mock)*[-_]?"
    r"(?:pass(?:word|wd|phrase)?|pwd|pw|secret|token|key|postgres|mysql|root|admin|user|guest|demo|test"
    r"|default|none|null|nil|true|false|undefined|string|foo|bar|required|optional)[-_]?\d{0,4}[!;,]?$"
)
LETTERS = r"[A-Za-z_./:@-]+$|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$"
CONSTANT = r"[A-Z0-9]+(?:_[A-Z0-9]+)+"
WORDS = r"(?:(?:[A-Za-z]+\d{0,2}|\d+)(?:[-_./:+=~]+|$))+$"
UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
IDENTIFIER = (
    r"(?:msg|toolu|srvtoolu|req|call|chatcmpl|resp)_|sha(?:1|256|384|512)[-:]|https?:|file:|data:"
    r"|arn:|projects/|[~.]{1,2}/|/[\w.-]+/|/\w+$|[A-Za-z]:\\|\d+(?:\.\d+){1,3}(?:[-:+/]\S*)?$"
)
BASE64 = r"[0-9A-Za-z+/]{40}"
SESSION = r"(?i:sess|auth|token|(?:^|[_.-])sid)"
"""Names of cookies whose value is a secret even if it is short."""
VERSION = r"v?\d+(?:[.\-]\w+)*$|[a-z]+$|latest|[\w.-]+:\d+$"
PAIRS = (
    "abcdgiklmnprstuwxy baeilosu caehiklmorstu dadeilorsu eacdefgilmnpqrstvwxy "
    "faefilorstu gehilnrs haeiot iabcdefglmnoprstvxz keis ladeilostuy mabeimops "
    "nacdefgiklnopstuv obcdfgklmnoprstuvw paeiloprstuy qu racdegiklmnorstuy "
    "sacehilopstuy tacdefhilmoprstuy uabeilmnprst vaei waeinor xept yps ze"
)
"""Each letter, and those that often follow it in words of identifiers and English prose.

They are the 240 most frequent pairs, of 676, in the words of Python's library and of these docs:
93% of the pairs in a word are among them, but only a third of those in random letters.
"""
MOST_WORDS = 6
"""A quoted value with more words than this is prose."""


def _is_token(value: str) -> bool:
    return not re.search(SAMPLE, value)


def is_literal(value: str) -> bool:
    """Return whether a value is neither a sample nor a reference to a value."""
    return not (re.search(SAMPLE, value) or re.search(VARIABLE, value) or re.match(ORDINARY, value))


def _is_flag(value: str) -> bool:
    return len(value) >= 4 and not value.startswith("-") and is_literal(value)


def _is_password(value: str) -> bool:
    if len(value) < 6 or not is_literal(value) or not is_one_phrase(value):
        return False
    if re.match(LETTERS, value):
        return is_jumbled(value) or is_wordless(value)
    # A password may look like `a.b(c`; but names in code are made of words.
    is_code = re.match(CODE, value) and (not is_dense(value) or re.search("[a-z]{6}", value))
    return not (is_code or re.match(IDENTIFIER, value) or value.isdigit())


def _is_key(value: str) -> bool:
    """Return whether a value after a name such as api_key is secret, short keys included."""
    if re.match(UUID, value):
        return _is_token(value)
    if len(value) < 8 or " " in value:
        return False
    is_opaque = is_jumbled(value) or is_wordless(value)
    return _is_password(value) and (is_opaque or (is_mixed(value) and not _is_name(value)))


def _is_random(value: str) -> bool:
    if len(value) < 16 or len(set(value)) < 8 or re.match(UUID, value) or " " in value:
        return False
    if re.match(LETTERS, value):
        return (is_jumbled(value) or is_wordless(value)) and is_literal(value)
    is_word = (re.match(WORDS, value) or _is_name(value)) and not is_wordless(value)
    return not is_word and is_mixed(value) and _is_password(value)


def _is_opaque(value: str) -> bool:
    return bool(re.match(UUID, value)) or _is_key(value)


def is_dense(value: str) -> bool:
    """Return whether a value looks random: `a7Qx9` rather than `version_2`."""
    return _is_token(value) and (_is_varied(value) or is_jumbled(value))


def _is_varied(value: str) -> bool:
    """Return whether letters and digits alternate more often than in words."""
    kinds = [character.isdigit() for character in value if character.isalnum()]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes >= max(3, len(value) // 14) or (value.isupper() and any(kinds))


def is_jumbled(value: str) -> bool:
    """Return whether letters change case more often than in names like `resetPassword`."""
    letters = sum(map(str.isalpha, value))
    if letters < 12 or value.islower() or value.isupper():
        return False
    # Split into camel-case words: `xKqzPwmRtYvb` has 5 of them, 2.4 letters each on average, and
    # `resetPassword` 2 with 6.5 each. Random letters have short "words".
    return letters / len(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", value)) <= 3.5


def is_wordless(value: str) -> bool:
    """Return whether a long value has more unusual pairs of letters than any word.

    >>> is_wordless("tXlbhiYOPBmrgxYwvexuxcmkU"), is_wordless("createHttpsProxyContext")
    (True, False)
    """
    if len(value) < 16 or re.fullmatch(CONSTANT, value):
        return False
    # Not across words: `t` and `P` of `resetPassword` belong to different ones.
    pairs = re.findall("(?=([A-Z][A-Za-z]|[a-z]{2}))", value[:100])
    unusual = sum(pair.lower() not in _usual_pairs() for pair in pairs)
    return len(pairs) >= 6 and 3 * unusual >= len(pairs)


@cache
def _usual_pairs() -> frozenset[str]:
    return frozenset(row[0] + letter for row in PAIRS.split() for letter in row[1:])


def _is_name(value: str) -> bool:
    """Return whether a value is an identifier in code: `PKCS7PrivateKeyTypes`."""
    is_compound = "_" in value or not (value.islower() or value.isupper())
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", value)
    digits = sum(map(str.isdigit, value))
    return value.isidentifier() and is_compound and digits <= 2 and len(value) > 4 * len(words)


def is_mixed(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def is_one_phrase(value: str) -> bool:
    """Return whether a value has no spaces, or looks like a passphrase instead of prose."""
    if " " not in value:
        return True
    # "correct h0rse battery" is a passphrase, because a word mixes letters and digits; "must not
    # be empty" is prose.
    words = value.split()
    return len(words) <= MOST_WORDS and any(
        is_mixed(word) and word[0] not in "$(<{+" for word in words
    )


def _is_login(value: str) -> bool:
    """Return whether text after `root:` is a password instead of an image tag or a group."""
    is_varied = is_mixed(value) and (not value.isalnum() or not value.islower())
    return is_varied and _is_password(value) and not re.match(VERSION, value)


def _is_query(value: str) -> bool:
    return _is_random(value) or (len(value) < 16 and is_mixed(value) and _is_login(value))


def _is_private_key(value: str) -> bool:
    return re.search(BASE64, value) is not None


def _is_pem64(value: str) -> bool:
    """Return whether a value is a private key in base64, not the certificate next to it."""
    return b"PRIVATE KEY" in _decoded(value[:120])


def _is_docker_auth(value: str) -> bool:
    return b":" in _decoded(value) or _is_random(value)


def _is_cookie(value: str) -> bool:
    pairs = re.findall(r"([\w.$-]{1,100})=([^;\s]{8,})", value)
    return any(
        _is_random(content)
        or _is_hidden(content)
        or (re.search(SESSION, name) and _is_short_token(content))
        for name, content in pairs
    )


def _is_short_token(value: str) -> bool:
    return len(value) >= 12 and not re.match(WORDS, value) and _is_query(value)


def _is_hidden(value: str) -> bool:
    return len(value) >= 16 and is_mixed(value) and _is_token(value) and is_dense(value)


def _is_lone(value: str) -> bool:
    """Return whether a value after the bare word `pass` is a password, not a test's result."""
    has_symbols = re.search(r"[!#$%^&*?+]", value) is not None
    return _is_password(value) and (is_dense(value) or (has_symbols and is_mixed(value)))


def _is_app_password(value: str) -> bool:
    """Return whether four groups of four letters are random, as in app passwords, and not words."""
    groups = re.split("[ -]", value)
    return len(set(value)) >= 8 and sum(not re.search("[aeiou]", group) for group in groups) >= 1


def _is_jwk(value: str) -> bool:
    return is_dense(value) and len(set(value)) >= 12


def _is_seed(value: str) -> bool:
    words = value.split()
    return len(words) in (12, 15, 18, 21, 24) and len(set(words)) > len(words) - 4


def _is_kube(value: str) -> bool:
    return bool(re.search(r":[ \t]*[^\s{}<>]{4,}", value)) and _is_token(value)


def _is_wordpress(value: str) -> bool:
    return not re.search(r"(?i)put your unique phrase|example", value)


def _decoded(value: str) -> bytes:
    try:
        return a2b_base64(value[: len(value) // 4 * 4] if "=" not in value else value)
    except (Error, ValueError):
        return b""


CHECKS: dict[str, Callable[[str], bool]] = {
    "": _is_token,
    "app-password": _is_app_password,
    "cookie": _is_cookie,
    "dense": is_dense,
    "docker-auth": _is_docker_auth,
    "flag": _is_flag,
    "jwk": _is_jwk,
    "key": _is_key,
    "kube": _is_kube,
    "login": _is_login,
    "lone": _is_lone,
    "mixed": is_mixed,
    "opaque": _is_opaque,
    "password": _is_password,
    "pem64": _is_pem64,
    "private-key": _is_private_key,
    "query": _is_query,
    "random": _is_random,
    "seed": _is_seed,
    "url-password": is_literal,
    "wif": is_mixed,
    "wordpress": _is_wordpress,
}
"""Checks by the names that rules use."""
