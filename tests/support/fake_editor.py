"""An editor behind a test's client: buffers that are not on disk, and how it answers what an agent asks of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.transcripts import Message

READ = "fs/read_text_file"
WRITE = "fs/write_text_file"
OFFERS = {"fs": {"readTextFile": True, "writeTextFile": True}}


class FakeEditor:
    """`buffers` are its texts by absolute path; what is no buffer is read from disk, as editors do.

    `asked` are the paths that it was asked for, in order. Where `silent`, it answers nothing; a text in `refusals`
    answers an error instead. With `saves` a write goes to the disk too.
    """

    def __init__(self, *, saves: bool = True) -> None:
        self.buffers: dict[str, str] = {}
        self.asked: list[str] = []
        self.written: list[tuple[str, str]] = []
        self.refusals: dict[str, int] = {}
        self.silent = False
        self.saves = saves

    def hold(self, path: Path, text: str) -> None:
        self.buffers[str(path)] = text

    def answer(self, message: Message) -> bytes | None:
        """The line that answers a request; None for what it does not answer."""
        method = message.get("method")
        if method not in (READ, WRITE):
            return None
        path = message["params"]["path"]
        if method == READ:
            self.asked.append(path)
        if self.silent:
            return None
        if method in self.refusals:
            return _line(message, error={"code": self.refusals[method], "message": "No"})
        if method == READ:
            return self._read(message, path)
        text = message["params"]["content"]
        self.written.append((path, text))
        self.buffers[path] = text
        if self.saves:
            Path(path).write_text(text, newline="")
            del self.buffers[path]
        return _line(message, result={})

    def _read(self, message: Message, path: str) -> bytes:
        if path in self.buffers:
            return _line(message, result={"content": self.buffers[path]})
        try:
            return _line(message, result={"content": Path(path).read_text()})
        except (OSError, ValueError) as error:
            return _line(message, error={"code": -32002, "message": f"Resource not found: {type(error).__name__}"})


def _line(request: Message, **answer: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode() + b"\n"
