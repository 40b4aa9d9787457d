"""The View beside openhands-sdk's in the same run: the View rows of the bars.

Like for like: the same log, event for event, built beforehand as each side's own objects; each side then does its own
append, search, rebuild with enforcement, and enforcement after a bad condensation. Only Views are timed, in CPU time:
both sides compute on one thread and wait for nothing. The peer gets a venv of its own under `build/peers` (it needs
Python >= 3.12) and runs this very file there, so nothing of `engine` is imported at the top. Figures are medians after
a warm-up; a peer that cannot be installed is reported as missing.

Run as `python -m benchmarks.bench_view`; `run()` returns the rows for the collected report.
"""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

PEER = "openhands-sdk==1.58.0"
PEER_HOME = Path(__file__).parent.parent / "build" / "peers" / "openhands-sdk"
ROUNDS = 5
STEPS = 40  # appends, each with a search, per round
STEP_LENGTH = 1_000
LARGE = 100_000
MILLION = 1_000_000
CONDENSED = 20_000
PEER_SECONDS = 1_800

Row = dict[str, object]
Figures = dict[str, list[float]]  # CPU seconds per round
Medians = dict[str, float]


def neutral_log(length: int) -> Iterator[tuple[str, str, str, bool]]:
    """(kind, tool call, response, thinks) of each event: batches of two, tool loops of three responses, and texts.

    Twelve events make a cycle; `length` is rounded down to whole ones, so that every call is answered.
    """
    for cycle in range(length // 12):
        yield "user", "", "", False
        for response, (calls, thinks) in enumerate(((2, False), (1, True), (1, False), (1, False))):
            names = [f"t{cycle}.{response}.{call}" for call in range(calls)]
            for name in names:
                yield "call", name, f"r{cycle}.{response}", thinks
            for name in names:
                yield "result", name, "", False
        yield "agent", "", "", False


def forgotten_positions(length: int) -> list[int]:
    """What the bad condensation forgets: half a batch in the first quarter, one event of a loop in the last."""
    return [length // 48 * 12 + 1, length * 3 // 48 * 12 + 6]


def seconds(action: Callable[[], object]) -> float:
    """One timed call, without the collector's debts from before it."""
    gc.collect()
    start = process_time()
    action()
    return process_time() - start


def steps(
    view: Any, tail: list[Any], append: Callable[[Any, Any], object], find: Callable[[Any, int], object]
) -> float:
    """CPU seconds per step: one event appended, and the next index looked up as a condenser does."""
    middle = len(view.events) // 2
    start = process_time()
    for event in tail:
        append(view, event)
        find(view, middle)
    return (process_time() - start) / len(tail)


def rounds(action: Callable[[], float]) -> list[float]:
    action()
    return [action() for _ in range(ROUNDS)]


def our_events(length: int) -> list[Any]:
    # Imported here because the peer's interpreter runs this file too, without the engine.
    from engine.events.conversation import AgentText, ThinkingBlock, ToolCall, ToolResult, UserMessage
    from engine.ids import EventId, LlmResponseId, MessageId, Seq, ToolCallId

    thinking = (ThinkingBlock(text="hm", signature="s"),)
    events: list[Any] = []
    for seq, (kind, call, response, thinks) in enumerate(neutral_log(length)):
        stamp: dict[str, Any] = {"seq": Seq(seq), "event_id": EventId(f"e{seq}"), "at": 1.7e9 + seq}
        if kind == "call":
            events.append(
                ToolCall(
                    **stamp,
                    tool_call_id=ToolCallId(call),
                    tool="python",
                    llm_response_id=LlmResponseId(response),
                    thinking=thinking if thinks else (),
                )
            )
        elif kind == "result":
            events.append(ToolResult(**stamp, tool_call_id=ToolCallId(call), status="ok", text="done"))
        else:
            text = UserMessage if kind == "user" else AgentText
            events.append(text(**stamp, message_id=MessageId(f"m{seq}"), text="hello"))
    return events


def our_figures() -> Figures:
    from engine.events.conversation import Condensation
    from engine.ids import EventId, Seq
    from engine.view import View

    def step(length: int) -> float:
        events = our_events(length + STEPS * 100)
        view = View.from_events(events[:length])
        return steps(view, events[length:], View.append, View.find_next)

    def enforce() -> float:
        events = our_events(CONDENSED)
        view = View(enforcing=True)
        for event in events:
            view.append(event)
        forgotten = tuple(EventId(f"e{position}") for position in forgotten_positions(len(events)))
        bad = Condensation(seq=Seq(len(events)), event_id=EventId("bad"), forgotten=forgotten)
        return seconds(lambda: view.append(bad))

    def rebuild(length: int) -> list[float]:
        events = our_events(length)
        return rounds(lambda: seconds(lambda: View.from_events(events).ready()))

    return {
        "step": rounds(lambda: step(STEP_LENGTH)),
        "step_large": rounds(lambda: step(LARGE)),
        "enforce": rounds(enforce),
        "rebuild_small": rebuild(STEP_LENGTH),
        "rebuild": rebuild(LARGE),
        "rebuild_million": rebuild(MILLION),
    }


def peer_events(length: int) -> list[Any]:
    from openhands.sdk.event import ActionEvent, AgentErrorEvent, MessageEvent
    from openhands.sdk.llm import Message, MessageToolCall, TextContent, ThinkingBlock

    events: list[Any] = []
    for seq, (kind, call, response, thinks) in enumerate(neutral_log(length)):
        if kind == "call":
            events.append(
                ActionEvent(
                    id=f"e{seq}",
                    thought=[],
                    tool_name="python",
                    tool_call_id=call,
                    tool_call=MessageToolCall(id=call, name="python", arguments="{}", origin="completion"),
                    llm_response_id=response,
                    thinking_blocks=[ThinkingBlock(thinking="hm", signature="s")] if thinks else [],
                )
            )
        elif kind == "result":
            events.append(AgentErrorEvent(id=f"e{seq}", tool_name="python", tool_call_id=call, error="done"))
        else:
            role: Any = "user" if kind == "user" else "assistant"
            source: Any = "user" if kind == "user" else "agent"
            message = Message(role=role, content=[TextContent(text="hello")])
            events.append(MessageEvent(id=f"e{seq}", source=source, llm_message=message))
    return events


def peer_figures() -> Figures:
    from openhands.sdk.context.view import View
    from openhands.sdk.event import Condensation

    def step(length: int) -> float:
        events = peer_events(length + STEPS)
        view = View.from_events(events[:length])
        return steps(view, events[length:], View.append_event, lambda view, at: view.manipulation_indices.find_next(at))

    def enforce() -> float:
        events = peer_events(CONDENSED)
        view = View()
        for event in events:
            view.append_event(event)
        forgotten = {f"e{position}" for position in forgotten_positions(len(events))}
        bad = Condensation(id="bad", forgotten_event_ids=forgotten, llm_response_id="r")

        def take() -> None:
            view.append_event(bad)
            view.enforce_properties([*events, bad])

        return seconds(take)

    small, large = peer_events(STEP_LENGTH), peer_events(LARGE)
    return {
        "step": rounds(lambda: step(STEP_LENGTH)),
        "enforce": rounds(enforce),
        "rebuild_small": rounds(lambda: seconds(lambda: View.from_events(small))),
        "rebuild": rounds(lambda: seconds(lambda: View.from_events(large))),
    }


def peer_python() -> Path | None:
    """The first interpreter that openhands-sdk accepts, from PATH or from pyenv."""
    named = [shutil.which(f"python3.{minor}") for minor in (12, 13)]
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[23]*/bin/python"))
    for candidate in [Path(sys.executable), *(Path(path) for path in named if path), *pyenv]:
        probe = "import sys, ensurepip; raise SystemExit(not (3, 12) <= sys.version_info[:2] <= (3, 13))"
        if subprocess.run([candidate, "-c", probe], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def measure_peer() -> tuple[Figures | None, str]:
    """The peer's figures, or None and why there are none."""
    python = PEER_HOME / "bin" / "python"
    marker = PEER_HOME / PEER
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    try:
        if not marker.exists():
            base = peer_python()
            if base is None:
                return None, "no Python 3.12 or 3.13"
            for command in ([base, "-m", "venv", "--clear", PEER_HOME], [python, "-m", "pip", "install", "-q", PEER]):
                _run(command, environment)
            marker.touch()
        figures = _run([python, __file__, "--peer"], environment)
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(getattr(error, "stderr", None) or error).strip()[-200:]
    return json.loads(figures.splitlines()[-1]), ""


def _run(command: list[str | Path], environment: dict[str, str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PEER_SECONDS, env=environment)
    return done.stdout


def run() -> list[Row]:
    """One row per bar: name, ours, peer (both with units), ratio peer/ours, bar, met (None without the peer)."""
    peer, reason = measure_peer()
    ours = {name: statistics.median(values) for name, values in our_figures().items()}
    theirs = {name: statistics.median(values) for name, values in peer.items()} if peer else {}
    missing = f"{PEER} missing: {reason}"
    slope = _slope(MILLION, ours["rebuild_million"], ours)
    peer_slope = _slope(LARGE, theirs["rebuild"], theirs) if theirs else None
    sizes = f"{STEP_LENGTH:,} to {MILLION:,} (peer: to {LARGE:,})"
    slopes = f"{slope:.2f}", f"{peer_slope:.2f}" if peer_slope is not None else missing
    large = ours["step_large"]
    return [
        _row(f"append + find_next at {LARGE:,} events", _time(large), "", "", "<= 3.00 us", large <= 3e-6),
        _beside(f"append + find_next at {STEP_LENGTH:,} events", "step", ours, theirs, missing, 1_000),
        _beside(f"from_events + enforcement, {LARGE:,} events", "rebuild", ours, theirs, missing, 40),
        _row(f"log-log slope of from_events, {sizes}", *slopes, "", "<= 1.1", slope <= 1.1),
        _beside(f"a bad condensation enforced, {CONDENSED:,} events", "enforce", ours, theirs, missing, 40),
    ]


def _row(name: str, ours: str, peer: str, ratio: str, bar: str, met: bool | None) -> Row:
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "bar": bar, "met": met}


def _beside(name: str, figure: str, ours: Medians, theirs: Medians, missing: str, bar: float) -> Row:
    if not theirs:
        return _row(name, _time(ours[figure]), missing, "", f">= {bar:,} x", None)
    ratio = theirs[figure] / ours[figure]
    return _row(name, _time(ours[figure]), _time(theirs[figure]), f"{ratio:,.0f} x", f">= {bar:,} x", ratio >= bar)


def _slope(size: int, value: float, figures: Medians) -> float:
    """The log-log slope from the small log to the one of `size` events."""
    return math.log(value / figures["rebuild_small"]) / math.log(size / STEP_LENGTH)


def _time(value: float) -> str:
    unit, scale = ("s", 1.0) if value >= 1 else ("ms", 1e-3) if value >= 1e-3 else ("us", 1e-6)
    return f"{value / scale:.2f} {unit}"


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    names = ("name", "ours", "peer", "ratio", "bar", "met")
    lines = [names, tuple("---" for _ in names), *(tuple(str(row[name]) for name in names) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--peer"]:
        print(json.dumps(peer_figures()))
    else:
        print(table(run()))
