"""`rewindow rewind SESSION --to K`: back to where a statement had ended."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated, Final

import anyio
import typer

from ..core.ids import BranchId
from ..core.text import visible
from ..log.events.going_back import FileLeft, FileToRestore, Rewound
from ..log.file_history import rewound_lines
from ..session.session import Session
from .opened_session import in_session
from .output.json_lines import print_json
from .progress_line import shown

_STOPPED: Final = "Stopped; names, files and the conversation are as they were."
"""Said of an interrupt that came before the first file."""


def rewind(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or the start of it.")],
    to: Annotated[
        int, typer.Option("--to", metavar="K", min=0, help="The statement to go back to; 0 is the beginning.")
    ],
    keep_files: bool = typer.Option(False, "--keep-files", help="Leave the files as they are."),
    keep_conversation: bool = typer.Option(
        False, "--keep-conversation", help="Stay on the branch; only leave what ran after K out of the namespace."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Go back to the end of a statement, files included. The session continues on a new branch."""

    stopped = [_STOPPED]

    async def act(opened: Session) -> tuple[BranchId, str, Rewound | None]:
        start = opened.position
        try:
            rewound = await shown(
                opened,
                lambda: opened.rewind(to, files=not keep_files, conversation=not keep_conversation),
                quiet=as_json,
            )
        except anyio.get_cancelled_exc_class():
            ends = [event for event in opened.since(start) if isinstance(event, Rewound)]
            stopped[:] = [line for end in ends for line in _lines(end, opened.cwd)] or stopped
            raise
        active = next(row.name for row in opened.branches if row.is_active)
        return active, opened.cwd, rewound

    try:
        branch, cwd, rewound = in_session(session, act)
    except KeyboardInterrupt:
        typer.echo("\n".join(stopped), err=True)
        raise
    restored, left = ((), ()) if rewound is None else (rewound.restored, rewound.left)
    if as_json:
        files = {"restored": _paths(restored), "left": {each.path: each.reason for each in left}}
        print_json({"branch": branch, "statement": to, **files}, ("branch",))
        return
    typer.echo(
        f"The session is now at the end of statement {to}, on branch {branch}."
        if to
        else f"The session is now at its beginning, on branch {branch}."
    )
    if rewound is not None:
        typer.echo("\n".join(_lines(rewound, cwd)))
    elif not keep_files:
        typer.echo("No file that statements wrote has changed.")


def _lines(rewound: Rewound, cwd: str) -> list[str]:
    return [visible(line) for line in rewound_lines(rewound, partial(os.path.relpath, start=cwd))]


def _paths(files: tuple[FileToRestore | FileLeft, ...]) -> list[str]:
    return [file.path for file in files]
