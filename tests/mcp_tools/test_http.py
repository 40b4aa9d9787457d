"""The server over HTTP, in both eras: which session a path names, and which requests are refused."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx2
import psutil
import pytest
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ListRootsResult, ResourceUpdatedNotification, Root

from engine.core import web_access
from mcp_tools import http
from mcp_tools.access import FILE_NAME
from mcp_tools.tools.views import NO_HANDLES
from tests.support.mcp_clients import ERAS, SCRIPT, Era
from tests.support.mcp_http import TOKEN, VIEW, Web, modern_headers, web

SECONDS = 30


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_clients_share_handles_only_within_a_session(project: Path, era: Era) -> None:
    async with web(project) as server, server.client("work", era=era) as one:
        assert (await one.text("view", path="a.txt")).startswith("a  a.txt  lines 1-2 of 2  ")
        async with server.client("work") as same, server.client("play", era=era) as other, server.client() as default:
            assert "two" in await same.text("view", name="a")
            for caller in (other, default):
                assert await caller.text("view") == NO_HANDLES
            assert "view://a" in {each.uri for each in (await same.client.list_resources()).resources}
            assert "There is no view a" in await other.error("view", name="a")
        async with server.client("default", era=era) as named, server.client() as default:
            await default.text("view", path="a.txt", name="mine")
            assert "two" in await named.text("view", name="mine")


@pytest.mark.anyio
async def test_token_is_required(project: Path) -> None:
    async with web(project) as server:
        for given in (
            None,
            "",
            "Bearer",
            "Bearer x",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
        ):
            answer = await server.post(headers={"Authorization": given})
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="rewindow-mcp"')
            assert TOKEN not in answer.text
        assert (await server.post(path="/a b", headers={"Authorization": None})).status_code == 401
        assert (await server.post(path="/nowhere/at/all", headers={"Authorization": None})).status_code == 401
        assert (await server.post()).status_code == 200
        assert (await server.post(headers={"Authorization": f"bearer  {TOKEN}"})).status_code == 200


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("address", ["0", "0.0.0.0:0"])
async def test_foreign_host_and_origin_are_refused(project: Path, address: str) -> None:
    async with web(project, address=address, hosts=("box.lan",)) as server:
        reached = Web(server.url.replace("0.0.0.0", "127.0.0.1"))
        for host in ("evil.com", "evil.com:80", "localhost.evil.com", "127.0.0.1.evil.com:80"):
            assert (await reached.post(headers={"Host": host})).status_code == 421, host
        for origin in ("http://evil.com", "null", "file://", "http://localhost.evil.com"):
            assert (await reached.post(headers={"Origin": origin})).status_code == 403, origin
        for host in ("localhost", "localhost:1", "box.lan", "box.lan:80"):
            assert (await reached.post(headers={"Host": host, "Origin": f"http://{host}"})).status_code == 200, host


async def raw(url: str, *headers: bytes) -> int:
    """The status of a raw call with these additional headers, which no client would send."""
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    own = {**modern_headers("tools/call", "view"), "Authorization": f"Bearer {TOKEN}", "Connection": "close"}
    own |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    lines = [b"POST /mcp HTTP/1.1", *(f"{name}: {value}".encode() for name, value in own.items()), *headers]
    lines += [b"Content-Length: %d" % len(VIEW), b"", VIEW]
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(b"\r\n".join(lines))
        return int((await stream.receive()).split(b" ")[1])


@pytest.mark.anyio
async def test_silent_connections_keep_no_client_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_access, "MOST_STRANGERS", 2)
    async with web(project) as server, contextlib.AsyncExitStack() as stack:
        host, _, port = server.url.removeprefix("http://").partition("/")[0].partition(":")

        async def connected() -> anyio.abc.ByteStream:
            return await stack.enter_async_context(await anyio.connect_tcp(host, int(port)))

        async def status(connection: anyio.abc.ByteStream, token: str) -> bytes:
            head = f"DELETE /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
            await connection.send(head.encode())
            return (await connection.receive()).split(b" ")[1]

        async def is_cut(connection: anyio.abc.ByteStream) -> bool:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while await connection.receive():
                    pass
            return True

        known, wrong = await connected(), await connected()
        assert await status(known, TOKEN) == b"400"  # no session is named, but the token is right
        assert await status(wrong, "x") == b"401"
        silent = [await connected() for _ in range(3)]
        assert await is_cut(wrong)
        assert await is_cut(silent[0])
        assert await status(await connected(), TOKEN) == b"400"
        assert await status(known, TOKEN) == b"400"


@pytest.mark.anyio
async def test_connections_are_limited_without_a_token(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 3)
    async with web(project, token=None) as server, contextlib.AsyncExitStack() as stack:
        host, _, port = server.url.removeprefix("http://").partition("/")[0].partition(":")
        statuses: list[bytes] = []
        for _n in range(3):
            connection = await stack.enter_async_context(await anyio.connect_tcp(host, int(port)))
            await connection.send(f"DELETE /mcp HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            statuses.append((await connection.receive()).split(b" ")[1])
        assert statuses == [b"400", b"400", b"503"]


@pytest.mark.anyio
async def test_names_are_checked_before_everything_else(project: Path) -> None:
    async with web(project) as server:
        ours = server.url.removeprefix("http://").partition("/")[0].encode()
        host, origin = b"Host: " + ours, b"Origin: http://" + ours
        assert await raw(server.url, host) == 200
        assert await raw(server.url, host, origin) == 200
        for wrong in (b"Origin: http://%s.evil.com" % ours, b"Origin:", b"Origin: null", b"Origin: \xff"):
            assert await raw(server.url, host, wrong) == 403, wrong
        assert await raw(server.url, host, origin, origin) == 403
        assert await raw(server.url, host, origin, b"Origin: http://evil.com") == 403
        assert await raw(server.url, b"Host: %s.evil.com" % ours) == 421
        assert await raw(server.url, b"Host: %s@evil.com" % ours) in (400, 421)
        assert await raw(server.url, b"Host:") in (400, 421)
        assert await raw(server.url, host, host) == 400  # the web server refuses it
        page = {"Origin": f"http://{ours.decode()}.evil.com", "Authorization": None}
        for path in ("", "/bob", "/no/such/path"):
            assert (await server.post(path=path, headers=page)).status_code == 403, path


def opening(protocol: str = "2025-11-25") -> bytes:
    params = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()


@pytest.mark.anyio
async def test_session_id_is_valid_only_on_its_path(project: Path) -> None:
    asked = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode()
    both = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with web(project) as server, httpx2.AsyncClient(timeout=SECONDS, headers=both) as http_client:

        async def send(method: str, path: str, session: str | None, token: str | None = TOKEN, **more: str) -> int:
            headers = {**more, **({} if session is None else {"Mcp-Session-Id": session})}
            headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
            content = asked if method == "POST" else None
            async with http_client.stream(method, server.url + path, content=content, headers=headers) as answer:
                return answer.status_code

        async def come(path: str) -> str:
            answer = await server.post(opening(), path=path, headers={"MCP-Protocol-Version": None})
            return answer.headers["Mcp-Session-Id"]

        alice, bob, default = await come("/alice"), await come("/bob"), await come("")
        for method in ("POST", "GET", "DELETE"):
            for path in ("/bob", "/ALICE", "/alice2", "/default", ""):
                assert await send(method, path, alice) == 404, (method, path)
                assert await send(method, path, alice, **{"MCP-Protocol-Version": "2025-11-25"}) == 404, (method, path)
            for path, session in (("/alice", bob), ("/alice", default), ("/bob", default)):
                assert await send(method, path, session) == 404, (method, path)
            for path in ("/alice", "/bob"):
                for token in (None, "another-token-of-the-tests", TOKEN[:-1]):
                    assert await send(method, path, alice, token) == 401, (method, path, token)
            for spelled in (alice.upper(), f"{alice}, {bob}", alice[:-1], ""):
                assert await send(method, "/alice", spelled) in (400, 404), (method, spelled)
        assert await send("DELETE", "/bob", alice, **{"MCP-Protocol-Version": "2026-07-28"}) in (400, 404, 405)
        for path, session in (("/alice", alice), ("/bob", bob), ("", default), ("/default", default)):
            assert await send("POST", path, session) == 200, path
        assert await send("GET", "/alice", alice) == 200
        assert await send("DELETE", "/%61lice", alice) == 200  # another spelling of the path
        assert await send("POST", "/alice", alice) == 404
        assert await send("POST", "/bob", bob) == 200


@pytest.mark.slow
@pytest.mark.anyio
async def test_invalid_session_path_is_not_found(project: Path) -> None:
    async with web(project) as server:
        for path in ("/a%20b", "/..%2f..", "/-x", "/" + "n" * 65, "/caf%C3%A9", "/%00"):
            answer = await server.post(path=path)
            assert answer.status_code == 404, path
            assert path == "/..%2f.." or "is not a session name: use 1 to 64 ASCII letters" in answer.text
        for path in ("/", "/a/b", "/a/"):
            assert (await server.post(path=path)).status_code == 404, path
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            assert (await client.put(server.url, content=VIEW)).status_code == 405
            asked = await client.options(server.url, headers={"Origin": "http://localhost"})
            assert asked.status_code == 405
            assert not [name for name in asked.headers if name.lower().startswith("access-control-")]


@pytest.mark.slow
@pytest.mark.anyio
async def test_invalid_bodies(project: Path) -> None:
    async with web(project) as server:
        huge = VIEW.replace(b"a.txt", b"a" * http.MAX_BODY_BYTES)
        assert (await server.post(huge)).status_code == 413
        assert (await server.post(huge, headers={"Authorization": None})).status_code == 401
        for content in (b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000):
            assert (await server.post(content)).status_code == 400, content[:10]
        assert (await server.post(headers={"Content-Type": "text/plain"})).status_code in (400, 415)
        assert (await server.post(headers=modern_headers("tools/call", "group"))).status_code == 400
        answer = await server.post(headers={"Mcp-Session-Id": "stolen", "MCP-Protocol-Version": None})
        assert answer.status_code == 404
        assert (await server.post()).status_code == 200


@pytest.mark.slow
@pytest.mark.anyio
async def test_unknown_protocol_version(project: Path) -> None:
    params = {"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    opening = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    async with web(project) as server:
        answer = await server.post(opening, headers={"MCP-Protocol-Version": None})
        assert '"protocolVersion":"2025-11-25"' in answer.text
        later = VIEW.replace(b"2026-07-28", b"2999-01-01")
        answer = await server.post(later, headers={"MCP-Protocol-Version": "2999-01-01"})
        assert answer.json()["error"]["code"] == -32022
        assert answer.json()["error"]["data"]["supported"] == ["2026-07-28"]
        assert (await server.post()).status_code == 200


@pytest.mark.slow
@pytest.mark.anyio
async def test_handshake_era_clients_are_limited(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_SESSIONS", 2)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with web(project) as server:

        async def come() -> int:
            body = json.dumps(first).encode()
            return (await server.post(body, headers={"MCP-Protocol-Version": None})).status_code

        assert [await come() for _ in range(3)] == [200, 200, 503]
        assert (await server.post()).status_code == 200


@pytest.mark.anyio
async def test_client_roots_narrow_the_limit(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "b.txt").write_text("b\n")

    async def roots(_context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root.model_validate({"uri": inner.as_uri()})])

    async with web(project) as server, server.client(era="legacy", list_roots_callback=roots) as caller:
        assert "b" in await caller.text("view", path="b.txt")
        assert "outside" in await caller.error("view", path=str(project / "a.txt"))


@pytest.mark.slow
@pytest.mark.anyio
async def test_roots_request_uses_the_stream_of_the_call(project: Path) -> None:
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "without a stream of its own", "version": "1"},
    }
    view: dict[str, Any] = {"name": "view", "arguments": {"path": "a.txt"}}
    headers = {
        "Authorization": f"Bearer {TOKEN}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    async with web(project) as server, httpx2.AsyncClient(headers=headers, timeout=SECONDS) as client:
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        client.headers["mcp-session-id"] = (await client.post(server.url, json=opening)).headers["mcp-session-id"]
        await client.post(server.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": view}
        said: list[dict[str, Any]] = []
        async with client.stream("POST", server.url, json=call) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    said.append(json.loads(line.removeprefix("data: ")))
                    if said[-1].get("method") == "roots/list":
                        roots = {"roots": [{"uri": project.as_uri()}]}
                        answer = {"jsonrpc": "2.0", "id": said[-1]["id"], "result": roots}
                        await client.post(server.url, json=answer)
        assert [each.get("method") for each in said] == ["roots/list", None]
        assert "one" in said[1]["result"]["content"][0]["text"]


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("era", ERAS)
async def test_subscriptions_are_separate_by_session(project: Path, era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tools.notifications.POLL_SECONDS", 0.05)
    heard: list[object] = []
    told = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.append(message.params.uri)
            told.set()

    (project / "other.txt").write_text("1\n")
    async with (
        web(project) as server,
        server.client("one", era=era, message_handler=hear) as one,
        server.client("two") as two,
    ):
        await one.text("view", path="a.txt", name="v", follow=True)
        await two.text("view", path="other.txt", name="v", follow=True)
        if era == "legacy":
            await one.client.subscribe_resource("view://v")  # pyright: ignore[reportDeprecated]
            (project / "other.txt").write_text("2\n")
            await anyio.sleep(0.3)
            assert heard == []
            (project / "a.txt").write_text("three\n")
            await told.wait()
            assert set(heard) == {"view://v"}
        else:
            async with (
                one.client.listen(resource_subscriptions=["view://v"]) as events,
                two.client.listen(resource_subscriptions=["view://v"]) as others,
            ):
                (project / "other.txt").write_text("2\n")
                assert await anext(aiter(others)) == ResourceUpdated(uri="view://v")
                with anyio.move_on_after(0.3) as quiet:
                    await anext(aiter(events))
                assert quiet.cancelled_caught
            async with one.client.listen(resource_subscriptions=["view://v"]) as events:
                (project / "a.txt").write_text("three\n")
                assert await anext(aiter(events)) == ResourceUpdated(uri="view://v")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_server_and_its_processes(project: Path, number: signal.Signals) -> None:
    state = project.parent / "state"
    server = subprocess.Popen(
        [str(SCRIPT), "--http", "0"],
        cwd=project,
        env={**os.environ, "REWINDOW_STATE_DIR": str(state)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    said = server.stderr.readline()
    token = (state / FILE_NAME).read_text().strip()
    assert token not in said
    assert said.endswith(f"the bearer token is in {state / FILE_NAME}\n")
    url = said.split()[2].rstrip(",")
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    with httpx2.Client(headers=headers, timeout=SECONDS) as client:
        answer = client.post(url, content=VIEW, headers=modern_headers("tools/call", "view"))
        assert "one" in answer.json()["result"]["content"][0]["text"]
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        session = client.post(url, json=opening).headers["mcp-session-id"]
        meta = json.loads(VIEW)["params"]["_meta"]
        listen = {"_meta": meta, "notifications": {"resourceSubscriptions": ["view://a"]}}
        listening = {"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": listen}
        with (
            client.stream("GET", url, headers={"mcp-session-id": session}) as open_stream,
            client.stream("POST", url, json=listening, headers=modern_headers("subscriptions/listen", "")) as listened,
        ):
            assert (open_stream.status_code, listened.status_code) == (200, 200)
            started = psutil.Process(server.pid).children(recursive=True)
            assert started
            server.send_signal(number)
            # No call is running, so the stream ends as usual.
            listened.read()
            assert server.wait(SECONDS) == 128 + number
    _, left = psutil.wait_procs(started, SECONDS)
    assert not left
    rest = server.stderr.read()
    server.stderr.close()
    assert rest == ""


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_stale_subscriptions_make_room(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tools.notifications.POLL_SECONDS", 0.05)
    monkeypatch.setattr("mcp_tools.notifications.MAX_SUBSCRIPTIONS", 1)
    told = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.set()

    async with web(project) as server:
        async with server.client(era="legacy") as gone:
            await gone.text("view", path="a.txt", name="v", follow=True)
            await gone.client.subscribe_resource("view://w")  # pyright: ignore[reportDeprecated]
        async with server.client(era="legacy", message_handler=hear) as there:
            for _ in range(2):
                await there.client.subscribe_resource("view://v")  # pyright: ignore[reportDeprecated]
            await anyio.sleep(0.3)
            (project / "a.txt").write_text("three\n")
            await told.wait()


@pytest.mark.anyio
async def test_early_disconnect_is_not_logged(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    transport = logging.getLogger("mcp.server.streamable_http")
    async with web(project):
        for error in (anyio.ClosedResourceError(), anyio.BrokenResourceError(), ValueError("another")):
            transport.error("Error handling POST request", exc_info=error)
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
