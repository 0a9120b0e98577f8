"""turnlog lake: output and refusals."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, result, session, text, user
from support.lake_machines import live_rows
from turnlog.cli.lake import settings_of
from turnlog.lake.lake_schema import CONSENTS, TABLES, UNITS
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.live_units import all_winners

CONTENT = session(
    user("Fix the shop"),
    assistant(call("Bash", {"command": "ls"}, "toolu_1"), message_id="msg_1"),
    result("toolu_1"),
    assistant(text("Done"), message_id="msg_2"),
)
DOCUMENT = (Path(__file__).parents[2] / "docs" / "lake.md").read_text("utf-8")


@pytest.fixture
def path(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project.parent.parent)
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    return path


def configure(project: Path, text: str) -> None:
    folder = project.parent.parent / "turnlog"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text, "utf-8")


def test_push_tells_what_it_wrote(turnlog: Run, path: Path) -> None:
    done = turnlog("lake", "push", "lake", "--user", "ada", "--host", "desk")
    assert done.code == 0
    assert done.out.startswith("5 rows of 1 file pushed, ")
    assert turnlog("lake", "push", "lake", "--user", "ada", "--host", "desk").out.startswith(
        "nothing has changed\n"
    )
    path.unlink()
    assert turnlog("lake", "push", "lake").out.startswith("4 units retracted\n")


def test_dry_run_writes_nothing(turnlog: Run, path: Path) -> None:
    done = turnlog("lake", "push", "lake", "--dry-run")
    assert done.out.startswith("5 rows of 1 file would be pushed\n")
    assert not Path("lake").exists()


def test_json_of_every_command(turnlog: Run, path: Path) -> None:
    pushed = json.loads(turnlog("lake", "push", "lake", "--json", "--user", "ada").out)
    assert (pushed["rows"], pushed["version"]) == (5, 1)
    status = json.loads(turnlog("lake", "status", "lake", "--json").out)
    assert [each["user"] for each in status["machines"]] == ["ada"]
    assert json.loads(turnlog("lake", "verify", "lake", "--json").out)["is_sound"] is True
    assert json.loads(turnlog("lake", "compact", "lake", "--json").out)["damaged"] == []
    assert json.loads(turnlog("lake", "pull", "lake", "copy", "--json").out)["parts"] == 5
    forgot = turnlog("lake", "forget", "lake", "--user", "ada", "--json", "--yes")
    assert json.loads(forgot.out)["rows"] == 5


def test_verify_uses_the_options_of_the_last_push(turnlog: Run, path: Path) -> None:
    turnlog("lake", "push", "lake", "--user", "ada", "--with", "paths", "--names", "hash")
    done = turnlog("lake", "verify", "lake")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("5 parts, 5 rows of 1 machine: sound\n")
    with path.open("ab") as file:
        file.write(session(user("More"), assistant(text("Yes"), message_id="msg_3")))
    changed = turnlog("lake", "verify", "lake")
    assert changed.code == 1
    assert "the lake has different rows of it" in changed.out
    assert "(try: turnlog lake push lake --again)" in changed.err


def test_status_of_an_empty_lake(turnlog: Run, path: Path) -> None:
    turnlog("lake", "push", "lake", "--user", "ada")
    turnlog("lake", "forget", "lake", "--user", "ada", "--yes")
    assert turnlog("lake", "status", "lake").out == "lake is empty\n"


def test_status_of_a_directory_without_a_lake(turnlog: Run, path: Path) -> None:
    Path("my files").mkdir()
    done = turnlog("lake", "status", "my files")
    assert (done.code, done.out) == (1, "")
    hint = "turnlog lake push 'my files'"
    assert done.err == f"turnlog: there is no lake in my files (try: {hint})\n"


def test_hints_quote_the_lake(turnlog: Run, path: Path) -> None:
    missing = turnlog("lake", "status", "no lake").err
    assert missing == "turnlog: no lake does not exist (try: turnlog lake push 'no lake')\n"
    turnlog("lake", "push", "my lake", "--user", "ada")
    unknown = turnlog("lake", "forget", "my lake", "--user", "bob", "--yes").err
    assert "(try: turnlog lake status 'my lake')" in unknown
    unsure = turnlog("lake", "forget", "my lake", "--user", "ada").err
    assert "turnlog lake forget 'my lake' --user ada --yes" in unsure
    with path.open("ab") as file:
        file.write(session(user("More"), assistant(text("Yes"), message_id="msg_3")))
    assert "(try: turnlog lake push 'my lake' --again)" in turnlog("lake", "verify", "my lake").err
    part = next(Path("my lake").glob("v1/messages/**/*.parquet"))
    part.unlink()
    assert "(try: turnlog lake verify 'my lake')" in turnlog("lake", "status", "my lake").err


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "lake"],
        ["verify", "lake"],
        ["compact", "lake"],
        ["pull", "lake", "copy"],
        ["forget", "lake", "--user", "ada", "--yes"],
    ],
)
def test_a_lake_that_does_not_exist(turnlog: Run, path: Path, arguments: list[str]) -> None:
    done = turnlog("lake", *arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err == "turnlog: lake does not exist (try: turnlog lake push lake)\n"
    assert not Path("copy").exists()


def test_the_documented_rule_finds_the_live_units(turnlog: Run, path: Path) -> None:
    other = path.with_name("5e550000-0000-4000-8000-00000000000b.jsonl")
    other.write_bytes(CONTENT)
    turnlog("lake", "push", "lake")
    other.unlink()
    with path.open("ab") as file:
        file.write(session(user("More"), assistant(text("Yes"), message_id="msg_3")))
    turnlog("lake", "push", "lake")
    rule = DOCUMENT[(start := DOCUMENT.index("SELECT machine,")) : DOCUMENT.index("```", start)]
    units = "read_parquet('lake/v1/units/**/*.parquet', hive_partitioning = true)"
    query = rule.replace("FROM units", f"FROM {units}")
    found = duckdb.connect().execute(query).fetchall()
    winners = all_winners(open_storage("lake")).values()
    live = [(*row.key, row.write_id, row.part, row.rows) for row in winners if not row.is_retracted]
    assert sorted(map(str, found)) == sorted(map(str, live))
    assert 0 < len(live) < len(winners)


def test_forget_names_a_damaged_part(turnlog: Run, path: Path) -> None:
    turnlog("lake", "push", "my lake", "--user", "bob")
    (damaged,) = Path("my lake").glob("v1/sessions/**/*.parquet")
    with path.open("ab") as file:
        file.write(session(user("More"), assistant(text("Yes"), message_id="msg_3")))
    turnlog("lake", "push", "my lake", "--user", "ada")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    done = turnlog("lake", "forget", "my lake", "--user", "eve", "--yes")
    assert (done.code, done.out) == (1, "Forgot 0 rows of 0 files on 0 machines\n")
    reason = f"{damaged} cannot be read: it is truncated or damaged"
    hint = "(try: turnlog lake push 'my lake' --again)"
    assert done.err == f"turnlog: not complete: {reason} {hint}\n"
    done = turnlog("lake", "forget", "my lake", "--user", "ada", "--yes")
    assert (done.code, done.err) == (0, "")  # the part had rows of that file only
    assert not damaged.exists()


def test_forget_needs_a_yes(turnlog: Run, path: Path) -> None:
    turnlog("lake", "push", "lake", "--user", "ada")
    refused = turnlog("lake", "forget", "lake", "--user", "ada")
    assert refused.code == 2
    assert "(try: turnlog lake forget lake --user ada --yes)" in refused.err
    assert turnlog("lake", "forget", "lake", "--user", "ada", "--dry-run").out == (
        "Would forget 5 rows of 1 file on 1 machine\n"
    )
    assert turnlog("lake", "forget", "lake", "--session", SESSION, "--yes").out == (
        "Forgot 5 rows of 1 file on 1 machine\n"
    )
    assert "1 forgotten file left out" in turnlog("lake", "push", "lake").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["push"], "name a lake, or set dest in [lake] (try: turnlog lake push s3://team/lake)"),
        (["push", "ftp://x/y"], "'ftp://x/y' is not a directory or a URL with s3://, gs://"),
        (["push", "s3://"], "'s3://' is not a directory or a URL with"),
        (["push", "lake", "--with", "secrets"], "choose from paths, commands, texts (try: "),
        (["push", "lake", "--key", "no-such-key"], "cannot read the key "),
        (["forget", "lake"], "choose either a user or a session"),
        (["forget", "lake", "--user", "a", "--session", "b"], "choose either"),
        (["compact", "lake", "--grace", "-1"], "--grace"),
        (["install", "lake", "--timer", "--every", "1h\nExecStart=x"], "is not a time such as"),
    ],
)
def test_bad_input_is_one_line(
    turnlog: Run, path: Path, arguments: list[str], message: str
) -> None:
    done = turnlog("lake", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lake = 1", "[lake] is not a table"),
        ("[lake]\ncolour = 'red'", "[lake] has no setting colour"),
        ("[lake]\ndest = 1", "dest of [lake] is not a string"),
        ("[lake]\nnames = 'none'", 'neither "plain" nor "hash"'),
        ("[lake]\nwith = 'paths'", "with of [lake] is not a list"),
        ("[lake]\nwith = ['all']", "choose from paths, commands, texts"),
    ],
)
def test_configuration_is_checked(turnlog: Run, project: Path, text: str, message: str) -> None:
    configure(project, text)
    done = turnlog("lake", "push", "lake")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


def test_configuration_names_the_lake(turnlog: Run, path: Path, project: Path) -> None:
    configure(
        project,
        '[lake]\ndest = "here"\nwith = ["paths"]\nnames = "hash"\nuser = "ada"\nkey = "team.key"\n',
    )
    (project.parent.parent / "turnlog" / "team.key").write_text("0123456789abcdef", "utf-8")
    assert turnlog("lake", "push").out.startswith("5 rows of 1 file pushed")
    (row,) = live_rows("here", "sessions")
    assert row["path"] == str(path)
    assert row["user"].startswith("h-")
    assert settings_of({"names": "plain"}).is_hashed is False


def test_keys_are_found_below_the_home_directory(
    turnlog: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "team.key").write_bytes(b"k" * 32)
    raw = str(path.parent)
    assert turnlog("lake", "push", "lake", "--key=~/team.key").code == 0
    assert turnlog("lake", "ingest", raw, "lake", "--key=~/team.key").code == 0
    for words in (("push", "lake"), ("ingest", raw, "lake")):
        failed = turnlog("lake", *words, "--key=~no-such-user/team.key")
        assert failed.code == 2
        assert "cannot read the key" in failed.err
    assert turnlog("lake", "install", "~no-such-user/lake").code == 0


def test_different_keys_are_reported(turnlog: Run, path: Path, tmp_path: Path) -> None:
    turnlog("lake", "push", "lake")
    (tmp_path / "turnlog" / "lake" / "machines").unlink()
    turnlog("lake", "push", "lake")
    assert "names are hashed with 2 keys" in turnlog("lake", "status", "lake").err


def test_hook_pushes_in_the_background(turnlog: Run, path: Path, project: Path) -> None:
    installed = turnlog("lake", "install", "lake")
    assert installed.out.startswith("Installed in ")
    settings = json.loads((project.parent.parent / "settings.json").read_text("utf-8"))
    (hook,) = settings["hooks"]["SessionEnd"][0]["hooks"]
    assert hook["command"].endswith(f"lake push --background {Path.cwd()}/lake")
    subprocess.run(
        [sys.executable, "-m", "turnlog", "lake", "push", "--background", "lake"],
        env=dict(os.environ),
        check=True,
    )
    end = time.monotonic() + 60
    while not list(Path("lake").rglob("units/*/part-*")) and time.monotonic() < end:
        time.sleep(0.05)
    assert len(live_rows("lake", "messages")) == 2
    assert turnlog("lake", "uninstall").out.startswith("Removed from ")
    assert turnlog("lake", "uninstall").out.startswith("Not installed in ")


def test_timer_is_installed_and_undone(
    turnlog: Run, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "systemd" / "user"
    done = turnlog("lake", "install", "100%", "--timer", "--every", "30min", "--with", "paths")
    assert "systemctl --user enable --now turnlog-lake.timer" in done.out
    service = (folder / "turnlog-lake.service").read_text("utf-8")
    assert f"lake push --quiet {Path.cwd()}/100%% --with=paths\n" in service
    assert "OnUnitActiveSec=30min" in (folder / "turnlog-lake.timer").read_text("utf-8")
    assert turnlog("undo").code == 0
    assert list(folder.iterdir()) == []


def test_uninstall_names_both_the_hook_and_the_timer(
    turnlog: Run, path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    turnlog("lake", "install", "lake")
    turnlog("lake", "install", "lake", "--timer")
    removed = turnlog("lake", "uninstall").out
    assert removed.startswith(f"Removed from {project.parent.parent / 'settings.json'} and ")
    assert "/turnlog-lake.* (then: systemctl --user daemon-reload)" in removed


def test_document_names_every_column() -> None:
    columns = [*UNITS, *(column for table in TABLES.values() for column in table)]
    assert [c.name for c in columns if f"| `{c.name}` | {c.kind} |" not in DOCUMENT] == []
    assert [f"--with {each}" for each in CONSENTS if f"--with {each}" not in DOCUMENT] == []
