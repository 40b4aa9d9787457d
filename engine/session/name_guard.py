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
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple
from weakref import WeakSet

from ..core.domain import is_inside
from ..files.appearing import TOP, is_repository, kind_below, must_go
from ..files.pins import path_of
from ..files.safe_open import opened_directory
from ..runtime.system.names import rename_to_nothing
from ..runtime.system.new_names import OVERFLOW, NameWatch, NewName

MOST: Final = 300
"""Number of directories that are watched."""
MOST_AGAIN: Final = 3
"""How often one name may be made before the processes are ended."""
MOST_AT_ALL: Final = 50
"""How many names may be made before the processes are ended. No more are told, either."""
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
        self._known: set[str] = set()
        """Names that may stay."""
        self._same: dict[str, tuple[int, int]] = {}
        """Links and repositories that may stay, by device and inode: a program can replace them, because nothing is
        mounted over them."""
        self._allowed: set[str] = set()
        """What the host makes, in directories that it may make, too."""
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
                    self._keep(self._wanted_in(path))
                    self._keep(self._repositories_in(path))
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
            self._kinds, self._paths, self._known, self._same, self._allowed = {}, {}, set(), {}, set()

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
        """Leave these paths, and what leads to them or is below."""
        if self._watch is not None:
            with self._lock:
                self._drain()
                self._allowed.update(paths)

    def catch_up(self) -> None:
        """Handle all news now, because what happens next is another matter."""
        with self._lock:
            self._drain()

    def _keep(self, paths: Iterable[str]) -> None:
        for path in paths:
            found = _replaceable_at(path)
            if found is None:
                self._known.add(path)
            else:
                self._same[path] = found

    def _may_stay(self, path: str) -> bool:
        if path in self._same and _replaceable_at(path) == self._same[path]:
            return True
        return path in self._known or any(
            is_inside(path, (each,)) or is_inside(each, (path,)) for each in self._allowed
        )

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

    def _add(self, path: str, kind: str) -> None:
        if self._watch is None or len(self._kinds.keys() | {path}) > MOST:
            return
        self._kinds[path] = kind
        number = self._watch.add(path)
        if number is not None:
            self._paths[number] = path

    def _drain(self) -> None:
        """Look at all news."""
        for news in () if self._watch is None else self._watch.read():
            self._look(news)

    def _look(self, news: NewName) -> None:
        if news.number == OVERFLOW:
            self._look_in(tuple(self._kinds))
            return
        folder = self._paths.get(news.number)
        if folder is None:
            return
        path, kind = os.path.join(folder, news.name), self._kinds[folder]
        is_prepared = is_repository(kind, news.name) and (news.is_moved or not _is_directory(path))
        if must_go(kind, news.name) or is_prepared:
            self._judge(folder, news.name)
        below = kind_below(kind, news.name)
        if below is not None and path not in self._kinds and _is_directory(path):
            self._add(path, below)
        if path in self._kinds:  # another directory may be there now
            self._look_in([each for each in self._kinds if is_inside(each, (path,))])

    def _look_in(self, folders: Iterable[str]) -> None:
        """Look at what is in these directories, because the news do not tell."""
        for folder in folders:
            self._add(folder, self._kinds[folder])
            for path in self._wanted_in(folder):
                self._judge(folder, os.path.basename(path))
            for path in self._repositories_in(folder):
                if not _is_directory(path):
                    self._judge(folder, os.path.basename(path))

    def _wanted_in(self, folder: str) -> list[str]:
        return self._found_in(folder, must_go)

    def _repositories_in(self, folder: str) -> list[str]:
        return self._found_in(folder, is_repository)

    def _found_in(self, folder: str, is_meant: Callable[[str, str], bool]) -> list[str]:
        names: list[str] = []
        with suppress(OSError):
            names = os.listdir(folder) if folder in self._kinds else []
        return [os.path.join(folder, name) for name in names if is_meant(self._kinds[folder], name)]

    def _judge(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        if self._may_stay(path):
            return
        if not self._is_armed or NameGuard.pauses:
            self._keep((path,))
            return
        self._counts[path] += 1
        self._tell(path, _renamed(folder, name))
        if self._counts[path] == MOST_AGAIN or self._counts.total() == MOST_AT_ALL:
            self._tell(path, ENDED)
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


def _replaceable_at(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.lstat(path)
        is_meant = stat.S_ISLNK(found.st_mode) or is_repository(TOP, os.path.basename(path))
        return (found.st_dev, found.st_ino) if is_meant else None
    return None


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _renamed(folder: str, name: str) -> str:
    """Rename the name in the directory to one that nothing reads; return what to say about it.

    In the directory itself, because that is atomic, keeps everything, and shows the user where the content is. Links on
    the way are not followed: a program could have put one there, and the host would rename another file.
    """
    away = f"{AWAY}{secrets.token_hex(4)}"
    try:
        with opened_directory(folder) as directory:
            if path_of(directory) != folder:
                return STAYED.format(reason="a link is on the way")
            if not rename_to_nothing(directory, name, away):
                os.rename(name, away, src_dir_fd=directory, dst_dir_fd=directory)
    except FileNotFoundError:
        return VANISHED
    except (OSError, ValueError) as error:
        return STAYED.format(reason=getattr(error, "strerror", None) or error)
    return MOVED.format(away=os.path.join(folder, away))
