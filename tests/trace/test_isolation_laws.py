"""Whatever hooks, senders and backends do: each backend gets only its own project's spans, at that
project's level, with its own credentials; and in the end all of them."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.hook_projects import Project, ProjectSession, leaks, turns_at
from support.hooked_client import Clock, Names
from support.otlp_receiver import receiving
from turnlog.trace.note import leave_note
from turnlog.trace.route_capture import capture
from turnlog.trace.sender import Sender
from turnlog.trace.settle import Patience
from turnlog.trace.spool import Spool
from turnlog.trace.switch import read_switches
from turnlog.trace.variable_origin import HookPlaces

EXAMPLES = max(10, int(os.environ.get("TURNLOG_EXAMPLES", "100")) // 4)
LEVELS = ("full", "none", "redacted")
WHICH = st.integers(0, len(LEVELS) - 1)
STATUSES = st.sampled_from([200, 200, 401])


class Machine(RuleBasedStateMachine):
    """Several projects on one machine; senders start in any of their environments."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        root = Path(self.stack.enter_context(TemporaryDirectory())).resolve()
        home = {"TURNLOG_HOME": str(root / "turnlog"), "HOME": str(root)}
        self.stack.enter_context(patch.dict(os.environ, home))
        self.spool = Spool(root / "turnlog" / "trace" / "spool")
        self.spool.begin()
        os.utime(self.spool.folder / "since", (0, 0))
        self.switches = str(root / "turnlog" / "config.toml")
        world = (Clock(), Names())
        self.projects = [
            Project(
                root / f"project-{level}",
                root / "claude",
                self.stack.enter_context(receiving()),
                level,
                world,
            )
            for level in LEVELS
        ]
        self.wanted = dict.fromkeys(range(len(LEVELS)), 0)
        self.sessions: list[ProjectSession] = []
        self.off: set[int] = set()

    @initialize(has_files=st.booleans())
    def write_settings(self, has_files: bool) -> None:
        """Keys come from settings files, or from the environment alone."""
        for project in self.projects:
            folder = project.folder / ".claude"
            folder.mkdir(parents=True)
            if has_files:
                held = json.dumps({"env": project.settings})
                (folder / "settings.local.json").write_text(held, "utf-8")
            self.sessions.append(project.session())

    @rule(which=WHICH)
    def start_a_session(self, which: int) -> None:
        self.sessions.append(self.projects[which].session())
        self.hook(self.sessions[-1], "SessionStart", source="startup")

    @rule(rank=st.integers(0, 9), sends=st.booleans())
    def take_a_turn(self, rank: int, sends: bool) -> None:
        session = self.sessions[rank % len(self.sessions)]
        session.turn()
        self.hook(session, "Stop")
        which = self.projects.index(session.project)
        self.wanted[which] += which not in self.off
        if sends:
            self.send(which)

    @rule(rank=st.integers(0, 9), which=WHICH, starts=st.booleans())
    def move_a_session(self, rank: int, which: int, starts: bool) -> None:
        """Let another project continue a session, maybe with a client without start hooks."""
        rank %= len(self.sessions)
        self.sessions[rank] = self.sessions[rank].continued_by(self.projects[which])
        if starts:
            self.hook(self.sessions[rank], "SessionStart", source="resume")

    @rule(rank=st.integers(0, 9))
    def end_a_session(self, rank: int) -> None:
        self.hook(self.sessions[rank % len(self.sessions)], "SessionEnd")

    @rule(which=WHICH, status=STATUSES)
    def change_a_backend(self, which: int, status: int) -> None:
        self.projects[which].receiver.always = status

    @rule(which=WHICH)
    def switch(self, which: int) -> None:
        is_on = which in self.off
        self.projects[which].world[0].catch_up()
        self.off.symmetric_difference_update({which})
        read_switches(self.switches).turn(str(self.projects[which].folder), is_on)

    @rule(which=WHICH)
    def send(self, which: int) -> None:
        """Run a sender in the environment of one project."""
        with patch.dict(os.environ, self.projects[which].settings):
            Sender(self.spool, self.spool.folder.parent, Patience(0, 0, 0, 0)).run()

    @rule(one=WHICH, other=WHICH)
    def send_at_once(self, one: int, other: int) -> None:
        senders = [Thread(target=self.send, args=(which,)) for which in (one, other)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()

    def hook(self, session: ProjectSession, event: str, **more: str) -> None:
        """Do what the hook does, in the environment that the client gives it."""
        environment = session.project.environment
        (fields,) = capture(HookPlaces([], environment))
        if read_switches(fields["config"]).is_on(fields["project"]):
            leave_note(str(self.spool.folder), fields, session.payload(event, **more))

    @invariant()
    def nothing_is_where_it_does_not_belong(self) -> None:
        assert [leaks(project) for project in self.projects] == [[]] * len(self.projects)

    def teardown(self) -> None:
        try:
            for which in tuple(self.off):
                self.switch(which)
            for project in self.projects:
                project.receiver.always = 200
            for session in self.sessions:
                if session.path.exists():
                    session.abandon()
            self.send(0)
            self.nothing_is_where_it_does_not_belong()
            found = {rank: turns_at(project) for rank, project in enumerate(self.projects)}
            assert found == self.wanted
            assert self.spool.paths() == []
        finally:
            self.stack.close()


TestIsolation = Machine.TestCase
TestIsolation.settings = settings(max_examples=EXAMPLES, stateful_step_count=12, deadline=None)
