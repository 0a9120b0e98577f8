"""Secrets in text. The planted ones are put together here, so that no line of the file is a key."""

import base64
import json
import random
import re
import string
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog import secrets
from turnlog.secrets import (
    MASKED,
    Secret,
    before_cut,
    cut_texts,
    cut_whole,
    find_secrets,
    mask,
    mask_value,
    placeholder_for,
)
from turnlog.secrets.detector import NEAR, _in_base64, _rules
from turnlog.secrets.invisible import visible
from turnlog.secrets.names import find_named
from turnlog.secrets.value_checks import CHECKS, _is_random

RULES = Path(secrets.__file__).with_name("rules.json")

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "_-"
RANDOM = random.Random(7)


def some(count: int, letters: str = ALNUM) -> str:
    """Letters in no order that begin and end with an alphanumeric and have both kinds."""
    middle = "".join(RANDOM.choices(letters, k=count - 4))
    return "a7" + middle + "3b" if letters.islower() or letters == HEX else "Q7" + middle + "4d"


def upper(count: int) -> str:
    return "".join(RANDOM.choices("ABCDEFGHJKLMNPQRSTUVWXYZ234567", k=count))


def uuid() -> str:
    return "-".join(some(count, HEX) for count in (8, 4, 4, 4, 12))


def part(value: str) -> str:
    return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")


JWT = ".".join([part('{"alg":"HS256","typ":"JWT"}'), part('{"sub":"41","name":"Ada"}'), some(43)])
PEM_BODY = "\n".join(some(64) for _ in range(6))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"
DISCORD = ".".join([part("41771983423143937"), some(6), some(38)])

TOKENS = {
    "anthropic": ("anthropic-key", "sk-" + "ant-api03-" + some(93, URLSAFE) + "AA"),
    "anthropic admin": ("anthropic-key", "sk-" + "ant-admin01-" + some(93, URLSAFE) + "AA"),
    "anthropic oauth": ("anthropic-key", "sk-" + "ant-oat01-" + some(86, URLSAFE) + "AA"),
    "openai project": ("openai-key", "sk-" + "proj-" + some(124, URLSAFE)),
    "openai service": ("openai-key", "sk-" + "svcacct-" + some(124, URLSAFE)),
    "openai old": ("openai-key", "sk-" + some(20) + "T3Blbk" + "FJ" + some(20)),
    "deepseek": ("api-key", "sk-" + some(32, HEX)),
    "other provider": ("api-key", "sk-" + some(48)),
    "openrouter": ("openrouter-api-key", "sk-" + "or-v1-" + some(64, HEX)),
    "langfuse": ("langfuse-key", "sk-" + "lf-" + uuid()),
    "langsmith": ("langsmith-key", "lsv2" + "_pt_" + some(32, HEX) + "_" + some(10, HEX)),
    "groq": ("groq-api-key", "gsk" + "_" + some(20) + "WGdyb3" + "FY" + some(24)),
    "xai": ("x-ai-api-key", "xai" + "-" + some(80)),
    "perplexity": ("perplexity-api-key", "pplx" + "-" + some(48)),
    "hugging face": ("hugging-face-user-access-token", "hf" + "_" + some(34)),
    "replicate": ("replicate-token", "r8" + "_" + some(37)),
    "github classic": ("github-token", "gh" + "p_" + some(36)),
    "github oauth": ("github-token", "gh" + "o_" + some(36)),
    "github server": ("github-token", "gh" + "s_" + some(36)),
    "github fine": ("github-token", "github" + "_pat_" + some(22) + "_" + some(59)),
    "gitlab": ("gitlab-token", "gl" + "pat-" + some(20)),
    "slack bot": ("slack-token", "xox" + "b-241731984352-2417319843521-" + some(24)),
    "slack app": ("slack-token", "xap" + "p-1-A" + upper(10) + "-2417319843521-" + some(64, HEX)),
    "aws key": ("aws-access-key", "AKI" + "A" + upper(16)),
    "aws session key": ("aws-access-key", "ASI" + "A" + upper(16)),
    "google api": ("google-api-key", "AI" + "za" + some(35)),
    "google oauth": ("google-oauth-secret", "GOC" + "SPX-" + some(28)),
    "google access": ("google-oauth-access-token", "ya" + "29." + some(120)),
    "stripe live": ("stripe-key", "sk" + "_live_" + some(24)),
    "stripe restricted": ("stripe-key", "rk" + "_live_" + some(24)),
    "stripe webhook": ("stripe-key", "wh" + "sec_" + some(32)),
    "npm": ("npm-token", "np" + "m_" + some(36)),
    "pypi": ("pypi-token", "py" + "pi-AgEIcHlwaS5vcmc" + some(150)),
    "sendgrid": ("sendgrid-api-key", "S" + "G." + some(22) + "." + some(43)),
    "twilio": ("twilio-key", "S" + "K" + some(32, HEX)),
    "telegram": ("telegram-bot-api-token", "4177198342:" + "AA" + some(33)),
    "discord": ("discord-token", DISCORD),
    "databricks": ("databricks-access-token", "da" + "pi" + some(32, HEX)),
    "digitalocean": ("digital-ocean-token", "do" + "p_v1_" + some(64, HEX)),
    "linear": ("linear-api-key", "lin" + "_api_" + some(40)),
    "mailchimp": ("mailchimp-key", some(32, HEX) + "-us14"),
    "mailgun": ("mailgun-key", "key" + "-" + some(32, HEX)),
    "docker": ("docker-access-token", "dckr" + "_pat_" + some(27)),
    "notion": ("notion-integration-token", "nt" + "n_417719834" + some(37)),
    "shopify": ("shopify-token", "shp" + "at_" + some(32, HEX)),
    "terraform": ("hashicorp-terraform-token", some(14) + ".atlas" + "v1." + some(67)),
    "vault": ("hashicorp-vault-token", "hv" + "s." + some(92)),
    "supabase": ("supabase-credentials", "sb" + "p_" + some(40, HEX)),
    "airtable": ("airtable-api-key", "pat" + some(14) + "." + some(64, HEX)),
    "jwt": ("jwt", JWT),
    "private key": ("private-key", PEM),
    "private key in JSON": ("private-key", PEM.replace("\n", "\\n")),
    "openssh key": ("private-key", PEM.replace("RSA", "OPENSSH")),
}

BASIC = base64.b64encode(b"ada:correct-horse-41").decode()
AWS_SECRET = some(40, ALNUM + "/+")
STORAGE = some(86, ALNUM + "+/") + "=="

IN_CONTEXT = [
    ("aws-secret-key", "aws_secret_access_key = {}\n", AWS_SECRET),
    ("aws-secret-key", '{{"SecretAccessKey": "{}"}}', AWS_SECRET),
    ("aws-secret-key", "export AWS_SECRET_ACCESS_KEY='{}'", AWS_SECRET),
    ("azure-storage-key", "AccountName=a;AccountKey={};EndpointSuffix=b", STORAGE),
    ("bearer-token", 'curl -H "Authorization: Bearer {}" host', some(40)),
    ("bearer-token", '\\"authorization\\": \\"bearer {}\\"', some(40)),
    ("authorization", "Authorization: Basic {}\r\n", BASIC),
    ("url-password", "postgres://app:{}@db.local:5432/main", "s3cr3t-77"),
    ("url-password", "redis://:{}@127.0.0.1:6379", "letmeinplease"),
    ("github-token", "https://x-access-token:{}@github.com/a/b", "gh" + "p_" + some(36)),
    ("pypi-token", "TWINE={}", f"pypi-AgEIcHlwaS5vcmc{some(70)}"),
    ("pypi-token", "token {}", f"pypi-AgEIcHlwaS5vcmc{some(300)}"),
    ("slack-webhook", "https://hooks.slack.com/services{}", f"/T{upper(9)}/B{upper(9)}/{some(24)}"),
    ("npm-auth", "//packages.local/:_authToken={}\n", some(36)),
    ("password", 'password = "{}"', "tr0ub4dor&3"),
    ("password", "DB_PASSWORD={}\n", "k7Hq92mmZ"),
    ("password", '{{\\"passwd\\": \\"{}\\"}}', "tr0ub4dor&3"),
    ("password", "mysql --user root --password {} main", "k7Hq92mmZ"),
    ("password", "  curl -s -u ada:{} https://host/x", "tr0ub4dor&3"),
    ("password", "spring.datasource.password: '{}'", "P@ssw0rd!7"),
    ("secret", "client_secret: '{}'", some(32)),
    ("secret", "const apiKey = `{}`;", some(32)),
    ("secret", "X-Api-Key: {}\n", some(32)),
    ("secret", "TWILIO_AUTH_TOKEN={}\n", some(32, HEX)),
    ("secret", "SECRET_KEY_PROD = '{}'", some(50)),
    ("secret", "gh auth login --token {} --host h", some(32)),
]


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    "frame", ["{}", 'key: "{}",', "a\\n{}\\n", "see <{}>.", "\x1b[32m{}\x1b[0m"]
)
def test_a_token_is_found_where_it_stands(name: str, frame: str) -> None:
    kind, value = TOKENS[name]
    start = frame.index("{}")
    text = frame.format(value)
    assert find_secrets(text) == [Secret(kind, start, start + len(value))]


@pytest.mark.parametrize(("kind", "frame", "value"), IN_CONTEXT)
def test_a_value_is_found_by_its_context(kind: str, frame: str, value: str) -> None:
    text = frame.format(value)
    start = text.index(value)
    assert find_secrets(text) == [Secret(kind, start, start + len(value))]


def test_a_private_key_that_was_cut_off_is_found() -> None:
    text = PEM[:300] + '"'
    assert find_secrets(text) == [Secret("private-key", 0, 300)]


def test_several_secrets_come_in_order() -> None:
    values = [value for _, value in TOKENS.values()]
    found = find_secrets("\n".join(values))
    assert [secret.kind for secret in found] == [kind for kind, _ in TOKENS.values()]


BLOB = base64.b64encode(RANDOM.randbytes(60_000)).decode()

NO_SECRETS = [
    "commit " + some(40, HEX),
    '"sessionId":"' + uuid() + '"',
    '{"id":"msg_01' + some(22) + '","tool_use_id":"toolu_01' + some(22) + '"}',
    '"requestId":"req_011' + some(21) + '"',
    '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"' + BLOB + '"}}',
    '{"type":"thinking","thinking":"","signature":"' + BLOB[:2000] + '"}',
    '"integrity": "sha512-' + base64.b64encode(RANDOM.randbytes(64)).decode() + '"',
    'sdist = { url = "https://host/a.tar.gz", hash = "sha256:' + some(64, HEX) + '" }',
    "anyio==4.16.0 --hash=sha256:" + some(64, HEX),
    '"usage":{"input_tokens":41771983,"cache_read_input_tokens":241731984352}',
    'password = "xxxxxxxxxx"',
    'password = "<your-password1>"',
    'password = "${DB_PASSWORD}"',
    'password = "changeme"',
    'password = "example-pass-1"',
    'password: "password123"',
    "password = getpass.getpass()",
    "password=user.password2)",
    "password: string;",
    'token = os.environ["API_TOKEN_2"]',
    "token: process.env.TOKEN_2_PRODUCTION,",
    "TOKEN=$GITHUB_TOKEN_2",
    "PWD=/home/ada/project-2/src",
    "api_key: '{api_key}'",
    "api_key = PKCS7PrivateKeyTypes",
    'api_key="your_api_key_number_1"',
    'token_url = "https://host/oauth2/token/v2/a1b2c3"',
    'secret_name: "projects/41/secrets/db-main-2"',
    "secret: 'my-app-secret-name-v2'",
    'token = "' + uuid() + '"',
    "Authorization: Bearer <token>",
    "Authorization: Bearer $ANTHROPIC_API_KEY",
    "the bearer authentication-scheme-of-the-server is used",
    "https://user:password@host/ and https://user:${PASS}@host and http://a:b@c",
    "http://localhost:8080/@scope/package@1.2.3",
    "export ANTHROPIC_API_KEY=sk-" + "ant-api03-" + "x" * 95,
    "AKIA" + "IOSFODNN7" + "EXAMPLE",
    "gh" + "p_" + "x" * 36,
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + PEM_BODY + "\n-----END CERTIFICATE-----",
    "eyJ" + some(40),
    "task-management-for-risk-analysis-and-disk-usage-monitoring",
    "class='desk-" + some(8) + "'",
    "pass: test-suite-3 (12 of 12)",
    "pass = checks.all_of(results)",
    "first pass: 'parse_the_header_v2'",
    "PAD_TOKEN = '<pad>'; NEXT_TOKEN=00000000-0000-4000-8000-00000000abcd",
    "URL_PAT = re.compile(r'^/v1/items')",
    "password: this must been here",
    "ENV PUBLIC_KEY /etc/keys/public_2.pem",
    '["password", "confirm_password_2", "user_name_or_email_1"]',
    "auth=('user', os.environ['PASSWORD'])",
    "set_password('new_password')",
    "Passwort: vergessen",
    "Das Passwort lautet anders",
    "api_key=my_function_name_for_keys",
    "API_KEY=process.env.API_KEY; SECRET_KEY=YOUR_API_KEY_HERE",
    'api_key: "insert-your-key-here"; secret_key=settings.HTTPS_PROXY_KEY',
    "access_token = createHttpsProxyContext; client_secret=RPC_JSONRPC_ERROR_CODE",
    "Authorization: Bearer your_personal_access_token",
    "Authorization: Bearer mytoken12345",
    "Cookie: theme=dark-mode-2024; session=session-id-12",
    'password = f"{prefix}-{name}-2"',
    "password = f'Please enter {n + 1} words2'",
    'variable "db_password" { type = string }',
    'variable "token_name" { default = "my-token-name-2" }',
    "setx PATH_KEY_FILE %USERPROFILE%",
    "oc login --token=$TOKEN; oc login --token=<token>",
    "sqlplus / as sysdba @run_2.sql; sqlplus ${USER}/${PASS}@orcl",
    "net use Z: /user:bob /persistent:yes",
    "echo $PW | kinit bob; echo done2 | grep kinit",
    "prod:happy-cat-123|short",
    "std::cout :::deadbeef:::",
    "y0_velocity_of_the_center_of_mass_in_the_x_direction",
    'expect "assword:"\nsend "$password\\r"',
    "openssl req -new -key server.key -out server.csr",
    '"AWS::IAM::AccessKey": "bf29d4c1a07e4b6f9d3e8c5a2b1f0e7d",',
    '{"AWS::SecretsManager::Secret":"0f8e3ac97d5142b6a1c4d2e9f7b3a605"}',
]


@pytest.mark.parametrize("alphabet", [string.ascii_letters, string.ascii_lowercase, ALNUM])
@pytest.mark.parametrize("frame", ["Bearer @", "X_API_KEY=@", "SECRET_KEY=@", '"api_key": "@"'])
def test_random_values_after_a_strong_name_are_found(alphabet: str, frame: str) -> None:
    values = [some(RANDOM.randint(16, 40), alphabet) for _ in range(1_500)]
    missed = [value for value in values if value in mask(f"a {frame.replace('@', value)}")]
    assert len(missed) <= 15, missed


@pytest.mark.parametrize("frame", ["%@", "@%s", "@%s@", "@%(x", "%(@)s@"])
def test_passwords_that_contain_a_format_are_found(frame: str) -> None:
    for _ in range(100):
        password = frame.replace("@", some(12))
        assert (
            mask(f"password: '{password}'")
            == f"password: '{placeholder_for('password', password)}'"
        )


@pytest.mark.parametrize("value", ["%s", "%(db_password)s", "%DB_PASSWORD%", "%database_password%"])
def test_a_value_that_is_a_format_is_no_password(value: str) -> None:
    assert mask(f"password: '{value}'") == f"password: '{value}'"
    assert find_named("password", value) is None


def test_the_checksum_of_a_token_is_part_of_it() -> None:
    token = "ATA" + "TT3" + some(80) + "=NAKIWJN6"
    assert "NAKIWJN6" not in mask(f"key {token} end")


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_looks_like_a_secret_is_left(text: str) -> None:
    assert [(each.kind, text[each.start : each.end]) for each in find_secrets(text)] == []


def test_every_keyword_is_met_by_the_prefilter() -> None:
    table = json.loads(RULES.read_text("utf-8"))
    words = {word for rule in table["rules"] for word in rule["keywords"]}
    anchored = [word for found in table["anchors"].values() for word in found]
    assert sorted(words) == sorted(anchored)
    prefilter = re.compile(table["prefilter"])
    for anchor, found in table["anchors"].items():
        for word in found:
            hit = prefilter.search(f" {word} ", 1 + word.index(anchor))
            place = hit.start() if hit else -1
            assert len(anchor) > 1 or place == 1 + word.index(anchor), word


@given(before=st.text('aek-_ "', max_size=4), after=st.text('aek-_ "', max_size=4))
def test_no_neighbours_hide_a_keyword(before: str, after: str) -> None:
    _, letters, stems = _rules()
    for anchor in (letters | stems).values():
        for keyword in anchor.keywords:
            text = before + keyword.word + after
            part = len(before) + keyword.offset
            at = min(part, NEAR)
            near = text[part - at : part + anchor.size + NEAR]
            fitting = {each.word: each.rules for each in anchor.fitting(near, at)}
            # Rules for names are judged by their neighbours (see test_secret_prefilter.py).
            others = [rule for rule in keyword.rules if rule.kind]
            assert set(others) <= set(fitting.get(keyword.word, [])), (keyword.word, near)


@pytest.mark.parametrize("before", ["", "x_", '{"', "a\nb", "a.b-"])
def test_a_name_reaches_back_to_its_start(before: str) -> None:
    name = f"{before}api_key"
    assert [each.kind for each in find_secrets(f"{name}: {some(24)}")] == ["secret"]
    assert find_secrets(f"{before}key: value") == []


def test_every_rule_compiles() -> None:
    table = json.loads(RULES.read_text("utf-8"))
    assert len(table["rules"]) > 250
    assert all(re.compile(rule["regex"]) for rule in table["rules"])


# Masking


def test_a_secret_has_the_same_placeholder_everywhere() -> None:
    token = TOKENS["github classic"][1]
    expected = placeholder_for("github-token", token)
    assert re.fullmatch(MASKED, expected)
    assert mask(f"a {token} b") == f"a {expected} b"
    assert mask(f'GH_TOKEN="{token}"\n{token}') == f'GH_TOKEN="{expected}"\n{expected}'


def test_different_secrets_have_different_placeholders() -> None:
    one, other = TOKENS["github classic"][1], TOKENS["github oauth"][1]
    assert placeholder_for("github-token", one) != placeholder_for("github-token", other)


def test_mask_takes_another_placeholder() -> None:
    assert (
        mask("password = 'tr0ub4dor&3'", lambda kind, _: f"<{kind}>") == "password = '<password>'"
    )


def test_a_lone_surrogate_is_kept() -> None:
    assert mask("\ud800 password='tr0ub4\ud800dor3'").startswith("\ud800 password='[password:")


PIECES = [value for _, value in TOKENS.values()] + [f.format(v) for _, f, v in IN_CONTEXT]
GLUE = [
    "",
    " ",
    "\n",
    "\\n",
    '"',
    "'",
    "=",
    ":",
    "/",
    "_",
    "-",
    "x",
    "7",
    "token=",
    "password: ",
    "@",
    "://",
]


@given(st.lists(st.sampled_from(PIECES + GLUE), max_size=8))
def test_mask_is_idempotent(pieces: list[str]) -> None:
    masked = mask("".join(pieces))
    assert mask(masked) == masked


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
def test_no_planted_secret_survives(pieces: list[str]) -> None:
    masked = mask("\n" + "\n".join(pieces))
    assert not any(value in masked for _, value in TOKENS.values())


@given(st.text())
def test_spans_are_in_order_and_inside(text: str) -> None:
    end = 0
    for secret in find_secrets(text):
        assert end <= secret.start < secret.end <= len(text)
        end = secret.end


def test_long_runs_take_no_long_time() -> None:
    for run in (
        "-----BEGIN RSA PRIVATE KEY-----",
        "eyJ.",
        "://a:",
        "password=",
        "sk-",
        "Bearer a1",
        "xoxb-",
    ):
        find_secrets(run * (200_000 // len(run)))


@pytest.mark.parametrize("run", ["password%3D", "token=a1b2C3"])
def test_names_inside_of_a_value_are_not_checked_one_by_one(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    for name, check in CHECKS.items():
        noting = partial(_note, checked, check)
        monkeypatch.setitem(CHECKS, name, noting)
    text = run * 4_000
    (found,) = find_secrets(text)
    assert found.end == len(text)
    # Thousands of names, most of them in the value of an earlier one.
    assert len(checked) < 200


def _note(checked: list[str], check: Callable[[str], bool], value: str) -> bool:
    checked.append(value)
    return check(value)


def test_a_long_value_is_one_secret() -> None:
    value = some(2_000)
    (found,) = find_secrets(f"api_key={value} next")
    assert (found.start, found.end) == (8, 8 + len(value))


def test_a_bundle_of_certificates_takes_no_long_time() -> None:
    body = "\n".join(some(64) for _ in range(20))
    bundle = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n" * 150
    start = process_time()
    assert find_secrets(bundle) == []
    assert process_time() - start < 8


def test_importing_it_reads_no_rules() -> None:
    code = "import sys; from turnlog.secrets.detector import _rules"
    code += "; print(_rules.cache_info().currsize)"
    code += "; print('json' in sys.modules, 'click' in sys.modules, 'rich' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["0", "False", "False", "False"]


@pytest.mark.parametrize("prefix", ["", "+", "-", " "])
def test_a_private_key_split_into_lines_is_masked(prefix: str) -> None:
    lines = [f"{prefix}{line}" for line in ["before", *PEM.splitlines(), "after"]]
    masked = mask_value({"structuredPatch": [{"oldStart": 1, "lines": lines}]})
    shown = masked["structuredPatch"][0]["lines"]
    assert (shown[0], shown[-1]) == (f"{prefix}before", f"{prefix}after")
    assert not any(line in str(shown) for line in PEM_BODY.splitlines())


@pytest.mark.parametrize(
    "form",
    [
        "a/key.pem-{n}-{line}",
        "a/key.pem-{line}",
        "{n}-{line}",
        "{n:6}\t{line}",
        "+{line}",
        "> {line}",
    ],
)
@pytest.mark.parametrize("part", [slice(None), slice(0, -2), slice(2, None)])
def test_a_private_key_is_masked_in_the_output_of_grep_and_diff(form: str, part: slice) -> None:
    numbered = list(enumerate(PEM.splitlines(), 1))[part]
    shown = mask("\n".join(form.format(n=n, line=line) for n, line in numbered))
    assert not any(line in shown for line in PEM_BODY.splitlines())


def test_a_list_that_only_mentions_private_keys_stays_as_it_is() -> None:
    texts = ["grep 'PRIVATE KEY' -r .", "two\nlines"]
    assert mask_value(texts) == texts


def test_values_nested_deeper_than_python_recurses_are_cut() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [{"a": deep}]
    for shown in (mask_value(deep), cut_texts(deep, 9)):
        assert json.dumps(shown).count("[") == 50


def test_characters_that_unicode_calls_invisible_are() -> None:
    every = map(chr, range(0x110000))
    hidden = [each for each in every if unicodedata.category(each) in ("Cc", "Cf")]
    shown = "\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f\x85\x9b"  # the last one begins a sequence
    assert [each for each in hidden if visible(f"a{each}b") != "ab"] == list(shown)
    blank = "\u034f\u115f\u1160\u17b4\u180b\u2065\u2800\u3164\ufe0f\uffa0\ufff0\U000e0fff"
    assert visible(blank) == ""


@pytest.mark.parametrize("start", ["\x1b]8;;", "\x1bP", "\x9d", "\x90", "\x1b[1", "\x9b", "\x1b("])
def test_sequences_that_do_not_end_take_linear_time(start: str) -> None:
    start_time = process_time()
    assert find_secrets(start * 50_000) == []
    assert process_time() - start_time < 8


def test_escapes_spelled_out_inside_a_secret_are_not_part_of_it() -> None:
    assert visible("abc\\u200bdef") == visible("abc\u200bdef") == "abcdef"


@given(
    st.text("ab \n-", max_size=400),
    st.sampled_from([f"ghp_{some(36)}", f"PASSWORD={some(12)}", "-----BEGIN KEY-----", "x" * 5000]),
    st.text("ab \n-", max_size=400),
    st.integers(0, 700),
)
def test_what_is_kept_to_be_cut_later_is_cut_at_the_same_place(
    before: str, middle: str, after: str, limit: int
) -> None:
    text = before + middle + after
    assert cut_whole(before_cut(text, limit), limit) == cut_whole(text, limit)


def test_forty_characters_before_a_keyword_are_enough_for_base64() -> None:
    data = "q8Zk3VtW1nYx7RbP0mLs5DfGh2JcKeUaTi9oXwE4"
    assert _in_base64(f"{data}EAAC", len(data))
    assert not _in_base64(f"{data[1:]}EAAC", len(data) - 1)


def test_a_password_field_of_letters_needs_eight() -> None:
    assert find_named("password", "sunshine")
    assert not find_named("password", "sunshin")


def test_words_with_digits_are_not_random() -> None:
    assert not _is_random("release-v2-notes-final")
    assert not _is_random("Pkcs7PrivateKeyTypes")
    assert _is_random("r8Qz!k2Lw0#tYb6NpV")


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("https://a.dev/?next=", "ghp%5F" + some(36), ""),
        ("key is ", "sk%2Dant%2Dapi03%2d" + some(93) + "AA", " and more"),
        ("?to=%2Flogin%3Fclient_secret%3D", some(32), ""),
        ("x" * 2000 + " a%2Db ", "ghp%5f" + some(36), " c%5Fd"),
    ],
)
def test_percent_encoded_signs_do_not_hide_a_secret(before: str, value: str, after: str) -> None:
    text = before + value + after
    assert [text[each.start : each.end] for each in find_secrets(text)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "?data=abc%3D%3D&page=2",
        "redirect_uri%3Dhttps%3A%2F%2Fexample.com%2Fdone",
        "my%2Dfile%5Fname%2Dof%2Da%2Dreport",
        "token%3Dabc",
        "date +%25Y%2D%25m",
    ],
)
def test_percent_encoded_text_without_a_secret(text: str) -> None:
    assert find_secrets(text) == []


def test_a_name_without_ascii_letters_is_no_error() -> None:
    assert find_secrets("secret_key = 'пароль_для_базы_7'") == []


@pytest.mark.parametrize("before", ["desk-+", "risk-", "a/b-", "x = 12 -", "a.b.c-d-", "a, b-"])
def test_a_sign_inside_a_line_does_not_begin_a_token(before: str) -> None:
    assert find_secrets(f"x {before}key-{some(32, HEX)}") == []
