"""Sends steps to a program, and looks at what came of it by what holds for any program that speaks JSON-RPC.

It is alive afterwards, it has answered each request once, and every line of its standard output is a message. Where a
message holds what some parsers of JSON refuse, its answer is not insisted on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, Final

from conformance.driver import Driver, StoppedError
from conformance.fuzzing.instances import Instances
from conformance.fuzzing.targets import ARGUMENTS, CWD, SESSION, TOOL, Step, Target
from conformance.fuzzing.values import encoded, is_plain
from conformance.judging import every
from conformance.judging_lines import messages_only, utf8
from conformance.judging_rpc import asked_for, form_problem, no_message, objects, version_problem
from conformance.options import Options
from conformance.peers.peer import Peer
from conformance.requirement import Judge
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import Object, as_list, as_object, as_text, at, is_list, is_object

SCENARIO: Final = "fuzz"
_ALIVE: Final = Step("_rewindow/alive", {})
_ORACLE: Final[dict[str, Judge]] = {
    "a line of standard output is no message": messages_only,
    "standard output is not UTF-8": utf8,
    "a message is not JSON-RPC 2.0": every(objects, version_problem, no_message),
    "a message has no form of JSON-RPC": every(objects, form_problem, no_message),
    "a response answers nothing, or a second time": asked_for,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong. Two runs that have the same `kind` show the same thing."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Played:
    """One run: what was sent, what passed, and what is wrong with it, if anything is."""

    steps: tuple[Step, ...]
    transcript: Transcript
    finding: Finding | None


def play(steps: Sequence[Step], start: Callable[[], Peer], target: Target, options: Options) -> Played:
    """Starts the program, sends the steps and ends it. Raises PeerStartError."""
    facts = {"fuzz": [asdict(step) for step in steps]}
    transcript = Transcript(SCENARIO, facts)
    driver = Driver(start(), transcript, options, facts)
    try:
        finding = _Run(driver, target).play(steps)
    except StoppedError as error:
        gone = bool(transcript.entries) and any(entry.label == "output-closed" for entry in transcript.entries)
        finding = Finding("the program ended", str(error)) if gone else Finding("the program is stuck", str(error))
        if transcript.is_full:
            finding = None
    finally:
        driver.finish()
    return Played(tuple(steps), transcript, finding or _judged(transcript))


def steps_of(saved: object) -> list[Step]:
    """The steps that a transcript's facts hold. Raises TypeError for anything else."""
    if not is_list(saved):
        raise TypeError
    return [Step(**as_object(row)) for row in saved]


def _judged(transcript: Transcript) -> Finding | None:
    traffic = Traffic(transcript)
    for kind, judge in _ORACLE.items():
        verdict = judge(traffic)
        if verdict.outcome == "fail":
            return Finding(kind, verdict.reason)
    return None


class _Run:
    """One program under way: the requests that it owes answers to, and the newest session."""

    def __init__(self, driver: Driver, target: Target) -> None:
        self._driver = driver
        self._target = target
        self._owed: dict[Any, str] = {}
        """By id, the method."""
        self._session = "none"
        self._tools: list[Object] = []
        """What the server lists and says to change nothing."""
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
            self._driver.raw(f"{step.params}\n".encode(errors="surrogateescape"), generated=True)
            return
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        params = self._filled(step.params)
        if step.kind == "stray":
            message |= {"id": 10_000_000, "result": params}
        else:
            message |= {"method": step.method, "params": params}
        if step.kind == "request":
            message["id"] = self._driver.new_id()
            if is_plain(message) and is_object(params) and step.method not in self._target.open_ended:
                self._owed[message["id"]] = step.method
        elif step.method == self._target.cancelling:
            self._owed.clear()
        self._driver.raw(encoded(message, self._ways), generated=True)

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
        """Waits until everything is answered; what may take long is ended first where it does."""
        late = self._late()
        if late:
            for step in self._target.unblocking:
                self._send(step)
            late = self._late()
        if self._driver.wait_closed(0):
            return Finding("the program ended", "the program ended by itself")
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
