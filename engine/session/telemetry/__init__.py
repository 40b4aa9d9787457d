"""Reports what sessions do to an OpenTelemetry collector, if the environment names one.

A reader of what sessions publish, like the page or an editor: nothing else in the engine knows of it. OpenTelemetry is
imported on a thread, by the first session of a process whose environment has an endpoint; `otlp` has what needs it.
Called by `host`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup

from ...core.clock import Clock
from ...log.redaction import Redactor
from ..daemon_threads import on_daemon_thread

if TYPE_CHECKING:  # imported with the first session, as above
    from ..journal import Subscription
    from ..session import Session
    from .otlp import Reporter

ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT" for kind in ("", "TRACES_", "METRICS_"))
"""The variables of the environment, one of which must be set."""
NO_LIBRARY: Final = "%s is set, but nothing is reported: install rewindow[telemetry]"
_CLOSING_SECONDS: Final = 3.0
"""How long a process that ends waits for the collector."""
_log = logging.getLogger(__name__)


def endpoint_variable(environ: Mapping[str, str]) -> str:
    """Return the name of the variable that has an endpoint; "" if nothing is to be reported."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    return next((name for name in ENDPOINTS if environ.get(name)), "")


class Telemetry:
    """The reports of one process.

    Args:
        variable: the variable that names the endpoint.
        environ: the process's environment.
    """

    def __init__(self, variable: str, environ: Mapping[str, str], clock: Clock, redactor: Redactor) -> None:
        self._variable = variable
        self._environ = environ
        self._clock = clock
        self._redactor = redactor
        self._loading = anyio.Lock()
        self._is_loaded = False
        self._reporter: Reporter | None = None
        self._following = 0
        self._ended = anyio.Event()

    def follow(self, session: Session, tasks: TaskGroup) -> None:
        """Report what the session does from now on, until it is closed, in `tasks`."""
        self._following += 1
        tasks.start_soon(self._follow, session, session.subscribe())

    async def close(self) -> None:
        """Report the rest. A collector that does not answer delays this by a few seconds."""
        with anyio.move_on_after(_CLOSING_SECONDS):
            if self._following:
                self._ended = anyio.Event()
                await self._ended.wait()
            if self._reporter is not None:
                await on_daemon_thread(self._reporter.close)

    async def _follow(self, session: Session, subscription: Subscription) -> None:
        try:
            async with self._loading:
                if not self._is_loaded:
                    await on_daemon_thread(self._load)
                    self._is_loaded = True
            if self._reporter is None:
                session.unsubscribe(subscription)
                return
            report = self._reporter.session(session.session_id)
            async for batch in subscription.batches(0):
                report.take(batch, self._clock.now())
            report.close(is_taken_over=session.is_taken_over)
        finally:
            self._following -= 1
            if not self._following:
                self._ended.set()

    def _load(self) -> None:
        try:
            from .otlp import Reporter  # on this thread, as above
        except ImportError:
            _log.warning(NO_LIBRARY, self._variable)
            return
        self._reporter = Reporter(self._environ, self._redactor)
