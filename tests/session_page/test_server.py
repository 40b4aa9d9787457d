"""A served page: lists, documents, contents, live changes, actions and their refusals."""

from __future__ import annotations

import json
from pathlib import Path

from engine.log.redaction import NO_SECRETS
from engine.session.session_json import session_json
from tests.support.page_server import served, session_of, until


async def test_document_is_what_the_command_prints(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1 + 1", "print('x' * 5000)")
        shown = await client.document(session)
        store = client.server._store
        expected = json.loads(session_json(session, store.load(session), store.blob_get, NO_SECRETS))
        contents = expected.pop("contents")
        assert shown == expected
        assert contents
        for digest, content in contents.items():
            assert await client.json(f"/api/sessions/{session}/contents/{digest}") == content


async def test_live_changes_follow_a_statement(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        document = await client.document(session)
        await client.done(session, "open")
        async with client.live(session, document["session"]["events"]) as messages:
            await client.done(session, "prompt", branch="main", text="print('hello'); 2")
            found = await until(
                messages, lambda each: '"value":{"text":"2"}' in json.dumps(each, separators=(",", ":"))
            )
        assert found[0]["type"] == "changes"
        assert any(each["type"] == "state" and each["state"]["is_here"] for each in found)
