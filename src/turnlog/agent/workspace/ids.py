"""Generate ids and slugs of sessions, sub-agents and outputs."""

import random
import secrets
import string

MANNERS = (
    "brisk calm candid careful cheerful clever crisp curious daring deft eager earnest fair gentle "
    "glad hardy honest keen kind lively lucid merry mild neat nimble patient placid plucky polite "
    "quick quiet ready robust sharp sincere smooth snug steady sunny swift tidy upbeat warm wise"
).split()
COLOURS = (
    "amber ashen azure beige bronze coral cobalt copper cream crimson ebony emerald golden green "
    "hazel indigo ivory jade khaki lemon lilac lime maroon mauve navy ochre olive opal pearl pink "
    "plum ruby russet sandy scarlet sepia silver tan teal topaz umber violet white yellow"
).split()
SURNAMES = (
    "abel allen babbage bell boole cantor cori curie darwin dijkstra euler fermi franklin galois "
    "gauss germain goodall hamilton haskell hilbert hopper hypatia kepler knuth kovalevskaya "
    "lamarr liskov lovelace mcclintock meitner mendel noether pascal perlman ramanujan ritchie "
    "shannon sutherland thompson torvalds turing wilkes wing wirth yonath"
).split()
LETTERS = string.ascii_lowercase + string.digits


def new_slug() -> str:
    """Return a slug for a session: two adjectives and a surname."""
    return "-".join(random.choice(words) for words in (MANNERS, COLOURS, SURNAMES))


def new_agent_id() -> str:
    """Return a sub-agent id in the form used since 2.1.101."""
    return "a" + secrets.token_hex(8)


def new_output_name() -> str:
    """Return a name for a saved output or a background command, in the client's form."""
    return "b" + "".join(secrets.choice(LETTERS) for _ in range(8))
