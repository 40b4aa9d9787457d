"""`rewindow replay --all`: the statements of many sessions run again with recorded answers, side by side.

**Nothing of yours is written.** Each session is copied into a store in memory, and its directories into a temporary
directory (`copies`). There its statements run, sandboxed where the system permits it, as in every replay: with the
recorded answers, without effects. The copies are deleted afterwards.

With `--cluster`, each session is replayed by a task of a Ray cluster (`replay_cluster`), in the same way, on a node.
Called by `going_back`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import typer
from msgspec import to_builtins
from msgspec.structs import replace

from ..core.clock import SystemClock
from ..core.errors import EngineError, InvalidRequestError
from ..core.ids import SessionId
from ..core.text import cut_line, plural
from ..log.events.going_back import Diverged
from ..log.store.memory import MemoryStore
from ..log.store_protocol import SessionRow, Store
from ..runtime.ray_cluster import authenticate, check_installed
from ..runtime.zygote import Zygote
from ..session.directories import alike
from ..session.host import Host
from ..session.reopening import copy_for_replay
from ..session.requests import ReplayReport
from ..session.session import Session
from ..session.working_tree.copies import copy_directories
from .output import ProgressLine, aligned, print_json, redactor, settings, shown, store
from .replay_cluster import replay_on_cluster
from .replayed import OUTCOMES, Difference, Outcome, Replayed

NO_SESSIONS: Final = "No sessions to replay."
_COLUMNS: Final = ("session", "outcome", "statements", "differences", "directory", "title")
_YIELDING: Final = (-1, -2)
_CELL_CHARS: Final = 200
_LISTED: Final = 5
"""Differences of a session that the table lists."""
_DETAIL_CHARS: Final = 160
_STOP: Final = "Ctrl-C prints the sessions that are done"
_PREFIX: Final = "rewindow-replay-"


def replay_all(cwd: str, since: float, jobs: int | None, *, cluster: str = "", as_json: bool) -> bool:
    """Replay the sessions of a directory, or all, that were used since a time; print what came of them.

    An interrupt prints the sessions that are done, then raises KeyboardInterrupt.

    Args:
        cwd: "" for all directories.
        since: seconds since the epoch.
        jobs: sessions at a time; None for as many as there are processors.
        cluster: the address of a Ray cluster whose nodes replay them; "" for this process.

    Returns:
        Whether no session differs or failed.

    Raises:
        ClusterError: the cluster cannot be used.
    """
    if cluster:
        check_installed()
        authenticate(cluster, settings().store)
    done: list[Replayed] = []
    with store() as opened:
        rows = opened.rows(cwds=alike(opened.directories(), cwd) if cwd else None)
        wanted = [row for row in rows if row.updated_at >= since]
        try:
            with _progress(len(wanted), done, quiet=as_json) as tell:
                if cluster:
                    replay_on_cluster(cluster, wanted, jobs, done.append, tell)
                else:
                    replay_here(opened, wanted, jobs or os.cpu_count() or 1, done.append, tell)
        finally:
            order = {row.session_id: number for number, row in enumerate(wanted)}
            done.sort(key=lambda each: order[SessionId(each.session_id)])
            if as_json:
                print_json(_fields(done, len(wanted)), ("session_id", "outcome", "aspect"))
            else:
                typer.echo("\n".join(_table(done, len(wanted))))
    return all(each.outcome in ("same", "empty") for each in done)


@contextmanager
def _progress(total: int, done: Sequence[Replayed], *, quiet: bool) -> Generator[Callable[[str], None]]:
    """Return what shows a line for the session that is replayed now."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    line = ProgressLine()
    try:
        yield lambda now: line.show(f"Replayed {len(done)} of {total} sessions, now {now}; {_STOP}")
    finally:
        line.clear()


def replay_here(
    opened: Store,
    rows: Sequence[SessionRow],
    jobs: int,
    add: Callable[[Replayed], None],
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Replay sessions in this process, so many `jobs` at a time; `add` gets each result, `tell` what is begun."""
    zygote = Zygote.spawn()
    copies = MemoryStore(SystemClock())
    try:
        host = Host(settings(), os.environ, zygote=zygote, store=copies, must_have_model=False)
    except BaseException:
        zygote.close()
        raise
    left = iter(rows)

    async def work() -> None:
        for row in left:
            tell(row.session_id)
            add(await _replayed(host, opened, copies, row))

    async def run() -> None:
        async with host, anyio.create_task_group() as tasks:
            for _ in range(jobs):
                tasks.start_soon(work)

    anyio.run(run)


async def _replayed(host: Host, opened: Store, copies: MemoryStore, row: SessionRow) -> Replayed:
    """Replay a copy of one session; a failure is a result."""
    result = Replayed(session_id=row.session_id, outcome="failed", cwd=row.cwd, title=row.title)
    place = Path(tempfile.mkdtemp(prefix=_PREFIX))
    name = SessionId(place.name.replace(_PREFIX, "copy-").replace("_", "-"))
    try:
        moved = await anyio.to_thread.run_sync(_copied, opened, copies, row, name, place)
        first, *others = moved.values()
        session = await host.sessions.load(name, first, others)
        try:
            return _judged(result, session, await session.replay(1), moved)
        except InvalidRequestError as error:
            return replace(result, outcome="empty", detail=str(error))
    except (EngineError, OSError) as error:
        return replace(result, detail=str(error))
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(EngineError):  # it may not have been copied
                await host.sessions.delete(name)
            await anyio.to_thread.run_sync(partial(shutil.rmtree, place, ignore_errors=True))


def _copied(opened: Store, copies: Store, row: SessionRow, name: SessionId, place: Path) -> dict[str, str]:
    """Copy a session and its directories; return the copy of each directory, the working directory first."""
    log = opened.load(row.session_id)
    moved = dict(copy_directories((row.cwd, *row.directories), log, opened.blob_get, place))
    copy_for_replay(opened, row, log, copies, name, moved)
    return moved


def _judged(result: Replayed, session: Session, report: ReplayReport, moved: dict[str, str]) -> Replayed:
    differences = tuple(_differences(report.divergences, moved))
    outcome: Outcome = "different" if differences else "same"
    return replace(
        result,
        outcome=outcome if report.outcome == "completed" else "failed",
        statements=len(report.executions),
        detail=report.detail,
        differences=differences,
        not_run=report.not_run,
    )


def _differences(found: Iterable[Diverged], moved: dict[str, str]) -> Iterator[Difference]:
    """Yield the differences, but for those of the place alone."""
    for each in found:
        after = each.after
        for directory, copy in moved.items():
            after = after.replace(copy, directory)
        if after != each.before:
            yield Difference(each.statement, each.aspect, each.before, after)


# --- what is printed --------------------------------------------------------------------------------------------------


def _fields(done: Sequence[Replayed], total: int) -> dict[str, object]:
    counts = Counter(each.outcome for each in done)
    return {
        "sessions": [to_builtins(each) for each in done],
        "summary": {**{outcome: counts[outcome] for outcome in OUTCOMES}, "not_replayed": total - len(done)},
    }


def _table(done: Sequence[Replayed], total: int) -> list[str]:
    if not total:
        return [NO_SESSIONS]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = aligned([_COLUMNS, *map(_cells, done)], width, _YIELDING)
    counts = Counter(each.outcome for each in done)
    parts = [f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]]
    parts += [f"{total - len(done)} not replayed"] if len(done) < total else []
    summary = f"{total} {plural(total, 'session')}: {', '.join(parts)}."
    return [*lines, "", *(line for each in done for line in _details(each)), summary]


def _cells(each: Replayed) -> list[str]:
    texts = (cut_line(_shown(text), _CELL_CHARS) for text in (each.cwd, each.title or ""))
    return [each.session_id, each.outcome, f"{each.statements:,}", f"{len(each.differences):,}", *texts]


def _details(each: Replayed) -> Iterator[str]:
    """Yield a paragraph on a session that differs or failed."""
    if each.outcome in ("same", "empty"):
        return
    yield f"{each.session_id}:{f' {_shown(each.detail)}' if each.detail else ''}"
    for found in each.differences[:_LISTED]:
        text = f"{found.aspect}: {found.after or 'nothing'} instead of {found.before or 'nothing'}"
        yield f"- statement {found.statement}: {cut_line(_shown(text), _DETAIL_CHARS)}"
    if len(each.differences) > _LISTED:
        yield f"- and {len(each.differences) - _LISTED} more"
    yield ""


def _shown(text: str) -> str:
    """Return text of a session without secrets, safe for a terminal."""
    return shown(redactor().redact(text))
