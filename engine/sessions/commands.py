"""What a user can ask of the session itself, with a slash. All of it works without a model.

One row per command; adapters advertise the table. Commands read the session's parts and answer in Markdown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..events.nodes import NodeChanged
from ..projection.results import result_text
from ..timeline.index import Cell

if TYPE_CHECKING:
    from .parts import SessionParts
    from .projector import Projection

SHOWN_STATEMENTS: Final = 20


class Command(Struct, frozen=True):
    """One slash command. `hint` describes its argument, None where it takes none.

    `glance` answers while a turn is running, from what is known already; None where it has to wait for its turn.
    """

    name: str
    description: str
    hint: str | None
    run: Callable[[SessionParts, str], Awaitable[str]]
    glance: Callable[[SessionParts, str], str] | None = None


async def _context(parts: SessionParts, _: str) -> str:
    return _context_text(await parts.environment.use(parts.projector.project))


def _context_glance(parts: SessionParts, _: str) -> str:
    latest = parts.projector.latest
    return f"{_as_of(parts)}\n\n{_context_text(latest)}" if latest else "Nothing has been projected yet."


def _as_of(parts: SessionParts) -> str:
    done = [cell.statement.index for cell in parts.timeline.cells if cell.finished is not None]
    return f"As of statement {done[-1]}." if done else "As of the beginning."


def _context_text(projection: Projection) -> str:
    return (
        f"{projection.used:,} of {projection.size:,} tokens: instructions {projection.instruction_tokens:,}, "
        f"messages {projection.message_tokens:,}, tail {projection.tail_tokens:,}\n\n"
        f"````\n{projection.prompt.tail}\n````"
    )


async def _views(parts: SessionParts, _: str) -> str:
    return _views_text(await parts.environment.use(parts.projector.project))


def _views_glance(parts: SessionParts, _: str) -> str:
    latest = parts.projector.latest
    return f"{_as_of(parts)}\n\n{_views_text(latest)}" if latest else "Nothing has been projected yet."


def _views_text(projection: Projection) -> str:
    if not projection.handles:
        return 'No handles yet. Open one: `readme = view("README.md")`'
    rows = [
        f"| `{row.name}` | {row.title} | {row.mode} | {row.lod} | {row.used_tokens:,} of {row.tokens:,} |"
        for row in projection.handles
    ]
    return "\n".join(["| handle | shows | mode | lod | tokens |", "| --- | --- | --- | --- | --- |", *rows])


async def _timeline(parts: SessionParts, argument: str) -> str:
    return _timeline_glance(parts, argument)


def _timeline_glance(parts: SessionParts, argument: str) -> str:
    cells = parts.timeline.cells
    if argument:
        return _one_statement(cells, argument)
    if not cells:
        return "No statement has run yet."
    lines = [_cell_line(cell) for cell in cells[-SHOWN_STATEMENTS:]]
    if len(cells) > SHOWN_STATEMENTS:
        lines.insert(0, f"... {len(cells) - SHOWN_STATEMENTS} before these")
    return "\n".join(lines)


def _one_statement(cells: Sequence[Cell], argument: str) -> str:
    if not argument.isdigit() or not 1 <= int(argument) <= len(cells):
        return f"There is no statement {argument}; there are {len(cells)}."
    cell = cells[int(argument) - 1]
    output = result_text(cell.finished) if cell.finished is not None else "[running]"
    return f"{_cell_line(cell)}\n\n````python\n{cell.statement.source}\n````\n\n````\n{output}\n````"


def _cell_line(cell: Cell) -> str:
    first, _, rest = cell.statement.source.strip().partition("\n")
    status = f"{cell.finished.status}, {cell.finished.time_ms:.0f} ms" if cell.finished else "running"
    return f"{cell.statement.index}. `{first}{' ...' if rest else ''}` ({status})"


async def _tick(parts: SessionParts, _: str) -> str:
    before = len(parts.log)
    await parts.loop().tick(parts.timeline.rounds)
    deltas = [event.delta for event in parts.log.since(before) if isinstance(event, NodeChanged)]
    return "\n\n".join(deltas) if deltas else "Nothing changed."


async def _compact(parts: SessionParts, _: str) -> str:
    cut = await parts.loop().compact()
    if cut is None:
        return "Nothing can be left out."
    return f"{len(cut.positions):,} messages ({cut.tokens:,} tokens) were replaced by a summary."


async def _help(parts: SessionParts, argument: str) -> str:
    return _help_glance(parts, argument)


def _help_glance(_parts: SessionParts, _: str) -> str:
    return "\n".join(f"- `/{command.name}` {command.description}" for command in COMMANDS.values())


COMMANDS: Final[dict[str, Command]] = {
    command.name: command
    for command in (
        Command(
            "context", "Show what a model would read now, and what it costs in tokens", None, _context, _context_glance
        ),
        Command("views", "List the view handles", None, _views, _views_glance),
        Command(
            "timeline",
            "List the statements that ran, or show one",
            "number of a statement",
            _timeline,
            _timeline_glance,
        ),
        Command("compact", "Replace the conversation so far by a summary of it", None, _compact),
        Command("tick", "Let running views catch up with their files now", None, _tick),
        Command("help", "List these commands", None, _help, _help_glance),
    )
}
