"""`/page`: it shows a ticket once, stores an address without a secret, and serves the same sessions as the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest

from engine import TextStreamed
from engine.core.clock import SystemClock
from engine.core.errors import InvalidRequestError
from engine.log.events.codec import encode
from engine.log.events.conversation import AgentText
from engine.log.store.memory import MemoryStore
from engine.session.commands.page import PAGE, TICKET
from session_page import assembly, server
from session_page.assembly import NO_BUNDLE, SCRIPT
from tests.support.page_sessions import Always
from tests.support.sessions import in_process, session_in, sessions_of
from tests.support.stores import ROOT

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/#ticket=([\w-]{43})&session=(\S+)")


async def test_ticket_is_shown_once_and_stored_nowhere(tmp_path: Path) -> None:
    store = MemoryStore(SystemClock())
    async with session_in(tmp_path, store, environments=in_process) as session:
        subscription = session.subscribe()
        await session.accept("/page").end()
        session.unsubscribe(subscription)
        pieces = [item for batch in [each async for each in subscription.batches(0)] for item in batch]
        shown = [item.text for item in pieces if isinstance(item, TextStreamed)]
        found = ADDRESS.search(shown[0])
        assert found is not None
        port, ticket, name = found.groups()
        address = f"http://127.0.0.1:{port}/#session={name}"
        assert (name, shown[0]) == (session.session_id, TICKET.format(address=found.group()))
        answers = [event.text for event in session.events if isinstance(event, AgentText)]
        assert answers == [PAGE.format(address=address)]
        assert shown[1:] == answers
        async with httpx2.AsyncClient() as http:
            given = await http.post(f"http://127.0.0.1:{port}/api/token", json={"ticket": ticket})
            token = given.json()["token"]
            again = await http.post(f"http://127.0.0.1:{port}/api/token", json={"ticket": ticket})
            assert (given.status_code, again.status_code) == (200, 403)
        stored = b"".join(map(encode, store.load(session.session_id)))
        assert ticket.encode() not in stored
        assert token.encode() not in stored


async def test_page_acts_in_the_session_that_the_program_has_open(tmp_path: Path) -> None:
    async with sessions_of(tmp_path, environments=in_process) as sessions:
        session = await sessions.create(str(tmp_path))
        session.attach(Always())
        await session.accept("/page").end()
        await session.accept("/page").end()
        texts = [event.text for event in session.events if isinstance(event, AgentText)]
        assert texts[0] == texts[1]  # one server
        page = session._parts.open_page
        assert page is not None
        found = ADDRESS.search((await page(session.session_id)).with_ticket)
        assert found is not None
        port, ticket, name = found.groups()
        base = f"http://127.0.0.1:{port}/api"
        async with httpx2.AsyncClient() as http:
            token = (await http.post(f"{base}/token", json={"ticket": ticket})).json()["token"]
            headers = {"Authorization": f"Bearer {token}"}
            action = {"action": "prompt", "branch": "main", "text": "'from the page'"}
            done = await http.post(f"{base}/sessions/{name}/actions", json=action, headers=headers)
            assert done.status_code == 200, done.text
            await session.idle()
            shown = (await http.get(f"{base}/sessions/{name}", headers=headers)).json()
        assert "'from the page'" in json.dumps(shown)
        assert shown["state"]["is_here"]
        assert [cell.statement.source for cell in session.cells] == ["'from the page'"]


async def test_page_does_not_close_what_the_program_has_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(server, "TIDY_SECONDS", 0.02)
    async with sessions_of(tmp_path, environments=in_process) as sessions:
        session = await sessions.create(str(tmp_path))
        await session.accept("/page").end()
        page = session._parts.open_page
        assert page is not None
        found = ADDRESS.search((await page(session.session_id)).with_ticket)
        assert found is not None
        port, ticket, name = found.groups()
        base = f"http://127.0.0.1:{port}/api"
        async with httpx2.AsyncClient() as http:
            token = (await http.post(f"{base}/token", json={"ticket": ticket})).json()["token"]
            await http.get(f"{base}/sessions/{name}", headers={"Authorization": f"Bearer {token}"})
        await anyio.sleep(0.3)
        assert (await session.cell("1")).status == "ok"
        assert sessions.find(session.session_id) is session


async def test_missing_front_end_is_an_answer(tmp_path: Path) -> None:
    (assembly.BUNDLE / SCRIPT).unlink()
    async with session_in(tmp_path, environments=in_process) as session:
        end = await session.accept("/page").end()
        assert isinstance(end.refused, InvalidRequestError)
        assert str(end.refused) == NO_BUNDLE.format(name=SCRIPT)
        assert (await session.cell("1")).status == "ok"


LOADED = """
import sys
{imports}
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("session_page", "starlette", "uvicorn")))
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import acp_adapter.server, acp_adapter.connection\nfrom engine import Host, Session, Sessions",
        "from engine.session.host import STAGES, load\nfor stage in STAGES: load(stage)",
        "import engine.session.serving, engine.session.commands.table",
        "from engine.cli import main\nmain(['--help'])",
        "import engine.cli.show, engine.cli.run, engine.cli.terminal.program",
    ],
)
def test_no_other_start_loads_the_page(imports: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(imports=imports)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]"
