"""Fetches what statements ask for: one GET request, its redirects, and the response within limits.

The host of each address is looked up here, all of its addresses are checked, and the connection goes to an address that
was checked: a name that leads elsewhere a moment later changes nothing. The same is done for every redirect, after the
user was asked about its site. A request has no cookies, no keys and no other state, and goes through no proxy, because
a proxy would look up the name again. `fetched` makes of a response what a statement gets: Markdown, other text, or a
file. Must not know sessions or statements. Used by `tool_calls`.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from ..core.installation import __version__
from .daemon_threads import on_daemon_thread
from .tools.fetch import checked_url, port_of, refusal, site_of

if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream, Response
    from httpx2 import URL
from ..runtime.pages import markdown_of
from .tools.fetch import PAGES, decoded_text, file_name, is_text, media_type

MOST_BYTES: Final = 20 << 20
"""The most that is read of a response, after decompression."""
FETCH_SECONDS: Final = 60.0
"""The time limit of a request with all its redirects. A question to the user does not count."""
CONNECT_SECONDS: Final = 15.0
MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_PLAIN: Final = ("", "identity")
_ZIPPED: Final = ("gzip", "x-gzip", "deflate")
_EITHER_HEADER: Final = zlib.MAX_WBITS | 32
"""For `zlib`: gzip or zlib, as the data says."""
_HEADERS: Final = {
    "User-Agent": f"rewindow/{__version__}",
    "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
ADVICE: Final = "; the user can allow the host with the setting fetch_private"
TOO_SLOW: Final = f"the response did not end within {FETCH_SECONDS:g} s"

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host. Raises OSError."""
Permit = Callable[["URL"], Awaitable[None]]
"""Asks the user about an address. Raises PermissionError."""


_NO_HOST: Final = "{} cannot be the name of a host"


class Fetched(Struct, frozen=True, kw_only=True):
    """A response: the last address, its status, `Content-Type` and body, and whether the body was cut."""

    url: Any
    status: int
    content_type: str
    data: bytes
    is_cut: bool


async def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the system finds them. A process that ends does not wait for it."""
    found: dict[str, None] = {}
    errors: list[OSError] = []

    def find() -> None:
        try:
            # As `anyio.getaddrinfo`, for a host that is not ASCII.
            known = host.encode("ascii") if host.isascii() else host.encode("idna")
            rows = socket.getaddrinfo(known, port, type=socket.SOCK_STREAM)
            found.update(dict.fromkeys(str(place[0]) for *_, place in rows))
        except OSError as error:
            errors.append(error)
        except ValueError:  # a label that is empty or too long
            errors.append(OSError(_NO_HOST.format(host)))

    await on_daemon_thread(find)
    if errors:
        raise errors[0]
    return list(found)


class Fetcher:
    """Fetches addresses.

    Args:
        private: hosts, or `HOST:PORT`, that may have private addresses.
        resolve: looks up hosts; for tests.
    """

    def __init__(self, private: Iterable[str] = (), resolve: Resolve = look_up) -> None:
        self._private = frozenset(each.lower() for each in private)
        self._resolve = resolve

    async def fetch(self, url: URL, permit: Permit) -> Fetched:
        """Return the response, after any redirects.

        Raises:
            PermissionError: the user or the check of the address refused it.
            ValueError: a redirect leads to an address that is not fetched, or there are too many.
            ConnectionError, TimeoutError: there is no response, or it broke off.
        """
        left = FETCH_SECONDS
        for _ in range(MOST_REDIRECTS + 1):
            await permit(url)
            began = anyio.current_time()
            try:
                with anyio.fail_after(left):
                    found = await self._once(url)
            except TimeoutError:
                raise TimeoutError(f"fetch(): {site_of(url)}: {TOO_SLOW}") from None
            left -= anyio.current_time() - began
            if isinstance(found, Fetched):
                return found
            url = found
        raise ValueError(f"fetch(): more than {MOST_REDIRECTS} redirects")

    async def _once(self, url: URL) -> Fetched | URL:
        """Return the response, or the address that it redirects to."""
        import httpcore2  # with the first page

        addresses = await self._addresses(url)
        try:
            async with httpcore2.AsyncConnectionPool(
                network_backend=_checked_backend(addresses),
                ssl_context=await anyio.to_thread.run_sync(_ssl_context) if url.scheme == "https" else None,
            ) as pool:
                timeout = {"connect": CONNECT_SECONDS}
                target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
                headers: Mapping[bytes | str, bytes | str] = {"Host": url.netloc.decode(), **_HEADERS}
                async with pool.stream("GET", target, headers=headers, extensions={"timeout": timeout}) as response:
                    return await _read(url, response)
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.TimeoutException,
            zlib.error,
            OSError,
        ) as error:
            raise ConnectionError(f"fetch(): {site_of(url)}: {_reason(error)}") from None

    async def _addresses(self, url: URL) -> Sequence[str]:
        """Return the addresses to connect to; all of the host's, because any one may be used."""
        host, port = url.raw_host.decode(), port_of(url)
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ConnectionError(f"fetch(): {host} was not found: {_reason(error)}") from None
        shown = f"[{host}]" if ":" in host else host
        is_listed = not self._private.isdisjoint((shown, f"{shown}:{port}"))
        for address in found:
            if reason := refusal(address, private=is_listed):
                advice = "" if refusal(address, private=True) else ADVICE
                raise PermissionError(f"fetch(): {shown} has the address {address}, which is refused: {reason}{advice}")
        if not found:
            raise ConnectionError(f"fetch(): {host} has no address")
        return found


def _ssl_context() -> Any:
    import httpx2

    return httpx2.create_ssl_context()  # with SSL_CERT_FILE, by which companies add their own authorities


def _checked_backend(addresses: Sequence[str]) -> AsyncNetworkBackend:
    """Return a network that connects to these addresses, whatever the name is."""
    import httpcore2

    network = cast("AsyncNetworkBackend", httpcore2.AnyIOBackend())

    class Checked(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> AsyncNetworkStream:
            del host  # which was looked up and checked
            failure: Exception | None = None
            for address in addresses:
                try:
                    return await network.connect_tcp(address, port, *args, **options)
                except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
                    failure = error
            raise failure or httpcore2.ConnectError("the host has no address")

    return Checked()


async def _read(url: URL, response: Response) -> Fetched | URL:
    headers = {name.decode("ascii", "replace").lower(): value.decode("latin-1") for name, value in response.headers}
    if response.status in _REDIRECTS and "location" in headers:
        return _redirected(url, headers["location"])
    data, is_cut = await _body(headers, response.aiter_stream())
    return Fetched(
        url=url, status=response.status, content_type=headers.get("content-type", ""), data=data, is_cut=is_cut
    )


def _redirected(url: URL, location: str) -> URL:
    """Return the address that a response redirects to. Raises ValueError."""
    import httpx2

    try:
        joined = str(url.join(location))
    except (httpx2.InvalidURL, ValueError) as error:
        raise ValueError(f"fetch(): {site_of(url)} redirects to an invalid address: {error}") from None
    target = checked_url(joined)
    if url.scheme == "https" and target.scheme != "https":
        raise ValueError(f"fetch(): {site_of(url)} redirects to {site_of(target)}, which is not encrypted")
    return target


async def _body(headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Return the body without its compression, and whether it was cut at `MOST_BYTES`."""
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding in _PLAIN:
        unzip = None
    elif encoding in _ZIPPED:
        unzip = zlib.decompressobj(_EITHER_HEADER)
    else:
        raise ConnectionError(f"the response is encoded as {encoding[:40]!r}, which was not requested")
    found = bytearray()
    async for chunk in chunks:
        # A small piece may become any amount, so no more is made of it than is still wanted.
        found += chunk if unzip is None else unzip.decompress(chunk, MOST_BYTES + 1 - len(found))
        if len(found) > MOST_BYTES:
            return bytes(found[:MOST_BYTES]), True
        if unzip is not None and unzip.eof:
            break  # what follows is no part of it, and may have no end
    if unzip is not None and not unzip.eof:
        raise ConnectionError("the compressed response is incomplete")
    return bytes(found), False


def _reason(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:300] or type(error).__name__


CUT: Final = f"cut after {MOST_BYTES >> 20} MiB"


def fetched(response: Fetched, keep: Callable[[str, bytes], str]) -> dict[str, object]:
    """Return the plain data of the answer (`runtime.results`). `keep` writes a file and returns its path.

    Raises OSError if the file cannot be written.
    """
    kind, charset = media_type(response.content_type, response.data)
    answer: dict[str, object] = {"url": str(response.url), "status": response.status, "type": kind}
    notes = [CUT] if response.is_cut else []
    if kind in PAGES:
        try:
            page = markdown_of(response.data, str(response.url), charset)
        except ValueError as error:
            notes.append(str(error))
        else:
            return {**answer, "title": page.title, "text": page.text, "note": "; ".join(notes)}
    elif is_text(kind):
        return {**answer, "text": decoded_text(response.data, charset), "note": "; ".join(notes)}
    path = keep(file_name(response.url, kind), response.data) if response.data else ""
    return {**answer, "path": path, "note": "; ".join(notes)}
