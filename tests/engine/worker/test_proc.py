"""What is read of /proc, and of the kernel in its place: which children a process has."""

from __future__ import annotations

import os

from engine.worker.keeping import quiet_fork
from engine.worker.proc import children_of, has_children

_OF_ANY_KIND = 0x40000000
"""`__WALL` of waitpid."""


def test_any_child_counts_until_it_was_reaped_also_one_whose_end_nobody_is_told_of() -> None:
    others = children_of("self")
    for fork in (os.fork, quiet_fork.fork):
        pid = fork()
        if pid == 0:
            os._exit(0)
        assert has_children()
        assert pid in (children_of("self") or ())
        os.waitpid(pid, _OF_ANY_KIND)
    assert has_children() == bool(others)
