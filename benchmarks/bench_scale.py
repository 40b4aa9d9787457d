"""Many sessions, long sessions: 10,000 listed, paged through, collected; 300,000 events loaded; turns that stay flat.

Each figure is that of a real process: `rewindow sessions`, `rewindow gc`, and the agent over its pipes. A load ends
with the response, when every update has been read. What is compared of turns is the median of the last hundred of 1,200
with that of the first hundred after a warm-up, in the same session.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.clients import Client
from benchmarks.environments import Checkout, measured
from benchmarks.measuring import Setting, duration, in_turns, row, script
from benchmarks.report import Row

ROUNDS: Final = 5
SESSIONS: Final = 10_000
EVENTS: Final = 300_000
TURNS: Final = 1_200
HUNDRED: Final = 100
WARM_UP: Final = 20
LONG: Final = "ses_" + "3" * 24


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """One row per bar."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        return [*_many(place, setting), _load(place, setting), _turns(place, setting)]


def _many(place: Path, setting: Setting) -> list[Row]:
    count, rounds = setting.size(SESSIONS), setting.rounds(ROUNDS)
    states = {name: place / f"many-{name}" for name in setting.checkouts}
    for name, checkout in setting.checkouts.items():
        _make(checkout, states[name], "many", count)

    def timed(action: Callable[[Checkout, Path], float]) -> dict[str, float]:
        return in_turns(setting.checkouts, rounds, lambda checkout: action(checkout, states[_name(setting, checkout)]))

    return [
        _row(f"`rewindow sessions` of {count:,}", timed(_listed), 1),
        _row(f"all pages of session/list of {count:,}", timed(_paged), 2),
        _row(f"`rewindow gc` of {count:,}", timed(_collected), 4),
    ]


def _listed(checkout: Checkout, state: Path) -> float:
    return _command(checkout, state, "sessions")


def _collected(checkout: Checkout, state: Path) -> float:
    copy = state.with_name(f"{state.name}-copy")
    shutil.copytree(state, copy)
    try:
        return _command(checkout, copy, "gc", "--older-than", "1d")
    finally:
        shutil.rmtree(copy)


def _command(checkout: Checkout, state: Path, *arguments: str) -> float:
    program = Path(checkout.agent).with_name("rewindow")
    environment = {**measured(), "REWINDOW_STATE_DIR": str(state)}
    started = perf_counter()
    subprocess.run([str(program), *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    return perf_counter() - started


def _paged(checkout: Checkout, state: Path) -> float:
    client = Client((checkout.agent,), state, str(state))
    client.call("initialize", {"protocolVersion": 1})
    cursor, started = None, perf_counter()
    while True:
        page = client.call("session/list", {} if cursor is None else {"cursor": cursor})
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    took = perf_counter() - started
    client.close()
    return took


def _load(place: Path, setting: Setting) -> Row:
    count = setting.size(EVENTS)
    states = {name: place / f"long-{name}" for name in setting.checkouts}
    for name, checkout in setting.checkouts.items():
        _make(checkout, states[name], "long", count)

    def loaded(checkout: Checkout) -> float:
        state = states[_name(setting, checkout)]
        client = Client((checkout.agent,), state, str(state))
        client.call("initialize", {"protocolVersion": 1})
        started = perf_counter()
        client.call("session/load", {"sessionId": LONG, "cwd": str(state), "mcpServers": []})
        took = perf_counter() - started
        client.close()
        return took

    return _row(f"session/load of {count:,} events", in_turns(setting.checkouts, setting.rounds(ROUNDS), loaded), 6)


def _turns(place: Path, setting: Setting) -> Row:
    count = HUNDRED * 2 if setting.quick else TURNS
    (place / "project").mkdir()
    growth: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    for name, checkout in setting.checkouts.items():
        client = Client((checkout.agent,), place / f"turns-{name}", str(place / "project"))
        session = client.open()
        times = [client.prompt(session, f"x = {number}") for number in range(WARM_UP + count)][WARM_UP:]
        client.close()
        first, last = statistics.median(times[:HUNDRED]), statistics.median(times[-HUNDRED:])
        growth[name], spans[name] = last / first, (first, last)
    first, last = spans["ours"]
    return row(
        f"median turn: the last {HUNDRED} of {count:,} against the first {HUNDRED}",
        growth,
        lambda ratio: f"{ratio:.2f}x",
        peer=f"{duration(first)} -> {duration(last)}",
        bar="<= 1.2x",
        met=growth["ours"] <= 1.2,
    )


def _make(checkout: Checkout, state: Path, what: str, count: int) -> None:
    state.mkdir()
    command = [checkout.python, script("sessions.py"), str(state / "sessions.db"), what, str(count)]
    subprocess.run(command, check=True, env=measured())


def _name(setting: Setting, checkout: Checkout) -> str:
    return next(name for name, each in setting.checkouts.items() if each is checkout)


def _row(name: str, figures: dict[str, float], seconds: float) -> Row:
    return row(name, figures, duration, bar=f"<= {seconds:g} s", met=figures["ours"] <= seconds)
