"""Short logs for tests, one word per event, stamped in order.

`m1` a message, `a1:batch:call` an action (`+` at its end: with thinking), `o1:call` its observation, `x1` a RunStop,
`r1` a CondensationRequest. The part before the first colon is the event id.
"""

from __future__ import annotations

from engine.cli.vectors import view_event_of
from engine.core.ids import EventId, Seq
from engine.log.events import Event
from engine.log.events.conversation import Condensation

_KINDS = {"m": "message", "a": "action", "o": "observation", "x": "other", "r": "condensation_request"}


def log_of(words: str, *, start: int = 0) -> list[Event]:
    """The events named by `words`, stamped from `start` on."""
    log: list[Event] = []
    for word in words.split():
        name, *rest = word.rstrip("+").split(":")
        neutral: dict[str, object] = {"id": name, "kind": _KINDS[name[0]]}
        if name[0] == "a":
            neutral |= {"llm_response_id": rest[0], "tool_call_id": rest[1], "has_thinking": word.endswith("+")}
        elif name[0] == "o":
            neutral["tool_call_id"] = rest[0]
        log.append(view_event_of(neutral, start + len(log)))
    return log


def condensation(forgotten: str, *, seq: int = -1, summary: str | None = None, at: int | None = None) -> Condensation:
    """A Condensation of the ids in `forgotten`; unstamped unless `seq` is given."""
    return Condensation(
        seq=Seq(seq),
        event_id=EventId("" if seq < 0 else f"c{seq}"),
        forgotten=tuple(EventId(each) for each in forgotten.split()),
        summary=summary,
        summary_offset=at,
    )
