"""A suite: the requirements and scenarios of one role in one version of one protocol, and how its peers are opened.

Runner, reports and commands work on this alone; a further protocol is a further suite in `suites`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from conformance.driver import Driver
from conformance.requirement import Requirement
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import at
from conformance.verdict import Verdict, combined, not_tested, of, skipped

Standing = Literal["pass", "fail", "advice", "note", "not-tested", "skipped"]
STANDINGS: Final[tuple[Standing, ...]] = ("pass", "fail", "advice", "note", "not-tested", "skipped")
"""In the order in which reports count them."""
_ENDINGS: Final = ("cut-short", "flooded", "output-closed", "ended")
"""Marks that show why nothing more came."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something that is done with a program. `run` sends and waits; it concludes nothing."""

    name: str
    text: str
    """One sentence: what the suite does."""
    run: Callable[[Driver], None]
    alone: bool = False
    """Whether nothing else may run at the same time, because the moment of what it sends decides."""
    tries: int = 1
    """How often it is run anew while the race that it wants did not happen."""
    passive: bool = False
    """Whether no requirement names it: it makes traffic for those that are judged in every transcript."""


@dataclass(frozen=True, slots=True)
class Result:
    """One requirement's verdict in a report."""

    requirement: Requirement
    verdict: Verdict

    @property
    def is_violation(self) -> bool:
        """Whether it makes the subject not conformant."""
        outcome = self.verdict.outcome
        if not self.requirement.decides:
            return False
        return outcome == "fail" or (outcome == "not-tested" and self.requirement.level == "mandatory")

    @property
    def standing(self) -> Standing:
        """The outcome by the name that reports give it: nothing fails where no sentence forbids it."""
        if self.verdict.outcome != "fail" or self.requirement.decides:
            return self.verdict.outcome
        return "advice" if self.requirement.level == "advisory" else "note"

    @property
    def is_shown(self) -> bool:
        """Whether reports show the traffic that it is about."""
        return self.is_violation or self.verdict.outcome == "fail"


@dataclass(frozen=True, slots=True)
class Suite:
    """Everything protocol-specific that the runner needs."""

    name: str
    title: str
    subject: Literal["client", "server"]
    requirements: tuple[Requirement, ...]
    opening: Scenario
    """Run first and alone. Shows whether the program can be judged, and how long an undisturbed turn takes."""
    scenarios: tuple[Scenario, ...]
    obstacle: Callable[[Traffic], str]
    """Why the program cannot be judged at all, from the opening's traffic; empty where it can."""
    calibration: Callable[[Traffic], dict[str, Any]]
    """What other scenarios need to know of this program, from the opening's traffic; becomes facts."""
    capability: Callable[[Traffic, str], bool | None]
    """Whether the subject advertises what `applies` names; None where nothing in the traffic tells."""
    server: str = "server"
    """What the protocol calls the program that serves the client."""
    foreign: Callable[[Traffic], str] = lambda _: ""
    """Why traffic is of another version, of which only the requirements of its scenario hold; empty where it is not."""

    def every_scenario(self) -> tuple[Scenario, ...]:
        return self.opening, *self.scenarios

    def judge(
        self,
        transcripts: Iterable[Transcript],
        chosen: Mapping[str, Requirement] | None = None,
        late: Callable[[], str] = lambda: "",
    ) -> list[Result]:
        """The verdicts on these transcripts, of all requirements or of the chosen ones, in the registry's order.

        `late` says, when nothing more may be judged, why not; what is left then counts as not tested.
        """
        rows = [row for row in self.requirements if chosen is None or row.id in chosen]
        verdicts: dict[str, list[tuple[int, Verdict]]] = {row.id: [] for row in rows}
        # The shortest first: a flood, which may cost all the time there is, costs none of what the others show.
        for place, transcript in sorted(enumerate(transcripts), key=lambda one: one[1].size):
            traffic: Traffic | None = None
            for row in rows:
                if row.scenario not in (None, transcript.scenario):
                    continue
                if reason := late():
                    verdict = not_tested(reason)
                else:
                    traffic = traffic or Traffic(transcript)
                    verdict = self._verdict(row, traffic)
                verdicts[row.id].append((place, of(verdict, transcript.scenario)))
        return [Result(row, _in_order(row, verdicts[row.id])) for row in rows]

    def _verdict(self, row: Requirement, traffic: Traffic) -> Verdict:
        if row.applies is not None and self.capability(traffic, row.applies) is not True:
            return skipped(f"{row.applies} is not advertised")
        if row.scenario is None and (reason := self.foreign(traffic)):
            return skipped(reason)
        verdict = row.judge(traffic)
        if verdict.outcome == "fail":
            verdict = _timely(traffic, _evident(traffic, verdict))
        if verdict.outcome == "not-tested" and not traffic.transcript.scenario:
            return skipped(f"{verdict.reason}; nobody tried to show it")
        stopped = traffic.marks("stopped")
        if verdict.outcome == "not-tested" and stopped:
            return not_tested(f"{verdict.reason}: {stopped[0].value}")
        return verdict


def _evident(traffic: Traffic, verdict: Verdict) -> Verdict:
    """The failure with evidence: where its judge has none, the last that each side sent, and how it ended."""
    if verdict.evidence:
        return verdict
    entries = list(enumerate(traffic.transcript.entries))
    last = {entry.kind: index for index, entry in entries if entry.kind in ("client", "server")}
    ends = {entry.label: index for index, entry in entries if entry.kind == "mark" and entry.label in _ENDINGS}
    return replace(verdict, evidence=tuple(sorted({*last.values(), *ends.values()})))


def _timely(traffic: Traffic, verdict: Verdict) -> Verdict:
    """Not tested, where the time of the scenario ended before a request of the failure had its own time."""
    seconds = at(traffic.transcript.facts, "options.timeout")
    for cut in traffic.marks("cut-short"):
        for message in traffic.messages:
            waited = (cut.ms - message.ms) / 1000
            is_waiting = message.is_request and message.answer is None and message.index in verdict.evidence
            if is_waiting and isinstance(seconds, int | float) and waited < seconds:
                return replace(
                    not_tested(f"{cut.value}, {waited:.1f} s after {message.method} was sent"),
                    evidence=verdict.evidence,
                )
    return verdict


def _in_order(row: Requirement, verdicts: list[tuple[int, Verdict]]) -> Verdict:
    """One verdict of those on transcripts at these places."""
    if not verdicts:
        return not_tested(f"the scenario {row.scenario} was not run")
    return combined(verdict for _, verdict in sorted(verdicts, key=lambda one: one[0]))
