"""What the conforming peers share: JSON-RPC messages in lines. Standard library only."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]


class LinePeer:
    """Reads lines and writes messages. Its methods are small, so that a defect can replace one."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.parts: list[bytes] = []
        self.next_id = 0

    def receive(self, data: bytes) -> None:
        self.parts.append(data)
        if b"\n" in data:
            *lines, rest = b"".join(self.parts).split(b"\n")
            self.parts = [rest]
            for line in lines:
                self.take_line(line)

    def input_ended(self) -> None:
        self.world.exit(0)

    def take_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line.decode("utf-8-sig"))
        except ValueError:
            self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
            return
        if isinstance(message, dict) and ("result" in message or "error" in message) and "method" not in message:
            self.take_answer(message)
        elif not isinstance(message, dict) or not isinstance(message.get("method"), str):
            known = message.get("id") if isinstance(message, dict) else None
            self.send({"jsonrpc": "2.0", "id": known, "error": {"code": -32600, "message": "Invalid request"}})
        else:
            self.take_call(message)

    def take_answer(self, message: Message) -> None:
        """Handle a result or an error."""

    def take_call(self, message: Message) -> None:
        """Handle a request or a notification."""

    def encode(self, message: Message) -> bytes:
        return json.dumps(message, ensure_ascii=False).encode(errors="replace") + b"\n"

    def send(self, message: Message) -> None:
        self.world.write(self.encode(message))

    def answer(self, request: Message, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Message, code: int, text: str) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}})

    def notify(self, method: str, params: Message) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})
