"""The first reply of a provider's model: at once, and 3 s after `session/new`; and what waited before.

The provider is a server in this process that answers at once. Our own time is what passes from the prompt until its
request has come, and from the end of its answer until the response to the prompt. While the agent loads the provider's
library in the background, requests that cost nothing are sent one after the other: how long the slowest waited for its
answer is the worst delay of the agent's event loop. An agent that loads nothing stands beside it, because on a busy
machine requests wait for a processor too. Beside a prompt that is sent at once stands the import of the library alone.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter, sleep
from typing import Final
from unittest.mock import patch

from benchmarks.clients import Client
from benchmarks.environments import Checkout, measured
from benchmarks.measuring import Setting, duration, row
from benchmarks.model_server import Call, model_server
from benchmarks.report import Row

ROUNDS: Final = 5
TYPING: Final = 3.0  # seconds between session/new and the prompt
OWN_STAGES: Final = 0.5  # seconds; some 0.1 s of imports that any model needs come right after session/new
OWN: Final = 0.100
DELAY: Final = 0.050
MODELS: Final = {"OpenAI": "openai-chat:m", "Anthropic": "anthropic:m"}
_IMPORT: Final = (
    "import time; t = time.perf_counter(); import pydantic_ai.direct, {module}; print(time.perf_counter() - t)"
)
_MODULES: Final = {"OpenAI": "pydantic_ai.models.openai", "Anthropic": "pydantic_ai.models.anthropic"}


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Three rows for each provider."""
    return [each for name, model in MODELS.items() for each in _rows(name, model, setting)]


def _rows(provider: str, model: str, setting: Setting) -> list[Row]:
    own: dict[str, list[float]] = {name: [] for name in setting.checkouts}
    delays: dict[str, list[float]] = {name: [] for name in setting.checkouts}
    idle: list[float] = []
    at_once: dict[str, list[float]] = {name: [] for name in setting.checkouts}
    imports: list[float] = []
    with model_server() as server, patch.dict(os.environ, server.variables), tempfile.TemporaryDirectory() as place:
        for turn in range(setting.rounds(ROUNDS) + 1):
            for name, checkout in setting.checkouts.items():
                took, delay = _first_reply(checkout, model, Path(place), server.calls)
                if turn:  # the first may have had to compile
                    own[name].append(took)
                    delays[name].append(delay)
                at_once[name].append(_at_once(checkout, model, Path(place), server.calls))
            imports.append(_import(setting.checkouts["ours"], _MODULES[provider]))
            idle.append(_idle(setting.checkouts["ours"], Path(place)))
    medians = {name: statistics.median(values) for name, values in own.items()}
    soon = {name: statistics.median(values[1:]) for name, values in at_once.items()}
    alone = statistics.median(imports[1:])
    worst = {name: max(values) for name, values in delays.items()}
    return [
        row(
            f"first request of {provider}'s library, if the prompt follows session/new at once",
            soon,
            duration,
            peer=f"importing it alone {duration(alone)}",
            bar=f"<= the import + {duration(OWN)}",
            met=soon["ours"] <= alone + OWN,
        ),
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


def _first_reply(checkout: Checkout, model: str, place: Path, calls: list[Call]) -> tuple[float, float]:
    client = Client((checkout.agent, "--model", f"provider:{model}"), place / "state", str(place))
    session = client.open()
    delay = _longest_wait(client)
    calls.clear()
    prompted = perf_counter()
    client.prompt(session, "hello")
    ended = perf_counter()
    client.close()
    (call,) = calls
    return (call.asked - prompted) + (ended - call.answered), delay


def _at_once(checkout: Checkout, model: str, place: Path, calls: list[Call]) -> float:
    client = Client((checkout.agent, "--model", f"provider:{model}"), place / "state", str(place))
    session = client.open()
    calls.clear()
    prompted = perf_counter()
    client.prompt(session, "hello")
    client.close()
    return calls[0].asked - prompted


def _import(checkout: Checkout, module: str) -> float:
    code = _IMPORT.format(module=module)
    done = subprocess.run([checkout.python, "-c", code], env=measured(), capture_output=True, text=True, check=True)
    return float(done.stdout)


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
