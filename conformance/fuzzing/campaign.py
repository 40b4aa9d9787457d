"""Runs a program with known killers, then with random steps, until it fails or time is up, and shortens the failure.

The checks hold for any JSON-RPC program: it stays alive, answers each request once, and writes only messages. Messages
that some JSON parsers reject need no answer. Runs with the same seed have the same steps. Shortening removes all but
the last messages, then ever smaller parts, while the failure stays the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, Final

from conformance.driver import Driver, Options, StoppedError
from conformance.fuzzing.targets import ARGUMENTS, CWD, SESSION, TOOL, Step, Target
from conformance.fuzzing.values import Instances, encode_message, is_widely_accepted
from conformance.judging import Judge, every
from conformance.peers.peer import Peer
from conformance.suites.jsonrpc import (
    form_problem,
    message_objects,
    messages_only,
    no_message,
    responses_match,
    utf8,
    version_problem,
)
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import Object, as_list, as_object, as_text, at, is_list, is_object

SCENARIO: Final = "fuzz"
_ALIVE: Final = Step("_rewindow/alive", {})
NO_MESSAGE: Final = "a line of standard output is not a message"
STRAY_RESPONSE: Final = "a response answers no request, or a request has two responses"
PROGRAM_ENDED: Final = "the program ended"
_ORACLE: Final[dict[str, Judge]] = {
    NO_MESSAGE: messages_only,
    "standard output is not UTF-8": utf8,
    "a message is not JSON-RPC 2.0": every(message_objects, version_problem, no_message),
    "a message is not a request, notification or response": every(message_objects, form_problem, no_message),
    STRAY_RESPONSE: responses_match,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A failure. Two runs with the same `kind` show the same failure."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class FuzzRun:
    """One run: its steps, its traffic, and its failure if there is one."""

    steps: tuple[Step, ...]
    transcript: Transcript
    finding: Finding | None


def play(steps: Sequence[Step], start: Callable[[], Peer], target: Target, options: Options) -> FuzzRun:
    """Start the program, send the steps and end it. Raises PeerStartError."""
    facts = {"fuzz": [asdict(step) for step in steps]}
    transcript = Transcript(SCENARIO, facts)
    driver = Driver(start(), transcript, options, facts)
    try:
        finding = _Player(driver, target).play(steps)
    except StoppedError as error:
        gone = bool(transcript.entries) and any(entry.label == "output-closed" for entry in transcript.entries)
        finding = Finding(PROGRAM_ENDED, str(error)) if gone else Finding("the program is stuck", str(error))
        if transcript.is_full:
            finding = None
    finally:
        driver.finish()
    return FuzzRun(tuple(steps), transcript, finding or _judge(transcript))


def read_steps(saved: object) -> list[Step]:
    """Parse the steps in a transcript's facts. Raises TypeError."""
    if not is_list(saved):
        raise TypeError
    return [Step(**as_object(row)) for row in saved]


def _judge(transcript: Transcript) -> Finding | None:
    traffic = Traffic(transcript)
    for kind, judge in _ORACLE.items():
        verdict = judge(traffic)
        if verdict.outcome == "fail":
            return Finding(kind, verdict.reason)
    return None


class _Player:
    """A running program: its unanswered requests and its newest session."""

    def __init__(self, driver: Driver, target: Target) -> None:
        self._driver = driver
        self._target = target
        self._owed: dict[Any, str] = {}
        """Methods of unanswered requests, by id."""
        self._session = "none"
        self._tools: list[Object] = []
        """The server's read-only tools."""
        self._ways = Random(0)  # noqa: S311 -- repeatable

    def play(self, steps: Iterable[Step]) -> Finding | None:
        for step in steps:
            self._send(step)
            if step.waits and (finding := self._settle()):
                return finding
        self._send(replace(_ALIVE, waits=True))
        return self._settle()

    def _send(self, step: Step) -> None:
        if step.kind == "line":
            self._driver.send_bytes(f"{step.params}\n".encode(errors="surrogateescape"), generated=True)
            return
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        params = self._filled(step.params)
        if step.kind == "stray":
            message |= {"id": 10_000_000, "result": params}
        else:
            message |= {"method": step.method, "params": params}
        if step.kind == "request":
            message["id"] = self._driver.new_id()
            if is_widely_accepted(message) and is_object(params) and step.method not in self._target.open_ended:
                self._owed[message["id"]] = step.method
        elif step.method == self._target.cancelling:
            self._owed.clear()
        self._driver.send_bytes(encode_message(message, self._ways), generated=True)

    def _filled(self, value: Any) -> Any:
        if is_object(value):
            if ARGUMENTS in value:
                return self._arguments(ascii(value[ARGUMENTS]))
            return {key: self._filled(item) for key, item in value.items()}
        if is_list(value):
            return [self._filled(item) for item in value]
        if isinstance(value, str) and value.startswith(TOOL):
            return as_text(self._tool(ascii(value.removeprefix(TOOL))).get("name"))
        if value == SESSION:
            return self._session
        return self._driver.options.cwd if value == CWD else value

    def _tool(self, number: str) -> Object:
        return Random(number).choice(self._tools) if self._tools else {}  # noqa: S311 -- repeatable

    def _arguments(self, number: str) -> Any:
        schema = as_object(self._tool(number).get("inputSchema"))
        return Instances(schema, Random(number), self._target.fixed).of(schema)  # noqa: S311 -- repeatable

    def _settle(self) -> Finding | None:
        """Wait until everything is answered. If something blocks, unblock it first."""
        late = self._late()
        if late:
            for step in self._target.unblocking:
                self._send(step)
            late = self._late()
        if self._driver.wait_closed(0):
            return Finding(PROGRAM_ENDED, "the program exited")
        if late:
            return Finding(
                f"{late} is not answered", f"{late} was not answered within {self._driver.options.timeout:g} s"
            )
        return None

    def _late(self) -> str:
        for number, method in list(self._owed.items()):
            response = self._driver.response(number)
            if response is None:
                return method
            del self._owed[number]
            result = as_object(response.get("result"))
            self._session = as_text(result.get("sessionId")) or self._session
            tools = [as_object(tool) for tool in as_list(result.get("tools"))]
            self._tools = [tool for tool in tools if at(tool, "annotations.readOnlyHint") is True] or self._tools
        return ""


# --- campaigns --------------------------------------------------------------------------------------------------------


STEPS: Final = 120
"""Random messages per start of the program."""
_SHORTENING_SECONDS: Final = 60.0
"""Seconds for shortening a finding."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a campaign. `found` is already shortened. `is_mute`: the program never wrote anything."""

    found: FuzzRun | None
    messages: int
    starts: int
    seconds: float
    is_mute: bool = False


@dataclass(frozen=True, slots=True)
class Campaign:
    """A program, what to send, and for how long. `options.timeout` limits each answer, in seconds."""

    targets: tuple[Target, ...]
    start: Callable[[], Peer]
    options: Options
    seed: int
    seconds: float

    def run(self, on_progress: Callable[[int, int], None] = lambda _messages, _starts: None) -> Outcome:
        """Run and shorten. Raises PeerStartError."""
        began = time.monotonic()
        messages = starts = 0
        while time.monotonic() - began < self.seconds:
            target = self.targets[starts % len(self.targets)]
            played = play(self._steps(target, starts), self.start, target, self.options)
            starts += 1
            messages += len(played.steps)
            on_progress(messages, starts)
            if played.finding is not None:
                is_mute = starts == 1 and not any(entry.kind == "server" for entry in played.transcript.entries)
                found = played if is_mute else self._shortened(played, target)
                return Outcome(found, messages, starts, time.monotonic() - began, is_mute)
        return Outcome(None, messages, starts, time.monotonic() - began)

    def _steps(self, target: Target, starts: int) -> Sequence[Step]:
        """Return the known killers once per target, then random messages."""
        if starts < len(self.targets):
            return (*target.opening, *target.killers)
        return target.steps(Random(f"{self.seed}:{starts}"), STEPS)  # noqa: S311 -- repeatable

    def _shortened(self, found: FuzzRun, target: Target) -> FuzzRun:
        until = time.monotonic() + _SHORTENING_SECONDS
        best = found

        def still(steps: Sequence[Step]) -> bool:
            nonlocal best
            if time.monotonic() > until:
                return False
            played = play(steps, self.start, target, self.options)
            assert best.finding is not None
            if played.finding is None or played.finding.kind != best.finding.kind:
                return False
            best = played
            return True

        _keep_last(target.opening, found.steps, still)
        _remove_parts(lambda: best.steps, still)
        return best


def _keep_last(opening: tuple[Step, ...], steps: tuple[Step, ...], still: Callable[[Sequence[Step]], bool]) -> None:
    """Try the opening with only the last messages, as few as possible."""
    count = 1
    while count < len(steps) - len(opening):
        if still((*opening, *steps[-count:])):
            return
        count *= 2


def _remove_parts(current: Callable[[], tuple[Step, ...]], still: Callable[[Sequence[Step]], bool]) -> None:
    """Remove parts of half the length, then a quarter, down to single messages, while the failure stays."""
    size = max(1, len(current()) // 2)
    while True:
        position, shorter = 0, False
        while position < len(current()):
            steps = current()
            rest = (*steps[:position], *steps[position + size :])
            if rest and still(_last_waits(rest)):
                shorter = True
            else:
                position += size
        if size == 1 and not shorter:
            return
        size = max(1, size // 2)


def _last_waits(steps: Sequence[Step]) -> Sequence[Step]:
    """Make the last step wait."""
    return (*steps[:-1], replace(steps[-1], waits=True))
