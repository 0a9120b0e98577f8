"""The picker's controller: requests lists, rows and previews, and runs the commands of keys.

Answers from other threads are applied to the state in the screen's thread. `picker_screen` draws
the state, `picker_keys` calls these methods.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.layout import Window

from turnlog.errors import TurnlogError
from turnlog.index.database import index_path
from turnlog.index.reports.session_list import ListedSession
from turnlog.picker import session_actions
from turnlog.picker.background_work import Background, BackgroundCallbacks
from turnlog.picker.cells import shown
from turnlog.picker.picker_state import PickerMode, PickerState
from turnlog.picker.query_worker import Databases, QueryWorker, QuestionKind
from turnlog.picker.session_actions import ActionResult
from turnlog.picker.session_source import (
    ListQuestion,
    SessionKey,
    SessionNumbers,
    SessionSource,
    describe_keys,
    scopes_of,
)
from turnlog.store.client_settings import kept_days
from turnlog.store.paths import Store
from turnlog.store.resume_command import is_resumable, pasteable_command

if TYPE_CHECKING:
    from turnlog.picker.session_preview import SessionPreview

POLL = 1.0
"""Seconds between queries of an index that is being refreshed."""
FIRST_WAIT = 0.1
"""Seconds that the first paint waits for the first list."""


class PickerOptions(NamedTuple):
    """Options of a picker."""

    query: str = ""
    """The initial query."""
    purpose: str | None = None
    """The command that needs a session; None for `turnlog pick` itself."""
    every_project: bool = False
    """Start with all projects instead of the current directory."""
    view: Callable[[str, int | None], None] | None = None
    """Shows a session file at a line, in the terminal."""


class Choice(NamedTuple):
    """The chosen session and what to do with it."""

    action: str
    """`resume`, `chat` or `web`; ignored if a command asked for the session."""
    session: ListedSession
    store: Store


PickerApp = Application[Choice | None]


class Picker:
    """A picker on a terminal."""

    def __init__(self, stores: Sequence[Store], options: PickerOptions) -> None:
        self.stores = stores
        self.options = options
        self._early: list[Callable[[], None]] | None = []
        """Updates that arrived before the screen was running; None once it runs."""
        self._lock = Lock()
        self._answered = Event()
        self.state = PickerState(scopes_of(Path.cwd()))
        if options.every_project:
            self.state.scope = len(self.state.scopes) - 1
        self.query = Buffer(multiline=False, on_text_changed=lambda _: self.search())
        self.answer = Buffer(multiline=False)
        """The input line for a title or a file name."""
        self._source = SessionSource()
        self._worker = QueryWorker([index_path(store) for store in stores])
        self._height = 40
        self._shown_once = False
        self.app: PickerApp | None = None
        self._focused: Callable[[], Window] | None = None
        self.background = Background(
            stores,
            BackgroundCallbacks(
                partial(self._later, self._refreshed),
                partial(self._later, self._take_live),
                partial(self._later, self.reload),
            ),
        )
        self.kept_days = [kept_days(store) for store in stores]
        if options.query:
            self.query.insert_text(options.query)
        self.search()

    def run(self, app: PickerApp, focused: Callable[[], Window]) -> Choice | None:
        """Show the picker; return the choice, or None if the user left it.

        `focused` returns the window that receives typed text.
        """
        self._prepare(app, focused)
        try:
            return app.run(pre_run=self._start_alone)
        finally:
            self._close()

    async def run_inside(self, app: PickerApp, focused: Callable[[], Window]) -> Choice | None:
        """Show the picker in a running event loop, whose program handles signals itself."""
        self._prepare(app, focused)
        try:
            return await app.run_async(
                pre_run=self._start, handle_sigint=False, set_exception_handler=False
            )
        finally:
            self._close()

    def _prepare(self, app: PickerApp, focused: Callable[[], Window]) -> None:
        self.app, self._focused = app, focused
        # After Esc, the other bytes of an escape sequence follow at once; a second key takes
        # longer.
        app.ttimeoutlen = app.timeoutlen = 0.05
        # If there is an index, the first list arrives within this time, and the first paint shows
        # it.
        self._answered.wait(FIRST_WAIT)

    def _close(self) -> None:
        self.background.close()
        self._worker.close()

    def _start_alone(self) -> None:
        assert self.app is not None
        # Handle SIGTERM, or the terminal would stay in raw mode, with the picker on it.
        if self.app.loop:
            # Outside the main thread (RuntimeError), and on Windows (NotImplementedError, which is
            # a RuntimeError), no handler can be added; do without it.
            with suppress(RuntimeError):
                self.app.loop.add_signal_handler(signal.SIGTERM, self.leave)
        self._start()

    def _start(self) -> None:
        assert self.app is not None
        # Start the threads after the first paint, so that they do not slow it down.
        self.app.after_render += self._begin_once
        with self._lock:
            early, self._early = self._early or [], None
        for work in early:
            work()

    def _begin_once(self, app: PickerApp) -> None:
        if not self._shown_once:
            self._shown_once = True
            self.ask_preview()
            self.background.start()
            app.create_background_task(self._poll())

    async def _poll(self) -> None:
        """While the index is being refreshed, show the sessions that it already has."""
        while True:
            await asyncio.sleep(POLL)
            if self.background.is_refreshing:
                self.reload()

    # Lists and previews.

    def search(self) -> None:
        """Request the sessions that match the typed query."""
        state = self.state
        state.generation += 1
        question = ListQuestion(self.query.text, state.scopes[state.scope], dict(state.live))

        self._worker.ask(
            QuestionKind.LIST,
            partial(_first_page, self._source, question, self._height, self._shown_once),
            partial(self._later, partial(self._take_list, state.generation)),
        )

    def _take_list(self, generation: int, page: "_FirstPage") -> None:
        state, found = self.state, page.found
        is_first = not state.is_known
        if not state.take(generation, found):
            return
        state.learn(page.rows)
        is_narrow = state.scope < len(state.scopes) - 1
        if is_first and is_narrow and not found.numbers and self.query.text == self.options.query:
            # This directory has no sessions: widen the scope instead of showing an empty list.
            self.cycle_scope(1)
            state.is_known = False
        self.ask_rows()
        if page.preview and state.selected == found.numbers[0]:
            state.preview, state.preview_of = page.preview, state.selected
        else:
            self.ask_preview()

    def ask_rows(self) -> None:
        """Request the figures of sessions on the screen that are not loaded yet."""
        self.state.visible(self._height)
        if missing := self.state.missing(self._height):
            self._worker.ask(
                QuestionKind.ROWS,
                lambda dbs: describe_keys(dbs, missing),
                partial(self._later, self._take_rows),
            )

    def _take_rows(self, rows: dict[SessionKey, ListedSession]) -> None:
        self.state.learn(rows)
        visible = ((key, self.state.rows.get(key)) for key in self.state.visible(self._height))
        unchecked = [(key, row.path) for key, row in visible if row and not row.is_checked]
        self.background.check([(self.stores[key[0]], path) for key, path in unchecked])

    def ask_preview(self) -> None:
        """Request the preview of the selected session."""
        number, found = self.state.selected, self.state.found
        if not self._shown_once:
            return  # its imports would delay the first paint
        if number is None:
            self.state.preview = None
            return

        deliver = partial(self._later, partial(self._take_preview, number))
        self._worker.ask(QuestionKind.PREVIEW, lambda dbs: _preview_of(dbs, number, found), deliver)

    def _take_preview(self, number: SessionKey, preview: "SessionPreview | None") -> None:
        if number == self.state.selected:
            self.state.preview, self.state.preview_of = preview, number

    @property
    def store(self) -> Store:
        """The store of the selected session."""
        return self.stores[self.state.selected[0] if self.state.selected else 0]

    def set_height(self, rows: int) -> None:
        """Set the number of rows of the list on the screen."""
        if rows != self._height:
            self._height = rows
            self.ask_rows()

    @property
    def height(self) -> int:
        return self._height

    def move(self, step: int) -> None:
        """Move the selection."""
        self.state.move(step)
        self.state.message = ""
        self.ask_rows()
        self.ask_preview()

    def cycle_scope(self, step: int) -> None:
        """List another scope."""
        self.state.scope = (self.state.scope + step) % len(self.state.scopes)
        self.search()

    def refresh(self) -> None:
        """Refresh the index in the background."""
        self.state.message = "refreshing…"
        self.background.refresh()

    def reload(self) -> None:
        """Query the index again; the screen stays as it is until the answers arrive."""
        self._source.forget()
        numbers = self.state.visible(self._height)
        self._worker.ask(
            QuestionKind.ROWS,
            lambda dbs: describe_keys(dbs, numbers),
            partial(self._later, self._replace_rows),
        )
        self.search()

    def _replace_rows(self, rows: dict[SessionKey, ListedSession]) -> None:
        # Rows on the screen stay until they are reloaded, because keys act on the selected one.
        state = self.state
        visible = state.visible(self._height)
        state.rows = {number: state.rows[number] for number in visible if number in state.rows}
        self._take_rows(rows)
        self.ask_rows()

    def _refreshed(self, problem: str | None) -> None:
        self.state.message = (
            f"the index could not be updated: {shown(problem)}"
            if problem
            else ("" if self.state.message == "refreshing…" else self.state.message)
        )
        self.reload()

    def _take_live(self, states: dict[str, str]) -> None:
        self.state.live = states
        if "live:" in self.query.text:
            self.search()

    def _later(self, work: Callable[..., None], *values: Any) -> None:
        """Run a function in the screen's thread, then draw."""
        with self._lock:
            if self._early is not None:
                self._early.append(lambda: work(*values))
                self._answered.set()
                return
        app = self.app
        assert app is not None

        def call() -> None:
            work(*values)
            app.invalidate()

        with suppress(RuntimeError):  # the loop was closed
            if app.loop:
                app.loop.call_soon_threadsafe(call)

    # Commands on the selected session.

    def choose(self, action: str) -> None:
        """Leave the picker with the selected session."""
        if self.app and (session := self.state.session):
            self.app.exit(result=Choice(action, session, self.store))

    def view(self) -> None:
        """Show the selected session in a pager, at the match."""
        session, preview, view = self.state.session, self.state.preview, self.options.view
        if session is None or view is None:
            return
        match = next((each for each in preview.texts if each.is_match), None) if preview else None
        path = preview.path if preview and match else session.path
        line = match.place.line if match else None
        run_in_terminal(lambda: view(path, line), in_executor=True)

    def copy(self) -> None:
        """Copy the command that resumes the selected session to the clipboard."""
        if (session := self.state.session) and self.app:
            if not is_resumable(Path(session.path)):
                self.state.message = "not copied: no client resumes it"
                return
            command = pasteable_command(session.id, session.project, self.store)
            if command is None:
                self.state.message = "not copied: its file name has control characters"
                return
            copy_text(self.app.output, command)
            self.state.message = f"copied: {shown(command)}"

    def ask(self, mode: PickerMode, text: str = "") -> None:
        """Ask for a title, a file name or a confirmation."""
        session, selected = self.state.session, self.state.selected
        if session is None or selected is None:
            return
        self.state.asked = (selected[0], session)
        self.state.mode = mode
        self.answer.reset()
        self.answer.insert_text(text)
        self.focus()

    def focus(self) -> None:
        """Focus the input line of the current mode."""
        if self.app and self._focused:
            self.app.layout.focus(self._focused())

    def cancel(self) -> None:
        """Close the open question without doing anything."""
        self.state.mode = PickerMode.COMMAND
        self.focus()

    def leave(self) -> None:
        """Leave the picker without a choice."""
        if self.app and not self.app.is_done:
            self.app.exit(result=None)

    def title(self) -> str:
        """Return the title of the selected session as the initial text of a rename."""
        return shown(self.state.session.title or "") if self.state.session else ""

    def export_name(self) -> str:
        """Return a file name to export the selected session to."""
        return f"session-{self.state.session.id[:8]}.html" if self.state.session else ""

    def finish(self) -> None:
        """Run the action that the open question is about."""
        mode, asked, text = self.state.mode, self.state.asked, self.answer.text.strip()
        self.cancel()
        if asked is None or (mode is not PickerMode.DELETE and not text):
            return
        store, session = self.stores[asked[0]], asked[1]
        actions: dict[PickerMode, Callable[[], ActionResult]] = {
            PickerMode.RENAME: lambda: session_actions.rename(store, session, text),
            PickerMode.EXPORT: lambda: session_actions.export(store, session, text),
            PickerMode.DELETE: lambda: session_actions.delete(store, session),
        }
        self.perform(actions[mode])

    def fork(self) -> None:
        """Copy the selected session."""
        if session := self.state.session:
            store = self.store
            self.perform(lambda: session_actions.fork(store, session))

    def undo(self) -> None:
        """Undo the last change made in this picker."""
        if change := self.state.change:
            self.state.change = None
            self.perform(lambda: session_actions.undo(change))
        else:
            self.state.message = "nothing to undo here (try: turnlog history)"

    def perform(self, action: Callable[[], ActionResult]) -> None:
        """Run an action in a thread; show what it did, and refresh the list."""
        app = self.app
        if app is None:
            return
        self.state.message = "working…"

        async def work() -> None:
            assert app.loop is not None
            try:
                result = await app.loop.run_in_executor(None, action)
            except (TurnlogError, OSError, ValueError) as error:
                text = error.line if isinstance(error, TurnlogError) else str(error)
                result = ActionResult(text)
            self._done(result)

        app.create_background_task(work())

    def _done(self, result: ActionResult) -> None:
        state = self.state
        hint = "  (u undoes it)" if result.change else ""
        state.message = f"{shown(result.message)}{hint}"
        state.change = result.change or state.change
        state.wanted, state.is_pinned = result.selected, True
        self.background.refresh()
        if self.app:
            self.app.invalidate()


class _FirstPage(NamedTuple):
    """The sessions that match, with the figures of those on the first page."""

    found: SessionNumbers
    rows: dict[SessionKey, ListedSession]
    preview: "SessionPreview | None"
    """The preview of the first session; sent along with the list to save a redraw."""


def _first_page(
    source: SessionSource,
    question: ListQuestion,
    height: int,
    has_preview: bool,
    dbs: Databases,
) -> _FirstPage:
    found = source.find(dbs, question)
    rows = describe_keys(dbs, found.numbers[:height])
    first = found.numbers[0] if has_preview and found.numbers else None
    return _FirstPage(found, rows, _preview_of(dbs, first, found) if first else None)


def _preview_of(dbs: Databases, key: SessionKey, found: SessionNumbers) -> "SessionPreview | None":
    from turnlog.picker.session_preview import read_preview

    store, number = key
    return read_preview(dbs[store], number, found.query, found.documents.get(key))


def copy_text(output: Any, text: str) -> None:
    """Copy a text to the terminal's clipboard, with the escape sequence OSC 52."""
    from base64 import b64encode

    output.write_raw(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")
    output.flush()
