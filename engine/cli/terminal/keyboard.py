"""What a person types: lines with history, completion and colours, and single keys while no line is edited.

The one module that knows the line editing library. What Enter and Tab do with a text is in `typed_text`. Called by
`interaction`.

The terminal is in raw mode while the program has it. So Ctrl-C is a key and never a signal, and typed text is not
echoed into the output. Text that is typed during a turn is saved for the next line. But text that was typed before a
question was on the screen never answers it, because the person cannot have meant that.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import termios
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Offered
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_completions, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import DynamicLexer, Lexer
from prompt_toolkit.output import ColorDepth, Output

from ...core.text import plural
from ...log.redaction import Redactor
from ...log.store.database import make_directory, make_private
from .rendering import Fragment, Highlight
from .typed_text import Facts, after_enter, common_start, completions

_STYLES: Final = {
    "keyword": "ansimagenta",
    "string": "ansigreen",
    "number": "ansicyan",
    "comment": "ansibrightblack",
    "defined": "ansiblue",
}
"""What is typed looks as `rendering` shows the same style."""
_TAB: Final = "    "


class LineEditor:
    """Reads one text after the other from a terminal.

    Args:
        source: the keys.
        output: the terminal.
        history: the source of earlier texts.
        facts: what completion knows about the session.
        is_python: returns whether the text runs as Python.
        highlight: colours for Python; None for none.
        status: the text of the line below.
        next_mode: called for Shift-Tab.
        open_folded: called for Ctrl-O; it may write above the line.
    """

    def __init__(
        self,
        source: Input,
        output: Output,
        *,
        history: History,
        facts: Facts,
        is_python: Callable[[], bool],
        highlight: Highlight | None,
        status: Callable[[], str],
        next_mode: Callable[[], None],
        open_folded: Callable[[], None],
    ) -> None:
        self._facts = facts
        self._is_python = is_python
        self._next_mode = next_mode
        self._open_folded = open_folded
        self._pastes = Pastes()
        self._session: PromptSession[str] = PromptSession(
            input=source,
            output=output,
            history=history,
            multiline=True,
            completer=_SessionCompleter(facts, is_python),
            complete_while_typing=False,
            lexer=DynamicLexer(lambda: _PythonLexer(highlight) if highlight is not None and is_python() else None),
            color_depth=ColorDepth.DEPTH_1_BIT if highlight is None else None,
            bottom_toolbar=status,
            prompt_continuation=lambda width, _number, _wraps: " " * width,
            key_bindings=self._bindings(),
            enable_suspend=True,
            reserve_space_for_menu=4,
        )
        # A terminal that does not report its cursor shows no status line. No warning is needed.
        self._session.app.renderer.cpr_not_supported_callback = None

    async def read(self, prompt: str) -> str | None:
        """Return the next text.

        None if the person leaves: with Ctrl-D in an empty line, or because the terminal is gone.
        """
        try:
            line = await self._session.prompt_async(prompt, handle_sigint=False)
        except EOFError:
            return None
        # Bytes that are invalid in the terminal's encoding may still be UTF-8.
        return self._pastes.expanded(line).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def clear(self) -> None:
        """Discard the text that is being typed, as Ctrl-C does."""
        self._session.default_buffer.reset()
        self._session.app.invalidate()

    # --- keys ---------------------------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        in_line = has_focus(DEFAULT_BUFFER)
        for keys, action, when in (
            (("enter",), self._enter, in_line),
            (("escape", "enter"), self._new_line, in_line),
            (("c-c",), self._clear, in_line),
            (("tab",), self._complete, in_line & ~has_completions),
            (("s-tab",), self._change_mode, in_line & ~has_completions),
            (("c-o",), self._open, in_line),
            ((Keys.BracketedPaste,), self._paste, in_line),
        ):
            bindings.add(*keys, filter=when)(action)
        return bindings

    def _enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
            return
        rest = buffer.document.text_after_cursor
        if self._is_python() and rest.strip() and "\n" in buffer.text:
            buffer.newline(copy_margin=True)
            return
        longer = after_enter(buffer.text, self._is_python())
        if longer is None:
            if self._is_python():  # the empty line that ended a block does not belong to it
                buffer.document = Document(buffer.text.rstrip())
            buffer.validate_and_handle()
        else:
            buffer.document = Document(longer, len(longer))

    def _new_line(self, event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=self._is_python())

    def _clear(self, event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    def _complete(self, event: KeyPressEvent) -> None:
        """Complete the common part at once, and offer the rest.

        At the start of a line, indent instead.
        """
        buffer = event.current_buffer
        if not buffer.document.current_line_before_cursor.strip():
            buffer.insert_text(_TAB)
            return
        found = completions(buffer.document.text_before_cursor, self._facts, self._is_python())
        clear = common_start([each.text for each in found])
        if found and len(clear) > found[0].replaced:
            buffer.delete_before_cursor(found[0].replaced)
            buffer.insert_text(clear)
        elif len(found) > 1:
            buffer.start_completion(select_first=False)

    def _change_mode(self, event: KeyPressEvent) -> None:
        self._next_mode()
        event.app.invalidate()

    def _open(self, event: KeyPressEvent) -> None:
        del event
        run_in_terminal(self._open_folded)

    def _paste(self, event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(self._pastes.insert(event.data))


class _SessionCompleter(Completer):
    """Adapts `completions` to the library."""

    def __init__(self, facts: Facts, is_python: Callable[[], bool]) -> None:
        self._facts = facts
        self._is_python = is_python

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Offered]:
        del complete_event
        for each in completions(document.text_before_cursor, self._facts, self._is_python()):
            yield Offered(each.text, start_position=-each.replaced, display_meta=each.about)


class _PythonLexer(Lexer):
    """Adapts `highlight` to the library: the fragments of each line."""

    def __init__(self, highlight: Highlight) -> None:
        self._highlight = highlight

    def lex_document(self, document: Document) -> Callable[[int], Any]:
        lines = _divided(self._highlight(document.text))
        return lambda number: lines[number] if number < len(lines) else []


def _divided(fragments: Iterable[Fragment]) -> list[list[Fragment]]:
    """Split fragments into lines, with the library's styles."""
    lines: list[list[Fragment]] = [[]]
    for style, text in fragments:
        first, *others = text.split("\n")
        lines[-1].append((_STYLES.get(style, ""), first))
        lines += [[(_STYLES.get(style, ""), other)] for other in others]
    return lines


FILE_NAME: Final = "typed.jsonl"
READ_BYTES: Final = 1 << 20
"""The part at the end of the file that is read. A file four times as long is cut to it."""
LINE_CHARS: Final = 20_000
"""A longer text is not saved, because it was pasted and exists elsewhere."""


class TypedHistory(History):
    """Lines that a person typed, from one run of the program to the next.

    A file in the state directory with mode 0600 has one JSON text for each line, without the secrets of the
    environment. Within a run a line is recalled as it was typed; later, `***` replaces a secret. If the file cannot be
    read or written, only the recall is lost.
    """

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        super().__init__()
        self._path = directory / FILE_NAME
        self._redactor = redactor

    def load_history_strings(self) -> Iterable[str]:
        """Return lines of earlier runs, the newest first.

        Damaged lines are skipped.
        """
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - READ_BYTES))
                lines = file.read(READ_BYTES).splitlines()
        except OSError:
            return []
        if size > READ_BYTES:
            lines = lines[1:]  # because its beginning may be missing
        if size > 4 * READ_BYTES:
            self._keep_only(lines)
        return [text for text in map(_text, reversed(lines)) if text is not None]

    def store_string(self, string: str) -> None:
        """Save a line if possible."""
        if len(string) > LINE_CHARS:
            return
        with suppress(OSError):
            make_directory(str(self._path.parent))
            make_private(str(self._path))
            self._append(json.dumps(self._redactor.redact(string)).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def _keep_only(self, lines: list[bytes]) -> None:
        """Replace the file by one with these lines.

        A line that another process adds at this moment is lost.
        """
        shorter = self._path.with_name(f"{FILE_NAME}.{os.getpid()}")
        with suppress(OSError):
            make_private(str(shorter))
            shorter.write_bytes(b"".join(line + b"\n" for line in lines))
            shorter.replace(self._path)


def _text(line: bytes) -> str | None:
    try:
        text = json.loads(line)
    except ValueError:
        return None
    return text if isinstance(text, str) else None


SHORT_CHARS: Final = 4_000
SHORT_LINES: Final = 60
"""A text that is longer, or has more lines, gets a label."""
_LABEL: Final = re.compile(r"\[pasted text (\d+): [\d,]+ lines?\]")


class Pastes:
    """Long pasted texts, which a short label replaces in the line.

    A screen of pasted text would be slow to draw, and useless to the person. `expanded` puts the texts back.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []

    def insert(self, text: str) -> str:
        """Return what the line shows for a pasted text: the text or a label."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if len(text) <= SHORT_CHARS and lines <= SHORT_LINES:
            return text
        self._texts.append(text)
        return f"[pasted text {len(self._texts)}: {lines:,} {plural(lines, 'line')}]"

    def expanded(self, line: str) -> str:
        """Replace each label by its text; an unknown label stays."""
        return _LABEL.sub(lambda match: self._text(int(match[1]), match[0]), line)

    def _text(self, number: int, label: str) -> str:
        return self._texts[number - 1] if 0 < number <= len(self._texts) else label


_ESCAPE_SECONDS: Final = 0.1
"""If no more bytes of a key follow an escape byte in this time, it was the key Escape."""
_TERMINALS: Final = {Keys.CPRResponse}
"""Keys that the terminal itself sends."""
PASTE: Final = Keys.BracketedPaste.value
"""The key that `Answers` returns for pasted text."""
ESCAPE: Final = "escape"
"""The key that `Answers` returns for a dismissed question."""


_STOPPING: Final = (Keys.ControlC, Keys.ControlD, Keys.ControlZ)


class Answers:
    """The keys that were pressed since a question was on the screen."""

    def __init__(self) -> None:
        self._keys: deque[tuple[str, str]] = deque()
        self._arrived = anyio.Event()
        self.pasted = ""
        """The text of the last key, if that is PASTE."""

    def put(self, key: str, data: str = "") -> None:
        self._keys.append((key, data))
        self._arrived.set()

    async def next(self) -> str:
        """Return the next key: a character, or the library's name of a key.

        Escape, Ctrl-C and Ctrl-D all return ESCAPE.
        """
        while not self._keys:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        key, self.pasted = self._keys.popleft()
        return key


class Keyboard:
    """Reads keys from `source` between two lines.

    Args:
        cancel: called for Ctrl-C.
        leave: called for Ctrl-D, and when the terminal is gone.
    """

    def __init__(self, source: Input, cancel: Callable[[], None], leave: Callable[[], None]) -> None:
        self._source = source
        self._cancel = cancel
        self._leave = leave
        self._asking: Callable[[str, str], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def watched(self, output: Output) -> Generator[None]:
        """Read keys while this lasts.

        Text that is pasted meanwhile on the terminal of `output` stays in one piece.
        """
        output.enable_bracketed_paste()
        output.flush()
        try:
            with self._source.attach(self._ready):
                yield
        finally:
            if self._timer is not None:
                self._timer.cancel()  # because an incomplete key belongs to the next line
            with suppress(OSError):
                output.disable_bracketed_paste()
                output.flush()

    @contextmanager
    def asked(self) -> Generator[Answers]:
        """Take keys as answers while this lasts; discard what was typed before."""
        with suppress(termios.error, OSError):
            termios.tcflush(self._source.fileno(), termios.TCIFLUSH)
        answers = Answers()
        self._asking = answers.put
        try:
            yield answers
        finally:
            self._asking = None

    def _ready(self) -> None:
        self._take(self._source.read_keys())
        if self._source.closed:
            self._leave()
        else:
            self._timer = asyncio.get_running_loop().call_later(_ESCAPE_SECONDS, self._flush)

    def _flush(self) -> None:
        self._take(self._source.flush_keys())

    def _take(self, presses: list[KeyPress]) -> None:
        if self._asking is not None and sum(len(press.key) == 1 for press in presses) > 1:
            # Nobody presses two keys at once: it is the rest of a paste whose beginning was discarded with its mark.
            self._asking(PASTE, "".join(press.data for press in presses if len(press.key) == 1))
            presses = [press for press in presses if press.key in _STOPPING]
        for press in presses:
            if press.key in _TERMINALS:
                continue
            if press.key == Keys.ControlC:
                self._dismiss()
                self._cancel()
            elif press.key == Keys.ControlD:
                self._dismiss()
                self._leave()
            elif press.key == Keys.ControlZ:
                self._suspend()
            elif self._asking is None:
                store_typeahead(self._source, [press])
            else:
                self._asking(ESCAPE if press.key == Keys.Escape else press.key, press.data)

    def _dismiss(self) -> None:
        if self._asking is not None:
            self._asking(ESCAPE, "")

    def _suspend(self) -> None:
        """Stop this program until the shell continues it.

        The terminal is in the mode that the shell expects meanwhile.
        """
        with self._source.cooked_mode():
            os.kill(0, signal.SIGTSTP)
