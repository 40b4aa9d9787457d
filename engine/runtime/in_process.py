"""The Environment whose namespace lives in a thread of the host's own process, for tests and for embedding.

It is a `ConnectedEnvironment` as a worker's is, over the same interpreter, the same messages and the same
`statement_run`: what statements do, how they are cut short, what a restore says, all of it is the same code. What
differs is what a process gives and a thread cannot:

- Nothing confines a statement. `os._exit`, a segmentation fault and a lack of memory are the host's own; limits of the
  spec other than its seconds are not applied. Therefore no configuration of a user's leads here.
- A statement is interrupted at its next bytecode. One that waits in a system call is given up after the grace: its
  thread and namespace are left behind, and the outcome is that of a worker that died. One that loops in C and keeps the
  GIL stops the whole process until it ends. What a stopped statement has started goes on.
- The working directory, `sys.path`, `os.environ` and `sys.stdin` are the host's. Paths given to `view`, `read` and `ls`
  start from the spec's directory as ever; `open("x")` starts from the host's. Import paths and variables of the spec
  are not applied.
- Output is captured from Python's streams in the statement's own thread. That of children, of C code and of threads
  that the statement starts goes where the host's goes. A statement that replaces `sys.stdout` does it for all.
- `__name__` is "__main__", as in a worker, but `sys.modules["__main__"]` stays the host's: what pickles a class of a
  statement by its name fails, so instances of such classes have no digest and changes within them go unseen.
- A program (`command`) is a child of the host with a session of its own. What leaves its group and its parents goes on.
- Tracebacks look up source lines by a statement's label, of which there is one table for all environments.
- The guard of replays and of plan mode stands before the statement's own thread and what that starts, never before the
  host's others. With the first guard, what starts threads and takes work is replaced in the whole process; for the
  host's own threads it does as ever. Alarms are the host's, and are not turned off.
"""

from __future__ import annotations

from functools import partial

from .connected_environment import ConnectedEnvironment
from .host_program import HostProgram
from .thread_connection import Count, ThreadConnection


class InProcessEnvironment(ConnectedEnvironment):
    """One session's namespace, in a thread. `count` replaces the exact count of tokens, which takes time to load."""

    def __init__(self, count: Count | None = None) -> None:
        super().__init__(partial(ThreadConnection, count=count), HostProgram.start)
