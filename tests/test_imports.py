"""Modules loaded at each point: a static contract cannot see lazy imports."""

import json
import subprocess
import sys

import pytest

HEAVY = {"click", "rich", "watchfiles", "msgspec", "multiprocessing", "asyncio", "backports.zstd"}


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a program loads."""
    return {name.partition(".")[0] for name in modules_loaded_by(code)}


def modules_loaded_by(code: str) -> set[str]:
    report = "import sys, json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    found = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(found.stderr.splitlines()[-1]))


def test_import_turnlog_loads_nothing_heavy() -> None:
    assert not loaded_by("import turnlog") & HEAVY


def test_help_loads_neither_click_nor_msgspec() -> None:
    code = "import sys; sys.argv = ['turnlog', '--help']; from turnlog.cli.main import main; main()"
    assert not loaded_by(code) & HEAVY


@pytest.mark.parametrize("module", ["format.survey", "store.catalog", "store.watch"])
def test_the_core_loads_no_front_end(module: str) -> None:
    assert not loaded_by(f"import turnlog.{module}") & {"click", "rich", "watchfiles"}


def test_the_archive_loads_its_compression_when_there_is_something_to_compress() -> None:
    assert "backports.zstd" not in loaded_by(
        "import turnlog.store.archive.update, turnlog.index.ingest.sync"
    )


@pytest.mark.parametrize("module", ["agent.model", "cli.edit"])
def test_the_client_of_the_api_is_loaded_when_a_model_is_asked(module: str) -> None:
    assert not loaded_by(f"import turnlog.{module}") & {"anthropic", "pydantic"}


def test_the_library_loads_no_front_end_and_no_client_of_a_service() -> None:
    heavy = {"click", "rich", "prompt_toolkit", "anthropic", "opentelemetry", "requests"}
    assert not loaded_by("import turnlog; turnlog.open") & heavy


def test_a_sync_with_other_machines_loads_what_edits_need_when_it_writes() -> None:
    assert "turnlog.edit.apply" not in modules_loaded_by("import turnlog.cli.sync_with")


def test_public_names_resolve() -> None:
    import turnlog

    assert all(getattr(turnlog, name) for name in turnlog.__all__)
    with pytest.raises(AttributeError):
        _ = turnlog.nosuch
