"""Runs the scenarios of a suite against a program, each with a peer of its own, and ends all of them whatever happens.

The opening comes first and decides whether the program can be judged. Then the others, `jobs` at once; those that
measure moments one after the other at the end. One thread for each scenario under way.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance.driver import Driver, StoppedError
from conformance.options import Options
from conformance.peers.peer import Peer, PeerStartError
from conformance.requirement import Requirement
from conformance.suite import Result, Scenario, Suite
from conformance.traffic import Traffic
from conformance.transcript import Transcript
from conformance.values import encodable

Start = Callable[[], Peer]
MOST_BYTES: Final = 128 * 1024 * 1024
MOST_LINES: Final = 200_000
"""Of all transcripts together, after which no scenario is begun: a program that floods each costs minutes to judge.
Lines are those of messages."""
_JUDGING: Final = 5.0
"""Seconds that judges are given where the scenarios have used up the budget; a run as they are takes less than one."""


class Live:
    """The programs under way, so that an interrupted run can end them: what waits for one then sees it closed."""

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
    """The time of a run, which began when this was made."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.reason = f"the budget of {seconds:g} s for all scenarios was used up"

    def left(self) -> float:
        """Seconds; negative where more were used."""
        return self._end - time.monotonic()

    def used_up(self) -> str:
        """The reason, where nothing is left; else empty."""
        return "" if self.left() > 0 else self.reason

    def extend(self, seconds: float) -> None:
        """Lets so many seconds be left from now on, where there are fewer."""
        self._end = max(self._end, time.monotonic() + seconds)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `budget` is in seconds, for all scenarios together and for judging them, which has five at least."""

    suite: Suite
    start: Start
    options: Options
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    chosen: Mapping[str, Requirement] | None = None
    jobs: int = 4
    budget: float = 300.0


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it. `obstacle` says why the program was not judged; empty where it was."""

    suite: Suite
    results: list[Result]
    transcripts: list[Transcript]
    obstacle: str
    seconds: float
    saved: bool = False
    """Whether the transcripts are files already."""

    @property
    def violations(self) -> list[Result]:
        return [result for result in self.results if result.is_violation]

    @property
    def code(self) -> int:
        """The exit code: 0 conformant, 1 not, 3 not judged."""
        return 3 if self.obstacle else 1 if self.violations else 0


def run(plan: Plan, on_scenario: Callable[[Transcript], None] = lambda _: None) -> Run:
    """Runs and judges. `on_scenario` is told of each scenario that ends. KeyboardInterrupt ends every program first."""
    began = time.monotonic()
    budget = Budget(plan.budget)
    suite = plan.suite
    opening = run_scenario(suite.opening, plan.start, plan.options, plan.facts, budget=budget)
    on_scenario(opening)
    traffic = Traffic(opening)
    obstacle = encodable(suite.obstacle(traffic))
    if obstacle:
        obstacle = ": ".join([obstacle, *(entry.value for entry in traffic.marks("flooded"))])
        return Run(suite, [], [opening], obstacle, time.monotonic() - began)
    facts = {**plan.facts, "calibration": suite.calibration(traffic)}
    opening.facts.update(facts)
    transcripts = [opening, *_run_all(plan, facts, budget, on_scenario)]
    budget.extend(_JUDGING)
    results = suite.judge(transcripts, plan.chosen, budget.used_up)
    return Run(suite, results, transcripts, "", time.monotonic() - began)


def _run_all(
    plan: Plan, facts: Mapping[str, Any], budget: Budget, on_scenario: Callable[[Transcript], None]
) -> Iterable[Transcript]:
    wanted = needed(plan.suite, plan.chosen)
    scenarios = [scenario for scenario in plan.suite.scenarios if scenario.name in wanted]
    live = Live()

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
        # Those of a log are not judged one by one, and a program may write thousands whenever it is started.
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


def needed(suite: Suite, chosen: Mapping[str, Requirement] | None) -> set[str]:
    """The scenarios that the chosen requirements need; all where a passive one is among them, or none was chosen."""
    rows = suite.requirements if chosen is None else tuple(chosen.values())
    named = {row.scenario for row in rows}
    return {s.name for s in suite.every_scenario()} if None in named else {name for name in named if name}


def run_scenario(
    scenario: Scenario,
    start: Start,
    options: Options,
    facts: Mapping[str, Any],
    live: Live | None = None,
    budget: Budget | None = None,
) -> Transcript:
    """Runs one scenario, again while its race did not happen; returns the transcript of the last try."""
    live, budget = live or Live(), budget or Budget(math.inf)
    transcript = Transcript(scenario.name, dict(facts))
    for _ in range(scenario.tries):
        transcript = Transcript(scenario.name, dict(facts))
        _run_once(scenario, start, options, transcript, live, budget)
        if budget.used_up() or not any(entry.label == "race-missed" for entry in transcript.entries):
            break
    return transcript


def _run_once(
    scenario: Scenario, start: Start, options: Options, transcript: Transcript, live: Live, budget: Budget
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
    except OSError as error:  # such as a full disk under the files that it puts there
        driver.mark("stopped", f"the suite itself could not go on: {error.strerror or error}")
    finally:
        driver.finish()
        for one in peers:
            live.discard(one)
