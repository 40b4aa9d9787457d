"""The tools `tick` and `timeline`: what changed in followed files, and which statements ran.

`tick` adopts changes; everything else here only reads. Called by `requests`. Resources and prompts use the same texts.
Never knows MCP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from engine.core.text import cut_line, plural
from mcp_tools.replies import CURSOR, ArgumentError, Reply
from mcp_tools.tools.schema import TOKENS, ProgressReporter, ToolRow, described, schema

if TYPE_CHECKING:  # loaded after the client has its first response
    from engine import Cell, FeedItem
    from mcp_tools.client_session import ClientSession

NOTHING_CHANGED: Final = "Nothing changed."
NO_STATEMENT: Final = "No statement has run yet."
_TOKENS: Final = 2000
_MAX_WAIT_SECONDS: Final = 25
_HEADING_TOKENS: Final = 16
"""Reserved for the line that counts what is left out."""
_LINE_CHARS: Final = 120
_MAX_LISTED: Final = 200


async def tick(session: ClientSession, arguments: Mapping[str, Any], _report: ProgressReporter) -> Reply:
    """Update what follows its files, and report what changed since then or since a cursor."""
    since = arguments.get("since")
    if since is not None and since > session.cursor:
        raise ArgumentError(f"There is no cursor {since} yet; the newest is {session.cursor}.")
    if since is None:
        since = session.cursor
    if arguments.get("wait"):
        await session.wait_for_change(since, arguments["wait"])
    await session.engine_session.tick()
    items = session.changes(since)
    cursor = session.cursor
    text = await changes_text(session, items, arguments.get("tokens", _TOKENS))
    return Reply(text=f"{text}\ncursor {cursor}", meta={CURSOR: cursor})


async def changes_text(session: ClientSession, items: Sequence[FeedItem], tokens: int) -> str:
    """List the changes within a budget, oldest first. If not all fit, list the newest and count the others."""
    if not items:
        return NOTHING_CHANGED
    names = {row.obj_id: row.name for row in (await session.look()).rows}
    texts = [_change_line(item, names) for item in items]
    costs = await session.engine_session.count([f"{text}\n" for text in texts])
    first = _first_that_fits(costs, tokens - _HEADING_TOKENS)
    if first < len(texts):
        return "\n".join([*_left_out(first), *texts[first:]])
    # Even the newest change does not fit beside the line that counts the others. Cut it to the rest of the budget.
    heading = "\n".join(_left_out(len(texts) - 1))
    (cost,) = await session.engine_session.count([f"{heading}\n"])
    if cost > tokens:
        return await session.fit(heading or texts[-1], tokens)
    return f"{heading}\n{await session.fit(texts[-1], tokens - cost)}".strip("\n")


def _first_that_fits(costs: Sequence[int], tokens: int) -> int:
    """The index from which on all entries fit the budget together."""
    first, left = len(costs), tokens
    while first > 0 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    return first


def _left_out(number: int) -> list[str]:
    return [f"{number} earlier {plural(number, 'change')} left out"] if number else []


def _change_line(item: FeedItem, names: Mapping[str, str]) -> str:
    name = names.get(item.obj_id, item.obj_id)
    return f"{name}: {item.text}" if name else item.text


async def timeline(session: ClientSession, arguments: Mapping[str, Any], _report: ProgressReporter) -> Reply:
    """List the statements of the session, or show one with its source and output."""
    cells, tokens = session.engine_session.cells, arguments.get("tokens", _TOKENS)
    number: int | None = arguments.get("statement")
    if number is None:
        return Reply(text=await timeline_text(session, tokens))
    if not 1 <= number <= len(cells):
        valid = f"the statements are numbered from 1 to {len(cells)}" if cells else "no statement has run yet"
        raise ArgumentError(f"There is no statement {number}; {valid}.")
    return Reply(text=await session.fit(_statement_text(session, cells[number - 1]), tokens))


async def timeline_text(session: ClientSession, tokens: int) -> str:
    """List the newest statements that fit the budget, oldest first."""
    cells = session.engine_session.cells
    if not cells:
        return NO_STATEMENT
    lines = session.statement_lines(cells[-_MAX_LISTED:], _statement_line)
    costs = await session.cached_counts([f"{line}\n" for line in lines])
    first = _first_that_fits(costs, tokens - _HEADING_TOKENS)
    missing = len(cells) - (len(lines) - first)
    heading = [f"{missing} earlier; pass `statement` to show one of them"] if missing else []
    return "\n".join([*heading, *lines[first:]])


def _statement_line(cell: Cell) -> str:
    source = cell.statement.source.strip().partition("\n")[0]
    return f"{cell.statement.index}  {_status(cell)}  {cut_line(source, _LINE_CHARS)}"


def _status(cell: Cell) -> str:
    finished = cell.finished
    if finished is None:
        return "running"
    return f"{finished.status} {finished.time_ms:.0f} ms"


def _statement_text(session: ClientSession, cell: Cell) -> str:
    parts = [f"{cell.statement.index}  {_status(cell)}", cell.statement.source.rstrip("\n")]
    if cell.finished is not None:
        parts += ["--", session.result_text(cell.finished) or "(no output)"]
    return "\n".join(parts)


TICK: Final = ToolRow(
    name="tick",
    title="Catch up with changed files",
    description=(
        "Updates every view and group that follows its files. Returns the changes as short diffs, and a cursor."
    ),
    read_only=True,
    schema=schema(
        {
            "since": described("cursor: return all changes since then", {"type": "integer", "minimum": 0}),
            "wait": described(
                "seconds to wait for a change first", {"type": "number", "minimum": 0, "maximum": _MAX_WAIT_SECONDS}
            ),
            "tokens": described("budget, default 2000", TOKENS),
        }
    ),
    call=tick,
    takes_long=lambda arguments: bool(arguments.get("wait")),
    meta_keys=(CURSOR,),
)
TIMELINE: Final = ToolRow(
    name="timeline",
    title="Show what ran",
    description="Lists the statements of this session, newest last, or shows one with its source and output.",
    schema=schema(
        {
            "statement": described("number of a statement to show in full", {"type": "integer", "minimum": 1}),
            "tokens": described("budget, default 2000", TOKENS),
        }
    ),
    call=timeline,
    read_only=True,
)
