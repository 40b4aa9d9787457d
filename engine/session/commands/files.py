"""`/undo`, `/redo` and `/changes`: what statements did to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Final

from ...core.errors import InvalidRequestError
from ...core.ids import SessionId
from ...core.text import code_span, cut_line, plural, printable
from ...log.events.going_back import Rewound
from ...log.file_history import SHOWN_FILES, Restorable, left_lines, merged_lines
from ..past.patches import FileDelta, changed_since, deltas_of
from ..requests import DRY_RUN, MoveResult, UndoRequest, no_such_statement, statement_number
from . import CommandContext, Reading

NO_FILES: Final = "No file changes are recorded on this branch."
NO_FILES_SINCE: Final = "No file changes are recorded since statement {}."
REDO_RETURNS: Final = "`/redo` takes this back."
UNDO_GOES_ON: Final = "`/undo` goes back further."
LEFT: Final = "{} {} could not be restored; {}"
SHOW_LEFT: Final = "`rewindow changes {} --left` shows the difference."
_SHOWN_CHARS: Final = 20
_LISTED: Final = 50
COUNTED_BYTES: Final = 1 << 20
"""Of the contents whose lines a list of changes compares."""


async def undo(context: CommandContext, argument: str) -> str:
    numbers, is_dry = _words(argument, "/undo")
    return await undo_or_redo(context, UndoRequest(numbers, is_dry=is_dry))


async def redo(context: CommandContext, argument: str) -> str:
    number, is_dry = _words(argument, "/redo")
    if number is not None:
        raise InvalidRequestError("`/redo` takes no number: it redoes the last undo.")
    return await undo_or_redo(context, UndoRequest(is_redo=True, is_dry=is_dry))


def _words(argument: str, command: str) -> tuple[int | None, bool]:
    """Return the number and whether it is a dry run."""
    words = argument.split()
    numbers = [word for word in words if word != DRY_RUN]
    number = statement_number(numbers[0]) if numbers else None
    if len(numbers) > 1 or (numbers and number is None):
        wrong = code_span(printable(cut_line(numbers[-1], _SHOWN_CHARS)))
        raise InvalidRequestError(f"`{command}` takes the number of a statement and {code_span(DRY_RUN)}, not {wrong}.")
    return number, len(numbers) < len(words)


async def undo_or_redo(context: CommandContext, request: UndoRequest) -> str:
    result = await context.perform(request)
    assert isinstance(result, MoveResult)
    parts = context.runtime.parts
    return "\n".join(undo_lines(result, request, parts.cwd, parts.session_id))


def undo_lines(result: MoveResult, request: UndoRequest, cwd: str, session: SessionId) -> Sequence[str]:
    """What an undo or a redo did, or would do. What was done is shown as an act, with the names."""
    if result.rewound is None:
        return would_lines("redo" if request.is_redo else "undo", result.written, cwd)
    said = left_sentence(result.rewound, session)
    other = REDO_RETURNS if result.rewound.restored and not request.is_redo else UNDO_GOES_ON
    return [f"{said}{(' ' if said else '')}{other} Variables and the conversation are unchanged."]


def left_sentence(rewound: Rewound, session: SessionId) -> str:
    """How many files stayed, and how to see what is different, or ""."""
    left = len(rewound.left)
    return LEFT.format(left, plural(left, "file"), SHOW_LEFT.format(session)) if left else ""


def would_lines(verb: str, found: Restorable, cwd: str) -> Sequence[str]:
    """What a step would do to files, and which it would leave."""
    paths = list(dict.fromkeys(file.path for file in found.files))
    names = ", ".join(code_span(printable(os.path.relpath(path, cwd))) for path in paths[:SHOWN_FILES])
    rest = f" and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    lines = [f"This would {verb} {len(paths)} {plural(len(paths), 'file')}: {names}{rest}."] if paths else []
    shown = partial(os.path.relpath, start=cwd)
    return [*lines, *merged_lines(found.files, shown, is_dry=True), *left_lines(found, shown)]


def changes_glance(context: CommandContext, argument: str) -> Reading:
    since = statement_number(argument) if argument else 0
    if since is None:
        raise InvalidRequestError("`/changes` takes the number of a statement.")
    parts, cells = context.runtime.parts, context.cells
    events = parts.log.events
    path = parts.log.path if since else events

    def read() -> str:
        changed = changed_since(events, path, since)
        if changed is None:
            raise InvalidRequestError(no_such_statement(cells, argument))
        return "\n".join(change_lines(deltas_of(changed, parts.store, parts.redactor), parts.cwd, since))

    return read


def change_lines(deltas: Sequence[FileDelta], cwd: str, since: int) -> Sequence[str]:
    """The changed files as Markdown, one a line, with the numbers of added and removed lines, or sizes."""
    if not deltas:
        return [NO_FILES_SINCE.format(since) if since else NO_FILES]
    lines: list[str] = []
    compared = 0
    for each in deltas[:_LISTED]:
        compared += each.size
        words = each.words(counted=compared <= COUNTED_BYTES)
        lines.append(f"- {code_span(printable(os.path.relpath(each.path, cwd)))}: {words}")
    rest = len(deltas) - _LISTED
    where = f" since statement {since}" if since else ""
    head = f"{len(deltas)} {plural(len(deltas), 'file')} changed{where}:"
    more = [f"- and {rest} more"] if rest > 0 else []
    return [head, "", *lines, *more]
