"""What a conversation has told a model, from the log of its active path: gone through once, slowly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.core.execution import Display
from engine.log.branches import path_of
from engine.log.events import Event
from engine.log.events.conversation import ResultRerendered, ToolCall
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.events.going_back import Diverged, HeadMoved, ReplayBegun, ReplayEnded
from engine.log.events.nodes import MethodCalled, NodeChanged
from engine.log.events.session import EnvironmentRestored
from engine.log.facts import Readings


@dataclass
class Conversation:
    """What the log has of the active path: what was shown of each handle, and what is unread."""

    shown: dict[str, list[Display]] = field(default_factory=dict[str, list[Display]])
    read: dict[str, Display] = field(default_factory=dict[str, Display])
    replayed: dict[str, Display] = field(default_factory=dict[str, Display])
    """What live replays showed of a handle since it was read."""
    asked: dict[str, list[Display]] = field(default_factory=dict[str, list[Display]])
    failed: set[int] = field(default_factory=set[int])
    touched: set[str] = field(default_factory=set[str])
    changed: set[str] = field(default_factory=set[str])
    displays: dict[str, Sequence[Display]] = field(default_factory=dict[str, Sequence[Display]])
    differing: list[tuple[int, Diverged]] = field(default_factory=list[tuple[int, Diverged]])
    rebuilt: list[int] = field(default_factory=list[int])

    def take_read(self, displays: Sequence[Display]) -> None:
        for each in displays:
            self.read[each.obj_id] = each
            self.replayed.pop(each.obj_id, None)


class Replay:
    """The differences that count: those of edits, and of live replays that completed."""

    def __init__(self) -> None:
        self._mode: str | None = None
        self._found: list[tuple[int, Diverged]] = []

    def apply(self, event: Event) -> list[tuple[int, Diverged]]:
        """Return the differences that count from this event on, with their positions."""
        match event:
            case ReplayBegun(mode=mode):
                self._mode, self._found = mode, []
            case ReplayEnded(outcome=outcome):
                counts, self._mode = self._mode == "live" and outcome == "completed", None
                return self._found if counts else []
            case Diverged() if self._mode is None:
                return [(event.seq, event)]
            case Diverged():
                self._found.append((event.seq, event))
            case _:
                pass
        return []


class Rebuilds:
    """The rebuilds that are news: neither part of a replay, nor what a replay or a move of the head led to."""

    def __init__(self) -> None:
        self._in_replay = self._is_expected = False

    def apply(self, event: Event) -> list[int]:
        """Return the position of the event if it is such a rebuild."""
        match event:
            case ReplayBegun() | ReplayEnded():
                self._in_replay, self._is_expected = isinstance(event, ReplayBegun), True
            case HeadMoved():
                self._is_expected = True
            case ExecutionFinished(mode=None):
                self._is_expected = self._in_replay
            case EnvironmentRestored() if not self._is_expected:
                return [event.seq]
            case EnvironmentRestored():
                self._is_expected = self._in_replay
            case _:
                pass
        return []


class Statements:
    """The statements so far, whether a model asked for each, and the renders in results of the View."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[int, bool]] = {}
        self.displays: dict[str, Sequence[Display]] = {}
        self._calls: set[str] = set()
        self._called: dict[str, str] = {}

    def apply(self, event: Event) -> None:
        match event:
            case ToolCall(parent_id=None, tool_call_id=call):
                self._calls.add(call)
            case StatementRecorded(statement_id=statement, index=index, tool_call_id=call):
                self.numbers[statement] = index, call in self._calls
                self._called[statement] = call
            case ExecutionFinished(statement_id=statement) if event.counts and event.mode is None:
                self.displays[self._called[statement]] = event.displays
            case ResultRerendered(tool_call_id=call, displays=displays):
                self.displays[call] = displays
            case _:
                pass


def conversation(events: Sequence[Event]) -> Conversation:
    """Go through the active path."""
    found, readings, replay, rebuilds, statements = Conversation(), Readings(), Replay(), Rebuilds(), Statements()
    unread, changes = list[tuple[int, ExecutionFinished]](), list[tuple[int, str]]()
    for event in path_of(events):
        readings.apply(event)
        statements.apply(event)
        found.differing += replay.apply(event)
        found.rebuilt += rebuilds.apply(event)
        match event:
            case MethodCalled(obj_id=obj_id):
                found.touched.add(obj_id)
            case NodeChanged(obj_id=obj_id, is_source=True):
                changes.append((event.seq, obj_id))
            case ExecutionFinished() if event.counts and event.mode is None:
                unread.append((event.seq, event))
            case ExecutionFinished(mode="live"):
                found.replayed |= {each.obj_id: each for each in event.displays}
            case _:
                pass
        for seq, finished in [each for each in unread if each[0] < readings.until]:
            found.take_read(finished.displays)
            unread.remove((seq, finished))
    found.displays = statements.displays
    found.changed = {obj_id for seq, obj_id in changes if seq < readings.until}
    found.differing = [each for each in found.differing if each[0] >= readings.until]
    found.rebuilt = [seq for seq in found.rebuilt if seq >= readings.until]
    for _, finished in unread:
        index, is_asked = statements.numbers[finished.statement_id]
        found.failed |= {index} if finished.status != "ok" and not is_asked else set()
        for each in finished.displays:
            found.shown.setdefault(each.obj_id, []).append(each)
            if not is_asked:
                found.asked.setdefault(each.obj_id, []).append(each)
    return found
