"""`document/didSave`: the text of an open document is on disk.

Noted when its line is read, so that a prompt which comes after it goes by it.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import DocumentRef
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: DocumentRef) -> None:
    connection.documents.did_save(params.uri)


async def _handle(context: Context[Connection, None], params: DocumentRef) -> None:
    return None


METHOD: Final = Method("document/didSave", _accept, _handle, is_notification=True)
