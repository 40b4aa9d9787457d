"""Answer the tool calls of one execution: ask the user if needed, act, and record everything.

Each call is a ToolCall with its statement's call as parent, which the editor shows, and a pair of EffectRequested and
EffectAnswered, which a replay reads; the answer is a blob. The statement gets the whole answer. If it contains a
secret, only its digest is recorded. The modules in `tools` return plain data, or what they would do to a file, or what
they would run. This module checks the mode, asks, acts, and records.

A written file is recorded whatever happens to the statement, so no cancel may come between an act and its record.
`statements` makes one `ToolCalls` for each execution. Over 700 lines, because an act and its record must stay together.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import anyio
import anyio.lowlevel
import msgspec
from msgspec.structs import replace

from ..context.model import ModelError
from ..core.domain import Domain, must_stand_still
from ..core.errors import EnvironmentUnavailableError, SessionReadOnlyError
from ..core.execution import Location
from ..core.ids import BlobDigest, ExecutionId, Seq, ToolCallId
from ..core.mcp_servers import called, module_of
from ..core.plain_data import argument_digest
from ..core.text import cut_end
from ..core.toolbox import ASK, CHANGING, FETCH, PLAN, RECALLS, ROUTED
from ..log.events.conversation import ResultStatus, ToolResult
from ..log.events.execution import EffectAnswered, FileTouched, FileWritten
from ..log.events.session import PlanChanged
from ..log.forms import Field, Form, FormAnswer
from ..log.permissions import (
    CommandSubject,
    FileSubject,
    PermissionSubject,
    ServerCallSubject,
    SiteSubject,
    TreeSubject,
    is_protected,
)
from ..log.redaction import Storable, marked_line, withheld
from ..log.statements import EffectAnswer, EffectRequest
from ..runtime.environment import Environment
from ..runtime.results import has_contents, places_of
from .editor_files import EditorBuffers, Unsaved
from .fetching import Fetcher, fetched
from .forms import FormQuestions
from .journal import OutputStreamed
from .model_calls.sampling import sampled
from .name_guard import allow_names, pausing
from .parts import SessionParts
from .policy import Questions, Verdict, shown_part
from .tool_records import (
    CANCELLED,
    KEPT_BYTES,
    SHOWN_CHARS,
    STOPPED,
    Entry,
    FileState,
    RecordedAnswers,
    answer_text,
    answered_text,
    call_event,
    cancelled_command_event,
    changed_entries,
    command_event,
    digest_of,
    directories_and_links,
    error_answer,
    operation_name,
    protected_line,
    request_event,
    server_question_event,
    states_after,
    states_before,
    status_of,
    subject_of,
    wrong_argument,
)
from .tools import (
    OPERATIONS,
    Change,
    Download,
    Planned,
    Program,
    Reading,
    SeenFiles,
    TreeAct,
    UserQuestion,
    Workspace,
    changes_of,
    land,
    name_text,
)
from .tools.ask import answered
from .tools.bash import denial
from .tools.fetch import site_of
from .tools.mcp_listing import shown_arguments
from .tools.mcp_sampling import FIELDS, NO_MODEL, Sampled, Sampling, is_allowed, question
from .working_tree.changes import TreeComparison

if TYPE_CHECKING:
    from httpx2 import URL

    from .servers import ServerCall, SessionServers

SHOWN_PLACES: Final = 20
"""Locations that an editor gets for one answer."""
SHOWN_CHANGES_CHARS: Final = 100_000
"""Characters of changes that the log repeats, from the first one on. The contents are in blobs."""
UNSAVED_ADVICE: Final = (
    "has unsaved changes in the editor; ask the user to save or discard them, then view the file again"
)
SECRET_ADDRESS: Final = "fetch(): the address contains a secret, which is never sent"  # noqa: S105 -- a sentence, no secret
NOT_ASKED: Final = "no answer to this question is recorded, and an edit without --live does not ask"
NOT_FETCHED: Final = "no answer to this request is recorded, and an edit without --live does not fetch"
_REFUSED_BY_RECORD: Final = {ASK: NOT_ASKED, FETCH: NOT_FETCHED}
_NOT_STILL: Final = "the file is protected, and the programs of the session could not be paused; nothing was changed"
_OF_A_FILE: Final = frozenset(("read", "edit", "write"))
"""Operations on the content of one file, which may be unsaved."""
_EXECUTE: Final = 0o111
_BATCH: Final = 50
"""Records after which other tasks run."""
_EXECUTABLE: Final = "the file becomes executable"


@dataclass(slots=True)
class _Changed:
    """What an act changed, in a line."""

    text: str = ""


class _Content(NamedTuple):
    """The part of a file's content that may be saved. `withheld` describes one that contains a secret."""

    data: Storable | None
    withheld: str


async def _has_not(_allowed: Collection[str]) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What the tool calls of one session share.

    `downloads` keeps a file under a name, and returns its path. `seen` follows the log. `comparison` finds what
    commands and servers change. `dismissed` ends the current turn. `domain` is the current sandbox of statements, if
    any. `distrusted` are places where sandboxed statements may have left programs. `has_appeared` is that of
    `Confinement`.
    """

    parts: SessionParts
    workspace: Workspace
    questions: Questions
    forms: FormQuestions
    fetcher: Fetcher
    downloads: Callable[[str, bytes], str]
    seen: SeenFiles
    comparison: TreeComparison
    buffers: EditorBuffers
    dismissed: Callable[[], None]
    domain: Callable[[], Domain | None] = lambda: None
    distrusted: Callable[[], tuple[str, ...]] = tuple
    has_appeared: Callable[[Collection[str]], Awaitable[bool]] = _has_not


class ToolCalls:
    """The tool calls of one execution. `parent` is the call of its statement. Those of an `approved` one ask
    only as far as `_is_asked` says.

    With `recorded` answers, the same requests get these, and all other changes are refused.
    """

    def __init__(
        self,
        context: ToolContext,
        execution_id: ExecutionId,
        parent: ToolCallId,
        approved: bool,
        recorded: RecordedAnswers | None = None,
    ) -> None:
        self._context = context
        self._log = context.parts.log
        self._execution = execution_id
        self._approved = approved
        self._recorded = recorded
        self._rejected: dict[str, Verdict] = {}
        self._readings: dict[int, Reading] = {}
        self._notes: dict[int, str] = {}
        """What calls that changed the file tree show when they are done, beside a diff."""
        self._refusals: dict[int, Verdict] = {}
        """The user's decisions about calls that were not allowed, by ordinal."""
        self._written: set[str] = set()
        """The real paths of what was written or made."""
        self._allowed: set[str] = set()
        """Those of them that the user was asked about, or that a command or call outside of the sandbox made."""
        self._own: set[str] = set()
        """The real paths of files with content of this statement."""
        self._made: set[tuple[int, int]] = set()
        """Device and inode of the directories that were made. A path may belong to another directory later."""
        self._changes_asked = 0
        self._sites: set[str] = set()
        """The sites that the statement may fetch from."""
        self._has_rest = False
        """Whether the user has allowed all further changes of files."""
        self.parent = parent
        self.before_change: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        """Called before a change of files."""

    @property
    def written(self) -> Collection[str]:
        """The real paths of what was written or made."""
        return self._written

    async def perform(self, request: EffectRequest, environment: Environment) -> EffectAnswer:
        """Do what is requested, and record it. A failure is the answer's error."""
        if request.operation in RECALLS:
            return await self._recalled(request)
        call = self._context.parts.minter.tool_call()
        self._log.append(call_event(request, call, self.parent))
        self._log.append(request_event(request, call, self._execution))
        answer = STOPPED
        try:
            recorded = await self._recorded_answer(request)
            answer = recorded or await self._answer(request, call, environment)
        finally:
            answered = self._answered(request, answer)
            self._log.append(answered)
            status, text = self._ending(request, answer)
            self._log.append(
                ToolResult(
                    tool_call_id=call,
                    status=status,
                    text=text,
                    parent_id=self.parent,
                    locations=self._locations(request, answer),
                    answer=answered.result if has_contents(request.operation, answer.value) else None,
                )
            )
        return answer

    def _ending(self, request: EffectRequest, answer: EffectAnswer) -> tuple[ResultStatus, str]:
        """Return how the call ended, and the answer as it shows it; for the file tree, only its note."""
        refusal = self._refusals.pop(request.ordinal, None)
        if refusal is not None and refusal.outcome == "rejected":
            return "rejected", refusal.reason
        if refusal is not None:
            return "cancelled", CANCELLED
        if answer.error is None and request.operation in ROUTED:
            return "ok", cut_end(self._notes.pop(request.ordinal, ""), SHOWN_CHARS)
        return status_of(answer), answer_text(request, answer)

    async def _recorded_answer(self, request: EffectRequest) -> EffectAnswer | None:
        # A plan is told again, because it belongs to the branch.
        if request.operation == PLAN:
            return None
        found = None if self._recorded is None else await anyio.to_thread.run_sync(self._recorded.take, request)
        if found is None:
            return None
        answer, known = found
        if known is not None:
            self._readings[request.ordinal] = known
        return answer

    async def _recalled(self, request: EffectRequest) -> EffectAnswer:
        """Return what the record says. No one is shown this."""
        if self._recorded is None:
            return EffectAnswer()
        return EffectAnswer(value=await anyio.to_thread.run_sync(self._recorded.recall, request))

    def _locations(self, request: EffectRequest, answer: EffectAnswer) -> tuple[Location, ...]:
        if answer.error is not None:
            return ()
        places = places_of(request.operation, answer.value, SHOWN_PLACES)
        # `absolute` may refuse a name that is not text.
        return tuple(Location(path=self._context.workspace.place(path), line=line) for path, line in places)

    async def _answer(self, request: EffectRequest, call: ToolCallId, environment: Environment) -> EffectAnswer:
        servers, module = self._context.parts.servers, module_of(request.operation)
        if servers is not None and module is not None and servers.has(module):
            return await self._of_server(request, call, servers, module)
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            return error_answer(
                ValueError(f"no operation {operation_name(request)!r}; there are {', '.join(OPERATIONS)}")
            )
        try:
            self._check_mode(request.operation)
            arguments: Any = msgspec.convert(request.arguments, operation.arguments)
            unsaved = await self._unsaved(request)
            workspace = self._context.workspace
            if unsaved is not None:
                workspace = workspace.with_unsaved(unsaved.place, unsaved.data)
            found = await anyio.to_thread.run_sync(operation.perform, workspace, arguments)
            if isinstance(found, Download):
                self._check_address(arguments.url)  # as given: later its host is in lower case
            match found:
                case Reading():
                    self._readings[request.ordinal] = found
                    return EffectAnswer(value=found.value)
                case Change():
                    return EffectAnswer(value=await self._change(request, call, found, unsaved, environment))
                case TreeAct() | Program() | Planned() | UserQuestion() | Download():
                    return EffectAnswer(value=await self._act(request, call, found, environment))
                case _:
                    return EffectAnswer(value=found)
        except msgspec.ValidationError as error:
            return error_answer(wrong_argument(request.operation, error))
        except (OSError, ValueError, TypeError, EnvironmentUnavailableError) as error:
            return error_answer(error)

    async def _act(
        self,
        request: EffectRequest,
        call: ToolCallId,
        found: TreeAct | Program | Planned | UserQuestion | Download,
        environment: Environment,
    ) -> object:
        match found:
            case Download(url=url):
                return await self._fetch(request, call, url)
            case UserQuestion():
                return answered(await self._fill(call, found.question, found.fields))
            case TreeAct():
                return await self._act_on_tree(request, call, found, environment)
            case Program():
                return await self._run(request, call, found, environment)
            case Planned(entries=entries):
                self._log.append(PlanChanged(entries=entries))
                return None

    def _check_mode(self, operation: str) -> None:
        if operation in CHANGING:
            self._check_changes(f"{operation}() was not done")
        if operation in _REFUSED_BY_RECORD and self._recorded is not None:
            raise PermissionError(_REFUSED_BY_RECORD[operation])

    def _check_changes(self, consequence: str) -> None:
        if self._recorded is not None:
            raise PermissionError(
                f"no answer to this call is recorded, and an edit without --live changes nothing; {consequence}"
            )
        if self._context.parts.policy.mode == "plan":
            raise PermissionError(f"plan mode does not allow changes; {consequence}")

    # --- files --------------------------------------------------------------------------------------------------------

    async def _unsaved(self, request: EffectRequest) -> Unsaved | None:
        """Return the unsaved changes of the file of a request.

        Raises OSError if the tool must not touch them.
        """
        if request.operation not in _OF_A_FILE:
            return None
        is_change = request.operation in CHANGING
        held = await self._context.buffers.unsaved(request.arguments.get("path"), changes=is_change)
        if held is not None and is_change:
            editor = self._context.buffers.editor
            if editor is None or not editor.writes or isinstance(request.arguments.get("text"), bytes):
                shown = self._context.workspace.shown(held.place)
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
        place, shown = name_text(change.path), self._context.workspace.shown(change.path)
        if held is not None and held.place != change.path:
            raise OSError(errno.ESTALE, f"{shown} now leads to another file; nothing was written")
        # An edit keeps what it does not replace; a write would lose all of it.
        is_lost = held is not None and request.operation == "write"
        if change.after == change.before:  # so there is nothing to lose, to ask about, or to do
            digest = digest_of(change.after)
            self._readings[request.ordinal] = Reading(path=place, digest=digest, value=change.value)
            return change.value
        seen = self._context.seen
        await anyio.to_thread.run_sync(lambda: seen.check(place, change.before, request.basis, shown, unsaved=is_lost))
        self._check_secrets(change)
        hide = self._context.parts.redactor.hidden_lines
        changes, note = await anyio.to_thread.run_sync(changes_of, change.before, change.after, hide)
        kept, kept_note = await anyio.to_thread.run_sync(
            shown_part, self._context.parts.redactor, changes, note, SHOWN_CHANGES_CHARS
        )
        is_executable = _EXECUTABLE if (change.mode or 0) & _EXECUTE else ""
        said = "\n".join(filter(None, (protected_line(change.protected), note, is_executable)))
        subject = FileSubject(path=place, protected=change.protected, changes=changes, note=said)
        await self._permit(request, call, subject)
        await self.before_change()
        made = await anyio.to_thread.run_sync(directories_and_links, (change.path,)) if change.before is None else None
        with anyio.CancelScope(shield=True):
            if held is None:
                await self._announce(call, {change.path: FileState(digest_of(change.before), data=change.before)})
            allow_names((change.path,))
            if held is None and not change.protected:
                async with environment.acting():
                    mode = await self._put(change, None, environment)
            else:
                async with environment.stopped() as still:
                    if held is not None and not still:
                        raise OSError(errno.EBUSY, f"{self._context.workspace.shown(held.place)} {UNSAVED_ADVICE}")
                    self._check_still(environment, still)
                    mode = await self._put(change, held, environment)
            if made is not None:
                await self._record_entries(call, made, (change.path,))
            # On a thread, because a large content is looked through for every form of every secret.
            contents = [await anyio.to_thread.run_sync(self._content, data) for data in (change.before, change.after)]
            written = self._record(call, change, contents)
            before_mode = None if change.before is None else mode
            self._log.append(replace(written, changes=kept, note=kept_note, before_mode=before_mode, after_mode=mode))
            self._written.add(change.path)
            self._allowed.add(change.path)
            self._own.add(change.path)
        return change.value

    async def _put(self, change: Change, held: Unsaved | None, environment: Environment) -> int | None:
        """Make the change: through the editor if that has unsaved text, else on disk.

        Returns the permission bits that the file has then, if they are known.
        """
        mode = None
        if held is not None:
            await self._context.buffers.write(held, change.after)
            await self._hold_again(environment)
        elif change.protected and self._is_writable_by_programs:
            # Mounted before it exists, so that no program of the statement can write it for a moment.
            hold = partial(_hold, environment)
            mode = await anyio.to_thread.run_sync(land, self._context.workspace, change, hold)
        else:
            mode = await anyio.to_thread.run_sync(land, self._context.workspace, change)
        self._context.buffers.note_replaced(change.path, change.before)
        return mode

    @property
    def _is_writable_by_programs(self) -> bool:
        """Whether statements may write the session's directories directly, except protected files."""
        domain = self._context.domain()
        return domain is not None and bool(domain.writable)

    def _check_still(self, environment: Environment, still: bool) -> None:
        """Raise OSError if a program could change a protected file that has no mount yet, or the path to it."""
        if not still and must_stand_still(environment.layers, self._context.domain()):
            raise OSError(errno.EBUSY, _NOT_STILL)

    async def _hold_again(self, environment: Environment) -> None:
        """Let the kernel protect what was made or replaced outside of the sandbox."""
        if self._is_writable_by_programs:
            places = await anyio.to_thread.run_sync(self._context.workspace.protection.places)
            # The act is done. If this worker cannot protect more paths, the next statement gets one that does.
            with suppress(EnvironmentUnavailableError) if "seatbelt" in environment.layers else nullcontext():
                await environment.hold(places)

    def _check_secrets(self, change: Change) -> None:
        line = marked_line(change.before or b"", change.after) if self._context.parts.redactor else None
        if line is not None:
            raise ValueError(
                f"line {line} of the new text contains `***` in place of a hidden secret. Writing it "
                "would destroy the secret. Change other lines with edit(), or copy the secret by code"
            )

    async def _announce(self, call: ToolCallId, states: Mapping[str, FileState]) -> None:
        """Put the states of files that are about to change on the log and on disk, so that no kill loses the change.

        Raises OSError if they cannot be saved.
        """
        seq = None
        for path, state in states.items():
            content = await anyio.to_thread.run_sync(self._content, state.data)
            touched = FileTouched(
                execution_id=self._execution,
                path=name_text(path),
                before=self._kept(content),
                before_digest=state.digest,
                note=state.reason,
                withheld=content.withheld,
                mode=state.mode,
                tool_call_id=call,
            )
            seq = self._log.append(touched)
        if seq is not None:
            await self._on_disk(seq, "nothing was changed")

    async def _on_disk(self, seq: Seq, otherwise: str) -> None:
        """Wait until the event at `seq` is on disk. Raises OSError, which ends with `otherwise`, if it never will be.

        A host that has lost the session to another one, such as after the machine slept, finds that out here.
        """
        try:
            await self._context.parts.journal.durable(seq)
        except SessionReadOnlyError as error:
            raise OSError(errno.EIO, f"{error}; {otherwise}") from error

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
            protected=bool(change.protected),
        )

    def _content(self, data: bytes | None) -> _Content:
        """Return the part of a content that may be saved."""
        storable = None if data is None else self._context.parts.redactor.storable(data)
        return _Content(storable, withheld(data) if data is not None and storable is None else "")

    def _kept(self, content: _Content) -> BlobDigest | None:
        """Save the content if possible; return its digest."""
        data = content.data
        return None if data is None or len(data) > KEPT_BYTES else self._context.parts.store.blob_put(data)

    # --- the file tree ------------------------------------------------------------------------------------------------

    async def _act_on_tree(
        self, request: EffectRequest, call: ToolCallId, act: TreeAct, environment: Environment
    ) -> None:
        """Make, remove or rename names, and save the contents that are lost."""
        before = await anyio.to_thread.run_sync(states_before, act)
        for path, held in before.items():
            if await self._context.buffers.unsaved(path, changes=True) is not None:
                raise OSError(errno.EBUSY, f"{self._context.workspace.shown(path)} {UNSAVED_ADVICE}")
            if len(act.becomes) > 1 and path == act.paths[-1]:  # another file's content takes its place
                self._context.seen.check(name_text(path), held.data, request.basis, self._context.workspace.shown(path))
        subject = await anyio.to_thread.run_sync(subject_of, request, act, before, self._context.workspace)
        if not self._is_covered(act):
            await self._permit(request, call, subject)
        await self.before_change()
        named = (*act.paths, *((act.source,) if act.source else ()))
        entries = await anyio.to_thread.run_sync(directories_and_links, named)
        do = act.do if act.put is None else partial(act.put, _shown(act, before), partial(_hold, environment))
        with anyio.CancelScope(shield=True):
            await self._announce(call, before)
            allow_names(act.paths)
            if act.protected:
                async with environment.stopped() as still:
                    self._check_still(environment, still)
                    await anyio.to_thread.run_sync(do)
            else:
                async with environment.acting():
                    await anyio.to_thread.run_sync(do)
            for event in await anyio.to_thread.run_sync(self._written_files, call, act, before, subject):
                self._log.append(event)
            await self._record_entries(call, entries, named)
            self._notes[request.ordinal] = subject.note
            self._written.update(act.paths)
            if act.protected:
                self._allowed.update(act.paths)
            self._follow_own(act)
            if act.makes:
                self._made.update(filter(None, map(_identity, act.paths)))
            if act.protected:
                await self._hold_again(environment)

    async def _record_entries(self, call: ToolCallId, before: Mapping[str, Entry], paths: Sequence[str]) -> None:
        """Record the directories and links that were made, removed or changed."""
        after = await anyio.to_thread.run_sync(directories_and_links, paths)
        for path, old, new in changed_entries(before, after):
            contents = [self._content(each.target) for each in (old, new)]
            self._log.append(
                FileWritten(
                    execution_id=self._execution,
                    tool_call_id=call,
                    path=name_text(path),
                    before=self._kept(contents[0]),
                    after=self._kept(contents[1]),
                    before_digest=old.digest,
                    after_digest=new.digest,
                    unshown=True,
                    before_mode=old.mode,
                    after_mode=new.mode,
                )
            )

    def _follow_own(self, act: TreeAct) -> None:
        """Take note of the places where the statement's own content is after that act. Other acts make nothing its own:
        one allowed change of a file's times must not cover a change of its mode."""
        own = {path for path, content in act.becomes if content in self._own}
        self._own.difference_update(path for path, _ in act.becomes)
        self._own.update(own)

    def _is_covered(self, act: TreeAct) -> bool:
        """Return whether the statement's earlier acts cover it, so it does not ask."""
        if act.protected:
            return False
        in_new = act.makes and all(self._is_made(os.path.dirname(path)) for path in act.paths)
        return in_new or (act.is_minor and all(path in self._own or self._is_made(path) for path in act.paths))

    def _is_made(self, path: str) -> bool:
        return _identity(path) in self._made

    def _written_files(
        self, call: ToolCallId, act: TreeAct, before: Mapping[str, FileState], subject: TreeSubject
    ) -> list[FileWritten]:
        """Return the changes of the files. The last one has the changes that the user was shown.

        Blocks.
        """
        events: list[FileWritten] = []
        kept, note = shown_part(self._context.parts.redactor, subject.changes, "", SHOWN_CHANGES_CHARS)
        sources = {path: source for path, source in act.becomes if source not in (None, path)}
        for path, old, new in states_after(act, before):
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
                source=name_text(sources.get(path) or ""),
                protected=bool(act.protected),
            )
            if path == act.paths[-1]:
                event = replace(event, changes=kept, note=note)
            events.append(event)
        return events

    # --- programs -----------------------------------------------------------------------------------------------------

    async def _run(
        self, request: EffectRequest, call: ToolCallId, program: Program, environment: Environment
    ) -> object:
        """Run a program; return the statement's answer. Search output is not streamed.

        A search finds what statements may read, and no more: what is hidden from them is hidden from it, because they
        may exchange a file for a link while it walks.
        """

        shown: dict[str, list[str]] = {"stdout": [], "stderr": []}

        def show(stream: Literal["stdout", "stderr"], text: str) -> None:
            if program.asks:
                shown[stream].append(text)  # at most what is kept of the output
                self._context.parts.journal.signal(OutputStreamed(call, stream, text))

        cwd = name_text(program.request.cwd)
        asked = program.request
        domain = self._context.domain()
        if not program.asks:
            asked = replace(asked, domain=None if domain is None else replace(domain, writable=()))
        else:
            # In mode `auto` a command is sandboxed like statements, unless the user is asked about it.
            confined = self._context.parts.policy.mode == "auto" and not program.outside
            outside = program.outside and domain is not None
            await self._permit(request, call, CommandSubject(command=program.command, cwd=cwd, outside=outside))
            if domain is not None and confined:
                places = await anyio.to_thread.run_sync(self._context.workspace.protection.current_places)
                asked = replace(asked, domain=replace(domain, read_only=places))
            else:
                asked = replace(asked, distrusted=self._context.distrusted())
        if not program.asks:
            return await anyio.to_thread.run_sync(program.answer, await environment.command(asked, show))
        try:
            async with self._compared(call, outside=asked.domain is None) as changed:
                outcome = await environment.command(asked, show)
        except anyio.get_cancelled_exc_class():
            self._log.append(cancelled_command_event(call, self._execution, cwd, shown))
            raise
        self._log.append(command_event(call, self._execution, cwd, outcome))
        if asked.domain is None:
            await self._hold_again(environment)
        if asked.domain is not None and not outcome.reason:
            outcome = replace(outcome, reason=denial(outcome, has_network=asked.domain.network))
        return await anyio.to_thread.run_sync(program.answer, replace(outcome, changed=changed.text))

    @asynccontextmanager
    async def _compared(self, call: ToolCallId, *, outside: bool) -> AsyncGenerator[_Changed]:
        """Record what changes in the session's directories meanwhile, however it ends.

        It begins when all that led to it, such as the answer to a question, is on disk. New names of a program that
        runs `outside` the sandbox stay. Raises OSError.
        """
        await self._on_disk(Seq(len(self._log) - 1), "nothing was run")
        await self.before_change()
        found, begun = _Changed(), await self._context.comparison.begin()
        try:
            with pausing() if outside else nullcontext():
                yield found
        finally:
            with anyio.CancelScope(shield=True):
                changes = await self._context.comparison.end(begun, self._execution, call)
                found.text = changes.text
                for number, event in enumerate(changes.events, 1):
                    self._log.append(event)
                    self._written.add(event.path)
                    if outside:
                        self._allowed.add(event.path)
                    if number % _BATCH == 0:
                        await anyio.lowlevel.checkpoint()

    # --- MCP servers --------------------------------------------------------------------------------------------------

    async def _of_server(
        self, request: EffectRequest, call: ToolCallId, servers: SessionServers, module: str
    ) -> EffectAnswer:
        """Return what a server offers, or its tool's answer.

        Every tool counts as changing something: a server's own word is not trusted.
        """
        tool = called(request.operation)
        try:
            if tool is None:
                uri = request.arguments.get("uri")
                if not isinstance(uri, str):
                    return EffectAnswer(value=await servers.help(module))
                read = await servers.unlisted(module, uri)
                if read is not None or self._recorded is not None:
                    self._check_changes("the resource was not read" + (", because it is not listed" if read else ""))
                if read is not None:
                    self._check_address(uri)
                    await self._permit(request, call, _subject(read))
                return EffectAnswer(value=await servers.read(module, uri))
            self._check_changes(f"{request.operation}() was not called")
            meant = await servers.meant(module, tool[1], request.arguments)
            await self._permit(request, call, _subject(meant))
            async with self._compared(call, outside=True):
                value = await servers.call(
                    module,
                    meant,
                    lambda text: self._context.parts.journal.signal(OutputStreamed(call, "stdout", text)),
                    partial(self._fill_for_server, meant.server),
                    partial(self._sample_for_server, meant.server),
                )
            return EffectAnswer(value=value)
        except (OSError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            return error_answer(error)

    # --- the web ------------------------------------------------------------------------------------------------------

    def _check_address(self, text: str) -> None:
        if self._context.parts.redactor.holds(text):  # whole; who chooses the text could find out a piece
            raise PermissionError(SECRET_ADDRESS)

    async def _fetch(self, request: EffectRequest, call: ToolCallId, url: URL) -> object:
        """Fetch an address, and make a page Markdown; keep as a file what is not text."""

        async def permit(address: URL) -> None:
            site, text = site_of(address), str(address)
            self._check_address(text)
            if site not in self._sites:
                await self._permit(request, call, SiteSubject(url=text, site=site))
                self._sites.add(site)

        response = await self._context.fetcher.fetch(url, permit)
        return await anyio.to_thread.run_sync(fetched, response, self._context.downloads, abandon_on_cancel=True)

    # --- questions ----------------------------------------------------------------------------------------------------

    async def _fill(self, call: ToolCallId, message: str, fields: Sequence[Field], server: str = "") -> FormAnswer:
        """Ask the user. A question that the user closes ends the turn. Raises ValueError."""
        form = Form(
            tool_call_id=call, message=message, fields=tuple(fields), server=server, seq=Seq(len(self._log) - 1)
        )
        answer = await self._context.forms.ask(form)
        if answer.ends_turn:
            self._context.dismissed()
        return answer

    async def _fill_for_server(self, server: str, message: str, fields: Sequence[Field]) -> FormAnswer:
        """Ask what an MCP server asks during a call; show it as a call beside that. Raises ValueError."""
        call = self._context.parts.minter.tool_call()
        self._log.append(server_question_event(call, self.parent, server, message))
        status, text = "cancelled", CANCELLED
        try:
            answer = await self._fill(call, message, fields, server)
            status, text = "ok", answered_text(answer)
            return answer
        except ValueError as error:
            status, text = "error", str(error)
            raise
        finally:
            self._log.append(ToolResult(tool_call_id=call, status=status, text=text, parent_id=self.parent))

    async def _sample_for_server(self, server: str, wanted: Sampling) -> Sampled | None:
        """Get a reply of the model for an MCP server, if the user allows it; None if not.

        Question and reply are shown as a call beside the server's. Raises RuntimeError if there is no reply.
        """
        parts = self._context.parts
        if not parts.model.summarizes:
            raise RuntimeError(NO_MODEL)
        call, wanted = parts.minter.tool_call(), wanted.redacted(parts.redactor.redact)
        message = question(wanted, parts.model.spec.removeprefix("provider:"))
        self._log.append(server_question_event(call, self.parent, server, message))
        status, text = "cancelled", CANCELLED
        try:
            answer = await self._fill(call, message, FIELDS, server)
            status, text = "ok", answered_text(answer)
            if not is_allowed(answer):
                return None
            reply = await sampled(parts.model, wanted, self._log, server)
            text = cut_end(reply.text, SHOWN_CHARS)
            return reply
        except (ModelError, ValueError) as error:
            status, text = "error", str(error)
            raise RuntimeError(text) from error
        finally:
            self._log.append(ToolResult(tool_call_id=call, status=status, text=text, parent_id=self.parent))

    # --- permission ---------------------------------------------------------------------------------------------------

    async def _permit(self, request: EffectRequest, call: ToolCallId, subject: PermissionSubject) -> None:
        """Return if the act is allowed. Raises PermissionError."""
        if not self._is_asked(subject):
            return
        # A statement that tries again gets the same answer: the user is not asked twice about one act.
        key = argument_digest({"operation": request.operation, **request.arguments})
        if key not in self._rejected:
            verdict = await self._decide(call, subject)
            if verdict.outcome == "allowed":
                return
            if verdict.outcome == "cancelled":
                self._context.dismissed()
            self._rejected[key] = verdict
        self._refusals[request.ordinal] = self._rejected[key]
        raise PermissionError(self._rejected[key].reason)

    async def _decide(self, call: ToolCallId, subject: PermissionSubject) -> Verdict:
        """Ask the user.

        From the second file change on, the user can allow all further ones at once.
        """
        questions = self._context.questions
        if isinstance(subject, CommandSubject | ServerCallSubject) and questions.remembered(subject):
            # It may run what a program of this statement has made since the user's answer.
            return await questions.decide(call, subject, again=await self._context.has_appeared(self._allowed))
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
        domain = self._context.domain()
        held = domain is not None
        about = self._context.parts.policy.asks_about(sandboxed=held)
        if isinstance(subject, SiteSubject):
            # In mode `auto` a statement that has the network itself need not ask.
            has_network = domain is None or domain.network
            is_free = self._context.parts.policy.mode == "auto" and has_network
            return not is_free and not (self._approved and (not held or about == "statements"))
        if about is None and isinstance(subject, CommandSubject | ServerCallSubject):
            return held if isinstance(subject, ServerCallSubject) else subject.outside
        if is_protected(subject):
            return held or not self._approved
        # An approval does not cover what a statement does in a namespace in which a model has written: a name that the
        # user typed may mean something else since then.
        is_backed = self._approved and not (held and about == "acts")
        return about is not None and not is_backed

    # --- the record ---------------------------------------------------------------------------------------------------

    def _answered(self, request: EffectRequest, answer: EffectAnswer) -> EffectAnswered:
        event = EffectAnswered(
            execution_id=self._execution, ordinal=request.ordinal, operation=operation_name(request), error=answer.error
        )
        if answer.error is not None:
            return event
        if reading := self._readings.pop(request.ordinal, None):
            event = replace(event, path=name_text(reading.path), digest=reading.digest)
        data = msgspec.json.encode(answer.value)
        storable = self._context.parts.redactor.storable_json(data)
        if storable is None:
            return replace(event, withheld=withheld(data))
        return replace(event, result=self._context.parts.store.blob_put(storable))


def _subject(call: ServerCall) -> ServerCallSubject:
    return ServerCallSubject(server=call.server, tool=call.tool, arguments=shown_arguments(call.arguments))


def _identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a directory; None if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _hold(environment: Environment, path: str) -> None:
    """Let the kernel protect the file. Called on a thread."""
    anyio.from_thread.run(environment.hold, (path,))


def _shown(act: TreeAct, before: Mapping[str, FileState]) -> bytes:
    """Return the content that the user was shown for the last name of an act."""
    data = before[act.source].data
    if data is None:
        raise OSError(
            errno.EFBIG, f"the file is protected, and its new content was not read: {before[act.source].reason}"
        )
    return data
