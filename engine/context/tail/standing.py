"""The renders of handles that results of the View hold, and which are out of date: a fold over a path of events.

A render is out of date where a method has given its handle another budget, level or position since: the View would read
otherwise if the call were made now. What ticks change is no part of that, because the feed tells it. Of several renders
of one handle the last one counts. Those before it are out of date where budget or level have changed since: the last
one shows what is left. Where the handle has only moved since they stay, because whoever reads a file part by part has
asked for each part.

Whether it pays to render a result anew is `rerender`'s business. Read by `sessions.rerendering`, and by the worker,
which does not show in the tail what a result shows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from msgspec.structs import replace

from ...core.execution import Display
from ...core.ids import BlobDigest, EventId, Seq, StatementId, ToolCallId
from ...core.text import cut_line
from ...files.tails import StandingRender
from ...log.events import Event
from ...log.events.conversation import AgentText, Condensation, ResultRerendered, ToolCall, ToolResult, UserMessage
from ...log.events.execution import ExecutionFinished, ExecutionStarted, StatementRecorded
from ...log.events.going_back import Diverged, ReplayBegun, ReplayEnded
from ...log.events.nodes import GroupRecomputed, MethodCalled, NodeChanged, NodeMade
from ...log.events.session import ModelCallEnded, ProjectionSent
from ...log.timeline import Timeline
from ..model import Prompt
from ..view.entries import Summary, rerendered, summary_of
from .results import result_text

_POLICY: Final = frozenset(("SetTokens", "SetLod"))
_MOVE: Final = frozenset(("SetPos", "Scroll"))
_CONTENT: Final = frozenset(("Refresh", "Run", "Add", "Remove", "Replace"))
_NEVER: Final = -1
_FOLLOWED: Final = frozenset(
    (
        ToolCall,
        StatementRecorded,
        ExecutionFinished,
        ToolResult,
        ResultRerendered,
        Condensation,
        MethodCalled,
        NodeChanged,
        GroupRecomputed,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingResult:
    """A result of the View that holds renders, and the position on the log at which they were made.

    `finished` is its execution, with the renders that it holds now; `statement` is the index of the statement.
    """

    call: ToolCallId
    entry: EventId
    statement: int
    at: int
    finished: ExecutionFinished

    @property
    def text(self) -> str:
        """What the View has of it, where nothing but its execution has decided that."""
        return result_text(self.finished)

    def with_displays(self, displays: Sequence[Display]) -> str:
        """What it reads with these renders in the place of its own."""
        return result_text(replace(self.finished, displays=tuple(displays)))


@dataclass(frozen=True, slots=True)
class Outdated:
    """A result with renders that are out of date: the places of these among its renders.

    With each place comes the index of a later statement whose result shows the handle, 0 where none does.
    """

    result: StandingResult
    places: Mapping[int, int]


@dataclass(slots=True)
class _Changes:
    """The positions on the log at which a handle was last given a policy, was moved, and got other content."""

    policy: int = _NEVER
    move: int = _NEVER
    content: int = _NEVER


class Standing:
    """What results of the View show. `apply` is for the log alone."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """For the log alone: another path follows, from its first event on."""
        self._open: set[ToolCallId] = set()
        """The model's calls that have no result yet."""
        self._statements: dict[StatementId, StatementRecorded] = {}
        """Of these calls."""
        self._shown: dict[ToolCallId, tuple[int, ExecutionFinished]] = {}
        """The executions with renders whose results are still to come, with the indices of their statements."""
        self._results: dict[ToolCallId, StandingResult] = {}
        self._entries: dict[EventId, ToolCallId] = {}
        self._changes: dict[str, _Changes] = {}
        self._latest: dict[str, tuple[StandingResult, Display]] | None = {}
        """The last result with each handle's render, and that; None where they have to be found anew."""

    def apply(self, event: Event) -> None:
        # By kind first, because a log has hundreds of thousands of events, and most are of no other kind here.
        if type(event) in _FOLLOWED:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case ToolCall(parent_id=None, tool_call_id=call):
                self._open.add(call)
            case StatementRecorded(tool_call_id=call) if call in self._open:
                self._statements[event.statement_id] = event
            case ExecutionFinished(statement_id=statement_id) if statement_id in self._statements:
                statement = self._statements.pop(statement_id)
                if event.displays:
                    self._shown[statement.tool_call_id] = (statement.index, event)
            case ToolResult(tool_call_id=call) if call in self._open:
                self._open.discard(call)
                if call in self._shown:
                    index, finished = self._shown.pop(call)
                    self._hold(
                        StandingResult(
                            call=call, entry=event.event_id, statement=index, at=finished.seq, finished=finished
                        )
                    )
            case ResultRerendered(tool_call_id=call) if call in self._results:
                self._rerender(self._results[call], event)
            case Condensation(forgotten=forgotten):
                for entry in forgotten:
                    self._results.pop(self._entries.pop(entry, ToolCallId("")), None)
                self._latest = None
            case _:
                self._change(event)

    def _change(self, event: Event) -> None:
        if not self._results and not self._shown:
            return  # because of a result only what comes after it puts a render out of date
        match event:
            case MethodCalled(obj_id=obj_id, method=method) if method in _POLICY:
                self._changes.setdefault(obj_id, _Changes()).policy = event.seq
            case MethodCalled(obj_id=obj_id, method=method) if method in _MOVE:
                self._changes.setdefault(obj_id, _Changes()).move = event.seq
            case MethodCalled(obj_id=obj_id, method=method) if method in _CONTENT:
                self._changes.setdefault(obj_id, _Changes()).content = event.seq
            case NodeChanged(obj_id=obj_id) | GroupRecomputed(obj_id=obj_id):
                self._changes.setdefault(obj_id, _Changes()).content = event.seq
            case _:
                pass

    def _hold(self, result: StandingResult) -> None:
        self._results[result.call] = result
        self._entries[result.entry] = result.call
        self._latest = None

    def _rerender(self, before: StandingResult, event: ResultRerendered) -> None:
        self._entries.pop(before.entry, None)
        finished = replace(before.finished, displays=event.displays)
        self._hold(
            StandingResult(
                call=before.call, entry=event.event_id, statement=before.statement, at=event.seq, finished=finished
            )
        )

    def _last(self) -> Mapping[str, tuple[StandingResult, Display]]:
        """Of each handle the last render at its own policy, with its result, by the order of their statements."""
        if self._latest is None:
            self._latest = {
                display.obj_id: (result, display)
                for result in sorted(self._results.values(), key=lambda result: result.statement)
                for display in result.finished.displays
                if not display.given
            }
        return self._latest

    @property
    def renders(self) -> tuple[StandingRender, ...]:
        """The last render of each handle."""
        return tuple(self._render(obj_id, *last) for obj_id, last in self._last().items())

    def _render(self, obj_id: str, result: StandingResult, display: Display) -> StandingRender:
        changes = self._changes.get(obj_id, _UNCHANGED)
        return StandingRender(
            obj_id=obj_id,
            statement=result.statement,
            tokens=display.tokens,
            digest=display.digest,
            is_old_policy=changes.policy > result.at > changes.content,
        )

    def outdated(self) -> tuple[Outdated, ...]:
        """The results with renders that are out of date, by the order of their statements."""
        if not self._changes:
            return ()
        results = sorted(self._results.values(), key=lambda result: result.statement)
        found = ((result, self._places(result)) for result in results)
        return tuple(Outdated(result, places) for result, places in found if places)

    def _places(self, result: StandingResult) -> dict[int, int]:
        places: dict[int, int] = {}
        for place, display in enumerate(result.finished.displays):
            changes = self._changes.get(display.obj_id)
            if changes is None or display.given:
                continue
            last, _ = self._last()[display.obj_id]
            if last is result and max(changes.policy, changes.move) > result.at:
                places[place] = 0
            elif last is not result and changes.policy > result.at:
                places[place] = last.statement
        return places


_UNCHANGED: Final = _Changes()


def referring(display: Display, statement: int) -> Display:
    """What stands in the place of a render that a later result shows better."""
    return replace(display, text=f"(shown again by statement {statement})\n", tokens=0, digest="", given=True)


# diverged:
# Which handles are of statements that came out differently when they ran again: a fold over a path of events.
#
# A handle is of the statement that made it, and of those that called a method on it. A statement counts until it runs
# again in a replay that comes to its end, and comes out the same. The worker says so with the groups that hold them.


class DivergedNodes:
    """`apply` and `reset` are for the log alone. `timeline` follows the same path, and is told of each event before."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (
            ExecutionStarted,
            ExecutionFinished,
            NodeMade,
            MethodCalled,
            ReplayBegun,
            Diverged,
            ReplayEnded,
        )
    )

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.reset()

    def reset(self) -> None:
        """Another path follows, from its first event on."""
        self._running = 0
        """The number of the statement that runs; 0 for none."""
        self._numbers = array("q")
        """Of a statement that made a handle or called a method on one, again and again; beside it where the log says
        so, which is less than the id of the handle takes."""
        self._places = array("q")
        self._diverged: set[int] = set()
        self._checked: set[int] = set()
        """Those that had come out differently, and may come out the same in the replay that is under way."""
        self._nodes: Mapping[str, tuple[int, ...]] | None = None
        """Found already, and the same since."""

    def apply(self, event: Event) -> None:
        match event:
            case ExecutionStarted(statement_id=statement_id) if event.counts:
                cell = self._timeline.cell(statement_id)
                self._running = 0 if cell is None else cell.index
            case ExecutionFinished() if event.counts:
                self._running = 0
            case NodeMade(statement=number):
                self._note(number, event)
            case MethodCalled() if self._running:
                self._note(self._running, event)
            case _:
                self._follow(event)

    def _note(self, number: int, event: Event) -> None:
        self._numbers.append(number)
        self._places.append(event.seq)
        if number in self._diverged:
            self._nodes = None

    def _follow(self, event: Event) -> None:
        self._nodes = None
        match event:
            case ReplayBegun(first=first, last=last, mode=mode) if mode != "dry":
                self._checked = {number for number in self._diverged if first <= number <= last}
                self._diverged -= self._checked
            case Diverged(statement=number):
                self._diverged.add(number)
            case ReplayEnded(outcome=outcome):
                if outcome != "completed":
                    self._diverged |= self._checked
                self._checked = set()
            case _:
                pass

    @property
    def nodes(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of those statements, by the ids of their handles. O(1) until something differs or no longer."""
        if self._nodes is None:
            found = dict[str, set[int]]()
            for number, place in zip(self._numbers, self._places, strict=True) if self._diverged else ():
                if number in self._diverged:
                    event = self._timeline.at(Seq(place))
                    assert isinstance(event, NodeMade | MethodCalled)
                    found.setdefault(event.obj_id, set()).add(number)
            self._nodes = {obj_id: tuple(sorted(numbers)) for obj_id, numbers in found.items()}
        return self._nodes


# sent:
# What each model call of a session read, as the log has it: a fold over a path of events, and the prompt made again.
#
# A call's messages are named relative to those of the call before (`ProjectionSent.kept`), because a View grows at
# its end: so an event is small however long the conversation is. The events themselves stay on the log, condensed or
# not; texts that are on no log (instructions, tail, shortened messages) are contents that the event names. Pure:
# contents come from whoever asks. Followed by the log for the next call, and made anew by whoever shows a past one.

_SHOWN: Final = 20
_NUMBER_DIGITS: Final = 9


class SentProjections:
    """The calls so far, numbered from 1 on; each with what is known by now of its end. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ProjectionSent, ModelCallEnded))

    def __init__(self) -> None:
        self._calls: list[ProjectionSent] = []
        self._messages: list[EventId] = []

    def apply(self, event: Event) -> None:
        if isinstance(event, ProjectionSent):
            self._calls.append(event)
            _follow(self._messages, event)
        elif isinstance(event, ModelCallEnded) and self._calls:
            self._calls[-1] = replace(
                self._calls[-1],
                answered=event.answered,
                input_tokens=event.input_tokens,
                cached_tokens=event.cached_tokens,
                output_tokens=event.output_tokens,
            )

    @property
    def calls(self) -> Sequence[ProjectionSent]:
        """Oldest first."""
        return tuple(self._calls)

    @property
    def latest(self) -> ProjectionSent | None:
        return self._calls[-1] if self._calls else None

    @property
    def latest_messages(self) -> Sequence[EventId]:
        """The messages of the latest call."""
        return tuple(self._messages)

    def number_of(self, call: ProjectionSent) -> int:
        """The number of one of the calls."""
        return next(number for number, each in enumerate(self._calls, 1) if each is call)

    def numbered(self, text: str) -> ProjectionSent | None:
        """The call that a person names by its number; None where there is none."""
        is_number = text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS
        return self._calls[int(text) - 1] if is_number and 1 <= int(text) <= len(self._calls) else None

    def without(self, number: str) -> str:
        """One sentence for somebody who asked for a call that there is not."""
        if not self._calls:
            return "No model has been called in this session."
        there = "there is 1" if len(self._calls) == 1 else f"they are numbered from 1 to {len(self._calls)}"
        return f"There is no model call {cut_line(number, _SHOWN)}; {there}."

    def messages_of(self, call: ProjectionSent) -> Sequence[EventId]:
        """The messages of that call, in order."""
        messages: list[EventId] = []
        for each in self._calls:
            _follow(messages, each)
            if each is call:
                break
        return messages


def _follow(messages: list[EventId], event: ProjectionSent) -> None:
    del messages[max(event.kept, 0) :]
    messages += event.messages


def shared_length(before: Sequence[EventId], messages: Sequence[Event]) -> int:
    """How many messages from the first on are those of the call before, whose ids `before` are."""
    pairs = zip(before, messages, strict=False)
    return next(
        (place for place, (event_id, message) in enumerate(pairs) if event_id != message.event_id),
        min(len(before), len(messages)),
    )


def prompt_of(
    call: ProjectionSent, messages: Sequence[EventId], log: Iterable[Event], content: Callable[[BlobDigest], bytes]
) -> Prompt:
    """The prompt of that call, as the model was sent it.

    Raises:
        KeyError: an event that it was made of is not on the log, or a content is not in the store.
    """
    entries = _entries(log)

    def text(digest: BlobDigest | None) -> str:
        return "" if digest is None else content(digest).decode("utf-8", "replace")

    shortened = {event_id: text(digest) for event_id, digest in call.shortened.items()}
    return Prompt(
        instructions=text(call.instructions),
        messages=tuple(_with_text(entries[each], shortened.get(each)) for each in messages),
        tail=text(call.tail),
        calls_tools=call.calls_tools,
    )


def _entries(log: Iterable[Event]) -> Mapping[EventId, Event]:
    entries: dict[EventId, Event] = {}
    results: dict[ToolCallId, ToolResult] = {}
    for event in log:
        entries[event.event_id] = event
        match event:
            case Condensation() if (summary := summary_of(event)) is not None:
                entries[summary.event_id] = summary
            case ToolResult():
                results.setdefault(event.tool_call_id, event)
            case ResultRerendered(tool_call_id=call) if call in results:
                entries[event.event_id] = rerendered(results[call], event)
            case _:
                pass
    return entries


def _with_text(event: Event, text: str | None) -> Event:
    if text is not None and isinstance(event, UserMessage | AgentText | ToolResult | Summary):
        return replace(event, text=text)
    return event
