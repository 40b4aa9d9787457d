"""Timelines for read models that follow a path after one."""

from __future__ import annotations

from collections.abc import Iterable

from engine.log.event_log import lookup_in
from engine.log.events import Event
from engine.log.timeline import Timeline


def timeline_of(events: Iterable[Event] = ()) -> Timeline:
    """That of a path of stamped events, all of which it was told."""
    path = list(events)
    timeline = Timeline(lookup_in(path))
    for event in path:
        timeline.apply(event)
    return timeline
