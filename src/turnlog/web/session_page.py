"""The page of a session, which only holds the viewer: that asks the API for the rest."""

from contextlib import suppress

from turnlog.format.json_values import Fields
from turnlog.secrets import mask
from turnlog.store.catalog import title_of
from turnlog.web.parameters import PageRequest


def session_values(request: PageRequest) -> Fields:
    """Return the values of the page; raise `NotFound` if no session has the key."""
    found = request.library.find(request.path["key"])
    title = None
    with suppress(OSError):
        title = title_of(found.path)
    return {"key": request.path["key"], "title": mask(title or found.path.stem)}
