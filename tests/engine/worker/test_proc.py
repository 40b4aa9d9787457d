"""What is read of /proc, and of the kernel in its place: which children a process has."""

from __future__ import annotations

import os

from engine.worker.keeping import quiet_fork
from engine.worker.proc import children_of, has_children


def test_any_child_counts_until_it_was_reaped_also_one_whose_end_nobody_is_told_of() -> None:
    others = children_of("self")
    for fork, reap in ((os.fork, lambda pid: os.waitpid(pid, 0)), (quiet_fork.fork, quiet_fork.reap)):
        pid = fork()
        if pid == 0:
            os._exit(0)
        assert has_children()
        assert pid in (children_of("self") or ())
        reap(pid)
    assert has_children() == bool(others)
