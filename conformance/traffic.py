"""The messages of a transcript: what judges read. Built once for each transcript, then only read.

Bytes become lines, lines become JSON-RPC messages, and responses find their requests. Nothing here judges: a line that
is no JSON stands here as such, and so does a response that answers nothing. Knows JSON-RPC and no protocol above it.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, cast

import msgspec

from conformance.transcript import Entry, Transcript
from conformance.values import Object, as_object, as_text

T = TypeVar("T")
Sender = Literal["client", "server"]
_OTHER: Final[dict[Sender, Sender]] = {"client": "server", "server": "client"}


class Message:
    """One line that a side sent. Its parts are read once; what is not there, or of another type, is empty."""

    __slots__ = (
        "answer", "answers", "ended", "error", "id", "index", "is_notification", "is_request", "is_response", "line",
        "method", "ms", "object", "order", "params", "problem", "result", "sender", "value",
    )  # fmt: skip

    def __init__(self, sender: Sender, index: int, ms: float, order: int, line: bytes, *, ended: bool) -> None:
        self.sender: Sender = sender
        self.index = index
        """The entry of the transcript that ended it."""
        self.ms = ms
        self.order = order
        """Its place among the messages of both sides."""
        self.line = line
        """Without the line end."""
        self.ended = ended
        """Whether a line end followed."""
        self.value, self.problem = _decoded(sender, line)
        """What the line holds; or why it is no JSON, else empty."""
        self.object: Object = as_object(self.value)
        self.method = as_text(self.object.get("method"))
        self.id: Any = self.object.get("id")
        self.params = as_object(self.object.get("params"))
        self.result = as_object(self.object.get("result"))
        self.error = as_object(self.object.get("error"))
        called, named = "method" in self.object, "id" in self.object
        self.is_request = called and named
        self.is_notification = called and not named
        self.is_response = not called and ("result" in self.object or "error" in self.object)
        self.answers: Message | None = None
        """Responses only: the request."""
        self.answer: Message | None = None
        """Requests only: the first response."""

    @property
    def succeeded(self) -> bool:
        """A request that was answered with a result."""
        return self.answer is not None and "result" in self.answer.object


def id_key(value: object) -> object:
    """What two ids must share to be the same: 1, "1", 1.5 and true all differ."""
    return type(value).__name__, value if isinstance(value, str | int | float) else json.dumps(value, default=str)


class Traffic:
    """A transcript's messages in the order in which they were complete, with indices for what judges look for."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._derived: dict[object, object] = {}
        self.messages: tuple[Message, ...] = tuple(_messages(transcript.entries))
        self._correlate()

    def _correlate(self) -> None:
        waiting: dict[tuple[Sender, object], deque[Message]] = defaultdict(deque)
        start = 0
        for message in self.messages:
            if (latest := self.start_of(message)) != start:
                start = latest
                waiting.clear()  # what one process did not answer, no other one does
            if message.is_request:
                waiting[message.sender, id_key(message.id)].append(message)
            elif message.is_response:
                asked = waiting[_OTHER[message.sender], id_key(message.id)]
                # An id may be used again once it was answered; a second answer to one request has none left to find.
                if asked:
                    request = asked.popleft()
                    message.answers, request.answer = request, message

    def start_of(self, message: Message) -> int:
        """Which start of the program it is from or for, counted from 0."""
        return bisect(self._restarts, message.index)

    @cached_property
    def _restarts(self) -> list[int]:
        entries = enumerate(self.transcript.entries)
        return [index for index, entry in entries if entry.kind == "mark" and entry.label == "restarted"]

    @cached_property
    def _by_method(self) -> dict[tuple[Sender, str, bool], list[Message]]:
        found: dict[tuple[Sender, str, bool], list[Message]] = defaultdict(list)
        for message in self.messages:
            if "method" in message.object:
                found[message.sender, message.method, message.is_request].append(message)
        return found

    def sent(self, sender: Sender) -> Iterator[Message]:
        """All of one side."""
        return (message for message in self.messages if message.sender == sender)

    def requests(self, sender: Sender, *methods: str) -> list[Message]:
        """Requests of one side with one of these methods, in order."""
        found = [message for name in methods for message in self._by_method.get((sender, name, True), ())]
        return sorted(found, key=lambda message: message.order) if len(methods) > 1 else found

    def notifications(self, sender: Sender, method: str) -> list[Message]:
        """Notifications of one side with this method, in order."""
        return self._by_method.get((sender, method, False), [])

    def derived(self, key: object, make: Callable[[Traffic], T]) -> T:
        """What a suite makes of this traffic and several judges read: made once."""
        if key not in self._derived:
            self._derived[key] = make(self)
        return cast("T", self._derived[key])

    def marks(self, label: str) -> list[Entry]:
        """The scenario's marks of one kind, in order."""
        return [entry for entry in self.transcript.entries if entry.kind == "mark" and entry.label == label]


def places(traffic: Traffic, label: str) -> list[int]:
    """The entries of the marks of one kind, as evidence."""
    entries = enumerate(traffic.transcript.entries)
    return [index for index, entry in entries if entry.kind == "mark" and entry.label == label]


def _messages(entries: Iterable[Entry]) -> Iterator[Message]:
    # Parts are joined where a line ends and not before, so that a flood without line ends costs what it weighs.
    partial: dict[Sender, list[bytes]] = {"client": [], "server": []}
    moment: dict[Sender, tuple[int, float]] = {}
    order = 0
    for index, entry in enumerate(entries):
        if entry.kind == "mark" and entry.label == "restarted":
            # What the program's earlier process began to say, its next one does not end.
            for message in _unended(partial, moment, order):
                yield message
                order += 1
            partial = {"client": [], "server": []}
        if entry.kind not in ("client", "server"):
            continue
        sender: Sender = entry.kind
        parts = partial[sender]
        moment[sender] = index, entry.ms
        if entry.omitted:
            parts.clear()  # generated by the suite, and no message that a judge reads
            continue
        parts.append(entry.data)
        if b"\n" not in entry.data:
            continue
        *lines, rest = b"".join(parts).split(b"\n")
        for line in lines:
            if line.strip() or sender == "server":
                yield Message(sender, index, entry.ms, order, line, ended=True)
                order += 1
        partial[sender] = [rest]
    yield from _unended(partial, moment, order)


def _unended(
    partial: dict[Sender, list[bytes]], moment: dict[Sender, tuple[int, float]], order: int
) -> Iterator[Message]:
    """Lines that nothing ended, the first of them at this place."""
    for sender, parts in partial.items():
        rest = b"".join(parts)
        if rest.strip():
            yield Message(sender, *moment[sender], order, rest, ended=False)
            order += 1


def _decoded(sender: Sender, line: bytes) -> tuple[Any, str]:
    try:
        return msgspec.json.decode(line), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error) or "not JSON"
    # A strict reader refuses an escape of half a surrogate pair. A byte order mark is the suite's own doing.
    try:
        text = line.decode("utf-8-sig" if sender == "client" else "utf-8")
        return json.loads(text, parse_constant=_no_constant), ""
    except (ValueError, RecursionError):
        return None, why


def _no_constant(name: str) -> Any:
    raise ValueError(name)
