"""`document/didOpen`: the client has opened a document: its text, and its version.

Noted when its line is read, so that a prompt which comes after it goes by it.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import DocumentOpened
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: DocumentOpened) -> None:
    connection.documents.did_open(params.uri, params.version, params.text)


async def _handle(context: Context[Connection, None], params: DocumentOpened) -> None:
    return None


METHOD: Final = Method("document/didOpen", _accept, _handle, is_notification=True)
