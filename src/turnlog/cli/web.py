"""turnlog web: browse sessions in a local web app."""

import webbrowser
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

import click

from turnlog.cli.completions import complete_session
from turnlog.cli.extras import require_extra
from turnlog.cli.store_options import CHOSEN, store_option, stores_in
from turnlog.cli.terminal import echo, echo_masked
from turnlog.errors import UsageError
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores

if TYPE_CHECKING:
    from turnlog.web.app import Protection
    from turnlog.web.request_guards import GuardedApp


class WebOptions(NamedTuple):
    """Options of the server."""

    port: int
    no_open: bool
    origins: tuple[str, ...]


@click.command("web")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port; by default a free one."
)
@click.option("--no-open", is_flag=True, help="Print the URL without opening a browser.")
@click.option(
    "--origin",
    "origins",
    metavar="URL",
    multiple=True,
    help="Also answer requests for URL, such as that of a forwarded port; repeatable.",
)
@click.option("--lake", metavar="DEST", help="Show reports on all machines of a lake instead.")
@click.option("--samples", is_flag=True, help="Show the sample sessions shipped with turnlog.")
@store_option
@click.pass_context
def command(
    ctx: click.Context, session: str | None, samples: bool, lake: str | None, **options: object
) -> None:
    """Browse sessions in a local web app, starting at SESSION if given.

    The server runs on 127.0.0.1 until Ctrl-C and only reads. Its URL works once, for one browser.
    Nothing is loaded from or sent to any other machine.

    \b
    Examples:
      turnlog web
      turnlog web last
      turnlog web --no-open --port 8123 --origin http://devbox:8123
      turnlog web --lake s3://team/lake
    """
    wanted = WebOptions(**options)  # pyright: ignore[reportArgumentType]
    if lake is not None:
        if session is not None or samples:
            raise UsageError("a lake has no sessions to show", f"turnlog web --lake {lake}")
        _serve_lake(lake, wanted)
        return
    stores = _stores(ctx, samples)
    _serve(stores, _target(stores, session), wanted)


def _stores(ctx: click.Context, samples: bool) -> Stores:
    from turnlog.cli.root import samples_store

    # --samples is added to stores that --store names, but replaces the default ones.
    return (*ctx.meta.get(CHOSEN, ()), samples_store()) if samples else stores_in(ctx)


def _target(stores: Stores, session: str | None) -> str:
    """Return the page to open."""
    from turnlog.web.library import session_key

    if session is None:
        return "/"
    path = find_session(stores, session).path
    return f"/sessions/{session_key(path, len(stores) > 1)}"


def _serve(stores: Stores, target: str, options: WebOptions) -> None:
    """Answer requests about sessions until Ctrl-C."""
    from turnlog.web.app import create_app
    from turnlog.web.library import Library
    from turnlog.web.session_api import load_libraries

    library = Library(stores)

    def start() -> None:
        library.refresher.start()
        Thread(target=load_libraries, daemon=True).start()

    _run(lambda protection: create_app(library, protection), start, target, options)


def _serve_lake(dest: str, options: WebOptions) -> None:
    """Answer requests about a lake until Ctrl-C."""
    require_extra("lake", "lake support")
    from turnlog.lake.lake_reports import LakeSource, require_lake
    from turnlog.web.app import create_lake_app
    from turnlog.web.lake_pages import LakeLibrary

    require_lake(dest)
    library = LakeLibrary(LakeSource(dest))
    _run(lambda protection: create_lake_app(library, protection), lambda: None, "/", options)


def _run(
    create: Callable[["Protection"], "GuardedApp"],
    prepare: Callable[[], None],
    target: str,
    options: WebOptions,
) -> None:
    """Serve an app until Ctrl-C; print its URL, and open it."""
    from turnlog.web.app import Protection
    from turnlog.web.login import Access
    from turnlog.web.request_guards import origins_of
    from turnlog.web.server import HOST, bind, serve

    with bind(options.port) as bound:
        port = bound.getsockname()[1]
        protection = Protection(origins_of(port, options.origins), Access(port, target))
        url = f"http://{HOST}:{port}{protection.access.path}"

        def start() -> None:
            prepare()
            echo_masked(url)  # the one secret that is meant to be seen
            echo("Press Ctrl-C to stop.", err=True)
            if not options.no_open:
                # Some browsers keep `open` waiting until they are closed.
                Thread(target=_open, args=(url,), daemon=True).start()

        with suppress(KeyboardInterrupt):
            serve(create(protection), bound, start)


def _open(url: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(url)
