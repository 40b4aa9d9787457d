"""Plays random sessions, kills what serves them at random instants, and loads them to have them compared.

Several sessions share an agent, so that one `kill -9` hits each of them at another instant.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.agents import SECONDS, Agent
from tests.support.past import Unchecked, events_in
from tests.support.past_compare import compare
from tests.support.past_statements import FILES, Chance, Step
from tests.support.scripts import assert_gone, family, kill_each, load
from tests.support.transcripts import Message

TOGETHER = 20
"""Sessions of one agent."""
STEPS = 8
LONGEST_WAIT = 0.03
"""Seconds after a message from the agent, at most, in which a kill comes."""


@dataclass
class Played:
    """One session, of which every decision comes from a seed."""

    seed: int
    project: Path
    chance: Chance
    session: str = ""
    steps: Iterator[Step] = field(default_factory=lambda: iter(()))
    prompt: int | None = None
    cancel_at: float | None = None
    ordinary: dict[str, bool] = field(default_factory=dict[str, bool])
    _drawn: list[Step] = field(default_factory=list[Step])

    def prepare(self, steps: int, late: bool) -> None:
        for file in FILES:
            path = self.project / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"one\n{file}\nthree\n")
        self.steps = iter(self.chance.beginning())
        self._drawn = [self.chance.step(late=late) for _ in range(self.chance.random.randint(1, steps))]

    def continue_drawn(self) -> None:
        """From here on, what chance wants."""
        self.steps = iter(self._drawn)

    def begin(self, agent: Agent, source: str, ordinary: bool = False) -> None:
        self.ordinary[source] = self.ordinary.get(source, True) and ordinary
        self.prompt = agent.begin_prompt(self.session, source)

    def go_on(self, agent: Agent) -> None:
        """Begins the next step that takes time; `prompt` is None where there is none."""
        self.prompt = self.cancel_at = None
        for step in self.steps:
            if step.kind == "outside":
                (self.project / step.source).write_text(step.text)
                continue
            self.begin(agent, step.source, step.kind == "ordinary")
            if step.kind == "stopped":
                self.cancel_at = step.after
            return

    def hear(self, agent: Agent, message: Message) -> None:
        update = message.get("params", {}).get("update", {})
        if self.cancel_at is not None and update.get("status") == "in_progress":
            time.sleep(self.cancel_at)  # because a statement that runs tells nobody how far it is
            self.cancel_at = None
            agent.notify("session/cancel", {"sessionId": self.session})

    def worker(self, agent: Agent) -> psutil.Process | None:
        """Its process, None where there is none."""
        for process in family(psutil.Process(agent.process.pid)):
            with contextlib.suppress(psutil.Error, OSError):
                is_worker = process.ppid() != agent.process.pid and process.name() != "sleep"
                if is_worker and os.readlink(f"/proc/{process.pid}/cwd") == str(self.project):
                    return process
        return None


def play(agent: Agent, played: list[Played], chance: random.Random, how: str) -> None:
    """Goes on with all of them until they have ended, or `how` it is decided that something is killed before."""
    by_session = {each.session: each for each in played}
    for each in played:
        each.go_on(agent)
    heard, kills = 0, sorted(chance.randrange(5, 35 * len(played)) for _ in range(3))
    while waiting := {each.prompt: each for each in played if each.prompt is not None}:
        message = agent.next(SECONDS * 2)
        assert message is not None, agent.stderr
        heard += 1
        if message.get("id") in waiting and "method" not in message:
            waiting[message["id"]].go_on(agent)
        elif (session := message.get("params", {}).get("sessionId")) in by_session:
            by_session[session].hear(agent, message)
        if how != "nothing" and kills and heard > kills[0]:
            kills.pop(0)
            if kill(agent, played, chance, how, last=not kills):
                return


def kill(agent: Agent, played: list[Played], chance: random.Random, how: str, *, last: bool) -> bool:
    """Kills some workers, or the agent; returns whether the agent is gone."""
    time.sleep(chance.uniform(0, LONGEST_WAIT))  # an instant that no message marks
    if how in ("worker", "both"):
        for each in chance.sample(played, len(played) // 3):
            if (process := each.worker(agent)) is not None:
                kill_each([process])
    if how == "agent" or (how == "both" and last):
        left = family(psutil.Process(agent.process.pid))
        agent.kill()
        assert_gone(left)
        return True
    return False


def many(folder: Path, first: int, count: int, how: str, steps: int = STEPS, late: bool = False) -> dict[str, int]:
    """Plays so many sessions in one agent and loads them in another; how often what could be compared.

    With `late` some statements do not end before their time limit, which is short then.
    """
    played = [Played(seed, folder / f"p{seed}", Chance(seed)) for seed in range(first, first + count)]
    for each in played:
        each.project.mkdir()
        each.prepare(steps, late)
    state = folder / "state"
    lived(state, played, random.Random(f"{how} {first}"), how, {"REWINDOW_STATEMENT_SECONDS": "5"} if late else None)
    before = {each.seed: events_in(state, each.session) for each in played}
    found: Counter[str] = Counter()
    failures: list[str] = []
    with Agent(state, coverage=Unchecked()) as again:
        look(again, played)
        for each in played:
            after = events_in(state, each.session)
            wrong, outcome = compare(before[each.seed], after, each.ordinary)
            found[outcome] += 1
            failures += [f"seed {each.seed}: {line}" for line in wrong]
        assert b"Traceback" not in again.stderr
    assert not failures, "\n".join(failures)
    return found


def lived(state: Path, played: list[Played], chance: random.Random, how: str, env: dict[str, str] | None) -> None:
    """The life of an agent with these sessions, however it ends."""
    with contextlib.ExitStack() as closing:
        agent = Agent(state, coverage=Unchecked(), env=env)
        closing.callback(lambda: agent.process.poll() is None and agent.kill())
        agent.initialize()
        for each in played:
            each.session = agent.new_session(each.project)
        play(agent, played, chance, "nothing")
        for each in played:
            each.continue_drawn()
        play(agent, played, chance, how)
        if agent.process.poll() is None:
            agent.close()


def look(agent: Agent, played: list[Played]) -> None:
    """Loads the sessions and has each show what it holds."""
    agent.initialize()
    for each in played:
        load(agent, each.session, each.project)
        each.begin(agent, "print(__probe())", ordinary=True)
    for each in played:
        agent.seen(lambda message, each=each: "method" not in message and message.get("id") == each.prompt)


def compared(folder: Path, first: int, how: str) -> None:
    """Plays TOGETHER sessions, by their seeds from `first` on, and has most of them compared."""
    found = many(folder, first, TOGETHER, how, late=first % 100 == 0)
    assert found["same"] >= TOGETHER * 3 // 4, found
