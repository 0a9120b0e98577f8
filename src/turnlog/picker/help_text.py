"""Describe the picker's keys, in the footer and on the help page."""

from turnlog.picker.cells import width_of
from turnlog.picker.picker_state import PickerMode
from turnlog.picker.row_layout import Fragment

Keys = tuple[tuple[str, str], ...]
"""Keys and what they do, the most important first."""

FOOTERS: dict[PickerMode, Keys] = {
    PickerMode.SEARCH: (
        ("Enter", "{purpose}"),
        ("Esc", "commands"),
        ("Tab", "scope"),
        ("↑↓", "move"),
        ("Alt-c/v/w/f/r/d/e/y", "act"),
        ("F1", "help"),
        ("Ctrl-R", "refresh"),
    ),
    PickerMode.COMMAND: (
        ("Enter", "{purpose}"),
        ("Esc", "quit"),
        ("c", "chat"),
        ("v", "view"),
        ("w", "web"),
        ("f", "fork"),
        ("r", "rename"),
        ("d", "delete"),
        ("e", "export"),
        ("y", "copy"),
        ("/", "search"),
        ("?", "help"),
        ("u", "undo"),
    ),
    PickerMode.RENAME: (("Enter", "rename"), ("Esc", "cancel")),
    PickerMode.EXPORT: (("Esc", "cancel"), ("Enter", "export as .html, .md, .json or .txt")),
    PickerMode.DELETE: (("y", "delete"), ("n", "keep")),
    PickerMode.HELP: (("any key", "close"),),
}

HELP = """\
 Type to search all texts: words, "a phrase", prefix*, OR, NOT, ( ).
 The word at the end matches as a prefix.

 Filters      project:shop  branch:main  model:opus  tool:Bash  file:src/app.py
              since:3d  until:yesterday  cost:>1  cost:1..5  tag:release
              health:broken (ok, unchecked)  live: (live:working, live:idle)

 Enter        resume the session, or use it for the command that asked
 ↑ ↓          move; also Ctrl-P Ctrl-N, PageUp PageDown, Ctrl-Home Ctrl-End
 Tab          scope: this directory, its worktrees, all projects
 Ctrl-R, F5   read new sessions        Ctrl-U  clear the query
 Esc          commands, or hold Alt with the letter; Esc again quits

 c  open in turnlog chat     f  fork: copy the session    r  rename
 v  view in a pager          d  delete (asks; undoable)   e  export to a file
 w  open in the web app      y  copy the resume command   u  undo
 j k g G  move               /  back to the query         q  quit

 ● working  ◆ waits for you  ○ idle  ✓ resumes in full  ✗ would not  · unchecked
 ctx: context window in use  kept: days until deletion  †: cost is a lower bound
"""


def footer(keys: Keys, purpose: str, columns: int) -> list[Fragment]:
    """Return as many keys as fit into a line."""
    found: list[Fragment] = []
    used = 0
    for key, name in keys:
        text = name.format(purpose=purpose)
        needed = width_of(key) + 1 + width_of(text) + 2
        if used + needed > columns + 2:
            break
        found += [("bold", key), ("class:footer", f" {text}  ")]
        used += needed
    return found
