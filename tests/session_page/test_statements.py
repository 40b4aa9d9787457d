"""No statement can use the page: not to answer a question, in any mode, with or without a sandbox.

The statements here know what no statement should: the port, and even the token. They run in real workers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from session_page import feed
from session_page.server import system_peer
from tests.support.models import AnsweringModel, runs
from tests.support.page_server import Client, served, until
from tests.support.page_sessions import Always
from tests.support.workers import new_worker

ATTACK = """
import json, subprocess, sys, threading, urllib.error, urllib.request

def ask(path, body=None):
    request = urllib.request.Request("http://127.0.0.1:{port}" + path, method="GET" if body is None else "POST")
    request.add_header("Authorization", "Bearer {token}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
        request.data = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return type(error).__name__

found = [ask("/api/sessions"), ask("/api/token", {{"ticket": "{ticket}"}})]
"""
CHILD = """
try:
    command = [sys.executable, "-c", {program!r} + "\\nprint(json.dumps(found))"]
    found += json.loads(subprocess.run(command, capture_output=True, text=True).stdout or '["none"]')
except Exception as error:
    found.append(type(error).__name__)
found
"""
THREAD = """
import time

def answer():
    while True:
        body = {{"action": "answer", "question": "known", "outcome": "allowed"}}
        found.append(ask("/api/sessions/{session}/actions", body))
        time.sleep(0.02)

threading.Thread(target=answer, daemon=True).start()
"""
needs_proc = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells who has a connection")


def filled(source: str, client: Client, **more: str) -> str:
    access = client.server.access
    return source.format(port=access.port, token=client.token, ticket=access.ticket(), **more)


@needs_proc
@pytest.mark.parametrize("sandbox", ["off", "auto"])
@pytest.mark.parametrize("mode", ["ask", "auto", "plan"])
async def test_statement_with_the_token_is_refused(tmp_path: Path, mode: str, sandbox: str) -> None:
    sources: list[str] = []
    model = AnsweringModel(lambda prompt: runs(sources.pop(), typed=False)(prompt) if sources else [])
    async with served(
        tmp_path / "state", model=model, find_peer=system_peer, environments=new_worker, sandbox=sandbox
    ) as (client, host):
        assert (await client.get("/api/sessions")).status_code == 200  # a process that no statement started
        session = await host.sessions.create(str(tmp_path))
        session.set_mode(mode)
        session.attach(Always())
        attack = filled(ATTACK, client)
        sources.append(attack + CHILD.format(program=attack))
        await session.accept("go").end()
        (finished,) = [cell.finished for cell in session.cells if cell.is_python]
        assert finished is not None
        found = json.loads((finished.value or "[]").replace("'", '"'))
        assert len(found) >= 3, finished
        assert 200 not in found
        if sandbox == "off" and mode != "plan":
            assert found == [403] * 4


@needs_proc
async def test_statement_cannot_answer_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the token and even the number of the question, has no sandbox, and goes on in a thread."""
    monkeypatch.setattr(feed, "ALIVE_SECONDS", 1.5)
    model = AnsweringModel(runs("write('taken.txt', 'by itself')", typed=False))
    place = tmp_path / "project"
    place.mkdir()
    async with served(
        tmp_path / "state", model=model, find_peer=system_peer, environments=new_worker, sandbox="off"
    ) as (client, host):
        session = await host.sessions.create(str(place))
        name = session.session_id
        questions = (await client.server._feed(name)).questions
        await session.cell(filled(ATTACK + THREAD, client, session=name))
        ticket = session.accept("go")
        async with client.live(name, 0) as messages:
            found = await until(messages, lambda each: bool(each.get("state", {}).get("questions")))
            (question,) = found[-1]["state"]["questions"]
            questions._waiting["known"] = questions._waiting[question["id"]]
            await until(messages, lambda each: each["type"] == "alive")  # for so long the thread tries
            assert not questions._waiting.pop("known").over.is_set()
            await client.done(name, "answer", question=question["id"], outcome="rejected")
        await ticket.end()
        assert not list(place.glob("taken.txt"))
        tried = await session.cell("sorted(set(found)), len(found) > 10")
        assert tried.value == "([403], True)"
