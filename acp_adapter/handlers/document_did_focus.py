"""`document/didFocus`: the user looks at a document; its version says whether a change was missed.

Noted when its line is read, so that a prompt which comes after it goes by it.
"""

from __future__ import annotations

from typing import Final

from acp_adapter.connection import Connection
from acp_adapter.requests import DocumentFocused
from acp_adapter.rpc.methods import Context, Method


def _accept(connection: Connection, params: DocumentFocused) -> None:
    connection.documents.did_focus(params.uri, params.version)


async def _handle(context: Context[Connection, None], params: DocumentFocused) -> None:
    return None


METHOD: Final = Method("document/didFocus", _accept, _handle, is_notification=True)
