"""Take away protected names that a program of a statement makes where nothing was, at once.

The kernel cannot mount over a name that does not exist. Comparing the directories when a statement ends is too late: an
editor that calls `git status` every second has run what `.git/commondir` leads to by then. So while programs of a
statement may run, a thread gets the kernel's news, and renames such a name in its directory to one that nothing reads.
It keeps the content, because the kernel does not tell who made the name: the user's editor may have done so. A program
that makes the same name in a loop would have it there half of the time. So all sandboxed processes of the session are
ended then.

What the host makes stays: `allow_names` before it writes, `pausing` while a program runs outside the sandbox. Both
concern all sessions of this process. Names that existed when the watch began stay, too: those that are no links are
read-only for statements. `take` returns what happened, once.

Nothing is watched where the system has no such news (macOS, whose sandbox knows names that do not exist). Used by
`confinement`, `tool_calls` and `live_environment`.
"""

from __future__ import annotations

import os
import secrets
import select
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Final, NamedTuple
from weakref import WeakSet

from ..core.domain import is_inside
from ..files.appearing import TOP, is_repository, kind_below, must_be_no_link, must_go
from ..files.pins import PIN, path_of, set_mode
from ..files.safe_open import opened_directory
from ..runtime.system.names import birth_of, rename_to_nothing
from ..runtime.system.new_names import OVERFLOW, NameWatch, NewName

MOST: Final = 300
"""Number of directories that are watched."""
MOST_AGAIN: Final = 3
"""How often one name may be made before the processes are ended."""
MOST_AT_ALL: Final = 50
"""How many names may be made before the processes are ended. No more are told, either."""
MAKING_SECONDS: Final = 60.0
"""How long the host may take to make what it has announced."""
AWAY: Final = ".rewindow-moved-"
"""How the new names begin. They have no suffix, by which a program could choose them."""
MOVED: Final = (
    "while programs of a statement ran, this name appeared, from which other programs run something. Rewindow "
    "renamed it to {away} at once. Check it. If you made it yourself, rename it back"
)
VANISHED: Final = (
    "while programs of a statement ran, this name appeared, from which other programs run something, and was gone "
    "again at once. Another program may have run it meanwhile"
)
STAYED: Final = (
    "while programs of a statement ran, this name appeared, from which other programs run something. Rewindow could "
    "not rename it ({reason}). Check it before you continue"
)
ENDED: Final = "it appeared again and again, so Rewindow ended the programs"
ENDED_STUCK: Final = "Rewindow ended the programs, because one may have prevented that"


_Identity = tuple[int, int, int, str]
"""The device, the inode, when it was made, and where a link leads. A new link may get the inode of one that is gone."""


class Taken(NamedTuple):
    """A protected name that appeared, and what became of it, as a sentence."""

    path: str
    sentence: str


class NameGuard:
    """The watch of one session. `end_programs` ends its sandboxed processes; it may be called on any thread."""

    pauses = 0
    """How many programs run outside the sandbox, for all sessions of this process."""

    def __init__(self, end_programs: Callable[[], object] = lambda: None) -> None:
        self.end_programs = end_programs
        self._lock = threading.RLock()
        self._watch: NameWatch | None = None
        self._stop = -1
        """The end of a pipe that ends the thread when it is closed."""
        self._kinds: dict[str, str] = {}
        self._paths: dict[int, str] = {}
        self._kept: dict[str, _Identity | None] = {}
        """Names that may stay. Some only as the link or the repository that is there, because nothing is mounted over
        these: a program could replace them."""
        self._expected: dict[str, float] = {}
        """What the host makes, and until when that may appear."""
        self._above: dict[str, float] = {}
        """The same for the directories that it makes for that."""
        self._is_armed = False
        self._running = 0
        """How many statements run."""
        self._counts: Counter[str] = Counter()
        self._taken: list[Taken] = []
        _GUARDS.add(self)

    def begin(self, directories: Mapping[str, str]) -> None:
        """Watch these directories, given with their kinds, and no others; what is there now may stay.

        Call it while no program of a statement runs, or to continue with what a new search has found.
        """
        with self._lock:
            if self._watch is None:
                self._start()
            else:
                self._drain()
            for path, kind in directories.items():
                if self._kinds.get(path) != kind:
                    self._add(path, kind)
                    for name in _names_in(path) if path in self._kinds else ():
                        if _is_meant(kind, name):
                            self._keep(os.path.join(path, name))
            self._is_armed = True

    @property
    def is_watching(self) -> bool:
        """Whether there are processes that may write, and a watch."""
        return self._watch is not None

    def arm(self) -> None:
        """Take away what appears from now on, because a statement begins. What has appeared since `rest` may stay."""
        with self._lock:
            self._drain()
            self._running += 1
            self._is_armed = True

    def disarm(self) -> None:
        """Note that the statement has ended. What its programs make is taken away until `rest`."""
        with self._lock:
            self._running -= 1

    def rest(self) -> None:
        """Leave what appears from now on, unless a statement runs: there is no program of one."""
        with self._lock:
            self._drain()
            self._is_armed = self._running > 0

    def end(self) -> None:
        """Watch nothing any more: there is no process that could write."""
        with self._lock:
            if self._watch is None:
                return
            self._drain()
            os.close(self._stop)  # the thread closes the watch
            self._watch = None
            self._kinds, self._paths, self._kept, self._expected, self._above = {}, {}, {}, {}, {}

    def take(self) -> list[Taken]:
        """Return what was taken away, or has vanished, since the last call."""
        with self._lock:
            self._drain()
            taken, self._taken = self._taken, []
            self._counts.clear()
            return taken

    @property
    def has_taken(self) -> bool:
        """Whether `take` returns something."""
        with self._lock:
            self._drain()
            return bool(self._taken)

    # --- what may stay ------------------------------------------------------------------------------------------------

    def allow(self, paths: Iterable[str]) -> None:
        """Leave these paths, and the directories above that do not exist yet, when they appear within `MAKING_SECONDS`.

        Each may appear once, a directory above only if it is made in place. Otherwise a harmless write would allow a
        program to make the same name, or another directory above. What is below a path is not allowed.
        """
        if self._watch is None:
            return
        with self._lock:
            self._drain()
            until = time.monotonic() + MAKING_SECONDS
            for path in paths:
                self._expected[path] = until
                for above in map(str, PurePath(path).parents):
                    if os.path.lexists(above):
                        break
                    self._above[above] = until

    def catch_up(self) -> None:
        """Handle all news now, because what happens next is another matter."""
        with self._lock:
            self._drain()

    def _keep(self, path: str) -> None:
        with suppress(OSError):  # because it is gone again
            self._kept[path] = _replaceable_at(path)

    def _keep_file(self, path: str) -> None:
        """Keep the path of what the host made, if that is a file that the kernel can protect.

        Anything else may have been replaced since. The next news tell, so it may not stay then.
        """
        with suppress(OSError):
            if _replaceable_at(path) is None and not _is_directory(path):
                self._kept[path] = None

    def _is_expected(self, path: str, *, is_made: bool) -> bool:
        """Whether the host may have made what has appeared there: once, and only a directory `is_made` in place."""
        now = time.monotonic()
        is_path, is_above = self._expected.pop(path, 0.0) > now, self._above.pop(path, 0.0) > now
        return is_path or (is_above and is_made)

    def _is_kept(self, path: str) -> bool:
        return path in self._kept and self._kept[path] in (None, _identity_at(path))

    # --- the watch ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._watch = watch = NameWatch.open()
        if watch is not None:
            stop, self._stop = os.pipe()
            threading.Thread(target=self._follow, args=(watch, stop), name="rewindow-names", daemon=True).start()

    def _follow(self, watch: NameWatch, stop: int) -> None:
        poll = select.poll()
        poll.register(watch.fileno(), select.POLLIN)
        poll.register(stop, 0)
        while all(descriptor != stop for descriptor, _ in poll.poll()):
            with self._lock:
                if self._watch is watch:
                    self._drain()
        with self._lock:
            watch.close()
        os.close(stop)

    def _add(self, path: str, kind: str) -> bool:
        """Watch the directory; return whether that is possible."""
        if self._watch is None or len(self._kinds.keys() | {path}) > MOST:
            return False
        self._kinds[path] = kind
        number = self._watch.add(path)
        if number is not None:
            self._paths[number] = path
        return number is not None

    def _open_up(self, folder: str) -> None:
        """Let the user read and write the directory and those above again: a program may have taken these rights."""
        for path in sorted(each for each in self._kinds if is_inside(folder, (each,))):
            with suppress(OSError), _pinned_directory(path) as pin:
                mode = stat.S_IMODE(os.fstat(pin).st_mode)
                if path_of(pin) == path and mode & stat.S_IRWXU != stat.S_IRWXU:
                    set_mode(pin, mode | stat.S_IRWXU)

    def _drain(self) -> None:
        """Look at all news."""
        for news in () if self._watch is None else self._watch.read():
            self._look(news)

    def _look(self, news: NewName) -> None:
        if news.number == OVERFLOW:
            self._look_in(self._kinds, is_made=False)
            return
        folder = self._paths.get(news.number)
        if folder is None:
            return
        path = os.path.join(folder, news.name)
        self._see(folder, news.name, is_made=news.is_made)
        if path in self._kinds:  # another directory may be there now
            self._look_in([each for each in self._kinds if is_inside(each, (path,))], is_made=news.is_made)

    def _look_in(self, folders: Iterable[str], *, is_made: bool) -> None:
        """Look at what is in these directories, because the news do not tell.

        `is_made`: programs made them in place, so they may have made repositories there.
        """
        waiting = list(folders)
        for folder in sorted(waiting, key=len):
            self._see_replaced(folder)
        while waiting:
            folder = waiting.pop()
            kind = self._kinds[folder]
            if not self._add(folder, kind) and self._is_armed and not NameGuard.pauses:
                self._open_up(folder)
                self._add(folder, kind)
            for name in _names_in(folder):
                path = os.path.join(folder, name)
                if self._see(folder, name, is_made=is_made and _is_directory(path)):
                    waiting.append(path)

    def _see_replaced(self, path: str) -> None:
        """Take a link away that has replaced a watched directory: what it leads to would not be watched."""
        if not os.path.islink(path):
            return
        if not self._is_armed or NameGuard.pauses:
            self._keep(path)
        elif not self._is_expected(path, is_made=False) and not self._is_kept(path):
            self._take_away(*os.path.split(path))

    def _see(self, folder: str, name: str, *, is_made: bool) -> bool:
        """Take the name away if it must not stay, or watch the directory; return whether that is newly watched."""
        path, kind = os.path.join(folder, name), self._kinds[folder]
        if not _is_meant(kind, name):
            return False
        if not self._is_armed or NameGuard.pauses:
            self._keep(path)
        elif self._is_expected(path, is_made=is_made):
            self._keep_file(path)
        elif _must_go_as(kind, path, is_made=is_made) and not self._is_kept(path):
            self._take_away(folder, name)
        below = kind_below(kind, name)
        if below is None or path in self._kinds or not _is_directory(path):
            return False
        self._add(path, below)
        return path in self._kinds

    def _take_away(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        self._counts[path] += 1
        outcome = _renamed(folder, name)
        if isinstance(outcome, PermissionError):
            self._open_up(folder)
            outcome = _renamed(folder, name)
        is_stuck = not isinstance(outcome, str)
        self._tell(path, STAYED.format(reason=_reason(outcome)) if is_stuck else outcome)
        if is_stuck or self._counts[path] == MOST_AGAIN or self._counts.total() == MOST_AT_ALL:
            self._tell(path, ENDED_STUCK if is_stuck else ENDED)
            with suppress(RuntimeError):  # because the event loop that does it may be closed
                self.end_programs()

    def _tell(self, path: str, sentence: str) -> None:
        if len(self._taken) < 2 * MOST_AT_ALL:
            self._taken.append(Taken(path, sentence))


_GUARDS: Final[WeakSet[NameGuard]] = WeakSet()


def allow_names(paths: Iterable[str]) -> None:
    """Leave these paths in all sessions: the host makes them now."""
    paths = tuple(paths)
    for guard in tuple(_GUARDS):
        guard.allow(paths)


@contextmanager
def pausing() -> Generator[None]:
    """Leave what appears meanwhile in all sessions: a program runs outside the sandbox, as the user allowed."""
    _catch_up()
    NameGuard.pauses += 1
    try:
        yield
    finally:
        _catch_up()
        NameGuard.pauses -= 1


def _catch_up() -> None:
    for guard in tuple(_GUARDS):
        guard.catch_up()


def _names_in(folder: str) -> list[str]:
    """The names in the directory. None if a link is there or on the way: what it leads to is not watched."""
    with suppress(OSError), opened_directory(folder) as directory:
        if path_of(directory) == folder:
            return os.listdir(directory)
    return []


def _is_meant(kind: str, name: str) -> bool:
    """Whether something of that name must not stay, or must be watched."""
    return must_go(kind, name) or kind_below(kind, name) is not None


def _must_go_as(kind: str, path: str, *, is_made: bool) -> bool:
    """Whether what is at the path must not stay. `is_made`: it is a directory that was made in place."""
    name = os.path.basename(path)
    if must_go(kind, name):
        return True
    if is_made:
        return False
    is_link = os.path.islink(path) or not os.path.lexists(path)  # it may have been one
    return is_repository(kind, name) or (must_be_no_link(kind, name) and is_link)


def _replaceable_at(path: str) -> _Identity | None:
    """The identity of what is at the path if nothing can be mounted over it. Raises OSError."""
    is_meant = stat.S_ISLNK(os.lstat(path).st_mode) or kind_below(TOP, os.path.basename(path)) is not None
    return _identity_at(path) if is_meant else None


def _identity_at(path: str) -> _Identity | None:
    with suppress(OSError):
        found = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""
        return found.st_dev, found.st_ino, birth_of(path), target
    return None


@contextmanager
def _pinned_directory(path: str) -> Generator[int]:
    """Pin a directory that the user may not be allowed to read. Raises OSError, also for a link."""
    pin = os.open(path, PIN | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield pin
    finally:
        os.close(pin)


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _renamed(folder: str, name: str) -> str | OSError | ValueError:
    """Rename the name in the directory to one that nothing reads; return what to say about it, or why it stays.

    In the directory itself, because that is atomic, keeps everything, and shows the user where the content is. Links on
    the way are not followed: a program could have put one there, and the host would rename another file.
    """
    away = f"{AWAY}{secrets.token_hex(4)}"
    try:
        with opened_directory(folder) as directory:
            if path_of(directory) != folder:
                return ValueError("a link is on the way")
            if not rename_to_nothing(directory, name, away):
                os.rename(name, away, src_dir_fd=directory, dst_dir_fd=directory)
    except FileNotFoundError:
        return VANISHED
    except (OSError, ValueError) as error:
        return error
    return MOVED.format(away=os.path.join(folder, away))


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
