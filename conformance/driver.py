"""The other program that scenarios act as, a client or an agent: it sends JSON-RPC or any bytes, waits with limits, and
answers what it is asked.

Everything that passes is recorded before anybody looks at it. A scenario that cannot go on raises StoppedError, and the
reason becomes a mark of the transcript. Knows JSON-RPC and no protocol above it.
One file in spite of its length, because what is sent, waited for and received is one state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from conformance.options import Options
from conformance.peers.peer import Ending, Peer, PeerFloodError, PeerGoneError, PeerStartError, Received, Side
from conformance.transcript import LIMITS, LONGEST_LINE, Transcript
from conformance.values import Object, as_object, as_text

METHOD_NOT_FOUND: Final = -32601
MOST_LINES: Final = 50_000
"""Lines of the program after which a scenario ends: each costs time to judge, and a flood of short ones minutes."""
_FLOOD: Final = 1.0
"""Seconds after a time limit within which what came before it is still taken, where the program never pauses."""


class StoppedError(Exception):
    """Raised where a scenario cannot go on: its text says why, for the user."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered to a request of the program: a result, an error object, or nothing."""

    result: Any = None
    error: Object | None = None
    withheld: bool = False

    @classmethod
    def failing(cls, code: int, message: str) -> Answer:
        return cls(error={"code": code, "message": message})


WITHHELD: Final = Answer(withheld=True)
Answerer = Callable[[Object], Answer]
"""Given the params of a request."""


class Driver:
    """One scenario's end of the connection. Not for several threads."""

    def __init__(
        self,
        peer: Peer,
        transcript: Transcript,
        options: Options,
        facts: Mapping[str, Any],
        start: Callable[[], Peer] | None = None,
        late: str = "",
    ) -> None:
        """`start` is what `restart` starts the program with; where there is none it cannot be started again.

        The scenario timeout among the options is for the whole scenario; `late` says what is over when it is.
        """
        self.options = options
        self.facts = facts
        self.answerers: dict[str, Answerer] = {}
        """How requests of the program are answered, by method; any other is answered that there is no such method."""
        self.received: list[Object] = []
        """Every JSON object of the program, in order."""
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

    def raw(self, data: bytes, *, generated: bool = False) -> None:
        """Sends any bytes. `generated` ones are kept by digest where they are many."""
        self._transcript.add(self._ms(), self._side, data, generated=generated)
        try:
            self._peer.write(data, self._limit)
        except PeerGoneError:
            self._receive_all(self._peer.now() + _FLOOD)
            if self._peer.has_closed():
                self.mark("output-closed")
            raise StoppedError("the program reads no more") from None
        except TimeoutError:
            raise StoppedError("the program does not read what it is sent") from None
        except PeerFloodError:
            self._stop_flood("the program writes without end and does not read what it is sent")

    def send(self, message: object) -> None:
        """Sends one message on a line of its own."""
        self.raw(line(message))

    def request(self, method: str, params: object = None, *, label: str = "", request_id: Any = None) -> Any:
        """Sends a request without waiting; returns its id. A label marks it for judges, before it is sent."""
        request_id = self.new_id() if request_id is None else request_id
        if label:
            self.mark(label, request_id)
        self.send(request_message(request_id, method, params))
        return request_id

    def new_id(self) -> int:
        """An id that no request had."""
        self._next_id += 1
        return self._next_id

    def notify(self, method: str, params: object = None) -> None:
        """Sends a notification."""
        self.send(notification(method, params))

    def answer(self, request: Object, answer: Answer) -> None:
        """Answers a request of the program."""
        head: Object = {"jsonrpc": "2.0", "id": request.get("id")}
        self.send({**head, "error": answer.error} if answer.error is not None else {**head, "result": answer.result})

    def close_input(self) -> None:
        """Ends what the program reads, after which nothing that it asks is answered."""
        self.mark("input-closed")
        self._gone = True
        self._peer.close_input()

    def interrupt(self) -> None:
        """Does to the program what a user does who presses Ctrl-C."""
        self.mark("interrupted")
        self._peer.interrupt()

    def restart(self) -> None:
        """Ends the program and starts it anew. What it was told to answer is forgotten. Raises StoppedError."""
        if self._start is None:
            raise StoppedError("the program cannot be started a second time here")
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
        """Notes in the transcript what the bytes do not say."""
        self._transcript.mark(self._ms(), label, value)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def response(self, request_id: Any, seconds: float | None = None) -> Object | None:
        """The response to a request; None where there is none in time.

        Without a time of its own it is given `--timeout`, as any request is, and its absence is marked for the judges.
        """
        found = self.wait(lambda message: answers(message, request_id), seconds, everything=True)
        if found is None and seconds is None and not self._gone and not self._peer.has_closed():
            self.mark("unanswered", request_id)
        return found

    def call(self, method: str, params: object = None) -> Object:
        """Sends a request and returns its result. Raises StoppedError where there is none, or an error."""
        response = self.response(self.request(method, params))
        if response is None:
            raise StoppedError(f"{method} was not answered")
        if "result" not in response:
            raise StoppedError(f"{method} was answered with the error {json.dumps(response.get('error'))[:200]}")
        return as_object(response["result"])

    def wait(
        self, wanted: Callable[[Object], bool], seconds: float | None = None, *, everything: bool = False
    ) -> Object | None:
        """The first message that is wanted, of those not waited for yet or of all; None where there is none in time."""
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
        """Lets time pass, and takes and answers what comes meanwhile."""
        until = self._until(seconds)
        while self._receive(until):
            pass

    def has_closed(self) -> bool:
        """Whether the program has ended what it writes, and all of that was taken."""
        return self._peer.has_closed()

    def wait_closed(self, seconds: float) -> bool:
        """Whether the program closes its standard output in time."""
        self.pause(seconds)
        return self._peer.has_closed()

    def finish(self) -> Ending:
        """Ends the program and records how it ended."""
        ending = self._peer.end()
        self._receive_all()
        self._transcript.end_logs()
        self.mark("ended", {"by": ending.rung, "code": ending.code, "left": ending.left})
        return ending

    # --- receiving ----------------------------------------------------------------------------------------------------

    @property
    def _limit(self) -> float:
        """The end of the scenario, on the clock of the peer that is under way."""
        return self.options.scenario_timeout - self._earlier

    def _until(self, seconds: float) -> float:
        return min(self._peer.now() + seconds, self._limit)

    def _receive(self, until: float) -> bool:
        """Takes one chunk; False where there is none by then, or where there still are some long after: a flood."""
        if self._transcript.is_full:
            self._stop_flood(f"the transcript of the scenario reached its limit of {LIMITS}")
        received = self._peer.read(until)
        if received is not None:
            self._record(received)
            if received.stream == self._peer.side:
                self._take(received.data)
        late = self._peer.now() - (0.0 if received is None else _FLOOD)
        if late >= self._limit:
            self.mark("cut-short", self._late)
            raise StoppedError(self._late)
        return received is not None and late < until

    def _receive_all(self, until: float = math.inf) -> None:
        """Takes what is there by then; of a flood of messages no more, but the log that may say why."""
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


def line(message: object) -> bytes:
    """A message as it is sent; half a surrogate pair, which programs may have sent first, as an escape."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace") + b"\n"


def request_message(request_id: Any, method: str, params: object) -> Object:
    message: Object = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: object) -> Object:
    message: Object = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def answers(message: Object, request_id: Any) -> bool:
    """Whether it is the response to the request with this id, whose type counts too."""
    answered = message.get("id")
    return "method" not in message and type(answered) is type(request_id) and answered == request_id
