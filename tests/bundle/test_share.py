"""Sessions shared as pages and bundles, and revoked again."""

import json
import os
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from support.planted import write
from support.storage_server import ACCESS, SECRET, StorageServer, storage_server, upload_address
from support.two_homes import User, create_users, lines_of, record_session
from turnlog.bundle.sharing.object_storage import find_storage, put_object, put_presigned
from turnlog.bundle.sharing.share import (
    BUNDLE,
    HTML,
    Published,
    prepared_share,
    publish,
    share_target,
    unshare,
)
from turnlog.bundle.sharing.share_records import read_shares, records_file
from turnlog.errors import Conflict, NotFound, TurnlogError, Unavailable, UsageError
from turnlog.render.html.page_file import read_export

TOKEN = "gh" + "p_" + "Q7" + "x4Jq0Zb8mT" * 3 + "Rk4d"
GH = """#!/usr/bin/env python3
# A stand-in for GitHub's gh: the same command line, gists are files.
import json, os, pathlib, shutil, sys
words = sys.argv[1:]
root = pathlib.Path(os.environ["GH_GISTS"])
with open(root / "calls", "a") as log:
    print(json.dumps(words), file=log)
if words[:2] == ["gist", "create"]:
    options, files = words[2:], []
    while options:
        word = options.pop(0)
        if word in ("-d", "--desc", "-f", "--filename"):
            options.pop(0)
        elif word not in ("-p", "--public"):
            files.append(word)
    for file in files:
        if b"\\0" in open(file, "rb").read():
            sys.exit(f"failed to upload {file}: binary file not supported")
    shutil.copy(files[0], root / "abc123")
    print("- Creating gist...", file=sys.stderr)
    print("https://gist.github.com/ada/abc123")
elif words[:2] == ["gist", "view"]:
    sys.exit(not (root / words[2].rpartition("/")[2]).exists())
elif words[:2] == ["gist", "delete"]:
    if os.environ.get("GH_ACCOUNT") or not (root / words[2].rpartition("/")[2]).exists():
        sys.exit("HTTP 404: Not Found (https://api.github.com/gists/abc123)")
    (root / words[2].rpartition("/")[2]).unlink()
else:
    sys.exit("unknown command")
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[User, User]:
    users = create_users(tmp_path, monkeypatch)
    record_session(users[0])
    monkeypatch.setenv("HOME", str(users[0].home))
    return users


@pytest.fixture
def ada(users: tuple[User, User]) -> User:
    return users[0]


@pytest.fixture
def gists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "gists"
    folder.mkdir()
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(GH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GH_GISTS", str(folder))
    return folder


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageServer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    with storage_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        yield server


def share(ada: User, form: str, target: str, password: str | None = None) -> Published:
    with prepared_share(ada.store, ada.session, form, password) as prepared:
        return publish(prepared, share_target(target))


def test_a_shared_page_has_neither_secrets_nor_the_senders_home(ada: User, tmp_path: Path) -> None:
    from support.build import user

    write(ada.session, lines_of(ada, user(f"password {TOKEN}"), user("again " + TOKEN)))
    page = tmp_path / "page.html"
    share(ada, HTML, str(page))
    found = json.dumps(read_export(page).__dict__) + page.read_text()
    assert TOKEN not in found
    assert str(ada.home) not in found
    assert "~/work/shop" in found
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_an_encrypted_page_opens_with_its_password(ada: User, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    share(ada, HTML, str(page), "correct horse")
    assert read_export(page, "correct horse").turns


def test_a_shared_bundle_can_be_imported(
    users: tuple[User, User], tmp_path: Path, gists: Path
) -> None:
    ada, bob = users
    published = share(ada, BUNDLE, "gist")
    assert published.link == "https://gist.github.com/ada/abc123"
    assert bob.unbundle(gists / "abc123").record


def test_a_gist_is_unlisted_and_can_be_revoked(ada: User, gists: Path) -> None:
    published = share(ada, HTML, "gist")
    calls = [json.loads(line) for line in (gists / "calls").read_text().splitlines()]
    assert "--public" not in calls[0]
    assert read_shares() == [published.record]
    assert unshare(published.record.id[:4]).revoked
    assert not (gists / "abc123").exists()
    with pytest.raises(Conflict):
        unshare(published.link)


def test_a_gist_of_another_account_is_not_taken_for_revoked(
    ada: User, gists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = share(ada, HTML, "gist")
    monkeypatch.setenv("GH_ACCOUNT", "work")
    with pytest.raises(Unavailable, match="another account"):
        unshare(published.record.id)
    assert read_shares() == [published.record]
    (gists / "abc123").unlink()
    assert unshare(published.record.id).revoked


def test_a_gist_is_public_on_request_only(ada: User, gists: Path) -> None:
    with prepared_share(ada.store, ada.session, HTML) as prepared:
        publish(prepared, share_target("gist", is_public=True))
    assert '"--public"' in (gists / "calls").read_text()
    with pytest.raises(UsageError):
        share_target("s3://team", is_public=True)


def test_without_gh_nothing_is_recorded(
    ada: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable):
        share(ada, HTML, "gist")
    assert read_shares() == []


def test_an_object_is_put_linked_and_deleted(ada: User, storage: StorageServer) -> None:
    published = share(ada, HTML, "s3://team/some sessions")
    (name,) = storage.objects
    assert name.startswith("/team/some%20sessions/")
    assert storage.kinds[name].startswith("text/html")
    with urllib.request.urlopen(published.link) as answer:
        assert answer.read() == storage.objects[name]
    assert "X-Amz-Signature" not in records_file().read_text()
    unshare(published.record.id)
    assert storage.objects == {}
    assert storage.refused == 0


def test_an_object_is_deleted_where_it_was_put(
    ada: User, storage: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = share(ada, HTML, "s3://team")
    with storage_server() as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", other.url)
        unshare(published.record.id)
    assert storage.objects == {}


def test_a_file_on_a_share_that_is_not_mounted_is_not_taken_for_revoked(
    ada: User, tmp_path: Path
) -> None:
    (tmp_path / "mount").mkdir()
    published = share(ada, HTML, str(tmp_path / "mount" / "page.html"))
    (tmp_path / "mount").rename(tmp_path / "elsewhere")
    with pytest.raises(NotFound):
        unshare(published.record.id)
    assert read_shares() == [published.record]


def test_an_address_is_told_if_it_cannot_be_recorded(ada: User, gists: Path) -> None:
    records_file().parent.mkdir(parents=True, exist_ok=True)
    records_file().with_suffix(".lock").mkdir()
    with pytest.raises(Unavailable, match=r"https://gist\.github\.com/ada/abc123"):
        share(ada, HTML, "gist")


def test_a_changed_link_is_refused(ada: User, storage: StorageServer) -> None:
    published = share(ada, HTML, "s3://team")
    for changed in (published.link.replace("604800", "704800"), published.link[:-1] + "x"):
        with pytest.raises(HTTPError):
            urllib.request.urlopen(changed)


def test_wrong_keys_are_reported(storage: StorageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(Unavailable, match=r"403 .*\(SignatureDoesNotMatch\)"):
        put_object(find_storage("team", None), "x", b"x", "text/html")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Unavailable):
        find_storage("team", None)


def test_an_upload_address_is_used_as_it_is_and_not_recorded_whole(
    ada: User, storage: StorageServer
) -> None:
    published = share(ada, HTML, upload_address(f"{storage.url}/team/x.html"))
    assert list(storage.objects) == ["/team/x.html"]
    assert published.record.address == f"{storage.url}/team/x.html"
    with pytest.raises(TurnlogError):
        unshare(published.record.id)
    assert not read_shares()[0].revoked


@pytest.mark.parametrize("address", ["http://example.com/x", "ftp://example.com/x", "https:///x"])
def test_nothing_is_sent_unencrypted(address: str) -> None:
    with pytest.raises(UsageError):
        put_presigned(address, b"x", "text/html")
    with pytest.raises(UsageError):
        share_target(address)


def test_a_file_is_removed_only_if_it_is_the_shared_one(ada: User, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    published = share(ada, HTML, str(page))
    with pytest.raises(Conflict):
        share(ada, HTML, str(page))
    page.write_text("mine")
    with pytest.raises(Conflict):
        unshare(published.record.id)
    assert page.read_text() == "mine"
    with pytest.raises(NotFound):
        unshare("no-such-share")
