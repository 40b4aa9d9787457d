"""`document/didClose`: a document is not open any more; what was not saved of it is gone.

Noted when its line is read, so that a prompt which comes after it goes by it.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import DocumentRef
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: DocumentRef) -> None:
    connection.documents.did_close(params.uri)


async def _handle(context: Context[Connection, None], params: DocumentRef) -> None:
    return None


METHOD: Final = Method("document/didClose", _accept, _handle, is_notification=True)
