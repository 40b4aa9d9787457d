"""Answers what statements ask of the host, and records question and answer so that a replay can do without the host.

Each effect is a ToolCall with its parent's id (what the editor shows) and an EffectRequested/EffectAnswered pair with
the result's blob (what a replay reads). The statement gets the answer as it is; what is recorded of one that holds a
secret is its digest alone. Used by the agent loop; performs through `tools`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import anyio
import msgspec
import xxhash
from msgspec.structs import replace

from ..cutting import cut_end
from ..events.conversation import ToolCall, ToolResult
from ..events.execution import EffectAnswered, EffectRequested
from ..execution import ExceptionInfo
from ..ids import BlobDigest, ExecutionId, ToolCallId
from ..log import EventLog
from ..minter import Minter
from ..ports import EffectAnswer, EffectHandler, EffectRequest, Store
from ..redaction import Redactor, withheld
from ..timeline.index import Cell
from ..tools import OPERATIONS, Workspace

SHOWN_CHARS = 2_000
"""How much of an answer the tool result on the log repeats; the whole is in the blob."""


class EffectDesk:
    """Performs effects for one session, on a thread, one at a time."""

    def __init__(self, log: EventLog, store: Store, minter: Minter, workspace: Workspace, redactor: Redactor) -> None:
        self._log = log
        self._redactor = redactor
        self._store = store
        self._minter = minter
        self._workspace = workspace

    def handler(self, execution_id: ExecutionId, parent: ToolCallId) -> EffectHandler:
        """What an execution's effects go to."""

        async def handle(request: EffectRequest) -> EffectAnswer:
            call = self._minter.tool_call()
            self._log.append(
                ToolCall(tool_call_id=call, tool=request.operation, arguments=request.arguments, parent_id=parent)
            )
            self._log.append(
                EffectRequested(
                    execution_id=execution_id,
                    ordinal=request.ordinal,
                    operation=request.operation,
                    argument_digest=argument_digest(request.arguments),
                    tool_call_id=call,
                )
            )
            answer = await self._perform(request)
            self._log.append(self._answered(execution_id, request, answer))
            self._log.append(
                ToolResult(
                    tool_call_id=call,
                    status="error" if answer.error else "ok",
                    text=_shown(answer),
                    parent_id=parent,
                )
            )
            return answer

        return handle

    def _answered(self, execution_id: ExecutionId, request: EffectRequest, answer: EffectAnswer) -> EffectAnswered:
        event = EffectAnswered(
            execution_id=execution_id, ordinal=request.ordinal, operation=request.operation, error=answer.error
        )
        if answer.error is not None:
            return event
        data = msgspec.json.encode(answer.value)
        if self._redactor.holds_in_json(data):
            return replace(event, withheld=withheld(data))
        return replace(event, result=self._store.blob_put(data))

    async def _perform(self, request: EffectRequest) -> EffectAnswer:
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            return _failure(ValueError(f"no operation {request.operation!r}; there is {', '.join(OPERATIONS)}"))
        try:
            arguments: Any = msgspec.convert(request.arguments, operation.arguments)
        except msgspec.ValidationError as error:
            return _failure(TypeError(f"{request.operation}(): {error}"))
        try:
            return EffectAnswer(value=await anyio.to_thread.run_sync(operation.perform, self._workspace, arguments))
        except (OSError, ValueError) as error:
            return _failure(error)

    def answers(self, cell: Cell) -> Sequence[EffectAnswer]:
        """The recorded answers of a cell's latest execution, by ordinal."""
        return [self._recorded(event) for event in sorted(cell.answers, key=lambda event: event.ordinal)]

    def _recorded(self, event: EffectAnswered) -> EffectAnswer:
        if event.withheld:
            return EffectAnswer(withheld=True)
        if event.result is None:
            return EffectAnswer(error=event.error)
        return EffectAnswer(value=msgspec.json.decode(self._store.blob_get(BlobDigest(event.result))))


def argument_digest(arguments: dict[str, object]) -> str:
    """xxh3 hex over the arguments as JSON with sorted keys."""
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(arguments, order="deterministic"))


def _failure(error: Exception) -> EffectAnswer:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    filename = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    return EffectAnswer(error=ExceptionInfo(type=type(error).__name__, message=f"{reason}{filename}"))


def _shown(answer: EffectAnswer) -> str:
    if answer.error is not None:
        return f"{answer.error.type}: {answer.error.message}"
    text = answer.value if isinstance(answer.value, str) else "\n".join(map(str, cast("list[object]", answer.value)))
    return cut_end(text, SHOWN_CHARS)
