"""The directories of a session, its scratch directory, and its project's Python environment.

**Directories** are checked and spelled in one way, so listings find them again. The working directory must exist. A
missing additional one is only warned of, because its disk may be mounted later. Links stay as the client wrote them.
Called by `registry` and `reopening`.

**Scratch** is where statements may write without a question, in every mode. It is below the state directory, because it
belongs to its session: rebuilds and loads keep it, and deleting the session removes it. A session in use holds a lock
on it, so that `sweep` leaves it alone. Its contents are untrusted: it is removed without following links, whatever the
permissions and the depth of its directories (`_empty`). Used by `confinement`.

**The project's environment** is found by reading directories and `pyvenv.cfg`; no process is started. Also called by
the doctor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import xxhash
from msgspec import Struct

from ..core.errors import EnvironmentUnavailableError, InvalidRequestError
from ..core.ids import SessionId
from ..core.key_file import key_path
from ..core.settings import Settings, default_state_dir
from ..files.pins import PIN, opened_again, set_mode
from ..files.project import is_own, own_directories
from ..files.safe_open import opened_file, real_path
from ..files.spellings import stored_path


def spelled(path: str) -> str:
    """Return the absolute path without trailing or double slashes and dots, in the spelling that directories list.

    Raises:
        InvalidRequestError: it is not absolute.
    """
    if not path.startswith("/"):
        raise InvalidRequestError(f"cwd and directories must be absolute paths, not {path!r}")
    plain = "/" + os.path.normpath(path).lstrip("/")  # because POSIX lets a path keep exactly two slashes in front
    return plain if "\0" in plain else stored_path(plain)


def check_working_directory(path: str, advice: str = "choose one that exists") -> None:
    """Check that the path is a directory.

    Raises:
        InvalidRequestError: it is not; the message ends with the advice.
    """
    if not _is_directory(path):
        what = "is not a directory" if os.path.lexists(path) else "does not exist"
        raise InvalidRequestError(f"cwd {path!r} {what}; {advice}")


def additional(paths: Sequence[str], cwd: str) -> tuple[str, ...]:
    """Return the additional directories, each once, spelled in one way.

    Raises InvalidRequestError as `spelled`.
    """
    return tuple(path for path in dict.fromkeys(map(spelled, paths)) if path != cwd)


def missing(paths: Sequence[str]) -> list[str]:
    """Return a sentence for each additional directory that does not exist."""
    return [f"The additional directory {path} does not exist." for path in paths if not _is_directory(path)]


def real_places(cwd: str, directories: Sequence[str]) -> tuple[str, ...]:
    """Return the real paths, the working directory first."""
    return tuple(map(real_path, (cwd, *directories)))


def alike(known: Iterable[str], cwd: str) -> list[str]:
    """Return the known directories that are `cwd`, by any path.

    An editor may know a project by a link. Looks at each part of each path, so do not call it on the event loop.
    """
    wanted = real_path(cwd)
    return [path for path in known if real_path(path) == wanted]


class Spellings:
    """The client's spelling of paths in its directories, which may be links.

    A tool names the real path of a file. An editor that opened the project by a link would not know it.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._real: list[tuple[str, str]] | None = None

    def of(self, path: str) -> str:
        """Spell an absolute path below the client's name of its directory, if it is in one."""
        if any(path.startswith(os.path.join(root, "")) for root in self._roots):
            return path
        if self._real is None:
            self._real = [(os.path.join(real_path(root), ""), root) for root in self._roots]
        found = [(real, root) for real, root in self._real if path.startswith(real)]
        if not found:
            return path
        real, root = max(found, key=lambda each: len(each[0]))
        return os.path.join(root, path.removeprefix(real))


def gone(cwd: str) -> EnvironmentUnavailableError | None:
    """Return the error if the session's directory does not exist any more."""
    if _is_directory(cwd):
        return None
    return EnvironmentUnavailableError(
        f"the session's directory {cwd} does not exist any more; create it again, or load the session with another cwd"
    )


def _is_directory(path: str) -> bool:
    try:
        return os.path.isdir(path)
    except (OSError, ValueError):
        return False


# --- scratch ----------------------------------------------------------------------------------------------------------

FOLDER: Final = "scratch"
DOWNLOADS: Final = "fetched"
"""The folder for files that `fetch` makes."""
_MODE: Final = 0o700
_DIRECTORY: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """The scratch directory of one session, made at first use."""

    def __init__(self, state_dir: Path, session_id: SessionId) -> None:
        self.path: Final = os.path.join(os.path.realpath(state_dir), FOLDER, _name_of(session_id))
        self._lock = -1

    def make(self) -> None:
        """Make it, for the user alone, and mark it as in use until `close`. Raises OSError."""
        os.makedirs(self.path, mode=_MODE, exist_ok=True)
        os.chmod(self.path, _MODE)
        self._unlock()
        self._lock = os.open(self.path, os.O_RDONLY | _DIRECTORY)
        with contextlib.suppress(OSError):  # a file system may have no locks, and a statement may hold one itself
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def keep(self, name: str, data: bytes) -> str:
        """Write a new file in it, in a folder for downloads, and return its path. Raises OSError.

        Statements may put links there, so none is followed, and no existing file is opened.
        """
        if self._lock < 0:
            self.make()
        with contextlib.suppress(FileExistsError):
            os.mkdir(DOWNLOADS, _MODE, dir_fd=self._lock)
        folder = os.open(DOWNLOADS, os.O_RDONLY | _DIRECTORY, dir_fd=self._lock)
        try:
            free, file = _new_file(folder, name)
        finally:
            os.close(folder)
        with open(file, "wb") as opened:
            opened.write(data)
        return os.path.join(self.path, DOWNLOADS, free)

    def close(self) -> None:
        """Mark it as unused, and remove it if it is empty. Raises nothing."""
        self._unlock()
        with contextlib.suppress(OSError):
            os.rmdir(self.path)

    def remove(self) -> None:
        """Remove it with its contents, as far as possible. Raises nothing."""
        self._unlock()
        remove_tree(self.path)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def _new_file(folder: int, name: str) -> tuple[str, int]:
    """Make a file in the open directory; return its name, with a number if others have it, and its descriptor."""
    stem, suffix = os.path.splitext(name)
    for number in count(1):
        free = name if number == 1 else f"{stem}-{number}{suffix}"
        with contextlib.suppress(FileExistsError):
            return free, os.open(free, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    raise AssertionError("no free name was found")


def own_places(settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return where this program's sessions, settings and keys are, which nobody may open for a statement or a client.

    Another program of this kind may run at the same time, with the usual state directory.
    """
    keys = key_path(environ)
    places = (settings.state_dir, default_state_dir(environ), keys, keys.parent)  # the last one for what is beside it
    return tuple(map(os.fspath, places))


def sweep(state_dir: Path, kept: Callable[[], Collection[SessionId]]) -> None:
    """Remove scratch directories of sessions that are gone. Raises nothing.

    `kept` returns the sessions in the store. A directory in use stays even if its session is not listed: that session
    is in memory only.
    """
    place = os.path.join(os.path.realpath(state_dir), FOLDER)
    with contextlib.suppress(OSError):
        found = os.listdir(place)  # first, because one of a new session comes after that session
        for name in set(found).difference(map(_name_of, kept())):
            remove_tree(os.path.join(place, name), unless_used=True)


def _name_of(session_id: SessionId) -> str:
    """Return a short name, because temporary files include Unix sockets, whose paths have at most 107 bytes.
    `multiprocessing` adds 32."""
    return xxhash.xxh3_64_hexdigest(session_id.encode())


def remove_tree(path: str, *, unless_used: bool = False) -> None:
    """Remove a directory with its contents, without following links, as far as possible. Raises nothing."""
    with contextlib.suppress(OSError):
        with _opened(None, path) as top:
            if unless_used:
                fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _empty(top)
        os.rmdir(path)


def _empty(top: int) -> None:
    """Remove everything in the open directory.

    The contents of a subdirectory are moved up into `top` before that goes. So nothing is deeper than one level, no
    path is too long, and any depth works. Raises OSError if something stays.
    """
    names = (f".removed-{number}" for number in count())
    while entries := os.listdir(top):
        for name in entries:
            try:
                os.unlink(name, dir_fd=top)
            except IsADirectoryError:
                _lift(top, name, names)


def _lift(top: int, name: str, names: Iterator[str]) -> None:
    """Remove a subdirectory of `top`, after moving its own subdirectories up."""
    with _opened(top, name) as inner:
        for entry in os.listdir(inner):
            try:
                os.unlink(entry, dir_fd=inner)
            except IsADirectoryError:
                with _opened(inner, entry):  # because that makes it writable, which a move needs
                    pass
                os.rename(entry, _free(top, names), src_dir_fd=inner, dst_dir_fd=top)
    os.rmdir(name, dir_fd=top)


def _free(top: int, names: Iterator[str]) -> str:
    """Return the next unused name."""
    for name in names:
        try:
            os.stat(name, dir_fd=top, follow_symlinks=False)
        except FileNotFoundError:
            return name
    raise AssertionError("no free name was found")


@contextlib.contextmanager
def _opened(directory: int | None, name: str) -> Generator[int]:
    """Open the directory, whatever its permissions."""
    pin = os.open(name, PIN | _DIRECTORY, dir_fd=directory)
    try:
        set_mode(pin, _MODE)
        opened = opened_again(pin, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(pin)
    try:
        yield opened
    finally:
        os.close(opened)


# --- the project's environment ----------------------------------------------------------------------------------------

_OURS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_ROOT_MARKS: Final = (".git", ".hg", ".svn")
"""A directory with one of these is the root of a workspace. No environment is searched above it."""
_CONFIGURATION_BYTES: Final = 64 << 10
_VERSION_KEYS: Final = ("version_info", "version")


class ProjectEnvironment(Struct, frozen=True, kw_only=True):
    """Import paths, the Python version of statements, the packages as `name-version`, and a note.

    `note` is a sentence for the doctor and the first reply if the environment cannot be used, else "".
    """

    import_paths: tuple[str, ...] = ()
    python: str = ".".join(map(str, sys.version_info[:3]))
    packages: tuple[str, ...] = ()
    note: str = ""


def find_project_environment(cwd: str, variables: Mapping[str, str], chosen: str | None) -> ProjectEnvironment:
    """Find the environment in which statements import packages.

    Args:
        cwd: the session's absolute directory.
        variables: the host's environment variables, for VIRTUAL_ENV.
        chosen: an interpreter or an environment's directory that the user named, or None. It wins over VIRTUAL_ENV,
            which wins over `.venv` in `cwd` or a parent up to the workspace's root. A VIRTUAL_ENV that is this
            program's own comes last, because it says how the host was started, not what the project needs.

    Never raises for missing or broken files; `note` reports them.
    """
    if chosen:
        root = _root_of(chosen, cwd)
        return (
            _examine(root) if root else ProjectEnvironment(note=f"--python {chosen} is not in a virtual environment.")
        )
    active = Path(variables["VIRTUAL_ENV"]) if variables.get("VIRTUAL_ENV") else None
    if active is not None and str(active) != sys.prefix:
        return _examine(active)
    root = _nearest(cwd) or active
    return _examine(root) if root else ProjectEnvironment()


def _root_of(chosen: str, cwd: str) -> Path | None:
    path = Path(cwd, chosen).expanduser()
    # The interpreter is a link out of the environment, so the path is not resolved.
    for root in (path, path.parent.parent):
        if _is_file(root / "pyvenv.cfg"):
            return root.resolve()
    return None


def _nearest(cwd: str) -> Path | None:
    for directory in map(Path, own_directories(cwd)):
        environment = directory / ".venv"
        if _is_file(environment / "pyvenv.cfg") and is_own(str(environment), cwd):
            return environment
        if any(_exists(directory / mark) for mark in _ROOT_MARKS):
            return None
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _examine(root: Path) -> ProjectEnvironment:
    version = _version(root)
    if version is None:
        return ProjectEnvironment(note=f"{root} is not a readable virtual environment; its packages are not used.")
    if version.split(".")[:2] != _OURS.split("."):
        return ProjectEnvironment(
            note=f"{root} is for Python {version} but statements run under {_OURS}; its packages are not used."
        )
    site = root / "lib" / f"python{_OURS}" / "site-packages"
    packages = _packages(site)
    if packages is None:
        return ProjectEnvironment(note=f"{site} cannot be read; its packages are not used.")
    return ProjectEnvironment(import_paths=(str(site),), packages=packages)


def _version(root: Path) -> str | None:
    try:
        with opened_file(str(root / "pyvenv.cfg")) as file:
            text = file.read(_CONFIGURATION_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return None
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in text.splitlines())}
    found = next((values[key] for key in _VERSION_KEYS if values.get(key)), None)
    return found if found and re.match(r"\d+\.\d+", found) else None


def _packages(site: Path) -> tuple[str, ...] | None:
    try:
        names = [entry.name for entry in site.iterdir() if entry.suffix == ".dist-info"]
    except OSError:
        return None
    return tuple(sorted(name.removesuffix(".dist-info") for name in names))
