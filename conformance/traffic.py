"""The messages of a transcript, which judges read. Built once per transcript, then read-only.

Splits bytes into lines, parses JSON-RPC messages, and matches responses with requests. Does not judge: invalid JSON and
stray responses are kept. Knows JSON-RPC and no protocol above it.
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
OTHER: Final[dict[Sender, Sender]] = {"client": "server", "server": "client"}


class Message:
    """A line from one side, parsed once. Missing parts, or parts of a wrong type, are empty."""

    __slots__ = (
        "answer", "answers", "ended", "error", "id", "index", "is_notification", "is_request", "is_response", "line",
        "method", "ms", "object", "order", "params", "problem", "result", "sender", "value",
    )  # fmt: skip

    def __init__(self, sender: Sender, index: int, ms: float, order: int, line: bytes, *, ended: bool) -> None:
        self.sender: Sender = sender
        self.index = index
        """The transcript entry that completed it."""
        self.ms = ms
        self.order = order
        """Its position among the messages of both sides."""
        self.line = line
        """Without the line end."""
        self.ended = ended
        """Whether a line end followed."""
        self.value, self.problem = _decode(sender, line)
        """The parsed line; or why it is not JSON, else empty."""
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
        """For responses: the request."""
        self.answer: Message | None = None
        """For requests: the first response."""

    @property
    def succeeded(self) -> bool:
        """Whether the request was answered with a result."""
        return self.answer is not None and "result" in self.answer.object


def id_key(value: object) -> object:
    """Return a key for comparing ids: 1, "1", 1.5 and true all differ."""
    return type(value).__name__, value if isinstance(value, str | int | float) else json.dumps(value, default=str)


class Traffic:
    """A transcript's messages, ordered by when they were complete, with indices for judges."""

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
                waiting.clear()  # a restarted program does not answer earlier requests
            if message.is_request:
                waiting[message.sender, id_key(message.id)].append(message)
            elif message.is_response:
                asked = waiting[OTHER[message.sender], id_key(message.id)]
                # An id may be reused after its answer. A second answer then matches nothing.
                if asked:
                    request = asked.popleft()
                    message.answers, request.answer = request, message

    def start_of(self, message: Message) -> int:
        """Return which start of the program a message belongs to, from 0."""
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
        """Yield the messages of one side."""
        return (message for message in self.messages if message.sender == sender)

    def requests(self, sender: Sender, *methods: str) -> list[Message]:
        """Return one side's requests with these methods, in order."""
        found = [message for name in methods for message in self._by_method.get((sender, name, True), ())]
        return sorted(found, key=lambda message: message.order) if len(methods) > 1 else found

    def notifications(self, sender: Sender, method: str) -> list[Message]:
        """Return one side's notifications with this method, in order."""
        return self._by_method.get((sender, method, False), [])

    def derived(self, key: object, make: Callable[[Traffic], T]) -> T:
        """Compute a suite's derived data once for several judges."""
        if key not in self._derived:
            self._derived[key] = make(self)
        return cast("T", self._derived[key])

    def marks(self, label: str) -> list[Entry]:
        """Return the marks with this label, in order."""
        return [entry for entry in self.transcript.entries if entry.kind == "mark" and entry.label == label]


def mark_indices(traffic: Traffic, label: str) -> list[int]:
    """Return the entries of these marks, as evidence."""
    entries = enumerate(traffic.transcript.entries)
    return [index for index, entry in entries if entry.kind == "mark" and entry.label == label]


def _messages(entries: Iterable[Entry]) -> Iterator[Message]:
    # Join parts only at a line end, so that a flood without line ends stays linear.
    partial: dict[Sender, list[bytes]] = {"client": [], "server": []}
    moment: dict[Sender, tuple[int, float]] = {}
    order = 0
    for index, entry in enumerate(entries):
        if entry.kind == "mark" and entry.label == "restarted":
            # A restarted program does not complete the line of the previous process.
            for message in _unended_lines(partial, moment, order):
                yield message
                order += 1
            partial = {"client": [], "server": []}
        if entry.kind not in ("client", "server"):
            continue
        sender: Sender = entry.kind
        parts = partial[sender]
        moment[sender] = index, entry.ms
        if entry.omitted:
            parts.clear()  # generated in bulk by the suite, and not judged
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
    yield from _unended_lines(partial, moment, order)


def _unended_lines(
    partial: dict[Sender, list[bytes]], moment: dict[Sender, tuple[int, float]], order: int
) -> Iterator[Message]:
    """Yield lines without an end. `order` is the position of the first."""
    for sender, parts in partial.items():
        rest = b"".join(parts)
        if rest.strip():
            yield Message(sender, *moment[sender], order, rest, ended=False)
            order += 1


def _decode(sender: Sender, line: bytes) -> tuple[Any, str]:
    try:
        return msgspec.json.decode(line), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error) or "not JSON"
    # A strict parser rejects escaped lone surrogates. The suite itself sends a byte order mark.
    try:
        text = line.decode("utf-8-sig" if sender == "client" else "utf-8")
        return json.loads(text, parse_constant=_no_constant), ""
    except (ValueError, RecursionError):
        return None, why


def _no_constant(name: str) -> Any:
    raise ValueError(name)
