"""Fixtures for tests of the web app in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from support.page_watch import PageWatch
from support.web_server import WebServer


@pytest.fixture
def page(browser: Browser, server: WebServer) -> Iterator[Page]:
    """A page of the logged-in browser; whatever goes wrong in it fails the test."""
    context = browser.new_context()
    name, _, value = (server.cookie or "").partition("=")
    context.add_cookies([{"name": name, "value": value, "url": server.origin}])
    opened = context.new_page()
    watch = PageWatch(opened, server.origin)
    yield opened
    context.close()
    assert watch.seen == []
