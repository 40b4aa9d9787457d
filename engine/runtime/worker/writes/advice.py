"""What would work where the kernel has refused a write or a connection: a note on what ends a statement.

The functions of Python's own are routed to the host, which asks about them. What reaches the kernel by itself (a
database, C code, a program, a process that a statement forked) is refused there with an error that says nothing of a
sandbox. Owns which errors those may be, and the words. Must not know how a domain is held. Used by `executor`.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from ....core.domain import Domain

_REFUSED: Final = (errno.EACCES, errno.EROFS, errno.EPERM)
_OF_DATABASES: Final = ("unable to open database file", "attempt to write a readonly database")
_OF_HOST: Final = "outside the workspace"
"""How the host begins to say that a path is none of the project's."""
_OF_FILES: Final = ("permission denied", "read-only file system", "operation not permitted")
_OF_CONNECTIONS: Final = (
    "resolve host", "name resolution", "name or service not known", "getaddrinfo", "failed to connect",
    "could not connect", "couldn't connect", "connect to host", "new connection", "network is unreachable",
    "unable to access 'http",
)  # fmt: skip
"""What programs print, in small letters, that could not write a file, or not connect."""
_MOST_CHAINED: Final = 20
_COMMAND_CHARS: Final = 200
_ADVICE: Final = (
    "The sandbox keeps this from writing {what}. It works in a temporary directory (tempfile); shutil.copy() then puts"
    " the result in its place, after a question with its diff. So do open(), also for a library that takes an open"
    " file, write() and edit(), and bash() runs a whole command after a question; in mode auto the project can be"
    " written directly."
)
_OUTSIDE: Final = (
    "The sandbox keeps statements from writing {what}, which is outside of the project. A temporary directory"
    " (tempfile) can be written, and {bash} runs a command after a question."
)
_PROGRAM: Final = (
    "The sandbox keeps programs that statements start from writing {where}. {bash} runs this one after a question;"
    " without one it works in a temporary directory (tempfile)."
)
_OTHER_MOUNT: Final = (
    "What statements may write themselves is another file system to them than the rest. shutil.move() copies what"
    " os.rename() cannot take from one to the other, and shutil.copy() what os.link() cannot; where the project changes"
    " by that, a question comes first."
)
_ELSE: Final = "The sandbox keeps statements from this; {bash} runs a command after a question."
_NO_NETWORK: Final = (
    "The sandbox has no network. The user can turn it on: the option Network of a session, --network of rewindow-mcp."
    " And {bash} runs a whole command after a question."
)


class Advice:
    """For statements in a domain. `roots` are the directories of the project, `database` is the one opened last."""

    def __init__(self, domain: Domain, roots: tuple[str, ...], database: Callable[[], str]) -> None:
        self._writable = tuple(os.path.join(os.path.realpath(each), "") for each in (domain.scratch, *domain.writable))
        self._has_network = domain.network
        self._writes_project = bool(domain.writable)
        self._roots = tuple(os.path.join(os.path.realpath(each), "") for each in roots)
        self._database = database

    def add_to(self, error: BaseException) -> None:
        """Notes on the error, which is read first, what would work instead of it or of what it comes from."""
        for each in _chained(error):
            note = self._note(each)
            if note and note not in getattr(error, "__notes__", ()):
                error.add_note(note)

    def _note(self, error: BaseException) -> str:
        if not self._has_network and _is_of_network(error):
            return _NO_NETWORK.format(bash=self._bash())
        if isinstance(error, OSError) and error.errno in _REFUSED:
            return self._of_call(error)
        if isinstance(error, OSError) and error.errno == errno.EXDEV:
            return _OTHER_MOUNT if any(map(self._is_writable, (error.filename, error.filename2))) else ""
        if type(error).__name__ == "OperationalError" and str(error).startswith(_OF_DATABASES):
            return self._of_path(self._database()) if self._database() else _ADVICE.format(what="the database")
        return self._of_program(error) if type(error).__name__ == "CalledProcessError" else ""

    def _bash(self, command: str = "") -> str:
        """The call that runs a command with the user's rights."""
        further = ("outside=True",) if self._writes_project else ()
        return f"bash({', '.join((*((repr(command),) if command else ()), *further))})"

    def _of_program(self, error: Any) -> str:
        bash = self._bash(_command_of(error))
        pieces = (getattr(error, "stderr", None), getattr(error, "output", None))
        printed = " ".join(str(each) for each in pieces if each).lower()
        if not self._has_network and any(each in printed for each in _OF_CONNECTIONS):
            return _NO_NETWORK.format(bash=bash)
        # What was not captured is on the screen, and may say so.
        if not any(each is not None for each in pieces) or any(each in printed for each in _OF_FILES):
            return _PROGRAM.format(where="outside of the project" if self._writes_project else "the project", bash=bash)
        return ""

    def _of_call(self, error: OSError) -> str:
        """A host's answer says itself what was refused and why; what the kernel says is its usual sentence."""
        is_usual = error.strerror == os.strerror(error.errno or 0)
        path = error.filename2 or error.filename
        if isinstance(path, str | bytes):
            if is_usual:
                return self._of_path(os.path.abspath(os.fsdecode(path)))
            is_outside = str(error.strerror).startswith(_OF_HOST)
            return _OUTSIDE.format(what=os.fsdecode(path), bash=self._bash()) if is_outside else ""
        if is_usual and error.errno == errno.EROFS:
            return _ADVICE.format(what="there")
        if is_usual and error.errno == errno.EPERM:
            return _ELSE.format(bash=self._bash())
        # Libraries in C put the path into their sentence.
        return _ADVICE.format(what="the file") if not is_usual and "file" in str(error.strerror) else ""

    def _is_writable(self, path: object) -> bool:
        return isinstance(path, str | bytes) and f"{os.path.realpath(os.fsdecode(path))}/".startswith(self._writable)

    def _of_path(self, path: str) -> str:
        there = path if os.path.lexists(path) else os.path.dirname(path)
        # Reading is nothing that a sandbox refuses.
        if self._is_writable(path) or not os.access(there, os.R_OK):
            return ""
        real = f"{os.path.realpath(path)}/"
        return (_ADVICE if real.startswith(self._roots) else _OUTSIDE).format(what=path, bash=self._bash())


def _command_of(error: Any) -> str:
    """The command as `bash` takes it; empty where it is too long to be repeated."""
    command: object = getattr(error, "cmd", "")
    try:
        text = command if isinstance(command, str) else shlex.join(map(os.fsdecode, cast("Iterable[str]", command)))
    except TypeError:
        return ""
    return text if len(text) <= _COMMAND_CHARS else ""


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
