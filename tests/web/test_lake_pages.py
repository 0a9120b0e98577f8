"""turnlog web --lake: reports on all machines, in a browser."""

from pathlib import Path

import pytest

from support.build import assistant, call, nth, result, session, text, user
from support.lake_machines import PushingMachine
from support.web_server import running_command


@pytest.fixture
def dest(tmp_path: Path) -> str:
    dest = str(tmp_path / "lake")
    for number, name in enumerate(("ada", "<i>bob")):
        machine = PushingMachine(tmp_path / f"m{number}", dest, user=name)
        lines = session(user("Hi"), assistant(text("so"), message_id=f"msg_{number}"))
        machine.write(lines, f"5e551011-0000-4000-8000-00000000000{number}")
        machine.push()
    Path(dest, "teams.toml").write_text('[teams]\n"<b>shop" = ["ada"]\n')
    return dest


def test_pages_of_a_lake(dest: str) -> None:
    with running_command("--lake", dest) as server:
        server.log_in()
        page = server.get("/?by=month&split=team")
        assert page.status == 200
        assert "&lt;b&gt;shop" in page.text
        assert "<b>shop" not in page.text
        for by in ("day", "week", "model", "project", "tool", "errors", "latency", "cache"):
            assert server.get(f"/?by={by}").status == 200, by
        table = server.get("/?by=month&split=user&format=csv").text
        assert table.splitlines()[0].startswith("month,user,sessions,turns")
        assert "ada,1,1" in table
        assert ">cost usd<" in page.text
        for path, status in (("/?by=nonsense", 400), ("/sessions", 404)):
            failed = server.get(path)
            assert failed.status == status
            # The other pages of the app do not exist here.
            assert 'href="/"' in failed.text
            assert 'href="/sessions"' not in failed.text
            assert "shortcuts-button" not in failed.text


def test_a_page_shows_what_was_pushed_since(dest: str, tmp_path: Path) -> None:
    from turnlog.lake.lake_reports import LakeSource
    from turnlog.web import lake_pages

    library = lake_pages.LakeLibrary(LakeSource(dest))
    assert _turns(lake_pages.lake_csv(library, {"by": "month"})) == 1
    machine = PushingMachine(tmp_path / "eve", dest)
    machine.write(session(user("New", uuid=nth(9)), assistant(text("so"), message_id="msg_9")))
    machine.push()
    library.close()  # as after a minute
    assert _turns(lake_pages.lake_csv(library, {"by": "month"})) == 2
    library.close()


def test_cells_are_shown_by_what_they_are(tmp_path: Path) -> None:
    from turnlog.lake.lake_reports import LakeSource
    from turnlog.web.lake_pages import LakeLibrary, lake_page

    dest = str(tmp_path / "lake")
    machine = PushingMachine(tmp_path / "ada", dest)
    calls = [call("Bash", {"command": "make"}, f"toolu_{number}") for number in range(3)]
    asked = [assistant(each, message_id=f"msg_{number}") for number, each in enumerate(calls)]
    failed = [result(f"toolu_{number}", "no", is_error=number < 1) for number in range(3)]
    pairs = zip(asked, failed, strict=True)
    machine.write(session(user("Hi"), *(line for pair in pairs for line in pair)))
    machine.push()
    library = LakeLibrary(LakeSource(dest))
    table = lake_page(library, {"by": "errors"})["table"]
    (row,) = table["rows"]
    cells = dict(zip(table["titles"], row["cells"], strict=True))
    assert row["names"] == ["Bash"]
    assert (cells["calls"], cells["errors"], cells["error rate"]) == ("3", "1", "33%")
    # Without consent, a program is hashed and its error left out.
    assert cells["last"].startswith("20")
    assert cells["command"].startswith("h-")
    assert cells["last error"] == "?"
    (month,) = lake_page(library, {"by": "month"})["table"]["rows"]
    assert any(cell.startswith(("$", "<$")) for cell in month["cells"])
    library.close()


def _turns(table: str) -> int:
    heads, row = (line.split(",") for line in table.splitlines())
    return int(row[heads.index("turns")])
