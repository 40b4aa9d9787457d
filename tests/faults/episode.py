"""One run of the world by a seed: a story with faults, then power losses at points of its recording."""

from __future__ import annotations

import contextlib
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.breaking import next_fault
from tests.faults.filesystem import Mounted
from tests.faults.power import Loss, Recording, lose_power
from tests.faults.story import next_act
from tests.faults.world import Counts, World, opened

_RESTARTS_EVERY = 20
"""On one of so many disks after a power loss the agent is started, which takes seconds; all are judged as they are."""
_RESTARTS_IN_REWINDS_EVERY = 3


Kind = Callable[[Path, random.Random, Mounted | None], World]
"""Makes a world on a file system."""


@dataclass
class Result:
    seed: int
    counts: Counts = field(default_factory=Counts)
    kinds: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    steps: list[str] = field(default_factory=list[str])
    """What happened, for the report of a failure."""
    loss: Loss | None = None


def run(
    folder: Path, seed: int, seconds: float, *, losses: int = 1 << 30, kind: Kind = World
) -> tuple[Result, Recording | None]:
    """Play one episode of about so many seconds: half of the time for the story, the rest for power losses.

    Stops at the first thing that is wrong. Returns the recording, too, if the story was right.
    """
    result, chance = Result(seed), random.Random(seed)
    with opened(folder, chance, kind) as world:
        began = time.monotonic()
        result.counts = world.counts
        story = _Story(world, result)
        story_seconds = seconds / 2 if world.has_power_losses else seconds
        while not result.wrong and time.monotonic() < began + story_seconds:
            story.go_on()
        if not result.wrong:
            result.wrong += world.end()
            result.wrong += world.last_look()
        if result.wrong or not world.has_power_losses:
            return result, None
        recording = Recording.of(world, folder / "operations")
    left = losses
    while not result.wrong and left and time.monotonic() < began + seconds:
        left -= 1
        loss = recording.draw(chance)
        often = _RESTARTS_EVERY if recording.moment(loss).target is None else _RESTARTS_IN_REWINDS_EVERY
        restarts = kind is World and chance.randrange(often) == 0
        wrong = lose_power(recording, folder / "disk", loss, restarts=restarts)
        result.counts.power_losses += 1
        result.counts.restarts_after_power_loss += restarts
        if wrong:
            result.wrong, result.loss = wrong, loss
    return result, recording


class _Story:
    def __init__(self, world: World, result: Result) -> None:
        self._world = world
        self._result = result

    def go_on(self) -> None:
        """A few acts, then a fault."""
        for _ in range(self._world.chance.randint(0, 2)):
            self._step("act", lambda: ("act", self._world.perform(next_act(self._world))))
            if self._result.wrong:
                return
        self._step("fault", lambda: next_fault(self._world))

    def _step(self, name: str, step: Callable[[], tuple[str, list[str]]]) -> None:
        try:
            name, wrong = step()
        except Exception:  # whatever it is, the report needs the steps that led to it
            wrong = [f"alive: {traceback.format_exc()}"]
        text, reason = "", None
        with contextlib.suppress(IndexError):
            prompt = self._world.prompts[-1][1]
            text, reason = prompt.text, prompt.reason
        self._result.kinds[name] += 1
        self._result.steps.append(f"{name}: {text!r} -> {reason}")
        self._result.wrong += wrong
