"""`rewindow sessions`, `branches`, `delete` and `gc`: lists of sessions and branches, and their removal."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from typing import Annotated, Final

import typer
from msgspec.structs import replace

from ..core.errors import EngineError
from ..core.text import cut_line, plural
from ..log.branches import BranchRow, branch_rows, branches_of
from ..log.facts import SessionFacts
from ..log.store_protocol import SessionRow
from ..session.clones import remove_clone, sweep_clones
from ..session.directories import Scratch, alike, sweep
from .commands import complaint
from .output import aligned, check_formats, find, print_json_rows, print_rows, redactor, settings, shown, size, store

_SESSION_COLUMNS: Final = ("session", "last used", "events", "size", "past", "values", "directory", "title")
"""`past` is the part of the size that is kept for rebuilds, and `values` the part of that for copies of values."""
_FOR_ROOM: Final = slice(4, 6)
"""A terminal of less than _WIDE cells shows neither, to leave room for the titles."""
_WIDE: Final = 110
_CELL_CHARS: Final = 200
"""The most characters of a cell, because the longest cell makes its column wide."""
NO_ARCHIVED: Final = "No archived sessions."
_YIELDING: Final = (-1, -2)
"""The columns that become narrower on a narrow terminal: first the title, then the directory."""


def sessions(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
    as_lines: bool = typer.Option(False, "--jsonl", help="Print one JSON object per line."),
    cwd: str = typer.Option("", "--cwd", metavar="DIR", help="List only sessions in this directory."),
    archived: bool = typer.Option(False, "--archived", help="List only sessions that an editor has archived."),
) -> None:
    """List the sessions, most recently used first. Archived sessions are listed separately."""
    check_formats(as_json, as_lines)
    with store() as opened:
        found = opened.rows(cwds=alike(opened.directories(), cwd) if cwd else None, archived=archived)
        hidden = redactor()
        rows = [replace(row, title=row.title and hidden.redact(row.title)) for row in found]
    if as_json or as_lines:
        print_rows([json.dumps(_session_fields(row)).encode() for row in rows], as_lines=as_lines)
    elif rows:
        typer.echo("\n".join(_table(rows)))
    elif archived:
        typer.echo(NO_ARCHIVED)
    elif cwd:
        typer.echo(f"No sessions in {shown(cwd)}.")
    else:
        typer.echo("No sessions yet. Begin one with `rewindow run`, or configure `rewindow-acp` in your editor.")
    for row in rows:
        if row.complaint:
            typer.echo(complaint(row.complaint), err=True)


def _table(rows: Iterable[SessionRow]) -> list[str]:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    table = [list(_SESSION_COLUMNS), *map(_session_cells, rows)]
    if width is not None and width < _WIDE:
        for row in table:
            del row[_FOR_ROOM]
    return aligned(table, width, _YIELDING)


def _session_cells(row: SessionRow) -> list[str]:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.updated_at))
    texts = (cut_line(shown(text), _CELL_CHARS) for text in (row.session_id, row.cwd, row.title or ""))
    session, directory, title = texts
    sizes = (size(count) for count in (row.size, row.contents_size, row.droppable_size))
    return [session, used, f"{row.events:,}", *sizes, directory, title]


def _session_fields(row: SessionRow) -> dict[str, object]:
    return {
        "session_id": row.session_id,
        "cwd": row.cwd,
        "title": row.title,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "events": row.events,
        "size": row.size,
        "past_size": row.contents_size,
        "values_size": row.droppable_size,
        "archived": row.archived,
    }


_BRANCH_COLUMNS = ("branch", "from", "statements", "")


def branches(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or any unique beginning of it."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON array."),
    as_lines: bool = typer.Option(False, "--jsonl", help="Print one JSON object per line."),
) -> None:
    """List the branches of a session, oldest first."""
    check_formats(as_json, as_lines)
    with store() as opened:
        events = opened.load(find(opened, session).session_id)
    facts = SessionFacts()
    for event in events:
        facts.apply(event)
    rows = branch_rows(branches_of(events), facts.statements_below)
    if as_json or as_lines:
        print_json_rows([_branch_fields(row) for row in rows], ("branch", "parent"), as_lines=as_lines)
    else:
        typer.echo("\n".join(aligned([_BRANCH_COLUMNS, *map(_branch_cells, rows)], None, ())))


def _branch_cells(row: BranchRow) -> tuple[str, ...]:
    start = "" if row.parent is None else f"{shown(row.parent)} after {row.shared}" if row.shared else shown(row.parent)
    return shown(row.name), start, str(row.last), "active" if row.is_active else ""


def _branch_fields(row: BranchRow) -> dict[str, object]:
    return {
        "branch": row.name,
        "parent": row.parent,
        "shared": row.shared,
        "statements": row.last,
        "active": row.is_active,
    }


def delete(
    sessions: Annotated[list[str], typer.Argument(help="Session ids, or their first characters.", metavar="SESSION")],
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete sessions with all their contents. `rewindow gc` frees the disk space."""
    if not yes and not sys.stdin.isatty():
        raise typer.BadParameter("deleting asks for confirmation in a terminal; --yes deletes without asking")
    with store() as opened:
        rows = {row.session_id: row for row in (find(opened, start) for start in sessions)}
        if not yes and not _confirmed(list(rows.values())):
            typer.echo("Nothing was deleted.")
            raise typer.Exit(1)
        failed = False
        for session_id in rows:
            try:
                opened.delete(session_id)
                Scratch(settings().state_dir, session_id).remove()
                remove_clone(settings(), os.environ, session_id)
                typer.echo(f"deleted {session_id}")
            except EngineError as error:
                failed = True
                typer.echo(complaint(error), err=True)
    if failed:
        raise typer.Exit(1)


def _confirmed(rows: list[SessionRow]) -> bool:
    for row in rows:
        title = f"  {shown(row.title)}" if row.title else ""
        typer.echo(f"{row.session_id}  {row.events:,} events, {size(row.size)}  {shown(row.cwd)}{title}")
    return typer.confirm(
        "Delete this session permanently?" if len(rows) == 1 else f"Delete these {len(rows)} sessions permanently?"
    )


_SECONDS: Final = {"h": 3600, "d": 86_400, "w": 604_800}
_AGE: Final = re.compile(r"([1-9][0-9]{0,5})([hdw])")


def seconds_of(age: str) -> int:
    """Return an age such as `12h`, `30d` or `8w` in seconds.

    Raises:
        typer.BadParameter: it is not an age.
    """
    match = _AGE.fullmatch(age)
    if match is None:
        raise typer.BadParameter(f"{age!r} is not an age; give a number with h, d or w, such as 12h, 30d or 8w")
    return int(match[1]) * _SECONDS[match[2]]


def gc(
    older_than: str = typer.Option(help="Delete sessions that were unused for this long: 12h, 30d, 8w.", metavar="AGE"),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only list the sessions that would be deleted."),
) -> None:
    """Delete sessions that were not used for a while. Sessions in use are kept."""
    limit = time.time() - seconds_of(older_than)
    with store() as opened:
        if dry_run:
            in_use = opened.owners()
            old = [row for row in opened.rows() if row.updated_at < limit and row.session_id not in in_use]
            for row in old:
                typer.echo(f"would delete {row.session_id}")
            typer.echo(
                f"{len(old):,} {plural(len(old), 'session')}, {size(sum(row.size for row in old))}; nothing was deleted"
            )
            return
        done = opened.collect(limit)
        sweep(settings().state_dir, lambda: {row.session_id for row in opened.rows()})
        clones = sweep_clones(settings(), os.environ, lambda: {row.session_id for row in opened.rows()})
    for session_id in done.deleted:
        typer.echo(f"deleted {session_id}")
    for session_id in done.in_use:
        typer.echo(f"kept {session_id}, which is in use")
    if clones:
        typer.echo(f"removed {clones:,} {plural(clones, 'clone')} of sessions that are gone")
    typer.echo(f"{len(done.deleted):,} {plural(len(done.deleted), 'session')} deleted, {size(done.freed)} freed")
