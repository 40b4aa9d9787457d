"""Models of providers: retries, and loading pydantic-ai ahead of the first reply.

Any provider that pydantic-ai knows works, as `provider:<provider>:<model>`, with the extra `providers`. Must not know
wire formats.

The library has some 800 modules, or 3,500 with Anthropic's, which take one to three seconds of processor time. No reply
can begin without them, and whatever holds the interpreter's lock stalls the event loop. So a thread loads them early,
in steps; between steps the caller may wait until the session is idle. An early reply waits for the current step and
loads the rest itself. During a step

- no other thread loads any of them, because the import system resolves a deadlock of two threads by giving one of them
  a half-loaded module;
- garbage collection is off, because each pass would look at all that was loaded (up to 60 ms) and free nothing;
- waiting threads get the interpreter's lock ten times sooner than usual.

What remains is C code that keeps the lock, such as reading a large module's bytecode: 5 to 15 ms.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from copy import copy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from ...core.errors import InvalidRequestError
from ...core.installation import extra_command
from ...core.pictures import PictureRule
from ..model import (
    DELAY_SECONDS,
    PATIENCE,
    CallDelayed,
    CallRetried,
    ModelError,
    ModelSignal,
    ModelUnusableError,
    Patience,
    Prompt,
)
from .providers import ProviderFailure, Route, how_to_set, picture_rule, route_to

if TYPE_CHECKING:
    from .provider_stream import ProviderClient

_CLIENT: Final = f"{__package__}.provider_stream"
_BEFORE: Final = ("httpx2", "griffe", "genai_prices", "pydantic_graph")
_AFTER: Final = ("pydantic_ai", _CLIENT)
"""Modules that every provider needs before and after its own, so that steps have similar sizes.

Only the sizes depend on these names: another version of the library loads the same in total.
"""
_LOADING: Final = threading.Lock()
_SWITCH_SECONDS: Final = 0.0005


def steps(own: Sequence[str]) -> list[Callable[[], None]]:
    """Return functions that load the library.

    `own` are the modules of a provider.

    None of them raises: the reply that needs a module reports the failure.
    """
    return [partial(_load, name) for name in (*_BEFORE, *own[:1], *_AFTER, *own[1:])]


@contextmanager
def loading() -> Generator[None]:
    """Load something of the library, with exclusive access and few interruptions."""
    with _LOADING:
        there, interval, collects = len(sys.modules), sys.getswitchinterval(), gc.isenabled()
        gc.disable()
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            yield
        finally:
            sys.setswitchinterval(interval)
            if len(sys.modules) > there:
                gc.freeze()  # because modules stay, and every later collection would look at them
            if collects:
                gc.enable()


def _load(name: str) -> None:
    with loading(), suppress(Exception):
        import_module(name)


# --- the model -------------------------------------------------------------------------------------------------------


EXTRA: Final = "providers"
ATTEMPTS: Final = 5
"""Largest number of attempts for a call."""
FIRST_PAUSE: Final = 0.5
"""Seconds before the second attempt, doubled for each later one, with a random spread of half."""
_HOURS_FROM: Final = 120
"""Minutes from which a pause is said in hours."""
_DATE_FROM: Final = 43_200.0
"""Seconds from which the end of a pause is said with its date."""
MOST_SLOW: Final = 2
"""Largest number of attempts if each took longer than it may, or broke off."""


class ProviderModel:
    """Streams replies of the model at `route`.

    Args:
        route: the provider and its model.
        patience: how long a call may take.
        environ: with keys; a key that changes there is used from the next reply on.
        pause: waits for some seconds.
        chance: returns a number in [0, 1) for the spread of pauses.
    """

    summarizes = True

    def __init__(
        self,
        route: Route,
        patience: Patience = PATIENCE,
        environ: Mapping[str, str] = os.environ,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._route = route
        self._patience = patience
        self._environ = environ
        self._pause = pause
        self._chance = chance
        self._client: ProviderClient | None = None
        self._key = ""
        """The client's."""
        self._left: list[ProviderClient] = []
        """Clients with earlier keys, whose replies may still stream."""

    @classmethod
    def from_spec(
        cls, spec: str, environ: Mapping[str, str] = os.environ, patience: Patience = PATIENCE
    ) -> ProviderModel:
        """Make the model.

        Raises InvalidRequestError without a provider, a model or the extra.
        """
        route = route_to(spec, environ)
        if find_spec("pydantic_ai") is None:
            raise InvalidRequestError(f"model `provider:{spec}` needs the extra `{EXTRA}`; run: {extra_command(EXTRA)}")
        return cls(route, patience, environ)

    @property
    def name(self) -> str:
        return self._route.name

    @property
    def window(self) -> int | None:
        """The tokens that it can read and write in one call, if the library knows; None before the first call."""
        return None if self._client is None else self._client.window

    @property
    def picture_rule(self) -> PictureRule | None:
        """How its provider counts pictures; None if it takes none."""
        return picture_rule(self._route)

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """Stream a reply.

        A reply that breaks off is begun again, with a CallRetried that withdraws what was streamed. Raises ModelError,
        ContextTooLongError; streamed text remains.
        """
        attempt = slow = 0
        while True:
            attempt += 1
            streamed = False
            try:
                client = await self._soon_connected()
                if client is None:
                    yield CallDelayed(f"loading the library for {self._route.name}")
                    client = await self._connected()
                async with aclosing(client.stream(prompt)) as signals:
                    async for signal in signals:
                        streamed = True
                        yield signal
                return
            except ProviderFailure as failure:
                slow += streamed or failure.slow
                if failure.transient and failure.after is not None and failure.after > self._patience.retry:
                    raise _later(failure.error, failure.after) from failure.__cause__
                if not failure.transient or attempt == ATTEMPTS or slow == MOST_SLOW:
                    raise _counted(failure.error, attempt) from failure.__cause__
                most = min(ATTEMPTS, attempt + MOST_SLOW - slow) if slow else ATTEMPTS
                wait = self._wait(attempt, failure.after)
                retried = CallRetried(attempt + 1, most, wait, str(failure.error), withdrawn=streamed)
            yield retried
            await self._pause(wait)

    async def aclose(self) -> None:
        """Close the connections."""
        clients = [*self._left, *([] if self._client is None else [self._client])]
        self._left, self._client = [], None
        for client in clients:
            await client.aclose()

    def _wait(self, attempt: int, asked: float | None) -> float:
        backoff = min(FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + self._chance()), self._patience.retry)
        return backoff if asked is None else max(asked, backoff)

    async def _soon_connected(self) -> ProviderClient | None:
        """Return None if it takes longer than DELAY_SECONDS. What was begun goes on."""
        with anyio.move_on_after(DELAY_SECONDS):
            return await self._connected()
        return None

    async def _connected(self) -> ProviderClient:
        provider = self._route.provider
        key = provider.key(self._environ)
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise ModelUnusableError(
                f"the key for {self._route.name} has characters that a key cannot have: {how_to_set(provider)}"
            )
        if self._client is not None and key != self._key:
            self._left.append(self._client)
            self._client = None
        if self._client is None:
            self._client = await anyio.to_thread.run_sync(
                _connect, self._route, self._patience, key, abandon_on_cancel=True
            )
            self._key = key
        return self._client


def _counted(error: ModelError, attempts: int) -> ModelError:
    """Return the error to raise, with the number of attempts if there were several."""
    return error if attempts == 1 else _reworded(error, f"{str(error).rstrip('.')} (tried {attempts} times)")


def _later(error: ModelError, wait: float) -> ModelError:
    """Return the error to raise if the provider asks for a longer pause than a session waits."""
    minutes = max(round(wait / 60), 1)
    pause = f"{minutes} min" if minutes < _HOURS_FROM else f"{round(wait / 3600)} h"
    at = time.strftime("%H:%M" if wait < _DATE_FROM else "%d %B %H:%M", time.localtime(time.time() + wait))
    return _reworded(error, f"{str(error).rstrip('.')}. The provider asks for a pause of {pause}: try again after {at}")


def _reworded(error: ModelError, text: str) -> ModelError:
    again = copy(error)  # with what else it says
    again.args = (text,)
    return again


def loading_steps(spec: str, environ: Mapping[str, str] = os.environ) -> Sequence[Callable[[], None]]:
    """Return functions that load all that the first reply needs; see `steps`.

    Raises:
        InvalidRequestError: like `ProviderModel.from_spec`.
    """
    route = route_to(spec, environ)
    return [*steps(route.provider.modules), partial(_rehearse, route)]


def _rehearse(route: Route) -> None:
    # Making a client loads some more modules. The first reply reports a failure.
    with suppress(Exception):
        _connect(route, PATIENCE, "")


def _connect(route: Route, patience: Patience, key: str) -> ProviderClient:
    try:
        with loading():
            from .provider_stream import ProviderClient

            return ProviderClient(route, patience, key)
    except ImportError as error:
        raise ModelUnusableError(f"{route.name} needs a package: {error}; run: {extra_command(EXTRA)}") from None
