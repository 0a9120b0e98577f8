"""The report pages by URL: template, name in the navigation, values, and CSV."""

from collections.abc import Callable, Sequence
from typing import Any

from turnlog.format.json_values import Fields
from turnlog.index.sync_policy import deferred_sync
from turnlog.store.paths import Store
from turnlog.web.cost_page import cost_csv, cost_page
from turnlog.web.files_page import file_page, files_csv, files_page
from turnlog.web.overview_page import overview_page
from turnlog.web.parameters import PageRequest
from turnlog.web.report_data import Params
from turnlog.web.tools_page import tools_csv, tools_page

ReportPage = tuple[str, str, Callable[[PageRequest], Fields], Callable[[PageRequest], str] | None]


def _values(
    page: Callable[[Sequence[Store], Params], dict[str, Any]],
) -> Callable[[PageRequest], Fields]:
    def values(request: PageRequest) -> Fields:
        with deferred_sync():
            return page(request.library.stores, request.query)

    return values


def _csv(table: Callable[[Sequence[Store], Params], str]) -> Callable[[PageRequest], str]:
    def text(request: PageRequest) -> str:
        with deferred_sync():
            return table(request.library.stores, request.query)

    return text


def _files(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    if params.get("path"):
        return file_page(stores, params) | {"layout": "file.html"}
    return files_page(stores, params) | {"layout": "files.html"}


REPORT_PAGES: dict[str, ReportPage] = {
    "/": ("overview.html", "overview", _values(overview_page), None),
    "/cost": ("cost.html", "cost", _values(cost_page), _csv(cost_csv)),
    "/tools": ("tools.html", "tools", _values(tools_page), _csv(tools_csv)),
    "/files": ("_files.html", "files", _values(_files), _csv(files_csv)),
}
