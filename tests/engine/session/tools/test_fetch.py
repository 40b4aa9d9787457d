"""`fetch`: which addresses are refused, and what a response is taken for."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from engine.session.tools import Download, Workspace
from engine.session.tools.fetch import (
    LONGEST_ADDRESS,
    Arguments,
    checked_url,
    decoded_text,
    fetch,
    file_name,
    is_text,
    media_type,
    port_of,
    refusal,
    site_of,
)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "/etc/passwd",
        "file:///etc/passwd",
        "ftp://example.org/x",
        "data:text/html,x",
        "javascript:alert(1)",
        "ws://example.org/",
        "unix:///run/docker.sock",
        "http://",
        "https:///x",
        "http://user:password@example.org/",
        "http://user@example.org/",
        "http://@example.org:x/",
        "http://example.org:99999999/",
        "http://exa mple.org/",
        "http://example.org/\r\nX: y",
        "http://[::1/",
        "https://example.org/" + "x" * LONGEST_ADDRESS,
    ],
)
def test_other_addresses_are_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ValueError, match=r"^fetch\(\): ") as error:
        fetch(Workspace(str(tmp_path)), Arguments(address))
    assert ":password" not in str(error.value)


def test_address_is_normalized_and_has_no_fragment(tmp_path: Path) -> None:
    found = fetch(Workspace(str(tmp_path)), Arguments(" HTTPS://Müller.DE:443/a b?q=ü#part "))
    assert isinstance(found, Download)
    assert str(found.url) == "https://xn--mller-kva.de/a%20b?q=%C3%BC"
    assert (site_of(found.url), port_of(found.url)) == ("https://xn--mller-kva.de", 443)
    other = checked_url("http://[2001:db8::1]:81/x")
    assert (site_of(other), port_of(other)) == ("http://[2001:db8::1]:81", 81)


PUBLIC = (
    "93.184.216.34",
    "8.8.8.8",
    "2606:2800:220:1:248:1893:25c8:1946",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "::ffff:0:808:808",
)
NEVER = (
    *(
        "169.254.169.254",
        "169.254.170.2",
        "fd00:ec2::254",
        "fd20:ce::254",
        "fd00:42::42",
        "fe80::1",
        "fe80::1%eth0",
        "100.100.100.200",
    ),
    *("168.63.129.16", "192.0.0.192", "fec0::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1"),
    *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::", "::a9fe:a9fe"),
    *("fd00:ec2::23", "64:ff9b:1:a9fe:a9:fe00:0:1"),
    *("::ffff:0:a9fe:a9fe", "2606:2800::5efe:a9fe:a9fe", "2606:2800::200:5efe:a9fe:a9fe"),
    *("not an address", "", "127.0.0.1:80"),
)
PRIVATE = (
    *("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "240.0.0.1"),
    *("::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    *("::127.0.0.1", "::10.0.0.1", "2001:db8::1"),
    *("::ffff:0:7f00:1", "2606:2800::5efe:a00:1", "3fff::1", "5f00::1"),
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_fetched_from(address: str) -> None:
    assert refusal(address) == ""


@pytest.mark.parametrize("address", [*NEVER, *PRIVATE])
def test_private_addresses_are_refused_in_every_spelling(address: str) -> None:
    assert refusal(address)


def test_listed_host_may_be_private_but_never_serve_a_clouds_keys() -> None:
    assert [address for address in PRIVATE if refusal(address, private=True)] == []
    assert [address for address in NEVER if not refusal(address, private=True)] == []


@pytest.mark.parametrize(
    ("header", "data", "kind", "charset"),
    [
        ("text/html; charset=UTF-8", b"", "text/html", "UTF-8"),
        ("Text/HTML", b"", "text/html", ""),
        ('text/plain; x=y; Charset="latin-1"', b"", "text/plain", "latin-1"),
        ("", b"\n <!DOCTYPE html><p>", "text/html", ""),
        ("", b"plain", "text/plain", ""),
        ("", ("\u00e9" * 5000).encode(), "text/plain", ""),
        ("", b"\xff\xfe\x00", "application/octet-stream", ""),
        ("", b"a\0b", "application/octet-stream", ""),
        (";;;", b"plain", "text/plain", ""),
    ],
)
def test_kind_is_the_headers_or_that_of_the_first_bytes(header: str, data: bytes, kind: str, charset: str) -> None:
    assert media_type(header, data) == (kind, charset)


def test_texts_are_told_from_files() -> None:
    for kind in ("text/plain", "text/csv", "application/json", "application/ld+json", "image/svg+xml"):
        assert is_text(kind)
    for kind in ("application/pdf", "image/png", "application/octet-stream", "application/zip", "audio/mpeg"):
        assert not is_text(kind)


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        ("é".encode(), ""),
        ("é".encode(), "utf-8"),
        ("é".encode(), "no-such"),
        ("é".encode("latin-1"), "latin-1"),
        ("é".encode("latin-1"), ""),
        ("é".encode("latin-1"), "utf-8"),
        ("é".encode("utf-16"), ""),
        ("é".encode("utf-8-sig"), ""),
        ("é".encode(), "zlib"),
        ("é".encode(), "a\0b"),
    ],
)
def test_text_is_decoded_whatever_the_charset_says(data: bytes, charset: str) -> None:
    assert decoded_text(data, charset) == "é"


@pytest.mark.parametrize("charset", ["punycode", "idna", "utf-7", "unicode_escape", "raw_unicode_escape"])
def test_what_is_no_charset_of_the_web_decodes_nothing(charset: str) -> None:
    assert decoded_text(b"a+AGE-b-\\u0061kva", charset) == "a+AGE-b-\\u0061kva"


@pytest.mark.parametrize(
    ("address", "kind", "name"),
    [
        ("https://a/b/c.tar.gz?x=y", "application/gzip", "c.tar.gz"),
        ("https://a/", "application/pdf", "download.pdf"),
        ("https://a/report", "application/pdf", "report.pdf"),
        ("https://a/..%2f..%2fx.sh", "application/x", "x.sh"),
        ("https://a/.bashrc", "application/x", "bashrc"),
        ("https://a/-rf", "application/x", "rf"),
        ("https://a/%00%1b.png", "image/png", "png.png"),
    ],
)
def test_name_of_a_file_is_harmless(address: str, kind: str, name: str) -> None:
    assert file_name(httpx2.URL(address), kind) == name
    assert len(file_name(httpx2.URL(f"https://a/{'x' * 500}.bin"), kind)) < 100
