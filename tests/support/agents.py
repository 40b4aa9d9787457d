"""A raw ACP client for the tests: real process, real pipes, any bytes, everything recorded, every wait bounded."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.acp_schema import Coverage
from tests.support.fake_editor import FakeEditor
from tests.support.transcripts import (
    Message,
    NoAnswerError,
    Transcript,
    answer_line,
    asks_permission,
    is_response_to,
    selected,
)

SECONDS = 60.0
AGENT = Path(sys.executable).parent / "rewindow-acp"


class Agent(Transcript):
    """`rewindow-acp` as an editor starts it. Every message it emits is checked against the official schema."""

    def __init__(
        self,
        state_dir: Path,
        *arguments: str,
        coverage: Coverage | None = None,
        env: dict[str, str] | None = None,
        permission: str | None = "allow_once",
        started_by: Sequence[str] = (),
    ) -> None:
        """`permission` is the option chosen whenever the agent asks; None leaves the answer to the test.

        `started_by` is a command that starts the agent, whose command line comes after it.
        """
        super().__init__(coverage)
        self.permission = permission
        self.editor: FakeEditor | None = None
        """Answers what the agent asks of files."""
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self.process = subprocess.Popen(
            [*started_by, str(AGENT), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "REWINDOW_STATE_DIR": str(state_dir), **(env or {})},
        )
        self.stderr: bytearray = bytearray()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def command() -> Path:
        return AGENT

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr
        for chunk in iter(lambda: self.process.stderr.read1(65536), b""):
            self.stderr += chunk

    # --- sending ------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Raw bytes to the agent's stdin."""
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def begin(self, method: str, params: Any) -> int:
        """Sends a request and returns its id without waiting."""
        request_id = self.next_id()
        self.write(self.line(method, params, request_id))
        return request_id

    def notify(self, method: str, params: Any) -> None:
        self.write(self.line(method, params))

    def answer(self, request: Message, result: Any) -> None:
        self.write(answer_line(request, result))

    # --- receiving ----------------------------------------------------------------------------------------------

    def next(self, seconds: float = SECONDS) -> Message | None:
        """The next message, None at the end of the stream."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise NoAnswerError(f"nothing for {seconds} s; stderr: {self.stderr.decode(errors='replace')}") from None
        if line is None:
            return None
        if not line.endswith(b"\n"):
            # Only what SIGKILL ended may have stopped in the middle of a line.
            assert self.process.wait(SECONDS) == -signal.SIGKILL, line
            return None
        message = self.take(line)
        if asks_permission(message) and self.permission is not None:
            self.answer(message, selected(self.permission))
        if self.editor is not None and (line := self.editor.answer(message)) is not None:
            self.write(line)
        return message

    def until(self, wanted: Callable[[Message], bool], seconds: float = SECONDS) -> Message:
        """The first message from now on that is wanted."""
        deadline = time.monotonic() + seconds
        while True:
            message = self.next(max(0.01, deadline - time.monotonic()))
            if message is None:
                raise NoAnswerError(f"the agent has left; stderr: {self.stderr.decode(errors='replace')}")
            if wanted(message):
                return message

    def read_ahead(self, messages: int = 1 << 30) -> None:
        """From now on reads only so far beyond what the test has taken; the agent waits where its pipe is full."""
        with self._lines.mutex:
            self._lines.maxsize = messages
            self._lines.not_full.notify()

    def seen(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message that is wanted, received already or to come; updates may precede a response."""
        received = next((message for message in self.received if wanted(message)), None)
        return self.until(wanted) if received is None else received

    def response(self, request_id: int | str | None, seconds: float = SECONDS) -> Message:
        """The response to a request that was begun."""
        return self.until(lambda message: is_response_to(message, request_id), seconds)

    def call(self, method: str, params: Any, seconds: float = SECONDS) -> Any:
        """Sends a request and returns its result; an error response fails the test."""
        response = self.response(self.begin(method, params), seconds)
        assert "result" in response, response
        return response["result"]

    def error(self, method: str, params: Any) -> Message:
        """Sends a request that must fail and returns its error object."""
        response = self.response(self.begin(method, params))
        assert "error" in response, response
        return response["error"]

    def quiet(self, seconds: float = 0.3) -> None:
        """Fails if anything arrives within the time."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return
        raise AssertionError(f"unexpected: {line!r}")

    # --- the usual beginning ------------------------------------------------------------------------------------

    def initialize(self, **capabilities: Any) -> Message:
        return self.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})

    def new_session(self, cwd: Path) -> str:
        return self.call("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]

    def open(self, cwd: Path) -> str:
        """Initialises and opens a session; returns its id."""
        self.initialize()
        return self.new_session(cwd)

    def prompt(self, session_id: str, text: str, *blocks: Message, seconds: float = SECONDS) -> str:
        """Prompts and returns the stop reason."""
        content = [{"type": "text", "text": text}, *blocks]
        return self.call("session/prompt", {"sessionId": session_id, "prompt": content}, seconds)["stopReason"]

    def begin_prompt(self, session_id: str, text: str) -> int:
        return self.begin("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})

    # --- version 2 ----------------------------------------------------------------------------------------------

    def initialize_2(self, **capabilities: Any) -> Message:
        info = {"name": "test", "version": "1"}
        return self.call("initialize", {"protocolVersion": 2, "info": info, "capabilities": capabilities})

    def work(self, session_id: str, text: str, seconds: float = SECONDS) -> Message:
        """Prompts in version 2 and returns the state at the end of the work."""
        count = len(self.idle_states())
        response = self.response(self.begin_prompt(session_id, text), seconds)
        assert "messageId" in response["result"], response
        while len(self.idle_states()) == count:
            self.next(seconds)
        return self.idle_states()[-1]

    def idle_states(self) -> list[Message]:
        return [update for update in self.updates("state_update") if update["state"] == "idle"]

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self, seconds: float = SECONDS) -> int:
        """Closes stdin and waits for the agent to leave; returns its exit code."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise NoAnswerError("the agent did not leave when its stdin was closed") from None
        finally:
            self._join()

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self._join()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(SECONDS)
        assert self.process.stdout
        assert self.process.stderr
        self.process.stdout.close()
        self.process.stderr.close()
