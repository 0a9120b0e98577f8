"""Environment variables of a project: which ones it may set, and which its programs never see.

A project's `env` reaches the commands that turnlog runs. Turnlog's own process takes only names on
an allowlist from it, so that no project decides where a key is sent or which files are trusted.
"""

import re
from collections.abc import Mapping

OWN = frozenset(
    """
    ANTHROPIC_MODEL ANTHROPIC_DEFAULT_OPUS_MODEL ANTHROPIC_DEFAULT_SONNET_MODEL
    ANTHROPIC_DEFAULT_HAIKU_MODEL ANTHROPIC_SMALL_FAST_MODEL CLAUDE_CODE_SUBAGENT_MODEL
    CLAUDE_CODE_MAX_OUTPUT_TOKENS MAX_THINKING_TOKENS CLAUDE_CODE_MAX_CONTEXT_TOKENS
    CLAUDE_CODE_DISABLE_1M_CONTEXT CLAUDE_CODE_AUTO_COMPACT_WINDOW CLAUDE_AUTOCOMPACT_PCT_OVERRIDE
    DISABLE_COMPACT DISABLE_AUTO_COMPACT CLAUDE_CODE_DISABLE_AUTO_MEMORY
    CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS
    """.split()
)
"""Variables that a project may set for turnlog itself: models and limits."""
ROUTING = re.compile(
    r"ANTHROPIC_.*|CLAUDE_CODE_(USE|SKIP)_.*|CLAUDE_CODE_.*(TOKEN|KEY|CERT|HEADERS)(_.*)?"
    r"|CLAUDE_CONFIG_DIR|TURNLOG_.*|AWS_ENDPOINT_URL.*|AWS_CA_BUNDLE|AWS_BEARER_TOKEN_BEDROCK"
    r"|GOOGLE_CLOUD_UNIVERSE_DOMAIN|CLOUDSDK_.*|.*_PROXY|NODE_EXTRA_CA_CERTS"
    r"|NODE_TLS_REJECT_UNAUTHORIZED|SSL_CERT_(FILE|DIR)|SSLKEYLOGFILE|OPENSSL_CONF"
    r"|(REQUESTS|CURL)_CA_BUNDLE|HOME|USERPROFILE|XDG_.*",
    re.IGNORECASE,
)
"""Names that decide where a key is sent, who can read it on the way, or where the user's
configuration is. A project can set none of them, not even for commands, because a command may be
another client of the API. If a project set XDG_CONFIG_HOME, a hook would not find the switch
that turns it off.
"""
CREDENTIALS = re.compile(
    r"(ANTHROPIC|CLAUDE)_(.*_)?(KEY|TOKEN|SECRET|HEADERS|PASSPHRASE)(_.*)?|AWS_BEARER_TOKEN_BEDROCK"
)
BY_PROVIDER = {
    "CLAUDE_CODE_USE_BEDROCK": re.compile(r"AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)"),
    "CLAUDE_CODE_USE_VERTEX": re.compile(r"GOOGLE_APPLICATION_CREDENTIALS"),
}
"""More variables that hold turnlog's credentials, if it uses that service."""


def is_own(name: str) -> bool:
    """Return whether a project may set a variable for turnlog itself."""
    return name in OWN


def is_routing(name: str) -> bool:
    """Return whether a variable decides where credentials are sent.

    >>> is_routing("https_proxy"), is_routing("ANTHROPIC_MODEL"), is_routing("NODE_ENV")
    (True, False, False)
    """
    return name not in OWN and ROUTING.fullmatch(name) is not None


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without turnlog's credentials, for programs named by a project.

    >>> without_credentials({"ANTHROPIC_API_KEY": "k", "HOME": "/root"})
    {'HOME': '/root'}
    """
    secret = [CREDENTIALS, *(each for flag, each in BY_PROVIDER.items() if environment.get(flag))]
    return {
        name: value
        for name, value in environment.items()
        if not any(each.fullmatch(name) for each in secret)
    }
