"""How the result of one prompt is printed: the answer alone, one JSON document, or JSON lines as things happen.

A format is a class here and a row of FORMATS. Owns which stream a text goes to: standard output has what the prompt was
asked for, and standard error the rest. `docs/scripts.md` describes the JSON. Must not know how a turn is carried out.
Called by `one_prompt`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from ...core.ids import ToolCallId
from ...core.text import as_printed, visible
from ...core.toolbox import call_title, tool_named
from ...log.events import Event
from ...log.events.codec import encode
from ...log.events.conversation import ToolCall
from ...log.events.execution import ExecutionFinished, StatementRecorded
from ...log.redaction import write_json
from ...session.publishing.signals import (
    FilesPutBack,
    Item,
    ModelRetried,
    OutputStreamed,
    ReasoningStreamed,
    StatementRerun,
    TextStreamed,
)
from ..output.json_lines import print_json
from ..output.printing import shown_line, visible_json
from .fragments import painted
from .markdown import shown_markdown
from .printed import Printed
from .prompt_result import VERSION, PromptFold, PromptResult, given

_EXACT: Final = ("type", "version", "session_id", "stop_reason", "kind", "status", "change")
"""Fields whose values are words of ours."""
SIGNALS: Final = {
    TextStreamed: "text",
    ReasoningStreamed: "reasoning",
    OutputStreamed: "output",
    StatementRerun: "rerun",
    ModelRetried: "retry",
    FilesPutBack: "files_restored",
}
_TITLE_CHARS: Final = 100


class JsonOutput:
    """One JSON document at the end. The other formats differ from it in what they print before."""

    shows_failures = False
    """Whether it prints the traceback of the user's own statement."""

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        """Take what is known before the turn begins. Raises OSError."""

    def show(self, item: Item) -> None:
        """Print what happens, if the format shows it. The fold has taken it already. Raises OSError."""

    def end(self, result: PromptResult) -> None:
        """Print the result. Raises OSError."""
        print_json(msgspec.to_builtins(result), _EXACT)


class StreamOutput(JsonOutput):
    """A JSON object on each line: the start, each event and each piece as it comes, and the document at the end."""

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        start = {"type": "start", "version": VERSION, "session_id": session_id, "cwd": cwd, "model": model}
        print_json(start, _EXACT)

    def show(self, item: Item) -> None:
        # What is published holds no secrets any more.
        if isinstance(item, Event):
            data = b'{"type":"event","event":' + encode(item) + b"}"
        else:
            data = msgspec.json.encode({"type": SIGNALS[type(item)], **msgspec.to_builtins(item)})
        write_json(sys.stdout, visible_json(data.decode()).encode() + b"\n")


class TextOutput(JsonOutput):
    """The answer alone on standard output.

    What the user's own statement prints comes as it is printed. A model's last message is known only at the end.

    Args:
        is_brief: whether standard error gets a line for each statement of a model, each change and each command.
    """

    shows_failures = True

    def __init__(self, is_brief: bool) -> None:
        self._is_brief = is_brief
        self._fold: PromptFold | None = None
        self._call: ToolCallId | None = None
        """That of the user's own statement."""
        self._printed: dict[str, Printed] = {}
        self._lines = {"stdout": _Lines(), "stderr": _Lines()}

    def begin(self, fold: PromptFold, session_id: str, cwd: str, model: str) -> None:
        del session_id, cwd, model
        self._fold = fold

    def show(self, item: Item) -> None:
        assert self._fold is not None
        match item:
            case OutputStreamed(tool_call_id=call, stream=stream, text=text) if call == self._call:
                self._write(stream, self._printed.setdefault(stream, Printed()).add(text))
            case StatementRecorded() if self._fold.is_own(item):
                self._call = item.tool_call_id
            case StatementRecorded(statement_kind="python") if self._is_brief:
                self._block("stderr", f"{item.index}> {shown_line(item.source, _TITLE_CHARS)}")
            case ToolCall(parent_id=parent) if self._is_brief and parent not in (None, self._call):
                self._called(item)
            case ExecutionFinished() if item is self._fold.own:
                self._finished(item)
            case _:
                pass

    def end(self, result: PromptResult) -> None:
        """Print the answer, unless it is that of a statement, which stands there already."""
        if self._fold is not None and self._fold.kind == "command" and result.answer:
            self._block("stdout", painted(shown_markdown(visible(result.answer)), False))
        elif self._fold is not None and self._fold.own is None and result.answer:
            self._block("stdout", visible(result.answer))

    def _called(self, call: ToolCall) -> None:
        tool = tool_named(call.tool)
        if tool is None or tool.kind not in ("read", "search"):
            mark = "$" if tool is not None and tool.kind == "execute" else "~"
            self._block("stderr", f"   {mark} {shown_line(call_title(call.tool, call.arguments), _TITLE_CHARS)}")

    def _finished(self, event: ExecutionFinished) -> None:
        for name, captured in (("stdout", event.stdout), ("stderr", event.stderr)):
            printed = self._printed.pop(name, None)
            self._write(name, as_printed(captured.text) if printed is None else printed.end())
            if captured.truncated:
                self._block("stderr", f"rewindow: {name} had {captured.total_bytes:,} bytes; only the first are shown")
        self._block("stdout", as_printed(given(event)))
        if event.exception is not None and event.status != "cancelled":
            traceback = event.exception.traceback or f"{event.exception.type}: {event.exception.message}"
            self._block("stderr", as_printed(traceback))

    def _block(self, name: str, text: str) -> None:
        """Print a text that begins and ends a line."""
        self._write(name, self._lines[name].begun() + text)
        self._write(name, self._lines[name].begun())

    def _write(self, name: str, text: str) -> None:
        if text:
            stream = sys.stdout if name == "stdout" else sys.stderr
            stream.write(self._lines[name].took(text))
            stream.flush()


class _Lines:
    """Whether a stream is at the start of a line."""

    def __init__(self) -> None:
        self._is_at_start = True

    def begun(self) -> str:
        """Return what ends the line, if one has begun."""
        return "" if self._is_at_start else "\n"

    def took(self, text: str) -> str:
        """Return the text, which is written now."""
        self._is_at_start = text.endswith("\n")
        return text


FORMATS: Final[dict[str, Callable[[bool], JsonOutput]]] = {
    "text": lambda is_verbose: TextOutput(is_brief=not is_verbose),
    "json": lambda _: JsonOutput(),
    "stream-json": lambda _: StreamOutput(),
}
"""The formats by the names that `--output-format` takes, each made for a run that is verbose or not."""
