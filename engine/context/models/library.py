"""Loading a provider's library: some 800 modules, or 3,500 of Anthropic's, that take one to three seconds of processor.

A reply cannot begin without them, and an event loop stalls for whatever holds the interpreter's lock meanwhile. So they
are loaded ahead of need on a thread, in steps between which whoever asked may wait until nothing else goes on. A
reply that comes before waits for the step that is under way and loads what is missing itself. While a step is under way

- no other thread loads any of it, because the import system resolves a deadlock between two threads by giving one of
  them a module that is half there;
- garbage is not collected, because each pass would look at all that was loaded so far (up to 60 ms) and free nothing;
- threads that wait for the interpreter's lock get it ten times sooner than they usually would.

What is left is what C code does without giving the lock away, such as reading a large module's bytecode: 5 to 15 ms.
Must not know what a model is. Called by `provider`, on threads.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Final

_CLIENT: Final = f"{__package__}.provider_stream"
_BEFORE: Final = ("httpx2", "griffe", "genai_prices", "pydantic_graph")
_AFTER: Final = ("pydantic_ai", _CLIENT)
"""What every provider needs, before and after what is its own, in an order that makes no step half of it all.

Only the sizes of the steps depend on these names: a version of the library that has others loads as much in the end."""
_LOADING: Final = threading.Lock()
_SWITCH_SECONDS: Final = 0.0005


def steps(own: Sequence[str]) -> list[Callable[[], None]]:
    """What loads the library when called one after the other; `own` are the modules of a provider.

    None raises: what is wrong is told by the reply that needs it.
    """
    return [partial(_load, name) for name in (*_BEFORE, *own[:1], *_AFTER, *own[1:])]


@contextmanager
def loading() -> Generator[None]:
    """Nobody else loads anything of the library meanwhile, and nothing stands in the way of whoever does."""
    with _LOADING:
        there, interval, collects = len(sys.modules), sys.getswitchinterval(), gc.isenabled()
        gc.disable()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            yield
        finally:
            sys.setswitchinterval(interval)
            if len(sys.modules) > there:
                gc.freeze()  # because modules live on, and every later collection would look at them
            if collects:
                gc.enable()


def _load(name: str) -> None:
    with loading(), suppress(Exception):
        import_module(name)
