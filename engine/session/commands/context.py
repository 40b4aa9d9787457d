"""`/context`, `/views`, `/tick` and `/compact`: what a model would read, what it read, and what is done about that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...core.text import code_span, fenced, more, plural, printable
from ...log.events.nodes import NodesTicked, TickApplied
from ...log.events.session import ProjectionSent
from ..model_calls.context_text import ALL, breakdown_text, views_text
from ..model_calls.projector import Projection
from . import CommandContext

TAIL: Final = "tail"
"""The argument of `/context` that shows the whole of the last part."""
_TAIL_LINES: Final = 16
_FORESEEN: Final = 12
_NO_TAIL: Final = "A model would now be sent no last part: there are no handles, and nothing has changed by itself."
_NO_SUCH_VIEWS: Final = f"`/views` alone lists the newest handles, `/views {ALL}` each one."
_NOT_YET: Final = "Nothing is known yet of what a model would be sent; ask again when the turn has ended."


async def context(context: CommandContext, argument: str) -> str:
    if argument and argument != TAIL:
        return _past(context, argument)
    projection = await context.runtime.project()
    changes = () if argument else await context.runtime.foresee()
    names = {row.obj_id: row.name for row in projection.handles}
    foreseen = _foreseen([(names.get(item.obj_id, item.obj_id), item.text) for item in changes])
    return _present(context, projection, argument, foreseen)


def context_glance(context: CommandContext, argument: str) -> str:
    if argument and argument != TAIL:
        return _past(context, argument)
    latest = context.runtime.projector.latest
    return f"{context.as_of}\n\n{_present(context, latest, argument)}" if latest else _NOT_YET


def _present(context: CommandContext, projection: Projection, argument: str, foreseen: Sequence[str] = ()) -> str:
    """What a model would read now, and how earlier calls can be asked for."""
    tail = projection.prompt.tail
    if argument == TAIL:
        return "\n\n".join(_last_part("The last part of what a model would now be sent:", tail)) or _NO_TAIL
    number = len(context.runtime.sent.calls)
    first = next((f", from `{name}` on," for name in projection.tail_sections), "")
    return "\n\n".join(
        (
            breakdown_text("A model would now be sent", context.runtime.calls.breakdown(projection)),
            *foreseen,
            *_last_part(
                f"The last part{first} is made anew for each call, and stands at the end of the newest message. Now:",
                tail,
                f"; `/context {TAIL}` shows them",
            ),
            f"`/context {number}` shows what model call {number}, the last one, was sent."
            if number
            else "No model has been called in this session.",
        )
    )


def _foreseen(changes: Sequence[tuple[str, str]]) -> Sequence[str]:
    """What is not in the prompt yet, because a tick has not found it."""
    if not changes:
        return ()
    lines = [f"- {code_span(name)}: {printable(line)}" for name, line in changes[:_FORESEEN]]
    rest = [more(len(changes) - _FORESEEN, "handle")] if len(changes) > _FORESEEN else []
    heading = (
        "Not in it yet is what has changed since handles looked at their files. Your next prompt adds it, and `/tick` "
        "does so at once:"
    )
    return (heading, "\n".join([*lines, *rest]))


def _past(context: CommandContext, argument: str) -> str:
    call = context.runtime.sent.numbered(argument)
    if call is None:
        return (
            f"{context.runtime.sent.without(argument)} `/context` alone shows what a model would now be sent, and "
            f"`/context {TAIL}` the last part of that."
        )
    number, session_id = context.runtime.sent.number_of(call), context.runtime.parts.session_id
    tail = context.runtime.calls.text(call.tail) if call.tail is not None else ""
    return "\n\n".join(
        (
            breakdown_text(
                f"Model call {number}, {_when(context, call)}, was sent", context.runtime.calls.breakdown_of(call)
            ),
            *_last_part(
                "Its last part, at the end of the newest message, was:", tail, "; they are printed by the next"
            ),
            f"In a shell, `rewindow show {session_id} --projection {number}` prints every text of it.",
        )
    )


def _when(context: CommandContext, call: ProjectionSent) -> str:
    if not context.runtime.parts.log.branches.holds(call):
        return f"on branch {code_span(printable(call.branch_id))}"
    cells = reversed(context.cells)
    last = next((cell for cell in cells if cell.finished and cell.finished.seq < call.position), None)
    return f"after statement {last.statement.index}" if last else "before the first statement"


def _last_part(heading: str, tail: str, where: str | None = None) -> Sequence[str]:
    """The tail below its heading; where it is cut, a line counts the lines that are missing and says `where`."""
    if not tail:
        return ()
    lines = tail.splitlines()
    if where is None or len(lines) <= _TAIL_LINES + 1:
        return heading, fenced(tail)
    return heading, fenced("\n".join(lines[:_TAIL_LINES])), f"{more(len(lines) - _TAIL_LINES, 'line')}{where}."


async def views(context: CommandContext, argument: str) -> str:
    if argument and argument != ALL:
        return _NO_SUCH_VIEWS
    return views_text((await context.runtime.project()).handles, is_whole=argument == ALL)


def views_glance(context: CommandContext, argument: str) -> str:
    if argument and argument != ALL:
        return _NO_SUCH_VIEWS
    latest = context.runtime.projector.latest
    return f"{context.as_of}\n\n{views_text(latest.handles, is_whole=argument == ALL)}" if latest else _NOT_YET


async def tick(context: CommandContext, _: str) -> str:
    """What changed, a line for each handle: the differences are shown with the files that have changed."""
    events = await context.runtime.tick()
    changed = [event for event in events if isinstance(event, TickApplied) and event.delta]
    if changed:
        names = await context.runtime.handle_names()
        lines = [f"- {code_span(names.get(event.obj_id, event.obj_id))}: {printable(event.delta)}" for event in changed]
        return "\n".join(["These handles show what is there now; the model is told with its next call:", *lines])
    running = sum(event.nodes for event in events if isinstance(event, NodesTicked))
    if not running:
        return "No handle follows its file; `/run NAME.Run()` has one follow it."
    return (
        f"Nothing has changed in what {running} {plural(running, 'handle')} {'follows' if running == 1 else 'follow'}."
    )


async def compact(context: CommandContext, _: str) -> str:
    compacted = await context.runtime.compact()
    if compacted is None:
        return "Nothing can be left out."
    cut, used = compacted
    number = len(cut.positions)
    return (
        f"{number:,} {plural(number, 'message')} ({cut.tokens:,} tokens) were replaced by a summary. "
        f"A model would now be sent {used:,} tokens."
    )
