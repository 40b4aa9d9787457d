"""A program that drives a client that is not ours: requests go to it as lines of JSON, and answers come back so."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Final, Self

SECONDS: Final = 60.0


class Driver:
    """The running program, to be used as a context. Notifications that nobody awaited are kept in `heard`."""

    def __init__(
        self,
        command: Sequence[str],
        start: Mapping[str, Any],
        env: Mapping[str, str] | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        """`start` is the program's last argument, as JSON. It shares our environment and stderr unless given others."""
        self.heard: list[dict[str, Any]] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._process = subprocess.Popen(
            [*command, json.dumps(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=env,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            code = self._process.wait(SECONDS)
        finally:
            self._process.kill()
            self._reader.join()
        assert error or not code, code

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def introduced(self) -> dict[str, Any]:
        """What the server said of itself."""
        return self.until(SECONDS, "result")["result"]

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, under `result` or `error`."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"method": method, "params": params}) + "\n")
        self._process.stdin.flush()
        return self.until(SECONDS, "result", "error")

    def until(self, seconds: float, *kinds: str) -> dict[str, Any]:
        """The next line of one of these kinds."""
        deadline = time.monotonic() + seconds
        while True:
            line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            assert line, f"the driver ended with {self._process.wait(SECONDS)}"
            message: dict[str, Any] = json.loads(line)
            if not message.keys().isdisjoint(kinds):
                return message
            self.heard.append(message["notification"])
