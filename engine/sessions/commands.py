"""What a user can ask of the session itself, with a slash. All of it works without a model.

One row per command; adapters advertise the table. A command works on its context alone and answers in Markdown. Called
by `turns`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from ..cutting import ELLIPSIS, cut_line, more
from ..events import Event
from ..events.nodes import NodeChanged
from ..events.session import ProjectionSent
from ..ids import BlobDigest, SessionId, StatementId
from ..projection.results import result_text
from ..projection.sent import SentProjections
from ..text import as_printed, code_span, fenced, printable, visible
from ..timeline.index import Cell, Timeline
from ..view.cuts import Cut
from .context_text import Breakdown, breakdown_text, views_text
from .projector import Projection

SHOWN_STATEMENTS: Final = 20
_NAME: Final = re.compile(r"/[A-Za-z][A-Za-z0-9_-]{0,63}")
"""What a person types who means a command; a path has more slashes, or dots."""
_NUMBER_DIGITS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What commands work on: the timeline, what was projected last, and what may be done to find out more.

    `project`, `tick` and `compact` raise EnvironmentUnavailableError where there is no worker and none can be started.
    `omit` leaves a statement out of the namespace, or takes it in again. `content` says in a sentence what is missing.
    """

    session_id: SessionId
    timeline: Timeline
    sent: SentProjections
    breakdown: Callable[[Projection], Breakdown]
    breakdown_of: Callable[[ProjectionSent], Breakdown]
    content: Callable[[BlobDigest], str]
    latest: Callable[[], Projection | None]
    project: Callable[[], Awaitable[Projection]]
    tick: Callable[[], Awaitable[Sequence[Event]]]
    compact: Callable[[], Awaitable[Cut | None]]
    omit: Callable[[StatementId, bool], Awaitable[None]]


class Command(Struct, frozen=True):
    """One slash command. `hint` describes its argument, None where it takes none.

    `glance` answers while a turn is running, from what is known already; None where it has to wait for its turn.
    """

    name: str
    description: str
    hint: str | None
    run: Callable[[CommandContext, str], Awaitable[str]]
    glance: Callable[[CommandContext, str], str] | None = None


async def _context(context: CommandContext, argument: str) -> str:
    return _past_context(context, argument) if argument else _present_context(context, await context.project())


def _context_glance(context: CommandContext, argument: str) -> str:
    if argument:
        return _past_context(context, argument)
    latest = context.latest()
    return f"{_as_of(context)}\n\n{_present_context(context, latest)}" if latest else "Nothing has been projected yet."


def _as_of(context: CommandContext) -> str:
    done = [cell.statement.index for cell in context.timeline.cells if cell.finished is not None]
    return f"As of statement {done[-1]}." if done else "As of the beginning."


def _present_context(context: CommandContext, projection: Projection) -> str:
    """What a model would read now, and with which Rounds earlier calls can be asked for."""
    calls = context.sent.calls
    past = (
        f"`/context {calls[-1].round_id}` shows the last call, of Round {calls[-1].round_id}."
        if calls
        else "No model has been called yet."
    )
    return "\n\n".join(
        (
            f"What a model would be sent now: {breakdown_text(context.breakdown(projection))}",
            "What stands at the end of the newest message, and is made anew for each call:",
            fenced(projection.prompt.tail or "(nothing)"),
            past,
        )
    )


def _past_context(context: CommandContext, argument: str) -> str:
    call = context.sent.of_round(int(argument)) if _is_number(argument) else None
    if call is None:
        return context.sent.without(argument)
    tail = context.content(call.tail) if call.tail is not None else "(nothing)"
    answered = "" if call.answered else " It was not answered."
    return "\n\n".join(
        (
            f"What a model was sent in Round {call.round_id}: {breakdown_text(context.breakdown_of(call))}{answered}",
            "What stood at the end of the newest message:",
            fenced(tail),
            f"`rewindow show {context.session_id} --projection {call.round_id}` prints all of it.",
        )
    )


async def _views(context: CommandContext, _: str) -> str:
    return views_text((await context.project()).handles)


def _views_glance(context: CommandContext, _: str) -> str:
    latest = context.latest()
    return f"{_as_of(context)}\n\n{views_text(latest.handles)}" if latest else "Nothing has been projected yet."


async def _timeline(context: CommandContext, argument: str) -> str:
    return _timeline_glance(context, argument)


def _timeline_glance(context: CommandContext, argument: str) -> str:
    cells = context.timeline.cells
    if argument:
        return _one_statement(cells, argument)
    if not cells:
        return "No statement has run yet."
    lines = [_cell_line(cell) for cell in cells[-SHOWN_STATEMENTS:]]
    if len(cells) > SHOWN_STATEMENTS:
        lines.insert(0, more(len(cells) - SHOWN_STATEMENTS, "statement", "before these"))
    return "\n".join(lines)


async def _omit(context: CommandContext, argument: str) -> str:
    cells = context.timeline.cells
    if not argument:
        omitted = [_cell_line(cell) for cell in cells if cell.omitted]
        return "\n".join(omitted) or "No statement is left out; `/omit 3` leaves statement 3 out."
    cell = _numbered(cells, argument)
    if cell is None:
        return _no_statement(cells, argument)
    await context.omit(cell.statement.statement_id, not cell.omitted)
    now = "is left out of the namespace" if cell.omitted else "is in the namespace again"
    return f"Statement {argument} {now}, which is rebuilt when it is needed next. `/omit {argument}` takes that back."


def _numbered(cells: Sequence[Cell], number: str) -> Cell | None:
    is_there = _is_number(number) and 1 <= int(number) <= len(cells)
    return cells[int(number) - 1] if is_there else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS


def _no_statement(cells: Sequence[Cell], number: str) -> str:
    return f"There is no statement {cut_line(number, SHOWN_STATEMENTS)}; there are {len(cells)}."


def _one_statement(cells: Sequence[Cell], argument: str) -> str:
    cell = _numbered(cells, argument)
    if cell is None:
        return _no_statement(cells, argument)
    output = result_text(cell.finished) if cell.finished is not None else "[running]"
    return f"{_cell_line(cell)}\n\n{fenced(visible(cell.statement.source), 'python')}\n\n{fenced(as_printed(output))}"


def _cell_line(cell: Cell) -> str:
    first, _, rest = cell.statement.source.strip().partition("\n")
    status = f"{cell.finished.status}, {cell.finished.time_ms:.0f} ms" if cell.finished else "running"
    status += ", left out" if cell.omitted else ""
    return f"{cell.statement.index}. {code_span(printable(first) + (f' {ELLIPSIS}' if rest else ''))} ({status})"


async def _tick(context: CommandContext, _: str) -> str:
    deltas = [event.delta for event in await context.tick() if isinstance(event, NodeChanged)]
    return "\n\n".join(fenced(as_printed(delta)) for delta in deltas) if deltas else "Nothing changed."


async def _compact(context: CommandContext, _: str) -> str:
    cut = await context.compact()
    if cut is None:
        return "Nothing can be left out."
    return f"{len(cut.positions):,} messages ({cut.tokens:,} tokens) were replaced by a summary."


async def _help(context: CommandContext, argument: str) -> str:
    return _help_glance(context, argument)


def _help_glance(_desk: CommandContext, _: str) -> str:
    return "\n".join(f"- `/{command.name}` {command.description}" for command in COMMANDS.values())


COMMANDS: Final[dict[str, Command]] = {
    command.name: command
    for command in (
        Command(
            "context",
            "Show where the tokens go of what a model reads now, or read in a Round, and what makes it less",
            "number of a Round",
            _context,
            _context_glance,
        ),
        Command("views", "List the handles: views, and groups with what is in them", None, _views, _views_glance),
        Command(
            "timeline",
            "List the statements that ran, or show one",
            "number of a statement",
            _timeline,
            _timeline_glance,
        ),
        Command("omit", "Leave a statement out of the namespace, or take it in again", "number of a statement", _omit),
        Command("compact", "Replace the conversation so far by a summary of it", None, _compact),
        Command("tick", "Let running views catch up with their files now", None, _tick),
        Command("help", "List these commands", None, _help, _help_glance),
    )
}
"""The slash commands by name, in the order in which they are listed."""


def command_in(text: str) -> tuple[Command | None, str]:
    """The command that a prompt names, if it is one, and its argument.

    A name that there is not is a command too, whose answer says so: a model would make something up. What is a path on
    this machine is none.
    """
    first, *rest = text.split(maxsplit=1) or [""]
    argument = rest[0].strip() if rest else ""
    name = first[1:]
    if first.startswith("/") and name in COMMANDS:
        return COMMANDS[name], argument
    if _NAME.fullmatch(first) and not os.path.lexists(first):
        return _unknown(name), argument
    return None, argument


def _unknown(name: str) -> Command:
    close = difflib.get_close_matches(name.lower(), COMMANDS, 1)
    meant = f" Did you mean `/{close[0]}`?" if close else ""
    answer = f"There is no command `/{name}`.{meant} `/help` lists those there are."

    async def run(_context: CommandContext, _argument: str) -> str:
        return answer

    return Command(name, answer, None, run, lambda _context, _argument: answer)
