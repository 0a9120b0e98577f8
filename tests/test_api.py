"""The library: `turnlog.open()` and what it returns, on real files."""

import os
import re
import shutil
import traceback
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import turnlog
from support.build import SESSION, assistant, call, line, result, session, text, thinking, user
from support.otlp_receiver import receiving
from turnlog.errors import Ambiguous, Conflict, NotFound, TurnlogError, UsageError
from turnlog.index.reports.reports import REPORTS

LONG_AGO = 1_763_000_000
"""A modification time that no edit takes for a session in use."""
OTHER = "0ther000-0000-4000-8000-000000000000"
PLAIN = (str, int, float, bool, datetime, type(None))
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one session of two turns, which the library opens by default."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "home"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    add_session(tmp_path / "home", shop_session())
    return tmp_path / "home"


def shop_session() -> bytes:
    edited = {"file_path": "/home/ada/shop/a.py", "old_string": "a", "new_string": "b"}
    return session(
        user("fix the rounding"),
        assistant(thinking("hm"), text("I will look."), call("Bash", {"command": "pytest"}, "t1")),
        result("t1", "2 failed", is_error=True),
        assistant(call("Edit", edited, "t2")),
        result("t2", "done"),
        assistant(text("Fixed.")),
        user("thanks"),
        assistant(text("You are welcome.")),
        line("custom-title", custom_title="Rounding"),
    )


def add_session(root: Path, content: bytes, session_id: str = SESSION) -> Path:
    path = root / "projects" / "-home-ada-shop" / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def values_in(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for each in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from values_in(each)
    elif isinstance(value, list):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from values_in(each)
    else:
        yield value


def test_the_default_is_the_store_of_the_user(root: Path) -> None:
    log = turnlog.open()
    assert log.stores == [root]
    assert [each.id for each in log.sessions()] == [SESSION]


@pytest.mark.parametrize("name", ["", "projects"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_directory_is_named_by_text_or_path(root: Path, kind: type, name: str) -> None:
    assert len(turnlog.open(kind(root / name)).sessions()) == 1


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such directory"):
        turnlog.open(tmp_path / "nosuch")
    with pytest.raises(NotFound, match="it has no projects folder"):
        turnlog.open(tmp_path)


def test_a_missing_default_store_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "nosuch"))
    assert turnlog.open().sessions() == []


def test_a_client_version_that_is_none_is_a_usage_error(root: Path) -> None:
    session = turnlog.open(root).session("last")
    for use in (lambda: session.check("latest"), lambda: session.clone(client_version="newest")):
        with pytest.raises(UsageError, match="is not a client version"):
            use()


def test_a_session_describes_itself(root: Path) -> None:
    found = turnlog.open().session()
    assert repr(found) == f"<LoggedSession {SESSION}>"
    assert (found.id, found.title, found.project) == (SESSION, "Rounding", "/home/ada/shop")
    assert found.path == root / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    assert found.last_active == datetime(2026, 11, 15, 6, 0, 8, tzinfo=UTC)
    assert found.to_dict()["started"] == datetime(2026, 11, 15, 6, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", ["last", SESSION, "5e55", "Rounding", "round"])
def test_a_session_is_found_by_name(root: Path, name: str) -> None:
    assert turnlog.open().session(name).id == SESSION


def test_a_session_is_found_by_path(root: Path) -> None:
    path = turnlog.open().session().path
    assert turnlog.open().session(path).id == turnlog.open().session(str(path)).id == SESSION


@pytest.mark.parametrize(
    ("period", "count"),
    [
        ({"since": "2026-11-15"}, 1),
        ({"since": datetime(2026, 11, 15, 6, 0, 9, tzinfo=UTC)}, 0),
        ({"since": date(2026, 11, 14), "until": date(2026, 11, 16)}, 1),
        ({"until": "2026-11-13"}, 0),
        ({"project": "shop"}, 1),
        ({"project": "blog"}, 0),
        ({"project": "home/ada"}, 1),
    ],
)
def test_sessions_are_selected(
    root: Path, monkeypatch: pytest.MonkeyPatch, period: dict[str, Any], count: int
) -> None:
    # The name of an existing directory would select the sessions of that directory only.
    monkeypatch.chdir(root)
    log = turnlog.open()
    assert len(log.sessions(**period)) == count
    assert len(log.calls(**period)) == 2 * count


def test_what_is_no_date_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="'soon' is not a date"):
        turnlog.open().sessions(since="soon")


@pytest.mark.parametrize("name", REPORTS)
def test_reports_have_plain_values(root: Path, name: str) -> None:
    read = call("Read", {"file_path": "/home/ada/shop/a.py"}, "r1")
    looked = session(user("look"), assistant(read), result("r1", "a"), session_id=OTHER)
    add_session(root, looked, OTHER)
    rows = turnlog.open().stats(name)
    assert rows
    assert {type(value) for row in rows for value in values_in(row)} <= set(PLAIN)


@pytest.mark.parametrize("name", ["turns", "messages", "calls", "files"])
def test_rows_of_a_session_have_plain_values(root: Path, name: str) -> None:
    rows = getattr(turnlog.open().session(), name)
    assert rows
    assert {type(value) for row in rows for value in values_in(row)} <= set(PLAIN)


@pytest.mark.parametrize("by", ["call", "tool", "file", "turn"])
def test_carrying_costs_have_plain_values_and_add_up(root: Path, by: str) -> None:
    log = turnlog.open()
    rows = log.session().carrying(by=by)
    assert {type(value) for row in rows for value in values_in(row)} <= set(PLAIN)
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(
        log.session().cost["cost_usd"], abs=1e-9
    )
    told = log.stats("carrying", by="session")
    assert {type(value) for row in told for value in values_in(row)} <= set(PLAIN)


def test_carrying_costs_by_anything_else_are_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="cannot group by model: choose from call, tool"):
        turnlog.open().session().carrying(by="model")


def test_the_samples_have_plain_values_and_one_type_per_column(root: Path) -> None:
    log = turnlog.open(Path(turnlog.__file__).with_name("samples"))
    for rows in (log.stats("daily", by=["project", "model"]), log.stats("blocks"), log.calls()):
        for name in rows[0]:
            known = [row[name] for row in rows if row[name] is not None]
            assert all(type(value) is type(known[0]) for value in known), name
    for each in log.sessions():
        found = [each.to_dict(), each.turns, each.messages, each.calls, each.files, each.cost]
        assert {type(value) for row in found for value in values_in(row)} <= set(PLAIN)


def test_days_are_local_and_moments_are_in_utc(root: Path) -> None:
    log = turnlog.open()
    moment = log.calls()[0]["time"]
    (row,) = log.stats("daily", by="model")
    assert moment == datetime(2026, 11, 15, 6, 0, 2, tzinfo=UTC)
    assert row["day"] == datetime.combine(moment.astimezone().date(), datetime.min.time())
    assert (row["model"], type(row["cost_usd"]), row["turns"]) == ("claude-opus-5-5", float, 2)


def test_timestamps_inside_inputs_stay_text(root: Path) -> None:
    given = {"time": "2026-11-15T06:00:00Z", "started": "2026-11-15"}
    add_session(root, session(user("go"), assistant(call("Clock", given, "t1"))))
    assert turnlog.open().session().calls[0]["input"] == given


def test_calls_are_selected_by_tool_and_outcome(root: Path) -> None:
    log = turnlog.open()
    assert [each["name"] for each in log.calls()] == ["Bash", "Edit"]
    assert [each["ok"] for each in log.calls()] == [False, True]
    assert [each["command"] for each in log.calls(errors=True)] == ["pytest"]
    assert [each["path"] for each in log.calls(tool="Edit")] == ["/home/ada/shop/a.py"]


def test_a_call_without_a_result_is_neither_ok_nor_failed(root: Path) -> None:
    add_session(root, session(user("go"), assistant(call("Bash", {}, "t1"))))
    assert [each["ok"] for each in turnlog.open().calls()] == [None]
    assert turnlog.open().calls(errors=True) == []


def test_search_takes_the_filters_of_the_command(root: Path) -> None:
    log = turnlog.open()
    (found,) = log.search("rounding", role="user")
    assert (found["id"], found["turns"][0]["hits"][0]["kind"]) == (SESSION, "prompt")
    assert log.search("rounding", role="tool") == []
    assert log.search("r.unding", regex=True, session="last", since="2026-11-15")
    with pytest.raises(UsageError, match="cannot search for nosuch"):
        log.search("rounding", kinds=["nosuch"])


def test_sql_returns_rows_by_column(root: Path) -> None:
    assert turnlog.open().sql("SELECT count(*) AS n FROM calls") == [{"n": 2}]


def test_an_unknown_report_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="no report dayly: choose from daily"):
        turnlog.open().stats("dayly")


def test_misspelled_arguments_are_refused(root: Path) -> None:
    log: Any = turnlog.open()
    for call_it in (
        lambda: log.stats("daily", projekt="shop"),
        lambda: log.search("x", tools="Bash"),
        lambda: log.session().edit(strip_tool=True),
        lambda: log.session().clone(strip_tool=True),
        lambda: log.session().trace("x.json", users="ada"),
    ):
        with pytest.raises(TypeError, match=r"unexpected keyword argument .* Did you mean"):
            call_it()


def test_several_stores_are_one_log(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    add_session(other, session(user("elsewhere"), session_id=OTHER), OTHER)
    log = turnlog.open([root, str(other)])
    assert [each.id for each in log.sessions()] == [SESSION, OTHER]
    assert (log.session("last").id, log.session("0ther").id) == (SESSION, OTHER)
    assert {row["store"] for row in log.sql("SELECT store FROM files")} == {str(root), str(other)}
    assert [each.to_dict()["store"] for each in log.sessions()] == [str(root), str(other)]
    assert {row["store"] for row in log.stats("session", by="store")} == {str(root), str(other)}
    assert [row["store"] for row in log.calls()] == [str(root)] * 2
    assert [row["store"] for row in log.search("elsewhere", session=OTHER)] == [str(other)]


def test_a_session_in_two_stores_is_ambiguous_unless_named_by_path(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(root, tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    log = turnlog.open(root, tmp_path / "copy")
    assert log.stats() == turnlog.open(root).stats()
    with pytest.raises(Ambiguous):
        log.session(SESSION)
    path = Path("copy", "projects", "-home-ada-shop", f"{SESSION}.jsonl")
    copy = log.session(path)
    os.utime(path, (LONG_AGO, LONG_AGO))
    copy.rename("The copy")
    assert (copy.title, turnlog.open(root).session().title) == ("The copy", "Rounding")


def test_an_edit_is_previewed_applied_and_undone(root: Path) -> None:
    log = turnlog.open()
    found = log.session()
    before = found.path.read_bytes()
    edit = found.edit(strip_tools=True)
    effect = edit.preview()
    assert effect["is_change"]
    assert effect["change"] is None
    assert found.path.read_bytes() == before
    change = edit.apply()
    assert change
    assert found.calls == []
    assert len(found.turns) == 2
    assert found.path.stat().st_size == effect["bytes_after"]
    log.undo(change)
    assert found.path.read_bytes() == before
    assert len(found.calls) == 2


def test_an_edit_that_changes_nothing_has_no_change(root: Path) -> None:
    assert turnlog.open().session().edit(strip_images=True).apply() is None


def test_an_edit_without_choices_is_refused(root: Path) -> None:
    with pytest.raises(UsageError):
        turnlog.open().session().edit().preview()


def test_turns_are_cut_by_number(root: Path) -> None:
    found = turnlog.open().session()
    found.edit(until=1).apply()
    assert [turn["prompt"] for turn in found.turns] == ["fix the rounding"]


def test_a_function_of_the_caller_summarises(root: Path) -> None:
    def summarise(extracts: str) -> str:
        assert "fix the rounding" in extracts
        return "We fixed it."

    short = turnlog.open().session().clone(compress=True, keep_last=1, summarise=summarise)
    assert "We fixed it." in str(short.context())


def test_a_clone_is_a_session_of_its_own(root: Path) -> None:
    log = turnlog.open()
    original = log.session()
    before = original.path.read_bytes()
    clone = original.clone(strip_tools=True)
    assert {each.id for each in log.sessions()} == {original.id, clone.id}
    assert (clone.calls, original.path.read_bytes()) == ([], before)


def test_a_session_is_renamed_and_the_name_taken_back(root: Path) -> None:
    log = turnlog.open()
    found = log.session()
    change = found.rename("Half a cent")
    assert found.title == "Half a cent"
    log.undo(change)
    assert found.title == "Rounding"


def test_a_session_of_another_place_is_not_renamed(root: Path, tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(shop_session())
    with pytest.raises(UsageError, match="is not in"):
        turnlog.open().session(path).rename("x")


def test_secrets_are_masked_unless_revealed(root: Path, tmp_path: Path) -> None:
    add_session(root, session(user(f"use {SECRET}"), assistant(text(f"I use {SECRET}."))))
    for reveal in (False, True):
        log = turnlog.open(reveal=reveal)
        found = log.session()
        shown = [found.title, found.turns, found.messages, found.context(), found.to_dict()]
        shown += [log.search("use"), log.stats("session"), log.sql("SELECT text FROM prompts")]
        for name in ("x.md", "x.json", "x.txt"):
            shown.append(found.export(tmp_path / name, overwrite=True).read_text())
        assert [SECRET in str(each) for each in shown] == [reveal] * len(shown)


def test_redaction_reports_placeholders_and_can_be_undone(root: Path) -> None:
    path = add_session(root, session(user(f"use {SECRET}"), assistant(text("Done."))))
    log = turnlog.open(reveal=True)
    found = log.session()
    planned = found.redact(dry_run=True)
    assert (planned["secrets"], planned["changes"]) == (1, [])
    assert SECRET in path.read_text()
    done = found.redact(also=["Done", re.compile("use")])
    assert (done["secrets"], done["left"]) == (3, [])
    assert SECRET not in str(done) + path.read_text()
    log.undo(done["changes"][0])
    assert SECRET in path.read_text()


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.html", "<!doctype html>"),
        ("x.md", "# Rounding\n"),
        ("x.txt", "Rounding\nsession 5e551011-"),
        ("x.JSON", "[\n  {"),
    ],
)
def test_a_session_is_exported_by_extension(
    root: Path, tmp_path: Path, name: str, start: str
) -> None:
    written = turnlog.open().session().export(str(tmp_path / name))
    assert written.read_text("utf-8").startswith(start)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == [name]


def test_an_export_of_an_unknown_kind_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.md, \.json, \.txt"):
        turnlog.open().session().export(tmp_path / "x.docx")


def test_a_file_is_overwritten_only_on_request(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("mine")
    found = turnlog.open().session()
    for write in (found.export, found.trace):
        with pytest.raises(Conflict, match="exists") as raised:
            write(path)
        assert traceback.format_exception(raised.value)[-1] == "try: overwrite=True\n"
        assert path.read_text() == "mine"
    found.export(path, overwrite=True)
    assert path.read_text().startswith("[")
    found.trace(path, overwrite=True)
    assert "resourceSpans" in path.read_text()


def test_a_session_is_traced_to_a_file(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    written = turnlog.open().session().trace(path, content="none")
    assert written["target"] == str(path)
    assert written["turns"] == 2
    assert "fix the rounding" not in path.read_text()


def test_a_session_is_sent_once_to_a_backend(root: Path) -> None:
    found = turnlog.open().session()
    with receiving() as backend:
        first, second = found.trace(backend.url), found.trace(backend.url)
        third = found.trace(backend.url, again=True)
    assert (first["turns"], first["failed"]) == (2, 0)
    assert (second["sent"], second["skipped"]) == (0, first["sent"])
    assert third["sent"] == first["sent"]


def test_checks_are_rows(root: Path) -> None:
    add_session(root, session(user("go"), assistant(call("Bash", {}, "t1")), user("more")))
    finding = turnlog.open().session().check()[0]
    assert (finding["kind"], type(finding["severity"])) == ("unanswered-call", str)


def test_every_access_sees_what_was_appended(root: Path) -> None:
    found = turnlog.open().session()
    assert len(found.messages) == 4
    lines = session(user("more"), assistant(text("Sure."), message_id="msg_new"))
    turnlog.append_lines(found.path, lines.splitlines()[1:])
    assert len(found.messages) == 5


def test_errors_have_a_hint(root: Path) -> None:
    with pytest.raises(TurnlogError) as caught:
        turnlog.open().session("nosuch")
    assert caught.value.hint == "turnlog ls"


def test_a_bundle_is_redacted_unless_it_is_wanted_as_it_is(root: Path, tmp_path: Path) -> None:
    add_session(root, session(user(f"token {SECRET}"), assistant(text("ok"))))
    found, path = turnlog.open().session(), tmp_path / "shop.turnlog"
    assert found.bundle(path)["manifest"]["is_redacted"]
    with pytest.raises(Conflict, match="exists"):
        found.bundle(path)
    assert not found.bundle(path, as_is=True, overwrite=True)["manifest"]["is_redacted"]


def test_sessions_are_exchanged_and_pushed(root: Path, tmp_path: Path) -> None:
    log = turnlog.open()
    dest = tmp_path / "share"
    dest.mkdir()
    assert log.sync_with(str(dest), init=True)["sent"] == 1
    assert log.push_to_lake(str(tmp_path / "lake"), dry_run=True)["files"] == 1
