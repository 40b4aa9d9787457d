"""Rebuilds a namespace: goes through a history again in a fresh worker, without what ends the worker or breaks it.

Owns the search for culprits. An attempt goes through all steps; the statement at which its worker dies is left out, and
the next attempt begins anew, because nothing is left of a worker. But a worker may be ended from outside, by a user or
for want of memory, and the statement has no part in that: only one at which two workers die in succession is left out.

A statement may also leave a worker in which nothing runs any more (it replaced what Python itself needs), and then it
is the next one that seems to fail. So the end of each attempt is a check that a trivial statement still runs; and from
the first failure on that is checked after each statement. A statement that was left out before there were checks, and
follows one that fails its check, is taken in again: it may be innocent. Loading what was kept of a statement runs code
of the statements' own, too; where that ends the worker, it is not loaded again. After SEARCH_SECONDS whatever seems a
culprit is taken for one and all that follows it is left out, so the search ends. Where an attempt could not tell two
statements apart, because one had begun when the other was to be stopped, all further ones ask for each by itself.

Must not know what a step is, nor the log. Called by `connected_environment`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from ..core.errors import EnvironmentUnavailableError, StatementLostError
from ..core.text import more
from ..log.past import Comparison, Contents, PastExecution, Restored, RestorePlan
from .attempt import Attempt
from .connection import Connection
from .environment import Limits
from .left_out import Culprit, LeftOut

SEARCH_SECONDS: Final = 60.0
"""After the first worker was lost, so long each culprit is looked for by itself."""
KEPT_SENTENCES: Final = 200
"""In one report; the others are counted."""
_LATE: Final = "came after it, when the time for finding out was over, and was left out"


class Rebuild:
    """One rebuild.

    Args:
        start: gives a fresh worker in place of the last; raises EnvironmentUnavailableError where it cannot.
        limits: of the statements.
        contents: what the plan names by its digest.
        compare: says what came out differently.
        begins: is told of each execution that runs again, when it begins.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Connection]],
        limits: Limits,
        contents: Contents,
        compare: Comparison,
        begins: Callable[[PastExecution], None],
    ) -> None:
        self._start = start
        self._limits = limits
        self._contents = contents
        self._compare = compare
        self._begins = begins
        self._left_out = LeftOut()
        self._suspect: Culprit | None = None
        self._unproven: int | None = None
        self._deadline: float | None = None

    async def run(self, plan: RestorePlan) -> Restored:
        """Leaves the last worker with all of the plan that can be had again.

        Raises:
            EnvironmentUnavailableError: no worker can be started, or not even an empty one works.
            StatementLostError: the culprit is one that the plan will not have left out.
        """
        while True:
            worker = await self._start()
            attempt = Attempt(worker, plan, self._limits, self._contents, self._compare, self._left_out, self._begins)
            found = await attempt.run()
            if not isinstance(found, Culprit):
                return Restored(
                    executions=attempt.executions,
                    divergences=_bounded(found),
                    anew=attempt.anew,
                    absent=attempt.absent,
                )
            if found.is_unclear:
                self._left_out.alone = True
                continue
            _check_may_be_left_out(found, plan)
            self._deadline = self._deadline or anyio.current_time() + SEARCH_SECONDS
            is_late = anyio.current_time() >= self._deadline
            if found.position is None or found == self._suspect or is_late:
                self._leave_out(found, len(plan.steps) if is_late else 0)
                found = None
            self._suspect = found

    def _leave_out(self, culprit: Culprit, end: int) -> None:
        """Leaves the culprit out, and all from it to `end`."""
        position, left_out = culprit.position, self._left_out
        if position is None:
            left_out.checks = True
            return
        if position < 0:
            raise EnvironmentUnavailableError("not even an empty namespace works")
        if culprit.is_loading:
            left_out.values.add(position)
            return
        if self._unproven is not None and left_out.checks and position < self._unproven:
            del left_out.statements[self._unproven]
        self._unproven = None if left_out.checks else position
        left_out.checks = True
        left_out.statements[position] = f"{culprit.fault} and was left out"
        for later in range(position + 1, end):
            left_out.statements.setdefault(later, _LATE)


def _check_may_be_left_out(culprit: Culprit, plan: RestorePlan) -> None:
    position = culprit.position
    if position is None or plan.whole_from is None or position < plan.whole_from:
        return
    step = plan.steps[position]
    assert isinstance(step, PastExecution)
    raise StatementLostError(step.request.label, culprit.fault)


def _bounded(sentences: list[str]) -> tuple[str, ...]:
    left = len(sentences) - KEPT_SENTENCES
    return (*sentences[:KEPT_SENTENCES], more(left, "sentence")) if left > 0 else tuple(sentences)
