"""A suite: the requirements and scenarios for one role in one version of one protocol, and its verdicts.

The runner, the reports and the commands use only this. Each suite below `suites/` makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from conformance.driver import Driver
from conformance.judging import Requirement, Verdict, combine, not_tested, skipped, with_scenario
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import at

ReportedOutcome = Literal["pass", "fail", "advice", "note", "not-tested", "skipped"]
NOT_TRIED: Final = "no scenario tested this requirement"
"""Reason for skipping a requirement in traffic without a scenario."""
REPORTED_OUTCOMES: Final[tuple[ReportedOutcome, ...]] = ("pass", "fail", "advice", "note", "not-tested", "skipped")
"""In report order."""
_END_MARKS: Final = ("cut-short", "flooded", "output-closed", "ended")
"""Marks that explain why no more data came."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """An interaction with a program. `run` sends and waits; it draws no conclusions."""

    name: str
    text: str
    """One sentence: what the suite does."""
    run: Callable[[Driver], None]
    alone: bool = False
    """Whether nothing else may run in parallel, because timing matters."""
    tries: int = 1
    """How often to run it until its race happens."""
    passive: bool = False
    """Whether no requirement names it. It produces traffic for requirements that are judged everywhere."""


@dataclass(frozen=True, slots=True)
class Result:
    """A requirement's verdict in a report."""

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
    def reported(self) -> ReportedOutcome:
        """The outcome as reports name it. Failures that do not decide are `advice` or `note`."""
        if self.verdict.outcome != "fail" or self.requirement.decides:
            return self.verdict.outcome
        return "advice" if self.requirement.level == "advisory" else "note"

    @property
    def is_shown(self) -> bool:
        """Whether reports show its traffic."""
        return self.is_violation or self.verdict.outcome == "fail"


@dataclass(frozen=True, slots=True)
class Suite:
    """Everything protocol-specific that the runner needs."""

    name: str
    title: str
    subject: Literal["client", "server"]
    requirements: tuple[Requirement, ...]
    opening: Scenario
    """Runs first and alone. Shows whether the program can be judged, and how long a normal turn takes."""
    scenarios: tuple[Scenario, ...]
    obstacle: Callable[[Traffic], str]
    """Returns, from the opening, why the program cannot be judged; empty if it can."""
    calibration: Callable[[Traffic], dict[str, Any]]
    """Returns, from the opening, facts about the program that other scenarios need."""
    capability: Callable[[Traffic, str], bool | None]
    """Whether the subject advertises what `applies` names; None if the traffic does not show it."""
    server: str = "server"
    """The protocol's name for the program that serves the client."""
    unrequested_version: Callable[[Traffic], str] = lambda _: ""
    """Returns why the traffic uses another version, to which only its scenario's requirements apply; else empty."""

    def every_scenario(self) -> tuple[Scenario, ...]:
        return self.opening, *self.scenarios

    def judge(
        self,
        transcripts: Iterable[Transcript],
        chosen: Mapping[str, Requirement] | None = None,
        late: Callable[[], str] = lambda: "",
    ) -> list[Result]:
        """Judge transcripts by all or the chosen requirements, in the registry's order.

        `late` returns why no more may be judged, or an empty string. The rest is then not tested.
        """
        rows = [row for row in self.requirements if chosen is None or row.id in chosen]
        verdicts: dict[str, list[tuple[int, Verdict]]] = {row.id: [] for row in rows}
        # Shortest first, so that a flood, which may use up the time, does not delay other verdicts.
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
                verdicts[row.id].append((place, with_scenario(verdict, transcript.scenario)))
        return [Result(row, _combine_in_order(row, verdicts[row.id])) for row in rows]

    def _verdict(self, row: Requirement, traffic: Traffic) -> Verdict:
        if row.applies is not None and self.capability(traffic, row.applies) is not True:
            return skipped(f"{row.applies} is not advertised")
        if row.scenario is None and (reason := self.unrequested_version(traffic)):
            return skipped(reason)
        verdict = row.judge(traffic)
        if verdict.outcome == "fail":
            verdict = _unless_cut_short(traffic, _with_evidence(traffic, verdict))
        if verdict.outcome == "not-tested" and not traffic.transcript.scenario:
            return skipped(f"{verdict.reason}; {NOT_TRIED}")
        stopped = traffic.marks("stopped")
        if verdict.outcome == "not-tested" and stopped:
            return not_tested(f"{verdict.reason}: {stopped[0].value}")
        return verdict


def _with_evidence(traffic: Traffic, verdict: Verdict) -> Verdict:
    """Add evidence if the judge gave none: the last data from each side, and how the program ended."""
    if verdict.evidence:
        return verdict
    entries = list(enumerate(traffic.transcript.entries))
    last = {entry.kind: index for index, entry in entries if entry.kind in ("client", "server")}
    ends = {entry.label: index for index, entry in entries if entry.kind == "mark" and entry.label in _END_MARKS}
    return replace(verdict, evidence=tuple(sorted({*last.values(), *ends.values()})))


def _unless_cut_short(traffic: Traffic, verdict: Verdict) -> Verdict:
    """Return not-tested if the scenario ended before an unanswered request of the failure had its full time."""
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


def _combine_in_order(row: Requirement, verdicts: list[tuple[int, Verdict]]) -> Verdict:
    """Combine verdicts in the order of their transcripts."""
    if not verdicts:
        return not_tested(f"the scenario {row.scenario} was not run")
    return combine(verdict for _, verdict in sorted(verdicts, key=lambda one: one[0]))
