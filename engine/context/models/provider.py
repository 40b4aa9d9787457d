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
import os
import random
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from ...core.errors import InvalidRequestError
from ...core.installation import extra_command
from ..model import CallRetried, ModelError, ModelSignal, ModelUnusableError, Prompt
from .providers import ProviderFailure, Route, route_to

if TYPE_CHECKING:
    from .provider_stream import ProviderClient

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


# provider:
# A real language model: any provider that pydantic-ai reaches, behind the extra `providers`.
#
# Owns retries before anything was streamed. Its library takes seconds to import: `library` says how that is done
# ahead of the first reply, and what a reply does that comes sooner. Must not know wire formats. Chosen as
# `provider:<provider>:<model>`.

EXTRA: Final = "providers"
ATTEMPTS: Final = 5
"""How often one call is made at most."""
FIRST_PAUSE: Final = 0.5
"""Seconds before the second attempt; doubled for each later one, and spread by half to either side."""
LONGEST_PAUSE: Final = 60.0
"""Seconds. A provider that asks for more is not waited for."""


class ProviderModel:
    """Streams replies of the model at the end of `route`.

    Args:
        route: the provider and its model.
        pause: waits so many seconds.
        chance: a number in [0, 1) for the spread of pauses.
    """

    summarizes = True

    def __init__(
        self,
        route: Route,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._route = route
        self._pause = pause
        self._chance = chance
        self._client: ProviderClient | None = None

    @classmethod
    def from_spec(cls, spec: str, environ: Mapping[str, str] = os.environ) -> ProviderModel:
        """Raises InvalidRequestError for a spec without provider and model, or where the extra is not installed."""
        route = route_to(spec, environ)
        if find_spec("pydantic_ai") is None:
            raise InvalidRequestError(f"model `provider:{spec}` needs the extra `{EXTRA}`: {extra_command(EXTRA)}")
        return cls(route)

    @property
    def name(self) -> str:
        return self._route.name

    async def reply(self, prompt: Prompt) -> AsyncGenerator[ModelSignal, None]:
        """One reply. Raises ModelError, ContextTooLongError; what was streamed before stays said."""
        attempt = 0
        while True:
            attempt += 1
            streamed = False
            try:
                client = await self._connected()
                async with aclosing(client.stream(prompt)) as signals:
                    async for signal in signals:
                        streamed = True
                        yield signal
                return
            except ProviderFailure as failure:
                wait = self._wait(attempt, failure.after)
                if streamed or not failure.transient or attempt == ATTEMPTS or wait > LONGEST_PAUSE:
                    raise _counted(failure, attempt) from failure.__cause__
                retried = CallRetried(attempt + 1, ATTEMPTS, wait, str(failure.error))
            yield retried
            await self._pause(wait)

    async def aclose(self) -> None:
        """Closes the connections, if there are any."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _wait(self, attempt: int, asked: float | None) -> float:
        backoff = FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + self._chance())
        return backoff if asked is None else max(asked, backoff)

    async def _connected(self) -> ProviderClient:
        if self._client is None:
            self._client = await anyio.to_thread.run_sync(_connect, self._route, abandon_on_cancel=True)
        return self._client


def _counted(failure: ProviderFailure, attempts: int) -> ModelError:
    """The error to raise, with the number of attempts where there was more than one."""
    error = failure.error
    return error if attempts == 1 else type(error)(f"{str(error).rstrip('.')} (tried {attempts} times)")


def loading_steps(spec: str, environ: Mapping[str, str] = os.environ) -> Sequence[Callable[[], None]]:
    """What loads all that the first reply of `spec`'s model needs; see `library.steps`.

    Raises:
        InvalidRequestError: as from `ProviderModel.from_spec`.
    """
    route = route_to(spec, environ)
    return [*steps(route.provider.modules), partial(_rehearse, route)]


def _rehearse(route: Route) -> None:
    # Because making a client loads some more, and because it is told by the first reply if none can be made.
    with suppress(Exception):
        _connect(route)


def _connect(route: Route) -> ProviderClient:
    try:
        with loading():
            from .provider_stream import ProviderClient

            return ProviderClient(route)
    except ImportError as error:
        raise ModelUnusableError(f"{route.name} needs a package: {error}; {extra_command(EXTRA)}") from None
