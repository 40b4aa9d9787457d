"""The entries of a session's document, each made of its events when it is read.

Must not know which entries have changed: that is `document`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import asdict

from ...context.tail.feed import divergence_phrase
from ...context.tail.prompt import message_text
from ...context.tail.sent_prompts import PromptEntries, role_of
from ...core.execution import Captured, Display, ExceptionInfo, NamespaceDiff
from ...core.ids import BlobDigest
from ...core.pictures import Picture
from ...core.plain_data import DEEPEST, number
from ...core.text import valid_text
from ...core.toolbox import call_title
from ...log.cycles import rounds_of, steps_of
from ...log.cycles.machine import Item
from ...log.cycles.views import AiBlock, Call, Step
from ...log.events import Event
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    Attachment,
    Condensation,
    ResultRerendered,
    RunStop,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...log.events.execution import (
    CommandEnded,
    EffectAnswered,
    EffectRequested,
    FileWritten,
)
from ...log.events.going_back import (
    BranchCreated,
    Diverged,
    EditBegun,
    FileLeft,
    FileToRestore,
    HeadMoved,
    ReplayBegun,
    ReplayEnded,
    RewindBegun,
    Rewound,
)
from ...log.events.nodes import (
    FileChanged,
)
from ...log.events.session import (
    PromptQueued,
    PromptWithdrawn,
)
from . import shapes
from .drafts import Drafts
from .shapes import Text
from .texts import Texts, file_content

_STAMP: Final = frozenset(Event.__struct_fields__)
_NO_TEXT: Final = "the log or the store no longer has the content"


class EntryMaker:
    """Makes entries by their keys. `texts` collects the long texts and the contents that they name."""

    def __init__(self, drafts: Drafts, prompts: PromptEntries, content: Callable[[BlobDigest], str | None]) -> None:
        self.texts = Texts()
        self._drafts = drafts
        self._prompts = prompts
        self._content = content

    def statement(self, key: int) -> shapes.StatementEntry:
        told = self._drafts.statements[key]
        event = told.event
        by = "outside" if told.call is None else "user" if told.call.typed else "model"
        return shapes.StatementEntry(
            key=key,
            statement_id=valid_text(event.statement_id),
            index=event.index,
            branch=valid_text(event.branch_id),
            at=event.at,
            source=self.texts.text(event.source),
            kind=event.statement_kind,
            by="session" if event.statement_kind == "meta" else by,
            call=valid_text(event.tool_call_id),
            tags=tuple(map(valid_text, event.tag_names)),
            is_withheld=bool(event.withheld),
            omitted={valid_text(branch): omitted for branch, omitted in told.omitted.items()},
            executions=tuple(told.runs),
            before=told.before,
            after=tuple(told.after),
        )

    def execution(self, key: int) -> shapes.ExecutionEntry:
        run = self._drafts.runs[key]
        started, ended = run.started, run.finished
        text = self.texts.text
        return shapes.ExecutionEntry(
            key=key,
            execution_id=valid_text(started.execution_id),
            statement=run.statement,
            branch=valid_text(started.branch_id),
            status="running" if ended is None else ended.status,
            started_at=started.at if ended is None else ended.started_at,
            ended_at=None if ended is None else ended.ended_at,
            time_ms=0.0 if ended is None else ended.time_ms,
            mode=started.mode,
            against=None if started.against is None else valid_text(started.against),
            counts=started.counts,
            answered=started.answered,
            round=started.round_id,
            value=None if ended is None or ended.value is None else text(ended.value),
            markdown=None if ended is None or not ended.markdown else text(ended.markdown),
            pictures=() if ended is None else tuple(map(self._picture, ended.pictures)),
            error=None if ended is None or ended.exception is None else self._error(ended.exception),
            stdout=None if ended is None else self._output(ended.stdout),
            stderr=None if ended is None else self._output(ended.stderr),
            renders=() if ended is None else tuple(map(self._render, ended.displays)),
            names=() if ended is None else tuple(_names(ended.diff)),
            effects=tuple(self._effect(ordinal, *both) for ordinal, both in sorted(run.effects.items())),
            commands=tuple(map(self._command, run.commands)),
            files=tuple(run.files),
            divergences=tuple(map(_divergence, run.divergences)),
            checkpoint=run.checkpoint,
        )

    def _error(self, error: ExceptionInfo) -> shapes.ErrorEntry:
        return shapes.ErrorEntry(
            type=valid_text(error.type),
            message=self.texts.text(error.message),
            traceback=self.texts.text(error.traceback) if error.traceback else None,
        )

    def _output(self, output: Captured) -> shapes.OutputEntry | None:
        if not output.total_bytes and not output.text:
            return None
        return shapes.OutputEntry(text=self.texts.text(output.text), bytes=output.total_bytes, is_cut=output.truncated)

    def _picture(self, picture: Picture) -> shapes.PictureEntry:
        if picture.content is not None:
            self.texts.name(picture.content, picture.media_type)
        return shapes.PictureEntry(
            name=valid_text(picture.name),
            media_type=picture.media_type,
            digest=picture.content,
            width=picture.width,
            height=picture.height,
            size=picture.size,
            problem=valid_text(picture.problem),
        )

    def _render(self, display: Display) -> shapes.RenderEntry:
        return shapes.RenderEntry(
            handle=valid_text(display.obj_id),
            title=valid_text(display.title),
            text=self.texts.text(display.text),
            tokens=display.tokens,
            budget=display.budget,
            level=display.lod,
            first_line=display.first_line,
            last_line=display.last_line,
            lines=display.lines,
            state=valid_text(display.state),
            reason=valid_text(display.reason),
            follows=valid_text(display.freq),
            revision=valid_text(display.revision),
        )

    def _effect(
        self, ordinal: int, asked: EffectRequested | None, answered: EffectAnswered | None
    ) -> shapes.EffectEntry:
        either = asked or answered
        assert either is not None
        return shapes.EffectEntry(
            ordinal=ordinal,
            operation=valid_text(either.operation),
            call=valid_text(asked.tool_call_id or "") if asked else "",
            error=None if answered is None or answered.error is None else self._error(answered.error),
        )

    def _command(self, event: CommandEnded) -> shapes.CommandEntry:
        call = self._drafts.calls_made.get(event.tool_call_id)
        return shapes.CommandEntry(
            call=valid_text(event.tool_call_id),
            command=self.texts.text("" if call is None else str(call.arguments.get("command", ""))),
            cwd=valid_text(event.cwd),
            code=event.code,
            signal=event.signal,
            timed_out=event.timed_out,
            reason=valid_text(event.reason),
            time_ms=event.time_ms,
            output=self._output(event.output),
            errors=self._output(event.errors),
        )

    def file(self, path: str) -> shapes.FileEntry:
        changes = tuple(self._file_change(*each) for each in self._drafts.files[path])
        return shapes.FileEntry(key=path, name=self.name(path), changes=changes)

    def name(self, path: str) -> str:
        """Return a path relative to the session's directory, if it is below that."""
        at = self._drafts.moved or self._drafts.opened
        cwd = valid_text(at.cwd) if at else ""
        return os.path.relpath(path, cwd) if cwd and path.startswith(os.path.join(cwd, "")) else path

    def _file_change(self, key: str, event: Event, restored: FileToRestore | None) -> shapes.FileChangeEntry:
        if isinstance(event, FileWritten):
            return self._written(key, event)
        if restored is not None:
            return shapes.FileChangeEntry(
                key=key,
                at=event.at,
                branch=valid_text(event.branch_id),
                by="rewind",
                change=_change(restored.present_digest, restored.wanted_digest, restored.source),
                before=self._file_content(restored.present, restored.present_digest),
                after=self._file_content(restored.wanted, restored.wanted_digest),
                before_hash=valid_text(restored.present_digest),
                after_hash=valid_text(restored.wanted_digest),
                before_mode=restored.present_mode,
                after_mode=restored.wanted_mode,
                moved_from=valid_text(restored.source),
            )
        assert isinstance(event, FileChanged)
        return shapes.FileChangeEntry(
            key=key,
            at=event.at,
            branch=valid_text(event.branch_id),
            by="others",
            change="created" if event.change == "created" else "deleted" if event.change == "deleted" else "modified",
            before_hash=valid_text(event.before_digest),
            after_hash=valid_text(event.after_digest),
            text=self.texts.text(event.delta),
        )

    def _written(self, key: str, event: FileWritten) -> shapes.FileChangeEntry:
        run = self._drafts.run_of.get(event.execution_id)
        return shapes.FileChangeEntry(
            key=key,
            at=event.at,
            branch=valid_text(event.branch_id),
            by="statement",
            change=_change(event.before_digest, event.after_digest, event.source),
            statement=None if run is None else self._drafts.runs[run].statement,
            execution=run,
            call=valid_text(event.tool_call_id),
            before=self._file_content(event.before, event.before_digest),
            after=self._file_content(event.after, event.after_digest),
            before_hash=valid_text(event.before_digest),
            after_hash=valid_text(event.after_digest),
            before_mode=event.before_mode,
            after_mode=event.after_mode,
            regions=tuple(
                shapes.RegionEntry(
                    line=region.line,
                    new=self.texts.text(region.new),
                    old=None if region.old is None else self.texts.text(region.old),
                    more_added=region.left_out.added if region.left_out else 0,
                    more_removed=region.left_out.removed if region.left_out else 0,
                )
                for region in event.changes
            ),
            note=valid_text(event.note),
            is_noticed=event.noticed,
            unsure=valid_text(event.unsure),
            moved_from=valid_text(event.source),
            is_withheld=bool(event.withheld),
        )

    def _file_content(self, digest: BlobDigest | None, state: str) -> str | None:
        found = file_content(digest, state)
        if found is not None:
            self.texts.name(found, "")
        return found

    def item(self, key: int) -> shapes.ItemEntry | None:
        event = self._drafts.items[key]
        text = self.texts.text
        more: dict[str, Any]
        match event:
            case UserMessage():
                more = {
                    "type": "user",
                    "text": text(event.text),
                    "message": valid_text(event.message_id),
                    "kind": event.prompt_kind,
                    "is_aside": event.aside,
                    "expansion": text(event.expansion) if event.expansion else None,
                    "attachments": tuple(map(self._attachment, event.attachments)),
                }
            case AgentText() | AgentReasoning():
                more = {
                    "type": "reply" if isinstance(event, AgentText) else "reasoning",
                    "text": text(event.text),
                    "message": valid_text(event.message_id),
                    "response": valid_text(event.llm_response_id or ""),
                    "is_aside": isinstance(event, AgentText) and event.aside,
                }
            case ToolCall():
                more = {
                    "type": "call",
                    "call": valid_text(event.tool_call_id),
                    "tool": valid_text(event.tool),
                    "title": text(call_title(event.tool, event.arguments)).text,
                    "arguments": text(_json(event.arguments)),
                    "response": valid_text(event.llm_response_id or ""),
                    "parent": valid_text(event.parent_id or ""),
                    "is_typed": event.typed,
                    "is_refused": event.refused,
                }
            case ToolResult():
                more = {
                    "type": "result",
                    "text": text(event.text),
                    "call": valid_text(event.tool_call_id),
                    "status": event.status,
                    "parent": valid_text(event.parent_id or ""),
                    "pictures": tuple(map(self._picture, event.pictures)),
                }
            case ResultRerendered():
                more = {"type": "rerender", "text": text(event.text), "call": valid_text(event.tool_call_id)}
            case RunStop():
                more = {"type": "stop", "status": event.reason, "cause": event.cause, "text": text(event.detail or "")}
            case Condensation():
                more = {"type": "summary", "text": text(event.summary or ""), "forgotten": len(event.forgotten)}
            case PromptQueued():
                more = {"type": "queued", "text": text(event.text), "message": valid_text(event.message_id)}
            case _:
                more = {"type": "withdrawn", "message": valid_text(cast("PromptWithdrawn", event).message_id)}
        return shapes.ItemEntry(
            key=key, event=valid_text(event.event_id), at=event.at, branch=valid_text(event.branch_id), **more
        )

    def _attachment(self, attachment: Attachment) -> shapes.AttachmentEntry:
        return shapes.AttachmentEntry(
            uri=self.texts.text(attachment.uri).text,
            name=valid_text(attachment.name),
            media_type=valid_text(attachment.media_type or ""),
            text=None if attachment.text is None else self.texts.text(attachment.text),
            picture=None if attachment.picture is None else self._picture(attachment.picture),
        )

    def call(self, key: int) -> shapes.CallEntry:
        sent = self._drafts.sent[key - 1]
        event, ended = sent.event, sent.ended
        for digest in (event.instructions, event.tail):
            if digest is not None:
                self.texts.name(digest, "text/plain")
        counted = ended or event
        return shapes.CallEntry(
            key=key,
            position=event.seq,
            branch=valid_text(event.branch_id),
            at=event.at,
            round=event.round_id,
            used=event.used,
            size=event.size,
            shared=event.shared,
            sections={valid_text(name): tokens for name, tokens in event.sections.items()},
            handles=sent.handles,
            calls_tools=event.calls_tools,
            instructions=event.instructions,
            tail=event.tail,
            kept=sent.kept,
            messages=sent.messages,
            ended_at=None if ended is None else ended.at,
            answered=counted.answered,
            model="" if ended is None else valid_text(ended.model),
            input_tokens=counted.input_tokens,
            cached_tokens=counted.cached_tokens,
            output_tokens=counted.output_tokens,
            dollars=None if ended is None else ended.dollars,
        )

    def message(self, key: int) -> shapes.MessageEntry:
        event_id, calls_tools, digest = self._drafts.messages[key]
        shortened = None if digest is None else self._content(digest)
        try:
            message = self._prompts.message(event_id, shortened)
        except KeyError:
            return shapes.MessageEntry(key=key, event=valid_text(event_id), role="", text=Text(""), problem=_NO_TEXT)
        return shapes.MessageEntry(
            key=key,
            event=valid_text(event_id),
            role=valid_text(role_of(message)),
            text=self.texts.text(message_text(message, calls_tools=calls_tools)),
            is_shortened=digest is not None,
            problem=_NO_TEXT if digest is not None and shortened is None else "",
        )

    def handle(self, key: int) -> shapes.HandleEntry:
        held = self._drafts.handles[key]
        made, shown = held.made, held.shown
        return shapes.HandleEntry(
            key=key,
            handle=valid_text(made.obj_id),
            type=valid_text(made.obj_type),
            branch=valid_text(made.branch_id),
            at=made.at,
            statement=made.statement,
            line=made.line,
            name=valid_text(made.name),
            title=valid_text(shown.title) if shown else "",
            level=shown.lod if shown else 0,
            budget=shown.budget if shown else 0,
            tokens=shown.tokens if shown else 0,
            follows=valid_text(shown.freq) if shown else "",
            revision=valid_text(shown.revision) if shown else "",
            state=valid_text(shown.state) if shown else "",
            shown_at=held.shown_at,
            unread=held.unread,
            changes=tuple(
                shapes.HandleChange(seq=event.seq, at=event.at, type=cast(Any, kind), text=self.texts.text(text))
                for event, kind, text in held.changes
            ),
        )

    def question(self, key: int) -> shapes.QuestionEntry:
        asked, answered = self._drafts.questions[key]
        return shapes.QuestionEntry(
            key=key,
            call=valid_text(asked.tool_call_id),
            scope=valid_text(asked.scope),
            branch=valid_text(asked.branch_id),
            at=asked.at,
            outcome=None if answered is None else answered.outcome,
            answered_at=None if answered is None else answered.at,
            is_remembered=answered is not None and answered.remembered,
            rest=answered is not None and answered.rest,
        )

    def move(self, key: int) -> shapes.MoveEntry:
        move = self._drafts.moves[key]
        begun, ended = move.begun, move.ended
        more: dict[str, Any]
        match begun:
            case BranchCreated():
                more = {"type": "branch", "to": begun.branch, "origin": begun.parent, "before": begun.before}
            case HeadMoved():
                more = {"type": "switch", "to": begun.branch, "origin": begun.left, "statement": begun.statement}
            case ReplayBegun():
                more = {"type": "replay", "first": begun.first, "last": begun.last, "mode": begun.mode}
            case EditBegun():
                more = {"type": "edit", "first": begun.first, "last": begun.last}
            case _:
                assert isinstance(begun, RewindBegun | Rewound)
                more = {
                    "type": "rewind",
                    "statement": begun.statement,
                    "to": begun.branch or "" if isinstance(begun, RewindBegun) else "",
                    "is_undo": begun.undone is not None and not begun.is_redo,
                    "is_redo": begun.is_redo,
                    "is_cancelled": begun.cancelled,
                }
        if isinstance(ended, ReplayEnded):
            more |= {"outcome": ended.outcome, "detail": valid_text(ended.detail)}
        if isinstance(ended, Rewound):
            more |= {
                "restored": tuple(map(self._restored, ended.restored)),
                "left": tuple(map(self._restored, ended.left)),
                "is_cancelled": ended.cancelled,
            }
        plain: dict[str, Any] = {
            name: valid_text(value) if isinstance(value, str) else value for name, value in more.items()
        }
        return shapes.MoveEntry(
            key=key,
            branch=valid_text(begun.branch_id),
            at=begun.at,
            ended_at=None if ended is None else ended.at,
            **plain,
        )

    def _restored(self, file: FileToRestore | FileLeft) -> shapes.RestoredFile:
        path = valid_text(file.path)
        reason = valid_text(file.reason) if isinstance(file, FileLeft) else ""
        return shapes.RestoredFile(path=path, name=self.name(path), reason=reason)

    def note(self, key: int) -> shapes.NoteEntry:
        event = self._drafts.notes[key]
        plain = {name: value for name, value in asdict(event).items() if name not in _STAMP}
        fields = self._plain(msgspec.to_builtins(plain), 0)
        return shapes.NoteEntry(
            key=key,
            kind=event.kind,
            branch=valid_text(event.branch_id),
            at=event.at,
            fields=cast("dict[str, Any]", fields),
        )

    def _plain(self, value: object, depth: int) -> object:
        match value:
            case str():
                text = self.texts.text(value)
                return text.text if text.digest is None else text
            case bool() | None:
                return value
            case int() | float():
                return number(value)
            case dict() if depth < DEEPEST:
                pairs = cast("dict[object, object]", value).items()
                return {valid_text(str(name)): self._plain(item, depth + 1) for name, item in pairs}
            case list() | tuple() if depth < DEEPEST:
                return [self._plain(item, depth + 1) for item in cast("Sequence[object]", value)]
            case _:
                return None

    def request(self, key: str) -> shapes.RequestEntry:
        cycle = self._drafts.cycles[key]
        loop = rounds_of(cycle)
        return shapes.RequestEntry(
            key=valid_text(key),
            branch=valid_text(key.rpartition("/")[0]),
            number=cycle.number,
            root=cycle.root.seq,
            kind=cycle.root_kind,
            steps=tuple(map(_step, steps_of(cycle))),
            rounds=tuple(
                shapes.RoundEntry(
                    round=each.number,
                    response=valid_text(each.response_id or ""),
                    input=_seqs(each.given),
                    output=_seqs(each.output),
                )
                for each in loop.rounds
            ),
            unread=_seqs(loop.unread),
            late=_seqs(cycle.late),
            stop=None if cycle.stop is None else cycle.stop.seq,
        )


def _seqs(items: Iterable[Item]) -> tuple[int, ...]:
    return tuple(item.seq for item in items)


def _step(step: Step) -> shapes.StepEntry:
    if not isinstance(step, AiBlock):
        return shapes.StepEntry(type=step.step, message=step.message.seq)
    return shapes.StepEntry(
        type="ai-block",
        text=None if step.text is None else step.text.seq,
        statements=tuple(map(_step_call, step.statements)),
        groups=tuple(
            shapes.StepGroup(type=each.name, calls=tuple(map(_step_call, each.calls))) for each in step.groups
        ),
    )


def _step_call(call: Call) -> shapes.StepCall:
    return shapes.StepCall(call=call.call.seq, result=None if call.result is None else call.result.seq)


def _change(before: str, after: str, source: str) -> Any:
    if source:
        return "moved"
    return "created" if not before else "deleted" if not after else "modified"


def _names(diff: NamespaceDiff) -> Iterator[shapes.NameEntry]:
    for name, info in diff.added.items():
        yield shapes.NameEntry(
            name=valid_text(name), change="added", type=valid_text(info.type_name), value=valid_text(info.short_repr)
        )
    for name, change in diff.changed.items():
        yield shapes.NameEntry(
            name=valid_text(name),
            change="changed",
            type=valid_text(change.after.type_name),
            value=valid_text(change.after.short_repr),
            before_type=valid_text(change.before.type_name),
            before=valid_text(change.before.short_repr),
            mutated=change.mutated,
        )
    for name in diff.deleted:
        yield shapes.NameEntry(name=valid_text(name), change="deleted")
    for name, reason in diff.unknown.items():
        yield shapes.NameEntry(name=valid_text(name), change="unknown", reason=valid_text(reason))


def _divergence(event: Diverged) -> shapes.DivergenceEntry:
    return shapes.DivergenceEntry(
        aspect=event.aspect,
        before=valid_text(event.before),
        after=valid_text(event.after),
        against=valid_text(event.against),
        text=valid_text(divergence_phrase(event)),
    )


def _json(arguments: Mapping[str, object]) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError, OverflowError, RecursionError, UnicodeEncodeError):
        return valid_text(repr(arguments))
