"""`document/didChange`: an open document has another text: what changed, and its version.

Noted when its line is read, so that a prompt which comes after it goes by it.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import DocumentChanged
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: DocumentChanged) -> None:
    connection.documents.did_change(params.uri, params.version, params.changes)


async def _handle(context: Context[Connection, None], params: DocumentChanged) -> None:
    return None


METHOD: Final = Method("document/didChange", _accept, _handle, is_notification=True)
