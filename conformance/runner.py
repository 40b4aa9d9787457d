"""Runs the scenarios of a suite against a program, each with its own peer, and always ends all of them.

The opening runs first and decides whether the program can be judged. Then the others run, `jobs` at a time, in threads.
Those that depend on timing run last, one by one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.driver import Driver, Options, StoppedError
from conformance.judging import Requirement
from conformance.peers.peer import Peer, PeerStartError
from conformance.suite import Result, Scenario, Suite
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import escape_surrogates

Start = Callable[[], Peer]
MOST_BYTES: Final = 128 * 1024 * 1024
MOST_LINES: Final = 200_000
"""For all transcripts together. No scenario starts beyond that, because each flood takes minutes to judge. Only lines
of messages count."""
_JUDGING_SECONDS: Final = 5.0
"""Seconds for judging when the scenarios used up the budget. A normal run needs less than one."""


class RunningPeers:
    """The running programs, so that an interrupted run can kill them. Waiting scenarios then see closed streams."""

    def __init__(self) -> None:
        self._peers: set[Peer] = set()
        self._lock = threading.Lock()
        self._killed = False

    def add(self, peer: Peer) -> None:
        with self._lock:
            self._peers.add(peer)
            if self._killed:
                peer.kill()

    def discard(self, peer: Peer) -> None:
        with self._lock:
            self._peers.discard(peer)

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            for peer in self._peers:
                peer.kill()


class Budget:
    """The time limit of a run, from its creation."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.reason = f"the budget of {seconds:g} s for all scenarios was used up"

    def left(self) -> float:
        """Seconds left; negative when exceeded."""
        return self._end - time.monotonic()

    def used_up(self) -> str:
        """Return the reason if the budget is used up; else empty."""
        return "" if self.left() > 0 else self.reason

    def extend(self, seconds: float) -> None:
        """Ensure that at least this many seconds are left."""
        self._end = max(self._end, time.monotonic() + seconds)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `budget` is in seconds, for all scenarios and for judging, which gets at least five."""

    suite: Suite
    start: Start
    options: Options
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    chosen: Mapping[str, Requirement] | None = None
    jobs: int = 4
    budget: float = 300.0


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. `obstacle` is why the program was not judged; empty if it was."""

    suite: Suite
    results: list[Result]
    transcripts: list[Transcript]
    obstacle: str
    seconds: float
    saved: bool = False
    """Whether the transcripts are already files."""

    @property
    def violations(self) -> list[Result]:
        return [result for result in self.results if result.is_violation]

    @property
    def code(self) -> int:
        """The exit code: 0 conformant, 1 not conformant, 3 not judged."""
        return 3 if self.obstacle else 1 if self.violations else 0


def run(plan: Plan, on_scenario: Callable[[Transcript], None] = lambda _: None) -> Run:
    """Run and judge. `on_scenario` is called as each scenario ends. KeyboardInterrupt first ends every program."""
    began = time.monotonic()
    budget = Budget(plan.budget)
    suite = plan.suite
    opening = run_scenario(suite.opening, plan.start, plan.options, plan.facts, budget=budget)
    on_scenario(opening)
    traffic = Traffic(opening)
    obstacle = escape_surrogates(suite.obstacle(traffic))
    if obstacle:
        obstacle = ": ".join([obstacle, *(entry.value for entry in traffic.marks("flooded"))])
        return Run(suite, [], [opening], obstacle, time.monotonic() - began)
    facts = {**plan.facts, "calibration": suite.calibration(traffic)}
    opening.facts.update(facts)
    transcripts = [opening, *_run_all(plan, facts, budget, on_scenario)]
    budget.extend(_JUDGING_SECONDS)
    results = suite.judge(transcripts, plan.chosen, budget.used_up)
    return Run(suite, results, transcripts, "", time.monotonic() - began)


def _run_all(
    plan: Plan, facts: Mapping[str, Any], budget: Budget, on_scenario: Callable[[Transcript], None]
) -> Iterable[Transcript]:
    wanted = needed_scenarios(plan.suite, plan.chosen)
    scenarios = [scenario for scenario in plan.suite.scenarios if scenario.name in wanted]
    live = RunningPeers()

    done: dict[str, Transcript] = {}
    sizes: list[int] = []
    lines: list[int] = []

    def used_up() -> str:
        if reason := budget.used_up():
            return reason
        if sum(sizes) > MOST_BYTES or sum(lines) > MOST_LINES:
            return f"the transcripts of all scenarios reached {MOST_BYTES >> 20} MiB or {MOST_LINES:,} lines"
        return ""

    def one(scenario: Scenario) -> Transcript:
        if reason := used_up():
            skipped = Transcript(scenario.name, dict(facts))
            skipped.mark(0, "stopped", reason)
            return skipped
        transcript = run_scenario(scenario, plan.start, plan.options, facts, live, budget)
        sizes.append(transcript.size)
        # Log lines are not judged, and a program may write thousands at each start.
        judged = (entry.data for entry in transcript.entries if entry.kind in ("client", "server"))
        lines.append(sum(data.count(b"\n") for data in judged))
        return transcript

    for jobs, alone in ((plan.jobs, False), (1, True)):
        with ThreadPoolExecutor(max(1, jobs), "scenario") as pool:
            pending: set[Future[Transcript]] = {pool.submit(one, s) for s in scenarios if s.alone is alone}
            try:
                while pending:
                    finished, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in finished:
                        transcript = future.result()
                        done[transcript.scenario] = transcript
                        on_scenario(transcript)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                live.kill()
                raise
    return [done[scenario.name] for scenario in scenarios]


def needed_scenarios(suite: Suite, chosen: Mapping[str, Requirement] | None) -> set[str]:
    """Return the scenarios that the chosen requirements need; all if one of them has no scenario, or for None."""
    rows = suite.requirements if chosen is None else tuple(chosen.values())
    named = {row.scenario for row in rows}
    return {s.name for s in suite.every_scenario()} if None in named else {name for name in named if name}


def run_scenario(
    scenario: Scenario,
    start: Start,
    options: Options,
    facts: Mapping[str, Any],
    live: RunningPeers | None = None,
    budget: Budget | None = None,
) -> Transcript:
    """Run a scenario, again while its race does not happen. Return the last transcript."""
    live, budget = live or RunningPeers(), budget or Budget(math.inf)
    transcript = Transcript(scenario.name, dict(facts))
    for _ in range(scenario.tries):
        transcript = Transcript(scenario.name, dict(facts))
        _run_once(scenario, start, options, transcript, live, budget)
        if budget.used_up() or not any(entry.label == "race-missed" for entry in transcript.entries):
            break
    return transcript


def _run_once(
    scenario: Scenario, start: Start, options: Options, transcript: Transcript, live: RunningPeers, budget: Budget
) -> None:
    late = ""
    if budget.left() < options.scenario_timeout:
        options, late = replace(options, scenario_timeout=max(budget.left(), 0.0)), budget.reason
    try:
        peer = start()
    except PeerStartError as error:
        transcript.mark(0, "stopped", str(error))
        transcript.mark(0, "not-started", str(error))
        return
    peers = [peer]

    def again() -> Peer:
        peers.append(start())
        live.add(peers[-1])
        return peers[-1]

    driver = Driver(peer, transcript, options, transcript.facts, again, late)
    try:
        live.add(peer)
        scenario.run(driver)
    except StoppedError as error:
        driver.mark("stopped", str(error))
    except OSError as error:  # such as a full disk under the files that a scenario writes
        driver.mark("stopped", f"the suite itself failed: {error.strerror or error}")
    finally:
        driver.finish()
        for one in peers:
            live.discard(one)
