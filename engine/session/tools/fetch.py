"""`fetch(url)`: which addresses may be fetched at all, and what a statement gets for a response.

Must not use the network: `session.fetching` does. The addresses of hosts are checked there too, by `refusal`: after the
name was looked up, and right before the connection.
"""

from __future__ import annotations

import codecs
import ipaddress
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from .workspace import Workspace

if TYPE_CHECKING:  # loaded with the first page
    from httpx2 import URL

LONGEST_ADDRESS: Final = 8_000
_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+", re.IGNORECASE)
_LAST_PORT: Final = 65_535
_PORTS: Final = {"http": 80, "https": 443}


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str


@dataclass(frozen=True, slots=True)
class Download:
    """An address that may be fetched, if its host may; not yet fetched."""

    url: URL


def fetch(_workspace: Workspace, arguments: Arguments) -> Download:
    """Check the address. Raises ValueError."""
    return Download(checked_url(arguments.url.strip()))


def checked_url(text: str) -> URL:
    """Return the address without its fragment. Raises ValueError if it is not one that may be fetched.

    The error repeats nothing of the text, which may contain a secret: a statement must not find out whether it does.
    """
    import httpx2  # with the first page

    if len(text) > LONGEST_ADDRESS:
        raise ValueError(f"fetch(): the address has {len(text):,} characters; the limit is {LONGEST_ADDRESS:,}")
    try:
        url = httpx2.URL(text)
        host = url.raw_host.decode()
    except (httpx2.InvalidURL, ValueError, TypeError):
        raise ValueError("fetch(): the address is invalid") from None
    if url.scheme not in _PORTS:
        raise ValueError("fetch(): the address does not begin with http:// or https://; open() reads files")
    if url.userinfo:
        raise ValueError("fetch(): an address with a user name or password is not fetched")
    if not _HOST.fullmatch(host) or not 0 < port_of(url) <= _LAST_PORT:
        raise ValueError("fetch(): the host or the port of the address is invalid")
    return url.copy_with(fragment=None)


def site_of(url: URL) -> str:
    """Return the scheme and the host, with a port that is not the usual one."""
    return f"{url.scheme}://{url.netloc.decode()}"


def port_of(url: URL) -> int:
    """Return the port to connect to."""
    return _PORTS[url.scheme] if url.port is None else url.port


# --- addresses of hosts -----------------------------------------------------------------------------------------------

_PLATFORM: Final = (ipaddress.ip_address("168.63.129.16"),)
"""Services of a cloud at public addresses, which only its own machines reach."""
_TRANSLATED: Final = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
"""Prefixes of NAT64 (RFC 6052) and of stateless translation (RFC 2765), before an IPv4 address."""
_ISATAP: Final = 0x5EFE
_UNUSED: Final = tuple(map(ipaddress.ip_network, ("3fff::/20", "5f00::/16")))
"""Of documentation (RFC 9637) and of segment routing (RFC 9602), which not each Python knows."""
_COMPATIBLE: Final = ipaddress.ip_network("::/96")
_LOCAL_USE: Final = tuple(map(ipaddress.ip_network, ("fec0::/10", "64:ff9b:1::/48")))
"""Site-local addresses (RFC 3879), and those of local NAT64 (RFC 8215), with an IPv4 address at any of its places."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def refusal(text: str, *, private: bool = False) -> str:
    """Return why nothing may be fetched from an IP address; empty if it may.

    With `private`, addresses of this machine and of its networks are allowed, but never those of a cloud's metadata.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "this is not an IP address"
    for each in (address, *_within(address)):
        if reason := _refusal(each, private=private):
            return reason
    return ""


def _within(address: Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    is_translated = any(address in network for network in _TRANSLATED)
    is_tunnelled = (int(address) >> 32) & 0xFDFF_FFFF == _ISATAP
    if is_translated or is_tunnelled or (address in _COMPATIBLE and int(address) > 1):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    return [each for each in found if each is not None]


def _refusal(address: Address, *, private: bool) -> str:
    if address.is_link_local or address in _PLATFORM or _is_of_network(address):
        return "the address belongs to this machine's network, which may serve keys"
    if address.is_multicast or address.is_unspecified:
        return "no host can have this address"
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    if (address.is_global or mapped) and not any(address in network for network in _UNUSED):
        return ""
    return "" if private else "it is private"


_METADATA: Final = ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42", "100.100.100.200", "192.0.0.192")
"""Of Amazon, Google, Scaleway, Alibaba and Oracle, beside the link-local one that most have."""


def _is_of_network(address: Address) -> bool:
    return str(address) in _METADATA or any(address in network for network in _LOCAL_USE)


# --- responses --------------------------------------------------------------------------------------------------------

PAGES: Final = frozenset(("text/html", "application/xhtml+xml"))
_TEXTS: Final = re.compile(
    r"text/.*|.*[+/](json|xml|yaml|toml|javascript|ecmascript|x-ndjson|jsonl|graphql|sql|x-sh|x-yaml|x-javascript)"
)
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 80
_HEAD_BYTES: Final = 4096
_CHARSETS: Final = frozenset(
    (
        *("ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "cp866", "cp874"),
        *("mac-roman", "mac-cyrillic", "tis-620", "gb2312", "gbk", "gb18030", "hz", "big5", "big5hkscs", "cp932"),
        *("cp949", "euc_jp", "euc_kr", "shift_jis", "iso2022_jp"),
        *(f"iso8859-{number}" for number in range(1, 17)),
        *(f"cp{number}" for number in range(1250, 1259)),
    )
)
"""The codecs for charsets of the web, by Python's names. Others that Python has may take hours (`punycode`)."""
_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SUFFIXES: Final = {"text/html": ".html", "application/pdf": ".pdf", "application/zip": ".zip", "image/png": ".png"}


def media_type(header: str, data: bytes) -> tuple[str, str]:
    """Return the media type and the charset of a response; without a header, by the first bytes."""
    kind, *parameters = (part.strip() for part in header.split(";"))
    charset = next((part[8:].strip("\"' ") for part in parameters if part.lower().startswith("charset=")), "")
    if kind:
        return kind.lower(), charset
    head = data[:1024].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "text/html", charset
    return ("text/plain" if _is_text(data) else "application/octet-stream"), charset


def _is_text(data: bytes) -> bool:
    head = data[:_HEAD_BYTES]
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(head, final=len(data) <= _HEAD_BYTES)  # because the last character may be cut
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def is_text(kind: str) -> bool:
    """Return whether responses of a media type are text."""
    return _TEXTS.fullmatch(kind) is not None


def decoded_text(data: bytes, charset: str) -> str:
    """Return a response as text: by its charset, a byte order mark, as UTF-8, or as Windows' Western encoding."""
    marked = "utf-16" if data[:2] in _MARKS else "utf-8-sig"
    for name in filter(None, (charset, marked)):
        try:
            if codecs.lookup(name).name in _CHARSETS:
                return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")


def file_name(url: URL, kind: str) -> str:
    """Return a name for the file of a response: the end of the address, as harmless characters."""
    name = _NAME.sub("_", url.path.rstrip("/").rpartition("/")[2])[-_LONGEST_NAME:].lstrip(".-_")
    return name if os.path.splitext(name)[1] else f"{name or 'download'}{_SUFFIXES.get(kind, '')}"
