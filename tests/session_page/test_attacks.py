"""What a served page must withstand: pages of others, programs of others, statements, and texts that would run.

Each row of `ATTACKS` is one request as an attacker would send it, with the right token wherever it is not the target.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
import pytest

from engine.core import web_access
from engine.core.clock import SystemClock
from engine.core.ids import SessionId
from engine.log.redaction import Redactor
from engine.log.store.memory import MemoryStore
from engine.runtime.system.peers import Endpoint, Peer
from session_page import app
from session_page.access import TICKET_SECONDS, Access
from session_page.assembly import SHELL
from session_page.guard import HEADERS, NOT_ALLOWED, OTHER_USER, STATEMENT, WRONG_HOST, WRONG_ORIGIN
from tests.support.page_server import Client, served, session_of
from tests.support.page_sessions import HOSTILE, hostile_events
from tests.support.stores import kept_log

SECRET = "geheimes-passwort-1"
Headers = dict[str, str]


class Attack(NamedTuple):
    """A request, and the status that it must get. `{port}` and `{token}` stand for the server's."""

    name: str
    status: int
    path: str = "/api/sessions"
    headers: tuple[tuple[str, str], ...] = (("authorization", "Bearer {token}"),)
    method: str = "GET"
    body: str = ""
    host: str | None = "127.0.0.1:{port}"


def _host(name: str, host: str | None) -> Attack:
    return Attack(f"host: {name}", 421, host=host)


def _with(name: str, status: int, *more: tuple[str, str]) -> Attack:
    return Attack(name, status, headers=(("authorization", "Bearer {token}"), *more))


def _token(name: str, *headers: tuple[str, str], path: str = "/api/sessions") -> Attack:
    return Attack(f"token: {name}", 401, path, headers)


def _action(name: str, status: int, body: str, kind: str = "application/json", method: str = "POST") -> Attack:
    headers = (("authorization", "Bearer {token}"), ("content-type", kind))
    return Attack(f"action: {name}", status, "/api/sessions/{session}/actions", headers, method, body)


def _path(name: str, path: str, status: int = 404) -> Attack:
    return Attack(f"path: {name}", status, path)


ATTACKS = (
    # DNS rebinding: a name of the attacker's that resolves to 127.0.0.1.
    _host("the attacker's name", "evil.example"),
    _host("the attacker's name with our port", "evil.example:{port}"),
    _host("a name that begins like ours", "127.0.0.1:{port}.evil.example"),
    _host("a name below ours", "localhost.evil.example:{port}"),
    _host("a final dot", "localhost.:{port}"),
    _host("a user before our name", "127.0.0.1:{port}@evil.example"),
    _host("our name after a user", "evil.example@127.0.0.1:{port}"),
    _host("another port", "127.0.0.1:1"),
    _host("no port", "127.0.0.1"),
    _host("another spelling of the address", "127.1:{port}"),
    _host("the address as a number", "2130706433:{port}"),
    _host("all addresses", "0.0.0.0:{port}"),
    _host("a space", "127.0.0.1 :{port}"),
    # Requests of other pages.
    _with("origin: another site", 403, ("origin", "https://evil.example")),
    _with("origin: a file or a frame without one", 403, ("origin", "null")),
    _with("origin: another server of this machine", 403, ("origin", "http://127.0.0.1:1")),
    _with("origin: our name without a port", 403, ("origin", "http://127.0.0.1")),
    _with("origin: another scheme", 403, ("origin", "https://127.0.0.1:{port}")),
    _with("origin: a name that begins like ours", 403, ("origin", "http://127.0.0.1:{port}.evil.example")),
    _with("origin: an extension", 403, ("origin", "chrome-extension://abcdef")),
    _with("origin: two", 403, ("origin", "http://127.0.0.1:{port}"), ("origin", "https://evil.example")),
    _with("origin: empty", 403, ("origin", "")),
    _with("fetch metadata: another site", 403, ("sec-fetch-site", "cross-site")),
    _with("fetch metadata: another port of this machine", 403, ("sec-fetch-site", "same-site")),
    # Without the token, or with it in a place from which it could leak.
    _token("none"),
    _token("empty", ("authorization", "")),
    _token("only the scheme", ("authorization", "Bearer ")),
    _token("wrong", ("authorization", "Bearer " + "x" * 43)),
    _token("one letter more", ("authorization", "Bearer {token}x")),
    _token("another scheme", ("authorization", "Basic {token}")),
    _token("two headers", ("authorization", "Bearer {token}"), ("authorization", "Bearer {token}")),
    _token("in a cookie", ("cookie", "token={token}")),
    _token("in the query", path="/api/sessions?token={token}"),
    _token("in another header", ("x-token", "{token}")),
    Attack("token: a live stream without one", 401, "/api/sessions/{session}/live?after=0", ()),
    Attack("token: an action without one", 401, "/api/sessions/{session}/actions", (), "POST", '{"action":"open"}'),
    # Tickets.
    Attack("ticket: guessed", 403, "/api/token", (), "POST", '{"ticket":"' + "x" * 43 + '"}'),
    Attack("ticket: empty", 403, "/api/token", (), "POST", '{"ticket":""}'),
    Attack("ticket: not text", 403, "/api/token", (), "POST", '{"ticket":{"$ne":""}}'),
    Attack("ticket: the token", 403, "/api/token", (), "POST", '{"ticket":"{token}"}'),
    Attack("ticket: by a link", 405, "/api/token?ticket=x", ()),
    Attack("ticket: from another page", 403, "/api/token", (("origin", "https://evil.example"),), "POST", "{}"),
    # Actions that a form of another page could send, and those that are malformed.
    _action("as a form", 400, "action=open", "application/x-www-form-urlencoded"),
    _action("as plain text", 400, '{"action":"open"}', "text/plain"),
    _action("as parts of a form", 400, '{"action":"open"}', "multipart/form-data; boundary=x"),
    _action("by a link", 405, "", method="GET"),
    _action("unknown", 400, '{"action":"shell","command":"id"}'),
    _action("with an unknown field", 400, '{"action":"prompt","branch":"main","text":"1","mode":"auto"}'),
    _action("with another type", 400, '{"action":"rewind","branch":"main","statement":"1"}'),
    _action("nested too deep", 400, "[" * 100_000),
    _action("not JSON", 400, '{"action":'),
    _action("on a branch that is not active", 409, '{"action":"rewind","branch":"b7","statement":0}'),
    _action("to a statement that is not there", 409, '{"action":"rewind","branch":"main","statement":99}'),
    _action("of a huge number", 409, '{"action":"rewind","branch":"main","statement":9223372036854775807}'),
    _action("longer than the limit", 413, '{"action":"prompt","branch":"main","text":"' + "x" * app.MAX_BODY + '"}'),
    _action("with an answer to no question", 409, '{"action":"answer","question":"1","outcome":"allowed"}'),
    # Addresses.
    _path("out of the bundle", "/../../etc/passwd"),
    _path("out of the bundle, encoded", "/%2e%2e/%2e%2e/etc/passwd"),
    _path("a source of ours", "/access.py"),
    _path("another server, which a redirect would reach", "//evil.example/"),
    _path("a slash at the end", "/api/sessions/"),
    _path("a session that is not there", "/api/sessions/ses_other"),
    _path("a script as a session", "/api/sessions/%3Cscript%3Ealert(1)%3C%2Fscript%3E"),
    _path("lines in a session's name", "/api/sessions/a%0d%0aSet-Cookie:%20x=y"),
    _path("a content that the session does not name", "/api/sessions/{session}/contents/blake2b-" + "0" * 40),
    _path("a script as a branch", "/api/sessions/{session}/compare?left=%3Cscript%3E&right=main", 409),
    _path("no position", "/api/sessions/{session}/live?after=x", 400),
    _path("a position that is too long", "/api/sessions/{session}/live?after=" + "9" * 100, 400),
    _path("a negative position", "/api/sessions/{session}/live?after=-1", 400),
    _path("digits of another script", "/api/sessions/{session}/live?after=%D9%A1", 400),
    _path("a search for nothing", "/api/sessions/{session}/search?q=%20", 400),
    # Methods.
    Attack("method: a preflight of another page", 403, headers=(("origin", "https://evil.example"),), method="OPTIONS"),
    Attack("method: DELETE", 405, "/api/sessions/{session}", method="DELETE"),
    Attack("method: PUT", 405, "/page.js", method="PUT"),
    Attack("method: TRACE", 405, "/", method="TRACE"),
    _with("method: one in another's header", 200, ("x-http-method-override", "DELETE")),
)


class Place(NamedTuple):
    client: Client
    session: SessionId

    def filled(self, text: str) -> str:
        parts = {"port": str(self.client.server.access.port), "token": self.client.token, "session": self.session}
        for name, value in parts.items():
            text = text.replace(f"{{{name}}}", value)
        return text


def sent(place: Place, attack: Attack) -> tuple[int, dict[str, list[str]], bytes]:
    """The status, headers and body of the response to a request that is sent as it stands."""
    lines = [f"{attack.method} {place.filled(attack.path)} HTTP/1.1", "connection: close"]
    if attack.host is not None:
        lines.append(f"host: {place.filled(attack.host)}")
    lines += [f"{name}: {place.filled(value)}" for name, value in attack.headers]
    body = place.filled(attack.body).encode()
    if body:
        lines.append(f"content-length: {len(body)}")
    with socket.create_connection(("127.0.0.1", place.client.server.access.port), timeout=20) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        data = b""
        # The server may refuse the head and close, so that the rest of the body breaks the connection: before it is
        # sent, or after the response was received.
        with contextlib.suppress(OSError):
            connection.sendall(body)
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    headers: dict[str, list[str]] = {}
    for field in fields:
        name, _, value = field.partition(": ")
        headers.setdefault(name.lower(), []).append(value)
    return int(status.split()[1]), headers, rest


async def test_no_attack_gets_through(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        place, store = Place(client, session), client.server._store
        wrong: dict[str, object] = {}
        for attack in ATTACKS:
            status, headers, body = await anyio.to_thread.run_sync(sent, place, attack)
            if problem := problem_of(attack, place, status, headers, body):
                wrong[attack.name] = (problem, status, body[:200])
        assert wrong == {}
        changed = {event.kind for event in store.load(session)} & {"head_moved", "rewound", "branch_created"}
        assert not changed
        assert sum(event.kind == "statement_recorded" for event in store.load(session)) == 1


def problem_of(attack: Attack, place: Place, status: int, headers: dict[str, list[str]], body: bytes) -> str:
    if status != attack.status:
        return f"status {status} instead of {attack.status}"
    if place.client.token.encode() in body:
        return "the token is in it"
    if {name for name in headers if name.startswith("access-control") or name in ("location", "set-cookie")}:
        return "it has a header that gives something away"
    if any(headers.get(name.lower()) != [value] for name, value in HEADERS.items()):
        return "a header for the browser is missing"
    if status >= 400 and status != 405 and json.loads(body).keys() != {"error"}:
        return "it has no sentence"
    return ""


def test_there_are_at_least_forty_attacks() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 40


async def test_refusals_say_which_part_was_wrong(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        place = Place(client, SessionId("ses_a"))
        for attack, sentence in (
            (_host("x", "evil.example"), WRONG_HOST),
            (_with("x", 403, ("origin", "https://evil.example")), WRONG_ORIGIN),
            (_token("x"), NOT_ALLOWED),
        ):
            _, _, body = await anyio.to_thread.run_sync(sent, place, attack)
            assert json.loads(body) == {"error": sentence}


# --- peers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("peer", "sentence"), [(Peer.STATEMENT, STATEMENT), (Peer.OTHER_USER, OTHER_USER)])
async def test_token_does_not_help_statements_and_other_users(tmp_path: Path, peer: Peer, sentence: str) -> None:
    async def find(_server: Endpoint, _client: Endpoint) -> Peer:
        return peer

    async with served(tmp_path, find_peer=find) as (client, _):
        response = await client.get("/api/sessions")
        assert (response.status_code, response.json()) == (403, {"error": sentence})
        ticket = client.server.access.ticket()
        refused = await client.http.post(f"{client.base}/api/token", json={"ticket": ticket})
        assert refused.status_code == 403
        assert client.server.access.redeem(ticket) == client.token  # the attempt did not use it up
        assert (await client.get("/")).status_code == 200


async def test_each_connection_is_asked_about(tmp_path: Path) -> None:
    asked: list[Endpoint] = []

    async def find(_server: Endpoint, client: Endpoint) -> Peer:
        asked.append(client)
        return Peer.STATEMENT if len(asked) > 1 else Peer.STRANGER

    async with served(tmp_path, find_peer=find) as (client, _):
        place = Place(client, SessionId("ses_a"))
        statuses = [(await anyio.to_thread.run_sync(sent, place, _with("x", 200)))[0] for _ in range(2)]
        assert statuses == [200, 403]
        assert len(set(asked)) == 2


async def test_who_takes_a_port_that_was_a_browsers_is_asked_about(tmp_path: Path) -> None:
    asked: list[Endpoint] = []

    async def find(_server: Endpoint, client: Endpoint) -> Peer:
        asked.append(client)
        return Peer.STATEMENT if len(asked) > 1 else Peer.STRANGER

    async with served(tmp_path, find_peer=find) as (client, _):
        port = 0

        def statuses(requests: int) -> list[int]:
            nonlocal port
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no TIME_WAIT
                connection.bind(("127.0.0.1", port))
                connection.connect(("127.0.0.1", client.server.access.port))
                port = connection.getsockname()[1]
                found: list[int] = []
                for _ in range(requests):
                    line = f"GET /api/sessions HTTP/1.1\r\nHost: 127.0.0.1:{client.server.access.port}\r\n"
                    connection.sendall(f"{line}Authorization: Bearer {client.token}\r\n\r\n".encode())
                    response = http.client.HTTPResponse(connection)
                    response.begin()
                    response.read()
                    found.append(response.status)
                return found

        assert await anyio.to_thread.run_sync(statuses, 2) == [200, 200]
        await eventually(lambda: not client.server._app._peers)
        assert await anyio.to_thread.run_sync(statuses, 1) == [403]
        assert len(asked) == 2


async def test_silent_connections_keep_no_browser_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_access, "MOST_STRANGERS", 2)
    async with served(tmp_path) as (client, _), contextlib.AsyncExitStack() as stack:
        port = client.server.access.port

        async def connected() -> anyio.abc.ByteStream:
            return await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))

        async def has_answer(connection: anyio.abc.ByteStream, path: str, *headers: str) -> bool:
            lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", "")
            await connection.send("\r\n".join(lines).encode())
            return (await connection.receive()).startswith(b"HTTP/1.1 200")

        async def is_cut(connection: anyio.abc.ByteStream) -> bool:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while await connection.receive():
                    pass
            return True

        with_token = "/api/sessions", f"Authorization: Bearer {client.token}"
        known, shell = await connected(), await connected()
        assert await has_answer(known, *with_token)
        assert await has_answer(shell, "/")  # which needs no token
        silent = [await connected() for _ in range(3)]
        assert await is_cut(shell)
        assert await is_cut(silent[0])
        assert await has_answer(await connected(), *with_token)
        assert await has_answer(known, *with_token)


# --- tickets ----------------------------------------------------------------------------------------------------------


async def test_ticket_is_good_once(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        ticket = client.server.access.ticket()
        answers = [await client.http.post(f"{client.base}/api/token", json={"ticket": ticket}) for _ in range(2)]
        assert [each.status_code for each in answers] == [200, 403]
        assert answers[0].json() == {"token": client.token}


def test_ticket_ends_after_a_minute() -> None:
    now = [0.0]
    access = Access(1, lambda: now[0])
    early, late = access.ticket(), access.ticket()
    now[0] = TICKET_SECONDS
    assert access.redeem(early) == access.token
    now[0] += 0.1
    assert access.redeem(late) is None
    assert access.redeem("\ud800") is None


def test_tickets_do_not_pile_up() -> None:
    access = Access(1, lambda: 0.0)
    first, *rest = [access.ticket() for _ in range(200)]
    assert access.redeem(first) is None
    assert access.redeem(rest[-1]) == access.token


def test_secrets_are_new_for_each_server() -> None:
    tokens = {Access(1, lambda: 0.0).token for _ in range(50)}
    assert (len(tokens), {len(token) for token in tokens}) == (50, {43})


# --- texts ------------------------------------------------------------------------------------------------------------


def hostile_store() -> MemoryStore:
    store = MemoryStore(SystemClock())
    kept_log(store, SessionId("ses_hostile"), "/work", hostile_events())
    return store


async def test_shell_has_no_text_of_a_session(tmp_path: Path) -> None:
    async with served(tmp_path, hostile_store()) as (client, _):
        await client.json("/api/sessions/ses_hostile")
        response = await client.get("/?session=%3Cscript%3E")
        assert (response.text, response.headers["content-type"]) == (SHELL, "text/html; charset=utf-8")


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_texts_are_data(tmp_path: Path, text: str) -> None:
    async with served(tmp_path, hostile_store()) as (client, _):
        response = await client.get("/api/sessions/ses_hostile")
        assert response.headers["content-type"] == "application/json"
        assert text in json.dumps(response.json(), ensure_ascii=False).encode().decode(
            "unicode_escape", "replace"
        ) or any(text in each for each in strings(response.json()))
        found = await client.http.get(
            f"{client.base}/api/sessions/ses_hostile/search", params={"q": text}, headers=client.headers()
        )
        assert found.headers["content-type"] == "application/json"
        assert all(text.casefold() in hit["excerpt"].casefold() for hit in found.json()["found"])
        assert found.json()["found"]


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


async def test_a_line_of_ten_megabytes_is_served_in_part(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, f"text = '{'x' * 400_000}'")
        document = await client.get(f"/api/sessions/{session}")
        assert len(document.content) < 20_000
        (statement,) = document.json()["document"]["statements"]
        content = await client.json(f"/api/sessions/{session}/contents/{statement['source']['digest']}")
        assert len(content["text"]) == statement["source"]["size"] > 400_000


# --- secrets ----------------------------------------------------------------------------------------------------------


async def test_a_secret_is_in_nothing_that_is_served(tmp_path: Path) -> None:
    """It was stored before it was known as one."""
    (tmp_path / SECRET).write_text(SECRET)
    store = MemoryStore(SystemClock())
    async with served(tmp_path / "state", store) as (_, host):
        session = await session_of(
            host, tmp_path, f"x = '{SECRET}'\nprint(x)\nx", f"write('a.txt', '{SECRET}')", f"1 / 0  # {SECRET}"
        )
    async with served(tmp_path / "state", store, hidden=Redactor([SECRET])) as (client, _):
        document = await client.get(f"/api/sessions/{session}")
        digests = {text for text in strings(document.json()) if text.startswith("blake2b-")}
        contents = [await client.get(f"/api/sessions/{session}/contents/{digest}") for digest in digests]
        search = await client.get(f"/api/sessions/{session}/search?q={SECRET}")
        names = [await client.get("/api/sessions"), await client.get(f"/api/sessions/{SECRET}")]
        assert all(SECRET not in each.text for each in (document, *contents, search, *names))
        assert search.json()["found"] == []


async def test_an_unexpected_failure_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as (client, _):

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError(f"at /home/me, with {SECRET}")

        monkeypatch.setattr(client.server._app._app._sessions, "rows", fail)
        response = await client.get("/api/sessions")
        assert (response.status_code, response.json()) == (500, {"error": app.FAILED})
    assert "a request to the page failed" in caplog.text


def has_text(place: Path, text: bytes) -> bool:
    """Whether a file, or one below the place, has the text."""
    files = [each for each in place.rglob("*") if each.is_file()] if place.is_dir() else [place]
    return any(text in each.read_bytes() for each in files)


async def test_the_token_is_written_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = tmp_path / "state"
    async with served(state) as (client, host):
        session = await session_of(host, tmp_path, "1")
        await client.done(session, "open")
        await client.done(session, "prompt", branch="main", text="2")
        events = client.server._store.load(session)
        assert not has_text(tmp_path, client.token.encode())
        assert client.token not in str(events)
        assert client.token not in caplog.text
        assert not has_text(Path("/proc/self/environ"), client.token.encode())
        assert not has_text(Path("/proc/self/cmdline"), client.token.encode())


async def eventually(is_so: Callable[[], bool]) -> None:
    """Wait for what no event announces."""
    with anyio.fail_after(20):
        while not is_so():  # noqa: ASYNC110 -- see above
            await anyio.sleep(0.01)


# --- many and slow readers --------------------------------------------------------------------------------------------


async def test_a_hundred_tabs_see_each_change(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        await client.done(session, "open")
        seen: list[int] = []

        async def tab(ready: Callable[[], None]) -> None:
            async with client.live(session, 0, f"tab{len(seen)}") as messages:
                ready()
                async for message in messages:
                    statements = message.get("changes", {}).get("statements", ())
                    if any(each["source"]["text"] == "'seen by all'" for each in statements):
                        seen.append(1)
                        return

        counted = 0
        all_ready = anyio.Event()

        def ready() -> None:
            nonlocal counted
            counted += 1
            if counted == 100:
                all_ready.set()

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(tab, ready)
            await all_ready.wait()
            await client.done(session, "prompt", branch="main", text="'seen by all'")
        assert len(seen) == 100


async def test_too_many_tabs_are_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "MOST_STREAMS", 2)
    async with served(tmp_path) as (client, host):
        session = await session_of(host, tmp_path, "1")
        async with client.live(session, 0, "a") as first, client.live(session, 0, "b") as second:
            await anext(first)
            await anext(second)
            response = await client.get(f"/api/sessions/{session}/live?after=0")
            assert (response.status_code, response.json()) == (503, {"error": app.TOO_MANY})


async def test_a_slow_reader_is_disconnected_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "SLOW_SECONDS", 0.2)
    async with served(tmp_path) as (client, host):
        long = "print('x' * 60_000)"
        session = await session_of(host, tmp_path, *[long] * 3)
        events = (await client.document(session))["session"]["events"]
        request = (
            f"GET /api/sessions/{session}/live?after={events}&client=slow HTTP/1.1\r\n"
            f"host: 127.0.0.1:{client.server.access.port}\r\nauthorization: Bearer {client.token}\r\n\r\n"
        )
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", client.server.access.port))
            connection.sendall(request.encode())
            feed = client.server._feeds[session]
            await eventually(lambda: feed.is_watched)

            def is_cut_off() -> bool:
                for reader in feed._readers:  # it never reads, so what is sent piles up
                    reader.put({"type": "output", "call": "c", "stream": "stdout", "text": "x" * 200_000})
                return not feed.is_watched

            await eventually(is_cut_off)
        async with client.live(session, events, "slow") as messages:
            told = [await anext(messages), await anext(messages)]
        assert told[1] == {"type": "notice", "text": app.WAS_SLOW}
