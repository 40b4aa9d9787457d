"""One engine session as the tools use it: runs statements, reads handles, counts tokens. Also the names of handles.

Owns two rules: a call is one statement, and a failed statement becomes a sentence for the client. `Handles` decides
which names clients may give to handles. It takes the bound names from the log, not from the worker, so invalid calls
are refused at once. Loaded after the client has its first response. Never knows MCP. Created by `sessions`.
"""

from __future__ import annotations

import builtins
import difflib
import hashlib
import keyword
import os
import re
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio
from msgspec import Struct

from engine import with_progress
from engine.context.tail.feed import changes_of
from engine.context.tail.results import shown_text
from engine.core.ids import StatementId
from engine.core.text import cut_line, cut_middle, legible_line
from engine.core.toolbox import INJECTED, original
from engine.log.events.execution import ExecutionFinished, StatementRecorded
from engine.log.file_history import rewound_lines
from mcp_tools.replies import ArgumentError, CallError

if TYPE_CHECKING:
    from engine import Cell, Display, FeedItem, Forms, Looked, Progress, Session
    from engine.log.events.going_back import Rewound

T = TypeVar("T")
HandleKind = Literal["view", "group"]
POLL_SECONDS: Final = 0.5
CALL_SECONDS: Final = 30.0
"""Time limit for our own statements; `run` has a limit for the client's."""
MAX_WAITING: Final = 32
"""Calls that may wait for a change at the same time, in one session."""
MAX_HANDLES: Final = 256
"""Handles in one session."""
MAX_NAME_CHARS: Final = 64
_MAX_LOOKS: Final = 32
"""Cached looks, each at most about 80 KB."""
_MAX_COUNTS: Final = 1_000
"""Cached token counts of short texts."""
_MAX_EVENTS_SEARCHED: Final = 10_000
"""Recent events that are searched for cursors."""
_REASON_CHARS: Final = 1000
_DIGEST_BYTES: Final = 4
_SHOWN_CHARS: Final = 60
_SHOWN_NAMES: Final = 20
REBOUND: Final = "Python in this session rebound `view`, `group` or `show` during the call; call again."
TIMED_OUT: Final = "The call took too long and was stopped; `timeline` shows the statements that ran."
CANCELLED: Final = "That was cancelled."
WORKER_DIED: Final = "Nothing was done, because {reason}; your handles are kept. Call again."
TOO_MANY_WAIT: Final = f"{MAX_WAITING} calls already wait for changes, which is the limit; leave out `wait`."
TOO_MANY_HANDLES: Final = f"This session already has {MAX_HANDLES} handles, which is the limit; close some first."


ASKING: Final[ContextVar[Forms | None]] = ContextVar("ASKING", default=None)
"""Whom a statement of the current request may ask."""


class StatementResult(Struct, frozen=True):
    """A finished statement: its number and its record."""

    number: int
    finished: ExecutionFinished


class ClientSession:
    """An engine session, with what the tools derive from its events.

    With `sandboxed` the clients run Python, in the sandbox; the log then records their statements as a client's.
    """

    def __init__(self, engine_session: Session, *, sandboxed: bool = False) -> None:
        self.engine_session = engine_session
        self._sandboxed = sandboxed
        self._handles = Handles()
        self._waiting = 0
        self._looks_position = 0
        self._looks: dict[tuple[tuple[str, ...], int | None], Looked] = {}
        self._counts: dict[str, int] = {}
        self._lines: dict[tuple[int, int | None], str] = {}
        """Lines of the last listing, by the log positions of a statement's record and end."""
        self.statement_lock = anyio.Lock(fast_acquire=True)
        """Held by calls that run statements, because a free name must still be free when the statement runs."""

    @property
    def handles(self) -> Handles:
        """The current handles, on the active branch."""
        self._handles.update(self.engine_session.bound)
        return self._handles

    @property
    def cursor(self) -> int:
        """The length of the log: later changes start here."""
        return self.engine_session.position

    # --- statements ---------------------------------------------------------------------------------------------------

    def builtin_name(self, name: str) -> str:
        """How to write an injected name in a statement, even if the client's Python rebound it."""
        return original(name) if name in self.engine_session.rebound else name

    async def run(self, source: str, seconds: float) -> StatementResult:
        """Run one statement; return when its result is durable, even if it failed."""
        before = self.cursor
        self.engine_session.attach(None, None, ASKING.get())
        finished = await self.engine_session.cell(source, seconds, "client" if self._sandboxed else "user")
        return StatementResult(self._number(finished.statement_id, before), finished)

    async def run_checked(self, source: str) -> StatementResult:
        """Run one statement that must succeed. Raises CallError with the reason if it fails."""
        done = await self.run(source, CALL_SECONDS)
        if done.finished.status != "ok":
            raise CallError(_failure(done.finished))
        return done

    async def run_and_show(self, source: str) -> tuple[Display, int]:
        """Run one statement that must show a handle; return the display and the number. Raises CallError."""
        done = await self.run_checked(source)
        if not done.finished.displays:
            raise CallError(REBOUND)
        return done.finished.displays[-1], done.number

    def _number(self, statement_id: StatementId, since: int) -> int:
        recorded = (event for event in self.engine_session.since(since) if isinstance(event, StatementRecorded))
        return next(event.index for event in recorded if event.statement_id == statement_id)

    async def with_progress(self, act: Callable[[], Awaitable[T]], report: Callable[[Progress], Awaitable[None]]) -> T:
        """Await `act` and report its progress. The caller holds `statement_lock`."""
        return await with_progress(self.engine_session, act, report)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def look(self, names: Sequence[str] = (), tokens: int | None = None) -> Looked:
        """Read all handles, and show those named, without side effects.

        Handles change only by events, so one answer of the worker is valid until the next event.
        """
        position, wanted = self.cursor, (tuple(names), tokens)
        if position != self._looks_position:
            self._looks_position, self._looks = position, {}
        found = self._looks.get(wanted)
        if found is None:
            found = await self.engine_session.look(names, tokens)
            if position == self._looks_position and len(self._looks) < _MAX_LOOKS:
                self._looks[wanted] = found
        return found

    async def name_for_path(self, path: str) -> str:
        """The name of the view that is open on the path, or else a free name made from the path."""
        whole, handles = self._absolute(path), self.handles
        open_views = (row.name for row in (await self.look()).rows if row.path == whole)
        return next((name for name in open_views if handles.kind(name) == "view"), None) or handles.name_for_path(path)

    def _absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.engine_session.cwd, path))

    async def wait_for_change(self, since: int, seconds: float) -> None:
        """Wait until something changed after that log position, or is about to.

        A followed file that differs on disk is about to change: another client's tick may adopt it. Waiting does not
        block the session's queue.

        Raises:
            CallError: too many calls wait already.
        """
        if self._waiting >= MAX_WAITING:
            raise CallError(TOO_MANY_WAIT)
        self._waiting += 1
        try:
            deadline = anyio.current_time() + seconds
            while not (self.changes(since) or (await self.engine_session.look(at_sources=True)).stale):
                left = deadline - anyio.current_time()
                if left <= 0:
                    return
                await anyio.sleep(min(left, POLL_SECONDS))  # polling, because no watcher covers every file system
        finally:
            self._waiting -= 1

    def changes(self, since: int) -> list[FeedItem]:
        """The changes after that log position, in order."""
        return [item for event in self.engine_session.since(since) for item in changes_of(event)]

    def change_cursors(self) -> Iterator[str]:
        """The log positions right before each recent change, newest first."""
        first = max(self.cursor - _MAX_EVENTS_SEARCHED, 0)
        events = self.engine_session.since(first)
        for offset in range(len(events) - 1, -1, -1):
            if any(changes_of(events[offset])):
                yield str(first + offset)

    # --- texts and their cost -----------------------------------------------------------------------------------------

    def result_text(self, finished: ExecutionFinished) -> str:
        """A statement's output, value and traceback."""
        return shown_text(finished)

    def rewound_lines(self, event: Rewound) -> Sequence[str]:
        """One line for each file that a rewind restored or left unchanged."""
        return rewound_lines(event, lambda path: os.path.relpath(path, self.engine_session.cwd))

    def statement_lines(self, cells: Sequence[Cell], line: Callable[[Cell], str]) -> list[str]:
        """The `line` of each statement, cached because building one decompresses old statements."""
        keys = [(cell.recorded, None if cell.current is None else cell.current.ended) for cell in cells]
        before = self._lines
        self._lines = {key: before[key] if key in before else line(cell) for key, cell in zip(keys, cells, strict=True)}
        return list(self._lines.values())

    async def cached_counts(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens in each short text; the worker counts only new ones."""
        known = {text: self._counts[text] for text in texts if text in self._counts}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known |= zip(new, await self.engine_session.count(new), strict=True)
            self._counts = known if len(self._counts) > _MAX_COUNTS else self._counts | known
        return [known[text] for text in texts]

    async def fit(self, text: str, tokens: int) -> str:
        """Cut the middle of a text to fit the budget, and count the missing characters."""
        chars = len(text)
        while len(text.encode("utf-8", "replace")) > tokens:  # a token has at least one byte
            (cost,) = await self.engine_session.count([text])
            if cost <= tokens:
                break
            chars = int(min(chars, len(text)) * tokens / cost * 0.95)
            text = cut_middle(text, chars) if chars > 0 else ""
        return text


def _failure(finished: ExecutionFinished) -> str:
    if finished.status == "timeout":
        return TIMED_OUT
    if finished.exception is None:
        return CANCELLED
    if finished.exception.type == "WorkerDied":
        return WORKER_DIED.format(reason=finished.exception.message)
    reason = cut_middle(finished.exception.message or finished.exception.type, _REASON_CHARS)
    return reason if reason.endswith((".", "?", "!")) else f"{reason}."


# --- handles ----------------------------------------------------------------------------------------------------------

_KINDS: Final[Mapping[str, HandleKind]] = {"ViewHandle": "view", "GroupHandle": "group"}
"""Kinds by the type name of a bound value."""
_OPENING_ARGUMENT: Final[Mapping[HandleKind, str]] = {"view": "path", "group": "add"}


class Handles:
    """The handles of one session by name, in the order in which the names were bound."""

    def __init__(self) -> None:
        self._kinds: Mapping[str, HandleKind] = {}
        self._variables: Collection[str] = ()
        self._aliases: dict[str, str] = {}
        """The first name that a client used for each handle, as far as this process knows."""

    def update(self, bound: Mapping[str, str]) -> None:
        """Take the names that are bound now, with their type names."""
        self._kinds = {name: kind for name, each in bound.items() if (kind := _KINDS.get(each)) is not None}
        self._variables = bound.keys() - self._kinds.keys()
        self._aliases = {name: alias for name, alias in self._aliases.items() if name in self._kinds}

    # --- lookup -------------------------------------------------------------------------------------------------------

    def kind(self, name: str) -> HandleKind | None:
        """The kind of the handle with this identifier; None if there is none."""
        return self._kinds.get(name)

    def names(self, kind: HandleKind | None = None) -> list[str]:
        """The identifiers of all handles, or of one kind."""
        return [name for name, each in self._kinds.items() if kind in (None, each)]

    def completions(self, kind: HandleKind, start: str) -> list[str]:
        """The identifiers that start with a client's text; punctuation is ignored, as in `to_identifier`."""
        folded = _to_ascii_word(start).lstrip("_")
        return [name for name in self.names(kind) if name.startswith((start, folded) if folded else start)]

    def resolve(self, alias: str) -> str | None:
        """The identifier of the handle that a client means; None if there is none."""
        if alias in self._kinds:
            return alias
        with suppress(ArgumentError):
            if (found := to_identifier(alias)) in self._kinds:
                return found
        return None

    def resolve_exact(self, alias: str) -> str | None:
        """The identifier of the handle with exactly this name or alias; None if there is none."""
        if alias in self._kinds:
            return alias
        return next((handle for handle, each in self._aliases.items() if each == alias), None)

    def require(self, alias: str, kind: HandleKind) -> str:
        """The identifier of an open handle of that kind. Raises ArgumentError, which lists the open ones."""
        name = self.resolve(alias) or alias
        if self._kinds.get(name) == kind:
            return name
        shown, other = cut_line(legible_line(alias), _SHOWN_CHARS), self._kinds.get(name)
        if other is not None:
            raise ArgumentError(f"{shown} is a {other}; use the tool `{other}` for it.")
        if name in self._variables:
            raise ArgumentError(f"{shown} is a variable of this session, not a {kind}.")
        raise ArgumentError(
            f"There is no {kind} {shown}; {_open_names(self.names(kind), kind)}.{_suggestion(shown, self._kinds)}"
        )

    # --- new names ----------------------------------------------------------------------------------------------------

    def bindable(self, alias: str, kind: HandleKind) -> str:
        """The identifier for a name, if a handle of that kind may have it.

        Raises:
            ArgumentError: the name is invalid or in use, or there are too many handles.
        """
        name = to_identifier(alias)
        self.check_alias(alias, name)
        other = self._kinds.get(name)
        if other not in (None, kind):
            raise ArgumentError(f"{name} is already a {other}; choose another name, or close it first.")
        if name in self._variables:
            raise ArgumentError(f"{name} is a variable of this session; choose another name.")
        if other is None and len(self._kinds) >= MAX_HANDLES:
            raise ArgumentError(TOO_MANY_HANDLES)
        return name

    def check_alias(self, alias: str, name: str) -> None:
        """Check that a client which changes the handle `name` also named it so.

        Raises ArgumentError if the client used another name that became the same identifier.
        """
        first = self._aliases.get(name, alias)
        if name in self._kinds and alias not in (name, first):
            shown, other = (cut_line(legible_line(each), _SHOWN_CHARS) for each in (alias, first))
            used = f"{shown} becomes the name {name}, which {'is in use' if first == name else f'{other} already has'}"
            raise ArgumentError(f"{used}; call it {name}, or choose another name.")

    def remember_alias(self, name: str, alias: str) -> None:
        """Remember the client's first name for a handle."""
        if name in self._kinds:
            self._aliases.setdefault(name, alias)

    def name_for_path(self, path: str) -> str:
        """A free name for a new view, made from its path."""
        stem = (
            re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2].partition(".")[0], flags=re.ASCII)
            .strip("_")
            .lower()
        )
        base = stem or "file"
        base = f"file_{base}" if not base.isidentifier() or _is_reserved(base) else base
        base = base[: MAX_NAME_CHARS - len(f"_{MAX_HANDLES}")]
        name, number = base, 2
        while name in self._kinds or name in self._variables:
            name, number = f"{base}_{number}", number + 1
        return self.bindable(name, "view")


def to_identifier(name: str) -> str:
    """The Python identifier for a client's name. Names that differ only in punctuation get the same one.

    A long name is cut, and a digest of the whole name is added, because long paths often start alike.

    Raises:
        ArgumentError: the name has no ASCII letter or digit.
    """
    word = _to_ascii_word(name)
    word = (word if name.isidentifier() and name.isascii() else word.strip("_")).lstrip("_")
    if not word:
        shown = cut_line(repr(name), _SHOWN_CHARS)
        raise ArgumentError(f"{shown} cannot be a name: it has no ASCII letter or digit; choose one such as `notes`.")
    if word[0].isdigit():
        word = f"n{word}"
    if len(word) > MAX_NAME_CHARS:
        digest = hashlib.blake2s(word.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        return f"{word[: MAX_NAME_CHARS - len(digest) - 1]}_{digest}"
    return f"{word}_"[:MAX_NAME_CHARS] if _is_reserved(word) else word


def _to_ascii_word(text: str) -> str:
    """Keep ASCII letters and digits, and replace everything between them by underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode())


def _is_reserved(name: str) -> bool:
    """Whether it is a Python keyword or builtin, or a name that every session has."""
    return keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in INJECTED or hasattr(builtins, name)


def _open_names(names: list[str], kind: HandleKind) -> str:
    if not names:
        return f"open one with `{kind}` and `{_OPENING_ARGUMENT[kind]}`"
    rest = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"open: {', '.join(names[:_SHOWN_NAMES])}{rest}"


def _suggestion(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f" Did you mean {found[0]}?" if found else ""
