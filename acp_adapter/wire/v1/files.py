"""`fs/read_text_file` and `fs/write_text_file` in version 1: what is asked of the client, and its answers."""

from __future__ import annotations

from acp_adapter.wire.codec import Json
from acp_adapter.wire.model import Empty, from_wire, to_wire
from acp_adapter.wire.v1.shapes.client import ReadTextFileRequest, ReadTextFileResponse, WriteTextFileRequest


def write_reading(session_id: str, path: str) -> Json:
    """The params that ask for all of a file."""
    return to_wire(ReadTextFileRequest(session_id=session_id, path=path))


def read_text(result: object) -> str:
    """The text. Raises WireShapeError."""
    return from_wire(ReadTextFileResponse, result).content


def write_writing(session_id: str, path: str, text: str) -> Json:
    """The params that have a file written."""
    return to_wire(WriteTextFileRequest(session_id=session_id, path=path, content=text))


def read_written(result: object) -> None:
    """An answer that says nothing more. Raises WireShapeError."""
    from_wire(Empty, result)
