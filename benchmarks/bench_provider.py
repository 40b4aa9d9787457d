"""The first reply of a provider's model, 3 s after `session/new`: what of it is our own time, and what waited before.

The provider is a server in this process that answers at once. Our own time is what passes from the prompt until its
request has come, and from the end of its answer until the response to the prompt. While the agent loads the provider's
library in the background, requests that cost nothing are sent one after the other: how long the slowest waited for its
answer is the worst delay of the agent's event loop. An agent that loads nothing stands beside it, because on a busy
machine requests wait for a processor too.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final
from unittest.mock import patch

from benchmarks.bench_acp import Client
from benchmarks.environments import Checkout
from benchmarks.measuring import Setting, duration, row
from benchmarks.report import Row

ROUNDS: Final = 5
TYPING: Final = 3.0  # seconds between session/new and the prompt
OWN_STAGES: Final = 0.5  # seconds; some 0.1 s of imports that any model needs come right after session/new
OWN: Final = 0.100
DELAY: Final = 0.050
MODELS: Final = {"OpenAI": "openai-chat:m", "Anthropic": "anthropic:m"}
USAGE: Final = {"input_tokens": 1, "output_tokens": 1}


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Two rows for each provider."""
    return [each for name, model in MODELS.items() for each in _rows(name, model, setting)]


def _rows(provider: str, model: str, setting: Setting) -> list[Row]:
    own: dict[str, list[float]] = {name: [] for name in setting.checkouts}
    delays: dict[str, list[float]] = {name: [] for name in setting.checkouts}
    idle: list[float] = []
    with _server() as (answered, variables), patch.dict(os.environ, variables), tempfile.TemporaryDirectory() as place:
        for turn in range(setting.rounds(ROUNDS) + 1):
            for name, checkout in setting.checkouts.items():
                took, delay = _first_reply(checkout, model, Path(place), answered)
                if turn:  # the first may have had to compile
                    own[name].append(took)
                    delays[name].append(delay)
            idle.append(_idle(setting.checkouts["ours"], Path(place)))
    medians = {name: statistics.median(values) for name, values in own.items()}
    worst = {name: max(values) for name, values in delays.items()}
    return [
        row(
            f"first reply of {provider}'s library, {TYPING:g} s after session/new: our own time",
            medians,
            duration,
            bar=f"<= {duration(OWN)}",
            met=medians["ours"] <= OWN,
        ),
        row(
            f"the longest that a request waited while {provider}'s library was loaded",
            worst,
            duration,
            peer=f"where nothing is loaded {duration(max(idle))}",
            bar=f"<= {duration(DELAY)}",
            met=worst["ours"] <= DELAY,
        ),
    ]


def _first_reply(
    checkout: Checkout, model: str, place: Path, answered: list[tuple[float, float]]
) -> tuple[float, float]:
    client = Client((checkout.agent, "--model", f"provider:{model}"), place / "state", str(place))
    session = client.open()
    delay = _longest_wait(client)
    answered.clear()
    prompted = perf_counter()
    client.prompt(session, "hello")
    ended = perf_counter()
    client.close()
    ((asked, answer),) = answered
    return (asked - prompted) + (ended - answer), delay


def _idle(checkout: Checkout, place: Path) -> float:
    client = Client((checkout.agent,), place / "state", str(place))
    client.open()
    delay = _longest_wait(client)
    client.close()
    return delay


def _longest_wait(client: Client) -> float:
    """Of requests that cost nothing, sent for as long as a user types, after what every agent loads by itself."""
    opened, longest = perf_counter(), 0.0
    sleep(OWN_STAGES)
    while perf_counter() - opened < TYPING:
        asked = perf_counter()
        request = client.begin("session/nothing", {})
        client.until(lambda message: message.get("id") == request)  # noqa: B023 -- called at once
        longest = max(longest, perf_counter() - asked)
        sleep(0.001)
    return longest


def _sse(*events: dict[str, Any] | str) -> bytes:
    lines: list[str] = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        lines.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(lines).encode()


def _chunk(finish: str | None = None, **delta: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


_MESSAGE: Final = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": USAGE}
ANSWERS: Final = {
    "/v1/chat/completions": _sse(_chunk(role="assistant", content="Hi"), _chunk("stop"), "[DONE]"),
    "/v1/messages": _sse(
        {"type": "message_start", "message": {**_MESSAGE, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
        {"type": "message_stop"},
    ),
}
"""By path, a whole answer."""


@contextmanager
def _server() -> Iterator[tuple[list[tuple[float, float]], dict[str, str]]]:
    """When each request had come and was answered, and the environment in which the agent finds the server."""
    answered: list[tuple[float, float]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked, body = perf_counter(), ANSWERS[self.path.partition("?")[0]]
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)  # at once, because the client delays acknowledging a first piece
            answered.append((asked, perf_counter()))

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield (
            answered,
            {
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API_KEY": "sk-benchmark-key",
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "sk-benchmark-key",
            },
        )
        server.shutdown()
