"""Why a name has no copy, or its copy could not be loaded: one phrase each, which follows the name and a colon.

Owns the wording. Pure. Used by all of this package.
"""

from __future__ import annotations

import re
from typing import Final

from ....core.text import cut_line, valid_text
from .sinks import OutOfTimeError, TooLargeError

_CHARS: Final = 200
_REFUSED: Final = re.compile(r"^cannot pickle '?([\w.]+)'?")
_WORDS: Final = {
    "_thread.lock": "a lock",
    "_thread.RLock": "a lock",
    "_thread._ThreadHandle": "a lock",  # of a thread, from Python 3.13 on
    "_io.TextIOWrapper": "an open file",
    "_io.BufferedReader": "an open file",
    "_io.BufferedWriter": "an open file",
    "_io.BufferedRandom": "an open file",
    "_io.FileIO": "an open file",
    "TextIOWrapper": "an open file",
    "BufferedReader": "an open file",
    "BufferedWriter": "an open file",
    "BufferedRandom": "an open file",
    "FileIO": "an open file",
    "socket": "a socket",
    "generator": "a generator",
    "async_generator": "a generator",
    "coroutine": "a coroutine",
    "mmap.mmap": "a memory map",
    "module": "a module that cannot be imported",
    "weakref.ReferenceType": "a weak reference",
    "sqlite3.Connection": "a database connection",
}
TOO_MANY: Final = "more was copied at the same time than fits"
ENDED: Final = "copying it ended the process that did it"
CHANGED: Final = "copying it changed the namespace"
NO_PROCESS: Final = "copying it takes a process of its own, and none could be started"
INTERRUPTED: Final = "copying it was interrupted, because it took too long"


class NotKeptError(Exception):
    """Raised out of the pickler for what must not be copied; the message is the reason."""


class NotThereError(Exception):
    """Raised out of the loader for what the namespace lacks; the message is the reason."""


def why_not_kept(error: BaseException) -> str:
    """The phrase on an exception out of the pickler."""
    match error:
        case NotKeptError():
            return str(error)
        case TooLargeError(limit=limit):
            return f"larger than {_amount(limit)}"
        case OutOfTimeError(seconds=seconds):
            return took_longer(seconds)
        case KeyboardInterrupt():
            return INTERRUPTED
        case RecursionError() | BaseException(__cause__=RecursionError()):
            return "nested too deeply"
        case _:
            found = _REFUSED.match(_message(error))
            if found is not None:
                return f"it holds {_WORDS.get(found[1]) or f'a {found[1]}'}, which cannot be copied"
            return _told("copying it raised", error)


def why_not_loaded(error: BaseException) -> str:
    """The phrase on an exception out of the loader."""
    match error:
        case NotThereError():
            return str(error)
        case ModuleNotFoundError(name=str() as name):
            return f"it needs the module {name}, which is not there"
        case KeyboardInterrupt():
            return "loading it was interrupted, because it took too long"
        case _:
            return _told("loading it raised", error)


def took_longer(seconds: float) -> str:
    return f"copying it took longer than {seconds:g} s"


def kept_from(phrase: str) -> str:
    """The reason of a copy that was kept from an act: `phrase` is the guard's."""
    return f"copying it {phrase}"


def _told(what: str, error: BaseException) -> str:
    message = _message(error)
    return cut_line(f"{what} {type(error).__name__}{f': {message}' if message else ''}", _CHARS)


def _message(error: BaseException) -> str:
    # It is an object of the user's: its `__str__` may do what it likes.
    try:
        return " ".join(valid_text(str(error)).split())
    except BaseException as failure:
        return f"<its message raised {type(failure).__name__}>"


def _amount(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
