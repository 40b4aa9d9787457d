"""What a client starts as its agent: passes bytes between its standard streams and the suite, unchanged.

`python agent_relay.py SOCKET`. The suite, at the other end of the socket, plays the agent; this ends when the suite
closes it. Plain standard library, because a client starts it in an environment of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

_CHUNK = 1 << 16


def main(path: str) -> int:
    """Returns the exit status; 1 where the suite ended the agent before the client did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is meant for the client
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        sys.stderr.write("the scenario has ended, or this agent was started for it before\n")
        return 1
    is_done = threading.Event()
    threading.Thread(target=_forward, args=(connection, is_done), daemon=True).start()
    try:
        while data := connection.recv(_CHUNK):
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        return 0  # the client reads no more
    return 0 if is_done.is_set() else 1


def _forward(connection: socket.socket, is_done: threading.Event) -> None:
    try:
        while data := os.read(0, _CHUNK):
            connection.sendall(data)
        is_done.set()
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))
