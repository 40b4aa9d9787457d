"""One session as tools use it: its statements, its handles, what changed, what texts cost. Nothing here knows MCP.

Owns that a call is one statement, and what the client is told of one that failed. Made by `sessions`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

from engine import changes_of, cut_middle, original, replay_text, result_text, rewound_lines, with_progress
from engine.log.events.execution import StatementRecorded
from engine.log.events.going_back import HeadMoved
from mcp_tools import statements
from mcp_tools.errors import CallError
from mcp_tools.handles import Handles

if TYPE_CHECKING:
    from engine import Cell, Display, FeedItem, Looked, Progress, ReplayReport, Session, StatementId
    from engine.log.events.execution import ExecutionFinished
    from engine.log.events.going_back import Rewound

T = TypeVar("T")
POLL_SECONDS: Final = 0.5
CALL_SECONDS: Final = 30.0
"""How long a call may take that is no statement of the client's own."""
MOST_WAITING: Final = 32
"""Calls that wait for a change, in one session."""
_MOST_LOOKS: Final = 32
"""Answers of the worker that are kept until something happens, each at most some 80 KB."""
_MOST_COSTS: Final = 1_000
"""Short texts of which the cost is kept."""
_REASON_CHARS: Final = 1000


class Ran:
    """A statement that has run: its number, and its record."""

    __slots__ = ("finished", "number")

    def __init__(self, number: int, finished: ExecutionFinished) -> None:
        self.number = number
        self.finished = finished


class Bench:
    """A session with what is folded of its events. `by_client`: its statements may be a client's own, and are held."""

    def __init__(self, session: Session, *, by_client: bool = False) -> None:
        self.session = session
        self._by_client = by_client
        self._handles = Handles()
        self._position = 0
        self._waiting = 0
        self._looked_at = 0
        self._looked: dict[tuple[tuple[str, ...], int | None], Looked] = {}
        self._costs: dict[str, int] = {}
        self._lines: dict[tuple[int, int | None], str] = {}
        """The statements that were listed last, by where the log has them and their ends."""
        self.turn = anyio.Lock(fast_acquire=True)
        """Of the calls that run statements: what one is made of, such as free names, must still be so when it runs."""

    @property
    def handles(self) -> Handles:
        """The handles as of now, on the branch that is active."""
        new = events = self.session.since(self._position)
        if any(isinstance(event, HeadMoved) for event in new):
            self._handles, events = Handles(), self.session.path
        for event in events:
            self._handles.apply(event)
        self._position += len(new)
        return self._handles

    @property
    def cursor(self) -> int:
        """How many events the log has: where the changes to come begin."""
        return self.session.position

    def called(self, name: str) -> str:
        """How a statement is to write an injected name, so that it means what it did at first."""
        return original(name) if name in self.session.rebound else name

    async def run(self, source: str, seconds: float) -> Ran:
        """Runs one statement, whatever comes of it; returns when it is durable."""
        before = self.cursor
        finished = await self.session.cell(source, seconds, "client" if self._by_client else "user")
        return Ran(self._number(finished.statement_id, before), finished)

    async def act(self, source: str) -> Ran:
        """Runs one statement that is to succeed. Raises CallError with its reason where it does not."""
        ran = await self.run(source, CALL_SECONDS)
        if ran.finished.status != "ok":
            raise CallError(_reason(ran.finished))
        return ran

    async def shown(self, source: str) -> tuple[Display, int]:
        """What one statement shows at its end, and its number. Raises CallError where it does not succeed."""
        ran = await self.act(source)
        if not ran.finished.displays:
            raise CallError(_UNSHOWN)
        return ran.finished.displays[-1], ran.number

    async def close(self, name: str) -> str:
        """Lets go of a handle, in the groups that have it too: there it could not be named any more. Says so."""
        rows = (await self.look()).rows
        closed = {row.obj_id for row in rows if row.name == name}
        groups = [row.name for row in rows if closed.intersection(row.children) and row.name != row.obj_id]
        ran = await self.act(statements.closing(name, groups))
        return f"{name} is closed  statement {ran.number}"

    def _number(self, statement_id: StatementId, since: int) -> int:
        recorded = (event for event in self.session.since(since) if isinstance(event, StatementRecorded))
        return next(event.index for event in recorded if event.statement_id == statement_id)

    async def look(self, names: Sequence[str] = (), tokens: int | None = None) -> Looked:
        """The handles as they are, without effect.

        Nothing changes one without an event, so that the worker is asked once between two of them.
        """
        position, wanted = self.cursor, (tuple(names), tokens)
        if position != self._looked_at:
            self._looked_at, self._looked = position, {}
        found = self._looked.get(wanted)
        if found is None:
            found = await self.session.look(names, tokens)
            if position == self._looked_at and len(self._looked) < _MOST_LOOKS:
                self._looked[wanted] = found
        return found

    async def costs(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each of the texts has, of which the worker counts those that are new."""
        known = {text: self._costs[text] for text in texts if text in self._costs}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known |= zip(new, await self.session.count(new), strict=True)
            self._costs = known if len(self._costs) > _MOST_COSTS else self._costs | known
        return [known[text] for text in texts]

    def lines(self, cells: Sequence[Cell], line: Callable[[Cell], str]) -> list[str]:
        """The `line` of each, made once for all listings, because old statements have to be unpacked for it."""
        keys = [(cell.recorded, None if cell.current is None else cell.current.ended) for cell in cells]
        before = self._lines
        self._lines = {key: before[key] if key in before else line(cell) for key, cell in zip(keys, cells, strict=True)}
        return list(self._lines.values())

    async def until_changed(self, since: int, seconds: float) -> None:
        """Waits until something changed after that position of the log or is about to, or for so long.

        What is about to: it is followed and has changed on disk. Another client's tick may be the one that adopts it.
        Holds no place in the queue.

        Raises:
            CallError: so many calls wait already.
        """
        if self._waiting >= MOST_WAITING:
            raise CallError(f"{MOST_WAITING} calls wait for changes already, the most there can be; leave out `wait`.")
        self._waiting += 1
        try:
            deadline = anyio.current_time() + seconds
            while not (self.changes(since) or (await self.session.look(at_sources=True)).stale):
                left = deadline - anyio.current_time()
                if left <= 0:
                    return
                await anyio.sleep(min(left, POLL_SECONDS))  # no watcher sees every file system
        finally:
            self._waiting -= 1

    async def tick(self) -> None:
        """Has what is followed catch up; what changed is on the log."""
        await self.session.tick()

    def changes(self, since: int) -> list[FeedItem]:
        """What happened by itself from that position of the log on, in order."""
        return [item for event in self.session.since(since) for item in changes_of(event)]

    async def reported(self, act: Callable[[], Awaitable[T]], report: Callable[[Progress], Awaitable[None]]) -> T:
        """What `act` gives, while `report` is told how far it is. For the one whose `turn` it is."""
        return await with_progress(self.session, act, report)

    def given_by(self, finished: ExecutionFinished) -> str:
        """What a statement gave, as text: output, value, traceback."""
        return result_text(finished)

    def rewound(self, event: Rewound) -> Sequence[str]:
        """What became of files, as lines."""
        return rewound_lines(event, lambda path: os.path.relpath(path, self.session.cwd))

    def replayed(self, report: ReplayReport) -> str:
        """How statements that ran again came out."""
        return replay_text(report)

    async def fitted(self, text: str, tokens: int) -> str:
        """The text within that many tokens: whole, or its two ends with a line that counts what is missing."""
        chars = len(text)
        while len(text.encode("utf-8", "replace")) > tokens:  # for a token is a byte at least
            (cost,) = await self.session.count([text])
            if cost <= tokens:
                break
            chars = int(min(chars, len(text)) * tokens / cost * 0.95)
            text = cut_middle(text, chars) if chars > 0 else ""
        return text


def _reason(finished: ExecutionFinished) -> str:
    if finished.status == "timeout":
        return "That took too long and was stopped; nothing more is known of it than what `timeline` says."
    if finished.exception is None:
        return "That was cancelled."
    if finished.exception.type == "WorkerDied":
        return f"Nothing was done, because {finished.exception.message}; all handles are kept, call again."
    reason = cut_middle(finished.exception.message or finished.exception.type, _REASON_CHARS)
    return reason if reason.endswith((".", "?", "!")) else f"{reason}."


_UNSHOWN: Final = (
    "Python that is running in this session bound `view`, `group` or `show` to something else meanwhile; call again."
)
