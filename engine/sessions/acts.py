"""Answers what one execution asks of the host: asks the user where that is due, performs, and records all of it.

Each effect is a ToolCall with its parent's id (what the editor shows) and an EffectRequested/EffectAnswered pair with
the result's blob (what a replay reads). The statement gets the answer as it is; what is recorded of one that holds a
secret is its digest alone. What a tool does is known to `tools`: it returns plain data, or what it would do to a file,
or what it would run, and this module sees to the mode, the question, the act and its record.

A file that was written is recorded, whatever becomes of the statement: from the act to its record nothing may tear.
Made by `statements` for each execution.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio
import msgspec
import xxhash
from msgspec.structs import replace

from ..cutting import cut_end, cut_middle, plural
from ..events.conversation import ResultStatus, ToolCall, ToolResult
from ..events.execution import CommandEnded, EffectAnswered, EffectRequested, FileWritten
from ..execution import Artifact, Captured, ExceptionInfo, Location
from ..ids import BlobDigest, ExecutionId, ToolCallId
from ..log import EventLog
from ..minter import Minter
from ..ports import (
    CommandOutcome,
    CommandOutput,
    CommandSubject,
    EffectAnswer,
    EffectRequest,
    Environment,
    FileSubject,
    PermissionSubject,
    Store,
)
from ..redaction import Redactor, marked_line, withheld
from ..text import valid_text
from ..timeline.changed import within
from ..tool_values import places_of, shown_value
from ..toolbox import CHANGING
from ..tools import OPERATIONS, Change, Program, Reading, Seen, Workspace, changes_of, land, name_text
from .policy import Policy
from .questions import Questions
from .signals import OutputStreamed

SHOWN_CHARS: Final = 2_000
"""How much of an answer, and of each argument, the call on the log repeats; the whole answer is in the blob."""
SHOWN_PLACES: Final = 20
"""To how many places an editor is sent for one answer."""
SHOWN_CHANGES_CHARS: Final = 100_000
"""How much of what changed the log repeats, in whole regions; the contents are in blobs."""
SHOWN_OUTPUT_CHARS: Final = 65_536
"""How much of what a command printed the log repeats, both ends."""
KEPT_BYTES: Final = 64 << 20
"""The largest content of a file that is kept."""
_STOPPED: Final = EffectAnswer(error=ExceptionInfo(type="InterruptedError", message="the statement is being stopped"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the acts of a session share. `seen` follows the log.

    `signal` shows what a program prints; `dismissed` gives up the turn that is under way.
    """

    log: EventLog
    store: Store
    minter: Minter
    workspace: Workspace
    redactor: Redactor
    policy: Policy
    questions: Questions
    seen: Seen
    signal: Callable[[OutputStreamed], None]
    dismissed: Callable[[], None]


class Acts:
    """The effects of one execution. `parent` is the call of its statement; nobody is asked about `approved` ones."""

    def __init__(self, desk: Desk, execution_id: ExecutionId, parent: ToolCallId, approved: bool) -> None:
        self._desk = desk
        self._log = desk.log
        self._execution = execution_id
        self._approved = approved
        self._rejected: dict[str, str] = {}
        self._written: dict[str, Artifact] = {}
        self._readings: dict[int, Reading] = {}
        self.parent = parent

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files that are otherwise than the execution found them."""
        return tuple(each for each in self._written.values() if each.before_digest != each.after_digest)

    async def perform(self, request: EffectRequest, environment: Environment) -> EffectAnswer:
        """Does what is asked and records it; what goes wrong is the answer's error."""
        call = self._desk.minter.tool_call()
        self._announce(request, call)
        answer = _STOPPED
        try:
            answer = await self._answer(request, call, environment)
        finally:
            self._log.append(self._answered(request, answer))
            self._log.append(
                ToolResult(
                    tool_call_id=call,
                    status=_status(answer),
                    text=_shown(request, answer),
                    parent_id=self.parent,
                    locations=self._locations(request, answer),
                )
            )
        return answer

    def _announce(self, request: EffectRequest, call: ToolCallId) -> None:
        shown = {name: _shown_argument(value) for name, value in request.arguments.items()}
        self._log.append(ToolCall(tool_call_id=call, tool=request.operation, arguments=shown, parent_id=self.parent))
        self._log.append(
            EffectRequested(
                execution_id=self._execution,
                ordinal=request.ordinal,
                operation=request.operation,
                argument_digest=argument_digest(request.arguments),
                tool_call_id=call,
            )
        )

    def _locations(self, request: EffectRequest, answer: EffectAnswer) -> tuple[Location, ...]:
        if answer.error is not None:
            return ()
        places = places_of(request.operation, answer.value, SHOWN_PLACES)
        # Not what `absolute` makes of them, which may refuse a name that is no text.
        return tuple(Location(path=self._desk.workspace.place(path), line=line) for path, line in places)

    async def _answer(self, request: EffectRequest, call: ToolCallId, environment: Environment) -> EffectAnswer:
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            return _failure(ValueError(f"no operation {request.operation!r}; there is {', '.join(OPERATIONS)}"))
        try:
            self._check_mode(request.operation)
            arguments: Any = msgspec.convert(request.arguments, operation.arguments)
            found = await anyio.to_thread.run_sync(operation.perform, self._desk.workspace, arguments)
            match found:
                case Reading():
                    self._readings[request.ordinal] = found
                    return EffectAnswer(value=found.value)
                case Change():
                    return EffectAnswer(value=await self._change(request, call, found))
                case Program():
                    return EffectAnswer(value=await self._run(request, call, found, environment))
                case _:
                    return EffectAnswer(value=found)
        except msgspec.ValidationError as error:
            return _failure(_wrong_argument(request.operation, error))
        except (OSError, ValueError, TypeError) as error:
            return _failure(error)

    def _check_mode(self, operation: str) -> None:
        if self._desk.policy.mode == "plan" and operation in CHANGING:
            raise PermissionError(f"plan mode changes nothing; {operation}() was not done")

    # --- files --------------------------------------------------------------------------------------------------------

    async def _change(self, request: EffectRequest, call: ToolCallId, change: Change) -> object:
        place = name_text(change.path)
        self._desk.seen.check(place, change.before, request.basis, self._desk.workspace.shown(change.path))
        if change.after == change.before:  # so there is nothing to ask about, and nothing to do
            digest = digest_of(change.after)
            self._readings[request.ordinal] = Reading(path=place, digest=digest, value=change.value)
            return change.value
        self._check_secrets(change)
        changes, note = await anyio.to_thread.run_sync(changes_of, change.before, change.after)
        kept, kept_note = await anyio.to_thread.run_sync(within, changes, note, SHOWN_CHANGES_CHARS)
        await self._permit(request, call, FileSubject(path=place, changes=changes, note=note))
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(land, self._desk.workspace, change)
            written = self._record(call, change)
            self._log.append(replace(written, changes=kept, note=kept_note))
        return change.value

    def _check_secrets(self, change: Change) -> None:
        line = marked_line(change.before or b"", change.after) if self._desk.redactor else None
        if line is not None:
            raise ValueError(
                f"line {line} of the new text holds `***`, which stands for a secret that is not shown, and writing it"
                " would replace the secret. Change the lines around it with edit(), or have the statement copy it"
            )

    def _record(self, call: ToolCallId, change: Change) -> FileWritten:
        before, after = digest_of(change.before), digest_of(change.after)
        place = name_text(change.path)
        first = self._written.get(place, Artifact(path=place, before_digest=before))
        self._written[place] = replace(first, after_digest=after)
        kept, lost = zip(*map(self._kept, (change.before, change.after)), strict=True)
        return FileWritten(
            execution_id=self._execution,
            tool_call_id=call,
            path=place,
            before=kept[0],
            after=kept[1],
            before_digest=before,
            after_digest=after,
            withheld=" ".join(filter(None, lost)),
        )

    def _kept(self, data: bytes | None) -> tuple[BlobDigest | None, str]:
        """The digest under which the content is kept, and what stands for one that holds a secret."""
        if data is None or len(data) > KEPT_BYTES:
            return None, ""
        if self._desk.redactor and self._desk.redactor.holds(data.decode("utf-8", "replace")):
            return None, withheld(data)
        return self._desk.store.blob_put(data), ""

    # --- programs -----------------------------------------------------------------------------------------------------

    async def _run(
        self, request: EffectRequest, call: ToolCallId, program: Program, environment: Environment
    ) -> object:
        """What the statement gets of the program's end. What a search prints is for it alone."""

        def show(stream: Literal["stdout", "stderr"], text: str) -> None:
            if program.asks:
                self._desk.signal(OutputStreamed(call, stream, text))

        if program.asks:
            await self._permit(
                request, call, CommandSubject(command=program.command, cwd=name_text(program.request.cwd))
            )
        outcome = await environment.command(program.request, show)
        if program.asks:
            self._log.append(self._ended(call, program, outcome))
        return await anyio.to_thread.run_sync(program.answer, outcome)

    def _ended(self, call: ToolCallId, program: Program, outcome: CommandOutcome) -> CommandEnded:
        return CommandEnded(
            execution_id=self._execution,
            tool_call_id=call,
            cwd=name_text(program.request.cwd),
            code=outcome.code,
            signal=outcome.signal,
            timed_out=outcome.timed_out,
            reason=outcome.reason,
            time_ms=outcome.seconds * 1000,
            output=_captured(outcome.stdout),
            errors=_captured(outcome.stderr),
        )

    # --- permission ---------------------------------------------------------------------------------------------------

    async def _permit(self, request: EffectRequest, call: ToolCallId, subject: PermissionSubject) -> None:
        """Returns where the act may be done. Raises PermissionError."""
        if self._approved or self._desk.policy.asks_about is None:
            return
        # A statement that tries the same again gets the same answer: nobody is asked twice about one act.
        key = argument_digest({"operation": request.operation, **request.arguments})
        if key not in self._rejected:
            verdict = await self._desk.questions.decide(call, subject)
            if verdict.outcome == "allowed":
                return
            if verdict.outcome == "cancelled":
                self._desk.dismissed()
            self._rejected[key] = verdict.reason
        raise PermissionError(self._rejected[key])

    # --- the record ---------------------------------------------------------------------------------------------------

    def _answered(self, request: EffectRequest, answer: EffectAnswer) -> EffectAnswered:
        event = EffectAnswered(
            execution_id=self._execution, ordinal=request.ordinal, operation=request.operation, error=answer.error
        )
        if answer.error is not None:
            return event
        if reading := self._readings.pop(request.ordinal, None):
            event = replace(event, path=name_text(reading.path), digest=reading.digest)
        data = msgspec.json.encode(answer.value)
        if self._desk.redactor.holds_in_json(data):
            return replace(event, withheld=withheld(data))
        return replace(event, result=self._desk.store.blob_put(data))


def _captured(output: CommandOutput) -> Captured:
    return Captured(text=cut_middle(output.text, SHOWN_OUTPUT_CHARS), total_bytes=output.total)


def argument_digest(arguments: dict[str, object]) -> str:
    """xxh3 hex over the arguments as JSON with sorted keys."""
    return xxhash.xxh3_64_hexdigest(msgspec.json.encode(arguments, order="deterministic"))


def digest_of(data: bytes | None) -> str:
    """xxh3 hex of a content; empty for none."""
    return "" if data is None else xxhash.xxh3_64_hexdigest(data)


_WRONG: Final = re.compile(r"Expected `(.+)`, got `(.+)` - at `\$\.(\w+)`")
"""How msgspec says that an argument has another type."""
_IN_PYTHON: Final = {"null": "None", "array": "list", "object": "dict"}
_TYPES: Final = re.compile("|".join(_IN_PYTHON))


def _wrong_argument(operation: str, error: msgspec.ValidationError) -> TypeError:
    found = _WRONG.fullmatch(str(error))
    if found is None:
        return TypeError(f"{operation}(): {error}")
    expected, got = (_TYPES.sub(lambda name: _IN_PYTHON[name[0]], names) for names in found.group(1, 2))
    return TypeError(f"{operation}(): {found[3]} must be {expected}, not {got}")


def _failure(error: Exception) -> EffectAnswer:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    filename = f": {error.filename}" if isinstance(error, OSError) and error.filename else ""
    return EffectAnswer(error=ExceptionInfo(type=type(error).__name__, message=valid_text(f"{reason}{filename}")))


def _status(answer: EffectAnswer) -> ResultStatus:
    if answer.error is None:
        return "ok"
    return "cancelled" if answer is _STOPPED else "error"


def _shown_argument(value: object) -> object:
    if isinstance(value, str):
        return cut_end(value, SHOWN_CHARS)
    return f"({len(value):,} {plural(len(value), 'byte')})" if isinstance(value, bytes) else value


def _shown(request: EffectRequest, answer: EffectAnswer) -> str:
    if answer.error is not None:
        return f"{answer.error.type}: {answer.error.message}"
    return cut_end(shown_value(request.operation, answer.value), SHOWN_CHARS)
