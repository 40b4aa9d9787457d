"""A relay in front of the scripted LLM server that keeps what a host sends to its model."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

SECONDS = 60


class Relay:
    """A running relay. `bodies` are the requests to the model so far, oldest first, as they came."""

    def __init__(self, url: str, bodies: list[dict[str, Any]]) -> None:
        self.url = url
        self.bodies = bodies


@contextmanager
def relay(
    target: str, on_request: Callable[[dict[str, Any]], None], respell: Callable[[bytes], bytes]
) -> Iterator[Relay]:
    """Relays to the server at `target`; each request is given to `on_request` before it is answered.

    Args:
        target: the URL of the server, without a path.
        on_request: is given the body of each request.
        respell: changes what the server answers.
    """
    bodies: list[dict[str, Any]] = []
    where = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.loads(content)
            on_request(body)
            bodies.append(body)
            server = http.client.HTTPConnection(where.hostname or "", where.port, timeout=SECONDS)
            server.request("POST", self.path, content, {"Content-Type": "application/json"})
            answer = server.getresponse()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            self.wfile.write(respell(answer.read()))
            server.close()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Relay(f"http://127.0.0.1:{server.server_port}", bodies)
        server.shutdown()
