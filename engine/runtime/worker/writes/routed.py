"""Python's ways of opening files for writing, in a worker with a domain: what the domain does not allow is staged.

Owns what becomes of a call of `io.open`, `io.FileIO`, `os.open`, `os.close` and `os.truncate`. Which files are staged
is known to `opening`, how the calls get here to `routes`. What is written by other ways (C code that opens files by
itself, programs, processes that a statement forked) is the kernel's to refuse. Led here by `interpreter`.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import sys
from collections.abc import Callable
from typing import Any, Final

from ..guarding import routes
from ..guarding.routes import original
from .opening import Opening, flags_of, writes
from .staging import unnamed

_open, _close, _truncate = original(builtins.open), original(os.close), original(os.truncate)
_Raw: Final = io.FileIO
_READING: Final = frozenset(("r", "rb", "rt", "br", "tr"))
_OURS: Final = __name__.rsplit(".", 2)[0]
_USUAL_MODE: Final = 0o666


REMOVE_TREE: Final = "shutil.rmtree"
_SOUGHT: Final[dict[int, str]] = {id(_Raw): "io.FileIO", id(shutil.rmtree): REMOVE_TREE}
"""By identity: what no route stands for, because it is a class, or because it is not there when routes are put."""
_searched: Final[set[str]] = set()
"""Names of the modules that were looked through, and where they bind what is sought."""
_bound: Final[list[tuple[dict[str, Any], str, str]]] = []


def prepare() -> None:
    """Looks through the modules, for the parent of those who lead: in a fork that would copy the memory of them all."""
    for name, module in list(sys.modules.items()) if len(sys.modules) != len(_searched) else ():
        # Our own code makes the files of which these are made.
        if name not in _searched and not name.startswith(_OURS):
            names = getattr(module, "__dict__", {})
            for each, value in list(names.items()):
                sought = _SOUGHT.get(id(value))
                if sought is not None:
                    _bound.append((names, each, sought))
        _searched.add(name)


def lead(opening: Opening, remove_tree: Callable[..., None]) -> None:
    """Leads the routes of what opens files here, and puts `remove_tree` in its place. Called once in a process."""
    opener, closer = descriptor_opener(opening), descriptor_closer(opening)
    truncater = path_truncater(opening, opener, closer)
    opened = file_opener(opening)
    routes.lead({routes.OPEN: opened, "os.open": opener, "os.close": closer, "os.truncate": truncater})
    replacing = {"io.FileIO": raw_class(opening, opened, opener), REMOVE_TREE: remove_tree}
    prepare()
    for names, name, sought in _bound:
        names[name] = replacing[sought]


def file_opener(opening: Opening) -> Callable[..., Any]:
    """What `io.open` is."""
    files = opening.files

    def open(  # noqa: A001 -- tracebacks show it
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        # First, because most files are opened to be read.
        if mode in _READING and not files.any:
            return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        return opening.opened(file, mode, (buffering, encoding, errors, newline, closefd, opener))

    return open


def descriptor_opener(opening: Opening) -> Callable[..., int]:
    """What `os.open` is."""
    files, route = opening.files, routes.route("os.open")

    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:  # noqa: A001 -- as above
        if not writes(flags):
            staging = opening.under_way(path, dir_fd) if files.any and not flags & os.O_PATH else None
            return staging.opened(os.O_RDONLY) if staging else route.plain(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_TMPFILE == os.O_TMPFILE and opening.is_kept(path, dir_fd):
            return unnamed(flags)
        if flags & os.O_DIRECTORY or not opening.is_staged(path, directory=dir_fd):
            return route.plain(path, flags, mode, dir_fd=dir_fd)
        staging = opening.stage(path, flags, dir_fd, mode & 0o777 if mode != _USUAL_MODE else None)
        descriptor = staging.opened(flags)
        files.lend(staging, descriptor)
        return descriptor

    return open


def descriptor_closer(opening: Opening) -> Callable[[int], None]:
    """What `os.close` is."""
    files = opening.files

    def close(fd: int) -> None:
        staging = files.lent(fd)
        if staging is None:
            _close(fd)
            return
        files.take_back(fd)
        try:
            staging.land()
        finally:
            _close(fd)
            files.released(staging)

    return close


def path_truncater(
    opening: Opening, opener: Callable[..., int], closer: Callable[[int], None]
) -> Callable[[Any, int], None]:
    """What `os.truncate` is."""

    def truncate(path: Any, length: int) -> None:
        if isinstance(path, int) or not opening.is_staged(path):
            _truncate(path, length)
            return
        descriptor = opener(path, os.O_WRONLY)
        try:
            opening.files.of(descriptor).check_size(length)
            os.ftruncate(descriptor, length)
        finally:
            closer(descriptor)

    return truncate


def raw_class(opening: Opening, opened: Callable[..., Any], descriptor: Callable[..., int]) -> type:
    """What `io.FileIO` is: the class itself makes what `io.open` makes, and a class below it opens by `os.open`."""

    class OfRaw(type(_Raw)):
        def __call__(cls, file: Any, mode: Any = "r", closefd: bool = True, opener: Any = None) -> Any:
            if cls is not FileIO:
                return super().__call__(file, mode, closefd, opener)
            binary = mode if "b" in mode or not isinstance(mode, str) else f"{mode}b"
            return opened(file, binary, 0, None, None, None, closefd, opener)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _Raw) if cls is FileIO else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, _Raw) if cls is FileIO else super().__subclasscheck__(subclass)

    class FileIO(_Raw, metaclass=OfRaw):
        def __init__(self, file: Any, mode: str = "r", closefd: bool = True, opener: Any = None) -> None:
            if opener is not None or isinstance(file, int) or mode in _READING or not opening.is_staged(file):
                super().__init__(file, mode, closefd, opener)
                return
            _Raw(os.devnull, mode.replace("x", "w"), closefd).close()  # which refuses wrong arguments
            # Not by an opener, because of that Python would say that the file itself is opened.
            super().__init__(descriptor(file, flags_of(mode), _USUAL_MODE), mode)
            self.name = file

    FileIO.__module__, FileIO.__qualname__, FileIO.__doc__ = _Raw.__module__, _Raw.__qualname__, _Raw.__doc__
    return FileIO
