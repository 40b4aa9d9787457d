"""A program in memory, without processes, threads or real time. Used by the tests.

The program receives bytes and acts through its `World`. Its timers and waiting scenarios advance a virtual clock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Protocol

from conformance.peers.peer import FIRST_END_STEP, Ending, EndStep, PeerGoneError, Received, Side, Stream

_PATIENCE: Final = 2.0
"""Seconds to exit after the input has ended."""


class World(Protocol):
    """What a program can do."""

    left: int
    """How many processes it would leave behind."""

    def write(self, data: bytes) -> None: ...

    def log(self, data: bytes) -> None: ...

    def later(self, seconds: float, act: Callable[[], None]) -> None: ...

    def exit(self, code: int) -> None: ...


class Program(Protocol):
    """A program whose input is passed to it. It may exit when its input ends."""

    def receive(self, data: bytes) -> None: ...

    def input_ended(self) -> None: ...

    def interrupted(self) -> None: ...


@dataclass(slots=True)
class _World:
    """The state behind a program's World."""

    side: Side
    log_stream: Stream
    now: float = 0.0
    code: int | None = None
    written: deque[Received] = field(default_factory=deque[Received])
    left: int = 0
    timers: list[tuple[float, int, Callable[[], None]]] = field(
        default_factory=list[tuple[float, int, Callable[[], None]]]
    )
    order: count[int] = field(default_factory=count)

    def write(self, data: bytes) -> None:
        if self.code is None and data:
            self.written.append(Received(self.side, data))

    def log(self, data: bytes) -> None:
        if self.code is None and data:
            self.written.append(Received(self.log_stream, data))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.timers, (self.now + seconds, next(self.order), act))

    def exit(self, code: int) -> None:
        if self.code is None:
            self.code = code
            self.timers.clear()
            self.written.append(Received(self.side, b""))

    def step(self, until: float) -> bool:
        """Run the next timer that is due by then; False if there is none."""
        if not self.timers or self.timers[0][0] > until:
            return False
        moment, _, act = heapq.heappop(self.timers)
        self.now = max(self.now, moment)
        act()
        return True


class MemoryPeer:
    """Runs a program. `make` creates it in the given World."""

    def __init__(self, make: Callable[[World], Program], side: Side = "server") -> None:
        self.side: Side = side
        self._world = _World(side, "server-log" if side == "server" else "client-log")
        self._program = make(self._world)
        self._input_open = True
        self._ending: Ending | None = None

    def now(self) -> float:
        return self._world.now

    def write(self, data: bytes, until: float) -> None:
        del until
        if self._world.code is not None or not self._input_open:
            raise PeerGoneError
        self._program.receive(data)

    def close_input(self) -> None:
        if self._input_open and self._world.code is None:
            self._input_open = False
            self._program.input_ended()

    def read(self, until: float) -> Received | None:
        world = self._world
        while not world.written and world.step(until):
            pass
        if world.written:
            return world.written.popleft()
        if world.code is None:
            world.now = max(world.now, until)
        return None

    def has_closed(self) -> bool:
        return self._world.code is not None and not self._world.written

    def interrupt(self) -> None:
        if self._world.code is None:
            self._program.interrupted()

    def end(self) -> Ending:
        if self._ending is None:
            step: EndStep = "by itself" if self._world.code is not None else FIRST_END_STEP[self.side]
            self.close_input()
            patience = self._world.now + _PATIENCE
            while self._world.code is None and self._world.step(patience):
                pass
            code = self._world.code
            self._ending = Ending("SIGTERM", -15) if code is None else Ending(step, code, self._world.left)
        return self._ending

    def kill(self) -> None:
        self._world.exit(-9)
