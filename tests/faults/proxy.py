"""A program between an MCP client and its server on stdio: something happens to the n-th message of the server.

`python proxy.py N lost|half|twice|closed|flood COMMAND...`. Standard library alone, so that it starts at once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

FAULTS = ("lost", "half", "twice", "closed", "flood")
_NOTHING = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'


def broken(line: bytes, fault: str) -> bytes:
    """What the client receives in place of the line."""
    match fault:
        case "lost" | "closed":
            return b""
        case "half":
            return line[: len(line) // 2]
        case "twice":
            return line * 2
        case _:
            return _NOTHING * 2000 + line


def main(arguments: Sequence[str]) -> int:
    number, fault, *command = arguments
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout
        for place, line in enumerate(server.stdout, 1):
            is_hit = place == int(number)
            sys.stdout.buffer.write(broken(line, fault) if is_hit else line)
            sys.stdout.buffer.flush()
            if is_hit and fault == "closed":
                server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
