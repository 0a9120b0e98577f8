"""Record what a page does in the browser that it must not do."""

from playwright.sync_api import ConsoleMessage, Dialog, Error, Page, Request, Response


class PageWatch:
    """Dialogs, console errors, failed responses and requests to anywhere else, as they occur."""

    def __init__(self, page: Page, origin: str) -> None:
        self.origin = origin
        self.seen: list[str] = []
        page.on("dialog", self._on_dialog)
        page.on("console", self._on_console)
        page.on("pageerror", self._on_error)
        page.on("request", self._on_request)
        page.on("response", self._on_response)

    def _on_dialog(self, dialog: Dialog) -> None:
        self.seen.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":  # also violations of the policy
            self.seen.append(message.text)

    def _on_error(self, error: Error) -> None:
        self.seen.append(str(error))

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", "data:")):
            self.seen.append(f"request to {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.seen.append(f"{response.status} {response.url}")
