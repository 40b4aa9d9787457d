"""`rewindow replay --all --cluster`: each session is replayed by a task of a Ray cluster, on one of its nodes.

A task executes a process of its own (`replay_child`), because Ray's has threads and its token. The process gets the
node's environment, without Ray's variables, and the settings of this one. It ends when its standard input does: when
the task has its answer, or is gone. Ray runs a task again whose node is lost, elsewhere. The result is that of the
session alone, and nothing else is written, so a second run does no harm.

Knows no session. Called by `replay_all`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ..core.ids import SessionId
from ..core.settings import SETTINGS
from ..log.store_protocol import SessionRow
from ..runtime.ray_cluster import VARIABLES, ClusterError, join, leave
from .replayed import Replayed

MOST_TRIES: Final = 4
"""How often a task begins whose node or process is lost."""
NO_PROCESSOR: Final = "no node of the cluster has a processor for a replay"
LOST: Final = "the cluster lost the replay: {}"
ENDED: Final = "the replay ended without a result"
_LOOK_SECONDS: Final = 1.0
"""How often an interrupt is looked for."""


def replay_on_cluster(
    address: str,
    rows: Sequence[SessionRow],
    jobs: int | None,
    add: Callable[[Replayed], None],
    tell: Callable[[str], None],
) -> None:
    """Replay sessions on the nodes of a cluster.

    An interrupt ends all replays.

    Args:
        address: as for `ray_cluster.join`.
        rows: which sessions.
        jobs: sessions at a time; None for as many as the cluster has processors.
        add: gets each result as soon as it is there.
        tell: gets the id of each session that is begun.

    Raises:
        ClusterError: the cluster cannot be used.
    """
    # Ray prints there when it runs a task again, whatever it is told about logs.
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        folder = join(address)
        try:
            _replay_each(import_module("ray"), rows, jobs, add, tell)
        finally:
            leave(folder)


def _replay_each(
    ray: Any,
    rows: Sequence[SessionRow],
    jobs: int | None,
    add: Callable[[Replayed], None],
    tell: Callable[[str], None],
) -> None:
    running: dict[Any, SessionRow] = {}
    try:
        processors = int(ray.cluster_resources().get("CPU", 0))
        if not processors:
            raise ClusterError(NO_PROCESSOR)
        variables = {row.variable: os.environ[row.variable] for row in SETTINGS if row.variable in os.environ}
        task = ray.remote(replay_there).options(num_cpus=1, max_retries=MOST_TRIES - 1)
        left = iter(rows)
        while True:
            while len(running) < (jobs or processors) and (row := next(left, None)) is not None:
                tell(row.session_id)
                running[task.remote(row.session_id, variables)] = row
            if not running:
                return
            ready, _ = ray.wait(list(running), timeout=_LOOK_SECONDS)
            for each in ready:
                add(_result(ray, each, running.pop(each)))
    finally:
        for each in running:
            with suppress(Exception):  # of a cluster that is gone
                ray.cancel(each, force=True)


def _result(ray: Any, reference: Any, row: SessionRow) -> Replayed:
    failed = Replayed(session_id=row.session_id, outcome="failed", cwd=row.cwd, title=row.title)
    try:
        data: bytes = ray.get(reference)
    except import_module("ray.exceptions").RayError as error:
        return replace(failed, detail=LOST.format(str(error).strip().partition("\n")[0]))
    return msgspec.msgpack.decode(data, type=Replayed) if data else replace(failed, detail=ENDED)


def replay_there(session_id: SessionId, variables: Mapping[str, str]) -> bytes:
    """Replay a session in a process of this node; return the result as msgpack, or nothing. Runs as a task."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    child = f"{__package__}.replay_child"
    with subprocess.Popen(  # noqa: S603 -- our own interpreter and module
        [sys.executable, "-P", "-m", child, session_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environ, **variables},
        cwd="/",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        return process.stdout.read()
