"""`rewindow undo`, `redo` and `changes`: what a session did to files.

The first two open the session, as rewinds do; the third reads its log alone. Called by `cli`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

import anyio
import typer

from ..core.errors import InvalidRequestError
from ..core.text import visible
from ..files.protected import Protection
from ..log.branches import path_of
from ..log.events.going_back import Rewound
from ..log.file_history import rewound_lines
from ..log.redaction import redact_event
from ..session.commands.files import SHOW_LEFT, change_lines, would_lines
from ..session.past.patches import FileDelta, changed_since, deltas_left, deltas_of, for_patch, patch
from ..session.requests import MoveResult, UndoRequest
from ..session.session import Session
from .commands import number_from
from .going_back import in_session, with_progress_line
from .output import find, print_json, redactor, store

_STOPPED: Final = "Stopped. All files are as before."
_NO_SUCH: Final = "There is no statement {} on the active branch."
_SESSION: Final = typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it.")
PROTECTED: Final = "{} is protected, because {}. Read what the patch does to it before you apply it."
NONE_LEFT: Final = "The last undo or rewind skipped no file, or the skipped files now have the intended content."
_DRY: Final = typer.Option("--dry-run", help="Only print the planned changes.")
_JSON: Final = typer.Option("--json", help="Print one JSON object.")


def undo(
    session: Annotated[str, _SESSION],
    statement: Annotated[
        int | None,
        typer.Argument(
            metavar="K", parser=number_from(1), help="The statement; default: the last one that changed files."
        ),
    ] = None,
    dry_run: Annotated[bool, _DRY] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Undo only the file changes of a statement."""
    _undo(session, UndoRequest(statement, is_dry=dry_run), as_json=as_json)


def redo(
    session: Annotated[str, _SESSION],
    dry_run: Annotated[bool, _DRY] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Redo the file changes of the last undo."""
    _undo(session, UndoRequest(is_redo=True, is_dry=dry_run), as_json=as_json)


def _undo(session: str, request: UndoRequest, *, as_json: bool) -> None:
    stopped = [_STOPPED]

    async def act(opened: Session) -> tuple[str, MoveResult]:
        start = opened.position

        async def go() -> MoveResult:
            if request.is_redo:
                return await opened.redo(is_dry=request.is_dry)
            return await opened.undo(request.statement, is_dry=request.is_dry)

        try:
            return opened.cwd, await with_progress_line(opened, go, quiet=as_json)
        except anyio.get_cancelled_exc_class():
            ends = [event for event in opened.since(start) if isinstance(event, Rewound)]
            stopped[:] = [line for end in ends for line in _lines(end, opened.cwd)] or stopped
            raise

    try:
        cwd, result = in_session(session, act)
    except KeyboardInterrupt:
        typer.echo("\n".join(stopped), err=True)
        raise
    if as_json:
        files = result.written.files if result.rewound is None else result.rewound.restored
        left = result.written.left if result.rewound is None else result.rewound.left
        print_json(
            {
                "done": result.rewound is not None,
                "files": list(dict.fromkeys(file.path for file in files)),
                "merged": [file.path for file in files if file.is_merged],
                "left": {each.path: each.reason for each in left},
            },
            (),
        )
        return
    if result.rewound is None:
        lines = would_lines("redo" if request.is_redo else "undo", result.written, cwd)
    else:
        lines = [*_lines(result.rewound, cwd), *[SHOW_LEFT.format(session)] * bool(result.rewound.left)]
    typer.echo("\n".join(map(visible, lines)))


def _lines(rewound: Rewound, cwd: str) -> list[str]:
    return [visible(line) for line in rewound_lines(rewound, partial(os.path.relpath, start=cwd))]


def changes(
    session: Annotated[str, _SESSION],
    since: Annotated[
        int, typer.Option("--since", metavar="K", parser=number_from(0), help="List only changes after statement K.")
    ] = 0,
    as_patch: bool = typer.Option(False, "--patch", help="Print a patch for `git apply`."),
    as_json: Annotated[bool, _JSON] = False,
    left: bool = typer.Option(
        False, "--left", help="Print a patch with the changes that the last undo or rewind skipped."
    ),
) -> None:
    """List the files that a session has changed."""
    if left and (as_patch or as_json or since):
        raise typer.BadParameter("--left cannot be combined with other options")
    if as_patch and as_json:
        raise typer.BadParameter("--patch and --json cannot be combined")
    with store() as opened:
        row = find(opened, session)
        hidden = redactor()
        events = [redact_event(hidden, event) for event in opened.load(row.session_id)]
        if left:
            deltas = deltas_left(events, opened, hidden)
        else:
            changed = changed_since(events, path_of(events), since)
            if changed is None:
                raise InvalidRequestError(_NO_SUCH.format(since))
            deltas = deltas_of(changed, opened, hidden)
    if as_json:
        print_json({"since": since, "files": [_as_data(each) for each in deltas]}, ("change",))
        return
    if left and not deltas:
        typer.echo(NONE_LEFT)
        return
    if not as_patch and not left:
        typer.echo(visible("\n".join(change_lines(deltas, row.cwd, since))))
        return
    deltas = for_patch(deltas, os.path.realpath(row.cwd))
    _print_patch(patch(deltas, os.path.realpath(row.cwd)))
    _print_remarks(deltas, row.cwd)


def _print_remarks(deltas: Sequence[FileDelta], cwd: str) -> None:
    """Say which files a patch leaves out, and which ones other programs run."""
    protection = Protection((os.path.realpath(cwd),))
    for each in deltas:
        name = os.path.relpath(each.path, cwd)
        if each.reason:
            typer.echo(visible(f"{name} is left out: {each.reason}"), err=True)
        elif why := protection.why(os.path.realpath(each.path)):
            typer.echo(visible(PROTECTED.format(name, why)), err=True)


def _print_patch(text: str) -> None:
    """Print a patch to the letter for a program that applies it; on a terminal without what would control that."""
    if sys.stdout.isatty():
        typer.echo(visible(text), nl=False)
        return
    sys.stdout.write(text)  # because `echo` would take colours out of the contents
    sys.stdout.flush()


def _as_data(delta: FileDelta) -> dict[str, object]:
    added, removed = (None, None) if delta.reason else delta.extent
    change = "made" if delta.before_mode is None else "removed" if delta.after_mode is None else "changed"
    return {"path": delta.path, "change": change, "added": added, "removed": removed, "reason": delta.reason or None}
