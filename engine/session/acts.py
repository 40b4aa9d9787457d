"""Answers what one execution asks of the host: asks the user where that is due, performs, and records all of it.

Each effect is a ToolCall with its parent's id (what the editor shows) and an EffectRequested/EffectAnswered pair with
the result's blob (what a replay reads). The statement gets the answer as it is; what is recorded of one that holds a
secret is its digest alone. What a tool does is known to `tools`: it returns plain data, or what it would do to a file,
or what it would run, and this module sees to the mode, the question, the act and its record.

A file that was written is recorded, whatever becomes of the statement: from the act to its record nothing may tear.
Made by `statements` for each execution. More than 300 lines, because what keeps an act and its record together
stands in one place.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import anyio
import msgspec
from msgspec.structs import replace

from ..core.domain import Domain
from ..core.errors import EnvironmentUnavailableError
from ..core.execution import Location
from ..core.ids import BlobDigest, ExecutionId, ToolCallId
from ..core.mcp_servers import called, module_of
from ..core.plain_data import argument_digest
from ..core.text import cut_end
from ..core.toolbox import CHANGING, RECALLS, ROUTED, TOOLS
from ..log.events.conversation import ToolResult
from ..log.events.execution import EffectAnswered, FileWritten
from ..log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionSubject,
    ServerCallSubject,
    TreeSubject,
    is_protected,
)
from ..log.redaction import Storable, marked_line, withheld
from ..log.statements import EffectAnswer, EffectRequest
from ..runtime.environment import Environment
from ..runtime.results import places_of
from . import act_files
from .act_files import Look, RecordedAnswers
from .editor_files import SessionBuffers, Unsaved
from .journal import OutputStreamed
from .parts import SessionParts
from .questions import (
    SHOWN_CHARS,
    STOPPED,
    Questions,
    Verdict,
    answer_text,
    beginning,
    call_event,
    command_event,
    digest_of,
    failure,
    named,
    protected_line,
    request_event,
    status_of,
    wrong_argument,
)
from .tools import OPERATIONS, Change, Program, Reading, Seen, TreeAct, Workspace, changes_of, land, name_text
from .tools.mcp_listing import shown_arguments

if TYPE_CHECKING:
    from .servers import SessionServers

SHOWN_PLACES: Final = 20
"""To how many places an editor is sent for one answer."""
SHOWN_CHANGES_CHARS: Final = 100_000
"""How much of what changed the log repeats, the first ones; the contents are in blobs."""
UNSAVED_ADVICE: Final = "has unsaved changes in the editor; ask the user to save or discard them, and look at it again"
_NOT_STILL: Final = "it is protected, and the programs of the session could not be held still; nothing was changed"
_OF_A_FILE: Final = frozenset(("read", "edit", "write"))
"""Operations that are about the content of one file, which may be unsaved."""
_EXECUTE: Final = 0o111
_EXECUTABLE: Final = "it is made executable"
KEPT_BYTES: Final = 64 << 20
"""The largest content of a file that is kept."""


class _Content(NamedTuple):
    """What may be kept of a file's content; `withheld` stands for one that holds a secret."""

    data: Storable | None
    withheld: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the acts of one session share.

    `seen` follows the log. `dismissed` gives up the turn that is under way. `domain` is what statements are held to
    now, `distrusted` where some that were held may have left programs.
    """

    parts: SessionParts
    workspace: Workspace
    questions: Questions
    seen: Seen
    buffers: SessionBuffers
    dismissed: Callable[[], None]
    domain: Callable[[], Domain | None] = lambda: None
    distrusted: Callable[[], tuple[str, ...]] = tuple


class Acts:
    """The effects of one execution. `parent` is the call of its statement; nobody is asked about `approved` ones.

    With `recorded` answers they are given where the same is asked, and nothing else that would change anything is done.
    """

    def __init__(
        self,
        desk: Desk,
        execution_id: ExecutionId,
        parent: ToolCallId,
        approved: bool,
        recorded: RecordedAnswers | None = None,
    ) -> None:
        self._desk = desk
        self._log = desk.parts.log
        self._execution = execution_id
        self._approved = approved
        self._recorded = recorded
        self._rejected: dict[str, str] = {}
        self._readings: dict[int, Reading] = {}
        self._notes: dict[int, str] = {}
        """What the calls of acts on the file tree say when they are done, beside a diff."""
        self._written: set[str] = set()
        """The real places of what was written or made."""
        self._made: set[str] = set()
        """Those of directories that were made."""
        self._changes_asked = 0
        self._has_rest = False
        """Whether the user has allowed all further changes of files."""
        self.parent = parent

    @property
    def written(self) -> Collection[str]:
        """The real places of what was written or made."""
        return self._written

    async def perform(self, request: EffectRequest, environment: Environment) -> EffectAnswer:
        """Does what is asked and records it; what goes wrong is the answer's error."""
        if request.operation in RECALLS:
            return await self._recalled(request)
        call = self._desk.parts.minter.tool_call()
        self._log.append(call_event(request, call, self.parent))
        self._log.append(request_event(request, call, self._execution))
        answer = STOPPED
        try:
            recorded = await self._recorded_answer(request)
            answer = recorded or await self._answer(request, call, environment)
        finally:
            self._log.append(self._answered(request, answer))
            self._log.append(
                ToolResult(
                    tool_call_id=call,
                    status=status_of(answer),
                    text=self._text(request, answer),
                    parent_id=self.parent,
                    locations=self._locations(request, answer),
                )
            )
        return answer

    def _text(self, request: EffectRequest, answer: EffectAnswer) -> str:
        """The answer as its call shows it; an act on the file tree gives nothing but its note."""
        if answer.error is None and request.operation in ROUTED:
            return cut_end(self._notes.pop(request.ordinal, ""), SHOWN_CHARS)
        return answer_text(request, answer)

    async def _recorded_answer(self, request: EffectRequest) -> EffectAnswer | None:
        found = None if self._recorded is None else await anyio.to_thread.run_sync(self._recorded.take, request)
        if found is None:
            return None
        answer, known = found
        if known is not None:
            self._readings[request.ordinal] = known
        return answer

    async def _recalled(self, request: EffectRequest) -> EffectAnswer:
        """What the record says, which nobody is shown."""
        if self._recorded is None:
            return EffectAnswer()
        return EffectAnswer(value=await anyio.to_thread.run_sync(self._recorded.recall, request))

    def _locations(self, request: EffectRequest, answer: EffectAnswer) -> tuple[Location, ...]:
        if answer.error is not None:
            return ()
        places = places_of(request.operation, answer.value, SHOWN_PLACES)
        # Not what `absolute` makes of them, which may refuse a name that is no text.
        return tuple(Location(path=self._desk.workspace.place(path), line=line) for path, line in places)

    async def _answer(self, request: EffectRequest, call: ToolCallId, environment: Environment) -> EffectAnswer:
        servers, module = self._desk.parts.servers, module_of(request.operation)
        if servers is not None and module is not None and servers.has(module):
            return await self._of_server(request, call, servers, module)
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            return failure(ValueError(f"no operation {named(request)!r}; there is {', '.join(TOOLS)}"))
        try:
            self._check_mode(request.operation)
            arguments: Any = msgspec.convert(request.arguments, operation.arguments)
            held = await self._unsaved(request)
            workspace = self._desk.workspace if held is None else self._desk.workspace.holding(held.place, held.data)
            found = await anyio.to_thread.run_sync(operation.perform, workspace, arguments)
            match found:
                case Reading():
                    self._readings[request.ordinal] = found
                    return EffectAnswer(value=found.value)
                case Change():
                    return EffectAnswer(value=await self._change(request, call, found, held, environment))
                case TreeAct():
                    return EffectAnswer(value=await self._act_on_tree(request, call, found, environment))
                case Program():
                    return EffectAnswer(value=await self._run(request, call, found, environment))
                case _:
                    return EffectAnswer(value=found)
        except msgspec.ValidationError as error:
            return failure(wrong_argument(request.operation, error))
        except (OSError, ValueError, TypeError, EnvironmentUnavailableError) as error:
            return failure(error)

    def _check_mode(self, operation: str) -> None:
        if operation in CHANGING:
            self._check_changes(f"{operation}() was not done")

    def _check_changes(self, consequence: str) -> None:
        if self._recorded is not None:
            raise PermissionError(
                f"no answer to this is recorded, and an edit without --live changes nothing; {consequence}"
            )
        if self._desk.parts.policy.mode == "plan":
            raise PermissionError(f"plan mode changes nothing; {consequence}")

    # --- files --------------------------------------------------------------------------------------------------------

    async def _unsaved(self, request: EffectRequest) -> Unsaved | None:
        """The unsaved changes of the file that is asked about. Raises OSError where they may not be touched."""
        if request.operation not in _OF_A_FILE:
            return None
        is_change = request.operation in CHANGING
        held = await self._desk.buffers.unsaved(request.arguments.get("path"), changes=is_change)
        if held is not None and is_change:
            editor = self._desk.buffers.editor
            if editor is None or not editor.writes or isinstance(request.arguments.get("text"), bytes):
                shown = self._desk.workspace.shown(held.place)
                raise OSError(errno.EBUSY, f"{shown} {UNSAVED_ADVICE}")
        return held

    async def _change(
        self,
        request: EffectRequest,
        call: ToolCallId,
        change: Change,
        held: Unsaved | None,
        environment: Environment,
    ) -> object:
        place, shown = name_text(change.path), self._desk.workspace.shown(change.path)
        if held is not None and held.place != change.path:
            raise OSError(errno.ESTALE, f"{shown} leads to another file by now; nothing was written")
        # An edit keeps what it does not replace; a write would lose all of it.
        is_lost = held is not None and request.operation == "write"
        if change.after == change.before:  # so there is nothing to lose, to ask about, or to do
            digest = digest_of(change.after)
            self._readings[request.ordinal] = Reading(path=place, digest=digest, value=change.value)
            return change.value
        self._desk.seen.check(place, change.before, request.basis, shown, unsaved=is_lost)
        self._check_secrets(change)
        changes, note = await anyio.to_thread.run_sync(changes_of, change.before, change.after)
        kept, kept_note = await anyio.to_thread.run_sync(
            beginning, self._desk.parts.redactor, changes, note, SHOWN_CHANGES_CHARS
        )
        is_executable = _EXECUTABLE if (change.mode or 0) & _EXECUTE else ""
        said = "\n".join(filter(None, (protected_line(change.protected), note, is_executable)))
        subject = FileSubject(path=place, protected=change.protected, changes=changes, note=said)
        await self._permit(request, call, subject)
        with anyio.CancelScope(shield=True):
            if held is None and not change.protected:
                async with environment.acting():
                    mode = await self._put(change, None, environment)
            else:
                async with environment.stopped() as still:
                    if held is not None and not still:
                        raise OSError(errno.EBUSY, f"{self._desk.workspace.shown(held.place)} {UNSAVED_ADVICE}")
                    _check_still(environment, still)
                    mode = await self._put(change, held, environment)
            # On a thread, because a large content is looked through for every form of every secret.
            contents = [await anyio.to_thread.run_sync(self._content, data) for data in (change.before, change.after)]
            written = self._record(call, change, contents)
            before_mode = None if change.before is None else mode
            self._log.append(replace(written, changes=kept, note=kept_note, before_mode=before_mode, after_mode=mode))
            self._written.add(change.path)
        return change.value

    async def _put(self, change: Change, held: Unsaved | None, environment: Environment) -> int | None:
        """Does what was allowed: through the editor where it holds unsaved text, else on the disk.

        Returns the permission bits that the file keeps, where that is known.
        """
        mode = None
        if held is not None:
            await self._desk.buffers.write(held, change.after)
            await self._hold_again(environment)
        elif change.protected and self._is_writable_by_programs:
            # Held before it is there, so that no program of the statement finds it writable for a moment.
            hold = partial(_hold, environment)
            mode = await anyio.to_thread.run_sync(land, self._desk.workspace, change, hold)
        else:
            mode = await anyio.to_thread.run_sync(land, self._desk.workspace, change)
        self._desk.buffers.note_replaced(change.path, change.before)
        return mode

    @property
    def _is_writable_by_programs(self) -> bool:
        """Whether statements may write the session's directories without the host, but for what is protected."""
        domain = self._desk.domain()
        return domain is not None and bool(domain.writable)

    async def _hold_again(self, environment: Environment) -> None:
        """What is protected may have been replaced or made, outside of the sandbox: has the kernel hold it."""
        if self._is_writable_by_programs:
            places = await anyio.to_thread.run_sync(self._desk.workspace.protection.places)
            await environment.hold(places)

    def _check_secrets(self, change: Change) -> None:
        line = marked_line(change.before or b"", change.after) if self._desk.parts.redactor else None
        if line is not None:
            raise ValueError(
                f"line {line} of the new text holds `***`, which stands for a secret that is not shown, and writing it"
                " would replace the secret. Change the lines around it with edit(), or have the statement copy it"
            )

    def _record(self, call: ToolCallId, change: Change, contents: Sequence[_Content]) -> FileWritten:
        return FileWritten(
            execution_id=self._execution,
            tool_call_id=call,
            path=name_text(change.path),
            before=self._kept(contents[0]),
            after=self._kept(contents[1]),
            before_digest=digest_of(change.before),
            after_digest=digest_of(change.after),
            withheld=" ".join(filter(None, (each.withheld for each in contents))),
        )

    def _content(self, data: bytes | None) -> _Content:
        """What may be kept of a content."""
        storable = None if data is None else self._desk.parts.redactor.storable(data)
        return _Content(storable, withheld(data) if data is not None and storable is None else "")

    def _kept(self, content: _Content) -> BlobDigest | None:
        """The digest under which the content is kept, if it is."""
        data = content.data
        return None if data is None or len(data) > KEPT_BYTES else self._desk.parts.store.blob_put(data)

    # --- the file tree ------------------------------------------------------------------------------------------------

    async def _act_on_tree(
        self, request: EffectRequest, call: ToolCallId, act: TreeAct, environment: Environment
    ) -> None:
        """Has names made, removed or given to something else, and keeps what files held that are not there any more."""
        before = await anyio.to_thread.run_sync(act_files.looks_at, act)
        for path, held in before.items():
            if await self._desk.buffers.unsaved(path, changes=True) is not None:
                raise OSError(errno.EBUSY, f"{self._desk.workspace.shown(path)} {UNSAVED_ADVICE}")
            if len(act.becomes) > 1 and path == act.paths[-1]:  # another file's content takes its place
                self._desk.seen.check(name_text(path), held.data, request.basis, self._desk.workspace.shown(path))
        subject = await anyio.to_thread.run_sync(act_files.subject_of, request, act, before, self._desk.workspace)
        if not self._is_minor(act):
            await self._permit(request, call, subject)
        do = act.do if act.put is None else partial(act.put, _shown(act, before), partial(_hold, environment))
        with anyio.CancelScope(shield=True):
            if act.protected:
                async with environment.stopped() as still:
                    _check_still(environment, still)
                    await anyio.to_thread.run_sync(do)
            else:
                async with environment.acting():
                    await anyio.to_thread.run_sync(do)
            for event in await anyio.to_thread.run_sync(self._became, call, act, before, subject):
                self._log.append(event)
            self._notes[request.ordinal] = subject.note
            self._written.update(act.paths)
            if act.makes:
                self._made.update(act.paths)
            if act.protected:
                await self._hold_again(environment)

    def _is_minor(self, act: TreeAct) -> bool:
        """Whether it comes with what the same statement was allowed to do."""
        if act.protected:
            return False
        in_new = act.makes and self._made.issuperset(map(os.path.dirname, act.paths))
        return in_new or (act.is_minor and self._written.issuperset(act.paths))

    def _became(
        self, call: ToolCallId, act: TreeAct, before: Mapping[str, Look], subject: TreeSubject
    ) -> list[FileWritten]:
        """What has become of the files; that of the last name has the changes that the subject shows. Blocks."""
        events: list[FileWritten] = []
        kept, note = beginning(self._desk.parts.redactor, subject.changes, "", SHOWN_CHANGES_CHARS)
        for path, old, new in act_files.became(act, before):
            contents = [self._content(each.data) for each in (old, new)]
            event = FileWritten(
                execution_id=self._execution,
                tool_call_id=call,
                path=name_text(path),
                before=self._kept(contents[0]),
                after=self._kept(contents[1]),
                before_digest=old.digest,
                after_digest=new.digest,
                withheld=" ".join(filter(None, (each.withheld for each in contents))),
                unshown=True,
                before_mode=old.mode,
                after_mode=new.mode,
            )
            if path == act.paths[-1]:
                event = replace(event, changes=kept, note=note)
            events.append(event)
        return events

    # --- programs -----------------------------------------------------------------------------------------------------

    async def _run(
        self, request: EffectRequest, call: ToolCallId, program: Program, environment: Environment
    ) -> object:
        """What the statement gets of the program's end. What a search prints is for it alone."""

        def show(stream: Literal["stdout", "stderr"], text: str) -> None:
            if program.asks:
                self._desk.parts.journal.signal(OutputStreamed(call, stream, text))

        cwd = name_text(program.request.cwd)
        asked = program.request
        if program.asks:
            domain = self._desk.domain()
            # Where no mode is in the way of the workspace, a command stays in there unless it is asked about.
            confined = self._desk.parts.policy.mode == "auto" and not program.outside
            outside = program.outside and domain is not None
            await self._permit(request, call, CommandSubject(command=program.command, cwd=cwd, outside=outside))
            if domain is not None and confined:
                places = await anyio.to_thread.run_sync(self._desk.workspace.protection.current_places)
                asked = replace(asked, domain=replace(domain, read_only=places))
            else:
                asked = replace(asked, distrusted=self._desk.distrusted())
        outcome = await environment.command(asked, show)
        if program.asks:
            self._log.append(command_event(call, self._execution, cwd, outcome))
            if asked.domain is None:
                await self._hold_again(environment)
        return await anyio.to_thread.run_sync(program.answer, outcome)

    # --- MCP servers --------------------------------------------------------------------------------------------------

    async def _of_server(
        self, request: EffectRequest, call: ToolCallId, servers: SessionServers, module: str
    ) -> EffectAnswer:
        """What a server offers, or the answer of its tool. Whether a tool changes anything is not for it to say."""
        tool = called(request.operation)
        try:
            if tool is None:
                uri = request.arguments.get("uri")
                is_help = not isinstance(uri, str)
                return EffectAnswer(value=await (servers.help(module) if is_help else servers.read(module, uri)))
            self._check_changes(f"{request.operation}() was not called")
            meant = await servers.meant(module, tool[1], request.arguments)
            subject = ServerCallSubject(
                server=meant.server, tool=meant.tool, arguments=shown_arguments(meant.arguments)
            )
            await self._permit(request, call, subject)
            return EffectAnswer(
                value=await servers.call(
                    module, meant, lambda text: self._desk.parts.journal.signal(OutputStreamed(call, "stdout", text))
                )
            )
        except (OSError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            return failure(error)

    # --- permission ---------------------------------------------------------------------------------------------------

    async def _permit(self, request: EffectRequest, call: ToolCallId, subject: PermissionSubject) -> None:
        """Returns where the act may be done. Raises PermissionError."""
        if not self._is_asked(subject):
            return
        # A statement that tries the same again gets the same answer: nobody is asked twice about one act.
        key = argument_digest({"operation": request.operation, **request.arguments})
        if key not in self._rejected:
            verdict = await self._decide(call, subject)
            if verdict.outcome == "allowed":
                return
            if verdict.outcome == "cancelled":
                self._desk.dismissed()
            self._rejected[key] = verdict.reason
        raise PermissionError(self._rejected[key])

    async def _decide(self, call: ToolCallId, subject: PermissionSubject) -> Verdict:
        """What the user says; from the second change of a file on they may allow the rest of these at once."""
        questions = self._desk.questions
        if not isinstance(subject, FileSubject | TreeSubject) or subject.protected:
            return await questions.decide(call, subject)
        is_open = questions.remembered(subject) is None
        if is_open and self._has_rest:
            return Verdict("allowed")
        verdict = await questions.decide(call, subject, rest=self._changes_asked > 0)
        self._changes_asked += is_open
        self._has_rest = self._has_rest or verdict.rest
        return verdict

    def _is_asked(self, subject: PermissionSubject) -> bool:
        held = self._desk.domain() is not None
        about = self._desk.parts.policy.asks_about(held=held)
        if isinstance(subject, CommandSubject) and about is None:
            return subject.outside
        if is_protected(subject):
            return held or not self._approved
        # Nobody stands behind what a statement does in a namespace in which a model has written: whatever a name meant
        # when the user typed it, another statement may have made it mean something else.
        is_backed = self._approved and not (held and about == "acts")
        return about is not None and not is_backed

    # --- the record ---------------------------------------------------------------------------------------------------

    def _answered(self, request: EffectRequest, answer: EffectAnswer) -> EffectAnswered:
        event = EffectAnswered(
            execution_id=self._execution, ordinal=request.ordinal, operation=named(request), error=answer.error
        )
        if answer.error is not None:
            return event
        if reading := self._readings.pop(request.ordinal, None):
            event = replace(event, path=name_text(reading.path), digest=reading.digest)
        data = msgspec.json.encode(answer.value)
        storable = self._desk.parts.redactor.storable_json(data)
        if storable is None:
            return replace(event, withheld=withheld(data))
        return replace(event, result=self._desk.parts.store.blob_put(storable))


def _check_still(environment: Environment, still: bool) -> None:
    """Raises OSError where a program could change a protected file that has no mount yet, or where its path leads."""
    if not still and "mounts" in environment.layers:
        raise OSError(errno.EBUSY, _NOT_STILL)


def _hold(environment: Environment, path: str) -> None:
    """Has the kernel hold the file, from a thread."""
    anyio.from_thread.run(environment.hold, (path,))


def _shown(act: TreeAct, before: Mapping[str, Look]) -> bytes:
    """The content that the last name of an act is to have, as a person was shown it."""
    data = before[act.source].data
    if data is None:
        raise OSError(errno.EFBIG, f"it is protected, and what it is to hold was not read: {before[act.source].reason}")
    return data
