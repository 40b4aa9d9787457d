"""`timeline`: what ran in the session, or one statement with its source and its output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from engine import cut_line
from mcp_tools.arguments import ArgumentError
from mcp_tools.replies import Reply
from mcp_tools.tools.row import TOKENS, Report, ToolRow, described, schema

if TYPE_CHECKING:  # it is loaded when the client has its first answer
    from engine import Cell
    from mcp_tools.bench import Bench

_TOKENS: Final = 2000
_LINE_CHARS: Final = 120
_LISTED: Final = 200


async def call(bench: Bench, arguments: Mapping[str, Any], _report: Report) -> Reply:
    """Carries out a call; see the row."""
    cells, tokens = bench.session.cells, arguments.get("tokens", _TOKENS)
    number: int | None = arguments.get("statement")
    if number is None:
        return Reply(text=await listing(bench, tokens))
    if not 1 <= number <= len(cells):
        there = f"there are 1 to {len(cells)}" if cells else "none has run yet"
        raise ArgumentError(f"There is no statement {number}; {there}.")
    return Reply(text=await bench.fitted(_whole(bench, cells[number - 1]), tokens))


async def listing(bench: Bench, tokens: int) -> str:
    """The newest statements that fit, the oldest of them first."""
    cells = bench.session.cells
    if not cells:
        return "No statement has run yet."
    lines = bench.lines(cells[-_LISTED:], _line)
    costs = await bench.costs([f"{line}\n" for line in lines])
    first, left = len(lines), tokens - _HEADING_TOKENS
    while first > 0 and costs[first - 1] <= left:
        first -= 1
        left -= costs[first]
    missing = len(cells) - (len(lines) - first)
    heading = [f"{missing} earlier; `statement` shows one"] if missing else []
    return "\n".join([*heading, *lines[first:]])


_HEADING_TOKENS: Final = 16


def _line(cell: Cell) -> str:
    source = cell.statement.source.strip().partition("\n")[0]
    return f"{cell.statement.index}  {_status(cell)}  {cut_line(source, _LINE_CHARS)}"


def _status(cell: Cell) -> str:
    finished = cell.finished
    if finished is None:
        return "running"
    return f"{finished.status} {finished.time_ms:.0f} ms"


def _whole(bench: Bench, cell: Cell) -> str:
    parts = [f"{cell.statement.index}  {_status(cell)}", cell.statement.source.rstrip("\n")]
    if cell.finished is not None:
        parts += ["--", bench.given_by(cell.finished) or "(no output)"]
    return "\n".join(parts)


ROW: Final = ToolRow(
    name="timeline",
    title="Show what ran",
    description="The statements of this session, newest last, or one of them with its source and output.",
    schema=schema(
        {
            "statement": described("number of one to show whole", {"type": "integer", "minimum": 1}),
            "tokens": described("budget, 2000 if left out", TOKENS),
        }
    ),
    call=call,
    read_only=True,
)
