"""A scripted API, and an executable that starts quickly."""

from collections.abc import Generator
from pathlib import Path

import pytest

from support.acp_client import AcpRig
from support.fork_server import fork_server
from support.scripted_api import ScriptedApi, said, scripted_api


@pytest.fixture(scope="package")
def quick_client(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    with fork_server(tmp_path_factory.mktemp("client")) as path:
        yield path


@pytest.fixture
def editor_api() -> Generator[ScriptedApi]:
    with scripted_api(said("Hello.")) as found:
        yield found


@pytest.fixture
def rig(quick_client: Path, tmp_path: Path, editor_api: ScriptedApi) -> AcpRig:
    return AcpRig(quick_client, (tmp_path / "home").resolve(), editor_api.url)
