from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from engine.core.execution import ExceptionInfo
from engine.log.redaction import NO_SECRETS
from engine.runtime.control_channel import MessageReader
from engine.runtime.worker.channel import Channel
from engine.runtime.worker.framing import FrameBuffer, frame
from engine.runtime.worker.guarding.guard import KEPT_STOPS, ReplayEffect
from engine.runtime.worker.interrupts import SignalInterrupts
from engine.runtime.worker.protocol import Answer, Ask
from engine.runtime.worker.statements.effects import Effects, exception_named

Ends = tuple[socket.socket, Effects]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The host's socket, and the asking side at its other end."""
    host, worker = socket.socketpair()
    with host, worker:
        host.settimeout(10)
        yield host, Effects(Channel(worker), SignalInterrupts(), lambda _operation: None)


def test_an_answer_to_a_question_that_was_torn_off_is_passed_over(ends: Ends) -> None:
    host, effects = ends
    effects.open(None)
    host.sendall(frame(Answer(ordinal=7, value="stale")) + frame(Answer(ordinal=0, value="right")))
    assert effects.ask("read", {"path": "x"}) == "right"
    buffer = FrameBuffer()
    buffer.feed(host.recv(1000))
    assert MessageReader(NO_SECRETS).message(buffer.next() or b"") == Ask(
        ordinal=0, operation="read", arguments={"path": "x"}
    )


def test_arguments_are_sanitized_and_what_is_no_plain_data_is_not_sent(ends: Ends) -> None:
    host, effects = ends
    effects.open(None)
    with pytest.raises(TypeError):
        effects.ask("read", {"path": object()})
    host.sendall(frame(Answer(ordinal=0)))
    effects.ask("read", {"path": "\ud800", "n": 1 << 80})
    buffer = FrameBuffer()
    buffer.feed(host.recv(1000))
    asked = MessageReader(NO_SECRETS).message(buffer.next() or b"")
    assert isinstance(asked, Ask)
    assert asked.arguments == {"path": "\ufffd", "n": f"int:{1 << 80}"}


def test_outside_of_a_statement_nothing_is_asked(ends: Ends) -> None:
    _, effects = ends
    with pytest.raises(RuntimeError, match="while a statement runs"):
        effects.ask("read", {})
    effects.open(None)
    effects.close()
    with pytest.raises(RuntimeError, match="while a statement runs"):
        effects.ask("read", {})


def test_a_recording_answers_by_ordinal_and_stops_where_it_ends(ends: Ends) -> None:
    _, effects = ends
    effects.open((Answer(ordinal=0, value=1), Answer(ordinal=1, error=ExceptionInfo(type="OSError", message="m"))))
    assert effects.ask("a", {}) == 1
    with pytest.raises(OSError, match="m"):
        effects.ask("b", {})
    with pytest.raises(ReplayEffect):
        effects.ask("c", {})
    assert effects.stops == ("asked for c, for which there is no recorded answer",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("ValueError", ValueError), ("KeyboardInterrupt", RuntimeError), ("print", RuntimeError), ("", RuntimeError)],
)
def test_only_builtin_exceptions_are_raised_by_name(name: str, kind: type[Exception]) -> None:
    assert type(exception_named(name, "m")) is kind


def test_many_questions_without_an_answer_are_counted(ends: Ends) -> None:
    _, effects = ends
    effects.open(())
    for _ in range(20_000):
        with pytest.raises(ReplayEffect):
            effects.ask("read", {})
    assert len(effects.stops) == KEPT_STOPS + 1
    assert effects.stops[-1] == "asked 19,995 more times without an answer"
