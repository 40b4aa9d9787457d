"""An HTTP server that answers LLM calls byte for byte as a test says, and keeps what was asked."""

from __future__ import annotations

import contextlib
import json
import select
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

SECONDS = 20.0
REFUSED = b'{"error": {"message": "no more answers", "type": "invalid_request_error", "status": "INVALID_ARGUMENT"}}'


@dataclass
class Answer:
    """`pieces` are sent as they are, then the answer ends.

    With `hang` the connection stays open until the client leaves, with `cut` it is closed in the middle. `every` sends
    the last piece again and again, after so many seconds each, while it hangs.
    """

    status: int = 200
    pieces: tuple[bytes, ...] = ()
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hang: bool = False
    cut: bool = False
    every: float = 0.0


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class LlmServer:
    """Plays `answers` in order and then refuses every request with status 400."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.answering: Callable[[Asked], Answer] | None = None
        """Makes the answers in place of `answers`."""
        self.lists: dict[str, Answer] = {}
        """What is answered to GET, by path; everything else is refused with status 404."""
        self.asked: list[Asked] = []
        self.listed: list[Asked] = []
        """The GET requests."""
        self.hanging = threading.Event()
        """Set when all of an answer that hangs was sent."""
        self.left = threading.Event()
        """Set when a client hung up on an answer that hangs."""
        self.url = ""

    def environment(self) -> dict[str, str]:
        """What leads the clients of every provider here."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "sk-test-openai-key",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "sk-test-anthropic-key",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            "GOOGLE_API_KEY": "test-google-key",
            "MISTRAL_BASE_URL": self.url,
            "MISTRAL_API_KEY": "test-mistral-key",
        }


def sse(*events: dict[str, Any] | str) -> bytes:
    """Server-sent events; an object with a `type` is named by it, as Anthropic does."""
    lines: list[str] = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(lines).encode()


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


class _Quiet(BaseHTTPRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the agent may have ended
            super().handle()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def llm_server_in_environment(patch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    """A server that models find by the variables of this process."""
    with llm_server() as served:
        for name, value in served.environment().items():
            patch.setenv(name, value)
        yield served


@contextlib.contextmanager
def llm_server(*answers: Answer) -> Iterator[LlmServer]:
    served = LlmServer()
    served.answers.extend(answers)

    class Handler(_Quiet):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            served.listed.append(Asked(self.path, dict(self.headers), {}))
            self.answer(served.lists.get(self.path.partition("?")[0], Answer(404, (REFUSED,))))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.asked.append(asked := Asked(self.path, dict(self.headers), body))
            if served.answering is not None:
                self.answer(served.answering(asked))
            else:
                self.answer(served.answers.pop(0) if served.answers else Answer(400, (REFUSED,)))

        def answer(self, answer: Answer) -> None:
            kind = "text/event-stream" if answer.status == 200 else "application/json"
            self.send_response(answer.status)
            for name, value in {"Content-Type": kind, "Transfer-Encoding": "chunked", **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in answer.pieces:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if answer.hang:
                served.hanging.set()
                while not select.select([self.connection], [], [], answer.every or SECONDS)[0] and answer.every:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(answer.pieces[-1]), answer.pieces[-1]))
                served.left.set()
                self.close_connection = True
            elif answer.cut:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS)
