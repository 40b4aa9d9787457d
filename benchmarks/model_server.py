"""A model provider on this machine that answers "Hi" at once, in the formats of OpenAI and Anthropic.

A chat completion whose request has the text LONG is answered with CHUNKS pieces of a character instead.

It keeps what it was asked and when: what passes before a request comes, and from its answer on, is an agent's own time.
Must not know who asks. Used by the suites `acp` and `provider`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import perf_counter
from typing import Any, Final, NamedTuple

KEY: Final = "sk-benchmark-key"
CHUNKS: Final = 2_000
LONG: Final = f"Write {CHUNKS} characters."
_USAGE: Final = {"input_tokens": 1, "output_tokens": 1}


class Call(NamedTuple):
    """One request: when its last byte had come and when its answer was ready, and its body as it was sent."""

    asked: float
    answered: float
    body: bytes


class ModelServer(NamedTuple):
    """`calls` may be cleared; `variables` is where the providers' own libraries look for the server."""

    url: str
    calls: list[Call]
    variables: Mapping[str, str]


def _sse(*events: dict[str, Any] | str) -> bytes:
    lines: list[str] = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(lines).encode()


def _chunk(finish: str | None = None, **delta: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


_MESSAGE: Final = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": _USAGE}
_ANSWERS: Final = {
    "/v1/chat/completions": _sse(_chunk(role="assistant", content="Hi"), _chunk("stop"), "[DONE]"),
    "/v1/chat/completions, long": _sse(*[_chunk(content="x")] * CHUNKS, _chunk("stop"), "[DONE]"),
    "/v1/messages": _sse(
        {"type": "message_start", "message": {**_MESSAGE, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": _USAGE},
        {"type": "message_stop"},
    ),
}
"""By path, a whole answer; LONG is asked of chat completions alone."""


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serves until the block ends."""
    calls: list[Call] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            path = self.path.partition("?")[0]
            asked, answer = perf_counter(), _ANSWERS[f"{path}, long" if LONG.encode() in body else path]
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(answer)}\r\n\r\n"
            # Ahead of the answer, because who has it may look for the call.
            calls.append(Call(asked, perf_counter(), body))
            self.wfile.write(head.encode() + answer)  # at once, because the client delays acknowledging a first piece

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield ModelServer(
            url,
            calls,
            {
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API_KEY": KEY,
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": KEY,
            },
        )
        server.shutdown()
