"""`rewindow rewind SESSION --to K`: back to where a statement had ended."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..events.rewinding import FileLeft, FileToRestore, Rewound
from ..ids import BranchId
from ..sessions.session import Session
from ..terminal.json_lines import print_json
from ..text import visible
from ..timeline.rewound import rewound_lines
from .opened_session import in_session
from .progress_line import shown


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

    async def act(opened: Session) -> tuple[BranchId, str, Rewound | None]:
        rewound = await shown(
            opened,
            lambda: opened.rewind(to, files=not keep_files, conversation=not keep_conversation),
            quiet=as_json,
        )
        active = next(row.name for row in opened.branches if row.is_active)
        return active, opened.cwd, rewound

    branch, cwd, rewound = in_session(session, act)
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
        typer.echo(visible("\n".join(rewound_lines(rewound, lambda path: os.path.relpath(path, cwd)))))
    elif not keep_files:
        typer.echo("No file that statements wrote has changed.")


def _paths(files: tuple[FileToRestore | FileLeft, ...]) -> list[str]:
    return [file.path for file in files]
