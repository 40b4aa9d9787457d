"""What is read of /proc, and of the kernel in its place: which children a process has, and how it comes to them."""

from __future__ import annotations

import os
import threading
import time

from engine.runtime.worker.keeping import writing
from engine.runtime.worker.processes.brands import children_of, has_children

_OF_ANY_KIND = 0x40000000
"""`__WALL` of waitpid."""


def test_any_child_counts_until_it_was_reaped_also_one_whose_end_nobody_is_told_of() -> None:
    others = children_of("self")
    for fork in (os.fork, writing.fork):
        pid = fork()
        if pid == 0:
            os._exit(0)
        assert has_children()
        assert pid in (children_of("self") or ())
        os.waitpid(pid, _OF_ANY_KIND)
    assert has_children() == bool(others)


def test_a_process_that_is_forked_beside_another_is_its_parents_and_knows_its_own_thread() -> None:
    us, (reader, writer) = os.getpid(), os.pipe()
    between = os.fork()
    if between == 0:
        if writing.can_be_beside() and writing.fork_beside(lambda: None) is None:
            # Of a thread that is not of this process there is no clock.
            time.clock_gettime(time.pthread_getcpuclockid(threading.get_ident()))
            os.write(writer, b"%d %d" % (os.getppid() == us, os.getpid()))
        os._exit(0)
    os.close(writer)
    os.waitpid(between, 0)
    is_ours, pid = os.read(reader, 100).split()
    os.close(reader)
    assert is_ours == b"1"
    assert os.waitpid(int(pid), 0) == (int(pid), 0)
