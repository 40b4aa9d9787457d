"""What would work where the kernel has refused a write or a connection: a note on what ends a statement.

The functions of Python's own are routed to the host, which asks about them. What reaches the kernel by itself (a
database, C code, a program, a process that a statement forked) is refused there with an error that says nothing of a
sandbox. Owns which errors those may be, and the words. Must not know how a domain is held. Used by `executor`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Final, cast

from ..domain import Domain

_REFUSED: Final = (errno.EACCES, errno.EROFS, errno.EPERM)
_OF_DATABASES: Final = ("unable to open database file", "attempt to write a readonly database")
_OF_PROGRAMS: Final = ("Permission denied", "Read-only file system")
_MOST_CHAINED: Final = 20
_ADVICE: Final = (
    "The sandbox keeps this from writing {what}. It works in a temporary directory (tempfile); shutil.copy() then puts"
    " the result in its place, after a question with its diff. So do open(), write() and edit(), and bash() runs a"
    " whole command after a question; in mode auto the project can be written directly."
)
_OUTSIDE: Final = (
    "The sandbox keeps statements from writing {what}, which is outside of the project. A temporary directory"
    " (tempfile) can be written, and bash() runs a command after a question."
)
_NO_NETWORK: Final = (
    "The sandbox has no network. The user can turn it on: the option Network of a session, --network of rewindow-mcp."
    " And bash() runs a whole command after a question."
)


class Advice:
    """For statements in a domain. `roots` are the directories of the project, `database` is the one opened last."""

    def __init__(self, domain: Domain, roots: tuple[str, ...], database: Callable[[], str]) -> None:
        self._writable = tuple(os.path.join(os.path.realpath(each), "") for each in (domain.scratch, *domain.writable))
        self._has_network = domain.network
        self._roots = tuple(os.path.join(os.path.realpath(each), "") for each in roots)
        self._database = database

    def add_to(self, error: BaseException) -> None:
        """Notes on the error, and on those that it comes from, what would work instead."""
        for each in _chained(error):
            note = self._note(each)
            if note and note not in getattr(each, "__notes__", ()):
                each.add_note(note)

    def _note(self, error: BaseException) -> str:
        if not self._has_network and _is_of_network(error):
            return _NO_NETWORK
        if isinstance(error, OSError) and error.errno in _REFUSED:
            return self._of_call(error)
        if type(error).__name__ == "OperationalError" and str(error).startswith(_OF_DATABASES):
            return _ADVICE.format(what=self._database() or "the database")
        printed = f"{getattr(error, 'stderr', '')}{getattr(error, 'output', '')}"
        if type(error).__name__ == "CalledProcessError" and any(each in printed for each in _OF_PROGRAMS):
            return _ADVICE.format(what="what a program writes")
        return ""

    def _of_call(self, error: OSError) -> str:
        """A host's answer says itself what was refused and why; what the kernel says is its usual sentence."""
        is_usual = error.strerror == os.strerror(error.errno or 0)
        path = error.filename2 or error.filename
        if isinstance(path, str | bytes) and is_usual:
            return self._of_path(os.path.abspath(os.fsdecode(path)))
        # Libraries in C put the path into their sentence.
        if path is None and not is_usual and "file" in str(error.strerror):
            return _ADVICE.format(what="the file")
        return ""

    def _of_path(self, path: str) -> str:
        real = f"{os.path.realpath(path)}/"
        there = path if os.path.lexists(path) else os.path.dirname(path)
        # Reading is nothing that a sandbox refuses.
        if real.startswith(self._writable) or not os.access(there, os.R_OK):
            return ""
        return (_ADVICE if real.startswith(self._roots) else _OUTSIDE).format(what=path)


def _is_of_network(error: BaseException) -> bool:
    """Whether a name could not be looked up, or a socket not be made, which is refused within `socket.py`."""
    if type(error).__name__ == "gaierror":
        return True
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    is_refused = isinstance(error, OSError) and error.errno in _REFUSED
    return is_refused and frame is not None and os.path.basename(frame.tb_frame.f_code.co_filename) == "socket.py"


def _chained(error: BaseException) -> Iterator[BaseException]:
    waiting, done = [error], set[int]()
    while waiting and len(done) < _MOST_CHAINED:
        each = waiting.pop()
        if id(each) in done:
            continue
        done.add(id(each))
        yield each
        waiting += filter(None, (each.__cause__, each.__context__))
        if isinstance(each, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", each).exceptions
