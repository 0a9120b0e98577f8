"""Whatever the client, the backend and the machine do: every span arrives, and none twice."""

import os
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from support.hooked_client import PROJECT, Client, Clock, Names
from support.otlp_receiver import receiving
from turnlog.conversation.session import open_session
from turnlog.store.paths import folder_name
from turnlog.trace import ledger, ownership, progress, sent_state, spool
from turnlog.trace.content import ContentPolicy
from turnlog.trace.otlp import Exporter, resource_of, sdk_span
from turnlog.trace.sender import Sender
from turnlog.trace.settle import Patience
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.spool import Spool

AT_ONCE = Patience(0, 0, 0, 0)
EXAMPLES = max(10, int(os.environ.get("TURNLOG_EXAMPLES", "100")) // 4)
KILLED = st.none() | st.none() | st.integers(0, 12)
"""At which dangerous moment a sender is killed."""
Mood = int | str
MOODS: st.SearchStrategy[Mood] = st.sampled_from([200, 200, 200, 429, 500, 401, "hang", "little"])
WORK = st.lists(
    st.sampled_from(["tools", "agent", "background agent", "compaction", "sent back"]), max_size=2
)
ENDINGS = st.sampled_from(["answer", "answer", "answer", "interruption", "none"])


class Killed(BaseException):
    """The end of the sender's process."""


@contextmanager
def killed_at(step: int | None) -> Generator[None]:
    """Have the sender end before or after one of the moments at which something lasting happens."""
    left = step

    def pass_by() -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left = None if left is None else left - 1

    def dangerous(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            pass_by()
            answer = function(*arguments, **named)
            pass_by()
            return answer

        return called

    with ExitStack() as patches:
        for module in (sent_state, progress, spool, ledger, ownership):
            patches.enter_context(patch.object(module, "write_json", dangerous(module.write_json)))
        patches.enter_context(patch.object(Exporter, "_send", dangerous(Exporter._send)))
        patches.enter_context(patch.object(Spool, "drop", dangerous(Spool.drop)))
        with suppress(Killed):
            yield


class Hooked(RuleBasedStateMachine):
    """A client at work, its hooks, a sender now and then, and a backend of any mood."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.receiver = self.stack.enter_context(receiving())
        root = Path(self.stack.enter_context(TemporaryDirectory()))
        self.folder = root / "projects" / folder_name(PROJECT)
        self.folder.mkdir(parents=True)
        self.state = root / "trace"
        self.spool = Spool(self.state / "spool")
        self.spool.begin()
        os.utime(self.spool.folder / "since", (0, 0))
        self.stack.enter_context(patch.dict(os.environ, {"TURNLOG_TRACE_TIMEOUT": "30"}))
        self.world = (Clock(), Names())
        self.client = self.new_client()
        self.was_killed = False

    def new_client(self) -> Client:
        return Client(self.spool.folder, self.receiver.url, self.folder, self.world)

    @initialize(is_new=st.booleans())
    def begin(self, is_new: bool) -> None:
        self.client.is_new = is_new
        self.client.start("startup")

    @rule(work=WORK, ending=ENDINGS, mood=MOODS, dies_at=KILLED)
    def take_a_turn(self, work: list[str], ending: str, mood: Mood, dies_at: int | None) -> None:
        """Write a turn as far as it gets; the next one interrupts what has not ended."""
        self.change_mood(mood)
        if not self.client.is_asked:
            self.client.ask()
        for each in work:
            self.do(each)
            self.send(dies_at)
        if ending == "answer":
            self.answer(dies_at)
        elif ending == "interruption":
            self.client.be_interrupted()

    def do(self, work: str) -> None:
        match work:
            case "tools":
                self.client.work(parallel=2)
            case "agent":
                self.client.delegate(in_background=False)
            case "background agent":
                self.client.delegate(in_background=True)
            case "compaction":
                self.client.compact()
            case _ if self.client.is_new:
                self.client.say(is_late=False)
                self.client.be_sent_back()
            case _:
                pass

    def answer(self, dies_at: int | None) -> None:
        """The end of a turn; a sender may look before its last lines are there."""
        self.client.say(is_late=True)
        if self.client.is_new:
            self.send(dies_at)
        self.client.close()
        self.send(dies_at)

    @precondition(lambda self: self.client.background and not self.client.is_asked)
    @rule(dies_at=KILLED)
    def hear_of_a_subagent(self, dies_at: int | None) -> None:
        self.client.notify()
        self.answer(dies_at)

    @rule(ends=st.booleans(), resumes=st.booleans(), mood=MOODS, dies_at=KILLED)
    def leave(self, ends: bool, resumes: bool, mood: Mood, dies_at: int | None) -> None:
        self.change_mood(mood)
        if ends:
            self.client.end()
        else:
            self.client.die()
        if not resumes:
            self.client, is_new = self.new_client(), self.client.is_new
            self.client.is_new = is_new
        self.client.start("resume" if resumes else "startup")
        self.send(dies_at)

    @precondition(lambda self: self.client.path.exists())
    @rule()
    def fork(self) -> None:
        self.client.end()
        self.client.fork()
        self.client.start("fork")

    def change_mood(self, mood: Mood) -> None:
        """Change how the backend responds: hang, accept a few spans at once, or return a status."""
        self.receiver.hangs = mood == "hang"
        self.receiver.limit = 2 if mood == "little" else None
        self.receiver.always = mood if isinstance(mood, int) else 200
        # What takes a request and answers too late would get it again.
        is_waited_for = mood in ("hang", 429, 500)
        timeout = "0.05" if is_waited_for else "30"
        os.environ["TURNLOG_TRACE_TIMEOUT"] = timeout
        for path in self.spool.paths():  # a note has the timeout of its time
            head, _, rest = path.read_bytes().partition(b"set.timeout=")
            rest = rest[rest.index(b"\0") :]
            path.write_bytes(head + b"set.timeout=" + timeout.encode() + rest)

    @rule(dies_at=KILLED)
    def send(self, dies_at: int | None) -> None:
        self.was_killed |= dies_at is not None
        with killed_at(dies_at):
            Sender(self.spool, self.state, AT_ONCE).run()

    def teardown(self) -> None:
        try:
            self.client.end()
            self.new_client().start("startup")
            self.change_mood(200)
            self.send(None)
            self.check()
        finally:
            self.stack.close()

    def check(self) -> None:
        """Compare the spans that arrived with those of all sessions."""
        assert self.spool.paths() == []
        assert self.spool.failures == []
        wanted = wanted_from(self.folder)
        arrived = [span for request in self.receiver.requests for span in request.spans]
        assert {span.span_id.hex() for span in arrived} == set(wanted)
        for span in arrived:
            assert span.SerializeToString() in wanted[span.span_id.hex()]
        if not self.was_killed:
            assert max(Counter(span.span_id for span in arrived).values(), default=1) == 1


def wanted_from(folder: Path) -> dict[str, set[bytes]]:
    """Yield the spans of some sessions as they may arrive; a fork sends those of its past as its
    own.
    """
    found: dict[str, set[bytes]] = {}
    for path in folder.glob("*.jsonl"):
        spans = spans_of(open_session(path), SpanOptions(ended=True))
        encoded = encode_spans(
            [sdk_span(ContentPolicy().of(span), resource_of()) for span in spans]
        )
        for scope in (scope for each in encoded.resource_spans for scope in each.scope_spans):
            for span in scope.spans:
                found.setdefault(span.span_id.hex(), set()).add(span.SerializeToString())
    return found


TestHooked = Hooked.TestCase
TestHooked.settings = settings(max_examples=EXAMPLES, stateful_step_count=12, deadline=None)
