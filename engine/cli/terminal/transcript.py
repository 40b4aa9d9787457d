"""A session as a person reads it in a terminal: returns styled text for each event or streamed piece.

Live events and those of the past look the same, with one exception: the user's own text is on the screen already, and
is repeated only for the past. Streamed text is not repeated when its event arrives. A statement is shown whole when it
is announced, because a question about it may follow. Longer than others, because each kind of event has its few lines.

For a person (`Reading`) replies are rendered, everything is wrapped, results are folded, and the spinner's progress is
not repeated. For one prompt, whose output may go to a program, everything is shown as it is.

Pure: it has the screen's state, and writes nothing. Must not know the terminal. Called for live items through `Pump`,
and for the past by `program`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ...context.tail.feed import plan_lines
from ...context.tail.results import REST_LEFT_OUT, given_text, output_text, printed_text
from ...context.tail.rights import entered_line, entered_sentence
from ...core.ids import MessageId, StatementId, ToolCallId
from ...core.pictures import Picture, description
from ...core.text import as_printed, cut_middle, divided, plural, source_text, visible
from ...core.toolbox import PLAN, call_title, tool_named
from ...log.events import AnyEvent
from ...log.events.conversation import (
    CONTINUED_ELSEWHERE,
    AgentReasoning,
    AgentText,
    Condensation,
    CondensationRequest,
    RunStop,
    StopCause,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...log.events.execution import CommandEnded, ExecutionFinished, FileWritten, StatementRecorded
from ...log.events.going_back import HeadMoved, ReplayBegun, Rewound
from ...log.events.nodes import FileChanged, NodeChanged
from ...log.events.session import DomainEntered, EnvironmentRestored, PlanChanged
from ...log.file_history import rewound_lines
from ...log.forms import Form
from ...log.permissions import ASKED_CHARS, CommandSubject, PermissionQuestion
from ...log.user_message import spoken_text
from ...session.journal import (
    CommandsListed,
    FilesPutBack,
    Item,
    ModelDelayed,
    ModelRetried,
    ModelsListed,
    OutputStreamed,
    ReasoningStreamed,
    StatementRerun,
    TextStreamed,
)
from ..output import branch_sentence, shown_line
from .prompt_result import PLANNED
from .questions import asked, form_shown, subject_shown
from .rendering import Fragment, Highlight, Line, Markdown, diff, divided_at, indented, shown_markdown, wrapped
from .streams import Fold, Layout, Printed

if TYPE_CHECKING:
    from .replies import Streamed


INDENT: Final = "    "
"""Goes before everything below a model's statement."""
_CALL_CHARS: Final = 100
_COMMAND_LINES: Final = 8
"""The most lines of a command above its output. A question about a longer one shows all of it."""
_LEAST_CHARS: Final = 20
"""The fewest characters of a statement's line, even on a narrow terminal."""
_OPENING_CHARS: Final = 400
"""The most of a statement that opens attachments, which may contain their whole text."""
_PAST_CHARS: Final = 4_000
"""The most of one text of the past; the middle is cut."""
_STREAMS: Final = ("stdout", "stderr")
_CONDENSED: Final = "a summary replaced the conversation so far"


class Reading(Struct, frozen=True):
    """How a person reads along.

    `width` returns the cells of a line; `reply` and `thinking` make what shows a message while it arrives.
    """

    width: Callable[[], int | None]
    reply: Callable[[], Streamed]
    thinking: Callable[[], Streamed]


class Transcript:
    """The text of one session on one terminal, and the state of its screen."""

    def __init__(
        self,
        cwd: str,
        highlight: Highlight,
        markdown: Markdown = shown_markdown,
        reading: Reading | None = None,
        picture_line: Callable[[Picture], str] = description,
    ) -> None:
        """`picture_line` says in a line what a picture shows, and where it is."""
        self._cwd = cwd
        self._picture_line = picture_line
        self._reading = reading
        self._open: Streamed | None = None
        """For a person: the message that is arriving."""
        self._open_message: MessageId | None = None
        self._folds: dict[ToolCallId, Fold] = {}
        self._indices: dict[ToolCallId, int] = {}
        self.last_folded: int | None = None
        """The statement whose result was folded last."""
        self._commands: dict[ToolCallId, str] = {}
        """Commands that are on the screen in full."""
        self._cancel_is_reported = False
        self._highlight = highlight
        self._markdown = markdown
        self._layout = Layout()
        self._streamed: set[MessageId] = set()
        self._typed: set[ToolCallId] = set()
        self._sources: dict[StatementId, StatementRecorded] = {}
        self._reruns = Reruns()
        self._foreign: dict[ToolCallId, ToolCall] = {}
        """Calls without a parent or statement. If they get a result, another program made them."""
        self._printed: dict[tuple[ToolCallId, str], Printed] = {}
        self._parents: dict[ToolCallId, ToolCallId] = {}
        """For a tool's call, the call of its statement."""
        self._command = ""
        """The output of the running statement's last command. The value may repeat it."""
        self._decided: set[ToolCallId] = set()
        """Calls whose whole effect a question has shown."""
        self._changed: FileChanged | None = None
        self._is_reported = False
        """Whether the answer of `/compact` reports the last condensation."""

    def begin(self) -> None:
        """Note that the user has typed, and a line begins."""
        self._layout.begin()

    def finish_line(self) -> list[Fragment]:
        """Return what moves the screen to the start of a line."""
        return self._layout.finish_line()

    def question(self, question: PermissionQuestion) -> list[Fragment]:
        """Show a question. Its statement is on the screen already."""
        call = question.tool_call_id
        shown: list[Fragment] = []
        if not any(each.tool_call_id == call for each in self._sources.values()):
            self._decided.add(call)
            if not self._is_above(question):
                shown = self._wrapped(subject_shown(question.subject, self._highlight))
        before = [part for each in list(self._folds) for part in self._end_fold(each)]
        rows = self._wrapped(asked(question), "       ")
        return [*before, *self._whole(question.seq, shown), *self.finish_line(), *self._layout.placed(rows)]

    def form(self, form: Form) -> list[Fragment]:
        """Show a question that is answered with values."""
        before = [part for each in list(self._folds) for part in self._end_fold(each)]
        rows = self._wrapped(form_shown(form), "       ")
        return [*before, *self._whole(form.seq, []), *self.finish_line(), *self._layout.placed(rows)]

    def _is_above(self, question: PermissionQuestion) -> bool:
        """Whether the line of the call shows the whole command."""
        subject = question.subject
        return isinstance(subject, CommandSubject) and self._commands.get(question.tool_call_id) == subject.command

    def tail(self) -> list[Line]:
        """Return the unfinished lines, to be shown below for now."""
        if self._open is not None:
            return self._open.tail()
        return [fold.open_line for fold in self._folds.values() if fold.open_line]

    def remember(self, events: Iterable[AnyEvent]) -> None:
        """Note what later events refer to, without showing it."""
        for event in events:
            if isinstance(event, StatementRecorded):
                self._reruns.number(event)

    def answer(self, text: str) -> list[Fragment]:
        """Show an answer of the program itself, in Markdown."""
        return self._whole(object(), self._markdown(visible(text)))

    # --- writing ------------------------------------------------------------------------------------------------------

    def show(self, item: Item) -> list[Fragment]:
        """Show something that happens now."""
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
                return self.note(f"statement {number} runs again to restore variables ({place} of {total})")
            case ModelRetried(withdrawn=withdrawn, reason=reason, instead=model) if withdrawn or model:
                broken = "the reply broke off and was discarded: " if withdrawn else ""
                asked = f"; asking {visible(model)} instead" if model else ""
                return self.note(f"{broken}{visible(reason).rstrip('.')}{asked}")
            case UserMessage() | FilesPutBack() | StatementRerun() | ModelRetried() | ModelDelayed():
                return []
            case ModelsListed() | CommandsListed():
                return []
            case _:
                return self._event(cast("AnyEvent", item))

    def show_past(self, event: AnyEvent) -> list[Fragment]:
        """Show something that happened before this process had the session."""
        match event:
            case UserMessage():
                self._layout.leave()
                text = visible(cut_middle(spoken_text(event), _PAST_CHARS))
                return self._whole(event.message_id, [("user", f"> {text.replace(chr(10), f'{chr(10)}  ')}\n")])
            case DomainEntered() if self._reading is not None:
                return []  # it was shown when it happened
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
            case PlanChanged():
                return self._planned(event)
            case _:
                return self._remark(event)

    def _planned(self, event: PlanChanged) -> list[Fragment]:
        lines = [PLANNED, *plan_lines(event.entries)] if event.entries else []
        shown = [("notice", f"{line}\n") for line in lines]
        return self._whole(event.event_id, self._wrapped(shown, INDENT)) if shown else []

    def _remark(self, event: AnyEvent) -> list[Fragment]:
        match event:
            case ToolResult(tool_call_id=call, text=text) if call in self._foreign and self._foreign[call].refused:
                del self._foreign[call]
                return self.note(text)
            case ToolResult(tool_call_id=call, text=text) if call in self._foreign:
                title = shown_line(call_title(self._foreign[call].tool, self._foreign.pop(call).arguments), _CALL_CHARS)
                shown = [*self._below_statement(call, [("quiet", f"~ {title}\n")]), *self._block_of(call, "", text)]
                return [*shown, *self._end_fold(call)]
            case ToolResult(status="rejected", text=text, parent_id=None):
                return self.note(text)
            case EnvironmentRestored(executions=count, sentences=sentences):
                head = f"variables were restored: {count} {plural(count, 'statement')} ran again in a new worker"
                return self.note("\n".join([head, *sentences]))
            case DomainEntered():
                return self.note(entered_sentence(event) if self._reading is None else entered_line(event))
            case Rewound():
                lines = rewound_lines(event, lambda path: os.path.relpath(path, self._cwd))
                return self.note("\n".join(lines)) if lines else []
            case HeadMoved():
                return self.note(branch_sentence(event))
            case CondensationRequest(reason=reason):
                self._is_reported = reason == "asked"
                return []
            case Condensation():
                return [] if self._is_reported else self.note(_CONDENSED)
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
        return [*start, *self._layout.placed(self._open.add(visible(text.replace("\r\n", "\n"))))]

    def _enter(self, block: object) -> list[Fragment]:
        """Return the separator before this block.

        An arriving message ends when another block is shown.
        """
        before = self._end_open() if self._open is not None and block != self._open_message else []
        return [*before, *self._layout.enter(block)]

    def _whole(self, block: object, fragments: Iterable[Fragment]) -> list[Fragment]:
        return [*self._enter(block), *self._layout.placed(fragments)]

    def _end_open(self) -> list[Fragment]:
        stream, self._open = self._open, None
        return [] if stream is None else self._layout.placed(stream.end())

    def _piece(self, message: MessageId, style: str, text: str) -> list[Fragment]:
        return [*self._enter(message), *self._layout.placed([(style, visible(text.replace("\r\n", "\n")))])]

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
        """Show a remark on the session."""
        return self._whole(object(), self._wrapped([("notice", f"[{as_printed(text)}]\n")], " "))

    def _wrapped(self, fragments: list[Fragment], hang: str = "") -> list[Fragment]:
        return fragments if self._reading is None else wrapped(fragments, self._reading.width(), hang)

    def _stopped(self, event: RunStop) -> list[Fragment]:
        self._streamed.clear()
        before, is_reported = self._end_open(), self._cancel_is_reported
        self._cancel_is_reported = False
        is_told = is_reported and not event.detail
        if event.cause == "end_turn" or (event.cause == "cancelled" and is_told) or event.detail == CONTINUED_ELSEWHERE:
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
        self._parents[event.tool_call_id] = event.parent_id
        if event.tool == PLAN:
            return []  # because the plan follows
        title = shown_line(call_title(event.tool, event.arguments), _CALL_CHARS)
        tool = tool_named(event.tool)
        if event.parent_id in self._typed and tool is not None and tool.kind in ("read", "search"):
            return []  # the person has just typed it
        mark = "$" if tool is not None and tool.kind == "execute" else "~"
        command = event.arguments.get("command") if mark == "$" else None
        if self._reading is not None and isinstance(command, str):
            whole = source_text(command, ASKED_CHARS)
            if whole.count("\n") < _COMMAND_LINES:
                self._commands[event.tool_call_id] = command
                title = whole.replace("\n", "\n  ")
        return self._below_statement(event.parent_id, [("quiet", f"{mark} {title}\n")])

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
        """Show a change. A change that a question has shown is not repeated."""
        if event.tool_call_id in self._decided or event.unshown:
            return []
        # An imported log may contain an empty path, which has no relative form.
        name = os.path.relpath(event.path, self._cwd) if event.path else ""
        shown = diff(name, event.changes, event.note)
        return self._below_statement(self._parents.get(event.tool_call_id, event.tool_call_id), shown)

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
        """Return the rest of streamed output, when nothing more arrives."""
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
        self._parents.clear()  # only one statement runs at a time
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
        result += self._block_of(call, "", "\n".join(map(self._picture_line, event.pictures)))
        if was_cancelled:
            self._cancel_is_reported = True
            result += self._block_of(call, "notice", cancelled_after(event))
        else:
            result += self._block_of(call, "error", given_text(replace(event, displays=(), value=None)))
        self._indices.pop(call, None)
        return result + self._end_fold(call)

    def _cut(self, call: ToolCallId, event: ExecutionFinished) -> list[Fragment]:
        """For each stream that was cut, return a line with its full size."""
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
        """Show a statement's result: folded, if a person reads it."""
        if self._reading is None or call in self._typed:
            return self._below_statement(call, fragments)
        fold = self._folds.get(call)
        if fold is None:
            fold = self._folds[call] = Fold(self._indices.get(call), INDENT, self._reading.width())
        return [*self._enter(call), *self._layout.placed(fold.add(fragments))]

    def _end_fold(self, call: ToolCallId) -> list[Fragment]:
        fold = self._folds.pop(call, None)
        if fold is None:
            return []
        shown = fold.end()
        self.last_folded = fold.statement if fold.is_folded else self.last_folded
        return [*self._enter(call), *self._layout.placed(shown)] if shown else []

    def _file_changed(self, changed: FileChanged, following: AnyEvent) -> list[Fragment]:
        """Show a change of a file that a running view follows.

        If the view's own report follows, it has more detail and is shown instead.
        """
        delta = changed.delta
        if isinstance(following, NodeChanged) and following.delta.startswith(delta):
            delta = following.delta
        return self._whole(changed.event_id, [("place", as_printed(delta).rstrip("\n") + "\n")])

    def _below_statement(self, call: ToolCallId, fragments: list[Fragment]) -> list[Fragment]:
        """Show text of a statement: indented, or at the margin if typed."""
        if call in self._typed:
            return self._layout.placed(fragments)
        start = [*self._end_fold(call), *self._enter(call)]
        return [*start, *self._layout.placed(self._wrapped(indented(fragments, INDENT, self._layout.at_start)))]


# How turns and commands ended.

_STOPS: Final[dict[StopCause, str]] = {
    "cancelled": "cancelled",
    "max_tokens": "the reply was cut off at the model's length limit",
    "max_turn_requests": "stopped: the turn reached its limit of model calls (max_rounds)",
    "refusal": "the model refused to answer",
    "error": "error",
}
_COMPARED_CHARS: Final = 1_500
"""Less than half of what a value shows of a long output."""


def turn_ending(event: RunStop) -> str:
    """Return a line that says how the turn ended, and why."""
    return f"[{_STOPS[event.cause]}{f': {event.detail}' if event.detail else ''}]"


def cancelled_after(event: ExecutionFinished) -> str:
    """Return a line that says when a statement was cancelled."""
    return f"[cancelled after {event.time_ms / 1000:.1f} s]"


def ending(event: CommandEnded) -> str:
    """Say how the command ended; empty for success."""
    if event.timed_out:
        return f"[timed out after {event.time_ms / 1000:.1f} s]"
    if event.reason:
        return f"[ended: {event.reason}]"
    if event.signal is not None:
        return f"[killed by {_signal_name(event.signal)}]"
    return f"[exit code {event.code}]" if event.code else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # an imported log may contain any number
        return f"signal {number}"


def repeats(value: str | None, output: str) -> bool:
    """Whether the value begins like `output`, and so is that command's."""
    head = output.rstrip("\n")[:_COMPARED_CHARS]
    return value is not None and bool(head) and value.startswith(head)


class Reruns:
    """The lines for statements that run again, with their progress. The report at the end lists the differences."""

    def __init__(self) -> None:
        self._numbers: dict[StatementId, int] = {}
        self._done, self._of = 0, 0

    def number(self, event: StatementRecorded) -> None:
        """Note the number of a statement, which may run again."""
        self._numbers[event.statement_id] = event.index

    def remark(self, event: AnyEvent) -> str | None:
        """Return the line for an event; None for no line."""
        match event:
            case ReplayBegun(statements=count):
                self._done, self._of = 0, count
                return None
            case ExecutionFinished(statement_id=statement, status=status):
                self._done += 1
                done = f"{self._done} of {max(self._done, self._of)}"
                return f"statement {self._numbers.get(statement, '?')} ran again ({done}): {status}"
            case _:
                return None
