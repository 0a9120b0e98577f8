"""The library: `turnlog.open()` returns a `Log`, whose sessions can be read, edited and exported.

Rows are plain dicts (see `render.plain_rows`), ready for a data frame. Secrets are masked unless
the log was opened with `reveal=True`. This module adapts types; the rules are in the services.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Unpack

from turnlog.bundle.bundler import BundleOptions, write_bundle
from turnlog.bundle.importer import ImportOptions, import_bundle, summarise_import
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.edit_choices import EditChoices, edit_options
from turnlog.edit.journal import open_journal
from turnlog.edit.plan_builder import EditOptions
from turnlog.edit.put_files import PlannedFile, put_files
from turnlog.edit.redact.redactor import redact_sessions, summarise_redaction
from turnlog.edit.service import clone_session, edit_session, rename_session, tag_session
from turnlog.format.atomic import require_absent
from turnlog.format.timestamps import Moment, parse_since, parse_until
from turnlog.index.database import discard_indexes
from turnlog.index.filters import ReportFilters, SearchFilters, filters_of, selection_of
from turnlog.index.service import (
    LIMIT,
    SearchRequest,
    list_calls,
    report,
    run_sql,
    search_sessions,
    sessions_touching,
)
from turnlog.render.carrying_view import carrying_view
from turnlog.render.costs import session_cost
from turnlog.render.depth import Depth
from turnlog.render.export import ExportChoices, export_options, export_session
from turnlog.render.plain_rows import (
    PlainRow,
    call_rows,
    message_rows,
    plain_row,
    report_rows,
    turn_rows,
)
from turnlog.render.touched_files import touched_files
from turnlog.secrets import mask_value
from turnlog.store.catalog import describe, locate_session, select_sessions
from turnlog.store.paths import Store, expand_user
from turnlog.store.resume_command import file_command
from turnlog.store.session_lookup import find_session, require_in_store
from turnlog.store.stores import distinct, holder_of, open_stores, store_at
from turnlog.trace.service import TraceChoices, send_traces, write_traces
from turnlog.trace.targets import FileTarget, target_of
from turnlog.trace.trace_settings import load_targets
from turnlog.worktree.across_sessions import history_of
from turnlog.worktree.file_steps import all_steps
from turnlog.worktree.git_export import export_git
from turnlog.worktree.moments import parse_moment, state_at
from turnlog.worktree.restore_plan import plan_restore
from turnlog.worktree.state_views import state_view, step_view
from turnlog.worktree.worktree import open_worktree

AnyPath = str | Path


def open(  # noqa: A001 - called turnlog.open
    *stores: AnyPath | Sequence[AnyPath], reveal: bool = False
) -> "Log":
    """Open stores: directories such as ~/.claude, or lists of them; by default the user's own.

    `reveal` shows secrets, which are masked otherwise.
    """
    paths = [each for given in stores for each in _paths_in(given)]
    return Log([store_at(path) for path in paths] or open_stores(), reveal)


class Log:
    """All sessions of one or more stores. Queries bring the index up to date first."""

    def __init__(self, stores: Sequence[Store], reveal: bool = False) -> None:
        self._stores = distinct(stores)
        self._reveal = reveal

    def __repr__(self) -> str:
        return f"turnlog.open({', '.join(repr(str(store.root)) for store in self._stores)})"

    @property
    def stores(self) -> list[Path]:
        """The directories that were opened."""
        return [store.root for store in self._stores]

    def sessions(
        self,
        *,
        project: AnyPath | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> "list[LoggedSession]":
        """Return sessions, the most recently active first.

        `project` is a project's directory or part of its path; `since` and `until` are dates,
        datetimes, ages such as `3d`, `today` or `yesterday`.
        """
        start = None if since is None else parse_since(since)
        end = None if until is None else parse_until(until)
        found = select_sessions(self._stores, project and str(project), start, end)
        return [self._logged(file.path) for file in found]

    def session(self, name: AnyPath = "last") -> "LoggedSession":
        """Return one session by its path, id, start of an id, title or slug; or the `last` one."""
        return self._logged(find_session(self._stores, str(name)).path)

    def search(
        self,
        text: str,
        *,
        regex: bool = False,
        limit: int = LIMIT,
        **filters: Unpack[SearchFilters],
    ) -> list[PlainRow]:
        """Search all texts; return sessions with their hits by turn, the best first.

        `limit` is the maximum number of sessions; 0 means all.
        """
        _require_known("search", filters, SearchFilters)
        selection = selection_of(self._stores, filters)
        request = SearchRequest(text, regex, selection, limit, self._reveal)
        return [plain_row(each, self._reveal) for each in search_sessions(self._stores, request)]

    def stats(
        self, name: str = "daily", *, by: str | Sequence[str] = (), **filters: Unpack[ReportFilters]
    ) -> list[PlainRow]:
        """Return the rows of a report, as `turnlog stats` prints them.

        `by` groups them by further dimensions, such as project and model, or store. Entries that
        several stores contain count once.
        """
        _require_known("stats", filters, ReportFilters)
        dimensions = (by,) if isinstance(by, str) else tuple(by)
        found = report(self._stores, name, filters_of(filters), by=dimensions)
        return report_rows(found.rows, self._reveal)

    def calls(
        self, *, tool: str | None = None, errors: bool = False, **filters: Unpack[ReportFilters]
    ) -> list[PlainRow]:
        """Return the tool calls of all sessions, oldest first; with `errors`, only failed ones."""
        _require_known("calls", filters, ReportFilters)
        found = list_calls(self._stores, filters_of(filters))
        rows = report_rows(found.rows, self._reveal)
        return [
            row
            for row in rows
            if (tool is None or row["name"] == tool) and (row["ok"] is False or not errors)
        ]

    def sql(self, statement: str) -> list[PlainRow]:
        """Return the rows of one SQL query on the index, values as they are stored."""
        columns, values = run_sql(self._stores, statement)
        found = [dict(zip(columns, row, strict=True)) for row in values]
        return found if self._reveal else mask_value(found)

    def unbundle(
        self,
        path: AnyPath,
        *,
        into: AnyPath | None = None,
        password: str | None = None,
        dry_run: bool = False,
    ) -> PlainRow:
        """Import the sessions of a bundle; `into` is the project's directory on this machine."""
        options = ImportOptions(expand_user(str(into)) if into else None, password=password)
        plan = import_bundle(self._stores[0], expand_user(str(path)), options, dry_run=dry_run)
        return plain_row(summarise_import(plan, is_done=not dry_run))

    def history_of(self, path: AnyPath) -> list[PlainRow]:
        """Return the changes of a file in all sessions, oldest first, each with prompt and diff."""
        full = str(expand_user(str(path)).absolute())
        found = history_of(sessions_touching(self._stores, full, str(path)))
        views = [
            step_view(each.step, each.session.id, self._reveal, each.is_active) for each in found
        ]
        return [plain_row(view, self._reveal) for view in views]

    def undo(self, change: str | None = None) -> str:
        """Undo a change by its id, or the last one; return its title."""
        return open_journal().undo(change).title

    def sync_with(
        self, dest: str, *, init: bool = False, dry_run: bool = False, leave_removed: bool = False
    ) -> PlainRow:
        """Exchange the sessions of the first store with other machines; return a summary.

        `init` allows the first sync with a new DEST.
        """
        from turnlog.exchange import ExchangeOptions, sync_with

        options = ExchangeOptions(is_dry_run=dry_run, leave_removed=leave_removed, may_start=init)
        return asdict(sync_with(self._stores[0], dest, options))

    def push_to_lake(self, dest: str, *, dry_run: bool = False, again: bool = False) -> PlainRow:
        """Push new and changed sessions to a lake, as configured; return a summary."""
        from turnlog.lake.lake_push import PushOptions, push
        from turnlog.lake.lake_settings import read_settings

        options = PushOptions(is_dry_run=dry_run, again=again)
        return asdict(push(self._stores, dest, read_settings(), options))

    def _logged(self, path: Path) -> "LoggedSession":
        return LoggedSession(holder_of(self._stores, path), path, self._reveal)


class LoggedSession:
    """One session: its data as rows, and methods to edit, export, bundle and trace it.

    Each access reads the lines that were appended to the file since the last one.
    """

    def __init__(self, store: Store, path: Path, reveal: bool = False) -> None:
        self.path = path
        self._store = store
        self._reveal = reveal
        self._session: Session | None = None

    def __repr__(self) -> str:
        return f"<LoggedSession {self.id}>"

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def title(self) -> str | None:
        """The title that the client's picker shows."""
        return self.to_dict()["title"]

    @property
    def project(self) -> str:
        """The working directory; the name of the project's folder if no entry names one."""
        return self.to_dict()["project"]

    @property
    def last_active(self) -> datetime:
        """The time of the last entry, in UTC."""
        return locate_session(self.path).last_active

    def to_dict(self) -> PlainRow:
        """Return a row about the session, from the head and the tail of its file."""
        file = locate_session(self.path)
        about = plain_row(describe(file), reveal=True)
        project = about.pop("cwd") or self.path.parent.name
        store = str(self._store.root)
        head = {"id": self.id, "path": str(self.path), "store": store, "project": project}
        return plain_row(
            head | about | {"last_active": file.last_active, "size": file.size}, self._reveal
        )

    @property
    def turns(self) -> list[PlainRow]:
        """The turns of the active branch: prompt, times, calls, tokens, cost."""
        return turn_rows(self._opened(), self._reveal)

    @property
    def messages(self) -> list[PlainRow]:
        """Every answer of the model, of all branches: text, model, tokens, cost."""
        return message_rows(self._opened(), self._reveal)

    @property
    def calls(self) -> list[PlainRow]:
        """Every tool call, of all branches, with its input and result."""
        return call_rows(self._opened(), self._reveal)

    @property
    def files(self) -> list[PlainRow]:
        """The files that calls read or changed, with the changes as diffs."""
        files = touched_files(self._opened(), self._reveal)
        return [plain_row(file, self._reveal) for file in files]

    def file(self, path: AnyPath, *, at: str | None = None) -> PlainRow:
        """Return a file as of a turn (`3`), a line (`line:120`) or a time; by default the end.

        `certainty` is `exact`, `derived` or `gap`.
        """
        worktree = open_worktree(self._opened())
        moment = parse_moment(worktree, at)
        state = state_at(worktree, worktree.find(str(path)), moment)
        return plain_row(state_view(state, self._reveal), self._reveal)

    def file_history(self, path: AnyPath) -> list[PlainRow]:
        """Return the changes of a file on all branches, each with its turn, prompt and diff."""
        worktree = open_worktree(self._opened())
        steps = all_steps(worktree, worktree.find(str(path)))
        views = [step_view(each, self.id, self._reveal, each.leaf is None) for each in steps]
        return [plain_row(view, self._reveal) for view in views]

    def restore_files(
        self,
        directory: AnyPath,
        *,
        at: str | None = None,
        path: AnyPath | None = None,
        dry_run: bool = False,
    ) -> PlainRow:
        """Write the changed files, or only `path`, as of a moment into a directory.

        `Log.undo` reverts it. Raise `Conflict` if a file there has changed since the session.
        """
        worktree = open_worktree(self._opened())
        names = worktree.changed_files if path is None else [worktree.find(str(path))]
        plan = plan_restore(worktree, parse_moment(worktree, at), names)
        root = expand_user(str(directory)).absolute()
        files = [PlannedFile(*each) for each in plan.files]
        done = put_files(root, files, f"files {self.id} --restore {root}", dry_run)
        return {
            "written": [str(each) for each in done.written],
            "unchanged": [str(each) for each in done.unchanged],
            "absent": [state.path for state in plan.absent],
            "gaps": [state.path for state in plan.gaps],
            "change": done.record.id if done.record else None,
        }

    def export_git(self, directory: AnyPath, *, bare: bool = False) -> PlainRow:
        """Create a git repository with a commit for each turn that changed files."""
        target = expand_user(str(directory))
        return plain_row(export_git(open_worktree(self._opened()), target, bare), self._reveal)

    @property
    def cost(self) -> PlainRow:
        """The cost in total and by model, with sub-agents listed separately."""
        return plain_row(session_cost(self._opened()), self._reveal)

    def carrying(self, *, by: str = "call") -> list[PlainRow]:
        """Return what each `call`, `tool`, `file` or `turn` cost, summed over all requests.

        Every request pays for its context again. The rows are estimates that add up to the cost.
        """
        view = carrying_view(self._opened(), by, reveal=True)
        return [plain_row(row, self._reveal) for row in view.rows]

    def context(self, *, all_history: bool = False) -> list[PlainRow]:
        """Return the messages that the client would send on resume, or the whole history."""
        session = self._opened()
        messages = session.history() if all_history else session.context()
        return messages if self._reveal else mask_value(messages)

    def check(self, client_version: str | None = None) -> list[PlainRow]:
        """Return the findings that keep a client from resuming the whole session, worst first."""
        findings = check_session(self._opened(), client_version)
        return [plain_row(finding, self._reveal) for finding in findings]

    def edit(self, **choices: Unpack[EditChoices]) -> "SessionEdit":
        """Prepare an edit; nothing changes until its `apply()` is called."""
        _require_known("edit", choices, EditChoices)
        return SessionEdit(self, edit_options(choices))

    def clone(
        self, *, client_version: str | None = None, **choices: Unpack[EditChoices]
    ) -> "LoggedSession":
        """Copy the session to a new one, optionally transformed, and return that."""
        _require_known("clone", choices, EditChoices)
        options = edit_options(choices, transcript=self.path.absolute())
        session = self._opened()
        result = clone_session(self._store, session, options, client_version=client_version)
        return LoggedSession(self._store, result.clone.path, self._reveal)

    @property
    def resume_command(self) -> str | None:
        """The shell command that resumes the session in its directory; None if none does."""
        return file_command(self.path, describe(locate_session(self.path)).cwd, self._store)

    def rename(self, title: str) -> str | None:
        """Give the session a title, as the client's `/rename` does; return the change's id."""
        path = require_in_store(self._store, self.path)
        record = rename_session(self._store, path, title).record
        return record.id if record else None

    def tag(self, tag: str | None) -> str | None:
        """Label the session like the Agent SDK, or remove the label; return the change's id."""
        record = tag_session(self._store, require_in_store(self._store, self.path), tag).record
        return record.id if record else None

    def redact(
        self, *, also: Iterable[str | re.Pattern[str]] = (), dry_run: bool = False
    ) -> PlainRow:
        """Replace the secrets in all files of the session, and all text that matches `also`."""
        store = self._store
        outcome = redact_sessions(
            store,
            [require_in_store(store, self.path)],
            [re.compile(each) for each in also],
            dry_run=dry_run,
            discard_copies=lambda: discard_indexes(store),
        )
        return plain_row(summarise_redaction(outcome, dry_run))

    def export(
        self,
        path: AnyPath,
        *,
        full: bool = False,
        overwrite: bool = False,
        **choices: Unpack[ExportChoices],
    ) -> Path:
        """Write the session to an .html, .md, .json or .txt file; `full` is `depth="full"`."""
        _require_known("export", choices, ExportChoices)
        target = expand_user(str(path))
        options = export_options(target, choices, reveal=self._reveal)
        if full and options.depth is None:
            options = replace(options, depth=Depth.FULL)
        if not overwrite:
            require_absent(target)
        export_session(self._opened(), target, options)
        return target

    def bundle(
        self,
        path: AnyPath,
        *,
        as_is: bool = False,
        password: str | None = None,
        overwrite: bool = False,
    ) -> PlainRow:
        """Pack the session with all its files; secrets are replaced unless `as_is`."""
        target = expand_user(str(path))
        if not overwrite:
            require_absent(target)
        options = BundleOptions(not as_is, password)
        session = require_in_store(self._store, self.path)
        report = write_bundle(self._store, [session], target, options)
        return plain_row({"file": target, "size": report.size, "manifest": report.manifest})

    def trace(
        self,
        to: AnyPath,
        *,
        again: bool = False,
        overwrite: bool = False,
        **choices: Unpack[TraceChoices],
    ) -> PlainRow:
        """Send the session as traces to a backend or a URL, or write them to FILE.json.

        Anything that was sent before is skipped unless `again` is set.
        """
        _require_known("trace", choices, TraceChoices)
        settings = load_targets({"to": str(to), **choices})[0]
        target = target_of(settings)
        if isinstance(target, FileTarget):
            if not overwrite:
                require_absent(target.path)
            tally = write_traces(self._store, [self.path], target, settings)
            return {"target": str(target.path), "turns": len(tally.turns), "sent": tally.spans}
        (sent,) = send_traces(self._store, [self.path], target, settings, again=again)
        return plain_row(sent)

    def _opened(self) -> Session:
        if self._session is None:
            self._session = open_session(self.path)
        else:
            self._session.refresh()
        return self._session


@dataclass(frozen=True)
class SessionEdit:
    """An edit that was prepared but not applied yet."""

    session: LoggedSession
    options: EditOptions

    def preview(self) -> PlainRow:
        """Return the effect of the edit without changing anything."""
        return self._run(dry_run=True)

    def apply(self) -> str | None:
        """Change the session in place; return the change's id, or None if nothing changed."""
        return self._run(dry_run=False)["change"]

    def _run(self, *, dry_run: bool) -> PlainRow:
        session = self.session
        opened = session._opened()
        result = edit_session(session._store, opened, self.options, dry_run=dry_run)
        change = result.record.id if result.record else None
        outcome = {"is_change": result.is_change, "repaired": result.mended, "left": result.left}
        return plain_row(result.effect) | plain_row(outcome) | {"change": change}


def _paths_in(given: AnyPath | Sequence[AnyPath]) -> Sequence[AnyPath]:
    return (given,) if isinstance(given, str | Path) else given


def _require_known(method: str, given: Mapping[str, Any], known: type) -> None:
    """Raise TypeError for a misspelled keyword, which `**` would accept and nobody would use."""
    for name in given.keys() - known.__annotations__.keys():
        near = get_close_matches(name, known.__annotations__, 1)
        hint = f". Did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}{hint}")
