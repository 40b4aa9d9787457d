"""A real language model: any provider that pydantic-ai reaches, behind the extra `providers`.

Owns retries before anything was streamed. Its library takes seconds to import: `library` says how that is done ahead
of the first reply, and what a reply does that comes sooner. Must not know wire formats. Chosen as
`provider:<provider>:<model>`.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from ...core.errors import InvalidRequestError
from ...core.installation import extra_command
from ..model_protocol import CallRetried, ModelError, ModelSignal, ModelUnusableError, Prompt
from . import library
from .provider_failure import ProviderFailure
from .routes import Route, route_to

if TYPE_CHECKING:
    from .provider_stream import ProviderClient

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
    return [*library.steps(route.provider.modules), partial(_rehearse, route)]


def _rehearse(route: Route) -> None:
    # Because making a client loads some more, and because it is told by the first reply if none can be made.
    with suppress(Exception):
        _connect(route)


def _connect(route: Route) -> ProviderClient:
    try:
        with library.loading():
            from .provider_stream import ProviderClient

            return ProviderClient(route)
    except ImportError as error:
        raise ModelUnusableError(f"{route.name} needs a package: {error}; {extra_command(EXTRA)}") from None
