"""`rewindow gc --older-than AGE`: deletes what nobody has used for long, and gives the space back."""

from __future__ import annotations

import os
import re
import time
from typing import Final

import typer

from ..core.text import plural
from ..log.store import DATABASE
from ..log.store.locks import owners
from ..session.scratch import sweep
from .output.opened import settings, store
from .output.printing import size

_SECONDS: Final = {"h": 3600, "d": 86_400, "w": 604_800}
_AGE: Final = re.compile(r"([1-9][0-9]{0,5})([hdw])")


def seconds_of(age: str) -> int:
    """`12h`, `30d` or `8w` in seconds. Raises typer.BadParameter for anything else."""
    match = _AGE.fullmatch(age)
    if match is None:
        raise typer.BadParameter(f"{age!r} is no age; give a number with h, d or w, such as 12h, 30d or 8w")
    return int(match[1]) * _SECONDS[match[2]]


def gc(
    older_than: str = typer.Option(help="For how long they have been unused: 12h, 30d, 8w.", metavar="AGE"),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only list what would be deleted."),
) -> None:
    """Delete sessions that nobody has used for a while. Those in use stay."""
    limit = time.time() - seconds_of(older_than)
    with store() as opened:
        if dry_run:
            in_use = owners(os.path.realpath(settings().state_dir / DATABASE))
            old = [row for row in opened.rows() if row.updated_at < limit and row.session_id not in in_use]
            for row in old:
                typer.echo(f"would delete {row.session_id}")
            typer.echo(
                f"{len(old):,} {plural(len(old), 'session')}, {size(sum(row.size for row in old))}; nothing was deleted"
            )
            return
        done = opened.collect(limit)
        sweep(settings().state_dir, lambda: {row.session_id for row in opened.rows()})
    for session_id in done.deleted:
        typer.echo(f"deleted {session_id}")
    for session_id in done.in_use:
        typer.echo(f"left {session_id}, which is in use")
    typer.echo(f"{len(done.deleted):,} {plural(len(done.deleted), 'session')} deleted, {size(done.freed)} given back")
