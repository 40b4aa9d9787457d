"""What a test client of the agent keeps, however its bytes travel: what it asked and what it was told."""

from __future__ import annotations

import json
from typing import Any

from tests.support.acp_schema import Coverage, Edition

Message = dict[str, Any]


class NoAnswerError(AssertionError):
    """Raised when the agent did not say what was waited for in time; carries what it did say."""


class Transcript:
    """One client's half of the conversation. Every message from the agent is checked against the official schema."""

    def __init__(self, coverage: Coverage | None = None) -> None:
        self.coverage = coverage or Coverage()
        self.edition: Edition = "stable"
        """The schema of the version that `initialize` chose."""
        self.received: list[Message] = []
        self._ids = 0
        self._asked: dict[int | str, str] = {}

    def line(self, method: str, params: Any, request_id: int | str | None = None) -> bytes:
        """A request (or, without an id, a notification) as one line."""
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
            self._asked[request_id] = method
        return json.dumps(message).encode() + b"\n"

    def next_id(self) -> int:
        """An id that no request has had."""
        self._ids += 1
        return self._ids

    def take(self, line: bytes) -> Message:
        """Notes and checks a line that the agent sent."""
        message: Message = json.loads(line)
        self.received.append(message)
        asked = self._asked.get(message.get("id")) if "method" not in message else None
        if asked == "initialize" and "result" in message:
            self.edition = "2" if message["result"]["protocolVersion"] == 2 else "stable"
        self.coverage.check(message, asked, self.edition)
        return message

    def updates(self, kind: str | None = None) -> list[Message]:
        """The session updates received so far, of one kind or all."""
        updates = [m["params"]["update"] for m in self.received if m.get("method") == "session/update"]
        return [update for update in updates if kind in (None, update["sessionUpdate"])]

    def text(self) -> str:
        """All agent text received so far."""
        return "".join(update["content"].get("text", "") for update in self.updates("agent_message_chunk"))


def answer_line(request: Message, result: Any) -> bytes:
    """The answer to a request of the agent's."""
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n"


def asks_permission(message: Message) -> bool:
    return message.get("method") == "session/request_permission"


def selected(option: str) -> Message:
    """The user's choice of an option."""
    return {"outcome": {"outcome": "selected", "optionId": option}}


def is_response_to(message: Message, request_id: int | str | None) -> bool:
    return "method" not in message and message.get("id") == request_id
