"""The View of the engine that this interpreter has, or (`peer`) of openhands-sdk: CPU seconds of its operations.

Like for like: the same log, event for event, built beforehand as each side's own objects; each side then does its own
append, search, rebuild with enforcement, and enforcement after a bad condensation. CPU time, because both compute on
one thread and wait for nothing. Run as `python view.py engine|peer`; each imports only what it is.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from time import process_time
from typing import Any, Protocol

from serving import serve


class Side(Protocol):
    append: Callable[[Any, Any], object]
    find: Callable[[Any, int], object]

    def events(self, length: int) -> list[Any]: ...
    def rebuild(self, events: list[Any]) -> Any: ...
    def bad_condensation(self, events: list[Any], forgotten: list[int]) -> Callable[[], object]: ...


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


class Engine:
    def __init__(self) -> None:
        from engine.context.view import View
        from engine.log.events import conversation

        self._kinds = conversation
        self._view = View
        self.append, self.find = View.append, View.find_next

    def events(self, length: int) -> list[Any]:
        kinds = self._kinds
        thinking = (kinds.ThinkingBlock(text="hm", signature="s"),)
        events: list[Any] = []
        for seq, (kind, call, response, thinks) in enumerate(neutral_log(length)):
            stamp: dict[str, Any] = {"seq": seq, "event_id": f"e{seq}", "at": 1.7e9 + seq}
            if kind == "call":
                stamp |= {"llm_response_id": response, "thinking": thinking if thinks else ()}
                events.append(kinds.ToolCall(**stamp, tool_call_id=call, tool="python"))
            elif kind == "result":
                events.append(kinds.ToolResult(**stamp, tool_call_id=call, status="ok", text="done"))
            else:
                text = kinds.UserMessage if kind == "user" else kinds.AgentText
                events.append(text(**stamp, message_id=f"m{seq}", text="hello"))
        return events

    def rebuild(self, events: list[Any]) -> Any:
        view = self._view.from_events(events)
        view.ready()
        return view

    def bad_condensation(self, events: list[Any], forgotten: list[int]) -> Callable[[], object]:
        view = self._view(enforcing=True)
        for event in events:
            view.append(event)
        names = tuple(f"e{position}" for position in forgotten)
        bad = self._kinds.Condensation(seq=len(events), event_id="bad", forgotten=names)
        return lambda: view.append(bad)


class Peer:
    def __init__(self) -> None:
        os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}  # asks no network
        from openhands.sdk import event, llm
        from openhands.sdk.context.view import View

        logging.disable(logging.WARNING)  # so that what it says of a bad condensation is not timed
        self._kinds = event
        self._llm = llm
        self._view = View
        self.append = View.append_event
        self.find = lambda view, at: view.manipulation_indices.find_next(at)

    def events(self, length: int) -> list[Any]:
        kinds, llm = self._kinds, self._llm
        events: list[Any] = []
        for seq, (kind, call, response, thinks) in enumerate(neutral_log(length)):
            if kind == "call":
                events.append(
                    kinds.ActionEvent(
                        id=f"e{seq}",
                        thought=[],
                        tool_name="python",
                        tool_call_id=call,
                        tool_call=llm.MessageToolCall(id=call, name="python", arguments="{}", origin="completion"),
                        llm_response_id=response,
                        thinking_blocks=[llm.ThinkingBlock(thinking="hm", signature="s")] if thinks else [],
                    )
                )
            elif kind == "result":
                events.append(kinds.AgentErrorEvent(id=f"e{seq}", tool_name="python", tool_call_id=call, error="done"))
            else:
                role: Any = "user" if kind == "user" else "assistant"
                source: Any = "user" if kind == "user" else "agent"
                message = llm.Message(role=role, content=[llm.TextContent(text="hello")])
                events.append(kinds.MessageEvent(id=f"e{seq}", source=source, llm_message=message))
        return events

    def rebuild(self, events: list[Any]) -> Any:
        return self._view.from_events(events)

    def bad_condensation(self, events: list[Any], forgotten: list[int]) -> Callable[[], object]:
        view = self._view()
        for event in events:
            view.append_event(event)
        bad = self._kinds.Condensation(
            id="bad", forgotten_event_ids={f"e{position}" for position in forgotten}, llm_response_id="r"
        )

        def take() -> None:
            view.append_event(bad)
            view.enforce_properties([*events, bad])

        return take


class Operations:
    """What can be asked of a side. A log is built once, and outside of what is timed."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._log = lru_cache(maxsize=1)(side.events)

    def step(self, length: int, steps: int) -> float:
        """CPU seconds per step: one event appended, and the next index looked up as a condenser does."""
        log = self._log(length + steps)
        base = len(log) - steps
        tail = log[base:]
        append, find = self._side.append, self._side.find
        view, middle = self._side.rebuild(log[:base]), base // 2
        gc.collect()
        start = process_time()
        for event in tail:
            append(view, event)
            find(view, middle)
        return (process_time() - start) / steps

    def rebuild(self, length: int) -> float:
        log = self._log(length)
        return self._timed(lambda: self._side.rebuild(log))

    def enforce(self, length: int) -> float:
        log = self._log(length)
        return self._timed(self._side.bad_condensation(log, forgotten_positions(len(log))))

    def _timed(self, action: Callable[[], object]) -> float:
        gc.collect()  # so that it does not pay the collector's debts from before
        start = process_time()
        action()
        return process_time() - start


def main(kind: str) -> None:
    operations = Operations(Engine() if kind == "engine" else Peer())
    serve({"step": operations.step, "rebuild": operations.rebuild, "enforce": operations.enforce})


main(sys.argv[1])
