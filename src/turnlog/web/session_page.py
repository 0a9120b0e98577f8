"""The page of a session, which only holds the viewer: that asks the API for the rest."""

from contextlib import suppress
from urllib.parse import quote, urlencode

from turnlog.format.json_values import Fields
from turnlog.secrets import mask
from turnlog.store.catalog import title_of
from turnlog.web.parameters import PageRequest

PLACES = ("leaf", "turn", "line")
"""Parameters that say where a session is opened."""


def session_values(request: PageRequest) -> Fields:
    """Return the values of the page; raise `NotFound` if no session has the key."""
    found = request.library.find(request.path["key"])
    title = None
    with suppress(OSError):
        title = title_of(found.path)
    key = request.path["key"]
    return {"key": key, "title": mask(title or found.path.stem), "opening": _opening(request, key)}


def _opening(request: PageRequest, key: str) -> str:
    """Return the address of what the viewer shows first, which loads along with its script."""
    given = {name: value for name in PLACES if (value := request.text(name))}
    query = f"?{urlencode(given)}" if given else ""
    return f"/api/sessions/{quote(key, safe='')}/opening{query}"
