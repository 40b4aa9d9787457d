"""`rewindow rewind`, `replay` and `diff`. Rewinds and replays open the session, work on it, and close it.

While a command has the session open, no other process can open it. On a terminal a line shows the progress. Called by
`cli`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Final, TypeVar

import anyio
import typer

from ..core.errors import EngineError
from ..core.ids import BranchId
from ..core.text import visible
from ..log.branches import branches_of
from ..log.events.going_back import Diverged, FileLeft, FileToRestore, Rewound
from ..log.file_history import Restorable, finished_lines, rewound_lines
from ..log.redaction import redact_event
from ..log.timeline import Cell
from ..runtime.zygote import Zygote
from ..session.commands.files import SHOW_LEFT
from ..session.commands.timeline import MODES, diff_lines, preview_lines
from ..session.host import Host
from ..session.past.branch_diff import Differing, Side
from ..session.past.branch_diff import diff as compare
from ..session.progress import Progress, with_progress
from ..session.requests import EDIT_MODES, ReplayReport
from ..session.session import Session
from .commands import chosen, number_from
from .output import ProgressLine, find, print_json, redactor, settings, store
from .replay_all import replay_all
from .sessions import seconds_of

_REWIND_STOPPED: Final = "Stopped. Variables, files and conversation are restored."
"""Shown for an interrupt before the first file was restored."""


def rewind(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it.")],
    to: Annotated[
        int,
        typer.Option(
            "--to", metavar="K", parser=number_from(0), help="The statement to go back to; 0 is the beginning."
        ),
    ],
    keep_files: bool = typer.Option(False, "--keep-files", help="Do not change files."),
    keep_conversation: bool = typer.Option(
        False, "--keep-conversation", help="Stay on the branch; only undo later statements in the namespace."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only print the planned changes."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Go back to the end of a statement, files included. The session continues on a new branch."""

    stopped = [_REWIND_STOPPED]
    goes = partial(_goes, to, files=not keep_files, conversation=not keep_conversation, is_dry=dry_run)

    async def act(opened: Session) -> tuple[BranchId, str, Rewound | Restorable | None]:
        start = opened.position
        try:
            rewound = await with_progress_line(opened, partial(goes, opened), quiet=as_json)
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
    if as_json:
        restored = () if rewound is None else rewound.files if isinstance(rewound, Restorable) else rewound.restored
        left = {} if rewound is None else {each.path: each.reason for each in rewound.left}
        done = not isinstance(rewound, Restorable)
        merged = [file.path for file in restored if file.is_merged]
        files = {"restored": _paths(restored), "merged": merged, "left": left}
        print_json({"done": done, "branch": branch, "statement": to, **files}, ("branch",))
        return
    if isinstance(rewound, Restorable):
        typer.echo("\n".join(map(visible, preview_lines(to, rewound, cwd))))
        return
    typer.echo(
        f"The session is now at the end of statement {to}, on branch {branch}."
        if to
        else f"The session is now at its beginning, on branch {branch}."
    )
    if rewound is not None:
        typer.echo("\n".join([*_lines(rewound, cwd), *[SHOW_LEFT.format(session)] * bool(rewound.left)]))
    elif not keep_files:
        typer.echo("No files needed restoring.")


async def _goes(
    to: int, opened: Session, *, files: bool, conversation: bool, is_dry: bool
) -> Rewound | Restorable | None:
    if is_dry:
        return await opened.preview_rewind(to, files=files, conversation=conversation)
    return await opened.rewind(to, files=files, conversation=conversation)


def _lines(rewound: Rewound, cwd: str) -> list[str]:
    return [visible(line) for line in rewound_lines(rewound, partial(os.path.relpath, start=cwd))]


def _paths(files: tuple[FileToRestore | FileLeft, ...]) -> list[str]:
    return [file.path for file in files]


_NOT_ENDED: Final = 1
_NEEDS_SESSION: Final = "name a SESSION and the first statement (--from K), or use --all"
_NOT_WITH_ALL: Final = "--all takes only --cwd, --since, --jobs, --cluster and --json"
_ONLY_WITH_ALL: Final = "--cwd, --since, --jobs and --cluster need --all"
_STOPPED: Final = (
    "Stopped. Variables, files and conversation are restored.",
    "Stopped. Variables and conversation are restored; file changes remain.",
)
"""Shown for an interrupt: of a replay without effects, and of a live replay or edit."""


def replay(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it.")
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--from", metavar="K", parser=number_from(1), help="The first statement to run again."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--to", metavar="J", parser=number_from(1), help="The last statement to run again; default: the newest."
        ),
    ] = None,
    *,
    mode: str = typer.Option(
        MODES[0],
        "--mode",
        metavar="|".join(MODES),
        help="Use recorded answers, perform effects again, or stop at the first effect.",
    ),
    edit: Annotated[
        typer.FileText | None,
        typer.Option(
            metavar="FILE", help="Run the statement in this file in place of K, on a new branch; - is standard input."
        ),
    ] = None,
    every: bool = typer.Option(False, "--all", help="Replay copies of all sessions; nothing of yours is written."),
    cwd: str = typer.Option("", "--cwd", metavar="DIR", help="With --all: only sessions in this directory."),
    since: str = typer.Option("", "--since", metavar="AGE", help="With --all: only sessions used since: 12h, 30d, 8w."),
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", parser=number_from(1), help="With --all: sessions at a time; default: processors."),
    ] = None,
    cluster: str = typer.Option(
        "",
        "--cluster",
        metavar="ADDRESS",
        help="With --all: run on a Ray cluster: HOST:PORT, `auto` or `local`.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Run statements again and report the differences."""
    if every:
        if session is not None or first is not None or last is not None or edit is not None or mode != MODES[0]:
            raise typer.BadParameter(_NOT_WITH_ALL)
        start = time.time() - seconds_of(since) if since else 0.0
        if not replay_all(cwd, start, jobs, cluster=cluster, as_json=as_json):
            raise typer.Exit(_NOT_ENDED)
        return
    if session is None or first is None:
        raise typer.BadParameter(_NEEDS_SESSION)
    if cwd or since or cluster or jobs is not None:
        raise typer.BadParameter(_ONLY_WITH_ALL)
    _replay_one(session, first, last, mode, edit, as_json=as_json)


def _replay_one(
    session: str, first: int, last: int | None, mode: str, edit: typer.FileText | None, *, as_json: bool
) -> None:
    checked_mode = chosen("--mode", mode, MODES)
    source = None if edit is None else _text_of(edit)
    if source is not None:
        chosen("with --edit, --mode", mode, EDIT_MODES)

    async def act(opened: Session) -> ReplayReport:
        async def run() -> ReplayReport:
            if source is None:
                return await opened.replay(first, last, checked_mode)
            return await opened.edit(first, source, last, "live" if mode == "live" else "recorded")

        return await with_progress_line(opened, run, quiet=as_json)

    try:
        report = in_session(session, act)
    except KeyboardInterrupt:
        typer.echo(_STOPPED[mode == "live"], err=True)
        raise
    if as_json:
        print_json(_report_fields(report), ("status", "aspect", "mode", "outcome"))
    else:
        typer.echo(visible(report.text()))
    if report.outcome != "completed":
        raise typer.Exit(_NOT_ENDED)


def _text_of(file: typer.FileText) -> str:
    """Return the text of the file.

    Raises:
        typer.BadParameter: it cannot be read, or is not UTF-8.
    """
    try:
        return file.read()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the --edit file is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise typer.BadParameter(f"the --edit file cannot be read: {error.strerror}") from None


def _report_fields(report: ReplayReport) -> dict[str, object]:
    return {
        "from": report.first,
        "to": report.last,
        "mode": report.mode,
        "outcome": report.outcome,
        "detail": report.detail,
        "branch": report.branch,
        "executions": [{"status": each.status, "value": each.value} for each in report.executions],
        "divergences": [_divergence(each) for each in report.divergences],
        "not_run": list(report.not_run),
    }


def _divergence(event: Diverged) -> dict[str, object]:
    return {
        "statement": event.statement,
        "aspect": event.aspect,
        "before": event.before,
        "after": event.after,
    }


def diff(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it.")],
    left: Annotated[str, typer.Argument(metavar="A", help="A branch.")],
    right: Annotated[str | None, typer.Argument(metavar="B", help="Another branch; default: the active one.")] = None,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Compare two branches: statements, variables and files."""
    with store() as opened:
        row = find(opened, session)
        hidden = redactor()
        events = [redact_event(hidden, event) for event in opened.load(row.session_id)]
    branches = branches_of(events)
    comparison = compare(events, branches, left, branches.active if right is None else right)
    if not as_json:
        typer.echo(visible("\n".join(diff_lines(comparison, row.cwd))))
        return
    print_json(
        {
            "left": {"branch": comparison.left, "statements": _statements(comparison.left_cells)},
            "right": {"branch": comparison.right, "statements": _statements(comparison.right_cells)},
            "shared": comparison.shared,
            "names": {
                each.name: {"left": _shown_value(each.left), "right": _shown_value(each.right)}
                for each in comparison.names
            },
            "files": [_file(each) for each in comparison.files],
        },
        ("branch", "status", "left_digest", "right_digest"),
    )


def _statements(cells: Sequence[Cell]) -> list[dict[str, object]]:
    return [
        {
            "statement": cell.statement.index,
            "source": cell.statement.source,
            "status": cell.finished.status if cell.finished else None,
        }
        for cell in cells
    ]


def _shown_value(side: Side | None) -> str | None:
    return None if side is None else side.shown


def _file(each: Differing) -> dict[str, object]:
    digests = (None if side is None else side.digest for side in (each.left, each.right))
    return dict(zip(("path", "left_digest", "right_digest"), (each.name, *digests), strict=True))


T = TypeVar("T")


def in_session(start: str, act: Callable[[Session], Awaitable[T]]) -> T:
    """Run `act` on the only session whose id starts with `start`.

    An interrupt cancels `act`, which may then undo its work. If opening the session completes an interrupted rewind,
    standard error reports it.

    An exception that passes through the engine's task group would be wrapped. So it is stored, and raised when the
    engine is closed.

    Raises:
        EngineError: the session does not exist or is open in another process, or `act` failed.
    """
    with store() as opened:
        session_id = find(opened, start).session_id
    zygote = Zygote.spawn()
    try:
        host = Host(settings(), os.environ, zygote=zygote, must_have_model=False)
    except BaseException:
        zygote.close()
        raise
    results: list[T] = []
    failures: list[EngineError] = []

    async def run() -> None:
        async with host:
            try:
                session = await host.sessions.load(session_id)
                for line in finished_lines(session.settled, partial(os.path.relpath, start=session.cwd)):
                    typer.echo(visible(line), err=True)
                results.append(await act(session))
            except EngineError as error:
                failures.append(error)

    anyio.run(run)
    if failures:
        raise failures[0]
    return results[0]


_STOP: Final = "Ctrl-C stops and restores the session"


async def with_progress_line(session: Session, act: Callable[[], Awaitable[T]], *, quiet: bool) -> T:
    """Run `act`; meanwhile a line shows the progress, unless `quiet`.

    Nothing is written if standard error is not a terminal.
    """
    if quiet or not sys.stderr.isatty():
        return await act()
    line = ProgressLine()

    async def show(progress: Progress) -> None:
        line.show(f"{progress.text}; {_STOP}")

    try:
        return await with_progress(session, act, show)
    finally:
        line.clear()
