"""Reads what a person types: several lines, with history, completion, colours and a status line below.

The one module that knows the line editing library. What Enter does is in `entering`, what Tab offers in `completion`.
Called by `interaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Offered
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_completions, has_focus
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import ColorDepth, Output

from .completion import Facts, common_start, completions
from .entering import after_enter
from .fragments import Fragment
from .highlighting import Highlight
from .pastes import Pastes

_STYLES: Final = {
    "keyword": "ansimagenta",
    "string": "ansigreen",
    "number": "ansicyan",
    "comment": "ansibrightblack",
    "defined": "ansiblue",
}
"""What is typed, in the looks that `fragments` gives what is shown."""
_TAB: Final = "    "


class LineEditor:
    """Reads one text after the other from a terminal.

    Args:
        source: the keys.
        output: the terminal.
        history: where former texts come from.
        facts: what is completed.
        is_python: whether what is typed runs as it is.
        highlight: colours for Python; None where there are none.
        status: the text of the line below.
        next_mode: called for Shift-Tab.
        open_folded: called for Ctrl-O, where it may write above the line.
    """

    def __init__(
        self,
        source: Input,
        output: Output,
        *,
        history: History,
        facts: Facts,
        is_python: bool,
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
            lexer=_PythonLexer(highlight) if is_python and highlight is not None else None,
            color_depth=ColorDepth.DEPTH_1_BIT if highlight is None else None,
            bottom_toolbar=status,
            prompt_continuation=lambda width, _number, _wraps: " " * width,
            key_bindings=self._bindings(),
            enable_suspend=True,
            reserve_space_for_menu=4,
        )
        # Because a terminal that does not say where its cursor is has no status line, which nobody has to be told.
        self._session.app.renderer.cpr_not_supported_callback = None

    async def read(self, prompt: str) -> str | None:
        """The next text; None where the person leaves: Ctrl-D in an empty line, or the terminal is gone."""
        try:
            line = await self._session.prompt_async(prompt, handle_sigint=False)
        except EOFError:
            return None
        # What is no text in the terminal's encoding is the bytes that came, which may be UTF-8 all the same.
        return self._pastes.expanded(line).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def clear(self) -> None:
        """Forgets what is being typed, as Ctrl-C does."""
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
        if self._is_python and rest.strip() and "\n" in buffer.text:
            buffer.newline(copy_margin=True)
            return
        longer = after_enter(buffer.text, self._is_python)
        if longer is None:
            if self._is_python:  # the empty line that ended a block is no part of it
                buffer.document = Document(buffer.text.rstrip())
            buffer.validate_and_handle()
        else:
            buffer.document = Document(longer, len(longer))

    def _new_line(self, event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=self._is_python)

    def _clear(self, event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    def _complete(self, event: KeyPressEvent) -> None:
        """Completes as far as it is clear, at once; offers what there is beyond that. At an indent: one more."""
        buffer = event.current_buffer
        if not buffer.document.current_line_before_cursor.strip():
            buffer.insert_text(_TAB)
            return
        found = completions(buffer.document.text_before_cursor, self._facts, self._is_python)
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
    """Completions in the form that the library takes."""

    def __init__(self, facts: Facts, is_python: bool) -> None:
        self._facts = facts
        self._is_python = is_python

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Offered]:
        del complete_event
        for each in completions(document.text_before_cursor, self._facts, self._is_python):
            yield Offered(each.text, start_position=-each.replaced, display_meta=each.about)


class _PythonLexer(Lexer):
    """Colours in the form that the library takes: the fragments of each line."""

    def __init__(self, highlight: Highlight) -> None:
        self._highlight = highlight

    def lex_document(self, document: Document) -> Callable[[int], Any]:
        lines = _divided(self._highlight(document.text))
        return lambda number: lines[number] if number < len(lines) else []


def _divided(fragments: Iterable[Fragment]) -> list[list[Fragment]]:
    """The fragments of each line, in the library's styles."""
    lines: list[list[Fragment]] = [[]]
    for style, text in fragments:
        first, *others = text.split("\n")
        lines[-1].append((_STYLES.get(style, ""), first))
        lines += [[(_STYLES.get(style, ""), other)] for other in others]
    return lines
