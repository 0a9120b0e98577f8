"""Asking before something is deleted for good."""

import sys

import click

from turnlog.cli.output import plain
from turnlog.cli.terminal import echo
from turnlog.store.deletion_consent import Consent, Deletion, agreed, require_yes


def consent_of(yes: bool) -> Consent:
    """How the user consents: by `--yes`, by an answer on a terminal, else not at all."""
    if yes:
        return agreed
    # A closed stdin is None.
    return _ask if sys.stdin and sys.stdin.isatty() else require_yes


def _ask(deletion: Deletion) -> None:
    for line in deletion.details:
        echo(plain(line), err=True)
    click.confirm(f"Delete {deletion.what} for good?", default=False, abort=True, err=True)
