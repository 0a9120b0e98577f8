"""Programs that use the Agent SDK, against `turnlog-chat`.

They get what the real client gave them, as recorded by `tests/conformance/sdk.py`.
"""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from support import sdk_programs
from support.fork_server import fork_server
from support.sdk_rig import DIFFERENT, PROGRAMS, own_client, run_program

assert sdk_programs.__all__, "importing it registers the programs"
OUTCOMES = json.loads((Path(__file__).parents[2] / "data" / "sdk_outcomes.json").read_text())
WHOLE = ("simple query", "unknown session", "in process server")
"""Programs that start the executable itself, as it is installed."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    with fork_server(tmp_path_factory.mktemp("client")) as path:
        yield path


def test_every_program_was_run_with_the_real_client() -> None:
    assert sorted(OUTCOMES) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_get_what_the_client_gives_them(name: str, tmp_path: Path, client: Path) -> None:
    found = json.loads(json.dumps(run_program(name, tmp_path / "home", client)))
    assert found == DIFFERENT.get(name, OUTCOMES[name])


@pytest.mark.parametrize("name", WHOLE)
def test_the_executable_itself(name: str, tmp_path: Path) -> None:
    found = run_program(name, tmp_path / "home", own_client(tmp_path))
    assert json.loads(json.dumps(found)) == OUTCOMES[name]
