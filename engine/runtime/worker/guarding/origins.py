"""Whose work a thread is doing: the statement that started it, however long ago, or the one that handed it over since.

A statement that is guarded may start threads, timers, executors and loops that act when it has long ended. So not a
moment is guarded but an *origin*: everything that a statement starts has the statement's origin, and so has what that
starts in turn. A live statement's origin is None, and its work is free. Why no work gets a wrong origin:

1. The origin is a context variable. Within a thread it follows whoever calls, and `asyncio` keeps a copy of it with
   every callback and task: what a live statement hands to a loop is free there, what was waiting in it is not. A task
   that runs in a thread and a context that a statement has copied keep the origin of their making, whoever runs them.
2. A new thread begins with an empty context. Therefore `_thread.start_new_thread` is replaced, and whatever begins a
   thread from Python ends there: the thread begins with the origin of whoever started it.
3. Code that is run in a context of its own, empty, finds no variable. Then the thread's own origin counts, which is
   kept by thread and is the running statement's in the thread that runs statements.
4. Work handed to an executor or a thread pool is run by a thread that somebody else may have started. Therefore what is
   handed over carries the origin of whoever did it, and so does a callback added to its future.
5. A thread that C code has begun has no origin. One that was there when the rebuild ended is a stranger, and guarded as
   the rebuild was: what has begun it, ran again. One that begins later is a live statement's.
6. Work that passes from hand to hand in another manner (a queue that a thread reads, a pool of somebody else's making)
   cannot be told from the thread's own: it has the origin of the thread, and the guard's error names that.

Nothing is replaced before the first guard is armed, so a worker that never rebuilds never pays. Locks are not used,
because a signal handler may come here from within; every step is one operation on a dict or a set. Must not know what
is guarded, nor how. Used by `guard`.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, Protocol


class Origin(Protocol):
    """The guarded statement that work comes from."""

    @property
    def label(self) -> str: ...

    @property
    def may_stage(self) -> bool: ...

    def refuse(self, phrase: str) -> Exception:
        """What the work is to see in place of an act; `phrase` says what it was kept from."""
        ...


_UNSET: Final = object()
_ORIGIN: Final[ContextVar[Any]] = ContextVar("rewindow_origin")
_get_ident: Final = threading.get_ident
_get_native_id: Final = threading.get_native_id


class Work:
    """A thread that a statement has started."""

    __slots__ = ("_function", "origin")

    def __init__(self, origin: Origin | None, function: Callable[..., object]) -> None:
        self.origin = origin
        self._function = function

    @property
    def thread(self) -> threading.Thread | None:
        """None for one that was begun without an object."""
        owner = getattr(self._function, "__self__", None)
        return owner if isinstance(owner, threading.Thread) else None

    def __str__(self) -> str:
        thread = self.thread
        if thread is not None:
            return f"{'timer' if isinstance(thread, threading.Timer) else 'thread'} {thread.name!r}"
        return f"thread of {getattr(self._function, '__qualname__', 'a function')}"


_BY_THREAD: Final[dict[int, Work]] = {}
_ALIVE: Final[set[Work]] = set()
_STRANGERS: Final[dict[int, Origin]] = {}


def begin(origin: Origin | None) -> None:
    """From now on the calling thread works for `origin`."""
    _ORIGIN.set(origin)
    _BY_THREAD[_get_ident()] = Work(origin, begin)


def present() -> Origin | None:
    """Whose work the calling thread is doing; None where it is free."""
    origin = _ORIGIN.get(_UNSET)
    if origin is not _UNSET:
        return origin
    work = _BY_THREAD.get(_get_ident())
    if work is not None:
        return work.origin
    return _STRANGERS.get(_get_native_id()) if _STRANGERS else None


def doer() -> str:
    """What the calling thread is, for whoever has to make it anew."""
    task = _current_task()
    work = _BY_THREAD.get(_get_ident())
    thread = None if work is None or work not in _ALIVE else str(work)
    return " in ".join(each for each in (task, thread) if each) or "this code"


def _current_task() -> str | None:
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else f"task {asyncio.current_task().get_name()!r}"
    except (RuntimeError, AttributeError):
        return None


def alive() -> Iterable[Work]:
    """The threads that are running, whoever started them, since the first guard was armed."""
    return tuple(_ALIVE)


def take_strangers(threads: Iterable[int], origin: Origin) -> None:
    """These threads, by their native identifiers, do the work of `origin` unless they are known to do another's."""
    _STRANGERS.update(dict.fromkeys(threads, origin))


# --- what hands work over --------------------------------------------------------------------------------------------


def _begun(work: Work, function: Callable[..., object]) -> Callable[..., None]:
    """The beginning of a thread that does that work."""

    def run(*args: object, **kwargs: object) -> None:
        thread = _get_ident()
        _BY_THREAD[thread] = work
        _ORIGIN.set(work.origin)
        try:
            function(*args, **kwargs)
        finally:
            _ALIVE.discard(work)
            _BY_THREAD.pop(thread, None)

    return run


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    """`start`, of a thread, so that it works for the caller's origin."""

    @wraps(start)
    def begin_thread(function: Callable[..., object], /, *args: object, **kwargs: object) -> Any:
        # A pool starts its threads before it is given work.
        _carry_in_pools()
        if not callable(function):
            return start(function, *args, **kwargs)
        work = Work(present(), function)
        # Ahead of the start, so that nobody finds it missing who looks before it runs.
        _ALIVE.add(work)
        try:
            return start(_begun(work, function), *args, **kwargs)
        except BaseException:
            _ALIVE.discard(work)
            raise

    return begin_thread


def _carried(function: Any) -> Any:
    """`function`, which acts for the origin of whoever hands it over, in whichever thread it is called."""
    if not callable(function):
        return function
    origin = present()

    @wraps(function, updated=())
    def call(*args: object, **kwargs: object) -> object:
        token = _ORIGIN.set(origin)
        try:
            return function(*args, **kwargs)
        finally:
            _ORIGIN.reset(token)

    return call


def _handing(take: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """`take`, a method whose first argument somebody else will call later on, as are those of these `names`."""

    @wraps(take)
    def hand(self: object, *args: object, **kwargs: object) -> Any:
        positional = (_carried(args[0]), *args[1:]) if args else args
        return take(self, *positional, **{k: _carried(v) if k in names else v for k, v in kwargs.items()})

    return hand


_POOL_METHODS: Final = ("apply_async", "imap", "imap_unordered", "_map_async")
"""What all that a thread pool is given goes through."""
_replaced: Final[set[str]] = set()


def install() -> None:
    """Has work carry its origin from now on; may be repeated."""
    if "threads" in _replaced:
        return
    _replaced.add("threads")
    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            for given in (name, f"_{name}"):
                start = getattr(module, given, None)
                if start is not None:
                    setattr(module, given, _starting(start))
    _replace(ThreadPoolExecutor, "submit", ())
    _replace(Future, "add_done_callback", ("fn",))
    _carry_in_pools()


def _carry_in_pools() -> None:
    """The same for `multiprocessing.pool.ThreadPool`, as soon as somebody has loaded it."""
    pool = sys.modules.get("multiprocessing.pool")
    if "pools" not in _replaced and hasattr(pool, "ThreadPool"):
        _replaced.add("pools")
        for name in _POOL_METHODS:
            _replace(pool.ThreadPool, name, ("func", "callback", "error_callback"))  # pyright: ignore[reportOptionalMemberAccess] -- None has no ThreadPool


def _replace(kind: type, method: str, names: tuple[str, ...]) -> None:
    setattr(kind, method, _handing(getattr(kind, method), names))
