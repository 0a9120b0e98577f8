"""The share of secrets of each kind that is found, in every context that sessions have."""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from support.secret_kinds import FRAMED, TOKEN_FRAMES, TOKENS, contexts
from turnlog.secrets import mask

EACH = 5
"""Values of each kind."""
GLUED = "xx@"
NOT_GLUED = frozenset(
    """alibaba tencent yandex nuget facebook heroku discord-bot mailgun mailchimp twilio telegram
    openai-legacy deepseek aws-bedrock launchdarkly azure-devops terraform
    adyen brave crates infisical yandex-oauth launchdarkly-api modal newrelic-license
    onepassword-key statsig voyage""".split()
)
"""Tokens without a prefix of their own: letters before one make it another word."""


def examples(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield each context of a kind: its name, the text, and the secret as it is written there."""
    random = Random(name)
    for _ in range(EACH):
        if name in TOKENS:
            value = TOKENS[name](random)
            frames = [
                f for f in TOKEN_FRAMES if f != GLUED or name.replace(" ", "-") not in NOT_GLUED
            ]
        else:
            _, frame, make = next(row for row in FRAMED if row[0] == name)
            value, frames = make(random), [frame]
        for frame in frames:
            before, _, after = frame.partition("@")
            text = f"{before}{value}{after}".replace("\x01", "@")
            for context, (whole, written) in contexts(text, value).items():
                yield f"{frame} {context}", whole, written


SPLITS = (
    "\x1b[0m",
    "\x1b[01;31m\x1b[K",
    "\u200b",
    "\u2060",
    "\ufeff",
    "\xad",
    "\\u001b[0m",
    "\\u200b",
    *("\0", "\b", "\x7f", "\x01", "\x0e", "\x84", "\x1b(B", "\x1b7", "\x1b=", "\x1b#8"),
    *("\x1bPq\x1b\\", "\x1b_x\x07", "\x1bXx\x9c", "\x9b31m", "\x9d0;t\x07", "\x1b[38:5:1m"),
    "\x1b]8;;https://host/" + "a/" * 400 + "\x1b\\",
    *("\U000e0041", "\U000e0100", "\u3164", "\uffa0", "\ufff9", "\ufffc", "\u2800", "\u0600"),
    *("\U0001d173", "\U0001bca0", "\u180e"),
    "\\u001b(B",
)
"""Colours, other sequences and characters without width, bare and as JSON spells them."""


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_that_is_split_is_found(name: str) -> None:
    random = Random(name)
    missed = Counter[str]()
    for split in SPLITS * EACH:
        value = TOKENS[name](random)
        places = sorted(random.sample(range(1, len(value)), 2))
        pieces = [value[: places[0]], value[places[0] : places[1]], value[places[1] :]]
        masked = mask(f"a {split.join(pieces)} b")
        missed[split] += any(len(piece) > 11 and piece in masked for piece in pieces)
    assert missed.total() <= 0.02 * len(SPLITS) * EACH, missed.most_common(4)


def leaks(masked: str, value: str) -> bool:
    """Return whether a secret, or more than a third of it in one piece, is still there."""
    size = max(6, len(value) // 3)
    pieces = {value[at : at + size] for at in range(0, len(value) - size + 1, max(1, size // 2))}
    return any(piece in masked for piece in pieces)


KINDS = [*TOKENS, *(name for name, _, _ in FRAMED)]


def test_there_are_many_kinds() -> None:
    assert len(KINDS) == len(set(KINDS)) >= 300


@pytest.mark.parametrize("name", KINDS)
def test_secrets_of_a_kind_are_found_in_every_context(name: str) -> None:
    missed = Counter[str]()
    total = 0
    for context, text, value in examples(name):
        total += 1
        missed[context] += leaks(mask(text), value)
    assert missed.total() <= 0.02 * total, missed.most_common(4)


MARKS = ("+", "-", "> ", "12 +", "a.py-3-")
"""What diffs and `grep -C` print before a line."""
ESCAPED_MARKS = ("+", "-")


@pytest.mark.parametrize("name", KINDS)
def test_secrets_of_a_kind_are_found_in_diffs_and_the_output_of_grep(name: str) -> None:
    missed = Counter[str]()
    for frame, text, value in _bare_examples(name):
        for mark in MARKS:
            marked = "\n".join(f"{mark}{line}" for line in ["x", *text.split("\n"), "y"])
            texts = {mark: marked}
            if mark in ESCAPED_MARKS:
                texts[f"{mark} in JSON"] = json.dumps({"a": marked})
            for context, whole in texts.items():
                masked = mask(whole)
                lines = (
                    json.dumps(value)[1:-1].split("\\n") if "JSON" in context else value.split("\n")
                )
                if any(leaks(masked, line) for line in lines):
                    missed[f"{frame} {context}"] += 1
    assert not missed, missed.most_common(4)


def _bare_examples(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield texts with a secret of a kind: bare, after a name and in code."""
    random = Random(name)
    for _ in range(EACH):
        if name in TOKENS:
            frames, make = ("@", "export X=@", 'x = "@"'), TOKENS[name]
        else:
            _, frame, make = next(row for row in FRAMED if row[0] == name)
            frames = (frame,)
        value = make(random)
        for frame in frames:
            before, _, after = frame.partition("@")
            yield frame, f"{before}{value}{after}".replace("\x01", "@"), value
