"""Open directories: they stay the same when their path leads elsewhere."""

import errno
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from turnlog.store.descriptors import Folder


def test_an_open_directory_is_the_same_after_its_path_was_replaced(tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "inner").mkdir(parents=True)
    with closing(Folder.open(place)) as folder:
        place.rename(tmp_path / "moved")
        (place / "other").mkdir(parents=True)
        assert folder.stat("inner")
        assert folder.names() == ["inner"]


def test_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    reason = "|".join(map(os.strerror, (errno.ELOOP, errno.ENOTDIR)))
    with closing(Folder.open(tmp_path)) as folder, pytest.raises(OSError, match=reason):
        folder.enter("link")


def test_the_status_of_a_link_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with closing(Folder.open(tmp_path)) as folder:
        assert stat.S_ISLNK(folder.stat("link").st_mode)


def test_a_second_name_of_a_link_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not to be shared")
    (tmp_path / "link").symlink_to("secret")
    with closing(Folder.open(tmp_path)) as folder:
        folder.link("link", "second")
        assert (tmp_path / "second").is_symlink()
        with pytest.raises(FileExistsError):
            folder.link("link", "second")
