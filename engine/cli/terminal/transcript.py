"""A session as a person reads it in a terminal: each event or streamed piece as styled text."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ...context.tail.feed import divergence_phrase, moved_sentence
from ...context.tail.results import REST_LEFT_OUT, given_text, output_text, printed_text
from ...context.tail.rights import entered_line, entered_sentence
from ...core.ids import MessageId, StatementId, ToolCallId
from ...core.text import as_printed, cut_middle, divided, plural, source_text, visible
from ...core.toolbox import call_title, tool_named
from ...log.events import AnyEvent
from ...log.events.conversation import (
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    ResultRerendered,
    RunStop,
    StopCause,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...log.events.execution import CommandEnded, ExecutionFinished, FileWritten, StatementRecorded
from ...log.events.going_back import Diverged, HeadMoved, ReplayBegun, Rewound
from ...log.events.nodes import FileChanged, NodeChanged
from ...log.events.session import DomainEntered, EnvironmentRestored
from ...log.file_history import rewound_lines
from ...log.permissions import ASKED_CHARS, CommandSubject, PermissionQuestion
from ...log.user_message import spoken_text
from ...session.journal import (
    FilesPutBack,
    Item,
    ModelRetried,
    OutputStreamed,
    ReasoningStreamed,
    StatementRerun,
    TextStreamed,
)
from ..output import shown_line
from .questions import asked, subject_shown
from .rendering import (
    Fold,
    Fragment,
    Highlight,
    Layout,
    Line,
    Markdown,
    diff,
    divided_at,
    indented,
    shown_markdown,
    wrapped,
)
from .screen import Printed

if TYPE_CHECKING:
    from .replies import Streamed

# How turns and commands ended, in words, and whether a value only says again what a command printed. Pure.

_STOPS: Final[dict[StopCause, str]] = {
    "cancelled": "cancelled",
    "max_tokens": "the reply was cut: it reached the length that the model allows",
    "max_turn_requests": "stopped: as many model calls as one turn may have (max_rounds)",
    "refusal": "the model refused to answer",
    "error": "error",
}
_COMPARED_CHARS: Final = 1_500
"""Of the output, less than the half that a value shows of a long one."""


def turn_ending(event: RunStop) -> str:
    """How the turn ended, and why."""
    return f"[{_STOPS[event.cause]}{f': {event.detail}' if event.detail else ''}]"


def cancelled_after(event: ExecutionFinished) -> str:
    """That a statement was cancelled, in one line."""
    return f"[cancelled after {event.time_ms / 1000:.1f} s]"


def ending(event: CommandEnded) -> str:
    """How the command ended; empty where that is well."""
    if event.timed_out:
        return f"[timed out after {event.time_ms / 1000:.1f} s]"
    if event.reason:
        return f"[ended: {event.reason}]"
    if event.signal is not None:
        return f"[killed by {_name(event.signal)}]"
    return f"[exit code {event.code}]" if event.code else ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a log from elsewhere may hold any number
        return f"signal {number}"


def repeats(value: str | None, output: str) -> bool:
    """Whether the value is that of the command which printed `output`: it begins with the same."""
    head = output.rstrip("\n")[:_COMPARED_CHARS]
    return value is not None and bool(head) and value.startswith(head)


# reruns:
# What a terminal says of statements that run again: one line for each, and one for each thing that differs.
#
# Pure. Used by `transcript`.


class Reruns:
    """Which statement of how many it is; `remark` is told of every event that is nothing else to the screen."""

    def __init__(self) -> None:
        self._numbers: dict[StatementId, int] = {}
        self._done, self._of = 0, 0

    def number(self, event: StatementRecorded) -> None:
        """A statement that may run again."""
        self._numbers[event.statement_id] = event.index

    def remark(self, event: AnyEvent) -> str | None:
        """The line to be shown; None for none."""
        match event:
            case ReplayBegun(statements=count):
                self._done, self._of = 0, count
                return None
            case Diverged(statement=number):
                return f"statement {number} came out differently: {divergence_phrase(event)}"
            case ExecutionFinished(statement_id=statement, status=status):
                self._done += 1
                done = f"{self._done} of {max(self._done, self._of)}"
                return f"statement {self._numbers.get(statement, '?')} ran again ({done}): {status}"
            case _:
                return None


# transcript:
# A session as a person reads it in a terminal: each event or piece of a stream gives the fragments to be written.
#
# Shows what happens and what happened in the same way; only that the user's own words, which the line editor leaves
# on the screen, are repeated for the past alone. What was streamed is not said again when it is whole. A statement is
# shown whole when it is announced, because a question about it may follow. Pure: holds where on the screen it is,
# writes nothing. Must not know the terminal. Called by `pump`, and for the past by `past`. A little over 300 lines,
# because each kind of event has its few lines here.
#
# For a person at a terminal (`Reading`) replies are rendered, everything is wrapped, what a model reads is folded,
# and what a spinner says is not said again. For one prompt, whose text goes to a program, all of it is there as it
# is.

INDENT: Final = "    "
"""Before what belongs to a statement of a model."""
_CALL_CHARS: Final = 100
_COMMAND_LINES: Final = 8
"""Lines of a command that stand above its output; a question about a longer one shows all of it."""
_LEAST_CHARS: Final = 20
"""Of a statement's line, however narrow the terminal is."""
_OPENING_CHARS: Final = 400
"""Of a statement that opens what was attached, and may hold the whole text of it."""
_PAST_CHARS: Final = 4_000
"""Of one text of the past, of which both ends are shown."""
_STREAMS: Final = ("stdout", "stderr")
_CONDENSED: Final = "the conversation so far was replaced by a summary of it"


class Reading(Struct, frozen=True):
    """How a person reads along: the cells of a line, and what shows a reply, or what a model thinks, as it comes."""

    width: Callable[[], int | None]
    reply: Callable[[], Streamed]
    thinking: Callable[[], Streamed]


class Transcript:
    """What has been shown, and the rules by which the next item is. One per session and terminal."""

    def __init__(
        self, cwd: str, highlight: Highlight, markdown: Markdown = shown_markdown, reading: Reading | None = None
    ) -> None:
        self._cwd = cwd
        self._reading = reading
        self._open: Streamed | None = None
        """The message that streams in, for who reads along."""
        self._open_message: MessageId | None = None
        self._folds: dict[ToolCallId, Fold] = {}
        self._indices: dict[ToolCallId, int] = {}
        self.last_folded: int | None = None
        """The statement whose result was folded last."""
        self._commands: dict[ToolCallId, str] = {}
        """Commands that stand on the screen whole."""
        self._cancel_is_said = False
        self._highlight = highlight
        self._markdown = markdown
        self._layout = Layout()
        self._streamed: set[MessageId] = set()
        self._typed: set[ToolCallId] = set()
        self._sources: dict[StatementId, StatementRecorded] = {}
        self._reruns = Reruns()
        self._foreign: dict[ToolCallId, ToolCall] = {}
        """Calls without a parent or a statement: those that have a result are of another program."""
        self._printed: dict[tuple[ToolCallId, str], Printed] = {}
        self._parents: dict[ToolCallId, ToolCallId] = {}
        """By the call of a tool, the call of its statement."""
        self._command = ""
        """What the last command of the running statement printed, of which the value may be the same again."""
        self._decided: set[ToolCallId] = set()
        """Calls whose whole effect was shown to be decided about."""
        self._changed: FileChanged | None = None
        self._is_told = False
        """Whether the answer of `/compact` says what the last condensation did."""

    def begin(self) -> None:
        """The user has typed, and the screen is at the start of a line."""
        self._layout.begin()

    def finish_line(self) -> list[Fragment]:
        """What brings the screen to the start of a line."""
        return self._layout.finish_line()

    def question(self, question: PermissionQuestion) -> list[Fragment]:
        """What is to be written to ask the user; a statement stands there already, whole."""
        call = question.tool_call_id
        shown: list[Fragment] = []
        if not any(each.tool_call_id == call for each in self._sources.values()):
            self._decided.add(call)
            if not self._stands_above(question):
                shown = self._wrapped(subject_shown(question.subject, self._highlight))
        before = [part for each in list(self._folds) for part in self._end_fold(each)]
        rows = self._wrapped(asked(question), "       ")
        return [*before, *self._whole(question.seq, shown), *self.finish_line(), *self._layout.said(rows)]

    def _stands_above(self, question: PermissionQuestion) -> bool:
        """Whether the call's own line shows all of what is asked about."""
        subject = question.subject
        return isinstance(subject, CommandSubject) and self._commands.get(question.tool_call_id) == subject.command

    def tail(self) -> list[Line]:
        """The lines below all that was written: what has begun to come and is not complete."""
        if self._open is not None:
            return self._open.tail()
        return [fold.open_line for fold in self._folds.values() if fold.open_line]

    def remember(self, events: Iterable[AnyEvent]) -> None:
        """Takes what later events refer to by its id and is not shown itself."""
        for event in events:
            if isinstance(event, StatementRecorded):
                self._reruns.number(event)

    def answer(self, text: str) -> list[Fragment]:
        """What is to be written for an answer of the program itself, in Markdown."""
        return self._whole(object(), self._markdown(visible(text)))

    # --- what is to be written ----------------------------------------------------------------------------------------

    def show(self, item: Item) -> list[Fragment]:
        """What is to be written for something that happens now."""
        match item:
            case TextStreamed(message_id=message, text=text, aside=True):
                self._streamed.add(message)
                return self.answer(text)
            case TextStreamed(message_id=message, text=text):
                return self._streaming(message, "", text)
            case ReasoningStreamed(message_id=message, text=text):
                return self._streaming(message, "thinking", text)
            case OutputStreamed(tool_call_id=call, stream=stream, text=text):
                printed = self._printed.setdefault((call, stream), Printed())
                return self._output(call, stream, printed.add(text))
            case StatementRerun(statement=number, place=place, total=total, state="begun" | "running") if (
                self._reading is None
            ):
                return self.note(f"statement {number} runs again, for its names ({place} of {total})")
            case UserMessage() | FilesPutBack() | StatementRerun() | ModelRetried():
                return []
            case _:
                return self._event(cast("AnyEvent", item))

    def show_past(self, event: AnyEvent) -> list[Fragment]:
        """What is to be written for something that happened before this process had the session."""
        match event:
            case UserMessage():
                self._layout.leave()
                text = visible(cut_middle(spoken_text(event), _PAST_CHARS))
                return self._whole(event.message_id, [("user", f"> {text.replace(chr(10), f'{chr(10)}  ')}\n")])
            case DomainEntered() if self._reading is not None:
                return []  # because it was said when it happened
            case AgentText(text=text) | AgentReasoning(text=text) | ToolResult(text=text):
                return self._event(replace(event, text=cut_middle(text, _PAST_CHARS)))
            case _:
                return self._event(event)

    def _event(self, event: AnyEvent) -> list[Fragment]:
        changed, self._changed = self._changed, None
        fragments = self._file_changed(changed, event) if changed is not None else []
        return [*fragments, *self._of(event)]

    def _of(self, event: AnyEvent) -> list[Fragment]:
        match event:
            case AgentText() | AgentReasoning():
                return self._message(event)
            case ToolCall():
                return self._called(event)
            case StatementRecorded():
                return self._statement(event)
            case ExecutionFinished(mode=None):
                return self._finished(event)
            case FileWritten():
                return self._written(event)
            case CommandEnded():
                return self._command_ended(event)
            case FileChanged():
                self._changed = event
                return []
            case RunStop():
                return self._stopped(event)
            case _:
                return self._remark(event)

    def _remark(self, event: AnyEvent) -> list[Fragment]:
        match event:
            case ToolResult(tool_call_id=call, text=text) if call in self._foreign:
                title = shown_line(call_title(self._foreign[call].tool, self._foreign.pop(call).arguments), _CALL_CHARS)
                shown = [*self._of_statement(call, [("quiet", f"~ {title}\n")]), *self._block_of(call, "", text)]
                return [*shown, *self._end_fold(call)]
            case ToolResult(status="rejected", text=text, parent_id=None):
                return self.note(text)
            case EnvironmentRestored(executions=count, sentences=sentences):
                head = f"the names were rebuilt: {count} {plural(count, 'statement')} ran again in a new worker"
                return self.note("\n".join([head, *sentences]))
            case DomainEntered():
                return self.note(entered_sentence(event) if self._reading is None else entered_line(event))
            case Rewound():
                lines = rewound_lines(event, lambda path: os.path.relpath(path, self._cwd))
                return self.note("\n".join(lines)) if lines else []
            case HeadMoved():
                return self.note(moved_sentence(event))
            case CondensationRequest(reason=reason):
                self._is_told = reason == "asked"
                return []
            case Condensation():
                return [] if self._is_told else self.note(_CONDENSED)
            case ResultRerendered(statement=statement):
                return self.note(f"a model reads the result of statement {statement} as its handles are now")
            case _:
                line = self._reruns.remark(event)
                return self.note(line) if line else []

    # --- messages -----------------------------------------------------------------------------------------------------

    def _streaming(self, message: MessageId, style: str, text: str) -> list[Fragment]:
        self._streamed.add(message)
        if self._reading is None:
            return self._piece(message, style, text)
        start = self._enter(message)
        if self._open is None:
            self._open_message = message
            self._open = self._reading.thinking() if style else self._reading.reply()
        return [*start, *self._layout.said(self._open.add(visible(text.replace("\r\n", "\n"))))]

    def _enter(self, block: object) -> list[Fragment]:
        """What divides this block from the one before. A message that streams in ends where something else is shown."""
        before = self._end_open() if self._open is not None and block != self._open_message else []
        return [*before, *self._layout.enter(block)]

    def _whole(self, block: object, fragments: Iterable[Fragment]) -> list[Fragment]:
        return [*self._enter(block), *self._layout.said(fragments)]

    def _end_open(self) -> list[Fragment]:
        stream, self._open = self._open, None
        return [] if stream is None else self._layout.said(stream.end())

    def _piece(self, message: MessageId, style: str, text: str) -> list[Fragment]:
        return [*self._enter(message), *self._layout.said([(style, visible(text.replace("\r\n", "\n")))])]

    def _message(self, event: AgentText | AgentReasoning) -> list[Fragment]:
        if event.message_id in self._streamed:
            self._streamed.discard(event.message_id)
            return [*self._end_open(), *self.finish_line()]
        if isinstance(event, AgentText) and event.aside:
            return self.answer(event.text)
        style = "thinking" if isinstance(event, AgentReasoning) else ""
        if self._reading is not None and event.text:
            return [*self._streaming(event.message_id, style, event.text), *self._end_open(), *self.finish_line()]
        return [*self._piece(event.message_id, style, event.text), *self.finish_line()] if event.text else []

    def note(self, text: str) -> list[Fragment]:
        """Something that is said of the session."""
        return self._whole(object(), self._wrapped([("notice", f"[{as_printed(text)}]\n")], " "))

    def _wrapped(self, fragments: list[Fragment], hang: str = "") -> list[Fragment]:
        return fragments if self._reading is None else wrapped(fragments, self._reading.width(), hang)

    def _stopped(self, event: RunStop) -> list[Fragment]:
        self._streamed.clear()
        before, is_said = self._end_open(), self._cancel_is_said
        self._cancel_is_said = False
        if event.cause == "end_turn" or (event.cause == "cancelled" and is_said and not event.detail):
            return [*before, *self.finish_line()]
        style = "error" if event.cause == "error" else "notice"
        shown = self._wrapped([(style, as_printed(turn_ending(event)) + "\n")], " ")
        return [*before, *self._whole(event.event_id, shown)]

    # --- statements ---------------------------------------------------------------------------------------------------

    def _called(self, event: ToolCall) -> list[Fragment]:
        if event.parent_id is None:
            if event.typed:
                self._typed.add(event.tool_call_id)
            self._foreign[event.tool_call_id] = event
            return self.note(REST_LEFT_OUT) if event.rest_left_out else []
        title = shown_line(call_title(event.tool, event.arguments), _CALL_CHARS)
        self._parents[event.tool_call_id] = event.parent_id
        tool = tool_named(event.tool)
        if event.parent_id in self._typed and tool is not None and tool.kind in ("read", "search"):
            return []  # because who typed it knows
        mark = "$" if tool is not None and tool.kind == "execute" else "~"
        command = event.arguments.get("command") if mark == "$" else None
        if self._reading is not None and isinstance(command, str):
            whole = source_text(command, ASKED_CHARS)
            if whole.count("\n") < _COMMAND_LINES:
                self._commands[event.tool_call_id] = command
                title = whole.replace("\n", "\n  ")
        return self._of_statement(event.parent_id, [("quiet", f"{mark} {title}\n")])

    def _statement(self, event: StatementRecorded) -> list[Fragment]:
        self._sources[event.statement_id] = event
        self._reruns.number(event)
        self._foreign.pop(event.tool_call_id, None)
        self._indices[event.tool_call_id] = event.index
        if event.tool_call_id in self._typed:
            return []
        is_opening = event.statement_kind == "meta"
        head = f"{event.index}> "
        width = self._reading and self._reading.width()
        divide = partial(divided_at, width=max(width - len(head), _LEAST_CHARS)) if width else divided
        source = source_text(event.source, _OPENING_CHARS if is_opening else ASKED_CHARS, divide)
        fragments = indented([("quiet", source)] if is_opening else self._highlight(source), " " * len(head), False)
        return self._whole(event.tool_call_id, [("quiet", head), *fragments, ("", "\n")])

    def _written(self, event: FileWritten) -> list[Fragment]:
        """The change that was made; one that was decided about stands above."""
        if event.tool_call_id in self._decided or event.unshown:
            return []
        # A log from elsewhere may hold an empty path, of which there is none that is relative.
        name = os.path.relpath(event.path, self._cwd) if event.path else ""
        shown = diff(name, event.changes, event.note)
        return self._of_statement(self._parents.get(event.tool_call_id, event.tool_call_id), shown)

    def _command_ended(self, event: CommandEnded) -> list[Fragment]:
        call = event.tool_call_id
        statement = self._parents.get(call, call)
        self._command = as_printed(event.output.text)
        if self._is_streamed(call):
            result = self._rest_of_output(call)
        else:
            result = self._block_of(statement, "", printed_text(event.output.text, event.errors.text))
        return result + self._block_of(statement, "notice", ending(event))

    def _is_streamed(self, call: ToolCallId) -> bool:
        return any((call, stream) in self._printed for stream in _STREAMS)

    def _rest_of_output(self, call: ToolCallId) -> list[Fragment]:
        """What is left of what was streamed when nothing more comes."""
        return [
            fragment
            for stream in _STREAMS
            if (printed := self._printed.pop((call, stream), None)) is not None
            for fragment in self._output(call, stream, printed.end())
        ]

    def _output(self, call: ToolCallId, stream: str, text: str) -> list[Fragment]:
        statement = self._parents.get(call, call)
        return self._result(statement, [("stderr" if stream == "stderr" else "", text)]) if text else []

    def _finished(self, event: ExecutionFinished) -> list[Fragment]:
        statement = self._sources.pop(event.statement_id, None)
        if statement is None:
            return []
        call = statement.tool_call_id
        self._parents.clear()  # because one statement runs at a time
        self._decided.clear()
        self._commands.clear()
        was_cancelled = self._reading is not None and event.status == "cancelled"
        if self._is_streamed(call):
            result = [*self._rest_of_output(call), *self._cut(call, event)]
        else:
            result = self._block_of(call, "", output_text(event))
        if repeats(event.value, self._command):
            event = replace(event, value=None)
        self._command = ""
        result += self._block_of(call, "", given_text(replace(event, exception=None, status="ok")))
        if was_cancelled:
            self._cancel_is_said = True
            result += self._block_of(call, "notice", cancelled_after(event))
        else:
            result += self._block_of(call, "error", given_text(replace(event, displays=(), value=None)))
        self._indices.pop(call, None)
        return result + self._end_fold(call)

    def _cut(self, call: ToolCallId, event: ExecutionFinished) -> list[Fragment]:
        """Says of each stream of which not all was kept, and so not all streamed, how much there was."""
        return [
            fragment
            for captured in (event.stdout, event.stderr)
            if captured.truncated
            for fragment in self._block_of(call, "notice", f"[... {captured.total_bytes:,} bytes in all]")
        ]

    def _block_of(self, call: ToolCallId, style: str, text: str) -> list[Fragment]:
        if not text:
            return []
        block = [(style, as_printed(text).rstrip("\n") + "\n")]
        if call in self._typed:
            block = self._wrapped(block)
        elif call in self._folds and self._folds[call].open_line:
            block.insert(0, ("", "\n"))
        return [*self.finish_line(), *self._result(call, block)]

    def _result(self, call: ToolCallId, fragments: list[Fragment]) -> list[Fragment]:
        """What a model reads of its statement: folded, for a person."""
        if self._reading is None or call in self._typed:
            return self._of_statement(call, fragments)
        fold = self._folds.get(call)
        if fold is None:
            fold = self._folds[call] = Fold(self._indices.get(call), INDENT, self._reading.width())
        return [*self._enter(call), *self._layout.said(fold.add(fragments))]

    def _end_fold(self, call: ToolCallId) -> list[Fragment]:
        fold = self._folds.pop(call, None)
        if fold is None:
            return []
        shown = fold.end()
        self.last_folded = fold.statement if fold.is_folded else self.last_folded
        return [*self._enter(call), *self._layout.said(shown)] if shown else []

    def _file_changed(self, changed: FileChanged, following: AnyEvent) -> list[Fragment]:
        """A file behind a running view changed; the view says more of it, if that is what follows."""
        delta = changed.delta
        if isinstance(following, NodeChanged) and following.delta.startswith(delta):
            delta = following.delta
        return self._whole(changed.event_id, [("place", as_printed(delta).rstrip("\n") + "\n")])

    def _of_statement(self, call: ToolCallId, fragments: list[Fragment]) -> list[Fragment]:
        """What belongs to a statement: indented below its source; at the margin where the user typed it."""
        if call in self._typed:
            return self._layout.said(fragments)
        start = [*self._end_fold(call), *self._enter(call)]
        return [*start, *self._layout.said(self._wrapped(indented(fragments, INDENT, self._layout.at_start)))]
