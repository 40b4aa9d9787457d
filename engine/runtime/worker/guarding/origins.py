"""The origin of work: the guarded statement that started a thread, or handed the work over.

A guarded statement may start threads, timers, executors and loops that act long after it ended. So the guard covers an
*origin*, not a period: everything that a statement starts, directly or not, has the statement's origin. A live
statement has the origin None, and its work is free. No work gets a wrong origin, because:

1. The origin is a context variable. In a thread it follows the caller, and `asyncio` saves a copy with every callback
   and task: work that a live statement gives to a loop is free, while work that already waited in it keeps its origin.
   A task in a thread, and a copied context, keep the origin of their creation, whoever runs them.
2. A new thread starts with an empty context. So `_thread.start_new_thread`, which every thread of Python code uses, is
   replaced: the thread starts with the origin of its starter.
3. Code in a new empty context finds no variable. Then the thread's own origin applies, which is stored by thread. In
   the thread that runs statements, it is that of the running statement.
4. An executor or thread pool runs work in threads that others may have started. So submitted work carries the origin of
   its submitter, and so does a callback added to a future.
5. A thread started by C code has no origin. If it exists when a rebuild ends, it is guarded like the rebuild, because
   something in the rebuild started it. If it starts later, it belongs to a live statement.
6. Work passed in any other way (a queue that a thread reads, another kind of pool) cannot be told from the thread's own
   work: it has the thread's origin, and the guard's error names the thread.

Nothing is replaced before the first guard is armed, so a worker that never rebuilds does not pay. There are no locks,
because signal handlers may run this code at any point; every step is one operation on a dict or a set. Must not know
what is guarded, or how. Used by `guard`.
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
        """The exception that the work gets instead of an act; `phrase` describes the act."""
        ...


_UNSET: Final = object()
_ORIGIN: Final[ContextVar[Any]] = ContextVar("rewindow_origin")
_get_ident: Final = threading.get_ident
_get_native_id: Final = threading.get_native_id


class Work:
    """A thread that a statement started."""

    __slots__ = ("_function", "origin")

    def __init__(self, origin: Origin | None, function: Callable[..., object]) -> None:
        self.origin = origin
        self._function = function

    @property
    def thread(self) -> threading.Thread | None:
        """The thread's object; None if it has none."""
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
    """Set the origin of the calling thread's work from now on."""
    _ORIGIN.set(origin)
    _BY_THREAD[_get_ident()] = Work(origin, begin)


def present() -> Origin | None:
    """The origin of the calling thread's work; None if it is free."""
    origin = _ORIGIN.get(_UNSET)
    if origin is not _UNSET:
        return origin
    work = _BY_THREAD.get(_get_ident())
    if work is not None:
        return work.origin
    return _STRANGERS.get(_get_native_id()) if _STRANGERS else None


def doer() -> str:
    """A description of the calling thread or task, for an error."""
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
    """The running threads that were started since the first guard was armed."""
    return tuple(_ALIVE)


def take_strangers(threads: Iterable[int], origin: Origin) -> None:
    """Give `origin` to these threads, by native identifiers, unless they have an origin."""
    _STRANGERS.update(dict.fromkeys(threads, origin))


# --- functions that pass work to other threads ------------------------------------------------------------------------


def _begun(work: Work, function: Callable[..., object]) -> Callable[..., None]:
    """The first function of a thread with that work."""

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
    """Wrap a thread's `start`, so that the thread has the caller's origin."""

    @wraps(start)
    def begin_thread(function: Callable[..., object], /, *args: object, **kwargs: object) -> Any:
        # Because a pool starts its threads before it has work.
        _carry_in_pools()
        if not callable(function):
            return start(function, *args, **kwargs)
        work = Work(present(), function)
        # Before the start, so that it is never missing while it runs.
        _ALIVE.add(work)
        try:
            return start(_begun(work, function), *args, **kwargs)
        except BaseException:
            _ALIVE.discard(work)
            raise

    return begin_thread


def _carried(function: Any) -> Any:
    """Wrap a function that the calling thread passes on, so that it keeps this thread's origin in any other."""
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
    """Wrap a method whose first argument, and keyword arguments of these `names`, are called later by other code."""

    @wraps(take)
    def hand(self: object, *args: object, **kwargs: object) -> Any:
        positional = (_carried(args[0]), *args[1:]) if args else args
        return take(self, *positional, **{k: _carried(v) if k in names else v for k, v in kwargs.items()})

    return hand


_POOL_METHODS: Final = ("apply_async", "imap", "imap_unordered", "_map_async")
"""The methods through which a thread pool gets all its work."""
_replaced: Final[set[str]] = set()


def install() -> None:
    """Make work carry its origin from now on. Idempotent."""
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
    """The same for `multiprocessing.pool.ThreadPool`, once it is loaded."""
    pool = sys.modules.get("multiprocessing.pool")
    if "pools" not in _replaced and hasattr(pool, "ThreadPool"):
        _replaced.add("pools")
        for name in _POOL_METHODS:
            _replace(pool.ThreadPool, name, ("func", "callback", "error_callback"))  # pyright: ignore[reportOptionalMemberAccess] -- None has no ThreadPool


def _replace(kind: type, method: str, names: tuple[str, ...]) -> None:
    setattr(kind, method, _handing(getattr(kind, method), names))
