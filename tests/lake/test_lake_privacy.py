"""A lake contains no secrets, prompts or paths, wherever a session file has them."""

from pathlib import Path
from typing import Any

import pytest

from support.lake_machines import KEY, PushingMachine
from support.planted_fields import Planter, plant_everywhere
from support.planted_lines import FRAMES, LinePlanter, planted_files
from turnlog.lake.lake_schema import CONSENTS, pyarrow
from turnlog.lake.lake_settings import LakeSettings
from turnlog.lake.raw_ingest import ingest_raw
from turnlog.store.paths import Store

SECRET, PROMPT, PATH = FRAMES


@pytest.fixture(scope="module")
def planter() -> LinePlanter:
    return LinePlanter()


@pytest.fixture(scope="module")
def machine(planter: LinePlanter, tmp_path_factory: pytest.TempPathFactory) -> PushingMachine:
    """A machine with sessions that have something planted in each field."""
    folder = tmp_path_factory.mktemp("planted")
    found = PushingMachine(folder / "ada", str(folder / "lake"))
    for number, content in enumerate(planted_files(planter)):
        found.write(content, f"5e551011-0000-4000-8000-{number:012d}")
    for frame in (SECRET, PROMPT):
        name = planter.value(frame, "file name")
        project = found.store.projects / planter.value(frame, "project folder")
        project.mkdir()
        (project / f"{name}.jsonl").write_bytes(next(planted_files(planter)))
        below = project / name / "subagents"
        below.mkdir(parents=True)
        agent = f"agent-{planter.value(frame, 'agent')}.jsonl"
        (below / agent).write_bytes(next(planted_files(planter)))
    return found


def contents(dest: str) -> str:
    """Return all bytes of a lake: names, files as they are, and all that they decode to."""
    pieces: list[str] = []
    for path in sorted(Path(dest).rglob("*")):
        pieces.append(str(path.relative_to(dest)))
        if path.is_file():
            pieces.append(path.read_bytes().decode("latin-1"))
            table: Any = pyarrow("parquet").read_table(path)
            pieces.append(repr(table.schema.metadata))
            for column in table.columns:
                pieces.extend(str(value) for value in column.unique().to_pylist())
    return "\n".join(pieces)


def test_a_pushed_lake_has_nothing_of_what_fields_contain(
    machine: PushingMachine, planter: LinePlanter
) -> None:
    done = machine.push()
    assert done.files > 500
    assert planter.found_in(contents(machine.dest)) == set()


def test_a_lake_of_raw_files_has_nothing_of_what_fields_contain(
    machine: PushingMachine, planter: LinePlanter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    raw = tmp_path / "raw"
    raw.mkdir()
    for frame in (SECRET, PROMPT):
        machine.store.root.rename(raw / planter.value(frame, "machine"))
        dest, settings = str(tmp_path / "lake"), LakeSettings(key=tmp_path / "key")
        (tmp_path / "key").write_bytes(KEY)
        done = ingest_raw(str(raw), dest, settings)
        next(raw.iterdir()).rename(machine.store.root)
        assert done.summary.files > 500
    assert planter.found_in(contents(dest)) == set()


def test_consent_is_to_contents_but_never_to_secrets(
    machine: PushingMachine, planter: LinePlanter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This also shows that the tests above would find something.
    monkeypatch.setattr(machine, "dest", str(tmp_path / "lake"))
    settings = LakeSettings(
        key=machine.settings.key, user="ada", host="desk", consents=frozenset(CONSENTS)
    )
    machine.push(settings)
    found = planter.found_in(contents(machine.dest))
    assert {place.rpartition(": ")[2] for place in found} == {PROMPT, PATH}


def test_hashed_names_hide_users_projects_and_branches(tmp_path: Path) -> None:
    machine = PushingMachine(tmp_path / "ada", str(tmp_path / "lake"), is_hashed=True)
    content = next(planted_files(LinePlanter()))
    machine.write(content.replace(b'"main"', b'"adas-branch"'))
    machine.push()
    known = contents(machine.dest)
    assert not any(name in known for name in ("adas-branch", "shop", "host-of-ada", "'ada'"))


def test_secrets_of_all_other_files_of_a_store_stay_there(tmp_path: Path) -> None:
    machine = PushingMachine(tmp_path / "ada", str(tmp_path / "lake"))
    secrets = Planter()
    plant_everywhere(Store(machine.store.root), secrets)
    machine.push()
    assert secrets.leaked(contents(machine.dest)) == []
