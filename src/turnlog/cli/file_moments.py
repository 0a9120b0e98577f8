"""Print or restore the files of a session as of a moment."""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_json, fit, plain, width
from turnlog.cli.sessions import leaf_of
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import Look, dim, echo, echo_masked, masked, style
from turnlog.conversation.session import Session
from turnlog.edit.put_files import PlannedFile, PutResult, put_files
from turnlog.errors import NotFound, UsageError
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.text_layout import wrap_line
from turnlog.text import file_size, plural
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.blame import blame_lines
from turnlog.worktree.file_names import FileName
from turnlog.worktree.file_steps import (
    FileStep,
    TurnPlaces,
    diff_change,
    diff_versions,
    file_steps,
)
from turnlog.worktree.moments import FileMoment, last_known_in_full, parse_moment, state_at
from turnlog.worktree.restore_plan import RestorePlan, plan_restore
from turnlog.worktree.state_views import (
    BlameView,
    blame_views,
    mask_lines,
    state_view,
    step_view,
    text_of,
)
from turnlog.worktree.worktree import FileRevision, Worktree, open_worktree

DIFF_COLOURS: dict[str, Look] = {"+": "green", "-": "red", "@": "cyan"}
LOOKS: dict[str, Look] = {"exact": "green", "derived": "yellow", "gap": "red"}
WORDS = {Certainty.EXACT: "is exact", Certainty.DERIVED: "is derived", Certainty.GAP: "has gaps"}
MAX_LABELS = 5
"""States that are named for each assumption."""
STATES = (
    Column("file", is_path=True),
    Column("state", look=LOOKS.get),
    Column("size", is_number=True),
    Column("seen by", expendable=1),
    Column("line", is_number=True),
    Column("note", expendable=2, look="dim"),
)
VERSIONS = (
    Column("time", is_whole=True),
    Column("turn", is_number=True),
    Column("line", is_number=True),
    Column("by"),
    Column("state", look=LOOKS.get),
    Column("size", is_number=True),
    Column("note", expendable=1, look="dim"),
)


@dataclass(frozen=True)
class FilesOptions:
    """The parsed options of `turnlog files`."""

    path: str | None
    at: str | None
    diff: bool
    blame: bool
    into: Path | None
    leaf: str | None
    dry_run: bool
    reveal: bool
    as_json: bool


def print_states(session: Session, options: FilesOptions) -> None:
    """List the changed files as of a moment."""
    worktree, moment = _opened(session, options)
    states = [state_at(worktree, name, moment) for name in worktree.changed_files]
    if options.as_json:
        echo_json([state_view(state, reveal=True, with_content=False) for state in states])
        return
    if not states:
        return
    for line in Table(with_rows(STATES, map(_state_cells, states)), width()).lines():
        echo(line)
    _explain_derived(states, lambda state: Path(state.path).name)


def print_content(session: Session, options: FilesOptions) -> None:
    """Print the content of a file as of a moment; exit with 1 if lines are unknown."""
    worktree, moment = _opened(session, options)
    state = state_at(worktree, _named(worktree, options), moment)
    if options.as_json:
        echo_json(state_view(state, reveal=True))
        return
    _note(state, moment)
    if state.is_absent or state.certainty is Certainty.GAP:
        _print_known(state)
        if not state.is_absent:
            echo(f"turnlog: {_last_known(worktree, state, moment)}", err=True)
        raise click.exceptions.Exit(1)
    text = text_of(state.content or b"")
    if text is None:
        hint = f"turnlog files {shlex.quote(session.id)} {shlex.quote(state.path)} --restore DIR"
        raise NotFound(f"{state.path} is not text", hint)
    # Masked as a whole: a private key spans many lines.
    shown = masked(text)
    if not sys.stdout.isatty():
        # Not `echo`: colour codes and a missing final newline are part of the file.
        sys.stdout.write(shown)
    elif shown:
        echo_masked(shown.removesuffix("\n"))


def print_difference(session: Session, options: FilesOptions) -> None:
    """Print how a file changed between a moment and the end of the branch."""
    worktree, moment = _opened(session, options)
    name = _named(worktree, options)
    end = parse_moment(worktree, None, moment.leaf)
    then = state_at(worktree, name, moment)
    now = state_at(worktree, name, end)
    diff = diff_versions(then, now)
    if options.as_json:
        states = [state_view(each, reveal=True, with_content=False) for each in (then, now)]
        echo_json({"before": states[0], "after": states[1], "diff": diff})
        return
    _note(then, moment)
    _note(now, end)
    _print_diff(diff, options.reveal)


def print_versions(session: Session, options: FilesOptions) -> None:
    """List the states of one file; with --diff, print each change."""
    worktree = open_worktree(session)
    leaf = leaf_of(session, options.leaf)
    name = _named(worktree, options)
    places = TurnPlaces(worktree, leaf)
    if options.as_json:
        steps = file_steps(worktree, name, leaf, places)
        echo_json([step_view(each, session.id, reveal=True) for each in steps])
        return
    if options.diff:
        for step in file_steps(worktree, name, leaf, places):
            print_step(step, options.reveal)
        return
    versions = worktree.versions(name, leaf)
    rows = [_version_cells(each, places) for each in versions]
    if not rows:
        raise NotFound(f"nothing is recorded of {name.path} on this branch", "turnlog tree")
    for line in Table(with_rows(VERSIONS, rows), width()).lines():
        echo(line)
    _explain_derived(versions, lambda version: f"line {version.line}")


def print_blame(session: Session, options: FilesOptions) -> None:
    """Print each line of a file with the turn that wrote it."""
    if options.path is None:
        raise UsageError("--blame needs a PATH", f"turnlog files {shlex.quote(session.id)}")
    worktree, moment = _opened(session, options)
    name = _named(worktree, options)
    places = TurnPlaces(worktree, moment.leaf)
    state = state_at(worktree, name, moment)
    versions = worktree.versions(name, moment.leaf, moment.place)
    if not options.as_json:
        _note(state, moment)
    if state.content is None:
        raise NotFound(f"the content of {name.path} is not known as of {moment.label}", None)
    lines = blame_lines(versions, worktree.base(name, moment.leaf))
    turns = {id(each): _turn_of(places, each) for each in versions}
    views = blame_views(lines, turns, options.reveal or options.as_json)
    if options.as_json:
        echo_json(views)
        return
    wide = len(str(len(views)))
    for view in views:
        echo(f"{dim(_author(view))} {view.number:>{wide}}  {plain(view.text, keep_indent=True)}")


def restore(session: Session, options: FilesOptions) -> None:
    """Write files as of a moment into a directory."""
    assert options.into
    worktree, moment = _opened(session, options)
    names = [_named(worktree, options)] if options.path else worktree.changed_files
    plan = plan_restore(worktree, moment, names)
    root = options.into.absolute()
    files = [PlannedFile(*each) for each in plan.files]
    title = f"files {session.id} --restore {root}"
    done = put_files(root, files, title, options.dry_run)
    if options.as_json:
        echo_json(_restore_json(plan, done))
        return
    _print_restored(plan, done, moment, options.dry_run)
    for state in plan.gaps:
        known = _last_known(worktree, state, moment, f" --restore {shlex.quote(str(root))}")
        problem = f"{plain(state.path)}: {_ranges(state)} unknown"
        echo(f"turnlog: not restored: {problem}; {known}", err=True)


def print_step(step: FileStep, reveal: bool, head: str = "") -> None:
    """Print a change: its time, place, tool, prompt and diff."""
    version = step.version
    where = f"{head}turn {step.turn or '?'}, line {version.line}"
    by = f"{version.tool}{f' of sub-agent {version.agent_id}' if version.agent_id else ''}"
    state = style(version.certainty, LOOKS[version.certainty])
    echo(f"{style(_time(version.time), 'bold')}  {where}  {plain(by)}  {state}")
    if step.prompt:
        echo(dim(f"  {fit(plain(step.prompt), max(20, width() - 2)).rstrip()}"))
    if version.is_absent:
        echo("  deleted")
    elif version.certainty is Certainty.GAP:
        echo(f"  {version.belief.reason}: {_ranges(version)} unknown")
    _print_diff(diff_change(step.before, version), reveal, "  ")


def _opened(session: Session, options: FilesOptions) -> tuple[Worktree, FileMoment]:
    worktree = open_worktree(session)
    return worktree, parse_moment(worktree, options.at, leaf_of(session, options.leaf))


def _named(worktree: Worktree, options: FilesOptions) -> FileName:
    return worktree.find(options.path or "")


def _note(state: FileRevision, moment: FileMoment) -> None:
    """Print to stderr how certain the state of a file is."""
    what = "did not exist" if state.is_absent else WORDS[state.certainty]
    known = f", {plain(state.tool)} in line {state.line}" if state.tool else ""
    reason = "" if state.certainty is Certainty.EXACT else f" ({plain(state.belief.reason)})"
    text = f"{plain(state.path)} as of {moment.label} {what}{known}{reason}"
    if not sys.stderr.isatty():
        echo(text, err=True)
        return
    for line in wrap_line(text, width()):
        echo(dim(line), err=True)


def _last_known(
    worktree: Worktree, state: FileRevision, moment: FileMoment, option: str = ""
) -> str:
    """Return a sentence about the last state of a file without gaps, with a command for it."""
    known = last_known_in_full(worktree, state.name, moment)
    if known is None:
        return "no earlier state is known in full"
    words = f"{worktree.session.id} {shlex.quote(state.path)}"
    command = f"turnlog files {words} --at {known.label.replace(' ', ':')}{option}"
    return f"the last state known in full is that of {known.label} (try: {plain(command)})"


def _explain_derived(states: Sequence[FileRevision], label: Callable[[FileRevision], str]) -> None:
    """Print what derived states assume to stderr, each assumption once."""
    reasons: dict[str, list[str]] = {}
    for state in states:
        if state.certainty is Certainty.DERIVED:
            reasons.setdefault(state.belief.reason, []).append(label(state))
    if reasons:
        echo(dim("derived: complete, if an assumption holds"), err=True)
    for reason, labels in reasons.items():
        more = f" and {len(labels) - MAX_LABELS} more" if len(labels) > MAX_LABELS else ""
        text = f"{', '.join(labels[:MAX_LABELS])}{more}: {reason}"
        for line in wrap_line(plain(text), width() - 2):
            echo(dim(f"  {line}"), err=True)


def _print_known(state: FileRevision) -> None:
    """Print the known lines of a file with their numbers, and the ranges that are unknown."""
    known = state.belief.known
    lines = dict(zip(known, mask_lines(list(known.values())), strict=True))
    wide = len(str(max(lines, default=0)))
    gaps = dict(state.gaps)
    for number in sorted(lines.keys() | gaps.keys()):
        if number in gaps:
            echo(dim(f"{'':>{wide}}  … {_range(number, gaps[number])} unknown"))
        else:
            echo(f"{dim(f'{number:>{wide}}')}  {plain(lines[number], keep_indent=True)}")


def _print_diff(diff: Sequence[str], reveal: bool, indent: str = "") -> None:
    for line in mask_lines(list(diff), reveal):
        echo(f"{indent}{style(plain(line, keep_indent=True), DIFF_COLOURS.get(line[:1]))}")


def _state_cells(state: FileRevision) -> list[str]:
    size = "absent" if state.is_absent else _size(state)
    line = str(state.line) if state.line else ""
    note = plain(state.belief.reason) if state.certainty is Certainty.GAP else ""
    return [plain(state.path), state.certainty, size, plain(state.tool), line, note]


def _version_cells(version: FileRevision, places: TurnPlaces) -> list[str]:
    by = f"{version.tool}, sub-agent" if version.agent_id else version.tool
    note = ""
    if version.certainty is Certainty.GAP:
        note = f"{_ranges(version)} unknown; {version.belief.reason}"
    turn = str(_turn_of(places, version) or "")
    size = "absent" if version.is_absent else _size(version)
    cells = [turn, str(version.line), by, version.certainty, size, note]
    return [_time(version.time), *map(plain, cells)]


def _size(version: FileRevision) -> str:
    return "" if version.content is None else file_size(len(version.content))


def _ranges(version: FileRevision) -> str:
    shown = [_range(*each) for each in version.gaps[:4]]
    more = ", …" if len(version.gaps) > 4 else ""
    return f"{', '.join(shown)}{more}" if shown else "nothing"


def _range(first: int, last: int | None) -> str:
    if last is None:
        return f"lines from {first} on"
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _turn_of(places: TurnPlaces, version: FileRevision) -> int | None:
    turn = places.turn_at(version.place)
    return turn.n if turn else None


def _author(view: BlameView) -> str:
    if view.line is None:
        return "before".ljust(24)
    return f"turn {view.turn or '?'} line {view.line} {view.tool}"[:24].ljust(24)


def _time(stamp: str | None) -> str:
    moment = parse_timestamp(stamp)
    return f"{moment.astimezone():%Y-%m-%d %H:%M}" if moment else "?"


def _restore_json(plan: RestorePlan, done: PutResult) -> dict[str, object]:
    return {
        "written": list(map(str, done.written)),
        "unchanged": list(map(str, done.unchanged)),
        "absent": [state.path for state in plan.absent],
        "gaps": [state.path for state in plan.gaps],
        "change": done.record.id if done.record else None,
    }


def _print_restored(plan: RestorePlan, done: PutResult, moment: FileMoment, dry_run: bool) -> None:
    by_parts = {file.parts: state for file, state in zip(plan.files, plan.states, strict=True)}
    verb = "Would restore" if dry_run else "Restored"
    echo(f"{verb} {plural(len(done.written), 'file')} as of {moment.label}")
    for path in done.written:
        state = next((by_parts[p] for p in by_parts if path.parts[-len(p) :] == p), None)
        certainty = state.certainty if state else ""
        echo(f"  {plain(str(path))}  {style(certainty, LOOKS.get(certainty))}")
    if done.unchanged:
        echo(f"{plural(len(done.unchanged), 'file')} had that content already")
    for state in plan.absent:
        echo(f"turnlog: not restored: {plain(state.path)} did not exist then", err=True)
    print_undo(done.record)
