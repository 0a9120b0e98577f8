"""The manifest of an export directory survives processes that were killed while writing it."""

from pathlib import Path

from turnlog.render.export_folder import MANIFEST, ExportedFile, _Manifest


def test_a_line_left_unfinished_does_not_swallow_the_next(tmp_path: Path) -> None:
    one, two = (ExportedFile(f"{name}1", f"{name}.html") for name in "ab")
    _Manifest(tmp_path).append(one)
    with (tmp_path / MANIFEST).open("ab") as file:
        file.write(b'{"session":"p/c.js')
    _Manifest(tmp_path).append(two)
    assert list(_Manifest(tmp_path).files.values()) == [one, two]
