"""Files that statements open for writing in the project: each change goes through the host, like a `write`.

Such a file is a staging file in memory. Code with its descriptor sees an ordinary file, and so does a program that is
started with it. The `open` of statements opens one. In a sandboxed worker all other functions of Python that open files
do the same, because the kernel lets only the host write the real file. Python itself handles everything else: reading,
devices and pipes, descriptors, and paths that the domain allows. The kernel refuses other ways to write: C code,
programs, forked processes.

Must not know when a content is written (`staging`), or how the host asks. Made by the interpreter.
"""

from __future__ import annotations

import builtins
import errno
import io
import operator
import os
import shutil
import stat
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from ....core.domain import Domain, is_inside
from ....files.pins import PIN, is_nameless, path_of
from ....files.protected import Protection
from ....files.revision import digest_of
from ....files.safe_open import Place, place_to_write
from ....files.spellings import stored_path
from ..guarding import routes
from ..guarding.outside import STAGED, WRITING
from ..guarding.routes import original
from ..protocol import RecalledFile
from .staging import LARGEST, Asking, Layer, StagedFiles, Staging, layers, too_large, unnamed

_WRITING: Final = frozenset("wax+")
_SYSTEM: Final = ("/dev/", "/proc/", "/sys/")
_BYTECODE: Final = "/__pycache__/"
_open: Final = original(builtins.open)
_routed_open, _close, _truncate = original(builtins.open), original(os.close), original(os.truncate)
_Raw: Final = io.FileIO
_SETTLED: Final = frozenset((str, bytes, int, bool, float, tuple, type(None)))
"""Types whose values cannot be different at the next use."""
_READING: Final = frozenset(("r", "rb", "rt", "br", "tr"))
_OURS: Final = __name__.rsplit(".", 2)[0]
_USUAL_MODE: Final = 0o666
REMOVE_TREE: Final = "shutil.rmtree"
_SOUGHT: Final[dict[int, str]] = {id(_Raw): "io.FileIO", id(shutil.rmtree): REMOVE_TREE}
"""By identity: objects without a route, because they are classes, or do not exist when the routes are installed."""
_searched: Final[set[str]] = set()
"""The modules that were searched."""
_bound: Final[list[tuple[dict[str, Any], str, str]]] = []
"""Where they bind the objects of `_SOUGHT`: the module's names, the name there, and the name in `_SOUGHT`."""


class Opening:
    """The files that statements open.

    Args:
        change: requests a change, with the digest that views have shown (`LastShown.ask_to_change`).
        roots: absolute directories in which files may be written; shown paths are relative to the first.
        domain: what may be written without the host, if the process is sandboxed.
    """

    def __init__(
        self, effects: Asking, change: Callable[..., object], roots: tuple[str, ...], domain: Domain | None = None
    ) -> None:
        self._effects = effects
        self._roots = roots
        self.files = StagedFiles(effects, change, routed=domain is not None)
        scratch = () if domain is None else (domain.scratch,)
        self._scratch = tuple(map(_folder, scratch))
        writable, self._read_only = ((), ()) if domain is None else (domain.writable, domain.read_only)
        self._writable = tuple(map(_folder, (*scratch, *writable)))
        self._protection = Protection(writable)

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        """The built-in `open`, but `~` is expanded, and the host writes project files when they are closed.

        That is one write, with its diff, at the latest when the statement ends.
        """
        if not isinstance(file, int):
            file = cast("str | bytes", os.path.expanduser(file))
        arguments = (buffering, encoding, errors, newline, closefd, opener)
        return self.opened(file, mode, arguments, self._scratch)

    def settle(self) -> list[BaseException]:
        """At the end of the statement, write the files that are still open. Returns the failures, in order."""
        return self.files.settle()

    def opened(self, file: Any, mode: Any, arguments: tuple[Any, ...], free: tuple[str, ...] | None = None) -> Any:
        """A file object, like that of the built-in `open`.

        Args:
            arguments: those of the built-in after the mode.
            free: directories in which files are written without the host; by default all that the domain allows.
        """
        *plain, closefd, opener = arguments
        mode = settled(mode)
        if not isinstance(mode, str) or not _WRITING & set(mode):  # the built-in refuses invalid modes
            return self._opened_to_read(file, mode, arguments)
        if isinstance(file, int):
            return self._opened_again(file, mode, arguments)
        file = cast("str | bytes", settled(os.fspath(file)))
        if opener is not None or not closefd or not self.is_staged(file, free):
            return _open(file, mode, *arguments)
        # So that wrong arguments are refused first, with Python's errors.
        _open(os.devnull, mode.replace("x", "w"), *arguments).close()
        flags = flags_of(mode)
        staging = self.stage(file, flags)
        return self._file_object(staging, staging.opened(flags), file, mode, plain)

    def _file_object(self, staging: Staging, descriptor: int, name: Any, mode: str, arguments: list[Any]) -> Layer:
        number = self.files.number()
        top = layers(staging, number, descriptor, name, mode, *arguments)
        self.files.follow(number, top)
        return top

    def _opened_to_read(self, file: Any, mode: Any, arguments: tuple[Any, ...]) -> Any:
        """Open a file for reading; of a staged file, the current content."""
        if self.files.any and not isinstance(file, int) and arguments[-1] is None:
            staging = self.under_way(file)
            if staging is not None:
                return _open(file, mode, *arguments[:-1], staging.opened_to_read)
        return _open(file, mode, *arguments)

    def _opened_again(self, descriptor: int, mode: str, arguments: tuple[Any, ...]) -> Any:
        """A file object on a descriptor, perhaps of a staging file."""
        *plain, closefd, _ = arguments
        staging = self.files.lent(descriptor) if closefd else None
        if staging is None:
            return _open(descriptor, mode, *arguments)
        _open(os.devnull, mode.replace("x", "w"), *arguments).close()
        self.files.take_back(descriptor)
        return self._file_object(staging, descriptor, descriptor, mode, plain)

    # --- which files are staged ---------------------------------------------------------------------------------------

    def is_staged(self, file: Any, free: tuple[str, ...] | None = None, directory: int | None = None) -> bool:
        """Whether it is a regular or new file that the host must write. `free` as in `opened`."""
        # A process forked by a statement cannot ask, nor can a thread that it left behind.
        if not self._effects.ours or not self._effects.running:
            return False
        try:
            if not stat.S_ISREG(os.stat(file, dir_fd=directory).st_mode):
                return False
        except OSError:
            pass
        except (ValueError, TypeError):
            return False
        place = spelled(file, directory)
        return not (self.is_bytecode(place) or self._is_free(place, self._writable if free is None else free))

    def is_kept(self, file: Any, directory: int | None = None, *, follows: bool = True) -> bool:
        """Whether the host must change what is at the path, of any kind, and can be asked.

        Without `follows`, a link at the end of the path means the link itself.
        """
        if not self._effects.ours or not self._effects.running:
            return False
        try:
            place = spelled(file, directory)
            if follows:
                return not self._is_free(place, self._writable)
            folder, name = os.path.split(place.rstrip("/"))
            is_free = self._is_free(folder, self._writable)
            return not is_free or self._is_protected(os.path.join(os.path.realpath(folder), name))
        except (OSError, ValueError, TypeError):
            return False

    def is_bytecode(self, place: str) -> bool:
        """Whether the path is a bytecode cache, about which the user is not asked.

        The kernel refuses to write it, and Python continues without it.
        """
        if not self.files.routed or _BYTECODE not in f"{place}/":
            return False
        real = os.path.realpath(place)
        # Read-only paths count too, such as an environment with this program, because the kernel refuses writes there.
        return _BYTECODE in f"{real}/" and (self.is_in_scratch(real) or not self._protection.why(real))

    def is_own(self, *places: str) -> bool:
        """Whether the domain allows writing all of these absolute paths."""
        return all(f"{os.path.dirname(os.path.realpath(place))}/".startswith(self._writable) for place in places)

    def _is_free(self, place: str, free: tuple[str, ...]) -> bool:
        """Whether the absolute path is unprotected in one of these directories, or is not a file on disk."""
        real = os.path.realpath(place)
        if real.startswith(_SYSTEM) or (place.startswith(_SYSTEM) and _is_nameless(place, real)):
            return True
        return f"{real}/".startswith(free) and not self._is_protected(real)

    def is_in_scratch(self, place: str) -> bool:
        """Whether the absolute path, with links above its name resolved, is below the scratch directory."""
        return f"{place}/".startswith(self._scratch)

    def _is_protected(self, real: str) -> bool:
        """Whether the host asks before it writes there, in every mode."""
        if self.is_in_scratch(real):
            return False
        listed = stored_path(real)
        return is_inside(listed, self._read_only) or bool(self._protection.why(listed))

    def under_way(self, file: Any, directory: int | None = None) -> Staging | None:
        """The staging file to read instead of the file on disk, or None."""
        try:
            real = os.path.realpath(spelled(file, directory))
        except (OSError, TypeError, ValueError):
            return None
        staging = None if real.startswith(_SYSTEM) else self.files.at(real)
        return staging if staging is not None and staging.has_content else None

    # --- staging ------------------------------------------------------------------------------------------------------

    def stage(self, file: Any, flags: int, directory: int | None = None, mode: int | None = None) -> Staging:
        """The staging file for a file that is opened with these flags of `os.open`. Raises as `os.open` does.

        Args:
            directory: a descriptor of the directory that a relative path starts from.
            mode: the permission bits of a new file; None for the usual ones.
        """
        place = spelled(file, directory)
        shown = self.shown(place)
        with self.files.lock:
            try:
                real, held = self._found(place, file, flags)
            except OSError as error:
                # In a replay, the disk may not have what the statement found then, and nothing is written.
                if self._looks:
                    if error.errno is not None:
                        error.filename = os.fspath(file)  # instead of the directory that was opened
                    raise
                real, held = os.path.realpath(place), None if flags & os.O_CREAT else b""
            staging = self._shared(real, held, flags)
            if staging is None:
                is_new = bool(flags & (os.O_TRUNC | os.O_EXCL)) or held is None
                known = None if is_new else digest_of(held or b"")
                staging = Staging(
                    self.files,
                    path=shown,
                    place=real,
                    name=file,
                    content=b"" if is_new else held or b"",
                    known=known,
                    landed=known,
                    mode=mode if held is None else None,
                )
                self.files.add(staging)
            return staging

    def _shared(self, real: str, held: bytes | None, flags: int) -> Staging | None:
        """The staging file of a real path, unless the file has changed on disk in the meantime."""
        staging = self.files.at(real)
        if staging is None or staging.is_lost:
            return None
        if flags & os.O_EXCL and staging.has_content:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), staging.name)
        is_known = not flags & os.O_TRUNC and held is not None and digest_of(held) == staging.known
        return staging if staging.has_content or is_known else None

    @property
    def _looks(self) -> bool:
        """Whether to look at the disk. A replay uses its record, but in plan mode the write is refused again."""
        return self._effects.planning or not self._effects.replaying

    def _found(self, place: str, file: Any, flags: int) -> tuple[str, bytes | None]:
        """The real path of the file, and its content if that matters; None if there is no file.

        For a statement that replaces an earlier one, the recorded content wins, and the present file is not examined.
        Raises if the file cannot be written.
        """
        if self._looks:
            sys.audit(STAGED, os.fsdecode(file), None, flags)  # which plan mode refuses
        if self._effects.goes_by_record:
            real = os.path.realpath(place)
            then = self._effects.recalled_file(real, content=not flags & os.O_TRUNC)
            if then is not None:
                return real, self._held_then(then, real, file, flags)
        if flags & os.O_EXCL and os.path.lexists(place) and self._looks:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        if flags & os.O_NOFOLLOW and os.path.islink(place):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), file)
        with place_to_write(place, self._roots) as found:
            if not found.missing:
                self._check_writable(found)
                held = self._content(found, file, only_size=bool(flags & os.O_TRUNC))
                if held is not None or flags & os.O_CREAT or self.files.at(found.path) is not None:
                    return found.path, held
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)

    def _held_then(self, then: RecalledFile, real: str, file: Any, flags: int) -> bytes | None:
        if flags & os.O_EXCL and then.content is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        if not flags & os.O_CREAT and then.content is None and self.files.at(real) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
        return then.content

    def _check_writable(self, found: Place) -> None:
        try:
            found.check_writable()
        except OSError as error:
            # With mounts, everything is read-only for this process; the host checks again.
            if error.errno != errno.EROFS or not self._scratch:
                raise

    def _content(self, found: Place, name: object, *, only_size: bool) -> bytes | None:
        with found.opened() as file:
            if file is None:
                return None
            if os.fstat(file.fileno()).st_size > LARGEST:
                raise too_large(name, self.files.larger)
            return b"" if only_size else file.read(LARGEST)

    def shown(self, place: str) -> str:
        """The path for the host: relative if possible.

        Raises ValueError, or OSError (EILSEQ) if any code may open files, for a new name that is not UTF-8, because the
        host could not identify it.
        """
        short = place.removeprefix(self._roots[0].rstrip("/") + "/")
        shown = place if short.startswith(("~", "/")) else short
        if _is_text(shown):
            return shown
        if not self.files.routed:
            raise ValueError(f"open(): {place!r} is not UTF-8; io.open() can write it, but no diff is shown")
        if os.path.lexists(place):
            return os.fsencode(shown).decode("utf-8", "replace")  # which the host resolves to the existing name
        sentence = "the name is not UTF-8, so only bash() can create this file"
        raise OSError(errno.EILSEQ, sentence, place)


def _is_nameless(place: str, real: str) -> bool:
    """Whether a path below /proc leads to a file in no directory, by a descriptor; `/proc/self/cwd/x` does not."""
    return os.path.exists(place) and not os.path.exists(real)


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def flags_of(mode: str) -> int:
    """The flags of `os.open` for a mode of `open` that writes."""
    flags = os.O_RDWR if "+" in mode else os.O_WRONLY
    if "w" in mode:
        return flags | os.O_CREAT | os.O_TRUNC
    if "x" in mode:
        return flags | os.O_CREAT | os.O_EXCL
    return flags | os.O_CREAT | os.O_APPEND if "a" in mode else flags


def writes(flags: int) -> bool:
    """Whether these flags of `os.open` open a file for changes."""
    return bool(flags & WRITING) and flags & PIN != PIN


def settled(value: Any) -> Any:
    """Convert a path, flags or a descriptor once, like Python's functions in C, so that it stays the same.

    An object may return something else the next time (`__fspath__`, `__index__`, methods of a subclass of `str`).
    """
    if _kind(value) in _SETTLED:
        return value
    held = cast("object", os.fspath(value) if hasattr(_kind(value), "__fspath__") else value)
    if isinstance(held, str):
        return str.__str__(held)
    if isinstance(held, bytes):
        return bytes.__getitem__(held, slice(None))
    if hasattr(_kind(held), "__index__"):
        return int.__int__(operator.index(cast("int", held)))
    try:
        return bytes(memoryview(cast("bytes", held)))
    except TypeError:
        return held


def _kind(value: object) -> type[object]:
    return type(value)


def settling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function, so that all its arguments are `settled`. Errors name the path as it was given."""

    def call(*arguments: Any, **more: Any) -> Any:
        held, named = tuple(map(settled, arguments)), {name: settled(each) for name, each in more.items()}
        try:
            return function(*held, **named)
        except OSError as error:
            given = zip((*held, *named.values()), (*arguments, *more.values()), strict=True)
            for value, path in ((value, path) for value, path in given if value is not path):
                if error.filename is value:
                    error.filename = path
                if error.filename2 is value:
                    error.filename2 = path
            raise

    return call


def spelled(file: Any, directory: int | None) -> str:
    """The absolute path, with its links. Raises TypeError if it is not a path."""
    path = os.fsdecode(settled(file))
    if path.startswith("/"):
        return path
    return os.path.join(os.getcwd() if directory is None else path_of(directory), path)


def _folder(path: str) -> str:
    return os.path.join(os.path.realpath(path), "")


def prepare() -> None:
    """Search the modules in the zygote, because a search in each worker would copy the memory of them all."""
    for name, module in sys.modules.copy().items() if len(sys.modules) != len(_searched) else ():
        # Not our own code, which makes the staging files.
        if name not in _searched and not name.startswith(_OURS):
            names = getattr(module, "__dict__", {})
            for each, value in names.copy().items():
                sought = _SOUGHT.get(id(value))
                if sought is not None:
                    _bound.append((names, each, sought))
        _searched.add(name)


def lead(opening: Opening, remove_tree: Callable[..., None]) -> None:
    """Redirect the routes that open files to `opening`, and install `remove_tree`. Once in a process."""
    opener, closer = descriptor_opener(opening), descriptor_closer(opening)
    truncater = path_truncater(opening, opener, closer)
    opened = file_opener(opening)
    led = {routes.OPEN: opened, "os.open": settling(opener), "os.close": closer, "os.truncate": settling(truncater)}
    routes.lead(led)
    replacing = {"io.FileIO": raw_class(opening, opened, opener), REMOVE_TREE: remove_tree}
    prepare()
    for names, name, sought in _bound:
        names[name] = replacing[sought]


# --- other ways to open a file ----------------------------------------------------------------------------------------


def file_opener(opening: Opening) -> Callable[..., Any]:
    """The replacement of `io.open`."""
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
        mode = settled(mode)
        # Checked first, because most files are opened for reading.
        if mode in _READING and not files.any:
            return _routed_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        return opening.opened(file, mode, (buffering, encoding, errors, newline, closefd, opener))

    return open


def descriptor_opener(opening: Opening) -> Callable[..., int]:
    """The replacement of `os.open`."""
    files, route = opening.files, routes.route("os.open")

    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:  # noqa: A001 -- as above
        if not writes(flags):
            staging = opening.under_way(path, dir_fd) if files.any and flags & PIN != PIN else None
            return staging.opened(os.O_RDONLY) if staging else route.plain(path, flags, mode, dir_fd=dir_fd)
        if is_nameless(flags) and opening.is_kept(path, dir_fd):
            return unnamed(flags)
        if flags & os.O_DIRECTORY or not opening.is_staged(path, directory=dir_fd):
            return route.plain(path, flags, mode, dir_fd=dir_fd)
        staging = opening.stage(path, flags, dir_fd, mode & 0o777 if mode != _USUAL_MODE else None)
        descriptor = staging.opened(flags)
        files.lend(staging, descriptor)
        return descriptor

    return open


def descriptor_closer(opening: Opening) -> Callable[[int], None]:
    """The replacement of `os.close`."""
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
    """The replacement of `os.truncate`."""

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
    """The replacement of `io.FileIO`: the class itself makes files like `io.open`, a subclass opens with `os.open`."""

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
            given, file, mode = file, settled(file), settled(mode)
            if opener is not None or isinstance(file, int) or mode in _READING or not opening.is_staged(file):
                super().__init__(file, mode, closefd, opener)
                self.name = given
                return
            _Raw(os.devnull, mode.replace("x", "w"), closefd).close()  # which refuses wrong arguments
            # Not with an opener, because Python's audit event would then name the real file as opened.
            super().__init__(descriptor(file, flags_of(mode), _USUAL_MODE), mode)
            self.name = given

    FileIO.__module__, FileIO.__qualname__, FileIO.__doc__ = _Raw.__module__, _Raw.__qualname__, _Raw.__doc__
    return FileIO
