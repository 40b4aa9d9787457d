"""`rewindow replay SESSION --from K`: statements run again, and what comes out differently is said."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ..core.text import visible
from ..log.events.going_back import Diverged
from ..session.commands.replay import MODES, replay_text
from ..session.past.replay_report import EDIT_MODES, ReplayReport
from ..session.session import Session
from .complaints import chosen
from .opened_session import in_session
from .output.json_lines import print_json
from .progress_line import shown

_NOT_ENDED: Final = 1
_STOPPED: Final = (
    "Stopped; names, files and the conversation are as they were.",
    "Stopped; the names and the conversation are as they were, and what statements did to files stays.",
)
"""Said of an interrupt: of what acts on nothing, and of a live replay or edit."""


def replay(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, or the start of it.")],
    first: Annotated[int, typer.Option("--from", metavar="K", min=1, help="The first statement to run again.")],
    last: Annotated[
        int | None, typer.Option("--to", metavar="J", min=1, help="The last one; default: the newest.")
    ] = None,
    mode: str = typer.Option(
        MODES[0],
        "--mode",
        metavar="|".join(MODES),
        help="Use recorded answers, act again, or stop at the first that would act.",
    ),
    edit: Annotated[
        typer.FileText | None,
        typer.Option(
            metavar="FILE", help="Run the statement in this file in place of K, on a new branch; - is standard input."
        ),
    ] = None,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Run statements again and report what comes out differently."""
    way = chosen("--mode", mode, MODES)
    source = None if edit is None else _text_of(edit)
    if source is not None:
        chosen("with --edit, --mode", mode, EDIT_MODES)

    async def act(opened: Session) -> ReplayReport:
        async def run() -> ReplayReport:
            if source is None:
                return await opened.replay(first, last, way)
            return await opened.edit(first, source, last, "live" if mode == "live" else "recorded")

        return await shown(opened, run, quiet=as_json)

    try:
        report = in_session(session, act)
    except KeyboardInterrupt:
        typer.echo(_STOPPED[mode == "live"], err=True)
        raise
    if as_json:
        print_json(_fields(report), ("status", "aspect", "mode", "outcome"))
    else:
        typer.echo(visible(replay_text(report)))
    if report.outcome != "completed":
        raise typer.Exit(_NOT_ENDED)


def _text_of(file: typer.FileText) -> str:
    """What it holds. Raises typer.BadParameter."""
    try:
        return file.read()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the file of --edit is not text in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise typer.BadParameter(f"the file of --edit cannot be read: {error.strerror}") from None


def _fields(report: ReplayReport) -> dict[str, object]:
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
