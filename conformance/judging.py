"""What requirements and verdicts are, and the common judges of JSON-RPC traffic. Knows no other protocol.

The level follows from the quoted sentence, so that every failure has a written rule:

- *mandatory*: the specification says MUST (NOT), or a schema keyword forbids it (`documents.is_binding`);
- *capability*: the same, if the subject advertises the capability in `applies`;
- *advisory*: SHOULD, a statement of fact, a JSON-RPC convention, or user reports. Never decides;
- *informational*: the text is silent or contradicts itself. Recorded, never decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from conformance.documents import Source
from conformance.traffic import OTHER, Message, Sender, Traffic, id_key
from conformance.values import as_object, at, escape_surrogates, truncate

Outcome = Literal["pass", "fail", "skipped", "not-tested"]

_PRECEDENCE: Final[tuple[Outcome, ...]] = ("fail", "pass", "not-tested", "skipped")
"""For several transcripts: a failure decides, then a pass, then an attempt that showed nothing."""


_LONGEST: Final = 600
"""Characters of a reason, which may quote a program."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A conclusion. `reason` is a sentence, empty for a pass. `evidence` holds indices of transcript entries."""

    outcome: Outcome
    reason: str = ""
    evidence: tuple[int, ...] = ()
    scenario: str = ""
    """The scenario of the transcript, set by the suite."""


PASS: Final = Verdict("pass")


def failed(reason: str, *evidence: int) -> Verdict:
    """The subject violates the requirement."""
    return Verdict("fail", reason, evidence)


def skipped(reason: str) -> Verdict:
    """The requirement does not apply: a capability is not advertised, or the race did not happen."""
    return Verdict("skipped", reason)


def not_tested(reason: str) -> Verdict:
    """The requirement applies but was not shown. A failure if it is mandatory."""
    return Verdict("not-tested", reason)


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts on several transcripts; not-tested if there are none."""
    best: Verdict | None = None
    for verdict in verdicts:
        if best is None or _PRECEDENCE.index(verdict.outcome) < _PRECEDENCE.index(best.outcome):
            best = verdict
    return best or not_tested("nothing was recorded")


def with_scenario(verdict: Verdict, scenario: str) -> Verdict:
    """Return the verdict with its scenario and a shortened reason."""
    reason = escape_surrogates(verdict.reason)
    short = truncate(reason, _LONGEST)
    return replace(verdict, scenario=scenario, reason=short)


# --- requirements -----------------------------------------------------------------------------------------------------


Level = Literal["mandatory", "capability", "advisory", "informational"]
LEVELS: Final[tuple[Level, ...]] = ("mandatory", "capability", "advisory", "informational")
DECIDING: Final[frozenset[Level]] = frozenset({"mandatory", "capability"})
"""A failure at these levels makes the subject not conformant."""

Judge = Callable[[Traffic], Verdict]
"""Judges the traffic of one transcript. Pure: no clock, no files."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something a program must, should or may do, and how to check it."""

    id: str
    """`ACP1-A-CANCEL-003`: protocol and version, role, area, number. Never reused, even after removal."""
    level: Level
    text: str
    """One sentence with the program as its subject."""
    source: Source
    judge: Judge
    scenario: str | None = None
    """The scenario that shows it; None to judge every transcript."""
    applies: str | None = None
    """A dotted path into the subject's capabilities. The requirement is skipped if it is absent, false or null."""
    violation: str = ""
    """Example traffic that violates it, for `explain`."""

    @property
    def decides(self) -> bool:
        """Whether a failure makes the subject not conformant; if mandatory, so does not testing it."""
        return self.level in DECIDING


# --- judges -----------------------------------------------------------------------------------------------------------


Expected = Literal["result", "error", "answer"]
_SHOWN: Final = 200
"""Characters of a quoted line."""
_ENDS: Final = ("output-closed", "restarted", "ended")


def marked_requests(traffic: Traffic, *labels: str, by: Sender = "client") -> list[Message]:
    """Return one side's requests whose ids are marked with these labels, in the order of the marks."""
    asked = {id_key(message.id): message for message in traffic.sent(by) if message.is_request}
    entries = [entry for label in labels for entry in traffic.marks(label)]
    return [asked[id_key(entry.value)] for entry in entries if id_key(entry.value) in asked]


def answered(*labels: str, expect: Expected = "answer", by: Sender = "client") -> Judge:
    """Every marked request has a response: a result, an error, or either."""

    def judge(traffic: Traffic) -> Verdict:
        requests = marked_requests(traffic, *labels, by=by)
        if not requests:
            return not_tested("the request was not sent")
        for request in requests:
            reason = _answer_problem(traffic, request, expect)
            if reason:
                return failed(
                    reason, *evidence(request), *(message.index for message in stray_responses(traffic, request))
                )
        return PASS

    return judge


def answered_or_refused(label: str) -> Judge:
    """The marked request has a response, or its line was answered with an error without an id."""

    def judge(traffic: Traffic) -> Verdict:
        came = (message for request in marked_requests(traffic, label) for message in stray_responses(traffic, request))
        refused = any(message.id is None and message.error for message in came)
        return PASS if refused else answered(label)(traffic)

    return judge


def stray_responses(traffic: Traffic, request: Message) -> list[Message]:
    """Return responses after an unanswered request that match no request: they may be meant for it."""
    if request.answer is not None:
        return []
    later = (message for message in traffic.sent(OTHER[request.sender]) if message.order > request.order)
    start = traffic.start_of(request)
    return [each for each in later if each.is_response and each.answers is None and traffic.start_of(each) == start]


def survived(traffic: Traffic) -> Verdict:
    """The request marked `alive`, which ends the scenario, has a result."""
    if traffic.marks("output-closed") and not any(request.succeeded for request in marked_requests(traffic, "alive")):
        return failed("the program ended")
    return answered("alive", expect="result")(traffic)


def _answer_problem(traffic: Traffic, request: Message, expect: Expected) -> str:
    name = request.method
    if request.answer is None:
        return unanswered_reason(traffic, request)
    if expect == "result" and not request.succeeded:
        return (
            f"{name} was answered with the error {request.answer.error.get('code')}: "
            f"{request.answer.error.get('message')}"
        )
    if expect == "error" and request.succeeded:
        return f"{name} was answered with a result, not an error"
    return ""


def unanswered_reason(traffic: Traffic, request: Message, name: str = "") -> str:
    """Describe a missing answer: how long was waited and what came instead. `name` is the request's name."""
    called = name or f"{request.method} with id {request.id!r}"
    return f"{called} was not answered{waited_text(traffic, request)}{_stray_text(traffic, request)}"


def waited_text(traffic: Traffic, request: Message) -> str:
    """Return how long a request stayed unanswered: the time limit, or until the connection ended."""
    waited = any(id_key(entry.value) == id_key(request.id) for entry in traffic.marks("unanswered"))
    seconds = as_object(traffic.transcript.facts.get("options")).get("timeout")
    if waited and isinstance(seconds, int | float):
        return f" within {seconds:g} s, which --timeout sets"
    return f" before its connection ended, {seconds_watched(traffic, request):.1f} s later"


def seconds_watched(traffic: Traffic, request: Message) -> float:
    """Return the seconds from a message to the end of the program's output, or of the recording."""
    later = traffic.transcript.entries[request.index :]
    end = next((entry for entry in later if entry.kind == "mark" and entry.label in _ENDS), later[-1])
    return max(0.0, end.ms - request.ms) / 1000


def _stray_text(traffic: Traffic, request: Message) -> str:
    came = stray_responses(traffic, request)
    if not came:
        return ""
    text = came[0].line.decode("utf-8", "replace").strip()
    text = truncate(text, _SHOWN)
    return f"; instead, a response with the id {came[0].id!r} arrived: {text}"


def evidence(request: Message) -> tuple[int, ...]:
    """Return the entries of a request and its answer."""
    return (request.index,) if request.answer is None else (request.index, request.answer.index)


def every(
    found: Callable[[Traffic], list[Message]], problem: Callable[[Message], str], absent: Callable[[], Verdict]
) -> Judge:
    """No found message has a problem. `absent` is the verdict if none is found."""

    def judge(traffic: Traffic) -> Verdict:
        messages = found(traffic)
        for message in messages:
            reason = problem(message)
            if reason:
                return failed(reason, message.index)
        return PASS if messages else absent()

    return judge


def no_opening_reason(traffic: Traffic, program: str, method: str) -> str:
    """Explain why a program did not answer the first request of a connection."""
    for entry in traffic.marks("ended"):
        if at(entry.value, "by") == "by itself":
            return f"the {program} exited with status {at(entry.value, 'code')} and did not answer {method}"
    asked = next((message for message in traffic.sent("client") if message.method == method), None)
    if asked is None:
        return f"{method} was never sent to the {program}"
    if came := _stray_text(traffic, asked):
        return f"the {program} did not answer {method}, whose id is {asked.id!r}{came}"
    return f"the {program} did not answer {method}{waited_text(traffic, asked)}"
