"""Names that mark their values as secret: `password`, `api_key`.

Names have three strengths. After `password`, any value that is not a plain word is a secret; after
`api_key`, values with digits; after `token`, only values that look random.
"""

import re
from functools import lru_cache

from turnlog.secrets.value_checks import (
    CODE,
    IDENTIFIER,
    LETTERS,
    MASKED,
    UUID,
    WORDS,
    is_jumbled,
    is_literal,
    is_mixed,
    is_one_phrase,
)

SUFFIX = (
    r"(?i:[_.-]?(?:production|prod|dev|test|staging|live|admin|root|user|value|key|base|hash|string"
    r"|base64|b64|data|primary|secondary|write|read|new|[0-9]{1,2})){0,2}"
)
PASSWORD_NAME = (
    r"(?i:passw(?:or)?d|passphrase|passcode|(?<![A-Za-z])(?:pwd|psk)(?![A-Za-z])"
    r"|(?:(?<=[A-Za-z0-9][_.-])|(?<=[\"'])|(?<=--))(?:pass|pw|psk)(?![A-Za-z])"
    r"|(?<=[a-z0-9])(?-i:Pwd|Pass|Psk)(?![a-z])|requirepass|masterauth|wpa-psk|storepass|keypass)"
)
STRONG_NAME = (
    r"(?i:api[_.-]?key|api[_-]?secret|api[_-]?token|auth[_-]?token|access[_-]?token"
    r"|refresh[_-]?token|id[_-]?token|bearer[_-]?token|session[_-]?token|client[_-]?secret"
    r"|app[_-]?secret|consumer[_-]?secret|secret[_-]?key|access[_-]?key|private[_-]?key"
    r"|signing[_-]?(?:key|secret)|encryption[_-]?key|master[_-]?key|account[_-]?key"
    r"|service[_-]?key|auth[_-]?key|app[_-]?key|application[_-]?key|license[_-]?key|shared[_-]?key"
    r"|deploy[_-]?(?:key|token)|webhook[_-]?(?:secret|token)|shared[_-]?secret|jwt[_-]?secret"
    r"|secret[_-]?(?:access[_-]?key|token|string)|token[_-]?secret|preshared[_-]?key"
    r"|integration[_-]?key|routing[_-]?key|admin[_-]?key|bot[_-]?token|personal[_-]?token"
    r"|(?-i:[A-Z0-9](?<!NEXT)(?<!PAGE)(?<!ATION)(?<!CSRF)_TOKEN)"
    r"|otp[_-]?secret|totp[_-]?secret|hmac[_-]?(?:key|secret)|cookie[_-]?secret|session[_-]?secret)"
)
WEAK_NAME = (
    r"(?i:secrets?|(?<!next)(?<!next.)(?<!page)(?<!page.)(?<!ation)(?<!ation.)tokens?|credentials?"
    r"|cred|salt|(?-i:(?<=[A-Z0-9])_PAT)|(?<!public)(?<!cache)(?<!primary)(?<!foreign)(?<!sort)(?<!partition)(?<!group)"
    r"(?<!idempotency)(?<!map)(?<!row)(?<!query)(?<!object)(?<!storage)(?<!result)(?<!limit)"
    r"(?<=[a-z0-9])[_-]key)"
)
"""Excludes `next_token`, `paginationToken` and names such as `primary_key`."""
STEMS = ("pass", "pw", "psk", "key", "token", "secret", "cred", "salt", "auth", "_pat")
"""Every name above contains one of these stems; most other names and lines of diffs do not."""
LONGEST = 4096
"""Maximum length of a secret; longer values are prose or data."""


PASSWORD, STRONG, WEAK = 3, 2, 1
LABELS = frozenset({"name", "key", "Name", "Key"})
"""Fields that name the `value` next to them: `{"name": "DB_PASSWORD", "value": …}`."""
VALUES = frozenset({"value", "Value"})


def is_secret_name(name: str) -> bool:
    """Return whether a field's name suggests that its value is secret.

    >>> [is_secret_name(name) for name in ("dbPassword", "X-Api-Key", "max_tokens_to_sample")]
    [True, True, False]
    """
    return _strength_of_field(name) > 0


def flag_name(word: str) -> str:
    """Return the name of a flag that takes a secret as the next word of a command, or "".

    >>> flag_name("--password"), flag_name("--verbose")
    ('password', '')
    """
    is_flag = word.startswith("-") and "=" not in word and is_secret_name(word)
    return word.lstrip("-") if is_flag else ""


def find_named(name: str, value: str) -> str | None:
    """Return the kind of secret in a field with this name and value, or None.

    >>> find_named("password", "hunter2"), find_named("title", "hunter2")
    ('password', None)
    """
    strength = _strength_of_field(name)
    if not strength or len(value) > LONGEST or "\n" in value.strip() or re.search(MASKED, value):
        return None
    if not CHECK_BY_STRENGTH[strength](value.strip()):
        return None
    return "password" if strength == PASSWORD else "secret"


@lru_cache(4096)
def _strength_of_field(name: str) -> int:
    return strength_of(f'"{name}')


@lru_cache(4096)
def strength_of(name: str) -> int:
    """Return the strength of a secret's name, or 0; short names need a quote before them."""
    folded = name[-200:].casefold()
    if not any(stem in folded for stem in STEMS):
        return 0
    # The end of the name decides: `password_file` is a path, `DB_PASSWORD_PROD` a password. Only
    # the last 200 characters are searched, because a minified line can be one long "name".
    for strength, pattern in ((PASSWORD, PASSWORD_NAME), (STRONG, STRONG_NAME), (WEAK, WEAK_NAME)):
        if re.search(rf"(?:{pattern}){SUFFIX}$", name[-200:]):
            return strength
    return 0


def _is_password(value: str) -> bool:
    """Return whether the value of a password field is a secret."""
    # More lenient than the check for passwords in text: a field contains nothing but the value, so
    # `correcthorse` is a password here, but may be any word in a sentence.
    if len(value) < 6 or not is_literal(value) or not is_one_phrase(value) or value.isdigit():
        return False
    if re.match(LETTERS, value):
        return len(value) >= 8
    return not _is_reference(value)


def _is_key(value: str) -> bool:
    if len(value) < 8 or not is_literal(value) or " " in value:
        return False
    if re.match(LETTERS, value):
        return is_jumbled(value) or (len(value) >= 12 and value.isalpha())
    return bool(re.match(UUID, value)) or not _is_reference(value)


def _is_token(value: str) -> bool:
    is_word = re.match(UUID, value) or re.match(WORDS, value)
    return _is_key(value) and not is_word and (is_mixed(value) or is_jumbled(value))


def _is_reference(value: str) -> bool:
    return bool(re.match(CODE, value) or re.match(IDENTIFIER, value))


CHECK_BY_STRENGTH = {PASSWORD: _is_password, STRONG: _is_key, WEAK: _is_token}
