"""The driver of a scenario: plays the other program, a client or an agent, over a peer.

It sends JSON-RPC or raw bytes, waits with time limits, and answers requests. All traffic is recorded before it is
interpreted. A scenario that cannot continue raises StoppedError, and the reason becomes a mark in the transcript. Knows
JSON-RPC and no protocol above it. Also holds the user's Options, which the commands create.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from conformance.peers.peer import Ending, Peer, PeerFloodError, PeerGoneError, PeerStartError, Received, Side
from conformance.transcript import LIMITS, LONGEST_LINE, Transcript
from conformance.values import Object, as_object, as_text


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose, for all suites. Times are in seconds."""

    prompt: str = ""
    slow_prompt: str = ""
    tool_prompt: str = ""
    cwd: str = ""
    timeout: float = 10.0
    scenario_timeout: float = 30.0
    auth: str | None = None
    allow_logout: bool = False
    allow_always: bool = False
    """Whether permissions may be answered with "always", which an agent may remember after the run."""
    tool: str | None = None
    """The server's tool to call; None: choose one."""
    arguments: Object | None = None
    """Its arguments; None: make them from its schema."""
    slow_tool: str | None = None
    """A tool whose call takes seconds, for progress and cancellation."""
    slow_arguments: Object | None = None
    allow_destructive: bool = False
    """Whether to call tools that are not marked read-only."""
    long_line: int = 50 * 1024 * 1024
    """Bytes of the longest line to send."""


# --- the driver -------------------------------------------------------------------------------------------------------


METHOD_NOT_FOUND: Final = -32601
MOST_LINES: Final = 50_000
"""A scenario stops after this many lines of the program. Each costs time to judge, and a flood costs minutes."""
_FLOOD_SECONDS: Final = 1.0
"""Seconds after a time limit in which earlier data is still read, if the program never pauses."""


class StoppedError(Exception):
    """Raised when a scenario cannot continue. The text is for the user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request of the program: a result, an error, or none."""

    result: Any = None
    error: Object | None = None
    withheld: bool = False

    @classmethod
    def failing(cls, code: int, message: str) -> Answer:
        return cls(error={"code": code, "message": message})


WITHHELD: Final = Answer(withheld=True)
Answerer = Callable[[Object], Answer]
"""Called with the params of a request."""


class Driver:
    """One scenario's end of the connection. Not thread-safe."""

    def __init__(
        self,
        peer: Peer,
        transcript: Transcript,
        options: Options,
        facts: Mapping[str, Any],
        start: Callable[[], Peer] | None = None,
        late: str = "",
    ) -> None:
        """`start` starts the program again for `restart`; None if that is impossible.

        `options.scenario_timeout` limits the whole scenario. `late` is the reason to give when it is over.
        """
        self.options = options
        self.facts = facts
        self.answerers: dict[str, Answerer] = {}
        """Answers to requests of the program, by method. Other methods get the error -32601."""
        self.received: list[Object] = []
        """Every JSON object from the program, in order."""
        self._peer = peer
        self._start = start
        self._late = late or f"the scenario reached its limit of {options.scenario_timeout:g} s"
        self._earlier = 0.0
        self._side: Side = "client" if peer.side == "server" else "server"
        self._transcript = transcript
        self._buffer = bytearray()
        self._next_id = 0
        self._seen = 0
        self._lines = 0
        self._flooded = False
        self._gone = False

    # --- sending ------------------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes, *, generated: bool = False) -> None:
        """Send bytes. Large `generated` data is recorded as a digest."""
        self._transcript.add(self._ms(), self._side, data, generated=generated)
        try:
            self._peer.write(data, self._limit)
        except PeerGoneError:
            self._receive_all(self._peer.now() + _FLOOD_SECONDS)
            if self._peer.has_closed():
                self.mark("output-closed")
            raise StoppedError("the program stopped reading") from None
        except TimeoutError:
            raise StoppedError("the program does not read its input") from None
        except PeerFloodError:
            self._stop_flood("the program floods its output and does not read its input")

    def send(self, message: object) -> None:
        """Send a message as one line."""
        self.send_bytes(encode_line(message))

    def request(self, method: str, params: object = None, *, label: str = "", request_id: Any = None) -> Any:
        """Send a request without waiting and return its id. A label is marked before sending, for judges."""
        request_id = self.new_id() if request_id is None else request_id
        if label:
            self.mark(label, request_id)
        self.send(request_message(request_id, method, params))
        return request_id

    def new_id(self) -> int:
        """Return an unused request id."""
        self._next_id += 1
        return self._next_id

    def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        self.send(notification_message(method, params))

    def answer(self, request: Object, answer: Answer) -> None:
        """Answer a request of the program."""
        head: Object = {"jsonrpc": "2.0", "id": request.get("id")}
        self.send({**head, "error": answer.error} if answer.error is not None else {**head, "result": answer.result})

    def close_input(self) -> None:
        """Close the program's input. Its requests are no longer answered."""
        self.mark("input-closed")
        self._gone = True
        self._peer.close_input()

    def interrupt(self) -> None:
        """Interrupt the program as Ctrl-C would."""
        self.mark("interrupted")
        self._peer.interrupt()

    def restart(self) -> None:
        """End the program and start it again. Answerers are dropped. Raises StoppedError."""
        if self._start is None:
            raise StoppedError("the program cannot be started again here")
        self.finish()
        self._earlier += self._peer.now()
        try:
            self._peer = self._start()
        except PeerStartError as error:
            raise StoppedError(str(error)) from None
        self._buffer.clear()
        self._gone = False
        self.mark("restarted")

    def mark(self, label: str, value: Any = None) -> None:
        """Record an event that the bytes do not show."""
        self._transcript.mark(self._ms(), label, value)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def response(self, request_id: Any, seconds: float | None = None, *, or_refusal: bool = False) -> Object | None:
        """Return the response to a request, or None on timeout.

        Without `seconds`, the limit is `--timeout`, and a missing response is marked for judges. With `or_refusal`, an
        error without an id counts too: the program could not read the line.
        """

        def wanted(message: Object) -> bool:
            return is_response_to(message, request_id) or (
                or_refusal and "error" in message and message.get("id") is None
            )

        found = self.wait(wanted, seconds, everything=True)
        if found is None and seconds is None and not self._gone and not self._peer.has_closed():
            self.mark("unanswered", request_id)
        return found

    def call(self, method: str, params: object = None) -> Object:
        """Send a request and return its result. Raises StoppedError on a timeout or an error."""
        response = self.response(self.request(method, params))
        if response is None:
            raise StoppedError(f"{method} was not answered")
        if "result" not in response:
            raise StoppedError(f"{method} was answered with the error {json.dumps(response.get('error'))[:200]}")
        return as_object(response["result"])

    def wait(
        self, wanted: Callable[[Object], bool], seconds: float | None = None, *, everything: bool = False
    ) -> Object | None:
        """Return the first message that `wanted` accepts, or None on timeout. Skips messages of earlier waits unless
        `everything`."""
        until = self._until(self.options.timeout if seconds is None else seconds)
        position = 0 if everything else self._seen
        more = True
        while True:
            while position < len(self.received):
                message = self.received[position]
                position += 1
                if wanted(message):
                    self._seen = max(self._seen, position)
                    return message
            if not more:
                self._seen = len(self.received)
                return None
            more = self._receive(until)

    def pause(self, seconds: float) -> None:
        """Let time pass while reading and answering."""
        until = self._until(seconds)
        while self._receive(until):
            pass

    def has_closed(self) -> bool:
        """Whether the program closed its output and all of it was read."""
        return self._peer.has_closed()

    def wait_closed(self, seconds: float) -> bool:
        """Wait for the program to close its output; False on timeout."""
        self.pause(seconds)
        return self._peer.has_closed()

    def finish(self) -> Ending:
        """End the program and record how it ended."""
        ending = self._peer.end()
        self._receive_all()
        self._transcript.end_logs()
        self.mark("ended", {"by": ending.step, "code": ending.code, "left": ending.left})
        return ending

    # --- receiving ----------------------------------------------------------------------------------------------------

    @property
    def _limit(self) -> float:
        """The end of the scenario on the current peer's clock."""
        return self.options.scenario_timeout - self._earlier

    def _until(self, seconds: float) -> float:
        return min(self._peer.now() + seconds, self._limit)

    def _receive(self, until: float) -> bool:
        """Read one chunk. False if none arrives in time, or if chunks still arrive long after: a flood."""
        if self._transcript.is_full:
            self._stop_flood(f"the transcript of the scenario reached its limit of {LIMITS}")
        received = self._peer.read(until)
        if received is not None:
            self._record(received)
            if received.stream == self._peer.side:
                self._take(received.data)
        late = self._peer.now() - (0.0 if received is None else _FLOOD_SECONDS)
        if late >= self._limit:
            self.mark("cut-short", self._late)
            raise StoppedError(self._late)
        return received is not None and late < until

    def _receive_all(self, until: float = math.inf) -> None:
        """Read pending data. In a flood, read only the log, which may explain it."""
        self.answerers = {}
        self._gone = True
        while (received := self._peer.read(self._peer.now())) is not None and self._peer.now() < until:
            if received.stream != self._peer.side or not (self._transcript.is_full or self._flooded):
                self._record(received)

    def _record(self, received: Received) -> None:
        if received.data:
            self._transcript.add(self._ms(), received.stream, received.data, omitted=received.omitted)

    def _take(self, data: bytes) -> None:
        if not data:
            self.mark("output-closed")
            return
        if b"\n" not in data:
            self._buffer += data
            if len(self._buffer) > LONGEST_LINE:
                self._stop_flood(f"the program sent a line of more than {LONGEST_LINE >> 20} MiB")
            return
        *lines, rest = bytes(self._buffer + data).split(b"\n")
        self._buffer = bytearray(rest)
        self._lines += len(lines)
        if self._lines > MOST_LINES:
            self._stop_flood(f"the program sent more than {MOST_LINES:,} lines")
        for one in lines:
            self._take_line(one)

    def _take_line(self, data: bytes) -> None:
        try:
            message = as_object(json.loads(data))
        except (ValueError, RecursionError):
            return
        self.received.append(message)
        if "id" in message and "method" in message and not self._gone:
            answerer = self.answerers.get(as_text(message["method"]))
            given = answerer(as_object(message.get("params"))) if answerer else _NO_SUCH_METHOD
            if not given.withheld:
                self.answer(message, given)

    def _stop_flood(self, reason: str) -> NoReturn:
        self._flooded = True
        self._buffer.clear()
        self.mark("flooded", reason)
        raise StoppedError(reason)

    def _ms(self) -> float:
        return (self._earlier + self._peer.now()) * 1000


_NO_SUCH_METHOD: Final = Answer.failing(METHOD_NOT_FOUND, "Method not found")


def encode_line(message: object) -> bytes:
    """Encode a message. Lone surrogates, which programs may have sent first, become escapes."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace") + b"\n"


def request_message(request_id: Any, method: str, params: object) -> Object:
    message: Object = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def notification_message(method: str, params: object) -> Object:
    message: Object = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def is_response_to(message: Object, request_id: Any) -> bool:
    """Whether this is the response to the request with this id, of the same type."""
    answered = message.get("id")
    return "method" not in message and type(answered) is type(request_id) and answered == request_id
