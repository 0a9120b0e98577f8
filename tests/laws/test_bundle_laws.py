"""Laws of bundles, for every session."""

import re
import shutil
from pathlib import Path

import pytest

from support.build import SESSION
from turnlog.bundle.bundler import BundleOptions, write_bundle
from turnlog.bundle.importer import ImportOptions, import_bundle
from turnlog.bundle.merge import Relation
from turnlog.bundle.path_tokens import PathTokens, first_free_prefix, prefixes_in
from turnlog.edit.move import directory_of
from turnlog.errors import Damaged, Unredacted
from turnlog.format.jsonl import read_lines
from turnlog.store.paths import Store, sidecar_folder


def test_expanding_tokens_restores_every_byte(session_file: Path) -> None:
    raw = session_file.read_bytes()
    directory = directory_of(session_file) or "/home/ada/shop"
    home = str(Path(directory).parent)
    prefix = first_free_prefix(prefixes_in(raw))
    tokens = PathTokens(prefix, home if len(home) > 1 else None, f"{home}/.claude", {0: directory})
    for line in read_lines(session_file):
        assert tokens.expand(tokens.replace(line.raw), is_json=True) == line.raw


def test_a_bundle_changes_nothing_where_it_came_from(
    session_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    store = Store(tmp_path / "home" / ".claude")
    folder = store.project_of(directory_of(session_file) or "/home/ada/shop")
    folder.mkdir(parents=True)
    copy = Path(shutil.copy(session_file, folder / f"{SESSION}.jsonl"))
    if sidecar_folder(session_file).is_dir():
        shutil.copytree(sidecar_folder(session_file), sidecar_folder(copy))
    bundle = tmp_path / "x.turnlog"
    home = str(tmp_path / "home")
    try:
        write_bundle(store, [copy], bundle, BundleOptions(home=home))
    except Unredacted:  # it contains a secret that cannot be replaced
        write_bundle(store, [copy], bundle, BundleOptions(is_redacted=False, home=home))
    except Damaged as error:
        # What nobody could import is not written in the first place.
        assert re.search(r"contains no entry|nested too deeply", error.message)  # noqa: PT017
        assert not bundle.exists()
        return
    plan = import_bundle(store, bundle, ImportOptions(home=home, here=tmp_path))
    # A last line that is still being written is not in the bundle.
    relations = {each.relation for each in plan.sessions}
    assert relations <= {Relation.SAME, Relation.BEHIND}
    assert plan.record is None
