"""Find secrets in text and mask them: keys, tokens, private keys, passwords.

One regex looks for the rules' keywords at their rarest letters; a rule runs only where one of its
keywords stands. The rules are data: secret_rules.json, made by scripts/refresh_secret_rules.py.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

WINDOW = 400
"""Characters after its keyword that a rule sees if its match starts before the keyword."""

# What a value is not, or is; as text, because `re` compiles it when first used and keeps it.
MASKED = r"\[[a-z0-9-]+:[0-9a-f]{6}\]"
SAMPLE = (
    r"(?i)x{6}|\*{3}|\.{3}|…|(?<![A-Za-z])(?:your|my)[-_]|example|placeholder|change_?me|dummy"
    r"|redacted|insert|123456789|abcdefgh|(?-i:([^A])\1{7}|^A+$)"
)
VARIABLE = r"\$\{|\$\(|\{\{|\{[\w.\[\]'\"]*\}|^\$\w+$|^%|<[^>]*>|%[sdv]$|%\(|\(\)?$"
CODE = r"(?:os\.environ|process\.env|getenv)\b|(?:[A-Za-z_]\w{0,24}\.)+[A-Za-z_]\w{0,24}\(?$"
ORDINARY = (
    r"(?i)(?:my|your|the|test|some|new|old|user|db|admin|super|wrong|bad|invalid|fake|mock)*[-_]?"
    r"(?:pass(?:word|wd|phrase)?|pwd|pw|secret|token|key|postgres|mysql|root|admin|user|guest|demo|test"
    r"|default|none|null|true|false|undefined|string|foo|bar)[-_]?\d{0,4}[!;,]?$"
)
LETTERS = r"[A-Za-z_./:@-]+$|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$"
WORDS = r"(?:(?:[A-Za-z]+\d{0,2}|\d+)(?:[-_./:+=~]+|$))+$"
UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
IDENTIFIER = r"(?:msg|toolu|srvtoolu|req|call|chatcmpl|resp)_|sha(?:256|384|512)[-:]|https?:|[~.]?/"
BASE64 = r"[0-9A-Za-z+/]{40}"


class Secret(NamedTuple):
    """Where a secret stands in a text: its value only, without name, quotes or user."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """The secrets in `text`, in order; where two would overlap, the more specific kind stays.

    >>> find_secrets("postgres://app:s3cr3t-77@db/main")
    [Secret(kind='url-password', start=15, end=24)]
    """
    found: list[tuple[Secret, bool]] = []
    for secret, specific in sorted(_candidates(text), key=lambda each: each[0].start):
        if not found or secret.start >= found[-1][0].end:
            found.append((secret, specific))
        elif _weight(secret, specific) > _weight(*found[-1]):
            found[-1] = (secret, specific)
    return [secret for secret, _ in found]


def placeholder_for(kind: str, value: str) -> str:
    """What stands for a secret: the same for the same value everywhere, and not reversible."""
    from hashlib import sha256

    return f"[{kind}:{sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}]"


def mask(text: str, placeholder: Callable[[str, str], str] = placeholder_for) -> str:
    """`text` with a placeholder in place of each secret.

    >>> mask("password = 'tr0ub4dor&3'")
    "password = '[password:882a2a]'"
    """
    # A placeholder can set free a token that was glued to the secret, hence again.
    for _ in range(4):
        found = find_secrets(text)
        if not found:
            break
        text = _replace(text, found, placeholder)
    return text


def _replace(text: str, found: list[Secret], placeholder: Callable[[str, str], str]) -> str:
    parts: list[str] = []
    end = 0
    for secret in found:
        parts += text[end : secret.start], placeholder(secret.kind, text[secret.start : secret.end])
        end = secret.end
    return "".join([*parts, text[end:]])


def _weight(secret: Secret, specific: bool) -> tuple[bool, int]:
    return specific, secret.end - secret.start


class _Rule:
    def __init__(self, row: dict[str, Any]) -> None:
        self.kind: str = row["kind"]
        self.check: str = row.get("check", "")
        self.back: int = row.get("back", 0)
        self.regex: str = row["regex"]

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.regex)

    def find(self, text: str, at: int) -> Secret | None:
        """The secret whose keyword stands at `at`."""
        if self.back:
            match = self.compiled.search(text, max(0, at - self.back), at + WINDOW)
        else:
            match = self.compiled.match(text, at)
        if match is None:
            return None
        start, end = match.span("value" if "value" in self.compiled.groupindex else 0)
        value = text[start:end]
        if re.search(MASKED, value) or not CHECKS[self.check](value) or _in_base64(text, start):
            return None
        return Secret(self.kind, start, end)


class _Keyword(NamedTuple):
    word: str
    offset: int
    """Where in the word the letter is at which the pre-filter stops."""
    rules: list[_Rule]


@cache
def _rules() -> tuple[re.Pattern[str], dict[str, list[_Keyword]]]:
    """The pre-filter, and the keywords by the letter at which it stops."""
    import json

    table = json.loads(Path(__file__).with_name("secret_rules.json").read_text("utf-8"))
    by_word: dict[str, list[_Rule]] = {}
    for row in table["rules"]:
        rule = _Rule(row)
        for word in row["keywords"]:
            by_word.setdefault(word, []).append(rule)
    return re.compile(table["prefilter"]), {
        letter: [_Keyword(word, word.index(letter), by_word[word]) for word in words]
        for letter, words in table["anchors"].items()
    }


def _candidates(text: str) -> Iterator[tuple[Secret, bool]]:
    prefilter, keywords = _rules()
    position = 0
    while hit := prefilter.search(text, position):
        position = hit.start()
        for word, offset, rules in keywords[text[position]]:
            if text.startswith(word, position - offset):
                for rule in rules:
                    if secret := rule.find(text, position - offset):
                        yield secret, not rule.check
        position += 1


def _in_base64(text: str, start: int) -> bool:
    """Whether base64 data reaches up to `start`: an image, a signature."""
    return start >= 40 and re.match(BASE64, text[start - 40 : start]) is not None


def _is_token(value: str) -> bool:
    return not re.search(SAMPLE, value)


def _is_url_password(value: str) -> bool:
    return not (re.search(SAMPLE, value) or re.search(VARIABLE, value) or re.match(ORDINARY, value))


def _is_password(value: str) -> bool:
    code = (
        re.match(LETTERS, value)
        or re.match(CODE, value)
        or re.match(IDENTIFIER, value)
        or value.isdigit()
    )
    return _is_url_password(value) and not code


def _is_random(value: str) -> bool:
    if len(value) < 16 or len(set(value)) < 8 or re.match(UUID, value) or re.match(WORDS, value):
        return False
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return mixed and _is_password(value)


def _is_private_key(value: str) -> bool:
    return re.search(BASE64, value) is not None


CHECKS: dict[str, Callable[[str], bool]] = {
    "": _is_token,
    "password": _is_password,
    "url-password": _is_url_password,
    "random": _is_random,
    "private-key": _is_private_key,
}
