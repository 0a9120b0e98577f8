"""Find secrets in text.

A pre-filter searches for the rules' keywords; a rule's regex runs only at one of its keywords, so
the time is linear in the length of the text. The rules are data: rules.json, written by
scripts/refresh_secret_rules.py.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from turnlog.secrets.invisible import pattern_for, windows, without
from turnlog.secrets.names import strength_of
from turnlog.secrets.value_checks import CHECKS, MASKED, is_dense

WINDOW = 400
"""Characters after its keyword that a rule sees if its match starts before the keyword."""
NEAR, CONTEXTS = 3, 2048
"""Characters on each side of an anchor that select its keywords; number of selections to cache."""
AFTER_DASH = "(?<=-)"
KEYS = frozenset({"key", "Key", "KEY"})
"""Keywords that mark a secret only at the end of a longer name: `api_key`, not `key`."""
NO_NAME = frozenset("efgijmoqxyzEFGIJMOQXYZ")
"""Letters that never follow a keyword in a secret's name: `passed`, `tokenize`, `keyframe`."""
NAME_LENGTH = 64
NAME_BACKWARDS = re.compile(r"\n?([\w.-]*[\"']?)")
"""Matches a reversed name from its end; searching forwards would try every start before it."""
ARN = re.compile(r"\barn:[\w:/*-]*\Z")
"""The identifier of a secret is not secret: `arn:aws:secretsmanager:us-west-2:41:secret:name`."""
RESOURCE = re.compile(r"\b(?:AWS|Alexa)::\w+::\w*\Z")
"""The type of a resource is no name of a field: `"AWS::IAM::AccessKey": "bf29…"` has a checksum."""
NAME_REST = re.compile(r"[\w.-]*")
KINDS = {3: ("password", "password"), 2: ("secret", "key"), 1: ("secret", "random"), 0: ("", "")}
"""The kind and check of a value, by the strength of its name."""
BASE64 = r"[0-9A-Za-z+/]{40}|[0-9A-Za-z_-]{40}"
GLUE = re.compile(r"[\\0-9A-Za-z+_-]")
ESCAPE = re.compile(r"\\[0abfnrtv]|(?:%|\\x)[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|[0-9;\[]m")
"""Sequences that end in a letter but are not part of a word: `\\n` in JSON, `%3D`, a colour."""
LINE_MARK = re.compile(
    r"(?:(?:^|[\n\r]|\\[nr])[ \t]{0,80}(?:(?:[0-9]{1,7}[ \t]{0,8}[ \t→|:]{1,2}[ \t]{0,8}){1,2}"
    r"|[\w./@~+-]{0,160}?(?:[:-][0-9]{1,7}|\.[a-z]{1,8})[:-]|[0-9]{1,7}[:-])?|[\"'`])"
    r"(?:[+<>-]{1,2}[ \t]{0,2}|[ \t][+-])?\Z"
)
"""What precedes a line in a diff (`+`, `12 -`) or in the output of `grep -C` (`a.py-3-`)."""
LONGEST_MARK = 320
TAIL = re.compile(
    r"&&|\|\||&(?:amp;)?[\w.\[\]%-]+=|\\u0026|;(?=$|[\w ]+=)|,(?=[\w.-]+[=:])|[,;:.]+$"
    r"|@(?=[\w-]+(?:\.[\w-]+)+(?:/|:[0-9]))"
)
"""The end of an unquoted value: `&next=`, `;Server=`, a bracket, the end of a sentence."""
LONG, MOST_REST = 600, 4096
"""Characters of an unquoted value that are checked, and how many more it may have."""
REST = re.compile(r"[^\s\"'`\\]*")
PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}

ENCODED = re.compile(r"%(?:2[Dd]|5[Ff]|3[Dd](?=[0-9A-Za-z]))")
"""Percent-encoded `-`, `_` and `=`, as in a URL inside another one, except padding (`%3D&`)."""
ENCODED_SIGN = re.compile("%(?:2[Dd]|5[Ff]|3[Dd]|26)")


class Secret(NamedTuple):
    """The position of a secret in a text: its value only, without name, quotes or user."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets in `text`, in order and disjoint.

    Overlapping secrets are merged under the more specific kind: a cookie header that contains a
    token is one secret.

    >>> find_secrets("postgres://app:s3cr3t-77@db/main")
    [Secret(kind='url-password', start=15, end=24)]
    """
    candidates = [*_candidates(text), *_split_candidates(text), *_encoded_candidates(text)]
    if not candidates:
        return []
    found: list[tuple[Secret, int]] = []
    for secret, weight in sorted(candidates, key=lambda candidate: candidate[0].start):
        if not found or secret.start >= found[-1][0].end:
            found.append((secret, weight))
        else:
            found[-1] = _merged(found[-1], (secret, weight))
    return [secret for secret, _ in found]


def placeholder_for(kind: str, value: str) -> str:
    """Return the placeholder of a secret: the same for equal values, and not reversible."""
    from hashlib import sha256

    return f"[{kind}:{sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}]"


def _merged(one: tuple[Secret, int], other: tuple[Secret, int]) -> tuple[Secret, int]:
    kind = max(one, other, key=lambda item: (item[1], item[0].end - item[0].start))[0].kind
    return Secret(kind, one[0].start, max(one[0].end, other[0].end)), max(one[1], other[1])


class _Rule:
    def __init__(self, row: dict[str, Any]) -> None:
        self.kind: str = row["kind"]
        self.check: str = row.get("check", "")
        self.back: int = row.get("back", 0)
        self.glued: str = row.get("glued", "yes")
        self.regex: str = row["regex"]
        self.is_flag = self.regex.startswith(AFTER_DASH)
        """True if the regex can only match after a dash, as in `--password hunter2`."""
        self.weight = 0 if not self.kind else 1 if self.check else 2
        """Specificity of the kind: lowest if only a name suggests it, highest if the form does."""

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self.regex)

    def may_match(self, word: str, before: str | None, after: str | None) -> bool:
        """Return whether the rule may match at a keyword, judged by the characters around it.

        Each of them is None if unknown, and empty at the start or end of the text.
        """
        if self.is_flag and before not in ("-", None):
            return False
        if self.kind:
            return True
        # Rules without a kind cause most stops in prose and code. In `(key: value)`, the whole name
        # is `key`, which is not enough. A name may continue on the next line, so a line break does
        # not count as its start.
        is_end = before is None or before.isalnum() or before in tuple("_.-\n")
        is_name = is_end or word not in KEYS
        return is_name and (after is None or after not in NO_NAME or word.lower() == "cred")

    def find(self, text: str, at: int, found: list[tuple[Secret, int]]) -> None:
        """Add the secret whose keyword is at `at`, if there is one."""
        if self.is_flag and text[at - 1 : at] != "-":
            return
        if self.back:
            match = self.compiled.search(text, max(0, at - self.back), at + WINDOW)
        else:
            match = self.compiled.match(text, at)
        if match is None:
            return
        kind, check = self.kind, self.check
        if not kind:
            kind, check = KINDS[strength_of(_name_at(text, at, match))]
            if not kind:  # most names do not mark a secret: `sort_key: value`
                return
        start, end = _value_span(match)
        # Checking each of thousands of names in a text without blanks would take seconds.
        if not self.kind and _is_part(start, end, found):
            return
        value = text[start:end]
        if re.search(MASKED, value) or not CHECKS[check](value):
            return
        if not self._may_start(text, match.start(), value) or _in_base64(text, start):
            return
        if not _in_placeholder(text, start):
            found.append((Secret(kind, start, _whole_end(match, text, end)), self.weight))

    def _may_start(self, text: str, start: int, value: str) -> bool:
        """Return whether a token may start here: `xxghp_…` is one, `task-management` is not."""
        # A "dense" rule accepts a token glued to a word if its value looks random: `xxghp_…`. A
        # "no" rule has a keyword that occurs inside words, such as `sk-`, and needs a boundary. The
        # letter of an escape sequence counts as a boundary, `\nsk-…` in JSON, and so does the
        # mark of a diff at the start of a line, `+sk-…`.
        if self.glued in ("yes", "name") or not start or not GLUE.match(text[start - 1]):
            return True
        before = text[max(0, start - 6) : start]
        is_escape = any(m.end() == len(before) for m in ESCAPE.finditer(before))
        is_start = is_escape or _is_after_mark(text, start)
        return is_start or (self.glued == "dense" and is_dense(value))


class _Keyword(NamedTuple):
    word: str
    offset: int
    """Offset of the anchor in the word."""
    rules: list[_Rule]


class _Anchor:
    """Keywords that share a letter or a longer part, which the pre-filter searches for."""

    def __init__(self, part: str, words: list[str], by_word: dict[str, list[_Rule]]) -> None:
        self.size = len(part)
        self.keywords = [_Keyword(word, word.index(part), by_word[word]) for word in words]
        # Cached, because the same few contexts recur in a text: ` token `, `"key":`.
        self.fitting = lru_cache(CONTEXTS)(self._fitting)

    def find(self, text: str, position: int, found: list[tuple[Secret, int]]) -> None:
        """Add the secrets whose keyword has its anchor at a position."""
        at = position if position < NEAR else NEAR
        around = text[position - at : position + self.size + NEAR]
        for word, offset, rules in self.fitting(around, at):
            start = position - offset
            if start >= 0 and text.startswith(word, start):
                for rule in rules:
                    rule.find(text, start, found)

    def _fitting(self, around: str, at: int) -> list[_Keyword]:
        """Return the keywords that match the characters around the anchor, with fitting rules."""
        found: list[_Keyword] = []
        before, after = around[:at][::-1], around[at + self.size :]
        for word, offset, rules in self.keywords:
            head, rest = word[:offset][::-1], word[offset + self.size :]
            if _agree(head, before) and _agree(rest, after):
                near = _next_to(head, before), _next_to(rest, after)
                if fitting := [rule for rule in rules if rule.may_match(word, *near)]:
                    found.append(_Keyword(word, offset, fitting))
        return found


def _agree(one: str, other: str) -> bool:
    """Return whether one text is a prefix of the other."""
    return one.startswith(other) or other.startswith(one)


def _next_to(part: str, near: str) -> str | None:
    """Return the character next to a part of a keyword; empty if there is none, None if unknown."""
    if len(near) > len(part):
        return near[len(part)]
    return None if len(near) == NEAR else ""


class _Table(NamedTuple):
    prefilter: re.Pattern[str]
    """Matches at anchor letters of keywords."""
    letters: dict[str, _Anchor]
    stems: dict[str, _Anchor]
    """Longer anchors, for which `str.find` is faster."""


@cache
def _rules() -> _Table:
    import json

    table = json.loads(Path(__file__).with_name("rules.json").read_text("utf-8"))
    by_word: dict[str, list[_Rule]] = {}
    for row in table["rules"]:
        rule = _Rule(row)
        for word in row["keywords"]:
            by_word.setdefault(word, []).append(rule)
    anchors = {part: _Anchor(part, words, by_word) for part, words in table["anchors"].items()}
    return _Table(
        re.compile(table["prefilter"]),
        {part: anchor for part, anchor in anchors.items() if len(part) == 1},
        {part: anchor for part, anchor in anchors.items() if len(part) > 1},
    )


def _candidates(text: str) -> list[tuple[Secret, int]]:
    """Return the matches of all rules with their weights; they may overlap."""
    # Running hundreds of regexes over every text would be too slow. Every match of a rule contains
    # one of its keywords ("ghp_" for GitHub tokens), and every keyword contains its anchor: a
    # letter or part shared by keywords ("_" in "ghp_", "glsa_" and "tfp_"; "secr" in "secret").
    # So it suffices to look at anchors. In `export T=ghp_x7Qa…`:
    #   1. the pre-filter, one regex for all letters, stops at the `_`;
    #   2. of the keywords with this anchor, only "ghp_" fits the characters around it;
    #   3. `startswith` confirms the keyword, and only its rules run, anchored at that position.
    # An ordinary text has few such stops, and at most of them no keyword is confirmed.
    prefilter, letters, stems = _rules()
    found: list[tuple[Secret, int]] = []
    for hit in prefilter.finditer(text):
        position = hit.start()
        letters[text[position]].find(text, position, found)
    for stem, anchor in stems.items():
        position = text.find(stem)
        while position >= 0:
            anchor.find(text, position, found)
            position = text.find(stem, position + 1)
    return found


def _split_candidates(text: str) -> Iterator[tuple[Secret, int]]:
    """Yield the secrets that contain escape sequences or invisible characters."""
    pattern = pattern_for(text)
    # Search the text around them again without them, and map the matches back.
    for start, end in windows(text, pattern) if pattern else ():
        visible, original = without(text[start:end], pattern)
        for secret, weight in _candidates(visible):
            span = start + original(secret.start), start + original(secret.end - 1) + 1
            yield Secret(secret.kind, *span), weight


def _encoded_candidates(text: str) -> Iterator[tuple[Secret, int]]:
    """Yield the secrets with a percent-encoded sign in their name or value: `sk%2Dant%2D…`."""
    if "%" not in text:
        return
    for start, end in windows(text, ENCODED.pattern):
        part = text[start:end]
        decoded = ENCODED_SIGN.sub(lambda sign: chr(int(sign[0][1:], 16)), part)
        # Decoding makes each sign two characters shorter.
        places = [match.start() - 2 * n for n, match in enumerate(ENCODED_SIGN.finditer(part))]
        for secret, weight in _candidates(decoded):
            first, last = (bisect_left(places, at) * 2 + at for at in secret[1:])
            if ENCODED_SIGN.search(part, max(0, first - NAME_LENGTH), last):
                yield Secret(secret.kind, start + first, start + last), weight


def _name_at(text: str, at: int, match: re.Match[str]) -> str:
    """Return the name that ends with the keyword at `at`, with its quote: `"DB_PASSWORD`."""
    before = NAME_BACKWARDS.match(text[max(0, at - NAME_LENGTH) : at][::-1])
    rest = NAME_REST.match(text[at : at + NAME_LENGTH])
    start = before[1][::-1] if before else ""
    if text[at - len(start) - 1 : at - len(start)] == ":":
        before_keyword = text[max(0, at - 128) : at]
        if ARN.search(before_keyword) or RESOURCE.search(before_keyword):
            return ""
    name = start + (rest[0] if rest else "")
    is_flag = (match.lastgroup or "").endswith("_flag")
    # `grep` may print something before it: `a.sh-3---password hunter2`.
    is_dashed = re.match(r"[\"']*(?:.*[0-9][:-]-)?-", name) is not None
    return "" if is_flag and not is_dashed else name


def _whole_end(match: re.Match[str], text: str, end: int) -> int:
    """Return the end of an unquoted value that may be longer than what was checked of it."""
    is_cut = (match.lastgroup or "").startswith("bare") and match.end() == end
    rest = REST.match(text, end, end + MOST_REST) if is_cut else None
    return rest.end() if rest else end


def _is_part(start: int, end: int, found: list[tuple[Secret, int]]) -> bool:
    """Return whether a value lies in the secret that was found last, and that is a long one."""
    _, first, last = found[-1][0] if found else Secret("", 0, 0)
    return last - first > LONG and first <= start and end <= last


def _value_span(match: re.Match[str]) -> tuple[int, int]:
    group = match.lastgroup or ""
    if group.startswith("bare"):
        start = match.start(group)
        return start, start + len(_trimmed(match[group]))
    if group.startswith("value"):
        return match.span(group)
    return match.span("value" if "value" in match.re.groupindex else 0)


def _trimmed(value: str) -> str:
    """Cut off punctuation, brackets and parameters that follow an unquoted value.

    >>> _trimmed("xK9#mP2$q&user=a"), _trimmed("tr0ub4dor&3),"), _trimmed("a(b)c1;")
    ('xK9#mP2$q', 'tr0ub4dor&3', 'a(b)c1')
    """
    if tail := TAIL.search(value, 1):
        value = value[: tail.start()]
    while value and (opening := PAIRS.get(value[-1])):
        if value.count(opening) >= value.count(value[-1]):
            break
        value = value[:-1]
    return value.rstrip(",;:.")


def _in_base64(text: str, start: int) -> bool:
    """Return whether `start` is inside base64 data, such as an image, rather than a path."""
    # Long random data contains short keywords such as `EAA` by chance.
    before = text[start - 40 : start] if start >= 40 else ""
    return re.match(BASE64, before) is not None and is_dense(before)


def _is_after_mark(text: str, start: int) -> bool:
    """Return whether the mark of a diff or of `grep` ends at `start`, as in `+sk-…`."""
    is_sign = text[start - 1 : start] in ("+", "-")
    return is_sign and LINE_MARK.search(text, max(0, start - LONGEST_MARK), start) is not None


def _in_placeholder(text: str, start: int) -> bool:
    """Return whether a position is inside a placeholder, which resembles an assignment."""
    # Without this, `[password:882a2a]` would be masked again as the password `882a2a`.
    opening = text.rfind("[", max(0, start - 64), start)
    found = re.compile(MASKED).match(text, opening) if opening >= 0 else None
    return found is not None and found.end() > start
