"""Collect the facts for the head of a transcript, masked: title, project, times, cost."""

import re
from dataclasses import dataclass, replace
from datetime import datetime

from turnlog.conversation.session import Session
from turnlog.conversation.turn_blocks import total_cost
from turnlog.format.timestamps import parse_timestamp
from turnlog.secrets import mask
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store
from turnlog.store.resume_command import file_command
from turnlog.text import exact_money, plural


@dataclass(frozen=True)
class TranscriptFacts:
    """Facts about a session; None if its file does not contain them."""

    id: str
    title: str | None
    slug: str | None
    """The client's nickname for the session."""
    project: str
    """The working directory; the name of the project's folder if no entry names one."""
    branch: str | None
    models: tuple[str, ...]
    client_version: str | None
    started: datetime | None
    ended: datetime | None
    turns: int
    """Turns of the active branch; tokens and cost are theirs, without sub-agents."""
    tokens: int
    cost_usd: float | None
    """None if the price of a model is unknown."""
    resume: str | None
    """The command that resumes the session; None if no client resumes it."""

    @property
    def period(self) -> str:
        """The local times of the first and the last entry; the day appears once.

        >>> from datetime import UTC
        >>> at = datetime(2026, 11, 2, 9, 5, tzinfo=UTC)
        >>> facts = TranscriptFacts("1f", "", "", "", "", (), "", at, at, 1, 1, 1, "")
        >>> facts.period == at.astimezone().strftime("%Y-%m-%d %H:%M")
        True
        >>> TranscriptFacts("1f", "", "", "", "", (), "", None, None, 1, 1, 1, "").period
        ''
        """
        if self.started is None or self.ended is None:
            return ""
        start, end = self.started.astimezone(), self.ended.astimezone()
        form = "%H:%M" if start.date() == end.date() else "%Y-%m-%d %H:%M"
        first, last = start.strftime("%Y-%m-%d %H:%M"), end.strftime(form)
        return first if first.endswith(last) else f"{first} – {last}"

    @property
    def size(self) -> str:
        """The number of turns and tokens, and the cost."""
        counts = f"{plural(self.turns, 'turn')} · {plural(self.tokens, 'token')}"
        return f"{counts} · {exact_money(self.cost_usd)}"

    def for_export(self) -> "TranscriptFacts":
        """Return the facts without what has no meaning elsewhere: local paths and commands."""
        return replace(self, project=project_name(self.project), resume=None)


def project_name(directory: str) -> str:
    r"""Return the last folder of a path; empty for a name into which a path was encoded.

    >>> [project_name(each) for each in ("/home/ada/shop", "C:\\Users\\shop", "-home-ada-shop")]
    ['shop', 'shop', '']
    """
    return "".join(re.findall(r"[/\\]([^/\\]*)[/\\]*$", directory))


def session_facts(
    session: Session, reveal: bool = False, store: Store | None = None
) -> TranscriptFacts:
    """Return the facts about an opened session, with secrets masked."""

    def shown(text: str | None) -> str | None:
        return text if reveal or text is None else mask(text)

    about = describe(locate_session(session.path))
    # For a large session, blocks and single turns come from its node table. Decoding an outline of
    # all turns would take longer than everything else on the first screen.
    blocks = session.turn_blocks
    starts = (turn.started for turn in session.turns if turn.started)
    ends = (turn.last_time for turn in reversed(session.turns) if turn.last_time)
    project = shown(about.cwd) or session.path.parent.name
    return TranscriptFacts(
        id=session.id,
        title=shown(about.title),
        slug=shown(about.slug),
        project=project,
        branch=shown(about.branch),
        models=tuple(shown(model) or "" for model in session.models),
        client_version=session.client_version,
        started=parse_timestamp(next(starts, None)),
        ended=parse_timestamp(next(ends, None)),
        turns=len(session.turns),
        tokens=sum(block.tokens for block in blocks),
        cost_usd=total_cost(blocks),
        resume=file_command(session.path, project if about.cwd else None, store),
    )
