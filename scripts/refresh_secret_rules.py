"""Write src/turnlog/secrets/rules.json: rules taken from the credsweeper package, and our own.

Run it as `python scripts/refresh_secret_rules.py`, with turnlog importable. With `credsweeper` and
`pyyaml` installed, their rules are taken anew, else those in the file are kept; turnlog needs
neither. Of credsweeper's rules those are taken that a literal keyword can announce and that need no
further code to be precise.
"""

import json
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from secret_commands import COMMANDS
from secret_rules import FORMATS, NAMED, TOKENS, Rule

TARGET = Path(__file__).parent.parent / "src" / "turnlog" / "secrets" / "rules.json"
PACKAGE = "credsweeper"

OWN: list[Rule] = [*TOKENS, *FORMATS, *COMMANDS, *NAMED]
"""Our own rules; among equals, later rules are tried later."""

THEIR_BOUNDARY = (
    r"(?:^|/|[^\\0-9A-Za-z+_-]|\\[0abfnrtv]|(?:%|\\x)[0-9A-Fa-f]{2}|\\[0-7]{3}"
    r"|\\[Uu][0-9A-Fa-f]{4}|\x1B\[[0-9;]{0,80}m)"
)
"""Pattern before a token; it consumes a character, so a match would start before the keyword."""

SOURCE = Path(__file__).parent.parent / "src" / "turnlog"
"""Sample sessions and code, to count the frequency of letters."""
FIND = 0.01
"""Cost of a `str.find` through a text, in stops of the pre-filter per character."""
HANDLE = 10
"""Cost of a stop at a stem, in stops of the pre-filter: Python code looks further."""
LONGEST_STEM = 6
LEAST = (0.003, 0.0001, 0, 0, 0, 0)
"""The share that a letter, or two, are taken to have at least."""

LEFT_OUT = {
    "Dynatrace API Token": "replaced: with longer keywords",
    "Shopify Token": "replaced: with longer keywords",
    "Asana PAT": "keyword is too common",
    "AWS Client ID": "replaced: only the keys that come with a secret",
    "AWS S3 Bucket": "no secret",
    "Azure Access Token": "a JSON Web Token",
    "BASE64 Private Key": "any DER data, needs decoding",
    "BASE64 encoded PEM Private Key": "needs decoding",
    "Basic Authorization": "replaced: asks for the header's name",
    "Bearer Authorization": "replaced",
    "Composio Credentials": "too broad without checks",
    "DeepSeek API Key": "replaced: the form is not theirs alone",
    "Discord Bot Token": "replaced: with longer keywords",
    "Dropbox API secret (long term)": "keyword occurs in base64 data",
    "Dropbox App secret": "too broad",
    "Facebook App Token": "too broad",
    "Firebase Domain": "no secret",
    "Google OAuth Refresh Token": "replaced: with a boundary on both sides",
    "Grafana Provisioned API Key": "needs decoding",
    "JSON Web Key": "needs decoding",
    "JSON Web Token": "replaced: three parts that are filled",
    "Jira / Confluence PAT token": "needs decoding",
    "MailChimp API Key": "replaced: host names look like it",
    "MailGun API Key": "replaced: hashes look like it",
    "NKEY Seed": "too broad without checks",
    "NTLM Token": "a challenge, no secret",
    "OTP / 2FA Secret": "too broad",
    "PASERK Keys": "too broad",
    "PASETO Token": "too broad",
    "Picatic API Key": "a Stripe key looks the same",
    "Product Activation Key": "too broad",
    "Salesforce Credentials": "too broad",
    "Stripe Credentials": "replaced: publishable keys are no secret",
    "Tencent WeChat API App ID": "no secret",
    "Twilio Credentials": "replaced: with longer keywords",
    "UUID": "no secret",
    "X App-Only Authentication Bearer Token": "keyword occurs in base64 data",
}

KINDS = {
    "Anthropic API Key": "anthropic-key",
    "Github App Installation Token": "github-token",
    "Github Classic Token": "github-token",
    "Github Fine-granted Token": "github-token",
    "Gitlab Prefix Token": "gitlab-token",
    "OpenAI Token": "openai-key",
    "PyPi API Token": "pypi-token",
}
"""Kinds whose name is not that of the rule."""

BACK = {
    "Azure Secret Value": 3,
    "Azure Storage Account Key": 52,
    "Groq API Key": 44,
    "Hashicorp Terraform Token": 14,
    "NewRelic Credentials": 36,
    "OpenAI Token": 163,
    "Telegram Bot API Token": 10,
    "1Password Account Token": 4000,
    "Stripe Credentials": 1,
}
"""Maximum distance from the start of a match to its keyword; 0 for rules not listed."""


BARE_PREFIX = frozenset(
    """facebook-access-token square-access-token alibaba-access-key-id nuget-api-key
    amazon-bedrock-api-key""".split()
)
"""Kinds whose prefix is of letters only: in base64 data it stands by chance."""


def taken(rules: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Return the rules of the package that need neither its model nor its code."""
    for rule in rules:
        name = str(rule["name"])
        if rule["type"] != "pattern" or rule.get("use_ml") or name in LEFT_OUT:
            continue
        for regex in rule["values"]:
            kind = KINDS.get(name) or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            yield adapted(kind, regex, rule["required_substrings"], BACK.get(name, 0))


def adapted(kind: str, regex: str, keywords: Iterable[str], back: int = 0) -> dict[str, Any]:
    """Return a rule of the package as a row; turnlog checks itself what may precede a token."""
    has_boundary = THEIR_BOUNDARY in regex
    rule = Rule(
        kind,
        regex.replace(THEIR_BOUNDARY, ""),
        keywords,
        back=back,
        glued="yes" if not has_boundary else "no" if kind in BARE_PREFIX else "dense",
    )
    return row(rule) | {"source": PACKAGE}


def row(rule: Rule) -> dict[str, Any]:
    """Return a rule as the file has it, without what is default."""
    re.compile(rule.regex)
    found: dict[str, Any] = {"kind": rule.kind, "regex": rule.regex}
    found["keywords"] = sorted(set(rule.keywords))
    others = {"check": rule.check, "back": rule.back, "glued": rule.glued}
    return found | {name: held for name, held in others.items() if held not in ("", 0, "yes")}


def trie_regex(words: Iterable[str]) -> str:
    """A regex for any of `words`, the longest first, that shares their beginnings.

    >>> trie_regex(["ghp_", "gho_", "gh"])
    'gh(?:[op]_)?'
    """
    by_letter: dict[str, set[str]] = {}
    for word in words:
        if word:
            by_letter.setdefault(word[0], set()).add(word[1:])
    rests: dict[str, list[str]] = {}
    for letter, tails in sorted(by_letter.items()):
        rests.setdefault(trie_regex(tails), []).append(letter)
    branches = [
        (re.escape(letters[0]) if len(letters) == 1 else f"[{''.join(map(re.escape, letters))}]")
        + rest
        for rest, letters in rests.items()
    ]
    if not branches:
        return ""
    optional = "?" if "" in words else ""
    bare = len(branches) == 1 and not optional
    return branches[0] if bare else f"(?:{'|'.join(branches)}){optional}"


def anchored(words: Iterable[str]) -> dict[str, list[str]]:
    """Return the words by a letter or a longer part, chosen so that a scan stops seldom.

    This is a greedy weighted set cover: the part that covers most words for its cost comes next.
    """
    left = set(words)
    covering: dict[str, set[str]] = {}
    for word in left:
        for part in _parts(word):
            covering.setdefault(part, set()).add(word)
    costs = _costs(covering)
    found: dict[str, list[str]] = {}
    while left:
        best = min(
            covering, key=lambda part: (costs[part] / (len(covering[part] & left) or 1e-9), part)
        )
        found[best] = sorted(covering.pop(best) & left)
        left -= set(found[best])
    return dict(sorted(found.items(), key=lambda each: -costs[each[0]]))


def _parts(word: str) -> set[str]:
    ends = range(1, len(word) + 1)
    return {word[start:end] for end in ends for start in range(max(0, end - LONGEST_STEM), end)}


def _costs(parts: Iterable[str]) -> dict[str, float]:
    """Return what a scan of one character costs for each part."""
    paths = [*SOURCE.glob("samples/**/*.jsonl"), *SOURCE.rglob("*.py")]
    text = "".join(path.read_text("utf-8") for path in sorted(paths))
    # The samples have few capitals, but pictures and signatures in base64 have many.
    shares = {part: max((text.count(part) + 1) / len(text), LEAST[len(part) - 1]) for part in parts}
    return {
        part: share if len(part) == 1 else FIND + HANDLE * share for part, share in shares.items()
    }


def prefilter(anchors: dict[str, list[str]]) -> str:
    """A regex that stops at the anchor letter of any word: sre skips to these letters fast."""
    return "|".join(
        anchor_regex(letter, _shortest(letter, words)) for letter, words in anchors.items()
    )


def _shortest(letter: str, words: Iterable[str]) -> list[str]:
    """Leave out words that have another one around the same letter: what stops there is enough.

    >>> _shortest("k", ["api_key", "key", "token"])
    ['key', 'token']
    """
    kept: list[str] = []
    for word in sorted(words, key=lambda word: (len(word), word)):
        at = word.index(letter)
        if not any(
            word.startswith(each, at - each.index(letter))
            for each in kept
            if at >= each.index(letter)
        ):
            kept.append(word)
    return kept


def anchor_regex(letter: str, words: Iterable[str]) -> str:
    """Return a regex for the letter, which looks behind and ahead for the rest of a word.

    >>> anchor_regex("_", ["ghp_", "gho_"])
    '_(?=(?<=gh[op]_))'
    """
    heads: dict[str, set[str]] = {}
    for word in words:
        head, _, rest = word.partition(letter)
        heads.setdefault(head, set()).add(rest)
    alike: dict[tuple[int, str], list[str]] = {}
    for head, rests in sorted(heads.items()):
        alike.setdefault((len(head), trie_regex(rests)), []).append(head)
    anchor = re.escape(letter)
    branches = [rest for (length, rest), _ in alike.items() if not length]
    behind = [
        f"(?<={trie_regex(found)}{anchor}){rest}"
        for (length, rest), found in alike.items()
        if length
    ]
    if len(behind) > 1:
        # Most stops fail by the character before the letter. One look at it saves the others.
        before = trie_regex({head[-1] for head in heads if head})
        behind = [f"(?<={before}{anchor})(?:{'|'.join(behind)})"]
    return f"{anchor}(?={'|'.join([*branches, *behind])})"


def main() -> None:
    stored = json.loads(TARGET.read_text("utf-8"))
    theirs, head = _theirs(stored)
    rules = [*theirs, *map(row, OWN)]
    anchors = anchored({word for rule in rules for word in rule["keywords"]})
    letters = {anchor: words for anchor, words in anchors.items() if len(anchor) == 1}
    head |= {
        "note": "made by scripts/refresh_secret_rules.py: the source's rules, adapted; our own",
        "prefilter": prefilter(letters),
        "anchors": anchors,
    }
    TARGET.write_text(
        json.dumps(head | {"rules": rules}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    print(f"{len(rules)} rules, {len(OWN)} of them our own")


def _theirs(stored: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the package's rules, and what the file says of their source."""
    try:
        import yaml  # pyright: ignore[reportMissingModuleSource]

        package = distribution(PACKAGE)
    except (ImportError, PackageNotFoundError):
        kept = [rule for rule in stored["rules"] if rule.get("source") == PACKAGE]
        return kept, {name: stored[name] for name in ("source", "version", "licence")}
    config = Path(str(package.locate_file("credsweeper/rules/config.yaml"))).read_text("utf-8")
    licence = package.read_text("licenses/LICENSE")
    head = {"source": PACKAGE, "version": package.version, "licence": licence}
    return list(taken(yaml.safe_load(config))), head


if __name__ == "__main__":
    main()
