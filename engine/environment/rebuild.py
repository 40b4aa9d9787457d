"""Rebuilds a namespace: runs a history again in a fresh worker, without what ends the worker or breaks it.

Owns the search for culprits. An attempt runs what remains of the history; the statement at which its worker dies is
left out, and the next attempt begins anew, because nothing is left of a worker. A statement may also leave a worker in
which nothing runs any more (it replaced what Python itself needs), and then it is the next one that seems to fail. So
the end of each attempt is a check that a trivial statement still runs; and from the first failure on that is checked
after each statement. A statement that was left out before there were checks, and follows one that fails its check, is
taken in again: it may be innocent. Each attempt but one has fewer statements than the one before, so the search ends;
after SEARCH_SECONDS it leaves out all that follows a culprit, to end sooner.

Must not know what runs at the other end, nor the log. Called by `connected_environment`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import anyio
from msgspec import Struct

from ..cutting import cut_line, more
from ..errors import EnvironmentUnavailableError
from ..ids import ExecutionId
from ..ports import Comparison, EffectAnswer, EffectRequest, Limits, PastExecution, Restored, RunOutcome, RunRequest
from ..worker.guard import replaying
from ..worker.protocol import Settle, Settled
from .connection import Connection
from .statement_run import StatementRun

SEARCH_SECONDS: Final = 60.0
"""After the first worker was lost, so long each culprit is looked for by itself."""
KEPT_SENTENCES: Final = 200
"""In one report; the others are counted."""
_SENTENCE_CHARS: Final = 500
_SETTLE_SECONDS: Final = 30.0
_CHECK: Final = RunRequest(execution_id=ExecutionId("check"), label="<check>", source="0\nNone", time_limit=10.0)
"""What runs in every worker that works, and touches no name."""
_AGAIN: Final = ("ok", "error")
"""Recorded statuses of executions that a rebuild runs again; the others left no namespace behind."""

_Fault = Literal["ended the worker", "left Python unusable in its process"]


class _Culprit(Struct, frozen=True):
    """What ended an attempt: the statement at `position`, None where nobody knows which."""

    position: int | None
    fault: _Fault = "left Python unusable in its process"


class Rebuild:
    """One rebuild.

    Args:
        start: gives a fresh worker in place of the last; raises EnvironmentUnavailableError where it cannot.
        limits: of the statements.
        compare: says what came out differently.
    """

    def __init__(self, start: Callable[[], Awaitable[Connection]], limits: Limits, compare: Comparison) -> None:
        self._start = start
        self._limits = limits
        self._compare = compare
        self._history: list[PastExecution] = []
        self._left_out: list[tuple[PastExecution, str]] = []
        self._unproven: tuple[int, PastExecution] | None = None
        self._checks = False
        self._deadline: float | None = None

    async def run(self, history: Sequence[PastExecution]) -> Restored:
        """Leaves the last worker with all of the history that can be run again.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or not even an empty one works.
        """
        self._history = [past for past in history if past.status in _AGAIN]
        while True:
            found = await self._attempt(await self._start())
            if not isinstance(found, _Culprit):
                said = [f"{past.request.label} {fault} and was left out" for past, fault in self._left_out]
                return Restored(executions=len(self._history), divergences=_bounded([*said, *found]))
            self._leave_out(found)

    async def _attempt(self, worker: Connection) -> list[str] | _Culprit:
        """The sentences on what came out differently, where all of the history ran."""
        sentences: list[str] = []
        for position, past in enumerate(self._history):
            outcome, stops = await self._run(worker, past.request, past.answers)
            if worker.dead:
                return _Culprit(position, "ended the worker")
            phrases = _told(stops, self._compare(past, outcome))
            sentences += [cut_line(f"{past.request.label} {phrase}", _SENTENCE_CHARS) for phrase in phrases]
            if self._checks and not await self._is_sound(worker):
                return _Culprit(position)
        if not self._checks and not await self._is_sound(worker):
            return _Culprit(None)
        settled = await self._settle(worker)
        return settled if isinstance(settled, _Culprit) else [*sentences, *settled]

    async def _run(
        self, worker: Connection, request: RunRequest, answers: tuple[EffectAnswer, ...]
    ) -> tuple[RunOutcome, tuple[str, ...]]:
        statement = StatementRun(worker, request, self._limits, _no_effects, _discard_output, answers)
        return await statement.conduct(), statement.stops

    async def _is_sound(self, worker: Connection) -> bool:
        outcome, _ = await self._run(worker, _CHECK, ())
        return outcome.status == "ok" and not worker.dead

    async def _settle(self, worker: Connection) -> list[str] | _Culprit:
        worker.send(Settle())
        match await worker.receive(anyio.move_on_after(_SETTLE_SECONDS)):
            case Settled(sentences=sentences):
                return [cut_line(sentence, _SENTENCE_CHARS) for sentence in sentences]
            case _:
                # What the last statement started may have ended it meanwhile.
                return _Culprit(len(self._history) - 1 if self._checks else None)

    def _leave_out(self, culprit: _Culprit) -> None:
        now = anyio.current_time()
        self._deadline = self._deadline or now + SEARCH_SECONDS
        position = culprit.position
        if position is None:
            self._checks = True
            return
        if position < 0:
            raise EnvironmentUnavailableError("not even an empty namespace works")
        if self._unproven is not None and self._checks and position < self._unproven[0]:
            self._take_in_again(*self._unproven)
        self._unproven = None
        past = self._history.pop(position)
        if not self._checks:
            self._unproven = (position, past)
        self._checks = True
        self._left_out.append((past, culprit.fault))
        if now >= self._deadline:
            late = "came after it, when the time for finding out was over,"
            self._left_out += [(each, late) for each in self._history[position:]]
            del self._history[position:]

    def _take_in_again(self, position: int, past: PastExecution) -> None:
        self._history.insert(position, past)
        self._left_out = [(each, fault) for each, fault in self._left_out if each is not past]


def _told(stops: Sequence[str], differences: Sequence[str]) -> Sequence[str]:
    """All phrases on a statement; one alone where it ended by what it was kept from, as most that act outside do."""
    for stop in stops:
        reason = f": {replaying(stop)}"
        if differences and reason in differences[0]:
            return ("; ".join((*stops, differences[0].replace(reason, "", 1), *differences[1:])),)
    return (*stops, *differences)


def _bounded(sentences: list[str]) -> tuple[str, ...]:
    left = len(sentences) - KEPT_SENTENCES
    return (*sentences[:KEPT_SENTENCES], more(left, "sentence")) if left > 0 else tuple(sentences)


async def _no_effects(request: EffectRequest) -> EffectAnswer:
    raise EnvironmentUnavailableError(f"{request.operation} is not available in a replay")


def _discard_output(stream: Literal["stdout", "stderr"], text: str) -> None:
    del stream, text
