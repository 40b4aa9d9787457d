"""Spans and metrics of sessions, from their events, exported as OTLP over HTTP.

Attributes are numbers, words of our own, ids, and names of models: never text of prompts, statements or files. The
providers are our own, not OpenTelemetry's global ones, so that no library of a model provider finds them and reports
prompts. The SDK reads its settings from the environment, and exports on threads of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, StatusCode, set_span_in_context

from ...core.ids import ExecutionId, SessionId
from ...core.installation import __version__
from ...core.text import cut_line
from ...log.events import Event
from ...log.events.conversation import RunStop, UserMessage
from ...log.events.execution import ExecutionFinished, ExecutionStarted
from ...log.events.session import EnvironmentRestored, ModelCallEnded, ProjectionSent
from ...log.redaction import Redactor
from ..journal import Item, StatementRerun

# Its errors are about collectors that do not answer; they would be on the terminal, again and again.
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

Attributes = dict[str, str | int | float | bool]
_NAME_CHARS: Final = 100
_NANOSECONDS: Final = 1_000_000_000


class Reporter:
    """The exporters of one process."""

    def __init__(self, environ: Mapping[str, str], redactor: Redactor) -> None:
        resource = Resource.create({
            "service.name": environ.get("OTEL_SERVICE_NAME") or "rewindow",
            "service.version": __version__,
        })  # fmt: skip
        self._redactor = redactor
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        self._meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self.tracer = self._tracers.get_tracer("rewindow", __version__)
        meter = self._meters.get_meter("rewindow", __version__)
        self.turns = meter.create_histogram("rewindow.turn.duration", "s", "Time of a turn")
        self.statements = meter.create_histogram("rewindow.statement.duration", "s", "Time of a statement")
        self.calls = meter.create_histogram("rewindow.model_call.duration", "s", "Time of a model call")
        self.tokens = meter.create_counter(
            "rewindow.model_call.tokens", "{token}", "Tokens as the provider counts them"
        )
        self.rebuilds = meter.create_histogram("rewindow.rebuild.duration", "s", "Time of a rebuild of variables")
        self.commits = meter.create_histogram("rewindow.commit.delay", "s", "Time from an event to its commit")
        self.sessions = meter.create_up_down_counter("rewindow.sessions.open", "{session}", "Sessions written here")
        self.losses = meter.create_counter("rewindow.leases.lost", "{lease}", "Sessions that another host took over")

    def session(self, session_id: SessionId) -> SessionReport:
        """Begin the reports of an open session."""
        return SessionReport(self, session_id)

    def clean(self, text: str) -> str:
        """Return a name without secrets, in one line."""
        return cut_line(self._redactor.redact(text), _NAME_CHARS)

    def close(self) -> None:
        """Export the rest, and end the threads."""
        self._tracers.shutdown()
        self._meters.shutdown()


class SessionReport:
    """The spans and metrics of one session. Times are those of its events."""

    def __init__(self, reporter: Reporter, session_id: SessionId) -> None:
        self._reporter = reporter
        self._common: Attributes = {"rewindow.session.id": session_id}
        self._turn: tuple[Span, float] | None = None
        self._started: dict[ExecutionId, float] = {}
        self._calls: dict[int, float] = {}
        self._rebuild: float | None = None
        reporter.sessions.add(1)

    def take(self, batch: Sequence[Item], now: float) -> None:
        """Take published items, the last of which was committed just before `now`."""
        events = [item for item in batch if isinstance(item, Event)]
        if events:
            self._reporter.commits.record(max(now - events[-1].at, 0.0))
        for item in batch:
            self._take(item, now)

    def close(self, *, is_taken_over: bool) -> None:
        """End the reports, because the session is closed or another host has it."""
        self._reporter.sessions.add(-1)
        if is_taken_over:
            self._reporter.losses.add(1)
        if self._turn is not None:
            span, _ = self._turn
            span.set_status(StatusCode.ERROR)
            span.end()

    def _take(self, item: Item, now: float) -> None:
        match item:
            case UserMessage(at=at, aside=aside):
                self._begin_turn(at, "command" if aside else "prompt")
            case RunStop(at=at, cause=cause):
                self._end_turn(at, cause)
            case ExecutionStarted(execution_id=execution, at=at):
                self._started[execution] = at
            case ExecutionFinished():
                self._end_statement(item)
            case ProjectionSent(round_id=number, at=at):
                self._calls.setdefault(number, at)
            case ModelCallEnded():
                self._end_call(item)
            case StatementRerun(state="begun") if self._rebuild is None:
                self._rebuild = now
            case EnvironmentRestored():
                self._end_rebuild(item)
            case _:
                pass

    def _begin_turn(self, at: float, kind: str) -> None:
        if self._turn is None:  # else a message that joins the running turn
            attributes = {**self._common, "rewindow.turn.kind": kind}
            span = self._reporter.tracer.start_span("turn", Context(), attributes=attributes, start_time=_ns(at))
            self._turn = span, at

    def _end_turn(self, at: float, cause: str) -> None:
        if self._turn is None:
            return
        (span, begun), self._turn = self._turn, None
        span.set_attribute("rewindow.turn.cause", cause)
        if cause == "error":
            span.set_status(StatusCode.ERROR)
        span.end(_ns(at))
        self._reporter.turns.record(max(at - begun, 0.0), {"rewindow.turn.cause": cause})

    def _end_statement(self, event: ExecutionFinished) -> None:
        start = self._started.pop(event.execution_id, event.started_at)
        attributes: Attributes = {
            "rewindow.statement.status": event.status,
            "rewindow.statement.is_replay": event.mode is not None,
        }
        self._span("statement", start, event.at, attributes, is_error=event.status != "ok")
        self._reporter.statements.record(max(event.at - start, 0.0), attributes)

    def _end_call(self, event: ModelCallEnded) -> None:
        start, model = self._calls.pop(event.round_id, event.at), self._reporter.clean(event.model)
        attributes: Attributes = {"gen_ai.request.model": model}
        tokens = {
            "input": event.input_tokens,
            "cached": event.cached_tokens,
            "output": event.output_tokens,
        }
        counted: Attributes = {
            f"rewindow.model_call.{kind}_tokens": count for kind, count in tokens.items() if count is not None
        }
        self._span("model_call", start, event.at, {**attributes, **counted}, is_error=event.answered is False)
        self._reporter.calls.record(max(event.at - start, 0.0), attributes)
        for kind, count in tokens.items():
            if count:
                self._reporter.tokens.add(count, {**attributes, "rewindow.token.kind": kind})

    def _end_rebuild(self, event: EnvironmentRestored) -> None:
        start, self._rebuild = event.at if self._rebuild is None else self._rebuild, None
        attributes: Attributes = {
            "rewindow.rebuild.statements": event.executions,
            "rewindow.rebuild.differences": len(event.divergences),
        }
        self._span("rebuild", start, event.at, attributes)
        self._reporter.rebuilds.record(max(event.at - start, 0.0))

    def _span(self, name: str, start: float, end: float, attributes: Attributes, *, is_error: bool = False) -> None:
        context = Context() if self._turn is None else set_span_in_context(self._turn[0], Context())
        span = self._reporter.tracer.start_span(
            name, context, attributes={**self._common, **attributes}, start_time=_ns(start)
        )
        if is_error:
            span.set_status(StatusCode.ERROR)
        span.end(_ns(max(start, end)))


def _ns(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)
