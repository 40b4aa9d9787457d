"""The guard of replays, edits and plan mode: stops acts outside the namespace. For other statements, reports them.

It is bookkeeping, not a security boundary: it does not see files that C code opens. `outside` lists the acts, `origins`
knows the statement that a thread works for, and the guard decides. Acts only on the session's scratch directory are
never stopped. The interpreter arms the guard during a rebuild or replay, and for statements of plan mode or an edit;
each has its own exception. Otherwise a watch sees each act and stops none (`writes.touching`).

An audit hook cannot be removed, and sees every thread of its process. So all guards and watches share one, which is
added at the first use. `origins` and the patches of `outside` are loaded with the first guard, so a worker that never
replays does not pay for them. In a worker, an armed guard covers every thread. In a process that also does other work,
it covers only the statement's work. Work that a statement started stays guarded when the guard is disarmed.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, Final

from ....files.pins import path_of
from ...system.process_table import own_threads
from . import origins, outside
from .outside import IMPORT, LOADED, STAGED, STOPPED, TARGETS, described, is_bytecode

Refusal = Callable[[str], Exception]
"""Makes the exception that the statement gets instead of the effect, from a phrase on the prevented act."""
_NONE: Final = -1
_PATHS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "open": ((0, _NONE),),
    "os.truncate": ((0, _NONE),),
    "os.mkfifo": ((0, _NONE),),
    "os.mknod": ((0, _NONE),),
    "sqlite3.connect": ((0, _NONE),),
    "sqlite3 ATTACH": ((0, _NONE),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.symlink": ((1, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((0, 2), (1, 3)),
}
"""By event: the positions of a path argument, and of the descriptor of the directory that it starts from, if any."""
KEPT_STOPS: Final = 5
"""The most prevented acts of one statement that are described; the others are counted."""
_KEPT_LATE: Final = 64
_ALL_THREADS: Final = 0
"""No thread has this identifier."""
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))) + os.sep
_ON_THE_WAY: Final = frozenset(
    function.__code__.co_filename for function in (os.fsencode, os.path.join, threading.current_thread, contextmanager)
)
"""Files of the standard library whose functions a watch calls."""
Watch = Callable[[str, tuple[Any, ...]], None]
"""Called before each act of unguarded work, with the name and arguments of its audit event."""
_LISTED: Final = frozenset((*STOPPED, *TARGETS, IMPORT, LOADED))


class ReplayEffect(RuntimeError):  # noqa: N818 -- the name is the specification's (engine semantics, section 7)
    """Raised in a statement that runs again, instead of an act outside the namespace."""


def replaying(phrase: str) -> Exception:
    """The refusal of a replay."""
    return ReplayEffect(f"a replay has no outside effects; this statement {phrase}")


def planning(phrase: str) -> Exception:
    """The refusal of plan mode."""
    return PermissionError(f"plan mode allows no outside effects; this statement {phrase}")


def editing(phrase: str) -> Exception:
    """The refusal of an edit that changes nothing."""
    return PermissionError(f"an edit without --live has no outside effects; this statement {phrase}")


def is_in(scratch: str, name: str, args: tuple[Any, ...]) -> bool:
    """Whether the event concerns only paths below the directory, with links above the last name resolved."""
    places = _PATHS.get(name)
    if places is None:
        return False
    try:
        return all(_is_below(scratch, args[path], _NONE if at == _NONE else args[at]) for path, at in places)
    except (OSError, ValueError, TypeError, IndexError):
        return False


def _is_below(scratch: str, path: Any, directory: int) -> bool:
    if isinstance(path, int):
        place = path_of(path)
    else:
        place = os.fsdecode(path)
        if not place.startswith("/"):
            folder = os.getcwd() if directory == _NONE else path_of(directory)
            place = os.path.join(folder, place)
    folder = os.path.realpath(os.path.dirname(place))
    # Because the last name may be a link that leads out.
    return f"{folder}/".startswith(scratch) and f"{os.path.realpath(place)}/".startswith(scratch)


class Guarded:
    """The origin of a guarded statement's work, and its prevented acts. `label` names the statement."""

    def __init__(self, label: str, refusal: Refusal) -> None:
        self.label = label
        self.late: Callable[[str], None] | None = None
        """Receives a sentence for each prevented act after the rebuild; None while its statements run."""
        self._refusal = refusal
        self._phrases: list[str] = []
        self._count = 0

    @property
    def may_stage(self) -> bool:
        """Whether files may be opened for staged writes, because the host answers these from the record."""
        return self._refusal is editing

    def refuse(self, phrase: str) -> Exception:
        """Note the prevented act, and return the exception for the work."""
        if self.late is None:
            self._note(phrase)
            return self._refusal(phrase)
        doer = origins.doer()
        self.late(f"{doer}, started by {self.label} while the namespace was rebuilt, {phrase}")
        return self._refusal_of(doer, phrase)

    def _refusal_of(self, doer: str, phrase: str) -> Exception:
        if self._refusal is not replaying:
            return self._refusal(phrase)
        return ReplayEffect(
            f"{doer} {phrase}: {self.label} started it during a rebuild of the namespace, which has "
            "no outside effects. Start it again to allow its effects"
        )

    def _note(self, phrase: str) -> None:
        # Two threads may count two acts as one. The number is only for a report; a lock could hang a signal handler.
        self._count += 1
        if len(self._phrases) < KEPT_STOPS and phrase not in self._phrases:
            self._phrases.append(phrase)

    def take(self) -> tuple[str, ...]:
        """A phrase for each prevented act since the last call; at most KEPT_STOPS, then a number."""
        phrases, count, self._phrases, self._count = self._phrases, self._count, [], 0
        left = count - len(phrases)
        return (*phrases, f"was refused {left:,} more outside effects") if left > 0 else tuple(phrases)


def _no_alarms() -> tuple[str, ...]:
    return ()


class OutsideGuard:
    """The guard of one environment.

    Args:
        own_process: the process runs only statements, so an armed guard covers all its threads, even those that C code
            started.
        turn_off: turns off alarms that would call a statement's function later, and describes them.
        scratch: the directory in which nothing is stopped; empty for none.
    """

    def __init__(
        self, *, own_process: bool = False, turn_off: Callable[[], tuple[str, ...]] = _no_alarms, scratch: str = ""
    ) -> None:
        _HOOK.scratch = os.path.join(os.path.realpath(scratch), "") if scratch else ""
        self.own_process = own_process
        self._turn_off = turn_off
        if own_process:
            outside.install_places(_HOOK.audit)
        self._armed: Guarded | None = None
        self._rerun: list[Guarded] = []
        self._late: deque[str] = deque(maxlen=_KEPT_LATE)

    def arm(self, label: str, refusal: Refusal, *, replay: bool) -> None:
        """Guard the work of the statement that the calling thread runs from now on; in a `replay`, until `settle`."""
        _HOOK.install()
        self._armed = Guarded(label, refusal)
        if replay:
            self._rerun.append(self._armed)
        if self.own_process:
            _HOOK.everywhere = self._armed
        origins.begin(self._armed)

    def ended(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """After a statement, while armed: return phrases on its prevented acts, and on what was turned off."""
        if self._armed is None:
            return (), ()
        turned_off = self._turn_off()
        return self._armed.take(), turned_off

    def disarm(self) -> None:
        """Stop guarding the calling thread."""
        if self._armed is not None:
            self._armed = _HOOK.everywhere = None
            origins.begin(None)

    def begin_watch(self, watch: Watch) -> None:
        """Call `watch` for unguarded acts from now on, of all threads in the statements' own process, else of the
        calling thread. A watch prevents nothing."""
        _HOOK.watch()
        _HOOK.watches[_ALL_THREADS if self.own_process else threading.get_ident()] = watch

    def end_watch(self) -> None:
        """End the watch."""
        _HOOK.watches.pop(_ALL_THREADS if self.own_process else threading.get_ident(), None)

    def admit(self, operation: str) -> None:
        """Raise the refusal if the caller is guarded work of a statement that does not run now."""
        origin = origins.present()
        if origin is not None and origin is not self._armed:
            raise origin.refuse(f"was not allowed to call {operation}")

    def settle(self) -> tuple[str, ...]:
        """End a rebuild: disarm, and return sentences on work that continues and on prevented acts.

        Thread timers are cancelled. Garbage is collected first, so that finalizers run while guarded.
        """
        self._collect()
        living = [_left_alive(work) for work in origins.alive() if work.origin in self._rerun]
        late = [f"{origin.label} {phrase}" for origin in self._rerun for phrase in origin.take()]
        for origin in self._rerun:
            origin.late = self._late.append
        if self.own_process and self._rerun:
            strangers = Guarded("a statement", replaying)
            strangers.late = self._late.append
            origins.take_strangers(_native_threads(), strangers)
        self._rerun.clear()
        self.disarm()
        return (*late, *living)

    def _collect(self) -> None:
        """Collect garbage, because its finalizers would otherwise act in the middle of a live statement."""
        if self.own_process and self._rerun:
            left = Guarded("an unreferenced object", replaying)
            self._rerun.append(left)
            origins.begin(left)
            gc.collect()
            origins.begin(self._armed)

    def take_late(self) -> tuple[str, ...]:
        """A sentence on each of the latest prevented acts since the rebuild, or since the last call."""
        taken: list[str] = []
        while self._late:
            taken.append(self._late.popleft())
        return tuple(taken)


def _left_alive(work: origins.Work) -> str:
    """Turn off a timer; return a sentence on the work that is still alive."""
    assert work.origin is not None
    thread = work.thread
    if isinstance(thread, threading.Timer):
        threading.Timer.cancel(thread)
        return f"{work.origin.label} started {work}, which was stopped"
    return f"{work.origin.label} started {work}, which continues without outside effects"


def _native_threads() -> list[int]:
    return [thread for thread in own_threads() if thread != threading.get_native_id()]


class _Hook:
    """The process's audit hook. `everywhere` is the origin of threads that have no other."""

    def __init__(self) -> None:
        self._is_added = False
        self._installed = False
        self._databases = outside.Databases(self.audit)
        self.everywhere: Guarded | None = None
        self.scratch = ""
        self.watches: dict[int, Watch] = {}
        """Watches by the identifier of the watched thread."""

    def watch(self) -> None:
        if not self._is_added:
            self._is_added = True
            sys.addaudithook(_notice)

    def install(self) -> None:
        self.watch()
        if not self._installed:
            self._installed = True
            origins.install()
            outside.install(self.audit)
        self._databases.look()

    def audit(self, name: str, args: tuple[Any, ...]) -> None:
        if name == IMPORT:
            self._import(*args)
            return
        origin = origins.present() or self.everywhere
        if origin is None:
            if self.watches:
                self._tell(name, args)
            return
        if name not in STOPPED or not _touches(name, args):
            return
        if name == STAGED and origin.may_stage:
            return
        if self.scratch and is_in(self.scratch, name, args):
            return
        if is_bytecode(name, args):
            # An OSError lets an import continue without saving its bytecode.
            raise PermissionError(f"a statement without outside effects saves no bytecode: {name}")
        raise origin.refuse(f"was not allowed to call {described(name, args)}")

    def _import(self, name: str, file: str | None, *_: object) -> None:
        # With a file, loading has begun already, and would not finish with the modules that are loaded here.
        if file is not None:
            self._tell(IMPORT, (name, file))
        elif self._installed:
            self._databases.importing(name)

    def _tell(self, name: str, args: tuple[Any, ...]) -> None:
        watch = self.watches.get(_ALL_THREADS) or self.watches.get(threading.get_ident())
        if watch is None:
            return
        try:
            if (name not in STOPPED or STOPPED[name](args)) and not is_bytecode(name, args):
                watch(name, args)
        except Exception as error:
            # An exception of the statement's signal handler belongs to the statement.
            if not _is_ours(error):
                raise


_HOOK: Final = _Hook()


def _is_ours(error: Exception) -> bool:
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) and file not in _ON_THE_WAY:
            return False
        step = step.tb_next
    return True


def _touches(name: str, args: tuple[Any, ...]) -> bool:
    return STOPPED[name](args) or (name == "sqlite3.connect" and outside.is_unwatched_connection())


def _notice(name: str, args: tuple[Any, ...]) -> None:
    # A separate fast path, because some events are frequent: `id()` raises one. A function, because the interpreter
    # reads an attribute of the hook at each event, which takes four times as long for a method.
    if name in _LISTED:
        _HOOK.audit(name, args)
