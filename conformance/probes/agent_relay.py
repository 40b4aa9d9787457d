"""The agent that clients start: relays bytes between its standard streams and the suite, unchanged.

`python agent_relay.py SOCKET`. The suite at the other end of the socket plays the agent. The relay ends when the suite
closes the socket. Standard library only, because a client starts it in its own environment.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading

_CHUNK = 1 << 16


def main(path: str) -> int:
    """Return the exit status: 1 if the suite closed the socket before the client did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the client
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except OSError:
        sys.stderr.write("the scenario has ended, or its agent was already started once\n")
        return 1
    is_done = threading.Event()
    threading.Thread(target=_forward, args=(connection, is_done), daemon=True).start()
    try:
        while data := connection.recv(_CHUNK):
            while data:
                data = data[os.write(1, data) :]
    except OSError:
        return 0  # the client stopped reading
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
