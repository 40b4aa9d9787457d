"""Plays known killers, then random steps, until something is found or the time is up, and makes that short.

The runs of a seed have the same steps each time. A finding is shortened by leaving out what it does not need: first all
but the last messages, then ever smaller parts, as long as the program still fails in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from conformance.fuzzing.play import Played, play
from conformance.fuzzing.targets import Step, Target
from conformance.options import Options
from conformance.peers.peer import Peer

STEPS: Final = 120
"""Random messages for each start of the program."""
_SHORTENING: Final = 60.0
"""Seconds for making a finding short."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a campaign came to. `found` is as short as it was made; `is_mute` where the program never said a thing."""

    found: Played | None
    messages: int
    starts: int
    seconds: float
    is_mute: bool = False


@dataclass(frozen=True, slots=True)
class Campaign:
    """A program, what it is sent, and for how long. `options.timeout` is in seconds for each answer."""

    targets: tuple[Target, ...]
    start: Callable[[], Peer]
    options: Options
    seed: int
    seconds: float

    def run(self, on_progress: Callable[[int, int], None] = lambda _messages, _starts: None) -> Outcome:
        """Plays and shortens. Raises PeerStartError where the program cannot be started."""
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
        """Once for each target what programs are known to die of, and from then on random messages."""
        if starts < len(self.targets):
            return (*target.opening, *target.killers)
        return target.steps(Random(f"{self.seed}:{starts}"), STEPS)  # noqa: S311 -- repeatable

    def _shortened(self, found: Played, target: Target) -> Played:
        until = time.monotonic() + _SHORTENING
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

        _last_alone(target.opening, found.steps, still)
        _one_by_one(lambda: best.steps, still)
        return best


def _last_alone(opening: tuple[Step, ...], steps: tuple[Step, ...], still: Callable[[Sequence[Step]], bool]) -> None:
    """The opening with the last messages, as few as will do."""
    count = 1
    while count < len(steps) - len(opening):
        if still((*opening, *steps[-count:])):
            return
        count *= 2


def _one_by_one(current: Callable[[], tuple[Step, ...]], still: Callable[[Sequence[Step]], bool]) -> None:
    """Leaves out parts of half the length, a quarter and so on down to one message, as long as any can be."""
    size = max(1, len(current()) // 2)
    while True:
        position, shorter = 0, False
        while position < len(current()):
            steps = current()
            rest = (*steps[:position], *steps[position + size :])
            if rest and still(_waiting(rest)):
                shorter = True
            else:
                position += size
        if size == 1 and not shorter:
            return
        size = max(1, size // 2)


def _waiting(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, the last of which waits."""
    return (*steps[:-1], replace(steps[-1], waits=True))
