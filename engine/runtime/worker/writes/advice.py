"""Notes on errors of sandboxed statements: what works instead of a refused write or connection.

Python's own functions are routed to the host, which asks the user. The kernel refuses everything else (a database, C
code, a program, a forked process) with an error that does not mention a sandbox. Owns the list of such errors, and the
texts. Must not know how the sandbox is enforced. Used by `executor`.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any, Final, cast

from ....core.domain import Domain
from ....files.safe_open import OUTSIDE

_REFUSED: Final = (errno.EACCES, errno.EROFS, errno.EPERM)
_OF_DATABASES: Final = ("unable to open database file", "attempt to write a readonly database")
_OF_FILES: Final = ("permission denied", "read-only file system", "operation not permitted")
_OF_CONNECTIONS: Final = (
    "resolve host", "name resolution", "name or service not known", "getaddrinfo", "failed to connect",
    "could not connect", "couldn't connect", "connect to host", "new connection", "network is unreachable",
    "unable to access 'http",
)  # fmt: skip
"""Error texts of programs that could not write a file or connect, in lower case."""
_MOST_CHAINED: Final = 20
_COMMAND_CHARS: Final = 200
_ADVICE: Final = (
    "The sandbox prevents this from writing {what}. Write to a temporary directory (tempfile) "
    "instead; shutil.copy() then copies the result into the project, after a question with its diff. "
    "open(), write() and edit() ask the same way, even if a library writes to the open file. bash() "
    "runs a whole command after a question. In mode auto, statements write the project directly."
)
_OUTSIDE: Final = (
    "The sandbox prevents statements from writing {what}, which is outside the project. A temporary "
    "directory (tempfile) is writable, and {bash} runs a command after a question."
)
_PROGRAM: Final = (
    "The sandbox prevents programs from writing {where}. {bash} runs this program after a question. "
    "Without a question, it can write to a temporary directory (tempfile)."
)
_OTHER_MOUNT: Final = (
    "For statements, their writable directories and the rest are two file systems. Use shutil.move() "
    "instead of os.rename(), and shutil.copy() instead of os.link(); a change of the project asks "
    "the user first."
)
_ELSE: Final = "The sandbox prevents this; {bash} runs a command after a question."
_NO_NETWORK: Final = (
    "The sandbox has no network. The user can turn it on: the session's option Network, or rewindow-mcp --network."
    " {bash} runs a whole command after a question."
)


class Advice:
    """Advice for sandboxed statements. `roots` are the project's directories, `database` is the one opened last."""

    def __init__(self, domain: Domain, roots: tuple[str, ...], database: Callable[[], str]) -> None:
        self._writable = tuple(os.path.join(os.path.realpath(each), "") for each in (domain.scratch, *domain.writable))
        self._has_network = domain.network
        self._writes_project = bool(domain.writable)
        self._roots = tuple(os.path.join(os.path.realpath(each), "") for each in roots)
        self._database = database

    def add_to(self, error: BaseException) -> None:
        """Add notes to the error on what works instead of the acts that were refused, in it or in its causes."""
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
        # Because output that was not captured may have named the reason.
        if not any(each is not None for each in pieces) or any(each in printed for each in _OF_FILES):
            return _PROGRAM.format(where="outside the project" if self._writes_project else "the project", bash=bash)
        return ""

    def _of_call(self, error: OSError) -> str:
        """The advice on an OSError. The host's own errors need none, except for a path outside the project."""
        is_usual = error.strerror == os.strerror(error.errno or 0)
        path = error.filename2 or error.filename
        if isinstance(path, PurePath):
            path = str(path)
        if isinstance(path, str | bytes):
            if is_usual:
                return self._of_path(os.path.abspath(os.fsdecode(path)))
            is_outside = str(error.strerror).startswith(OUTSIDE)
            return _OUTSIDE.format(what=os.fsdecode(path), bash=self._bash()) if is_outside else ""
        if is_usual and error.errno == errno.EROFS:
            return _ADVICE.format(what="there")
        if is_usual and error.errno == errno.EPERM:
            return _ELSE.format(bash=self._bash())
        # C libraries put the path into their message.
        return _ADVICE.format(what="the file") if not is_usual and "file" in str(error.strerror) else ""

    def _is_writable(self, path: object) -> bool:
        return isinstance(path, str | bytes) and f"{os.path.realpath(os.fsdecode(path))}/".startswith(self._writable)

    def _of_path(self, path: str) -> str:
        there = path if os.path.lexists(path) else os.path.dirname(path)
        # Because a sandbox does not refuse reading.
        if self._is_writable(path) or not os.access(there, os.R_OK):
            return ""
        real = f"{os.path.realpath(path)}/"
        return (_ADVICE if real.startswith(self._roots) else _OUTSIDE).format(what=path, bash=self._bash())


def _command_of(error: Any) -> str:
    """The command as an argument of `bash`; empty if it is too long to repeat."""
    command: object = getattr(error, "cmd", "")
    try:
        text = command if isinstance(command, str) else shlex.join(map(os.fsdecode, cast("Iterable[str]", command)))
    except TypeError:
        return ""
    return text if len(text) <= _COMMAND_CHARS else ""


def _is_of_network(error: BaseException) -> bool:
    """Whether a name lookup, or making a socket, failed in `socket.py`."""
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
