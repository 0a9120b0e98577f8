"""A backend that takes everything and keeps nothing; prints its address."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Sink) as server:
        print(f"http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
        server.serve_forever()
