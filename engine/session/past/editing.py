"""Run another source in place of an earlier statement, then the later statements, on a new branch.

The branch begins before the statement's call. Everything on it is new: calls, results and statements have new ids. So
each path is a conversation of its own, and nothing that was sent changes. What a model wrote between the statements is
not repeated, because it is about other results. No value is taken from the old path; differences from it are recorded
and reported.

Without `live` the statements change nothing outside of the namespace. Requests get their recorded answers, reads
without one read the present files, and everything else is refused as in mode `plan`. A file that they open to change it
has its earlier content.

A cancel goes back to the branch that was left. Must not know requests or transports. Called by `session_runtime`, one
at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import anyio

from ...context.tail.results import STATEMENT_TOOL
from ...core.errors import EnvironmentUnavailableError, InvalidRequestError
from ...core.ids import BranchId, ToolCallId
from ...core.python_source import tags_in
from ...log.branches import end_before
from ...log.events import Event
from ...log.events.conversation import ToolCall, ToolResult
from ...log.events.execution import ExecutionFinished
from ...log.events.going_back import Diverged, EditBegun, ReplayOutcome
from ...log.file_history import ActOnFile, acts_of
from ...log.past import PastExecution
from ...log.store_protocol import Store
from ...log.timeline import Cell, Execution, Timeline
from ..cancellation import Cancellation, WorkCancelledError
from ..requests import ActiveRequest, EditRequest, ReplayReport, report_of
from ..statements import Replacement
from ..tool_records import RecordedAnswers
from .replaying import Consent, RerunContext, RunComparison, fault_of, not_run, numbers_of, runs_anew
from .rewinding import Head

_NOT_ALLOWED: Final = "statement {} was not allowed to run again"


class Editing:
    """The edits of one session."""

    def __init__(self, runs: RerunContext, *, timeline: Timeline, store: Store, head: Head) -> None:
        self._runs = runs
        self._timeline = timeline
        self._store = store
        self._head = head

    async def edit(self, request: EditRequest, active: ActiveRequest) -> ReplayReport:
        """Make the branch and run the statements there.

        Raises:
            InvalidRequestError: there is no such statement, or the source cannot run; nothing has changed.
        """
        first, last = numbers_of(request.number, request.last, self._timeline.cells)
        cells = self._meant(request, first, last)
        left = self._runs.log.branches.active
        numbers = [cell.statement.index for cell in cells]
        reasons = not_run(self._timeline.cells[first - 1 : last], numbers, anew=True, branch=left)
        place = end_before(self._runs.log.path, first)
        assert place is not None  # the timeline follows the path
        past = {step.request.index: step for step in self._runs.environment.again(first, last)}
        calls = {event.tool_call_id: event for event in self._runs.log.path if isinstance(event, ToolCall)}
        steps = [_Step(cell, past.get(cell.statement.index), calls.get(cell.statement.tool_call_id)) for cell in cells]
        run = _Edit(steps, request, self._runs, self._timeline, self._store)
        begun = EditBegun(first=first, last=last, statements=len(steps))
        branch = await self._head.branch_at(place, active, begun)
        ending = await self._carry_out(run, left, active)
        reached = None if ending[0] == "cancelled" else branch
        return report_of(request, (first, last), run, ending, reasons, reached)

    async def _carry_out(self, run: _Edit, left: BranchId, active: ActiveRequest) -> tuple[ReplayOutcome, str]:
        try:
            fault = await run.run_all(active.cancellation)
        except WorkCancelledError:
            with anyio.CancelScope(shield=True):
                await self._head.back_to(left, active)
            return "cancelled", ""
        except EnvironmentUnavailableError as error:
            return "failed", str(error)
        return ("failed", fault) if fault else ("completed", "")

    def _meant(self, request: EditRequest, first: int, last: int) -> Sequence[Cell]:
        """Return the statements to run; the first has another source.

        Raises InvalidRequestError.
        """
        if not request.source.strip():
            raise InvalidRequestError(
                f"The statement to run in place of {first} is missing: write it on the lines after "
                f"`/edit {first}`, or in the file of `--edit`."
            )
        try:
            compile(request.source, f"<statement {first}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise InvalidRequestError(f"The new statement is not Python: {error}. Nothing has changed.") from None
        edited, *behind = self._timeline.cells[first - 1 : last]
        behind = [cell for cell in behind if runs_anew(cell)]
        lost = next((cell.statement.index for cell in behind if cell.statement.withheld), None)
        if lost is not None:
            raise InvalidRequestError(
                f"Statement {lost} had a secret in its source, which is not stored, so it cannot run "
                f"again. Choose {lost - 1} as the last statement."
            )
        return [edited, *behind]


class _Step(NamedTuple):
    """A statement of the old path, its recorded inputs for a rebuild, and the call that it came from."""

    cell: Cell
    past: PastExecution | None
    call: ToolCall | None


class _Edit:
    """The run of one edit on its branch. Made before that, because the old path says who wrote the statements.

    `executions` are the records of what has run.
    """

    def __init__(
        self, steps: Sequence[_Step], request: EditRequest, runs: RerunContext, timeline: Timeline, store: Store
    ) -> None:
        self.executions: list[ExecutionFinished] = []
        self._comparison = RunComparison(runs.log, acts=request.mode == "live")
        self._steps = steps
        self._request = request
        self._runs = runs
        self._timeline = timeline
        self._store = store
        self._consent = Consent(runs, [step.cell for step in steps[1:]])

    @property
    def divergences(self) -> Sequence[Diverged]:
        """The differences so far."""
        return self._comparison.divergences

    async def run_all(self, cancellation: Cancellation) -> str:
        """Run the statements; return why they ended early, or "". Raises WorkCancelledError."""
        source = self._request.source
        for number, step in enumerate(self._steps):
            fault = await self._run(step, source if number == 0 else step.cell.statement.source, cancellation)
            if fault:
                return fault
        return ""

    async def _run(self, step: _Step, source: str, cancellation: Cancellation) -> str:
        before, number = step.cell.current, self._timeline.next_index
        round_id = self._runs.ticker.open_round("replay")
        await self._runs.ticker.tick(round_id, cancellation)
        call = self._called(step, source)
        acts = False
        if self._request.mode == "live" and call is not None:
            acts = True
            self._runs.statements.announce(source, call)
        shown = call or self._runs.minter.tool_call()
        verdict, approved = await self._consent.ask(step.cell, shown, cancellation, acts=acts)
        if verdict.outcome == "cancelled":
            raise WorkCancelledError
        if verdict.outcome == "rejected":
            if call is not None:
                self._runs.log.append(ToolResult(tool_call_id=call, status="rejected", text=verdict.reason))
            return _NOT_ALLOWED.format(number)
        finished = await self._runs.statements.run(
            source,
            round_id,
            call,
            cancellation,
            kind=step.cell.statement.statement_kind,
            approved=approved,
            replaced=self._replacement(step, before, number),
            tags=_given_tags(step.cell),
        )
        self.executions.append(finished)
        self._runs.ticker.notify_change()
        return fault_of(finished, number)

    def _called(self, step: _Step, source: str) -> ToolCallId | None:
        """Append a call like the statement's; None if no call made it."""
        if step.call is None:
            return None
        call = self._runs.minter.tool_call()
        self._runs.log.append(
            ToolCall(
                tool_call_id=call,
                tool=STATEMENT_TOOL,
                arguments={"source": source},
                llm_response_id=self._runs.minter.llm_response(),
                typed=step.call.typed or step is self._steps[0],
            )
        )
        return call

    def _replacement(self, step: _Step, before: Execution | None, number: int) -> Replacement:
        answers = None
        if self._request.mode == "recorded":
            # One that never ran, because it was rejected, has no answers, and must not act either.
            acts = () if before is None or before.ended is None else self._acts(before)
            answers = RecordedAnswers(() if step.past is None else step.past.answers, self._store, acts)
        if before is None:
            return Replacement(None, answers, _nothing_to_compare)
        compare = partial(self._comparison.compare, number, before, len(self._runs.log))
        return Replacement(before.started.execution_id, answers, compare)

    def _acts(self, before: Execution) -> Sequence[ActOnFile]:
        assert before.ended is not None
        return acts_of(self._runs.log.at, before.started, before.ended)


def _nothing_to_compare(_: ExecutionFinished) -> Iterable[Event]:
    return ()


def _given_tags(cell: Cell) -> Sequence[str]:
    """The tags that the caller gave a statement, which its replacement keeps: all that its source does not set."""
    in_source = tags_in(cell.statement.source)
    return [tag for tag in cell.statement.tag_names if tag not in in_source]
