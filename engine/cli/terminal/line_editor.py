"""Reads what a person types: several lines, with history, completion, pastes and local commands."""

from __future__ import annotations

import ast
import builtins
import codeop
import json
import keyword
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct
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

from ...context.tail.results import result_text
from ...context.tail.rights import entered_sentence
from ...core.text import as_printed, code_span, fenced, plural
from ...core.toolbox import INJECTED, TOOLS
from ...log.branches import BranchRow
from ...log.events.session import DomainEntered
from ...log.redaction import Redactor
from ...log.store.database import make_directory, make_private
from ...log.timeline import Cell
from ...session.commands.context import TAIL
from ...session.commands.table import COMMANDS, help_line
from ...session.policy import MODES, OPTIONS
from ...session.session import Session
from ..output import shown
from .rendering import Fragment, Highlight

# When Enter ends what is typed, and with what its next line begins. Pure; called by the line editor.
#
# Two kinds of session, two habits. Where what is typed runs as it is, Enter does what it does in a Python shell: a
# complete statement ends, an open bracket or string goes on, a block goes on until an empty line. Where a language
# model reads it, Enter always ends it. In both a backslash at the end of the line is taken away and the text goes on.

_INDENT: Final = "    "
_LEADING: Final = re.compile(r"[ \t]*")
_COMMENT: Final = re.compile(r"#.*\Z")


def after_enter(text: str, is_python: bool) -> str | None:
    """The text with what Enter at its end adds to it; None where Enter ends it."""
    if text.endswith("\\") and not text.endswith("\\\\"):
        return text + "\n" if is_python else text[:-1] + "\n"
    if not is_python or text.startswith("/") or not text.strip():
        return None
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1].strip():
        return None if _is_complete(text) else text + "\n"
    if _is_complete(text) and not _ends_in_block(text):
        return None
    return text + "\n" + _indent_after(lines[-1])


def _is_complete(text: str) -> bool:
    """Whether more lines would not make it another statement; what is no Python at all is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # because what is wrong with it is said when it runs
        try:
            return codeop.compile_command(text + "\n", symbol="exec") is not None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return True


def _ends_in_block(text: str) -> bool:
    """Whether its last statement has a body below its first line, which may go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    last = body[-1] if body else None
    return last is not None and bool(getattr(last, "body", None)) and last.end_lineno != last.lineno


def _indent_after(line: str) -> str:
    match = _LEADING.match(line)
    indent = match[0] if match else ""
    return indent + _INDENT if _COMMENT.sub("", line).rstrip().endswith(":") else indent


# history:
# The lines that a person typed, kept from one run of the program to the next.
#
# Kept in the state directory, for its owner alone (0600), one JSON text for each line, without the secrets of the
# environment: within a run a line comes back as it was typed, later with `***` where one stood. A file that cannot be
# read or written only means that nothing comes back. Called by the line editor; its library has the interface.

FILE_NAME: Final = "typed.jsonl"
READ_BYTES: Final = 1 << 20
"""The end of the file that is read, and all that is kept of one that has become four times as long."""
LINE_CHARS: Final = 20_000
"""A longer text is not kept: it was pasted, and comes from somewhere."""


class TypedHistory(History):
    """What was typed, the newest first."""

    def __init__(self, directory: Path, redactor: Redactor) -> None:
        super().__init__()
        self._path = directory / FILE_NAME
        self._redactor = redactor

    def load_history_strings(self) -> Iterable[str]:
        """What former runs have kept; lines that are damaged are left out."""
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
        """Keeps a line, if it can be kept."""
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
        """Replaces the file by one with these lines; what another process adds at this moment is lost."""
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


# pastes:
# Long pasted texts, for which a short label stands in the line that is edited; they are put back when it is sent.
#
# Pure. Called by the line editor, for which a screen of pasted text would be slow and of no use to the person.

SHORT_CHARS: Final = 4_000
SHORT_LINES: Final = 60
"""What is longer, or has more lines, gets a label."""
_LABEL: Final = re.compile(r"\[pasted text (\d+): [\d,]+ lines?\]")


class Pastes:
    """The long texts that were pasted in one run of the program, by their number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def insert(self, text: str) -> str:
        """What stands in the line for a pasted text: itself, or its label."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if len(text) <= SHORT_CHARS and lines <= SHORT_LINES:
            return text
        self._texts.append(text)
        return f"[pasted text {len(self._texts)}: {lines:,} {plural(lines, 'line')}]"

    def expanded(self, line: str) -> str:
        """The line with the text of each label; a label that stands for none stays."""
        return _LABEL.sub(lambda match: self._text(int(match[1]), match[0]), line)

    def _text(self, number: int, label: str) -> str:
        return self._texts[number - 1] if 0 < number <= len(self._texts) else label


# local commands:
# The slash commands of the terminal itself, beside those of the session: what an editor has menus for.
#
# One row each. Must not know how anything is shown. Called by `interaction` and by completion.


class LocalCommand(Struct, frozen=True):
    """One command. `run` answers in a sentence; None ends the program. `values` are what its argument can be."""

    name: str
    usage: str
    description: str
    run: Callable[[Session, str], str | None]
    values: tuple[str, ...] = ()


def _mode(session: Session, argument: str) -> str:
    if argument:
        session.set_mode(argument)
    name, meaning = MODES[session.options.mode]
    return f"{name}: {meaning}."


def _option(session: Session, argument: str) -> str:
    if argument:
        name, _, value = argument.partition(" ")
        session.set_option(name, value.strip())
    lines = [
        f"- `{name}` is `{session.options.values[name]}`: {text}. It can be {_choices(values)}."
        for name, (_, text, values) in OPTIONS.items()
    ]
    return "\n".join([*lines, "", "`/option NAME VALUE` sets one."])


def _choices(values: Mapping[str, str]) -> str:
    return " or ".join(f"`{value}` ({meaning[:1].lower()}{meaning[1:]})" for value, meaning in values.items())


def _open(session: Session, argument: str) -> str:
    cells = session.cells
    number = argument.strip() or (str(cells[-1].index) if cells else "")
    cell = next((cell for cell in cells if str(cell.index) == number), None)
    if cell is None or cell.finished is None:
        return f"There is no result of a statement {code_span(number)}." if number else "No statement has run yet."
    result = as_printed(result_text(cell.finished))
    return f"Statement {number}:\n{fenced(result)}" if result else f"Statement {number} gave nothing."


def _sandbox(session: Session, _argument: str) -> str:
    entered = next((event for event in reversed(session.path) if isinstance(event, DomainEntered)), None)
    return (
        "No statement of a model has run yet, so nothing is sandboxed."
        if entered is None
        else (entered_sentence(entered))
    )


def _exit(_session: Session, _argument: str) -> None:
    return None


LOCAL_COMMANDS: Final[dict[str, LocalCommand]] = {
    command.name: command
    for command in (
        LocalCommand("mode", f"[{' | '.join(MODES)}]", "Show the mode, or set it", _mode, tuple(MODES)),
        LocalCommand("option", "[NAME VALUE]", "Show the session's options, or set one", _option, tuple(OPTIONS)),
        LocalCommand(
            "open", "[K]", "Show the whole result of statement K; Ctrl-O opens the last that is folded", _open
        ),
        LocalCommand("sandbox", "", "Show what statements may do by themselves, and what asks", _sandbox),
        LocalCommand("exit", "", "Leave; so do `quit` and Ctrl-D", _exit),
    )
}
"""By name, in the order in which they are listed."""
LEAVING: Final = ("exit", "quit", "exit()", "quit()")
"""Lines that leave as `/exit` does, because other prompts take them so."""


def local_command_in(text: str) -> tuple[LocalCommand | None, str]:
    """The terminal's own command that a line names, if it does, and its argument."""
    if text.strip() in LEAVING:
        return LOCAL_COMMANDS["exit"], ""
    first, *rest = text.split(maxsplit=1) or [""]
    command = LOCAL_COMMANDS.get(first[1:]) if first.startswith("/") else None
    return command, rest[0].strip() if rest else ""


def local_help() -> str:
    """A line for each of them, as `/help` lists the session's."""
    return "\n".join(help_line(row.name, row.usage, row.description) for row in LOCAL_COMMANDS.values())


# completion:
# What a person may mean who presses Tab: names, slash commands with their arguments, paths. Pure but for directories.
#
# A path is completed within quotes, and after an `@`, which attaches the file to a prompt. Must not know the
# terminal. Called by the line editor.

MOST: Final = 200
"""Entries of a directory that are offered."""
_NAME: Final = re.compile(r"(?<![\w.])[^\W\d]\w*\Z")
_COMMAND: Final = re.compile(r"\A/(\w*)\Z")
_ARGUMENT: Final = re.compile(r"\A/(\w+) +((?:\S+ +)*)(\S*)\Z")
_SOURCE: Final = re.compile(r"\A/(\w+)\s+(.*)\Z", re.DOTALL)
_EDITED: Final = re.compile(r"\A/(\w+)[^\n]*\n(.*)\Z", re.DOTALL)
_OPTION: Final = re.compile(r"--[a-z-]+")
_PLACE: Final = re.compile(r"\b[A-Z]+\b")
"""Of a command's usage: what it may be given."""
_QUOTED: Final = re.compile(r"""["']([^"'\n]*)\Z""")
_MENTIONED: Final = re.compile(r"(?:\A|\s)@(\S*)\Z")


class Completion(NamedTuple):
    """`text` takes the place of the last `replaced` characters; `about` says what it is."""

    text: str
    replaced: int
    about: str = ""


class Facts(Protocol):
    """What completions are made of; a session is one."""

    @property
    def cwd(self) -> str: ...
    @property
    def names(self) -> Iterable[str]: ...
    @property
    def cells(self) -> Sequence[Cell]: ...
    @property
    def branches(self) -> Sequence[BranchRow]: ...


def completions(before: str, facts: Facts, is_python: bool) -> list[Completion]:
    """What may follow, given the text before the cursor.

    Args:
        is_python: what is typed runs as it is, so that all of Python's own names belong to it.
    """
    if match := _COMMAND.match(before):
        return _commands(match[1])
    if (match := _SOURCE.match(before)) and _takes(match[1]) == "source":
        return completions(match[2], facts, is_python=True)
    if (match := _EDITED.match(before)) and _takes(match[1]) == "edit":
        return completions(match[2], facts, is_python=True)
    if match := _ARGUMENT.match(before):
        return _arguments(match[1], match[2].split(), match[3], facts)
    if match := _MENTIONED.search(before):
        # Where Python is typed it may be a decorator, too.
        names = _names(match[1], facts, is_python) if is_python and match[1].isidentifier() else []
        return [*names, *_paths(match[1], facts.cwd)]
    if is_python and (match := _QUOTED.search(before)):
        return _paths(match[1], facts.cwd)
    match = _NAME.search(before)
    return _names(match[0], facts, is_python) if match else []


def common_start(texts: Sequence[str]) -> str:
    """The longest text that all of them start with."""
    first, last = min(texts, default=""), max(texts, default="")  # all others lie between them
    length = next(
        (at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
    return first[:length]


def _commands(start: str) -> list[Completion]:
    rows = [(row.name, row.description) for row in (*COMMANDS.values(), *LOCAL_COMMANDS.values())]
    return [Completion(name, len(start), description) for name, description in rows if name.startswith(start)]


def _takes(command: str) -> str:
    return COMMANDS[command].takes if command in COMMANDS else "nothing"


def _arguments(command: str, given: Sequence[str], start: str, facts: Facts) -> list[Completion]:
    if command in LOCAL_COMMANDS:
        values = LOCAL_COMMANDS[command].values if not given else ()
        return [Completion(value, len(start)) for value in values if value.startswith(start)]
    if command not in COMMANDS:
        return []
    usage = COMMANDS[command].usage
    options = _OPTION.findall(usage)
    if start.startswith("-"):
        return [Completion(each, len(start)) for each in options if each.startswith(start) and each not in given]
    if len([each for each in given if each not in options]) >= len(_PLACE.findall(usage)):
        return []
    return [Completion(text, len(start), about) for text, about in _offered(command, facts) if text.startswith(start)]


def _offered(command: str, facts: Facts) -> list[tuple[str, str]]:
    """What a command takes, each with what it is."""
    match _takes(command):
        case "call":
            return [(TAIL, "")]
        case "branch":
            return [
                (row.name, f"{row.last} {plural(row.last, 'statement')}{', active' * row.is_active}")
                for row in facts.branches
            ]
        case "statement" | "edit":
            cells = [cell.statement for cell in reversed(facts.cells)]
            return [(str(each.index), shown(each.source.strip().partition("\n")[0])) for each in cells]
        case _:
            return []


def _names(start: str, facts: Facts, is_python: bool) -> list[Completion]:
    about = dict.fromkeys(facts.names, "")
    for name in INJECTED:
        about.setdefault(name, TOOLS[name].doc.partition(".")[0] if name in TOOLS else "")
    if is_python:
        for name in (*keyword.kwlist, *dir(builtins)):
            about.setdefault(name, "")
    return [
        Completion(name, len(start), about[name])
        for name in sorted(about)
        if name.startswith(start) and (start.startswith("_") or not name.startswith("_"))
    ]


def _paths(start: str, cwd: str) -> list[Completion]:
    directory, _, name = start.rpartition("/")
    place = os.path.join(cwd, os.path.expanduser(f"{directory}/" if directory or start.startswith("/") else ""))
    try:
        with os.scandir(place) as entries:
            found = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in entries
                if entry.name.startswith(name) and (name or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return []
    # Of a name that is no Unicode there is nothing that could be typed.
    return [Completion(entry, len(name)) for entry in sorted(found)[:MOST] if entry.isprintable()]


# line editor:
# Reads what a person types: several lines, with history, completion, colours and a status line below.
#
# The one module that knows the line editing library. What Enter does is in `entering`, what Tab offers in
# `completion`. Called by `interaction`.

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
