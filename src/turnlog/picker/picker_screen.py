"""The picker's screen: the query, the list, the preview and a line of keys.

On a wide screen, the preview is beside the list, otherwise below it. The picker is drawn on stderr,
so that stdout stays free for the id of the chosen session.
"""

import sys
import time
from collections.abc import Callable, Sequence

from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import create_input
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Container,
    Dimension,
    DynamicContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    UIContent,
    UIControl,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style

from turnlog.picker.cells import fit, shown
from turnlog.picker.help_text import FOOTERS, HELP, footer
from turnlog.picker.picker import Choice, Picker, PickerApp, PickerOptions
from turnlog.picker.picker_keys import bind_keys
from turnlog.picker.picker_state import PickerMode
from turnlog.picker.preview_pane import facts_line, preview_fragments
from turnlog.picker.row_layout import RowFacts, RowLayout
from turnlog.picker.session_source import MOST_FOUND
from turnlog.store.paths import Store
from turnlog.text import plural

BESIDE = 150
"""Minimum terminal width for a preview beside the list."""
STYLES = {
    "heading": "underline",
    "dim": "ansibrightblack",
    "project": "ansicyan",
    "tag": "ansiyellow",
    "live": "ansigreen",
    "waiting": "ansiyellow",
    "broken": "ansired",
    "selected": "reverse",
    "rule": "ansibrightblack",
    "prompt": "ansigreen",
    "answer": "",
    "match": "bold ansiyellow",
    "mark": "bold ansiyellow",
    "message": "ansiyellow",
    "footer": "ansibrightblack",
    "mode": "bold ansimagenta",
}


class SessionListControl(UIControl):
    """The list: only rows on the screen are formatted."""

    def __init__(self, picker: Picker) -> None:
        self._picker = picker

    def create_content(self, width: int, height: int) -> UIContent:
        picker, state = self._picker, self._picker.state
        # The list's height is known only here; paging and loading rows depend on it.
        picker.set_height(max(1, height))
        layout = RowLayout(width, bool(state.live))
        now = time.time()
        facts = [RowFacts(state.live, days, now) for days in picker.kept_days]
        rows: list[StyleAndTextTuples] = []
        for place, number in enumerate(state.visible(max(1, height)), state.top):
            row, is_selected = state.rows.get(number), place == state.cursor
            # A row that is still being read keeps its line, so that nothing moves when it arrives.
            pieces = layout.waiting(is_selected)
            if row:
                pieces = layout.row(row, facts[number[0]], is_selected)
            rows.append([*pieces])
        if not rows:
            rows = [[("class:dim", f"  {self._empty()}")]]
        return UIContent(lambda line: rows[line], line_count=len(rows), show_cursor=False)

    def _empty(self) -> str:
        if self._picker.background.is_refreshing or not self._picker.state.is_known:
            return "Reading sessions…"
        state = self._picker.state
        if state.scope + 1 < len(state.scopes):
            return "No session matches.  Tab searches other directories, Ctrl-U clears the query."
        if not self._picker.query.text.strip():
            return "There are no sessions yet.  Esc Esc leaves; try: turnlog --samples pick"
        return "No session of any project matches.  Ctrl-U clears the query."

    def is_focusable(self) -> bool:
        return False


class PickerScreen:
    """Builds the layout of a picker."""

    def __init__(self, picker: Picker) -> None:
        self._picker = picker
        query = BufferControl(picker.query, [BeforeInput(self._lead)])
        answer = BufferControl(picker.answer, [BeforeInput(self._question)])
        self._query, self._answer = _input_line(query), _input_line(answer)
        self._list = Window(SessionListControl(picker))
        listed = HSplit([self._line(self._heading), self._list])
        facts = Window(FormattedTextControl(self._facts), dont_extend_height=True)
        shown_text = HSplit([facts, Window(FormattedTextControl(self._preview), wrap_lines=True)])
        self._below = HSplit(
            [
                HSplit([listed], height=Dimension(weight=3)),
                HSplit([shown_text], height=Dimension(weight=2)),
            ]
        )
        self._beside = VSplit(
            [
                HSplit([listed], width=Dimension(weight=3)),
                Window(width=1, char="│", style="class:rule"),
                HSplit([shown_text], width=Dimension(weight=2)),
            ]
        )
        self._help = Window(FormattedTextControl(HELP), wrap_lines=True)

    def style(self) -> Style:
        """Return the colours."""
        return Style.from_dict(STYLES)

    def layout(self) -> Layout:
        """Return the layout; its width decides where the preview is."""
        is_asked = Condition(
            lambda: self._picker.state.mode in (PickerMode.RENAME, PickerMode.EXPORT)
        )
        root = HSplit(
            [
                VSplit(
                    [
                        ConditionalContainer(self._answer, is_asked),
                        ConditionalContainer(self._query, ~is_asked),
                        # A title to be edited needs the whole line of a narrow terminal.
                        ConditionalContainer(self._line(self._count, is_short=True), ~is_asked),
                    ]
                ),
                DynamicContainer(self._body),
                Window(
                    FormattedTextControl(self._footer),
                    height=Dimension(min=1, max=4),
                    wrap_lines=True,
                    dont_extend_height=True,
                ),
            ]
        )
        return Layout(root, self._query)

    def focused(self) -> Window:
        """Return the window that receives typed text."""
        is_asked = self._picker.state.mode in (PickerMode.RENAME, PickerMode.EXPORT)
        return self._answer if is_asked else self._query

    def _line(self, text: Callable[[], StyleAndTextTuples], is_short: bool = False) -> Window:
        return Window(FormattedTextControl(text), height=1, dont_extend_width=is_short)

    def _body(self) -> Container:
        if self._picker.state.mode is PickerMode.HELP:
            return self._help
        return self._beside if self._columns() >= BESIDE else self._below

    def _columns(self) -> int:
        app = self._picker.app
        return app.output.get_size().columns if app else 80

    def _lead(self) -> StyleAndTextTuples:
        if self._picker.state.mode is PickerMode.SEARCH:
            return [("class:mode", "❯ ")]
        return [("class:mode", "≡ ")]

    def _question(self) -> StyleAndTextTuples:
        names = {PickerMode.RENAME: "New title: ", PickerMode.EXPORT: "Export to: "}
        return [("class:mode", names.get(self._picker.state.mode, ""))]

    def _count(self) -> StyleAndTextTuples:
        state = self._picker.state
        found = state.found
        count = plural(len(found.numbers), "session")
        # A search stops at its limit, so the count is a lower bound.
        if found.query and len(found.numbers) == MOST_FOUND:
            count = f"the first {count}"
        busy = " ⟳" if self._picker.background.is_refreshing else ""
        return [
            ("class:dim", f" {count}{busy} · "),
            ("class:mode", shown(state.scopes[state.scope].name)),
        ]

    def _heading(self) -> StyleAndTextTuples:
        # The width of the list at the last paint; before the first one, that of the terminal.
        info = self._list.render_info
        width = info.window_width if info else self._columns()
        return [*RowLayout(width, bool(self._picker.state.live)).heading()]

    def _facts(self) -> StyleAndTextTuples:
        picker, session = self._picker, self._picker.state.session
        if session is None:
            return []
        columns = self._columns()
        width = columns if columns < BESIDE else max(20, columns * 2 // 5 - 1)
        store = picker.state.selected[0] if picker.state.selected else 0
        facts = RowFacts(picker.state.live, picker.kept_days[store], time.time())
        return [*facts_line(session, facts, width)]

    def _preview(self) -> StyleAndTextTuples:
        state = self._picker.state
        return [*preview_fragments(state.preview)] if state.session else []

    def _footer(self) -> StyleAndTextTuples:
        state, columns = self._picker.state, self._columns()
        if state.mode is PickerMode.DELETE and state.asked:
            # Name the session that was asked about: another one may be selected by now.
            session = state.asked[1]
            title = fit(shown(session.title or session.id), columns - 40).rstrip()
            return [("class:broken", f"Delete {title}? "), ("", "y yes · n no (undoable)")]
        problem = state.found.problem
        if text := state.message or problem:
            return [("class:message", shown(text))]
        purpose = self._picker.options.purpose or "resume"
        return [*footer(FOOTERS[state.mode], purpose, columns)]


def pick_session(stores: Sequence[Store], options: PickerOptions) -> Choice | None:
    """Let the user pick a session; return None if they leave without choosing."""
    # Create the picker first, so that its query runs while the screen is built.
    picker = Picker(stores, options)
    screen = PickerScreen(picker)
    return picker.run(_make_app(picker, screen), screen.focused)


async def pick_session_inside(stores: Sequence[Store], options: PickerOptions) -> Choice | None:
    """Let the user pick a session in a program that has an event loop and lends its terminal."""
    picker = Picker(stores, options)
    screen = PickerScreen(picker)
    return await picker.run_inside(_make_app(picker, screen), screen.focused)


def _make_app(picker: Picker, screen: PickerScreen) -> PickerApp:
    return PickerApp(
        layout=screen.layout(),
        key_bindings=bind_keys(picker),
        style=screen.style(),
        full_screen=True,
        input=create_input(sys.stdin),
        output=create_output(sys.stderr),
    )


def _input_line(control: BufferControl) -> Window:
    # Recompute the scroll position at every paint, so that widening the terminal shows hidden text.
    return Window(control, height=1, get_horizontal_scroll=lambda _: 0)
