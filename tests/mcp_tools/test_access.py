"""Who may connect, and which directories a session may open."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from mcp_tools.access import (
    FILE_NAME,
    MISSING,
    VARIABLE,
    Access,
    AccessError,
    Roots,
    Token,
    address_of,
    command_line_roots,
    session_roots,
    token_of,
)
from tests.support.mcp_http import TOKEN


def test_token_needs_exactly_one_header() -> None:
    right = f"Bearer {TOKEN}".encode()
    token = Token(TOKEN, "a test")
    assert token.is_given_by([right])
    assert not token.is_given_by([right, right])
    assert not token.is_given_by([])
    assert not token.is_given_by([b"Bearer \xff\xfe"])


NOT_OURS = [
    b"",
    b" ",
    b"null",
    b"evil.com",
    b"localhost.evil.com",
    b"127.0.0.1.evil.com",
    b"evil.com#localhost",
    b"127.0.0.1:8765.evil.com",  # the transport's own check accepted it as a port
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
    "localhost:\u0668\u0660".encode(),  # non-ASCII digits
    "l\u043ecalhost".encode(),
    "\uff4cocalhost".encode(),
    b"localhost\xff",
    b"xn--localhost-",
]


OURS = [b"127.0.0.1", b"localhost", b"[::1]", b"127.0.0.1:1", b"localhost:65535", b"[::1]:8765", b"box.lan:443"]


@pytest.mark.parametrize("given", NOT_OURS)
def test_foreign_names_are_refused(given: bytes) -> None:
    access = Access(address=address_of("8765"), token=None, hosts=("box.lan",))
    assert not access.is_host([given])
    assert not access.is_origin([b"http://" + given])
    assert not access.is_origin([b"https://" + given])


@pytest.mark.parametrize("given", OURS)
def test_own_names_are_accepted_with_any_port(given: bytes) -> None:
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
def test_invalid_origins_are_refused(given: bytes) -> None:
    assert not Access(address=address_of("8765"), token=None).is_origin([given])


def test_duplicate_headers_are_refused() -> None:
    access = Access(address=address_of("8765"), token=None)
    assert access.is_origin([])
    assert not access.is_origin([b"http://localhost"] * 2)
    assert not access.is_origin([b"http://localhost", b"http://evil.com"])
    assert not access.is_host([])
    assert not access.is_host([b"localhost"] * 2)
    assert not access.is_host([b"localhost", b"evil.com"])


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
def test_address_defaults_to_loopback(given: str, host: str, port: int, is_loopback: bool) -> None:
    address = address_of(given)
    assert (address.host, address.port, address.is_loopback) == (host, port, is_loopback)


@pytest.mark.parametrize(
    "given", ["", "x", "-1", "65536", "1e3", "99999999999", "no such host:1", "host.invalid:1", "²"]
)
def test_invalid_address(given: str) -> None:
    with pytest.raises(AccessError, match="--http"):
        address_of(given)


def test_allowed_names() -> None:
    assert Access(address=address_of("0"), token=None).allowed == ("127.0.0.1", "localhost", "[::1]")
    allowed = Access(address=address_of("0.0.0.0:0"), token=None, hosts=("box.lan",)).allowed
    assert allowed == ("127.0.0.1", "localhost", "[::1]", socket.gethostname(), "box.lan")


def test_token_is_created_once_and_private(tmp_path: Path) -> None:
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
def test_unusable_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(AccessError):
        token_of(str(path), None, tmp_path)
    with pytest.raises(AccessError):
        token_of(None, text, tmp_path)


def test_token_readable_by_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("x" * 40)
    path.chmod(0o640)
    with pytest.raises(AccessError, match=r"other users can read .*; run `chmod 600`"):
        token_of(None, None, tmp_path)
    for name in ("nothing", "."):
        with pytest.raises(AccessError):
            token_of(str(tmp_path / name), None, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AccessError, match="is not a regular file"):
        token_of(str(tmp_path / "pipe"), None, tmp_path)


def never(_: str) -> bool:
    """No directory is one of Rewindow's own."""
    return False


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory; the working directory is a project in it."""
    project = tmp_path / "home" / "a project"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project)
    return tmp_path / "home"


def test_roots_default_to_working_directory(home: Path) -> None:
    assert session_roots(None, None, never) == session_roots(None, [], never) == Roots((str(home / "a project"),))


def test_client_roots_are_local_directories(home: Path) -> None:
    (home / "b").mkdir()
    named = [
        (home / "a project").as_uri(),
        f"file://localhost{home}/b",
        "http://x/y",
        "file://other/b",
        "nonsense",
        "file:///a%00b",
        "file://[",
        "file:///" + "a" * 5000,
    ]
    assert session_roots(None, named, never).directories == (str(home / "a project"), str(home / "b"))


def test_command_line_limits_client_roots(home: Path) -> None:
    (home / "b").mkdir()
    (home / "link").symlink_to(home / "b")
    limit = command_line_roots([str(home / "a project"), "~/a project"])
    assert limit == Roots((str(home / "a project"),))
    inner = home / "a project" / "inner"
    inner.mkdir()
    assert session_roots(limit, [inner.as_uri()], never).directories == (str(inner),)
    assert session_roots(limit, [(home / "b").as_uri(), (home / "link").as_uri(), "file:///"], never) == limit
    assert command_line_roots([]) is None


def test_only_command_line_names_wide_roots(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "to home").symlink_to(home)
    for wide in ("/", str(home), str(home.parent), str(home / "to home")):
        with pytest.raises(AccessError, match="too broad to serve; name a project with --root DIR"):
            session_roots(None, [Path(wide).as_uri()], never)
    assert command_line_roots(["/"]) == Roots(("/",))
    monkeypatch.chdir(home)
    with pytest.raises(AccessError, match="too broad"):
        session_roots(None, None, never)
    with pytest.raises(AccessError, match=MISSING):
        command_line_roots([str(home / "nothing")])


def test_only_command_line_names_directories_of_this_program(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = home / "a project" / "state"
    state.mkdir()

    def is_own(path: str) -> bool:
        return path == str(state)

    with pytest.raises(AccessError, match="has files that Rewindow trusts; name a project with --root DIR"):
        session_roots(None, [(home / "a project").as_uri(), state.as_uri()], is_own)
    assert session_roots(None, [(home / "a project").as_uri()], is_own).directories == (str(home / "a project"),)
    assert session_roots(command_line_roots([str(state)]), [state.as_uri()], is_own) == Roots((str(state),))
    monkeypatch.chdir(state)
    with pytest.raises(AccessError, match="trusts"):
        session_roots(None, None, is_own)


def test_root_with_non_utf8_name(home: Path) -> None:
    named = os.fsencode(home) + b"/caf\xe9"
    os.mkdir(named)
    assert session_roots(None, [f"file://{home}/caf%E9"], never).directories == (os.fsdecode(named),)


def test_deleted_working_directory(home: Path) -> None:
    (home / "a project").rmdir()
    with pytest.raises(AccessError, match="the working directory no longer exists; name a project with --root DIR"):
        session_roots(None, None, never)
