"""A proxy in front of an LLM server that refuses what the API's published rules forbid, as the real one would."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.api_rules import violations

SECONDS = 20.0
_PASSED = ("authorization", "x-api-key", "anthropic-version", "anthropic-beta", "content-type", "x-goog-api-key")


class Judge:
    """`asked` are the bodies that were let through, `refused` what was found in the others."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.refused: list[list[str]] = []


@contextlib.contextmanager
def judge(server: str) -> Iterator[Judge]:
    """Stands in front of `server`, a URL without a path."""
    state = Judge(server)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            found = violations(self.path, json.loads(data))
            if found:
                state.refused.append(found)
                refusal = {"error": {"message": "; ".join(found), "type": "invalid_request_error"}}
                self._answer(400, json.dumps(refusal).encode(), "application/json")
                return
            state.asked.append(json.loads(data))
            headers = {name: self.headers[name] for name in _PASSED if name in self.headers}
            try:
                request = urllib.request.Request(state.server + self.path, data, headers)
                with urllib.request.urlopen(request, timeout=SECONDS) as response:
                    self.send_response(response.status)
                    self.send_header("Content-Type", response.headers["Content-Type"])
                    self.end_headers()
                    while piece := response.read1(65536):
                        self.wfile.write(piece)
            except urllib.error.HTTPError as error:
                self._answer(error.code, error.read(), error.headers["Content-Type"])

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{served.server_address[1]}"
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        served.shutdown()
        thread.join(SECONDS)
        served.server_close()
