from __future__ import annotations

import os
import socket
import sys
import threading

import pytest

from engine.worker.channel import Channel
from engine.worker.framing import frame
from engine.worker.protocol import Answer, Started

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
        "import os, socket, sys\nfrom engine.worker.channel import Channel\n"
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
