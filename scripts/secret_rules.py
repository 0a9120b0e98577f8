"""turnlog's own secret rules: tokens by prefix, values by name, values by command or format.

Each rule has keywords, literals that announce it: a regex runs only where one of them stands.
Forms and lengths are those that vendors document or that gitleaks-like scanners agree on; lengths
are lower bounds where vendors reserve the right to change them.
"""

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from turnlog.secrets.names import SUFFIX

END = r"(?![0-9A-Za-z_-])"
WORD = r"[0-9A-Za-z]"
URLSAFE = r"[0-9A-Za-z_-]"
HEX = r"[0-9a-f]"
SHORT = 5
"""Characters of a prefix that words begin with too: what follows it must look random."""
UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
BASE64 = r"[0-9A-Za-z+/=]"
BREAK = r"(?:\s|\\+[nrt])"
KEY_LINE = rf"(?:[0-9 ]{{1,8}}→|[0-9]{{1,6}}\t|[\w./:-]{{0,80}}?[-:+](?={BASE64}{{20}}|-----END )|[+>] ?| )?"
"""What precedes a line of a private key: a number, the mark of a diff, or what grep prints."""
MARK = (
    r"(?:[0-9 ]{1,8}→|[0-9]{1,7}[\t:-]|[0-9]{1,7} (?=[+-])|[\w./-]{1,80}[:-][0-9]{1,7}[:-])?[+<>-]?"
)
"""What precedes any line in the output of diff and grep; it may be empty."""
NEXT_LINE = rf"(?:(?<=[\nn]){MARK}[ \t]{{0,40}})?"
"""The mark and the indentation of a line whose break has just been matched, as it is or as `\\n`."""
AT_MARK = r"(?:(?<=^[>-])|(?<=\\[nr])|(?<=[\n\"'`][>-])|(?<=[ \t]-)|(?<=\\[nr][>-])|(?<=[0-9]-))"
"""A lookbehind for such a mark, where a `-` or `>` in front of a word has another meaning."""


class Rule(NamedTuple):
    """A rule as the table of turnlog.secrets has it."""

    kind: str
    regex: str
    """Its group `value…` is masked, or `bare…` for a value without quotes, or else the whole match."""
    keywords: Iterable[str]
    check: str = ""
    """The check for a value: a name in CHECKS of turnlog.secrets.value_checks."""
    back: int = 0
    """Maximum distance from the start of a match to its keyword."""
    glued: str = "yes"
    """Letters may precede it: `yes`, `no`, or `dense` if it looks random by itself. With `name`, the
    keyword ends the name of a value, which turnlog.secrets.names rates."""


def cased(words: str) -> list[str]:
    """Each word in lower case, capitals, and with a capital first.

    >>> cased("token")
    ['token', 'TOKEN', 'Token']
    """
    return [form for w in words.split() for form in (w, w.upper(), w.capitalize())]


def combined(*letters: str) -> list[str]:
    return ["".join(chosen) for chosen in product(*letters)]


def token(kind: str, prefixes: str, body: str, glued: str = "dense") -> Rule:
    """A token that begins with one of some prefixes."""
    words = prefixes.split()
    escaped = "|".join(word.replace(".", r"\.").replace("$", r"\$") for word in words)
    check = "dense" if min(map(len, words)) <= SHORT and not prefixes.isupper() else ""
    return Rule(kind, rf"(?:{escaped}){body}{END}", words, check, glued=glued)


# kind, prefixes, what follows them
PREFIXED = [
    ("adobe-secret", "p8e-", rf"{URLSAFE}{{32}}"),
    ("adafruit-key", "aio_", rf"{WORD}{{28}}"),
    ("adyen-key", "AQE", r"[0-9A-Za-z+/=]{80,400}(?:-[0-9A-Za-z+/=]{20,80}-[0-9A-Za-z]{10,40})?", "no"),
    ("anthropic-key", "sk-ant-", rf"[a-z]{{3,8}}[0-9]{{2}}-{URLSAFE}{{32,160}}"),
    ("apify-token", "apify_api_", rf"{WORD}{{30,50}}"),
    ("atlassian-token", "ATATT3 ATCTT3 ATSTT3",
     r"[0-9A-Za-z_-]{60,800}(?:(?:\\?=|(?:%|\\u00)3[dD])[A-Z0-9]{8})?"),
    ("aws-access-key", "AKIA ASIA ABIA ACCA", r"[0-9A-Z]{16}"),
    ("aws-secret-token", "aws_session_token=", r"[0-9A-Za-z+/=]{100,2000}"),
    ("axiom-token", "xaat- xapt-", UUID),
    ("azure-function-key", "AzFu", r"[0-9A-Za-z_=-]{40,60}"),
    ("beamer-token", "b_", rf"{WORD}{{44}}"),
    ("bitbucket-app-password", "ATBB", rf"{WORD}{{28,40}}"),
    ("brave-search-key", "BSA", rf"(?=[0-9A-Za-z_-]{{0,27}}[0-9]){URLSAFE}{{27,29}}", "no"),
    ("brevo-key", "xsmtpsib-", rf"{HEX}{{64}}-{WORD}{{16}}"),
    ("browserbase-key", "bb_live_ bb_test_", rf"{URLSAFE}{{24,40}}"),
    ("buildkite-token", "bkua_ bkct_ bkaj_ bkar_ bkpi_", rf"{WORD}{{36,64}}"),
    ("cerebras-key", "csk-", rf"{WORD}{{40,60}}"),
    ("clerk-key", "ak_live_ ak_test_", rf"{WORD}{{24,64}}"),
    ("clickup-token", "pk_", r"[0-9]{6,9}_[0-9A-Z]{32}"),
    ("cloudflare-origin-key", "v1.0-", rf"{HEX}{{24}}-{HEX}{{146}}"),
    ("contentful-token", "CFPAT-", rf"{URLSAFE}{{43}}"),
    ("context7-key", "ctx7sk-", UUID),
    ("crates-io-token", "cio", rf"{WORD}{{32}}", "no"),
    ("cursor-key", "crsr_ key_", rf"{HEX}{{64}}"),
    ("daytona-key", "dtn_", rf"{HEX}{{64}}"),
    ("deno-token", "ddp_ ddo_", rf"{WORD}{{36}}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"{HEX}{{64}}"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
     r"(?:[0-9a-z_-]{2,35}\.)?[0-9A-Za-z]{40,44}"),
    ("dub-key", "dub_", rf"{WORD}{{24}}"),
    ("duffel-token", "duffel_live_ duffel_test_", r"[0-9A-Za-z_=-]{43}"),
    ("dust-key", "sk-dust-", rf"{WORD}{{20,64}}"),
    ("e2b-key", "e2b_", rf"{HEX}{{40}}"),
    ("easypost-key", "EZAK EZTK", rf"{WORD}{{54}}"),
    ("elevenlabs-key", "sk_", rf"{HEX}{{48}}"),
    ("expo-token", "exp_", rf"{URLSAFE}{{40}}"),
    ("firecrawl-key", "fc-", rf"{HEX}{{32}}"),
    ("fireworks-key", "fw_", rf"{WORD}{{22,24}}"),
    ("flutterwave-key", "FLWSECK-", r"[0-9A-Za-z]{32}-X"),
    ("flutterwave-key", "FLWSECK_TEST-", r"[0-9A-Za-z]{12,40}(?:-X)?"),
    ("fly-token", "fm2_ fm1r_ fm1a_ fo1_", r"[0-9A-Za-z+/=_-]{40,2000}(?:,fm2_[0-9A-Za-z+/=_-]{40,2000})*"),
    ("frameio-token", "fio-u-", rf"{URLSAFE}{{64}}"),
    ("gitguardian-token", "ggtt-v-", rf"{URLSAFE}{{10,64}}"),
    ("google-api-key", "AQ.Ab8R", rf"{URLSAFE}{{30,80}}"),
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{WORD}{{36,255}}"),
    ("gitlab-token", "glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glwt- glsoat- glffct-",
     rf"{URLSAFE}{{20,64}}(?:\.[0-9A-Za-z_-]{{2,16}}){{0,2}}"),
    ("grafana-token", "glc_ glsa_", r"[0-9A-Za-z_=+/-]{32,400}"),
    ("grafana-token", "eyJrIjoi", r"[0-9A-Za-z+/]{60,200}={0,2}"),
    ("groq-api-key", "gsk_", rf"{WORD}{{40,64}}"),
    ("helicone-key", "sk-helicone- pk-helicone-", rf"{URLSAFE}{{24,80}}"),
    ("honeycomb-key", "hcaik_ hcxik_ hcaic_ hcamk_", rf"{WORD}{{26,70}}"),
    ("hubspot-token", "pat-na1- pat-na2- pat-eu1- pat-ap1-", UUID),
    ("hugging-face-org-token", "api_org_", rf"{WORD}{{34}}"),
    ("hugging-face-user-access-token", "hf_", rf"{WORD}{{30,40}}"),
    ("infisical-token", "st.", rf"{HEX}{{24}}\.{HEX}{{32}}\.{HEX}{{32}}", "no"),
    ("infracost-key", "ico-", rf"{WORD}{{32}}"),
    ("intercom-token", "dG9rO", r"[0-9A-Za-z+/]{53,57}={0,2}"),
    ("inngest-key", "signkey-prod- signkey-test- signkey-branch-", rf"{HEX}{{32,64}}"),
    ("jina-key", "jina_", rf"{URLSAFE}{{50,80}}"),
    ("klaviyo-key", "pk_", rf"{HEX}{{34}}"),
    ("langfuse-key", "sk-lf-", UUID),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", rf"{HEX}{{32}}_{HEX}{{10}}"),
    ("launchdarkly-key", "sdk-", rf"[0-9a-f]{{8}}-(?:{HEX}{{4}}-){{3}}{HEX}{{12}}", "no"),
    ("launchdarkly-key", "api-", UUID, "no"),
    ("linear-api-key", "lin_api_ lin_oauth_", rf"{WORD}{{40,64}}"),
    ("lob-key", "live_ test_", rf"{HEX}{{35}}"),
    ("mapbox-token", "sk.eyJ", r"[0-9A-Za-z_-]{40,400}\.[0-9A-Za-z_-]{20,40}"),
    ("mercury-token", "secret-token:mercury_production_ secret-token:mercury_sandbox_",
     r"[0-9A-Za-z_.]{20,100}"),
    ("mollie-key", "live_ test_", rf"{WORD}{{30}}"),
    ("modal-token", "as- ak-", rf"{WORD}{{22}}", "no"),
    ("mongodb-atlas-key", "mdb_sa_sk_", rf"{URLSAFE}{{36,50}}"),
    ("neon-key", "napi_", rf"{WORD}{{40,80}}"),
    ("netlify-token", "nfp_ nfc_ nfo_ nfu_", rf"{WORD}{{36,40}}"),
    ("notion-integration-token", "ntn_", rf"{WORD}{{40,60}}"),
    ("notion-integration-token", "secret_", rf"{WORD}{{43}}"),
    ("nvidia-key", "nvapi-", rf"{URLSAFE}{{60,70}}"),
    ("octopus-key", "API-", r"[0-9A-Z]{26,32}", "no"),
    ("onepassword-token", "ops_eyJ", r"[0-9A-Za-z_=+/-]{200,2000}"),
    ("onesignal-key", "os_v2_app_ os_v2_org_", r"[0-9a-z]{80,120}"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", rf"{URLSAFE}{{40,240}}"),
    ("openshift-token", "sha256~", rf"{URLSAFE}{{43}}"),
    ("packagist-token", "packagist_ort_ packagist_out_ packagist_uut_", rf"{HEX}{{68}}"),
    ("paddle-key", "pdl_live_apikey_ pdl_sdbx_apikey_", r"[0-9a-z]{26}_[0-9A-Za-z]{22}_[0-9A-Za-z]{3}"),
    ("pinecone-key", "pcsk_", r"[0-9A-Za-z_]{50,90}"),
    ("plaid-token", "access-production- access-sandbox- access-development-", UUID),
    ("polar-token", "polar_oat_ polar_pat_ polar_whs_", rf"{WORD}{{32,64}}"),
    ("portkey-key", "pk-portkey-", rf"{WORD}{{16,64}}"),
    ("prefect-key", "pnu_ pnb_", rf"{WORD}{{36}}"),
    ("razorpay-key", "rzp_live_ rzp_test_", rf"{WORD}{{14,30}}"),
    ("readme-key", "rdme_", r"[0-9a-z]{70}"),
    ("render-key", "rnd_", rf"{WORD}{{28,40}}"),
    ("replicate-token", "r8_", rf"{WORD}{{37,40}}"),
    ("resend-key", "re_", r"[0-9A-Za-z]{8,10}_[0-9A-Za-z]{20,30}"),
    ("runpod-key", "rpa_", r"[0-9A-Z]{36,50}[0-9a-z]{0,10}"),
    ("scaleway-access-key", "SCW", r"[0-9A-Z]{17}"),
    ("scalingo-token", "tk-us-", rf"{URLSAFE}{{48}}"),
    ("segment-token", "sgp_", rf"{WORD}{{64}}"),
    ("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", rf"{WORD}{{16}}"),
    ("shippo-token", "shippo_live_ shippo_test_", rf"{HEX}{{40}}"),
    ("slack-token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxc- xoxd- xoxe- xoxe. xapp- xwfp-",
     r"[0-9A-Za-z.%+/_-]{10,800}"),
    ("snyk-token", "snyk_uat. snyk_sat.", r"[0-9a-f]{8}\.[0-9A-Za-z_.-]{40,400}"),
    ("statsig-key", "secret-", rf"{WORD}{{40,48}}", "no"),
    ("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_ whsec_", rf"{WORD}{{16,250}}"),
    ("stytch-secret", "secret-live- secret-test-", rf"{URLSAFE}{{35,36}}=?"),
    ("supabase-key", "sb_secret_", rf"{URLSAFE}{{20,60}}"),
    ("svix-secret", "whsec_", r"[0-9A-Za-z+/]{24,100}={0,2}"),
    ("telnyx-key", "KEY0", r"[0-9A-Fa-f]{31}_[0-9A-Za-z]{22}"),
    ("tencent-secret-id", "AKID", rf"{WORD}{{32}}"),
    ("trello-token", "ATTA", rf"{HEX}{{64}}{WORD}{{8}}"),
    ("trigger-dev-key", "tr_prod_ tr_dev_ tr_stg_ tr_pat_", rf"{WORD}{{20,64}}"),
    ("ubidots-token", "BBFF-", rf"{WORD}{{30}}"),
    ("unkey-key", "unkey_", rf"{WORD}{{20,40}}"),
    ("vault-token", "hvs. hvb. hvr.", rf"{URLSAFE}{{24,300}}"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", rf"{WORD}{{24,64}}"),
    ("vercel-blob-token", "vercel_blob_rw_", r"[0-9A-Za-z]{16}_[0-9A-Za-z]{30}"),
    ("voyage-key", "pa-", rf"{URLSAFE}{{43}}", "no"),
    ("wandb-key", "wandb_v1_", r"[0-9A-Za-z_]{40,90}"),
    ("xata-key", "xau_", rf"{WORD}{{43,64}}"),
    ("yandex-key", "AQVN", rf"{URLSAFE}{{35,38}}"),
    ("yandex-token", "y0_ y1_ y2_ y3_", rf"{URLSAFE}{{39,80}}", "no"),
    ("zuplo-key", "zpka_", r"[0-9a-z]{32}_[0-9a-f]{8}"),
    ("extended-private-key", "xprv yprv zprv tprv", r"[1-9A-HJ-NP-Za-km-z]{105,115}"),
    ("aws-appsync-key", "da2-", r"[a-z0-9]{26}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", rf"{WORD}{{22}}_{HEX}{{40}}"),
    ("sentry-token", "sntrys_ sntryu_ sntrya_ sntryi_", r"[0-9A-Za-z_=+/-]{40,800}"),
    ("databricks-token", "dapi dkea", rf"{HEX}{{32}}(?:-[0-9])?"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_", r"[0-9A-Fa-f]{32}"),
    ("pulumi-token", "pul-", rf"{HEX}{{40}}"),
    ("tailscale-key", "tskey-", r"(?:[a-z]{2,10}-)?[0-9A-Za-z]{10,24}(?:-[0-9A-Za-z]{20,64})?"),
    ("replit-token", "replit_", rf"{WORD}{{32,64}}"),
    ("dynatrace-token", "dt0c01. dt0s01. dt0s02. dt0s03. dt0s04. dt0s06. dt0s08. dt0s16.",
     r"[0-9A-Z]{24}\.[0-9A-Z]{64}"),
]  # fmt: skip

QUOTE = r"(?P<q>\\{0,8}[\"'`])"
ASSIGN = (
    r"(?:\\{0,8}[\"'`])?\]?\s{0,4}"
    r"(?:%3[dD]|:\s{0,2}(?:str|string|String|bytes|Optional\[str\]|&str|&'static str)(?: ?\| ?[A-Za-z]{1,12})?"
    r"\s{0,2}=|:=|=>|={1,3}|:|(?:is|was):?\s)\s{0,8}(?:(?:[bruN&]{1,2}|f(?=\\{0,8}[\"'][^\"'{}\n]{0,200}[\"']))(?=\\{0,8}[\"']))?"
)
"""`: str =` of typed code too, and `"] =` behind `os.environ["API_KEY`."""
ASSIGN_NO_TYPE = r"(?:\\{0,8}[\"'`])?\]?\s{0,4}(?::=|=>|={1,3}|:)\s{0,4}"
QUOTED = rf"{QUOTE}(?P<value>[^\n\r]{{4,600}}?)(?<!\\)(?P=q)"
BARE = r"(?P<bare>[^\s\"'`\\<][^\s\"'`\\]{4,600})"
VALUE = rf"(?:{QUOTED}|{BARE})"


def value(suffix: str) -> str:
    """Return VALUE with groups of other names, as a regex may have each name once."""
    return (
        VALUE.replace("<q>", f"<q{suffix}>")
        .replace("P=q)", f"P=q{suffix})")
        .replace("<value>", f"<value{suffix}>")
        .replace("<bare>", f"<bare{suffix}>")
    )


FLAG_GAP = r"(?:\\{0,8}[\"'],\s{0,4}(?=\\{0,8}[\"'])|\s{1,4}(?!-))"
"""Separator of a flag and its value: a space, or a comma in a list of arguments."""

ENDS = [
    *cased("password passwd passphrase passcode pass pwd psk key token secret"),
    "CRED",
    "Cred",
    *cased("requirepass masterauth"),
    *"_pw _PW _PAT PassWord SALT Salt".split(),
]
"""Last words of names of secrets."""

END_WORD = r"(?i:passw(?:or)?d|passphrase|passcode|pass|pwd|psk|_pw|_pat|key|tokens?|secrets?|cred(?:ential)?s?|salt|requirepass|masterauth)"

NAME_GOES_ON = (
    r"(?=[\s\"'`\]\\:=>_.,0-9-]|%3[dD]|(?i:prod|dev|test|stag|live|admin|root|user|val|key|base|hash|string|b64|data|prim"
    r"|sec|writ|read|new))"
)
"""Pattern after such a word: `keyboard` does not end in `key`."""

# Names that make a string secret
NAMED = [
    # First what ends most attempts: `"output_tokens":41` in each answer of a model, and prose.
    Rule("", r"(?!tokens\\{0,8}\"\s?:\s?[0-9])" + END_WORD + NAME_GOES_ON + SUFFIX + "(?:" + "|".join([
        ASSIGN + r"(?![0-9]{1,12}(?:[,}\]\s]|$))" + value(""),
        r"\\{0,8}[\"']?(?:[\s,]|\\{1,8}n){1,40}" + NEXT_LINE + r"\\{0,8}[\"']?[Vv]alue\\{0,8}[\"']?\s{0,4}[:=]\s{0,4}" + value("_next"),
        r"(?:\s[\w:.-]{1,30}=[^<>\n]{0,60})?>\s{0,8}(?P<value_xml>[^<>\s]{4,4000})\s{0,8}</",
    ]) + ")", ENDS, glued="name"),
    Rule("", "(?<=-)" + END_WORD + FLAG_GAP + value("_flag"), ENDS, glued="name"),
    Rule("password", r"(?i:password|by(?: password)?)\s{1,4}(?P<q>\\{0,4}')(?P<value>[^\n']{4,400}?)"
         r"(?<!\\)(?P=q)", [*cased("password"), "BY '", "by '", "BY PASSWORD '"], "password"),
    Rule("password", r"(?i:requirepass|masterauth)\s{1,8}(?P<bare>[^\s\"'`\\]{6,400})\s{0,2}(?:\n|$|\\)",
         cased("requirepass masterauth"), "password"),
    Rule("password", r"define\(\s{0,4}[\"'][A-Z_]{0,30}(?:PASSWORD|PASS|SECRET|TOKEN)[\"'],\s{0,24}(?P<q>[\"'])(?P<value>[^\n]{4,200}?)(?P=q)",
         ["define('", "define( '", 'define("', 'define( "'], "password"),
    Rule("secret", r"define\(\s{0,4}'[A-Z_]{3,20}(?:KEY|SALT)',\s{0,24}'(?P<value>[^'\n]{20,200})'",
         ["define('", "define( '"], "wordpress"),
    # The name is a word of its own here, so the value has to look random.
    Rule("password", rf"(?:(?<![\w.$>-])|{AT_MARK})" r"pass\s{0,2}[:=]\s{0,2}" + VALUE, ["pass:", "pass =", "pass=", "pass :"], "lone"),
    Rule("password", r"(?i:passwort|kennwort|contrase(?:\u00f1|\\u00f1|n)a|mot de passe|senha|wachtwoord)(?:\s{0,2}[:=]|\s(?i:lautet):?)\s{0,2}" + VALUE,
         [*cased("passwort kennwort contrase senha wachtwoord"), "mot de passe", "Mot de passe"], "password"),
    Rule("password", r"(?i:passw(?:or)?d)[\"']?\s{0,2}[:=]\s{0,2}\\{0,4}[\"']?(?P<value>[a-z]{4}(?:[ -][a-z]{4}){3})(?=[\"',;\\]|\s*(?:\n|$))",
         cased("password passwd"), "app-password"),
    Rule("secret", r"(?i:token|secret|password|passwd|api_?key|_key)\\{0,4}[\"'],\s{0,4}" + QUOTED,
         [word + quote + "," for word in cased("token secret password passwd key") for quote in ("\"", "'")], "random"),
    Rule("password", r"(?:BasicAuth\(|\bauth ?= ?\(|\bcredentials ?= ?\()\s{0,8}[\"'][^\"'\n]{1,100}[\"'],\s{0,8}" + QUOTED,
         ["BasicAuth(", "auth=(", "auth = (", "credentials=(", "credentials = ("], "password"),
    Rule("password", r"(?:set_|set|make_|hash_?)[pP]assword\(\s{0,8}" + QUOTED,
         ["set_password(", "setPassword(", "make_password(", "hashPassword(", "hash_password("], "key"),
    Rule("secret", r"(?:ENV|ARG|setenv|setx|set -[a-zA-Z]{1,3}) \w{0,60}(?:PASSWORD|PASSWD|PASS|SECRET|TOKEN|KEY|PAT) " + VALUE,
         ["ENV ", "setenv ", "setx ", *(f"set -{flags} " for flags in "x gx Ux xg xU lx".split())], "key"),
    Rule("password", r"PASSWORD\(\s{0,4}" + QUOTED, ["PASSWORD('", "PASSWORD(\"", "PASSWORD( "], "password"),
    Rule("password", r"variable \\{0,8}\"\w{0,60}passw\w{0,30}\\{0,8}\"\s{0,4}\{[^{}]{0,400}?default\s{0,8}=\s{0,8}" + QUOTED,
         ["variable \"", "variable \\"], "password"),
    Rule("secret", r"variable \\{0,8}\"\w{0,60}(?:secret|token|api_?key)\w{0,30}\\{0,8}\"\s{0,4}\{[^{}]{0,400}?default\s{0,8}=\s{0,8}" + QUOTED,
         ["variable \"", "variable \\"], "random"),
    Rule("secret", r"(?:django-insecure-)[^\s\"'`]{30,80}", ["django-insecure-"], ""),
    Rule("secret", r"base64:(?P<value>[0-9A-Za-z+/]{43}=)", ["=base64:", "='base64:", '="base64:']),
]  # fmt: skip

# Formats that are secret by themselves, or next to their name
FORMATS = [
    Rule("api-key", r"sk-(?!\w{20}T3BlbkFJ)(?=[A-Za-z]{0,40}[0-9])"
         rf"[0-9A-Za-z]{{32,64}}{END}", ["sk-"], glued="no"),
    Rule("aws-secret-key", rf"(?i:secret_?access_?key|secret_?key|aws_?secret)(?:{ASSIGN_NO_TYPE}|\s{{1,4}})"
         r"\\{0,8}[\"'`]?(?P<value>[0-9A-Za-z/+]{40})(?![0-9A-Za-z/+=])",
         [*cased("secret_access_key secret_key aws_secret"), "secretAccessKey", "SecretAccessKey",
          "secretKey", "SecretKey", "awsSecret"]),
    Rule("aws-session-token", rf"(?i:session_?token|security_?token|x-amz-security-token){ASSIGN_NO_TYPE}"
         r"\\{0,8}[\"'`]?(?P<value>[0-9A-Za-z/+=%]{100,3000})",
         [*cased("session_token security_token x-amz-security-token"), "sessionToken", "SessionToken",
          "securityToken", "SecurityToken", "X-Amz-Security-Token"]),
    Rule("google-refresh-token", rf"1//0[0-9A-Za-z_-]{{40,400}}{END}", ["1//0"], glued="dense"),
    Rule("mailchimp-key", rf"[0-9a-f]{{32}}-us[0-9]{{1,2}}{END}", ["-us"], back=32, glued="no"),
    Rule("mailgun-key", rf"key-[0-9a-f]{{32}}{END}", ["key-"], glued="no"),
    Rule("twilio-key", r"(?:AC|SK)[0-9a-f]{32}(?![0-9A-Za-z_+/-])",
         [*combined("A", "C", "0123456789abcdef"), *combined("S", "K", "0123456789abcdef")],
         glued="no"),
    Rule("discord-token", rf"[MNO][DTjz][AEIMQUYcgk][0-9A-Za-z]{{20,24}}\.[0-9A-Za-z_-]{{6}}\.[0-9A-Za-z_-]{{27,40}}{END}",
         combined("MNO", "DTjz"), glued="no"),
    Rule("hashicorp-terraform-token", rf"[0-9A-Za-z]{{14}}\.atlasv1\.[0-9A-Za-z_-]{{60,80}}{END}",
         [".atlasv1."], back=14),
    Rule("azure-devops-token", rf"[0-9A-Za-z]{{76}}AZDO[0-9A-Za-z]{{4}}{END}", ["AZDO"], back=76),
    Rule("azure-registry-password", r"[0-9A-Za-z+/]{42}\+ACR[0-9A-Za-z+/]{6}(?![0-9A-Za-z+/])", ["+ACR"], back=42),
    Rule("azure-function-key", r"azurewebsites\.net/[^\s\"'?]{1,200}\?(?:[^\s\"']{0,200}&)?code=(?P<value>[0-9A-Za-z_%/+-]{40,100}={0,2})",
         ["azurewebsites.net/"]),
    Rule("newrelic-license-key", r"[0-9a-f]{36}FFFFNRAL", ["FFFFNRAL"], back=36),
    Rule("onepassword-secret-key", r"A3-[0-9A-Z]{6}(?:-[0-9A-Z]{5,6}){5}(?![0-9A-Za-z-])", ["A3-"], glued="no"),
    Rule("twitter-bearer-token", r"A{19,24}[0-9A-Za-z]{6,80}%[23][0-9A-Fa-f][0-9A-Za-z%]{20,100}", ["A" * 19], glued="no"),
    Rule("copilot-token", r"tid=[0-9a-f]{32};[^\s\"'\\]{10,800}:[0-9a-f]{64}", ["tid="], glued="no"),
    Rule("v0-key", rf"v1:[0-9A-Za-z]{{24}}:[0-9A-Za-z]{{24}}{END}", ["v1:"], "dense", glued="no"),
    Rule("clickhouse-key", rf"4b1d(?=[0-9a-z]{{0,12}}[A-Z])[0-9A-Za-z]{{38}}{END}", ["4b1d"], "dense", glued="no"),
    Rule("url-token", r"(?:infura\.io/(?:ws/)?v3|g\.alchemy\.com/(?:nft/)?v[0-9])/(?P<value>[0-9A-Za-z_-]{28,40})(?![0-9A-Za-z_-])",
         ["infura.io/", "g.alchemy.com/"]),
    Rule("url-token", r"[?&](?:appid|APPID)=(?P<value>[0-9a-f]{32})(?![0-9a-f])", ["?appid=", "&appid=", "?APPID=", "&APPID="]),
    Rule("vault-key", r"(?:Unseal|Recovery) Key(?: [0-9]{1,2})?: (?P<value>[0-9A-Za-z+/]{43,44}=?|[0-9a-f]{66})(?![0-9A-Za-z+/])",
         ["Unseal Key", "Recovery Key"]),
    Rule("azure-storage-key", r"(?:AccountKey|SharedAccessKey|SharedSecretKey|AccessKey)="
         r"(?P<value>[0-9A-Za-z+/]{43,86}={1,2})",
         ["AccountKey=", "SharedAccessKey=", "SharedSecretKey=", "AccessKey="]),
    Rule("azure-sas-signature", r"(?:[?&;\"]|\\u0026|%26)sig=(?P<value>[0-9A-Za-z%+/_-]{20,120}(?:=|%3[dD]){0,2})",
         ["?sig=", "&sig=", ";sig=", "u0026sig=", "%26sig="]),
    Rule("signed-url", r"(?i:x-(?:amz|goog)-signature)(?:=|%3[dD])(?P<value>[0-9a-fA-F]{32,1024})",
         ["X-Amz-Signature", "X-Goog-Signature", "x-amz-signature", "x-goog-signature"]),
    Rule("signed-url", r"(?:[?&]|\\u0026|%26)(?:Signature|signature|hmac|hdnts|__token__)=(?P<value>[0-9A-Za-z%+/_~=.*-]{20,800})",
         ["?Signature=", "&Signature=", "u0026Signature=", "%26Signature=", "?signature=",
          "&signature=", "&hmac=", "?hmac=", "?hdnts=", "&hdnts=", "?__token__=", "&__token__="]),
    Rule("signed-url", r"(?:AWS4-HMAC-SHA256|GOOG4-[A-Z0-9-]{4,20})[^\n]{0,400}?Signature=(?P<value>[0-9a-f]{64})",
         ["AWS4-HMAC-SHA256", "GOOG4-"]),
    Rule("npm-auth", r"_(?:authToken\s|(?:authToken|password|auth)\s{0,2}=)\s{0,2}\\{0,4}[\"']?(?P<value>[0-9A-Za-z_=+/-]{8,400})",
         ["_authToken", "_auth=", "_auth =", "_password=", "_password ="], "opaque"),
    Rule("heroku-key", rf"(?i:heroku)[^\n]{{0,60}}?(?<![0-9A-Fa-f-])(?P<value>{UUID}){END}",
         cased("heroku")),
    Rule("jwt", r"eyJ[0-9A-Za-z_-]{10,8000}(?:\.[0-9A-Za-z_-]{0,8000}){1,3}"
         r"\.[0-9A-Za-z_-]{20,8000}={0,2}", ["eyJ"], glued="dense"),
    Rule("private-key", r"-----BEGIN [0-9A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,8}-----"
         # `grep -C` puts a dash in front of each line, so that six of them precede END.
         r"(?:(?:[^-]|-(?!----)){40,16000}-{5,7}END [0-9A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,8}-----"
         r"|(?:[\s0-9A-Za-z+/=:,._→>|]|-(?!-)|\\+[nrt]){40,16000})", ["-----BEGIN "], "private-key"),
    # Possessive, and from the start of a line: a bundle of certificates must not take minutes.
    Rule("private-key", rf"(?<!{BASE64})(?:{BASE64}{{40,80}}+{BREAK}{{1,8}}+{KEY_LINE}){{1,200}}+{BASE64}{{0,80}}+{BREAK}{{0,8}}+"
         rf"{KEY_LINE}-----END [0-9A-Z ]{{0,30}}PRIVATE KEY",
         [f"-----END {kind}PRIVATE" for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")],
         "private-key", back=4000),
    Rule("private-key", r"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----[^-]{40,16000}", ["---- BEGIN SSH2 "],
         "private-key"),
    Rule("putty-key", r"Private-Lines: [0-9]{1,3}(?P<value>(?:(?:\s|\\+[nr]){1,8}" rf"{MARK} ?[0-9A-Za-z+/=]{{1,64}}){{1,60}})"
         rf"(?:(?:\s|\\+[nr]){{1,8}}{MARK} ?" r"Private-(?:MAC|Hash): [0-9a-f]{40,64})?", ["Private-Lines: "]),
    Rule("private-key", r"LS0tLS1CRUdJTi[0-9A-Za-z+/=_-]{80,40000}", ["LS0tLS1CRUdJTi"], "pem64",
         glued="no"),
    Rule("jwk", r"\\{0,8}[\"'](?:d|k)\\{0,8}[\"']\s{0,4}:\s{0,4}\\{0,8}[\"'](?P<value>[0-9A-Za-z_-]{22,1400}"
         r"(?:[^{}]{0,300}?[\"'](?:p|q|dp|dq|qi)\\{0,8}[\"']\s{0,4}:\s{0,4}\\{0,8}[\"'][0-9A-Za-z_-]{22,1400}){0,6})",
         ["\"kty\"", "'kty'", "kty\\"], "jwk", back=3000),
    Rule("age-key", r"AGE-(?:SECRET-KEY|PLUGIN-[0-9A-Z]{1,20})-1[0-9A-Z]{50,200}", ["AGE-SECRET-KEY-1", "AGE-PLUGIN-"]),
    Rule("wireguard-key", r"(?i:private-?key|preshared-?key)\s{0,4}[=:]?\s{0,4}\\{0,4}[\"']?(?P<value>[0-9A-Za-z+/]{42}[048AEIMQUYcgkosw]=)",
         ["PrivateKey", "PresharedKey", "private-key", "preshared-key", "privateKey", "presharedKey",
          "PreSharedKey"]),
    Rule("bitcoin-key", r"(?i:wif|priv(?:ate)?_?key)\\{0,4}[\"']?\s{0,4}[:=]\s{0,4}\\{0,4}[\"']?(?P<value>[5KLc9][1-9A-HJ-NP-Za-km-z]{50,51})(?![0-9A-Za-z])",
         ["WIF", "wif", *cased("private_key privkey"), "privateKey", "PrivateKey"]),
    Rule("ethereum-key", r"(?i:private_?key|priv_?key|secret_?key|mnemonic_?key|deployer_?key)\\{0,4}[\"']?\s{0,4}[:=]\s{0,4}\\{0,4}[\"']?"
         r"(?P<value>(?:0x)?[0-9a-fA-F]{64})(?![0-9a-fA-F])",
         [*cased("private_key privkey priv_key secret_key deployer_key"), "privateKey", "PrivateKey"]),
    Rule("seed-phrase", r"(?i:mnemonic|seed(?:[_ -]?phrase|[_ -]?words)|recovery[_ -]?phrase|secret[_ -]?phrase)"
         r"[\"'\\]{0,6}\s{0,4}(?::=|is|[:=])?\s{0,4}\\{0,4}[\"'`]?(?P<value>[a-z]{3,8}(?: [a-z]{3,8}){11,23})(?=\\{0,4}[\"'`.,]|\s{0,4}(?:\n|$|\\))",
         [*cased("mnemonic"), "seed phrase", "seed_phrase", "SEED_PHRASE", "seedPhrase", "Seed phrase",
          "Seed Phrase", "recovery phrase", "Recovery phrase", "Recovery Phrase", "recovery_phrase",
          "RECOVERY_PHRASE", "recoveryPhrase", "seed-phrase", "seed words", "secret phrase", "SECRET_PHRASE",
          "Secret phrase", "Secret Phrase", "seed_words"], "seed"),
    Rule("otp-secret", r"otpauth://[^\s\"'<>]{1,400}?[?&]secret=(?P<value>[A-Za-z2-7]{16,128})", ["otpauth://"]),
    Rule("otp-secret", r"otpauth-migration://[^\s\"'<>]{1,100}?data=(?P<value>[0-9A-Za-z%+/=]{20,4000})",
         ["otpauth-migration://"]),
    Rule("password-hash", r"\\{0,4}\$(?:1|5|6|7|y|gy|sha1|apr1|md5)\\{0,4}\$(?:[0-9A-Za-z=,./]{1,32}\\{0,4}\$){1,2}"
         r"(?:[0-9A-Za-z./+]{20,128}\\{0,4}\$)?[0-9A-Za-z./]{16,128}",
         ["$1$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$sha1$", "$apr1$", r"$1\$", r"$5\$", r"$6\$",
          r"$y\$", r"$apr1\$"]),
    Rule("password-hash", r"\\{0,4}\$2[abxy]?\\{0,4}\$[0-9]{2}\\{0,4}\$[0-9A-Za-z./]{53}",
         ["$2a$", "$2b$", "$2x$", "$2y$", "$2$", r"$2a\$", r"$2b\$", r"$2y\$"]),
    Rule("password-hash", r"\\{0,4}\$(?:argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha(?:1|256|512))?|bcrypt-sha256)\\{0,4}\$[^\s\"'`:]{20,300}",
         ["$argon2", "$scrypt$", "$pbkdf2", "$bcrypt-sha256$"]),
    Rule("password-hash", r"(?:pbkdf2_sha(?:1|256|512)|bcrypt_sha256|argon2|scrypt|md5|sha1)\$[0-9A-Za-z$=,./+-]{20,300}={0,2}",
         ["pbkdf2_sha", "bcrypt_sha256$", "scrypt$"]),
    Rule("password-hash", r"(?:pbkdf2:sha(?:1|256|512):[0-9]{2,8}|scrypt:[0-9:]{3,20})\$[0-9A-Za-z]{6,32}\$[0-9a-f]{32,128}",
         ["pbkdf2:sha", "scrypt:"]),
    Rule("password-hash", r"\{(?:S?SHA(?:256|384|512)?|S?MD5|CRYPT|PBKDF2[A-Z0-9-]{0,8}|ARGON2)\}[0-9A-Za-z+/=$.]{20,200}",
         ["{SSHA", "{SHA", "{SMD5}", "{MD5}", "{CRYPT}", "{PBKDF2", "{ARGON2}"]),
    # Its settings contain rows of dots, as samples do.
    Rule("password-hash", r"\\{0,4}\$7\\{0,4}\$[0-9A-Za-z./]{20,80}\\{0,4}\$[0-9A-Za-z./]{43}", ["$7$", r"$7\$"], "mixed"),
    Rule("password-hash", r"SCRAM-SHA-(?:1|256|512)\\{0,4}\$[0-9]{3,7}:[0-9A-Za-z+/=]{8,60}\\{0,4}\$[0-9A-Za-z+/]{27,90}={0,2}:[0-9A-Za-z+/]{27,90}={0,2}",
         ["SCRAM-SHA-"]),
    Rule("password-hash", r"(?<=[0-9]:)[0-9a-fA-F]{32}:[0-9a-fA-F]{32}(?=:::)", [":::"], back=65),
    Rule("convex-key", r"(?:prod|dev|preview):[a-z]{2,20}-[a-z]{2,20}-[0-9]{1,4}\|(?P<value>[0-9A-Za-z+/=_-]{40,400})",
         ["prod:", "dev:", "preview:"]),
    Rule("cisco-secret", r"(?:secret|password|key)\s(?:5|7|8|9)\s(?P<value>\$[0-9]\$[^\s\"]{20,80}|[0-9A-F]{8,64})(?=\s|$|\\|[\"'])",
         ["secret 5 ", "secret 8 ", "secret 9 ", "password 7 ", "password 5 ", "key 7 ", "secret 7 "]),
    Rule("authorization", rf"(?i:authorization|proxy-authorization){ASSIGN_NO_TYPE}\\{{0,8}}[\"'`]?"
         r"(?i:basic|token|bot|apikey|key|negotiate|ssws|splunk|genie(?:key)?|sso-key|digest|snyk|zoho-oauthtoken|discogs token=|flyv1|"
         r"deepgram|klaviyo-api-key|pull|client-id)\s{1,4}\\{0,4}[\"']?(?P<value>[0-9A-Za-z._~+/:=-]{12,8000}={0,2})", cased("authorization")),
    Rule("authorization", rf"(?i:authorization){ASSIGN_NO_TYPE}\\{{0,8}}[\"'`]?"
         r"(?P<value>[0-9A-Za-z._~+/-]{20,8000}={0,2})(?=\\{0,8}[\"'`]|\s|$)", cased("authorization"), "random"),
    Rule("bearer-token", rf"(?i:authorization){ASSIGN_NO_TYPE}\\{{0,8}}[\"'`]?(?i:bearer)\s{{1,4}}"
         r"(?P<value>[0-9A-Za-z._~+/|-]{10,15}={0,2})(?![0-9A-Za-z(\[{._~+/|-])", cased("authorization"), "query"),
    Rule("bearer-token", r"(?i:bearer)(?:\s{1,4}|%20|\+)(?P<value>[0-9A-Za-z._~+/|:-]{16,8000}={0,2})"
         r"(?![0-9A-Za-z(\[{])", cased("bearer"), "random"),
    Rule("cookie", r"(?i:(?:set-)?cookie)(?:\\{0,8}[\"'`\]])?\s{0,4}[:=]\s{0,4}\\{0,8}[\"'`]?(?P<value>[^\s\"\'\\<{$][^\r\n\"\'\\]{12,6000})",
         [*cased("cookie"), "Set-Cookie"], "cookie"),
    Rule("cookie", r"(?:--cookie|-b)[ =]\\{0,4}[\"'](?P<value>[^\n\"'\\]{12,6000})\\{0,4}[\"']",
         ["--cookie ", "--cookie=", " -b \"", " -b '"], "cookie"),
    Rule("cookie", r"(?:sessionid|PHPSESSID|JSESSIONID|ASPSESSIONID[A-Z]{0,10}|ASP\.NET_SessionId|\.ASPXAUTH|connect\.sid|laravel_session|XSRF-TOKEN|remember_token|remember_user_token"
         r"|rack\.session|_[a-z0-9_]{1,30}_session|_session_id|ci_session|csrftoken|__(?:Secure|Host)-[\w.-]{1,60}|auth_session|user_session|next-auth\.session-token|sb-[\w-]{1,40}-auth-token|wordpress_logged_in_[0-9a-f]{4,32}|SSESS[0-9a-f]{4,32})"
         r"(?:=|%3[dD])(?P<value>[0-9A-Za-z%._~+/|:!-]{16,4000}={0,2})",
         ["sessionid=", "PHPSESSID=", "JSESSIONID=", "ASPSESSIONID", "ASP.NET_SessionId=", ".ASPXAUTH=", "connect.sid=",
          "laravel_session=", "XSRF-TOKEN=", "remember_token=", "remember_user_token=", "rack.session=",
          "_session_id=", "ci_session=", "csrftoken=", "__Secure-", "__Host-", "auth_session=", "user_session=",
          "next-auth.session-token=", "wordpress_logged_in_", "_session="], "random", back=40),
    Rule("docker-auth", r"\\{0,8}[\"'](?:auth|identitytoken|registrytoken)\\{0,8}[\"']\s{0,4}:\s{0,4}\\{0,8}[\"'](?P<value>[0-9A-Za-z+/_.=-]{8,4000})\\{0,8}[\"']",
         ['"auth"', "'auth'", '"identitytoken"', '"registrytoken"', r'\"auth\"', r'\"identitytoken\"'], "docker-auth"),
    Rule("docker-auth", r"auth\\{1,8}\"\s{0,4}:\s{0,4}\\{1,8}\"(?P<value>[0-9A-Za-z+/=]{12,4000})\\{1,8}\"",
         ["auth\\"], "docker-auth"),
    Rule("kube-key", r"client-key-data\\{0,8}[\"']?\s{0,4}:\s{0,4}\\{0,8}[\"']?(?P<value>[0-9A-Za-z+/=]{20,20000})",
         ["client-key-data"]),
    Rule("kube-key", r"(?i:kind)\\{0,8}[\"']?:\s{0,4}\\{0,8}[\"']?Secret\b(?:[^-]|-(?!--)){0,600}?(?:\s|\\n)" rf"{MARK}(?:data|stringData):"
         rf"(?P<value>(?:(?:\n|\\{{1,8}}n){MARK}" r"[ \t]{1,12}[\w.-]{1,100}:[ \t]{0,4}[^\n\\]{4,20000}){1,60})",
         ["kind: Secret", "kind: \"Secret\""], "kube"),
    Rule("url-password", r"://(?P<user>[^\s/:@\"'`<>\\{}$|]{0,200}):(?!(?P=user)@)"
         r"(?P<value>[^\s/@\"'`<>\\]{3,300})@(?=[0-9A-Za-z\[$%{_.-])", ["://"], "url-password"),
    Rule("url-password", r"(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|clickhouse)(?:\+\w{2,12})?://[^\s/:@\"'`<>\\{}$|?#]{0,200}:"
         r"(?P<value>[^\s\"'`<>\\]{3,200})@(?=[0-9A-Za-z.-]{1,200}(?::[0-9]{2,5})?(?:[/?\s\"'`]|$))",
         ["postgres://", "postgresql://", "postgresql+", "mysql://", "mysql+", "mariadb://", "mongodb://",
          "mongodb+srv://", "redis://", "rediss://", "amqp://", "amqps://", "mssql://", "clickhouse://"], "url-password"),
    Rule("sentry-dsn", r"://(?P<value>[0-9a-f]{32}(?::[0-9a-f]{32})?)@[\w.-]{3,100}(?::[0-9]{2,5})?/(?:[\w/-]{0,40}/)?[0-9]{1,20}",
         ["://"]),
    Rule("url-token", r"://(?P<value>[0-9A-Za-z_-]{20,200})(?::x-oauth-basic|:)?@(?=[0-9A-Za-z.-]{3,100})", ["://"], "random"),
    Rule("url-token", r"(?:[?&]|\\u0026|%26|&amp;)(?:key|auth|jwt|sas|session|sid)=(?P<value>[0-9A-Za-z%._~+/|:!*$@-]{8,2000}={0,2})",
         [f"{mark}{word}=" for mark in ("?", "&", "u0026") for word in ("key", "auth", "jwt", "session", "sid")], "query", back=6),
    Rule("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)(?P<value>/[0-9A-Za-z]{6,20}/[0-9A-Za-z]{6,24}/(?:[0-9]{6,24}/)?[0-9A-Za-z_]{16,48})",
         ["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"]),
    Rule("teams-webhook", rf"(?:webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook)/(?P<value>{UUID}@{UUID}/IncomingWebhook/[0-9A-Za-z]{{16,64}}(?:/{UUID})?(?:/[0-9A-Za-z_-]{{20,80}})?)",
         ["webhook.office.com/webhookb2/", "outlook.office.com/webhook/", "outlook.office365.com/webhook/"]),
    Rule("discord-webhook", r"discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks(?P<value>/[0-9]{16,22}/[0-9A-Za-z_-]{40,100})",
         ["discord.com/api/", "discordapp.com/api/"]),
    Rule("google-chat-webhook", r"chat\.googleapis\.com/v1/spaces/[^\s\"']{1,100}?token=(?P<value>[0-9A-Za-z_%=-]{20,100})",
         ["chat.googleapis.com/v1/spaces/"]),
    Rule("webhook", r"(?:hooks\.zapier\.com/hooks/catch|maker\.ifttt\.com/(?:use|trigger/[^\s/]{1,60}(?:/json)?/with/key)|hook\.(?:eu[0-9]|us[0-9]|integromat)\.(?:make\.)?com"
         r"|connect\.pabbly\.com/workflow/sendwebhookdata|open\.feishu\.cn/open-apis/bot/v2/hook|open\.larksuite\.com/open-apis/bot/v2/hook)/(?P<value>[0-9A-Za-z/_-]{12,200})",
         ["hooks.zapier.com/hooks/catch/", "maker.ifttt.com/", "hook.eu1.make.com/", "hook.eu2.make.com/", "hook.us1.make.com/",
          "hook.us2.make.com/", "hook.integromat.com/", "open.feishu.cn/open-apis/bot/", "open.larksuite.com/open-apis/bot/", "connect.pabbly.com/"]),
    Rule("webhook", r"(?:oapi\.dingtalk\.com/robot/send\?access_token|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key)=(?P<value>[0-9A-Za-z-]{30,80})",
         ["oapi.dingtalk.com/robot/", "qyapi.weixin.qq.com/cgi-bin/webhook/"]),
    # A macaroon in base64, which starts with its version; each restriction makes it longer.
    Rule("pypi-token", r"(?P<value>pypi-AgE[0-9A-Za-z_-]{50,2000})", ["pypi-AgE"]),
    Rule("okta-token", rf"(?i:ssws)\s{{1,4}}(?P<value>00[0-9A-Za-z_-]{{40}}){END}", ["SSWS ", "ssws "]),
    Rule("salesforce-token", r"00D[0-9A-Za-z]{12,15}!(?:[0-9A-Za-z._]{80,120})", ["00D"], glued="no"),
    Rule("ngrok-token", rf"(?i:ngrok)[^\n]{{0,60}}?(?P<value>[12][0-9A-Za-z]{{26}}_[0-9A-Za-z]{{21}}){END}", cased("ngrok")),
    Rule("telegram-bot-api-token", rf"[0-9]{{8,10}}:[0-9A-Za-z_-]{{35}}{END}", [":AA"], back=10, glued="no"),
    Rule("vault-token", r"(?i:vault)[^\n]{0,40}?(?P<value>[sbr]\.[0-9A-Za-z]{24})(?![0-9A-Za-z_-])", cased("vault")),
    Rule("kube-token", r"(?i:token)\\{0,4}[\"']?\s{0,4}[:=]\s{0,4}\\{0,4}[\"']?(?P<value>[a-z0-9]{6}\.[a-z0-9]{16})(?![0-9a-z.])", cased("token"), "mixed"),
    Rule("rancher-token", r"token-[a-z0-9]{5}:[a-z0-9]{54}", ["token-"]),
]  # fmt: skip

TOKENS = [token(*row) for row in PREFIXED]
