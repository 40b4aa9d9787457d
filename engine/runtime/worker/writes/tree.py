"""Python's functions that change the file tree, in a sandboxed worker: the host performs what the domain forbids.

A call that the function would refuse anyway raises at once. The host is not asked about a call that changes nothing.

For statements, scratch and the host's files are two file systems, as `/tmp` often is: a rename between them raises
EXDEV, and `shutil.move` copies. But a file in scratch can be renamed to a path of the host, because programs write a
file in scratch before they put it in place. With mounts, the domain's writable places are several file systems, but a
file can be moved between them: a copy beside the target is renamed over it, and the source is removed last.

Must not know how the host acts. Installed by the interpreter.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Final, cast

from ...system.descriptors import copy_rest
from ..guarding import routes
from ..guarding.routes import original
from .opening import Opening, settling, spelled
from .staging import Asking, numbered

_open, _close, _replace, _unlink = (original(each) for each in (os.open, os.close, os.replace, os.unlink))
Function = Callable[..., Any]
_UNSAID: Final = object()
_BILLION: Final = 10**9


class RoutedTree:
    """The functions. `change` requests a change, as wrapped by `LastShown.ask_to_change`."""

    def __init__(self, opening: Opening, effects: Asking, change: Function) -> None:
        self._opening = opening
        self._effects = effects
        self._change = change

    def targets(self) -> dict[str, Function]:
        """The functions by the names of their routes."""
        functions = {
            "os.mkdir": self._maker("mkdir", 0o777),
            "os.mkfifo": self._maker("mkfifo", 0o666),
            "os.rmdir": self._remover("rmdir"),
            "os.remove": self._remover("remove"),
            "os.unlink": self._remover("unlink"),
            "os.rename": self._renamer("rename"),
            "os.replace": self._renamer("replace"),
            "os.link": self._linker(),
            "os.symlink": self._symlinker(),
            "os.chmod": self._permission_setter(),
            "os.utime": self._time_setter(),
        }
        return {name: settling(function) for name, function in functions.items()}

    # --- asking -------------------------------------------------------------------------------------------------------

    def _is_kept(self, path: Any, directory: int | None, *, follows: bool = False) -> bool:
        # Plan mode refuses the call of the function itself.
        if self._effects.planning or isinstance(path, int):
            return False
        return self._opening.is_kept(path, directory, follows=follows)

    def _place(self, path: Any, directory: int | None, *, follows: bool = False) -> str:
        """The absolute path, with all links resolved except the last name."""
        place = spelled(path, directory).rstrip("/") or "/"
        folder, name = os.path.split(place)
        if follows or name in (os.curdir, os.pardir):
            return os.path.realpath(place)
        return os.path.join(os.path.realpath(folder), name)

    def _ask(self, operation: str, path: str, check: Callable[[], None], **more: object) -> None:
        """Let the host act. Without a recorded answer, `check` raises the function's own errors first."""
        arguments: dict[str, object] = {"path": self._opening.shown(path), **more}
        if not self._effects.goes_by_record or not self._effects.has_answer(operation, arguments):
            check()
        with numbered(path):
            self._change(operation, arguments)

    def _has_answer(self, operation: str, path: str, **more: object) -> bool:
        """Whether there is a recorded answer to exactly this call, so that the disk does not matter."""
        return self._effects.goes_by_record and self._effects.has_answer(
            operation, {"path": self._opening.shown(path), **more}
        )

    # --- the functions ------------------------------------------------------------------------------------------------

    def _maker(self, name: str, usual: int) -> Function:
        route = routes.route(f"os.{name}")

        def make(path: Any, mode: int = usual, *, dir_fd: int | None = None) -> None:
            place = self._place(path, dir_fd) if self._is_kept(path, dir_fd) else ""
            if not place or self._opening.is_bytecode(place):
                route.plain(path, mode, dir_fd=dir_fd)
                return
            self._ask(name, place, lambda: _check_new(place, path), mode=mode & 0o777)

        return make

    def _remover(self, name: str) -> Function:
        route = routes.route(f"os.{name}")
        is_directory = name == "rmdir"

        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            if not self._is_kept(path, dir_fd):
                route.plain(path, dir_fd=dir_fd)
                return
            place = self._place(path, dir_fd)
            staging = self._opening.files.at(place)
            if staging is not None:
                self._opening.files.removed(staging)
                if not os.path.lexists(place):
                    return  # because it is not on disk yet
            check = _check_directory if is_directory else _check_removable
            self._ask("rmdir" if is_directory else "remove", place, lambda: check(place, path))

        return remove

    def tree_remover(self) -> Function:
        """The replacement of `shutil.rmtree`: a single act, while the function itself removes many names."""
        plain = cast("Function", shutil.rmtree)

        @wraps(plain)
        def rmtree(path: Any, ignore_errors: bool = False, onerror: Any = None, **more: Any) -> None:
            directory = more.get("dir_fd")
            place = self._place(path, directory) if self._is_kept(path, directory) else ""
            # The function itself refuses anything but a directory; a replay uses its record.
            if not place or not self._is_whole(place):
                plain(path, ignore_errors, onerror, **more)
                return
            try:
                self._ask("rmtree", place, lambda: None)
                self._opening.files.removed_below(place)
            except OSError as error:
                if more.get("onexc") is not None:
                    more["onexc"](os.rmdir, path, error)
                elif onerror is not None:
                    onerror(os.rmdir, path, (type(error), error, error.__traceback__))
                elif not ignore_errors:
                    raise

        return rmtree

    def _is_whole(self, place: str) -> bool:
        if self._has_answer("rmtree", place):
            return True
        return not self._effects.replaying and os.path.isdir(place) and not os.path.islink(place)

    def _renamer(self, name: str) -> Function:
        route = routes.route(f"os.{name}")

        def rename(src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            kept = self._is_kept(src, src_dir_fd), self._is_kept(dst, dst_dir_fd)
            if not any(kept):
                try:
                    route.plain(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                except OSError as error:
                    source, target = self._place(src, src_dir_fd), self._place(dst, dst_dir_fd)
                    if error.errno != errno.EXDEV or not self._opening.is_own(source, target):
                        raise
                    move_file(source, target)
                return
            source, target = self._place(src, src_dir_fd), self._place(dst, dst_dir_fd)
            self._opening.files.land_at(source)
            if not self._effects.replaying:
                self._check_source(source, src, target)
            if self._opening.is_in_scratch(source):
                bring_file(source, target)
                return
            if self._opening.is_in_scratch(target):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), src, None, dst)
            if source == target:
                return
            self._ask("rename", target, lambda: None, source=self._opening.shown(source))
            self._opening.files.renamed(source, target, self._opening.shown(target))

        return rename

    def _check_source(self, place: str, path: Any, target: str) -> None:
        try:
            _check_there(place, path)
        except OSError:
            if not self._has_answer("rename", target, source=self._opening.shown(place)):
                raise

    def _linker(self) -> Function:
        route = routes.route("os.link")

        def link(
            src: Any,
            dst: Any,
            *,
            src_dir_fd: int | None = None,
            dst_dir_fd: int | None = None,
            follow_symlinks: bool = True,
        ) -> None:
            kept = self._is_kept(src, src_dir_fd), self._is_kept(dst, dst_dir_fd)
            # If only the source is outside, the kernel refuses the link into scratch.
            if not any(kept) or (not kept[1] and self._opening.is_in_scratch(self._place(dst, dst_dir_fd))):
                route.plain(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
                return
            source = self._place(src, src_dir_fd)
            target = self._place(dst, dst_dir_fd)
            self._opening.files.land_at(source)
            if self._opening.is_in_scratch(source):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), src, None, dst)

            def check() -> None:
                _check_there(source, src)
                _check_new(target, dst)

            self._ask("link", target, check, source=self._opening.shown(source))

        return link

    def _symlinker(self) -> Function:
        route = routes.route("os.symlink")

        def symlink(src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
            if not self._is_kept(dst, dir_fd):
                route.plain(src, dst, target_is_directory, dir_fd=dir_fd)
                return
            place = self._place(dst, dir_fd)
            self._ask("symlink", place, lambda: _check_new(place, dst), target=os.fsdecode(src))

        return symlink

    def _permission_setter(self) -> Function:
        route = routes.route("os.chmod")

        def chmod(path: Any, mode: int, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
            if not follow_symlinks or not self._is_kept(path, dir_fd, follows=True):
                route.plain(path, mode, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
                return
            place = self._place(path, dir_fd, follows=True)
            self._opening.files.land_at(place)
            wanted = stat.S_IMODE(mode)
            goes_by_disk = not self._effects.replaying and not self._has_answer("chmod", place, mode=wanted)
            if goes_by_disk and stat.S_IMODE(os.stat(place).st_mode) == wanted:
                return
            self._ask("chmod", place, lambda: _check_there(place, path), mode=wanted)

        return chmod

    def _time_setter(self) -> Function:
        route = routes.route("os.utime")

        def utime(
            path: Any,
            times: Any = None,
            *,
            ns: Any = _UNSAID,
            dir_fd: int | None = None,
            follow_symlinks: bool = True,
        ) -> None:
            given = {} if ns is _UNSAID else {"ns": ns}
            if not self._is_kept(path, dir_fd, follows=follow_symlinks):
                route.plain(path, times, **given, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
                return
            place = self._place(path, dir_fd, follows=follow_symlinks)
            self._opening.files.land_at(place)
            pair = _nanoseconds(times, None if ns is _UNSAID else ns)
            self._ask("utime", place, lambda: _check_there(place, path), times=pair, follows=follow_symlinks)

        return utime


# --- moves between file systems ---------------------------------------------------------------------------------------


def move_file(source: str, target: str) -> None:
    """Move a file to `target`, with its permissions and times. Raises OSError (EXDEV) for anything but a file."""
    state = os.lstat(source)
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
    beside = f"{target}.{os.urandom(4).hex()}.tmp"
    try:
        _copy(source, beside, state)
        _replace(beside, target)
    except BaseException:
        with suppress(OSError):
            _unlink(beside)
        raise
    _unlink(source)


def bring_file(source: str, target: str) -> None:
    """Let the host write the content of the scratch file `source` to `target`.

    Raises OSError: EXDEV if either is not a file, because a copy would differ from a rename; else the write's error.
    """
    for place in (source, target):
        if os.path.lexists(place) and not stat.S_ISREG(os.lstat(place).st_mode):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
    shutil.copy2(source, target)
    _unlink(source)


def _copy(source: str, target: str, state: os.stat_result) -> None:
    given = _open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        taken = _open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IMODE(state.st_mode))
        try:
            copy_rest(given, taken)
            os.fchmod(taken, stat.S_IMODE(state.st_mode))
            os.utime(taken, ns=(state.st_atime_ns, state.st_mtime_ns))
        finally:
            _close(taken)
    finally:
        _close(given)


def _nanoseconds(times: Any, ns: Any) -> list[int] | None:
    """The times in the arguments of `os.utime`; None for now. Raises the same errors."""
    if times is not None and ns is not None:
        raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
    if times is None and ns is None:
        return None
    try:
        first, second = cast("tuple[float, float]", times if ns is None else ns)
        return [round(first * _BILLION), round(second * _BILLION)] if ns is None else [int(first), int(second)]
    except (TypeError, ValueError):
        raise TypeError("utime: 'times' must be either a tuple of two ints or None") from None


def _refusal(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), path)


def _check_there(place: str, path: Any) -> None:
    try:
        os.lstat(place)
    except OSError as error:
        raise _refusal(error.errno or errno.ENOENT, path) from None


def _check_new(place: str, path: Any) -> None:
    if os.path.lexists(place):
        raise _refusal(errno.EEXIST, path)
    _check_there(os.path.dirname(place), path)
    if not os.path.isdir(os.path.dirname(place)):
        raise _refusal(errno.ENOTDIR, path)


def _check_removable(place: str, path: Any) -> None:
    _check_there(place, path)
    if stat.S_ISDIR(os.lstat(place).st_mode):
        raise _refusal(errno.EISDIR, path)


def _check_directory(place: str, path: Any) -> None:
    _check_there(place, path)
    if not stat.S_ISDIR(os.lstat(place).st_mode):
        raise _refusal(errno.ENOTDIR, path)
    if os.listdir(place):
        raise _refusal(errno.ENOTEMPTY, path)
