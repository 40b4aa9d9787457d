"""What an OpenTelemetry collector receives of a session: times and words of ours, and no text of the user."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from engine.core.errors import LeaseLostError
from engine.core.ids import Seq
from engine.log.store.memory import MemoryStore
from engine.session import telemetry
from engine.session.telemetry import ENDPOINTS, endpoint_variable
from tests.support.fixed import FixedClock
from tests.support.models import AnsweringModel, runs
from tests.support.sessions import LentStore, session_in
from tests.support.stores import ROOT
from tests.support.workers import PATIENCE

pytestmark = pytest.mark.anyio
SECRET = "hunter2-and-more"
PATHS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Collector(ThreadingHTTPServer):
    """A receiver of OTLP over HTTP on loopback."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[Any]:
        found = [span for each in self._messages("/v1/traces") for span in _leaves(each.resource_spans, "scope_spans")]
        return [span for scope in found for span in scope.spans]

    @property
    def metrics(self) -> dict[str, Any]:
        scopes = [
            scope for each in self._messages("/v1/metrics") for scope in _leaves(each.resource_metrics, "scope_metrics")
        ]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def _messages(self, wanted: str) -> list[Any]:
        return [PATHS[path].FromString(body) for path, body in self.bodies if path == wanted]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.bodies.append((self.path, body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing goes to the terminal."""


def _leaves(resources: Any, name: str) -> list[Any]:
    return [leaf for resource in resources for leaf in getattr(resource, name)]


def attributes(of: Any) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.endpoint)
        yield made
        made.shutdown()
        thread.join()


async def test_turns_statements_and_model_calls_are_reported(tmp_path: Path, collector: Collector) -> None:
    model = AnsweringModel(runs(f"x = {SECRET!r}", "1 / 0"))
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTHER_TOKEN": SECRET}
    async with session_in(tmp_path, model=model, **variables) as session:
        session.set_mode("auto")
        await session.accept(f"a prompt about {SECRET}").end()
        await session.accept("/timeline").end()
        name = session.session_id
    named: dict[str, list[Any]] = {}
    for span in collector.spans:
        named.setdefault(span.name, []).append(span)
    prompt, command = named["turn"]
    assert attributes(prompt) == {
        "rewindow.session.id": name,
        "rewindow.turn.kind": "prompt",
        "rewindow.turn.cause": "end_turn",
    }
    assert attributes(command)["rewindow.turn.kind"] == "command"
    assert [attributes(span)["rewindow.statement.status"] for span in named["statement"]] == ["ok", "error"]
    assert len(named["model_call"]) == 3
    for child in (*named["statement"], *named["model_call"]):
        assert (child.trace_id, child.parent_span_id) == (prompt.trace_id, prompt.span_id)
        assert prompt.start_time_unix_nano <= child.start_time_unix_nano <= child.end_time_unix_nano
        assert child.end_time_unix_nano <= prompt.end_time_unix_nano
    assert {"rewindow.turn.duration", "rewindow.statement.duration", "rewindow.commit.delay"} <= set(collector.metrics)
    statements = collector.metrics["rewindow.statement.duration"].histogram.data_points
    assert sum(point.count for point in statements) == 2
    (sessions,) = collector.metrics["rewindow.sessions.open"].sum.data_points
    assert sessions.as_int == 0
    everything = b"".join(body for _, body in collector.bodies)
    for text in (SECRET, "prompt about", "1 / 0", "ZeroDivision", "x ="):
        assert text.encode() not in everything
    resource = collector._messages("/v1/traces")[0].resource_spans[0].resource
    assert attributes(resource)["service.name"] == "rewindow"


async def test_a_rebuild_and_a_lost_lease_are_reported(tmp_path: Path, collector: Collector) -> None:
    store, variables = TakenStore(), {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    async with session_in(tmp_path, store, **variables) as session:
        await session.cell("x = 6")
        name = session.session_id
    async with session_in(tmp_path, store, load=name, **variables) as session:
        await session.cell("x + 1")
        store.lose(name)
        with anyio.fail_after(PATIENCE):
            assert await session._parts.journal.taken_over()  # pyright: ignore[reportPrivateUsage]
    (rebuild,) = [span for span in collector.spans if span.name == "rebuild"]
    assert attributes(rebuild)["rewindow.rebuild.statements"] == 1
    (lost,) = collector.metrics["rewindow.leases.lost"].sum.data_points
    assert lost.as_int == 1


class TakenStore(LentStore):
    """A store whose sessions another host takes over."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(FixedClock()))
        self._listeners: dict[str, Any] = {}

    def acquire(self, session_id: Any, committed: Any) -> None:
        self._listeners[session_id] = committed
        self._store.acquire(session_id, committed)

    def lose(self, session_id: str) -> None:
        self._listeners[session_id](Seq(-1), LeaseLostError(("elsewhere", 7), 10.0))


async def test_a_collector_that_does_not_answer_delays_the_end_by_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(telemetry, "_CLOSING_SECONDS", 0.2)
    async with session_in(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1") as session:
        await session.cell("x = 6")
        started = time.monotonic()
    assert time.monotonic() - started < PATIENCE / 2


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_endpoint_in_the_environment_switches_reports_on(name: str) -> None:
    assert endpoint_variable({name: "http://collector:4318"}) == name
    assert endpoint_variable({name: "http://collector:4318", "OTEL_SDK_DISABLED": "TRUE"}) == ""
    assert endpoint_variable({name: ""}) == ""


def test_nothing_is_imported_without_an_endpoint(tmp_path: Path) -> None:
    source = (
        "import sys, engine.session.registry\n"
        "from pathlib import Path\n"
        "from engine import Host, Settings\n"
        "Host(Settings(state_dir=Path(sys.argv[1])), {}, environments=object)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    command = [sys.executable, "-c", source, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "[]\n", done.stderr
