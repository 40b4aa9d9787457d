"""Clients of `rewindow-acp --listen`, with real processes and sockets: WebSocket, HTTP, and what breaks them."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acp
import anyio
import anyio.to_thread
import httpx
import psutil
import pytest
import websockets
from acp.http import create_http_stream
from acp.ws import create_websocket_stream
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from conformance.cli import main
from tests.support.node import own_command
from tests.support.remote import (
    OWN,
    PROGRAM,
    Server,
    add_token,
    bearer,
    events,
    forget_connections,
    over_http,
    over_websocket,
    revoke,
    serving,
)
from tests.support.scripts import asks_permission, runs, scripted
from tests.support.transcripts import selected

pytestmark = pytest.mark.anyio
forgotten = pytest.fixture(autouse=True)(forget_connections)
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
JSON = {"Content-Type": "application/json"}
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "state"


@pytest.fixture(scope="module")
def token(state: Path) -> str:
    return add_token(state)


@pytest.fixture(scope="module")
def server(state: Path, token: str) -> Iterator[Server]:
    with serving(state) as running:
        yield running
    assert running.log == []


# --- both transports --------------------------------------------------------------------------------------------------


async def test_a_turn_over_websocket(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as client:
        session = await client.open(tmp_path)
        assert await client.prompt(session, "20 + 3") == "end_turn"
        assert client.text() == "23"


@pytest.mark.parametrize("http2", [True, False])
async def test_a_turn_over_http(server: Server, token: str, tmp_path: Path, http2: bool) -> None:
    async with over_http(server, token, http2=http2) as (client, transport):
        session = await client.open(tmp_path)
        assert await client.prompt(session, "20 + 3") == "end_turn"
        assert client.text() == "23"
        assert set(transport.positions) == {None, session}
        assert transport.statuses == [200, 202, 202]


async def test_a_lost_websocket_loses_nothing(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as client:
        session = await client.open(tmp_path)
        await client.begin_prompt(session, "import time; x = 5; time.sleep(0.5); print('the end')")
        await client.until(lambda message: "tool_call" in str(message))
    async with over_http(server, token) as (again, _):
        await again.initialize()
        await again.load(session, tmp_path)
        await again.seen(lambda message: "the end" in str(message.get("params")) and "completed" in str(message))
        assert await again.prompt(session, "x * 2") == "end_turn"
        assert again.text().endswith("10")


async def test_a_history_over_http_precedes_its_response(server: Server, token: str, tmp_path: Path) -> None:
    async with over_http(server, token) as (client, _):
        session = await client.open(tmp_path)
        for number in range(30):
            await client.prompt(session, f"{number}")
    async with over_http(server, token) as (again, _):
        await again.initialize()
        await again.load(session, tmp_path)
        assert len(again.updates("user_message_chunk")) == 30


async def test_two_clients_over_two_transports(server: Server, token: str, tmp_path: Path) -> None:
    async with over_websocket(server, token) as first, over_http(server, token) as (second, _):
        session = await first.open(tmp_path)
        await second.initialize()
        await second.load(session, tmp_path)
        await first.prompt(session, "6 * 7")
        await second.seen(lambda message: "42" in str(message.get("params")))
        await second.prompt(session, "1000 + 1")
        await first.seen(lambda message: "1001" in str(message.get("params")))


async def test_a_question_is_answered_over_http_and_asked_again(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "written"
    token = add_token(state)
    source = f"import os; os.close(os.open({str(file)!r}, os.O_CREAT))"
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."})
    with serving(state, "--model", model, "--sandbox", "off") as server:
        async with over_http(server, token, None, deletes=False) as (client, _):
            session = await client.open(tmp_path)
            await client.begin_prompt(session, "write")
            await client.until(asks_permission)
        async with over_http(server, token, None) as (again, _):
            await again.initialize()
            await again.load(session, tmp_path)
            question = await again.seen(asks_permission)
            assert not file.exists()
            await again.answer(question, selected("allow_once"))
            await again.seen(lambda message: "Done." in str(message.get("params")))
            assert file.exists()


def test_our_transport_conforms(server: Server, token: str, tmp_path: Path) -> None:
    file, report = tmp_path / "token", tmp_path / "report.json"
    file.write_text(token)
    url = f"http://{server.url}"
    options = ["--token-file", str(file), "--json", str(report), "--timeout", "60", "--scenario-timeout", "120"]
    assert main(["acp", "--url", url, "--transport", *options]) == 0
    results = json.loads(report.read_text())["results"]
    assert len(results) == 17
    assert {one["id"]: one["reason"] for one in results if one["outcome"] != "pass"} == {}


# --- TLS, and the clients of the SDKs ---------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return str(paths[0]), str(paths[1])


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_the_program_of_the_suite_that_carries_lines_ends_with_its_input(
    server: Server, tmp_path: Path, token: str, scheme: str
) -> None:
    held = tmp_path / "token"
    held.write_text(token)
    program = [sys.executable, "-m", "conformance.peers.remote", f"{scheme}://{server.url}", "--token-file", str(held)]
    line = json.dumps(INITIALIZE)
    for _ in range(3):
        done = subprocess.run(program, input=f"{line}\n", capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


async def test_tls_serves_both_versions_of_http_and_websockets(tmp_path: Path) -> None:
    state = tmp_path / "state"
    token = add_token(state)
    cert, key = certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=cert)
    with serving(state, "--tls-cert", cert, "--tls-key", key) as server:
        for http2, version in ((True, "HTTP/2"), (False, "HTTP/1.1")):
            async with httpx.AsyncClient(http2=http2, verify=trusted, trust_env=False, headers=bearer(token)) as http:
                response = await http.post(f"https://{server.url}", json=INITIALIZE, timeout=30)
                assert (response.status_code, response.http_version) == (200, version)
                assert response.headers["Set-Cookie"].endswith("; Secure")
        async with websockets.connect(
            f"wss://{server.url}", ssl=trusted, additional_headers=bearer(token), proxy=None, open_timeout=60
        ) as socket:
            await socket.send(json.dumps(INITIALIZE))
            assert "agentCapabilities" in str(await socket.recv())


class Editor(acp.Client):
    """The client of the Python SDK."""

    def __init__(self) -> None:
        self.text = ""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        if isinstance(update, acp.schema.AgentMessageChunk):
            self.text += update.content.text


@pytest.mark.parametrize("kind", ["websocket", "http"])
async def test_the_python_sdk(server: Server, token: str, tmp_path: Path, kind: str) -> None:
    if kind == "http":
        http = httpx.AsyncClient(http1=False, http2=True, timeout=30, trust_env=False)
        stream = create_http_stream(f"http://{server.url}", client=http, headers=bearer(token))
    else:
        stream = await create_websocket_stream(f"ws://{server.url}", headers=bearer(token))
    editor = Editor()
    connection = acp.connect_to_agent(editor, stream)
    with anyio.fail_after(60):
        await connection.initialize(protocol_version=1)
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        for source, value in (("a = 6", ""), ("a * 7", "42")):
            ended = await connection.prompt(session_id=session, prompt=[acp.text_block(source)])
            assert ended.stop_reason == "end_turn"
            assert editor.text.endswith(value)
        await connection.close()


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_the_typescript_sdk(server: Server, token: str, tmp_path: Path, scheme: str) -> None:
    command = [*own_command("acp_drivers/remote.mjs"), f"{scheme}://{server.url}", token, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"stops": ["end_turn", "end_turn"], "text": "42", "listed": True}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def http(token: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(headers=bearer(token), trust_env=False, timeout=30)


async def connection(http: httpx.AsyncClient, server: Server) -> dict[str, str]:
    response = await http.post(f"http://{server.url}", json=INITIALIZE)
    assert response.status_code == 200
    assert response.headers["Set-Cookie"].startswith("acp_affinity=")
    return {"Acp-Connection-Id": response.headers["Acp-Connection-Id"]}


async def test_statuses_of_the_proposal(server: Server, http: httpx.AsyncClient) -> None:
    url = f"http://{server.url}"
    prompt = {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"sessionId": "ses_1", "prompt": []}}
    async with http:
        own = await connection(http, server)
        unknown = {"Acp-Connection-Id": "unknown"}
        assert (await http.post(url, content=b"{}", headers={"Content-Type": "text/plain"})).status_code == 415
        assert (await http.post(url, content=b"{", headers={**JSON, **own})).status_code == 400
        assert (await http.post(url, content=b"3", headers={**JSON, **own})).status_code == 400
        assert (await http.post(url, json=[INITIALIZE])).status_code == 501
        assert (await http.post(url, json=INITIALIZE, headers=own)).status_code == 400
        assert (await http.post(url, json={**INITIALIZE, "id": None})).status_code == 400
        assert (await http.post(url, json=prompt)).status_code == 400
        assert (await http.post(url, json=prompt, headers=unknown)).status_code == 404
        assert (await http.post(url, json=prompt, headers=own)).status_code == 400
        assert (await http.post(url, json=prompt, headers={**own, "Acp-Session-Id": "ses_2"})).status_code == 400
        assert (await http.post(url, json=prompt, headers={**own, "Acp-Session-Id": "ses_1"})).status_code == 202
        assert (await http.get(url, headers=own)).status_code == 406
        assert (await http.get(url, headers=STREAM)).status_code == 400
        assert (await http.get(url, headers={**STREAM, **unknown})).status_code == 404
        assert (await http.get(url, headers={**STREAM, **own, "Last-Event-ID": "99"})).status_code == 409
        assert (await http.delete(url)).status_code == 400
        assert (await http.delete(url, headers=unknown)).status_code == 404
        assert (await http.delete(url, headers=own)).status_code == 202
        assert (await http.delete(url, headers=own)).status_code == 404
        assert (await http.post(url, json=prompt, headers={**own, "Acp-Session-Id": "ses_1"})).status_code == 404
        assert (await http.put(url)).status_code == 405
        assert (await http.post(f"{url}x", json=INITIALIZE)).status_code == 404


async def test_requests_from_elsewhere_are_refused(server: Server, token: str) -> None:
    url = f"http://{server.url}"
    async with httpx.AsyncClient(trust_env=False) as http:

        async def status(**headers: str) -> int:
            given = {"Authorization": f"Bearer {token}", **headers}
            return (await http.post(url, json=INITIALIZE, headers=given)).status_code

        assert await status(Authorization="Bearer wrong") == 401
        assert await status(Authorization=f"Basic {token}") == 401
        assert await status(Host="evil.example") == 421
        assert await status(Host="127.0.0.1:80.evil.example") == 421
        assert await status(Origin="http://evil.example") == 403
        assert await status(Origin="null") == 403
        assert (await http.post(url, json=INITIALIZE)).status_code == 401
        assert await status(Origin=f"http://127.0.0.1:{server.port}") == 200
    address = f"ws://{server.url}"
    for headers in ({}, bearer("wrong"), {**bearer(token), "Origin": "http://evil.example"}):
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(address, additional_headers=headers, proxy=None, open_timeout=60):
                pass
        assert refused.value.response.status_code in (401, 403)


async def test_a_body_of_100_megabytes_is_refused(server: Server, token: str, http: httpx.AsyncClient) -> None:
    async with http:

        async def chunks():
            for _ in range(100):
                yield b" " * (1 << 20)

        response = await http.post(f"http://{server.url}", content=b"x" * (100 << 20), headers=JSON)
        assert response.status_code == 413
        sent = {**JSON, "Authorization": f"Bearer {token}"}
        try:
            response = await http.post(f"http://{server.url}", content=chunks(), headers=sent)
            assert response.status_code == 413
        except httpx.WriteError:  # the server closed the connection while the rest was sent
            pass
        assert (await http.post(f"http://{server.url}", json=INITIALIZE)).status_code == 200


async def test_a_message_that_is_too_long_ends_a_websocket(server: Server, token: str) -> None:
    async with over_websocket(server, token) as client:
        await client.initialize()
        try:
            await client.write(b'{"jsonrpc":"2.0","id":9,"method":"x","params":["' + b"x" * (17 << 20) + b'"]}\n')
            assert await client.next() is None
        except websockets.ConnectionClosed:
            pass


async def test_line_ends_and_binary_frames(server: Server, token: str) -> None:
    async with over_websocket(server, token) as client:
        socket = client._transport.socket  # pyright: ignore
        await socket.send(b"\x00\x01")
        await socket.send(json.dumps(INITIALIZE, indent=2))
        assert "result" in await client.response(1)


# --- streams that are cut ---------------------------------------------------------------------------------------------


async def test_a_stream_that_is_cut_again_and_again_loses_nothing(server: Server, token: str, tmp_path: Path) -> None:
    async with over_http(server, token) as (client, transport):
        session = await client.open(tmp_path)
        source = "import time\nfor i in range(100):\n    print('line', i)\n    time.sleep(0.01)"
        prompt = await client.begin_prompt(session, source)
        done = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def cut() -> None:
                while not done.is_set():
                    await anyio.sleep(0.15)
                    for each in [*transport.http._transport._pool.connections]:  # pyright: ignore
                        if each._connection is not None:  # one that is being made would never be closed
                            await each.aclose()  # as a proxy does with an idle stream

            tasks.start_soon(cut)
            response = await client.response(prompt)
            done.set()
        assert response["result"]["stopReason"] == "end_turn"
        assert transport.cuts > 2
        assert "line 99" in str(client.updates())


async def test_what_was_sent_is_read_again_from_its_position(
    server: Server, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    url = f"http://{server.url}"
    async with http:
        own = await connection(http, server)
        for number in range(3):
            ask = {"jsonrpc": "2.0", "id": f"ask {number}", "method": "session/list", "params": {}}
            assert (await http.post(url, json=ask, headers=own)).status_code == 202

        async def ids(count: int, **headers: str) -> list[str]:
            async with http.stream("GET", url, headers={**STREAM, **own, **headers}) as response:
                assert response.headers["Cache-Control"] == "no-store"
                return [json.loads(event.data)["id"] for event in await first(response, count)]

        async def first(response: httpx.Response, count: int) -> list:
            found = []
            async for event in events(response):
                found.append(event)
                if len(found) == count:
                    break
            return found

        sent = await ids(3)
        assert sorted(sent) == ["ask 0", "ask 1", "ask 2"]
        assert await ids(2, **{"Last-Event-ID": "1"}) == sent[1:]
        assert await ids(3, **{"Last-Event-ID": "0"}) == sent


async def test_a_second_reader_replaces_the_first(server: Server, http: httpx.AsyncClient) -> None:
    url = f"http://{server.url}"
    async with http:
        own = await connection(http, server)
        async with (
            http.stream("GET", url, headers={**STREAM, **own}) as first,
            http.stream("GET", url, headers={**STREAM, **own}),
        ):
            with anyio.fail_after(10):
                assert [event async for event in events(first)] == []


# --- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_token_that_is_revoked_in_a_turn(tmp_path: Path) -> None:
    state = tmp_path / "state"
    token, other = add_token(state), add_token(state)
    with serving(state) as server:
        async with over_websocket(server, token) as client:
            session = await client.open(tmp_path)
            await client.begin_prompt(session, "import time; time.sleep(2); print('went on')")
            await client.until(lambda message: "tool_call" in str(message))
            lines = (state / "acp-tokens").read_text().splitlines()
            revoke(state, lines[1].split()[0])
            while await client.next() is not None:
                pass
            assert client._transport.closed == (1008, "the token was revoked")  # pyright: ignore
            with pytest.raises(websockets.InvalidStatus):
                async with over_websocket(server, token):
                    pass
        async with over_websocket(server, other) as again:
            await again.initialize()
            await again.load(session, tmp_path)
            await again.seen(lambda message: "went on" in str(message.get("params")))
            revoke(state, "ann")
            while await again.next() is not None:
                pass
        with anyio.fail_after(15):
            while hosts_of(server):  # noqa: ASYNC110 -- another process has no event
                await anyio.sleep(0.05)


def hosts_of(server: Server) -> list[str]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.process.pid)], capture_output=True, text=True)
    return found.stdout.split()


def test_what_the_server_refuses_at_its_start(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    state = tmp_path / "state"
    listen = ("--listen", "0", "--state-dir", str(state))
    assert "rewindow-acp tokens add USER" in refused(*listen)
    add_token(state)
    file = state / "acp-tokens"
    file.chmod(0o644)
    assert "chmod 600" in refused(*listen)
    file.chmod(0o600)
    assert "belong together" in refused(*listen, "--tls-cert", "x")
    assert "for TLS" in refused(*listen, "--tls-cert", str(file), "--tls-key", str(file))
    assert "only with --listen" in refused("--token-file", "x")
    for idle in ("nan", "soon"):
        assert f"{idle} is not a number of minutes above 0" in refused(*listen, f"--idle={idle}")
    assert "takes [HOST:]PORT" in refused("--listen", "x", "--state-dir", str(state))
    assert "the same account" in refused("tokens", "add", "bob", "--account", OWN, "--state-dir", str(state))
    file.write_text(f"{file.read_text()}0badcafe bob {OWN} {'0' * 64}\n")
    assert "the same account" in refused(*listen)
    file.write_text("nonsense\n")
    assert "line 1" in refused(*listen)


def test_tokens_are_listed_without_their_secrets(tmp_path: Path) -> None:
    state = tmp_path / "state"
    secret = add_token(state)
    content = (state / "acp-tokens").read_text()
    assert secret not in content
    listed = subprocess.run([PROGRAM, "tokens", "list", "--state-dir", str(state)], capture_output=True, text=True)
    assert listed.stdout.split()[1:] == ["ann", "account", OWN]
    again = subprocess.run(
        [PROGRAM, "tokens", "add", "ann", "--account", "other", "--state-dir", str(state)],
        capture_output=True,
        text=True,
    )
    assert again.returncode == 2
    assert f"ann has the account {OWN}" in again.stderr


async def test_an_agent_that_nobody_uses_ends_and_comes_back(tmp_path: Path) -> None:
    state = tmp_path / "state"
    token = add_token(state)
    with serving(state, "--idle", "0.01") as server:
        async with over_websocket(server, token) as client:
            session = await client.open(tmp_path)
            await client.prompt(session, "x = 42")
            await client.begin_prompt(session, "import time; time.sleep(6); x += 1")  # goes on without a client
            await client.until(runs)
        agents = psutil.Process(server.process.pid).children()
        assert agents
        await anyio.to_thread.run_sync(psutil.wait_procs, agents, 60)
        assert psutil.Process(server.process.pid).children() == []
        async with over_websocket(server, token) as again:
            await again.initialize()
            await again.load(session, tmp_path)
            assert await again.prompt(session, "x + 1") == "end_turn"
            assert again.text().endswith("44")
    assert server.log == []


def test_a_time_that_cannot_pass_is_refused(tmp_path: Path) -> None:
    for minutes in ("0", "-1", "nan", "inf", "x"):
        command = [PROGRAM, "--listen", "127.0.0.1:0", "--state-dir", str(tmp_path), "--idle", minutes]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert "--idle" in done.stderr
