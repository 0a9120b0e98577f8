"""Write src/turnlog/secret_rules.json: rules taken from the credsweeper package, and our own.

Run it in an environment with `credsweeper` and `pyyaml`; turnlog needs neither. Of its rules those
are taken that a literal keyword can announce and that need no further code to be precise.
"""

import json
import re
from collections.abc import Iterable
from importlib.metadata import distribution
from itertools import product
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src" / "turnlog" / "secret_rules.json"
PACKAGE = "credsweeper"

THEIR_BOUNDARY = (
    r"(?:^|/|[^\\0-9A-Za-z+_-]|\\[0abfnrtv]|(?:%|\\x)[0-9A-Fa-f]{2}|\\[0-7]{3}"
    r"|\\[Uu][0-9A-Fa-f]{4}|\x1B\[[0-9;]{0,80}m)"
)
"""What may precede a token; it takes a character, so a match would start before the keyword."""

BOUNDARY = (
    r"(?:(?<![\\0-9A-Za-z+_-])|(?<=\\[0abfnrtv])|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4})|(?<=[0-9;\[]m))"
)
END = r"(?![0-9A-Za-z_-])"

COMMONEST = ' et"nsaoir\\cdl:up,12m-0h34fg569/78b_.' + (
    "ykvwTxS{}IC()UEDARPqBNjF=LMWZOHG+zYVK`XQJ[]*';>!#<|%@&?^$~"
)
"""The printable characters as session files have them, the commonest first."""

LEFT_OUT = {
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
"""How far before its keyword a match may start; the others start at it."""

QUOTE = r"(?P<q>\\{0,8}[\"'`])"
ASSIGN = r"\\{0,8}[\"'`\]]?\s{0,4}(?::=|=>|={1,3}|:)\s{0,4}"
SUFFIX = (
    r"(?i:[_-]?(?:production|prod|dev|test|staging|live|admin|root|user|value|key|[0-9]{1,2})){0,2}"
)
ASSIGNED = (
    rf"{QUOTE}?(?P<value>(?(q)[^\"'`\\\s]{{6,400}}|[0-9A-Za-z!@#%^*_+=./~-]{{8,400}}))"
    r"(?(q)(?P=q)|(?=[\s,;&|\"'`\\]|$))"
)
FLAGGED = r"\s{1,4}(?!-)" + ASSIGNED

Added = tuple[str, str, str, Iterable[str], str]


def cased(words: str) -> list[str]:
    """Each word in lower case, capitals, and with a capital first.

    >>> cased("token")
    ['token', 'TOKEN', 'Token']
    """
    return [form for w in words.split() for form in (w, w.upper(), w.capitalize())]


def combined(*letters: str) -> list[str]:
    return ["".join(chosen) for chosen in product(*letters)]


PASSWORD_WORDS = cased("password passwd passphrase pwd")
SECRET_WORDS = [
    *cased("secret token api_key api-key apikey access_key access-key auth_key private_key"),
    *"apiKey ApiKey accessKey AccessKey authKey privateKey Api-Key Access-Key".split(),
]
SECRET_NAME = r"(?i:secret|token|api[_-]?key|access[_-]?key|auth_?key|private_?key)"
PASSWORD_NAME = r"(?i:passw(?:or)?d|passphrase|(?<![A-Za-z])pwd)"

# kind, how its value is checked, regex, keywords that start it, why
ADDED: list[Added] = [
    ("anthropic-key", "", rf"sk-ant-[a-z]{{3,8}}[0-9]{{2}}-[0-9A-Za-z_-]{{32,160}}{END}",
     ["sk-ant-"], "OAuth (oat, ort) and session (sid) tokens, other lengths"),
    ("openai-key", "", rf"sk-(?:proj|svcacct|admin|None)-[0-9A-Za-z_-]{{40,240}}{END}",
     ["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], "without the old mark in the middle"),
    ("api-key", "", rf"{BOUNDARY}sk-(?!\w{{20}}T3BlbkFJ)(?=[A-Za-z]{{0,40}}[0-9])"
     rf"[0-9A-Za-z]{{32,64}}{END}",
     ["sk-"], "the form many model providers copied"),
    ("langfuse-key", "", rf"sk-lf-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{END}",
     ["sk-lf-"], "missing"),
    ("langsmith-key", "", rf"lsv2_(?:pt|sk)_[0-9a-f]{{32}}_[0-9a-f]{{10}}{END}",
     ["lsv2_"], "missing"),
    ("replicate-token", "", rf"{BOUNDARY}r8_[0-9A-Za-z]{{37,40}}{END}", ["r8_"], "missing"),
    ("aws-access-key", "", rf"{BOUNDARY}A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{{16}}{END}",
     ["AKIA", "ASIA", "ABIA", "ACCA"], "of the ids only those of keys"),
    ("aws-secret-key", "", rf"(?i:secret_?access_?key|secret_?key|aws_?secret){ASSIGN}"
     r"\\{0,8}[\"'`]?(?P<value>[0-9A-Za-z/+]{40})(?![0-9A-Za-z/+=])",
     [*cased("secret_access_key secret_key aws_secret"), "secretAccessKey", "SecretAccessKey",
      "secretKey", "SecretKey", "awsSecret"], "without its id"),
    ("google-refresh-token", "", rf"{BOUNDARY}1//0[0-9A-Za-z_-]{{80,400}}{END}", ["1//0"],
     "with bounds"),
    ("stripe-key", "", rf"(?:whsec|[rs]k_(?:test|live))_[0-9A-Za-z]{{24,160}}{END}",
     ["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"], "without publishable keys"),
    ("mailchimp-key", "", rf"{BOUNDARY}[0-9a-f]{{32}}-us[0-9]{{1,2}}{END}", ["-us"], "hex only"),
    ("mailgun-key", "", rf"{BOUNDARY}key-[0-9a-f]{{32}}{END}", ["key-"], "with its prefix only"),
    ("twilio-key", "", rf"{BOUNDARY}(?:AC|SK)[0-9a-f]{{32}}(?![0-9A-Za-z_+/-])",
     [*combined("A", "C", "0123456789abcdef"), *combined("S", "K", "0123456789abcdef")],
     "longer keywords"),
    ("discord-token", "", rf"{BOUNDARY}[MNO][0-9A-Za-z]{{22,26}}\.[0-9A-Za-z_-]{{6}}"
     rf"\.[0-9A-Za-z_-]{{27,40}}{END}", combined("MNO", "DTjz", "AEIMQUYcgk"), "an id in base64"),
    ("azure-storage-key", "", r"(?:AccountKey|SharedAccessKey)="
     r"(?P<value>[0-9A-Za-z+/]{43,86}={1,2})",
     ["AccountKey=", "SharedAccessKey="], "connection strings"),
    ("azure-sas-signature", "", r"[?&]sig=(?P<value>[0-9A-Za-z%+/]{43,70}(?:=|%3[dD]))",
     ["?sig=", "&sig="], "missing"),
    ("npm-auth", "random", r":_(?:authToken|password|auth)=(?P<value>[0-9A-Za-z_=+/-]{16,400})",
     [":_auth", ":_password"], "other than npm_ tokens"),
    ("jwt", "", rf"{BOUNDARY}eyJ[0-9A-Za-z_-]{{10,8000}}(?:\.[0-9A-Za-z_-]{{0,8000}}){{1,3}}"
     r"\.[0-9A-Za-z_-]{20,8000}={0,2}", ["eyJ"], "signed or encrypted, not the bare header"),
    ("private-key", "private-key", r"-----BEGIN [0-9A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,8}-----"
     r"(?:(?:[^-]|-(?!----)){40,16000}-----END [0-9A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,8}-----"
     r"|(?:[\s0-9A-Za-z+/=:,→]|-(?!-)|\\+[nrt]){40,16000})", ["-----BEGIN "], "the whole block"),
    ("age-key", "", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", ["AGE-SECRET-KEY-1"], "without its checksum"),
    ("authorization", "", rf"(?i:authorization){ASSIGN}\\{{0,8}}[\"'`]?"
     r"(?i:basic|token|bot|apikey|key)\s{1,4}(?P<value>[0-9A-Za-z._~+/-]{12,8000}={0,2})",
     cased("authorization"), "header"),
    ("bearer-token", "random", r"(?i:bearer)(?:\s{1,4}|%20)"
     r"(?P<value>[0-9A-Za-z._~+/-]{16,8000}={0,2})"
     r"(?![0-9A-Za-z(\[{])", cased("bearer"), "shorter, and no words"),
    ("url-password", "url-password", r"://(?P<user>[^\s/:@\"'`<>\\{}$|]{0,100}):(?!(?P=user)@)"
     r"(?P<value>[^\s/@\"'`<>\\]{3,200})@(?=[0-9A-Za-z\[$%{_-])", ["://"], "no machine learning"),
    ("password", "password", r"(?<=\s)curl\s[^\n|;]{0,400}?\s(?:-u|--user)[ =]?\s{0,4}\\{0,8}[\"']?"
     r"[^\s:\"'\\$]{1,64}:(?P<value>[^\s\"'\\]{4,200})", ["curl "], "no machine learning"),
    ("password", "password", PASSWORD_NAME + SUFFIX + ASSIGN + ASSIGNED, PASSWORD_WORDS,
     "assignment"),
    ("password", "password", "(?<=--)" + PASSWORD_NAME + FLAGGED, PASSWORD_WORDS, "flag"),
    ("secret", "random", SECRET_NAME + SUFFIX + ASSIGN + ASSIGNED, SECRET_WORDS, "assignment"),
    ("secret", "random", "(?<=--)" + SECRET_NAME + FLAGGED, SECRET_WORDS, "flag"),
]  # fmt: skip

ADDED_BACK = {"mailchimp-key": 32}


def taken(rules: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """The rules of the package that need neither its model nor its code."""
    for rule in rules:
        name = str(rule["name"])
        if rule["type"] != "pattern" or rule.get("use_ml") or name in LEFT_OUT:
            continue
        for regex in rule["values"]:
            kind = KINDS.get(name) or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            plain = regex.replace(THEIR_BOUNDARY, BOUNDARY)
            yield row(kind, plain, rule["required_substrings"], back=BACK.get(name, 0))


def row(
    kind: str, regex: str, keywords: Iterable[str], check: str = "", back: int = 0
) -> dict[str, Any]:
    re.compile(regex)
    found = {"kind": kind, "regex": regex, "keywords": sorted(set(keywords))}
    return found | ({"check": check} if check else {}) | ({"back": back} if back else {})


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


def anchored(words: Iterable[str]) -> dict[str, set[str]]:
    """The words by their rarest letter, the commonest of these letters first."""
    found: dict[str, set[str]] = {}
    for word in words:
        found.setdefault(max(word, key=COMMONEST.index), set()).add(word)
    return dict(sorted(found.items(), key=lambda each: COMMONEST.index(each[0])))


def prefilter(anchors: dict[str, set[str]]) -> str:
    """A regex that stops at the anchor letter of any word: sre skips to these letters fast."""
    return "|".join(anchor_regex(letter, words) for letter, words in anchors.items())


def anchor_regex(letter: str, words: Iterable[str]) -> str:
    """The letter, then per length of what precedes it and per rest a look behind.

    >>> anchor_regex("_", ["ghp_", "gho_"])
    '_(?:(?<=gh[op]_))'
    """
    heads: dict[str, set[str]] = {}
    for word in words:
        head, _, rest = word.partition(letter)
        heads.setdefault(head, set()).add(rest)
    alike: dict[tuple[int, str], list[str]] = {}
    for head, rests in sorted(heads.items()):
        alike.setdefault((len(head), trie_regex(rests)), []).append(head)
    anchor = re.escape(letter)
    branches = [
        (f"(?<={trie_regex(found)}{anchor})" if length else "") + rest
        for (length, rest), found in alike.items()
    ]
    return f"{anchor}(?:{'|'.join(branches)})"


def main() -> None:
    import yaml  # pyright: ignore[reportMissingModuleSource]

    package = distribution(PACKAGE)
    config = Path(str(package.locate_file("credsweeper/rules/config.yaml"))).read_text("utf-8")
    own = [row(k, r, words, check, ADDED_BACK.get(k, 0)) for k, check, r, words, _ in ADDED]
    rules = [*taken(yaml.safe_load(config)), *own]
    anchors = anchored({word for rule in rules for word in rule["keywords"]})
    head = {
        "source": PACKAGE,
        "version": package.version,
        "licence": package.read_text("licenses/LICENSE"),
        "note": "made by scripts/refresh_secret_rules.py: the source's rules, adapted; our own",
        "prefilter": prefilter(anchors),
        "anchors": {letter: sorted(words) for letter, words in anchors.items()},
    }
    TARGET.write_text(
        json.dumps(head | {"rules": rules}, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    print(f"{len(rules)} rules, {len(own)} of them added")


if __name__ == "__main__":
    main()
