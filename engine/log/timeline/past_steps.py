"""What the log says of one step of a history, and the step as a plan has it.

Pure; must not know the order of steps, nor which of them belong to a plan. Used by `replay`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from ...core.execution import INTERRUPTED, NOT_RUN, WORKER_DIED
from ...core.ids import ToolCallId
from ...core.toolbox import call_title
from ..events import UNSTAMPED
from ..events.conversation import ToolCall
from ..events.execution import EffectAnswered, EffectRequested, ExecutionFinished, ExecutionStarted, StatementRecorded
from ..events.nodes import AdoptedContent, AsyncPayloadPrepared, NodesTicked, RevisionAdopted, StatementTicked
from ..past_values import PastAnswer, PastExecution, PastPayload, PastQuestion, PastRevision, PastTick
from ..statements_values import RunRequest
from .divergence import bound_names, ending_of
from .past_values import NOT_ALLOWED, KeptValues
from .payloads import payload_of

ExecutionPart = EffectRequested | EffectAnswered | ExecutionFinished | StatementTicked
"""What the log says of an execution, by its id."""
_STALE: Final = "its copy is from before an earlier statement ran again"
_FEWER_RIGHTS: Final = "had fewer rights than statements have now, so it was not run again"
_NOTHING_LEFT: Final = (WORKER_DIED, NOT_RUN, INTERRUPTED)


class ExecutionStep(Struct):
    """A statement with its latest execution. `reads` says how often a model had read before it."""

    statement: StatementRecorded
    started: ExecutionStarted | None = None
    finished: ExecutionFinished | None = None
    calls: dict[ToolCallId, ToolCall] = field(default_factory=dict[ToolCallId, ToolCall])
    questions: dict[int, EffectRequested] = field(default_factory=dict[int, EffectRequested])
    answers: list[EffectAnswered] = field(default_factory=list[EffectAnswered])
    revisions: list[RevisionAdopted | AdoptedContent] = field(default_factory=list[RevisionAdopted | AdoptedContent])
    ticks: list[float] = field(default_factory=list[float])
    is_omitted: bool = False
    without: frozenset[int] = frozenset()
    """The numbers of the earlier statements that were left out when it ran."""
    is_stale: bool = False
    """Its values were kept before an earlier statement ran again, with another outcome."""
    reads: int = 0

    def take(self, event: ExecutionPart) -> None:
        """Adds what the log says of the execution."""
        match event:
            case EffectRequested():
                self.questions[event.ordinal] = event
            case EffectAnswered():
                self.answers.append(event)
            case ExecutionFinished():
                self.finished = event
            case StatementTicked():
                self.ticks.append(event.now)

    @property
    def position(self) -> int:
        """That of the beginning of the execution on the log; -1 where there was none."""
        return UNSTAMPED if self.started is None else self.started.seq

    @property
    def leaves_anything(self) -> bool:
        """Whether it is in a plan."""
        return self.finished is not None and not self.is_omitted and not _left_nothing(self.finished)

    def was_cut_off(self, since: int) -> bool:
        """Whether the whole program ended while it ran, which its log was told behind the position `since`."""
        finished = self.finished
        if finished is None or finished.exception is None or self.is_omitted:
            return False
        return finished.exception.type == INTERRUPTED and finished.seq > since

    def past(
        self, reads: int, time_limit: float, values: KeptValues, *, is_allowed: bool = True
    ) -> PastExecution | None:
        """The step of a plan; None where it left nothing, or was left out.

        `reads` is how often a model had read before the step ahead of it. The statement may take `time_limit` seconds.
        One that is not allowed to does not run again, and no copy of what it left is loaded, which would run it too.
        """
        started, finished = self.started, self.finished
        if started is None or finished is None or not self.leaves_anything:
            return None
        bound = tuple(bound_names(finished.diff))
        return PastExecution(
            request=RunRequest(
                execution_id=finished.execution_id,
                label=self.statement.label,
                source=self.statement.source,
                index=self.statement.index,
                round_id=started.round_id or 0,
                time_limit=time_limit,
                plan=bool(started.plan),
                answered=started.answered,
            ),
            status=finished.status,
            again=is_allowed and finished.status in ("ok", "error") and not self.statement.withheld,
            answers=tuple(self._answer(answer) for answer in sorted(self.answers, key=lambda each: each.ordinal)),
            revisions=None if started.round_id is None else tuple(map(past_revision, self.revisions)),
            bound=bound,
            unbound=finished.diff.deleted,
            kept=() if self.is_stale or not is_allowed else values.groups(finished.execution_id),
            unkept=self._unkept(bound, values.unkept(finished.execution_id), is_allowed),
            hindrance="" if is_allowed else _FEWER_RIGHTS,
            after_reading=self.reads > reads,
            ticks=tuple(self.ticks),
            record=ending_of(finished),
            acted=finished.acted,
        )

    def _unkept(self, bound: Iterable[str], unkept: dict[str, str], is_allowed: bool) -> dict[str, str]:
        if not is_allowed:
            return dict.fromkeys(bound, NOT_ALLOWED)
        return dict.fromkeys(bound, _STALE) if self.is_stale else unkept

    def _answer(self, event: EffectAnswered) -> PastAnswer:
        asked = self.questions.get(event.ordinal)
        question = None
        if asked is not None:
            call = None if asked.tool_call_id is None else self.calls.get(asked.tool_call_id)
            question = PastQuestion(
                ordinal=event.ordinal,
                operation=asked.operation,
                argument_digest=asked.argument_digest,
                title="" if call is None else call_title(call.tool, call.arguments),
            )
        return PastAnswer(
            content=event.result,
            error=event.error,
            withheld=bool(event.withheld),
            question=question,
            path=event.path,
            digest=event.digest,
        )


class TickStep(Struct):
    """A tick. `payloads` are those that came to an end in it; `reads` as in `ExecutionStep`."""

    ticked: NodesTicked
    reads: int
    revisions: list[RevisionAdopted | AdoptedContent] = field(default_factory=list[RevisionAdopted | AdoptedContent])
    payloads: list[AsyncPayloadPrepared] = field(default_factory=list[AsyncPayloadPrepared])

    def past(self, reads: int) -> PastTick:
        """The step of a plan; `reads` as in `ExecutionStep.past`."""
        return PastTick(
            round_id=self.ticked.round_id,
            now=self.ticked.now,
            revisions=tuple(map(past_revision, self.revisions)),
            payloads=tuple(
                PastPayload(payload=payload_of(each), content=each.data)
                for each in sorted(self.payloads, key=lambda each: each.seq)
            ),
            after_reading=self.reads > reads,
        )


def past_revision(event: RevisionAdopted | AdoptedContent) -> PastRevision:
    """A look at a file as a plan has it."""
    return PastRevision(
        path=event.path,
        look=event.look,
        state=event.state,
        digest=event.digest,
        size=event.size,
        notice=event.notice,
        content=event.content,
        withheld=bool(event.withheld),
    )


def _left_nothing(finished: ExecutionFinished) -> bool:
    return finished.exception is not None and finished.exception.type in _NOTHING_LEFT
