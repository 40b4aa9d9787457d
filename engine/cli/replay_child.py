"""The process that replays one session for a task of a cluster, and writes its result to standard output as msgpack.

It interrupts itself when its standard input ends: then its task is gone, and nobody wants the result. Executed by
`replay_cluster`.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread

import msgspec

from ..core.errors import EngineError
from ..core.ids import SessionId
from ..runtime.hardening import harden_process
from .output import store
from .replay_all import replay_here
from .replayed import Replayed


def main(session_id: SessionId, write_to: int) -> None:
    """Replay the session; an error is a result, too."""
    done: list[Replayed] = []
    try:
        with store() as opened:
            replay_here(opened, [opened.row(session_id)], 1, done.append)
    except EngineError as error:
        done = [Replayed(session_id=session_id, outcome="failed", detail=str(error))]
    with open(write_to, "wb") as out:
        out.write(msgspec.msgpack.encode(done[0]))


def _watch(read_from: int) -> None:
    while os.read(read_from, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    harden_process()
    answer, task = os.dup(1), os.dup(0)
    os.dup2(2, 1)  # what is printed by accident is no part of the answer
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Thread(target=_watch, args=(task,), daemon=True).start()
    try:
        main(SessionId(sys.argv[1]), answer)
    except KeyboardInterrupt:
        sys.exit(130)
