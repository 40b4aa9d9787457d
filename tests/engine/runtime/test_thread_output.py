"""The pipe between a statement's thread and the host's: bounded, in order, and closed for who is left behind."""

from __future__ import annotations

import threading

from engine.runtime.in_process import STDERR, STDOUT, OutputPipe

PIECE = b"x" * 40_000
PATIENCE = 30.0


def writing(pipe: OutputPipe) -> threading.Thread:
    """Writes ten pieces, which is more than the pipe takes."""

    def write() -> None:
        for _ in range(10):
            pipe.write(STDOUT, PIECE)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def test_what_is_written_is_taken_once_in_order_with_its_stream_and_one_wake() -> None:
    woken: list[bool] = []
    pipe = OutputPipe(lambda: woken.append(True))
    pipe.write(STDOUT, b"a")
    pipe.write(STDERR, b"b")
    assert pipe.take() == [(STDOUT, b"a"), (STDERR, b"b")]
    assert pipe.take() == []
    assert woken == [True]
    pipe.write(STDOUT, b"c")
    assert woken == [True, True]


def test_a_writer_waits_until_the_host_has_taken_what_is_on_its_way() -> None:
    pipe = OutputPipe(lambda: None)
    writer = writing(pipe)
    taken = 0
    while taken < 10 * len(PIECE):
        pieces = pipe.take()
        assert sum(len(data) for _, data in pieces) <= 2 * len(PIECE)
        taken += sum(len(data) for _, data in pieces)
        writer.join(0.001)
    writer.join(PATIENCE)
    assert not writer.is_alive()


def test_a_closed_pipe_lets_a_waiting_writer_go_and_keeps_nothing_of_later_ones() -> None:
    pipe = OutputPipe(lambda: None)
    writer = writing(pipe)
    pipe.close()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    pipe.take()
    pipe.write(STDOUT, b"late")
    assert pipe.take() == []
