"""One request and its redirects: hosts that lie about their address, and servers that lie about everything else."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from engine.session import fetching as module
from engine.session.fetching import ADVICE, MOST_BYTES, MOST_REDIRECTS, Fetched, Fetcher, look_up
from engine.session.tools.fetch import checked_url

pytestmark = pytest.mark.anyio
SECONDS = 30.0
HOST = "site.example"
"""Which no resolver knows but the test's."""
Serve = Callable[[str, SocketStream], Awaitable[None]]


def response(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"Content-Type": "text/plain", "Content-Length": str(len(body)), **changed}
    lines = [f"{name}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def redirect(location: str) -> bytes:
    return response(b"", "302 Found", Location=location)


class Site:
    """A server on this machine. `requests` are the heads of what it was sent."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[str] = []
        self.looked_up: list[str] = []
        self.addresses: dict[str, Sequence[str]] = {}
        self.permitted: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host not in self.addresses:
            raise OSError("unknown host")
        return self.addresses[host]

    async def fetch(self, path: str = "/", host: str = HOST, private: Sequence[str] = (HOST,)) -> Fetched:
        async def permit(url: object) -> None:
            self.permitted.append(str(url))

        with anyio.fail_after(SECONDS):
            url = checked_url(f"http://{host}:{self.port}{path}")
            return await Fetcher(private, self.resolve).fetch(url, permit)


@asynccontextmanager
async def site(*answers: bytes, serve: Serve | None = None) -> AsyncIterator[Site]:
    """A site that sends the answers, one for each request, and closes."""
    left = list(answers)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    found = Site(listener.extra(anyio.abc.SocketAttribute.local_port))
    found.addresses[HOST] = ["127.0.0.1"]

    async def handle(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            found.requests.append(head.decode())
            try:
                if serve is not None:
                    await serve(head.decode(), stream)
                else:
                    await stream.send(left.pop(0))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the client has left

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield found
        tasks.cancel_scope.cancel()


async def test_connection_goes_to_the_address_that_was_checked() -> None:
    async with site(response()) as server:
        found = await server.fetch("/a?b=c")
        assert (found.data, found.status, found.content_type, found.is_cut) == (b"hello", 200, "text/plain", False)
        assert server.looked_up == [HOST]
        first, *headers = server.requests[0].split("\r\n")
        assert first == "GET /a?b=c HTTP/1.1"
        names = {line.partition(":")[0].lower() for line in headers if line}
        assert names == {"host", "user-agent", "accept", "accept-encoding"}
        assert f"Host: {HOST}:{server.port}" in headers


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["::ffff:7f00:1"]]
)
async def test_host_with_a_private_address_is_refused_before_the_connection(addresses: list[str]) -> None:
    async with site(response()) as server:
        server.addresses[HOST] = addresses
        with pytest.raises(PermissionError, match=ADVICE):
            await server.fetch(private=())
        assert server.requests == []


@pytest.mark.parametrize("listed", ["{host}", "{host}:{port}"])
async def test_listed_host_may_be_private_but_not_a_clouds_metadata(listed: str) -> None:
    async with site(response()) as server:
        private = [listed.format(host=HOST, port=server.port)]
        assert (await server.fetch(private=private)).data == b"hello"
        server.addresses[HOST] = ["169.254.169.254"]
        with pytest.raises(PermissionError) as error:
            await server.fetch(private=private)
        assert ADVICE not in str(error.value)
        with pytest.raises(PermissionError):
            await server.fetch(private=[f"{HOST}:1", "other.example"])


async def test_second_address_is_used_if_the_first_does_not_answer() -> None:
    async with site(response()) as server:
        server.addresses[HOST] = ["127.0.0.2", "127.0.0.1"]
        assert (await server.fetch()).data == b"hello"


async def test_name_that_leads_elsewhere_for_the_redirect_is_checked_again() -> None:
    async with site(redirect("/next"), response()) as server:

        async def resolve(host: str, port: int) -> Sequence[str]:
            server.looked_up.append(host)
            return ["127.0.0.1"] if len(server.looked_up) == 1 else ["169.254.169.254"]

        server.resolve = resolve  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(PermissionError, match=r"169\.254\.169\.254"):
            await server.fetch()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"]
)
async def test_redirect_to_a_private_address_is_refused(host: str) -> None:
    async with site() as server:

        async def serve(head: str, stream: SocketStream) -> None:
            await stream.send(redirect(f"http://{host}:{server.port}/secret") if "/secret" not in head else response())

        async with site(serve=serve) as other:
            server.port = other.port
            other.addresses |= {name: ["127.0.0.1"] for name in ("127.0.0.1", "2130706433", "0x7f.1")}
            other.addresses |= {
                "169.254.169.254": ["169.254.169.254"],
                "::1": ["::1"],
                "::ffff:127.0.0.1": ["::ffff:127.0.0.1"],
            }
            with pytest.raises(PermissionError):
                await other.fetch()
            assert len(other.requests) == 1


async def test_each_redirect_is_permitted_first() -> None:
    async with site(redirect("/b"), redirect("//other.example:{port}/c"), response()) as server:

        async def serve(head: str, stream: SocketStream) -> None:
            answers = {"/a": redirect("/b"), "/b": redirect(f"//other.example:{server.port}/c"), "/c": response()}
            await stream.send(answers[head.split(" ")[1]])

        async with site(serve=serve) as real:
            server.port = real.port
            real.addresses["other.example"] = ["127.0.0.1"]
            found = await real.fetch("/a", private=(HOST, "other.example"))
            places = [
                f"http://{HOST}:{real.port}/a",
                f"http://{HOST}:{real.port}/b",
                f"http://other.example:{real.port}/c",
            ]
            assert real.permitted == places
            assert str(found.url) == places[-1]


async def test_refused_permission_stops_before_the_request() -> None:
    async with site(response()) as server:

        async def permit(url: object) -> None:
            raise PermissionError("no")

        with pytest.raises(PermissionError, match="no"):
            await Fetcher((HOST,), server.resolve).fetch(checked_url(f"http://{HOST}:{server.port}/"), permit)
        assert (server.requests, server.looked_up) == ([], [])


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("file:///etc/passwd", ValueError),
        ("ftp://example.org/", ValueError),
        ("data:text/plain,x", ValueError),
        ("http://user:password@site.example/", ValueError),
        ("http://", ValueError),
        ("http://[::1/", ValueError),
        ("/", ValueError),
    ],
)
async def test_redirect_to_another_kind_of_address_is_an_error(location: str, error: type[Exception]) -> None:
    async with site(*[redirect(location)] * (MOST_REDIRECTS + 1)) as server:
        with pytest.raises(error, match=r"^fetch\(\): "):
            await server.fetch()


async def test_redirect_from_https_to_http_is_refused() -> None:
    with pytest.raises(ValueError, match="not encrypted"):
        module._redirected(checked_url("https://a/"), "http://a/")  # pyright: ignore[reportPrivateUsage]


ZEROS = b"\0" * (64 << 20)


@pytest.mark.parametrize("how", ["gzip", "x-gzip", "deflate"])
async def test_compressed_response_is_unpacked(how: str) -> None:
    packed = zlib.compress(b"hello" * 100) if how == "deflate" else gzip.compress(b"hello" * 100)
    async with site(response(packed, Content_Encoding=how)) as server:
        assert (await server.fetch()).data == b"hello" * 100


async def test_nothing_is_read_behind_the_end_of_a_compressed_response() -> None:
    endless = response(gzip.compress(b"hello"), Content_Encoding="gzip", Content_Length=str(1 << 40))
    async with site(endless + b"x" * (1 << 20)) as server:
        assert (await server.fetch()).data == b"hello"


async def test_bomb_is_cut_at_the_limit() -> None:
    async with site(response(gzip.compress(ZEROS), Content_Encoding="gzip")) as server:
        found = await server.fetch()
        assert (len(found.data), found.is_cut) == (MOST_BYTES, True)


async def test_bomb_takes_no_more_memory_than_is_wanted_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    async with site(response(gzip.compress(ZEROS), Content_Encoding="gzip")) as server:
        await server.fetch()  # once before, because it imports
    async with site(response(gzip.compress(ZEROS), Content_Encoding="gzip")) as server:
        tracemalloc.start()
        try:
            assert (await server.fetch()).is_cut
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


async def test_endless_response_is_cut_at_the_limit() -> None:
    sent = 0

    async def serve(head: str, stream: SocketStream) -> None:
        nonlocal sent
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5368709120\r\n\r\n")
        while True:
            await stream.send(b"x" * (1 << 20))
            sent += 1

    async with site(serve=serve) as server:
        found = await server.fetch()
        assert (len(found.data), found.is_cut) == (MOST_BYTES, True)
        assert sent < 100


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        response(b"hello", Content_Length="50"),
        response(b"hello", Content_Length="-1"),
        response(b"hello", Content_Length="five"),
        response(b"zz\r\nhello", Content_Length="", Transfer_Encoding="chunked"),
        response(gzip.compress(b"x" * 1000)[:-9], Content_Encoding="gzip"),
        response(b"not gzip", Content_Encoding="gzip"),
        response(b"x", Content_Encoding="br"),
        response(b"x", Content_Encoding="gzip, gzip"),
    ],
    ids=["nothing", "noise", "headers", "short", "negative", "word", "chunks", "cut", "plain", "br", "twice"],
)
async def test_broken_response_is_an_error_with_the_site(answer: bytes) -> None:
    async with site(answer) as server:
        with pytest.raises(ConnectionError, match=HOST):
            await server.fetch()


async def test_body_ends_where_its_length_says() -> None:
    async with site(response(b"hello", Content_Length="2")) as server:
        assert (await server.fetch()).data == b"he"


async def test_server_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FETCH_SECONDS", 0.3)

    async def drip(head: str, stream: SocketStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send(b"x")
            await anyio.sleep(0.01)

    async def silence(head: str, stream: SocketStream) -> None:
        await anyio.sleep_forever()

    for serve in (drip, silence):
        async with site(serve=serve) as server:
            with pytest.raises(TimeoutError, match=HOST):
                await server.fetch()


async def test_time_of_a_question_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FETCH_SECONDS", 0.3)
    async with site(response()) as server:

        async def permit(url: object) -> None:
            await anyio.sleep(0.5)

        found = await Fetcher((HOST,), server.resolve).fetch(checked_url(f"http://{HOST}:{server.port}/"), permit)
        assert found.data == b"hello"


async def test_unknown_hosts_and_closed_ports_are_errors() -> None:
    async with site() as server:
        with pytest.raises(ConnectionError, match="unknown host"):
            await server.fetch(host="other.example")
        server.addresses[HOST] = []
        with pytest.raises(ConnectionError, match="no address"):
            await server.fetch()
    server.addresses[HOST] = ["127.0.0.1"]
    with pytest.raises(ConnectionError, match=HOST):
        await server.fetch()


async def test_status_of_a_failure_is_part_of_the_response() -> None:
    async with site(response(b"gone", "404 Not Found")) as server:
        found = await server.fetch()
        assert (found.status, found.data) == (404, b"gone")


async def test_proxy_and_cookies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with site(response(b"1", Set_Cookie="a=b"), response(b"2")) as server:
        assert [(await server.fetch()).data for _ in range(2)] == [b"1", b"2"]
        assert "cookie" not in server.requests[1].lower()


SLOW = """
import anyio, socket, sys, time
from engine.session.fetching import look_up
socket.getaddrinfo = lambda *args, **others: time.sleep(60)
async def main():
    with anyio.move_on_after(0.2):
        await look_up("site.example", 80)
anyio.run(main)
"""


def test_a_slow_look_up_does_not_hold_up_the_end_of_the_process() -> None:
    subprocess.run([sys.executable, "-c", SLOW], check=True, timeout=20)


async def test_what_is_no_host_is_an_error() -> None:
    for host in (f"{'a' * 64}.example", "no-such-host.invalid", "\u00e9..example"):
        with pytest.raises(OSError):  # noqa: PT011 -- the system's own words
            await look_up(host, 80)
    assert "127.0.0.1" in await look_up("localhost", 80)
