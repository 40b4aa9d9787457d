from __future__ import annotations

import os
import signal
import socket
import sys
import threading

import pytest

from engine.log.redaction import NO_SECRETS
from engine.runtime.control_channel import MessageReader
from engine.runtime.worker.channel import Channel
from engine.runtime.worker.framing import FrameBuffer, frame
from engine.runtime.worker.protocol import Answer, Ask, Noted, Started, Touching

PATIENCE = 10.0


def test_waiting_returns_at_once_where_a_message_has_come_with_the_one_before() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        channel = Channel(worker)
        host.sendall(frame(Answer(ordinal=0)) + frame(Answer(ordinal=1)))
        assert channel.receive() == Answer(ordinal=0)
        waiting = threading.Thread(target=channel.wait, daemon=True)
        waiting.start()
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        assert channel.receive() == Answer(ordinal=1)


def test_message_that_another_thread_has_read_ends_the_wait() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        channel = Channel(worker)
        waiting = threading.Thread(target=channel.wait, daemon=True)
        reading = threading.Thread(target=lambda: channel.inbox.is_noted(1, PATIENCE), daemon=True)
        for thread in (waiting, reading):
            thread.start()
        host.sendall(frame(Answer(ordinal=0)) + frame(Noted(1)))
        reading.join(PATIENCE)
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        assert not reading.is_alive()
        assert channel.receive() == Answer(ordinal=0)


@pytest.mark.parametrize(("end", "code"), [("close", 0), ("lose", 71)])
def test_a_process_without_its_host_or_its_socket_ends(end: str, code: int) -> None:
    host, worker = socket.socketpair()
    pid = os.posix_spawn(*_child(worker.fileno(), end))
    worker.close()
    host.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code


def _child(descriptor: int, end: str) -> tuple[str, list[str], dict[str, str]]:
    os.set_inheritable(descriptor, True)
    script = (
        "import os, socket, sys\nfrom engine.runtime.worker.channel import Channel\n"
        f"channel = Channel(socket.socket(fileno={descriptor}))\n"
        f"if {end!r} == 'lose': os.close({descriptor})\n"
        "channel.receive()\n"
    )
    return sys.executable, [sys.executable, "-c", script], {"PYTHONPATH": os.getcwd()}


def test_a_frame_is_sent_whole() -> None:
    host, worker = socket.socketpair()
    with host, worker:
        Channel(worker).send(Started())
        assert host.recv(100) == frame(Started())


def test_frames_of_threads_and_of_handlers_do_not_mix() -> None:
    host, worker = socket.socketpair()
    channel = Channel(worker)
    large = Ask(ordinal=0, operation="write", arguments={"text": "x" * (4 << 20)})
    small = Touching(number=1, path=b"a")
    handled: list[int] = []

    def handle(*_: object) -> None:
        handled.append(1)
        channel.send(small)

    received: list[object] = []

    def receive() -> None:
        buffer = FrameBuffer()
        while data := host.recv(1 << 16):
            buffer.feed(data)
            while body := buffer.next():
                received.append(MessageReader(NO_SECRETS).message(body))

    previous = signal.signal(signal.SIGALRM, handle)
    threads = [threading.Thread(target=lambda: [channel.send(small) for _ in range(200)]) for _ in range(3)]
    reader = threading.Thread(target=receive)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for thread in (reader, *threads):
            thread.start()
        for _ in range(20):
            channel.send(large)
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        channel.send(small)
        worker.close()
        reader.join(PATIENCE)
        host.close()
    assert received.count(large) == 20
    assert received.count(small) == 601 + len(handled)
    assert handled


def fill(channel: Channel) -> None:
    """Sends until there is no room in the socket, and waits there."""
    while True:
        channel.send(Started())


def test_what_a_signal_handler_raises_while_a_frame_is_sent_is_the_statements() -> None:
    host, worker = socket.socketpair()

    def handle(*_: object) -> None:
        raise TimeoutError("too slow")

    previous = signal.signal(signal.SIGALRM, handle)
    try:
        with host, worker:
            channel = Channel(worker)
            worker.setblocking(True)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(TimeoutError, match="too slow"):
                fill(channel)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
