"""The server over HTTP in both eras: whose session a path is, and who is turned away."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ListRootsResult, ResourceUpdatedNotification, Root

from mcp_tools import http
from mcp_tools.access import FILE_NAME, VARIABLE, Access, AccessError, Token, address_of, token_of
from tests.support.mcp_clients import ERAS, SCRIPT, Era
from tests.support.mcp_http import TOKEN, VIEW, Web, modern_headers, web

SECONDS = 30


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\n")
    return root


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_clients_of_one_name_share_its_handles_and_no_others(project: Path, era: Era) -> None:
    async with web(project) as server, server.client("work", era=era) as one:
        assert (await one.text("view", path="a.txt")).startswith("a  a.txt  lines 1-2 of 2  ")
        async with server.client("work") as same, server.client("play", era=era) as other, server.client() as default:
            assert "two" in await same.text("view", name="a")
            for caller in (other, default):
                assert await caller.text("view") == "No handles. `view` with a path opens one."
            assert "view://a" in {each.uri for each in (await same.client.list_resources()).resources}
            assert "There is no view a" in await other.error("view", name="a")
        async with server.client("default", era=era) as named, server.client() as default:
            await default.text("view", path="a.txt", name="mine")
            assert "two" in await named.text("view", name="mine")


@pytest.mark.anyio
async def test_nobody_comes_in_without_the_token(project: Path) -> None:
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


def test_a_token_is_presented_once() -> None:
    right = f"Bearer {TOKEN}".encode()
    token = Token(TOKEN, "a test")
    assert token.is_given_by([right])
    assert not token.is_given_by([right, right])
    assert not token.is_given_by([])
    assert not token.is_given_by([b"Bearer \xff\xfe"])


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("address", ["0", "0.0.0.0:0"])
async def test_what_is_addressed_to_another_name_is_refused(project: Path, address: str) -> None:
    async with web(project, address=address, hosts=("box.lan",)) as server:
        reached = Web(server.url.replace("0.0.0.0", "127.0.0.1"))
        for host in ("evil.com", "evil.com:80", "localhost.evil.com", "127.0.0.1.evil.com:80"):
            assert (await reached.post(headers={"Host": host})).status_code == 421, host
        for origin in ("http://evil.com", "null", "file://", "http://localhost.evil.com"):
            assert (await reached.post(headers={"Origin": origin})).status_code == 403, origin
        for host in ("localhost", "localhost:1", "box.lan", "box.lan:80"):
            assert (await reached.post(headers={"Host": host, "Origin": f"http://{host}"})).status_code == 200, host


NOT_OURS = [
    b"",
    b" ",
    b"null",
    b"evil.com",
    b"localhost.evil.com",
    b"127.0.0.1.evil.com",
    b"evil.com#localhost",
    b"127.0.0.1:8765.evil.com",  # the transport's own check took it for a port
    b"127.0.0.1:8765@evil.com",
    b"127.0.0.1@evil.com",
    b"evil.com@127.0.0.1",
    b"user:word@127.0.0.1:8765",
    b"127.0.0.1:",
    b"127.0.0.1:0",
    b"127.0.0.1:08765",
    b"127.0.0.1:65536",
    b"127.0.0.1:99999999999999999999",
    b"127.0.0.1:-1",
    b"127.0.0.1:+80",
    b"127.0.0.1:8_0",
    b"127.0.0.1: 80",
    b"127.0.0.1:80:80",
    b"127.0.0.1:80/",
    b"127.0.0.1/mcp",
    b"127.0.0.1\\evil.com",
    b"127.0.0.1,127.0.0.1",
    b"127.0.0.1 127.0.0.1",
    b"127.0.0.1\n",
    b"127.0.0.1\x00",
    b"127.0.0.1.",
    b"localhost.",
    b"LOCALHOST",
    b"127.1",
    b"2130706433",
    b"0x7f.0.0.1",
    b"127.0.0.2",
    b"0.0.0.0",
    b"::1",
    b"[::1",
    b"[::1]8765",
    b"[::1]:0",
    b"[::1].evil.com",
    b"[::1%25lo]",
    b"[0:0:0:0:0:0:0:1]",
    b"[::ffff:127.0.0.1]",
    b"[::ffff:7f00:1]",
    b"[127.0.0.1]",
    "localhost:\u0668\u0660".encode(),  # digits, but not ASCII's
    "l\u043ecalhost".encode(),
    "\uff4cocalhost".encode(),
    b"localhost\xff",
    b"xn--localhost-",
]
OURS = [b"127.0.0.1", b"localhost", b"[::1]", b"127.0.0.1:1", b"localhost:65535", b"[::1]:8765", b"box.lan:443"]


@pytest.mark.parametrize("given", NOT_OURS)
def test_a_name_that_is_not_ours_is_no_host_and_no_origin(given: bytes) -> None:
    access = Access(address=address_of("8765"), token=None, hosts=("box.lan",))
    assert not access.is_host([given])
    assert not access.is_origin([b"http://" + given])
    assert not access.is_origin([b"https://" + given])


@pytest.mark.parametrize("given", OURS)
def test_a_name_of_ours_with_any_port_is_a_host_and_an_origin(given: bytes) -> None:
    access = Access(address=address_of("8765"), token=None, hosts=("box.lan",))
    assert access.is_host([given])
    assert access.is_origin([b"http://" + given])
    assert access.is_origin([b"https://" + given])


@pytest.mark.parametrize(
    "given",
    [b"", b"null", b"localhost", b"//localhost", b"://localhost", b"http:localhost", b"http:/localhost", b"http://",
     b"http:///localhost", b"HTTP://localhost", b"ftp://localhost", b"file://localhost", b"file://", b"ws://localhost",
     b"httpx://localhost", b"chrome-extension://localhost", b"http://http://localhost", b" http://localhost",
     b"http://localhost/", b"http://localhost?", b"http://localhost#a", b"http://localhost http://evil.com"],
)  # fmt: skip
def test_what_is_no_origin_with_a_name_of_ours_is_refused(given: bytes) -> None:
    assert not Access(address=address_of("8765"), token=None).is_origin([given])


def test_a_request_has_one_host_and_at_most_one_origin() -> None:
    access = Access(address=address_of("8765"), token=None)
    assert access.is_origin([])
    assert not access.is_origin([b"http://localhost"] * 2)
    assert not access.is_origin([b"http://localhost", b"http://evil.com"])
    assert not access.is_host([])
    assert not access.is_host([b"localhost"] * 2)
    assert not access.is_host([b"localhost", b"evil.com"])


async def raw(url: str, *headers: bytes) -> int:
    """The status of a call with exactly these headers beside its own, as bytes that no client would send."""
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
    own = {**modern_headers("tools/call", "view"), "Authorization": f"Bearer {TOKEN}", "Connection": "close"}
    own |= {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    lines = [b"POST /mcp HTTP/1.1", *(f"{name}: {value}".encode() for name, value in own.items()), *headers]
    lines += [b"Content-Length: %d" % len(VIEW), b"", VIEW]
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(b"\r\n".join(lines))
        return int((await stream.receive()).split(b" ")[1])


@pytest.mark.anyio
async def test_names_are_compared_ahead_of_all_else(project: Path) -> None:
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
        assert await raw(server.url, host, host) == 400  # the web server's own answer
        page = {"Origin": f"http://{ours.decode()}.evil.com", "Authorization": None}
        for path in ("", "/bob", "/no/such/path"):
            assert (await server.post(path=path, headers=page)).status_code == 403, path


def opening(protocol: str = "2025-11-25") -> bytes:
    params = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()


@pytest.mark.anyio
async def test_a_session_id_counts_on_the_path_that_it_was_issued_for_alone(project: Path) -> None:
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
        assert await send("DELETE", "/%61lice", alice) == 200  # the same path, spelled otherwise
        assert await send("POST", "/alice", alice) == 404
        assert await send("POST", "/bob", bob) == 200


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_path_that_names_no_session_is_not_found(project: Path) -> None:
    async with web(project) as server:
        for path in ("/a%20b", "/..%2f..", "/-x", "/" + "n" * 65, "/caf%C3%A9", "/%00"):
            answer = await server.post(path=path)
            assert answer.status_code == 404, path
            assert path == "/..%2f.." or "is no name of a session: take 1 to 64 ASCII letters" in answer.text
        for path in ("/", "/a/b", "/a/"):
            assert (await server.post(path=path)).status_code == 404, path
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            assert (await client.put(server.url, content=VIEW)).status_code == 405
            asked = await client.options(server.url, headers={"Origin": "http://localhost"})
            assert asked.status_code == 405
            assert not [name for name in asked.headers if name.lower().startswith("access-control-")]


@pytest.mark.slow
@pytest.mark.anyio
async def test_bad_bodies_are_answered_and_end_nothing(project: Path) -> None:
    async with web(project) as server:
        huge = VIEW.replace(b"a.txt", b"a" * http.MOST_BODY_BYTES)
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
async def test_a_version_that_nobody_knows_is_answered_with_one_that_is_known(project: Path) -> None:
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
async def test_there_is_a_limit_on_clients_of_the_handshake_era(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_SESSIONS", 2)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with web(project) as server:

        async def come() -> int:
            body = json.dumps(first).encode()
            return (await server.post(body, headers={"MCP-Protocol-Version": None})).status_code

        assert [await come() for _ in range(3)] == [200, 200, 503]
        assert (await server.post()).status_code == 200


@pytest.mark.anyio
async def test_a_client_of_the_handshake_era_narrows_the_roots(project: Path) -> None:
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
async def test_roots_are_asked_for_on_the_stream_of_the_call(project: Path) -> None:
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
async def test_a_subscriber_hears_of_its_own_session_alone(
    project: Path, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools.feed.POLL_SECONDS", 0.05)
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


@pytest.mark.parametrize(
    ("given", "host", "port", "is_loopback"),
    [
        ("8765", "127.0.0.1", 8765, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:1", "::1", 1, True),
        ("0.0.0.0:65535", "0.0.0.0", 65535, False),
        ("127.9.9.9:1", "127.9.9.9", 1, True),
    ],
)
def test_an_address_is_loopback_without_a_host(given: str, host: str, port: int, is_loopback: bool) -> None:
    address = address_of(given)
    assert (address.host, address.port, address.is_loopback) == (host, port, is_loopback)


@pytest.mark.parametrize(
    "given", ["", "x", "-1", "65536", "1e3", "99999999999", "no such host:1", "host.invalid:1", "²"]
)
def test_what_is_no_address_is_said(given: str) -> None:
    with pytest.raises(AccessError, match="--http"):
        address_of(given)


def test_what_an_address_is_called() -> None:
    assert Access(address=address_of("0"), token=None).allowed == ("127.0.0.1", "localhost", "[::1]")
    allowed = Access(address=address_of("0.0.0.0:0"), token=None, hosts=("box.lan",)).allowed
    assert allowed == ("127.0.0.1", "localhost", "[::1]", socket.gethostname(), "box.lan")


def test_a_token_is_made_once_for_its_owner(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = token_of(None, None, tmp_path / "state")
    finally:
        os.umask(before)
    path = tmp_path / "state" / FILE_NAME
    assert (len(made.value), made.where) == (43, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert token_of(None, None, tmp_path / "state") == made
    assert os.listdir(path.parent) == [FILE_NAME]
    assert token_of(None, "x" * 16, tmp_path / "state") == Token("x" * 16, f"the variable {VARIABLE}")
    other = tmp_path / "other"
    other.write_text("y" * 20 + "\n")
    other.chmod(0o400)
    assert token_of(str(other), "x" * 16, tmp_path) == Token("y" * 20, str(other))


@pytest.mark.parametrize("text", ["", "short", "two words in one line", "caf\u00e9" * 9, "x" * 5000, "a" * 20 + "\0"])
def test_what_is_no_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(AccessError, match="holds no token"):
        token_of(str(path), None, tmp_path)
    with pytest.raises(AccessError, match="holds no token"):
        token_of(None, text, tmp_path)


def test_a_token_that_others_read_is_none(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("x" * 40)
    path.chmod(0o640)
    with pytest.raises(AccessError, match="can be read by others; run `chmod 600`"):
        token_of(None, None, tmp_path)
    for name in ("nothing", "."):
        with pytest.raises(AccessError):
            token_of(str(tmp_path / name), None, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AccessError, match="is no file"):
        token_of(str(tmp_path / "pipe"), None, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--http", "x"), "--http takes [HOST:]PORT with a port from 0 to 65535, not 'x'"),
        (("--http", "0", "--session", "a"), "--session does not go with --http"),
        (("--http", "0", "--no-token", "--allow-run=unsandboxed"), "--no-token does not go with --allow-run"),
        (("--http", "0.0.0.0:0", "--no-token"), "--no-token is for a loopback address"),
        (("--http", "0", "--no-token", "--token-file", "x"), "either --token-file or --no-token"),
        (("--http", "0", "--token-file", "nowhere"), "the token cannot be read from nowhere: No such file"),
        (("--http", "192.0.2.1:1"), "cannot listen on 192.0.2.1:1: "),
        (("--no-token",), "--token-file, --no-token and --allow-host go with --http"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_a_two(project: Path, options: tuple[str, ...], sentence: str) -> None:
    environ = {**os.environ, "REWINDOW_STATE_DIR": str(project.parent / "state")}
    done = subprocess.run(
        [str(SCRIPT), *options], cwd=project, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rewindow-mcp: {sentence}")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_all_it_started(project: Path, number: signal.Signals) -> None:
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
            # No call was under way, so nothing is cut short: what was listened to ends as it would at any other time.
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
async def test_subscriptions_of_who_is_gone_keep_nobody_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tools.feed.POLL_SECONDS", 0.05)
    monkeypatch.setattr("mcp_tools.feed.MOST_SUBSCRIPTIONS", 1)
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
async def test_of_a_client_that_is_gone_before_it_is_served_nothing_is_logged(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transport = logging.getLogger("mcp.server.streamable_http")
    async with web(project):
        for error in (anyio.ClosedResourceError(), anyio.BrokenResourceError(), ValueError("another")):
            transport.error("Error handling POST request", exc_info=error)
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
